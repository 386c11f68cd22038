/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c -- packs: small values of the GETs of one frame, in one write.
 *
 * Each value is copied behind the previous one, while its destination begins at the previous one's end (WIRE_GET_PACK).
 * The whole is one ordered write, followed by the replies in one frame.
 *
 * A shard fills one pack at a time, while it takes the records of one frame (frame.c). It is closed before any other
 * posting on its link, and at the end of the frame. If it cannot be posted at once, each GET is served alone
 * (packs.alone, which is get.c's get_alone). The write is a request without id or block, answered from the start
 * (request_disown); the engine owns its buffer, one of PACKS_MAX, until the write has ended. */
#include "kvserver/ops/pack.h"

#include <string.h>

#include "host/host.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"
#include "kvserver/shard/session.h"
#include "kvserver/shard/tenants.h"

int packs_init(struct shard *s, pack_alone_fn *alone, struct kv_error *err)
{
	struct packs *p = &s->work->packs;
	int rc;
	p->alone = alone;
	if (!s->info.ordered)
		return 0;
	rc = kv_area_map((uint64_t)PACKS_MAX * PACK_BYTES, &p->area, err);
	if (rc)
		return rc;
	rc = te_region_register(s->te, p->area.base, p->area.len_bytes, TE_LOCAL, 0, &p->region, err);
	if (rc) {
		kv_area_unmap(&p->area);
		return rc;
	}
	for (p->free = 0; p->free < PACKS_MAX; p->free++)
		p->index[p->free] = p->free;
	return 0;
}

void packs_fini(struct shard *s)
{
	kv_area_unmap(&s->work->packs.area);
}

static uint8_t *pack_buffer(const struct packs *p)
{
	return (uint8_t *)p->area.base + (size_t)p->index[p->free - 1] * PACK_BYTES;
}

static void pack_free(struct request *r)
{
	struct packs *p = &r->attachment->shard->work->packs;
	p->index[p->free++] = r->pack;
}

static const struct request_ops pack_ops = {.free = pack_free};

/* The posting request takes the buffer. */
static bool pack_write(struct packs *p, struct link *l)
{
	const struct pack_entry *first = &p->entry[0];
	struct request *r = request_new(l, &first->q, &pack_ops, first->now_ns);
	if (!r)
		return false;
	request_disown(r);
	r->use = region_use_keep(p->use);
	r->pack = p->index[--p->free];
	r->move[0].xfer = (struct te_xfer){
		.dir = TE_WRITE,
		.peer = r->attachment->peer,
		.link = l->index,
		.local = p->region,
		.local_offset = (uint64_t)r->pack * PACK_BYTES,
		.remote = &p->use->region->remote,
		.at = {.offset = first->q.dest.offset, .slice = p->len, .count = 1},
		.ordered = true,
		.imm = UINT32_MAX, /* not sent: it names no request */
	};
	if (request_write_move(r) == 0)
		return true;
	request_free(r);
	return false;
}

static void entry_reply(struct link *l, struct pack_entry *e)
{
	const uint8_t *value = store_data(&l->attachment->shard->store, e->block);
	if ((e->q.flags & WIRE_GET_SUM_RANGE) && e->length != e->block->len)
		e->reply.get.checksum = kv_hash_block(value + e->q.get.offset, e->length);
	l->attachment->shard->counts.of[WIRE_STAT_BYTES_READ] += e->length;
	if (KV_UNLIKELY(l->session->limited))
		tenant_reads(l->session, e->length, e->now_ns);
	link_answered(l, e->q.id, UINT32_MAX);
	e->reply.flags |= WIRE_GET_FOLLOWS | (e->before ? WIRE_GET_PACK : 0);
	e->reply.get.before = e->before;
	reply_put(l, &e->reply, NULL);
}

void pack_close(struct shard *s)
{
	struct packs *p = &s->work->packs;
	struct link *l = p->link;
	unsigned n = p->entries;
	bool written;
	if (!l)
		return;
	p->link = NULL;
	s->records_end = NULL;
	p->entries = 0;
	written = reply_follow_begin(l, n * REPLY_GET_BYTES) && pack_write(p, l);
	if (written)
		reply_follow(l);
	for (unsigned i = 0; i < n; i++) {
		struct pack_entry *e = &p->entry[i];
		if (written)
			entry_reply(l, e);
		else
			p->alone(l, &e->q, e->block, e->length, &e->reply, e->now_ns);
		block_unref(&s->store, e->block);
	}
}

static bool pack_fits(const struct packs *p, const struct link *l, const struct region_use *u,
		      const struct wire_dest *d)
{
	return p->link == l && p->use == u && p->end == d->offset && p->entries < PACK_ENTRIES &&
	       d->offset + d->slice - p->entry[0].q.dest.offset <= PACK_BYTES;
}

bool pack_add(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	      const struct wire_reply *reply, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	struct packs *p = &s->work->packs;
	struct region_use *u = regions_usable(&l->attachment->regions, &q->dest);
	const struct wire_dest *d = &q->dest;
	if (length > PACK_VALUE_MAX || d->count != 1 || d->slice > PACK_BYTES || !u)
		return false;
	if (!pack_fits(p, l, u, d))
		pack_close(s);
	if (p->free == 0)
		return false;
	if (!p->link) {
		p->link = l;
		s->records_end = pack_close;
		p->use = u;
		p->len = 0;
		p->entry[0].q.dest.offset = d->offset;
	}
	memcpy(pack_buffer(p) + p->len, store_data(&s->store, b) + q->get.offset, length);
	p->entry[p->entries] = (struct pack_entry){*q, *reply, b, length, now_ns, 0};
	p->entry[p->entries++].before = (uint32_t)(d->offset - p->entry[0].q.dest.offset) - p->len;
	p->len += (uint32_t)length;
	p->end = d->offset + d->slice;
	block_ref(b);
	return true;
}
