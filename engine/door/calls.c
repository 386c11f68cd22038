/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c -- the functions that libfabric calls instead of accept, recv, send, connect, close and others.
 *
 *   accept   returns an admitted connection (door/wait.c)
 *   recv     passes through the connection's guard (door/conn.c), also for connections made by libfabric
 *   connect  and send reveal the endpoint of a connection made by libfabric; connect also disables pacing on loopback
 *   send     informs the kernel whether more follows (door_more)
 *   close    reports the end of a connection
 *   write    and read, on a pair from socketpair, are a queue's signal (door/signal.c)
 *
 * Descriptors unknown to every door pass through: libfabric may have other users in this process. */
#include "engine/door/private.h"

#include <errno.h>
#include <unistd.h>

#include "engine/door/import.h"
#include "engine/door/pace.h"

enum { CALLS = 12, CALL_WRITE = 0, CALL_READ = 1 };

static struct import imports[CALLS];

/* ---- accepting ---- */

static int our_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct watched *w = door_watch_find(fd);
	int got;
	if (!w || w->kind != LISTENER)
		return door_before.accept(fd, addr, len);
	got = door_accept(w->door);
	if (got >= 0 && addr)
		(void)getpeername(got, addr, len);
	return got;
}

static int our_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct watched *w = door_watch_find(fd);
	return w && w->kind == LISTENER ? our_accept(fd, addr, len) : door_before.accept4(fd, addr, len, flags);
}

/* ---- receiving and sending ---- */

static ssize_t our_recv(int fd, void *buf, size_t len, int flags)
{
	struct door_conn *c = door_conn_find(fd);
	const struct iovec iov = {buf, len};
	return c && !(flags & MSG_PEEK) ? door_conn_recv(c, fd, &iov, 1, flags)
					: door_before.receive.recv(fd, buf, len, flags);
}

/* The C library would abort if the buffer is too small; here the length is cut. */
static ssize_t our_recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	return our_recv(fd, buf, KV_MIN(len, room), flags);
}

static ssize_t our_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct door_conn *c = door_conn_find(fd);
	if (!c || flags & (MSG_PEEK | MSG_ERRQUEUE))
		return door_before.receive.recvmsg(fd, msg, flags);
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	return door_conn_recv(c, fd, msg->msg_iov, msg->msg_iovlen, flags);
}

static int flags_of(const struct door_conn *c, int flags)
{
	return atomic_load_explicit(&c->watched.door->more, memory_order_relaxed) ? flags | MSG_MORE : flags;
}

static ssize_t our_send(int fd, const void *buf, size_t len, int flags)
{
	struct door_conn *c = door_conn_find(fd);
	ssize_t n;
	if (c && KV_UNLIKELY(!c->set_up))
		door_conn_set_up(c, buf, len);
	n = door_before.send(fd, buf, len, c ? flags_of(c, flags) : flags);
	if (c && n > 0)
		door_conn_sent(c, (size_t)n);
	return n;
}

static ssize_t our_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct door_conn *c = door_conn_find(fd);
	ssize_t n = door_before.sendmsg(fd, msg, c ? flags_of(c, flags) : flags);
	if (c && n > 0)
		guard_answered(&c->stream.guard, (uint64_t)n);
	return n;
}

/* ---- connecting and closing ---- */

static int our_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage peer;
	if (door_address_take(addr, len, &peer)) {
		if (!door_conn_expect(fd, &peer)) {
			errno = ENOMEM;
			return -1;
		}
		if (door_conn_find(fd) && pace_loopback((struct sockaddr *)&peer))
			(void)pace_off(fd);
	}
	return door_before.connect(fd, addr, len);
}

static int our_close(int fd)
{
	struct watched *w = door_watch_find(fd);
	if (w) {
		door_lock();
		if (w->kind == CONN) {
			door_conn_free(KV_CONTAINER(w, struct door_conn, watched));
		} else if (w->kind == SIGNAL) {
			door_signal_close(w, fd);
		} else {
			(void)door_watch_set(fd, NULL);
			w->door->fd = -1;
		}
		door_unlock();
	}
	return door_before.close(fd);
}

/* ---- signals ---- */

static struct watched *signal_find(int fd)
{
	struct watched *w = door_watch_find(fd);
	return w && w->kind == SIGNAL ? w : NULL;
}

static ssize_t our_write(int fd, const void *buf, size_t len)
{
	struct watched *w = signal_find(fd);
	return w && len == 1 && door_signal_keep(w, fd) ? 1 : door_before.write(fd, buf, len);
}

static ssize_t our_read(int fd, void *buf, size_t len)
{
	struct watched *w = signal_find(fd);
	if (!w || len == 0 || !door_signal_take(w))
		return door_before.read(fd, buf, len);
	*(char *)buf = 0;
	return 1;
}

/* A byte noted by our write must be read by our read: all three functions are replaced, or none is used. */
static int our_socketpair(int family, int type, int protocol, int fds[2])
{
	int rc = door_before.socketpair(family, type, protocol, fds);
	if (rc == 0 && imports[CALL_WRITE].found && imports[CALL_READ].found)
		door_signal_made(fds);
	return rc;
}

/* ---- the table ---- */

/* The calls: libfabric's name, our function, the C library's, whether the tcp provider needs it, and where ours find
 * the one before. WRITE and READ are the first. __recv_chk is recv under _FORTIFY_SOURCE. */
static __typeof__(recv) *recv_chk_before;

#define EACH_CALL(X)                                                                                                   \
	X("write", our_write, write, false, door_before.write)                                                         \
	X("read", our_read, read, false, door_before.read)                                                             \
	X("accept", our_accept, accept, true, door_before.accept)                                                      \
	X("accept4", our_accept4, accept4, false, door_before.accept4)                                                 \
	X("recv", our_recv, recv, true, door_before.receive.recv)                                                      \
	X("__recv_chk", our_recv_chk, recv, false, recv_chk_before)                                                    \
	X("recvmsg", our_recvmsg, recvmsg, true, door_before.receive.recvmsg)                                          \
	X("send", our_send, send, true, door_before.send)                                                              \
	X("sendmsg", our_sendmsg, sendmsg, true, door_before.sendmsg)                                                  \
	X("connect", our_connect, connect, true, door_before.connect)                                                  \
	X("close", our_close, close, true, door_before.close)                                                          \
	X("socketpair", our_socketpair, socketpair, false, door_before.socketpair)

#define AS_DATA(function) ((void *)(uintptr_t)(function))

static struct import imports[CALLS] = {
#define IMPORT(name, ours, ordinary, needed, at) {name, AS_DATA(ours), AS_DATA(ordinary), needed, NULL, 0},
	EACH_CALL(IMPORT)
#undef IMPORT
};

static void before_take(void)
{
	const struct import *im = imports;
#define BEFORE(name, ours, ordinary, needed, at) at = (__typeof__(at))(uintptr_t)(im++)->before;
	EACH_CALL(BEFORE)
#undef BEFORE
}

int door_calls_take(const char **why)
{
	static bool taken;
	int rc;
	if (taken)
		return 0;
	/* Ours may be called from the first replaced slot on. */
	for (unsigned i = 0; i < CALLS; i++)
		imports[i].before = imports[i].ordinary;
	before_take();
	rc = import_replace(imports, CALLS, why);
	if (rc)
		return rc;
	before_take();
	taken = true;
	return 0;
}
