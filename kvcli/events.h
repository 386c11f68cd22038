/* SPDX-License-Identifier: Apache-2.0 */
/* events.h -- kv-client events: what the servers store and remove, as it happens. */
#ifndef KVRAIL_KVCLI_EVENTS_H
#define KVRAIL_KVCLI_EVENTS_H

#include "kvcli/command.h"

/* events_run -- print events until Ctrl-C, or with --once until every connected server's snapshot is complete. The exit
 * status; CLI_USAGE, CLI_FAILED with *err. */
int events_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

/* events_since_parse -- read "NODE=EPOCH:SEQUENCE" of --since, the epoch in hexadecimal. Cuts the text: out->node
 * points into it. False: it is none. */
bool events_since_parse(char *text, struct kvc_position *out);

#endif
