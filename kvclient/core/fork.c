/* SPDX-License-Identifier: Apache-2.0 */
/* fork.c -- a child of fork() cannot use its parent's pools: it has their memory and none of their threads, and the
 * parent goes on using the kernel's objects. Calls end with -KV_ECLOSED before they read anything that may have been
 * changing. Closing a pool frees nothing and closes no descriptor. A pool knows the count of forks at its opening,
 * which glibc raises in each child (`forked`); A child may open its own pools, so process-wide locks are held across
 * fork() (engine/engine.c). A socket to a server on this host is an exception: the child closes its copy, since the
 * server takes the last copy's end for the end of the process (core/local_server.c). */
#include "kvclient/core/fork.h"

#include <pthread.h>

#include "base/base.h"

_Atomic unsigned kc_forks;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watching; /* written once */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kv_list all = {&all, &all}; /* under the lock: struct kc_forked */

void kc_fork_hold(void)
{
	pthread_mutex_lock(&lock);
}

void kc_fork_unhold(void)
{
	pthread_mutex_unlock(&lock);
}

void kc_fork_add(struct kc_forked *f)
{
	kv_list_add_tail(&all, &f->node);
}

static void forked(void)
{
	for (struct kv_list *n; (n = kv_list_pop(&all));) {
		struct kc_forked *f = KV_LIST_ENTRY(n, struct kc_forked, node);
		f->close(f);
	}
	kc_fork_unhold();
	atomic_fetch_add_explicit(&kc_forks, 1, memory_order_relaxed);
}

static void watch(void)
{
	watching = pthread_atfork(kc_fork_hold, kc_fork_unhold, forked) == 0 ? 0 : -KV_ENOMEM;
}

int kc_fork_watch(void)
{
	(void)pthread_once(&once, watch);
	return watching;
}
