/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c -- asked each time: streams are few, and tests change the environment. */
#include "base/terminal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool kv_terminal(FILE *stream)
{
	const char *term = getenv("TERM");
	return isatty(fileno(stream)) && !(term && (!*term || strcmp(term, "dumb") == 0));
}

bool kv_terminal_colours(FILE *stream)
{
	const char *none = getenv("NO_COLOR");
	return kv_terminal(stream) && !(none && *none);
}

bool kv_written(FILE *stream)
{
	struct pollfd fd = {.fd = fileno(stream)};
	if (fflush(stream) == 0 && !ferror(stream))
		return true;
	return poll(&fd, 1, 0) == 1 && (fd.revents & POLLERR); /* a pipe or socket without reader */
}

unsigned kv_terminal_columns(FILE *stream)
{
	const char *text = getenv("COLUMNS");
	struct winsize size;
	if (isatty(fileno(stream)) && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}
