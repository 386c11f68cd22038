/* SPDX-License-Identifier: Apache-2.0 */
/* events.c -- a follower: it reads the logs of all servers of a client (docs/reference/protocol.md 2.12).
 *
 * Each server has a place: how far its log was read. At most one question per server is out; its answer waits in the
 * place until the caller has read it. So a slow caller holds one answer per server, and the servers hold nothing.
 *
 *   NEW --> NOW (KVC_EVENTS_NEW), or WALK: a snapshot, page by page --> LOG --gap--> WALK, or LOG behind the gap
 *
 * The log is read again from the number that it had at the snapshot's first page: events during the walk come once
 * more. A new attachment begins an unfinished walk anew. An answer that fits no question is dropped. */
#include "kvclient/call/events.h"

#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/core/block.h"
#include "kvclient/core/sized.h"
#include "kvclient/core/waits.h"
#include "kvclient/transfer/call.h"

#define LOOK_NS 100000000ull
#define SEND_NS 2000000000ull /* for a question */

enum { NODE_NAME = 336 };

enum stage {
	STAGE_NEW, /* the server was never reached */
	STAGE_NOW,
	STAGE_WALK, /* a snapshot is read */
	STAGE_LOG
};

/* Events to be made here, in this order. */
enum { MARK_AWAY = 1, MARK_GAP = 2, MARK_CLEARED = 4, MARK_SYNCED = 8 };

struct place {
	char node[NODE_NAME];
	enum stage stage;
	uint64_t epoch, next; /* STAGE_LOG: the next event. STAGE_WALK: where the log goes on, from the first page on */
	uint32_t shard, at;   /* STAGE_WALK */
	uint64_t attaches;
	bool asked; /* ... has a question without an answer */
	unsigned marks;
	bool away;
	bool mute;                 /* the server reports no events, and the caller knows */
	struct wire_events answer; /* count 0: read */
	uint32_t read_bytes;
	uint8_t *bytes; /* WIRE_EVENTS_BYTES; NULL: no answer yet */
};

struct kvc_events {
	struct kvc_client *client;
	unsigned flags;
	struct kvc_position *since; /* strings behind them */
	unsigned num_since;
	bool busy;
	struct co_queue changed;
	unsigned turn; /* the place to be read first, so that a busy server does not hide others */
	struct place place[];
};

/* ---- the stages of a place ---- */

static void walk_begin(struct place *p)
{
	p->stage = STAGE_WALK;
	p->shard = 0;
	p->at = UINT32_MAX;
	p->answer.count = 0;
	p->marks &= MARK_AWAY;
}

static void log_begin(struct place *p, uint64_t epoch, uint64_t next)
{
	p->stage = STAGE_LOG;
	p->epoch = epoch;
	p->next = next;
}

static void gap(const struct kvc_events *ev, struct place *p, uint64_t epoch, uint64_t next)
{
	log_begin(p, epoch, next);
	if (ev->flags & KVC_EVENTS_NEW)
		p->marks |= MARK_GAP;
	else
		walk_begin(p);
}

static void answer_end(struct place *p)
{
	const struct wire_events *v = &p->answer;
	if (p->stage == STAGE_LOG) {
		p->next = v->next;
		return;
	}
	p->shard = v->shard;
	p->at = v->at;
	if (v->at == 0) {
		log_begin(p, p->epoch, p->next);
		p->marks |= MARK_SYNCED;
	}
}

/* ---- answers ---- */

static bool walk_first(const struct place *p)
{
	return p->shard == 0 && p->at == UINT32_MAX;
}

static bool walk_fits(const struct place *p, const struct wire_events *v)
{
	return (v->flags & WIRE_EVENTS_SNAPSHOT) && (walk_first(p) || v->epoch == p->epoch) &&
	       (v->shard > p->shard || (v->shard == p->shard && v->at < p->at));
}

static bool log_fits(const struct place *p, const struct wire_events *v)
{
	if (v->flags & WIRE_EVENTS_SNAPSHOT)
		return false;
	if (p->stage == STAGE_NOW || (v->flags & WIRE_EVENTS_GAP))
		return v->count == 0;
	return v->epoch == p->epoch && v->first == p->next && v->count > 0;
}

static void answer_begin(const struct kvc_events *ev, struct place *p)
{
	const struct wire_events *v = &p->answer;
	if (v->flags & WIRE_EVENTS_GAP) {
		gap(ev, p, v->epoch, v->next);
		return;
	}
	if (p->stage == STAGE_NOW)
		log_begin(p, v->epoch, v->next);
	if (p->stage == STAGE_WALK && walk_first(p)) {
		p->epoch = v->epoch;
		p->next = v->next;
		p->marks |= MARK_CLEARED;
	}
	if (v->count == 0)
		answer_end(p);
}

void kc_events_came(struct kc_node *n, const struct wire_events *v)
{
	struct kvc_events *ev = n->client->events;
	struct place *p = ev ? &ev->place[n->index] : NULL;
	if (!p || !p->asked || !(p->stage == STAGE_WALK ? walk_fits(p, v) : log_fits(p, v)))
		return;
	if (!p->bytes)
		p->bytes = malloc(WIRE_EVENTS_BYTES);
	if (!p->bytes) {
		kc_node_redo(n, "there was no memory for its events");
		return;
	}
	p->asked = false;
	p->answer = *v;
	p->answer.events = p->bytes;
	p->read_bytes = 0;
	if (v->events_len)
		memcpy(p->bytes, v->events, v->events_len);
	answer_begin(ev, p);
	co_queue_wake_all(&ev->changed);
}

/* ---- questions ---- */

static const char *name_of(const struct kc_node *n)
{
	return n->node_id[0] ? n->node_id : kc_node_name(n);
}

static void place_begin(const struct kvc_events *ev, struct place *p, const char *name)
{
	*p = (struct place){.bytes = p->bytes};
	snprintf(p->node, sizeof(p->node), "%s", name);
	for (unsigned i = 0; i < ev->num_since; i++) {
		if (strcmp(ev->since[i].node, name) != 0)
			continue;
		log_begin(p, ev->since[i].epoch, ev->since[i].sequence + 1);
		return;
	}
	if (ev->flags & KVC_EVENTS_NEW)
		p->stage = STAGE_NOW;
	else
		walk_begin(p);
}

static bool is_read(const struct place *p)
{
	return p->answer.count == 0 && p->marks == 0;
}

/* True: its server may be asked. */
static bool place_look(struct kvc_events *ev, struct kc_node *n, struct place *p)
{
	if (n->state != KC_NODE_UP) {
		bool lost = n->state == KC_NODE_DOWN || n->state == KC_NODE_CLOSED;
		if (lost && p->stage != STAGE_NEW && p->epoch != 0 && !p->away) {
			p->away = true;
			p->marks |= MARK_AWAY;
		}
		return false;
	}
	if (p->stage == STAGE_NEW || strcmp(p->node, name_of(n)) != 0) { /* another server may have its place */
		if (p->marks == 0)
			place_begin(ev, p, name_of(n));
	}
	if (p->attaches != n->attaches) {
		p->attaches = n->attaches;
		p->asked = false;
		if (p->stage == STAGE_WALK)
			walk_begin(p);
		else if (p->away && p->stage == STAGE_LOG && n->incarnation == p->epoch)
			p->marks |= MARK_SYNCED;
		p->away = false;
		p->mute = !(n->attachment->flags & WIRE_WELCOME_EVENTS);
		if (p->mute)
			p->marks |= MARK_GAP;
	}
	return !p->mute && !p->asked && is_read(p);
}

static void place_ask_await(struct kvc_events *ev, struct kc_node *n, struct place *p)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_EVENTS_ASK};
	if (p->stage == STAGE_WALK)
		m.events = (struct wire_events){.flags = WIRE_EVENTS_SNAPSHOT, .shard = p->shard, .at = p->at};
	else if (p->stage == STAGE_LOG)
		m.events = (struct wire_events){.epoch = p->epoch, .next = p->next};
	p->asked = true;
	if (kc_node_send_await(n, &m, loop_now(ev->client->loop) + SEND_NS) < 0)
		p->attaches = 0; /* it is connected again, or asked again */
}

static void ask_all_await(struct kvc_events *ev)
{
	struct kvc_client *c = ev->client;
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (place_look(ev, &c->node[i], &ev->place[i]))
			place_ask_await(ev, &c->node[i], &ev->place[i]);
}

/* ---- reading ---- */

static void event_fill(const struct kvc_events *ev, const struct place *p, enum kvc_event_type type,
		       struct kvc_event *out)
{
	*out = (struct kvc_event){.epoch = p->epoch,
				  .node = p->node,
				  .name_space = "",
				  .type = type,
				  .server = (uint32_t)(p - ev->place)};
}

static bool mark_take(const struct kvc_events *ev, struct place *p, struct kvc_event *out)
{
	static const struct {
		unsigned mark;
		enum kvc_event_type type;
	} marks[] = {{MARK_AWAY, KVC_EVENT_AWAY},
		     {MARK_GAP, KVC_EVENT_GAP},
		     {MARK_CLEARED, KVC_EVENT_CLEARED},
		     {MARK_SYNCED, KVC_EVENT_SYNCED}};
	for (unsigned i = 0; i < KV_COUNT(marks); i++) {
		if (!(p->marks & marks[i].mark))
			continue;
		p->marks &= ~marks[i].mark;
		event_fill(ev, p, marks[i].type, out);
		if (p->stage == STAGE_LOG && !p->mute)
			out->sequence = (p->answer.count ? p->answer.next - p->answer.count : p->next) - 1;
		return true;
	}
	return false;
}

/* Give the name an end: key and name move to the event's begin, which was read. */
static void name_end(struct place *p, uint32_t begin, const struct wire_event *e, struct kvc_event *out)
{
	uint8_t *to = p->bytes + begin;
	memmove(to, p->bytes + p->read_bytes - e->key_len - e->space_len, (size_t)e->key_len + e->space_len);
	to[e->key_len + e->space_len] = 0;
	out->key.data = to;
	out->name_space = (const char *)to + e->key_len;
}

/* The next event of the answer that is shown to this client. False: all were read. */
static bool event_next(struct place *p, uint32_t *out_begin, struct wire_event *out)
{
	do {
		if (p->answer.count == 0)
			return false;
		p->answer.count--;
		*out_begin = p->read_bytes;
		if (wire_event_take(p->bytes, p->answer.events_len, &p->read_bytes, out))
			KV_ASSERT(false); /* wire_ctrl_decode has read it */
		if (out->what == WIRE_EVENT_HIDDEN && p->answer.count == 0)
			answer_end(p);
	} while (out->what == WIRE_EVENT_HIDDEN);
	return true;
}

/* False: all were read. */
static bool event_take(const struct kvc_events *ev, struct place *p, struct kvc_event *out)
{
	uint32_t begin;
	struct wire_event e;
	if (!event_next(p, &begin, &e))
		return false;
	if (e.what == WIRE_EVENT_LOST) {
		gap(ev, p, p->epoch, p->answer.next - p->answer.count);
		return mark_take(ev, p, out);
	}
	event_fill(ev, p, (enum kvc_event_type)e.what, out);
	if (p->stage == STAGE_LOG)
		out->sequence = p->answer.next - p->answer.count - 1;
	out->key = (struct kvc_key){e.key, e.key_len};
	name_end(p, begin, &e, out);
	out->bytes = e.bytes;
	out->tier = e.tier;
	if (p->answer.count == 0)
		answer_end(p);
	return true;
}

static unsigned read_all(struct kvc_events *ev, struct kvc_event *out, unsigned max)
{
	unsigned n = 0, nodes = ev->client->num_nodes;
	ev->turn++;
	for (unsigned i = 0; i < nodes && n < max; i++) {
		struct place *p = &ev->place[(ev->turn + i) % nodes];
		while (n < max && (mark_take(ev, p, &out[n]) || event_take(ev, p, &out[n])))
			n++;
	}
	return n;
}

/* ---- the calls ---- */

static int next_await(struct kvc_events *ev, struct kvc_event *out, unsigned max, uint64_t timeout_ns)
{
	struct kvc_client *c = ev->client;
	uint64_t deadline_ns = kv_deadline(loop_now(c->loop), timeout_ns);
	for (;;) {
		uint64_t now_ns;
		unsigned n;
		int rc;
		ask_all_await(ev);
		n = read_all(ev, out, max);
		now_ns = loop_now(c->loop);
		if (n > 0 || now_ns >= deadline_ns)
			return (int)n;
		rc = kc_wait_queue_await(c, &ev->changed, KV_MIN(deadline_ns, now_ns + LOOK_NS));
		if (rc < 0 && rc != -KV_ETIMEOUT)
			return rc;
	}
}

int kvc_events_next_await(struct kvc_events *ev, struct kvc_event *out, unsigned max, uint64_t timeout_ns)
{
	int rc = ev ? kc_call_allowed(ev->client) : -KV_EINVAL;
	if (rc == 0 && (!out || max == 0 || max > INT32_MAX))
		rc = -KV_EINVAL;
	if (rc == 0 && ev->busy)
		rc = -KV_EBUSY;
	if (rc < 0)
		return rc;
	kc_client_hold(ev->client);
	ev->busy = true;
	rc = next_await(ev, out, max, timeout_ns);
	ev->busy = false;
	kc_client_unhold(ev->client);
	return rc;
}

static void events_free(struct kvc_events *ev, unsigned places)
{
	for (unsigned i = 0; i < places; i++)
		free(ev->place[i].bytes);
	free(ev->since);
	free(ev);
}

int kvc_events_close_await(struct kvc_events **events)
{
	struct kvc_events *ev = events ? *events : NULL;
	int rc;
	if (!events)
		return -KV_EINVAL;
	if (!ev)
		return 0;
	rc = kc_call_allowed(ev->client);
	if (rc < 0 || ev->busy)
		return rc < 0 ? rc : -KV_EBUSY;
	kc_events_fini(ev->client);
	*events = NULL;
	return 0;
}

void kc_events_fini(struct kvc_client *c)
{
	if (c->events)
		events_free(c->events, c->pool->room);
	c->events = NULL;
}

static int since_copy(struct kvc_events *ev, const struct kvc_events_options *o)
{
	size_t bytes = o->num_since * sizeof(ev->since[0]);
	char *text;
	for (unsigned i = 0; i < o->num_since; i++)
		bytes += strnlen(o->since[i].node, NODE_NAME) + 1;
	ev->since = malloc(bytes + 1);
	if (!ev->since)
		return -KV_ENOMEM;
	text = (char *)(ev->since + o->num_since);
	for (unsigned i = 0; i < o->num_since; i++) {
		size_t len = strnlen(o->since[i].node, NODE_NAME);
		ev->since[i] = o->since[i];
		ev->since[i].node = memcpy(text, o->since[i].node, len);
		text[len] = '\0';
		text += len + 1;
	}
	ev->num_since = o->num_since;
	return 0;
}

static int options_take(const struct kvc_events_options *given, struct kvc_events_options *out, struct kv_error *err)
{
	int rc = kc_sized_take(out, sizeof(*out), given, offsetof(struct kvc_events_options, num_since),
			       "struct kvc_events_options", err);
	if (rc == 0 && (out->flags & ~(unsigned)KVC_EVENTS_NEW))
		return kv_fail(err, -KV_EINVAL, "kvc_events_options.flags has a flag that this library does not know");
	for (unsigned i = 0; rc == 0 && i < out->num_since; i++)
		if (!out->since || !out->since[i].node || out->since[i].sequence == UINT64_MAX)
			return kv_fail(err, -KV_EINVAL, "kvc_events_options.since: position %u is not valid", i);
	return rc;
}

static int open_here(struct kvc_client *c, const struct kvc_events_options *o, struct kvc_events **out)
{
	struct kvc_events *ev;
	if (c->events)
		return -KV_EBUSY;
	ev = calloc(1, sizeof(*ev) + c->pool->room * sizeof(ev->place[0]));
	if (!ev)
		return -KV_ENOMEM;
	ev->client = c;
	ev->flags = o->flags;
	co_queue_init(&ev->changed);
	if (since_copy(ev, o)) {
		free(ev);
		return -KV_ENOMEM;
	}
	*out = c->events = ev;
	return 0;
}

int kvc_events_open_await(struct kvc_client *client, const struct kvc_events_options *options, struct kvc_events **out,
			  struct kv_error *err)
{
	struct kvc_events_options o;
	int rc = kc_call_allowed(client);
	if (rc == 0 && !out)
		rc = -KV_EINVAL;
	if (rc == 0)
		rc = options_take(options, &o, err);
	else
		kv_fail(err, rc, "events: %s", kv_strerror(rc));
	if (rc < 0)
		return rc;
	rc = open_here(client, &o, out);
	return rc ? kv_fail(err, rc, "events: %s", rc == -KV_EBUSY ? "the client has a follower" : kv_strerror(rc)) : 0;
}

/* ---- the same from any other thread ---- */

struct events_args {
	const struct kvc_events_options *options;
	struct kvc_events *events;
	struct kvc_event *out;
	unsigned max;
	uint64_t timeout_ns;
	struct kv_error err;
};

static int64_t do_open(struct kvc_client *c, void *arg)
{
	struct events_args *a = arg;
	return kvc_events_open_await(c, a->options, &a->events, &a->err);
}

static int64_t do_next(struct kvc_client *c, void *arg)
{
	struct events_args *a = arg;
	(void)c;
	return kvc_events_next_await(a->events, a->out, a->max, a->timeout_ns);
}

static int64_t do_close(struct kvc_client *c, void *arg)
{
	struct events_args *a = arg;
	(void)c;
	return kvc_events_close_await(&a->events);
}

static int on_client(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), struct events_args *a)
{
	return (int)kc_block_call(c, kc_pool_time(c->pool, &(struct kvc_call){0}, 0), fn, a, NULL);
}

int kvc_events_open(struct kvc_pool *pool, const struct kvc_events_options *options, struct kvc_events **out,
		    struct kv_error *err)
{
	struct events_args a = {.options = options};
	int rc = -KV_EBUSY;
	if (!pool || !out)
		return kv_fail(err, -KV_EINVAL, "kvc_events_open needs a pool and a place for the follower");
	for (unsigned i = 0; i < pool->num_clients && rc == -KV_EBUSY; i++)
		rc = on_client(pool->client[i], do_open, &a);
	if (rc == 0)
		*out = a.events;
	else
		kv_fail(err, rc, "%s", a.err.code ? a.err.text : kv_strerror(rc));
	return rc;
}

int kvc_events_next(struct kvc_events *events, struct kvc_event *out, unsigned max, uint64_t timeout_ns)
{
	struct events_args a = {.events = events, .out = out, .max = max, .timeout_ns = timeout_ns};
	return events ? on_client(events->client, do_next, &a) : -KV_EINVAL;
}

int kvc_events_close(struct kvc_events **events)
{
	struct events_args a = {.events = events ? *events : NULL};
	int rc;
	if (!events || !*events)
		return events ? 0 : -KV_EINVAL;
	rc = on_client(a.events->client, do_close, &a);
	*events = a.events; /* NULL, unless nothing was done */
	return rc;
}
