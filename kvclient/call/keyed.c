/* SPDX-License-Identifier: Apache-2.0 */
/* keyed.c -- calls about one key: get, put, delete, touch, ttl (pin and unpin: pin.c).
 *
 * A DELETE and a TOUCH reach every server that may have the value: otherwise a GET would find the deleted value there,
 * and have it copied back. */
#include "kvclient/call/keyed.h"

#include "kvclient/conn/deletes_owed.h"
#include "kvclient/copies/copies.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/link.h"
#include "kvclient/route/former.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/repair.h"
#include "kvclient/route/second.h"
#include "kvclient/seal/names.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/get.h"
#include "kvclient/transfer/put.h"

int64_t kvc_get_await(struct kvc_client *client, struct kvc_key key, void *dst, uint64_t dst_len,
		      const struct kvc_call *call)
{
	uint8_t name[KC_SEAL_NAME];
	struct kvc_call own;
	struct kc_trace t;
	struct kvc_get g;
	int64_t rc = kc_call_open(client, &t, KVC_OP_GET, call, &own);
	if (rc < 0)
		return rc;
	rc = kc_name_take(client, &key, name);
	if (rc == 0)
		rc = kc_get_init(&g, client, key, &(struct kc_target){.at = dst}, dst_len, &own,
				 kc_call_deadline(client, &own, dst_len));
	if (rc == 0) {
		kc_trace_key(&t, key.data, key.len);
		g.own_wait.trace = &t;
		kc_get_seal(&g);
		rc = route_down(g.route.n, own.flags, kc_get_all_await(&g));
		if (own.out_value_len && g.state != KC_GET_ASKING)
			*own.out_value_len = kc_get_len(&g);
		kc_get_fini(&g);
		kc_get_count(client, rc);
	}
	return kc_call_end(client, &t, rc);
}

int kvc_put_await(struct kvc_client *client, struct kvc_key key, const void *data, uint64_t len,
		  const struct kvc_call *call)
{
	uint8_t name[KC_SEAL_NAME];
	struct kvc_call own;
	struct kc_trace t;
	struct kc_target from = {.at = (void *)(uintptr_t)data};
	struct kvc_put p;
	uint64_t begun_ns;
	int rc = kc_call_open(client, &t, KVC_OP_PUT, call, &own);
	if (rc < 0)
		return rc;
	begun_ns = route_two_copies(client, own.flags) ? loop_now(client->loop) : 0;
	rc = kc_name_take(client, &key, name);
	if (rc == 0)
		rc = kc_put_init(&p, client, key, &from, len, &own, kc_call_deadline(client, &own, len));
	if (rc == 0) {
		kc_trace_key(&t, key.data, key.len);
		p.own_wait.trace = &t;
		rc = kc_put_seal(&p);
		if (rc == 0)
			rc = kc_put_all_await(&p);
		if (rc == 0 && route_two_copies(client, own.flags))
			kc_second_put_await(client, &(struct kc_second_value){.key = key,
									      .from = &from,
									      .len = len,
									      .checksum = p.checksum,
									      .born_ns = begun_ns,
									      .ttl_s = own.ttl_s});
		kc_put_fini(&p);
		kc_put_count(client, rc, len);
	}
	return (int)kc_call_end(client, &t, rc);
}

/* ---- questions about a key ---- */

int kc_there_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, struct kc_trace *t)
{
	struct wire_request wire = {.type = WIRE_TOUCH, .flags = WIRE_TOUCH_LOOK, .key = {key.data, (uint32_t)key.len}};
	struct route r;
	unsigned tries;
	route_begin(&r, c, key, ROUTE_LOOK, flags, deadline_ns);
	return kc_ask_route_await(&r, &wire, NULL, &tries, t);
}

/* Before a DELETE or TOUCH: wait for a copy of the key under way, and begin no other. A waiting second copy is made
 * before a TOUCH, and dropped before a DELETE. A waiting repair is dropped, since it could use the old time to live;
 * the next GET repairs. */
static void copies_forget_await(const struct route *r)
{
	repair_forget_await(r->c, r->key, r->deadline_ns);
	if (r->kind == ROUTE_DELETE)
		kc_second_forget_await(r->c, r->key, r->deadline_ns);
	else
		kc_second_landed_await(r->c, r->key, r->deadline_ns);
}

/* As kc_delete_item_await. */
static int delete_all_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, bool again,
			    struct route *r, struct kc_trace *t)
{
	struct wire_request wire = {.type = WIRE_DELETE, .key = {key.data, (uint32_t)key.len}};
	struct kc_place_set told = {0};
	uint64_t begun_ns = loop_turn_now(c->loop);
	unsigned tries;
	int rc;
	route_begin(r, c, key, ROUTE_DELETE, flags, deadline_ns);
	r->told = &told;
	copies_forget_await(r);
	rc = kc_ask_route_await(r, &wire, NULL, &tries, t);
	r->told = NULL;
	if (rc != 0 && rc != -KV_ENOTFOUND)
		return rc;
	kc_owed_note(c, key, begun_ns, 0);
	/* An earlier attempt, whose reply was lost, may have deleted it. */
	return again || tries > 0 ? 0 : rc;
}

int kc_delete_item_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, bool again,
			 struct kc_trace *t)
{
	struct route r;
	return delete_all_await(c, key, flags, deadline_ns, again, &r, t);
}

int kc_delete_begin(struct kc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kc_wait *wait,
		    struct kc_req **out)
{
	struct kc_need need = {.node = n, .session = wait->trace->session, .background = wait->trace->background};
	struct kc_attachment *s;
	int rc = kc_call_room_await(n, &need, deadline_ns, false, &s, out);
	if (rc < 0)
		return rc;
	(*out)->wire = (struct wire_request){.type = WIRE_DELETE, .key = {key.data, (uint32_t)key.len}};
	(*out)->deadline_ns = deadline_ns;
	kc_req_submit(kc_link_pick(s, kc_place_shard(s->shard_seed, s->shards, key.data, key.len)), *out, wait);
	return 0;
}

/* ---- calls about one key, without its value ---- */

int kc_keyed_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, enum kvc_op op,
		   int (*fn_await)(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call,
				   struct kc_trace *t))
{
	uint8_t name[KC_SEAL_NAME];
	struct kvc_call own;
	struct kc_trace t;
	int rc = kc_call_begin(c, &t, op, call);
	if (rc < 0)
		return rc;
	rc = kc_key_valid(key) ? kc_call_check(call, &own) : -KV_EINVAL;
	if (rc == 0)
		rc = kc_name_take(c, &key, name);
	if (rc == 0) {
		kc_trace_key(&t, key.data, key.len);
		rc = fn_await(c, key, &own, &t);
	}
	kc_add(&c->count.deletes, op == KVC_OP_DELETE);
	return (int)kc_call_end(c, &t, rc);
}

static int delete_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kc_trace *t)
{
	struct route r;
	int rc = delete_all_await(c, key, call->flags, kc_call_deadline(c, call, 0), false, &r, t);
	return (int)route_down(r.n, call->flags, rc);
}

int kvc_delete_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return kc_keyed_await(client, key, call, KVC_OP_DELETE, delete_await);
}

int kc_delete_at_await(struct kvc_client *c, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_DELETE, .flags = WIRE_DELETE_AT, .key = {key.data, (uint32_t)key.len}};
	struct kvc_call own;
	struct kc_trace t;
	struct route r;
	unsigned tries;
	int rc = kc_call_open(c, &t, KVC_OP_DELETE, call, &own);
	if (rc < 0)
		return rc;
	route_begin(&r, c, key, ROUTE_ONE, own.flags, kc_call_deadline(c, &own, 0));
	do { /* each server has a clock of its own */
		wire.drop.which = kc_clock_at(&r.n->clock, time_ns);
		rc = kc_ask_await(r.n, &wire, r.deadline_ns, NULL, &tries, &t);
	} while (route_next(&r, rc));
	return (int)kc_call_end(c, &t, rc);
}

static int touch_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kc_trace *t)
{
	struct wire_request wire = {
		.type = WIRE_TOUCH, .key = {key.data, (uint32_t)key.len}, .touch.ttl_s = call->ttl_s};
	struct kc_place_set told = {0};
	uint64_t begun_ns = loop_turn_now(c->loop);
	struct route r;
	unsigned tries;
	int rc;
	route_begin(&r, c, key, ROUTE_TOUCH, call->flags, kc_call_deadline(c, call, 0));
	r.told = &told;
	if (r.twice || route_formers(c))
		wire.flags |= WIRE_TOUCH_MARK;
	copies_forget_await(&r);
	rc = kc_ask_route_await(&r, &wire, NULL, &tries, t);
	if (rc == 0 && call->ttl_s)
		kc_owed_note(c, key, begun_ns, call->ttl_s);
	return (int)route_down(r.n, call->flags, rc);
}

int kvc_touch_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return kc_keyed_await(client, key, call, KVC_OP_TOUCH, touch_await);
}

int kvc_ttl_await(struct kvc_client *client, struct kvc_key key, uint64_t *out_left_ms, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_TOUCH, .flags = WIRE_TOUCH_LOOK};
	uint8_t name[KC_SEAL_NAME];
	struct kvc_call own;
	struct kc_look look;
	struct kc_trace t;
	struct route r;
	unsigned tries;
	int rc = kc_call_open(client, &t, KVC_OP_TOUCH, call, &own);
	if (rc < 0)
		return rc;
	rc = kc_key_valid(key) ? kc_name_take(client, &key, name) : -KV_EINVAL;
	if (rc < 0)
		return (int)kc_call_end(client, &t, rc);
	wire.key = (struct wire_bytes){key.data, (uint32_t)key.len};
	kc_trace_key(&t, key.data, key.len);
	route_begin(&r, client, key, ROUTE_LOOK, own.flags, kc_call_deadline(client, &own, 0));
	rc = kc_ask_route_await(&r, &wire, &look, &tries, &t);
	if (rc == 0 && out_left_ms)
		*out_left_ms = look.left_ms;
	return (int)kc_call_end(client, &t, route_down(r.n, own.flags, rc));
}
