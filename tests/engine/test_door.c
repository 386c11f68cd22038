/* SPDX-License-Identifier: Apache-2.0 */
/* test_door.c -- the doorkeeper, with an engine on loopback and bare sockets that knock at it: as strangers
 * (127.0.0.66), and from the host of a peer, whose endpoint the engine was told of. */
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
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/engine/fabric_wire.h"

enum { PEER_PORT = 4242, OTHER_PORT = 4243 };

static const char *over;
static bool rxm;

/* ---- the engine, and the peers that it knows ---- */

static struct sockaddr_in address_of(struct node *n)
{
	struct te_address a;
	struct sockaddr_in in;
	assert_int_equal(te_address(n->te, 0, &a), 0);
	memcpy(&in, a.data, sizeof(in));
	return in;
}

/* A peer whose endpoint is at 127.0.0.1 and this port: no socket listens there, and the engine sends nothing to it. */
static struct te_peer *known(struct node *n, uint16_t port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
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

/* ---- strangers and peers that connect ---- */

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

/* ---- most tests: an engine that knows one peer ---- */

static struct node us;
static struct te_peer *them;

static int known_open(void **state)
{
	node_forget_all(state);
	memset(&us, 0, sizeof(us));
	open_node(&us);
	them = known(&us, PEER_PORT);
	return 0;
}

static int known_close(void **state)
{
	(void)state;
	te_peer_close(&them);
	node_close(&us);
	return 0;
}

/* ---- the tests ---- */

static void strangers_are_reset(void **state)
{
	(void)state;
	int fd = caller_asking(&us, "127.0.0.66", PEER_PORT);
	WAIT(ended(fd));
	assert_int_equal(stats_of(&us).door_strangers, 1);
	assert_int_equal(stats_of(&us).door_let_in, 0);
	close(fd);
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
	uint8_t p[128];
	(void)state;
	int fd = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	assert_int_equal(stats_of(&us).door_let_in, 1);
	size_t len = lf_message(p, rxm, index_of(fd), "hello, engine", 13);
	assert_true(say(fd, p, len));
	WAIT(us.messages == 1);
	assert_int_equal(us.last_len, 13);
	assert_memory_equal(us.last, "hello, engine", 13);
	close(fd);
}

static void a_request_that_comes_in_pieces_waits_at_the_door(void **state)
{
	uint8_t p[64];
	(void)state;
	int fd = caller(&us, "127.0.0.1");
	size_t len = lf_request(p, rxm, PEER_PORT, eager_of(&us));
	for (size_t i = 0; i < len; i++) {
		assert_false(answered(fd));
		assert_true(say(fd, p + i, 1));
		node_poll_all();
	}
	WAIT(answered(fd));
	assert_int_equal(stats_of(&us).door_let_in, 1);
	close(fd);
}

static void a_claim_that_nobody_announced_is_turned_away(void **state)
{
	uint8_t p[64];
	(void)state;
	int fd = caller_asking(&us, "127.0.0.1", OTHER_PORT);
	WAIT(ended(fd));
	close(fd);
	fd = caller(&us, "127.0.0.1");
	lf_request(p, rxm, PEER_PORT, eager_of(&us));
	p[0] = 9;
	(void)say(fd, p, 1); /* one byte is enough to see */
	WAIT(ended(fd));
	assert_int_equal(stats_of(&us).door_claims, 2);
	close(fd);
}

static void an_endpoint_that_is_connected_keeps_its_connection(void **state)
{
	(void)state;
	int first = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(first));
	int second = caller_asking(&us, "127.0.0.1", PEER_PORT);
	node_poll_for(300000000);
	assert_false(answered(second));
	assert_false(ended(first));
	assert_int_equal(stats_of(&us).door_let_in, 1);
	/* When the first one ends it is the second one's turn. */
	close(first);
	WAIT(answered(second));
	assert_int_equal(stats_of(&us).door_let_in, 2);
	close(second);
}

static void who_says_nothing_or_comes_twice_waits_five_seconds_and_goes(void **state)
{
	(void)state;
	int first = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(first));
	int second = caller_asking(&us, "127.0.0.1", PEER_PORT), silent = caller(&us, "127.0.0.1");
	assert_true(say(silent, "\3", 1));
	WAIT(ended(second) && ended(silent));
	assert_false(ended(first));
	assert_int_equal(stats_of(&us).door_twice, 1);
	assert_int_equal(stats_of(&us).door_silent, 1);
	close(first);
	close(second);
	close(silent);
}

/* Close it so that the other side hears nothing of it: as when the network loses the last packet. False: not permitted.
 */
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
	(void)state;
	int first = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(first));
	if (!vanish(first)) {
		print_message("without CAP_NET_ADMIN no connection can be made to vanish on one side only\n");
		close(first);
		skip();
	}
	int second = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(second) || ended(second));
	assert_true(answered(second));
	close(second);
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

/* On the host of a server another program may claim to be that server, to which the client is connected already. */
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

enum {
	RXM_RECEIVES = 128
}; /* set in main: few, so that few half messages use them up where nothing is done about it */

static void half_a_message_costs_no_receive(void **state)
{
	const unsigned times = rxm ? RXM_RECEIVES + 72 : 1500; /* more than there are receives */
	uint8_t p[4200], data[4000] = {0};
	(void)state;
	for (unsigned i = 0; i < times; i++) {
		int fd = caller_asking(&us, "127.0.0.1", PEER_PORT);
		WAIT(answered(fd));
		lf_message(p, rxm, index_of(fd), data, sizeof(data));
		assert_true(say(fd, p, 2000));
		node_poll_all();
		close(fd);
	}
	int fd = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	size_t len = lf_message(p, rxm, index_of(fd), data, sizeof(data));
	assert_true(say(fd, p, len));
	WAIT(us.messages == 1);
	close(fd);
}

static void who_is_no_peer_any_more_is_let_go(void **state)
{
	(void)state;
	int fd = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	te_peer_close(&them);
	int late = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(ended(late));
	(void)index_of(fd);
	WAIT(ended(fd));
	close(fd);
	close(late);
}

static void a_fence_turns_away_who_waits_and_the_new_door_lets_peers_in(void **state)
{
	struct kv_error err;
	(void)state;
	struct te_peer *twin = known(&us, PEER_PORT); /* for whose sake everything is rebuilt */
	int fd = caller_asking(&us, "127.0.0.1", PEER_PORT), waits = caller(&us, "127.0.0.1");
	WAIT(answered(fd));
	assert_true(say(waits, "\3", 1));
	node_poll_for(20000000);
	assert_int_equal(te_peer_fence(them, &err), 0);
	WAIT(us.resets == 1);
	(void)index_of(fd);
	assert_true(ended(waits));
	assert_true(ended(fd));
	close(fd);
	close(waits);
	te_peer_close(&them);
	te_peer_close(&twin);
	them = known(&us, PEER_PORT);
	fd = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(fd));
	close(fd);
}

/* ---- the fence of one peer: a cut ---- */

enum { CUT_AREA = 1 << 20, LATE_NS = 200000000, BEFORE = 0xa1, AFTER = 0xb2 };

static struct te_peer *asked(struct node *n, int *fd)
{
	struct te_peer *peer = known(n, PEER_PORT);
	*fd = caller_asking(n, "127.0.0.1", PEER_PORT);
	WAIT(answered(*fd));
	return peer;
}

/* A write of the whole area, of which so many bytes come. */
static void write_begin(int fd, const struct area *area, size_t bytes)
{
	static uint8_t data[CUT_AREA];
	uint8_t head[64];
	const struct te_key *key = &area->remote.keys[0];
	assert_true(say(fd, head, lf_write(head, 4, NULL, key->base, area->len, key->key)));
	memset(data, BEFORE, sizeof(data));
	for (size_t sent = 0; sent < bytes;) {
		ssize_t n = send(fd, data + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		sent += n > 0 ? (size_t)n : 0;
		node_poll_all();
	}
}

static bool all_are(const struct area *area, uint8_t byte)
{
	for (uint64_t i = 0; i < area->len; i++)
		if (area->base[i] != byte)
			return false;
	return true;
}

static void cut(struct node *n, struct te_peer *peer)
{
	uint64_t cuts = stats_of(n).cuts;
	assert_int_equal(te_peer_fence(peer, NULL), 0);
	assert_false(te_reset_due(n->te));
	assert_int_equal(stats_of(n).cuts, cuts + 1);
}

static void allow_again(struct te_peer *peer)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(PEER_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct te_address a = {.len = sizeof(in)};
	memcpy(a.data, &in, sizeof(in));
	assert_int_equal(te_peer_readdress(peer, &a, 1, NULL), 0);
}

static void half_a_write_is_all_that_lands_once_its_peer_is_cut(void **state)
{
	static const size_t halves[] = {100, 5000, CUT_AREA / 2, CUT_AREA - 1};
	static uint8_t rest[CUT_AREA];
	(void)state;
	memset(rest, BEFORE, sizeof(rest));
	for (unsigned i = 0; i < KV_COUNT(halves); i++) {
		struct node n = {0};
		struct area area;
		struct sockaddr_in before, after;
		int fd;
		open_node(&n);
		area_open(&area, &n, CUT_AREA, 0, 0);
		struct te_peer *peer = asked(&n, &fd);
		(void)index_of(fd);
		before = address_of(&n);
		write_begin(fd, &area, halves[i]);
		WAIT(area.base[halves[i] - 1] == BEFORE);
		(void)send(fd, rest, (CUT_AREA - halves[i]) / 2,
			   MSG_NOSIGNAL | MSG_DONTWAIT); /* it lies in our socket */
		cut(&n, peer);
		memset(area.base, AFTER, CUT_AREA);
		node_poll_for(LATE_NS / 4);
		(void)send(fd, rest, CUT_AREA - halves[i], MSG_NOSIGNAL | MSG_DONTWAIT);
		node_poll_for(LATE_NS / 4);
		assert_true(all_are(&area, AFTER));
		assert_true(ended(fd));
		assert_int_equal(n.resets, 0);
		after = address_of(&n);
		assert_int_equal(before.sin_port, after.sin_port);
		close(fd);
		te_peer_close(&peer);
		area_close(&area);
		node_close(&n);
	}
}

static struct te_peer *to_be_cut;
static struct area *to_be_kept;

static void cut_at_the_first_message(struct node *n, const uint8_t *data, size_t len)
{
	(void)data, (void)len;
	if (n->messages != 1)
		return;
	assert_int_equal(te_peer_fence(to_be_cut, NULL), 0);
	memset(to_be_kept->base, AFTER, CUT_AREA);
}

/* Messages for all receives that there are and some more, and a write behind them: where the provider has no buffers of
 * its own for messages it holds the write back until a receive is posted, with its first bytes. */
static void what_the_provider_holds_for_want_of_a_receive_does_not_land_after_a_cut(void **state)
{
	enum { MESSAGES = 40, RECEIVES = 16, BYTES = 1000 };
	struct te_options o = {.door = TE_DOOR_REQUIRE, .receives = RECEIVES};
	static uint8_t p[MESSAGES * 100 + BYTES];
	struct node n = {0};
	struct area area;
	size_t len = 0;
	int fd;
	(void)state;
	node_open(&n, over, &o);
	area_open(&area, &n, CUT_AREA, 0, 0);
	to_be_cut = asked(&n, &fd);
	to_be_kept = &area;
	n.on_message = cut_at_the_first_message;
	uint32_t index = index_of(fd);
	for (unsigned i = 0; i < MESSAGES; i++)
		len += lf_message(p + len, rxm, index, "x", 1);
	len += lf_write(p + len, 4, NULL, area.remote.keys[0].base, CUT_AREA, area.remote.keys[0].key);
	memset(p + len, BEFORE, BYTES);
	assert_true(say(fd, p, len + BYTES));
	WAIT(n.messages > 0);
	node_poll_for(LATE_NS);
	assert_true(all_are(&area, AFTER));
	printf("# %s: fenced by %s\n", over, n.resets ? "a rebuild" : "a cut");
	close(fd);
	te_peer_close(&to_be_cut);
	area_close(&area);
	node_close(&n);
}

static void nobody_is_let_in_after_a_cut_before_the_peer_is_readdressed(void **state)
{
	struct node n = {0};
	struct area area;
	struct result r = {0};
	int first, early;
	(void)state;
	open_node(&n);
	area_open(&area, &n, CUT_AREA, 0, 0);
	struct te_peer *peer = asked(&n, &first);
	(void)index_of(first);
	/* An operation that the engine has not heard the end of keeps the address at the door. */
	te_msg_send(n.te, peer, 0, msg_for(&n, &r, "x", 1), KV_NEVER);
	assert_int_equal(stats_of(&n).inflight, 1);
	cut(&n, peer);
	assert_int_equal(stats_of(&n).inflight, 1);
	early = caller_asking(&n, "127.0.0.1", PEER_PORT);
	node_poll_for(LATE_NS);
	assert_false(answered(early));
	assert_false(ended(early));
	allow_again(peer);
	WAIT(answered(early));
	(void)index_of(early);
	write_begin(early, &area, CUT_AREA);
	WAIT(all_are(&area, BEFORE));
	assert_int_equal(n.resets, 0);
	assert_int_equal(stats_of(&n).door_let_in, 2);
	/* And once more. */
	cut(&n, peer);
	WAIT(ended(early));
	close(first);
	close(early);
	te_peer_close(&peer);
	area_close(&area);
	node_close(&n);
}

static void who_comes_too_early_after_a_cut_goes_unblamed(void **state)
{
	struct node n = {0};
	struct te_stats s;
	int first;
	(void)state;
	open_node(&n);
	struct te_peer *peer = asked(&n, &first);
	(void)index_of(first);
	cut(&n, peer);
	te_peer_close(&peer);
	WAIT(ended(first));
	close(first);
	int early = caller_asking(&n, "127.0.0.1", PEER_PORT);
	WAIT(ended(early));
	s = stats_of(&n);
	assert_int_equal(s.door_strangers + s.door_claims + s.door_twice + s.door_silent + s.door_aliens, 0);
	close(early);
	node_close(&n);
}

/* The first one has ended while its bytes wait in our socket for the provider, which has let the next one in. */
static void a_connection_that_was_over_is_cut_with_its_successor(void **state)
{
	static uint8_t data[CUT_AREA];
	struct node n = {0};
	struct area area;
	int first, second;
	(void)state;
	memset(data, BEFORE, sizeof(data));
	for (unsigned round = 0; round < 20; round++) {
		open_node(&n);
		area_open(&area, &n, CUT_AREA, 0, 0);
		struct te_peer *peer = asked(&n, &first);
		(void)index_of(first);
		second = caller_asking(&n, "127.0.0.1", PEER_PORT);
		for (unsigned i = 0; i < round; i++)
			node_poll_all();
		write_begin(first, &area, 1);
		(void)send(first, data, CUT_AREA - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(first);
		for (unsigned i = 0; i < round / 4; i++)
			node_poll_all();
		cut(&n, peer);
		memset(area.base, AFTER, CUT_AREA);
		node_poll_for(LATE_NS / 10);
		assert_true(all_are(&area, AFTER));
		close(second);
		te_peer_close(&peer);
		area_close(&area);
		node_close(&n);
	}
}

static void cuts_in_the_middle_of_messages_cost_no_receive(void **state)
{
	enum { TIMES = 600, RECEIVES = 16 };
	struct te_options o = {.door = TE_DOOR_REQUIRE, .receives = RECEIVES};
	struct node n = {0};
	static uint8_t p[RECEIVES * 4200], data[4000];
	size_t len = 0;
	int fd;
	(void)state;
	node_open(&n, over, &o);
	struct te_peer *peer = asked(&n, &fd);
	for (unsigned i = 0; i < TIMES; i++) {
		lf_message(p, rxm, index_of(fd), data, sizeof(data));
		assert_true(say(fd, p, 2000));
		for (unsigned k = 0; k < i % 4; k++)
			node_poll_all();
		cut(&n, peer);
		close(fd);
		allow_again(peer);
		fd = caller_asking(&n, "127.0.0.1", PEER_PORT);
		WAIT(answered(fd));
	}
	assert_int_equal(n.messages, 0);
	uint32_t index = index_of(fd);
	for (unsigned i = 0; i < RECEIVES; i++)
		len += lf_message(p + len, rxm, index, data, sizeof(data));
	for (size_t sent = 0; sent < len;) {
		ssize_t got = send(fd, p + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		sent += got > 0 ? (size_t)got : 0;
		node_poll_all();
	}
	WAIT(n.messages == RECEIVES);
	assert_int_equal(n.resets, 0);
	close(fd);
	te_peer_close(&peer);
	node_close(&n);
}

/* a connected to b, and has more to send than b takes; then it cuts b. Nothing is sent any more, and the provider makes
 * no new connection for what was left. */
static void what_we_connect_to_is_cut_and_not_connected_to_again(void **state)
{
	enum { WRITES = 8 };
	struct te_xfer x[WRITES];
	struct result r[WRITES];
	struct area near, far;
	struct pair p;
	(void)state;
	pair_open(&p);
	area_open(&near, &p.a, CUT_AREA, 0, 1);
	area_open(&far, &p.b, CUT_AREA, 0, 0);
	for (unsigned i = 0; i < WRITES; i++) {
		xfer_init(&x[i], &r[i], TE_WRITE, p.ab, &near, 0, &far, 0, CUT_AREA);
		assert_true(te_xfer_start(p.a.te, &x[i]) >= 0);
	}
	uint64_t let_in = stats_of(&p.b).door_let_in;
	cut(&p.a, p.ab);
	for (unsigned i = 0; i < WRITES; i++) {
		WAIT(r[i].done);
		assert_true(r[i].status == -KV_ERESET || r[i].status == -KV_EPEERDOWN || r[i].status == 0);
	}
	node_poll_for(LATE_NS);
	assert_int_equal(stats_of(&p.b).door_let_in, let_in);
	assert_false(te_busy(p.a.te));
	assert_int_equal(p.a.resets + p.b.resets, 0);
	/* Allowed again, all is as before. */
	node_readdress(p.ab, &p.b);
	pair_send(&p, "back again", 2);
	area_close(&near);
	area_close(&far);
	pair_close(&p);
}

static void a_cut_of_one_peer_disturbs_no_other(void **state)
{
	enum { ROUNDS = 20 };
	struct pair p;
	struct node c = {0};
	struct area near, far, third;
	(void)state;
	pair_open(&p);
	open_node(&c);
	struct te_peer *ca = node_peer(&c, &p.a), *ac = node_peer(&p.a, &c);
	area_open(&near, &p.a, 4 * CUT_AREA, 0, 0);
	area_open(&far, &p.b, CUT_AREA, 0, 1);
	area_open(&third, &c, CUT_AREA, 0, 2);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct te_xfer from_b, from_c, to_c;
		struct result rb, rc, rt;
		xfer_init(&from_b, &rb, TE_WRITE, p.ba, &far, 0, &near, 0, CUT_AREA);
		xfer_init(&from_c, &rc, TE_WRITE, ca, &third, 0, &near, CUT_AREA, CUT_AREA);
		xfer_init(&to_c, &rt, TE_WRITE, ac, &near, 2 * CUT_AREA, &third, 0, CUT_AREA / 2);
		from_b.deadline_ns =
			kv_clock_now(&kv_clock_monotonic) + LATE_NS / 2; /* b may have to wait at the door */
		assert_true(te_xfer_start(p.b.te, &from_b) >= 0);
		assert_true(te_xfer_start(c.te, &from_c) >= 0);
		for (unsigned k = 0; k < i; k++)
			node_poll_all();
		if (rc.done)
			assert_int_equal(te_xfer_start(p.a.te, &to_c) >= 0, 1);
		cut(&p.a, p.ab);
		memset(near.base, AFTER, CUT_AREA);
		WAIT(rb.done && rc.done);
		assert_int_equal(rc.status, 0);
		for (uint64_t k = 0; k < CUT_AREA; k++)
			assert_int_equal(near.base[k], AFTER);
		node_readdress(p.ab, &p.b);
		WAIT(!te_busy(p.a.te) && !te_busy(p.b.te) && !te_busy(c.te));
	}
	assert_int_equal(p.a.resets + p.b.resets + c.resets, 0);
	assert_int_equal(stats_of(&p.a).fences, ROUNDS);
	assert_int_equal(stats_of(&c).failed_peer, 0);
	te_peer_close(&ca);
	te_peer_close(&ac);
	area_close(&near);
	area_close(&far);
	area_close(&third);
	node_close(&c);
	pair_close(&p);
}

/* ---- bytes with a message behind them ---- */

enum { BEHIND_LEN = 1000, BEHIND_ROUNDS = 8 };

static struct {
	struct te_peer *peer;
	struct area *from, *to;
	struct te_xfer x;
	struct result rx, rm;
	bool posted;
} behind;

static void behind_write(struct node *n, const uint8_t *data, size_t len)
{
	(void)data, (void)len;
	xfer_init(&behind.x, &behind.rx, TE_WRITE, behind.peer, behind.from, 0, behind.to, 0, BEHIND_LEN);
	behind.x.link = 0;
	behind.x.with_imm = false;
	behind.x.ordered = true;
	behind.posted = te_xfer_start(n->te, &behind.x) == 1;
}

static void behind_follow(struct node *n)
{
	if (behind.posted)
		assert_int_equal(te_msg_follow(n->te, behind.peer, 0, msg_for(n, &behind.rm, "there", 5)), 0);
}

/* The segments with data that all connections of this process have sent. */
static uint64_t segments(void)
{
	enum {
		FDS = 1024,
		DATA_SEGS_OUT = 156 /* in the kernel's struct tcp_info, of which glibc has the beginning */
	};
	uint64_t sum = 0;
	for (int fd = 0; fd < FDS; fd++) {
		uint8_t info[256];
		socklen_t len = sizeof(info);
		uint32_t n;
		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) || len < DATA_SEGS_OUT + sizeof(n))
			continue;
		memcpy(&n, info + DATA_SEGS_OUT, sizeof(n));
		sum += n;
	}
	return sum;
}

static void bytes_and_the_message_behind_them_are_one_segment(void **state)
{
	struct pair p;
	struct te_info info;
	struct area from, to;
	uint64_t least = UINT64_MAX;
	(void)state;
	pair_open(&p);
	te_info(p.b.te, &info);
	area_open(&from, &p.b, BEHIND_LEN, 0, 1);
	area_open(&to, &p.a, BEHIND_LEN, 0, 0);
	memset(&behind, 0, sizeof(behind));
	behind.peer = p.ba;
	behind.from = &from;
	behind.to = &to;
	p.b.on_message = behind_write;
	p.b.on_follow = behind_follow;
	for (unsigned i = 0; info.ordered && i < BEHIND_ROUNDS; i++) {
		uint64_t before = segments(), got = p.a.messages;
		pair_send(&p, "go", 2 + i);
		if (!behind.posted) /* it connects */
			continue;
		WAIT(p.a.messages == got + 1);
		least = KV_MIN(least, segments() - before);
	}
	if (info.ordered)
		assert_int_equal(least, 2); /* "go", and what came back */
	area_close(&from);
	area_close(&to);
	pair_close(&p);
}

/* Both ends: the one that accepted, and the one that libfabric connected. Where reno is the default this is true
 * anyway.
 */
static void connections_over_loopback_do_not_pace(void **state)
{
	enum { FDS = 1024 };
	struct pair p;
	unsigned connections = 0;
	(void)state;
	pair_open(&p);
	for (int fd = 0; fd < FDS; fd++) {
		struct tcp_info info = {0};
		char algorithm[16] = "";
		socklen_t len = sizeof(info), algorithm_len = sizeof(algorithm) - 1;
		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || info.tcpi_state != TCP_ESTABLISHED)
			continue;
		assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm, &algorithm_len), 0);
		assert_string_equal(algorithm, "reno");
		connections++;
	}
	assert_int_equal(connections, 2);
	pair_close(&p);
}

/* ---- which engine logs ---- */

static void *door_use(void *arg)
{
	struct te_peer *peer = known(arg, OTHER_PORT);
	te_peer_close(&peer);
	return NULL;
}

/* As an interpreter's log function: it waits until another thread, which is in an engine of its own, is out of there.
 */
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

/* A stranger that took an honest peer's place before the peer came has lost it when the peer tries again. */
static void a_connection_that_proved_nothing_goes_with_its_session(void **state)
{
	(void)state;
	te_peer_link_use(them, 0, false);
	int thief = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(thief));
	te_peer_close(&them);
	them = known(&us, PEER_PORT);
	int honest = caller_asking(&us, "127.0.0.1", PEER_PORT);
	WAIT(answered(honest) || ended(honest));
	assert_true(answered(honest));
	(void)index_of(thief);
	assert_true(ended(thief));
	/* A peer whose address was proved stays known, and may come back soon. */
	te_peer_link_use(them, 0, false);
	te_peer_link_use(them, 0, true);
	te_peer_close(&them);
	them = known(&us, PEER_PORT);
	(void)index_of(honest);
	node_poll_for(100000000);
	assert_false(ended(honest));
	close(thief);
	close(honest);
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
	(void)state;
	unsigned before = files_open();
	for (unsigned i = 0; i < 200; i++) {
		int fd = caller_asking(&us, "127.0.0.66", PEER_PORT);
		WAIT(ended(fd));
		close(fd);
	}
	assert_int_equal(stats_of(&us).door_strangers, 200);
	assert_int_equal(files_open(), before);
}

/* Strangers at a process without descriptors would otherwise have libfabric ask for them for ever. */
static void without_descriptors_strangers_are_still_sent_away(void **state)
{
	struct rlimit limit, low;
	(void)state;
	int fd = caller(&us, "127.0.0.1");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)fd + 1; /* the next one would be above */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_true(say(fd, "\3", 1));
	WAIT(ended(fd));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(stats_of(&us).door_full, 1);
	close(fd);
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
	if (strcmp(over, "net") == 0) {
		print_message("net's settings have other names\n");
		skip();
	}
	for (unsigned i = 0; i < KV_COUNT(settings); i++) {
		setenv(settings[i], "1", 1);
		assert_int_equal(te_open(&o, &none, NULL, &te, &err), -KV_ENOTSUP);
		assert_non_null(strstr(err.text, settings[i]));
		unsetenv(settings[i]);
	}
	o.provider = "shm";
	assert_int_equal(te_open(&o, &none, NULL, &te, &err), -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "security.md"));
}

/* While it is set the engine sees no socket of this process that listens. */
static bool listeners_hidden;

int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict len)
{
	int rc = (int)syscall(SYS_getsockopt, fd, level, option, value, len);
	if (rc == 0 && listeners_hidden && level == SOL_SOCKET && option == SO_ACCEPTCONN)
		memset(value, 0, *len);
	return rc;
}

static void warnings_count(void *arg, enum kv_log_level level, const char *line)
{
	if (level == KV_LOG_WARN && strstr(line, "the fabric ports have no doorkeeper"))
		++*(unsigned *)arg;
}

static void a_listener_that_is_not_found_is_warned_of(void **state)
{
	unsigned warnings = 0;
	const struct kv_log log = {.level = KV_LOG_WARN, .write = warnings_count, .arg = &warnings};
	struct te_options o = {.log = &log};
	struct te_info info;
	struct kv_error err;
	struct node n = {0};
	(void)state;
	listeners_hidden = true;
	node_open(&n, over, &o);
	te_info(n.te, &info);
	assert_non_null(strstr(info.no_door, "listening socket was not found"));
	assert_int_equal(warnings, 1);
	node_close(&n);
	/* ... and where a fence loses it. */
	listeners_hidden = false;
	node_open(&n, over, &o);
	te_info(n.te, &info);
	assert_string_equal(info.no_door, "");
	(void)address_of(&n);
	struct te_peer *peer = known(&n, PEER_PORT), *same = known(&n, PEER_PORT);
	listeners_hidden = true;
	assert_int_equal(te_peer_fence(peer, &err), 0);
	listeners_hidden = false;
	te_info(n.te, &info);
	assert_non_null(strstr(info.no_door, "listening socket was not found"));
	assert_int_equal(warnings, 2);
	te_peer_close(&peer);
	te_peer_close(&same);
	node_close(&n);
}

#define KNOWN(fn) cmocka_unit_test_setup_teardown(fn, known_open, known_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		KNOWN(strangers_are_reset),
		NODE_CASE(nobody_gets_in_where_nobody_is_known),
		KNOWN(a_peers_request_is_answered_and_its_messages_arrive),
		KNOWN(a_request_that_comes_in_pieces_waits_at_the_door),
		KNOWN(a_claim_that_nobody_announced_is_turned_away),
		KNOWN(an_endpoint_that_is_connected_keeps_its_connection),
		KNOWN(who_says_nothing_or_comes_twice_waits_five_seconds_and_goes),
		KNOWN(a_peer_whose_end_was_not_heard_of_comes_back),
		NODE_CASE(what_no_peer_sends_ends_the_connection_and_harms_nobody),
		NODE_CASE(nobody_takes_the_place_of_an_endpoint_that_we_connected_to),
		NODE_CASE(nobody_takes_the_place_of_an_endpoint_that_was_forgotten_for_a_moment),
		KNOWN(half_a_message_costs_no_receive),
		KNOWN(who_is_no_peer_any_more_is_let_go),
		KNOWN(a_fence_turns_away_who_waits_and_the_new_door_lets_peers_in),
		NODE_CASE(half_a_write_is_all_that_lands_once_its_peer_is_cut),
		NODE_CASE(what_the_provider_holds_for_want_of_a_receive_does_not_land_after_a_cut),
		NODE_CASE(nobody_is_let_in_after_a_cut_before_the_peer_is_readdressed),
		NODE_CASE(who_comes_too_early_after_a_cut_goes_unblamed),
		NODE_CASE(a_connection_that_was_over_is_cut_with_its_successor),
		NODE_CASE(cuts_in_the_middle_of_messages_cost_no_receive),
		NODE_CASE(what_we_connect_to_is_cut_and_not_connected_to_again),
		NODE_CASE(a_cut_of_one_peer_disturbs_no_other),
		NODE_CASE(bytes_and_the_message_behind_them_are_one_segment),
		NODE_CASE(connections_over_loopback_do_not_pace),
		NODE_CASE(whoever_logs_may_wait_for_another_engine),
		KNOWN(a_connection_that_proved_nothing_goes_with_its_session),
		KNOWN(many_strangers_leave_nothing_behind),
		KNOWN(without_descriptors_strangers_are_still_sent_away),
		NODE_CASE(off_means_that_nobody_is_turned_away),
		NODE_CASE(a_door_that_cannot_be_is_an_error_where_it_is_required),
		NODE_CASE(a_listener_that_is_not_found_is_warned_of),
	};
	over = test_provider_speaks_tcp() ? test_provider() : "tcp";
	rxm = strcmp(over, "tcp") == 0;
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "128", 1); /* RXM_RECEIVES */
	test_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
