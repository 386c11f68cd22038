/* SPDX-License-Identifier: Apache-2.0 */
/* keyboard.h -- single keys, for a command that runs until one is pressed. Main thread only. */
#ifndef KVRAIL_KVCLI_KEYBOARD_H
#define KVRAIL_KVCLI_KEYBOARD_H

#include <stdbool.h>
#include <stdint.h>

/* keyboard_begin -- keys come one by one, without echo, if standard input is a terminal and this program is in its
 * foreground. Otherwise nothing is read. */
void keyboard_begin(void);

/* keyboard_wait -- wait until the time (of kv_clock_monotonic), a signal noted by interrupt_catch, or a key that ends
 * the command: q, Q. Other keys are dropped. Returns whether such a key was pressed. */
bool keyboard_wait(uint64_t until_ns);

/* keyboard_end -- restore the terminal's mode from before keyboard_begin. */
void keyboard_end(void);

#endif
