/* SPDX-License-Identifier: Apache-2.0 */
/* twin.c -- the limits of messages once more: the stupid twin of the checks in wire/, with 128-bit arithmetic, one
 * condition a line and no shared code. */
#include "samples.h"

static void assert_inside(const void *at, size_t n, const uint8_t *data, size_t len)
{
	const uint8_t *p = at;
	assert_true(p >= data && p <= data + len && n <= (size_t)(data + len - p));
}

static void assert_dest(const struct wire_dest *d, uint64_t length)
{
	unsigned __int128 all = (unsigned __int128)d->slice * d->count;
	unsigned __int128 end = (unsigned __int128)d->stride * (d->count - 1u) + d->offset + d->slice;
	assert_true(d->count >= 1);
	assert_true(all <= UINT64_MAX);
	assert_true(end <= UINT64_MAX);
	assert_true(all >= length);
}

void assert_request_limits(const struct wire_request *r, const uint8_t *data, size_t len)
{
	assert_true(r->type >= WIRE_GET && r->type < WIRE_TYPES);
	if (r->type == WIRE_GET || r->type == WIRE_PUT || (r->type >= WIRE_DELETE && r->type <= WIRE_PIN)) {
		assert_true(r->key.len >= 1 && r->key.len <= KV_KEY_MAX);
		assert_inside(r->key.data, r->key.len, data, len);
	}
	if (r->type == WIRE_GET) {
		bool leases = r->flags & WIRE_GET_PULL && r->dest.count == 0;
		assert_true(r->get.length <= (leases ? KV_VALUE_MAX : KV_RANGE_MAX));
		assert_true(r->get.offset <= KV_VALUE_MAX);
		if (!leases && (r->get.length || r->dest.count))
			assert_dest(&r->dest, r->get.length);
	}
	if (r->type == WIRE_PUT) {
		assert_true(r->put.total <= KV_VALUE_MAX);
		assert_true((unsigned __int128)r->put.offset + r->put.length <= r->put.total);
		assert_true(r->put.length <= KV_RANGE_MAX);
		assert_true(r->put.inline_data.len <= KV_INLINE_MAX);
		assert_inside(r->put.inline_data.data, r->put.inline_data.len, data, len);
		if (r->put.inline_data.len)
			assert_int_equal(r->put.inline_data.len, r->put.length);
		else if (r->put.length)
			assert_dest(&r->dest, r->put.length);
		if (r->flags & WIRE_PUT_LANDED) {
			assert_int_equal(r->dest.region | r->dest.stride, 0);
			assert_int_equal(r->dest.count, 1);
			assert_int_equal(r->dest.slice, r->put.length);
			assert_true(r->dest.offset <= UINT64_MAX - r->put.length);
		}
		if (r->flags & WIRE_PUT_FIRST)
			assert_int_equal(r->put.stage, 0);
		if (!(r->flags & WIRE_PUT_FIRST) || r->flags & WIRE_PUT_COPY)
			assert_int_equal(r->put.space, 0);
		assert_true(!(r->flags & WIRE_PUT_COPY) || r->flags & WIRE_PUT_FIRST);
		assert_true(!(r->flags & WIRE_PUT_SPARE) || r->flags & WIRE_PUT_COPY);
		assert_true(!(r->flags & WIRE_PUT_SUM_LAST) ||
			    (r->flags & (WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_COPY)) == WIRE_PUT_FIRST);
		assert_true(!(r->flags & WIRE_PUT_SUM_LAST) || r->put.checksum == 0);
		assert_true((r->flags & WIRE_PUT_COPY) != 0 ? r->put.born_ns > 0 : r->put.born_ns == 0);
	}
	if (r->type == WIRE_DELETE) {
		assert_true(!(r->flags & WIRE_DELETE_THIS) || !(r->flags & WIRE_DELETE_AT));
		assert_true(r->flags != 0 || r->drop.which == 0);
		assert_true(r->flags != WIRE_DELETE_THIS || r->drop.which != 0);
	}
	if (r->type == WIRE_TOUCH) {
		assert_true(!(r->flags & WIRE_TOUCH_LOOK) || !(r->flags & (WIRE_TOUCH_MARK | WIRE_TOUCH_AT)));
		assert_true(!(r->flags & WIRE_TOUCH_YOUNG) || !(r->flags & WIRE_TOUCH_AT));
		assert_true(r->flags & (WIRE_TOUCH_YOUNG | WIRE_TOUCH_AT) || r->touch.young_ns == 0);
	}
	if (r->type == WIRE_EXISTS) {
		assert_true(r->exists.count >= 1 && r->exists.count <= WIRE_EXISTS_MAX);
		assert_inside(r->exists.digests, r->exists.count * 8, data, len);
	}
	if (r->type == WIRE_SESSION) {
		assert_int_equal(r->time_left_us, 0);
		assert_int_equal(r->id, 0);
	}
	if (r->type == WIRE_PROVE) {
		assert_true(r->prove.nonce != 0);
		assert_int_equal(r->id, 0);
		assert_int_equal(r->time_left_us, UINT32_MAX);
	}
	if (r->type == WIRE_RELEASE) {
		assert_true(r->release.count >= 1 && r->release.count <= WIRE_RELEASE_MAX);
		assert_inside(r->release.leases, (size_t)r->release.count * 8, data, len);
		assert_int_equal(r->id, 0);
		assert_int_equal(r->time_left_us, UINT32_MAX);
	}
}

void assert_reply_limits(const struct wire_reply *r, const uint8_t *data, size_t len)
{
	assert_true((r->type >= WIRE_GET && r->type <= WIRE_TENANTS) || r->type == WIRE_LEASES);
	if (r->type == WIRE_TOMBS) {
		assert_true(r->tombs.count <= WIRE_TOMBS_MAX);
		assert_inside(r->tombs.tombs, (size_t)r->tombs.count * 16, data, len);
	}
	if (r->type == WIRE_SPACES || r->type == WIRE_TENANTS || r->type == WIRE_LEASES) {
		size_t bytes = r->type == WIRE_TENANTS ? 192 : 120;
		assert_true(r->rows.count <= (r->type == WIRE_TENANTS ? 20u : 33u));
		assert_inside(r->rows.at, r->rows.count * bytes, data, len);
		for (uint32_t i = 0; i < r->rows.count; i++) {
			struct wire_row row;
			wire_row(r->rows.at, i, r->type, &row);
			assert_int_equal(strlen(row.name), r->rows.at[bytes * i]);
			assert_true(kv_space_check(row.name, strlen(row.name)));
		}
	}
	if (r->type == WIRE_GET) {
		assert_true(r->get.inline_data.len <= KV_INLINE_MAX);
		assert_inside(r->get.inline_data.data, r->get.inline_data.len, data, len);
		assert_true(!(r->flags & WIRE_GET_FOLLOWS) || !(r->flags & WIRE_GET_LEASED));
		assert_true(!(r->flags & WIRE_GET_HOT) || r->status == WIRE_OK);
		if (r->flags & (WIRE_GET_FOLLOWS | WIRE_GET_LEASED))
			assert_int_equal(r->get.posted, 0);
		if (r->flags & WIRE_GET_LEASED)
			assert_true(r->get.lease > 0 && r->get.lease_us > 0 && r->get.inline_data.len == 0);
	}
	if (r->type == WIRE_EXISTS) {
		assert_true(r->exists.count <= WIRE_EXISTS_MAX);
		assert_true(r->exists.prefix <= r->exists.count);
		assert_inside(r->exists.bitmap, (r->exists.count + 7) / 8, data, len);
		if (r->flags & WIRE_EXISTS_DELETED)
			assert_inside(r->exists.deleted, (r->exists.count + 7) / 8, data, len);
		if (r->flags & WIRE_EXISTS_TIER)
			assert_inside(r->exists.tier, (r->exists.count + 7) / 8, data, len);
	}
	if (r->type == WIRE_STAT) {
		assert_true(r->stat.count <= WIRE_STAT_MAX);
		assert_inside(r->stat.pairs, (size_t)r->stat.count * 16, data, len);
	}
	if (r->type == WIRE_CANCEL)
		assert_true(r->cancel.state <= WIRE_CANCEL_DONE);
}

static void assert_addr_limits(const struct wire_blob_addr *a, unsigned n)
{
	assert_true(n >= 1 && n <= KV_RAILS_MAX);
	for (unsigned i = 0; i < n; i++)
		assert_true(a[i].len >= 1 && a[i].len <= KV_ADDR_MAX);
}

static void assert_welcome_limits(const struct wire_welcome_msg *w, const uint8_t *data, size_t len)
{
	struct wire_blob_addr a;
	assert_true(w->shards >= 1 && w->shards <= KV_SHARDS_MAX);
	assert_true(w->rails >= 1 && w->rails <= KV_RAILS_MAX);
	assert_true(w->chunk_bytes > 0);
	assert_true(w->value_max <= KV_VALUE_MAX);
	assert_true(memchr(w->node_id, 0, sizeof(w->node_id)) != NULL);
	assert_true(memchr(w->cluster, 0, sizeof(w->cluster)) != NULL);
	assert_inside(w->addrs, w->addrs_len, data, len);
	for (unsigned shard = 0; shard < w->shards; shard++) {
		for (unsigned rail = 0; rail < w->rails; rail++) {
			assert_int_equal(wire_welcome_addr(w, shard, rail, &a), 0);
			assert_addr_limits(&a, 1);
		}
	}
}

void assert_ctrl_limits(const struct wire_ctrl_msg *m, const uint8_t *data, size_t len)
{
	assert_true(m->type >= WIRE_CTRL_HELLO && m->type <= WIRE_CTRL_EVENTS);
	assert_true(m->type != WIRE_CTRL_DRAIN_DONE || kv_drained_valid(&m->drained));
	if (m->type == WIRE_CTRL_HELLO) {
		assert_true(m->hello.version_min <= WIRE_VERSION && m->hello.version_max >= WIRE_VERSION);
		assert_true(m->hello.chunk_bytes > 0);
		assert_true(memchr(m->hello.provider, 0, sizeof(m->hello.provider)) != NULL);
		assert_true(memchr(m->hello.fabric, 0, sizeof(m->hello.fabric)) != NULL);
		assert_true(kv_space_check(m->hello.space, strnlen(m->hello.space, sizeof(m->hello.space))));
		assert_addr_limits(m->hello.addr, m->hello.rails);
	}
	if (m->type == WIRE_CTRL_WELCOME)
		assert_welcome_limits(&m->welcome, data, len);
	if (m->type == WIRE_CTRL_REFUSE)
		assert_true(memchr(m->refuse.text, 0, sizeof(m->refuse.text)) != NULL);
	if (m->type == WIRE_CTRL_REGION || m->type == WIRE_CTRL_ARENA ||
	    (m->type == WIRE_CTRL_LANDING && m->region.len_bytes)) {
		assert_true(m->type == WIRE_CTRL_ARENA || (!m->region.write_emulated && !m->region.read_emulated));
		assert_true(m->region.rails >= 1 && m->region.rails <= KV_RAILS_MAX);
		assert_true((unsigned __int128)m->region.part_bytes * m->region.parts >= m->region.len_bytes);
		assert_true((unsigned __int128)m->region.part_bytes * (m->region.parts - 1u) < m->region.len_bytes);
		assert_inside(m->region.keys, (size_t)m->region.rails * m->region.parts * 16, data, len);
	}
	if (m->type == WIRE_CTRL_ADDRESS)
		assert_addr_limits(m->address.addr, m->address.rails);
	if (m->type == WIRE_CTRL_HEARTBEAT)
		assert_true(m->heartbeat.shards <= KV_SHARDS_MAX);
	if (m->type == WIRE_CTRL_VIEW) {
		struct kv_view v;
		assert_true(m->view.count <= KV_VIEW_MAX && (m->view.epoch || m->view.count == 0));
		assert_inside(m->view.members, m->view.members_len, data, len);
		assert_int_equal(wire_view_take(&m->view, &v), 0);
		assert_int_equal(v.count, m->view.count);
		for (uint32_t i = 0; i < v.count; i++) {
			assert_int_equal(kv_member_check(&v.member[i], NULL), 0);
			assert_true(i == 0 || strcmp(v.member[i - 1].node_id, v.member[i].node_id) < 0);
		}
		kv_view_fini(&v);
	}
	if (m->type == WIRE_CTRL_SESSION_OPEN) {
		assert_true(m->session_open.id > 0);
		assert_true(memchr(m->session_open.identity, 0, sizeof(m->session_open.identity)) != NULL);
		assert_true(kv_space_check(m->session_open.space, strnlen(m->session_open.space, KV_SPACE_MAX + 1)));
	}
	if (m->type == WIRE_CTRL_SESSION_OK)
		assert_true(m->session_ok.id > 0 && m->session_ok.session > 0 && m->session_ok.credits > 0);
	if (m->type == WIRE_CTRL_LOCAL) {
		assert_true((m->local.status == WIRE_OK) == (m->local.name[0] != 0));
		assert_true(memchr(m->local.name, 0, sizeof(m->local.name)) != NULL);
		assert_true(memchr(m->local.text, 0, sizeof(m->local.text)) != NULL);
	}
	if (m->type == WIRE_CTRL_EVENTS) {
		uint32_t at = 0;
		assert_inside(m->events.events, m->events.events_len, data, len);
		for (uint32_t i = 0; i < m->events.count; i++) {
			struct wire_event e;
			assert_int_equal(wire_event_take(m->events.events, m->events.events_len, &at, &e), 0);
			assert_true(e.what >= WIRE_EVENT_STORED && e.what <= WIRE_EVENT_HIDDEN &&
				    e.tier <= WIRE_TIER_DISK);
			assert_true(e.key_len <= KV_KEY_MAX && e.space_len < KV_NAME_MAX);
			assert_true((e.key_len > 0) == (e.what <= WIRE_EVENT_REMOVED));
		}
		assert_int_equal(at, m->events.events_len);
	}
	if (m->type == WIRE_CTRL_SESSION_REFUSE) {
		assert_true(m->session_refuse.id > 0 && m->session_refuse.status != WIRE_OK);
		assert_true(memchr(m->session_refuse.text, 0, sizeof(m->session_refuse.text)) != NULL);
	}
	if (m->type == WIRE_CTRL_SESSION_CLOSE || m->type == WIRE_CTRL_SESSION_CLOSE_OK)
		assert_true(m->session_close.session > 0);
	if (m->type == WIRE_CTRL_SESSION_CLOSE)
		assert_int_equal(m->session_close.requests, 0);
}

/* ---- decode, check, encode again ---- */

int check_requests(const uint8_t *data, size_t len)
{
	uint8_t again[KV_MSG_MAX];
	struct wire_writer w;
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_request r;
	int rc = wire_frame_open(&reader, data, len, &frame);
	if (rc)
		return rc;
	wire_frame_begin(&w, again, sizeof(again), &frame);
	while ((rc = wire_request_next(&reader, &r)) > 0) {
		uint32_t before = w.len;
		assert_request_limits(&r, data, len);
		assert_int_equal(wire_request_add(&w, &r), 0);
		assert_int_equal(w.len - before, wire_request_size(&r));
		assert_ptr_equal(data + w.len, reader.at);
		assert_memory_equal(again + before, data + before, w.len - before);
	}
	if (rc)
		return rc;
	assert_int_equal(wire_frame_end(&w), len);
	assert_memory_equal(again, data, len);
	return frame.records;
}

int check_replies(const uint8_t *data, size_t len)
{
	uint8_t again[KV_MSG_MAX];
	struct wire_writer w;
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply r;
	int rc = wire_frame_open(&reader, data, len, &frame);
	if (rc)
		return rc;
	wire_frame_begin(&w, again, sizeof(again), &frame);
	while ((rc = wire_reply_next(&reader, &r)) > 0) {
		uint32_t before = w.len;
		assert_reply_limits(&r, data, len);
		assert_int_equal(wire_reply_add(&w, &r), 0);
		assert_ptr_equal(data + w.len, reader.at);
		assert_memory_equal(again + before, data + before, w.len - before);
	}
	if (rc)
		return rc;
	assert_int_equal(wire_frame_end(&w), len);
	assert_memory_equal(again, data, len);
	return frame.records;
}

int check_ctrl(const uint8_t *data, size_t len)
{
	struct wire_ctrl_msg m;
	uint8_t *again;
	int rc = wire_ctrl_decode(data, len, &m);
	if (rc)
		return rc;
	assert_int_equal(wire_ctrl_length(data, len), len);
	assert_ctrl_limits(&m, data, len);
	again = malloc(len);
	assert_non_null(again);
	assert_int_equal(wire_ctrl_encode(&m, again, len), len);
	assert_memory_equal(again, data, len);
	free(again);
	return 1;
}
