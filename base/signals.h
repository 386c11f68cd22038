/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h -- threads without the host's signals. */
#ifndef KVRAIL_BASE_SIGNALS_H
#define KVRAIL_BASE_SIGNALS_H

#include <signal.h>

/* kv_signals_block -- block all signals but faults and SIGPROF in this thread, and in threads that it starts. Thread:
 * any. Owner: *before is the caller's. */
void kv_signals_block(sigset_t *before);

/* kv_signals_restore -- undo it, in the same thread. */
void kv_signals_restore(const sigset_t *before);

#endif
