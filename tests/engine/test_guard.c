/* SPDX-License-Identifier: Apache-2.0 */
/* test_guard.c -- what peers may send: connect requests and units one by one, each with one thing wrong; and streams of
 * them, cut anywhere, of which the provider must see every byte and never half a message. */
#include "tests/check.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/door/stream.h"
#include "tests/engine/fabric_wire.h"

static const struct guard_rules rxm = {.format = GUARD_RXM, .eager_bytes = LF_EAGER}, xnet = {.format = GUARD_XNET},
				reading = {
					.format = GUARD_RXM, .eager_bytes = LF_EAGER, .reads = true, .readable = true};

/* ---- connect requests ---- */

static void a_connect_request_tells_its_port(void **state)
{
	uint8_t p[64];
	uint16_t port = 0;
	const char *why;
	(void)state;
	assert_int_equal(guard_request(&rxm, p, lf_request(p, true, 4242, LF_EAGER), &port, &why), 1);
	assert_int_equal(port, 4242);
	assert_int_equal(guard_request(&xnet, p, lf_request(p, false, 4243, 0), &port, &why), 1);
	assert_int_equal(port, 4243);
}

static void a_part_of_a_request_may_become_one_and_more_than_one_is_none(void **state)
{
	uint8_t p[64] = {0};
	uint16_t port;
	const char *why;
	(void)state;
	for (int r = 0; r < 2; r++) {
		const struct guard_rules *rules = r ? &rxm : &xnet;
		size_t n = lf_request(p, r, 4242, LF_EAGER);
		assert_int_equal(guard_request_bytes(rules->format), n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(guard_request(rules, p, i, &port, &why), 0);
		assert_int_equal(guard_request(rules, p, n + 1, &port, &why), -1);
	}
}

/* Bytes of a request that the provider or we go by: with another value it is refused. */
static void each_field_of_a_request_counts(void **state)
{
	static const uint8_t rxm_fields[] = {0, 1, 2, 3, 4, 8, 15, 16, 23, 24, 31, 32, 33, 34, 35, 38, 39, 40, 43},
			     xnet_fields[] = {0, 1, 2, 3, 4, 8, 16, 24, 31, 33};
	uint8_t p[64];
	uint16_t port;
	const char *why;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(rxm_fields) + KV_COUNT(xnet_fields); i++) {
		bool r = i < KV_COUNT(rxm_fields);
		size_t n = lf_request(p, r, 4242, LF_EAGER);
		unsigned at = r ? rxm_fields[i] : xnet_fields[i - KV_COUNT(rxm_fields)];
		p[at] ^= 0x40;
		why = NULL;
		if (guard_request(r ? &rxm : &xnet, p, n, &port, &why) != -1 || !why)
			fail_msg("%s: byte %u does not matter", r ? "rxm" : "xnet", at);
	}
}

/* ---- units ---- */

enum { INDEX = 7 };

static void guard_ready(struct door_guard *g, const struct guard_rules *rules)
{
	memset(g, 0, sizeof(*g));
	g->rules = rules;
	g->begun = true;
	g->indexed = true;
	g->index = INDEX;
}

static void what_peers_send_is_let_through(void **state)
{
	uint8_t p[LF_UNIT_MAX], data[4096] = {1};
	const uint64_t imm = 77;
	const char *why;
	struct door_guard g;
	ssize_t n;
	(void)state;
	for (unsigned r = 0; r < 2; r++) {
		guard_ready(&g, r ? &rxm : &xnet);
		for (size_t len = 1; len <= sizeof(data); len += 819) {
			n = (ssize_t)lf_message(p, r, INDEX, data, len);
			assert_int_equal(guard_walk(&g, p, (size_t)n, &why), n);
			assert_null(why);
		}
		n = (ssize_t)lf_write(p, 4, NULL, 0, 1 << 20, 99);
		assert_int_equal(guard_walk(&g, p, (size_t)n, &why), n);
		assert_int_equal(g.skip, 1 << 20);
		assert_int_equal(guard_walk(&g, data, sizeof(data), &why), sizeof(data));
		assert_int_equal(g.skip, (1 << 20) - sizeof(data));
		g.skip = 0;
		n = (ssize_t)lf_write(p, 4, &imm, 0, 0, 99);
		assert_int_equal(guard_walk(&g, p, (size_t)n, &why), n);
	}
	/* The tcp provider's own endpoints have no split writes. */
	n = (ssize_t)lf_write(p, 4, &imm, 0, 4096, 99);
	guard_ready(&g, &xnet);
	assert_int_equal(guard_walk(&g, p, (size_t)n, &why), n);
}

/* One byte of a message or header, and what it becomes. */
struct wrong {
	const char *what;
	bool rxm, write;
	unsigned at, bytes;
	uint64_t value;
};

static void what_no_peer_sends_is_not(void **state)
{
	static const struct wrong wrongs[] = {
		{"an unknown version", true, false, 0, 1, 4},
		{"an unknown operation", true, false, 1, 1, 77},
		{"a tagged message", true, false, 1, 1, 1},
		{"a read request", true, true, 1, 1, 2},
		{"an answer to a read", true, false, 1, 1, 3},
		{"a rendezvous of the provider's own", false, false, 1, 1, 5},
		{"a message with an immediate", true, false, 2, 2, 1},
		{"a message that wants an acknowledgement", true, false, 2, 2, 4},
		{"a tag", true, false, 2, 2, 128},
		{"an acknowledgement", true, false, 4, 1, 2},
		{"an acknowledgement, native", false, false, 4, 1, 2},
		{"a short header", true, false, 6, 1, 8},
		{"a long header", true, false, 6, 1, 255},
		{"a message that is too long", true, false, 8, 8, 80 + 4097},
		{"a message without an end", true, false, 8, 8, UINT64_MAX},
		{"a message that is too short", true, false, 8, 8, 40},
		{"less than its header", true, false, 8, 8, 3},
		{"an unknown version of rxm", true, false, 16, 1, 3},
		{"a segment", true, false, 17, 1, 1},
		{"a rendezvous", true, false, 17, 1, 2},
		{"a read that is done", true, false, 17, 1, 3},
		{"an atomic", true, false, 17, 1, 4},
		{"an atomic's answer", true, false, 17, 1, 5},
		{"a credit", true, false, 17, 1, 6},
		{"a rendezvous' data", true, false, 17, 1, 7},
		{"another connection", true, false, 24, 8, INDEX + 1},
		{"a wild connection", true, false, 24, 8, UINT64_MAX},
		{"an unknown version of rxm's operations", true, false, 48, 1, 9},
		{"a tagged operation", true, false, 50, 1, 1},
		{"an operation with an immediate", true, false, 52, 4, 1},
		{"two sizes", true, false, 56, 8, 65},
		{"no piece", true, true, 5, 1, 0},
		{"two pieces", true, true, 5, 1, 2},
		{"255 pieces", true, true, 5, 1, 255},
		{"a write's acknowledgement", true, true, 2, 2, 4},
		{"a committed write", false, true, 2, 2, 8},
		{"another length than the piece's", true, true, 24, 8, 63},
		{"a write that is an acknowledgement", false, true, 4, 1, 2},
	};
	uint8_t p[LF_UNIT_MAX], data[64] = {0};
	const char *why;
	struct door_guard g;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(wrongs); i++) {
		const struct wrong *w = &wrongs[i];
		size_t n =
			w->write ? lf_write(p, 4, NULL, 0, 64, 99) : lf_message(p, w->rxm, INDEX, data, sizeof(data));
		guard_ready(&g, w->rxm ? &rxm : &xnet);
		assert_int_equal(guard_walk(&g, p, n, &why), n);
		guard_ready(&g, w->rxm ? &rxm : &xnet);
		lf_put(p + w->at, w->value, w->bytes);
		if (guard_walk(&g, p, n, &why) != -1 || !why)
			fail_msg("%s is let through", w->what);
	}
}

static void a_write_with_bytes_and_immediate_is_no_peers_over_rxm(void **state)
{
	const uint64_t imm = 5;
	uint8_t p[64];
	const char *why;
	struct door_guard g;
	(void)state;
	guard_ready(&g, &rxm);
	assert_int_equal(guard_walk(&g, p, lf_write(p, 4, &imm, 0, 64, 99), &why), -1);
}

static void messages_before_the_connection_has_an_index_are_not_let_through(void **state)
{
	uint8_t p[LF_UNIT_MAX], data[8] = {0};
	const char *why;
	struct door_guard g;
	(void)state;
	guard_ready(&g, &rxm);
	g.indexed = false;
	g.index = 0;
	assert_int_equal(guard_walk(&g, p, lf_message(p, true, 0, data, sizeof(data)), &why), -1);
}

static void reads_are_bounded_by_what_the_reader_takes(void **state)
{
	uint8_t p[64];
	const char *why;
	struct door_guard g;
	size_t n = lf_write(p, 2, NULL, 0, 100, 99);
	(void)state;
	guard_ready(&g, &reading);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < GUARD_READS_MAX; i++)
			assert_int_equal(guard_walk(&g, p, n, &why), n);
		guard_answered(&g, (uint64_t)GUARD_READS_MAX * 116);
	}
	for (unsigned i = 0; i < GUARD_READS_MAX; i++)
		assert_int_equal(guard_walk(&g, p, n, &why), n);
	assert_int_equal(guard_walk(&g, p, n, &why), -1);
}

/* A peer that reads all the time never has all its answers: what it has asked for since then does not count. */
static void a_reader_that_is_never_idle_may_go_on(void **state)
{
	enum { UNDER_WAY = 16, LEN = 1 << 20 };
	uint8_t p[64];
	const char *why;
	struct door_guard g;
	size_t n = lf_write(p, 2, NULL, 0, LEN, 99);
	(void)state;
	guard_ready(&g, &reading);
	for (unsigned i = 0; i < UNDER_WAY; i++)
		assert_int_equal(guard_walk(&g, p, n, &why), n);
	for (unsigned i = 0; i < 3 * GUARD_READS_MAX; i++) {
		guard_answered(&g, 16 + LEN);
		assert_int_equal(guard_walk(&g, p, n, &why), n);
	}
}

static void nothing_is_read_where_nothing_may_be(void **state)
{
	static uint64_t asked[GUARD_ASKED_MAX];
	struct guard_rules rules = reading;
	uint8_t p[64];
	const char *why;
	struct door_guard g;
	(void)state;
	rules.readable = false;
	guard_ready(&g, &rules);
	assert_int_equal(guard_walk(&g, p, lf_write(p, 2, NULL, 0, 100, 99), &why), -1);
	/* But what we asked for ourselves may be answered. */
	guard_ready(&g, &rules);
	g.asked = asked;
	guard_ask(&g, 5000);
	assert_int_equal(guard_walk(&g, p, lf_base(p, 3, 0, 1, 16, 16 + 5000), &why), 16);
	assert_int_equal(g.skip, 5000);
}

/* In order, each as long as was asked for, and no more of them. */
static void answers_are_what_was_asked_for(void **state)
{
	static uint64_t asked[GUARD_ASKED_MAX];
	uint8_t p[64];
	const char *why;
	struct door_guard g;
	(void)state;
	guard_ready(&g, &reading);
	assert_false(guard_may_ask(&g)); /* there is nowhere to note it */
	g.asked = asked;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < GUARD_ASKED_MAX; i++) {
			assert_true(guard_may_ask(&g));
			guard_ask(&g, i);
		}
		assert_false(guard_may_ask(&g));
		for (unsigned i = 0; i < GUARD_ASKED_MAX; i++) {
			assert_int_equal(guard_walk(&g, p, lf_base(p, 3, 0, 0, 16, 16 + i), &why), 16);
			g.skip = 0;
		}
	}
	assert_int_equal(guard_walk(&g, p, lf_base(p, 3, 0, 0, 16, 16), &why), -1);
	for (int other = -1; other <= 1; other += 2) {
		guard_ready(&g, &reading);
		g.asked = asked;
		guard_ask(&g, 4096);
		assert_int_equal(guard_walk(&g, p, lf_base(p, 3, 0, 0, 16, 16 + 4096 + (uint64_t)other), &why), -1);
	}
}

static void ranges_that_wrap_are_no_peers(void **state)
{
	static const struct {
		uint64_t at, len;
	} ranges[] = {{4096, UINT64_MAX - 4095}, {UINT64_MAX - 10, 64}, {1ull << 63, 8}, {0, 1ull << 62}};
	uint8_t p[64];
	const char *why;
	struct door_guard g;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(ranges); i++)
		for (uint8_t op = 2; op <= 4; op += 2) {
			guard_ready(&g, &reading);
			assert_int_equal(
				guard_walk(&g, p, lf_write(p, op, NULL, ranges[i].at, ranges[i].len, 99), &why), -1);
		}
}

/* ---- the connections that we make ---- */

static void an_answer_sets_the_connection_up_and_nothing_else_does(void **state)
{
	static const struct {
		unsigned at, value;
		bool good;
	} cases[] = {{0, 3, true}, {0, 4, false}, {1, 2, false}, {1, 6, true}, {3, 17, false}, {24, 2, false}};
	uint8_t sent[64], p[64];
	uint16_t port;
	const char *why;
	struct door_guard g;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(cases); i++) {
		guard_init(&g, &rxm, false);
		guard_setup_sent(&g, sent, lf_request(sent, true, 4242, LF_EAGER), &port);
		assert_int_equal(port, 4242);
		assert_true(g.indexed);
		memset(p, 0, sizeof(p));
		p[0] = 3;
		p[1] = 1;
		p[3] = 16;
		p[24] = 1;
		p[cases[i].at] = (uint8_t)cases[i].value;
		assert_int_equal(guard_walk(&g, p, 31, &why), 0);
		assert_int_equal(guard_walk(&g, p, 48, &why), cases[i].good ? 48 : -1);
		assert_int_equal(g.begun, cases[i].good);
	}
}

/* ---- streams ---- */

/* A socket that gives as many bytes as it likes. */
static struct {
	const uint8_t *data;
	size_t len, at, most;
	struct kv_prng prng;
	bool dry;
} sock;

static ssize_t sock_recv(int fd, void *buf, size_t len, int flags)
{
	size_t n;
	(void)fd, (void)flags;
	if (sock.at == sock.len)
		return 0;
	sock.dry = !sock.dry && kv_prng_below(&sock.prng, 3) == 0;
	if (sock.dry) {
		errno = EAGAIN;
		return -1;
	}
	n = 1 + (size_t)kv_prng_below(&sock.prng, KV_MIN(KV_MIN(len, sock.most), sock.len - sock.at));
	memcpy(buf, sock.data + sock.at, n);
	sock.at += n;
	return (ssize_t)n;
}

static ssize_t sock_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return sock_recv(fd, msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len, flags);
}

static const struct stream_calls calls = {sock_recv, sock_recvmsg};

/* Units at random, and where each whole one ends. */
static size_t units_make(struct kv_prng *prng, bool r, uint8_t *out, size_t cap, bool *whole)
{
	uint8_t data[4096];
	size_t n = 0;
	const uint64_t imm = 1;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)kv_prng_next(prng);
	memset(whole, 0, cap);
	whole[0] = true;
	while (n + 3 * LF_UNIT_MAX < cap) {
		unsigned kind = (unsigned)kv_prng_below(prng, 3);
		if (kind == 0) {
			n += lf_message(out + n, r, INDEX, data, 1 + (size_t)kv_prng_below(prng, sizeof(data)));
		} else {
			size_t len = kind == 1 ? (size_t)kv_prng_below(prng, 2 * LF_UNIT_MAX) : 0;
			n += lf_write(out + n, 4, kind == 1 ? NULL : &imm, 0, len, 3);
			for (size_t i = 0; i <= len; i++)
				whole[n + i] = true;
			for (size_t i = 0; i < len; i++)
				out[n + i] = data[i % sizeof(data)];
			n += len;
		}
		whole[n] = true;
	}
	return n;
}

/* As a provider: headers and messages into a buffer of 9,000 bytes; payload as far as it is known to come, in pieces or
 * at once. */
static void stream_once(struct kv_prng *prng, bool r, size_t most)
{
	enum { CAP = 60000, PREFETCH = 9000 };
	static uint8_t sent[CAP], got[CAP + PREFETCH];
	static bool whole[CAP];
	struct stream s;
	const uint8_t *held = NULL;
	const char *why;
	size_t n = units_make(prng, r, sent, CAP, whole), at = 0;
	sock.data = sent;
	sock.len = n;
	sock.at = 0;
	sock.most = most;
	kv_prng_seed(&sock.prng, kv_prng_next(prng));
	stream_init(&s, r ? &rxm : &xnet, false);
	guard_ready(&s.guard, r ? &rxm : &xnet);
	for (;;) {
		size_t room = s.guard.skip && kv_prng_below(prng, 2) ? KV_MIN((size_t)s.guard.skip, (size_t)PREFETCH)
								     : PREFETCH;
		struct iovec iov[2] = {{got + at, room / 2}, {got + at + room / 2, room - room / 2}};
		bool scattered = s.guard.skip && room / 2 > 0 && kv_prng_below(prng, 2);
		if (!scattered)
			iov[0].iov_len = room;
		ssize_t len = stream_recv(&s, 3, iov, scattered ? 2 : 1, 0, &calls, &why);
		assert_null(why);
		held = held ? held : s.held;
		assert_true(held && s.held == held); /* made at the first receive, so that no later one takes memory */
		if (len == 0)
			break;
		if (len < 0) {
			assert_int_equal(errno, EAGAIN);
			continue;
		}
		at += (size_t)len;
		if (!whole[at])
			fail_msg("the provider was given half a unit: it ends at byte %zu", at);
	}
	assert_int_equal(at, n);
	assert_memory_equal(got, sent, n);
	stream_fini(&s);
}

static void streams_are_handed_on_in_whole_units(void **state)
{
	struct kv_prng prng = check_seed();
	(void)state;
	for (unsigned i = 0; i < 400; i++)
		stream_once(&prng, i % 2, (size_t)1 << (1 + i % 15));
}

/* Answers to connect requests are read in pieces of a few bytes. */
static void what_is_read_in_small_pieces_is_judged_first(void **state)
{
	uint8_t p[64] = {0}, got[64];
	const char *why;
	struct stream s;
	(void)state;
	p[0] = 3;
	p[1] = 1;
	p[3] = 16;
	p[24] = 1;
	sock.data = p;
	sock.len = 48;
	sock.at = 0;
	sock.most = 7;
	kv_prng_seed(&sock.prng, 1);
	stream_init(&s, &rxm, false);
	size_t at = 0;
	while (at < 48) {
		struct iovec iov = {got + at, at < 32 ? 32 - at : 48 - at};
		ssize_t n = stream_recv(&s, 3, &iov, 1, 0, &calls, &why);
		assert_null(why);
		if (n > 0)
			assert_int_equal(sock.at, 48); /* nothing before all of it had come */
		at += n > 0 ? (size_t)n : 0;
	}
	assert_memory_equal(got, p, 48);
	stream_fini(&s);
}

static void a_stream_that_breaks_the_rules_gives_nothing(void **state)
{
	uint8_t p[256], got[9000];
	struct iovec iov = {got, sizeof(got)};
	const char *why = NULL;
	struct stream s;
	(void)state;
	size_t n = lf_message(p, true, INDEX, "12345678", 8);
	n += lf_message(p + n, true, INDEX, "12345678", 8);
	p[n / 2 + 17] = 2; /* the second one is a rendezvous */
	sock.data = p;
	sock.len = n;
	sock.at = 0;
	sock.most = n;
	kv_prng_seed(&sock.prng, 2);
	stream_init(&s, &rxm, false);
	guard_ready(&s.guard, &rxm);
	while (!why) {
		ssize_t len = stream_recv(&s, 3, &iov, 1, 0, &calls, &why);
		assert_true(len != 0);
		if (why) {
			assert_int_equal(len, -1);
			assert_int_equal(errno, ECONNRESET);
		}
	}
	stream_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connect_request_tells_its_port),
		cmocka_unit_test(a_part_of_a_request_may_become_one_and_more_than_one_is_none),
		cmocka_unit_test(each_field_of_a_request_counts),
		cmocka_unit_test(what_peers_send_is_let_through),
		cmocka_unit_test(what_no_peer_sends_is_not),
		cmocka_unit_test(a_write_with_bytes_and_immediate_is_no_peers_over_rxm),
		cmocka_unit_test(messages_before_the_connection_has_an_index_are_not_let_through),
		cmocka_unit_test(reads_are_bounded_by_what_the_reader_takes),
		cmocka_unit_test(a_reader_that_is_never_idle_may_go_on),
		cmocka_unit_test(nothing_is_read_where_nothing_may_be),
		cmocka_unit_test(answers_are_what_was_asked_for),
		cmocka_unit_test(ranges_that_wrap_are_no_peers),
		cmocka_unit_test(an_answer_sets_the_connection_up_and_nothing_else_does),
		cmocka_unit_test(streams_are_handed_on_in_whole_units),
		cmocka_unit_test(what_is_read_in_small_pieces_is_judged_first),
		cmocka_unit_test(a_stream_that_breaks_the_rules_gives_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
