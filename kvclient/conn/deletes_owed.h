/* SPDX-License-Identifier: Apache-2.0 */
/* deletes_owed.h -- DELETEs and TOUCHes a server missed while out of reach or under an older view. Private to
 * kvclient/. On the client's loop; only _await functions park. */
#ifndef KVRAIL_KVCLIENT_CONN_DELETES_OWED_H
#define KVRAIL_KVCLIENT_CONN_DELETES_OWED_H

#include "kvclient/core/client.h"

/* kc_owed_note -- a DELETE begun at begun_ns (ttl_s 0), or a TOUCH for ttl_s from now, has succeeded. Copies the key.
 * Without memory it is not remembered. */
void kc_owed_note(struct kvc_client *c, struct kvc_key key, uint64_t begun_ns, uint32_t ttl_s);

/* kc_owed_left -- the node is no longer UP: it misses later calls. kc_owed_await -- the last step of attaching: send
 * them. 0, or a code with n->error. */
void kc_owed_left(struct kc_node *n);
int kc_owed_await(struct kc_node *n, uint64_t deadline_ns);

/* kc_owed_view -- a new view: tell new servers in the background. */
void kc_owed_view(struct kvc_client *c);

/* kc_owed_noted -- number ever noted. kc_owed_init -- 0 or -KV_ENOMEM. */
uint64_t kc_owed_noted(const struct kvc_client *c);
int kc_owed_init(struct kvc_client *c);
void kc_owed_fini(struct kvc_client *c);

#endif
