/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- one of our rails with one of a peer's; the peer that links are a part of; and the backlog of operations
 * that links could not post yet. Private to engine/. */
#ifndef KVRAIL_ENGINE_LINK_H
#define KVRAIL_ENGINE_LINK_H

#include "engine/rail.h"

enum link_state { LINK_IDLE, LINK_READY, LINK_STALLED };

struct link {
	struct te_peer *peer;
	struct rail *rail;
	struct addr *addr; /* NULL: void after a reset */
	uint16_t index, remote;
	uint8_t sched; /* enum link_state: which list `node` is in */
	bool own_turn; /* serve its own queue `xfers` next, not the peer's */
	bool use;      /* it serves the peer's queue at all */
	struct kv_list node, msgs, xfers;
	struct op *follow; /* kept for a message behind ordered writes that were posted; NULL: it has none */
	uint32_t stamp;    /* the rail's stamp when they were posted; another one by now: nothing can go behind them */
	struct kv_list follow_node; /* in order.links while `follow` is set */
	uint32_t sends;             /* messages in flight */
	uint32_t ops;               /* operations of transfers in flight; with `bytes`, the window */
	uint64_t bytes;             /* of those operations */
};

struct te_peer {
	struct te *te;
	struct kv_list node;    /* te.peers */
	struct kv_list waiting; /* backlog.peers, while something is queued */
	struct kv_list xfers;   /* queued, for any link */
	uint32_t queued, inflight, refs;
	bool closed, is_void;
	bool strayed; /* it had other addresses since it was void: they are not known any more, and no cut finds them */
	uint16_t nlinks, nused, remote_rails, next_link;
	struct link links[];
};

/* The messages and transfers that were submitted and are not posted yet. link.c puts them in; pump.c, the only other
 * file that changes this, serves them. */
struct backlog {
	struct kv_list peers;   /* te_peer.waiting: those with something queued */
	struct kv_list stalled; /* links that got EAGAIN */
	uint64_t stalled_since; /* when that list became non-empty */
	uint32_t queued;
	uint64_t next_sweep; /* no queued deadline passes before it */
};

/* backlog_init -- nothing is queued. */
void backlog_init(struct backlog *b);

/* link_init -- of a peer that is being opened: nothing is queued, every transfer may take it. */
void link_init(struct link *l, struct te_peer *peer, unsigned index, struct rail *rail, unsigned remote);

/* link_room -- its window has room for another chunk. link_direct -- nothing waits here: a new chunk may be posted at
 * once. link_direct_msg -- the same for a message, which chunks do not keep waiting. */
bool link_room(const struct link *l);
bool link_direct(const struct link *l);
bool link_direct_msg(const struct link *l);

/* link_has_work -- something is queued that it may post. link_msg_room -- it may post another message: the bound of
 * link_room. link_msg_due -- ... and has one: then it stands at the head of its line, since a transfer without a credit
 * ends the serving of the line. */
bool link_has_work(const struct link *l);
bool link_msg_room(const struct link *l);
bool link_msg_due(const struct link *l);

/* link_activate -- it may have something to post: into its rail's line, if it is in none. link_activate_first -- a
 * message waits: to the head of the line. link_stall -- the provider refused: out of the line, to be tried once per
 * te_poll. link_rest -- out of every scheduling list. */
void link_activate(struct link *l);
void link_activate_first(struct link *l);
void link_stall(struct link *l);
void link_rest(struct link *l);

/* link_follow_take -- the operation that is kept for behind its ordered writes, now the caller's; NULL: there is none,
 * or it cannot go behind them any more. */
struct op *link_follow_take(struct link *l);

/* peer_hold, peer_release -- one reference to the peer more, one fewer; its memory goes with the last. */
static inline void peer_hold(struct te_peer *peer)
{
	peer->refs++;
}

void peer_release(struct te_peer *peer);

/* peer_queued, peer_unqueued -- account for one more message or transfer that is queued, one fewer. */
void peer_queued(struct te_peer *peer, uint64_t deadline_ns);
void peer_unqueued(struct te_peer *peer);

/* link_posted -- judge the result of posting over this link, as rail_op_posted does. The operation then holds the peer;
 * rail_events.sent or .moved releases it. */
static inline enum post link_posted(struct link *l, struct op *op, int rc)
{
	enum post p = rail_op_posted(l->rail, op, l->addr, rc);
	if (p == POST_DONE) {
		op->link = l;
		l->peer->inflight++;
		peer_hold(l->peer);
	}
	return p;
}

#endif
