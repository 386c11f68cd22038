/* SPDX-License-Identifier: Apache-2.0 */
/* test_transfers.c -- transfers and messages, each ended once: order, chunks, addresses; and everything at random. On a
 * fabric that does what the test says (fake/fake.h). */
#include "tests/engine/fake/rig.h"

#include <errno.h>

#include "host/host.h"
#include "tests/check.h"

static void contiguous_bytes_grow_in_order(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	start(&x, &r, TE_READ, peer(1), 5 * CHUNK + 1, 1);
	unsigned order[] = {1, 3, 0, 5, 4, 2};
	uint64_t expect[] = {0, 0, 2 * CHUNK, 2 * CHUNK, 2 * CHUNK, 5 * CHUNK + 1};
	int told[] = {0, 0, 1, 1, 1, 2};
	for (unsigned i = 0; i < 6; i++) {
		fake_complete(order[i], 0);
		turn();
		assert_int_equal(x.contiguous, expect[i]);
		assert_int_equal(r.progress, told[i]);
	}
	assert_int_equal(r.done, 1);
	close_all();
}

static void a_read_waits_for_its_first_chunk(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_with((struct te_options){.link_ops = 1000}, 512, 2048);
	start(&x, &r, TE_READ, peer(1), 100 * CHUNK, 0);
	assert_int_equal(x.posted, 64);
	for (unsigned i = 1; i < 64; i++)
		fake_complete(i, 0);
	turn();
	assert_int_equal(x.posted, 64);
	fake_complete(0, 0);
	turn();
	assert_int_equal(x.posted, 100);
	assert_int_equal(x.contiguous, 64 * CHUNK);
	for (unsigned i = 64; i < 100; i++)
		fake_complete(i, 0);
	turn();
	turn();
	assert_int_equal(r.done, 1);
	assert_int_equal(r.status, 0);
	assert_int_equal(x.contiguous, 100 * CHUNK);
	close_all();
}

static void chunks_carry_address_key_and_immediate(void **state)
{
	struct te_key keys[] = {{1000, 11}, {2000, 22}, {3000, 33}};
	struct te_remote parts = {.len_bytes = 300, .part_bytes = 100, .parts = 3, .rails = 1, .keys = keys};
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	xfer_init(&x, &r, TE_WRITE, peer(1), &area, 0, &far, 0, 0);
	x.remote = &parts;
	x.at = (struct te_slices){.offset = 90, .slice = 20, .stride = 50, .count = 3};
	x.imm = 0xfeed1234;
	assert_int_equal(te_xfer_chunks(n.te, &x), 5);
	assert_int_equal(te_xfer_start(n.te, &x), 1);
	static const struct {
		uint64_t addr, key, len;
	} expect[] = {{1090, 11, 10}, {2000, 22, 10}, {2040, 22, 20}, {2090, 22, 10}, {3000, 33, 10}};
	assert_int_equal(fake.count, KV_COUNT(expect));
	for (unsigned i = 0; i < fake.count; i++) {
		assert_int_equal(fake.posts[i].addr, expect[i].addr);
		assert_int_equal(fake.posts[i].key, expect[i].key);
		assert_int_equal(fake.posts[i].len, expect[i].len);
		assert_true(fake.posts[i].has_imm);
		assert_int_equal(fake.posts[i].imm, 0xfeed1234);
	}
	close_all();
}

static void shm_pushes_only_with_an_immediate(void **state)
{
	struct te_xfer x, y;
	struct result r, ry;
	(void)state;
	for (unsigned only = 0; only < 2; only++) {
		machine.imm_only = only;
		open_plain();
		xfer_init(&x, &r, TE_WRITE, peer(1), &area, 0, &far, 0, 10);
		x.with_imm = false;
		assert_int_equal(te_xfer_start(n.te, &x), only ? -KV_ENOTSUP : 1);
		assert_int_equal(fake.count, only ? 0 : 1);
		xfer_init(&y, &ry, TE_WRITE, peer(1), &area, 0, &far, 0, 10);
		assert_int_equal(te_xfer_start(n.te, &y), 1);
		machine.imm_only = false;
		close_all();
	}
}

/* ---- messages behind ordered writes ---- */

static struct {
	struct te_peer *peer, *other;
	struct te_xfer x, y;
	struct result rx, ry, rm;
	void (*between)(void);
	int followed;
} behind;

static void write_behind(struct node *node, const uint8_t *data, size_t len)
{
	(void)data, (void)len;
	xfer_init(&behind.x, &behind.rx, TE_WRITE, behind.peer, &area, 0, &far, 0, 100);
	behind.x.link = 0;
	behind.x.ordered = true;
	behind.x.with_imm = false;
	assert_int_equal(te_xfer_start(node->te, &behind.x), 1);
	assert_int_equal(fake.posts[fake.count - 1].how, FAB_MORE);
	behind.between();
}

static void follow_behind(struct node *node)
{
	static const uint8_t data[8];
	struct te_msg *m = msg_for(node, &behind.rm, data, 8);
	behind.followed = te_msg_follow(node->te, behind.peer, 0, m);
	if (behind.followed)
		te_msg_release(node->te, m);
}

static void other_write(bool imm)
{
	xfer_init(&behind.y, &behind.ry, TE_WRITE, behind.other, &area, 0, &far, 0, 100);
	behind.y.with_imm = imm;
	(void)te_xfer_start(n.te, &behind.y);
}

static void nothing_between(void)
{
}

static void posted_between(void)
{
	other_write(true);
}

static void refused_between(void)
{
	fake.eagain[2] = true;
	other_write(false);
}

static void half_refused_between(void)
{
	fake.half_next = true;
	other_write(true);
}

static void readdressed_between(void)
{
	struct te_address a = {.len = 2, .data = {3}};
	assert_int_equal(te_peer_readdress(behind.peer, &a, 1, NULL), 0);
}

static void fenced_between(void)
{
	struct te_address a = {.len = 2, .data = {1}};
	assert_int_equal(te_peer_fence(behind.other, NULL), 0);
	assert_int_equal(te_peer_readdress(behind.peer, &a, 1, NULL), 0);
}

/* Nothing but the stamp says whether the message is still on the connection of the bytes. */
static void a_message_follows_only_on_the_connection_of_its_bytes(void **state)
{
	static const struct {
		void (*between)(void);
		int expect;
	} cases[] = {{nothing_between, 0},
		     {posted_between, 0},
		     {refused_between, -KV_EBUSY},
		     {half_refused_between, -KV_EBUSY},
		     {readdressed_between, -KV_EBUSY},
		     {fenced_between, -KV_EBUSY}};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(cases); i++) {
		machine.ordered = true;
		open_plain();
		machine.ordered = false;
		memset(&behind, 0, sizeof(behind));
		behind.peer = peer(1);
		behind.other = peer(2);
		behind.between = cases[i].between;
		behind.followed = 1;
		n.on_message = write_behind;
		n.on_follow = follow_behind;
		fake_event(0, (struct fab_event){.type = FAB_EV_RECV, .ctx = fake.recvs[0], .len = 8});
		turn();
		if (behind.followed != cases[i].expect)
			fail_msg("case %zu: te_msg_follow said %d", i, behind.followed);
		close_all();
		assert_int_equal(behind.rx.done, 1);
		assert_int_equal(behind.y.posted,
				 cases[i].between == posted_between || cases[i].between == half_refused_between);
		assert_int_equal(behind.rm.done, cases[i].expect == 0);
	}
}

/* On a machine with one node it is nowhere in particular; tests/verbs/memory.sh runs this on one with two. */
static void messages_are_on_the_node_of_the_nics(void **state)
{
	struct te_info info;
	bool nodes = kv_numa_nodes("") > 1;
	(void)state;
	for (int near = 0; near < 2; near++) {
		machine.node = 1;
		open_with((struct te_options){.near = near}, 64, 1024);
		machine.node = -1;
		te_info(n.te, &info);
		assert_int_equal(info.numa_node, 1);
		assert_int_equal(info.near, near && nodes);
		struct te_msg *m = te_msg_acquire(n.te);
		memset(m->data, 1, KV_MSG_MAX);
		if (info.near && info.node_error == 0)
			assert_int_equal(kv_numa_share(m->data, KV_MSG_MAX, 1), 100);
		te_msg_release(n.te, m);
		close_all();
	}
}

static void addresses_are_inserted_once_and_removed_last(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	struct te_peer *one = peer(1), *two = peer(1);
	assert_int_equal(fake.inserts, 1);
	start(&x, &r, TE_WRITE, two, CHUNK, 1);
	te_peer_close(&one);
	te_peer_close(&two);
	assert_int_equal(fake.removes, 0); /* an operation is still on its way there */
	fake_complete(0, 0);
	turn();
	assert_int_equal(r.done, 1);
	assert_int_equal(fake.removes, 1);
	close_all();
}

static unsigned open_at_done;

static void note_open(struct te_xfer *x, int status)
{
	struct result *r = x->arg;
	open_at_done = fake.opens;
	r->done++;
	r->status = status;
}

static void endpoints_close_before_anybody_is_told(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	xfer_init(&x, &r, TE_WRITE, peer(1), &area, 0, &far, 0, CHUNK);
	x.done = note_open;
	assert_int_equal(te_xfer_start(n.te, &x), 1);
	open_at_done = 99;
	close_all();
	assert_int_equal(open_at_done, 0);
	assert_int_equal(r.status, -KV_ECLOSED);
}

/* ---- everything at random ---- */

enum { SLOTS = 40, PEERS = 5, STEPS = 60000 };

static struct {
	struct te_xfer x[SLOTS];
	struct result r[SLOTS];
	bool live[SLOTS];
	struct te_peer *peers[PEERS];
	struct kv_prng prng;
	uint64_t started, sent;
	struct result msgs[SLOTS];
	bool msg_live[SLOTS];
} all;

static uint64_t below(uint64_t bound)
{
	return kv_prng_below(&all.prng, bound);
}

static void random_start(unsigned i)
{
	struct te_peer *p = all.peers[below(PEERS)];
	if (all.live[i] || !p)
		return;
	xfer_init(&all.x[i], &all.r[i], below(2) ? TE_WRITE : TE_READ, p, &area, 0, &far, 0, below(12) * CHUNK / 2);
	all.x[i].with_imm = all.x[i].dir == TE_WRITE && below(2);
	all.x[i].link = below(2) ? TE_LINK_ANY : 0;
	all.x[i].deadline_ns = below(4) ? KV_NEVER : fake_now_ns + below(3000000);
	int rc = te_xfer_start(n.te, &all.x[i]);
	assert_true(rc == 0 || rc == 1 || rc == -KV_EPEERDOWN);
	assert_int_equal(all.r[i].done, 0);
	all.live[i] = rc >= 0;
	all.started += rc >= 0;
}

static void random_send(unsigned i)
{
	uint8_t data[8] = {0};
	struct te_peer *p = all.peers[below(PEERS)];
	if (all.msg_live[i] || !p)
		return;
	struct te_msg *m = msg_for(&n, &all.msgs[i], data, 8);
	if (!m)
		return;
	te_msg_send(n.te, p, 0, m, below(4) ? KV_NEVER : fake_now_ns + below(3000000));
	all.msg_live[i] = true;
	all.sent++;
}

static void random_complete(void)
{
	if (fake.count == 0)
		return;
	unsigned i = (unsigned)below(fake.count);
	if (!fake.posts[i].over && fake.nevents < FAKE_EVENTS_MAX - 1)
		fake_complete(i, below(20) ? 0 : (int[]){-ECANCELED, -EINVAL, -ENOTCONN}[below(3)]);
}

static void random_peer(unsigned i)
{
	struct te_address a = {.len = 2, .data = {(uint8_t)(1 + below(20))}};
	if (!all.peers[i])
		te_peer_open(n.te, &a, 1, &all.peers[i], NULL);
	else if (below(2))
		te_peer_readdress(all.peers[i], &a, 1, NULL);
	else
		te_peer_close(&all.peers[i]);
}

static void random_trouble(void)
{
	static const int codes[] = {-EINVAL, -ENOTCONN, -EAGAIN};
	switch (below(6)) {
	case 0:
		fake.fail_next = codes[below(KV_COUNT(codes))];
		break;
	case 1:
	case 2:
		fake.eagain[1 + below(20)] ^= 1;
		break;
	case 3:
		if (fake.nevents < FAKE_EVENTS_MAX - 1 && below(10) == 0)
			fake_event(0, (struct fab_event){.type = FAB_EV_DEAD});
		break;
	case 4:
		fake.recvs_eagain = (unsigned)below(3);
		break;
	default:
		if (all.peers[0] && below(10) == 0) {
			fake.rebuild_failures = below(3) ? 0 : 1;
			te_peer_fence(all.peers[0], NULL);
		}
	}
}

/* What must hold at every moment. */
static void check_all(void)
{
	struct te_stats s;
	te_stats(n.te, &s);
	assert_true(fake_outstanding() <= s.inflight);
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct te_xfer *x = &all.x[i];
		if (!all.live[i])
			continue;
		assert_true(all.r[i].done <= 1 && all.r[i].posting_done <= 1);
		assert_true(x->completed <= x->posted && x->posted <= te_xfer_chunks(n.te, x));
		if (!all.r[i].done)
			continue;
		assert_int_equal(all.r[i].status == 0, x->completed == te_xfer_chunks(n.te, x));
		if (all.r[i].posting_done)
			assert_int_equal(all.r[i].posted_when_told, x->posted);
		all.live[i] = false;
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (all.msg_live[i] && all.msgs[i].done)
			all.msg_live[i] = false;
}

/* breaks_stay: a connection that broke is kept by the provider, and there are only so many of them. slow: endpoints
 * take long to close. */
static void everything_at_random(bool breaks_stay, bool slow)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	printf("# KVRAIL_SEED=%llu\n", (unsigned long long)seed);
	memset(&all, 0, sizeof(all));
	kv_prng_seed(&all.prng, seed);
	machine.slow = slow;
	open_with((struct te_options){.link_ops = 2, .link_bytes = 3 * CHUNK, .messages = 16}, 24, 200);
	machine.slow = false;
	fake.caps.breaks_stay = breaks_stay;
	fake.caps.peers_max = breaks_stay ? 6 : 0;
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)below(SLOTS);
		switch (below(12)) {
		case 0:
		case 1:
		case 2:
			random_start(i);
			break;
		case 3:
			random_send(i);
			break;
		case 4:
			if (all.live[i] && below(3) == 0)
				te_xfer_cancel(n.te, &all.x[i]);
			break;
		case 5:
			if (below(8) == 0)
				random_peer((unsigned)below(PEERS));
			break;
		case 6:
			if (below(8) == 0)
				random_trouble();
			break;
		case 7:
			fake_now_ns += below(2000000);
			if (slow)
				fake.closed = below(50) == 0;
			break;
		case 8:
		case 9:
			random_complete();
			break;
		default:
			turn();
			check_all();
		}
	}
	assert_true(all.started > 1000 && all.sent > 100);
	node_close(&n);
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_int_equal(all.live[i] ? all.r[i].done : 1, 1);
		assert_int_equal(all.msg_live[i] ? all.msgs[i].done : 1, 1);
	}
	free(area.remote.keys);
	free(area.base);
}

static void everything_ends_once_whatever_happens(void **state)
{
	(void)state;
	everything_at_random(false, false);
}

static void everything_ends_once_where_connections_stay_broken(void **state)
{
	(void)state;
	everything_at_random(true, false);
}

static void everything_ends_once_where_endpoints_close_slowly(void **state)
{
	(void)state;
	everything_at_random(false, true);
	assert_true(n.fenced > 3);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		NODE_CASE(contiguous_bytes_grow_in_order),
		NODE_CASE(a_read_waits_for_its_first_chunk),
		NODE_CASE(chunks_carry_address_key_and_immediate),
		NODE_CASE(shm_pushes_only_with_an_immediate),
		NODE_CASE(a_message_follows_only_on_the_connection_of_its_bytes),
		NODE_CASE(messages_are_on_the_node_of_the_nics),
		NODE_CASE(addresses_are_inserted_once_and_removed_last),
		NODE_CASE(endpoints_close_before_anybody_is_told),
		NODE_CASE(everything_ends_once_whatever_happens),
		NODE_CASE(everything_ends_once_where_connections_stay_broken),
		NODE_CASE(everything_ends_once_where_endpoints_close_slowly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
