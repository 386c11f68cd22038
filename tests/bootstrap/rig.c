/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c -- see rig.h. */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char *const rig_psk = "bench:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static void to_stderr(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg, (void)level;
	if (getenv("KVRAIL_TEST_LOG"))
		fprintf(stderr, "%s\n", line);
}

static const struct kv_log test_log = {.level = KV_LOG_DEBUG, .write = to_stderr};

static struct boot_context *context(const struct boot_security *security, bool server)
{
	struct boot_context *ctx = NULL;
	struct kv_error err = {0};
	if (!security)
		return NULL;
	int rc = boot_context_create(security, server, &test_log, &ctx, &err);
	if (rc)
		fail_msg("boot_context_create: %s", err.text);
	return ctx;
}

void rig_init(struct rig *r, const struct boot_security *server, const struct boot_security *client)
{
	struct kv_error err = {0};
	struct loop_options options = {.name = "test", .log = &test_log};
	*r = (struct rig){.open_timeout_ns = 20 * SECOND, .listen_fd = -1};
	if (loop_create(&options, &r->loop, &err))
		fail_msg("loop_create: %s", err.text);
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	memcpy(&r->addr, &in, sizeof(in));
	if (io_listen(r->loop, &r->addr, sizeof(in), &r->listen_fd, &err))
		fail_msg("io_listen: %s", err.text);
	r->server = context(server, true);
	r->client = context(client, false);
}

static void close_all(struct rig *r)
{
	boot_close(&r->c);
	boot_close(&r->s);
}

void rig_fini(struct rig *r)
{
	rig_spawn(r, close_all);
	rig_run(r);
	io_close(r->loop, r->listen_fd);
	boot_context_destroy(&r->server);
	boot_context_destroy(&r->client);
	loop_destroy(&r->loop);
}

struct job {
	struct rig *r;
	void (*fn)(struct rig *r);
};

static void job_run(void *arg)
{
	struct job job = *(struct job *)arg;
	free(arg);
	job.fn(job.r);
	job.r->running--;
}

void rig_spawn(struct rig *r, void (*fn)(struct rig *r))
{
	struct job *job = malloc(sizeof(*job));
	assert_non_null(job);
	*job = (struct job){.r = r, .fn = fn};
	r->running++;
	assert_int_equal(co_spawn(r->loop, job_run, job, "test"), 0);
}

void rig_run(struct rig *r)
{
	uint64_t end = loop_now(r->loop) + 60 * SECOND;
	while (r->running) {
		loop_turn(r->loop, 10 * MILLISECOND);
		if (loop_now(r->loop) > end)
			fail_msg("%u coroutines hang", r->running);
	}
}

uint64_t rig_in(const struct rig *r, uint64_t ns)
{
	return loop_now(r->loop) + ns;
}

void rig_accept_only(struct rig *r)
{
	int fd;
	struct sockaddr_storage peer;
	r->s_rc = io_accept_await(r->listen_fd, &fd, &peer, rig_in(r, 20 * SECOND));
	if (r->s_rc == 0)
		r->s_rc =
			boot_accept_await(r->server, fd, &peer, 5000, rig_in(r, r->open_timeout_ns), &r->s, &r->s_err);
}

void rig_connect_only(struct rig *r)
{
	const struct boot_server server = {.addr = &r->addr,
					   .addr_len = sizeof(struct sockaddr_in),
					   .name = r->dialled ? r->dialled : "127.0.0.1"};
	r->c_rc = boot_connect_await(r->client, &server, 5000, rig_in(r, r->open_timeout_ns), &r->c, &r->c_err);
}

void rig_open(struct rig *r)
{
	rig_spawn(r, rig_accept_only);
	rig_spawn(r, rig_connect_only);
	rig_run(r);
}

void rig_open_ok(struct rig *r)
{
	rig_open(r);
	if (r->c_rc || r->s_rc)
		fail_msg("client: %d %s; server: %d %s", r->c_rc, r->c_err.text, r->s_rc, r->s_err.text);
}

int rig_raw_connect(struct rig *r)
{
	int fd = -1;
	assert_int_equal(io_connect_await(&r->addr, sizeof(struct sockaddr_in), &fd, rig_in(r, 20 * SECOND)), 0);
	return fd;
}

int rig_raw_accept(struct rig *r)
{
	int fd = -1;
	struct sockaddr_storage peer;
	assert_int_equal(io_accept_await(r->listen_fd, &fd, &peer, rig_in(r, 20 * SECOND)), 0);
	return fd;
}

/* ---- files ---- */

static char scratch[100];

const char *rig_scratch(void)
{
	if (!scratch[0]) {
		const char *tmp = getenv("TMPDIR");
		snprintf(scratch, sizeof(scratch), "%s/bootstrap-XXXXXX", tmp ? tmp : "/tmp");
		assert_non_null(mkdtemp(scratch));
	}
	return scratch;
}

static void spawn_wait(char *const argv[])
{
	pid_t pid;
	int status;
	assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		fail_msg("%s %s: status %d (run from the root of the tree)", argv[0], argv[1], status);
}

void rig_scratch_drop(void)
{
	if (!scratch[0])
		return;
	char *argv[] = {"rm", "-rf", scratch, NULL};
	spawn_wait(argv);
	scratch[0] = 0;
}

const char *rig_path(const char *sub, const char *name)
{
	static char path[16][256];
	static unsigned turn;
	char *p = path[turn++ % 16];
	snprintf(p, sizeof(path[0]), "%s/%s/%s", rig_scratch(), sub, name);
	return p;
}

const char *rig_file(const char *name, const char *text, unsigned mode)
{
	const char *path = rig_path(".", name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

void rig_certs(void)
{
	static bool made;
	char certs[128], foreign[128];
	if (made)
		return;
	made = true;
	snprintf(certs, sizeof(certs), "%s/certs", rig_scratch());
	snprintf(foreign, sizeof(foreign), "%s/foreign", rig_scratch());
	char *one[] = {"bash", "scripts/make-test-certs.sh", "--odd", certs, "kv.example", NULL};
	char *two[] = {"bash", "scripts/make-test-certs.sh", foreign, "kv.example", NULL};
	spawn_wait(one);
	spawn_wait(two);
}

void rig_certs_rsa(void)
{
	char rsa[128];
	snprintf(rsa, sizeof(rsa), "%s/rsa", rig_scratch());
	char *argv[] = {"bash", "scripts/make-test-certs.sh", "--rsa", rsa, NULL};
	spawn_wait(argv);
}

struct boot_security rig_security_psk(void)
{
	return (struct boot_security){.psk = rig_psk};
}

/* The caller may use the paths until 16 more are asked for; contexts read the files at once. */
struct boot_security rig_security_cert(const char *authority, const char *who)
{
	char name[32];
	rig_certs();
	struct boot_security s = {.ca_file = rig_path(authority, "ca.pem")};
	snprintf(name, sizeof(name), "%s.pem", who);
	s.cert_file = rig_path(authority, name);
	snprintf(name, sizeof(name), "%s.key", who);
	s.key_file = rig_path(authority, name);
	return s;
}

struct wire_ctrl_msg rig_heartbeat(uint64_t sequence)
{
	struct wire_ctrl_msg m;
	memset(&m, 0, sizeof(m));
	m.type = WIRE_CTRL_HEARTBEAT;
	m.heartbeat.sequence = sequence;
	return m;
}

unsigned rig_open_fds(void)
{
	unsigned n = 0;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}
