/* SPDX-License-Identifier: Apache-2.0 */
/* provider.h -- over which provider the tests run that need some fabric and do not care which: $KVRAIL_TEST_PROVIDER,
 * or "tcp". `make check-providers` goes through several. Inline: tests of several folders use it. */
#ifndef KVRAIL_TESTS_PROVIDER_H
#define KVRAIL_TESTS_PROVIDER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline const char *test_provider(void)
{
	const char *env = getenv("KVRAIL_TEST_PROVIDER");
	return env && env[0] ? env : "tcp";
}

static inline bool test_provider_is(const char *name)
{
	return strcmp(test_provider(), name) == 0;
}

/* One whose bytes go through TCP sockets of this process. */
static inline bool test_provider_speaks_tcp(void)
{
	return test_provider_is("tcp") || test_provider_is("tcp-native") || test_provider_is("net");
}

#endif
