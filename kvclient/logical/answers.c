/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c -- a server's answers about sessions, and the end of its connection. */
#include "kvclient/logical/answers.h"

#include "kvclient/conn/node.h"
#include "kvclient/logical/opener.h"
#include "kvclient/request/lanes.h"

static struct kc_session_at *asked_take(struct kc_node *n, uint32_t id)
{
	KV_LIST_EACH (e, &n->sessions.asked) {
		struct kc_session_at *at = KV_LIST_ENTRY(e, struct kc_session_at, list);
		if (at->id != id)
			continue;
		kv_list_del(&at->list);
		n->sessions.num_asked--;
		kc_opener_wake(n);
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
	kc_session_refuse(at, refusal_code(r->status));
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
	kc_opener_wake(n);
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
	kc_opener_wake(n);
}
