/* SPDX-License-Identifier: Apache-2.0 */
/* sub.h -- further sessions of a client as plain data: what they are at each server, and their lanes on its links.
 * Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_SUB_H
#define KVRAIL_KVCLIENT_CORE_SUB_H

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "loop/loop.h"

struct kvc_client;
struct kvc_node;

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

/* kvc_sub_open -- whether it is open at the server with this index. */
static inline bool kvc_sub_open(const struct kvc_sub *sub, unsigned server)
{
	return sub->at[server].state == KVC_SUB_OPEN;
}

/* kvc_sub_hold, kvc_sub_unhold -- a call with it begins and ends. NULL: the client's own session, nothing to do. */
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

/* ---- what a node asked about them ---- */

static inline void kvc_subs_init(struct kvc_node_subs *q)
{
	kv_list_init(&q->wanted);
	kv_list_init(&q->asked);
	kv_list_init(&q->partings);
	kv_list_init(&q->parted);
}

/* kvc_subs_parting -- whether a goodbye of a session was not answered yet: the server waits for the session's
 * transfers. */
static inline bool kvc_subs_parting(const struct kvc_node_subs *q)
{
	return !kv_list_empty(&q->parted);
}

/* kvc_subs_waiting -- whether the server owes an answer about sessions. */
static inline bool kvc_subs_waiting(const struct kvc_node_subs *q)
{
	return (q->begun && !q->challenged) || q->num_asked > 0 || !kv_list_empty(&q->parted);
}

/* kvc_subs_late -- whether an answer has been waited for so long: the connection is of no use for sessions. */
static inline bool kvc_subs_late(const struct kvc_node_subs *q, uint64_t now_ns, uint64_t patience_ns)
{
	return kvc_subs_waiting(q) && now_ns > q->waits_ns && now_ns - q->waits_ns > patience_ns;
}

#endif
