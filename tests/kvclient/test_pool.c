/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c -- a pool's life: opening and its end, workers, coroutines and threads, and closing under calls. */
#include "calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"

/* ---- opening ---- */

/* Sockets of TCP that a program executed by this process would have. */
static unsigned tcp_sockets_inherited(unsigned *out_all)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		int fd = atoi(e->d_name), protocol = 0;
		socklen_t len = sizeof(protocol);
		if (e->d_name[0] == '.' || getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) != 0 ||
		    protocol != IPPROTO_TCP)
			continue;
		++*out_all;
		n += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	closedir(d);
	return n;
}

/* libfabric's are not its own idea: a helper that a host executes would keep the pool's connections open. */
static void a_program_that_the_host_executes_has_no_socket_of_the_pool(void **state)
{
	struct kvc_info info = {.size = sizeof(info)};
	unsigned all = 0;
	char value[8];
	(void)state;
	need_server();
	assert_int_equal(kvc_info(shared, &info), 0);
	if (info.no_door[0] || !strstr(info.provider, "tcp"))
		skip();
	(void)kvc_get(shared, (struct kvc_key){"cloexec", 7}, value, sizeof(value), NULL);
	assert_int_equal(tcp_sockets_inherited(&all), 0);
	assert_true(all >= 2 * info.num_clients); /* control connections and the fabric's */
}

/* Which signals a thread of this process blocks, if it is a loop's. */
static bool loop_blocks(const char *tid, uint64_t *out_blocked)
{
	char path[300], line[128];
	unsigned long long mask;
	bool is_loop = false, found = false;
	FILE *f;
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		is_loop |= strncmp(line, "Name:\tkvc-", 10) == 0;
		if (sscanf(line, "SigBlk: %llx", &mask) == 1) {
			*out_blocked = mask;
			found = true;
		}
	}
	if (f)
		fclose(f);
	return is_loop && found;
}

/* A host takes its signals by signalfd, sigwait or handlers of its own threads. One that came to a loop's thread would
 * end the process, or run the handler on the stack of a coroutine. A crash is still the host's to report. */
static void signals_of_the_host_never_come_to_threads_of_the_pool(void **state)
{
	static const int blocked[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGPIPE};
	static const int open_to[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF};
	sigset_t mine;
	unsigned threads = 0;
	DIR *d = opendir("/proc/self/task");
	(void)state;
	need_server();
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		uint64_t mask = 0;
		if (!loop_blocks(e->d_name, &mask))
			continue;
		threads++;
		for (unsigned i = 0; i < KV_COUNT(blocked); i++)
			if (!(mask >> (blocked[i] - 1) & 1))
				fail_msg("thread %s takes signal %d", e->d_name, blocked[i]);
		for (unsigned i = 0; i < KV_COUNT(open_to); i++)
			if (mask >> (open_to[i] - 1) & 1)
				fail_msg("thread %s blocks signal %d", e->d_name, open_to[i]);
	}
	closedir(d);
	assert_true(threads > 0);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &mine), 0);
	assert_false(sigismember(&mine, SIGUSR1));
}

static void the_bound_of_a_call_is_its_time_the_grace_and_a_fence(void **state)
{
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	uint64_t least;
	(void)state;
	need_server();
	o = test_options(one, 1, 1);
	o.timeout_ns = 0;
	o.grace_ns = 70000000;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	least = kvc_call_bound_ns(pool, 1, 0);
	assert_true(least > o.grace_ns + 1);
	assert_true(kvc_call_bound_ns(pool, SHORT_NS, 0) == SHORT_NS + least - 1);
	assert_true(kvc_call_bound_ns(pool, SHORT_NS, 1ull << 40) == SHORT_NS + least - 1);
	/* Nobody names a timeout: 5 s, and more for a large call. */
	assert_true(kvc_call_bound_ns(pool, 0, 0) == 5000000000 + least - 1);
	assert_true(kvc_call_bound_ns(pool, 0, 100000000) == 6000000000 + least - 1);
	assert_true(kvc_call_bound_ns(pool, UINT64_MAX, 0) == UINT64_MAX);
	assert_true(kvc_call_bound_ns(pool, UINT64_MAX - 5, 0) == UINT64_MAX);
	assert_true(kvc_call_bound_ns(NULL, 1, 0) == 0);
	kvc_pool_close(&pool);
	o.timeout_ns = SHORT_NS;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	assert_true(kvc_call_bound_ns(pool, 0, 1ull << 40) == SHORT_NS + least - 1);
	kvc_pool_close(&pool);
}

/* The kernel accepts the connection, and nobody answers the hello. */
static void opening_ends_when_the_server_is_stopped(void **state)
{
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	need_server();
	o = test_options(one, 1, 2);
	o.connect_timeout_ns = SHORT_NS;
	test_server_stop(&test_first);
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_ETIMEOUT);
	assert_null(pool);
	if (!strstr(err.text, test_first.address))
		fail_msg("\"%s\" does not name the server", err.text);
	test_server_cont(&test_first);
}

/* What the caller saw while a pool opened. */
struct opening {
	unsigned looks, open, up;
	unsigned give_up_at; /* clients open; 0: never */
	bool backwards;
};

static bool opening_look(void *arg, unsigned clients_open, unsigned clients_up)
{
	struct opening *s = arg;
	s->looks++;
	s->backwards |= clients_open < s->open || clients_up < s->up || clients_up > clients_open;
	s->open = clients_open;
	s->up = clients_up;
	return s->give_up_at == 0 || clients_open < s->give_up_at;
}

static void opening_shows_how_far_it_is(void **state)
{
	struct opening seen = {0};
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	(void)state;
	need_server();
	o = test_options(one, 1, 5);
	o.buffer_bytes = MIB;
	o.opening = opening_look;
	o.opening_arg = &seen;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	assert_in_range(seen.looks, 1, 1000000);
	assert_int_equal(seen.open, 5);
	assert_int_equal(seen.up, 5);
	assert_false(seen.backwards);
	kvc_pool_close(&pool);
}

/* A server that says nothing keeps it open long enough to look. */
static void opening_can_be_given_up(void **state)
{
	struct opening seen = {.give_up_at = 1};
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	need_server();
	o = test_options(one, 1, 2);
	o.opening = opening_look;
	o.opening_arg = &seen;
	test_server_stop(&test_first);
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_ECANCELED);
	test_server_cont(&test_first);
	assert_null(pool);
	assert_non_null(strstr(err.text, "of 2 clients open"));
	assert_int_equal(seen.up, 0);
}

/* One loop, which opens one client after the other: what is short for the first is not tried for the rest. */
static void the_first_client_that_fails_ends_opening(void **state)
{
	struct opening seen = {0};
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	if (!test_provider_is("tcp") && !test_provider_is("tcp-native")) {
		print_message("what makes opening fail is a setting of tcp's\n");
		skip();
	}
	need_server();
	o = test_options(one, 1, 3);
	o.num_threads = 1;
	o.opening = opening_look;
	o.opening_arg = &seen;
	assert_int_equal(setenv("FI_TCP_ZEROCOPY_SIZE", "4096", 1),
			 0); /* refused by the engine, not by the pre-flight */
	int rc = kvc_pool_open(&o, &pool, &err);
	unsetenv("FI_TCP_ZEROCOPY_SIZE");
	assert_int_equal(rc, -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "client 0"));
	assert_int_equal(seen.open, 0);
	assert_null(pool);
}

static void lines_count(void *arg, int level, const char *line)
{
	(void)level;
	print_message("%s\n", line);
	++*(_Atomic unsigned *)arg;
}

/* Not that there is no route, which would be looked for. */
static void a_pool_without_a_descriptor_names_the_limit_first(void **state)
{
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	struct rlimit old, tight;
	_Atomic unsigned lines = 0;
	int rc, next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)state;
	need_server();
	o = test_options(one, 1, 1);
	o.log = lines_count;
	o.log_arg = &lines;
	o.log_level = KV_LOG_WARN;
	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	tight.rlim_cur = (rlim_t)next; /* all numbers below are taken */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	rc = kvc_pool_open(&o, &pool, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(rc, -KV_ELIMIT);
	assert_null(pool);
	assert_int_equal(lines, 0);
	check_contains(err.text, "files open; raise the limit (ulimit -n");
}

static void the_memory_of_buffers_is_told(void **state)
{
	struct kvc_info i = {.size = sizeof(i)};
	(void)state;
	need_server();
	assert_int_equal(kvc_info(shared, &i), 0);
	assert_non_null(strstr(i.memory, " pages"));
	assert_true(i.numa[0] != 0);
}

/* ---- workers and threads ---- */

static void mixed_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	uint8_t *buf = malloc(200000);
	char text[64];
	job->ran++;
	for (unsigned i = 0; i < 60; i++) {
		size_t len = 1 + (w * 7919 + i * 104729) % 200000;
		struct kvc_key key = key_of(text, sizeof(text), "mixed", w * 1000 + i);
		test_fill(buf, len, w * 1000 + i);
		EXPECT(kvc_put_await(c, key, buf, len, NULL) == 0);
		memset(buf, 0, len);
		EXPECT(kvc_get_await(c, key, buf, 200000, NULL) == (int64_t)len);
		EXPECT(test_same(buf, len, w * 1000 + i));
		EXPECT(kvc_delete_await(c, key, NULL) == 0);
	}
	free(buf);
}

static void sixty_four_workers_share_four_clients(void **state)
{
	struct kvc_counters n = {.size = sizeof(n)};
	struct kvc_info info = {.size = sizeof(info)};
	struct workers job = {0};
	struct kvc_pool *p;
	(void)state;
	need_server();
	p = test_pool(one, 1, 4);
	assert_int_equal(kvc_run(p, 64, mixed_worker, &job), 0);
	assert_int_equal(job.ran, 64);
	assert_int_equal(job.failed, 0);
	assert_int_equal(kvc_counters(p, &n), 0);
	assert_int_equal(n.gets, 64 * 60);
	assert_int_equal(n.hits, 64 * 60);
	assert_int_equal(n.errors, 0);
	assert_int_equal(n.bad_frames, 0);
	assert_int_equal(n.stale_immediates, 0);
	assert_int_equal(n.quarantined_bytes, 0);
	assert_int_equal(kvc_info(p, &info), 0);
	assert_int_equal(info.num_clients, 4);
	assert_int_equal(info.os_threads, 2);
	assert_int_equal(info.links, 4 * 2); /* two shards */
	assert_int_equal(info.buffer_bytes, 4 * 64 * MIB);
	kvc_pool_close(&p);
	assert_null(p);
}

static void spawned(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	(void)c;
	(void)w;
	job->ran++;
}

static void spawned_coroutines_run(void **state)
{
	struct workers job = {0};
	uint64_t until = now_ns() + 10000000000ull;
	(void)state;
	need_server();
	for (unsigned w = 0; w < 10; w++)
		assert_int_equal(kvc_spawn(shared, w, spawned, &job), 0);
	while (job.ran < 10 && now_ns() < until)
		usleep(1000);
	assert_int_equal(job.ran, 10);
}

struct thread_job {
	pthread_t thread;
	unsigned w, failed;
};

static void *thread_main(void *arg)
{
	struct thread_job *job = arg;
	uint8_t *buf = malloc(100000);
	char text[64];
	for (unsigned i = 0; i < 100 && !job->failed; i++) {
		size_t len = 1 + (job->w * 7919 + i * 104729) % 100000;
		struct kvc_key key = key_of(text, sizeof(text), "thread", job->w * 1000 + i);
		test_fill(buf, len, i);
		job->failed += kvc_put(shared, key, buf, len, NULL) != 0;
		memset(buf, 0, len);
		job->failed += kvc_get(shared, key, buf, 100000, NULL) != (int64_t)len || !test_same(buf, len, i);
		job->failed += kvc_delete(shared, key, NULL) != 0;
	}
	free(buf);
	return NULL;
}

static void blocking_calls_come_from_four_threads(void **state)
{
	static struct thread_job job[4]; /* a failing assertion may leave threads behind */
	(void)state;
	need_server();
	for (unsigned w = 0; w < 4; w++) {
		job[w].w = w;
		assert_int_equal(pthread_create(&job[w].thread, NULL, thread_main, &job[w]), 0);
	}
	for (unsigned w = 0; w < 4; w++) {
		pthread_join(job[w].thread, NULL);
		assert_int_equal(job[w].failed, 0);
	}
}

/* All parts of batches together leave a loop most of its coroutines, however many clients share it. */
static void clients_of_one_loop_share_its_coroutines(void **state)
{
	struct kvc_pool *p;
	(void)state;
	need_server();
	assert_int_equal(kc_pool_client(shared, 0)->batches.parts_max, KC_PARTS_MAX);
	p = test_pool(one, 1, 5); /* on two loops */
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(kc_pool_client(p, i)->batches.parts_max, KC_PARTS_MAX / 3);
	kvc_pool_close(&p);
}

/* ---- closing ---- */

struct caller {
	struct kvc_pool *pool;
	int64_t rc;
};

static void *call_main(void *arg)
{
	struct caller *c = arg;
	static uint8_t buf[100000];
	c->rc = kvc_get(c->pool, NAMED("close"), buf, sizeof(buf), NULL);
	return NULL;
}

static void closing_ends_calls_in_progress(void **state)
{
	static uint8_t buf[100000];
	struct caller c = {0};
	pthread_t thread;
	(void)state;
	need_server();
	c.pool = pool_open(one, 1, 1, 64 * MIB);
	assert_int_equal(kvc_put(c.pool, NAMED("close"), buf, sizeof(buf), NULL), 0);
	test_server_stop(&test_first);
	assert_int_equal(pthread_create(&thread, NULL, call_main, &c), 0);
	usleep(100000);
	kvc_pool_close(&c.pool); /* the call's own deadline is 20 s away */
	pthread_join(thread, NULL);
	assert_int_equal(c.rc, -KV_ECLOSED);
	test_server_cont(&test_first);
	c.pool = pool_open(one, 1, 1, 64 * MIB);
	assert_int_equal(kvc_delete(c.pool, NAMED("close"), NULL), 0);
	kvc_pool_close(&c.pool);
}

static void the_server_ends_in_order(void **state)
{
	(void)state;
	need_server();
	kvc_pool_close(&shared);
	assert_int_equal(test_server_end(&test_first), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_the_host_executes_has_no_socket_of_the_pool),
		cmocka_unit_test(signals_of_the_host_never_come_to_threads_of_the_pool),
		cmocka_unit_test(the_bound_of_a_call_is_its_time_the_grace_and_a_fence),
		cmocka_unit_test_teardown(opening_ends_when_the_server_is_stopped, let_go),
		cmocka_unit_test(opening_shows_how_far_it_is),
		cmocka_unit_test_teardown(opening_can_be_given_up, let_go),
		cmocka_unit_test(the_first_client_that_fails_ends_opening),
		cmocka_unit_test(a_pool_without_a_descriptor_names_the_limit_first),
		cmocka_unit_test(the_memory_of_buffers_is_told),
		cmocka_unit_test(sixty_four_workers_share_four_clients),
		cmocka_unit_test(spawned_coroutines_run),
		cmocka_unit_test(blocking_calls_come_from_four_threads),
		cmocka_unit_test(clients_of_one_loop_share_its_coroutines),
		cmocka_unit_test_teardown(closing_ends_calls_in_progress, let_go),
		cmocka_unit_test(the_server_ends_in_order),
	};
	return test_both_ways(tests, calls_up, calls_down);
}
