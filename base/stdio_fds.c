/* SPDX-License-Identifier: Apache-2.0 */
/* stdio_fds.c -- descriptors 0 to 2 are nobody else's.
 *
 * A process that closed its standard streams gives their numbers to whoever opens something next, and whatever anybody
 * writes to standard error from then on, this library, libfabric, the C library or the host, goes there: into the pair
 * of sockets with which libfabric wakes its threads, say. So before a pool or a server opens anything, the numbers that
 * are free are given to /dev/null, which is what the C library does for programs with privileges.
 *
 * They stay so: when the host puts a file of its own in such a place (dup2), closing ours would close the host's. They
 * are closed on exec.
 *
 * Rejected: moving our own descriptors above 2, since libfabric's cannot be moved, and its own log lines would still go
 * there; writing no log, which says nothing of the other writers. */
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
			close(got); /* another thread was faster: it has the number */
	}
	errno = saved;
	return rc;
}
