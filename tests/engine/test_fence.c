/* SPDX-License-Identifier: Apache-2.0 */
/* test_fence.c -- endpoints that die or are fenced: rebuilds, cuts of one peer, and what waits for an endpoint that
 * closes slowly. On a fabric that does what the test says (fake/fake.h). */
#include "tests/engine/fake/rig.h"

#include <errno.h>

static void a_dead_endpoint_is_rebuilt_and_told(void **state)
{
	struct te_xfer x, queued;
	struct result r, rq, rm;
	uint8_t data[8] = {0};
	struct te_address again = {.len = 2, .data = {9}};
	(void)state;
	open_with((struct te_options){.link_ops = 1, .link_bytes = 1}, 64, 1024);
	struct te_peer *p = peer(1);
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, data, 8), KV_NEVER);
	start(&x, &r, TE_WRITE, p, 3 * CHUNK, 0);
	start(&queued, &rq, TE_WRITE, p, CHUNK, 0);
	fake_event(0, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	turn();
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(fake.recvs_posted, 16);
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(r.status, -KV_ERESET);
	assert_int_equal(rm.status, -KV_ERESET);
	assert_int_equal(r.done + rm.done, 2);
	assert_int_equal(rq.done, 0);
	assert_int_equal(te_xfer_start(n.te, &x), -KV_EPEERDOWN);
	unsigned before = fake.count;
	turn();
	assert_int_equal(fake.count, before); /* nothing goes to a void peer */
	assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	turn();
	assert_int_equal(fake.count, before + 1);
	assert_int_equal(fake.posts[before].to, 9);
	fake_complete(before, 0);
	turn();
	assert_int_equal(rq.status, 0);
	assert_int_equal(rq.done, 1);
	close_all();
}

static void a_rebuild_that_fails_is_retried_with_back_off(void **state)
{
	struct te_address a;
	struct te_peer *q;
	struct kv_error err;
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	fake.rebuild_failures = 3;
	assert_int_equal(te_peer_fence(p, &err), -KV_ELIMIT);
	assert_string_equal(err.text, "told to fail");
	turn();
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, -KV_ELIMIT);
	assert_int_equal(te_address(n.te, 0, &a), -KV_EPROVIDER);
	a = (struct te_address){.len = 2};
	assert_int_equal(te_peer_open(n.te, &a, 1, &q, &err), -KV_EPROVIDER);
	assert_int_equal(te_peer_fence(p, &err), -KV_ELIMIT); /* closed is as safe as rebuilt */
	assert_int_equal(fake.rebuilds, 1);
	uint64_t steps[] = {100000000, 200000000, 400000000};
	for (unsigned i = 0; i < 3; i++) {
		fake_now_ns += steps[i] - 1;
		turn();
		assert_int_equal(fake.rebuilds, i + 1);
		fake_now_ns += 1;
		turn();
		assert_int_equal(fake.rebuilds, i + 2);
		assert_int_equal(n.resets, i + 2);
	}
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	struct te_stats s;
	te_stats(n.te, &s);
	assert_int_equal(s.rebuild_failures, 3);
	close_all();
}

/* ---- the fence of one peer alone ---- */

static void a_cut_ends_what_one_peer_has_and_nobody_elses(void **state)
{
	struct te_address a = {.len = 2};
	struct te_xfer x, late, other;
	struct result rx, rl, ro, rm;
	struct te_stats s;
	(void)state;
	kv_put16(a.data, 1);
	open_with((struct te_options){.link_ops = 2, .link_bytes = 1}, 64, 1024);
	fake.caps.peer_fence = true;
	struct te_peer *p = peer(1), *good = peer(2);
	start(&other, &ro, TE_WRITE, good, CHUNK, 1);
	start(&x, &rx, TE_WRITE, p, 5 * CHUNK, 0);
	fake.eagain[1] = true;
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, "x", 1), KV_NEVER);
	assert_int_equal(te_peer_fence(p, NULL), 0);
	assert_false(te_reset_due(n.te));
	assert_true(fake.cut[1]);
	assert_int_equal(rx.done + rm.done, 0); /* no callback in here */
	turn();
	assert_int_equal(rm.status, -KV_ERESET); /* it was queued */
	assert_int_equal(rm.done, 1);
	assert_int_equal(rx.done, 0); /* two chunks are the provider's still */
	assert_int_equal(fake.rebuilds + n.resets, 0);
	start(&late, &rl, TE_WRITE, p, 1, -KV_EPEERDOWN);
	assert_int_equal(te_peer_fence(p, NULL), 0); /* once more: nothing is left to cut */
	assert_int_equal(fake.cuts, 1);
	fake_complete(1, -ENOTCONN);
	fake_complete(2, -ENOTCONN);
	fake_complete(0, 0);
	turn();
	assert_int_equal(rx.done, 1);
	assert_int_equal(rx.status, -KV_ERESET);
	assert_int_equal(ro.status, 0);
	assert_int_equal(ro.done, 1);
	fake.eagain[1] = fake.cut[1] = false;
	assert_int_equal(te_peer_readdress(p, &a, 1, NULL), 0);
	start(&late, &rl, TE_WRITE, p, CHUNK, 1);
	te_stats(n.te, &s);
	assert_int_equal(s.cuts, 1);
	assert_int_equal(s.fences, 1);
	close_all();
}

/* While the provider still has an operation to it the address is the same one, and is let in by name. */
static void an_address_that_was_cut_is_let_in_by_whoever_gets_it(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	for (unsigned held = 0; held < 2; held++) {
		open_plain();
		fake.caps.peer_fence = true;
		struct te_peer *p = peer(1), *again;
		if (held)
			start(&x, &r, TE_WRITE, p, CHUNK, 1);
		assert_int_equal(te_peer_fence(p, NULL), 0);
		te_peer_close(&p);
		assert_int_equal(fake.removes, !held);
		assert_true(fake.cut[1]);
		again = peer(1);
		assert_int_equal(fake.inserts, held ? 1 : 2); /* inserting lets it in, too; this fabric does not */
		assert_int_equal(fake.cut[1], !held);
		te_peer_close(&again);
		close_all();
	}
}

static void what_no_cut_can_find_is_rebuilt(void **state)
{
	enum { SHARED, STRAYED, STUCK, NONE, WAYS };
	struct te_address other = {.len = 2};
	(void)state;
	kv_put16(other.data, 7);
	for (unsigned way = 0; way < WAYS; way++) {
		open_plain();
		struct te_peer *p = peer(1), *twin = way == SHARED ? peer(1) : NULL;
		fake.caps.peer_fence = way != NONE;
		if (way == STRAYED)
			assert_int_equal(te_peer_readdress(p, &other, 1, NULL), 0);
		if (way == STUCK)
			fake.cut_fails = -EBUSY;
		assert_int_equal(te_peer_fence(p, NULL), 0);
		assert_true(te_reset_due(n.te));
		assert_int_equal(fake.rebuilds, 1);
		assert_int_equal(fake.cuts, way == STUCK);
		turn();
		assert_int_equal(n.resets, 1);
		/* Its new addresses are all that it has had since: it can be cut. */
		assert_int_equal(te_peer_readdress(p, &other, 1, NULL), 0);
		fake.cut_fails = 0;
		fake.caps.peer_fence = true;
		assert_int_equal(te_peer_fence(p, NULL), 0);
		assert_int_equal(fake.rebuilds, 1);
		assert_true(fake.cut[7]);
		te_peer_close(&twin);
		close_all();
	}
}

/* A cut that would cost others something is none: nothing is done. */
static void a_peer_is_cut_alone_or_not_at_all(void **state)
{
	enum { ALONE, SHARED, STRAYED, STUCK, NONE, WAYS };
	struct te_address other = {.len = 2};
	struct te_xfer x;
	struct result r;
	(void)state;
	kv_put16(other.data, 7);
	for (unsigned way = 0; way < WAYS; way++) {
		open_plain();
		struct te_peer *p = peer(1), *twin = way == SHARED ? peer(1) : NULL;
		fake.caps.peer_fence = way != NONE;
		if (way == STRAYED)
			assert_int_equal(te_peer_readdress(p, &other, 1, NULL), 0);
		if (way == STUCK)
			fake.cut_fails = -EBUSY;
		start(&x, &r, TE_WRITE, p, CHUNK, 1);
		assert_int_equal(te_peer_cut(p), way == ALONE ? 0 : -KV_EBUSY);
		assert_false(te_reset_due(n.te));
		assert_int_equal(fake.cut[1] || fake.cut[7], way == ALONE);
		assert_int_equal(r.done, 0); /* no callback in here, and the provider has it still */
		if (way == ALONE)
			assert_int_equal(te_peer_cut(p), 0); /* nothing is left to cut */
		assert_int_equal(fake.cuts, way == ALONE || way == STUCK);
		fake_complete(0, way == ALONE ? -ENOTCONN : 0);
		turn();
		assert_int_equal(r.done, 1);
		assert_int_equal(r.status == 0, way != ALONE);
		assert_int_equal(fake.rebuilds + n.resets, 0);
		te_peer_close(&twin);
		close_all();
	}
}

static void fences_are_rate_limited_by_telling_late(void **state)
{
	struct te_address a;
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	struct te_address again = {.len = 2, .data = {9}};
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(te_peer_fence(p, NULL), 0);
		turn();
		assert_int_equal(n.resets, i + 1);
		assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	}
	assert_int_equal(te_peer_fence(p, NULL), 0);
	assert_int_equal(fake.rebuilds, 5); /* safe at once */
	turn();
	assert_int_equal(n.resets, 4); /* told later */
	assert_int_equal(te_address(n.te, 0, &a), -KV_EBUSY);
	assert_int_equal(te_peer_fence(p, NULL), 0);
	assert_int_equal(fake.rebuilds, 5); /* no peer can have reached the new endpoint */
	fake_now_ns += 250000000;
	turn();
	assert_int_equal(n.resets, 5);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	close_all();
}

/* ---- endpoints that take long to close ---- */

static void open_slow(void)
{
	machine.slow = true;
	open_plain();
	machine.slow = false;
}

static void an_endpoint_that_closes_slowly_holds_what_it_has(void **state)
{
	struct te_xfer old, next;
	struct result r_old, r_next;
	struct fab_ctx *recvs[KV_COUNT(fake.recvs)];
	uint32_t receives;
	(void)state;
	open_slow();
	struct te_peer *dead = peer(1), *other;
	start(&old, &r_old, TE_WRITE, dead, CHUNK, 1);
	receives = fake.recvs_posted;
	memcpy(recvs, fake.recvs, sizeof(recvs));
	assert_int_equal(te_peer_fence(dead, NULL), 1);
	assert_true(te_fencing(n.te));
	assert_int_equal(fake.retires, 1);
	turn();
	/* The next one is there, with receives of its own, and told; what was posted has not ended, and memory stays
	 * registered. */
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(n.fenced, 0);
	assert_int_equal(r_old.done, 0);
	assert_int_equal(te_region_close(&area.region), -KV_EBUSY);
	assert_int_equal(fake.recvs_posted, receives);
	for (unsigned i = 0; i < receives; i++)
		for (unsigned j = 0; j < receives; j++)
			assert_ptr_not_equal(fake.recvs[i], recvs[j]);
	te_peer_close(&dead);
	other = peer(2);
	start(&next, &r_next, TE_WRITE, other, CHUNK, 1);
	assert_ptr_not_equal(fake.posts[1].ctx, fake.posts[0].ctx);
	fake_complete(1, 0);
	turn();
	assert_int_equal(r_next.done, 1);
	assert_int_equal(r_next.status, 0);
	assert_int_equal(r_old.done, 0);
	fake.closed = true;
	turn();
	assert_int_equal(r_old.done, 1);
	assert_int_equal(r_old.status, -KV_ERESET);
	assert_int_equal(n.fenced, 1);
	assert_int_equal(n.resets, 1);
	assert_false(te_fencing(n.te));
	turn();
	assert_int_equal(n.fenced, 1);
	te_peer_close(&other);
	close_all();
}

/* The next endpoint begins with all of its credits, and what was in limbo gives none back a second time. */
static void limbo_takes_no_credits(void **state)
{
	enum { OPS = 64 };
	static struct te_xfer x[2 * OPS], y[2 * OPS];
	static struct result rx[2 * OPS], ry[2 * OPS];
	struct te_stats s;
	(void)state;
	machine.slow = true;
	open_with((struct te_options){.link_ops = 4 * OPS}, OPS, 1024);
	machine.slow = false;
	struct te_peer *p = peer(1);
	unsigned most;
	for (unsigned i = 0; i < 2 * OPS; i++) {
		xfer_init(&x[i], &rx[i], TE_WRITE, p, &area, 0, &far, 0, 8);
		te_xfer_start(n.te, &x[i]);
	}
	most = fake.count;
	assert_in_range(most, OPS / 2, OPS);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	te_peer_close(&p);
	turn();
	te_stats(n.te, &s);
	assert_int_equal(s.inflight, 0);
	p = peer(2);
	for (unsigned round = 0; round < 2; round++) {
		unsigned before = fake.count;
		for (unsigned i = 0; i < 2 * OPS; i++) {
			xfer_init(&y[i], &ry[i], TE_WRITE, p, &area, 0, &far, 0, 8);
			te_xfer_start(n.te, &y[i]);
		}
		assert_int_equal(fake.count - before, most);
		while (te_busy(n.te) && fake_outstanding() > 0) {
			for (unsigned i = before; i < fake.count; i++)
				if (!fake.posts[i].over)
					fake_complete(i, 0);
			turn();
		}
		fake.closed = true; /* in the first round: what was in limbo ends */
		turn();
		te_stats(n.te, &s);
		assert_int_equal(s.inflight, 0);
	}
	for (unsigned i = 0; i < 2 * OPS; i++)
		assert_int_equal(rx[i].done, 1);
	te_peer_close(&p);
	close_all();
}

/* At most two endpoints of a rail: one that is fenced while another is being closed is not replaced before both are. */
static void a_rail_that_is_fenced_twice_waits(void **state)
{
	struct te_address a, again = {.len = 2, .data = {9}};
	struct te_xfer x, y;
	struct result rx, ry;
	(void)state;
	open_slow();
	struct te_peer *p = peer(1);
	start(&x, &rx, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	turn();
	assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	start(&y, &ry, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	assert_int_equal(te_peer_fence(p, NULL), 1); /* nothing is open */
	turn();
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(fake.shuts, 1);
	assert_int_equal(n.reset_status, -KV_EBUSY);
	assert_int_equal(te_address(n.te, 0, &a), -KV_EBUSY);
	fake_now_ns += 60000000000;
	turn();
	assert_int_equal(fake.rebuilds, 1); /* no time makes room */
	assert_int_equal(rx.done + ry.done, 0);
	fake.closed = true;
	turn();
	assert_int_equal(rx.done, 1);
	assert_int_equal(ry.done, 1);
	assert_int_equal(n.fenced, 1);
	assert_int_equal(fake.rebuilds, 2);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	close_all();
}

/* All that was given up is closed, and the rail is not tried again yet, since there were many fences: its addresses are
 * not known yet, and will be. */
static void a_rail_that_waited_is_busy_until_it_is_tried_again(void **state)
{
	enum { BURST = 4 };
	static struct te_xfer x[BURST + 1];
	static struct result r[BURST + 1];
	struct te_address a, again = {.len = 2, .data = {9}};
	struct te_peer *other = NULL;
	(void)state;
	open_slow();
	struct te_peer *p = peer(1);
	for (unsigned i = 0; i < BURST + 1; i++) {
		fake.closed = false;
		if (i > 0)
			assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
		start(&x[i], &r[i], TE_WRITE, p, CHUNK, 1);
		assert_int_equal(te_peer_fence(p, NULL), 1);
		fake.closed = i != BURST - 1; /* by the last fence two are given up */
		turn();
		assert_int_equal(r[i].done, i != BURST - 1);
		assert_int_equal(te_fencing(n.te), i == BURST - 1);
	}
	assert_int_equal(te_address(n.te, 0, &a), -KV_EBUSY);
	assert_int_equal(te_peer_open(n.te, &again, 1, &other, NULL), -KV_EBUSY);
	fake_now_ns += 250000000;
	turn();
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	close_all();
}

/* One rail is done with the first fence when the second comes. If it went on alone, and was fenced a third time, what
 * is in limbo because of the first would have to wait for that, too. */
static void what_is_in_limbo_waits_for_two_fences_at_most(void **state)
{
	struct te_address a, again = {.len = 2, .data = {9}};
	struct te_xfer x;
	struct result r;
	(void)state;
	machine.slow = true;
	machine.devices = 2;
	open_with((struct te_options){.rails = 2}, 64, 1024);
	machine.devices = 1;
	machine.slow = false;
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	assert_int_equal(fake.rebuilds, 2);
	turn();
	fake.closed_of[1] = true;
	turn();
	fake.closed_of[1] = false;
	assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	turn();
	assert_int_equal(fake.rebuilds, 2);
	assert_int_equal(te_address(n.te, 1, &a), -KV_EBUSY);
	assert_int_equal(r.done, 0);
	fake.closed = true;
	turn();
	assert_int_equal(r.done, 1);
	assert_int_equal(fake.rebuilds, 4);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 1, &a), 0);
	close_all();
}

static void an_engine_closes_while_it_fences(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_slow();
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	close_all();
	assert_int_equal(r.done, 1);
	assert_int_equal(r.status, -KV_ECLOSED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		NODE_CASE(a_dead_endpoint_is_rebuilt_and_told),
		NODE_CASE(a_rebuild_that_fails_is_retried_with_back_off),
		NODE_CASE(a_cut_ends_what_one_peer_has_and_nobody_elses),
		NODE_CASE(an_address_that_was_cut_is_let_in_by_whoever_gets_it),
		NODE_CASE(what_no_cut_can_find_is_rebuilt),
		NODE_CASE(a_peer_is_cut_alone_or_not_at_all),
		NODE_CASE(fences_are_rate_limited_by_telling_late),
		NODE_CASE(an_endpoint_that_closes_slowly_holds_what_it_has),
		NODE_CASE(limbo_takes_no_credits),
		NODE_CASE(a_rail_that_is_fenced_twice_waits),
		NODE_CASE(a_rail_that_waited_is_busy_until_it_is_tried_again),
		NODE_CASE(what_is_in_limbo_waits_for_two_fences_at_most),
		NODE_CASE(an_engine_closes_while_it_fences),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
