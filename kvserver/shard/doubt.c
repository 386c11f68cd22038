/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.c -- see doubt.h. A shard keeps the last verdicts until the next message.
 *
 * A member that reports an impossible generation of a namespace is not believed in anything: the doubt ends as if not
 * all had answered, and no generation is learned. (A generation near the last one would make later clears useless.) */
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

/* Whether the generations can be those of members; logs the first that cannot. */
static bool spaces_believed(const struct shard *s, const struct doubt_verdicts *v)
{
	const struct kvs_space *lie = NULL;
	uint64_t floor = s->store.spaces.floor;
	for (uint32_t i = 0; i < v->spaces && !lie; i++)
		if (!store_space_believed(&s->store, v->space[i].name, v->space[i].generation))
			lie = &v->space[i];
	if (!lie && (v->floor <= floor || v->floor - floor <= KV_GENERATIONS_MAX))
		return true;
	kv_event(s->opt.log, KV_LOG_ERROR,
		 KV_EVENT("generation_refused", KV_NUMBER("shard", s->opt.index),
			  KV_FIELD("namespace", lie ? lie->name : "*"),
			  KV_NUMBER("generation", lie ? lie->generation : v->floor)),
		 "shard %u: a member of the cluster reports the generation %llu of namespace %s, more than 2^32 above "
		 "ours: it is not believed, and values that other members may have deleted are dropped; find the "
		 "member with `kv-client namespaces`",
		 s->opt.index, (unsigned long long)(lie ? lie->generation : v->floor), lie ? lie->name : "*");
	return false;
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
		bool believed = verdicts && spaces_believed(s, verdicts);
		if (believed)
			spaces_learn(s, verdicts);
		store_judge(&s->store, believed ? verdicts->verdict : NULL, believed ? verdicts->count : 0);
		s->opt.ops->judged(s, s->store.doubt.verdict, s->store.doubt.count);
		s->doubt.late_ns = 0;
	}
	s->doubt.verdicts = verdicts;
	if (was)
		shard_doubt_release(t, was);
}
