/* SPDX-License-Identifier: Apache-2.0 */
/* ends.c -- the endpoints that peers announced to a door, and their hosts.
 *
 * An endpoint is kept while a peer of ours has it, a connection of it lives, or it is cut. A connection from a host
 * without an endpoint is a stranger's. */
#include "engine/door/private.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

bool door_family_known(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET || a->ss_family == AF_INET6;
}

uint16_t door_port_of(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_port
					     : ((const struct sockaddr_in6 *)a)->sin6_port);
}

static const void *host_bytes(const struct sockaddr_storage *a, size_t *len)
{
	*len = a->ss_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
	return a->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
				       : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;
}

bool door_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	size_t la, lb;
	const void *pa = host_bytes(a, &la), *pb = host_bytes(b, &lb);
	return a->ss_family == b->ss_family && memcmp(pa, pb, la) == 0;
}

static unsigned bucket_of(const struct sockaddr_storage *a, uint16_t port)
{
	size_t len;
	const void *p = host_bytes(a, &len);
	return (unsigned)(kv_hash_key(p, len, port) % DOOR_BUCKETS);
}

bool door_address_take(const void *addr, size_t len, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (len > sizeof(*out) || len < sizeof(struct sockaddr_in))
		return false;
	memcpy(out, addr, len);
	return door_family_known(out) && (out->ss_family == AF_INET || len >= sizeof(struct sockaddr_in6));
}

/* ---- endpoints and their hosts ---- */

struct endpoint *door_end_find(struct door *d, const struct sockaddr_storage *host, uint16_t port)
{
	KV_LIST_EACH (n, &d->ends[bucket_of(host, port)]) {
		struct endpoint *e = KV_LIST_ENTRY(n, struct endpoint, node);
		if (door_port_of(&e->addr) == port && door_same_host(&e->addr, host))
			return e;
	}
	return NULL;
}

struct host *door_host_find(struct door *d, const struct sockaddr_storage *host)
{
	KV_LIST_EACH (n, &d->hosts[bucket_of(host, 0)]) {
		struct host *h = KV_LIST_ENTRY(n, struct host, node);
		if (door_same_host(&h->addr, host))
			return h;
	}
	return NULL;
}

static int host_add(struct door *d, const struct sockaddr_storage *addr)
{
	struct host *h = door_host_find(d, addr);
	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return -KV_ENOMEM;
		h->addr = *addr;
		kv_list_add_tail(&d->hosts[bucket_of(addr, 0)], &h->node);
	}
	h->endpoints++;
	return 0;
}

static void host_del(struct door *d, const struct sockaddr_storage *addr)
{
	struct host *h = door_host_find(d, addr);
	if (h && --h->endpoints == 0) {
		kv_list_del(&h->node);
		free(h);
	}
}

struct endpoint *door_end_add(struct door *d, const struct sockaddr_storage *addr)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	if (host_add(d, addr)) {
		free(e);
		return NULL;
	}
	e->addr = *addr;
	kv_list_add_tail(&d->ends[bucket_of(addr, door_port_of(addr))], &e->node);
	return e;
}

void door_end_del(struct door *d, struct endpoint *e)
{
	if (e->conn)
		e->conn->end = NULL;
	if (e->made)
		e->made->end = NULL;
	if (e->refs == 0)
		d->num_gone--;
	host_del(d, &e->addr);
	kv_list_del(&e->node);
	free(e);
}

/* Free an unused endpoint. A cut one is remembered some time longer (gone_end). */
void door_end_tidy(struct door *d, struct endpoint *e)
{
	if (e->refs == 0 && !e->conn && !e->made && !e->cut)
		door_end_del(d, e);
}
