/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- what one WELCOME gave us, as plain data: an attachment and its links. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_LINK_H
#define KVRAIL_KVCLIENT_CORE_LINK_H

#include "base/base.h"
#include "engine/engine.h"
#include "kvclient/core/request.h"
#include "wire/wire.h"

struct kvc_node;

enum { KVC_RELEASES = 32 /* leases that a link gives back at a time */ };

/* The memory of a server's shards, and what its leases are read by. */
struct kvc_arenas {
	struct te_remote shard[KV_SHARDS_MAX];
	unsigned count; /* told so far */
	uint64_t keys;
	bool write_emulated, read_emulated; /* of any shard */
};

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

#endif
