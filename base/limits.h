/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h -- every bound that more than one layer must agree on. Sizes in bytes, times in ns. */
#ifndef KVRAIL_BASE_LIMITS_H
#define KVRAIL_BASE_LIMITS_H

#include <stdint.h>

enum {
	KV_KEY_MAX = 128,      /* bytes of a key, at least 1 */
	KV_MSG_MAX = 4096,     /* bytes of one fabric message (EFA's direct path ends at about 8 KiB) */
	KV_INLINE_MAX = 3072,  /* bytes of a value that travels inside a message */
	KV_RAILS_MAX = 32,     /* NICs of one engine (p5: 32) */
	KV_SHARDS_MAX = 64,    /* data loops of one server */
	KV_ADDR_MAX = 64,      /* bytes of a fabric address (EFA: 32) */
	KV_NAME_MAX = 64,      /* bytes of a provider, fabric, domain or node name, with the final 0 */
	KV_TOKEN_LEN = 16,     /* bytes of a session token */
	KV_CTRL_MAX = 1 << 20, /* bytes of one control message */
	KV_FILES_RESERVE = 64, /* descriptors that neither clients nor strangers' fabric connections may take (from the
				  latter a 16th of the limit, if that is less) */
	KV_FILES_LATER = 8, /* descriptors that a server opens for itself once it runs: its listening socket, spares */
	KV_HANDSHAKES_MAX = 1024, /* connections of a server without a session yet: a quarter of its files ... */
	KV_HANDSHAKES_SHARE = 4,
	KV_HANDSHAKES_MIN = 16,    /* ... and at least so many, even when open files are few */
	KV_CHUNK_DEFAULT = 1 << 20 /* most bytes of one RMA operation, unless HELLO and WELCOME agree on less */
};

#define KV_VALUE_MAX          ((uint64_t)1 << 30)  /* bytes of a value */
#define KV_RANGE_MAX          ((uint64_t)16 << 20) /* bytes that one GET or PUT request moves */
#define KV_TIMEOUT_DEFAULT_NS 5000000000ull        /* deadline of a call that has no other */
#define KV_GRACE_DEFAULT_NS   200000000ull         /* how long a CANCEL may stay unanswered */
#define KV_NEVER              UINT64_MAX           /* a deadline that never comes */

/* So many client ids from this one on are those of clients that serve the cluster itself. (Logs have them as numbers,
 * and readers of JSON know none beyond 2^53 for sure.) */
#define KV_CLUSTER_CLIENT  1000000000000000ull
#define KV_CLUSTER_CLIENTS 65536ull

#endif
