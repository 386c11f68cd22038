/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c -- which signals reach the threads that the library starts.
 *
 * A signal that is sent to a process goes to any thread that does not block it. A host that blocks one in its own
 * threads, to take it by signalfd or sigwait, would find it in a thread of ours instead: its handler would run on the
 * stack of a coroutine, or the default action would end the process. So a thread of ours is started while the thread
 * that starts it blocks them. Faults stay open, since the kernel ends a process that blocks one, without the host's
 * report of the crash; and SIGPROF, so that profilers see what our threads do. */
#include "base/signals.h"

#include <stddef.h>

#include "base/base.h"

static const int open_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};

void kv_signals_block(sigset_t *before)
{
	sigset_t block;
	sigfillset(&block);
	for (size_t i = 0; i < KV_COUNT(open_signals); i++)
		sigdelset(&block, open_signals[i]);
	pthread_sigmask(SIG_BLOCK, &block, before);
}

void kv_signals_restore(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}
