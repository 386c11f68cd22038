/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h -- every byte that KVRail puts on a wire. No I/O, no state, no allocation.
 *
 *   1. Fabric frames: libfabric messages of at most KV_MSG_MAX bytes between a client rail and a server shard's rail. A
 *      frame is a header (frame.c), then requests (request.c) or replies (reply.c), which fill it exactly.
 *   2. Control messages (control.c): length-prefixed, on the TLS connection between a client engine and a server.
 *
 * The layout of a record or message is its walk function: all fields in order. The structs below have their meaning.
 * All integers are little-endian. Decoding is total: any input gives a message or -KV_EPROTO, and nothing is read
 * outside the input. Decoded pointers (keys, inline bytes, addresses) point into the input.
 *
 * A record is a multiple of 8 bytes long, and padded with zeros. Reserved fields and flags without a meaning for the
 * type are zero; anything else is -KV_EPROTO. So a record has one encoding. A reply has its whole body whatever its
 * status, and may repeat the flags of its request, but MORE.
 *
 * Strings of control messages: u16 length, bytes (no zero inside), shorter than KV_NAME_MAX (REFUSE, SESSION_REFUSE:
 * 512; an identity: WIRE_IDENTITY_MAX). Addresses: u16 length (1 to KV_ADDR_MAX), bytes. */
#ifndef KVRAIL_WIRE_WIRE_H
#define KVRAIL_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
	WIRE_MAGIC = 0x524B,
	WIRE_VERSION = 5,
	WIRE_FRAME_HEADER = 40,
	WIRE_RECORDS_AT = 26,    /* offset of the record count in a frame */
	WIRE_RECORD_HEADER = 16, /* of a request; a reply's header begins with the same fields */
	WIRE_REPLY_HEADER = 24,
	WIRE_RECORDS_MAX = 255,
	WIRE_DIGEST_BYTES = 8,
	WIRE_EXISTS_MAX = 500, /* these fit a frame behind a PROVE */
	WIRE_EXISTS_BITMAP = (WIRE_EXISTS_MAX + 7) / 8,
	WIRE_STAT_MAX = 248,
	WIRE_BEFORE_MAX = 64 << 10, /* WIRE_GET_PACK */
	WIRE_CTRL_HEADER = 8,
	WIRE_SESSION_BYTES = 24, /* length of a SESSION record */
	WIRE_PROVE_BYTES = 24,   /* length of a PROVE record */
	WIRE_NONCE_LEN = 32,
	WIRE_PROOF_LEN = 32,
	WIRE_IDENTITY_MAX = 129, /* bytes of an identity, with the final 0 */
	WIRE_RELEASE_MAX = 128,
	WIRE_TOMBS_MAX = 200,
	WIRE_SPACES_MAX = 33,
	WIRE_TENANTS_MAX = 20,
	WIRE_LEASES_MAX = 33,
	WIRE_SPACE_BYTES = 120,                                                    /* of a packed namespace */
	WIRE_TENANT_BYTES = 192,                                                   /* of a packed tenant */
	WIRE_HOLDER_BYTES = 120,                                                   /* of a packed holder of leases */
	WIRE_MEMBER_BYTES = 16 + 6 + 2 * (KV_NAME_MAX - 1) + KV_MEMBER_ADDRESS - 1 /* of a packed member */
};

enum wire_type {
	WIRE_GET = 1,
	WIRE_PUT = 2,
	WIRE_EXISTS = 3,
	WIRE_DELETE = 4,
	WIRE_TOUCH = 5,
	WIRE_PIN = 6,
	WIRE_STAT = 7,
	WIRE_CANCEL = 8,
	WIRE_PING = 9,
	WIRE_TOMBS = 10,
	WIRE_CLEAR = 11,   /* advances the generation of the session's namespace */
	WIRE_SPACES = 12,  /* lists namespaces */
	WIRE_TENANTS = 13, /* lists tenants */
	WIRE_SESSION = 14, /* among requests; no reply */
	WIRE_RELEASE = 15, /* returns leases: no reply, no credit */
	WIRE_PROVE = 16,   /* proves the client's address: no reply, no credit */
	WIRE_LEASES = 17,  /* lists the clients on the server's host that hold leases */
	WIRE_TYPES,
	WIRE_REPLY = 0x80
};

enum wire_flag {
	/* GET */
	WIRE_GET_SUM_RANGE = 1, /* checksum of the range, not of the value */
	WIRE_GET_INLINE = 2,    /* a small range may be inside the reply */
	WIRE_GET_CHECK = 4,     /* the last bytes were corrupt: verify the value, and drop it if it is wrong */
	WIRE_GET_YOUNG = 8,     /* a value put after its key was deleted elsewhere */
	WIRE_GET_PACK = 16,     /* may be written together with its neighbours, then into the destinations before its
				   own. Reply, with FOLLOWS and status OK only: it is */
	WIRE_GET_PULL = 32,     /* the client prefers to read the bytes; see WIRE_WELCOME_PULL. Without a dest, over a
				   channel: it reads them in place (protocol.md 4.8) */
	WIRE_GET_MORE = 64,     /* a further range or part of a value: not counted as a GET */
	WIRE_GET_MEMORY_ONLY = 128, /* a value on the tier alone is a miss */
	/* reply to GET */
	WIRE_GET_ON_TIER = 2, /* NOTFOUND only: the tier has the value, but was not to be read, or not in time */
	WIRE_GET_FOLLOWS = 8, /* the bytes are in place, without immediates; where messages follow earlier writes */
	WIRE_GET_LEASED = 64, /* the client reads the bytes from the arena, within the lease time. Without FOLLOWS */
	WIRE_GET_HOT = 128,   /* read often lately (store/heat.h), status OK only: the client may keep a second copy */
	/* PUT */
	WIRE_PUT_FIRST = 1,     /* first range of a value */
	WIRE_PUT_LAST = 2,      /* last range: check, then commit */
	WIRE_PUT_LANDED = 4,    /* the bytes are in the landing area, written before over this connection */
	WIRE_PUT_COPY = 8,      /* with FIRST: a copy from another server */
	WIRE_PUT_SPARE = 16,    /* with COPY: only into free memory (else NOMEM), and evicted first */
	WIRE_PUT_SUM_LAST = 32, /* with FIRST: the checksum comes with LAST */
	/* others */
	WIRE_DELETE_THIS = 1,    /* the value of one generation, and copies no younger */
	WIRE_DELETE_AT = 2,      /* the value at some time */
	WIRE_EXISTS_DELETED = 1, /* reply: a second bitmap has the keys deleted lately */
	WIRE_EXISTS_TIER = 2,    /* reply: another bitmap has the keys that exist on the tier alone */
	WIRE_TOMBS_LATER = 1,    /* reply: members are away that may know more; ask again later */
	WIRE_TOUCH_LOOK = 1,     /* changes nothing; without MARK and AT */
	WIRE_TOUCH_MARK = 2,     /* copies that come later live no longer than this, if the key is not there */
	WIRE_TOUCH_YOUNG = 4,    /* as WIRE_GET_YOUNG; without AT */
	WIRE_TOUCH_AT = 8,       /* the value at some time */
	WIRE_PIN_RELEASE = 1,    /* takes the pin back */
	WIRE_CLEAR_RAISE = 1     /* only up to the named generation */
};

/* wire_status_error and wire_error_status translate to and from -KV_E*. */
enum wire_status {
	WIRE_OK = 0,
	WIRE_NOTFOUND = 1,
	WIRE_EXISTS_OTHER = 2, /* KV_EEXIST */
	WIRE_BUSY = 3,
	WIRE_CORRUPT = 4,
	WIRE_DENIED = 5,
	WIRE_TOOBIG = 6,
	WIRE_INVALID = 7,
	WIRE_NOMEM = 8,
	WIRE_TIMEOUT = 9,
	WIRE_CANCELED = 10,
	WIRE_STALE = 11,    /* the generation is gone */
	WIRE_MISMATCH = 12, /* KV_EVERSION */
	WIRE_FULL = 13,
	WIRE_NOTSUP = 14,
	WIRE_FABRIC = 15,  /* KV_EPROVIDER, of the server */
	WIRE_CLOSING = 16, /* the server shuts down: KV_EPEERDOWN */
	WIRE_DELETED = 17, /* deleted lately; of a copy: too old */
	WIRE_STATUS_MAX
};

enum wire_cancel { WIRE_CANCEL_UNSEEN = 0, WIRE_CANCEL_STOPPED = 1, WIRE_CANCEL_DONE = 2 };

/* Statistics of a shard in STAT: WIRE_STAT_BLOCKS is 1. */
#define STAT(id, name, group, unit, kind) WIRE_STAT_##id,
#define RANGE(id, n)                      WIRE_STAT_##id, WIRE_STAT_##id##_LAST = WIRE_STAT_##id + (n) - 1,
enum wire_stat {
	WIRE_STAT_NONE,
#include "wire/stat.def"
	WIRE_STAT_END
};
#undef STAT
#undef RANGE

enum wire_stat_kind { WIRE_STAT_COUNTER, WIRE_STAT_GAUGE, WIRE_STAT_MAXIMUM };

/* The description of a statistic, in static strings. */
struct wire_stat_info {
	const char *name;  /* "hits"; NULL: unknown or reserved */
	const char *group; /* "server", "requests", "answers", "time", "memory", "peers", "fabric", "tier" */
	const char *unit;  /* "", "bytes", "ns" */
	enum wire_stat_kind kind;
};

struct wire_bytes {
	const uint8_t *data;
	uint32_t len;
};

/* Where bytes go or come from: `count` slices of a region, `stride` apart. Their sums do not overflow, and they cover
 * the length asked for. All zero: a GET of length 0 writes nothing, and with PULL a client on the same host asks for a
 * lease; a PUT has its bytes inline, or none. */
struct wire_dest {
	uint32_t region, count; /* count 1: contiguous */
	uint64_t offset, stride, slice;
};

struct wire_frame {
	uint32_t session; /* the number from the WELCOME, in both directions */
	uint32_t mark;    /* the client's own number for this attachment (HELLO), in both directions */
	uint64_t counter; /* ascends per session, shard, link and direction; set by wire_seal, with the tag */
	uint8_t tag[KV_MAC_TAG];
	uint8_t link, shard; /* link: among those between the client and this shard */
	uint8_t records;     /* 1 to WIRE_RECORDS_MAX */
};

/* RELEASE and PROVE have id 0 and no deadline, SESSION has id and time 0; none of them has a reply. */
struct wire_request {
	uint8_t type, flags;
	uint32_t time_left_us; /* UINT32_MAX: no deadline */
	uint64_t id;           /* ascends per session and link, never reused */
	struct wire_bytes key;
	struct wire_dest dest;
	union {
		struct {
			uint64_t offset;     /* at most KV_VALUE_MAX */
			uint64_t length;     /* at most KV_RANGE_MAX, or KV_VALUE_MAX for a lease without a dest; 0: to
						the end */
			uint64_t generation; /* 0: any. YOUNG: one put less than this many nanoseconds ago */
			uint32_t imm;        /* of the data writes: wire_imm */
		} get;
		struct {
			uint64_t total, offset, length; /* of the value; of this range */
			uint64_t checksum;              /* XXH3-64 of the whole value */
			uint64_t stage;                 /* 0 in the FIRST range */
			uint64_t born_ns; /* of a COPY, instead of a stage: when the value was first put, or before,
					     by the server's clock; not 0 */
			uint64_t space;   /* the namespace's generation that the value is of; 0 unless FIRST */
			uint32_t ttl_s;   /* 0: the server's default; of a copy it counts from born_ns */
			struct wire_bytes inline_data; /* none, or the whole range. LANDED: dest is the place in the
							  landing area, in one piece, region 0 */
		} put;
		struct {
			uint32_t count;         /* 1 to WIRE_EXISTS_MAX */
			const uint8_t *digests; /* XXH3-64 of the keys, with WELCOME's seed; wire_exists_digest */
		} exists;
		struct {
			uint64_t which; /* THIS: the generation; AT: the time. 0 without a flag: the present one */
		} drop;                 /* of DELETE */
		struct {
			uint32_t ttl_s;    /* 0: the server's default. LOOK: ignored */
			uint64_t young_ns; /* with YOUNG or AT */
		} touch;
		struct {
			uint64_t id; /* of the request to cancel */
		} cancel;
		struct {
			uint64_t cookie;
		} ping;
		struct {
			uint64_t from; /* 0 at first, then `next` of the last reply */
		} tombs;               /* also of SPACES, TENANTS and LEASES */
		struct {
			uint64_t generation; /* the least one afterwards */
		} clear;
		struct {
			uint32_t number; /* of the session that owns the records behind this one; 0: the frame's own */
		} session;
		struct {
			uint64_t nonce; /* not 0: of a reply to PING on this link */
		} prove;
		struct {
			uint32_t count; /* 1 to WIRE_RELEASE_MAX */
			const uint8_t *leases;
		} release; /* see wire_release_lease */
	};
};

/* Times of the server's clock are in nanoseconds since a time that it chose when it started; never 0. */
struct wire_reply {
	uint8_t type, flags; /* type: without WIRE_REPLY */
	int32_t status;      /* enum wire_status */
	uint64_t id;
	uint32_t posted_ns;  /* from the arrival at the shard until the last data operation was posted, saturating */
	uint32_t replied_ns; /* from the arrival until this reply was made, saturating */
	union {
		struct {
			uint64_t value_len;
			uint64_t generation; /* DELETED: nanoseconds since then, or less */
			uint64_t checksum;   /* of the value; SUM_RANGE: of the range */
			uint32_t posted;     /* data writes, final. 0 with FOLLOWS, PACK or LEASED */
			uint32_t before;     /* PACK: bytes before the destination, 1 to WIRE_BEFORE_MAX */
			struct wire_bytes inline_data;
			uint64_t lease, at; /* LEASED, without inline bytes: lease (not 0), place in the arena */
			uint32_t lease_us;  /* LEASED: not 0 */
		} get;
		struct {
			/* generation: of the committed block, else 0. DELETED because the namespace was cleared: its
			 * generation in place of a stage, and nanoseconds since then, or less */
			uint64_t stage, generation;
		} put;
		struct {
			uint64_t clock_ns;
		} drop; /* of DELETE */
		struct {
			uint64_t left_ms; /* to live; UINT64_MAX: it does not expire */
			uint64_t age_ns;  /* since it was first put, or more. DELETED: since then, or less */
			uint64_t checksum, clock_ns;
		} touch;
		struct {
			uint32_t count, prefix; /* prefix: the first keys that all exist */
			/* bit i of byte i/8: key i exists; with DELETED: was deleted lately; with TIER: exists on the
			 * tier alone. Further bits are zero */
			const uint8_t *bitmap, *deleted, *tier;
		} exists;
		struct {
			uint32_t count;
			const uint8_t *pairs;
		} stat; /* see wire_stat_pair */
		struct {
			uint64_t id;
			uint32_t posted; /* final; UINT32_MAX: not known */
			uint32_t state;  /* enum wire_cancel */
		} cancel;
		struct {
			uint64_t cookie;
			uint64_t turns; /* of the shard's loop */
			uint64_t nonce; /* for PROVE; 0: this link is proven */
		} ping;
		struct {
			uint64_t next; /* 0: these are the last ones */
			uint32_t count;
			uint32_t known_ms;    /* how long the shard has remembered all; UINT32_MAX: at least */
			const uint8_t *tombs; /* see wire_tomb */
		} tombs;
		struct {
			uint64_t generation;
		} clear;
		struct {
			uint64_t next;  /* 0: these are the last ones */
			uint64_t floor; /* SPACES: generation of a namespace that the shard does not know */
			uint32_t count;
			const uint8_t *at; /* see wire_row */
		} rows;                    /* SPACES, TENANTS, LEASES */
	};
};

/* ---- build a frame in a buffer of KV_MSG_MAX bytes, the caller's ---- */

struct wire_writer {
	uint8_t *buf;
	uint32_t cap, len;
	uint8_t records;
};

/* wire_frame_begin -- the header of an empty frame. cap: at least WIRE_FRAME_HEADER. */
void wire_frame_begin(struct wire_writer *w, void *buf, uint32_t cap, const struct wire_frame *frame);

/* wire_request_size -- the record's bytes, if its lengths are within limits. */
uint32_t wire_request_size(const struct wire_request *r);

/* wire_request_add, wire_reply_add -- append a record. 0; -KV_EBUSY: no room, the frame is unchanged; -KV_EINVAL: a
 * limit is broken. An unneeded dest of a PUT is written as zeros. Statuses are not checked. */
int wire_request_add(struct wire_writer *w, const struct wire_request *r);
int wire_reply_add(struct wire_writer *w, const struct wire_reply *r);

/* wire_frame_end -- fill in length and count. Returns the length; 0: no record. */
uint32_t wire_frame_end(struct wire_writer *w);

/* wire_exists_put, wire_exists_digest -- digest i of an EXISTS request. */
static inline void wire_exists_put(uint8_t *digests, uint32_t i, uint64_t digest)
{
	kv_put64(digests + (size_t)i * WIRE_DIGEST_BYTES, digest);
}

static inline uint64_t wire_exists_digest(const uint8_t *digests, uint32_t i)
{
	return kv_get64(digests + (size_t)i * WIRE_DIGEST_BYTES);
}

/* wire_stat_add -- append an {id, value} pair to the *count packed pairs in buf[cap]. 0 or -KV_EBUSY. */
int wire_stat_add(uint8_t *buf, uint32_t cap, uint32_t *count, uint32_t id, uint64_t value);
void wire_stat_pair(const uint8_t *pairs, uint32_t i, uint32_t *out_id, uint64_t *out_value);
struct wire_stat_info wire_stat_info(uint32_t id);
const char *wire_stat_name(uint32_t id); /* NULL: unknown */

/* wire_release_put, wire_release_lease -- packed lease i. */
void wire_release_put(uint8_t *leases, uint32_t i, uint64_t lease);
uint64_t wire_release_lease(const uint8_t *leases, uint32_t i);

/* wire_tomb_put, wire_tomb -- packed tombstone i: deleted, or touched, that long ago (2^63 - 1 ns at most). id:
 * of its key and namespace (protocol.md 4.9). */
void wire_tomb_put(uint8_t *tombs, uint32_t i, uint64_t id, uint64_t age_ns, bool touched);
void wire_tomb(const uint8_t *tombs, uint32_t i, uint64_t *out_id, uint64_t *out_age_ns, bool *out_touched);

/* The numbers of a namespace of a shard, in the order of SPACES. Blocks and used memory are with those of earlier
 * generations not freed yet; TIER_USED is of this generation. */
enum {
	WIRE_SPACE_GENERATION,
	WIRE_SPACE_BLOCKS,
	WIRE_SPACE_USED,
	WIRE_SPACE_TIER_USED,
	WIRE_SPACE_GETS,
	WIRE_SPACE_HITS,
	WIRE_SPACE_NUMBERS
};

/* Those of a tenant, in the order of TENANTS. The limits are the shard's parts; UINT64_MAX: none. */
enum {
	WIRE_TENANT_USED,
	WIRE_TENANT_SHARE,
	WIRE_TENANT_CAP,
	WIRE_TENANT_TIER_USED,
	WIRE_TENANT_TIER_CAP,
	WIRE_TENANT_PINNED,
	WIRE_TENANT_PINS_CAP,
	WIRE_TENANT_ACTIVE, /* requests in flight */
	WIRE_TENANT_REQUESTS_MAX,
	WIRE_TENANT_READ, /* bytes by GETs so far */
	WIRE_TENANT_READ_RATE,
	WIRE_TENANT_SESSIONS,
	WIRE_TENANT_SPACES,
	WIRE_TENANT_EVICTED,
	WIRE_TENANT_DENIED,
	WIRE_TENANT_NUMBERS
};

/* The numbers of a client on the server's host with leases of a shard, in the order of LEASES. Its name is the first 64
 * bytes of its identity; "": it needed no key. */
enum {
	WIRE_HOLDER_CLIENT,
	WIRE_HOLDER_SESSION,
	WIRE_HOLDER_PID, /* as the server sees it; 0: it does not see that process */
	WIRE_HOLDER_LEASES,
	WIRE_HOLDER_USED,   /* bytes that cannot be evicted meanwhile */
	WIRE_HOLDER_AGE_NS, /* of the oldest lease */
	WIRE_HOLDER_NUMBERS
};

enum { WIRE_ROW_LISTED = 1 }; /* the tenant is in the present table */

struct wire_row {
	char name[KV_SPACE_MAX + 1];
	uint32_t flags;
	uint64_t number[WIRE_TENANT_NUMBERS]; /* of a namespace or holder the first ones */
};

/* wire_lists -- whether replies of this type have rows. wire_row_bytes -- length of a packed one. */
static inline bool wire_lists(uint8_t type)
{
	return type == WIRE_SPACES || type == WIRE_TENANTS || type == WIRE_LEASES;
}
size_t wire_row_bytes(uint8_t type);

/* wire_row_put, wire_row -- packed row i of a reply of this type. */
void wire_row_put(uint8_t *rows, uint32_t i, uint8_t type, const struct wire_row *row);
void wire_row(const uint8_t *rows, uint32_t i, uint8_t type, struct wire_row *out);

/* wire_frame_room -- bytes left in a frame being built. */
static inline uint32_t wire_frame_room(const struct wire_writer *w)
{
	return w->records == WIRE_RECORDS_MAX ? 0 : w->cap - w->len;
}

/* wire_frame_records -- records of an ended frame. */
static inline unsigned wire_frame_records(const uint8_t *frame)
{
	return frame[WIRE_RECORDS_AT];
}

/* ---- read a frame ---- */

struct wire_reader {
	const uint8_t *at, *end;
	uint32_t left; /* records still to read */
};

/* wire_frame_open -- check the header. 0, -KV_EPROTO, or -KV_EVERSION (another version). */
int wire_frame_open(struct wire_reader *r, const void *data, size_t len, struct wire_frame *out);

/* ---- the tag of a frame: authentic and new ---- */

/* wire_seal -- set counter and tag of an ended frame of len bytes, which must not change afterwards. 0, or
 * -KV_EINTERNAL: do not send it. */
int wire_seal(struct kv_seal *seal, uint8_t *frame, uint32_t len);

/* wire_unseal -- check that the other side sealed an opened frame, and that it is new. 0, or -KV_EDENIED or -KV_EEXIST
 * as in base/seal.h. Trust nothing of the frame before. */
int wire_unseal(struct kv_seal *seal, const uint8_t *frame, size_t len);

/* wire_request_next, wire_reply_next -- the next record. 1 with *out, 0 at the end, or -KV_EPROTO: *out is undefined,
 * and later calls fail as well. */
int wire_request_next(struct wire_reader *r, struct wire_request *out);
int wire_reply_next(struct wire_reader *r, struct wire_reply *out);

/* wire_status_error -- the -KV_E* code (or 0) of a status; unknown: -KV_EPROTO. wire_error_status is the inverse. */
int wire_status_error(int32_t status);
int32_t wire_error_status(int error);

/* wire_imm -- the immediate data of a GET's data writes. */
static inline uint32_t wire_imm(uint16_t generation, uint16_t slot)
{
	return (uint32_t)generation << 16 | slot;
}

/* ---- control messages: u32 length of the rest, u16 type, u16 zero, body ---- */

enum wire_ctrl {
	WIRE_CTRL_HELLO = 1,
	WIRE_CTRL_WELCOME = 2,
	WIRE_CTRL_REFUSE = 3,
	WIRE_CTRL_REGION = 4,
	WIRE_CTRL_REGION_OK = 5,
	WIRE_CTRL_REVOKE = 6,
	WIRE_CTRL_REVOKE_OK = 7,
	WIRE_CTRL_ADDRESS = 8, /* the sender's rails have new addresses */
	WIRE_CTRL_ADDRESS_OK = 9,
	WIRE_CTRL_HEARTBEAT = 10,
	WIRE_CTRL_GOODBYE = 11,    /* the client asks for the end. Of a server: it shuts down, the client should ask */
	WIRE_CTRL_GOODBYE_OK = 12, /* the server is drained */
	WIRE_CTRL_GOODBYE_DONE = 13, /* the client closes */
	WIRE_CTRL_SESSION_BEGIN = 14,
	WIRE_CTRL_SESSION_CHALLENGE = 15,
	WIRE_CTRL_SESSION_OPEN = 16,
	WIRE_CTRL_SESSION_OK = 17,
	WIRE_CTRL_SESSION_REFUSE = 18,
	WIRE_CTRL_SESSION_CLOSE = 19,
	WIRE_CTRL_SESSION_CLOSE_OK = 20,
	WIRE_CTRL_ARENAS = 21,   /* asks for the arenas of all shards */
	WIRE_CTRL_ARENA = 22,    /* a shard's memory, which the client reads */
	WIRE_CTRL_LANDINGS = 23, /* asks for a landing area on every shard, once per attachment */
	WIRE_CTRL_LANDING = 24,  /* memory of a shard that this client alone may write */
	WIRE_CTRL_VIEW_ASK = 25,
	WIRE_CTRL_VIEW = 26,
	WIRE_CTRL_VIEW_NEWS = 27,
	WIRE_CTRL_DRAIN = 28,
	WIRE_CTRL_DRAIN_OK = 29,
	WIRE_CTRL_DRAIN_DONE = 30, /* after DRAIN_OK on this connection, before GOODBYE */
	WIRE_CTRL_LOCAL_ASK = 31,  /* a client on the same host asks to map the server's memory, once per attachment */
	WIRE_CTRL_LOCAL = 32,      /* the answer: where the Unix socket is, and the nonce to send there */
	WIRE_CTRL_EVENTS_ASK = 33, /* asks for the events of the server's store; the next ask replaces it */
	WIRE_CTRL_EVENTS = 34      /* the answer to it, as soon as there are some */
};

enum wire_welcome {
	WIRE_WELCOME_PULL = 2,       /* ARENAS and leases (WIRE_GET_PULL) are allowed */
	WIRE_WELCOME_INLINE_PUT = 4, /* the server does not read client memory: PUTs carry their bytes */
	WIRE_WELCOME_SESSIONS = 8,   /* further sessions are allowed */
	WIRE_WELCOME_LANDING = 16,   /* LANDINGS and WIRE_PUT_LANDED are allowed */
	WIRE_WELCOME_VIEWS = 32,     /* VIEW_ASK is allowed */
	WIRE_WELCOME_DRAIN = 64,     /* DRAIN is allowed */
	WIRE_WELCOME_MEMBERS = 128,  /* the server is of a cluster */
	WIRE_WELCOME_LOCAL = 256,    /* LOCAL_ASK is allowed */
	WIRE_WELCOME_EVENTS = 512    /* EVENTS_ASK is allowed */
};

struct wire_blob_addr {
	uint8_t len;
	uint8_t data[KV_ADDR_MAX];
};

/* A client's earlier attachment at this server, as named by its WELCOME. */
struct wire_prior {
	uint32_t session; /* 0: none, token zero */
	uint8_t token[KV_TOKEN_LEN];
};

struct wire_hello {
	uint16_t version_min, version_max, loops, rails;
	uint32_t eager_bytes, mark, chunk_bytes; /* mark: for the headers of frames. chunk: not 0 */
	uint64_t incarnation, client_id;
	uint8_t host_id[16];
	struct wire_prior prior;
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], cluster[KV_NAME_MAX]; /* cluster "": any */
	char space[KV_SPACE_MAX + 1];                                          /* the namespace; "": the default one */
	uint64_t generation; /* of the namespace: the highest one that the client has cleared it to */
	struct wire_blob_addr addr[KV_RAILS_MAX];
};

struct wire_welcome_msg {
	uint16_t version, shards, rails, flags, loops; /* rails: of a shard; flags: enum wire_welcome */
	uint32_t session, chunk_bytes, credits, heartbeat_ms, eager_bytes;
	uint8_t token[KV_TOKEN_LEN]; /* secret, only on the control connection. Without TLS, keys and proofs derive from
					it */
	uint64_t incarnation, shard_seed, value_max, clock_ns;
	uint64_t generation, cleared_ns; /* of the namespace; when the server learned of it, by its clock, or 0 */
	uint8_t host_id[16];
	char node_id[KV_NAME_MAX], cluster[KV_NAME_MAX]; /* cluster "": none */
	const uint8_t *addrs;                            /* shards x rails addresses; see wire_welcome_addr */
	uint32_t addrs_len;
};

struct wire_refuse {
	int32_t status;
	char text[512];
};

/* REGION; of ARENA and LANDING id is the shard, from 0 on in order. A LANDING of length, part bytes and parts 0: this
 * shard has none to give. */
struct wire_region {
	uint32_t id, parts; /* parts: (length - 1) / part bytes + 1 */
	uint16_t rails;
	bool virt;
	bool write_emulated, read_emulated; /* ARENA: the owner's writes, reads of this memory */
	uint64_t len_bytes, part_bytes;
	const uint8_t *keys; /* rails x parts x {u64 base, u64 key}; see wire_region_key */
};

struct wire_address {
	uint16_t rails;
	uint32_t epoch;
	struct wire_blob_addr addr[KV_RAILS_MAX];
};

/* A client's asks for one of the server; it has only a sequence. */
struct wire_heartbeat {
	uint64_t sequence;
	uint64_t quiet_ms; /* the server may be silent from now on if no call waits; 0: as WELCOME says */
	uint64_t clock_ns;
	uint16_t shards;
	uint64_t turns[KV_SHARDS_MAX]; /* of the shards' loops */
};

struct wire_session_open {
	uint32_t id; /* not 0 */
	uint64_t client_id;
	uint8_t nonce[WIRE_NONCE_LEN], proof[WIRE_PROOF_LEN];
	char identity[WIRE_IDENTITY_MAX]; /* "": the connection's own secret */
	char space[KV_SPACE_MAX + 1];     /* as in HELLO */
	uint64_t generation;
};

struct wire_session_ok {
	uint32_t id, session, credits; /* none is 0 */
};

struct wire_session_refuse {
	uint32_t id;
	int32_t status; /* not WIRE_OK */
	char text[512];
};

enum { WIRE_VIEW_DRAINING = 1 }; /* the sender drains, whatever the view says of it */

/* Members ascend by node id, within the limits of kv_member_check. */
struct wire_view {
	uint64_t source, epoch; /* epoch 0: there is no view, and no member */
	uint32_t count;         /* up to KV_VIEW_MAX */
	bool draining;
	const uint8_t *members; /* packed; see wire_view_take */
	uint32_t members_len;
	bool packed; /* wire_view_pack made `members`: not checked again */
};

struct wire_view_news {
	uint64_t source, epoch;
	kv_u128 digest; /* kv_view_digest, the low 8 bytes first; 0: none */
	bool draining;  /* VIEW_NEWS */
};

/* DRAIN: limits of the drain, each 0: as the server's own options say. DRAIN_OK: when it is over at the latest, not 0.
 */
struct wire_drain {
	uint64_t time_ms, bytes_s; /* bytes_s: at which values may be put to other servers */
};

/* LOCAL_ASK: boot_id of the client's kernel. LOCAL: status OK with name and nonce, or a
 * refusal (DENIED: not the same host; NOTSUP; BUSY) with a reason and neither. */
struct wire_local {
	uint8_t boot_id[16];
	int32_t status;
	uint8_t nonce[16]; /* secret, good for one connection to the Unix socket */
	uint8_t proof[16]; /* secret, with which the server of that socket shows that it is this one */
	char name[108];    /* of the Unix socket; "@": abstract */
	char text[256];
};

/* What happened. STORED, REMOVED: to one key. CLEARED: all earlier keys of the server, or of the namespace, are gone.
 * LOST: the server has lost events here. */
/* HIDDEN: of a namespace that the client may not read. */
enum wire_event_what {
	WIRE_EVENT_STORED = 1,
	WIRE_EVENT_REMOVED,
	WIRE_EVENT_CLEARED,
	WIRE_EVENT_LOST,
	WIRE_EVENT_HIDDEN
};
enum wire_tier { WIRE_TIER_MEMORY, WIRE_TIER_DISK }; /* where the value is, or was */

enum {
	WIRE_EVENTS_SNAPSHOT = 1,     /* ask, answer: of the blocks stored now, not of the log */
	WIRE_EVENTS_GAP = 2,          /* answer: the log has not the events from the asked one on */
	WIRE_EVENTS_BYTES = 64 << 10, /* of an answer's packed events */
	WIRE_EVENT_BYTES = 12 + KV_KEY_MAX + KV_SPACE_MAX
};

/* One event, with pointers into the message. */
struct wire_event {
	uint8_t what, tier;         /* enum wire_event_what, enum wire_tier */
	uint8_t key_len, space_len; /* key_len 0: of CLEARED and LOST. space_len: of the namespace's name; 0: none */
	uint64_t bytes;             /* of the value */
	const uint8_t *key, *space;
};

/* EVENTS_ASK: epoch and next, or a place in the snapshot. EVENTS: all. The events of a log have consecutive numbers
 * from `first` on; those of a snapshot have none. */
struct wire_events {
	uint64_t epoch;       /* of the numbers: the server's incarnation. Of an ask, 0: from now on */
	uint64_t first, next; /* next: the first event that is asked for, or not part of this answer */
	uint32_t flags;
	uint32_t shard,
		at;     /* SNAPSHOT: the place to go on from; {0, UINT32_MAX}: the begin. at 0 in an answer: the end */
	uint32_t count; /* EVENTS */
	const uint8_t *events; /* packed; see wire_event_take */
	uint32_t events_len;
	bool packed; /* wire_event_pack made `events`: not checked again */
};

struct wire_ctrl_msg {
	enum wire_ctrl type;
	union {
		struct wire_hello hello;
		struct wire_welcome_msg welcome;
		struct wire_refuse refuse;
		struct wire_region region; /* also of ARENA and LANDING, where id is the shard */
		struct wire_address address;
		struct wire_heartbeat heartbeat;
		struct {
			uint8_t nonce[WIRE_NONCE_LEN];
		} session_challenge;
		struct wire_session_open session_open;
		struct wire_session_ok session_ok;
		struct wire_session_refuse session_refuse;
		struct wire_view view;
		struct wire_view_news view_news; /* also of VIEW_ASK, with a digest alone */
		struct wire_drain drain;         /* also of DRAIN_OK, with a time alone */
		struct kv_drained drained;
		struct wire_local local;   /* also of LOCAL_ASK, with a boot id alone */
		struct wire_events events; /* also of EVENTS_ASK, without events */
		struct {
			uint32_t session;
			uint64_t requests;
		} session_close; /* also of SESSION_CLOSE_OK, with requests */
		struct {
			uint32_t id;
			int32_t status;
		} region_ok; /* also of REVOKE, REVOKE_OK (status 0) and ADDRESS_OK (id: the epoch) */
	};
};

/* wire_ctrl_encode -- write a message into buf. Returns its length with prefix, -KV_ETOOBIG (no room), or -KV_EINVAL.
 */
int wire_ctrl_encode(const struct wire_ctrl_msg *m, void *buf, size_t cap);

/* wire_ctrl_length -- the whole length, with prefix, of the message at data. 0: fewer than 4 bytes; -KV_EPROTO: out of
 * bounds. */
int wire_ctrl_length(const void *data, size_t have);

/* wire_ctrl_decode -- decode one whole message. 0, -KV_EPROTO, or -KV_EVERSION (a HELLO without a common version, whose
 * version fields are filled). Pointers in *out point into data. */
int wire_ctrl_decode(const void *data, size_t len, struct wire_ctrl_msg *out);

/* wire_addr_pack -- append an address blob at *len to buf[cap]. 0, -KV_ETOOBIG, or -KV_EINVAL (empty).
 * wire_welcome_addr -- the blob of (shard, rail). 0 or -KV_EPROTO. */
int wire_addr_pack(uint8_t *buf, size_t cap, uint32_t *len, const void *addr, size_t addr_len);
int wire_welcome_addr(const struct wire_welcome_msg *w, unsigned shard, unsigned rail, struct wire_blob_addr *out);

/* wire_view_pack -- pack a view's members; WIRE_MEMBER_BYTES each suffice. Returns the length, -KV_ETOOBIG, or
 * -KV_EINVAL (a limit, or not sorted). wire_view_take -- a copy of a decoded view, for kv_view_fini. 0 or -KV_ENOMEM.
 */
int wire_view_pack(const struct kv_view *view, uint8_t *buf, size_t cap);
int wire_view_take(const struct wire_view *w, struct kv_view *out);

/* wire_event_pack -- append an event to buf[cap], which holds *len bytes. 0, or -KV_ETOOBIG (no room, nothing changed).
 * wire_event_take -- the event at *at of the packed ones, and *at behind it. 0, or -KV_EPROTO. */
int wire_event_pack(uint8_t *buf, size_t cap, uint32_t *len, const struct wire_event *e);
int wire_event_take(const uint8_t *events, uint32_t len, uint32_t *at, struct wire_event *out);

/* wire_region_put, wire_region_key -- base and key of (rail, part) in the key table. */
void wire_region_put(uint8_t *keys, uint32_t parts, unsigned rail, uint32_t part, uint64_t base, uint64_t key);
void wire_region_key(const struct wire_region *r, unsigned rail, uint32_t part, uint64_t *out_base, uint64_t *out_key);

#endif
