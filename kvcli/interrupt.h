/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h -- commands that go on until SIGINT, and on the command line SIGTERM. Main thread only. */
#ifndef KVRAIL_KVCLI_INTERRUPT_H
#define KVRAIL_KVCLI_INTERRUPT_H

#include <stdbool.h>

/* interrupt_catch -- note SIGINT from now on, and with `term` SIGTERM, instead of ending the program. */
void interrupt_catch(bool term);

/* interrupted -- whether one of them came since interrupt_catch. */
bool interrupted(void);

/* interrupt_release -- the next signal does again what it did before interrupt_catch. goes_on: the program does not end
 * now, so nothing ends it because of the signal that came. raise_term: a SIGTERM that was caught meanwhile does what it
 * did before, too. */
void interrupt_release(bool goes_on, bool raise_term);

#endif
