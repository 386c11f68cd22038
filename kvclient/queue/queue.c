/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c -- queues: any thread submits calls without blocking, and one thread reaps them. A call is an entry with one
 * part for each client that works on it, several for a large batch (call/spread.c). A part is posted to its client's
 * loop, where a coroutine makes it (lane.c). The thread that ends the last part pushes the entry and rings the bell
 * (entry.c, bell.c). Only kvc_queue_open allocates, and no lock is taken. Keys, items and buffers are not copied: they
 * are the queue's until the completion is reaped. A pool may be closed before its queues: submitting is stopped first,
 * so every part ends before its client does. Then the queue can only be reaped and closed. Closing a queue cancels its
 * calls and waits until no caller memory is in use. The last reference frees it: a stalled loop may still have
 * parts. */
#include "kvclient/queue/queue.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kvclient/call/claim.h"
#include "kvclient/call/parts.h"
#include "kvclient/call/spread.h"
#include "kvclient/core/block.h"
#include "kvclient/core/sized.h"
#include "kvclient/route/second.h"
#include "kvclient/transfer/call.h"

/* ---- submit ---- */

static const struct kvc_client *part_client(const struct kc_queue_entry *e, unsigned turn, unsigned k, unsigned count)
{
	const struct kvc_pool *pool = e->queue->pool;
	bool one = e->n == 1 && (e->op == KVC_OP_PUT || e->op == KVC_OP_DELETE);
	if (e->call.session)
		return e->call.session->client;
	if (one && (pool->options.flags | e->call.flags) & KVC_TWO_COPIES)
		return pool->client[route_client(pool, e->items[0].key)];
	return count == 1 ? pool->client[kc_spread_idlest(pool, e->queue->load, turn)]
			  : kc_spread_client(pool, turn, k);
}

/* Fill the parts of an entry; returns their number. A batch with a session (of one client) or phases is not cut. */
static unsigned parts_fill(struct kc_queue_entry *e, uint64_t deadline_ns)
{
	struct kvc_pool *pool = e->queue->pool;
	const struct kvc_session *session = e->call.session;
	bool whole = session || e->call.phases || e->n < 2;
	unsigned turn = session ? 0 : atomic_fetch_add_explicit(&pool->loads.next, 1, memory_order_relaxed), count = 1;
	struct kc_spread spread;
	if (!whole)
		count = kc_spread_begin(&spread, pool, e->items, e->n, e->op == KVC_OP_GET || e->op == KVC_OP_PUT);
	for (unsigned k = 0; k < count; k++) {
		struct kc_queue_part *p = &e->part[k];
		const struct kvc_client *c = part_client(e, turn, k, count);
		unsigned from = 0;
		p->n = count == 1 ? e->n : kc_spread_next(&spread, &from);
		p->items = e->items + from;
		atomic_store_explicit(&p->lane, c->index, memory_order_relaxed);
		atomic_fetch_add_explicit(&e->queue->load[c->index], p->n, memory_order_relaxed);
		atomic_store_explicit(&p->deadline_ns, deadline_ns, memory_order_relaxed);
	}
	e->parts = count;
	return count;
}

/* A part whose loop is full fails alone, unless it is the first: then nothing was begun. A part with a near deadline
 * may be taken back while it is posted. The entry stays until its last part has ended. */
static int parts_post(struct kc_queue_entry *e, unsigned count)
{
	uint64_t id = e->id;
	for (unsigned k = 0; k < count; k++) {
		struct kc_queue_part *p = &e->part[k];
		int rc;
		atomic_store(&p->state, kc_part_word(id, KC_PART_POSTED));
		rc = kc_lane_post(p);
		if (rc == 0)
			continue;
		if (kc_part_turn(p, id, KC_PART_POSTED, KC_PART_OVER)) {
			if (k == 0)
				return rc;
			kc_part_end(p, rc);
		}
		kc_entry_unhold(e);
	}
	return 0;
}

static int64_t entry_submit(struct kvc_queue *q, struct kc_queue_entry *e)
{
	const struct kvc_pool *pool = q->pool;
	uint64_t id = e->id, now = kv_clock_now(q->clock), deadline;
	bool sized = !e->call.timeout_ns && pool->time_grows && (e->op == KVC_OP_GET || e->op == KVC_OP_PUT);
	unsigned count;
	deadline = kv_deadline(now, kc_pool_time(pool, &e->call, sized ? kc_batch_bytes(e->items, e->n) : 0));
	e->begun_ns = now;
	e->parts = 0;
	count = e->n > 0 ? parts_fill(e, deadline) : 0;
	atomic_store_explicit(&e->parts_left, count, memory_order_relaxed);
	atomic_store_explicit(&e->refs, count + 1, memory_order_relaxed);
	atomic_fetch_add(&q->under_way, 1);
	if (count == 0)
		kc_entry_end(e);
	else if (parts_post(e, count) < 0)
		goto err_full;
	kc_bell_watch(&q->bell, deadline, q->clock);
	return (int64_t)id;

err_full:
	atomic_fetch_sub(&q->under_way, 1);
	kc_entry_unload(e);
	kc_entry_drop(e);
	return -KV_EBUSY;
}

static int64_t submit(struct kvc_queue *q, enum kvc_op op, struct kvc_item *items, unsigned n,
		      const struct kvc_call *call, uint64_t tag)
{
	struct kc_queue_entry *e;
	struct kvc_call own;
	int64_t rc = q && (items || n == 0) ? kc_call_check(call, &own) : -KV_EINVAL;
	if (rc < 0)
		return rc;
	if (kc_fork_alien(q->born))
		return -KV_ECLOSED;
	rc = kc_queue_enter(q);
	if (rc < 0)
		return rc;
	rc = own.session && own.session->client->pool != q->pool ? -KV_EINVAL : kc_items_claim(op, items, n);
	if (rc == 0) {
		e = kc_entry_take(q, &own);
		rc = -KV_EBUSY;
		if (e) {
			e->op = op;
			e->items = items;
			e->n = n;
			e->tag = tag;
			if (op == KVC_OP_GET)
				kc_parts_claim(items, n, q->told.fn ? &q->told : NULL);
			rc = entry_submit(q, e);
		}
		if (rc < 0)
			kc_items_drop(items, n, (int)rc);
	}
	kc_queue_leave(q);
	return rc;
}

int64_t kvc_submit_get(struct kvc_queue *queue, struct kvc_item *items, unsigned n, const struct kvc_call *call,
		       uint64_t tag)
{
	return submit(queue, KVC_OP_GET, items, n, call, tag);
}

int64_t kvc_submit_put(struct kvc_queue *queue, struct kvc_item *items, unsigned n, const struct kvc_call *call,
		       uint64_t tag)
{
	return submit(queue, KVC_OP_PUT, items, n, call, tag);
}

int64_t kvc_submit_exists(struct kvc_queue *queue, struct kvc_item *items, unsigned n, const struct kvc_call *call,
			  uint64_t tag)
{
	return submit(queue, KVC_OP_EXISTS, items, n, call, tag);
}

int64_t kvc_submit_delete(struct kvc_queue *queue, struct kvc_item *items, unsigned n, const struct kvc_call *call,
			  uint64_t tag)
{
	return submit(queue, KVC_OP_DELETE, items, n, call, tag);
}

/* ---- open ---- */

static void tables_init(struct kvc_queue *q)
{
	for (uint32_t i = 0; i < q->depth; i++) {
		struct kc_queue_entry *e = &q->entry[i];
		e->queue = q;
		e->index = i;
		e->id = i;
		e->part = &q->part[i * q->parts_max];
		atomic_init(&e->next_free, i + 1 < q->depth ? i + 2 : 0);
		for (uint32_t k = 0; k < q->parts_max; k++)
			e->part[k].entry = e;
	}
	for (uint32_t i = 0; i < q->lanes; i++) {
		q->lane[i] = (struct kc_queue_lane){.queue = q, .client = q->pool->client[i]};
		kv_list_init(&q->lane[i].waiting);
		kv_list_init(&q->lane[i].behind);
	}
	atomic_init(&q->free, 1);
	atomic_init(&q->refs, 1);
}

static void on_parts(struct kc_parts_told *told)
{
	kc_bell_ring(&KV_CONTAINER(told, struct kvc_queue, told)->bell);
}

static struct kvc_queue *queue_make(struct kvc_pool *pool, uint32_t depth)
{
	struct kvc_queue *q = aligned_alloc(KV_LINES, kv_align_up(sizeof(*q), KV_LINES));
	if (!q)
		return NULL;
	memset(q, 0, sizeof(*q));
	q->born = pool->born;
	q->pool = pool;
	q->clock = pool->clock ? pool->clock : &kv_clock_monotonic;
	q->depth = depth;
	q->lanes = pool->num_clients;
	q->parts_max = KV_MIN(KV_MIN(pool->num_loops, pool->num_clients), (unsigned)KC_SPREAD_MAX);
	q->entry = calloc(depth, sizeof(*q->entry));
	q->part = calloc((size_t)depth * q->parts_max, sizeof(*q->part));
	q->load = calloc(q->lanes, sizeof(*q->load));
	q->lane = aligned_alloc(KV_LINES, q->lanes * sizeof(*q->lane));
	if (q->entry && q->part && q->load && q->lane) {
		tables_init(q);
		return q;
	}
	free(q->entry);
	free(q->part);
	free(q->load);
	free(q->lane);
	free(q);
	return NULL;
}

static void queue_join(struct kvc_queue *q, struct kvc_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	kv_list_add_tail(&pool->queues, &q->node);
	if (atomic_load(&pool->closing))
		atomic_store(&q->stopped, true);
	pthread_mutex_unlock(&pool->lock);
}

int kvc_queue_open(struct kvc_pool *pool, const struct kvc_queue_options *options, struct kvc_queue **out,
		   struct kv_error *err)
{
	struct kvc_queue_options o;
	struct kvc_queue *q;
	int rc;
	if (!pool || !out)
		return kv_fail(err, -KV_EINVAL, "kvc_queue_open needs a pool and a place for the queue");
	rc = kc_sized_take(&o, sizeof(o), options, offsetof(struct kvc_queue_options, depth),
			   "struct kvc_queue_options", err);
	if (rc < 0)
		return rc;
	if (o.depth > 1u << KC_QUEUE_DEPTH_BITS)
		return kv_fail(err, -KV_EINVAL, "the depth of a queue is %u; it is %u at most", o.depth,
			       1u << KC_QUEUE_DEPTH_BITS);
	if (o.flags & ~(unsigned)KVC_QUEUE_PARTS)
		return kv_fail(err, -KV_EINVAL, "struct kvc_queue_options: `flags` %u has an unknown flag", o.flags);
	rc = kc_pool_enter(pool);
	if (rc < 0)
		return kv_fail(err, rc, "the pool is being closed, or is of the parent of this process");
	q = queue_make(pool, o.depth ? o.depth : KC_QUEUE_DEPTH);
	rc = q ? kc_bell_open(&q->bell, err) : kv_fail(err, -KV_ENOMEM, "no memory for a queue");
	if (q && rc < 0)
		kc_queue_unhold(q);
	if (rc == 0 && o.flags & KVC_QUEUE_PARTS)
		q->told.fn = on_parts;
	if (rc == 0)
		queue_join(q, pool);
	kc_pool_leave(pool);
	if (rc == 0)
		*out = q;
	return rc;
}

int kvc_queue_fd(const struct kvc_queue *queue)
{
	if (!queue)
		return -KV_EINVAL;
	return kc_fork_alien(queue->born) ? -KV_ECLOSED : queue->bell.fd;
}

/* ---- close ---- */

/* Stop submitting and cancelling. Threads inside leave soon: they do not block. */
static void queue_stop(struct kvc_queue *q)
{
	const struct timespec pause = {.tv_nsec = 100000};
	atomic_store(&q->stopped, true);
	while (atomic_load(&q->callers) > 0)
		nanosleep(&pause, NULL);
}

/* Closing cannot fail: retry while a loop's queue is full. */
static void entries_cancel(struct kvc_queue *q)
{
	for (uint32_t i = 0; i < q->depth; i++)
		while (kc_entry_cancel(&q->entry[i], q->entry[i].id) == -KV_EBUSY)
			kc_drive_nap(q->pool);
}

static void entries_wait(struct kvc_queue *q)
{
	uint32_t left;
	while ((left = atomic_load(&q->under_way)) > 0) {
		uint64_t wait_ns = KV_NEVER;
		struct timespec t;
		/* A closed pool has ended all of them. */
		if (q->pool && kc_drive(q->pool, &wait_ns))
			continue;
		t = (struct timespec){.tv_nsec = (long)(wait_ns % 1000000000)};
		syscall(SYS_futex, &q->under_way, FUTEX_WAIT_PRIVATE, left, wait_ns == KV_NEVER ? NULL : &t, NULL, 0);
	}
}

int kvc_queue_close(struct kvc_queue **queue)
{
	struct kvc_queue *q = queue ? *queue : NULL;
	struct kc_queue_entry *e;
	uint32_t steps = UINT32_MAX;
	int dropped = 0;
	if (!q)
		return 0;
	if (kc_fork_alien(q->born)) {
		*queue = NULL; /* the parent's: see core/fork.c */
		return 0;
	}
	if (loop_current())
		return -KV_EINVAL;
	queue_stop(q);
	if (q->pool)
		entries_cancel(q);
	entries_wait(q);
	for (; (e = kc_entry_next(q, &steps)); dropped++)
		kc_entry_unhold(e);
	if (q->pool) {
		pthread_mutex_lock(&q->pool->lock);
		kv_list_del(&q->node);
		pthread_mutex_unlock(&q->pool->lock);
	}
	kc_bell_close(&q->bell);
	kc_queue_unhold(q);
	*queue = NULL;
	return dropped;
}

void kc_queues_stop(struct kvc_pool *p)
{
	pthread_mutex_lock(&p->lock);
	KV_LIST_EACH (n, &p->queues)
		queue_stop(KV_LIST_ENTRY(n, struct kvc_queue, node));
	pthread_mutex_unlock(&p->lock);
}

void kc_queues_leave(struct kvc_pool *p)
{
	KV_LIST_EACH_SAFE (n, &p->queues) {
		kv_list_del(n);
		KV_LIST_ENTRY(n, struct kvc_queue, node)->pool = NULL;
	}
}
