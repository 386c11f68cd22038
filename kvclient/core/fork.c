/* SPDX-License-Identifier: Apache-2.0 */
/* fork.c -- what a child of fork() may do with the pools of its parent: nothing.
 *
 * The child has a copy of a pool's memory and none of its threads, so nobody turns its loops. What the kernel holds for
 * the pool (connections, endpoints, rings) is the parent's, and the parent uses it at the same time. So a pool of the
 * parent is dead in the child. Its calls end with -KV_ECLOSED before they look at anything that another thread of the
 * parent may have been changing, and closing it only forgets it. Nothing is freed and no descriptor is closed: the
 * memory goes with the child, and the objects of libfabric and of the NIC have one owner.
 *
 * A pool knows the count of forks under which it was opened. glibc calls `forked` in each child, which raises the
 * count. (Rejected: getpid() in every call, a system call. A page with MADV_WIPEONFORK, which every call would have to
 * load as well; it would also see a bare clone() of a whole process, which no runtime makes.)
 *
 * A child may open a pool of its own. Therefore our locks that guard the whole process are held across fork()
 * (engine/engine.c). */
#include "kvclient/core/fork.h"

#include <pthread.h>

#include "base/base.h"

_Atomic unsigned kvc_forks;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watching; /* written once */

static void forked(void)
{
	atomic_fetch_add_explicit(&kvc_forks, 1, memory_order_relaxed);
}

static void watch(void)
{
	watching = pthread_atfork(NULL, NULL, forked) == 0 ? 0 : -KV_ENOMEM;
}

int kvc_fork_watch(void)
{
	(void)pthread_once(&once, watch);
	return watching;
}
