/* SPDX-License-Identifier: Apache-2.0 */
/* preflight.h -- is there enough of everything: what engines need, what a machine and its devices allow, and a verdict
 * with a remedy for each. Part of engine.h.
 *
 * Two users: te_open and te_preflight, which refuse with the first verdict that fails instead of letting a provider say
 * "Cannot allocate memory", and kv-doctor, which prints all of them. The checks are plain functions of numbers, so that
 * a test, or a copy of another machine's /proc and /sys, is as good an input as this machine. */
#ifndef KVRAIL_ENGINE_PREFLIGHT_H
#define KVRAIL_ENGINE_PREFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "host/host.h"

/* What something takes: one endpoint, an engine, or a whole process. Sums of others; of cq_entries and the like the
 * largest. */
struct te_need {
	uint64_t endpoints, qps, cqs, mrs; /* of a device */
	uint64_t cq_entries;               /* of the largest completion queue */
	uint64_t cq_entries_per_peer;      /* verbs: of which each peer takes so many; else 0 */
	uint64_t depth;                    /* of the deepest send queue */
	uint64_t registered_bytes;         /* registered by us on the device: regions and messages */
	uint64_t pages;                    /* that they are made of: entries of the device's page tables */
	uint64_t part_bytes;               /* the largest registration */
	uint64_t pinned_bytes;             /* locked by this process: registered, and the provider's own buffers */
	uint64_t memory_bytes;             /* memory of the machine, all together */
	uint64_t memory_soon_bytes; /* of it, what is touched soon after the start; the rest as it is used. 0: all */
	uint64_t address_bytes;     /* address space of a process */
	uint64_t huge_bytes;        /* of memory, what would lie in hugetlb pages if there were enough */
	uint64_t files, threads, shm_bytes;
	uint64_t shm_free_bytes; /* of /dev/shm, that must be free besides: libfabric looks before it opens an endpoint
				  */
	uint64_t mappings;       /* of memory, of a process; 0: not counted */
};

/* te_need_add -- add b to *a: sums, and the larger of cq_entries, depth and part_bytes. */
void te_need_add(struct te_need *a, const struct te_need *b);

/* What one device allows and has in use on this machine. KV_UNKNOWN: nobody told, or it has no such limit. */
struct te_limits {
	char device[KV_NAME_MAX],
		provider[KV_NAME_MAX];      /* libfabric's domain; short name: "efa", "verbs", "tcp", "shm" */
	bool pins_memory;                   /* registered memory is pinned, by a NIC */
	bool shared_memory;                 /* shm: /dev/shm and process_vm_readv */
	uint64_t endpoints, endpoints_used; /* used: by this process */
	uint64_t qps, qps_used, cqs, cqs_used, mrs, mrs_used; /* used: by the whole machine */
	uint64_t cq_entries, depth, mr_bytes;
	uint64_t pages; /* page table entries; nobody tells, so it is what users of that kind of NIC have reported */
	int link;       /* 1 a port is up, 0 none is, -1 unknown */
};
void te_limits_unknown(struct te_limits *limits); /* all fields to "unknown" */

enum te_status {
	TE_SKIP, /* does not apply here */
	TE_OK,
	TE_INFO, /* cannot be told, or good to know: nothing to do */
	TE_WARN, /* runs, but not as well as it could, or not for long */
	TE_FAIL  /* does not run */
};

struct te_verdict {
	const char *id, *name; /* "memlock", "locked memory": ids never change */
	const char *unit;      /* "" or "bytes" */
	enum te_status status;
	uint64_t need, have; /* KV_UNKNOWN, KV_NO_LIMIT */
	char text[240];      /* what was found: "needs 300 MiB, 8 MiB allowed" */
	char remedy[400];    /* empty: nothing to do */
};

/* What a check looks at. A pointer that is NULL: checks that want it do not apply. */
struct te_checkup {
	const struct kv_host *host;
	const struct te_limits *limits;
	const struct te_need *need;
	bool pins_memory, shared_memory; /* of the provider, for checks of a process, that have no device */
	const char *uring;               /* why a ring could not be made; "": it could; NULL: not tried */
	int uring_code;                  /* of that: -KV_ENOMEM is memory, or locked memory */
	int cma_error;                   /* errno of reading another process's memory; 0: it worked; -1: not tried */
};

enum te_check_scope {
	TE_CHECK_DEVICE = 1,  /* limits against need, of one device */
	TE_CHECK_PROCESS = 2, /* host against need, of one process: files, locked memory, threads */
	TE_CHECK_HOST = 4     /* host against need, of all processes: memory, huge pages, io_uring, ... */
};

enum {
	TE_CHECKS_MAX = 32,
	TE_FILES_MARGIN = 16 /* descriptors that the check of open files wants beyond the need */
};

/* te_check -- run the checks of these scopes. Returns how many verdicts were written to out, TE_SKIP left out. Thread:
 * any; no I/O. */
unsigned te_check(const struct te_checkup *checkup, unsigned scopes, struct te_verdict *out, unsigned max);

/* te_verdict_fail -- *err as the sentence of a verdict, "SUBJECT: name: text; remedy". Returns -KV_ELIMIT. */
int te_verdict_fail(const struct te_verdict *verdict, const char *subject, struct kv_error *err);

#endif
