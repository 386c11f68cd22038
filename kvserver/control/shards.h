/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h -- the shards of a server. */
#ifndef KVRAIL_KVSERVER_CONTROL_SHARDS_H
#define KVRAIL_KVSERVER_CONTROL_SHARDS_H

#include "base/base.h"

struct kvs_server;

/* shards_make -- create them on their loops, which do not turn yet, and see how many clients the limit of open files
 * has room for then. Fills shard, identity, files, and what they decide of opt. 0 or a code with *err. */
int shards_make(struct kvs_server *s, struct kv_error *err);

/* shards_prefault -- have the pages of the shards' memory made in the background, if the options want it; a failure is
 * logged. Thread: any, once; kv_prefault_stop(&s->prefault) before the shards are destroyed. */
void shards_prefault(struct kvs_server *s);

#endif
