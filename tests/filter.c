/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c -- KVRAIL_TEST_ONLY in every cmocka program: only the tests whose name it is, with * and ?. `make test
 * CASE=...` and planted bugs use it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void only(void)
{
	cmocka_set_test_filter(getenv("KVRAIL_TEST_ONLY"));
}
