/* SPDX-License-Identifier: Apache-2.0 */
/* view.c -- the client's view of the cluster, and how its nodes follow it.
 *
 * Servers announce their views as votes (conn/connect.c, conn/serve.c). The client follows the view of more than half
 * of its servers (core/votes.c), fetches it from one (route/view_ask.c), and posts it to the pool's other clients. One
 * view without a majority, or not usable yet, is held.
 *
 * A node belongs to a member's node id and addresses; keys are placed by the id. All clients number nodes by the pool's
 * table of servers, under its lock. Outside the view a node is retired: one of the user's list rests, and asks for the
 * view if all others are DOWN; another one ends, CLOSED, and returns its place after its last use (node_clean). */
#include "kvclient/route/view.h"

#include <stdlib.h>

#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/deletes_owed.h"
#include "kvclient/conn/serve.h"
#include "kvclient/conn/where.h"
#include "kvclient/core/cluster_name.h"
#include "kvclient/logical/node_sessions.h"
#include "kvclient/logical/pins.h"
#include "kvclient/request/lanes.h"
#include "kvclient/route/private.h"
#include "kvclient/route/repair.h"

#define LOOK_NS    20000000ull    /* a thousand servers make a heartbeat each half millisecond */
#define OPENING_NS 1000000000ull  /* after the first answer, pending servers count as votes for nothing */
#define DIFFER_NS  30000000000ull /* time until the log reports differing views */

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

static bool node_free(const struct kc_node *n)
{
	return n->index >= n->client->pool->num_servers && n->state == KC_NODE_NEW && !n->joined;
}

/* Nodes by their servers' addresses, to match a thousand members at once. */
enum { WHERE_SLOTS = 2 * KV_WHERE_ADDRESSES * KC_PLACE_MAX };
struct where {
	uint16_t slot[WHERE_SLOTS]; /* 1 + index of a node; 0 ends a search */
};

static unsigned where_slot(const struct kv_hostport *at)
{
	return (unsigned)(kv_hash_key(at->host, strlen(at->host), at->port) % WHERE_SLOTS);
}

static void where_make(const struct kvc_client *c, struct where *w)
{
	struct kv_hostport at;
	for (unsigned i = 0; i < c->num_nodes; i++)
		for (unsigned k = 0; !node_free(&c->node[i]) && kv_where_at(kc_where_text(&c->node[i]), k, &at); k++) {
			unsigned s = where_slot(&at);
			while (w->slot[s])
				s = (s + 1) % WHERE_SLOTS;
			w->slot[s] = (uint16_t)(i + 1);
		}
}

struct plan {
	uint16_t *node;
	bool *fresh;
	struct kc_place place;
	struct kc_place_set used; /* nodes with a member */
	struct where *where;
};

/* The server, unnamed in the list, said that it is another member at the same address. */
static bool is_another(const struct kc_node *n, const struct kv_server_entry *e, const struct kv_view *v)
{
	const struct kv_member *m =
		n->node_id[0] && strcmp(n->node_id, e->id) != 0 ? kv_view_find(v, n->node_id) : NULL;
	return m && kv_where_shares(m->address, e->where);
}

static bool node_is(struct kvc_client *c, const struct plan *p, const struct kc_node *n,
		    const struct kv_server_entry *e, const struct kv_view *v)
{
	const struct kv_server_entry *own = entry_at(c, n->index);
	if (kc_place_set_has(&p->used, n->index) || (n->ending && n->state != KC_NODE_CLOSED) ||
	    !kv_where_shares(kc_where_text(n), e->where))
		return false;
	return strcmp(own->id, e->id) == 0 || (!own->named && !n->joined && !is_another(n, e, v));
}

static unsigned node_rank(const struct kc_node *n)
{
	if (n->index < n->client->pool->num_servers)
		return 0;
	return n->retired ? 2 : 1;
}

/* The node of this member, used or retired. One of the user's list comes first, so all clients use the same number. */
static struct kc_node *node_of(struct kvc_client *c, const struct plan *p, const struct kv_server_entry *e,
			       const struct kv_view *v)
{
	struct kc_node *found = NULL;
	struct kv_hostport at;
	for (unsigned k = 0; kv_where_at(e->where, k, &at); k++)
		for (unsigned s = where_slot(&at); p->where->slot[s]; s = (s + 1) % WHERE_SLOTS) {
			struct kc_node *n = &c->node[p->where->slot[s] - 1u];
			if (node_is(c, p, n, e, v) && (!found || node_rank(n) < node_rank(found)))
				found = n;
		}
	return found;
}

/* An ended node without users. */
static bool node_clean(const struct kc_node *n)
{
	const struct kc_room_share *s = &n->share;
	return n->state == KC_NODE_CLOSED && !n->attachment &&
	       !(s->reqs | s->imms | s->out | s->waiting | s->background) && !(s->bytes | s->out_bytes) &&
	       !n->sessions.opening && !kc_pins_of(n) && kv_list_empty(&n->sessions.wanted) &&
	       kv_list_empty(&n->sessions.asked) && kv_list_empty(&n->sessions.partings) &&
	       kv_list_empty(&n->sessions.parted) && !n->control.senders;
}

/* ---- former placements ---- */

/* Whether both place every key alike; a view's members are sorted. */
static bool place_same(const struct kc_place *a, const struct kc_place *b)
{
	return a->n == b->n && memcmp(a->seed, b->seed, a->n * sizeof(*a->seed)) == 0 && !a->weight == !b->weight &&
	       (!a->weight || memcmp(a->weight, b->weight, a->n * sizeof(*a->weight)) == 0);
}

static void former_drop(struct kc_cluster *k)
{
	kc_place_fini(&k->own->former[--k->num_former].place);
}

/* Whether the user's list, in any order, places every key like p. */
static bool list_same(const struct kc_place *list, const struct kc_place *p)
{
	unsigned found = 0;
	for (unsigned i = 0; i < list->n && p->n == list->n && !p->weight; i++)
		for (unsigned k = 0; k < p->n; k++)
			found += p->seed[k] == list->seed[i] && p->node[k] == i;
	return found == list->n;
}

static int list_copy(const struct kc_place *list, struct kc_place *out)
{
	int rc = kc_place_init(out, list->n);
	if (rc == 0)
		memcpy(out->seed, list->seed, list->n * sizeof(*list->seed));
	return rc;
}

/* *out: the placement in force, if it was used and `next` differs. The pool's list counts only if servers had no
 * view. */
static bool former_take(struct kvc_client *c, const struct kc_place *next, struct kc_place *out)
{
	struct kc_cluster *k = &c->cluster;
	if (c->pool->options.settle_ns <= 1)
		return false;
	if (k->view.epoch == 0)
		return k->own->listed && !list_same(&c->pool->place, next) && list_copy(&c->pool->place, out) == 0;
	if (place_same(&k->place, next))
		return false;
	*out = k->place;
	k->place = (struct kc_place){0};
	return true;
}

static void carrier(void *arg)
{
	struct kvc_client *c = arg;
	while (!c->closing && kc_carry_step(&c->cluster.own->carry, &c->cluster.place))
		co_yield_await();
	kc_carry_end(&c->cluster.own->carry);
	c->cluster.own->carrying = false;
	kc_client_ended(c);
}

/* Carry notes to `next` in the background; the first client with that placement does it. */
static void notes_carry(struct kvc_client *c, struct kc_place *next)
{
	struct kc_cluster *k = &c->cluster;
	const struct kc_place *now = k->view.epoch == 0 ? &c->pool->place : &k->place;
	kc_carry_end(&k->own->carry);
	if (!kc_notes_share(next, &c->pool->notes))
		kc_carry_begin(&k->own->carry, now, next);
	if (!k->own->carry.from || k->own->carrying || c->closing)
		return;
	if (co_spawn(c->loop, carrier, c, "kvc places") == 0) {
		k->own->carrying = true;
		kc_client_began(c);
	} else {
		kc_carry_end(&k->own->carry);
	}
}

/* Keep the placement in force as a former one for a while. A place reused by another server is asked in vain. */
static void former_keep(struct kvc_client *c, const struct kc_place *next)
{
	struct kc_cluster *k = &c->cluster;
	struct kc_place former = {0};
	bool keep = former_take(c, next, &former);
	kc_place_fini(&k->place);
	if (!keep)
		return;
	if (k->num_former == KC_FORMER_PLACES)
		former_drop(k);
	memmove(&k->own->former[1], &k->own->former[0], k->num_former * sizeof(k->own->former[0]));
	k->own->former[0] =
		(struct kc_former_place){former, kv_deadline(loop_now(c->loop), c->pool->options.settle_ns)};
	k->num_former++;
}

/* The oldest are last, and expire first. */
static void former_expire(struct kvc_client *c)
{
	struct kc_cluster *k = &c->cluster;
	while (k->num_former > 0 && k->own->former[k->num_former - 1].until_ns <= loop_now(c->loop))
		former_drop(k);
}

/* A restarted server is empty: for a while, ask its stand-ins. */
static void restarted_set(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	uint64_t settle_ns = c->pool->options.settle_ns;
	if (!n->restarted || settle_ns <= 1)
		return;
	n->restarted = false;
	n->settled_ns = kv_deadline(loop_now(c->loop), settle_ns);
	kc_place_set_put(&c->cluster.restarted, n->index, true);
	repair_ready(c);
}

static void restarted_expire(struct kvc_client *c)
{
	uint64_t now_ns = loop_now(c->loop);
	for (unsigned i = 0; i < c->num_nodes && c->cluster.restarted.count > 0; i++)
		if (c->node[i].settled_ns <= now_ns)
			kc_place_set_put(&c->cluster.restarted, i, false);
}

static void absent_expire(struct kvc_client *c)
{
	uint64_t now_ns = loop_now(c->loop);
	for (unsigned i = 0; i < c->num_nodes && c->cluster.absent.count > 0; i++)
		if (c->node[i].present_ns <= now_ns)
			kc_place_set_put(&c->cluster.absent, i, false);
}

static void places_give(struct kvc_client *c)
{
	for (unsigned i = c->pool->num_servers; i < c->num_nodes && !c->closing; i++) {
		struct kc_node *n = &c->node[i];
		if (!n->joined || !node_clean(n))
			continue;
		kc_pool_server_give(c->pool, i);
		kc_votes_drop(&c->cluster.votes, i);
		kc_node_renew(n);
		kc_place_set_put(&c->nodes.avoided, i, false);
		kc_place_set_put(&c->nodes.shunned, i, false);
		kc_place_set_put(&c->cluster.draining, i, false);
		kc_place_set_put(&c->cluster.joining, i, false);
		kc_place_set_put(&c->cluster.restarted, i, false);
		kc_place_set_put(&c->cluster.absent, i, false);
	}
}

/* A session has a part at every used node. */
static void sessions_join(struct kc_node *n)
{
	KV_LIST_EACH (e, &n->client->sessions) {
		struct kvc_session *s = KV_LIST_ENTRY(e, struct kvc_session, node);
		/* Without memory, its first call there tries again. */
		struct kc_session_at *at = s->gone ? NULL : kc_session_part_make(s, n->index);
		if (!at || at->state != KC_SESSION_NONE)
			continue;
		at->state = KC_SESSION_WANTED;
		kv_list_add_tail(&n->sessions.wanted, &at->list);
	}
}

void kc_cluster_node_ended(struct kc_node *n)
{
	while (!kv_list_empty(&n->sessions.wanted)) {
		struct kc_session_at *at = KV_LIST_ENTRY(n->sessions.wanted.next, struct kc_session_at, list);
		kv_list_del(&at->list);
		at->state = KC_SESSION_NONE;
		kc_session_changed(at->session);
	}
	KV_LIST_EACH (e, &n->client->sessions) {
		struct kc_session_at *at = kc_session_part(KV_LIST_ENTRY(e, struct kvc_session, node), n->index);
		if (at && at->state == KC_SESSION_REFUSED)
			at->state = KC_SESSION_NONE;
	}
}

/* ---- a view comes into force ---- */

static void plan_fini(struct kvc_client *c, struct plan *p, uint32_t taken)
{
	for (uint32_t i = 0; p->fresh && i < taken; i++)
		if (p->fresh[i])
			kc_pool_server_give(c->pool, p->node[i]);
	free(p->fresh);
	p->fresh = NULL;
	free(p->where);
	p->where = NULL;
	kc_place_fini(&p->place);
}

/* Find the node of member i, or take a place. Two members at one address have two nodes; the one that the server is not
 * will be DOWN. 0, -KV_EFULL, or -KV_EBUSY: the place's node is ending. */
static int plan_member(struct kvc_client *c, struct plan *p, uint32_t i, const struct kv_view *v)
{
	const struct kv_member *m = &v->member[i];
	struct kv_server_entry e;
	const struct kc_node *n;
	int at = entry_of(m, &e);
	if (at < 0)
		return at;
	p->place.seed[i] = kc_place_seed(m->node_id);
	n = node_of(c, p, &e, v);
	if (n)
		kc_place_set_put(&p->used, n->index, true);
	at = n ? (int)n->index : kc_pool_server_take(c->pool, &e);
	if (at < 0)
		return at;
	p->node[i] = (uint16_t)at;
	p->fresh[i] = !n;
	if (n || node_free(&c->node[at]))
		return 0;
	kc_pool_server_give(c->pool, (unsigned)at);
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
		rc = kc_place_weigh(&p->place, weight);
	free(weight);
	return rc;
}

static int plan_make(struct kvc_client *c, const struct kv_view *v, struct plan *p)
{
	int rc = kc_place_init(&p->place, v->count);
	if (rc < 0)
		return rc;
	p->where = calloc(1, sizeof(*p->where));
	p->node = p->place.node = calloc(v->count, sizeof(*p->node));
	p->fresh = calloc(v->count, sizeof(*p->fresh));
	rc = p->node && p->fresh && p->where ? 0 : -KV_ENOMEM;
	if (rc == 0)
		where_make(c, p->where);
	for (uint32_t i = 0; i < v->count && rc == 0; i++) {
		rc = plan_member(c, p, i, v);
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

/* Whether the server drains, by itself or by the view. A view that names another incarnation is stale: a restarted
 * server drains no more. */
static bool drains(const struct kc_node *n, const struct kv_member *m)
{
	bool other = n->state == KC_NODE_UP && m && m->incarnation && n->incarnation != m->incarnation;
	return n->drains || (m && m->state == KV_MEMBER_DRAINING && !other);
}

static void drains_set(struct kc_node *n, const struct kv_member *m)
{
	struct kvc_client *c = n->client;
	bool draining = drains(n, m);
	if (kc_place_set_put(&c->cluster.draining, n->index, draining) && draining) {
		repair_ready(c);
		kc_owed_view(c); /* it may have pushed a value just before its DELETE */
	}
	kc_node_shun(n, draining || n->state == KC_NODE_DOWN);
}

void kc_cluster_node_up(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	const struct kv_member *m = kv_view_find(&c->cluster.view, n->member_id);
	c->cluster.own->listed |= c->cluster.view.epoch == 0;
	if (n->retired)
		return;
	if (m) {
		for (unsigned i = 0; i < c->pool->num_servers; i++)
			(void)kc_alias_node(c, i); /* learns this process's entry before a restart */
		restarted_set(n);
	}
	drains_set(n, m);
}

static void node_use(struct kvc_client *c, unsigned i, const struct kv_member *m, bool fresh)
{
	struct kc_node *n = &c->node[i];
	snprintf(n->member_id, sizeof(n->member_id), "%s", m->node_id);
	snprintf(n->where, sizeof(n->where), "%s", m->address);
	kc_pool_server_moved(c->pool, i, m->address);
	kc_place_set_put(&c->cluster.joining, i, m->state == KV_MEMBER_JOINING && c->pool->options.settle_ns > 1);
	if (fresh) {
		c->num_nodes = KV_MAX(c->num_nodes, i + 1);
		n->joined = true;
		kc_node_open(n);
	} else if (n->state == KC_NODE_CLOSED) { /* it returns before its place was given away */
		n->retired = n->ending = false;
		n->goodbye = KC_GOODBYE_NONE;
		kc_node_open(n);
	} else if (n->retired) {
		n->retired = false;
		co_queue_wake_all(&n->kick);
	}
	sessions_join(n);
	drains_set(n, m);
}

/* Post the view to the other clients; from servers they would hear it at different times, and miss in between. */
static void view_posted(void *arg);

static void others_tell(const struct kvc_client *c)
{
	struct kvc_pool *p = c->pool;
	struct kv_view v;
	if (p->num_clients == 1 || kv_view_copy(&c->cluster.view, &v) < 0)
		return;
	pthread_mutex_lock(&p->lock);
	kv_view_fini(&p->views.posted);
	p->views.posted = v;
	p->views.posted_digest = c->cluster.digest;
	for (unsigned i = 0; i < p->num_clients; i++) {
		struct kvc_client *o = p->client[i];
		if (o == c || o->cluster.posted || loop_post(o->loop, view_posted, o) < 0)
			continue;
		o->cluster.posted = true;
		p->progress.posts++;
	}
	pthread_mutex_unlock(&p->lock);
}

static void digest_set(struct kvc_client *c, const struct kc_choice *choice)
{
	struct kc_cluster *k = &c->cluster;
	k->view.source = choice->source;
	k->view.epoch = choice->epoch;
	k->digest = choice->digest;
	kc_set(&c->count.view_epoch, k->view.epoch);
	kc_set(&c->count.members, k->view.count);
}

static void adopt_log(struct kvc_client *c, const struct kc_choice *choice, uint64_t former_epoch, bool told)
{
	const struct kv_view *v = &c->cluster.view;
	if (choice->reset && former_epoch)
		kv_event(kc_client_log(c), told ? KV_LOG_DEBUG : KV_LOG_INFO,
			 KV_EVENT("view_reset", KV_NUMBER("client", c->index), KV_NUMBER("epoch", v->epoch),
				  KV_NUMBER("former_epoch", former_epoch), KV_NUMBER("votes", choice->votes),
				  KV_NUMBER("voters", choice->voters)),
			 "client %u: the epochs of views began anew: epoch %llu "
			 "replaces %llu, because %u of %u servers announce it",
			 c->index, (unsigned long long)v->epoch, (unsigned long long)former_epoch, choice->votes,
			 choice->voters);
	kv_event(kc_client_log(c), told ? KV_LOG_DEBUG : KV_LOG_INFO,
		 KV_EVENT("cluster", KV_NUMBER("client", c->index), KV_NUMBER("members", v->count),
			  KV_NUMBER("epoch", v->epoch)),
		 "client %u: the cluster has %u members now, epoch %llu", c->index, v->count,
		 (unsigned long long)v->epoch);
}

static void nodes_retire(struct kvc_client *c, const struct kc_place_set *used)
{
	struct kc_cluster *k = &c->cluster;
	for (unsigned i = 0; i < c->num_nodes; i++) {
		if (kc_place_set_has(used, i) || node_free(&c->node[i]) || c->node[i].retired)
			continue;
		kc_place_set_put(&k->draining, i, false);
		kc_place_set_put(&k->joining, i, false);
		kc_place_set_put(&k->restarted, i, false);
		c->node[i].member_id[0] = '\0';
		if (!c->node[i].joined) /* the user's list counts again */
			c->node[i].where[0] = '\0';
		kc_node_retire(&c->node[i]);
		kc_pins_leave(&c->node[i]);
	}
}

/* Whether a member of the view in force is not in the next one. At first this is unknown. */
static bool some_leave(const struct kv_view *from, const struct kv_view *to)
{
	bool leave = from->epoch == 0;
	for (uint32_t i = 0; i < from->count && !leave; i++)
		leave = !kv_view_find(to, from->member[i].node_id);
	return leave;
}

static void adopt(struct kvc_client *c, struct kv_view *v, const struct kc_choice *choice, struct plan *p)
{
	bool told, first = c->cluster.view.epoch == 0;
	uint64_t former_epoch = c->cluster.view.epoch;
	struct kc_cluster *k = &c->cluster;
	struct kc_place_set used = {0};
	for (uint32_t i = 0; i < v->count; i++) {
		kc_place_set_put(&used, p->node[i], true);
		node_use(c, p->node[i], &v->member[i], p->fresh[i]);
	}
	notes_carry(c, &p->place);
	former_keep(c, &p->place);
	k->place = p->place;
	c->placement = &k->place;
	if (some_leave(&k->view, v))
		k->left_ns = loop_now(c->loop);
	free(p->fresh);
	free(p->where);
	kv_view_fini(&k->view);
	k->view = *v;
	*v = (struct kv_view){0};
	digest_set(c, choice);
	nodes_retire(c, &used);
	kc_pins_follow(c);
	if (k->num_former > 0 || k->draining.count > 0 || k->joining.count > 0)
		repair_ready(c); /* copy values found at former servers */
	k->own->said = false;
	kc_votes_adopted(&k->votes, choice, loop_now(c->loop));
	kc_asking_over(&k->own->asking);
	kc_add(&c->count.view_resets, choice->reset && !first);
	kc_owed_view(c);
	told = atomic_exchange(&c->pool->views.logged, (uint64_t)k->digest) == (uint64_t)k->digest;
	adopt_log(c, choice, former_epoch, told);
	for (unsigned i = 0; i < c->num_nodes && first; i++)
		co_queue_wake_all(&c->node[i].kick); /* they wait for it (kc_cluster_waits) */
	if (!told && !choice->reset)
		others_tell(c);
}

static void doubt(struct kvc_client *c, const struct kv_view *v, const char *why)
{
	struct kc_cluster *k = &c->cluster;
	const uint64_t digest = (uint64_t)k->held_digest;
	if (!k->own->said && atomic_exchange(&c->pool->views.doubt_logged, digest) != digest)
		kv_event(kc_client_log(c), KV_LOG_WARN,
			 KV_EVENT("view_doubted", KV_NUMBER("client", c->index), KV_NUMBER("members", v->count),
				  KV_NUMBER("epoch", v->epoch), KV_FIELD("reason", why)),
			 "client %u: a view of %u members, epoch %llu, is rejected: %s", c->index, v->count,
			 (unsigned long long)v->epoch, why);
	kc_add(&c->count.views_doubted, !k->own->said);
	k->own->said = true;
}

static void held_try(struct kvc_client *c, const struct kc_choice *choice)
{
	struct kv_view *v = &c->cluster.own->held;
	struct plan p = {0};
	char why[200];
	int rc;
	places_give(c);
	rc = plan_make(c, v, &p);
	if (rc == 0) {
		c->cluster.held_digest = 0;
		adopt(c, v, choice, &p);
		return;
	}
	snprintf(why, sizeof(why), "%s", kv_strerror(rc));
	if (rc == -KV_EFULL)
		snprintf(why, sizeof(why),
			 "the pool has room for %u servers, including those of its list "
			 "and former ones; raise kvc_options.servers_max",
			 c->pool->room);
	doubt(c, v, why);
}

static void held_drop(struct kc_cluster *k)
{
	kv_view_fini(&k->own->held);
	k->held_digest = 0;
	k->own->said = false;
}

/* ---- votes ---- */

static bool list_named(const struct kvc_client *c)
{
	for (unsigned i = 0; i < c->pool->num_servers; i++)
		if (entry_at(c, i)->named)
			return true;
	return false;
}

/* No server of the view in force is up, or connecting; without a view, the list alone cannot be used, since servers
 * have other names. */
static bool is_alone(const struct kvc_client *c)
{
	if (c->cluster.view.epoch == 0)
		return c->nodes.up == 0 && !list_named(c);
	for (unsigned i = 0; i < c->num_nodes && c->nodes.up == 0; i++)
		if (!c->node[i].retired && c->node[i].state == KC_NODE_CONNECTING)
			return false;
	return c->nodes.up == 0;
}

/* Servers without a vote that may answer soon. At opening a server that failed once is not awaited; after a loss of
 * all, each counts. */
static unsigned pending(const struct kvc_client *c, uint64_t now_ns)
{
	unsigned count = 0;
	for (unsigned i = 0; i < c->num_nodes; i++) {
		const struct kc_node *n = &c->node[i];
		bool tries = n->state == KC_NODE_CONNECTING || (n->state == KC_NODE_DOWN && c->cluster.view.epoch);
		count += tries && !n->retired && c->cluster.votes.vote[i].until_ns <= now_ns;
	}
	return count;
}

/* Log once when servers do not announce the view in force, and when they agree again. */
static void differ_log(struct kvc_client *c, const struct kc_choice *count, uint64_t now_ns)
{
	struct kc_cluster *k = &c->cluster;
	unsigned differ = count->voters - KV_MIN(count->present, count->voters);
	if (differ == 0 || k->view.epoch == 0) {
		k->own->differ_ns = 0;
		if (k->own->differ_said && atomic_exchange(&c->pool->views.differ, false))
			kv_event(kc_client_log(c), KV_LOG_INFO,
				 KV_EVENT("views_agree", KV_NUMBER("client", c->index),
					  KV_NUMBER("servers", count->voters)),
				 "client %u: all servers announce one view again", c->index);
		k->own->differ_said = false;
		return;
	}
	k->own->differ_ns = k->own->differ_ns ? k->own->differ_ns : now_ns;
	if (k->own->differ_said || now_ns - k->own->differ_ns < DIFFER_NS)
		return;
	k->own->differ_said = true;
	if (!atomic_exchange(&c->pool->views.differ, true))
		kv_event(kc_client_log(c), KV_LOG_WARN,
			 KV_EVENT("views_differ", KV_NUMBER("client", c->index), KV_NUMBER("servers", count->voters),
				  KV_NUMBER("differ", differ), KV_NUMBER("epoch", k->view.epoch)),
			 "client %u: %u of %u servers do not announce the view in "
			 "force (epoch %llu): compare their --members",
			 c->index, differ, count->voters, (unsigned long long)k->view.epoch);
}

static void votes_look(struct kvc_client *c)
{
	struct kc_cluster *k = &c->cluster;
	struct kc_votes_now now = {
		.source = k->view.source, .epoch = k->view.epoch, .digest = k->digest, .now_ns = loop_now(c->loop)};
	struct kc_choice choice;
	bool opening = now.now_ns < k->own->opening_ns;
	if (c->closing || !k->votes.vote)
		return;
	k->own->reached &= c->nodes.up == 0; /* after a loss of all, the next answer is a first one */
	now.pending = opening ? pending(c, now.now_ns) : 0;
	now.alone = (!opening || (k->view.epoch == 0 && now.pending == 0)) && is_alone(c);
	kc_votes_decide(&k->votes, &now, &choice);
	kc_set(&c->count.view_votes, choice.present);
	kc_set(&c->count.view_voters, choice.voters);
	if (choice.digest != k->own->wanted.digest)
		kc_asking_over(&k->own->asking);
	k->own->wanted = choice;
	if (choice.digest && choice.digest == k->digest) { /* same members, new numbers */
		digest_set(c, &choice);
		k->votes.differ_ns = 0; /* a majority announces the view in force */
	} else if (choice.digest && choice.digest == k->held_digest) {
		held_try(c, &choice);
	}
	differ_log(c, &choice, now.now_ns);
}

static void cast(struct kc_node *n, uint64_t source, uint64_t epoch, kv_u128 digest, bool draining)
{
	struct kvc_client *c = n->client;
	struct kc_cluster *k = &c->cluster;
	if (!k->own->reached && c->nodes.up == 0)
		k->own->opening_ns = loop_now(c->loop) + OPENING_NS;
	k->own->reached = true;
	kc_votes_cast(&k->votes, n->index, source, epoch, digest);
	if (n->drains != draining) {
		n->drains = draining;
		if (!n->retired) {
			drains_set(n, kv_view_find(&k->view, n->member_id));
			kc_pins_follow(c);
		}
	}
}

/* Only a client's first view depends on this vote. */
static void own_note(struct kc_node *n, const struct kv_view *v, kv_u128 digest)
{
	struct kc_cluster *k = &n->client->cluster;
	if (!v && digest == k->held_digest)
		v = &k->own->held;
	if (k->view.epoch == 0 && v && digest && n->node_id[0] && kv_view_find(v, n->node_id))
		kc_votes_own(&k->votes, n->index);
}

/* Hold the view, if it has more votes than the held one. */
static void hold(struct kvc_client *c, struct kv_view *v, kv_u128 digest)
{
	struct kc_cluster *k = &c->cluster;
	uint64_t now_ns = loop_now(c->loop);
	bool taken = digest == k->digest || digest == k->held_digest || digest == 0;
	if (taken || (k->held_digest &&
		      kc_votes_for(&k->votes, k->held_digest, now_ns) > kc_votes_for(&k->votes, digest, now_ns)))
		return;
	held_drop(k);
	k->own->held = *v;
	k->held_digest = digest;
	*v = (struct kv_view){0};
}

void kc_cluster_take(struct kc_node *n, struct kv_view *v, bool draining)
{
	struct kvc_client *c = n->client;
	kv_u128 digest = kv_view_digest(v);
	uint64_t epoch = v->epoch;
	cast(n, v->source, epoch, digest, draining);
	own_note(n, v, digest);
	hold(c, v, digest);
	votes_look(c);
	kc_add(&c->count.views_old, !c->closing && epoch && digest && digest != c->cluster.digest);
	kv_view_fini(v);
}

void kc_cluster_announced(struct kc_node *n, const struct wire_view_news *news)
{
	cast(n, news->source, news->epoch, news->digest, news->draining);
	own_note(n, NULL, news->digest);
	votes_look(n->client);
}

bool kc_cluster_asks(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	struct kc_cluster *k = &c->cluster;
	struct {
		uint64_t now_ns, client, node;
	} here = {loop_now(c->loop), c->pool->options.base_client_id + c->index, n->index};
	kv_u128 wanted = k->own->wanted.digest;
	if (!wanted || wanted == k->digest || wanted == k->held_digest || k->votes.vote[n->index].digest != wanted)
		return false;
	/* Clients choose differently, and a repeated simulation alike. */
	if (!kc_asking_now(&k->own->asking, k->own->wanted.votes, here.now_ns,
			   kv_hash_key(&here, sizeof(here), (uint64_t)wanted)))
		return false;
	k->own->asked++;
	return true;
}

bool kc_cluster_waits(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	struct kc_cluster *k = &c->cluster;
	uint64_t now_ns = loop_now(c->loop);
	votes_look(c);
	if (k->view.epoch || now_ns >= k->own->opening_ns || !k->votes.vote[n->index].digest)
		return false;
	if (k->own->wanted.digest) /* another server is asked */
		return k->votes.vote[n->index].digest != k->own->wanted.digest ||
		       (k->own->asking.asked_ns && now_ns - k->own->asking.asked_ns < KC_ASK_PATIENCE_NS);
	return pending(c, now_ns) > 0;
}

/* Follow another client's majority only if the numbers show a newer view: then this client's servers cannot revert it,
 * and clients do not alternate. */
static void view_posted(void *arg)
{
	struct kvc_client *c = arg;
	struct kvc_pool *p = c->pool;
	struct kc_cluster *k = &c->cluster;
	struct kc_choice choice = {0};
	struct kv_view v;
	bool newer;
	pthread_mutex_lock(&p->lock);
	k->posted = false;
	choice.digest = kv_view_copy(&p->views.posted, &v) == 0 ? p->views.posted_digest
								: 0; /* no memory: wait for the servers */
	pthread_mutex_unlock(&p->lock);
	choice.source = v.source;
	choice.epoch = v.epoch;
	newer = k->view.epoch == 0 || (v.source == k->view.source && v.epoch > k->view.epoch);
	if (c->opened && !c->closing && c->nodes.up > 0 && newer && choice.digest && choice.digest != k->digest) {
		held_drop(k);
		k->own->held = v;
		k->held_digest = choice.digest;
		v = (struct kv_view){0};
		held_try(c, &choice);
	}
	kv_view_fini(&v);
	kc_pool_tell_heard(p);
}

/* The pool has a new cluster name: leave servers of other clusters. */
static void naming_follow(struct kvc_client *c)
{
	uint32_t number = kc_cluster_name_number(c->pool);
	char name[KV_NAME_MAX];
	if (number == c->cluster.own->naming_number)
		return;
	c->cluster.own->naming_number = number;
	pthread_mutex_lock(&c->pool->lock);
	memcpy(name, c->pool->naming.cluster, sizeof(name));
	pthread_mutex_unlock(&c->pool->lock);
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (c->node[i].attachment && c->node[i].cluster[0] && strcmp(c->node[i].cluster, name) != 0)
			kc_node_redial(&c->node[i], "it is of another cluster than most servers");
}

void kc_cluster_look(struct kvc_client *c)
{
	uint64_t now_ns = loop_turn_now(c->loop);
	if (c->closing || (c->cluster.own->looked_ns && now_ns - c->cluster.own->looked_ns < LOOK_NS))
		return;
	c->cluster.own->looked_ns = now_ns;
	former_expire(c);
	restarted_expire(c);
	absent_expire(c);
	places_give(c);
	naming_follow(c);
	votes_look(c);
	for (unsigned i = c->pool->num_servers; i < c->num_nodes; i++)
		if (c->node[i].joined && c->node[i].unstarted)
			kc_node_open(&c->node[i]);
}

int kc_cluster_init(struct kvc_client *c)
{
	c->cluster.own = calloc(1, sizeof(*c->cluster.own));
	return c->cluster.own ? kc_votes_init(&c->cluster.votes, c->pool->room) : -KV_ENOMEM;
}

void kc_cluster_fini(struct kvc_client *c)
{
	struct kc_cluster *k = &c->cluster;
	if (!k->own)
		return;
	while (k->num_former > 0)
		former_drop(k);
	kc_carry_end(&k->own->carry);
	kc_place_fini(&k->place);
	kv_view_fini(&k->view);
	kv_view_fini(&k->own->held);
	kc_votes_fini(&k->votes);
	free(k->own);
	k->own = NULL;
}
