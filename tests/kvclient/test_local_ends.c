/* SPDX-License-Identifier: Apache-2.0 */
/* test_local_ends.c -- connections to servers on this host that end, or never begin: replies that come after the
 * attachment has left, children of fork(), and memory that cannot be mapped. Servers give nothing away for ever.
 *
 * An observer that uses the fabric alone reads the server's gauges. */
#include "calls.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/local.h"

static struct test_server own;
static const struct test_server *const servers[] = {&own};
static struct kvc_pool *observer, *pool;
static struct rlimit files_before;

static int start(void **state)
{
	struct kvc_options o;
	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &files_before) != 0)
		return -1;
	if (!test_server_binary())
		return 0;
	test_server_start(&own, "own");
	o = test_options(servers, 1, 1);
	o.local = KVC_LOCAL_OFF;
	return kvc_pool_open(&o, &observer, NULL);
}

static int end(void **state)
{
	(void)state;
	setrlimit(RLIMIT_NOFILE, &files_before);
	if (own.pid)
		test_server_cont(&own);
	kvc_pool_close(&observer);
	if (own.pid)
		test_server_kill(&own);
	return 0;
}

static void need_own(void)
{
	test_server_need(&own);
}

static struct kvc_server_info info_of(unsigned client)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	assert_int_equal(kvc_server_info(pool, client, 0, &s), 0);
	return s;
}

static bool is_local(void)
{
	return info_of(0).local;
}

/* The observer may be connecting again. */
static void observe(const char *name, uint64_t value)
{
	uint64_t until = now_ns() + WAIT_NS;
	while ((kvc_ping(observer, NULL) < 0 || test_stat(observer, name) != value) && now_ns() < until)
		usleep(2000);
	assert_int_equal(test_stat(observer, name), value);
}

static void store(struct kvc_key key, size_t len)
{
	uint8_t *value = malloc(len);
	test_fill(value, len, 1);
	assert_int_equal(kvc_put(pool, key, value, len, NULL), 0);
	free(value);
}

/* ---- late replies ---- */

enum { GETTERS = 48, LEN = 65536 };

static _Atomic bool stop;

static void *getter_main(void *arg)
{
	struct kvc_call call = brief();
	struct kvc_borrowed b;
	(void)arg;
	while (!stop)
		if (kvc_get_borrowed(pool, NAMED("late"), LEN, &call, &b) >= 0)
			kvc_borrowed_release(NULL, &b);
	return NULL;
}

/* Until the clients have lost more connections than `lost`. */
static void lost_wait(uint64_t lost)
{
	uint64_t until = now_ns() + WAIT_NS;
	while (counters(pool).lost_connections <= lost && now_ns() < until)
		usleep(2000);
	assert_true(counters(pool).lost_connections > lost);
}

static void back_wait(unsigned client)
{
	uint64_t until = now_ns() + WAIT_NS;
	while (info_of(client).state != KVC_SERVER_UP && now_ns() < until)
		usleep(2000);
	assert_int_equal(info_of(client).state, KVC_SERVER_UP);
}

/* The server stands still until the client has given it up, with requests in its rings. */
static void stand_still(void)
{
	pthread_t getter[GETTERS];
	uint64_t lost = counters(pool).lost_connections;
	stop = false;
	for (unsigned i = 0; i < GETTERS; i++)
		assert_int_equal(pthread_create(&getter[i], NULL, getter_main, NULL), 0);
	usleep(20000);
	test_server_stop(&own);
	lost_wait(lost);
	stop = true;
	for (unsigned i = 0; i < GETTERS; i++)
		pthread_join(getter[i], NULL);
	test_server_cont(&own);
	back_wait(0);
	assert_true(is_local());
}

static void late_replies_keep_no_leases(void **state)
{
	struct kvc_borrowed held[3];
	(void)state;
	need_own();
	pool = test_pool(servers, 1, 1);
	assert_true(is_local());
	store(NAMED("late"), LEN);
	for (unsigned i = 0; i < KV_COUNT(held); i++) {
		assert_int_equal(kvc_get_borrowed(pool, NAMED("late"), LEN, NULL, &held[i]), LEN);
		assert_int_equal(held[i].in_place, 1);
		stand_still();
		observe("local_leases", i + 1);
	}
	for (unsigned i = 0; i < KV_COUNT(held); i++)
		kvc_borrowed_release(NULL, &held[i]);
	observe("local_leases", 0);
	kvc_pool_close(&pool);
}

/* ---- landing areas ---- */

/* One of the fabric would rest for seconds, and a few clients that come and go would take them all. */
static void clients_in_place_take_no_area_of_the_fabric(void **state)
{
	uint64_t before;
	(void)state;
	need_own();
	before = test_stat(observer, "landing_bytes");
	for (unsigned i = 0; i < 3; i++) {
		pool = test_pool(servers, 1, 1);
		assert_true(is_local());
		store(NAMED("landed"), LEN);
		assert_int_equal(counters(pool).local_puts, 1);
		kvc_pool_close(&pool);
		observe("locals", 0);
		assert_int_equal(test_stat(observer, "landing_bytes"), before);
	}
}

/* ---- children of fork() ---- */

enum { PLACES = 2 };

/* Values and room of a pool. */
static void borrow_all(struct kvc_borrowed *value, struct kvc_borrowed *place)
{
	for (unsigned i = 0; i < PLACES; i++) {
		store(KEY(i), LEN);
		if (kvc_get_borrowed(pool, KEY(i), LEN, NULL, &value[i]) != LEN || !value[i].in_place ||
		    kvc_put_borrow(pool, KEY(i), LEN, 0, &place[i]) != 0)
			abort();
	}
}

static pid_t sleeper(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		alarm(120);
		for (;;)
			pause();
	}
	return pid;
}

static void reap(pid_t pid)
{
	int status;
	kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
}

static void a_child_keeps_no_leases_of_a_parent_that_closes(void **state)
{
	struct kvc_borrowed value[PLACES], place[PLACES];
	pid_t child;
	(void)state;
	need_own();
	pool = test_pool(servers, 1, 2);
	borrow_all(value, place);
	child = sleeper();
	assert_true(child > 0);
	observe("local_leases", PLACES); /* the parent's go on */
	assert_true(is_local());
	for (unsigned i = 0; i < PLACES; i++) {
		assert_true(test_same(value[i].data, LEN, 1));
		kvc_borrowed_release(NULL, &place[i]);
	}
	kvc_pool_close(&pool);
	observe("local_leases", PLACES);
	for (unsigned i = 0; i < PLACES; i++)
		kvc_borrowed_release(NULL, &value[i]);
	observe("local_leases", 0);
	observe("locals", 0);
	reap(child);
}

/* The process to kill: it tells its child's number, and sleeps. */
static void parent_main(int out)
{
	struct kvc_borrowed value[PLACES], place[PLACES];
	pid_t child;
	alarm(120);
	pool = test_pool(servers, 1, 2);
	borrow_all(value, place);
	child = sleeper();
	if (write(out, &child, sizeof(child)) != sizeof(child))
		_exit(1);
	for (;;)
		pause();
}

static void a_child_keeps_no_leases_of_a_parent_that_dies(void **state)
{
	int to[2];
	pid_t parent, child = -1;
	(void)state;
	need_own();
	if (KV_TSAN || KV_ASAN) {
		print_message("sanitizers do not support a child that makes threads\n");
		skip();
	}
	assert_int_equal(pipe(to), 0);
	parent = fork();
	if (parent == 0)
		parent_main(to[1]);
	close(to[1]);
	assert_int_equal(read(to[0], &child, sizeof(child)), sizeof(child));
	observe("local_leases", PLACES);
	reap(parent);
	observe("local_leases", 0);
	observe("locals", 0);
	assert_int_equal(kill(child, 0), 0);
	kill(child, SIGKILL);
	close(to[0]);
}

/* ---- memory that cannot be mapped ---- */

int __real_local_map(int fd, uint64_t len_bytes, bool writable, void **out, struct kv_error *err);
int __wrap_local_map(int fd, uint64_t len_bytes, bool writable, void **out, struct kv_error *err);

static _Atomic bool unmappable;
static _Atomic unsigned maps, reasons;
static const char *reason;

int __wrap_local_map(int fd, uint64_t len_bytes, bool writable, void **out, struct kv_error *err)
{
	maps++;
	if (unmappable)
		return kv_fail(err, -KV_ENOMEM, "no address space for this test");
	return __real_local_map(fd, len_bytes, writable, out, err);
}

static void count_reasons(void *arg, int level, const char *line)
{
	(void)arg;
	if (level <= KV_LOG_WARN && strstr(line, "come over the fabric") && strstr(line, reason))
		reasons++;
}

static void memory_that_cannot_be_mapped_costs_one_attempt(void **state)
{
	enum { ROUNDS = 200 };
	struct kvc_options o = test_options(servers, 1, 1);
	uint64_t lost;
	uint8_t to[LEN];
	(void)state;
	need_own();
	unmappable = true;
	reason = "no address space for this";
	maps = reasons = 0;
	o.log = count_reasons;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	store(NAMED("far"), LEN);
	for (unsigned i = 0; i < ROUNDS; i++)
		assert_int_equal(kvc_get(pool, NAMED("far"), to, LEN, NULL), LEN);
	assert_false(is_local());
	assert_int_equal(maps, 1);
	assert_int_equal(reasons, 1);
	lost = counters(pool).lost_connections;
	assert_int_equal(lost + counters(pool).reattaches, 0);
	assert_int_equal(test_stat(observer, "sessions"), 2);
	observe("locals", 0);
	/* Not even with a new attachment, for a minute. */
	test_server_stop(&own);
	lost_wait(lost);
	test_server_cont(&own);
	back_wait(0);
	assert_int_equal(kvc_get(pool, NAMED("far"), to, LEN, NULL), LEN);
	assert_int_equal(maps, 1);
	assert_int_equal(reasons, 1);
	unmappable = false;
	kvc_pool_close(&pool);
	/* Another pool asks anew. */
	pool = test_pool(servers, 1, 1);
	assert_true(is_local());
	kvc_pool_close(&pool);
}

/* ---- few descriptors ---- */

enum { FEW_CLIENTS = 2, FEW_FIRST = 32, FEW_MORE = 40, FEW_STEP = 8 };

static void files_allow(rlim_t files)
{
	const struct rlimit few = {.rlim_cur = files, .rlim_max = files_before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* Both clients lose the server, and come back. */
static void all_come_back(void)
{
	uint64_t lost = counters(pool).lost_connections;
	test_server_stop(&own);
	lost_wait(lost + FEW_CLIENTS - 1);
	test_server_cont(&own);
	for (unsigned i = 0; i < FEW_CLIENTS; i++)
		back_wait(i);
}

/* Memory that is shared takes descriptors, of which the fabric needs some for each client, now and after a loss. */
static void descriptors_for_the_fabric_are_left(void **state)
{
	static const char *const more[] = {"--worker-threads", "8", NULL};
	struct kvc_options o = test_options(servers, 1, FEW_CLIENTS);
	uint8_t to[LEN];
	rlim_t files = FEW_FIRST;
	struct kv_error err = {0};
	int rc;
	(void)state;
	need_own();
	kvc_pool_close(&observer); /* it has descriptors */
	test_server_kill(&own);
	test_server_start_with(&own, "own", more);
	reason = "leaves too few for its 8 shards";
	o.log = count_reasons;
	o.peer_timeout_ns = 600000000;
	reasons = 0;
	files_allow(files);
	while ((rc = kvc_pool_open(&o, &pool, &err)) == -KV_ELIMIT)
		files_allow(files += FEW_STEP);
	for (rlim_t most = files + FEW_MORE; files < most;) {
		if (rc < 0)
			fail_msg("with %u files: %s: %s", (unsigned)files, kvc_errname(rc), err.text);
		store(NAMED("few"), LEN);
		all_come_back();
		assert_int_equal(kvc_get(pool, NAMED("few"), to, LEN, NULL), LEN);
		assert_true(info_of(0).local + info_of(1).local == FEW_CLIENTS || reasons > 0);
		kvc_pool_close(&pool);
		reasons = 0;
		files_allow(files += FEW_STEP);
		rc = kvc_pool_open(&o, &pool, &err);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(reasons, 0); /* all of them suffice for both */
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(late_replies_keep_no_leases, start, end),
		cmocka_unit_test_setup_teardown(clients_in_place_take_no_area_of_the_fabric, start, end),
		cmocka_unit_test_setup_teardown(memory_that_cannot_be_mapped_costs_one_attempt, start, end),
		cmocka_unit_test_setup_teardown(descriptors_for_the_fabric_are_left, start, end),
		cmocka_unit_test_setup_teardown(a_child_keeps_no_leases_of_a_parent_that_closes, start, end),
		cmocka_unit_test_setup_teardown(a_child_keeps_no_leases_of_a_parent_that_dies, start, end),
	};
	test_local = KVC_LOCAL_AUTO;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
