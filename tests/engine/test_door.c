/* SPDX-License-Identifier: Apache-2.0 */
/* test_door.c -- the doorkeeper, with an engine on loopback and bare sockets that knock at it: as strangers (127.0.0.66), and from the
 * host of a peer, whose endpoint the engine was told of. */
#include "tests/engine/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/engine/fabric_wire.h"

enum { PEER_PORT = 4242, OTHER_PORT = 4243 };

static const char *over;
static bool rxm;

/* ---- the engine, and who it knows ---- */

static struct sockaddr_in address_of(struct node *n)
{
	struct te_address a;
	struct sockaddr_in in;
	assert_int_equal(te_address(n->te, 0, &a), 0);
	memcpy(&in, a.data, sizeof(in));
	return in;
}

/* A peer whose endpoint is at 127.0.0.1 and this port: nobody listens there, and the engine sends nothing to it. */
static struct te_peer *known(struct node *n, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct te_address a = {.len = sizeof(in)};
	struct te_peer *peer;
	struct kv_error err;
	memcpy(a.data, &in, sizeof(in));
	assert_int_equal(te_peer_open(n->te, &a, 1, &peer, &err), 0);
	return peer;
}

static struct te_stats stats_of(struct node *n)
{
	struct te_stats s;
	te_stats(n->te, &s);
	return s;
}

static uint32_t eager_of(struct node *n)
{
	struct te_info info;
	te_info(n->te, &info);
	return info.eager_bytes;
}

/* ---- who knocks ---- */

static int caller(struct node *n, const char *from)
{
	struct sockaddr_in to = address_of(n), own = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, from, &own.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static bool say(int fd, const void *data, size_t len)
{
	return send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static int caller_asking(struct node *n, const char *from, uint16_t port)
{
	uint8_t p[64];
	int fd = caller(n, from);
	size_t len = lf_request(p, rxm, port, eager_of(n));
	(void)say(fd, p, len); /* it may have been turned away before */
	return fd;
}

/* Whether the engine has ended the connection. */
static bool ended(int fd)
{
	uint8_t p[64];
	ssize_t n = recv(fd, p, sizeof(p), MSG_DONTWAIT | MSG_PEEK);
	return n == 0 || (n < 0 && errno != EAGAIN);
}

static bool answered(int fd)
{
	uint8_t p[2];
	return recv(fd, p, 2, MSG_DONTWAIT | MSG_PEEK) == 2 && p[0] == 3 && p[1] == 1;
}

/* The index by which messages to the engine name the connection: it is in its answer. */
static uint32_t index_of(int fd)
{
	uint8_t p[48] = {0};
	uint32_t index;
	assert_int_equal(recv(fd, p, rxm ? 48 : 40, MSG_DONTWAIT), rxm ? 48 : 40);
	memcpy(&index, p + 32, 4);
	return index;
}

static void open_node(struct node *n)
{
	struct te_options o = {.door = TE_DOOR_REQUIRE};
	struct te_info info;
	node_open(n, over, &o);
	te_info(n->te, &info);
	assert_string_equal(info.no_door, "");
}

/* Two engines that know each other, and a connection that a made. */
struct pair {
	struct node a, b;
	struct te_peer *ab, *ba;
};

static void pair_send(struct pair *p, const char *text, uint64_t messages)
{
	struct result r = {0};
	te_msg_send(p->a.te, p->ab, 0, msg_for(&p->a, &r, text, (uint32_t)strlen(text)), KV_NEVER);
	WAIT(p->b.messages == messages && r.done == 1);
	assert_int_equal(r.status, 0);
}

static void pair_open(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	open_node(&p->a);
	open_node(&p->b);
	p->ab = node_peer(&p->a, &p->b);
	p->ba = node_peer(&p->b, &p->a);
	pair_send(p, "hello", 1);
}

static void pair_close(struct pair *p)
{
	te_peer_close(&p->ab);
	te_peer_close(&p->ba);
	node_close(&p->a);
	node_close(&p->b);
}

/* Somebody on b's host claims to be b, while a goes on. */
static void pair_is_claimed(struct pair *p)
{
	int fd = caller_asking(&p->a, "127.0.0.1", ntohs(address_of(&p->b).sin_port));
	node_poll_for(300000000);
	assert_false(answered(fd));
	pair_send(p, "hello again", 2);
	close(fd);
}

/* ---- the tests ---- */

static void strangers_are_reset(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int fd = caller_asking(&n, "127.0.0.66", PEER_PORT);
	WAIT(ended(fd));
	assert_int_equal(stats_of(&n).door_strangers, 1);
	assert_int_equal(stats_of(&n).door_let_in, 0);
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

static void nobody_gets_in_where_nobody_is_known(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	int fd = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(ended(fd));
	assert_int_equal(stats_of(&n).door_strangers, 1);
	close(fd);
	node_close(&n);
}

static void a_peers_request_is_answered_and_its_messages_arrive(void **state)
{
	struct node n = {0};
	uint8_t p[128];
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int fd = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	assert_int_equal(stats_of(&n).door_let_in, 1);
	size_t len = lf_message(p, rxm, index_of(fd), "hello, engine", 13);
	assert_true(say(fd, p, len));
	WAIT(n.messages == 1);
	assert_int_equal(n.last_len, 13);
	assert_memory_equal(n.last, "hello, engine", 13);
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

static void a_request_that_comes_in_pieces_waits_at_the_door(void **state)
{
	struct node n = {0};
	uint8_t p[64];
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int fd = caller(&n, "127.0.0.1");
	size_t len = lf_request(p, rxm, PEER_PORT, eager_of(&n));
	for (size_t i = 0; i < len; i++) {
		assert_false(answered(fd));
		assert_true(say(fd, p + i, 1));
		node_poll_all();
	}
	WAIT(answered(fd));
	assert_int_equal(stats_of(&n).door_let_in, 1);
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

static void a_claim_that_nobody_announced_is_turned_away(void **state)
{
	struct node n = {0};
	uint8_t p[64];
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int fd = caller_asking(&n, "127.0.0.1", OTHER_PORT);
	WAIT(ended(fd));
	close(fd);
	fd = caller(&n, "127.0.0.1");
	lf_request(p, rxm, PEER_PORT, eager_of(&n));
	p[0] = 9;
	(void)say(fd, p, 1); /* one byte is enough to see */
	WAIT(ended(fd));
	assert_int_equal(stats_of(&n).door_claims, 2);
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

static void an_endpoint_that_is_connected_keeps_its_connection(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int first = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(first));
	int second = caller_asking(&n, "127.0.0.1", PEER_PORT);
	node_poll_for(300000000);
	assert_false(answered(second));
	assert_false(ended(first));
	assert_int_equal(stats_of(&n).door_let_in, 1);
	/* When the first one ends it is the second one's turn. */
	close(first);
	WAIT(answered(second));
	assert_int_equal(stats_of(&n).door_let_in, 2);
	close(second);
	te_peer_close(&peer);
	node_close(&n);
}

static void who_says_nothing_or_comes_twice_waits_five_seconds_and_goes(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int first = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(first));
	int second = caller_asking(&n, "127.0.0.1", PEER_PORT), silent = caller(&n, "127.0.0.1");
	assert_true(say(silent, "\3", 1));
	WAIT(ended(second) && ended(silent));
	assert_false(ended(first));
	assert_int_equal(stats_of(&n).door_twice, 1);
	assert_int_equal(stats_of(&n).door_silent, 1);
	close(first);
	close(second);
	close(silent);
	te_peer_close(&peer);
	node_close(&n);
}

/* Close it so that the other side hears nothing of it: as when the network loses the last packet. False: not permitted. */
static bool vanish(int fd)
{
	int on = 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)))
		return false;
	close(fd);
	return true;
}

static void a_peer_whose_end_was_not_heard_of_comes_back(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int first = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(first));
	if (!vanish(first)) {
		print_message("without CAP_NET_ADMIN no connection can be made to vanish on one side only\n");
		close(first);
		te_peer_close(&peer);
		node_close(&n);
		skip();
	}
	int second = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(second) || ended(second));
	assert_true(answered(second));
	close(second);
	te_peer_close(&peer);
	node_close(&n);
}

static void what_no_peer_sends_ends_the_connection_and_harms_nobody(void **state)
{
	struct node a = {0}, b = {0};
	struct result r = {0};
	uint8_t p[128];
	(void)state;
	open_node(&a);
	open_node(&b);
	struct te_peer *peer = known(&a, PEER_PORT), *ab = node_peer(&a, &b), *ba = node_peer(&b, &a);
	int fd = caller_asking(&a, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	size_t len = lf_message(p, rxm, index_of(fd), "12345678", 8);
	p[rxm ? 17 : 1] = rxm ? 2 : 1; /* a rendezvous; a tagged message */
	assert_true(say(fd, p, len));
	WAIT(ended(fd));
	assert_int_equal(stats_of(&a).door_aliens, 1);
	assert_int_equal(a.messages, 0);
	te_msg_send(b.te, ba, 0, msg_for(&b, &r, "still here", 10), KV_NEVER);
	WAIT(a.messages == 1 && r.done == 1);
	assert_int_equal(r.status, 0);
	close(fd);
	te_peer_close(&peer);
	te_peer_close(&ab);
	te_peer_close(&ba);
	node_close(&a);
	node_close(&b);
}

/* On the host of a server somebody may claim to be that server, to which the client is connected already. */
static void nobody_takes_the_place_of_an_endpoint_that_we_connected_to(void **state)
{
	struct pair p;
	(void)state;
	pair_open(&p);
	pair_is_claimed(&p);
	pair_close(&p);
}

/* A client that makes its session anew forgets a server's endpoint for a moment, while its connection to it goes on. */
static void nobody_takes_the_place_of_an_endpoint_that_was_forgotten_for_a_moment(void **state)
{
	struct pair p;
	(void)state;
	pair_open(&p);
	te_peer_close(&p.ab);
	p.ab = node_peer(&p.a, &p.b);
	pair_is_claimed(&p);
	pair_close(&p);
}

static void half_a_message_costs_no_receive(void **state)
{
	enum { TIMES = 1500 }; /* more than there are receives */
	struct node n = {0};
	uint8_t p[4200], data[4000] = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	for (unsigned i = 0; i < TIMES; i++) {
		int fd = caller_asking(&n, "127.0.0.1", PEER_PORT);
		WAIT(answered(fd));
		lf_message(p, rxm, index_of(fd), data, sizeof(data));
		assert_true(say(fd, p, 2000));
		node_poll_all();
		close(fd);
	}
	int fd = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	size_t len = lf_message(p, rxm, index_of(fd), data, sizeof(data));
	assert_true(say(fd, p, len));
	WAIT(n.messages == 1);
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

static void who_is_no_peer_any_more_is_let_go(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int fd = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	te_peer_close(&peer);
	int late = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(ended(late));
	(void)index_of(fd);
	WAIT(ended(fd));
	close(fd);
	close(late);
	node_close(&n);
}

static void a_fence_turns_away_who_waits_and_the_new_door_lets_peers_in(void **state)
{
	struct node n = {0};
	struct kv_error err;
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT), *twin = known(&n, PEER_PORT); /* for whose sake everything is rebuilt */
	int fd = caller_asking(&n, "127.0.0.1", PEER_PORT), waits = caller(&n, "127.0.0.1");
	WAIT(answered(fd));
	assert_true(say(waits, "\3", 1));
	node_poll_for(20000000);
	assert_int_equal(te_peer_fence(peer, &err), 0);
	WAIT(n.resets == 1);
	(void)index_of(fd);
	assert_true(ended(waits));
	assert_true(ended(fd));
	close(fd);
	close(waits);
	te_peer_close(&peer);
	te_peer_close(&twin);
	peer = known(&n, PEER_PORT);
	fd = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

/* ---- who logs ---- */

static void *door_use(void *arg)
{
	struct te_peer *peer = known(arg, OTHER_PORT);
	te_peer_close(&peer);
	return NULL;
}

/* As an interpreter's log function: it waits until another thread, which is in an engine of its own, is out of there. */
static void log_waits(void *arg, enum kv_log_level level, const char *line)
{
	static atomic_bool once;
	pthread_t thread;
	(void)level;
	if (!strstr(line, "fabric port") || atomic_exchange(&once, true))
		return;
	assert_int_equal(pthread_create(&thread, NULL, door_use, arg), 0);
	pthread_join(thread, NULL);
}

static void whoever_logs_may_wait_for_another_engine(void **state)
{
	struct node n = {0}, other = {0};
	const struct kv_log log = {.level = KV_LOG_WARN, .write = log_waits, .arg = &other};
	struct te_options o = {.door = TE_DOOR_REQUIRE, .log = &log};
	(void)state;
	open_node(&other);
	node_open(&n, over, &o);
	int fd = caller_asking(&n, "127.0.0.66", PEER_PORT);
	alarm(60); /* not for ever */
	WAIT(ended(fd));
	alarm(0);
	close(fd);
	node_close(&n);
	node_close(&other);
}

/* Whoever took an honest peer's place before it came does not have it any more when it tries again. */
static void a_connection_that_proved_nothing_goes_with_its_session(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	te_peer_link_use(peer, 0, false);
	int thief = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(thief));
	te_peer_close(&peer);
	peer = known(&n, PEER_PORT);
	int honest = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(answered(honest) || ended(honest));
	assert_true(answered(honest));
	(void)index_of(thief);
	assert_true(ended(thief));
	/* One that has proved it stays, for a peer that comes back soon. */
	te_peer_link_use(peer, 0, false);
	te_peer_link_use(peer, 0, true);
	te_peer_close(&peer);
	peer = known(&n, PEER_PORT);
	(void)index_of(honest);
	node_poll_for(100000000);
	assert_false(ended(honest));
	close(thief);
	close(honest);
	te_peer_close(&peer);
	node_close(&n);
}

static unsigned files_open(void)
{
	unsigned count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void many_strangers_leave_nothing_behind(void **state)
{
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	unsigned before = files_open();
	for (unsigned i = 0; i < 200; i++) {
		int fd = caller_asking(&n, "127.0.0.66", PEER_PORT);
		WAIT(ended(fd));
		close(fd);
	}
	assert_int_equal(stats_of(&n).door_strangers, 200);
	assert_int_equal(files_open(), before);
	te_peer_close(&peer);
	node_close(&n);
}

/* Strangers at a process without descriptors would otherwise have libfabric ask for them for ever. */
static void without_descriptors_strangers_are_still_sent_away(void **state)
{
	struct rlimit limit, low;
	struct node n = {0};
	(void)state;
	open_node(&n);
	struct te_peer *peer = known(&n, PEER_PORT);
	int fd = caller(&n, "127.0.0.1");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)fd + 1; /* the next one would be above */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_true(say(fd, "\3", 1));
	WAIT(ended(fd));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(stats_of(&n).door_full, 1);
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

static void off_means_that_nobody_is_turned_away(void **state)
{
	struct te_options o = {.door = TE_DOOR_OFF};
	struct te_info info;
	struct node n = {0};
	(void)state;
	node_open(&n, over, &o);
	te_info(n.te, &info);
	assert_string_equal(info.no_door, "it is turned off");
	int fd = caller_asking(&n, "127.0.0.66", PEER_PORT);
	WAIT(answered(fd));
	assert_int_equal(stats_of(&n).door_let_in, 0);
	close(fd);
	node_close(&n);
}

static void a_door_that_cannot_be_is_an_error_where_it_is_required(void **state)
{
	static const char *const settings[] = {"FI_TCP_IO_URING", "FI_TCP_PREFETCH_RBUF_SIZE"};
	struct te_options o = {.provider = over, .door = TE_DOOR_REQUIRE};
	const struct te_handlers none = {0};
	struct kv_error err;
	struct te *te;
	(void)state;
	if (strcmp(over, "net") == 0)
		skip(); /* its settings have other names */
	for (unsigned i = 0; i < KV_COUNT(settings); i++) {
		setenv(settings[i], "1", 1);
		assert_int_equal(te_open(&o, &none, NULL, &te, &err), -KV_ENOTSUP);
		assert_non_null(strstr(err.text, settings[i]));
		unsetenv(settings[i]);
	}
	o.provider = "shm";
	assert_int_equal(te_open(&o, &none, NULL, &te, &err), -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "SECURITY.md"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(strangers_are_reset, node_forget_all),
		cmocka_unit_test_setup(nobody_gets_in_where_nobody_is_known, node_forget_all),
		cmocka_unit_test_setup(a_peers_request_is_answered_and_its_messages_arrive, node_forget_all),
		cmocka_unit_test_setup(a_request_that_comes_in_pieces_waits_at_the_door, node_forget_all),
		cmocka_unit_test_setup(a_claim_that_nobody_announced_is_turned_away, node_forget_all),
		cmocka_unit_test_setup(an_endpoint_that_is_connected_keeps_its_connection, node_forget_all),
		cmocka_unit_test_setup(who_says_nothing_or_comes_twice_waits_five_seconds_and_goes, node_forget_all),
		cmocka_unit_test_setup(a_peer_whose_end_was_not_heard_of_comes_back, node_forget_all),
		cmocka_unit_test_setup(what_no_peer_sends_ends_the_connection_and_harms_nobody, node_forget_all),
		cmocka_unit_test_setup(nobody_takes_the_place_of_an_endpoint_that_we_connected_to, node_forget_all),
		cmocka_unit_test_setup(nobody_takes_the_place_of_an_endpoint_that_was_forgotten_for_a_moment, node_forget_all),
		cmocka_unit_test_setup(half_a_message_costs_no_receive, node_forget_all),
		cmocka_unit_test_setup(who_is_no_peer_any_more_is_let_go, node_forget_all),
		cmocka_unit_test_setup(a_fence_turns_away_who_waits_and_the_new_door_lets_peers_in, node_forget_all),
		cmocka_unit_test_setup(whoever_logs_may_wait_for_another_engine, node_forget_all),
		cmocka_unit_test_setup(a_connection_that_proved_nothing_goes_with_its_session, node_forget_all),
		cmocka_unit_test_setup(many_strangers_leave_nothing_behind, node_forget_all),
		cmocka_unit_test_setup(without_descriptors_strangers_are_still_sent_away, node_forget_all),
		cmocka_unit_test_setup(off_means_that_nobody_is_turned_away, node_forget_all),
		cmocka_unit_test_setup(a_door_that_cannot_be_is_an_error_where_it_is_required, node_forget_all),
	};
	over = test_provider_speaks_tcp() ? test_provider() : "tcp";
	rxm = strcmp(over, "tcp") == 0;
	test_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
