/* SPDX-License-Identifier: Apache-2.0 */
/* test_serve.c -- an open control connection: regions, addresses, heartbeats, and clients that make no sense, stall or
 * do not read. */
#include "tests/kvserver/control.h"

#include <errno.h>
#include <netinet/in.h>

#include "kvserver/server/server.h"
#include "kvserver/shard/attachment.h"

static void region_body(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	expect(ask_region(c, 1, 4096) == WIRE_OK);
	expect(ask_region(c, 1, 4096) != WIRE_OK);
	expect(ask_region(c, 2, 1 << 20) == WIRE_OK);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_REVOKE, .region_ok = {.id = 1}};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REVOKE_OK && m.region_ok.id == 1);
	expect(ask_region(c, 1, 8192) == WIRE_OK);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_REVOKE, .region_ok = {.id = 99}};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REVOKE_OK && m.region_ok.id == 99);
	leave(c);
}

static void regions_are_acknowledged_and_revoked(void **state)
{
	(void)state;
	in_coroutine(region_body);
}

static void too_many_body(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	for (uint32_t id = 1; id <= REGIONS_MAX; id++)
		expect(ask_region(c, id, 4096) == WIRE_OK);
	expect(ask_region(c, REGIONS_MAX + 1, 4096) != WIRE_OK);
	leave(c);
}

static void the_number_of_regions_is_bounded(void **state)
{
	(void)state;
	in_coroutine(too_many_body);
}

static void heartbeat_body(void)
{
	struct wire_ctrl_msg m, h = {.type = WIRE_CTRL_HEARTBEAT, .heartbeat.sequence = 1};
	struct boot_conn *c = greet(&m);
	uint64_t sequence = 0, turns = 0, first = 0;
	expect(boot_send_await(c, &h, soon()) == 0); /* a question; its answer is the second beat */
	/* The shard's thread may get no time between two beats of a busy machine: so many beats until its counter has
	 * moved. */
	for (unsigned i = 0; i < 3 || (turns == first && i < 200); i++) {
		expect(boot_recv_await(c, &m, soon()) == 0 && m.type == WIRE_CTRL_HEARTBEAT);
		expect(m.heartbeat.shards == SHARDS && m.heartbeat.quiet_ms == server->opt.heartbeat_ms);
		expect(m.heartbeat.sequence == sequence + 1 && m.heartbeat.turns[0] >= turns);
		sequence = m.heartbeat.sequence;
		turns = m.heartbeat.turns[0];
		first = i == 0 ? turns : first;
	}
	expect(turns > first);
	leave(c);
}

static void heartbeats_count_on(void **state)
{
	(void)state;
	in_coroutine(heartbeat_body);
}

static void address_body(void)
{
	struct wire_ctrl_msg m, h = hello_make(te);
	struct boot_conn *c = greet(&m);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_ADDRESS, .address = {.rails = 1, .epoch = 5}};
	m.address.addr[0] = h.hello.addr[0];
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_ADDRESS_OK && m.region_ok.id == 5 &&
	       m.region_ok.status == WIRE_OK);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_ADDRESS, .address = {.rails = 2, .epoch = 6}};
	m.address.addr[0] = m.address.addr[1] = h.hello.addr[0];
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_ADDRESS_OK && m.region_ok.id == 6 &&
	       m.region_ok.status != WIRE_OK);
	leave(c);
}

static void new_addresses_are_acknowledged(void **state)
{
	(void)state;
	in_coroutine(address_body);
}

/* ---- connections that make no sense, stall, or are not read ---- */

/* The server closes it. */
static void closed(int fd)
{
	char byte[256];
	ssize_t n;
	while ((n = io_read_await(fd, byte, sizeof(byte), soon())) > 0)
		;
	expect(n == 0 || n == -ECONNRESET);
	io_close(loop, fd);
}

static void nonsense_body(void)
{
	static const uint8_t huge[] = {0xFF, 0xFF, 0xFF, 0x7F, 1, 0, 0, 0}, unknown[] = {4, 0, 0, 0, 99, 0, 0, 0};
	static const uint8_t long_hello[] = {0, 0, 15, 0, 1, 0, 0, 0}; /* 960 KiB to come, as a region may have */
	uint64_t refused = control_stat(WIRE_STAT_HANDSHAKES_REFUSED), bad = control_stat(WIRE_STAT_BAD_CONTROL);
	struct wire_ctrl_msg m, h = hello_make(te);
	struct boot_conn *c;
	closed(raw(huge, sizeof(huge)));
	expect(becomes(WIRE_STAT_BAD_CONTROL, bad + 1) && becomes(WIRE_STAT_HANDSHAKES_REFUSED, refused + 1));
	closed(raw(unknown, sizeof(unknown)));
	expect(becomes(WIRE_STAT_BAD_CONTROL, bad + 2) && becomes(WIRE_STAT_HANDSHAKES_REFUSED, refused + 2));
	closed(raw(long_hello, sizeof(long_hello)));
	expect(becomes(WIRE_STAT_BAD_CONTROL, ++bad + 2) && becomes(WIRE_STAT_HANDSHAKES_REFUSED, ++refused + 2));
	/* In a session: a region and an address with more rails than the HELLO said; HELLO after GOODBYE. */
	c = greet(&m);
	m = region(1, 4096);
	m.region.rails = 2;
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == 0 && m.region_ok.status == WIRE_INVALID);
	expect(becomes(WIRE_STAT_BAD_CONTROL, bad + 3));
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_ADDRESS, .address = {.rails = 2, .epoch = 6}};
	m.address.addr[0] = m.address.addr[1] = h.hello.addr[0];
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == 0 && m.region_ok.status == WIRE_INVALID);
	expect(becomes(WIRE_STAT_BAD_CONTROL, bad + 4));
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_GOODBYE};
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE_OK);
	expect(boot_send_await(c, &h, soon()) == 0 && next(c, &m) == -KV_EPEERDOWN);
	expect(becomes(WIRE_STAT_BAD_CONTROL, bad + 5));
	boot_close(&c);
	expect(control_stat(WIRE_STAT_HANDSHAKES_REFUSED) == refused + 2);
}

static void nonsense_on_the_control_connection_is_counted(void **state)
{
	(void)state;
	in_coroutine(nonsense_body);
}

/* Like raw, with a receive buffer so small that little of what is not read fits the kernel. */
static int raw_narrow(const void *bytes, size_t len)
{
	struct sockaddr_storage a = server_addr(server);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), few = 2048;
	expect(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few)) == 0);
	expect(connect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)) == 0);
	expect(io_write_all_await(fd, bytes, len, soon()) == 0);
	return fd;
}

/* Give the server's end of this connection, which is in this process as well, a small send buffer: its answers soon do
 * not go out. With the kernel's own the server might answer for longer than TCP_USER_TIMEOUT, with which the kernel
 * breaks a connection whose other end does not read, before a single send has to wait. */
static void narrow_other_end(int fd)
{
	struct sockaddr_in own = {0}, peer;
	socklen_t len = sizeof(own);
	int few = 4096, found = 0;
	expect(getsockname(fd, (struct sockaddr *)&own, &len) == 0);
	for (int other = 0; other < FD_SETSIZE; other++) {
		len = sizeof(peer);
		if (getpeername(other, (struct sockaddr *)&peer, &len) < 0 || peer.sin_family != AF_INET ||
		    peer.sin_port != own.sin_port || peer.sin_addr.s_addr != own.sin_addr.s_addr)
			continue;
		expect(setsockopt(other, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few)) == 0);
		found++;
	}
	expect(found == 1);
}

static uint8_t revokes[64 * 16];
static size_t revokes_len, revokes_at; /* bytes of all; where the next one that is sent stands */

/* Ask until the server takes no more for half a second, as it does when its answers do not go out or this machine is
 * slow. False: the server has closed the connection. */
static bool ask_on(int fd)
{
	ssize_t n;
	while ((n = io_write_await(fd, revokes + revokes_at, revokes_len - revokes_at, loop_now(loop) + 500000000)) > 0)
		revokes_at = (revokes_at + (size_t)n) % revokes_len;
	return n == -KV_ETIMEOUT;
}

/* A session over a bare socket, of a client that asks and never reads the answers. */
static int silent_client(void)
{
	static uint8_t buf[65536];
	struct wire_ctrl_msg h = hello_make(te), r = {.type = WIRE_CTRL_REVOKE, .region_ok = {.id = 9}};
	int len = wire_ctrl_encode(&h, buf, sizeof(buf)), each, fd;
	expect(len > 0);
	fd = raw_narrow(buf, (size_t)len);
	expect(io_read_await(fd, buf, sizeof(buf), soon()) > 0); /* the WELCOME */
	narrow_other_end(fd);
	each = wire_ctrl_encode(&r, revokes, sizeof(revokes));
	for (unsigned i = 1; i < 64; i++)
		memcpy(revokes + (size_t)i * (size_t)each, revokes, (size_t)each);
	revokes_len = 64 * (size_t)each;
	revokes_at = 0;
	ask_on(fd);
	return fd;
}

static void stall_body(void)
{
	static const uint8_t begun[] = {40, 0};
	uint64_t out = control_stat(WIRE_STAT_HANDSHAKES_TIMED_OUT), silent = control_stat(WIRE_STAT_SILENT_CLIENTS);
	struct wire_ctrl_msg m;
	int mute = raw(NULL, 0), half = raw(begun, sizeof(begun)), deaf = silent_client();
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 2) || control_stat(WIRE_STAT_HANDSHAKES_TIMED_OUT) > out);
	leave(greet(&m)); /* honest clients come and go meanwhile */
	closed(mute);
	closed(half);
	expect(becomes(WIRE_STAT_HANDSHAKES_TIMED_OUT, out + 2));
	/* A slow machine takes its time until the kernel holds no more answers. */
	for (unsigned i = 0; i < 240 && ask_on(deaf); i++)
		;
	expect(becomes(WIRE_STAT_SILENT_CLIENTS, silent + 1));
	expect(control_stat(WIRE_STAT_SILENT_CLIENTS) == silent + 1);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 0));
	leave(greet(&m));
	io_close(loop, deaf);
}

static void a_client_that_stalls_or_does_not_read_is_cut_and_counted(void **state)
{
	(void)state;
	in_coroutine(stall_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_are_acknowledged_and_revoked),
		cmocka_unit_test(the_number_of_regions_is_bounded),
		cmocka_unit_test(heartbeats_count_on),
		cmocka_unit_test(new_addresses_are_acknowledged),
		cmocka_unit_test(nonsense_on_the_control_connection_is_counted),
		cmocka_unit_test(a_client_that_stalls_or_does_not_read_is_cut_and_counted),
	};
	return cmocka_run_group_tests_name("kvserver/serve", tests, group_up, group_down);
}
