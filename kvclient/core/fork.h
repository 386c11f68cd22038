/* SPDX-License-Identifier: Apache-2.0 */
/* fork.h -- whether a pool was opened by this process, or by the one that it was forked from. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_FORK_H
#define KVRAIL_KVCLIENT_CORE_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

/* How often this process, counted from the first of its line that opened a pool, came out of a fork(). Written in a
 * child before its fork() returns. */
extern _Atomic unsigned kvc_forks;

/* kvc_fork_watch -- count from now on; any thread, any number of times. 0 or -KV_ENOMEM. */
int kvc_fork_watch(void);

/* kvc_fork_alien -- born: kvc_forks when the pool was opened. One load. */
static inline bool kvc_fork_alien(unsigned born)
{
	return born != atomic_load_explicit(&kvc_forks, memory_order_relaxed);
}

#endif
