/* SPDX-License-Identifier: Apache-2.0 */
/* server_child.c -- start, watch and end the own kv-server.
 *
 * It is spawned (probe/probe.h) before the first libfabric call, in a process group of its own: Ctrl-C reaches kv-bench
 * alone, which ends the child in order. It inherits three pipes: the key (--psk-fd), readiness (--ready-fd: one line
 * with its address), and its log, read by a thread. The end of the log pipe means that the server died.
 *
 * A server that starts during the run (--event) is spawned before it as well, and maps memory and listens once it has
 * its key. A restarted server gets its old address: kv-bench holds the port until then. If a server joins, all servers
 * read their members from a file, rewritten when a server is ready. */
#include "kvbench/setup/server_child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "host/host.h"
#include "kvbench/setup/args.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"
#include "store/store.h"

enum {
	LOG_KEEP = 32 << 10,
	PSK_BYTES = 32,
	STOP_WAIT_MS = 10000,
	MEMBERS_BACK_S = 2,
	UNREADY_WAIT_MS =
		500 /* a server that is still starting is killed: it handles no signal while it touches its memory */
};

struct server_child {
	struct server_child *next; /* of several; the first has the members of all */
	unsigned number;           /* from 1; the last that runs of a number is meant */
	atomic_bool runs;          /* it has its key */
	int psk_pipe[2], ready_fd; /* until it runs; else -1 */
	uint64_t ready_timeout_ns;
	char members[PATH_MAX]; /* of all: the file; "": there is none */
	pid_t pid;
	char name[KV_HOST_MAX + 32];
	atomic_bool was_killed; /* by us, as an event */
	char address[KV_HOST_MAX + 8];
	int held_fd; /* a socket of its port, so that nobody has it while the server is dead; or -1 */
	char psk[32 + 2 * PSK_BYTES];
	int log_fd;
	pthread_t log_thread;
	bool log_live, log_started;
	atomic_bool dead, stopping;
	pthread_mutex_t lock; /* of kept */
	char kept[LOG_KEEP];
	size_t num_kept;
};

/* Needed only until the child runs. */
struct launch {
	int psk_pipe[2], ready_pipe[2], log_pipe[2];
	char binary[PATH_MAX];
	const char *members; /* the file; NULL: there is none */
	unsigned number;
	struct args args;
};

/* ---- its log ---- */

static void log_print(const char *text, size_t len)
{
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;
		/* A line that the server printed as a program carries its name already. */
		if (n > 0)
			fprintf(stderr, "%s%.*s\n",
				n > 11 && memcmp(text, "kv-server: ", 11) == 0 ? "" : "kv-server: ", (int)n, text);
		text += n + !!end;
		len -= n + !!end;
	}
}

static void log_keep(struct server_child *c, const char *text, size_t len)
{
	size_t drop;
	pthread_mutex_lock(&c->lock);
	if (c->num_kept + len > sizeof(c->kept)) {
		drop = KV_MIN(c->num_kept, c->num_kept + len - sizeof(c->kept));
		memmove(c->kept, c->kept + drop, c->num_kept - drop);
		c->num_kept -= drop;
	}
	memcpy(c->kept + c->num_kept, text, len);
	c->num_kept += len;
	pthread_mutex_unlock(&c->lock);
}

static void log_show(struct server_child *c)
{
	pthread_mutex_lock(&c->lock);
	if (!c->log_live)
		log_print(c->kept, c->num_kept);
	c->num_kept = 0;
	pthread_mutex_unlock(&c->lock);
}

/* The last line of the log, without the program's name, or "": the reason of its end. The log's thread has ended. */
static bool log_last(const struct server_child *c, char *out, size_t cap)
{
	static const char name[] = "kv-server: ";
	size_t end = c->num_kept, from;
	while (end > 0 && c->kept[end - 1] == '\n')
		end--;
	for (from = end; from > 0 && c->kept[from - 1] != '\n'; from--)
		;
	bool others = from > 0;
	if (end - from >= sizeof(name) - 1 && memcmp(c->kept + from, name, sizeof(name) - 1) == 0)
		from += sizeof(name) - 1;
	snprintf(out, cap, "%.*s", (int)KV_MIN(end - from, cap - 1), c->kept + from);
	return others;
}

static void *log_main(void *arg)
{
	struct server_child *c = arg;
	char text[4096];
	ssize_t n;
	while ((n = read(c->log_fd, text, sizeof(text))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		if (c->log_live)
			log_print(text, (size_t)n);
		else
			log_keep(c, text, (size_t)n);
	}
	if (!atomic_load(&c->stopping))
		atomic_store(&c->dead, true);
	return NULL;
}

/* ---- starting ---- */

static void find_binary(const char *wanted, char *out, size_t cap)
{
	char *slash;
	ssize_t n;
	if (wanted) {
		snprintf(out, cap, "%s", wanted);
		return;
	}
	n = readlink("/proc/self/exe", out, cap - sizeof("kv-server"));
	if (n > 0) {
		out[n] = 0;
		slash = strrchr(out, '/');
		memcpy(slash ? slash + 1 : out, "kv-server", sizeof("kv-server"));
		if (access(out, X_OK) == 0)
			return;
	}
	snprintf(out, cap, "kv-server"); /* posix_spawnp looks in PATH */
}

static void launch_args(struct launch *l, const struct server_child_options *o, const char *address)
{
	struct args *a = &l->args;
	args_put(a, "kv-server");
	args_add(a, "--listen-addr=%s", address ? address : "127.0.0.1:0");
	args_put(a, "--die-with-parent");
	if (o->allow_pull)
		args_put(a, "--allow-pull");
	if (o->pull_where_safe)
		args_put(a, "--pull-where-safe");
	args_put(a, "--prefault=start"); /* the write phase is not to measure how fast the kernel finds pages */
	args_put(a, "--drain-sec=5");    /* less than STOP_WAIT_MS: it ends by itself then */
	args_add(a, "--memory-mb=%llu", (unsigned long long)o->memory_mb);
	for (unsigned i = 0; o->tier && i < o->tier->count; i++)
		args_add(a, "--tier=%s", o->tier->item[i]);
	args_add(a, "--ready-fd=%d", l->ready_pipe[1]);
	args_add(a, "--psk-fd=%d", l->psk_pipe[0]);
	if (o->provider)
		args_add(a, "--provider=%s", o->provider);
	if (o->nic)
		args_add(a, "--nic=%s", o->nic);
	if (o->numa_off)
		args_put(a, "--numa=off");
	args_add(a, "--door=%s", kv_opt_door_names[o->door]);
	args_add(a, "--eviction=%s", evict_policy_names[o->eviction]);
	if (o->rails > 0)
		args_add(a, "--num-domains=%u", o->rails);
	if (o->threads)
		args_add(a, "--worker-threads=%u", o->threads);
	if (o->max_clients)
		args_add(a, "--max-clients=%u", o->max_clients);
	if (o->max_sessions)
		args_add(a, "--max-sessions=%u", o->max_sessions);
	args_add(a, "--log-level=%s", kv_log_level_name((enum kv_log_level)o->log_level));
	if (l->members) {
		args_add(a, "--members=file:%s", l->members);
		args_add(a, "--node-id=server-%u", l->number);
	}
}

static int launch_spawn(struct launch *l, pid_t *out_pid, struct kv_error *err)
{
	int rc = probe_spawn(l->binary, l->args.arg, l->log_pipe[1], l->log_pipe[1],
			     (const int[]){l->ready_pipe[1], l->psk_pipe[0]}, true, out_pid);
	if (rc == -ENOENT)
		return kv_fail(err, rc,
			       "kv-server is neither in kv-bench's folder nor in PATH: build it "
			       "(make), or name a running one with --server HOST:PORT");
	return rc < 0 ? kv_fail(err, rc, "%s cannot be started: %s", l->binary, kv_strerror(rc)) : 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int open_pipes(struct launch *l, struct kv_error *err)
{
	/* Descriptors 0 to 2 must stay out of it: the child's dup2 calls would overwrite one that it still needs. */
	while (1) {
		int fd = open("/dev/null", O_RDWR);
		if (fd < 0 || fd > 2) {
			close_fd(&fd);
			break;
		}
	}
	if (pipe2(l->psk_pipe, O_CLOEXEC) < 0 || pipe2(l->ready_pipe, O_CLOEXEC) < 0 ||
	    pipe2(l->log_pipe, O_CLOEXEC) < 0)
		return kv_fail(err, -errno, "no pipe for its own server: %s", kv_strerror(errno));
	return 0;
}

static int make_psk(struct server_child *c, struct kv_error *err)
{
	uint8_t secret[PSK_BYTES];
	int rc = kv_entropy_fill(&kv_entropy_kernel, secret, sizeof(secret)), n;
	if (rc < 0)
		return kv_fail(err, rc, "no random bytes from the kernel for a key: %s", kv_strerror(rc));
	n = snprintf(c->psk, sizeof(c->psk), "kv-bench:");
	for (unsigned i = 0; i < PSK_BYTES; i++)
		n += snprintf(c->psk + n, sizeof(c->psk) - (size_t)n, "%02x", secret[i]);
	explicit_bzero(secret, sizeof(secret));
	return 0;
}

/* The key fits a pipe's buffer, so this never blocks, whether or not the child ever reads it. */
static int send_psk(const struct server_child *c, int fd, struct kv_error *err)
{
	char line[sizeof(c->psk) + 2];
	int n = snprintf(line, sizeof(line), "%s\n", c->psk);
	ssize_t put = write(fd, line, (size_t)n);
	explicit_bzero(line, sizeof(line));
	return put == n ? 0 : kv_fail(err, -EIO, "the key could not be sent to its own server");
}

static int parse_ready(struct server_child *c, const char *line, struct kv_error *err)
{
	char address[KV_HOST_MAX + 8];
	struct kv_hostport hp;
	if (sscanf(line, "READY %263s", address) != 1 || kv_hostport_parse(address, &hp, NULL) < 0)
		return kv_fail(err, -KV_EPROTO, "its own server reported READY in an unknown form: %.100s", line);
	kv_hostport_format(&hp, c->address, sizeof(c->address));
	return 0;
}

static int read_ready(struct server_child *c, uint64_t deadline_ns, struct kv_error *err)
{
	char line[256];
	size_t have = 0;
	int fd = c->ready_fd;
	while (have < sizeof(line) - 1) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (bench_interrupted())
			return kv_fail(err, -KV_ECANCELED, "interrupted");
		if (kv_clock_now(&kv_clock_monotonic) >= deadline_ns)
			return kv_fail(err, -KV_ETIMEOUT, "its own server did not get ready in time");
		if (poll(&p, 1, 100) <= 0)
			continue;
		n = read(fd, line + have, sizeof(line) - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return kv_fail(err, -KV_EPEERDOWN, "its own server ended before it was ready%s",
				       c->log_live ? " (its log is above)" : "");
		have += (size_t)n;
		line[have] = 0;
		if (strchr(line, '\n'))
			return parse_ready(c, line, err);
	}
	return kv_fail(err, -KV_EPROTO, "its own server reported READY in an unknown form");
}

static struct server_child *child_alloc(const struct server_child_options *options)
{
	struct server_child *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	c->log_fd = c->psk_pipe[0] = c->psk_pipe[1] = c->ready_fd = c->held_fd = -1;
	c->ready_timeout_ns = options->ready_timeout_ns;
	c->log_live = options->log_level >= KV_LOG_DEBUG;
	return c;
}

static void child_free(struct server_child *c)
{
	close_fd(&c->log_fd);
	close_fd(&c->psk_pipe[0]);
	close_fd(&c->psk_pipe[1]);
	close_fd(&c->ready_fd);
	close_fd(&c->held_fd);
	if (c->members[0])
		unlink(c->members);
	pthread_mutex_destroy(&c->lock);
	explicit_bzero(c->psk, sizeof(c->psk));
	free(c);
}

static int launch_run(struct launch *l, struct server_child *c, const struct server_child_options *o,
		      const char *address, struct kv_error *err)
{
	int rc = open_pipes(l, err);
	if (rc == 0 && !c->psk[0])
		rc = make_psk(c, err);
	if (rc < 0)
		return rc;
	find_binary(o->binary, l->binary, sizeof(l->binary));
	launch_args(l, o, address);
	rc = launch_spawn(l, &c->pid, err);
	if (rc < 0)
		return rc;
	/* We close our copies of the child's ends: end of file then means that the child has ended. That of the key
	 * stays open until the key is in the pipe, so that writing it always succeeds. */
	close_fd(&l->ready_pipe[1]);
	close_fd(&l->log_pipe[1]);
	if (o->out_pid)
		atomic_store(o->out_pid, c->pid);
	memcpy(c->psk_pipe, l->psk_pipe, sizeof(c->psk_pipe));
	c->ready_fd = l->ready_pipe[0];
	c->log_fd = l->log_pipe[0];
	l->psk_pipe[0] = l->psk_pipe[1] = l->ready_pipe[0] = l->log_pipe[0] = -1;
	rc = pthread_create(&c->log_thread, NULL, log_main, c);
	c->log_started = rc == 0;
	return rc ? kv_fail(err, -rc,
			    "no thread for its own server's log: %s; "
			    "look at ulimit -u and -v, and at the pids limit of a container",
			    kv_strerror(rc))
		  : 0;
}

static int ending(const struct server_child *c, int status, bool killed, bool was_dead, struct kv_error *err)
{
	if (atomic_load(&c->was_killed))
		return 0;
	if (killed)
		return kv_fail(err, -KV_EPEERDOWN, "its own server did not end within %d s of SIGTERM and was killed",
			       STOP_WAIT_MS / 1000);
	if (WIFSIGNALED(status) && (was_dead || WTERMSIG(status) != SIGTERM))
		return kv_fail(err, -KV_EPEERDOWN, "its own server died by signal %d (%s)", WTERMSIG(status),
			       strsignal(WTERMSIG(status)));
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		return kv_fail(err, -KV_EPEERDOWN, "its own server ended with status %d", WEXITSTATUS(status));
	if (was_dead)
		return kv_fail(err, -KV_EPEERDOWN, "its own server ended by itself during the run");
	return 0;
}

static int child_end(struct server_child *c, unsigned wait_ms, struct kv_error *err)
{
	bool was_dead = atomic_load(&c->dead), killed = false;
	int status = 0;
	if (c->pid <= 0)
		return 0;
	atomic_store(&c->stopping, true);
	if (!atomic_load(&c->runs)) {
		atomic_store(&c->was_killed, true);
		kill(c->pid, SIGKILL);
	}
	kill(c->pid, SIGTERM);
	kill(c->pid, SIGCONT); /* an event may have stopped it */
	if (!probe_reap(c->pid, wait_ms, &status)) {
		killed = true;
		kill(c->pid, SIGKILL);
		while (!probe_reap(c->pid, 1000, &status))
			;
	}
	if (c->log_started)
		pthread_join(c->log_thread, NULL);
	return ending(c, status, killed, was_dead, err);
}

/* ---- of several ---- */

static struct server_child *running(const struct server_child *first, unsigned number)
{
	const struct server_child *found = NULL;
	for (const struct server_child *c = first; c; c = c->next)
		if (c->number == number && atomic_load(&c->runs))
			found = c;
	return (struct server_child *)found;
}

static int members_create(struct server_child *first, struct kv_error *err)
{
	const char *folder = getenv("TMPDIR");
	int fd;
	snprintf(first->members, sizeof(first->members), "%.3900s/kv-bench-members-XXXXXX",
		 folder && folder[0] == '/' ? folder : "/tmp");
	fd = mkstemp(first->members);
	if (fd < 0) {
		int rc = kv_fail(err, -errno, "no file for the members of its own servers, %s: %s", first->members,
				 kv_strerror(errno));
		first->members[0] = 0;
		return rc;
	}
	close(fd);
	return 0;
}

/* Killed servers stay members; next: the server that starts now, or NULL. The new list replaces the old one whole. Its
 * time is a little back, so that a starting server believes it at once. */
static int members_write(const struct server_child *first, const struct server_child *next, struct kv_error *err)
{
	char path[PATH_MAX + 8];
	struct timespec times[2];
	FILE *out;
	bool good;
	int fd;
	snprintf(path, sizeof(path), "%s.new", first->members);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600); /* in a folder of all users */
	out = fd >= 0 ? fdopen(fd, "w") : NULL;
	for (const struct server_child *c = first; out && c; c = c->next)
		if (running(first, c->number) == c)
			fprintf(out, "%s\n", c->name);
	if (out && next)
		fprintf(out, "%s\n", next->name);
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= MEMBERS_BACK_S;
	times[1] = times[0];
	good = out && fflush(out) == 0 && futimens(fd, times) == 0;
	good = out && fclose(out) == 0 && good && rename(path, first->members) == 0;
	return good ? 0
		    : kv_fail(err, -errno, "the members of its own servers cannot be written to %s: %s", path,
			      kv_strerror(errno));
}

/* A process that waits for its key. first: of the servers that run, or NULL. address: to listen on, or NULL. */
static int child_spawn(const struct server_child_options *options, const struct server_child *first, unsigned number,
		       const char *address, struct server_child **out, struct kv_error *err)
{
	struct launch l = {.psk_pipe = {-1, -1}, .ready_pipe = {-1, -1}, .log_pipe = {-1, -1}};
	struct server_child *c = child_alloc(options);
	int rc;
	if (!c)
		return kv_fail(err, -KV_ENOMEM, "no memory for its own server");
	c->number = number;
	snprintf(c->psk, sizeof(c->psk), "%s", first ? first->psk : "");
	if (options->late) {
		rc = first ? 0 : members_create(c, err);
		if (rc < 0) {
			child_free(c);
			return rc;
		}
		l.members = (first ? first : c)->members;
		l.number = number;
	}
	rc = launch_run(&l, c, options, address, err);
	for (unsigned i = 0; i < 2; i++) {
		close_fd(&l.psk_pipe[i]);
		close_fd(&l.ready_pipe[i]);
		close_fd(&l.log_pipe[i]);
	}
	*out = c;
	return rc;
}

static int child_run(struct server_child *c, struct kv_error *err)
{
	int rc = send_psk(c, c->psk_pipe[1], err);
	close_fd(&c->psk_pipe[0]);
	close_fd(&c->psk_pipe[1]);
	atomic_store(&c->runs, true);
	if (rc == 0)
		rc = read_ready(c, kv_deadline(kv_clock_now(&kv_clock_monotonic), c->ready_timeout_ns), err);
	close_fd(&c->ready_fd);
	snprintf(c->name, sizeof(c->name), "server-%u=%s", c->number, c->address);
	return rc;
}

static void child_fail(struct server_child *c, int rc, struct kv_error *err)
{
	char last[sizeof(err->text) - 64];
	bool others;
	/* It has no client yet, and while it touches its memory it handles no other signal. */
	if (rc == -KV_ECANCELED && c->pid > 0)
		kill(c->pid, SIGKILL);
	child_end(c, UNREADY_WAIT_MS, NULL);
	c->pid = 0;
	atomic_store(&c->runs, false);
	others = log_last(c, last, sizeof(last));
	if (rc == -KV_EPEERDOWN && last[0])
		kv_fail(err, rc, "its own server ended before it was ready: %s", last);
	if ((rc != -KV_EPEERDOWN && rc != -KV_ECANCELED) || (rc == -KV_EPEERDOWN && others))
		log_show(c);
}

/* Take a free port. The socket does not listen; the server's may use the port beside it, for both have SO_REUSEADDR. No
 * connection is given it, and nobody else may listen there without asking for that. */
static int port_hold(int *out_fd, char *address, size_t cap, struct kv_error *err)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	*out_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*out_fd < 0 || setsockopt(*out_fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
	    bind(*out_fd, (struct sockaddr *)&at, len) < 0 || getsockname(*out_fd, (struct sockaddr *)&at, &len) < 0)
		return kv_fail(err, -errno, "no port for its own server: %s", kv_strerror(errno));
	snprintf(address, cap, "127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

static bool starts_again(const struct server_child_options *o, unsigned number)
{
	for (unsigned i = 0; i < o->num_starts; i++)
		if (o->start[i] == number)
			return true;
	return false;
}

/* One more process at *at; it runs at once, or waits. */
static int start_one(const struct server_child_options *options, const struct server_child *first, unsigned number,
		     bool wait, struct server_child **at, struct kv_error *err)
{
	const struct server_child *old = wait ? running(first, number) : NULL;
	const char *address = old ? old->address : NULL;
	char held[KV_HOST_MAX + 8];
	struct server_child *c = NULL;
	bool hold = !wait && (options->late || starts_again(options, number));
	int held_fd = -1, rc = hold ? port_hold(&held_fd, held, sizeof(held), err) : 0;
	if (rc == 0)
		rc = child_spawn(options, first, number, hold ? held : address, &c, err);
	if (c)
		c->held_fd = held_fd;
	else
		close_fd(&held_fd);
	if (rc == 0 && !wait && options->late) {
		snprintf(c->name, sizeof(c->name), "server-%u=%s", number, held);
		rc = members_write(first ? first : c, c, err);
	}
	if (rc == 0 && !wait)
		rc = child_run(c, err);
	if (rc == 0) {
		*at = c;
	} else if (c) {
		child_fail(c, rc, err);
		child_free(c);
	}
	return rc;
}

int server_child_start(const struct server_child_options *options, struct server_child **out, struct kv_error *err)
{
	struct server_child *first = NULL, **at = &first;
	unsigned count = KV_MAX(options->count, 1u);
	int rc = 0;
	for (unsigned i = 1; i <= count && rc == 0; i++) {
		if (options->late >> (i - 1) & 1)
			continue;
		rc = start_one(options, first, i, false, at, err);
		at = rc == 0 ? &(*at)->next : at;
	}
	for (unsigned i = 0; i < options->num_starts && rc == 0; i++) {
		rc = start_one(options, first, options->start[i], true, at, err);
		at = rc == 0 ? &(*at)->next : at;
	}
	if (rc < 0)
		server_child_stop(&first, NULL);
	else
		*out = first;
	return rc;
}

/* A server that an event has killed gives its address free when it has ended. It is reaped later. */
static void await_killed(struct server_child *c)
{
	siginfo_t info = {0};
	for (unsigned waited = 0; c && atomic_load(&c->was_killed) && waited < STOP_WAIT_MS; waited += 5) {
		if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid != 0)
			return;
		poll(NULL, 0, 5);
	}
}

int server_child_run(struct server_child *child, unsigned number, struct kv_error *err)
{
	struct server_child *c = child;
	int rc;
	while (c && (c->number != number || atomic_load(&c->runs) || c->pid <= 0))
		c = c->next;
	if (!c)
		return kv_fail(err, -KV_EINVAL, "there is no server %u that waits to be started", number);
	await_killed(running(child, number));
	rc = child_run(c, err);
	if (rc < 0)
		child_fail(c, rc, err);
	else if (child->members[0])
		rc = members_write(child, NULL, err);
	return rc;
}

/* ---- running and ending ---- */

const char *server_child_address(const struct server_child *child)
{
	return child->address;
}

const char *server_child_name(const struct server_child *child, unsigned number)
{
	const struct server_child *c = running(child, number);
	return c ? c->name : NULL;
}

void server_child_signal(struct server_child *child, unsigned number, int signal)
{
	struct server_child *c = running(child, number);
	if (!c || c->pid <= 0)
		return;
	if (signal == SIGKILL) {
		atomic_store(&c->was_killed, true);
		atomic_store(&c->stopping, true);
	}
	kill(c->pid, signal);
}

const char *server_child_psk(const struct server_child *child)
{
	return child->psk;
}

pid_t server_child_pid(const struct server_child *child)
{
	return child->pid;
}

bool server_child_dead(const struct server_child *child)
{
	for (; child; child = child->next)
		if (atomic_load_explicit(&child->dead, memory_order_relaxed))
			return true;
	return false;
}

double server_child_cpu_seconds(const struct server_child *child)
{
	double sum = 0;
	for (; child; child = child->next)
		sum += kv_process_cpu_seconds((int)child->pid);
	return sum;
}

int64_t server_child_faults(const struct server_child *child)
{
	int64_t sum = child ? 0 : -1;
	for (; child && sum >= 0; child = child->next) {
		int64_t n = child->pid > 0 ? kv_process_faults((int)child->pid) : 0;
		sum = n < 0 ? -1 : sum + n;
	}
	return sum;
}

uint64_t server_child_memory_peak(const struct server_child *child)
{
	uint64_t sum = 0;
	for (; child; child = child->next) {
		struct kv_process p = {0};
		if (child->pid > 0)
			kv_process_read((int)child->pid, &p);
		sum += p.peak;
	}
	return sum;
}

int server_child_stop(struct server_child **child, struct kv_error *err)
{
	int first = 0;
	while (*child) {
		struct server_child *c = *child;
		int rc = child_end(c, STOP_WAIT_MS, first ? NULL : err);
		if (rc < 0)
			log_show(c);
		first = first ? first : rc;
		*child = c->next;
		child_free(c);
	}
	return first;
}
