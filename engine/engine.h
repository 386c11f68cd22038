/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h -- the TransferEngine: messages, RMA transfers and regions over one or more rails. The public header of
 * engine/.
 *
 * Threads. An engine is owned by one thread, a loop's. Every function is called from it, unless its comment says
 * otherwise. Only functions whose names end in _await park (engine/await.c, at the end).
 * Callbacks run inside te_poll and te_close, never inside the call that started an operation. A callback may start and
 * cancel operations and close peers; it may not close the engine.
 *
 * Ownership. What a function is given is the caller's, and is read during the call, unless its comment says otherwise.
 * Outputs are written on success only. `err` may be NULL. Times are absolute, in nanoseconds of te_options.clock.
 *
 * Words. A rail is a NIC of this engine. A peer is another engine, known by the addresses of its rails. A link is a
 * pair (local rail, remote rail): link k of a peer joins local rail k % local rails and remote rail k % remote rails, 0
 * <= k < max of both. A region is local memory registered on every rail, in parts; a remote is a peer's announced
 * region. A transfer (te_xfer) moves bytes between them as chunks: one RMA operation each, striped over the links. A
 * peer is void when its addresses no longer count, from a reset or a fence until te_peer_readdress. */
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
struct loop;

/* ---- the engine ---- */

/* The doorkeeper of the tcp providers' ports. It turns strangers away before libfabric reads a byte of them, and checks
 * what peers send. */
enum te_door {
	TE_DOOR_AUTO,    /* where there can be one; a warning says where not */
	TE_DOOR_REQUIRE, /* opening fails where there can be none, also on providers that are not tcp */
	TE_DOOR_OFF
};

struct te_options {
	const char *provider; /* see struct fab_query; NULL: "auto" */
	/* Only these, in this order: names with commas between them, each a device or an IP address of this machine;
	 * NULL: any. */
	const char *nic;
	struct sockaddr_storage local; /* source address for IP providers; family 0: any */
	/* Wanted. 0: all of `nic`, else this engine's share of the NICs on EFA (8 at most), else 1. More rails than
	 * devices share devices (tcp, shm) or are refused (efa, verbs). */
	unsigned rails;
	/* This one is `engine` of `engines` of its process, which divide the NICs among themselves (plan.c). Engines
	 * with neighbouring numbers get NICs near each other: number them by loop. 0, 0: the only one. */
	unsigned engine, engines;
	uint32_t chunk_bytes; /* bytes of one RMA operation at most; 0: KV_CHUNK_DEFAULT */
	uint32_t messages;    /* send buffers of KV_MSG_MAX bytes; 0: 256 */
	uint32_t receives;    /* receive buffers per rail; 0: 256 */
	uint32_t link_ops;    /* operations in flight per link that are always allowed; 0: 4 (shm: 16) */
	/* More than link_ops are allowed while fewer bytes than this are in flight and half of the rail's depth is
	 * free; 0: 1 MiB (shm: 4 MiB). */
	uint32_t link_bytes;
	/* Wanted queue depths of a rail; 0: modest defaults. At most min(tx depth, CQ depth / 2) operations are in
	 * flight. */
	uint32_t tx_depth, cq_depth;
	bool peers_heal;        /* verbs: the peer replaces a connection that broke: for a server */
	bool reads_at_own_risk; /* post reads even where te_info.read_unsafe: for tests that break no connection */
	enum te_door door;
	bool near; /* on a machine with several NUMA nodes, allocate on the node of the NICs; the provider, too */
	uint64_t part_bytes;          /* of regions registered with part_bytes 0; 0: 1 GiB, more for very large ones */
	const struct kv_clock *clock; /* NULL: monotonic */
	const struct kv_log *log;
};

struct te_handlers {
	/* message -- a message arrived; data is the engine's and valid during the call. */
	void (*message)(void *arg, unsigned rail, const uint8_t *data, size_t len);
	/* immediate -- a peer's write with immediate data has landed in our memory. */
	void (*immediate)(void *arg, unsigned rail, uint32_t imm);
	/* room -- send buffers are free again after te_msg_acquire had returned NULL. May be NULL. */
	void (*room)(void *arg);
	/* follow -- `message` has returned and posted ordered writes (te_xfer.ordered): send the messages that go
	 * behind them now, with te_msg_follow. NULL: no ordered write is started. */
	void (*follow)(void *arg);
	/* reset -- the endpoints were rebuilt (a fence, an endpoint that failed, a rail that came back). All peers are
	 * void until te_peer_readdress, and our addresses have changed. Every operation was ended with -KV_ERESET
	 * before this call; while te_fencing those that were posted end before `fenced` runs instead. status: 0, or the
	 * code of a rebuild that failed and is tried again with back-off. May be NULL. */
	void (*reset)(void *arg, int status);
	/* fenced -- te_fencing is false again. All operations of the endpoints that were given up have ended with
	 * -KV_ERESET, and nothing that was posted by or to them touches memory any more. May be NULL. */
	void (*fenced)(void *arg);
};

/* ---- which NICs ---- */

struct te_nic {
	char name[KV_NAME_MAX];    /* its libfabric domain */
	char address[KV_NAME_MAX]; /* IP providers; else "" */
	int numa_node;             /* -1: unknown, or the machine has one */
	uint64_t bits_per_s;       /* 0: unknown */
};

struct te_plan {
	char provider[KV_NAME_MAX];
	unsigned nics; /* how many the provider has here, or how many are listed */
	unsigned rails;
	int numa_node; /* of most of the rails: loop and memory are near them there; -1: unknown */
	struct te_nic rail[KV_RAILS_MAX];
};

/* te_plan -- what te_open with these options would use. It opens nothing, and asks libfabric, which takes milliseconds.
 * Thread: any. Errors: as te_open's for provider, NICs and rails. */
int te_plan(const struct te_options *options, struct te_plan *out, struct kv_error *err);

/* te_open -- choose devices, check limits, open the rails, post receives. Engines of a process are opened one at a
 * time.
 *
 * Thread: any; the engine is then owned by the thread that polls it. arg goes to the handlers.
 * Owner: *out until te_close. handlers are copied; clock and log must live as long as the engine.
 * Errors:
 *   -KV_ENOTSUP    the provider or a NIC is not there (the sentence says what is), or TE_DOOR_REQUIRE cannot be had
 *   -KV_ELIMIT     which limit is short, and how to lift it
 *   -KV_EINVAL     more than KV_RAILS_MAX rails
 *   -KV_ENOMEM, -KV_EPROVIDER, or the provider's -errno: -EADDRNOTAVAIL, te_options.local is not of this machine */
int te_open(const struct te_options *options, const struct te_handlers *handlers, void *arg, struct te **out,
	    struct kv_error *err);

/* te_close -- close the engine, in two phases: first the endpoints, then every operation left is ended with -KV_ECLOSED
 * and memory goes.
 *
 * Peers and regions of the engine are closed with it. The callbacks that run meanwhile may still close them. Not from a
 * callback; after te_detach. *te becomes NULL; NULL is accepted. */
void te_close(struct te **te);

/* te_poll -- reap completions, run callbacks, post what waits, expire deadlines. It does not wait. Returns the number
 * of events; 0: idle, or called from a callback. */
int te_poll(struct te *te);

/* te_busy -- whether an operation is posted, queued, or has not been told to its owner yet. */
bool te_busy(const struct te *te);

struct te_info {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX], libfabric[KV_NAME_MAX];
	char why[512]; /* why this provider */
	unsigned rails;
	bool ip;          /* its addresses are IP addresses */
	int numa_node;    /* of most of its NICs; -1: unknown */
	bool near;        /* its memory was asked for from there (te_options.near, and the machine has several nodes) */
	int node_error;   /* -errno: the kernel forbids to ask (containers); memory is where it is touched first */
	bool pins_memory; /* registered memory is locked, for a NIC */
	bool wait_fd;
	uint32_t eager_bytes, chunk_bytes;
	/* Of the rail with the least. They may change when endpoints are rebuilt, as may imm_room. */
	uint32_t tx_depth, rx_depth, cq_depth;
	/* Immediates that may be on their way from all peers together. So many fit any rail's CQ beside our own
	 * operations and receives, and its receives where immediates use those up. */
	uint32_t imm_room;
	bool virt_addr, write_emulated, read_emulated;
	bool ordered;     /* te_xfer.ordered may be used */
	bool death_fatal; /* shm: this process may not survive the death of a peer's process */
	/* shm: what is out to a peer that died keeps all later operations from ending, until a fence. */
	bool death_stalls;
	/* A peer that dies while it answers a read of ours would crash this process (libfabric before 1.22, tcp). */
	bool read_unsafe;
	bool reads_refused;        /* read_unsafe, and te_xfer_start therefore refuses TE_READ */
	bool peer_fence;           /* te_peer_fence fences one peer alone; it may change when endpoints are rebuilt */
	uint64_t limbo_max_ns;     /* how long operations may be in limbo after a fence (te_fencing); 0: never */
	uint64_t msg_memory_bytes; /* registered message buffers */
	char no_door[160];         /* why no doorkeeper stands before the ports of the rails; "": there is one */
	char congestion[32]; /* congestion control of TCP connections accepted on loopback ("reno"); "": the system's */
};
/* te_info -- copy out what the engine is. */
void te_info(const struct te *te, struct te_info *out);

struct te_address {
	uint8_t len;
	uint8_t data[KV_ADDR_MAX];
};
/* te_address -- this engine's address on a rail; it changes with a reset.
 * Errors:
 *   -KV_EINVAL     there is no such rail
 *   -KV_EPROVIDER  closed: a rebuild failed
 *   -KV_EBUSY      fences are being rate-limited, from a fence until te_handlers.reset; or the next endpoints wait
 *                  until those that were given up are closed */
int te_address(struct te *te, unsigned rail, struct te_address *out);

struct te_stats {
	uint64_t sends, receives, writes, reads, immediates, bytes_written, bytes_read;
	uint64_t eagain, failed_ops, failed_peer, failed_endpoint, timeouts, canceled;
	uint64_t fences, rebuild_failures, stray_events;
	uint64_t cuts;          /* fences of one peer alone; they count in fences, too */
	uint64_t rail_failures; /* times that a rail failed by itself; a reset follows each */
	uint64_t inflight, queued, msg_exhausted;
	/* Connections to our ports: let in, and turned away, by reason (docs/reference/counters.md). */
	uint64_t door_let_in, door_strangers, door_claims, door_twice, door_silent, door_full, door_aliens;
};
/* te_stats -- copy out the counters and gauges of all rails together. */
void te_stats(const struct te *te, struct te_stats *out);
/* te_rail_stats -- those that are kept per rail, of one rail; the others are 0. All are 0 if there is no such rail. */
void te_rail_stats(const struct te *te, unsigned rail, struct te_stats *out);
/* te_rail_up -- whether it takes part. A rail that is out is tried again with back-off; meanwhile another stands for
 * it. */
bool te_rail_up(const struct te *te, unsigned rail);
int te_rail_numa_node(const struct te *te, unsigned rail); /* -1: unknown */
/* te_rail_device -- its libfabric domain, and its IP address on tcp; "": there is no such rail. The engine's string. */
const char *te_rail_device(const struct te *te, unsigned rail);

/* te_env_for_programs -- set the documented environment defaults (docs/internals/providers.md) unless the user set
 * them, among them rxm's queues and EFA's fork safety, and put back the signal handlers that psm replaced. Thread:
 * main() of our own programs, before the first te_open. Libraries never call it. */
void te_env_for_programs(void);
/* te_env_for_many_endpoints -- call it before te_env_for_programs, in a program that opens hundreds of endpoints with a
 * few operations each: the smallest queues that the engine works with. */
void te_env_for_many_endpoints(void);
/* te_env_for_peers -- call it before te_env_for_programs, in a program whose endpoints may have so many peers: queues
 * over verbs are made for them. */
void te_env_for_peers(unsigned peers);

/* ---- peers ---- */

/* te_peer_open -- insert a peer, with the addresses of its `count` rails.
 *
 * Owner: *out until te_peer_close, or te_close.
 * Errors:
 *   -KV_EINVAL     count is not 1 to KV_RAILS_MAX
 *   -KV_EPROTO     an address is not one of the provider's
 *   -KV_ELIMIT     the completion queue is made for no more peers (verbs)
 *   -KV_EBUSY, -KV_EPROVIDER  as te_address: the endpoints are closed
 *   -KV_ENOMEM */
int te_peer_open(struct te *te, const struct te_address *addrs, unsigned count, struct te_peer **out,
		 struct kv_error *err);

/* te_peer_readdress -- give a peer new addresses, after our reset or its own. Operations that are queued go to the new
 * address; posted ones keep the old one until they end.
 * Errors: as te_peer_open; -KV_EINVAL: count differs from before. */
int te_peer_readdress(struct te_peer *peer, const struct te_address *addrs, unsigned count, struct kv_error *err);

/* te_peer_close -- close a peer. Queued operations end with -KV_ECLOSED. Posted ones end when the provider says so; the
 * peer's memory is kept until their callbacks have run. *peer becomes NULL; NULL is accepted. */
void te_peer_close(struct te_peer **peer);

/* te_peer_fence -- when it returns 0, no operation of this peer touches our memory any more, neither one of its own nor
 * one of ours.
 *
 * With te_info.peer_fence the peer is cut alone. Its connections are shut. What is queued for it ends with -KV_ERESET;
 * what was posted ends by its own completion, soon, with a failure. The peer is void, and nothing more of it reaches us
 * until its address is given to te_peer_readdress or te_peer_open. Other peers go on, and te_handlers.reset does not
 * run.
 * Else all endpoints are rebuilt, as they are with te_info.peer_fence where cutting is not enough: another peer has the
 * same address, this one's addresses changed while it was not void, or the provider holds on to what it received.
 * te_reset_due says which it was. Then every posted operation of every peer ends with -KV_ERESET, te_handlers.reset
 * runs from the next te_poll, and the owners submit again with new ids.
 * No callback runs inside.
 * Returns
 *   0              memory is safe
 *   1              the provider takes its time to close endpoints (EFA). The engine goes on with new ones. Memory is
 *                  safe, and what was posted has ended, when te_fencing is false; te_handlers.fenced tells
 *   negative       the code of a rebuild that failed: the endpoints are closed, so memory is safe all the same */
int te_peer_fence(struct te_peer *peer, struct kv_error *err);
/* te_peer_cut -- fence the peer alone if that harms nobody else. 0: as te_peer_fence's 0. -KV_EBUSY: nothing was done;
 * it would take a rebuild of all endpoints. No callback runs inside. */
int te_peer_cut(struct te_peer *peer);
/* te_fencing -- whether an endpoint that was given up, by a fence or because it failed, is not closed yet. Meanwhile no
 * region can be closed (-KV_EBUSY). */
bool te_fencing(const struct te *te);

/* te_addresses_check -- look whether this machine still has the IP addresses of the endpoints. Those of addresses that
 * are gone are rebuilt at the next te_poll, at another address of the same device; te_handlers.reset follows. Postings
 * look by themselves when they fail for that reason, so this is for engines that post little, every few seconds. */
void te_addresses_check(struct te *te);
/* te_local_set -- the address of this machine that leads to peers now (te_options.local, later): an endpoint that has
 * lost its address takes it where its own device has no other one: over tcp alone, since NICs have memory registered.
 * Not with te_options.nic: those devices stay. */
void te_local_set(struct te *te, const struct sockaddr_storage *local);

/* te_reset_due -- whether te_handlers.reset is still to run: the endpoints were rebuilt, or could not be, and all peers
 * are void. */
bool te_reset_due(const struct te *te);

unsigned te_peer_links(const struct te_peer *peer);
/* te_peer_address -- the IP address of the peer's rail behind this link, for messages. False: it has none, or it is
 * void after a reset. */
bool te_peer_address(const struct te_peer *peer, unsigned link, struct sockaddr_storage *out);
/* te_peer_link_use -- whether transfers over all links (TE_LINK_ANY) take this link, too; at first they do. At least
 * one link must be left while there are such transfers. Messages, and transfers that name the link, take it in any
 * case. */
void te_peer_link_use(struct te_peer *peer, unsigned link, bool use);
uint32_t te_peer_inflight(const struct te_peer *peer); /* operations posted and not ended */

/* ---- regions ---- */

enum te_access { TE_LOCAL = 1, TE_REMOTE_READ = 2, TE_REMOTE_WRITE = 4 };

/* te_region_register -- register memory on every rail, in parts of part_bytes.
 *
 * part_bytes 0: te_options.part_bytes. It is halved, for all rails alike, when the provider has no room for the first
 * part of a rail. Where the provider pins memory, several threads make all pages first, and one thread registers each
 * rail; these threads have ended when it returns.
 * For engines that are not at work yet: it blocks as long as it takes, 0.1 to 1 s for each GiB that is pinned.
 * Owner: the memory is the caller's and must stay mapped until te_region_close returned 0. *out until then.
 * Errors:
 *   -KV_ENOMEM     no pages, or no room at the provider
 *   -KV_ELIMIT     too many parts
 *   -KV_EINVAL     no memory, no length or no access right is given
 *   -KV_EPROVIDER */
int te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		       struct te_region **out, struct kv_error *err);

/* te_region_begin, te_region_step -- the same for an engine at work, a few parts at a time.
 *
 * Call te_region_step until it is not 1, with te_poll in between. 0: registered. Negative: it failed, and the region is
 * closed. Until it is registered only te_region_close may be called with it, which gives it up. A step takes 2 ms, or
 * one part: make the pages before (kv_memory_populate, on any thread) to keep it short. A rail that fails meanwhile is
 * waited for until it is rebuilt or left out. Owner, Errors: as te_region_register. */
int te_region_begin(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		    struct te_region **out, struct kv_error *err);
int te_region_step(struct te_region *region, struct kv_error *err);

struct te_region_info {
	uint64_t part_bytes, ns; /* ns: how long registering took */
	uint32_t parts;
	unsigned rails, threads; /* threads: that took part */
};
void te_region_info(const struct te_region *region, struct te_region_info *out);

/* te_region_close -- close a region. Peers were told before (REVOKE), and no operation uses it. *region becomes NULL;
 * NULL is accepted.
 * Errors: nothing was done.
 *   -KV_EBUSY      an operation uses it, or te_fencing */
int te_region_close(struct te_region **region);
/* te_region_close_step -- the same for an engine at work: call it until it is not 1, with te_poll in between. After the
 * first 1 nothing else may be done with the region. */
int te_region_close_step(struct te_region **region);
void *te_region_base(const struct te_region *region);
uint64_t te_region_len(const struct te_region *region);

struct te_key {
	uint64_t base, key; /* as the owner of the memory announced them */
};

/* struct te_remote -- an announced region: plain data, the holder's memory. keys[rail * parts + part]. Byte i of part p
 * of a rail has the remote address keys[...].base + i. */
struct te_remote {
	uint64_t len_bytes, part_bytes;
	uint32_t parts;
	uint16_t rails;
	bool virt;
	struct te_key *keys;
};

/* te_region_announce -- fill the plain fields of *out. If keys is not NULL, also fill its rails x parts entries, and
 * set out->keys to it. */
void te_region_announce(const struct te_region *region, struct te_remote *out, struct te_key *keys);

/* ---- messages ---- */

/* struct te_msg -- a registered send buffer. It is the caller's from te_msg_acquire, and the engine's from te_msg_send
 * until `sent` has returned; then it is free. */
struct te_msg {
	uint8_t *data; /* KV_MSG_MAX bytes */
	uint32_t len;
	void (*sent)(struct te_msg *msg, int status); /* may be NULL; exactly once */
	void *arg;
};

/* te_msg_acquire -- a send buffer; NULL: none is free, and te_handlers.room tells when. */
struct te_msg *te_msg_acquire(struct te *te);
/* te_msg_release -- give a buffer back that was not sent. */
void te_msg_release(struct te *te, struct te_msg *msg);

/* te_msg_send -- queue a message and post it. It never fails in place: a failure is told to `sent`.
 *
 * Messages of one link go before its transfers' chunks. There is no order between messages.
 * Errors, of `sent`:
 *   -KV_ETIMEOUT   not posted by the deadline
 *   -KV_EPEERDOWN  the peer is gone
 *   -KV_ERESET     the endpoints were rebuilt, or the peer was cut
 *   -KV_ECLOSED    the peer or the engine was closed
 *   -KV_EPROVIDER  the provider refused it
 *   -KV_EINVAL     no such link, or more than KV_MSG_MAX bytes */
void te_msg_send(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg, uint64_t deadline_ns);

/* te_msg_follow -- send a message that arrives behind the bytes of the ordered writes of this link since the last such
 * message. Returns 0: posted, and `sent` runs.
 * Errors: nothing was sent, and the buffer is still the caller's. The caller must see to it that the peer does not
 * believe that those bytes are there.
 *   -KV_EBUSY      the order cannot be promised any more: a connection may have been replaced, or the provider takes no
 *                  more now */
int te_msg_follow(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg);

/* ---- transfers ---- */

enum te_dir { TE_WRITE, TE_READ };
#define TE_LINK_ANY UINT32_MAX

/* struct te_slices -- remote bytes: `count` slices of `slice` bytes that begin `stride` bytes apart, from `offset` on.
 * Contiguous: count 1. */
struct te_slices {
	uint64_t offset, stride, slice;
	uint32_t count;
};

/* struct te_xfer -- one transfer. The caller's memory, zeroed first; the engine's from te_xfer_start until `done` has
 * run. */
struct te_xfer {
	/* filled by the caller */
	enum te_dir dir;
	struct te_peer *peer;
	uint32_t link; /* TE_LINK_ANY: stripe chunks over all links */
	struct te_region *local;
	uint64_t local_offset;
	const struct te_remote *remote; /* must live until done */
	struct te_slices at; /* slice * count is the length; may be 0: one empty write if with_imm, else nothing */
	bool with_imm;       /* TE_WRITE: every chunk carries imm */
	/* TE_WRITE without imm, of one chunk, on `link`, from te_handlers.message or between te_order_begin and
	 * te_order_end. It is posted at once and te_handlers.follow runs next; or te_xfer_start says -KV_EBUSY.
	 * Empty and with imm: the immediate that goes behind the ordered writes of this link instead of a message;
	 * -KV_EBUSY means what it means for te_msg_follow. */
	bool ordered;
	uint32_t imm;
	uint64_t deadline_ns; /* chunks not posted by then are not posted any more */
	/* posting_done -- `posted` is final: all posted, failed, cancelled or expired. May be NULL. */
	void (*posting_done)(struct te_xfer *x);
	/* done -- nothing is in flight. Exactly once, always last; x is the caller's again. */
	void (*done)(struct te_xfer *x, int status);
	void *arg;
	/* results */
	uint32_t posted, completed; /* chunks */
	/* TE_READ: bytes from the start whose chunks have completed, which a streaming checksum may read. */
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

/* te_xfer_chunks -- how many operations a transfer will be: `posted`, when all goes well. */
uint32_t te_xfer_chunks(const struct te *te, const struct te_xfer *x);

/* te_xfer_start -- check bounds and post what fits.
 *
 * Returns 1 when everything is posted already (posting_done will not run), or 0 when it goes on. In both cases `done`
 * runs later, from te_poll, with 0, -KV_ETIMEOUT (not all posted by the deadline), -KV_ECANCELED, or as te_msg_send.
 * Errors: no callback runs.
 *   -KV_EINVAL     outside a region, slices that overlap, no such link, or flags that do not go together
 *   -KV_EPEERDOWN  the peer is closed or void; or no link is in use
 *   -KV_EBUSY      ordered, and not now
 *   -KV_ENOTSUP    a read where te_info.reads_refused; a write without immediate on shm, which no fence could stop */
int te_xfer_start(struct te *te, struct te_xfer *x);

/* te_order_begin, te_order_end -- between them ordered writes may be started outside te_handlers.message and other
 * callbacks. At the end te_handlers.follow runs, unless an immediate was sent behind all of them. Call nothing else of
 * the engine in between. */
void te_order_begin(struct te *te);
void te_order_end(struct te *te);

/* te_xfer_cancel -- post no more chunks. `posted` is final when it returns, and posting_done does not run. `done` still
 * comes: with 0 if all had completed, with an earlier failure's code, else with -KV_ECANCELED. After `done` it is
 * harmless as long as the memory is still there. */
void te_xfer_cancel(struct te *te, struct te_xfer *x);

/* ---- await.c: on a loop ---- */

/* te_attach -- have this loop poll the engine, and wait for its CQs where they have descriptors.
 * Errors: -KV_EINVAL (it is attached already), -KV_ENOMEM. */
int te_attach(struct te *te, struct loop *loop);
/* te_detach -- undo it, before te_close. Coroutines that wait below end. Harmless when not attached. */
void te_detach(struct te *te);
/* te_msg_acquire_await -- as te_msg_acquire, waiting until the deadline. NULL: none came free, or the engine is
 * detached. Parks: a coroutine of that loop. */
struct te_msg *te_msg_acquire_await(struct te *te, uint64_t deadline_ns);
/* te_drain_await -- wait until nothing is posted or queued. Parks: a coroutine of that loop.
 * Errors: -KV_ETIMEOUT; -KV_EINVAL (not attached, or no coroutine). */
int te_drain_await(struct te *te, uint64_t deadline_ns);

#endif
