/* SPDX-License-Identifier: Apache-2.0 */
/* footprint.h -- the memory needs of a kv-server. kv-server refuses a start by this sum; kv-doctor and kv-bench report
 * it before. */
#ifndef KVRAIL_HOST_FOOTPRINT_H
#define KVRAIL_HOST_FOOTPRINT_H

#include <stdint.h>

#include "base/base.h"

/* The parts, in bytes. */
struct kv_footprint {
	uint64_t values_bytes;  /* --memory-mb; may be in huge pages */
	uint64_t values_max;    /* --max-values; 0: none */
	uint64_t engines_bytes; /* endpoints, messages, the process: te_budget_beside */
	uint64_t landing_bytes; /* --landing-mb; 0: none */
	uint64_t tier_bytes;    /* all --tier together; 0: none */
	unsigned tier_drives;   /* --tier times --worker-threads */
	unsigned clients;       /* expected; KV_FOOTPRINT_CLIENTS count at most */
	uint64_t others_bytes;  /* of processes about to start */
};

enum {
	KV_FOOTPRINT_CLIENTS = 32,               /* others may never come */
	KV_FOOTPRINT_CLIENT_BYTES = 128 << 10,   /* with libfabric's connection */
	KV_FOOTPRINT_VALUE_BYTES = 640,          /* of keys and index per value */
	KV_FOOTPRINT_VALUE_MEAN = 16 << 10,      /* without --max-values: mean value length */
	KV_FOOTPRINT_TIER_VALUE_BYTES = 40,      /* of index per value on a tier */
	KV_FOOTPRINT_TIER_DRIVE_BYTES = 9 << 20, /* buffers of a device and shard */
	KV_FOOTPRINT_LANDING_LEAST = 4 << 20,    /* least default of --landing-mb where memory is short */
	KV_FOOTPRINT_RESERVE_LEAST = 16 << 20,   /* for the kernel's connection buffers, and all else */
	KV_FOOTPRINT_RESERVE_SHARE = 20          /* at least this part */
};

/* kv_footprint_need -- the sum, with keys, index and reserve. kv_footprint_values -- the default of --max-values: one
 * per KiB of values_bytes, or fewer if the machine below root ("": this one) is short. kv_footprint_landing -- the
 * default landing area: `wanted`, or less where memory is short. Thread: any. */
uint64_t kv_footprint_need(const struct kv_footprint *r);
uint64_t kv_footprint_values(const char *root, const struct kv_footprint *r);
uint64_t kv_footprint_landing(const char *root, uint64_t wanted);

/* kv_footprint_tier -- the part for tiers. */
uint64_t kv_footprint_tier(const struct kv_footprint *r);

/* kv_footprint_fits -- 0, or -KV_ENOMEM with the sum and its parts, the short limit, and the largest --memory-mb that
 * fits.
 */
int kv_footprint_fits(const char *root, const struct kv_footprint *r, struct kv_error *err);

/* kv_footprint_others -- the same for a process without values: `bytes` for `what`, and a reserve. way_out: how to need
 * less. */
int kv_footprint_others(const char *root, uint64_t bytes, const char *what, const char *way_out, struct kv_error *err);

#endif
