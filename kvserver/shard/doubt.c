/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.c -- see doubt.h. A shard keeps the verdicts that it was told last until it is told anything else. */
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

void shard_doubt_take(struct shard *s)
{
	struct doubt_told *t = s->opt.doubt;
	struct doubt_said *said, *was = s->doubt_said;
	uint64_t before_ns;
	bool decided;

	s->doubt_number = atomic_load_explicit(&t->number, memory_order_acquire);
	pthread_mutex_lock(&t->lock);
	before_ns = t->before_ns;
	decided = t->judge;
	said = t->said;
	if (said)
		said->users++;
	pthread_mutex_unlock(&t->lock);
	if (before_ns != s->store.doubt.before_ns)
		store_doubt(&s->store, before_ns);
	if (decided)
		store_judge(&s->store, said ? said->verdict : NULL, said ? said->count : 0);
	s->doubt_said = said;
	if (was)
		shard_doubt_release(t, was);
}
