/* SPDX-License-Identifier: Apache-2.0 */
/* request.c -- requests that outlive their frame, because bytes move for them: begin, answer, free.
 *
 *   request_new --> OPEN -- request_stop --> STOPPED -- request_answer --+
 *                   |                                                    |
 *                   +---------------- request_answer -------------> ANSWERED -- nothing moves --> FREE
 *
 *   each of its moves:  OVER -- started --> POSTING -- all is posted, or stopped --> POSTED -- done --> OVER
 *
 * Only request_enter changes a request's state. An answered request posts nothing. A live request holds a reference to
 * its block and to its region, so neither is freed under the NIC. If the length is no multiple of the slice, the
 * shorter last slice is a second transfer. Hence two moves. */
#include "kvserver/shard/request.h"

#include "kvserver/shard/reply.h"

/* States advance in order: one may be skipped, none returns. */
static void request_enter(struct request *r, enum request_state to)
{
	KV_ASSERT_HOT(to > r->state && (to != REQUEST_FREE || r->state == REQUEST_ANSWERED));
	r->state = (uint8_t)to;
}

/* A client without an end, or with one in days, does not keep blocks and stages that long. */
static uint64_t deadline_of(const struct wire_request *q, uint64_t now_ns)
{
	uint64_t ns = q->time_left_us * 1000ull;
	return kv_deadline(now_ns, KV_MIN(ns, SHARD_REQUEST_NS));
}

struct request *request_new(struct link *l, const struct wire_request *q, const struct request_ops *ops,
			    uint64_t now_ns)
{
	struct shard_attachment *s = l->attachment;
	struct request *r = slab_get(&s->shard->requests);
	if (!r)
		return NULL;
	*r = (struct request){
		.attachment = s,
		.session = l->session,
		.link = l,
		.ops = ops,
		.type = q->type,
		.id = q->id,
		.begun_ns = now_ns,
		.deadline_ns = deadline_of(q, now_ns),
		.reply = {.type = q->type, .id = q->id},
	};
	kv_list_add_tail(&s->requests, &r->node);
	s->request_count++;
	l->active++; /* a credit of the link, and one of the session */
	l->session->active++;
	if (KV_UNLIKELY(l->session->tenant != NULL))
		l->session->tenant->active++;
	l->session->requests++;
	return r;
}

static void request_uncount(struct request *r)
{
	r->link->active--;
	r->session->active--;
	if (KV_UNLIKELY(r->session->tenant != NULL))
		r->session->tenant->active--;
}

void request_disown(struct request *r)
{
	request_uncount(r);
	request_enter(r, REQUEST_ANSWERED);
	r->type = 0;
	r->id = 0;
}

void request_free(struct request *r)
{
	struct shard_attachment *s = r->attachment;
	struct session *o = r->session;
	struct shard *shard = s->shard;
	KV_ASSERT_HOT(!request_running(r) && s->request_count > 0); /* rules 3 and 17: nothing moves its bytes */
	request_enter(r, REQUEST_FREE);
	if (r->ops->free)
		r->ops->free(r);
	if (r->block)
		block_unref(&shard->store, r->block);
	if (r->use)
		region_use_release(r->use);
	kv_list_del(&r->node);
	slab_put(&shard->requests, r);
	s->request_count--;
	o->requests--;
	if (KV_UNLIKELY(o->gone != NULL))
		session_request_freed(o);
	shard_attachment_request_freed(s);
}

/* ---- moves ---- */

static struct move *move_of(struct te_xfer *x)
{
	return KV_CONTAINER(x, struct move, xfer);
}

/* A move has posted all (`posted`), or is over: report it to the operation when that is true of both. */
static void request_moved(struct request *r, bool posted)
{
	posted = posted && !request_posting(r);
	if (posted)
		request_posted_now(r);
	if (request_running(r)) {
		if (posted && r->ops->posted)
			r->ops->posted(r);
	} else if (r->state == REQUEST_ANSWERED) {
		request_free(r);
	} else {
		r->ops->done(r);
	}
}

static void move_posted(struct te_xfer *x)
{
	move_of(x)->state = MOVE_POSTED;
	request_moved(x->arg, true);
}

static void move_done(struct te_xfer *x, int status)
{
	struct request *r = x->arg;
	struct move *m = move_of(x);
	bool posting = m->state == MOVE_POSTING;
	m->state = MOVE_OVER;
	m->status = status;
	if (KV_UNLIKELY(x->completed < x->posted) && x->dir == TE_WRITE)
		shard_attachment_lost(r->attachment, x->posted - x->completed);
	request_moved(r, posting);
}

static void move_progress(struct te_xfer *x)
{
	struct request *r = x->arg;
	if (r->ops->progress)
		r->ops->progress(r);
}

static int move_go(struct request *r, struct move *m)
{
	struct shard *shard = r->attachment->shard;
	int rc;
	m->xfer.deadline_ns = r->deadline_ns;
	m->xfer.posting_done = move_posted;
	m->xfer.done = move_done;
	m->xfer.progress = m->xfer.dir == TE_READ ? move_progress : NULL;
	m->xfer.arg = r;
	m->chunks = te_xfer_chunks(shard->te, &m->xfer);
	rc = te_xfer_start(shard->te, &m->xfer);
	m->status = KV_MIN(rc, 0);
	if (rc < 0)
		m->state = MOVE_OVER;
	else
		m->state = rc == 0 ? MOVE_POSTING : MOVE_POSTED;
	return m->status;
}

static int move_start(struct request *r, struct move *m, enum te_dir dir, const struct te_slices *at, uint64_t local,
		      const uint32_t *imm)
{
	m->xfer = (struct te_xfer){
		.dir = dir,
		.peer = r->attachment->peer,
		.link = TE_LINK_ANY,
		.local = r->attachment->shard->region,
		.local_offset = local,
		.remote = &r->use->region->remote,
		.at = *at,
		.with_imm = imm != NULL,
		.imm = imm ? *imm : 0,
	};
	return move_go(r, m);
}

int request_write_move(struct request *r)
{
	if (move_go(r, &r->move[0]) != 0) {
		r->move[0] = (struct move){0};
		return -KV_EBUSY;
	}
	r->follows = true;
	return 0;
}

static void moves_stop(struct request *r)
{
	struct shard *shard = r->attachment->shard;
	for (unsigned i = 0; i < REQUEST_MOVES; i++) {
		struct move *m = &r->move[i];
		if (m->state == MOVE_OVER)
			continue;
		if (shard->te)
			te_xfer_cancel(shard->te, &m->xfer);
		m->state = MOVE_POSTED;
	}
}

int request_move(struct request *r, enum te_dir dir, const struct wire_dest *d, uint64_t block_offset, uint64_t length,
		 const uint32_t *imm)
{
	uint64_t local = r->block->offset + block_offset;
	uint64_t full = length / d->slice, rest = length % d->slice;
	struct te_slices part[REQUEST_MOVES];
	unsigned n = 0;
	if (full)
		part[n++] = (struct te_slices){d->offset, d->stride, d->slice, (uint32_t)full};
	if (rest)
		part[n++] = (struct te_slices){d->offset + full * d->stride, 0, rest, 1};
	for (unsigned i = 0; i < n; i++) {
		int rc = move_start(r, &r->move[i], dir, &part[i], local, imm);
		if (rc && i == 0)
			return rc;
		if (rc)
			moves_stop(r);
		local += full * d->slice;
	}
	return 0;
}

int request_write(struct request *r, const struct wire_dest *d, uint64_t block_offset, uint64_t length, uint32_t imm)
{
	if (d->slice < length)
		return -KV_EBUSY;
	r->move[0].xfer = (struct te_xfer){
		.dir = TE_WRITE,
		.peer = r->attachment->peer,
		.link = r->link->index,
		.local = r->attachment->shard->region,
		.local_offset = r->block->offset + block_offset,
		.remote = &r->use->region->remote,
		.at = {.offset = d->offset, .slice = length, .count = 1},
		.ordered = true,
		.imm = imm,
	};
	return request_write_move(r);
}

void request_stop(struct request *r)
{
	if (r->state == REQUEST_OPEN)
		request_enter(r, REQUEST_STOPPED);
	moves_stop(r);
	if (r->ops->stop)
		r->ops->stop(r);
}

/* ---- the answer ---- */

static uint32_t reply_posted(const struct wire_reply *r)
{
	return r->type == WIRE_GET ? r->get.posted : 0;
}

void request_answer(struct request *r, int32_t status)
{
	struct link *l = r->link;
	uint32_t posted = reply_posted(&r->reply);
	struct wire_bytes key;
	request_enter(r, REQUEST_ANSWERED);
	r->reply.status = status;
	request_uncount(r);
	/* Only the reply itself shows that the bytes have arrived. */
	link_answered(l, r->id, r->follows ? UINT32_MAX : posted);
	if (r->block)
		key = (struct wire_bytes){r->block->item.key, r->block->item.key_len};
	reply_late(l, &r->reply, r->begun_ns, r->posted_ns, r->block ? &key : NULL);
	if (r->has_cancel) {
		struct wire_reply c = {
			.type = WIRE_CANCEL, .id = r->cancel_id, .cancel = {r->id, posted, WIRE_CANCEL_STOPPED}};
		reply_put(l, &c, NULL);
	}
}

void request_end(struct request *r, int32_t status)
{
	request_answer(r, status);
	if (!request_running(r))
		request_free(r);
}
