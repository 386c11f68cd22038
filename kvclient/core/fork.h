/* SPDX-License-Identifier: Apache-2.0 */
/* fork.h -- detects pools of a parent process. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_FORK_H
#define KVRAIL_KVCLIENT_CORE_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

/* Forks since the first ancestor that opened a pool; updated before fork() returns in a child. */
extern _Atomic unsigned kc_forks;

/* kc_fork_watch -- any thread, repeatable. 0 or -KV_ENOMEM. */
int kc_fork_watch(void);

/* kc_fork_alien -- born: kc_forks at the object's making. One load. */
static inline bool kc_fork_alien(unsigned born)
{
	return born != atomic_load_explicit(&kc_forks, memory_order_relaxed);
}

#endif
