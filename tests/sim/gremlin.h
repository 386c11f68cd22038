/* SPDX-License-Identifier: Apache-2.0 */
/* gremlin.h -- what breaks a simulated world: connections, endpoints, single operations, whole servers and clients; at
 * random, from a seed, until a time.
 *
 * Trouble of the network and the fabric happens inside the world's events. What turns the world itself (a server is
 * restarted, memory is registered) is only asked for there (gremlin_due) and done by whoever runs the world
 * (gremlin_act). */
#ifndef KVRAIL_TESTS_SIM_GREMLIN_H
#define KVRAIL_TESTS_SIM_GREMLIN_H

#include "tests/sim/model.h"

enum trouble {
	TCP_RESET,
	TCP_CUT,
	SERVER_FREEZE,
	SHARD_FREEZE,
	SERVER_UNPLUG,
	CLIENT_UNPLUG,
	SERVER_BREAK,
	CLIENT_BREAK,
	REBUILD_FAILS,
	OPS_FAIL,
	SLOW,
	SERVER_RESTART, /* killed, or without power, and another one in its place after a while */
	TCP_SLOW,
	EAGAIN_BURSTS,
	DUPLICATES,
	REGISTER,  /* memory is registered, which may fail, or unregistered */
	POOL_ENDS, /* the second pool is killed, or closed under its calls */
	TROUBLES
};

enum { GREMLIN_MEMS = 4, GREMLIN_MEM_BYTES = 64 << 10 };

struct gremlin {
	struct world *w;
	struct kv_prng prng;
	unsigned kinds; /* bit mask of enum trouble */
	unsigned due;   /* the same: asked for */
	uint64_t until_ns;
	struct sim_fabric_options rest; /* of the fabric, without trouble */
	struct sim_net net_rest;
	unsigned server[WORLD_SERVERS]; /* those that are alive */
	struct gremlin_mem {
		struct kvc_mem *mem;
		uint8_t *base;
		unsigned pool;
	} mem[GREMLIN_MEMS];
	uint64_t done[TROUBLES];
};

const char *gremlin_name(enum trouble t);

/* gremlin_init -- for a world that is open. gremlin_start -- it begins. */
void gremlin_init(struct gremlin *g, struct world *w, uint64_t seed, unsigned kinds, uint64_t until_ns);
void gremlin_start(struct gremlin *g);

/* gremlin_act -- do what is due. Not from inside the world. */
void gremlin_act(struct gremlin *g, struct model *m);

/* gremlin_relent -- everything that lasts is over. gremlin_end -- also, unregister its memory: with pools that work
 * again. */
void gremlin_relent(struct gremlin *g);
void gremlin_end(struct gremlin *g);

/* gremlin_free -- memory that was registered with a pool that is gone: after world_close. */
void gremlin_free(struct gremlin *g);

#endif
