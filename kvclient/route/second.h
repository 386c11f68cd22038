/* SPDX-License-Identifier: Apache-2.0 */
/* second.h -- the two servers of a value kept twice. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_SECOND_H
#define KVRAIL_KVCLIENT_ROUTE_SECOND_H

#include "kvclient/core/client.h"

/* route_two_copies -- whether a call with these flags keeps values twice. */
static inline bool route_two_copies(const struct kvc_client *c, unsigned flags)
{
	return KV_UNLIKELY(((c->pool->options.flags | flags) & KVC_TWO_COPIES) != 0);
}

/* route_two_places -- whether a DELETE or a TOUCH reaches both servers: other clients may have copied a hot value. */
static inline bool route_two_places(const struct kvc_client *c, unsigned flags)
{
	return KV_UNLIKELY(((c->pool->options.flags | flags) & (KVC_TWO_COPIES | KVC_HOT_COPIES)) != 0);
}

/* route_second -- the second copy's server: the next after route_first, not down or draining; or NULL. route_of_two --
 * whether n is one of the two now. route_other_place -- the one besides `asked`; NULL: none or down. route_other -- the
 * same to look for a value: NULL also for a second one not up. */
struct kc_node *route_second(struct kvc_client *c, struct kvc_key key);
bool route_of_two(struct kvc_client *c, struct kvc_key key, const struct kc_node *n);
struct kc_node *route_other_place(struct kvc_client *c, struct kvc_key key, const struct kc_node *asked);
struct kc_node *route_other(struct kvc_client *c, struct kvc_key key, const struct kc_node *asked);

/* route_client -- the client that makes PUT, DELETE and TOUCH of this key for blocking callers, since a client knows
 * only its own copies. Any thread; the key need not be valid. */
unsigned route_client(const struct kvc_pool *pool, struct kvc_key key);

/* route_reader -- the first server for a GET: the one with fewer requests of this client; among equals they alternate
 * if `turns`, else the key decides. */
struct kc_node *route_reader(struct kvc_client *c, struct kvc_key key, bool turns);

#endif
