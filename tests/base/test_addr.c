/* SPDX-License-Identifier: Apache-2.0 */
/* test_addr.c -- which texts are a host with a port, and the sentence for those that are not. */
#include "tests/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static void check_parse(const char *text, const char *host, unsigned port)
{
	struct kv_hostport hp;
	struct kv_error err = {0};
	if (kv_hostport_parse(text, &hp, &err) != 0)
		fail_msg("'%s': %s", text, err.text);
	assert_string_equal(hp.host, host);
	assert_int_equal(hp.port, port);
}

static void hosts_and_ports_parse(void **state)
{
	(void)state;
	check_parse("node7", "node7", 7411);
	check_parse("node-7.rack_1.example.org:8080", "node-7.rack_1.example.org", 8080);
	check_parse("127.0.0.1:0", "127.0.0.1", 0);
	check_parse("10.0.0.1:65535", "10.0.0.1", 65535);
	check_parse("[::1]:50052", "::1", 50052);
	check_parse("[::1]", "::1", 7411);
	check_parse("[fe80::1%eth0]:1", "fe80::1%eth0", 1);
	check_parse("http://node7:99/", "node7", 99);
	check_parse("kv+tls://[::1]/", "::1", 7411);
	check_parse("node7:99/", "node7", 99);
}

static void check_entry(const char *text, const char *id, const char *whole, const char *host, unsigned port)
{
	struct kv_server_entry e;
	struct kv_error err = {0};
	if (kv_server_entry_parse(text, &e, &err) != 0)
		fail_msg("'%s': %s", text, err.text);
	assert_string_equal(e.id, id);
	assert_string_equal(e.text, whole);
	assert_string_equal(e.at.host, host);
	assert_int_equal(e.at.port, port);
	assert_int_equal(e.named, strcmp(id, whole) != 0);
}

static void several_servers_in_one_text_are_refused(void **state)
{
	struct kv_server_entry e;
	struct kv_error err;
	(void)state;
	assert_int_equal(kv_server_entry_parse("h:1,h:2", &e, &err), -KV_EINVAL);
	check_contains(err.text, "--server A --server B");
	assert_int_equal(kv_server_entry_parse("a=h:1,b=h:2", &e, &err), -KV_EINVAL);
	check_contains(err.text, "--server A --server B");
}

static void a_server_of_a_list_has_a_name_or_stands_for_itself(void **state)
{
	static const char *const wrong[] = {"=a:1",           "a b=host:1", "a,b=host:1", "a=", "a=b=host:1",
					    "name=host:port", "host:0",     "a=[::1]:0",  NULL};
	char text[KV_NAME_MAX + 16];
	struct kv_server_entry e = {.id = "kept"};
	struct kv_error err = {0};
	(void)state;
	check_entry("cache-1=10.0.0.1:7000", "cache-1", "cache-1=10.0.0.1:7000", "10.0.0.1", 7000);
	check_entry("ns/pod:1=[::1]:7000", "ns/pod:1", "ns/pod:1=[::1]:7000", "::1", 7000);
	check_entry("a=http://node7:99/", "a", "a=node7:99", "node7", 99);
	check_entry("node7:99", "node7:99", "node7:99", "node7", 99);
	check_entry("http://[::1]:99/", "[::1]:99", "[::1]:99", "::1", 99);
	for (const char *const *w = wrong; *w; w++)
		if (kv_server_entry_parse(*w, &e, &err) != -KV_EINVAL)
			fail_msg("'%s' was taken", *w);
	memset(text, 'n', KV_NAME_MAX);
	snprintf(text + KV_NAME_MAX - 1, 8, "=h:1");
	assert_int_equal(kv_server_entry_parse(text, &e, &err), 0);
	memset(text, 'n', KV_NAME_MAX);
	snprintf(text + KV_NAME_MAX, 8, "=h:1");
	snprintf(e.id, sizeof(e.id), "kept");
	assert_int_equal(kv_server_entry_parse(text, &e, &err), -KV_EINVAL);
	assert_string_equal(e.id, "kept");
	assert_int_equal(kv_server_entry_parse(NULL, &e, &err), -KV_EINVAL);
}

static void where_refused(const char *text, const char *why)
{
	struct kv_error err = {0};
	char out[KV_WHERE_MAX] = "kept";
	assert_int_equal(kv_where_parse(text, out, &err), -KV_EINVAL);
	check_contains(err.text, why);
	assert_string_equal(out, "kept");
}

static void a_server_may_have_several_addresses(void **state)
{
	struct kv_server_entry e;
	struct kv_hostport hp;
	struct kv_error err = {0};
	char where[KV_WHERE_MAX], text[2 * KV_WHERE_MAX];
	(void)state;
	assert_int_equal(kv_where_parse("10.0.0.1:7+[fd00::1]:7+node7", where, &err), 0);
	assert_string_equal(where, "10.0.0.1:7+[fd00::1]:7+node7:7411");
	assert_true(kv_where_at(where, 1, &hp));
	assert_string_equal(hp.host, "fd00::1");
	assert_true(kv_where_at(where, 2, &hp));
	assert_int_equal(hp.port, 7411);
	assert_false(kv_where_at(where, 3, &hp));
	assert_false(kv_where_at("", 0, &hp));
	check_entry("a=10.0.0.1:7+[::1]:8", "a", "a=10.0.0.1:7+[::1]:8", "10.0.0.1", 7);
	assert_int_equal(kv_server_entry_parse("10.0.0.1:7+[::1]:8", &e, &err), -KV_EINVAL);
	check_contains(err.text, "give it a name");
	where_refused("", "host is missing");
	where_refused("a:1+", "host is missing");
	where_refused("+a:1", "host is missing");
	where_refused("a:1++b:1", "host is missing");
	where_refused("a:1+b:0", "port 0");
	where_refused("a:1+A:1", "twice");
	where_refused("a:1+b:1+c:1+d:1+e:1", "at most 4 addresses");
	where_refused("[fe80::1%eth0]:1", "link-local");
	where_refused("a:1+[fe80::1]:1", "link-local");
	memset(text, 'a', sizeof(text));
	memcpy(text, "a:1+", 4);
	text[150] = '+';
	text[300] = '\0';
	where_refused(text, "271 characters together");
	text[sizeof(text) - 1] = '\0';
	memset(text + 4, 'a', sizeof(text) - 5);
	where_refused(text, "longer than 255");
}

static void addresses_are_compared_added_and_sorted(void **state)
{
	char where[KV_WHERE_MAX] = "";
	(void)state;
	assert_true(kv_where_has("a:1+b:1", "b:1"));
	assert_true(kv_where_has("a:1+b:1", "B:1"));
	assert_false(kv_where_has("a:1+b:1", "b:11"));
	assert_false(kv_where_has("a:1+bb:1", "b:1"));
	assert_false(kv_where_has("a:1", ""));
	assert_true(kv_where_shares("a:1+b:1", "c:1+b:1"));
	assert_false(kv_where_shares("a:1+b:1", "c:1+b:2"));
	assert_false(kv_where_shares("", ""));
	assert_true(kv_where_add(where, "node7:1"));
	assert_true(kv_where_add(where, "[::1]:1"));
	assert_true(kv_where_add(where, "[::1]:1")); /* it is there */
	assert_true(kv_where_add(where, "10.0.0.2:1"));
	assert_true(kv_where_add(where, "10.0.0.1:1"));
	assert_false(kv_where_add(where, "10.0.0.3:1"));
	assert_string_equal(where, "node7:1+[::1]:1+10.0.0.2:1+10.0.0.1:1");
	kv_where_sort(where);
	assert_string_equal(where, "10.0.0.1:1+10.0.0.2:1+[::1]:1+node7:1");
}

static struct sockaddr_storage address_of(const char *text)
{
	struct kv_hostport hp;
	struct kv_addresses a;
	assert_int_equal(kv_hostport_parse(text, &hp, NULL), 0);
	assert_true(kv_hostport_numeric(&hp, &a));
	return a.addr[0];
}

static void this_machine_knows_its_addresses(void **state)
{
	struct sockaddr_storage here = address_of("127.0.0.1:5"), far = address_of("198.51.100.7:5"), route;
	struct sockaddr_storage local = address_of("[fe80::1]:5");
	(void)state;
	assert_true(kv_sockaddr_is_ours(&here));
	assert_false(kv_sockaddr_is_ours(&far));
	assert_true(kv_sockaddr_route(&here, sizeof(struct sockaddr_in), &route));
	assert_int_equal(route.ss_family, AF_INET);
	assert_true(kv_sockaddr_is_loopback(&route));
	assert_int_equal(((struct sockaddr_in *)(void *)&route)->sin_port, 0);
	assert_true(kv_sockaddr_is_link_local(&local));
	assert_false(kv_sockaddr_is_link_local(&here));
}

static void check_refused(const char *text, const char *why)
{
	struct kv_hostport hp = {.host = "kept", .port = 1};
	struct kv_error err = {0};
	assert_int_equal(kv_hostport_parse(text, &hp, &err), -KV_EINVAL);
	assert_int_equal(err.code, -KV_EINVAL);
	check_contains(err.text, why);
	assert_string_equal(hp.host, "kept");
	assert_int_equal(kv_hostport_parse(text, &hp, NULL), -KV_EINVAL);
}

static void the_rest_is_refused_with_a_reason(void **state)
{
	(void)state;
	check_refused("", "host is missing");
	check_refused(NULL, "host is missing");
	check_refused("http://", "host is missing");
	check_refused(":7411", "host is missing");
	check_refused("::1", "brackets");
	check_refused("::1:7411", "brackets");
	check_refused("a:1:2", "brackets");
	check_refused("[::1", "not closed");
	check_refused("[node7]:1", "not an IPv6 address");
	check_refused("[]:1", "not an IPv6 address");
	check_refused("[::1%]:1", "not an IPv6 address");
	check_refused("node7:", "port");
	check_refused("node7:65536", "port");
	check_refused("node7:-1", "port");
	check_refused("node7:+1", "port");
	check_refused("node7:0x50", "port");
	check_refused("node7:http", "port");
	check_refused("node7:00000000080", "port");
	check_refused("[::1]7411", "port");
	check_refused("node 7", "characters");
	check_refused("user@node7", "characters");
	check_refused("node7/path", "characters");
	check_refused("n\xc3\xb6"
		      "de",
		      "characters");
}

static void a_host_is_bounded(void **state)
{
	(void)state;
	char text[400];
	struct kv_hostport hp;
	memset(text, 'a', sizeof(text));
	text[255] = '\0';
	assert_int_equal(kv_hostport_parse(text, &hp, NULL), 0);
	assert_int_equal(strlen(hp.host), 255);
	text[255] = 'a';
	text[256] = '\0';
	check_refused(text, "longer than 255");
}

static void formatting_is_the_inverse_of_parsing(void **state)
{
	(void)state;
	const char *const rows[] = {"node7:1", "127.0.0.1:7411", "[::1]:65535", "[fe80::1%eth0]:0"};
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		struct kv_hostport hp;
		char buf[KV_HOST_MAX + 16];
		assert_int_equal(kv_hostport_parse(rows[i], &hp, NULL), 0);
		assert_string_equal(kv_hostport_format(&hp, buf, sizeof(buf)), rows[i]);
	}
}

static void resolve(const char *text, struct sockaddr_storage *sa)
{
	struct kv_hostport hp;
	struct kv_error err = {0};
	socklen_t len = 0;
	assert_int_equal(kv_hostport_parse(text, &hp, &err), 0);
	if (kv_hostport_resolve(&hp, sa, &len, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(len, sa->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
}

static void literals_resolve_and_print(void **state)
{
	(void)state;
	struct sockaddr_storage sa;
	char buf[64];
	resolve("127.0.0.1:7411", &sa);
	assert_string_equal(kv_sockaddr_format(&sa, buf, sizeof(buf)), "127.0.0.1:7411");
	resolve("[2001:db8::7]:80", &sa);
	assert_string_equal(kv_sockaddr_format(&sa, buf, sizeof(buf)), "[2001:db8::7]:80");
}

static void localhost_is_ipv4(void **state)
{
	(void)state;
	struct sockaddr_storage sa;
	char buf[64];
	resolve("localhost:7", &sa);
	assert_string_equal(kv_sockaddr_format(&sa, buf, sizeof(buf)), "127.0.0.1:7");
}

static void an_unknown_host_is_named(void **state)
{
	(void)state;
	/* getaddrinfo refuses it without a name server: an empty label is not a name. */
	struct kv_hostport hp = {.host = "no..host", .port = 1};
	struct sockaddr_storage sa;
	socklen_t len = 7;
	struct kv_error err = {0};
	assert_int_equal(kv_hostport_resolve(&hp, &sa, &len, &err), -KV_EINVAL);
	check_contains(err.text, "no..host");
	assert_int_equal(len, 7);
}

static struct sockaddr_storage storage_of(const char *address)
{
	struct sockaddr_storage sa = {0};
	if (strchr(address, ':')) {
		sa.ss_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, address, &((struct sockaddr_in6 *)(void *)&sa)->sin6_addr), 1);
	} else {
		sa.ss_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, address, &((struct sockaddr_in *)(void *)&sa)->sin_addr), 1);
	}
	return sa;
}

static void loopback_is_recognised(void **state)
{
	(void)state;
	const char *const yes[] = {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "::ffff:127.9.9.9"};
	const char *const no[] = {"0.0.0.0", "128.0.0.1",       "126.255.255.255", "10.0.0.1", "::",
				  "::2",     "::ffff:10.0.0.1", "::127.0.0.1",     "fe80::1"};
	for (size_t i = 0; i < KV_COUNT(yes); i++) {
		struct sockaddr_storage sa = storage_of(yes[i]);
		assert_true(kv_sockaddr_is_loopback(&sa));
	}
	for (size_t i = 0; i < KV_COUNT(no); i++) {
		struct sockaddr_storage sa = storage_of(no[i]);
		assert_false(kv_sockaddr_is_loopback(&sa));
	}
	struct sockaddr_storage other = {.ss_family = AF_UNIX};
	assert_false(kv_sockaddr_is_loopback(&other));
}

static void another_family_prints_its_number(void **state)
{
	(void)state;
	struct sockaddr_storage other = {.ss_family = AF_UNIX};
	char buf[64];
	assert_string_equal(kv_sockaddr_format(&other, buf, sizeof(buf)), "address of family 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_and_ports_parse),
		cmocka_unit_test(several_servers_in_one_text_are_refused),
		cmocka_unit_test(a_server_of_a_list_has_a_name_or_stands_for_itself),
		cmocka_unit_test(the_rest_is_refused_with_a_reason),
		cmocka_unit_test(a_server_may_have_several_addresses),
		cmocka_unit_test(addresses_are_compared_added_and_sorted),
		cmocka_unit_test(this_machine_knows_its_addresses),
		cmocka_unit_test(a_host_is_bounded),
		cmocka_unit_test(formatting_is_the_inverse_of_parsing),
		cmocka_unit_test(literals_resolve_and_print),
		cmocka_unit_test(localhost_is_ipv4),
		cmocka_unit_test(an_unknown_host_is_named),
		cmocka_unit_test(loopback_is_recognised),
		cmocka_unit_test(another_family_prints_its_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
