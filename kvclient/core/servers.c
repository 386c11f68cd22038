/* SPDX-License-Identifier: Apache-2.0 */
/* servers.c -- the pool's table of servers. Those of the user's list stay. The others are members of a view; all
 * clients of the pool call such a server by the same number. Its entry is written, under the pool's lock, when the
 * first client takes the place, and only read from then on, until the last one has given it back. */
#include <string.h>

#include "kvclient/core/pool.h"

int kvc_pool_server_take(struct kvc_pool *p, const struct kv_server_entry *entry)
{
	int at = -KV_EFULL;
	pthread_mutex_lock(&p->lock);
	for (unsigned i = p->num_servers; i < p->room; i++) {
		const struct kv_server_entry *e = &p->server[i].entry;
		if (p->server[i].users == 0) {
			at = at < 0 ? (int)i : at;
		} else if (strcmp(e->id, entry->id) == 0 && e->at.port == entry->at.port &&
			   strcmp(e->at.host, entry->at.host) == 0) {
			at = (int)i;
			break;
		}
	}
	if (at >= 0 && p->server[at].users++ == 0) {
		p->server[at].entry = *entry;
		memset(&p->server[at].told, 0, sizeof(p->server[at].told));
	}
	pthread_mutex_unlock(&p->lock);
	return at;
}

void kvc_pool_server_give(struct kvc_pool *p, unsigned i)
{
	pthread_mutex_lock(&p->lock);
	p->server[i].users--;
	pthread_mutex_unlock(&p->lock);
}
