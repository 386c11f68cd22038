/* SPDX-License-Identifier: Apache-2.0 */
/* shortage.h -- the table of limits: for each, what a run takes, what is allowed, and a verdict with the way out.
 *
 * Three programs read it. Before an endpoint opens, te_open and te_preflight (engine/budget.h) refuse with the first
 * verdict that fails, because a provider would only say "Cannot allocate memory". kv-doctor prints all verdicts.
 * kv-bench capacity asks which limit ended its last step. A check is a plain function of numbers, so that a test can
 * invent them, and a copy of another machine's /proc and /sys is as good an input as this machine. */
#ifndef KVRAIL_HOST_SHORTAGE_H
#define KVRAIL_HOST_SHORTAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "host/limits.h"

/* What something takes: an endpoint, an engine, or a whole process. */
struct kv_need {
	uint64_t endpoints, qps, cqs, mrs; /* of a device */
	uint64_t cq_entries;               /* of the largest completion queue */
	uint64_t cq_entries_per_peer;      /* verbs: that each peer takes of them; else 0 */
	uint64_t registered_bytes;         /* that we register on the device: regions and messages */
	uint64_t pages;                    /* of registered memory: entries of the device's page tables */
	uint64_t part_bytes;               /* the largest registration */
	uint64_t pinned_bytes;             /* locked by this process: registered_bytes and the provider's own buffers */
	uint64_t memory_bytes;             /* memory of the machine */
	uint64_t memory_soon_bytes;        /* of it, what is touched soon after the start; 0: all */
	uint64_t address_bytes;            /* address space of a process */
	uint64_t huge_bytes;               /* of memory_bytes, what would lie in hugetlb pages if there were enough */
	uint64_t files, threads, shm_bytes;
	uint64_t shm_free_bytes; /* that must be free in /dev/shm besides: libfabric looks before it opens an endpoint
				  */
	uint64_t mappings;       /* of a process's memory; 0: not counted */
};

/* kv_need_add -- add b to *a. Of cq_entries, cq_entries_per_peer, part_bytes and shm_free_bytes the larger one
 * counts, of all others the sum. */
void kv_need_add(struct kv_need *a, const struct kv_need *b);

/* What one device allows, and what of it is in use. KV_UNKNOWN: nothing tells, or the device has no such limit. */
struct kv_device_limits {
	char device[KV_NAME_MAX],
		provider[KV_NAME_MAX];      /* libfabric's domain; short name: "efa", "verbs", "tcp", "shm" */
	bool pins_memory;                   /* registered memory is pinned, by a NIC */
	bool shared_memory;                 /* shm: /dev/shm and process_vm_readv */
	uint64_t endpoints, endpoints_used; /* used: by this process */
	uint64_t qps, qps_used, cqs, cqs_used, mrs, mrs_used; /* used: by the whole machine */
	uint64_t cq_entries, mr_bytes;
	uint64_t pages; /* page table entries; no device tells, so this is what users of such NICs have reported */
	int link;       /* 1 a port is up, 0 none is, -1 unknown */
};
void kv_device_limits_unknown(struct kv_device_limits *limits); /* all fields to "unknown" */

enum kv_status {
	KV_SKIP, /* does not apply here */
	KV_OK,
	KV_INFO, /* cannot be told, or good to know: nothing to do */
	KV_WARN, /* runs, but not as well as it could, or not for long */
	KV_FAIL  /* does not run */
};

/* The rows of the table: first those of a device, then of a process, then of the machine. */
enum kv_limit {
	KV_LIMIT_LINK,
	KV_LIMIT_ENDPOINTS,
	KV_LIMIT_QPS,
	KV_LIMIT_CQS,
	KV_LIMIT_CQ_ENTRIES,
	KV_LIMIT_MRS,
	KV_LIMIT_MR_BYTES,
	KV_LIMIT_PAGES,
	KV_LIMIT_MEMLOCK,
	KV_LIMIT_FILES,
	KV_LIMIT_THREADS,
	KV_LIMIT_ADDRESS_SPACE,
	KV_LIMIT_MEMORY,
	KV_LIMIT_HUGEPAGES,
	KV_LIMIT_MAPS,
	KV_LIMIT_SHM,
	KV_LIMIT_PTRACE,
	KV_LIMIT_URING,
	KV_LIMIT_CPUS,
	KV_LIMITS /* their number; as an answer: none of them */
};

struct kv_verdict {
	enum kv_limit limit;
	const char *id, *name; /* "memlock", "locked memory": ids never change */
	const char *unit;      /* "" or "bytes" */
	enum kv_status status;
	uint64_t need, have; /* KV_UNKNOWN, KV_NO_LIMIT */
	char text[240];      /* what was found: "needs 300 MiB, 8 MiB allowed" */
	char remedy[400];    /* empty: nothing to do */
};

/* What the checks look at. A check that wants a pointer which is NULL does not apply. */
struct kv_checkup {
	const struct kv_host *host;
	const struct kv_device_limits *limits;
	const struct kv_need *need;
	bool pins_memory, shared_memory; /* of the provider, for checks that have no device */
	const char *uring;               /* why a loop could not be made on io_uring; "": it could; NULL: not tried */
	int uring_code;                  /* of that: -KV_ENOMEM is memory, or locked memory */
	bool loops_fail;                 /* nor could it be made on epoll */
	int cma_error;                   /* errno of reading another process's memory; 0: it worked; -1: not tried */
};

enum kv_check_scope {
	KV_CHECK_DEVICE = 1,  /* limits against need, of one device */
	KV_CHECK_PROCESS = 2, /* host against need, of one process: files, locked memory, threads */
	KV_CHECK_HOST = 4     /* host against need, of all processes: memory, huge pages, io_uring, ... */
};

enum {
	KV_CHECKS_MAX = KV_LIMITS, /* verdicts of one kv_check */
	KV_FILES_MARGIN = 16       /* descriptors that the check of open files wants beyond the need */
};

/* kv_check -- run the checks of these scopes. Writes at most max verdicts to out, none of them KV_SKIP. Returns how
 * many. Thread: any; no I/O. */
unsigned kv_check(const struct kv_checkup *checkup, unsigned scopes, struct kv_verdict *out, unsigned max);

/* kv_check_one -- run the check of one limit. Returns its status, KV_SKIP where it does not apply. out may be NULL. */
enum kv_status kv_check_one(const struct kv_checkup *checkup, enum kv_limit limit, struct kv_verdict *out);

/* kv_verdict_fail -- *err as the sentence of a verdict, "SUBJECT: name: text; remedy". Returns -KV_ELIMIT. */
int kv_verdict_fail(const struct kv_verdict *verdict, const char *subject, struct kv_error *err);

/* kv_verdict_short -- the same in the words that come after a provider's error: "name is short: text; remedy". */
void kv_verdict_short(const struct kv_verdict *verdict, char *buf, size_t cap);

/* kv_limit_said -- the limit that a sentence of kv_verdict_fail or kv_verdict_short blames, wherever it stands in the
 * text; KV_LIMITS: none. An error crosses libraries and processes as text, so this is its way back. */
enum kv_limit kv_limit_said(const char *text);

#endif
