/* SPDX-License-Identifier: Apache-2.0 */
/* test_local_socket.c -- the Unix socket of a server: who gets its memory over it, and what strangers there can do. */
#include "tests/kvserver/control.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "kvserver/server/server.h"
#include "local/local.h"

/* ---- a client ---- */

struct local_client {
	struct boot_conn *conn;
	struct wire_ctrl_msg welcome, local;
	int fd;
	struct local_shard part[SHARDS];
	struct local_channel *channel[SHARDS];
};

static struct wire_ctrl_msg ask(void)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_LOCAL_ASK};
	kv_boot_id(m.local.boot_id);
	return m;
}

/* Ask, and get the answer. */
static void asked(struct local_client *c)
{
	struct wire_ctrl_msg m = ask();
	c->conn = greet(&c->welcome);
	expect(c->welcome.type == WIRE_CTRL_WELCOME && c->welcome.welcome.flags & WIRE_WELCOME_LOCAL);
	expect(boot_send_await(c->conn, &m, soon()) == 0);
	expect(next(c->conn, &c->local) == 0 && c->local.type == WIRE_CTRL_LOCAL);
}

/* Take all, but do not say so. */
static void received(struct local_client *c)
{
	struct kv_error err;
	expect(c->local.local.status == WIRE_OK);
	expect(local_connect_await(c->local.local.name, c->local.local.nonce, &c->fd, soon()) == 0);
	for (unsigned i = 0; i < SHARDS && talk_ok(); i++) {
		expect(local_take_await(c->fd, &c->part[i], soon()) == 0);
		expect(c->part[i].shard == i && c->part[i].shards == SHARDS);
		expect(local_channel_open(&c->part[i], &c->channel[i], &err) == 0);
	}
}

static void taken(struct local_client *c)
{
	received(c);
	expect(local_ready_send_await(c->fd, soon()) == 0);
}

static void gone(struct local_client *c)
{
	io_close(loop, c->fd);
	for (unsigned i = 0; i < SHARDS; i++) {
		local_channel_close(&c->channel[i]);
		close(c->part[i].fd[LOCAL_ARENA]);
		close(c->part[i].fd[LOCAL_LANDING]);
	}
}

/* Whether the server has this many local clients soon. */
static bool locals_become(unsigned want)
{
	uint64_t until = soon();
	while (atomic_load(&server->locals.count) != want && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	return atomic_load(&server->locals.count) == want;
}

/* Whether the server closes this socket without a word. */
static bool closed_at_once(int fd)
{
	char byte;
	return io_read_await(fd, &byte, 1, soon()) <= 0;
}

static void client_body(void)
{
	struct local_client c;
	void *arena, *landing;
	struct kv_error err;
	asked(&c);
	taken(&c);
	if (!talk_ok())
		return;
	expect(locals_become(1));
	for (unsigned i = 0; i < SHARDS; i++) {
		expect(c.part[i].arena_bytes >= (16 << 20) / SHARDS);
		expect(local_map(c.part[i].fd[LOCAL_ARENA], c.part[i].arena_bytes, false, &arena, &err) == 0);
		expect(local_map(c.part[i].fd[LOCAL_ARENA], c.part[i].arena_bytes, true, &landing, &err) != 0);
		expect(c.part[i].landing_bytes > 0);
		expect(local_map(c.part[i].fd[LOCAL_LANDING], c.part[i].landing_bytes, true, &landing, &err) == 0);
		local_unmap(arena, c.part[i].arena_bytes);
		local_unmap(landing, c.part[i].landing_bytes);
	}
	/* The socket outlives the attachment ... */
	leave(c.conn);
	co_sleep_await(loop_now(loop) + 50000000);
	expect(locals_become(1));
	gone(&c);
	/* ... and ends by itself. */
	expect(locals_become(0));
}

static void a_client_gets_the_memory_of_all_shards(void **state)
{
	(void)state;
	in_coroutine(client_body);
}

static void other_kernel_body(void)
{
	struct wire_ctrl_msg m = ask();
	struct wire_ctrl_msg answer;
	struct boot_conn *c = greet(&answer);
	m.local.boot_id[3] ^= 1;
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &answer) == 0 && answer.type == WIRE_CTRL_LOCAL);
	expect(answer.local.status == WIRE_DENIED && strstr(answer.local.text, "kernel") && !answer.local.name[0]);
	expect(ask_region(c, 1, 4096) == WIRE_OK); /* all else goes on */
	leave(c);
}

static void a_client_of_another_kernel_is_refused(void **state)
{
	(void)state;
	in_coroutine(other_kernel_body);
}

static void twice_body(void)
{
	struct local_client c;
	struct wire_ctrl_msg m = ask();
	asked(&c);
	expect(boot_send_await(c.conn, &m, soon()) == 0);
	expect(next(c.conn, &m) != 0);
	boot_close(&c.conn);
}

static void asking_twice_ends_the_connection(void **state)
{
	(void)state;
	in_coroutine(twice_body);
}

static int stranger(const struct local_client *c, const uint8_t *nonce)
{
	int fd = -1;
	expect(local_connect_await(c->local.local.name, nonce, &fd, soon()) == 0);
	return fd;
}

static void nonce_body(void)
{
	struct local_client c, other;
	uint8_t wrong[LOCAL_NONCE_LEN] = {0};
	uint64_t strangers = control_stat(WIRE_STAT_LOCAL_STRANGERS);
	int fd;
	asked(&c);
	asked(&other);
	expect(memcmp(c.local.local.nonce, other.local.local.nonce, LOCAL_NONCE_LEN) != 0);
	/* Zeros, which no offer has, and another one. */
	fd = stranger(&c, wrong);
	expect(closed_at_once(fd));
	io_close(loop, fd);
	memcpy(wrong, c.local.local.nonce, LOCAL_NONCE_LEN);
	wrong[LOCAL_NONCE_LEN - 1] ^= 1;
	fd = stranger(&c, wrong);
	expect(closed_at_once(fd));
	io_close(loop, fd);
	/* Used twice. */
	taken(&c);
	fd = stranger(&c, c.local.local.nonce);
	expect(closed_at_once(fd));
	io_close(loop, fd);
	/* Of an attachment that has ended. */
	leave(other.conn);
	fd = stranger(&c, other.local.local.nonce);
	expect(closed_at_once(fd));
	io_close(loop, fd);
	expect(becomes(WIRE_STAT_LOCAL_STRANGERS, strangers + 4));
	expect(locals_become(1));
	leave(c.conn);
	gone(&c);
	expect(locals_become(0));
}

static void a_nonce_is_good_for_one_socket_of_its_attachment(void **state)
{
	(void)state;
	in_coroutine(nonce_body);
}

/* A second HELLO makes another attachment: the former one's nonce is worth nothing. */
static void again_body(void)
{
	struct local_client c;
	struct wire_ctrl_msg m;
	int fd;
	asked(&c);
	m = c.welcome;
	again(c.conn, &m);
	expect(m.type == WIRE_CTRL_WELCOME);
	fd = stranger(&c, c.local.local.nonce);
	expect(closed_at_once(fd));
	io_close(loop, fd);
	m = ask();
	expect(boot_send_await(c.conn, &m, soon()) == 0);
	expect(next(c.conn, &c.local) == 0 && c.local.type == WIRE_CTRL_LOCAL);
	taken(&c);
	expect(locals_become(1));
	leave(c.conn);
	gone(&c);
	expect(locals_become(0));
}

static void a_nonce_ends_with_its_attachment(void **state)
{
	(void)state;
	in_coroutine(again_body);
}

/* Thousands connect and say nothing, or something: a few have a place at a time, and a client still comes in. */
static void flood_body(void)
{
	enum { AT_ONCE = 64, ROUNDS = 40 };
	struct local_client c;
	int fd[AT_ONCE];
	asked(&c);
	for (unsigned round = 0; round < ROUNDS && talk_ok(); round++) {
		for (unsigned i = 0; i < AT_ONCE; i++) {
			struct sockaddr_un a = {.sun_family = AF_UNIX};
			size_t len = strlen(c.local.local.name);
			fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
			memcpy(a.sun_path + 1, c.local.local.name + 1, len - 1);
			(void)!connect(fd[i], (const struct sockaddr *)&a,
				       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
			if (i % 2)
				(void)!write(fd[i], "0123456789", i % 11);
		}
		expect(atomic_load(&server->locals.stranger_count) <= LOCAL_STRANGERS_MAX);
		co_sleep_await(loop_now(loop) + 2000000);
		expect(atomic_load(&server->locals.stranger_count) <= LOCAL_STRANGERS_MAX);
		for (unsigned i = 0; i < AT_ONCE; i++)
			close(fd[i]);
	}
	leave(c.conn);
	asked(&c);
	taken(&c);
	expect(locals_become(1));
	leave(c.conn);
	gone(&c);
	expect(locals_become(0));
}

static void strangers_are_few_and_harmless(void **state)
{
	(void)state;
	in_coroutine(flood_body);
}

/* Its client never takes the descriptors. */
static void deaf_body(void)
{
	struct local_client c;
	asked(&c);
	c.fd = stranger(&c, c.local.local.nonce);
	expect(locals_become(1));
	io_close(loop, c.fd);
	expect(locals_become(0));
	boot_close(&c.conn);
}

static void a_client_leaves_before_it_has_taken_anything(void **state)
{
	(void)state;
	in_coroutine(deaf_body);
}

/* It cannot map all of it, and closes; or it says nothing, or nonsense: then the server closes. The attachment stays.
 */
static void unready_body(void)
{
	struct local_client c;
	for (unsigned i = 0; i < 3; i++) {
		asked(&c);
		received(&c);
		expect(locals_become(1));
		if (i == 0)
			io_shutdown(loop, c.fd);
		else if (i == 1)
			expect(write(c.fd, "x", 1) == 1);
		expect(locals_become(0));
		expect(closed_at_once(c.fd));
		gone(&c);
		expect(ask_region(c.conn, 1, 4096) == WIRE_OK);
		co_sleep_await(loop_now(loop) + 300000000); /* several ticks: a lost attachment would be told */
		expect(ask_region(c.conn, 2, 4096) == WIRE_OK);
		leave(c.conn);
	}
}

static void a_client_that_maps_nothing_keeps_its_attachment(void **state)
{
	(void)state;
	in_coroutine(unready_body);
}

/* All but `left` descriptors of this process are taken, up to `room` of them. Returns how many were. */
static unsigned files_take(int *taken, unsigned room, unsigned left)
{
	struct rlimit few;
	unsigned n = 0;
	expect(getrlimit(RLIMIT_NOFILE, &few) == 0);
	few.rlim_cur = KV_MIN(few.rlim_cur, (rlim_t)room);
	expect(setrlimit(RLIMIT_NOFILE, &few) == 0);
	while (n < room && (taken[n] = dup(0)) >= 0)
		n++;
	expect(n > left && n < room);
	while (left-- > 0 && n > 0)
		close(taken[--n]);
	return n;
}

/* The client lets the descriptors go that it receives. */
static void few_files_body(void)
{
	enum { SOCKETS = 2, BELLS = SHARDS, OF_A_SHARD = 3 }; /* besides its bell, until it is passed */
	static int taken[1 << 12];
	struct rlimit all;
	struct local_client c;
	uint8_t message[256];
	unsigned n;
	asked(&c);
	expect(getrlimit(RLIMIT_NOFILE, &all) == 0);
	n = files_take(taken, KV_COUNT(taken), SOCKETS + BELLS + OF_A_SHARD);
	c.fd = stranger(&c, c.local.local.nonce);
	for (unsigned i = 0; i < SHARDS; i++)
		expect(io_read_await(c.fd, message, sizeof(message), soon()) > 0);
	while (n > 0)
		close(taken[--n]);
	setrlimit(RLIMIT_NOFILE, &all);
	io_close(loop, c.fd);
	expect(locals_become(0));
	leave(c.conn);
}

/* Clients that come back at the same time must not take the descriptors of all others. */
static void a_server_passes_one_shard_at_a_time(void **state)
{
	(void)state;
	in_coroutine(few_files_body);
}

static void with_options(const struct kvs_options *o, void (*run)(void))
{
	talk_up(o);
	in_coroutine_untold(run);
	talk_down();
	told();
}

/* The one place is that of a client which has begun a new attachment and holds no lease: the new one gets it. */
static void place_body(void)
{
	struct local_client c, other;
	struct wire_ctrl_msg m;
	uint64_t until;
	atomic_store(&server->locals.max, 1);
	asked(&c);
	taken(&c);
	expect(locals_become(1));
	asked(&other);
	expect(other.local.local.status == WIRE_BUSY);
	m = c.welcome;
	again(c.conn, &m);
	expect(m.type == WIRE_CTRL_WELCOME);
	leave(other.conn);
	until = soon();
	do { /* the shards let go of the former attachment first */
		asked(&other);
		leave(other.conn);
	} while (other.local.local.status != WIRE_OK && loop_now(loop) < until);
	expect(other.local.local.status == WIRE_OK);
	expect(locals_become(0));
	expect(closed_at_once(c.fd));
	leave(c.conn);
	gone(&c);
}

static void a_place_that_is_of_no_use_is_given_away(void **state)
{
	const struct kvs_options o = server_options();
	(void)state;
	with_options(&o, place_body);
}

/* ---- servers of other options ---- */

static void off_body(void)
{
	struct wire_ctrl_msg m, answer;
	struct boot_conn *c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME && !(m.welcome.flags & WIRE_WELCOME_LOCAL));
	answer = ask();
	expect(boot_send_await(c, &answer, soon()) == 0);
	expect(next(c, &answer) != 0);
	boot_close(&c);
}

static void a_server_that_shares_nothing_offers_nothing(void **state)
{
	struct kvs_options o = server_options();
	(void)state;
	o.local_off = true;
	with_options(&o, off_body);
	o.local_off = false;
	o.arena_private = true;
	with_options(&o, off_body);
}

static char path[64];

static void path_body(void)
{
	struct local_client c;
	struct stat st;
	expect(stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0666);
	asked(&c);
	expect(strcmp(c.local.local.name, path) == 0);
	taken(&c);
	leave(c.conn);
	gone(&c);
}

static void a_path_reaches_other_containers(void **state)
{
	struct kvs_options o = server_options();
	struct stat st;
	(void)state;
	snprintf(path, sizeof(path), "/tmp/kvrail-test-%d.sock", (int)getpid());
	o.local_socket = path;
	with_options(&o, path_body);
	assert_int_equal(stat(path, &st), -1);
}

/* One clear sentence, and nothing is left behind. */
static void a_socket_that_cannot_be_made_stops_the_start(void **state)
{
	struct kvs_options o = server_options();
	struct kvs_server *s;
	struct kv_error err = {0};
	(void)state;
	o.local_socket = "/no/such/folder/kv.sock";
	assert_int_equal(kvs_server_create(&o, &s, &err), 0);
	assert_int_not_equal(kvs_server_start(s, &err), 0);
	check_contains(err.text, "/no/such/folder/kv.sock");
	check_contains(err.text, "--local off");
	kvs_server_destroy(&s);
	o.arena_private = true;
	assert_int_equal(kvs_server_create(&o, &s, &err), -KV_EINVAL);
	check_contains(err.text, "--local-socket");
}

/* A client that holds its socket does not keep a server from its end. */
static struct local_client holder;

static void hold_body(void)
{
	asked(&holder);
	taken(&holder);
	expect(locals_become(1));
}

static void a_server_ends_while_a_client_holds_its_socket(void **state)
{
	const struct kvs_options o = server_options();
	char byte;
	(void)state;
	talk_up(&o);
	in_coroutine_untold(hold_body);
	kvs_server_stop(server, 0);
	assert_int_equal(recv(holder.fd, &byte, 1, MSG_DONTWAIT), 0);
	boot_close(&holder.conn);
	gone(&holder);
	talk_down();
	told();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_gets_the_memory_of_all_shards),
		cmocka_unit_test(a_client_of_another_kernel_is_refused),
		cmocka_unit_test(asking_twice_ends_the_connection),
		cmocka_unit_test(a_nonce_is_good_for_one_socket_of_its_attachment),
		cmocka_unit_test(a_nonce_ends_with_its_attachment),
		cmocka_unit_test(strangers_are_few_and_harmless),
		cmocka_unit_test(a_client_leaves_before_it_has_taken_anything),
		cmocka_unit_test(a_client_that_maps_nothing_keeps_its_attachment),
		cmocka_unit_test(a_server_passes_one_shard_at_a_time),
	};
	const struct CMUnitTest others[] = {
		cmocka_unit_test(a_place_that_is_of_no_use_is_given_away),
		cmocka_unit_test(a_server_that_shares_nothing_offers_nothing),
		cmocka_unit_test(a_path_reaches_other_containers),
		cmocka_unit_test(a_socket_that_cannot_be_made_stops_the_start),
		cmocka_unit_test(a_server_ends_while_a_client_holds_its_socket),
	};
	return cmocka_run_group_tests(tests, group_up, group_down) + cmocka_run_group_tests(others, NULL, NULL);
}
