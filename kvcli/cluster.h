/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h -- kv-client cluster: the members of the view, and their state. */
#ifndef KVRAIL_KVCLI_CLUSTER_H
#define KVRAIL_KVCLI_CLUSTER_H

#include "kvcli/command.h"

/* cluster_run -- print the table, or with --json one object. CLI_OK: all members answer; CLI_NOT_FOUND: some do not;
 * CLI_FAILED with *err. */
int cluster_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
