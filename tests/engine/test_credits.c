/* SPDX-License-Identifier: Apache-2.0 */
/* test_credits.c -- which peer may post, and how much: credits and windows; peers that take nothing and rails that are
 * full delay no other. On a fabric that does what the test says (fake/fake.h). */
#include "tests/engine/fake/rig.h"

static void a_stalled_peer_delays_no_other(void **state)
{
	struct te_xfer x, y;
	struct result rx, ry;
	(void)state;
	open_plain();
	struct te_peer *bad = peer(1), *good = peer(2);
	fake.eagain[1] = true;
	start(&x, &rx, TE_WRITE, bad, 3 * CHUNK, 0);
	start(&y, &ry, TE_WRITE, good, 3 * CHUNK, 1);
	assert_int_equal(fake.count, 3);
	for (unsigned i = 0; i < 3; i++)
		fake_complete(i, 0);
	turn();
	assert_int_equal(ry.done, 1);
	assert_int_equal(ry.status, 0);
	assert_int_equal(rx.done, 0);
	fake.eagain[1] = false;
	turn();
	assert_int_equal(fake.count, 6);
	assert_int_equal(rx.posting_done, 1);
	assert_int_equal(rx.posted_when_told, 3);
	close_all();
}

static void a_stalled_peer_is_tried_once_per_poll(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	struct te_peer *bad = peer(1);
	fake.eagain[1] = true;
	start(&x, &r, TE_WRITE, bad, 30 * CHUNK, 0);
	for (unsigned i = 0; i < 10; i++) {
		unsigned before = fake.tries;
		turn();
		assert_int_equal(fake.tries, before + 1);
	}
	close_all();
}

static void many_stalled_peers_cost_a_bounded_poll(void **state)
{
	enum { PEERS = 300 };
	static struct result r[PEERS];
	uint8_t data[8] = {0};
	(void)state;
	open_with((struct te_options){.messages = PEERS}, 64, 1024);
	for (unsigned i = 0; i < PEERS; i++) {
		fake.eagain[i + 1] = true;
		te_msg_send(n.te, peer((uint16_t)(i + 1)), 0, msg_for(&n, &r[i], data, 8), KV_NEVER);
	}
	unsigned before = fake.tries;
	turn();
	assert_true(fake.tries - before <= 64);
	memset(fake.eagain, 0, sizeof(fake.eagain));
	for (unsigned i = 0; i < 10; i++) /* and every one gets its turn */
		turn();
	for (unsigned i = 0; i < fake.count; i++)
		fake_complete(i, 0);
	for (unsigned i = 0; i < 400 && te_busy(n.te); i++) {
		turn();
		for (unsigned j = 0; j < fake.count; j++)
			if (!fake.posts[j].over)
				fake_complete(j, 0);
	}
	for (unsigned i = 0; i < PEERS; i++)
		assert_int_equal(r[i].done, 1);
	close_all();
}

static void queued_things_expire(void **state)
{
	struct te_xfer x, y;
	struct result rx, ry, rm;
	uint8_t data[8] = {0};
	(void)state;
	open_with((struct te_options){.link_ops = 1, .link_bytes = 1}, 64, 1024);
	struct te_peer *p = peer(1), *hung = peer(2);
	fake.eagain[1] = true;
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, data, 8), fake_now_ns + 5000000);
	xfer_init(&x, &rx, TE_WRITE, p, &area, 0, &far, 0, 2 * CHUNK);
	x.deadline_ns = fake_now_ns + 10000000;
	assert_int_equal(te_xfer_start(n.te, &x), 0);
	xfer_init(&y, &ry, TE_WRITE, hung, &area, 0, &far, 0,
		  2 * CHUNK); /* posted, never completing: its window stays full */
	y.deadline_ns = fake_now_ns + 10000000;
	assert_int_equal(te_xfer_start(n.te, &y), 0);
	assert_int_equal(y.posted, 1);
	fake_now_ns += 4999999;
	turn();
	assert_int_equal(rm.done, 0);
	fake_now_ns += 1;
	turn();
	assert_int_equal(rm.done, 1);
	assert_int_equal(rm.status, -KV_ETIMEOUT);
	assert_int_equal(rx.done, 0);
	fake_now_ns += 5000000;
	turn();
	assert_int_equal(rx.done, 1);
	assert_int_equal(rx.status, -KV_ETIMEOUT);
	assert_int_equal(rx.posting_done, 1);
	assert_int_equal(ry.posting_done, 1); /* posted is final, */
	assert_int_equal(ry.posted_when_told, 1);
	assert_int_equal(ry.done, 0); /* but one chunk is still out */
	fake_complete(0, 0);
	turn();
	assert_int_equal(ry.done, 1);
	assert_int_equal(ry.status, -KV_ETIMEOUT);
	close_all();
}

static void peers_share_credits_evenly(void **state)
{
	struct te_xfer x[2];
	struct result r[2];
	unsigned to[3] = {0};
	(void)state;
	open_with((struct te_options){.link_ops = 1000}, 16, 1024); /* 14 credits for transfers */
	struct te_peer *one = peer(1), *two = peer(2);
	start(&x[0], &r[0], TE_WRITE, one, 400 * CHUNK, 0);
	start(&x[1], &r[1], TE_WRITE, two, 400 * CHUNK, 0);
	for (unsigned i = 0; i < 500; i++) {
		fake_complete(i, 0);
		turn();
	}
	for (unsigned i = 100; i < 500; i++)
		to[fake.posts[i].to]++;
	assert_int_equal(to[1], 200);
	assert_int_equal(to[2], 200);
	close_all();
}

static void transfers_of_one_peer_take_turns(void **state)
{
	struct te_xfer huge, small;
	struct result rh, rs;
	(void)state;
	open_with((struct te_options){.link_ops = 2, .link_bytes = 1}, 64, 1024);
	struct te_peer *p = peer(1);
	start(&huge, &rh, TE_WRITE, p, 100 * CHUNK, 0);
	start(&small, &rs, TE_WRITE, p, 2 * CHUNK, 0);
	for (unsigned i = 0; !rs.done && i < 10; i++) {
		fake_complete(i, 0);
		turn();
	}
	assert_int_equal(rs.done, 1);
	assert_true(huge.posted < 8);
	close_all();
}

static void in_flight_never_exceeds_the_credits(void **state)
{
	enum { COUNT = 64 };
	static struct te_xfer x[COUNT];
	static struct result r[COUNT], rm[8];
	uint8_t data[8] = {0};
	(void)state;
	open_with((struct te_options){.link_ops = 1000}, 64, 32); /* cq depth / 2 = 16; an eighth of it for messages */
	struct te_peer *p = peer(1), *other = peer(2);
	for (unsigned i = 0; i < COUNT; i++)
		start(&x[i], &r[i], i % 2 ? TE_WRITE : TE_READ, p, CHUNK, i < 14);
	assert_int_equal(fake_outstanding(), 14);
	te_msg_send(n.te, p, 0, msg_for(&n, &rm[0], data, 8), KV_NEVER);
	te_msg_send(n.te, other, 0, msg_for(&n, &rm[1], data, 8), KV_NEVER);
	assert_int_equal(fake_outstanding(), 16); /* messages use the reserve, at once */
	te_msg_send(n.te, other, 0, msg_for(&n, &rm[2], data, 8), KV_NEVER);
	turn();
	assert_int_equal(fake_outstanding(), 16);
	fake_complete(0, 0);
	turn();
	assert_int_equal(fake_outstanding(), 16);
	assert_int_equal(fake.posts[fake.count - 1].kind, FAKE_SEND); /* and go first */
	for (unsigned i = 1; i < fake.count; i++) {
		fake_complete(i, 0);
		turn();
		assert_true(fake_outstanding() <= 16);
	}
	assert_false(te_busy(n.te));
	close_all();
}

/* What peers may send at once fits beside what is ours: of any rail, and after a rebuild. */
static void room_for_immediates_follows_the_queues(void **state)
{
	static const struct {
		uint32_t tx, cq, receives, room;
		bool take;
	} rows[] = {{64, 1024, 16, 512, false}, {32, 64, 16, 16, false}, {64, 2048, 16, 1024, false},
		    {64, 160, 16, 80, false},   {64, 64, 16, 16, false}, {8, 16, 16, 4, false},
		    {64, 1024, 16, 8, true},    {8, 16, 16, 2, true},    {64, 1024, 16, 512, false}};
	struct te_info info;
	(void)state;
	open_plain();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		fake.caps.tx_depth = rows[i].tx;
		fake.caps.cq_depth = rows[i].cq;
		fake.caps.imm_takes_receive = rows[i].take;
		fake_now_ns += 10000000000;
		fake_event(0, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
		turn();
		te_info(n.te, &info);
		assert_int_equal(info.imm_room, rows[i].room);
		assert_int_equal(info.cq_depth, rows[i].cq);
		assert_int_equal(info.tx_depth, KV_MIN(KV_MIN(rows[i].tx, rows[i].cq / 2), 64u));
	}
	close_all();
}

/* A rebuild may have to do with less device memory. */
static void in_flight_never_exceeds_the_depth_of_a_rebuilt_endpoint(void **state)
{
	struct te_address a = {.len = 2, .data = {1}};
	struct te_xfer x;
	struct result r;
	(void)state;
	open_with((struct te_options){.link_ops = 64}, 64, 1024);
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, 60 * CHUNK, 0);
	assert_int_equal(fake_outstanding(), 56); /* an eighth is for messages */
	fake.caps.tx_depth = 32;
	fake.caps.cq_depth = 16;
	fake_event(0, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	turn();
	assert_int_equal(r.done, 1);
	assert_int_equal(te_peer_readdress(p, &a, 1, NULL), 0);
	start(&x, &r, TE_WRITE, p, 60 * CHUNK, 0);
	assert_int_equal(fake_outstanding(), 7);
	fake.caps.tx_depth = 64;
	fake.caps.cq_depth = 1024;
	fake_event(0, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	turn();
	assert_int_equal(te_peer_readdress(p, &a, 1, NULL), 0);
	start(&x, &r, TE_WRITE, p, 60 * CHUNK, 0);
	assert_int_equal(fake_outstanding(), 56);
	close_all();
}

static void a_link_keeps_its_window(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_with((struct te_options){.link_ops = 4, .link_bytes = 10 * CHUNK}, 64, 1024);
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, 100 * CHUNK, 0);
	assert_int_equal(fake_outstanding(), 10); /* small chunks: by bytes */
	fake_complete(0, 0);
	turn();
	assert_int_equal(fake_outstanding(), 10);
	close_all();
	open_with((struct te_options){.link_ops = 4, .link_bytes = 10, .chunk_bytes = 64 << 10}, 64, 1024);
	start(&x, &r, TE_WRITE, peer(1), LEN, 0);
	assert_int_equal(fake_outstanding(), 4); /* large chunks: by operations */
	close_all();
}

static void peers_that_take_nothing_leave_credits_to_others(void **state)
{
	static struct te_xfer x[12];
	static struct result r[12];
	(void)state;
	open_with((struct te_options){.link_ops = 2, .link_bytes = 1 << 30}, 64, 1024);
	for (unsigned i = 0; i < 12; i++)
		start(&x[i], &r[i], TE_WRITE, peer(1 + i), 100 * CHUNK, 0);
	turn();
	assert_int_equal(x[0].posted, 32); /* half of 64 */
	for (unsigned i = 1; i < 12; i++)
		assert_int_equal(x[i].posted, 2); /* always allowed */
	for (unsigned i = 0; i < 200; i++) {      /* a peer that takes what comes goes on, alone to the end */
		for (unsigned j = 0; j < fake.count; j++)
			if (fake.posts[j].to == 12 && !fake.posts[j].over)
				fake_complete(j, 0);
		turn();
	}
	assert_int_equal(r[11].done, 1);
	assert_int_equal(r[0].done + r[1].done + r[10].done, 0);
	close_all();
}

static void messages_that_a_peer_does_not_take_leave_credits_to_others(void **state)
{
	static struct result rm[6][60];
	struct te_peer *p[6];
	uint8_t data[8] = {0};
	unsigned at;
	(void)state;
	open_with((struct te_options){.messages = 512}, 64, 1024);
	for (unsigned i = 0; i < 6; i++)
		p[i] = peer((uint16_t)(1 + i));
	memset(rm, 0, sizeof(rm));
	for (unsigned i = 0; i < 6; i++)
		for (unsigned j = 0; j < 60; j++)
			te_msg_send(n.te, p[i], 0, msg_for(&n, &rm[i][j], data, 8), KV_NEVER);
	turn();
	assert_int_equal(fake_outstanding(), 32 + 5 * 2); /* half of 64 by the first, and two that are always allowed */
	/* A peer that takes what comes gets all of its messages; so the others' do not stand in front of them. */
	for (at = 0; at < fake.count; at++)
		if (fake.posts[at].to == 6) {
			fake_complete(at, 0);
			turn();
		}
	for (unsigned j = 0; j < 60; j++)
		assert_int_equal(rm[5][j].done, 1);
	assert_int_equal(fake_outstanding(), 32 + 4 * 2);
	/* And so does the first when it takes them again. */
	for (at = 0; at < fake.count; at++)
		if (fake.posts[at].to == 1 && !fake.posts[at].over) {
			fake_complete(at, 0);
			turn();
		}
	assert_int_equal(rm[0][59].done, 1);
	close_all();
}

/* Eight peers that take nothing hold all credits that transfers may have, and the next transfer waits at the head of
 * the line. */
static void transfers_without_credit(void)
{
	static struct te_xfer x[8];
	static struct result r[8];
	open_with((struct te_options){.link_bytes = 1 << 30}, 64, 1024);
	for (unsigned i = 0; i < 8; i++)
		start(&x[i], &r[i], TE_WRITE, peer((uint16_t)(1 + i)), 100 * CHUNK, 0);
	turn();
	assert_int_equal(fake_outstanding(), 56); /* an eighth of 64 is for messages */
}

/* Messages have credits of their own. */
static void messages_do_not_wait_behind_a_transfer_without_credit(void **state)
{
	static struct result rm[6];
	struct te_peer *healthy;
	uint8_t data[8] = {0};
	(void)state;
	transfers_without_credit();
	memset(rm, 0, sizeof(rm));
	healthy = peer(20);
	for (unsigned j = 0; j < 6; j++)
		te_msg_send(n.te, healthy, 0, msg_for(&n, &rm[j], data, 8), KV_NEVER);
	turn();
	for (unsigned at = 0; at < fake.count; at++)
		if (fake.posts[at].to == 20) {
			fake_complete(at, 0);
			turn();
		}
	for (unsigned j = 0; j < 6; j++)
		assert_int_equal(rm[j].done, 1);
	assert_int_equal(fake_outstanding(), 56);
	close_all();
}

/* The same when they were refused by the provider for a while. */
static void messages_of_a_stalled_link_do_not_wait_behind_a_transfer_without_credit(void **state)
{
	static struct result rm[2];
	struct te_peer *healthy;
	uint8_t data[8] = {0};
	(void)state;
	transfers_without_credit();
	memset(rm, 0, sizeof(rm));
	healthy = peer(20);
	fake.eagain[20] = true;
	for (unsigned j = 0; j < 2; j++)
		te_msg_send(n.te, healthy, 0, msg_for(&n, &rm[j], data, 8), KV_NEVER);
	turn();
	assert_int_equal(fake_outstanding(), 56);
	fake.eagain[20] = false;
	turn();
	turn();
	assert_int_equal(fake_outstanding(), 58);
	close_all();
}

/* What a link stood in line for was cancelled while there was no credit. As long as it stands there no ordered write is
 * posted, on any link: each turn serves the line, also when nothing is queued. */
static void a_link_in_line_for_nothing_keeps_no_ordered_write(void **state)
{
	static struct te_xfer x[64], ordered;
	static struct result r[64], ro;
	unsigned posted = 0;
	(void)state;
	memset(r, 0, sizeof(r));
	memset(&ro, 0, sizeof(ro));
	machine.ordered = true;
	open_plain();
	machine.ordered = false;
	do {
		xfer_init(&x[posted], &r[posted], TE_WRITE, peer((uint16_t)(1 + posted)), &area, 0, &far, 0, CHUNK);
		assert_true(te_xfer_start(n.te, &x[posted]) >= 0);
	} while (x[posted].posted && ++posted < 63);
	assert_int_equal(x[posted].posted, 0); /* the last one has no credit */
	te_xfer_cancel(n.te, &x[posted]);
	turn();
	assert_int_equal(r[posted].status, -KV_ECANCELED);
	for (unsigned i = 0; i < posted; i++)
		fake_complete(i, 0);
	turn();
	xfer_init(&ordered, &ro, TE_WRITE, peer(100), &area, 0, &far, 0, CHUNK);
	ordered.link = 0;
	ordered.ordered = true;
	ordered.with_imm = false;
	te_order_begin(n.te);
	assert_int_equal(te_xfer_start(n.te, &ordered), 1);
	te_order_end(n.te);
	close_all();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		NODE_CASE(a_stalled_peer_delays_no_other),
		NODE_CASE(a_stalled_peer_is_tried_once_per_poll),
		NODE_CASE(many_stalled_peers_cost_a_bounded_poll),
		NODE_CASE(queued_things_expire),
		NODE_CASE(peers_share_credits_evenly),
		NODE_CASE(transfers_of_one_peer_take_turns),
		NODE_CASE(in_flight_never_exceeds_the_credits),
		NODE_CASE(room_for_immediates_follows_the_queues),
		NODE_CASE(in_flight_never_exceeds_the_depth_of_a_rebuilt_endpoint),
		NODE_CASE(a_link_keeps_its_window),
		NODE_CASE(peers_that_take_nothing_leave_credits_to_others),
		NODE_CASE(messages_that_a_peer_does_not_take_leave_credits_to_others),
		NODE_CASE(messages_do_not_wait_behind_a_transfer_without_credit),
		NODE_CASE(messages_of_a_stalled_link_do_not_wait_behind_a_transfer_without_credit),
		NODE_CASE(a_link_in_line_for_nothing_keeps_no_ordered_write),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
