/* SPDX-License-Identifier: Apache-2.0 */
/* test_conn.c -- control messages over a connection: framing, timeouts, writers, closing. */
#include "rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct boot_security plain;

enum { BIG_PARTS = 65500 }; /* a REGION of one rail with as many parts is almost KV_CTRL_MAX long */

static struct wire_ctrl_msg region(uint32_t id, uint32_t parts, uint8_t *keys)
{
	struct wire_ctrl_msg m;
	memset(&m, 0, sizeof(m));
	m.type = WIRE_CTRL_REGION;
	m.region = (struct wire_region){.id = id,
					.parts = parts,
					.rails = 1,
					.len_bytes = (uint64_t)parts << 20,
					.part_bytes = 1 << 20,
					.keys = keys};
	for (uint32_t i = 0; i < parts; i++)
		wire_region_put(keys, parts, 0, i, id * 1000003ull + i, ~(uint64_t)i);
	return m;
}

static void region_check(const struct wire_ctrl_msg *m, uint32_t id, uint32_t parts)
{
	assert_int_equal(m->type, WIRE_CTRL_REGION);
	assert_int_equal(m->region.id, id);
	assert_int_equal(m->region.parts, parts);
	for (uint32_t i = 0; i < parts; i++) {
		uint64_t base, key;
		wire_region_key(&m->region, 0, i, &base, &key);
		if (base != id * 1000003ull + i || key != ~(uint64_t)i)
			fail_msg("part %u of region %u is wrong", i, id);
	}
}

static void failure_says(const struct boot_conn *c, const char *part)
{
	if (!strstr(boot_failure(c), part))
		fail_msg("expected \"%s\" in: %s", part, boot_failure(c));
}

/* ---- a raw peer of a plain server: each test's two coroutines ---- */

static int raw = -1;

static void raw_send(struct rig *r, const void *bytes, size_t len)
{
	assert_int_equal(io_write_all_await(raw, bytes, len, rig_in(r, 20 * SECOND)), 0);
}

static void server_open(struct rig *r)
{
	rig_accept_only(r);
	assert_int_equal(r->s_rc, 0);
}

static void meet_raw(struct rig *r)
{
	raw = rig_raw_connect(r);
	server_open(r);
}

static void with_raw_peer(void (*fn)(struct rig *r))
{
	struct rig r;
	rig_init(&r, &plain, NULL);
	rig_spawn(&r, fn);
	rig_run(&r);
	if (raw >= 0)
		io_close(r.loop, raw);
	raw = -1;
	rig_fini(&r);
}

static void expect_proto(struct rig *r, const void *bytes, size_t len, const char *text)
{
	struct wire_ctrl_msg m;
	meet_raw(r);
	raw_send(r, bytes, len);
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), -KV_EPROTO);
	failure_says(r->s, text);
	failure_says(r->s, "127.0.0.1:");
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), -KV_EPROTO); /* the error stays */
}

/* What no message begins with, and why: length, type, two bytes that are zero, body. */
static const struct row {
	const char *name, *text;
	uint8_t bytes[12];
	size_t len;
} refused[] = {
	{"1 MiB and a byte", "its length is out of bounds", {0x01, 0, 0x10, 0, 10, 0, 0, 0}, 8},
	{"less than a head", "its length is out of bounds", {3, 0, 0, 0}, 4},
	{"no such type", "invalid control message (type 99, 12 bytes)", {8, 0, 0, 0, 99, 0, 0, 0, 1, 2, 3, 4}, 12},
	{"a goodbye with a body", "invalid control message", {5, 0, 0, 0, WIRE_CTRL_GOODBYE, 0, 0, 0, 1}, 9},
};
static const struct row *row;

static void no_message(struct rig *r)
{
	expect_proto(r, row->bytes, row->len, row->text);
}

static void bytes_that_are_no_message_are_refused_with_the_reason(void **state)
{
	(void)state;
	for (row = refused; row < refused + KV_COUNT(refused); row++) {
		print_message("%s\n", row->name);
		with_raw_peer(no_message);
	}
}

static void truncated(struct rig *r)
{
	static const uint8_t bytes[] = {100, 0, 0, 0, WIRE_CTRL_HEARTBEAT, 0, 0, 0, 1, 2, 3};
	struct wire_ctrl_msg m;
	meet_raw(r);
	raw_send(r, bytes, sizeof(bytes));
	io_shutdown(r->loop, raw);
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), -KV_EPEERDOWN);
	failure_says(r->s, "in the middle of a message");
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), -KV_EPEERDOWN);
}

static void closed_at_once(struct rig *r)
{
	struct wire_ctrl_msg m;
	meet_raw(r);
	io_shutdown(r->loop, raw);
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), -KV_EPEERDOWN);
	failure_says(r->s, "does it want TLS");
}

/* The bytes of a heartbeat come in pieces, and a receive times out after each. */
static void pieces(struct rig *r)
{
	uint8_t bytes[256];
	struct wire_ctrl_msg m = rig_heartbeat(0x1122334455667788), got;
	int len = wire_ctrl_encode(&m, bytes, sizeof(bytes));
	assert_true(len > 8);
	meet_raw(r);
	for (int i = 0; i + 1 < len; i++) {
		raw_send(r, bytes + i, 1);
		assert_int_equal(boot_recv_await(r->s, &got, rig_in(r, MILLISECOND)), -KV_ETIMEOUT);
	}
	raw_send(r, bytes + len - 1, 1);
	assert_int_equal(boot_recv_await(r->s, &got, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(got.heartbeat.sequence, 0x1122334455667788);
	assert_string_equal(boot_failure(r->s), "");
}

/* A hello of versions that we do not speak has an error of its own, and can be answered. */
static void other_version(struct rig *r)
{
	uint8_t bytes[1024];
	struct wire_ctrl_msg m, got;
	memset(&m, 0, sizeof(m));
	m.type = WIRE_CTRL_HELLO;
	m.hello = (struct wire_hello){.version_min = 50, .version_max = 60, .rails = 1, .chunk_bytes = 1 << 20};
	m.hello.addr[0].len = 4;
	int len = wire_ctrl_encode(&m, bytes, sizeof(bytes));
	assert_true(len > 0);
	meet_raw(r);
	raw_send(r, bytes, (size_t)len);
	assert_int_equal(boot_recv_await(r->s, &got, rig_in(r, 20 * SECOND)), -KV_EVERSION);
	assert_int_equal(got.hello.version_min, 50);
	memset(&m, 0, sizeof(m));
	m.type = WIRE_CTRL_REFUSE;
	m.refuse.status = WIRE_MISMATCH;
	snprintf(m.refuse.text, sizeof(m.refuse.text), "too new");
	assert_int_equal(boot_send_await(r->s, &m, rig_in(r, 20 * SECOND)), 0);
	m = rig_heartbeat(3);
	len = wire_ctrl_encode(&m, bytes, sizeof(bytes));
	raw_send(r, bytes, (size_t)len);
	assert_int_equal(boot_recv_await(r->s, &got, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(got.heartbeat.sequence, 3);
}

#define RAW_TEST(name, run)                                                                                            \
	static void name(void **state)                                                                                 \
	{                                                                                                              \
		(void)state;                                                                                           \
		with_raw_peer(run);                                                                                    \
	}
RAW_TEST(a_connection_that_ends_in_a_message_says_so, truncated)
RAW_TEST(a_connection_that_ends_at_once_may_have_wanted_tls, closed_at_once)
RAW_TEST(a_message_in_pieces_survives_timeouts_between_them, pieces)
RAW_TEST(a_hello_of_another_version_can_be_answered, other_version)

/* ---- random fragments, random deadlines, against a list of what was sent ---- */

enum { RANDOM_MESSAGES = 400 };

static struct kv_prng prng;
static uint32_t random_parts[RANDOM_MESSAGES];
static bool random_sent;

static void random_plan(uint64_t seed)
{
	kv_prng_seed(&prng, seed);
	for (unsigned i = 0; i < RANDOM_MESSAGES; i++) {
		uint64_t kind = kv_prng_below(&prng, 100);
		random_parts[i] = kind < 70   ? 0
				  : kind < 97 ? 1 + (uint32_t)kv_prng_below(&prng, 200)
					      : 1 + (uint32_t)kv_prng_below(&prng, 20000);
	}
	random_sent = false;
}

static struct wire_ctrl_msg random_message(unsigned i, uint8_t *keys)
{
	return random_parts[i] ? region(i, random_parts[i], keys) : rig_heartbeat(i);
}

static void random_send(struct rig *r)
{
	uint8_t *keys = malloc(KV_CTRL_MAX), *bytes = malloc(KV_CTRL_MAX);
	size_t have = 0;
	raw = rig_raw_connect(r);
	for (unsigned i = 0; i < RANDOM_MESSAGES || have;) {
		while (i < RANDOM_MESSAGES && have < 100000) {
			struct wire_ctrl_msg m = random_message(i++, keys);
			int len = wire_ctrl_encode(&m, bytes + have, KV_CTRL_MAX - have);
			assert_true(len > 0);
			have += (size_t)len;
		}
		size_t n = 1 + kv_prng_below(&prng, 1ull << kv_prng_below(&prng, 17));
		n = KV_MIN(n, have);
		raw_send(r, bytes, n);
		have -= n;
		memmove(bytes, bytes + n, have);
		if (kv_prng_below(&prng, 20) == 0)
			co_sleep_await(rig_in(r, kv_prng_below(&prng, 2 * MILLISECOND)));
	}
	random_sent = true;
	free(keys);
	free(bytes);
}

static void random_recv(struct rig *r)
{
	unsigned timeouts = 0;
	server_open(r);
	for (unsigned i = 0; i < RANDOM_MESSAGES;) {
		struct wire_ctrl_msg m;
		int rc = boot_recv_await(r->s, &m, rig_in(r, kv_prng_below(&prng, MILLISECOND)));
		if (rc == -KV_ETIMEOUT) {
			timeouts++;
			continue;
		}
		assert_int_equal(rc, 0);
		if (random_parts[i])
			region_check(&m, i, random_parts[i]);
		else
			assert_int_equal(m.heartbeat.sequence, i);
		i++;
	}
	print_message("%u receives timed out\n", timeouts);
}

static void messages_come_whole_out_of_random_fragments(void **state)
{
	(void)state;
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	print_message("KVRAIL_SEED=%llu\n", (unsigned long long)seed);
	random_plan(seed);
	struct rig r;
	rig_init(&r, &plain, NULL);
	rig_spawn(&r, random_send);
	rig_spawn(&r, random_recv);
	rig_run(&r);
	assert_true(random_sent);
	io_close(r.loop, raw);
	raw = -1;
	rig_fini(&r);
}

/* ---- two ends of ours, with each kind of security ---- */

static void each_mode(void (*fn)(struct rig *r), void (*fn2)(struct rig *r), void (*fn3)(struct rig *r))
{
	for (int mode = BOOT_PLAIN; mode <= BOOT_CERT; mode++) {
		struct boot_security s = plain, c = plain;
		struct rig r;
		if (mode == BOOT_PSK)
			s = c = rig_security_psk();
		if (mode == BOOT_CERT) {
			s = rig_security_cert("certs", "server");
			c = rig_security_cert("certs", "client");
		}
		rig_init(&r, &s, &c);
		rig_open_ok(&r);
		rig_spawn(&r, fn);
		if (fn2)
			rig_spawn(&r, fn2);
		if (fn3)
			rig_spawn(&r, fn3);
		rig_run(&r);
		rig_fini(&r);
	}
}

static void big_send(struct rig *r)
{
	uint8_t *keys = malloc((size_t)BIG_PARTS * 16);
	struct wire_ctrl_msg m = region(5, BIG_PARTS, keys);
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), 0);
	m = rig_heartbeat(6);
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), 0);
	free(keys);
}

static void big_recv(struct rig *r)
{
	struct wire_ctrl_msg m;
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), 0);
	region_check(&m, 5, BIG_PARTS);
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(m.heartbeat.sequence, 6);
}

static void the_biggest_message_arrives(void **state)
{
	(void)state;
	each_mode(big_send, big_recv, NULL);
}

/* A message that exceeds the limit is refused before a byte is sent, so the connection stays good. */
static void too_big(struct rig *r)
{
	uint32_t parts = KV_CTRL_MAX / 16;
	uint8_t *keys = malloc((size_t)parts * 16);
	struct wire_ctrl_msg m = region(5, parts, keys), got;
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), -KV_EINVAL);
	failure_says(r->c, "cannot be encoded");
	m = rig_heartbeat(6);
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(boot_recv_await(r->s, &got, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(got.heartbeat.sequence, 6);
	free(keys);
}

static void a_message_that_is_too_big_is_refused_before_a_byte_is_out(void **state)
{
	(void)state;
	each_mode(too_big, NULL, NULL);
}

enum { WRITES = 100 };

static void write_many(struct rig *r, uint32_t parts)
{
	uint8_t *keys = malloc((size_t)parts * 16);
	for (uint32_t i = 0; i < WRITES; i++) {
		struct wire_ctrl_msg m = region(parts + i, parts, keys);
		assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), 0);
	}
	free(keys);
}

static void write_small(struct rig *r)
{
	write_many(r, 1000);
}

static void write_large(struct rig *r)
{
	write_many(r, 5000);
}

static void read_both(struct rig *r)
{
	uint32_t small = 0, large = 0;
	for (int i = 0; i < 2 * WRITES; i++) {
		struct wire_ctrl_msg m;
		assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), 0);
		uint32_t parts = m.region.parts, *next = parts == 1000 ? &small : &large;
		region_check(&m, parts + (*next)++, parts);
	}
	assert_int_equal(small, WRITES);
	assert_int_equal(large, WRITES);
}

static void two_writers_take_turns(void **state)
{
	(void)state;
	each_mode(write_small, write_large, read_both);
}

/* Both directions at once, so that each side reads while it writes. */
static void talk(struct rig *r, struct boot_conn *c, bool writer)
{
	uint8_t *keys = malloc(3000 * 16);
	for (uint32_t i = 0; i < WRITES; i++) {
		struct wire_ctrl_msg m;
		if (writer) {
			m = region(i, 3000, keys);
			assert_int_equal(boot_send_await(c, &m, rig_in(r, 20 * SECOND)), 0);
		} else {
			assert_int_equal(boot_recv_await(c, &m, rig_in(r, 20 * SECOND)), 0);
			region_check(&m, i, 3000);
		}
	}
	free(keys);
}

static void client_writes(struct rig *r)
{
	talk(r, r->c, true);
}

static void client_reads(struct rig *r)
{
	talk(r, r->c, false);
}

static void server_both(struct rig *r)
{
	rig_spawn(r, client_reads);
	talk(r, r->s, true);
	talk(r, r->s, false);
}

static void messages_flow_both_ways_at_once(void **state)
{
	(void)state;
	each_mode(client_writes, server_both, NULL);
}

/* A receive without a deadline returns each time that it is interrupted, and nothing is lost in either direction. */
static unsigned interrupted;
static bool all_read;

static void read_interrupted(struct rig *r)
{
	uint8_t *keys = malloc(3000 * 16);
	struct wire_ctrl_msg m;
	int rc;
	all_read = false;
	interrupted = 0;
	for (uint32_t i = 0; i < WRITES;) {
		rc = boot_recv_await(r->c, &m, KV_NEVER);
		if (rc == -KV_ETIMEOUT) {
			interrupted++;
			continue;
		}
		assert_int_equal(rc, 0);
		region_check(&m, i++, 3000);
		m = region(i - 1, 3000, keys); /* an interrupt does not concern sending */
		assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), 0);
	}
	assert_int_equal(boot_recv_await(r->c, &m, KV_NEVER), -KV_ETIMEOUT); /* nothing more comes */
	assert_true(boot_sound(r->c));
	assert_int_equal(boot_recv_await(r->c, &m, rig_in(r, MILLISECOND)),
			 -KV_ETIMEOUT); /* an interrupt ends one receive only */
	all_read = true;
	boot_shutdown(r->c);
	assert_false(boot_sound(r->c));
	free(keys);
}

static void interrupter(struct rig *r)
{
	while (!all_read) {
		boot_interrupt(r->c);
		co_sleep_await(rig_in(r, MILLISECOND / 4));
	}
}

static void server_echoed(struct rig *r)
{
	uint8_t *keys = malloc(3000 * 16);
	for (uint32_t i = 0; i < WRITES; i++) {
		struct wire_ctrl_msg m = region(i, 3000, keys);
		assert_int_equal(boot_send_await(r->s, &m, rig_in(r, 20 * SECOND)), 0);
		assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), 0);
		region_check(&m, i, 3000);
	}
	free(keys);
}

static void an_interrupt_ends_a_receive(void **state)
{
	(void)state;
	each_mode(read_interrupted, interrupter, server_echoed);
	assert_true(interrupted > 0);
}

static void read_until_shut(struct rig *r)
{
	struct wire_ctrl_msg m;
	assert_int_equal(boot_recv_await(r->c, &m, KV_NEVER), -KV_EPEERDOWN);
	failure_says(r->c, "shut down on this side");
	assert_int_equal(boot_recv_await(r->c, &m, KV_NEVER), -KV_EPEERDOWN);
	m = rig_heartbeat(1);
	assert_int_equal(boot_send_await(r->c, &m, KV_NEVER), -KV_EPEERDOWN);
}

static void shut_client(struct rig *r)
{
	co_sleep_await(rig_in(r, 5 * MILLISECOND));
	boot_shutdown(r->c);
	boot_shutdown(r->c); /* harmless */
}

static void read_until_closed(struct rig *r)
{
	struct wire_ctrl_msg m;
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), -KV_EPEERDOWN);
	failure_says(r->s, "the peer closed the connection");
}

static void a_shutdown_ends_a_read(void **state)
{
	(void)state;
	each_mode(read_until_shut, shut_client, read_until_closed);
}

/* The peer does not read. One writer is stuck in the socket, another waits for its turn. */
static void write_until_shut(struct rig *r)
{
	uint8_t *keys = malloc((size_t)BIG_PARTS * 16);
	struct wire_ctrl_msg m = region(1, BIG_PARTS, keys);
	int rc;
	do
		rc = boot_send_await(r->c, &m, KV_NEVER);
	while (rc == 0);
	assert_int_equal(rc, -KV_EPEERDOWN);
	free(keys);
}

static void shut_later(struct rig *r)
{
	co_sleep_await(rig_in(r, 50 * MILLISECOND));
	boot_shutdown(r->c);
}

static void two_write_until_shut(struct rig *r)
{
	rig_spawn(r, write_until_shut);
	write_until_shut(r);
}

static void a_shutdown_ends_writes(void **state)
{
	(void)state;
	each_mode(two_write_until_shut, shut_later, NULL);
}

/* A send that times out breaks the connection, also for the reader, with a sentence. */
static void write_until_timeout(struct rig *r)
{
	uint8_t *keys = malloc((size_t)BIG_PARTS * 16);
	struct wire_ctrl_msg m = region(1, BIG_PARTS, keys);
	int rc;
	do
		rc = boot_send_await(r->c, &m, rig_in(r, 20 * MILLISECOND));
	while (rc == 0);
	assert_int_equal(rc, -KV_ETIMEOUT);
	assert_int_equal(boot_send_await(r->c, &m, KV_NEVER), -KV_EPEERDOWN);
	failure_says(r->c, "an earlier message could not be sent");
	free(keys);
}

static void read_until_broken(struct rig *r)
{
	struct wire_ctrl_msg m;
	assert_int_equal(boot_recv_await(r->c, &m, KV_NEVER), -KV_EPEERDOWN);
}

static void a_send_that_times_out_breaks_the_connection(void **state)
{
	(void)state;
	each_mode(write_until_timeout, read_until_broken, NULL);
}

/* The connection is closed while the peer is about to read and write. */
static void close_client(struct rig *r)
{
	boot_close(&r->c);
	assert_null(r->c);
	boot_close(&r->c);
}

static void write_to_closed(struct rig *r)
{
	struct wire_ctrl_msg m;
	read_until_closed(r);
	int rc;
	do { /* the first may still go out */
		m = rig_heartbeat(1);
		rc = boot_send_await(r->s, &m, rig_in(r, 20 * SECOND));
	} while (rc == 0);
	assert_int_equal(rc, -KV_EPEERDOWN);
}

static void a_peer_that_closes_ends_reads_and_writes(void **state)
{
	(void)state;
	each_mode(close_client, write_to_closed, NULL);
}

/* ---- opening ---- */

/* This process has no descriptor left. */
static void connect_without_files(struct rig *r)
{
	const struct boot_server server = {.addr = &r->addr, .addr_len = sizeof(struct sockaddr_in)};
	struct rlimit had, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = had.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r->c_rc = boot_connect_await(r->client, &server, 1000, rig_in(r, 20 * SECOND), &r->c, &r->c_err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
	assert_int_equal(r->c_rc, -EMFILE);
	assert_non_null(strstr(r->c_err.text, "raise the limit of open files (ulimit -n)"));
}

static void a_connection_without_a_descriptor_says_how_to_have_more(void **state)
{
	struct rig r;
	(void)state;
	rig_init(&r, NULL, &plain);
	rig_spawn(&r, connect_without_files);
	rig_run(&r);
	rig_fini(&r);
}

static void connect_refused(struct rig *r)
{
	struct sockaddr_storage addr = r->addr;
	int fd;
	((struct sockaddr_in *)&addr)->sin_port = 0;
	assert_int_equal(io_listen(r->loop, &addr, sizeof(struct sockaddr_in), &fd, NULL), 0);
	io_close(r->loop, fd); /* a port without a listener */
	const struct boot_server server = {.addr = &addr, .addr_len = sizeof(struct sockaddr_in)};
	r->c_rc = boot_connect_await(r->client, &server, 1000, rig_in(r, 20 * SECOND), &r->c, &r->c_err);
	assert_int_equal(r->c_rc, -KV_EPEERDOWN);
	assert_non_null(strstr(r->c_err.text, "connection refused: is kv-server running there"));
}

static void a_port_that_nobody_listens_on_is_refused(void **state)
{
	(void)state;
	struct rig r;
	rig_init(&r, NULL, &plain);
	rig_spawn(&r, connect_refused);
	rig_run(&r);
	rig_fini(&r);
}

static void wrong_side(struct rig *r)
{
	struct kv_error err;
	int fd = rig_raw_connect(r);
	unsigned fds = rig_open_fds();
	assert_int_equal(boot_accept_await(r->client, fd, &r->addr, 0, KV_NEVER, &r->s, &err), -KV_EINVAL);
	assert_int_equal(rig_open_fds(), fds - 1); /* boot_accept_await owned the socket, also on failure */
	const struct boot_server server = {.addr = &r->addr, .addr_len = sizeof(struct sockaddr_in)};
	assert_int_equal(boot_connect_await(r->server, &server, 0, KV_NEVER, &r->c, &err), -KV_EINVAL);
}

static void a_context_of_the_wrong_side_is_refused(void **state)
{
	(void)state;
	struct rig r;
	rig_init(&r, &plain, &plain);
	rig_spawn(&r, wrong_side);
	rig_run(&r);
	rig_fini(&r);
}

/* ---- nothing is left behind ---- */

static void close_both(struct rig *r)
{
	boot_close(&r->c);
	boot_close(&r->s);
}

/* With `wrong` set, every other connection fails to open. */
static void connect_200(struct boot_security s, struct boot_security c, struct boot_security wrong)
{
	struct rig r;
	struct boot_context *bad = NULL, *good;
	rig_init(&r, &s, &c);
	good = r.client;
	assert_int_equal(boot_context_create(&wrong, false, NULL, &bad, NULL), 0);
	unsigned fds = 0;
	for (int i = 0; i < 200; i++) {
		r.client = i % 2 ? bad : good;
		rig_open(&r);
		assert_int_equal(r.c_rc, i % 2 ? -KV_EDENIED : 0);
		assert_int_equal(r.s_rc, i % 2 ? -KV_EDENIED : 0);
		rig_spawn(&r, close_both);
		rig_run(&r);
		if (i == 1)
			fds = rig_open_fds(); /* after the first good and the first bad one */
		else if (i > 1)
			assert_int_equal(rig_open_fds(), fds);
	}
	r.client = good;
	boot_context_destroy(&bad);
	rig_fini(&r);
}

static void two_hundred_connections_open_at_once(void **state)
{
	(void)state;
	struct boot_security wrong = {.psk = "bench:ffeeddccbbaa99887766554433221100"};
	connect_200(rig_security_psk(), rig_security_psk(), wrong);
	connect_200(rig_security_cert("certs", "server"), rig_security_cert("certs", "client"),
		    rig_security_cert("foreign", "client"));
}

static int drop_scratch(void **state)
{
	(void)state;
	rig_scratch_drop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_that_are_no_message_are_refused_with_the_reason),
		cmocka_unit_test(a_connection_that_ends_in_a_message_says_so),
		cmocka_unit_test(a_connection_that_ends_at_once_may_have_wanted_tls),
		cmocka_unit_test(a_message_in_pieces_survives_timeouts_between_them),
		cmocka_unit_test(a_hello_of_another_version_can_be_answered),
		cmocka_unit_test(messages_come_whole_out_of_random_fragments),
		cmocka_unit_test(the_biggest_message_arrives),
		cmocka_unit_test(a_message_that_is_too_big_is_refused_before_a_byte_is_out),
		cmocka_unit_test(two_writers_take_turns),
		cmocka_unit_test(messages_flow_both_ways_at_once),
		cmocka_unit_test(an_interrupt_ends_a_receive),
		cmocka_unit_test(a_shutdown_ends_a_read),
		cmocka_unit_test(a_shutdown_ends_writes),
		cmocka_unit_test(a_send_that_times_out_breaks_the_connection),
		cmocka_unit_test(a_peer_that_closes_ends_reads_and_writes),
		cmocka_unit_test(a_port_that_nobody_listens_on_is_refused),
		cmocka_unit_test(a_context_of_the_wrong_side_is_refused),
		cmocka_unit_test(a_connection_without_a_descriptor_says_how_to_have_more),
		cmocka_unit_test(two_hundred_connections_open_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, drop_scratch);
}
