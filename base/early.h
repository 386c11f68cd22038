/* SPDX-License-Identifier: Apache-2.0 */
/* early.h -- keep SIGINT and SIGTERM in order from a program's first instruction to its main(). Only the file with
 * main() includes it: it makes an entry of .preinit_array, which only an executable can have.
 *
 * libpsm2 and libinfinipath, which are linked into Debian's libfabric, install handlers of both signals. Their
 * constructors run before ours. For the 0.2 s that loading takes, a signal would then end the process with status 1
 * instead of killing it. So both signals are blocked before any constructor runs, and their first dispositions are
 * restored before they are unblocked. These are the default or "ignored"; an exec leaves nothing else. The code makes
 * bare system calls: libraries, and the interceptors of sanitizers, are not ready yet. Rejected: a constructor of the
 * program's own, which runs after those of its libraries; IPATH_NO_BACKTRACE, which the user would have to set for each
 * start. */
#ifndef KVRAIL_BASE_EARLY_H
#define KVRAIL_BASE_EARLY_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int kv_early_signal[2] = {SIGINT, SIGTERM};
static bool kv_early_ignored[2];
static uint64_t kv_early_mask; /* the kernel's sigset_t, as it was */

static void kv_early_begin(void)
{
	uint64_t both = 0;
	for (int i = 0; i < 2; i++) {
		uint64_t old[4] = {0}; /* the kernel's struct sigaction: the handler is the first word */
		both |= (uint64_t)1 << (kv_early_signal[i] - 1);
		(void)syscall(SYS_rt_sigaction, kv_early_signal[i], NULL, old, sizeof(uint64_t));
		kv_early_ignored[i] = old[0] == (uint64_t)(uintptr_t)SIG_IGN;
	}
	(void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &both, &kv_early_mask, sizeof(uint64_t));
}

__attribute__((section(".preinit_array"), used)) static void (*const kv_early_entry)(void) = kv_early_begin;

/* kv_early_end -- restore both signals; call it first in main(). With keep they stay blocked, for a program that waits
 * for them; otherwise a signal that came meanwhile takes effect now. Thread: the first one, before there is another. */
static inline void kv_early_end(bool keep)
{
	for (int i = 0; i < 2; i++)
		(void)signal(kv_early_signal[i], kv_early_ignored[i] ? SIG_IGN : SIG_DFL);
	if (!keep)
		(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kv_early_mask, NULL, sizeof(uint64_t));
}

#endif
