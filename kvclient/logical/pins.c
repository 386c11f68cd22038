/* SPDX-License-Identifier: Apache-2.0 */
/* pins.c -- pins outlive attachments. A server keeps a pin in a session, so each fence and network fault ends it. The
 * client remembers its sessions' pins and pins them again in each new attachment, PINNERS requests at a time. A value
 * gone by then is reported by the callback pin_lost, the counter pins_lost, and one log line per attachment. A pin is
 * remembered before its first request, so that a new attachment cannot miss it (pinning twice is harmless). It is
 * `held` once a call has succeeded, and `busy` while it is pinned again or moved; unpinning then waits: the fabric may
 * reorder requests, and the pin would stay forever. A pin follows its key. After a view change or a server's return all
 * pins are checked in the background (copies/pin_move.c): made at the new server, then dropped at the old one, so GET
 * always finds one. Pins that cannot be moved while clients ask former servers are lost. */
#include "kvclient/logical/pins.h"

#include <errno.h>
#include <stdlib.h>

#include "kvclient/core/waits.h"
#include "kvclient/logical/private.h"

enum { BUCKETS = 1024, PINNERS = 8, MOVES_MAX = 5 };

#define LATER_NS 1000000000ull

struct kc_pin {
	struct kv_list bucket; /* of the client */
	struct kv_list node;   /* of the node */
	struct kc_node *at;    /* its server */
	struct kv_list of_sub;
	struct kv_list look;
	struct kvc_session *session; /* NULL: the client's own session */
	uint64_t attaches;           /* attachment it was made in */
	unsigned calls;              /* calls about to pin it */
	bool held, busy;
	int missed;        /* code of a failed repeat during a call that pins it; else 0 */
	unsigned moves;    /* failed attempts to move it */
	uint64_t until_ns; /* when a pin that cannot be moved is lost */
	uint16_t len;
	uint8_t key[];
};

int kc_pins_init(struct kvc_client *c)
{
	c->pins = calloc(1, sizeof(*c->pins) + c->pool->room * sizeof(c->pins->of[0]));
	if (!c->pins)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < c->pool->room; i++) {
		c->node[i].pins = &c->pins->of[i];
		kv_list_init(&c->pins->of[i].all);
	}
	co_queue_init(&c->pins->changed);
	kv_list_init(&c->pins->rest);
	kv_list_init(&c->pins->todo);
	kv_list_init(&c->pins->late);
	return 0;
}

bool kc_pins_any(const struct kvc_client *c)
{
	return c->pins->bucket != NULL;
}

bool kc_pins_of(const struct kc_node *n)
{
	return n->pins->pinners || !kv_list_empty(&n->pins->all);
}

static void pin_free(struct kc_pin *p)
{
	KV_ASSERT(!p->busy && p->calls == 0); /* rule 31 */
	kv_list_del(&p->bucket);
	kv_list_del(&p->node);
	kv_list_del(&p->of_sub);
	kv_list_del(&p->look);
	free(p);
}

static void pin_settle(struct kc_pin *p)
{
	if (!p->held && !p->calls && !p->busy)
		pin_free(p);
}

void kc_pins_fini(struct kvc_client *c)
{
	for (unsigned i = 0; c->pins && c->pins->bucket && i < BUCKETS; i++)
		while (!kv_list_empty(&c->pins->bucket[i]))
			pin_free(KV_LIST_ENTRY(c->pins->bucket[i].next, struct kc_pin, bucket));
	if (c->pins)
		free(c->pins->bucket);
	free(c->pins);
	c->pins = NULL;
}

static struct kv_list *bucket_of(const struct kvc_client *c, struct kvc_key key)
{
	return &c->pins->bucket[kv_hash_key(key.data, key.len, 0) % BUCKETS];
}

static bool is_of(const struct kc_pin *p, struct kvc_key key)
{
	return p->len == key.len && memcmp(p->key, key.data, key.len) == 0;
}

static struct kc_pin *pin_find(const struct kvc_client *c, const struct kvc_session *session, struct kvc_key key,
			       const struct kc_node *at)
{
	if (!c->pins->bucket)
		return NULL;
	KV_LIST_EACH (e, bucket_of(c, key)) {
		struct kc_pin *p = KV_LIST_ENTRY(e, struct kc_pin, bucket);
		if (p->session == session && (at ? p->at == at : p->held || p->busy) && is_of(p, key))
			return p;
	}
	return NULL;
}

struct kc_pin *kc_pin_held(struct kc_node *n, struct kvc_session *session, struct kvc_key key)
{
	struct kc_pin *p = pin_find(n->client, session, key, n);
	return p && p->held ? p : NULL;
}

struct kc_node *kc_pin_elsewhere(const struct kvc_client *c, struct kvc_key key, const struct kc_place_set *without)
{
	if (!c->pins->bucket)
		return NULL;
	KV_LIST_EACH (e, bucket_of(c, key)) {
		const struct kc_pin *p = KV_LIST_ENTRY(e, const struct kc_pin, bucket);
		if (p->held && !kc_place_set_has(without, p->at->index) && is_of(p, key))
			return p->at;
	}
	return NULL;
}

static int buckets_make(struct kvc_client *c)
{
	c->pins->bucket = malloc(BUCKETS * sizeof(c->pins->bucket[0]));
	if (!c->pins->bucket)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < BUCKETS; i++)
		kv_list_init(&c->pins->bucket[i]);
	return 0;
}

static struct kc_pin *pin_make(struct kc_node *n, struct kvc_session *session, struct kvc_key key)
{
	struct kc_pin *p;
	if (!n->client->pins->bucket && buckets_make(n->client) < 0)
		return NULL;
	p = calloc(1, sizeof(*p) + key.len);
	if (!p)
		return NULL;
	p->session = session;
	p->at = n;
	p->attaches = n->attaches;
	p->len = (uint16_t)key.len;
	memcpy(p->key, key.data, key.len);
	kv_list_init(&p->of_sub);
	kv_list_add_tail(bucket_of(n->client, key), &p->bucket);
	kv_list_add_tail(&n->pins->all, &p->node);
	kv_list_add_tail(&n->client->pins->rest, &p->look);
	if (session)
		kv_list_add_tail(&session->pins, &p->of_sub);
	return p;
}

/* Another pin of the value, at another server that was away or stood in. */
static bool held_elsewhere(const struct kc_pin *p)
{
	KV_LIST_EACH (e, bucket_of(p->at->client, (struct kvc_key){p->key, p->len})) {
		const struct kc_pin *o = KV_LIST_ENTRY(e, const struct kc_pin, bucket);
		if (o != p && o->held && o->session == p->session && is_of(o, (struct kvc_key){p->key, p->len}))
			return true;
	}
	return false;
}

static void pin_lose(struct kc_node *n, struct kc_pin *p, int rc)
{
	const struct kvc_options *o = &n->client->pool->options;
	p->held = false;
	if (held_elsewhere(p))
		return;
	n->pins->lost++;
	n->pins->lost_rc = rc;
	kc_add(&n->client->count.pins_lost, 1);
	if (o->pin_lost)
		o->pin_lost(o->pin_lost_arg, n->client, p->key, p->len, p->session);
}

static const char *lost_why(int rc)
{
	if (rc == -KV_ENOTFOUND)
		return "the value was evicted or deleted while there was no connection, or the server was restarted";
	return rc == -KV_ELEFT ? "the server is no member of the cluster any more" : kv_strerror(rc);
}

static void told(struct kc_node *n)
{
	const struct kvc_client *c = n->client;
	const char *name = kc_node_name(n);
	if (n->pins->pinners > 0)
		return;
	if (n->pins->lost)
		kv_event(kc_client_log(c), KV_LOG_WARN,
			 KV_EVENT("pins_lost", KV_NUMBER("client", c->index), KV_FIELD("server", name),
				  KV_NUMBER("lost", n->pins->lost), KV_NUMBER("again", n->pins->again)),
			 "client %u, server %s: %llu pins are lost and %llu were made again; "
			 "why the last one is lost: %s",
			 c->index, name, (unsigned long long)n->pins->lost, (unsigned long long)n->pins->again,
			 lost_why(n->pins->lost_rc));
	else if (n->pins->again)
		kv_event(kc_client_log(c), KV_LOG_INFO,
			 KV_EVENT("pins_again", KV_NUMBER("client", c->index), KV_FIELD("server", name),
				  KV_NUMBER("again", n->pins->again)),
			 "client %u, server %s: %llu pins were made again", c->index, name,
			 (unsigned long long)n->pins->again);
	n->pins->again = n->pins->lost = 0;
}

/* ---- for calls ---- */

int kc_pin_begin(struct kc_node *n, struct kvc_session *session, struct kvc_key key, struct kc_pin **out)
{
	struct kc_pin *p = pin_find(n->client, session, key, n);
	if (!p)
		p = pin_make(n, session, key);
	if (!p)
		return -KV_ENOMEM;
	p->missed = 0; /* this call replaces the earlier loss */
	p->calls++;
	*out = p;
	return 0;
}

void kc_pin_end(struct kc_node *n, struct kc_pin *p, int rc)
{
	p->calls--;
	p->held |= rc == 0;
	if (n->retired)
		p->missed = -KV_ELEFT;
	if (rc == 0 && p->missed) {
		pin_lose(n, p, p->missed);
		told(n);
	}
	if (p->calls == 0)
		p->missed = 0;
	pin_settle(p);
}

int kc_pin_drop_await(struct kvc_client *c, struct kvc_session *session, struct kvc_key key, uint64_t deadline_ns,
		      struct kc_node **out)
{
	struct kc_pin *p;
	int rc;
	while ((p = pin_find(c, session, key, NULL)) && p->busy)
		if ((rc = kc_wait_queue_await(c, &c->pins->changed, deadline_ns)) < 0)
			return rc;
	if (!p)
		return 0;
	*out = p->at;
	p->held = false;
	pin_settle(p);
	return 1;
}

void kc_pins_deleted(struct kc_node *n, struct kvc_key key)
{
	const struct kvc_client *c = n->client;
	struct kv_list *e, *next;
	if (!c->pins->bucket)
		return;
	for (e = bucket_of(c, key)->next; e != bucket_of(c, key); e = next) {
		struct kc_pin *p = KV_LIST_ENTRY(e, struct kc_pin, bucket);
		next = e->next;
		if (p->at != n || !is_of(p, key))
			continue;
		p->held = false;
		pin_settle(p);
	}
}

void kc_pins_leave(struct kc_node *n)
{
	struct kv_list *e, *next;
	for (e = n->pins->all.next; e != &n->pins->all; e = next) {
		struct kc_pin *p = KV_LIST_ENTRY(e, struct kc_pin, node);
		next = e->next;
		if (p->held)
			pin_lose(n, p, -KV_ELEFT);
		pin_settle(p);
	}
	told(n);
}

int kc_pins_part_await(struct kvc_session *session, uint64_t deadline_ns)
{
	session->parting = true;
	while (session->pinning > 0) {
		int rc = kc_wait_queue_await(session->client, &session->client->pins->changed, deadline_ns);
		if (rc == 0)
			continue;
		session->parting = false;
		return rc;
	}
	while (!kv_list_empty(&session->pins))
		pin_free(KV_LIST_ENTRY(session->pins.next, struct kc_pin, of_sub));
	return 0;
}

/* ---- moving ---- */

/* If no coroutine can be had now, the next beat tries again. */
static void move_start(struct kvc_client *c)
{
	if (c->pins->moving || c->closing || kv_list_empty(&c->pins->todo) ||
	    co_spawn(c->loop, c->hooks->pins_move_main, c, "kvc pins move") < 0)
		return;
	c->pins->moving = true;
	kc_client_began(c);
}

void kc_pins_follow(struct kvc_client *c)
{
	kv_list_splice_tail(&c->pins->todo, &c->pins->rest);
	kv_list_splice_tail(&c->pins->todo, &c->pins->late);
	move_start(c);
}

void kc_pins_moved(struct kvc_client *c)
{
	c->pins->moving = false;
}

void kc_pins_beat(struct kvc_client *c)
{
	if (loop_turn_now(c->loop) >= c->pins->late_ns)
		kv_list_splice_tail(&c->pins->todo, &c->pins->late);
	move_start(c);
}

static void look_at(struct kv_list *list, struct kc_pin *p)
{
	kv_list_del(&p->look);
	kv_list_add_tail(list, &p->look);
}

bool kc_pin_next(struct kvc_client *c, struct kc_pin_name *out)
{
	struct kc_pin *p;
	if (kv_list_empty(&c->pins->todo))
		return false;
	p = KV_LIST_ENTRY(c->pins->todo.next, struct kc_pin, look);
	look_at(&c->pins->rest, p);
	*out = (struct kc_pin_name){.at = p->at, .session = p->session, .len = (uint8_t)p->len};
	memcpy(out->key, p->key, p->len);
	return true;
}

static struct kc_pin *pin_named(const struct kvc_client *c, const struct kc_pin_name *name)
{
	return pin_find(c, name->session, (struct kvc_key){name->key, name->len}, name->at);
}

/* A busy pin stays, and so does its session. */
static void busy_begin(struct kc_pin *p)
{
	p->busy = true;
	if (p->session)
		p->session->pinning++;
}

static void busy_end(struct kvc_client *c, struct kc_pin *p)
{
	p->busy = false;
	if (p->session)
		p->session->pinning--;
	pin_settle(p);
	co_queue_wake_all(&c->pins->changed);
}

/* Pins of older attachments come first: it is made at the next attachment or beat. */
static void pin_redo(struct kc_pin *p)
{
	p->attaches = 0;
	kv_list_del(&p->node);
	kv_list_add_head(&p->at->pins->all, &p->node);
}

/* A concurrent call's pin may have been overtaken: pin again for it. */
static void pin_release_await(struct kvc_client *c, struct kc_pin *p)
{
	if (p->at->state == KC_NODE_UP && !p->at->retired)
		c->hooks->unpin_await(p->at, p->session, (struct kvc_key){p->key, p->len});
	if (p->held || p->calls)
		pin_redo(p);
}

/* Make or take over the pin of the value at node `to`. */
static int pin_there_await(struct kvc_client *c, struct kc_pin *p, struct kc_pin *there)
{
	struct kc_node *to = there->at;
	uint64_t attaches = to->attaches;
	int rc = there->held ? 0 : c->hooks->pin_await(to, p->session, (struct kvc_key){p->key, p->len});
	if (rc == 0 && to->retired)
		return -KV_ELEFT;
	if (rc == 0 && !p->held) { /* deleted, or its server has left */
		pin_release_await(c, there);
		return 1;
	}
	if (rc == 0) {
		there->held = true;
		p->held = false;
		there->attaches = attaches;
		if (!kc_node_uses(to, attaches))
			pin_redo(there);
	}
	return rc;
}

int kc_pin_move_await(struct kvc_client *c, const struct kc_pin_name *name, struct kc_node *to)
{
	struct kvc_key key = {name->key, name->len};
	struct kc_pin *p = pin_named(c, name), *there = pin_find(c, name->session, key, to);
	int rc;
	if (!p || (p->session && p->session->parting))
		return 1;
	if (p->busy || p->calls || (there && (there->busy || there->calls)))
		return -EAGAIN;
	if (!there)
		there = pin_make(to, name->session, key);
	if (!there)
		return -KV_ENOMEM;
	busy_begin(p);
	busy_begin(there);
	rc = pin_there_await(c, p, there);
	if (rc == 0)
		pin_release_await(c, p);
	kc_add(&c->count.pins_moved, rc == 0);
	look_at(&c->pins->todo, there); /* the view may have changed again */
	busy_end(c, there);
	busy_end(c, p);
	return rc;
}

void kc_pin_placed(struct kvc_client *c, const struct kc_pin_name *name)
{
	struct kc_pin *p = pin_named(c, name);
	if (p)
		p->until_ns = p->moves = 0;
}

bool kc_pin_later(struct kvc_client *c, const struct kc_pin_name *name, bool tried)
{
	struct kc_pin *p = pin_named(c, name);
	uint64_t now_ns = loop_now(c->loop), settle_ns = c->pool->options.settle_ns;
	if (!p)
		return true;
	if (!p->until_ns)
		p->until_ns = settle_ns > 1 ? kv_deadline(now_ns, settle_ns) : KV_NEVER;
	p->moves += tried;
	if (p->moves >= MOVES_MAX || now_ns >= p->until_ns)
		return false;
	if (kv_list_empty(&c->pins->late))
		c->pins->late_ns = now_ns + LATER_NS;
	look_at(&c->pins->late, p);
	return true;
}

void kc_pin_lose_await(struct kvc_client *c, const struct kc_pin_name *name, int rc)
{
	struct kc_pin *p = pin_named(c, name);
	if (!p || !p->held || p->busy || p->calls)
		return;
	busy_begin(p);
	pin_lose(p->at, p, rc);
	pin_release_await(c, p);
	busy_end(c, p);
}

void kc_pins_told(struct kvc_client *c)
{
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (c->node[i].pins->lost)
			told(&c->node[i]);
}

/* ---- pinning again ---- */

static struct kc_pin *pin_next(const struct kc_node *n)
{
	KV_LIST_EACH (e, &n->pins->all) {
		struct kc_pin *p = KV_LIST_ENTRY(e, struct kc_pin, node);
		if (p->attaches == n->attaches)
			return NULL;
		if (!p->busy && !(p->session && p->session->parting))
			return p;
	}
	return NULL;
}

static void pin_again_await(struct kc_node *n, struct kc_pin *p)
{
	struct kvc_client *c = n->client;
	uint64_t attaches = n->attaches;
	int rc;
	kv_list_del(&p->node);
	kv_list_add_tail(&n->pins->all, &p->node);
	p->attaches = attaches;
	busy_begin(p);
	rc = c->hooks->pin_await(n, p->session, (struct kvc_key){p->key, p->len});
	if (!kc_node_uses(n, attaches)) {
		/* The next attachment may be up already. */
		pin_redo(p);
	} else if (rc == 0) {
		n->pins->again++;
		kc_add(&c->count.pins_again, 1);
	} else if (!c->closing) {
		p->missed = p->calls > 0 ? rc : 0;
		if (p->held)
			pin_lose(n, p, rc);
	}
	busy_end(c, p);
}

static void pinner(void *arg)
{
	struct kc_node *n = arg;
	struct kvc_client *c = n->client;
	struct kc_pin *p;
	while (n->state == KC_NODE_UP && !c->closing && (p = pin_next(n)))
		pin_again_await(n, p);
	n->pins->pinners--;
	told(n);
	kc_client_ended(c);
}

void kc_pins_start(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	/* If no coroutine can be had now, the next beat tries again. */
	while (n->pins->pinners < PINNERS && !c->closing && pin_next(n) &&
	       co_spawn(c->loop, pinner, n, "kvc pins") == 0) {
		n->pins->pinners++;
		kc_client_began(c);
	}
}
