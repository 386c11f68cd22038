/* SPDX-License-Identifier: Apache-2.0 */
/* history.h -- the prompt's lines of earlier times. */
#ifndef KVRAIL_KVCLI_HISTORY_H
#define KVRAIL_KVCLI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

/* history_path -- $XDG_STATE_HOME/kvrail/kv-client.history, else below ~/.local/state. False: neither is set, or it is
 * too long; nothing is kept then. */
bool history_path(char *buf, size_t cap);

/* history_wanted -- whether a line may be kept on disk: it begins with the name of a command, and is not a put with its
 * value on the line, which may be a secret. */
bool history_wanted(const char *line);

/* history_load -- give each line of the file to add, oldest first; at most HISTORY_LINES, and a file with twice as many
 * is cut to them. A file that is not there is empty. */
enum { HISTORY_LINES = 1000 };
void history_load(const char *path, void (*add)(const char *line));

/* history_keep -- append a line that is wanted. The file, and folders that are missing, are for their owner alone. What
 * fails is not told: a prompt works without its history. */
void history_keep(const char *path, const char *line);

#endif
