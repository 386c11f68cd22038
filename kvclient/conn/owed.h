/* SPDX-License-Identifier: Apache-2.0 */
/* owed.h -- DELETEs and TOUCHes that a server has not heard of, because it was out of reach or its clients' view was an
 * older one. Private to kvclient/. On the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_CONN_OWED_H
#define KVRAIL_KVCLIENT_CONN_OWED_H

#include "kvclient/core/client.h"

/* kvc_owed_note -- a DELETE of this key, which began then, has succeeded; or a TOUCH, by which it lives ttl_s from now
 * on (of a DELETE 0). The key is copied. Without memory it is not remembered. */
void kvc_owed_note(struct kvc_client *c, struct kvc_key key, uint64_t begun_ns, uint32_t ttl_s);

/* kvc_owed_left -- the node is UP no more: what comes from now on it does not hear. kvc_owed_await -- the
 * last step of attaching: it is told. 0, or a code with n->error. */
void kvc_owed_left(struct kvc_node *n);
int kvc_owed_await(struct kvc_node *n, uint64_t deadline_ns);

/* kvc_owed_view -- another view is in force: servers that have other keys by it are told of what was deleted or
 * touched just before, in the background. */
void kvc_owed_view(struct kvc_client *c);

/* kvc_owed_noted -- how many were ever noted.
 * kvc_owed_init -- the client opens. 0 or -KV_ENOMEM. kvc_owed_fini -- forget all. */
uint64_t kvc_owed_noted(const struct kvc_client *c);
int kvc_owed_init(struct kvc_client *c);
void kvc_owed_fini(struct kvc_client *c);

#endif
