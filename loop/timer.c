/* SPDX-License-Identifier: Apache-2.0 */
/* timer.c -- a pairing heap of intrusive timers.
 *
 * The words of a timer: first child, next sibling, previous (the parent for a first child, else the left sibling; NULL
 * for the root), and arming number, which is 0 only when it is not armed. The key is (when_ns, number): equal times
 * fire in arming order. Arm is O(1), cancel and pop O(log n) amortised. Nothing is allocated or recursive.
 *
 * Times before this turn are lifted to this turn, so a timer that re-arms itself for the past sorts behind all due
 * timers, and timer_expire stops at the first number newer than its start. */
#include "loop/timer.h"

static struct loop_timer *child_of(const struct loop_timer *t)
{
	return t->priv[0];
}

static struct loop_timer *next_of(const struct loop_timer *t)
{
	return t->priv[1];
}

static struct loop_timer *prev_of(const struct loop_timer *t)
{
	return t->priv[2];
}

static uintptr_t number_of(const struct loop_timer *t)
{
	return (uintptr_t)t->priv[3];
}

static bool before(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->when_ns != b->when_ns ? a->when_ns < b->when_ns : number_of(a) < number_of(b);
}

/* Both are roots without siblings; the later one becomes the other's first child. */
static struct loop_timer *meld(struct loop_timer *a, struct loop_timer *b)
{
	if (!a || !b)
		return a ? a : b;
	if (before(b, a)) {
		struct loop_timer *swap = a;
		a = b;
		b = swap;
	}
	struct loop_timer *child = child_of(a);
	b->priv[1] = child;
	b->priv[2] = a;
	if (child)
		child->priv[2] = b;
	a->priv[0] = b;
	return a;
}

static struct loop_timer *alone(struct loop_timer *t)
{
	t->priv[1] = t->priv[2] = NULL;
	return t;
}

/* Two passes: meld siblings in pairs from left to right, then the pairs from right to left. */
static struct loop_timer *meld_siblings(struct loop_timer *first)
{
	struct loop_timer *pairs = NULL, *all = NULL;
	while (first) {
		struct loop_timer *a = first, *b = next_of(a);
		first = b ? next_of(b) : NULL;
		struct loop_timer *pair = meld(alone(a), b ? alone(b) : NULL);
		pair->priv[1] = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct loop_timer *pair = pairs;
		pairs = next_of(pair);
		all = meld(all, alone(pair));
	}
	return all;
}

static void cut(struct loop_timer *t)
{
	struct loop_timer *prev = prev_of(t), *next = next_of(t);
	if (child_of(prev) == t)
		prev->priv[0] = next;
	else
		prev->priv[1] = next;
	if (next)
		next->priv[2] = prev;
}

static void clear(struct loop_timer *t)
{
	t->priv[0] = t->priv[1] = t->priv[2] = t->priv[3] = NULL;
}

void timer_cancel(struct timer_heap *heap, struct loop_timer *t)
{
	if (!loop_timer_armed(t))
		return;
	struct loop_timer *children = meld_siblings(child_of(t));
	if (heap->root == t) {
		heap->root = children;
	} else {
		cut(t);
		heap->root = meld(heap->root, children);
	}
	clear(t);
}

void timer_arm(struct timer_heap *heap, struct loop_timer *t, uint64_t when_ns)
{
	timer_cancel(heap, t);
	clear(t);
	t->when_ns = when_ns;
	t->priv[3] = (void *)++heap->armed;
	heap->root = meld(heap->root, t);
}

uint64_t timer_next_ns(const struct timer_heap *heap)
{
	return heap->root ? heap->root->when_ns : KV_NEVER;
}

int timer_expire(struct timer_heap *heap, uint64_t now_ns)
{
	uintptr_t newest = heap->armed;
	int fired = 0;
	for (struct loop_timer *t = heap->root; t && t->when_ns <= now_ns && number_of(t) <= newest; t = heap->root) {
		timer_cancel(heap, t);
		t->fire(t);
		fired++;
	}
	return fired;
}

bool loop_timer_armed(const struct loop_timer *t)
{
	return t->priv[3] != NULL;
}
