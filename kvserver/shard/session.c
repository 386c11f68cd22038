/* SPDX-License-Identifier: Apache-2.0 */
/* session.c -- the further sessions of a connection, on one shard.
 *
 * A session has the state of one logical client: its unanswered requests, pins, a count. The engine's state (peer,
 * links, windows, regions) belongs to the attachment, whose lists hold requests and stages with a pointer to their
 * session. Frames are sealed as a whole, so further sessions are separated for accounting, not protected from each
 * other (docs/reference/protocol.md 2.7). A session ends as an attachment does. `gone` is set last, so that nothing
 * frees the session during session_end. */
#include "kvserver/shard/session.h"

#include <stdlib.h>

#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/request.h"
#include "kvserver/shard/tenants.h"

enum { TABLE_MIN = 16 };

static uint32_t place_of(uint32_t number)
{
	return number & (SESSIONS_MAX - 1);
}

static struct session *session_find(const struct shard_attachment *s, uint32_t number)
{
	uint32_t at = place_of(number);
	struct session *o = at < s->sessions.cap ? s->sessions.at[at] : NULL;
	return o && o->number == number && !o->gone ? o : NULL;
}

static int table_grow(struct sessions *t, uint32_t at)
{
	uint32_t cap = KV_MAX(t->cap, (uint32_t)TABLE_MIN);
	struct session **p;
	while (cap <= at)
		cap *= 2;
	if (cap == t->cap)
		return 0;
	p = realloc(t->at, cap * sizeof(struct session *));
	if (!p)
		return -KV_ENOMEM;
	memset(p + t->cap, 0, (cap - t->cap) * sizeof(struct session *));
	t->at = p;
	t->cap = cap;
	return 0;
}

static const struct {
	uint8_t right;
	uint32_t types;
} allows[] = {
	{TENANT_READ, 1u << WIRE_GET | 1u << WIRE_EXISTS},
	{TENANT_WRITE, 1u << WIRE_PUT | 1u << WIRE_TOUCH},
	{TENANT_DELETE, 1u << WIRE_DELETE},
	{TENANT_PIN, 1u << WIRE_PIN},
	{TENANT_CLEAR, 1u << WIRE_CLEAR},
};

_Static_assert(WIRE_TYPES <= 32, "a bit for each type");

static uint32_t allowed_by(const struct grant *g)
{
	const uint32_t all = 1u << WIRE_STAT | 1u << WIRE_TOMBS | 1u << WIRE_LEASES;
	uint32_t types = 1u << WIRE_PING | 1u << WIRE_SPACES | 1u << WIRE_TENANTS | (g->reads_all ? all : 0);
	for (unsigned i = 0; i < KV_COUNT(allows); i++)
		if (g->rights & allows[i].right)
			types |= allows[i].types;
	/* Looking for a key takes the same way where there is none. */
	return g->rights ? types : types | allows[0].types;
}

/* Where nothing exists, nothing is found. */
int32_t session_check(struct session *o, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = o->attachment->shard;
	bool finds = q->type == WIRE_TOUCH || q->type == WIRE_DELETE || q->type == WIRE_PIN;
	if (!session_allows(o, q->type)) {
		shard_count(s, WIRE_STAT_DENIED);
		return o->space == &s->store.spaces.nowhere && finds ? WIRE_NOTFOUND : WIRE_DENIED;
	}
	if (!o->tenant || tenant_admits(o, q, now_ns))
		return WIRE_OK;
	shard_count(s, WIRE_STAT_OVER_QUOTA);
	return WIRE_BUSY;
}

static int tenant_begin(struct session *o, const struct grant *g)
{
	struct shard *s = o->attachment->shard;
	shard_tenants_take(s);
	o->tenant = tenant_find(&s->store, g->tenant);
	if (!o->tenant || !o->tenant->listed)
		return -KV_EDENIED;
	o->pins.tenant = o->tenant;
	o->tenant->users++;
	return 0;
}

int session_space_begin(struct session *o, const struct grant *g)
{
	struct shard *s = o->attachment->shard;
	struct spaces *t = &s->store.spaces;
	uint64_t now_ns = loop_turn_now(s->loop);
	int rc = g->tenant[0] ? tenant_begin(o, g) : 0;
	if (rc)
		return rc;
	o->space = &t->nowhere;
	t->nowhere.generation = t->floor; /* as that of a namespace that begins */
	if (g->rights)
		rc = tenancy_space_take(&s->store, g->space, now_ns, &o->space);
	if (rc) {
		if (o->tenant)
			o->tenant->users--;
		return rc;
	}
	o->allowed = allowed_by(g);
	o->limited = o->tenant || g->rights != TENANT_RIGHTS || !g->reads_all;
	o->sees_all = g->reads_all;
	o->space->users++;
	o->space->used_ns = now_ns;
	if (g->rights && session_may_raise(o, g->generation))
		store_space_advance(&s->store, o->space, g->generation, now_ns);
	return 0;
}

void session_space_read(const struct session *o, uint64_t *out_generation, uint64_t *out_cleared_ns)
{
	*out_generation = o->space->generation;
	*out_cleared_ns = o->space->cleared_ns;
}

void session_space_end(struct session *o)
{
	if (o->tenant)
		o->tenant->users--;
	o->space->users--;
	o->space->used_ns = loop_turn_now(o->attachment->shard->loop);
}

int session_open(struct shard_attachment *s, uint32_t number, const struct grant *grant, struct session **out)
{
	uint32_t at = place_of(number);
	struct session *o;
	int rc = table_grow(&s->sessions, at);
	if (rc)
		return rc;
	if (s->sessions.at[at])
		return -KV_EEXIST;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -KV_ENOMEM;
	o->attachment = s;
	o->number = number;
	o->credits = session_credits(s->shard->opt.credits);
	pins_init(&o->pins);
	rc = session_space_begin(o, grant);
	if (rc) {
		free(o);
		return rc;
	}
	*out = o;
	s->sessions.at[at] = o;
	s->sessions.count++;
	s->shard->attachments.sessions++;
	return 0;
}

static void session_free(struct session *o)
{
	struct shard_attachment *s = o->attachment;
	KV_ASSERT(o->requests == 0 && o->active == 0 && !o->pins.set); /* rule 39 */
	s->sessions.at[place_of(o->number)] = NULL;
	s->sessions.count--;
	s->shard->attachments.sessions--;
	session_space_end(o);
	free(o);
}

void session_request_freed(struct session *o)
{
	struct call *gone = o->gone;
	if (!gone || o->requests)
		return;
	session_free(o);
	call_finish(gone, 0);
}

static struct request *request_open(const struct session *o)
{
	KV_LIST_EACH (n, &o->attachment->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		if (r->session == o && r->state == REQUEST_OPEN)
			return r;
	}
	return NULL;
}

/* Cancel each. One that ends may end others of its stage, so the walk restarts each time. */
static void requests_cancel(const struct session *o)
{
	struct request *r;
	while ((r = request_open(o)) != NULL)
		r->ops->cancel(r);
}

void session_end(struct shard_attachment *s, uint32_t number, struct call *gone, uint64_t *out_received)
{
	struct session *o = session_find(s, number);
	*out_received = o ? o->received : 0;
	if (!o) {
		call_finish(gone, 0);
		return;
	}
	s->shard->opt.ops->session_end(s, o);
	requests_cancel(o); /* `gone` is not set yet, so the session stays */
	pins_leave(&s->shard->store, &o->pins);
	o->gone = gone;
	session_request_freed(o);
}

struct session *session_switch(struct shard_attachment *s, const struct wire_request *q)
{
	uint32_t number = q->session.number;
	struct session *o = number ? session_find(s, number) : &s->own;
	if (!o)
		shard_count(s->shard, WIRE_STAT_UNKNOWN_SESSION);
	return o;
}

void sessions_drop(struct shard_attachment *s)
{
	for (uint32_t i = 0; i < s->sessions.cap && s->sessions.count; i++)
		if (s->sessions.at[i])
			pins_leave(&s->shard->store, &s->sessions.at[i]->pins);
}

void sessions_fini(struct shard_attachment *s)
{
	for (uint32_t i = 0; i < s->sessions.cap && s->sessions.count; i++)
		if (s->sessions.at[i])
			session_free(s->sessions.at[i]);
	free(s->sessions.at);
	s->sessions = (struct sessions){0};
}
