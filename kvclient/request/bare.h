/* SPDX-License-Identifier: Apache-2.0 */
/* bare.h -- bare writes to a landing area: what a PUT writes, and no PUT. Private to kvclient/. All of these on the
 * client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_BARE_H
#define KVRAIL_KVCLIENT_REQUEST_BARE_H

#include "kvclient/core/client.h"

struct kvc_bare;

struct kvc_bare_ask {
	struct kvc_client_mem *mem; /* where the bytes come from: `users` is raised until the last write has ended */
	uint64_t from, room;        /* values lie anywhere in these bytes of it */
	uint64_t len, ops, seed;    /* of a value; how many of them; which ones */
	unsigned depth;             /* values in flight, as far as the area has room */
	uint64_t deadline_ns;       /* nothing is posted after it */
};

/* kvc_bare_start -- get ready to write to this shard's area, of an attachment that is up. Errors: -KV_EBUSY (PUTs have
 * the whole area now), -KV_ENOTSUP (there is none), -KV_ENOMEM. */
int kvc_bare_start(struct kvc_attachment *s, unsigned shard, const struct kvc_bare_ask *ask, struct kvc_bare **out);

/* kvc_bare_turn -- write what there is room for. Not from a callback of the engine. Do it again whenever the coroutine
 * that started is woken, which is when a write is done, until kvc_bare_over -- nothing is in flight or to come.
 * kvc_bare_stop -- nothing is to come. */
void kvc_bare_turn(struct kvc_bare *b);
bool kvc_bare_over(const struct kvc_bare *b);
void kvc_bare_stop(struct kvc_bare *b);

/* kvc_bare_link -- the i-th link of the shard, if writes went over it, else NULL. The attachment must be in use. */
struct kvc_link *kvc_bare_link(const struct kvc_bare *b, unsigned i);

/* kvc_bare_leave -- the caller has no more use for it; what is still in flight frees it. arrived: a message behind the
 * writes was answered on each link; else their pieces are lost to the attachment. Returns 0 if all values were written,
 * or the first code; -KV_ECANCELED after a stop. */
int kvc_bare_leave(struct kvc_bare **b, bool arrived);

#endif
