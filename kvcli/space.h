/* SPDX-License-Identifier: Apache-2.0 */
/* space.h -- kv-client clear, kv-client namespaces. */
#ifndef KVRAIL_KVCLI_SPACE_H
#define KVRAIL_KVCLI_SPACE_H

#include "kvcli/command.h"

/* clear_run -- clear the namespace of --namespace. CLI_OK, or CLI_FAILED with *err.
 * namespaces_run -- print the namespaces of all servers, or with --json one object. CLI_OK; CLI_NOT_FOUND: some server
 * does not answer; CLI_FAILED with *err. */
int clear_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);
int namespaces_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
