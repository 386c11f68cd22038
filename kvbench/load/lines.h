/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h -- the lines of a text file, plain or gzip, with bounded memory. */
#ifndef KVRAIL_KVBENCH_LOAD_LINES_H
#define KVRAIL_KVBENCH_LOAD_LINES_H

#include <stdbool.h>

#include "base/base.h"

enum { LINE_MAX_BYTES = 32 << 20 };

struct lines;

/* lines_open_stream -- read from a descriptor, which the reader takes, and closes also after an error. name is for
 * messages and must outlive the reader. Nothing is read yet. Returns 0, or -KV_ENOMEM. */
int lines_open_stream(int fd, const char *name, struct lines **out, struct kv_error *err);
void lines_close(struct lines **lines);

/* lines_rewind -- begin again at the first line. Returns 0, or -KV_EINVAL for a stream that cannot (a pipe). */
int lines_rewind(struct lines *lines, struct kv_error *err);

/* lines_next -- the next line without its newline: 1 with *out (until the next call) and its length, 0 at the end, or a
 * code with a sentence that names file and line: -KV_ETOOBIG (over LINE_MAX_BYTES), -KV_EINVAL (a file in another
 * format, damaged gzip data), -EIO, -KV_ENOMEM. A byte order mark of UTF-8 is skipped. After an error: close. */
int lines_next(struct lines *lines, const char **out, size_t *out_len, struct kv_error *err);

/* lines_number -- of the last line, from 1. lines_name -- of the file. */
uint64_t lines_number(const struct lines *lines);
const char *lines_name(const struct lines *lines);

#endif
