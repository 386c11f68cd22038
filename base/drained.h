/* SPDX-License-Identifier: Apache-2.0 */
/* drained.h -- the values that a drain pushed to other servers, and reasons for the rest. */
#ifndef KVRAIL_BASE_DRAINED_H
#define KVRAIL_BASE_DRAINED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a value is on no other server. Numbers of DRAIN_DONE and kvclient.h. */
enum kv_left {
	KV_LEFT_TIME,        /* the time was over */
	KV_LEFT_FULL,        /* the other servers are full */
	KV_LEFT_UNREACHABLE, /* no other server answers */
	KV_LEFT_ALONE,       /* the cluster has no other member */
	KV_LEFT_OFF,         /* --drain-mb 0 */
	KV_LEFT_TOO_BIG,     /* for the other server */
	KV_LEFT_DAMAGED,     /* wrong checksum */
	KV_LEFT_REFUSED,     /* the other server refused it: maybe its key was deleted there */
	KV_LEFT_STUCK,       /* a thread of the server did not answer */
	KV_LEFT_REASONS
};

enum { KV_DRAINED_TEXT = 1024 };

struct kv_drained {
	uint64_t values, bytes; /* on other servers now */
	uint64_t of;            /* `values` and the rest */
	uint64_t gone;          /* more values, deleted or expired during the drain */
	uint64_t left[KV_LEFT_REASONS];
};

/* kv_left_name -- "time". kv_left_text -- "the time was over". */
const char *kv_left_name(enum kv_left reason);
const char *kv_left_text(enum kv_left reason);

/* kv_drained_names -- the reasons that occurred, "time,full" or "". kv_drained_text -- "3 of 5 values, 12 KiB, are at
 * other servers; 2 are not: the time was over". KV_DRAINED_TEXT bytes suffice. Return buf. */
char *kv_drained_names(const struct kv_drained *d, char *buf, size_t cap);
char *kv_drained_text(const struct kv_drained *d, char *buf, size_t cap);

/* kv_drained_valid -- whether the numbers agree. */
bool kv_drained_valid(const struct kv_drained *d);

#endif
