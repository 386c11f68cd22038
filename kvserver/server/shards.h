/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h -- the shards of a server. */
#ifndef KVRAIL_KVSERVER_SERVER_SHARDS_H
#define KVRAIL_KVSERVER_SERVER_SHARDS_H

#include "base/base.h"

struct kvs_server;

/* shards_make -- create them on their loops, not turning yet, and compute the number of clients within the limit of
 * open files. Fills shard, identity, files, and the options that follow from them. 0 or a code with *err. */
int shards_make(struct kvs_server *s, struct kv_error *err);

/* shards_prefault -- make the pages of the shards' memory in the background, if the options ask for it; failures are
 * logged. Thread: any, once; kv_prefault_stop(&s->prefault) before the shards are destroyed. */
void shards_prefault(struct kvs_server *s);

#endif
