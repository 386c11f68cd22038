/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- kv-server children for the tests. */
#include "server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

const char *test_server_binary(void)
{
	static char path[PATH_MAX];
	const char *env = getenv("KV_SERVER");
	ssize_t n;
	if (env)
		return env;
	/* .../build/MODE/tests/kvclient/test_x -> .../build/MODE/kv-server */
	n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	for (int up = 0; n > 0 && up < 3; up++)
		while (n > 0 && path[--n] != '/')
			;
	if (n <= 0)
		return NULL;
	memcpy(path + n, "/kv-server", sizeof("/kv-server"));
	return access(path, X_OK) == 0 ? path : NULL;
}

/* How long the threads of a process have been ready to run while others ran. */
static uint64_t queued_ns(pid_t pid)
{
	char path[300];
	unsigned long long ns, sum = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	for (struct dirent *e; tasks && (e = readdir(tasks));) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, e->d_name);
		FILE *f = fopen(path, "re");
		if (f && fscanf(f, "%*u %llu", &ns) == 1)
			sum += ns;
		if (f)
			fclose(f);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

/* Wait for what a starting server says. It has 30 s, beside those in which it waits for a processor: with 22 busy loops
 * beside it a start takes a fifth of a second of one, in pieces, and waits 25 s for them. */
static void ready_await(int fd, pid_t pid)
{
	const uint64_t patience_ns = 30000000000ull, begun = kv_clock_now(&kv_clock_monotonic);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	while (poll(&p, 1, 1000) != 1)
		if (kv_clock_now(&kv_clock_monotonic) - begun > patience_ns + queued_ns(pid))
			fail_msg("kv-server did not become ready within 30 s");
}

/* Read "READY HOST:PORT". */
static void ready_read(int fd, pid_t pid, char *address, size_t cap)
{
	char line[128] = "";
	size_t have = 0;
	while (!strchr(line, '\n')) {
		ssize_t n;
		ready_await(fd, pid);
		n = read(fd, line + have, sizeof(line) - 1 - have);
		if (n <= 0)
			fail_msg("kv-server ended before it was ready");
		have += (size_t)n;
		line[have] = 0;
	}
	*strchr(line, '\n') = 0;
	assert_memory_equal(line, "READY ", 6);
	snprintf(address, cap, "%s", line + 6);
}

/* In the child: only what may be called after fork. It dies with the test, however that ends. */
static void server_exec(const char *binary, char **argv, int ready_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(ready_fd, 3);
	execv(binary, argv);
	_exit(127);
}

/* A free port. The socket is bound, does not listen, and stays until the program ends: while its server is dead neither
 * a connection nor somebody else's server gets the port. Ours does, for both sockets have SO_REUSEADDR. */
static void address_hold(char *address, size_t cap)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	snprintf(address, cap, "127.0.0.1:%u", ntohs(at.sin_port));
}

void test_server_start(struct test_server *s, const char *node_id)
{
	test_server_start_with(s, node_id, NULL);
}

void test_server_start_with(struct test_server *s, const char *node_id, const char *const *more)
{
	const char *binary = test_server_binary();
	char *argv[] = {"kv-server",
			"--listen-addr",
			s->address,
			"--provider",
			(char *)test_provider(),
			"--memory-mb",
			"512",
			"--worker-threads",
			"2",
			"--log-level",
			"warn",
			"--ready-fd",
			"3",
			"--prefault", /* tests look at what a server has resident */
			"off",
			node_id ? "--node-id" : NULL,
			(char *)node_id,
			[17] = NULL,
			[32] = NULL};
	int pipe_fd[2];
	if (!s->address[0])
		address_hold(s->address, sizeof(s->address));
	for (unsigned i = node_id ? 17 : 15; more && *more && i < 32; i++)
		argv[i] = (char *)*more++;
	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	s->node_id = node_id;
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0)
		server_exec(binary, argv, pipe_fd[1]);
	close(pipe_fd[1]);
	ready_read(pipe_fd[0], s->pid, s->address, sizeof(s->address));
	close(pipe_fd[0]);
	snprintf(s->entry, sizeof(s->entry), "%s%s%s", node_id ? node_id : "", node_id ? "=" : "", s->address);
}

static bool taken(const char *address)
{
	struct kv_hostport at;
	struct sockaddr_storage sa;
	socklen_t len = 0;
	bool connected;
	int fd;
	if (kv_hostport_parse(address, &at, NULL) < 0 || kv_hostport_resolve(&at, &sa, &len, NULL) < 0)
		fail_msg("%s is no address", address);
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	connected = connect(fd, (struct sockaddr *)&sa, len) == 0;
	close(fd);
	return connected;
}

/* What io_uring holds of a killed process the kernel closes a moment after the process has ended: until then its port
 * takes connections. */
void test_server_kill(struct test_server *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	s->pid = 0;
	for (unsigned i = 0; s->address[0] && taken(s->address); i++) {
		if (i == 3000)
			fail_msg("%s still takes connections 30 s after its server was killed", s->address);
		usleep(10000);
	}
}

void test_server_stop(struct test_server *s)
{
	int status = 0;
	kill(s->pid, SIGSTOP);
	/* The kernel tells a parent of the stop when the last thread stands still, and not before (signal(7): a stop is
	 * one of the whole process). */
	assert_int_equal(waitpid(s->pid, &status, WUNTRACED), s->pid);
	assert_true(WIFSTOPPED(status));
}

void test_server_cont(struct test_server *s)
{
	kill(s->pid, SIGCONT);
}

int test_server_end(struct test_server *s)
{
	int status = -1;
	if (s->pid <= 0)
		return 0;
	kill(s->pid, SIGTERM);
	for (int i = 0; i < 300; i++) {
		if (waitpid(s->pid, &status, WNOHANG) == s->pid) {
			s->pid = 0;
			return status;
		}
		usleep(100000);
	}
	test_server_kill(s);
	return -1;
}

int test_local = TEST_WAY_DEFAULT;

struct kvc_options test_options(const struct test_server *const *servers, unsigned n, unsigned clients)
{
	static const char *names[16];
	struct kvc_options o = {
		.size = sizeof(o), .num_clients = clients, .num_threads = 2, .servers = names, .num_servers = n};
	for (unsigned i = 0; i < n; i++)
		names[i] = servers[i]->entry;
	o.provider = test_provider();
	o.flags = KVC_OPEN_WAIT;
	o.timeout_ns = 20000000000ull;
	o.connect_timeout_ns = 20000000000ull;
	o.log_level = 2;
	o.local = (enum kvc_local)test_local;
	if (test_local == TEST_WAY_DEFAULT)
		o.local = getenv("KVRAIL_TEST_PROVIDER") ? KVC_LOCAL_OFF : KVC_LOCAL_AUTO;
	o.seal_key_file = getenv("KVRAIL_TEST_SEAL");
	if (o.seal_key_file)
		o.flags |= KVC_SEAL_NAMES;
	return o;
}

struct kvc_pool *test_pool(const struct test_server *const *servers, unsigned n, unsigned clients)
{
	struct kvc_options o = test_options(servers, n, clients);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	int rc = kvc_pool_open(&o, &pool, &err);
	if (rc < 0)
		fail_msg("kvc_pool_open: %s: %s", kv_errname(rc), err.text);
	return pool;
}

static uint64_t word(uint64_t key, uint64_t i)
{
	uint64_t x = key * 0x9E3779B97F4A7C15ull + i * 0xBF58476D1CE4E5B9ull;
	return (x ^ x >> 29) * 0x94D049BB133111EBull;
}

void test_fill(void *at, size_t len, uint64_t key)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word(key, i);
		memcpy((char *)at + i, &w, len - i < 8 ? len - i : 8);
	}
}

bool test_same(const void *at, size_t len, uint64_t key)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word(key, i);
		if (memcmp((const char *)at + i, &w, len - i < 8 ? len - i : 8) != 0)
			return false;
	}
	return true;
}

void test_server_up(struct test_server *s, const char *node_id)
{
	if (!test_server_binary())
		return;
	kvc_program_setup();
	test_server_start(s, node_id);
}

void test_server_need(const struct test_server *s)
{
	if (s->pid)
		return;
	print_message("kv-server is not built (KV_SERVER or build/MODE/kv-server)\n");
	skip();
}

struct test_server test_first, test_second;
struct kvc_pool *test_one_pool;

int test_one_up(void **state)
{
	static const struct test_server *const one[] = {&test_first};
	(void)state;
	test_server_up(&test_first, "first");
	test_one_pool = test_first.pid ? test_pool(one, 1, 1) : NULL;
	return 0;
}

int test_one_down(void **state)
{
	(void)state;
	kvc_pool_close(&test_one_pool);
	test_server_kill(&test_first);
	return 0;
}

int test_two_up(void **state)
{
	(void)state;
	test_server_up(&test_first, "first");
	test_server_up(&test_second, "second");
	return 0;
}

int test_two_down(void **state)
{
	(void)state;
	test_server_kill(&test_first);
	test_server_kill(&test_second);
	return 0;
}

uint64_t test_stat(struct kvc_pool *pool, const char *name)
{
	struct kvc_stat_item item[256];
	int n = kvc_stat(pool, item, KV_COUNT(item), NULL);
	for (int i = 0; i < n; i++)
		if (strcmp(item[i].name, name) == 0)
			return item[i].value;
	fail_msg("no counter %s", name);
	return 0;
}
