/* SPDX-License-Identifier: Apache-2.0 */
/* text.h -- small files and JSON for the sources. */
#ifndef KVRAIL_KVSERVER_MEMBER_TEXT_H
#define KVRAIL_KVSERVER_MEMBER_TEXT_H

#include <jansson.h>

#include "base/base.h"

/* text_file_line -- the first line of a file, without its end, into buf. Read each time, since passwords and tokens
 * change. 0 or -KV_EINVAL, -errno with *err. */
int text_file_line(const char *path, char *buf, size_t cap, struct kv_error *err);

/* text_utf8 -- whether JSON may contain this text. */
bool text_utf8(const char *text);

/* text_json -- parse a service's answer. NULL: invalid, or more than TEXT_VALUES_MAX values, which would take many
 * times its bytes of memory. Free it by json_decref, which accepts NULL. */
enum { TEXT_VALUES_MAX = 1 << 18 };
json_t *text_json(const char *text, size_t len);

/* text_u64 -- the number of a JSON member, as text ("42") or number; 0: missing. */
uint64_t text_u64(const json_t *object, const char *name);

/* text_string -- the text of a JSON member, or "". Valid as long as the object. */
const char *text_string(const json_t *object, const char *name);

#endif
