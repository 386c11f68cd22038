/* SPDX-License-Identifier: Apache-2.0 */
/* teller.c -- how a step tells where it is, and which resource ended it.
 *
 * The process exists to run out of something, and may be killed for it: by the kernel for its memory, or by a provider
 * that aborts. So it tells its parent where it is, all the time, and what it told last is the result if it dies. Each
 * look also guards the memory: a step ends before the machine's (or the cgroup's) memory does. */
#include "kvbench/capacity/teller.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kvbench/setup/signals.h"

#define MEMORY_RESERVE  ((uint64_t)128 << 20) /* clients that are open take some more while they connect */
#define ADDRESS_RESERVE ((uint64_t)64 << 20)
#define MEASURE_NS      50000000ull

enum { FILES_MARGIN = 32 };

/* ---- telling ---- */

void capacity_tell(struct capacity_teller *t)
{
	_Static_assert(sizeof(t->step) <= 4096, "a write of it to a pipe is whole");
	const char *at = (const char *)&t->step;
	ssize_t n;

	if (t->opt->step_fd == 0)
		return;
	do
		n = write((int)t->opt->step_fd, at, sizeof(t->step));
	while (n < 0 && errno == EINTR);
}

void capacity_fail(struct capacity_teller *t, enum capacity_end end, int code, const char *fmt, ...)
{
	va_list args;

	if (t->step.end != CAPACITY_COMPLETE)
		return;
	t->step.end = end;
	t->step.code = code;
	va_start(args, fmt);
	vsnprintf(t->step.text, sizeof(t->step.text), fmt, args);
	va_end(args);
}

void capacity_measure(struct capacity_teller *t)
{
	struct capacity_usage u;
	struct capacity_rdma r;

	capacity_usage_of(0, &u);
	t->step.rss = KV_MAX(t->step.rss, u.rss);
	t->step.fds = KV_MAX(t->step.fds, u.fds);
	t->step.threads = KV_MAX(t->step.threads, u.threads);
	capacity_rdma_count(&r);
	t->step.kernel_qps = KV_MAX(t->step.kernel_qps, r.qps);
	t->step.kernel_cqs = KV_MAX(t->step.kernel_cqs, r.cqs);
	t->step.kernel_mrs = KV_MAX(t->step.kernel_mrs, r.mrs);
}

/* What is left must hold what the next tenth of a second may take, as the last one did. */
static bool memory_left(struct capacity_teller *t)
{
	uint64_t left = kv_memory_available(), rss = kv_memory_rss();
	uint64_t grown = rss > t->rss_looked ? rss - t->rss_looked : 0;
	char a[32], b[32];

	t->rss_looked = rss;
	if (left >= MEMORY_RESERVE + 2 * grown)
		return true;
	capacity_fail(
		t, CAPACITY_MEMORY, -KV_ELIMIT,
		"only %s of this machine's (or this cgroup's) memory are left, with %s in use here: stopped before it "
		"ends",
		kv_size_format(left, a, sizeof(a)), kv_size_format(rss, b, sizeof(b)));
	return false;
}

static bool files_short(const struct capacity_teller *t)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY &&
	       t->step.fds + FILES_MARGIN > rl.rlim_cur;
}

/* The address space may be limited while the machine has memory. */
static bool address_space_short(void)
{
	unsigned long pages = 0;
	struct rlimit rl;
	FILE *f;

	if (getrlimit(RLIMIT_AS, &rl) < 0 || rl.rlim_cur == RLIM_INFINITY)
		return false;
	f = fopen("/proc/self/statm", "re");
	if (!f)
		return true; /* no memory for a FILE, most likely */
	if (fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) + ADDRESS_RESERVE > rl.rlim_cur;
}

/* Whoever waits for what cannot be had sees only the time pass. */
static void late(struct capacity_teller *t)
{
	char time[32];

	kv_duration_format(t->opt->timeout_ns, time, sizeof(time));
	if (files_short(t))
		capacity_fail(t, CAPACITY_FILES, -KV_ELIMIT,
			      "%u files are open, all that may be, and nothing went on for the rest of %s", t->step.fds,
			      time);
	else if (address_space_short())
		capacity_fail(t, CAPACITY_MEMORY, -KV_ELIMIT,
			      "no more address space may be had (ulimit -v), and nothing went on for the rest of %s",
			      time);
	else
		capacity_fail(t, CAPACITY_TIME, -KV_ETIMEOUT, "the step took longer than %s (--timeout)", time);
}

bool capacity_look(struct capacity_teller *t)
{
	bool go_on = memory_left(t);

	if (bench_interrupted())
		capacity_fail(t, CAPACITY_INTERRUPTED, -KV_ECANCELED, "interrupted by signal %d", bench_interrupted());
	else if (kv_clock_now(&kv_clock_monotonic) >= t->deadline_ns)
		late(t);
	else if (go_on) {
		uint64_t now = kv_clock_now(&kv_clock_monotonic);
		/* Walking through thousands of descriptors after each of thousands of clients would be most of the
		 * work. */
		if (now - t->measured_ns >= MEASURE_NS) {
			t->measured_ns = now;
			capacity_measure(t);
		}
		capacity_tell(t);
		return true;
	}
	return false;
}

/* ---- which resource it was ---- */

/* Names of the engine's checks (engine/preflight.c), in the sentences that they end up in. The longer ones stand before
 * those that they contain. */
static const struct {
	const char *name;
	enum capacity_end end;
} said[] = {{"open files", CAPACITY_FILES},   {"locked memory", CAPACITY_LOCKED},  {"endpoints", CAPACITY_EPS},
	    {"queue pairs", CAPACITY_QPS},    {"completion queues", CAPACITY_CQS}, {"CQ entries", CAPACITY_CQS},
	    {"memory regions", CAPACITY_MRS}, {"size of a region", CAPACITY_MRS},  {"page table entries", CAPACITY_MRS},
	    {"threads", CAPACITY_THREADS},    {"address space", CAPACITY_MEMORY},  {"/dev/shm", CAPACITY_MEMORY},
	    {"memory", CAPACITY_MEMORY}};

/* "open files: needs 38, 20 allowed" or "open files is short: ...". CAPACITY_COMPLETE: it says no such thing. */
enum capacity_end capacity_end_said(const char *text)
{
	char words[64];

	/* What follows there are figures of all that is not short. */
	if (strstr(text, "no limit that can be seen is short"))
		return CAPACITY_PROVIDER;
	for (unsigned i = 0; i < KV_COUNT(said); i++) {
		snprintf(words, sizeof(words), "%s: needs", said[i].name);
		if (strstr(text, words))
			return said[i].end;
		snprintf(words, sizeof(words), "%s is short:", said[i].name);
		if (strstr(text, words))
			return said[i].end;
	}
	/* Of loops and threads (loop/ring_uring.c, kvclient/pool/pool.c). */
	if (strcasestr(text, "too many open files") || strstr(text, " files open; raise"))
		return CAPACITY_FILES;
	return strstr(text, "ulimit -u") ? CAPACITY_THREADS : CAPACITY_COMPLETE;
}

enum capacity_end capacity_end_of(const struct capacity_teller *t, const struct kv_error *err)
{
	enum capacity_end end = capacity_end_said(err->text);

	if (err->code == -KV_ENOTSUP)
		return CAPACITY_UNUSABLE;
	if (err->code == -KV_EFULL || err->code == -KV_EPEERDOWN || err->code == -KV_EDENIED ||
	    err->code == -KV_EVERSION)
		return CAPACITY_SERVER;
	/* A thread needs room for its stack. */
	if (end == CAPACITY_THREADS && address_space_short())
		return CAPACITY_MEMORY;
	if (end != CAPACITY_COMPLETE)
		return end;
	if (err->code == -EMFILE || err->code == -ENFILE || files_short(t))
		return CAPACITY_FILES;
	if (err->code == -KV_ENOMEM || err->code == -ENOMEM || address_space_short())
		return CAPACITY_MEMORY;
	return err->code == -KV_ETIMEOUT ? CAPACITY_TIME : CAPACITY_PROVIDER;
}
