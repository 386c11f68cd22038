/* SPDX-License-Identifier: Apache-2.0 */
/* small.c -- the calls of the API that are about one key or one server: get, put, delete, touch, ttl, ping, stat
 * (pin and unpin: pin.c)
 *
 * get and put are in get.c and put.c; here they begin and end as calls. The others are one request and one reply, and
 * are made again while the deadline allows. */
#include "kvclient/call/small.h"

#include "kvclient/call/former.h"
#include "kvclient/call/hot.h"
#include "kvclient/call/get.h"
#include "kvclient/call/put.h"
#include "kvclient/call/repair.h"
#include "kvclient/call/second.h"
#include "kvclient/call/second_put.h"
#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/owed.h"
#include "kvclient/core/placement.h"
#include "kvclient/logical/pins.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"

int64_t kvc_get_await(struct kvc_client *client, struct kvc_key key, void *dst, uint64_t dst_len,
		      const struct kvc_call *call)
{
	struct kvc_call own;
	struct kvc_trace t;
	struct kvc_get g;
	int64_t rc = kvc_call_open(client, &t, KVC_OP_GET, call, &own);
	if (rc < 0)
		return rc;
	rc = kvc_get_init(&g, client, key, &(struct kvc_target){.at = dst}, dst_len, &own,
			  kvc_call_deadline(client, &own, dst_len));
	if (rc == 0) {
		kvc_trace_key(&t, key.data, key.len);
		g.own_wait.trace = &t;
		rc = kvc_call_down(g.n, own.flags, kvc_get_all_await(&g));
		kvc_get_fini(&g);
		kvc_get_count(client, rc);
	}
	return kvc_call_end(client, &t, rc);
}

int kvc_put_await(struct kvc_client *client, struct kvc_key key, const void *data, uint64_t len,
		  const struct kvc_call *call)
{
	struct kvc_call own;
	struct kvc_trace t;
	struct kvc_put p;
	uint64_t begun_ns;
	int rc = kvc_call_open(client, &t, KVC_OP_PUT, call, &own);
	if (rc < 0)
		return rc;
	begun_ns = kvc_two_copies(client, own.flags) ? loop_now(client->loop) : 0;
	rc = kvc_put_init(&p, client, key, &(struct kvc_target){.at = (void *)(uintptr_t)data}, len, &own,
			  kvc_call_deadline(client, &own, len));
	if (rc == 0) {
		kvc_trace_key(&t, key.data, key.len);
		p.own_wait.trace = &t;
		rc = kvc_put_all_await(&p);
		if (rc == 0 && kvc_two_copies(client, own.flags))
			kvc_second_put_await(client, &(struct kvc_second_value){.key = key,
										.from = &p.from,
										.len = len,
										.checksum = p.checksum,
										.born_ns = begun_ns,
										.ttl_s = own.ttl_s});
		kvc_put_fini(&p);
		kvc_put_count(client, rc, len);
	}
	return (int)kvc_call_end(client, &t, rc);
}

/* ---- one request, one reply ---- */

/* Send `wire` to a shard of the node (UINT32_MAX: the shard of the key) and wait. into: struct kvc_stats of a
 * STAT, struct kvc_tombs of a TOMBS, else NULL; out_look: of a TOUCH, or NULL. 1: there is no such shard. */
static int simple_once_await(struct kvc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
			     void *into, struct kvc_look *out_look, struct kvc_trace *t)
{
	struct kvc_client *c = n->client;
	struct kvc_wait wait = {.co = co_self(), .trace = t};
	struct kvc_attachment *s;
	struct kvc_req *r;
	struct kvc_need need = {.node = n, .session = t->session, .background = t->background};
	uint64_t asked_ns;
	int rc = kvc_call_room_await(n, &need, deadline_ns, true, &s, &r);
	if (rc < 0)
		return rc;
	if (shard == UINT32_MAX)
		shard = kvc_place_shard(s->shard_seed, s->shards, wire->key.data, wire->key.len);
	if (shard >= s->shards) {
		kvc_req_release(c, r);
		return 1;
	}
	r->wire = *wire;
	r->deadline_ns = deadline_ns;
	if (wire->type == WIRE_TOMBS)
		r->reply.tombs = into;
	else
		r->reply.stat = into;
	asked_ns = loop_turn_now(c->loop);
	kvc_req_submit(kvc_link_pick(s, shard), r, &wait);
	rc = kvc_call_done_await(c, r, deadline_ns);
	if ((rc == 0 || rc == -KV_EDELETED) && out_look)
		*out_look = (struct kvc_look){r->reply.touch.left_ms, r->reply.touch.age_ns, asked_ns,
					      r->reply.touch.checksum};
	kvc_req_release(c, r);
	return rc;
}

/* -KV_EDELETED stays what it is: others are not asked then. */
static int simple_await(struct kvc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
			void *into, struct kvc_look *out_look, unsigned *tries, struct kvc_trace *t)
{
	int rc;
	*tries = 0;
	for (unsigned pauses = 0;; ++*tries) {
		rc = simple_once_await(n, wire, shard, deadline_ns, into, out_look, t);
		if (rc >= 0 || !kvc_call_again_await(n->client, rc, deadline_ns, &pauses))
			return rc == -KV_EDELETED ? rc : (int)kvc_call_code(n->client, rc);
	}
}

/* Ask about a key: the node *n, and those that stand in for it. *n becomes the one that answered. */
static int moving_await(struct kvc_node **n, const struct wire_request *wire, uint64_t deadline_ns,
			struct kvc_look *out_look, unsigned *tries, struct kvc_trace *t)
{
	struct kvc_key key = {wire->key.data, wire->key.len};
	unsigned more;
	int rc;
	kvc_call_count(*n, key);
	for (*tries = 0;; ++*tries) {
		rc = simple_await(*n, wire, UINT32_MAX, deadline_ns, NULL, out_look, &more, t);
		*tries += more;
		if (!kvc_call_moved(n, key, rc, deadline_ns))
			return rc;
	}
}

int kvc_ask_node_await(struct kvc_node *n, const struct wire_request *wire, uint64_t deadline_ns, struct kvc_trace *t)
{
	unsigned tries;
	return (int)kvc_call_code(n->client, simple_await(n, wire, UINT32_MAX, deadline_ns, NULL, NULL, &tries, t));
}

int kvc_ask_key_await(struct kvc_node **n, const struct wire_request *wire, uint64_t deadline_ns, struct kvc_trace *t)
{
	unsigned tries;
	return (int)kvc_call_code((*n)->client, moving_await(n, wire, deadline_ns, NULL, &tries, t));
}

int kvc_look_await(struct kvc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kvc_look *out,
		   struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_TOUCH, .flags = WIRE_TOUCH_LOOK, .key = {key.data, (uint32_t)key.len}};
	unsigned tries;
	return simple_await(n, &wire, UINT32_MAX, deadline_ns, NULL, out, &tries, t);
}

int kvc_left_await(struct kvc_node *n, struct kvc_key key, uint64_t deadline_ns, uint64_t *out_left_ms,
		   struct kvc_trace *t)
{
	struct kvc_look look = {0};
	int rc = kvc_look_await(n, key, deadline_ns, &look, t);
	*out_left_ms = look.left_ms;
	return (int)kvc_call_code(n->client, rc);
}

void kvc_yield_await(struct kvc_node *n, struct kvc_key key, uint64_t generation, uint64_t deadline_ns,
		     struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_DELETE,
				    .flags = WIRE_DELETE_THIS,
				    .key = {key.data, (uint32_t)key.len},
				    .drop.which = generation};
	unsigned tries;
	kvc_add(&n->client->count.copies_yielded, 1);
	(void)simple_await(n, &wire, UINT32_MAX, deadline_ns, NULL, NULL, &tries, t);
}

/* What the other servers are asked that may have a value. */
struct others {
	struct kvc_client *c;
	const struct wire_request *wire;
	uint64_t deadline_ns;
	struct kvc_look *out_look;
	struct kvc_trace *t;
	bool twice;          /* the value is kept twice */
	uint64_t deleted_ns; /* a server said that the key was deleted then; 0: none did */
};

/* A server said of a key that it was deleted: from now on values are meant that were put since. -KV_ENOTFOUND. */
static int deleted_take(struct others *o, const struct kvc_look *look)
{
	uint64_t now = loop_now(o->c->loop);
	o->deleted_ns = KV_MAX(o->deleted_ns, now > look->age_ns ? now - look->age_ns : 1);
	return -KV_ENOTFOUND;
}

/* Look at n for the value, or touch it there: what it says. */
static int other_ask_await(struct others *o, struct kvc_node *n)
{
	struct wire_request wire = *o->wire;
	struct kvc_look look;
	unsigned tries;
	int rc;
	if (o->deleted_ns) {
		wire.flags |= WIRE_TOUCH_YOUNG;
		wire.touch.young_ns = loop_turn_now(o->c->loop) - KV_MIN(loop_turn_now(o->c->loop), o->deleted_ns);
	}
	rc = simple_await(n, &wire, UINT32_MAX, o->deadline_ns, NULL, &look, &tries, o->t);
	if (rc == -KV_EDELETED)
		deleted_take(o, &look);
	if (rc == 0 && o->out_look)
		*o->out_look = look;
	return rc;
}

/* The same, after the servers before it said `said`: what they all say. One that is lost, late or refuses is one that
 * has nothing. */
static int other_await(struct others *o, struct kvc_node *n, int said)
{
	return other_ask_await(o, n) == 0 ? 0 : said;
}

/* Have another server touch the value, after those before it said `said`. If the value may live longer there, the
 * code of that server is the call's. */
static int other_touch_await(struct others *o, struct kvc_node *n, int said)
{
	int rc = other_ask_await(o, n);
	if (rc == -KV_ENOTFOUND || rc == -KV_EDELETED || rc == -KV_EPEERDOWN || rc == -KV_ELEFT)
		return said;
	return said == 0 || said == -KV_ENOTFOUND ? rc : said;
}

/* Have another server delete the value, after those before it said `said`. If one may have the value still, its code
 * is the call's: else a GET would find what was deleted, and a repair would bring it back. */
static int other_drop_await(const struct others *o, struct kvc_node *n, int said)
{
	unsigned tries;
	int rc = simple_await(n, o->wire, UINT32_MAX, o->deadline_ns, NULL, NULL, &tries, o->t);
	if (rc == 0 || rc == -KV_ENOTFOUND)
		kvc_pins_deleted(n, (struct kvc_key){o->wire->key.data, o->wire->key.len});
	if (rc == -KV_ENOTFOUND || rc == -KV_EPEERDOWN || rc == -KV_ELEFT)
		return said;
	return said == 0 || said == -KV_ENOTFOUND ? rc : said; /* the first code stays */
}

struct kvc_node *kvc_drop_next(struct kvc_client *c, struct kvc_key key, bool twice, struct kvc_place_set *told)
{
	struct kvc_node *n = kvc_former_drop(c, key, twice, told);
	while (!n && (n = kvc_pin_elsewhere(c, key, told))) {
		kvc_place_set_put(told, n->index, true);
		if (n->state == KVC_NODE_DOWN)
			n = NULL;
	}
	return n;
}

/* The server n said `said` to a DELETE. It goes to all others that may have the value, or a GET would find there what
 * was deleted: to those in charge of it by now, too, since the view may have changed meanwhile. */
static int others_drop_await(const struct others *o, const struct kvc_node *n, int said)
{
	struct kvc_key key = {o->wire->key.data, o->wire->key.len};
	struct kvc_place_set told = {0};
	struct kvc_node *next;
	if (said != 0 && said != -KV_ENOTFOUND)
		return said;
	kvc_place_set_put(&told, n->index, true);
	while ((next = kvc_drop_next(o->c, key, o->twice, &told)))
		said = other_drop_await(o, next, said);
	return said;
}

/* The server n said `said` to a TOUCH. It goes to all others that may have the value, or one of them would keep it for
 * as long as it had before, and a GET would find it there, and have it copied back. */
static int others_touch_await(struct others *o, const struct kvc_node *n, int said)
{
	struct kvc_key key = {o->wire->key.data, o->wire->key.len};
	struct kvc_place_set told = {0};
	struct kvc_node *next;
	if (said != 0 && said != -KV_ENOTFOUND)
		return said;
	kvc_place_set_put(&told, n->index, true);
	while ((next = kvc_former_drop(o->c, key, o->twice, &told)))
		said = other_touch_await(o, next, said);
	return said;
}

/* The server n said `said`. A look goes on to the other servers after a miss, until one has the value. */
static int others_await(struct others *o, const struct kvc_node *n, int said)
{
	struct kvc_key key = {o->wire->key.data, o->wire->key.len};
	struct kvc_node *next;
	if (o->wire->type == WIRE_DELETE)
		return others_drop_await(o, n, said);
	if (!(o->wire->flags & WIRE_TOUCH_LOOK))
		return others_touch_await(o, n, said);
	if (said == -KV_ENOTFOUND && o->twice && (next = kvc_second_beside(o->c, key, n)))
		said = other_await(o, next, said);
	for (unsigned k = 0; kvc_formers(o->c) && k < KVC_FORMERS_ASKED && said == -KV_ENOTFOUND; k++) {
		next = kvc_former(o->c, key, o->twice, k);
		if (!next)
			break;
		said = other_await(o, next, said);
	}
	return said;
}

int kvc_there_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_TOUCH, .flags = WIRE_TOUCH_LOOK, .key = {key.data, (uint32_t)key.len}};
	struct others o = {c, &wire, deadline_ns, NULL, t, kvc_two_places(c, flags), 0};
	struct kvc_node *n = kvc_call_node(c, key);
	struct kvc_look look;
	unsigned tries;
	int said = moving_await(&n, &wire, deadline_ns, &look, &tries, t);
	if (said == -KV_EDELETED)
		said = deleted_take(&o, &look);
	return others_await(&o, n, said);
}

/* The key is about to be deleted: this client copies it no more. */
static void copies_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns)
{
	kvc_repair_forget_await(c, key, deadline_ns);
	kvc_second_forget_await(c, key, deadline_ns);
}

/* The key is about to be touched: no copy lands later with the time to live of before. One to mend a miss is dropped:
 * also where it only waits, it could ask for that time just before the TOUCH. The next GET has it made. */
static void copies_landed_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns)
{
	kvc_repair_forget_await(c, key, deadline_ns);
	kvc_second_landed_await(c, key, deadline_ns);
}

/* How a call about one key ended. */
struct keyed {
	struct kvc_node *n; /* that said so */
	unsigned tries;     /* attempts before the last one */
	int said;           /* its code, before a server that is down became a miss */
};

static int keyed_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct wire_request *wire,
		       struct kvc_look *out_look, struct keyed *k, struct kvc_trace *t)
{
	struct kvc_call own;
	struct kvc_look look = {0};
	uint64_t deadline_ns, begun_ns = loop_turn_now(c->loop);
	*k = (struct keyed){.said = -KV_EINVAL};
	if (!kvc_key_valid(key) || kvc_call_check(call, &own) < 0)
		return -KV_EINVAL;
	if (wire->type == WIRE_TOUCH)
		wire->touch.ttl_s = own.ttl_s;
	if (wire->type == WIRE_TOUCH && !(wire->flags & WIRE_TOUCH_LOOK) &&
	    (kvc_two_places(c, own.flags) || kvc_formers(c)))
		wire->flags |= WIRE_TOUCH_MARK;
	wire->key = (struct wire_bytes){key.data, (uint32_t)key.len};
	kvc_trace_key(t, key.data, key.len);
	k->n = kvc_call_node(c, key);
	deadline_ns = kvc_call_deadline(c, &own, 0);
	if (wire->type == WIRE_DELETE)
		copies_forget_await(c, key, deadline_ns);
	else if (wire->type == WIRE_TOUCH && !(wire->flags & WIRE_TOUCH_LOOK))
		copies_landed_await(c, key, deadline_ns);
	k->said = moving_await(&k->n, wire, deadline_ns, &look, &k->tries, t);
	if (out_look)
		*out_look = look;
	if (wire->type == WIRE_TOUCH || wire->type == WIRE_DELETE) {
		struct others o = {c, wire, deadline_ns, out_look, t, kvc_two_places(c, own.flags), 0};
		if (k->said == -KV_EDELETED)
			k->said = deleted_take(&o, &look);
		k->said = others_await(&o, k->n, k->said);
	}
	if (wire->type == WIRE_DELETE ? k->said == 0 || k->said == -KV_ENOTFOUND
				      : k->said == 0 && wire->touch.ttl_s && !(wire->flags & WIRE_TOUCH_LOOK))
		kvc_owed_note(c, key, begun_ns, wire->type == WIRE_TOUCH ? own.ttl_s : 0);
	return (int)kvc_call_down(k->n, own.flags, k->said);
}

int kvc_delete_begin(struct kvc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kvc_wait *wait,
		     struct kvc_req **out)
{
	struct kvc_need need = {.node = n, .session = wait->trace->session, .background = wait->trace->background};
	struct kvc_attachment *s;
	int rc = kvc_call_room_await(n, &need, deadline_ns, false, &s, out);
	if (rc < 0)
		return rc;
	(*out)->wire = (struct wire_request){.type = WIRE_DELETE, .key = {key.data, (uint32_t)key.len}};
	(*out)->deadline_ns = deadline_ns;
	kvc_req_submit(kvc_link_pick(s, kvc_place_shard(s->shard_seed, s->shards, key.data, key.len)), *out, wait);
	return 0;
}

int kvc_delete_item_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, bool again,
			  struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_DELETE, .key = {key.data, (uint32_t)key.len}};
	struct kvc_node *n = kvc_call_node(c, key);
	uint64_t begun_ns = loop_turn_now(c->loop);
	unsigned tries;
	int rc;
	copies_forget_await(c, key, deadline_ns);
	rc = moving_await(&n, &wire, deadline_ns, NULL, &tries, t);
	rc = others_await(&(struct others){c, &wire, deadline_ns, NULL, t, kvc_two_places(c, flags), 0}, n, rc);
	if (rc != 0 && rc != -KV_ENOTFOUND)
		return rc;
	kvc_owed_note(c, key, begun_ns, 0);
	kvc_pins_deleted(n, key);
	/* An earlier attempt, whose reply was lost, may have deleted it. */
	return again || tries > 0 ? 0 : rc;
}

int kvc_delete_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_DELETE};
	struct kvc_trace t;
	struct keyed k;
	int rc = kvc_call_begin(client, &t, KVC_OP_DELETE, call);
	if (rc < 0)
		return rc;
	rc = keyed_await(client, key, call, &wire, NULL, &k, &t);
	/* Only the server can say that: the miss of a server that is down has deleted nothing. */
	if (k.said == 0 || k.said == -KV_ENOTFOUND)
		kvc_pins_deleted(k.n, key);
	/* An earlier attempt, whose reply was lost, may have deleted it. */
	if (k.said == -KV_ENOTFOUND && k.tries > 0)
		rc = 0;
	kvc_add(&client->count.deletes, 1);
	return (int)kvc_call_end(client, &t, rc);
}

int kvc_delete_at_await(struct kvc_client *c, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_DELETE, .flags = WIRE_DELETE_AT, .key = {key.data, (uint32_t)key.len}};
	struct kvc_call own;
	struct kvc_trace t;
	struct kvc_node *n;
	uint64_t deadline_ns;
	unsigned tries;
	int rc = kvc_call_open(c, &t, KVC_OP_DELETE, call, &own);
	if (rc < 0)
		return rc;
	n = kvc_call_node(c, key);
	deadline_ns = kvc_call_deadline(c, &own, 0);
	do { /* each server has a clock of its own */
		wire.drop.which = kvc_clock_at(&n->clock, time_ns);
		rc = simple_await(n, &wire, UINT32_MAX, deadline_ns, NULL, NULL, &tries, &t);
	} while (kvc_call_moved(&n, key, rc, deadline_ns));
	return (int)kvc_call_end(c, &t, rc);
}

static int pin_own_await(struct kvc_node *n, struct kvc_session *session, struct kvc_key key, uint8_t flags)
{
	struct kvc_client *c = n->client;
	struct wire_request wire = {.type = WIRE_PIN, .flags = flags, .key = {key.data, (uint32_t)key.len}};
	uint64_t deadline = kv_deadline(loop_now(c->loop), c->pool->options.timeout_ns), attaches = n->attaches;
	unsigned tries = 0;
	struct kvc_trace t;
	int rc;
	kvc_trace_own(&t, KVC_OP_PIN, session, false); /* not behind calls: the server may evict meanwhile */
	do
		rc = simple_once_await(n, &wire, UINT32_MAX, deadline, NULL, NULL, &t);
	while (rc < 0 && kvc_node_uses(n, attaches) && kvc_call_again_await(c, rc, deadline, &tries));
	return rc == -KV_EDELETED ? -KV_ENOTFOUND : rc;
}

int kvc_pin_again_await(struct kvc_node *n, struct kvc_session *session, struct kvc_key key)
{
	return pin_own_await(n, session, key, 0);
}

void kvc_pin_release_await(struct kvc_node *n, struct kvc_session *session, struct kvc_key key)
{
	(void)pin_own_await(n, session, key, WIRE_PIN_RELEASE);
}

static int touch_await(struct kvc_client *c, struct kvc_key key, uint8_t flags, struct kvc_look *out_look,
		       const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_TOUCH, .flags = flags};
	struct kvc_trace t;
	struct keyed k;
	int rc = kvc_call_begin(c, &t, KVC_OP_TOUCH, call);
	return rc < 0 ? rc : (int)kvc_call_end(c, &t, keyed_await(c, key, call, &wire, out_look, &k, &t));
}

int kvc_touch_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return touch_await(client, key, 0, NULL, call);
}

int kvc_ttl_await(struct kvc_client *client, struct kvc_key key, uint64_t *out_left_ms, const struct kvc_call *call)
{
	struct kvc_look look;
	int rc = touch_await(client, key, WIRE_TOUCH_LOOK, &look, call);
	if (rc == 0 && out_left_ms)
		*out_left_ms = look.left_ms;
	return rc;
}

/* ---- all shards of one server, or one ---- */

static int shards_await(struct kvc_client *c, const struct kvc_call *call, const struct wire_request *wire, void *into,
			struct kvc_trace *t)
{
	struct kvc_call own;
	struct kvc_node *n;
	uint64_t deadline;
	unsigned tries;
	int rc = 0;
	if (kvc_call_check(call, &own) < 0 || own.server >= c->num_nodes)
		return -KV_EINVAL;
	deadline = kvc_call_deadline(c, &own, 0);
	n = kvc_alias_node_await(c, own.server, deadline);
	if (own.shard > 0) {
		rc = simple_await(n, wire, own.shard - 1, deadline, into, NULL, &tries, t);
		return rc == 1 ? -KV_EINVAL : rc;
	}
	for (uint32_t shard = 0; rc == 0; shard++)
		rc = simple_await(n, wire, shard, deadline, into, NULL, &tries, t);
	return rc == 1 ? 0 : rc;
}

int kvc_ping_await(struct kvc_client *client, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_PING};
	struct kvc_trace t;
	int rc = kvc_call_begin(client, &t, KVC_OP_PING, call);
	if (rc < 0)
		return rc;
	return (int)kvc_call_end(client, &t, shards_await(client, call, &wire, NULL, &t));
}

int kvc_stat_await(struct kvc_client *client, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_STAT};
	struct kvc_stats stats = {0};
	struct kvc_trace t;
	unsigned n = 0;
	int rc;
	if (!out && max > 0)
		return -KV_EINVAL;
	rc = kvc_call_begin(client, &t, KVC_OP_STAT, call);
	if (rc < 0)
		return rc;
	rc = shards_await(client, call, &wire, &stats, &t);
	for (uint32_t id = 1; rc == 0 && id < WIRE_STAT_END && n < max; id++) {
		struct wire_stat_info info = wire_stat_info(id);
		/* Most servers have few rails. */
		if (id >= WIRE_STAT_RAIL_BYTES && id <= WIRE_STAT_RAIL_ERRORS_LAST && stats.value[id] == 0)
			continue;
		if (info.name)
			out[n++] = (struct kvc_stat_item){.name = info.name,
							  .value = stats.value[id],
							  .group = info.group,
							  .unit = info.unit,
							  .kind = (enum kvc_stat_kind)info.kind};
	}
	return (int)kvc_call_end(client, &t, rc < 0 ? rc : (int64_t)n);
}

int kvc_tombs_await(struct kvc_client *c, uint64_t from, struct kvc_tombs *out, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_TOMBS, .tombs.from = from};
	struct kvc_trace t;
	int rc = kvc_call_begin(c, &t, KVC_OP_STAT, call);
	if (rc < 0)
		return rc;
	return (int)kvc_call_end(c, &t, shards_await(c, call, &wire, out, &t));
}
