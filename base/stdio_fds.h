/* SPDX-License-Identifier: Apache-2.0 */
/* stdio_fds.h -- descriptors 0 to 2 are nobody else's. */
#ifndef KVRAIL_BASE_STDIO_FDS_H
#define KVRAIL_BASE_STDIO_FDS_H

#include "base/error.h"

/* kv_stdio_reserve -- give those of descriptors 0 to 2 that are closed to /dev/null, so that nothing that is opened
 * later has one of these numbers and gets what is written to standard error. They stay so. 0, or -KV_ELIMIT with *err.
 * Any thread; before anything else is opened. */
int kv_stdio_reserve(struct kv_error *err);

#endif
