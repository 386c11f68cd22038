/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_guard.c -- bytes on a connection of libfabric's: whatever comes, and however it is cut, the provider is given
 * the same beginning of it, in whole units, and nothing behind the first thing that no peer sends.
 *
 * The first byte says which protocol, whether reads are allowed, and whether we made the connection; the second how
 * receives are cut. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/door/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PREFETCH = 9000, INDEX = 7, GOT_MAX = 1 << 16 };

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_guard: %s\n", what);
	abort();
}

static struct {
	const uint8_t *data;
	size_t len, at, most;
} sock;

static ssize_t sock_recv(int fd, void *buf, size_t len, int flags)
{
	size_t n = KV_MIN(KV_MIN(len, sock.most), sock.len - sock.at);
	(void)fd, (void)flags;
	memcpy(buf, sock.data + sock.at, n);
	sock.at += n;
	return (ssize_t)n;
}

static ssize_t sock_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return sock_recv(fd, msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len, flags);
}

static uint64_t asked[GUARD_ASKED_MAX];

static const struct stream_calls calls = {sock_recv, sock_recvmsg};

/* What the provider is given when receives bring at most `most` bytes, into a room of so many. *refused: it ended with
 * what no peer sends. */
static size_t given(const struct guard_rules *rules, bool accepted, const uint8_t *data, size_t size, size_t most,
		    size_t room, uint8_t *got, bool *refused)
{
	struct stream s;
	const char *why = NULL;
	size_t n = 0;
	sock.data = data;
	sock.len = size;
	sock.at = 0;
	sock.most = most;
	stream_init(&s, rules, accepted);
	s.guard.skip = 0;
	s.guard.indexed = true;
	s.guard.asked = asked;
	guard_ask(&s.guard, 10);
	guard_ask(&s.guard, 300);
	s.guard.index = INDEX;
	while (n + room <= GOT_MAX) {
		struct iovec iov = {got + n, room};
		ssize_t len = stream_recv(&s, 3, &iov, 1, 0, &calls, &why);
		check(len <= (ssize_t)room && n + (size_t)KV_MAX(len, (ssize_t)0) <= size, "more was given than came");
		check(s.len <= GUARD_UNIT_MAX && s.at <= s.len, "more is held than a unit");
		if (len == 0 || (len < 0 && why))
			break;
		check(len > 0 || errno == EAGAIN, "an error without a reason");
		n += len > 0 ? (size_t)len : 0;
	}
	check(memcmp(got, data, n) == 0, "other bytes were given than came");
	*refused = why != NULL;
	stream_fini(&s);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t got[GOT_MAX + PREFETCH];
	struct guard_rules rules = {.eager_bytes = 4096};
	bool accepted, refused[2];
	const char *why;
	uint16_t port;
	size_t n[2];
	if (size < 2 || size > GOT_MAX / 2)
		return 0;
	rules.format = data[0] & 1 ? GUARD_RXM : GUARD_XNET;
	rules.reads = data[0] & 2;
	rules.readable = data[0] & 4;
	accepted = !(data[0] & 8);
	(void)guard_request(&rules, data + 2, KV_MIN(size - 2, (size_t)GUARD_REQUEST_MAX + 1), &port, &why);
	n[0] = given(&rules, accepted, data + 2, size - 2, SIZE_MAX, PREFETCH, got, &refused[0]);
	n[1] = given(&rules, accepted, data + 2, size - 2, 1 + data[1] * 7u, PREFETCH, got, &refused[1]);
	check(refused[0] == refused[1], "whether it is refused depends on how it is cut");
	/* What is refused at once takes along what came with it. */
	check(refused[0] ? n[0] <= n[1] : n[0] == n[1], "what is given depends on how it is cut");
	return 0;
}
