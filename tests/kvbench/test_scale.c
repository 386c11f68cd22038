/* SPDX-License-Identifier: Apache-2.0 */
/* test_scale.c -- kv-bench scale without a server: its options, and TLS with the key between two threads. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kvbench/scale/scale.h"
#include "kvbench/steps/secure.h"
#include "tests/kvbench/check.h"

static int parse(struct scale_options *o, struct kv_error *err, const char *name, const char *value)
{
	char *argv[] = {"kv-bench scale", (char *)(uintptr_t)name, (char *)(uintptr_t)value, NULL};
	return scale_options_parse(3, argv, o, err);
}

static void numbers_of_clients_are_a_list(void **state)
{
	struct scale_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse(&o, &err, "--clients", "1,10,100,...,100000"), 0);
	assert_int_equal(o.list.count, 6);
	assert_int_equal(o.list.value[5], 100000);
	for (const char **bad = (const char *[]){"", "0", "2,1", "200001", "x", NULL}; *bad; bad++)
		assert_int_equal(parse(&o, &err, "--clients", *bad), -KV_EINVAL);
	assert_int_equal(parse(&o, &err, "--message-size", "0"), -KV_EINVAL);
	assert_int_equal(parse(&o, &err, "--message-size", "1MB"), -KV_EINVAL);
}

/* ---- TLS ---- */

struct end {
	struct secure_context *ctx;
	int fd, rc;
	char got[6];
};

static void *answer(void *arg)
{
	struct end *e = arg;
	struct secure *s = NULL;
	e->rc = secure_open(e->ctx, e->fd, &s);
	if (e->rc == 0)
		e->rc = secure_read(s, e->got, 5);
	if (e->rc == 0)
		e->rc = secure_write(s, "there", 5);
	secure_close(&s);
	close(e->fd);
	return NULL;
}

static void bytes_come_through_tls_and_the_end_is_noticed(void **state)
{
	struct kv_error err = {0};
	struct secure_context *client = NULL;
	struct secure *s = NULL;
	struct end e = {0};
	char got[6] = "";
	pthread_t thread;
	int fds[2];
	(void)state;
	assert_int_equal(secure_key_make(), 0);
	assert_int_equal(secure_context_create(true, &e.ctx, &err), 0);
	assert_int_equal(secure_context_create(false, &client, &err), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	e.fd = fds[0];
	assert_int_equal(pthread_create(&thread, NULL, answer, &e), 0);
	assert_int_equal(secure_open(client, fds[1], &s), 0);
	assert_int_equal(secure_write(s, "hello", 5), 0);
	assert_int_equal(secure_read(s, got, 5), 0);
	assert_string_equal(got, "there");
	pthread_join(thread, NULL);
	assert_int_equal(e.rc, 0);
	assert_string_equal(e.got, "hello");
	assert_int_equal(secure_read(s, got, 1), -KV_EPEERDOWN);
	secure_close(&s);
	close(fds[1]);
	secure_context_destroy(&client);
	secure_context_destroy(&e.ctx);
	secure_context_destroy(&e.ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_clients_are_a_list),
		cmocka_unit_test(bytes_come_through_tls_and_the_end_is_noticed),
	};
	signal(SIGPIPE, SIG_IGN); /* as kv-bench does: OpenSSL tells a peer that is gone what it thinks of it */
	return cmocka_run_group_tests_name("kvbench/scale", tests, NULL, NULL);
}
