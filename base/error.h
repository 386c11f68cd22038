/* SPDX-License-Identifier: Apache-2.0 */
/* error.h -- functions that make and name errors; the codes themselves are in codes.h. */
#ifndef KVRAIL_BASE_ERROR_H
#define KVRAIL_BASE_ERROR_H

#include "base/codes.h"

/* kv_fail -- set *err (may be NULL) to code and a printf-formatted sentence, which is cut at the buffer's end. code is
 * negative; a positive one is negated and 0 becomes -KV_EINTERNAL, so that a failure never reads as success. errno is
 * kept. Returns code, so that it can end a function: `return kv_fail(err, -KV_EINVAL, ...)`. Thread: any. */
int kv_fail(struct kv_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* kv_fail_more -- put a printf-formatted prefix before the text in *err: "prefix: text". Returns err->code, or
 * -KV_EINTERNAL when err is NULL, so a caller that may have no err keeps its own code. */
int kv_fail_more(struct kv_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* kv_strerror -- a short English sentence fragment for any code (0, -errno, -FI_*, -KV_E*; the sign is ignored). Never
 * NULL. The string is static or thread-local and valid until this thread's next call. Thread: any. */
const char *kv_strerror(int code);

/* kv_errname -- the symbolic name: "OK", "KV_ETIMEOUT", "ENOMEM", "FI_EAVAIL"; "FI_300" for an unknown code. Same
 * lifetime as kv_strerror. */
const char *kv_errname(int code);

/* kv_errkey -- a lower-case name for reports and JSON keys: "timeout", "not_found", "enomem". Same lifetime. */
const char *kv_errkey(int code);

#endif
