/* SPDX-License-Identifier: Apache-2.0 */
/* test_failures.c -- what the engine makes of failures that a provider reports: refused and failed operations, broken
 * connections, stray events, receives. On a fabric that does what the test says (fake/fake.h). */
#include "tests/engine/fake/rig.h"

#include <errno.h>

static void an_operation_that_cannot_be_posted_fails_alone(void **state)
{
	struct te_xfer x, y;
	struct result rx, ry, rm;
	uint8_t data[8] = {0};
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	fake.fail_next = -EINVAL;
	start(&x, &rx, TE_WRITE, p, 3 * CHUNK, 0);
	assert_int_equal(rx.done, 0); /* never inside the call */
	fake.fail_next = -EMSGSIZE;
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, data, 8), KV_NEVER);
	assert_int_equal(rm.done, 0);
	start(&y, &ry, TE_WRITE, p, 3 * CHUNK, 1);
	turn();
	assert_int_equal(rx.done, 1);
	assert_int_equal(rx.status, -KV_EPROVIDER);
	assert_int_equal(rx.posting_done, 1);
	assert_int_equal(x.posted, 0);
	assert_int_equal(rm.status, -KV_EPROVIDER);
	assert_int_equal(fake_outstanding(), 3);
	close_all();
}

static void a_refused_post_is_tried_again(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	fake.fail_next = -ENOTCONN;
	start(&x, &r, TE_WRITE, p, CHUNK, 0);
	turn();
	assert_int_equal(fake_outstanding(), 1);
	assert_int_equal(x.posted, 1);
	close_all();
}

static void failures_are_judged(void **state)
{
	static const struct {
		int said, means;
		bool reset;
	} cases[] = {{-ECANCELED, -KV_EPEERDOWN, false},
		     {-ENOTCONN, -KV_EPEERDOWN, false},
		     {-EINVAL, -EINVAL, false},
		     {-STAND_IN_ENDPOINT_ERROR, -KV_ERESET, true}};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(cases); i++) {
		struct te_xfer x;
		struct result r;
		open_with((struct te_options){.link_ops = 2, .link_bytes = 1}, 64, 1024);
		start(&x, &r, TE_WRITE, peer(1), 10 * CHUNK, 0);
		assert_int_equal(fake_outstanding(), 2);
		fake_complete(1, cases[i].said);
		turn();
		assert_int_equal(r.posting_done, 1); /* nothing more is posted: it could only be wasted */
		assert_int_equal(fake.count, 2);
		if (!cases[i].reset) {
			assert_int_equal(r.done, 0);
			fake_complete(0, 0);
			turn();
		}
		assert_int_equal(r.done, 1);
		assert_int_equal(r.status, cases[i].means);
		assert_int_equal(x.posted, 2);
		assert_int_equal(n.resets, cases[i].reset);
		assert_int_equal(fake.broken, cases[i].means == -KV_EPEERDOWN); /* the fabric hears of it */
		close_all();
	}
}

static void a_write_meets_a_broken_connection(void)
{
	static struct te_xfer x;
	static struct result r;
	start(&x, &r, TE_WRITE, peer(1), CHUNK, 1);
	fake_complete(0, -ENOTCONN);
	turn();
	assert_int_equal(r.status, -KV_EPEERDOWN);
}

static void a_connection_that_stays_broken_costs_the_endpoint(void **state)
{
	(void)state;
	open_plain();
	fake.caps.breaks_stay = true;
	a_write_meets_a_broken_connection();
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(n.resets, 1);
	close_all();
}

/* Flushed: perhaps the peer ended the connection in good order, and the next posting makes another. */
static void operations_flushed_twice_say_that_a_connection_stays_broken(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	fake.caps.breaks_stay = true;
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, 3 * CHUNK, 1);
	for (unsigned i = 0; i < 3; i++)
		fake_complete(i, -ECANCELED);
	turn();
	assert_int_equal(r.status, -KV_EPEERDOWN);
	assert_int_equal(fake.rebuilds, 0);
	start(&x, &r, TE_WRITE, p, CHUNK, 1); /* it does make another */
	fake_complete(3, 0);
	turn();
	start(&x, &r, TE_WRITE, p, CHUNK, 1);
	fake_complete(4, -ECANCELED);
	turn();
	assert_int_equal(fake.rebuilds, 0);
	start(&x, &r, TE_WRITE, p, CHUNK, 1); /* it does not */
	fake_complete(5, -ECANCELED);
	turn();
	assert_int_equal(fake.rebuilds, 1);
	close_all();
}

static void a_server_leaves_broken_connections_to_its_clients(void **state)
{
	(void)state;
	open_with((struct te_options){.peers_heal = true, .chunk_bytes = CHUNK}, 64, 1024);
	fake.caps.breaks_stay = true;
	a_write_meets_a_broken_connection();
	assert_int_equal(fake.rebuilds, 0);
	close_all();
}

/* A server that died costs the others nothing, unless another process goes on with its address. */
static void a_lost_connection_costs_the_endpoint_when_it_is_wanted(void **state)
{
	enum { CLOSED, OPENED_AGAIN, KEPT, WORKS_AGAIN, CASES };
	(void)state;
	for (unsigned what = 0; what < CASES; what++) {
		struct te_xfer x, y;
		struct result rx, ry;
		open_plain();
		fake.caps.breaks_stay = true;
		struct te_peer *p = peer(1), *other = peer(2);
		start(&x, &rx, TE_WRITE, p, CHUNK, 1);
		fake_complete(0, -ENOTCONN);
		turn();
		assert_int_equal(rx.status, -KV_EPEERDOWN);
		assert_int_equal(fake.rebuilds, 0);
		start(&y, &ry, TE_WRITE, other, CHUNK, 1);
		fake_complete(1, 0);
		turn();
		assert_int_equal(ry.status, 0);
		if (what == CLOSED || what == OPENED_AGAIN)
			te_peer_close(&p);
		if (what == OPENED_AGAIN)
			(void)peer(1);
		if (what == WORKS_AGAIN) {
			start(&x, &rx, TE_WRITE, p, CHUNK, 1);
			fake_complete(2, 0);
			turn();
		}
		fake_now_ns += 999999999;
		turn();
		assert_int_equal(fake.rebuilds, what == OPENED_AGAIN);
		assert_int_equal(n.resets, what == OPENED_AGAIN);
		fake_now_ns += 1;
		turn();
		assert_int_equal(fake.rebuilds, what == OPENED_AGAIN || what == KEPT);
		fake_now_ns += 10000000000;
		turn();
		assert_int_equal(fake.rebuilds, what == OPENED_AGAIN || what == KEPT);
		close_all();
	}
}

/* All of them: the NIC's cable was out. And of a full queue the lost ones make room. */
static void lost_connections_cost_the_endpoint_at_once_when_all_are(void **state)
{
	struct te_address a = {.len = 2, .data = {3}};
	struct te_peer *p[2], *more;
	struct te_xfer x;
	struct result r;
	(void)state;
	for (unsigned full = 0; full < 2; full++) {
		open_plain();
		fake.caps.breaks_stay = true;
		fake.caps.peers_max = 2;
		for (unsigned i = 0; i < 2; i++)
			p[i] = peer((uint16_t)(1 + i));
		for (unsigned i = 0; i < 2 - full; i++) {
			start(&x, &r, TE_WRITE, p[i], CHUNK, 1);
			fake_complete(i, -ENOTCONN);
			turn();
			assert_int_equal(fake.rebuilds, i);
		}
		if (full) {
			te_peer_close(&p[0]);
			assert_int_equal(te_peer_open(n.te, &a, 1, &more, NULL), -EAGAIN);
			turn();
			assert_int_equal(fake.rebuilds, 1);
			assert_int_equal(te_peer_open(n.te, &a, 1, &more, NULL), 0);
		}
		assert_int_equal(n.resets, 1);
		close_all();
	}
}

static void where_connections_heal_by_themselves_nothing_is_rebuilt(void **state)
{
	(void)state;
	open_plain();
	a_write_meets_a_broken_connection();
	assert_int_equal(fake.rebuilds, 0);
	close_all();
}

static void more_peers_than_the_queues_are_made_for_are_refused(void **state)
{
	struct te_address a = {.len = 2};
	struct te_peer *p = NULL, *last;
	struct kv_error err = {0};
	(void)state;
	open_plain();
	fake.caps.peers_max = 2;
	(void)peer(1);
	last = peer(2);
	(void)peer(2); /* the same address: no other peer */
	kv_put16(a.data, 3);
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "FI_UNIVERSE_SIZE=4"));
	assert_int_equal(fake.inserts, 2);
	te_peer_fence(last, NULL); /* all addresses are void then */
	turn();
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, &err), 0);
	close_all();
}

static void stray_events_are_counted_and_not_believed(void **state)
{
	struct te_xfer x;
	struct result r;
	struct te_stats s;
	struct fab_ctx foreign;
	(void)state;
	open_plain();
	start(&x, &r, TE_WRITE, peer(1), CHUNK, 1);
	struct fab_ctx *ctx = fake.posts[0].ctx;
	fake_complete(0, 0);
	fake_event(0, (struct fab_event){.type = FAB_EV_DONE, .ctx = ctx}); /* twice */
	fake_event(0, (struct fab_event){.type = FAB_EV_FAIL, .ctx = ctx, .status = -EIO});
	fake_event(0, (struct fab_event){.type = FAB_EV_DONE, .ctx = NULL});
	fake_event(0, (struct fab_event){.type = FAB_EV_FAIL, .ctx = NULL, .status = -EIO});
	fake_event(0, (struct fab_event){.type = FAB_EV_DONE, .ctx = &foreign});
	fake_event(0, (struct fab_event){.type = FAB_EV_RECV, .ctx = ctx, .len = 10}); /* not a receive */
	fake_event(0, (struct fab_event){.type = FAB_EV_DONE, .ctx = fake.recvs[0]});  /* not a send */
	fake_event(0, (struct fab_event){.type = FAB_EV_RECV, .ctx = fake.recvs[0], .len = KV_MSG_MAX + 1});
	turn();
	te_stats(n.te, &s);
	assert_int_equal(s.stray_events, 8);
	assert_int_equal(r.done, 1);
	assert_int_equal(n.messages, 0);
	assert_int_equal(s.inflight, 0);
	assert_int_equal(fake.recvs_posted, 17); /* the receive whose message was too long is posted again */
	close_all();
}

static void receives_that_get_eagain_are_posted_later(void **state)
{
	(void)state;
	open_plain();
	assert_int_equal(fake.recvs_posted, 16);
	fake.recvs_eagain = 2;
	for (unsigned i = 0; i < 3; i++)
		fake_event(0, (struct fab_event){.type = FAB_EV_RECV, .ctx = fake.recvs[i], .len = 10});
	turn();
	assert_int_equal(n.messages, 3);
	assert_int_equal(fake.recvs_posted, 17);
	turn();
	assert_int_equal(fake.recvs_posted, 19);
	close_all();
}

/* A rebuild may have to do with a smaller receive queue: what it has no room for is not tried with each poll. */
static void receives_never_exceed_the_depth_of_a_rebuilt_endpoint(void **state)
{
	(void)state;
	open_plain();
	assert_int_equal(fake.recvs_posted, 16);
	for (unsigned i = 0; i < 2; i++) {
		fake.caps.rx_depth = i ? 16 : 4;
		fake.recvs_tries = 0;
		fake_now_ns += 10000000000;
		fake_event(0, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
		turn();
		turn();
		assert_int_equal(fake.recvs_posted, i ? 16 : 4);
		assert_int_equal(fake.recvs_tries, i ? 16 : 4);
	}
	/* So does a smaller completion queue: 8 operations, 4 receives, and 4 are left for immediates. */
	fake.caps.cq_depth = 16;
	fake_now_ns += 10000000000;
	fake_event(0, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	turn();
	assert_int_equal(fake.recvs_posted, 4);
	fake.caps.cq_depth = 1024;
	/* And where the provider takes fewer than it said, one is tried in a poll. */
	fake.recvs_eagain = 1000;
	fake_event(0, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	turn();
	fake.recvs_tries = 0;
	turn();
	assert_int_equal(fake.recvs_tries, 1);
	fake.recvs_eagain = 0;
	turn();
	assert_int_equal(fake.recvs_posted, 16);
	close_all();
}

static void an_immediate_that_used_a_receive_gives_it_back(void **state)
{
	(void)state;
	open_plain();
	fake_event(0, (struct fab_event){.type = FAB_EV_IMM, .imm = 5, .ctx = fake.recvs[3]});
	fake_event(0, (struct fab_event){.type = FAB_EV_IMM, .imm = 6});
	turn();
	assert_int_equal(n.imms, 2);
	assert_int_equal(n.last_imm, 6);
	assert_int_equal(fake.recvs_posted, 17);
	close_all();
}

static void receives_that_fail_for_ever_mean_a_rebuild(void **state)
{
	(void)state;
	open_plain();
	for (unsigned i = 0; i < 40 && !fake.rebuilds; i++) {
		fake_event(0, (struct fab_event){.type = FAB_EV_FAIL,
						 .ctx = fake.recvs[(fake.recvs_posted - 1) % KV_COUNT(fake.recvs)],
						 .status = -ECANCELED});
		turn();
	}
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(n.resets, 1);
	close_all();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		NODE_CASE(an_operation_that_cannot_be_posted_fails_alone),
		NODE_CASE(a_refused_post_is_tried_again),
		NODE_CASE(failures_are_judged),
		NODE_CASE(a_connection_that_stays_broken_costs_the_endpoint),
		NODE_CASE(operations_flushed_twice_say_that_a_connection_stays_broken),
		NODE_CASE(a_server_leaves_broken_connections_to_its_clients),
		NODE_CASE(a_lost_connection_costs_the_endpoint_when_it_is_wanted),
		NODE_CASE(lost_connections_cost_the_endpoint_at_once_when_all_are),
		NODE_CASE(where_connections_heal_by_themselves_nothing_is_rebuilt),
		NODE_CASE(more_peers_than_the_queues_are_made_for_are_refused),
		NODE_CASE(stray_events_are_counted_and_not_believed),
		NODE_CASE(receives_that_get_eagain_are_posted_later),
		NODE_CASE(receives_never_exceed_the_depth_of_a_rebuilt_endpoint),
		NODE_CASE(an_immediate_that_used_a_receive_gives_it_back),
		NODE_CASE(receives_that_fail_for_ever_mean_a_rebuild),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
