/* SPDX-License-Identifier: Apache-2.0 */
/* client.h -- the structs of kvclient/ and who may call what. Private to the folder.
 *
 *   pool -> clients -> nodes -> session -> links -> requests
 *
 * Everything below a client belongs to the client's loop. The pool is shared: what may change after it was opened is
 * atomic or under its mutex, which no call on the data path takes. */
#ifndef KVRAIL_KVCLIENT_POOL_CLIENT_H
#define KVRAIL_KVCLIENT_POOL_CLIENT_H

#include <stdatomic.h>

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "host/host.h"
#include "kvclient/request/buffer.h"
#include "kvclient/kvclient.h"
#include "kvclient/conn/pins.h"
#include "kvclient/pool/pool.h"
#include "kvclient/request/pull.h"
#include "kvclient/request/request.h"
#include "kvclient/logical/sessions.h"
#include "loop/loop.h"
#include "wire/wire.h"

enum {
	KVC_REQS = 2048,          /* request entries of one client */
	KVC_FRAMES = 256,         /* send buffers */
	KVC_CREDITS_MAX = 4096,   /* of one link: what a WELCOME may grant us and we believe */
	KVC_IDS_MAX = 1 << 18,    /* ... and of all links of a session together: it bounds their maps (8 MiB) */
	KVC_REGION_BUFFER = 1,    /* region id of the receive buffer */
	KVC_MEMS_MAX = 256,       /* registrations of one pool */
	KVC_ROW_BYTES = 64 << 10, /* room for small items of a batch, side by side */
	KVC_LINK_OUT = 1 << 20,   /* bytes of pieces that a link of a server on this host brings at a time */
	KVC_ZOMBIES_MAX = 64,     /* peers kept open for a fence to come */
	KVC_PARTS_MAX = 4096 /* coroutines of one loop for parts of batches: they leave some for workers and calls */
};

#define KVC_PART_NS 1000000000ull /* for the goodbyes of a client that closes */

/* ---- counters: written by the client's loop, read by any thread ---- */

struct kvc_count {
	_Atomic uint64_t gets, puts, exists, deletes, hits, misses, errors, timeouts, retries, corrupt, reconnects,
		reattaches, fences;
	_Atomic uint64_t bytes_in, bytes_out, stale_immediates, bad_frames, cancels, quarantined_bytes, eagain;
	_Atomic uint64_t door_let_in, door_turned, door_aliens;
	_Atomic uint64_t requests, replies, room_waits, room_wait_ns, room_wait_max_ns, queue_ns, queue_max_ns, orphans;
	_Atomic uint64_t lost_connections, slow, pulls, pulls_expired, pins_again, pins_lost, put_conflicts;
	_Atomic uint64_t results[KVC_OPS][KVC_RESULTS];
	_Atomic uint64_t links, credits; /* of the sessions that are open; the fewest credits of one */
	_Atomic uint64_t pull_links;     /* links of sessions whose GETs are pulled */
};

/* kvc_add, kvc_set -- single writer: no locked instruction. */
static inline void kvc_set(_Atomic uint64_t *c, uint64_t v)
{
	atomic_store_explicit(c, v, memory_order_relaxed);
}

static inline void kvc_add(_Atomic uint64_t *c, uint64_t n)
{
	kvc_set(c, atomic_load_explicit(c, memory_order_relaxed) + n);
}

static inline void kvc_max(_Atomic uint64_t *c, uint64_t v)
{
	if (v > atomic_load_explicit(c, memory_order_relaxed))
		kvc_set(c, v);
}

/* ---- link: one (client rail, shard rail) of a session ---- */

struct kvc_link {
	struct kvc_session *session;
	struct kv_list dirty_node; /* the client's list of links with something to send */
	struct kv_list queue;      /* requests waiting for a credit, in order */
	struct kv_list cancels;    /* requests whose CANCEL is to be sent */
	struct kv_list sent;       /* requests with ids out, oldest first */
	struct kv_list turns;      /* lanes of further sessions that may send (sessions.c) */
	bool turn_own;             /* while there are any: it is the turn of `queue` */
	uint8_t turn_used;         /* requests of this turn */
	struct kvc_map map;
	struct kv_seal seal;
	uint64_t nonce; /* goes with every frame until an answer says that the server has it; 0: none */
	bool prove_due; /* it goes now, with or without a request */
	uint64_t next_id;
	uint64_t heard_ns;                 /* when a frame of this link last arrived */
	uint32_t credits, reserve;         /* the last `reserve` credits are for CANCEL and PING */
	uint32_t frames;                   /* with the engine */
	uint16_t shard, index;             /* te link of the shard's peer */
	uint8_t release[KVC_RELEASES * 8]; /* leases to be given back, as they are sent */
	uint32_t releases;
	bool release_due;              /* they go now, with or without a request */
	struct kv_list release_node;   /* of the client, while they wait */
	bool up;                       /* it answered a PING: it may carry requests (health.c) */
	uint64_t retry_ns, backoff_ns; /* of the PING of one that is not */
	struct kvc_req *probe;         /* a PING of the health check, and when it was made */
	struct kvc_wait probe_wait;
	uint64_t probe_ns;
	uint32_t probe_beats; /* of ours since then */
};

/* ---- session: what one WELCOME gave us. Lives until its last frame was sent. ---- */

struct kvc_session {
	struct kvc_node *node;
	uint32_t refs; /* the node's, and one per frame with the engine */
	bool open;     /* peers are open and requests may go */
	bool served;   /* the node was UP with it: requests with memory may be out */
	uint32_t number;
	uint8_t token[KV_TOKEN_LEN]; /* for proofs of further sessions where there is no TLS; it never crosses the
					fabric */
	uint64_t shard_seed, value_max;
	uint64_t out_max; /* bytes of pieces on their way from it at a time, beyond a few requests (admission.c) */
	uint32_t chunk_bytes, credits;
	uint16_t shards, rails, links_per_shard, flags;
	bool pull;                 /* GETs ask for leases */
	struct kvc_arenas *arenas; /* NULL: we do not know where its memory is */
	struct te_peer *peer[KV_SHARDS_MAX];
	uint64_t turns[KV_SHARDS_MAX], turns_ns[KV_SHARDS_MAX]; /* the liveness counters, and when they last moved */
	uint32_t turns_same[KV_SHARDS_MAX]; /* heartbeats that were heard since and showed the same */
	struct kv_macs macs[KV_SHARDS_MAX]; /* of the seals of a shard's links */
	uint32_t num_links;
	struct kvc_wait setup;  /* the first PINGs of all links */
	uint32_t next_link;     /* round robin over the links of a shard */
	struct kvc_link link[]; /* shard-major; and behind them the bits of their windows */
};

/* ---- what one server's requests have of the client's room ---- */

struct kvc_room_share {
	uint32_t reqs, imms;
	uint64_t bytes;
	uint32_t out; /* pieces of requests that are not given up, and their bytes */
	uint64_t out_bytes;
	uint32_t waiting;                 /* for a piece */
	uint64_t counts_scan, piece_scan; /* admission.c */
};

/* ---- node: one client's view of one server ---- */

enum kvc_node_state {
	KVC_NODE_CONNECTING, /* the first attempt, or one after a break that was ours: calls wait */
	KVC_NODE_UP,
	KVC_NODE_DOWN, /* calls fail at once; attempts go on in the background */
	KVC_NODE_CLOSED
};

struct kvc_node {
	struct kvc_client *client;
	unsigned index;
	enum kvc_node_state state;
	struct kvc_session *session; /* while UP, or being set up */
	struct boot_conn *conn;
	struct co_queue changed; /* woken at every change of state or of an acknowledgement */
	struct co_queue kick;    /* its own coroutine: ends a back-off, or a wait for `senders` */
	bool running;            /* its coroutine */
	struct kvc_room_share share;
	unsigned senders; /* coroutines inside boot_send_await */
	uint64_t incarnation;
	char node_id[KV_NAME_MAX];
	bool attempted; /* the pool was told how the first attempt went */
	bool left;      /* the server said goodbye, and was not there again since: its keys are misses */
	bool parting;   /* ... and so did we, when nothing of ours was under way there any more */
	bool redo;      /* drop the session and make a new one at once, because ... */
	const char *redo_why;
	bool redial;             /* ... and not on this connection, which is of no more use */
	bool fresh;              /* the connection has had no session that was up */
	bool welcomed;           /* it has had a WELCOME */
	unsigned hellos;         /* HELLOs on it that were not answered yet: each will be, in order */
	unsigned revokes;        /* REVOKEs that were not answered yet */
	struct wire_prior prior; /* the last attachment, if the server may have something of it under way and we want to
				    know when it has not */
	unsigned failures;
	int refusal; /* why a server that is there does not take us, as calls are told it; 0: the last attempt ended
			otherwise */
	int refusal_told;                             /* the code of the last line of the log about that */
	struct kv_error error;                        /* of the last attempt */
	uint64_t connects, attaches, fences, ping_ns; /* see struct kvc_server_info */
	char why[512];                                /* what went wrong last */
	uint32_t acked[KVC_MEMS_MAX + 2];             /* region id that the server knows slot i by; 0: none */
	struct kvc_refusal {
		uint32_t id;
		int32_t status;
	} refused[KVC_MEMS_MAX + 2]; /* the last region of slot i that the server did not take */
	uint64_t beat_sequence, heard_ns, heartbeat_ns;
	uint64_t first_ns;     /* by then the first attempt is decided */
	struct co *dialer;     /* its own coroutine, while it makes a TCP connection */
	unsigned silent_beats; /* of ours, since it was heard */
	unsigned denied; /* further sessions whose key or identity was wrong, on this connection: a server ends one with
			    several */
	uint32_t links_known; /* a bit for each link of a session of so many: it was out in the last one */
	uint64_t links_out[KV_SHARDS_MAX * KV_RAILS_MAX / 64];
	struct kvc_node_subs subs;
	struct kvc_node_pins pins;
	bool links_news; /* to be told with the next session: one of them is new */
};

/* ---- registered memory, as one client has it ---- */

struct kvc_client_mem {
	uint8_t *base;
	uint64_t len_bytes;
	struct te_region *region;
	uint32_t id, slot; /* slot: its place in kvc_node.acked */
	uint32_t users;    /* calls that use it */
	bool closing;      /* new calls do not see it */
	bool ready;        /* every server that is up knows it: calls may use it */
};

/* ---- client ---- */

struct kvc_client {
	struct kvc_pool *pool;
	unsigned index;
	struct loop *loop;
	struct boot_context *boot;
	struct te *te;
	struct te_info info;
	struct kv_area area;
	struct kv_numa_place place;
	uint64_t register_ns; /* that registering the buffer took */
	struct te_region *region;
	struct kvc_buffer buffer;
	struct kvc_reqs reqs;
	struct kvc_pulls pulls;
	struct kv_list releasing; /* links that have leases to give back */
	struct loop_timer release_timer;
	uint32_t imm_limit, imm_used;
	struct kvc_room_share nobody; /* views */
	uint64_t servers_bytes;       /* the sum of what the servers have */
	uint64_t room_scan;
	struct kv_list starving; /* struct kvc_starving: coroutines waiting for room, in order */
	uint32_t num_starving;
	struct kv_list dirty; /* links with something to send */
	uint32_t frames;      /* with the engine */
	struct co *flusher;
	struct loop_timer open_next, close_again;
	bool flusher_stop;
	uint32_t coroutines; /* of ours on the loop */
	struct co *closer;
	struct kvc_node *node;                    /* pool->num_servers of them */
	struct kvc_client_mem *mem[KVC_MEMS_MAX]; /* sorted by base */
	unsigned num_mems;
	bool fenced;          /* a fence of ours was done; the engine's report of it is to come */
	struct kv_list limbo; /* requests into memory of callers that an endpoint, not closed yet, may still write to */
	struct co_queue fence_over; /* who waits for endpoints to be closed; how often they were: */
	uint64_t fences_over;
	struct te_peer *zombie[KVC_ZOMBIES_MAX];
	unsigned num_zombies;
	struct kv_list orphans; /* requests that were given up and are not over, oldest first */
	uint64_t orphan_bytes;  /* of their pieces */
	uint64_t quarantine_ns; /* since when the buffer's quarantine is not empty */
	struct kvc_pins pins;
	struct kv_list subs;       /* struct kvc_sub: further sessions */
	uint32_t num_subs;         /* that were ever made */
	uint32_t calls;            /* in progress, and workers */
	uint32_t batches;          /* parts begun, for their turn (kvc_link_keep) */
	uint32_t parts, parts_max; /* of batches, in coroutines of their own; parts_max: its share of KVC_PARTS_MAX */
	uint64_t last_len;         /* of the last value read: a guess for the next where nothing better is known */
	bool opened, closing;
	uint64_t closing_ns; /* when it began */
	enum boot_mode mode;
	unsigned servers_up; /* first connections that succeeded; under the pool's lock */
	struct kvc_count count;
	struct kv_rate slow_lines;
};

/* kvc_req_now -- the time of the turn, or of this moment if somebody wants to know where the time of its call went. */
static inline uint64_t kvc_req_now(const struct kvc_client *c, const struct kvc_req *r)
{
	return KV_UNLIKELY(r->trace != NULL) ? loop_now(c->loop) : loop_turn_now(c->loop);
}

static inline const struct kv_log *kvc_client_log(const struct kvc_client *c)
{
	return kvc_pool_log(c->pool);
}

/* kvc_engine_options -- of the engines of all clients; `engine` is each one's own. */
struct te_options kvc_engine_options(const struct kvc_pool *pool);

/* kvc_client_open -- engine, buffer, nodes. On the loop's thread, outside any coroutine (providers want a real stack).
 * 0 or a code with *err; undone on failure. */
int kvc_client_open(struct kvc_client *c, struct kv_error *err);

/* kvc_client_close -- start closing; pool->on_closed follows. On the loop's thread. */
void kvc_client_close(struct kvc_client *c);

/* kvc_client_hold, kvc_client_unhold -- a call or a worker that the client's end has to wait for. */
void kvc_client_hold(struct kvc_client *c);
void kvc_client_unhold(struct kvc_client *c);

/* kvc_main_await -- run fn(arg) outside of coroutines, on the thread's own stack: for calls into providers that may
 * need more than a coroutine has. */
void kvc_main_await(struct kvc_client *c, void (*fn)(void *arg), void *arg);

/* kvc_client_fence_await -- nothing of the session's shard touches our memory any more when it returns, or, where
 * endpoints take long to close, from when kvc_client_fenced_await has returned, too. Where the engine can fence one
 * peer alone, the session has ended (its requests with -KV_ERESET, as safe), and its node alone gets a new one; else
 * all nodes do. */
void kvc_client_fence_await(struct kvc_client *c, struct kvc_session *s, unsigned shard);
void kvc_client_fenced_await(struct kvc_client *c);

/* kvc_client_reset -- the endpoints are gone or new, memory is safe, or will be when they are closed: end all requests
 * with -KV_ERESET, free the quarantine, redo all nodes. What is not safe yet waits in limbo. */
void kvc_client_reset(struct kvc_client *c);

/* kvc_client_mem_at -- the registration that holds [at, at + len) entirely, or NULL. */
struct kvc_client_mem *kvc_client_mem_at(struct kvc_client *c, const void *at, uint64_t len);

/* kvc_client_quarantine_full -- whether the budget for memory that peers may still write to is used up. */
bool kvc_client_quarantine_full(const struct kvc_client *c, uint64_t more_bytes);
void kvc_client_quarantine_count(struct kvc_client *c);

/* kvc_client_reclaim_await -- get back what requests that were given up long ago still hold. At every beat of a session
 * that is open, which may be reset by it. */
void kvc_client_reclaim_await(struct kvc_client *c, struct kvc_session *s);

/* ---- admission.c: what a request needs before it is made, all or nothing, first come first served ---- */

struct kvc_need {
	uint64_t piece_bytes; /* 0: no piece */
	uint64_t *next;       /* where the piece is to be, if possible (kvc_buffer_take_near); NULL: anywhere */
	uint32_t imms;        /* immediates at worst */
	bool urgent;          /* a PING: needs an entry alone, of those that are kept for it, and waits behind nobody */
	struct kvc_node *node; /* whose server it is for; NULL: not known yet (a view) */
	struct kvc_sub *sub; /* for kvc_call_room_await: whose request it is to be; NULL: the client's own session's */
};

/* kvc_room_limit -- the completion queues have other sizes now. Who waits for more than there is any more has
 * -KV_ERESET. */
void kvc_room_limit(struct kvc_client *c, uint32_t imms);
/* kvc_room_piece -- the most bytes of a range that a piece of the buffer is planned for: with several servers, a small
 * part of it. kvc_room_imms -- the most immediates that one request is planned with. */
uint64_t kvc_room_piece(const struct kvc_client *c);
uint32_t kvc_room_imms(const struct kvc_client *c);
/* kvc_room_return -- what a request had is free again: its immediates; its piece; its entry. */
void kvc_room_return_imms(struct kvc_client *c, struct kvc_req *r);
void kvc_room_return_piece(struct kvc_client *c, struct kvc_req *r);
void kvc_room_return(struct kvc_client *c, struct kvc_req *r);
/* kvc_room_not_out -- its piece does not count as on its way any more: it is about to become an orphan, or to give its
 * piece back. kvc_room_feed follows. */
void kvc_room_not_out(struct kvc_req *r);
/* kvc_room_keep -- a piece stays when its request goes: it is a view now. kvc_room_give -- and is given back. */
void kvc_room_keep(struct kvc_client *c, const struct kvc_piece *piece);
void kvc_room_give(struct kvc_client *c, struct kvc_piece *piece);

/* kvc_room_try -- 0 with *out, -KV_EBUSY, or -KV_ETOOBIG (never possible). kvc_room_await -- the same, waiting;
 * -KV_ETIMEOUT, -KV_ECLOSED, -KV_ERESET (to be planned anew: there are fewer immediates than were asked for). */
int kvc_room_try(struct kvc_client *c, const struct kvc_need *need, struct kvc_req **out);
int kvc_room_await(struct kvc_client *c, const struct kvc_need *need, uint64_t deadline_ns, struct kvc_req **out);
/* kvc_room_feed -- room may have become free: serve those who wait. kvc_room_close -- end all waits with -KV_ECLOSED.
 */
void kvc_room_feed(struct kvc_client *c);
void kvc_room_close(struct kvc_client *c);

/* ---- link.c ---- */

/* kvc_session_create -- 0; -KV_ENOMEM; -KV_EPROTO (TLS has no secret for us). */
int kvc_session_create(struct kvc_node *n, const struct wire_welcome_msg *w, unsigned links_per_shard,
		       struct kvc_session **out);
void kvc_session_unref(struct kvc_session *s);

/* kvc_link_submit -- queue a held request whose `wire` is filled (but for id, time and immediate). wait->left is
 * raised; it falls when the request is done. */
void kvc_link_submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait);

/* kvc_link_urgent -- the same for PING: goes before what waits and may use the reserved credits. */
void kvc_link_urgent(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait);

/* kvc_req_cancel -- the caller gives up: a queued request ends at once with `status`, for a sent one CANCEL goes out.
 */
void kvc_req_cancel(struct kvc_req *r, int status);

/* kvc_req_release -- the caller has no more use for a request in any state. A piece that may still be written is kept
 * until it is safe. A request over caller memory must be done. */
void kvc_req_release(struct kvc_client *c, struct kvc_req *r);

/* kvc_req_end -- it is done with this status (if it was not), and leaves the link once no message can refer to it. */
void kvc_req_end(struct kvc_client *c, struct kvc_req *r, int status);

/* kvc_link_credit -- a credit came back. */
void kvc_link_credit(struct kvc_link *l);

/* kvc_target_write -- copy n bytes from `from` into the slices of a target, behind its `skip`. */
void kvc_target_write(const struct kvc_target *t, const uint8_t *from, uint64_t n);

/* kvc_link_nonce -- what the server wants back from the address that we announced; 0: it has it. */
void kvc_link_nonce(struct kvc_link *l, uint64_t nonce);

/* kvc_link_dirty -- the link has something to send. */
void kvc_link_dirty(struct kvc_link *l);

/* kvc_req_settle -- something came for a request that is out: whether it is over. */
void kvc_req_settle(struct kvc_client *c, struct kvc_req *r);

/* kvc_link_pick -- a link of the shard of a session that is up: the next that works, in turn. */
struct kvc_link *kvc_link_pick(struct kvc_session *s, unsigned shard);
/* kvc_link_keep -- the same, and for the same turn always the same link while the session lasts. */
struct kvc_link *kvc_link_keep(struct kvc_session *s, unsigned shard, uint32_t turn);

/* kvc_session_fail -- end every request of the session with status. safe: nothing of the peer can touch memory any
 * more. */
void kvc_session_fail(struct kvc_session *s, int status, bool safe);

/* kvc_session_limbo -- the same, while the endpoint that they went over is given up and not closed (te_fencing):
 * requests that it may still move memory of callers for end when it is closed. kvc_req_limbo_end -- it is closed: end
 * this one of client.limbo, which it has left. */
void kvc_session_limbo(struct kvc_session *s, int status);
void kvc_req_limbo_end(struct kvc_client *c, struct kvc_req *r);

/* kvc_session_unsafe -- whether requests are out whose memory the peer may touch; *out_caller: some of it is the
 * caller's. */
bool kvc_session_unsafe(const struct kvc_session *s, uint64_t *out_bytes, bool *out_caller);

/* kvc_req_unsafe -- whether the peer may still move bytes of a request that is out. */
bool kvc_req_unsafe(const struct kvc_req *r);

/* kvc_link_flush -- send what waits on the dirty links. kvc_client_message, kvc_client_immediate -- te_handlers. */
void kvc_link_flush(struct kvc_client *c);
void kvc_client_message(void *arg, unsigned rail, const uint8_t *data, size_t len);
void kvc_client_immediate(void *arg, unsigned rail, uint32_t imm);
void kvc_client_room(void *arg);

/* ---- health.c ---- */

/* kvc_links_await -- ping all links of a session that is being set up: 0 when every shard has one that answered, and
 * all others had time to. Or a code with n->error. */
int kvc_links_await(struct kvc_node *n, uint64_t deadline_ns);
/* kvc_link_check -- at every beat: bring in a link that was out and answers; ask one that should have been heard. 0, or
 * why the session is to end, with n->error. */
int kvc_link_check(struct kvc_node *n, struct kvc_link *l, uint64_t now, uint64_t silence_ns);
/* kvc_link_lost -- what a link that is not up has sent is lost, as the fabric says: only PINGs. */
void kvc_link_lost(struct kvc_link *l, int status);

/* ---- node.c ---- */

void kvc_node_init(struct kvc_node *n, struct kvc_client *c,
		   unsigned index);     /* before any of the client's coroutines is started */
int kvc_node_start(struct kvc_node *n); /* spawn its coroutine */
/* kvc_node_redo -- the break is ours: drop the session and make a new one at once, while calls wait: on the same
 * control connection, if that is sound. Not for a server that is lost. why: for the log. kvc_node_redial -- the same
 * when the control connection is the trouble: a new one is made. */
void kvc_node_redo(struct kvc_node *n, const char *why);
void kvc_node_redial(struct kvc_node *n, const char *why);
/* kvc_node_part_await -- say goodbye by the deadline, or break off: its coroutine ends with the server's answer, or
 * after the next kvc_node_redo, since the client is closing. */
void kvc_node_part_await(struct kvc_node *n, uint64_t deadline_ns);
int kvc_node_send_await(struct kvc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns);
/* kvc_node_ready_await -- 0 with the open session; -KV_ELEFT; -KV_EPEERDOWN, or n->refusal instead; -KV_ETIMEOUT,
 * -KV_ECLOSED. */
int kvc_node_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_session **out);
/* kvc_node_down -- whether rc, which a call of this node ended with, says that it cannot be reached. */
bool kvc_node_down(const struct kvc_node *n, int64_t rc);
/* kvc_node_region_await -- announce a region (0 when the node is not up: it will be at the next connection). */
int kvc_node_region_await(struct kvc_node *n, struct te_region *region, uint32_t id, uint32_t slot,
			  uint64_t deadline_ns);
int kvc_node_revoke_await(struct kvc_node *n, uint32_t id, uint32_t slot, uint64_t deadline_ns);

#endif
