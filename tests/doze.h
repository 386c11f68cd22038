/* SPDX-License-Identifier: Apache-2.0 */
/* doze.h -- for tests that wait by polling. A wait that lasts leaves its core to others: polls that found nothing are
 * followed by a short sleep, once there were many in a row. What comes at once is still seen at once. */
#ifndef KVRAIL_TESTS_DOZE_H
#define KVRAIL_TESTS_DOZE_H

#include <time.h>

enum { DOZE_AFTER = 100, DOZE_NS = 200000 };

/* doze -- call after each poll, with the number of things it found. Threads count for themselves. */
static inline void doze(int found)
{
	static _Thread_local unsigned idle;
	const struct timespec pause = {.tv_nsec = DOZE_NS};
	idle = found > 0 ? 0 : idle + 1;
	if (idle > DOZE_AFTER)
		nanosleep(&pause, NULL);
}

#endif
