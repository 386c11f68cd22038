/* SPDX-License-Identifier: Apache-2.0 */
/* ping.c -- checks whether members answer. A member answers when its control port accepts a connection within
 * CONNECT_MS, at any of its addresses (also a stopped process, through its kernel). A member that cannot be asked for
 * lack of descriptors counts as present. CONNECTS at a time, on a thread of its own: membership.c must renew leases.
 * Thread and caller hold a reference each. */
#include "kvserver/member/private.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { CONNECTS = 16, CONNECT_MS = 1000, NOWHERE = -1, UNKNOWN = -2 };

struct ping {
	struct kv_view whom; /* the thread's until `done` */
	bool *answered;
	pthread_mutex_t lock; /* done, refs */
	bool done;
	unsigned refs;
};

static void unref(struct ping *p)
{
	bool last;
	pthread_mutex_lock(&p->lock);
	last = --p->refs == 0;
	pthread_mutex_unlock(&p->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&p->lock);
	kv_view_fini(&p->whom);
	free(p->answered);
	free(p);
}

static bool is_ours(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == EADDRNOTAVAIL ||
	       error == EPERM || error == EACCES;
}

/* A connecting socket; NOWHERE: no such address; UNKNOWN: impossible to try. */
static int connect_begin(const struct kv_hostport *hp)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int fd;
	if (kv_hostport_resolve(hp, &addr, &len, NULL))
		return NOWHERE;
	fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno == EAFNOSUPPORT ? NOWHERE : UNKNOWN;
	if (connect(fd, (struct sockaddr *)&addr, len) != 0 && errno != EINPROGRESS) {
		bool ours = is_ours(errno);
		close(fd);
		return ours ? UNKNOWN : NOWHERE;
	}
	return fd;
}

static bool connected(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
}

/* Connect to these members, by address number `address` of each unanswered one. False: none has one. */
static bool some_connect(struct ping *p, unsigned from, unsigned n, unsigned address, struct pollfd *fds)
{
	struct kv_hostport hp;
	bool any = false;
	for (unsigned i = 0; i < n; i++) {
		bool has = !p->answered[from + i] && kv_where_at(p->whom.member[from + i].address, address, &hp);
		fds[i] = (struct pollfd){.fd = has ? connect_begin(&hp) : NOWHERE, .events = POLLOUT};
		p->answered[from + i] |= fds[i].fd == UNKNOWN;
		any |= has;
	}
	return any;
}

static void some_wait(struct ping *p, unsigned from, unsigned n, struct pollfd *fds)
{
	uint64_t until = kv_now() + CONNECT_MS * 1000000ull, now;
	unsigned open = 0;
	for (unsigned i = 0; i < n; i++)
		open += fds[i].fd >= 0;
	while (open && (now = kv_now()) < until) {
		if (poll(fds, n, (int)((until - now) / 1000000) + 1) < 0 && errno != EINTR)
			break;
		for (unsigned i = 0; i < n; i++)
			if (fds[i].fd >= 0 && fds[i].revents) {
				p->answered[from + i] = connected(fds[i].fd);
				close(fds[i].fd);
				fds[i].fd = -1;
				open--;
			}
	}
	for (unsigned i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			close(fds[i].fd);
}

static void some_ask(struct ping *p, unsigned from, unsigned n)
{
	struct pollfd fds[CONNECTS];
	for (unsigned address = 0; some_connect(p, from, n, address, fds); address++)
		some_wait(p, from, n, fds);
}

static void *ping_run(void *arg)
{
	struct ping *p = arg;
	pthread_setname_np(pthread_self(), "kv-ping");
	for (unsigned i = 0; i < p->whom.count; i += CONNECTS)
		some_ask(p, i, KV_MIN(p->whom.count - i, (unsigned)CONNECTS));
	pthread_mutex_lock(&p->lock);
	p->done = true;
	pthread_mutex_unlock(&p->lock);
	unref(p);
	return NULL;
}

int ping_start(const struct kv_view *whom, struct ping **out)
{
	struct ping *p = calloc(1, sizeof(*p));
	pthread_t thread;
	int rc;
	if (!p)
		return -KV_ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	p->refs = 1;
	p->answered = calloc(KV_MAX(whom->count, 1u), sizeof(*p->answered));
	rc = p->answered ? members_copy(whom, &p->whom) : -KV_ENOMEM;
	if (rc == 0) {
		p->refs = 2;
		rc = -pthread_create(&thread, NULL, ping_run, p);
		if (rc)
			p->refs = 1; /* no thread has the other one */
	}
	if (rc) {
		unref(p);
		return rc;
	}
	pthread_detach(thread);
	*out = p;
	return 0;
}

bool ping_take(struct ping **ping, struct kv_view *out_silent)
{
	struct ping *p = *ping;
	unsigned silent = 0;
	bool done;
	pthread_mutex_lock(&p->lock);
	done = p->done;
	pthread_mutex_unlock(&p->lock);
	if (!done)
		return false;
	for (unsigned i = 0; i < p->whom.count; i++)
		if (!p->answered[i])
			p->whom.member[silent++] = p->whom.member[i];
	p->whom.count = silent;
	*out_silent = p->whom;
	p->whom = (struct kv_view){0};
	ping_drop(ping);
	return true;
}

void ping_drop(struct ping **p)
{
	if (*p)
		unref(*p);
	*p = NULL;
}
