/* SPDX-License-Identifier: Apache-2.0 */
/* test_landing.c -- PUTs whose bytes the client wrote to its landing area: what is stored, what is refused, whose the
 * area is, and when it may be another's. */
#include "rig.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static bool write_over;
static int write_status;

static void on_write(struct te_xfer *x, int status)
{
	(void)x;
	write_status = status;
	write_over = true;
}

/* The session has an area. */
static struct landing *area(void)
{
	if (!rig.shard->landings.area.base) {
		print_message("messages do not stay behind writes here\n");
		skip();
	}
	assert_int_equal(landing_open(rig.attachment), 0);
	assert_non_null(rig.attachment->landing);
	return rig.attachment->landing;
}

/* Write n bytes of our buffer to our area, as LANDING tells of it. */
static void land(uint64_t from, uint64_t at, uint64_t n)
{
	struct wire_region told;
	struct te_remote remote;
	struct te_key key;
	uint8_t *keys;
	struct te_xfer x = {.dir = TE_WRITE,
			    .peer = rig.server,
			    .link = 0,
			    .local = rig.region,
			    .local_offset = from,
			    .remote = &remote,
			    .at = {.offset = at, .slice = n, .count = 1},
			    .deadline_ns = kv_clock_now(&kv_clock_monotonic) + 5000000000ull,
			    .done = on_write};
	assert_int_equal(landing_announce(rig.attachment, &told, &keys), 0);
	assert_int_equal(told.parts, 1);
	wire_region_key(&told, 0, 0, &key.base, &key.key);
	remote = (struct te_remote){told.len_bytes, told.part_bytes, 1, told.rails, told.virt, &key};
	free(keys);
	write_over = false;
	assert_true(te_xfer_start(rig.te, &x) >= 0);
	rig_until(write_over);
	assert_int_equal(write_status, 0);
	rig_quiet(); /* not ordered: it is there when nothing moves any more */
}

static struct wire_request landed(const char *key, uint64_t total, uint64_t offset, uint64_t n, uint64_t sum,
				  uint8_t flags, uint64_t at)
{
	struct wire_request q = rig_put(key, total, offset, n, sum, flags | WIRE_PUT_LANDED);
	q.dest = (struct wire_dest){0, 1, at, 0, n};
	return q;
}

static uint64_t filled(uint64_t n, uint64_t seed)
{
	rig_fill(rig_memory(0), n, seed);
	return kv_hash_block(rig_memory(0), n);
}

static void assert_stored(const char *key, uint64_t n, uint64_t sum)
{
	struct block *b = store_find(&rig.shard->store, key, strlen(key), 0);
	assert_non_null(b);
	assert_int_equal(b->len, n);
	assert_int_equal(b->checksum, sum);
	assert_int_equal(kv_hash_block(store_data(&rig.shard->store, b), n), sum);
}

static void assert_none(const char *key)
{
	assert_null(store_find(&rig.shard->store, key, strlen(key), 0));
}

static void a_whole_value_lands(void **state)
{
	const uint64_t sizes[] = {1, 4 * KIB, 64 * KIB, MIB - 1, 2 * MIB};
	(void)state;
	area();
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		char key[8];
		struct wire_request q;
		uint64_t sum = filled(sizes[i], i + 1), at = i == KV_COUNT(sizes) - 1 ? 0 : 100 * i;
		snprintf(key, sizeof(key), "k%u", i);
		land(0, at, sizes[i]);
		q = landed(key, sizes[i], 0, sizes[i], sum, WIRE_PUT_FIRST | WIRE_PUT_LAST, at);
		assert_int_equal(rig_ask(&q)->status, WIRE_OK);
		assert_stored(key, sizes[i], sum);
	}
	assert_int_equal(rig_stat(WIRE_STAT_PUTS_LANDED), KV_COUNT(sizes));
	assert_int_equal(rig_stat(WIRE_STAT_READS), 0);
}

static void ranges_land_in_any_place(void **state)
{
	enum { PART = 700 * KIB, TOTAL = 3 * PART };
	uint64_t sum = filled(TOTAL, 9), stage;
	struct wire_request q;
	(void)state;
	area();
	land(0, MIB, PART);
	q = landed("r", TOTAL, 0, PART, sum, WIRE_PUT_FIRST, MIB);
	stage = rig_ask(&q)->put.stage;
	assert_true(stage != 0);
	land(2 * PART, 0, PART);
	q = landed("r", TOTAL, 2 * PART, PART, sum, WIRE_PUT_LAST, 0);
	q.put.stage = stage;
	rig_send(&q);
	land(PART, MIB, PART);
	q = landed("r", TOTAL, PART, PART, sum, 0, MIB);
	q.put.stage = stage;
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	rig_until(rig.replies == 3);
	assert_stored("r", TOTAL, sum);
}

static void what_lies_outside_the_area_is_invalid(void **state)
{
	struct wire_request q = landed("o", 4 * KIB, 0, 4 * KIB, 1, WIRE_PUT_FIRST | WIRE_PUT_LAST, 0);
	const uint64_t outside[] = {2 * MIB - 4 * KIB + 1, 2 * MIB, UINT64_MAX - 4 * KIB};
	(void)state;
	assert_int_equal(rig_ask(&q)->status, WIRE_INVALID); /* it has no area */
	area();
	for (unsigned i = 0; i < KV_COUNT(outside); i++) {
		q = landed("o", 4 * KIB, 0, 4 * KIB, 1, WIRE_PUT_FIRST | WIRE_PUT_LAST, outside[i]);
		assert_int_equal(rig_ask(&q)->status, WIRE_INVALID);
	}
	assert_none("o");
	assert_int_equal(rig_stat(WIRE_STAT_PUTS_LANDED), 0);
}

/* A record that was believed without its bytes. */
static void bytes_that_are_not_there_are_not_stored(void **state)
{
	uint64_t sum = filled(64 * KIB, 3);
	struct wire_request q;
	(void)state;
	area();
	q = landed("c", 64 * KIB, 0, 64 * KIB, sum, WIRE_PUT_FIRST | WIRE_PUT_LAST, 0);
	assert_int_equal(rig_ask(&q)->status, WIRE_CORRUPT);
	assert_none("c");
	land(0, 0, 64 * KIB);
	q = landed("c", 64 * KIB, 0, 64 * KIB, sum, WIRE_PUT_FIRST | WIRE_PUT_LAST, 0);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_stored("c", 64 * KIB, sum);
}

static void what_is_written_later_changes_nothing(void **state)
{
	uint64_t sum = filled(MIB, 4);
	struct wire_request q;
	(void)state;
	area();
	land(0, 0, MIB);
	q = landed("l", MIB, 0, MIB, sum, WIRE_PUT_FIRST | WIRE_PUT_LAST, 0);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	filled(MIB, 5);
	land(0, 0, MIB);
	assert_stored("l", MIB, sum);
}

/* A client that names the same bytes in many requests keeps the shard from the others no longer than one that writes
 * as much as it names. */
static void bytes_that_are_named_again_and_again_are_refused(void **state)
{
	enum { ASKED = 32 };
	struct wire_request q[ASKED];
	struct wire_frame frame;
	char key[ASKED][8];
	unsigned busy = 0, corrupt = 0;
	(void)state;
	area();
	for (unsigned i = 0; i < ASKED; i++) {
		snprintf(key[i], sizeof(key[i]), "n%u", i);
		q[i] = landed(key[i], 2 * MIB, 0, 2 * MIB, 1, WIRE_PUT_FIRST | WIRE_PUT_LAST, 0);
	}
	frame = rig_frame();
	rig_send_records(&frame, q, ASKED);
	rig_until(rig.replies == ASKED);
	for (unsigned i = 0; i < ASKED; i++) {
		busy += rig_find(q[i].id)->status == WIRE_BUSY;
		corrupt += rig_find(q[i].id)->status == WIRE_CORRUPT;
	}
	assert_int_equal(corrupt, 2);
	assert_int_equal(busy, ASKED - 2);
	q[0] = landed("n", 4 * KIB, 0, 4 * KIB, 1, WIRE_PUT_FIRST | WIRE_PUT_LAST, 0);
	assert_int_equal(rig_ask(&q[0])->status, WIRE_CORRUPT); /* it is another turn */
}

/* Its bytes are copied when there is a place for them, from where they landed. */
static void a_value_that_waits_for_memory_stays_where_it_landed(void **state)
{
	enum { N = 256 * KIB };
	struct wire_request q;
	uint64_t sum = filled(N, 6);
	(void)state;
	area();
	land(0, 0, N);
	assert_true(rig_tiny_fill() > 0);
	q = landed("w", N, 0, N, sum, WIRE_PUT_FIRST | WIRE_PUT_LAST, 0);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_stored("w", N, sum);
	assert_int_equal(rig_stat(WIRE_STAT_ROOMS), 1);
}

static void an_area_is_given_once(void **state)
{
	(void)state;
	area();
	assert_int_equal(landing_open(rig.attachment), -KV_EPROTO);
	assert_int_equal(rig_stat(WIRE_STAT_LANDING_BYTES), 2 * MIB);
}

static void the_more_clients_the_smaller_the_area(void **state)
{
	struct landings *l = &rig.shard->landings;
	struct arena_block *taken[64];
	struct wire_region told;
	unsigned n = 0;
	uint8_t *keys;
	(void)state;
	/* Others have all but half a MiB. */
	while (arena_free_bytes(&l->room) > MIB / 2 && n < KV_COUNT(taken))
		taken[n++] = arena_alloc(&l->room, MIB / 2, taken, ARENA_LOW);
	assert_int_equal(area()->place->size, 64 * KIB);
	rig_close(NULL);
	rig_open(NULL);
	while (arena_free_bytes(&l->room) >= 64 * KIB && n < KV_COUNT(taken))
		taken[n++] = arena_alloc(&l->room, 64 * KIB, taken, ARENA_LOW);
	assert_int_equal(landing_open(rig.attachment), 0);
	assert_null(rig.attachment->landing);
	assert_int_equal(landing_announce(rig.attachment, &told, &keys), 0);
	assert_null(keys);
	assert_int_equal(told.len_bytes | told.part_bytes | told.parts, 0);
	while (n > 0)
		arena_free(&l->room, taken[--n]);
}

/* A client whose connection was cut finds out when what it sent is lost. */
static void reopen_after_cut(void)
{
	uint64_t next = 0, now;
	rig_close(NULL);
	rig_open_unproven(NULL);
	rig_until((now = kv_clock_now(&kv_clock_monotonic),
		   now > next ? (rig_prove(rig.attachment->link[0].nonce), next = now + 100000000ull) : 0,
		   rig.attachment->link[0].proven));
}

/* Bytes of a client that went without a goodbye may still come: it is cut before its area is another's. */
static void a_client_that_left_is_cut_before_its_area_is_given_away(void **state)
{
	struct te_stats before, after;
	(void)state;
	area();
	te_stats(rig.shard->te, &before);
	rig.attachment->gone_away = true;
	rig_attachment_end();
	te_stats(rig.shard->te, &after);
	assert_int_equal(after.cuts, before.cuts + 1);
	assert_int_equal(rig_stat(WIRE_STAT_LANDING_BYTES), 0);
	reopen_after_cut();
}

/* One that said goodbye has nothing under way. */
static void a_client_that_said_goodbye_is_not_cut(void **state)
{
	struct te_stats before, after;
	(void)state;
	area();
	te_stats(rig.shard->te, &before);
	rig_attachment_end();
	te_stats(rig.shard->te, &after);
	assert_int_equal(after.cuts, before.cuts);
	assert_int_equal(rig_stat(WIRE_STAT_LANDING_BYTES), 0);
	rig_close(NULL);
	rig_open(NULL);
}

/* Cutting a client that is back over the same endpoints would cut both: the old area rests instead. */
static void the_area_of_a_client_that_is_back_rests(void **state)
{
	struct te_address addr;
	struct te_peer *again;
	struct te_stats before, after;
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	(void)state;
	area();
	assert_int_equal(te_address(rig.te, 0, &addr), 0);
	assert_int_equal(te_peer_open(rig.shard->te, &addr, 1, &again, NULL), 0);
	rig.attachment->gone_away = true;
	te_stats(rig.shard->te, &before);
	rig_attachment_end();
	te_stats(rig.shard->te, &after);
	assert_int_equal(after.cuts, before.cuts);
	assert_int_equal(after.fences, before.fences);
	assert_int_equal(rig_stat(WIRE_STAT_LANDING_BYTES), 2 * MIB);
	landings_tick(rig.shard, now);
	assert_int_equal(rig_stat(WIRE_STAT_LANDING_BYTES), 2 * MIB);
	landings_tick(rig.shard, now + 60000000000ull);
	assert_int_equal(rig_stat(WIRE_STAT_LANDING_BYTES), 0);
	te_peer_close(&again);
	rig_close(NULL);
	rig_open(NULL);
}

/* test_landing is linked with --wrap=te_region_register. */
static bool no_regions;

int __real_te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
			      struct te_region **out, struct kv_error *err);
int __wrap_te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
			      struct te_region **out, struct kv_error *err);
int __wrap_te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
			      struct te_region **out, struct kv_error *err)
{
	if (no_regions)
		return kv_fail(err, -KV_ENOMEM, "the NIC has no key left");
	return __real_te_region_register(te, base, len_bytes, access, part_bytes, out, err);
}

/* It is said, with the reason, and the client is let in all the same. */
static void an_area_that_cannot_be_registered_is_none(void **state)
{
	char event[128];
	(void)state;
	if (!rig.shard->landings.area.base)
		skip();
	rig.logged[0] = '\0';
	no_regions = true;
	assert_int_equal(landing_open(rig.attachment), 0);
	no_regions = false;
	assert_null(rig.attachment->landing);
	assert_int_equal(landings_bytes(rig.shard), 0);
	snprintf(event, sizeof(event),
		 " | event=landing_refused shard=0 client_id=%llu reason=\"the NIC has no key left\"",
		 (unsigned long long)rig.attachment->client_id);
	check_contains(rig.logged, event);
	area();
}

static int up(void **state)
{
	rig_landing_bytes = 16 * MIB;
	return rig_up(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_whole_value_lands, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(ranges_land_in_any_place, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(what_lies_outside_the_area_is_invalid, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(bytes_that_are_not_there_are_not_stored, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(what_is_written_later_changes_nothing, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_value_that_waits_for_memory_stays_where_it_landed, rig_open,
						rig_close),
		cmocka_unit_test_setup_teardown(bytes_that_are_named_again_and_again_are_refused, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(an_area_is_given_once, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(the_more_clients_the_smaller_the_area, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_client_that_left_is_cut_before_its_area_is_given_away, rig_open,
						rig_close),
		cmocka_unit_test_setup_teardown(a_client_that_said_goodbye_is_not_cut, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(the_area_of_a_client_that_is_back_rests, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(an_area_that_cannot_be_registered_is_none, rig_open, rig_close),
	};
	return cmocka_run_group_tests(tests, up, rig_down);
}
