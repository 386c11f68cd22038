/* SPDX-License-Identifier: Apache-2.0 */
/* drained.h -- how many values of a server that drains are at other servers, and why the rest are not. */
#ifndef KVRAIL_BASE_DRAINED_H
#define KVRAIL_BASE_DRAINED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a value is at no other server. The numbers are part of the protocol (DRAIN_DONE), and of kvclient.h. */
enum kv_left {
	KV_LEFT_TIME,        /* the time for that was over */
	KV_LEFT_FULL,        /* the other servers have no room for it */
	KV_LEFT_UNREACHABLE, /* no other server that could take it answers */
	KV_LEFT_ALONE,       /* the cluster has no other member that stays */
	KV_LEFT_OFF,         /* the server was told to push none (--drain-mb 0) */
	KV_LEFT_TOO_BIG,     /* for the other server */
	KV_LEFT_DAMAGED,     /* its bytes do not have their checksum */
	KV_LEFT_REFUSED,     /* the other server refused it: it may have deleted its key */
	KV_LEFT_STUCK,       /* a thread of the server did not answer */
	KV_LEFT_REASONS
};

enum { KV_DRAINED_TEXT = 1024 };

struct kv_drained {
	uint64_t values, bytes; /* values that other servers have, and their bytes */
	uint64_t of;            /* `values`, and those that are left */
	uint64_t gone;          /* values beside them that were deleted, or whose time to live was over, meanwhile */
	uint64_t left[KV_LEFT_REASONS];
};

/* kv_left_name -- "time". kv_left_text -- "the time was over". Of a reason that there is. */
const char *kv_left_name(enum kv_left reason);
const char *kv_left_text(enum kv_left reason);

/* kv_drained_names -- the names of the reasons that there are, as "time,full"; "" where nothing is left. Returns buf.
 * kv_drained_text -- a part of a sentence, as "3 of 5 values, 12 KiB, are at other servers; 2 are not: the time was
 * over". KV_DRAINED_TEXT bytes are enough for each. Returns buf. */
char *kv_drained_names(const struct kv_drained *d, char *buf, size_t cap);
char *kv_drained_text(const struct kv_drained *d, char *buf, size_t cap);

/* kv_drained_valid -- whether the numbers agree. */
bool kv_drained_valid(const struct kv_drained *d);

#endif
