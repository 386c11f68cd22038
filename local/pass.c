/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c -- the Unix socket over which the server passes descriptors.
 *
 *   client                           server
 *   connect, nonce            --->   local_nonce_await: which attachment?
 *   local_take_await          <---   local_give_await: one message per shard, with the proof and its descriptors
 *   local_ready_send_await    --->   local_ready_await: the client reads its channels, so the server may write to them
 *   ... both keep the socket open while leases are out; its end is the end of all leases (local_end_await)
 *
 * Invariant: a received descriptor is either in *out or closed. The room for descriptors is exact, so the kernel closes
 * those beyond it.
 *
 * A path is removed before its socket is closed: while we listen, no other server replaces it. Nor between bind and
 * listen: both happen under a lock of the path's folder, as the look for a stale socket. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "local/local.h"
#include "loop/loop.h"

enum { SHARD_MAGIC = 0x314c564b, PATH_MODE = 0666, BACKLOG = 64, LOCK_TRIES = 100, READY = 'R' };

/* A message, in this machine's byte order. */
struct passed {
	uint32_t magic, shard, shards, zero;
	uint64_t arena_bytes, landing_bytes;
	uint8_t proof[LOCAL_NONCE_LEN];
};

_Static_assert(sizeof(struct passed) == 32 + LOCAL_NONCE_LEN, "no padding: all bytes are set");
_Static_assert(LOCAL_NAME_MAX == sizeof(((struct sockaddr_un *)0)->sun_path), "a name fits");

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(LOCAL_FDS * sizeof(int))];
};

/* ---- names ---- */

/* "@NAME" is abstract: a 0 in place of the @, and no 0 at the end. Returns the length, or -KV_EINVAL. */
static int address(const char *name, struct sockaddr_un *out)
{
	size_t len = strnlen(name, LOCAL_NAME_MAX);
	if (len == 0 || len == LOCAL_NAME_MAX || (name[0] == '@' && len == 1))
		return -KV_EINVAL;
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(out->sun_path, name, len);
	if (name[0] != '@')
		return (int)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	out->sun_path[0] = '\0';
	return (int)(offsetof(struct sockaddr_un, sun_path) + len);
}

static int name_choose(char *out)
{
	uint64_t number;
	int rc = kv_entropy_fill(&kv_entropy_kernel, &number, sizeof(number));
	if (rc == 0)
		snprintf(out, LOCAL_NAME_MAX, "@kvrail-%016llx", (unsigned long long)number);
	return rc;
}

/* ---- listen ---- */

/* Lock the folder of a path until the descriptor is closed. Another server holds the lock for a moment. A stranger may
 * hold it for ever, or it may be out of reach: then we go on without it, after a second at most. -1: no lock. */
static int folder_lock(const char *path)
{
	const struct timespec again = {.tv_nsec = 10000000};
	const char *slash = strrchr(path, '/');
	char folder[LOCAL_NAME_MAX] = ".";
	int fd;
	if (slash)
		snprintf(folder, sizeof(folder), "%.*s", (int)KV_MAX(slash - path, 1), path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		if (errno != EWOULDBLOCK && errno != EINTR)
			break;
		nanosleep(&again, NULL);
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Whether the path is a socket without a listener, as a killed server leaves it. */
static bool is_stale(const char *path, const struct sockaddr_un *addr, int len)
{
	struct stat st;
	int fd;
	bool stale;
	if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	stale = connect(fd, (const struct sockaddr *)addr, (socklen_t)len) < 0 && errno == ECONNREFUSED;
	close(fd);
	return stale;
}

/* 0 or -errno. */
static int bind_to(int fd, const char *name, const struct sockaddr_un *addr, int len)
{
	if (bind(fd, (const struct sockaddr *)addr, (socklen_t)len) == 0)
		return 0;
	if (errno != EADDRINUSE || name[0] == '@' || !is_stale(name, addr, len))
		return -errno;
	if (unlink(name) < 0 || bind(fd, (const struct sockaddr *)addr, (socklen_t)len) < 0)
		return -errno;
	return 0;
}

static int listen_locked(const char *name, const struct sockaddr_un *addr, int len, int *out_fd)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;
	if (fd < 0)
		return -errno;
	rc = bind_to(fd, name, addr, len);
	if (rc == 0) {
		if ((name[0] == '@' || chmod(name, PATH_MODE) == 0) && listen(fd, BACKLOG) == 0) {
			*out_fd = fd;
			return 0;
		}
		rc = -errno;
		if (name[0] != '@')
			unlink(name);
	}
	close(fd);
	return rc;
}

static int listen_on(const char *name, const struct sockaddr_un *addr, int len, int *out_fd)
{
	int lock = name[0] == '@' ? -1 : folder_lock(name), rc = listen_locked(name, addr, len, out_fd);
	if (lock >= 0)
		close(lock);
	return rc;
}

static const char *listen_advice(int rc)
{
	switch (rc) {
	case -EADDRINUSE:
		return "; another server listens there, or it is no socket: choose another path";
	case -ENOENT:
		return "; its directory does not exist: make it";
	case -EACCES:
	case -EROFS:
		return "; this user may not make files there";
	case -EMFILE:
		return "; raise the limit of open files (ulimit -n)";
	default:
		return "";
	}
}

int local_listen(const char *name, int *out_fd, char *out_name, struct kv_error *err)
{
	struct sockaddr_un addr;
	char chosen[LOCAL_NAME_MAX];
	int len, rc = name ? 0 : name_choose(chosen);
	if (rc)
		return kv_fail(err, rc, "cannot choose the name of a Unix socket: %s", kv_strerror(rc));
	name = name ? name : chosen;
	len = address(name, &addr);
	if (len < 0)
		return kv_fail(err, -KV_EINVAL, "the name of a Unix socket has 1 to %d bytes", LOCAL_NAME_MAX - 1);
	rc = listen_on(name, &addr, len, out_fd);
	if (rc)
		return kv_fail(err, rc, "listening on the Unix socket %s: %s%s", name, kv_strerror(rc),
			       listen_advice(rc));
	memset(out_name, 0, LOCAL_NAME_MAX);
	memcpy(out_name, name, strlen(name));
	return 0;
}

void local_unlisten(int *fd, const char *name)
{
	struct loop *loop = loop_current();
	if (*fd < 0)
		return;
	if (name[0] != '@')
		unlink(name);
	if (loop)
		io_close(loop, *fd);
	else
		close(*fd);
	*fd = -1;
}

/* ---- the server's side ---- */

int local_accept_await(int listen_fd, int *out_fd, uint64_t deadline_ns)
{
	return io_accept_await(listen_fd, out_fd, NULL, deadline_ns);
}

uint32_t local_peer_pid(int fd)
{
	struct ucred who = {.pid = 0};
	socklen_t len = sizeof(who);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid > 0 ? (uint32_t)who.pid : 0;
}

int local_nonce_await(int fd, uint8_t nonce[LOCAL_NONCE_LEN], uint64_t deadline_ns)
{
	for (size_t at = 0; at < LOCAL_NONCE_LEN;) {
		ssize_t n = io_read_await(fd, nonce + at, LOCAL_NONCE_LEN - at, deadline_ns);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return -KV_EPROTO;
		at += (size_t)n;
	}
	return 0;
}

static void give_prepare(const struct local_shard *s, struct passed *m, union control *c, struct iovec *iov,
			 struct msghdr *msg)
{
	*m = (struct passed){SHARD_MAGIC, s->shard, s->shards, 0, s->arena_bytes, s->landing_bytes, {0}};
	memcpy(m->proof, s->proof, sizeof(m->proof));
	*iov = (struct iovec){m, sizeof(*m)};
	memset(c, 0, sizeof(*c));
	c->header = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(LOCAL_FDS * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&c->header), s->fd, LOCAL_FDS * sizeof(int));
	*msg = (struct msghdr){
		.msg_iov = iov, .msg_iovlen = 1, .msg_control = c->bytes, .msg_controllen = sizeof(c->bytes)};
}

int local_give_await(int fd, const struct local_shard *s, uint64_t deadline_ns)
{
	struct passed m;
	union control c;
	struct iovec iov;
	struct msghdr msg;
	give_prepare(s, &m, &c, &iov, &msg);
	for (;;) {
		ssize_t n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n == (ssize_t)sizeof(m))
			return 0;
		if (n >= 0)
			return -EIO;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		int ready = io_poll_await(fd, POLLOUT, deadline_ns);
		if (ready < 0)
			return ready;
	}
}

int local_ready_await(int fd, uint64_t deadline_ns)
{
	char byte;
	ssize_t n = io_read_await(fd, &byte, 1, deadline_ns);
	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ECONNRESET;
	return byte == READY ? 0 : -KV_EPROTO;
}

/* ---- the client's side ---- */

int local_connect_await(const char *name, const uint8_t nonce[LOCAL_NONCE_LEN], int *out_fd, uint64_t deadline_ns)
{
	union {
		struct sockaddr_storage storage;
		struct sockaddr_un un;
	} addr = {0};
	int len = address(name, &addr.un), fd = -1, rc;
	if (len < 0)
		return len;
	rc = io_connect_await(&addr.storage, (socklen_t)len, &fd, deadline_ns);
	if (rc)
		return rc;
	rc = io_write_all_await(fd, nonce, LOCAL_NONCE_LEN, deadline_ns);
	if (rc)
		io_close(loop_current(), fd);
	else
		*out_fd = fd;
	return rc;
}

/* The descriptors of a message; -1 where there are fewer. Returns their number. */
static unsigned descriptors(struct msghdr *msg, int fd[LOCAL_FDS])
{
	unsigned n = 0;
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		fd[i] = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned)KV_MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)LOCAL_FDS);
		memcpy(fd, CMSG_DATA(c), n * sizeof(int));
	}
	return n;
}

/* A message of n bytes. 0, -KV_EPROTO or -KV_ELIMIT. */
static int take_check(struct msghdr *msg, const struct passed *m, ssize_t n, struct local_shard *out)
{
	struct local_shard s = {.shard = m->shard,
				.shards = m->shards,
				.arena_bytes = m->arena_bytes,
				.landing_bytes = m->landing_bytes};
	unsigned fds = descriptors(msg, s.fd);
	memcpy(s.proof, m->proof, sizeof(s.proof));
	if (n == (ssize_t)sizeof(*m) && fds == LOCAL_FDS && !(msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC)) &&
	    m->magic == SHARD_MAGIC && m->zero == 0 && m->shards <= KV_SHARDS_MAX && m->shard < m->shards) {
		*out = s;
		return 0;
	}
	for (unsigned i = 0; i < fds; i++)
		close(s.fd[i]);
	/* The kernel leaves out those that this process may not open, and those without room here. */
	return fds < LOCAL_FDS && msg->msg_flags & MSG_CTRUNC ? -KV_ELIMIT : -KV_EPROTO;
}

int local_take_await(int fd, struct local_shard *out, uint64_t deadline_ns)
{
	for (;;) {
		struct passed m = {0};
		union control c;
		struct iovec iov = {&m, sizeof(m)};
		struct msghdr msg = {
			.msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes)};
		ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n == 0)
			return -ECONNRESET;
		if (n > 0)
			return take_check(&msg, &m, n, out);
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		int ready = io_poll_await(fd, POLLIN, deadline_ns);
		if (ready < 0)
			return ready;
	}
}

int local_ready_send_await(int fd, uint64_t deadline_ns)
{
	const char byte = READY;
	return io_write_all_await(fd, &byte, 1, deadline_ns);
}

/* ---- both ---- */

int local_end_await(int fd, uint64_t deadline_ns)
{
	char dropped[64];
	for (;;) {
		ssize_t n = io_read_await(fd, dropped, sizeof(dropped), deadline_ns);
		if (n == 0 || n == -ECONNRESET)
			return 0;
		if (n < 0)
			return (int)n;
	}
}
