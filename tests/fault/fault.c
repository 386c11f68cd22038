/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c -- the stubs between caller and callee, and what they decide.
 *
 * A stub is a few instructions that work for every signature: they keep the argument registers, ask fault_hit, and then
 * either return the failure's value or go on to the real function as if they had never been there. So a row of
 * points.def is all that a function needs. A wrapper in C for each would be a prototype for each.
 *
 * Calls that libfabric makes through our operation tables do not count: the caller must be in the program itself. */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/engine.h"
#include "engine/fabric/fabric.h"
#include "loop/loop.h"

/* ---- the stubs ---- */

#if defined(__x86_64__)
#define REGISTER_ARGS 6
#define STUB(fn, real)                                                                                                 \
	asm(".ifndef __wrap_" fn "\n"                                                                                  \
	    ".pushsection .rodata\n.Lname_" fn ": .asciz \"" fn "\"\n.popsection\n"                                    \
	    ".text\n.globl __wrap_" fn "\n.type __wrap_" fn ", @function\n__wrap_" fn ":\n"                            \
	    "push %rbp\nmov %rsp, %rbp\nsub $192, %rsp\n"                                                              \
	    "mov %rdi, -64(%rbp)\nmov %rsi, -56(%rbp)\nmov %rdx, -48(%rbp)\nmov %rcx, -40(%rbp)\nmov %r8, "            \
	    "-32(%rbp)\nmov %r9, -24(%rbp)\nmov %rax, -16(%rbp)\n"                                                     \
	    "movaps %xmm0, (%rsp)\nmovaps %xmm1, 16(%rsp)\nmovaps %xmm2, 32(%rsp)\nmovaps %xmm3, 48(%rsp)\n"           \
	    "movaps %xmm4, 64(%rsp)\nmovaps %xmm5, 80(%rsp)\nmovaps %xmm6, 96(%rsp)\nmovaps %xmm7, 112(%rsp)\n"        \
	    "lea .Lname_" fn                                                                                           \
	    "(%rip), %rdi\nlea -64(%rbp), %rsi\nmov 8(%rbp), %rdx\nlea 16(%rbp), %rcx\nlea -8(%rbp), %r8\n"            \
	    "call fault_hit\ntest %eax, %eax\njne 1f\n"                                                                \
	    "movaps (%rsp), %xmm0\nmovaps 16(%rsp), %xmm1\nmovaps 32(%rsp), %xmm2\nmovaps 48(%rsp), %xmm3\n"           \
	    "movaps 64(%rsp), %xmm4\nmovaps 80(%rsp), %xmm5\nmovaps 96(%rsp), %xmm6\nmovaps 112(%rsp), %xmm7\n"        \
	    "mov -64(%rbp), %rdi\nmov -56(%rbp), %rsi\nmov -48(%rbp), %rdx\nmov -40(%rbp), %rcx\nmov -32(%rbp), "      \
	    "%r8\nmov -24(%rbp), %r9\nmov -16(%rbp), %rax\n"                                                           \
	    "leave\njmp " real "@PLT\n"                                                                                \
	    "1: mov -8(%rbp), %rax\nleave\nret\n"                                                                      \
	    ".endif\n")
#elif defined(__aarch64__)
#define REGISTER_ARGS 8
#define STUB(fn, real)                                                                                                 \
	asm(".ifndef __wrap_" fn "\n"                                                                                  \
	    ".pushsection .rodata\n.Lname_" fn ": .asciz \"" fn "\"\n.popsection\n"                                    \
	    ".text\n.balign 4\n.globl __wrap_" fn "\n.type __wrap_" fn ", %function\n__wrap_" fn ":\n"                 \
	    "stp x29, x30, [sp, #-224]!\nmov x29, sp\n"                                                                \
	    "stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\nstp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\nstr x8, "     \
	    "[sp, #80]\n"                                                                                              \
	    "stp q0, q1, [sp, #96]\nstp q2, q3, [sp, #128]\nstp q4, q5, [sp, #160]\nstp q6, q7, [sp, #192]\n"          \
	    "adrp x0, .Lname_" fn "\nadd x0, x0, :lo12:.Lname_" fn                                                     \
	    "\nadd x1, sp, #16\nmov x2, x30\nadd x3, sp, #224\nadd x4, sp, #88\n"                                      \
	    "bl fault_hit\nmov w9, w0\n"                                                                               \
	    "ldp q0, q1, [sp, #96]\nldp q2, q3, [sp, #128]\nldp q4, q5, [sp, #160]\nldp q6, q7, [sp, #192]\n"          \
	    "cbnz w9, 1f\n"                                                                                            \
	    "ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\nldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\nldr x8, "     \
	    "[sp, #80]\n"                                                                                              \
	    "ldp x29, x30, [sp], #224\nb " real "\n"                                                                   \
	    "1: ldr x0, [sp, #88]\nldp x29, x30, [sp], #224\nret\n"                                                    \
	    ".endif\n")
#else
#error "the stubs of the fault sweep are not written for this machine"
#endif

#define POINT(fn, value, error, times, error_arg)     STUB(#fn, "__real_" #fn);
#define POINT_VIA(fn, value, error, times, error_arg) STUB(#fn, "fault_real_" #fn);
#include "tests/fault/points.def"
#undef POINT
#undef POINT_VIA

#define POINT(fn, value, error, times, error_arg) {#fn, value, error, times, error_arg, #value},
#define POINT_VIA                                 POINT
const struct fault_way fault_ways[] = {
#include "tests/fault/points.def"
};
const unsigned fault_ways_count = sizeof(fault_ways) / sizeof(fault_ways[0]);

/* ---- the decision ---- */

struct fault_board *fault_board;

extern char __executable_start, etext;

void fault_begin(void)
{
	atomic_store(&fault_board->on, true);
}

void fault_end(void)
{
	atomic_store(&fault_board->on, false);
}

bool fault_lasts(void)
{
	unsigned fired = fault_board->fired;
	return fired > 0 && fired < fault_board->way->times;
}

static void record(struct fault_board *b, const char *function, uintptr_t caller)
{
	unsigned at = (unsigned)(caller * 2654435761u >> 4) % FAULT_SITES_MAX;
	/* Two processes may be at it. The first to come takes the place. */
	for (;; at = (at + 1) % FAULT_SITES_MAX) {
		uintptr_t there = 0;
		if (atomic_compare_exchange_strong(&b->site[at].caller, &there, caller)) {
			b->site[at].function = function;
			b->site[at].order = b->sites++;
		} else if (there != caller) {
			continue;
		}
		b->site[at].hits++;
		return;
	}
}

static void fail(const struct fault_way *way, const long *regs, const long *stack)
{
	unsigned arg = way->error_arg;
	if (arg)
		kv_fail((struct kv_error *)(arg <= REGISTER_ARGS ? regs[arg - 1] : stack[arg - 1 - REGISTER_ARGS]),
			(int)way->value, "fault: %s failed", way->function);
	if (way->error == EOPENSSL)
		ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);
	else if (way->error)
		errno = way->error;
}

/* fault_hit -- called by the stubs. 1: the call fails with *out_value. */
int fault_hit(const char *function, const long *regs, uintptr_t caller, const long *stack, long *out_value);
int fault_hit(const char *function, const long *regs, uintptr_t caller, const long *stack, long *out_value)
{
	struct fault_board *b = fault_board;
	unsigned n;
	if (!b || !atomic_load_explicit(&b->on, memory_order_relaxed) || caller < (uintptr_t)&__executable_start ||
	    caller >= (uintptr_t)&etext)
		return 0;
	if (b->recording) {
		record(b, function, caller);
		return 0;
	}
	if (caller != b->caller)
		return 0;
	n = atomic_fetch_add(&b->hits, 1) + 1;
	if (n < b->nth || n >= b->nth + b->way->times)
		return 0;
	atomic_fetch_add(&b->fired, 1);
	fail(b->way, regs, stack);
	*out_value = b->way->value;
	return 1;
}

/* ---- functions that are looked at, too ---- */

static _Atomic int64_t mapped, infos;
static _Atomic int last_connection = -1;
static const char *_Atomic doomed;

int64_t fault_mapped_bytes(void)
{
	return mapped;
}

int64_t fault_infos(void)
{
	return infos;
}

/* Of all threads in sum: one waits for another, so what each of them is kept waiting delays the whole. */
static uint64_t waited_ns(void)
{
	DIR *d = opendir("/proc/self/task");
	const struct dirent *e;
	uint64_t sum = 0;
	while (d && (e = readdir(d)) != NULL) {
		char path[300], line[128];
		unsigned long long ran, waited;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(line, sizeof(line), f) && sscanf(line, "%llu %llu", &ran, &waited) == 2)
			sum += waited;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return sum;
}

void fault_note_machine(void)
{
	fault_board->failed_ns = kv_clock_now(&kv_clock_monotonic);
	fault_board->waited_ns = waited_ns();
	fault_board->wrong = true;
}

int fault_last_connection(void)
{
	return last_connection;
}

void fault_kill_endpoint(const char *thread)
{
	doomed = thread;
}

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *fault_real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *fault_real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *p = __real_mmap(addr, len, prot, flags, fd, offset);
	if (fault_board && p != MAP_FAILED)
		mapped += (int64_t)kv_align_up(len, 4096);
	return p;
}

int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len)
{
	int rc = __real_munmap(addr, len);
	if (rc == 0)
		mapped -= (int64_t)kv_align_up(len, 4096);
	return rc;
}

struct fi_info *__real_fi_dupinfo(const struct fi_info *info);
struct fi_info *fault_real_fi_dupinfo(const struct fi_info *info);
struct fi_info *fault_real_fi_dupinfo(const struct fi_info *info)
{
	struct fi_info *copy = __real_fi_dupinfo(info);
	infos += copy != NULL;
	return copy;
}

int __real_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info);
int fault_real_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			  const struct fi_info *hints, struct fi_info **info);
int fault_real_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			  const struct fi_info *hints, struct fi_info **info)
{
	int rc = __real_fi_getinfo(version, node, service, flags, hints, info);
	infos += rc == 0;
	return rc;
}

void __real_fi_freeinfo(struct fi_info *info);
void __wrap_fi_freeinfo(struct fi_info *info);
void __wrap_fi_freeinfo(struct fi_info *info)
{
	__real_fi_freeinfo(info);
	infos -= info != NULL;
}

int __real_io_connect_await(const struct sockaddr_storage *addr, socklen_t len, int *out_fd, uint64_t deadline_ns);
int fault_real_io_connect_await(const struct sockaddr_storage *addr, socklen_t len, int *out_fd, uint64_t deadline_ns);
int fault_real_io_connect_await(const struct sockaddr_storage *addr, socklen_t len, int *out_fd, uint64_t deadline_ns)
{
	int rc = __real_io_connect_await(addr, len, out_fd, deadline_ns);
	if (rc == 0 && addr->ss_family != AF_UNIX) /* that of descriptors is another */
		last_connection = *out_fd;
	return rc;
}

static _Atomic uint64_t part_bytes;

void fault_parts(uint64_t bytes)
{
	part_bytes = bytes;
}

int __real_te_open(const struct te_options *options, const struct te_handlers *handlers, void *arg, struct te **out,
		   struct kv_error *err);
int fault_real_te_open(const struct te_options *options, const struct te_handlers *handlers, void *arg, struct te **out,
		       struct kv_error *err);
int fault_real_te_open(const struct te_options *options, const struct te_handlers *handlers, void *arg, struct te **out,
		       struct kv_error *err)
{
	struct te_options o = *options;
	if (part_bytes)
		o.part_bytes = part_bytes;
	return __real_te_open(&o, handlers, arg, out, err);
}

int __real_fab_poll(struct fab *fab, struct fab_event *out, int n);
int __wrap_fab_poll(struct fab *fab, struct fab_event *out, int n);
int __wrap_fab_poll(struct fab *fab, struct fab_event *out, int n)
{
	const char *who = doomed;
	char name[16];
	if (who && n > 0 && pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 && strcmp(name, who) == 0) {
		doomed = NULL;
		*out = (struct fab_event){.type = FAB_EV_DEAD, .status = -EIO};
		return 1;
	}
	return __real_fab_poll(fab, out, n);
}
