/* SPDX-License-Identifier: Apache-2.0 */
/* fork.h -- detects pools of a parent process. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_FORK_H
#define KVRAIL_KVCLIENT_CORE_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

/* Forks between this process and its first ancestor that opened a pool. A child updates it before its fork() returns.
 */
extern _Atomic unsigned kvc_forks;

/* kvc_fork_watch -- count forks from now on. Any thread, repeatable. 0 or -KV_ENOMEM. */
int kvc_fork_watch(void);

/* kvc_fork_alien -- whether an object is the parent's; born: kvc_forks at its making. One load. */
static inline bool kvc_fork_alien(unsigned born)
{
	return born != atomic_load_explicit(&kvc_forks, memory_order_relaxed);
}

#endif
