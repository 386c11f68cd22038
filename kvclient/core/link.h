/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- an attachment (struct kvc_attachment, what one WELCOME gave us) and its links, as plain data. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_LINK_H
#define KVRAIL_KVCLIENT_CORE_LINK_H

#include "base/base.h"
#include "engine/engine.h"
#include "kvclient/core/request.h"
#include "wire/wire.h"

struct kvc_node;

enum { KVC_RELEASES = 32 /* leases that a link gives back at a time */ };

/* The memory of a server's shards, and the keys by which leases are read. */
struct kvc_arenas {
	struct te_remote shard[KV_SHARDS_MAX];
	unsigned count; /* shards that the server has told of so far */
	uint64_t keys;
	bool write_emulated, read_emulated; /* of any shard */
};

/* ---- a link: one rail of the client with one rail of a shard ---- */

struct kvc_link {
	struct kvc_attachment *attachment;
	struct kv_list dirty_node; /* the client's list of links with something to send */
	struct kv_list queue;      /* requests of the connection's own session that wait for a credit, in order */
	struct kv_list parked;     /* PUTs of `queue` whose turn came, and that wait for a place in the landing area */
	struct kv_list cancels;    /* requests whose CANCEL is to be sent */
	struct kv_list sent;       /* requests with ids out, oldest first */
	struct kv_list turns;      /* lanes of further sessions that may send, in order (request/lanes.c) */
	bool turn_own;             /* while there are lanes: it is the turn of `queue` */
	uint8_t turn_used;         /* requests sent in this turn */
	struct kvc_map map;
	struct kv_seal seal;
	uint64_t nonce; /* goes with every frame until an answer says that the server has it; 0: nothing to prove */
	bool prove_due; /* the nonce goes now, even without a request */
	uint64_t next_id;
	uint64_t heard_ns;                 /* when a reply last came over this link */
	uint32_t credits, reserve;         /* the last `reserve` credits are for CANCEL and PING */
	uint32_t frames;                   /* that the engine has */
	uint16_t shard, index;             /* of the shard's peer in the engine */
	uint8_t release[KVC_RELEASES * 8]; /* leases to give back, as they are sent */
	uint32_t releases;
	bool release_due;            /* they go now, even without a request */
	struct kv_list release_node; /* the client's list of links whose leases wait */
	uint32_t pushes;             /* writes of ours that the engine has */
	uint8_t passed;              /* requests that went in front of those in the background */
	bool stuck; /* the next request is a PUT that waits for the wire, or of a lane and for a place */
	bool up;    /* it answered a PING, so it may carry requests (conn/health.c) */
	uint64_t retry_ns, backoff_ns; /* of the PING of a link that is not up */
	struct kvc_req *probe;         /* a PING of the health check, and when it was made */
	struct kvc_wait probe_wait;
	uint64_t probe_ns;
	uint32_t probe_beats; /* beats of ours since then */
};

/* ---- an attachment: what one WELCOME gave us. It lives until its last frame was sent. ---- */

struct kvc_attachment {
	struct kvc_node *node;
	uint32_t refs; /* one of the node, one of each frame that the engine has, one of each read and write of ours,
			  one of each request in limbo, and one of a fence that runs because of it */
	bool open;     /* its peers are open and requests may go */
	bool served;   /* the node was UP with it, so requests with memory may be out */
	uint32_t number;
	uint8_t token[KV_TOKEN_LEN]; /* for proofs of further sessions where there is no TLS; it never crosses the
					fabric */
	uint64_t shard_seed, value_max;
	uint64_t out_max; /* bytes of pieces that may be on their way from it at a time, beyond a few requests
			     (request/admission.c) */
	uint32_t chunk_bytes, credits;
	uint16_t shards, rails, links_per_shard, flags;
	struct kvc_landing *landing; /* per shard; NULL: none, PUTs go in other ways */
	uint32_t packs;              /* that it has of the client's (request/pack.c) */
	bool pull;                   /* GETs ask for leases */
	struct kvc_arenas *arenas;   /* NULL: we do not know where the server's memory is */
	struct te_peer *peer[KV_SHARDS_MAX];
	uint64_t shard_turns[KV_SHARDS_MAX];      /* turns of the shards' loops, which heartbeats tell, and ... */
	uint64_t shard_turns_ns[KV_SHARDS_MAX];   /* when they last moved */
	uint32_t shard_turns_same[KV_SHARDS_MAX]; /* heartbeats since then that showed the same count */
	struct kv_macs macs[KV_SHARDS_MAX];       /* keys of the seals of a shard's links */
	uint32_t num_links;
	struct kvc_wait setup;  /* waits for the first PINGs of all links */
	uint32_t next_link;     /* the next link of a shard to be used, in turn */
	struct kvc_link link[]; /* shard by shard; behind them lie the bits of their windows */
};

#endif
