/* SPDX-License-Identifier: Apache-2.0 */
/* preflight.c -- the table of checks.
 *
 * A check compares what is needed with what is allowed, and says both in numbers; where it is short it says what lifts
 * the limit, by the shortest way that works where we are: a soft limit below the hard one is raised by the shell, a
 * hard one by limits.d or systemd, and in a container by whoever starts it. What is unknown never fails: a /proc that
 * cannot be read is not a reason to refuse work that would succeed.
 *
 * Needs are estimates where a provider does not tell what it takes (files, its own memory), and are meant to be a
 * little too large: a start refused with a sentence costs a minute, a provider's abort at full load a night. */
#include "engine/preflight.h"
#include "host/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FILES_ENOUGH = 65536, SIZE_TEXT = 24, NUMBER_TEXT = 32 };

void te_need_add(struct te_need *a, const struct te_need *b)
{
	a->endpoints += b->endpoints;
	a->qps += b->qps;
	a->cqs += b->cqs;
	a->mrs += b->mrs;
	a->cq_entries = KV_MAX(a->cq_entries, b->cq_entries);
	a->cq_entries_per_peer = KV_MAX(a->cq_entries_per_peer, b->cq_entries_per_peer);
	a->depth = KV_MAX(a->depth, b->depth);
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

void te_limits_unknown(struct te_limits *l)
{
	*l = (struct te_limits){.endpoints = KV_UNKNOWN,
				.qps = KV_UNKNOWN,
				.qps_used = KV_UNKNOWN,
				.cqs = KV_UNKNOWN,
				.cqs_used = KV_UNKNOWN,
				.mrs = KV_UNKNOWN,
				.mrs_used = KV_UNKNOWN,
				.cq_entries = KV_UNKNOWN,
				.depth = KV_UNKNOWN,
				.mr_bytes = KV_UNKNOWN,
				.pages = KV_UNKNOWN,
				.link = -1};
}

/* ---- words ---- */

static bool is_number(uint64_t v)
{
	return v != KV_UNKNOWN && v != KV_NO_LIMIT;
}

/* "1,048,560"; "unlimited" and "unknown" for what is no number. */
static const char *count_text(uint64_t v, char *buf)
{
	char plain[NUMBER_TEXT];
	if (!is_number(v)) {
		snprintf(buf, NUMBER_TEXT, "%s", v == KV_UNKNOWN ? "unknown" : "unlimited");
		return buf;
	}
	int len = snprintf(plain, sizeof(plain), "%" PRIu64, v), at = 0;
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = plain[i];
	}
	buf[at] = '\0';
	return buf;
}

static const char *amount_text(const struct te_verdict *v, uint64_t value, char *buf)
{
	if (v->unit[0] == '\0' || !is_number(value))
		return count_text(value, buf);
	return kv_size_format(value, buf, NUMBER_TEXT);
}

static void where_files(const struct kv_host *h, uint64_t n, char *out, size_t cap)
{
	switch (h->container) {
	case KV_CONTAINER_DOCKER:
	case KV_CONTAINER_PODMAN:
	case KV_CONTAINER_OTHER:
		snprintf(out, cap, "start the container with --ulimit nofile=%" PRIu64 ":%" PRIu64, n, n);
		return;
	case KV_CONTAINER_KUBERNETES:
		snprintf(out, cap,
			 "set LimitNOFILE=%" PRIu64
			 " for containerd on the node (systemctl edit containerd), then restart it",
			 n);
		return;
	case KV_CONTAINER_NONE:
		break;
	}
	snprintf(out, cap,
		 "put `* - nofile %" PRIu64
		 "` into /etc/security/limits.d/90-kvrail.conf and log in again; for a service: "
		 "LimitNOFILE=%" PRIu64,
		 n, n);
}

static const char *where_memlock(const struct kv_host *h)
{
	switch (h->container) {
	case KV_CONTAINER_DOCKER:
	case KV_CONTAINER_PODMAN:
	case KV_CONTAINER_OTHER:
		return "start the container with --ulimit memlock=-1 (or --cap-add IPC_LOCK)";
	case KV_CONTAINER_KUBERNETES:
		return "give the container capabilities: add: [\"IPC_LOCK\"], or set LimitMEMLOCK=infinity for "
		       "containerd "
		       "on the node (systemctl edit containerd) and restart it";
	case KV_CONTAINER_NONE:
		break;
	}
	return "put `* - memlock unlimited` into /etc/security/limits.d/90-kvrail.conf and log in again; for a "
	       "service: "
	       "LimitMEMLOCK=infinity";
}

/* ---- the shape that most checks have ---- */

/* need against have, of which `used` is taken (KV_UNKNOWN: nobody knows). Sets everything but the remedy. */
static void compare(struct te_verdict *v, uint64_t need, uint64_t used, uint64_t have, const char *used_by)
{
	char a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT];
	uint64_t taken = is_number(used) ? used : 0;
	v->need = need;
	v->have = have;
	v->status = have == KV_UNKNOWN                                         ? TE_INFO
		    : is_number(have) && (taken > have || have - taken < need) ? TE_FAIL
									       : TE_OK;
	if (have == KV_UNKNOWN)
		snprintf(v->text, sizeof(v->text), "needs %s; what is allowed cannot be read", amount_text(v, need, a));
	else if (have == KV_NO_LIMIT)
		snprintf(v->text, sizeof(v->text), "needs %s, no limit", amount_text(v, need, a));
	else if (taken > 0)
		snprintf(v->text, sizeof(v->text), "needs %s, %s allowed, %s %s", amount_text(v, need, a),
			 amount_text(v, have, b), amount_text(v, used, c), used_by);
	else
		snprintf(v->text, sizeof(v->text), "needs %s, %s allowed", amount_text(v, need, a),
			 amount_text(v, have, b));
}

static void remedy(struct te_verdict *v, const char *text)
{
	snprintf(v->remedy, sizeof(v->remedy), "%s", text);
}

/* ---- of a device ---- */

static void check_link(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->limits->link < 0)
		return;
	v->status = c->limits->link ? TE_OK : TE_FAIL;
	snprintf(v->text, sizeof(v->text), "%s", c->limits->link ? "a port is active" : "no port is active");
	if (!c->limits->link)
		remedy(v,
		       strcmp(c->limits->provider, "efa") == 0
			       ? "look at `rdma link` and `dmesg | grep efa`; detach and attach the network interface, "
				 "or "
				 "reboot the instance"
			       : "look at `rdma link` and `ibstat`: cable, switch port, subnet manager (InfiniBand); "
				 "`ip link set DEV up` (RoCE)");
}

static void check_endpoints(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->limits->endpoints == KV_UNKNOWN)
		return;
	compare(v, c->need->endpoints, c->limits->endpoints_used, c->limits->endpoints, "open in this process");
	if (v->status == TE_FAIL)
		remedy(v, "use fewer clients, threads or rails (--num-clients, --num-threads, --rails)");
}

static void check_qps(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->limits->qps == KV_UNKNOWN)
		return;
	compare(v, c->need->qps, c->limits->qps_used, c->limits->qps, "in use on this machine");
	if (v->status == TE_FAIL)
		remedy(v, "use fewer clients or rails, or end other programs that use this device (`rdma resource show "
			  "qp` lists them)");
}

static void check_cqs(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->limits->cqs == KV_UNKNOWN)
		return;
	compare(v, c->need->cqs, c->limits->cqs_used, c->limits->cqs, "in use on this machine");
	if (v->status == TE_FAIL)
		remedy(v, "use fewer clients or rails, or end other programs that use this device (`rdma resource show "
			  "cq` lists them)");
}

static void check_cq_entries(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->limits->cq_entries == KV_UNKNOWN)
		return;
	compare(v, c->need->cq_entries, KV_UNKNOWN, c->limits->cq_entries, "");
	if (v->status == TE_FAIL && c->need->cq_entries_per_peer)
		snprintf(v->remedy, sizeof(v->remedy),
			 "set FI_UNIVERSE_SIZE=%llu in the environment of the program (a queue has "
			 "(FI_OFI_RXM_MSG_RX_SIZE + FI_OFI_RXM_MSG_TX_SIZE) * "
			 "FI_UNIVERSE_SIZE entries; KVRail's own programs choose all three by themselves where they "
			 "are not set)",
			 (unsigned long long)KV_MAX((uint64_t)1, c->limits->cq_entries / c->need->cq_entries_per_peer));
	else if (v->status == TE_FAIL)
		remedy(v, "use a smaller completion queue (FI_EFA_CQ_SIZE)");
}

static void check_mrs(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->limits->mrs == KV_UNKNOWN)
		return;
	compare(v, c->need->mrs, c->limits->mrs_used, c->limits->mrs, "in use on this machine");
	if (v->status == TE_FAIL)
		remedy(v,
		       "use fewer clients, or end other programs that use this device (`rdma resource show mr` lists "
		       "them)");
}

static void check_mr_bytes(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->limits->mr_bytes == KV_UNKNOWN || c->need->part_bytes == 0)
		return;
	/* 2^63 and more is a device's way to say that it does not care. */
	compare(v, c->need->part_bytes, KV_UNKNOWN, c->limits->mr_bytes >> 63 ? KV_NO_LIMIT : c->limits->mr_bytes, "");
	/* Parts are halved when a device refuses one. */
	if (v->status == TE_FAIL) {
		v->status = TE_INFO;
		snprintf(v->text + strlen(v->text), sizeof(v->text) - strlen(v->text),
			 "; larger memory is registered in parts");
	}
}

static void check_pages(const struct te_checkup *c, struct te_verdict *v)
{
	char bytes[NUMBER_TEXT];
	if (c->limits->pages == KV_UNKNOWN || c->need->pages == 0)
		return;
	compare(v, c->need->pages, KV_UNKNOWN, c->limits->pages, "");
	snprintf(v->text + strlen(v->text), sizeof(v->text) - strlen(v->text),
		 " by reports of others (the device does not tell), for %s registered",
		 kv_size_format(c->need->registered_bytes, bytes, sizeof(bytes)));
	/* Reported by others and never seen by us: the provider shall decide. */
	if (v->status == TE_FAIL) {
		v->status = TE_WARN;
		snprintf(v->remedy, sizeof(v->remedy),
			 "use huge pages, 512 times fewer entries: `sysctl -w vm.nr_hugepages=%" PRIu64
			 "` (2 MiB each; keep it in /etc/sysctl.d/90-kvrail.conf), or less memory",
			 (c->need->huge_bytes >> 21) + 1);
	}
}

/* ---- of a process ---- */

static void check_memlock(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	char need[NUMBER_TEXT];
	if (!c->pins_memory) {
		v->status = TE_SKIP;
		return;
	}
	compare(v, c->need->pinned_bytes, h->locked_bytes, h->memlock_soft, "locked already");
	if (h->locks_freely && v->status == TE_FAIL) {
		v->status = TE_OK;
		v->have = KV_NO_LIMIT;
		snprintf(v->text, sizeof(v->text), "needs %s, no limit (CAP_IPC_LOCK)",
			 kv_size_format(c->need->pinned_bytes, need, sizeof(need)));
	}
	if (v->status != TE_FAIL)
		return;
	if (h->memlock_hard != KV_UNKNOWN && h->memlock_hard > h->memlock_soft &&
	    h->memlock_hard >= c->need->pinned_bytes + (is_number(h->locked_bytes) ? h->locked_bytes : 0))
		remedy(v, "`ulimit -l $(ulimit -H -l)` in this shell, or start with ./run-with-rdma.sh, which does it");
	else
		snprintf(v->remedy, sizeof(v->remedy), "%s%s",
			 h->raises_limits ? "`ulimit -l unlimited` in this shell; for good: " : "", where_memlock(h));
}

static void check_files(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	compare(v, c->need->files + TE_FILES_MARGIN, h->files_open, h->files_soft, "open already");
	if (v->status != TE_FAIL)
		return;
	uint64_t wanted = v->need + (is_number(h->files_open) ? h->files_open : 0), enough = FILES_ENOUGH;
	char shell[64] = "", lasting[240];
	while (enough < wanted)
		enough *= 2;
	if (h->files_hard != KV_UNKNOWN && h->files_hard >= wanted) {
		snprintf(v->remedy, sizeof(v->remedy),
			 "`ulimit -n %" PRIu64 "` in this shell, or start with ./run-with-rdma.sh, which does it",
			 KV_MIN(enough, h->files_hard));
		return;
	}
	where_files(h, enough, lasting, sizeof(lasting));
	if (h->raises_limits)
		snprintf(shell, sizeof(shell), "`ulimit -n %" PRIu64 "` in this shell; for good: ", enough);
	snprintf(v->remedy, sizeof(v->remedy), "%s%s", shell, lasting);
}

static void check_threads(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	/* RLIMIT_NPROC counts all threads of the user, and not at all for root. */
	bool exempt = (h->root && !h->mapped_users) || h->raises_limits || h->administers;
	uint64_t soft = exempt || h->threads_soft == KV_UNKNOWN ? KV_NO_LIMIT : h->threads_soft;
	uint64_t used = soft != KV_NO_LIMIT && is_number(h->threads_used) ? KV_MIN(h->threads_used, soft) : 0;
	bool group = h->threads_group < (soft == KV_NO_LIMIT ? soft : soft - used);
	if (c->need->threads == 0) {
		v->status = TE_SKIP;
		return;
	}
	compare(v, c->need->threads, group ? 0 : used, group ? h->threads_group : soft, "in use by this user");
	if (v->status == TE_FAIL)
		remedy(v, group ? "raise the pids limit of the container (docker: --pids-limit; Kubernetes: "
				  "podPidsLimit of the kubelet; systemd: TasksMax=)"
				: "raise `ulimit -u` (nproc in /etc/security/limits.d)");
}

/* Batch systems limit it, and malloc, mmap and pthread_create then fail with words about memory and threads. */
static void check_address_space(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	if (c->need->address_bytes == 0 || !is_number(h->address_soft)) {
		v->status = TE_SKIP;
		return;
	}
	compare(v, c->need->address_bytes, h->address_used, h->address_soft, "in use");
	if (v->status == TE_FAIL)
		remedy(v, "`ulimit -v unlimited` in this shell (a batch system sets it for its jobs: ask for more "
			  "virtual memory)");
}

/* ---- of the machine ---- */

static void check_memory(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	char group[NUMBER_TEXT], soon[NUMBER_TEXT];
	bool grouped = is_number(h->memory_group) &&
		       (h->memory_available == KV_UNKNOWN || h->memory_group < h->memory_available);
	compare(v, c->need->memory_bytes, KV_UNKNOWN, grouped ? h->memory_group : h->memory_available, "");
	if (v->have != KV_UNKNOWN)
		snprintf(v->text, sizeof(v->text), "needs %s, %s %s", amount_text(v, v->need, (char[NUMBER_TEXT]){0}),
			 amount_text(v, v->have, group), grouped ? "left in the cgroup" : "available");
	if (v->status == TE_FAIL && c->need->memory_soon_bytes && c->need->memory_soon_bytes <= v->have) {
		v->status = TE_WARN;
		snprintf(v->text + strlen(v->text), sizeof(v->text) - strlen(v->text),
			 "; %s of it at once, the rest as it is used",
			 amount_text(v, c->need->memory_soon_bytes, soon));
	}
	if (v->status >= TE_WARN)
		remedy(v, grouped ? "raise the memory limit of the container (docker: --memory; Kubernetes: "
				    "resources.limits.memory; systemd: MemoryMax=), or use smaller --buffer-mb, "
				    "--memory-mb"
				  : "use smaller --buffer-mb, --memory-mb or fewer clients, or free memory");
}

static uint64_t huge_free(const struct kv_host *h)
{
	return h->huge[0].free * h->huge[0].page_bytes + h->huge[1].free * h->huge[1].page_bytes;
}

static void check_hugepages(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	char a[NUMBER_TEXT], b[NUMBER_TEXT], d[NUMBER_TEXT];
	uint64_t total = h->huge[0].total * h->huge[0].page_bytes + h->huge[1].total * h->huge[1].page_bytes;
	v->need = c->need->huge_bytes;
	v->have = huge_free(h);
	v->status = v->have >= v->need ? TE_OK : c->pins_memory ? TE_WARN : TE_INFO;
	snprintf(v->text, sizeof(v->text), "%s wanted, %s free of %s%s", kv_size_format(v->need, a, sizeof(a)),
		 kv_size_format(v->have, b, sizeof(b)), kv_size_format(total, d, sizeof(d)),
		 v->status == TE_OK ? "" : "; the rest lies in ordinary pages");
	if (v->status == TE_WARN)
		snprintf(v->remedy, sizeof(v->remedy),
			 "`sysctl -w vm.nr_hugepages=%" PRIu64
			 "` (2 MiB each; keep it in /etc/sysctl.d/90-kvrail.conf)%s: "
			 "registration is faster, and the NIC needs 512 times fewer page table entries",
			 h->huge[1].total + ((v->need - v->have) >> 21) + 1,
			 h->container == KV_CONTAINER_KUBERNETES
				 ? " on the node, and ask for hugepages-2Mi in the pod's resources"
			 : h->container ? " on the host"
					: "");
}

/* A guard page splits a mapping, so each coroutine that ever ran at once has two; newer kernels guard without (6.13).
 */
static void check_maps(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->host->maps_max == KV_UNKNOWN || c->need->mappings == 0) {
		v->status = TE_SKIP;
		return;
	}
	compare(v, c->need->mappings, KV_UNKNOWN, c->host->maps_max, "");
	if (v->status == TE_FAIL) {
		v->status = TE_WARN;
		snprintf(v->remedy, sizeof(v->remedy),
			 "`sysctl -w vm.max_map_count=%" PRIu64 "` (keep it in /etc/sysctl.d/90-kvrail.conf)",
			 KV_MAX(c->need->mappings * 2, (uint64_t)65530));
	}
}

static void check_shm(const struct te_checkup *c, struct te_verdict *v)
{
	if (!c->shared_memory) {
		v->status = TE_SKIP;
		return;
	}
	compare(v, c->need->shm_bytes + c->need->shm_free_bytes, KV_UNKNOWN, c->host->shm_free, "");
	if (v->status != TE_FAIL)
		return;
	/* What others have there, and ours, in whole GiB. */
	uint64_t others =
		is_number(c->host->shm_total) ? c->host->shm_total - KV_MIN(c->host->shm_total, c->host->shm_free) : 0;
	unsigned long long gib = (others + v->need + ((uint64_t)1 << 30) - 1) >> 30;
	switch (c->host->container) {
	case KV_CONTAINER_KUBERNETES:
		snprintf(v->remedy, sizeof(v->remedy),
			 "mount an emptyDir with medium: Memory and sizeLimit: %lluGi at /dev/shm", gib);
		return;
	case KV_CONTAINER_NONE:
		snprintf(v->remedy, sizeof(v->remedy),
			 "`mount -o remount,size=%lluG /dev/shm`, and remove what killed processes left there", gib);
		return;
	default:
		snprintf(v->remedy, sizeof(v->remedy), "start the container with --shm-size=%llug (or --ipc=host)",
			 gib);
	}
}

static void ptrace_remedy(const struct te_checkup *c, struct te_verdict *v)
{
	if (c->host->container)
		remedy(v, "start the container with --cap-add SYS_PTRACE (Kubernetes: capabilities: add: "
			  "[\"SYS_PTRACE\"]), "
			  "client and server in one process namespace and as one user");
	else
		remedy(v, "`sysctl -w kernel.yama.ptrace_scope=0` (keep it in /etc/sysctl.d/90-kvrail.conf), or use "
			  "--provider "
			  "tcp");
}

static void check_ptrace(const struct te_checkup *c, struct te_verdict *v)
{
	int scope = c->host->ptrace_scope;
	if (!c->shared_memory) {
		v->status = TE_SKIP;
		return;
	}
	if (c->cma_error > 0) {
		v->status = TE_WARN;
		snprintf(
			v->text, sizeof(v->text),
			"a process may not read another's memory (process_vm_readv: %s%s): shm copies everything twice",
			kv_strerror(-c->cma_error), scope > 0 ? ", Yama ptrace_scope is set" : "");
		ptrace_remedy(c, v);
	} else if (c->cma_error < 0 && scope > 0) {
		v->status = TE_WARN;
		snprintf(
			v->text, sizeof(v->text),
			"Yama ptrace_scope is %d: a process may not read another's memory, shm copies everything twice",
			scope);
		ptrace_remedy(c, v);
	} else {
		v->status = TE_OK;
		snprintf(v->text, sizeof(v->text), "processes of one user may read each other's memory%s",
			 c->cma_error == 0 ? " (tried)" : "");
	}
	v->have = scope < 0 ? 0 : (uint64_t)scope;
}

static void uring_refused(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	char limit[NUMBER_TEXT];
	int len = (int)strcspn(c->uring, ";"); /* what stands behind it is said better here */
	if (c->uring_code == -KV_ENOMEM) {
		snprintf(v->text, sizeof(v->text),
			 "no memory for the rings: they count as locked memory of this user, %s allowed",
			 is_number(h->memlock_soft) ? kv_size_format(h->memlock_soft, limit, sizeof(limit))
						    : count_text(h->memlock_soft, limit));
		remedy(v, where_memlock(h));
	} else if (strstr(c->uring, "files open") || strstr(c->uring, "more files")) {
		snprintf(v->text, sizeof(v->text), "refused: %.*s", len, c->uring);
		remedy(v, c->uring[len] ? c->uring + len + 2 : "");
	} else if (h->seccomp > 0 && c->uring_code != -KV_ENOTSUP) {
		snprintf(v->text, sizeof(v->text), "refused: a seccomp filter is on (%.*s)", len, c->uring);
		remedy(v, h->container == KV_CONTAINER_KUBERNETES
				  ? "allow io_uring_setup, io_uring_enter and io_uring_register in the pod's "
				    "seccompProfile "
				    "(Localhost), or set it to Unconfined"
				  : "allow io_uring_setup, io_uring_enter and io_uring_register: docker run "
				    "--security-opt "
				    "seccomp=PROFILE.json (or seccomp=unconfined); systemd: SystemCallFilter=@aio");
	} else {
		snprintf(v->text, sizeof(v->text), "refused: %.*s", len, c->uring);
		remedy(v, "a kernel of 5.11 or later with CONFIG_IO_URING is needed (Amazon Linux 2023, Debian 12, "
			  "Ubuntu 22.04)");
	}
}

static void check_uring(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	bool refused = c->uring && c->uring[0],
	     forbidden = h->uring_disabled == 2 || (h->uring_disabled == 1 && !h->administers);
	v->have = h->uring_disabled < 0 ? 0 : (uint64_t)h->uring_disabled;
	if (!refused && (c->uring || !forbidden)) {
		v->status = TE_OK;
		snprintf(v->text, sizeof(v->text), "%s",
			 c->uring ? "the rings were made" : "not forbidden by a sysctl");
		return;
	}
	v->status = TE_FAIL;
	if (!forbidden) {
		uring_refused(c, v);
		return;
	}
	snprintf(v->text, sizeof(v->text), "forbidden: kernel.io_uring_disabled is %d", h->uring_disabled);
	remedy(v,
	       "`sysctl -w kernel.io_uring_disabled=0` (keep it in /etc/sysctl.d/90-kvrail.conf), or set it to 1 and "
	       "kernel.io_uring_group to a group of this user");
}

static void check_cpus(const struct te_checkup *c, struct te_verdict *v)
{
	const struct kv_host *h = c->host;
	uint64_t have = KV_MIN((uint64_t)h->cpus, h->cpus_group);
	if (have == 0 || c->need->threads == 0)
		return;
	v->need = c->need->threads;
	v->have = have;
	v->status = have >= v->need ? TE_OK : TE_WARN;
	/* The control loop and the main threads rest nearly always. */
	snprintf(v->text, sizeof(v->text), "%" PRIu64 " threads that work, %" PRIu64 " CPU%s%s", v->need, have,
		 have == 1 ? "" : "s", h->cpus_group < h->cpus ? " (the cgroup's quota)" : "");
	if (v->status == TE_WARN)
		remedy(v, h->cpus_group < h->cpus
				  ? "raise the CPU quota (docker: --cpus; Kubernetes: resources.limits.cpu), or "
				    "use fewer --num-threads, --server-threads"
				  : "use fewer --num-threads, --server-threads: threads that share a CPU wait for each "
				    "other");
}

/* ---- the table ---- */

static const struct {
	const char *id, *name, *unit;
	unsigned scope; /* enum te_check_scope */
	void (*run)(const struct te_checkup *c, struct te_verdict *v);
} table[] = {
	{"link", "link", "", TE_CHECK_DEVICE, check_link},
	{"endpoints", "endpoints", "", TE_CHECK_DEVICE, check_endpoints},
	{"qps", "queue pairs", "", TE_CHECK_DEVICE, check_qps},
	{"cqs", "completion queues", "", TE_CHECK_DEVICE, check_cqs},
	{"cq_entries", "CQ entries", "", TE_CHECK_DEVICE, check_cq_entries},
	{"mrs", "memory regions", "", TE_CHECK_DEVICE, check_mrs},
	{"mr_bytes", "size of a region", "bytes", TE_CHECK_DEVICE, check_mr_bytes},
	{"pages", "page table entries", "", TE_CHECK_DEVICE, check_pages},
	{"memlock", "locked memory", "bytes", TE_CHECK_PROCESS, check_memlock},
	{"files", "open files", "", TE_CHECK_PROCESS, check_files},
	{"threads", "threads", "", TE_CHECK_PROCESS, check_threads},
	{"address_space", "address space", "bytes", TE_CHECK_PROCESS, check_address_space},
	{"memory", "memory", "bytes", TE_CHECK_HOST, check_memory},
	{"hugepages", "huge pages", "bytes", TE_CHECK_HOST, check_hugepages},
	{"maps", "mappings", "", TE_CHECK_HOST, check_maps},
	{"shm", "/dev/shm", "bytes", TE_CHECK_PROCESS | TE_CHECK_HOST, check_shm},
	{"ptrace", "ptrace (shm)", "", TE_CHECK_HOST, check_ptrace},
	{"io_uring", "io_uring", "", TE_CHECK_HOST, check_uring},
	{"cpus", "CPUs", "", TE_CHECK_HOST, check_cpus},
};

_Static_assert(sizeof(table) / sizeof(table[0]) <= TE_CHECKS_MAX, "who calls te_check makes room for so many");

unsigned te_check(const struct te_checkup *c, unsigned scopes, struct te_verdict *out, unsigned max)
{
	unsigned n = 0;
	for (size_t i = 0; i < KV_COUNT(table) && n < max; i++) {
		if (!(table[i].scope & scopes) || !c->need ||
		    (table[i].scope == TE_CHECK_DEVICE ? !c->limits : !c->host))
			continue;
		struct te_verdict *v = &out[n];
		*v = (struct te_verdict){.id = table[i].id,
					 .name = table[i].name,
					 .unit = table[i].unit,
					 .need = KV_UNKNOWN,
					 .have = KV_UNKNOWN};
		table[i].run(c, v);
		n += v->status != TE_SKIP;
	}
	return n;
}

int te_verdict_fail(const struct te_verdict *v, const char *subject, struct kv_error *err)
{
	return kv_fail(err, -KV_ELIMIT, "%s: %s: %s%s%s", subject, v->name, v->text, v->remedy[0] ? "; " : "",
		       v->remedy);
}
