/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- an attachment (the result of one WELCOME) and its links, as plain data. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_LINK_H
#define KVRAIL_KVCLIENT_CORE_LINK_H

#include "base/base.h"
#include "engine/engine.h"
#include "kvclient/core/request.h"
#include "wire/wire.h"

struct kc_local;
struct kc_node;

enum { KC_RELEASES = 32 };

/* A server's memory, and the keys to read leases. */
struct kc_arenas {
	struct te_remote shard[KV_SHARDS_MAX];
	unsigned count; /* shards announced so far */
	uint64_t keys;
	bool write_emulated, read_emulated;
};

/* ---- a link: one rail of the client with one rail of a shard ---- */

/* Leases to give back (request/release.c). */
struct kc_releases {
	uint8_t lease[KC_RELEASES * 8]; /* in wire form */
	uint32_t count;
	bool due;            /* send them even without a request */
	struct kv_list node; /* client's links with such leases */
};

/* The health check's PING (conn/health.c). */
struct kc_probe {
	struct kc_req *req; /* NULL: none is out */
	struct kc_wait wait;
	uint64_t begun_ns;
	uint32_t beats; /* since then */
};

struct kc_link {
	struct kc_attachment *attachment;
	struct kv_list dirty_node; /* client's links with something to send */
	struct kv_list queue;      /* the connection's own session: waiting for a credit */
	struct kv_list parked;     /* PUTs of `queue` that wait for a landing place */
	struct kv_list cancels;    /* requests with a CANCEL to send */
	struct kv_list sent;       /* oldest first */
	struct kv_list turns;      /* lanes of further sessions that may send (request/lanes.c) */
	bool turn_own;             /* with lanes: it is `queue`'s turn */
	uint8_t turn_used;         /* requests sent in it */
	struct kc_map map;
	struct kv_seal seal;
	uint64_t nonce; /* sent until the server confirms it; 0: proven */
	bool prove_due; /* send it even without a request */
	uint64_t next_id;
	uint64_t heard_ns;
	uint32_t credits, reserve; /* the last `reserve` credits are for CANCEL and PING */
	uint32_t frames;           /* in the engine */
	uint16_t shard, index;
	struct kc_releases releases;
	uint32_t pushes;               /* our writes in the engine */
	uint8_t passed;                /* requests that passed those in the background */
	bool stuck;                    /* the next request is a PUT waiting for the wire, or a lane's for a place */
	bool up;                       /* usable: it answered a PING (conn/health.c) */
	uint64_t retry_ns, backoff_ns; /* of the PING while not up */
	struct kc_probe probe;
};

/* ---- an attachment: it lives until its last frame was sent ---- */

struct kc_attachment {
	struct kc_node *node;
	uint32_t refs; /* the node; each frame, read or write in the engine; each request in limbo; a fence because of
			* it */
	bool open;     /* its peers are open: requests may be sent */
	bool served;   /* the node was UP with it: requests with memory may be out */
	uint32_t number;
	uint8_t token[KV_TOKEN_LEN]; /* for proofs of further sessions without TLS; never on the fabric */
	uint64_t shard_seed, value_max;
	uint64_t out_max; /* bytes of pieces in flight from it (request/admission.c) */
	uint32_t chunk_bytes, credits;
	uint16_t shards, rails, links_per_shard, flags;
	struct kc_landing *landing; /* per shard; NULL: none */
	struct kc_local *local;     /* messages use its channels; NULL: the fabric */
	bool local_asked;
	uint32_t packs;           /* of the client's in use by it (request/pack.c) */
	bool pull;                /* GETs ask for leases */
	struct kc_arenas *arenas; /* NULL: unknown */
	struct te_peer *peer[KV_SHARDS_MAX];
	uint64_t shard_turns[KV_SHARDS_MAX];      /* turns of the shards' loops, from heartbeats */
	uint64_t shard_turns_ns[KV_SHARDS_MAX];   /* last change */
	uint32_t shard_turns_same[KV_SHARDS_MAX]; /* heartbeats without a change */
	struct kv_macs macs[KV_SHARDS_MAX];
	uint32_t num_links;
	struct kc_wait setup;
	uint32_t next_link;    /* in turn */
	struct kc_link link[]; /* by shard; the bits of their windows follow */
};

#endif
