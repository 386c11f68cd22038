/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c -- read repair: copy a value found at a former server to the one in charge, a value missing at one of its two
 * servers to that one, and a hot value to its second server.
 *
 * One coroutine reads the value into a piece of the receive buffer, and puts it from there, one key after another, in
 * the background. It rests after each, by the client's part of kvc_options.repair_bytes_s.
 *
 * The copy keeps its time to live and its birth, in the target's clock (core/clock.h), never too late. The target
 * refuses it after a later DELETE, or if it has a later, different value; then the source deletes its own. */
#include "kvclient/copies/copies.h"
#include "kvclient/route/hot.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/repair.h"
#include "kvclient/route/second.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/get.h"
#include "kvclient/transfer/put.h"

#define REST_NS 20000000ull /* longest sleep of a closing client */

/* ---- one copy ---- */

/* Seconds to live from birth on; 0: the server's default. Less than a second left is not worth a copy:
 * -KV_ENOTFOUND. */
static int ttl_of(const struct kc_look *look, uint32_t *out_ttl_s)
{
	*out_ttl_s = 0;
	if (look->left_ms == UINT64_MAX)
		return 0;
	if (look->left_ms < 1000)
		return -KV_ENOTFOUND;
	*out_ttl_s = (uint32_t)KV_MIN((look->left_ms + look->age_ns / 1000000) / 1000, (uint64_t)UINT32_MAX);
	return 0;
}

static struct kc_node *target_of(struct kvc_client *c, const struct kc_repair *r, struct kvc_key key)
{
	struct kc_node *first = route_first(c, key), *second;
	if (r->to == KC_REPAIR_OWNER || r->to == first->index)
		return first;
	second = route_second(c, key);
	return second && r->to == second->index ? second : NULL;
}

struct birth {
	uint64_t born_ns, incarnation;
};

static int put_copy_await(struct kc_node *to, struct kvc_key key, const struct kvc_borrowed *b,
			  const struct birth *birth, const struct kvc_call *call, uint64_t deadline_ns,
			  struct kc_trace *t)
{
	struct kvc_put p;
	int rc = kc_put_init(&p, to->client, key, &(struct kc_target){.at = b->data}, b->len, call, deadline_ns);
	if (rc < 0)
		return rc;
	kc_put_copy(&p, to, birth->born_ns, birth->incarnation);
	p.own_wait.trace = t;
	rc = kc_put_all_await(&p);
	kc_put_fini(&p);
	return rc;
}

static int get_copy_await(struct kc_node *from, struct kvc_key key, const struct kvc_call *call, uint64_t deadline_ns,
			  struct kc_trace *t, struct kvc_borrowed *out, uint64_t *out_generation)
{
	struct kvc_client *c = from->client;
	struct kvc_get g;
	int64_t rc = kc_get_init(&g, c, key, &(struct kc_target){.at = c->area.base}, 1, call, deadline_ns);
	if (rc < 0)
		return rc;
	g.route.n = from;
	g.route.kind = ROUTE_FIXED;
	g.ask.moved = true;
	g.own_wait.trace = t;
	rc = kc_get_lent_await(&g, kc_get_guess(c, 0), out);
	*out_generation = g.value.generation;
	return (int)KV_MIN(rc, (int64_t)0);
}

/* Returns the length, 0 if the target has it, or a code. *out_read: bytes read. */
static int64_t copy_await(struct kvc_client *c, const struct kc_repair *r, struct kvc_call *call, struct kc_trace *t,
			  uint64_t *out_read)
{
	struct kvc_key key = {r->key, r->len};
	uint64_t deadline_ns = kc_call_deadline(c, call, KV_RANGE_MAX), generation = 0, len;
	struct kc_node *from = &c->node[r->node];
	struct kc_node *to = target_of(c, r, key);
	struct kc_look look, there;
	struct kvc_borrowed b;
	struct birth birth = {.incarnation = to ? to->incarnation : 0};
	int rc = from->state == KC_NODE_UP && to && to != from ? 0 : -KV_ENOTFOUND;
	if (r->forgotten)
		rc = -KV_ECANCELED;
	if (rc == 0)
		rc = kc_look_await(from, key, deadline_ns, &look, t);
	if (rc == 0 && r->hot && kc_look_await(to, key, deadline_ns, &there, t) == 0 && there.checksum == look.checksum)
		return 0;
	if (rc == 0)
		rc = ttl_of(&look, &call->ttl_s);
	if (rc == 0)
		rc = get_copy_await(from, key, call, deadline_ns, t, &b, &generation);
	if (rc < 0)
		return rc;
	birth.born_ns = look.asked_ns > look.age_ns ? look.asked_ns - look.age_ns : 1;
	*out_read = len = b.len;
	/* The view may have changed. */
	if (!r->forgotten && !c->closing && to == target_of(c, r, key))
		rc = put_copy_await(to, key, &b, &birth, call, deadline_ns, t);
	else
		rc = -KV_ECANCELED;
	kvc_borrowed_release(c, &b);
	if (rc == -KV_EDELETED)
		kc_yield_await(from, key, generation, deadline_ns, t);
	return rc < 0 ? rc : (int64_t)len;
}

/* ---- all of them ---- */

static void rest_await(struct kvc_client *c, uint64_t bytes)
{
	uint64_t rate = KV_MAX(c->pool->options.repair_bytes_s / c->pool->num_clients, (uint64_t)1);
	uint64_t until_ns = kv_deadline(loop_now(c->loop), (uint64_t)((double)bytes * 1e9 / (double)rate));
	for (uint64_t now_ns; !c->closing && (now_ns = loop_now(c->loop)) < until_ns;)
		co_sleep_await(KV_MIN(now_ns + REST_NS, until_ns));
}

static void repair_count(struct kvc_client *c, int64_t rc, uint64_t read)
{
	kc_add(rc < 0 ? &c->count.repairs_dropped : &c->count.repairs, 1);
	kc_add(&c->count.repair_bytes, rc < 0 ? 0 : read);
}

static void hot_count(struct kvc_client *c, int64_t rc)
{
	kc_add(&c->count.copies_dropped, rc < 0);
	kc_add(&c->count.copies, rc > 0);
	kc_add(&c->count.copy_bytes, rc > 0 ? (uint64_t)rc : 0);
}

static bool second_of(struct kvc_client *c, const struct kc_repair *r)
{
	const struct kc_node *second = route_second(c, (struct kvc_key){r->key, r->len});
	return second && r->to == second->index;
}

static uint64_t one_await(struct kvc_client *c, const struct kc_repair *r)
{
	struct kvc_call call = {.size = sizeof(call), .flags = KVC_BACKGROUND};
	struct kc_trace t;
	uint64_t read = 0;
	int64_t rc;
	kc_trace_own(&t, KVC_OP_PUT, NULL, true);
	rc = copy_await(c, r, &call, &t, &read);
	if (r->hot) {
		hot_count(c, rc);
		route_hot_copied(c, (struct kvc_key){r->key, r->len}, rc);
	} else {
		repair_count(c, rc, read);
		if (rc < 0 && second_of(c, r))
			route_hot_lost(c, (struct kvc_key){r->key, r->len});
	}
	repair_done(c);
	return read;
}

void kc_repair_main(void *client)
{
	struct kvc_client *c = client;
	const struct kc_repair *r;
	while ((r = repair_first(c)) != NULL)
		rest_await(c, one_await(c, r));
	kc_add(&c->count.repairs_dropped, repair_end(c));
	kc_client_ended(c);
}
