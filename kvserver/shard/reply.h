/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h -- replies on their way out: gathered into one frame per link and turn. */
#ifndef KVRAIL_KVSERVER_SHARD_REPLY_H
#define KVRAIL_KVSERVER_SHARD_REPLY_H

#include "kvserver/shard/session.h"

/* reply_put -- give out the reply of a request that is answered in the turn it arrived in; fills in how long that took.
 * Pointers in *r are read before it returns, except that inline bytes of `block` (may be NULL) are read later if no
 * send buffer is free now: the block is then kept by a reference. Replies of a session that ends are dropped. */
void reply_put(struct link *l, struct wire_reply *r, struct block *block);

/* reply_late -- the same for a request that lived longer. arrived, posted: on the loop's clock; posted is the time of
 * its last data operation (0: there was none, or it is this very moment). key: of the request, for the log; NULL: not
 * known. */
void reply_late(struct link *l, struct wire_reply *r, uint64_t arrived_ns, uint64_t posted_ns,
		const struct wire_bytes *key);

/* reply_follow_begin -- make sure that so many bytes of replies can be encoded at once. False: they may have to wait.
 * reply_follow -- the frame being filled arrives behind the ordered write that was posted just now; the reply to that
 * write is given out next. reply_follow_flush -- te_handlers.follow. */
bool reply_follow_begin(struct link *l, uint32_t bytes);
static inline void reply_follow(struct link *l)
{
	l->follows = true;
}
void reply_follow_flush(void *shard);

/* reply_flush -- send every frame that was begun. At the end of a shard's turn. */
void reply_flush(struct shard *s);

/* reply_room -- send buffers are free again: encode replies that are held. */
void reply_room(struct shard *s);

/* reply_drop -- forget the replies that a link has not sent. */
void reply_drop(struct link *l);

enum {
	REPLY_HELD_BYTES = 256,
	REPLY_GET_BYTES = 56 /* a record without inline bytes */
};

#endif
