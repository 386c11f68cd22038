/* SPDX-License-Identifier: Apache-2.0 */
/* node_sessions.c -- the sessions of one server: they are opened and said goodbye to, and its answers are taken. The
 * opener, a coroutine of the node, runs while there is something to send. A server without WIRE_WELCOME_SESSIONS is
 * asked nothing: every waiting session is refused. */
#include "kvclient/logical/node_sessions.h"

#include "kvclient/conn/node.h"
#include "kvclient/request/lanes.h"

enum { ASKED_MAX = 64 /* questions out on one connection */ };

#define SEND_TIMEOUT_NS 2000000000ull

void kc_session_changed(struct kvc_session *session)
{
	co_queue_wake_all(&session->changed);
}

static void opener_wake(struct kc_node *n)
{
	if (n->sessions.opener)
		co_wake(n->sessions.opener);
}

static bool work_left(const struct kc_node *n)
{
	return n->state == KC_NODE_UP && !n->redo && !n->client->closing &&
	       !(kv_list_empty(&n->sessions.wanted) && kv_list_empty(&n->sessions.partings));
}

static void session_refuse(struct kc_session_at *at, int status)
{
	kv_list_del(&at->list);
	at->state = KC_SESSION_REFUSED;
	at->status = status;
	at->refused_ns = loop_turn_now(at->session->client->loop);
	kc_session_changed(at->session);
}

static void refuse_all(struct kc_node *n)
{
	snprintf(n->sessions.refusal, sizeof(n->sessions.refusal),
		 "it does not know further sessions: it is of an older release; run the same release on both sides");
	while (!kv_list_empty(&n->sessions.wanted))
		session_refuse(KV_LIST_ENTRY(n->sessions.wanted.next, struct kc_session_at, list), -KV_ENOTSUP);
}

static void wait_begin(struct kc_node *n)
{
	if (!kc_sessions_waiting(&n->sessions))
		n->sessions.waits_ns = loop_now(n->client->loop);
}

static int begin_await(struct kc_node *n)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_BEGIN};
	wait_begin(n);
	n->sessions.stage = KC_SESSIONS_BEGUN;
	return kc_node_send_await(n, &m, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
}

static int ask_await(struct kc_node *n)
{
	const struct kvc_pool *pool = n->client->pool;
	struct kc_node_sessions *q = &n->sessions;
	struct kc_session_at *at = KV_LIST_ENTRY(q->wanted.next, struct kc_session_at, list);
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_OPEN,
				  .session_open = {.id = q->last_id + 1, .client_id = at->session->client_id}};
	int rc;
	snprintf(m.session_open.space, sizeof(m.session_open.space), "%s",
		 at->session->space ? at->session->space : pool->options.namespace_name);
	if (!at->session->space)
		m.session_open.generation = atomic_load_explicit(&pool->cleared.to, memory_order_relaxed);
	loop_random(n->client->loop, m.session_open.nonce, sizeof(m.session_open.nonce));
	rc = boot_prove(n->control.conn, &q->challenge, at->session->key, &m.session_open);
	if (rc < 0) {
		q->refusal[0] = '\0'; /* not the server's */
		session_refuse(at, rc);
		return 0;
	}
	wait_begin(n);
	at->id = ++q->last_id;
	at->state = KC_SESSION_ASKED;
	at->session->refs++;
	kv_list_del(&at->list);
	kv_list_add_tail(&q->asked, &at->list);
	q->num_asked++;
	return kc_node_send_await(n, &m, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
}

static int part_await(struct kc_node *n)
{
	struct kc_session_at *at = KV_LIST_ENTRY(n->sessions.partings.next, struct kc_session_at, list);
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_CLOSE, .session_close.session = at->number};
	wait_begin(n);
	kv_list_del(&at->list);
	kv_list_add_tail(&n->sessions.parted, &at->list);
	return kc_node_send_await(n, &m, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
}

static int step_await(struct kc_node *n)
{
	struct kc_node_sessions *q = &n->sessions;
	if (!kv_list_empty(&q->partings))
		return part_await(n);
	if (!(n->attachment->flags & WIRE_WELCOME_SESSIONS)) {
		refuse_all(n);
		return 0;
	}
	if (q->stage == KC_SESSIONS_NONE)
		return begin_await(n);
	if (q->stage == KC_SESSIONS_CHALLENGED && q->num_asked < ASKED_MAX)
		return ask_await(n);
	co_park_await(KV_NEVER); /* opener_wake */
	return 0;
}

static void opener(void *arg)
{
	struct kc_node *n = arg;
	struct kvc_client *c = n->client;
	int rc = 0;
	n->sessions.opener = co_self();
	while (rc == 0 && work_left(n))
		rc = step_await(n);
	/* After any other code the connection is broken, and the node notices itself. */
	if (rc == -KV_ENOMEM)
		kc_node_redo(n, "no memory to ask for a session");
	n->sessions.opener = NULL;
	n->sessions.opening = false;
	kc_client_ended(c);
}

void kc_sessions_start(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	if (n->sessions.opening) {
		opener_wake(n);
		return;
	}
	if (!work_left(n) || co_spawn(c->loop, opener, n, "kvc sessions") < 0)
		return;
	n->sessions.opening = true;
	kc_client_began(c);
}

void kc_session_goodbye(struct kc_session_at *at)
{
	at->state = KC_SESSION_CLOSING;
	kv_list_add_tail(&at->node->sessions.partings, &at->list);
	kc_sessions_start(at->node);
}

/* ---- answers ---- */

static struct kc_session_at *asked_take(struct kc_node *n, uint32_t id)
{
	KV_LIST_EACH (e, &n->sessions.asked) {
		struct kc_session_at *at = KV_LIST_ENTRY(e, struct kc_session_at, list);
		if (at->id != id)
			continue;
		kv_list_del(&at->list);
		n->sessions.num_asked--;
		opener_wake(n);
		return at;
	}
	return NULL;
}

static int granted(struct kc_node *n, const struct wire_session_ok *ok)
{
	struct kc_session_at *at = asked_take(n, ok->id);
	if (!at)
		return -KV_EPROTO;
	at->number = ok->session;
	at->credits = ok->credits;
	if (at->session->gone || kc_lanes_make(at, n->attachment) < 0) {
		kc_session_goodbye(at); /* takes over the question's reference */
		kc_session_changed(at->session);
		return 0;
	}
	at->state = KC_SESSION_OPEN;
	kc_session_changed(at->session);
	kc_session_unref(at->session);
	return 0;
}

static void none(struct kc_session_at *at)
{
	at->state = KC_SESSION_NONE;
	at->number = 0;
	kc_session_changed(at->session);
	kc_session_unref(at->session);
}

/* Calls return the code. Codes with another meaning to a call (try again at once, no such key) become -KV_EPROTO. */
static int refusal_code(int32_t status)
{
	switch (status) {
	case WIRE_DENIED:
	case WIRE_FULL:
	case WIRE_CLOSING:
	case WIRE_INVALID:
	case WIRE_NOMEM:
		return wire_status_error(status);
	default:
		return -KV_EPROTO;
	}
}

static int refused(struct kc_node *n, const struct wire_session_refuse *r)
{
	struct kc_session_at *at = asked_take(n, r->id);
	if (!at)
		return -KV_EPROTO;
	if (at->session->gone) { /* the host has gone */
		none(at);
		return 0;
	}
	kc_printable(n->sessions.refusal, sizeof(n->sessions.refusal), r->text);
	n->control.denied += refusal_code(r->status) == -KV_EDENIED;
	session_refuse(at, refusal_code(r->status));
	kc_session_unref(at->session);
	return 0;
}

/* Answers come in the order of the goodbyes: a correct server answers the first. */
static int parted(struct kc_node *n, uint32_t number)
{
	KV_LIST_EACH (e, &n->sessions.parted) {
		struct kc_session_at *at = KV_LIST_ENTRY(e, struct kc_session_at, list);
		if (at->number != number)
			continue;
		kv_list_del(&at->list);
		none(at);
		return 0;
	}
	return -KV_EPROTO;
}

static int challenged(struct kc_node *n, const uint8_t *nonce)
{
	struct kc_node_sessions *q = &n->sessions;
	if (q->stage != KC_SESSIONS_BEGUN)
		return -KV_EPROTO;
	memcpy(q->challenge.nonce, nonce, sizeof(q->challenge.nonce));
	memcpy(q->challenge.token, n->attachment->token, sizeof(q->challenge.token));
	q->stage = KC_SESSIONS_CHALLENGED;
	opener_wake(n);
	return 0;
}

int kc_sessions_message(struct kc_node *n, const struct wire_ctrl_msg *m)
{
	n->sessions.waits_ns = loop_turn_now(n->client->loop); /* for the next one */
	switch (m->type) {
	case WIRE_CTRL_SESSION_CHALLENGE:
		return challenged(n, m->session_challenge.nonce);
	case WIRE_CTRL_SESSION_OK:
		return granted(n, &m->session_ok);
	case WIRE_CTRL_SESSION_REFUSE:
		return refused(n, &m->session_refuse);
	case WIRE_CTRL_SESSION_CLOSE_OK:
		return parted(n, m->session_close.session);
	default:
		return -KV_EPROTO;
	}
}

/* ---- the end of a connection ---- */

static void at_reset(struct kc_session_at *at)
{
	struct kvc_session *session = at->session;
	uint8_t state = at->state;
	kv_list_del(&at->list);
	kc_lanes_free(at);
	if (session->gone) {
		if (state == KC_SESSION_ASKED || state == KC_SESSION_CLOSING)
			none(at); /* may free it */
		return;
	}
	at->state = KC_SESSION_WANTED;
	kv_list_add_tail(&at->node->sessions.wanted, &at->list);
	kc_session_changed(session);
	if (state == KC_SESSION_ASKED || state == KC_SESSION_CLOSING)
		kc_session_unref(session);
}

void kc_sessions_reset(struct kc_node *n)
{
	struct kc_node_sessions *q = &n->sessions;
	KV_LIST_EACH_SAFE (e, &n->client->sessions) {
		struct kc_session_at *at = kc_session_part(KV_LIST_ENTRY(e, struct kvc_session, node), n->index);
		if (at)
			at_reset(at);
	}
	q->num_asked = q->last_id = 0;
	q->stage = KC_SESSIONS_NONE;
	explicit_bzero(&q->challenge, sizeof(q->challenge));
	opener_wake(n);
}
