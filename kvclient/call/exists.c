/* SPDX-License-Identifier: Apache-2.0 */
/* exists.c -- EXISTS: which of many keys are there.
 *
 * Keys are looked at in windows of 512. Within a window they are grouped by (node, shard). The keys of a group are
 * packed into as many records as they need, each in a piece of the receive buffer (the caller's stack is a
 * coroutine's). All records of the window are out together. The bitmap of a record is merged by walking over its group
 * again, from the record's first key. Two walks instead of a table of indices need no allocation. What was packed is
 * not looked at again, because peers can write to the receive buffer.
 *
 * The prefix is counted over the merged result, since a prefix crosses servers. */
#include "kvclient/call/exists.h"

#include "kvclient/call/call.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"

enum {
	WINDOW = KVC_EXISTS_WINDOW,
	RECORDS_MAX = 32,    /* records out at once */
	SENT = 0x8000,       /* added to the node of a key that is in a record */
	NOT_PLACED = 0xFFFF, /* the key's server is down */
	/* How many bytes of keys a record may have so that it fits a frame by itself. */
	PACKED_MAX = KV_MSG_MAX - WIRE_FRAME_HEADER - WIRE_PROVE_BYTES - WIRE_SESSION_BYTES - WIRE_RECORD_HEADER - 16
};

struct window {
	struct kvc_client *c;
	struct kvc_session *session;
	const struct kvc_key *key;
	unsigned n;
	uint64_t deadline_ns;
	bool down_is_miss;
	uint16_t node[WINDOW];
	uint8_t shard[WINDOW];
	uint8_t found[WINDOW / 8];
	struct kvc_wait wait;
	struct record {
		struct kvc_req *req;
		uint16_t first, node, count;
		uint8_t shard;
	} record[RECORDS_MAX];
	unsigned records;
};

static bool same_group(const struct window *w, unsigned i, unsigned node, unsigned shard)
{
	return w->node[i] == node && w->shard[i] == shard;
}

/* Whether a request to the node that ended with rc says that its keys are not there. */
static bool is_miss(const struct window *w, const struct kvc_node *n, int rc)
{
	return (w->down_is_miss && kvc_node_down(n, rc)) || rc == -KV_ELEFT;
}

/* Find the node and shard of every key of the window. Waits for servers that are being connected. */
static int window_place_await(struct window *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct kvc_node *n = kvc_call_node(w->c, w->key[i]);
		struct kvc_attachment *s;
		int rc = kvc_node_ready_await(n, w->deadline_ns, &s);
		if (is_miss(w, n, rc)) {
			w->node[i] = NOT_PLACED;
			continue;
		}
		if (rc < 0)
			return rc;
		w->node[i] = (uint16_t)n->index;
		w->shard[i] = (uint8_t)kvc_place_shard(s->shard_seed, s->shards, w->key[i].data, w->key[i].len);
	}
	return 0;
}

/* Pack keys of one group, from key `first` on, into the request's piece. */
static uint16_t record_pack(struct window *w, struct kvc_req *r, unsigned first, unsigned shard, unsigned node)
{
	uint8_t *buf = kvc_buffer_at(&w->c->buffer, &r->mem.piece);
	uint32_t len = 0, count = 0;
	for (unsigned i = first; i < w->n; i++) {
		if (!same_group(w, i, node, shard))
			continue;
		if (wire_keys_add(buf, PACKED_MAX, &len, w->key[i].data, (uint32_t)w->key[i].len) < 0)
			break;
		w->node[i] |= SENT;
		count++;
	}
	r->wire.type = WIRE_EXISTS;
	r->wire.exists.count = count;
	r->wire.exists.keys = (struct wire_keys){buf, buf + len, count};
	return (uint16_t)count;
}

static int record_send_await(struct window *w, unsigned first)
{
	unsigned node = w->node[first], shard = w->shard[first];
	struct kvc_need need = {.piece_bytes = KVC_PIECE_MIN, .node = &w->c->node[node], .session = w->session};
	struct kvc_attachment *s;
	struct kvc_req *r;
	int rc = kvc_call_room_await(&w->c->node[node], &need, w->deadline_ns, w->records == 0, &s, &r);
	if (rc < 0)
		return rc;
	if (shard >= s->shards) {
		kvc_req_release(w->c, r);
		return -KV_ERESET; /* it was placed for an attachment that is gone */
	}
	w->record[w->records++] = (struct record){.req = r,
						  .first = (uint16_t)first,
						  .node = (uint16_t)node,
						  .count = record_pack(w, r, first, shard, node),
						  .shard = (uint8_t)shard};
	r->deadline_ns = w->deadline_ns;
	kvc_req_submit(kvc_link_pick(s, shard), r, &w->wait);
	return 0;
}

/* Merge the bitmap of a record: its keys are the first `count` of its group from `first` on. */
static void record_merge(struct window *w, const struct record *rec)
{
	const uint8_t *bitmap = rec->req->reply.exists.bitmap;
	unsigned bit = 0;
	for (unsigned i = rec->first; bit < rec->count; i++) {
		if (!same_group(w, i, rec->node | SENT, rec->shard))
			continue;
		if (bitmap[bit / 8] >> (bit % 8) & 1)
			w->found[i / 8] |= (uint8_t)(1u << (i % 8));
		bit++;
	}
}

static int records_finish_await(struct window *w)
{
	int first_rc = 0;
	for (unsigned i = 0; i < w->records; i++) {
		struct record *rec = &w->record[i];
		int rc = kvc_call_done_await(w->c, rec->req, w->deadline_ns);
		if (rc == 0)
			record_merge(w, rec);
		else if (first_rc == 0 && !is_miss(w, &w->c->node[rec->node], rc))
			first_rc = rc;
		kvc_req_release(w->c, rec->req);
	}
	w->records = 0;
	return first_rc;
}

static int window_once_await(struct window *w)
{
	int rc = window_place_await(w);
	memset(w->found, 0, sizeof(w->found));
	w->records = 0;
	for (unsigned i = 0; i < w->n && rc == 0; i++) {
		while (rc == 0 && !(w->node[i] & SENT)) {
			if (w->records < RECORDS_MAX)
				rc = record_send_await(w, i);
			if (rc < 0 && is_miss(w, &w->c->node[w->node[i]], rc)) {
				w->node[i] = NOT_PLACED; /* its server went down after the key was placed */
				rc = 0;
			}
			if (rc == -KV_EBUSY || w->records == RECORDS_MAX)
				rc = records_finish_await(w);
		}
	}
	if (rc < 0) {
		records_finish_await(w);
		return rc;
	}
	return records_finish_await(w);
}

static int window_await(struct window *w)
{
	unsigned tries = 0;
	int rc;
	do
		rc = window_once_await(w);
	while (rc < 0 && kvc_call_again_await(w->c, rc, w->deadline_ns, &tries));
	return (int)kvc_call_code(w->c, rc);
}

static int exists_await(struct kvc_client *c, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
			unsigned *out_prefix, const struct kvc_call *call, struct kvc_trace *t)
{
	struct window w = {.c = c,
			   .session = call->session,
			   .wait = {.co = co_self(), .trace = t},
			   .deadline_ns = kvc_call_deadline(c, call, 0)};
	bool broken = false;
	unsigned prefix = 0;
	w.down_is_miss = (c->pool->options.flags | call->flags) & KVC_DOWN_IS_MISS;
	for (unsigned at = 0; at < n; at += w.n) {
		int rc;
		w.key = keys + at;
		w.n = KV_MIN(n - at, (unsigned)WINDOW);
		rc = window_await(&w);
		if (rc < 0)
			return rc;
		for (unsigned i = 0; i < w.n; i++) {
			bool found = w.found[i / 8] >> (i % 8) & 1;
			if (out_found)
				out_found[at + i] = found;
			broken |= !found;
			prefix += !broken;
		}
	}
	if (out_prefix)
		*out_prefix = prefix;
	return 0;
}

int kvc_exists_window_await(struct kvc_client *c, const struct kvc_key *keys, unsigned n, const struct kvc_call *call,
			    uint64_t deadline_ns, struct kvc_trace *t, uint8_t *out_found)
{
	struct window w = {.c = c,
			   .session = call->session,
			   .key = keys,
			   .n = n,
			   .wait = {.co = co_self(), .trace = t},
			   .deadline_ns = deadline_ns,
			   .down_is_miss = (c->pool->options.flags | call->flags) & KVC_DOWN_IS_MISS};
	int rc = window_await(&w);
	if (rc == 0)
		memcpy(out_found, w.found, sizeof(w.found));
	return rc;
}

int kvc_exists_await(struct kvc_client *client, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
		     unsigned *out_prefix, const struct kvc_call *call)
{
	struct kvc_call own;
	struct kvc_trace t;
	int rc = kvc_call_begin(client, &t, KVC_OP_EXISTS, call);
	if (rc < 0)
		return rc;
	rc = kvc_call_check(call, &own);
	if (!keys && n > 0)
		rc = -KV_EINVAL;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = kvc_key_valid(keys[i]) ? 0 : -KV_EINVAL;
	if (rc == 0)
		rc = exists_await(client, keys, n, out_found, out_prefix, &own, &t);
	kvc_add(&client->count.exists, 1);
	return (int)kvc_call_end(client, &t, rc);
}
