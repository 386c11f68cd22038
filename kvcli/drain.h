/* SPDX-License-Identifier: Apache-2.0 */
/* drain.h -- kv-client drain NODE: have a server push its values to others, say goodbye, and end. */
#ifndef KVRAIL_KVCLI_DRAIN_H
#define KVRAIL_KVCLI_DRAIN_H

#include "kvcli/command.h"

/* drain_run -- ask, wait until the server has said goodbye, and print its report. CLI_OK; CLI_PART: other servers do
 * not have all of its values, or it did not say; CLI_NOT_FOUND: no server has that name; CLI_FAILED; the last two with
 * *err.
 */
int drain_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
