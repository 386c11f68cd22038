/* SPDX-License-Identifier: Apache-2.0 */
/* handover.c -- see handover.h. One message per arrow, on a socket that keeps their bounds:
 *
 *   successor                    running server
 *   connect, HELLO        --->   of the same user (SO_PEERCRED)
 *   PROOF                 <-->   NONCE: of the pre-shared key, where there is one; or REFUSED
 *   maps and registers    <---   MEMORY: descriptors of the memory and of the locks, and what they are; or REFUSED
 *   READY                 --->   says goodbye to its clients, writes the index, closes its ports
 *   restores, listens     <---   DONE
 *   SERVING               --->   ends
 *
 * A side that dies closes its end. Until DONE the running server serves on if the successor dies; between DONE and
 * SERVING it serves again. If the running server dies, the successor finds the index or starts empty. Only a stranger's
 * first messages have a time limit. */
#include "kvserver/handover.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	STRANGER_S = 2,
	BACKLOG = 4,
	TEXT = 200,
	DEATH_MS = 10000,
	DEATH_BLIND_MS = 1000 /* without a way to know, as on Linux before 5.3 */
};

enum kind { HELLO = 1, NONCE, PROOF, MEMORY, REFUSED, READY, DONE, SERVING };

#define MAGIC 0x31564f485256ull /* "VRHOV1" */

struct message {
	uint64_t magic;
	uint32_t kind, zero;
	uint8_t secret[BOOT_OWNER]; /* NONCE, PROOF */
	struct kvs_handed handed;   /* MEMORY */
	char text[TEXT];            /* REFUSED */
};

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(KVS_HANDED_FDS * sizeof(int))];
};

struct handover {
	const struct kvs_options *options;
	const struct boot_security *security;
	struct kvs_handed handed;
	int fds[KVS_HANDED_FDS]; /* of struct kvs_kept */
	unsigned count;
	pthread_t main, thread;
	int listen_fd, stop_fd;
	bool joined;
	pthread_mutex_t lock; /* of taker: the connection of a successor, or -1 */
	int taker;
	struct sockaddr_un addr;
};

/* ---- messages ---- */

static int message_send(int fd, const struct message *m, const int *fds, unsigned count)
{
	union control c = {.header = {.cmsg_len = CMSG_LEN(count * sizeof(int)),
				      .cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {(void *)(uintptr_t)m, sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (count) {
		memcpy(CMSG_DATA(&c.header), fds, count * sizeof(int));
		msg.msg_control = c.bytes;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(*m) ? 0 : -KV_EPEERDOWN;
}

static int kind_send(int fd, enum kind kind)
{
	const struct message m = {.magic = MAGIC, .kind = kind};
	return message_send(fd, &m, NULL, 0);
}

/* The descriptors of a message, which are ours. */
static unsigned descriptors(struct msghdr *msg, int *fds)
{
	unsigned n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	}
	return n;
}

static bool message_good(const struct message *m, ssize_t n, const struct msghdr *msg)
{
	return n == (ssize_t)sizeof(*m) && m->magic == MAGIC && !(msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC));
}

/* Receive a message of this kind, or of the other one; with descriptors only if it is MEMORY. 0; -KV_EPEERDOWN: the
 * other side has closed, or is silent for too long; -KV_EPROTO. */
static int either_take(int fd, enum kind kind, enum kind other, struct message *m, int *fds, unsigned *out_count)
{
	int ignored[KVS_HANDED_FDS];
	union control c;
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes)};
	ssize_t n;
	unsigned count;
	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -KV_EPEERDOWN;
	count = descriptors(&msg, fds ? fds : ignored);
	if (message_good(m, n, &msg) && (m->kind == kind || m->kind == other) && (m->kind == MEMORY || count == 0)) {
		m->text[TEXT - 1] = 0;
		if (fds)
			*out_count = count;
		return 0;
	}
	for (unsigned i = 0; i < count; i++)
		close(fds ? fds[i] : ignored[i]);
	return -KV_EPROTO;
}

static int message_take(int fd, enum kind kind, struct message *m)
{
	return either_take(fd, kind, kind, m, NULL, NULL);
}

/* What the running server answers to a stranger: this, or REFUSED. fds NULL: no MEMORY. */
static int answer_take(int fd, enum kind kind, struct message *m, int *fds, unsigned *out_count)
{
	return either_take(fd, kind, REFUSED, m, fds, out_count);
}

static int address(const char *keep, struct sockaddr_un *out, struct kv_error *err)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (snprintf(out->sun_path, sizeof(out->sun_path), "%s.sock", keep) < (int)sizeof(out->sun_path))
		return 0;
	return kv_fail(err, -KV_EINVAL, "--keep %.200s: the path of its socket, with .sock, has more than %zu bytes",
		       keep, sizeof(out->sun_path) - 1);
}

static void patience_set(int fd, unsigned seconds)
{
	const struct timeval t = {.tv_sec = seconds};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

/* A process that dies closes its descriptors one by one: wait until it has closed its ports and --tier as well. */
static void death_wait(int fd)
{
	struct ucred who = {0};
	socklen_t len = sizeof(who);
	struct pollfd on = {.fd = -1, .events = POLLIN};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid > 0)
		on.fd = (int)syscall(SYS_pidfd_open, who.pid, 0);
	if (on.fd < 0 && errno == ESRCH)
		return;
	(void)poll(&on, 1, on.fd < 0 ? DEATH_BLIND_MS : DEATH_MS);
	if (on.fd >= 0)
		close(on.fd);
}

/* ---- the running server ---- */

static const char *stranger_why(const struct handover *h, int fd)
{
	struct message m = {.magic = MAGIC, .kind = NONCE}, in;
	struct ucred who;
	socklen_t len = sizeof(who);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || (who.uid != geteuid() && who.uid != 0))
		return "another user runs the running server";
	if (message_take(fd, HELLO, &in) || kv_entropy_fill(&kv_entropy_kernel, m.secret, sizeof(m.secret)) ||
	    message_send(fd, &m, NULL, 0) || message_take(fd, PROOF, &in))
		return "the messages are not as expected";
	return boot_owner_check(h->security, m.secret, in.secret) ? "it has another key (--psk-file)" : NULL;
}

static int memory_give(struct handover *h, int fd)
{
	struct message m = {.magic = MAGIC, .kind = MEMORY}, in;
	int rc;
	m.handed = h->handed;
	rc = message_send(fd, &m, h->fds, h->count);
	kvs_kept_step("memory");
	patience_set(fd, 0);
	return rc ? rc : message_take(fd, READY, &in);
}

/* True: a successor is ready. */
static bool stranger_serve(struct handover *h, int fd)
{
	struct message m = {.magic = MAGIC, .kind = REFUSED};
	const char *why;
	patience_set(fd, STRANGER_S);
	why = stranger_why(h, fd);
	if (why) {
		snprintf(m.text, sizeof(m.text), "%s", why);
		(void)message_send(fd, &m, NULL, 0);
		kv_event(h->options->log, KV_LOG_WARN, KV_EVENT("handover_refused", KV_FIELD("reason", why)),
			 "a process asked to take this server's place, and is refused: %s", why);
		return false;
	}
	kv_event(h->options->log, KV_LOG_INFO, KV_EVENT("handover_asked"),
		 "another process prepares to take this server's place");
	if (memory_give(h, fd) == 0)
		return true;
	kv_event(h->options->log, KV_LOG_WARN, KV_EVENT("handover_ended"),
		 "the process that was to take this server's place has ended: this one serves on");
	return false;
}

static void taker_set(struct handover *h, int fd)
{
	pthread_mutex_lock(&h->lock);
	if (fd < 0)
		close(h->taker);
	h->taker = fd;
	pthread_mutex_unlock(&h->lock);
}

static void *handover_run(void *arg)
{
	struct handover *h = arg;
	struct pollfd on[2] = {{.fd = h->stop_fd, .events = POLLIN}, {.fd = h->listen_fd, .events = POLLIN}};
	pthread_setname_np(pthread_self(), "kv-handover");
	for (;;) {
		int fd;
		if (poll(on, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (on[0].revents)
			return NULL;
		fd = on[1].revents ? accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		taker_set(h, fd);
		if (stranger_serve(h, fd)) {
			kvs_kept_step("ready");
			pthread_kill(h->main, HANDOVER_SIGNAL);
			return NULL;
		}
		taker_set(h, -1);
	}
}

static int listen_at(struct handover *h, struct kv_error *err)
{
	int rc = address(h->options->keep, &h->addr, err);
	if (rc)
		return rc;
	h->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	h->stop_fd = eventfd(0, EFD_CLOEXEC);
	/* The lock of --keep is ours: whatever is there is of a server that has ended. */
	if (h->listen_fd >= 0 && h->stop_fd >= 0 && (unlink(h->addr.sun_path) == 0 || errno == ENOENT) &&
	    bind(h->listen_fd, (struct sockaddr *)&h->addr, sizeof(h->addr)) == 0 &&
	    chmod(h->addr.sun_path, 0600) == 0 && listen(h->listen_fd, BACKLOG) == 0)
		return 0;
	return kv_fail(err, -errno, "listening on %s, for --handover: %s", h->addr.sun_path, kv_strerror(errno));
}

static void unlisten(struct handover *h)
{
	if (h->listen_fd < 0)
		return;
	close(h->listen_fd);
	unlink(h->addr.sun_path);
	h->listen_fd = -1;
}

static void handover_free(struct handover *h)
{
	unlisten(h);
	if (h->stop_fd >= 0)
		close(h->stop_fd);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

int handover_open(const struct kvs_options *options, const struct boot_security *security, struct kvs_server *server,
		  struct handover **out, struct kv_error *err)
{
	struct handover *h = calloc(1, sizeof(*h));
	int rc;
	if (!h)
		return kv_fail(err, -KV_ENOMEM, "no memory for --handover");
	*h = (struct handover){.options = options,
			       .security = security,
			       .main = pthread_self(),
			       .listen_fd = -1,
			       .stop_fd = -1,
			       .taker = -1};
	pthread_mutex_init(&h->lock, NULL);
	h->count = kvs_server_hand(server, &h->handed, h->fds);
	rc = listen_at(h, err);
	if (rc == 0) {
		rc = -pthread_create(&h->thread, NULL, handover_run, h);
		if (rc)
			kv_fail(err, rc, "no thread for --handover: %s", kv_strerror(rc));
	}
	if (rc)
		handover_free(h);
	else
		*out = h;
	return rc;
}

void handover_close(struct handover **handover)
{
	const uint64_t one = 1;
	struct handover *h = *handover;
	if (!h)
		return;
	if (write(h->stop_fd, &one, sizeof(one)) < 0)
		return; /* it cannot fail */
	pthread_mutex_lock(&h->lock);
	if (h->taker >= 0)
		shutdown(h->taker, SHUT_RDWR);
	pthread_mutex_unlock(&h->lock);
	if (!h->joined)
		pthread_join(h->thread, NULL);
	if (h->taker >= 0)
		close(h->taker);
	handover_free(h);
	*handover = NULL;
}

bool handover_finish(struct handover *h)
{
	struct message in;
	pthread_join(h->thread, NULL);
	h->joined = true;
	unlisten(h); /* the successor has the path from now on */
	kvs_kept_step("index");
	if (kind_send(h->taker, DONE))
		return false;
	kvs_kept_step("done");
	if (message_take(h->taker, SERVING, &in) == 0)
		return true;
	death_wait(h->taker);
	return false;
}

/* ---- the successor ---- */

static int refused(const struct message *m, struct kv_error *err)
{
	return kv_fail(err, -KV_EDENIED, "--handover: the running server refuses: %.150s", m->text);
}

static int memory_take(int fd, const struct boot_security *security, struct message *m, int *fds, unsigned *count,
		       struct kv_error *err)
{
	struct message proof = {.magic = MAGIC, .kind = PROOF};
	int rc = kind_send(fd, HELLO);
	if (rc == 0)
		rc = answer_take(fd, NONCE, m, NULL, NULL);
	if (rc == 0 && m->kind == REFUSED)
		return refused(m, err);
	if (rc == 0)
		rc = boot_owner_prove(security, m->secret, proof.secret, err);
	if (rc == 0)
		rc = message_send(fd, &proof, NULL, 0);
	if (rc == 0)
		rc = answer_take(fd, MEMORY, m, fds, count);
	if (rc == 0 && m->kind == REFUSED)
		return refused(m, err);
	return rc ? kv_fail(err, rc, "--handover: the running server does not answer as expected: %s", kv_strerror(rc))
		  : 0;
}

int handover_take(const struct kvs_options *options, const struct boot_security *security, struct kvs_kept **out_kept,
		  int *out_fd, struct kv_error *err)
{
	struct sockaddr_un addr;
	struct message m;
	int fds[KVS_HANDED_FDS], fd, rc = address(options->keep, &addr, err);
	unsigned count = 0;
	if (rc)
		return rc;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return kv_fail(err, -errno, "--handover: %s", kv_strerror(errno));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		rc = errno == ENOENT || errno == ECONNREFUSED ? -KV_ENOTFOUND : -errno;
		kv_fail(err, rc, "--handover: no server is at %s: %s", addr.sun_path, kv_strerror(errno));
	}
	if (rc == 0)
		rc = memory_take(fd, security, &m, fds, &count, err);
	if (rc == 0)
		rc = kvs_kept_take(options, &m.handed, fds, count, out_kept, err);
	if (rc)
		close(fd);
	else
		*out_fd = fd;
	kvs_kept_step("took");
	return rc;
}

bool handover_await(int fd)
{
	struct message in;
	kvs_kept_step("made");
	if (kind_send(fd, READY) == 0 && message_take(fd, DONE, &in) == 0)
		return true;
	death_wait(fd);
	return false;
}

void handover_serving(int *fd)
{
	if (*fd < 0)
		return;
	kvs_kept_step("serving");
	(void)kind_send(*fd, SERVING);
	close(*fd);
	*fd = -1;
}
