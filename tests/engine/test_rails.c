/* SPDX-License-Identifier: Apache-2.0 */
/* test_rails.c -- several rails: one that cannot be rebuilt is out, and another stands for it until it is back. On a
 * fabric that does what the test says (fake/fake.h). */
#include "tests/engine/fake/rig.h"

#include <errno.h>

static unsigned address_of(unsigned rail)
{
	struct te_address a;
	assert_int_equal(te_address(n.te, rail, &a), 0);
	return a.data[7];
}

/* Open a peer of as many rails and say on which of ours an operation of each link goes. */
static void links_go_over(const unsigned *want, unsigned count)
{
	struct te_address a[4] = {
		{.len = 2, .data = {1}}, {.len = 2, .data = {2}}, {.len = 2, .data = {3}}, {.len = 2, .data = {4}}};
	static const uint8_t data[8];
	struct te_peer *p;
	assert_int_equal(te_peer_open(n.te, a, count, &p, NULL), 0);
	assert_int_equal(te_peer_links(p), count);
	for (unsigned i = 0; i < count; i++) {
		struct result r = {0};
		unsigned before = fake.count;
		te_msg_send(n.te, p, i, msg_for(&n, &r, data, 8), KV_NEVER);
		assert_int_equal(fake.count, before + 1);
		assert_int_equal(fake.posts[before].rail, want[i]);
		fake_complete(before, 0);
		turn();
		assert_int_equal(r.done, 1);
	}
	te_peer_close(&p);
}

static void a_rail_that_cannot_be_rebuilt_is_out_and_another_stands_for_it(void **state)
{
	struct te_remote remote;
	struct te_key keys[3];
	struct te_stats s;
	(void)state;
	open_rails(3);
	fake.fails_of[1] = 2;
	rail_dies(1);
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, 0); /* the engine works */
	assert_true(te_rail_up(n.te, 0) && !te_rail_up(n.te, 1) && te_rail_up(n.te, 2));
	te_rail_stats(n.te, 1, &s);
	assert_int_equal(s.rail_failures, 1);
	assert_int_equal(s.rebuild_failures, 1);
	assert_int_equal(address_of(0), 0);
	assert_int_equal(address_of(1), 2);
	assert_int_equal(address_of(2), 2);
	te_region_announce(area.region, &remote, keys);
	assert_int_equal(remote.rails, 3);
	assert_int_equal(keys[1].key, keys[2].key);
	assert_int_not_equal(keys[0].key, keys[2].key);
	links_go_over((const unsigned[]){0, 2, 2}, 3);
	/* Tried again without disturbing anybody until it works; then it has its place back. */
	fake_now_ns += 100000000;
	turn();
	assert_int_equal(fake.rebuilds_of[1], 2);
	assert_int_equal(n.resets, 1);
	fake_now_ns += 200000000;
	turn();
	assert_int_equal(fake.rebuilds_of[1], 3);
	assert_int_equal(n.resets, 2);
	assert_int_equal(n.reset_status, 0);
	assert_true(te_rail_up(n.te, 1));
	te_region_announce(area.region, &remote, keys);
	assert_int_not_equal(keys[1].key, keys[2].key);
	links_go_over((const unsigned[]){0, 1, 2}, 3);
	close_all();
}

static void a_rail_that_fails_again_soon_stays_out_for_longer_each_time(void **state)
{
	(void)state;
	open_rails(2);
	rail_dies(1); /* the first time it is rebuilt at once */
	assert_true(te_rail_up(n.te, 1));
	assert_int_equal(fake.shuts, 0);
	for (uint64_t out_ns = 1000000000; out_ns <= 60000000000;
	     out_ns = out_ns == 60000000000 ? out_ns + 1 : KV_MIN(2 * out_ns, 60000000000ull)) {
		fake_now_ns += 5000000000;
		rail_dies(1);
		assert_false(te_rail_up(n.te, 1));
		unsigned rebuilds = fake.rebuilds_of[1];
		fake_now_ns += out_ns - 1;
		turn();
		assert_int_equal(fake.rebuilds_of[1], rebuilds);
		assert_false(te_rail_up(n.te, 1));
		fake_now_ns += 1;
		turn();
		assert_int_equal(fake.rebuilds_of[1], rebuilds + 1);
		assert_true(te_rail_up(n.te, 1));
	}
	fake_now_ns += 20000000000; /* a failure later on is one like the first */
	rail_dies(1);
	assert_true(te_rail_up(n.te, 1));
	assert_int_equal(n.reset_status, 0);
	close_all();
}

/* The same peer, given its addresses again: its links go by the rails that are up by then. */
static void a_peer_that_is_readdressed_goes_by_the_rails_that_are_up(void **state)
{
	struct te_address a[2] = {{.len = 2, .data = {1}}, {.len = 2, .data = {2}}};
	static const uint8_t data[8];
	struct te_peer *p;
	(void)state;
	open_rails(2);
	assert_int_equal(te_peer_open(n.te, a, 2, &p, NULL), 0);
	fake.fails_of[1] = 1;
	for (unsigned i = 0; i < 2; i++) {
		struct result r = {0};
		unsigned before = fake.count;
		if (i == 0)
			rail_dies(1);
		fake_now_ns += i * 300000000;
		turn(); /* it is out, and then back */
		assert_int_equal(te_rail_up(n.te, 1), i);
		assert_int_equal(te_peer_readdress(p, a, 2, NULL), 0);
		te_msg_send(n.te, p, 1, msg_for(&n, &r, data, 8), KV_NEVER);
		assert_int_equal(fake.count, before + 1);
		assert_int_equal(fake.posts[before].rail, i);
		fake_complete(before, 0);
		turn();
		assert_int_equal(r.status, 0);
	}
	close_all();
}

/* Peers break connections, and a NIC that works is not left out for that. */
static void connections_that_break_are_no_failures_of_a_rail(void **state)
{
	struct te_address a[2] = {{.len = 2, .data = {1}}, {.len = 2, .data = {2}}};
	struct te_stats s;
	(void)state;
	open_rails(2);
	fake.caps.breaks_stay = true;
	for (unsigned i = 0; i < 5; i++) {
		static const uint8_t data[8];
		struct result r = {0};
		struct te_peer *p;
		unsigned before = fake.count;
		assert_int_equal(te_peer_open(n.te, a, 2, &p, NULL), 0);
		te_msg_send(n.te, p, 1, msg_for(&n, &r, data, 8), KV_NEVER);
		assert_int_equal(fake.posts[before].rail, 1);
		fake_complete(before, -ENOTCONN);
		turn();
		assert_int_equal(fake.rebuilds_of[1], i + 1);
		assert_true(te_rail_up(n.te, 1));
		te_peer_close(&p);
		fake_now_ns += 300000000;
		turn();
		assert_int_equal(n.resets, i + 1);
	}
	te_rail_stats(n.te, 1, &s);
	assert_int_equal(s.rail_failures, 0);
	close_all();
}

static void the_last_rail_is_never_left_out(void **state)
{
	(void)state;
	open_rails(2);
	fake.fails_of[0] = 1000;
	rail_dies(0);
	assert_false(te_rail_up(n.te, 0));
	for (unsigned i = 0; i < 5; i++) {
		fake_now_ns += 1000000;
		while (n.resets < i + 1)
			fake_now_ns += 250000000, turn(); /* fences are told late after a burst */
		rail_dies(1);
		fake_now_ns += 250000000;
		turn();
		assert_true(te_rail_up(n.te, 1));
		assert_int_equal(n.reset_status, 0);
	}
	assert_int_equal(fake.shuts, 0);
	close_all();
}

static void an_engine_without_rails_is_down_until_the_first_is_back(void **state)
{
	struct te_address a = {.len = 2, .data = {1}};
	struct te_peer *p = NULL;
	(void)state;
	open_rails(2);
	fake.fails_of[0] = 1;
	fake.fails_of[1] = 2;
	rail_dies(0); /* both are rebuilt */
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, -KV_ELIMIT);
	assert_int_equal(te_address(n.te, 0, &a), -KV_EPROVIDER);
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, NULL), -KV_EPROVIDER);
	fake_now_ns += 100000000;
	turn();
	assert_int_equal(n.reset_status, 0);
	assert_true(te_rail_up(n.te, 0) && !te_rail_up(n.te, 1));
	links_go_over((const unsigned[]){0, 0}, 2);
	fake_now_ns += 200000000;
	turn();
	assert_true(te_rail_up(n.te, 1));
	links_go_over((const unsigned[]){0, 1}, 2);
	close_all();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		NODE_CASE(a_rail_that_cannot_be_rebuilt_is_out_and_another_stands_for_it),
		NODE_CASE(a_rail_that_fails_again_soon_stays_out_for_longer_each_time),
		NODE_CASE(a_peer_that_is_readdressed_goes_by_the_rails_that_are_up),
		NODE_CASE(connections_that_break_are_no_failures_of_a_rail),
		NODE_CASE(the_last_rail_is_never_left_out),
		NODE_CASE(an_engine_without_rails_is_down_until_the_first_is_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
