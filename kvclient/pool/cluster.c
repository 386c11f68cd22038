/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c -- the view of the cluster at a client: what is believed, and how the nodes follow it.
 *
 * A server that is asked while a client attaches (conn/connect.c), or that has news (conn/serve.c), tells its view. The
 * first client of a pool that takes it tells the others. Each believes for itself, on its own loop. So clients of a
 * pool may differ for a moment: they miss then, and never read wrong bytes.
 *
 * When a server that has news is asked is said in core/asking.c. Believed is what is newer, by epoch and, where epochs
 * are equal, by digest; of another source only if no server that answers tells of the present one any more: servers get
 * another source one after the other, and each source has its own epochs. Not believed are a view without members, and
 * one that lacks half of the members that are up here while these answer (draining ones are expected to go). Such a
 * view is kept and looked at again with each heartbeat.
 *
 * A node is of a member's node id and addresses. A member of which no address stays is another node, for the same keys:
 * keys are placed by the id alone. Places in the array of nodes are numbered by the pool's table of servers, under its lock,
 * so that all clients of the pool call a server by the same number.
 *
 *   listed (user's list)  in the view: used.  Not in it: retired, and RESTS; asks for the view if all others are DOWN
 *   joined (by a view)    in the view: used.  Not in it: retired; what is under way ends; goodbye; CLOSED; its place is
 *                         given back once nothing of the client's holds on to it (node_clean)
 *
 * Memory of nodes is the client's array, made once with room for pool->room: a call that still has the pointer of a
 * node that has ended finds a node that is CLOSED. */
#include "kvclient/pool/cluster.h"

#include <stdlib.h>

#include "kvclient/call/repair.h"
#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/serve.h"
#include "kvclient/conn/where.h"
#include "kvclient/logical/opener.h"
#include "kvclient/logical/pins.h"
#include "kvclient/request/lanes.h"

#define LOOK_NS 20000000ull /* with a thousand servers a heartbeat comes each half millisecond */

/* ---- what is believed ---- */

static bool same_source_newer(const struct kv_view *now, uint64_t now_digest, uint64_t epoch, uint64_t digest)
{
	return epoch > now->epoch || (epoch == now->epoch && digest > now_digest);
}

static bool answers(const struct kvc_client *c, const char *node_id)
{
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (!c->node[i].retired && c->node[i].state == KVC_NODE_UP &&
		    strcmp(c->node[i].member_id, node_id) == 0)
			return true;
	return false;
}

/* Servers that are up and tell of the source of the view in force, and those that are just being attached and told that
 * view: while a pool opens, all are, and one that is behind must not undo what another has told. */
static unsigned answering(const struct kvc_client *c)
{
	unsigned count = 0;
	for (unsigned i = 0; i < c->num_nodes; i++) {
		const struct kvc_node *n = &c->node[i];
		bool told = n->state == KVC_NODE_CONNECTING && n->view_told && n->view_told == c->cluster.digest;
		count += !n->retired && n->source_told == c->cluster.view.source && (n->state == KVC_NODE_UP || told);
	}
	return count;
}

static bool newer(const struct kvc_client *c, uint64_t source, uint64_t epoch, uint64_t digest)
{
	const struct kv_view *now = &c->cluster.view;
	if (epoch == 0 || digest == 0 || digest == c->cluster.digest)
		return false;
	if (now->epoch == 0 || (source == now->source && same_source_newer(now, c->cluster.digest, epoch, digest)))
		return true;
	return answering(c) == 0;
}

/* Whether half of the members of the view in force, or more, are not in this one and still answer. */
static bool loses_much(const struct kvc_client *c, const struct kv_view *v)
{
	const struct kv_view *now = &c->cluster.view;
	unsigned lost = 0;
	for (uint32_t i = 0; i < now->count; i++)
		lost += now->member[i].state != KV_MEMBER_DRAINING && !kv_view_find(v, now->member[i].node_id) &&
			answers(c, now->member[i].node_id);
	return now->epoch != 0 && 2 * lost >= now->count && lost > 0;
}

/* ---- nodes ---- */

static int entry_of(const struct kv_member *m, struct kv_server_entry *out)
{
	char text[sizeof(m->node_id) + sizeof(m->address) + 1];
	snprintf(text, sizeof(text), "%s=%s", m->node_id, m->address);
	return kv_server_entry_parse(text, out, NULL);
}

static const struct kv_server_entry *entry_at(const struct kvc_client *c, unsigned i)
{
	return &c->pool->server[i].entry;
}

static bool node_free(const struct kvc_node *n)
{
	return n->index >= n->client->pool->num_servers && n->state == KVC_NODE_NEW && !n->joined;
}

/* Nodes by the addresses of their servers: a view of a thousand members is compared with a thousand nodes at once. */
enum { WHERE_SLOTS = 2 * KV_WHERE_ADDRESSES * KVC_PLACE_MAX };
struct where {
	uint16_t slot[WHERE_SLOTS]; /* 1 + index of a node; 0: none, nor behind it */
};

static unsigned where_slot(const struct kv_hostport *at)
{
	return (unsigned)(kv_hash_key(at->host, strlen(at->host), at->port) % WHERE_SLOTS);
}

static void where_make(const struct kvc_client *c, struct where *w)
{
	struct kv_hostport at;
	for (unsigned i = 0; i < c->num_nodes; i++)
		for (unsigned k = 0; !node_free(&c->node[i]) && kv_where_at(kvc_where_text(&c->node[i]), k, &at); k++) {
			unsigned s = where_slot(&at);
			while (w->slot[s])
				s = (s + 1) % WHERE_SLOTS;
			w->slot[s] = (uint16_t)(i + 1);
		}
}

/* Whether this node is of that member, of which it has an address. */
static bool node_is(struct kvc_client *c, const struct kvc_node *n, const struct kv_server_entry *e)
{
	const struct kv_server_entry *own = entry_at(c, n->index);
	return !(n->ending && n->state != KVC_NODE_CLOSED) && kv_where_shares(kvc_where_text(n), e->where) &&
	       ((!own->named && !n->joined) || strcmp(own->id, e->id) == 0);
}

static unsigned node_rank(const struct kvc_node *n)
{
	return n->index < n->client->pool->num_servers ? 0 : n->retired ? 2 : 1;
}

/* The node of this member: one that is used, or one that was retired and still has its place. A member keeps its node
 * as long as one of its addresses stays; but one of the user's list comes first, whatever this client had before, or
 * two clients would call a server by two numbers. */
static struct kvc_node *node_of(struct kvc_client *c, const struct where *w, const struct kv_server_entry *e)
{
	struct kvc_node *found = NULL;
	struct kv_hostport at;
	for (unsigned k = 0; kv_where_at(e->where, k, &at); k++)
		for (unsigned s = where_slot(&at); w->slot[s]; s = (s + 1) % WHERE_SLOTS) {
			struct kvc_node *n = &c->node[w->slot[s] - 1u];
			if (node_is(c, n, e) && (!found || node_rank(n) < node_rank(found)))
				found = n;
		}
	return found;
}

/* Nothing of the client's holds on to a node that has ended. */
static bool node_clean(const struct kvc_node *n)
{
	const struct kvc_room_share *s = &n->share;
	return n->state == KVC_NODE_CLOSED && !n->attachment &&
	       !(s->reqs | s->imms | s->out | s->waiting | s->background) && !(s->bytes | s->out_bytes) &&
	       !n->sessions.opening && !n->pins.pinners && kv_list_empty(&n->pins.all) &&
	       kv_list_empty(&n->sessions.wanted) && kv_list_empty(&n->sessions.asked) &&
	       kv_list_empty(&n->sessions.partings) && kv_list_empty(&n->sessions.parted) && !n->control.senders;
}

/* ---- where keys were ---- */

/* Whether both place every key alike. (The members of a view are sorted.) */
static bool place_same(const struct kvc_place *a, const struct kvc_place *b)
{
	return a->n == b->n && memcmp(a->seed, b->seed, a->n * sizeof(*a->seed)) == 0 && !a->weight == !b->weight &&
	       (!a->weight || memcmp(a->weight, b->weight, a->n * sizeof(*a->weight)) == 0);
}

static void former_drop(struct kvc_cluster *k)
{
	kvc_place_fini(&k->former[--k->num_former].place);
}

/* The placement in force is about to be replaced by `next`: misses are asked for where it has their keys, for a while.
 * The pool's own list is not kept: most pools used it for nothing but to find the view. (A place that another server
 * gets meanwhile is asked in vain.) */
static void former_keep(struct kvc_client *c, const struct kvc_place *next)
{
	struct kvc_cluster *k = &c->cluster;
	uint64_t settle_ns = c->pool->options.settle_ns;
	if (settle_ns <= 1 || k->view.epoch == 0 || place_same(&k->place, next)) {
		kvc_place_fini(&k->place);
		return;
	}
	if (k->num_former == KVC_FORMER_PLACES)
		former_drop(k);
	memmove(&k->former[1], &k->former[0], k->num_former * sizeof(k->former[0]));
	k->former[0] = (struct kvc_former_place){k->place, kv_deadline(loop_now(c->loop), settle_ns)};
	k->num_former++;
}

/* The oldest are the last, and over first. */
static void former_expire(struct kvc_client *c)
{
	struct kvc_cluster *k = &c->cluster;
	while (k->num_former > 0 && k->former[k->num_former - 1].until_ns <= loop_now(c->loop))
		former_drop(k);
}

/* A server that was restarted has nothing: who stood in for it is asked for a while. */
static void restarted_set(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	uint64_t settle_ns = c->pool->options.settle_ns;
	if (!n->restarted || settle_ns <= 1)
		return;
	n->restarted = false;
	n->settled_ns = kv_deadline(loop_now(c->loop), settle_ns);
	kvc_place_set_put(&c->cluster.restarted, n->index, true);
	kvc_repair_ready(c);
}

static void restarted_expire(struct kvc_client *c)
{
	uint64_t now_ns = loop_now(c->loop);
	for (unsigned i = 0; i < c->num_nodes && c->cluster.restarted.count > 0; i++)
		if (c->node[i].settled_ns <= now_ns)
			kvc_place_set_put(&c->cluster.restarted, i, false);
}

static void places_give(struct kvc_client *c)
{
	for (unsigned i = c->pool->num_servers; i < c->num_nodes && !c->closing; i++) {
		struct kvc_node *n = &c->node[i];
		if (!n->joined || !node_clean(n))
			continue;
		kvc_pool_server_give(c->pool, i);
		memset(n, 0, sizeof(*n));
		kvc_node_init(n, c, i);
		kvc_place_set_put(&c->avoided, i, false);
		kvc_place_set_put(&c->shunned, i, false);
		kvc_place_set_put(&c->cluster.draining, i, false);
		kvc_place_set_put(&c->cluster.joining, i, false);
		kvc_place_set_put(&c->cluster.restarted, i, false);
	}
}

/* A session has a part at every node that is used. */
static void sessions_join(struct kvc_node *n)
{
	KV_LIST_EACH (e, &n->client->sessions) {
		struct kvc_session *s = KV_LIST_ENTRY(e, struct kvc_session, node);
		/* No memory: the first call that needs it there tries again. */
		struct kvc_session_at *at = s->gone ? NULL : kvc_session_part_make(s, n->index);
		if (!at || at->state != KVC_SESSION_NONE)
			continue;
		at->state = KVC_SESSION_WANTED;
		kv_list_add_tail(&n->sessions.wanted, &at->list);
	}
}

void kvc_cluster_node_ended(struct kvc_node *n)
{
	while (!kv_list_empty(&n->sessions.wanted)) {
		struct kvc_session_at *at = KV_LIST_ENTRY(n->sessions.wanted.next, struct kvc_session_at, list);
		kv_list_del(&at->list);
		at->state = KVC_SESSION_NONE;
		kvc_session_changed(at->session);
	}
	KV_LIST_EACH (e, &n->client->sessions) {
		struct kvc_session_at *at = kvc_session_part(KV_LIST_ENTRY(e, struct kvc_session, node), n->index);
		if (at && at->state == KVC_SESSION_REFUSED)
			at->state = KVC_SESSION_NONE;
	}
}

/* ---- a view comes into force ---- */

static bool view_hear(struct kvc_client *c, struct kv_view *v);

/* What a view asks for: the node of each member. `fresh`: taken from the pool's table, not started yet. */
struct plan {
	uint16_t *node;
	bool *fresh;
	struct kvc_place place;
	struct kvc_place_set used; /* nodes that have a member already */
	struct where *where;
};

static void plan_fini(struct kvc_client *c, struct plan *p, uint32_t taken)
{
	for (uint32_t i = 0; p->fresh && i < taken; i++)
		if (p->fresh[i])
			kvc_pool_server_give(c->pool, p->node[i]);
	free(p->fresh);
	p->fresh = NULL;
	free(p->where);
	p->where = NULL;
	kvc_place_fini(&p->place);
}

/* Find the node of member i, or take a place for it. 0, -KV_EFULL, or -KV_EBUSY: the node of that place is ending. */
static int plan_member(struct kvc_client *c, struct plan *p, uint32_t i, const struct kv_member *m)
{
	struct kv_server_entry e;
	const struct kvc_node *n;
	int at = entry_of(m, &e);
	if (at < 0)
		return at;
	p->place.seed[i] = kvc_place_seed(m->node_id);
	n = node_of(c, p->where, &e);
	if (n && !kvc_place_set_put(&p->used, n->index, true))
		return -KV_EINVAL; /* two members at one address */
	at = n ? (int)n->index : kvc_pool_server_take(c->pool, &e);
	if (at < 0)
		return at;
	p->node[i] = (uint16_t)at;
	p->fresh[i] = !n;
	if (n || node_free(&c->node[at]))
		return 0;
	kvc_pool_server_give(c->pool, (unsigned)at);
	p->fresh[i] = false;
	return -KV_EBUSY;
}

static int plan_weigh(struct plan *p, const struct kv_view *v)
{
	uint16_t *weight = calloc(v->count, sizeof(*weight));
	int rc = -KV_ENOMEM;
	for (uint32_t i = 0; weight && i < v->count; i++)
		weight[i] = (uint16_t)v->member[i].weight;
	if (weight)
		rc = kvc_place_weigh(&p->place, weight);
	free(weight);
	return rc;
}

static int plan_make(struct kvc_client *c, const struct kv_view *v, struct plan *p)
{
	int rc = kvc_place_init(&p->place, v->count);
	if (rc < 0)
		return rc;
	p->where = calloc(1, sizeof(*p->where));
	p->node = p->place.node = calloc(v->count, sizeof(*p->node));
	p->fresh = calloc(v->count, sizeof(*p->fresh));
	rc = p->node && p->fresh && p->where ? 0 : -KV_ENOMEM;
	if (rc == 0)
		where_make(c, p->where);
	for (uint32_t i = 0; i < v->count && rc == 0; i++) {
		rc = plan_member(c, p, i, &v->member[i]);
		if (rc < 0)
			plan_fini(c, p, i);
	}
	if (rc == -KV_ENOMEM)
		plan_fini(c, p, 0);
	if (rc == 0 && plan_weigh(p, v) < 0) {
		plan_fini(c, p, v->count);
		rc = -KV_ENOMEM;
	}
	return rc;
}

/* Whether the server drains. Where the view names a process, that one does: a server that was restarted drains no more,
 * though a source that knows no incarnations may say nothing new for long. */
static bool drains(const struct kvc_node *n, const struct kv_member *m)
{
	bool other = n->state == KVC_NODE_UP && m->incarnation && n->incarnation != m->incarnation;
	return m->state == KV_MEMBER_DRAINING && !other;
}

void kvc_cluster_node_up(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	const struct kv_member *m = kv_view_find(&c->cluster.view, n->member_id);
	if (!m || n->retired)
		return;
	for (unsigned i = 0; i < c->pool->num_servers; i++)
		(void)kvc_alias_node(c, i); /* it learns which of them is this one, while it is this process */
	restarted_set(n);
	if (drains(n, m))
		return;
	kvc_place_set_put(&c->cluster.draining, n->index, false);
	kvc_place_set_put(&c->shunned, n->index, false);
}

static void node_use(struct kvc_client *c, unsigned i, const struct kv_member *m, bool fresh)
{
	struct kvc_node *n = &c->node[i];
	bool draining = drains(n, m);
	snprintf(n->member_id, sizeof(n->member_id), "%s", m->node_id);
	snprintf(n->where, sizeof(n->where), "%s", m->address);
	kvc_pool_server_moved(c->pool, i, m->address);
	kvc_place_set_put(&c->cluster.draining, i, draining);
	kvc_place_set_put(&c->cluster.joining, i, m->state == KV_MEMBER_JOINING && c->pool->options.settle_ns > 1);
	if (fresh) {
		c->num_nodes = KV_MAX(c->num_nodes, i + 1);
		n->joined = true;
		n->attempt.first_told = true; /* opening the pool waits for the user's list alone */
		kvc_node_open(n);
	} else if (n->state == KVC_NODE_CLOSED) { /* it comes back before its place was given away */
		n->retired = n->ending = false;
		n->goodbye = KVC_GOODBYE_NONE;
		kvc_node_open(n);
	} else if (n->retired) {
		n->retired = false;
		co_queue_wake_all(&n->kick);
	}
	sessions_join(n);
	kvc_place_set_put(&c->shunned, i, draining || n->state == KVC_NODE_DOWN);
}

/* Another client of the pool has told a view. A client that no server answers does not take it: the first server would
 * undo it, however old its own view is (newer). */
static void on_told(void *arg)
{
	struct kvc_client *c = arg;
	struct kvc_pool *p = c->pool;
	struct kv_view v;
	pthread_mutex_lock(&p->lock);
	c->cluster.posted = false;
	(void)kv_view_copy(&p->view, &v); /* no memory: it is empty, and the servers tell it */
	pthread_mutex_unlock(&p->lock);
	if (c->opened && !c->closing && c->nodes_up > 0)
		(void)view_hear(c, &v);
	kv_view_fini(&v);
	kvc_pool_tell_heard(p);
}

/* Have the other clients look at the view in force. They would hear of it from servers, each in its time, and miss
 * meanwhile what is put where they do not look yet. A client whose loop takes no more does hear of it so. */
static void others_tell(const struct kvc_client *c)
{
	struct kvc_pool *p = c->pool;
	struct kv_view v;
	if (p->num_clients == 1 || kv_view_copy(&c->cluster.view, &v) < 0)
		return;
	pthread_mutex_lock(&p->lock);
	kv_view_fini(&p->view);
	p->view = v;
	for (unsigned i = 0; i < p->num_clients; i++) {
		struct kvc_client *o = p->client[i];
		if (o == c || o->cluster.posted || loop_post(o->loop, on_told, o) < 0)
			continue;
		o->cluster.posted = true;
		p->progress.posts++;
	}
	pthread_mutex_unlock(&p->lock);
}

static void adopt(struct kvc_client *c, struct kv_view *v, struct plan *p)
{
	bool told;
	struct kvc_cluster *k = &c->cluster;
	struct kvc_place_set used = {0};
	for (uint32_t i = 0; i < v->count; i++) {
		kvc_place_set_put(&used, p->node[i], true);
		node_use(c, p->node[i], &v->member[i], p->fresh[i]);
	}
	former_keep(c, &p->place);
	k->place = p->place;
	c->placement = &k->place;
	free(p->fresh);
	free(p->where);
	kv_view_fini(&k->view);
	k->view = *v;
	k->digest = kv_view_digest(v);
	*v = (struct kv_view){0};
	for (unsigned i = 0; i < c->num_nodes; i++) {
		if (kvc_place_set_has(&used, i) || node_free(&c->node[i]) || c->node[i].retired)
			continue;
		kvc_place_set_put(&k->draining, i, false);
		kvc_place_set_put(&k->joining, i, false);
		kvc_place_set_put(&k->restarted, i, false);
		c->node[i].member_id[0] = '\0';
		if (!c->node[i].joined) /* the user's list counts again */
			c->node[i].where[0] = '\0';
		kvc_node_retire(&c->node[i]);
		kvc_pins_leave(&c->node[i]);
	}
	if (k->num_former > 0 || k->draining.count > 0 || k->joining.count > 0)
		kvc_repair_ready(c); /* what is found at former servers is copied */
	k->said = false;
	kvc_asking_over(&k->asking);
	kvc_set(&c->count.view_epoch, k->view.epoch);
	kvc_set(&c->count.members, k->view.count);
	told = atomic_exchange(&c->pool->view_told, k->digest) == k->digest;
	kv_event(kvc_client_log(c), told ? KV_LOG_DEBUG : KV_LOG_INFO,
		 KV_EVENT("cluster", KV_NUMBER("client", c->index), KV_NUMBER("members", k->view.count),
			  KV_NUMBER("epoch", k->view.epoch)),
		 "client %u: the cluster has %u members now, epoch %llu", c->index, k->view.count,
		 (unsigned long long)k->view.epoch);
	if (!told)
		others_tell(c);
}

static void doubt(struct kvc_client *c, struct kv_view *v, const char *why)
{
	struct kvc_cluster *k = &c->cluster;
	if (!k->said && atomic_exchange(&c->pool->view_doubt_told, kv_view_digest(v)) != kv_view_digest(v))
		kv_event(kvc_client_log(c), KV_LOG_WARN,
			 KV_EVENT("view_doubted", KV_NUMBER("client", c->index), KV_NUMBER("members", v->count),
				  KV_NUMBER("epoch", v->epoch), KV_FIELD("reason", why)),
			 "client %u: a view of %u members, epoch %llu, is not taken: %s", c->index, v->count,
			 (unsigned long long)v->epoch, why);
	k->said = true;
	kvc_add(&c->count.views_doubted, &k->doubted != v);
	if (&k->doubted == v)
		return;
	kv_view_fini(&k->doubted);
	k->doubted = *v;
	*v = (struct kv_view){0};
}

/* v is another view than the one in force, and newer. */
static void view_try(struct kvc_client *c, struct kv_view *v)
{
	struct plan p = {0};
	char why[200];
	int rc;
	if (loses_much(c, v)) {
		doubt(c, v, "it lacks half of the servers or more, and they still answer");
		return;
	}
	places_give(c);
	rc = plan_make(c, v, &p);
	if (rc == 0) {
		adopt(c, v, &p);
		return;
	}
	snprintf(why, sizeof(why), "%s", kv_strerror(rc));
	if (rc == -KV_EFULL)
		snprintf(why, sizeof(why),
			 "the pool has room for %u servers, those of its list and those that left "
			 "included; raise kvc_options.servers_max",
			 c->pool->room);
	if (rc == -KV_EINVAL)
		snprintf(why, sizeof(why), "two of its members have one address");
	doubt(c, v, why);
}

/* The view in force was told again under a later epoch: what came in between is old. */
static void confirm(struct kvc_client *c, uint64_t source, uint64_t epoch, uint64_t digest)
{
	struct kv_view *now = &c->cluster.view;
	if (now->epoch == 0 || source != now->source || digest != c->cluster.digest || epoch <= now->epoch)
		return;
	now->epoch = epoch;
	kvc_set(&c->count.view_epoch, epoch);
}

/* False: it is not newer than the one in force. */
static bool view_hear(struct kvc_client *c, struct kv_view *v)
{
	uint64_t digest = kv_view_digest(v);
	confirm(c, v->source, v->epoch, digest);
	if (!newer(c, v->source, v->epoch, digest))
		return false;
	view_try(c, v);
	return true;
}

/* Such a view may be wanted later, and a server tells its news once. */
static bool of_another_source(const struct kvc_client *c, const struct wire_view_news *news)
{
	return news->epoch != 0 && news->source != c->cluster.view.source && news->digest != c->cluster.digest;
}

void kvc_cluster_take(struct kvc_node *n, struct kv_view *v)
{
	struct kvc_client *c = n->client;
	const struct wire_view_news told = {.source = v->source, .epoch = v->epoch, .digest = kv_view_digest(v)};
	n->view_told = told.digest;
	n->source_told = v->source;
	if (!c->closing && !view_hear(c, v) && n->view_told != c->cluster.digest)
		kvc_add(&c->count.views_old, v->epoch != 0);
	if (of_another_source(c, &told))
		n->news = told;
	kv_view_fini(v);
}

/* Whether the server has a view that we want: newer than ours, and not in doubt already. */
static bool wanted(const struct kvc_client *c, const struct wire_view_news *news)
{
	const struct kv_view *d = &c->cluster.doubted;
	bool doubted = d->epoch == news->epoch && d->source == news->source && kv_view_digest(d) == news->digest;
	return !doubted && newer(c, news->source, news->epoch, news->digest);
}

bool kvc_cluster_news(struct kvc_node *n, const struct wire_view_news *news)
{
	struct kvc_client *c = n->client;
	struct kvc_cluster *k = &c->cluster;
	struct {
		uint64_t now_ns, client, node;
	} here = {loop_now(c->loop), c->pool->options.base_client_id + c->index, n->index};
	if (news) {
		n->view_told = news->digest;
		n->source_told = news->source;
		n->news = *news;
		confirm(c, news->source, news->epoch, news->digest);
	}
	if (!wanted(c, &n->news)) {
		if (!of_another_source(c, &n->news))
			n->news.epoch = 0;
		return false;
	}
	/* (No two clients choose alike, nor does one that is simulated twice choose otherwise.) */
	if (!kvc_asking_now(&k->asking, c->nodes_up, here.now_ns, kv_hash_key(&here, sizeof(here), n->news.digest)))
		return false;
	k->asked++;
	return true;
}

void kvc_cluster_look(struct kvc_client *c)
{
	struct kv_view *d = &c->cluster.doubted;
	uint64_t now_ns = loop_turn_now(c->loop);
	if (c->closing || (c->cluster.looked_ns && now_ns - c->cluster.looked_ns < LOOK_NS))
		return;
	c->cluster.looked_ns = now_ns;
	former_expire(c);
	restarted_expire(c);
	places_give(c);
	if (d->epoch && newer(c, d->source, d->epoch, kv_view_digest(d)))
		view_try(c, d);
	else
		kv_view_fini(d);
	for (unsigned i = c->pool->num_servers; i < c->num_nodes; i++)
		if (c->node[i].joined && c->node[i].unstarted)
			kvc_node_open(&c->node[i]);
}

void kvc_cluster_fini(struct kvc_client *c)
{
	while (c->cluster.num_former > 0)
		former_drop(&c->cluster);
	free(c->repairs.ring);
	free(c->seconds.slot);
	kvc_place_fini(&c->cluster.place);
	kv_view_fini(&c->cluster.view);
	kv_view_fini(&c->cluster.doubted);
}
