/* SPDX-License-Identifier: Apache-2.0 */
/* servers.c -- the pool's table of servers: the user's list, then members of views, which all clients of the pool
 * number alike. The first client to take a place writes its entry under the pool's lock; it is constant until the last
 * gives it back. Only its addresses follow the view: read them under the lock. Places are found by adjacent hashes: a
 * first view looks up a thousand members. */
#include <stdio.h>
#include <string.h>

#include "kvclient/core/cluster_name.h"
#include "kvclient/core/pool.h"

static bool same_server(const struct kv_server_entry *a, const struct kv_server_entry *b)
{
	return strcmp(a->id, b->id) == 0 && kv_where_shares(a->where, b->where);
}

int kc_pool_server_take(struct kvc_pool *p, const struct kv_server_entry *entry)
{
	const uint64_t hash = kv_hash_key(entry->id, strlen(entry->id), 0) | 1;
	int at = -KV_EFULL;
	pthread_mutex_lock(&p->lock);
	for (unsigned i = p->num_servers; i < p->room; i++) {
		if (p->taken[i] == 0) {
			at = at < 0 ? (int)i : at;
		} else if (p->taken[i] == hash && same_server(&p->server[i].entry, entry)) {
			at = (int)i;
			break;
		}
	}
	if (at >= 0 && p->server[at].users++ == 0) {
		p->taken[at] = hash;
		p->server[at].entry = *entry;
		memset(&p->server[at].troubles, 0, sizeof(p->server[at].troubles));
		atomic_store(&p->server[at].generation, 0);
		atomic_store(&p->server[at].cleared_by_ns, 0);
	}
	pthread_mutex_unlock(&p->lock);
	return at;
}

void kc_pool_server_moved(struct kvc_pool *p, unsigned i, const char *where)
{
	if (i < p->num_servers)
		return;
	pthread_mutex_lock(&p->lock);
	snprintf(p->server[i].entry.where, sizeof(p->server[i].entry.where), "%s", where);
	pthread_mutex_unlock(&p->lock);
}

void kc_pool_server_give(struct kvc_pool *p, unsigned i)
{
	pthread_mutex_lock(&p->lock);
	if (--p->server[i].users == 0) {
		p->taken[i] = 0;
		kc_cluster_name_forget(p, i);
	}
	pthread_mutex_unlock(&p->lock);
}
