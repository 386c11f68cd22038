/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.h -- wrap a sentence for a terminal of 80 columns; the programs' text for people is no wider. */
#ifndef KVRAIL_BASE_WRAP_H
#define KVRAIL_BASE_WRAP_H

#include <stdio.h>

enum { KV_COLUMNS = 80 };

/* kv_wrap -- print head, then the formatted text, broken at blanks so that no line is wider than KV_COLUMNS. Further
 * lines begin with `indent` blanks, or, if that is 0, with as many as head has columns. A wider word stands on a line
 * of its own and is not cut. Ends with a newline. Text beyond 4 KiB is cut. Thread: any. */
void kv_wrap(FILE *out, const char *head, unsigned indent, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* kv_wrap_in -- the same in `limit` columns instead of KV_COLUMNS, and a wider word is broken. For terminals. */
void kv_wrap_in(FILE *out, unsigned limit, const char *head, unsigned indent, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

#endif
