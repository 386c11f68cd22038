/* SPDX-License-Identifier: Apache-2.0 */
/* keyboard.c -- a terminal without line mode and echo, while a live table is shown. After a stop, the shell may have
 * changed the terminal's mode, so it is checked before each wait. In the background it is left alone: changing it there
 * would stop the program. */
#include "kvcli/keyboard.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "base/base.h"
#include "kvcli/interrupt.h"

enum { SLICE_MS = 100 };

static struct termios before;
static bool changed, wanted;

static void mode_set(void)
{
	struct termios now;
	if (!wanted || tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &now) != 0 ||
	    !(now.c_lflag & (ICANON | ECHO)))
		return;
	if (!changed)
		before = now;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	changed = tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}

void keyboard_begin(void)
{
	wanted = isatty(STDIN_FILENO);
	mode_set();
}

void keyboard_end(void)
{
	if (changed && tcgetpgrp(STDIN_FILENO) == getpgrp())
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	changed = wanted = false;
}

/* The end of input ends the reading. */
static bool quit_read(void)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	wanted &= n != 0;
	for (ssize_t i = 0; i < n; i++)
		if (keys[i] == 'q' || keys[i] == 'Q')
			return true;
	return false;
}

bool keyboard_wait(uint64_t until_ns)
{
	uint64_t now_ns;
	mode_set();
	while (!interrupted() && (now_ns = kv_clock_now(&kv_clock_monotonic)) < until_ns) {
		struct pollfd fd = {.fd = changed && wanted ? STDIN_FILENO : -1, .events = POLLIN};
		int ms = (int)KV_MIN((until_ns - now_ns) / 1000000 + 1, (uint64_t)SLICE_MS);
		if (poll(&fd, 1, ms) > 0 && tcgetpgrp(STDIN_FILENO) == getpgrp() && quit_read())
			return true;
	}
	return false;
}
