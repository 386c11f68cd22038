/* SPDX-License-Identifier: Apache-2.0 */
/* pass_sim.h -- the Unix sockets of a simulated world: a second implementation of local/pass.c.
 *
 * The processes of a world live in one, so descriptors are duplicated, and channels and areas are real shared memory. A
 * connection is one of ring_sim's: it breaks when the process of either end is killed (sim_loop_crash), and what was on
 * its way is closed. Trouble of the network does not reach it: no port is its own that a test could name. */
#ifndef KVRAIL_TESTS_SIM_PASS_SIM_H
#define KVRAIL_TESTS_SIM_PASS_SIM_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct sim_world;

struct sim_pass_options {
	unsigned refuse_percent; /* of connections */
	unsigned slow_percent;   /* of connections and passings take up to a second */
	unsigned break_percent;  /* of passings end the connection */
	/* Whether the process of this loop is on another host; NULL: none is. */
	bool (*remote)(void *arg, const struct loop *loop);
	void *arg;
};

/* sim_pass_init -- the processes of this world are on one host. Without it no server can listen. sim_pass_fini -- close
 * what is still on its way. */
void sim_pass_init(struct sim_world *world, const struct sim_pass_options *options);
void sim_pass_fini(void);

/* sim_pass_options -- a test may change them at any time. */
struct sim_pass_options *sim_pass_options(void);

/* sim_pass_crash -- the process of this loop is killed: its Unix sockets break, and the kernel closes what was passed
 * to or from it, as far as the other side can see. */
void sim_pass_crash(const struct loop *loop);

struct sim_pass_stats {
	uint64_t connects, refused, given, taken, broken;
};
void sim_pass_stats(struct sim_pass_stats *out);

#endif
