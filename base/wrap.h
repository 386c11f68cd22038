/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.h -- wrap sentences for a terminal of 80 columns. */
#ifndef KVRAIL_BASE_WRAP_H
#define KVRAIL_BASE_WRAP_H

#include <stdio.h>

enum { KV_COLUMNS = 80 };

/* kv_wrap -- print head, then the formatted text, broken at blanks within KV_COLUMNS, with a newline. Further lines
 * have `indent` blanks, or head's columns if it is 0. A wider word has its own line. Cut at 4 KiB. Thread: any. */
void kv_wrap(FILE *out, const char *head, unsigned indent, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* kv_wrap_in -- the same in `limit` columns, and wider words are broken. For terminals. */
void kv_wrap_in(FILE *out, unsigned limit, const char *head, unsigned indent, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

#endif
