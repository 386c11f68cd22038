/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c -- a provider's connection at a door: accepted there, or made by the provider. The first bytes sent on one
 * made by the provider reveal its door.
 *
 * A cut (door_cut) shuts one endpoint's connections. Bytes passed on before may still lie in a buffer of the provider,
 * but it asks for more only when that is empty. So a connection is quiet once the provider has asked and was told the
 * end; door_cut's caller polls until all are. Connections are matched by endpoint address, because one that is over but
 * not closed yet has lost its slot to its successor. */
#include "engine/door/private.h"

#include <errno.h>
#include <stdlib.h>

void door_reset(int fd)
{
	const struct linger at_once = {1, 0};
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	(void)door_before.close(fd);
}

/* end: the endpoint it was accepted for; NULL: the provider makes it. */
struct door_conn *door_conn_make(struct door *d, int fd, const struct sockaddr_storage *peer, struct endpoint *end)
{
	struct door_conn *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->watched = (struct watched){CONN, d};
	c->fd = fd;
	c->peer = *peer;
	c->end = end;
	c->accepted = end != NULL;
	c->claim = end ? end->addr : *peer;
	stream_init(&c->stream, &d->rules, c->accepted);
	if (door_watch_set(fd, &c->watched)) {
		free(c);
		return NULL;
	}
	if (end)
		end->conn = c;
	kv_list_add_tail(&d->conns, &c->node);
	d->refs++;
	return c;
}

void door_conn_free(struct door_conn *c)
{
	struct door *d = c->watched.door;
	(void)door_watch_set(c->fd, NULL);
	if (c->end) {
		struct endpoint *e = c->end;
		if (c->accepted)
			e->conn = NULL;
		else
			e->made = NULL;
		door_end_tidy(d, e);
	}
	kv_list_del(&c->node);
	stream_fini(&c->stream);
	free(c->stream.guard.asked);
	free(c);
	door_attend(d);
	door_unref(d);
}

static void conn_cut(struct door_conn *c)
{
	atomic_store_explicit(&c->cut, true, memory_order_release);
	(void)shutdown(c->fd, SHUT_RDWR);
}

/* Cut the connections at door `at` with an endpoint of door d. One made by the provider at another door may be d's
 * until its first bytes show otherwise: end it as well. */
unsigned door_conns_cut(struct door *at, const struct door *d, const struct sockaddr_storage *end, bool *loose)
{
	unsigned left = 0;
	KV_LIST_EACH (n, &at->conns) {
		struct door_conn *c = KV_LIST_ENTRY(n, struct door_conn, node);
		if (door_port_of(&c->claim) != door_port_of(end) || !door_same_host(&c->claim, end) ||
		    (at != d && (c->accepted || c->end)))
			continue;
		if (!atomic_load_explicit(&c->cut, memory_order_relaxed))
			conn_cut(c);
		if (atomic_load_explicit(&c->quiet, memory_order_acquire))
			continue;
		left++;
		*loose |= atomic_load_explicit(&c->stream.loose, memory_order_relaxed);
	}
	return left;
}

/* ---- receiving and sending ---- */

ssize_t door_conn_recv(struct door_conn *c, int fd, const struct iovec *iov, size_t n, int flags)
{
	const char *why;
	ssize_t got;
	if (KV_UNLIKELY(atomic_load_explicit(&c->cut, memory_order_acquire))) {
		atomic_store_explicit(&c->quiet, true, memory_order_release);
		errno = ECONNRESET;
		return -1;
	}
	got = stream_recv(&c->stream, fd, iov, n, flags, &door_before.receive, &why);
	if (KV_UNLIKELY(why != NULL)) {
		int error = errno;
		(void)shutdown(fd, SHUT_RDWR);
		door_tell(c->watched.door, DOOR_ALIEN, &c->peer, why);
		errno = error;
	}
	return got;
}

/* Find the door of a connection made by the provider: its first sent bytes have the port of its endpoint. */
static void conn_settle(struct door_conn *c, uint16_t port)
{
	struct sockaddr_storage own = {0};
	socklen_t len = sizeof(own);
	if (c->accepted || c->end || port == 0 || getsockname(c->fd, (struct sockaddr *)&own, &len))
		return;
	door_lock();
	KV_LIST_EACH (n, &door_all) {
		struct door *d = KV_LIST_ENTRY(n, struct door, node), *was = c->watched.door;
		if (!d->open || door_port_of(&d->name) != port || !door_same_host(&d->name, &own))
			continue;
		kv_list_del(&c->node);
		kv_list_add_tail(&d->conns, &c->node);
		c->watched.door = d;
		c->stream.guard.rules = &d->rules;
		c->end = door_end_find(d, &c->peer, door_port_of(&c->peer));
		if (c->end && c->end->made)
			c->end->made->end = NULL;
		if (c->end)
			c->end->made = c;
		if (c->end && c->end->cut)
			conn_cut(c);
		d->refs++;
		door_unref(was);
		break;
	}
	door_unlock();
}

void door_conn_set_up(struct door_conn *c, const void *buf, size_t n)
{
	uint16_t port;
	guard_setup_sent(&c->stream.guard, buf, n, &port);
	conn_settle(c, port);
}

void door_conn_sent(struct door_conn *c, size_t n)
{
	c->set_up = true;
	guard_answered(&c->stream.guard, n);
}

/* ---- connecting ---- */

/* False: it would be unguarded, for lack of memory. */
bool door_conn_expect(int fd, const struct sockaddr_storage *peer)
{
	struct door_conn *stale = door_conn_find(fd); /* closed by other code than libfabric's */
	bool good = true;
	door_lock();
	if (stale)
		door_conn_free(stale);
	KV_LIST_EACH (n, &door_all) {
		struct door *d = KV_LIST_ENTRY(n, struct door, node);
		if (!d->open || !door_end_find(d, peer, door_port_of(peer)))
			continue;
		good = door_conn_make(d, fd, peer, NULL) != NULL;
		break;
	}
	door_unlock();
	return good;
}
