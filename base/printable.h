/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h -- text of peers and of users as it may stand in a line. */
#ifndef KVRAIL_BASE_PRINTABLE_H
#define KVRAIL_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/* kv_printable -- text with other bytes than printable ASCII as \xNN (\n, \r, \t by name), into buf, of cap bytes, 16
 * at least. What has no room is cut, and "..." ends it; cut: it was cut before already. Returns buf. Thread: any. */
char *kv_printable(const char *text, bool cut, char *buf, size_t cap);

#endif
