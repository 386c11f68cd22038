/* SPDX-License-Identifier: Apache-2.0 */
/* stdio_fds.c -- keep descriptors 0 to 2 from other uses.
 *
 * In a process with closed standard streams, text for standard error would enter, for example, libfabric's wake-up
 * sockets. So before a pool or server opens anything, free numbers are opened on /dev/null, close-on-exec. They stay
 * open: the host may have replaced them (dup2). */
#include "base/stdio_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

int kv_stdio_reserve(struct kv_error *err)
{
	int saved = errno, rc = 0;
	for (int fd = 0; rc == 0 && fd <= STDERR_FILENO; fd++) {
		int got = is_closed(fd) ? open("/dev/null", O_RDWR | O_CLOEXEC) : fd;
		if (got < 0)
			rc = kv_fail(err, -KV_ELIMIT,
				     "descriptor %d is closed, and /dev/null cannot be opened in its place: %s; keep "
				     "the standard streams open",
				     fd, kv_strerror(errno));
		else if (got > STDERR_FILENO)
			close(got); /* another thread was faster and has the number */
	}
	errno = saved;
	return rc;
}

void kv_stdio_keep(void)
{
	int fd = 0;
	/* One that can only be read. */
	while (is_closed(STDOUT_FILENO) && fd >= 0 && fd <= STDOUT_FILENO)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)kv_stdio_reserve(NULL); /* where it fails, opening anything else does, and is told */
}
