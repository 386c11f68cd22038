/* SPDX-License-Identifier: Apache-2.0 */
/* editor.h -- lines typed at a terminal, with editing, history and completion. Main thread only. */
#ifndef KVRAIL_KVCLI_EDITOR_H
#define KVRAIL_KVCLI_EDITOR_H

#include <stdbool.h>

/* editor_begin -- set the editor up for standard input. False: the C library has no UTF-8 locale, without which the
 * editor would lose bytes; the caller reads lines without it. */
bool editor_begin(void);

/* editor_line -- print the prompt and read a line, without its end. It has the typed bytes, whatever the locale and the
 * terminal's encoding. Returns heap that the caller frees; NULL at the end of input. */
char *editor_line(const char *prompt);

/* editor_remember -- add a line to the history that the cursor keys show. */
void editor_remember(const char *line);

/* editor_encode -- the form of a line inside the editor: heap, or NULL without memory. For tests. */
char *editor_encode(const char *bytes);

/* editor_decode -- the bytes of a line in that form, in place. */
void editor_decode(char *line);

#endif
