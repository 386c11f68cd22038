/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- fail every fault point once, alone, each in a process of its own, and count who survives.
 *
 * For each phase of scenario.c a first child records the points that the phase meets. Then, for every point and every
 * way in which its function can fail, a child runs the scenario with the point's first call in the phase failing, and
 * for those that are called more often another with a later call. A child survives when it ends with status 0: the
 * scenario found nothing wrong, the sanitizers were quiet (leaks included), and descriptors, threads and mappings are
 * as many as they were in the recording run. The runner has one thread and has touched no library before it forks.
 *
 * Two failures are not ours, and are told from others by what they look like alone. Each is shown and counted.
 *
 * A machine that is busy otherwise keeps threads from running, and calls, connections and the 15 s of a step have
 * deadlines of wall time. A run in which threads had waited for a processor for more than half of the time when the
 * first thing was wrong is made again, up to TRIES times.
 *
 * libfabric (1.17; rxm and util of 2.6 have the same lines) forgets a connection request that lies in rxm's event queue
 * when the endpoint is closed: ofi_eq_cleanup frees the event, but neither the fi_info nor the socket that it leads to.
 * Nothing of ours reaches that queue, and draining would only make the moment shorter in which a request may come. What
 * is let pass: the scenario was content, every fi_info that we were given is freed, nothing is left but n sockets, and
 * the one direct leak is of n objects of the size of fi_info, made by fi_dupinfo, and everything that leaked was
 * allocated inside libfabric.
 *
 * Speaks TAP: one test per phase. Environment, for work on a finding:
 *   KVRAIL_FAULT_PHASE=N    only this phase
 *   KVRAIL_FAULT_ONLY=TEXT  only cases whose title contains this, with all that they print
 *   KVRAIL_FAULT_JOBS=N   children at once (2)   KVRAIL_FAULT_LIST=1  print the cases with their outcome
 *   KVRAIL_FAULT_ONCE=1   first calls only */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/fabric.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/fault/fault.h"
#include "tests/fault/scenario.h"

enum {
	JOBS_MAX = 16,
	CASES_MAX = 8192,
	WAYS_MAX = 512,
	LIMIT_S = 60, /* of one child; the slowest need about 5 s */
	FEW = 8,
	TRIES = 3, /* for a point that a run does not meet, because threads took another turn */
	EXIT_LEAK = 98,
	EXIT_SANITIZER = 99,
	EXIT_LEFT = 2 /* descriptors, threads or mappings */
};

enum verdict { SURVIVED, FAILED, UNMET, STARVED, FORGOTTEN };

/* The sanitizers' library looks for them by name: -fvisibility=hidden would leave it with its defaults, whose exit
 * status is 1. */
#define FOUND __attribute__((visibility("default")))

FOUND const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "exitcode=99:detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=0";
}

FOUND const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "exitcode=98:print_suppressions=0";
}

FOUND const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
	return "print_stacktrace=1";
}

static const char *const phase_names[PHASES] = {
	[PHASE_START] = "start",
	[PHASE_START_CERT] = "start with certificates",
	[PHASE_CALLS] = "calls",
	[PHASE_RECONNECT] = "reconnect",
	[PHASE_RESET] = "reset",
	[PHASE_CLOSE] = "shutdown, client first",
	[PHASE_SERVER_FIRST] = "shutdown, server first",
	[PHASE_SESSIONS] = "further sessions",
	[PHASE_PULL] = "pull",
};

/* One run of the scenario that is to be made. */
struct fault_case {
	uintptr_t caller;
	const struct fault_way *way;
	unsigned nth, tries;
};

struct job {
	pid_t pid; /* 0: free */
	struct fault_board *board;
	struct fault_case *c;
	char log[128];
	time_t since;
};

static struct job jobs[JOBS_MAX];
static unsigned num_jobs;
static struct fault_case cases[CASES_MAX];
static bool way_met[WAYS_MAX];
static char folder[64];
static uintptr_t started[FAULT_SITES_MAX]; /* the points of the start: with certificates and over shm only the others
					      are tried */
static unsigned num_started;
static unsigned baseline_fds[2], baseline_threads[2];
static unsigned survived, failed, unmet, points, starved, forgotten;

/* ---- the child ---- */

static unsigned entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void on_alarm(int sig)
{
	(void)sig;
	fault_note_machine();
	fprintf(stderr, "HANG in step %s\n", fault_board->step ? fault_board->step : "?");
	__sanitizer_print_stack_trace();
	_exit(1);
}

/* te_env_for_programs puts handlers of others aside, that of the sanitizer among them. */
static void on_crash(int sig)
{
	signal(sig, SIG_DFL);
	__sanitizer_print_stack_trace();
	raise(sig);
}

/* Show what is open. Returns how many of them are sockets. */
static int descriptors_show(void)
{
	int sockets = 0;
	for (int i = 0; i < 256; i++) {
		char path[64], to[256] = "";
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		if (readlink(path, to, sizeof(to) - 1) <= 0)
			continue;
		sockets += strncmp(to, "socket:", 7) == 0;
		fprintf(stderr, "  %d -> %s\n", i, to);
	}
	return sockets;
}

/* Threads that nobody joins (key_reload.c of the server, bootstrap/resolve.c) may need another moment to end. `want`:
 * so many are left anyhow; 0: not known. */
static unsigned threads_left(unsigned want)
{
	unsigned least = entries("/proc/self/task");
	for (unsigned i = 0; i < (want ? 200u : 30u) && (!want || least > want); i++) {
		usleep(10000);
		least = KV_MIN(least, entries("/proc/self/task"));
	}
	return least;
}

static int left_check(struct fault_board *b, bool recording)
{
	unsigned i = scenario_is_server(), threads = threads_left(recording ? 0 : b->threads[i]),
		 fds = entries("/proc/self/fd");
	bool sound = true;
	if (recording) {
		b->fds[i] = fds;
		b->threads[i] = threads;
	}
	b->sockets_left = 0;
	if (fds != b->fds[i] || threads != b->threads[i]) {
		fprintf(stderr, "LEFT: %u descriptors instead of %u, %u threads instead of %u\n", fds, b->fds[i],
			threads, b->threads[i]);
		b->sockets_left = descriptors_show();
		sound = false;
	}
	if (fault_mapped_bytes() != 0)
		fprintf(stderr, "LEFT: %lld bytes are still mapped\n", (long long)fault_mapped_bytes());
	if (fault_infos() != 0)
		fprintf(stderr, "LEFT: %lld descriptions of fabrics\n", (long long)fault_infos());
	if (fault_mapped_bytes() != 0 || fault_infos() != 0 || threads != b->threads[i] ||
	    fds - b->fds[i] != (unsigned)b->sockets_left)
		b->sockets_left = -1;
	return sound && b->sockets_left == 0 ? 0 : EXIT_LEFT;
}

static void child(enum phase phase, const char *log)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600), rc;
	dup2(fd, 1);
	dup2(fd, 2);
	close(fd);
	signal(SIGALRM, on_alarm);
	signal(SIGPIPE, SIG_IGN);
	alarm(LIMIT_S);
	te_env_for_programs();
	signal(SIGSEGV, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGABRT, on_crash);
	fault_board->begun_ns = kv_clock_now(&kv_clock_monotonic);
	rc = scenario_run(phase, folder, LIMIT_S);
	fault_board->step = "the end";
	if (rc == 0)
		rc = left_check(fault_board, fault_board->recording);
	exit(rc);
}

/* ---- the runner ---- */

static void start(struct job *j, enum phase phase, struct fault_case *c)
{
	struct fault_board *b = j->board;
	memset(b, 0, sizeof(*b));
	b->recording = !c;
	b->sockets_left = -1;
	memcpy(b->fds, baseline_fds, sizeof(b->fds));
	memcpy(b->threads, baseline_threads, sizeof(b->threads));
	if (c) {
		b->caller = c->caller;
		b->way = c->way;
		b->nth = c->nth;
		c->tries++;
	}
	j->c = c;
	j->since = time(NULL);
	fflush(NULL);
	j->pid = fork();
	if (j->pid != 0)
		return;
	fault_board = b;
	child(phase, j->log);
}

static void title(const struct fault_case *c, char *buf, size_t cap)
{
	char place[256] = "?";
	const char *path;
	__sanitizer_symbolize_pc((void *)(c->caller - 1), "%f %s:%l", place, sizeof(place));
	path = strstr(place, " /");
	snprintf(buf, cap, "%s = %s%s, call %u, in %.*s%s", c->way->function, c->way->shown,
		 c->way->times > 1 ? " for a while" : "", c->nth, path ? (int)(path - place) : (int)strlen(place),
		 place, path ? path : "");
}

static void show(const char *log, unsigned lines_max)
{
	FILE *f = fopen(log, "re");
	char line[1024];
	for (unsigned n = 0; f && n < lines_max && fgets(line, sizeof(line), f); n++)
		printf("#     %s", line);
	if (f)
		fclose(f);
}

/* Whether its threads were kept from running for most of the time until something was wrong. */
static bool was_starved(const struct fault_board *b)
{
	return b->wrong && b->waited_ns > (b->failed_ns - b->begun_ns) / 2;
}

/* Whether what the sanitizer reports are `n` connection requests that libfabric forgot, and nothing else. */
static bool requests_forgotten(const char *log, int n)
{
	FILE *f = fopen(log, "re");
	char line[1024];
	unsigned long long bytes;
	unsigned direct = 0, objects;
	bool good = f != NULL, info = false, ended = false;
	while (good && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Direct leak of %llu byte(s) in %u object(s)", &bytes, &objects) == 2) {
			info = ++direct == 1 && objects == (unsigned)n && bytes == n * sizeof(struct fi_info);
			good = info;
		} else if (strncmp(line, "Indirect leak", 13) == 0) {
			info = false;
		} else if (strncmp(line, "    #0", 6) != 0 && strncmp(line, "    #", 5) == 0) {
			good = strstr(line, "libfabric.so") &&
			       (!info || strncmp(line, "    #1 ", 7) != 0 || strstr(line, " in fi_dupinfo "));
		}
		ended |= strncmp(line, "SUMMARY: AddressSanitizer: ", 27) == 0 && strstr(line, " leaked in ");
	}
	if (f)
		fclose(f);
	return good && ended && direct == 1;
}

static enum verdict verdict_of(const struct job *j, int status)
{
	const struct fault_board *b = j->board;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return b->fired ? SURVIVED : UNMET;
	if (was_starved(b))
		return STARVED;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LEAK && !b->wrong && b->sockets_left > 0 &&
	    requests_forgotten(j->log, b->sockets_left))
		return FORGOTTEN;
	return FAILED;
}

/* Count a run. Returns what to call it. */
static const char *count(enum verdict v)
{
	switch (v) {
	case SURVIVED:
		survived++;
		return "survived";
	case FORGOTTEN:
		survived++;
		forgotten++;
		return "survived (libfabric forgot a connection request)";
	case UNMET:
		unmet++;
		return "not met";
	default:
		failed++;
		return "FAILED";
	}
}

/* A child has ended. Returns false when it has to run again. */
static bool judge(struct job *j, int status)
{
	char text[512];
	enum verdict v = verdict_of(j, status);
	const struct fault_board *b = j->board;
	bool again = (v == UNMET || v == STARVED) && j->c->tries < TRIES, good = v == SURVIVED || v == UNMET;
	if (v == UNMET && again)
		return false;
	title(j->c, text, sizeof(text));
	starved += again;
	if (!good || getenv("KVRAIL_FAULT_LIST"))
		printf("# %s: %s (%ld s)\n", again ? "again, its threads were kept from running" : count(v), text,
		       (long)(time(NULL) - j->since));
	else
		count(v);
	if (!good && b->wrong)
		printf("#     threads waited for a processor for %.1f s in sum in the first %.1f s\n",
		       (double)b->waited_ns / 1e9, (double)(b->failed_ns - b->begun_ns) / 1e9);
	if (!good && WIFEXITED(status))
		printf("#     exit status %d in step %s, sockets left %d\n", WEXITSTATUS(status),
		       b->step ? b->step : "?", b->sockets_left);
	if (!good && WIFSIGNALED(status))
		printf("#     killed by signal %d in step %s\n", WTERMSIG(status), b->step ? b->step : "?");
	if (!good || getenv("KVRAIL_FAULT_ONLY"))
		show(j->log, 300);
	return !again;
}

static void reap(enum phase phase)
{
	int status;
	pid_t pid = waitpid(-1, &status, 0);
	for (unsigned i = 0; i < num_jobs; i++) {
		struct job *j = &jobs[i];
		if (j->pid != pid)
			continue;
		j->pid = 0;
		if (!judge(j, status))
			start(j, phase, j->c);
		return;
	}
}

static struct job *idle(void)
{
	for (unsigned i = 0; i < num_jobs; i++)
		if (jobs[i].pid == 0)
			return &jobs[i];
	return NULL;
}

/* The recording run. */
static bool record(enum phase phase)
{
	struct job *j = &jobs[0];
	int status = 0;
	for (unsigned i = 0; i < TRIES && (i == 0 || was_starved(j->board)); i++) {
		starved += i > 0;
		start(j, phase, NULL);
		waitpid(j->pid, &status, 0);
		j->pid = 0;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		memcpy(baseline_fds, j->board->fds, sizeof(baseline_fds));
		memcpy(baseline_threads, j->board->threads, sizeof(baseline_threads));
		return true;
	}
	printf("# the recording run failed: status 0x%x, step %s\n", status, j->board->step ? j->board->step : "?");
	show(j->log, 200);
	return false;
}

static int by_order(const void *a, const void *b)
{
	const struct fault_site *x = a, *y = b;
	return x->order < y->order ? -1 : x->order > y->order;
}

static unsigned add(unsigned n, const struct fault_site *site, const struct fault_way *way, unsigned nth)
{
	char text[512];
	const char *only = getenv("KVRAIL_FAULT_ONLY");
	cases[n] = (struct fault_case){.caller = site->caller, .way = way, .nth = nth};
	title(&cases[n], text, sizeof(text));
	return n < CASES_MAX - 1 && (!only || strstr(text, only)) ? n + 1 : n;
}

/* What is set up a few times may fail half way: the second and the last. What happens often: once in the middle. */
static unsigned add_later(unsigned n, const struct fault_site *site, const struct fault_way *way)
{
	unsigned hits = site->hits;
	if (hits > FEW)
		return add(n, site, way, hits / 2);
	if (hits > 1)
		n = add(n, site, way, 2);
	if (hits > 2)
		n = add(n, site, way, hits);
	return n;
}

static bool tried_at_start(uintptr_t caller)
{
	for (unsigned i = 0; i < num_started; i++)
		if (started[i] == caller)
			return true;
	return false;
}

/* A start with certificates, or with pull, meets the calls of the first start again. Those of TLS fail otherwise with a
 * certificate than with a key, so there they are tried once more. */
static bool known_from_start(enum phase phase, const struct fault_site *site)
{
	if (phase == PHASE_START_CERT && strncmp(site->function, "SSL_", 4) == 0)
		return false;
	return (phase == PHASE_START_CERT || phase == PHASE_PULL) && tried_at_start(site->caller);
}

/* The sites of the recording run that this phase is to try, in the order in which it met them. */
static unsigned sites_of(enum phase phase, struct fault_site *site)
{
	const struct fault_board *b = jobs[0].board;
	unsigned count = 0;
	for (unsigned i = 0; i < FAULT_SITES_MAX; i++)
		if (b->site[i].caller && !known_from_start(phase, &b->site[i]))
			memcpy(&site[count++], &b->site[i], sizeof(*site));
	qsort(site, count, sizeof(*site), by_order);
	for (unsigned i = 0; i < count && phase == PHASE_START; i++)
		started[num_started++] = site[i].caller;
	return count;
}

/* From the sites that were recorded to the runs to make: the first call of each, and a later one. */
static unsigned plan(enum phase phase)
{
	static struct fault_site site[FAULT_SITES_MAX];
	unsigned count = sites_of(phase, site), n = 0;
	for (unsigned i = 0; i < count; i++)
		for (unsigned w = 0; w < fault_ways_count; w++)
			way_met[w] |= strcmp(site[i].function, fault_ways[w].function) == 0;
	points += count;
	printf("# %u points\n", count);
	for (unsigned i = 0; i < count; i++)
		for (unsigned w = 0; w < fault_ways_count; w++)
			if (strcmp(site[i].function, fault_ways[w].function) == 0)
				n = add(n, &site[i], &fault_ways[w], 1);
	for (unsigned i = 0; i < count && !getenv("KVRAIL_FAULT_ONCE"); i++)
		for (unsigned w = 0; w < fault_ways_count; w++)
			if (strcmp(site[i].function, fault_ways[w].function) == 0)
				n = add_later(n, &site[i], &fault_ways[w]);
	return n;
}

static bool sweep(enum phase phase)
{
	unsigned n, before = failed;
	printf("# %s\n", phase_names[phase]);
	if (!record(phase))
		return false;
	n = plan(phase);
	printf("# %u runs\n", n);
	for (unsigned i = 0; i < n; i++) {
		struct job *j;
		while (!(j = idle()))
			reap(phase);
		start(j, phase, &cases[i]);
	}
	for (unsigned i = 0; i < num_jobs; i++)
		while (jobs[i].pid)
			reap(phase);
	return failed == before;
}

static bool secret_make(const char *name, const char *line)
{
	char path[96];
	FILE *f;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "we");
	return f && fprintf(f, "%s\n", line) > 0 && fclose(f) == 0;
}

static bool secrets_make(void)
{
	char command[256];
	umask(077);
	if (!secret_make("psk", SCENARIO_PSK) || !secret_make("session-keys", SCENARIO_SESSION_KEY))
		return false;
	snprintf(command, sizeof(command), "scripts/make-test-certs.sh %s/certs >%s/certs.log 2>&1", folder, folder);
	return system(command) == 0;
}

static bool setup(void)
{
	const char *tmp = getenv("TMPDIR"), *wanted = getenv("KVRAIL_FAULT_JOBS");
	snprintf(folder, sizeof(folder), "%.40s/kvrail-fault-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(folder) || !secrets_make())
		return false;
	num_jobs = wanted ? (unsigned)atoi(wanted) : 2;
	num_jobs = num_jobs < 1 ? 1 : num_jobs > JOBS_MAX ? JOBS_MAX : num_jobs;
	for (unsigned i = 0; i < num_jobs; i++) {
		jobs[i].board = mmap(NULL, sizeof(struct fault_board), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (jobs[i].board == MAP_FAILED)
			return false;
		snprintf(jobs[i].log, sizeof(jobs[i].log), "%s/log%u", folder, i);
	}
	return true;
}

/* ---- what is let pass is told from what is not ---- */

static bool forgotten_in(const char *report, int n)
{
	char log[128];
	FILE *f;
	bool yes;
	snprintf(log, sizeof(log), "%s/sample", folder);
	f = fopen(log, "we");
	if (!f || fputs(report, f) < 0 || fclose(f) != 0)
		return false;
	yes = requests_forgotten(log, n);
	unlink(log);
	return yes;
}

#define FRAME(k, where) "    #" k " 0x7f " where "\n"
#define INTERCEPTED     FRAME("0", "in __interceptor_malloc ../asan/asan_malloc_linux.cpp:69")
#define DUPINFO         FRAME("1", "in fi_dupinfo (/lib/libfabric.so.1+0x1eacd)")
#define UNNAMED         FRAME("1", " (/lib/libfabric.so.1+0xdb313)")
#define OURS            FRAME("2", "in fab_open engine/fabric/fabric.c:288")
#define DIRECT(bytes)   "Direct leak of " bytes " byte(s) in 1 object(s) allocated from:\n" INTERCEPTED
#define INDIRECT        "Indirect leak of 40 byte(s) in 1 object(s) allocated from:\n" INTERCEPTED UNNAMED
#define SUMMARY         "SUMMARY: AddressSanitizer: 160 byte(s) leaked in 2 allocation(s).\n"

static bool tolerance_check(void)
{
	char text[1024], bytes[16];
	_Static_assert(sizeof(struct fi_info) < 1000, "three digits below");
	snprintf(bytes, sizeof(bytes), "%zu", sizeof(struct fi_info));
	snprintf(text, sizeof(text), DIRECT("%s") DUPINFO INDIRECT SUMMARY, bytes);
	if (!forgotten_in(text, 1) || forgotten_in(text, 2) || forgotten_in(text, 0))
		return false;
	snprintf(text, sizeof(text), DIRECT("%s") DUPINFO OURS INDIRECT SUMMARY, bytes);
	if (forgotten_in(text, 1))
		return false;
	snprintf(text, sizeof(text), DIRECT("%s") DUPINFO DIRECT("8") UNNAMED SUMMARY, bytes);
	if (forgotten_in(text, 1))
		return false;
	snprintf(text, sizeof(text), DIRECT("%s") UNNAMED SUMMARY, bytes);
	return !forgotten_in(text, 1) && !forgotten_in(DIRECT("8") DUPINFO SUMMARY, 1);
}

/* Several times: of one, a register or the stack may still have the address. */
static void __attribute__((noinline)) lose(void)
{
	for (int i = 0; i < 64; i++) {
		void *volatile lost = malloc(100);
		(void)lost;
	}
}

/* A child that leaks ends with the status that leaks are known by: the sanitizers have found their options. */
static bool leaks_are_known(void)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(fd, 2);
		close(fd);
		lose();
		exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LEAK;
}

/* Functions of points.def that this scenario does not come by. */
static void never_met(void)
{
	printf("# never called:");
	for (unsigned w = 0; w < fault_ways_count; w++)
		if (!way_met[w] && (w == 0 || strcmp(fault_ways[w].function, fault_ways[w - 1].function) != 0))
			printf(" %s", fault_ways[w].function);
	printf("\n");
}

static void cleanup(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command) != 0)
		printf("# %s is left\n", folder);
}

int main(void)
{
	const char *one = getenv("KVRAIL_FAULT_PHASE");
	bool good = true;
	if (fault_ways_count > WAYS_MAX || !setup()) {
		printf("1..1\nnot ok 1 - a folder for logs, a key and certificates (scripts/make-test-certs.sh, from "
		       "the root of the tree): %s\n",
		       strerror(errno));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%d\n", one ? 2 : PHASES + 1);
	good = tolerance_check() && leaks_are_known();
	printf("%sok 1 - a connection request that libfabric forgot is told from other leaks\n", good ? "" : "not ");
	for (int phase = 0, n = 2; phase < PHASES; phase++) {
		unsigned s = survived, f = failed, u = unmet, p = points;
		bool ok;
		if (one && atoi(one) != phase)
			continue;
		if (scenario_missing((enum phase)phase)) {
			printf("ok %d - every fault in phase: %s # SKIP %s\n", n++, phase_names[phase],
			       scenario_missing((enum phase)phase));
			continue;
		}
		ok = sweep((enum phase)phase);
		good &= ok;
		printf("# %s: %u points, %u runs survived, %u failed, %u not met\n", phase_names[phase], points - p,
		       survived - s, failed - f, unmet - u);
		printf("%sok %d - every fault in phase: %s\n", ok ? "" : "not ", n++, phase_names[phase]);
	}
	if (!one)
		never_met();
	printf("# fault points: %u, survived: %u of %u runs%s\n", points, survived, survived + failed,
	       unmet ? " (some were not met)" : "");
	if (starved)
		printf("# %u runs were made again, because their threads had been kept from running\n", starved);
	if (forgotten)
		printf("#: in %u runs libfabric forgot a connection request when an endpoint was closed: some 700 "
		       "bytes and a socket\n",
		       forgotten);
	cleanup();
	return good ? 0 : 1;
}
