/* SPDX-License-Identifier: Apache-2.0 */
/* test_namespace.c -- namespaces at one shard: whose keys a session has, clears, and PUTs across a clear. */
#include "rig.h"

enum { A = 1 << SESSION_INDEX_BITS, A2 = A | 1, B = A | 2, MIB = 1 << 20, WHOLE = WIRE_PUT_FIRST | WIRE_PUT_LAST };

static char name_a[16], name_b[16]; /* of this test alone: the shard keeps its namespaces */

static struct session *open_in(uint32_t number, const char *space, uint64_t generation)
{
	struct grant g = rig_grant;
	struct session *o;
	snprintf(g.space, sizeof(g.space), "%s", space);
	g.generation = generation;
	assert_int_equal(session_open(rig.attachment, number, &g, &o), 0);
	return o;
}

/* A session with these rights, which may not read all. */
static void open_with(uint32_t number, const char *space, uint8_t rights)
{
	const struct grant all = rig_grant;
	rig_grant.rights = rights;
	rig_grant.reads_all = false;
	open_in(number, space, 0);
	rig_grant = all;
}

static int open_spaces(void **state)
{
	static unsigned tests;
	tests++;
	snprintf(name_a, sizeof(name_a), "a%u", tests);
	snprintf(name_b, sizeof(name_b), "b%u", tests);
	rig_open(state);
	open_in(A, name_a, 0);
	open_in(A2, name_a, 0);
	open_in(B, name_b, 0);
	return 0;
}

static int close_spaces(void **state)
{
	int rc = rig_close(state);
	for (unsigned i = 0; i < rig.shard->store.spaces.count; i++)
		assert_int_equal(rig.shard->store.spaces.at[i]->users, 0);
	return rc;
}

static const struct wire_reply *ask_in(uint32_t number, const struct wire_request *q)
{
	struct wire_frame frame = rig_frame();
	struct wire_request records[] = {{.type = WIRE_SESSION, .session.number = number}, *q};
	rig_send_records(&frame, records, 2);
	rig_until(rig_find(q->id));
	return rig_find(q->id);
}

/* PUT a MiB of seed, begun in this generation. */
static const struct wire_reply *put_in(uint32_t number, const char *key, uint64_t seed, uint64_t space)
{
	struct wire_request q;
	rig_fill(rig_memory(0), MIB, seed);
	q = rig_put(key, MIB, 0, MIB, kv_hash_block(rig_memory(0), MIB), WHOLE);
	q.put.space = space;
	return ask_in(number, &q);
}

static int32_t status_in(uint32_t number, enum wire_type type, const char *key)
{
	struct wire_request q = rig_request(type, key);
	return ask_in(number, &q)->status;
}

static int32_t get_in(uint32_t number, const char *key)
{
	struct wire_request q = rig_get(key, 0, MIB);
	return ask_in(number, &q)->status;
}

static uint64_t clear_in(uint32_t number, uint8_t flags, uint64_t generation)
{
	struct wire_request q = rig_request(WIRE_CLEAR, NULL);
	const struct wire_reply *r;
	q.flags = flags;
	q.clear.generation = generation;
	r = ask_in(number, &q);
	assert_int_equal(r->status, WIRE_OK);
	return r->clear.generation;
}

/* ---- whose keys ---- */

static void equal_keys_of_two_namespaces_are_two_keys(void **state)
{
	(void)state;
	assert_int_equal(put_in(A, "k", 1, 0)->status, WIRE_OK);
	assert_int_equal(get_in(A2, "k"), WIRE_OK);
	assert_int_equal(get_in(B, "k"), WIRE_NOTFOUND);
	assert_int_equal(get_in(0, "k"), WIRE_NOTFOUND);
	assert_int_equal(put_in(B, "k", 2, 0)->status, WIRE_OK);
	assert_int_equal(status_in(B, WIRE_DELETE, "k"), WIRE_OK);
	assert_int_equal(get_in(B, "k"), WIRE_DELETED);
	assert_int_equal(get_in(A, "k"), WIRE_OK);
	assert_int_equal(status_in(0, WIRE_TOUCH, "k"), WIRE_NOTFOUND);
}

static void records_of_one_frame_are_of_their_sessions_namespaces(void **state)
{
	(void)state;
	struct wire_frame frame = rig_frame();
	struct wire_request own = rig_request(WIRE_DELETE, "k"), a = rig_request(WIRE_DELETE, "k");
	struct wire_request records[] = {own, {.type = WIRE_SESSION, .session.number = A}, a};
	assert_int_equal(put_in(A, "k", 1, 0)->status, WIRE_OK);
	rig_send_records(&frame, records, KV_COUNT(records));
	rig_until(rig_find(own.id) && rig_find(a.id));
	assert_int_equal(rig_find(own.id)->status, WIRE_NOTFOUND);
	assert_int_equal(rig_find(a.id)->status, WIRE_OK);
}

/* ---- rights ---- */

static void a_right_allows_its_requests_and_no_others(void **state)
{
	static const struct {
		uint8_t right;
		enum wire_type type;
	} needs[] = {{TENANT_DELETE, WIRE_DELETE}, {TENANT_WRITE, WIRE_TOUCH}, {TENANT_PIN, WIRE_PIN}};
	uint32_t number = 3 << SESSION_INDEX_BITS | 3;
	(void)state;
	assert_int_equal(put_in(A, "k", 1, 0)->status, WIRE_OK);
	for (unsigned i = 0; i < KV_COUNT(needs); i++, number++) {
		open_with(number, name_a, TENANT_READ);
		assert_int_equal(get_in(number, "k"), WIRE_OK);
		assert_int_equal(put_in(number, "l", 1, 0)->status, WIRE_DENIED);
		assert_int_equal(status_in(number, needs[i].type, "k"), WIRE_DENIED);
		assert_int_equal(status_in(number, WIRE_STAT, NULL), WIRE_DENIED);
		assert_int_equal(status_in(number, WIRE_TOMBS, NULL), WIRE_DENIED);
		assert_int_equal(status_in(number, WIRE_LEASES, NULL), WIRE_DENIED);
		assert_int_equal(status_in(number, WIRE_CLEAR, NULL), WIRE_DENIED);
	}
	for (unsigned i = KV_COUNT(needs); i-- > 0; number++) {
		open_with(number, name_a, TENANT_READ | needs[i].right);
		assert_int_equal(status_in(number, needs[i].type, "k"), WIRE_OK);
	}
	assert_int_equal(get_in(A, "k"), WIRE_DELETED);
	assert_true(rig_stat(WIRE_STAT_DENIED) == 18);
}

/* As if nobody had ever stored anything there, whatever its generation. */
static void without_a_right_a_namespace_does_not_exist(void **state)
{
	const uint32_t number = 3 << SESSION_INDEX_BITS | 3;
	uint8_t digest[8];
	struct wire_request q;
	uint64_t generation, cleared_ns;
	(void)state;
	assert_int_equal(clear_in(A, 0, 5), 5);
	assert_int_equal(put_in(A, "k", 1, 5)->status, WIRE_OK);
	open_with(number, name_a, 0);
	session_space_read(rig.attachment->sessions.at[3], &generation, &cleared_ns);
	assert_int_equal(generation, 0);
	assert_int_equal(cleared_ns, 0);
	assert_int_equal(get_in(number, "k"), WIRE_NOTFOUND);
	kv_put64(digest, kv_hash_key("k", 1, rig.shard->store.index.digest_seed));
	q = rig_request(WIRE_EXISTS, NULL);
	q.exists.digests = digest;
	q.exists.count = 1;
	assert_int_equal(ask_in(A, &q)->exists.prefix, 1);
	q.id = rig_request(WIRE_EXISTS, NULL).id;
	assert_int_equal(ask_in(number, &q)->exists.prefix, 0);
	assert_int_equal(status_in(number, WIRE_DELETE, "k"), WIRE_NOTFOUND);
	assert_int_equal(status_in(number, WIRE_TOUCH, "k"), WIRE_NOTFOUND);
	assert_int_equal(status_in(number, WIRE_PIN, "k"), WIRE_NOTFOUND);
	assert_int_equal(status_in(number, WIRE_CLEAR, NULL), WIRE_DENIED);
	assert_int_equal(put_in(number, "l", 1, 5)->status, WIRE_DENIED);
	assert_int_equal(get_in(A, "k"), WIRE_OK);
	assert_int_equal(get_in(A, "l"), WIRE_NOTFOUND);
}

/* Neither by a generation in its HELLO, nor by one in a PUT. */
static void a_client_that_may_not_clear_clears_nothing(void **state)
{
	const uint32_t number = 3 << SESSION_INDEX_BITS | 3;
	(void)state;
	assert_int_equal(put_in(A, "k", 1, 0)->status, WIRE_OK);
	rig_grant.rights = TENANT_READ | TENANT_WRITE;
	open_in(number, name_a, 0); /* grant_find has made it 0 */
	rig_grant.rights = TENANT_RIGHTS;
	assert_int_equal(put_in(number, "l", 1, 7)->status, WIRE_OK);
	assert_int_equal(get_in(A, "k"), WIRE_OK);
	assert_int_equal(get_in(A, "l"), WIRE_OK);
}

/* ---- clears ---- */

static void a_clear_takes_the_values_of_its_namespace_alone(void **state)
{
	(void)state;
	assert_int_equal(put_in(A, "k", 1, 0)->status, WIRE_OK);
	assert_int_equal(put_in(B, "k", 1, 0)->status, WIRE_OK);
	assert_int_equal(clear_in(A2, 0, 0), 1);
	assert_int_equal(get_in(A, "k"), WIRE_NOTFOUND);
	assert_int_equal(get_in(B, "k"), WIRE_OK);
	rig_until(rig_stat(WIRE_STAT_BLOCKS) == 1); /* the sweep */
	assert_int_equal(rig_stat(WIRE_STAT_CLEARS), 1);
}

/* RAISE only raises: repeated, or late, it takes nothing. */
static void a_raise_to_what_is_known_takes_nothing(void **state)
{
	(void)state;
	assert_int_equal(clear_in(A, 0, 7), 7);
	assert_int_equal(put_in(A, "k", 1, 7)->status, WIRE_OK);
	assert_int_equal(clear_in(A, WIRE_CLEAR_RAISE, 7), 7);
	assert_int_equal(clear_in(A, WIRE_CLEAR_RAISE, 3), 7);
	assert_int_equal(get_in(A, "k"), WIRE_OK);
	assert_int_equal(clear_in(A, WIRE_CLEAR_RAISE, 8), 8);
	assert_int_equal(get_in(A, "k"), WIRE_NOTFOUND);
}

static void a_session_that_knows_of_a_clear_tells_the_server(void **state)
{
	(void)state;
	uint64_t generation, cleared_ns;
	assert_int_equal(put_in(A, "k", 1, 0)->status, WIRE_OK);
	session_space_read(open_in(A | 3, name_a, 4), &generation, &cleared_ns);
	assert_int_equal(generation, 4);
	assert_true(cleared_ns > 0);
	assert_int_equal(get_in(A, "k"), WIRE_NOTFOUND);
	session_space_read(open_in(A | 4, name_a, 2), &generation, &cleared_ns);
	assert_int_equal(generation, 4);
}

/* The highest number has no next one; a clear still takes the values. */
static void a_clear_of_the_last_generation_still_clears(void **state)
{
	(void)state;
	assert_int_equal(clear_in(A, WIRE_CLEAR_RAISE, UINT64_MAX), UINT64_MAX);
	assert_int_equal(put_in(A, "k", 1, UINT64_MAX)->status, WIRE_OK);
	assert_int_equal(clear_in(A, 0, 0), UINT64_MAX);
	assert_int_equal(get_in(A, "k"), WIRE_NOTFOUND);
}

/* ---- PUTs across a clear ---- */

static void a_put_of_an_earlier_generation_is_refused_with_the_present_one(void **state)
{
	const struct wire_reply *r;
	(void)state;
	clear_in(A, 0, 0);
	r = put_in(A, "k", 1, 0);
	assert_int_equal(r->status, WIRE_DELETED);
	assert_int_equal(r->put.stage, 1);
	assert_in_range(r->put.generation, 0, 60000000000);
	assert_int_equal(rig_stat(WIRE_STAT_PUTS_CLEARED), 1);
	assert_int_equal(put_in(A, "k", 1, 1)->status, WIRE_OK);
}

static void a_put_of_a_later_generation_clears(void **state)
{
	(void)state;
	assert_int_equal(put_in(A, "old", 1, 0)->status, WIRE_OK);
	assert_int_equal(put_in(A, "k", 1, 2)->status, WIRE_OK);
	assert_int_equal(get_in(A, "old"), WIRE_NOTFOUND);
	assert_int_equal(get_in(A, "k"), WIRE_OK);
	assert_int_equal(clear_in(A, WIRE_CLEAR_RAISE, 0), 2);
}

static struct wire_request begun(uint64_t *out_sum)
{
	struct wire_request q;
	const struct wire_reply *r;
	rig_fill(rig_memory(0), 2 * MIB, 1);
	*out_sum = kv_hash_block(rig_memory(0), 2 * MIB);
	q = rig_put("k", 2 * MIB, 0, MIB, *out_sum, WIRE_PUT_FIRST);
	r = ask_in(A, &q);
	assert_int_equal(r->status, WIRE_OK);
	q = rig_put("k", 2 * MIB, MIB, MIB, *out_sum, WIRE_PUT_LAST);
	q.put.stage = r->put.stage;
	return q;
}

static void a_stage_begun_before_a_clear_is_not_committed(void **state)
{
	const struct wire_reply *r;
	struct wire_request last;
	uint64_t sum;
	(void)state;
	last = begun(&sum);
	clear_in(A2, 0, 0);
	r = ask_in(A, &last);
	assert_int_equal(r->status, WIRE_DELETED);
	assert_int_equal(r->put.stage, 1);
	assert_int_equal(get_in(A, "k"), WIRE_NOTFOUND);
	rig_until(rig.shard->store.arena.used == 0);
}

static void a_clear_elsewhere_leaves_a_stage(void **state)
{
	struct wire_request last;
	uint64_t sum;
	(void)state;
	last = begun(&sum);
	clear_in(B, 0, 0);
	assert_int_equal(ask_in(A, &last)->status, WIRE_OK);
	assert_int_equal(get_in(A, "k"), WIRE_OK);
}

/* A copy has no generation: its birth counts. */
static void a_copy_from_before_a_clear_is_refused(void **state)
{
	struct wire_request q;
	uint64_t before = loop_now(rig.loop) - 2000000000;
	(void)state;
	clear_in(A, 0, 0);
	rig_fill(rig_memory(0), MIB, 1);
	q = rig_put("k", MIB, 0, MIB, kv_hash_block(rig_memory(0), MIB), WHOLE | WIRE_PUT_COPY);
	q.put.born_ns = shard_clock(rig.shard->opt.shard_seed, before);
	assert_int_equal(ask_in(A, &q)->status, WIRE_DELETED);
	assert_int_equal(rig_stat(WIRE_STAT_COPIES_REFUSED), 1);
	q.id = rig_request(WIRE_PING, NULL).id;
	q.put.born_ns = shard_clock(rig.shard->opt.shard_seed, loop_now(rig.loop) + 1000000);
	assert_int_equal(ask_in(A, &q)->status, WIRE_OK);
}

/* ---- the table ---- */

static void the_list_has_every_namespace_once(void **state)
{
	enum { MORE = 50 };
	struct wire_request q = rig_request(WIRE_SPACES, NULL);
	unsigned seen[MORE] = {0}, of_a = 0;
	(void)state;
	for (unsigned i = 0; i < MORE; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i);
		open_in(A | (10 + i), name, i);
	}
	put_in(A, "k", 1, 0);
	get_in(A, "k");
	for (;;) {
		const struct wire_reply *r = ask_in(0, &q);
		assert_int_equal(r->status, WIRE_OK);
		for (unsigned i = 0; i < r->rows.count; i++) {
			struct wire_row w;
			wire_row(r->rows.at, i, r->type, &w);
			if (w.name[0] == 'n') {
				seen[atoi(w.name + 1)]++;
				assert_int_equal(w.number[WIRE_SPACE_GENERATION], atoi(w.name + 1));
			} else if (strcmp(w.name, name_a) == 0) {
				of_a++;
				assert_int_equal(w.number[WIRE_SPACE_BLOCKS], 1);
				assert_in_range(w.number[WIRE_SPACE_USED], MIB, 2 * MIB);
				assert_in_range(w.number[WIRE_SPACE_HITS], 1, w.number[WIRE_SPACE_GETS]);
			}
		}
		if (!r->rows.next)
			break;
		q = rig_request(WIRE_SPACES, NULL);
		q.tombs.from = r->rows.next;
	}
	assert_int_equal(of_a, 1);
	for (unsigned i = 0; i < MORE; i++)
		assert_int_equal(seen[i], 1);
}

/* A session in use keeps its namespace. One that nobody uses makes room, and its name begins beyond its clears. */
static void a_full_table_refuses_or_forgets(void **state)
{
	uint64_t generation, cleared_ns, ignored;
	struct session *o;
	struct rig_call gone = {0};
	struct grant g = rig_grant;
	char name[16];
	(void)state;
	clear_in(A, 0, 9);
	for (unsigned i = 0; i < SPACES_MAX - 3; i++) { /* with the default one, a and b it is full */
		snprintf(name, sizeof(name), "f%u", i);
		open_in(A | (100 + i), name, 0);
	}
	snprintf(g.space, sizeof(g.space), "one more");
	assert_int_equal(session_open(rig.attachment, A | 99, &g, &o), -KV_EFULL);
	session_end(rig.attachment, A, rig_call(&gone), &ignored);
	rig_until(gone.done);
	snprintf(g.space, sizeof(g.space), "one more");
	assert_int_equal(session_open(rig.attachment, A | 99, &g, &o), -KV_EFULL); /* A2 uses it */
	session_end(rig.attachment, A2, rig_call(&gone), &ignored);
	rig_until(gone.done);
	open_in(A | 99, "one more", 0);
	session_end(rig.attachment, A | 99, rig_call(&gone), &ignored);
	rig_until(gone.done);
	session_space_read(open_in(A2, name_a, 0), &generation, &cleared_ns);
	assert_true(generation > 9);
}

#define SPACES_TEST(name) cmocka_unit_test_setup_teardown(name, open_spaces, close_spaces)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SPACES_TEST(equal_keys_of_two_namespaces_are_two_keys),
		SPACES_TEST(a_right_allows_its_requests_and_no_others),
		SPACES_TEST(without_a_right_a_namespace_does_not_exist),
		SPACES_TEST(a_client_that_may_not_clear_clears_nothing),
		SPACES_TEST(records_of_one_frame_are_of_their_sessions_namespaces),
		SPACES_TEST(a_clear_takes_the_values_of_its_namespace_alone),
		SPACES_TEST(a_raise_to_what_is_known_takes_nothing),
		SPACES_TEST(a_session_that_knows_of_a_clear_tells_the_server),
		SPACES_TEST(a_clear_of_the_last_generation_still_clears),
		SPACES_TEST(a_put_of_an_earlier_generation_is_refused_with_the_present_one),
		SPACES_TEST(a_put_of_a_later_generation_clears),
		SPACES_TEST(a_stage_begun_before_a_clear_is_not_committed),
		SPACES_TEST(a_clear_elsewhere_leaves_a_stage),
		SPACES_TEST(a_copy_from_before_a_clear_is_refused),
		SPACES_TEST(the_list_has_every_namespace_once),
		SPACES_TEST(a_full_table_refuses_or_forgets), /* the last one: it fills the table */
	};
	return cmocka_run_group_tests_name("kvserver/namespace", tests, rig_up, rig_down);
}
