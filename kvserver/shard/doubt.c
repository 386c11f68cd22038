/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.c -- see doubt.h. A shard keeps the last verdicts until the next message. */
#include "kvserver/shard/doubt.h"

#include <stdlib.h>

#include "kvserver/shard/shard.h"

void shard_doubt_release(struct doubt_orders *t, struct doubt_verdicts *verdicts)
{
	unsigned left;
	pthread_mutex_lock(&t->lock);
	left = --verdicts->users;
	pthread_mutex_unlock(&t->lock);
	if (left > 0)
		return;
	free(verdicts->verdict);
	free(verdicts->space);
	free(verdicts);
}

/* Under the lock. */
static struct doubt_verdicts *order_set(struct doubt_orders *t, bool judge, struct doubt_verdicts *verdicts)
{
	struct doubt_verdicts *was = t->verdicts;
	t->verdicts = verdicts;
	t->judge = judge;
	return was;
}

static void order_give(struct doubt_orders *t, struct doubt_verdicts *was)
{
	pthread_mutex_unlock(&t->lock);
	if (was)
		shard_doubt_release(t, was);
	atomic_fetch_add_explicit(&t->number, 1, memory_order_release);
}

void shard_doubt_hide(struct doubt_orders *t, uint64_t now_ns, bool copies)
{
	pthread_mutex_lock(&t->lock);
	t->before_ns = now_ns;
	t->copies = copies;
	order_give(t, order_set(t, false, NULL));
}

void shard_doubt_judge(struct doubt_orders *t, struct doubt_verdicts *verdicts)
{
	pthread_mutex_lock(&t->lock);
	/* If a shard that stood still has hidden values since, it waits for another answer. */
	order_give(t, t->stood ? verdicts : order_set(t, true, verdicts));
}

void shard_doubt_stood(struct shard *s, uint64_t since_ns)
{
	struct doubt_orders *t = s->opt.doubt;
	s->doubt.late_ns = s->doubt.late_ns ? s->doubt.late_ns : since_ns;

	pthread_mutex_lock(&t->lock);
	t->stood = true;
	pthread_mutex_unlock(&t->lock);
	shard_doubt_hide(t, loop_turn_now(s->loop), false);
	shard_doubt_take(s);
}

/* Before values are shown again. */
static void spaces_learn(struct shard *s, const struct doubt_verdicts *v)
{
	uint64_t now_ns = loop_turn_now(s->loop);
	for (uint32_t i = 0; i < v->spaces; i++)
		store_space_learn(&s->store, v->space[i].name, v->space[i].generation, now_ns);
	store_floor_learn(&s->store, v->floor, now_ns);
}

void shard_doubt_take(struct shard *s)
{
	struct doubt_orders *t = s->opt.doubt;
	struct doubt_verdicts *verdicts, *was = s->doubt.verdicts;
	uint64_t before_ns;
	bool decided, copies;
	s->doubt.number = atomic_load_explicit(&t->number, memory_order_acquire);
	pthread_mutex_lock(&t->lock);
	before_ns = t->before_ns;
	copies = t->copies;
	decided = t->judge;
	verdicts = t->verdicts;
	if (verdicts)
		verdicts->users++;
	pthread_mutex_unlock(&t->lock);
	if (before_ns != s->store.doubt.before_ns)
		(copies ? store_doubt_copies : store_doubt)(&s->store, before_ns);
	if (decided) {
		if (verdicts)
			spaces_learn(s, verdicts);
		store_judge(&s->store, verdicts ? verdicts->verdict : NULL, verdicts ? verdicts->count : 0);
		s->opt.ops->judged(s, s->store.doubt.verdict, s->store.doubt.count);
		s->doubt.late_ns = 0;
	}
	s->doubt.verdicts = verdicts;
	if (was)
		shard_doubt_release(t, was);
}
