/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c -- requests that wait for the NVMe tier.
 *
 * A GET whose key memory lacks and the tier has waits with a copy of its record. When the value is in memory, or will
 * not be, the wait ends and the GET begins anew, with its first arrival time; now it does not ask the tier again.
 * A DELETE, a CLEAR, or a TOUCH that shortens a life, is answered when the tier has written that old records are void.
 *
 * A copy of another server's value whose key the tier alone has is told to come again, while the value is read: a
 * record has no birth, and of two values the younger one stays (put_commit.c).
 *
 * A wait belongs to its request, which may be stopped or cancelled as any other. */
#include "kvserver/ops/tier.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "kvserver/ops/work.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"
#include "kvserver/tier/tier_file.h"

#define FETCH_NS 1000000000ull

/* A waiting request. */
struct tier_waiter {
	struct tier_wait wait; /* of a GET */
	struct tier_safe safe; /* of others */
	struct request *r;
	struct tenant *reads; /* counts this GET; or NULL */
	int32_t status;       /* safe: the answer's */
	struct wire_request q;
	uint8_t key[KV_KEY_MAX];
};

/* A read for a copy, for which no request waits. */
struct tier_fetch {
	struct tier_wait wait;
	struct slab *of;
};

enum { FETCHES = 256 };

struct shard_tier {
	struct tier *tier;
	struct tier_device *device[TIER_DEVICES_MAX];
	unsigned devices;
	uint64_t names_number; /* of doubt_orders */
	struct slab waiters, fetches;
};

/* ---- waits ---- */

static struct tier *tier_of(const struct shard *s)
{
	return s->work->tier ? s->work->tier->tier : NULL;
}

static void waiter_end(struct request *r)
{
	struct shard_tier *st = r->attachment->shard->work->tier;
	struct tier_waiter *w = r->tier.waiter;
	if (!w)
		return;
	r->tier.waiter = NULL;
	if (w->reads)
		w->reads->tier_gets--;
	tier_get_cancel(st->tier, &w->wait);
	tier_safe_cancel(st->tier, &w->safe);
	slab_put(&st->waiters, w);
}

static void waiter_cancel(struct request *r)
{
	request_stop(r);
	request_end(r, WIRE_CANCELED);
}

static const struct request_ops waiter_ops = {.stop = waiter_end, .cancel = waiter_cancel};

/* A request of the record that waits; NULL: the shard has no more. */
static struct tier_waiter *waiter_new(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard_tier *st = l->attachment->shard->work->tier;
	struct tier_waiter *w = slab_get(&st->waiters);
	struct request *r = w ? request_new(l, q, &waiter_ops, now_ns) : NULL;
	if (!r) {
		if (w)
			slab_put(&st->waiters, w);
		return NULL;
	}
	w->wait = (struct tier_wait){.arg = w};
	w->safe = (struct tier_safe){.arg = w};
	w->reads = NULL;
	w->r = r;
	w->q = *q;
	if (q->key.len) /* a CLEAR has none */
		w->q.key.data = memcpy(w->key, q->key.data, q->key.len);
	r->tier.waiter = w;
	return w;
}

/* The request ends without an answer. */
static void waiter_drop(struct request *r)
{
	waiter_end(r);
	request_disown(r);
	request_free(r);
}

/* ---- GET ---- */

/* Begin the GET anew. Its request ends without an answer; the new one counts from the same time. */
static void get_again(struct tier_wait *wait, enum tier_end how)
{
	struct request *r = ((struct tier_waiter *)wait->arg)->r;
	struct shard *s = r->attachment->shard;
	struct link *l = r->link;
	struct session *own = l->session;
	struct space *entered = s->store.space;
	struct tier_waiter w = *r->tier.waiter;
	uint64_t begun_ns = r->begun_ns, hits = s->counts.of[WIRE_STAT_HITS];
	if (!s->te) {
		waiter_end(r);
		request_end(r, WIRE_CLOSING);
		return;
	}
	w.q.key.data = w.key;
	/* Once more is enough; and no frame ends here, with which a pack would be closed. */
	w.q.flags = (uint8_t)((w.q.flags | WIRE_GET_MEMORY_ONLY) & ~WIRE_GET_PACK);
	l->session = r->session;
	store_enter(&s->store, l->session->space);
	waiter_drop(r);
	s->opt.ops->begin[WIRE_GET](l, &w.q, begun_ns);
	if (how == TIER_HERE)
		s->counts.of[WIRE_STAT_TIER_SERVED] += s->counts.of[WIRE_STAT_HITS] - hits;
	l->session = own;
	store_enter(&s->store, entered);
}

/* A tenant may wait with half of them at a time. */
static bool gets_left(const struct tenant *t)
{
	return !t || t->tier_gets < TIER_GETS_MAX / 2;
}

bool get_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	struct tier *t = tier_of(s);
	uint64_t deadline_ns = kv_deadline(now_ns, KV_MIN(q->time_left_us * 1000ull, SHARD_REQUEST_NS));
	struct tier_waiter *w;
	if (!tier_has(t, index_hash(&s->store.index, q->key.data, q->key.len), now_ns))
		return false;
	reply->flags |= WIRE_GET_ON_TIER;
	w = q->flags & WIRE_GET_MEMORY_ONLY || !gets_left(l->session->tenant) ? NULL : waiter_new(l, q, now_ns);
	if (!w)
		return false;
	w->wait.end = get_again;
	w->reads = l->session->tenant;
	if (w->reads)
		w->reads->tier_gets++;
	if (tier_get(t, q->key.data, q->key.len, deadline_ns, now_ns, &w->wait) == 0)
		return true;
	waiter_drop(w->r);
	return false;
}

/* ---- copies ---- */

static void fetch_end(struct tier_wait *wait, enum tier_end how)
{
	struct tier_fetch *f = wait->arg;
	(void)how; /* the copy comes again, and finds the value in memory, or nowhere */
	slab_put(f->of, f);
}

bool tier_brings(struct shard *s, const void *key, size_t key_len, bool spare, uint64_t now_ns)
{
	struct shard_tier *st = s->work->tier;
	struct tier_fetch *f;
	int rc;
	if (!st || !st->tier || !tier_has(st->tier, index_hash(&s->store.index, key, key_len), now_ns))
		return false;
	f = spare ? NULL : slab_get(&st->fetches);
	if (!f)
		return true;
	*f = (struct tier_fetch){.wait = {.end = fetch_end, .arg = f}, .of = &st->fetches};
	rc = tier_get(st->tier, key, key_len, now_ns + FETCH_NS, now_ns, &f->wait);
	if (rc)
		slab_put(&st->fetches, f);
	return rc != -KV_ENOTFOUND;
}

/* ---- EXISTS ---- */

bool tier_exists(const struct shard *s, const uint8_t *digests, uint32_t n, uint64_t now_ns, const uint8_t *found,
		 uint8_t *tier)
{
	const struct tier *t = tier_of(s);
	bool any = false;
	for (uint32_t i = 0; t && i < n; i++) {
		if (found[i / 8] >> i % 8 & 1 ||
		    !tier_has(t, index_digest_hash(&s->store.index, wire_exists_digest(digests, i)), now_ns))
			continue;
		tier[i / 8] |= (uint8_t)(1u << i % 8);
		any = true;
	}
	return any;
}

/* ---- DELETE, TOUCH, CLEAR ---- */

static void safe_end(struct tier_safe *safe, int rc)
{
	struct tier_waiter *w = safe->arg;
	struct request *r = w->r;
	int32_t status = w->status;
	(void)rc; /* the value is gone here; the tier has logged that it may return */
	waiter_end(r);
	request_end(r, r->attachment->shard->te ? status : WIRE_CLOSING);
}

/* Send this reply when all deletions so far are safe. False: now, since too many wait. */
static bool reply_safe(struct link *l, const struct wire_request *q, const struct wire_reply *reply, int32_t status,
		       uint64_t now_ns)
{
	struct tier_waiter *w = waiter_new(l, q, now_ns);
	if (!w)
		return false;
	w->safe.end = safe_end;
	w->status = status;
	w->r->reply = *reply;
	tier_safe_wait(tier_of(l->attachment->shard), &w->safe);
	return true;
}

bool delete_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, bool *was, uint64_t now_ns)
{
	struct tier *t = tier_of(l->attachment->shard);
	bool there;
	int rc = tier_delete(t, q->key.data, q->key.len, now_ns, &there);
	*was |= there;
	reply->status = *was ? WIRE_OK : WIRE_NOTFOUND;
	if (rc != -EAGAIN)
		return false;
	if (reply_safe(l, q, reply, reply->status, now_ns))
		return true;
	reply->status = WIRE_BUSY;
	return false;
}

/* The value is on the tier alone: its age and checksum are not known without a read. */
static void touched_there(struct wire_reply *r, uint64_t expires_ns, uint64_t now_ns)
{
	r->status = WIRE_OK;
	r->touch.left_ms = expires_ns == KV_NEVER ? UINT64_MAX : (expires_ns - KV_MIN(expires_ns, now_ns)) / 1000000;
	r->touch.age_ns = INT64_MAX;
	r->touch.checksum = 0;
}

bool touch_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, bool in_memory,
		uint64_t expires_ns, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	struct tier *t = tier_of(s);
	bool there;
	int rc = 0;
	if (q->flags & WIRE_TOUCH_YOUNG && !in_memory) /* its age is not known */
		return false;
	if (q->flags & WIRE_TOUCH_LOOK) {
		there = tier_look(t, q->key.data, q->key.len, now_ns, &expires_ns);
	} else if (q->flags & WIRE_TOUCH_AT && !in_memory) {
		rc = tier_shorten(t, q->key.data, q->key.len, expires_ns, now_ns, &there);
		(void)tier_look(t, q->key.data, q->key.len, now_ns, &expires_ns);
	} else {
		rc = tier_touch(t, q->key.data, q->key.len, expires_ns, now_ns, &there);
	}
	if (there && !in_memory)
		touched_there(reply, expires_ns, now_ns);
	return rc == -EAGAIN && reply_safe(l, q, reply, reply->status, now_ns);
}

void tier_forget(struct shard *s, const struct block *b)
{
	struct tier *t = tier_of(s);
	struct space *entered = s->store.space;
	bool there;
	if (!t)
		return;
	store_enter(&s->store, s->store.spaces.at[b->space]);
	(void)tier_delete(t, b->item.key, b->item.key_len, loop_turn_now(s->loop), &there);
	store_enter(&s->store, entered);
}

bool clear_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, uint64_t now_ns)
{
	struct tier *t = tier_of(l->attachment->shard);
	if (!t || tier_cleared(t, l->session->space, now_ns) != -EAGAIN)
		return false;
	if (reply_safe(l, q, reply, WIRE_OK, now_ns))
		return true;
	reply->status = WIRE_BUSY;
	return false;
}

void tier_put_done(struct shard *s, const struct block *b)
{
	if (KV_UNLIKELY(s->work->tier != NULL))
		tier_stored(s->work->tier->tier, b, loop_turn_now(s->loop));
}

void shard_tier_stats(const struct shard *s, uint64_t *out)
{
	const struct tier *t = tier_of(s);
	struct tier_totals total;
	if (!t)
		return;
	tier_totals(t, &total);
	out[WIRE_STAT_TIER_HITS] = total.hits + total.shared;
	out[WIRE_STAT_TIER_MISSES] = total.misses;
	out[WIRE_STAT_TIER_BUSY] = total.busy;
	out[WIRE_STAT_TIER_FAILED] = total.failed;
	out[WIRE_STAT_TIER_LOST] = total.lost;
	out[WIRE_STAT_TIER_REFUSED] = total.refused;
	out[WIRE_STAT_TIER_DELETES] = total.deletes;
	out[WIRE_STAT_TIER_RECORDS] = total.records;
	out[WIRE_STAT_TIER_INDEX_BYTES] = total.index_bytes;
	for (unsigned i = 0; i < tier_devices(t); i++) {
		struct tier_stats one;
		tier_stats(t, i, &one);
		out[WIRE_STAT_TIER_UP] += one.state == TIER_UP;
		out[WIRE_STAT_TIER_DOWN] += one.state == TIER_DOWN;
		out[WIRE_STAT_TIER_READS] += one.reads;
		out[WIRE_STAT_TIER_READ_BYTES] += one.read_bytes;
		out[WIRE_STAT_TIER_READ_NS] += one.read_ns;
		out[WIRE_STAT_TIER_WRITES] += one.writes;
		out[WIRE_STAT_TIER_WRITE_BYTES] += one.write_bytes;
		out[WIRE_STAT_TIER_WRITE_NS] += one.write_ns;
		out[WIRE_STAT_TIER_ERRORS] += one.read_errors + one.write_errors;
		out[WIRE_STAT_TIER_DAMAGED] += one.damaged;
		out[WIRE_STAT_TIER_READING] += one.state == TIER_READING;
		out[WIRE_STAT_TIER_QUEUE] += one.queue;
		out[WIRE_STAT_TIER_VALUES] += one.values_written;
		out[WIRE_STAT_TIER_VALUES_KEPT] += one.values_kept;
		out[WIRE_STAT_TIER_VALUE_BYTES] += one.value_bytes;
		out[WIRE_STAT_TIER_BYTES] += one.bytes;
	}
}

const char *shard_tier_device(const struct shard *s, unsigned i, struct tier_stats *out)
{
	const struct tier *t = tier_of(s);
	if (!t || i >= tier_devices(t))
		return NULL;
	tier_stats(t, i, out);
	return s->work->tier->device[i]->name;
}

/* ---- the shard's turns ---- */

int shard_tier_turn(struct shard *s)
{
	struct tier *t = tier_of(s);
	return t ? tier_turn(t, loop_turn_now(s->loop)) : 0;
}

bool shard_tier_active(const struct shard *s)
{
	const struct tier *t = tier_of(s);
	return t && tier_active(t);
}

bool shard_tier_remembers(const struct shard *s)
{
	const struct tier *t = tier_of(s);
	return !t || tier_remembers(t);
}

static void members_take(struct shard *s, struct tier *t)
{
	struct doubt_orders *d = s->opt.doubt;
	uint64_t number = d ? atomic_load(&d->names_number) : 0;
	if (number == s->work->tier->names_number)
		return;
	s->work->tier->names_number = number;
	pthread_mutex_lock(&d->lock);
	tier_members(t, d->name, d->names);
	pthread_mutex_unlock(&d->lock);
}

void shard_tier_tick(struct shard *s)
{
	struct tier *t = tier_of(s);
	if (!t)
		return;
	members_take(s, t);
	tier_tick(t, loop_turn_now(s->loop));
}

void shard_tier_judged(struct shard *s, const struct verdict *verdict, uint32_t count)
{
	struct tier *t = tier_of(s);
	if (t)
		tier_judge(t, verdict, count);
}

bool shard_tier_saving(struct shard *s)
{
	struct tier *t = tier_of(s);
	if (!t || !s->te)
		return false;
	tier_flush(t, loop_turn_now(s->loop));
	return !tier_flushed(t);
}

bool shard_tier_busy(const struct shard *s)
{
	const struct tier *t = tier_of(s);
	return t && tier_flying(t);
}

/* ---- open and close ---- */

static int devices_open(struct shard *s, struct shard_tier *st, struct kv_error *err)
{
	const struct tier_files *files = s->opt.tier_files;
	int rc = 0;
	for (unsigned i = 0; i < files->count && rc == 0; i++) {
		rc = tier_device_open(&files->file[i], s->opt.index, KV_MAX(s->opt.shards, 1u), s->loop, &st->device[i],
				      err);
		st->devices += rc == 0;
	}
	return rc;
}

static uint64_t wall_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int shard_tier_open(struct shard *s, struct kv_error *err)
{
	struct tier_options o = s->opt.tier;
	struct shard_tier *st;
	int rc;
	if (!s->opt.tier_files || s->opt.tier_files->count == 0)
		return 0;
	st = calloc(1, sizeof(*st));
	if (!st)
		return kv_fail(err, -KV_ENOMEM, "no memory for a tier");
	s->work->tier = st;
	slab_init(&st->waiters, sizeof(struct tier_waiter), SHARD_REQUESTS_MAX);
	slab_init(&st->fetches, sizeof(struct tier_fetch), FETCHES);
	o.shard = s->opt.index;
	o.shards = KV_MAX(s->opt.shards, 1u);
	o.key_seed = s->opt.shard_seed;
	o.silent_ns = KV_MAX(s->opt.tier_files->silent_ns, s->opt.tier_files->doubt_ns);
	o.now_ns = loop_now(s->loop);
	o.wall_us = wall_us();
	o.area = &s->area;
	o.entropy = s->entropy;
	o.log = s->opt.log;
	rc = devices_open(s, st, err);
	return rc ? rc : tier_create(&o, &s->store, st->device, st->devices, &st->tier, err);
}

void shard_tier_close(struct shard *s)
{
	struct tier *t = s->work ? tier_of(s) : NULL;
	if (t)
		tier_stop(t);
}

void shard_tier_free(struct shard *s)
{
	struct shard_tier *st = s->work->tier;
	if (!st)
		return;
	tier_destroy(&st->tier);
	for (unsigned i = 0; i < st->devices; i++)
		tier_device_close(&st->device[i]);
	slab_fini(&st->waiters);
	slab_fini(&st->fetches);
	free(st);
	s->work->tier = NULL;
}
