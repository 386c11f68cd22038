/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c -- entries of a queue: taken by submitting threads, ended with their last part, freed by the last reference.
 * Free and ended entries are two stacks, changed by compare-and-swap. The head of the free stack carries a count
 * against ABA; ended entries are taken all at once and need none. A part that was taken back stays with its loop until
 * the loop reaches it, so an ended id may still occupy an entry. The thread that ends a part is the last to touch its
 * items, keys and buffers, before the completion can be reaped. */
#include "kvclient/queue/queue.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int kc_queue_enter(struct kvc_queue *q)
{
	atomic_fetch_add(&q->callers, 1);
	if (!atomic_load(&q->stopped))
		return 0;
	atomic_fetch_sub(&q->callers, 1);
	return -KV_ECLOSED;
}

void kc_queue_leave(struct kvc_queue *q)
{
	atomic_fetch_sub(&q->callers, 1);
}

void kc_queue_hold(struct kvc_queue *q)
{
	atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
}

void kc_queue_unhold(struct kvc_queue *q)
{
	if (atomic_fetch_sub(&q->refs, 1) != 1)
		return;
	free(q->lane);
	free(q->part);
	free(q->load);
	free(q->entry);
	free(q);
}

/* ---- free ones ---- */

static void entry_free(struct kc_queue_entry *e)
{
	struct kvc_queue *q = e->queue;
	uint64_t head = atomic_load(&q->free), next;
	do {
		atomic_store_explicit(&e->next_free, (uint32_t)head, memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | (e->index + 1);
	} while (!atomic_compare_exchange_weak(&q->free, &head, next));
}

static struct kc_queue_entry *free_take(struct kvc_queue *q)
{
	uint64_t head = atomic_load(&q->free), next;
	struct kc_queue_entry *e;
	do {
		if ((uint32_t)head == 0)
			return NULL;
		e = &q->entry[(uint32_t)head - 1];
		next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&e->next_free, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(&q->free, &head, next));
	return e;
}

/* Background calls get half of the entries, so that others find one. */
struct kc_queue_entry *kc_entry_take(struct kvc_queue *q, const struct kvc_call *call)
{
	bool background = call->flags & KVC_BACKGROUND;
	struct kc_queue_entry *e = NULL;
	if (background && atomic_fetch_add(&q->background, 1) >= KV_MAX(q->depth / 2, 1u))
		goto err_count;
	e = free_take(q);
	if (!e)
		goto err_count;
	e->id += (uint64_t)1 << KC_QUEUE_DEPTH_BITS;
	e->call = *call;
	kc_queue_hold(q);
	return e;

err_count:
	if (background)
		atomic_fetch_sub(&q->background, 1);
	return NULL;
}

void kc_entry_drop(struct kc_queue_entry *e)
{
	struct kvc_queue *q = e->queue;
	if (e->call.flags & KVC_BACKGROUND)
		atomic_fetch_sub(&q->background, 1);
	entry_free(e);
	kc_queue_unhold(q);
}

void kc_entry_unload(const struct kc_queue_entry *e)
{
	for (unsigned k = 0; k < e->parts; k++) {
		const struct kc_queue_part *p = &e->part[k];
		uint32_t lane = atomic_load_explicit(&p->lane, memory_order_relaxed);
		atomic_fetch_sub_explicit(&e->queue->load[lane], p->n, memory_order_relaxed);
	}
}

void kc_entry_unhold(struct kc_queue_entry *e)
{
	if (atomic_fetch_sub(&e->refs, 1) == 1)
		kc_entry_drop(e);
}

/* ---- ended ones ---- */

/* The closing thread waits for the last one; it set `stopped` before it looked. */
static void under_way_less(struct kvc_queue *q, uint32_t n)
{
	if (atomic_fetch_sub(&q->under_way, n) == n && atomic_load(&q->stopped))
		syscall(SYS_futex, &q->under_way, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void done_push(struct kc_queue_entry *e)
{
	struct kvc_queue *q = e->queue;
	e->next = atomic_load_explicit(&q->done, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&q->done, &e->next, e))
		;
}

/* A pushed entry may be reaped at once, so hold the queue until the bell is rung. */
void kc_entry_end(struct kc_queue_entry *e)
{
	struct kvc_queue *q = e->queue;
	kc_queue_hold(q);
	done_push(e);
	kc_queue_told(q, 1);
	kc_queue_unhold(q);
}

void kc_queue_told(struct kvc_queue *q, uint32_t n)
{
	if (atomic_load(&q->done)) /* else the reaping thread has taken them */
		kc_bell_ring(&q->bell);
	under_way_less(q, n);
}

/* Ended entries come last one first: reverse them. */
static void ready_fetch(struct kvc_queue *q, uint32_t *steps)
{
	struct kc_queue_entry *e;
	if (!q->turning)
		q->turning = atomic_exchange(&q->done, NULL);
	for (; (e = q->turning) && *steps > 0; --*steps) {
		q->turning = e->next;
		e->next = q->turned;
		q->turned = e;
	}
	if (q->turning)
		return;
	q->ready = q->turned;
	q->turned = NULL;
}

struct kc_queue_entry *kc_entry_next(struct kvc_queue *q, uint32_t *steps)
{
	struct kc_queue_entry *e;
	if (!q->ready)
		ready_fetch(q, steps);
	e = q->ready;
	if (e)
		q->ready = e->next;
	return e;
}

static bool part_end(struct kc_queue_part *p, int rc)
{
	for (unsigned i = 0; rc < 0 && i < p->n; i++)
		p->items[i].result = rc;
	KV_ASSERT_HOT(atomic_load(&p->entry->parts_left) > 0); /* rule 51: it ends once */
	return atomic_fetch_sub(&p->entry->parts_left, 1) == 1;
}

void kc_part_end(struct kc_queue_part *p, int rc)
{
	struct kc_queue_entry *e = p->entry;
	if (part_end(p, rc))
		kc_entry_end(e);
}

bool kc_part_end_untold(struct kc_queue_part *p, int rc)
{
	struct kc_queue_entry *e = p->entry;
	bool last = part_end(p, rc);
	if (last)
		done_push(e);
	return last;
}
