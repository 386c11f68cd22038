/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h -- the name that somebody may have meant by a word that is none. Thread: any. */
#ifndef KVRAIL_BASE_NEAREST_H
#define KVRAIL_BASE_NEAREST_H

#include <stddef.h>

struct kv_nearest {
	const char *word; /* not terminated */
	size_t len;
	const char *best; /* NULL: no name is near */
	unsigned distance;
};

enum { KV_NEAREST_TEXT = 96 };

/* kv_nearest_begin -- look for names near the first len bytes of word. */
struct kv_nearest kv_nearest_begin(const char *word, size_t len);

/* kv_nearest_try -- take a name into account: it must stay as long as *n. The first of several that are as near stays.
 * A name is near if few letters are missing, wrong, too many or swapped, or if the word is its beginning, or its end
 * behind a dash, as "workers" of "num-workers". */
void kv_nearest_try(struct kv_nearest *n, const char *name);

/* kv_nearest_hint -- "; did you mean DASHESname?", or "" if no name is near. Returns buf. */
const char *kv_nearest_hint(const struct kv_nearest *n, const char *dashes, char buf[KV_NEAREST_TEXT]);

#endif
