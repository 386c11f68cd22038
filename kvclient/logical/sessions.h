/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h -- further sessions of a client: opening them at its servers, and taking turns on its links. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H
#define KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H

#include "bootstrap/bootstrap.h"
#include "kvclient/kvclient.h"
#include "loop/loop.h"
#include "wire/wire.h"

enum {
	KVC_SUB_ASKED_MAX = 64, /* questions out on one connection */
	KVC_TURN = 4            /* requests that a session may send in its turn, while others wait */
};

struct kvc_client;
struct kvc_link;
struct kvc_node;
struct kvc_req;
struct kvc_session;

enum kvc_sub_state {
	KVC_SUB_NONE,   /* not there: it is closed, or about to be freed */
	KVC_SUB_WANTED, /* to be opened: in the node's list */
	KVC_SUB_ASKED,  /* the question is out */
	KVC_SUB_OPEN,
	KVC_SUB_REFUSED, /* with `status`, until the connection ends or somebody asks again after a while */
	KVC_SUB_CLOSING  /* the goodbye is to be said, or is out */
};

/* A session's requests to one shard. */
struct kvc_lane {
	struct kv_list queue; /* that wait for their turn, in order */
	struct kv_list turn;  /* of the link's `turns`, while there is one that may be sent */
	uint32_t active;      /* that have an id out: credits of the session that are taken */
	uint32_t link;        /* the link of the shard that they go over */
};

/* A further session at one server. */
struct kvc_sub_at {
	struct kvc_sub *sub;
	struct kvc_node *node;
	struct kv_list list; /* of the node: wanted, asked, partings or parted */
	uint8_t state;
	uint32_t id; /* of the question */
	uint32_t number, credits;
	int status;
	uint64_t refused_ns;
	struct kvc_lane *lane; /* one per shard, from when it is open until the connection ends */
};

struct kvc_sub {
	struct kv_list node; /* of the client */
	struct kvc_client *client;
	uint32_t refs;  /* the handle's; one for each server where a question or a goodbye is out; one per request with
			   an id out */
	uint32_t users; /* calls in progress */
	uint32_t index; /* which link of each shard it uses */
	bool gone;      /* the handle was given back */
	bool parting;   /* it is about to be, or was: no call begins with it, and its pins are not made again */
	uint32_t pinning;    /* its pins that are being made again */
	struct kv_list pins; /* all of them */
	uint64_t client_id, requests, replies;
	struct boot_key *key;    /* NULL: the connection's own secret */
	struct co_queue changed; /* woken at every change of a state */
	struct kvc_sub_at at[];  /* by server */
};

/* What a node knows of further sessions on its connection. */
struct kvc_node_subs {
	struct kv_list wanted, asked, partings, parted; /* partings: goodbyes to be said; parted: that were said */
	uint32_t num_asked, last_id;
	uint64_t waits_ns; /* since when an answer is waited for, if one is */
	bool begun, challenged;
	struct boot_challenge challenge;
	struct co *opener;
	bool opening;      /* it runs */
	char refusal[512]; /* the last sentence, printable */
};

/* ---- at a server ---- */

void kvc_subs_init(struct kvc_node *n);

/* kvc_subs_start -- the node is up: open what is to be opened there. kvc_subs_wake -- something the opener may wait for
 * changed. */
void kvc_subs_start(struct kvc_node *n);
void kvc_subs_wake(struct kvc_node *n);

/* kvc_subs_parting -- whether a goodbye of a session was not answered yet: the server waits for the session's
 * transfers. */
bool kvc_subs_parting(const struct kvc_node *n);

/* kvc_subs_late -- whether an answer has been waited for so long: the connection is of no use for sessions. */
bool kvc_subs_late(const struct kvc_node *n, uint64_t now_ns, uint64_t patience_ns);

/* kvc_subs_message -- one of the SESSION messages of the server. 0 or -KV_EPROTO. */
int kvc_subs_message(struct kvc_node *n, const struct wire_ctrl_msg *m);

/* kvc_subs_fail -- end what waits in lanes with status: the session is over. kvc_subs_reset -- and its connection:
 * sessions are to be opened anew at the next. */
void kvc_subs_fail(struct kvc_session *s, int status);
void kvc_subs_reset(struct kvc_node *n);

/* kvc_subs_free -- the client's engine is closed: free what the host has not given back. */
void kvc_subs_free(struct kvc_client *c);

/* kvc_sub_ready_await -- until it is open at the node's session `s`, by the deadline. 0; 1: `s` is not the session any
 * more; the server's refusal; -KV_ETIMEOUT, -KV_ECLOSED. */
int kvc_sub_ready_await(struct kvc_sub *sub, struct kvc_node *n, const struct kvc_session *s, uint64_t deadline_ns);
bool kvc_sub_open(const struct kvc_sub *sub, const struct kvc_node *n);

/* kvc_sub_of -- of a call as it was given, NULL too. kvc_sub_hold, kvc_sub_unhold -- a call with it begins and ends. */
struct kvc_sub *kvc_sub_of(const struct kvc_call *call);
static inline void kvc_sub_hold(struct kvc_sub *sub)
{
	if (KV_UNLIKELY(sub != NULL))
		sub->users++;
}
static inline void kvc_sub_unhold(struct kvc_sub *sub)
{
	if (KV_UNLIKELY(sub != NULL))
		sub->users--;
}

/* ---- on a link ---- */

/* kvc_lane_link -- the link that requests of a session to this link's shard go over. kvc_lane_add -- queue a request
 * there. kvc_lane_left -- it left the queue unsent. kvc_lane_credit -- its one reply came, or never will. */
struct kvc_link *kvc_lane_link(struct kvc_link *l, const struct kvc_req *r);
void kvc_lane_add(struct kvc_link *l, struct kvc_req *r);
void kvc_lane_left(struct kvc_req *r);
void kvc_lane_credit(struct kvc_req *r);
void kvc_lane_replied(struct kvc_req *r); /* it came, and is counted */

/* kvc_turn_head -- whose turn it is, on a link where further sessions have something to send. kvc_turn_taken -- that
 * request has been sent. */
struct kvc_req *kvc_turn_head(const struct kvc_link *l);
void kvc_turn_taken(struct kvc_link *l, struct kvc_req *r);

/* kvc_frame_switch -- see that the next record of a frame, of request r, is its session's. *whose: of the records so
 * far, NULL: the connection's own. False: there is no room for both. */
bool kvc_frame_switch(struct wire_writer *w, const struct kvc_req *r, const struct kvc_sub_at **whose);

#endif
