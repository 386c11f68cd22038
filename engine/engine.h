/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h -- the transfer engine: messages, RMA transfers and regions over one or more rails.
 *
 * Unless a comment says otherwise: one thread, a loop's, makes all calls, and none parks; arguments are read during the
 * call only. Callbacks run inside te_poll and te_close. They may start and cancel operations and close peers, but not
 * the engine. `err` may be NULL. Times are absolute, in nanoseconds of te_options.clock.
 *
 * Words. A rail is a NIC of this engine, a peer another engine. Link k of a peer joins local rail k % local rails and
 * remote rail k % remote rails. A region is local memory registered on every rail, in parts; a remote is a peer's
 * announced region. A transfer moves bytes between them in chunks, one RMA operation each. A peer is void from a reset
 * or a fence until te_peer_readdress: its addresses are invalid. */
#ifndef KVRAIL_ENGINE_ENGINE_H
#define KVRAIL_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"
#include "engine/budget.h"

struct te;
struct te_peer;
struct te_region;
struct te_xfer;
struct local_channel;
struct loop;

/* ---- the engine ---- */

/* The doorkeeper of the tcp providers' ports (door/door.h). */
enum te_door {
	TE_DOOR_AUTO,    /* wherever possible; else a warning */
	TE_DOOR_REQUIRE, /* opening fails without one, also on providers other than tcp */
	TE_DOOR_OFF
};

struct te_options {
	const char *provider; /* see struct fab_query; NULL: "auto" */
	/* Only these NICs, in this order, separated by commas: devices or IP addresses; NULL: any. */
	const char *nic;
	struct sockaddr_storage local; /* source address for IP providers; family 0: any */
	/* 0: all of `nic`, else this engine's share of the NICs on EFA (8 at most), else 1. */
	unsigned rails;
	/* This is engine `engine` of `engines` in its process, which divide the NICs (plan.c). 0, 0: the only one. */
	unsigned engine, engines;
	uint32_t chunk_bytes; /* maximum bytes of one RMA operation; 0: KV_CHUNK_DEFAULT */
	uint32_t messages;    /* send buffers of KV_MSG_MAX bytes; 0: 256 */
	uint32_t receives;    /* receive buffers per rail; 0: 256 */
	uint32_t link_ops;    /* operations always allowed in flight per link; 0: 4 (shm: 16) */
	/* More than link_ops are allowed while fewer bytes than this are in flight; 0: 1 MiB (shm: 4 MiB). */
	uint32_t link_bytes;
	uint32_t tx_depth, cq_depth; /* queue depths of a rail; 0: modest defaults */
	bool peers_heal;             /* verbs, for servers: peers replace broken connections */
	bool reads_at_own_risk;      /* post reads even where te_info.read_unsafe: for tests that break no connection */
	enum te_door door;
	bool near;           /* with several NUMA nodes, engine and provider allocate on the node of the NICs */
	uint64_t part_bytes; /* default of part_bytes; 0: 1 GiB, more for very large regions */
	const struct kv_clock *clock; /* NULL: monotonic */
	const struct kv_log *log;
};

struct te_handlers {
	/* message -- a message arrived. data is the engine's, valid during the call. */
	void (*message)(void *arg, unsigned rail, const uint8_t *data, size_t len);
	/* local -- a frame of a peer on this host came through its channel (te_peer_local): it needs no seal, but the
	 * owner checks that it speaks of this peer. data as of `message`. NULL: there are no such peers. */
	void (*local)(void *arg, struct te_peer *peer, const uint8_t *data, size_t len);
	/* immediate -- a peer's write with immediate data has landed in our memory. */
	void (*immediate)(void *arg, unsigned rail, uint32_t imm);
	/* room -- send buffers are free again after te_msg_acquire had returned NULL. May be NULL. */
	void (*room)(void *arg);
	/* follow -- `message` has returned after ordered writes: send the messages behind them by te_msg_follow. NULL:
	 * the owner starts no ordered write. */
	void (*follow)(void *arg);
	/* reset -- the endpoints were rebuilt: all peers are void, and our addresses have changed. Every operation has
	 * ended with -KV_ERESET; while te_fencing, the posted ones end before `fenced`. status: 0, or the code of a
	 * failed rebuild, which is retried. May be NULL. */
	void (*reset)(void *arg, int status);
	/* fenced -- te_fencing is false again. May be NULL. */
	void (*fenced)(void *arg);
};

/* ---- which NICs ---- */

struct te_nic {
	char name[KV_NAME_MAX];    /* its libfabric domain */
	char address[KV_NAME_MAX]; /* IP providers; else "" */
	int numa_node;             /* -1: unknown, or the machine has one node */
};

struct te_plan {
	char provider[KV_NAME_MAX];
	unsigned nics;
	unsigned rails;
	int numa_node; /* of most rails: loop and memory belong there; -1: unknown */
	struct te_nic rail[KV_RAILS_MAX];
};

/* te_plan -- the choice that te_open would make. Asks libfabric, some ms. Thread: any. Errors: te_open's. */
int te_plan(const struct te_options *options, struct te_plan *out, struct kv_error *err);

/* te_open -- choose devices, check limits, open the rails, post receives.
 *
 * Thread: any; the polling thread then owns the engine.
 * Owner: *out until te_close. handlers are copied; clock and log must outlive the engine.
 * Errors:
 *   -KV_ENOTSUP    no such provider or NIC, or TE_DOOR_REQUIRE is impossible
 *   -KV_ELIMIT     a limit is too low
 *   -KV_EINVAL     more than KV_RAILS_MAX rails
 *   -KV_ENOMEM, -KV_EPROVIDER, or the provider's -errno: -EADDRNOTAVAIL, te_options.local is not of this machine */
int te_open(const struct te_options *options, const struct te_handlers *handlers, void *arg, struct te **out,
	    struct kv_error *err);

/* te_close -- close the endpoints, end every remaining operation with -KV_ECLOSED, and free peers and regions;
 * callbacks may still close those. Not from a callback; after te_detach. *te becomes NULL; NULL is accepted. */
void te_close(struct te **te);

/* te_poll -- reap, run callbacks, post, expire deadlines. Does not wait. Returns the number of events; 0: idle, or
 * called from a callback. */
int te_poll(struct te *te);

/* te_busy -- whether an operation is posted, queued, or not yet reported to its owner. */
bool te_busy(const struct te *te);

struct te_info {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX], libfabric[KV_NAME_MAX];
	char why[512]; /* why this provider */
	unsigned rails;
	bool ip;          /* addresses are IP addresses */
	int numa_node;    /* of most of its NICs; -1: unknown */
	bool near;        /* memory is allocated there (te_options.near, and the machine has several nodes) */
	int node_error;   /* -errno: the kernel refuses placement (containers); first touch decides */
	bool pins_memory; /* registered memory is locked for a NIC */
	bool wait_fd;     /* every CQ has a descriptor to wait for */
	uint32_t eager_bytes, chunk_bytes;
	/* The smallest of any rail. A rebuild may change these and imm_room. */
	uint32_t tx_depth, rx_depth, cq_depth;
	/* Immediates in flight from all peers together that fit any rail's CQ and receives. */
	uint32_t imm_room;
	bool virt_addr, write_emulated, read_emulated;
	bool ordered;          /* te_xfer.ordered may be used */
	bool death_fatal;      /* shm: the death of a peer's process may be fatal here */
	bool death_stalls;     /* shm: operations to a dead peer block all later completions until a fence */
	bool read_unsafe;      /* tcp before libfabric 1.22: a peer that dies while it answers our read crashes us */
	bool reads_refused;    /* read_unsafe, and te_xfer_start refuses TE_READ */
	bool peer_fence;       /* te_peer_fence fences one peer alone; a rebuild may change this */
	uint64_t limbo_max_ns; /* longest time in limbo after a fence (te_fencing); 0: never */
	uint64_t msg_memory_bytes; /* registered message buffers */
	char no_door[160];         /* why the ports have no doorkeeper; "": there is one */
	char congestion[32]; /* congestion control of TCP connections accepted on loopback ("reno"); "": the system's */
};
/* te_info -- copy out the engine's properties. */
void te_info(const struct te *te, struct te_info *out);

struct te_address {
	uint8_t len;
	uint8_t data[KV_ADDR_MAX];
};
/* te_address -- this engine's address on a rail; a reset changes it.
 * Errors:
 *   -KV_EINVAL     no such rail
 *   -KV_EPROVIDER  closed: a rebuild failed
 *   -KV_EBUSY      the fence rate is limited, until te_handlers.reset; or abandoned endpoints are still closing */
int te_address(struct te *te, unsigned rail, struct te_address *out);

struct te_stats {
	uint64_t sends, receives, writes, reads, immediates, bytes_written, bytes_read;
	uint64_t eagain, failed_ops, failed_peer, failed_endpoint, timeouts, canceled;
	uint64_t fences, rebuild_failures, stray_events;
	uint64_t cuts;          /* fences of one peer alone; included in fences */
	uint64_t rail_failures; /* failures of a rail by itself; each causes a reset */
	uint64_t inflight, queued, msg_exhausted;
	uint64_t local_sends, local_receives; /* messages through channels of local peers */
	uint64_t local_lies;                  /* local peers that wrote nonsense to their channels */
	/* Connections to our ports, admitted and refused by reason (docs/reference/counters.md). */
	uint64_t door_let_in, door_strangers, door_claims, door_twice, door_silent, door_full, door_aliens;
};
/* te_stats -- copy out the counters and gauges of all rails together. */
void te_stats(const struct te *te, struct te_stats *out);
/* te_rail_stats -- the per-rail counters of one rail; all others, or without such a rail all, are 0. */
void te_rail_stats(const struct te *te, unsigned rail, struct te_stats *out);
/* te_rail_up -- whether the rail is in use; else another one takes its place. */
bool te_rail_up(const struct te *te, unsigned rail);
int te_rail_numa_node(const struct te *te, unsigned rail); /* -1: unknown */
/* te_rail_device -- its libfabric domain, with the IP address on tcp; "": no such rail. The engine's string. */
const char *te_rail_device(const struct te *te, unsigned rail);

/* te_env_for_programs -- set the environment defaults (docs/internals/providers.md) unless the user set them. Thread:
 * main() of our own programs, before the first te_open. */
void te_env_for_programs(void);
/* te_env_for_many_endpoints -- before that, in a program with hundreds of endpoints: the smallest workable queues. */
void te_env_for_many_endpoints(void);
/* te_env_for_peers -- before it as well: size verbs queues for endpoints with this many peers. */
void te_env_for_peers(unsigned peers);

/* ---- peers ---- */

/* te_peer_open -- insert a peer with the addresses of its `count` rails.
 *
 * Owner: *out until te_peer_close or te_close.
 * Errors:
 *   -KV_EINVAL     count is not 1 to KV_RAILS_MAX
 *   -KV_EPROTO     not an address of this provider
 *   -KV_ELIMIT     the completion queue has room for no more peers (verbs)
 *   -KV_EBUSY, -KV_EPROVIDER  as te_address: the endpoints are closed
 *   -KV_ENOMEM */
int te_peer_open(struct te *te, const struct te_address *addrs, unsigned count, struct te_peer **out,
		 struct kv_error *err);

/* te_peer_readdress -- give a peer new addresses after a reset of either side. Errors: as te_peer_open; -KV_EINVAL:
 * count differs from before. */
int te_peer_readdress(struct te_peer *peer, const struct te_address *addrs, unsigned count, struct kv_error *err);

/* te_peer_close -- close a peer. Queued operations end with -KV_ECLOSED, posted ones by the provider's events. *peer
 * becomes NULL; NULL is accepted. */
void te_peer_close(struct te_peer **peer);

/* te_peer_fence -- make sure that no operation by or to this peer touches our memory after the return of 0.
 *
 * With te_info.peer_fence the peer is cut alone: queued operations end with -KV_ERESET, posted ones soon fail, and the
 * peer is void. Nothing reaches us from it until te_peer_readdress or te_peer_open of its address. Otherwise, or where
 * a cut is not enough (cut.c), all endpoints are rebuilt: te_reset_due is true, every posted operation of every peer
 * ends with -KV_ERESET, and te_handlers.reset runs from the next te_poll. No callback runs inside.
 *
 * Returns
 *   0              memory is safe
 *   1              the provider closes endpoints slowly (EFA): memory is safe when te_handlers.fenced runs
 *   negative       the code of a failed rebuild; the endpoints are closed, so memory is safe as well */
int te_peer_fence(struct te_peer *peer, struct kv_error *err);
/* te_peer_cut -- the same, or -KV_EBUSY if it would take a rebuild of all endpoints. */
int te_peer_cut(struct te_peer *peer);
/* te_fencing -- whether an abandoned endpoint is still open. Until it closes, no region can be closed (-KV_EBUSY). */
bool te_fencing(const struct te *te);

/* te_addresses_check -- check that this machine still has the endpoints' IP addresses; the next te_poll rebuilds
 * endpoints without one. Failed postings check by themselves: for engines that post little. */
void te_addresses_check(struct te *te);
/* te_local_set -- the address of this machine that leads to peers now, for tcp endpoints without te_options.nic. */
void te_local_set(struct te *te, const struct sockaddr_storage *local);

/* te_reset_due -- whether te_handlers.reset is still to run. */
bool te_reset_due(const struct te *te);

/* te_peer_links -- how many links it has: link numbers are below that. */
unsigned te_peer_links(const struct te_peer *peer);
/* te_peer_address -- the IP address of the peer's rail behind this link, for log messages. False: none. */
bool te_peer_address(const struct te_peer *peer, unsigned link, struct sockaddr_storage *out);
/* te_peer_link_use -- whether transfers with TE_LINK_ANY use this link; initially they do. */
void te_peer_link_use(struct te_peer *peer, unsigned link, bool use);

/* te_peer_local -- from now on, exchange messages with this peer over a channel in shared memory instead of the fabric.
 * Messages of every link use it, in order, and those of the peer arrive at te_handlers.local. `sent` runs from the next
 * te_poll. Messages queued before stay on the fabric, and so do transfers. Ordered writes and te_msg_follow are refused
 * (-KV_EBUSY), because no message in the channel follows bytes on the fabric. A reset or a fence that makes the peer
 * void ends this, and the owner begins anew.
 *
 * A peer that writes nonsense to the channel, or has closed it, is down until te_peer_readdress: its queued messages
 * and transfers and all later ones end with -KV_EPEERDOWN. It is not void: posted operations may still touch memory.
 * Owner: the channel stays the caller's. It must live until te_peer_local_end or te_peer_close returned, or
 * te_peer_is_local is false.
 * Errors:
 *   -KV_EINVAL     it has a channel already; or te_handlers.local is NULL
 *   -KV_EPEERDOWN  the peer is closed, void or down
 *   -KV_ENOMEM */
int te_peer_local(struct te_peer *peer, struct local_channel *channel);
/* te_peer_local_end -- use the fabric again. Messages in the ring stay there, and queued ones end with -KV_ERESET,
 * because their frames were made for the channel. Harmless without one. */
void te_peer_local_end(struct te_peer *peer);
/* te_peer_is_local -- whether messages to it go through a channel. */
bool te_peer_is_local(const struct te_peer *peer);

/* ---- regions ---- */

enum te_access { TE_LOCAL = 1, TE_REMOTE_READ = 2, TE_REMOTE_WRITE = 4 };

/* te_region_register -- register memory on every rail, in parts of part_bytes (0: te_options.part_bytes), or smaller
 * ones. For engines not at work yet: it blocks for 0.1 to 1 s per pinned GiB.
 * Owner: the memory is the caller's and must stay mapped until te_region_close returned 0. *out until then.
 * Errors:
 *   -KV_ENOMEM     no pages, or no room at the provider
 *   -KV_ELIMIT     too many parts
 *   -KV_EINVAL     no memory, no length or no access right
 *   -KV_EPROVIDER */
int te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		       struct te_region **out, struct kv_error *err);

/* te_region_begin, te_region_step -- the same for an engine at work, a few parts at a time.
 *
 * Call te_region_step until it is not 1, with te_poll in between. 0: registered. Negative: it failed, and the region is
 * closed. Before that only te_region_close is allowed. A step takes 2 ms or one part. Owner, Errors: as above. */
int te_region_begin(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		    struct te_region **out, struct kv_error *err);
int te_region_step(struct te_region *region, struct kv_error *err);

struct te_region_info {
	uint64_t part_bytes, ns; /* ns: duration of registering */
	uint32_t parts;
	unsigned rails, threads; /* threads: that took part */
};
void te_region_info(const struct te_region *region, struct te_region_info *out);

/* te_region_close -- close a region that peers do not know any more. *region becomes NULL; NULL is accepted. Errors:
 * -KV_EBUSY (an operation uses it, or te_fencing): nothing was done. */
int te_region_close(struct te_region **region);
/* te_region_close_step -- the same for an engine at work: call it until it is not 1, with te_poll in between. After the
 * first 1 no other call may use the region. */
int te_region_close_step(struct te_region **region);

struct te_key {
	uint64_t base, key; /* as the owner of the memory announced them */
};

/* An announced region. Byte i of part p of a rail has the remote address keys[rail * parts + p].base + i. */
struct te_remote {
	uint64_t len_bytes, part_bytes;
	uint32_t parts;
	uint16_t rails;
	bool virt;
	struct te_key *keys;
};

/* te_region_announce -- fill *out, and keys (rails x parts entries, may be NULL), which becomes out->keys. */
void te_region_announce(const struct te_region *region, struct te_remote *out, struct te_key *keys);

/* ---- messages ---- */

/* A registered send buffer: the caller's from te_msg_acquire, the engine's from te_msg_send until `sent` returned. */
struct te_msg {
	uint8_t *data; /* KV_MSG_MAX bytes */
	uint32_t len;
	void (*sent)(struct te_msg *msg, int status); /* may be NULL; exactly once */
	void *arg;
};

/* te_msg_acquire -- a send buffer; NULL: none is free, and te_handlers.room will run. */
struct te_msg *te_msg_acquire(struct te *te);
/* te_msg_release -- return an unsent buffer. */
void te_msg_release(struct te *te, struct te_msg *msg);

/* te_msg_send -- queue a message and post it. Messages are not ordered among themselves.
 * Errors, of `sent`:
 *   -KV_ETIMEOUT   not posted by the deadline
 *   -KV_EPEERDOWN  the peer is gone
 *   -KV_ERESET     the endpoints were rebuilt, or the peer was cut
 *   -KV_ECLOSED    the peer or the engine was closed
 *   -KV_EPROVIDER  the provider refused it
 *   -KV_EINVAL     no such link, or more than KV_MSG_MAX bytes */
void te_msg_send(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg, uint64_t deadline_ns);

/* te_msg_follow -- send a message that arrives after the bytes of this link's ordered writes since the last such
 * message. 0: posted, and `sent` runs. -KV_EBUSY: nothing was sent, since the order is not certain; the buffer is the
 * caller's, who must make sure that the peer does not rely on those bytes. */
int te_msg_follow(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg);

/* ---- transfers ---- */

enum te_dir { TE_WRITE, TE_READ };
#define TE_LINK_ANY UINT32_MAX

/* Remote bytes: `count` slices of `slice` bytes, `stride` bytes apart, from `offset`. Contiguous: count 1. */
struct te_slices {
	uint64_t offset, stride, slice;
	uint32_t count;
};

/* A transfer: the caller's memory, zeroed first; the engine's from te_xfer_start until `done` has run. */
struct te_xfer {
	/* filled by the caller */
	enum te_dir dir;
	struct te_peer *peer;
	uint32_t link; /* TE_LINK_ANY: stripe chunks over all links */
	struct te_region *local;
	uint64_t local_offset;
	const struct te_remote *remote; /* must live until done */
	struct te_slices at;            /* length is slice * count; 0: one empty write if with_imm, else nothing */
	bool with_imm;                  /* TE_WRITE: every chunk carries imm */
	/* TE_WRITE without imm, of one chunk, on `link`, from te_handlers.message or after te_order_begin: posted at
	 * once, or -KV_EBUSY. Empty and with imm: an immediate instead of te_msg_follow's message. */
	bool ordered;
	uint32_t imm;
	uint64_t deadline_ns; /* later chunks are not posted */
	/* posting_done -- `posted` is final: all posted, failed, cancelled or expired. May be NULL. */
	void (*posting_done)(struct te_xfer *x);
	/* done -- nothing is in flight. Exactly once, always last; x is the caller's again. */
	void (*done)(struct te_xfer *x, int status);
	void *arg;
	/* results */
	uint32_t posted, completed; /* chunks */
	/* TE_READ: completed bytes from the start, for a streaming checksum. */
	uint64_t contiguous;
	void (*progress)(struct te_xfer *x); /* TE_READ: contiguous grew; may be NULL (filled by the caller) */
	/* the engine's */
	struct {
		struct kv_list node;
		uint64_t pos;
		uint32_t inflight, next_link;
		int status;
		uint8_t state;
		uint64_t window; /* bit i: chunk (first incomplete + i) has completed */
		uint32_t first;
	} priv;
};

/* te_xfer_chunks -- the number of operations of a transfer: `posted` after success. */
uint32_t te_xfer_chunks(const struct te *te, const struct te_xfer *x);

/* te_xfer_start -- check bounds and post as much as fits.
 *
 * Returns 1 when everything is posted already (posting_done will not run), else 0. `done` runs later, with 0,
 * -KV_ETIMEOUT (not all posted by the deadline), -KV_ECANCELED, or a code of te_msg_send.
 * Errors: no callback runs.
 *   -KV_EINVAL     outside a region, slices that overlap, no such link, or contradictory flags
 *   -KV_EPEERDOWN  the peer is closed or void; or no link is in use
 *   -KV_EBUSY      ordered, and not possible now
 *   -KV_ENOTSUP    a read where te_info.reads_refused; a write without immediate on shm, which no fence could stop */
int te_xfer_start(struct te *te, struct te_xfer *x);

/* te_order_begin, te_order_end -- allow ordered writes in between, outside callbacks. At the end te_handlers.follow
 * runs, unless an immediate was sent behind all of them. */
void te_order_begin(struct te *te);
void te_order_end(struct te *te);

/* te_xfer_cancel -- post no more chunks. `posted` is final on return, and posting_done does not run. `done` still runs:
 * with 0 if all had completed, else with an earlier failure or -KV_ECANCELED. Harmless after `done`. */
void te_xfer_cancel(struct te *te, struct te_xfer *x);

/* ---- attach.c: on a loop ---- */

/* te_attach -- let this loop poll the engine and wait for its CQs where they have descriptors. Errors: -KV_EINVAL
 * (attached already), -KV_ENOMEM. */
int te_attach(struct te *te, struct loop *loop);
/* te_detach -- undo te_attach, before te_close. Harmless when not attached. */
void te_detach(struct te *te);

#endif
