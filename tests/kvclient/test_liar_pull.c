/* SPDX-License-Identifier: Apache-2.0 */
/* test_liar_pull.c -- a client that reads values by itself, against a server that lies about where they are and for how
 * long. Whatever it says, a call ends soon after its deadline with the right bytes or an error, and a server that
 * becomes honest is used again.
 *
 * Over tcp (or KVRAIL_TEST_PROVIDER) where libfabric lets clients read there, else over shm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "engine/engine.h"
#include "kvclient/kvclient.h"
#include "tests/provider.h"
#include "victim.h"

#define WAIT_NS 60000000000ull

/* Whether this libfabric lets readers live over the provider under test. */
static bool reads(void)
{
	const struct te_options to = {.provider = test_provider()};
	const struct te_handlers handlers = {0};
	struct te_info info = {.reads_refused = true};
	struct te *te;
	if (te_open(&to, &handlers, NULL, &te, NULL) == 0) {
		te_info(te, &info);
		te_close(&te);
	}
	return !info.reads_refused;
}

static int setup(void **state)
{
	(void)state;
	kvc_program_setup();
	victim = (struct victim){.timeout_ns = 2000000000, .connect_timeout_ns = WAIT_NS, .wait_ns = WAIT_NS};
	liar_provider = reads() ? test_provider() : "shm";
	print_message("# over %s\n", liar_provider);
	if (strcmp(liar_provider, "shm") == 0 && access("/dev/shm", W_OK) != 0) {
		print_message("# nowhere to read: tcp needs libfabric 1.22, shm a /dev/shm\n");
		return 0;
	}
	liar_pull = true;
	victim_start(KVC_MODE_PULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	victim_stop();
	return 0;
}

static void need_liar(void)
{
	if (!victim.address) {
		print_message("nowhere to read: tcp needs libfabric 1.22, shm a /dev/shm\n");
		skip();
	}
}

/* code: what the lie ends with. */
static const struct {
	enum lie lie;
	const char *name;
	int code;
} about_leases[] = {
	{LIE_NONE, "none", 0},
	{LIE_LEASE_OUTSIDE, "bytes outside the arena", -KV_EPROTO},
	{LIE_LEASE_EDGE, "bytes across the arena's end", -KV_EPROTO},
	{LIE_LEASE_OTHER, "other bytes", -KV_ECORRUPT},
	{LIE_LEASE_SHORT, "a lease that is over at once", 0},
	{LIE_LEASE_LONG, "a length that cannot be", -KV_EPROTO},
	{LIE_LEASE_TWICE, "two replies", 0},
	{LIE_LEASE_PUSHED, "bytes that are pushed as well", VICTIM_ANY},
	{LIE_LEASE_SILENT, "no answer", -KV_ETIMEOUT},
};

static void lies_about_a_lease_give_right_bytes_or_an_error(void **state)
{
	(void)state;
	need_liar();
	for (unsigned i = 0; i < 2 * KV_COUNT(about_leases); i++) {
		unsigned k = i / 2;
		struct kvc_counters before = victim_counters(victim.pool), after;
		atomic_store(&liar_lie, about_leases[k].lie);
		int64_t rc = victim_get_answered(victim.pool, victim.dst[i % 2], about_leases[k].code);
		victim_tell(about_leases[k].name, i % 2, rc, about_leases[k].code);
		after = victim_counters(victim.pool);
		if (about_leases[k].lie == LIE_NONE)
			assert_true(after.pulls > before.pulls);
		if (about_leases[k].lie == LIE_LEASE_SHORT)
			assert_true(after.pulls_expired >= before.pulls_expired + 2);
		if (about_leases[k].lie == LIE_LEASE_OTHER)
			assert_true(after.corrupt > before.corrupt);
		victim_recovers();
	}
}

/* With calls and after them; a lease that is over is not given back. */
static void leases_are_given_back(void **state)
{
	uint64_t until, given, back;
	(void)state;
	need_liar();
	victim_recovers();
	given = atomic_load(&liar_leases);
	back = atomic_load(&liar_releases);
	for (unsigned i = 0; i < 100; i++)
		victim_get_patiently(victim.pool, victim.dst[i % 2]);
	given = atomic_load(&liar_leases) - given;
	assert_true(given >= 100);
	until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (atomic_load(&liar_releases) < back + given) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		usleep(1000);
	}
}

static void lies_about_the_arena_give_right_bytes_or_an_error(void **state)
{
	static const struct {
		enum lie lie;
		const char *name;
		int open, get;
	} rows[] = {{LIE_ARENA_KEY, "another key", 0, VICTIM_ANY},
		    {LIE_ARENA_BASE, "another base", 0, -KV_ECORRUPT},
		    {LIE_ARENA_SHARD, "another shard", -KV_EPROTO, 0},
		    {LIE_ARENA_SMALL, "a small one", 0, -KV_EPROTO},
		    {LIE_ARENA_NONE, "none", -KV_ETIMEOUT, 0}};
	(void)state;
	need_liar();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		struct kvc_options o = victim_options();
		struct kvc_pool *other = NULL;
		struct kv_error err = {0};
		if (rows[i].open == -KV_ETIMEOUT)
			o.connect_timeout_ns = 1000000000ull;
		o.mode = KVC_MODE_PULL;
		o.base_client_id = LIAR_NEWCOMER;
		atomic_store(&liar_lie, rows[i].lie);
		int rc = kvc_pool_open(&o, &other, &err);
		atomic_store(&liar_lie, LIE_NONE);
		print_message("# %s: %s\n", rows[i].name, rc < 0 ? err.text : "taken");
		assert_int_equal(rc, rows[i].open);
		if (rc == 0) {
			int64_t got = victim_get_answered(other, victim.dst[0], rows[i].get);
			if (rows[i].get != VICTIM_ANY)
				assert_int_equal(got, rows[i].get);
		}
		kvc_pool_close(&other);
	}
	victim_recovers();
}

/* A client that does not ask for leases gets none; a server that must give some and does not is an error. */
static void modes_decide_who_moves_the_bytes(void **state)
{
	struct kvc_options o = victim_options();
	struct kvc_info info = {.size = sizeof(info)};
	struct kvc_server_info server = {.size = sizeof(server)};
	struct kvc_pool *other = NULL;
	struct kv_error err = {0};
	(void)state;
	need_liar();
	victim_recovers();
	assert_int_equal(kvc_info(victim.pool, &info), 0);
	assert_string_equal(info.mode, "pull");
	assert_int_equal(kvc_server_info(victim.pool, 0, 0, &server), 0);
	assert_int_equal(server.pull, 1);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t given = atomic_load(&liar_leases);
		o.mode = i ? KVC_MODE_PUSH : KVC_MODE_AUTO;
		if (kvc_pool_open(&o, &other, &err) != 0)
			fail_msg("%s", err.text);
		victim_get_patiently(other, victim.dst[0]);
		assert_int_equal(atomic_load(&liar_leases), given);
		assert_int_equal(victim_counters(other).pulls, 0);
		assert_int_equal(kvc_info(other, &info), 0);
		assert_string_equal(info.mode, "push");
		kvc_pool_close(&other);
	}
	liar_pull = false;
	o.mode = KVC_MODE_PULL;
	assert_int_equal(kvc_pool_open(&o, &other, &err), -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "--allow-pull"));
	liar_pull = true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lies_about_a_lease_give_right_bytes_or_an_error),
		cmocka_unit_test(leases_are_given_back),
		cmocka_unit_test(lies_about_the_arena_give_right_bytes_or_an_error),
		cmocka_unit_test(modes_decide_who_moves_the_bytes),
	};
	return cmocka_run_group_tests_name("kvclient/liar_pull", tests, setup, teardown);
}
