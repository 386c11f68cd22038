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

void shard_doubt_order(struct doubt_orders *t, uint64_t before_ns, struct doubt_verdicts *verdicts)
{
	struct doubt_verdicts *was =
		verdicts; /* if a shard that stood still has hidden values since, it waits for another answer */
	pthread_mutex_lock(&t->lock);
	if (before_ns || !t->stood) {
		was = t->verdicts;
		t->verdicts = verdicts;
		t->judge = before_ns == 0;
		t->before_ns = before_ns ? before_ns : t->before_ns;
	}
	pthread_mutex_unlock(&t->lock);
	if (was)
		shard_doubt_release(t, was);
	atomic_fetch_add_explicit(&t->number, 1, memory_order_release);
}

void shard_doubt_stood(struct shard *s, uint64_t since_ns)
{
	struct doubt_orders *t = s->opt.doubt;
	s->doubt.late_ns = s->doubt.late_ns ? s->doubt.late_ns : since_ns;

	pthread_mutex_lock(&t->lock);
	t->stood = true;
	pthread_mutex_unlock(&t->lock);
	shard_doubt_order(t, loop_turn_now(s->loop), NULL);
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
	bool decided;
	s->doubt.number = atomic_load_explicit(&t->number, memory_order_acquire);
	pthread_mutex_lock(&t->lock);
	before_ns = t->before_ns;
	decided = t->judge;
	verdicts = t->verdicts;
	if (verdicts)
		verdicts->users++;
	pthread_mutex_unlock(&t->lock);
	if (before_ns != s->store.doubt.before_ns)
		store_doubt(&s->store, before_ns);
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
