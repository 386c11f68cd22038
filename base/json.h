/* SPDX-License-Identifier: Apache-2.0 */
/* json.h -- text inside JSON strings: of logs, and of the server's pages. */
#ifndef KVRAIL_BASE_JSON_H
#define KVRAIL_BASE_JSON_H

#include <stddef.h>

/* kv_json_text -- write text as the inside of a JSON string: quotes, backslashes and control characters escaped, each
 * byte that is no UTF-8 replaced by U+FFFD. What has no room in buf is left out; no character is cut. Returns buf.
 * Thread: any. */
char *kv_json_text(const char *text, char *buf, size_t cap);

#endif
