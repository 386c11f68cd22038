/* SPDX-License-Identifier: Apache-2.0 */
/* list.c -- lists of numbers with a progression: "1,2,4,...,1024".
 *
 * The numbers before "..." give its meaning: two of them a difference, three or more a difference or a factor. A single
 * number, or three with neither, are an error. A progression that does not meet its last number ends before it, and the
 * number follows. */
#include "kvbench/setup/list.h"

#include <stdlib.h>

enum { WORD_MAX = 32 };

struct list_parser {
	const char *name;
	bool size, cut; /* cut: numbers above max are left out */
	uint64_t min, max;
	uint64_t last[3]; /* numbers since "...", the newest at [0] */
	unsigned known;
	struct bench_list *out;
	struct kv_error *err;
};

bool bench_word(const char **at, char end, char *word, size_t cap)
{
	const char *to;
	if (!*at)
		return false;
	to = strchrnul(*at, end);
	snprintf(word, cap, "%.*s", (int)KV_MIN((size_t)(to - *at), cap - 1), *at);
	*at = *to ? to + 1 : NULL;
	return true;
}

static const char *shown(const struct list_parser *l, uint64_t n, char *buf, size_t cap)
{
	if (l->size)
		return kv_size_format(n, buf, cap);
	snprintf(buf, cap, "%llu", (unsigned long long)n);
	return buf;
}

static int add(struct list_parser *l, uint64_t n)
{
	struct bench_list *a = l->out;
	char one[32], two[32];
	if (l->cut && n > l->max)
		return 0;
	if (n < l->min || n > l->max)
		return kv_fail(l->err, -KV_EINVAL, "--%s: %s is out of range; allowed is %s to %s", l->name,
			       shown(l, n, (char[32]){0}, 32), shown(l, l->min, one, sizeof(one)),
			       shown(l, l->max, two, sizeof(two)));
	if (a->count > 0 && n <= a->value[a->count - 1])
		return kv_fail(l->err, -KV_EINVAL, "--%s: %s does not come after %s: the list must rise", l->name,
			       shown(l, n, one, sizeof(one)), shown(l, a->value[a->count - 1], two, sizeof(two)));
	if (a->count == BENCH_LIST_MAX)
		return kv_fail(l->err, -KV_EINVAL,
			       "--%s: the list has more than %u values; choose fewer, or name three numbers before "
			       "\"...\" that double, as in 1,2,4,...,1024",
			       l->name, (unsigned)BENCH_LIST_MAX);
	a->value[a->count++] = n;
	return 0;
}

static int go_on(struct list_parser *l, uint64_t end)
{
	uint64_t a = l->last[2], b = l->last[1], c = l->last[0], n;
	bool three = l->known >= 3 && !l->cut, plus = !three || c - b == b - a;
	bool times = three && !plus && b % a == 0 && c % b == 0 && c / b == b / a;
	int rc = 0;
	if (l->known < 2 || !(plus || times))
		return kv_fail(l->err, -KV_EINVAL,
			       "--%s: the numbers before \"...\" do not show how it continues: "
			       "write 1,2,4,...,64 or 10,20,...,100",
			       l->name);
	for (n = c; rc == 0;) {
		uint64_t step = plus ? c - b : n * (c / b - 1);
		if (n >= end || end - n <= step)
			break;
		n += step;
		rc = add(l, n);
	}
	return rc;
}

static int number(const struct list_parser *l, const char *word, uint64_t *out)
{
	int rc = l->size ? kv_size_parse(word, out) : kv_u64_parse(word, out);
	return rc == 0 ? 0
		       : kv_fail(l->err, -KV_EINVAL, "--%s: '%s' is not a %s, such as %s", l->name, word,
				 l->size ? "size" : "number", l->size ? "64KB" : "8");
}

/* dots: "..." stands before this number. */
static int take(struct list_parser *l, const char *word, bool dots)
{
	uint64_t n;
	int rc = number(l, word, &n);
	if (rc == 0 && (n < l->min || n > l->max) && !l->cut)
		return add(l, n); /* it says so */
	if (rc == 0 && dots)
		rc = go_on(l, n);
	if (rc == 0)
		rc = add(l, n);
	l->last[2] = l->last[1];
	l->last[1] = l->last[0];
	l->last[0] = n;
	l->known = dots ? 1 : l->known + 1;
	return rc;
}

static int parse(struct list_parser *l, const char *text)
{
	char word[WORD_MAX];
	bool dots = false;
	int rc = 0;
	memset(l->out, 0, sizeof(*l->out));
	while (rc == 0 && bench_word(&text, ',', word, sizeof(word))) {
		if (strcmp(word, "...") != 0) {
			rc = take(l, word, dots);
			dots = false;
		} else if (!dots && !text && l->cut) {
			rc = go_on(l, l->max + 1);
		} else if (dots || !text) {
			rc = kv_fail(l->err, -KV_EINVAL, "--%s: write the last number after \"...\"", l->name);
		} else {
			dots = true;
		}
	}
	return rc;
}

int bench_list_parse(const char *name, const char *text, bool size, uint64_t min, uint64_t max, struct bench_list *out,
		     struct kv_error *err)
{
	struct list_parser l = {.name = name, .size = size, .min = min, .max = max, .out = out, .err = err};
	return parse(&l, text);
}

int bench_list_parse_to(const char *name, const char *text, uint64_t max, struct bench_list *out, struct kv_error *err)
{
	struct list_parser l = {.name = name, .cut = true, .min = 1, .max = max, .out = out, .err = err};
	return parse(&l, text);
}
