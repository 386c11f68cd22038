/* SPDX-License-Identifier: Apache-2.0 */
/* addr.c -- the peers' addresses on one rail: from an address to the provider's handle, with references.
 *
 * A handle is removed when no link names it and no operation to it is in flight, because EFA drops the completions of
 * removed peers. A rebuild makes all handles void (addrs_void); an entry with operations that ended in it is freed with
 * the last of them.
 *
 * Some providers keep a broken connection (fab_caps.breaks_stay), and only new endpoints help. One flushed operation is
 * no proof (the peer may have closed in good order), a second is. Servers ignore such breaks (te_options.peers_heal).
 * While another peer is well, the rebuild waits until the lost address is needed: by a newly opened peer, or by one
 * that still has it after TE_HEAL_NS. */
#include <errno.h>
#include <stdlib.h>

#include "engine/addr.h"
#include "engine/inside.h"
#include "engine/rail.h"

static struct kv_list *bucket(struct rail *r, const struct te_address *a)
{
	return &r->addrs.bucket[kv_hash_key(a->data, a->len, 0) % TE_ADDR_BUCKETS];
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

static void rebuild_soon(struct rail *r)
{
	if (r->state == RAIL_UP) {
		kv_info(r->te->log,
			"rail %u: a connection broke and the provider does not replace it: rebuilding the endpoint",
			r->index);
		r->state = RAIL_BROKE;
	}
}

static bool lost_any(const struct rail *r, uint32_t refs)
{
	for (unsigned i = 0; i < TE_ADDR_BUCKETS; i++)
		KV_LIST_EACH (n, &r->addrs.bucket[i]) {
			const struct addr *a = KV_LIST_ENTRY(n, const struct addr, node);
			if (a->lost && a->refs >= refs)
				return true;
		}
	return false;
}

void addrs_heal(struct rail *r)
{
	r->addrs.heal_at = 0;
	if (lost_any(r, 1))
		rebuild_soon(r);
}

int addr_get(struct rail *r, const struct te_address *a, struct addr **out)
{
	if (a->len == 0 || a->len > KV_ADDR_MAX)
		return -KV_EPROTO;
	struct kv_list *b = bucket(r, a);
	struct addr *addr = find(b, a);
	if (addr && addr->lost)
		rebuild_soon(r);
	if (!addr) {
		uint32_t most = fab_caps(r->fab)->peers_max;
		if (most && r->addrs.count >= most) {
			/* Lost connections occupy places as well. */
			bool lost = lost_any(r, 0);
			if (lost)
				rebuild_soon(r);
			return lost ? -EAGAIN : -KV_ELIMIT;
		}
		addr = calloc(1, sizeof(*addr));
		if (!addr)
			return -KV_ENOMEM;
		int rc = fab_av_insert(r->fab, a->data, a->len, &addr->handle);
		if (rc) {
			free(addr);
			return rc;
		}
		addr->rail = r;
		addr->generation = r->te->fence.generation;
		addr->len = a->len;
		memcpy(addr->blob, a->data, a->len);
		kv_list_add_tail(b, &addr->node);
		r->addrs.count++;
	}
	if (addr->cut)
		fab_uncut(r->fab, addr->blob, addr->len);
	addr->cut = false;
	addr->refs++;
	*out = addr;
	return 0;
}

void addr_put(struct addr *a)
{
	KV_ASSERT_HOT(a->refs > 0);
	if (--a->refs > 0)
		return;
	if (a->generation == a->rail->te->fence.generation) {
		/* Where removing is unsafe the entry stays, so that the same blob finds its handle again. */
		if (fab_caps(a->rail->fab)->av_remove_unsafe || a->lost)
			return;
		fab_av_remove(a->rail->fab, a->handle, a->used);
		a->rail->addrs.count--;
	}
	kv_list_del(&a->node);
	free(a);
}

bool addr_broken(const struct op *op, bool certain)
{
	struct addr *a = op->addr;
	struct rail *r = a->rail;
	if (a->generation != r->te->fence.generation)
		return false;
	fab_broken(r->fab, a->handle);
	if (!fab_caps(r->fab)->breaks_stay || r->te->rules.peers_heal)
		return false;
	a->broke = true;
	if (a->lost || (!certain && !op->after_break))
		return false;
	a->lost = true;
	return true;
}

void addr_lost(struct rail *r, bool any_well)
{
	if (!any_well)
		rebuild_soon(r);
	else if (!r->addrs.heal_at)
		r->addrs.heal_at = te_now(r->te) + TE_HEAL_NS;
}

void addrs_void(struct rail *r)
{
	r->addrs.count = 0;
	r->addrs.heal_at = 0;
	for (unsigned i = 0; i < TE_ADDR_BUCKETS; i++) {
		struct kv_list *n;
		while ((n = kv_list_pop(&r->addrs.bucket[i]))) {
			struct addr *a = KV_LIST_ENTRY(n, struct addr, node);
			if (a->refs == 0)
				free(a);
		}
	}
}
