/* SPDX-License-Identifier: Apache-2.0 */
/* stdio_fds.h -- keep descriptors 0 to 2 from being used for anything else. */
#ifndef KVRAIL_BASE_STDIO_FDS_H
#define KVRAIL_BASE_STDIO_FDS_H

#include "base/error.h"

/* kv_stdio_reserve -- open /dev/null on those of descriptors 0 to 2 that are closed. Then no later file has one of
 * these numbers and receives the text meant for standard error. They stay open. Returns 0, or -KV_ELIMIT with *err.
 * Thread: any; call it before anything else is opened. */
int kv_stdio_reserve(struct kv_error *err);

/* kv_stdio_keep -- the same for a program whose standard output is its result: where that is closed, writes to it fail
 * as they would have, and do not go to /dev/null. Thread: main, before anything is opened. */
void kv_stdio_keep(void);

#endif
