/* SPDX-License-Identifier: Apache-2.0 */
/* reporter.c -- the reports of a step, and the resource that ended it.
 *
 * The process may be killed for its memory, or aborted by a provider. So it reports its figures while it opens clients
 * and sessions, and the last report is the result if it dies. Each look also guards the memory: a step ends before the
 * machine's (or the cgroup's) memory does. */
#include "kvbench/steps/steps.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "kvbench/setup/signals.h"
#include "kvbench/steps/server.h"

#define MEMORY_RESERVE  ((uint64_t)128 << 20) /* open clients take some more while they connect */
#define ADDRESS_RESERVE ((uint64_t)64 << 20)
#define MEASURE_NS      50000000ull

enum { FILES_RESERVE = 32 };

#define N(n) ((json_int_t)(n))

/* ---- reports ---- */

const char *step_end_name(enum step_end end)
{
	static const char *const names[STEP_ENDS] = {[STEP_COMPLETE] = "",
						     [STEP_FILES] = "open files",
						     [STEP_MEMORY] = "memory",
						     [STEP_LOCKED] = "locked memory",
						     [STEP_EPS] = "endpoints",
						     [STEP_QPS] = "queue pairs",
						     [STEP_CQS] = "completion queues",
						     [STEP_MRS] = "memory regions",
						     [STEP_THREADS] = "threads",
						     [STEP_PROVIDER] = "provider",
						     [STEP_SERVER] = "server",
						     [STEP_TIME] = "time",
						     [STEP_DATA] = "data",
						     [STEP_INTERRUPTED] = "interrupted",
						     [STEP_UNUSABLE] = "not usable"};
	return end < STEP_ENDS ? names[end] : "?";
}

static json_t *known(int64_t n)
{
	return n < 0 ? json_null() : json_integer(n);
}

void step_report(struct step *s)
{
	step_line(json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:I, s:I, s:{s:o, s:o, s:o}, s:o, s:o, s:b, s:s, s:s, s:s, s:s, s:s}",
		"opened", N(s->opened), "connected", N(s->connected), "verified", N(s->verified), "messages",
		N(s->messages), "wrong", N(s->wrong), "failed", N(s->failed), "endpoints", N(s->made.endpoints),
		"queue_pairs", N(s->made.qps), "completion_queues", N(s->made.cqs), "memory_regions", N(s->made.mrs),
		"files", N(s->files), "threads", N(s->threads), "rss_start", N(s->rss.start), "rss_base",
		N(s->rss.base), "rss", N(s->rss.most), "peer_memory", N(s->rss.peer), "open_ns", N(s->open_ns),
		"connect_ns", N(s->connect_ns), "talk_ns", N(s->talk_ns), "connect_p50_ns", N(s->connect_p50_ns),
		"connect_p99_ns", N(s->connect_p99_ns), "p50_ns", N(s->p50_ns), "p99_ns", N(s->p99_ns), "kernel",
		"queue_pairs", known(s->kernel[0]), "completion_queues", known(s->kernel[1]), "memory_regions",
		known(s->kernel[2]), "ended_by", s->end ? json_string(step_end_name(s->end)) : json_null(),
		"first_error",
		s->end ? json_pack("{s:s, s:s}", "code", kv_errkey(s->code), "text", s->text) : json_null(), "final",
		(int)s->final, "provider", s->info.provider, "domain", s->info.domain, "libfabric", s->info.libfabric,
		"wait", s->info.wait, "loopback_congestion_control", s->info.congestion));
}

void step_fail(struct step *s, enum step_end end, int code, const char *fmt, ...)
{
	va_list args;
	if (s->end != STEP_COMPLETE)
		return;
	s->end = end;
	s->code = code;
	va_start(args, fmt);
	vsnprintf(s->text, sizeof(s->text), fmt, args);
	va_end(args);
}

static void add_known(int64_t *sum, uint64_t count)
{
	if (count != KV_UNKNOWN)
		*sum = KV_MAX(*sum, 0) + (int64_t)count;
}

static void device_add(const struct kv_rdma_used *used, void *arg)
{
	int64_t *sum = arg;
	add_known(&sum[0], used->qps);
	add_known(&sum[1], used->cqs);
	add_known(&sum[2], used->mrs);
}

void step_measure(struct step *s)
{
	struct kv_process p;
	int64_t used[3] = {-1, -1, -1};
	kv_process_read(0, &p);
	s->rss.most = KV_MAX(s->rss.most, p.rss);
	s->files = (uint32_t)KV_MAX(s->files, p.files);
	s->threads = (uint32_t)KV_MAX(s->threads, p.threads);
	kv_rdma_used_each(device_add, used);
	for (unsigned i = 0; i < KV_COUNT(used); i++)
		s->kernel[i] = KV_MAX(s->kernel[i], used[i]);
}

/* The rest must suffice for the next tenth of a second, in which the step may take as much as in the last. */
static bool memory_left(struct step *s)
{
	uint64_t left = kv_memory_available(), rss = kv_memory_rss();
	uint64_t grown = rss > s->rss.looked ? rss - s->rss.looked : 0;
	char a[32], b[32];
	s->rss.looked = rss;
	if (left >= MEMORY_RESERVE + 2 * grown)
		return true;
	step_fail(s, STEP_MEMORY, -KV_ELIMIT,
		  "only %s of this machine's (or this cgroup's) memory "
		  "are left, with %s in use here: stopped before it ends",
		  kv_size_format(left, a, sizeof(a)), kv_size_format(rss, b, sizeof(b)));
	return false;
}

static bool is_short(const struct step *s, enum kv_limit limit)
{
	const struct kv_need more = {.files = FILES_RESERVE - KV_FILES_MARGIN, .address_bytes = ADDRESS_RESERVE};
	struct kv_host host;
	kv_host_read("", &host);
	host.files_open = s->files; /* at the most: after a failure the library has closed some */
	if (host.address_used == KV_UNKNOWN)
		host.address_used = host.address_soft;
	return kv_check_one(&(struct kv_checkup){.host = &host, .need = &more}, limit, NULL) == KV_FAIL;
}

/* A step that waits for something that cannot be had sees only its time pass. */
static void late(struct step *s)
{
	char time[32];
	kv_duration_format(s->opt->timeout_ns, time, sizeof(time));
	if (is_short(s, KV_LIMIT_FILES))
		step_fail(s, STEP_FILES, -KV_ELIMIT,
			  "all files that the limit allows are open (%u), and no progress was made for the rest of %s",
			  s->files, time);
	else if (is_short(s, KV_LIMIT_ADDRESS_SPACE))
		step_fail(s, STEP_MEMORY, -KV_ELIMIT,
			  "the address space is used up (ulimit -v), and no progress was made for the rest of %s",
			  time);
	else
		step_fail(s, STEP_TIME, -KV_ETIMEOUT, "the step took longer than %s (--timeout)", time);
}

bool step_over(const struct step *s)
{
	return bench_interrupted() || kv_clock_now(&kv_clock_monotonic) >= s->deadline_ns;
}

bool step_look(struct step *s)
{
	bool go_on = memory_left(s);
	if (bench_interrupted())
		step_fail(s, STEP_INTERRUPTED, -KV_ECANCELED, "interrupted"); /* by which signal kv-bench itself says */
	else if (kv_clock_now(&kv_clock_monotonic) >= s->deadline_ns)
		late(s);
	else if (go_on) {
		uint64_t now = kv_clock_now(&kv_clock_monotonic);
		/* Walking through thousands of descriptors after each of thousands of clients would be most of the
		 * work. */
		if (now - s->measured_ns >= MEASURE_NS) {
			s->measured_ns = now;
			step_measure(s);
		}
		step_report(s);
		return true;
	}
	return false;
}

/* ---- which resource it was ---- */

enum step_end step_end_said(const char *text)
{
	static const enum step_end ends[KV_LIMITS] = {
		[KV_LIMIT_FILES] = STEP_FILES,   [KV_LIMIT_MEMLOCK] = STEP_LOCKED,
		[KV_LIMIT_ENDPOINTS] = STEP_EPS, [KV_LIMIT_QPS] = STEP_QPS,
		[KV_LIMIT_CQS] = STEP_CQS,       [KV_LIMIT_CQ_ENTRIES] = STEP_CQS,
		[KV_LIMIT_MRS] = STEP_MRS,       [KV_LIMIT_MR_BYTES] = STEP_MRS,
		[KV_LIMIT_PAGES] = STEP_MRS,     [KV_LIMIT_THREADS] = STEP_THREADS,
		[KV_LIMIT_MEMORY] = STEP_MEMORY, [KV_LIMIT_ADDRESS_SPACE] = STEP_MEMORY,
		[KV_LIMIT_SHM] = STEP_MEMORY,
	};
	enum kv_limit said = kv_limit_said(text);
	/* Behind it are figures of resources in good supply. */
	if (strstr(text, "no limit that can be seen is short"))
		return STEP_PROVIDER;
	if (said != KV_LIMITS && ends[said])
		return ends[said];
	/* Of loops and threads (loop/ring_kernel.c, kvclient/pool/pool.c). */
	if (strcasestr(text, "too many open files") || strstr(text, " files open; raise"))
		return STEP_FILES;
	return strstr(text, "ulimit -u") ? STEP_THREADS : STEP_COMPLETE;
}

enum step_end step_end_of(const struct step *s, const struct kv_error *err)
{
	enum step_end end = step_end_said(err->text);
	if (err->code == -KV_ENOTSUP)
		return STEP_UNUSABLE;
	if (err->code == -KV_EFULL || err->code == -KV_EPEERDOWN || err->code == -KV_EDENIED ||
	    err->code == -KV_EVERSION)
		return STEP_SERVER;
	if (end == STEP_THREADS && is_short(s, KV_LIMIT_ADDRESS_SPACE))
		return STEP_MEMORY;
	if (end != STEP_COMPLETE)
		return end;
	if (err->code == -EMFILE || err->code == -ENFILE || is_short(s, KV_LIMIT_FILES))
		return STEP_FILES;
	if (err->code == -KV_ENOMEM || err->code == -ENOMEM || is_short(s, KV_LIMIT_ADDRESS_SPACE))
		return STEP_MEMORY;
	return err->code == -KV_ETIMEOUT ? STEP_TIME : STEP_PROVIDER;
}

/* ---- times ---- */

struct step_times *step_times_make(unsigned n)
{
	struct step_times *t = aligned_alloc(KV_CACHELINE, n * sizeof(*t));
	for (unsigned i = 0; t && i < n; i++) {
		kv_hist_init(&t[i].connect);
		kv_hist_init(&t[i].latency);
	}
	return t;
}

void step_times_take(struct step_times *all, unsigned n, struct step *s)
{
	for (unsigned i = 1; i < n; i++) {
		kv_hist_merge(&all->connect, &all[i].connect);
		kv_hist_merge(&all->latency, &all[i].latency);
	}
	s->connect_p50_ns = kv_hist_quantile(&all->connect, 0.5);
	s->connect_p99_ns = kv_hist_reached(&all->connect, 0.99);
	s->p50_ns = kv_hist_quantile(&all->latency, 0.5);
	s->p99_ns = kv_hist_reached(&all->latency, 0.99);
}
