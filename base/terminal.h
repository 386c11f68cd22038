/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h -- who reads a stream of results: a terminal that understands more than lines of text, a file, or nobody.
 */
#ifndef KVRAIL_BASE_TERMINAL_H
#define KVRAIL_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* kv_terminal -- a terminal whose lines can be drawn over. TERM=dumb says that it is none of these, as editors and
 * some consoles set it, and so does an empty TERM. Thread: any, as getenv. */
bool kv_terminal(FILE *stream);

/* kv_terminal_colours -- a terminal, and NO_COLOR is unset or empty (https://no-color.org). Thread: any, as getenv. */
bool kv_terminal_colours(FILE *stream);

/* kv_written -- flush the stream, and say whether all that was printed is written. A pipe without a reader counts as
 * written: with | head the reader has read what it wanted. SIGPIPE must be ignored. Thread: any. */
bool kv_written(FILE *stream);

/* kv_terminal_columns -- how many columns lines printed to the stream may have: those of the terminal, else the number
 * in COLUMNS, else 0, which means no limit. Thread: any, as getenv. */
unsigned kv_terminal_columns(FILE *stream);

#endif
