/* SPDX-License-Identifier: Apache-2.0 */
/* put.c -- a PUT as ranges: FIRST alone (its reply names the server's stage), the middle ones two at a time, LAST
 * alone, which commits.
 *
 * A value of one range is FIRST and LAST at once. Up to KV_INLINE_MAX bytes travel in the request; else the server
 * reads them from the caller's registered memory, from a view, or from a piece of the receive buffer into which they
 * were copied.
 *
 * Where the server must not read (its provider would crash if we died in the middle: WELCOME says so), all bytes travel
 * in requests: FIRST alone, then everything else, LAST too, many at a time.
 *
 * Every range carries the checksum of the whole value: the server refuses to commit anything else. Hence a PUT may be
 * made again after any failure, the same bytes under the same key succeed, and memory that is read late by a server
 * that we gave up on can do no harm there. */
#include "kvclient/call/put.h"

#include "kvclient/call/memory.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"

enum {
	READ_WINDOW = 2,
	INLINE_WINDOW = KVC_WINDOW
}; /* ranges of one PUT in flight; the server keeps up to 64 pieces apart */

static void source_find(struct kvc_put *p)
{
	struct kvc_client *c = p->c;
	const uint8_t *base = c->area.base;
	if (p->len <= KV_INLINE_MAX)
		return;
	if (p->data >= base && p->data < base + c->buffer.len_bytes &&
	    p->len <= c->buffer.len_bytes - (uint64_t)(p->data - base)) {
		p->direct = true;
		p->region = KVC_REGION_BUFFER;
		p->region_offset = (uint64_t)(p->data - base);
		return;
	}
	p->mem = kvc_client_mem_at(c, p->data, p->len);
	if (p->mem) {
		p->mem->users++;
		p->direct = true;
		p->region = p->mem->id;
		p->region_offset = (uint64_t)(p->data - p->mem->base);
	}
}

int kvc_put_init(struct kvc_put *p, struct kvc_client *c, struct kvc_key key, const void *data, uint64_t len,
		 const struct kvc_call *call, uint64_t deadline_ns)
{
	memset(p, 0, sizeof(*p));
	if (!kvc_key_valid(key) || !data || len == 0)
		return -KV_EINVAL;
	if (len > KV_VALUE_MAX)
		return -KV_ETOOBIG;
	p->c = c;
	p->n = kvc_call_node(c, key);
	p->key = key;
	p->data = data;
	p->len = len;
	p->ttl_s = call->ttl_s;
	p->sub = call->session;
	p->deadline_ns = deadline_ns;
	p->own_wait.co = co_self();
	p->wait = &p->own_wait;
	source_find(p);
	return 0;
}

void kvc_put_fini(struct kvc_put *p)
{
	if (p->mem)
		p->mem->users--;
	p->mem = NULL;
}

/* Take the server's word for how bytes travel, before the first range is planned. */
static void mode_set(struct kvc_put *p, const struct kvc_session *s)
{
	p->inlined = s->flags & WIRE_WELCOME_INLINE_PUT;
}

static uint64_t range_max(const struct kvc_put *p)
{
	if (p->inlined)
		return KV_INLINE_MAX;
	return p->direct ? KV_RANGE_MAX : kvc_room_piece(p->c);
}

bool kvc_put_single(struct kvc_put *p)
{
	if (p->n->state == KVC_NODE_UP)
		mode_set(p, p->n->session);
	return p->len <= range_max(p);
}

/* The checksum of the whole value, made when it is first needed: it parks for large ones. */
static uint64_t put_sum_await(struct kvc_put *p)
{
	if (!p->summed)
		p->checksum = kvc_hash_await(p->data, p->len);
	p->summed = true;
	return p->checksum;
}

static void range_fill(struct kvc_put *p, struct kvc_req *r, uint64_t offset, uint64_t length, uint64_t stage)
{
	struct wire_request *w = &r->wire;
	w->type = WIRE_PUT;
	w->flags = (offset == 0 ? WIRE_PUT_FIRST : 0) | (offset + length == p->len ? WIRE_PUT_LAST : 0);
	w->key = (struct wire_bytes){p->key.data, (uint32_t)p->key.len};
	w->put.total = p->len;
	w->put.offset = offset;
	w->put.length = length;
	w->put.checksum = p->checksum;
	w->put.stage = stage;
	w->put.ttl_s = p->ttl_s;
	r->deadline_ns = p->deadline_ns;
	if (p->inlined || p->len <= KV_INLINE_MAX) {
		w->put.inline_data = (struct wire_bytes){p->data + offset, (uint32_t)length};
	} else if (p->direct) {
		r->caller_memory = true;
		w->dest = (struct wire_dest){p->region, 1, p->region_offset + offset, 0, length};
	} else {
		w->dest = (struct wire_dest){KVC_REGION_BUFFER, 1, r->piece.offset, 0, length};
	}
}

int kvc_put_issue_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t stage, bool wait,
			struct kvc_req **out)
{
	bool copy = !p->inlined && !p->direct && p->len > KV_INLINE_MAX;
	struct kvc_need need = {.piece_bytes = copy ? length : 0, .node = p->n, .sub = p->sub};
	struct kvc_session *s;
	int rc;
	put_sum_await(p);
	for (;;) {
		rc = kvc_call_room_await(p->n, &need, p->deadline_ns, wait, &s, out);
		if (rc < 0)
			return rc;
		if (copy)
			kvc_copy_await(kvc_buffer_at(&p->c->buffer, &(*out)->piece), p->data + offset, length);
		if (kvc_node_uses(p->n, s) && p->inlined == !!(s->flags & WIRE_WELCOME_INLINE_PUT))
			break;
		kvc_req_release(p->c, *out);
		if (stage != 0 || !wait || kvc_node_uses(p->n, s))
			return -KV_ERESET; /* the stage went with the session, or what was planned does not fit this one
					    */
	}
	range_fill(p, *out, offset, length, stage);
	kvc_req_submit(kvc_link_pick(s, kvc_place_shard(s->shard_seed, s->shards, p->key.data, p->key.len)), *out,
		       p->wait);
	return 0;
}

/* One range, waited for. *out_done: the value is committed already, by us or by somebody else with the same bytes. */
static int range_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t *stage, bool *out_done)
{
	struct kvc_req *r;
	int rc = kvc_put_issue_await(p, offset, length, *stage, true, &r);
	if (rc < 0)
		return rc;
	rc = kvc_call_done_await(p->c, r, p->deadline_ns);
	if (rc == 0) {
		*stage = r->reply.put.stage;
		*out_done = offset + length == p->len || (r->reply.put.stage == 0 && r->reply.put.generation != 0);
		if (!*out_done && *stage == 0)
			rc = -KV_EPROTO;
	}
	kvc_req_release(p->c, r);
	return rc;
}

/* The ranges from `from` to `to`, several at a time. */
static int ranges_await(struct kvc_put *p, uint64_t from, uint64_t to, uint64_t max, uint64_t stage)
{
	struct kvc_window out = {0};
	struct kvc_req *r;
	int rc = 0;
	do {
		while (out.count < (p->inlined ? INLINE_WINDOW : READ_WINDOW) && from < to) {
			uint64_t n = KV_MIN(max, to - from);
			rc = kvc_put_issue_await(p, from, n, stage, out.count == 0, &r);
			if (rc < 0)
				break;
			kvc_window_add(&out, r);
			from += n;
		}
		if (out.count == 0)
			break;
		rc = kvc_window_next_await(p->c, &out, p->deadline_ns, &r);
		kvc_req_release(p->c, r);
	} while (rc == 0);
	kvc_window_drop_await(p->c, &out);
	return rc;
}

static int put_once_await(struct kvc_put *p)
{
	uint64_t max, first, last, stage = 0;
	struct kvc_session *s;
	bool done = false;
	int rc = kvc_node_ready_await(p->n, p->deadline_ns, &s);
	if (rc < 0)
		return rc;
	mode_set(p, s);
	max = range_max(p);
	first = KV_MIN(p->len, max);
	last = (p->len - 1) / max * max;
	rc = range_await(p, 0, first, &stage, &done);
	if (rc < 0 || done)
		return rc;
	if (p->inlined)
		return ranges_await(p, first, p->len, max, stage);
	rc = ranges_await(p, first, last, max, stage);
	if (rc < 0)
		return rc;
	return range_await(p, last, p->len - last, &stage, &done);
}

int kvc_put_all_await(struct kvc_put *p)
{
	unsigned tries = 0;
	int rc;
	do
		rc = put_once_await(p);
	while (rc < 0 && kvc_call_again_await(p->c, rc, p->deadline_ns, &tries));
	return (int)kvc_call_code(p->c, rc);
}

void kvc_put_count(struct kvc_client *c, int rc, uint64_t len)
{
	kvc_add(&c->count.puts, 1);
	if (rc == 0)
		kvc_add(&c->count.bytes_out, len);
}
