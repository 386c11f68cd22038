/* SPDX-License-Identifier: Apache-2.0 */
/* test_keep.c -- a store is written to a file and restored from it: what must be the same afterwards, and files that
 * are damaged or lie. */
#include "tests/store/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/keep.h"

enum { LIMIT = 1 << 20, KEYS = 2000 };

static char path[] = "/tmp/kvrail-keep-XXXXXX";
static struct keep_head head = {.limit_bytes = LIMIT, .digest_seed = 7, .shards = 1};
static struct keep_rest rest;
static uint8_t *memory;
static uint64_t limit = LIMIT;

static void *arena(void)
{
	memory = memory ? memory : calloc(1, LIMIT);
	assert_non_null(memory);
	return memory;
}

static void open_at(const struct evict_policy *policy, uint64_t blocks_max, uint64_t now)
{
	const struct store_options o = {.base = arena(),
					.limit_bytes = limit,
					.seed = now, /* another one each time */
					.digest_seed = head.digest_seed,
					.generation = 1,
					.now_ns = now,
					.policy = policy,
					.blocks_max = blocks_max};
	assert_int_equal(store_init(&store, &o), 0);
}

static void save(uint64_t now, uint64_t wall)
{
	struct keep_out *out;
	struct keep_writer *w;
	struct kv_error err = {0};
	head.now_ns = now;
	head.wall_ns = wall;
	memset(head.stamp, (int)(now % 251), sizeof(head.stamp));
	assert_int_equal(keep_create(path, &head, &out, &err), 0);
	w = keep_writer_open(out, 0);
	keep_store(w, &store, now);
	keep_writer_close(&w);
	assert_int_equal(keep_commit(&out, &err), 0);
	assert_null(out);
}

static void end(void)
{
	keep_rest_end(&store, &rest);
	pins_drop_all(&store);
	rest = (struct keep_rest){0};
	store_fini(&store);
}

/* Read the file into the open, empty store. */
static int load(uint64_t now, uint64_t wall, struct kv_error *err)
{
	struct keep_in *in;
	struct keep_reader *r;
	struct keep_head read;
	struct keep_clock clock;
	int rc = keep_open(path, &in, &read, err);
	if (rc)
		return rc;
	assert_int_equal(keep_reader_open(in, 0, &r, err), 0);
	clock = keep_clock_of(&read, now, wall);
	rc = keep_restore(r, &clock, &store, &rest, err);
	keep_reader_close(&r);
	keep_close(&in);
	return rc;
}

static void again(uint64_t saved, uint64_t now)
{
	struct kv_error err = {0};
	save(saved, saved);
	end();
	open_at(&evict_clock2g, 0, now);
	if (load(now, now, &err))
		fail_msg("%s", err.text);
	check_store();
}

/* ---- random stores ---- */

struct model {
	bool there, pinned;
	uint64_t len, expires, born, hits;
	uint8_t fill;
};

static void name(char key[24], unsigned i)
{
	snprintf(key, 24, "%0*u", 1 + (int)(i % 20), i);
}

static void random_put(struct kv_prng *p, struct model *m, unsigned i, uint64_t now)
{
	struct block *b, *holder;
	struct room *room;
	char key[24];
	uint64_t len = 1 + kv_prng_below(p, 600);
	name(key, i);
	if (store_find(&store, key, strlen(key), now) ||
	    store_stage(&store, key, strlen(key), len, kv_prng_below(p, 2) ? ARENA_LOW : ARENA_HIGH, &b, &room))
		return;
	*m = (struct model){.there = true, .len = len, .born = now, .fill = (uint8_t)i};
	m->expires = kv_prng_below(p, 3) ? KV_NEVER : now + kv_prng_below(p, 100 * SECOND);
	memset(store_data(&store, b), m->fill, len);
	assert_int_equal(store_commit(&store, b, m->fill, m->expires, now, &holder), 0);
	block_unref(&store, b);
}

static void random_step(struct kv_prng *p, struct model *m, struct pins *pins, uint64_t now)
{
	unsigned i = (unsigned)kv_prng_below(p, KEYS);
	struct block *b;
	char key[24];
	name(key, i);
	b = store_find(&store, key, strlen(key), now);
	switch (kv_prng_below(p, 8)) {
	case 0:
		if (store_delete(&store, key, strlen(key), now, now))
			m[i].there = false;
		break;
	case 1:
		if (b && pins_add(&store, pins, b, LIMIT / 8, LIMIT / 8) == 0)
			m[i].pinned = true;
		break;
	case 2:
	case 3:
		if (b)
			store_use(&store, b);
		break;
	default:
		random_put(p, &m[i], i, now);
	}
}

static void check_model(const struct model *m, uint64_t now)
{
	for (unsigned i = 0; i < KEYS; i++) {
		char key[24];
		const struct block *b;
		name(key, i);
		b = store_peek(&store, key, strlen(key));
		if (!b)
			continue; /* evicted, or it was expired */
		assert_true(m[i].there);
		check_bytes(b, m[i].len, m[i].fill);
		assert_int_equal(b->checksum, m[i].fill);
		assert_int_equal(b->expire.when_ns, m[i].expires);
		assert_int_equal(block_born_ns(b), m[i].born / 1000 * 1000);
		assert_true(b->expire.when_ns > now);
	}
}

/* The victims of a store, as long as it has any. */
static unsigned victims(char (*out)[24])
{
	unsigned n = 0;
	for (struct evict_node *v; (v = evict_victim(&store.evict, block_may_go)) != NULL; n++) {
		struct block *b = KV_CONTAINER(v, struct block, evict);
		memset(out[n], 0, sizeof(out[n]));
		memcpy(out[n], b->item.key, b->item.key_len);
		block_evict(&store, b);
	}
	return n;
}

/* Their place in the order differs afterwards. Expired ones are dropped as well. */
static void pinned_drop(const struct model *m, uint64_t now)
{
	for (unsigned i = 0; i < KEYS; i++) {
		char key[24];
		struct block *b;
		name(key, i);
		b = store_find(&store, key, strlen(key), now);
		if (b && m[i].pinned)
			store_drop(&store, b);
	}
}

static void a_random_store_comes_back(void **state)
{
	static struct model model[KEYS];
	static char before[KEYS][24], after[KEYS][24];
	struct kv_prng p = check_seed();
	struct kv_error err = {0};
	(void)state;
	for (unsigned policy = 0; evict_policies[policy]; policy++) {
		struct pins pins;
		uint64_t now = SECOND, generation, pinned;
		unsigned n;
		pins_init(&pins);
		memset(model, 0, sizeof(model));
		open_at(evict_policies[policy], 0, now);
		for (unsigned i = 0; i < 20000; i++, now += kv_prng_below(&p, SECOND / 100))
			random_step(&p, model, &pins, now);
		generation = store.generation;
		for (unsigned i = 0; i < KEYS; i++) {
			char key[24];
			name(key, i);
			(void)store_find(&store, key, strlen(key), now); /* drops it if it has expired */
		}
		pinned = store.pinned_bytes;
		save(now, 5);
		pins_clear(&store, &pins);
		pinned_drop(model, now);
		n = victims(before);
		end();
		open_at(evict_policies[policy], 0, now);
		if (load(now, 5, &err))
			fail_msg("%s", err.text);
		check_store();
		check_model(model, now);
		assert_int_equal(store.generation, generation);
		assert_int_equal(store.pinned_bytes, pinned);
		keep_rest_tick(&store, &rest, KV_NEVER);
		pins_drop_all(&store);
		assert_int_equal(store.pinned_bytes, 0);
		pinned_drop(model, now);
		assert_int_equal(victims(after), n);
		for (unsigned i = 0; i < n; i++)
			assert_string_equal(before[i], after[i]);
		end();
	}
}

/* ---- single rules ---- */

static void another_policy_takes_the_same_values(void **state)
{
	struct kv_error err = {0};
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	for (unsigned i = 0; i < 500; i++)
		assert_non_null(put_nth(i, 100));
	store_use(&store, small(7));
	save(SECOND, SECOND);
	end();
	open_at(&evict_lru, 0, SECOND);
	assert_int_equal(load(SECOND, SECOND, &err), 0);
	check_store();
	assert_int_equal(rest.blocks, 500);
	check_bytes(small(499), 100, (uint8_t)499);
	end();
}

static void with_a_lower_limit_the_next_victims_are_left_out(void **state)
{
	struct kv_error err = {0};
	(void)state;
	open_at(&evict_lru, 0, SECOND);
	for (unsigned i = 0; i < 500; i++)
		assert_non_null(put_nth(i, 100));
	save(SECOND, SECOND);
	end();
	open_at(&evict_lru, 100, SECOND);
	assert_int_equal(load(SECOND, SECOND, &err), 0);
	check_store();
	assert_int_equal(rest.blocks, 100);
	assert_int_equal(rest.dropped, 400);
	assert_null(small(399));
	check_bytes(small(400), 100, (uint8_t)400);
	end();
}

static void put_expiring(const char *key, uint64_t expires, uint64_t now)
{
	struct block *b = put(key, 10, 1, now);
	assert_non_null(b);
	store_expire_at(&store, b, expires);
}

static void time_goes_on_while_nobody_runs(void **state)
{
	struct kv_error err = {0};
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	put_expiring("short", 10 * SECOND, 2 * SECOND);
	put_expiring("long", 20 * SECOND, 2 * SECOND);
	assert_non_null(put("always", 10, 1, 2 * SECOND));
	save(3 * SECOND, 1000 * SECOND);
	end();
	/* The shard's clock began anew, and 8 s have passed. */
	open_at(&evict_clock2g, 0, SECOND);
	assert_int_equal(load(SECOND, 1008 * SECOND, &err), 0);
	assert_int_equal(rest.blocks, 2);
	assert_int_equal(rest.dropped, 1);
	assert_null(get("short", SECOND));
	assert_int_equal(get("long", SECOND)->expire.when_ns, 10 * SECOND);
	assert_int_equal(get("always", SECOND)->expire.when_ns, KV_NEVER);
	end();
}

static void a_clock_set_back_prolongs_no_life(void **state)
{
	struct kv_error err = {0};
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	put_expiring("k", 10 * SECOND, 2 * SECOND);
	save(3 * SECOND, 1000 * SECOND);
	end();
	open_at(&evict_clock2g, 0, 9 * SECOND);
	assert_int_equal(load(9 * SECOND, 10 * SECOND, &err), 0);
	assert_int_equal(get("k", 9 * SECOND)->expire.when_ns, 10 * SECOND);
	end();
}

static void deleted_keys_stay_deleted(void **state)
{
	uint64_t expires = KV_NEVER;
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	assert_non_null(put("k", 10, 1, 2 * SECOND));
	assert_true(store_delete(&store, "k", 1, 5 * SECOND, 5 * SECOND));
	again(6 * SECOND, 7 * SECOND);
	assert_null(get("k", 7 * SECOND));
	assert_int_equal(store_copy_allowed(&store, store_space_default(&store), store_hash(&store, "k", 1), 3 * SECOND,
					    7 * SECOND, &expires),
			 -KV_EDELETED);
	assert_int_equal(store_copy_allowed(&store, store_space_default(&store), store_hash(&store, "k", 1), 6 * SECOND,
					    7 * SECOND, &expires),
			 0);
	end();
}

static void enter(const char *name)
{
	struct space *sp;
	assert_int_equal(space_take(&store.spaces, name, SECOND, &sp), 0);
	store_enter(&store, sp);
}

static void namespaces_come_back_with_their_generations(void **state)
{
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	assert_non_null(put("k", 100, 1, SECOND));
	enter("empty");
	enter("full");
	assert_non_null(put("k", 200, 1, SECOND));
	enter("cleared");
	assert_non_null(put("k", 300, 1, SECOND));
	store_space_clear(&store, store.space, 7, 2 * SECOND);
	assert_non_null(put("new", 400, 1, 2 * SECOND));
	store_enter(&store, store_space_default(&store));
	again(3 * SECOND, 4 * SECOND);
	assert_int_equal(rest.blocks, 3);
	assert_int_equal(store.spaces.count, 4);
	assert_int_equal(get("k", 4 * SECOND)->len, 100);
	enter("full");
	assert_int_equal(get("k", 4 * SECOND)->len, 200);
	assert_int_equal(store.space->blocks, 1);
	enter("cleared");
	assert_null(get("k", 4 * SECOND));
	assert_int_equal(get("new", 4 * SECOND)->len, 400);
	assert_int_equal(store.space->generation, 7);
	/* A space that begins gets a seed that no other has had. */
	enter("later");
	assert_null(get("k", 4 * SECOND));
	end();
}

static void a_value_in_doubt_is_left_out(void **state)
{
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	assert_non_null(put("hidden", 10, 1, 2 * SECOND));
	store_doubt(&store, 3 * SECOND);
	assert_non_null(put("known", 10, 1, 4 * SECOND));
	again(5 * SECOND, 6 * SECOND);
	assert_null(get("hidden", 6 * SECOND));
	assert_non_null(get("known", 6 * SECOND));
	end();
}

static void pins_wait_for_their_sessions(void **state)
{
	struct pins pins, back;
	(void)state;
	pins_init(&pins);
	pins_init(&back);
	open_at(&evict_clock2g, 0, SECOND);
	assert_int_equal(pins_add(&store, &pins, put("again", 64, 1, SECOND), LIMIT, LIMIT), 0);
	assert_int_equal(pins_add(&store, &pins, put("gone", 64, 1, SECOND), LIMIT, LIMIT), 0);
	save(SECOND, SECOND);
	pins_clear(&store, &pins);
	end();
	open_at(&evict_clock2g, 0, SECOND);
	assert_int_equal(load(SECOND, SECOND, NULL), 0);
	assert_null(evict_victim(&store.evict, block_may_go));
	assert_int_equal(pins_add(&store, &back, get("again", SECOND), LIMIT, LIMIT), 0);
	keep_rest_tick(&store, &rest, SECOND + KEEP_PINS_NS - 1);
	assert_int_equal(store.pinned_bytes, 128);
	keep_rest_tick(&store, &rest, SECOND + KEEP_PINS_NS);
	pins_drop_all(&store);
	assert_int_equal(store.pinned_bytes, 64);
	assert_ptr_equal(KV_CONTAINER(evict_victim(&store.evict, block_may_go), struct block, evict),
			 get("gone", SECOND));
	pins_clear(&store, &back);
	end();
}

static void bytes_that_clients_read_are_not_reused(void **state)
{
	struct block *live, *gone;
	uint64_t at;
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	live = put("live", 64, 1, SECOND);
	gone = put("gone", 64, 2, SECOND);
	at = gone->offset;
	block_ref(live);
	block_ref(gone);
	store_drop(&store, gone);
	save(SECOND, SECOND);
	store.poison = false;
	end();
	open_at(&evict_clock2g, 0, SECOND);
	assert_int_equal(load(SECOND, SECOND, NULL), 0);
	check_store();
	assert_int_equal(rest.held_count, 2);
	assert_null(get("gone", SECOND));
	assert_null(evict_victim(&store.evict, block_may_go));
	for (unsigned i = 0; i < 100; i++)
		assert_true(put_nth(i, 64)->offset != at);
	store_drop(&store, get("live", SECOND));
	assert_int_equal(store.gone_bytes, 128);
	keep_rest_held_end(&store, &rest);
	assert_int_equal(store.gone_bytes, 0);
	check_store();
	end();
}

static void ghosts_are_remembered(void **state)
{
	(void)state;
	open_at(&evict_clock2g, 0, SECOND);
	assert_non_null(put("returns", 64, 1, SECOND));
	assert_non_null(put("stays", 64, 1, SECOND));
	block_evict(&store, get("returns", SECOND));
	again(SECOND, SECOND);
	assert_non_null(put("returns", 64, 1, SECOND));
	assert_int_equal(store.evict.returned, 1);
	end();
}

/* ---- damaged files ---- */

static size_t file_read(uint8_t *out, size_t cap)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, out, cap);
	close(fd);
	assert_in_range(n, 1, cap - 1);
	return (size_t)n;
}

static void file_write(const uint8_t *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}

/* The file is refused with a sentence, and the store can be ended. */
static void check_refused(const char *what, size_t at)
{
	struct kv_error err = {0};
	open_at(&evict_clock2g, 0, SECOND);
	if (load(SECOND, SECOND, &err) == 0)
		fail_msg("accepted with %s at byte %zu", what, at);
	check_contains(err.text, "is not used: ");
	end();
}

static void each_damaged_byte_is_found(void **state)
{
	static uint8_t bytes[1 << 16];
	size_t len;
	(void)state;
	open_at(&evict_lru, 0, SECOND); /* without ghosts: they are many bytes */
	for (unsigned i = 0; i < 20; i++)
		assert_non_null(put_nth(i, 100));
	assert_true(store_delete(&store, "s3", 2, SECOND, SECOND));
	save(SECOND, SECOND);
	end();
	len = file_read(bytes, sizeof(bytes));
	for (size_t i = 0; i < len; i++) {
		bytes[i] ^= (uint8_t)(1u << i % 8);
		file_write(bytes, len);
		check_refused("a wrong bit", i);
		bytes[i] ^= (uint8_t)(1u << i % 8);
	}
	for (size_t i = 0; i < len; i++) {
		file_write(bytes, i);
		check_refused("a cut", i);
	}
	file_write(bytes, len + 1);
	check_refused("more than its end", len);
	file_write(bytes, len);
	open_at(&evict_lru, 0, SECOND);
	assert_int_equal(load(SECOND, SECOND, NULL), 0);
	end();
}

static void other_files_and_releases_are_named(void **state)
{
	static uint8_t bytes[1 << 16] = "no index of any kind, but a text of some length";
	struct keep_in *r;
	struct keep_head read;
	struct kv_error err = {0};
	size_t len;
	(void)state;
	file_write(bytes, 64);
	assert_int_equal(keep_open(path, &r, &read, &err), -KV_EINVAL);
	check_contains(err.text, "it is no index of a kv-server");
	open_at(&evict_lru, 0, SECOND);
	save(SECOND, SECOND);
	end();
	len = file_read(bytes, sizeof(bytes));
	bytes[8]++;
	file_write(bytes, len);
	assert_int_equal(keep_open(path, &r, &read, &err), -KV_EVERSION);
	check_contains(err.text, "another release wrote it");
	assert_int_equal(keep_open("/nonexistent/index", &r, &read, &err), -KV_ENOTFOUND);
	assert_int_equal(keep_open("/dev/null", &r, &read, &err), -KV_EINVAL);
	check_contains(err.text, "no regular file");
}

static void a_file_that_cannot_be_written_is_named(void **state)
{
	struct keep_out *out;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(keep_create("/nonexistent/index", &head, &out, &err), -ENOENT);
	check_contains(err.text, "cannot write /nonexistent/index.new: ");
}

/* The file before stays. */
static void a_full_disk_is_named(void **state)
{
	const struct rlimit most = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
	const struct rlimit any = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
	struct kv_error err = {0};
	struct keep_out *out;
	struct keep_writer *w;
	(void)state;
	open_at(&evict_lru, 0, SECOND);
	for (unsigned i = 0; i < 100; i++)
		assert_non_null(put_nth(i, 100));
	save(SECOND, SECOND);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &most);
	assert_int_equal(keep_create(path, &head, &out, &err), 0);
	w = keep_writer_open(out, 0);
	keep_store(w, &store, SECOND);
	keep_writer_close(&w);
	assert_int_equal(keep_commit(&out, &err), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &any);
	check_contains(err.text, "cannot write ");
	end();
	open_at(&evict_lru, 0, SECOND);
	assert_int_equal(load(SECOND, SECOND, NULL), 0);
	end();
}

static void no_file_that_is_there_is_written_to(void **state)
{
	char fresh[sizeof(path) + 4], other[sizeof(path) + 6];
	struct keep_out *out;
	struct stat st;
	(void)state;
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	snprintf(other, sizeof(other), "%s.other", path);
	close(open(other, O_WRONLY | O_CREAT, 0666));
	assert_int_equal(symlink(other, fresh), 0);
	assert_int_equal(keep_create(path, &head, &out, NULL), 0);
	assert_int_equal(lstat(fresh, &st), 0);
	assert_true(S_ISREG(st.st_mode) && (st.st_mode & 077) == 0);
	assert_int_equal(stat(other, &st), 0);
	assert_int_equal(st.st_size, 0);
	keep_abandon(&out);
	assert_int_equal(lstat(fresh, &st), -1);
	unlink(other);
}

static void a_file_that_others_may_write_is_refused(void **state)
{
	struct keep_in *in;
	struct keep_head read;
	struct kv_error err = {0};
	(void)state;
	open_at(&evict_lru, 0, SECOND);
	save(SECOND, SECOND);
	end();
	assert_int_equal(chmod(path, 0620), 0);
	assert_int_equal(keep_open(path, &in, &read, &err), -KV_EDENIED);
	check_contains(err.text, "another user owns it or may write to it");
	assert_int_equal(chmod(path, 0600), 0);
}

/* Threads write the parts of shards in any order, and each reader finds its own. */
static void parts_of_shards_alternate(void **state)
{
	enum { SHARDS = 3, ENTRIES = 40, BYTES = 100000 };
	struct keep_head two = head, read;
	struct keep_out *out;
	struct keep_in *in;
	struct keep_writer *w[SHARDS];
	(void)state;
	two.shards = SHARDS;
	assert_int_equal(keep_create(path, &two, &out, NULL), 0);
	for (unsigned i = 0; i < SHARDS; i++)
		w[i] = keep_writer_open(out, i);
	for (unsigned n = 0; n < SHARDS * ENTRIES; n++)
		memset(keep_entry(w[n % SHARDS], KEEP_BLOCKS, BYTES), (int)(1 + n % SHARDS), BYTES);
	for (unsigned i = 0; i < SHARDS; i++)
		keep_writer_close(&w[i]);
	assert_int_equal(keep_commit(&out, NULL), 0);
	assert_int_equal(keep_open(path, &in, &read, NULL), 0);
	for (unsigned i = 0; i < SHARDS; i++) {
		struct keep_reader *r;
		struct keep_part p = {.kind = KEEP_BLOCKS};
		size_t bytes = 0;
		assert_int_equal(keep_reader_open(in, i, &r, NULL), 0);
		for (; keep_part(r, &p, NULL) == 0 && p.kind == KEEP_BLOCKS; bytes += p.bytes)
			for (size_t at = 0; at < p.bytes; at++)
				assert_int_equal(p.data[at], 1 + i);
		assert_int_equal(p.kind, KEEP_SHARD_END);
		assert_int_equal(bytes, ENTRIES * BYTES);
		keep_reader_close(&r);
	}
	keep_close(&in);
}

/* ---- files that lie ---- */

/* Write a store of two values; `lie` changes the second one's entry, whose sums are right. */
static void check_lie(const char *name_of_lie, void (*lie)(struct block *b), const char *why)
{
	struct kv_error err = {0};
	struct block *b;
	open_at(&evict_lru, 0, SECOND);
	assert_non_null(put("one", 100, 1, SECOND));
	b = put("two", 100, 1, SECOND);
	lie(b);
	save(SECOND, SECOND);
	store_fini(&store);
	open_at(&evict_lru, 0, SECOND);
	if (load(SECOND, SECOND, &err) == 0)
		fail_msg("a lie was believed: %s", name_of_lie);
	check_contains(err.text, why);
	end();
}

static void lie_overlap(struct block *b)
{
	b->mem->offset = 64;
}

static void lie_outside(struct block *b)
{
	b->mem->offset = LIMIT;
}

static void lie_length(struct block *b)
{
	b->len = UINT64_MAX - 10;
}

static void lie_nothing(struct block *b)
{
	b->len = 0;
}

static void lie_odd(struct block *b)
{
	b->mem->offset += 1;
}

static void lie_twice(struct block *b)
{
	memcpy(b->item.key, "one", 3);
}

static void lie_generation(struct block *b)
{
	b->generation = store.generation;
}

static void lie_queue(struct block *b)
{
	evict_unlink(&store.evict, &b->evict);
	evict_link(&store.evict, &b->evict, 1);
}

/* The table of a namespace without values: a key of the other one would be found there. */
static void lie_seed(struct block *b)
{
	struct space *sp;
	(void)b;
	assert_int_equal(space_take(&store.spaces, "other", SECOND, &sp), 0);
	sp->seed = store_space_default(&store)->seed;
}

static void lies_are_refused(void **state)
{
	(void)state;
	check_lie("overlap", lie_overlap, "values overlap");
	check_lie("odd offset", lie_odd, "values overlap");
	check_lie("offset", lie_outside, "does not fit the memory");
	check_lie("length", lie_length, "does not fit the memory");
	check_lie("no length", lie_nothing, "does not fit the memory");
	check_lie("key", lie_twice, "two values have one key");
	check_lie("generation", lie_generation, "fields are impossible");
	check_lie("queue", lie_queue, "fields are impossible");
	check_lie("seed", lie_seed, "a namespace is impossible");
}

/* A hand that another policy than sieve has would stay at a block that is gone. A birth or a tombstone in the future
 * would outlive each DELETE, or refuse each copy. */
static void what_cannot_be_is_put_right(void **state)
{
	struct kv_error err = {0};
	uint64_t expires = KV_NEVER;
	(void)state;
	open_at(&evict_lru, 0, SECOND);
	block_born_at(put("late", 100, 1, SECOND), 1000 * SECOND);
	store.evict.hand = &put("hand", 100, 1, SECOND)->evict.node;
	tombs_put(&store.tombs, store_hash(&store, "dead", 4), 4, 1000 * SECOND, 0, SECOND);
	save(SECOND, SECOND);
	store_fini(&store);
	open_at(&evict_lru, 0, 2 * SECOND);
	if (load(2 * SECOND, 2 * SECOND, &err))
		fail_msg("%s", err.text);
	assert_ptr_equal(store.evict.hand, &store.evict.queue[0]);
	assert_int_equal(block_born_ns(get("late", 2 * SECOND)), 2 * SECOND);
	assert_int_equal(store_copy_allowed(&store, store_space_default(&store), store_hash(&store, "dead", 4),
					    3 * SECOND, 3 * SECOND, &expires),
			 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_random_store_comes_back),
		cmocka_unit_test(another_policy_takes_the_same_values),
		cmocka_unit_test(with_a_lower_limit_the_next_victims_are_left_out),
		cmocka_unit_test(time_goes_on_while_nobody_runs),
		cmocka_unit_test(a_clock_set_back_prolongs_no_life),
		cmocka_unit_test(deleted_keys_stay_deleted),
		cmocka_unit_test(namespaces_come_back_with_their_generations),
		cmocka_unit_test(a_value_in_doubt_is_left_out),
		cmocka_unit_test(pins_wait_for_their_sessions),
		cmocka_unit_test(bytes_that_clients_read_are_not_reused),
		cmocka_unit_test(ghosts_are_remembered),
		cmocka_unit_test(each_damaged_byte_is_found),
		cmocka_unit_test(other_files_and_releases_are_named),
		cmocka_unit_test(a_file_that_cannot_be_written_is_named),
		cmocka_unit_test(a_full_disk_is_named),
		cmocka_unit_test(no_file_that_is_there_is_written_to),
		cmocka_unit_test(a_file_that_others_may_write_is_refused),
		cmocka_unit_test(parts_of_shards_alternate),
		cmocka_unit_test(lies_are_refused),
		cmocka_unit_test(what_cannot_be_is_put_right),
	};
	int fd = mkstemp(path), rc;
	if (fd >= 0)
		close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	free(memory);
	return rc;
}
