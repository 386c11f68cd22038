/* SPDX-License-Identifier: Apache-2.0 */
/* gone.c -- who left, and when. A server that returns believes the others' memory of deletions only if no member has
 * left since its own absence began: that one may have been the only one to see a deletion.
 *
 *   member -- a view lacks it --> gone -- a view has it --> member: it answers for itself
 *                                   |---- after FORGET_NS, or without room --> lost */
#include "kvserver/conn/gone.h"

#define FORGET_NS 660000000000ull /* as long as tombstones are kept (store/tombs.h) */

static bool has(const uint64_t *names, uint32_t count, uint64_t name)
{
	bool found = false;
	for (uint32_t i = 0; i < count; i++)
		found |= names[i] == name;
	return found;
}

static void row_lose(struct gone *g, uint32_t i)
{
	g->lost_ns = KV_MAX(g->lost_ns, g->row[i].left_ns);
	g->row[i] = g->row[--g->rows];
}

static void row_add(struct gone *g, uint64_t name, uint64_t left_ns)
{
	uint32_t oldest = 0;
	for (uint32_t i = 1; i < g->rows; i++)
		if (g->row[i].left_ns < g->row[oldest].left_ns)
			oldest = i;
	if (g->rows == KV_VIEW_MAX)
		row_lose(g, oldest);
	g->row[g->rows++] = (struct gone_row){name, left_ns};
}

void gone_former(struct gone *g, const uint64_t *names, uint32_t count, const char *self)
{
	uint64_t own = tier_member_name(self);
	for (uint32_t i = 0; i < count && g->rows < KV_VIEW_MAX; i++)
		if (names[i] != own)
			row_add(g, names[i], KV_NEVER);
}

void gone_view(struct gone *g, const struct kv_view *view, const char *self, uint64_t now_ns)
{
	uint64_t now[KV_VIEW_MAX];
	uint32_t n = 0;
	for (uint32_t i = 0; i < view->count && n < KV_VIEW_MAX; i++)
		if (strcmp(view->member[i].node_id, self) != 0)
			now[n++] = tier_member_name(view->member[i].node_id);
	for (uint32_t i = g->rows; i-- > 0;)
		if (has(now, n, g->row[i].name))
			g->row[i] = g->row[--g->rows];
		else if (g->row[i].left_ns == KV_NEVER)
			g->row[i].left_ns = now_ns;
	for (uint32_t i = 0; i < g->members; i++)
		if (!has(now, n, g->member[i]))
			row_add(g, g->member[i], now_ns);
	memcpy(g->member, now, n * sizeof(now[0]));
	g->members = n;
	gone_forget(g, now_ns);
}

void gone_forget(struct gone *g, uint64_t now_ns)
{
	for (uint32_t i = g->rows; i-- > 0;)
		if (now_ns > g->row[i].left_ns && now_ns - g->row[i].left_ns > FORGET_NS)
			row_lose(g, i);
}

uint64_t gone_last_ns(const struct gone *g)
{
	uint64_t last_ns = 0;
	for (uint32_t i = 0; i < g->rows; i++)
		last_ns = KV_MAX(last_ns, g->row[i].left_ns);
	return last_ns;
}

uint32_t gone_names(const struct gone *g, uint64_t *out)
{
	memcpy(out, g->member, g->members * sizeof(*out));
	for (uint32_t i = 0; i < g->rows; i++)
		out[g->members + i] = g->row[i].name;
	return g->members + g->rows;
}
