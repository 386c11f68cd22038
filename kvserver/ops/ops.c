/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c -- the table of operations, and their common work in a turn of the shard: checksums, clearing memory. The shard
 * calls the operations through this table, and each request its operation through struct request_ops, so calls go down
 * from here to the shard's room. */
#include "kvserver/ops/ops.h"

#include <stdlib.h>

#include "kvserver/ops/private.h"
#include "kvserver/ops/put_memory.h"
#include "kvserver/ops/stage.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/request.h"

/* ---- a turn ---- */

static void hash_puts(struct shard *s, uint64_t *budget)
{
	while (*budget && !kv_list_empty(&s->work->hashing))
		stage_hash(KV_LIST_ENTRY(s->work->hashing.next, struct stage, hashing), budget);
}

static void hash_gets(struct shard *s, uint64_t *budget)
{
	while (*budget && !kv_list_empty(&s->work->hash_gets))
		get_hash(KV_LIST_ENTRY(s->work->hash_gets.next, struct request, get.hashing), budget);
}

/* Checksums of incoming values and of outgoing parts get half of a turn's bytes each, and the unused rest of the other
 * half. */
static int hash_some(struct shard *s)
{
	uint64_t budget = SHARD_HASH_BYTES, first = kv_list_empty(&s->work->hash_gets) ? budget : budget / 2;
	budget -= first;
	hash_puts(s, &first);
	budget += first;
	hash_gets(s, &budget);
	hash_puts(s, &budget);
	return budget < SHARD_HASH_BYTES;
}

static int ops_turn(struct shard *s)
{
	int done = hash_some(s);
	if (!kv_list_empty(&s->work->rooms[WAIT_CLEARING])) {
		put_turn(s);
		done++;
	}
	return KV_UNLIKELY(s->work->tier != NULL) ? done + shard_tier_turn(s) : done;
}

static bool ops_active(const struct shard *s)
{
	const struct work *w = s->work;
	return !kv_list_empty(&w->rooms[WAIT_CLEARING]) || !kv_list_empty(&w->hashing) ||
	       !kv_list_empty(&w->hash_gets) || (KV_UNLIKELY(w->tier != NULL) && shard_tier_active(s));
}

static void ops_tick(struct shard *s)
{
	leases_tick(&s->work->leases, loop_turn_now(s->loop));
	put_tick(s);
	shard_tier_tick(s);
}

/* ---- statistics ---- */

static uint64_t hashing(const struct work *w)
{
	uint64_t n = 0;
	KV_LIST_EACH (node, &w->hashing)
		n++;
	KV_LIST_EACH (node, &w->hash_gets)
		n++;
	return n;
}

static void ops_stats(const struct shard *s, uint64_t *out)
{
	out[WIRE_STAT_STAGES] = s->work->stages.used;
	out[WIRE_STAT_HASHING] = hashing(s->work);
	out[WIRE_STAT_LEASES_NOW] = s->work->leases.count;
	out[WIRE_STAT_LOCAL_LEASES] = s->work->leases.locals;
	shard_tier_stats(s, out);
	out[WIRE_STAT_LEASE_AGE_NS] = leases_age_ns(&s->work->leases, loop_turn_now(s->loop));
}

/* ---- open and close ---- */

static int ops_open(struct shard *s, struct kv_error *err)
{
	struct work *w = calloc(1, sizeof(*w));
	if (!w)
		return kv_fail(err, -KV_ENOMEM, "no memory for a shard");
	s->work = w;
	w->shard = s;
	slab_init(&w->stages, sizeof(struct stage), SHARD_REQUESTS_MAX);
	slab_init(&w->waits, PUT_WAIT_BYTES, STORE_ROOMS_MAX);
	slab_init(&w->hashers, sizeof(struct kv_hasher), SHARD_REQUESTS_MAX);
	kv_list_init(&w->hashing);
	kv_list_init(&w->hash_gets);
	for (unsigned i = 0; i < WAIT_STATES; i++)
		kv_list_init(&w->rooms[i]);
	if ((s->opt.allow_pull || s->area.shared) && leases_init(&w->leases, s->opt.lease_ns) != 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for the leases of a shard");
	if (packs_init(s, get_alone, err) != 0)
		return err->code;
	return shard_tier_open(s, err);
}

static void ops_close(struct shard *s)
{
	shard_tier_close(s);
	packs_fini(s);
}

static void ops_destroy(struct shard *s)
{
	struct work *w = s->work;
	if (!w)
		return;
	slab_fini(&w->stages);
	slab_fini(&w->waits);
	slab_fini(&w->hashers);
	leases_fini(&w->leases);
	shard_tier_free(s);
	free(w);
	s->work = NULL;
}

const struct shard_ops kvs_ops = {
	.begin = {[WIRE_GET] = get_begin,
		  [WIRE_PUT] = put_begin,
		  [WIRE_EXISTS] = exists_begin,
		  [WIRE_DELETE] = delete_begin,
		  [WIRE_TOUCH] = touch_begin,
		  [WIRE_PIN] = pin_begin,
		  [WIRE_STAT] = stat_begin,
		  [WIRE_CANCEL] = cancel_begin,
		  [WIRE_PING] = ping_begin,
		  [WIRE_TOMBS] = tombs_begin,
		  [WIRE_CLEAR] = clear_begin,
		  [WIRE_SPACES] = spaces_begin,
		  [WIRE_TENANTS] = tenants_begin,
		  [WIRE_LEASES] = leases_list_begin,
		  [WIRE_RELEASE] = release_begin},
	.attachment_stop = stages_drop,
	.attachment_left = leases_leave,
	.attachment_idle = leases_drop,
	.attachment_tick = stages_tick,
	.session_end = stages_drop_session,
	.local_released = lease_release_local,
	.local_end = leases_end_local,
	.turn = ops_turn,
	.active = ops_active,
	.tick = ops_tick,
	.judged = shard_tier_judged,
	.saving = shard_tier_saving,
	.busy = shard_tier_busy,
	.device = shard_tier_device,
	.stats = ops_stats,
	.open = ops_open,
	.close = ops_close,
	.clear = leases_clear,
	.destroy = ops_destroy,
};
