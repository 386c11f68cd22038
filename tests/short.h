/* SPDX-License-Identifier: Apache-2.0 */
/* short.h -- how often a test repeats a check. `make check` sets KVRAIL_TEST_SHORT=1, and each such test then makes the
 * smaller number of rounds; it has the larger number everywhere else: in check-long, by hand, under a sanitizer. */
#ifndef KVRAIL_TESTS_SHORT_H
#define KVRAIL_TESTS_SHORT_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool test_short(void)
{
	const char *set = getenv("KVRAIL_TEST_SHORT");
	return set && *set && *set != '0';
}

static inline unsigned test_rounds(unsigned all, unsigned few)
{
	return test_short() ? few : all;
}

#endif
