/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h -- kv-client leases. */
#ifndef KVRAIL_KVCLI_LEASE_H
#define KVRAIL_KVCLI_LEASE_H

#include "kvcli/command.h"

/* leases_run -- print the clients that hold leases on their servers' hosts, or with --json one object. CLI_OK;
 * CLI_NOT_FOUND: some server does not answer; CLI_FAILED with *err. */
int leases_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
