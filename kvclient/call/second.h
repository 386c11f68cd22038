/* SPDX-License-Identifier: Apache-2.0 */
/* second.h -- the two servers of a key whose value is kept twice. Private to kvclient/. On the client's loop; none
 * parks. */
#ifndef KVRAIL_KVCLIENT_CALL_SECOND_H
#define KVRAIL_KVCLIENT_CALL_SECOND_H

#include "kvclient/core/client.h"

/* kvc_two_copies -- whether a call with these flags is about values that are kept twice. */
static inline bool kvc_two_copies(const struct kvc_client *c, unsigned flags)
{
	return KV_UNLIKELY(((c->pool->options.flags | flags) & KVC_TWO_COPIES) != 0);
}

/* kvc_second -- the server of a key's second copy: the next one in the key's order behind the one that calls go to
 * (kvc_call_node), down and draining ones left out. NULL: there is none.
 * kvc_second_one_of -- whether n is one of these two. It may have been one only before the view changed.
 * kvc_second_undown -- of these two the one that `asked` is not. NULL: there is none, or it is down.
 * kvc_second_beside -- the same for calls that look for the value: NULL, too, if it is the second one and not up yet.
 */
struct kvc_node *kvc_second(struct kvc_client *c, struct kvc_key key);
bool kvc_second_one_of(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n);
struct kvc_node *kvc_second_undown(struct kvc_client *c, struct kvc_key key, const struct kvc_node *asked);
struct kvc_node *kvc_second_beside(struct kvc_client *c, struct kvc_key key, const struct kvc_node *asked);

/* kvc_second_client -- the number of the client that makes calls about this key: PUT, DELETE and TOUCH of a key by any
 * thread are one client's, which knows the copies that it makes. Any thread; the key need not be valid. */
unsigned kvc_second_client(const struct kvc_pool *pool, struct kvc_key key);

/* kvc_second_reader -- the one of the two that a GET asks first: the one with fewer requests of this client. Where they
 * have as many, `turns` has them take turns; else the key decides. */
struct kvc_node *kvc_second_reader(struct kvc_client *c, struct kvc_key key, bool turns);

/* kvc_second_next -- *n was asked for a value that is kept twice, and ended with rc. After a miss *n becomes the other
 * one, once: true, and *other, which begins as false, becomes true. If it is none of the two (any more), *n becomes the
 * first one, and the other one may be next. */
bool kvc_second_next(struct kvc_client *c, struct kvc_key key, int64_t rc, bool *other, struct kvc_node **n);

#endif
