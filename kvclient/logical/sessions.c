/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c -- sessions of logical clients (docs/reference/protocol.md 2.7) over the connections of a client. A part
 * for each server has one of these states (enum kc_session_state):
 *
 *   NONE ----> WANTED --asked--> ASKED --granted--> OPEN --the host closes it--> CLOSING --confirmed--> NONE
 *                ^                 |
 *                |                 +--refused--> REFUSED
 *                +-- the connection ends; or, after a temporary refusal, a call asks again
 *
 * The opener, a coroutine of the node, asks and says goodbye; the coroutine of the connection takes the answers
 * (node_sessions.c). A call moves its session to the front and waits by its own deadline, so a client with thousands of
 * sessions is usable right after a reconnect. A server that answers heartbeats but no questions is dialled again
 * (kc_sessions_late), or a lost answer would block a session forever.
 *
 * The handle is the host's until closed. Questions, goodbyes and abandoned requests keep the object (refs). A session
 * granted after its host has gone is closed at once. */
#include "kvclient/logical/sessions.h"

#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/core/sized.h"
#include "kvclient/core/waits.h"
#include "kvclient/logical/node_sessions.h"
#include "kvclient/logical/pins.h"
#include "kvclient/request/lanes.h"

#define REFUSED_FOR_NS 500000000ull /* after it a call may ask again */

/* ---- the object ---- */

static struct kvc_session *sub_create(struct kvc_client *c, const struct kvc_session_options *o, const char *space)
{
	unsigned servers = c->num_nodes;
	struct kvc_session *session = calloc(1, sizeof(*session) + servers * sizeof(session->at[0]));
	if (!session)
		return NULL;
	session->client = c;
	session->space = space;
	session->num_at = servers;
	session->refs = 1;
	session->index = c->num_sessions++;
	session->client_id = o->client_id ? o->client_id : c->pool->options.base_client_id + c->index;
	co_queue_init(&session->changed);
	kv_list_init(&session->pins);
	kv_list_add_tail(&c->sessions, &session->node);
	for (unsigned i = 0; i < servers; i++)
		kc_session_part_init(session, &session->at[i], i);
	return session;
}

struct kvc_session *kc_session_of(const struct kvc_call *call)
{
	const size_t end = offsetof(struct kvc_call, session) + sizeof(call->session);
	return kc_sized(call) && call->size >= end ? call->session : NULL;
}

void kc_sessions_free(struct kvc_client *c)
{
	while (!kv_list_empty(&c->sessions))
		kc_session_free(KV_LIST_ENTRY(c->sessions.next, struct kvc_session, node));
}

/* ---- calls ---- */

/* A refusal may pass: a full server may get room. */
static bool refusal_holds(const struct kc_session_at *at)
{
	return loop_now(at->session->client->loop) - at->refused_ns < REFUSED_FOR_NS || at->status == -KV_EDENIED ||
	       at->status == -KV_ENOTSUP;
}

/* Open it next. */
static void want(struct kc_session_at *at)
{
	kv_list_del(&at->list);
	at->state = KC_SESSION_WANTED;
	kv_list_add_head(&at->node->sessions.wanted, &at->list);
	kc_sessions_start(at->node);
}

/* A session granted without memory for it here is closed again: its call fails, and the next call asks anew. */
int kc_session_ready_await(struct kvc_session *session, struct kc_node *n, uint64_t attaches, uint64_t deadline_ns)
{
	struct kc_session_at *at = kc_session_part_make(session, n->index);
	bool asked = false; /* by this call */
	if (!at)
		return -KV_ENOMEM;
	for (;;) {
		int rc;
		if (n->client->closing)
			return -KV_ECLOSED;
		if (!kc_node_uses(n, attaches))
			return 1;
		if (at->state == KC_SESSION_OPEN)
			return 0;
		if (at->state == KC_SESSION_REFUSED && refusal_holds(at))
			return at->status;
		if (asked && (at->state == KC_SESSION_NONE || at->state == KC_SESSION_CLOSING))
			return -KV_ENOMEM;
		asked |= at->state != KC_SESSION_CLOSING;
		if (at->state != KC_SESSION_ASKED && at->state != KC_SESSION_CLOSING)
			want(at);
		rc = kc_wait_queue_await(n->client, &session->changed, deadline_ns);
		if (rc < 0)
			return rc;
	}
}

/* ---- opening and closing ---- */

/* 1: open; 0: the server is down. */
static int open_at_await(struct kvc_session *session, struct kc_node *n, uint64_t deadline_ns, struct kv_error *err)
{
	const char *name = n->client->pool->server[n->index].entry.text;
	const struct kc_session_at *at;
	struct kc_attachment *s;
	int rc;
	do {
		rc = kc_node_ready_await(n, deadline_ns, &s);
		if (kc_node_down(n, rc) || rc == -KV_ELEFT)
			return 0;
		if (rc == 0)
			rc = kc_session_ready_await(session, n, n->attaches, deadline_ns);
	} while (rc == 1);
	if (rc == 0)
		return 1;
	at = kc_session_part(session, n->index);
	return at && at->state == KC_SESSION_REFUSED && n->sessions.refusal[0]
		       ? kv_fail(err, rc, "server %s refuses the session: %s", name, n->sessions.refusal)
		       : kv_fail(err, rc, "server %s: opening a session: %s", name, kv_strerror(rc));
}

static int nowhere_open(const struct kvc_client *c, struct kv_error *err)
{
	const struct kc_node *n = &c->node[0];
	return kv_fail(err, n->refusal ? n->refusal : -KV_EPEERDOWN, "no server is up to open a session at: %s",
		       n->why[0] ? n->why : "none was reached yet");
}

static int open_all_await(struct kvc_session *session, uint64_t deadline_ns, struct kv_error *err)
{
	struct kvc_client *c = session->client;
	bool any = false;
	for (unsigned i = 0; i < c->num_nodes; i++) {
		int rc = open_at_await(session, &c->node[i], deadline_ns, err);
		if (rc < 0)
			return rc;
		any |= rc == 1;
	}
	return any ? 0 : nowhere_open(c, err);
}

static void sub_part(struct kvc_session *session)
{
	session->gone = true;
	for (unsigned i = 0; i < session->client->num_nodes; i++) {
		struct kc_session_at *at = kc_session_part(session, i);
		if (!at)
			continue;
		if (at->state == KC_SESSION_OPEN) {
			session->refs++;
			kc_session_goodbye(at);
		} else if (at->state == KC_SESSION_WANTED || at->state == KC_SESSION_REFUSED) {
			kv_list_del(&at->list);
			at->state = KC_SESSION_NONE;
		}
	}
}

static bool parting_left(struct kvc_session *session)
{
	for (unsigned i = 0; i < session->client->num_nodes; i++) {
		const struct kc_session_at *at = kc_session_part(session, i);
		if (at && at->state != KC_SESSION_NONE)
			return true;
	}
	return false;
}

int kc_session_end_await(struct kvc_session *session, uint64_t deadline_ns)
{
	int rc = 0;
	sub_part(session);
	while (rc == 0 && parting_left(session))
		rc = kc_wait_queue_await(session->client, &session->changed, deadline_ns);
	kc_session_unref(session);
	return rc == -KV_ECLOSED ? 0 : rc; /* the connections end, and the session with them */
}

int kc_session_begin_await(struct kvc_client *c, const struct kvc_session_options *o, const char *space,
			   uint64_t deadline_ns, struct kvc_session **out, struct kv_error *err)
{
	struct boot_key *key = NULL;
	struct kvc_session *session;
	int rc = o->psk ? boot_key_parse(o->psk, &key, err) : 0;
	if (rc < 0)
		return rc;
	session = sub_create(c, o, space);
	if (!session) {
		boot_key_destroy(&key);
		return kv_fail(err, -KV_ENOMEM, "no memory for a session");
	}
	session->key = key;
	for (unsigned i = 0; i < c->num_nodes; i++) {
		if (!kc_node_running(&c->node[i]) || c->node[i].ending)
			continue; /* a free place */
		session->at[i].state = KC_SESSION_WANTED;
		kv_list_add_tail(&c->node[i].sessions.wanted, &session->at[i].list);
		kc_sessions_start(&c->node[i]);
	}
	rc = open_all_await(session, deadline_ns, err);
	if (rc == 0) {
		*out = session;
		return 0;
	}
	sub_part(session);
	kc_session_unref(session);
	return rc;
}
