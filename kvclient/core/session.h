/* SPDX-License-Identifier: Apache-2.0 */
/* session.h -- further sessions of a client as plain data: their state at each server, and their lanes on its links.
 * Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_SESSION_H
#define KVRAIL_KVCLIENT_CORE_SESSION_H

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "loop/loop.h"

struct kvc_client;
struct kvc_node;

enum kvc_session_state {
	KVC_SESSION_NONE,   /* it is closed, or about to be freed */
	KVC_SESSION_WANTED, /* to be opened: it is in the node's list */
	KVC_SESSION_ASKED,  /* the request to open it is out */
	KVC_SESSION_OPEN,
	KVC_SESSION_REFUSED, /* refused with `status`, until the connection ends or a call asks again after a while */
	KVC_SESSION_CLOSING  /* its goodbye is to be said, or is out */
};

/* The requests of one session to one shard. */
struct kvc_lane {
	struct kv_list queue; /* requests that wait for their turn, in order */
	struct kv_list turn;  /* in the link's `turns`, while a request of it may be sent */
	uint32_t active;      /* requests with an id out: credits of the session that are taken */
	uint32_t link;        /* the link of the shard that its requests go over */
};

/* A further session at one server. */
struct kvc_session_at {
	struct kvc_session *session;
	struct kvc_node *node;
	struct kv_list list; /* a list of the node: wanted, asked, partings or parted */
	uint8_t state;
	uint32_t id; /* of the request to open it */
	uint32_t number, credits;
	int status;
	uint64_t refused_ns;
	struct kvc_lane *lane; /* one per shard, from when the session is open until the connection ends */
};

struct kvc_session {
	struct kv_list node; /* of the client */
	struct kvc_client *client;
	uint32_t refs;  /* one of the handle; one for each server where a request to open or a goodbye is out; one of
			   each request with an id out */
	uint32_t users; /* calls in progress */
	uint32_t index; /* says which link of each shard it uses */
	bool gone;      /* the handle was given back */
	bool parting; /* the handle is being given back, or was: no call begins with it, and its pins are not made again
		       */
	uint32_t pinning;    /* how many of its pins are being made again */
	struct kv_list pins; /* all its pins */
	uint64_t client_id, requests, replies;
	struct boot_key *key;    /* NULL: the connection's own secret */
	struct co_queue changed; /* woken at every change of a state */
	/* Its parts: at[] for the servers that there were when it was opened, *more for those that joined later. */
	struct kvc_session_at **more;
	uint32_t num_at, num_more;
	struct kvc_session_at at[];
};

/* kvc_session_part -- its part at the server with this index; NULL: it has none there. */
static inline struct kvc_session_at *kvc_session_part(struct kvc_session *session, unsigned server)
{
	if (KV_LIKELY(server < session->num_at))
		return &session->at[server];
	return server - session->num_at < session->num_more ? session->more[server - session->num_at] : NULL;
}

/* How far the questions about sessions have come on a connection. */
enum kvc_sessions_stage {
	KVC_SESSIONS_NONE,
	KVC_SESSIONS_BEGUN,     /* SESSION_BEGIN is out */
	KVC_SESSIONS_CHALLENGED /* the challenge is here: sessions may be asked for */
};

/* What a node knows of further sessions on its connection. */
struct kvc_node_sessions {
	struct kv_list wanted, asked, partings,
		parted; /* partings: goodbyes to be said; parted: goodbyes that were said */
	uint32_t num_asked, last_id;
	uint64_t waits_ns; /* since when we wait for an answer, if we do */
	enum kvc_sessions_stage stage;
	struct boot_challenge challenge;
	struct co *opener;
	bool opening;      /* the opener runs */
	char refusal[512]; /* what the server said last, printable */
};

/* kvc_session_is_open -- whether the session is open at the server with this index. */
static inline bool kvc_session_is_open(struct kvc_session *session, unsigned server)
{
	const struct kvc_session_at *at = kvc_session_part(session, server);
	return at && at->state == KVC_SESSION_OPEN;
}

/* kvc_session_hold, kvc_session_unhold -- a call of the session begins and ends. NULL: the client's own session, for
 * which nothing is counted. */
static inline void kvc_session_hold(struct kvc_session *session)
{
	if (KV_UNLIKELY(session != NULL))
		session->users++;
}

static inline void kvc_session_unhold(struct kvc_session *session)
{
	if (KV_UNLIKELY(session != NULL))
		session->users--;
}

/* ---- what a node has asked its server about sessions ---- */

static inline void kvc_sessions_init(struct kvc_node_sessions *q)
{
	kv_list_init(&q->wanted);
	kv_list_init(&q->asked);
	kv_list_init(&q->partings);
	kv_list_init(&q->parted);
}

/* kvc_sessions_parting -- whether the server has not answered a goodbye of a session yet: it waits for the session's
 * transfers. */
static inline bool kvc_sessions_parting(const struct kvc_node_sessions *q)
{
	return !kv_list_empty(&q->parted);
}

/* kvc_sessions_waiting -- whether the server owes an answer about sessions. */
static inline bool kvc_sessions_waiting(const struct kvc_node_sessions *q)
{
	return q->stage == KVC_SESSIONS_BEGUN || q->num_asked > 0 || !kv_list_empty(&q->parted);
}

/* kvc_sessions_late -- whether we have waited for an answer longer than patience_ns: the connection is of no use for
 * sessions. */
static inline bool kvc_sessions_late(const struct kvc_node_sessions *q, uint64_t now_ns, uint64_t patience_ns)
{
	return kvc_sessions_waiting(q) && now_ns > q->waits_ns && now_ns - q->waits_ns > patience_ns;
}

#endif
