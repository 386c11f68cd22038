/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c -- SIGINT and SIGTERM, for commands that run until one of them comes. The command then ends by itself; if
 * it has not 10 s later, the process ends. */
#include "kvcli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

enum { ENDING_S = 10, SLICE_MS = 100 };

static atomic_int came;
static unsigned ending_s = ENDING_S;
static struct sigaction of_int, of_term; /* the former ones */

static void on_signal(int number)
{
	atomic_store(&came, number);
	alarm(ending_s);
}

/* The command has not ended: a thread of the library is stuck. */
static void on_alarm(int number)
{
	static const char why[] = "kv-client: a thread of the library is stuck after the signal: ended without it\n";
	ssize_t n = write(STDERR_FILENO, why, sizeof(why) - 1);
	(void)n, (void)number;
	_exit(128 + atomic_load(&came));
}

void interrupt_catch(bool term)
{
	struct sigaction act = {.sa_handler = on_signal};
	const char *pace = getenv("KVRAIL_TEST_STUCK_PACE");
	ending_s = ENDING_S / (pace && pace[0] > '1' && pace[0] <= '9' && !pace[1] ? (unsigned)(pace[0] - '0') : 1);
	sigemptyset(&act.sa_mask);
	atomic_store(&came, 0);
	sigaction(SIGINT, &act, &of_int);
	sigaction(SIGTERM, term ? &act : NULL, &of_term);
	act.sa_handler = on_alarm;
	sigaction(SIGALRM, &act, NULL);
}

/* (At a prompt the program continues. On the command line it ends, and closing the pool needs turning loops.) */
void interrupt_release(bool goes_on, bool raise_term)
{
	if (goes_on)
		alarm(0);
	sigaction(SIGINT, &of_int, NULL);
	sigaction(SIGTERM, &of_term, NULL);
	if (raise_term && atomic_load(&came) == SIGTERM)
		raise(SIGTERM);
}

bool interrupted(void)
{
	return atomic_load(&came) != 0;
}

void interrupt_wait(uint64_t until_ns)
{
	uint64_t now_ns;
	while (!interrupted() && (now_ns = kv_clock_now(&kv_clock_monotonic)) < until_ns)
		poll(NULL, 0, (int)KV_MIN((until_ns - now_ns) / 1000000 + 1, (uint64_t)SLICE_MS));
}
