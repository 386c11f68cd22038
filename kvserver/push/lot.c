/* SPDX-License-Identifier: Apache-2.0 */
/* lot.c -- access of the pushing thread to blocks of a shard's loop.
 *
 * The loop references some blocks and reports their places; the thread reads their bytes, which nothing changes, and
 * asks for the next ones; then the loop drops the references and deletes outdated blocks. If a client sends a DELETE
 * during a push, the thread hears of it with the next lot, and repeats it at the value's new server. A loop that does
 * not turn cannot be awaited for ever: the lot is left to it, and freed if the loop ever runs it. */
#include "kvserver/push/lot.h"

#include <errno.h>
#include <stdlib.h>

#include "kvserver/ops/tier.h"

enum { LOOKS = 2048 };          /* stretches of memory for each lot: some 0.1 ms of the loop */
#define LOT_BYTES (16ull << 20) /* of a lot with several blocks */
#define AGAIN_NS  1000000       /* before a full queue is retried */
#define SECOND_NS 1000000000ull

/* The block is still live. */
static void settle(struct shard *s, const struct lot_item *it)
{
	if (it->fate == LOT_OUTDATED) {
		tier_forget(s, it->block);
		store_yield(&s->store, it->block, loop_turn_now(s->loop));
	} else if (it->fate != LOT_UNTRIED && it->fate < LOT_FULL)
		ranking_done(&s->store, it->block);
}

static void deleted_note(struct lot *lot, const struct lot_item *it)
{
	struct shard *s = lot->shard;
	struct lot_deleted *d = &lot->deleted[lot->deleted_count];
	if (!store_key_deleted(&s->store, it->block->item.hash, loop_turn_now(s->loop), &d->time_ns) ||
	    d->time_ns < it->born_ns)
		return;
	memcpy(d->key, it->key, it->key_len);
	d->key_len = it->key_len;
	memcpy(d->space, it->space, sizeof(d->space));
	lot->deleted_count++;
}

static void give_back(struct lot *lot)
{
	struct shard *s = lot->shard;
	lot->deleted_count = 0;
	for (unsigned i = 0; i < lot->count; i++) {
		const struct lot_item *it = &lot->item[i];
		bool pushed = it->fate == LOT_PUSHED, live = it->block->state == BLOCK_LIVE;
		if (it->fate != LOT_UNTRIED)
			shard_count(s, pushed ? WIRE_STAT_PUSHED : WIRE_STAT_PUSH_FAILED);
		s->counts.of[WIRE_STAT_PUSHED_BYTES] += pushed ? it->len : 0;
		lot->gone += !pushed && (!live || it->fate == LOT_OUTDATED);
		if (live)
			settle(s, it);
		else if (pushed)
			deleted_note(lot, it);
		block_unref(&s->store, it->block);
	}
	lot->count = 0;
}

/* Its lifetime from its birth in seconds; false: less than one is left. */
static bool ttl_of(const struct block *b, uint64_t now_ns, uint32_t *out)
{
	*out = 0;
	if (b->expire.when_ns == KV_NEVER)
		return true;
	if (b->expire.when_ns < now_ns + SECOND_NS)
		return false;
	*out = (uint32_t)KV_MIN((b->expire.when_ns - block_born_ns(b)) / SECOND_NS, (uint64_t)UINT32_MAX);
	return true;
}

static void take(struct lot *lot, struct block *b, uint32_t ttl_s)
{
	struct lot_item *it = &lot->item[lot->count++];
	*it = (struct lot_item){.key_len = b->item.key_len,
				.ttl_s = ttl_s,
				.block = b,
				.data = store_data(&lot->shard->store, b),
				.len = b->len,
				.checksum = b->checksum,
				.old = rank_of(&lot->ranking, b) == RANK_OLD,
				.born_ns = KV_MAX(block_born_ns(b), (uint64_t)1)};
	memcpy(it->key, b->item.key, it->key_len);
	memcpy(it->space, lot->shard->store.spaces.at[b->space]->name, sizeof(it->space));
	block_ref(b);
}

static void fill(struct lot *lot)
{
	struct shard *s = lot->shard;
	unsigned looks = LOOKS;
	uint64_t bytes = 0, now_ns = loop_turn_now(s->loop);
	lot->round = lot->ranking.round; /* a lot ends with its round */
	while (lot->count < LOT_BLOCKS && bytes < LOT_BYTES) {
		struct block *b = ranking_next(&s->store, &lot->ranking, &looks);
		uint32_t ttl_s;
		if (!b)
			break;
		if (b->refs == BLOCK_REFS_MAX)
			continue;
		if (!store_pushable(&s->store, b) || !block_current(&s->store, b) || !ttl_of(b, now_ns, &ttl_s)) {
			ranking_done(&s->store, b);
			lot->gone++;
			continue;
		}
		take(lot, b, ttl_s);
		bytes += b->len;
	}
	lot->over = lot->ranking.over;
}

void lot_free(struct lot *lot)
{
	pthread_cond_destroy(&lot->changed);
	pthread_mutex_destroy(&lot->lock);
	free(lot);
}

/* On the shard's loop. */
static void turn(void *arg)
{
	struct lot *lot = arg;
	const struct shard *s = lot->shard;
	bool abandoned;
	give_back(lot);
	pthread_mutex_lock(&lot->lock);
	abandoned = lot->abandoned;
	pthread_mutex_unlock(&lot->lock);
	if (lot->ending || abandoned)
		ranking_end(&lot->ranking);
	else
		fill(lot);
	lot->left = ranking_left(&s->store);
	pthread_mutex_lock(&lot->lock);
	lot->done = true;
	abandoned = lot->abandoned;
	pthread_cond_signal(&lot->changed);
	pthread_mutex_unlock(&lot->lock);
	if (abandoned) {
		give_back(lot);
		ranking_end(&lot->ranking);
		lot_free(lot);
	}
}

/* False: the time is over, and the loop still has it. */
static bool done_wait(struct lot *lot, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS), .tv_nsec = (long)(until_ns % SECOND_NS)};
	bool done;
	pthread_mutex_lock(&lot->lock);
	while (!lot->done && pthread_cond_timedwait(&lot->changed, &lot->lock, &until) != ETIMEDOUT)
		;
	done = lot->done;
	lot->abandoned = !done;
	pthread_mutex_unlock(&lot->lock);
	return done;
}

static int turn_wait(struct lot *lot, uint64_t until_ns)
{
	const struct timespec again = {.tv_nsec = AGAIN_NS};
	int rc;
	lot->done = false;
	while ((rc = loop_post(lot->shard->loop, turn, lot)) == -KV_EBUSY && kv_now() < until_ns)
		nanosleep(&again, NULL);
	if (rc < 0)
		return -KV_ETIMEOUT; /* nothing of the lot is in flight: its references stay, as the process ends */
	return done_wait(lot, until_ns) ? 0 : -KV_ETIMEOUT;
}

struct lot *lot_new(struct shard *s)
{
	struct lot *lot = calloc(1, sizeof(*lot));
	if (!lot)
		return NULL;
	lot->shard = s;
	kv_cond_init(&lot->changed);
	pthread_mutex_init(&lot->lock, NULL);
	return lot;
}

int lot_next_wait(struct lot *lot, uint64_t until_ns)
{
	return turn_wait(lot, until_ns);
}

int lot_end_wait(struct lot *lot, uint64_t until_ns)
{
	lot->ending = true;
	return turn_wait(lot, until_ns);
}
