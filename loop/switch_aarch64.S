/* SPDX-License-Identifier: Apache-2.0 */
/* switch_aarch64.S -- AAPCS64: x19 to x28, the frame pointer, the low halves of v8 to v15 and FPCR survive a call.
 * A context is its stack pointer; upwards from it lie x19 to x28, x29, x30, d8 to d15, fpcr, padding: 176 bytes.
 * The layout is the same on both stacks, so that the unwind table stays true across the exchange of sp. */
#if defined(__aarch64__) && !defined(KVRAIL_UCONTEXT)
	.text

	.globl	switch_to
	.hidden	switch_to
	.type	switch_to, %function
	.p2align 4
switch_to:				/* x0: void **save, x1: void *to */
	.cfi_startproc
	hint	#34			/* bti c */
	sub	sp, sp, #176
	.cfi_def_cfa_offset 176
	stp	x19, x20, [sp, #0]
	stp	x21, x22, [sp, #16]
	stp	x23, x24, [sp, #32]
	stp	x25, x26, [sp, #48]
	stp	x27, x28, [sp, #64]
	stp	x29, x30, [sp, #80]
	.cfi_rel_offset x29, 80
	.cfi_rel_offset x30, 88
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mrs	x9, fpcr
	str	x9, [sp, #160]
	mov	x10, sp
	str	x10, [x0]
	mov	sp, x1
	ldr	x10, [sp, #160]
	cmp	x9, x10			/* writing fpcr is slow on many cores */
	b.eq	1f
	msr	fpcr, x10
1:	ldp	d14, d15, [sp, #144]
	ldp	d12, d13, [sp, #128]
	ldp	d10, d11, [sp, #112]
	ldp	d8, d9, [sp, #96]
	ldp	x29, x30, [sp, #80]
	ldp	x27, x28, [sp, #64]
	ldp	x25, x26, [sp, #48]
	ldp	x23, x24, [sp, #32]
	ldp	x21, x22, [sp, #16]
	ldp	x19, x20, [sp, #0]
	add	sp, sp, #176
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	switch_to, .-switch_to

	.globl	switch_make
	.hidden	switch_make
	.type	switch_make, %function
	.p2align 4
switch_make:				/* x0: top, x1: fn, x2: arg */
	.cfi_startproc
	hint	#34			/* bti c */
	and	x0, x0, #-16
	sub	x0, x0, #176
	adr	x9, switch_start
	mrs	x10, fpcr
	stp	x1, x2, [x0, #0]	/* x19, x20 */
	stp	xzr, x9, [x0, #80]	/* x29: the end of the frame chain; x30 */
	str	x10, [x0, #160]
	ret
	.cfi_endproc
	.size	switch_make, .-switch_make

	.type	switch_start, %function
	.p2align 4
switch_start:
	.cfi_startproc
	.cfi_undefined x30		/* nobody called us: backtraces end here */
	mov	x0, x20
	blr	x19
	brk	#1
	.cfi_endproc
	.size	switch_start, .-switch_start
#endif
	.section .note.GNU-stack, "", %progbits
