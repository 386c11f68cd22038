/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h -- the engine that its files share, and its bounds. Private to engine/; knows nothing of libfabric.
 *
 * Who calls whom, from top to bottom: await, engine, fence, cut, pump and notify, peer, msg and xfer, link, region,
 * rail, addr, fabric*. Each has a header of its own. What comes up does so by struct rail_events (rail.h) and struct
 * te_watch (below). Unless a header says otherwise its functions are called on the thread of the engine's loop, and
 * none parks. Callbacks of the owner run only from te_notify, rail_poll and te_close, where no list is being walked. */
#ifndef KVRAIL_ENGINE_INSIDE_H
#define KVRAIL_ENGINE_INSIDE_H

#include "engine/engine.h"
#include "engine/fabric.h"
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

struct rail;
struct msg;

_Static_assert((int)TE_DOOR_REQUIRE == (int)FAB_DOOR_REQUIRE && (int)TE_DOOR_OFF == (int)FAB_DOOR_OFF,
	       "the same, in two layers");

/* What the engine tells whoever waits for it (await.c): at the end of each te_poll, when a buffer may be free and
 * nothing be under way any more; and when the descriptors to wait for have changed. Neither calls the engine. */
struct te_watch {
	void (*turned)(struct te_watch *w);
	void (*refd)(struct te_watch *w);
};

struct te {
	struct rail *rails;
	unsigned nrails;
	int numa_node;
	int node_error; /* -errno: memory cannot be asked for from there */
	bool near;      /* what is ours is on that node: it was asked for, and there are several */
	uint64_t part_bytes;
	struct te_handlers handlers;
	void *arg;
	const struct kv_clock *clock;
	const struct kv_log *log;
	uint32_t chunk_bytes, link_ops, receives;
	uint64_t link_bytes;
	bool peers_heal;
	bool push_imm_only, read_unsafe, reads_refused, polling, closing;
	bool in_message;          /* te_handlers.message runs, or what stands between te_order_begin and te_order_end */
	bool can_order;           /* every rail keeps a message behind the writes before it */
	struct kv_list following; /* links that wait for their message behind ordered writes, until te_handlers.follow
				     has run */
	char why[512];

	struct kv_area msg_area;
	uint64_t msg_bytes;
	struct msg *msgs;
	uint32_t nmsgs;
	struct kv_list msgs_free;
	bool starved; /* te_msg_acquire returned NULL; room is due */

	struct kv_list peers, regions;
	struct kv_list pending; /* regions that are being registered */
	struct kv_list waiting; /* peers with something queued */
	struct kv_list stalled; /* links that got EAGAIN */
	uint64_t stalled_since; /* when the list became non-empty */
	struct kv_list notify_xfers, notify_msgs;
	uint32_t live; /* transfers started and messages sent, not ended */
	uint32_t queued;
	uint64_t next_sweep; /* no queued deadline passes before it */

	/* fence.c */
	uint32_t generation;       /* of the endpoints */
	uint8_t map[KV_RAILS_MAX]; /* the rail that stands for each: itself, or while it is down one that is not */
	bool exposed;              /* somebody may know the present endpoints */
	bool ended_due, reset_due, down;
	bool fencing; /* an endpoint that is given up is not closed yet: what is in limbo may touch memory */
	int reset_status;
	uint32_t fence_tokens;
	uint64_t fence_refilled, quiet_until;

	uint64_t msg_exhausted, timeouts, canceled, fences, cuts, rebuild_failures;
	struct te_watch *watch; /* NULL: nobody waits */
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
