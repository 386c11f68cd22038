/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h -- replies on their way out: gathered into one frame per link and turn. */
#ifndef KVRAIL_KVSERVER_SHARD_REPLY_H
#define KVRAIL_KVSERVER_SHARD_REPLY_H

#include "kvserver/shard/attachment.h"

/* reply_put -- send the reply of a request answered in the turn of its arrival; fills in the duration. Pointers in *r
 * are read before it returns, except inline bytes of `block` (may be NULL) without a free send buffer: a reference
 * keeps the block until then. Replies of an ending attachment are dropped. */
void reply_put(struct link *l, struct wire_reply *r, struct block *block);

/* reply_late -- the same for a request that lived longer. arrived, posted: on the loop's clock; posted: the time of its
 * last data operation (0: none, or now). key: of the request, for the log; NULL: unknown. */
void reply_late(struct link *l, struct wire_reply *r, uint64_t arrived_ns, uint64_t posted_ns,
		const struct wire_bytes *key);

/* reply_follow_begin -- make sure that this many bytes of replies can be encoded at once. False: they may have to wait.
 * reply_follow -- the frame being filled arrives behind the ordered write just posted; its reply comes next.
 * reply_follow_flush -- te_handlers.follow. */
bool reply_follow_begin(struct link *l, uint32_t bytes);
static inline void reply_follow(struct link *l)
{
	l->follows = true;
}
void reply_follow_flush(void *shard);

/* reply_flush -- send every begun frame, at the end of a shard's turn. */
void reply_flush(struct shard *s);

/* reply_retry -- send buffers are free again: encode held replies. */
void reply_retry(struct shard *s);

/* reply_drop -- drop the unsent replies of a link. */
void reply_drop(struct link *l);

enum {
	REPLY_HELD_BYTES = 384,
	REPLY_GET_BYTES = 56 /* a record without inline bytes */
};

#endif
