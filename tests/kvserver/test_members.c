/* SPDX-License-Identifier: Apache-2.0 */
/* test_members.c -- what sources of members read, and what the guard believes: without a file or a network. */
#include "tests/check.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvserver/member/private.h"
#include "kvserver/member/etcd_text.h"
#include "kvserver/member/guard.h"
#include "kvserver/member/membership.h"
#include "kvserver/member/text.h"

/* ---- text ---- */

static void members_are_read(void **state)
{
	(void)state;
	struct kv_member m;
	struct kv_error err;
	assert_int_equal(member_parse("a=h:1;weight=7;zone=z-1;state=joining", &m, &err), 0);
	assert_string_equal(m.node_id, "a");
	assert_string_equal(m.address, "h:1");
	assert_string_equal(m.zone, "z-1");
	assert_int_equal(m.weight, 7);
	assert_int_equal(m.state, KV_MEMBER_JOINING);
	assert_int_equal(member_parse("[::1]:7", &m, &err), 0);
	assert_string_equal(m.node_id, "[::1]:7");
	assert_int_equal(m.weight, 1);
	assert_int_equal(m.state, KV_MEMBER_UP);
	assert_int_equal(member_parse("a=10.0.0.1:7+[fd00::1]:7+h;weight=2", &m, &err), 0);
	assert_string_equal(m.address, "10.0.0.1:7+[fd00::1]:7+h:7411");
	assert_int_equal(m.weight, 2);
}

static void what_is_no_member_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"",
					  "a=",
					  "a=h:0",
					  "a=h:1;",
					  "a=h:1;weight=0",
					  "a=h:1;weight=1001",
					  "a=h:1;weight=1x",
					  "a=h:1;zone=",
					  "a=h:1;zone=a b",
					  "a=h:1;state=gone",
					  "a=h:1;colour=red",
					  "a b=h:1",
					  "a=h:1+",
					  "a=h:1+h:1",
					  "h:1+g:1",
					  "a=[fe80::1%eth0]:1",
					  "a=h:1 "};
	struct kv_member m = {.weight = 99};
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kv_error err = {0};
		assert_int_equal(member_parse(bad[i], &m, &err), -KV_EINVAL);
		assert_true(err.text[0] != '\0');
	}
	assert_int_equal(m.weight, 99);
}

static void a_list_has_each_address_once(void **state)
{
	(void)state;
	const struct source_setup twice = {.spec = "b=h:1+g:1,a=g:1"}, once = {.spec = "b=h:1+g:1,a=g:2"};
	struct kv_error err = {0};
	assert_int_equal(source_list.check(&twice, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "members b and a have an address in common: g:1"));
	assert_int_equal(source_list.check(&once, &err), 0);
}

static void a_server_knows_its_own_addresses(void **state)
{
	static const struct {
		const char *where, *listen, *advertised, *foreign;
	} rows[] = {
		{"127.0.0.1:7", "127.0.0.1:7", "", ""},
		{"127.0.0.1:8", "127.0.0.1:7", "", "127.0.0.1:8"},
		{"127.0.0.1:7+[::1]:7", "127.0.0.1:7", "", "[::1]:7"},
		{"127.0.0.1:7+[::1]:7", "[::1]:7", "", "127.0.0.1:7"},
		{"127.0.0.2:7", "127.0.0.1:7", "", "127.0.0.2:7"},
		{"127.0.0.2:7", "0.0.0.0:7", "", ""},
		{"127.0.0.1:7+[::1]:7", "0.0.0.0:7", "", "[::1]:7"},
		{"127.0.0.1:7+198.51.100.7:7", "[::]:7", "", "198.51.100.7:7"},
		{"198.51.100.7:99", "0.0.0.0:7", "198.51.100.7:99", ""},
		{"localhost:7", "127.0.0.1:7", "", ""},
	};
	char out[KV_WHERE_MAX];
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		unsigned n = own_foreign(rows[i].where, rows[i].listen, rows[i].advertised, out);
		print_message("%s on %s: %s\n", rows[i].where, rows[i].listen, out);
		assert_string_equal(out, rows[i].foreign);
		assert_int_equal(n, out[0] != '\0');
	}
}

/* ---- asking members ---- */

static int listen_at(const char *text, uint16_t *out_port)
{
	struct kv_hostport hp;
	struct sockaddr_storage sa;
	struct sockaddr_in in;
	socklen_t len;
	int fd;
	assert_int_equal(kv_hostport_parse(text, &hp, NULL), 0);
	assert_int_equal(kv_hostport_resolve(&hp, &sa, &len, NULL), 0);
	fd = socket(sa.ss_family, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len) | listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	memcpy(&in, &sa, sizeof(in));
	*out_port = ntohs(in.sin_port);
	return fd;
}

/* One that listens at its second address alone answers. */
static void a_member_answers_at_any_address(void **state)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	struct kv_view whom = {0}, silent = {0};
	struct kv_member m = {.weight = 1, .state = KV_MEMBER_UP};
	struct ping *p;
	uint16_t port;
	int fd = listen_at("127.0.0.1:0", &port);
	(void)state;
	snprintf(m.node_id, sizeof(m.node_id), "there");
	snprintf(m.address, sizeof(m.address), "[::1]:%u+127.0.0.2:%u+127.0.0.1:%u", port, port, port);
	assert_int_equal(kv_view_add(&whom, &m), 0);
	snprintf(m.node_id, sizeof(m.node_id), "gone");
	snprintf(m.address, sizeof(m.address), "[::1]:%u+127.0.0.2:%u", port, port);
	assert_int_equal(kv_view_add(&whom, &m), 0);
	assert_int_equal(ping_start(&whom, &p), 0);
	while (!ping_take(&p, &silent))
		nanosleep(&pause, NULL);
	assert_int_equal(silent.count, 1);
	assert_string_equal(silent.member[0].node_id, "gone");
	close(fd);
	kv_view_fini(&whom);
	kv_view_fini(&silent);
}

static void base64_goes_both_ways(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
					       {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\x01", "//4B"}};
	static const char *const bad[] = {"Z", "Zg=", "Z===", "Zg==Zg==", "Z g=", "Zm9v=", "=m9v", "Zm=v"};
	char buf[64];
	size_t len;
	for (unsigned i = 0; i < KV_COUNT(pairs); i++) {
		assert_true(base64_write(pairs[i][0], strlen(pairs[i][0]), buf, sizeof(buf)));
		assert_string_equal(buf, pairs[i][1]);
		assert_true(base64_read(pairs[i][1], buf, sizeof(buf), &len));
		assert_int_equal(len, strlen(pairs[i][0]));
		assert_memory_equal(buf, pairs[i][0], len + 1);
	}
	for (unsigned i = 0; i < KV_COUNT(bad); i++)
		assert_false(base64_read(bad[i], buf, sizeof(buf), &len));
	assert_false(base64_write("foo", 3, buf, 4));
	assert_true(base64_write("foo", 3, buf, 5));
	assert_false(base64_read("Zm9v", buf, 3, &len));
}

/* What is put is read as it was; what others have put is a member or is left out. */
static void members_go_through_etcd(void **state)
{
	(void)state;
	const struct kv_member m = {.node_id = "n-1",
				    .address = "10.0.0.1:7411+[fd00::1]:7411",
				    .zone = "z",
				    .weight = 3,
				    .incarnation = 0xfedcba9876543210,
				    .state = KV_MEMBER_DRAINING};
	char *text = etcd_put_text("/p/", &m, "7");
	json_t *kv = json_loads(text, 0, NULL);
	struct kv_view a = {0}, b = {0};
	struct kv_member got;
	assert_true(etcd_member_read(kv, "/p/", &got));
	assert_int_equal(kv_view_add(&a, &m) | kv_view_add(&b, &got), 0);
	assert_true(kv_view_same(&a, &b));
	assert_false(etcd_member_read(kv, "/q/", &got));
	json_object_set_new(kv, "value", json_string("e30=")); /* {} */
	assert_false(etcd_member_read(kv, "/p/", &got));
	json_object_set_new(kv, "value", json_integer(1));
	assert_false(etcd_member_read(kv, "/p/", &got));
	json_decref(kv);
	free(text);
	kv_view_fini(&a);
	kv_view_fini(&b);
}

static void the_mark_of_an_etcd_is_no_member(void **state)
{
	(void)state;
	char *text = etcd_mark_text("/p/", "0123456789abcdef"), mark[ETCD_MARK_LEN + 1];
	json_t *txn = json_loads(text, 0, NULL);
	json_t *put = json_object_get(json_array_get(json_object_get(txn, "success"), 0), "request_put");
	struct kv_member m;
	char id[KV_NAME_MAX];
	assert_true(etcd_mark_read(put, "/p/", mark));
	assert_string_equal(mark, "0123456789abcdef");
	assert_false(etcd_mark_read(put, "/p", mark));
	assert_false(etcd_member_read(put, "/p/", &m) || etcd_id_read(put, "/p/", id));
	json_object_set_new(put, "value", json_string("MDEyMw==")); /* 0123 */
	assert_true(etcd_mark_read(put, "/p/", mark));
	assert_string_equal(mark, "");
	json_decref(txn);
	free(text);
}

/* ---- guard ---- */

/* A view of members "a", "b", ... for each letter. */
static struct kv_view view_of(const char *letters)
{
	struct kv_view v = {.epoch = 1};
	for (; *letters; letters++) {
		struct kv_member m = {.weight = 1, .state = KV_MEMBER_UP};
		snprintf(m.node_id, sizeof(m.node_id), "%c", *letters);
		snprintf(m.address, sizeof(m.address), "h:%d", *letters);
		assert_int_equal(kv_view_add(&v, &m), 0);
	}
	return v;
}

static void view_is(const struct kv_view *v, const char *letters)
{
	char text[64] = "";
	for (unsigned i = 0; i < v->count; i++)
		strcat(text, v->member[i].node_id);
	assert_string_equal(text, letters);
}

static uint64_t now_ns;

static int hear(struct guard *g, const char *letters)
{
	struct kv_view named = view_of(letters);
	unsigned doubts;
	int rc = guard_hear(g, &named, now_ns, &doubts);
	kv_view_fini(&named);
	return rc < 0 ? rc : rc * 100 + (int)doubts;
}

static unsigned silent(struct guard *g, const char *letters)
{
	struct kv_view v = view_of(letters);
	unsigned gone = guard_silent(g, &v);
	kv_view_fini(&v);
	return gone;
}

static void half_may_leave_and_more_may_not(void **state)
{
	(void)state;
	struct guard g = {0};
	assert_int_equal(hear(&g, ""), 0);
	assert_int_equal(hear(&g, "abcd"), 100);
	assert_int_equal(hear(&g, "abcd"), 0);
	assert_int_equal(hear(&g, "ab"), 100);
	view_is(&g.view, "ab");
	assert_int_equal(hear(&g, "abcde"), 100);
	assert_int_equal(hear(&g, "ab"), 3);
	view_is(&g.view, "abcde");
	view_is(&g.doubted, "cde");
	guard_fini(&g);
}

/* etcd tells of revoked leases one by one. */
/* A server that the source calls otherwise now is no member under its former name, however many are. */
static void a_new_name_for_an_address_leaves_no_phantom(void **state)
{
	(void)state;
	struct guard g = {0};
	struct kv_view named = view_of("wxyz");
	unsigned doubts;
	hear(&g, "abcd");
	for (unsigned i = 0; i < 3; i++) /* the servers b, c and d; w is new */
		snprintf(named.member[i + 1].address, sizeof(named.member[0].address), "h:%d", "bcd"[i]);
	assert_int_equal(guard_hear(&g, &named, 0, &doubts), 1);
	assert_int_equal(doubts, 0); /* a alone has gone */
	view_is(&g.view, "wxyz");
	kv_view_fini(&named);
	hear(&g, "abcd");
	view_is(&g.view, "abcd");
	view_is(&g.doubted, "");
	guard_fini(&g);
}

/* Doubted, and then named otherwise. */
static void a_doubted_member_goes_when_its_address_is_named(void **state)
{
	(void)state;
	struct guard g = {0};
	struct kv_view named = view_of("ax");
	unsigned doubts;
	hear(&g, "abcd");
	assert_int_equal(hear(&g, "a"), 3);
	snprintf(named.member[1].address, sizeof(named.member[1].address), "h:%d", 'c');
	assert_int_equal(guard_hear(&g, &named, 0, &doubts), 1);
	view_is(&g.view, "abdx");
	view_is(&g.doubted, "bd");
	kv_view_fini(&named);
	guard_fini(&g);
}

static void half_may_leave_within_a_window(void **state)
{
	(void)state;
	struct guard g = {0};
	now_ns = 0;
	hear(&g, "abcdef");
	assert_int_equal(hear(&g, "abcde"), 100);
	now_ns += GUARD_WINDOW_NS / 2;
	assert_int_equal(hear(&g, "abcd"), 100);
	assert_int_equal(hear(&g, "abc"), 100);
	assert_int_equal(hear(&g, "ab"), 1); /* the fourth of six */
	view_is(&g.view, "abc");
	assert_int_equal(hear(&g, "abcf"), 100); /* it is back, and leaves room for another */
	assert_int_equal(hear(&g, "abf"), 100);
	view_is(&g.view, "abf");
	now_ns += 2 * GUARD_WINDOW_NS;
	assert_int_equal(hear(&g, "ab"), 100);
	guard_fini(&g);
	now_ns = 0;
}

static void an_empty_answer_is_never_believed(void **state)
{
	(void)state;
	struct guard g = {0};
	assert_int_equal(hear(&g, "a"), 100);
	assert_int_equal(hear(&g, ""), 1);
	assert_int_equal(hear(&g, ""), 0); /* no new doubt */
	view_is(&g.view, "a");
	assert_int_equal(silent(&g, "b"), 0);
	assert_int_equal(silent(&g, "a"), 1);
	view_is(&g.view, "");
	guard_fini(&g);
}

static void the_doubted_stay_until_named_or_silent(void **state)
{
	(void)state;
	struct guard g = {0};
	hear(&g, "abcdef");
	assert_int_equal(hear(&g, "a"), 5);
	assert_int_equal(silent(&g, "bc"), 2);
	view_is(&g.view, "adef");
	assert_int_equal(hear(&g, "ad"), 0); /* two of four are lost: no more than half, but they were doubted before */
	view_is(&g.view, "adef");
	view_is(&g.doubted, "ef");
	assert_int_equal(hear(&g, "adg"), 100);
	view_is(&g.view, "adefg");
	assert_int_equal(hear(&g, "ad"), 1); /* three of five: the next one is doubted, too */
	assert_int_equal(hear(&g, "adefg"), 0);
	view_is(&g.doubted, "");
	assert_int_equal(silent(&g, "adefg"), 0); /* only the doubted are asked */
	guard_fini(&g);
}

/* Against a stupid model: nobody who is named is missing, and who is neither named nor doubted is not there. */
static void any_history_keeps_who_is_named(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	struct guard g = {0};
	for (int i = 0; i < 20000; i++) {
		char letters[16] = "";
		unsigned before = g.view.count, n = 0;
		for (char c = 'a'; c < 'k'; c++)
			if (kv_prng_below(&p, 3))
				letters[n++] = c;
		if (kv_prng_below(&p, 4) == 0) {
			silent(&g, letters);
			continue;
		}
		if (kv_prng_below(&p, 8) == 0)
			letters[n = 0] = '\0';
		assert_true(hear(&g, letters) >= 0);
		for (char *c = letters; *c; c++) {
			char id[2] = {*c, 0};
			assert_non_null(kv_view_find(&g.view, id));
			assert_null(kv_view_find(&g.doubted, id));
		}
		assert_int_equal(g.view.count, n + g.doubted.count);
		assert_true(g.view.count * 2 >= before); /* a source alone never takes more than half */
	}
	guard_fini(&g);
}

/* ---- what services send ---- */

static void json_of_too_many_values_is_refused(void **state)
{
	(void)state;
	const size_t len = 2 * TEXT_VALUES_MAX + 1;
	char *text = malloc(len);
	json_t *list = text_json("{\"a\":[1,2]}", 11);
	assert_int_equal(json_array_size(json_object_get(list, "a")), 2);
	json_decref(list);
	assert_null(text_json("no", 2));
	assert_null(text_json("", 0));
	assert_non_null(text);
	for (size_t i = 0; i < len; i++)
		text[i] = i % 2 ? ',' : '0';
	text[0] = '[';
	text[len - 1] = ']';
	assert_null(text_json(text, len));
	memset(text + 1, ' ', len - 2);
	list = text_json(text, len);
	assert_non_null(list);
	json_decref(list);
	free(text);
}

/* ---- sources, with names of our own ---- */

static struct kv_view told;
static unsigned troubles, alives, tellings;

static void on_members(void *arg, const struct kv_view *v)
{
	(void)arg;
	tellings++;
	assert_int_equal(members_copy(v, &told), 0);
}

static void on_alive(void *arg)
{
	(void)arg;
	alives++;
}

static void on_trouble(void *arg, const char *why)
{
	(void)arg;
	assert_true(why[0] != '\0');
	troubles++;
}

static unsigned unnamed;

static void on_unnamed(void *arg, const char *at, unsigned members)
{
	(void)arg;
	assert_non_null(at);
	unnamed += members;
}

static const struct source_sink sink = {
	.members = on_members, .alive = on_alive, .trouble = on_trouble, .unnamed = on_unnamed};

static struct sockaddr_in address[4];
static struct sockaddr_in6 address6[4]; /* fd00::N, where has6 */
static bool has6;
static struct addrinfo info[8];
static int look_up_rc, name_rc;
static unsigned names_asked, name_silent, silent_too; /* of these two addresses nobody says the name */

static int look_up(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
	(void)hints;
	assert_string_equal(host, "kv");
	for (unsigned i = 0; i < KV_COUNT(address); i++) {
		struct addrinfo *v4 = &info[i], *v6 = &info[KV_COUNT(address) + i];
		address[i].sin_family = AF_INET;
		address6[i].sin6_family = AF_INET6;
		address[i].sin_port = address6[i].sin6_port = htons((uint16_t)atoi(port));
		*v4 = (struct addrinfo){.ai_family = AF_INET,
					.ai_addr = (struct sockaddr *)&address[i],
					.ai_addrlen = sizeof(address[i]),
					.ai_next = v4 + 1};
		*v6 = (struct addrinfo){.ai_family = AF_INET6,
					.ai_addr = (struct sockaddr *)&address6[i],
					.ai_addrlen = sizeof(address6[i]),
					.ai_next = v6 + 1};
	}
	info[KV_COUNT(address) - 1].ai_next = has6 ? &info[KV_COUNT(address)] : NULL;
	info[KV_COUNT(info) - 1].ai_next = NULL;
	*out = &info[0];
	return look_up_rc;
}

static void list_free(struct addrinfo *list)
{
	assert_ptr_equal(list, &info[0]);
}

/* 10.0.0.N and fd00::N are "kv-N.kv.ns.svc" for even N, and elsewhere for odd ones. */
static int name_of(const struct addrinfo *a, char *buf, unsigned cap)
{
	uint32_t n = a->ai_family == AF_INET
			     ? ntohl(((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr.s_addr) & 255
			     : ((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr.s6_addr[15];
	names_asked++;
	if (name_rc || n == name_silent || (silent_too && n == silent_too))
		return name_rc ? name_rc : EAI_AGAIN;
	snprintf(buf, cap, n % 2 ? "host-%u.example" : "kv-%u.kv.ns.svc", n);
	return 0;
}

static void addresses(unsigned a, unsigned b, unsigned c, unsigned d)
{
	const unsigned all[] = {a, b, c, d};
	for (unsigned i = 0; i < KV_COUNT(all); i++) {
		address[i].sin_addr.s_addr = htonl(0x0A000000 + all[i]);
		address6[i].sin6_addr = (struct in6_addr){.s6_addr = {0xfd, [15] = (uint8_t)all[i]}};
	}
}

static unsigned lines, lines_one_family;

static void on_warning(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	lines++;
	lines_one_family += strstr(line, "event=members_one_family") != NULL;
}

static struct source *dns_begin_at(const char *self)
{
	static const struct source_names names = {look_up, list_free, name_of};
	static const struct kv_log log = {.level = KV_LOG_WARN, .write = on_warning};
	struct source_setup setup = {.spec = "kv:7411", .sink = &sink, .pace = 1, .names = &names, .log = &log};
	struct source *s;
	snprintf(setup.self.address, sizeof(setup.self.address), "%s", self);
	has6 = false;
	lines = lines_one_family = 0;
	assert_int_equal(source_dns.check(&setup, NULL), 0);
	assert_int_equal(source_dns.open(&setup, &s), 0);
	troubles = tellings = unnamed = names_asked = name_silent = silent_too = 0;
	name_rc = look_up_rc = 0;
	return s;
}

static struct source *dns_begin(void)
{
	return dns_begin_at("");
}

static void dns_end(struct source *s)
{
	source_dns.close(&s);
	assert_null(s);
	kv_view_fini(&told);
}

static void dns_sorts_and_names(void **state)
{
	struct source *s = dns_begin();
	uint64_t epoch;
	(void)state;
	addresses(4, 3, 2, 3);
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	assert_string_equal(told.member[0].node_id, "10.0.0.3:7411");
	assert_string_equal(told.member[1].node_id, "kv-2");
	assert_string_equal(told.member[2].address, "10.0.0.4:7411");
	epoch = told.epoch;
	addresses(2, 3, 3, 4);
	source_dns.turn(s, 0);
	assert_int_equal(told.epoch, epoch);
	look_up_rc = EAI_AGAIN;
	source_dns.turn(s, 0);
	look_up_rc = EAI_NONAME;
	source_dns.turn(s, 0);
	assert_int_equal(troubles, 2);
	assert_int_equal(told.count, 3);
	dns_end(s);
}

/* A server with an IPv4 and an IPv6 address of one name is one member, with both. */
static void dns_joins_both_families_of_a_name(void **state)
{
	struct source *s = dns_begin();
	uint64_t epoch;
	(void)state;
	has6 = true;
	addresses(2, 4, 6, 6);
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	assert_string_equal(told.member[0].node_id, "kv-2");
	assert_string_equal(told.member[0].address, "10.0.0.2:7411+[fd00::2]:7411");
	assert_int_equal(names_asked, 6);
	epoch = told.epoch;
	addresses(6, 4, 2, 2);
	source_dns.turn(s, 0);
	assert_int_equal(told.epoch, epoch);
	assert_int_equal(names_asked, 6);
	has6 = false; /* one family goes: it is still that member */
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	assert_string_equal(told.member[0].address, "10.0.0.2:7411");
	assert_int_equal(lines, 0);
	dns_end(s);
}

/* Without names nobody knows which addresses are of one server: those of one family are members. */
static void dns_takes_one_family_without_names(void **state)
{
	struct source *s = dns_begin();
	(void)state;
	has6 = true;
	addresses(1, 3, 4, 4);
	source_dns.turn(s, 0);
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	assert_string_equal(told.member[0].node_id, "10.0.0.1:7411");
	assert_string_equal(told.member[1].node_id, "10.0.0.3:7411");
	assert_string_equal(told.member[2].address, "10.0.0.4:7411+[fd00::4]:7411");
	assert_int_equal(names_asked, 6); /* those that are left out are not asked for again */
	assert_int_equal(lines_one_family, 1);
	dns_end(s);
	s = dns_begin_at("[fd00::1]:7411");
	has6 = true;
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	assert_string_equal(told.member[0].node_id, "[fd00::1]:7411");
	assert_int_equal(lines_one_family, 1);
	dns_end(s);
}

/* A resolver that does not answer for names: members are not called by their addresses at once. */
static void dns_waits_for_names(void **state)
{
	struct source *s = dns_begin();
	(void)state;
	addresses(2, 4, 6, 8);
	name_rc = EAI_AGAIN;
	source_dns.turn(s, 0);
	source_dns.turn(s, 0);
	assert_int_equal(troubles, 2);
	assert_int_equal(tellings, 0);
	assert_int_equal(names_asked, 2); /* one answer that does not come is enough */
	name_rc = 0;
	source_dns.turn(s, 0);
	assert_int_equal(tellings, 1);
	assert_string_equal(told.member[0].node_id, "kv-2");
	addresses(2, 4, 6, 10);
	name_rc = EAI_AGAIN;
	for (unsigned i = 0; i < 3; i++) {
		source_dns.turn(s, 0);
		assert_int_equal(told.count, 3); /* the others are in force */
		assert_non_null(kv_view_find(&told, "kv-6"));
	}
	source_dns.turn(s, 0);
	assert_int_equal(troubles, 2);
	assert_int_equal(told.count, 4);
	assert_non_null(kv_view_find(&told, "kv-2"));
	assert_non_null(kv_view_find(&told, "10.0.0.10:7411"));
	dns_end(s);
}

/* One address of which nobody says the name: the others have theirs, and it is called by its address in the end. */
static void dns_one_without_a_name(void **state)
{
	struct source *s = dns_begin();
	(void)state;
	name_silent = 2; /* it is the first of all in their order */
	addresses(2, 4, 6, 8);
	for (unsigned i = 0; i < 3; i++)
		source_dns.turn(s, 0);
	assert_int_equal(troubles, 3);
	assert_int_equal(tellings, 0); /* the first view is a whole one */
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 4);
	assert_non_null(kv_view_find(&told, "10.0.0.2:7411"));
	assert_non_null(kv_view_find(&told, "kv-8"));
	name_silent = 10; /* a new one, and another beside it */
	addresses(2, 4, 10, 12);
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 2); /* 6 and 8 are gone at once */
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	assert_non_null(kv_view_find(&told, "kv-12"));
	name_silent = 0;
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 4);
	assert_non_null(kv_view_find(&told, "kv-10"));
	assert_int_equal(troubles, 3);
	assert_int_equal(unnamed, 1);
	dns_end(s);
}

/* An address comes when another one has been without a name for long: it has its own time to hear its name. */
static void dns_gives_each_address_its_time(void **state)
{
	struct source *s = dns_begin();
	(void)state;
	addresses(2, 4, 6, 6);
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	name_silent = 8;
	addresses(2, 4, 6, 8);
	for (unsigned i = 0; i < 3; i++)
		source_dns.turn(s, 0);
	name_silent = 10;
	addresses(2, 4, 6, 10); /* in the place of 8, which was left out three times */
	source_dns.turn(s, 0);
	assert_int_equal(told.count, 3);
	name_silent = 0;
	source_dns.turn(s, 0);
	assert_non_null(kv_view_find(&told, "kv-10"));
	assert_int_equal(unnamed, 0);
	dns_end(s);
}

/* Two that nobody can name come first in the order of addresses: the third one is asked for all the same. */
static void dns_asks_for_each_address(void **state)
{
	struct source *s = dns_begin();
	(void)state;
	name_silent = 2;
	silent_too = 4;
	addresses(2, 4, 6, 6);
	for (unsigned i = 0; i < 4; i++)
		source_dns.turn(s, 0);
	assert_int_equal(tellings, 1);
	assert_int_equal(told.count, 3);
	assert_non_null(kv_view_find(&told, "kv-6"));
	assert_int_equal(unnamed, 2);
	dns_end(s);
}

/* At the start there is always an address that came just now and has no name: the others are told in the end. */
static void dns_first_view_comes(void **state)
{
	struct source *s = dns_begin();
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(tellings, 0);
		name_silent = 10 + 2 * i;
		addresses(2, 4, 6, name_silent);
		source_dns.turn(s, 0);
	}
	assert_int_equal(tellings, 1);
	assert_int_equal(troubles, 3);
	assert_int_equal(told.count, 3);
	assert_int_equal(unnamed, 0);
	dns_end(s);
}

/* The first view waits for one of many names: the others are not asked for again. */
static void dns_keeps_the_names_it_heard(void **state)
{
	struct source *s = dns_begin();
	(void)state;
	addresses(2, 4, 6, 8);
	name_silent = 8;
	source_dns.turn(s, 0);
	assert_int_equal(names_asked, 4);
	assert_int_equal(tellings, 0);
	name_silent = 0;
	source_dns.turn(s, 0);
	assert_int_equal(names_asked, 5);
	assert_int_equal(tellings, 1);
	assert_int_equal(told.count, 4);
	assert_int_equal(troubles, 1);
	dns_end(s);
}

/* ---- what clients are told ---- */

static _Atomic int view_rc;
static _Atomic unsigned views_offered, views_taken, unannounced;

static int on_view(void *arg, const struct kv_view *view)
{
	(void)arg;
	(void)view;
	views_offered++;
	views_taken += view_rc == 0;
	return view_rc;
}

static void on_line(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	unannounced += strstr(line, " | event=view_untold epoch=") && strstr(line, "reason=\"no memory");
}

static bool within(const _Atomic unsigned *n, unsigned at_least)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	for (unsigned i = 0; i < 3000 && *n < at_least; i++)
		nanosleep(&pause, NULL);
	return *n >= at_least;
}

/* A view for which there is no memory is told later, and said once. */
static void a_view_that_cannot_be_told_is_told_later(void **state)
{
	(void)state;
	const struct kv_log log = {.level = KV_LOG_WARN, .write = on_line};
	const struct membership_options options = {.members = "list:a=127.0.0.1:1",
						   .self = {.node_id = "a", .address = "127.0.0.1:1", .weight = 1},
						   .log = &log,
						   .on_view = on_view};
	struct membership *m;
	view_rc = -KV_ENOMEM;
	assert_int_equal(membership_start(&options, &m, NULL), 0);
	assert_true(within(&views_offered, 3));
	assert_int_equal(unannounced, 1);
	assert_int_equal(views_taken, 0);
	view_rc = 0;
	assert_true(within(&views_taken, 1));
	membership_stop(&m);
	assert_int_equal(unannounced, 1);
}

/* A view that has this server at an address where it does not listen: that is said, once for the same addresses. */
static _Atomic unsigned foreign_said, foreign_all;

static void on_foreign(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	foreign_said += strstr(line, "event=member_address address=") != NULL;
	foreign_all += strstr(line, "clients do not reach it") != NULL;
}

static void a_server_at_a_foreign_address_says_so(void **state)
{
	const struct kv_log log = {.level = KV_LOG_WARN, .write = on_foreign};
	static const struct {
		const char *members;
		unsigned said, all;
	} rows[] = {
		{"list:a=127.0.0.1:7", 0, 0}, {"list:a=127.0.0.2:7+127.0.0.1:7", 1, 0}, {"list:a=127.0.0.2:7", 1, 1}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		const struct membership_options options = {.members = rows[i].members,
							   .self = {.node_id = "a", .weight = 1},
							   .listen = "127.0.0.1:7",
							   .log = &log,
							   .on_view = on_view};
		struct membership *m;
		foreign_said = foreign_all = views_taken = 0;
		view_rc = 0;
		assert_int_equal(membership_start(&options, &m, NULL), 0);
		assert_true(within(&views_taken, 1));
		membership_stop(&m);
		assert_int_equal(foreign_said, rows[i].said);
		assert_int_equal(foreign_all, rows[i].all);
	}
}

/* ---- the drain ---- */

static struct kv_view
	said; /* what on_view had last; the membership calls it under a lock, and so does the test's own */
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

static int on_view_keep(void *arg, const struct kv_view *view)
{
	int rc;
	(void)arg;
	pthread_mutex_lock(&said_lock);
	rc = members_copy(view, &said);
	pthread_mutex_unlock(&said_lock);
	views_taken++;
	return rc;
}

static void on_nothing(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

/* A drain is the source's to know; the views that clients are told stay those of the source. */
static void a_drain_changes_no_view(void **state)
{
	const struct kv_log log = {.level = KV_LOG_WARN, .write = on_nothing};
	const struct membership_options options = {
		.members = "list:a=h:97,b=h:98",
		.self = {.node_id = "a", .address = "h:97", .weight = 1, .incarnation = 77},
		.log = &log,
		.on_view = on_view_keep};
	struct membership *m;
	struct kv_member self;
	(void)state;
	views_taken = 0;
	assert_int_equal(membership_start(&options, &m, NULL), 0);
	assert_true(within(&views_taken, 1));
	assert_true(membership_drain(m, &self));
	assert_string_equal(self.address, "h:97");
	membership_weigh(m, 2); /* a turn of the thread */
	membership_stop(&m);
	assert_int_equal(views_taken, 1);
	assert_int_equal(kv_view_find(&said, "a")->state, KV_MEMBER_UP);
	kv_view_fini(&said);
}

static sem_t asked, answer;
static _Atomic bool resolver_hangs;

static int look_up_slowly(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
	if (resolver_hangs) {
		sem_post(&asked);
		sem_wait(&answer);
		resolver_hangs = false;
	}
	return look_up(host, port, hints, out);
}

static int name_is_a(const struct addrinfo *a, char *buf, unsigned cap)
{
	(void)a;
	snprintf(buf, cap, "a.kv.ns.svc");
	return 0;
}

/* The resolver keeps the membership's thread: the drain begins all the same. */
static void a_drain_waits_for_no_resolver(void **state)
{
	static const struct source_names names = {look_up_slowly, list_free, name_is_a};
	const struct kv_log log = {.level = KV_LOG_WARN, .write = on_nothing};
	const struct membership_options options = {.members = "dns:kv:97",
						   .self = {.node_id = "a", .weight = 1, .incarnation = 77},
						   .pace = 1000,
						   .names = &names,
						   .log = &log,
						   .on_view = on_view_keep};
	struct membership *m;
	struct kv_member self;
	(void)state;
	addresses(2, 2, 2, 2);
	sem_init(&asked, 0, 0);
	sem_init(&answer, 0, 0);
	views_taken = 0;
	assert_int_equal(membership_start(&options, &m, NULL), 0);
	assert_true(within(&views_taken, 1));
	resolver_hangs = true;
	sem_wait(&asked);
	assert_true(membership_drain(m, &self));
	sem_post(&answer);
	membership_stop(&m);
	kv_view_fini(&said);
	sem_destroy(&asked);
	sem_destroy(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_read),
		cmocka_unit_test(what_is_no_member_is_refused),
		cmocka_unit_test(a_list_has_each_address_once),
		cmocka_unit_test(a_server_knows_its_own_addresses),
		cmocka_unit_test(a_member_answers_at_any_address),
		cmocka_unit_test(base64_goes_both_ways),
		cmocka_unit_test(members_go_through_etcd),
		cmocka_unit_test(the_mark_of_an_etcd_is_no_member),
		cmocka_unit_test(half_may_leave_and_more_may_not),
		cmocka_unit_test(a_new_name_for_an_address_leaves_no_phantom),
		cmocka_unit_test(a_doubted_member_goes_when_its_address_is_named),
		cmocka_unit_test(half_may_leave_within_a_window),
		cmocka_unit_test(an_empty_answer_is_never_believed),
		cmocka_unit_test(the_doubted_stay_until_named_or_silent),
		cmocka_unit_test(any_history_keeps_who_is_named),
		cmocka_unit_test(json_of_too_many_values_is_refused),
		cmocka_unit_test(dns_sorts_and_names),
		cmocka_unit_test(dns_joins_both_families_of_a_name),
		cmocka_unit_test(dns_takes_one_family_without_names),
		cmocka_unit_test(dns_waits_for_names),
		cmocka_unit_test(dns_one_without_a_name),
		cmocka_unit_test(dns_gives_each_address_its_time),
		cmocka_unit_test(dns_asks_for_each_address),
		cmocka_unit_test(dns_first_view_comes),
		cmocka_unit_test(dns_keeps_the_names_it_heard),
		cmocka_unit_test(a_view_that_cannot_be_told_is_told_later),
		cmocka_unit_test(a_server_at_a_foreign_address_says_so),
		cmocka_unit_test(a_drain_changes_no_view),
		cmocka_unit_test(a_drain_waits_for_no_resolver),
	};
	return cmocka_run_group_tests_name("kvserver/members", tests, NULL, NULL);
}
