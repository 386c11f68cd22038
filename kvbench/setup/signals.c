/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c -- the one piece of global state of kv-bench, because a signal handler has no argument.
 *
 * The handler stores the signal, and wakes the thread that checks whether the loops still turn (stuck.c). On the second
 * signal _exit also takes the server child along, which asked the kernel to die with its parent. */
#include "kvbench/setup/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "kvbench/setup/stuck.h"

static atomic_int caught;

static void on_signal(int number)
{
	int none = 0;
	if (!atomic_compare_exchange_strong(&caught, &none, number))
		_exit(128 + number);
	stuck_signal(number);
}

void bench_signals_install(void)
{
	struct sigaction act = {.sa_handler = on_signal};
	stuck_watch();
	sigemptyset(&act.sa_mask);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	/* A closed terminal or pipe is found by the write that fails, not by a death that leaves the child behind. */
	act.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &act, NULL);
}

int bench_interrupted(void)
{
	return atomic_load_explicit(&caught, memory_order_relaxed);
}
