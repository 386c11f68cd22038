/* SPDX-License-Identifier: Apache-2.0 */
/* samples.c -- random valid messages, and bytes in blocks of exactly their size. */
#include "samples.h"

uint8_t *exact_copy(const void *data, size_t len)
{
	uint8_t *p = malloc(len);
	assert_true(p || len == 0);
	if (len)
		memcpy(p, data, len);
	return p;
}

static unsigned nibble(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

uint8_t *unhex(const char *hex, size_t *out_len)
{
	size_t len = strlen(hex) / 2;
	uint8_t *p = malloc(len);
	assert_non_null(p);
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
	*out_len = len;
	return p;
}

/* ---- random valid messages ---- */

/* Small and large numbers alike, with the ends of the interval more often than chance would have it. */
static uint64_t upto(struct kv_prng *p, uint64_t max)
{
	switch (kv_prng_below(p, 6)) {
	case 0:
		return 0;
	case 1:
		return max;
	case 2:
		return kv_prng_below(p, max < 16 ? max + 1 : 16);
	default:
		return max == UINT64_MAX ? kv_prng_next(p) : kv_prng_below(p, max + 1);
	}
}

static uint64_t between(struct kv_prng *p, uint64_t min, uint64_t max)
{
	return min + upto(p, max - min);
}

static struct wire_bytes random_bytes(struct kv_prng *p, uint8_t *into, uint64_t min, uint64_t max)
{
	uint32_t len = (uint32_t)between(p, min, max);
	kv_prng_fill(p, into, len);
	return (struct wire_bytes){into, len};
}

/* A dest whose slices together hold `length`. */
static struct wire_dest random_dest(struct kv_prng *p, uint64_t length)
{
	struct wire_dest d = {.region = (uint32_t)kv_prng_next(p), .count = (uint32_t)between(p, 1, 1000)};
	d.slice = (length + d.count - 1) / d.count + upto(p, 100);
	d.stride = upto(p, (uint64_t)1 << 40);
	d.offset = upto(p, UINT64_MAX - d.slice - d.stride * (d.count - 1));
	return d;
}

static void random_put(struct kv_prng *p, struct scratch *s, struct wire_request *r)
{
	bool carried = kv_prng_below(p, 2);
	r->flags = (uint8_t)kv_prng_below(p, 4);
	if (r->flags & WIRE_PUT_FIRST && kv_prng_below(p, 2)) {
		r->flags |= WIRE_PUT_COPY;
		r->put.born_ns = between(p, 1, UINT64_MAX);
		r->flags |= kv_prng_below(p, 2) ? WIRE_PUT_SPARE : 0;
	}
	if (r->flags == WIRE_PUT_FIRST && kv_prng_below(p, 2))
		r->flags |= WIRE_PUT_SUM_LAST;
	else
		r->put.checksum = kv_prng_next(p);
	r->put.ttl_s = (uint32_t)upto(p, UINT32_MAX);
	if (!(r->flags & WIRE_PUT_COPY))
		*(r->flags & WIRE_PUT_FIRST ? &r->put.space : &r->put.stage) = upto(p, UINT64_MAX);
	r->put.length = upto(p, carried ? KV_INLINE_MAX : KV_RANGE_MAX);
	r->put.offset = upto(p, KV_VALUE_MAX - r->put.length);
	r->put.total = between(p, r->put.offset + r->put.length, KV_VALUE_MAX);
	if (carried)
		r->put.inline_data = random_bytes(p, s->inlined, r->put.length, r->put.length);
	else if (r->put.length && kv_prng_below(p, 2))
		r->dest = random_dest(p, r->put.length);
	else if (r->put.length) {
		r->flags |= WIRE_PUT_LANDED;
		r->dest = (struct wire_dest){
			.count = 1, .offset = upto(p, UINT64_MAX - r->put.length), .slice = r->put.length};
	}
}

static void random_keys(struct kv_prng *p, struct scratch *s, struct wire_request *r)
{
	r->exists.count = (uint32_t)between(p, 1, WIRE_EXISTS_MAX);
	r->exists.digests = s->digests;
	for (uint32_t i = 0; i < r->exists.count; i++)
		wire_exists_put(s->digests, i, kv_prng_next(p));
}

void random_request(struct kv_prng *p, struct scratch *s, struct wire_request *r)
{
	*r = (struct wire_request){.type = (uint8_t)between(p, WIRE_GET, WIRE_TYPES - 1),
				   .time_left_us = (uint32_t)upto(p, UINT32_MAX),
				   .id = upto(p, UINT64_MAX)};
	if (r->type == WIRE_GET || r->type == WIRE_PUT || (r->type >= WIRE_DELETE && r->type <= WIRE_PIN))
		r->key = random_bytes(p, s->key, 1, KV_KEY_MAX);
	switch (r->type) {
	case WIRE_GET:
		r->flags = (uint8_t)(kv_prng_below(p, 16) | (kv_prng_below(p, 2) ? WIRE_GET_PULL : 0) |
				     (kv_prng_below(p, 4) ? 0 : WIRE_GET_MORE));
		r->get.offset = upto(p, KV_VALUE_MAX);
		r->get.length = upto(p, KV_RANGE_MAX);
		r->get.generation = upto(p, UINT64_MAX);
		r->get.imm = (uint32_t)kv_prng_next(p);
		if (r->flags & WIRE_GET_PULL && kv_prng_below(p, 4) == 0)
			r->get.length = upto(p, KV_VALUE_MAX);
		else
			r->dest = random_dest(p, r->get.length);
		break;
	case WIRE_PUT:
		random_put(p, s, r);
		break;
	case WIRE_EXISTS:
		random_keys(p, s, r);
		break;
	case WIRE_TOUCH:
		r->touch.ttl_s = (uint32_t)upto(p, UINT32_MAX);
		r->flags = (uint8_t)kv_prng_below(p, 3);
		if (kv_prng_below(p, 2))
			r->flags |=
				r->flags == WIRE_TOUCH_LOOK || kv_prng_below(p, 2) ? WIRE_TOUCH_YOUNG : WIRE_TOUCH_AT;
		r->touch.young_ns = r->flags & (WIRE_TOUCH_YOUNG | WIRE_TOUCH_AT) ? upto(p, UINT64_MAX) : 0;
		break;
	case WIRE_DELETE:
		r->flags = (uint8_t)kv_prng_below(p, 3);
		r->drop.which = r->flags ? between(p, 1, UINT64_MAX) : 0;
		break;
	case WIRE_PIN:
		r->flags = (uint8_t)kv_prng_below(p, 2);
		break;
	case WIRE_CANCEL:
		r->cancel.id = kv_prng_next(p);
		break;
	case WIRE_PING:
		r->ping.cookie = kv_prng_next(p);
		break;
	case WIRE_TOMBS:
	case WIRE_SPACES:
	case WIRE_TENANTS:
	case WIRE_LEASES:
		r->tombs.from = upto(p, UINT64_MAX);
		break;
	case WIRE_CLEAR:
		r->flags = (uint8_t)kv_prng_below(p, 2);
		r->clear.generation = upto(p, UINT64_MAX);
		break;
	case WIRE_SESSION:
		r->time_left_us = 0;
		r->id = 0;
		r->session.number = (uint32_t)upto(p, UINT32_MAX);
		break;
	case WIRE_RELEASE:
		r->id = 0;
		r->time_left_us = UINT32_MAX;
		r->release.count = (uint32_t)between(p, 1, WIRE_RELEASE_MAX);
		r->release.leases = s->pairs;
		for (uint32_t i = 0; i < r->release.count; i++)
			wire_release_put(s->pairs, i, kv_prng_next(p));
		break;
	case WIRE_PROVE:
		r->id = 0;
		r->time_left_us = UINT32_MAX;
		r->prove.nonce = between(p, 1, UINT64_MAX);
		break;
	default:
		break;
	}
}

static void random_space(struct kv_prng *p, char *out)
{
	static const char *const letters[] = {"a", "Z", " ", "\xc3\xbc", "\xe4\xb8\xad", "\xf0\x9f\x99\x82"};
	size_t len = upto(p, KV_SPACE_MAX), at = 0;
	for (;;) {
		const char *c = letters[kv_prng_below(p, KV_COUNT(letters))];
		if (at + strlen(c) > len)
			break;
		memcpy(out + at, c, strlen(c));
		at += strlen(c);
	}
	out[at] = 0;
}

static void random_rows(struct kv_prng *p, struct scratch *s, struct wire_reply *r)
{
	static const uint32_t most[] = {
		[WIRE_SPACES] = WIRE_SPACES_MAX, [WIRE_TENANTS] = WIRE_TENANTS_MAX, [WIRE_LEASES] = WIRE_LEASES_MAX};
	r->rows.next = upto(p, UINT64_MAX);
	r->rows.floor = r->type == WIRE_SPACES ? upto(p, UINT64_MAX) : 0;
	r->rows.count = (uint32_t)upto(p, most[r->type]);
	r->rows.at = s->pairs;
	for (uint32_t i = 0; i < r->rows.count; i++) {
		struct wire_row row = {.flags = r->type == WIRE_TENANTS ? (uint32_t)kv_prng_below(p, 2) : 0};
		for (unsigned k = 0; k < WIRE_TENANT_NUMBERS; k++)
			row.number[k] = k % 2 ? kv_prng_next(p) : upto(p, UINT64_MAX);
		random_space(p, row.name);
		wire_row_put(s->pairs, i, r->type, &row);
	}
}

void random_reply(struct kv_prng *p, struct scratch *s, struct wire_reply *r)
{
	uint8_t type = (uint8_t)between(p, WIRE_GET, WIRE_TENANTS + 1);
	*r = (struct wire_reply){.type = type > WIRE_TENANTS ? WIRE_LEASES : type,
				 .status = (int32_t)upto(p, UINT32_MAX),
				 .id = upto(p, UINT64_MAX),
				 .posted_ns = (uint32_t)upto(p, UINT32_MAX),
				 .replied_ns = (uint32_t)upto(p, UINT32_MAX)};
	switch (r->type) {
	case WIRE_GET:
		r->flags = (uint8_t)kv_prng_below(p, 8);
		if (kv_prng_below(p, 4) == 0) {
			r->flags |= WIRE_GET_HOT;
			r->status = WIRE_OK;
		}
		r->get.value_len = upto(p, UINT64_MAX);
		r->get.generation = upto(p, UINT64_MAX);
		r->get.checksum = kv_prng_next(p);
		if (kv_prng_below(p, 4) == 0) {
			r->flags |= WIRE_GET_LEASED;
			r->get.lease = between(p, 1, UINT64_MAX);
			r->get.at = upto(p, UINT64_MAX);
			r->get.lease_us = (uint32_t)between(p, 1, UINT32_MAX);
			break;
		}
		if (kv_prng_below(p, 4) == 0) {
			r->flags |= WIRE_GET_FOLLOWS | WIRE_GET_PACK;
			r->status = WIRE_OK;
			r->get.before = (uint32_t)between(p, 1, WIRE_BEFORE_MAX);
			break;
		}
		r->get.posted = (uint32_t)upto(p, UINT32_MAX);
		r->get.inline_data = random_bytes(p, s->inlined, 0, KV_INLINE_MAX);
		break;
	case WIRE_PUT:
		r->flags = (uint8_t)kv_prng_below(p, 16);
		r->put.stage = kv_prng_next(p);
		r->put.generation = kv_prng_next(p);
		break;
	case WIRE_EXISTS:
		r->exists.count = (uint32_t)upto(p, WIRE_EXISTS_MAX);
		r->exists.prefix = (uint32_t)upto(p, r->exists.count);
		r->exists.bitmap = s->bitmap;
		memset(s->bitmap, 0, sizeof(s->bitmap));
		for (uint32_t i = 0; i < r->exists.count; i++)
			s->bitmap[i / 8] |= (uint8_t)(kv_prng_below(p, 2) << i % 8);
		if (kv_prng_below(p, 2)) {
			r->flags |= WIRE_EXISTS_DELETED;
			r->exists.deleted = s->deleted;
			memset(s->deleted, 0, sizeof(s->deleted));
			for (uint32_t i = 0; i < r->exists.count; i++)
				s->deleted[i / 8] |= (uint8_t)(kv_prng_below(p, 2) << i % 8);
		}
		if (kv_prng_below(p, 2)) {
			r->flags |= WIRE_EXISTS_TIER;
			r->exists.tier = s->tier;
			memset(s->tier, 0, sizeof(s->tier));
			for (uint32_t i = 0; i < r->exists.count; i++)
				s->tier[i / 8] |= (uint8_t)(kv_prng_below(p, 2) << i % 8);
		}
		break;
	case WIRE_DELETE:
		r->drop.clock_ns = upto(p, UINT64_MAX);
		r->flags = (uint8_t)kv_prng_below(p, 4);
		break;
	case WIRE_STAT:
		r->stat.pairs = s->pairs;
		for (uint64_t i = upto(p, WIRE_STAT_MAX); i > 0; i--)
			assert_int_equal(wire_stat_add(s->pairs, sizeof(s->pairs), &r->stat.count,
						       (uint32_t)upto(p, UINT32_MAX), kv_prng_next(p)),
					 0);
		break;
	case WIRE_CANCEL:
		r->cancel.id = kv_prng_next(p);
		r->cancel.posted = (uint32_t)upto(p, UINT32_MAX);
		r->cancel.state = (uint32_t)kv_prng_below(p, 3);
		break;
	case WIRE_TOUCH:
		r->touch.left_ms = upto(p, UINT64_MAX);
		r->touch.age_ns = upto(p, UINT64_MAX);
		r->touch.checksum = kv_prng_next(p);
		r->touch.clock_ns = upto(p, UINT64_MAX);
		r->flags = (uint8_t)kv_prng_below(p, 8);
		break;
	case WIRE_PING:
		r->ping.cookie = kv_prng_next(p);
		r->ping.turns = kv_prng_next(p);
		r->ping.nonce = upto(p, UINT64_MAX);
		break;
	case WIRE_TOMBS:
		r->tombs.next = upto(p, UINT64_MAX);
		r->tombs.count = (uint32_t)upto(p, WIRE_TOMBS_MAX);
		r->tombs.known_ms = (uint32_t)upto(p, UINT32_MAX);
		r->flags = (uint8_t)kv_prng_below(p, 2);
		r->tombs.tombs = s->pairs;
		for (uint32_t i = 0; i < r->tombs.count; i++)
			wire_tomb_put(s->pairs, i, kv_prng_next(p), upto(p, UINT64_MAX / 2), upto(p, 1));
		break;
	case WIRE_CLEAR:
		r->flags = (uint8_t)kv_prng_below(p, 2);
		r->clear.generation = upto(p, UINT64_MAX);
		break;
	case WIRE_SPACES:
	case WIRE_TENANTS:
	case WIRE_LEASES:
		random_rows(p, s, r);
		break;
	default:
		break;
	}
}

static void random_string(struct kv_prng *p, char *out, size_t size)
{
	size_t len = upto(p, size - 1);
	for (size_t i = 0; i < len; i++)
		out[i] = (char)(1 + kv_prng_below(p, 255));
	out[len] = 0;
}

static void random_addr(struct kv_prng *p, struct wire_blob_addr *out)
{
	out->len = (uint8_t)between(p, 1, KV_ADDR_MAX);
	kv_prng_fill(p, out->data, out->len);
}

static void random_hello(struct kv_prng *p, struct wire_hello *h)
{
	h->version_min = (uint16_t)kv_prng_below(p, WIRE_VERSION + 1);
	h->version_max = (uint16_t)between(p, WIRE_VERSION, UINT16_MAX);
	h->loops = (uint16_t)kv_prng_next(p);
	h->rails = (uint16_t)between(p, 1, KV_RAILS_MAX);
	h->eager_bytes = (uint32_t)kv_prng_next(p);
	h->chunk_bytes = (uint32_t)between(p, 1, UINT32_MAX);
	h->incarnation = kv_prng_next(p);
	h->client_id = kv_prng_next(p);
	h->mark = (uint32_t)kv_prng_next(p);
	kv_prng_fill(p, h->host_id, sizeof(h->host_id));
	if (kv_prng_below(p, 2)) {
		h->prior.session = (uint32_t)between(p, 1, UINT32_MAX);
		kv_prng_fill(p, h->prior.token, sizeof(h->prior.token));
	}
	random_string(p, h->provider, sizeof(h->provider));
	random_string(p, h->fabric, sizeof(h->fabric));
	random_string(p, h->cluster, sizeof(h->cluster));
	random_space(p, h->space);
	h->generation = upto(p, UINT64_MAX);
	for (unsigned i = 0; i < h->rails; i++)
		random_addr(p, &h->addr[i]);
}

static void random_welcome(struct kv_prng *p, struct scratch *s, struct wire_welcome_msg *w)
{
	w->version = WIRE_VERSION;
	w->shards = (uint16_t)between(p, 1, KV_SHARDS_MAX);
	w->rails = (uint16_t)between(p, 1, KV_RAILS_MAX);
	w->flags = (uint16_t)kv_prng_below(p, 16);
	w->loops = (uint16_t)kv_prng_next(p);
	w->session = (uint32_t)kv_prng_next(p);
	w->chunk_bytes = (uint32_t)between(p, 1, UINT32_MAX);
	w->credits = (uint32_t)kv_prng_next(p);
	w->heartbeat_ms = (uint32_t)kv_prng_next(p);
	w->eager_bytes = (uint32_t)kv_prng_next(p);
	w->incarnation = kv_prng_next(p);
	w->shard_seed = kv_prng_next(p);
	w->generation = upto(p, UINT64_MAX);
	w->cleared_ns = upto(p, UINT64_MAX);
	w->value_max = upto(p, KV_VALUE_MAX);
	w->clock_ns = kv_prng_next(p);
	kv_prng_fill(p, w->token, sizeof(w->token));
	kv_prng_fill(p, w->host_id, sizeof(w->host_id));
	random_string(p, w->node_id, sizeof(w->node_id));
	random_string(p, w->cluster, sizeof(w->cluster));
	w->addrs = s->addrs;
	for (unsigned i = 0; i < (unsigned)w->shards * w->rails; i++) {
		struct wire_blob_addr a;
		random_addr(p, &a);
		assert_int_equal(wire_addr_pack(s->addrs, sizeof(s->addrs), &w->addrs_len, a.data, a.len), 0);
	}
}

static void random_region(struct kv_prng *p, struct scratch *s, struct wire_region *r)
{
	r->id = (uint32_t)kv_prng_next(p);
	r->virt = kv_prng_below(p, 2);
	r->rails = (uint16_t)between(p, 1, KV_RAILS_MAX);
	r->parts = (uint32_t)between(p, 1, sizeof(s->table) / 16 / r->rails);
	r->part_bytes = between(p, 1, (uint64_t)1 << 40);
	r->len_bytes = r->part_bytes * (r->parts - 1) + between(p, 1, r->part_bytes);
	r->keys = s->table;
	for (unsigned rail = 0; rail < r->rails; rail++) {
		for (uint32_t part = 0; part < r->parts; part++)
			wire_region_put(s->table, r->parts, rail, part, kv_prng_next(p), kv_prng_next(p));
	}
}

static void random_name(struct kv_prng *p, char *out, size_t size)
{
	size_t len = between(p, 1, size - 1);
	for (size_t i = 0; i < len; i++)
		out[i] = "abcxyz019.-_"[kv_prng_below(p, 12)];
	out[len] = 0;
}

static void random_view(struct kv_prng *p, struct scratch *s, struct wire_view *w)
{
	struct kv_view v = {.epoch = 1};
	int len;
	for (uint32_t n = (uint32_t)upto(p, 40); n > 0; n--) {
		struct kv_member m = {.incarnation = kv_prng_next(p)};
		m.weight = (uint32_t)between(p, 1, KV_WEIGHT_MAX);
		m.state = (enum kv_member_state)between(p, KV_MEMBER_JOINING, KV_MEMBER_DRAINING);
		random_name(p, m.node_id, sizeof(m.node_id));
		random_name(p, m.zone, kv_prng_below(p, 2) ? sizeof(m.zone) : 2);
		for (unsigned a = 1 + (unsigned)kv_prng_below(p, KV_WHERE_ADDRESSES); a > 0; a--) {
			char one[KV_WHERE_MAX];
			snprintf(one, sizeof(one), a % 2 ? "10.%u.0.1:%u" : "[fd00::%x]:%u",
				 (unsigned)kv_prng_below(p, 256), (unsigned)between(p, 1, 65535));
			assert_true(kv_where_add(m.address, one));
		}
		kv_view_add(&v, &m); /* twice the same name: once is enough */
	}
	len = wire_view_pack(&v, s->table, sizeof(s->table));
	assert_true(len >= 0);
	w->source = kv_prng_next(p);
	w->epoch = (uint64_t)between(p, 1, UINT32_MAX);
	w->count = v.count;
	w->members = s->table;
	w->members_len = (uint32_t)len;
	kv_view_fini(&v);
}

static void random_events(struct kv_prng *p, struct scratch *s, struct wire_events *v)
{
	v->epoch = (uint64_t)between(p, 1, UINT32_MAX);
	v->flags = kv_prng_below(p, 3) ? 0 : WIRE_EVENTS_SNAPSHOT;
	v->first = kv_prng_next(p) >> 1;
	v->events = s->table;
	for (uint32_t n = (uint32_t)upto(p, 40); n > 0; n--) {
		struct wire_event e = {.what = (uint8_t)between(p, WIRE_EVENT_STORED, WIRE_EVENT_HIDDEN),
				       .tier = (uint8_t)kv_prng_below(p, 2),
				       .space_len = (uint8_t)upto(p, 12),
				       .bytes = kv_prng_next(p),
				       .key = s->key,
				       .space = (const uint8_t *)"a namespace!"};
		if (v->flags & WIRE_EVENTS_SNAPSHOT)
			e.what = WIRE_EVENT_STORED;
		if (e.what <= WIRE_EVENT_REMOVED)
			e.key_len = (uint8_t)between(p, 1, KV_KEY_MAX);
		if (e.what == WIRE_EVENT_HIDDEN)
			e.space_len = 0, e.bytes = 0;
		assert_int_equal(wire_event_pack(s->table, sizeof(s->table), &v->events_len, &e), 0);
		v->count++;
	}
	v->next = v->first + v->count;
	if (v->flags & WIRE_EVENTS_SNAPSHOT)
		v->at = (uint32_t)kv_prng_next(p);
	else if (v->count == 0)
		v->flags = WIRE_EVENTS_GAP;
}

void random_ctrl(struct kv_prng *p, struct scratch *s, struct wire_ctrl_msg *m)
{
	memset(m, 0, sizeof(*m));
	m->type = (enum wire_ctrl)between(p, WIRE_CTRL_HELLO, WIRE_CTRL_EVENTS);
	switch (m->type) {
	case WIRE_CTRL_HELLO:
		random_hello(p, &m->hello);
		break;
	case WIRE_CTRL_WELCOME:
		random_welcome(p, s, &m->welcome);
		break;
	case WIRE_CTRL_REFUSE:
		m->refuse.status = (int32_t)kv_prng_next(p);
		random_string(p, m->refuse.text, sizeof(m->refuse.text));
		break;
	case WIRE_CTRL_REGION:
		random_region(p, s, &m->region);
		break;
	case WIRE_CTRL_LANDING:
		random_region(p, s, &m->region);
		if (kv_prng_below(p, 4) == 0) /* none */
			m->region.len_bytes = m->region.part_bytes = m->region.parts = 0;
		break;
	case WIRE_CTRL_ARENA:
		random_region(p, s, &m->region);
		m->region.write_emulated = kv_prng_below(p, 2);
		m->region.read_emulated = kv_prng_below(p, 2);
		break;
	case WIRE_CTRL_REGION_OK:
	case WIRE_CTRL_ADDRESS_OK:
		m->region_ok.status = (int32_t)kv_prng_next(p);
		m->region_ok.id = (uint32_t)kv_prng_next(p);
		break;
	case WIRE_CTRL_REVOKE:
	case WIRE_CTRL_REVOKE_OK:
		m->region_ok.id = (uint32_t)kv_prng_next(p);
		break;
	case WIRE_CTRL_ADDRESS:
		m->address.rails = (uint16_t)between(p, 1, KV_RAILS_MAX);
		m->address.epoch = (uint32_t)kv_prng_next(p);
		for (unsigned i = 0; i < m->address.rails; i++)
			random_addr(p, &m->address.addr[i]);
		break;
	case WIRE_CTRL_HEARTBEAT:
		m->heartbeat.sequence = kv_prng_next(p);
		m->heartbeat.quiet_ms = kv_prng_next(p);
		m->heartbeat.clock_ns = kv_prng_next(p);
		m->heartbeat.shards = (uint16_t)upto(p, KV_SHARDS_MAX);
		for (unsigned i = 0; i < m->heartbeat.shards; i++)
			m->heartbeat.turns[i] = kv_prng_next(p);
		break;
	case WIRE_CTRL_VIEW_NEWS:
		m->view_news.source = kv_prng_next(p);
		m->view_news.epoch = kv_prng_next(p);
		m->view_news.digest = (kv_u128)kv_prng_next(p) << 64 | kv_prng_next(p);
		m->view_news.draining = kv_prng_next(p) & 1;
		break;
	case WIRE_CTRL_DRAIN:
		m->drain.bytes_s = kv_prng_next(p);
		m->drain.time_ms = kv_prng_next(p);
		break;
	case WIRE_CTRL_DRAIN_OK:
		m->drain.time_ms = between(p, 1, UINT64_MAX);
		break;
	case WIRE_CTRL_DRAIN_DONE:
		m->drained.values = m->drained.of = kv_prng_next(p) / 2;
		m->drained.bytes = kv_prng_next(p);
		m->drained.gone = kv_prng_next(p);
		for (unsigned i = 0; i < KV_LEFT_REASONS; i++)
			m->drained.of += m->drained.left[i] = kv_prng_next(p) >> 5;
		break;
	case WIRE_CTRL_LOCAL_ASK:
		kv_prng_fill(p, m->local.boot_id, sizeof(m->local.boot_id));
		break;
	case WIRE_CTRL_LOCAL:
		m->local.status = (int32_t)upto(p, 3);
		kv_prng_fill(p, m->local.nonce, sizeof(m->local.nonce));
		kv_prng_fill(p, m->local.proof, sizeof(m->local.proof));
		random_string(p, m->local.text, sizeof(m->local.text));
		if (m->local.status == WIRE_OK)
			snprintf(m->local.name, sizeof(m->local.name), "@kvrail-%016llx",
				 (unsigned long long)kv_prng_next(p));
		break;
	case WIRE_CTRL_EVENTS_ASK:
		m->events.epoch = kv_prng_next(p);
		m->events.next = kv_prng_next(p);
		m->events.flags = (uint32_t)kv_prng_below(p, 2);
		if (m->events.flags)
			m->events.at = (uint32_t)kv_prng_next(p);
		break;
	case WIRE_CTRL_EVENTS:
		kv_prng_fill(p, s->key, sizeof(s->key));
		random_events(p, s, &m->events);
		break;
	case WIRE_CTRL_VIEW_ASK:
		m->view_news.digest = (kv_u128)kv_prng_next(p) << 64 | kv_prng_next(p);
		break;
	case WIRE_CTRL_VIEW:
		random_view(p, s, &m->view);
		m->view.draining = kv_prng_next(p) & 1;
		break;
	case WIRE_CTRL_SESSION_CHALLENGE:
		kv_prng_fill(p, m->session_challenge.nonce, WIRE_NONCE_LEN);
		break;
	case WIRE_CTRL_SESSION_OPEN:
		m->session_open.id = (uint32_t)between(p, 1, UINT32_MAX);
		m->session_open.client_id = kv_prng_next(p);
		kv_prng_fill(p, m->session_open.nonce, WIRE_NONCE_LEN);
		kv_prng_fill(p, m->session_open.proof, WIRE_PROOF_LEN);
		random_string(p, m->session_open.identity, sizeof(m->session_open.identity));
		random_space(p, m->session_open.space);
		m->session_open.generation = upto(p, UINT64_MAX);
		break;
	case WIRE_CTRL_SESSION_OK:
		m->session_ok.id = (uint32_t)between(p, 1, UINT32_MAX);
		m->session_ok.session = (uint32_t)between(p, 1, UINT32_MAX);
		m->session_ok.credits = (uint32_t)between(p, 1, UINT32_MAX);
		break;
	case WIRE_CTRL_SESSION_REFUSE:
		m->session_refuse.id = (uint32_t)between(p, 1, UINT32_MAX);
		m->session_refuse.status = (int32_t)between(p, 1, UINT32_MAX);
		random_string(p, m->session_refuse.text, sizeof(m->session_refuse.text));
		break;
	case WIRE_CTRL_SESSION_CLOSE:
	case WIRE_CTRL_SESSION_CLOSE_OK:
		m->session_close.session = (uint32_t)between(p, 1, UINT32_MAX);
		m->session_close.requests = m->type == WIRE_CTRL_SESSION_CLOSE ? 0 : kv_prng_next(p);
		break;
	default:
		break;
	}
}
