/* SPDX-License-Identifier: Apache-2.0 */
/* repair.c -- values that wait to be copied: a ring, emptied by a coroutine while values wait (copies/copy.c). It is
 * made at the first need, before values are noted: noting allocates nothing. */
#include "kvclient/route/repair.h"

#include <stdlib.h>

#include "kvclient/core/waits.h"
#include "kvclient/route/private.h"

void repair_ready(struct kvc_client *c)
{
	if (c->repairs || c->pool->options.repair_bytes_s <= 1)
		return;
	c->repairs = calloc(1, sizeof(*c->repairs));
	if (c->repairs)
		co_queue_init(&c->repairs->copied);
}

void repair_fini(struct kvc_client *c)
{
	free(c->repairs);
	c->repairs = NULL;
}

static struct kc_repair *at(struct kc_repairs *q, unsigned i)
{
	return &q->ring[(q->head + i) % REPAIRS];
}

static bool same(const struct kc_repair *r, struct kvc_key key)
{
	return r->len == key.len && memcmp(r->key, key.data, key.len) == 0;
}

bool repair_waits(struct kvc_client *c, struct kvc_key key)
{
	struct kc_repairs *q = c->repairs;
	for (unsigned i = 0; q && i < q->count; i++)
		if (same(at(q, i), key))
			return true;
	return false;
}

bool repair_room(const struct kvc_client *c)
{
	return c->repairs && c->repairs->count < REPAIRS;
}

int repair_wait_await(struct kvc_client *c, uint64_t deadline_ns)
{
	return kc_wait_queue_await(c, &c->repairs->copied, deadline_ns);
}

static bool start(struct kvc_client *c)
{
	struct kc_repairs *q = c->repairs;
	if (co_spawn(c->loop, c->hooks->repair_main, c, "kvc repair") < 0) {
		q->count = 0;
		return false;
	}
	q->running = true;
	kc_client_began(c);
	return true;
}

static bool note(struct kvc_client *c, struct kvc_key key, const struct kc_node *n, const struct kc_node *to, bool hot)
{
	struct kc_repairs *q = c->repairs;
	struct kc_repair *r;
	if (q->count == REPAIRS)
		return false;
	r = at(q, q->count++);
	*r = (struct kc_repair){.len = (uint8_t)key.len,
				.hot = hot,
				.node = (uint16_t)n->index,
				.to = to ? (uint16_t)to->index : KC_REPAIR_OWNER};
	memcpy(r->key, key.data, key.len);
	return q->running || start(c);
}

void repair_note(struct kvc_client *c, struct kvc_key key, const struct kc_node *n, const struct kc_node *to)
{
	if (!c->closing && c->repairs && !repair_waits(c, key))
		kc_add(&c->count.repairs_dropped, !note(c, key, n, to, false));
}

bool repair_hot(struct kvc_client *c, struct kvc_key key, const struct kc_node *n, const struct kc_node *to)
{
	bool noted = !c->closing && c->repairs && (repair_waits(c, key) || note(c, key, n, to, true));
	kc_add(&c->count.copies_dropped, !noted);
	return noted;
}

bool repair_forget(struct kvc_client *c, struct kvc_key key)
{
	struct kc_repairs *q = c->repairs;
	for (unsigned i = 0; q && i < q->count; i++)
		if (same(at(q, i), key))
			at(q, i)->forgotten = true;
	return q && q->copying && same(at(q, 0), key);
}

void repair_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns)
{
	while (repair_forget(c, key))
		if (repair_wait_await(c, deadline_ns) < 0)
			return;
}

/* ---- the coroutine that copies ---- */

const struct kc_repair *repair_first(struct kvc_client *c)
{
	struct kc_repairs *q = c->repairs;
	q->copying = q->count > 0 && !c->closing;
	return q->copying ? at(q, 0) : NULL;
}

void repair_done(struct kvc_client *c)
{
	struct kc_repairs *q = c->repairs;
	q->copying = false;
	q->head = (q->head + 1) % REPAIRS;
	q->count--;
	co_queue_wake_all(&q->copied);
}

unsigned repair_end(struct kvc_client *c)
{
	struct kc_repairs *q = c->repairs;
	unsigned left = q->count;
	q->count = 0;
	q->running = false;
	co_queue_wake_all(&q->copied);
	return left;
}
