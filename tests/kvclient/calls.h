/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h -- what tests of calls at real kv-server processes share: keys, memory, a pool, workers, and calls that are
 * given up.
 *
 * Each test makes the keys that it uses. Waits are bounded by the calls' own deadlines, so a hang ends as a failure. */
#ifndef KVRAIL_TESTS_KVCLIENT_CALLS_H
#define KVRAIL_TESTS_KVCLIENT_CALLS_H

#include <string.h>

#include "tests/check.h"
#include "tests/kvclient/server.h"

#define MIB      ((size_t)1 << 20)
#define SHORT_NS 200000000ull /* the deadline of a call to a server that is stopped */
#define WAIT_NS  20000000000ull

static const struct test_server *const one[] = {&test_first}, *const two[] = {&test_first, &test_second};

/* calls_up, calls_down -- set-up and tear-down of a group: test_first, and `shared`, a pool of two clients towards it.
 * let_go -- tear-down of a test that stops a server, however it ended. need_server -- skip the test where kv-server is
 * not built. */
extern struct kvc_pool *shared;
int calls_up(void **state);
int calls_down(void **state);
int let_go(void **state);

static inline void need_server(void)
{
	test_server_need(&test_first);
}

/* pool_open -- a pool of its own, with so large a buffer in each client. */
struct kvc_pool *pool_open(const struct test_server *const *servers, unsigned n, unsigned clients,
			   uint64_t buffer_bytes);
struct kvc_counters counters(struct kvc_pool *pool);

/* brief -- the options of a call with the deadline SHORT_NS. */
static inline struct kvc_call brief(void)
{
	return (struct kvc_call){.size = sizeof(struct kvc_call), .timeout_ns = SHORT_NS};
}

/* quarantine_wait -- until the quarantine of the pool is empty. */
void quarantine_wait(struct kvc_pool *pool);

/* key_of -- test/n, in buf. KEY -- the n-th key of this test, NAMED -- the key of this text. */
struct kvc_key key_of(char *buf, size_t cap, const char *test, uint64_t n);
#define KEY(n)      key_of((char[64]){0}, 64, __func__, n)
#define NAMED(text) ((struct kvc_key){text, sizeof(text) - 1})

uint8_t *memory(size_t len); /* fresh pages; munmap gives them back */

static inline uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* Lengths at which something changes: words, what travels inside a frame, pages, pieces, ranges of a GET. */
#define LENGTHS                                                                                                        \
	{1,    2,     7,     8,     9,       3071,          3072,     3073,           4095,    4096,                   \
	 4097, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 16 << 20, (16 << 20) + 1, 17 << 20}

/* What the workers of a test tell. A worker runs in a coroutine, which cmocka's longjmp must not leave: EXPECT counts
 * the failure and ends the worker, whose number is w and whose argument is job. */
struct workers {
	_Atomic unsigned failed, ran;
};

#define EXPECT(cond)                                                                                                   \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			print_message("worker %u: %s is false (line %d)\n", w, #cond, __LINE__);                       \
			job->failed++;                                                                                 \
			return;                                                                                        \
		}                                                                                                      \
	} while (0)

#endif
