/* SPDX-License-Identifier: Apache-2.0 */
/* log_out.c -- see log_out.h.
 *
 * A line is often written by a loop that serves clients. Where standard error is a pipe, a socket of the journal or a
 * terminal, its reader may stand still, and a write would wait for it for ever, the loop and its clients too. So a line
 * is written when poll says that standard error takes it. A pipe that is ready takes PIECE bytes without waiting, if
 * nobody else writes meanwhile: so lines of this process take turns. A terminal that is ready may have room for a part
 * of a line only, so it is opened anew for each, with O_NONBLOCK. (Rejected: O_NONBLOCK of standard error itself, which
 * would change the descriptor for every process that shares it. A thread that writes: the last lines before a crash are
 * the ones that matter.)
 *
 * A reader that has gone is seen by poll, too: nothing is written, so no SIGPIPE comes.
 *
 * Who cannot have its turn loses the line: in a child of a process that forked in the middle of a line, nobody ends
 * it. */
#include "base/log_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"

enum { PIECE = 4096 /* PIPE_BUF of Linux */, TRIES = 200, TRY_NS = 100000 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static bool stalled, half; /* under `turn`. half: the last line has no end */

static bool turn_take(void)
{
	const struct timespec pause = {.tv_nsec = TRY_NS};

	for (unsigned i = 0; i < TRIES; i++) {
		if (pthread_mutex_trylock(&turn) == 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* -1: it is no terminal, or one that is not ours to open. */
static int terminal_open(void)
{
	return isatty(STDERR_FILENO) ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
}

static bool takes(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int got = poll(&p, 1, 0);

	if (got == 0 && !stalled)
		got = poll(&p, 1, KV_LOG_OUT_MS);
	stalled = got <= 0; /* also where a signal ends the wait: there may be many, of a profiler */
	return got > 0 && !(p.revents & (POLLERR | POLLHUP | POLLNVAL));
}

/* Returns how much of it was written. */
static size_t pieces_write(int fd, const char *line, size_t len)
{
	size_t done = 0;

	while (done < len && takes(fd)) {
		ssize_t n = write(fd, line + done, KV_MIN(len - done, (size_t)PIECE));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static size_t line_write(int fd, const char *line, size_t len)
{
	size_t done = 0;

	if (half) /* a full disk has room again */
		half = pieces_write(fd, "\n", 1) == 0;
	if (!half)
		done = pieces_write(fd, line, len);
	half = half || (done > 0 && done < len);
	return done;
}

bool kv_log_out(const char *line, size_t len)
{
	size_t done;
	int own;

	if (!turn_take())
		return false;
	own = terminal_open();
	done = line_write(own < 0 ? STDERR_FILENO : own, line, len);
	if (own >= 0)
		close(own);
	pthread_mutex_unlock(&turn);
	return done == len;
}
