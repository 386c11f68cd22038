/* SPDX-License-Identifier: Apache-2.0 */
/* control.c -- control messages: the length prefix, and a write and a read function per message.
 *
 * These run a few times per connection. Fields are in wire order, through a sticky cursor; one `valid` function holds
 * the limits of both directions. *out is zeroed first. After an error it is partly written; of a HELLO of other
 * versions the version fields count, for the server's REFUSE. A message has one encoding only. Region tables and the
 * addresses of a WELCOME stay in the input.
 *
 * The other side divides by chunk bytes and sizes tables by parts: a chunk is at least one byte, and a region has
 * exactly the parts of its length. */
#include "wire/cursor.h"
#include "wire/wire.h"

enum {
	PREFIX = 4, /* of the length field, not counted in it */
	REGION_VIRTUAL = 1,
	ARENA_WRITE_EMULATED = 2,
	ARENA_READ_EMULATED = 4,
	ARENA_FLAGS = REGION_VIRTUAL | ARENA_WRITE_EMULATED | ARENA_READ_EMULATED,
	ENTRY_BASE = 0, /* in an entry of a region's key table */
	ENTRY_KEY = 8,
	ENTRY_SIZE = 16,
	BLOB_PREFIX = 2
};

_Static_assert(WIRE_CTRL_HEADER == PREFIX + 4, "length, type, zero");
_Static_assert(sizeof(((struct wire_hello *)0)->host_id) == 16 &&
		       sizeof(((struct wire_welcome_msg *)0)->host_id) == 16 && KV_TOKEN_LEN == 16,
	       "host id and token take 16 bytes on the wire");
_Static_assert(KV_ADDR_MAX <= UINT8_MAX, "an address's length fits wire_blob_addr");
_Static_assert(512 + KV_SHARDS_MAX * KV_RAILS_MAX * (BLOB_PREFIX + KV_ADDR_MAX) <= KV_CTRL_MAX,
	       "the largest WELCOME fits");
_Static_assert(64 + KV_VIEW_MAX * WIRE_MEMBER_BYTES <= KV_CTRL_MAX, "the largest VIEW fits");
_Static_assert(64 + KV_SHARDS_MAX * 8 <= KV_CTRL_MAX, "the largest HEARTBEAT fits");

/* ---- strings and blobs ---- */

static void string_write(struct wire_out *o, const char *s, size_t size)
{
	size_t len = strnlen(s, size);
	o->bad |= len == size;
	wire_out_16(o, (uint16_t)len);
	wire_out_copy(o, s, len);
}

/* Read a string into s[size], zeroed. */
static void string_read(struct wire_cur *c, char *s, size_t size)
{
	size_t len = wire_cur_16(c);
	const uint8_t *p = wire_cur_take(c, len);
	wire_cur_check(c, p && len < size && memchr(p, 0, len) == NULL);
	if (!c->bad)
		memcpy(s, p, len);
}

static void blob_write(struct wire_out *o, const struct wire_blob_addr *a)
{
	o->bad |= a->len == 0 || a->len > KV_ADDR_MAX;
	wire_out_16(o, a->len);
	if (!o->bad)
		wire_out_copy(o, a->data, a->len);
}

static void blob_read(struct wire_cur *c, struct wire_blob_addr *out)
{
	size_t len = wire_cur_16(c);
	wire_cur_check(c, len != 0 && len <= KV_ADDR_MAX);
	if (c->bad)
		return;
	out->len = (uint8_t)len;
	wire_cur_copy(c, out->data, len);
}

static void blobs_write(struct wire_out *o, const struct wire_blob_addr *a, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		blob_write(o, &a[i]);
}

static void blobs_read(struct wire_cur *c, struct wire_blob_addr *out, unsigned n)
{
	for (unsigned i = 0; i < n && !c->bad; i++)
		blob_read(c, &out[i]);
}

static bool rails_valid(unsigned rails)
{
	return rails >= 1 && rails <= KV_RAILS_MAX;
}

/* ---- HELLO ---- */

/* Session 0 is "no prior attachment", and then has no token: one encoding. */
static bool prior_valid(const struct wire_prior *p)
{
	static const uint8_t none[KV_TOKEN_LEN];
	return p->session != 0 || memcmp(p->token, none, KV_TOKEN_LEN) == 0;
}

static bool hello_valid(const struct wire_hello *h)
{
	return h->version_min <= h->version_max && rails_valid(h->rails) && h->chunk_bytes != 0 &&
	       prior_valid(&h->prior);
}

static void hello_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_hello *h = &m->hello;
	o->bad |= !hello_valid(h);
	if (o->bad)
		return;
	wire_out_16(o, h->version_min);
	wire_out_16(o, h->version_max);
	wire_out_32(o, h->eager_bytes);
	wire_out_64(o, h->incarnation);
	wire_out_copy(o, h->host_id, sizeof(h->host_id));
	wire_out_64(o, h->client_id);
	wire_out_32(o, h->mark);
	wire_out_32(o, h->chunk_bytes);
	wire_out_16(o, h->loops);
	wire_out_16(o, h->rails);
	wire_out_32(o, h->prior.session);
	wire_out_copy(o, h->prior.token, KV_TOKEN_LEN);
	string_write(o, h->provider, sizeof(h->provider));
	string_write(o, h->fabric, sizeof(h->fabric));
	string_write(o, h->cluster, sizeof(h->cluster));
	blobs_write(o, h->addr, h->rails);
}

static int hello_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_hello *h = &m->hello;
	h->version_min = wire_cur_16(c);
	h->version_max = wire_cur_16(c);
	/* Without a common version the other fields are unknown. */
	if (!c->bad && h->version_min <= h->version_max &&
	    (h->version_min > WIRE_VERSION || h->version_max < WIRE_VERSION))
		return -KV_EVERSION;
	h->eager_bytes = wire_cur_32(c);
	h->incarnation = wire_cur_64(c);
	wire_cur_copy(c, h->host_id, sizeof(h->host_id));
	h->client_id = wire_cur_64(c);
	h->mark = wire_cur_32(c);
	h->chunk_bytes = wire_cur_32(c);
	h->loops = wire_cur_16(c);
	h->rails = wire_cur_16(c);
	h->prior.session = wire_cur_32(c);
	wire_cur_copy(c, h->prior.token, KV_TOKEN_LEN);
	wire_cur_check(c, hello_valid(h));
	string_read(c, h->provider, sizeof(h->provider));
	string_read(c, h->fabric, sizeof(h->fabric));
	string_read(c, h->cluster, sizeof(h->cluster));
	if (!c->bad)
		blobs_read(c, h->addr, h->rails);
	return 0;
}

/* ---- WELCOME ---- */

/* Skip `count` address blobs. */
static void blobs_walk(struct wire_cur *c, unsigned count)
{
	struct wire_blob_addr skipped;
	for (unsigned i = 0; i < count && !c->bad; i++)
		blob_read(c, &skipped);
}

static bool addrs_fill(const struct wire_welcome_msg *w)
{
	struct wire_cur c = wire_cur_over(w->addrs, w->addrs_len);
	blobs_walk(&c, (unsigned)w->shards * w->rails);
	return !c.bad && wire_cur_left(&c) == 0;
}

/* Flags are offers; unknown ones are ignored, since a newer server may make more (docs/reference/protocol.md 7). */
static bool welcome_valid(const struct wire_welcome_msg *w)
{
	return w->version == WIRE_VERSION && w->shards >= 1 && w->shards <= KV_SHARDS_MAX && rails_valid(w->rails) &&
	       w->chunk_bytes != 0 && w->value_max <= KV_VALUE_MAX;
}

static void welcome_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_welcome_msg *w = &m->welcome;
	o->bad |= !welcome_valid(w) || !addrs_fill(w);
	if (o->bad)
		return;
	wire_out_16(o, w->version);
	wire_out_16(o, w->shards);
	wire_out_16(o, w->rails);
	wire_out_16(o, w->flags);
	wire_out_32(o, w->session);
	wire_out_copy(o, w->token, sizeof(w->token));
	wire_out_64(o, w->incarnation);
	wire_out_copy(o, w->host_id, sizeof(w->host_id));
	wire_out_64(o, w->shard_seed);
	wire_out_32(o, w->chunk_bytes);
	wire_out_32(o, w->credits);
	wire_out_32(o, w->heartbeat_ms);
	wire_out_32(o, w->eager_bytes);
	wire_out_64(o, w->value_max);
	wire_out_64(o, w->clock_ns);
	wire_out_16(o, w->loops);
	wire_out_16(o, 0);
	string_write(o, w->node_id, sizeof(w->node_id));
	string_write(o, w->cluster, sizeof(w->cluster));
	wire_out_copy(o, w->addrs, w->addrs_len);
}

static int welcome_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_welcome_msg *w = &m->welcome;
	w->version = wire_cur_16(c);
	w->shards = wire_cur_16(c);
	w->rails = wire_cur_16(c);
	w->flags = wire_cur_16(c);
	w->session = wire_cur_32(c);
	wire_cur_copy(c, w->token, sizeof(w->token));
	w->incarnation = wire_cur_64(c);
	wire_cur_copy(c, w->host_id, sizeof(w->host_id));
	w->shard_seed = wire_cur_64(c);
	w->chunk_bytes = wire_cur_32(c);
	w->credits = wire_cur_32(c);
	w->heartbeat_ms = wire_cur_32(c);
	w->eager_bytes = wire_cur_32(c);
	w->value_max = wire_cur_64(c);
	w->clock_ns = wire_cur_64(c);
	w->loops = wire_cur_16(c);
	wire_cur_check(c, wire_cur_16(c) == 0);
	wire_cur_check(c, welcome_valid(w));
	string_read(c, w->node_id, sizeof(w->node_id));
	string_read(c, w->cluster, sizeof(w->cluster));
	w->addrs = c->at;
	w->addrs_len = (uint32_t)wire_cur_left(c);
	blobs_walk(c, (unsigned)w->shards * w->rails);
	return 0;
}

/* ---- REFUSE ---- */

static void refuse_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	wire_out_32(o, (uint32_t)m->refuse.status);
	string_write(o, m->refuse.text, sizeof(m->refuse.text));
}

static int refuse_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	m->refuse.status = (int32_t)wire_cur_32(c);
	string_read(c, m->refuse.text, sizeof(m->refuse.text));
	return 0;
}

/* ---- REGION, ARENA, LANDING ---- */

/* Bytes of the key table. Parts are bounded first, against overflow. */
static size_t table_bytes(const struct wire_region *r)
{
	return (size_t)r->rails * r->parts * ENTRY_SIZE;
}

static bool region_valid(const struct wire_region *r, enum wire_ctrl type)
{
	if (type == WIRE_CTRL_LANDING && (r->len_bytes | r->part_bytes | r->parts) == 0)
		return rails_valid(r->rails); /* none */
	return rails_valid(r->rails) && r->parts <= KV_CTRL_MAX / ENTRY_SIZE && r->len_bytes != 0 &&
	       r->part_bytes != 0 && (r->len_bytes - 1) / r->part_bytes + 1 == r->parts;
}

static uint16_t region_flags(enum wire_ctrl type)
{
	return type == WIRE_CTRL_ARENA ? ARENA_FLAGS : REGION_VIRTUAL;
}

static void region_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_region *r = &m->region;
	unsigned flags = (r->virt ? REGION_VIRTUAL : 0) | (r->write_emulated ? ARENA_WRITE_EMULATED : 0) |
			 (r->read_emulated ? ARENA_READ_EMULATED : 0);
	o->bad |= !region_valid(r, m->type) || (flags & (unsigned)~region_flags(m->type)) != 0;
	if (o->bad)
		return;
	wire_out_32(o, r->id);
	wire_out_16(o, r->rails);
	wire_out_16(o, (uint16_t)flags);
	wire_out_64(o, r->len_bytes);
	wire_out_64(o, r->part_bytes);
	wire_out_32(o, r->parts);
	wire_out_32(o, 0);
	wire_out_copy(o, r->keys, table_bytes(r));
}

static int region_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_region *r = &m->region;
	uint16_t flags;
	r->id = wire_cur_32(c);
	r->rails = wire_cur_16(c);
	flags = wire_cur_16(c);
	r->virt = (flags & REGION_VIRTUAL) != 0;
	r->write_emulated = (flags & ARENA_WRITE_EMULATED) != 0;
	r->read_emulated = (flags & ARENA_READ_EMULATED) != 0;
	r->len_bytes = wire_cur_64(c);
	r->part_bytes = wire_cur_64(c);
	r->parts = wire_cur_32(c);
	wire_cur_check(c, (flags & ~region_flags(m->type)) == 0 && wire_cur_32(c) == 0);
	wire_cur_check(c, region_valid(r, m->type));
	if (!c->bad)
		r->keys = wire_cur_take(c, table_bytes(r));
	return 0;
}

/* ---- REGION_OK, REVOKE, REVOKE_OK, ADDRESS_OK: {u32, i32 or zero} ---- */

static bool carries_status(enum wire_ctrl type)
{
	return type == WIRE_CTRL_REGION_OK || type == WIRE_CTRL_ADDRESS_OK;
}

static void pair_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	o->bad |= m->region_ok.status != 0 && !carries_status(m->type);
	wire_out_32(o, m->region_ok.id);
	wire_out_32(o, (uint32_t)m->region_ok.status);
}

static int pair_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	m->region_ok.id = wire_cur_32(c);
	m->region_ok.status = (int32_t)wire_cur_32(c);
	wire_cur_check(c, m->region_ok.status == 0 || carries_status(m->type));
	return 0;
}

/* ---- ADDRESS ---- */

static void address_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_address *a = &m->address;
	o->bad |= !rails_valid(a->rails);
	if (o->bad)
		return;
	wire_out_16(o, a->rails);
	wire_out_16(o, 0);
	wire_out_32(o, a->epoch);
	blobs_write(o, a->addr, a->rails);
}

static int address_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_address *a = &m->address;
	a->rails = wire_cur_16(c);
	wire_cur_check(c, wire_cur_16(c) == 0 && rails_valid(a->rails));
	a->epoch = wire_cur_32(c);
	if (!c->bad)
		blobs_read(c, a->addr, a->rails);
	return 0;
}

/* ---- HEARTBEAT ---- */

static void heartbeat_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_heartbeat *h = &m->heartbeat;
	o->bad |= h->shards > KV_SHARDS_MAX;
	if (o->bad)
		return;
	wire_out_64(o, h->sequence);
	wire_out_64(o, h->quiet_ms);
	wire_out_64(o, h->clock_ns);
	wire_out_16(o, h->shards);
	wire_out_16(o, 0);
	wire_out_32(o, 0);
	for (unsigned i = 0; i < h->shards; i++)
		wire_out_64(o, h->turns[i]);
}

static int heartbeat_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_heartbeat *h = &m->heartbeat;
	h->sequence = wire_cur_64(c);
	h->quiet_ms = wire_cur_64(c);
	h->clock_ns = wire_cur_64(c);
	h->shards = wire_cur_16(c);
	wire_cur_check(c, h->shards <= KV_SHARDS_MAX && wire_cur_16(c) == 0 && wire_cur_32(c) == 0);
	for (unsigned i = 0; i < h->shards && !c->bad; i++)
		h->turns[i] = wire_cur_64(c);
	return 0;
}

/* ---- GOODBYE, GOODBYE_OK, GOODBYE_DONE, SESSION_BEGIN, ARENAS ---- */

static void empty_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	(void)o;
	(void)m;
}

static int empty_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	(void)c;
	(void)m;
	return 0;
}

/* ---- further sessions ---- */

static void challenge_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	wire_out_copy(o, m->session_challenge.nonce, WIRE_NONCE_LEN);
}

static int challenge_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	wire_cur_copy(c, m->session_challenge.nonce, WIRE_NONCE_LEN);
	return 0;
}

static void open_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_session_open *s = &m->session_open;
	o->bad |= s->id == 0;
	wire_out_32(o, s->id);
	wire_out_32(o, 0);
	wire_out_64(o, s->client_id);
	wire_out_copy(o, s->nonce, WIRE_NONCE_LEN);
	wire_out_copy(o, s->proof, WIRE_PROOF_LEN);
	string_write(o, s->identity, sizeof(s->identity));
}

static int open_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_session_open *s = &m->session_open;
	s->id = wire_cur_32(c);
	wire_cur_check(c, wire_cur_32(c) == 0 && s->id != 0);
	s->client_id = wire_cur_64(c);
	wire_cur_copy(c, s->nonce, WIRE_NONCE_LEN);
	wire_cur_copy(c, s->proof, WIRE_PROOF_LEN);
	string_read(c, s->identity, sizeof(s->identity));
	return 0;
}

static void opened_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_session_ok *s = &m->session_ok;
	o->bad |= s->id == 0 || s->session == 0 || s->credits == 0;
	wire_out_32(o, s->id);
	wire_out_32(o, s->session);
	wire_out_32(o, s->credits);
	wire_out_32(o, 0);
}

static int opened_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_session_ok *s = &m->session_ok;
	s->id = wire_cur_32(c);
	s->session = wire_cur_32(c);
	s->credits = wire_cur_32(c);
	wire_cur_check(c, wire_cur_32(c) == 0 && s->id != 0 && s->session != 0 && s->credits != 0);
	return 0;
}

static void refused_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_session_refuse *s = &m->session_refuse;
	o->bad |= s->id == 0 || s->status == WIRE_OK;
	wire_out_32(o, s->id);
	wire_out_32(o, (uint32_t)s->status);
	string_write(o, s->text, sizeof(s->text));
}

static int refused_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_session_refuse *s = &m->session_refuse;
	s->id = wire_cur_32(c);
	s->status = (int32_t)wire_cur_32(c);
	wire_cur_check(c, s->id != 0 && s->status != WIRE_OK);
	string_read(c, s->text, sizeof(s->text));
	return 0;
}

static void close_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	bool answer = m->type == WIRE_CTRL_SESSION_CLOSE_OK;
	o->bad |= m->session_close.session == 0 || (!answer && m->session_close.requests != 0);
	wire_out_32(o, m->session_close.session);
	wire_out_32(o, 0);
	if (answer)
		wire_out_64(o, m->session_close.requests);
}

static int close_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	m->session_close.session = wire_cur_32(c);
	wire_cur_check(c, wire_cur_32(c) == 0 && m->session_close.session != 0);
	if (m->type == WIRE_CTRL_SESSION_CLOSE_OK)
		m->session_close.requests = wire_cur_64(c);
	return 0;
}

/* ---- VIEW_ASK, VIEW, VIEW_NEWS ---- */

static void member_write(struct wire_out *o, const struct kv_member *m)
{
	o->bad |= kv_member_check(m, NULL) < 0;
	wire_out_64(o, m->incarnation);
	wire_out_32(o, m->weight);
	wire_out_16(o, (uint16_t)m->state);
	wire_out_16(o, 0);
	string_write(o, m->node_id, sizeof(m->node_id));
	string_write(o, m->address, sizeof(m->address));
	string_write(o, m->zone, sizeof(m->zone));
}

static void member_read(struct wire_cur *c, struct kv_member *m)
{
	memset(m, 0, sizeof(*m));
	m->incarnation = wire_cur_64(c);
	m->weight = wire_cur_32(c);
	m->state = (enum kv_member_state)wire_cur_16(c);
	wire_cur_check(c, wire_cur_16(c) == 0);
	string_read(c, m->node_id, sizeof(m->node_id));
	string_read(c, m->address, sizeof(m->address));
	string_read(c, m->zone, sizeof(m->zone));
	wire_cur_check(c, kv_member_check(m, NULL) == 0);
}

/* Skip the members: sorted, each once. */
static void members_walk(struct wire_cur *c, uint32_t count)
{
	struct kv_member m[2]; /* this one and the one before */
	wire_cur_check(c, count <= KV_VIEW_MAX);
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		member_read(c, &m[i & 1]);
		wire_cur_check(c, i == 0 || strcmp(m[(i - 1) & 1].node_id, m[i & 1].node_id) < 0);
	}
}

static bool members_fill(const struct wire_view *w)
{
	struct wire_cur c = wire_cur_over(w->members, w->members_len);
	members_walk(&c, w->count);
	return !c.bad && wire_cur_left(&c) == 0;
}

static bool view_valid(const struct wire_view *w)
{
	return w->count <= KV_VIEW_MAX && (w->epoch != 0 || w->count == 0);
}

static void view_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_view *w = &m->view;
	o->bad |= !view_valid(w) || (!w->packed && !members_fill(w));
	if (o->bad)
		return;
	wire_out_64(o, w->source);
	wire_out_64(o, w->epoch);
	wire_out_32(o, w->count);
	wire_out_32(o, w->draining ? WIRE_VIEW_DRAINING : 0);
	wire_out_copy(o, w->members, w->members_len);
}

static bool view_flags_read(struct wire_cur *c)
{
	uint32_t flags = wire_cur_32(c);
	wire_cur_check(c, (flags & ~(uint32_t)WIRE_VIEW_DRAINING) == 0);
	return (flags & WIRE_VIEW_DRAINING) != 0;
}

static int view_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_view *w = &m->view;
	w->source = wire_cur_64(c);
	w->epoch = wire_cur_64(c);
	w->count = wire_cur_32(c);
	w->draining = view_flags_read(c);
	wire_cur_check(c, view_valid(w));
	w->members = c->at;
	w->members_len = (uint32_t)wire_cur_left(c);
	members_walk(c, w->count);
	return 0;
}

static void news_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct wire_view_news *w = &m->view_news;
	if (m->type == WIRE_CTRL_VIEW_NEWS) {
		wire_out_64(o, w->source);
		wire_out_64(o, w->epoch);
	} else {
		o->bad |= (w->source | w->epoch) != 0 || w->draining;
	}
	wire_out_64(o, (uint64_t)w->digest);
	wire_out_64(o, (uint64_t)(w->digest >> 64));
	if (m->type != WIRE_CTRL_VIEW_NEWS)
		return;
	wire_out_32(o, w->draining ? WIRE_VIEW_DRAINING : 0);
	wire_out_32(o, 0);
}

static int news_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct wire_view_news *w = &m->view_news;
	if (m->type == WIRE_CTRL_VIEW_NEWS) {
		w->source = wire_cur_64(c);
		w->epoch = wire_cur_64(c);
	}
	w->digest = wire_cur_64(c);
	w->digest |= (kv_u128)wire_cur_64(c) << 64;
	if (m->type != WIRE_CTRL_VIEW_NEWS)
		return 0;
	w->draining = view_flags_read(c);
	wire_cur_check(c, wire_cur_32(c) == 0);
	return 0;
}

/* ---- DRAIN, DRAIN_OK ---- */

static void drain_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	wire_out_64(o, m->drain.time_ms);
	if (m->type == WIRE_CTRL_DRAIN)
		wire_out_64(o, m->drain.bytes_s);
	else
		o->bad |= m->drain.bytes_s != 0 || m->drain.time_ms == 0;
}

static int drain_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	m->drain.time_ms = wire_cur_64(c);
	if (m->type == WIRE_CTRL_DRAIN)
		m->drain.bytes_s = wire_cur_64(c);
	else
		wire_cur_check(c, m->drain.time_ms != 0);
	return 0;
}

/* ---- DRAIN_DONE ---- */

static void drained_write(struct wire_out *o, const struct wire_ctrl_msg *m)
{
	const struct kv_drained *d = &m->drained;
	wire_out_64(o, d->values);
	wire_out_64(o, d->bytes);
	wire_out_64(o, d->of);
	wire_out_64(o, d->gone);
	wire_out_32(o, KV_LEFT_REASONS);
	wire_out_32(o, 0);
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++)
		wire_out_64(o, d->left[i]);
	o->bad |= !kv_drained_valid(d);
}

static int drained_read(struct wire_cur *c, struct wire_ctrl_msg *m)
{
	struct kv_drained *d = &m->drained;
	d->values = wire_cur_64(c);
	d->bytes = wire_cur_64(c);
	d->of = wire_cur_64(c);
	d->gone = wire_cur_64(c);
	wire_cur_check(c, wire_cur_32(c) == KV_LEFT_REASONS);
	wire_cur_check(c, wire_cur_32(c) == 0);
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++)
		d->left[i] = wire_cur_64(c);
	wire_cur_check(c, kv_drained_valid(d));
	return 0;
}

/* ---- the envelope ---- */

/* clang-format off */
static const struct {
	void (*write)(struct wire_out *o, const struct wire_ctrl_msg *m);
	int (*read)(struct wire_cur *c, struct wire_ctrl_msg *m); /* 0 or -KV_EVERSION; the cursor has other errors */
} codecs[] = {
	[WIRE_CTRL_HELLO] = {hello_write, hello_read},
	[WIRE_CTRL_WELCOME] = {welcome_write, welcome_read},
	[WIRE_CTRL_REFUSE] = {refuse_write, refuse_read},
	[WIRE_CTRL_REGION] = {region_write, region_read},
	[WIRE_CTRL_REGION_OK] = {pair_write, pair_read},
	[WIRE_CTRL_REVOKE] = {pair_write, pair_read},
	[WIRE_CTRL_REVOKE_OK] = {pair_write, pair_read},
	[WIRE_CTRL_ADDRESS] = {address_write, address_read},
	[WIRE_CTRL_ADDRESS_OK] = {pair_write, pair_read},
	[WIRE_CTRL_HEARTBEAT] = {heartbeat_write, heartbeat_read},
	[WIRE_CTRL_GOODBYE] = {empty_write, empty_read},
	[WIRE_CTRL_GOODBYE_OK] = {empty_write, empty_read},
	[WIRE_CTRL_GOODBYE_DONE] = {empty_write, empty_read},
	[WIRE_CTRL_SESSION_BEGIN] = {empty_write, empty_read},
	[WIRE_CTRL_SESSION_CHALLENGE] = {challenge_write, challenge_read},
	[WIRE_CTRL_SESSION_OPEN] = {open_write, open_read},
	[WIRE_CTRL_SESSION_OK] = {opened_write, opened_read},
	[WIRE_CTRL_SESSION_REFUSE] = {refused_write, refused_read},
	[WIRE_CTRL_SESSION_CLOSE] = {close_write, close_read},
	[WIRE_CTRL_SESSION_CLOSE_OK] = {close_write, close_read},
	[WIRE_CTRL_ARENAS] = {empty_write, empty_read},
	[WIRE_CTRL_ARENA] = {region_write, region_read},
	[WIRE_CTRL_LANDINGS] = {empty_write, empty_read},
	[WIRE_CTRL_LANDING] = {region_write, region_read},
	[WIRE_CTRL_VIEW_ASK] = {news_write, news_read},
	[WIRE_CTRL_VIEW] = {view_write, view_read},
	[WIRE_CTRL_VIEW_NEWS] = {news_write, news_read},
	[WIRE_CTRL_DRAIN] = {drain_write, drain_read},
	[WIRE_CTRL_DRAIN_OK] = {drain_write, drain_read},
	[WIRE_CTRL_DRAIN_DONE] = {drained_write, drained_read},
};
/* clang-format on */

static bool type_known(unsigned type)
{
	return type >= WIRE_CTRL_HELLO && type < KV_COUNT(codecs);
}

int wire_ctrl_encode(const struct wire_ctrl_msg *m, void *buf, size_t cap)
{
	struct wire_out o = {.at = buf, .end = (uint8_t *)buf + KV_MIN(cap, (size_t)PREFIX + KV_CTRL_MAX)};
	size_t len;
	if (!type_known(m->type))
		return -KV_EINVAL;
	wire_out_32(&o, 0); /* the length, for the end */
	wire_out_16(&o, (uint16_t)m->type);
	wire_out_16(&o, 0);
	codecs[m->type].write(&o, m);
	if (o.bad)
		return -KV_EINVAL;
	if (o.full)
		return -KV_ETOOBIG;
	len = (size_t)(o.at - (uint8_t *)buf);
	kv_put32(buf, (uint32_t)(len - PREFIX));
	return (int)len;
}

int wire_ctrl_length(const void *data, size_t have)
{
	uint32_t len;
	if (have < PREFIX)
		return 0;
	len = kv_get32(data);
	if (len < WIRE_CTRL_HEADER - PREFIX || len > KV_CTRL_MAX)
		return -KV_EPROTO;
	return (int)(PREFIX + len);
}

int wire_ctrl_decode(const void *data, size_t len, struct wire_ctrl_msg *out)
{
	struct wire_cur c = wire_cur_over(data, len);
	uint32_t length;
	unsigned type, zero;
	int rc;
	memset(out, 0, sizeof(*out));
	length = wire_cur_32(&c);
	type = wire_cur_16(&c);
	zero = wire_cur_16(&c);
	if (c.bad || length > KV_CTRL_MAX || length != len - PREFIX || !type_known(type) || zero != 0)
		return -KV_EPROTO;
	out->type = (enum wire_ctrl)type;
	rc = codecs[type].read(&c, out);
	if (rc == 0 && (c.bad || wire_cur_left(&c) != 0))
		rc = -KV_EPROTO;
	return rc;
}

/* ---- parts that callers encode and decode ---- */

int wire_addr_pack(uint8_t *buf, size_t cap, uint32_t *len, const void *addr, size_t addr_len)
{
	if (addr_len == 0)
		return -KV_EINVAL;
	if (addr_len > KV_ADDR_MAX || *len > cap || cap - *len < BLOB_PREFIX + addr_len)
		return -KV_ETOOBIG;
	kv_put16(buf + *len, (uint16_t)addr_len);
	memcpy(buf + *len + BLOB_PREFIX, addr, addr_len);
	*len += (uint32_t)(BLOB_PREFIX + addr_len);
	return 0;
}

int wire_welcome_addr(const struct wire_welcome_msg *w, unsigned shard, unsigned rail, struct wire_blob_addr *out)
{
	struct wire_cur c = wire_cur_over(w->addrs, w->addrs_len);
	struct wire_blob_addr found = {0};
	if (shard >= w->shards || rail >= w->rails)
		return -KV_EPROTO;
	blobs_walk(&c, shard * w->rails + rail);
	blob_read(&c, &found);
	if (c.bad)
		return -KV_EPROTO;
	*out = found;
	return 0;
}

int wire_view_pack(const struct kv_view *view, uint8_t *buf, size_t cap)
{
	struct wire_out o = {.at = buf, .end = buf + KV_MIN(cap, (size_t)KV_CTRL_MAX)};
	for (uint32_t i = 0; i < view->count && !o.bad; i++) {
		o.bad |= i > 0 && strcmp(view->member[i - 1].node_id, view->member[i].node_id) >= 0;
		member_write(&o, &view->member[i]);
	}
	return o.bad ? -KV_EINVAL : o.full ? -KV_ETOOBIG : (int)(o.at - buf);
}

int wire_view_take(const struct wire_view *w, struct kv_view *out)
{
	struct wire_cur c = wire_cur_over(w->members, w->members_len);
	struct kv_view v = {.source = w->source, .epoch = w->epoch};
	struct kv_member m;
	int rc = 0;
	for (uint32_t i = 0; i < w->count && rc == 0; i++) {
		member_read(&c, &m);
		rc = kv_view_add(&v, &m);
	}
	if (rc < 0)
		kv_view_fini(&v);
	*out = v;
	return rc;
}

void wire_region_put(uint8_t *keys, uint32_t parts, unsigned rail, uint32_t part, uint64_t base, uint64_t key)
{
	uint8_t *p = keys + ((size_t)rail * parts + part) * ENTRY_SIZE;
	kv_put64(p + ENTRY_BASE, base);
	kv_put64(p + ENTRY_KEY, key);
}

void wire_region_key(const struct wire_region *r, unsigned rail, uint32_t part, uint64_t *out_base, uint64_t *out_key)
{
	const uint8_t *p = r->keys + ((size_t)rail * r->parts + part) * ENTRY_SIZE;
	*out_base = kv_get64(p + ENTRY_BASE);
	*out_key = kv_get64(p + ENTRY_KEY);
}
