/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c -- leases: a client's right to read a block by itself for a time.
 *
 * A lease is a reference to a block. It ends by the client's release, its time, or the client's goodbye. If an
 * attachment ends otherwise, its leases run out their time, because the client's reads may continue.
 *
 * The client makes reads safe: it uses bytes only if its read ended before the lease by its own clock, counted from
 * before its request (kvclient/request/pull.c), and it verifies them. The server keeps the lease a 64th and a
 * millisecond longer than announced. All leases have the same time, so they end in order.
 *
 * A local client reads in place, for as long as it likes. Its leases have no time: they end by its release or with its
 * Unix socket, which the kernel closes when it dies (shard/local_client.c).
 *
 * A lease is named by its place and a generation; others find nothing. Leased blocks cannot be evicted. All together
 * may be half of the memory (shard_keep_left), those of a client a quarter. A block counts once in all, and once for a
 * client if another lease of it is among its latest (LEASES_LOOKED_AT); beyond that the server writes the values
 * itself.
 *
 * Leased blocks do not move, so small ones, wherever they lie, leave no stretch for a large value. While a PUT waits
 * for such a stretch, and for a moment longer, smaller blocks get no new leases, so the present ones run out. */
#include "kvserver/ops/lease.h"

#include <stdio.h>
#include <stdlib.h>

#include "kvserver/ops/private.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/attachment.h"
#include "kvserver/shard/local_client.h"
#include "kvserver/shard/reply.h"
#include "local/local.h"

static void leases_expire(struct loop_timer *t);

int leases_init(struct leases *l, uint64_t time_ns)
{
	l->lease = calloc(LEASES_MAX, sizeof(l->lease[0])); /* the kernel allocates pages with use */
	if (!l->lease)
		return -KV_ENOMEM;
	kv_list_init(&l->free);
	kv_list_init(&l->out);
	kv_list_init(&l->lasting);
	l->time_ns = time_ns;
	l->timer.fire = leases_expire;
	return 0;
}

void leases_fini(struct leases *l)
{
	free(l->lease);
	*l = (struct leases){0};
}

uint64_t leases_age_ns(const struct leases *l, uint64_t now_ns)
{
	uint64_t oldest = now_ns;
	if (l->count > l->locals)
		oldest = KV_LIST_ENTRY(l->out.next, struct lease, node)->begun_ns;
	if (l->locals)
		oldest = KV_MIN(oldest, KV_LIST_ENTRY(l->lasting.next, struct lease, node)->begun_ns);
	return now_ns - KV_MIN(now_ns, oldest);
}

/* ---- rests ---- */

void leases_rest(struct leases *l, uint64_t size, uint64_t now_ns)
{
	l->rest_below = KV_MAX(l->rest_below, size);
	l->rest_ns = now_ns + LEASE_REST_NS;
}

void leases_tick(struct leases *l, uint64_t now_ns)
{
	if (now_ns >= l->rest_ns)
		l->rest_below = 0;
}

/* Of its oldest lease. */
static uint64_t holder_age_ns(const struct lease_holder *h, uint64_t now_ns)
{
	uint64_t begun_ns = KV_LIST_ENTRY(h->leases.next, struct lease, sibling)->begun_ns;
	return now_ns - KV_MIN(now_ns, begun_ns);
}

const char *leases_most(const struct shard *shard, char *text, size_t cap)
{
	const struct shard_local *most = NULL;
	uint64_t now_ns = loop_turn_now(shard->loop);
	KV_LIST_EACH (n, &shard->locals.all) {
		const struct shard_local *l = KV_LIST_ENTRY(n, struct shard_local, node);
		if (l->holder.count > 0 && (!most || l->holder.bytes > most->holder.bytes))
			most = l;
	}
	text[0] = 0;
	if (!most)
		return text;
	snprintf(text, cap, ", most of it by client %llu on this host, in %u leases, the oldest for %.1f s",
		 (unsigned long long)most->client_id, most->holder.count,
		 (double)holder_age_ns(&most->holder, now_ns) / 1e9);
	return text;
}

/* Places only grow, and a page goes on behind the last one shown. The list is no longer than each turn's own walk. */
void leases_list_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *shard = l->attachment->shard;
	uint8_t packed[WIRE_LEASES_MAX * WIRE_HOLDER_BYTES];
	struct wire_reply r = {.type = WIRE_LEASES, .id = q->id, .rows = {.at = packed}};
	uint64_t last = 0;
	KV_LIST_EACH (n, &shard->locals.all) {
		const struct shard_local *o = KV_LIST_ENTRY(n, struct shard_local, node);
		struct wire_row w = {.number = {[WIRE_HOLDER_CLIENT] = o->client_id,
						[WIRE_HOLDER_LEASES] = o->holder.count,
						[WIRE_HOLDER_USED] = o->holder.bytes}};
		if (o->holder.count == 0 || o->place <= q->tombs.from)
			continue;
		if (r.rows.count == WIRE_LEASES_MAX) {
			r.rows.next = last;
			break;
		}
		w.number[WIRE_HOLDER_AGE_NS] = holder_age_ns(&o->holder, now_ns);
		if (o->who) {
			memcpy(w.name, o->who->identity, sizeof(w.name));
			w.number[WIRE_HOLDER_SESSION] = o->who->session;
			w.number[WIRE_HOLDER_PID] = o->who->pid;
		}
		wire_row_put(packed, r.rows.count++, r.type, &w);
		last = o->place;
	}
	reply_put(l, &r, NULL);
}

/* ---- giving ---- */

static struct lease *lease_take(struct leases *l)
{
	struct kv_list *n = kv_list_pop(&l->free);
	if (n)
		return KV_LIST_ENTRY(n, struct lease, node);
	return l->made < LEASES_MAX ? &l->lease[l->made++] : NULL;
}

static struct lease *lease_same(const struct lease_holder *h, const struct block *b)
{
	unsigned left = b->mem->leases ? LEASES_LOOKED_AT : 0;
	for (struct kv_list *n = h->leases.prev; left > 0 && n != &h->leases; n = n->prev, left--) {
		struct lease *e = KV_LIST_ENTRY(n, struct lease, sibling);
		if (e->block == b)
			return e;
	}
	return NULL;
}

/* size: of the block, 0 if it counts already; most: leases of one holder. */
static bool lease_allowed(const struct shard *shard, const struct lease_holder *h, uint32_t most, uint64_t size,
			  uint64_t more)
{
	uint64_t limit = shard->store.arena.limit;
	if (KV_UNLIKELY(more > 0 && more < shard->work->leases.rest_below))
		return false;
	if (h->count >= most || shard->leased_bytes + more > limit / LEASE_SHARE || more > shard_keep_left(shard))
		return false;
	return size == 0 || h->count < LEASES_ATTACHMENT_MIN || h->bytes + size <= limit / LEASE_ATTACHMENT_SHARE;
}

/* Keep the block for this holder. NULL: beyond the budget. The caller adds the end. */
static struct lease *lease_begin(struct shard *shard, struct lease_holder *h, uint32_t most, struct block *b)
{
	struct leases *l = &shard->work->leases;
	struct lease *same = lease_same(h, b);
	uint64_t size = same ? 0 : b->mem->size, more = b->mem->leases ? 0 : b->mem->size;
	struct lease *e = lease_allowed(shard, h, most, size, more) ? lease_take(l) : NULL;
	if (!e)
		return NULL;
	KV_ASSERT(b->state == BLOCK_LIVE || (b->state == BLOCK_GONE && b->refs > 0)); /* rule 58 */
	block_ref(b);
	e->holder = h;
	e->block = b;
	e->generation += e->generation == UINT32_MAX ? 2 : 1; /* never 0, so that no lease is named 0 */
	kv_list_add_tail(&h->leases, &e->sibling);
	kv_list_init(&e->same);
	e->counted = !same;
	if (same)
		kv_list_add_tail(&same->same, &e->same);
	b->mem->leases++;
	l->count++;
	shard->leased_bytes += more;
	h->count++;
	h->bytes += size;
	shard_count(shard, WIRE_STAT_LEASES);
	return e;
}

static uint64_t lease_id(const struct leases *l, const struct lease *e)
{
	return (uint64_t)e->generation << 32 | (uint32_t)(e - l->lease);
}

bool lease_give(struct shard_attachment *s, struct block *b, uint64_t *out_id)
{
	struct shard *shard = s->shard;
	struct leases *l = &shard->work->leases;
	struct lease *e = lease_begin(shard, &s->holder, LEASES_ATTACHMENT_MAX, b);
	if (!e) {
		shard_count(shard, WIRE_STAT_LEASES_REFUSED);
		return false;
	}
	/* (Not the turn's time, which may be older than the request.) */
	e->begun_ns = loop_now(shard->loop);
	e->end_ns = e->begun_ns + l->time_ns + l->time_ns / 64 + LEASE_PART_NS;
	kv_list_add_tail(&l->out, &e->node);
	if (!loop_timer_armed(&l->timer))
		loop_timer_arm(shard->loop, &l->timer, e->end_ns);
	*out_id = lease_id(l, e);
	return true;
}

bool lease_give_local(struct shard_local *local, struct block *b, uint64_t *out_id)
{
	struct shard *shard = local->shard;
	struct leases *l = &shard->work->leases;
	struct lease *e = lease_begin(shard, &local->holder, LOCAL_LEASES_MAX, b);
	if (!e) {
		shard_count(shard, WIRE_STAT_LOCAL_REFUSED);
		return false;
	}
	e->begun_ns = loop_turn_now(shard->loop);
	e->end_ns = KV_NEVER;
	kv_list_add_tail(&l->lasting, &e->node);
	l->locals++;
	*out_id = lease_id(l, e);
	return true;
}

/* ---- ending ---- */

/* Detach the lease from its holder. */
static void lease_leave(struct lease *e)
{
	struct lease_holder *h = e->holder;
	if (!h)
		return;
	kv_list_del(&e->sibling);
	e->holder = NULL;
	h->count--;
	if (e->counted && kv_list_empty(&e->same))
		h->bytes -= e->block->mem->size;
	else if (e->counted)
		KV_LIST_ENTRY(e->same.next, struct lease, same)->counted = true;
	kv_list_del(&e->same);
	KV_ASSERT(h->count > 0 || h->bytes == 0); /* rule 57 */
}

static void lease_end(struct shard *shard, struct lease *e)
{
	struct leases *l = &shard->work->leases;
	struct block *b = e->block;
	KV_ASSERT(b->mem->leases > 0 && l->count > 0); /* rules 38 and 57: once */
	lease_leave(e);
	kv_list_del(&e->node);
	kv_list_add_head(&l->free, &e->node);
	l->count--;
	l->locals -= e->end_ns == KV_NEVER;
	if (--b->mem->leases == 0)
		shard->leased_bytes -= b->mem->size;
	block_unref(&shard->store, b);
}

static bool lease_return(struct shard *shard, const struct lease_holder *h, uint64_t id)
{
	struct leases *l = &shard->work->leases;
	uint32_t index = (uint32_t)id;
	struct lease *e = index < l->made ? &l->lease[index] : NULL;
	if (!e || e->holder != h || e->generation != id >> 32) {
		shard_count(shard, WIRE_STAT_BAD_RELEASES);
		return false;
	}
	lease_end(shard, e);
	return true;
}

void lease_release(struct shard_attachment *s, uint64_t id)
{
	(void)lease_return(s->shard, &s->holder, id);
}

bool lease_release_local(struct shard_local *local, uint64_t id)
{
	bool was = lease_return(local->shard, &local->holder, id);
	local->shard->counts.of[WIRE_STAT_LOCAL_RELEASED] += was;
	return was;
}

unsigned leases_end_local(struct shard_local *local, unsigned budget)
{
	unsigned n = 0;
	for (; n < budget && local->holder.count; n++) {
		struct lease *e = KV_LIST_ENTRY(local->holder.leases.next, struct lease, sibling);
		/* The client may read kept memory for longer than this server lasts: the next one must not reuse it. */
		if (local->shard->opt.kept && !local->shard->te)
			block_ref(e->block);
		lease_end(local->shard, e);
	}
	return n;
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
	for (unsigned n = 0; !kv_list_empty(&l->out); n++) {
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
	while (!kv_list_empty(&s->holder.leases))
		lease_end(s->shard, KV_LIST_ENTRY(s->holder.leases.next, struct lease, sibling));
}

void leases_leave(struct shard_attachment *s)
{
	while (!kv_list_empty(&s->holder.leases))
		lease_leave(KV_LIST_ENTRY(s->holder.leases.next, struct lease, sibling));
}

/* (Local clients have left: their connections end before the shard does.) */
void leases_clear(struct shard *shard)
{
	struct loop_timer *timer = &shard->work->leases.timer;
	KV_ASSERT(shard->work->leases.locals == 0); /* rule 57 */
	if (loop_timer_armed(timer))
		loop_timer_cancel(shard->loop, timer);
	while (shard->work->leases.count)
		lease_end(shard, KV_LIST_ENTRY(shard->work->leases.out.next, struct lease, node));
}
