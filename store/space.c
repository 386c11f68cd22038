/* SPDX-License-Identifier: Apache-2.0 */
/* space.c -- the table of a shard's namespaces.
 *
 * Each generation of each space has a seed of the index for itself. Seeds are a one-to-one function of a counter, and
 * so is the hash of a digest under a seed (index.h): an item has the hash of a key under a seed only if it was stored
 * under that seed. So the index compares space and generation by comparing hash and key, and a clear is a new seed.
 *
 * A forgotten space begins anew at `floor`, above each generation that it had: no value of it returns. */
#include "store/space.h"

#include <stdlib.h>

#include "store/index.h"

enum { NAME_SEED = 5 }; /* of the names' hashes; protocol.md 4.9 */

/* docs/reference/protocol.md 1. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
	x = (x ^ x >> 27) * 0x94D049BB133111EBu;
	return x ^ x >> 31;
}

static uint64_t name_hash(const char *name)
{
	return kv_hash_key(name, strlen(name), NAME_SEED);
}

static uint64_t mark_of(const struct space *sp)
{
	return mix(name_hash(sp->name) + sp->generation);
}

static uint64_t note_sum(const struct space_note *n)
{
	uint64_t sum = kv_hash_key((const uint8_t *)n + sizeof(n->sum), sizeof(*n) - sizeof(n->sum), NAME_SEED);
	return sum ? sum : 1;
}

/* A process may die between any two stores: the sum is removed first and written last. */
static void note(struct space_note *n, const char *name, uint64_t generation)
{
	struct space_note fresh = {.generation = generation};
	memcpy(fresh.name, name, strlen(name));
	fresh.sum = note_sum(&fresh);
	__atomic_store_n(&n->sum, 0, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	n->generation = generation;
	memcpy(n->name, fresh.name, sizeof(fresh.name));
	__atomic_store_n(&n->sum, fresh.sum, __ATOMIC_RELEASE);
}

void space_floor(struct spaces *t, uint64_t floor)
{
	t->floor = KV_MAX(t->floor, floor);
	t->changes++;
	if (t->notes)
		note(&t->notes[SPACES_MAX], "", t->floor);
}

uint64_t space_seed(struct spaces *t)
{
	return index_digest_hash(&(struct index){.seed = t->secret}, t->seeds++);
}

static void generation_set(struct spaces *t, struct space *sp, uint64_t generation)
{
	sp->generation = generation;
	sp->seed = space_seed(t);
	sp->mark = mark_of(sp);
	t->changes++;
	if (t->notes)
		note(&t->notes[sp->index], sp->name, generation);
}

bool space_note_good(const struct space_note *n)
{
	return n->sum && n->sum == note_sum(n) && !n->name[KV_SPACE_MAX];
}

void spaces_note(struct spaces *t, struct space_note *notes)
{
	t->notes = notes;
	for (uint32_t i = 0; i < SPACES_MAX; i++) {
		if (i < t->count)
			note(&notes[i], t->at[i]->name, t->at[i]->generation);
		else
			__atomic_store_n(&notes[i].sum, 0, __ATOMIC_RELEASE);
	}
	space_floor(t, 0);
}

/* A secret chain: nobody can name thousands of spaces into one. */
static unsigned chain_of(const struct spaces *t, const char *name)
{
	return (unsigned)(mix(name_hash(name) ^ t->secret) % SPACES_MAX);
}

static void begin(struct spaces *t, struct space *sp, const char *name, uint64_t now_ns)
{
	uint16_t *chain = &t->chain[chain_of(t, name)];
	*sp = (struct space){.index = sp->index, .next = *chain, .used_ns = now_ns};
	*chain = (uint16_t)(sp->index + 1);
	memcpy(sp->name, name, strlen(name));
	generation_set(t, sp, t->floor);
	if (t->begun)
		t->begun(t->arg, sp);
}

static void end(struct spaces *t, struct space *sp)
{
	uint16_t *link = &t->chain[chain_of(t, sp->name)];
	if (t->ended)
		t->ended(t->arg, sp);
	while (*link != sp->index + 1)
		link = &t->at[*link - 1]->next;
	*link = sp->next;
}

static int add(struct spaces *t, const char *name, uint64_t now_ns, struct space **out)
{
	struct space *sp = calloc(1, sizeof(*sp));
	if (!sp)
		return -KV_ENOMEM;
	sp->index = (uint16_t)t->count;
	begin(t, sp, name, now_ns);
	t->at[t->count++] = sp;
	*out = sp;
	return 0;
}

int spaces_init(struct spaces *t, uint64_t secret)
{
	struct space *sp;
	*t = (struct spaces){.secret = secret, .nowhere.name = "\1" /* no name has such a byte */};
	t->nowhere.seed = space_seed(t);
	t->nowhere.mark = mark_of(&t->nowhere);
	return add(t, "", 0, &sp);
}

void spaces_fini(struct spaces *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free(t->at[i]);
	t->count = 0;
}

void spaces_restore(struct spaces *t, uint64_t secret, uint64_t seeds, uint64_t floor)
{
	struct space *sp = t->at[0];
	for (uint32_t i = 0; t->ended && i < t->count; i++)
		t->ended(t->arg, t->at[i]);
	for (uint32_t i = 1; i < t->count; i++)
		free(t->at[i]);
	*t = (struct spaces){.secret = secret,
			     .seeds = seeds,
			     .floor = floor,
			     .at = {sp},
			     .count = 1,
			     .nowhere = t->nowhere,
			     .begun = t->begun,
			     .ended = t->ended,
			     .arg = t->arg};
	t->nowhere.seed = space_seed(t);
	begin(t, sp, "", 0);
}

int space_restore(struct spaces *t, const char *name, uint64_t generation, uint64_t seed, uint64_t cleared_ns)
{
	struct space *sp = t->at[0];
	int rc = 0;
	if (name[0] && (t->count == SPACES_MAX || space_find(t, name)))
		return -KV_EINVAL;
	if (name[0])
		rc = add(t, name, 0, &sp);
	if (rc)
		return rc;
	sp->generation = generation;
	sp->seed = seed;
	sp->mark = mark_of(sp);
	sp->cleared_ns = cleared_ns;
	return 0;
}

struct space *space_find(const struct spaces *t, const char *name)
{
	for (uint16_t i = t->chain[chain_of(t, name)]; i; i = t->at[i - 1]->next)
		if (strcmp(t->at[i - 1]->name, name) == 0)
			return t->at[i - 1];
	return NULL;
}

/* The space to forget, of this tenant (NULL: of any), or NULL. The default one stays. */
static struct space *unused(const struct spaces *t, const struct tenant *of)
{
	struct space *oldest = NULL;
	for (uint32_t i = 1; i < t->count; i++) {
		struct space *sp = t->at[i];
		if (sp->users == 0 && sp->refs == 0 && (!of || sp->tenant == of) &&
		    (!oldest || sp->used_ns < oldest->used_ns))
			oldest = sp;
	}
	return oldest;
}

/* A space of this name takes the place of an unused one. */
static int replace(struct spaces *t, const struct tenant *of, const char *name, uint64_t now_ns, struct space **out)
{
	struct space *sp = unused(t, of);
	if (!sp)
		return -KV_EFULL;
	/* Its tombstones have another seed now, so even its last generation must not return. */
	space_floor(t, sp->generation + (sp->generation < UINT64_MAX));
	end(t, sp);
	t->clears++;
	begin(t, sp, name, now_ns);
	*out = sp;
	return 0;
}

int space_take(struct spaces *t, const char *name, uint64_t now_ns, struct space **out)
{
	struct space *sp = space_find(t, name);
	if (!sp)
		return t->count < SPACES_MAX ? add(t, name, now_ns, out) : replace(t, NULL, name, now_ns, out);
	*out = sp;
	return 0;
}

int space_take_instead(struct spaces *t, const struct tenant *of, const char *name, uint64_t now_ns, struct space **out)
{
	struct space *sp = space_find(t, name);
	if (!sp)
		return replace(t, of, name, now_ns, out);
	*out = sp;
	return 0;
}

void space_clear(struct spaces *t, struct space *sp, uint64_t least, uint64_t now_ns)
{
	t->clears++;
	generation_set(t, sp, KV_MAX(least, sp->generation + (sp->generation < UINT64_MAX)));
	sp->cleared_ns = KV_MAX(now_ns, (uint64_t)1);
}

bool space_advance(struct spaces *t, struct space *sp, uint64_t generation, uint64_t now_ns)
{
	if (generation <= sp->generation)
		return false;
	t->clears++;
	generation_set(t, sp, generation);
	sp->cleared_ns = KV_MAX(now_ns, (uint64_t)1);
	return true;
}
