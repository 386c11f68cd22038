/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- data private to kvclient/copies/ (and tests). */
#ifndef KVRAIL_KVCLIENT_COPIES_PRIVATE_H
#define KVRAIL_KVCLIENT_COPIES_PRIVATE_H

#include "kvclient/core/client.h"

enum {
	COPIES = 64,   /* second copies under way ... */
	COPIES_AT = 16 /* ... and of them to one server */
};

struct second {
	struct kvc_client *client;
	uint8_t key[KV_KEY_MAX], key_len; /* 0: free slot */
	bool forgotten;                   /* the key was deleted */
	uint16_t node;                    /* target */
	uint32_t ttl_s;
	uint64_t len, checksum;
	uint64_t born_ns;      /* start of the PUT */
	uint64_t incarnation;  /* of the server */
	uint64_t generation;   /* of the namespace, if it is sealed */
	struct kc_piece piece; /* holds the value */
};

struct kc_seconds {
	struct second slot[COPIES];
	uint64_t bytes;       /* of pieces */
	struct co_queue over; /* woken when one ends */
};

#endif
