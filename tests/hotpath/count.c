/* SPDX-License-Identifier: Apache-2.0 */
/* count.c -- the functions themselves, in front of the C library's.
 *
 * A function that the program exports is found before that of any library, by the libraries too. The return address
 * tells the caller: inside the program it is our code, for all of it is linked in; inside libfabric it is the
 * provider. What the C library allocates for us (strdup, fopen) has a return address of its own and counts as other;
 * the tests want that to be none as well.
 * Rejected: the linker's --wrap, which sees our calls alone and would not tell what the provider does. */
#include "tests/hotpath/count.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "loop/sanitize.h"

enum { SITES = 256 };

static struct {
	atomic_bool on;
	_Atomic uint64_t count[COUNT_WHOS][COUNT_WHATS];
	/* Where calls came from: what comes after SITES places is counted and has no line. */
	struct {
		_Atomic uintptr_t from;
		const char *name;
		_Atomic uint64_t count;
	} site[SITES];
} c;

#if !KV_ASAN && !KV_TSAN

extern char __executable_start, etext;

static struct {
	uintptr_t from, to;
} fabric;

static enum count_who who_is(uintptr_t from)
{
	if (from >= (uintptr_t)&__executable_start && from < (uintptr_t)&etext)
		return COUNT_OURS;
	return from >= fabric.from && from < fabric.to ? COUNT_FABRIC : COUNT_OTHER;
}

static void site_add(uintptr_t from, const char *name)
{
	for (unsigned i = 0; i < SITES; i++) {
		unsigned at = (unsigned)((from >> 2) + i) % SITES;
		uintptr_t none = 0;
		if (atomic_compare_exchange_strong(&c.site[at].from, &none, from))
			c.site[at].name = name;
		else if (none != from)
			continue;
		atomic_fetch_add(&c.site[at].count, 1);
		return;
	}
}

static void called(enum count_what what, const char *name, void *from)
{
	if (!atomic_load_explicit(&c.on, memory_order_relaxed))
		return;
	atomic_fetch_add(&c.count[who_is((uintptr_t)from)][what], 1);
	site_add((uintptr_t)from, name);
}

/* The function that would have been called without us. Looked up at its first use, which may be before main: by then
 * two threads would find the same. */
static void *next(_Atomic(void *) *at, const char *name)
{
	void *fn = atomic_load_explicit(at, memory_order_relaxed);
	if (!fn) {
		fn = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(at, fn, memory_order_relaxed);
	}
	return fn;
}

/* dlsym itself may allocate, so those have other names to go by. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

#define EXPORT __attribute__((visibility("default"), noinline))
#define FROM   __builtin_return_address(0)

EXPORT void *malloc(size_t size)
{
	called(COUNT_ALLOC, "malloc", FROM);
	return __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	called(COUNT_ALLOC, "calloc", FROM);
	return __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t size)
{
	called(COUNT_ALLOC, "realloc", FROM);
	return __libc_realloc(p, size);
}

EXPORT void free(void *p)
{
	called(COUNT_ALLOC, "free", FROM);
	__libc_free(p);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	called(COUNT_ALLOC, "posix_memalign", FROM);
	void *p = __libc_memalign(align, size);
	if (p)
		*out = p;
	return p ? 0 : ENOMEM;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	called(COUNT_ALLOC, "aligned_alloc", FROM);
	return __libc_memalign(align, size);
}

EXPORT void *memalign(size_t align, size_t size)
{
	called(COUNT_ALLOC, "memalign", FROM);
	return __libc_memalign(align, size);
}

#define FORWARD(what, type, name, params, args)                                                                        \
	EXPORT type name params                                                                                        \
	{                                                                                                              \
		static _Atomic(void *) real;                                                                           \
		called(what, #name, FROM);                                                                             \
		return ((type(*) params)next(&real, #name))args;                                                       \
	}

FORWARD(COUNT_ALLOC, void *, mmap, (void *at, size_t len, int prot, int flags, int fd, off_t offset),
	(at, len, prot, flags, fd, offset))
FORWARD(COUNT_ALLOC, int, munmap, (void *at, size_t len), (at, len))
FORWARD(COUNT_ALLOC, int, madvise, (void *at, size_t len, int advice), (at, len, advice))
FORWARD(COUNT_LOCK, int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
FORWARD(COUNT_LOCK, int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))
FORWARD(COUNT_LOCK, int, pthread_spin_lock, (pthread_spinlock_t * l), (l))
FORWARD(COUNT_LOCK, int, pthread_spin_trylock, (pthread_spinlock_t * l), (l))
FORWARD(COUNT_LOCK, int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
FORWARD(COUNT_LOCK, int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
FORWARD(COUNT_LOCK, int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *m), (cond, m))
FORWARD(COUNT_LOCK, int, pthread_cond_timedwait, (pthread_cond_t * cond, pthread_mutex_t *m, const struct timespec *t),
	(cond, m, t))
FORWARD(COUNT_LOCK, int, pthread_cond_signal, (pthread_cond_t * cond), (cond))
FORWARD(COUNT_LOCK, int, pthread_cond_broadcast, (pthread_cond_t * cond), (cond))
FORWARD(COUNT_LOCK, int, sem_wait, (sem_t * s), (s))
FORWARD(COUNT_LOCK, int, sem_post, (sem_t * s), (s))
FORWARD(COUNT_LOCK, int, pthread_once, (pthread_once_t * once, void (*fn)(void)), (once, fn))

/* The text of the library that fi_fabric lies in. */
static void fabric_find(void)
{
	uintptr_t from, to, inside = (uintptr_t)dlsym(RTLD_DEFAULT, "fi_fabric");
	char line[512], mode[8];
	FILE *f = fopen("/proc/self/maps", "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && mode[2] == 'x' && inside >= from &&
		    inside < to)
			fabric.from = from, fabric.to = to;
	if (f)
		fclose(f);
}

bool count_possible(void)
{
	return true;
}
#else
static void fabric_find(void)
{
}

static enum count_who who_is(uintptr_t from)
{
	return from ? COUNT_OTHER : COUNT_OURS;
}

bool count_possible(void)
{
	return false;
}
#endif

void count_start(void)
{
	fabric_find();
	memset(&c, 0, sizeof(c));
	atomic_store(&c.on, true);
}

void count_stop(void)
{
	atomic_store(&c.on, false);
}

uint64_t count_get(enum count_who who, enum count_what what)
{
	return atomic_load(&c.count[who][what]);
}

void count_print(enum count_who who)
{
	for (unsigned i = 0; i < SITES; i++) {
		uintptr_t from = atomic_load(&c.site[i].from);
		Dl_info d = {0};
		if (!from || who_is(from) != who)
			continue;
		dladdr((void *)from, &d);
		printf("# %8llu %s from %s+0x%llx\n", (unsigned long long)atomic_load(&c.site[i].count), c.site[i].name,
		       d.dli_fname ? d.dli_fname : "?", (unsigned long long)(from - (uintptr_t)d.dli_fbase));
	}
}
