/* SPDX-License-Identifier: Apache-2.0 */
/* early.h -- SIGINT and SIGTERM from the first instruction of a program to its main(). Included by the file with main()
 * and by no other: it makes an entry of .preinit_array, which only an executable can have.
 *
 * libpsm2 and libinfinipath, linked into Debian's libfabric, install handlers of both signals from constructors that
 * run before ours, and a signal then ends the process with status 1 instead of by the signal: for the 0.2 s that
 * loading takes. So both are blocked before any constructor, and what they do is put back before they are let through.
 * An exec leaves the default or "ignored" and nothing else. Bare system calls: libraries, and sanitizers' interceptors,
 * are not ready yet. (Rejected: a constructor of the program's own, which runs after those of its libraries;
 * IPATH_NO_BACKTRACE, which whoever starts the program would have to set.) */
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

/* kv_early_end -- first thing in main(): the two signals do what they did when the program was started. keep: they stay
 * blocked (a program that waits for them); else one that came meanwhile takes effect now. Thread: the first one, before
 * there is another. */
static inline void kv_early_end(bool keep)
{
	for (int i = 0; i < 2; i++)
		(void)signal(kv_early_signal[i], kv_early_ignored[i] ? SIG_IGN : SIG_DFL);
	if (!keep)
		(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kv_early_mask, NULL, sizeof(uint64_t));
}

#endif
