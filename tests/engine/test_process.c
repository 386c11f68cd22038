/* SPDX-License-Identifier: Apache-2.0 */
/* test_process.c -- peers in processes of their own, that stop, die or go on writing: the fence, and death. */
#include "tests/engine/child.h"

#include <signal.h>

enum { LATE_NS = 300000000 };

static struct node n;
static struct area area;
static struct child child;

static void start(void **state, enum child_role role)
{
	node_open(&n, *state, NULL);
	area_open(&area, &n, CHILD_AREA, 0, 0);
	child_start(&child, role, *state, &n, &area);
}

static void finish(void)
{
	if (child.pid > 0)
		child_end(&child);
	area_close(&area);
	node_close(&n);
}

/* Which part of the writer's pattern is here: bytes from the start that are not poison, as a stopped transfer leaves
 * them. */
static uint64_t landed(uint8_t poison)
{
	uint64_t i = 0;
	while (i < area.len && !(area.base[i] == poison && area.base[i + 1] == poison && area.base[i + 2] == poison &&
				 area.base[i + 3] == poison))
		i += 4;
	return i;
}

/* Let the child write until a chunk is under way here, and stop it there. */
static void stop_mid_chunk(uint8_t poison)
{
	memset(area.base, poison, area.len);
	WAIT(area.base[1 << 20] != poison || area.base[(1 << 20) + 1] != poison || area.base[(1 << 20) + 2] != poison);
	child_signal(&child, SIGSTOP);
	node_poll_for(LATE_NS / 3); /* what is in the sockets */
}

static bool all_are(uint8_t poison)
{
	return area.base[0] == poison && memcmp(area.base, area.base + 1, area.len - 1) == 0;
}

/* Without a fence a stopped writer goes on where it was: this is what a fence is for, and shows that the next test can
 * fail. */
static void a_stopped_writer_goes_on_writing(void **state)
{
	start(state, CHILD_WRITE);
	struct te_peer *peer = child_peer(&child, &n);
	stop_mid_chunk(0xa1);
	memset(area.base, 0xb2, area.len);
	child_signal(&child, SIGCONT);
	WAIT(!all_are(0xb2));
	te_peer_close(&peer);
	finish();
}

static void a_fence_stops_a_writer_in_the_middle_of_a_chunk(void **state)
{
	for (unsigned round = 0; round < 3; round++) {
		start(state, CHILD_WRITE);
		struct te_peer *peer = child_peer(&child, &n);
		stop_mid_chunk(0xa1);
		uint64_t before = landed(0xa1);
		printf("# stopped with %llu of %llu bytes landed, %llu whole chunks before\n",
		       (unsigned long long)before, (unsigned long long)area.len, (unsigned long long)n.imms);
		assert_in_range(te_peer_fence(peer, NULL), 0, 1);
		unsigned rebuilt = te_reset_due(n.te);
		while (te_fencing(n.te))
			node_poll_all();
		memset(area.base, 0xb2, area.len);
		uint64_t imms = n.imms;
		child_signal(&child, SIGCONT);
		node_poll_for(LATE_NS);
		assert_true(all_are(0xb2));
		assert_int_equal(n.imms, imms);
		assert_int_equal(n.resets, rebuilt);
		te_peer_close(&peer);
		finish();
	}
}

static uint32_t stamp_at(uint64_t offset)
{
	uint32_t stamp;
	memcpy(&stamp, area.base + offset, sizeof(stamp));
	return stamp;
}

/* What the writer's stamps say (child.h): whole chunks of a round or a later one, and chunks that are here in part. */
static void chunks_here(uint32_t round, unsigned *out_whole, unsigned *out_part)
{
	*out_whole = *out_part = 0;
	for (uint64_t at = 0, end; at < area.len; at = end) {
		end = KV_MIN(at + child.hello.chunk, area.len);
		uint32_t head = stamp_at(at), tail = stamp_at(end - sizeof(tail));
		*out_whole += tail >= round;
		*out_part += head > tail;
	}
}

static bool inside_a_chunk(void)
{
	unsigned whole, part;
	chunks_here(0, &whole, &part);
	return part > 0;
}

/* However many chunks of a round are announced, so many of them are here. */
static void announced(struct node *node, uint32_t imm)
{
	static uint32_t round, count;
	unsigned whole, part;
	count = imm == round && node->imms > 1 ? count + 1 : 1;
	round = imm;
	chunks_here(round, &whole, &part);
	if (whole < count)
		fail_msg("%u chunks of round %u are announced, %u are here", count, round, whole);
}

/* A killed process that copied by itself leaves the chunk where it was. A NIC goes on until the kernel has taken its
 * queue pair away, which is some way into the end of the process: what was posted may get there. So where a CPU copies,
 * the writer is stopped first, and what it had sent waited for. */
static bool cpu_copies(const char *provider)
{
	return strcmp(provider, "tcp") == 0;
}

/* Kill the writer inside a chunk, and take what still comes. Whether it was inside. */
static bool kill_in_chunk(const char *provider)
{
	unsigned whole, part;
	WAIT(n.imms > 0);
	WAIT(inside_a_chunk());
	if (cpu_copies(provider)) {
		child_signal(&child, SIGSTOP);
		node_poll_for(LATE_NS / 3);
	}
	child_end(&child);
	node_poll_for(LATE_NS / 6);
	chunks_here(n.last_imm, &whole, &part);
	printf("# killed in round %u: %u chunks of %llu bytes are here in whole, %u in part\n", n.last_imm, whole,
	       (unsigned long long)child.hello.chunk, part);
	return part > 0;
}

static void others_go_on(const char *provider)
{
	struct node other;
	struct area far;
	struct te_xfer x;
	struct result r;
	node_open(&other, provider, NULL);
	area_open(&far, &other, 1 << 20, 0, 12);
	struct te_peer *good = node_peer(&n, &other);
	(void)node_peer(&other, &n); /* EFA answers only initiators that it knows */
	xfer_init(&x, &r, TE_READ, good, &area, 0, &far, 0, 1 << 20);
	assert_true(te_xfer_start(n.te, &x) >= 0);
	WAIT(r.done);
	assert_int_equal(r.status, 0);
	assert_memory_equal(area.base, far.base, 1 << 20);
	te_peer_close(&good);
	area_close(&far);
	node_close(&other);
}

/* rxm crashes here when the write carries its immediate with it (see split writes in engine/fabric/fabric.c). */
static void a_writer_killed_in_the_middle_of_a_chunk_harms_nobody(void **state)
{
	enum { INSIDE = 5, ROUNDS = 25 };
	unsigned inside = 0;
	for (unsigned round = 0; round < ROUNDS && inside < INSIDE; round++) {
		start(state, CHILD_WRITE);
		struct te_peer *peer = child_peer(&child, &n);
		n.on_immediate = announced;
		inside += kill_in_chunk(*state);
		n.on_immediate = NULL;
		others_go_on(*state);
		te_peer_close(&peer);
		finish();
	}
	if (inside < INSIDE && !cpu_copies(*state)) {
		printf("# skipped: the NIC is too fast: only %u of %u kills were inside a chunk\n", inside,
		       (unsigned)ROUNDS);
		skip();
	}
	assert_int_equal(inside, INSIDE);
}

enum { READS = 40 };

static bool all_done(const struct result *r)
{
	unsigned done = 0;
	for (unsigned i = 0; i < READS; i++)
		done += r[i].done != 0;
	return done == READS;
}

/* Begin all of them. False: they came to their deadline before one byte had moved, on a machine that is slow. */
static bool reads_begin(struct te_xfer *x, struct result *r, struct te_peer *peer, uint64_t patience_ns)
{
	for (unsigned i = 0; i < READS; i++) {
		xfer_init(&x[i], &r[i], node_break_dir(&n), peer, &area, 0, &child.remote, 0, CHILD_AREA);
		x[i].deadline_ns = kv_clock_now(&kv_clock_monotonic) + patience_ns;
		assert_true(te_xfer_start(n.te, &x[i]) >= 0);
	}
	WAIT(x[0].completed > 0 || all_done(r));
	return x[0].completed > 0;
}

static void a_killed_peer_ends_what_is_in_flight(void **state)
{
	static struct te_xfer x[READS];
	static struct result r[READS];
	uint64_t patience = 500000000;
	start(state, CHILD_SERVE);
	struct te_peer *peer = child_peer(&child, &n);
	while (!reads_begin(x, r, peer, patience)) {
		patience *= 2;
		assert_true(patience < WAIT_NS);
	}
	child_end(&child);
	WAIT(!te_busy(n.te));
	unsigned failed = 0;
	for (unsigned i = 0; i < READS; i++) {
		assert_int_equal(r[i].done, 1);
		assert_true(r[i].status == 0 || r[i].status == -KV_EPEERDOWN || r[i].status == -KV_ETIMEOUT);
		failed += r[i].status != 0;
	}
	assert_true(failed > 0);
	te_peer_close(&peer);
	finish();
}

/* shm cannot tell that a process died; what is in flight ends with the fence, and the process lives on. */
static void a_killed_peer_can_be_fenced_away(void **state)
{
	struct te_xfer x;
	struct result r;
	start(state, CHILD_SERVE);
	struct te_peer *peer = child_peer(&child, &n);
	xfer_init(&x, &r, TE_READ, peer, &area, 0, &child.remote, 0, 1 << 20);
	assert_true(te_xfer_start(n.te, &x) >= 0);
	WAIT(r.done);
	assert_int_equal(r.status, 0);
	child_end(&child);
	xfer_init(&x, &r, TE_WRITE, peer, &area, 0, &child.remote, 0, 8 << 20);
	x.deadline_ns = kv_clock_now(&kv_clock_monotonic) + 200000000;
	assert_true(te_xfer_start(n.te, &x) >= 0);
	node_poll_for(400000000);
	(void)node_fence(&n, peer);
	WAIT(r.done == 1);
	assert_false(te_busy(n.te));
	te_peer_close(&peer);
	finish();
}

/* Another process's death is not the end of others. */
static void a_killed_peer_does_not_disturb_another(void **state)
{
	struct node other;
	struct area far;
	struct te_xfer x;
	struct result r, rm;
	uint8_t data[64] = {3};
	start(state, CHILD_SERVE);
	struct te_peer *dying = child_peer(&child, &n);
	node_open(&other, *state, NULL);
	area_open(&far, &other, 1 << 20, 0, 12);
	struct te_peer *peer = node_peer(&n, &other);
	(void)node_peer(&other, &n);
	xfer_init(&x, &r, TE_READ, dying, &area, 0, &child.remote, 0, 1 << 20);
	assert_true(te_xfer_start(n.te, &x) >= 0);
	WAIT(r.done);
	child_end(&child);
	te_msg_send(n.te, dying, 0, msg_for(&n, &rm, data, 64), kv_clock_now(&kv_clock_monotonic) + 300000000);
	for (unsigned i = 0; i < 20; i++) {
		struct te_xfer y;
		struct result ry;
		xfer_init(&y, &ry, TE_READ, peer, &area, 0, &far, 0, 1 << 20);
		assert_true(te_xfer_start(n.te, &y) >= 0);
		WAIT(ry.done);
		assert_int_equal(ry.status, 0);
		assert_memory_equal(area.base, far.base, 1 << 20);
		memset(area.base, 0, 1 << 20);
	}
	WAIT(rm.done); /* sent into the void, refused, or not posted by its deadline */
	te_peer_close(&dying);
	te_peer_close(&peer);
	area_close(&far);
	node_close(&other);
	finish();
}

/* node_is_shm: cases that need a peer's death to be told, and a read or write to be cut off. */
static const struct node_case cases[] = {
	{"a stopped writer goes on writing", a_stopped_writer_goes_on_writing, node_is_shm},
	{"a fence stops a writer in the middle of a chunk", a_fence_stops_a_writer_in_the_middle_of_a_chunk,
	 node_is_shm},
	{"a writer killed in the middle of a chunk harms nobody", a_writer_killed_in_the_middle_of_a_chunk_harms_nobody,
	 node_is_shm},
	{"a killed peer ends what is in flight", a_killed_peer_ends_what_is_in_flight, node_is_shm},
	{"a killed peer does not disturb another", a_killed_peer_does_not_disturb_another, node_is_shm},
	{"a killed peer can be fenced away", a_killed_peer_can_be_fenced_away, NULL},
};

int main(int argc, char **argv)
{
	test_env();
	return child_main(argc, argv) ? 0 : node_cases_run("process", cases, KV_COUNT(cases));
}
