/* SPDX-License-Identifier: Apache-2.0 */
/* samples.c -- random valid messages, comparison, and the limits once more.
 *
 * assert_*_limits is the stupid twin of the checks in wire/: 128-bit arithmetic, one condition a line, no shared code.
 */
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
	r->put.checksum = kv_prng_next(p);
	r->put.ttl_s = (uint32_t)upto(p, UINT32_MAX);
	r->put.stage = r->flags & WIRE_PUT_FIRST ? 0 : upto(p, UINT64_MAX);
	r->put.length = upto(p, carried ? KV_INLINE_MAX : KV_RANGE_MAX);
	r->put.offset = upto(p, KV_VALUE_MAX - r->put.length);
	r->put.total = between(p, r->put.offset + r->put.length, KV_VALUE_MAX);
	if (carried)
		r->put.inline_data = random_bytes(p, s->inlined, r->put.length, r->put.length);
	else if (r->put.length)
		r->dest = random_dest(p, r->put.length);
}

static void random_keys(struct kv_prng *p, struct scratch *s, struct wire_request *r)
{
	uint32_t count = (uint32_t)between(p, 1, WIRE_EXISTS_MAX), max = count > 31 ? 6 : KV_KEY_MAX, len = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct wire_bytes key = random_bytes(p, s->key, 1, max);
		assert_int_equal(wire_keys_add(s->keys, sizeof(s->keys), &len, key.data, key.len), 0);
	}
	r->exists.count = count;
	r->exists.keys = (struct wire_keys){s->keys, s->keys + len, count};
}

void random_request(struct kv_prng *p, struct scratch *s, struct wire_request *r)
{
	*r = (struct wire_request){.type = (uint8_t)between(p, WIRE_GET, WIRE_PROVE),
				   .time_left_us = (uint32_t)upto(p, UINT32_MAX),
				   .id = upto(p, UINT64_MAX)};
	if (r->type == WIRE_GET || r->type == WIRE_PUT || (r->type >= WIRE_DELETE && r->type <= WIRE_PIN))
		r->key = random_bytes(p, s->key, 1, KV_KEY_MAX);
	switch (r->type) {
	case WIRE_GET:
		r->flags = (uint8_t)(kv_prng_below(p, 8) | (kv_prng_below(p, 2) ? WIRE_GET_PULL : 0));
		r->get.offset = upto(p, KV_VALUE_MAX);
		r->get.length = upto(p, KV_RANGE_MAX);
		r->get.generation = upto(p, UINT64_MAX);
		r->get.imm = (uint32_t)kv_prng_next(p);
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
		r->flags = (uint8_t)kv_prng_below(p, 2);
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
	case WIRE_BENCH:
		r->dest = random_dest(p, 1000);
		r->bench.length = upto(p, KV_MIN(KV_RANGE_MAX, r->dest.slice));
		r->bench.operations = upto(p, UINT64_MAX);
		r->bench.seed = kv_prng_next(p);
		r->bench.imm = (uint32_t)kv_prng_next(p);
		r->bench.depth = (uint32_t)upto(p, UINT32_MAX);
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

void random_reply(struct kv_prng *p, struct scratch *s, struct wire_reply *r)
{
	*r = (struct wire_reply){.type = (uint8_t)between(p, WIRE_GET, WIRE_BENCH),
				 .status = (int32_t)upto(p, UINT32_MAX),
				 .id = upto(p, UINT64_MAX),
				 .posted_ns = (uint32_t)upto(p, UINT32_MAX),
				 .replied_ns = (uint32_t)upto(p, UINT32_MAX)};
	switch (r->type) {
	case WIRE_GET:
		r->flags = (uint8_t)kv_prng_below(p, 8);
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
		r->get.posted = (uint32_t)upto(p, UINT32_MAX);
		r->get.inline_data = random_bytes(p, s->inlined, 0, KV_INLINE_MAX);
		break;
	case WIRE_PUT:
		r->flags = (uint8_t)kv_prng_below(p, 4);
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
		r->flags = (uint8_t)kv_prng_below(p, 2);
		break;
	case WIRE_PING:
		r->ping.cookie = kv_prng_next(p);
		r->ping.turns = kv_prng_next(p);
		r->ping.nonce = upto(p, UINT64_MAX);
		break;
	case WIRE_BENCH:
		r->bench.posted = (uint32_t)upto(p, UINT32_MAX);
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
	w->value_max = upto(p, KV_VALUE_MAX);
	kv_prng_fill(p, w->token, sizeof(w->token));
	kv_prng_fill(p, w->host_id, sizeof(w->host_id));
	random_string(p, w->node_id, sizeof(w->node_id));
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

void random_ctrl(struct kv_prng *p, struct scratch *s, struct wire_ctrl_msg *m)
{
	memset(m, 0, sizeof(*m));
	m->type = (enum wire_ctrl)between(p, WIRE_CTRL_HELLO, WIRE_CTRL_ARENA);
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
		m->heartbeat.received = kv_prng_next(p);
		m->heartbeat.shards = (uint16_t)upto(p, KV_SHARDS_MAX);
		for (unsigned i = 0; i < m->heartbeat.shards; i++)
			m->heartbeat.turns[i] = kv_prng_next(p);
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

/* ---- comparison ---- */

/* A field of what was got is that of what was wanted. */
#define SAME(field)       assert_int_equal(got->field, want->field)
#define SAME_TEXT(field)  assert_string_equal(got->field, want->field)
#define SAME_ARRAY(field) assert_memory_equal(got->field, want->field, sizeof(want->field))

static void assert_bytes(struct wire_bytes got, struct wire_bytes want)
{
	assert_int_equal(got.len, want.len);
	if (want.len)
		assert_memory_equal(got.data, want.data, want.len);
}

static void assert_keys(struct wire_keys got, struct wire_keys want)
{
	struct wire_bytes a, b;
	want.left = got.left;
	while (wire_keys_next(&want, &b)) {
		assert_int_equal(wire_keys_next(&got, &a), 1);
		assert_bytes(a, b);
	}
	assert_int_equal(wire_keys_next(&got, &a), 0);
	assert_ptr_equal(got.at, got.end);
	assert_ptr_equal(want.at, want.end);
}

void assert_request(const struct wire_request *got, const struct wire_request *want)
{
	SAME(type);
	SAME(flags);
	SAME(time_left_us);
	SAME(id);
	assert_bytes(got->key, want->key);
	assert_memory_equal(&got->dest, &want->dest, sizeof(want->dest));
	switch (want->type) {
	case WIRE_GET:
		SAME(get.offset);
		SAME(get.length);
		SAME(get.generation);
		SAME(get.imm);
		break;
	case WIRE_PUT:
		SAME(put.total);
		SAME(put.offset);
		SAME(put.length);
		SAME(put.checksum);
		SAME(put.stage);
		SAME(put.ttl_s);
		assert_bytes(got->put.inline_data, want->put.inline_data);
		break;
	case WIRE_EXISTS:
		SAME(exists.count);
		assert_int_equal(got->exists.keys.left, want->exists.count);
		assert_keys(got->exists.keys, want->exists.keys);
		break;
	case WIRE_TOUCH:
		SAME(touch.ttl_s);
		break;
	case WIRE_CANCEL:
		SAME(cancel.id);
		break;
	case WIRE_PING:
		SAME(ping.cookie);
		break;
	case WIRE_BENCH:
		SAME(bench.operations);
		SAME(bench.length);
		SAME(bench.seed);
		SAME(bench.imm);
		SAME(bench.depth);
		break;
	case WIRE_SESSION:
		SAME(session.number);
		break;
	case WIRE_RELEASE:
		SAME(release.count);
		for (uint32_t i = 0; i < want->release.count; i++)
			assert_int_equal(wire_release_lease(got->release.leases, i),
					 wire_release_lease(want->release.leases, i));
		break;
	case WIRE_PROVE:
		SAME(prove.nonce);
		break;
	default:
		break;
	}
}

void assert_reply(const struct wire_reply *got, const struct wire_reply *want)
{
	SAME(type);
	SAME(flags);
	SAME(status);
	SAME(id);
	SAME(posted_ns);
	SAME(replied_ns);
	switch (want->type) {
	case WIRE_GET:
		SAME(get.value_len);
		SAME(get.generation);
		SAME(get.checksum);
		SAME(get.posted);
		assert_bytes(got->get.inline_data, want->get.inline_data);
		SAME(get.lease);
		SAME(get.at);
		SAME(get.lease_us);
		break;
	case WIRE_PUT:
		SAME(put.stage);
		SAME(put.generation);
		break;
	case WIRE_EXISTS:
		SAME(exists.count);
		SAME(exists.prefix);
		if (want->exists.count)
			assert_memory_equal(got->exists.bitmap, want->exists.bitmap, (want->exists.count + 7) / 8);
		break;
	case WIRE_STAT:
		SAME(stat.count);
		for (uint32_t i = 0; i < want->stat.count; i++) {
			uint32_t id[2];
			uint64_t value[2];
			wire_stat_pair(got->stat.pairs, i, &id[0], &value[0]);
			wire_stat_pair(want->stat.pairs, i, &id[1], &value[1]);
			assert_int_equal(id[0], id[1]);
			assert_int_equal(value[0], value[1]);
		}
		break;
	case WIRE_CANCEL:
		SAME(cancel.id);
		SAME(cancel.posted);
		SAME(cancel.state);
		break;
	case WIRE_TOUCH:
		SAME(touch.left_ms);
		break;
	case WIRE_PING:
		SAME(ping.cookie);
		SAME(ping.turns);
		SAME(ping.nonce);
		break;
	case WIRE_BENCH:
		SAME(bench.posted);
		break;
	default:
		break;
	}
}

static void assert_addrs(const struct wire_blob_addr *got, const struct wire_blob_addr *want, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(got[i].len, want[i].len);
		assert_memory_equal(got[i].data, want[i].data, want[i].len);
	}
}

static void assert_hello(const struct wire_hello *got, const struct wire_hello *want)
{
	SAME(version_min);
	SAME(version_max);
	SAME(loops);
	SAME(rails);
	SAME(eager_bytes);
	SAME(chunk_bytes);
	SAME(incarnation);
	SAME(client_id);
	SAME(mark);
	SAME_ARRAY(host_id);
	SAME(prior.session);
	SAME_ARRAY(prior.token);
	SAME_TEXT(provider);
	SAME_TEXT(fabric);
	assert_addrs(got->addr, want->addr, want->rails);
}

static void assert_welcome(const struct wire_welcome_msg *got, const struct wire_welcome_msg *want)
{
	SAME(version);
	SAME(shards);
	SAME(rails);
	SAME(flags);
	SAME(loops);
	SAME(session);
	SAME(chunk_bytes);
	SAME(credits);
	SAME(heartbeat_ms);
	SAME(eager_bytes);
	SAME_ARRAY(token);
	SAME(incarnation);
	SAME(shard_seed);
	SAME(value_max);
	SAME_ARRAY(host_id);
	SAME_TEXT(node_id);
	SAME(addrs_len);
	assert_memory_equal(got->addrs, want->addrs, want->addrs_len);
}

static void assert_region(const struct wire_region *got, const struct wire_region *want)
{
	SAME(id);
	SAME(parts);
	SAME(rails);
	SAME(virt);
	SAME(write_emulated);
	SAME(read_emulated);
	SAME(len_bytes);
	SAME(part_bytes);
	assert_memory_equal(got->keys, want->keys, (size_t)want->rails * want->parts * 16);
}

void assert_ctrl(const struct wire_ctrl_msg *got, const struct wire_ctrl_msg *want)
{
	SAME(type);
	switch (want->type) {
	case WIRE_CTRL_HELLO:
		assert_hello(&got->hello, &want->hello);
		break;
	case WIRE_CTRL_WELCOME:
		assert_welcome(&got->welcome, &want->welcome);
		break;
	case WIRE_CTRL_REFUSE:
		SAME(refuse.status);
		SAME_TEXT(refuse.text);
		break;
	case WIRE_CTRL_REGION:
	case WIRE_CTRL_ARENA:
		assert_region(&got->region, &want->region);
		break;
	case WIRE_CTRL_REGION_OK:
	case WIRE_CTRL_REVOKE:
	case WIRE_CTRL_REVOKE_OK:
	case WIRE_CTRL_ADDRESS_OK:
		SAME(region_ok.id);
		SAME(region_ok.status);
		break;
	case WIRE_CTRL_ADDRESS:
		SAME(address.rails);
		SAME(address.epoch);
		assert_addrs(got->address.addr, want->address.addr, want->address.rails);
		break;
	case WIRE_CTRL_HEARTBEAT:
		SAME(heartbeat.sequence);
		SAME(heartbeat.received);
		SAME(heartbeat.shards);
		assert_memory_equal(got->heartbeat.turns, want->heartbeat.turns,
				    want->heartbeat.shards * sizeof(uint64_t));
		break;
	case WIRE_CTRL_SESSION_CHALLENGE:
		SAME_ARRAY(session_challenge.nonce);
		break;
	case WIRE_CTRL_SESSION_OPEN:
		SAME(session_open.id);
		SAME(session_open.client_id);
		SAME_ARRAY(session_open.nonce);
		SAME_ARRAY(session_open.proof);
		SAME_TEXT(session_open.identity);
		break;
	case WIRE_CTRL_SESSION_OK:
		SAME(session_ok.id);
		SAME(session_ok.session);
		SAME(session_ok.credits);
		break;
	case WIRE_CTRL_SESSION_REFUSE:
		SAME(session_refuse.id);
		SAME(session_refuse.status);
		SAME_TEXT(session_refuse.text);
		break;
	case WIRE_CTRL_SESSION_CLOSE:
	case WIRE_CTRL_SESSION_CLOSE_OK:
		SAME(session_close.session);
		SAME(session_close.requests);
		break;
	default:
		break;
	}
}

/* ---- limits ---- */

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
	assert_true(r->type >= WIRE_GET && r->type <= WIRE_PROVE);
	if (r->type == WIRE_GET || r->type == WIRE_PUT || (r->type >= WIRE_DELETE && r->type <= WIRE_PIN)) {
		assert_true(r->key.len >= 1 && r->key.len <= KV_KEY_MAX);
		assert_inside(r->key.data, r->key.len, data, len);
	}
	if (r->type == WIRE_GET) {
		assert_true(r->get.length <= KV_RANGE_MAX);
		assert_true(r->get.offset <= KV_VALUE_MAX);
		if (r->get.length || r->dest.count)
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
		if (r->flags & WIRE_PUT_FIRST)
			assert_int_equal(r->put.stage, 0);
	}
	if (r->type == WIRE_EXISTS) {
		struct wire_keys keys = r->exists.keys;
		struct wire_bytes key;
		uint32_t n = 0;
		assert_true(r->exists.count >= 1 && r->exists.count <= WIRE_EXISTS_MAX);
		for (; wire_keys_next(&keys, &key); n++) {
			assert_true(key.len >= 1 && key.len <= KV_KEY_MAX);
			assert_inside(key.data, key.len, data, len);
		}
		assert_int_equal(n, r->exists.count);
		assert_ptr_equal(keys.at, keys.end);
	}
	if (r->type == WIRE_BENCH) {
		assert_true(r->bench.length <= KV_RANGE_MAX);
		assert_true(r->bench.length <= r->dest.slice);
		assert_dest(&r->dest, 0);
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
	assert_true(r->type >= WIRE_GET && r->type <= WIRE_BENCH);
	if (r->type == WIRE_GET) {
		assert_true(r->get.inline_data.len <= KV_INLINE_MAX);
		assert_inside(r->get.inline_data.data, r->get.inline_data.len, data, len);
		assert_true(!(r->flags & WIRE_GET_FOLLOWS) || !(r->flags & WIRE_GET_LEASED));
		if (r->flags & (WIRE_GET_FOLLOWS | WIRE_GET_LEASED))
			assert_int_equal(r->get.posted, 0);
		if (r->flags & WIRE_GET_LEASED)
			assert_true(r->get.lease > 0 && r->get.lease_us > 0 && r->get.inline_data.len == 0);
	}
	if (r->type == WIRE_EXISTS) {
		assert_true(r->exists.count <= WIRE_EXISTS_MAX);
		assert_true(r->exists.prefix <= r->exists.count);
		assert_inside(r->exists.bitmap, (r->exists.count + 7) / 8, data, len);
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
	assert_true(m->type >= WIRE_CTRL_HELLO && m->type <= WIRE_CTRL_ARENA);
	if (m->type == WIRE_CTRL_HELLO) {
		assert_true(m->hello.version_min <= WIRE_VERSION && m->hello.version_max >= WIRE_VERSION);
		assert_true(m->hello.chunk_bytes > 0);
		assert_true(memchr(m->hello.provider, 0, sizeof(m->hello.provider)) != NULL);
		assert_true(memchr(m->hello.fabric, 0, sizeof(m->hello.fabric)) != NULL);
		assert_addr_limits(m->hello.addr, m->hello.rails);
	}
	if (m->type == WIRE_CTRL_WELCOME)
		assert_welcome_limits(&m->welcome, data, len);
	if (m->type == WIRE_CTRL_REFUSE)
		assert_true(memchr(m->refuse.text, 0, sizeof(m->refuse.text)) != NULL);
	if (m->type == WIRE_CTRL_REGION || m->type == WIRE_CTRL_ARENA) {
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
	if (m->type == WIRE_CTRL_SESSION_OPEN) {
		assert_true(m->session_open.id > 0);
		assert_true(memchr(m->session_open.identity, 0, sizeof(m->session_open.identity)) != NULL);
	}
	if (m->type == WIRE_CTRL_SESSION_OK)
		assert_true(m->session_ok.id > 0 && m->session_ok.session > 0 && m->session_ok.credits > 0);
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
		assert_int_equal(w.len - before, wire_reply_size(&r));
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
