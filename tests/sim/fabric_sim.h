/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_sim.h -- a fabric in memory, behind the same door as libfabric (engine/fabric.h), under a simulated world's time.
 *
 * It is meaner than any real one: nothing is ordered, sources are read late, data lands in pieces, immediates and completions come whenever,
 * posting says -EAGAIN in bursts. What it does keep is the contract of fabric.h: after fab_rebuild or fab_close nothing of the old endpoint touches memory. */
#ifndef KVRAIL_TESTS_SIM_FABRIC_SIM_H
#define KVRAIL_TESTS_SIM_FABRIC_SIM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_world;

struct sim_fabric_options {
	uint64_t delay_min_ns, delay_max_ns; /* of every hop; 0, 0: 1 us to 50 us */
	unsigned eagain_percent;             /* of postings refused */
	bool virt;                           /* regions are addressed by virtual address, else by offset */
	uint32_t tx_depth, rx_depth, cq_depth; /* 0: 64, 256, 1024 */
	uint32_t devices;                    /* 0: 4 */
};

struct sim_fabric_stats {
	uint64_t messages, writes, reads, immediates, dropped, bad_keys, eagain, rebuilds;
};

/* sim_fabric_init -- the fabric of this world; every fab_* call of the process goes there until sim_fabric_fini. One at a time. */
void sim_fabric_init(struct sim_world *world, const struct sim_fabric_options *options);

/* sim_fabric_fini -- returns how many endpoints and regions were left open: 0 when everybody cleaned up. */
unsigned sim_fabric_fini(void);

void sim_fabric_stats(struct sim_fabric_stats *out);

/* sim_fabric_crash -- the endpoint with this name vanishes without a word, as its process being killed: it hears and does nothing any more. */
void sim_fabric_crash(const void *name, uint64_t len);

#endif
