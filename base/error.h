/* SPDX-License-Identifier: Apache-2.0 */
/* error.h -- make and name errors; codes.h has the codes. */
#ifndef KVRAIL_BASE_ERROR_H
#define KVRAIL_BASE_ERROR_H

#include "base/codes.h"

/* kv_fail -- set *err (may be NULL) to code and a formatted sentence. A positive code is negated, 0 becomes
 * -KV_EINTERNAL. Keeps errno. Returns code: `return kv_fail(err, -KV_EINVAL, ...)`. Thread: any. */
int kv_fail(struct kv_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* kv_fail_more -- put a prefix before the text: "prefix: text". Returns err->code, or -KV_EINTERNAL if err is NULL. */
int kv_fail_more(struct kv_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* kv_strerror -- a short English fragment for any code, of either sign. Static or thread-local, until this thread's
 * next call. Thread: any. */
const char *kv_strerror(int code);

/* kv_errname -- "OK", "KV_ETIMEOUT", "ENOMEM", "FI_EAVAIL"; unknown: "FI_300". As kv_strerror. */
const char *kv_errname(int code);

/* kv_errkey -- lower case, for reports and JSON: "timeout", "not_found", "enomem". As kv_strerror. */
const char *kv_errkey(int code);

#endif
