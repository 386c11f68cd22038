/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c -- keep the host's signals off our threads.
 *
 * A host that takes a signal by signalfd or sigwait would lose it to a thread of ours. So our threads start with
 * signals blocked, except faults (the kernel would end the process without the host's report) and SIGPROF, for
 * profilers. */
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
