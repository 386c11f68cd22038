/* SPDX-License-Identifier: Apache-2.0 */
/* format.h -- the bytes on a tier's device. Little-endian; every part has its own XXH3. Pure. Bytes read from a device
 * are input of an unknown hand: each function here accepts any bytes.
 *
 * A range of the device (one shard's):   superblock page, two places for the table of namespaces, two for the record of
 *                                        service, the log of deletions, then segments
 * A table of namespaces:                 tier_table, then a tier_note for each
 * A record of service:                   tier_service, then the names of the cluster's members
 * The log of deletions:                  a ring of tier_tomb
 * A segment:                             head pages, records, unused, footer at its end
 * A record, in whole pages:              tier_entry with the key (TIER_HEAD_BYTES), then the value
 * A footer:                              an entry with its key per record, then tier_foot in its last bytes
 *
 * A segment counts only if head, footer and superblock agree on device id and sequence. The head is written before any
 * record, the footer after all. In the head there is a bit for each page: the record there was deleted since. Bits are
 * only added, sector by sector, so a torn head has old bits or new ones. */
#ifndef KVRAIL_STORE_TIER_FORMAT_H
#define KVRAIL_STORE_TIER_FORMAT_H

#include "base/base.h"
#include "store/space.h"
#include "store/tier/records.h"

enum {
	TIER_VERSION = 2,
	TIER_HEAD_BYTES = 256,                     /* before a value */
	TIER_SECTOR = 512,                         /* written as a whole, or not */
	TIER_SECTOR_BITS = (TIER_SECTOR - 24) * 8, /* pages that a sector of the head covers */
	TIER_SEGMENT_MIN = 1 << 20,                /* bytes */
	TIER_SEGMENT_MAX = TIER_SEGMENT_PAGES_MAX * TIER_PAGE
};

/* The superblock of a range. */
struct tier_super {
	uint8_t magic[8];
	uint32_t version, shard, shards, segment_pages;
	uint64_t id[2];            /* random, of this range since it was made */
	uint64_t offset, segments; /* the range: its first byte on the device, and segments behind the superblock */
	uint64_t made_s;           /* wall clock */
	uint64_t key_seed;         /* of the server's digests: another seed means another placement of keys */
	uint64_t log_pages;        /* of the log of deletions */
	uint64_t bytes;            /* of the range */
	uint8_t reserved[160];
	uint64_t checksum; /* of all before */
};
_Static_assert(sizeof(struct tier_super) == 256, "the superblock's layout");

/* A namespace in the table. Its name ends with zeros. */
struct tier_note {
	uint64_t generation, cleared_us; /* wall clock since 1970, of the last clear; 0: none */
	char name[KV_SPACE_MAX + 8];
};

/* The head of the table. Names without a note have the generation `floor` at least. doubt_s: other servers may have
 * deleted values since then, unheard (wall clock since 1970); 0: no. */
struct tier_table {
	uint8_t magic[8];
	uint64_t id, version, floor;
	uint32_t count, doubt_s;
	uint64_t sum; /* of the notes */
	uint64_t checksum;
};
_Static_assert(sizeof(struct tier_note) == 88 && sizeof(struct tier_table) == 56, "the table's layout");

enum { TIER_DEVICES_MAX = 16, TIER_MEMBERS_MAX = 2 * KV_VIEW_MAX };

/* When the server last served, and with whom: it is written every few seconds, in turn to two places. `members` names
 * follow (tier_member_name): of the cluster's members, and of those that left lately. */
struct tier_service {
	uint8_t magic[8];
	uint64_t id, version;
	uint64_t served_us, clock_ns; /* the wall clock since 1970 and the shard's clock, when it was written */
	uint64_t since_us;            /* the log has all later deletions; wall clock */
	uint32_t members, drives;
	uint64_t drive[TIER_DEVICES_MAX]; /* ids of the ranges of this shard that have the same log */
	uint64_t sum;                     /* of the names */
	uint64_t checksum;
};
_Static_assert(sizeof(struct tier_service) == 200, "the layout of the record of service");

/* A deleted or touched key in the log. Entry n lies in place (n - 1) % places of the ring. */
struct tier_tomb {
	uint64_t check;  /* of the rest, and of the range's id */
	uint64_t number; /* counts up, from 1 */
	uint64_t id;     /* store_id of the key */
	uint64_t when; /* TIER_TOMB_MS: wall clock when it came. TOUCHED. BACK: entries written together with it before
			*/
};
_Static_assert(sizeof(struct tier_tomb) == 32, "the layout of a deletion");

#define TIER_TOMB_MS      16 /* shift */
#define TIER_TOMB_TOUCHED 256u
#define TIER_TOMB_BACK    255u

enum {
	TIER_TABLE_PAGES =
		(sizeof(struct tier_table) + SPACES_MAX * sizeof(struct tier_note) + TIER_PAGE - 1) / TIER_PAGE,
	TIER_SERVICE_PAGES =
		(sizeof(struct tier_service) + TIER_MEMBERS_MAX * sizeof(uint64_t) + TIER_PAGE - 1) / TIER_PAGE,
	TIER_SERVICE_PAGE = 1 + 2 * TIER_TABLE_PAGES,                     /* the first place */
	TIER_LOG_PAGE = TIER_SERVICE_PAGE + 2 * TIER_SERVICE_PAGES,       /* the log's first */
	TIER_FRONT_BYTES = TIER_LOG_PAGE * TIER_PAGE,                     /* before the log */
	TIER_TOMBS_PAGE = TIER_PAGE / (unsigned)sizeof(struct tier_tomb), /* entries in a page */
	TIER_LOG_SHARE = 256,                                             /* the log takes this part of a range ... */
	TIER_LOG_MIN = 8,                                                 /* ... and pages within these bounds */
	TIER_LOG_MAX = 1024
};

/* tier_log_pages -- of the log in a range of these bytes. tier_first_page -- of the first segment. */
static inline uint32_t tier_log_pages(uint64_t range_bytes)
{
	uint64_t pages = range_bytes / TIER_PAGE / TIER_LOG_SHARE;
	return (uint32_t)KV_MIN(KV_MAX(pages, (uint64_t)TIER_LOG_MIN), (uint64_t)TIER_LOG_MAX);
}

static inline uint64_t tier_first_page(uint64_t range_bytes)
{
	return TIER_LOG_PAGE + tier_log_pages(range_bytes);
}

/* A record's description; key_len bytes of the key follow. */
struct tier_entry {
	uint64_t checksum;
	uint64_t sequence;            /* of the segment */
	uint64_t id;                  /* of the range: its first half */
	uint64_t sum;                 /* of the value: kv_hash_block */
	uint64_t generation;          /* of the block */
	uint64_t born_us, expires_us; /* wall clock since 1970; expires 0: never */
	uint32_t len;
	uint16_t page; /* of the segment */
	uint8_t key_len, flags;
	/* Of its namespace: tier_space_hash, and the generation that the value is of. */
	uint64_t space_hash, space_generation;
};
_Static_assert(sizeof(struct tier_entry) == 80 && sizeof(struct tier_entry) + KV_KEY_MAX <= TIER_HEAD_BYTES,
	       "an entry with its key has its room");

/* The end of a footer, in the last bytes of its segment. */
struct tier_foot {
	uint8_t magic[8];
	uint64_t id, sequence;
	uint32_t count, bytes;
	uint64_t sum; /* XXH3 of the entries */
	uint64_t checksum;
};
_Static_assert(sizeof(struct tier_foot) == 48, "the foot's layout");

/* Each sector of a head. */
struct tier_sector {
	uint8_t magic[8];
	uint64_t id, sequence;
	uint8_t dead[TIER_SECTOR - 24];
};
_Static_assert(sizeof(struct tier_sector) == TIER_SECTOR, "a sector of the head");

/* tier_head_pages -- pages of the head of a segment of this many. tier_foot_pages -- of a footer with these bytes of
 * entries. tier_entry_bytes -- of an entry in a footer. */
uint32_t tier_head_pages(uint32_t segment_pages);
static inline uint32_t tier_foot_pages(uint64_t entry_bytes)
{
	return (uint32_t)((entry_bytes + sizeof(struct tier_foot) + TIER_PAGE - 1) / TIER_PAGE);
}
static inline uint32_t tier_entry_bytes(uint8_t key_len)
{
	return (uint32_t)(sizeof(struct tier_entry) + (key_len + 7u) / 8 * 8);
}

/* tier_super_seal -- set magic, version and checksum. tier_super_check -- of a page read from a device. 0; -KV_EINVAL:
 * it is none, or damaged; -KV_EVERSION: of another version of this format. */
void tier_super_seal(struct tier_super *s);
int tier_super_check(const void *page, struct tier_super *out);

/* tier_table_put -- complete a table of `count` notes, which lie behind its head. Returns its pages. tier_table_get --
 * read one from TIER_TABLE_PAGES pages. 0, or -KV_EINVAL: it is none of this range, or torn. tier_table_begins --
 * whether a page begins one, of whatever range. tier_table_newest -- the newer one of the two behind the superblock,
 * and where it lies in `front` (TIER_FRONT_BYTES); NULL: both are damaged. tier_space_hash -- of a name, on the device
 * with this superblock: nobody can choose names with equal ones. */
uint32_t tier_table_put(uint8_t *to, uint64_t id, uint64_t version, uint64_t floor, uint32_t count, uint32_t doubt_s);
int tier_table_get(const uint8_t *from, uint64_t id, struct tier_table *out);
bool tier_table_begins(const uint8_t *page);
const uint8_t *tier_table_newest(const uint8_t *front, uint64_t id, struct tier_table *out);
static inline uint64_t tier_space_hash(const struct tier_super *s, const char *name)
{
	return kv_hash_key(name, strlen(name), s->id[1]);
}

/* tier_service_put -- complete a record of service whose `members` names lie behind it: magic and sums. Returns its
 * pages. tier_service_get -- the newer one of the two places. 0, or -KV_EINVAL: there is none of this range.
 * tier_service_names -- of the record that was found. tier_service_age_ns -- the time since it was written, by the
 * clock that says more. tier_member_name -- of a member's node id. */
uint32_t tier_service_put(uint8_t *to);
int tier_service_get(const uint8_t *from, uint64_t id, struct tier_service *out);
const uint8_t *tier_service_names(const uint8_t *from, const struct tier_service *s);
uint64_t tier_service_age_ns(const struct tier_service *s, uint64_t now_ns, uint64_t wall_us);
static inline uint64_t tier_member_name(const char *node_id)
{
	return kv_hash_key(node_id, strlen(node_id), 0);
}

/* tier_tomb_put -- set its check. tier_tomb_get -- whether this is a whole entry of the range. */
void tier_tomb_put(struct tier_tomb *e, uint64_t id);
bool tier_tomb_get(const void *from, uint64_t id, struct tier_tomb *out);

/* tier_entry_put -- write *e with its key to `to` (tier_entry_bytes; the rest of TIER_HEAD_BYTES is the caller's), and
 * set its checksum. tier_entry_get -- read one from at most `room` bytes. *out_key points into `from`. 0, or
 * -KV_EINVAL: it is none. */
void tier_entry_put(void *to, struct tier_entry *e, const void *key);
int tier_entry_get(const void *from, size_t room, struct tier_entry *out, const uint8_t **out_key);

/* tier_foot_put -- complete a footer: `entry_bytes` of entries, `count` of them, lie at `at`; the foot is written to
 * the last bytes of tier_foot_pages from there, and the gap is cleared. tier_foot_get -- find the foot at the end of a
 * segment's last page. 0, or -KV_EINVAL. tier_foot_check -- whether the entries agree with it. */
void tier_foot_put(uint8_t *at, uint32_t entry_bytes, uint32_t count, uint64_t id, uint64_t sequence);
int tier_foot_get(const uint8_t *last_page, uint32_t segment_pages, struct tier_foot *out);
bool tier_foot_check(const struct tier_foot *foot, const uint8_t *entries);

/* tier_head_put -- the head of a segment. dead: bits by page, or NULL. tier_head_get -- whether all its sectors are of
 * this id; *out_sequence is the sequence of all of them. 0, or -KV_EINVAL. tier_head_dead -- whether the record at this
 * page was deleted. */
void tier_head_put(uint8_t *to, uint32_t segment_pages, uint64_t id, uint64_t sequence, const uint8_t *dead);
int tier_head_get(const uint8_t *from, uint32_t segment_pages, uint64_t id, uint64_t *out_sequence);
bool tier_head_dead(const uint8_t *head, uint32_t page);

#endif
