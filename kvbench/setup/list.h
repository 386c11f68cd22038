/* SPDX-License-Identifier: Apache-2.0 */
/* list.h -- lists of numbers with a progression: "1,2,4,...,1024". Pure. */
#ifndef KVRAIL_KVBENCH_SETUP_LIST_H
#define KVRAIL_KVBENCH_SETUP_LIST_H

#include <stdbool.h>

#include "base/base.h"

enum { BENCH_LIST_MAX = 256, BENCH_LIST_ROOM = BENCH_LIST_MAX + 16 /* for whoever adds some */ };

struct bench_list {
	unsigned count;
	uint64_t value[BENCH_LIST_ROOM]; /* rising */
};

/* bench_word -- the text at *at up to `end`, or all of it; cut where it is longer than cap. *at moves behind it, or
 * becomes NULL. False: *at is NULL. */
bool bench_word(const char **at, char end, char *word, size_t cap);

/* bench_list_parse -- "1,2,4,...,1024": rising whole numbers from min to max. "..." continues the numbers before it
 * to the one behind it, always the last: two numbers by their difference, more by the difference or the factor that all
 * of the last three have. size: numbers are sizes ("64KB"). name: the option, in sentences. Returns 0, or -KV_EINVAL
 * with *err. */
int bench_list_parse(const char *name, const char *text, bool size, uint64_t min, uint64_t max, struct bench_list *out,
		     struct kv_error *err);

/* bench_list_parse_to -- the same of numbers from 1 on, but those above max are left out, "..." continues by the
 * difference of two numbers, and behind the last number it continues to max. */
int bench_list_parse_to(const char *name, const char *text, uint64_t max, struct bench_list *out, struct kv_error *err);

#endif
