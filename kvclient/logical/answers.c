/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c -- a server's answers about sessions, and the end of its connection. */
#include "kvclient/logical/answers.h"

#include "kvclient/conn/node.h"
#include "kvclient/logical/opener.h"
#include "kvclient/request/lanes.h"

static struct kvc_session_at *asked_take(struct kvc_node *n, uint32_t id)
{
	KV_LIST_EACH (e, &n->sessions.asked) {
		struct kvc_session_at *at = KV_LIST_ENTRY(e, struct kvc_session_at, list);
		if (at->id != id)
			continue;
		kv_list_del(&at->list);
		n->sessions.num_asked--;
		kvc_opener_wake(n);
		return at;
	}
	return NULL;
}

static int granted(struct kvc_node *n, const struct wire_session_ok *ok)
{
	struct kvc_session_at *at = asked_take(n, ok->id);
	if (!at)
		return -KV_EPROTO;
	at->number = ok->session;
	at->credits = ok->credits;
	if (at->session->gone || kvc_lanes_make(at, n->attachment) < 0) {
		kvc_session_goodbye(at); /* takes over the question's reference */
		kvc_session_changed(at->session);
		return 0;
	}
	at->state = KVC_SESSION_OPEN;
	kvc_session_changed(at->session);
	kvc_session_unref(at->session);
	return 0;
}

static void none(struct kvc_session_at *at)
{
	at->state = KVC_SESSION_NONE;
	at->number = 0;
	kvc_session_changed(at->session);
	kvc_session_unref(at->session);
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

static int refused(struct kvc_node *n, const struct wire_session_refuse *r)
{
	struct kvc_session_at *at = asked_take(n, r->id);
	if (!at)
		return -KV_EPROTO;
	if (at->session->gone) { /* the host has gone */
		none(at);
		return 0;
	}
	kvc_printable(n->sessions.refusal, sizeof(n->sessions.refusal), r->text);
	n->control.denied += refusal_code(r->status) == -KV_EDENIED;
	kvc_session_refuse(at, refusal_code(r->status));
	kvc_session_unref(at->session);
	return 0;
}

/* Answers come in the order of the goodbyes: a correct server answers the first. */
static int parted(struct kvc_node *n, uint32_t number)
{
	KV_LIST_EACH (e, &n->sessions.parted) {
		struct kvc_session_at *at = KV_LIST_ENTRY(e, struct kvc_session_at, list);
		if (at->number != number)
			continue;
		kv_list_del(&at->list);
		none(at);
		return 0;
	}
	return -KV_EPROTO;
}

static int challenged(struct kvc_node *n, const uint8_t *nonce)
{
	struct kvc_node_sessions *q = &n->sessions;
	if (q->stage != KVC_SESSIONS_BEGUN)
		return -KV_EPROTO;
	memcpy(q->challenge.nonce, nonce, sizeof(q->challenge.nonce));
	memcpy(q->challenge.token, n->attachment->token, sizeof(q->challenge.token));
	q->stage = KVC_SESSIONS_CHALLENGED;
	kvc_opener_wake(n);
	return 0;
}

int kvc_sessions_message(struct kvc_node *n, const struct wire_ctrl_msg *m)
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

static void at_reset(struct kvc_session_at *at)
{
	struct kvc_session *session = at->session;
	uint8_t state = at->state;
	kv_list_del(&at->list);
	kvc_lanes_free(at);
	if (session->gone) {
		if (state == KVC_SESSION_ASKED || state == KVC_SESSION_CLOSING)
			none(at); /* may free it */
		return;
	}
	at->state = KVC_SESSION_WANTED;
	kv_list_add_tail(&at->node->sessions.wanted, &at->list);
	kvc_session_changed(session);
	if (state == KVC_SESSION_ASKED || state == KVC_SESSION_CLOSING)
		kvc_session_unref(session);
}

void kvc_sessions_reset(struct kvc_node *n)
{
	struct kvc_node_sessions *q = &n->sessions;
	KV_LIST_EACH_SAFE (e, &n->client->sessions) {
		struct kvc_session_at *at = kvc_session_part(KV_LIST_ENTRY(e, struct kvc_session, node), n->index);
		if (at)
			at_reset(at);
	}
	q->num_asked = q->last_id = 0;
	q->stage = KVC_SESSIONS_NONE;
	explicit_bzero(&q->challenge, sizeof(q->challenge));
	kvc_opener_wake(n);
}
