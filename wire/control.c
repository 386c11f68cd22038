/* SPDX-License-Identifier: Apache-2.0 */
/* control.c -- control messages: the length prefix, and a walk per message (walk.h).
 *
 * Limits hold in both directions. *out is zeroed first. After an error it is partly written; of a HELLO of other
 * versions the version fields count, for the server's REFUSE. A message has one encoding only. Region tables, the
 * addresses of a WELCOME and the members of a view stay in the input.
 *
 * The other side divides by chunk bytes and sizes tables by parts: a chunk is at least one byte, and a region has
 * exactly the parts of its length. */
#include "wire/walk.h"
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
_Static_assert(64 + WIRE_EVENTS_BYTES <= KV_CTRL_MAX, "the largest EVENTS fits");
_Static_assert(64 + KV_SHARDS_MAX * 8 <= KV_CTRL_MAX, "the largest HEARTBEAT fits");

/* ---- strings and blobs ---- */

static void string_walk(struct wire_walk *w, char *s, size_t size)
{
	uint16_t len = (uint16_t)(w->writing ? strnlen(s, size) : 0);
	wire_u16(w, &len);
	wire_require(w, len < size);
	if (w->bad)
		return;
	wire_array(w, s, len);
	wire_require(w, memchr(s, 0, len) == NULL);
}

static void space_walk(struct wire_walk *w, char *name, uint64_t *generation)
{
	wire_u64(w, generation);
	string_walk(w, name, KV_SPACE_MAX + 1);
	wire_require(w, w->bad || kv_space_check(name, strlen(name)));
}

static void blob_walk(struct wire_walk *w, struct wire_blob_addr *a)
{
	uint16_t len = a->len;
	wire_u16(w, &len);
	wire_require(w, len != 0 && len <= KV_ADDR_MAX);
	if (w->bad)
		return;
	if (!w->writing)
		a->len = (uint8_t)len;
	wire_array(w, a->data, len);
}

static void blobs_walk(struct wire_walk *w, struct wire_blob_addr *a, unsigned n)
{
	for (unsigned i = 0; i < n && !w->bad; i++)
		blob_walk(w, &a[i]);
}

static void blobs_skip(struct wire_walk *w, unsigned count)
{
	struct wire_blob_addr skipped;
	for (unsigned i = 0; i < count && !w->bad; i++)
		blob_walk(w, &skipped);
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

/* Of other versions, whose further fields are unknown. */
static bool hello_foreign(const struct wire_hello *h)
{
	return h->version_min <= h->version_max && (h->version_min > WIRE_VERSION || h->version_max < WIRE_VERSION);
}

static void hello_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_hello *h = &m->hello;
	wire_u16(w, &h->version_min);
	wire_u16(w, &h->version_max);
	if (!w->writing && !w->bad && hello_foreign(h))
		return;
	wire_u32(w, &h->eager_bytes);
	wire_u64(w, &h->incarnation);
	wire_array(w, h->host_id, sizeof(h->host_id));
	wire_u64(w, &h->client_id);
	wire_u32(w, &h->mark);
	wire_u32(w, &h->chunk_bytes);
	wire_u16(w, &h->loops);
	wire_u16(w, &h->rails);
	wire_u32(w, &h->prior.session);
	wire_array(w, h->prior.token, KV_TOKEN_LEN);
	wire_require(w, hello_valid(h));
	string_walk(w, h->provider, sizeof(h->provider));
	string_walk(w, h->fabric, sizeof(h->fabric));
	string_walk(w, h->cluster, sizeof(h->cluster));
	space_walk(w, h->space, &h->generation);
	blobs_walk(w, h->addr, h->rails);
}

/* ---- WELCOME ---- */

static bool addrs_fill(const struct wire_welcome_msg *m)
{
	struct wire_walk w = wire_reading(m->addrs, m->addrs_len);
	blobs_skip(&w, (unsigned)m->shards * m->rails);
	return !w.bad && wire_left(&w) == 0;
}

/* Flags are offers; unknown ones are ignored, since a newer server may make more (docs/reference/protocol.md 7). */
static bool welcome_valid(const struct wire_welcome_msg *m)
{
	return m->version == WIRE_VERSION && m->shards >= 1 && m->shards <= KV_SHARDS_MAX && rails_valid(m->rails) &&
	       m->chunk_bytes != 0 && m->value_max <= KV_VALUE_MAX;
}

static void welcome_walk(struct wire_walk *w, struct wire_ctrl_msg *msg)
{
	struct wire_welcome_msg *m = &msg->welcome;
	wire_u16(w, &m->version);
	wire_u16(w, &m->shards);
	wire_u16(w, &m->rails);
	wire_u16(w, &m->flags);
	wire_u32(w, &m->session);
	wire_array(w, m->token, sizeof(m->token));
	wire_u64(w, &m->incarnation);
	wire_array(w, m->host_id, sizeof(m->host_id));
	wire_u64(w, &m->shard_seed);
	wire_u32(w, &m->chunk_bytes);
	wire_u32(w, &m->credits);
	wire_u32(w, &m->heartbeat_ms);
	wire_u32(w, &m->eager_bytes);
	wire_u64(w, &m->value_max);
	wire_u64(w, &m->clock_ns);
	wire_u64(w, &m->generation);
	wire_u64(w, &m->cleared_ns);
	wire_u16(w, &m->loops);
	wire_zero16(w);
	string_walk(w, m->node_id, sizeof(m->node_id));
	string_walk(w, m->cluster, sizeof(m->cluster));
	if (!w->writing)
		m->addrs_len = (uint32_t)wire_left(w);
	wire_span(w, &m->addrs, m->addrs_len);
	wire_require(w, welcome_valid(m) && addrs_fill(m));
}

/* ---- REFUSE ---- */

static void refuse_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	wire_i32(w, &m->refuse.status);
	string_walk(w, m->refuse.text, sizeof(m->refuse.text));
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

static void region_flags_walk(struct wire_walk *w, struct wire_region *r, enum wire_ctrl type)
{
	unsigned allowed = type == WIRE_CTRL_ARENA ? ARENA_FLAGS : REGION_VIRTUAL;
	uint16_t flags = (uint16_t)((r->virt ? REGION_VIRTUAL : 0) | (r->write_emulated ? ARENA_WRITE_EMULATED : 0) |
				    (r->read_emulated ? ARENA_READ_EMULATED : 0));
	wire_u16(w, &flags);
	wire_require(w, (flags & ~allowed) == 0);
	if (w->writing)
		return;
	r->virt = (flags & REGION_VIRTUAL) != 0;
	r->write_emulated = (flags & ARENA_WRITE_EMULATED) != 0;
	r->read_emulated = (flags & ARENA_READ_EMULATED) != 0;
}

static void region_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_region *r = &m->region;
	wire_u32(w, &r->id);
	wire_u16(w, &r->rails);
	region_flags_walk(w, r, m->type);
	wire_u64(w, &r->len_bytes);
	wire_u64(w, &r->part_bytes);
	wire_u32(w, &r->parts);
	wire_zero32(w);
	wire_require(w, region_valid(r, m->type));
	if (!w->bad)
		wire_span(w, &r->keys, table_bytes(r));
}

/* ---- REGION_OK, REVOKE, REVOKE_OK, ADDRESS_OK: {u32, i32 or zero} ---- */

static void pair_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	bool status = m->type == WIRE_CTRL_REGION_OK || m->type == WIRE_CTRL_ADDRESS_OK;
	wire_u32(w, &m->region_ok.id);
	wire_i32(w, &m->region_ok.status);
	wire_require(w, status || m->region_ok.status == 0);
}

/* ---- ADDRESS ---- */

static void address_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_address *a = &m->address;
	wire_u16(w, &a->rails);
	wire_zero16(w);
	wire_u32(w, &a->epoch);
	wire_require(w, rails_valid(a->rails));
	blobs_walk(w, a->addr, a->rails);
}

/* ---- HEARTBEAT ---- */

static void heartbeat_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_heartbeat *h = &m->heartbeat;
	wire_u64(w, &h->sequence);
	wire_u64(w, &h->quiet_ms);
	wire_u64(w, &h->clock_ns);
	wire_u16(w, &h->shards);
	wire_zero16(w);
	wire_zero32(w);
	wire_require(w, h->shards <= KV_SHARDS_MAX);
	for (unsigned i = 0; i < h->shards && !w->bad; i++)
		wire_u64(w, &h->turns[i]);
}

/* ---- GOODBYE, GOODBYE_OK, GOODBYE_DONE, SESSION_BEGIN, ARENAS, LANDINGS ---- */

static void empty_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	(void)w;
	(void)m;
}

/* ---- further sessions ---- */

static void challenge_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	wire_array(w, m->session_challenge.nonce, WIRE_NONCE_LEN);
}

static void open_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_session_open *s = &m->session_open;
	wire_u32(w, &s->id);
	wire_zero32(w);
	wire_u64(w, &s->client_id);
	wire_array(w, s->nonce, WIRE_NONCE_LEN);
	wire_array(w, s->proof, WIRE_PROOF_LEN);
	wire_require(w, s->id != 0);
	string_walk(w, s->identity, sizeof(s->identity));
	space_walk(w, s->space, &s->generation);
}

static void opened_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_session_ok *s = &m->session_ok;
	wire_u32(w, &s->id);
	wire_u32(w, &s->session);
	wire_u32(w, &s->credits);
	wire_zero32(w);
	wire_require(w, s->id != 0 && s->session != 0 && s->credits != 0);
}

static void refused_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_session_refuse *s = &m->session_refuse;
	wire_u32(w, &s->id);
	wire_i32(w, &s->status);
	wire_require(w, s->id != 0 && s->status != WIRE_OK);
	string_walk(w, s->text, sizeof(s->text));
}

static void close_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	wire_u32(w, &m->session_close.session);
	wire_zero32(w);
	if (m->type == WIRE_CTRL_SESSION_CLOSE_OK)
		wire_u64(w, &m->session_close.requests);
	else
		wire_require(w, m->session_close.requests == 0);
	wire_require(w, m->session_close.session != 0);
}

/* ---- VIEW_ASK, VIEW, VIEW_NEWS ---- */

static void member_walk(struct wire_walk *w, struct kv_member *m)
{
	uint16_t state = (uint16_t)m->state;
	wire_u64(w, &m->incarnation);
	wire_u32(w, &m->weight);
	wire_u16(w, &state);
	wire_zero16(w);
	if (!w->writing)
		m->state = (enum kv_member_state)state;
	string_walk(w, m->node_id, sizeof(m->node_id));
	string_walk(w, m->address, sizeof(m->address));
	string_walk(w, m->zone, sizeof(m->zone));
	wire_require(w, kv_member_check(m, NULL) == 0);
}

/* Sorted, each once. */
static bool members_fill(const struct wire_view *v)
{
	struct wire_walk w = wire_reading(v->members, v->members_len);
	char before[KV_NAME_MAX] = "";
	for (uint32_t i = 0; i < v->count && !w.bad; i++) {
		struct kv_member m = {0};
		member_walk(&w, &m);
		wire_require(&w, strcmp(before, m.node_id) < 0);
		memcpy(before, m.node_id, sizeof(before));
	}
	return !w.bad && wire_left(&w) == 0;
}

static void draining_walk(struct wire_walk *w, bool *draining)
{
	uint32_t flags = *draining ? WIRE_VIEW_DRAINING : 0;
	wire_u32(w, &flags);
	wire_require(w, (flags & ~(uint32_t)WIRE_VIEW_DRAINING) == 0);
	if (!w->writing)
		*draining = flags != 0;
}

static void view_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_view *v = &m->view;
	wire_u64(w, &v->source);
	wire_u64(w, &v->epoch);
	wire_u32(w, &v->count);
	draining_walk(w, &v->draining);
	if (!w->writing)
		v->members_len = (uint32_t)wire_left(w);
	wire_span(w, &v->members, v->members_len);
	wire_require(w, v->count <= KV_VIEW_MAX && (v->epoch != 0 || v->count == 0));
	wire_require(w, v->packed || members_fill(v));
}

static void digest_walk(struct wire_walk *w, kv_u128 *digest)
{
	uint64_t low = (uint64_t)*digest, high = (uint64_t)(*digest >> 64);
	wire_u64(w, &low);
	wire_u64(w, &high);
	if (!w->writing)
		*digest = (kv_u128)high << 64 | low;
}

static void ask_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	digest_walk(w, &m->view_news.digest);
	wire_require(w, (m->view_news.source | m->view_news.epoch) == 0 && !m->view_news.draining);
}

static void news_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	wire_u64(w, &m->view_news.source);
	wire_u64(w, &m->view_news.epoch);
	digest_walk(w, &m->view_news.digest);
	draining_walk(w, &m->view_news.draining);
	wire_zero32(w);
}

/* ---- DRAIN, DRAIN_OK, DRAIN_DONE ---- */

static void drain_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	wire_u64(w, &m->drain.time_ms);
	wire_u64(w, &m->drain.bytes_s);
}

static void drain_ok_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	wire_u64(w, &m->drain.time_ms);
	wire_require(w, m->drain.time_ms != 0 && m->drain.bytes_s == 0);
}

static void drained_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct kv_drained *d = &m->drained;
	uint32_t reasons = KV_LEFT_REASONS;
	wire_u64(w, &d->values);
	wire_u64(w, &d->bytes);
	wire_u64(w, &d->of);
	wire_u64(w, &d->gone);
	wire_u32(w, &reasons);
	wire_zero32(w);
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++)
		wire_u64(w, &d->left[i]);
	wire_require(w, reasons == KV_LEFT_REASONS && kv_drained_valid(d));
}

/* ---- LOCAL_ASK, LOCAL ---- */

static void local_ask_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	wire_array(w, m->local.boot_id, sizeof(m->local.boot_id));
}

static void local_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_local *l = &m->local;
	wire_i32(w, &l->status);
	wire_array(w, l->nonce, sizeof(l->nonce));
	wire_array(w, l->proof, sizeof(l->proof));
	string_walk(w, l->name, sizeof(l->name));
	string_walk(w, l->text, sizeof(l->text));
	wire_require(w, (l->status == WIRE_OK) == (l->name[0] != 0));
}

/* ---- EVENTS_ASK, EVENTS ---- */

static void event_walk(struct wire_walk *w, struct wire_event *e)
{
	uint16_t where = (uint16_t)(e->what | e->tier << 8), lengths = (uint16_t)(e->key_len | e->space_len << 8);
	wire_u16(w, &where);
	wire_u16(w, &lengths);
	wire_u64(w, &e->bytes);
	if (!w->writing) {
		e->what = (uint8_t)where;
		e->tier = (uint8_t)(where >> 8);
		e->key_len = (uint8_t)lengths;
		e->space_len = (uint8_t)(lengths >> 8);
	}
	wire_require(w, e->what >= WIRE_EVENT_STORED && e->what <= WIRE_EVENT_HIDDEN && e->tier <= WIRE_TIER_DISK);
	wire_require(w, e->key_len <= KV_KEY_MAX && e->space_len <= KV_SPACE_MAX);
	wire_require(w, (e->what <= WIRE_EVENT_REMOVED) == (e->key_len != 0));
	wire_require(w, e->what != WIRE_EVENT_HIDDEN || (e->space_len == 0 && e->bytes == 0));
	if (w->bad)
		return;
	wire_span(w, &e->key, e->key_len);
	wire_span(w, &e->space, e->space_len);
	wire_require(w, w->bad || kv_space_check(e->space, e->space_len));
}

/* LOST and CLEARED are no part of a snapshot. */
static bool events_fill(const struct wire_events *v)
{
	uint32_t at = 0;
	struct wire_event e;
	for (uint32_t i = 0; i < v->count; i++) {
		if (wire_event_take(v->events, v->events_len, &at, &e))
			return false;
		if ((v->flags & WIRE_EVENTS_SNAPSHOT) && e.what != WIRE_EVENT_STORED)
			return false;
	}
	return at == v->events_len;
}

static void place_walk(struct wire_walk *w, struct wire_events *v)
{
	wire_u64(w, &v->epoch);
	wire_u64(w, &v->next);
	wire_u32(w, &v->flags);
	wire_u32(w, &v->shard);
	wire_u32(w, &v->at);
	if (!(v->flags & WIRE_EVENTS_SNAPSHOT))
		wire_require(w, (v->shard | v->at) == 0);
}

static void events_ask_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	place_walk(w, &m->events);
	wire_zero32(w);
	wire_require(w, (m->events.flags & ~(uint32_t)WIRE_EVENTS_SNAPSHOT) == 0);
}

static void events_walk(struct wire_walk *w, struct wire_ctrl_msg *m)
{
	struct wire_events *v = &m->events;
	place_walk(w, v);
	wire_u32(w, &v->count);
	wire_u64(w, &v->first);
	if (!w->writing)
		v->events_len = (uint32_t)wire_left(w);
	wire_require(w, (v->flags & ~(uint32_t)(WIRE_EVENTS_SNAPSHOT | WIRE_EVENTS_GAP)) == 0);
	wire_require(w, v->events_len <= WIRE_EVENTS_BYTES && v->epoch != 0);
	wire_require(w, (v->flags & WIRE_EVENTS_GAP) == 0 || v->count == 0);
	wire_span(w, &v->events, v->events_len);
	if ((v->flags & WIRE_EVENTS_SNAPSHOT) == 0)
		wire_require(w, v->next >= v->first && v->next - v->first == v->count);
	wire_require(w, v->packed || (!w->bad && events_fill(v)));
}

/* ---- the envelope ---- */

/* clang-format off */
static void (*const walks[])(struct wire_walk *w, struct wire_ctrl_msg *m) = {
	[WIRE_CTRL_HELLO] = hello_walk,
	[WIRE_CTRL_WELCOME] = welcome_walk,
	[WIRE_CTRL_REFUSE] = refuse_walk,
	[WIRE_CTRL_REGION] = region_walk,
	[WIRE_CTRL_REGION_OK] = pair_walk,
	[WIRE_CTRL_REVOKE] = pair_walk,
	[WIRE_CTRL_REVOKE_OK] = pair_walk,
	[WIRE_CTRL_ADDRESS] = address_walk,
	[WIRE_CTRL_ADDRESS_OK] = pair_walk,
	[WIRE_CTRL_HEARTBEAT] = heartbeat_walk,
	[WIRE_CTRL_GOODBYE] = empty_walk,
	[WIRE_CTRL_GOODBYE_OK] = empty_walk,
	[WIRE_CTRL_GOODBYE_DONE] = empty_walk,
	[WIRE_CTRL_SESSION_BEGIN] = empty_walk,
	[WIRE_CTRL_SESSION_CHALLENGE] = challenge_walk,
	[WIRE_CTRL_SESSION_OPEN] = open_walk,
	[WIRE_CTRL_SESSION_OK] = opened_walk,
	[WIRE_CTRL_SESSION_REFUSE] = refused_walk,
	[WIRE_CTRL_SESSION_CLOSE] = close_walk,
	[WIRE_CTRL_SESSION_CLOSE_OK] = close_walk,
	[WIRE_CTRL_ARENAS] = empty_walk,
	[WIRE_CTRL_ARENA] = region_walk,
	[WIRE_CTRL_LANDINGS] = empty_walk,
	[WIRE_CTRL_LANDING] = region_walk,
	[WIRE_CTRL_VIEW_ASK] = ask_walk,
	[WIRE_CTRL_VIEW] = view_walk,
	[WIRE_CTRL_VIEW_NEWS] = news_walk,
	[WIRE_CTRL_DRAIN] = drain_walk,
	[WIRE_CTRL_DRAIN_OK] = drain_ok_walk,
	[WIRE_CTRL_DRAIN_DONE] = drained_walk,
	[WIRE_CTRL_LOCAL_ASK] = local_ask_walk,
	[WIRE_CTRL_LOCAL] = local_walk,
	[WIRE_CTRL_EVENTS_ASK] = events_ask_walk,
	[WIRE_CTRL_EVENTS] = events_walk,
};
/* clang-format on */

static bool type_known(unsigned type)
{
	return type >= WIRE_CTRL_HELLO && type < KV_COUNT(walks);
}

int wire_ctrl_encode(const struct wire_ctrl_msg *m, void *buf, size_t cap)
{
	struct wire_walk w = wire_writing(buf, KV_MIN(cap, (size_t)PREFIX + KV_CTRL_MAX));
	uint32_t length = 0; /* filled in at the end */
	uint16_t type = (uint16_t)m->type;
	if (!type_known(m->type))
		return -KV_EINVAL;
	wire_u32(&w, &length);
	wire_u16(&w, &type);
	wire_zero16(&w);
	walks[m->type](&w, (struct wire_ctrl_msg *)m);
	if (w.bad)
		return -KV_EINVAL;
	if (w.full)
		return -KV_ETOOBIG;
	length = (uint32_t)(w.at - (uint8_t *)buf);
	kv_put32(buf, length - PREFIX);
	return (int)length;
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
	struct wire_walk w = wire_reading(data, len);
	uint32_t length = 0;
	uint16_t type = 0;
	memset(out, 0, sizeof(*out));
	wire_u32(&w, &length);
	wire_u16(&w, &type);
	wire_zero16(&w);
	if (w.bad || length > KV_CTRL_MAX || length != len - PREFIX || !type_known(type))
		return -KV_EPROTO;
	out->type = (enum wire_ctrl)type;
	walks[type](&w, out);
	if (!w.bad && type == WIRE_CTRL_HELLO && hello_foreign(&out->hello))
		return -KV_EVERSION;
	return w.bad || wire_left(&w) != 0 ? -KV_EPROTO : 0;
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

int wire_welcome_addr(const struct wire_welcome_msg *m, unsigned shard, unsigned rail, struct wire_blob_addr *out)
{
	struct wire_walk w = wire_reading(m->addrs, m->addrs_len);
	struct wire_blob_addr found = {0};
	if (shard >= m->shards || rail >= m->rails)
		return -KV_EPROTO;
	blobs_skip(&w, shard * m->rails + rail);
	blob_walk(&w, &found);
	if (w.bad)
		return -KV_EPROTO;
	*out = found;
	return 0;
}

int wire_view_pack(const struct kv_view *view, uint8_t *buf, size_t cap)
{
	struct wire_walk w = wire_writing(buf, KV_MIN(cap, (size_t)KV_CTRL_MAX));
	for (uint32_t i = 0; i < view->count && !w.bad; i++) {
		wire_require(&w, i == 0 || strcmp(view->member[i - 1].node_id, view->member[i].node_id) < 0);
		member_walk(&w, &view->member[i]);
	}
	if (w.bad)
		return -KV_EINVAL;
	return w.full ? -KV_ETOOBIG : (int)(w.at - buf);
}

int wire_view_take(const struct wire_view *v, struct kv_view *out)
{
	struct wire_walk w = wire_reading(v->members, v->members_len);
	struct kv_view view = {.source = v->source, .epoch = v->epoch};
	int rc = 0;
	for (uint32_t i = 0; i < v->count && rc == 0; i++) {
		struct kv_member m = {0};
		member_walk(&w, &m);
		rc = kv_view_add(&view, &m);
	}
	if (rc < 0)
		kv_view_fini(&view);
	*out = view;
	return rc;
}

int wire_event_pack(uint8_t *buf, size_t cap, uint32_t *len, const struct wire_event *e)
{
	struct wire_walk w = wire_writing(buf + *len, cap - *len);
	event_walk(&w, (struct wire_event *)e);
	KV_ASSERT(!w.bad);
	if (w.full)
		return -KV_ETOOBIG;
	*len = (uint32_t)(w.at - buf);
	return 0;
}

int wire_event_take(const uint8_t *events, uint32_t len, uint32_t *at, struct wire_event *out)
{
	struct wire_walk w = wire_reading(events + *at, len - *at);
	*out = (struct wire_event){0};
	event_walk(&w, out);
	if (w.bad)
		return -KV_EPROTO;
	*at = (uint32_t)(w.at - events);
	return 0;
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
