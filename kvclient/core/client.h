/* SPDX-License-Identifier: Apache-2.0 */
/* client.h -- the plain data of kvclient/ that all rooms read: clients, and their nodes. Private to the folder.
 *
 *   pool -> clients -> nodes -> session -> links -> requests
 *
 * Everything below a client belongs to the client's loop. The pool is shared: what may change after it was opened is
 * atomic or under its mutex, which no call on the data path takes. */
#ifndef KVRAIL_KVCLIENT_CORE_CLIENT_H
#define KVRAIL_KVCLIENT_CORE_CLIENT_H

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "host/host.h"
#include "kvclient/core/buffer.h"
#include "kvclient/core/count.h"
#include "kvclient/core/link.h"
#include "kvclient/core/pool.h"
#include "kvclient/core/request.h"
#include "kvclient/core/sub.h"
#include "kvclient/kvclient.h"
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

/* ---- pins (logical/pins.c) ---- */

/* Of a client: all pins of all its sessions, by key. */
struct kvc_pins {
	struct kv_list *bucket;  /* NULL: nothing was ever pinned */
	struct co_queue changed; /* woken when one that was being made again is not any more */
};

/* Of a node. */
struct kvc_node_pins {
	struct kv_list all;   /* those of the present connection behind those that are still to be made again */
	unsigned pinners;     /* coroutines that make them again */
	uint64_t again, lost; /* since they were last told of, for the log */
	int lost_rc;          /* why the last one that is lost could not be made again */
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

/* ---- reads of ours (request/pull.c) ---- */

struct kvc_pulls {
	struct kvc_pull *pull; /* NULL until a server is to be read from */
	struct kv_list free;
	uint32_t used;
};

/* ---- client ---- */

/* What requests may have together (request/admission.c). */
struct kvc_room {
	uint32_t imm_limit, imm_used;
	struct kvc_room_share nobody; /* views */
	uint64_t servers_bytes;       /* the sum of what the servers have */
	uint64_t scans;
	struct kv_list starving; /* struct kvc_starving: coroutines waiting for room, in order */
	uint32_t num_starving;
};

/* What is on its way out (request/link.h, frames.c, release.c). */
struct kvc_out {
	struct kv_list dirty; /* links with something to send */
	uint32_t frames;      /* with the engine */
	struct co *flusher;
	bool flusher_stop;
	struct kv_list releasing; /* links that have leases to give back */
	struct loop_timer release_timer;
};

/* What peers may still touch of requests that were given up, beside the buffer's quarantine (request/life.c, end.c,
 * fence.c). */
struct kvc_unsafe {
	struct kv_list orphans; /* requests that were given up and are not over, oldest first */
	uint64_t orphan_bytes;  /* of their pieces */
	uint64_t quarantine_ns; /* since when the buffer's quarantine is not empty */
	struct te_peer *zombie[KVC_ZOMBIES_MAX];
	unsigned num_zombies;
	bool fenced;          /* a fence of ours was done; the engine's report of it is to come */
	struct kv_list limbo; /* requests into memory of callers that an endpoint, not closed yet, may still write to */
	struct co_queue over; /* who waits for endpoints to be closed; how often they were: */
	uint64_t times_over;
};

struct kvc_link_events;
struct kvc_node_events;
struct kvc_pin_ops;

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
	struct kvc_room room;
	struct kvc_out out;
	struct kvc_unsafe unsafe;
	struct loop_timer open_next, close_again;
	uint32_t coroutines; /* of ours on the loop */
	struct co *closer;
	struct kvc_node *node;                    /* pool->num_servers of them */
	struct kvc_client_mem *mem[KVC_MEMS_MAX]; /* sorted by base */
	unsigned num_mems;
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
	/* What the rooms below the one that fills them call: set before the first node is made. */
	const struct kvc_link_events *link_events; /* request/link.h */
	const struct kvc_node_events *node_events; /* conn/node.h */
	const struct kvc_pin_ops *pin_ops;         /* logical/pins.h */
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

/* kvc_link_client -- the client of a link. */
static inline struct kvc_client *kvc_link_client(const struct kvc_link *l)
{
	return l->session->node->client;
}

/* kvc_node_name -- the server as the user's list names it. */
static inline const char *kvc_node_name(const struct kvc_node *n)
{
	return n->client->pool->server[n->index].entry.text;
}

static inline const struct kv_log *kvc_node_log(const struct kvc_node *n)
{
	return kvc_client_log(n->client);
}

/* kvc_node_uses -- whether s is still the session to use, after parking. */
static inline bool kvc_node_uses(const struct kvc_node *n, const struct kvc_session *s)
{
	return n->state == KVC_NODE_UP && n->session == s;
}

/* kvc_client_hold, kvc_client_unhold -- a call or a worker that the client's end has to wait for. On its loop. */
void kvc_client_hold(struct kvc_client *c);
void kvc_client_unhold(struct kvc_client *c);

/* kvc_client_began, kvc_client_ended -- a coroutine of the client's own, which its end has to wait for, too. On its
 * loop. */
void kvc_client_began(struct kvc_client *c);
void kvc_client_ended(struct kvc_client *c);

/* kvc_main_await -- run fn(arg) outside of coroutines, on the thread's own stack: for calls into providers that may
 * need more than a coroutine has. */
void kvc_main_await(struct kvc_client *c, void (*fn)(void *arg), void *arg);

#endif
