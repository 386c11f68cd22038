/* SPDX-License-Identifier: Apache-2.0 */
/* switch.h -- switch between stacks. Internal to loop/. One of switch_x86_64.S, switch_aarch64.S, switch_ucontext.c
 * (others, or -DKVRAIL_UCONTEXT) is compiled. */
#ifndef KVRAIL_LOOP_SWITCH_H
#define KVRAIL_LOOP_SWITCH_H

/* switch_make -- a context that will call fn(arg) on the stack ending at top (exclusive); fn must not return. Starts
 * with the caller's floating point control words. Touches the highest 1.5 KiB at most (192 bytes without ucontext). */
void *switch_make(void *top, void (*fn)(void *arg), void *arg);

/* switch_to -- save this context in *save and continue `to`; returns when *save is continued. */
void switch_to(void **save, void *to);

#endif
