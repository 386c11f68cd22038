/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c -- leases: a client's right to read a block by itself for a time.
 *
 * A lease is a reference to a block. It ends by the client's release, its time, or the client's goodbye. If an
 * attachment ends otherwise, its leases run out their time, because the client's reads may continue.
 *
 * The client makes reads safe: it uses bytes only if its read ended before the lease by its own clock, counted from
 * before its request (kvclient/request/pull.c), and it verifies them. The server keeps the lease at least as long: a
 * 64th and a millisecond longer than announced, more than two clocks drift apart. All leases have the same time, so
 * they end in order.
 *
 * A lease is named by its place and a generation; late, double and invented releases find nothing. Leased blocks cannot
 * be evicted. All together may be half of the memory (shard_keep_left; a block counts once), those of an attachment a
 * quarter (each lease counts). Beyond that the server writes the values itself. */
#include "kvserver/ops/lease.h"

#include <stdlib.h>

#include "kvserver/ops/work.h"
#include "kvserver/shard/attachment.h"

static void leases_expire(struct loop_timer *t);

int leases_init(struct leases *l, uint64_t time_ns)
{
	l->lease = calloc(LEASES_MAX, sizeof(l->lease[0])); /* the kernel allocates pages with use */
	if (!l->lease)
		return -KV_ENOMEM;
	kv_list_init(&l->free);
	kv_list_init(&l->out);
	l->time_ns = time_ns;
	l->timer.fire = leases_expire;
	return 0;
}

void leases_fini(struct leases *l)
{
	free(l->lease);
	*l = (struct leases){0};
}

static struct lease *lease_take(struct leases *l)
{
	struct kv_list *n = kv_list_pop(&l->free);
	if (n)
		return KV_LIST_ENTRY(n, struct lease, node);
	return l->made < LEASES_MAX ? &l->lease[l->made++] : NULL;
}

static bool lease_allowed(const struct shard_attachment *s, uint64_t size, uint64_t more)
{
	uint64_t limit = s->shard->store.arena.limit;
	if (s->lease_count == LEASES_ATTACHMENT_MAX || s->shard->leased_bytes + more > limit / LEASE_SHARE ||
	    more > shard_keep_left(s->shard))
		return false;
	return s->lease_count < LEASES_ATTACHMENT_MIN || s->leased_bytes + size <= limit / LEASE_ATTACHMENT_SHARE;
}

bool lease_give(struct shard_attachment *s, struct block *b, uint64_t *out_id)
{
	struct shard *shard = s->shard;
	struct leases *l = &shard->work->leases;
	uint64_t size = b->mem->size, more = b->mem->leases ? 0 : size;
	struct lease *e = lease_allowed(s, size, more) ? lease_take(l) : NULL;
	if (!e) {
		shard_count(shard, WIRE_STAT_LEASES_REFUSED);
		return false;
	}
	block_ref(b);
	e->attachment = s;
	e->block = b;
	e->generation += e->generation == UINT32_MAX ? 2 : 1; /* never 0, so that no lease is named 0 */
	/* (Not the turn's time, which may be older than the request.) */
	e->end_ns = loop_now(shard->loop) + l->time_ns + l->time_ns / 64 + LEASE_PART_NS;
	if (!loop_timer_armed(&l->timer))
		loop_timer_arm(shard->loop, &l->timer, e->end_ns);
	kv_list_add_tail(&l->out, &e->node);
	kv_list_add_tail(&s->leases, &e->sibling);
	b->mem->leases++;
	l->count++;
	shard->leased_bytes += more;
	s->lease_count++;
	s->leased_bytes += size;
	shard_count(shard, WIRE_STAT_LEASES);
	*out_id = (uint64_t)e->generation << 32 | (uint32_t)(e - l->lease);
	return true;
}

/* Detach the lease from its attachment. */
static void lease_leave(struct lease *e)
{
	struct shard_attachment *s = e->attachment;
	if (!s)
		return;
	kv_list_del(&e->sibling);
	e->attachment = NULL;
	s->lease_count--;
	s->leased_bytes -= e->block->mem->size;
}

static void lease_end(struct shard *shard, struct lease *e)
{
	struct leases *l = &shard->work->leases;
	struct block *b = e->block;
	KV_ASSERT(b->mem->leases > 0 && l->count > 0); /* rule 38: once */
	lease_leave(e);
	kv_list_del(&e->node);
	kv_list_add_tail(&l->free, &e->node);
	l->count--;
	if (--b->mem->leases == 0)
		shard->leased_bytes -= b->mem->size;
	block_unref(&shard->store, b);
}

void lease_release(struct shard_attachment *s, uint64_t id)
{
	struct leases *l = &s->shard->work->leases;
	uint32_t index = (uint32_t)id;
	struct lease *e = index < l->made ? &l->lease[index] : NULL;
	if (!e || e->attachment != s || e->generation != id >> 32) {
		shard_count(s->shard, WIRE_STAT_BAD_RELEASES);
		return;
	}
	lease_end(s->shard, e);
}

void release_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	(void)now_ns;
	for (uint32_t i = 0; i < q->release.count; i++)
		lease_release(l->attachment, wire_release_lease(q->release.leases, i));
}

/* End expired leases, LEASES_AT_ONCE in a turn: all of a shard's may expire together. (A release does not move the
 * timer: it fires, checks, and waits for the next.) */
static void leases_expire(struct loop_timer *t)
{
	struct leases *l = KV_CONTAINER(t, struct leases, timer);
	struct shard *shard = KV_CONTAINER(l, struct work, leases)->shard;
	uint64_t now_ns = 0;
	for (unsigned n = 0; l->count; n++) {
		struct lease *e = KV_LIST_ENTRY(l->out.next, struct lease, node);
		now_ns = now_ns ? now_ns : loop_now(shard->loop);
		if (e->end_ns > now_ns || n == LEASES_AT_ONCE) {
			loop_timer_arm(shard->loop, t, KV_MAX(e->end_ns, now_ns));
			break;
		}
		shard_count(shard, WIRE_STAT_LEASES_EXPIRED);
		lease_end(shard, e);
	}
}

void leases_drop(struct shard_attachment *s)
{
	while (!kv_list_empty(&s->leases))
		lease_end(s->shard, KV_LIST_ENTRY(s->leases.next, struct lease, sibling));
}

void leases_leave(struct shard_attachment *s)
{
	while (!kv_list_empty(&s->leases))
		lease_leave(KV_LIST_ENTRY(s->leases.next, struct lease, sibling));
}

void leases_clear(struct shard *shard)
{
	struct loop_timer *timer = &shard->work->leases.timer;
	if (loop_timer_armed(timer))
		loop_timer_cancel(shard->loop, timer);
	while (shard->work->leases.count)
		lease_end(shard, KV_LIST_ENTRY(shard->work->leases.out.next, struct lease, node));
}
