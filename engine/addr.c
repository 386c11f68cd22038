/* SPDX-License-Identifier: Apache-2.0 */
/* addr.c -- a rail's map from address blob to handle, with references.
 *
 * Our own map because providers differ: inserting a blob twice gives one handle, counted on tcp and uncounted on EFA,
 * where one removal then kills both users. A handle is removed when nobody names it and no operation to it is in
 * flight: EFA drops the completions of removed peers. After a rebuild all handles are void (addrs_void); entries still
 * referenced by ended operations are freed with the last of them, without touching the new address vector.
 *
 * Where a provider keeps a connection that broke (fab_caps.breaks_stay), the first operation that fails with it gives it up, and the address gets a
 * fresh one. addr.breaks says which connection an operation went over: of a hundred that fail together one does so, and a late one does not
 * cost the next connection. */
#include <errno.h>
#include <stdlib.h>

#include "engine/inside.h"

static struct kv_list *bucket(struct rail *r, const struct te_address *a)
{
	return &r->addrs[kv_hash_key(a->data, a->len, 0) % TE_ADDR_BUCKETS];
}

static struct addr *find(struct kv_list *b, const struct te_address *a)
{
	KV_LIST_EACH (n, b) {
		struct addr *have = KV_LIST_ENTRY(n, struct addr, node);
		if (have->len == a->len && memcmp(have->blob, a->data, a->len) == 0)
			return have;
	}
	return NULL;
}

int addr_get(struct rail *r, const struct te_address *a, struct addr **out)
{
	if (a->len == 0 || a->len > KV_ADDR_MAX)
		return -KV_EPROTO;
	struct kv_list *b = bucket(r, a);
	struct addr *addr = find(b, a);
	if (!addr) {
		uint32_t most = fab_caps(r->fab)->peers_max;
		if (most && r->naddrs >= most)
			return -KV_ELIMIT;
		addr = calloc(1, sizeof(*addr));
		if (!addr)
			return -KV_ENOMEM;
		int rc = fab_av_insert(r->fab, a->data, a->len, &addr->handle);
		if (rc) {
			free(addr);
			return rc;
		}
		addr->rail = r;
		addr->generation = r->te->generation;
		addr->len = a->len;
		memcpy(addr->blob, a->data, a->len);
		kv_list_add_tail(b, &addr->node);
		r->naddrs++;
	}
	addr->refs++;
	*out = addr;
	return 0;
}

void addr_put(struct addr *a)
{
	if (--a->refs > 0)
		return;
	if (a->generation == a->rail->te->generation) {
		/* Where removing is unsafe the entry stays, so that the same blob finds its handle again. */
		if (fab_caps(a->rail->fab)->av_remove_unsafe)
			return;
		fab_av_remove(a->rail->fab, a->handle);
		a->rail->naddrs--;
	}
	kv_list_del(&a->node);
	free(a);
}

/* Whoever is told first gives the connection up; the others that went over it find that done. */
void addr_broken(struct addr *a, uint32_t breaks)
{
	struct rail *r = a->rail;
	if (!fab_caps(r->fab)->breaks_stay || a->generation != r->te->generation || a->breaks != breaks)
		return;
	a->breaks++;
	r->stamp++;
	int rc = fab_av_renew(r->fab, a->blob, a->len, &a->handle);
	if (rc == 0)
		return;
	kv_info(r->te->log, "rail %u: a connection broke, and cannot be replaced by itself (%s): rebuilding the endpoints", r->index,
		rc == -KV_ENOTSUP ? "FI_AV_REMOVE_CLEANUP=1 is not in the environment" : kv_strerror(rc));
	r->dead = true;
}

void addrs_void(struct rail *r)
{
	r->naddrs = 0;
	for (unsigned i = 0; i < TE_ADDR_BUCKETS; i++) {
		struct kv_list *n;
		while ((n = kv_list_pop(&r->addrs[i]))) {
			struct addr *a = KV_LIST_ENTRY(n, struct addr, node);
			if (a->refs == 0)
				free(a);
		}
	}
}
