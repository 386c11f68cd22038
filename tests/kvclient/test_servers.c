/* SPDX-License-Identifier: Apache-2.0 */
/* test_servers.c -- the list of servers against real ones: what they are called, and who is there twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "server.h"

static struct test_server first, second;

static int setup(void **state)
{
	(void)state;
	test_server_up(&first, "first");
	test_server_up(&second, "second");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_server_kill(&first);
	test_server_kill(&second);
	return 0;
}

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

/* Another server is up: what is wrong with the list is an error all the same. */
static void a_server_that_is_called_otherwise_fails_the_opening(void **state)
{
	const char *swapped[] = {ENTRY("second", &first), ENTRY("first", &second)};
	const char *one_wrong[] = {ENTRY("first", &first), ENTRY("third", &second)};
	const char *unnamed[] = {ENTRY("", &first)};
	(void)state;
	test_server_need(&first);
	opening_fails(swapped, 2, "its node id is ");
	opening_fails(one_wrong, 2, "its node id is second, but the list of servers calls it third; write second=");
	opening_fails(unnamed, 1, "its node id is first");
}

static void a_server_with_two_names_fails_the_opening(void **state)
{
	struct test_server free_name = {0};
	char *port;
	char loopback[64];
	const char *list[] = {NULL, loopback};
	(void)state;
	test_server_need(&first);
	test_server_start(&free_name, NULL);
	list[0] = free_name.address;
	port = strrchr(free_name.address, ':') + 1;
	snprintf(loopback, sizeof(loopback), "localhost:%s", port);
	opening_fails(list, 2, "it is the same server as ");
	test_server_kill(&free_name);
}

/* What was seen of it stays to be asked for, when it happens after the opening. */
static void a_server_that_comes_back_as_another_is_told(void **state)
{
	struct kvc_server_info info = {.size = sizeof(info)};
	const char *list[] = {ENTRY("first", &first), ENTRY("second", &second)};
	struct kvc_options o = options_of(list, 2);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&first);
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	test_server_kill(&second);
	test_server_start(&second, "other");
	for (unsigned i = 0; i < 600 && !strstr(info.why, "its node id is other"); i++) {
		usleep(50000);
		assert_int_equal(kvc_server_info(pool, 0, 1, &info), 0);
	}
	assert_string_equal(info.node_id, "other");
	assert_true(info.state != KVC_SERVER_UP);
	assert_non_null(strstr(info.why, "its node id is other, but the list of servers calls it second"));
	kvc_pool_close(&pool);
	test_server_kill(&second);
	test_server_start(&second, "second");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_is_called_otherwise_fails_the_opening),
		cmocka_unit_test(a_server_with_two_names_fails_the_opening),
		cmocka_unit_test(a_server_that_comes_back_as_another_is_told),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
