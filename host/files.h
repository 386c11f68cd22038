/* SPDX-License-Identifier: Apache-2.0 */
/* files.h -- small files of /proc and /sys. Part of host.h.
 *
 * A path is printf-formatted; mostly its first part is a root, "" or a copy of another machine's tree. A missing file
 * reads as an empty one, and so does one whose path is longer than PATH_MAX. Thread: any. Opens files; stdio allocates.
 */
#ifndef KVRAIL_HOST_FILES_H
#define KVRAIL_HOST_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* kv_file_line -- the first line, without its end. False: there is none, or it is empty; then out is "". */
bool kv_file_line(char *out, size_t cap, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* kv_file_number -- the number that the file begins with, decimal, 0x or 0; `otherwise` when there is none. */
long kv_file_number(long otherwise, const char *path, ...) __attribute__((format(printf, 2, 3)));

/* kv_file_field -- what stands behind `name`, which begins a line, without blanks before it. False: no such line. */
bool kv_file_field(char *out, size_t cap, const char *name, const char *path, ...)
	__attribute__((format(printf, 4, 5)));

/* kv_file_here -- whether there is such a file or directory. */
bool kv_file_here(const char *path, ...) __attribute__((format(printf, 1, 2)));

/* kv_link_last -- the last part of a link's target; "" when there is none. */
void kv_link_last(char *out, size_t cap, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* kv_dir_each -- call fn for every entry except . and .., in the order of versionsort. */
void kv_dir_each(void (*fn)(const char *entry, void *arg), void *arg, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

#endif
