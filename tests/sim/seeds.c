/* SPDX-License-Identifier: Apache-2.0 */
/* seeds.c -- many simulated worlds, one per seed (`make check-sim`). Each eighth seed has a second one, a cluster whose
 * members change (churn.c), with two copies of each value in half of them, or a cluster of which one server announces
 * views of its own (belief.c).
 *
 * usage: seeds [--first N] [--count N] [--jobs N] [--limit SECONDS]   or   seeds --seed N
 *
 * Each seed has a process of its own, so that one that crashes or hangs is named and the others go on, and so that a
 * seed alone does exactly what it did among others. What a process prints is kept in memory and shown in one line if it
 * fails. A world computes all the time and waits for nothing, so its limit is one of processor time: on a machine that
 * has none to spare a world takes long and does not hang. (One that waits all the same is ended after STILL times as
 * long.) Figures are summed in a struct that the processes share with the parent: each adds its own when it has
 * succeeded, one after another, because only the parent adds (from the slot of the job).
 *
 * Under scripts/run-tests.sh it speaks TAP, one test per seed; else it prints failures and the summary only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/belief.h"
#include "tests/sim/churn.h"
#include "tests/sim/life.h"

enum { JOBS_MAX = 256, TEXT_MAX = 400, STILL = 20, CHURN_EACH = 8 };

struct job {
	pid_t pid; /* 0: none */
	uint64_t seed, begun_ns;
	int output;
	struct life_report *report; /* shared with the process */
	bool killed;
};

static struct {
	const char *program;
	uint64_t first, count, limit_ns;
	unsigned jobs;
	bool tap;
	struct job job[JOBS_MAX];
	struct life_report *reports, sum;
	uint64_t begun_ns, started, ended, failed;
} run;

static struct world world;

/* ---- one seed ---- */

static uint64_t the_seed;
static struct life_report *the_report;

static void test_seed(void **state)
{
	(void)state;
	life_run(&world, the_seed, LIFE_ANY, the_report);
	if (the_seed % CHURN_EACH == 0)
		churn_run(the_seed, CHURN_BY_SEED);
	if (the_seed % CHURN_EACH == CHURN_EACH / 2)
		belief_run(the_seed);
}

static int seed_run(uint64_t seed, struct life_report *report)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_seed)};
	the_seed = seed;
	the_report = report;
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

/* ---- many ---- */

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void job_start(struct job *j, uint64_t seed)
{
	j->seed = seed;
	j->begun_ns = now_ns();
	j->killed = false;
	memset(j->report, 0, sizeof(*j->report));
	j->output = memfd_create("output", 0);
	fflush(NULL);
	j->pid = fork();
	if (j->output < 0 || j->pid < 0) {
		perror("seeds: starting a process");
		exit(2);
	}
	if (j->pid > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive us */
	/* The kernel clears each page it gives: a fifth of a world's time. What is freed is kept. */
	mallopt(M_MMAP_THRESHOLD, INT_MAX);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	dup2(j->output, STDOUT_FILENO);
	dup2(j->output, STDERR_FILENO);
	exit(seed_run(seed, j->report));
}

/* The line of a failed process's output that says most: the first of ours, of a sanitizer or of the C library, or the
 * last one. */
static void job_text(const struct job *j, char text[TEXT_MAX])
{
	static const char *const telling[] = {"ERROR: ", "runtime error: ", "WARNING: ", "assert", "ERROR", NULL};
	char line[TEXT_MAX];
	FILE *f = fdopen(dup(j->output), "r");
	snprintf(text, TEXT_MAX, "nothing was printed");
	if (!f)
		return;
	for (unsigned i = 0; telling[i]; i++) {
		rewind(f);
		while (fgets(line, sizeof(line), f)) {
			line[strcspn(line, "\n")] = 0;
			if (!strstr(line, telling[i]))
				continue;
			snprintf(text, TEXT_MAX, "%s", line);
			goto out;
		}
	}
out:
	fclose(f);
}

static void report_add(const struct life_report *from)
{
	uint64_t *to = (uint64_t *)&run.sum;
	for (unsigned i = 0; i < sizeof(*from) / sizeof(uint64_t); i++)
		to[i] += ((const uint64_t *)from)[i];
}

static void job_end(struct job *j, int status)
{
	char text[TEXT_MAX] = "";
	bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	run.ended++;
	if (ok)
		report_add(j->report);
	else if (j->killed)
		snprintf(text, sizeof(text), "it was not over after %.0f s of processor time, or %d times as long",
			 (double)run.limit_ns / 1e9, (int)STILL);
	else if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		job_text(j, text);
	if (!ok) {
		run.failed++;
		printf("%sseed %llu: %s; again with: %s --seed %llu\n", run.tap ? "not ok - " : "",
		       (unsigned long long)j->seed, text, run.program, (unsigned long long)j->seed);
	} else if (run.tap) {
		printf("ok - seed %llu\n", (unsigned long long)j->seed);
	} else if (run.ended % 1000 == 0) {
		printf("%llu of %llu seeds, %llu failed, %.0f s\n", (unsigned long long)run.ended,
		       (unsigned long long)run.count, (unsigned long long)run.failed,
		       (double)(now_ns() - run.begun_ns) / 1e9);
	}
	fflush(stdout);
	close(j->output);
	j->pid = 0;
}

static bool job_hangs(const struct job *j)
{
	clockid_t clock;
	struct timespec used = {0};
	if (clock_getcpuclockid(j->pid, &clock) == 0)
		(void)clock_gettime(clock, &used);
	return (uint64_t)used.tv_sec * SECOND + (uint64_t)used.tv_nsec >= run.limit_ns ||
	       now_ns() >= j->begun_ns + STILL * run.limit_ns;
}

static void jobs_reap(void)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < run.jobs; i++)
			if (run.job[i].pid == pid)
				job_end(&run.job[i], status);
	for (unsigned i = 0; i < run.jobs; i++) {
		struct job *j = &run.job[i];
		if (j->pid == 0 || j->killed || !job_hangs(j))
			continue;
		j->killed = true;
		kill(j->pid, SIGKILL);
	}
}

static void run_all(void)
{
	const struct timespec tick = {.tv_nsec = 100000000};
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	while (run.ended < run.count) {
		for (unsigned i = 0; i < run.jobs && run.started < run.count; i++)
			if (run.job[i].pid == 0)
				job_start(&run.job[i], run.first + run.started++);
		sigtimedwait(&child, NULL, &tick);
		jobs_reap();
	}
}

/* ---- the summary ---- */

static void figure(const char *name, uint64_t value)
{
	if (value)
		printf("#: %12llu %s\n", (unsigned long long)value, name);
}

static void summary(void)
{
	const struct life_report *s = &run.sum;
	const struct {
		const char *name;
		uint64_t value;
	} figures[] = {
		{"worlds without trouble", s->worlds[0]},
		{"worlds with little memory", s->worlds[1]},
		{"worlds with trouble", s->worlds[2]},
		{"seconds of virtual time", s->virtual_ns / SECOND},
		{"operations", s->calls},
		{"bytes read and written", s->bytes},
		{"misses", s->misses},
		{"operations that failed, all of them in time:", s->failed},
		{"  deadline passed", s->timeouts},
		{"  server down", s->downs},
		{"  pool closed", s->closed},
		{"further sessions opened", s->sessions_opened},
		{"  that could not be", s->sessions_refused},
		{"requests made again", s->retries},
		{"requests cancelled", s->cancels},
		{"fences of clients", s->fences},
		{"fences of servers", s->server_fences},
		{"connections made again", s->reconnects},
		{"sessions made again", s->reattaches},
		{"messages", s->messages},
		{"writes", s->writes},
		{"reads", s->reads},
		{"writes that landed when their sender was gone", s->late_pieces},
		{"writes that landed in quarantine", s->late_landings},
		{"immediates that came too late", s->stale_immediates},
		{"GETs in the memory of a server on this host", s->local_gets},
		{"PUTs over such memory", s->local_puts},
		{"leases in it that were refused", s->local_refusals},
		{"connections over Unix sockets", s->local_connects},
		{"of them refused", s->local_refused},
		{"of them broken while descriptors were passed", s->local_broken},
		{"postings refused with EAGAIN", s->eagain},
		{"operations of the fabric that failed", s->failures},
		{"messages and writes that arrived nowhere", s->dropped},
		{"endpoints rebuilt", s->rebuilds},
		{"endpoints that were given up, and closed later", s->slow_closes},
		{"registrations that failed", s->mr_failures},
		{"messages sent twice", s->duplicates},
		{"frames that servers dropped as seen before", s->replayed_frames},
		{"requests that servers dropped as seen before", s->duplicate_requests},
		{"requests that came after their deadline", s->expired_requests},
		{"evictions", s->evictions},
	};
	for (unsigned i = 0; i < KV_COUNT(figures); i++)
		figure(figures[i].name, figures[i].value);
	for (unsigned i = 0; i < TROUBLES; i++)
		figure(gremlin_name((enum trouble)i), s->trouble[i]);
	printf("#: seeds %llu to %llu: %llu failed; %.0f s with %u processes\n", (unsigned long long)run.first,
	       (unsigned long long)(run.first + run.count - 1), (unsigned long long)run.failed,
	       (double)(now_ns() - run.begun_ns) / 1e9, run.jobs);
}

/* ---- options ---- */

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);
	if (*text && !*end)
		return n;
	fprintf(stderr, "seeds: %s is not a number\n", text);
	exit(2);
}

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text && *text ? number(text) : otherwise;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"first", 1, NULL, 'f'}, {"count", 1, NULL, 'c'},
						{"jobs", 1, NULL, 'j'},  {"limit", 1, NULL, 'l'},
						{"seed", 1, NULL, 's'},  {0}};
	const char *output = getenv("CMOCKA_MESSAGE_OUTPUT");
	uint64_t limit_s = from_env("KVRAIL_SIM_LIMIT", 60);
	int o;
	run.program = argv[0];
	run.tap = output && strcasecmp(output, "tap") == 0;
	run.first = from_env("KVRAIL_SIM_FIRST", 1);
	run.count = from_env("KVRAIL_SIM_SEEDS", 200);
	run.jobs = (unsigned)from_env("KVRAIL_SIM_JOBS", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	unsetenv("CMOCKA_MESSAGE_OUTPUT");
	while ((o = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (o) {
		case 'f':
			run.first = number(optarg);
			break;
		case 'c':
			run.count = number(optarg);
			break;
		case 'j':
			run.jobs = (unsigned)number(optarg);
			break;
		case 'l':
			limit_s = number(optarg);
			break;
		case 's':
			return seed_run(number(optarg), &run.sum);
		default:
			fprintf(stderr, "usage: %s [--first N] [--count N] [--jobs N] [--limit SECONDS] or --seed N\n",
				argv[0]);
			return 2;
		}
	}
	run.jobs = KV_MIN(KV_MAX(run.jobs, 1u), (unsigned)JOBS_MAX);
	run.limit_ns = limit_s * SECOND;
	run.reports =
		mmap(NULL, JOBS_MAX * sizeof(*run.reports), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.reports == MAP_FAILED) {
		perror("seeds: no memory");
		return 2;
	}
	for (unsigned i = 0; i < JOBS_MAX; i++)
		run.job[i].report = &run.reports[i];
	run.begun_ns = now_ns();
	if (run.tap)
		printf("1..%llu\n", (unsigned long long)run.count);
	run_all();
	summary();
	return run.failed > 0;
}
