/* SPDX-License-Identifier: Apache-2.0 */
/* stat.h -- the stat command: counters of the servers, and this client's state. */
#ifndef KVRAIL_KVCLI_STAT_H
#define KVRAIL_KVCLI_STAT_H

#include "kvcli/command.h"

/* stat_run -- print the servers' statistics: with --shards also each shard's, with --all also the client's own; as
 * text, or with --json as one object; with --watch repeatedly, until SIGINT. CLI_OK, or CLI_FAILED with *err if a
 * server did not answer; without --watch the others were printed. */
int stat_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
