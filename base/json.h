/* SPDX-License-Identifier: Apache-2.0 */
/* json.h -- text inside JSON strings, for logs and the server's pages. */
#ifndef KVRAIL_BASE_JSON_H
#define KVRAIL_BASE_JSON_H

#include <stddef.h>

/* kv_json_text -- write text for a JSON string: quotes, backslashes and control characters escaped, invalid UTF-8 as
 * U+FFFD. Cut between characters where buf ends. Returns buf. Thread: any. */
char *kv_json_text(const char *text, char *buf, size_t cap);

#endif
