/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c -- see guard.h.
 *
 * A leader of etcd with a slow disk has revoked all leases at once, and a short outage of a source has emptied views
 * that never healed. The members were there all the time. So a large loss is not believed by itself: each lost member
 * goes when it does not answer either. A loss of half or less is believed: the other members are there to serve, and a
 * server that was taken out wants to be out.
 *
 * A doubted member stays doubted until it is named again or is silent, however small the doubted part has become. So
 * servers that were taken out on purpose, more than half at once, stay in the view until they end. */
#include "kvserver/member/guard.h"

static int add_all(struct kv_view *to, const struct kv_view *from)
{
	int rc = 0;

	for (unsigned i = 0; i < from->count && rc == 0; i++)
		if (!kv_view_find(to, from->member[i].node_id))
			rc = kv_view_add(to, &from->member[i]);
	return rc;
}

/* The doubted after this answer. */
static int doubted_make(const struct guard *g, const struct kv_view *named, struct kv_view *out)
{
	unsigned lost = members_lost(&g->view, named);
	bool large = lost > 0 && (named->count == 0 || lost * 2 > g->view.count);
	int rc = 0;

	for (unsigned i = 0; i < g->view.count && rc == 0; i++) {
		const struct kv_member *m = &g->view.member[i];
		if (!kv_view_find(named, m->node_id) && (large || kv_view_find(&g->doubted, m->node_id)))
			rc = kv_view_add(out, m);
	}
	return rc;
}

int guard_hear(struct guard *g, const struct kv_view *named, unsigned *out_doubts)
{
	struct kv_view doubted = {0}, view = {0};
	int rc = doubted_make(g, named, &doubted);
	bool changed;

	*out_doubts = 0;
	if (rc == 0)
		rc = members_copy(named, &view);
	if (rc == 0)
		rc = add_all(&view, &doubted);
	if (rc) {
		kv_view_fini(&doubted);
		kv_view_fini(&view);
		return rc;
	}
	*out_doubts = members_lost(&doubted, &g->doubted);
	changed = !kv_view_same(&view, &g->view);
	if (!changed) /* the same view under the same epoch */
		view.source = g->view.source, view.epoch = g->view.epoch;
	guard_fini(g);
	*g = (struct guard){.view = view, .doubted = doubted};
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
}
