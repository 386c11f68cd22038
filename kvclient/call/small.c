/* SPDX-License-Identifier: Apache-2.0 */
/* small.c -- the calls: get, put, delete, touch, pin, ping, stat, and the roofline.
 *
 * get and put are in get.c and put.c; here they are dressed up. The small ones are one request and one reply, made
 * again while the deadline allows. */
#include "kvclient/call/call.h"
#include "kvclient/pool/placement.h"
#include "kvclient/raw.h"

void kvc_get_count(struct kvc_client *c, int64_t rc)
{
	kvc_add(&c->count.gets, 1);
	if (rc >= 0) {
		kvc_add(&c->count.hits, 1);
		kvc_add(&c->count.bytes_in, (uint64_t)rc);
	} else if (rc == -KV_ENOTFOUND) {
		kvc_add(&c->count.misses, 1);
	}
}

void kvc_put_count(struct kvc_client *c, int rc, uint64_t len)
{
	kvc_add(&c->count.puts, 1);
	if (rc == 0)
		kvc_add(&c->count.bytes_out, len);
}

int64_t kvc_get_await(struct kvc_client *client, struct kvc_key key, void *dst, uint64_t dst_len,
		      const struct kvc_call *call)
{
	struct kvc_call own;
	struct kvc_trace t;
	struct kvc_get g;
	int64_t rc = kvc_call_begin(client, &t, KVC_OP_GET, call);
	if (rc < 0)
		return rc;
	rc = kvc_call_check(call, &own);
	if (rc == 0)
		rc = kvc_get_init(&g, client, key, dst, dst_len, 0, 0, &own, kvc_call_deadline(client, &own, dst_len));
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
	int rc = kvc_call_begin(client, &t, KVC_OP_PUT, call);
	if (rc < 0)
		return rc;
	rc = kvc_call_check(call, &own);
	if (rc == 0)
		rc = kvc_put_init(&p, client, key, data, len, &own, kvc_call_deadline(client, &own, len));
	if (rc == 0) {
		kvc_trace_key(&t, key.data, key.len);
		p.own_wait.trace = &t;
		rc = kvc_put_all_await(&p);
		kvc_put_fini(&p);
		kvc_put_count(client, rc, len);
	}
	return (int)kvc_call_end(client, &t, rc);
}

/* ---- one request, one reply ---- */

/* Send `wire` to a shard of the node (UINT32_MAX: the key's) and wait. stats of a STAT, out_left_ms of a TOUCH, or
 * NULL. */
static int simple_once_await(struct kvc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
			     struct kvc_stats *stats, uint64_t *out_left_ms, struct kvc_trace *t)
{
	struct kvc_client *c = n->client;
	struct kvc_wait wait = {.co = co_self(), .trace = t};
	struct kvc_session *s;
	struct kvc_req *r;
	int rc = kvc_call_room_await(n, &(struct kvc_need){.node = n, .sub = t->sub}, deadline_ns, true, &s, &r);
	if (rc < 0)
		return rc;
	if (shard == UINT32_MAX)
		shard = kvc_place_shard(s->shard_seed, s->shards, wire->key.data, wire->key.len);
	if (shard >= s->shards) {
		kvc_req_release(c, r);
		return 1; /* past the last one */
	}
	r->wire = *wire;
	r->deadline_ns = deadline_ns;
	r->reply.stat = stats;
	kvc_link_submit(kvc_link_pick(s, shard), r, &wait);
	rc = kvc_req_done_await(c, r, deadline_ns);
	if (rc == 0 && out_left_ms)
		*out_left_ms = r->reply.touch.left_ms;
	kvc_req_release(c, r);
	return rc;
}

int kvc_key_request_await(struct kvc_node *n, const struct wire_request *wire, uint64_t deadline_ns,
			  struct kvc_trace *t)
{
	return simple_once_await(n, wire, UINT32_MAX, deadline_ns, NULL, NULL, t);
}

static int simple_await(struct kvc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
			struct kvc_stats *stats, uint64_t *out_left_ms, unsigned *tries, struct kvc_trace *t)
{
	int rc;
	*tries = 0;
	for (unsigned pauses = 0;; ++*tries) {
		rc = simple_once_await(n, wire, shard, deadline_ns, stats, out_left_ms, t);
		if (rc >= 0 || !kvc_call_again_await(n->client, rc, deadline_ns, &pauses))
			return (int)kvc_call_code(n->client, rc);
	}
}

/* How a call about one key went. */
struct keyed {
	unsigned tries; /* before the last one */
	int said;       /* its code, before a server that is down became a miss */
};

static int keyed_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct wire_request *wire,
		       uint64_t *out_left_ms, struct keyed *k, struct kvc_trace *t)
{
	struct kvc_node *n;
	struct kvc_call own;
	*k = (struct keyed){.said = -KV_EINVAL};
	if (!kvc_key_valid(key) || kvc_call_check(call, &own) < 0)
		return -KV_EINVAL;
	if (wire->type == WIRE_TOUCH)
		wire->touch.ttl_s = own.ttl_s;
	wire->key = (struct wire_bytes){key.data, (uint32_t)key.len};
	kvc_trace_key(t, key.data, key.len);
	n = kvc_call_node(c, key);
	k->said = simple_await(n, wire, UINT32_MAX, kvc_call_deadline(c, &own, 0), NULL, out_left_ms, &k->tries, t);
	return (int)kvc_call_down(n, own.flags, k->said);
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
	/* Only the server knows: the miss of one that is down has deleted nothing. */
	if (k.said == 0 || k.said == -KV_ENOTFOUND)
		kvc_pins_deleted(client, key);
	/* An earlier try, whose reply was lost, may be the one that deleted it. */
	if (k.said == -KV_ENOTFOUND && k.tries > 0)
		rc = 0;
	kvc_add(&client->count.deletes, 1);
	return (int)kvc_call_end(client, &t, rc);
}

/* What is pinned is remembered from before its request goes out (pins.c). */
static int pin_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_PIN};
	struct kvc_pin *pin;
	struct keyed k;
	int rc = kvc_key_valid(key) ? 0 : -KV_EINVAL;
	if (rc == 0)
		rc = kvc_pin_begin(kvc_call_node(c, key), t->sub, key, &pin);
	if (rc < 0)
		return rc;
	rc = keyed_await(c, key, call, &wire, NULL, &k, t);
	kvc_pin_end(kvc_call_node(c, key), pin, rc);
	return rc;
}

static int unpin_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_PIN, .flags = WIRE_PIN_RELEASE};
	struct kvc_call own;
	uint64_t deadline, now;
	struct keyed k;
	int rc = kvc_key_valid(key) ? kvc_call_check(call, &own) : -KV_EINVAL;
	if (rc < 0)
		return rc;
	deadline = kvc_call_deadline(c, &own, 0);
	rc = kvc_pin_drop_await(kvc_call_node(c, key), t->sub, key, deadline);
	if (rc < 0)
		return rc;
	now = loop_now(c->loop);
	own.size = sizeof(own);
	own.timeout_ns = deadline > now ? deadline - now : 1;
	return keyed_await(c, key, &own, &wire, NULL, &k, t);
}

static int touch_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_TOUCH};
	struct keyed k;
	return keyed_await(c, key, call, &wire, NULL, &k, t);
}

static int plain_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, enum kvc_op op,
		       int (*fn)(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call,
				 struct kvc_trace *t))
{
	struct kvc_trace t;
	int rc = kvc_call_begin(c, &t, op, call);
	return rc < 0 ? rc : (int)kvc_call_end(c, &t, fn(c, key, call, &t));
}

int kvc_touch_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return plain_await(client, key, call, KVC_OP_TOUCH, touch_await);
}

int kvc_ttl_await(struct kvc_client *client, struct kvc_key key, uint64_t *out_left_ms, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_TOUCH, .flags = WIRE_TOUCH_LOOK};
	struct kvc_trace t;
	struct keyed k;
	int rc = kvc_call_begin(client, &t, KVC_OP_TOUCH, call);
	return rc < 0 ? rc : (int)kvc_call_end(client, &t, keyed_await(client, key, call, &wire, out_left_ms, &k, &t));
}

int kvc_pin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return plain_await(client, key, call, KVC_OP_PIN, pin_await);
}

int kvc_unpin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return plain_await(client, key, call, KVC_OP_PIN, unpin_await);
}

/* ---- all shards of one server, or one ---- */

static int shards_await(struct kvc_client *c, const struct kvc_call *call, const struct wire_request *wire,
			struct kvc_stats *stats, struct kvc_trace *t)
{
	struct kvc_call own;
	uint64_t deadline;
	unsigned tries;
	int rc = 0;
	if (kvc_call_check(call, &own) < 0 || own.server >= c->pool->num_servers)
		return -KV_EINVAL;
	deadline = kvc_call_deadline(c, &own, 0);
	if (own.shard > 0) {
		rc = simple_await(&c->node[own.server], wire, own.shard - 1, deadline, stats, NULL, &tries, t);
		return rc == 1 ? -KV_EINVAL : rc;
	}
	for (uint32_t shard = 0; rc == 0; shard++)
		rc = simple_await(&c->node[own.server], wire, shard, deadline, stats, NULL, &tries, t);
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

/* ---- the roofline ---- */

static int raw_once_await(struct kvc_node *n, unsigned w, const struct kvc_view *view, struct wire_request *wire,
			  uint64_t deadline_ns, struct kvc_trace *t)
{
	struct kvc_client *c = n->client;
	struct kvc_wait wait = {.co = co_self(), .trace = t};
	struct kvc_need need = {.node = n, .sub = t->sub};
	struct kvc_session *s;
	struct kvc_req *r;
	int rc = kvc_node_ready_await(n, deadline_ns, &s);
	if (rc < 0)
		return rc;
	need.imms = kvc_chunks(s, wire->bench.length, KV_MIN((uint64_t)wire->bench.depth, wire->bench.operations));
	rc = kvc_call_room_await(n, &need, deadline_ns, true, &s, &r);
	if (rc < 0)
		return rc;
	r->wire = *wire;
	r->wire.bench.imm = kvc_req_imm(r);
	r->wire.dest = (struct wire_dest){KVC_REGION_BUFFER, (uint32_t)(view->priv[1] / wire->bench.length),
					  view->priv[0], wire->bench.length, wire->bench.length};
	r->deadline_ns = deadline_ns;
	r->caller_memory = true;
	kvc_link_submit(kvc_link_pick(s, w % s->shards), r, &wait);
	rc = kvc_req_done_await(c, r, deadline_ns);
	kvc_req_release(c, r);
	return rc;
}

static uint64_t raw_bytes(uint64_t len, uint64_t ops)
{
	uint64_t bytes;
	return __builtin_mul_overflow(len, ops, &bytes) ? UINT64_MAX : bytes;
}

int kvc_raw_await(struct kvc_client *client, unsigned w, struct kvc_view *view, uint64_t len, uint64_t ops,
		  unsigned depth, uint64_t seed, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_BENCH,
				    .bench = {.operations = ops, .length = len, .seed = seed, .depth = depth}};
	struct kvc_trace t;
	struct kvc_call own;
	int rc;
	if (!view || len == 0 || len > KV_RANGE_MAX || ops == 0 || depth == 0 || view->priv[1] < len)
		return -KV_EINVAL;
	rc = kvc_call_begin(client, &t, KVC_OP_RAW, call);
	if (rc < 0)
		return rc;
	rc = kvc_call_check(call, &own);
	if (rc == 0 && own.server >= client->pool->num_servers)
		rc = -KV_EINVAL;
	if (rc == 0)
		rc = (int)kvc_call_code(client,
					raw_once_await(&client->node[own.server], w, view, &wire,
						       kvc_call_deadline(client, &own, raw_bytes(len, ops)), &t));
	return (int)kvc_call_end(client, &t, rc);
}
