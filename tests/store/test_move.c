/* SPDX-License-Identifier: Apache-2.0 */
/* test_move.c -- the values of several stores move to another number of them, or to less memory, which they take as
 * they leave the former one. */
#include "tests/store/rig.h"

enum { LIMIT = 1 << 18, SHARDS_MAX = 6, KEYS = 1500, SEED = 7 };

static uint8_t memory[2][SHARDS_MAX][LIMIT];
static struct move_from from[SHARDS_MAX];
static struct store to[SHARDS_MAX];
static uint64_t passed_ns;
static struct {
	uint64_t len, expires, sequence; /* sequence: of its PUT; 0: none */
	uint8_t fill;
	bool hit;
} model[KEYS];

static void open_one(struct store *s, void *base, uint64_t limit)
{
	const struct store_options o = {.base = base,
					.limit_bytes = limit,
					.seed = (uintptr_t)base,
					.digest_seed = SEED,
					.generation = 1,
					.now_ns = SECOND,
					.policy = &evict_clock};
	assert_int_equal(store_init(s, &o), 0);
}

static unsigned shard_of(const char *key, unsigned shards)
{
	return (unsigned)((kv_hash_key(key, strlen(key), SEED) >> 32) * shards >> 32);
}

static void name(char key[24], unsigned i)
{
	snprintf(key, 24, "key-%u", i);
}

/* Every third key is of a namespace of its own. */
static void enter(struct store *s, unsigned i)
{
	struct space *sp = store_space_default(s);
	if (i % 3 == 0)
		assert_int_equal(space_take(&s->spaces, "third", SECOND, &sp), 0);
	store_enter(s, sp);
}

static void fill(struct kv_prng *p, unsigned shards, unsigned puts)
{
	memset(model, 0, sizeof(model));
	memset(from, 0, sizeof(from));
	for (unsigned i = 0; i < shards; i++)
		open_one(&from[i].store, memory[0][i], LIMIT);
	for (unsigned n = 1; n <= puts; n++) {
		unsigned i = (unsigned)kv_prng_below(p, KEYS);
		struct block *b, *holder;
		struct store *s;
		char key[24];
		name(key, i);
		s = &from[shard_of(key, shards)].store;
		enter(s, i);
		if (model[i].sequence ||
		    store_stage_spare(s, key, strlen(key), 1 + kv_prng_below(p, 900), ARENA_LOW, &b))
			continue;
		model[i].len = b->len;
		model[i].fill = (uint8_t)i;
		model[i].sequence = n;
		model[i].hit = kv_prng_below(p, 4) == 0;
		model[i].expires = kv_prng_below(p, 3) ? KV_NEVER : SECOND + kv_prng_below(p, 100 * SECOND) + 1;
		memset(store_data(s, b), model[i].fill, b->len);
		assert_int_equal(store_commit(s, b, i, model[i].expires, SECOND, &holder), 0);
		if (model[i].hit)
			store_use(s, b);
		block_unref(s, b);
	}
}

/* Of a new store: its memory may be written up to there. */
static uint64_t given[SHARDS_MAX];
static uint64_t room_left = UINT64_MAX; /* for all of them together */

static bool room(void *arg, uint64_t until)
{
	uint64_t *up_to = arg, more = until > *up_to ? until - *up_to : 0;
	if (more > room_left)
		return false;
	room_left -= more;
	*up_to += more;
	return true;
}

/* Copy part by part; the bytes of each are lost afterwards, and may be memory of the new stores. */
static void copy(unsigned shards, unsigned parts, struct move_to *t, uint64_t part)
{
	const struct arena_block *at[SHARDS_MAX][SHARDS_MAX];
	for (unsigned i = 0; i < parts; i++)
		for (unsigned k = 0; k < shards; k++)
			at[i][k] = from[k].store.arena.first;
	for (uint64_t end = part; end < LIMIT + part; end += part) {
		for (unsigned i = 0; i < parts; i++)
			for (unsigned k = 0; k < shards; k++)
				move_part(&t[i], &from[k], &at[i][k], end);
		for (unsigned k = 0; k < shards; k++) {
			memset(memory[0][k] + end - part, 0xEE, KV_MIN(part, LIMIT + part - end));
			room_left += room_left < UINT64_MAX / 2 ? part : 0;
		}
	}
	for (unsigned i = 0; i < parts; i++)
		for (unsigned k = 0; k < shards; k++)
			assert_null(at[i][k]);
}

/* Returns the number of values that moved. */
static uint64_t move(unsigned shards, unsigned parts, uint64_t limit, uint64_t part)
{
	struct move_to t[SHARDS_MAX];
	uint64_t moved = 0;
	for (unsigned i = 0; i < shards; i++)
		assert_int_equal(move_begin(&from[i]), 0);
	for (unsigned i = 0; i < parts; i++) {
		given[i] = 0;
		t[i] = (struct move_to){.store = &to[i],
					.shard = i,
					.shards = parts,
					.now_ns = SECOND,
					.passed_ns = passed_ns,
					.room = room,
					.arg = &given[i]};
		open_one(&to[i], memory[1][i], limit);
		assert_int_equal(move_plan(&t[i], from, shards), 0);
	}
	copy(shards, parts, t, part);
	for (unsigned i = 0; i < parts; i++) {
		move_finish(&t[i]);
		move_end(&t[i]);
		assert_int_equal(t[i].moved, index_count(&to[i].index));
		moved += t[i].moved;
	}
	for (unsigned i = 0; i < shards; i++) {
		move_from_end(&from[i]);
		store_fini(&from[i].store);
	}
	return moved;
}

static void end(unsigned parts)
{
	for (unsigned i = 0; i < parts; i++)
		store_fini(&to[i]);
}

static struct block *found(unsigned i, unsigned parts)
{
	char key[24];
	struct store *s;
	name(key, i);
	s = &to[shard_of(key, parts)];
	enter(s, i);
	return store_find(s, key, strlen(key), SECOND);
}

static void check_value(unsigned i, unsigned parts)
{
	char key[24];
	const struct block *b = found(i, parts);
	const struct store *s;
	name(key, i);
	s = &to[shard_of(key, parts)];
	assert_int_equal(b->len, model[i].len);
	assert_int_equal(b->checksum, i);
	assert_int_equal(b->expire.when_ns, model[i].expires);
	assert_int_equal(b->evict.hits, model[i].hit);
	for (uint64_t at = 0; at < b->len; at++)
		assert_int_equal(store_data(s, b)[at], model[i].fill);
}

static void all_values_find_their_shard(void **state)
{
	struct kv_prng p = check_seed();
	static const unsigned counts[][2] = {{3, 2}, {2, 5}, {1, 6}, {4, 1}, {3, 3}};
	(void)state;
	for (unsigned n = 0; n < KV_COUNT(counts); n++) {
		uint64_t values = 0, moved;
		fill(&p, counts[n][0], 400);
		for (unsigned i = 0; i < KEYS; i++)
			values += model[i].sequence != 0;
		moved = move(counts[n][0], counts[n][1], LIMIT, n ? 4096 * n : LIMIT);
		assert_int_equal(moved, values);
		for (unsigned i = 0; i < KEYS; i++) {
			assert_int_equal(found(i, counts[n][1]) != NULL, model[i].sequence != 0);
			if (model[i].sequence)
				check_value(i, counts[n][1]);
		}
		end(counts[n][1]);
	}
}

/* With one store before and after it is exactly the last ones; the memory is full. */
static void the_next_victims_are_left_out(void **state)
{
	struct kv_prng p = check_seed();
	uint64_t oldest = UINT64_MAX, before = 0, moved;
	struct evict_walk w;
	struct evict_node *v;
	(void)state;
	fill(&p, 1, 3000);
	moved = move(1, 1, LIMIT / 2, 4096);
	assert_true(moved > 100 && arena_free_bytes(&to[0].arena) < 1024);
	for (unsigned i = 0; i < KEYS; i++) {
		if (model[i].sequence && found(i, 1)) {
			check_value(i, 1);
			oldest = KV_MIN(oldest, model[i].sequence);
		}
	}
	for (unsigned i = 0; i < KEYS; i++)
		assert_true(model[i].sequence < oldest || found(i, 1));
	evict_walk_begin(&to[0].evict, &w);
	while ((v = evict_walk_next(&to[0].evict, &w)) != NULL) {
		uint64_t sequence = model[KV_CONTAINER(v, struct block, evict)->checksum].sequence;
		assert_true(sequence > before);
		before = sequence;
	}
	end(1);
}

/* The former stores learned of a clear one after the other. */
static void a_cleared_namespace_stays_cleared(void **state)
{
	struct kv_prng p = check_seed();
	(void)state;
	fill(&p, 2, 400);
	enter(&from[0].store, 0);
	store_space_clear(&from[0].store, from[0].store.space, 5, SECOND);
	move(2, 3, LIMIT, 8192);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(found(i, 3) != NULL, model[i].sequence && i % 3 != 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(space_find(&to[i].spaces, "third")->generation, 5);
	end(3);
}

/* Both memories together have the bytes of the larger one, and of each former store a part and a value. */
static void no_more_memory_is_needed(void **state)
{
	struct kv_prng p = check_seed();
	uint64_t values = 0;
	(void)state;
	fill(&p, 3, 3000);
	for (unsigned i = 0; i < KEYS; i++)
		values += model[i].sequence != 0;
	room_left = 3 * (4096 + 1024);
	assert_int_equal(move(3, 4, LIMIT, 4096), values);
	room_left = UINT64_MAX;
	for (unsigned i = 0; i < KEYS; i++)
		if (model[i].sequence)
			check_value(i, 4);
	end(4);
}

/* Without memory values are left out, and nothing else. */
static void without_memory_values_stay_behind(void **state)
{
	struct kv_prng p = check_seed();
	uint64_t moved, values = 0;
	(void)state;
	fill(&p, 1, 400);
	room_left = 20000;
	moved = move(1, 2, LIMIT, LIMIT);
	room_left = UINT64_MAX;
	for (unsigned i = 0; i < KEYS; i++) {
		values += model[i].sequence != 0;
		if (model[i].sequence && found(i, 2)) {
			check_value(i, 2);
			moved--;
		}
	}
	assert_int_equal(moved, 0);
	assert_true(values > 100);
	end(2);
}

static void values_whose_time_is_over_stay_behind(void **state)
{
	struct kv_prng p = check_seed();
	(void)state;
	fill(&p, 2, 400);
	passed_ns = 50 * SECOND;
	move(2, 1, LIMIT, 4096);
	passed_ns = 0;
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(found(i, 1) != NULL, model[i].sequence && model[i].expires > 51 * SECOND);
	end(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_values_find_their_shard),
		cmocka_unit_test(the_next_victims_are_left_out),
		cmocka_unit_test(a_cleared_namespace_stays_cleared),
		cmocka_unit_test(no_more_memory_is_needed),
		cmocka_unit_test(without_memory_values_stay_behind),
		cmocka_unit_test(values_whose_time_is_over_stay_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
