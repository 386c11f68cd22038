/* SPDX-License-Identifier: Apache-2.0 */
/* switch_ucontext_variant.c -- the fallback switch under other names, so that one program can test both. */
#ifndef KVRAIL_UCONTEXT
#define KVRAIL_UCONTEXT 1
#endif
#define switch_make ucontext_switch_make
#define switch_to   ucontext_switch_to
#include "loop/switch_ucontext.c"
