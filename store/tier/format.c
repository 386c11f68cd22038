/* SPDX-License-Identifier: Apache-2.0 */
/* format.c -- write and check the bytes on a tier's device. */
#include "store/tier/format.h"

static const uint8_t super_magic[8] = {'K', 'V', 'R', 't', 'i', 'e', 'r', 1};
static const uint8_t foot_magic[8] = {'K', 'V', 'R', 'f', 'o', 'o', 't', 1};
static const uint8_t table_magic[8] = {'K', 'V', 'R', 's', 'p', 'a', 'c', 1};
static const uint8_t service_magic[8] = {'K', 'V', 'R', 's', 'e', 'r', 'v', 1};
static const uint8_t head_magic[8] = {'K', 'V', 'R', 'h', 'e', 'a', 'd', 1};

/* ---- superblock ---- */

static uint64_t super_sum(const struct tier_super *s)
{
	return kv_hash_block(s, offsetof(struct tier_super, checksum));
}

void tier_super_seal(struct tier_super *s)
{
	memcpy(s->magic, super_magic, sizeof(super_magic));
	s->version = TIER_VERSION;
	s->checksum = super_sum(s);
}

int tier_super_check(const void *page, struct tier_super *out)
{
	struct tier_super s;
	memcpy(&s, page, sizeof(s));
	if (memcmp(s.magic, super_magic, sizeof(super_magic)) != 0 || s.checksum != super_sum(&s))
		return -KV_EINVAL;
	if (s.version != TIER_VERSION)
		return -KV_EVERSION;
	*out = s;
	return 0;
}

/* ---- the table of namespaces ---- */

static uint64_t table_sum(const struct tier_table *t)
{
	return kv_hash_block(t, offsetof(struct tier_table, checksum));
}

uint32_t tier_table_put(uint8_t *to, uint64_t id, uint64_t version, uint64_t floor, uint32_t count, uint32_t doubt_s)
{
	size_t notes = count * sizeof(struct tier_note), used = sizeof(struct tier_table) + notes;
	uint32_t pages = (uint32_t)((used + TIER_PAGE - 1) / TIER_PAGE);
	struct tier_table t = {.id = id, .version = version, .floor = floor, .count = count, .doubt_s = doubt_s};
	memcpy(t.magic, table_magic, sizeof(table_magic));
	t.sum = kv_hash_block(to + sizeof(t), notes);
	t.checksum = table_sum(&t);
	memcpy(to, &t, sizeof(t));
	memset(to + used, 0, (size_t)pages * TIER_PAGE - used);
	return pages;
}

bool tier_table_begins(const uint8_t *page)
{
	return memcmp(page, table_magic, sizeof(table_magic)) == 0;
}

int tier_table_get(const uint8_t *from, uint64_t id, struct tier_table *out)
{
	const uint8_t *notes = from + sizeof(struct tier_table);
	struct tier_table t;
	memcpy(&t, from, sizeof(t));
	if (!tier_table_begins(from) || t.checksum != table_sum(&t) || t.id != id || t.count > SPACES_MAX ||
	    t.sum != kv_hash_block(notes, t.count * sizeof(struct tier_note)))
		return -KV_EINVAL;
	for (uint32_t i = 0; i < t.count; i++) {
		struct tier_note n;
		memcpy(&n, notes + i * sizeof(n), sizeof(n));
		if (n.name[KV_SPACE_MAX] || !kv_space_check(n.name, strlen(n.name)))
			return -KV_EINVAL;
	}
	*out = t;
	return 0;
}

const uint8_t *tier_table_newest(const uint8_t *front, uint64_t id, struct tier_table *out)
{
	const uint8_t *newest = NULL;
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t *at = front + (size_t)TIER_PAGE * (1 + i * TIER_TABLE_PAGES);
		struct tier_table table;
		if (tier_table_get(at, id, &table) != 0 || (newest && table.version <= out->version))
			continue;
		*out = table;
		newest = at;
	}
	return newest;
}

static uint64_t service_sum(const struct tier_service *s)
{
	return kv_hash_block(s, offsetof(struct tier_service, checksum));
}

uint32_t tier_service_put(uint8_t *to)
{
	struct tier_service s;
	size_t used;
	memcpy(&s, to, sizeof(s));
	used = sizeof(s) + s.members * sizeof(uint64_t);
	memcpy(s.magic, service_magic, sizeof(service_magic));
	s.sum = kv_hash_block(to + sizeof(s), s.members * sizeof(uint64_t));
	s.checksum = service_sum(&s);
	memcpy(to, &s, sizeof(s));
	return (uint32_t)((used + TIER_PAGE - 1) / TIER_PAGE);
}

static bool service_right(const uint8_t *at, uint64_t id, struct tier_service *out)
{
	memcpy(out, at, sizeof(*out));
	return memcmp(out->magic, service_magic, sizeof(service_magic)) == 0 && out->checksum == service_sum(out) &&
	       out->id == id && out->members <= TIER_MEMBERS_MAX && out->drives <= TIER_DEVICES_MAX &&
	       out->sum == kv_hash_block(at + sizeof(*out), out->members * sizeof(uint64_t));
}

int tier_service_get(const uint8_t *from, uint64_t id, struct tier_service *out)
{
	struct tier_service s;
	*out = (struct tier_service){0};
	for (unsigned i = 0; i < 2; i++)
		if (service_right(from + (size_t)i * TIER_SERVICE_PAGES * TIER_PAGE, id, &s) &&
		    s.version > out->version)
			*out = s;
	return out->version ? 0 : -KV_EINVAL;
}

const uint8_t *tier_service_names(const uint8_t *from, const struct tier_service *s)
{
	return from + s->version % 2 * TIER_SERVICE_PAGES * TIER_PAGE + sizeof(*s);
}

uint64_t tier_service_age_ns(const struct tier_service *s, uint64_t now_ns, uint64_t wall_us)
{
	uint64_t wall_ns = (wall_us - KV_MIN(wall_us, s->served_us)) * 1000;
	return KV_MAX(wall_ns, now_ns - KV_MIN(now_ns, s->clock_ns));
}

static uint64_t tomb_check(const struct tier_tomb *e, uint64_t id)
{
	return kv_hash_key(&e->number, sizeof(*e) - offsetof(struct tier_tomb, number), id);
}

void tier_tomb_put(struct tier_tomb *e, uint64_t id)
{
	e->check = tomb_check(e, id);
}

bool tier_tomb_get(const void *from, uint64_t id, struct tier_tomb *out)
{
	memcpy(out, from, sizeof(*out));
	return out->number != 0 && out->check == tomb_check(out, id);
}

/* ---- entries ---- */

static uint64_t entry_sum(const uint8_t *at, uint8_t key_len)
{
	size_t from = offsetof(struct tier_entry, sequence);
	return kv_hash_block(at + from, sizeof(struct tier_entry) - from + key_len);
}

void tier_entry_put(void *to, struct tier_entry *e, const void *key)
{
	uint8_t *at = to;
	memset(at, 0, tier_entry_bytes(e->key_len));
	memcpy(at, e, sizeof(*e));
	memcpy(at + sizeof(*e), key, e->key_len);
	e->checksum = entry_sum(at, e->key_len);
	memcpy(at, &e->checksum, sizeof(e->checksum));
}

int tier_entry_get(const void *from, size_t room, struct tier_entry *out, const uint8_t **out_key)
{
	const uint8_t *at = from;
	struct tier_entry e;
	if (room < sizeof(e))
		return -KV_EINVAL;
	memcpy(&e, at, sizeof(e));
	if (e.key_len == 0 || e.key_len > KV_KEY_MAX || tier_entry_bytes(e.key_len) > room || e.len == 0 ||
	    e.checksum != entry_sum(at, e.key_len))
		return -KV_EINVAL;
	*out = e;
	*out_key = at + sizeof(e);
	return 0;
}

/* ---- footer ---- */

static uint64_t foot_sum(const struct tier_foot *f)
{
	return kv_hash_block(f, offsetof(struct tier_foot, checksum));
}

void tier_foot_put(uint8_t *at, uint32_t entry_bytes, uint32_t count, uint64_t id, uint64_t sequence)
{
	uint64_t all = (uint64_t)tier_foot_pages(entry_bytes) * TIER_PAGE;
	struct tier_foot f = {.id = id,
			      .sequence = sequence,
			      .count = count,
			      .bytes = entry_bytes,
			      .sum = kv_hash_block(at, entry_bytes)};
	memcpy(f.magic, foot_magic, sizeof(foot_magic));
	f.checksum = foot_sum(&f);
	memset(at + entry_bytes, 0, all - entry_bytes);
	memcpy(at + all - sizeof(f), &f, sizeof(f));
}

int tier_foot_get(const uint8_t *last_page, uint32_t segment_pages, struct tier_foot *out)
{
	struct tier_foot f;
	memcpy(&f, last_page + TIER_PAGE - sizeof(f), sizeof(f));
	if (memcmp(f.magic, foot_magic, sizeof(foot_magic)) != 0 || f.checksum != foot_sum(&f))
		return -KV_EINVAL;
	if (f.bytes > (uint64_t)segment_pages * TIER_PAGE || tier_foot_pages(f.bytes) >= segment_pages ||
	    (uint64_t)f.count * tier_entry_bytes(1) > f.bytes)
		return -KV_EINVAL;
	*out = f;
	return 0;
}

bool tier_foot_check(const struct tier_foot *foot, const uint8_t *entries)
{
	return kv_hash_block(entries, foot->bytes) == foot->sum;
}

/* ---- head ---- */

static uint32_t head_sectors(uint32_t segment_pages)
{
	return (segment_pages + TIER_SECTOR_BITS - 1) / TIER_SECTOR_BITS;
}

uint32_t tier_head_pages(uint32_t segment_pages)
{
	return (head_sectors(segment_pages) * TIER_SECTOR + TIER_PAGE - 1) / TIER_PAGE;
}

void tier_head_put(uint8_t *to, uint32_t segment_pages, uint64_t id, uint64_t sequence, const uint8_t *dead)
{
	uint32_t bytes = (segment_pages + 7) / 8;
	memset(to, 0, (size_t)tier_head_pages(segment_pages) * TIER_PAGE);
	for (uint32_t i = 0, at = 0; i < head_sectors(segment_pages); i++, at += TIER_SECTOR_BITS / 8) {
		struct tier_sector s = {.id = id, .sequence = sequence};
		memcpy(s.magic, head_magic, sizeof(head_magic));
		if (dead)
			memcpy(s.dead, dead + at, KV_MIN(bytes - at, (uint32_t)sizeof(s.dead)));
		memcpy(to + (size_t)i * TIER_SECTOR, &s, sizeof(s));
	}
}

int tier_head_get(const uint8_t *from, uint32_t segment_pages, uint64_t id, uint64_t *out_sequence)
{
	struct tier_sector s;
	uint64_t sequence = 0;
	for (uint32_t i = 0; i < head_sectors(segment_pages); i++) {
		memcpy(&s, from + (size_t)i * TIER_SECTOR, sizeof(s));
		if (memcmp(s.magic, head_magic, sizeof(head_magic)) != 0 || s.id != id || s.sequence == 0 ||
		    (i > 0 && s.sequence != sequence))
			return -KV_EINVAL;
		sequence = s.sequence;
	}
	*out_sequence = sequence;
	return 0;
}

bool tier_head_dead(const uint8_t *head, uint32_t page)
{
	const uint8_t *sector = head + (size_t)(page / TIER_SECTOR_BITS) * TIER_SECTOR;
	uint32_t bit = page % TIER_SECTOR_BITS;
	return sector[offsetof(struct tier_sector, dead) + bit / 8] >> bit % 8 & 1;
}
