/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h -- struct te, with the data of each file, and the engine's bounds. Private to engine/; libfabric-free.
 *
 * Calls go down: attach, engine, fence, cut, pump and notify, peer, msg and xfer, local, link, region, rail, addr,
 * fabric/.
 * The one call up is te_watch (below). Unless a header says otherwise, functions run on the thread of the engine's
 * loop, and none parks. Callbacks of the owner run only from te_notify, te_reap and te_close, where no list is being
 * walked.
 */
#ifndef KVRAIL_ENGINE_INSIDE_H
#define KVRAIL_ENGINE_INSIDE_H

#include "engine/engine.h"
#include "engine/fabric/fabric.h"
#include "engine/fence.h"
#include "engine/link.h"
#include "engine/local_peers.h"
#include "engine/msg.h"
#include "engine/notify.h"
#include "engine/region.h"
#include "host/host.h"

enum {
	TE_MESSAGES_DEFAULT = 256,
	TE_RECEIVES_DEFAULT = 256,
	TE_LINK_OPS_DEFAULT = 4,
	TE_LINK_SENDS = 2, /* messages always allowed in flight per link */
	TE_LINK_BYTES_DEFAULT = 1 << 20,
	TE_POLL_BATCH = 32,       /* events read at once */
	TE_POLL_ROUNDS = 4,       /* batches of one rail in one te_poll */
	TE_STALLED_PER_POLL = 64, /* links retried after EAGAIN in one te_poll: bounds its time */
	TE_READ_WINDOW = 64,      /* unfinished chunks of one read beyond the first: bits of priv.window */
	TE_LOCAL_FRAMES = 32,     /* frames of one local peer in one te_poll */
	TE_FABRIC_QUIET = 200,    /* looks in a row that found no event: the fabric is quiet, ... */
	TE_FABRIC_TURNS = 4,      /* and one of so many turns looks there, ... */
	TE_LOCAL_IDLE = 64,       /* unless for so many turns no local peer has sent a frame either */
	TE_RESERVE_SHIFT = 3,     /* 1/8 of a rail's credits is for messages only */
	TE_FENCE_BURST = 4
};

#define TE_FENCE_REFILL_NS 250000000ull /* one more fence per this time, after a burst */
#define TE_REBUILD_MIN_NS  100000000ull /* back-off of a failed rebuild, doubled up to ... */
#define TE_REBUILD_MAX_NS  5000000000ull
#define TE_RAIL_TRIAL_NS   10000000000ull /* a rail that fails again within this time of its rebuild stays out ... */
#define TE_RAIL_OUT_MIN_NS 1000000000ull  /* ... for this time while others work, doubled each time */
#define TE_RAIL_OUT_MAX_NS 60000000000ull
#define TE_HEAL_NS         1000000000ull /* until a broken connection causes a rebuild of the endpoint */
#define TE_STEP_NS         2000000ull    /* time per turn for registering and closing memory */
#define TE_SWEEP_MIN_NS    1000000ull    /* minimum interval between checks of deadlines */
#define TE_STALL_SPIN_NS   5000000ull    /* a stalled link keeps the loop awake this long */

_Static_assert((int)TE_DOOR_REQUIRE == (int)FAB_DOOR_REQUIRE && (int)TE_DOOR_OFF == (int)FAB_DOOR_OFF,
	       "the same, in two layers");

/* The loop that waits for the engine. refd -- the descriptors to wait for have changed; it does not call the engine. */
struct te_watch {
	void (*refd)(struct te_watch *w);
};

/* The NUMA node for the memory of engine and provider. */
struct te_place {
	int node;
	int error;
	bool near; /* memory is requested on that node: te_options.near, and the machine has several */
};

/* The owner's options combined with the limits of all rails' providers; fixed when the engine is open. */
struct te_rules {
	uint32_t chunk_bytes, receives;
	uint32_t link_ops; /* operations always allowed in flight per link; and bytes while credits are plenty */
	uint64_t link_bytes;
	uint64_t part_bytes;
	bool peers_heal;                                /* peers repair broken connections */
	bool nic_named;                                 /* te_options.nic */
	bool push_imm_only, read_unsafe, reads_refused; /* as fab_caps and te_info */
	bool can_order;                                 /* every rail keeps a message behind the writes before it */
};

/* The engine. Each file's struct names the other files that change it. */
struct te {
	struct rail *rails;
	unsigned nrails;
	struct te_handlers handlers;
	void *arg;
	const struct kv_clock *clock;
	const struct kv_log *log;
	struct te_place place;
	struct te_rules rules;
	char why[512];         /* why this provider */
	bool polling, closing; /* te_poll, te_close is on the stack */
	uint32_t live;
	struct kv_list peers;
	struct msgs msgs;
	struct backlog backlog;
	struct locals locals;
	struct order order;
	struct ended ended;
	struct te_regions regions;
	struct fence fence;
	struct te_stats stats;  /* counters of no single rail; rail.stats has the rest */
	struct te_watch *watch; /* NULL: not attached */
};

static inline uint64_t te_now(const struct te *te)
{
	return kv_clock_now(te->clock);
}

/* ---- engine.c ---- */

/* te_devices_find -- fab_devices under the process's lock, with signal dispositions kept. For fab_devices_free. */
int te_devices_find(const struct te_options *options, struct fab_device *devices, unsigned *out_count, char *why,
		    struct kv_error *err);

#endif
