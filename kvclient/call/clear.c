/* SPDX-License-Identifier: Apache-2.0 */
/* clear.c -- clear the pool's namespace.
 *
 *   CLEAR: every shard of every server has a new generation, so all values stored before are gone
 *   RAISE: every shard has the highest generation of the answers, so generations of servers can be compared
 *
 * Servers that the view adds during the call, and restarted ones, are asked as well. A former member is not awaited,
 * but other clients may not know it yet, so the call lasts some seconds more. A server that joins later asks the other
 * members (kvserver/conn/doubt.c). Servers that work (UP) come first. Only what this pool has cleared to is asked of
 * all; a server that answers with a far higher generation than another one lies, and raises nobody. */
#include "kvclient/call/keyed.h"

#include <stdlib.h>

#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/cleared.h"
#include "kvclient/core/waits.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/call.h"

#define HEARD_NS  3000000000ull  /* until all clients have the view that this one has */
#define DIFFER_NS 10000000000ull /* then a server that announces another view is wrong */
#define LOOK_NS   20000000ull

struct asked {
	bool tried;
	int rc;
	uint64_t incarnation, least, highest; /* least, highest: generation of its shards */
};

struct clear {
	struct kvc_client *c;
	struct kc_trace *t;
	uint64_t begun_ns, deadline_ns, target, highest;
	struct asked *of; /* by node */
};

static bool counts(const struct kc_node *n)
{
	return !n->retired && (kc_node_running(n) || n->unstarted);
}

static bool is_due(const struct clear *k, const struct kc_node *n)
{
	const struct asked *a = &k->of[n->index];
	return (counts(n) || n->state == KC_NODE_UP) &&
	       (!a->tried || (a->rc == 0 && a->incarnation != n->incarnation && n->state == KC_NODE_UP));
}

static struct kc_node *next_of(const struct clear *k)
{
	struct kc_node *other = NULL;
	for (unsigned i = 0; i < k->c->num_nodes; i++) {
		struct kc_node *n = &k->c->node[i];
		if (!is_due(k, n))
			continue;
		if (n->state == KC_NODE_UP)
			return n;
		other = n;
	}
	return other;
}

/* All shards of a node: at least this generation. *least, *highest: of their answers. 0 or a code. */
static int node_await(const struct clear *k, struct kc_node *n, uint8_t flags, uint64_t generation, uint64_t *least,
		      uint64_t *highest)
{
	const struct wire_request wire = {.type = WIRE_CLEAR, .flags = flags, .clear.generation = generation};
	uint64_t has = 0;
	int rc = 0;
	*least = UINT64_MAX;
	*highest = 0;
	for (uint32_t shard = 0; rc == 0; shard++) {
		rc = kc_ask_shard_await(n, &wire, shard, k->deadline_ns, &has, k->t);
		if (rc == 0 && has < generation)
			return -KV_EPROTO;
		if (rc == 0) {
			*least = KV_MIN(*least, has);
			*highest = KV_MAX(*highest, has);
		}
	}
	return rc == 1 ? 0 : rc;
}

static void clear_node_await(struct clear *k, struct kc_node *n)
{
	struct asked a = {.tried = true};
	a.rc = node_await(k, n, 0, k->target, &a.least, &a.highest);
	a.incarnation = n->incarnation;
	k->of[n->index] = a;
}

/* The highest generation of the answers. Far higher ones are lies. */
static void answers_compare(struct clear *k)
{
	uint64_t lowest = UINT64_MAX;
	for (unsigned i = 0; i < k->c->num_nodes; i++)
		if (k->of[i].tried && k->of[i].rc == 0)
			lowest = KV_MIN(lowest, k->of[i].highest);
	for (unsigned i = 0; i < k->c->num_nodes; i++) {
		struct asked *a = &k->of[i];
		if (!a->tried || a->rc)
			continue;
		if (a->highest - lowest > KV_GENERATIONS_MAX)
			a->rc = -KV_EPROTO;
		else
			k->highest = KV_MAX(k->highest, a->highest);
	}
}

static void raise_node_await(struct clear *k, struct kc_node *n)
{
	struct asked *a = &k->of[n->index];
	if (a->least < k->highest)
		a->rc = node_await(k, n, WIRE_CLEAR_RAISE, k->highest, &a->least, &a->highest);
	if (a->rc == 0)
		kc_cleared_learn(k->c->pool, n->index, k->highest, loop_now(k->c->loop));
}

static int clear_code(const struct clear *k)
{
	for (unsigned i = 0; i < k->c->num_nodes; i++)
		if (counts(&k->c->node[i]) && k->of[i].rc < 0)
			return k->of[i].rc;
	return 0;
}

/* Whether a server announces another view than the one in force, which may have unasked members. */
static bool views_differ(const struct kvc_client *c)
{
	const struct kc_cluster *k = &c->cluster;
	for (unsigned i = 0; i < c->num_nodes && k->digest; i++)
		if (c->node[i].state == KC_NODE_UP && !c->node[i].retired && k->votes.vote[i].digest &&
		    k->votes.vote[i].digest != k->digest)
			return true;
	return false;
}

/* Clients with an earlier view may still use a former member, and this one may be late itself.
 * 0: all know the view in force, or a server announces another one for long; 1: look again. */
static int view_heard_await(const struct clear *k)
{
	struct kvc_client *c = k->c;
	uint64_t now_ns = loop_now(c->loop), left_ns = c->cluster.left_ns;
	bool left = left_ns && now_ns < left_ns + HEARD_NS;
	int rc;
	if (!left && !(views_differ(c) && now_ns < k->begun_ns + DIFFER_NS))
		return 0;
	if (now_ns >= k->deadline_ns)
		return -KV_ETIMEOUT;
	rc = kc_wait_time_await(c, KV_MIN(now_ns + LOOK_NS, k->deadline_ns));
	return rc < 0 ? rc : 1;
}

static int clear_await(struct clear *k)
{
	struct kvc_pool *pool = k->c->pool;
	struct kc_node *n;
	int rc;
	k->target = atomic_load(&pool->cleared.to);
	k->target += k->target < UINT64_MAX;
	do {
		while ((n = next_of(k)) != NULL)
			clear_node_await(k, n);
		answers_compare(k);
		for (unsigned i = 0; i < k->c->num_nodes; i++)
			if (k->of[i].tried && k->of[i].rc == 0)
				raise_node_await(k, &k->c->node[i]);
		rc = clear_code(k);
		if (rc == 0 && !next_of(k))
			rc = view_heard_await(k);
	} while (next_of(k) || rc == 1);
	if (rc == 0) /* one answer alone may be a lie */
		kc_cleared_to(pool, k->highest);
	return rc;
}

int kvc_namespace_clear_await(struct kvc_client *client, uint64_t *out_generation, const struct kvc_call *call)
{
	struct kvc_call own;
	struct kc_trace t;
	struct clear k = {.c = client, .t = &t};
	int rc = kc_call_open(client, &t, KVC_OP_CLEAR, call, &own);
	if (rc < 0)
		return rc;
	k.of = calloc(client->pool->room, sizeof(*k.of));
	k.begun_ns = loop_now(client->loop);
	k.deadline_ns = kc_call_deadline(client, &own, 0);
	rc = k.of ? clear_await(&k) : -KV_ENOMEM;
	free(k.of);
	if (rc == 0 && out_generation)
		*out_generation = k.highest;
	return (int)kc_call_end(client, &t, rc);
}
