/* SPDX-License-Identifier: Apache-2.0 */
/* proc_files.h -- small files of /proc and /sys. Part of host.h.
 *
 * A path is printf-formatted and mostly begins with a root: "", or a copy of another machine's tree. A missing file, or
 * a path longer than PATH_MAX, reads as an empty file. Thread: any. stdio allocates. */
#ifndef KVRAIL_HOST_PROC_FILES_H
#define KVRAIL_HOST_PROC_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* kv_file_line -- the first line, without its end. False: none, or empty; then out is "". */
bool kv_file_line(char *out, size_t cap, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* kv_file_number -- the number at the start, decimal, 0x or 0; `otherwise` if there is none. */
long kv_file_number(long otherwise, const char *path, ...) __attribute__((format(printf, 2, 3)));

/* kv_file_field -- the text behind `name` at the start of a line, without leading blanks. False: no such line. */
bool kv_file_field(char *out, size_t cap, const char *name, const char *path, ...)
	__attribute__((format(printf, 4, 5)));

/* kv_file_here -- whether the file or directory exists. */
bool kv_file_here(const char *path, ...) __attribute__((format(printf, 1, 2)));

/* kv_link_last -- the last part of a link's target, or "". */
void kv_link_last(char *out, size_t cap, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* kv_dir_each -- call fn for each entry except . and .., in the order of versionsort. */
void kv_dir_each(void (*fn)(const char *entry, void *arg), void *arg, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

#endif
