/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c -- asked each time: streams are few, and a test changes the environment. */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool kv_terminal(FILE *stream)
{
	const char *term = getenv("TERM");
	return isatty(fileno(stream)) && !(term && strcmp(term, "dumb") == 0);
}

bool kv_terminal_colours(FILE *stream)
{
	const char *none = getenv("NO_COLOR");
	return kv_terminal(stream) && !(none && *none);
}
