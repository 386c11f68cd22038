/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.c -- see doubt.h. A shard keeps the last verdicts until the next message. */
#include "kvserver/shard/doubt.h"

#include <stdlib.h>

#include "kvserver/shard/shard.h"

void shard_doubt_release(struct doubt_told *t, struct doubt_said *said)
{
	unsigned left;
	pthread_mutex_lock(&t->lock);
	left = --said->users;
	pthread_mutex_unlock(&t->lock);
	if (left > 0)
		return;
	free(said->verdict);
	free(said);
}

void shard_doubt_tell(struct doubt_told *t, uint64_t before_ns, struct doubt_said *said)
{
	struct doubt_said *was =
		said; /* if a shard that stood still has hidden values since, it waits for another answer */
	pthread_mutex_lock(&t->lock);
	if (before_ns || !t->stood) {
		was = t->said;
		t->said = said;
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
	struct doubt_told *t = s->opt.doubt;
	s->doubt.late_ns = s->doubt.late_ns ? s->doubt.late_ns : since_ns;

	pthread_mutex_lock(&t->lock);
	t->stood = true;
	pthread_mutex_unlock(&t->lock);
	shard_doubt_tell(t, loop_turn_now(s->loop), NULL);
	shard_doubt_take(s);
}

void shard_doubt_take(struct shard *s)
{
	struct doubt_told *t = s->opt.doubt;
	struct doubt_said *said, *was = s->doubt.said;
	uint64_t before_ns;
	bool decided;
	s->doubt.number = atomic_load_explicit(&t->number, memory_order_acquire);
	pthread_mutex_lock(&t->lock);
	before_ns = t->before_ns;
	decided = t->judge;
	said = t->said;
	if (said)
		said->users++;
	pthread_mutex_unlock(&t->lock);
	if (before_ns != s->store.doubt.before_ns)
		store_doubt(&s->store, before_ns);
	if (decided) {
		store_judge(&s->store, said ? said->verdict : NULL, said ? said->count : 0);
		s->doubt.late_ns = 0;
	}
	s->doubt.said = said;
	if (was)
		shard_doubt_release(t, was);
}
