/* SPDX-License-Identifier: Apache-2.0 */
/* test_local.c -- peers on this host: messages through a channel in shared memory, its full ring, its end in every
 * state, and peers that scribble. The fabric does what the test says (fake/fake.h); the channel is real. */
#include "tests/engine/ends.h"
#include "tests/engine/fake/rig.h"

#include <errno.h>

enum { PEERS = 40, FRAME = 64 };

/* The peers' ends of the channels; the engine has the servers'. */
static struct ends ends[PEERS];
static struct te_peer *peers[PEERS];

static void far_send(unsigned at, uint32_t number)
{
	uint8_t frame[FRAME] = {0};
	kv_put32(frame, number);
	assert_int_equal(local_send(ends[at].client, frame, sizeof(frame)), 0);
}

/* The next frame at the peer's end; UINT32_MAX: none. */
static uint32_t far_receive(unsigned at)
{
	static uint8_t frame[KV_MSG_MAX];
	uint32_t len = 0;
	int rc = local_receive(ends[at].client, frame, &len);
	assert_in_range(rc, 0, 1);
	return rc ? kv_get32(frame) : UINT32_MAX;
}

static void join(unsigned at)
{
	peers[at] = peer((uint16_t)(at + 1));
	ends_open(&ends[at]);
	assert_int_equal(te_peer_local(peers[at], ends[at].server), 0);
	assert_true(te_peer_is_local(peers[at]));
}

static void quit(unsigned at)
{
	te_peer_close(&peers[at]);
	ends_close(&ends[at]);
}

/* Open the engine with this many local peers. */
static void begin(unsigned count)
{
	open_plain();
	for (unsigned i = 0; i < count; i++)
		join(i);
}

static void end(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (peers[i])
			quit(i);
	close_all();
}

static void put(unsigned at, uint32_t number, uint32_t len, struct result *r, uint64_t deadline_ns)
{
	uint8_t frame[KV_MSG_MAX] = {0};
	kv_put32(frame, number);
	struct te_msg *m = msg_for(&n, r, frame, len);
	assert_non_null(m);
	te_msg_send(n.te, peers[at], 0, m, deadline_ns);
	assert_int_equal(r->done, 0); /* `sent` never runs inside */
}

/* Fill the ring of a peer; at least one message waits for it. Returns how many were sent; r has that many results. */
static unsigned overfill(unsigned at, struct result *r, unsigned max, uint64_t deadline_ns)
{
	unsigned sent = 0;
	for (struct te_stats s = {0}; s.queued == 0 && sent < max; sent++) {
		put(at, sent, KV_MSG_MAX, &r[sent], deadline_ns);
		te_stats(n.te, &s);
	}
	assert_in_range(sent, 2, max - 1);
	return sent;
}

static void messages_use_the_ring_in_order(void **state)
{
	struct result r[10];
	struct te_stats s;
	(void)state;
	machine.devices = 2;
	open_with((struct te_options){.rails = 2}, 64, 1024);
	machine.devices = 1;
	join(0);
	assert_int_equal(te_peer_links(peers[0]), 2);
	for (uint32_t i = 0; i < 10; i++) {
		uint8_t frame[FRAME] = {0};
		kv_put32(frame, i);
		te_msg_send(n.te, peers[0], i % 2, msg_for(&n, &r[i], frame, FRAME), 0);
		assert_int_equal(far_receive(0), i); /* it left at once */
		assert_int_equal(r[i].done, 0);
	}
	assert_true(te_busy(n.te));
	turn();
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(r[i].done, 1);
		assert_int_equal(r[i].status, 0);
	}
	assert_false(te_busy(n.te));
	assert_int_equal(fake.count, 0);
	te_stats(n.te, &s);
	assert_int_equal(s.local_sends, 10);
	assert_int_equal(s.sends, 0);
	end(1);
}

static uint32_t next_frame;

static void frame_in_order(struct node *node, struct te_peer *p, const uint8_t *data, size_t len)
{
	(void)node;
	assert_ptr_equal(p, peers[0]);
	assert_int_equal(len, FRAME);
	assert_int_equal(kv_get32(data), next_frame++);
}

static void frames_arrive_in_order_some_a_turn(void **state)
{
	struct te_stats s;
	(void)state;
	begin(1);
	next_frame = 0;
	n.on_local = frame_in_order;
	for (uint32_t i = 0; i < 100; i++)
		far_send(0, i);
	assert_in_range(te_poll(n.te), 1, 99);
	assert_in_range(n.locals, 1, 99); /* others have their turn as well */
	for (unsigned i = 0; i < 100; i++)
		turn();
	assert_int_equal(n.locals, 100);
	assert_int_equal(n.messages, 0);
	assert_int_equal(te_poll(n.te), 0);
	te_stats(n.te, &s);
	assert_int_equal(s.local_receives, 100);
	end(1);
}

/* Looks at the fabric in this many turns, in each of which a frame comes. */
static unsigned looks(unsigned turns)
{
	unsigned before = fake.polls;
	for (unsigned i = 0; i < turns; i++) {
		far_send(0, 0);
		turn();
	}
	return fake.polls - before;
}

static void a_quiet_fabric_is_looked_at_less_beside_local_peers(void **state)
{
	enum { MANY = 400, FEW = MANY / 4 + 2, IDLE = 100 };
	static struct result r;
	unsigned before;
	(void)state;
	begin(1);
	peers[1] = peer(2); /* over the fabric */
	looks(MANY);
	assert_in_range(looks(MANY), MANY / 10, FEW);
	put(1, 0, FRAME, &r, KV_NEVER); /* an operation is out */
	assert_int_equal(looks(MANY), MANY);
	fake_complete(fake.count - 1, 0);
	assert_in_range(looks(10), 10, 11);
	assert_int_equal(r.done, 1);
	looks(MANY);
	assert_in_range(looks(MANY), MANY / 10, FEW);
	fake_event(0, (struct fab_event){.type = FAB_EV_IMM, .imm = 1});
	assert_in_range(looks(4), 1, 5); /* it is found, ... */
	assert_int_equal(fake.nevents, 0);
	assert_in_range(looks(8), 8, 9); /* ... and more are expected */
	looks(MANY);
	for (unsigned i = 0; i < IDLE; i++)
		turn();
	before = fake.polls;
	turn();
	assert_int_equal(fake.polls - before, 1); /* no frames: each turn looks */
	end(2);
}

static void a_full_ring_delays_messages_and_loses_none(void **state)
{
	static struct result r[256];
	(void)state;
	begin(2);
	unsigned sent = overfill(0, r, 200, KV_NEVER);
	for (unsigned i = 0; i < 5; i++, sent++)
		put(0, sent, FRAME, &r[sent], KV_NEVER);
	turn();
	assert_int_equal(r[sent - 7].done, 1);
	for (unsigned i = sent - 6; i < sent; i++)
		assert_int_equal(r[i].done, 0);
	assert_true(te_busy(n.te));
	put(1, 7, FRAME, &r[255], KV_NEVER); /* another peer's ring has room */
	assert_int_equal(far_receive(1), 7);
	for (uint32_t i = 0; i < sent; i++) {
		assert_int_equal(far_receive(0), i);
		turn();
	}
	assert_int_equal(far_receive(0), UINT32_MAX);
	for (unsigned i = 0; i < sent; i++) {
		assert_int_equal(r[i].done, 1);
		assert_int_equal(r[i].status, 0);
	}
	assert_false(te_busy(n.te));
	end(2);
}

static void a_message_that_waits_ends_by_its_deadline(void **state)
{
	static struct result r[256];
	struct te_stats s;
	(void)state;
	begin(1);
	unsigned sent = overfill(0, r, 200, KV_NEVER);
	put(0, sent, FRAME, &r[sent], fake_now_ns + 1000000);
	put(0, sent + 1, FRAME, &r[sent + 1], KV_NEVER);
	fake_now_ns += 10000000;
	turn();
	assert_int_equal(r[sent].done, 1);
	assert_int_equal(r[sent].status, -KV_ETIMEOUT);
	assert_int_equal(r[sent - 1].done + r[sent + 1].done, 0);
	for (unsigned i = 0; i < sent; i++) {
		assert_int_equal(far_receive(0), i);
		turn();
	}
	assert_int_equal(far_receive(0), sent + 1);
	assert_int_equal(r[sent + 1].done, 1);
	te_stats(n.te, &s);
	assert_int_equal(s.timeouts, 1);
	end(1);
}

static void the_end_of_a_peer_ends_its_messages(void **state)
{
	static struct result r[256];
	(void)state;
	begin(2);
	unsigned sent = overfill(0, r, 200, KV_NEVER);
	te_peer_close(&peers[0]);
	ends_close(&ends[0]); /* the engine has no eye on it any more */
	turn();
	for (unsigned i = 0; i < sent; i++) {
		assert_int_equal(r[i].done, 1);
		assert_int_equal(r[i].status, i == sent - 1 ? -KV_ECLOSED : 0);
	}
	far_send(1, 1);
	turn();
	assert_int_equal(n.locals, 1);
	end(2);
}

static void after_the_end_of_its_channel_a_peer_uses_the_fabric(void **state)
{
	static struct result r[256];
	(void)state;
	begin(1);
	unsigned sent = overfill(0, r, 200, KV_NEVER);
	far_send(0, 1);
	te_peer_local_end(peers[0]);
	te_peer_local_end(peers[0]);
	assert_false(te_peer_is_local(peers[0]));
	ends_close(&ends[0]);
	turn();
	assert_int_equal(n.locals, 0);
	assert_int_equal(r[sent - 1].status, -KV_ERESET); /* a frame without a seal must not leave over the fabric */
	assert_int_equal(r[sent - 2].status, 0);
	put(0, 0, FRAME, &r[sent], KV_NEVER);
	assert_int_equal(fake.count, 1);
	fake_complete(0, 0);
	turn();
	assert_int_equal(r[sent].done, 1);
	assert_int_equal(r[sent].status, 0);
	ends_open(&ends[0]);
	assert_int_equal(te_peer_local(peers[0], ends[0].server), 0);
	put(0, 5, FRAME, &r[0], KV_NEVER);
	assert_int_equal(far_receive(0), 5);
	end(1);
}

/* What ends the local use of peer 0. */
static void by_a_dead_endpoint(void)
{
	rail_dies(0);
	assert_int_equal(n.resets, 1);
}

static void by_a_fence(void)
{
	assert_int_equal(te_peer_fence(peers[0], NULL), 0);
	turn();
	assert_int_equal(n.resets, 1);
}

static void by_a_cut(void)
{
	fake.caps.peer_fence = true;
	assert_int_equal(te_peer_cut(peers[0]), 0);
	assert_int_equal(fake.cuts, 1);
}

static void a_void_peer_is_not_local(void **state)
{
	static void (*const how[])(void) = {by_a_dead_endpoint, by_a_fence, by_a_cut};
	static struct result r[256];
	struct te_address again = {.len = 2, .data = {9}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(how); i++) {
		begin(1);
		unsigned sent = overfill(0, r, 200, KV_NEVER);
		far_send(0, 1);
		how[i]();
		assert_false(te_peer_is_local(peers[0]));
		ends_close(&ends[0]);
		turn();
		assert_int_equal(r[sent - 1].done, 1);
		assert_int_equal(r[sent - 1].status, -KV_ERESET);
		assert_int_equal(r[sent - 2].status, 0);
		ends_open(&ends[0]);
		assert_int_equal(te_peer_local(peers[0], ends[0].server), -KV_EPEERDOWN);
		assert_int_equal(te_peer_readdress(peers[0], &again, 1, NULL), 0);
		assert_int_equal(te_peer_local(peers[0], ends[0].server), 0);
		put(0, 3, FRAME, &r[0], KV_NEVER);
		assert_int_equal(far_receive(0), 3);
		turn();
		assert_int_equal(r[0].done, 1);
		end(1);
	}
}

/* ---- callbacks ---- */

static unsigned victim;

static void close_victim(struct node *node, struct te_peer *p, const uint8_t *data, size_t len)
{
	(void)node;
	(void)p;
	(void)data;
	(void)len;
	if (peers[victim])
		quit(victim);
}

/* The handler of peer 2's first frame closes a peer: an earlier one, itself, a later one, the last. */
static void a_handler_may_close_any_peer(void **state)
{
	static const unsigned victims[] = {0, 2, 3, 4};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(victims); i++) {
		begin(5);
		victim = victims[i];
		far_send(2, 1);
		far_send(2, 2);
		n.on_local = close_victim;
		turn();
		assert_int_equal(n.locals, victim == 2 ? 1 : 2);
		n.on_local = NULL;
		n.locals = 0;
		for (unsigned p = 0; p < 5; p++)
			if (peers[p])
				far_send(p, 1);
		turn();
		assert_int_equal(n.locals, 4); /* all others still have their entries */
		end(5);
	}
}

static void add_more(struct node *node, struct te_peer *p, const uint8_t *data, size_t len)
{
	(void)p;
	(void)data;
	(void)len;
	node->on_local = NULL;
	quit(1);
	for (unsigned i = 2; i < PEERS; i++)
		join(i);
}

static void a_handler_may_add_peers(void **state)
{
	(void)state;
	begin(2);
	far_send(0, 1);
	far_send(0, 2);
	n.on_local = add_more;
	turn();
	assert_int_equal(n.locals, 2);
	for (unsigned i = 2; i < PEERS; i++)
		far_send(i, 1);
	turn();
	assert_int_equal(n.locals, 2 + PEERS - 2);
	end(PEERS);
}

static void fence_all(struct node *node, struct te_peer *p, const uint8_t *data, size_t len)
{
	(void)data;
	(void)len;
	node->on_local = NULL;
	assert_int_equal(te_peer_fence(p, NULL), 0);
}

static void a_handler_may_fence(void **state)
{
	(void)state;
	begin(3);
	for (unsigned i = 0; i < 3; i++)
		far_send(i, 1);
	n.on_local = fence_all;
	turn();
	assert_int_equal(n.locals, 1);
	assert_int_equal(n.resets, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_false(te_peer_is_local(peers[i]));
	end(3);
}

static void close_of_msg(struct te_msg *m, int status)
{
	(void)m;
	assert_int_equal(status, 0);
	if (peers[0])
		quit(0);
}

static void sent_may_close_its_peer(void **state)
{
	struct result r;
	(void)state;
	begin(2);
	for (unsigned i = 0; i < 2; i++) {
		struct te_msg *m = msg_for(&n, &r, "frame", 5);
		m->sent = close_of_msg;
		te_msg_send(n.te, peers[0], 0, m, KV_NEVER);
	}
	far_send(0, 1);
	far_send(1, 1);
	turn();
	assert_false(te_busy(n.te));
	assert_null(peers[0]);
	end(2);
}

static void the_engine_closes_with_local_peers(void **state)
{
	static struct result r[256];
	(void)state;
	begin(3);
	unsigned sent = overfill(1, r, 200, KV_NEVER);
	put(0, 1, FRAME, &r[sent], KV_NEVER);
	close_all();
	for (unsigned i = 0; i < sent + 1; i++)
		assert_int_equal(r[i].done, 1);
	assert_int_equal(r[sent].status, 0);
	assert_int_equal(r[sent - 1].status, -KV_ECLOSED);
	for (unsigned i = 0; i < 3; i++) {
		peers[i] = NULL; /* the engine freed it */
		ends_close(&ends[i]);
	}
}

/* ---- refusals, and peers that lie ---- */

static void no_message_follows_bytes_to_a_local_peer(void **state)
{
	struct te_xfer x;
	struct result r, rm;
	(void)state;
	machine.ordered = true;
	begin(1);
	te_order_begin(n.te);
	xfer_init(&x, &r, TE_WRITE, peers[0], &area, 0, &far, 0, CHUNK);
	x.with_imm = false;
	x.ordered = true;
	x.link = 0;
	assert_int_equal(te_xfer_start(n.te, &x), -KV_EBUSY);
	struct te_msg *m = msg_for(&n, &rm, "frame", 5);
	assert_int_equal(te_msg_follow(n.te, peers[0], 0, m), -KV_EBUSY);
	te_msg_release(n.te, m);
	te_order_end(n.te);
	machine.ordered = false;
	end(1);
}

static void refusals(void **state)
{
	struct result r;
	struct ends other;
	(void)state;
	begin(1);
	ends_open(&other);
	assert_int_equal(te_peer_local(peers[0], other.server), -KV_EINVAL);
	ends_close(&other);
	te_msg_send(n.te, peers[0], 1, msg_for(&n, &r, "frame", 5), KV_NEVER);
	turn();
	assert_int_equal(r.status, -KV_EINVAL);
	struct te_msg *m = msg_for(&n, &r, "frame", 5);
	m->len = KV_MSG_MAX + 1;
	te_msg_send(n.te, peers[0], 0, m, KV_NEVER);
	turn();
	assert_int_equal(r.status, -KV_EINVAL);
	assert_int_equal(far_receive(0), UINT32_MAX);
	end(1);
}

/* The peer of a full ring fills its pages with rubbish: one more message ends as the others, and the fence still works.
 */
static void a_peer_that_scribbles_is_down(void **state)
{
	static struct result r[256];
	struct te_xfer x;
	struct result rx;
	struct te_stats s;
	struct te_address again = {.len = 2, .data = {9}};
	(void)state;
	begin(2);
	unsigned sent = overfill(0, r, 200, KV_NEVER);
	memset(ends[0].pages, 0xab, ends[0].len);
	turn();
	assert_int_equal(r[sent - 1].done, 1);
	assert_int_equal(r[sent - 1].status, -KV_EPEERDOWN);
	assert_false(te_peer_is_local(peers[0]));
	te_stats(n.te, &s);
	assert_int_equal(s.local_lies, 1);
	put(0, 1, FRAME, &r[0], KV_NEVER);
	start(&x, &rx, TE_WRITE, peers[0], CHUNK, -KV_EPEERDOWN);
	turn();
	assert_int_equal(r[0].status, -KV_EPEERDOWN);
	assert_int_equal(fake.count, 0);
	far_send(1, 1);
	turn();
	assert_int_equal(n.locals, 1);
	/* Its bytes may still arrive: a fence is more than a word. */
	fake.caps.peer_fence = true;
	assert_int_equal(te_peer_fence(peers[0], NULL), 0);
	assert_int_equal(fake.cuts, 1);
	ends_close(&ends[0]);
	assert_int_equal(te_peer_readdress(peers[0], &again, 1, NULL), 0);
	ends_open(&ends[0]);
	assert_int_equal(te_peer_local(peers[0], ends[0].server), 0);
	put(0, 9, FRAME, &r[0], KV_NEVER);
	assert_int_equal(far_receive(0), 9);
	end(2);
}

static void a_lie_found_while_sending_ends_the_channel(void **state)
{
	struct result r;
	(void)state;
	begin(1);
	memset(ends[0].pages, 0xcd, ends[0].len);
	put(0, 1, FRAME, &r, KV_NEVER);
	turn();
	assert_int_equal(r.done, 1);
	assert_false(te_peer_is_local(peers[0]));
	put(0, 1, FRAME, &r, KV_NEVER);
	turn();
	assert_int_equal(r.status, -KV_EPEERDOWN);
	end(1);
}

/* Its frames come first. No lie is counted. */
static void a_peer_that_closed_its_end_is_down(void **state)
{
	struct te_stats s;
	struct result r;
	(void)state;
	begin(2);
	far_send(0, 1);
	far_send(0, 2);
	local_channel_close(&ends[0].client);
	assert_int_equal(local_sleep(ends[0].server), -EAGAIN);
	for (unsigned i = 0; i < 40; i++) { /* a loop that sleeps and wakes */
		(void)local_sleep(ends[0].server);
		local_wake(ends[0].server);
	}
	turn();
	assert_int_equal(n.locals, 2);
	turn();
	assert_false(te_peer_is_local(peers[0]));
	assert_true(te_peer_is_local(peers[1]));
	put(0, 1, FRAME, &r, KV_NEVER);
	turn();
	assert_int_equal(r.status, -KV_EPEERDOWN);
	te_stats(n.te, &s);
	assert_int_equal(s.local_lies, 0);
	end(2);
}

/* ---- at random, against a model ---- */

enum { SOME = 6, RESULTS = 4096 };

static struct result all[RESULTS];
static uint32_t ids[SOME], due[SOME]; /* numbers the channels; the next frame at the peer's end */
static uint32_t far_next[SOME], near_next[SOME];
static unsigned used;

static void check_near(struct node *node, struct te_peer *p, const uint8_t *data, size_t len)
{
	unsigned at = 0;
	(void)node;
	(void)len;
	while (at < SOME && peers[at] != p)
		at++;
	assert_true(at < SOME);
	assert_int_equal(kv_get32(data), near_next[at]++);
}

static void random_join(unsigned at)
{
	join(at);
	ids[at] = due[at] = far_next[at] = near_next[at] = 0;
}

static void random_drain(unsigned at)
{
	for (uint32_t got; (got = far_receive(at)) != UINT32_MAX;)
		assert_int_equal(got, due[at]++);
}

static void random_step(struct kv_prng *prng)
{
	unsigned at = (unsigned)kv_prng_below(prng, SOME);
	switch (kv_prng_below(prng, 8)) {
	case 0:
		if (!peers[at])
			random_join(at);
		else if (kv_prng_below(prng, 8) == 0)
			quit(at);
		break;
	case 1:
	case 2:
	case 3:
		for (uint64_t i = kv_prng_below(prng, 20); peers[at] && i > 0 && used < RESULTS; i--) {
			uint8_t frame[KV_MSG_MAX] = {0};
			kv_put32(frame, ids[at]);
			struct te_msg *m =
				msg_for(&n, &all[used], frame, 4 + (uint32_t)kv_prng_below(prng, KV_MSG_MAX - 3));
			if (!m)
				break;
			used++;
			ids[at]++;
			te_msg_send(n.te, peers[at], 0, m, KV_NEVER);
		}
		break;
	case 4:
		if (peers[at])
			random_drain(at);
		break;
	case 5:
		for (uint64_t i = kv_prng_below(prng, 20); peers[at] && i > 0; i--)
			far_send(at, far_next[at]++);
		turn();
		turn();
		break;
	default:
		turn();
	}
}

static void random_use_loses_nothing_and_ends_all_once(void **state)
{
	struct kv_prng prng;
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	(void)state;
	printf("# KVRAIL_SEED=%llu\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	used = 0;
	open_plain();
	n.on_local = check_near;
	for (unsigned i = 0; i < 20000 && used < RESULTS; i++)
		random_step(&prng);
	for (unsigned i = 0; i < 100; i++) {
		turn();
		for (unsigned at = 0; at < SOME; at++)
			if (peers[at])
				random_drain(at);
	}
	for (unsigned at = 0; at < SOME; at++)
		if (peers[at]) {
			assert_int_equal(due[at], ids[at]);
			assert_int_equal(near_next[at], far_next[at]);
		}
	for (unsigned i = 0; i < used; i++)
		assert_int_equal(all[i].done, 1);
	assert_false(te_busy(n.te));
	end(SOME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_CASE(messages_use_the_ring_in_order),
		NODE_CASE(frames_arrive_in_order_some_a_turn),
		NODE_CASE(a_quiet_fabric_is_looked_at_less_beside_local_peers),
		NODE_CASE(a_full_ring_delays_messages_and_loses_none),
		NODE_CASE(a_message_that_waits_ends_by_its_deadline),
		NODE_CASE(the_end_of_a_peer_ends_its_messages),
		NODE_CASE(after_the_end_of_its_channel_a_peer_uses_the_fabric),
		NODE_CASE(a_void_peer_is_not_local),
		NODE_CASE(a_handler_may_close_any_peer),
		NODE_CASE(a_handler_may_add_peers),
		NODE_CASE(a_handler_may_fence),
		NODE_CASE(sent_may_close_its_peer),
		NODE_CASE(the_engine_closes_with_local_peers),
		NODE_CASE(no_message_follows_bytes_to_a_local_peer),
		NODE_CASE(refusals),
		NODE_CASE(a_peer_that_scribbles_is_down),
		NODE_CASE(a_lie_found_while_sending_ends_the_channel),
		NODE_CASE(a_peer_that_closed_its_end_is_down),
		NODE_CASE(random_use_loses_nothing_and_ends_all_once),
	};
	test_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
