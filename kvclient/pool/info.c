/* SPDX-License-Identifier: Apache-2.0 */
/* info.c -- reports the engine, the counters, servers and rails of a pool. Counters are atomics with one writer each.
 * The state of a server or rail must be consistent, so the client's loop reads it; atomics would cost the data path a
 * store per credit. */
#include <stdlib.h>

#include "host/host.h"
#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/block.h"
#include "kvclient/core/sized.h"
#include "kvclient/request/landing.h"

#define ASK_NS   5000000000ull /* limit for a stalled loop */
#define FENCE_NS 1000000000ull /* rebuilding endpoints takes up to 100 ms */

static void text_copy(char *to, size_t cap, const char *from)
{
	snprintf(to, cap, "%.*s", (int)cap - 1, from);
}

static void engine_info(struct kvc_info *o, const struct te_info *t)
{
	text_copy(o->provider, sizeof(o->provider), t->provider);
	text_copy(o->fabric, sizeof(o->fabric), t->fabric);
	text_copy(o->domain, sizeof(o->domain), t->domain);
	text_copy(o->libfabric, sizeof(o->libfabric), t->libfabric);
	text_copy(o->why, sizeof(o->why), t->why);
	text_copy(o->wait, sizeof(o->wait), t->wait_fd ? "fd" : "poll");
	text_copy(o->congestion, sizeof(o->congestion), t->congestion);
	text_copy(o->no_door, sizeof(o->no_door), t->no_door);
	o->rails = t->rails;
	o->chunk_bytes = t->chunk_bytes;
	o->eager_bytes = t->eager_bytes;
	o->tx_depth = t->tx_depth;
	o->cq_depth = t->cq_depth;
}

static void memory_info(struct kvc_info *o, const struct kvc_pool *pool)
{
	struct kv_numa_place *place = calloc(pool->num_clients, sizeof(*place));
	struct kv_pages pages = {0};
	for (unsigned i = 0; i < pool->num_clients; i++) {
		const struct kvc_client *c = pool->client[i];
		kv_pages_add(&pages, &c->area.pages);
		o->register_ns += c->register_ns;
		if (place)
			place[i] = c->place;
		if (place && pool->own_loops && pool->bound[i % pool->num_loops].mixed)
			place[i].thread = KV_THREAD_FREE;
	}
	kv_pages_format(&pages, o->memory, sizeof(o->memory));
	if (place)
		kv_numa_describe(place, pool->num_clients, "client", pool->options.numa == KVC_NUMA_OFF, o->numa,
				 sizeof(o->numa));
	free(place);
}

int kvc_info(struct kvc_pool *pool, struct kvc_info *out)
{
	static const char *const modes[] = {[BOOT_PLAIN] = "none", [BOOT_PSK] = "psk", [BOOT_CERT] = "certificate"};
	struct kvc_info o = {0};
	uint64_t pull_links = 0, local_links = 0;
	const char *mode;
	if (!pool || !kc_sized(out))
		return -KV_EINVAL;
	if (kc_pool_alien(pool))
		return -KV_ECLOSED;
	engine_info(&o, &pool->client[0]->info);
	o.num_clients = pool->num_clients;
	o.os_threads = pool->own_loops && !pool->turned ? pool->num_loops : 0;
	o.num_servers = pool->num_servers;
	text_copy(o.security, sizeof(o.security), modes[pool->client[0]->mode]);
	memory_info(&o, pool);
	for (unsigned i = 0; i < pool->num_clients; i++) {
		const struct kvc_client *c = pool->client[i];
		uint32_t credits = (uint32_t)atomic_load_explicit(&c->count.credits, memory_order_relaxed);
		o.endpoints += c->info.rails;
		o.links += (unsigned)atomic_load_explicit(&c->count.links, memory_order_relaxed);
		pull_links += atomic_load_explicit(&c->count.pull_links, memory_order_relaxed);
		local_links += atomic_load_explicit(&c->count.local_links, memory_order_relaxed);
		o.buffer_bytes += c->area.len_bytes;
		o.message_bytes += c->info.msg_memory_bytes;
		o.credits = o.credits ? KV_MIN(o.credits, credits ? credits : o.credits) : credits;
	}
	mode = pull_links >= o.links ? "pull" : "mixed";
	if (local_links > 0)
		mode = local_links >= o.links ? "local" : "mixed";
	text_copy(o.mode, sizeof(o.mode), pull_links + local_links == 0 ? "push" : mode);
	kc_sized_give(out, &o, sizeof(o));
	return 0;
}

uint64_t kvc_call_bound_ns(const struct kvc_pool *pool, uint64_t timeout_ns, uint64_t len_bytes)
{
	const struct kvc_call call = {.timeout_ns = timeout_ns};
	uint64_t ns;
	if (!pool || kc_pool_alien(pool))
		return 0;
	ns = kv_deadline(kc_pool_time(pool, &call, len_bytes), pool->options.grace_ns);
	return kv_deadline(ns, FENCE_NS + pool->client[0]->info.limbo_max_ns);
}

static uint64_t get(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

static const struct counter {
	const char *name;
	size_t from, to;
	const char *group, *unit;
	enum kvc_stat_kind kind;
	enum kc_merge merge;
} rows[] = {
#define ROW(name, group, unit, kind, merge)                                                                            \
	{#name, offsetof(struct kc_count, name), offsetof(struct kvc_counters, name), group, unit, kind, merge},
	KC_COUNTERS(ROW)
#undef ROW
};

static void counters_add(struct kvc_counters *o, const struct kc_count *c)
{
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		uint64_t value = get((const _Atomic uint64_t *)((const char *)c + rows[i].from));
		uint64_t *sum = (uint64_t *)((char *)o + rows[i].to);
		if (rows[i].merge == KC_SUM)
			*sum += value;
		else if (rows[i].merge == KC_MOST)
			*sum = KV_MAX(*sum, value);
	}
	if (get(&c->view_voters) >= o->view_voters) {
		o->view_voters = get(&c->view_voters);
		o->view_votes = get(&c->view_votes);
	}
	for (unsigned op = 0; op < KVC_OPS; op++)
		for (unsigned i = 0; i < KVC_RESULTS; i++)
			o->results[op][i] += get(&c->results[op][i]);
}

int kvc_counters(struct kvc_pool *pool, struct kvc_counters *out)
{
	struct kvc_counters o = {0};
	if (!pool || !kc_sized(out))
		return -KV_EINVAL;
	if (kc_pool_alien(pool))
		return -KV_ECLOSED;
	for (unsigned i = 0; i < pool->num_clients; i++)
		counters_add(&o, &pool->client[i]->count);
	o.local_leases = get(&pool->home->leases);
	kc_sized_give(out, &o, sizeof(o));
	return 0;
}

/* ---- counters by name ---- */

static const char *const result_groups[] = {"results of GET",      "results of PUT",   "results of EXISTS",
					    "results of DELETE",   "results of TOUCH", "results of PIN",
					    "results of PING",     "results of STAT",  "results of BORROW",
					    "results of REGISTER", "results of CLEAR"};
_Static_assert(KV_COUNT(result_groups) == KVC_OPS, "a group for each operation");

int kvc_counters_items(const struct kvc_counters *c, struct kvc_stat_item *out, unsigned max)
{
	unsigned n = 0;
	if (!c || (!out && max > 0) || c->size != sizeof(*c))
		return -KV_EINVAL;
	for (unsigned i = 0; i < KV_COUNT(rows) && n < max; i++) {
		const struct counter *r = &rows[i];
		const uint64_t *at = (const uint64_t *)((const char *)c + r->to);
		out[n++] = (struct kvc_stat_item){
			.name = r->name, .value = *at, .group = r->group, .unit = r->unit, .kind = r->kind};
	}
	for (unsigned op = 0; op < KVC_OPS; op++)
		for (unsigned i = 0; i < KVC_RESULTS && n < max; i++)
			if (c->results[op][i] > 0)
				out[n++] = (struct kvc_stat_item){.name = kc_result_name(i),
								  .value = c->results[op][i],
								  .group = result_groups[op],
								  .unit = "",
								  .kind = KVC_STAT_COUNTER};
	return (int)n;
}

/* ---- one client ---- */

struct asked {
	unsigned index; /* of the server or rail */
	struct kvc_server_info server;
	struct kvc_rail_info rail;
};

static void links_info(struct kvc_server_info *o, const struct kc_attachment *s)
{
	o->session = s->number;
	o->pull = s->pull;
	o->local = s->local != NULL;
	o->put_way = s->flags & WIRE_WELCOME_INLINE_PUT ? KVC_PUT_INLINE : KVC_PUT_READ;
	if (kc_landings_all(s))
		o->put_way = KVC_PUT_LAND;
	o->shards = s->shards;
	o->links = s->num_links;
	for (uint32_t i = 0; i < s->num_links; i++) {
		const struct kc_link *l = &s->link[i];
		o->links_up += l->up;
		o->credits_granted += s->credits;
		o->credits_in_use += s->credits - l->credits;
		KV_LIST_EACH (n, &l->queue)
			o->queued++;
		KV_LIST_EACH (n, &l->parked)
			o->queued++;
		KV_LIST_EACH (n, &l->sent)
			o->inflight++;
	}
	KV_LIST_EACH (n, &s->node->client->sessions) {
		const struct kc_session_at *at =
			kc_session_part(KV_LIST_ENTRY(n, struct kvc_session, node), s->node->index);
		for (unsigned i = 0; at && at->lane && i < s->shards; i++)
			KV_LIST_EACH (r, &at->lane[i].queue)
				o->queued++;
	}
}

/* Engine counters in kvc_counters are as of the last heartbeat or the last call of this. */
static void engine_count(struct kvc_client *c)
{
	struct te_stats t;
	te_stats(c->te, &t);
	kc_set(&c->count.eagain, t.eagain);
}

_Static_assert((int)KVC_MEMBER_JOINING == KV_MEMBER_JOINING && (int)KVC_MEMBER_UP == KV_MEMBER_UP &&
		       (int)KVC_MEMBER_DRAINING == KV_MEMBER_DRAINING,
	       "the public states are those of the view");

static void member_info(struct kvc_server_info *o, const struct kc_node *n)
{
	const struct kv_member *m =
		n->member_id[0] && !n->retired ? kv_view_find(&n->client->cluster.view, n->member_id) : NULL;
	if (!m)
		return;
	text_copy(o->member, sizeof(o->member), m->node_id);
	text_copy(o->zone, sizeof(o->zone), m->zone);
	o->member_state = kc_place_set_has(&n->client->cluster.draining, n->index) ? KVC_MEMBER_DRAINING
										   : (enum kvc_member_state)m->state;
	o->member_incarnation = m->incarnation;
	o->weight = m->weight;
}

static void view_info(struct kvc_server_info *o, const struct kc_node *n)
{
	const struct kc_vote *b = &n->client->cluster.votes.vote[n->index];
	if (b->until_ns <= loop_now(n->client->loop) || !b->digest)
		return;
	o->view_epoch = b->epoch;
	o->view_digest = (uint64_t)(b->digest >> 64);
}

static int64_t server_ask(struct kvc_client *c, void *arg)
{
	struct asked *a = arg;
	struct kvc_server_info *o = &a->server;
	const struct kc_node *n;
	if (!c->opened || c->closing)
		return -KV_ECLOSED;
	if (a->index >= c->num_nodes)
		return -KV_EINVAL;
	engine_count(c);
	n = kc_alias_node(c, a->index);
	if (a->index >= c->pool->num_servers && n->state == KC_NODE_NEW && !n->joined)
		return -KV_ENOTFOUND; /* the member has left */
	*o = (struct kvc_server_info){0};
	kc_node_info(n, o);
	text_copy(o->name, sizeof(o->name), c->pool->server[a->index].entry.text);
	text_copy(o->node_id, sizeof(o->node_id), n->node_id);
	text_copy(o->why, sizeof(o->why), n->why);
	member_info(o, n);
	view_info(o, n);
	if (n->state == KC_NODE_UP && n->attachment)
		links_info(o, n->attachment);
	return 0;
}

static int64_t rail_ask(struct kvc_client *c, void *arg)
{
	struct asked *a = arg;
	struct kvc_rail_info *o = &a->rail;
	struct te_stats t;
	if (!c->opened || c->closing || !c->te)
		return -KV_ECLOSED;
	engine_count(c);
	te_rail_stats(c->te, a->index, &t);
	*o = (struct kvc_rail_info){.depth = c->info.tx_depth,
				    .inflight = (uint32_t)t.inflight,
				    .sends = t.sends,
				    .receives = t.receives,
				    .writes = t.writes,
				    .reads = t.reads,
				    .immediates = t.immediates,
				    .bytes_written = t.bytes_written,
				    .bytes_read = t.bytes_read,
				    .eagain = t.eagain,
				    .failed = t.failed_ops,
				    .failures = t.rail_failures,
				    .rebuild_failures = t.rebuild_failures,
				    .peer_failures = t.failed_peer,
				    .numa_node = te_rail_numa_node(c->te, a->index),
				    .out = !te_rail_up(c->te, a->index)};
	text_copy(o->device, sizeof(o->device), te_rail_device(c->te, a->index));
	return 0;
}

static int ask(struct kvc_pool *pool, unsigned client, uint64_t wait_ns, int64_t (*fn)(struct kvc_client *c, void *arg),
	       struct asked *a)
{
	struct kvc_client *c = pool->client[client];
	if (kc_pool_alien(pool))
		return -KV_ECLOSED;
	if (loop_current() == c->loop)
		return (int)fn(c, a);
	return (int)kc_block_call(c, KV_MIN(pool->options.timeout_ns, wait_ns), fn, a, NULL);
}

int kvc_server_info_within(struct kvc_pool *pool, unsigned client, unsigned server, uint64_t wait_ns,
			   struct kvc_server_info *out)
{
	struct asked a = {.index = server};
	int rc;
	if (!pool || !kc_sized(out) || client >= pool->num_clients || server >= pool->room)
		return -KV_EINVAL;
	rc = ask(pool, client, KV_MIN(wait_ns, ASK_NS), server_ask, &a);
	if (rc < 0)
		return rc;
	kc_sized_give(out, &a.server, sizeof(a.server));
	return 0;
}

int kvc_server_info(struct kvc_pool *pool, unsigned client, unsigned server, struct kvc_server_info *out)
{
	return kvc_server_info_within(pool, client, server, ASK_NS, out);
}

int kvc_rail_info(struct kvc_pool *pool, unsigned client, unsigned rail, struct kvc_rail_info *out)
{
	struct asked a = {.index = rail};
	int rc;
	if (!pool || !kc_sized(out) || client >= pool->num_clients || rail >= pool->client[client]->info.rails)
		return -KV_EINVAL;
	rc = ask(pool, client, ASK_NS, rail_ask, &a);
	if (rc < 0)
		return rc;
	kc_sized_give(out, &a.rail, sizeof(a.rail));
	return 0;
}
