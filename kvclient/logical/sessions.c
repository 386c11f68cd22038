/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c -- further sessions (docs/reference/protocol.md 2.7) at the servers of a client.
 *
 * A session is a small object with a part for each server: WANTED -> ASKED -> OPEN, or REFUSED. A connection that ends
 * takes all of them along: they are WANTED again, and opened at the next one by a coroutine of the node, the opener,
 * which runs while there is something to ask or to say goodbye to, with up to SUB_ASKED_MAX questions out. A call that
 * needs one which is not open yet moves it to the front and waits for it by its deadline. So a client with thousands is
 * in use again at once after a reconnect, and does not wait for all of them.
 *
 * A server that leaves questions unanswered while its heartbeats come (kvc_subs_late) is connected anew, so that
 * sessions do not wait for ever for an answer that was lost in it.
 *
 * The handle is the host's until it gives it back. What is out then (a question, a goodbye, requests that were given
 * up) keeps the object, counted in refs; a session that is granted after nobody wants it is said goodbye to. */
#include "kvclient/logical/sessions.h"

#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/core/block.h"
#include "kvclient/core/sized.h"
#include "kvclient/logical/pins.h"
#include "kvclient/request/lanes.h"

enum { SUB_ASKED_MAX = 64 /* questions out on one connection */ };

#define REFUSED_FOR_NS  500000000ull /* a refusal holds for so long: then a call may ask again */
#define SEND_TIMEOUT_NS 2000000000ull

/* ---- the object ---- */

static struct kvc_sub *sub_create(struct kvc_client *c, const struct kvc_session_options *o)
{
	unsigned servers = c->pool->num_servers;
	struct kvc_sub *sub = calloc(1, sizeof(*sub) + servers * sizeof(sub->at[0]));
	if (!sub)
		return NULL;
	sub->client = c;
	sub->refs = 1;
	sub->index = c->num_subs++;
	sub->client_id = o->client_id ? o->client_id : c->pool->options.base_client_id + c->index;
	co_queue_init(&sub->changed);
	kv_list_init(&sub->pins);
	kv_list_add_tail(&c->subs, &sub->node);
	for (unsigned i = 0; i < servers; i++) {
		sub->at[i].sub = sub;
		sub->at[i].node = &c->node[i];
		kv_list_init(&sub->at[i].list);
	}
	return sub;
}

static void changed(struct kvc_sub *sub)
{
	co_queue_wake_all(&sub->changed);
}

struct kvc_sub *kvc_sub_of(const struct kvc_call *call)
{
	const size_t end = offsetof(struct kvc_call, session) + sizeof(call->session);
	return kvc_sized(call) && call->size >= end ? call->session : NULL;
}

/* ---- opening, at one server ---- */

/* Something that the opener may wait for has changed. */
static void opener_wake(struct kvc_node *n)
{
	if (n->subs.opener)
		co_wake(n->subs.opener);
}

static bool work_left(const struct kvc_node *n)
{
	return n->state == KVC_NODE_UP && !n->redo && !n->client->closing &&
	       !(kv_list_empty(&n->subs.wanted) && kv_list_empty(&n->subs.partings));
}

static void refuse(struct kvc_sub_at *at, int status)
{
	kv_list_del(&at->list);
	at->state = KVC_SUB_REFUSED;
	at->status = status;
	at->refused_ns = loop_turn_now(at->sub->client->loop);
	changed(at->sub);
}

/* It is older: everybody who waits is told. */
static void refuse_all(struct kvc_node *n)
{
	snprintf(n->subs.refusal, sizeof(n->subs.refusal),
		 "it does not know further sessions: it is of an older release; run the same release on both sides");
	while (!kv_list_empty(&n->subs.wanted))
		refuse(KV_LIST_ENTRY(n->subs.wanted.next, struct kvc_sub_at, list), -KV_ENOTSUP);
}

/* A question or goodbye goes out. */
static void wait_begin(struct kvc_node *n)
{
	if (!kvc_subs_waiting(&n->subs))
		n->subs.waits_ns = loop_now(n->client->loop);
}

static int begin_await(struct kvc_node *n)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_BEGIN};
	wait_begin(n);
	n->subs.begun = true;
	return kvc_node_send_await(n, &m, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
}

static int ask_await(struct kvc_node *n)
{
	struct kvc_node_subs *q = &n->subs;
	struct kvc_sub_at *at = KV_LIST_ENTRY(q->wanted.next, struct kvc_sub_at, list);
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_OPEN,
				  .session_open = {.id = q->last_id + 1, .client_id = at->sub->client_id}};
	int rc;
	loop_random(n->client->loop, m.session_open.nonce, sizeof(m.session_open.nonce));
	rc = boot_prove(n->conn, &q->challenge, at->sub->key, &m.session_open);
	if (rc < 0) {
		q->refusal[0] = '\0'; /* not the server's */
		refuse(at, rc);
		return 0;
	}
	wait_begin(n);
	at->id = ++q->last_id;
	at->state = KVC_SUB_ASKED;
	at->sub->refs++;
	kv_list_del(&at->list);
	kv_list_add_tail(&q->asked, &at->list);
	q->num_asked++;
	return kvc_node_send_await(n, &m, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
}

static int part_await(struct kvc_node *n)
{
	struct kvc_sub_at *at = KV_LIST_ENTRY(n->subs.partings.next, struct kvc_sub_at, list);
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_CLOSE, .session_close.session = at->number};
	wait_begin(n);
	kv_list_del(&at->list);
	kv_list_add_tail(&n->subs.parted, &at->list);
	return kvc_node_send_await(n, &m, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
}

static int step_await(struct kvc_node *n)
{
	struct kvc_node_subs *q = &n->subs;
	if (!kv_list_empty(&q->partings))
		return part_await(n);
	if (!(n->session->flags & WIRE_WELCOME_SESSIONS)) {
		refuse_all(n);
		return 0;
	}
	if (!q->begun)
		return begin_await(n);
	if (q->challenged && q->num_asked < SUB_ASKED_MAX)
		return ask_await(n);
	co_park_await(KV_NEVER); /* opener_wake */
	return 0;
}

static void opener(void *arg)
{
	struct kvc_node *n = arg;
	struct kvc_client *c = n->client;
	int rc = 0;
	n->subs.opener = co_self();
	while (rc == 0 && work_left(n))
		rc = step_await(n);
	/* Else the connection is broken, and the node sees that, too. */
	if (rc == -KV_ENOMEM)
		kvc_node_redo(n, "no memory to ask for a session");
	n->subs.opener = NULL;
	n->subs.opening = false;
	kvc_client_ended(c);
}

void kvc_subs_start(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	if (n->subs.opening) {
		opener_wake(n);
		return;
	}
	/* Without a coroutine now, it is tried again when the next call wants one. */
	if (!work_left(n) || co_spawn(c->loop, opener, n, "kvc sessions") < 0)
		return;
	n->subs.opening = true;
	kvc_client_began(c);
}

/* ---- answers ---- */

static struct kvc_sub_at *asked_take(struct kvc_node *n, uint32_t id)
{
	KV_LIST_EACH (e, &n->subs.asked) {
		struct kvc_sub_at *at = KV_LIST_ENTRY(e, struct kvc_sub_at, list);
		if (at->id != id)
			continue;
		kv_list_del(&at->list);
		n->subs.num_asked--;
		opener_wake(n);
		return at;
	}
	return NULL;
}

/* Say goodbye to it. The reference that its question had is the goodbye's now. */
static void parting(struct kvc_sub_at *at)
{
	at->state = KVC_SUB_CLOSING;
	kv_list_add_tail(&at->node->subs.partings, &at->list);
	kvc_subs_start(at->node);
}

static int granted(struct kvc_node *n, const struct wire_session_ok *ok)
{
	struct kvc_sub_at *at = asked_take(n, ok->id);
	if (!at)
		return -KV_EPROTO;
	at->number = ok->session;
	at->credits = ok->credits;
	if (at->sub->gone || kvc_lanes_make(at, n->session) < 0) {
		parting(at);
		changed(at->sub);
		return 0;
	}
	at->state = KVC_SUB_OPEN;
	changed(at->sub);
	kvc_sub_unref(at->sub);
	return 0;
}

static void none(struct kvc_sub_at *at)
{
	at->state = KVC_SUB_NONE;
	at->number = 0;
	changed(at->sub);
	kvc_sub_unref(at->sub);
}

/* Calls return it: one that means something else to them (that they shall try again at once, that there is no such key)
 * is not believed. */
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
	struct kvc_sub_at *at = asked_take(n, r->id);
	if (!at)
		return -KV_EPROTO;
	if (at->sub->gone) { /* nobody asks any more */
		none(at);
		return 0;
	}
	kvc_printable(n->subs.refusal, sizeof(n->subs.refusal), r->text);
	n->denied += refusal_code(r->status) == -KV_EDENIED;
	refuse(at, refusal_code(r->status));
	kvc_sub_unref(at->sub);
	return 0;
}

/* Answers come in the order of the questions: it is the first, unless the server is no server of ours. */
static int parted(struct kvc_node *n, uint32_t number)
{
	KV_LIST_EACH (e, &n->subs.parted) {
		struct kvc_sub_at *at = KV_LIST_ENTRY(e, struct kvc_sub_at, list);
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
	struct kvc_node_subs *q = &n->subs;
	if (!q->begun || q->challenged)
		return -KV_EPROTO;
	memcpy(q->challenge.nonce, nonce, sizeof(q->challenge.nonce));
	memcpy(q->challenge.token, n->session->token, sizeof(q->challenge.token));
	q->challenged = true;
	opener_wake(n);
	return 0;
}

int kvc_subs_message(struct kvc_node *n, const struct wire_ctrl_msg *m)
{
	n->subs.waits_ns = loop_turn_now(n->client->loop); /* for the next one */
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

static void at_reset(struct kvc_sub_at *at)
{
	struct kvc_sub *sub = at->sub;
	uint8_t state = at->state;
	kv_list_del(&at->list);
	kvc_lanes_free(at);
	if (sub->gone) {
		if (state == KVC_SUB_ASKED || state == KVC_SUB_CLOSING)
			none(at); /* may free it */
		return;
	}
	at->state = KVC_SUB_WANTED;
	kv_list_add_tail(&at->node->subs.wanted, &at->list);
	changed(sub);
	if (state == KVC_SUB_ASKED || state == KVC_SUB_CLOSING)
		kvc_sub_unref(sub);
}

void kvc_subs_reset(struct kvc_node *n)
{
	struct kvc_node_subs *q = &n->subs;
	KV_LIST_EACH_SAFE (e, &n->client->subs)
		at_reset(&KV_LIST_ENTRY(e, struct kvc_sub, node)->at[n->index]);
	q->num_asked = q->last_id = 0;
	q->begun = q->challenged = false;
	explicit_bzero(&q->challenge, sizeof(q->challenge));
	opener_wake(n);
}

void kvc_subs_free(struct kvc_client *c)
{
	while (!kv_list_empty(&c->subs))
		kvc_sub_free(KV_LIST_ENTRY(c->subs.next, struct kvc_sub, node));
}

/* ---- calls ---- */

/* A refusal is not for ever: a server that was full may have room. */
static bool refusal_holds(const struct kvc_sub_at *at)
{
	return loop_now(at->sub->client->loop) - at->refused_ns < REFUSED_FOR_NS || at->status == -KV_EDENIED ||
	       at->status == -KV_ENOTSUP;
}

/* To the front of those that are to be opened. */
static void want(struct kvc_sub_at *at)
{
	kv_list_del(&at->list);
	at->state = KVC_SUB_WANTED;
	kv_list_add_head(&at->node->subs.wanted, &at->list);
	kvc_subs_start(at->node);
}

/* One that was granted when there was no memory for it here is said goodbye to, and asked for again by the next call.
 */
int kvc_sub_ready_await(struct kvc_sub *sub, struct kvc_node *n, const struct kvc_session *s, uint64_t deadline_ns)
{
	struct kvc_sub_at *at = &sub->at[n->index];
	bool asked = false; /* since we came */
	for (;;) {
		if (n->client->closing)
			return -KV_ECLOSED;
		if (!kvc_node_uses(n, s))
			return 1;
		if (at->state == KVC_SUB_OPEN)
			return 0;
		if (at->state == KVC_SUB_REFUSED && refusal_holds(at))
			return at->status;
		if (asked && (at->state == KVC_SUB_NONE || at->state == KVC_SUB_CLOSING))
			return -KV_ENOMEM;
		asked |= at->state != KVC_SUB_CLOSING;
		if (at->state != KVC_SUB_ASKED && at->state != KVC_SUB_CLOSING)
			want(at);
		if (co_queue_wait_await(&sub->changed, deadline_ns) < 0)
			return -KV_ETIMEOUT;
	}
}

/* ---- the API ---- */

static int options_take(const struct kvc_session_options *given, struct kvc_session_options *out, struct kv_error *err)
{
	return kvc_sized_take(out, sizeof(*out), given, sizeof(size_t), "struct kvc_session_options", err);
}

/* At one server, if it is there. 1: it is open. */
static int open_at_await(struct kvc_sub *sub, struct kvc_node *n, uint64_t deadline_ns, struct kv_error *err)
{
	const char *name = n->client->pool->server[n->index].entry.text;
	struct kvc_session *s;
	int rc;
	do {
		rc = kvc_node_ready_await(n, deadline_ns, &s);
		if (kvc_node_down(n, rc) || rc == -KV_ELEFT)
			return 0;
		if (rc == 0)
			rc = kvc_sub_ready_await(sub, n, s, deadline_ns);
	} while (rc == 1);
	if (rc == 0)
		return 1;
	return sub->at[n->index].state == KVC_SUB_REFUSED && n->subs.refusal[0]
		       ? kv_fail(err, rc, "server %s refuses the session: %s", name, n->subs.refusal)
		       : kv_fail(err, rc, "server %s: opening a session: %s", name, kv_strerror(rc));
}

/* The first server of the list speaks for all. */
static int nowhere_open(const struct kvc_client *c, struct kv_error *err)
{
	const struct kvc_node *n = &c->node[0];
	return kv_fail(err, n->refusal ? n->refusal : -KV_EPEERDOWN, "no server is up to open a session at: %s",
		       n->why[0] ? n->why : "none was reached yet");
}

static int open_all_await(struct kvc_sub *sub, uint64_t deadline_ns, struct kv_error *err)
{
	struct kvc_client *c = sub->client;
	bool any = false;
	for (unsigned i = 0; i < c->pool->num_servers; i++) {
		int rc = open_at_await(sub, &c->node[i], deadline_ns, err);
		if (rc < 0)
			return rc;
		any |= rc == 1;
	}
	return any ? 0 : nowhere_open(c, err);
}

/* The handle is given back: what is open is said goodbye to. */
static void sub_part(struct kvc_sub *sub)
{
	sub->gone = true;
	for (unsigned i = 0; i < sub->client->pool->num_servers; i++) {
		struct kvc_sub_at *at = &sub->at[i];
		if (at->state == KVC_SUB_OPEN) {
			sub->refs++;
			parting(at);
		} else if (at->state == KVC_SUB_WANTED || at->state == KVC_SUB_REFUSED) {
			kv_list_del(&at->list);
			at->state = KVC_SUB_NONE;
		}
	}
}

static bool parting_left(const struct kvc_sub *sub)
{
	for (unsigned i = 0; i < sub->client->pool->num_servers; i++)
		if (sub->at[i].state != KVC_SUB_NONE)
			return true;
	return false;
}

static int sub_close_await(struct kvc_sub *sub, uint64_t deadline_ns)
{
	int rc = 0;
	sub_part(sub);
	while (rc == 0 && parting_left(sub) && !sub->client->closing)
		if (co_queue_wait_await(&sub->changed, deadline_ns) < 0)
			rc = -KV_ETIMEOUT;
	kvc_sub_unref(sub);
	return rc;
}

static bool here(const struct kvc_client *c)
{
	return c && loop_current() == c->loop && co_self();
}

static int open_await(struct kvc_client *c, const struct kvc_session_options *o, uint64_t deadline_ns,
		      struct kvc_sub **out, struct kv_error *err)
{
	struct boot_key *key = NULL;
	struct kvc_sub *sub;
	int rc = o->psk ? boot_key_parse(o->psk, &key, err) : 0;
	if (rc < 0)
		return rc;
	sub = sub_create(c, o);
	if (!sub) {
		boot_key_destroy(&key);
		return kv_fail(err, -KV_ENOMEM, "no memory for a session");
	}
	sub->key = key;
	for (unsigned i = 0; i < c->pool->num_servers; i++) {
		sub->at[i].state = KVC_SUB_WANTED;
		kv_list_add_tail(&c->node[i].subs.wanted, &sub->at[i].list);
		kvc_subs_start(&c->node[i]);
	}
	rc = open_all_await(sub, deadline_ns, err);
	if (rc == 0) {
		*out = sub;
		return 0;
	}
	sub_part(sub);
	kvc_sub_unref(sub);
	return rc;
}

static uint64_t time_of(const struct kvc_pool *p, uint64_t timeout_ns)
{
	return kvc_pool_time(p, &(struct kvc_call){.timeout_ns = timeout_ns}, 0);
}

int kvc_session_open_await(struct kvc_client *client, const struct kvc_session_options *options, struct kvc_sub **out,
			   struct kv_error *err)
{
	struct kvc_session_options o;
	int rc;
	if (client && kvc_pool_alien(client->pool))
		return kv_fail(err, -KV_ECLOSED, "the pool is the parent's, and this is a child of fork()");
	if (!here(client) || !out)
		return kv_fail(err, -KV_EINVAL,
			       "kvc_session_open_await needs a worker of the client, and a place for the session");
	rc = options_take(options, &o, err);
	if (rc < 0)
		return rc;
	if (client->closing || !client->opened)
		return kv_fail(err, -KV_ECLOSED, "the client is closed");
	kvc_client_hold(client);
	rc = open_await(client, &o, kv_deadline(loop_now(client->loop), time_of(client->pool, o.timeout_ns)), out, err);
	kvc_client_unhold(client);
	return rc;
}

int kvc_session_close_await(struct kvc_client *client, struct kvc_sub **session, uint64_t timeout_ns)
{
	struct kvc_sub *sub = session ? *session : NULL;
	uint64_t deadline_ns;
	int rc;
	if (client && kvc_pool_alien(client->pool))
		return -KV_ECLOSED;
	if (!here(client) || !session || (sub && sub->client != client))
		return -KV_EINVAL;
	if (!sub)
		return 0;
	if (sub->users > 0 || sub->parting)
		return -KV_EBUSY;
	deadline_ns = kv_deadline(loop_now(client->loop), time_of(client->pool, timeout_ns));
	kvc_client_hold(client);
	rc = kvc_pins_part_await(sub, deadline_ns) < 0 ? -KV_EBUSY : 0;
	if (rc == 0) {
		*session = NULL;
		rc = sub_close_await(sub, deadline_ns);
	}
	kvc_client_unhold(client);
	return rc;
}

/* ---- the same from any other thread ---- */

struct args {
	struct kvc_session_options options;
	struct kvc_sub *sub;
	struct kv_error err;
	uint64_t deadline_ns;
	unsigned server;
	struct kvc_session_info info;
};

static uint64_t time_left(const struct kvc_client *c, const struct args *a)
{
	uint64_t now = loop_now(c->loop);
	return a->deadline_ns > now ? a->deadline_ns - now : 1;
}

static int64_t do_open(struct kvc_client *c, void *arg)
{
	struct args *a = arg;
	a->options.size = sizeof(a->options);
	a->options.timeout_ns = time_left(c, a);
	return kvc_session_open_await(c, &a->options, &a->sub, &a->err);
}

static int64_t do_close(struct kvc_client *c, void *arg)
{
	struct args *a = arg;
	return kvc_session_close_await(c, &a->sub, time_left(c, a));
}

static int on_client(struct kvc_client *c, uint64_t timeout_ns, int64_t (*fn)(struct kvc_client *c, void *arg),
		     struct args *a)
{
	int64_t result = 0;
	int rc = kvc_pool_enter(c->pool);
	if (rc < 0)
		return rc;
	a->deadline_ns = kv_deadline(kvc_block_now(c->pool), time_of(c->pool, timeout_ns));
	rc = kvc_block_run(c, a->deadline_ns, fn, a, &result);
	kvc_pool_leave(c->pool);
	return rc < 0 ? rc : (int)result;
}

int kvc_session_open(struct kvc_pool *pool, unsigned w, const struct kvc_session_options *options, struct kvc_sub **out,
		     struct kv_error *err)
{
	struct args a = {0};
	int rc;
	if (!pool || !out)
		return kv_fail(err, -KV_EINVAL, "kvc_session_open needs a pool and a place for the session");
	rc = options_take(options, &a.options, err);
	if (rc < 0)
		return rc;
	rc = on_client(pool->client[w % pool->num_clients], a.options.timeout_ns, do_open, &a);
	if (rc == 0)
		*out = a.sub;
	else
		kv_fail(err, rc, "%s", a.err.code ? a.err.text : kv_strerror(rc));
	return rc;
}

int kvc_session_close(struct kvc_pool *pool, struct kvc_sub **session, uint64_t timeout_ns)
{
	struct args a = {0};
	int rc;
	if (!pool || !session)
		return -KV_EINVAL;
	if (!*session)
		return 0;
	if ((*session)->client->pool != pool)
		return -KV_EINVAL;
	a.sub = *session;
	rc = on_client(a.sub->client, timeout_ns, do_close, &a);
	*session = a.sub; /* NULL, unless nothing was done */
	return rc;
}

/* ---- what is known of one ---- */

static void info_take(const struct kvc_sub *sub, unsigned server, struct kvc_session_info *o)
{
	const struct kvc_sub_at *at = &sub->at[server];
	const struct kvc_node *n = &sub->client->node[server];
	*o = (struct kvc_session_info){.client = sub->client->index,
				       .open = at->state == KVC_SUB_OPEN,
				       .status = at->state == KVC_SUB_REFUSED ? at->status : 0,
				       .number = at->number,
				       .credits = at->credits,
				       .requests = sub->requests,
				       .replies = sub->replies};
	for (unsigned i = 0; at->lane && n->session && i < n->session->shards; i++) {
		o->credits_in_use += at->lane[i].active;
		KV_LIST_EACH (e, &at->lane[i].queue)
			o->queued++;
	}
}

static int64_t do_info(struct kvc_client *c, void *arg)
{
	struct args *a = arg;
	if (!c->opened || c->closing)
		return -KV_ECLOSED;
	info_take(a->sub, a->server, &a->info);
	return 0;
}

int kvc_session_info(struct kvc_pool *pool, struct kvc_sub *session, unsigned server, struct kvc_session_info *out)
{
	struct args a = {.sub = session, .server = server};
	int rc;
	if (!pool || !session || session->client->pool != pool || !kvc_sized(out) || server >= pool->num_servers)
		return -KV_EINVAL;
	if (kvc_pool_alien(pool))
		return -KV_ECLOSED;
	rc = loop_current() == session->client->loop ? (int)do_info(session->client, &a)
						     : on_client(session->client, 0, do_info, &a);
	if (rc < 0)
		return rc;
	kvc_sized_give(out, &a.info, sizeof(a.info));
	return 0;
}
