/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.h -- a sentence for a terminal of 80 columns: what the programs print for people is no wider. */
#ifndef KVRAIL_BASE_WRAP_H
#define KVRAIL_BASE_WRAP_H

#include <stdio.h>

enum { KV_COLUMNS = 80 };

/* kv_wrap -- print head, then the formatted text, broken at blanks so that no line is wider than KV_COLUMNS; further
 * lines begin with as many blanks as head has columns, or indent of them if that is not 0. A word that is wider stands
 * on a line of its own and is not cut. Ends with a newline. At most 4 KiB of text; more is cut. Thread: any. */
void kv_wrap(FILE *out, const char *head, unsigned indent, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
