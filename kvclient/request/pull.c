/* SPDX-License-Identifier: Apache-2.0 */
/* pull.c -- GETs whose bytes we read ourselves, out of the server's memory.
 *
 *   GET with WIRE_GET_PULL -> reply: posted 0 and a lease -> read -> is it over in time? -> release
 *       -> checksum, as ever
 *
 * Whose is the destination? It is named in the request, as for a push: a server that gives no lease writes the bytes,
 * and which of both it does is known with the reply. The reply says posted 0, so from then on only our own read touches
 * the destination. The request is over when that read is, and what holds for writes that a server makes holds for it: a
 * call that gives up lets the piece go to quarantine with its request, or fences for memory of its caller, and a
 * session that ends does the same. So reading right into registered memory is as safe as a push there, and it is done.
 * (Slices are read to a piece and copied: a read fills one place.)
 *
 * A read is the engine's until it is done, and it may outlive its request: after a fence the memory is safe at once,
 * while the engine tells of its operations one by one. Therefore reads have a pool of their own and keep a reference to
 * their session, in which the keys of the arena are.
 *
 * When are the bytes right? The server keeps them unchanged until the lease is over. We count its time from before the
 * request was sent, the server from after it arrived, and it adds something for clocks that differ
 * (kvserver/ops/lease.c). So bytes of a read that was over by then are the value's, and those of any other are not
 * believed, whatever they are: -KV_ESTALE, and the call begins again; after the second time with a push, in case leases
 * are too short for this fabric. The checksum is verified on top of that (get.c), and is what guards against a server
 * that lies. Without it (KVC_NO_VERIFY) a pull is as good as a push: the server is believed. A value of several ranges
 * has one generation in all replies, as always. */
#include "kvclient/request/pull.h"

#include <stdlib.h>

#include "kvclient/request/attachment.h"
#include "kvclient/request/life.h"
#include "kvclient/request/release.h"

/* ---- whether ---- */

int kvc_pull_check(const struct kvc_client *c, struct kv_error *err)
{
	if (c->pool->options.mode != KVC_MODE_PULL || !c->info.reads_refused)
		return 0;
	return kv_fail(
		err, -KV_ENOTSUP,
		"mode pull: this client cannot read over %s of libfabric %s, which crashes a reader whose peer dies "
		"meanwhile; use libfabric 1.22 or newer, another provider, or mode push or auto",
		c->info.provider, c->info.libfabric);
}

int kvc_pulls_init(struct kvc_client *c)
{
	struct kvc_pulls *p = &c->pulls;
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

void kvc_pulls_fini(struct kvc_client *c)
{
	free(c->pulls.pull);
	c->pulls = (struct kvc_pulls){0};
}

/* ---- reading ---- */

/* What came of a read. late: its lease was over before it was. */
static int pull_status(struct kvc_client *c, int status, bool late)
{
	if (late && (status == 0 || status == -KV_ETIMEOUT)) {
		kvc_add(&c->count.pulls_expired, 1);
		return -KV_ESTALE;
	}
	if (status == 0 || status == -KV_ECANCELED || status == -KV_ERESET || status == -KV_ETIMEOUT ||
	    status == -KV_ECLOSED)
		return status;
	return -KV_EPROVIDER;
}

static void pull_done(struct te_xfer *x, int status)
{
	struct kvc_pull *p = x->arg;
	struct kvc_link *l = p->link;
	struct kvc_session *s = l->session;
	struct kvc_client *c = s->node->client;
	struct kvc_req *r = p->req;
	bool late = loop_now(c->loop) >= p->end_ns;
	p->req = NULL;
	c->pulls.used--;
	kv_list_add_tail(&c->pulls.free, &p->node);
	if (!late)
		kvc_release_add(l, p->lease);
	if (r) {
		r->pull = NULL;
		r->status = pull_status(c, status, late);
		kvc_add(&c->count.pulls, r->status == 0);
		kvc_req_settle(c, r);
	}
	kvc_session_unref(s);
}

static void pull_fill(struct kvc_pull *p, struct kvc_req *r, const struct wire_reply *reply, uint64_t length)
{
	struct kvc_session *s = r->link->session;
	uint64_t lease_ns = KV_MIN(reply->get.lease_us * 1000ull, KVC_LEASE_MAX_NS);
	p->req = r;
	p->link = r->link;
	p->lease = reply->get.lease;
	/* Before it was sent, so before the server could give it. */
	p->end_ns = r->at.sent_ns + lease_ns;
	p->xfer = (struct te_xfer){.dir = TE_READ,
				   .peer = s->peer[r->link->shard],
				   .link = TE_LINK_ANY,
				   .local = r->region,
				   .local_offset = r->wire.dest.offset,
				   .remote = &s->arenas->shard[r->link->shard],
				   .at = {.offset = reply->get.at, .slice = length, .count = 1},
				   .deadline_ns = KV_MIN(r->deadline_ns, p->end_ns),
				   .done = pull_done,
				   .arg = p};
}

/* Why a read could not begin. */
static int start_status(int rc)
{
	return rc == -KV_EINVAL ? -KV_EPROTO : rc == -KV_EPEERDOWN ? -KV_ERESET : rc;
}

static int pull_begin(struct kvc_client *c, struct kvc_req *r, const struct wire_reply *reply, uint64_t length)
{
	struct kv_list *n = kv_list_pop(&c->pulls.free);
	struct kvc_pull *p = n ? KV_LIST_ENTRY(n, struct kvc_pull, node) : NULL;
	int rc;
	if (!p)
		return -KV_EBUSY; /* all wait for a fence */
	pull_fill(p, r, reply, length);
	rc = te_xfer_start(c->te, &p->xfer);
	if (rc < 0) {
		kv_list_add_tail(&c->pulls.free, &p->node);
		return start_status(rc);
	}
	r->pull = p;
	c->pulls.used++;
	p->link->session->refs++;
	return 0;
}

int kvc_pull_start(struct kvc_client *c, struct kvc_req *r, const struct wire_reply *reply, uint64_t length)
{
	int rc = -KV_EPROTO;
	if (!r->link->session->arenas)
		return rc; /* nobody asked for a lease */
	/* Given up: nothing is begun any more. */
	if (r->orphan || r->cancelling)
		rc = -KV_ECANCELED;
	else if (r->wire.flags & WIRE_GET_PULL && length > 0)
		rc = pull_begin(c, r, reply, length);
	if (rc < 0)
		kvc_release_add(r->link, reply->get.lease);
	return rc;
}

void kvc_pull_leave(struct kvc_client *c, struct kvc_req *r)
{
	if (!r->pull)
		return;
	te_xfer_cancel(c->te, &r->pull->xfer);
	r->pull->req = NULL;
	r->pull = NULL;
}
