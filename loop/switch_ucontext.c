/* SPDX-License-Identifier: Apache-2.0 */
/* switch_ucontext.c -- the fallback for other architectures, or with -DKVRAIL_UCONTEXT.
 *
 * A context points to a ucontext_t on its own stack: in switch_to's frame while it is away, at the top before it first
 * runs. swapcontext keeps the signal mask with two system calls (240 ns; the assembly takes 7 ns). */
#include "loop/switch.h"

#if defined(KVRAIL_UCONTEXT) || (!defined(__x86_64__) && !defined(__aarch64__))
#include <stdint.h>
#include <ucontext.h>

#include "base/base.h"

/* makecontext passes ints: a pointer in halves. */
static void start(unsigned fn_high, unsigned fn_low, unsigned arg_high, unsigned arg_low)
{
	uintptr_t fn = (uintptr_t)((uint64_t)fn_high << 32 | fn_low);
	uintptr_t arg = (uintptr_t)((uint64_t)arg_high << 32 | arg_low);
	((void (*)(void *))fn)((void *)arg);
	__builtin_trap();
}

/* In its own function, because of compilers' treatment of functions that may return twice (this one never does). */
__attribute__((noinline)) static int snapshot(ucontext_t *context)
{
	return getcontext(context);
}

void *switch_make(void *top, void (*fn)(void *arg), void *arg)
{
	enum { BELOW = 1 << 12 }; /* makecontext needs a size, but uses only the upper end */
	uintptr_t at = kv_align_down((uintptr_t)top - sizeof(ucontext_t), 64);
	ucontext_t *context = (ucontext_t *)at;
	uint64_t f = (uintptr_t)fn, a = (uintptr_t)arg;
	if (snapshot(context) < 0)
		return NULL;
	context->uc_stack.ss_sp = (void *)(at - BELOW);
	context->uc_stack.ss_size = BELOW;
	context->uc_link = NULL;
	makecontext(context, (void (*)(void))start, 4, (unsigned)(f >> 32), (unsigned)f, (unsigned)(a >> 32),
		    (unsigned)a);
	return context;
}

void switch_to(void **save, void *to)
{
	ucontext_t here;
	*save = &here;
	swapcontext(&here, to);
}
#endif
