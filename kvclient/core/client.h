/* SPDX-License-Identifier: Apache-2.0 */
/* client.h -- clients and their nodes: the plain data of kvclient/. Private to kvclient/.
 *
 *   pool -> clients -> nodes -> attachment -> links -> requests
 *
 * Everything below a client belongs to the client's loop. Pool fields that change after opening are atomic or under its
 * mutex, which no call on the data path takes. */
#ifndef KVRAIL_KVCLIENT_CORE_CLIENT_H
#define KVRAIL_KVCLIENT_CORE_CLIENT_H

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "host/host.h"
#include "kvclient/core/buffer.h"
#include "kvclient/core/clock.h"
#include "kvclient/core/count.h"
#include "kvclient/core/link.h"
#include "kvclient/core/pool.h"
#include "kvclient/core/request.h"
#include "kvclient/core/session.h"
#include "kvclient/core/votes.h"
#include "kvclient/kvclient.h"
#include "loop/loop.h"
#include "wire/wire.h"

enum {
	KC_REQS = 2048,
	KC_FRAMES = 256,       /* send buffers */
	KC_CREDITS_MAX = 4096, /* of one link */
	KC_IDS_MAX = 1 << 18,  /* per attachment: bounds its maps (8 MiB) */
	KC_REGION_BUFFER = 1,
	KC_MEMS_MAX = 256,       /* registrations of one pool */
	KC_ROW_BYTES = 64 << 10, /* room for small items of a batch */
	KC_LINK_OUT = 1 << 20,   /* in flight per link to a server on this host */
	KC_PARTS_MAX = 4096      /* coroutines of one loop for parts of batches */
};

#define KC_PART_NS 1000000000ull

struct kc_room_share {
	uint32_t reqs, imms;
	uint64_t bytes;
	uint32_t out; /* pieces and bytes of requests not given up */
	uint64_t out_bytes;
	uint32_t waiting;
	uint32_t background;                               /* of reqs */
	uint64_t counts_scan, piece_scan, background_scan; /* admission.c */
};

/* ---- node: one client's side of one server. States: node.c. ---- */

enum kc_node_state {
	KC_NODE_NEW,
	KC_NODE_CONNECTING, /* first attempt, or one after a redo: calls wait */
	KC_NODE_UP,
	KC_NODE_DOWN, /* calls use other servers; attempts continue */
	KC_NODE_CLOSED
};

enum kc_control_stage {
	KC_CONTROL_DIALLED,
	KC_CONTROL_WELCOMED, /* had a WELCOME */
	KC_CONTROL_USED      /* had an attachment that was up */
};

struct kc_node_control {
	struct boot_conn *conn;
	enum kc_control_stage stage;
	bool spent;       /* the next attempt dials */
	unsigned hellos;  /* unanswered HELLOs; answers come in order */
	unsigned senders; /* coroutines inside boot_send_await: do not close it */
	unsigned denied;  /* sessions refused for a wrong key or identity */
};

enum kc_goodbye {
	KC_GOODBYE_NONE,
	KC_GOODBYE_HEARD, /* and it has not returned since */
	KC_GOODBYE_SAID   /* with nothing of ours under way there */
};

/* The server was asked to drain (call/drain.c). */
struct kc_node_drain {
	unsigned asked; /* unanswered questions on this control connection */
	bool answered;  /* on this control connection */
	bool done;      /* `drained` has come since the last question */
	struct kv_drained drained;
	uint64_t time_ms; /* announced duration; 0: no answer since the last question */
};

struct kc_node {
	struct kvc_client *client;
	unsigned index;
	enum kc_node_state state;
	struct kc_attachment *attachment; /* from set-up until it is dropped (conn/serve.c) */
	/* Not in the view: no new calls. A listed node rests (conn/serve.c); one from a view ends. */
	bool retired;
	bool joined;    /* from a view */
	bool unstarted; /* no coroutine could be had yet */
	bool ending;
	char member_id[KV_NAME_MAX]; /* node id in the view; "": no view */
	char where[KV_WHERE_MAX];    /* addresses in the view; "": those of the pool's table */
	bool drains;                 /* by its own report */
	const char *redo;            /* reason to attach anew; NULL: none */
	struct co_queue changed;     /* woken at each change of state or acknowledgement */
	struct co_queue kick;        /* wakes its coroutine */
	struct kc_node_control control;
	struct kc_node_own *own; /* data of conn/ alone (conn/private.h) */
	int refusal;             /* code for calls while a live server refuses us; 0: none */
	enum kc_goodbye goodbye;
	struct kc_room_share share;
	struct kc_node_sessions sessions;
	struct kc_node_pins *pins; /* logical/private.h */
	struct kc_node_drain drain;
	uint64_t attaches;       /* attachments so far UP; identifies the last */
	uint64_t lease_again_ns; /* a server on this host gave no lease: before, ask for smaller ones only ... */
	uint64_t lease_refused;  /* ... than this, the least length of a value that it refused */
	/* For kvc_server_info, as is `attaches`. */
	uint64_t incarnation;
	char cluster[KV_NAME_MAX]; /* "": none */
	struct kc_clock clock;     /* of the server, per attachment */
	bool restarted;            /* since the last attachment that was UP */
	uint64_t settled_ns;       /* end of its time as restarted (route/view.c) */
	uint64_t present_ns;       /* end of its time as absent; UINT64_MAX: absent (conn/node.c) */
	char node_id[KV_NAME_MAX];
	uint64_t fences;
	struct kv_error error; /* of the last attempt, or the attachment's end */
	char why[512];
};

/* ---- registered memory ---- */

struct kc_client_mem {
	uint8_t *base;
	uint64_t len_bytes;
	struct te_region *region;
	uint32_t id, slot; /* slot: its place in the nodes' tables */
	uint32_t users;    /* calls that use it */
	bool closing;      /* no new calls */
	bool ready;        /* all UP servers know it */
};

/* ---- client ---- */

struct kc_client_life {
	struct loop_timer open_next, close_again;
	uint32_t coroutines; /* of the client itself */
	struct co *closer;
};

/* Sums over the nodes. */
struct kc_nodes {
	struct kc_node_own *own;     /* pool->room of them: their data of conn/ */
	unsigned up;                 /* count */
	struct kc_place_set avoided; /* DOWN nodes (kc_node_set) */
	struct kc_place_set shunned; /* these and draining ones */
};

struct kc_client_mems {
	struct kc_client_mem *at[KC_MEMS_MAX]; /* sorted by base */
	unsigned count;
};

struct kc_batches {
	uint32_t begun;            /* parts ever begun: their turn (kc_link_keep) */
	uint32_t parts, parts_max; /* in their own coroutines; parts_max: share of KC_PARTS_MAX */
};

/* A call leaves this to the next one. */
struct kc_hints {
	uint64_t begun_ns;    /* when the call that begins next was begun by its thread; 0: now */
	uint64_t reader_turn; /* turn between a hot key's two servers (route/second.c) */
	uint64_t last_len;    /* of the last value read: a guess for the next */
};

/* The client's view of the cluster, as other rooms read it; only route/ writes it. */
struct kc_cluster {
	struct kv_view view;   /* in force; epoch 0: none, the user's list places keys */
	kv_u128 digest;        /* of it; 0: none */
	kv_u128 held_digest;   /* of a view without a majority yet, or not usable yet; 0: none */
	struct kc_votes votes; /* the servers' announcements */
	struct kc_place place;
	struct kc_place_set draining, joining, restarted;
	struct kc_place_set absent; /* have, or lately had, stand-ins, which may have their keys (conn/node.c) */
	unsigned num_former;        /* former placements */
	uint64_t left_ns;           /* when a member last left the view; 0: never */
	bool posted;                /* another client has posted a view (pool->views.posted). Under the pool's lock */
	struct kc_cluster_own *own; /* route/private.h */
};

/* Waits other than for requests and room (core/waits.c). */
struct kc_waits {
	struct kv_list all;
	struct co_queue time; /* of timed waits: nothing else wakes it */
};

/* Calls that go up, from a room to one above it: where a plain call would make a circle of rooms, which
 * scripts/check-rooms.py refuses. Set once, before the first node (pool/client.c). Only *_await parks. */
struct kc_hooks {
	/* From conn/. attachment_gone: with its sessions. node_ended: its place is free. */
	void (*node_up)(struct kc_node *n);
	void (*node_beat)(struct kc_node *n);
	void (*attachment_gone)(struct kc_node *n);
	void (*node_ended)(struct kc_node *n);
	/* A message about sessions. 0, or -KV_EPROTO: it answers no question of ours. */
	int (*session_message)(struct kc_node *n, const struct wire_ctrl_msg *m);
	/* The server's view (the call may keep it) and whether it drains, or its announcement of one. Both may begin
	 * nodes and retire this one. */
	void (*view_came)(struct kc_node *n, struct kv_view *view, bool draining);
	void (*view_announced)(struct kc_node *n, const struct wire_view_news *news);
	bool (*view_asked)(struct kc_node *n);   /* whether to ask for its view now */
	bool (*view_awaited)(struct kc_node *n); /* while attaching: other servers decide first */
	/* The server's answer to a question for events. */
	void (*events_came)(struct kc_node *n, const struct wire_events *v);
	/* From request/: our own break (endpoints rebuilt, a frame not sent, requests never answered): attach again at
	 * once. why: a constant, for the log. On any stack. May end requests of an attachment still being set up. */
	void (*node_redo)(struct kc_node *n, const char *why);
	/* From logical/: pin the key at the node for a session (NULL: the client's own), by the pool's timeout; retries
	 * within the attachment. The key stays valid. */
	int (*pin_await)(struct kc_node *n, struct kvc_session *session, struct kvc_key key);
	void (*unpin_await)(struct kc_node *n, struct kvc_session *session, struct kvc_key key);
	/* Coroutines of the client in copies/: those that move pins, and make repairs. */
	void (*pins_move_main)(void *client);
	void (*repair_main)(void *client);
};

struct kvc_client {
	struct kvc_pool *pool;
	unsigned index;
	struct loop *loop;
	struct boot_context *boot;
	struct te *te;
	struct te_info info;
	struct kv_area area;
	struct kv_numa_place place;
	uint64_t register_ns;
	struct te_region *region;
	struct kc_buffer buffer;
	struct kc_reqs reqs;
	struct kc_waits waits;
	struct kc_client_life life;
	struct kc_node *node; /* pool->room of them */
	unsigned num_nodes;   /* in use, now or before; never shrinks */
	struct kc_nodes nodes;
	const struct kc_place *placement; /* the pool's, or cluster.place */
	struct kc_cluster cluster;
	/* Private data of other files; NULL: not needed yet. */
	struct kc_requests *requests; /* request/ */
	struct kc_repairs *repairs;   /* route/repair.c */
	struct kc_seconds *seconds;   /* copies/second_put.c */
	struct kc_sealer *sealer;     /* seal/; NULL: values are not sealed */
	struct kc_hots *hot;          /* route/hot.c; NULL: no hot copies */
	struct kc_oweds *owed;        /* conn/deletes_owed.c */
	struct kvc_events *events;    /* call/events.c */
	struct kc_client_mems mems;
	struct kc_pins *pins;    /* logical/private.h */
	struct kv_list sessions; /* struct kvc_session */
	uint32_t num_sessions;   /* ever made */
	uint32_t calls;          /* and workers */
	struct kc_batches batches;
	struct kc_hints hints;
	bool opened, closing;
	enum boot_mode mode;
	struct kc_attempts attempts; /* under the pool's lock */
	struct kc_count count;
	struct kv_rate slow_lines;
	const struct kc_hooks *hooks;
};

static inline bool kc_key_valid(struct kvc_key key)
{
	return key.data && key.len - 1 < KV_KEY_MAX;
}

/* kc_req_now -- the time of the loop's turn; for traced calls the exact time. */
static inline uint64_t kc_req_now(const struct kvc_client *c, const struct kc_req *r)
{
	return KV_UNLIKELY(r->trace != NULL) ? loop_now(c->loop) : loop_turn_now(c->loop);
}

static inline const struct kv_log *kc_client_log(const struct kvc_client *c)
{
	return kc_pool_log(c->pool);
}

static inline struct kvc_client *kc_link_client(const struct kc_link *l)
{
	return l->attachment->node->client;
}

/* kc_node_name -- the server's name in the user's list. */
static inline const char *kc_node_name(const struct kc_node *n)
{
	return n->client->pool->server[n->index].entry.text;
}

static inline const struct kv_log *kc_node_log(const struct kc_node *n)
{
	return kc_client_log(n->client);
}

/* kc_node_uses -- whether the node is UP with attachment number `attaches`, as read before parking. */
static inline bool kc_node_uses(const struct kc_node *n, uint64_t attaches)
{
	return n->state == KC_NODE_UP && n->attaches == attaches;
}

/* kc_client_hold, kc_client_unhold -- a call or worker begins and ends; closing waits for it. On its loop. */
void kc_client_hold(struct kvc_client *c);
void kc_client_unhold(struct kvc_client *c);

/* kc_client_began, kc_client_ended -- the same for the client's own coroutines. */
void kc_client_began(struct kvc_client *c);
void kc_client_ended(struct kvc_client *c);

/* kc_main_await -- run fn(arg) on the thread's own stack, for provider calls that need much. */
void kc_main_await(struct kvc_client *c, void (*fn)(void *arg), void *arg);

#endif
