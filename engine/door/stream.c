/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c -- receive for the provider, and pass on only bytes that the guard has judged.
 *
 * Bytes are read into the provider's buffer and judged there. Only the beginning of an incomplete unit is copied to
 * `held`, and put before the bytes of the next receive, which needs room for a whole unit behind them: the tcp
 * providers receive headers and messages into 9,000 bytes (fabric/tcp.c refuses a door otherwise). A smaller receive is
 * served from `held`, filled with exactly one unit.
 *
 * The provider asks for more only when its own buffer is empty (ofi_bsock_recv, ofi_bsock_recvv). Until its next call
 * the stream is `loose`: earlier payload may still be on its way to memory. */
#include "engine/door/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void stream_init(struct stream *s, const struct guard_rules *rules, bool accepted)
{
	memset(s, 0, sizeof(*s));
	guard_init(&s->guard, rules, accepted);
}

void stream_fini(struct stream *s)
{
	free(s->held);
	s->held = NULL;
}

static ssize_t fail(int error)
{
	errno = error;
	return -1;
}

/* Payload, and nothing behind it. */
static ssize_t payload_recv(struct stream *s, int fd, const struct iovec *iov, size_t n, int flags,
			    const struct stream_calls *calls)
{
	enum { PIECES = 8 };
	struct iovec cut[PIECES];
	struct msghdr msg = {.msg_iov = cut};
	uint64_t room = s->guard.skip;
	ssize_t got;
	for (size_t i = 0; i < n && i < PIECES && room > 0; i++) {
		cut[i] = iov[i];
		cut[i].iov_len = (size_t)KV_MIN((uint64_t)iov[i].iov_len, room);
		room -= cut[i].iov_len;
		msg.msg_iovlen++;
	}
	got = n == 1 ? calls->recv(fd, cut[0].iov_base, cut[0].iov_len, flags) : calls->recvmsg(fd, &msg, flags);
	if (got <= 0)
		return got;
	s->guard.skip -= (uint64_t)got;
	atomic_store_explicit(&s->loose, true, memory_order_relaxed);
	return got;
}

/* The received bytes end with the beginning of a unit: hold it back. */
static void hold(struct stream *s, const uint8_t *from, size_t n)
{
	memcpy(s->held, from, n);
	s->at = 0;
	s->len = (uint32_t)n;
}

static ssize_t whole_recv(struct stream *s, int fd, const struct iovec *iov, int flags,
			  const struct stream_calls *calls, const char **why)
{
	uint8_t *to = iov->iov_base;
	uint64_t passed = s->guard.passed;
	size_t before = s->len;
	ssize_t got, walked;
	if (before)
		memcpy(to, s->held, before);
	got = calls->recv(fd, to + before, iov->iov_len - before, flags);
	if (got <= 0)
		return got;
	s->len = 0;
	walked = guard_walk(&s->guard, to, before + (size_t)got, why);
	if (walked < 0)
		return fail(ECONNRESET);
	if (s->guard.passed != passed)
		atomic_store_explicit(&s->loose, true, memory_order_relaxed);
	hold(s, to + walked, before + (size_t)got - (size_t)walked);
	return walked ? walked : fail(EAGAIN);
}

/* Fill `held` with one unit. 1: complete and judged; 0: the connection ended; -1 as stream_recv. */
static int unit_fill(struct stream *s, int fd, int flags, const struct stream_calls *calls, const char **why)
{
	size_t need;
	while ((need = guard_need(&s->guard, s->held, s->len)) > s->len) {
		ssize_t got = calls->recv(fd, s->held + s->len, need - s->len, flags);
		if (got <= 0)
			return (int)got;
		s->len += (uint32_t)got;
	}
	if (guard_walk(&s->guard, s->held, s->len, why) != (ssize_t)s->len)
		return (int)fail(ECONNRESET);
	s->judged = true;
	return 1;
}

static ssize_t held_give(struct stream *s, const struct iovec *iov)
{
	size_t n = KV_MIN(iov->iov_len, (size_t)(s->len - s->at));
	memcpy(iov->iov_base, s->held + s->at, n);
	s->at += (uint32_t)n;
	if (s->at == s->len) {
		s->at = s->len = 0;
		s->judged = false;
	}
	return (ssize_t)n;
}

ssize_t stream_recv(struct stream *s, int fd, const struct iovec *iov, size_t n, int flags,
		    const struct stream_calls *calls, const char **why)
{
	*why = NULL;
	atomic_store_explicit(&s->loose, false, memory_order_relaxed);
	if (n == 0 || iov[0].iov_len == 0)
		return 0;
	if (KV_UNLIKELY(!s->held) && !(s->held = malloc(GUARD_UNIT_MAX)))
		return fail(ENOMEM);
	if (KV_UNLIKELY(s->judged))
		return held_give(s, iov);
	if (s->guard.skip && (n > 1 || iov[0].iov_len < GUARD_UNIT_MAX))
		return payload_recv(s, fd, iov, n, flags, calls);
	if (iov[0].iov_len >= GUARD_UNIT_MAX)
		return whole_recv(s, fd, iov, flags, calls, why);
	int rc = unit_fill(s, fd, flags, calls, why);
	return rc == 1 ? held_give(s, iov) : rc;
}
