/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier.c -- requests about values that left memory for a tier in a real file. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvserver/ops/tier.h"
#include "kvserver/tier/tier_file.h"
#include "tests/kvserver/rig.h"

enum { LEN = 100000, VALUES = 60 };

static struct tier_files files;
static char path[] = "/tmp/kvrail-tier.XXXXXX";

static int group_up(void **state)
{
	char list[64];
	const struct kv_opt_strings lists = {.item = {list}, .count = 1};
	struct kv_error err = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(list, sizeof(list), "%s:24M", path);
	if (tier_files_open(&lists, false, NULL, &files, &err) != 0)
		fail_msg("%s", err.text);
	rig_tier = &files;
	rig_memory_bytes = 2 << 20;
	return rig_up(state);
}

static int group_down(void **state)
{
	rig_down(state);
	tier_files_close(&files);
	unlink(path);
	return 0;
}

static const char *name(unsigned i)
{
	static char key[16];
	snprintf(key, sizeof(key), "v%u", i);
	return key;
}

/* Until the tier has written what it was given. */
static void settle(void)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + 10000000000ull;
	for (unsigned still = 0; still < 10; still++) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		rig_turn();
		if (shard_tier_active(rig.shard) || shard_tier_busy(rig.shard))
			still = 0;
	}
}

/* More than memory holds; the first ones leave. */
static void fill(void)
{
	for (unsigned i = 0; i < VALUES; i++) {
		rig_store(name(i), LEN, i);
		settle();
	}
	assert_null(store_find(&rig.shard->store, name(0), strlen(name(0)), loop_now(rig.loop)));
}

static void a_value_that_left_memory_is_read(void **state)
{
	static uint8_t want[LEN];
	struct wire_request q;
	(void)state;
	fill();
	for (unsigned i = 0; i < VALUES; i++) {
		const struct wire_reply *r;
		q = rig_get(name(i), 0, LEN);
		r = rig_ask(&q);
		assert_int_equal(r->status, WIRE_OK);
		assert_int_equal(r->get.value_len, LEN);
		rig_fill(want, LEN, i);
		rig_until(memcmp(rig_memory(0), want, LEN) == 0);
	}
	assert_true(rig_stat(WIRE_STAT_TIER_HITS) > VALUES / 2);
	assert_int_equal(rig_stat(WIRE_STAT_GETS), VALUES);
	assert_int_equal(rig_stat(WIRE_STAT_HITS), VALUES);
}

static void a_get_of_memory_alone_is_a_miss_that_says_why(void **state)
{
	struct wire_request q;
	const struct wire_reply *r;
	(void)state;
	fill();
	q = rig_get(name(0), 0, LEN);
	q.flags = WIRE_GET_MEMORY_ONLY;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_NOTFOUND);
	assert_int_equal(r->flags, WIRE_GET_ON_TIER);
	q = rig_get("absent", 0, LEN);
	q.flags = WIRE_GET_MEMORY_ONLY;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_NOTFOUND);
	assert_int_equal(r->flags, 0);
}

/* The other half of the reads is for others: a miss that says why. */
static void a_tenant_waits_for_half_of_the_reads(void **state)
{
	struct tenant t = {.limit = {.requests = UINT64_MAX, .read_rate = UINT64_MAX}};
	struct session *o = &rig.attachment->own;
	struct wire_request q;
	const struct wire_reply *r;
	(void)state;
	fill();
	o->tenant = &t;
	t.tier_gets = TIER_GETS_MAX / 2;
	q = rig_get(name(0), 0, LEN);
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_NOTFOUND);
	assert_int_equal(r->flags, WIRE_GET_ON_TIER);
	t.tier_gets = TIER_GETS_MAX / 2 - 1;
	q = rig_get(name(0), 0, LEN);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_int_equal(t.tier_gets, TIER_GETS_MAX / 2 - 1);
	o->tenant = NULL;
}

static void exists_reports_what_is_on_the_tier(void **state)
{
	uint8_t digests[3 * WIRE_DIGEST_BYTES];
	struct wire_request q = rig_request(WIRE_EXISTS, NULL);
	const struct wire_reply *r;
	const char *keys[] = {"v0", "v59", "absent"};
	(void)state;
	fill();
	for (unsigned i = 0; i < 3; i++)
		wire_exists_put(digests, i, kv_hash_key(keys[i], strlen(keys[i]), rig.shard->store.index.digest_seed));
	q.exists.count = 3;
	q.exists.digests = digests;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->exists.prefix, 2);
	assert_int_equal(r->exists.bitmap[0], 3);
	assert_true(r->flags & WIRE_EXISTS_TIER);
	assert_int_equal(r->exists.tier[0], 1);
}

static void a_deleted_value_is_gone_from_the_tier(void **state)
{
	struct wire_request q;
	(void)state;
	fill();
	q = rig_request(WIRE_DELETE, name(0));
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	q = rig_request(WIRE_DELETE, name(0));
	assert_int_equal(rig_ask(&q)->status, WIRE_NOTFOUND);
	q = rig_get(name(0), 0, LEN);
	assert_int_not_equal(rig_ask(&q)->status, WIRE_OK);
}

/* A TOUCH of a value that was there long ago. */
static void touch_earlier(uint32_t ttl_s)
{
	struct wire_request q = rig_request(WIRE_TOUCH, name(1));
	q.flags = WIRE_TOUCH_AT | WIRE_TOUCH_MARK;
	q.touch.young_ns = shard_clock(rig.shard->opt.shard_seed, 1);
	q.touch.ttl_s = ttl_s;
	(void)rig_ask(&q);
}

static void a_touch_reaches_the_tier(void **state)
{
	struct wire_request q;
	const struct wire_reply *r;
	(void)state;
	fill();
	q = rig_request(WIRE_TOUCH, name(1));
	q.touch.ttl_s = 1000;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->touch.left_ms, 1000000);
	q = rig_request(WIRE_TOUCH, name(1));
	q.flags = WIRE_TOUCH_LOOK;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_in_range(r->touch.left_ms, 990000, 1000000);
}

static uint64_t left_ms(const char *key)
{
	struct wire_request q = rig_request(WIRE_TOUCH, key);
	const struct wire_reply *r;
	q.flags = WIRE_TOUCH_LOOK;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	return r->touch.left_ms;
}

/* The tier does not know when a value was born. So a TOUCH of an earlier value makes no life longer there, and who asks
 * for a younger value than a deleted one gets none. */
static void a_touch_of_an_earlier_value_spares_the_tier(void **state)
{
	struct wire_request q;
	(void)state;
	fill();
	q = rig_request(WIRE_TOUCH, name(1));
	q.touch.ttl_s = 1000;
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	touch_earlier(5000);
	assert_in_range(left_ms(name(1)), 990000, 1000000);
	q = rig_request(WIRE_TOUCH, name(1));
	q.flags = WIRE_TOUCH_YOUNG;
	q.touch.young_ns = 1;
	q.touch.ttl_s = 5000;
	assert_int_equal(rig_ask(&q)->status, WIRE_NOTFOUND);
	assert_in_range(left_ms(name(1)), 990000, 1000000);
	touch_earlier(100);
	assert_in_range(left_ms(name(1)), 90000, 100000);
}

/* What memory has is what the tier has. A DELETE or TOUCH of an earlier value changes neither. */
static void a_younger_value_in_memory_is_spared_on_the_tier(void **state)
{
	uint64_t hash, clock_ns = shard_clock(rig.shard->opt.shard_seed, 1);
	struct wire_request q;
	(void)state;
	fill();
	q = rig_get(name(0), 0, LEN);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK); /* now it is in both */
	hash = store_hash(&rig.shard->store, name(0), strlen(name(0)));
	rig_quiet();
	assert_non_null(index_peek(&rig.shard->store.index, hash));
	q = rig_request(WIRE_DELETE, name(0));
	q.flags = WIRE_DELETE_AT;
	q.drop.which = clock_ns;
	assert_int_equal(rig_ask(&q)->status, WIRE_NOTFOUND);
	q = rig_request(WIRE_TOUCH, name(0));
	q.flags = WIRE_TOUCH_AT;
	q.touch.young_ns = clock_ns;
	q.touch.ttl_s = 1;
	assert_int_equal(rig_ask(&q)->status, WIRE_DELETED);
	for (unsigned i = 0; i < VALUES; i++) { /* it leaves memory again */
		char key[16];
		snprintf(key, sizeof(key), "w%u", i);
		rig_store(key, LEN, i);
		settle();
	}
	assert_null(index_peek(&rig.shard->store.index, hash));
	assert_int_equal(left_ms(name(0)), UINT64_MAX);
}

/* Of two values of a key the younger one stays, though the tier alone has it. */
static int32_t copy(const char *key, uint64_t seed, uint64_t born_ns)
{
	uint64_t until_ns = loop_now(rig.loop) + 10000000000ull;
	int32_t status = WIRE_BUSY;
	bool asked = false;
	while (status == WIRE_BUSY && loop_now(rig.loop) < until_ns) {
		struct wire_request q;
		rig_fill(rig_memory(0), LEN, seed);
		q = rig_put(key, LEN, 0, LEN, kv_hash_block(rig_memory(0), LEN),
			    WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_COPY);
		q.put.born_ns = shard_clock(rig.shard->opt.shard_seed, born_ns);
		status = rig_ask(&q)->status;
		asked |= status == WIRE_BUSY;
		rig_quiet();
	}
	assert_true(asked); /* memory did not have it */
	return status;
}

static void get_check(const char *key, uint64_t seed)
{
	static uint8_t want[LEN];
	struct wire_request q = rig_get(key, 0, LEN);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	rig_quiet();
	rig_fill(want, LEN, seed);
	assert_memory_equal(rig_memory(0), want, LEN);
}

static void a_late_copy_of_an_older_value_is_refused(void **state)
{
	uint64_t before_ns = loop_now(rig.loop);
	(void)state;
	fill();
	assert_int_equal(copy(name(0), 1000, before_ns), WIRE_DELETED);
	assert_int_equal(rig_stat(WIRE_STAT_COPIES_REFUSED), 1);
	get_check(name(0), 0);
	assert_int_equal(copy(name(1), 1000, loop_now(rig.loop)), WIRE_OK);
	get_check(name(1), 1000);
	assert_int_equal(copy(name(2), 2, before_ns), WIRE_OK); /* the same value */
	get_check(name(2), 2);
}

static void a_copy_for_spare_room_reads_nothing(void **state)
{
	struct wire_request q;
	(void)state;
	fill();
	rig_fill(rig_memory(0), LEN, 0);
	q = rig_put(name(0), LEN, 0, LEN, kv_hash_block(rig_memory(0), LEN),
		    WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_COPY | WIRE_PUT_SPARE);
	q.put.born_ns = shard_clock(rig.shard->opt.shard_seed, loop_now(rig.loop));
	assert_int_equal(rig_ask(&q)->status, WIRE_NOMEM);
	rig_quiet();
	assert_null(store_find(&rig.shard->store, name(0), strlen(name(0)), loop_now(rig.loop)));
}

static void a_waiting_get_can_be_cancelled(void **state)
{
	struct wire_request q, cancel = rig_request(WIRE_CANCEL, NULL);
	const struct wire_reply *r;
	(void)state;
	fill();
	q = rig_get(name(2), 0, LEN);
	cancel.cancel.id = q.id;
	rig_send(&q);
	rig_send(&cancel);
	rig_until(rig_find(cancel.id) && rig_find(q.id));
	r = rig_find(q.id);
	assert_true(r->status == WIRE_CANCELED || r->status == WIRE_OK);
}

/* Its session ends while GETs wait: nothing is left of them (rig_close). */
static void a_session_that_ends_leaves_no_wait(void **state)
{
	struct wire_request q;
	(void)state;
	fill();
	for (unsigned i = 0; i < RIG_CREDITS; i++) {
		q = rig_get(name(i), 0, LEN);
		rig_send(&q);
	}
	rig_attachment_end();
}

/* ---- the layout of a file ---- */

#define FILE_BYTES (24ull << 20)

static void super_write(int fd, uint64_t at, uint32_t shard, uint32_t shards)
{
	uint8_t page[TIER_PAGE] = {0};
	struct tier_super s = {
		.shard = shard, .shards = shards, .offset = at, .bytes = FILE_BYTES / shards, .segments = 4};
	tier_super_seal(&s);
	memcpy(page, &s, sizeof(s));
	assert_int_equal(pwrite(fd, page, sizeof(page), (off_t)at), sizeof(page));
}

/* Whether a superblock is there after a shard has opened its part. */
static bool stays(const struct tier_file *f, unsigned shard, unsigned shards)
{
	struct tier_device *d = NULL;
	struct kv_error err = {0};
	uint8_t page[TIER_PAGE];
	struct tier_super s;
	bool is;
	assert_int_equal(tier_device_open(f, shard, shards, NULL, &d, &err), 0);
	assert_int_equal(pread(f->fd, page, sizeof(page), (off_t)d->offset), sizeof(page));
	is = tier_super_check(page, &s) == 0;
	tier_device_close(&d);
	return is;
}

/* With other worker threads a part begins where a value lies, and a client has chosen its bytes. */
static void a_superblock_inside_a_value_is_not_believed(void **state)
{
	char name_of[] = "/tmp/kvrail-tier-layout.XXXXXX";
	struct tier_file f = {.path = name_of, .bytes = FILE_BYTES, .buffered = true};
	struct tier_device *d = NULL;
	struct kv_error err = {0};
	(void)state;
	f.fd = mkstemp(name_of);
	assert_true(f.fd >= 0);
	assert_int_equal(ftruncate(f.fd, (off_t)FILE_BYTES), 0);
	super_write(f.fd, 0, 0, 2);
	super_write(f.fd, FILE_BYTES / 2, 1, 2);
	super_write(f.fd, FILE_BYTES / 3, 1, 3); /* in a value */
	assert_true(stays(&f, 0, 2));
	assert_true(stays(&f, 1, 2));
	f.later = true; /* another server has the file: nothing is written */
	assert_int_equal(tier_device_open(&f, 1, 3, NULL, &d, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "another size or number of worker threads"));
	f.later = false;
	assert_true(stays(&f, 0, 3)); /* its shard makes a new one */
	assert_false(stays(&f, 1, 3));
	super_write(f.fd, FILE_BYTES / 3, 1, 3);
	super_write(f.fd, 0, 0, 3);
	assert_true(stays(&f, 1, 3));
	close(f.fd);
	unlink(name_of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_value_that_left_memory_is_read, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_get_of_memory_alone_is_a_miss_that_says_why, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_tenant_waits_for_half_of_the_reads, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(exists_reports_what_is_on_the_tier, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_deleted_value_is_gone_from_the_tier, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_touch_reaches_the_tier, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_touch_of_an_earlier_value_spares_the_tier, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_younger_value_in_memory_is_spared_on_the_tier, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_late_copy_of_an_older_value_is_refused, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_copy_for_spare_room_reads_nothing, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_waiting_get_can_be_cancelled, rig_open, rig_close),
		cmocka_unit_test_setup_teardown(a_session_that_ends_leaves_no_wait, rig_open, rig_close),
		cmocka_unit_test(a_superblock_inside_a_value_is_not_believed),
	};
	return cmocka_run_group_tests_name("kvserver/tier", tests, group_up, group_down);
}
