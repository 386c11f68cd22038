/* SPDX-License-Identifier: Apache-2.0 */
/* switch_x86_64.S -- the System V ABI: rbx, rbp, r12 to r15, the SSE control bits and the x87 control word survive a call.
 * A context is its stack pointer; upwards from it lie {mxcsr, x87 word}, r15, r14, r13, r12, rbx, rbp, return address.
 * The layout is the same on both stacks, so that the unwind table stays true across the exchange of rsp.
 * This file carries no SHSTK property note, so a linker never marks the program for shadow stacks, which fresh contexts would break. */
#if defined(__x86_64__) && !defined(KVRAIL_UCONTEXT)
	.text

	.globl	switch_to
	.hidden	switch_to
	.type	switch_to, @function
	.p2align 4
switch_to:				/* rdi: void **save, rsi: void *to */
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	fldcw	4(%rsp)
	ldmxcsr	(%rsp)
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size	switch_to, .-switch_to

	.globl	switch_make
	.hidden	switch_make
	.type	switch_make, @function
	.p2align 4
switch_make:				/* rdi: top, rsi: fn, rdx: arg */
	.cfi_startproc
	andq	$-16, %rdi
	leaq	-64(%rdi), %rax
	leaq	switch_start(%rip), %rcx
	stmxcsr	(%rax)
	fnstcw	4(%rax)
	movq	%rdx, 24(%rax)		/* r13 */
	movq	%rsi, 32(%rax)		/* r12 */
	movq	$0, 48(%rax)		/* rbp: the end of the frame chain */
	movq	%rcx, 56(%rax)
	ret
	.cfi_endproc
	.size	switch_make, .-switch_make

	.type	switch_start, @function
	.p2align 4
switch_start:
	.cfi_startproc
	.cfi_undefined %rip		/* nobody called us: backtraces end here */
	movq	%r13, %rdi
	callq	*%r12
	ud2
	.cfi_endproc
	.size	switch_start, .-switch_start
#endif
	.section .note.GNU-stack, "", %progbits
