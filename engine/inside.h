/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h -- the bodies of the engine's structs and what its files offer each other. Private to engine/; knows nothing
 * of libfabric.
 *
 * Who calls whom: engine.c turns; rail.c hands events to msg.c and xfer.c; link.c decides what is posted next and asks
 * msg.c and xfer.c to post it; fence.c ends everything posted. Callbacks of the owner run only from te_notify,
 * rail_poll and te_close, where no list is being walked. */
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
	TE_ADDR_BUCKETS = 256,
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

enum op_kind { OP_FREE, OP_SEND, OP_WRITE, OP_READ, OP_RECV };
enum op_state { OP_IDLE, OP_POSTED, OP_LIMBO /* its endpoint is given up and not closed yet */, OP_ENDED };
enum post { POST_DONE, POST_NO_CREDIT, POST_STALLED, POST_FAILED, POST_NOTHING };
enum link_state { LINK_IDLE, LINK_READY, LINK_STALLED };

/* bits of te_xfer.priv.state */
enum {
	XFER_LIVE = 1,    /* started, done has not run */
	XFER_QUEUED = 2,  /* in a link's or peer's queue */
	XFER_FINAL = 4,   /* no more chunks will be posted */
	XFER_TOLD = 8,    /* posting_done ran, or will not run */
	XFER_NOTIFY = 16, /* in te.notify_xfers */
	XFER_CANCELED = 32
};

struct rail;
struct link;

/* An address of a peer on one rail. Shared by peers with the same address, referenced by links and by operations in
 * flight. */
struct addr {
	struct kv_list node; /* in rail.addrs, while its handle is good */
	struct rail *rail;
	uint64_t handle;
	uint32_t refs, generation;
	bool broke; /* an operation to it failed with its connection, and none has succeeded since */
	bool lost;  /* ... and the provider will not make another */
	bool used;  /* a link to it was in use: somebody has proved to be there */
	bool cut;   /* fenced: to be let in again by whoever gets it (addr_get) */
	uint8_t len, blob[KV_ADDR_MAX];
};

/* One operation. From the rail's pool: the provider may write to ctx until the event came or the endpoint was closed.
 */
struct op {
	struct fab_ctx ctx; /* first */
	struct op *next;    /* free list */
	struct link *link;
	struct addr *addr;
	union {
		struct te_xfer *xfer;
		struct msg *msg;
		uint8_t *buf; /* OP_RECV */
	} of;
	uint32_t len, chunk;
	int status; /* of OP_ENDED */
	uint8_t kind, state;
	bool after_break; /* posted while addr->broke */
	bool in_handler;  /* OP_RECV: the owner reads the buffer now */
	bool left;        /* it was in limbo: its credit was given back then */
};

/* What a rail hands up; filled once, when it is opened. sent, moved -- an OP_SEND, or an OP_WRITE or OP_READ, has ended
 * with this status: once for each that was posted, from rail_poll and rail_dispatch_ended. The operation is a copy: it
 * is free already, so that its owner may start the next one, and the reference to its address is given back. The owner
 * may do anything but close the engine. follow -- the handler of a message returned, and links are in te.following. */
struct rail_events {
	void (*sent)(struct op *op, int status);
	void (*moved)(struct op *op, int status);
	void (*follow)(struct te *te);
};

struct rail {
	struct te *te;
	const struct rail_events *events;
	unsigned index;
	int numa_node;            /* of its NIC; -1: unknown */
	char device[KV_NAME_MAX]; /* its domain, and its address where that is what tells devices apart */
	struct fab *fab;
	struct fab_mr *msg_mr; /* the engine's message memory */
	struct op *ops;        /* tx_limit of them for each set */
	struct op *free;
	uint32_t sets; /* 2 where endpoints are closed slowly: one for that which is given up; else 1 */
	uint32_t tx_limit, credits, reserve;
	uint32_t withheld, half; /* credits that an endpoint rebuilt with smaller queues has no room for; those, and
				    half of the others */
	struct op *recvs;        /* the set that is in use: nrecvs of all_recvs */
	struct op *all_recvs;
	bool recvs_left[2];    /* the set is of an endpoint that is given up, and may be written to */
	struct op *recvs_idle; /* could not be posted; tried again by the next poll */
	uint32_t nrecvs, recv_failures;
	struct kv_list ready; /* links that may post */
	struct kv_list addrs[TE_ADDR_BUCKETS];
	uint32_t naddrs;  /* in the provider's address vector */
	uint32_t stamp;   /* changes whenever a connection may have been replaced: at every poll, when a posting is
			     refused, and with an address */
	bool dead;        /* rebuild it at the next safe point: it failed */
	bool broke;       /* the same, because of a connection that broke: no failure of the rail's own */
	uint64_t heal_at; /* when to look whether anybody needs a connection that broke; 0: none did */
	bool down;        /* closed: a rebuild failed, or it failed too often */
	bool waits;       /* down until the endpoints that are given up are closed, and it was tried again */
	bool fresh;       /* was just opened again: the reset that tells everybody need not do it once more */
	uint64_t trial_ns, retry_at,
		backoff_ns; /* fence.c: when it was rebuilt because it had failed; while down: when it is tried again */
	struct te_stats stats;
};

struct link {
	struct te_peer *peer;
	struct rail *rail;
	struct addr *addr; /* NULL: void after a reset */
	uint16_t index, remote;
	uint8_t sched; /* enum link_state: which list node is in */
	bool own_turn; /* serve the pinned queue next, not the peer's */
	bool use;      /* it serves the peer's at all */
	struct kv_list node, msgs, xfers;
	struct op *follow; /* ordered writes were posted, and no message behind them yet: this is kept for it.
			      rail.stamp was: */
	uint32_t stamp;
	struct kv_list follow_node; /* te.following, meanwhile */
	uint32_t sends;             /* messages in flight */
	uint32_t ops;               /* transfers' operations in flight, and their bytes: the window */
	uint64_t bytes;
};

struct te_peer {
	struct te *te;
	struct kv_list node;    /* te.peers */
	struct kv_list waiting; /* te.waiting, while something is queued */
	struct kv_list xfers;   /* queued, for any link */
	uint32_t queued, inflight, refs;
	bool closed, is_void;
	bool strayed; /* it had other addresses since it was void: they are not known any more, and no cut finds them */
	uint16_t nlinks, nused, remote_rails, next_link;
	struct link links[];
};

struct te_region {
	struct te *te;
	struct kv_list node;
	uint8_t *base;
	uint64_t len, part_bytes;
	uint32_t parts, users;
	unsigned access; /* enum fab_access */
	bool virt;
	struct fab_mr **mrs;       /* [rail * parts + part] */
	uint32_t rail_at, part_at; /* until it is ready: what te_region_step registers next */
	size_t close_at;           /* in mrs: all before it are closed */
	bool undo;                 /* all of them are to be closed; then it fails with this, or with 0 begins anew: */
	int failed;
	struct kv_error why;
	bool doubted;     /* the next part was refused once already */
	unsigned threads; /* that took part in registering it */
	uint64_t ns;      /* how long that took; until it is ready, when it began */
	bool ready;       /* in te.regions, else in te.pending */
};

struct msg {
	struct te_msg pub;
	struct kv_list node; /* a link's queue, te.notify_msgs, or te.msgs_free */
	struct link *link;
	uint64_t deadline_ns;
	int status;
};

_Static_assert((int)TE_DOOR_REQUIRE == (int)FAB_DOOR_REQUIRE && (int)TE_DOOR_OFF == (int)FAB_DOOR_OFF,
	       "the same, in two layers");

/* What the engine tells whoever waits for it (await.c): at the end of each te_poll, when a buffer may be free and
 * nothing be under way any more; and when the descriptors to wait for have changed. Not to be called back from there.
 */
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

/* ---- rail.c ---- */
int rail_open(struct te *te, unsigned index, const struct fab_device *device, const struct te_options *options,
	      const struct rail_events *events, struct kv_error *err);
int rail_start(struct rail *r, struct kv_error *err); /* register the message memory, post receives */
void rail_stop(struct rail *r);                       /* close the fabric: nothing touches memory any more */
void rail_free(struct rail *r);
int rail_poll(struct rail *r);
void rail_depth_take(
	struct rail *r); /* how many operations may be posted: after a rebuild, which may get smaller queues */
uint32_t rail_receives(const struct rail *r); /* how many may be posted: the same */
void rail_receives_post(struct rail *r);      /* all of them: after a rebuild */
/* rail_end_posted -- the endpoint is closed or given up: every posted operation becomes OP_ENDED, or OP_LIMBO where
 * closing may take long: so many. rail_limbo_end -- what is in limbo becomes OP_ENDED: all that was given up is closed.
 */
uint32_t rail_end_posted(struct rail *r, int status);
void rail_limbo_end(struct rail *r, int status);
bool rail_dispatch_ended(struct rail *r); /* ... and is handed to its owner. Whether there was one. */
/* An operation from the pool; NULL without credit. Transfers leave the reserve to messages. */
struct op *rail_op_get(struct rail *r, enum op_kind kind);
void rail_op_put(struct rail *r, struct op *op); /* it was not used */
/* Judge what posting to this address returned: the operation has a reference to it now, or is put back. */
enum post rail_op_posted(struct rail *r, struct op *op, struct addr *a, int rc);
bool te_waiting(const struct te *te); /* while it is down: not because of a failure, but for what was given up to be
					 closed, and its turn after that */

/* ---- addr.c ---- */
int addr_get(struct rail *r, const struct te_address *a, struct addr **out); /* 0 or a code; adds a reference */
void addr_put(struct addr *a);
/* An operation failed with its connection. certain: not merely flushed. */
void addr_broken(const struct op *op, bool certain);
void addrs_heal(struct rail *r); /* heal_at has come */
void addrs_void(struct rail *r); /* the address vector was rebuilt: no handle is good any more */

/* ---- link.c ---- */
void link_init(struct link *l, struct te_peer *peer, unsigned index, struct rail *rail, unsigned remote);
bool link_room(const struct link *l);       /* the window has room for another chunk */
bool link_direct(const struct link *l);     /* nothing waits here: a new chunk may be posted at once */
bool link_direct_msg(const struct link *l); /* the same for a message, which chunks do not keep waiting */
bool link_has_work(const struct link *l);
void link_activate(struct link *l);
void link_activate_first(struct link *l); /* a message waits: to the head of the line */
void link_stall(struct link *l);
struct op *link_follow_take(struct link *l); /* what is kept for behind its ordered writes; NULL: nothing, or it cannot
						go behind them any more */
void link_rest(struct link *l);              /* out of every scheduling list */
bool link_msg_room(const struct link *l);    /* it may post another message: the bound of link_room */
bool link_msg_due(const struct link *l);     /* ... and has one: then it stands at the head of its line, since whoever
						lacks a transfer's credit ends the serving of it */
/* Judge what posting over this link returned: as rail_op_posted, and the operation holds the peer until its end. */
static inline enum post link_posted(struct link *l, struct op *op, int rc)
{
	enum post p = rail_op_posted(l->rail, op, l->addr, rc);
	if (p == POST_DONE) {
		op->link = l;
		l->peer->inflight++;
		l->peer->refs++;
	}
	return p;
}
static inline void peer_hold(struct te_peer *peer)
{
	peer->refs++;
}
void peer_release(struct te_peer *peer);
void peer_queued(struct te_peer *peer, uint64_t deadline_ns); /* account for one more, one fewer queued */
void peer_unqueued(struct te_peer *peer);

/* ---- region.c ---- */
/* Register on a rail that is to come back what is registered on the others, until some time, one part at least. 0: it
 * has all; 1: it lacks some still; or a code with *err. */
int regions_complete(struct rail *r, uint64_t until, struct kv_error *err);

/* ---- peer.c ---- */
void peer_void(struct te_peer *peer);
void peer_fail_queued(struct te_peer *peer, int status); /* all that is queued */

/* ---- msg.c ---- */
int msgs_init(struct te *te, uint32_t count, uint8_t *memory);
enum post msg_post(struct link *l, struct msg *m);
void msg_op_done(struct op *op, int status);
void msg_fail_queued(struct msg *m, int status);
bool msgs_notify(struct te *te);

/* ---- xfer.c ---- */
enum post xfer_post(struct link *l, struct te_xfer *x);
bool xfer_blocked(const struct te_xfer *x); /* a read whose window is full */
void xfer_op_done(struct op *op, int status);
void xfer_fail_queued(struct te_xfer *x, int status);
void xfer_unqueue(struct te_xfer *x);
void xfer_finalize(struct te_xfer *x); /* nothing more will be posted: tell its owner from te_notify */
bool xfers_notify(struct te *te);

/* ---- pump.c ---- */
void te_pump(struct te *te);  /* post what waits, as credits and windows allow */
void te_sweep(struct te *te); /* expire queued deadlines */

/* ---- cut.c ---- */
bool cut_able(const struct te *te); /* whether every rail's provider can fence one peer alone */
/* Fence one peer alone. True: it is fenced, and void. False: it cannot be; nothing that matters has changed. */
bool peer_cut(struct te_peer *peer);

/* ---- fence.c ---- */
int te_reset(struct te *te, struct kv_error *err);
void te_reset_turn(struct te *te); /* once per te_poll: rebuild what died or is due, tell the owner */

/* ---- notify.c ---- */
void te_follow(struct te *te); /* let the owner send what goes behind its ordered writes */
bool te_notify(struct te *te); /* run the callbacks that are due. Whether there were any. */

/* ---- env.c ---- */
/* rxm's queues of each connection, and the connections of an endpoint. fixed: the user chose it. */
struct te_rxm {
	uint64_t rx, tx, peers;
	bool rx_fixed, tx_fixed, peers_fixed;
};
/* te_rxm_fit -- make (rx + tx) * peers at most entries_max, as far as what is fixed allows. */
void te_rxm_fit(struct te_rxm *r, uint64_t entries_max);

/* ---- signals.c ---- */
struct te_signals {
	struct {
		void *handler;
		uint8_t action[256]; /* struct sigaction, opaque here */
	} saved[8];
};
void te_signals_evict(void); /* remove the handlers that psm libraries put in when they were loaded */
void te_signals_save(struct te_signals *s);
void te_signals_restore(const struct te_signals *s);

/* ---- engine.c ---- */

/* te_devices_find -- fab_devices, alone in the process and with its signal dispositions kept. For fab_devices_free. */
int te_devices_find(const struct te_options *options, struct fab_device *devices, unsigned *out_count, char *why,
		    struct kv_error *err);

#endif
