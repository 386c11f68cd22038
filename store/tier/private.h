/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- the parts of a tier for each other. From the top down: tier, judge, scan, service, log, table, source,
 * keep, writer, gets, keys, heads, drive. Lower files call up through struct tier_hooks. */
#ifndef KVRAIL_STORE_TIER_PRIVATE_H
#define KVRAIL_STORE_TIER_PRIVATE_H

#include "store/store.h"
#include "store/tier/tier.h"

struct tier_drive;

/* ---- drive.c: a device, its transfers and its failures ---- */

/* A budget of bytes written, refilled with time. */
struct tier_budget {
	uint64_t per_s, most; /* per_s 0: no limit */
	int64_t left;         /* may be negative: the last record exceeded it */
};

/* A piece of a device, read at once: 256 KiB. One of a get (gets.c) or of the scan (scan.c) uses it. */
enum tier_slot_state { SLOT_FREE, SLOT_FLYING, SLOT_READ };

struct tier_slot {
	struct tier_io io;
	struct kv_list node; /* of the drive's free slots, or of its get's pieces */
	uint8_t *mem;
	struct tier_get *get; /* NULL: nobody waits for it */
	uint32_t piece;       /* number of the piece of the record */
	uint32_t got;         /* bytes */
	uint8_t state;        /* enum tier_slot_state */
	/* Of the scan: */
	uint32_t segment, foot_pages, want;
	uint64_t from, sequence;
	uint8_t step;
	uint8_t *large; /* malloc'd, for a footer that exceeds mem */
};

struct tier_buffer {
	struct tier_io io;
	uint8_t *mem;
	uint32_t segment, page; /* place of its first byte */
	uint32_t bytes;         /* filled */
	uint32_t sent;          /* of these, written */
	bool flying;
};

/* The writer of a drive (writer.c). */
struct tier_writer {
	struct tier_buffer buffer[TIER_WRITES];
	struct tier_buffer *filling; /* NULL: none */
	uint32_t record;             /* the item being copied; 0: none */
	uint32_t left;               /* bytes of its value not copied yet */
	uint32_t next_page;          /* where the next buffer begins, in the middle of a record */
	uint32_t pending;            /* the first pending item of the open segment; 0: none */
	uint8_t *foot;               /* entries of the open segment */
	uint32_t foot_room;
	uint64_t filled_ns; /* the last copy */
	bool hurry;         /* somebody waits for a pending record */
	/* The segment whose footer is to be written. */
	struct {
		struct tier_io io;
		uint32_t segment, pending, foot_bytes, foot_room;
		uint8_t *foot;
		bool busy, flying;
	} seal;
};

/* The head writer of a drive (heads.c). */
enum tier_head_state { HEAD_NONE, HEAD_WANTED, HEAD_FLYING, HEAD_DONE };

struct tier_heads {
	struct tier_io io;
	uint8_t *mem;
	uint8_t next;                  /* enum tier_head_state of the next segment's new head */
	bool flying;                   /* of a segment with deletions */
	uint32_t segment;              /* flying: that one */
	uint64_t mark;                 /* flying: its first mark then */
	uint32_t first, last, waiting; /* segments to be written, linked by queue_next; their number */
};

/* The keeper of a drive: copies records with hits out of the cleared segment (keep.c). */
struct tier_keep {
	struct tier_io io;
	uint8_t *mem;       /* TIER_READ bytes */
	uint32_t item;      /* 0: none */
	uint32_t page;      /* the next page to be read, of the record */
	uint32_t at, have;  /* bytes of mem copied, and read */
	bool flying, begun; /* begun: the writer has its new record */
	bool failed;
};

/* The writer of the table of namespaces (table.c). */
struct tier_table_writer {
	struct tier_io io;
	uint8_t *mem;            /* TIER_TABLE_PAGES; while the device is read, `names` */
	struct tier_name *names; /* sorted, of the table as read */
	uint32_t count;          /* names */
	uint32_t bytes, sent;
	uint64_t version; /* of the table on the device */
	uint64_t saved;   /* spaces.changes, as that table has them */
	uint64_t mark;    /* of the first clear that the device lacks; 0: none */
	uint64_t flying_changes, flying_mark;
	bool flying;
};

/* The log of deletions (log.c). */
struct tier_log {
	struct tier_io io;
	uint8_t *mem;    /* the page that is being filled */
	uint32_t pages;  /* of the log */
	uint64_t number; /* of the next entry; 0: the log is not read yet */
	uint64_t taken;  /* tombs.put: tombstones before are on the device */
	uint64_t mark;   /* of the first deletion that the device lacks; 0: none */
	uint64_t flying_taken, flying_number, flying_mark;
	bool flying;
	uint8_t *all;     /* until its entries are given to the store: all of it; malloc'd */
	uint32_t got;     /* bytes of it */
	uint64_t oldest;  /* of the entries in it; 0: none */
	int64_t since_ns; /* it has all later deletions */
};

/* The record of service (service.c). */
struct tier_service_writer {
	struct tier_io io;
	uint8_t *mem;             /* TIER_SERVICE_PAGES */
	struct tier_service last; /* of an earlier process; version 0: none */
	uint64_t version, due_ns;
	uint32_t bytes, sent;
	bool flying, late; /* late: the log lacks deletions that the record must not promise */
};

/* A name that the device's records may have. */
struct tier_name {
	uint64_t hash;  /* tier_space_hash */
	uint32_t space; /* number here */
};

struct tier_drive {
	struct tier *t;
	struct tier_device *dev;
	unsigned index;
	uint8_t state; /* enum tier_device_state */
	bool known;    /* its superblock was read or written: super is valid, and the records are complete */
	struct tier_super super;
	struct tier_fifo fifo;
	struct kv_list flying; /* struct tier_io, oldest first */
	unsigned flying_count, errors;
	uint64_t again_ns, wait_ns;
	struct tier_budget rate, day;
	struct tier_writer w;
	struct tier_heads h;
	struct tier_keep k;
	struct tier_table_writer names;
	struct tier_log log;
	struct tier_service_writer service;
	uint8_t *mem; /* of slots, buffers, head, table and keeper */
	struct tier_slot slot[TIER_READS];
	struct kv_list slots_free;
	struct kv_list gets; /* that have pieces to ask for */
	uint64_t pieces;     /* not read yet, of all gets */
	uint64_t piece_ns;   /* mean time of a piece */
	struct {
		struct tier_io io;
		uint32_t next, running;
		uint64_t newest, began_ns, found;
		uint32_t newest_segment;
		uint32_t got, want; /* bytes of the front */
		bool super;         /* io is in flight */
		bool front;         /* superblock and table are here; segments are read when the others' are */
		bool fresh;         /* no segment has to be read */
		bool over;          /* the drive waits for the others' */
	} scan;
	uint64_t old_sequence; /* segments up to this one are of an earlier process */
	bool unsaved_logged;
	struct kv_rate damaged_lines;
	struct tier_stats stats;
};

/* A key whose value is being read (gets.c). */
enum tier_get_state {
	GET_PENDING, /* its record is not on the device yet */
	GET_ROOM,    /* memory is being cleared */
	GET_PIECES   /* pieces are read */
};

struct tier_get {
	struct kv_list node;  /* of its chain in t->gets */
	struct kv_list queue; /* of t->rooms or t->pending, or of the drive's gets */
	struct kv_list waits; /* struct tier_wait */
	struct kv_list read;  /* struct tier_slot: pieces in flight or read */
	struct tier_drive *d;
	uint32_t item, segment, page, len;
	uint32_t pieces, asked, taken; /* of the record */
	uint32_t expires_s;            /* as tier_item; its item may be dropped or moved during the read */
	uint8_t state;
	bool gone; /* deleted or replaced since */
	uint16_t space;
	struct block *block;
	struct room *room;
	struct tier_id id;
	struct tier_entry entry;
	struct kv_hasher hasher;
	uint8_t key_len, key[KV_KEY_MAX];
};

enum { GET_CHAINS = 256, PUTS_MAX = 1024, AHEAD_MAX = 64 };

/* A block that may be written: still the same one if both agree. */
struct tier_hint {
	uint64_t hash, generation;
};

/* What lower files call (tier.c). */
struct tier_hooks {
	void (*down)(struct tier_drive *d); /* the drive is down now */
	void (*settled)(struct tier *t);    /* records have become readable, or were lost */
	void (*logged)(struct tier *t);     /* a log of deletions is read */
};

/* Which values go to the drives (source.c). */
struct tier_source {
	struct block *block; /* being copied, with a reference */
	uint64_t copied;
	struct tier_drive *to; /* the drive that gets it */
	struct tier_hint put[PUTS_MAX], ahead[AHEAD_MAX], flush;
	unsigned put_first, put_count, ahead_first, ahead_count;
	uint64_t looked_time; /* of the policy, at the last look ahead */
	unsigned look_again;  /* after this time, likewise */
	unsigned turn;        /* the drive that gets the next value */
	bool flushing, flushed;
	struct ranking ranking;
};

struct tier {
	struct tier_options opt;
	uint64_t value_part; /* bytes of the devices for each place in the index */
	const struct tier_hooks *hooks;
	struct store *store;
	uint64_t now_ns;
	uint64_t now_tick_ns; /* of the last tick */
	bool started, stopped;
	unsigned drives;
	struct tier_drive *drive[TIER_DEVICES_MAX];
	struct tier_records records;
	struct tier_admission admission;
	struct tier_totals totals;
	/* gets.c */
	struct slab gets_slab;
	struct kv_list gets[GET_CHAINS], rooms, rooms_waiting, pending;
	uint64_t reading_bytes; /* of memory, for values being read */
	uint64_t sequence;      /* of all segments of all drives, the highest */
	/* heads.c */
	uint64_t marks, unsaved_first; /* deletions; the first one made while footers are read */
	struct kv_list safes;          /* struct tier_safe, by mark */
	struct tier_records gone;      /* keys deleted while footers are read */
	bool gone_full;                /* there were more: footers still to be read do not count */
	/* log.c, service.c */
	uint64_t noted;   /* tombs.put: later tombstones have no mark yet */
	bool remembers;   /* the logs of earlier processes are read */
	uint64_t *member; /* names; malloc'd */
	uint32_t members;
	/* judge.c */
	struct {
		uint32_t *more; /* of deleted keys, sorted; malloc'd */
		uint32_t count, next;
		bool all, busy; /* all: every record is dropped */
	} judge;
	/* table.c */
	uint8_t cleared[SPACES_MAX / 8]; /* by number: cleared while tables were read: no generation there counts */
	uint64_t swept_clears;           /* spaces.clears, when the last walk over all records began */
	uint32_t sweep;                  /* records it has still to look at */
	uint32_t doubt_s;                /* since when a doubt waits, or waited when a server ended; 0: none */
	struct tier_source source;
	bool more; /* the last turn left work */
};

/* The time, read at a completion or in a turn: it never goes back. */
static inline void tier_time(struct tier *t, uint64_t now_ns)
{
	t->now_ns = KV_MAX(t->now_ns, now_ns);
}

static inline uint64_t tier_wall_us(const struct tier *t)
{
	return t->opt.wall_us + (t->now_ns - t->opt.now_ns) / 1000;
}

/* Whether nothing of it may be seen now. */
static inline bool tier_hidden(const struct tier *t)
{
	return t->stopped || t->judge.busy || t->store->doubt.how == DOUBT_WAIT;
}

static inline uint64_t tier_wall_s(const struct tier *t)
{
	return tier_wall_us(t) / 1000000;
}

/* When the value was born: of an earlier process, before this one, whatever the clocks say. */
static inline uint64_t tier_born_us(const struct tier_drive *d, const struct tier_entry *e)
{
	return e->sequence <= d->old_sequence ? KV_MIN(e->born_us, d->t->opt.wall_us) : e->born_us;
}

/* A value counts for its tenant's cap with its bytes, or with its part of the index if that is more. */
static inline uint64_t tier_charge(const struct tier *t, uint64_t len)
{
	return KV_MAX(len, t->value_part);
}

static inline void tier_item_space(const struct tier *t, struct tier_item *i, struct space *sp)
{
	i->space = sp->index & (SPACES_MAX - 1);
	i->age = sp->generation & 15;
	tenant_tier_add(sp, i->len, tier_charge(t, i->len));
}

static inline struct tier_drive *tier_drive_of(const struct tier *t, uint32_t item)
{
	unsigned i = t->drives - 1;
	while (t->records.item[item].segment < t->drive[i]->fifo.opt.base)
		i--;
	return t->drive[i];
}

static inline uint64_t tier_place(const struct tier_drive *d, uint32_t segment, uint32_t page)
{
	return TIER_PAGE * (tier_first_page(d->dev->bytes) + (uint64_t)segment * d->fifo.opt.segment_pages + page);
}

/* drive_begin -- submit a transfer; its done() calls drive_ended first; io->arg is the drive. drive_ended -- count it.
 * Returns its bytes, or a negative code; the drive may be down then. drive_down -- stop using it; *why is for the log.
 */
void drive_begin(struct tier_drive *d, struct tier_io *io, void (*done)(struct tier_io *io, int64_t result),
		 uint64_t offset, uint8_t *buf, uint32_t len, bool write);
int64_t drive_ended(struct tier_drive *d, struct tier_io *io, int64_t result);
void drive_down(struct tier_drive *d, const char *why);
void budget_refill(struct tier_budget *b, uint64_t ns);
static inline bool budget_has(const struct tier_budget *b)
{
	return b->per_s == 0 || b->left > 0;
}

/* ---- heads.c: deletions that hold, and heads of segments to be used ---- */

void heads_pump(struct tier_drive *d);        /* write what is to be written */
void heads_want_next(struct tier_drive *d);   /* the next segment needs its new head */
void heads_unsaved_log(struct tier_drive *d); /* deletions cannot be written */
void heads_down(struct tier_drive *d);
/* heads_mark -- the record at this place is void: its bit has to be set on the device. */
void heads_mark(struct tier_drive *d, uint32_t segment, uint32_t page);
bool heads_unsafe(const struct tier *t);      /* deletions are unsaved on a failed device */
void heads_settle(struct tier *t);            /* end what waits for deletions that are safe now */
uint64_t heads_unsaved(const struct tier *t); /* the first mark that is not safe; UINT64_MAX: all are */

/* ---- writer.c: records into buffers, buffers to the device, footers ---- */

/* writer_ready -- prepare for a record of this size: 0; -EAGAIN: not now; -KV_ETOOBIG: for a segment; -KV_ENOMEM: the
 * index is full, until the ring has moved, which this call sees to. writer_begin --
 * right after: begin it, for a key of this space; *e without sequence, id, page and space; the key has no record.
 * False: the index is full. writer_copy
 * -- take bytes of its value (NULL: zeros); returns how many. The record ends with its last byte. */
int writer_ready(struct tier_drive *d, uint32_t len, uint8_t key_len);
bool writer_begin(struct tier_drive *d, const struct tier_id *id, struct space *sp, struct tier_entry *e,
		  const void *key);
uint32_t writer_copy(struct tier_drive *d, const uint8_t *from, uint32_t len);
/* writer_room -- bytes that can be copied now. writer_pump -- submit what has lingered, and footers. */
uint64_t writer_room(const struct tier_drive *d);
void writer_pump(struct tier_drive *d);
void writer_down(struct tier_drive *d);
bool writer_idle(const struct tier_drive *d); /* nothing is in flight or to be written */
void writer_seal(struct tier_drive *d);       /* end the open segment early: a flush */

/* ---- keep.c ---- */

/* keep_step -- clear the next segment, and copy its records with hits. Returns the bytes copied, at most `budget`. */
uint32_t keep_step(struct tier_drive *d, uint32_t budget);
void keep_down(struct tier_drive *d);

/* ---- table.c: the namespaces and their generations on a device ---- */

/* table_read -- what a device knows, at the front that was read, counts from now on; it is for d->super. False: the
 * table is damaged. table_make -- write the first table of a new device behind its superblock; returns the bytes of
 * both. table_space -- the present space of a record that was found; NULL: none, or cleared. */
bool table_read(struct tier_drive *d, const uint8_t *front);
uint32_t table_make(struct tier_drive *d, uint8_t *front);
struct space *table_space(const struct tier_drive *d, const struct tier_entry *e);

void table_pump(struct tier_drive *d);                /* write it, if there is anything new */
void table_mark(struct tier_drive *d, uint64_t mark); /* a clear waits for it */
void table_down(struct tier_drive *d);
void table_doubt(struct tier *t); /* note a doubt that waits, or its end */

/* table_clean -- the device has all that the store knows of namespaces. */
static inline bool table_clean(const struct tier_drive *d)
{
	return d->names.saved == d->t->store->spaces.changes;
}

/* table_current -- whether the record is of the space's present generation. */
static inline bool table_current(const struct tier_drive *d, const struct space *sp, const struct tier_entry *e)
{
	return e->space_generation == sp->generation && e->space_hash == tier_space_hash(&d->super, sp->name);
}

/* table_sweep -- drop records of earlier generations, at most `budget` looks. */
void table_sweep(struct tier *t, uint32_t budget);

/* ---- log.c: the keys deleted here, for other members ---- */

/* log_read -- read the drive's log; a fresh one is empty. log_give -- the entries read become the store's. log_pump --
 * write what is new. log_note -- deletions since the last call wait for the devices. log_ready -- whether it was read.
 * */
void log_read(struct tier_drive *d, bool fresh);
void log_pump(struct tier_drive *d);
void log_note(struct tier *t);
void log_give(struct tier *t);
void log_down(struct tier_drive *d);
static inline bool log_ready(const struct tier_drive *d)
{
	return d->log.number != 0;
}

/* ---- service.c: when this server served ---- */

void service_read(struct tier_drive *d, const uint8_t *front);
void service_pump(struct tier_drive *d);
/* service_settle -- when all logs are read: what they know is the store's. */
void service_settle(struct tier *t);

/* ---- source.c: which values are written ---- */

/* source_step -- copy values, at most `budget` bytes. Returns the bytes copied. */
uint32_t source_step(struct tier *t, uint32_t budget);
void source_down(struct tier_drive *d);
void source_stop(struct tier *t);

/* ---- keys.c: records by key ---- */

/* tier_id_in -- a key of this space, in its present generation. tier_id_of -- of the space that the store entered. */
static inline struct tier_id tier_id_in(const struct tier *t, const struct space *sp, const void *key, size_t len)
{
	const struct index ix = {.seed = sp->seed, .digest_seed = t->store->index.digest_seed};
	return (struct tier_id){index_hash(&ix, key, len), tier_more(key, len)};
}

static inline struct tier_id tier_id_of(const struct tier *t, const void *key, size_t len)
{
	return tier_id_in(t, t->store->space, key, len);
}

/* tier_key_find -- the record of a key, or 0; one whose time is over is dropped. tier_key_drop -- drop a live one;
 * marked: its deletion has to hold after a crash. */
uint32_t tier_key_find(struct tier *t, const struct tier_id *id);
void tier_key_drop(struct tier *t, uint32_t item, bool marked);
void tier_key_mark(struct tier *t, uint32_t item); /* its deletion has to hold after a crash */

/* tier_key_void -- forget all records of a drive. tier_key_reading -- whether footers may have more records; then keys
 * without one are remembered: tier_key_remember -- a key was deleted or replaced. tier_key_gone -- whether this one is
 * remembered. tier_key_read -- all footers are read now. */
void tier_key_void(struct tier_drive *d);
bool tier_key_reading(const struct tier *t);
void tier_key_read(struct tier *t);
void tier_key_remember(struct tier *t, const struct space *sp, const void *key, size_t len);
bool tier_key_gone(const struct tier *t, const struct space *sp, const void *key, size_t len);

/* ---- gets.c ---- */

void gets_pump(struct tier_drive *d);                /* ask for pieces */
uint32_t gets_step(struct tier *t, uint32_t budget); /* take read pieces, clear memory; returns the bytes taken */
void gets_down(struct tier_drive *d);
void gets_stop(struct tier *t);
void gets_settle(struct tier *t);                         /* records have become readable, or were lost */
void gets_void(struct tier *t, const struct tier_id *id); /* the value being read is void */
void gets_touch(struct tier *t, const struct tier_id *id, uint32_t expires_s); /* it has this life */

/* ---- judge.c ---- */

bool judge_step(struct tier *t);                              /* false: there is nothing to do */
bool judged(const struct tier *t, const struct tier_item *i); /* the last verdicts are against the record */

/* ---- scan.c: the start of a device ---- */

void scan_begin(struct tier_drive *d);
void scan_down(struct tier *t); /* a drive is down: others waited for it */

#endif
