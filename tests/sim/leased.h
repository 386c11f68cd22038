/* SPDX-License-Identifier: Apache-2.0 */
/* leased.h -- a world of values that clients read in the memory of servers on their host, and hold for long. */
#ifndef KVRAIL_TESTS_SIM_LEASED_H
#define KVRAIL_TESTS_SIM_LEASED_H

#include <stdint.h>

/* leased_run -- one such world, to its end: bytes under a lease never change before its release, and at the end no
 * server keeps a lease or a block. Inside a cmocka test. */
void leased_run(uint64_t seed);

#endif
