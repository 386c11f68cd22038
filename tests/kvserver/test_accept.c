/* SPDX-License-Identifier: Apache-2.0 */
/* test_accept.c -- which connection gets a place: the limits of clients and open files, connections that say nothing,
 * and handshakes that wait for their turn. */
#include "tests/kvserver/control.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bootstrap/context.h"
#include "host/host.h"
#include "kvserver/server/private.h"
#include "kvserver/server/server.h"

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
	/* A client that just vanishes makes room as well as one that says goodbye. */
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

static struct boot_conn *greet_as(uint64_t client_id, struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg h = hello_make(te);
	struct boot_conn *c = dial(server, ctx);
	expect(c != NULL);
	if (!c)
		return NULL;
	h.hello.client_id = client_id;
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, m) == 0);
	return c;
}

static void cluster_body(void)
{
	struct boot_conn *c[CLIENTS], *more[CLUSTER_PLACES + 1];
	struct wire_ctrl_msg m;
	for (unsigned i = 0; i < CLIENTS; i++) {
		c[i] = greet(&m);
		expect(m.type == WIRE_CTRL_WELCOME);
	}
	for (unsigned i = 0; i < CLUSTER_PLACES; i++) {
		more[i] = greet_as(KV_CLUSTER_CLIENT + i, &m);
		expect(m.type == WIRE_CTRL_WELCOME);
	}
	more[CLUSTER_PLACES] = greet_as(KV_CLUSTER_CLIENT + KV_CLUSTER_CLIENTS - 1, &m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL);
	boot_close(&more[CLUSTER_PLACES]);
	/* A place that one of them leaves is none for others. */
	leave(more[0]);
	expect(open_becomes(CLIENTS + CLUSTER_PLACES - 1));
	more[0] = greet_as(KV_CLUSTER_CLIENT - 1, &m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL);
	boot_close(&more[0]);
	more[0] = greet_as(KV_CLUSTER_CLIENT + KV_CLUSTER_CLIENTS, &m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL);
	boot_close(&more[0]);
	for (unsigned i = 1; i < CLUSTER_PLACES; i++)
		leave(more[i]);
	for (unsigned i = 0; i < CLIENTS; i++)
		leave(c[i]);
	expect(open_becomes(0));
}

/* A server that hands over, and kv-client. */
static void a_full_server_has_places_for_the_cluster(void **state)
{
	(void)state;
	in_coroutine(cluster_body);
}

/* ---- the limit of open files ---- */

static void the_limit_of_open_files_is_shared_out(void **state)
{
	(void)state;
	struct client_limit f = {.limit = 1024, .open = 40, .handshakes = 256, .client = 4};
	client_limit_divide(&f, 256);
	assert_int_equal(f.clients, (1024 - 40 - 8 - 256 - KV_FILES_RESERVE) / 5 - CLUSTER_PLACES);
	assert_int_equal(f.more, CLUSTER_PLACES);
	assert_int_equal(f.wanted, 40 + 8 + HANDSHAKES_MAX + KV_FILES_RESERVE + (256 + CLUSTER_PLACES) * 5);
	f.limit = f.wanted;
	f.handshakes = HANDSHAKES_MAX;
	client_limit_divide(&f, 256);
	assert_int_equal(f.clients, 256); /* what it asks for is enough ... */
	assert_int_equal(f.more, CLUSTER_PLACES);
	f.limit--;
	client_limit_divide(&f, 256);
	assert_int_equal(f.clients, 255); /* ... and no less is */
	f.limit = KV_NO_LIMIT;
	client_limit_divide(&f, 1 << 18);
	assert_int_equal(f.clients, 1 << 18);
	assert_int_equal(f.more, CLUSTER_PLACES);
	f = (struct client_limit){
		.limit = 1024 + 17 * 5 + 40 + 8 + KV_FILES_RESERVE, .open = 40, .handshakes = 1024, .client = 4};
	client_limit_divide(&f, 256);
	assert_int_equal(f.clients, 15); /* of 17 */
	assert_int_equal(f.more, 2);
	f = (struct client_limit){.limit = 64, .open = 40, .handshakes = 16, .client = 0};
	client_limit_divide(&f, 4);
	assert_int_equal(f.clients, 1);
	assert_int_equal(f.more, 0);
}

/* The engine's part is what a second peer adds: a descriptor or two per shard where connections have sockets. */
static void a_client_takes_files_of_each_shard(void **state)
{
	(void)state;
	struct te_info info;
	te_info(te, &info);
	assert_int_equal(server->clients.limit.client, strstr(info.provider, "ofi_rxm") ? 2 * SHARDS : 0);
	assert_int_equal(server->clients.limit.clients, CLIENTS);
	assert_true(server->clients.limit.open > 3 && server->clients.limit.limit > server->clients.limit.open);
}

static void few_files_body(void)
{
	struct boot_conn *c, *more;
	struct wire_ctrl_msg m;
	unsigned room = server->clients.limit.clients;
	server->clients.limit.clients = 1; /* the server's thread does not read it meanwhile: nobody knocks */
	c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME);
	more = greet(&m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL &&
	       strstr(m.refuse.text, "open files allows") && strstr(m.refuse.text, "ulimit -n"));
	boot_close(&more);
	leave(c);
	server->clients.limit.clients = room;
}

static void a_client_that_the_files_have_no_room_for_is_told_so(void **state)
{
	(void)state;
	in_coroutine(few_files_body);
}

/* Every descriptor of this process, which is also the server's, is taken while a client connects: accept fails, now and
 * then and not all the time, and goes on when there is one. */
static void no_files_body(void)
{
	static int taken[1 << 16];
	struct sockaddr_storage a = server_addr(server);
	struct rlimit all = {0}, few;
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

/* ---- connections that say nothing ---- */

/* More than there are places. */
static void silent_body(void)
{
	static int fd[400];
	struct sockaddr_storage a = server_addr(server);
	struct wire_ctrl_msg m;
	unsigned places = server->strangers.max;
	server->strangers.max = 64; /* read by the server's thread when it accepts */
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		expect(io_connect_await(&a, sizeof(struct sockaddr_in), &fd[i], soon()) == 0);
	leave(greet(&m));
	expect(atomic_load(&server->control_stat[WIRE_STAT_HANDSHAKES_CUT]) >= KV_COUNT(fd) - 300);
	server->strangers.max = places;
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

/* So many that, by patience alone, a client that comes now would wait for longer than it has. */
static void talkers_body(void)
{
	static int fd[400];
	struct wire_ctrl_msg m;
	unsigned places = server->strangers.max;
	server->strangers.max = 16; /* read by the server's thread when it accepts */
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		fd[i] = talker();
	leave(greet(&m));
	server->strangers.max = places;
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		close(fd[i]);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 0));
}

static void an_address_that_talks_a_lot_keeps_nobody_else_out(void **state)
{
	(void)state;
	in_coroutine(talkers_body);
}

/* ---- connections that are cut before they said anything ---- */

static void tokens_take(void *arg)
{
	struct kvs_server *s = arg;
	s->strangers.bucket = (struct bucket){.tokens = -20.0 * HANDSHAKE_RATE, .filled_ns = loop_now(s->control)};
}

static void tokens_give(void *arg)
{
	struct kvs_server *s = arg;
	s->strangers.bucket = (struct bucket){.tokens = HANDSHAKE_BURST, .filled_ns = loop_now(s->control)};
}

static void tokens_look(void *arg)
{
	struct kvs_server *s = server;
	atomic_store((_Atomic int *)arg, s->strangers.bucket.tokens >= -20.0 * HANDSHAKE_RATE ? 1 : -1);
}

static bool tokens_given_back(void)
{
	static _Atomic int answer;
	uint64_t until = soon();
	atomic_store(&answer, 0);
	expect(loop_post(server->control, tokens_look, (void *)&answer) == 0);
	while (atomic_load(&answer) == 0 && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	return atomic_load(&answer) == 1;
}

/* A connection that takes a handshake's turn now waits for 20 s. One that is cut takes none, and leaves its place at
 * once. */
static void cut_body(void)
{
	static int fd[40];
	struct sockaddr_storage a = server_addr(server);
	uint64_t cut = control_stat(WIRE_STAT_HANDSHAKES_CUT), delayed = control_stat(WIRE_STAT_HANDSHAKES_DELAYED);
	unsigned places = server->strangers.max;
	struct wire_ctrl_msg m;
	expect(loop_post(server->control, tokens_take, server) == 0);
	server->strangers.max = 8;
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		expect(io_connect_await(&a, sizeof(struct sockaddr_in), &fd[i], soon()) == 0);
	expect(becomes(WIRE_STAT_HANDSHAKES_CUT, cut + KV_COUNT(fd) - 8)); /* and no more: no place is kept free */
	expect(control_stat(WIRE_STAT_HANDSHAKES_DELAYED) == delayed);
	server->strangers.max = places;
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

/* A connection that has left takes no handshake's turn, and gives back the one that was promised. */
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

/* ---- handshakes that wait for their turn to compute ---- */

static void gate_shut(void *arg)
{
	struct kvs_server *s = arg;
	s->keys.boot->gate.next = UINT64_MAX;
}

static void gate_open(void *arg)
{
	struct kvs_server *s = arg;
	s->keys.boot->gate.next = 0;
}

/* The first bytes of a TLS record: they are the server's to look at, when its turn comes. */
static void many_begin(int *fd, unsigned n)
{
	static const char begun[] = {0x16, 3, 1, 2, 0, 1};
	for (unsigned i = 0; i < n; i++)
		fd[i] = raw(begun, sizeof(begun));
}

/* While no turn comes, handshakes that wait for one can be cut, and leave their places. */
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
	own->strangers.max = 4;
	many_begin(fd, KV_COUNT(fd));
	until = soon();
	while (control_stat(WIRE_STAT_HANDSHAKES) < KV_COUNT(fd) && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	expect(control_stat(WIRE_STAT_HANDSHAKES) == KV_COUNT(fd)); /* each had a place */
	expect(control_stat(WIRE_STAT_HANDSHAKES_TIMED_OUT) == 0);
	expect(loop_post(own->control, gate_open, own) == 0);
	own->strangers.max = HANDSHAKES_MAX;
	leave(greet(&m));
	for (unsigned i = 0; i < KV_COUNT(fd); i++)
		io_close(loop, fd[i]);
	expect(becomes(WIRE_STAT_HANDSHAKES_NOW, 0));
	server = shared;
	ctx = plain;
	kvs_server_destroy(&own);
	boot_context_destroy(&right);
}

static void a_handshake_that_waits_to_compute_can_be_cut(void **state)
{
	(void)state;
	in_coroutine(waiting_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_server_says_so_and_has_room_again_later),
		cmocka_unit_test(a_full_server_has_places_for_the_cluster),
		cmocka_unit_test(the_limit_of_open_files_is_shared_out),
		cmocka_unit_test(a_client_takes_files_of_each_shard),
		cmocka_unit_test(a_client_that_the_files_have_no_room_for_is_told_so),
		cmocka_unit_test(without_a_descriptor_accept_waits_and_goes_on),
		cmocka_unit_test(silent_connections_do_not_keep_others_out),
		cmocka_unit_test(an_address_that_talks_a_lot_keeps_nobody_else_out),
		cmocka_unit_test(silent_connections_take_no_handshakes_turn),
		cmocka_unit_test(connections_that_have_left_take_no_handshakes_turn),
		cmocka_unit_test(a_handshake_that_waits_to_compute_can_be_cut),
	};
	return cmocka_run_group_tests_name("kvserver/accept", tests, group_up, group_down);
}
