/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c -- see guard.h.
 *
 * Sources have lost living members. So of a large loss each lost member is removed only if it does not answer either. A
 * loss of half or less is believed. Losses are summed over some seconds.
 *
 * A doubted member stays doubted until it is named again or is silent. So servers taken out on purpose, more than half
 * at once, stay in the view until they end. */
#include "kvserver/member/guard.h"

static int add_all(struct kv_view *to, const struct kv_view *from)
{
	int rc = 0;
	for (unsigned i = 0; i < from->count && rc == 0; i++)
		if (!kv_view_find(to, from->member[i].node_id))
			rc = kv_view_add(to, &from->member[i]);
	return rc;
}

/* Whether the source has this member, or another one at its address: then one server answers there, under the new name.
 */
static bool is_there(const struct kv_view *named, const struct kv_member *m)
{
	return kv_view_find(named, m->node_id) || members_by_address(named, m->address);
}

static bool is_large(const struct guard *g, const struct kv_view *named)
{
	unsigned lost = 0, gone = members_lost(&g->gone, named);
	for (unsigned i = 0; i < g->view.count; i++)
		lost += !is_there(named, &g->view.member[i]);

	return lost > 0 && (named->count == 0 || (lost + gone) * 2 > g->view.count + gone);
}

static int losses_sort(const struct guard *g, const struct kv_view *named, struct kv_view *doubted,
		       struct kv_view *gone)
{
	bool large = is_large(g, named);
	int rc = 0;
	for (unsigned i = 0; i < g->view.count && rc == 0; i++) {
		const struct kv_member *m = &g->view.member[i];
		if (is_there(named, m))
			continue;
		if (large || kv_view_find(&g->doubted, m->node_id))
			rc = kv_view_add(doubted, m);
		else
			rc = members_put(gone, m);
	}
	for (unsigned i = 0; i < g->gone.count && rc == 0; i++)
		if (!kv_view_find(named, g->gone.member[i].node_id))
			rc = members_put(gone, &g->gone.member[i]);
	return rc == -KV_ELIMIT ? 0 : rc; /* a thousand have gone: one more or less does not count */
}

int guard_hear(struct guard *g, const struct kv_view *named, uint64_t now_ns, unsigned *out_doubts)
{
	struct guard next = {0};
	bool changed;
	int rc;
	*out_doubts = 0;
	if (g->gone.count == 0 || now_ns - g->window_ns > GUARD_WINDOW_NS) {
		kv_view_fini(&g->gone);
		g->window_ns = now_ns;
	}
	next.window_ns = g->window_ns;
	rc = losses_sort(g, named, &next.doubted, &next.gone);
	if (rc == 0)
		rc = members_copy(named, &next.view);
	if (rc == 0)
		rc = add_all(&next.view, &next.doubted);
	if (rc) {
		guard_fini(&next);
		return rc;
	}
	*out_doubts = members_lost(&next.doubted, &g->doubted);
	changed = !kv_view_same(&next.view, &g->view);
	if (!changed) {
		next.view.source = g->view.source;
		next.view.epoch = g->view.epoch;
	}
	guard_fini(g);
	*g = next;
	return changed;
}

unsigned guard_silent(struct guard *g, const struct kv_view *silent)
{
	unsigned gone = 0;
	for (unsigned i = 0; i < silent->count; i++)
		if (kv_view_find(&g->doubted, silent->member[i].node_id)) {
			members_remove(&g->doubted, silent->member[i].node_id);
			members_remove(&g->view, silent->member[i].node_id);
			gone++;
		}
	return gone;
}

void guard_fini(struct guard *g)
{
	kv_view_fini(&g->view);
	kv_view_fini(&g->doubted);
	kv_view_fini(&g->gone);
}
