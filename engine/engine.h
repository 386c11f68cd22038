/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h -- the TransferEngine: messages, RMA transfers and regions over one or more rails. The public header of
 * engine/.
 *
 * An engine is owned by one thread (a loop's): every function here is called from it, unless it says otherwise. Nothing
 * parks except the functions of engine/await.c at the end. Callbacks run inside te_poll, never inside the call that
 * started an operation; they may start and cancel operations and close peers, but not close the engine.
 *
 * Words. A rail is a NIC of this engine. A peer is another engine, known by the addresses of its rails. A link is a
 * pair (local rail, remote rail): link k of a peer joins local rail k % local rails and remote rail k % remote rails, 0
 * <= k < max of both. A region is local memory registered on every rail, in parts; a remote is a peer's announced
 * region. A transfer (te_xfer) moves bytes between them as chunks: one RMA operation each, striped over the links. */
#ifndef KVRAIL_ENGINE_ENGINE_H
#define KVRAIL_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"
#include "engine/budget.h"
#include "engine/preflight.h"

struct te;
struct te_peer;
struct te_region;
struct te_xfer;
struct loop;

/* ---- the engine ---- */

/* The doorkeeper of the tcp providers' ports: it turns away who is no peer before libfabric reads a byte, and checks
 * what peers send. */
enum te_door {
	TE_DOOR_AUTO,    /* where there can be one; a warning says where not */
	TE_DOOR_REQUIRE, /* opening fails where there can be none: also on providers that are not tcp */
	TE_DOOR_OFF
};

struct te_options {
	const char *provider; /* see struct fab_query; NULL: "auto" */
	const char *nic; /* only these, in this order: names with commas between them, each a device or an IP address of
			    this machine; NULL: any */
	struct sockaddr_storage local; /* source address for IP providers; family 0: any */
	unsigned rails; /* wanted; 0: all of `nic`, else this engine's share of the NICs on EFA (8 at most), else 1.
			   More rails than devices share devices (tcp, shm) or are refused (efa, verbs). */
	unsigned engine, engines; /* this one is `engine` of `engines` of its process, which divide the NICs among
				     themselves (plan.c). Engines beside each other are near each other: number them by
				     loop. 0, 0: the only one */
	uint32_t chunk_bytes;     /* bytes of one RMA operation at most; 0: KV_CHUNK_DEFAULT */
	uint32_t messages;        /* send buffers of KV_MSG_MAX bytes; 0: 256 */
	uint32_t receives;        /* receive buffers per rail; 0: 256 */
	uint32_t link_ops;        /* operations in flight per link that are always allowed; 0: 4 (shm: 16) */
	uint32_t link_bytes; /* ... and more of them while fewer bytes than this are in flight and half of the rail's
				depth is free; 0: 1 MiB (shm: 4 MiB) */
	uint32_t tx_depth, cq_depth; /* wanted queue depths of a rail; 0: modest defaults. In flight are at most min(tx
					depth, CQ depth / 2) operations. */
	bool peers_heal;             /* verbs: a connection that broke is the peer's to replace: for a server */
	bool reads_at_own_risk;      /* post reads even where te_info.read_unsafe: for tests that break no connection */
	enum te_door door;
	bool near; /* on a machine with several NUMA nodes, what the engine and its provider allocate is on the node of
		      its NICs */
	uint64_t part_bytes;          /* of regions whose registrar names none; 0: 1 GiB, more for very large ones */
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
	/* follow -- `message` has returned and posted ordered writes (te_xfer.ordered): the messages that go behind
	 * them are to be sent now, with te_msg_follow. NULL: none is started. */
	void (*follow)(void *arg);
	/* reset -- endpoints were rebuilt (a fence, an endpoint that failed, a rail that came back). All peers' links
	 * are void until te_peer_readdress; our addresses changed; every operation was ended with -KV_ERESET before
	 * this call, unless te_fencing: then from when `fenced` runs. status 0, or the code of a rebuild that failed
	 * (it is retried with back-off). */
	void (*reset)(void *arg, int status);
	/* fenced -- te_fencing is false again: all operations of the endpoints that were given up have ended with
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
	unsigned nics; /* that the provider has here, or of the list */
	unsigned rails;
	int numa_node; /* of most of the rails: where the engine's loop and memory are near to them. -1: unknown */
	struct te_nic rail[KV_RAILS_MAX];
};

/* te_plan -- what te_open with these options would use. Opens nothing; asks libfabric, which takes milliseconds.
 * Thread: any. Errors: as te_open's for provider, NICs and rails. */
int te_plan(const struct te_options *options, struct te_plan *out, struct kv_error *err);

/* te_open -- choose devices, check limits, open the rails, post receives.
 * Errors: -KV_ENOTSUP (provider not there: the sentence says what is), -KV_ELIMIT (which limit is short, how to lift
 * it), -KV_ENOMEM, -KV_EPROVIDER. */
int te_open(const struct te_options *options, const struct te_handlers *handlers, void *arg, struct te **out,
	    struct kv_error *err);

/* te_close -- two-phase: the endpoints are closed first, then every operation left is ended with -KV_ECLOSED, then
 * memory goes. Peers and regions of the engine are closed with it; the callbacks that run meanwhile may still close
 * them. *te becomes NULL; NULL is accepted. Not from a callback. */
void te_close(struct te **te);

/* te_poll -- reap completions, run callbacks, post what waits, expire deadlines. Returns the number of events; 0 is
 * idle. */
int te_poll(struct te *te);

/* te_busy -- whether an operation is posted or queued. */
bool te_busy(const struct te *te);

struct te_info {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX], libfabric[KV_NAME_MAX];
	char why[512]; /* why this provider */
	unsigned rails;
	int numa_node;    /* of most of its NICs; -1: unknown */
	bool near;        /* its memory was asked for from there (te_options.near, and the machine has several nodes) */
	int node_error;   /* -errno: the kernel forbids to ask (containers); memory is where it is touched first */
	bool pins_memory; /* what is registered is locked in memory, for a NIC */
	bool wait_fd;
	uint32_t eager_bytes, chunk_bytes;
	uint32_t tx_depth, rx_depth, cq_depth; /* of the rail with the least; they may change when endpoints are
						  rebuilt, and the next one, too: */
	uint32_t imm_room; /* immediates that may be on their way from all peers together: so many fit any rail's CQ,
			      beside our own operations and receives, and its receives where they use those up */
	bool virt_addr, write_emulated, read_emulated;
	bool ordered;       /* te_xfer.ordered may be used */
	bool death_fatal;   /* shm: the death of a peer's process cannot be relied on to be survived */
	bool read_unsafe;   /* a peer that dies while it answers a read of ours would crash this process (libfabric
			       before 1.22, tcp) */
	bool reads_refused; /* ... therefore te_xfer_start refuses TE_READ */
	bool peer_fence;    /* te_peer_fence fences one peer alone; it may change when endpoints are rebuilt */
	uint64_t msg_memory_bytes; /* registered message buffers */
	char no_door[160];         /* why no doorkeeper stands before the ports of the rails; "": there is one */
	char congestion[32]; /* congestion control of TCP connections that this engine accepts on loopback ("reno"); "":
				the system's default */
};
void te_info(const struct te *te, struct te_info *out);

struct te_address {
	uint8_t len;
	uint8_t data[KV_ADDR_MAX];
};
/* te_address -- this engine's address on a rail; changes with a reset. 0, -KV_EINVAL, -KV_EPROVIDER (closed: a rebuild
 * failed), or -KV_EBUSY between a fence and its te_handlers.reset when fences are being rate-limited, and while the
 * next endpoints wait for those that were given up to be closed. */
int te_address(struct te *te, unsigned rail, struct te_address *out);

struct te_stats {
	uint64_t sends, receives, writes, reads, immediates, bytes_written, bytes_read;
	uint64_t eagain, failed_ops, failed_peer, failed_endpoint, timeouts, canceled;
	uint64_t fences, rebuild_failures, stray_events;
	uint64_t cuts;          /* fences of one peer alone, which are counted in fences, too */
	uint64_t rail_failures; /* rails that failed by themselves: each is followed by a reset */
	uint64_t inflight, queued, msg_exhausted;
	/* Connections to our ports: let in, and turned away, by reason (docs/reference/counters.md) */
	uint64_t door_let_in, door_strangers, door_claims, door_twice, door_silent, door_full, door_aliens;
};
void te_stats(const struct te *te, struct te_stats *out);
void te_rail_stats(const struct te *te, unsigned rail, struct te_stats *out); /* the same, of one rail */
/* te_rail_up -- whether it takes part. One that is out is tried again with back-off; meanwhile another stands for it.
 */
bool te_rail_up(const struct te *te, unsigned rail);
int te_rail_numa_node(const struct te *te, unsigned rail); /* -1: unknown */
const char *
te_rail_device(const struct te *te,
	       unsigned rail); /* its libfabric domain, and its IP address on tcp; "": no such rail. The engine's */

/* te_env_for_programs -- set the documented environment defaults (docs/internals/providers.md) unless the user set
 * them: rxm's queues, EFA fork safety, psm's signal handlers. For main() of our own programs before the first te_open;
 * libraries never call it. */
void te_env_for_programs(void);
/* te_env_for_many_endpoints -- before it, in a program that opens hundreds of endpoints with a few operations each: the
 * smallest queues that the engine works with. */
void te_env_for_many_endpoints(void);
/* te_env_for_peers -- before it, in a program whose endpoints may have so many peers: queues over verbs are made for
 * them. */
void te_env_for_peers(unsigned peers);

/* ---- peers ---- */

/* te_peer_open -- insert a peer's rail addresses. Returns 0 or a code with *err. */
int te_peer_open(struct te *te, const struct te_address *addrs, unsigned count, struct te_peer **out,
		 struct kv_error *err);

/* te_peer_readdress -- new addresses after our reset or theirs. Operations queued (not posted) to the old address go to
 * the new one. */
int te_peer_readdress(struct te_peer *peer, const struct te_address *addrs, unsigned count, struct kv_error *err);

/* te_peer_close -- queued operations end with -KV_ECLOSED; posted ones end when the provider says so (their transfers'
 * done runs then, with the peer's memory kept until). *peer becomes NULL. */
void te_peer_close(struct te_peer **peer);

/* te_peer_fence -- when it returns 0, no operation of this peer (theirs on our memory, ours on theirs) touches our
 * memory any more. With te_info.peer_fence the peer is cut alone: its connections are shut, what is queued for it ends
 * with -KV_ERESET, what was posted by its own completion (a failure, soon), and it is void until te_peer_readdress;
 * nothing more of it reaches us before its address is given to that, or to te_peer_open. Other peers go on and
 * te_handlers.reset does not run, unless te_reset_due says so: two peers have the same address, this one's addresses
 * were changed while it was not void, or the provider holds on to what it received. Else the engine's endpoints are
 * rebuilt (te_handlers.reset runs from the next te_poll). Every operation of every peer that was posted is ended with
 * -KV_ERESET; the owners resubmit with new ids. Returns 0, or the code of a rebuild that failed: endpoints are closed
 * then, so memory is safe all the same. 1: the provider takes its time to close endpoints (EFA). The engine goes on
 * with new ones, and memory is safe, and what was posted ended, when te_fencing is false: te_handlers.fenced tells.
 * te_fencing -- whether an endpoint that was given up is not closed yet: because of a fence, or of a failure. Meanwhile
 * no region can be closed (-KV_EBUSY). */
int te_peer_fence(struct te_peer *peer, struct kv_error *err);
bool te_fencing(const struct te *te);

/* te_reset_due -- whether te_handlers.reset is to run: the endpoints were rebuilt (or could not be), and all peers are
 * void. */
bool te_reset_due(const struct te *te);

unsigned te_peer_links(const struct te_peer *peer);
/* te_peer_link_use -- whether transfers over all links (TE_LINK_ANY) take this one, too: yes, unless this said no. At
 * least one must be left while there are such transfers. Messages, and transfers that name it, take it in any case. */
void te_peer_link_use(struct te_peer *peer, unsigned link, bool use);
uint32_t te_peer_inflight(const struct te_peer *peer); /* operations posted and not ended */

/* ---- regions ---- */

enum te_access { TE_LOCAL = 1, TE_REMOTE_READ = 2, TE_REMOTE_WRITE = 4 };

/* te_region_register -- on every rail, in parts of part_bytes (0: te_options.part_bytes; halved when the provider has
 * no room, the same for all rails). base must stay mapped until te_region_close. Where the provider pins memory, all
 * pages are made first, by several threads, and the rails registered by one thread each; they have ended when it
 * returns. For engines that are not at work yet: it takes as long as it takes, 0.1 to 1 s for each GiB that is pinned.
 * Errors: -KV_ENOMEM, -KV_ELIMIT (too many parts), -KV_EPROVIDER. */
int te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		       struct te_region **out, struct kv_error *err);

/* te_region_begin, te_region_step -- the same for an engine at work, a few parts at a time with te_poll in between:
 * call the second until it is not 1. 0: registered. Negative: it failed and the region is closed. Until it is
 * registered, only te_region_close may be called with it, which gives it up. A step takes 2 ms, or one part: making the
 * pages before (kv_memory_populate, on any thread) is what keeps it short. A rail that fails meanwhile is waited for
 * until it is rebuilt or left out. */
int te_region_begin(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		    struct te_region **out, struct kv_error *err);
int te_region_step(struct te_region *region, struct kv_error *err);

struct te_region_info {
	uint64_t part_bytes, ns; /* ns: how long registering took */
	uint32_t parts;
	unsigned rails, threads; /* threads: that took part */
};
void te_region_info(const struct te_region *region, struct te_region_info *out);

/* te_region_close -- no operation may use it (checked: -KV_EBUSY, nothing done; so while te_fencing). Peers were told
 * before (REVOKE). *region becomes NULL. te_region_close_step -- the same for an engine at work: call it until it is
 * not 1, with te_poll in between. From the first 1 on the region may only be closed. */
int te_region_close(struct te_region **region);
int te_region_close_step(struct te_region **region);
void *te_region_base(const struct te_region *region);
uint64_t te_region_len(const struct te_region *region);

struct te_key {
	uint64_t base, key; /* as the owner of the memory announced them */
};

/* struct te_remote -- an announced region: plain data, the holder's memory. keys[rail * parts + part]. Remote address
 * of byte i of part p = base + i. */
struct te_remote {
	uint64_t len_bytes, part_bytes;
	uint32_t parts;
	uint16_t rails;
	bool virt;
	struct te_key *keys;
};

/* te_region_announce -- fill the plain fields of *out and, if keys is not NULL, rails x parts entries of it. */
void te_region_announce(const struct te_region *region, struct te_remote *out, struct te_key *keys);

/* ---- messages ---- */

/* struct te_msg -- a registered send buffer. From te_msg_acquire the caller's; from te_msg_send the engine's until
 * `sent` returned. */
struct te_msg {
	uint8_t *data; /* KV_MSG_MAX bytes */
	uint32_t len;
	void (*sent)(struct te_msg *msg, int status); /* may be NULL; afterwards the buffer is free */
	void *arg;
};

struct te_msg *te_msg_acquire(struct te *te); /* NULL: none free; te_handlers.room tells when */
void te_msg_release(struct te *te, struct te_msg *msg);

/* te_msg_send -- queue and post. Never fails in place: a failure is `sent` with -KV_ETIMEOUT (not posted by the
 * deadline), -KV_EPEERDOWN, -KV_ERESET, -KV_ECLOSED. Messages of one link go before its transfers' chunks. There is no
 * order between messages. */
void te_msg_send(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg, uint64_t deadline_ns);

/* te_msg_follow -- send a message that arrives behind the bytes of the ordered writes of this link since the last
 * one. 0: posted, `sent` comes. -KV_EBUSY: that cannot be promised any more (a connection may have been replaced);
 * nothing was sent, the buffer is the caller's, and so is the trouble: the peer must not believe that those bytes
 * are there. */
int te_msg_follow(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg);

/* ---- transfers ---- */

enum te_dir { TE_WRITE, TE_READ };
#define TE_LINK_ANY UINT32_MAX

/* struct te_slices -- remote bytes: `count` slices of `slice` bytes, `stride` apart, from `offset`. Contiguous:
 * count 1. */
struct te_slices {
	uint64_t offset, stride, slice;
	uint32_t count;
};

/* struct te_xfer -- one transfer. The caller's memory, zeroed first; the engine's from te_xfer_start until `done` ran.
 */
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
	bool ordered;        /* TE_WRITE without imm, of one chunk, on `link`, from te_handlers.message or between
				te_order_begin and te_order_end: it is posted at once and te_handlers.follow runs next,
				or te_xfer_start says -KV_EBUSY. Empty and with imm: the immediate that goes behind the
				ordered writes of this link instead of a message; -KV_EBUSY as te_msg_follow says */
	uint32_t imm;
	uint64_t deadline_ns; /* chunks not posted by then are not posted any more */
	void (*posting_done)(
		struct te_xfer *x); /* `posted` is final (all posted, failed, cancelled or expired); may be NULL */
	void (*done)(struct te_xfer *x, int status); /* nothing is in flight; exactly once, always last */
	void *arg;
	/* results */
	uint32_t posted, completed; /* chunks */
	uint64_t contiguous; /* bytes from the start whose chunks have completed: what a streaming checksum may read
				(TE_READ) */
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

/* te_xfer_chunks -- how many operations a transfer will be: what `posted` becomes when all goes well. */
uint32_t te_xfer_chunks(const struct te *te, const struct te_xfer *x);

/* te_xfer_start -- check bounds and post what fits. Returns 1 when everything is posted already (posting_done will not
 * run), 0 when it goes on, or -KV_EINVAL (outside a region, slices that overlap), -KV_EPEERDOWN (peer closed, or void
 * after a reset; no link in use), -KV_EBUSY (ordered, and not now), -KV_ENOTSUP (a read where te_info.reads_refused; a
 * write without immediate on shm, which no fence could stop): then no callback runs. */
int te_xfer_start(struct te *te, struct te_xfer *x);

/* te_order_begin, te_order_end -- ordered writes may be started in between, outside te_handlers.message and other
 * callbacks; te_handlers.follow runs at the end if no immediate was sent behind some. Nothing else of the engine is
 * called in between. */
void te_order_begin(struct te *te);
void te_order_end(struct te *te);

/* te_xfer_cancel -- post no more chunks. `posted` is final when it returns (posting_done does not run); done still
 * comes, with -KV_ECANCELED unless it had all completed. Harmless after done only if the memory is still there. */
void te_xfer_cancel(struct te *te, struct te_xfer *x);

/* ---- await.c: on a loop ---- */

/* te_attach -- poll the engine from this loop (wait fd of its CQs where there is one). te_detach before te_close. */
int te_attach(struct te *te, struct loop *loop);
void te_detach(struct te *te);
/* te_msg_acquire_await -- a send buffer, waiting for one until the deadline; NULL at the deadline. */
struct te_msg *te_msg_acquire_await(struct te *te, uint64_t deadline_ns);
/* te_drain_await -- until nothing is posted or queued. 0 or -KV_ETIMEOUT. */
int te_drain_await(struct te *te, uint64_t deadline_ns);

#endif
