/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- store and find blocks; block.c has their states.
 *
 * Most values find a hole at once, or the policy's victim leaves one; room.c makes room for the others. There are at
 * most blocks_max blocks: a new one then evicts another. */
#include "store/store.h"

#include <errno.h>

#include "store/pins.h"
#include "store/room.h"

/* Prefetched bytes of a value before it is sent; the processor reads ahead beyond. */
enum { AHEAD_BYTES = 1024, DIGESTS_AHEAD = 16 };

int store_init(struct store *s, const struct store_options *o)
{
	uint64_t blocks = o->blocks_max ? o->blocks_max
					: KV_MAX(o->limit_bytes / STORE_BYTES_PER_BLOCK, (uint64_t)STORE_BLOCKS_MIN);
	uint32_t max = (uint32_t)KV_MIN(blocks, (uint64_t)STORE_BLOCKS_MAX), made = max + STORE_ROOMS_MAX;
	int rc;
	*s = (struct store){.base = o->base,
			    .generation = o->generation,
			    .blocks_max = max,
			    .charge_min = (o->limit_bytes + max - 1) / max,
			    .poison = o->poison,
			    .journal = o->journal};
	rc = arena_init(&s->arena, o->limit_bytes, made);
	if (rc)
		return rc;
	rc = index_init(&s->index, o->seed, o->digest_seed);
	if (rc) {
		arena_fini(&s->arena);
		return rc;
	}
	rc = evict_init(&s->evict, o->policy, max);
	if (rc)
		goto no_policy;
	rc = spaces_init(&s->spaces, o->seed);
	if (rc)
		goto no_spaces;
	rc = tombs_init(&s->tombs, o->limit_bytes);
	if (rc)
		goto no_tombs;
	expire_init(&s->expire, o->now_ns);
	slab_init(&s->blocks, sizeof(struct block), made);
	slab_init(&s->rooms, sizeof(struct room), STORE_ROOMS_MAX);
	slab_init(&s->pins, sizeof(struct pin), max);
	kv_list_init(&s->left);
	kv_list_init(&s->clearing);
	tenancy_init(s);
	store_enter(s, store_space_default(s));
	return 0;
no_tombs:
	spaces_fini(&s->spaces);
no_spaces:
	evict_fini(&s->evict);
no_policy:
	index_fini(&s->index);
	arena_fini(&s->arena);
	return rc;
}

void store_fini(struct store *s)
{
	pins_drop_all(s);
	KV_ASSERT(s->pinned_bytes == 0);
	arena_walk_end(&s->cleared);
	slab_fini(&s->pins);
	slab_fini(&s->rooms);
	slab_fini(&s->blocks);
	tombs_fini(&s->tombs);
	tenancy_fini(s);
	spaces_fini(&s->spaces);
	evict_fini(&s->evict);
	index_fini(&s->index);
	arena_fini(&s->arena);
}

void store_drop(struct store *s, struct block *b)
{
	if (b->state == BLOCK_GONE)
		return;
	block_retire(s, b);
	if (b->refs == 0)
		block_free(s, b);
}

static void block_init(struct store *s, struct block *b, const void *key, size_t key_len, uint64_t len)
{
	KV_ASSERT_HOT(s->space != &s->spaces.nowhere); /* rule 77 */
	b->item.hash = index_hash(&s->index, key, key_len);
	b->item.key_len = (uint8_t)key_len;
	memcpy(b->item.key, key, key_len);
	b->state = BLOCK_STAGED;
	b->refs = 1;
	b->sure = 0;
	b->len = len;
	b->mem = NULL;
	b->checksum = 0;
	b->mark = 0;
	b->space = s->space->index;
	s->space->refs++;
	b->generation = s->generation++;
	b->evict = (struct evict_node){.hits = 0};
	b->expire = (struct expire_node){.when_ns = KV_NEVER};
	kv_list_init(&b->pins);
}

/* If there are too many blocks now, evict one. */
static int stage_placed(struct store *s, struct block *b, struct arena_block *mem)
{
	while (s->blocks.used > s->blocks_max + s->rooms.used) {
		struct evict_node *n = store_victim(s, s->spaces.at[b->space]->tenant);
		if (n)
			block_evict(s, KV_CONTAINER(n, struct block, evict));
		else if (pins_leaving(s))
			(void)pins_sweep(s, PINS_AT_ONCE);
		else
			return -KV_ENOMEM;
	}
	b->mem = mem;
	b->offset = mem->offset;
	return 0;
}

static void block_give(struct store *s, struct block *b)
{
	s->spaces.at[b->space]->refs--;
	slab_put(&s->blocks, b);
}

/* The block never had memory. */
static void stage_undo(struct store *s, struct block *b, bool charged)
{
	if (charged)
		tenant_sub(s, s->spaces.at[b->space]->tenant, store_charge(s, b->len));
	s->staged_bytes -= arena_round(b->len);
	block_give(s, b);
}

static int stage_room(struct store *s, struct block *b, bool charged, struct room **out_room)
{
	struct room *r = slab_get(&s->rooms);
	unsigned budget = STORE_STEPS_AT_ONCE;
	if (!r)
		return -KV_EBUSY;
	room_begin(r, arena_round(b->len), b);
	r->charged = charged;
	*out_room = r;
	return store_stage_step(s, r, &budget);
}

static int block_take(struct store *s, const void *key, size_t key_len, uint64_t len, struct block **out)
{
	if (key_len == 0 || key_len > KV_KEY_MAX || len == 0)
		return -KV_EINVAL;
	if (len > s->arena.limit)
		return -KV_ETOOBIG;
	*out = slab_get(&s->blocks);
	if (!*out)
		return -KV_ENOMEM;
	block_init(s, *out, key, key_len, len);
	return 0;
}

int store_stage(struct store *s, const void *key, size_t key_len, uint64_t len, enum arena_end end, struct block **out,
		struct room **out_room)
{
	struct arena_block *mem = NULL;
	unsigned budget = STORE_STEPS_AT_ONCE;
	struct block *b;
	int rc;
	rc = block_take(s, key, key_len, len, &b);
	if (rc)
		return rc;
	s->staged_bytes += arena_round(len);
	*out = b;
	rc = tenant_charge(s, s->space->tenant, store_charge(s, len), &budget);
	if (rc == -KV_ENOMEM) {
		stage_undo(s, b, false);
		return rc;
	}
	if (rc == 0)
		mem = arena_alloc(&s->arena, len, b, end);
	if (!mem) {
		bool charged = rc == 0;
		rc = stage_room(s, b, charged, out_room);
		if (rc == -KV_EBUSY)
			stage_undo(s, b, charged);
		return rc;
	}
	rc = stage_placed(s, b, mem);
	if (rc) {
		arena_free(&s->arena, mem);
		stage_undo(s, b, true);
	}
	return rc;
}

int store_stage_spare(struct store *s, const void *key, size_t key_len, uint64_t len, enum arena_end end,
		      struct block **out)
{
	struct arena_block *mem = NULL;
	struct block *b;
	int rc = block_take(s, key, key_len, len, &b);
	if (rc)
		return rc;
	if (s->blocks.used <= s->blocks_max + s->rooms.used && tenant_fits(s->space->tenant, store_charge(s, len)))
		mem = arena_alloc(&s->arena, len, b, end);
	if (!mem) {
		block_give(s, b);
		return -KV_ENOMEM;
	}
	s->staged_bytes += arena_round(len);
	tenant_add(s, s->space->tenant, store_charge(s, len));
	b->mem = mem;
	b->offset = mem->offset;
	*out = b;
	return 0;
}

void store_last(struct store *s, struct block *b)
{
	if (kv_list_empty(&b->pins))
		evict_demote(store_evict_of(s, b), &b->evict);
}

int store_stage_step(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *mem;
	int rc = r->charged ? 0
			    : tenant_charge(s, s->spaces.at[r->block->space]->tenant, store_charge(s, r->size), budget);
	r->charged |= rc == 0;
	if (rc == 0)
		rc = room_step(s, r, budget);
	mem = r->mem;
	if (rc == -EAGAIN)
		return rc;
	if (rc == 0) {
		struct block *b = r->block;
		slab_put(&s->rooms, r);
		rc = stage_placed(s, b, mem);
		if (rc) {
			arena_free(&s->arena, mem);
			stage_undo(s, b, true);
		}
		return rc;
	}
	store_stage_end(s, r);
	return rc;
}

void store_stage_end(struct store *s, struct room *r)
{
	room_end(s, r);
	stage_undo(s, r->block, r->charged);
	slab_put(&s->rooms, r);
}

/* Whether it is to be dropped for want of a verdict. */
static bool dropped(const struct store *s, const struct block *b)
{
	uint64_t born_ns = block_born_ns(b);
	return born_ns < s->doubt.all_dead_ns || (born_ns < s->doubt.dead_ns && b->sure < s->doubt.dead_round);
}

static inline bool doubted(const struct store *s, const struct block *b)
{
	if (KV_LIKELY(s->doubt.before_ns == 0))
		return false;
	return (b->sure != s->doubt.round && block_born_ns(b) < s->doubt.before_ns) || dropped(s, b);
}

bool store_hidden(const struct store *s, const struct block *b)
{
	return doubted(s, b);
}

/* The round of a new block. While verdicts are expected or present, they judge it as well. */
static unsigned round_of_new(const struct doubt *d)
{
	return d->round - (d->round > 0 && (d->how == DOUBT_WAIT || d->verdict));
}

static uint64_t block_id(const struct store *s, const struct block *b)
{
	return tombs_id(b->item.key, b->item.key_len) ^ s->spaces.at[b->space]->mark;
}

bool store_good(const struct store *s, const struct block *b)
{
	const struct verdict *v;
	if (!doubted(s, b))
		return true;
	if (dropped(s, b) || s->doubt.how == DOUBT_WAIT)
		return false;
	v = verdict_find(&s->doubt, block_id(s, b));
	return !v || v->time_ns < block_born_ns(b);
}

bool store_pushable(const struct store *s, const struct block *b)
{
	return s->doubt.how == DOUBT_WAIT ? !dropped(s, b) : store_good(s, b);
}

/* Judge a block in doubt when it is asked for. Returns it if it is good; NULL: hidden or dropped. */
static __attribute__((noinline)) struct block *judge(struct store *s, struct block *b, uint64_t now_ns)
{
	if (store_good(s, b)) {
		b->sure = s->doubt.round;
		return b;
	}
	if (!dropped(s, b)) {
		const struct verdict *v;
		if (s->doubt.how == DOUBT_WAIT)
			return NULL;
		v = verdict_find(&s->doubt, block_id(s, b));
		/* A TOUCH alone must not make other servers delete their copies. */
		if (v->deleted_ns >= block_born_ns(b))
			tombs_put(&s->tombs, b->item.hash, v->id, v->deleted_ns + 1, 0, now_ns);
	}
	s->doubt.dropped++;
	store_drop(s, b);
	return NULL;
}

static struct block *live(struct store *s, struct index_item *item, uint64_t now_ns)
{
	struct block *b;
	if (!item)
		return NULL;
	b = KV_CONTAINER(item, struct block, item);
	if (!expire_over(&b->expire, now_ns))
		return KV_UNLIKELY(doubted(s, b)) ? judge(s, b, now_ns) : b;
	s->events[STORE_EXPIRED]++;
	store_drop(s, b);
	return NULL;
}

/* A value of the key that still waits to be verified (recover.h), and was born at time_ns or before, lives until
 * expires_ns at most; 0: it is void. Its record says so as well. */
static void waiting_until(struct store *s, uint64_t hash, uint64_t time_ns, uint64_t expires_ns)
{
	struct index_item *item = index_peek(s->waiting, hash);
	struct block *b = item ? KV_CONTAINER(item, struct block, item) : NULL;
	if (!b || block_born_ns(b) > time_ns || b->expire.when_ns <= expires_ns)
		return;
	b->expire.when_ns = expires_ns;
	if (expires_ns)
		records_change(&s->records, b);
	else
		records_drop(&s->records, b);
}

int store_commit(struct store *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t now_ns,
		 struct block **out_holder)
{
	return store_commit_born(s, b, checksum, expires_ns, now_ns, now_ns, out_holder);
}

int store_commit_born(struct store *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t born_ns,
		      uint64_t now_ns, struct block **out_holder)
{
	/* Another key with the same digest (index.h) has the place as well. */
	struct index_item *item = index_peek(&s->index, b->item.hash);
	struct block *holder = live(s, item, now_ns);
	struct space *sp = s->spaces.at[b->space];
	int rc;
	if (KV_UNLIKELY(!block_current(s, b)))
		return -KV_ESTALE;
	if (holder) {
		*out_holder = holder;
		return -KV_EEXIST;
	}
	if (KV_UNLIKELY(s->doubt.before_ns > 0) && (item = index_peek(&s->index, b->item.hash)))
		store_drop(s, KV_CONTAINER(item, struct block, item));
	rc = index_insert(&s->index, &b->item);
	if (rc)
		return rc;
	if (KV_UNLIKELY(s->waiting != NULL))
		waiting_until(s, b->item.hash, KV_NEVER, 0);
	s->staged_bytes -= arena_round(b->len);
	b->state = BLOCK_LIVE;
	sp->blocks++;
	sp->bytes += b->mem->size;
	b->checksum = checksum;
	block_born_at(b, born_ns);
	b->sure = round_of_new(&s->doubt);
	tombs_reborn(&s->tombs, b->item.hash, born_ns);
	evict_insert(sp->evict, &b->evict, b->item.hash);
	expire_set(&s->expire, &b->expire, expires_ns);
	store_note(s, JOURNAL_STORED, b);
	if (KV_UNLIKELY(s->records.places))
		records_put(&s->records, b, sp->mark);
	return 0;
}

struct block *store_find(struct store *s, const void *key, size_t len, uint64_t now_ns)
{
	return live(s, index_find(&s->index, index_hash(&s->index, key, len), key, len), now_ns);
}

struct block *store_peek(const struct store *s, const void *key, size_t len)
{
	struct index_item *item = index_find(&s->index, index_hash(&s->index, key, len), key, len);
	return item ? KV_CONTAINER(item, struct block, item) : NULL;
}

/* Find at most DIGESTS_AHEAD digests. A look-up is two cache misses, slot and block: those of all overlap. Nothing is
 * deleted before the end, since two digests may have one block. */
static void digests_find(struct store *s, const uint8_t *digests, uint32_t n, uint64_t now_ns, uint8_t *bitmap,
			 uint32_t at)
{
	uint64_t hash[DIGESTS_AHEAD];
	struct block *found[DIGESTS_AHEAD];
	uint32_t over = 0; /* or in doubt */
	for (uint32_t i = 0; i < n; i++) {
		hash[i] = index_digest_hash(&s->index, kv_get64(digests + 8 * (size_t)(at + i)));
		index_prefetch(&s->index, hash[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		struct index_item *item = index_peek(&s->index, hash[i]);
		found[i] = item ? KV_CONTAINER(item, struct block, item) : NULL;
		if (item)
			__builtin_prefetch(&found[i]->expire.when_ns);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!found[i])
			continue;
		if (KV_UNLIKELY(expire_over(&found[i]->expire, now_ns) || doubted(s, found[i])))
			over |= 1u << i;
		else
			bitmap[(at + i) / 8] |= (uint8_t)(1u << (at + i) % 8);
	}
	for (; KV_UNLIKELY(over); over &= over - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(over);
		if (live(s, index_peek(&s->index, hash[i]), now_ns))
			bitmap[(at + i) / 8] |= (uint8_t)(1u << (at + i) % 8);
	}
}

void store_digests_find(struct store *s, const uint8_t *digests, uint32_t n, uint64_t now_ns, uint8_t *bitmap)
{
	for (uint32_t at = 0; at < n; at += DIGESTS_AHEAD)
		digests_find(s, digests, KV_MIN(n - at, (uint32_t)DIGESTS_AHEAD), now_ns, bitmap, at);
}

bool store_digests_deleted(const struct store *s, const uint8_t *digests, uint32_t n, uint64_t now_ns,
			   const uint8_t *found, uint8_t *bitmap)
{
	bool any = false;
	for (uint32_t i = 0; i < n && s->tombs.used > 0; i++) {
		uint64_t hash = index_digest_hash(&s->index, kv_get64(digests + 8 * (size_t)i));
		if (found[i / 8] >> i % 8 & 1 || !tombs_deleted(&s->tombs, hash, now_ns))
			continue;
		bitmap[i / 8] |= (uint8_t)(1u << i % 8);
		any = true;
	}
	return any;
}

uint64_t store_ahead(const struct store *s, const void *key, size_t len)
{
	uint64_t hash = index_hash(&s->index, key, len);
	index_prefetch(&s->index, hash);
	return hash;
}

const struct block *store_ahead_block(const struct store *s, uint64_t hash)
{
	const struct index_item *item = index_peek(&s->index, hash);
	const struct block *b;
	if (!item)
		return NULL;
	b = KV_CONTAINER(item, const struct block, item);
	__builtin_prefetch(b);
	__builtin_prefetch(&b->item);
	__builtin_prefetch(&b->evict);
	return b;
}

void store_ahead_data(const struct store *s, const struct block *b)
{
	uint64_t bytes = b ? KV_MIN(b->len, (uint64_t)AHEAD_BYTES) : 0;
	for (uint64_t at = 0; at < bytes; at += KV_CACHELINE)
		__builtin_prefetch(store_data(s, b) + at);
}

void store_use(struct store *s, struct block *b)
{
	KV_ASSERT(b->state == BLOCK_LIVE);
	if (b->state == BLOCK_LIVE && kv_list_empty(&b->pins))
		evict_access(store_evict_of(s, b), &b->evict);
}

/* The code for a copy that was born before its key was deleted, or its space cleared. */
static int outdated(uint64_t time_ns, uint64_t born_ns)
{
	return time_ns - born_ns >= STORE_BORN_SLACK_MS * 1000000ull ? -KV_EDELETED : -KV_ECANCELED;
}

int store_copy_allowed(const struct store *s, const struct space *sp, uint64_t hash, uint64_t born_ns, uint64_t now_ns,
		       uint64_t *expires_ns)
{
	const struct tomb *d = tombs_find(&s->tombs, hash, now_ns);
	if (KV_UNLIKELY(born_ns < sp->cleared_ns))
		return outdated(sp->cleared_ns, born_ns);
	if (!d || born_ns >= d->time_ns)
		return 0;
	*expires_ns = KV_MIN(*expires_ns, d->expires_ns);
	if (*expires_ns > now_ns)
		return 0;
	return d->expires_ns == 0 ? outdated(d->time_ns, born_ns) : -KV_ECANCELED;
}

bool store_delete(struct store *s, const void *key, size_t len, uint64_t time_ns, uint64_t now_ns)
{
	uint64_t hash = index_hash(&s->index, key, len);
	struct index_item *item = index_find(&s->index, hash, key, len);
	struct block *b = item ? KV_CONTAINER(item, struct block, item) : NULL;
	bool meant = b && block_born_ns(b) <= time_ns, hidden = meant && doubted(s, b);
	bool was = meant && live(s, item, now_ns);
	bool yielded = !b && tombs_yielded_take(&s->tombs, hash, now_ns);
	tombs_put(&s->tombs, hash, store_id(s, key, len), time_ns, 0, now_ns);
	if (KV_UNLIKELY(s->waiting != NULL))
		waiting_until(s, hash, time_ns, 0);
	if (b && !meant)
		tombs_reborn(&s->tombs, hash, block_born_ns(b));
	if (was || (hidden && index_find(&s->index, hash, key, len)))
		store_drop(s, b);
	return was || yielded;
}

void store_delete_block(struct store *s, struct block *b, uint64_t now_ns)
{
	if (KV_LIKELY(block_current(s, b)))
		tombs_put(&s->tombs, b->item.hash, block_id(s, b), block_born_ns(b) + 1000, 0, now_ns);
	store_drop(s, b);
}

void store_yield(struct store *s, struct block *b, uint64_t now_ns)
{
	uint64_t hash = b->item.hash;
	store_delete_block(s, b, now_ns);
	tombs_yielded(&s->tombs, hash);
}

void store_touch(struct store *s, const void *key, size_t len, struct block *b, uint64_t expires_ns, uint64_t time_ns,
		 uint64_t now_ns)
{
	uint64_t hash = b ? b->item.hash : index_hash(&s->index, key, len);
	if (!b || expires_ns < b->expire.when_ns || tombs_find(&s->tombs, hash, now_ns))
		tombs_put(&s->tombs, hash, store_id(s, key, len), time_ns, expires_ns, now_ns);
	if (KV_UNLIKELY(s->waiting != NULL))
		waiting_until(s, hash, time_ns, expires_ns);
	if (b)
		store_expire_at(s, b, expires_ns);
}

bool store_key_deleted(const struct store *s, uint64_t hash, uint64_t now_ns, uint64_t *out_ns)
{
	if (!tombs_deleted(&s->tombs, hash, now_ns))
		return false;
	*out_ns = tombs_find(&s->tombs, hash, now_ns)->time_ns;
	return true;
}

void store_expire_at(struct store *s, struct block *b, uint64_t expires_ns)
{
	expire_set(&s->expire, &b->expire, expires_ns);
	if (KV_UNLIKELY(s->records.places))
		records_change(&s->records, b);
}

static void doubt_wait(struct doubt *d, uint64_t now_ns, bool copies)
{
	d->how = DOUBT_WAIT;
	d->before_ns = now_ns;
	d->verdict = NULL;
	d->count = 0;
	d->copies = copies;
}

void store_doubt(struct store *s, uint64_t now_ns)
{
	struct doubt *d = &s->doubt;
	if (d->round == 0)
		d->round = DOUBT_ARRIVAL;
	if ((d->how != DOUBT_WAIT || d->copies) && ++d->round > DOUBT_ROUNDS) {
		/* Round numbers begin anew: blocks of the old ones are dropped by time. */
		d->round = 1;
		d->all_dead_ns = now_ns;
		d->dead_ns = 0;
	}
	doubt_wait(d, now_ns, false);
}

void store_doubt_copies(struct store *s, uint64_t now_ns)
{
	if (s->doubt.round > DOUBT_ARRIVAL) {
		store_doubt(s, now_ns);
		return;
	}
	s->doubt.round = DOUBT_ARRIVAL;
	doubt_wait(&s->doubt, now_ns, true);
}

void store_put_here(struct store *s, struct block *b)
{
	if (s->doubt.round == 0)
		b->sure = DOUBT_ARRIVAL;
}

void store_judge(struct store *s, const struct verdict *verdict, uint32_t count)
{
	if (!verdict && s->doubt.how == DOUBT_WAIT) {
		s->doubt.dead_ns = s->doubt.before_ns;
		s->doubt.dead_round = s->doubt.round;
	}
	s->doubt.how = DOUBT_JUDGE;
	s->doubt.verdict = verdict;
	s->doubt.count = count;
	s->doubt.left = s->blocks.made;
}

void store_walk(const struct store *s, uint32_t *at, unsigned budget, bool (*fn)(void *arg, const struct block *b),
		void *arg)
{
	uint32_t first = 0;
	const uint8_t *span = NULL;
	*at = KV_MIN(*at, s->blocks.made);
	for (; *at > 0 && budget > 0; --*at, budget--) {
		const struct block *b;
		if (!span || *at <= first)
			span = slab_span(&s->blocks, *at, &first);
		b = (const struct block *)(const void *)(span + (*at - 1 - first) * s->blocks.object_bytes);
		if (b->state == BLOCK_LIVE && !fn(arg, b))
			return;
	}
}

struct judging {
	struct store *s;
	uint64_t now_ns;
};

static bool judge_one(void *arg, const struct block *b)
{
	const struct judging *j = arg;
	if (doubted(j->s, b))
		(void)judge(j->s, (struct block *)b, j->now_ns);
	return true;
}

void store_judge_some(struct store *s, uint64_t now_ns, unsigned budget)
{
	if (s->journal && s->doubt.how == DOUBT_JUDGE && s->doubt.left > 0)
		store_walk(s, &s->doubt.left, budget, judge_one, &(struct judging){s, now_ns});
}

unsigned store_sweep(struct store *s, uint64_t now_ns, unsigned budget)
{
	unsigned n = 0;
	struct expire_node *node;
	while ((node = expire_next(&s->expire, now_ns, &budget)) != NULL) {
		s->events[STORE_EXPIRED]++;
		store_drop(s, KV_CONTAINER(node, struct block, expire));
		n++;
	}
	return n;
}
