/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c -- see calls.h. */
#include "calls.h"

#include <sys/mman.h>
#include <unistd.h>

struct kvc_pool *shared;

int calls_up(void **state)
{
	(void)state;
	test_server_up(&test_first, "first");
	shared = test_first.pid ? test_pool(one, 1, 2) : NULL;
	return 0;
}

int calls_down(void **state)
{
	(void)state;
	kvc_pool_close(&shared);
	test_server_kill(&test_first);
	return 0;
}

int let_go(void **state)
{
	(void)state;
	if (test_first.pid)
		test_server_cont(&test_first);
	if (test_second.pid)
		test_server_cont(&test_second);
	return 0;
}

struct kvc_pool *pool_open(const struct test_server *const *servers, unsigned n, unsigned clients,
			   uint64_t buffer_bytes)
{
	struct kvc_options o = test_options(servers, n, clients);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	o.buffer_bytes = buffer_bytes;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	return pool;
}

struct kvc_counters counters(struct kvc_pool *pool)
{
	struct kvc_counters n = {.size = sizeof(n)};
	assert_int_equal(kvc_counters(pool, &n), 0);
	return n;
}

void quarantine_wait(struct kvc_pool *pool)
{
	uint64_t until = now_ns() + WAIT_NS;
	while (counters(pool).quarantined_bytes > 0 && now_ns() < until)
		usleep(10000);
	assert_int_equal(counters(pool).quarantined_bytes, 0);
}

struct kvc_key key_of(char *buf, size_t cap, const char *test, uint64_t n)
{
	int len = snprintf(buf, cap, "%s/%llu", test, (unsigned long long)n);
	return (struct kvc_key){buf, (size_t)len};
}

uint8_t *memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}
