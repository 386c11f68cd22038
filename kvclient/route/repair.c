/* SPDX-License-Identifier: Apache-2.0 */
/* repair.c -- the keys whose values wait to be copied to where they should be: a ring, which the coroutine of copy.c
 * empties. It runs while there are keys. The ring is made with the first view that leaves a former server
 * (route/view.c), with the first value that is kept twice, or for hot values (hot.c) when the client opens, so noting
 * a key takes no memory. */
#include "kvclient/route/repair.h"

#include <stdlib.h>

#include "kvclient/core/waits.h"

void repair_ready(struct kvc_client *c)
{
	if (!c->repairs.ring && c->pool->options.repair_bytes_s > 1)
		c->repairs.ring = calloc(KVC_REPAIRS, sizeof(*c->repairs.ring));
}

static bool same(const struct kvc_repair *r, struct kvc_key key)
{
	return r->len == key.len && memcmp(r->key, key.data, key.len) == 0;
}

bool repair_waits(struct kvc_client *c, struct kvc_key key)
{
	struct kvc_repairs *q = &c->repairs;
	for (unsigned i = 0; i < q->count; i++)
		if (same(repair_at(q, i), key))
			return true;
	return false;
}

/* The ring has its first key: start the coroutine. */
static bool start(struct kvc_client *c)
{
	struct kvc_repairs *q = &c->repairs;
	if (co_spawn(c->loop, q->main_await, c, "kvc repair") < 0) {
		q->count = 0; /* no coroutine is free: the next GET tries again */
		return false;
	}
	q->running = true;
	kvc_client_began(c);
	return true;
}

/* False: it is not copied. */
static bool note(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n, const struct kvc_node *to,
		 bool hot)
{
	struct kvc_repairs *q = &c->repairs;
	struct kvc_repair *r;
	if (q->count == KVC_REPAIRS)
		return false;
	r = repair_at(q, q->count++);
	*r = (struct kvc_repair){.len = (uint8_t)key.len,
				 .hot = hot,
				 .node = (uint16_t)n->index,
				 .to = to ? (uint16_t)to->index : KVC_REPAIR_OWNER};
	memcpy(r->key, key.data, key.len);
	return q->running || start(c);
}

void repair_note(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n, const struct kvc_node *to)
{
	if (!c->closing && c->repairs.ring && !repair_waits(c, key))
		kvc_add(&c->count.repairs_dropped, !note(c, key, n, to, false));
}

bool repair_hot(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n, const struct kvc_node *to)
{
	bool noted = !c->closing && c->repairs.ring && (repair_waits(c, key) || note(c, key, n, to, true));
	kvc_add(&c->count.copies_dropped, !noted);
	return noted;
}

bool repair_forget(struct kvc_client *c, struct kvc_key key)
{
	struct kvc_repairs *q = &c->repairs;
	for (unsigned i = 0; i < q->count; i++)
		if (same(repair_at(q, i), key))
			repair_at(q, i)->forgotten = true;
	return q->copying && same(repair_at(q, 0), key);
}

void repair_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns)
{
	while (repair_forget(c, key))
		if (kvc_wait_queue_await(c, &c->repairs.copied, deadline_ns) < 0)
			return;
}
