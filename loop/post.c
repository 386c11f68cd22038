/* SPDX-License-Identifier: Apache-2.0 */
/* post.c -- a bounded queue of many producers and one consumer (Dmitry Vyukov's), and its bell.
 *
 * A cell's `turn` is the position for which it is ready. A producer claims a position by compare-and-swap and publishes
 * it by storing position + 1; the consumer frees it for the next lap with position + depth. A producer interrupted in
 * between hides later positions; it rings the bell itself when it publishes.
 *
 * Sleep is Dekker's agreement: the producer stores the cell, then loads `sleeping`; the consumer stores `sleeping`,
 * then loads the cell. All four are seq_cst operations, so at least one sees the other's store. The producer that swaps
 * `sleeping` to false rings: one bell per sleep at most. */
#include "loop/post.h"

#include <stdlib.h>

int post_init(struct post_queue *q, uint32_t depth)
{
	if (depth < 2 || (depth & (depth - 1)) != 0)
		return -KV_EINVAL;
	q->cells = malloc(depth * sizeof(*q->cells));
	if (!q->cells)
		return -KV_ENOMEM;
	for (size_t i = 0; i < depth; i++)
		atomic_init(&q->cells[i].turn, i);
	q->mask = depth - 1;
	q->head = 0;
	atomic_init(&q->tail, 0);
	atomic_init(&q->sleeping, false);
	return 0;
}

void post_fini(struct post_queue *q)
{
	free(q->cells);
	q->cells = NULL;
}

int post_put(struct post_queue *q, void (*fn)(void *arg), void *arg)
{
	size_t pos = atomic_load_explicit(&q->tail, memory_order_relaxed);
	struct post_cell *cell;
	for (;;) {
		cell = &q->cells[pos & q->mask];
		size_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
		if (turn == pos) {
			if (atomic_compare_exchange_weak_explicit(&q->tail, &pos, pos + 1, memory_order_relaxed,
								  memory_order_relaxed))
				break;
		} else if ((ptrdiff_t)(turn - pos) < 0) {
			return -KV_EBUSY;
		} else {
			pos = atomic_load_explicit(&q->tail, memory_order_relaxed);
		}
	}
	cell->fn = fn;
	cell->arg = arg;
	atomic_store_explicit(&cell->turn, pos + 1, memory_order_seq_cst);
	return 0;
}

int post_run(struct post_queue *q, int max)
{
	int ran = 0;
	while (ran < max) {
		struct post_cell *cell = &q->cells[q->head & q->mask];
		if (atomic_load_explicit(&cell->turn, memory_order_acquire) != q->head + 1)
			break;
		void (*fn)(void *) = cell->fn;
		void *arg = cell->arg;
		atomic_store_explicit(&cell->turn, q->head + q->mask + 1, memory_order_release);
		q->head++;
		fn(arg);
		ran++;
	}
	return ran;
}

bool post_bell_needed(struct post_queue *q)
{
	return atomic_load_explicit(&q->sleeping, memory_order_seq_cst) &&
	       atomic_exchange_explicit(&q->sleeping, false, memory_order_seq_cst);
}

bool post_sleep(struct post_queue *q)
{
	atomic_store_explicit(&q->sleeping, true, memory_order_seq_cst);
	const struct post_cell *cell = &q->cells[q->head & q->mask];
	if (atomic_load_explicit(&cell->turn, memory_order_seq_cst) != q->head + 1)
		return true;
	post_awake(q);
	return false;
}

void post_awake(struct post_queue *q)
{
	atomic_store_explicit(&q->sleeping, false, memory_order_relaxed);
}
