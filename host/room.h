/* SPDX-License-Identifier: Apache-2.0 */
/* room.h -- what a kv-server takes of this machine's memory, and whether there is so much. kv-server refuses a start by
 * it, and kv-doctor and kv-bench tell beforehand with the same sum. */
#ifndef KVRAIL_HOST_ROOM_H
#define KVRAIL_HOST_ROOM_H

#include <stdint.h>

#include "base/base.h"

/* The parts, in bytes. */
struct kv_room {
	uint64_t values_bytes;  /* --memory-mb; may lie in huge pages */
	uint64_t values_max;    /* --max-values; 0: none */
	uint64_t engines_bytes; /* endpoints, messages and the process itself: te_budget_beside */
	uint64_t landing_bytes; /* --landing-mb; 0: none */
	unsigned clients;       /* that may come; so many as KV_ROOM_CLIENTS count */
	uint64_t others_bytes;  /* of other processes that are about to start */
};

enum {
	KV_ROOM_CLIENTS = 32,             /* a start is not refused for clients that may never come */
	KV_ROOM_CLIENT_BYTES = 128 << 10, /* with libfabric's connection */
	KV_ROOM_VALUE_BYTES = 640,        /* of keys and index, for each value */
	KV_ROOM_VALUE_MEAN = 16 << 10,    /* without --max-values: values of at least this length on average */
	KV_ROOM_LANDING_LEAST = 4 << 20,  /* what is left of the default of --landing-mb where memory is short */
	KV_ROOM_RESERVE_LEAST = 16 << 20, /* for the kernel's buffers of connections, and what nobody counts */
	KV_ROOM_RESERVE_SHARE = 20        /* at least one part of so many */
};

/* kv_room_need -- the sum of the parts, with keys and index and a reserve.
 * kv_room_values -- how many values keys and index have memory for, if --max-values does not say: as many as there may
 * be (one for each KiB of values_bytes), or fewer where the machine below root (""; this one) has not so much to spare.
 * kv_room_landing -- the default of the landing area: `wanted`, or less on a machine or in a cgroup with little memory.
 * Thread: any. They read files of the kernel. */
uint64_t kv_room_need(const struct kv_room *r);
uint64_t kv_room_values(const char *root, const struct kv_room *r);
uint64_t kv_room_landing(const char *root, uint64_t wanted);

/* kv_room_fits -- whether the machine has the room. 0 (also where /proc does not tell), or -KV_ENOMEM with a sentence:
 * the sum and its parts, the limit that is short, and the largest --memory-mb with which the answer would be 0. */
int kv_room_fits(const char *root, const struct kv_room *r, struct kv_error *err);

/* kv_room_others -- the same for a process without values: `bytes` for `what`, beside a reserve. way_out: how to ask
 * for less. */
int kv_room_others(const char *root, uint64_t bytes, const char *what, const char *way_out, struct kv_error *err);

#endif
