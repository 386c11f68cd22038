/* SPDX-License-Identifier: Apache-2.0 */
/* client.h -- clients and their nodes: the plain data that all rooms of kvclient/ read. Private to kvclient/.
 *
 *   pool -> clients -> nodes -> attachment (struct kvc_attachment) -> links -> requests
 *
 * Everything below a client belongs to the client's loop. The pool is shared: what may change after it was opened is
 * atomic or under its mutex, which no call on the data path takes. */
#ifndef KVRAIL_KVCLIENT_CORE_CLIENT_H
#define KVRAIL_KVCLIENT_CORE_CLIENT_H

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "host/host.h"
#include "kvclient/core/asking.h"
#include "kvclient/core/buffer.h"
#include "kvclient/core/carry.h"
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
	KVC_REQS = 2048,          /* request entries of one client */
	KVC_FRAMES = 256,         /* send buffers */
	KVC_CREDITS_MAX = 4096,   /* of one link: what a WELCOME grants beyond that is not used */
	KVC_IDS_MAX = 1 << 18,    /* of all links of an attachment together: it bounds their maps (8 MiB) */
	KVC_REGION_BUFFER = 1,    /* region id of the receive buffer */
	KVC_MEMS_MAX = 256,       /* registrations of one pool */
	KVC_ROW_BYTES = 64 << 10, /* room for small items of a batch, side by side */
	KVC_LINK_OUT = 1 << 20,   /* bytes of pieces that one link to a server on this host brings at a time */
	KVC_PARTS_MAX = 4096 /* coroutines of one loop for parts of batches: they leave some for workers and calls */
};

#define KVC_PART_NS 1000000000ull /* how long the goodbyes of a client that closes may take */

/* ---- pins (logical/pins.c) ---- */

/* Of a client: all pins of all its sessions, by key. */
struct kvc_pins {
	struct kv_list *bucket;  /* NULL: nothing was ever pinned */
	struct co_queue changed; /* woken when a pin is no longer being made again or moved */
	/* Each is in one of these: not to be looked at, to be looked at by the coroutine that moves pins, and to be
	 * looked at from late_ns on, since it could not be moved. */
	struct kv_list rest, todo, late;
	uint64_t late_ns;
	bool moving; /* that coroutine runs (copies/pin_move.c) */
};

/* Of a node. */
struct kvc_node_pins {
	struct kv_list all;   /* those that are still to be made again come before those of the present connection */
	unsigned pinners;     /* coroutines that make pins again */
	uint64_t again, lost; /* since the log was last told of them */
	int lost_rc;          /* why the last lost pin could not be made again */
};

/* ---- what the requests to one server have of the client's room ---- */

struct kvc_room_share {
	uint32_t reqs, imms;
	uint64_t bytes;
	uint32_t out; /* pieces of requests that are not given up, and bytes of these pieces */
	uint64_t out_bytes;
	uint32_t waiting;                                  /* requests that wait for a piece */
	uint32_t background;                               /* requests in the background, of reqs */
	uint64_t counts_scan, piece_scan, background_scan; /* admission.c */
};

/* ---- node: one client's side of one server. node.c draws how its states follow each other. ---- */

enum kvc_node_state {
	KVC_NODE_NEW,        /* its coroutine was not started */
	KVC_NODE_CONNECTING, /* the first attempt, or one after a redo (node.c): calls wait */
	KVC_NODE_UP,
	KVC_NODE_DOWN,  /* calls go to other servers at once; attempts go on in the background */
	KVC_NODE_CLOSED /* its coroutine has ended */
};

/* How far a control connection has come. */
enum kvc_control_stage {
	KVC_CONTROL_DIALLED,  /* it had no WELCOME */
	KVC_CONTROL_WELCOMED, /* it had one, and no attachment that was up */
	KVC_CONTROL_USED      /* it had an attachment that was up */
};

/* The control connection (conn/connect.c). */
struct kvc_node_control {
	struct boot_conn *conn;
	enum kvc_control_stage stage;
	bool spent;       /* it is of no more use: the next attempt dials */
	unsigned hellos;  /* HELLOs that were not answered yet: each will be, in order */
	unsigned senders; /* coroutines inside boot_send_await: they keep it from being closed */
	unsigned denied; /* further sessions whose key or identity was wrong: a server ends a connection with several */
};

/* Attempts to attach (conn/connect.c). */
struct kvc_node_attempt {
	struct co *dialer;       /* the node's coroutine, while it makes a TCP connection */
	uint64_t first_ns;       /* by then the first attempt is decided */
	bool first_told;         /* the pool was told how it went */
	unsigned failures;       /* since the last attachment */
	struct wire_prior prior; /* the last attachment, if the server may have something of it under way and its next
				    WELCOME is to wait for the end of that */
};

/* Why a server that is there does not take us (conn/serve.c). */
struct kvc_node_refusal {
	int code; /* as calls are told it; 0: the last attempt ended otherwise */
};

/* How far the server and we have parted (conn/serve.c). */
enum kvc_goodbye {
	KVC_GOODBYE_NONE,
	KVC_GOODBYE_HEARD, /* the server said it, and was not there again since */
	KVC_GOODBYE_SAID   /* and so did we, when nothing of ours was under way there any more */
};

/* Whether the control connection is alive (conn/serve.c). */
struct kvc_node_pulse {
	uint64_t beat_ns;  /* between two looks whether the server is to be asked */
	uint64_t quiet_ns; /* so long the server may be silent if it is not asked */
	uint64_t sequence; /* of our last heartbeat, which asks */
	uint64_t heard_ns; /* when the server was last heard; 0: never */
	uint64_t said_ns;  /* when we last said something */
	uint64_t asked_ns; /* when we asked, not heard since; 0: we have not */
	uint64_t wait_ns;  /* ... and since when something of ours had waited for the server then */
	unsigned silent;   /* looks since it owes us a word (conn/serve.c) */
};

/* What the server knows of our memory (conn/regions.c). Slot 0 is the receive buffer's. */
struct kvc_node_regions {
	/* Region id that the server knows slot i by, or is told while connecting; 0: none. */
	uint32_t acked[KVC_MEMS_MAX + 2];
	struct kvc_refused {
		uint32_t id;
		int32_t status;
	} refused[KVC_MEMS_MAX + 2]; /* the last region of slot i that the server did not take */
	unsigned revokes;            /* REVOKEs that were not answered yet */
};

/* Which links do not work (conn/health.c). */
struct kvc_node_links {
	uint32_t known;                                  /* links of the last attachment, which the bits are of */
	uint64_t out[KV_SHARDS_MAX * KV_RAILS_MAX / 64]; /* a bit for each that was out in it */
	bool news; /* one of them is new: the log is told with the next attachment */
};

/* The server was asked to drain (call/drain.c). */
struct kvc_node_drain {
	unsigned asked; /* questions that are not answered, on this control connection */
	bool answered;  /* one was, on this control connection */
	bool done;      /* `drained` has come since the last question */
	struct kv_drained drained;
	uint64_t time_ms; /* the last answer: it may take so long; 0: none since the last question */
};

/* Which member it is, where the view has another address than the user's list (conn/alias.c). */
struct kvc_node_alias {
	uint64_t first;                /* hash of the address that is dialled first; 0: the first of the list */
	uint64_t dialled, next;        /* of the connection: its address, and the one behind it in the list; 0: none */
	uint64_t at[KV_ADDRESSES_MAX]; /* hashes of the addresses that its host had when it was looked up last */
	unsigned count;
	char id[KV_NAME_MAX]; /* of the member; "": unknown */
};

struct kvc_node {
	struct kvc_client *client;
	unsigned index;
	enum kvc_node_state state;
	struct kvc_attachment
		*attachment;  /* while it is set up, UP, and after that until it is dropped (conn/serve.c) */
	uint64_t down_ns;     /* while DOWN: since when */
	bool link_silent;     /* one of its links was the only one to its shard, and silent: the attachment ends */
	uint64_t patience_ns; /* while CONNECTING: from then on calls go elsewhere, if they can (conn/node.c) */
	/* The view has it no more. No call goes there. One of the user's list rests: it asks for the view if all others
	 * are DOWN. One that came with a view ends. */
	bool retired;
	bool joined;                 /* it came with a view */
	bool unstarted;              /* there was no coroutine for it yet */
	bool ending;                 /* its coroutine is about to end */
	char member_id[KV_NAME_MAX]; /* its server's node id, as the view has it; "": there is no view */
	char where[KV_WHERE_MAX];    /* its server's addresses, as the view has them; "": those of the pool's table */
	bool drains;                 /* it has said so itself */
	const char *redo;        /* why the attachment is to be dropped and a new one made at once; NULL: it is not */
	struct co_queue changed; /* woken at every change of state or of an acknowledgement */
	struct co_queue kick;    /* wakes its own coroutine: from a pause, or from a wait for control.senders */
	struct kvc_node_control control;
	struct kvc_node_attempt attempt;
	struct kvc_node_refusal refusal;
	bool trouble[KVC_TROUBLES]; /* that it has with its server (told.h) */
	enum kvc_goodbye goodbye;
	struct kvc_node_pulse pulse;
	struct kvc_node_regions regions;
	struct kvc_node_links links;
	struct kvc_room_share share;
	struct kvc_node_sessions sessions;
	struct kvc_node_pins pins;
	struct kvc_node_drain drain;
	struct kvc_node_alias alias;
	uint64_t owed_from; /* the first DELETE that it has not heard of (conn/owed.c) */
	uint64_t attaches;  /* attachments that were UP: the number of the last one, which may be in use */
	/* Told by kvc_server_info, as is `attaches`. */
	uint64_t incarnation;
	bool welcomed;             /* it has said once which cluster it is of */
	char cluster[KV_NAME_MAX]; /* that; "": of none */
	struct kvc_clock clock;    /* of the server, in its present attachment */
	bool restarted;            /* since the last attachment that was UP */
	uint64_t settled_ns;       /* when it counts as restarted no longer (route/view.c) */
	uint64_t present_ns;       /* when it counts as absent no longer; UINT64_MAX: it is absent (conn/node.c) */
	char node_id[KV_NAME_MAX];
	uint64_t connects, fences, ping_ns;
	struct kv_error error; /* why the last attempt failed, or the attachment ends */
	char why[512];         /* what went wrong last; empty while UP */
};

/* ---- registered memory, as one client has it ---- */

struct kvc_client_mem {
	uint8_t *base;
	uint64_t len_bytes;
	struct te_region *region;
	uint32_t id, slot; /* slot: its place in kvc_node_regions */
	uint32_t users;    /* calls that use it */
	bool closing;      /* new calls do not use it */
	bool ready;        /* every server that is up knows it, so calls may use it */
};

/* ---- client ---- */

enum {
	KVC_FORMER_PLACES = 4, /* older placements that are kept */
	KVC_FORMERS_ASKED = 2  /* former servers that a miss is asked for at, at most */
};

/* A placement that was in force before a view came (route/view.c). */
struct kvc_former_place {
	struct kvc_place place;
	uint64_t until_ns; /* so long misses are asked for where it has their keys */
};

/* The view of the cluster, as this client has it (route/view.c). */
struct kvc_cluster {
	struct kv_view view;      /* in force; epoch 0: none, and keys are placed by the user's list */
	kv_u128 digest;           /* of it; 0: none */
	struct kv_view held;      /* heard before it had its majority, or one that cannot be used yet */
	kv_u128 held_digest;      /* of it; 0: none */
	struct kvc_votes votes;   /* what servers announce */
	struct kvc_choice wanted; /* the view that has its majority, and is to be asked for; digest 0: none */
	uint64_t opening_ns;      /* until then servers that may still answer are waited for */
	uint64_t differ_ns;       /* since when servers announce other views than the one in force; 0: none does */
	bool differ_said;         /* ... and the log knows */
	bool reached;             /* a server has answered since none was up */
	bool listed;              /* the list placed keys: a server was up before there was a view */
	struct kvc_place place;   /* of keys on the members of the view */
	struct kvc_carry carry;   /* of notes to it ... */
	bool carrying;            /* ... by a coroutine */
	struct kvc_place_set draining, joining, restarted;
	struct kvc_place_set
		absent; /* others stand in for them, or did lately: they may have their keys (conn/node.c) */
	struct kvc_former_place former[KVC_FORMER_PLACES]; /* the newest first */
	unsigned num_former;
	bool said;   /* the log knows why the view that is held is not taken */
	bool posted; /* another client of the pool has told us a view (pool->view). Under the pool's lock */
	struct kvc_asking asking;
	uint64_t asked;         /* times that a server was asked for its view because it had news */
	uint64_t looked_ns;     /* when kvc_cluster_look last looked */
	uint32_t naming_number; /* as of kvc_naming_number: nodes are of the cluster in force */
};

/* What calls wait for besides their requests and room (core/waits.c). */
struct kvc_waits {
	struct kv_list all;
	struct co_queue time; /* of those that let time pass: nothing else wakes it */
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
	uint64_t register_ns; /* how long registering the buffer took */
	struct te_region *region;
	struct kvc_buffer buffer;
	struct kvc_reqs reqs;
	struct kvc_waits waits;
	struct loop_timer open_next, close_again;
	uint32_t coroutines; /* of the client's own, on the loop */
	struct co *closer;
	struct kvc_node *node;             /* pool->room of them, of which the first num_nodes ... */
	unsigned num_nodes;                /* ... are, or were, in use; it never shrinks */
	unsigned nodes_up;                 /* that are UP */
	const struct kvc_place *placement; /* the pool's, or cluster.place */
	struct kvc_cluster cluster;
	/* What these files have of their own. */
	struct kvc_requests *requests;            /* request/ */
	struct kvc_repairs *repairs;              /* route/repair.c; NULL: no value was ever found elsewhere */
	struct kvc_seconds *seconds;              /* copies/second_put.c; NULL: no second copy was made yet */
	struct kvc_hots *hot;                     /* route/hot.c; NULL: the pool copies no hot values */
	struct kvc_oweds *owed;                   /* conn/owed.c */
	void (*repair_main)(void *client);        /* the coroutine that copies (copies/copy.c) */
	struct kvc_place_set avoided;             /* nodes that are DOWN (kvc_node_set) */
	struct kvc_place_set shunned;             /* these and those of draining servers */
	struct kvc_client_mem *mem[KVC_MEMS_MAX]; /* sorted by base */
	unsigned num_mems;
	struct kvc_pins pins;
	struct kv_list sessions; /* struct kvc_session: further sessions */
	uint32_t num_sessions;   /* sessions that were ever made */
	uint32_t calls;          /* calls in progress, and workers */
	uint32_t batches;        /* parts of batches that were ever begun: their turn (kvc_link_keep) */
	uint32_t parts,
		parts_max; /* parts of batches that run in coroutines of their own, and their share of KVC_PARTS_MAX */
	uint64_t reader_turn; /* whose turn it is of the two servers of a hot key (route/second.c) */
	uint64_t last_len;    /* of the last value read: a guess for the next one where nothing better is known */
	bool opened, closing;
	enum boot_mode mode;
	struct kvc_attempts attempts; /* under the pool's lock */
	struct kvc_count count;
	struct kv_rate slow_lines;
	/* What a room below calls in a room above. Set before the first node is made. */
	const struct kvc_link_events *link_events; /* request/link.h */
	const struct kvc_node_events *node_events; /* conn/node.h */
	const struct kvc_pin_ops *pin_ops;         /* logical/pins.h */
};

/* kvc_key_valid -- whether the key may be asked for. */
static inline bool kvc_key_valid(struct kvc_key key)
{
	return key.data && key.len - 1 < KV_KEY_MAX;
}

/* kvc_req_now -- the time of the loop's turn; or of this moment, if the call is traced. */
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
	return l->attachment->node->client;
}

/* kvc_node_name -- the name of the server in the user's list. */
static inline const char *kvc_node_name(const struct kvc_node *n)
{
	return n->client->pool->server[n->index].entry.text;
}

static inline const struct kv_log *kvc_node_log(const struct kvc_node *n)
{
	return kvc_client_log(n->client);
}

/* kvc_node_uses -- whether the node is up with this attachment: its `attaches` is still what the caller read from it
 * before parking. The address does not tell: the next attachment may lie where the last one lay. Ask again after
 * parking. */
static inline bool kvc_node_uses(const struct kvc_node *n, uint64_t attaches)
{
	return n->state == KVC_NODE_UP && n->attaches == attaches;
}

/* kvc_client_hold, kvc_client_unhold -- a call or a worker begins and ends; the client's end waits for it. On its loop.
 */
void kvc_client_hold(struct kvc_client *c);
void kvc_client_unhold(struct kvc_client *c);

/* kvc_client_began, kvc_client_ended -- a coroutine of the client's own begins and ends; the client's end waits for it,
 * too. On its loop. */
void kvc_client_began(struct kvc_client *c);
void kvc_client_ended(struct kvc_client *c);

/* kvc_main_await -- run fn(arg) outside of coroutines, on the thread's own stack: for calls into providers that may
 * need more stack than a coroutine has. */
void kvc_main_await(struct kvc_client *c, void (*fn)(void *arg), void *arg);

#endif
