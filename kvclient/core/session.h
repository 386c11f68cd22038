/* SPDX-License-Identifier: Apache-2.0 */
/* session.h -- further sessions of a client as plain data: states per server, and lanes on its links. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_SESSION_H
#define KVRAIL_KVCLIENT_CORE_SESSION_H

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "loop/loop.h"

struct kvc_client;
struct kc_node;

enum kc_session_state {
	KC_SESSION_NONE,   /* closed, or about to be freed */
	KC_SESSION_WANTED, /* to be opened: in the node's list */
	KC_SESSION_ASKED,
	KC_SESSION_OPEN,
	KC_SESSION_REFUSED, /* with `status`, until the connection ends or a later call asks again */
	KC_SESSION_CLOSING  /* its goodbye is due or out */
};

/* One session's requests to one shard. */
struct kc_lane {
	struct kv_list queue;
	struct kv_list turn;
	uint32_t active; /* ids out: session credits in use */
	uint32_t link;   /* the shard's link it uses */
};

/* A further session at one server. */
struct kc_session_at {
	struct kvc_session *session;
	struct kc_node *node;
	struct kv_list list; /* of the node: wanted, asked, partings or parted */
	uint8_t state;
	uint32_t id; /* of the opening request */
	uint32_t number, credits;
	int status;
	uint64_t refused_ns;
	struct kc_lane *lane; /* per shard, while open */
};

struct kvc_session {
	struct kv_list node;
	struct kvc_client *client;
	uint32_t refs; /* the handle; each server with an opening request or goodbye out; each id out */
	uint32_t users;
	uint32_t index;   /* selects its link of each shard */
	bool gone;        /* the host has closed it */
	bool parting;     /* no new calls, and pins are not made again */
	uint32_t pinning; /* busy pins */
	struct kv_list pins;
	uint64_t client_id, requests, replies;
	struct boot_key *key;    /* NULL: the connection's own */
	const char *space;       /* its namespace; NULL: the pool's */
	struct co_queue changed; /* woken at every change of state */
	/* Parts: at[] for servers known at its opening, *more for later ones. */
	struct kc_session_at **more;
	uint32_t num_at, num_more;
	struct kc_session_at at[];
};

static inline struct kc_session_at *kc_session_part(struct kvc_session *session, unsigned server)
{
	if (KV_LIKELY(server < session->num_at))
		return &session->at[server];
	return server - session->num_at < session->num_more ? session->more[server - session->num_at] : NULL;
}

enum kc_sessions_stage {
	KC_SESSIONS_NONE,
	KC_SESSIONS_BEGUN, /* SESSION_BEGIN is out */
	KC_SESSIONS_CHALLENGED
};

struct kc_node_sessions {
	struct kv_list wanted, asked, partings, parted; /* partings: goodbyes due; parted: goodbyes sent */
	uint32_t num_asked, last_id;
	uint64_t waits_ns; /* since when an answer is awaited */
	enum kc_sessions_stage stage;
	struct boot_challenge challenge;
	struct co *opener;
	bool opening;      /* the opener runs */
	char refusal[512]; /* the server's last refusal, printable */
};

static inline bool kc_session_is_open(struct kvc_session *session, unsigned server)
{
	const struct kc_session_at *at = kc_session_part(session, server);
	return at && at->state == KC_SESSION_OPEN;
}

/* kc_session_hold, kc_session_unhold -- a call of the session begins and ends. NULL: the client's own, not counted.
 */
static inline void kc_session_hold(struct kvc_session *session)
{
	if (KV_UNLIKELY(session != NULL))
		session->users++;
}

static inline void kc_session_unhold(struct kvc_session *session)
{
	if (KV_UNLIKELY(session != NULL))
		session->users--;
}

/* ---- a node's questions about sessions ---- */

static inline void kc_sessions_init(struct kc_node_sessions *q)
{
	kv_list_init(&q->wanted);
	kv_list_init(&q->asked);
	kv_list_init(&q->partings);
	kv_list_init(&q->parted);
}

/* kc_sessions_parting -- whether a goodbye is unanswered: the server waits for the session's transfers. */
static inline bool kc_sessions_parting(const struct kc_node_sessions *q)
{
	return !kv_list_empty(&q->parted);
}

static inline bool kc_sessions_waiting(const struct kc_node_sessions *q)
{
	return q->stage == KC_SESSIONS_BEGUN || q->num_asked > 0 || !kv_list_empty(&q->parted);
}

/* kc_sessions_late -- whether an answer is overdue by patience_ns. */
static inline bool kc_sessions_late(const struct kc_node_sessions *q, uint64_t now_ns, uint64_t patience_ns)
{
	return kc_sessions_waiting(q) && now_ns > q->waits_ns && now_ns - q->waits_ns > patience_ns;
}

#endif
