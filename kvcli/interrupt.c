/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c -- SIGINT and SIGTERM, for commands that go on until one of them comes. */
#include "kvcli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int came;
static struct sigaction of_int, of_term; /* as they were before */

static void on_signal(int number)
{
	atomic_store(&came, number);
}

void interrupt_catch(bool term)
{
	struct sigaction act = {.sa_handler = on_signal};

	sigemptyset(&act.sa_mask);
	atomic_store(&came, 0);
	sigaction(SIGINT, &act, &of_int);
	sigaction(SIGTERM, term ? &act : NULL, &of_term);
}

void interrupt_release(bool raise_term)
{
	sigaction(SIGINT, &of_int, NULL);
	sigaction(SIGTERM, &of_term, NULL);
	if (raise_term && atomic_load(&came) == SIGTERM)
		raise(SIGTERM);
}

bool interrupted(void)
{
	return atomic_load(&came) != 0;
}
