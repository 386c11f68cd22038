/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- one of our rails paired with one of a peer's; the peer; and the backlog of operations not yet posted.
 * Private to engine/. */
#ifndef KVRAIL_ENGINE_LINK_H
#define KVRAIL_ENGINE_LINK_H

#include "engine/rail.h"

enum link_state { LINK_IDLE, LINK_READY, LINK_STALLED };

struct te_link {
	struct te_peer *peer;
	struct rail *rail;
	struct addr *addr; /* NULL: void after a reset */
	uint16_t index, remote;
	uint8_t sched; /* enum link_state: the list holding `node` */
	bool own_turn; /* serve its own queue `xfers` next, not the peer's */
	bool use;      /* it serves the peer's queue at all */
	struct kv_list node, msgs, xfers;
	struct op *follow; /* reserved for a message behind posted ordered writes; NULL: none */
	uint32_t stamp;    /* the rail's stamp when they were posted; if it has changed, nothing can follow them */
	struct kv_list follow_node; /* in order.links while `follow` is set */
	uint32_t sends;             /* messages in flight */
	uint32_t ops;
	uint64_t bytes; /* of those operations */
};

struct te_peer {
	struct te *te;
	struct kv_list node;    /* te.peers */
	struct kv_list waiting; /* backlog.peers, while an operation is queued */
	struct kv_list xfers;   /* queued, for any link */
	uint32_t queued, refs;
	bool closed, is_void;
	bool down;    /* its channel failed: nothing more is sent to it */
	bool strayed; /* its addresses changed since it was void: the old ones are unknown, and no cut finds them */
	uint16_t nlinks, nused, remote_rails, next_link;
	uint32_t local_at;             /* its entry in te.locals */
	struct local_channel *channel; /* NULL: messages use the fabric */
	struct kv_list local_msgs;
	struct kv_list local_node; /* backlog.full, while there are any */
	struct te_link links[];
};

/* Submitted messages and transfers, not yet posted. link.c adds them, pump.c serves them. */
struct backlog {
	struct kv_list peers;   /* te_peer.waiting: peers with queued operations */
	struct kv_list stalled; /* links that got EAGAIN */
	uint64_t stalled_since;
	struct kv_list full; /* te_peer.local_node: peers whose ring was full */
	uint32_t queued;
	uint64_t next_sweep; /* no queued deadline passes before it */
};

void backlog_init(struct backlog *b);

/* link_init -- a link of a peer being opened: nothing is queued, every transfer may use it. */
void link_init(struct te_link *l, struct te_peer *peer, unsigned index, struct rail *rail, unsigned remote);

/* link_room -- its window has room for another chunk. link_direct -- nothing waits here: a new chunk may be posted at
 * once. link_direct_msg -- the same for a message, which precedes waiting chunks. */
bool link_room(const struct te_link *l);
bool link_direct(const struct te_link *l);
bool link_direct_msg(const struct te_link *l);

/* link_has_work -- an operation is queued that it may post. link_msg_room -- it may post another message. link_msg_due
 * --
 * ... and has one queued: then it stands at the head of its line. */
bool link_has_work(const struct te_link *l);
bool link_msg_room(const struct te_link *l);
bool link_msg_due(const struct te_link *l);

/* link_activate -- join the rail's line. link_activate_first -- a message waits: join at the head. link_stall -- the
 * provider refused: leave the line, retry once per te_poll. link_rest -- leave every scheduling list. */
void link_activate(struct te_link *l);
void link_activate_first(struct te_link *l);
void link_stall(struct te_link *l);
void link_rest(struct te_link *l);

/* link_follow_take -- the operation reserved for the message behind its ordered writes; NULL: none, or the order is
 * lost. */
struct op *link_follow_take(struct te_link *l);

/* peer_hold, peer_release -- add or drop a reference to the peer; the last one frees it. */
static inline void peer_hold(struct te_peer *peer)
{
	peer->refs++;
}

void peer_release(struct te_peer *peer);

/* peer_queued, peer_unqueued -- count one queued message or transfer more, or fewer. */
void peer_queued(struct te_peer *peer, uint64_t deadline_ns);
void peer_unqueued(struct te_peer *peer);

/* link_posted -- judge the result of posting over this link, as rail_op_posted does. The operation then holds the peer
 * until msg_op_done or xfer_op_done. */
static inline enum post link_posted(struct te_link *l, struct op *op, int rc)
{
	enum post p = rail_op_posted(l->rail, op, l->addr, rc);
	if (p == POST_DONE) {
		op->link = l;
		peer_hold(l->peer);
	}
	return p;
}

#endif
