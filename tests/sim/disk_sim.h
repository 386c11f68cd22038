/* SPDX-License-Identifier: Apache-2.0 */
/* disk_sim.h -- a device of a tier (store/tier/device.h) in memory, under virtual time: transfers take a random time,
 * overtake each other, end short, fail, or stay away for seconds. A crash leaves of each write under way some bytes. */
#ifndef KVRAIL_TESTS_SIM_DISK_SIM_H
#define KVRAIL_TESTS_SIM_DISK_SIM_H

#include "store/store.h"

enum { DISK_SIM_IOS_MAX = 256 };

struct disk_sim_options {
	uint64_t delay_min_ns, delay_max_ns;     /* of a transfer, uniform */
	unsigned short_ppm, fail_ppm, stall_ppm; /* of transfers: end short, fail with EIO, take stall_ns */
	unsigned damage_ppm;                     /* of writes: one bit is stored wrong */
	uint64_t stall_ns;
};

struct disk_sim {
	struct tier_device device; /* first */
	struct disk_sim_options options;
	struct kv_prng *prng;
	uint8_t *bytes; /* the medium; it outlives a crash */
	struct {
		struct tier_io *io; /* NULL: free */
		uint64_t due_ns;
	} under_way[DISK_SIM_IOS_MAX];
	uint64_t now_ns;
	uint64_t reads, writes; /* submitted */
	uint64_t crash_at;      /* `writes` that raises `crashed`; 0: none */
	bool crashed;           /* transfers do not end any more */
	uint64_t failed, damaged;
};

/* disk_sim_open -- a device of zeros. disk_sim_close -- no transfer is under way, or it has crashed. */
void disk_sim_open(struct disk_sim *d, uint64_t bytes, struct kv_prng *prng, const struct disk_sim_options *options);
void disk_sim_close(struct disk_sim *d);

/* disk_sim_run -- the time is now_ns: end the transfers that are due, in any order. Returns how many. disk_sim_next --
 * when the next one is due, or KV_NEVER. */
unsigned disk_sim_run(struct disk_sim *d, uint64_t now_ns);
uint64_t disk_sim_next(const struct disk_sim *d);

/* disk_sim_crash -- the process is killed: of each write under way nothing, all, or its front up to any byte is on the
 * medium, and the process does not learn of its end. disk_sim_drop -- for the memory of that process: its transfers
 * end, after tier_stop. disk_sim_again -- the next process has the device. */
void disk_sim_crash(struct disk_sim *d);
void disk_sim_drop(struct disk_sim *d);
void disk_sim_again(struct disk_sim *d);

#endif
