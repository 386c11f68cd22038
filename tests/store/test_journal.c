/* SPDX-License-Identifier: Apache-2.0 */
/* test_journal.c -- the ring of events: order, a full ring, two threads; and a store's events against what it holds. */
#include "tests/check.h"

#include <errno.h>
#include <pthread.h>

#include "store/store.h"

enum { KEYS = 400, ARENA = 1 << 20 };

#define SECOND_NS 1000000000ull

static void put(struct journal *j, uint64_t n)
{
	journal_put(j, JOURNAL_STORED, JOURNAL_MEMORY, "", &n, sizeof(n), n);
}

static void entries_come_in_their_order(void **state)
{
	struct journal *j;
	uint64_t taken = 0;
	(void)state;
	assert_int_equal(journal_make(8, &j), 0);
	assert_null(journal_next(j));
	for (uint64_t round = 0; round < 10; round++) {
		for (uint64_t n = 0; n < 5; n++)
			put(j, 5 * round + n);
		for (const struct journal_entry *e; (e = journal_next(j)) != NULL; taken++) {
			assert_int_equal(e->bytes, taken);
			assert_int_equal(e->key_len, 8);
			assert_memory_equal(e->key, &taken, 8);
			journal_took(j);
		}
	}
	assert_int_equal(taken, 50);
	assert_false(journal_lost(j));
	journal_destroy(&j);
	journal_destroy(&j);
}

static void a_full_ring_says_that_it_lost_entries(void **state)
{
	struct journal *j;
	(void)state;
	assert_int_equal(journal_make(4, &j), 0);
	for (uint64_t n = 0; n < 6; n++)
		put(j, n);
	assert_true(journal_lost(j));
	assert_false(journal_lost(j));
	for (uint64_t n = 0; n < 4; n++) {
		assert_int_equal(journal_next(j)->bytes, n);
		journal_took(j);
	}
	assert_null(journal_next(j));
	put(j, 7);
	assert_int_equal(journal_next(j)->bytes, 7);
	assert_false(journal_lost(j));
	journal_destroy(&j);
}

enum { PUT_BY_THREAD = 200000 };

static void *producer(void *arg)
{
	for (uint64_t n = 0; n < PUT_BY_THREAD; n++)
		put(arg, n);
	return NULL;
}

/* Entries are whole and in order; the consumer can count what is missing. */
static void two_threads_use_a_ring(void **state)
{
	struct journal *j;
	pthread_t t;
	uint64_t next = 0, taken = 0;
	bool lost = false;
	(void)state;
	assert_int_equal(journal_make(1024, &j), 0);
	assert_int_equal(pthread_create(&t, NULL, producer, j), 0);
	while (next < PUT_BY_THREAD) {
		const struct journal_entry *e = journal_next(j);
		lost |= journal_lost(j);
		if (!e && atomic_load(&j->head) + atomic_load(&j->lost) == PUT_BY_THREAD && !journal_next(j))
			break;
		if (!e)
			continue;
		assert_true(e->bytes >= next);
		assert_memory_equal(e->key, &e->bytes, 8);
		next = e->bytes + 1;
		taken++;
		journal_took(j);
	}
	pthread_join(t, NULL);
	lost |= journal_lost(j);
	assert_int_equal(taken + atomic_load(&j->lost), PUT_BY_THREAD);
	assert_int_equal(lost, atomic_load(&j->lost) > 0);
	journal_destroy(&j);
}

/* ---- a store ---- */

struct world {
	struct store s;
	struct journal *j;
	uint8_t *memory;
	bool here[KEYS]; /* by the journal: of the namespace that was entered */
	bool clears;     /* it is cleared at times */
	struct kv_prng prng;
	uint64_t now_ns;
};

static size_t key_of(unsigned n, char key[16])
{
	return (size_t)snprintf(key, 16, "key-%u", n);
}

static void world_open(struct world *w)
{
	struct store_options o = {.limit_bytes = ARENA,
				  .seed = 1,
				  .digest_seed = 2,
				  .generation = 1,
				  .now_ns = SECOND_NS,
				  .policy = evict_policies[0],
				  .blocks_max = KEYS / 2};
	*w = (struct world){.now_ns = SECOND_NS};
	w->prng = check_seed();
	assert_int_equal(posix_memalign((void **)&w->memory, 4096, ARENA), 0);
	assert_int_equal(journal_make(1 << 14, &w->j), 0);
	o.base = w->memory;
	o.journal = w->j;
	assert_int_equal(store_init(&w->s, &o), 0);
}

static void world_close(struct world *w)
{
	store_fini(&w->s);
	journal_destroy(&w->j);
	free(w->memory);
}

static void journal_read(struct world *w)
{
	for (const struct journal_entry *e; (e = journal_next(w->j)) != NULL; journal_took(w->j)) {
		char key[16];
		unsigned n;
		assert_int_equal(e->space_len, strlen(w->s.space->name));
		assert_memory_equal(journal_space(e), w->s.space->name, e->space_len);
		if (e->what == JOURNAL_CLEARED) {
			memset(w->here, 0, sizeof(w->here));
			continue;
		}
		assert_true(e->key_len < sizeof(key));
		memcpy(key, e->key, e->key_len);
		key[e->key_len] = 0;
		assert_int_equal(sscanf(key, "key-%u", &n), 1);
		assert_true(e->what == JOURNAL_STORED || e->what == JOURNAL_REMOVED);
		/* Never twice the same, but after a clear: a value may come before its former one goes. */
		assert_true(w->here[n] == (e->what == JOURNAL_REMOVED) || w->clears);
		w->here[n] = e->what == JOURNAL_STORED;
	}
	assert_false(journal_lost(w->j));
}

static void block_put(struct world *w, unsigned n)
{
	char key[16];
	size_t key_len = key_of(n, key);
	uint64_t expires_ns =
		kv_prng_below(&w->prng, 4) ? KV_NEVER : w->now_ns + kv_prng_below(&w->prng, 5 * SECOND_NS);
	struct block *b, *holder;
	struct room *room;
	int rc = store_stage(&w->s, key, key_len, 1 + kv_prng_below(&w->prng, 8000), ARENA_HIGH, &b, &room);
	while (rc == -EAGAIN) {
		unsigned budget = 1000;
		rc = store_stage_step(&w->s, room, &budget);
	}
	if (rc)
		return;
	rc = store_commit(&w->s, b, 0, expires_ns, w->now_ns, &holder);
	if (rc)
		store_drop(&w->s, b);
	block_unref(&w->s, b);
}

static void something_happens(struct world *w)
{
	char key[16];
	unsigned n = (unsigned)kv_prng_below(&w->prng, KEYS);
	size_t key_len = key_of(n, key);
	switch (kv_prng_below(&w->prng, 8)) {
	case 0:
		store_delete(&w->s, key, key_len, w->now_ns, w->now_ns);
		break;
	case 1:
		store_find(&w->s, key, key_len, w->now_ns);
		break;
	case 2:
		w->now_ns += kv_prng_below(&w->prng, SECOND_NS / 10);
		store_sweep(&w->s, w->now_ns, 50);
		break;
	case 3:
		if (w->clears && kv_prng_below(&w->prng, 50) == 0)
			store_space_clear(&w->s, w->s.space, 0, w->now_ns);
		(void)store_cleared_sweep(&w->s, (unsigned)kv_prng_below(&w->prng, 20));
		break;
	default:
		block_put(w, n);
	}
}

static bool seen_add(void *arg, const struct block *b)
{
	bool *seen = arg;
	unsigned n = 0;
	char key[16] = "";
	memcpy(key, b->item.key, b->item.key_len);
	assert_int_equal(sscanf(key, "key-%u", &n), 1);
	assert_false(seen[n]); /* each once */
	seen[n] = true;
	return true;
}

/* After any history the journal, the walk and the index agree: nothing is removed, or stored, in silence. */
static void journal_walk_and_index_agree(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct world w;
		struct space *sp;
		world_open(&w);
		w.clears = round % 4 > 0;
		assert_int_equal(space_take(&w.s.spaces, round % 2 ? "a" : "", w.now_ns, &sp), 0);
		store_enter(&w.s, sp);
		for (unsigned i = 0; i < 4000; i++) {
			bool seen[KEYS] = {false};
			uint32_t at = UINT32_MAX;
			something_happens(&w);
			journal_read(&w);
			if (i % 100)
				continue;
			while (store_cleared_sweep(&w.s, 1000))
				;
			journal_read(&w);
			while (at > 0)
				store_walk(&w.s, &at, 1 + (unsigned)kv_prng_below(&w.prng, 50), seen_add, seen);
			for (unsigned n = 0; n < KEYS; n++) {
				char key[16];
				size_t len = key_of(n, key);
				assert_int_equal(seen[n], w.here[n]);
				assert_int_equal(store_peek(&w.s, key, len) != NULL, w.here[n]);
			}
		}
		assert_true(w.clears || (w.s.events[STORE_EVICTED] > 0 && w.s.events[STORE_EXPIRED] > 0));
		world_close(&w);
	}
}

struct reader {
	unsigned left; /* blocks for which it has room */
	uint64_t taken;
};

static bool room_for_some(void *arg, const struct block *b)
{
	struct reader *r = arg;
	(void)b;
	if (r->left == 0)
		return false;
	r->left--;
	r->taken++;
	return true;
}

/* A block that the reader has no room for comes again. */
static void a_walk_goes_on_where_its_reader_was_full(void **state)
{
	struct world w;
	struct reader r = {0};
	(void)state;
	world_open(&w);
	for (unsigned n = 0; n < 50; n++)
		block_put(&w, n);
	for (uint32_t at = UINT32_MAX; at > 0;) {
		r.left = 10;
		store_walk(&w.s, &at, 1000, room_for_some, &r);
	}
	assert_int_equal(r.taken, index_count(&w.s.index));
	world_close(&w);
}

/* Blocks in doubt are judged without being asked for, so that their removal is reported. */
static void doubted_blocks_are_reported_when_they_are_dropped(void **state)
{
	struct world w;
	unsigned here = 0;
	(void)state;
	world_open(&w);
	for (unsigned n = 0; n < 100; n++)
		block_put(&w, n);
	journal_read(&w);
	w.now_ns += SECOND_NS;
	store_doubt(&w.s, w.now_ns);
	store_judge_some(&w.s, w.now_ns, 1000); /* no verdicts yet */
	assert_null(journal_next(w.j));
	store_judge(&w.s, NULL, 0);
	store_judge_some(&w.s, w.now_ns, 30);
	assert_non_null(journal_next(w.j));
	for (unsigned i = 0; i < 10; i++)
		store_judge_some(&w.s, w.now_ns, 30);
	journal_read(&w);
	for (unsigned n = 0; n < KEYS; n++)
		here += w.here[n];
	assert_int_equal(here, 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_in_their_order),
		cmocka_unit_test(a_full_ring_says_that_it_lost_entries),
		cmocka_unit_test(two_threads_use_a_ring),
		cmocka_unit_test(journal_walk_and_index_agree),
		cmocka_unit_test(a_walk_goes_on_where_its_reader_was_full),
		cmocka_unit_test(doubted_blocks_are_reported_when_they_are_dropped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
