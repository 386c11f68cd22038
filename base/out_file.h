/* SPDX-License-Identifier: Apache-2.0 */
/* out_file.h -- a file that a program writes: made before the work, named when it is complete. */
#ifndef KVRAIL_BASE_OUT_FILE_H
#define KVRAIL_BASE_OUT_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct out_file {
	const char *what;                         /* "the JSON report" */
	char path[PATH_MAX], temporary[PATH_MAX]; /* temporary: empty when written directly */
	int fd;                                   /* -1: not open */
};

/* out_file_open -- make sure now that the file can be written later: creates a temporary file beside path and reserves
 * some room for it ("-": standard output; a pipe or device is written directly). A link stays a link, and a file that
 * is replaced keeps its mode. what: names it in errors; it must live as long. Returns 0 or -errno with one sentence;
 * then out_file_discard has nothing to do. */
int out_file_open(struct out_file *f, const char *path, const char *what, struct kv_error *err);

/* out_file_apart -- refuse a path at which the file lies that another option, `option`, names for reading: the report
 * would take its place. Either path may be NULL. Returns 0 or -KV_EINVAL with one sentence. */
int out_file_apart(const char *path, const char *what, const char *input, const char *option, struct kv_error *err);

/* out_file_write -- write it all and give it its name. 0 or -errno with one sentence; then path is as it was before.
 * data may be NULL: there was no memory for it. Closes the file either way. out_file_write_line -- a text, and the end
 * of its last line. */
int out_file_write(struct out_file *f, const void *data, size_t len, struct kv_error *err);
int out_file_write_line(struct out_file *f, const char *text, struct kv_error *err);

/* out_file_written -- the same after the caller has written len bytes to f->fd by itself. */
int out_file_written(struct out_file *f, uint64_t len, struct kv_error *err);

/* out_file_discard -- give up: removes the temporary file. A file that is not open is accepted. */
void out_file_discard(struct out_file *f);

#endif
