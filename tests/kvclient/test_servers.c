/* SPDX-License-Identifier: Apache-2.0 */
/* test_servers.c -- the list of servers against real ones: what they are called, who is there twice, who comes late,
 * and how they are reached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/base.h"
#include "server.h"

static struct kvc_options options_of(const char *const *servers, unsigned n)
{
	const struct test_server *const none[] = {NULL};
	struct kvc_options o = test_options(none, 0, 1);
	o.servers = servers;
	o.num_servers = n;
	o.log_level = 0;
	return o;
}

static char *entry(char *buf, size_t cap, const char *name, const struct test_server *s)
{
	snprintf(buf, cap, "%s%s%s", name, *name ? "=" : "", s->address);
	return buf;
}

#define ENTRY(name, s) entry((char[240]){0}, 240, name, s)

static void said(const struct kv_error *err, const char *words)
{
	if (!strstr(err->text, words))
		fail_msg("\"%s\" does not say \"%s\"", err->text, words);
}

static void opening_fails(const char *const *servers, unsigned n, const char *words)
{
	struct kvc_options o = options_of(servers, n);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EINVAL);
	assert_null(pool);
	said(&err, words);
}

/* One server of two is not used: the opening succeeds, and the pool says why. */
static void opening_lacks_one(const char *const *servers, const char *words)
{
	struct kvc_server_info info[2] = {{.size = sizeof(info[0])}, {.size = sizeof(info[1])}};
	struct kvc_options o = options_of(servers, 2);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	unsigned up = 0;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(kvc_server_info(pool, 0, i, &info[i]), 0);
		up += info[i].state == KVC_SERVER_UP;
	}
	assert_int_equal(up, 1);
	if (!strstr(info[0].why, words) && !strstr(info[1].why, words))
		fail_msg("neither \"%s\" nor \"%s\" says \"%s\"", info[0].why, info[1].why, words);
	kvc_pool_close(&pool);
}

/* A list that is wrong about all servers is an error; where it is wrong about one, the others are used. */
static void a_server_that_is_called_otherwise_is_not_used(void **state)
{
	const char *swapped[] = {ENTRY("second", &test_first), ENTRY("first", &test_second)};
	const char *one_wrong[] = {ENTRY("first", &test_first), ENTRY("third", &test_second)};
	const char *unnamed[] = {ENTRY("", &test_first)};
	(void)state;
	test_server_need(&test_first);
	opening_fails(swapped, 2, "its node id is ");
	opening_lacks_one(one_wrong, "its node id is second, but the list of servers calls it third; write second=");
	opening_fails(unnamed, 1, "its node id is first");
}

static void of_a_server_with_two_names_one_is_used(void **state)
{
	struct test_server free_name = {0};
	char *port;
	char loopback[64];
	const char *list[] = {NULL, loopback};
	(void)state;
	test_server_need(&test_first);
	test_server_start(&free_name, NULL);
	list[0] = free_name.address;
	port = strrchr(free_name.address, ':') + 1;
	snprintf(loopback, sizeof(loopback), "localhost:%s", port);
	opening_lacks_one(list, "it is the same server as ");
	test_server_kill(&free_name);
}

/* Its values are others, though its name is the one of the list. */
static void a_server_of_another_cluster_is_not_used(void **state)
{
	static const char *const prod[] = {"--cluster", "prod", NULL}, *const lab[] = {"--cluster", "lab", NULL};
	struct test_server a = {0}, b = {0};
	const char *both[2], *bare[1];
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&test_first);
	test_server_start_with(&a, "a", prod);
	test_server_start_with(&b, "b", lab);
	both[0] = a.entry;
	both[1] = b.entry;
	bare[0] = ENTRY("first", &test_first);
	o = options_of(both, 1);
	o.cluster = "prod";
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	kvc_pool_close(&pool);
	o.cluster = "lab";
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EINVAL);
	said(&err, "it refused us: the client belongs to the cluster 'lab', and this server to 'prod'");
	o.servers = bare;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EINVAL);
	said(&err, "and this server to none");
	opening_lacks_one(both, "it is of the cluster '");
	o.cluster = "a b";
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EINVAL);
	said(&err, "the cluster's name 'a b' must have");
	test_server_kill(&a);
	test_server_kill(&b);
}

/* What was seen of it stays to be asked for, when it happens after the opening. */
static void a_server_that_comes_back_as_another_is_told(void **state)
{
	struct kvc_server_info info = {.size = sizeof(info)};
	const char *list[] = {ENTRY("first", &test_first), ENTRY("second", &test_second)};
	struct kvc_options o = options_of(list, 2);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&test_first);
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	test_server_kill(&test_second);
	test_server_start(&test_second, "other");
	for (unsigned i = 0; i < 600 && !strstr(info.why, "its node id is other"); i++) {
		usleep(50000);
		assert_int_equal(kvc_server_info(pool, 0, 1, &info), 0);
	}
	assert_string_equal(info.node_id, "other");
	assert_true(info.state != KVC_SERVER_UP);
	assert_non_null(strstr(info.why, "its node id is other, but the list of servers calls it second"));
	kvc_pool_close(&pool);
	test_server_kill(&test_second);
	test_server_start(&test_second, "second");
}

static void stored_and_read(struct kvc_pool *pool, const char *name)
{
	struct kvc_key key = {name, strlen(name)};
	char back[8] = "";
	assert_int_equal(kvc_put(pool, key, "value", 6, NULL), 0);
	assert_int_equal(kvc_get(pool, key, back, sizeof(back), NULL), 6);
	assert_string_equal(back, "value");
}

/* One name does not resolve: the other server stands in. */
static void a_name_that_does_not_resolve_is_one_server_down(void **state)
{
	const char *list[] = {ENTRY("first", &test_first), "gone=no-such-host.invalid:1"};
	struct kvc_options o = options_of(list, 2);
	struct kvc_server_info info = {.size = sizeof(info)};
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	struct kvc_counters counters = {.size = sizeof(counters)};
	(void)state;
	test_server_need(&test_first);
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(kvc_put(pool, (struct kvc_key){&i, sizeof(i)}, "v", 2, NULL), 0);
	assert_int_equal(kvc_counters(pool, &counters), 0);
	assert_in_range(counters.stand_ins, 1, 63);
	assert_int_equal(kvc_server_info(pool, 0, 1, &info), 0);
	if (!strstr(info.why, "no-such-host.invalid"))
		fail_msg("\"%s\" does not name the host", info.why);
	kvc_pool_close(&pool);
}

/* The library alone, before its server: as an inference server starts it. */
static void a_pool_opens_while_no_server_is_up(void **state)
{
	struct test_server late = {0};
	const char *list[1] = {NULL};
	struct kvc_options o = options_of(list, 1);
	struct kvc_key key = {"early", 5};
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	char byte;
	int64_t rc;
	(void)state;
	test_server_need(&test_first);
	test_server_start(&late, NULL);
	test_server_kill(&late); /* its port is free now */
	list[0] = late.address;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EPEERDOWN);
	o.flags &= ~(unsigned)KVC_OPEN_WAIT;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(kvc_get(pool, key, &byte, 1, NULL), -KV_EPEERDOWN);
	test_server_start(&late, NULL);
	for (unsigned i = 0; i < 600 && (rc = kvc_get(pool, key, &byte, 1, NULL)) == -KV_EPEERDOWN; i++)
		usleep(50000);
	assert_int_equal(rc, -KV_ENOTFOUND);
	stored_and_read(pool, "late");
	kvc_pool_close(&pool);
	test_server_kill(&late);
	/* What can never get better fails all the same. */
	o.psk = "not a key";
	assert_true(kvc_pool_open(&o, &pool, &err) < 0);
	assert_null(pool);
}

static void key_file(char *path, const char *text)
{
	int fd = mkstemp(path); /* mode 0600 */
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* A pool that did not wait: what its server said against it is each call's code. */
static void calls_are_told_why_a_server_does_not_take_them(void **state)
{
	static const char right[] = "me:00112233445566778899aabbccddeeff",
			  wrong[] = "me:ffeeddccbbaa99887766554433221100";
	char path[] = "/tmp/kvrail-key-XXXXXX", byte;
	const char *const more[] = {"--psk-file", path, NULL};
	struct test_server guarded = {0};
	const char *list[1] = {NULL};
	struct kvc_options o = options_of(list, 1);
	struct kvc_call miss = {.size = sizeof(miss), .flags = KVC_DOWN_IS_MISS};
	struct kvc_item item = {.key = {"k", 1}, .data = &byte, .len = 1};
	struct kvc_key key = {"k", 1};
	struct kvc_pool *pool = NULL;
	struct kvc_session *sub = NULL;
	struct kv_error err = {0};
	uint8_t found = 7;
	(void)state;
	test_server_need(&test_first);
	key_file(path, right);
	test_server_start_with(&guarded, NULL, more);
	list[0] = guarded.entry;
	o.psk = wrong;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EDENIED);
	o.flags &= ~(unsigned)KVC_OPEN_WAIT;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	assert_int_equal(kvc_get(pool, key, &byte, 1, NULL), -KV_EDENIED);
	assert_int_equal(kvc_put(pool, key, "v", 1, NULL), -KV_EDENIED);
	assert_int_equal(kvc_exists(pool, &key, 1, &found, NULL, NULL), -KV_EDENIED);
	assert_int_equal(kvc_get_batch(pool, &item, 1, NULL), -KV_EDENIED);
	assert_int_equal(kvc_ping(pool, NULL), -KV_EDENIED);
	assert_int_equal(kvc_session_open(pool, 0, NULL, &sub, &err), -KV_EDENIED);
	said(&err, guarded.address);
	assert_int_equal(kvc_get(pool, key, &byte, 1, &miss), -KV_ENOTFOUND);
	assert_int_equal(kvc_get_batch(pool, &item, 1, &miss), -KV_ENOTFOUND);
	assert_int_equal(kvc_delete(pool, key, &miss), -KV_ENOTFOUND);
	assert_int_equal(kvc_exists(pool, &key, 1, &found, NULL, &miss), 0);
	assert_int_equal(found, 0);
	/* The server goes, and with it the reason that it gave. */
	test_server_kill(&guarded);
	for (unsigned i = 0; i < 600 && kvc_ping(pool, NULL) == -KV_EDENIED; i++)
		usleep(50000);
	assert_int_equal(kvc_ping(pool, NULL), -KV_EPEERDOWN);
	kvc_pool_close(&pool);
	unlink(path);
}

/* Lines of level warn that have these words. */
static struct {
	const char *words;
	_Atomic unsigned lines;
} warned;

static void warnings_count(void *arg, int level, const char *line)
{
	(void)arg;
	warned.lines += level == 2 && strstr(line, warned.words) != NULL;
}

/* Wait until both clients have failed to attach some times. */
static void attempts_wait(struct kvc_pool *pool, struct kvc_server_info *info)
{
	for (unsigned c = 0; c < 2; c++)
		do {
			usleep(20000);
			assert_int_equal(kvc_server_info(pool, c, 0, info), 0);
		} while (info->attempts_failed < 3);
}

/* Neither side understands the other then: calls end as where nobody is there, so what is to be mended must be seen. */
static void a_key_on_one_side_alone_is_told(void **state)
{
	static const char key[] = "me:00112233445566778899aabbccddeeff";
	char path[] = "/tmp/kvrail-key-XXXXXX", byte;
	const char *const guarded[] = {"--psk-file", path, NULL}, *const open[] = {NULL};
	(void)state;
	test_server_need(&test_first);
	key_file(path, key);
	for (unsigned ours = 0; ours < 2; ours++) {
		struct kvc_server_info info = {.size = sizeof(info)};
		struct test_server other = {0};
		const char *list[1] = {NULL};
		struct kvc_options o = options_of(list, 1);
		struct kvc_pool *pool = NULL;
		struct kv_error err = {0};
		test_server_start_with(&other, NULL, ours ? open : guarded);
		list[0] = other.address;
		o.psk = ours ? key : NULL;
		o.num_clients = 2;
		o.flags &= ~(unsigned)KVC_OPEN_WAIT;
		o.log_level = 2;
		o.log = warnings_count;
		warned.lines = 0;
		warned.words = ours ? "give one to both or to neither" : "give the client one (kvc_options.psk_file";
		assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
		assert_int_equal(kvc_get(pool, (struct kvc_key){"k", 1}, &byte, 1, NULL), -KV_EPEERDOWN);
		attempts_wait(pool, &info);
		if (!strstr(info.why, warned.words) || !strstr(info.why, other.address))
			fail_msg("\"%s\" does not say \"%s\"", info.why, warned.words);
		kvc_pool_close(&pool);
		assert_int_equal(warned.lines, 1);
		test_server_kill(&other);
	}
	unlink(path);
}

/* The same where opening does not wait: one of the names is used, and what is wrong with the other is said once. */
static void a_server_with_two_names_is_told_once(void **state)
{
	struct kvc_server_info info[2] = {{.size = sizeof(info[0])}, {.size = sizeof(info[1])}};
	struct test_server free_name = {0};
	char loopback[64];
	const char *list[] = {free_name.address, loopback};
	struct kvc_options o = options_of(list, 2);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	unsigned twin;
	(void)state;
	test_server_need(&test_first);
	test_server_start(&free_name, NULL);
	snprintf(loopback, sizeof(loopback), "localhost:%s", strrchr(free_name.address, ':') + 1);
	o.flags &= ~(unsigned)KVC_OPEN_WAIT;
	o.log_level = 2;
	o.log = warnings_count;
	warned.lines = 0;
	warned.words = "it is the same server as";
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	do {
		usleep(20000);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(kvc_server_info(pool, 0, i, &info[i]), 0);
		twin = info[0].attempts_failed > info[1].attempts_failed ? 0 : 1;
	} while (info[twin].attempts_failed < 3);
	assert_non_null(strstr(info[twin].why, "remove one of the two from the list"));
	assert_int_equal(info[!twin].state, KVC_SERVER_UP);
	stored_and_read(pool, "twins");
	kvc_pool_close(&pool);
	assert_int_equal(warned.lines, 1);
	test_server_kill(&free_name);
}

static void there_is_no_why_while_a_server_is_up(void **state)
{
	struct kvc_server_info info = {.size = sizeof(info)};
	struct test_server late = {0};
	const char *list[1] = {NULL};
	struct kvc_options o = options_of(list, 1);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&test_first);
	test_server_start(&late, NULL);
	test_server_kill(&late); /* its port is free now */
	list[0] = late.address;
	o.flags &= ~(unsigned)KVC_OPEN_WAIT;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	do {
		usleep(20000);
		assert_int_equal(kvc_server_info(pool, 0, 0, &info), 0);
	} while (info.state != KVC_SERVER_DOWN);
	if (!strstr(info.why, "connection refused"))
		fail_msg("it is down, and why: \"%s\"", info.why);
	test_server_start(&late, NULL);
	do {
		usleep(20000);
		assert_int_equal(kvc_server_info(pool, 0, 0, &info), 0);
	} while (info.state != KVC_SERVER_UP);
	assert_string_equal(info.why, "");
	kvc_pool_close(&pool);
	test_server_kill(&late);
}

static _Atomic unsigned denials;

static void denials_count(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	denials += strstr(line, "the pre-shared keys differ") != NULL;
}

/* The server said goodbye and came back with another key: its keys are not misses any more, and the log says why once.
 */
static void a_server_that_came_back_and_does_not_take_us_is_not_a_miss(void **state)
{
	static const char before[] = "me:00112233445566778899aabbccddeeff",
			  after[] = "me:ffeeddccbbaa99887766554433221100";
	char path[2][32] = {"/tmp/kvrail-key-XXXXXX", "/tmp/kvrail-key-XXXXXX"}, byte;
	struct test_server guarded = {0};
	const char *list[1] = {NULL};
	struct kvc_options o = options_of(list, 1);
	struct kvc_key key = {"k", 1};
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	int64_t rc;
	(void)state;
	test_server_need(&test_first);
	key_file(path[0], before);
	key_file(path[1], after);
	test_server_start_with(&guarded, NULL, (const char *const[]){"--psk-file", path[0], NULL});
	list[0] = guarded.entry;
	o.psk = before;
	o.log = denials_count;
	o.log_level = 2;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	stored_and_read(pool, "k");
	assert_int_equal(test_server_end(&guarded), 0);
	assert_int_equal(kvc_get(pool, key, &byte, 1, NULL), -KV_ENOTFOUND);
	test_server_start_with(&guarded, NULL, (const char *const[]){"--psk-file", path[1], NULL});
	for (unsigned i = 0; i < 600 && (rc = kvc_get(pool, key, &byte, 1, NULL)) == -KV_ENOTFOUND; i++)
		usleep(50000);
	assert_int_equal(rc, -KV_EDENIED);
	for (unsigned i = 0; i < 20; i++) { /* some attempts more */
		usleep(50000);
		assert_int_equal(kvc_get(pool, key, &byte, 1, NULL), -KV_EDENIED);
	}
	assert_int_equal(denials, 1);
	kvc_pool_close(&pool);
	test_server_kill(&guarded);
	unlink(path[0]);
	unlink(path[1]);
}

/* Those that are not there do not hide why the one that is there does not take us. */
static void an_opening_without_a_server_says_all_reasons(void **state)
{
	char path[] = "/tmp/kvrail-key-XXXXXX";
	struct test_server guarded = {0};
	const char *list[] = {"127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1", NULL};
	struct kvc_options o = options_of(list, 3);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	int rc;
	(void)state;
	test_server_need(&test_first);
	key_file(path, "me:ffeeddccbbaa99887766554433221100");
	o.psk = "me:00112233445566778899aabbccddeeff";
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EPEERDOWN);
	said(&err, "connection refused: is kv-server running there, on this port? (and 2 more servers fail)");
	assert_null(strchr(err.text, ';'));
	test_server_start_with(&guarded, NULL, (const char *const[]){"--psk-file", path, NULL});
	list[2] = guarded.entry;
	rc = kvc_pool_open(&o, &pool, &err);
	assert_true(rc == -KV_EPEERDOWN || rc == -KV_EDENIED);
	assert_int_equal(err.code, rc);
	assert_null(pool);
	said(&err, "connection refused");
	said(&err, "; server ");
	said(&err, "the pre-shared keys differ");
	said(&err, " (and 1 more server fails)");
	test_server_kill(&guarded);
	unlink(path);
}

static _Atomic unsigned lost, refused, back;

static void outages_count(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	lost += strstr(line, "connecting again") != NULL;
	refused += strstr(line, "connection refused") != NULL;
	back += strstr(line, "is back") != NULL;
}

static bool all_are(struct kvc_pool *pool, enum kvc_server_state state)
{
	for (unsigned c = 0; c < 4; c++) {
		struct kvc_server_info s = {.size = sizeof(s)};
		assert_int_equal(kvc_server_info(pool, c, 0, &s), 0);
		if (s.state != state || (state == KVC_SERVER_DOWN && s.attempts_failed < 2))
			return false;
	}
	return true;
}

/* It is not there yet; it comes; it dies and comes back, twice, so that the second outage is told, too. */
static void one_line_tells_of_a_server_that_four_clients_lose(void **state)
{
	struct test_server it = {0};
	const char *list[1] = {NULL};
	struct kvc_options o = options_of(list, 1);
	struct kvc_pool *pool = NULL;
	(void)state;
	test_server_need(&test_first);
	test_server_start(&it, NULL);
	list[0] = it.entry;
	o.num_clients = 4;
	o.num_threads = 2;
	o.log = outages_count;
	o.log_level = 3;
	o.flags = 0; /* it does not wait for the server */
	test_server_kill(&it);
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	while (!all_are(pool, KVC_SERVER_DOWN))
		usleep(10000);
	assert_int_equal(refused, 1);
	test_server_start(&it, NULL);
	while (!all_are(pool, KVC_SERVER_UP))
		usleep(10000);
	assert_int_equal(back, 0);
	for (unsigned outage = 1; outage <= 2; outage++) {
		test_server_kill(&it);
		while (!all_are(pool, KVC_SERVER_DOWN))
			usleep(10000);
		assert_int_equal(lost, outage);
		assert_int_equal(back, outage - 1);
		test_server_start(&it, NULL);
		while (!all_are(pool, KVC_SERVER_UP))
			usleep(10000);
		assert_int_equal(back, outage);
	}
	assert_int_equal(refused, 1);
	kvc_pool_close(&pool);
	test_server_kill(&it);
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool has = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
	close(fd);
	return has;
}

static void servers_are_reached_over_ipv6(void **state)
{
	struct test_server six = {.address = "[::1]:0"};
	const char *list[1] = {NULL};
	struct kvc_options o = options_of(list, 1);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&test_first);
	if (!has_ipv6()) {
		print_message("this machine has no ::1\n");
		skip();
	}
	test_server_start(&six, "six");
	assert_memory_equal(six.address, "[::1]:", 6);
	list[0] = six.entry;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	stored_and_read(pool, "six");
	kvc_pool_close(&pool);
	test_server_kill(&six);
}

/* localhost has two addresses: the first refuses, at the second no HELLO is answered. The error tells of the second. */
static void what_another_address_said_is_not_why_the_hello_failed(void **state)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	socklen_t len = sizeof(a);
	char text[64];
	const char *list[] = {text};
	struct kvc_options o = options_of(list, 1);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)state;
	if (!has_ipv6()) {
		print_message("this machine has no ::1\n");
		skip();
	}
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 64), 0); /* the kernel takes connections */
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	snprintf(text, sizeof(text), "localhost:%u", ntohs(a.sin6_port));
	o.connect_timeout_ns = 500000000;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_ETIMEOUT);
	said(&err, "no answer to our hello");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_is_called_otherwise_is_not_used),
		cmocka_unit_test(of_a_server_with_two_names_one_is_used),
		cmocka_unit_test(a_server_of_another_cluster_is_not_used),
		cmocka_unit_test(a_server_that_comes_back_as_another_is_told),
		cmocka_unit_test(a_name_that_does_not_resolve_is_one_server_down),
		cmocka_unit_test(a_pool_opens_while_no_server_is_up),
		cmocka_unit_test(calls_are_told_why_a_server_does_not_take_them),
		cmocka_unit_test(a_key_on_one_side_alone_is_told),
		cmocka_unit_test(a_server_with_two_names_is_told_once),
		cmocka_unit_test(there_is_no_why_while_a_server_is_up),
		cmocka_unit_test(a_server_that_came_back_and_does_not_take_us_is_not_a_miss),
		cmocka_unit_test(an_opening_without_a_server_says_all_reasons),
		cmocka_unit_test(one_line_tells_of_a_server_that_four_clients_lose),
		cmocka_unit_test(servers_are_reached_over_ipv6),
		cmocka_unit_test(what_another_address_said_is_not_why_the_hello_failed),
	};
	return cmocka_run_group_tests(tests, test_two_up, test_two_down);
}
