/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c -- distance: letters missing, wrong, extra, or swapped (Damerau and Levenshtein, each letter once). At most
 * a third of the word may be wrong. */
#include "base/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { WORD_MAX = 48, FAR = 1000, PART_LEN = 3, PART_DISTANCE = 2 };

static unsigned distance_of(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *now = rows[2];
	for (size_t k = 0; k <= nb; k++)
		last[k] = (unsigned)k;
	for (size_t i = 1; i <= na; i++) {
		unsigned *oldest = before;
		now[0] = (unsigned)i;
		for (size_t k = 1; k <= nb; k++) {
			unsigned d = last[k - 1] + (a[i - 1] != b[k - 1]);
			d = KV_MIN(d, KV_MIN(last[k], now[k - 1]) + 1);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				d = KV_MIN(d, before[k - 2] + 1);
			now[k] = d;
		}
		before = last;
		last = now;
		now = oldest;
	}
	return last[nb];
}

/* Whether the word is the start of a name, or all behind a dash. */
static bool is_part(const struct kv_nearest *n, const char *name, size_t len)
{
	if (n->len < PART_LEN || len <= n->len)
		return false;
	return memcmp(name, n->word, n->len) == 0 ||
	       (name[len - n->len - 1] == '-' && memcmp(name + len - n->len, n->word, n->len) == 0);
}

struct kv_nearest kv_nearest_begin(const char *word, size_t len)
{
	return (struct kv_nearest){.word = word, .len = len, .distance = FAR};
}

void kv_nearest_try(struct kv_nearest *n, const char *name)
{
	size_t len = strlen(name);
	unsigned allowed = (unsigned)(n->len + 1) / 3, d;
	if (n->len == 0 || n->len > WORD_MAX || len > WORD_MAX)
		return;
	d = distance_of(n->word, n->len, name, len);
	if (d > allowed && is_part(n, name, len))
		d = allowed = PART_DISTANCE;
	if (d <= allowed && d < n->distance && d < n->len) {
		n->distance = d;
		n->best = name;
	}
}

const char *kv_nearest_hint(const struct kv_nearest *n, const char *dashes, char buf[KV_NEAREST_TEXT])
{
	buf[0] = 0;
	if (n->best)
		snprintf(buf, KV_NEAREST_TEXT, "; did you mean %s%s?", dashes, n->best);
	return buf;
}
