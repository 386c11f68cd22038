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

static int add_all(struct members *to, const struct members *from)
{
	int rc = 0;

	for (unsigned i = 0; i < from->count && rc == 0; i++)
		if (!members_find(to, from->item[i].id))
			rc = members_add(to, &from->item[i]);
	return rc;
}

/* The doubted after this answer. */
static int doubted_make(const struct guard *g, const struct members *named, struct members *out)
{
	unsigned lost = members_lost(&g->view, named);
	bool large = lost > 0 && (named->count == 0 || lost * 2 > g->view.count);
	int rc = 0;

	for (unsigned i = 0; i < g->view.count && rc == 0; i++) {
		const struct member *m = &g->view.item[i];
		if (!members_find(named, m->id) && (large || members_find(&g->doubted, m->id)))
			rc = members_add(out, m);
	}
	return rc;
}

int guard_hear(struct guard *g, const struct members *named, unsigned *out_doubts)
{
	struct members doubted = {0}, view = {0};
	int rc = doubted_make(g, named, &doubted);
	bool changed;

	*out_doubts = 0;
	if (rc == 0)
		rc = members_copy(named, &view);
	if (rc == 0)
		rc = add_all(&view, &doubted);
	if (rc) {
		members_fini(&doubted);
		members_fini(&view);
		return rc;
	}
	*out_doubts = members_lost(&doubted, &g->doubted);
	changed = !members_equal(&view, &g->view);
	guard_fini(g);
	*g = (struct guard){.view = view, .doubted = doubted};
	return changed;
}

unsigned guard_silent(struct guard *g, const struct members *silent)
{
	unsigned gone = 0;

	for (unsigned i = 0; i < silent->count; i++)
		if (members_find(&g->doubted, silent->item[i].id)) {
			members_remove(&g->doubted, silent->item[i].id);
			members_remove(&g->view, silent->item[i].id);
			gone++;
		}
	return gone;
}

void guard_fini(struct guard *g)
{
	members_fini(&g->view);
	members_fini(&g->doubted);
}
