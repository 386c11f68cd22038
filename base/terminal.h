/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h -- whether a stream is a terminal that understands more than lines of text. */
#ifndef KVRAIL_BASE_TERMINAL_H
#define KVRAIL_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* kv_terminal -- a terminal whose lines can be drawn over. TERM=dumb says that it is none of these, as editors and
 * some consoles set it. Thread: any, as getenv. */
bool kv_terminal(FILE *stream);

/* kv_terminal_colours -- a terminal, and NO_COLOR is unset or empty (https://no-color.org). Thread: any, as getenv. */
bool kv_terminal_colours(FILE *stream);

#endif
