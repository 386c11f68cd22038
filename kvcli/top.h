/* SPDX-License-Identifier: Apache-2.0 */
/* top.h -- kv-client top: a live table of the servers. */
#ifndef KVRAIL_KVCLI_TOP_H
#define KVRAIL_KVCLI_TOP_H

#include "kvcli/command.h"

/* top_run -- print the table every --interval until Ctrl-C, or with --once one time. The exit status; on CLI_FAILED
 * with *err. */
int top_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
