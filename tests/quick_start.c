/* SPDX-License-Identifier: Apache-2.0 */
/* quick_start.c -- preloaded into the programs that tests start: what libfabric's providers do at a program's start
 * takes no time. `make check` starts many hundred processes.
 *
 * Two things take long. The verbs provider reads /proc/kallsyms twice, to see whether kernel modules for GPU memory are
 * loaded: 0.1 s of processor time. Here that file cannot be opened, and the modules count as absent, as they are where
 * these tests run. And libinfinipath and libpsm2, which Debian's libfabric links for PSM, measure the processor's clock
 * in constructors: they sleep for 20 ms, ten times in a virtual machine. Here the clock jumps by as much as soon as
 * they sleep, until this library's own constructor runs, which is after those of the libraries that the program links.
 * Their complaints about that clock are not printed. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define EXPORT    __attribute__((visibility("default")))
#define JUMP_USEC 25000

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
