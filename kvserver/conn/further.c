/* SPDX-License-Identifier: Apache-2.0 */
/* further.c -- further sessions of an attachment, one per logical client: the proof of its identity, and its number
 * (docs/reference/protocol.md 2.7).
 *
 * A question that is not granted leaves no state: the challenge is the attachment's, ids in questions must ascend, and
 * the proof is checked at once. A wrong proof is answered late, later each time, while the reader reads nothing;
 * FAILURES_MAX close the connection. Room is checked after the proof, so a stranger learns nothing about it. Numbers
 * are places in the attachment's table. */
#include <stdlib.h>

#include "kvserver/conn/conn.h"
#include "kvserver/conn/rights.h"
#include "kvserver/conn/private.h"
#include "kvserver/shard/session.h"

enum { FAILURES_MAX = 5, PLACES_MIN = 16, GENERATIONS = 1 << (32 - SESSION_INDEX_BITS) };

#define FURTHER_NONE    UINT32_MAX
#define FAILURE_NS      100000000ull /* an answer to a wrong proof is delayed by this, doubled each time */
#define FAILURES_FOR_NS 60000000000ull

static void run_open(struct call *call)
{
	struct attachment_call *ac = attachment_call_of(call);
	const struct attachment *a = ac->attachment;
	struct session *o;
	int rc = session_open(ac->on_shard, a->session_number, &a->grant, &o);
	if (rc == 0)
		session_space_read(o, &ac->generation, &ac->cleared_ns);
	call_finish(call, rc);
}

static void run_end(struct call *call)
{
	struct attachment_call *ac = attachment_call_of(call);
	session_end(ac->on_shard, ac->attachment->session_number, call, &ac->session_received);
}

/* ---- places ---- */

static int places_grow(struct further *f)
{
	uint32_t cap = f->cap ? f->cap * 2 : PLACES_MIN;
	struct further_place *p;
	if (f->places < f->cap)
		return 0;
	p = realloc(f->place, cap * sizeof(*p));
	if (!p)
		return -KV_ENOMEM;
	f->place = p;
	f->cap = cap;
	return 0;
}

static int place_take(struct further *f, uint32_t *out)
{
	int rc;
	if (f->count == 0 && f->places == 0)
		f->free = f->free_last = FURTHER_NONE;
	if (f->free != FURTHER_NONE) {
		*out = f->free;
		f->free = f->place[*out].next;
		if (f->free == FURTHER_NONE)
			f->free_last = FURTHER_NONE;
	} else {
		rc = places_grow(f);
		if (rc)
			return rc;
		*out = f->places++;
		f->place[*out] = (struct further_place){0};
	}
	f->place[*out].used = true;
	f->count++;
	return 0;
}

static void place_give(struct further *f, uint32_t at)
{
	f->place[at].used = false;
	f->place[at].next = FURTHER_NONE;
	if (f->free_last == FURTHER_NONE)
		f->free = at;
	else
		f->place[f->free_last].next = at;
	f->free_last = at;
	f->count--;
}

static uint32_t number_make(struct further *f, uint32_t at)
{
	struct further_place *p = &f->place[at];
	p->generation = p->generation + 1u == GENERATIONS ? 1 : (uint16_t)(p->generation + 1);
	return (uint32_t)p->generation << SESSION_INDEX_BITS | at;
}

static uint32_t place_of(const struct further *f, uint32_t number)
{
	uint32_t at = number & (SESSIONS_MAX - 1);
	return at < f->places && f->place[at].used && f->place[at].generation == number >> SESSION_INDEX_BITS
		       ? at
		       : FURTHER_NONE;
}

/* ---- counts ---- */

static void session_enter(struct kvs_server *s, struct further_place *p, const char *tenant)
{
	s->clients.open++;
	p->places = places_find(&s->places, tenant);
	places_take(p->places, PLACE_SESSION);
}

static void session_leave(struct kvs_server *s, struct further_place *p)
{
	s->clients.open--;
	places_give(&s->places, p->places, PLACE_SESSION);
	p->places = NULL;
}

/* ---- messages ---- */

static int begin_await(struct conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_CHALLENGE};
	struct further *f = &c->now->further;
	int rc;
	if (f->begun)
		return -KV_EPROTO;
	rc = kv_entropy_fill(c->server->opt.entropy, f->challenge.nonce, sizeof(f->challenge.nonce));
	if (rc)
		return rc;
	memcpy(f->challenge.token, c->now->token, KV_TOKEN_LEN);
	f->begun = true;
	memcpy(m.session_challenge.nonce, f->challenge.nonce, sizeof(f->challenge.nonce));
	return conn_send_await(c, &m);
}

static int refuse_await(struct conn *c, uint32_t id, int rc, const char *text)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_REFUSE,
				  .session_refuse = {.id = id, .status = wire_error_status(rc)}};
	control_count(c->server, WIRE_STAT_SESSIONS_REFUSED);
	snprintf(m.session_refuse.text, sizeof(m.session_refuse.text), "%s", text);
	return conn_send_await(c, &m);
}

/* Returns 0, or the code that the connection ends with. */
static int denied_await(struct conn *c, const struct wire_session_open *o)
{
	struct conn_failures *f = &c->failures;
	struct loop *loop = c->server->control;
	char name[KV_HOST_MAX];
	int rc;
	if (loop_now(loop) - f->last_ns > FAILURES_FOR_NS)
		f->count = 0;
	f->last_ns = loop_now(loop);
	f->count++;
	if (log_allowed(c->server))
		kv_event(c->server->opt.log, KV_LOG_WARN,
			 KV_EVENT("session_denied", KV_FIELD("client", name), KV_FIELD("identity", o->identity),
				  KV_NUMBER("failures", f->count)),
			 "client %s: a further session for identity \"%s\" is denied: "
			 "unknown, or the proof is wrong (%u of %d)",
			 conn_name(c, name, sizeof(name)), o->identity, f->count, FAILURES_MAX);
	co_sleep_await(loop_now(loop) + (FAILURE_NS << (f->count - 1)));
	if (c->closing)
		return -KV_EPEERDOWN;
	rc = refuse_await(c, o->id, -KV_EDENIED,
			  "the identity is unknown, or its key differs; "
			  "compare the client's key with the server's --session-keys");
	return rc == 0 && f->count >= FAILURES_MAX ? -KV_EDENIED : rc;
}

static int room_check(const struct conn *c, struct kv_error *err)
{
	const struct kvs_server *s = c->server;
	if (s->life.stop_asked)
		return kv_fail(err, -KV_ECLOSED, "the server is shutting down");
	if (s->clients.open >= s->opt.max_clients)
		return kv_fail(
			err, -KV_EFULL,
			"the server has %u client%s, as many as --max-clients allows; further sessions count, too",
			s->clients.open, s->clients.open == 1 ? "" : "s");
	if (c->now->further.count >= s->opt.max_sessions)
		return kv_fail(err, -KV_EFULL,
			       "this connection has %u further sessions, as many as --max-sessions allows",
			       c->now->further.count);
	return 0;
}

static int admit_await(struct conn *c, const struct wire_session_open *o, uint32_t *out_at, struct kv_error *err)
{
	struct further *f = &c->now->further;
	char names[WIRE_IDENTITY_MAX + 1];
	int rc = grant_find(c->server, grant_names(c, o->identity, names, sizeof(names)), o->space, o->generation,
			    &c->now->grant);
	if (rc) {
		grant_refused(c, o->identity, o->space, GRANT_UNKNOWN, WIRE_STAT_IDENTITIES_REFUSED);
		return kv_fail(err, rc, GRANT_UNKNOWN);
	}
	rc = room_check(c, err);
	if (rc == 0)
		rc = grant_room(c, o->identity, &c->now->grant, false, err);
	if (rc)
		return rc;
	rc = place_take(f, out_at);
	if (rc)
		return kv_fail(err, rc, "the server has no memory for another session");
	session_enter(c->server, &f->place[*out_at], c->now->grant.tenant);
	c->now->session_number = number_make(f, *out_at);
	rc = attachment_all_await(c->now, run_open, err);
	if (rc == 0) {
		attachment_space_await(c->now);
		return 0;
	}
	attachment_all_await(c->now, run_end, NULL); /* where it was opened */
	session_leave(c->server, &f->place[*out_at]);
	place_give(f, *out_at);
	return rc;
}

static int granted_await(struct conn *c, const struct wire_session_open *o)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_OK};
	struct kv_error err = {0};
	char name[KV_HOST_MAX];
	uint32_t at;
	int rc = admit_await(c, o, &at, &err);
	if (rc)
		return refuse_await(c, o->id, rc, err.text);
	m.session_ok = (struct wire_session_ok){
		.id = o->id, .session = c->now->session_number, .credits = session_credits(c->server->opt.credits)};
	control_count(c->server, WIRE_STAT_SESSIONS_OPENED);
	grant_audit(c, o->identity, &c->now->grant);
	rc = conn_send_await(c, &m);
	kv_debug(c->server->opt.log, "client %s: session %u has further session %u, client id %llu%s%s",
		 conn_name(c, name, sizeof(name)), c->now->number, c->now->session_number,
		 (unsigned long long)o->client_id, o->identity[0] ? ", identity " : "", o->identity);
	return rc;
}

static int open_await(struct conn *c, const struct wire_session_open *o)
{
	struct further *f = &c->now->further;
	int rc;
	if (!f->begun)
		return -KV_EPROTO;
	if (o->id <= f->last_id) {
		control_count(c->server, WIRE_STAT_BAD_CONTROL);
		return refuse_await(c, o->id, -KV_EINVAL, "ids of new sessions must ascend");
	}
	f->last_id = o->id;
	rc = boot_proof_check(c->boot, &f->challenge, c->server->keys.of_sessions, o);
	if (rc == -KV_EDENIED)
		return denied_await(c, o);
	if (rc)
		return rc;
	return granted_await(c, o);
}

static int close_await(struct conn *c, uint32_t number)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_CLOSE_OK, .session_close.session = number};
	struct attachment *a = c->now;
	uint32_t at = place_of(&a->further, number);
	if (at != FURTHER_NONE) {
		a->session_number = number;
		attachment_all_await(a, run_end, NULL);
		for (unsigned i = 0; i < c->server->opt.shards; i++)
			m.session_close.requests += a->call[i].session_received;
		session_leave(c->server, &a->further.place[at]);
		place_give(&a->further, at);
	}
	return conn_send_await(c, &m);
}

int further_message_await(struct conn *c, const struct wire_ctrl_msg *m)
{
	switch (m->type) {
	case WIRE_CTRL_SESSION_BEGIN:
		return begin_await(c);
	case WIRE_CTRL_SESSION_OPEN:
		return open_await(c, &m->session_open);
	default:
		return close_await(c, m->session_close.session);
	}
}
