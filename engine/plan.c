/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c -- the choice of an engine's NICs: the division among the engines of a process, by arithmetic alone.
 *
 * The NICs are sorted by NUMA node and cut into one equal, contiguous share per engine. An engine with more rails than
 * its share continues behind it and wraps round. NICs named by the user keep the user's order; otherwise NICs are
 * excluded that are down or have less than half the speed of the fastest.
 *
 * Default number of rails: the number of named NICs; else on EFA, where all NICs reach each other, the share, up to
 * TE_PLAN_AUTO_RAILS; else one, because two NICs may be on two networks. */
#include "engine/plan.h"

#include <stdio.h>
#include <string.h>

enum { TE_PLAN_AUTO_RAILS = 8 };

static unsigned order(const struct fab_device *d, unsigned count, bool named, unsigned *out)
{
	uint64_t fastest = 0;
	unsigned n = 0;
	for (unsigned i = 0; i < count; i++)
		if (!d[i].link_down)
			fastest = KV_MAX(fastest, d[i].link_bits_per_s);
	for (unsigned i = 0; i < count; i++) {
		bool slow = d[i].link_bits_per_s && d[i].link_bits_per_s < fastest / 2;
		if (named || (!slow && !d[i].link_down))
			out[n++] = i;
	}
	if (n == 0)
		for (; n < count; n++)
			out[n] = n;
	/* Unknown nodes first. */
	for (unsigned i = 1; i < n && !named && !d[0].shared; i++) {
		unsigned at = out[i], j = i;
		for (; j > 0 && d[out[j - 1]].numa_node > d[at].numa_node; j--)
			out[j] = out[j - 1];
		out[j] = at;
	}
	return n;
}

static unsigned rails_auto(const struct fab_device *d, unsigned n, unsigned engines, bool named)
{
	if (named)
		return n;
	return d[0].one_network ? KV_MIN(KV_MAX(n / engines, 1u), (unsigned)TE_PLAN_AUTO_RAILS) : 1;
}

static int rails_fail(const struct fab_device *d, unsigned rails, unsigned n, unsigned left_out, bool named,
		      struct kv_error *err)
{
	char out[80] = "";
	if (left_out)
		snprintf(out, sizeof(out), " (and %u that %s down or slow, which only --nic takes)", left_out,
			 left_out == 1 ? "is" : "are");
	return kv_fail(err, -KV_ELIMIT,
		       "%u rails were requested, and provider %s has %u device%s here%s%s; request at most %u", rails,
		       d[0].short_name, n, n == 1 ? "" : "s", named ? " by these names" : "", out, n);
}

int te_plan_devices(const struct te_options *o, const struct fab_device *d, unsigned count, unsigned *out,
		    unsigned *out_rails, struct kv_error *err)
{
	unsigned engines = o->engines ? o->engines : 1, seq[KV_RAILS_MAX];
	bool named = o->nic != NULL;
	unsigned n = order(d, KV_MIN(count, (unsigned)KV_RAILS_MAX), named, seq);
	unsigned rails = o->rails ? o->rails : rails_auto(d, n, engines, named);
	if (rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "an engine has at most %d rails, not %u", KV_RAILS_MAX, rails);
	if (rails > n && !d[0].shared)
		return rails_fail(d, rails, n, KV_MIN(count, (unsigned)KV_RAILS_MAX) - n, named, err);
	uint64_t first = (uint64_t)(o->engine % engines) * n / engines;
	if (d[0].shared)
		first = 0;
	if (d[0].shared && !named)
		n = 1;
	for (unsigned i = 0; i < rails; i++)
		out[i] = seq[(first + i) % n];
	*out_rails = rails;
	return 0;
}

/* The node of most rails; of the first one among equals. */
static int node_of(const struct te_plan *p)
{
	int best = -1;
	unsigned most = 0;
	for (unsigned i = 0; i < p->rails; i++) {
		unsigned same = 0;
		for (unsigned k = 0; k < p->rails; k++)
			same += p->rail[k].numa_node == p->rail[i].numa_node;
		if (same > most) {
			most = same;
			best = p->rail[i].numa_node;
		}
	}
	return best;
}

void te_plan_fill(const struct fab_device *d, unsigned count, const unsigned *at, unsigned rails, struct te_plan *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->provider, d[0].provider, sizeof(out->provider));
	out->nics = count;
	out->rails = rails;
	for (unsigned i = 0; i < rails; i++) {
		struct te_nic *nic = &out->rail[i];
		memcpy(nic->name, d[at[i]].domain, sizeof(nic->name));
		memcpy(nic->address, d[at[i]].local, sizeof(nic->address));
		nic->numa_node = d[at[i]].numa_node;
	}
	out->numa_node = node_of(out);
}
