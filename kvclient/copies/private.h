/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- data that the files of kvclient/copies/ alone know (and tests). */
#ifndef KVRAIL_KVCLIENT_COPIES_PRIVATE_H
#define KVRAIL_KVCLIENT_COPIES_PRIVATE_H

#include "kvclient/core/client.h"

enum {
	COPIES = 64,   /* second copies that are under way ... */
	COPIES_AT = 16 /* ... and that of them which go to one server */
};

/* A second copy of a value that was put. */
struct second {
	struct kvc_client *client;
	uint8_t key[KV_KEY_MAX], key_len; /* 0: the slot is free */
	bool forgotten;                   /* the key was deleted */
	uint16_t node;                    /* that it goes to */
	uint32_t ttl_s;
	uint64_t len, checksum;
	uint64_t born_ns;       /* when the call began that put it */
	uint64_t incarnation;   /* of the server */
	struct kvc_piece piece; /* that has the value */
};

struct kvc_seconds {
	struct second slot[COPIES];
	uint64_t bytes;       /* of pieces */
	struct co_queue over; /* woken when one is no longer under way */
};

#endif
