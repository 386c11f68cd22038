/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_sim.h -- a fabric in memory, behind the same door as libfabric (engine/fabric/fabric.h), under a simulated
 * world's time.
 *
 * It is meaner than any real one: nothing is ordered, sources are read late, data lands in pieces, immediates and
 * completions come whenever, posting says -EAGAIN in bursts, and what is on its way lands although its sender is gone.
 * What it does keep is the contract of fabric.h: after fab_rebuild or fab_close nothing touches that endpoint's memory
 * (or from when fab_retiring is false), after fab_cut nothing of that peer's. And it watches whether its users keep
 * theirs: what an operation was given (bytes, context, region) is left alone until its event.
 */
#ifndef KVRAIL_TESTS_SIM_FABRIC_SIM_H
#define KVRAIL_TESTS_SIM_FABRIC_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fab;
struct fab_ctx;
struct sim_world;

struct sim_fabric_options {
	uint64_t delay_min_ns, delay_max_ns; /* of every hop; 0, 0: 1 us to 50 us */
	unsigned eagain_percent;             /* of postings begin a burst of refusals */
	unsigned fail_ppm; /* operations in a million fail: a write lands in part, a message is lost */
	unsigned dup_ppm;  /* messages in a million arrive twice: no real fabric does it, and nothing may come of it */
	unsigned slow_percent; /* writes of a hundred take up to ten times as long to land as others */
	bool virt;             /* regions are addressed by virtual address, else by offset */
	bool wait_fd;          /* completion queues have a descriptor */
	bool ordered;    /* a message arrives behind writes that were posted to the same endpoint since the last poll or
			    refusal, or not at all */
	bool peer_fence; /* one peer can be fenced alone (fab_cut), as on tcp behind a doorkeeper */
	uint32_t tx_depth, rx_depth, cq_depth; /* 0: 64, 256, 1024 */
	uint32_t devices;                      /* 0: 4 */
	uint64_t close_max_ns; /* closing an endpoint takes up to so long: it is given up, and written to meanwhile. 0:
				  no time */
};

struct sim_fabric_stats {
	uint64_t messages, writes, reads, immediates, dropped, bad_keys, eagain, rebuilds, failures;
	uint64_t late;                          /* pieces that landed although their sender was gone */
	uint64_t duplicates;                    /* messages that were sent twice */
	uint64_t mr_failures, landing_failures; /* landing_failures: of a server's landing areas */
	uint64_t slow_closes;                   /* endpoints that were given up, and closed later */
	uint64_t cuts;                          /* of one address by one endpoint */
	uint64_t overruns; /* events beyond the depth of a completion queue: real hardware would have failed */
};

/* sim_fabric_init -- the fabric of this world; every fab_* call of the process goes there until sim_fabric_fini. One at
 * a time. */
void sim_fabric_init(struct sim_world *world, const struct sim_fabric_options *options);

/* sim_fabric_fini -- returns how many endpoints and regions were left open: 0 when everybody cleaned up. The world must
 * not be stepped any more. */
unsigned sim_fabric_fini(void);

void sim_fabric_stats(struct sim_fabric_stats *out);

/* What a test wants to hear of. wrong: a user broke the contract. landing: these bytes are about to be written by a
 * peer to memory of endpoint `id`; imm is the immediate, or what `mark` said of a write without one, or NULL. mark:
 * whom a write without immediate is for, asked when it is posted; false: not known. Each may be NULL. */
struct sim_fabric_watch {
	void (*wrong)(void *arg, const char *text);
	void (*landing)(void *arg, uint64_t id, const uint8_t *at, size_t len, const uint32_t *imm);
	bool (*mark)(const struct fab_ctx *ctx, uint32_t *out_imm);
	void *arg;
};

void sim_fabric_watch(const struct sim_fabric_watch *watch);

/* sim_fabric_options -- of this fabric: a test may change percentages and delays at any time. */
struct sim_fabric_options *sim_fabric_options(void);

/* ---- trouble. Endpoints are numbered from 1 as they are opened ---- */

/* sim_fabric_last -- the number of the endpoint that was opened last; 0: none. */
uint64_t sim_fabric_last(void);

/* sim_fabric_id -- the number of an endpoint. */
uint64_t sim_fabric_id(const struct fab *fab);

/* sim_fabric_crash -- the endpoint vanishes without a word, as its process being killed: it hears and does nothing any
 * more. What it has sent off arrives all the same. */
void sim_fabric_crash(uint64_t id);

/* sim_fabric_break -- the endpoint fails, its owner is told, and it does nothing until it is rebuilt. */
void sim_fabric_break(uint64_t id);

/* sim_fabric_strand -- its machine loses the address of the endpoint: it cannot connect, and nothing reaches it, until
 * it is rebuilt. homeless: there is no other address, and rebuilding fails. sim_fabric_home -- there is one now. */
void sim_fabric_strand(uint64_t id, bool homeless);
void sim_fabric_home(uint64_t id);

/* sim_fabric_unplug -- nothing leaves or reaches the endpoint until it is plugged in again; then all of it does. */
void sim_fabric_unplug(uint64_t id, bool unplugged);

/* sim_fabric_rebuild_fails -- so many of the next fab_rebuild calls of the endpoint fail. */
void sim_fabric_rebuild_fails(uint64_t id, unsigned times);

/* sim_fabric_depths -- what queues the endpoint gets when it is rebuilt: the provider has less memory for them, or more
 * again. */
void sim_fabric_depths(uint64_t id, uint32_t tx, uint32_t rx, uint32_t cq);

/* sim_fabric_mr_fails -- after so many registrations, one fails, of any endpoint. */
void sim_fabric_mr_fails(unsigned after);

#endif
