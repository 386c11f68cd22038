/* SPDX-License-Identifier: Apache-2.0 */
/* opener.c -- the coroutine of a node that opens sessions at its server and says goodbye to them.
 * It runs while either is to do, sends goodbyes first, and has up to ASKED_MAX questions without an answer. A server
 * without WIRE_WELCOME_SESSIONS is asked nothing: every waiting session is refused. */
#include "kvclient/logical/opener.h"

#include "kvclient/conn/node.h"

enum { ASKED_MAX = 64 /* questions out on one connection */ };

#define SEND_TIMEOUT_NS 2000000000ull

void kc_session_changed(struct kvc_session *session)
{
	co_queue_wake_all(&session->changed);
}

void kc_opener_wake(struct kc_node *n)
{
	if (n->sessions.opener)
		co_wake(n->sessions.opener);
}

static bool work_left(const struct kc_node *n)
{
	return n->state == KC_NODE_UP && !n->redo && !n->client->closing &&
	       !(kv_list_empty(&n->sessions.wanted) && kv_list_empty(&n->sessions.partings));
}

void kc_session_refuse(struct kc_session_at *at, int status)
{
	kv_list_del(&at->list);
	at->state = KC_SESSION_REFUSED;
	at->status = status;
	at->refused_ns = loop_turn_now(at->session->client->loop);
	kc_session_changed(at->session);
}

/* The server is of an older release. */
static void refuse_all(struct kc_node *n)
{
	snprintf(n->sessions.refusal, sizeof(n->sessions.refusal),
		 "it does not know further sessions: it is of an older release; run the same release on both sides");
	while (!kv_list_empty(&n->sessions.wanted))
		kc_session_refuse(KV_LIST_ENTRY(n->sessions.wanted.next, struct kc_session_at, list), -KV_ENOTSUP);
}

/* A question or a goodbye is about to go out. */
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
	struct kc_node_sessions *q = &n->sessions;
	struct kc_session_at *at = KV_LIST_ENTRY(q->wanted.next, struct kc_session_at, list);
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_OPEN,
				  .session_open = {.id = q->last_id + 1, .client_id = at->session->client_id}};
	int rc;
	loop_random(n->client->loop, m.session_open.nonce, sizeof(m.session_open.nonce));
	rc = boot_prove(n->control.conn, &q->challenge, at->session->key, &m.session_open);
	if (rc < 0) {
		q->refusal[0] = '\0'; /* not the server's */
		kc_session_refuse(at, rc);
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
	co_park_await(KV_NEVER); /* kc_opener_wake */
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
		kc_opener_wake(n);
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
