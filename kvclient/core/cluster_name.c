/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_name.c -- the cluster a pool belongs to: the one named by more than half of its servers. A name in the
 * options decides alone. Otherwise each answering server that names a cluster has one vote; a server without a name is
 * accepted. At exactly half the present name stays. Before there is one, servers that may still answer count for
 * KC_CLUSTER_NAME_OPENING_NS; then most votes win, of several names the first in the alphabet, so that clients
 * agree. */
#include "kvclient/core/cluster_name.h"

#include <string.h>

void kc_cluster_name_hear(struct kvc_pool *p, unsigned i, const char *name, uint64_t now_ns)
{
	struct kc_named *d = &p->server[i].named;
	pthread_mutex_lock(&p->lock);
	snprintf(d->cluster, sizeof(d->cluster), "%s", name);
	atomic_store(&d->until_ns, now_ns + KC_CLUSTER_NAME_LOST_NS);
	if (!p->naming.from_ns && name[0])
		p->naming.from_ns = now_ns;
	pthread_mutex_unlock(&p->lock);
}

void kc_cluster_name_beat(struct kvc_pool *p, unsigned i, uint64_t now_ns, uint64_t beat_ns)
{
	atomic_store_explicit(&p->server[i].named.until_ns, now_ns + beat_ns + KC_CLUSTER_NAME_LOST_NS,
			      memory_order_relaxed);
}

void kc_cluster_name_forget(struct kvc_pool *p, unsigned i)
{
	p->server[i].named.cluster[0] = '\0';
	atomic_store(&p->server[i].named.until_ns, 0);
}

static const char *name_of(struct kvc_pool *p, unsigned i, uint64_t now_ns)
{
	struct kc_named *d = &p->server[i].named;
	return d->cluster[0] && atomic_load_explicit(&d->until_ns, memory_order_relaxed) > now_ns ? d->cluster : NULL;
}

static unsigned votes_for(struct kvc_pool *p, const char *name, uint64_t now_ns)
{
	unsigned n = 0;
	for (unsigned i = 0; i < p->room; i++) {
		const char *its = name_of(p, i, now_ns);
		n += its && strcmp(its, name) == 0;
	}
	return n;
}

/* The only name that can have more than half of the votes (Boyer and Moore); NULL: none can. */
static const char *leader(struct kvc_pool *p, uint64_t now_ns, unsigned *out_voters)
{
	const char *name = NULL;
	unsigned lead = 0;
	*out_voters = 0;
	for (unsigned i = 0; i < p->room; i++) {
		const char *its = name_of(p, i, now_ns);
		if (!its)
			continue;
		++*out_voters;
		if (lead == 0)
			name = its;
		lead += strcmp(its, name) == 0 ? 1u : -1u;
	}
	return lead ? name : NULL;
}

static const char *most(struct kvc_pool *p, uint64_t now_ns)
{
	const char *name = NULL;
	unsigned votes = 0;
	for (unsigned i = 0; i < p->room; i++) {
		const char *its = name_of(p, i, now_ns);
		unsigned n = its && (!name || strcmp(its, name) != 0) ? votes_for(p, its, now_ns) : 0;
		if (n > votes || (n && n == votes && strcmp(its, name) < 0)) {
			name = its;
			votes = n;
		}
	}
	return name;
}

static const char *choose(struct kvc_pool *p, unsigned pending, uint64_t now_ns)
{
	unsigned voters;
	const char *name = leader(p, now_ns, &voters);
	if (name && 2 * votes_for(p, name, now_ns) > voters + (p->naming.cluster[0] ? 0 : pending))
		return name;
	if (p->naming.cluster[0] || (pending && now_ns < p->naming.from_ns + KC_CLUSTER_NAME_OPENING_NS))
		return NULL;
	return most(p, now_ns);
}

bool kc_cluster_name_look(struct kvc_pool *p, unsigned pending, uint64_t now_ns, char out[KV_NAME_MAX],
			  char out_former[KV_NAME_MAX])
{
	const char *name;
	bool known;
	out_former[0] = '\0';
	pthread_mutex_lock(&p->lock);
	name = choose(p, pending, now_ns);
	if (name && strcmp(name, p->naming.cluster) != 0) {
		memcpy(out_former, p->naming.cluster, KV_NAME_MAX);
		memcpy(p->naming.cluster, name, KV_NAME_MAX);
		atomic_fetch_add(&p->naming.number, 1);
	}
	memcpy(out, p->naming.cluster, KV_NAME_MAX);
	known = p->naming.cluster[0] != '\0';
	pthread_mutex_unlock(&p->lock);
	return known;
}
