/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h -- bounds that several layers share. Sizes in bytes, times in ns. */
#ifndef KVRAIL_BASE_LIMITS_H
#define KVRAIL_BASE_LIMITS_H

#include <stdint.h>

enum {
	KV_KEY_MAX = 128,
	KV_MSG_MAX = 4096,    /* one fabric message (EFA's direct path: about 8 KiB) */
	KV_INLINE_MAX = 3072, /* of a value inside a message */
	KV_RAILS_MAX = 32,    /* NICs of one engine (p5: 32) */
	KV_SPACE_MAX = 64,    /* of a namespace's name */
	KV_SHARDS_MAX = 64,   /* data loops of a server */
	KV_ADDR_MAX = 64,     /* bytes of a fabric address (EFA: 32) */
	KV_NAME_MAX = 64,     /* of a provider, fabric, domain or node name, with the final 0 */
	KV_TOKEN_LEN = 16,
	KV_CTRL_MAX = 1 << 20,
	KV_FILES_RESERVE = 64, /* descriptors kept from clients and strangers' fabric connections (from the latter a
				  16th of the limit, if less) */
	KV_FILES_LATER = 8,    /* descriptors of a running server itself: listening socket, spares */
	KV_HANDSHAKES_MAX = 1024,
	KV_HANDSHAKES_SHARE = 4,
	KV_HANDSHAKES_MIN = 16,    /* ... and at least these */
	KV_CHUNK_DEFAULT = 1 << 20 /* one RMA operation at most, unless HELLO and WELCOME agree on less */
};

#define KV_VALUE_MAX          ((uint64_t)1 << 30)  /* bytes of a value */
#define KV_RANGE_MAX          ((uint64_t)16 << 20) /* of one GET or PUT request */
#define KV_TIMEOUT_DEFAULT_NS 5000000000ull        /* default deadline of a call */
#define KV_GRACE_DEFAULT_NS   200000000ull         /* time for the answer to a CANCEL */
#define KV_GENERATIONS_MAX    ((uint64_t)1 << 32)  /* of a namespace, above that of another server: more is a lie */
#define KV_NEVER              UINT64_MAX           /* no deadline */

/* Client ids of the cluster's own clients: KV_CLUSTER_CLIENTS from this one on. (Below 2^53, for readers of JSON.) */
#define KV_CLUSTER_CLIENT  1000000000000000ull
#define KV_CLUSTER_CLIENTS 65536ull

#endif
