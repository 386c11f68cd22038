/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- cmocka with the headers that it wants before it, the seed of a random test, and what a sentence must name.
 */
#ifndef KVRAIL_TESTS_CHECK_H
#define KVRAIL_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "tests/provider.h"

/* check_seed -- a PRNG from KVRAIL_SEED or the kernel; prints the seed that repeats the run. */
static inline struct kv_prng check_seed(void)
{
	struct kv_prng prng;
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	printf("# KVRAIL_SEED=0x%llx\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	return prng;
}

/* check_contains -- that a sentence names what it must name. */
static inline void check_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in '%s'", part, text); /* cmocka cuts a long text */
}

#endif
