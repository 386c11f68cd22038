/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h -- text of peers and users inside a line. */
#ifndef KVRAIL_BASE_PRINTABLE_H
#define KVRAIL_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/* kv_printable -- text with unprintable bytes as \xNN (\n, \r, \t by name), into buf of 16 bytes or more. Cut text ends
 * in "..."; cut: it was cut before. Returns buf. Thread: any. */
char *kv_printable(const char *text, bool cut, char *buf, size_t cap);

#endif
