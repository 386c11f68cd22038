/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c -- owners: the further sessions of a connection, on one shard.
 *
 * An owner has the state of one logical client: its unanswered requests, pins, a count. The engine's state (peer,
 * links, windows, regions) belongs to the session, whose lists hold requests and stages with a pointer to their owner.
 * So an idle owner costs 64 bytes, and 8 in the table. Frames are sealed as a whole, so the connection is trusted with
 * the owner's number: further sessions are separated for accounting, not protected from each other
 * (docs/reference/protocol.md 2.7).
 *
 * An owner ends as a session does: it takes no new requests, and its requests are stopped; posted transfers keep
 * request and owner until the engine reports their end. `gone` is set last, so that nothing frees the owner during
 * owner_end. An owner that ends with its connection is freed after the session's last request. The table grows to the
 * highest place in use; the control loop (logical.c) assigns, reuses and bounds the places. */
#include "kvserver/shard/owner.h"

#include <stdlib.h>

#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/request.h"

enum { TABLE_MIN = 16 };

static uint32_t place_of(uint32_t number)
{
	return number & (OWNERS_MAX - 1);
}

static struct owner *owner_find(const struct session *s, uint32_t number)
{
	uint32_t at = place_of(number);
	struct owner *o = at < s->owners.cap ? s->owners.at[at] : NULL;

	return o && o->number == number && !o->gone ? o : NULL;
}

static int table_grow(struct owners *t, uint32_t at)
{
	uint32_t cap = KV_MAX(t->cap, (uint32_t)TABLE_MIN);
	struct owner **p;

	while (cap <= at)
		cap *= 2;
	if (cap == t->cap)
		return 0;
	p = realloc(t->at, cap * sizeof(struct owner *));
	if (!p)
		return -KV_ENOMEM;
	memset(p + t->cap, 0, (cap - t->cap) * sizeof(struct owner *));
	t->at = p;
	t->cap = cap;
	return 0;
}

int owner_open(struct session *s, uint32_t number)
{
	uint32_t at = place_of(number);
	struct owner *o;
	int rc = table_grow(&s->owners, at);

	if (rc)
		return rc;
	if (s->owners.at[at])
		return -KV_EEXIST;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -KV_ENOMEM;
	o->session = s;
	o->number = number;
	o->credits = owner_credits(s->shard->opt.credits);
	pins_init(&o->pins);
	s->owners.at[at] = o;
	s->owners.count++;
	s->shard->owner_count++;
	return 0;
}

static void owner_free(struct owner *o)
{
	struct session *s = o->session;

	s->owners.at[place_of(o->number)] = NULL;
	s->owners.count--;
	s->shard->owner_count--;
	free(o);
}

void owner_settle(struct owner *o)
{
	struct call *gone = o->gone;

	if (!gone || o->requests)
		return;
	owner_free(o);
	call_finish(gone, 0);
}

static struct request *request_open(const struct owner *o)
{
	KV_LIST_EACH (n, &o->session->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		if (r->owner == o && r->state == REQUEST_OPEN)
			return r;
	}
	return NULL;
}

/* Cancel each. One that ends may end others of its stage, so the walk restarts each time. */
static void requests_cancel(const struct owner *o)
{
	struct request *r;

	while ((r = request_open(o)) != NULL)
		r->ops->cancel(r);
}

void owner_end(struct session *s, uint32_t number, struct call *gone, uint64_t *out_received)
{
	struct owner *o = owner_find(s, number);

	*out_received = o ? o->received : 0;
	if (!o) {
		call_finish(gone, 0);
		return;
	}
	s->shard->opt.ops->owner_end(s, o);
	requests_cancel(o); /* `gone` is not set yet, so the owner stays */
	pins_leave(&s->shard->store, &o->pins);
	o->gone = gone;
	owner_settle(o);
}

struct owner *owner_switch(struct session *s, const struct wire_request *q)
{
	uint32_t number = q->session.number;
	struct owner *o = number ? owner_find(s, number) : &s->own;

	if (!o)
		shard_count(s->shard, WIRE_STAT_UNKNOWN_SESSION);
	return o;
}

void owners_drop(struct session *s)
{
	for (uint32_t i = 0; i < s->owners.cap && s->owners.count; i++)
		if (s->owners.at[i])
			pins_leave(&s->shard->store, &s->owners.at[i]->pins);
}

void owners_fini(struct session *s)
{
	for (uint32_t i = 0; i < s->owners.cap && s->owners.count; i++)
		if (s->owners.at[i])
			owner_free(s->owners.at[i]);
	free(s->owners.at);
	s->owners = (struct owners){0};
}
