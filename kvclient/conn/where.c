/* SPDX-License-Identifier: Apache-2.0 */
/* where.c -- the addresses of a node's server and the order of dialling. A server may have several (kv_where_parse),
 * and a name several more. Dialling follows the list from the address that served last. Each host has a resolver slot
 * of the pool, so an unanswered name delays no other, and its share of the addresses. */
#include "kvclient/conn/where.h"

#include <string.h>

#include "kvclient/conn/private.h"
#include "kvclient/core/pool.h"

const char *kc_where_text(const struct kc_node *n)
{
	return n->where[0] ? n->where : n->client->pool->server[n->index].entry.where;
}

uint64_t kc_where_hash(const struct sockaddr_storage *address)
{
	char text[KV_HOST_MAX];
	kv_sockaddr_format(address, text, sizeof(text));
	return kv_hash_key(text, strlen(text), 0) | 1;
}

static unsigned hosts(const char *where)
{
	struct kv_hostport at;
	unsigned n = 0;
	while (n < KV_WHERE_ADDRESSES && kv_where_at(where, n, &at))
		n++;
	return n;
}

/* Append addresses of one host. */
static void some_add(struct kc_where *out, const struct kv_addresses *found, unsigned host, unsigned most)
{
	struct kv_addresses *to = &out->to;
	for (unsigned i = 0; i < found->count && i < most && to->count < KV_ADDRESSES_MAX; i++) {
		to->addr[to->count] = found->addr[i];
		to->len[to->count] = found->len[i];
		out->host[to->count++] = (uint8_t)host;
	}
}

static void turn(const struct kc_node *n, struct kc_where *w)
{
	struct kc_where was = *w;
	unsigned at = 0;
	while (at < w->to.count && kc_where_hash(&w->to.addr[at]) != n->own->alias.first)
		at++;
	for (unsigned i = 0; i < w->to.count && at < w->to.count; i++) {
		unsigned from = (at + i) % w->to.count;
		w->to.addr[i] = was.to.addr[from];
		w->to.len[i] = was.to.len[from];
		w->host[i] = was.host[from];
	}
}

void kc_where_dialled(struct kc_node *n, const struct kc_where *w, unsigned i)
{
	n->own->alias.dialled = kc_where_hash(&w->to.addr[i]);
	n->own->alias.next = kc_where_hash(&w->to.addr[(i + 1) % w->to.count]);
}

void kc_where_judge(struct kc_node *n, bool good)
{
	if (n->own->alias.dialled)
		n->own->alias.first = good ? n->own->alias.dialled : n->own->alias.next;
	n->own->alias.dialled = good ? n->own->alias.dialled : 0;
}

int kc_where_look(struct kc_node *n, struct kc_where *out, struct kv_error *err)
{
	const char *where = kc_where_text(n);
	unsigned num = hosts(where), most = KV_ADDRESSES_MAX / KV_MAX(num, 1u);
	struct kv_hostport at;
	struct kv_error other;
	int first = 0;
	out->to.count = out->pending = 0;
	snprintf(out->text, sizeof(out->text), "%s", where);
	for (unsigned i = 0; i < num && kv_where_at(where, i, &at); i++) {
		struct kv_addresses found;
		int rc = boot_resolve(n->client->pool->resolver, n->index * KV_WHERE_ADDRESSES + i, &at, &found,
				      first ? &other : err);
		if (rc == 0)
			some_add(out, &found, i, most);
		out->pending += rc == 1;
		first = first == 0 && rc < 0 ? rc : first;
	}
	turn(n, out);
	if (out->to.count)
		return 0;
	return out->pending ? 1 : first;
}
