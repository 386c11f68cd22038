/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h -- struct te, which holds the rooms of the engine's files, and the engine's bounds. Private to engine/;
 * knows nothing of libfabric.
 *
 * Who calls whom, from top to bottom: await, engine, fence, cut, pump and notify, peer, msg and xfer, link, region,
 * rail, addr, fabric*. Each has a header of its own. What comes up does so by struct rail_events (rail.h) and struct
 * te_watch (below). Unless a header says otherwise its functions are called on the thread of the engine's loop, and
 * none parks. Callbacks of the owner run only from te_notify, rail_poll and te_close, where no list is being walked. */
#ifndef KVRAIL_ENGINE_INSIDE_H
#define KVRAIL_ENGINE_INSIDE_H

#include "engine/engine.h"
#include "engine/fabric.h"
#include "engine/fence.h"
#include "engine/link.h"
#include "engine/msg.h"
#include "engine/notify.h"
#include "engine/region.h"
#include "host/host.h"

enum {
	TE_MESSAGES_DEFAULT = 256,
	TE_RECEIVES_DEFAULT = 256,
	TE_LINK_OPS_DEFAULT = 4,
	TE_LINK_SENDS = 2, /* messages in flight per link that are always allowed */
	TE_LINK_BYTES_DEFAULT = 1 << 20,
	TE_POLL_BATCH = 32,       /* events read at once */
	TE_POLL_ROUNDS = 4,       /* batches of one rail in one te_poll */
	TE_STALLED_PER_POLL = 64, /* links retried after EAGAIN in one te_poll: bounds its time */
	TE_READ_WINDOW = 64,      /* chunks of one read that may be unfinished beyond the first: bits of priv.window */
	TE_RESERVE_SHIFT = 3,     /* 1/8 of a rail's credits are for messages only */
	TE_FENCE_BURST = 4
};

#define TE_FENCE_REFILL_NS 250000000ull /* one more fence per this time, after a burst */
#define TE_REBUILD_MIN_NS  100000000ull /* back-off of a rebuild that failed, doubled up to ... */
#define TE_REBUILD_MAX_NS  5000000000ull
#define TE_RAIL_TRIAL_NS   10000000000ull /* a rail that fails again so soon after it was rebuilt stays out for ... */
#define TE_RAIL_OUT_MIN_NS 1000000000ull  /* ... this time, while others work, and twice as long the next time */
#define TE_RAIL_OUT_MAX_NS 60000000000ull
#define TE_HEAL_NS         1000000000ull /* until a connection that broke for good costs all the endpoint */
#define TE_STEP_NS         2000000ull    /* of a turn, for registering and closing memory */
#define TE_SWEEP_MIN_NS    1000000ull    /* deadlines are looked at no more often than this */
#define TE_STALL_SPIN_NS                                                                                               \
	5000000ull /* a stalled link keeps the loop awake this long; then it is retried as often as the loop turns */

_Static_assert((int)TE_DOOR_REQUIRE == (int)FAB_DOOR_REQUIRE && (int)TE_DOOR_OFF == (int)FAB_DOOR_OFF,
	       "the same, in two layers");

/* What the engine tells await.c, or another file that waits for it: turned -- at the end of each te_poll, when a buffer
 * may be free and nothing be under way any more. refd -- the descriptors to wait for have changed. Neither calls the
 * engine. */
struct te_watch {
	void (*turned)(struct te_watch *w);
	void (*refd)(struct te_watch *w);
};

/* Where the engine is: its memory, and the provider's, is asked for from this NUMA node. */
struct te_place {
	int node;
	int error; /* -errno: memory cannot be asked for from there */
	bool near; /* it is asked for from there: the owner wants that, and there are several nodes */
};

/* What the owner's options and the providers of all rails allow; fixed when the engine is open. */
struct te_rules {
	uint32_t chunk_bytes, receives;
	uint32_t link_ops; /* operations that a link may always have in flight, and bytes while credits are plenty */
	uint64_t link_bytes;
	uint64_t part_bytes;                            /* of regions; 0: part_default decides */
	bool peers_heal;                                /* a connection that broke for good is the peers' concern */
	bool nic_named;                                 /* te_options.nic */
	bool push_imm_only, read_unsafe, reads_refused; /* as fab_caps and te_info */
	bool can_order;                                 /* every rail keeps a message behind the writes before it */
};

/* The engine holds the rooms of its files. A room's struct says which files beside its own change it. */
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
	uint32_t live;         /* transfers started and messages sent, not ended */
	struct kv_list peers;
	struct msgs msgs;
	struct backlog backlog;
	struct order order;
	struct ended ended;
	struct te_regions regions;
	struct fence fence;
	struct te_stats stats;  /* what is counted for no single rail; rail.stats has the rest */
	struct te_watch *watch; /* NULL: no file waits */
};

static inline uint64_t te_now(const struct te *te)
{
	return kv_clock_now(te->clock);
}

/* ---- engine.c ---- */

/* te_devices_find -- fab_devices, alone in the process and with its signal dispositions kept. For fab_devices_free. */
int te_devices_find(const struct te_options *options, struct fab_device *devices, unsigned *out_count, char *why,
		    struct kv_error *err);

#endif
