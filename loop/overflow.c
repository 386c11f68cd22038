/* SPDX-License-Identifier: Apache-2.0 */
/* overflow.c -- a readable end for a coroutine that overflows its stack, in debug and test builds.
 *
 * The library itself installs no signal handler; a program that wants this one calls loop_debug_overflow_handler on
 * each thread that turns loops (the alternate stack is per thread). The handler looks only at the loop of the present
 * turn, says which coroutine hit its guard page, restores the default action and returns, so that the same access ends
 * the process by SIGSEGV as it would have. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop/inside.h"

enum { ALT_STACK_BYTES = 1 << 16 };

static void say(const char *text)
{
	ssize_t n = write(STDERR_FILENO, text, strlen(text));
	(void)n;
}

static void on_segv(int signo, siginfo_t *info, void *context)
{
	struct loop *loop = loop_current();
	if (loop && loop->cos.running && stack_in_guard(&loop->cos.stacks, info->si_addr)) {
		say("kvrail: stack overflow in coroutine '");
		say(co_name(loop->cos.running));
		say("' of loop '");
		say(loop->name);
		say("'; raise loop_options.stack_bytes\n");
	}
	(void)context;
	signal(signo, SIG_DFL);
}

int loop_debug_overflow_handler(void)
{
	stack_t alt = {.ss_size = ALT_STACK_BYTES};
	struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	int rc = 0;
	alt.ss_sp = malloc(ALT_STACK_BYTES); /* lives as long as the process: a signal may come at any time */
	if (!alt.ss_sp)
		return -KV_ENOMEM;
	sigemptyset(&action.sa_mask);
	if (sigaltstack(&alt, NULL) < 0 || sigaction(SIGSEGV, &action, NULL) < 0)
		rc = -errno;
	if (rc < 0)
		free(alt.ss_sp);
	return rc;
}
