/* SPDX-License-Identifier: Apache-2.0 */
/* quick_start.c -- preloaded into the programs that tests start: what libfabric's providers do at a program's start
 * takes no time. `make check` starts many hundred processes.
 *
 * Three things take long. The verbs provider reads /proc/kallsyms twice, to see whether kernel modules for GPU memory
 * are loaded: 0.1 s of processor time. Here that file cannot be opened, and the modules count as absent, as they are
 * where these tests run. libinfinipath and libpsm2, which Debian's libfabric links for PSM, measure the processor's
 * clock in constructors: they sleep for 20 ms, ten times in a virtual machine. Here the clock jumps by as much as soon
 * as they sleep, until this library's own constructor runs, which is after those of the libraries that the program
 * links. Their complaints about that clock are not printed. And libfabric clears the buffers of each endpoint, 17 MiB,
 * of which tests use little: here the kernel takes these pages back, and gives clear ones for those that are used.
 * Tests of how much memory is used set KVRAIL_TEST_PAGES: then the pages stay. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define EXPORT    __attribute__((visibility("default")))
#define JUMP_USEC 25000
#define LARGE     (1 << 20)
#define PAGE      ((uintptr_t)4096)

static bool started;
static long ahead_usec;
static int said_to = -1; /* the program's standard error, while complaints about the clock go nowhere */

__attribute__((constructor)) static void start(void)
{
	started = true;
	if (said_to < 0)
		return;
	dup2(said_to, STDERR_FILENO);
	close(said_to);
}

static void silence(void)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	said_to = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (said_to >= 0 && nowhere >= 0)
		dup2(nowhere, STDERR_FILENO);
	close(nowhere);
}

EXPORT int usleep(useconds_t usec)
{
	static int (*real)(useconds_t);
	if (!started) {
		if (said_to < 0)
			silence();
		ahead_usec += JUMP_USEC;
		return 0;
	}
	if (!real)
		real = (int (*)(useconds_t))dlsym(RTLD_NEXT, "usleep");
	return real(usec);
}

EXPORT int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static int (*real)(struct timeval *, void *);
	if (!real)
		real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
	int rc = real(tv, tz);
	if (!started && rc == 0) {
		tv->tv_sec += (tv->tv_usec + ahead_usec) / 1000000;
		tv->tv_usec = (tv->tv_usec + ahead_usec) % 1000000;
	}
	return rc;
}

static FILE *open_file(const char *name, const char *path, const char *mode)
{
	FILE *(*open)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, name);
	if (strcmp(path, "/proc/kallsyms") != 0)
		return open(path, mode);
	errno = ENOENT;
	return NULL;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	return open_file("fopen", path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return open_file("fopen64", path, mode);
}

/* ---- large blocks that are cleared as soon as they are allocated ---- */

static _Thread_local struct {
	char *base;
	size_t len;
} fresh; /* the thread's last one, until it is cleared */

EXPORT int posix_memalign(void **out, size_t align, size_t len)
{
	static int (*real)(void **, size_t, size_t);
	int rc;
	if (!real)
		real = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
	rc = real(out, align, len);
	if (rc == 0 && len >= LARGE) {
		fresh.base = *out;
		fresh.len = len;
	}
	return rc;
}

/* Pages that are dropped are zero where memory is private and anonymous; elsewhere MADV_FREE fails. */
static bool dropped(char *base, size_t len)
{
	char *from = (char *)(((uintptr_t)base + PAGE - 1) & ~(PAGE - 1));
	char *to = (char *)((uintptr_t)(base + len) & ~(PAGE - 1));
	size_t pages_len = (size_t)(to - from);
	if (madvise(from, pages_len, MADV_FREE) != 0 || madvise(from, pages_len, MADV_DONTNEED) != 0)
		return false;
	memset(base, 0, (size_t)(from - base));
	memset(to, 0, (size_t)(base + len - to));
	return true;
}

static void *fill(void *at, int byte, size_t len)
{
	volatile char *to = at; /* without volatile the compiler makes this loop a call of memset */
	for (size_t i = 0; i < len; i++)
		to[i] = (char)byte;
	return at;
}

EXPORT void *memset(void *at, int byte, size_t len)
{
	static void *(*real)(void *, int, size_t);
	static bool looking; /* dlsym may call memset */
	if (len >= LARGE && at == fresh.base) {
		bool whole = byte == 0 && len <= fresh.len && !getenv("KVRAIL_TEST_PAGES");
		fresh.base = NULL;
		if (whole && dropped(at, len))
			return at;
	}
	if (!real) {
		if (looking)
			return fill(at, byte, len);
		looking = true;
		real = (void *(*)(void *, int, size_t))dlsym(RTLD_NEXT, "memset");
	}
	return real(at, byte, len);
}
