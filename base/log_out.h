/* SPDX-License-Identifier: Apache-2.0 */
/* log_out.h -- lines to standard error, which may take none. */
#ifndef KVRAIL_BASE_LOG_OUT_H
#define KVRAIL_BASE_LOG_OUT_H

#include <stdbool.h>
#include <stddef.h>

/* kv_log_out -- write a line, its end included, to standard error. It waits KV_LOG_OUT_MS at most for a reader that
 * stands still; until that one reads again, further lines do not wait. False: the line is lost. errno may change.
 * Thread: any. */
enum { KV_LOG_OUT_MS = 20 };
bool kv_log_out(const char *line, size_t len);

#endif
