/* SPDX-License-Identifier: Apache-2.0 */
/* shortage.c -- the table of limits.
 *
 * A check compares a need with a limit, in numbers, and names the shortest way out for this place: the shell raises a
 * soft limit, limits.d or systemd a hard one, and in a container its starter does. Unknown numbers never fail.
 * Estimates of a provider's needs are a little too large: a refused start costs less than an abort at full load. */
#include "host/shortage.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FILES_ENOUGH = 65536, NUMBER_TEXT = 32 };

/* Where a remedy applies. */
enum place { SHELL, CONTAINER, POD, PLACES };

/* `have`: compare the numbers at these offsets; `judge`: anything else. */
struct row {
	const char *id, *name, *unit;
	unsigned scope;          /* enum kv_check_scope */
	bool known_only;         /* skip it if the limit is unknown or none */
	bool wanted_only;        /* skip it if the need is 0 */
	enum kv_status shortage; /* severity; KV_SKIP stands for KV_FAIL */
	size_t need, used,
		have; /* offsets: need of kv_need, used and have of kv_device_limits or kv_host, by scope. 0: none */
	const char *used_by;      /* its user */
	const char *lift[PLACES]; /* the remedy; # is a number. Default: SHELL's */
	void (*judge)(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v);
};

void kv_need_add(struct kv_need *a, const struct kv_need *b)
{
	a->endpoints += b->endpoints;
	a->qps += b->qps;
	a->cqs += b->cqs;
	a->mrs += b->mrs;
	a->cq_entries = KV_MAX(a->cq_entries, b->cq_entries);
	a->cq_entries_per_peer = KV_MAX(a->cq_entries_per_peer, b->cq_entries_per_peer);
	a->registered_bytes += b->registered_bytes;
	a->pages += b->pages;
	a->part_bytes = KV_MAX(a->part_bytes, b->part_bytes);
	a->pinned_bytes += b->pinned_bytes;
	a->memory_bytes += b->memory_bytes;
	a->memory_soon_bytes += b->memory_soon_bytes;
	a->address_bytes += b->address_bytes;
	a->huge_bytes += b->huge_bytes;
	a->files += b->files;
	a->threads += b->threads;
	a->shm_bytes += b->shm_bytes;
	a->shm_free_bytes = KV_MAX(a->shm_free_bytes, b->shm_free_bytes);
	a->mappings += b->mappings;
}

void kv_device_limits_unknown(struct kv_device_limits *l)
{
	*l = (struct kv_device_limits){.endpoints = KV_UNKNOWN,
				       .qps = KV_UNKNOWN,
				       .qps_used = KV_UNKNOWN,
				       .cqs = KV_UNKNOWN,
				       .cqs_used = KV_UNKNOWN,
				       .mrs = KV_UNKNOWN,
				       .mrs_used = KV_UNKNOWN,
				       .cq_entries = KV_UNKNOWN,
				       .mr_bytes = KV_UNKNOWN,
				       .pages = KV_UNKNOWN,
				       .link = -1};
}

/* ---- words ---- */

static bool is_number(uint64_t v)
{
	return v != KV_UNKNOWN && v != KV_NO_LIMIT;
}

static uint64_t number_or_0(uint64_t v)
{
	return is_number(v) ? v : 0;
}

static const char *amount_text(const struct kv_verdict *v, uint64_t value, char *buf)
{
	if (!is_number(value))
		return value == KV_UNKNOWN ? "unknown" : "unlimited";
	return v->unit[0] ? kv_size_format(value, buf, NUMBER_TEXT) : kv_count_format(value, buf, NUMBER_TEXT);
}

#define AMOUNT(v, value) amount_text((v), (value), (char[NUMBER_TEXT]){0})
#define SIZE(value)      kv_size_format((value), (char[NUMBER_TEXT]){0}, NUMBER_TEXT)

static void say(struct kv_verdict *v, enum kv_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void say(struct kv_verdict *v, enum kv_status status, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(v->text, sizeof(v->text), fmt, args);
	va_end(args);
	v->status = status;
}

static void say_more(struct kv_verdict *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say_more(struct kv_verdict *v, const char *fmt, ...)
{
	size_t at = strlen(v->text);
	va_list args;
	va_start(args, fmt);
	vsnprintf(v->text + at, sizeof(v->text) - at, fmt, args);
	va_end(args);
}

static void advise(struct kv_verdict *v, const char *text, uint64_t n)
{
	size_t at = strlen(v->remedy);
	for (; *text && at + 24 < sizeof(v->remedy); text++)
		if (*text == '#')
			at += (size_t)snprintf(v->remedy + at, sizeof(v->remedy) - at, "%" PRIu64, n);
		else
			v->remedy[at++] = *text;
	v->remedy[at] = '\0';
}

static enum place place_of(const struct kv_host *h)
{
	if (!h || h->container == KV_CONTAINER_NONE)
		return SHELL;
	return h->container == KV_CONTAINER_KUBERNETES ? POD : CONTAINER;
}

/* The row's own remedy. */
static void advise_row(struct kv_verdict *v, const struct row *row, const struct kv_host *h, uint64_t n)
{
	const char *text = row->lift[place_of(h)];
	advise(v, text ? text : row->lift[SHELL], n);
}

/* ---- comparing ---- */

/* Compare need with have, less `used` (KV_UNKNOWN: 0). Sets all but the remedy. */
static void compare(struct kv_verdict *v, uint64_t need, uint64_t used, uint64_t have, const char *used_by)
{
	uint64_t taken = number_or_0(used);
	v->need = need;
	v->have = have;
	if (have == KV_UNKNOWN)
		say(v, KV_INFO, "needs %s; the limit cannot be read", AMOUNT(v, need));
	else if (have == KV_NO_LIMIT)
		say(v, KV_OK, "needs %s, no limit", AMOUNT(v, need));
	else
		say(v, taken > have || have - taken < need ? KV_FAIL : KV_OK, "needs %s, %s allowed", AMOUNT(v, need),
		    AMOUNT(v, have));
	if (taken > 0 && is_number(have))
		say_more(v, ", %s %s", AMOUNT(v, used), used_by);
}

static uint64_t number_at(const void *of, size_t offset)
{
	uint64_t value;
	memcpy(&value, (const char *)of + offset, sizeof(value));
	return value;
}

static void compare_row(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const void *limits = row->scope == KV_CHECK_DEVICE ? (const void *)c->limits : c->host;
	uint64_t need = number_at(c->need, row->need), have = number_at(limits, row->have);
	if ((row->known_only && !is_number(have)) || (row->wanted_only && need == 0))
		return;
	compare(v, need, row->used_by ? number_at(limits, row->used) : KV_UNKNOWN, have, row->used_by);
	if (v->status == KV_FAIL && row->shortage)
		v->status = row->shortage;
}

/* A setrlimit limit: a sufficient hard limit is enough; else the shell helps a privileged process, and `lasting` all.
 * n: the amount to set. */
static void advise_rlimit(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v, uint64_t hard,
			  uint64_t wanted, const char *soft, const char *shell, uint64_t n)
{
	if (hard != KV_UNKNOWN && hard >= wanted) {
		advise(v, soft, KV_MIN(n, hard));
		advise(v, " in this shell, or start with ./run-with-rdma.sh, which does it", 0);
		return;
	}
	if (c->host->raises_limits) {
		advise(v, shell, n);
		advise(v, " in this shell; for good: ", 0);
	}
	advise_row(v, row, c->host, n);
}

/* ---- of a device ---- */

static void judge_link(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	if (c->limits->link > 0)
		say(v, KV_OK, "a port is active");
	if (c->limits->link != 0)
		return;
	say(v, KV_FAIL, "no port is active");
	if (strcmp(c->limits->provider, "efa") == 0)
		advise(v,
		       "look at `rdma link` and `dmesg | grep efa`; "
		       "detach and attach the network interface, or reboot the instance",
		       0);
	else
		advise_row(v, row, c->host, 0);
}

static void judge_cq_entries(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	if (v->status == KV_FAIL && c->need->cq_entries_per_peer)
		advise_row(v, row, c->host, KV_MAX((uint64_t)1, c->limits->cq_entries / c->need->cq_entries_per_peer));
	else if (v->status == KV_FAIL)
		advise(v, "use a smaller completion queue (FI_EFA_CQ_SIZE)", 0);
}

/* Memory too large for one registration is registered in halves. */
static void judge_mr_bytes(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	(void)row;
	/* 2^63 and more means no limit. */
	if (v->status != KV_SKIP && c->limits->mr_bytes >> 63)
		compare(v, c->need->part_bytes, KV_UNKNOWN, KV_NO_LIMIT, "");
	if (v->status == KV_INFO)
		say_more(v, "; larger memory is registered in parts");
}

/* Reported by others, never seen here: only a warning. */
static void judge_pages(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	if (v->status == KV_SKIP)
		return;
	say_more(v, " as measured elsewhere (the device reports none), for %s registered",
		 SIZE(c->need->registered_bytes));
	if (v->status == KV_WARN)
		advise_row(v, row, c->host, (c->need->huge_bytes >> 21) + 1);
}

/* ---- of a process ---- */

static void judge_memlock(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	if (!c->pins_memory)
		v->status = KV_SKIP;
	if (v->status != KV_FAIL)
		return;
	if (h->locks_freely) {
		v->have = KV_NO_LIMIT;
		say(v, KV_OK, "needs %s, no limit (CAP_IPC_LOCK)", SIZE(v->need));
		return;
	}
	advise_rlimit(c, row, v, h->memlock_hard, v->need + number_or_0(h->locked_bytes), "`ulimit -l $(ulimit -H -l)`",
		      "`ulimit -l unlimited`", 0);
}

static void judge_files(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	compare(v, c->need->files + KV_FILES_MARGIN, h->files_open, h->files_soft, "open already");
	if (v->status != KV_FAIL)
		return;
	uint64_t wanted = v->need + number_or_0(h->files_open), enough = FILES_ENOUGH;
	while (enough < wanted)
		enough *= 2;
	advise_rlimit(c, row, v, h->files_hard, wanted, "`ulimit -n #`", "`ulimit -n #`", enough);
}

static void judge_threads(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	/* RLIMIT_NPROC counts all threads of the user, and does not apply to root. */
	bool exempt = (h->root && !h->mapped_users) || h->raises_limits || h->administers;
	uint64_t soft = exempt || h->threads_soft == KV_UNKNOWN ? KV_NO_LIMIT : h->threads_soft;
	uint64_t used = soft == KV_NO_LIMIT ? 0 : KV_MIN(number_or_0(h->threads_used), soft);
	bool group = h->threads_group < (soft == KV_NO_LIMIT ? soft : soft - used);
	if (c->need->threads == 0)
		return;
	compare(v, c->need->threads, group ? 0 : used, group ? h->threads_group : soft, "in use by this user");
	if (v->status == KV_FAIL && group)
		advise(v,
		       "raise the pids limit of the container (docker: --pids-limit; Kubernetes: podPidsLimit of the "
		       "kubelet; systemd: TasksMax=)",
		       0);
	else if (v->status == KV_FAIL)
		advise_row(v, row, NULL, 0);
}

/* ---- of the machine ---- */

static void judge_memory(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	bool grouped = is_number(h->memory_group) &&
		       (h->memory_available == KV_UNKNOWN || h->memory_group < h->memory_available);
	uint64_t plain = grouped ? h->memory_group : h->memory_available,
		 huge = KV_MIN(c->need->huge_bytes, kv_huge_bytes(h, true)); /* in neither of the two */
	char in_huge[48] = "";
	compare(v, c->need->memory_bytes, KV_UNKNOWN, is_number(plain) ? plain + huge : plain, "");
	if (huge)
		snprintf(in_huge, sizeof(in_huge), ", and %s in free huge pages", SIZE(huge));
	if (v->have != KV_UNKNOWN)
		say(v, v->status, "needs %s, %s %s%s", AMOUNT(v, v->need), AMOUNT(v, plain),
		    grouped ? "left in the cgroup" : "available", in_huge);
	if (v->status == KV_FAIL && c->need->memory_soon_bytes && c->need->memory_soon_bytes <= v->have) {
		v->status = KV_WARN;
		say_more(v, "; %s of it at once, the rest as it is used", SIZE(c->need->memory_soon_bytes));
	}
	if (v->status >= KV_WARN && grouped)
		advise(v,
		       "raise the memory limit of the container (docker: --memory; Kubernetes: "
		       "resources.limits.memory; systemd: MemoryMax=), or use smaller --buffer-mb, --memory-mb",
		       0);
	else if (v->status >= KV_WARN)
		advise_row(v, row, NULL, 0);
}

static void judge_hugepages(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_hugepool *huge = c->host->huge;
	uint64_t total = huge[0].total * huge[0].page_bytes + huge[1].total * huge[1].page_bytes;
	v->need = c->need->huge_bytes;
	v->have = kv_huge_bytes(c->host, false);
	bool ok = v->have >= v->need;
	enum kv_status short_of = c->pins_memory ? KV_WARN : KV_INFO;
	say(v, ok ? KV_OK : short_of, "%s wanted, %s free of %s%s", SIZE(v->need), SIZE(v->have), SIZE(total),
	    ok ? "" : "; the rest lies in ordinary pages");
	if (v->status != KV_WARN)
		return;
	advise(v, "`sysctl -w vm.nr_hugepages=#` (2 MiB each; keep it in /etc/sysctl.d/90-kvrail.conf)",
	       huge[1].total + ((v->need - v->have) >> 21) + 1);
	advise_row(v, row, c->host, 0);
	advise(v, ": registration is faster, and the NIC needs 512 times fewer page table entries", 0);
}

/* A guard page splits a mapping: two per coroutine; kernels from 6.13 need none. */
static void judge_maps(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	if (v->status == KV_WARN)
		advise_row(v, row, NULL, KV_MAX(c->need->mappings * 2, (uint64_t)65530));
}

static void judge_shm(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	if (!c->shared_memory)
		return;
	compare(v, c->need->shm_bytes + c->need->shm_free_bytes, KV_UNKNOWN, h->shm_free, "");
	/* The others' part and ours, in whole GiB. */
	uint64_t others = is_number(h->shm_total) ? h->shm_total - KV_MIN(h->shm_total, h->shm_free) : 0;
	if (v->status == KV_FAIL)
		advise_row(v, row, h, (others + v->need + ((uint64_t)1 << 30) - 1) >> 30);
}

static void judge_ptrace(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	int scope = c->host->ptrace_scope;
	if (!c->shared_memory)
		return;
	v->have = scope < 0 ? 0 : (uint64_t)scope;
	if (c->cma_error > 0)
		say(v, KV_WARN,
		    "a process may not read another's memory (process_vm_readv: %s%s): shm copies everything twice",
		    kv_strerror(-c->cma_error), scope > 0 ? ", Yama ptrace_scope is set" : "");
	else if (c->cma_error < 0 && scope > 0)
		say(v, KV_WARN,
		    "Yama ptrace_scope is %d: a process may not read another's memory, shm copies everything twice",
		    scope);
	else
		say(v, KV_OK, "processes of one user may read each other's memory%s",
		    c->cma_error == 0 ? " (tried)" : "");
	if (v->status == KV_WARN)
		advise_row(v, row, c->host, 0);
}

static const struct row table[KV_LIMITS];

#define ON_EPOLL "; loops use epoll, which takes a little more CPU"

static void loops_refused(const struct kv_checkup *c, struct kv_verdict *v)
{
	int len = (int)strcspn(c->uring, ";"); /* the way out follows */
	say(v, KV_FAIL, "no event loop can be made: %.*s", len, c->uring);
	advise(v, c->uring[len] ? c->uring + len + 2 : "", 0);
}

static void uring_refused(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	int len = (int)strcspn(c->uring, ";"); /* said better here */
	if (c->uring_code == -KV_ENOMEM) {
		say(v, KV_WARN,
		    "no memory for the rings: they count as locked memory of this user, %s allowed" ON_EPOLL,
		    is_number(h->memlock_soft) ? SIZE(h->memlock_soft) : AMOUNT(v, h->memlock_soft));
		advise_row(v, &table[KV_LIMIT_MEMLOCK], h, 0);
	} else if (h->seccomp > 0 && c->uring_code != -KV_ENOTSUP) {
		say(v, KV_WARN, "refused: a seccomp filter is on (%.*s)" ON_EPOLL, len, c->uring);
		advise_row(v, row, h, 0);
	} else {
		say(v, KV_WARN, "refused: %.*s" ON_EPOLL, len, c->uring);
		advise(v,
		       "for io_uring a kernel of 5.11 or later with CONFIG_IO_URING "
		       "is needed (Amazon Linux 2023, Debian 12, Ubuntu 22.04)",
		       0);
	}
}

static void judge_uring(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	bool refused = c->uring && c->uring[0],
	     forbidden = h->uring_disabled == 2 || (h->uring_disabled == 1 && !h->administers);
	v->have = h->uring_disabled < 0 ? 0 : (uint64_t)h->uring_disabled;
	if (refused && c->loops_fail) {
		loops_refused(c, v);
	} else if (!refused && (c->uring || !forbidden)) {
		say(v, KV_OK, "%s", c->uring ? "the rings were made" : "not forbidden by a sysctl");
	} else if (!forbidden) {
		uring_refused(c, row, v);
	} else {
		say(v, KV_WARN, "forbidden: kernel.io_uring_disabled is %d" ON_EPOLL, h->uring_disabled);
		advise(v,
		       "`sysctl -w kernel.io_uring_disabled=0` (keep it in /etc/sysctl.d/90-kvrail.conf), or set it to "
		       "1 and kernel.io_uring_group to a group of this user",
		       0);
	}
}

static void judge_cpus(const struct kv_checkup *c, const struct row *row, struct kv_verdict *v)
{
	const struct kv_host *h = c->host;
	bool quota = h->cpus_group < h->cpus;
	v->need = c->need->threads;
	v->have = KV_MIN((uint64_t)h->cpus, h->cpus_group);
	if (v->have == 0 || v->need == 0)
		return;
	/* The control loop and the main threads are nearly always idle. */
	say(v, v->have >= v->need ? KV_OK : KV_WARN, "%" PRIu64 " thread%s that work%s, %" PRIu64 " CPU%s%s", v->need,
	    kv_plural(v->need), v->need == 1 ? "s" : "", v->have, kv_plural(v->have),
	    quota ? " (the cgroup's quota)" : "");
	if (v->status == KV_WARN && quota)
		advise(v,
		       "raise the CPU quota (docker: --cpus; Kubernetes: resources.limits.cpu), or use fewer "
		       "--num-threads, --server-threads",
		       0);
	else if (v->status == KV_WARN)
		advise_row(v, row, NULL, 0);
}

/* ---- the table ---- */

#define NEED(member)    .need = offsetof(struct kv_need, member)
#define HAVE(member)    .have = offsetof(struct kv_host, member)
#define USED(member)    .used = offsetof(struct kv_host, member)
#define DEVICE(member)  .have = offsetof(struct kv_device_limits, member)
#define IN_USE(member)  .used = offsetof(struct kv_device_limits, member)
#define FEWER(resource) "use fewer " resource ", or end other programs that use this device (`rdma resource show "

#define PTRACE_CONTAINER                                                                                               \
	"start the container with --cap-add SYS_PTRACE (Kubernetes: capabilities: add: [\"SYS_PTRACE\"]), client and " \
	"server in one process namespace and as one user"

static const struct row table[KV_LIMITS] = {
	[KV_LIMIT_LINK] = {"link", "link", "", KV_CHECK_DEVICE, .judge = judge_link,
			   .lift = {"look at `rdma link` and `ibstat`: cable, switch port, subnet manager "
				    "(InfiniBand); `ip link set DEV up` (RoCE)"}},
	[KV_LIMIT_ENDPOINTS] =
		{"endpoints", "endpoints", "", KV_CHECK_DEVICE, .known_only = true, NEED(endpoints), DEVICE(endpoints),
		 IN_USE(endpoints_used), .used_by = "open in this process",
		 .lift = {"use fewer clients, threads or rails (--num-clients, --num-threads, --rails)"}},
	[KV_LIMIT_QPS] = {"qps", "queue pairs", "", KV_CHECK_DEVICE, .known_only = true, NEED(qps), DEVICE(qps),
			  IN_USE(qps_used), .used_by = "in use on this machine",
			  .lift = {FEWER("clients or rails") "qp` lists them)"}},
	[KV_LIMIT_CQS] = {"cqs", "completion queues", "", KV_CHECK_DEVICE, .known_only = true, NEED(cqs), DEVICE(cqs),
			  IN_USE(cqs_used), .used_by = "in use on this machine",
			  .lift = {FEWER("clients or rails") "cq` lists them)"}},
	[KV_LIMIT_CQ_ENTRIES] =
		{"cq_entries", "CQ entries", "", KV_CHECK_DEVICE, .known_only = true, NEED(cq_entries),
		 DEVICE(cq_entries), .judge = judge_cq_entries,
		 .lift = {"set FI_UNIVERSE_SIZE=# in the environment of the program (a queue has "
			  "(FI_OFI_RXM_MSG_RX_SIZE + FI_OFI_RXM_MSG_TX_SIZE) * FI_UNIVERSE_SIZE entries; KVRail's own "
			  "programs choose all three by themselves where they are not set)"}},
	[KV_LIMIT_MRS] = {"mrs", "memory regions", "", KV_CHECK_DEVICE, .known_only = true, NEED(mrs), DEVICE(mrs),
			  IN_USE(mrs_used), .used_by = "in use on this machine",
			  .lift = {FEWER("clients") "mr` lists them)"}},
	[KV_LIMIT_MR_BYTES] = {"mr_bytes", "size of a region", "bytes", KV_CHECK_DEVICE, .known_only = true,
			       .wanted_only = true, .shortage = KV_INFO, NEED(part_bytes), DEVICE(mr_bytes),
			       .judge = judge_mr_bytes},
	[KV_LIMIT_PAGES] = {"pages", "page table entries", "", KV_CHECK_DEVICE, .known_only = true, .wanted_only = true,
			    .shortage = KV_WARN, NEED(pages), DEVICE(pages), .judge = judge_pages,
			    .lift = {"use huge pages, 512 times fewer entries: `sysctl -w vm.nr_hugepages=#` (2 MiB "
				     "each; keep it in /etc/sysctl.d/90-kvrail.conf), or less memory"}},
	[KV_LIMIT_MEMLOCK] =
		{"memlock", "locked memory", "bytes", KV_CHECK_PROCESS, NEED(pinned_bytes), HAVE(memlock_soft),
		 USED(locked_bytes), .used_by = "locked already", .judge = judge_memlock,
		 .lift = {"put `* - memlock unlimited` into /etc/security/limits.d/90-kvrail.conf and log in again; "
			  "for a service: LimitMEMLOCK=infinity",
			  "start the container with --ulimit memlock=-1 (or --cap-add IPC_LOCK)",
			  "give the container capabilities: add: [\"IPC_LOCK\"], or set LimitMEMLOCK=infinity for "
			  "containerd on the node (systemctl edit containerd) and restart it"}},
	[KV_LIMIT_FILES] =
		{"files", "open files", "", KV_CHECK_PROCESS, .judge = judge_files,
		 .lift = {"put `* - nofile #` into /etc/security/limits.d/90-kvrail.conf and log in again; for a "
			  "service: LimitNOFILE=#",
			  "start the container with --ulimit nofile=#:#",
			  "set LimitNOFILE=# for containerd on the node (systemctl edit containerd), then restart it"}},
	[KV_LIMIT_THREADS] = {"threads", "threads", "", KV_CHECK_PROCESS, .judge = judge_threads,
			      .lift = {"raise `ulimit -u` (nproc in /etc/security/limits.d)"}},
	/* Batch systems limit it; malloc, mmap and pthread_create then blame memory and threads. */
	[KV_LIMIT_ADDRESS_SPACE] = {"address_space", "address space", "bytes", KV_CHECK_PROCESS, .known_only = true,
				    .wanted_only = true, NEED(address_bytes), HAVE(address_soft), USED(address_used),
				    .used_by = "in use",
				    .lift = {"`ulimit -v unlimited` in this shell (a batch system sets it for its "
					     "jobs: ask for more virtual memory)"}},
	[KV_LIMIT_MEMORY] = {"memory", "memory", "bytes", KV_CHECK_HOST, .judge = judge_memory,
			     .lift = {"use smaller --buffer-mb, --memory-mb or fewer clients, or free memory"}},
	[KV_LIMIT_HUGEPAGES] = {"hugepages", "huge pages", "bytes", KV_CHECK_HOST, .judge = judge_hugepages,
				.lift = {"", " on the host",
					 " on the node, and ask for hugepages-2Mi in the pod's resources"}},
	[KV_LIMIT_MAPS] = {"maps", "mappings", "", KV_CHECK_HOST, .known_only = true, .wanted_only = true,
			   .shortage = KV_WARN, NEED(mappings), HAVE(maps_max), .judge = judge_maps,
			   .lift = {"`sysctl -w vm.max_map_count=#` (keep it in /etc/sysctl.d/90-kvrail.conf)"}},
	[KV_LIMIT_SHM] =
		{"shm", "/dev/shm", "bytes", KV_CHECK_PROCESS | KV_CHECK_HOST, .judge = judge_shm,
		 .lift = {"`mount -o remount,size=#G /dev/shm`, and remove the files of killed processes there",
			  "start the container with --shm-size=#g (or --ipc=host)",
			  "mount an emptyDir with medium: Memory and sizeLimit: #Gi at /dev/shm"}},
	[KV_LIMIT_PTRACE] = {"ptrace", "ptrace (shm)", "", KV_CHECK_HOST, .judge = judge_ptrace,
			     .lift = {"`sysctl -w kernel.yama.ptrace_scope=0` (keep it in "
				      "/etc/sysctl.d/90-kvrail.conf), or use --provider tcp",
				      PTRACE_CONTAINER, PTRACE_CONTAINER}},
	[KV_LIMIT_URING] =
		{"io_uring", "io_uring", "", KV_CHECK_HOST, .judge = judge_uring,
		 .lift = {"allow io_uring_setup, io_uring_enter and io_uring_register: docker run --security-opt "
			  "seccomp=PROFILE.json (or seccomp=unconfined); systemd: SystemCallFilter=@aio",
			  [POD] = "allow io_uring_setup, io_uring_enter and io_uring_register in the pod's "
				  "seccompProfile (Localhost), or set it to Unconfined"}},
	[KV_LIMIT_CPUS] =
		{"cpus", "CPUs", "", KV_CHECK_HOST, .judge = judge_cpus,
		 .lift = {"use fewer --num-threads, --server-threads: threads that share a CPU wait for each other"}},
};

static bool applies(const struct kv_checkup *c, const struct row *row)
{
	return c->need && (row->scope == KV_CHECK_DEVICE ? (const void *)c->limits : c->host);
}

enum kv_status kv_check_one(const struct kv_checkup *c, enum kv_limit limit, struct kv_verdict *out)
{
	const struct row *row = &table[limit];
	struct kv_verdict ours, *v = out ? out : &ours;
	*v = (struct kv_verdict){.limit = limit,
				 .id = row->id,
				 .name = row->name,
				 .unit = row->unit,
				 .need = KV_UNKNOWN,
				 .have = KV_UNKNOWN};
	if (!applies(c, row))
		return KV_SKIP;
	if (row->have)
		compare_row(c, row, v);
	if (row->judge)
		row->judge(c, row, v);
	else if (v->status == KV_FAIL)
		advise_row(v, row, c->host, 0);
	return v->status;
}

unsigned kv_check(const struct kv_checkup *c, unsigned scopes, struct kv_verdict *out, unsigned max)
{
	unsigned n = 0;
	for (unsigned i = 0; i < KV_LIMITS && n < max; i++)
		if (table[i].scope & scopes)
			n += kv_check_one(c, (enum kv_limit)i, &out[n]) != KV_SKIP;
	return n;
}

/* ---- as sentences ---- */

int kv_verdict_fail(const struct kv_verdict *v, const char *subject, struct kv_error *err)
{
	return kv_fail(err, -KV_ELIMIT, "%s: %s: %s%s%s", subject, v->name, v->text, v->remedy[0] ? "; " : "",
		       v->remedy);
}

void kv_verdict_short(const struct kv_verdict *v, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s is short: %s; %s", v->name, v->text, v->remedy);
}

/* "locked memory: needs" contains "memory: needs": take the longest name. */
enum kv_limit kv_limit_said(const char *text)
{
	enum kv_limit said = KV_LIMITS;
	char words[64];
	for (unsigned i = 0; i < KV_LIMITS; i++) {
		snprintf(words, sizeof(words), "%s: needs", table[i].name);
		bool here = strstr(text, words);
		snprintf(words, sizeof(words), "%s is short:", table[i].name);
		if ((here || strstr(text, words)) &&
		    (said == KV_LIMITS || strlen(table[i].name) > strlen(table[said].name)))
			said = (enum kv_limit)i;
	}
	return said;
}
