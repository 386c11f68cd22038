/* SPDX-License-Identifier: Apache-2.0 */
/* harness.h -- a loop for a test, and checks that may fail inside a coroutine (cmocka's own would longjmp off its
 * stack). */
#ifndef KVRAIL_TESTS_LOOP_HARNESS_H
#define KVRAIL_TESTS_LOOP_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loop/loop.h"

#define MS     1000000ull
#define SECOND 1000000000ull

extern int harness_failures; /* of CHECK since harness_loop */

#define CHECK(cond)                                                                                                    \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #cond);                       \
			harness_failures++;                                                                            \
		}                                                                                                      \
	} while (0)

/* harness_loop -- a loop with these options (NULL: defaults), which must succeed. */
struct loop *harness_loop(const struct loop_options *options);

/* harness_run -- turn the loop until no coroutine is left; fails the test after 20 s or when a CHECK failed. */
void harness_run(struct loop *loop);

/* harness_spawn -- co_spawn, which must succeed. */
void harness_spawn(struct loop *loop, void (*fn)(void *arg), void *arg);

uint64_t harness_live(const struct loop *loop); /* coroutines */

#endif
