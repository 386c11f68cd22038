/* SPDX-License-Identifier: Apache-2.0 */
/* typed.h -- single keys, for a command that runs until one is pressed. Main thread only. */
#ifndef KVRAIL_KVCLI_TYPED_H
#define KVRAIL_KVCLI_TYPED_H

#include <stdbool.h>
#include <stdint.h>

/* typed_begin -- keys come one by one, without echo, if standard input is a terminal and this program is in its
 * foreground. Otherwise nothing is read. */
void typed_begin(void);

/* typed_wait -- wait until the time (of kv_clock_monotonic), a signal noted by interrupt_catch, or a key that ends the
 * command: q, Q. Other keys are dropped. Returns whether such a key was pressed. */
bool typed_wait(uint64_t until_ns);

/* typed_end -- restore the terminal's mode from before typed_begin. */
void typed_end(void);

#endif
