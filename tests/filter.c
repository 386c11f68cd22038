/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c -- KVRAIL_TEST_ONLY in every cmocka program: only the tests whose name it is, with * and ?. `make test
 * CASE=...` and planted bugs use it. Empty, it is as if it were not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void only(void)
{
	const char *wanted = getenv("KVRAIL_TEST_ONLY");
	cmocka_set_test_filter(wanted && *wanted ? wanted : NULL);
}
