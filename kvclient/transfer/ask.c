/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c -- questions to servers: one request and one reply each. */
#include "kvclient/transfer/ask.h"

#include "kvclient/core/placement.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"

/* Send `wire` to a shard of the node (UINT32_MAX: the key's) and wait: one attempt of kc_ask_shard_await or
 * kc_ask_await. */
static int once_await(struct kc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
		      void *into, struct kc_look *out_look, struct kc_trace *t)
{
	struct kvc_client *c = n->client;
	struct kc_wait wait = {.co = co_self(), .trace = t};
	struct kc_attachment *s;
	struct kc_req *r;
	struct kc_need need = {.node = n, .session = t->session, .background = t->background};
	uint64_t asked_ns;
	int rc = kc_call_room_await(n, &need, deadline_ns, true, &s, &r);
	if (rc < 0)
		return rc;
	if (shard == UINT32_MAX)
		shard = kc_place_shard(s->shard_seed, s->shards, wire->key.data, wire->key.len);
	if (shard >= s->shards) {
		kc_req_release(c, r);
		return 1;
	}
	r->wire = *wire;
	r->deadline_ns = deadline_ns;
	if (wire->type == WIRE_TOMBS)
		r->reply.tombs = into;
	else if (wire_lists(wire->type))
		r->reply.rows = into;
	else
		r->reply.stat = into;
	asked_ns = loop_turn_now(c->loop);
	kc_req_submit(kc_link_pick(s, shard), r, &wait);
	rc = kc_call_done_await(c, r, deadline_ns);
	if ((rc == 0 || rc == -KV_EDELETED) && out_look)
		*out_look = (struct kc_look){r->reply.touch.left_ms, r->reply.touch.age_ns, asked_ns,
					     r->reply.touch.checksum};
	if (rc == 0 && wire->type == WIRE_CLEAR)
		*(uint64_t *)into = r->reply.clear.generation;
	kc_req_release(c, r);
	return rc;
}

static int asked_await(struct kc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
		       void *into, struct kc_look *out_look, unsigned *tries, struct kc_trace *t)
{
	int rc;
	*tries = 0;
	for (unsigned pauses = 0;; ++*tries) {
		rc = once_await(n, wire, shard, deadline_ns, into, out_look, t);
		if (rc >= 0 || !kc_call_again_await(n->client, rc, deadline_ns, &pauses))
			return rc == -KV_EDELETED ? rc : (int)kc_call_code(n->client, rc);
	}
}

int kc_ask_await(struct kc_node *n, const struct wire_request *wire, uint64_t deadline_ns, struct kc_look *out_look,
		 unsigned *tries, struct kc_trace *t)
{
	return asked_await(n, wire, UINT32_MAX, deadline_ns, NULL, out_look, tries, t);
}

int kc_ask_shard_await(struct kc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
		       void *into, struct kc_trace *t)
{
	unsigned tries;
	return asked_await(n, wire, shard, deadline_ns, into, NULL, &tries, t);
}

/* After a server reported a deletion, ask the next one only for a later value. */
static void young_set(const struct route *r, struct wire_request *wire)
{
	uint64_t now_ns = loop_turn_now(r->c->loop);
	if (KV_LIKELY(!r->deleted_ns) || wire->type != WIRE_TOUCH)
		return;
	wire->flags |= WIRE_TOUCH_YOUNG;
	wire->touch.young_ns = now_ns - KV_MIN(now_ns, r->deleted_ns);
}

int kc_ask_route_await(struct route *r, struct wire_request *wire, struct kc_look *out_look, unsigned *tries,
		       struct kc_trace *t)
{
	struct kc_look look;
	unsigned more, moves = 0;
	bool next;
	int rc;
	*tries = 0;
	route_count(r->n, r->key);
	do {
		young_set(r, wire);
		rc = kc_ask_await(r->n, wire, r->deadline_ns, &look, &more, t);
		*tries += more;
		if (rc == -KV_EDELETED)
			route_deleted(r, look.age_ns);
		if (rc == 0 && out_look)
			*out_look = look;
		next = route_next(r, rc);
		moves +=
			next && r->told && r->told->count == 0; /* the first server was lost, perhaps with its answer */
	} while (next);
	*tries += moves;
	return (int)kc_call_code(r->c, route_code(r, rc));
}

int kc_ask_node_await(struct kc_node *n, const struct wire_request *wire, uint64_t deadline_ns, struct kc_trace *t)
{
	unsigned tries;
	return (int)kc_call_code(n->client, kc_ask_await(n, wire, deadline_ns, NULL, &tries, t));
}

int kc_look_await(struct kc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kc_look *out, struct kc_trace *t)
{
	struct wire_request wire = {.type = WIRE_TOUCH, .flags = WIRE_TOUCH_LOOK, .key = {key.data, (uint32_t)key.len}};
	unsigned tries;
	return kc_ask_await(n, &wire, deadline_ns, out, &tries, t);
}

int kc_left_await(struct kc_node *n, struct kvc_key key, uint64_t deadline_ns, uint64_t *out_left_ms,
		  struct kc_trace *t)
{
	struct kc_look look = {0};
	int rc = kc_look_await(n, key, deadline_ns, &look, t);
	*out_left_ms = look.left_ms;
	return (int)kc_call_code(n->client, rc);
}

void kc_yield_await(struct kc_node *n, struct kvc_key key, uint64_t generation, uint64_t deadline_ns,
		    struct kc_trace *t)
{
	struct wire_request wire = {.type = WIRE_DELETE,
				    .flags = WIRE_DELETE_THIS,
				    .key = {key.data, (uint32_t)key.len},
				    .drop.which = generation};
	unsigned tries;
	kc_add(&n->client->count.copies_yielded, 1);
	(void)kc_ask_await(n, &wire, deadline_ns, NULL, &tries, t);
}

/* ---- pins ---- */

static int pin_own_await(struct kc_node *n, struct kvc_session *session, struct kvc_key key, uint8_t flags)
{
	struct kvc_client *c = n->client;
	struct wire_request wire = {.type = WIRE_PIN, .flags = flags, .key = {key.data, (uint32_t)key.len}};
	uint64_t deadline = kv_deadline(loop_now(c->loop), c->pool->options.timeout_ns), attaches = n->attaches;
	unsigned tries = 0;
	struct kc_trace t;
	int rc;
	kc_trace_own(&t, KVC_OP_PIN, session, false); /* in the foreground: the server may evict while this waits */
	do
		rc = once_await(n, &wire, UINT32_MAX, deadline, NULL, NULL, &t);
	while (rc < 0 && kc_node_uses(n, attaches) && kc_call_again_await(c, rc, deadline, &tries));
	return rc == -KV_EDELETED ? -KV_ENOTFOUND : rc;
}

int kc_pin_again_await(struct kc_node *n, struct kvc_session *session, struct kvc_key key)
{
	return pin_own_await(n, session, key, 0);
}

void kc_pin_release_await(struct kc_node *n, struct kvc_session *session, struct kvc_key key)
{
	(void)pin_own_await(n, session, key, WIRE_PIN_RELEASE);
}
