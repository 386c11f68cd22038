/* SPDX-License-Identifier: Apache-2.0 */
/* queued.h -- a program that submits to a queue of a simulated pool, cancels, and reaps. */
#ifndef KVRAIL_TESTS_SIM_QUEUED_H
#define KVRAIL_TESTS_SIM_QUEUED_H

#include "tests/sim/world.h"

/* queued_run -- use a queue of pool 0 of an open world for so long, while shards of servers and loops of clients stand
 * still now and then. Then the queue or the pool is closed, as the seed says, under what is out. What is wrong fails
 * the test. With `stop` the pool was told to close. queued_free -- after world_close. */
void queued_run(struct world *w, uint64_t seed, uint64_t for_ns, bool stop);
void queued_free(void);

#endif
