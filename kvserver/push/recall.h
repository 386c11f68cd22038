/* SPDX-License-Identifier: Apache-2.0 */
/* recall.h -- deleted keys remembered by the other members of the cluster. */
#ifndef KVRAIL_KVSERVER_PUSH_RECALL_H
#define KVRAIL_KVSERVER_PUSH_RECALL_H

#include "base/base.h"

struct kvs_server;
struct recall;

/* recall_create -- for this server, which gets the result (kvs_server_recalled). server_name: as peers_open. NULL: no
 * memory. recall_destroy -- abandons a running question within a second or so. Blocks. NULL is accepted. */
struct recall *recall_create(struct kvs_server *server, const char *server_name);
void recall_destroy(struct recall **r);

/* recall_ask -- kvs_options.recall: ask all others of this view on a thread. 0, -KV_EBUSY: already asking; or a code.
 * Any thread. */
int recall_ask(void *recall, const struct kv_view *view, int64_t since_ns);

#endif
