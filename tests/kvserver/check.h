/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- cmocka with the headers that it wants before it, and the seed of a random test. */
#ifndef KVRAIL_TESTS_KVSERVER_CHECK_H
#define KVRAIL_TESTS_KVSERVER_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

#endif
