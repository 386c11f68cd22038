/* SPDX-License-Identifier: Apache-2.0 */
/* stat.h -- the stat command: what the servers count, and what this client sees of them. */
#ifndef KVRAIL_KVCLI_STAT_H
#define KVRAIL_KVCLI_STAT_H

#include "kvcli/command.h"

/* stat_run -- print the servers' statistics, with --shards of each shard too, with --all the client's own side as well,
 * as text or, with --json, as one object. CLI_OK, or CLI_FAILED with *err (a server that did not answer; the others
 * were printed). */
int stat_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
