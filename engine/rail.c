/* SPDX-License-Identifier: Apache-2.0 */
/* rail.c -- one NIC: its endpoint, its pool of operations, its receives.
 *
 * Credits. At most min(tx depth, CQ depth / 2) operations are posted, and receives for half of the CQ's remaining room;
 * the other half is for immediates. So the provider's queues cannot overflow.
 *
 * Where closing is slow (caps.close_max_ns) pool and receives exist twice: the next endpoint starts while the old one's
 * operations are in OP_LIMBO. A rebuild does not post a receive while its handler reads it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/addr.h"
#include "engine/inside.h"
#include "engine/rail.h"

static uint32_t limit_of(const struct fab_caps *c)
{
	return KV_MAX(1u, KV_MIN(c->tx_depth, c->cq_depth / 2));
}

void rail_depth_take(struct rail *r)
{
	uint32_t limit = KV_MIN(r->pool.limit, limit_of(fab_caps(r->fab)));
	r->pool.withheld = r->pool.limit - limit;
	r->pool.half = r->pool.withheld + limit / 2;
	r->pool.reserve = limit >> TE_RESERVE_SHIFT;
}

static int pool_init(struct rail *r, uint32_t receives, struct kv_error *err)
{
	const struct fab_caps *c = fab_caps(r->fab);
	r->pool.limit = limit_of(c);
	rail_depth_take(r);
	r->recv.count = KV_MAX(1u, c->rx_depth ? KV_MIN(receives, c->rx_depth) : receives);
	r->sets = c->close_max_ns ? 2 : 1;
	uint32_t ops = r->pool.limit * r->sets, recvs = r->recv.count * r->sets;
	r->pool.ops = aligned_alloc(_Alignof(struct op), ops * sizeof(struct op));
	r->recv.set = r->recv.all = aligned_alloc(_Alignof(struct op), recvs * sizeof(struct op));
	if (!r->pool.ops || !r->recv.set) {
		r->pool.limit = r->recv.count = 0; /* closing reads both */
		return kv_fail(err, -KV_ENOMEM, "no memory for the operations of a rail");
	}
	memset(r->pool.ops, 0, ops * sizeof(struct op));
	memset(r->recv.set, 0, recvs * sizeof(struct op));
	for (uint32_t i = 0; i < ops; i++) {
		r->pool.ops[i].next = r->pool.free;
		r->pool.free = &r->pool.ops[i];
	}
	r->pool.credits = r->pool.limit;
	return 0;
}

void rail_device_take(struct rail *r)
{
	const struct fab_caps *c = fab_caps(r->fab);
	snprintf(r->device, sizeof(r->device), "%.20s%s%.40s", c->domain, r->shared && c->local[0] ? " " : "",
		 r->shared ? c->local : "");
}

bool rail_stranded(struct rail *r)
{
	if (!rail_up(r) || !fab_address_gone(r->fab))
		return false;
	if (r->state == RAIL_UP || r->state == RAIL_FRESH) {
		r->state = RAIL_BROKE;
		kv_event(r->te->log, KV_LOG_WARN,
			 KV_EVENT("rail_stranded", KV_NUMBER("rail", r->index), KV_FIELD("device", r->device)),
			 "rail %u (%s): this machine no longer has that address; taking another one of the device",
			 r->index, r->device);
	}
	return true;
}

int rail_open(struct te *te, unsigned index, const struct fab_device *device, const struct te_options *options,
	      struct kv_error *err)
{
	struct rail *r = &te->rails[index];
	struct fab_options fo = {.tx_depth = options->tx_depth,
				 .rx_depth = te->rules.receives,
				 .cq_depth = options->cq_depth,
				 .want_wait_fd = true,
				 .reads_at_own_risk = options->reads_at_own_risk,
				 .door = (enum fab_door)options->door,
				 .log = te->log};
	r->te = te;
	r->index = index;
	r->numa_node = device->numa_node;
	r->shared = device->shared;
	kv_list_init(&r->ready);
	for (unsigned i = 0; i < TE_ADDR_BUCKETS; i++)
		kv_list_init(&r->addrs.bucket[i]);
	int rc = fab_open(device, &fo, &r->fab, err);
	if (rc)
		return rc;
	rail_device_take(r);
	return pool_init(r, te->rules.receives, err);
}

int rail_start(struct rail *r, struct kv_error *err)
{
	struct te *te = r->te;
	uint8_t *buf = (uint8_t *)te->msgs.area.base + (uint64_t)te->msgs.count * KV_MSG_MAX;
	for (unsigned i = 0; i < r->index; i++)
		buf += (uint64_t)te->rails[i].recv.count * te->rails[i].sets * KV_MSG_MAX;
	int rc = fab_mr_reg(r->fab, te->msgs.area.base, te->msgs.area.len_bytes, FAB_MESSAGES, &r->msg_mr, err);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < r->recv.count * r->sets; i++) {
		r->recv.all[i].kind = OP_RECV;
		r->recv.all[i].of.buf = buf + (uint64_t)i * KV_MSG_MAX;
	}
	rail_receives_post(r);
	return 0;
}

void rail_stop(struct rail *r)
{
	fab_close(&r->fab);
	r->msg_mr = NULL;
}

void rail_free(struct rail *r)
{
	for (uint32_t i = 0; r->pool.ops && i < r->pool.limit * r->sets; i++)
		KV_ASSERT(r->pool.ops[i].state == OP_IDLE); /* 2: every operation has ended */
	free(r->pool.ops);
	free(r->recv.all);
	r->pool.ops = r->recv.set = r->recv.all = NULL;
}

/* ---- the pool ---- */

struct op *rail_op_get(struct rail *r, enum op_kind kind)
{
	struct op *op = r->pool.free;
	if (r->pool.credits <= r->pool.withheld + (kind == OP_SEND ? 0 : r->pool.reserve) || !op)
		return NULL;
	r->pool.free = op->next;
	r->pool.credits--;
	op->kind = (uint8_t)kind;
	return op;
}

void rail_op_put(struct rail *r, struct op *op)
{
	KV_ASSERT_HOT(op->kind != OP_FREE && op->kind != OP_RECV); /* 2: an operation ends once */
	op->kind = OP_FREE;
	op->state = OP_IDLE;
	op->next = r->pool.free;
	r->pool.free = op;
	r->pool.credits++;
}

enum post rail_op_posted(struct rail *r, struct op *op, struct addr *a, int rc)
{
	KV_ASSERT_HOT(op->kind != OP_FREE && op->state == OP_IDLE); /* 1: it was not the provider's */
	if (KV_UNLIKELY(rc != 0))
		r->stamp++;
	if (KV_LIKELY(rc == 0) || rc == FAB_HALF) {
		op->state = OP_POSTED;
		op->addr = a;
		a->refs++;
		op->after_break = a->broke;
		return POST_DONE;
	}
	rail_op_put(r, op);
	if (rc == -EAGAIN) {
		r->stats.eagain++;
		return POST_STALLED;
	}
	switch (fab_error_class(rc)) {
	case FAB_ERR_PEER:
		/* Not posted, so retrying is safe: rxm refuses posts for 10 ms after a connection broke, then
		 * reconnects. */
		r->stats.eagain++;
		return POST_STALLED;
	case FAB_ERR_ENDPOINT:
		rail_failed(r);
		return POST_STALLED;
	case FAB_ERR_OP:
		if (rc == -EADDRNOTAVAIL && rail_stranded(r))
			return POST_STALLED;
		break;
	}
	if (rail_log_due(++r->stats.failed_ops))
		kv_warn(r->te->log, "rail %u: posting failed: %s (%llu so far)", r->index, kv_strerror(rc),
			(unsigned long long)r->stats.failed_ops);
	return POST_FAILED;
}

static unsigned set_in_use(const struct rail *r)
{
	return r->recv.set != r->recv.all;
}

/* te_close waits for each endpoint to close, so nothing is in limbo then. */
uint32_t rail_end_posted(struct rail *r, int status)
{
	uint32_t limbo = 0;
	r->recv.left[set_in_use(r)] |= r->sets > 1 && rail_up(r);
	for (uint32_t i = 0; i < r->pool.limit * r->sets; i++) {
		struct op *op = &r->pool.ops[i];
		if (op->state == OP_POSTED && r->sets > 1 && !r->te->closing) {
			op->state = OP_LIMBO;
			op->left = true;
			r->pool.credits++; /* the next endpoint's */
			limbo++;
		} else if (op->state == OP_POSTED || (op->state == OP_LIMBO && r->te->closing)) {
			op->state = OP_ENDED;
			op->status = status;
			r->te->ended.ops = true;
		}
	}
	return limbo;
}

void rail_limbo_end(struct rail *r, int status)
{
	r->recv.left[0] = r->recv.left[1] = false;
	for (uint32_t i = 0; i < r->pool.limit * r->sets; i++) {
		struct op *op = &r->pool.ops[i];
		if (op->state != OP_LIMBO)
			continue;
		op->state = OP_ENDED;
		op->status = status;
		r->te->ended.ops = true;
	}
}

int rails_down(const struct te *te)
{
	if (!fence_down(&te->fence))
		return 0;
	for (unsigned i = 0; i < te->nrails; i++)
		if (te->rails[i].state == RAIL_WAITING)
			return -KV_EBUSY;
	return fence_limbo(&te->fence) ? -KV_EBUSY : -KV_EPROVIDER;
}

/* ---- receives ---- */

void rail_receive_post(struct rail *r, struct op *op)
{
	int rc = fab_recv(r->fab, op->of.buf, KV_MSG_MAX, r->msg_mr, &op->ctx);
	if (rc == 0) {
		op->state = OP_POSTED;
		return;
	}
	op->state = OP_IDLE;
	op->next = r->recv.idle;
	r->recv.idle = op;
	if (rc != -EAGAIN && fab_error_class(rc) != FAB_ERR_PEER)
		rail_failed(r);
}

void rail_receives_retry(struct rail *r)
{
	struct op *op;
	do {
		op = r->recv.idle;
		r->recv.idle = op->next;
		rail_receive_post(r, op);
	} while (op->state == OP_POSTED && r->recv.idle);
}

uint32_t rail_receives(const struct rail *r)
{
	const struct fab_caps *c = fab_caps(r->fab);
	uint32_t ops = r->pool.limit - r->pool.withheld,
		 n = c->rx_depth ? KV_MIN(r->recv.count, c->rx_depth) : r->recv.count;
	/* Half of the rest of the queue: immediates of peers take the other half. */
	return KV_MAX(1u, c->cq_depth > ops ? KV_MIN(n, (c->cq_depth - ops) / 2) : 1u);
}

void rail_receives_post(struct rail *r)
{
	uint32_t n = rail_receives(r);
	/* At most two endpoints are abandoned, and no new one is opened then, so two sets suffice. */
	if (r->recv.left[set_in_use(r)])
		r->recv.set = set_in_use(r) ? r->recv.all : r->recv.all + r->recv.count;
	r->recv.idle = NULL;
	r->recv.failures = 0;
	for (uint32_t i = 0; i < r->recv.count; i++) {
		r->recv.set[i].state = OP_IDLE;
		/* A small or shrunken queue has no room for the last receives. */
		if (i < n && !r->recv.set[i].in_handler)
			rail_receive_post(r, &r->recv.set[i]);
	}
}
