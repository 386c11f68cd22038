/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h -- the reader of a stream: a capable terminal, a file, or nobody. */
#ifndef KVRAIL_BASE_TERMINAL_H
#define KVRAIL_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* kv_terminal -- a terminal whose lines can be redrawn; not with TERM=dumb or empty. Thread: any, as getenv. */
bool kv_terminal(FILE *stream);

/* kv_terminal_colours -- the same, without NO_COLOR (https://no-color.org). Thread: any, as getenv. */
bool kv_terminal_colours(FILE *stream);

/* kv_written -- flush; whether all text is written. A pipe without reader counts as written, as with | head. SIGPIPE
 * must be ignored. Thread: any. */
bool kv_written(FILE *stream);

/* kv_terminal_columns -- columns of the terminal, else COLUMNS, else 0: no limit. Thread: any, as getenv. */
unsigned kv_terminal_columns(FILE *stream);

#endif
