/* SPDX-License-Identifier: Apache-2.0 */
/* fork.h -- detects pools of a parent process. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_FORK_H
#define KVRAIL_KVCLIENT_CORE_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/base.h"

/* Forks since the first ancestor that opened a pool; updated before fork() returns in a child. */
extern _Atomic unsigned kc_forks;

/* What a child must close. In a list under a lock that is held across fork(). */
struct kc_forked {
	struct kv_list node;
	void (*close)(struct kc_forked *f); /* in the child: only close(), as others may have held any lock */
};

/* kc_fork_hold, kc_fork_unhold -- around changes of what the child closes, and around fork(). kc_fork_add -- while
 * held; kv_list_del(&f->node) undoes it. Any thread. */
void kc_fork_hold(void);
void kc_fork_unhold(void);
void kc_fork_add(struct kc_forked *f);

/* kc_fork_watch -- any thread, repeatable. 0 or -KV_ENOMEM. */
int kc_fork_watch(void);

/* kc_fork_alien -- born: kc_forks at the object's making. One load. */
static inline bool kc_fork_alien(unsigned born)
{
	return born != atomic_load_explicit(&kc_forks, memory_order_relaxed);
}

#endif
