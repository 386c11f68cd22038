/* SPDX-License-Identifier: Apache-2.0 */
/* fork.c -- a child of fork() and the pools of its parent.
 *
 * The child has a copy of a pool's memory, and none of its threads: nobody turns its loops. What the kernel holds for
 * the pool (connections, endpoints, rings) is the parent's, who uses it at the same time. So in the child a pool is
 * dead: its calls end with -KV_ECLOSED before they look at anything of it that another thread of the parent may have
 * been changing, and closing it only forgets it. Nothing is freed and no descriptor is closed: the memory goes with the
 * child, and libfabric's and the NIC's objects have one owner.
 *
 * A pool knows the count of forks under which it was opened; glibc calls `forked` in each child. (Rejected: getpid() in
 * every call, a system call; a page with MADV_WIPEONFORK, which would also see a bare clone() of a whole process, which
 * no runtime makes, and which every call would have to load as well.)
 *
 * A child may open a pool of its own. Locks of ours that guard the whole process are held across fork() for that
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
