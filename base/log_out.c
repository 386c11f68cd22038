/* SPDX-License-Identifier: Apache-2.0 */
/* log_out.c -- see log_out.h.
 *
 * A line is often written by a loop that serves clients. Where standard error is a pipe, a socket of the journal or a
 * terminal, its reader may stand still, and a write would wait for it for ever, the loop and its clients too. So a line
 * is written when poll says that standard error takes it, and in a way that waits for nobody if that has changed
 * meanwhile: other processes may write to it, too, and a terminal that is ready may have room for a part of a line
 * only. A socket has MSG_DONTWAIT. A pipe or a terminal is opened anew for each line, with O_NONBLOCK. (Rejected:
 * O_NONBLOCK of standard error itself, which would change the descriptor for every process that shares it. A thread
 * that writes: the last lines before a crash are the ones that matter.)
 *
 * What cannot be opened (another user's, or without /proc) is written to as it is: a pipe that is ready takes PIECE
 * bytes without waiting, unless another process is quicker. Lines of this process take turns.
 *
 * A reader that has gone is seen by poll. If it goes after that, SIGPIPE does not reach the process, which may be a
 * host's; nor does SIGXFSZ where a file is as long as it may be.
 *
 * Who cannot have its turn loses the line: in a child of a process that forked in the middle of a line, nobody ends
 * it. */
#include "base/log_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/signals.h"

enum { PIECE = 4096 /* PIPE_BUF of Linux */, AGAIN = 8, TRIES = 200, TRY_NS = 100000 };

struct stream {
	int fd;
	pthread_mutex_t turn;
	bool stalled, half; /* under `turn`. half: the last line has no end */
};

static struct stream standard_error = {.fd = STDERR_FILENO, .turn = PTHREAD_MUTEX_INITIALIZER};
static struct stream standard_output = {.fd = STDOUT_FILENO, .turn = PTHREAD_MUTEX_INITIALIZER};

static bool turn_take(struct stream *s)
{
	const struct timespec pause = {.tv_nsec = TRY_NS};

	for (unsigned i = 0; i < TRIES; i++) {
		if (pthread_mutex_trylock(&s->turn) == 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

struct out {
	int fd;
	bool own, socket; /* own: to be closed */
};

static struct out out_open(const struct stream *s)
{
	struct out o = {.fd = s->fd};
	char path[32];
	struct stat st;
	int fd = -1;

	if (fstat(s->fd, &st) != 0)
		return o;
	o.socket = S_ISSOCK(st.st_mode);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	if (S_ISFIFO(st.st_mode) || isatty(s->fd))
		fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		o = (struct out){.fd = fd, .own = true};
	return o;
}

static bool takes(struct stream *s, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int got = poll(&p, 1, 0);

	if (got == 0 && !s->stalled)
		got = poll(&p, 1, KV_LOG_OUT_MS);
	s->stalled = got <= 0; /* also where a signal ends the wait: there may be many, of a profiler */
	return got > 0 && !(p.revents & (POLLERR | POLLHUP | POLLNVAL));
}

/* As write. A SIGPIPE or SIGXFSZ that it raises is taken back, unless one was pending before. */
static ssize_t piece_write(const struct out *o, const char *at, size_t len)
{
	const struct timespec at_once = {0};
	sigset_t before, pending, gone;
	int raised;
	ssize_t n;

	if (o->socket)
		return send(o->fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	kv_signals_block(&before);
	sigpending(&pending);
	n = write(o->fd, at, len);
	raised = n >= 0 ? 0 : errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0;
	if (raised && !sigismember(&pending, raised)) {
		sigemptyset(&gone);
		sigaddset(&gone, raised);
		sigtimedwait(&gone, NULL, &at_once);
		errno = raised == SIGPIPE ? EPIPE : EFBIG;
	}
	kv_signals_restore(&before);
	return n;
}

/* Returns how much of it was written. */
static size_t pieces_write(struct stream *s, const struct out *o, const char *line, size_t len)
{
	size_t done = 0;

	for (unsigned tries = 0; done < len && tries < AGAIN && takes(s, o->fd);) {
		ssize_t n = piece_write(o, line + done, KV_MIN(len - done, (size_t)PIECE));
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && (errno == EINTR || errno == EAGAIN)) /* another process was quicker */
			tries++;
		else
			break;
	}
	return done;
}

static size_t line_write(struct stream *s, const struct out *o, const char *line, size_t len)
{
	size_t done = 0;

	if (s->half) /* a full disk has room again */
		s->half = pieces_write(s, o, "\n", 1) == 0;
	if (!s->half)
		done = pieces_write(s, o, line, len);
	s->half = s->half || (done > 0 && done < len);
	return done;
}

static bool line_out(struct stream *s, const char *line, size_t len)
{
	struct out o;
	size_t done;

	if (!turn_take(s))
		return false;
	o = out_open(s);
	done = line_write(s, &o, line, len);
	if (o.own)
		close(o.fd);
	pthread_mutex_unlock(&s->turn);
	return done == len;
}

bool kv_log_out(const char *line, size_t len)
{
	return line_out(&standard_error, line, len);
}

bool kv_log_stdout(const char *line, size_t len)
{
	return line_out(&standard_output, line, len);
}
