/* SPDX-License-Identifier: Apache-2.0 */
/* door.c -- the doorkeeper of the tcp providers' endpoints: open and shut a door, and allow endpoints.
 *
 * libfabric's tcp providers trust every process that connects (docs/guide/security.md), so their calls on sockets are
 * replaced by ours (calls.c). wait.c has connections not passed to the provider yet, conn.c the others and the cut,
 * ends.c the announced endpoints.
 *
 * A connection is passed to the provider under four conditions: a peer announced an endpoint at its source over an
 * authenticated connection; a whole connect request has arrived; the request claims that endpoint; and that endpoint
 * has no connection yet. A door outlives its endpoint until its last connection is closed. */
#include "engine/door/private.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

enum { DEFER_S = 1 /* for which the kernel holds back a silent connection */ };
#define GONE_NS      5000000000ull /* lifetime of a connection after the last peer with its endpoint has gone */
#define GONE_LOOK_NS 250000000ull
#define CUT_NS       60000000000ull /* how long a cut endpoint is remembered */

int door_create(enum guard_format format, bool reads, uint32_t eager_bytes, const struct kv_log *log, struct door **out,
		const char **why)
{
	struct door *d;
	int rc;
	door_lock();
	rc = door_calls_take(why);
	if (rc)
		goto out;
	d = calloc(1, sizeof(*d));
	if (!d) {
		*why = "no memory";
		rc = -KV_ENOMEM;
		goto out;
	}
	door_spare();
	d->listener = (struct watched){LISTENER, d};
	d->rules = (struct guard_rules){.format = format, .reads = reads, .eager_bytes = eager_bytes};
	d->refs = 1;
	d->fd = d->knock_fd = -1;
	d->log = log;
	for (unsigned i = 0; i < DOOR_BUCKETS; i++) {
		kv_list_init(&d->ends[i]);
		kv_list_init(&d->hosts[i]);
	}
	kv_list_init(&d->conns);
	kv_list_init(&d->signals);
	kv_list_add_tail(&door_all, &d->node);
	*out = d;
out:
	door_unlock();
	return rc;
}

int door_listen(struct door *d, int fd, const struct sockaddr *name, socklen_t len)
{
	const int defer = DEFER_S;
	int rc = -KV_EINVAL;
	door_lock();
	if (door_address_take(name, len, &d->name))
		rc = door_watch_set(fd, &d->listener);
	if (rc == 0) {
		d->name_len = len;
		d->fd = fd;
		d->open = true;
		(void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof(defer));
	}
	door_unlock();
	return rc;
}

static void endpoint_shut(struct endpoint *e)
{
	if (e->conn)
		(void)shutdown(e->conn->fd, SHUT_RDWR);
	if (e->made)
		(void)shutdown(e->made->fd, SHUT_RDWR);
}

void door_shut(struct door *d)
{
	door_lock();
	d->open = false;
	door_rest(d);
	door_signals_pay(d);
	door_wait_end(d);
	for (unsigned i = 0; i < DOOR_BUCKETS; i++)
		KV_LIST_EACH_SAFE (n, &d->ends[i])
			door_end_del(d, KV_LIST_ENTRY(n, struct endpoint, node));
	door_attend(d);
	door_unlock();
}

void door_release(struct door **door)
{
	struct door *d = *door;
	if (!d)
		return;
	door_shut(d);
	door_lock();
	if (d->fd >= 0) /* libfabric leaked it: it lives on, and accepts nothing */
		d->refs++;
	kv_list_del(&d->node);
	door_unref(d);
	door_unlock();
	*door = NULL;
}

/* ---- peers ---- */

int door_allow(struct door *d, const void *addr, size_t len)
{
	struct sockaddr_storage a;
	struct endpoint *e;
	int rc = 0;
	if (!door_address_take(addr, len, &a))
		return 0;
	door_lock();
	e = door_end_find(d, &a, door_port_of(&a));
	if (!e) {
		e = door_end_add(d, &a);
		d->num_gone += e != NULL;
	}
	if (e) {
		d->num_gone -= e->refs++ == 0;
		e->cut = false;
	} else {
		rc = -KV_ENOMEM;
	}
	door_attend(d);
	door_unlock();
	return rc;
}

void door_forbid(struct door *d, const void *addr, size_t len, bool used)
{
	struct sockaddr_storage a;
	struct endpoint *e;
	if (!door_address_take(addr, len, &a))
		return;
	door_lock();
	e = door_end_find(d, &a, door_port_of(&a));
	if (e && e->refs && --e->refs == 0) {
		d->num_gone++;
		e->gone_ns = door_now();
		if (!used)
			endpoint_shut(e);
		door_end_tidy(d, e);
	}
	door_attend(d);
	door_unlock();
}

/* Mark the endpoint at this address, if a peer announced one: whether its connections are cut. */
static void cut_mark(struct door *d, const struct sockaddr_storage *at, bool cut)
{
	struct endpoint *e = door_end_find(d, at, door_port_of(at));
	if (e)
		e->cut = cut;
}

unsigned door_cut(struct door *d, const void *addr, size_t len, bool *out_loose)
{
	struct sockaddr_storage a;
	unsigned left = 0;
	*out_loose = false;
	if (!door_address_take(addr, len, &a))
		return 0;
	door_lock();
	cut_mark(d, &a, true);
	KV_LIST_EACH (n, &door_all)
		left += door_conns_cut(KV_LIST_ENTRY(n, struct door, node), d, &a, out_loose);
	door_unlock();
	return left;
}

void door_mend(struct door *d, const void *addr, size_t len)
{
	struct sockaddr_storage a;
	if (!door_address_take(addr, len, &a))
		return;
	door_lock();
	cut_mark(d, &a, false);
	door_unlock();
}

/* ---- reads ---- */

void door_readable(struct door *d)
{
	door_lock();
	d->rules.readable = true;
	door_unlock();
}

/* The provider keeps one of the two connections; reads noted with the other are never asked for. */
static struct door_guard *guards_of(struct door *d, const void *addr, size_t len, struct door_guard **out_other)
{
	struct sockaddr_storage a;
	struct endpoint *e = door_address_take(addr, len, &a) ? door_end_find(d, &a, door_port_of(&a)) : NULL;
	*out_other = e && e->conn && e->made ? &e->made->stream.guard : NULL;
	if (e && e->conn)
		return &e->conn->stream.guard;
	return e && e->made ? &e->made->stream.guard : NULL;
}

static bool ask_room(struct door_guard *g)
{
	if (g && !g->asked)
		g->asked = calloc(GUARD_ASKED_MAX, sizeof(g->asked[0]));
	return !g || guard_may_ask(g);
}

bool door_may_read(struct door *d, const void *addr, size_t len)
{
	struct door_guard *g, *other;
	bool room;
	door_lock();
	g = guards_of(d, addr, len, &other);
	room = ask_room(g) && ask_room(other);
	door_unlock();
	return room;
}

void door_reads(struct door *d, const void *addr, size_t len, uint64_t bytes)
{
	struct door_guard *g, *other;
	door_lock();
	g = guards_of(d, addr, len, &other);
	if (g)
		guard_ask(g, bytes);
	if (other)
		guard_ask(other, bytes);
	door_unlock();
}

/* ---- with each poll ---- */

static void gone_end(struct door *d, uint64_t now)
{
	/* With thousands of endpoints, visiting all in each poll would take most of this thread's time. */
	if (now - d->gone_looked_ns < GONE_LOOK_NS)
		return;
	d->gone_looked_ns = now;
	for (unsigned i = 0; d->num_gone && i < DOOR_BUCKETS; i++)
		KV_LIST_EACH_SAFE (n, &d->ends[i]) {
			struct endpoint *e = KV_LIST_ENTRY(n, struct endpoint, node);
			if (e->refs || now - e->gone_ns < GONE_NS)
				continue;
			endpoint_shut(e);
			e->cut = e->cut && now - e->gone_ns < CUT_NS;
			door_end_tidy(d, e);
		}
}

void door_more(struct door *d, bool more)
{
	atomic_store_explicit(&d->more, more, memory_order_relaxed);
}

void door_poll(struct door *d)
{
	enum { SELDOM = 256 };
	uint64_t now;
	if (!atomic_load_explicit(&d->awake, memory_order_relaxed))
		atomic_store_explicit(&d->awake, true, memory_order_relaxed);
	if (KV_LIKELY(!atomic_load_explicit(&d->attention, memory_order_relaxed)))
		return;
	/* Endpoints whose peers have gone are not urgent. */
	if (d->num_waiting == 0 && d->knock_fd < 0 && ++d->polls % SELDOM)
		return;
	door_lock();
	now = door_now();
	door_wait_poll(d, now);
	gone_end(d, now);
	door_attend(d);
	door_unlock();
}

void door_counts(const struct door *d, struct door_counts *out)
{
	out->let_in = atomic_load(&d->let_in);
	for (unsigned i = 0; i < DOOR_REASONS; i++)
		out->turned[i] = atomic_load(&d->turned[i]);
}
