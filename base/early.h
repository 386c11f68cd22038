/* SPDX-License-Identifier: Apache-2.0 */
/* early.h -- keep SIGINT and SIGTERM in order until main(). Only for the file with main(): it adds to .preinit_array,
 * which only executables have.
 *
 * libpsm2 and libinfinipath, linked into Debian's libfabric, install handlers of both in constructors: while the
 * libraries load, a signal would end the process with status 1. So both are blocked before any constructor runs, and
 * their first dispositions restored before they are unblocked. Bare system calls: libraries are not ready yet. */
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
static uint64_t kv_early_mask; /* the kernel's sigset_t */

static void kv_early_begin(void)
{
	uint64_t both = 0;
	for (int i = 0; i < 2; i++) {
		uint64_t old[4] = {0}; /* the kernel's struct sigaction, first the handler */
		both |= (uint64_t)1 << (kv_early_signal[i] - 1);
		(void)syscall(SYS_rt_sigaction, kv_early_signal[i], NULL, old, sizeof(uint64_t));
		kv_early_ignored[i] = old[0] == (uint64_t)(uintptr_t)SIG_IGN;
	}
	(void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &both, &kv_early_mask, sizeof(uint64_t));
}

__attribute__((section(".preinit_array"), used)) static void (*const kv_early_entry)(void) = kv_early_begin;

/* kv_early_end -- restore both signals, first in main(). keep: they stay blocked, for programs that wait for them; else
 * a pending one takes effect. Thread: the first, alone. */
static inline void kv_early_end(bool keep)
{
	for (int i = 0; i < 2; i++)
		(void)signal(kv_early_signal[i], kv_early_ignored[i] ? SIG_IGN : SIG_DFL);
	if (!keep)
		(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kv_early_mask, NULL, sizeof(uint64_t));
}

#endif
