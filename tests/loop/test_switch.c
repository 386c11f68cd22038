/* SPDX-License-Identifier: Apache-2.0 */
/* test_switch.c -- what must survive a switch of stacks: callee-saved registers, floating point control, the stacks
 * themselves. Each test once with the switch that the library uses on this architecture and once with the ucontext
 * fallback. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop/sanitize.h"
#include "loop/switch.h"
#include "tests/loop/harness.h"

/* The sanitizers are told nothing here, so they must not look at these functions. */
#if defined(__clang__)
#define RAW __attribute__((noinline, no_sanitize("address", "thread", "undefined")))
#else
#define RAW __attribute__((noinline, no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

void *ucontext_switch_make(void *top, void (*fn)(void *arg), void *arg);
void ucontext_switch_to(void **save, void *to);

struct switch_kind {
	void *(*make)(void *top, void (*fn)(void *arg), void *arg);
	void (*to)(void **save, void *to);
};

static struct switch_kind native = {switch_make, switch_to}, fallback = {ucontext_switch_make, ucontext_switch_to};

/* switch_with_patterns -- to(save, context) with base, base + 1, ... in the callee-saved integer registers; out gets
 * what they hold after. */
void switch_with_patterns(void **save, void *context, uint64_t base, uint64_t *out, void (*to)(void **, void *));

#if defined(__x86_64__)
enum { REGISTERS = 6 };
__asm__(".text\n"
	".globl switch_with_patterns\n"
	".type switch_with_patterns, @function\n"
	"switch_with_patterns:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	push "
	"%rcx\n"
	"	lea 0(%rdx), %rbx\n	lea 1(%rdx), %rbp\n	lea 2(%rdx), %r12\n"
	"	lea 3(%rdx), %r13\n	lea 4(%rdx), %r14\n	lea 5(%rdx), %r15\n"
	"	call *%r8\n"
	"	pop %rcx\n"
	"	mov %rbx, 0(%rcx)\n	mov %rbp, 8(%rcx)\n	mov %r12, 16(%rcx)\n"
	"	mov %r13, 24(%rcx)\n	mov %r14, 32(%rcx)\n	mov %r15, 40(%rcx)\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n"
	"	ret\n"
	".size switch_with_patterns, .-switch_with_patterns\n");
#elif defined(__aarch64__)
enum { REGISTERS = 18 }; /* x19 to x28, d8 to d15 */
__asm__(".text\n"
	".globl switch_with_patterns\n"
	".type switch_with_patterns, %function\n"
	"switch_with_patterns:\n"
	"	sub sp, sp, #176\n"
	"	stp x19, x20, [sp]\n	stp x21, x22, [sp, #16]\n	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n	stp x27, x28, [sp, #64]\n	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n	stp d12, d13, [sp, #128]\n	stp d14, d15, "
	"[sp, #144]\n"
	"	str x3, [sp, #160]\n"
	"	add x19, x2, #0\n	add x20, x2, #1\n	add x21, x2, #2\n	add x22, x2, #3\n	add "
	"x23, x2, #4\n"
	"	add x24, x2, #5\n	add x25, x2, #6\n	add x26, x2, #7\n	add x27, x2, #8\n	add "
	"x28, x2, #9\n"
	"	add x9, x2, #10\n	fmov d8, x9\n	add x9, x2, #11\n	fmov d9, x9\n	add x9, x2, "
	"#12\n	fmov d10, x9\n"
	"	add x9, x2, #13\n	fmov d11, x9\n	add x9, x2, #14\n	fmov d12, x9\n	add x9, x2, "
	"#15\n	fmov d13, x9\n"
	"	add x9, x2, #16\n	fmov d14, x9\n	add x9, x2, #17\n	fmov d15, x9\n"
	"	blr x4\n"
	"	ldr x3, [sp, #160]\n"
	"	stp x19, x20, [x3]\n	stp x21, x22, [x3, #16]\n	stp x23, x24, [x3, #32]\n"
	"	stp x25, x26, [x3, #48]\n	stp x27, x28, [x3, #64]\n"
	"	stp d8, d9, [x3, #80]\n	stp d10, d11, [x3, #96]\n	stp d12, d13, [x3, #112]\n	stp d14, d15, "
	"[x3, #128]\n"
	"	ldp x19, x20, [sp]\n	ldp x21, x22, [sp, #16]\n	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n	ldp d12, d13, [sp, #128]\n	ldp d14, d15, "
	"[sp, #144]\n"
	"	add sp, sp, #176\n"
	"	ret\n"
	".size switch_with_patterns, .-switch_with_patterns\n");
#else
enum { REGISTERS = 0 };
void switch_with_patterns(void **save, void *context, uint64_t base, uint64_t *out, void (*to)(void **, void *))
{
	(void)base;
	(void)out;
	to(save, context);
}
#endif

enum { STACK = 64 << 10, ROUNDS = 1000 };

static void *host, *guest;
static const struct switch_kind *kind;
static uint64_t wrong;
static _Alignas(64) char stack[STACK];

RAW static void check(const uint64_t *seen, uint64_t base)
{
	for (int i = 0; i < REGISTERS; i++)
		wrong += seen[i] != base + (uint64_t)i;
}

RAW static void guest_with_patterns(void *arg)
{
	uint64_t seen[REGISTERS + 1], base = 0xaaaa000000000000ull;
	(void)arg;
	for (;;) {
		base += 1000;
		switch_with_patterns(&guest, host, base, seen, kind->to);
		check(seen, base);
	}
}

RAW static void host_with_patterns(void)
{
	uint64_t seen[REGISTERS + 1], base = 0x5555000000000000ull;
	for (int i = 0; i < ROUNDS; i++) {
		base += 1000;
		switch_with_patterns(&host, guest, base, seen, kind->to);
		check(seen, base);
	}
}

static void callee_saved_registers_survive(void **state)
{
	kind = *state;
	wrong = 0;
	guest = kind->make(stack + STACK, guest_with_patterns, NULL);
	host_with_patterns();
	assert_int_equal(wrong, 0);
}

static unsigned sse_control(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_stmxcsr() & ~0x3fu; /* without the sticky flags, which do not belong to a context */
#else
	return 0;
#endif
}

static int guest_modes[3];
static unsigned guest_sse[3];

RAW static void guest_with_modes(void *arg)
{
	(void)arg;
	guest_modes[0] = fegetround();
	guest_sse[0] = sse_control();
	kind->to(&guest, host);
	guest_modes[1] = fegetround();
	guest_sse[1] = sse_control();
	fesetround(FE_TOWARDZERO);
	guest_sse[2] = sse_control();
	for (;;) {
		kind->to(&guest, host);
		guest_modes[2] = fegetround();
		wrong += guest_sse[2] != sse_control();
	}
}

RAW static void host_with_modes(void)
{
	fesetround(FE_UPWARD);
	unsigned upward = sse_control();
	guest = kind->make(stack + STACK, guest_with_modes, NULL);
	fesetround(FE_DOWNWARD);
	unsigned downward = sse_control();
	for (int i = 0; i < 3; i++) {
		kind->to(&host, guest);
		wrong += fegetround() != FE_DOWNWARD || sse_control() != downward;
	}
	fesetround(FE_TONEAREST);
	wrong += guest_sse[0] != upward || guest_sse[1] != upward;
}

static void floating_point_control_belongs_to_the_context(void **state)
{
	kind = *state;
	wrong = 0;
	host_with_modes();
	assert_int_equal(wrong, 0);
	assert_int_equal(guest_modes[0], FE_UPWARD);
	assert_int_equal(guest_modes[1], FE_UPWARD);
	assert_int_equal(guest_modes[2], FE_TOWARDZERO);
}

static uintptr_t guest_frame;
static void *guest_arg;
static double guest_sum;

RAW static void guest_with_frame(void *arg)
{
	_Alignas(16) char aligned[16];
	guest_frame = (uintptr_t)aligned;
	guest_arg = arg;
	for (;;) {
		char text[64]; /* snprintf of a double needs an aligned stack and touches plenty of it */
		snprintf(text, sizeof(text), "%.3f", 1.5 + guest_sum);
		guest_sum = strtod(text, NULL);
		kind->to(&guest, host);
	}
}

static void the_new_stack_is_used_and_aligned(void **state)
{
	int token;
	kind = *state;
	guest_sum = 0;
	guest = kind->make(stack + STACK - 8, guest_with_frame, &token); /* an odd top is aligned down */
	for (int i = 1; i <= 3; i++) {
		kind->to(&host, guest);
		assert_true(guest_sum == 1.5 * i);
	}
	assert_in_range(guest_frame, (uintptr_t)stack, (uintptr_t)stack + STACK);
	assert_int_equal(guest_frame % 16, 0);
	assert_ptr_equal(guest_arg, &token);
}

#define BOTH(f)                                                                                                        \
	{#f " (native)", f, NULL, NULL, &native},                                                                      \
	{                                                                                                              \
		#f " (ucontext)", f, NULL, NULL, &fallback                                                             \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(callee_saved_registers_survive),
		BOTH(floating_point_control_belongs_to_the_context),
		BOTH(the_new_stack_is_used_and_aligned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
