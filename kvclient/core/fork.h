/* SPDX-License-Identifier: Apache-2.0 */
/* fork.h -- whether this process opened a pool, or a process that it was forked from. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_FORK_H
#define KVRAIL_KVCLIENT_CORE_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

/* How many forks lie between this process and the first of its line that opened a pool. A child writes it before its
 * fork() returns. */
extern _Atomic unsigned kvc_forks;

/* kvc_fork_watch -- count forks from now on. Any thread, any number of times. 0 or -KV_ENOMEM. */
int kvc_fork_watch(void);

/* kvc_fork_alien -- whether something is the parent's; born: kvc_forks when it was made. One load. */
static inline bool kvc_fork_alien(unsigned born)
{
	return born != atomic_load_explicit(&kvc_forks, memory_order_relaxed);
}

#endif
