/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c -- memory for a number of equal blocks: under a policy of the server (store/), with its tier (store/tier/)
 * or without, or under Belady's.
 *
 * All see the same sequence of references. So Belady's rule, optimal for such a sequence when a block need not be
 * stored, bounds the block hits of every policy, and thereby their prefix hits. */
#include <stdlib.h>

#include "kvbench/hits/hits.h"
#include "store/store.h"

/* A block of the simulation, as long as those that a server often has: a footer costs the tier little room then. Only
 * the number of blocks counts. */
enum { TIER_BLOCK_BYTES = 64000, TIER_SEGMENTS = 100, TIER_SEGMENT_BLOCKS_MAX = 4000 };

struct cached {
	struct evict_node node; /* first */
	bool in;
};

struct memory {
	struct cached *of; /* by block */
	struct evict evict;
	uint64_t capacity;
	bool tier; /* it has one */
	struct tier_records records;
	struct tier_fifo fifo;
	struct tier_admission admission;
	uint64_t writes, served; /* blocks that the tier took, and brought back */
};

static bool may_go(const struct evict_node *n)
{
	(void)n;
	return true;
}

static uint64_t name_of(uint64_t block)
{
	return kv_hash_key(&block, sizeof(block), 1);
}

static struct tier_id id_of(uint64_t block)
{
	return (struct tier_id){.hash = name_of(block), .more = tier_more(&block, sizeof(block))};
}

static void tier_write(struct memory *m, const struct tier_id *id)
{
	if (!tier_records_find(&m->records, id))
		m->writes += tier_fifo_write(&m->fifo, id, TIER_BLOCK_BYTES);
	tier_written(&m->admission, id->hash);
}

/* A block leaves memory. */
static void tier_take(struct memory *m, uint64_t block)
{
	struct tier_id id = id_of(block);
	if (tier_records_find(&m->records, &id))
		return;
	if (tier_admits(&m->admission, id.hash))
		tier_write(m, &id);
	else
		tier_left(&m->admission, id.hash);
}

static bool use(struct memory *m, uint32_t block)
{
	if (m->of[block].in)
		evict_access(&m->evict, &m->of[block].node);
	return m->of[block].in;
}

static void keep(struct memory *m, uint32_t block)
{
	if (m->evict.count == m->capacity) {
		struct evict_node *n = evict_victim(&m->evict, may_go);
		struct cached *c = KV_CONTAINER(n, struct cached, node);
		evict_remember(&m->evict, n, name_of((uint64_t)(c - m->of)));
		evict_remove(&m->evict, n);
		c->in = false;
		if (m->tier)
			tier_take(m, (uint64_t)(c - m->of));
	}
	m->of[block] = (struct cached){.in = true};
	evict_insert(&m->evict, &m->of[block].node, name_of(block));
}

static bool find(struct memory *m, uint32_t block)
{
	struct tier_id id;
	uint32_t number;
	if (use(m, block) || !m->tier)
		return m->of[block].in;
	id = id_of(block);
	number = tier_records_find(&m->records, &id);
	if (!number)
		return false;
	tier_fifo_use(&m->records, number);
	m->served++;
	keep(m, block);
	return true;
}

static void put(struct memory *m, uint32_t block)
{
	struct tier_id id;
	keep(m, block);
	if (!m->tier || m->admission.how != TIER_ADMIT_PUT)
		return;
	id = id_of(block);
	tier_write(m, &id);
}

/* About a hundred segments, and one more: the segment that is filled next is empty. */
static int tier_init(struct memory *m, struct hits_tier tier)
{
	uint64_t each = KV_MIN(KV_MAX(tier.blocks / TIER_SEGMENTS, (uint64_t)1), (uint64_t)TIER_SEGMENT_BLOCKS_MAX);
	uint64_t segments = KV_MAX(tier.blocks / each + 1, (uint64_t)TIER_SEGMENTS_MIN);
	uint32_t foot_bytes = (uint32_t)each * tier_entry_bytes(32); /* for keys of 32 bytes, as tier_fifo_write has */
	struct tier_fifo_options options = {.segments = (uint32_t)segments,
					    .segment_pages = (uint32_t)each * tier_pages(TIER_BLOCK_BYTES) +
							     tier_foot_pages(foot_bytes)};
	int rc = tier_records_init(&m->records, (uint32_t)(segments * each));
	if (rc == 0)
		rc = tier_fifo_init(&m->fifo, &options, &m->records);
	if (rc == 0)
		rc = tier_admission_init(&m->admission, tier.admit, tier.blocks);
	m->tier = true;
	return rc;
}

static int memory_init(struct memory *m, const struct hits_trace *t, unsigned policy, uint64_t capacity,
		       struct hits_tier tier)
{
	*m = (struct memory){.capacity = capacity, .of = calloc(t->distinct, sizeof(*m->of))};
	if (!m->of || evict_init(&m->evict, evict_policies[policy], KV_MIN(capacity, t->distinct)) < 0)
		return -KV_ENOMEM;
	return tier.blocks ? tier_init(m, tier) : 0;
}

static void memory_fini(struct memory *m)
{
	tier_admission_fini(&m->admission);
	tier_fifo_fini(&m->fifo);
	tier_records_fini(&m->records);
	evict_fini(&m->evict);
	free(m->of);
}

int hits_run(const struct hits_trace *t, unsigned policy, uint64_t capacity, struct hits_tier tier,
	     struct hits_result *out)
{
	struct memory m;
	struct hits_result r = {0};
	const uint32_t *block = t->block;
	int rc = memory_init(&m, t, policy, capacity, tier);
	for (uint64_t i = 0; rc == 0 && i < t->requests; block += t->len[i++]) {
		uint32_t n = 0;
		while (n < t->len[i] && find(&m, block[n]))
			n++;
		r.prefix += n;
		r.block += n;
		for (; n < t->len[i]; n++)
			if (find(&m, block[n]))
				r.block++;
			else
				put(&m, block[n]);
	}
	r.tier = m.served;
	r.writes = m.writes;
	memory_fini(&m);
	if (rc == 0)
		*out = r;
	return rc;
}

/* ---- Belady ---- */

#define NEVER UINT32_MAX

/* A heap of references by their next use, the farthest on top. An entry is stale if its block has been used since, or
 * has gone: it is then dropped when it comes to the top. */
struct heap_entry {
	uint32_t next, block;
};

struct belady {
	uint32_t *next;
	uint32_t *due; /* of each cached block: its next use */
	bool *in;
	struct heap_entry *heap;
	uint64_t count, held, capacity;
};

static void push(struct belady *b, struct heap_entry e)
{
	uint64_t i = b->count++;
	for (; i > 0 && b->heap[(i - 1) / 2].next < e.next; i = (i - 1) / 2)
		b->heap[i] = b->heap[(i - 1) / 2];
	b->heap[i] = e;
}

static struct heap_entry pop(struct belady *b)
{
	struct heap_entry top = b->heap[0], last = b->heap[--b->count];
	uint64_t i = 0, child;
	while ((child = 2 * i + 1) < b->count) {
		child += child + 1 < b->count && b->heap[child + 1].next > b->heap[child].next;
		if (b->heap[child].next <= last.next)
			break;
		b->heap[i] = b->heap[child];
		i = child;
	}
	b->heap[i] = last;
	return top;
}

static bool stale(const struct belady *b, struct heap_entry e)
{
	return !b->in[e.block] || b->due[e.block] != e.next;
}

static bool refer(struct belady *b, uint32_t block, uint64_t at)
{
	uint32_t next = b->next[at];
	bool hit = b->in[block];
	if (hit) {
		b->held--;
		b->in[block] = false;
	}
	if (next == NEVER)
		return hit;
	while (b->held == b->capacity) {
		struct heap_entry far = b->heap[0];
		if (!stale(b, far) && far.next < next)
			return hit; /* all others are used before it */
		pop(b);
		if (!stale(b, far)) {
			b->in[far.block] = false;
			b->held--;
		}
	}
	b->in[block] = true;
	b->due[block] = next;
	b->held++;
	push(b, (struct heap_entry){next, block});
	return hit;
}

static int belady_init(struct belady *b, const struct hits_trace *t, uint64_t capacity)
{
	*b = (struct belady){.capacity = capacity};
	b->next = malloc(t->refs * sizeof(*b->next));
	b->due = malloc(t->distinct * sizeof(*b->due));
	b->in = calloc(t->distinct, sizeof(*b->in));
	b->heap = malloc(t->refs * sizeof(*b->heap));
	if (!b->next || !b->due || !b->in || !b->heap)
		return -KV_ENOMEM;
	for (uint64_t i = 0; i < t->distinct; i++)
		b->due[i] = NEVER;
	for (uint64_t i = t->refs; i-- > 0;) {
		b->next[i] = b->due[t->block[i]];
		b->due[t->block[i]] = (uint32_t)i;
	}
	return 0;
}

static void belady_fini(struct belady *b)
{
	free(b->next);
	free(b->due);
	free(b->in);
	free(b->heap);
}

int hits_belady(const struct hits_trace *t, uint64_t capacity, struct hits_result *out)
{
	struct belady b;
	struct hits_result r = {0};
	uint64_t at = 0;
	int rc = belady_init(&b, t, capacity);
	for (uint64_t i = 0; i < t->requests && rc == 0; i++) {
		bool prefix = true;
		for (uint32_t n = 0; n < t->len[i]; n++, at++) {
			bool hit = refer(&b, t->block[at], at);
			prefix = prefix && hit;
			r.prefix += prefix;
			r.block += hit;
		}
	}
	belady_fini(&b);
	if (rc == 0)
		*out = r;
	return rc;
}

struct hits_result hits_unlimited(const struct hits_trace *t)
{
	struct hits_result r = {0};
	uint64_t at = 0, seen = 0;
	for (uint64_t i = 0; i < t->requests; i++) {
		bool prefix = true;
		for (uint32_t n = 0; n < t->len[i]; n++, at++) {
			bool hit = t->block[at] < seen;
			seen += !hit;
			prefix = prefix && hit;
			r.prefix += prefix;
			r.block += hit;
		}
	}
	return r;
}
