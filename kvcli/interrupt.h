/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h -- commands that run until SIGINT, and on the command line SIGTERM. Main thread only. */
#ifndef KVRAIL_KVCLI_INTERRUPT_H
#define KVRAIL_KVCLI_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/* interrupt_catch -- note SIGINT from now on, and with `term` SIGTERM, instead of ending the program. */
void interrupt_catch(bool term);

/* interrupted -- whether one of them came since interrupt_catch. */
bool interrupted(void);

/* interrupt_wait -- wait until this time (CLOCK_MONOTONIC) or until one of them comes. */
void interrupt_wait(uint64_t until_ns);

/* interrupt_release -- restore the former effect of the next signal. goes_on: the program continues, so the signal
 * received does not end it. raise_term: a SIGTERM received in between has its former effect as well. */
void interrupt_release(bool goes_on, bool raise_term);

#endif
