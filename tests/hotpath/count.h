/* SPDX-License-Identifier: Apache-2.0 */
/* count.h -- counts the calls to the allocator and to locks that are made while it is told to, and by whom. */
#ifndef KVRAIL_TESTS_HOTPATH_COUNT_H
#define KVRAIL_TESTS_HOTPATH_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* Who made a call: our own code, which is linked into the test; the provider; or any other library. */
enum count_who { COUNT_OURS, COUNT_FABRIC, COUNT_OTHER, COUNT_WHOS };
enum count_what { COUNT_ALLOC, COUNT_LOCK, COUNT_WHATS };

/* count_possible -- false where a sanitizer has the allocator and the locks for itself. */
bool count_possible(void);

/* count_start -- all counts are zero, and calls count from now on, of every thread. count_stop -- no more. */
void count_start(void);
void count_stop(void);

uint64_t count_get(enum count_who who, enum count_what what);

/* count_print -- where calls of `who` came from, one line each: function, library, offset in it. */
void count_print(enum count_who who);

#endif
