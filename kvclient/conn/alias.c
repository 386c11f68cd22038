/* SPDX-License-Identifier: Apache-2.0 */
/* alias.c -- see alias.h. The user's list may name a server by host name, the view by address. Then the list's node
 * rests (route/view.c), and questions about it mean the member's node. Two nodes are the same server if they are one
 * process or resolved to one address; from then on the member's node id counts. A listed server never reached is the
 * member the list names. The node id alone does not decide: two servers may share one by mistake. */
#include "kvclient/conn/alias.h"

#include "kvclient/conn/private.h"
#include "kvclient/conn/where.h"
#include "kvclient/core/pool.h"
#include "kvclient/core/waits.h"

#define LOOK_NS 5000000ull

void kc_alias_looked_up(struct kc_node *n, const struct kv_addresses *found)
{
	n->own->alias.count = KV_MIN(found->count, (unsigned)KV_ADDRESSES_MAX);
	for (unsigned i = 0; i < n->own->alias.count; i++)
		n->own->alias.at[i] = kc_where_hash(&found->addr[i]);
}

static bool one_id(const struct kc_node *listed, const struct kc_node *n)
{
	return listed->own->alias.id[0] && strcmp(listed->own->alias.id, n->member_id) == 0;
}

static bool one_process(const struct kc_node *listed, const struct kc_node *n)
{
	return listed->incarnation && listed->incarnation == n->incarnation &&
	       strcmp(listed->node_id, n->node_id) == 0; /* an incarnation alone can be copied */
}

static bool one_address(const struct kc_node *listed, const struct kc_node *n)
{
	for (unsigned i = 0; i < listed->own->alias.count; i++)
		for (unsigned k = 0; k < n->own->alias.count; k++)
			if (listed->own->alias.at[i] == n->own->alias.at[k])
				return true;
	return false;
}

static bool one_name(const struct kc_node *listed, const struct kc_node *n)
{
	const struct kv_server_entry *e = &listed->client->pool->server[listed->index].entry;
	return !listed->incarnation && e->named && strcmp(e->id, n->member_id) == 0;
}

struct kc_node *kc_alias_node(struct kvc_client *c, unsigned server)
{
	static bool (*const same[])(const struct kc_node *listed, const struct kc_node *n) = {one_id, one_process,
											      one_address, one_name};
	struct kc_node *listed = &c->node[server];
	if (!listed->retired || listed->joined)
		return listed;
	for (unsigned way = 0; way < KV_COUNT(same); way++)
		for (unsigned i = 0; i < c->num_nodes; i++) {
			struct kc_node *n = &c->node[i];
			if (n->retired || !n->member_id[0] || !same[way](listed, n))
				continue;
			memcpy(listed->own->alias.id, n->member_id, sizeof(listed->own->alias.id));
			return n;
		}
	return listed;
}

/* Its name is being looked up, or a member is being reached for the first time. */
static bool more_soon(struct kvc_client *c, struct kc_node *listed)
{
	struct kc_where found;
	struct kv_error err;
	int rc = listed->own->alias.count ? -KV_EPEERDOWN : kc_where_look(listed, &found, &err);
	bool soon = rc >= 0;
	if (rc == 0)
		kc_alias_looked_up(listed, &found.to);
	for (unsigned i = 0; i < c->num_nodes && !soon; i++)
		soon = c->node[i].joined && c->node[i].state == KC_NODE_CONNECTING && !c->node[i].incarnation;
	return soon;
}

struct kc_node *kc_alias_node_await(struct kvc_client *c, unsigned server, uint64_t deadline_ns)
{
	struct kc_node *n;
	while ((n = kc_alias_node(c, server))->retired && !n->joined && !c->closing &&
	       loop_now(c->loop) < deadline_ns && more_soon(c, n))
		(void)kc_wait_time_await(c, KV_MIN(deadline_ns, loop_now(c->loop) + LOOK_NS));
	return n;
}
