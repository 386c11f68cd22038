/* SPDX-License-Identifier: Apache-2.0 */
/* server.h -- kv-server child processes, and pools towards them, for the integration tests. */
#ifndef KVRAIL_TESTS_KVCLIENT_SERVER_H
#define KVRAIL_TESTS_KVCLIENT_SERVER_H

#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>

#include "kvclient/kvclient.h"
#include "loop/sanitize.h"
#include "tests/provider.h"

struct test_server {
	pid_t pid; /* 0: not running */
	char address[160];
	const char *node_id;
	char entry[240]; /* of a list of servers: node_id=address */
};

/* The binary: $KV_SERVER, or kv-server beside the tests folder of this program. NULL: not built. */
const char *test_server_binary(void);

/* test_server_start -- node_id NULL: without one. Listen on 127.0.0.1; address "" is a free port, which stays the
 * server's own, else that one is used again. Fails the test after 30 s beside those in which the server waits for a
 * processor. */
void test_server_start(struct test_server *s, const char *node_id);
/* test_server_start_with -- with more arguments, which end with NULL. */
void test_server_start_with(struct test_server *s, const char *node_id, const char *const *more);
void test_server_kill(struct test_server *s); /* SIGKILL, and reaped */
void test_server_stop(struct test_server *s); /* SIGSTOP; all its threads stand still */
void test_server_cont(struct test_server *s);
int test_server_end(struct test_server *s); /* SIGTERM; its wait status */

/* test_server_up -- one for the tests of a program, where kv-server is built. test_server_need -- skip the test where
 * it is not. */
void test_server_up(struct test_server *s, const char *node_id);
void test_server_need(const struct test_server *s);

/* What most programs need: cmocka's set-ups and tear-downs of a group. Where kv-server is not built nothing is up.
 * test_one_up -- test_first, and a pool of one client towards it. test_two_up -- test_first, whose node id is "first",
 * and test_second. */
extern struct test_server test_first, test_second;
extern struct kvc_pool *test_one_pool;
int test_one_up(void **state);
int test_one_down(void **state);
int test_two_up(void **state);
int test_two_down(void **state);

/* test_stat -- a counter of the servers of a pool. */
uint64_t test_stat(struct kvc_pool *pool, const char *name);

/* test_options -- for n servers (their entries are remembered by pointer). KVRAIL_TEST_SEAL, if set, is the file of
 * keys of sealed values: many tests hold for them as well. */
enum { TEST_WAY_DEFAULT = -1 };
extern int
	test_local; /* enum kvc_local of the options. TEST_WAY_DEFAULT: OFF if KVRAIL_TEST_PROVIDER is set, else AUTO */
struct kvc_options test_options(const struct test_server *const *servers, unsigned n, unsigned clients);
struct kvc_pool *test_pool(const struct test_server *const *servers, unsigned n, unsigned clients);

/* test_both_ways -- a group of cmocka's tests over the fabric, then with client and server on one host: the tests hold
 * for either. Once, over the fabric, if KVRAIL_TEST_PROVIDER is set. Returns how many failed. */
#define test_both_ways(tests, up, down)                                                                                \
	((test_local = KVC_LOCAL_OFF, cmocka_run_group_tests_name("over the fabric", tests, up, down)) +               \
	 (getenv("KVRAIL_TEST_PROVIDER")                                                                               \
		  ? 0                                                                                                  \
		  : (test_local = KVC_LOCAL_AUTO, cmocka_run_group_tests_name("on one host", tests, up, down))))

/* test_memory_bound -- mib, or much more under ThreadSanitizer, whose shadow counts as resident memory: it is bounded,
 * too. */
static inline uint64_t test_memory_bound(uint64_t mib)
{
	return KV_TSAN ? mib * 10 : mib;
}

/* Bytes that are a function of key number and position. */
void test_fill(void *at, size_t len, uint64_t key);
bool test_same(const void *at, size_t len, uint64_t key);

#endif
