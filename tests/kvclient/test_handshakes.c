/* SPDX-License-Identifier: Apache-2.0 */
/* test_handshakes.c -- ten thousand connections that never finish their handshake, towards a kv-server process of its
 * own, while honest clients work and new ones come. Fewer, and said so, where the limit of open files is lower. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"

enum { WANTED = 10000, SPARE_FILES = 400, BATCH = 500, VALUE = 200000, PLACES = 1024 };

/* What a server may grow by: descriptors of the places and of the honest clients; memory of a TLS handshake each. */
enum { FDS_MAX = PLACES + 200, RSS_MAX_MIB = 160 };

static struct test_server server;
static const struct test_server *const one[] = {&server};
static int sockets[WANTED];

static int setup(void **state)
{
	(void)state;
	test_server_up(&server, "one");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_server_kill(&server);
	return 0;
}

static unsigned server_fds(void)
{
	char path[64];
	unsigned n = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)server.pid);
	DIR *d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static unsigned server_rss_mib(void)
{
	char path[64];
	unsigned long long size = 0, resident = 0;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)server.pid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llu %llu", &size, &resident), 2);
	fclose(f);
	return (unsigned)(resident * (unsigned)sysconf(_SC_PAGESIZE) >> 20);
}

/* How many descriptors may be opened for the attack. */
static unsigned files_allowed(void)
{
	struct rlimit files;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = KV_MIN(files.rlim_max, (rlim_t)(WANTED + SPARE_FILES));
	setrlimit(RLIMIT_NOFILE, &files);
	return (unsigned)KV_MIN((rlim_t)WANTED, files.rlim_cur - SPARE_FILES);
}

static struct sockaddr_in server_address(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	const char *colon = strrchr(server.address, ':');
	assert_non_null(colon);
	inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
	a.sin_port = htons((uint16_t)atoi(colon + 1));
	return a;
}

/* Connections of which every third says a little, and never more. Returns how many were opened. */
static unsigned half_open(const struct sockaddr_in *a, unsigned first, unsigned n)
{
	static const char begun[] = {0x16, 3, 1};
	unsigned opened = 0;
	for (unsigned i = first; i < first + n; i++) {
		sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		assert_true(sockets[i] >= 0);
		if (connect(sockets[i], (const struct sockaddr *)a, sizeof(*a)) != 0 && errno != EINPROGRESS)
			continue;
		opened++;
		if (i % 3 == 0)
			(void)!send(sockets[i], begun, sizeof(begun), MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	return opened;
}

static void put_and_get(struct kvc_pool *pool, uint64_t id)
{
	static uint8_t buf[VALUE];
	struct kvc_key key = {&id, sizeof(id)};
	test_fill(buf, VALUE, id);
	assert_int_equal(kvc_put(pool, key, buf, VALUE, NULL), 0);
	memset(buf, 0, VALUE);
	assert_int_equal(kvc_get(pool, key, buf, VALUE, NULL), VALUE);
	assert_true(test_same(buf, VALUE, id));
}

static void half_open_handshakes_are_bounded_and_honest_clients_work(void **state)
{
	struct kvc_pool *pool, *late = NULL;
	struct sockaddr_in a;
	unsigned n, opened = 0, fds = 0, rss = 0;
	uint64_t id = 1, began, waited;
	(void)state;
	if (!server.pid) {
		print_message("kv-server is not built (KV_SERVER or build/MODE/kv-server)\n");
		skip();
	}
	n = files_allowed();
	if (n < WANTED)
		print_message("# only %u connections: the limit of open files is low\n", n);
	pool = test_pool(one, 1, 1);
	put_and_get(pool, id++);
	a = server_address();
	unsigned fds_before = server_fds(), rss_before = server_rss_mib();
	uint64_t before = test_stat(pool, "handshakes");
	for (unsigned first = 0; first < n; first += BATCH) {
		opened += half_open(&a, first, KV_MIN((unsigned)BATCH, n - first));
		put_and_get(pool, id++);
		fds = KV_MAX(fds, server_fds());
		rss = KV_MAX(rss, server_rss_mib());
		if (first / BATCH != n / BATCH / 2)
			continue;
		began = kv_clock_now(&kv_clock_monotonic);
		late = test_pool(one, 1, 1); /* one that comes in the middle of it */
		waited = kv_clock_now(&kv_clock_monotonic) - began;
		print_message("# a new client waited %llu ms\n", (unsigned long long)(waited / 1000000));
		put_and_get(late, id++);
	}
	print_message("# %u connections; server: %u descriptors (%u before), %u MiB resident (%u before)\n", opened,
		      fds, fds_before, rss, rss_before);
	put_and_get(pool, id++);
	put_and_get(late, id++);
	print_message("# handshakes %llu, cut %llu, timed out %llu, refused %llu, delayed %llu\n",
		      (unsigned long long)(test_stat(pool, "handshakes") - before),
		      (unsigned long long)test_stat(pool, "handshakes_cut"),
		      (unsigned long long)test_stat(pool, "handshakes_timed_out"),
		      (unsigned long long)test_stat(pool, "handshakes_refused"),
		      (unsigned long long)test_stat(pool, "handshakes_delayed"));
	assert_true(fds < fds_before + FDS_MAX);
	assert_true(rss < rss_before + test_memory_bound(RSS_MAX_MIB));
	assert_true(test_stat(pool, "handshakes_now") <= PLACES);
	for (unsigned i = 0; i < n; i++)
		close(sockets[i]);
	/* Each of them was counted, under one heading. */
	for (unsigned i = 0; i < 600 && test_stat(pool, "handshakes_now") > 0; i++)
		usleep(20000);
	assert_int_equal(test_stat(pool, "handshakes_now"), 0);
	if (n > PLACES)
		assert_true(test_stat(pool, "handshakes_cut") > 0);
	assert_int_equal(test_stat(pool, "handshakes") - before,
			 test_stat(pool, "handshakes_cut") + test_stat(pool, "handshakes_timed_out") +
				 test_stat(pool, "handshakes_refused") + 1 /* the late client */);
	put_and_get(late, id++);
	kvc_pool_close(&late);
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_open_handshakes_are_bounded_and_honest_clients_work),
	};
	return cmocka_run_group_tests_name("kvclient/handshakes", tests, setup, teardown);
}
