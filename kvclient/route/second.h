/* SPDX-License-Identifier: Apache-2.0 */
/* second.h -- the two servers of a key whose value is kept twice. Private to kvclient/. On the client's loop; none
 * parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_SECOND_H
#define KVRAIL_KVCLIENT_ROUTE_SECOND_H

#include "kvclient/core/client.h"

/* route_two_copies -- whether a call with these flags is about values that are kept twice. */
static inline bool route_two_copies(const struct kvc_client *c, unsigned flags)
{
	return KV_UNLIKELY(((c->pool->options.flags | flags) & KVC_TWO_COPIES) != 0);
}

/* route_two_places -- whether a DELETE or a TOUCH goes to both servers of its key: another client may have copied a hot
 * value there. */
static inline bool route_two_places(const struct kvc_client *c, unsigned flags)
{
	return KV_UNLIKELY(((c->pool->options.flags | flags) & (KVC_TWO_COPIES | KVC_HOT_COPIES)) != 0);
}

/* route_second -- the server of a key's second copy: the next one behind route_first in the key's order that is neither
 * down nor draining. NULL: there is none.
 * route_of_two -- whether n is one of these two now. (It may have been one before the view changed.)
 * route_other_place -- the other one of the two than `asked`. NULL: there is none, or it is down.
 * route_other -- the same for calls that look for the value: NULL, too, if it is the second one and not up yet. */
struct kvc_node *route_second(struct kvc_client *c, struct kvc_key key);
bool route_of_two(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n);
struct kvc_node *route_other_place(struct kvc_client *c, struct kvc_key key, const struct kvc_node *asked);
struct kvc_node *route_other(struct kvc_client *c, struct kvc_key key, const struct kvc_node *asked);

/* route_client -- the number of the pool's client that makes calls about this key for blocking callers: the PUT, DELETE
 * and TOUCH of a key are one client's, which knows the copies that it makes. Any thread; the key need not be valid. */
unsigned route_client(const struct kvc_pool *pool, struct kvc_key key);

/* route_reader -- which of the two a GET asks first: the one with fewer requests of this client. Where both have as
 * many, they take turns if `turns` is set; else the key decides. */
struct kvc_node *route_reader(struct kvc_client *c, struct kvc_key key, bool turns);

#endif
