/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c -- the rooflines: bare writes by the server, which GET is compared with, and by the client, for PUT.
 *
 * The server's are a request like any other. It writes to a borrowed piece, so giving up is what it is for a GET.
 *
 * The client's own go to its landing area (request/bare.c), where PUTs go, too. A PING behind them, over each link that
 * carried some, says that they have arrived. They read memory of the caller. If they do not end in time, the shard is
 * fenced, and the memory is the caller's again; the registration cannot be undone before the engine has told of all. */
#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/waits.h"
#include "kvclient/raw.h"
#include "kvclient/request/bare.h"
#include "kvclient/request/fence.h"
#include "kvclient/request/link.h"
#include "kvclient/transfer/call.h"
#include "kvclient/transfer/memory.h"

#define LOOK_NS  100000000ull /* whether the client closes */
#define PAUSE_NS 1000000ull   /* until PUTs may have given back a part of the area */

/* ---- by the server ---- */

static int raw_once_await(struct kvc_node *n, unsigned w, const struct kvc_borrowed *borrowed,
			  struct wire_request *wire, uint64_t deadline_ns, struct kvc_trace *t)
{
	struct kvc_client *c = n->client;
	struct kvc_wait wait = {.co = co_self(), .trace = t};
	struct kvc_need need = {.node = n, .session = t->session, .background = t->background};
	struct kvc_attachment *s;
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
	r->wire.dest = (struct wire_dest){KVC_REGION_BUFFER, (uint32_t)(borrowed->priv[1] / wire->bench.length),
					  borrowed->priv[0], wire->bench.length, wire->bench.length};
	r->deadline_ns = deadline_ns;
	r->mem.callers = true;
	kvc_req_submit(kvc_link_pick(s, w % s->shards), r, &wait);
	rc = kvc_call_done_await(c, r, deadline_ns);
	kvc_req_release(c, r);
	return rc;
}

static uint64_t raw_bytes(uint64_t len, uint64_t ops)
{
	uint64_t bytes;
	return __builtin_mul_overflow(len, ops, &bytes) ? UINT64_MAX : bytes;
}

int kvc_raw_await(struct kvc_client *client, unsigned w, struct kvc_borrowed *borrowed, uint64_t len, uint64_t ops,
		  unsigned depth, uint64_t seed, const struct kvc_call *call)
{
	struct wire_request wire = {.type = WIRE_BENCH,
				    .bench = {.operations = ops, .length = len, .seed = seed, .depth = depth}};
	struct kvc_trace t;
	struct kvc_call own;
	int rc;
	if (!borrowed || len == 0 || len > KV_RANGE_MAX || ops == 0 || depth == 0 || borrowed->priv[1] < len)
		return -KV_EINVAL;
	rc = kvc_call_open(client, &t, KVC_OP_RAW, call, &own);
	if (rc < 0)
		return rc;
	if (own.server >= client->num_nodes)
		rc = -KV_EINVAL;
	if (rc == 0)
		rc = (int)kvc_call_code(client,
					raw_once_await(kvc_alias_node(client, own.server), w, borrowed, &wire,
						       kvc_call_deadline(client, &own, raw_bytes(len, ops)), &t));
	return (int)kvc_call_end(client, &t, rc);
}

/* ---- by the client ---- */

/* Write all, until the time is up or the client closes: 0, or why not to go on. */
static int bare_write_await(const struct kvc_client *c, struct kvc_bare *b, uint64_t until_ns)
{
	uint64_t now = loop_now(c->loop);
	for (;; now = loop_now(c->loop)) {
		kvc_bare_turn(b);
		if (kvc_bare_over(b) || now >= until_ns || c->closing)
			break;
		co_park_await(KV_MIN(until_ns, now + LOOK_NS));
	}
	return kvc_bare_over(b) ? 0 : c->closing ? -KV_ECLOSED : -KV_ETIMEOUT;
}

static void bare_give_up_await(struct kvc_client *c, struct kvc_attachment *s, unsigned shard, struct kvc_bare *b)
{
	uint64_t grace = loop_now(c->loop) + c->pool->options.grace_ns;
	kvc_bare_stop(b);
	while (!kvc_bare_over(b) && co_park_await(grace) == 0)
		;
	if (kvc_bare_over(b))
		return;
	kvc_client_fence_await(c, s, shard);
	kvc_client_fenced_await(c);
}

/* A PING over the i-th link, before all that waits: a PUT at its head may wait for a piece of the area that we have. */
static int behind_await(struct kvc_node *n, uint64_t attaches, const struct kvc_bare *b, unsigned i,
			uint64_t deadline_ns, struct kvc_trace *t)
{
	struct kvc_link *l = kvc_bare_link(b, i);
	struct kvc_need need = {.node = n, .session = t->session, .background = t->background};
	struct kvc_wait wait = {.co = co_self(), .trace = t};
	struct kvc_req *r;
	int rc = l ? kvc_call_take_await(n, attaches, &need, deadline_ns, true, &r) : 0;
	if (rc == 1)
		return -KV_ERESET;
	if (rc < 0 || !l)
		return rc;
	r->wire = (struct wire_request){.type = WIRE_PING};
	r->deadline_ns = deadline_ns;
	kvc_req_submit_first(l, r, &wait);
	rc = kvc_call_done_await(n->client, r, deadline_ns);
	kvc_req_release(n->client, r);
	return rc;
}

static int bare_once_await(struct kvc_node *n, unsigned w, const struct kvc_bare_ask *ask, struct kvc_trace *t)
{
	struct kvc_attachment *s;
	struct kvc_bare *b;
	uint64_t attaches;
	unsigned shard;
	int rc, why;
	for (;;) {
		rc = kvc_call_ready_await(n, t->session, ask->deadline_ns, true, &s);
		if (rc < 0)
			return rc;
		shard = w % s->shards;
		attaches = n->attaches;
		rc = kvc_bare_start(s, shard, ask, &b);
		if (rc != -KV_EBUSY || n->client->closing || loop_now(n->client->loop) >= ask->deadline_ns)
			break;
		(void)kvc_wait_time_await(n->client, loop_now(n->client->loop) + PAUSE_NS);
	}
	if (rc < 0)
		return rc;
	why = bare_write_await(n->client, b, ask->deadline_ns);
	if (why < 0)
		bare_give_up_await(n->client, s, shard, b);
	for (unsigned i = 0; why == 0 && i < s->links_per_shard; i++)
		why = behind_await(n, attaches, b, i, ask->deadline_ns, t);
	rc = kvc_bare_leave(&b, why == 0);
	return rc < 0 && rc != -KV_ECANCELED ? rc : why;
}

int kvc_raw_put_await(struct kvc_client *client, unsigned w, const void *data, uint64_t data_len, uint64_t len,
		      uint64_t ops, unsigned depth, uint64_t seed, const struct kvc_call *call)
{
	struct kvc_bare_ask ask = {.room = data_len, .len = len, .ops = ops, .depth = depth, .seed = seed};
	struct kvc_trace t;
	struct kvc_call own;
	int rc;
	if (!data || len == 0 || len > data_len || ops == 0 || depth == 0)
		return -KV_EINVAL;
	rc = kvc_call_open(client, &t, KVC_OP_RAW, call, &own);
	if (rc < 0)
		return rc;
	ask.mem = kvc_client_mem_at(client, data, data_len);
	if (!ask.mem || own.server >= client->num_nodes) {
		rc = -KV_EINVAL;
	} else {
		ask.from = (uint64_t)((const uint8_t *)data - ask.mem->base);
		ask.deadline_ns = kvc_call_deadline(client, &own, raw_bytes(len, ops));
		ask.mem->users++; /* it may park before the writes begin */
		rc = (int)kvc_call_code(client, bare_once_await(kvc_alias_node(client, own.server), w, &ask, &t));
		ask.mem->users--;
	}
	return (int)kvc_call_end(client, &t, rc);
}
