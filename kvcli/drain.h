/* SPDX-License-Identifier: Apache-2.0 */
/* drain.h -- kv-client drain NODE: let a server push its values to others, say goodbye, and end. */
#ifndef KVRAIL_KVCLI_DRAIN_H
#define KVRAIL_KVCLI_DRAIN_H

#include "kvcli/command.h"

/* drain_run -- ask, wait for the server's goodbye, and print its report. CLI_OK; CLI_PART: other servers lack some of
 * its values, or it did not report; CLI_NOT_FOUND: no such server; CLI_FAILED; the last two with *err. */
int drain_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
