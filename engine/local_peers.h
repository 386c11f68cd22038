/* SPDX-License-Identifier: Apache-2.0 */
/* local_peers.h -- the peers on this host: their channels in shared memory. Private to engine/. */
#ifndef KVRAIL_ENGINE_LOCAL_PEERS_H
#define KVRAIL_ENGINE_LOCAL_PEERS_H

#include "engine/link.h"
#include "local/local.h"

struct local_entry {
	struct te_peer *peer; /* NULL: it ended while the table was walked */
	struct local_channel *channel;
};

/* The peers with a channel. Only local_peers.c changes the table. */
struct locals {
	struct local_entry *at; /* `count` of them, `room` at most: a quiet turn reads these and the rings' indices */
	uint32_t count, room;
	bool walked;  /* entries stay where they are; an ended one is emptied */
	bool holes;   /* some were emptied */
	bool changed; /* since attach.c collected the bells */
	bool asleep;  /* peers ring our bells */
	bool down;    /* a peer is down and still in the table */
	/* Saturating: looks at the fabric since it had an event, turns since a look, turns since a frame came. */
	uint8_t fabric_quiet, fabric_unseen, idle;
	uint8_t *buf; /* KV_MSG_MAX bytes, for the frame being handled */
};

/* locals_free -- free the table, which is empty. */
void locals_free(struct locals *l);

/* local_enter -- give the peer this channel. 0, -KV_ENOMEM. local_leave -- take it away: nothing of the engine refers
 * to the channel any more. Harmless without one. The peer's queued messages are the caller's affair. */
int local_enter(struct te_peer *peer, struct local_channel *channel);
void local_leave(struct te_peer *peer);

/* local_walk -- entries stay in place until local_walked; an index of the table remains valid. */
void local_walk(struct locals *l);
void local_walked(struct locals *l);

/* local_failed -- the channel failed with this code: the peer is down, and notify.c takes it out of the table. */
void local_failed(struct te_peer *peer, int rc);

/* local_post -- put a frame into the peer's ring. POST_STALLED: it is full. POST_FAILED: the peer is down. */
enum post local_post(struct te_peer *peer, const uint8_t *data, uint32_t len);

/* locals_sleep -- have all peers ring their bells. 0; -EAGAIN: one has sent something already. locals_wake -- they need
 * not ring any more, and the next turn looks at the fabric. */
int locals_sleep(struct locals *l);
void locals_wake(struct locals *l);

#endif
