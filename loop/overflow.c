/* SPDX-License-Identifier: Apache-2.0 */
/* overflow.c -- report a coroutine's stack overflow, in debug and test builds.
 *
 * The library itself installs no signal handler. The handler looks at the loop of the current turn, names the coroutine
 * whose guard page was hit, restores the default action and returns, so that the access ends the process by SIGSEGV. */
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
	alt.ss_sp = malloc(ALT_STACK_BYTES); /* never freed: a signal may come at any time */
	if (!alt.ss_sp)
		return -KV_ENOMEM;
	sigemptyset(&action.sa_mask);
	if (sigaltstack(&alt, NULL) < 0 || sigaction(SIGSEGV, &action, NULL) < 0)
		rc = -errno;
	if (rc < 0)
		free(alt.ss_sp);
	return rc;
}
