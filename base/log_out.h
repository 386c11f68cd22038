/* SPDX-License-Identifier: Apache-2.0 */
/* log_out.h -- lines to standard error, which may be blocked. */
#ifndef KVRAIL_BASE_LOG_OUT_H
#define KVRAIL_BASE_LOG_OUT_H

#include <stdbool.h>
#include <stddef.h>

/* kv_log_out -- write a line with its end to standard error. Waits KV_LOG_OUT_MS at most, and not again until the
 * reader reads. False: lost. errno may change. Thread: any. */
enum { KV_LOG_OUT_MS = 20 };
bool kv_log_out(const char *line, size_t len);

#endif
