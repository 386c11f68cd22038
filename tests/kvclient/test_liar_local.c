/* SPDX-License-Identifier: Apache-2.0 */
/* test_liar_local.c -- a client that reads values in the memory of a server on its host which lies about that memory,
 * its leases, or the way to share it. Whatever it says, a call ends soon after its deadline with the right bytes or an
 * error, the client connects, and a server that becomes honest is used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"
#include "victim.h"

#define WAIT_NS 60000000000ull

static int setup(void **state)
{
	(void)state;
	kvc_program_setup();
	victim = (struct victim){.timeout_ns = 1000000000, .connect_timeout_ns = WAIT_NS, .wait_ns = WAIT_NS};
	liar_local = true;
	victim_start(KVC_MODE_AUTO);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	victim_stop();
	return 0;
}

static bool is_local(struct kvc_pool *pool)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	assert_int_equal(kvc_server_info(pool, 0, 0, &s), 0);
	return s.local;
}

static void local_wait(void)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (!is_local(victim.pool)) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		usleep(1000);
	}
}

/* A client whose Unix socket was closed attaches anew. */
static void again_wait(enum lie lie, uint64_t before)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (lie == LIE_LOCAL_CLOSE && victim_counters(victim.pool).reattaches == before) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		usleep(1000);
	}
}

/* code: what the lie ends with. */
static const struct {
	enum lie lie;
	const char *name;
	int code;
} rows[] = {
	{LIE_NONE, "none", 0},
	{LIE_LEASE_OUTSIDE, "bytes outside the arena", -KV_EPROTO},
	{LIE_LEASE_EDGE, "bytes across the arena's end", -KV_EPROTO},
	{LIE_LEASE_OTHER, "other bytes", -KV_ECORRUPT},
	{LIE_LEASE_LONG, "a length that cannot be", -KV_EPROTO},
	{LIE_LEASE_TWICE, "two replies", 0},
	{LIE_LEASE_SILENT, "no answer", -KV_ETIMEOUT},
	{LIE_LOCAL_EMPTY, "no lease", -KV_EPROTO},
	{LIE_LOCAL_POSTED, "writes", -KV_EPROTO},
	{LIE_LOCAL_FOLLOWS, "bytes that follow", -KV_EPROTO},
	{LIE_LOCAL_INLINE, "too few bytes inside", -KV_EPROTO},
	{LIE_LOCAL_MARK, "another mark", -KV_ETIMEOUT},
	{LIE_LOCAL_SHARD, "another shard", -KV_ETIMEOUT},
	{LIE_LOCAL_JUNK, "junk before it", 0},
	{LIE_LOCAL_BUSY, "never a lease", 0},
	{LIE_LOCAL_CLOSE, "the socket is closed", 0},
};

static void lies_about_a_lease_give_right_bytes_or_an_error(void **state)
{
	(void)state;
	local_wait();
	for (unsigned i = 0; i < 2 * KV_COUNT(rows); i++) {
		unsigned k = i / 2;
		uint64_t before = victim_counters(victim.pool).reattaches;
		int64_t rc;
		atomic_store(&liar_lie, rows[k].lie);
		rc = victim_get_answered(victim.pool, victim.dst[i % 2], rows[k].code);
		victim_tell(rows[k].name, i % 2, rc, rows[k].code);
		again_wait(rows[k].lie, before);
		victim_recovers();
		local_wait();
	}
}

static void leases_are_given_back(void **state)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS, given, back;
	const struct kvc_call ping = {.size = sizeof(ping)};
	(void)state;
	victim_recovers();
	local_wait();
	assert_int_equal(kvc_ping(victim.pool, &ping), 0);
	given = atomic_load(&liar_leases);
	back = atomic_load(&liar_releases);
	for (unsigned i = 0; i < 100; i++)
		victim_get_patiently(victim.pool, victim.dst[i % 2]);
	given = atomic_load(&liar_leases) - given;
	assert_true(given >= 100);
	while (atomic_load(&liar_releases) < back + given) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		assert_int_equal(kvc_ping(victim.pool, &ping), 0);
	}
}

static void lies_to_a_borrower_give_right_bytes_or_an_error(void **state)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = 1000000000};
	(void)state;
	local_wait();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		uint64_t before = victim_counters(victim.pool).reattaches;
		struct kvc_borrowed b;
		int64_t rc;
		atomic_store(&liar_lie, rows[i].lie);
		rc = kvc_get_borrowed(victim.pool, (struct kvc_key){"k", 1}, 0, &call, &b);
		print_message("# %s: %s\n", rows[i].name, rc < 0 ? kvc_errname((int)rc) : "right bytes");
		if (rc >= 0) {
			assert_int_equal(rc, LIAR_VALUE);
			assert_true(test_same(b.data, LIAR_VALUE, LIAR_SEED));
		} else if (rows[i].code < 0) {
			assert_int_equal(rc, rows[i].code);
		} else {
			assert_int_equal(rc, -KV_ETIMEOUT); /* on a busy machine */
		}
		again_wait(rows[i].lie, before);
		victim_recovers();
		local_wait();
		kvc_borrowed_release(NULL, &b);
	}
	assert_int_equal(victim_counters(victim.pool).local_leases, 0);
}

/* The client connects all the same, and uses the fabric. */
static void lies_about_the_memory_are_not_believed(void **state)
{
	(void)state;
	for (int lie = LIE_JOIN_SILENT; lie <= LIE_JOIN_PROOF; lie++) {
		struct kvc_options o = victim_options();
		struct kvc_pool *other = NULL;
		struct kv_error err = {0};
		uint64_t began = kv_clock_now(&kv_clock_monotonic);
		o.base_client_id = LIAR_NEWCOMER;
		atomic_store(&liar_lie, lie);
		if (kvc_pool_open(&o, &other, &err) < 0)
			fail_msg("%s", err.text);
		assert_true(kv_clock_now(&kv_clock_monotonic) - began < WAIT_NS / 2);
		print_message("# %d: %s\n", lie - LIE_JOIN_SILENT, is_local(other) ? "local" : "over the fabric");
		assert_int_equal(is_local(other), lie == LIE_JOIN_TWICE);
		atomic_store(&liar_lie, LIE_NONE);
		victim_get_patiently(other, victim.dst[0]);
		kvc_pool_close(&other);
	}
	victim_recovers();
}

static void memory_that_nobody_asked_for_ends_the_connection(void **state)
{
	struct kvc_options o = victim_options();
	struct kvc_pool *other = NULL;
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	(void)state;
	o.local = KVC_LOCAL_OFF;
	assert_int_equal(kvc_pool_open(&o, &other, NULL), 0);
	atomic_store(&liar_lie, LIE_UNASKED);
	while (victim_counters(other).lost_connections == 0)
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
	victim_recovers();
	while (victim_get(other, victim.dst[0]) < 0)
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
	kvc_pool_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lies_about_a_lease_give_right_bytes_or_an_error),
		cmocka_unit_test(leases_are_given_back),
		cmocka_unit_test(lies_to_a_borrower_give_right_bytes_or_an_error),
		cmocka_unit_test(lies_about_the_memory_are_not_believed),
		cmocka_unit_test(memory_that_nobody_asked_for_ends_the_connection),
	};
	test_local = KVC_LOCAL_AUTO;
	return cmocka_run_group_tests(tests, setup, teardown);
}
