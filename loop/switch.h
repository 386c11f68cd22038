/* SPDX-License-Identifier: Apache-2.0 */
/* switch.h -- going from one stack to another. Internal to loop/.
 * Three implementations, one is compiled: switch_x86_64.S, switch_aarch64.S, switch_ucontext.c (others, or
 * -DKVRAIL_UCONTEXT). */
#ifndef KVRAIL_LOOP_SWITCH_H
#define KVRAIL_LOOP_SWITCH_H

/* switch_make -- a context that will call fn(arg) on the stack that ends at top (exclusive); fn must not return.
 * It starts with the floating point control words of the caller. Touches at most the highest 1.5 KiB (192 bytes without
 * ucontext). */
void *switch_make(void *top, void (*fn)(void *arg), void *arg);

/* switch_to -- keep the present context in *save and go on with `to`; returns when another switch_to goes on with
 * *save. */
void switch_to(void **save, void *to);

#endif
