/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c -- see keep.h. A shard's parts are
 *
 *   KEEP_SHARD      seeds, counts, the policy
 *   KEEP_SPACES     the namespaces, in the order of their numbers
 *   KEEP_BLOCKS     by address: entry and key, padded to 8 bytes. rank: its place in the order of eviction, the next
 *                   victim first. An entry without a key is memory that clients may still read
 *   KEEP_TOMBS, KEEP_GHOSTS (pieces of the table), KEEP_SHARD_END
 *
 * By address, so that gaps and overlaps show without a sort, and structs lie in memory as the values do. Invariants: an
 * offset is at or behind the end of the block before; each rank below `listed` occurs once. */
#include "store/store.h"

#include <stdlib.h>

enum {
	PINNED = 1,
	HELD = 2,
	HAND = 4, /* of sieve */
	FLAGS = PINNED | HELD | HAND,
	NO_RANK = UINT32_MAX, /* not in the policy: pinned or parked */
	AHEAD = 16,           /* blocks */
	NAME = 16
};

struct shard_entry {
	uint64_t secret, seeds, floor, generation, blocks; /* the first three: of struct spaces */
	uint64_t listed;                                   /* blocks with a rank */
	uint64_t evict_time, ghost_mask;
	uint32_t ghost_time, spaces;
	char policy[NAME];
};

struct space_entry {
	uint64_t generation, seed, cleared_ns;
	char name[KV_SPACE_MAX + 8]; /* ends with zeros */
};

struct block_entry {
	uint64_t offset, len, checksum, generation, born_ns, expires_ns;
	uint32_t rank, stamp, used;
	uint8_t hits, queue, flags, key_len;
	uint32_t space, zero; /* its number */
};

struct tomb_entry {
	uint64_t hash, id, time_ns, expires_ns;
	uint32_t put_flags, zero;
};

enum { REBORN = 1, YIELDED = 2 };

_Static_assert(sizeof(struct shard_entry) == 8 * 8 + 8 + NAME, "no padding");
_Static_assert(sizeof(struct space_entry) == 3 * 8 + KV_SPACE_MAX + 8, "no padding");
_Static_assert(sizeof(struct block_entry) == 72, "no padding");
_Static_assert(sizeof(struct tomb_entry) == 40, "no padding");

static size_t entry_bytes(uint8_t key_len)
{
	return sizeof(struct block_entry) + kv_align_up(key_len, 8);
}

/* ---- write ---- */

/* Drop what a doubt has judged already, but nobody has asked for since. */
static void doubts_settle(struct store *s, uint64_t now_ns)
{
	struct arena_walk w = {0};
	if (s->doubt.round == 0)
		return;
	arena_walk_begin(&s->arena, &w, s->arena.first);
	while (w.at) {
		struct block *b = w.at->owner;
		w.at = w.at->next;
		if (!b || b->state != BLOCK_LIVE || !block_current(s, b))
			continue;
		store_enter(s, s->spaces.at[b->space]);
		(void)store_find(s, b->item.key, b->item.key_len, now_ns);
	}
	arena_walk_end(&w);
	store_enter(s, store_space_default(s));
}

static uint32_t ranks_assign(struct store *s)
{
	struct kv_list *at[STORE_TENANTS_MAX][EVICT_QUEUES], *end[STORE_TENANTS_MAX][EVICT_QUEUES];
	unsigned tenants = s->tenancy.count;
	uint32_t rank = 0;
	for (unsigned t = 0; t < tenants; t++)
		for (unsigned i = 0; i < EVICT_QUEUES; i++) {
			end[t][i] = &tenant_evict(s, s->tenancy.at[t])->queue[i];
			at[t][i] = end[t][i]->prev;
		}
	for (;;) {
		struct evict_node *oldest = NULL;
		unsigned of = 0;
		for (unsigned q = 0; q < tenants * EVICT_QUEUES; q++) {
			struct kv_list *l = at[q / EVICT_QUEUES][q % EVICT_QUEUES];
			struct evict_node *n = KV_LIST_ENTRY(l, struct evict_node, node);
			if (l == end[q / EVICT_QUEUES][q % EVICT_QUEUES] ||
			    (oldest && evict_age(&s->evict, n) <= evict_age(&s->evict, oldest)))
				continue;
			oldest = n;
			of = q / EVICT_QUEUES;
		}
		if (!oldest)
			return rank;
		at[of][oldest->queue] = oldest->node.prev;
		__builtin_prefetch(at[of][oldest->queue]);
		KV_CONTAINER(oldest, struct block, evict)->offset = rank++; /* until it is written */
	}
}

static bool found(const struct store *s, const struct block *b, uint64_t now_ns)
{
	return b->state == BLOCK_LIVE && !expire_over(&b->expire, now_ns) && !store_hidden(s, b) && block_current(s, b);
}

static bool kept(const struct store *s, const struct block *b, uint64_t now_ns)
{
	return found(s, b, now_ns) || (b->state != BLOCK_STAGED && b->refs > 0);
}

static void block_write(struct keep_writer *w, const struct store *s, const struct block *b, uint64_t now_ns)
{
	bool live = found(s, b, now_ns);
	bool pinned = !kv_list_empty(&b->pins), listed = b->state == BLOCK_LIVE && !pinned && !b->evict.parked;
	uint8_t key_len = live ? b->item.key_len : 0;
	struct block_entry *e = keep_entry(w, KEEP_BLOCKS, entry_bytes(key_len));
	if (!e)
		return;
	memset(e, 0, entry_bytes(key_len));
	*e = (struct block_entry){.offset = b->mem->offset,
				  .len = b->len,
				  .checksum = b->checksum,
				  .generation = b->generation,
				  .born_ns = block_born_ns(b),
				  .expires_ns = b->expire.when_ns,
				  .rank = live && listed ? (uint32_t)b->offset : NO_RANK,
				  .stamp = b->evict.stamp,
				  .used = b->evict.used,
				  .hits = b->evict.hits,
				  .queue = b->evict.queue,
				  .key_len = key_len,
				  .space = b->space};
	e->flags = (uint8_t)((live && pinned ? PINNED : 0) | (b->refs ? HELD : 0) |
			     (live && store_evict_of(s, b)->hand == &b->evict.node ? HAND : 0));
	memcpy(e + 1, b->item.key, key_len);
}

static void spaces_write(struct keep_writer *w, const struct spaces *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		struct space_entry *e = keep_entry(w, KEEP_SPACES, sizeof(*e));
		if (!e)
			return;
		*e = (struct space_entry){t->at[i]->generation, t->at[i]->seed, t->at[i]->cleared_ns, ""};
		memcpy(e->name, t->at[i]->name, sizeof(t->at[i]->name));
	}
}

static void tombs_write(struct keep_writer *w, const struct store *s)
{
	const struct tomb *d;
	uint64_t at = 0;
	for (uint32_t budget = UINT32_MAX; (d = tombs_next(&s->tombs, &at, &budget)) != NULL;) {
		struct tomb_entry *e = keep_entry(w, KEEP_TOMBS, sizeof(*e));
		if (!e)
			return;
		*e = (struct tomb_entry){d->hash,
					 d->id,
					 d->time_ns,
					 d->expires_ns,
					 (d->reborn ? REBORN : 0u) | (d->yielded ? YIELDED : 0u),
					 0};
	}
}

static void ghosts_write(struct keep_writer *w, const struct ghosts *g)
{
	size_t left = ghosts_bytes(g);
	for (const uint8_t *p = (const uint8_t *)g->ghost; left > 0;) {
		size_t n = KV_MIN(left, (size_t)KEEP_PART_BYTES);
		void *to = keep_entry(w, KEEP_GHOSTS, n);
		if (!to)
			return;
		memcpy(to, p, n);
		p += n;
		left -= n;
	}
}

void keep_store(struct keep_writer *w, struct store *s, uint64_t now_ns)
{
	struct shard_entry head = {.secret = s->spaces.secret,
				   .seeds = s->spaces.seeds,
				   .floor = s->spaces.floor,
				   .spaces = s->spaces.count,
				   .generation = s->generation};
	struct shard_entry *e;
	doubts_settle(s, now_ns);
	e = keep_entry(w, KEEP_SHARD, sizeof(*e));
	head.listed = ranks_assign(s);
	head.blocks = s->blocks.used;
	head.evict_time = *s->evict.time;
	head.ghost_mask = s->evict.ghosts.mask;
	head.ghost_time = s->evict.ghosts.time;
	snprintf(head.policy, sizeof(head.policy), "%s", s->evict.policy->name);
	if (e)
		*e = head;
	spaces_write(w, &s->spaces);
	for (const struct arena_block *m = s->arena.first; m; m = m->next) {
		struct block *b = m->owner;
		if (m->next)
			__builtin_prefetch(m->next->next);
		/* A room's claimed memory has an owner without memory: a value that never came. */
		if (!b || b->mem != m)
			continue;
		if (kept(s, b, now_ns))
			block_write(w, s, b, now_ns);
		b->offset = m->offset;
	}
	tombs_write(w, s);
	ghosts_write(w, &s->evict.ghosts);
}

/* ---- clocks ---- */

struct keep_clock keep_clock_of(const struct keep_head *head, uint64_t now_ns, uint64_t wall_ns)
{
	uint64_t wall = wall_ns > head->wall_ns ? wall_ns - head->wall_ns : 0;
	uint64_t clock = now_ns > head->now_ns ? now_ns - head->now_ns : 0;
	return (struct keep_clock){now_ns, head->now_ns, KV_MAX(wall, clock), KV_MIN(wall, clock)};
}

uint64_t keep_time(const struct keep_clock *c, uint64_t saved_ns, uint64_t passed_ns)
{
	uint64_t then_ns = kv_deadline(c->saved_ns, passed_ns); /* the present, on the saved clock */
	if (saved_ns >= then_ns)
		return kv_deadline(c->now_ns, saved_ns - then_ns);
	return c->now_ns - KV_MIN(c->now_ns, then_ns - saved_ns);
}

uint64_t keep_past(const struct keep_clock *c, uint64_t saved_ns, uint64_t passed_ns)
{
	return KV_MIN(keep_time(c, saved_ns, passed_ns), c->now_ns);
}

/* ---- read ---- */

struct restore {
	struct keep_reader *r;
	const struct keep_clock *clock;
	struct store *s;
	struct keep_rest *rest;
	struct shard_entry head;
	struct block **order; /* by rank; then those without one */
	uint64_t rankless;
	uint32_t spaces;          /* read so far */
	uint64_t skip;            /* ranks below are beyond the limit of values */
	struct arena_block *hole; /* behind the last block; NULL: the arena is full */
	bool same_policy;
	size_t ghosts_at;
};

static int no_memory(const struct restore *x, struct kv_error *err)
{
	return kv_fail(err, -KV_ENOMEM, "no memory for an index of %llu values", (unsigned long long)x->head.blocks);
}

static int head_take(struct restore *x, const struct keep_part *p, struct kv_error *err)
{
	struct store *s = x->s;
	uint64_t count;
	if (p->kind != KEEP_SHARD || p->bytes != sizeof(x->head))
		return keep_damaged(x->r, "a shard has no head", err);
	memcpy(&x->head, p->data, sizeof(x->head));
	if (x->head.listed > x->head.blocks || x->head.blocks > STORE_BLOCKS_MAX + (uint64_t)STORE_ROOMS_MAX ||
	    x->head.spaces == 0 || x->head.spaces > SPACES_MAX || memchr(x->head.policy, 0, NAME) == NULL)
		return keep_damaged(x->r, "a shard's head is impossible", err);
	x->skip = x->head.listed - KV_MIN(x->head.listed, (uint64_t)s->blocks_max);
	x->same_policy = strcmp(x->head.policy, s->evict.policy->name) == 0;
	spaces_restore(&s->spaces, x->head.secret, x->head.seeds, x->head.floor);
	s->generation = x->head.generation;
	x->hole = s->arena.first;
	if (x->same_policy)
		*s->evict.time = x->head.evict_time;
	x->order = calloc(KV_MAX(x->head.blocks, (uint64_t)1), sizeof(x->order[0]));
	count = KV_MIN(x->head.blocks, keep_bytes(keep_file_of(x->r)) / sizeof(struct block_entry));
	count = KV_MIN(count, (uint64_t)s->blocks_max);
	return x->order && index_reserve(&s->index, count) == 0 ? 0 : no_memory(x, err);
}

/* Two namespaces with one seed would find each other's values. */
static bool seed_taken(const struct restore *x, uint64_t seed)
{
	for (uint32_t i = 0; i < x->spaces; i++)
		if (x->s->spaces.at[i]->seed == seed)
			return true;
	return false;
}

static int spaces_take(struct restore *x, const struct keep_part *p, struct kv_error *err)
{
	struct store *s = x->s;
	if (p->bytes % sizeof(struct space_entry))
		return keep_damaged(x->r, "a namespace is cut", err);
	for (size_t at = 0; at < p->bytes; at += sizeof(struct space_entry)) {
		struct space_entry e;
		int rc;
		memcpy(&e, p->data + at, sizeof(e));
		if (x->spaces == x->head.spaces || (x->spaces == 0) != !e.name[0] ||
		    !memchr(e.name, 0, KV_SPACE_MAX + 1) || !kv_space_check(e.name, strlen(e.name)) ||
		    seed_taken(x, e.seed))
			return keep_damaged(x->r, "a namespace is impossible", err);
		rc = space_restore(
			&s->spaces, e.name, e.generation, e.seed,
			e.cleared_ns ? KV_MAX(keep_past(x->clock, e.cleared_ns, x->clock->passed_min_ns), (uint64_t)1)
				     : 0);
		x->spaces++;
		if (rc)
			return rc == -KV_ENOMEM ? no_memory(x, err)
						: keep_damaged(x->r, "two namespaces have one name", err);
	}
	return 0;
}

static const char *entry_wrong(const struct restore *x, const struct block_entry *e)
{
	uint64_t limit = x->s->arena.limit;
	unsigned queues = x->same_policy ? x->s->evict.policy->queues : EVICT_QUEUES;
	if (!x->hole || e->offset < x->hole->offset || e->offset % ARENA_GRANULE)
		return "values overlap";
	if (e->len == 0 || e->offset >= limit || e->len > limit - e->offset)
		return "a value does not fit the memory";
	if (e->key_len > KV_KEY_MAX || e->queue >= queues || e->hits >> EVICT_HITS_BITS || e->flags & ~FLAGS ||
	    e->stamp >> EVICT_TIME_BITS || e->used >> EVICT_TIME_BITS || e->space >= x->head.spaces ||
	    e->generation >= x->head.generation)
		return "a value's fields are impossible";
	if (e->rank == NO_RANK ? e->key_len && x->rankless == x->head.blocks - x->head.listed
			       : e->rank >= x->head.listed || x->order[e->rank] || !e->key_len)
		return "the order of eviction is impossible";
	return NULL;
}

static int held_add(struct keep_rest *rest, struct block *b)
{
	if (rest->held_count == rest->held_room) {
		uint32_t room = KV_MAX(2 * rest->held_room, 64u);
		struct block **more = realloc(rest->held, room * sizeof(*more));
		if (!more)
			return -KV_ENOMEM;
		rest->held = more;
		rest->held_room = room;
	}
	rest->held[rest->held_count++] = b;
	return 0;
}

static uint64_t hash_of(const struct restore *x, const struct block_entry *e)
{
	const struct space *sp = x->s->spaces.at[e->space < x->head.spaces ? e->space : 0];
	const struct index of = {.seed = sp->seed, .digest_seed = x->s->index.digest_seed};
	return index_hash(&of, e + 1, e->key_len);
}

static void block_fill(struct restore *x, struct block *b, const struct block_entry *e)
{
	memset(b, 0, sizeof(*b));
	b->len = e->len;
	b->checksum = e->checksum;
	b->generation = e->generation;
	b->offset = e->offset;
	b->state = BLOCK_GONE;
	kv_list_init(&b->pins);
	b->evict = (struct evict_node){.stamp = e->stamp, .used = e->used, .hits = e->hits, .queue = e->queue & 1};
	b->expire.when_ns = KV_NEVER;
	b->space = e->space & (SPACES_MAX - 1);
	b->item.key_len = e->key_len;
	memcpy(b->item.key, e + 1, e->key_len);
	block_born_at(b, keep_past(x->clock, e->born_ns, x->clock->passed_max));
	if (e->key_len)
		b->item.hash = hash_of(x, e);
}

/* Make a block of an entry: GONE, with its memory. */
static struct block *block_place(struct restore *x, const struct block_entry *e)
{
	struct store *s = x->s;
	struct block *b = slab_get(&s->blocks);
	struct arena_block *m = b ? arena_place(&s->arena, x->hole, e->offset, e->len, b) : NULL;
	if (!m)
		return NULL;
	block_fill(x, b, e);
	s->spaces.at[b->space]->refs++;
	tenant_add(s, s->spaces.at[b->space]->tenant, store_charge(s, m->size));
	b->mem = m;
	x->hole = m->next;
	if (e->flags & HELD) {
		block_ref(b);
		if (held_add(x->rest, b))
			return NULL;
	}
	return b;
}

/* The block is live again. */
static int block_insert(struct restore *x, struct block *b, const struct block_entry *e, uint64_t expires_ns,
			struct kv_error *err)
{
	struct store *s = x->s;
	if (index_peek(&s->index, b->item.hash))
		return keep_damaged(x->r, "two values have one key", err);
	if (index_insert(&s->index, &b->item))
		return no_memory(x, err);
	b->state = BLOCK_LIVE;
	s->spaces.at[b->space]->blocks++;
	s->spaces.at[b->space]->bytes += b->mem->size;
	expire_set(&s->expire, &b->expire, expires_ns);
	x->rest->blocks++;
	if (s->records.places)
		records_put(&s->records, b, s->spaces.at[b->space]->mark);
	b->mark = e->flags;
	x->order[e->rank != NO_RANK ? e->rank : x->head.listed + x->rankless++] = b;
	return 0;
}

static int block_take(struct restore *x, const struct block_entry *e, struct kv_error *err)
{
	const char *wrong = entry_wrong(x, e);
	uint64_t expires_ns = keep_time(x->clock, e->expires_ns, x->clock->passed_max);
	bool live = e->key_len && expires_ns > x->clock->now_ns && !(e->rank < x->skip && e->rank != NO_RANK) &&
		    x->s->blocks.used < x->s->blocks_max;
	struct block *b;
	if (wrong)
		return keep_damaged(x->r, wrong, err);
	if (!live)
		x->rest->dropped += e->key_len > 0;
	if (!live && !(e->flags & HELD))
		return 0;
	b = block_place(x, e);
	if (!b)
		return no_memory(x, err);
	if (live)
		return block_insert(x, b, e, e->expires_ns == KV_NEVER ? KV_NEVER : expires_ns, err);
	x->s->gone_bytes += b->mem->size;
	return 0;
}

/* The slots of the next keys are loaded ahead: the index is larger than the caches. */
static void slots_prefetch(const struct restore *x, const uint8_t *data, size_t bytes, size_t *at)
{
	const struct block_entry *e = (const struct block_entry *)(const void *)(data + *at);
	if (bytes - *at < sizeof(*e) || bytes - *at < entry_bytes(e->key_len))
		return;
	index_prefetch(&x->s->index, hash_of(x, e));
	*at += entry_bytes(e->key_len);
}

static int blocks_take(struct restore *x, const struct keep_part *p, struct kv_error *err)
{
	size_t ahead = 0;
	unsigned n = 0;
	for (size_t at = 0; at < p->bytes;) {
		const struct block_entry *e = (const struct block_entry *)(const void *)(p->data + at);
		int rc;
		if (p->bytes - at < sizeof(*e) || p->bytes - at < entry_bytes(e->key_len))
			return keep_damaged(x->r, "a value's entry is cut", err);
		for (; n < AHEAD; n++)
			slots_prefetch(x, p->data, p->bytes, &ahead);
		n--;
		rc = block_take(x, e, err);
		if (rc)
			return rc;
		at += entry_bytes(e->key_len);
	}
	return 0;
}

static int tombs_take(struct restore *x, const struct keep_part *p, struct kv_error *err)
{
	if (p->bytes % sizeof(struct tomb_entry))
		return keep_damaged(x->r, "a tombstone is cut", err);
	for (size_t at = 0; at < p->bytes; at += sizeof(struct tomb_entry)) {
		const struct keep_clock *c = x->clock;
		struct tombs *t = &x->s->tombs;
		struct tomb_entry e;
		memcpy(&e, p->data + at, sizeof(e));
		tombs_put(t, e.hash, e.id, keep_past(c, e.time_ns, c->passed_min_ns),
			  e.expires_ns ? KV_MAX(keep_time(c, e.expires_ns, c->passed_max), (uint64_t)1) : 0, c->now_ns);
		if (e.put_flags & REBORN)
			tombs_reborn(t, e.hash, KV_NEVER);
		if (e.put_flags & YIELDED)
			tombs_yielded(t, e.hash);
		x->rest->tombs++;
	}
	return 0;
}

static int ghosts_put(struct restore *x, const struct keep_part *p, struct kv_error *err)
{
	struct ghosts *g = &x->s->evict.ghosts;
	if (x->ghosts_at == 0 && !ghosts_resize(g, x->head.ghost_mask, x->head.ghost_time))
		return 0; /* this policy remembers fewer names, or none */
	if (p->bytes > ghosts_bytes(g) - x->ghosts_at)
		return keep_damaged(x->r, "there are too many ghosts", err);
	memcpy((uint8_t *)g->ghost + x->ghosts_at, p->data, p->bytes);
	x->ghosts_at += p->bytes;
	return 0;
}

static void listed_restore(struct restore *x, struct block *b)
{
	struct evict *e = store_evict_of(x->s, b);
	unsigned hits = b->evict.hits;
	if (x->same_policy) {
		evict_link(e, &b->evict, b->evict.queue);
		if (b->mark & HAND && e->policy == &evict_sieve)
			e->hand = &b->evict.node;
		return;
	}
	b->evict = (struct evict_node){.hits = 0};
	evict_return(e, &b->evict);
	if (hits)
		evict_access(e, &b->evict);
}

/* Those without a rank become the newest. */
static void order_restore(struct restore *x)
{
	uint64_t count = x->head.listed + x->rankless;
	for (uint64_t i = 0; i < count; i++) {
		struct block *b = x->order[i];
		if (i + AHEAD < count && x->order[i + AHEAD])
			__builtin_prefetch(&x->order[i + AHEAD]->evict, 1);
		if (!b)
			continue;
		if (i < x->head.listed) {
			listed_restore(x, b);
		} else {
			evict_return(store_evict_of(x->s, b), &b->evict);
			if (b->mark & PINNED) /* without memory it is not pinned */
				(void)pins_add(x->s, &x->rest->pins, b, UINT64_MAX, UINT64_MAX);
		}
		b->mark = 0;
	}
}

static int parts_take(struct restore *x, struct kv_error *err)
{
	struct keep_part p;
	int rc = keep_part(x->r, &p, err);
	if (rc == 0)
		rc = head_take(x, &p, err);
	while (rc == 0 && (rc = keep_part(x->r, &p, err)) == 0) {
		if ((p.kind == KEEP_SPACES) != (x->spaces < x->head.spaces))
			return keep_damaged(x->r, "its namespaces are not complete", err);
		switch (p.kind) {
		case KEEP_SPACES:
			rc = spaces_take(x, &p, err);
			break;
		case KEEP_BLOCKS:
			rc = blocks_take(x, &p, err);
			break;
		case KEEP_TOMBS:
			rc = tombs_take(x, &p, err);
			break;
		case KEEP_GHOSTS:
			rc = ghosts_put(x, &p, err);
			break;
		case KEEP_SHARD_END:
			store_enter(x->s, store_space_default(x->s));
			order_restore(x);
			return 0;
		default:
			return keep_damaged(x->r, "a part is out of place", err);
		}
	}
	return rc;
}

int keep_restore(struct keep_reader *r, const struct keep_clock *clock, struct store *s, struct keep_rest *rest,
		 struct kv_error *err)
{
	struct restore x = {.r = r, .clock = clock, .s = s, .rest = rest};
	int rc = parts_take(&x, err);
	free(x.order);
	rest->pins_until_ns = kv_deadline(clock->now_ns, KEEP_PINS_NS);
	return rc;
}

/* ---- later ---- */

void keep_rest_held_end(struct store *s, struct keep_rest *rest)
{
	for (uint32_t i = 0; i < rest->held_count; i++)
		block_unref(s, rest->held[i]);
	free(rest->held);
	rest->held = NULL;
	rest->held_count = rest->held_room = 0;
}

void keep_rest_tick(struct store *s, struct keep_rest *rest, uint64_t now_ns)
{
	if (rest->pins.set && now_ns >= rest->pins_until_ns)
		pins_leave(s, &rest->pins);
}

void keep_rest_end(struct store *s, struct keep_rest *rest)
{
	keep_rest_held_end(s, rest);
	pins_leave(s, &rest->pins);
}
