/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- cmocka with the headers that it wants before it, the seed of a random test, and files for one test. */
#ifndef KVRAIL_TESTS_KVBENCH_CHECK_H
#define KVRAIL_TESTS_KVBENCH_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/base.h"

/* check_seed -- a PRNG from KVRAIL_SEED or the kernel; prints the seed that repeats the run. */
static inline struct kv_prng check_seed(void)
{
	struct kv_prng prng;
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");

	printf("# KVRAIL_SEED=0x%llx\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	return prng;
}

static inline void check_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' does not contain '%s'", text, part);
}

/* A file of a test: its name (in TMPDIR or /tmp), with this text in it. Remove it with check_file_remove. */
struct check_file {
	char path[256];
};

struct check_file check_file_make(const char *text);
FILE *check_file_open(struct check_file *file); /* an empty one, for the caller to write and close */
void check_file_remove(const struct check_file *file);

#endif
