/* SPDX-License-Identifier: Apache-2.0 */
/* reporter.c -- the reports of a step, and the resource that ended it.
 *
 * The process may be killed for its memory, or aborted by a provider. So it reports its figures all the time, and the
 * last report is the result if it dies. Each look also guards the memory: a step ends before the machine's (or the
 * cgroup's) memory does. */
#include "kvbench/capacity/reporter.h"

#include <errno.h>
#include <stdarg.h>

#include "kvbench/setup/signals.h"
#include "kvbench/setup/step.h"

#define MEMORY_RESERVE  ((uint64_t)128 << 20) /* open clients take some more while they connect */
#define ADDRESS_RESERVE ((uint64_t)64 << 20)
#define MEASURE_NS      50000000ull

enum { FILES_RESERVE = 32 };

/* ---- telling ---- */

static json_t *known(int64_t n)
{
	return n < 0 ? json_null() : json_integer(n);
}

void capacity_report(struct capacity_reporter *t)
{
	const struct capacity_step *s = &t->step;
	json_t *first = s->end ? json_pack("{s:s, s:s}", "code", kv_errkey(s->code), "text", s->text) : json_null();
	step_report(json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, "
		"s:f, s:{s:o, s:o, s:o}, s:o, s:o, s:b, s:s, s:s, s:s, s:s, s:s}",
		"opened", (json_int_t)s->opened, "connected", (json_int_t)s->connected, "verified",
		(json_int_t)s->verified, "wrong", (json_int_t)s->wrong, "endpoints", (json_int_t)s->endpoints,
		"queue_pairs", (json_int_t)s->qps, "completion_queues", (json_int_t)s->cqs, "memory_regions",
		(json_int_t)s->mrs, "files", (json_int_t)s->fds, "threads", (json_int_t)s->threads, "memory_bytes",
		(json_int_t)(s->rss > s->rss_start ? s->rss - s->rss_start : 0), "opening_seconds",
		(double)s->open_ns / 1e9, "reading_seconds", (double)s->get_ns / 1e9, "kernel", "queue_pairs",
		known(s->kernel_qps), "completion_queues", known(s->kernel_cqs), "memory_regions", known(s->kernel_mrs),
		"ended_by", s->end ? json_string(capacity_end_name(s->end)) : json_null(), "first_error", first,
		"final", (int)s->final, "provider", s->info.provider, "domain", s->info.domain, "libfabric",
		s->info.libfabric, "wait", s->info.wait, "loopback_congestion_control", s->info.congestion));
}

void capacity_fail(struct capacity_reporter *t, enum capacity_end end, int code, const char *fmt, ...)
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

void capacity_measure(struct capacity_reporter *t)
{
	struct kv_process p;
	int64_t used[3] = {-1, -1, -1};
	kv_process_read(0, &p);
	t->step.rss = KV_MAX(t->step.rss, p.rss);
	t->step.fds = (uint32_t)KV_MAX(t->step.fds, p.files);
	t->step.threads = (uint32_t)KV_MAX(t->step.threads, p.threads);
	kv_rdma_used_each(device_add, used);
	t->step.kernel_qps = KV_MAX(t->step.kernel_qps, used[0]);
	t->step.kernel_cqs = KV_MAX(t->step.kernel_cqs, used[1]);
	t->step.kernel_mrs = KV_MAX(t->step.kernel_mrs, used[2]);
}

/* The rest must suffice for the next tenth of a second, in which the step may take as much as in the last. */
static bool memory_left(struct capacity_reporter *t)
{
	uint64_t left = kv_memory_available(), rss = kv_memory_rss();
	uint64_t grown = rss > t->rss_looked ? rss - t->rss_looked : 0;
	char a[32], b[32];
	t->rss_looked = rss;
	if (left >= MEMORY_RESERVE + 2 * grown)
		return true;
	capacity_fail(t, CAPACITY_MEMORY, -KV_ELIMIT,
		      "only %s of this machine's (or this cgroup's) memory "
		      "are left, with %s in use here: stopped before it ends",
		      kv_size_format(left, a, sizeof(a)), kv_size_format(rss, b, sizeof(b)));
	return false;
}

static bool is_short(const struct capacity_reporter *t, enum kv_limit limit)
{
	const struct kv_need more = {.files = FILES_RESERVE - KV_FILES_MARGIN, .address_bytes = ADDRESS_RESERVE};
	struct kv_host host;
	kv_host_read("", &host);
	host.files_open = t->step.fds; /* at the most: after a failure the library has closed some */
	if (host.address_used == KV_UNKNOWN)
		host.address_used = host.address_soft;
	return kv_check_one(&(struct kv_checkup){.host = &host, .need = &more}, limit, NULL) == KV_FAIL;
}

/* A step that waits for something that cannot be had sees only its time pass. */
static void late(struct capacity_reporter *t)
{
	char time[32];
	kv_duration_format(t->opt->timeout_ns, time, sizeof(time));
	if (is_short(t, KV_LIMIT_FILES))
		capacity_fail(
			t, CAPACITY_FILES, -KV_ELIMIT,
			"all files that the limit allows are open (%u), and no progress was made for the rest of %s",
			t->step.fds, time);
	else if (is_short(t, KV_LIMIT_ADDRESS_SPACE))
		capacity_fail(t, CAPACITY_MEMORY, -KV_ELIMIT,
			      "the address space is used up (ulimit -v), and no progress was made for the rest of %s",
			      time);
	else
		capacity_fail(t, CAPACITY_TIME, -KV_ETIMEOUT, "the step took longer than %s (--timeout)", time);
}

bool capacity_look(struct capacity_reporter *t)
{
	bool go_on = memory_left(t);
	if (bench_interrupted())
		capacity_fail(t, CAPACITY_INTERRUPTED, -KV_ECANCELED,
			      "interrupted"); /* by which signal kv-bench itself says */
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
		capacity_report(t);
		return true;
	}
	return false;
}

/* ---- which resource it was ---- */

enum capacity_end capacity_end_said(const char *text)
{
	static const enum capacity_end ends[KV_LIMITS] = {
		[KV_LIMIT_FILES] = CAPACITY_FILES,   [KV_LIMIT_MEMLOCK] = CAPACITY_LOCKED,
		[KV_LIMIT_ENDPOINTS] = CAPACITY_EPS, [KV_LIMIT_QPS] = CAPACITY_QPS,
		[KV_LIMIT_CQS] = CAPACITY_CQS,       [KV_LIMIT_CQ_ENTRIES] = CAPACITY_CQS,
		[KV_LIMIT_MRS] = CAPACITY_MRS,       [KV_LIMIT_MR_BYTES] = CAPACITY_MRS,
		[KV_LIMIT_PAGES] = CAPACITY_MRS,     [KV_LIMIT_THREADS] = CAPACITY_THREADS,
		[KV_LIMIT_MEMORY] = CAPACITY_MEMORY, [KV_LIMIT_ADDRESS_SPACE] = CAPACITY_MEMORY,
		[KV_LIMIT_SHM] = CAPACITY_MEMORY,
	};
	enum kv_limit said = kv_limit_said(text);
	/* Behind it are figures of resources in good supply. */
	if (strstr(text, "no limit that can be seen is short"))
		return CAPACITY_PROVIDER;
	if (said != KV_LIMITS && ends[said])
		return ends[said];
	/* Of loops and threads (loop/ring_kernel.c, kvclient/pool/pool.c). */
	if (strcasestr(text, "too many open files") || strstr(text, " files open; raise"))
		return CAPACITY_FILES;
	return strstr(text, "ulimit -u") ? CAPACITY_THREADS : CAPACITY_COMPLETE;
}

enum capacity_end capacity_end_of(const struct capacity_reporter *t, const struct kv_error *err)
{
	enum capacity_end end = capacity_end_said(err->text);
	if (err->code == -KV_ENOTSUP)
		return CAPACITY_UNUSABLE;
	if (err->code == -KV_EFULL || err->code == -KV_EPEERDOWN || err->code == -KV_EDENIED ||
	    err->code == -KV_EVERSION)
		return CAPACITY_SERVER;
	if (end == CAPACITY_THREADS && is_short(t, KV_LIMIT_ADDRESS_SPACE))
		return CAPACITY_MEMORY;
	if (end != CAPACITY_COMPLETE)
		return end;
	if (err->code == -EMFILE || err->code == -ENFILE || is_short(t, KV_LIMIT_FILES))
		return CAPACITY_FILES;
	if (err->code == -KV_ENOMEM || err->code == -ENOMEM || is_short(t, KV_LIMIT_ADDRESS_SPACE))
		return CAPACITY_MEMORY;
	return err->code == -KV_ETIMEOUT ? CAPACITY_TIME : CAPACITY_PROVIDER;
}
