/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h -- commands that go on until SIGINT, and on the command line SIGTERM. Main thread only. */
#ifndef KVRAIL_KVCLI_INTERRUPT_H
#define KVRAIL_KVCLI_INTERRUPT_H

#include <stdbool.h>

/* interrupt_catch -- note SIGINT from now on, and with `term` SIGTERM, instead of ending the program. */
void interrupt_catch(bool term);

/* interrupted -- whether one of them came since interrupt_catch. */
bool interrupted(void);

/* interrupt_release -- the next signal does again what it did before interrupt_catch. raise_term: so does a SIGTERM
 * that was caught meanwhile. */
void interrupt_release(bool raise_term);

#endif
