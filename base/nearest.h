/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h -- suggest a name for an unknown word. Thread: any. */
#ifndef KVRAIL_BASE_NEAREST_H
#define KVRAIL_BASE_NEAREST_H

#include <stddef.h>

struct kv_nearest {
	const char *word; /* not terminated */
	size_t len;
	const char *best; /* NULL: none is near */
	unsigned distance;
};

enum { KV_NEAREST_TEXT = 96 };

/* kv_nearest_begin -- for the first len bytes of word. */
struct kv_nearest kv_nearest_begin(const char *word, size_t len);

/* kv_nearest_try -- consider a name, which outlives *n. The first of equally near names wins. Near: a few letters
 * differ, or the word is its start, or its end behind a dash ("workers" of "num-workers"). */
void kv_nearest_try(struct kv_nearest *n, const char *name);

/* kv_nearest_hint -- "; did you mean DASHESname?", or "". Returns buf. */
const char *kv_nearest_hint(const struct kv_nearest *n, const char *dashes, char buf[KV_NEAREST_TEXT]);

#endif
