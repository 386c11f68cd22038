/* SPDX-License-Identifier: Apache-2.0 */
/* test_footprint.c -- what a client with all defaults takes: 4 x 64 MiB of buffer, and rxm's buffers, however much of
 * it was used. Those are of 16 KiB (FI_OFI_RXM_BUFFER_SIZE as libfabric has it, engine/env.c says why) and take 39 MiB
 * for each client; with 4 KiB they took 15. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "tests/kvclient/server.h"
#include "host/host.h"

enum { CLIENTS = 4, BUFFER_MIB = 64, WORKERS = 64, VALUE = 1 << 20, KEYS = 16 };

static struct test_server server;
static struct kvc_pool *pool;
static _Atomic uint64_t touched;
static _Atomic unsigned failed;

static struct kvc_key key_of(char *text, size_t cap, unsigned i)
{
	int n = snprintf(text, cap, "memory/%u", i);
	return (struct kvc_key){text, (size_t)n};
}

/* Every byte of the client's buffer at the same time, in borrowed pieces whose sizes are powers of two. */
static void touch_all(struct kvc_client *client, unsigned w, void *arg)
{
	struct kvc_borrowed borrowed[8] = {0};
	uint64_t len = BUFFER_MIB / 2 << 20;
	(void)w, (void)arg;
	for (unsigned i = 0; i < KV_COUNT(borrowed); i++, len = KV_MAX(len / 2, (uint64_t)1 << 20)) {
		if (kvc_borrow_await(client, len, 1000000, &borrowed[i]) < 0)
			break;
		memset(borrowed[i].data, (int)w, len);
		touched += len;
	}
	for (unsigned i = 0; i < KV_COUNT(borrowed); i++)
		kvc_borrowed_release(client, &borrowed[i]);
}

static void read_some(struct kvc_client *client, unsigned w, void *arg)
{
	char text[32];
	(void)arg;
	for (unsigned i = 0; i < KEYS; i++) {
		struct kvc_borrowed borrowed;
		int64_t rc = kvc_get_borrowed_await(client, key_of(text, sizeof(text), w + i), VALUE, NULL, &borrowed);
		if (rc == VALUE)
			kvc_borrowed_release(client, &borrowed);
		else
			failed++;
	}
}

static void a_default_client_stays_under_450_mib(void **state)
{
	static uint8_t value[VALUE];
	const char *names[] = {server.entry};
	struct kvc_options o = {.size = sizeof(o),
				.flags = KVC_OPEN_WAIT,
				.servers = names,
				.num_servers = 1,
				.local = KVC_LOCAL_OFF, /* pages of the server's memory count as resident here */
				.provider = test_provider()};
	struct kvc_info info = {.size = sizeof(info)};
	struct kv_error err = {0};
	char text[32];
	uint64_t before = kv_memory_rss();
	bool old;
	(void)state;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(kvc_num_clients(pool), CLIENTS);
	for (unsigned i = 0; i < WORKERS + KEYS; i++)
		assert_int_equal(kvc_put(pool, key_of(text, sizeof(text), i), value, VALUE, NULL), 0);
	assert_int_equal(kvc_run(pool, WORKERS, read_some, NULL), 0);
	assert_int_equal(failed, 0);
	assert_int_equal(kvc_run(pool, CLIENTS, touch_all, NULL), 0);
	assert_true(touched >= (uint64_t)CLIENTS * (BUFFER_MIB - 1) << 20);
	printf("#: resident after its whole buffer was used: %llu MiB\n",
	       (unsigned long long)(kv_memory_rss() - before) >> 20);
	assert_true(kv_memory_rss() - before >= touched);
	assert_int_equal(kvc_info(pool, &info), 0);
	/* libfabric 2.1 keeps some 30 MiB more for an endpoint of tcp;ofi_rxm than 1.17. */
	old = strncmp(info.libfabric, "1.", 2) == 0;
	assert_true(kv_memory_rss() - before < test_memory_bound(old ? 450 : 550) << 20);
	kvc_pool_close(&pool);
	printf("#: resident after it was closed: %llu MiB\n", (unsigned long long)(kv_memory_rss() - before) >> 20);
	/* Less than one buffer that was not given back. AddressSanitizer keeps 256 MiB of what was freed; what
	 * libfabric 2.1 leaves was not measured. */
	assert_true(kv_memory_rss() - before < test_memory_bound((old ? BUFFER_MIB - 4 : 144) + (KV_ASAN ? 256 : 0))
						       << 20);
}

static int up(void **state)
{
	(void)state;
	setenv("KVRAIL_TEST_PAGES", "1", 1); /* tests/quick_start.c */
	kvc_program_setup();
	if (test_server_binary())
		test_server_start(&server, "memory");
	return server.pid ? 0 : -1;
}

static int down(void **state)
{
	(void)state;
	kvc_pool_close(&pool);
	return test_server_end(&server) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_default_client_stays_under_450_mib),
	};
	return cmocka_run_group_tests(tests, up, down);
}
