/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c -- connections at a door that the provider does not have yet: which are admitted, and when.
 *
 *   stranger --> reset at once
 *   waiting (at most WAITING_MAX, for WAITING_NS) --request complete, endpoint free--> passed on --close--> gone
 *
 * The kernel announces a connection with its first segment, usually the request (TCP_DEFER_ACCEPT). The provider calls
 * accept only when its listening socket is readable, so the doorkeeper knocks with a connection of its own, and returns
 * the one that waited. Another connection that claims a connected endpoint waits for the first to end, so no other
 * process can replace a peer; if one side missed that end, the kernel probes (conn_probe). */
#include "engine/door/private.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ACCEPTS_MAX = 256 /* examined per accept of the provider */ };
#define WAITING_NS 5000000000ull
#define KNOCK_NS   200000000ull

static int spare_fd = -1; /* given up when no descriptor is left */

static void waiting_del(struct door *d, unsigned i)
{
	d->waiting[i] = d->waiting[--d->num_waiting];
}

static void turn_away(struct door *d, int fd, const struct sockaddr_storage *peer, enum door_reason reason,
		      const char *why)
{
	door_reset(fd);
	door_tell(d, reason, peer, why);
}

/* Whether an endpoint's connection still exists. */
static bool conn_lives(const struct door_conn *c)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_state == TCP_ESTABLISHED;
}

/* One connection is enough, whichever side made it. While ours is being set up, the provider decides which of two it
 * keeps. */
static bool endpoint_taken(const struct endpoint *e)
{
	return (e->conn && conn_lives(e->conn)) || (e->made && e->made->stream.guard.begun && conn_lives(e->made));
}

/* Its end may have been lost, with a packet or the host. The other kernel answers a probe at once, with a reset if the
 * connection is unknown. */
static void conn_probe(struct door_conn *c)
{
	const int on = 1, seconds = 1, times = 10;
	if (!c || c->probed)
		return;
	c->probed = true;
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	(void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* 1: admitted, to *end. 0: it waits on. -1: refused, and removed from the list. */
static int waiting_judge(struct door *d, unsigned i, struct endpoint **end)
{
	uint8_t data[GUARD_REQUEST_MAX + 1];
	struct waiting *w = &d->waiting[i];
	const char *why = NULL;
	uint16_t port = 0;
	ssize_t n = door_before.receive.recv(w->fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);
	int rc = n > 0 ? guard_request(&d->rules, data, (size_t)n, &port, &why) : 0;
	struct waiting gone = *w;
	*end = rc == 1 ? door_end_find(d, &w->peer, port) : NULL;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		waiting_del(d, i); /* it left by itself */
		door_reset(gone.fd);
		return -1;
	}
	if (rc == 1 && *end && (*end)->cut) {
		w->early = true;
		return 0;
	}
	if (rc < 0 || (rc == 1 && (!*end || (*end)->refs == 0))) {
		waiting_del(d, i);
		turn_away(d, gone.fd, &gone.peer, DOOR_CLAIM, why);
		return -1;
	}
	if (rc == 1 && endpoint_taken(*end)) {
		w->twice = true;
		conn_probe((*end)->conn);
		conn_probe((*end)->made);
		return 0;
	}
	return rc;
}

static int waiting_take(struct door *d)
{
	for (unsigned i = 0; i < d->num_waiting;) {
		struct waiting w = d->waiting[i];
		struct endpoint *end;
		int rc = waiting_judge(d, i, &end);
		if (rc < 0)
			continue;
		if (rc == 0) {
			i++;
			continue;
		}
		waiting_del(d, i);
		if (end->conn)
			end->conn->end = NULL; /* it is over, and libfabric has not closed it yet */
		if (!door_conn_make(d, w.fd, &w.peer, end)) {
			end->conn = NULL;
			turn_away(d, w.fd, &w.peer, DOOR_FULL, NULL);
			continue;
		}
		atomic_fetch_add(&d->let_in, 1);
		return w.fd;
	}
	return -1;
}

/* The connection that has waited longest makes room. */
static void waiting_room(struct door *d)
{
	struct waiting oldest;
	unsigned at = 0;
	if (d->num_waiting < WAITING_MAX)
		return;
	for (unsigned i = 1; i < d->num_waiting; i++)
		if (d->waiting[i].since_ns < d->waiting[at].since_ns)
			at = i;
	oldest = d->waiting[at];
	waiting_del(d, at);
	turn_away(d, oldest.fd, &oldest.peer, DOOR_FULL, NULL);
}

static void waiting_expire(struct door *d, uint64_t now)
{
	for (unsigned i = 0; i < d->num_waiting;) {
		struct waiting w = d->waiting[i];
		if (now - w.since_ns < WAITING_NS) {
			i++;
			continue;
		}
		waiting_del(d, i);
		if (w.early)
			door_reset(w.fd); /* a peer of ours: it has done nothing wrong */
		else
			turn_away(d, w.fd, &w.peer, w.twice ? DOOR_TWICE : DOOR_SILENT, NULL);
	}
}

static bool waiting_ready(struct door *d)
{
	struct endpoint *end;
	for (unsigned i = 0; i < d->num_waiting;) {
		int rc = waiting_judge(d, i, &end);
		if (rc == 1)
			return true;
		if (rc == 0)
			i++;
	}
	return false;
}

/* ---- knocking ---- */

static void knock_end(struct door *d)
{
	if (d->knock_fd >= 0)
		door_reset(d->knock_fd);
	d->knock_fd = -1;
}

/* Make a connection of our own, so that the provider calls accept. The kernel defers until its one byte arrives. */
static void knock(struct door *d, uint64_t now)
{
	socklen_t len = sizeof(d->knock_name);
	if (d->knock_fd >= 0 && now - d->knock_ns > KNOCK_NS)
		knock_end(d);
	if (d->knock_fd < 0) {
		d->knock_fd = socket(d->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (d->knock_fd < 0)
			return;
		d->knock_ns = now;
		d->knocked = false;
		if ((door_before.connect(d->knock_fd, (const struct sockaddr *)&d->name, d->name_len) &&
		     errno != EINPROGRESS) ||
		    getsockname(d->knock_fd, (struct sockaddr *)&d->knock_name, &len)) {
			knock_end(d);
			return;
		}
	}
	if (!d->knocked)
		d->knocked = door_before.send(d->knock_fd, "k", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static bool is_knock(const struct door *d, const struct sockaddr_storage *peer)
{
	return d->knock_fd >= 0 && door_port_of(&d->knock_name) == door_port_of(peer) &&
	       door_same_host(&d->knock_name, peer);
}

/* ---- accepting ---- */

/* The kernel assigns descriptors from the lowest on. */
static bool files_short(int fd)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	       (rlim_t)fd + KV_MIN((rlim_t)KV_FILES_RESERVE, limit.rlim_cur / 16) >= limit.rlim_cur;
}

/* No descriptor is left: release the spare one, so that the waiting connection is accepted and ended. */
static void shed(struct door *d)
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);
	int fd;
	if (spare_fd < 0)
		return;
	(void)door_before.close(spare_fd);
	fd = door_before.accept4(d->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0)
		turn_away(d, fd, &peer, DOOR_FULL, "no descriptor is left (ulimit -n)");
	spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Accept the kernel's next connection. False: none. */
static bool accept_one(struct door *d)
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);
	int fd = door_before.accept4(d->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			shed(d);
		return errno == ECONNABORTED || errno == EINTR;
	}
	if (is_knock(d, &peer)) {
		door_reset(fd);
		knock_end(d);
	} else if (!d->open || !door_family_known(&peer) || !door_host_find(d, &peer)) {
		turn_away(d, fd, &peer, DOOR_STRANGER, NULL);
	} else if (files_short(fd)) {
		turn_away(d, fd, &peer, DOOR_FULL, "descriptors are short (ulimit -n)");
	} else {
		waiting_room(d);
		d->waiting[d->num_waiting++] = (struct waiting){.fd = fd, .peer = peer, .since_ns = door_now()};
	}
	return true;
}

int door_accept(struct door *d)
{
	int fd = -1;
	door_lock();
	for (unsigned i = 0; fd < 0 && i < ACCEPTS_MAX && accept_one(d); i++)
		fd = waiting_take(d);
	if (fd < 0)
		fd = waiting_take(d);
	door_attend(d);
	door_unlock();
	if (fd < 0)
		errno = EAGAIN;
	return fd;
}

/* ---- for door/door.c ---- */

void door_spare(void)
{
	if (spare_fd < 0)
		spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void door_wait_poll(struct door *d, uint64_t now)
{
	waiting_expire(d, now);
	if (d->num_waiting && waiting_ready(d))
		knock(d, now);
	else if (d->knock_fd >= 0 && now - d->knock_ns > KNOCK_NS)
		knock_end(d);
}

void door_wait_end(struct door *d)
{
	knock_end(d);
	while (d->num_waiting)
		door_reset(d->waiting[--d->num_waiting].fd);
}
