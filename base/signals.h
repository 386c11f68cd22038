/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h -- threads of ours that take none of the host's signals. */
#ifndef KVRAIL_BASE_SIGNALS_H
#define KVRAIL_BASE_SIGNALS_H

#include <signal.h>

/* kv_signals_block -- block, for this thread, all signals but those that a fault of a thread raises in itself, and
 * SIGPROF. Threads that it starts inherit that. Thread: any. Owner: *before is the caller's. */
void kv_signals_block(sigset_t *before);

/* kv_signals_restore -- undo kv_signals_block. Thread: the same. */
void kv_signals_restore(const sigset_t *before);

#endif
