/* SPDX-License-Identifier: Apache-2.0 */
/* test_server.c -- a whole server on threads of its own, spoken to over its control connection; and what it refuses to
 * be. */
#include "tests/kvserver/talk.h"

#include <errno.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bootstrap/context.h"
#include "host/host.h"
#include "kvserver/control/conn.h"
#include "kvserver/control/files.h"
#include "kvserver/control/server.h"
#include "kvserver/shard/ending.h"
#include "kvserver/shard/session.h"
#include "kvserver/shard/stat.h"

enum { SHARDS = 2, CLIENTS = 4 };

static struct kvs_options server_options(void)
{
	return (struct kvs_options){.listen_addr = "127.0.0.1:0",
				    .shards = SHARDS,
				    .memory_bytes = 16 << 20,
				    .max_clients = CLIENTS,
				    .heartbeat_ms = 20,
				    .provider = test_provider(),
				    .log = &sink};
}

/* ---- a client's control connection ---- */

/* Dial, say hello; *m is the answer. */
static struct boot_conn *greet(struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg h = hello_make(te);
	struct boot_conn *c = dial(server, ctx);
	expect(c != NULL);
	if (!c)
		return NULL;
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, m) == 0);
	return c;
}

static void leave(struct boot_conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE_OK);
	m.type = WIRE_CTRL_GOODBYE_DONE;
	expect(boot_send_await(c, &m, soon()) == 0);
	boot_close(&c);
}

/* ---- hello ---- */

static void welcome_body(void)
{
	static const uint8_t zero[KV_TOKEN_LEN];
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	struct wire_blob_addr a, b;
	expect(m.type == WIRE_CTRL_WELCOME);
	expect(m.welcome.version == WIRE_VERSION && m.welcome.shards == SHARDS && m.welcome.rails == 1);
	expect(m.welcome.session != 0 && m.welcome.credits == KVS_CREDITS_DEFAULT && m.welcome.heartbeat_ms == 20);
	expect(m.welcome.value_max == 8 << 20);
	expect(memcmp(m.welcome.token, zero, sizeof(zero)) != 0);
	expect((m.welcome.flags & (WIRE_WELCOME_BENCH | WIRE_WELCOME_PULL)) == 0);
	expect(m.welcome.node_id[0] == 0); /* none was given */
	expect(wire_welcome_addr(&m.welcome, 0, 0, &a) == 0 && wire_welcome_addr(&m.welcome, SHARDS - 1, 0, &b) == 0);
	expect(a.len > 0 && (a.len != b.len || memcmp(a.data, b.data, a.len) != 0));
	leave(c);
}

static void a_client_is_welcomed_with_all_addresses(void **state)
{
	(void)state;
	in_coroutine(welcome_body);
}

static void mismatch_body(void)
{
	struct wire_ctrl_msg h = hello_make(te), m;
	struct boot_conn *c = dial(server, ctx);
	snprintf(h.hello.provider, sizeof(h.hello.provider), "efa");
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REFUSE);
	expect(m.refuse.status == WIRE_MISMATCH && strstr(m.refuse.text, "efa") &&
	       strstr(m.refuse.text, hello_make(te).hello.provider));
	boot_close(&c);
}

static void another_provider_is_refused_with_a_sentence(void **state)
{
	(void)state;
	in_coroutine(mismatch_body);
}

static void version_body(void)
{
	struct wire_ctrl_msg h = hello_make(te), m;
	struct boot_conn *c = dial(server, ctx);
	h.hello.version_min = h.hello.version_max = WIRE_VERSION + 7;
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_MISMATCH);
	boot_close(&c);
}

static void another_protocol_version_is_refused(void **state)
{
	(void)state;
	in_coroutine(version_body);
}

static void rude_body(void)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REVOKE, .region_ok = {.id = 1}};
	struct boot_conn *c = dial(server, ctx);
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
}

static void without_a_hello_the_connection_ends(void **state)
{
	(void)state;
	in_coroutine(rude_body);
}

static void full_body(void)
{
	struct boot_conn *c[CLIENTS + 1];
	struct wire_ctrl_msg m;
	for (unsigned i = 0; i < CLIENTS; i++) {
		c[i] = greet(&m);
		expect(m.type == WIRE_CTRL_WELCOME);
	}
	c[CLIENTS] = greet(&m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL && strstr(m.refuse.text, "--max-clients"));
	boot_close(&c[CLIENTS]);
	leave(c[0]);
	/* One that just vanishes makes room as well as one that says goodbye. */
	boot_close(&c[1]);
	for (unsigned i = 0, open = 0; open < 2 && i < 1000; i++) {
		c[open] = greet(&m);
		if (m.type == WIRE_CTRL_WELCOME) {
			open++;
		} else {
			boot_close(&c[open]);
			co_sleep_await(loop_now(loop) + 10000000);
		}
		expect(i < 999);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		leave(c[i]);
}

static void a_full_server_says_so_and_has_room_again_later(void **state)
{
	(void)state;
	in_coroutine(full_body);
}

static uint64_t control_stat(enum wire_stat id)
{
	return atomic_load(&server->control_stat[id]);
}

/* The counter has this value, soon. */
static bool becomes(enum wire_stat id, uint64_t value)
{
	uint64_t until = soon();
	while (control_stat(id) != value && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	return control_stat(id) == value;
}

/* ---- the limit of open files ---- */

static void the_limit_of_open_files_is_shared_out(void **state)
{
	(void)state;
	struct files f = {.limit = 1024, .open = 40, .handshakes = 256, .client = 4};
	files_divide(&f, 256);
	assert_int_equal(f.clients, (1024 - 40 - 8 - 256 - KV_FILES_RESERVE) / 5);
	assert_int_equal(f.wanted, 40 + 8 + HANDSHAKES_MAX + KV_FILES_RESERVE + 256 * 5);
	f.limit = f.wanted;
	f.handshakes = HANDSHAKES_MAX;
	files_divide(&f, 256);
	assert_int_equal(f.clients, 256); /* what it asks for is enough ... */
	f.limit--;
	files_divide(&f, 256);
	assert_int_equal(f.clients, 255); /* ... and no less is */
	f.limit = KV_NO_LIMIT;
	files_divide(&f, 1 << 18);
	assert_int_equal(f.clients, 1 << 18);
	f = (struct files){.limit = 64, .open = 40, .handshakes = 16, .client = 0};
	files_divide(&f, 4);
	assert_int_equal(f.clients, 1);
}

/* The engine's part is what a second peer adds: a descriptor or two per shard where connections have sockets. */
static void a_client_takes_files_of_each_shard(void **state)
{
	(void)state;
	struct te_info info;
	te_info(te, &info);
	assert_int_equal(server->files.client, strstr(info.provider, "ofi_rxm") ? 2 * SHARDS : 0);
	assert_int_equal(server->files.clients, CLIENTS);
	assert_true(server->files.open > 3 && server->files.limit > server->files.open);
}

static void few_files_body(void)
{
	struct boot_conn *c, *more;
	struct wire_ctrl_msg m;
	unsigned room = server->files.clients;
	server->files.clients = 1; /* nobody is there who could read it meanwhile */
	c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME);
	more = greet(&m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL &&
	       strstr(m.refuse.text, "open files has room for") && strstr(m.refuse.text, "ulimit -n"));
	boot_close(&more);
	leave(c);
	server->files.clients = room;
}

static void a_client_that_the_files_have_no_room_for_is_told_so(void **state)
{
	(void)state;
	in_coroutine(few_files_body);
}

/* Every descriptor of this process, which is also the server's, is taken while somebody knocks: accept fails, now and
 * then and not all the time, and goes on when there is one. */
static void no_files_body(void)
{
	static int taken[1 << 16];
	struct sockaddr_storage a = server_addr(server);
	struct rlimit all, few;
	struct wire_ctrl_msg m;
	uint64_t failed = control_stat(WIRE_STAT_ACCEPTS_FAILED), began, times;
	unsigned n = 0;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	expect(fd >= 0 && getrlimit(RLIMIT_NOFILE, &all) == 0);
	few = all;
	few.rlim_cur = KV_MIN(all.rlim_cur, (rlim_t)KV_COUNT(taken));
	expect(setrlimit(RLIMIT_NOFILE, &few) == 0);
	while (n < KV_COUNT(taken) && (taken[n] = dup(fd)) >= 0)
		n++;
	expect(n > 0 && n < KV_COUNT(taken));
	expect(connect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)) == 0);
	began = loop_now(loop);
	while (control_stat(WIRE_STAT_ACCEPTS_FAILED) < failed + 3 && loop_now(loop) < began + WAIT_NS)
		co_sleep_await(loop_now(loop) + 5000000);
	times = control_stat(WIRE_STAT_ACCEPTS_FAILED) - failed;
	expect(times >= 3);
	expect(times <= 3 + (loop_now(loop) - began) / 10000000); /* one per PLACE_WAIT_NS at most */
	while (n > 0)
		close(taken[--n]);
	setrlimit(RLIMIT_NOFILE, &all);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 1)); /* that one, from the backlog */
	leave(greet(&m));
	close(fd);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 0));
}

static void without_a_descriptor_accept_waits_and_goes_on(void **state)
{
	(void)state;
	in_coroutine(no_files_body);
}

/* More than there are places. */
static void silent_body(void)
{
	static int fd[400];
	struct sockaddr_storage a = server_addr(server);
	struct wire_ctrl_msg m;
	unsigned places = server->handshakes_max;
	server->handshakes_max = 64; /* read by the server's thread when it accepts */
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		expect(io_connect_await(&a, sizeof(struct sockaddr_in), &fd[i], soon()) == 0);
	leave(greet(&m));
	expect(atomic_load(&server->control_stat[WIRE_STAT_HANDSHAKES_CUT]) >= KV_COUNT(fd) - 300);
	server->handshakes_max = places;
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		io_close(loop, fd[i]);
}

static void silent_connections_do_not_keep_others_out(void **state)
{
	(void)state;
	in_coroutine(silent_body);
}

/* A connection from another address, which has said its first byte and says no more. */
static int talker(void)
{
	struct sockaddr_storage a = server_addr(server);
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	expect(fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0);
	expect(connect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)) == 0);
	expect(write(fd, "\x16", 1) == 1);
	return fd;
}

/* So many that, by patience alone, whoever comes now would wait for longer than he has. */
static void talkers_body(void)
{
	static int fd[400];
	struct wire_ctrl_msg m;
	unsigned places = server->handshakes_max;
	server->handshakes_max = 16; /* read by the server's thread when it accepts */
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		fd[i] = talker();
	leave(greet(&m));
	server->handshakes_max = places;
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		close(fd[i]);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 0));
}

static void an_address_that_talks_a_lot_keeps_nobody_else_out(void **state)
{
	(void)state;
	in_coroutine(talkers_body);
}

/* ---- an open connection ---- */

static struct wire_ctrl_msg region(uint32_t id, uint64_t len)
{
	static uint8_t keys[2 * 16];
	wire_region_put(keys, 1, 0, 0, 4096, 9);
	return (struct wire_ctrl_msg){
		.type = WIRE_CTRL_REGION,
		.region = {.id = id, .parts = 1, .rails = 1, .len_bytes = len, .part_bytes = 1 << 20, .keys = keys}};
}

static int32_t ask_region(struct boot_conn *c, uint32_t id, uint64_t len)
{
	struct wire_ctrl_msg m = region(id, len);
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.id == id);
	return m.region_ok.status;
}

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
	expect(boot_send_await(c, &h, soon()) == 0);
	/* The shard's thread may get no time between two beats of a busy machine: so many beats until its counter has
	 * moved. */
	for (unsigned i = 0; i < 3 || (turns == first && i < 200); i++) {
		expect(boot_recv_await(c, &m, soon()) == 0 && m.type == WIRE_CTRL_HEARTBEAT);
		expect(m.heartbeat.shards == SHARDS && m.heartbeat.received == 0);
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

/* ---- control connections that make no sense, stall, or are not read ---- */

/* A bare socket that has said `len` bytes. */
static int raw(const void *bytes, size_t len)
{
	struct sockaddr_storage a = server_addr(server);
	int fd = -1;
	expect(io_connect_await(&a, sizeof(struct sockaddr_in), &fd, soon()) == 0);
	if (len)
		expect(io_write_all_await(fd, bytes, len, soon()) == 0);
	return fd;
}

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

/* ---- connections that are cut before they said anything ---- */

static void tokens_take(void *arg)
{
	struct kvs_server *s = arg;
	s->bucket = (struct bucket){.tokens = -20.0 * HANDSHAKE_RATE, .filled_ns = loop_now(s->control)};
}

static void tokens_give(void *arg)
{
	struct kvs_server *s = arg;
	s->bucket = (struct bucket){.tokens = HANDSHAKE_BURST, .filled_ns = loop_now(s->control)};
}

static void tokens_look(void *arg)
{
	struct kvs_server *s = server;
	atomic_store((_Atomic int *)arg, s->bucket.tokens >= -20.0 * HANDSHAKE_RATE ? 1 : -1);
}

static bool tokens_given_back(void)
{
	static _Atomic int seen;
	uint64_t until = soon();
	atomic_store(&seen, 0);
	expect(loop_post(server->control, tokens_look, (void *)&seen) == 0);
	while (atomic_load(&seen) == 0 && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	return atomic_load(&seen) == 1;
}

/* Whoever takes a handshake's turn now waits for 20 s. Those who are cut do not, and leave their places at once. */
static void cut_body(void)
{
	static int fd[40];
	struct sockaddr_storage a = server_addr(server);
	uint64_t cut = control_stat(WIRE_STAT_HANDSHAKES_CUT), delayed = control_stat(WIRE_STAT_HANDSHAKES_DELAYED);
	unsigned places = server->handshakes_max;
	struct wire_ctrl_msg m;
	expect(loop_post(server->control, tokens_take, server) == 0);
	server->handshakes_max = 8;
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		expect(io_connect_await(&a, sizeof(struct sockaddr_in), &fd[i], soon()) == 0);
	expect(becomes(WIRE_STAT_HANDSHAKES_CUT,
		       cut + KV_COUNT(fd) - 8)); /* and no more: a place is kept free for nobody */
	expect(control_stat(WIRE_STAT_HANDSHAKES_DELAYED) == delayed);
	server->handshakes_max = places;
	expect(loop_post(server->control, tokens_give, server) == 0);
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		io_close(loop, fd[i]);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 0));
	leave(greet(&m));
}

static void silent_connections_take_no_handshakes_turn(void **state)
{
	(void)state;
	in_coroutine(cut_body);
}

/* Who has left takes no handshake's turn, and gives back the one that was promised. */
static void left_body(void)
{
	static int fd[40];
	struct sockaddr_storage a = server_addr(server);
	uint64_t delayed = control_stat(WIRE_STAT_HANDSHAKES_DELAYED),
		 refused = control_stat(WIRE_STAT_HANDSHAKES_REFUSED);
	struct wire_ctrl_msg m;
	expect(loop_post(server->control, tokens_take, server) == 0);
	for (unsigned i = 0; i < KV_COUNT(fd); i++) {
		expect(io_connect_await(&a, sizeof(struct sockaddr_in), &fd[i], soon()) == 0);
		expect(io_write_all_await(fd[i], "\x16", 1, soon()) == 0);
	}
	expect(becomes(WIRE_STAT_HANDSHAKES_DELAYED, delayed + KV_COUNT(fd)));
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		io_close(loop, fd[i]);
	expect(becomes(WIRE_STAT_HANDSHAKES_REFUSED, refused + KV_COUNT(fd)));
	expect(control_stat(WIRE_STAT_HANDSHAKES_NOW) == 0);
	expect(tokens_given_back());
	expect(loop_post(server->control, tokens_give, server) == 0);
	leave(greet(&m));
}

static void connections_that_have_left_take_no_handshakes_turn(void **state)
{
	(void)state;
	in_coroutine(left_body);
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

static void what_stalls_and_what_does_not_read_is_cut_and_counted(void **state)
{
	(void)state;
	in_coroutine(stall_body);
}

/* ---- a client that dies while the server waits for what it left in flight ---- */

enum { BIG = 6 << 20, BIG_GETS = 24 };

/* What of the first shard a test looks at, taken on its loop. */
static struct {
	_Atomic bool taken;
	unsigned requests, ending, sessions, clients;
	uint64_t unknown, fences, fenced_ns;
} seen;

static void see(void *arg)
{
	struct shard *s = arg;
	seen.requests = s->requests.used;
	seen.ending = (unsigned)shard_stat_get(s, WIRE_STAT_ENDING_SESSIONS);
	seen.sessions = s->session_count;
	seen.clients = (unsigned)shard_stat_get(s, WIRE_STAT_SESSIONS);
	seen.unknown = shard_stat_get(s, WIRE_STAT_UNKNOWN_SESSION);
	seen.fences = shard_stat_get(s, WIRE_STAT_FENCES);
	seen.fenced_ns = s->fenced_ns;
	atomic_store(&seen.taken, true);
}

static void look(void)
{
	uint64_t until = soon();
	atomic_store(&seen.taken, false);
	expect(loop_post(server->shard_loop[0], see, server->shard[0]) == 0);
	while (!atomic_load(&seen.taken) && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 1000000);
	expect(atomic_load(&seen.taken));
}

static void big_commit(void *arg)
{
	struct shard *s = arg;
	struct block *b, *holder;
	struct room *room;
	if (store_stage(&s->store, "big", 3, BIG, ARENA_LOW, &b, &room) != 0)
		return;
	store_commit(&s->store, b, 0, KV_NEVER, loop_now(s->loop), &holder);
	block_unref(&s->store, b);
}

static void big_drop(void *arg)
{
	struct shard *s = arg;
	struct block *b = store_find(&s->store, "big", 3, loop_now(s->loop));
	if (b)
		store_drop(&s->store, b);
}

/* A client with an endpoint of its own, which is polled only now and then. */
static struct {
	struct te *te;
	struct kv_area area;
	struct te_region *region;
	struct te_peer *server;
	struct wire_frame frame;
	struct kv_macs macs;
	struct kv_seal seal;
	uint64_t seen[KV_WINDOW_WIDTH / 64];
	uint64_t next_id, nonce;
	unsigned replies;
} dying;

static struct wire_ctrl_msg dying_hello, dying_welcome;

static void dying_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply r;
	(void)arg, (void)rail;
	expect(wire_frame_open(&reader, data, len, &frame) == 0 && wire_unseal(&dying.seal, data, len) == 0);
	expect(frame.mark == dying.frame.mark);
	if (wire_reply_next(&reader, &r) == 1 && r.type == WIRE_PING)
		dying.nonce = r.ping.nonce;
	dying.replies++;
}

static void dying_send(struct wire_request *q, unsigned n)
{
	struct te_msg *msg = te_msg_acquire(dying.te);
	struct wire_writer w;
	expect(msg != NULL);
	wire_frame_begin(&w, msg->data, KV_MSG_MAX, &dying.frame);
	for (unsigned i = 0; i < n; i++) {
		q[i].id = q[i].type == WIRE_PROVE ? 0 : dying.next_id++;
		q[i].time_left_us = UINT32_MAX;
		expect(wire_request_add(&w, &q[i]) == 0);
	}
	msg->len = wire_frame_end(&w);
	expect(wire_seal(&dying.seal, msg->data, msg->len) == 0);
	msg->sent = NULL;
	te_msg_send(dying.te, dying.server, 0, msg, soon());
}

/* Its engine, its session, and its memory as region 1. */
static struct boot_conn *dying_open(void)
{
	const struct te_options options = {
		.provider = test_provider(), .local = server_addr(server), .messages = 64, .receives = 64};
	const struct te_handlers handlers = {.message = dying_message};
	static uint8_t keys[16];
	struct te_options o = options;
	struct wire_ctrl_msg m, h = hello_make(te);
	struct te_address mine, theirs;
	struct te_remote announced;
	struct wire_blob_addr a;
	uint8_t secret[BOOT_FRAME_SECRET];
	struct te_key key[8];
	struct boot_conn *c;
	((struct sockaddr_in *)&o.local)->sin_port = 0;
	memset(&dying, 0, sizeof(dying));
	expect(te_open(&o, &handlers, NULL, &dying.te, NULL) == 0 && kv_area_map(BIG, &dying.area, NULL) == 0);
	expect(te_region_register(dying.te, dying.area.base, dying.area.len_bytes, TE_REMOTE_READ | TE_REMOTE_WRITE, 0,
				  &dying.region, NULL) == 0);
	expect(te_address(dying.te, 0, &mine) == 0);
	h.hello.addr[0].len = mine.len;
	memcpy(h.hello.addr[0].data, mine.data, mine.len);
	c = dial(server, ctx);
	expect(c && boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	dying_hello = h;
	dying_welcome = m;
	expect(wire_welcome_addr(&m.welcome, 0, 0, &a) == 0);
	theirs.len = a.len;
	memcpy(theirs.data, a.data, a.len);
	expect(te_peer_open(dying.te, &theirs, 1, &dying.server, NULL) == 0);
	dying.next_id = 1;
	dying.frame.session = m.welcome.session;
	dying.frame.mark = h.hello.mark;
	expect(boot_frame_secret(c, m.welcome.token, secret) == 0 &&
	       boot_frame_macs(secret, m.welcome.session, 0, false, &dying.macs) == 0);
	kv_seal_init(&dying.seal, &dying.macs, 0, dying.seen, KV_WINDOW_WIDTH);
	te_region_announce(dying.region, &announced, key);
	expect(announced.parts == 1);
	wire_region_put(keys, 1, 0, 0, key[0].base, key[0].key);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_REGION,
				   .region = {.id = 1,
					      .parts = 1,
					      .rails = 1,
					      .virt = announced.virt,
					      .len_bytes = announced.len_bytes,
					      .part_bytes = announced.part_bytes,
					      .keys = keys}};
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK);
	expect(m.region_ok.status == WIRE_OK);
	return c;
}

/* GETs that its endpoint takes in no bytes of, once they have come. */
static void dying_gets(void)
{
	struct wire_request ping = {.type = WIRE_PING}, prove = {.type = WIRE_PROVE}, q[BIG_GETS];
	uint64_t until = soon();
	dying_send(&ping, 1);
	while (dying.replies == 0 && loop_now(loop) < until) {
		te_poll(dying.te);
		co_sleep_await(loop_now(loop) + 1000000);
	}
	expect(dying.replies == 1 && dying.nonce != 0);
	prove.prove.nonce = dying.nonce;
	dying_send(&prove, 1);
	for (unsigned i = 0; i < BIG_GETS; i++)
		q[i] = (struct wire_request){.type = WIRE_GET,
					     .key = {(const uint8_t *)"big", 3},
					     .dest = {.region = 1, .slice = BIG, .count = 1},
					     .get = {.length = BIG, .imm = 1 << 16}};
	dying_send(q, BIG_GETS);
	for (look(); seen.requests == 0 && loop_now(loop) < until; look())
		te_poll(dying.te);
	expect(seen.requests > 0); /* more than all sockets hold */
}

/* The reader of its control connection waits for the transfers, which never end: its session ends all the same. */
static void dying_body(enum wire_ctrl type)
{
	struct wire_ctrl_msg m = {.type = type, .region_ok = {.id = 1}};
	struct boot_conn *c;
	uint64_t until;
	expect(loop_post(server->shard_loop[0], big_commit, server->shard[0]) == 0);
	c = dying_open();
	dying_gets();
	expect(boot_send_await(c, &m, soon()) == 0);
	boot_close(&c);
	until = soon();
	for (look(); seen.ending == 0 && loop_now(loop) < until; look())
		co_sleep_await(loop_now(loop) + 10000000);
	expect(seen.ending == 1 && seen.requests > 0);
	kv_macs_fini(&dying.macs);
	te_close(&dying.te); /* as the quarantine budget would in the end */
	until = soon();
	for (look(); seen.sessions > 0 && loop_now(loop) < until; look())
		co_sleep_await(loop_now(loop) + 10000000);
	expect(seen.sessions == 0 && seen.requests == 0);
	kv_area_unmap(&dying.area);
	expect(loop_post(server->shard_loop[0], big_drop, server->shard[0]) == 0);
}

static void revoke_body(void)
{
	dying_body(WIRE_CTRL_REVOKE);
}

static void goodbye_body(void)
{
	dying_body(WIRE_CTRL_GOODBYE);
}

static void a_client_that_dies_after_revoke_or_goodbye_is_ended(void **state)
{
	(void)state;
	in_coroutine(revoke_body);
	in_coroutine(goodbye_body);
}

/* ---- the server's endpoint is rebuilt ---- */

int te_reset(struct te *te, struct kv_error *err); /* engine/fence.h; a fence may be one of a client alone */

static void shard_reset(void *arg)
{
	te_reset(((struct shard *)arg)->te, NULL);
}

static void reset_body(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	struct wire_blob_addr before, after;
	expect(wire_welcome_addr(&m.welcome, 0, 0, &before) == 0);
	expect(loop_post(server->shard_loop[0], shard_reset, server->shard[0]) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_ADDRESS);
	expect(next(c, &m) == -KV_EPEERDOWN); /* we do not go, so we are cut */
	boot_close(&c);
	c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME && wire_welcome_addr(&m.welcome, 0, 0, &after) == 0);
	expect(before.len != after.len || memcmp(before.data, after.data, after.len) != 0);
	leave(c);
}

static void after_a_reset_clients_come_back_for_new_addresses(void **state)
{
	(void)state;
	in_coroutine(reset_body);
}

/* ---- HELLO again (docs/reference/protocol.md 2.10) ---- */

/* So many clients, further sessions among them, soon. */
static bool open_becomes(unsigned want)
{
	uint64_t until = soon();
	while (atomic_load(&server->open) != want && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	return atomic_load(&server->open) == want;
}

static void prior_set(struct wire_ctrl_msg *h, const struct wire_ctrl_msg *welcome)
{
	h->hello.prior.session = welcome->welcome.session;
	memcpy(h->hello.prior.token, welcome->welcome.token, KV_TOKEN_LEN);
}

/* HELLO again that names what *m welcomed; *m is the answer. */
static void again(struct boot_conn *c, struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg h = hello_make(te);
	prior_set(&h, m);
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, m) == 0);
}

/* What a transfer that does not end does to a session of the first shard: it is not over. */
static struct {
	uint32_t number;
	bool release;
	_Atomic bool done;
} holding;

static void hold_run(void *arg)
{
	struct session *session = session_find(arg, holding.number);
	if (session && holding.release) {
		session->request_count--;
		session_settle(session);
	} else if (session) {
		session->request_count++;
	}
	expect(session != NULL);
	atomic_store(&holding.done, true);
}

static void hold_or_release(uint32_t number, bool release)
{
	uint64_t until = soon();
	holding.number = number;
	holding.release = release;
	atomic_store(&holding.done, false);
	expect(loop_post(server->shard_loop[0], hold_run, server->shard[0]) == 0);
	while (!atomic_load(&holding.done) && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 1000000);
	expect(atomic_load(&holding.done));
}

static void hold(uint32_t number)
{
	hold_or_release(number, false);
}

static void release(uint32_t number)
{
	hold_or_release(number, true);
}

/* Sessions of the first shard, those that end among them, soon. */
static void sessions_become(unsigned all, unsigned ending)
{
	uint64_t until = soon();
	for (look(); (seen.sessions != all || seen.ending != ending) && loop_now(loop) < until; look())
		co_sleep_await(loop_now(loop) + 5000000);
	expect(seen.sessions == all && seen.ending == ending);
}

/* What the server says while it waits: heartbeats, and nothing else. */
static void only_beats(struct boot_conn *c, unsigned n)
{
	struct wire_ctrl_msg m;
	for (unsigned i = 0; i < n; i++)
		expect(boot_recv_await(c, &m, soon()) == 0 && m.type == WIRE_CTRL_HEARTBEAT);
}

static void again_body(void)
{
	uint64_t handshakes = control_stat(WIRE_STAT_HANDSHAKES);
	struct wire_ctrl_msg first, m;
	struct boot_conn *c = greet(&first);
	sessions_become(1, 0);
	m = first;
	for (unsigned i = 0; i < 3; i++) {
		struct wire_ctrl_msg before = m;
		expect(ask_region(c, 1, 4096) == WIRE_OK); /* the id is new in each attachment */
		expect(ask_region(c, 1, 4096) != WIRE_OK);
		again(c, &m);
		expect(m.type == WIRE_CTRL_WELCOME && m.welcome.session != before.welcome.session);
		expect(memcmp(m.welcome.token, before.welcome.token, KV_TOKEN_LEN) != 0);
		expect(m.welcome.incarnation == first.welcome.incarnation);
	}
	expect(atomic_load(&server->open) == 1);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
	expect(control_stat(WIRE_STAT_HANDSHAKES) == handshakes + 1); /* one connection, four attachments */
}

static void hello_again_makes_another_attachment(void **state)
{
	(void)state;
	in_coroutine(again_body);
}

/* Messages are answered in the order in which they were sent, HELLO as well. */
static void order_body(void)
{
	struct wire_ctrl_msg h = hello_make(te), m, r = region(7, 4096),
			     revoke = {.type = WIRE_CTRL_REVOKE, .region_ok = {.id = 7}};
	struct boot_conn *c = greet(&m);
	uint32_t first = m.welcome.session, second;
	prior_set(&h, &m);
	expect(boot_send_await(c, &r, soon()) == 0 && boot_send_await(c, &revoke, soon()) == 0);
	expect(boot_send_await(c, &h, soon()) == 0 && boot_send_await(c, &r, soon()) == 0);
	expect(boot_send_await(c, &h, soon()) == 0 && boot_send_await(c, &r, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.status == WIRE_OK);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REVOKE_OK);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME && m.welcome.session != first);
	second = m.welcome.session;
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.status == WIRE_OK);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME && m.welcome.session != first &&
	       m.welcome.session != second);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.status == WIRE_OK);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
}

static void hellos_are_answered_in_order(void **state)
{
	(void)state;
	in_coroutine(order_body);
}

/* Requests of the old attachment are nobody's, and its GETs are stopped. */
static void void_body(void)
{
	struct wire_ctrl_msg m, h;
	struct wire_request ping = {.type = WIRE_PING};
	struct boot_conn *c;
	uint64_t until, unknown;
	expect(loop_post(server->shard_loop[0], big_commit, server->shard[0]) == 0);
	c = dying_open();
	dying_gets();
	h = hello_make(te); /* of another endpoint: nothing is waited for */
	prior_set(&h, &dying_welcome);
	expect(boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	look();
	expect(seen.sessions == 2 && seen.ending == 1 && seen.requests > 0 && seen.clients == 1);
	expect(atomic_load(&server->open) == 1);
	unknown = seen.unknown;
	dying_send(&ping, 1); /* with number and keys of the old one */
	until = soon();
	for (look(); seen.unknown == unknown && loop_now(loop) < until; look())
		te_poll(dying.te);
	expect(seen.unknown == unknown + 1);
	kv_macs_fini(&dying.macs);
	te_close(&dying.te);
	sessions_become(1, 0);
	leave(c);
	kv_area_unmap(&dying.area);
	expect(open_becomes(0));
	expect(loop_post(server->shard_loop[0], big_drop, server->shard[0]) == 0);
}

static void what_was_asked_before_hello_is_void(void **state)
{
	(void)state;
	in_coroutine(void_body);
}

/* The writes that are under way go to the address that comes again: WELCOME is not before their end. (One more thing is
 * under way than can be cut.) */
static void same_address_body(void)
{
	struct wire_ctrl_msg m, h;
	struct boot_conn *c;
	expect(loop_post(server->shard_loop[0], big_commit, server->shard[0]) == 0);
	c = dying_open();
	dying_gets();
	hold(dying_welcome.welcome.session);
	h = dying_hello;
	prior_set(&h, &dying_welcome);
	expect(boot_send_await(c, &h, soon()) == 0);
	sessions_become(1, 1);
	only_beats(c, 10);
	sessions_become(1, 1);
	expect(atomic_load(&server->open) == 1);
	kv_macs_fini(&dying.macs);
	te_close(&dying.te); /* its connections are gone, and what was posted fails */
	only_beats(c, 5);
	release(dying_welcome.welcome.session);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	look();
	expect(seen.requests == 0 && seen.sessions == 1 && seen.ending == 0);
	leave(c);
	kv_area_unmap(&dying.area);
	expect(loop_post(server->shard_loop[0], big_drop, server->shard[0]) == 0);
}

/* The client does not end what is under way, and does not take it. */
static void hurry_body(void)
{
	struct wire_ctrl_msg m, h;
	struct boot_conn *c;
	uint64_t fences, fenced_ns;
	expect(loop_post(server->shard_loop[0], big_commit, server->shard[0]) == 0);
	c = dying_open();
	dying_gets();
	fences = seen.fences;
	fenced_ns = seen.fenced_ns;
	h = dying_hello;
	prior_set(&h, &dying_welcome);
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	look();
	expect(seen.requests == 0 && seen.sessions == 1 && seen.ending == 0);
	expect(seen.fences > fences &&
	       seen.fenced_ns == fenced_ns); /* and not for the quarantine's budget, some seconds later */
	leave(c);
	kv_macs_fini(&dying.macs);
	te_close(&dying.te);
	kv_area_unmap(&dying.area);
	expect(loop_post(server->shard_loop[0], big_drop, server->shard[0]) == 0);
}

static void what_a_client_that_is_back_does_not_take_is_cut(void **state)
{
	struct te_info info;
	(void)state;
	te_info(te, &info);
	if (!info.peer_fence) {
		print_message("here a server cannot fence one peer alone, and waits for the provider\n");
		skip();
	}
	in_coroutine(hurry_body);
}

static void welcome_waits_for_what_may_still_be_written_there(void **state)
{
	(void)state;
	in_coroutine(same_address_body);
}

/* Named: waited for, on this connection and from another one, which takes the first one's place. Not named, or with
 * another token: not. */
static void named_body(void)
{
	struct wire_ctrl_msg held, m, h = hello_make(te);
	struct boot_conn *c = greet(&held), *d;
	hold(held.welcome.session);
	expect(boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME); /* not named */
	sessions_become(2, 1);
	prior_set(&h, &held);
	h.hello.prior.token[3] ^= 1;
	d = dial(server, ctx);
	expect(boot_send_await(d, &h, soon()) == 0 && next(d, &m) == 0 &&
	       m.type == WIRE_CTRL_WELCOME); /* nobody knows that token */
	expect(atomic_load(&server->open) == 2);
	only_beats(c, 3); /* nor is its connection touched */
	leave(d);
	expect(open_becomes(1));
	h.hello.prior.token[3] ^= 1;
	d = dial(server, ctx);
	expect(boot_send_await(d, &h, soon()) == 0);
	expect(next(c, &m) == -KV_EPEERDOWN); /* its client is there now */
	boot_close(&c);
	only_beats(d, 10);
	sessions_become(1, 1);
	expect(atomic_load(&server->open) == 1);
	release(held.welcome.session);
	expect(next(d, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	sessions_become(1, 0);
	leave(d);
	expect(open_becomes(0));
}

static void only_what_hello_names_is_waited_for(void **state)
{
	(void)state;
	in_coroutine(named_body);
}

/* A client that comes back by another connection is not one more. */
static void place_body(void)
{
	struct boot_conn *c[CLIENTS], *d;
	struct wire_ctrl_msg welcome[CLIENTS], m, h = hello_make(te);
	for (unsigned i = 0; i < CLIENTS; i++)
		c[i] = greet(&welcome[i]);
	hold(welcome[1].welcome.session);
	d = greet(&m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL);
	boot_close(&d);
	again(c[0], &welcome[0]);
	expect(welcome[0].type == WIRE_CTRL_WELCOME); /* nor is one that says HELLO again */
	prior_set(&h, &welcome[1]);
	h.hello.addr[0].data[3] ^= 1; /* another port: nothing is waited for */
	d = dial(server, ctx);
	expect(boot_send_await(d, &h, soon()) == 0 && next(d, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	expect(next(c[1], &m) == -KV_EPEERDOWN);
	expect(atomic_load(&server->open) == CLIENTS);
	boot_close(&c[1]);
	c[1] = d;
	d = greet(&m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL);
	boot_close(&d);
	sessions_become(CLIENTS + 1, 1);
	release(welcome[1].welcome.session);
	sessions_become(CLIENTS, 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		leave(c[i]);
	expect(open_becomes(0));
}

static void a_client_that_comes_back_is_not_one_more(void **state)
{
	(void)state;
	in_coroutine(place_body);
}

/* So many attachments may be ending. The next HELLO is answered when one of them has ended. */
static void bound_body(void)
{
	struct wire_ctrl_msg m, h = hello_make(te);
	struct boot_conn *c = greet(&m);
	uint32_t held[CONN_ENDING_MAX + 1];
	for (unsigned i = 0; i <= CONN_ENDING_MAX; i++) {
		held[i] = m.welcome.session;
		hold(held[i]);
		expect(boot_send_await(c, &h, soon()) == 0);
		if (i == CONN_ENDING_MAX)
			break;
		expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	}
	sessions_become(CONN_ENDING_MAX + 1, CONN_ENDING_MAX + 1);
	only_beats(c, 10);
	expect(atomic_load(&server->open) == 1);
	release(held[2]);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	sessions_become(CONN_ENDING_MAX + 1, CONN_ENDING_MAX);
	for (unsigned i = 0; i <= CONN_ENDING_MAX; i++)
		if (i != 2)
			release(held[i]);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
}

static void the_attachments_that_are_ending_are_bounded(void **state)
{
	(void)state;
	in_coroutine(bound_body);
}

/* The connection's place is free at once, and what it has left behind ends by itself. */
static void dead_waiter_body(void)
{
	struct wire_ctrl_msg held, m, h = hello_make(te);
	struct boot_conn *c = greet(&held);
	hold(held.welcome.session);
	prior_set(&h, &held);
	expect(boot_send_await(c, &h, soon()) == 0);
	sessions_become(1, 1);
	boot_close(&c);
	expect(open_becomes(0));
	c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME);
	sessions_become(2, 1);
	release(held.welcome.session);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
}

static void a_client_that_dies_while_its_hello_waits_is_ended(void **state)
{
	(void)state;
	in_coroutine(dead_waiter_body);
}

/* Whoever says HELLO without end is answered, in time. Being slow makes this longer, never shorter. */
static void rate_body(void)
{
	enum { MORE = 20 };
	struct wire_ctrl_msg m, h = hello_make(te);
	struct boot_conn *c = greet(&m);
	uint64_t begun_ns = loop_now(loop);
	for (unsigned i = 0; i < CONN_HELLOS_BURST + MORE; i++)
		expect(boot_send_await(c, &h, soon()) == 0);
	for (unsigned i = 0; i < CONN_HELLOS_BURST + MORE; i++)
		expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	expect(loop_now(loop) - begun_ns > (MORE - 2) * 1000000000ull / CONN_HELLOS_RATE);
	sessions_become(1, 0);
	leave(c);
}

static void hellos_of_a_connection_are_bounded_in_time(void **state)
{
	(void)state;
	in_coroutine(rate_body);
}

/* ADDRESS is answered with HELLO on the same connection, which goes on. Nothing that was to be told of the old
 * attachment is told of the new one. */
static void anew_body(void)
{
	struct wire_ctrl_msg m;
	struct wire_blob_addr before, after;
	struct boot_conn *c = greet(&m);
	struct wire_ctrl_msg welcome = m;
	uint64_t until;
	expect(wire_welcome_addr(&m.welcome, 0, 0, &before) == 0);
	expect(loop_post(server->shard_loop[0], shard_reset, server->shard[0]) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_ADDRESS);
	again(c, &welcome);
	expect(welcome.type == WIRE_CTRL_WELCOME && wire_welcome_addr(&welcome.welcome, 0, 0, &after) == 0);
	expect(before.len != after.len || memcmp(before.data, after.data, after.len) != 0);
	until = loop_now(loop) + ANEW_NS + ANEW_NS / 2; /* by then one that had not come back would be cut */
	while (loop_now(loop) < until)
		only_beats(c, 1);
	leave(c);
	expect(open_becomes(0));
}

static void after_address_hello_again_keeps_the_connection(void **state)
{
	(void)state;
	in_coroutine(anew_body);
}

#define STOP_NS 60000000000ull /* of the drain: nothing here waits for it */

static void *stop_it(void *arg)
{
	kvs_server_stop(arg, STOP_NS);
	return NULL;
}

/* Also one that waits: the server does not end later for it. */
static void drain_while_it_waits_body(void)
{
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg welcome, m, h = hello_make(te);
	struct boot_conn *c;
	pthread_t stopper;
	uint64_t begun_ns;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	c = greet(&welcome);
	hold(welcome.welcome.session);
	prior_set(&h, &welcome);
	expect(boot_send_await(c, &h, soon()) == 0);
	sessions_become(1, 1);
	only_beats(c, 3);
	begun_ns = loop_now(loop);
	expect(pthread_create(&stopper, NULL, stop_it, own) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_CLOSING);
	expect(loop_now(loop) - begun_ns < STOP_NS / 2);
	release(welcome.welcome.session);
	server = shared;
	boot_close(&c);
	pthread_join(stopper, NULL);
	kvs_server_destroy(&own);
}

static void drain_body(void)
{
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg welcome, m;
	struct boot_conn *c;
	pthread_t stopper;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	c = greet(&welcome);
	server = shared;
	expect(pthread_create(&stopper, NULL, stop_it, own) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE);
	again(c, &welcome);
	expect(welcome.type == WIRE_CTRL_REFUSE && welcome.refuse.status == WIRE_CLOSING);
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	pthread_join(stopper, NULL); /* nobody is left to wait for */
	kvs_server_destroy(&own);
}

static void a_server_that_ends_refuses_hello_again(void **state)
{
	(void)state;
	in_coroutine(drain_body);
	in_coroutine(drain_while_it_waits_body);
}

/* ---- start and stop ---- */

static void stop_with_client_body(void)
{
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg m;
	struct boot_conn *c;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	c = greet(&m);
	server = shared;
	kvs_server_stop(own, 1000000000); /* blocks this thread: the server must not need us */
	expect(kvs_server_state(own, NULL) == KVS_STOPPED);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE);
	expect(next(c, &m) == -KV_EPEERDOWN); /* we did not go, so we were cut */
	boot_close(&c);
	kvs_server_destroy(&own);
}

static void a_server_with_a_client_stops(void **state)
{
	(void)state;
	in_coroutine(stop_with_client_body);
}

static void a_port_in_use_is_said(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	struct kvs_server *second;
	struct kv_error err = {0};
	char addr[KV_HOST_MAX];
	o.listen_addr = kvs_server_address(server, addr, sizeof(addr));
	assert_int_equal(kvs_server_create(&o, &second, &err), 0);
	assert_true(kvs_server_start(second, &err) < 0);
	assert_non_null(strstr(err.text, addr));
	assert_int_equal(kvs_server_state(second, NULL), KVS_STOPPED);
	kvs_server_destroy(&second);
}

static void check_refused(const struct kvs_options *o, int code, const char *part)
{
	struct kvs_server *s = NULL;
	struct kv_error err = {0};
	assert_int_equal(kvs_server_create(o, &s, &err), code);
	assert_null(s);
	if (!strstr(err.text, part))
		fail_msg("'%s' does not contain '%s'", err.text, part);
}

/* By the page tables: the counters of the process are inexact while several threads touch memory. */
static void prefaulted_memory_is_resident(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	struct kvs_server *s;
	static unsigned char there[(128 << 20) / 4096];
	o.prefault = true;
	o.memory_bytes = 128 << 20;
	assert_int_equal(kvs_server_create(&o, &s, NULL), 0);
	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct kv_area *area = &s->shard[i]->area;
		assert_int_equal(mincore(area->base, area->len_bytes, there), 0);
		for (uint64_t page = 0; page < area->len_bytes / 4096; page++)
			assert_true(there[page] & 1);
	}
	kvs_server_destroy(&s);
}

static void an_open_door_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.listen_addr = "0.0.0.0:0";
	check_refused(&o, -KV_EINVAL, "--insecure");
}

static void more_memory_than_there_is_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.memory_bytes = 1ull << 50;
	check_refused(&o, -KV_ENOMEM, "--memory-mb");
}

static void a_provider_that_is_not_there_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.provider = "nonesuch";
	check_refused(&o, -KV_ENOTSUP, "nonesuch");
}

static void too_little_memory_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.memory_bytes = 1 << 20;
	check_refused(&o, -KV_EINVAL, "1 MiB");
}

/* ---- a key ---- */

static const char psk[] = "test:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
static const char other_psk[] = "test:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static void psk_body(void)
{
	struct kvs_options o = server_options();
	struct boot_security with = {.psk = psk}, without = {.psk = other_psk};
	struct boot_context *right = NULL, *wrong = NULL, *plain = ctx;
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg m;
	struct boot_conn *c;
	o.psk = psk;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	expect(boot_context_create(&with, false, &sink, &right, NULL) == 0 &&
	       boot_context_create(&without, false, &sink, &wrong, NULL) == 0);
	server = own;
	ctx = right;
	leave(greet(&m));
	expect(m.type == WIRE_CTRL_GOODBYE_OK || m.type == WIRE_CTRL_WELCOME);
	c = dial(own, wrong);
	expect(!c || next(c, &m) != 0);
	boot_close(&c);
	server = shared;
	ctx = plain;
	kvs_server_destroy(&own);
	boot_context_destroy(&right);
	boot_context_destroy(&wrong);
}

static void a_pre_shared_key_is_asked_for(void **state)
{
	(void)state;
	in_coroutine(psk_body);
}

/* ---- many sessions that are lost at once ---- */

static struct {
	struct kvs_server *server;
	sem_t reached, go;
} control;

static void control_hold(void *arg)
{
	(void)arg;
	sem_post(&control.reached);
	sem_wait(&control.go);
}

static void control_look(void *arg)
{
	(void)arg;
	sem_post(&control.reached);
}

/* However many sessions are lost while the control loop is busy, it has one thing to do, and its queue room for others;
 * and again for what is lost later. */
static void lost_sessions_are_looked_for_together(void **state)
{
	enum { LOST = 100000 }; /* more than any queue holds */
	struct kvs_options o = server_options();
	struct kv_error err = {0};
	struct shard *shard;
	(void)state;
	sem_init(&control.reached, 0, 0);
	sem_init(&control.go, 0, 0);
	assert_int_equal(kvs_server_create(&o, &control.server, &err), 0);
	assert_int_equal(kvs_server_start(control.server, &err), 0);
	shard = control.server->shard[0];
	for (unsigned round = 0; round < 2; round++) {
		unsigned refused = 0;
		assert_int_equal(loop_post(control.server->control, control_hold, NULL), 0);
		sem_wait(&control.reached);
		for (unsigned i = 0; i < LOST; i++)
			refused += shard->opt.lost(shard->opt.arg, shard) != 0;
		refused += loop_post(control.server->control, control_look, NULL) != 0;
		sem_post(&control.go);
		assert_int_equal(refused, 0);
		sem_wait(&control.reached); /* behind what the shard asked for */
		assert_false(atomic_load(&control.server->lost_told));
	}
	kvs_server_destroy(&control.server);
	sem_destroy(&control.reached);
	sem_destroy(&control.go);
}

/* ---- handshakes that wait for their turn to compute ---- */

static void gate_shut(void *arg)
{
	struct kvs_server *s = arg;
	s->boot->gate.next = UINT64_MAX;
}

static void gate_open(void *arg)
{
	struct kvs_server *s = arg;
	s->boot->gate.next = 0;
}

/* The first bytes of a TLS record: they are the server's to look at, when its turn comes. */
static void many_begin(int *fd, unsigned n)
{
	static const char begun[] = {0x16, 3, 1, 2, 0, 1};
	for (unsigned i = 0; i < n; i++)
		fd[i] = raw(begun, sizeof(begun));
}

/* While nobody's turn comes those who wait for it can be cut, and leave their places. */
static void waiting_body(void)
{
	int fd[20];
	struct kvs_options o = server_options();
	struct boot_security with = {.psk = psk};
	struct boot_context *right = NULL, *plain = ctx;
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg m;
	uint64_t until;
	o.psk = psk;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	expect(boot_context_create(&with, false, &sink, &right, NULL) == 0);
	server = own;
	ctx = right;
	expect(loop_post(own->control, gate_shut, own) == 0);
	own->handshakes_max = 4;
	many_begin(fd, KV_COUNT(fd));
	until = soon();
	while (control_stat(WIRE_STAT_HANDSHAKES) < KV_COUNT(fd) && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	expect(control_stat(WIRE_STAT_HANDSHAKES) == KV_COUNT(fd)); /* each had a place */
	expect(control_stat(WIRE_STAT_HANDSHAKES_TIMED_OUT) == 0);
	expect(loop_post(own->control, gate_open, own) == 0);
	own->handshakes_max = HANDSHAKES_MAX;
	leave(greet(&m));
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		io_close(loop, fd[i]);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 0));
	server = shared;
	ctx = plain;
	kvs_server_destroy(&own);
	boot_context_destroy(&right);
}

static void who_waits_to_compute_can_be_cut(void **state)
{
	(void)state;
	in_coroutine(waiting_body);
}

/* ---- loops of the caller ---- */

static void turn_until(struct kvs_server *s, struct loop **loops, enum kvs_state want)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (kvs_server_state(s, NULL) != want) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		for (unsigned i = 0; i <= SHARDS; i++)
			loop_turn(loops[i], 0);
	}
}

static void a_server_lives_on_loops_of_the_caller(void **state)
{
	(void)state;
	struct loop_options lo = {.log = &sink};
	struct kvs_options o = server_options();
	struct loop *loops[1 + SHARDS];
	struct kvs_server *s;
	struct kv_error err;
	for (unsigned i = 0; i <= SHARDS; i++)
		assert_int_equal(loop_create(&lo, &loops[i], &err), 0);
	o.loops = loops;
	assert_int_equal(kvs_server_create(&o, &s, &err), 0);
	assert_int_equal(kvs_server_state(s, NULL), KVS_CREATED);
	assert_int_equal(kvs_server_start(s, &err), 0);
	turn_until(s, loops, KVS_RUNNING);
	assert_true(kvs_server_port(s) != 0);
	kvs_server_stop(s, 0);
	turn_until(s, loops, KVS_STOPPED);
	kvs_server_destroy(&s);
	for (unsigned i = 0; i <= SHARDS; i++)
		loop_destroy(&loops[i]);
}

/* ---- the group ---- */

static int group_up(void **state)
{
	const struct kvs_options o = server_options();
	(void)state;
	talk_up(&o);
	return 0;
}

static int group_down(void **state)
{
	(void)state;
	talk_down();
	return 0;
}

/* ---- further sessions ---- */

#define KEY_A "00112233445566778899aabbccddeeff"

static struct boot_challenge challenge; /* of the connection of `begin` */

/* Say hello and ask for the challenge. */
static struct boot_conn *begin(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME && (m.welcome.flags & WIRE_WELCOME_SESSIONS));
	memcpy(challenge.token, m.welcome.token, KV_TOKEN_LEN);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_BEGIN};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_SESSION_CHALLENGE);
	memcpy(challenge.nonce, m.session_challenge.nonce, WIRE_NONCE_LEN);
	return c;
}

static struct wire_ctrl_msg question(struct boot_conn *c, uint32_t id, const char *key)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_OPEN, .session_open = {.id = id, .client_id = 5}};
	struct boot_key *k = NULL;
	if (key)
		expect(boot_key_parse(key, &k, NULL) == 0);
	expect(boot_prove(c, &challenge, k, &m.session_open) == 0);
	boot_key_destroy(&k);
	return m;
}

static struct wire_ctrl_msg asked(struct boot_conn *c, struct wire_ctrl_msg m)
{
	uint32_t id = m.session_open.id;
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0);
	expect(m.type == WIRE_CTRL_SESSION_OK ? m.session_ok.id == id
					      : m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.id == id);
	return m;
}

static struct wire_ctrl_msg open_one(struct boot_conn *c, uint32_t id)
{
	return asked(c, question(c, id, NULL));
}

static void close_one(struct boot_conn *c, uint32_t number)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_CLOSE, .session_close.session = number};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_SESSION_CLOSE_OK && m.session_close.session == number &&
	       m.session_close.requests == 0);
}

static void further_body(void)
{
	struct boot_conn *c = begin();
	struct wire_ctrl_msg one = open_one(c, 1), two = open_one(c, 2), again;
	uint64_t opened = control_stat(WIRE_STAT_SESSIONS_OPENED);
	expect(one.type == WIRE_CTRL_SESSION_OK && two.type == WIRE_CTRL_SESSION_OK);
	expect(one.session_ok.session != two.session_ok.session);
	expect(one.session_ok.credits == KVS_CREDITS_DEFAULT / OWNER_CREDITS_SHARE);
	close_one(c, one.session_ok.session);
	close_one(c, one.session_ok.session); /* it is not there: answered like one without requests */
	again = open_one(c, 3);               /* the same place, another number */
	expect(again.type == WIRE_CTRL_SESSION_OK && again.session_ok.session != one.session_ok.session);
	expect(control_stat(WIRE_STAT_SESSIONS_OPENED) == opened + 1);
	leave(c);
}

static void further_sessions_open_and_close(void **state)
{
	(void)state;
	in_coroutine(further_body);
}

/* CLIENTS of 4 in all, 2 of them on one connection; and room again when one goes, or its connection. */
static void further_full_body(void)
{
	struct boot_conn *a = begin(), *b;
	struct wire_ctrl_msg m, first = open_one(a, 1);
	expect(first.type == WIRE_CTRL_SESSION_OK);
	expect(open_one(a, 2).type == WIRE_CTRL_SESSION_OK);
	m = open_one(a, 3);
	expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_FULL &&
	       strstr(m.session_refuse.text, "--max-sessions"));
	b = begin();
	m = open_one(b, 1);
	expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_FULL &&
	       strstr(m.session_refuse.text, "--max-clients"));
	boot_close(&b);
	b = greet(&m); /* (that one may not be gone yet) */
	for (unsigned i = 0; m.type != WIRE_CTRL_WELCOME && i < 1000; i++) {
		boot_close(&b);
		co_sleep_await(loop_now(loop) + 10000000);
		b = greet(&m);
	}
	leave(b);
	close_one(a, first.session_ok.session);
	leave(a);
	/* All of them are free again. */
	for (unsigned i = 0; i < 1000 && server->open; i++)
		co_sleep_await(loop_now(loop) + 10000000);
	expect(server->open == 0);
}

static void further_sessions_count_as_clients_and_are_bounded(void **state)
{
	(void)state;
	in_coroutine(further_full_body);
}

/* A response that was good on one connection, sent on another, and twice on its own. */
/* Further sessions go with their attachment, and count no more. Wrong proofs count on. */
static void further_again_body(void)
{
	struct wire_ctrl_msg m, welcome = {0}, h = hello_make(te);
	struct boot_conn *c = begin();
	expect(open_one(c, 1).type == WIRE_CTRL_SESSION_OK && open_one(c, 2).type == WIRE_CTRL_SESSION_OK);
	expect(atomic_load(&server->open) == 3);
	expect(boot_send_await(c, &h, soon()) == 0 && next(c, &welcome) == 0 && welcome.type == WIRE_CTRL_WELCOME);
	expect(atomic_load(&server->open) == 1);
	m = question(c, 3, NULL);
	for (unsigned i = 0; i < 5; i++) {
		m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_BEGIN};
		expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == 0 &&
		       m.type == WIRE_CTRL_SESSION_CHALLENGE);
		m = asked(c, question(c, 1, NULL)); /* by the first attachment's token and nonce */
		expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_DENIED);
		if (i < 4)
			expect(boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	}
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	expect(open_becomes(0));
}

static void further_sessions_end_with_their_attachment(void **state)
{
	(void)state;
	in_coroutine(further_again_body);
}

static void replay_body(void)
{
	struct boot_conn *a = begin(), *b;
	struct wire_ctrl_msg m = question(a, 7, NULL), answer;
	uint64_t bad = control_stat(WIRE_STAT_BAD_CONTROL), refused = control_stat(WIRE_STAT_SESSIONS_REFUSED);
	expect(asked(a, m).type == WIRE_CTRL_SESSION_OK);
	answer = asked(a, m);
	expect(answer.type == WIRE_CTRL_SESSION_REFUSE && answer.session_refuse.status == WIRE_INVALID);
	expect(control_stat(WIRE_STAT_BAD_CONTROL) == bad + 1);
	b = begin();
	answer = asked(b, m);
	expect(answer.type == WIRE_CTRL_SESSION_REFUSE && answer.session_refuse.status == WIRE_DENIED);
	expect(control_stat(WIRE_STAT_SESSIONS_REFUSED) == refused + 2);
	leave(a);
	leave(b);
}

static void a_response_is_good_once_on_its_connection(void **state)
{
	(void)state;
	in_coroutine(replay_body);
}

/* Each answer comes later, and the fifth is the last. */
static void guess_body(void)
{
	struct boot_conn *c = begin();
	struct wire_ctrl_msg m;
	uint64_t from = loop_now(loop);
	for (unsigned i = 1; i <= 5; i++) {
		m = question(c, i, NULL);
		m.session_open.proof[i] ^= 1;
		m = asked(c, m);
		expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_DENIED &&
		       strstr(m.session_refuse.text, "--session-keys"));
	}
	expect(loop_now(loop) - from >=
	       3100 * 1000000ull); /* 100 + 200 + 400 + 800 + 1600 ms: waits of the server's, no measurement */
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
}

static void who_guesses_waits_and_is_cut(void **state)
{
	(void)state;
	in_coroutine(guess_body);
}

static void rude_further_body(void)
{
	static const enum wire_ctrl answers[] = {WIRE_CTRL_SESSION_CHALLENGE, WIRE_CTRL_SESSION_OK,
						 WIRE_CTRL_SESSION_REFUSE, WIRE_CTRL_SESSION_CLOSE_OK};
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	/* A question before the challenge. */
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_OPEN, .session_open.id = 1};
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	/* Two challenges. */
	c = begin();
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_BEGIN};
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	/* What only a server says. */
	for (unsigned i = 0; i < KV_COUNT(answers); i++) {
		c = greet(&m);
		memset(&m, 0, sizeof(m));
		m.type = answers[i];
		if (m.type == WIRE_CTRL_SESSION_OK)
			m.session_ok = (struct wire_session_ok){.id = 1, .session = 1, .credits = 1};
		else if (m.type == WIRE_CTRL_SESSION_REFUSE)
			m.session_refuse = (struct wire_session_refuse){.id = 1, .status = WIRE_FULL};
		else if (m.type == WIRE_CTRL_SESSION_CLOSE_OK)
			m.session_close.session = 1;
		expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == -KV_EPEERDOWN);
		boot_close(&c);
	}
}

static void nonsense_about_sessions_ends_the_connection(void **state)
{
	(void)state;
	in_coroutine(rude_further_body);
}

/* Questions that nobody waits for the answers of, of one who then vanishes: nothing of them is left. */
static void flood_body(void)
{
	struct boot_conn *c = begin();
	for (uint32_t i = 1; i <= 500; i++) {
		struct wire_ctrl_msg m = question(c, i, NULL);
		expect(boot_send_await(c, &m, soon()) == 0);
	}
	boot_close(&c);
	for (unsigned i = 0; i < 1000 && server->open; i++)
		co_sleep_await(loop_now(loop) + 10000000);
	expect(server->open == 0);
	c = begin();
	expect(open_one(c, 1).type == WIRE_CTRL_SESSION_OK);
	leave(c);
}

static void a_flood_of_questions_leaves_nothing(void **state)
{
	(void)state;
	in_coroutine(flood_body);
}

static char keys_path[] = "/tmp/kvrail-session-keys-XXXXXX";

static void keys_body(void)
{
	struct boot_conn *c = begin();
	struct wire_ctrl_msg m = asked(c, question(c, 1, "team-a:" KEY_A));
	expect(m.type == WIRE_CTRL_SESSION_OK);
	m = asked(c, question(c, 2, "team-b:" KEY_A));
	expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_DENIED);
	expect(open_one(c, 3).type == WIRE_CTRL_SESSION_OK); /* the connection's own secret goes on being enough */
	leave(c);
}

static void identities_have_keys_of_their_own(void **state)
{
	static const char text[] = "team-a:" KEY_A "\n";
	struct kvs_options o = server_options();
	struct kvs_server *shared = server, *own = NULL;
	int fd = mkstemp(keys_path);
	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	o.session_keys = keys_path;
	assert_int_equal(kvs_server_create(&o, &own, NULL), 0);
	assert_int_equal(kvs_server_start(own, NULL), 0);
	server = own;
	in_coroutine_untold(keys_body);
	server = shared;
	kvs_server_destroy(&own);
	unlink(keys_path);
	o.session_keys = keys_path;
	assert_true(kvs_server_create(&o, &own, NULL) < 0); /* the file is gone */
	told();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(further_sessions_open_and_close),
		cmocka_unit_test(further_sessions_count_as_clients_and_are_bounded),
		cmocka_unit_test(a_response_is_good_once_on_its_connection),
		cmocka_unit_test(who_guesses_waits_and_is_cut),
		cmocka_unit_test(nonsense_about_sessions_ends_the_connection),
		cmocka_unit_test(a_flood_of_questions_leaves_nothing),
		cmocka_unit_test(identities_have_keys_of_their_own),
		cmocka_unit_test(a_client_is_welcomed_with_all_addresses),
		cmocka_unit_test(another_provider_is_refused_with_a_sentence),
		cmocka_unit_test(another_protocol_version_is_refused),
		cmocka_unit_test(without_a_hello_the_connection_ends),
		cmocka_unit_test(a_full_server_says_so_and_has_room_again_later),
		cmocka_unit_test(the_limit_of_open_files_is_shared_out),
		cmocka_unit_test(a_client_takes_files_of_each_shard),
		cmocka_unit_test(a_client_that_the_files_have_no_room_for_is_told_so),
		cmocka_unit_test(without_a_descriptor_accept_waits_and_goes_on),
		cmocka_unit_test(silent_connections_do_not_keep_others_out),
		cmocka_unit_test(an_address_that_talks_a_lot_keeps_nobody_else_out),
		cmocka_unit_test(regions_are_acknowledged_and_revoked),
		cmocka_unit_test(the_number_of_regions_is_bounded),
		cmocka_unit_test(heartbeats_count_on),
		cmocka_unit_test(new_addresses_are_acknowledged),
		cmocka_unit_test(nonsense_on_the_control_connection_is_counted),
		cmocka_unit_test(what_stalls_and_what_does_not_read_is_cut_and_counted),
		cmocka_unit_test(silent_connections_take_no_handshakes_turn),
		cmocka_unit_test(connections_that_have_left_take_no_handshakes_turn),
		cmocka_unit_test(a_client_that_dies_after_revoke_or_goodbye_is_ended),
		cmocka_unit_test(after_a_reset_clients_come_back_for_new_addresses),
		cmocka_unit_test(hello_again_makes_another_attachment),
		cmocka_unit_test(hellos_are_answered_in_order),
		cmocka_unit_test(what_was_asked_before_hello_is_void),
		cmocka_unit_test(welcome_waits_for_what_may_still_be_written_there),
		cmocka_unit_test(what_a_client_that_is_back_does_not_take_is_cut),
		cmocka_unit_test(only_what_hello_names_is_waited_for),
		cmocka_unit_test(a_client_that_comes_back_is_not_one_more),
		cmocka_unit_test(the_attachments_that_are_ending_are_bounded),
		cmocka_unit_test(a_client_that_dies_while_its_hello_waits_is_ended),
		cmocka_unit_test(hellos_of_a_connection_are_bounded_in_time),
		cmocka_unit_test(after_address_hello_again_keeps_the_connection),
		cmocka_unit_test(a_server_that_ends_refuses_hello_again),
		cmocka_unit_test(further_sessions_end_with_their_attachment),
		cmocka_unit_test(a_server_with_a_client_stops),
		cmocka_unit_test(a_port_in_use_is_said),
		cmocka_unit_test(prefaulted_memory_is_resident),
		cmocka_unit_test(an_open_door_is_refused),
		cmocka_unit_test(more_memory_than_there_is_is_refused),
		cmocka_unit_test(a_provider_that_is_not_there_is_refused),
		cmocka_unit_test(too_little_memory_is_refused),
		cmocka_unit_test(a_pre_shared_key_is_asked_for),
		cmocka_unit_test(lost_sessions_are_looked_for_together),
		cmocka_unit_test(who_waits_to_compute_can_be_cut),
		cmocka_unit_test(a_server_lives_on_loops_of_the_caller),
	};
	return cmocka_run_group_tests_name("kvserver/server", tests, group_up, group_down);
}
