/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h -- values that servers report as hot, and which of them this client reads from two servers (KVC_HOT_COPIES).
 * Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_CALL_HOT_H
#define KVRAIL_KVCLIENT_CALL_HOT_H

#include "kvclient/call/call.h"
#include "kvclient/call/second.h"
#include "kvclient/core/client.h"

/* kvc_hot_ready -- the client opens: take the memory for its hot keys, if the pool is to have any. 0 or -KV_ENOMEM.
 * kvc_hot_fini -- free it. */
int kvc_hot_ready(struct kvc_client *c);
void kvc_hot_fini(struct kvc_client *c);

/* kvc_hot_read -- whether a GET of this key may ask either of its two servers; kvc_hot_fresh -- whether it may begin
 * with the second one. What may be read from there now is asked for at the other one after a miss for longer. */
bool kvc_hot_read(const struct kvc_client *c, struct kvc_key key);
bool kvc_hot_fresh(const struct kvc_client *c, struct kvc_key key);

/* kvc_hot_told -- server n has the value and says that it is hot: have it copied to the key's second server in the
 * background, unless it is there. */
void kvc_hot_told(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n);

/* kvc_hot_copied -- that copy has ended with rc. kvc_hot_unmended -- its second server had lost it, and could not be
 * given it again: GETs go to the first one alone until a later copy is made. */
void kvc_hot_copied(struct kvc_client *c, struct kvc_key key, int64_t rc);
void kvc_hot_unmended(struct kvc_client *c, struct kvc_key key);

/* kvc_twice -- whether a GET with these flags is about a value that is kept twice. kvc_two_places -- whether a DELETE
 * or a TOUCH has to go to both servers of its key: of a hot value, too, which another client may have copied. */
static inline bool kvc_twice(const struct kvc_client *c, unsigned flags, struct kvc_key key)
{
	return kvc_two_copies(c, flags) || (KV_UNLIKELY(c->hot.used > 0) && kvc_hot_read(c, key));
}

/* kvc_twice_reader -- the server that such a GET asks first. */
static inline struct kvc_node *kvc_twice_reader(struct kvc_client *c, unsigned flags, struct kvc_key key)
{
	bool hot = KV_UNLIKELY(c->hot.used > 0) && kvc_hot_fresh(c, key);
	return hot || kvc_two_copies(c, flags) ? kvc_second_reader(c, key, hot) : kvc_call_node(c, key);
}

static inline bool kvc_two_places(const struct kvc_client *c, unsigned flags)
{
	return KV_UNLIKELY(((c->pool->options.flags | flags) & (KVC_TWO_COPIES | KVC_HOT_COPIES)) != 0);
}

#endif
