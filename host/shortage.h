/* SPDX-License-Identifier: Apache-2.0 */
/* shortage.h -- the table of limits: need, limit, and a verdict with the way out.
 *
 * te_open and te_preflight (engine/budget.h) refuse with the first failed verdict, kv-doctor prints all, kv-bench
 * capacity asks which limit ended its last step. Checks are functions of numbers alone. */
#ifndef KVRAIL_HOST_SHORTAGE_H
#define KVRAIL_HOST_SHORTAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "host/limits.h"

struct kv_need {
	uint64_t endpoints, qps, cqs, mrs; /* of a device */
	uint64_t cq_entries;               /* of the largest completion queue */
	uint64_t cq_entries_per_peer;      /* verbs: each peer's part; else 0 */
	uint64_t registered_bytes;         /* by us: regions and messages */
	uint64_t pages;                    /* of registered memory: page table entries of the device */
	uint64_t part_bytes;               /* the largest registration */
	uint64_t pinned_bytes;             /* locked: registered_bytes and the provider's buffers */
	uint64_t memory_bytes;             /* memory of the machine */
	uint64_t memory_soon_bytes;        /* of it, touched soon after the start; 0: all */
	uint64_t address_bytes;            /* of the process's address space */
	uint64_t huge_bytes;               /* of memory_bytes, preferably in hugetlb pages */
	uint64_t files, threads, shm_bytes;
	uint64_t shm_free_bytes; /* free in /dev/shm as well: libfabric checks it before an endpoint opens */
	uint64_t mappings;       /* of a process; 0: not counted */
};

/* kv_need_add -- add b to *a: of some fields the larger, of all others the sum. */
void kv_need_add(struct kv_need *a, const struct kv_need *b);

/* A device's limits, and use. KV_UNKNOWN: not reported, or no limit. */
struct kv_device_limits {
	char device[KV_NAME_MAX],
		provider[KV_NAME_MAX];      /* libfabric's domain; short name: "efa", "verbs", "tcp", "shm" */
	bool pins_memory;                   /* a NIC pins registered memory */
	bool shared_memory;                 /* shm: /dev/shm and process_vm_readv */
	uint64_t endpoints, endpoints_used; /* used: by this process */
	uint64_t qps, qps_used, cqs, cqs_used, mrs, mrs_used; /* used: by all processes */
	uint64_t cq_entries, mr_bytes;
	uint64_t pages; /* page table entries, as users of such NICs report; no device does */
	int link;       /* 1: a port is up; 0: none; -1: unknown */
};
void kv_device_limits_unknown(struct kv_device_limits *limits); /* all fields to "unknown" */

enum kv_status {
	KV_SKIP, /* does not apply here */
	KV_OK,
	KV_INFO, /* unknown, or for information */
	KV_WARN, /* works badly, or not for long */
	KV_FAIL  /* does not work */
};

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
	KV_LIMITS /* count; as an answer: none */
};

struct kv_verdict {
	enum kv_limit limit;
	const char *id, *name; /* "memlock", "locked memory": ids never change */
	const char *unit;      /* "" or "bytes" */
	enum kv_status status;
	uint64_t need, have; /* KV_UNKNOWN, KV_NO_LIMIT */
	char text[240];      /* "needs 300 MiB, 8 MiB allowed" */
	char remedy[400];    /* "": nothing to do */
};

/* Input of the checks. A check with a NULL pointer is skipped. */
struct kv_checkup {
	const struct kv_host *host;
	const struct kv_device_limits *limits;
	const struct kv_need *need;
	bool pins_memory, shared_memory; /* of the provider, for checks without a device */
	const char *uring;               /* why io_uring is not available; "": it is; NULL: not tried */
	int uring_code;                  /* its code: -KV_ENOMEM is memory, or locked memory */
	bool loops_fail;                 /* epoll is not available either */
	int cma_error;                   /* errno of reading another process's memory; 0: works; -1: not tried */
};

enum kv_check_scope {
	KV_CHECK_DEVICE = 1,  /* limits and need of one device */
	KV_CHECK_PROCESS = 2, /* host and need of one process: files, locked memory, threads */
	KV_CHECK_HOST = 4     /* host and need of all processes: memory, huge pages, io_uring, ... */
};

enum {
	KV_CHECKS_MAX = KV_LIMITS, /* of one kv_check */
	KV_FILES_MARGIN = 16       /* descriptors beyond the need */
};

/* kv_check -- run these scopes' checks. Writes at most max verdicts, without KV_SKIP. Returns how many. Thread: any; no
 * I/O. */
unsigned kv_check(const struct kv_checkup *checkup, unsigned scopes, struct kv_verdict *out, unsigned max);

/* kv_check_one -- check one limit. Returns its status; KV_SKIP: not applicable. out may be NULL. */
enum kv_status kv_check_one(const struct kv_checkup *checkup, enum kv_limit limit, struct kv_verdict *out);

/* kv_verdict_fail -- *err becomes "SUBJECT: name: text; remedy". Returns -KV_ELIMIT. */
int kv_verdict_fail(const struct kv_verdict *verdict, const char *subject, struct kv_error *err);

/* kv_verdict_short -- "name is short: text; remedy", behind a provider's error. */
void kv_verdict_short(const struct kv_verdict *verdict, char *buf, size_t cap);

/* kv_limit_said -- the limit that such a sentence in this text blames; KV_LIMITS: none. */
enum kv_limit kv_limit_said(const char *text);

#endif
