/* SPDX-License-Identifier: Apache-2.0 */
/* pull.c -- GETs whose bytes the client reads itself: GET with WIRE_GET_PULL, reply with a lease and posted 0, read,
 * release, checksum.
 *
 * After such a reply only our read touches the destination, and the request ends with it. Giving up is as for a
 * server's writes: quarantine or a fence. A read may outlive its request after a fence, so it has its own entry and a
 * reference to the attachment.
 *
 * The server keeps the bytes unchanged during the lease, counted by us from before sending, and by it with a margin
 * (kvserver/ops/lease.c): a read that ends in time is right. Any other one is -KV_ESTALE and repeated; after the second
 * the server pushes. The checksum exposes a lying server; KVC_NO_VERIFY trusts it. */
#include "kvclient/request/pull.h"

#include <stdlib.h>

#include "kvclient/request/attachment.h"
#include "kvclient/request/life.h"
#include "kvclient/request/private.h"

/* ---- whether ---- */

int kc_pull_check(const struct kvc_client *c, struct kv_error *err)
{
	if (c->pool->options.mode != KVC_MODE_PULL || !c->info.reads_refused)
		return 0;
	return kv_fail(
		err, -KV_ENOTSUP,
		"mode pull: this client cannot read over %s of libfabric %s, which crashes a reader if its peer dies "
		"during the read; use libfabric 1.22 or newer, another provider, or mode push or auto",
		c->info.provider, c->info.libfabric);
}

int kc_pulls_init(struct kvc_client *c)
{
	struct kc_pulls *p = &c->requests->pulls;
	if (p->pull)
		return 0;
	p->pull = calloc(c->reqs.count, sizeof(*p->pull));
	if (!p->pull)
		return -KV_ENOMEM;
	kv_list_init(&p->free);
	for (uint32_t i = 0; i < c->reqs.count; i++)
		kv_list_add_tail(&p->free, &p->pull[i].node);
	return 0;
}

void kc_pulls_fini(struct kvc_client *c)
{
	free(c->requests->pulls.pull);
	c->requests->pulls = (struct kc_pulls){0};
}

/* ---- reading ---- */

/* The status of a request after its read. late: the lease ended first. */
static int pull_status(struct kvc_client *c, int status, bool late)
{
	if (late && (status == 0 || status == -KV_ETIMEOUT)) {
		kc_add(&c->count.pulls_expired, 1);
		return -KV_ESTALE;
	}
	if (status == 0 || status == -KV_ECANCELED || status == -KV_ERESET || status == -KV_ETIMEOUT ||
	    status == -KV_ECLOSED)
		return status;
	return -KV_EPROVIDER;
}

static void pull_done(struct te_xfer *x, int status)
{
	struct kc_pull *p = x->arg;
	struct kc_link *l = p->link;
	struct kc_attachment *s = l->attachment;
	struct kvc_client *c = s->node->client;
	struct kc_req *r = p->req;
	bool late = loop_now(c->loop) >= p->end_ns;
	p->req = NULL;
	c->requests->pulls.used--;
	kv_list_add_tail(&c->requests->pulls.free, &p->node);
	if (!late)
		kc_release_add(l, p->lease);
	if (r) {
		r->mem.pull = NULL;
		r->status = pull_status(c, status, late);
		kc_add(&c->count.pulls, r->status == 0);
		kc_req_settle(c, r);
	}
	kc_attachment_unref(s);
}

static void pull_fill(struct kc_pull *p, struct kc_req *r, const struct wire_reply *reply, uint64_t length)
{
	struct kc_attachment *s = r->link->attachment;
	uint64_t lease_ns = KV_MIN(reply->get.lease_us * 1000ull, KC_LEASE_MAX_NS);
	p->req = r;
	p->link = r->link;
	p->lease = reply->get.lease;
	p->end_ns = r->at.sent_ns + lease_ns; /* before the server could give the lease */
	p->xfer = (struct te_xfer){.dir = TE_READ,
				   .peer = s->peer[r->link->shard],
				   .link = TE_LINK_ANY,
				   .local = r->mem.region,
				   .local_offset = r->wire.dest.offset,
				   .remote = &s->arenas->shard[r->link->shard],
				   .at = {.offset = reply->get.at, .slice = length, .count = 1},
				   .deadline_ns = KV_MIN(r->deadline_ns, p->end_ns),
				   .done = pull_done,
				   .arg = p};
}

static int pull_begin(struct kvc_client *c, struct kc_req *r, const struct wire_reply *reply, uint64_t length)
{
	struct kv_list *n = kv_list_pop(&c->requests->pulls.free);
	struct kc_pull *p = n ? KV_LIST_ENTRY(n, struct kc_pull, node) : NULL;
	int rc;
	if (!p)
		return -KV_EBUSY; /* all reads wait for a fence */
	pull_fill(p, r, reply, length);
	rc = te_xfer_start(c->te, &p->xfer);
	if (rc < 0) {
		kv_list_add_tail(&c->requests->pulls.free, &p->node);
		if (rc == -KV_EPEERDOWN)
			return -KV_ERESET;
		return rc == -KV_EINVAL ? -KV_EPROTO : rc;
	}
	r->mem.pull = p;
	c->requests->pulls.used++;
	p->link->attachment->refs++;
	return 0;
}

int kc_pull_start(struct kvc_client *c, struct kc_req *r, const struct wire_reply *reply, uint64_t length)
{
	int rc = -KV_EPROTO;
	if (!r->link->attachment->arenas)
		return rc; /* we asked for no lease */
	/* Its call gave up: begin no read. */
	if (r->state != KC_REQ_SENT)
		rc = -KV_ECANCELED;
	else if (r->wire.flags & WIRE_GET_PULL && length > 0)
		rc = pull_begin(c, r, reply, length);
	if (rc < 0)
		kc_release_add(r->link, reply->get.lease);
	return rc;
}

void kc_pull_leave(struct kvc_client *c, struct kc_req *r)
{
	if (!r->mem.pull)
		return;
	te_xfer_cancel(c->te, &r->mem.pull->xfer);
	r->mem.pull->req = NULL;
	r->mem.pull = NULL;
}
