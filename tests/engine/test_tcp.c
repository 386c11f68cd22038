/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp.c -- the tcp providers. Congestion control of endpoints on loopback: their own sockets have it, nobody
 * else's are touched. Settings of libfabric that are refused. And what closing an endpoint of the tcp provider's own
 * kind must not leave behind. */
#include "tests/engine/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FDS_LOOKED_AT = 1024 };

static const char *over; /* the tcp provider under test */

/* AddressSanitizer looks for it by name. libfabric 1.17's net keeps the description of every endpoint for ever, and
 * that of a caller whose connection ends unanswered; the tests of every other provider tell of leaks of ours. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric.so\n";
}

static void algorithm(int fd, char out[16])
{
	socklen_t len = 15;
	memset(out, 0, 16);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &len), 0);
}

static int option(int fd, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);
	return getsockopt(fd, SOL_SOCKET, name, &value, &len) ? -1 : value;
}

/* TCP sockets of this process whose local address is that of the engine; at most max. */
static unsigned sockets_of(struct te *te, int *out, unsigned max)
{
	struct te_address a;
	struct sockaddr_in want, in;
	unsigned count = 0;
	assert_int_equal(te_address(te, 0, &a), 0);
	memcpy(&want, a.data, sizeof(want));
	for (int fd = 0; fd < FDS_LOOKED_AT && count < max; fd++) {
		socklen_t len = sizeof(in);
		if (getsockname(fd, (struct sockaddr *)&in, &len) == 0 && in.sin_family == AF_INET &&
		    option(fd, SO_TYPE) == SOCK_STREAM && in.sin_port == want.sin_port)
			out[count++] = fd;
	}
	return count;
}

static void all_have_reno(struct te *te, unsigned least)
{
	int fds[16];
	char name[16];
	unsigned count = sockets_of(te, fds, KV_COUNT(fds));
	assert_true(count >= least);
	for (unsigned i = 0; i < count; i++) {
		algorithm(fds[i], name);
		assert_string_equal(name, "reno");
	}
}

static void listener_and_what_it_accepts_have_reno(void **state)
{
	struct node a = {0}, b = {0};
	struct result r = {0};
	struct te_options o = {0};
	struct te_info info;
	(void)state;
	node_open(&a, over, &o);
	node_open(&b, over, &o);
	te_info(b.te, &info);
	assert_string_equal(info.congestion, "reno");
	struct te_peer *ab = node_peer(&a, &b), *ba = node_peer(&b, &a);
	te_msg_send(a.te, ab, 0, msg_for(&a, &r, "x", 1), kv_clock_now(&kv_clock_monotonic) + WAIT_NS);
	WAIT(b.messages == 1 && r.done == 1);
	all_have_reno(b.te, 2); /* the listener, and the connection from a */
	te_peer_close(&ab);
	te_peer_close(&ba);
	node_close(&a);
	node_close(&b);
}

static void a_rebuilt_endpoint_has_reno_again(void **state)
{
	struct node a = {0}, b = {0};
	struct te_options o = {.door = TE_DOOR_OFF}; /* else the peer would be cut alone */
	struct te_address before, after;
	(void)state;
	node_open(&a, over, &o);
	node_open(&b, over, &o);
	struct te_peer *ba = node_peer(&b, &a);
	assert_int_equal(te_address(b.te, 0, &before), 0);
	assert_int_equal(te_peer_fence(ba, NULL), 0);
	WAIT(b.resets == 1);
	assert_int_equal(te_address(b.te, 0, &after), 0);
	assert_memory_not_equal(before.data, after.data, after.len);
	all_have_reno(b.te, 1);
	te_peer_close(&ba);
	node_close(&a);
	node_close(&b);
}

/* A socket of the host that listens on loopback, with another algorithm than reno; -1: this system allows no other. */
static int host_listener(struct sockaddr_in *in, char given[16])
{
	static const char *const others[] = {"cubic", "bbr", "dctcp", "htcp"};
	socklen_t len = sizeof(*in);
	int fd = socket(AF_INET, SOCK_STREAM, 0), rc = -1;
	assert_true(fd >= 0);
	*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(fd, (struct sockaddr *)in, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)in, &len), 0);
	for (unsigned i = 0; i < KV_COUNT(others) && rc; i++)
		rc = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, others[i], (socklen_t)strlen(others[i]));
	algorithm(fd, given);
	if (rc == 0 || strcmp(given, "reno") != 0)
		return fd;
	close(fd);
	return -1;
}

static void sockets_of_the_host_are_left_alone(void **state)
{
	struct te_options o = {0};
	struct node a = {0};
	struct sockaddr_in in;
	char given[16], name[16], client_before[16];
	int listener = host_listener(&in, given);
	(void)state;
	if (listener < 0) {
		print_message("this system has no congestion control but reno\n");
		skip();
	}
	int client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&in, sizeof(in)), 0);
	int server = accept(listener, NULL, NULL);
	assert_true(server >= 0);
	algorithm(client, client_before);
	node_open(&a, over, &o);
	algorithm(listener, name);
	assert_string_equal(name, given);
	algorithm(server, name);
	assert_string_equal(name, given);
	algorithm(client, name);
	assert_string_equal(name, client_before);
	node_close(&a);
	close(client);
	close(server);
	close(listener);
}

/* A network address of this machine that is not loopback. */
static bool network_address(struct sockaddr_in *out)
{
	struct ifaddrs *all, *i;
	bool found = false;
	assert_int_equal(getifaddrs(&all), 0);
	for (i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(out, i->ifa_addr, sizeof(*out));
		found = ntohl(out->sin_addr.s_addr) >> 24 != 127;
	}
	freeifaddrs(all);
	return found;
}

static void endpoints_on_a_network_keep_the_systems_choice(void **state)
{
	struct te_options o = {.provider = over};
	static const struct te_handlers none;
	struct kv_error err = {0};
	struct te_info info;
	struct te *te = NULL;
	char name[16], expected[16];
	int fds[16], fresh = socket(AF_INET, SOCK_STREAM, 0);
	(void)state;
	algorithm(fresh, expected);
	close(fresh);
	if (!network_address((struct sockaddr_in *)&o.local)) {
		print_message("this machine has loopback only\n");
		skip();
	}
	if (te_open(&o, &none, NULL, &te, &err))
		fail_msg("te_open: %s", err.text);
	te_info(te, &info);
	assert_string_equal(info.congestion, "");
	unsigned count = sockets_of(te, fds, KV_COUNT(fds));
	assert_true(count >= 1);
	for (unsigned i = 0; i < count; i++) {
		algorithm(fds[i], name);
		assert_string_equal(name, expected);
	}
	te_close(&te);
}

/* With these, what announces bytes may arrive without them. */
static void settings_that_lose_bytes_are_refused(void **state)
{
	const struct {
		const char *name, *value;
		int rc;
	} row[] = {{"FI_OFI_RXM_DATA_AUTO_PROGRESS", "0", 0},
		   {"FI_OFI_RXM_DATA_AUTO_PROGRESS", "Yes", strcmp(over, "tcp") == 0 ? -KV_ENOTSUP : 0},
		   {strcmp(over, "net") == 0 ? "FI_NET_ZEROCOPY_SIZE" : "FI_TCP_ZEROCOPY_SIZE", "65536", -KV_ENOTSUP}};
	const struct te_options o = {.provider = over};
	static const struct te_handlers none;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(row); i++) {
		struct kv_error err = {0};
		struct te *te = NULL;
		assert_int_equal(setenv(row[i].name, row[i].value, 1), 0);
		assert_int_equal(te_open(&o, &none, NULL, &te, &err), row[i].rc);
		assert_int_equal(unsetenv(row[i].name), 0);
		assert_true(row[i].rc == 0 || strstr(err.text, row[i].name));
		te_close(&te);
	}
}

/* ---- the tcp provider's own endpoints: connections on which nothing was said yet. Without the doorkeeper, who would
 * keep them from it ---- */

/* NULL: this libfabric has none. */
static const char *native(void)
{
	static const char *const names[] = {"tcp-native", "net"};
	for (unsigned i = 0; i < KV_COUNT(names); i++)
		if (provider_here(names[i], NULL))
			return names[i];
	print_message("libfabric has neither tcp-native (1.18 and later) nor net (1.17) here\n");
	return NULL;
}

/* A TCP connection to the engine's address, which its provider has accepted. */
static int silent_caller(struct node *n)
{
	struct te_address a;
	int fds[16], fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned before = sockets_of(n->te, fds, KV_COUNT(fds));
	assert_true(fd >= 0);
	assert_int_equal(te_address(n->te, 0, &a), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)a.data, (socklen_t)a.len), 0);
	WAIT(sockets_of(n->te, fds, KV_COUNT(fds)) == before + 1);
	return fd;
}

static bool hung_up(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static unsigned files_open(void)
{
	unsigned count = 0;
	for (int fd = 0; fd < FDS_LOOKED_AT; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* The provider would keep them when their listener is closed, and follow their pointer to it once they speak or end. */
static void a_fence_lets_go_who_was_about_to_connect(void **state)
{
	enum { CALLERS = 3 };
	struct node a = {0}, b = {0};
	struct te_options o = {.door = TE_DOOR_OFF};
	struct result r = {0};
	const char *name = native();
	int caller[CALLERS];
	(void)state;
	if (!name)
		skip();
	node_open(&a, name, &o);
	node_open(&b, name, &o);
	struct te_peer *ba = node_peer(&b, &a);
	for (unsigned i = 0; i < CALLERS; i++)
		caller[i] = silent_caller(&b);
	assert_int_equal(te_peer_fence(ba, NULL), 0);
	for (unsigned i = 0; i < CALLERS; i++)
		WAIT(hung_up(caller[i]));
	WAIT(b.resets == 1);
	struct te_peer *ab = node_peer(&a, &b);
	te_msg_send(a.te, ab, 0, msg_for(&a, &r, "x", 1), kv_clock_now(&kv_clock_monotonic) + WAIT_NS);
	WAIT(b.messages == 1 && r.done == 1);
	assert_int_equal(r.status, 0);
	te_peer_close(&ab);
	te_peer_close(&ba);
	node_close(&a);
	node_close(&b);
	for (unsigned i = 0; i < CALLERS; i++)
		close(caller[i]);
}

static void a_closed_engine_leaves_no_file_of_a_caller_open(void **state)
{
	struct node a = {0};
	struct te_options o = {.door = TE_DOOR_OFF};
	const char *name = native();
	(void)state;
	if (!name)
		skip();
	unsigned before = files_open();
	node_open(&a, name, &o);
	int caller = silent_caller(&a);
	node_close(&a);
	assert_true(hung_up(caller));
	close(caller);
	assert_int_equal(files_open(), before);
}

/* Both sides hear of both addresses and of the way out: a server says this sentence to its client, and a client to its
 * user. */
static void an_address_of_the_other_family_is_named(void **state)
{
	struct node a = {0};
	struct te_options o = {0};
	struct te_address own, other = {0};
	struct te_peer *peer = NULL;
	struct kv_error err = {0};
	struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(7411), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(7411), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool is_v4;
	(void)state;
	node_open(&a, over, &o);
	assert_int_equal(te_address(a.te, 0, &own), 0);
	is_v4 = own.len == sizeof(v4);
	other.len = is_v4 ? sizeof(v6) : sizeof(v4);
	memcpy(other.data, is_v4 ? (void *)&v6 : (void *)&v4, other.len);
	assert_int_equal(te_peer_open(a.te, &other, 1, &peer, &err), -KV_EPROTO);
	assert_non_null(strstr(err.text, is_v4 ? "its fabric has the IPv6 address ::1"
					       : "its fabric has the IPv4 address 127.0.0.1"));
	assert_non_null(strstr(err.text, is_v4 ? "ours the IPv4 address 127." : "ours the IPv6 address ::1"));
	assert_non_null(strstr(err.text, "--nic"));
	other.len = 3;
	assert_int_equal(te_peer_open(a.te, &other, 1, &peer, &err), -KV_EPROTO);
	assert_non_null(strstr(err.text, "3 bytes"));
	node_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_CASE(an_address_of_the_other_family_is_named),
		NODE_CASE(listener_and_what_it_accepts_have_reno),
		NODE_CASE(a_rebuilt_endpoint_has_reno_again),
		NODE_CASE(sockets_of_the_host_are_left_alone),
		NODE_CASE(endpoints_on_a_network_keep_the_systems_choice),
		NODE_CASE(settings_that_lose_bytes_are_refused),
		NODE_CASE(a_fence_lets_go_who_was_about_to_connect),
		NODE_CASE(a_closed_engine_leaves_no_file_of_a_caller_open),
	};
	over = test_provider_speaks_tcp() ? test_provider() : "tcp";
	test_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
