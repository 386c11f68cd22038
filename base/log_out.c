/* SPDX-License-Identifier: Apache-2.0 */
/* log_out.c -- see log_out.h.
 *
 * A stopped reader of standard error must not stop loops that log. A line is written when poll allows it, without
 * waiting: MSG_DONTWAIT for a socket; a pipe or terminal is opened anew per line with O_NONBLOCK (on the descriptor
 * itself that would affect other processes), or gets up to PIECE bytes. Threads take turns; one without its turn loses
 * the line. SIGPIPE and SIGXFSZ of a write do not reach the process. */
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
	bool own, socket; /* own: to close */
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
	s->stalled = got <= 0; /* also after a signal; profilers send many */
	return got > 0 && !(p.revents & (POLLERR | POLLHUP | POLLNVAL));
}

/* As write; takes back a SIGPIPE or SIGXFSZ that was not pending before. */
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
	raised = 0;
	if (n < 0 && errno == EPIPE)
		raised = SIGPIPE;
	else if (n < 0 && errno == EFBIG)
		raised = SIGXFSZ;
	if (raised && !sigismember(&pending, raised)) {
		sigemptyset(&gone);
		sigaddset(&gone, raised);
		sigtimedwait(&gone, NULL, &at_once);
		errno = raised == SIGPIPE ? EPIPE : EFBIG;
	}
	kv_signals_restore(&before);
	return n;
}

/* Returns the written part. */
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
