/* SPDX-License-Identifier: Apache-2.0 */
/* history.h -- the lines entered at earlier prompts. */
#ifndef KVRAIL_KVCLI_HISTORY_H
#define KVRAIL_KVCLI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

/* history_path -- $XDG_STATE_HOME/kvrail/kv-client.history, else the same below $HOME/.local/state. False: neither
 * variable is set, or the path is too long; then nothing is kept. */
bool history_path(char *buf, size_t cap);

/* history_wanted -- whether a line may be kept on disk: it begins with the name of a command, and is no put with a
 * value, which may be a secret. */
bool history_wanted(const char *line);

/* history_load -- pass the last HISTORY_LINES lines of the file to add, oldest first. A file with twice as many is cut
 * to them. A missing file counts as empty. */
enum { HISTORY_LINES = 1000 };
void history_load(const char *path, void (*add)(const char *line));

/* history_keep -- append a line, if it is wanted. Creates the file and missing folders for their owner alone. Errors
 * are not reported: a prompt works without its history. */
void history_keep(const char *path, const char *line);

#endif
