/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* wire.h -- every byte that KVRail puts on a wire. No I/O, no state, no allocation.
 *
 * Two protocols share this header:
 *   1. fabric frames: at most KV_MSG_MAX bytes, libfabric messages between a client rail and a server shard's rail;
 *   2. control messages: length-prefixed, on the TLS connection between a client engine and a server.
 * All integers are little-endian. Offsets below are in bytes. Decoding is total: any input gives a message or
 * -KV_EPROTO, and nothing is read outside the input. Decoded pointers (keys, inline bytes, addresses) point into the
 * input.
 *
 * -- A fabric frame -----------------------------------------------------------------------------------------------
 *   0  u16 magic 0x524B ("KR")     2  u8 version (4)      3  u8 link (index among the links between the client and
 *      this shard)
 *   4  u32 session: the number from the WELCOME, in both directions
 *   8  u8[16] tag: AES-128-GMAC of the bytes 24 to the end, nonce: the link in 4 bytes, then the counter's 8. The key
 *      is one of this session, shard and direction (bootstrap/bootstrap.h, docs/reference/protocol.md 3)
 *  24  u16 length of the whole frame   26  u8 record count, 1..255   27  u8 shard
 *  28  u32 mark: the client's own number for this session (from HELLO), in both directions
 *  32  u64 counter: ascending per session, shard, link and direction, from 0, never used twice
 *  40  records, each a multiple of 8 bytes long, filling the frame exactly
 *
 * -- A request record ---------------------------------------------------------------------------------------------
 *   0  u8 type (enum wire_type)   1  u8 flags   2  u16 record length, header included, multiple of 8
 *   4  u32 time left in microseconds (0xFFFFFFFF: no deadline)
 *   8  u64 request id: ascending per session and link, never reused
 *  16  body (below), padded with zeros to 8
 *
 *  dest (32 bytes), where bytes go or come from: region, seen as `count` slices of `slice` bytes, `stride` apart
 *   0 u32 region id  4 u32 count (1: contiguous)  8 u64 offset  16 u64 stride  24 u64 slice
 *
 *  GET     0 u64 offset  8 u64 length (at most KV_RANGE_MAX)
 *         16 u64 generation wanted (0: any; flag WIRE_GET_YOUNG: one put less than this many nanoseconds ago)
 *         24 u32 immediate  28 u16 key length  30 u16 zero  32 dest  64 key
 *  PUT     0 u64 total length  8 u64 offset of this range  16 u64 length of this range
 *         24 u64 XXH3-64 of the whole value
 *         32 u64 stage id (0 with WIRE_PUT_FIRST; with WIRE_PUT_COPY: when the value was first put, or earlier, in
 *            nanoseconds of the server's clock, not 0)
 *         40 u32 ttl in seconds (0: the server's default; of a copy it counts from then)
 *         44 u16 key length  46 u16 inline length
 *         48 dest (the source, when inline length is 0 and length is not; with WIRE_PUT_LANDED the place in the landing
 *            area of this shard: region 0, count 1, stride 0, slice the length)
 *         80 key, then inline bytes
 *  EXISTS  0 u16 key count (1..500)  2 u16 zero  4 u32 zero
 *          8 digests: each u64, XXH3-64 of a key with the shard hash seed of WELCOME
 *  DELETE  0 u16 key length  2 u16 zero  4 u32 zero
 *          8 u64 the value meant (0: the present one; flag WIRE_DELETE_AT: the one at this time of the server's
 *            clock; flag WIRE_DELETE_THIS: the one of this generation, and copies no younger)
 *         16 key
 *  TOUCH   0 u16 key length  2 u16 zero  4 u32 ttl in seconds (0: the server's default)
 *          8 u64 0 (flag WIRE_TOUCH_YOUNG: as GET; flag WIRE_TOUCH_AT: as DELETE)
 *         16 key
 *         (flag WIRE_TOUCH_LOOK: nothing changes, the ttl is ignored; flag WIRE_TOUCH_MARK: if the key is not there,
 *         copies of it that come later live no longer than this)
 *  PIN     0 u16 key length  2 u16 zero  4 u32 zero  8 key (flag WIRE_PIN_RELEASE takes the pin back)
 *  STAT    (empty)
 *  CANCEL  0 u64 id of the request to cancel
 *  PING    0 u64 cookie
 *  TOMBS   0 u64 from: 0 at first, then the `next` of the last reply
 *  SESSION 0 u32 session (as SESSION_OK named it; 0: the frame's own)  4 u32 zero
 *          Not a request: the records behind it, up to the next SESSION or the frame's end, belong to this session.
 *          Its time and id are 0.
 *  RELEASE 0 u16 lease count (1..128)  2 u16 zero  4 u32 zero  8 leases: u64 each. It has no reply and takes no
 *         credit; its id is 0, its time 0xFFFFFFFF
 *  PROVE   0 u64 nonce (not 0): the one in a reply to PING on this link, which the server sent to the address that
 *         the client announced. It has no reply and takes no credit; its id is 0, its time 0xFFFFFFFF
 *
 * -- A reply record -----------------------------------------------------------------------------------------------
 *   0  u8 type | 0x80   1  u8 flags   2  u16 record length   4  i32 status (enum wire_status)   8  u64 request id
 *  16  u32 posted: nanoseconds from the request's arrival at the shard until its last data operation was posted
 *      (if there was none: the same as replied)
 *  20  u32 replied: nanoseconds from the arrival until this reply was made. Both saturate at 0xFFFFFFFF (4.29 s)
 *  24  body, present whatever the status (a CANCEL whose result is not known has posted 0xFFFFFFFF and a status)
 *
 *  GET     0 u64 value length  8 u64 generation  16 u64 checksum (whole value, or the range if WIRE_GET_SUM_RANGE
 *         was asked)
 *         24 u32 posted: data writes made, final; with WIRE_GET_PACK instead: how many bytes before its destination
 *         the value lies (not 0, 65,536 at most)  28 u32 inline length
 *         32 inline bytes; with WIRE_GET_LEASED instead of them
 *         32 u64 lease (not 0)  40 u64 offset of the range's first byte in the shard's arena
 *         48 u32 lease time in microseconds (not 0)
 *         52 u32 zero
 *  PUT     0 u64 stage id  8 u64 generation (of the committed block, else 0)
 *  EXISTS  0 u16 key count  2 u16 longest prefix  4 u32 zero  8 bitmap, bit i of byte i/8: key i exists
 *          (flag WIRE_EXISTS_DELETED: a second bitmap follows it: key i was deleted lately)
 *  DELETE  0 u64 the server's clock
 *  TOUCH   0 u64 milliseconds that the value still has to live (UINT64_MAX: it does not expire)
 *          8 u64 nanoseconds since it was first put, or more  16 u64 its checksum  24 u64 the server's clock
 *  STAT    0 u16 count  2 u16 zero  4 u32 zero  8 pairs: u32 counter id (enum wire_stat), u32 zero, u64 value
 *  CANCEL  0 u64 id of the cancelled request  8 u32 posted by it, final  12 u32 state (enum wire_cancel)
 *  PING    0 u64 cookie  8 u64 turns made by the shard's loop  16 u64 nonce, to be sent back with PROVE (0: this
 *         link is proven)
 *  TOMBS   0 u64 next (0: these are the last ones)  8 u16 count (0..200)  10 u16 zero  12 u32 for how
 *         many milliseconds the shard has remembered all (UINT32_MAX: at least)
 *         16 deleted keys: u64 XXH3-64 of the key with seed 4, u64 nanoseconds since it was deleted, or less
 *  others  (empty)
 *
 * -- Rules for every record ---------------------------------------------------------------------------------------
 *  Padding, reserved fields and flags without a meaning for the type are zero; anything else is -KV_EPROTO. So a
 *  record has one encoding.
 *  dest: count is at least 1; slice * count, and offset + (count - 1) * stride + slice, do
 *  not overflow; slice * count covers the length asked for. A GET of length 0 (to the end of
 *  the value) may leave dest all zero: then nothing is written, and the reply tells value length and generation. A PUT
 *  that carries its bytes inline, or has none, has a dest of zeros; its inline length is then the length of the range.
 *  PUT: offset + length is at most the total, the total at most KV_VALUE_MAX. GET: the offset is at most KV_VALUE_MAX.
 *  A reply may repeat the flags of its request, but MORE. If a reply to GET has FOLLOWS, its posted is 0 and the
 *  value's bytes are in place when it arrives. PACK goes with FOLLOWS and status OK only. If it has LEASED, its posted
 * is 0, and it has neither FOLLOWS nor inline bytes. HOT goes with status OK only, and with every other flag. EXISTS:
 * bits of a bitmap beyond the last key are zero. A server's clock is in nanoseconds from a time that it chose when it
 * was started; never 0. Status DELETED: the key is not there (GET, TOUCH, PIN), and was deleted so many nanoseconds
 * ago, or less, as GET's generation and TOUCH's age say. PUT: this copy is older than a DELETE of its key, or than the
 * value that is there.
 *
 * Immediate data of a data write: (generation << 16) | slot, both chosen by the client.
 *
 * -- A control message --------------------------------------------------------------------------------------------
 *   0  u32 length of what follows these 4 bytes (4..KV_CTRL_MAX)   4  u16 type (enum wire_ctrl)   6  u16 zero   8  body
 *  Strings: u16 length, bytes (no zero inside), shorter than KV_NAME_MAX (REFUSE, SESSION_REFUSE: 512). Blobs: u16
 *  length (1..KV_ADDR_MAX), bytes. Chunk bytes are not 0. The parts of a region are as many as its length needs:
 *  (length - 1) / part bytes + 1.
 *
 *  HELLO       u16 lowest version, u16 highest version; u32 eager bytes; u64 incarnation; u8[16] host id; u64 client
 *              id; u32 mark (goes into the header of all frames); u32 chunk bytes; u16 loops; u16 rails; u32
 *              session, u8[16] token: the client's prior attachment at this server, as its WELCOME said (all zero:
 *              there is none); string provider; string fabric; string cluster ("": any); rails x blob address
 *  WELCOME     u16 version; u16 shards; u16 rails per shard; u16 flags (enum wire_welcome); u32 session; u8[16]
 *              token; u64 incarnation; u8[16] host id; u64 shard hash seed; u32 chunk bytes; u32 credits per link;
 *              u32 heartbeat ms; u32 eager bytes; u64 largest value; u64 the server's clock; u16 loops; u16 zero;
 *              string node id; string cluster ("": none); shards x rails x blob address
 *  REFUSE      i32 status (enum wire_status); string sentence
 *  REGION      u32 region id; u16 rails; u16 flags (bit 0: virtual addresses); u64 length; u64 part bytes; u32
 *              parts; u32 zero; rails x parts x {u64 base, u64 key}
 *  ARENAS      (empty): the client asks for the arenas of all shards; only where WELCOME has WIRE_WELCOME_PULL
 *  ARENA       laid out like REGION: a shard's memory, to be read by the client. region id: the shard, from 0 on in
 *              order; more flags: bit 1: the server's writes are emulated, bit 2: reads of its memory are
 *  LANDINGS    (empty): the client asks for a landing area on every shard; only where WELCOME has
 *              WIRE_WELCOME_LANDING, and once per attachment
 *  LANDING     laid out like REGION: memory of a shard that this client alone may write. region id: the shard, from 0
 *              on in order. Length, part bytes and parts 0: this shard has none to give
 *  REGION_OK   u32 region id; i32 status
 *  REVOKE      u32 region id; u32 zero                 REVOKE_OK  u32 region id; u32 zero
 *  ADDRESS     u16 rails; u16 zero; u32 epoch; rails x blob: the sender's rails have new addresses.
 *  ADDRESS_OK  u32 epoch; i32 status
 *  HEARTBEAT   u64 sequence; u64 milliseconds that the server may be silent from now on if no call waits (0: as WELCOME
 *              says); u64 the server's clock; u16 shards; u16 zero; u32 zero; shards x u64 turn counter. A client's
 *              asks for one of the server; it has 0 milliseconds, clock 0 and no shards
 *  GOODBYE, GOODBYE_OK, GOODBYE_DONE  (empty): the client asks; the server is drained; the client closes.
 *              GOODBYE of a server: it shuts down; the client should ask
 *  SESSION_BEGIN      (empty): the client wants further sessions
 *  SESSION_CHALLENGE  u8[32] nonce of the server
 *  SESSION_OPEN       u32 id (not 0); u32 zero; u64 client id; u8[32] nonce of the client; u8[32] proof; string
 *              identity (up to 128 bytes; empty: the connection's own secret)
 *  SESSION_OK         u32 id; u32 session (not 0); u32 credits (not 0); u32 zero
 *  SESSION_REFUSE     u32 id; i32 status (not WIRE_OK); string sentence
 *  SESSION_CLOSE      u32 session; u32 zero
 *  SESSION_CLOSE_OK   u32 session; u32 zero; u64 requests received in it
 *  VIEW_ASK    u128 digest of the view that the client has (0: none); only where WELCOME has WIRE_WELCOME_VIEWS. The
 *              server answers VIEW, or VIEW_NEWS if its view is the same; from then on it sends VIEW_NEWS whenever its
 *              view has changed, with a heartbeat
 *  VIEW        u64 source; u64 epoch (0: there is none, and no member); u32 members (up to KV_VIEW_MAX); u32 flags
 *              (WIRE_VIEW_DRAINING: the sender drains, whatever the view says of it; others are zero);
 *              members in ascending order of node id: {u64 incarnation; u32 weight; u16 state (base/view.h); u16 zero;
 *              string node id; string address; string zone}, within the limits of kv_member_check. The address is
 *              HOST:PORT; several of one server have '+' between them (base/addr.h, kv_where_parse)
 *  VIEW_NEWS   u64 source; u64 epoch; u128 digest (kv_view_digest; the low 8 bytes first); u32 flags as of VIEW; u32
 *              zero
 *  DRAIN       u64 milliseconds that the drain may take; u64 bytes per second at which values may be put to the others
 *              (each 0: as the server's own options say); only where WELCOME has WIRE_WELCOME_DRAIN. The server ends:
 *              it drains as it does for SIGTERM
 *  DRAIN_OK    u64 milliseconds (not 0) after which the drain is over at the latest. If the server drains already: the
 *              time that is left, and the bounds stay those of the first client that asked
 *  DRAIN_DONE  u64 values that other servers have; u64 their bytes; u64 all values; u64 values deleted or
 *              expired meanwhile; u32 KV_LEFT_REASONS; u32 zero; KV_LEFT_REASONS x u64: values that no other server
 *              has, by reason (enum kv_left): together all values less those that others have. To a client that had
 *              DRAIN_OK on this connection, before GOODBYE
 */
/* clang-format on */
#ifndef KVRAIL_WIRE_WIRE_H
#define KVRAIL_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
	WIRE_MAGIC = 0x524B,
	WIRE_VERSION = 4,
	WIRE_FRAME_HEADER = 40,
	WIRE_RECORDS_AT = 26,    /* offset of the record count in a frame */
	WIRE_RECORD_HEADER = 16, /* of a request; a reply's header begins with the same fields */
	WIRE_REPLY_HEADER = 24,
	WIRE_RECORDS_MAX = 255,
	WIRE_DIGEST_BYTES = 8,
	WIRE_EXISTS_MAX = 500, /* these fit a frame behind a PROVE */
	WIRE_EXISTS_BITMAP = (WIRE_EXISTS_MAX + 7) / 8,
	WIRE_STAT_MAX = 200,
	WIRE_BEFORE_MAX = 64 << 10, /* WIRE_GET_PACK */
	WIRE_CTRL_HEADER = 8,
	WIRE_SESSION_BYTES = 24, /* length of a SESSION record */
	WIRE_PROVE_BYTES = 24,   /* length of a PROVE record */
	WIRE_NONCE_LEN = 32,
	WIRE_PROOF_LEN = 32,
	WIRE_IDENTITY_MAX = 129, /* bytes of an identity, with the final 0 */
	WIRE_RELEASE_MAX = 128,
	WIRE_TOMBS_MAX = 200,
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
	WIRE_SESSION = 11, /* among requests; no reply */
	WIRE_RELEASE = 12, /* returns leases: no reply, no credit */
	WIRE_PROVE = 13,   /* proves the client's address: no reply, no credit */
	WIRE_REPLY = 0x80
};

enum wire_flag {
	WIRE_GET_SUM_RANGE = 1, /* GET: checksum of the range, not of the value */
	WIRE_GET_INLINE = 2,    /* GET: a small range may be inside the reply */
	WIRE_GET_CHECK = 4,     /* GET: the last bytes were corrupt: verify the value, and drop it if it is wrong */
	WIRE_GET_PACK = 16,   /* GET: may be written together with its neighbours, then into the destinations before its
				 own. Reply: it is */
	WIRE_GET_YOUNG = 8,   /* GET: a value put after its key was deleted elsewhere */
	WIRE_GET_FOLLOWS = 8, /* reply to GET: the bytes are in place, without immediates (posted is 0); where messages
				 follow earlier writes */
	WIRE_GET_PULL = 32,   /* GET: the client prefers to read the bytes; see WIRE_WELCOME_PULL */
	WIRE_GET_MORE = 64,   /* GET: a further range or part of a value: not counted as a GET */
	WIRE_GET_LEASED = 64, /* reply to GET: the client reads the bytes from the arena, within the lease time */
	WIRE_GET_HOT =
		128, /* reply to GET: read often lately (store/heat.h); the client may keep a second copy elsewhere */
	WIRE_PUT_FIRST = 1,      /* PUT: first range of a value */
	WIRE_PUT_LAST = 2,       /* PUT: last range: check, then commit */
	WIRE_PUT_LANDED = 4,     /* PUT: the bytes are in the landing area, written before over this connection */
	WIRE_PUT_COPY = 8,       /* PUT, with FIRST: a copy from another server; see put.born_ns */
	WIRE_PUT_SPARE = 16,     /* PUT, with COPY: only into free memory (else NOMEM), and evicted first */
	WIRE_DELETE_THIS = 1,    /* DELETE: the value of one generation */
	WIRE_DELETE_AT = 2,      /* DELETE: the value at some time */
	WIRE_EXISTS_DELETED = 1, /* reply to EXISTS: a second bitmap has the keys deleted lately */
	WIRE_TOUCH_LOOK = 1,     /* TOUCH: changes nothing */
	WIRE_TOUCH_YOUNG = 4,    /* TOUCH: as WIRE_GET_YOUNG */
	WIRE_TOUCH_MARK = 2,     /* TOUCH: also for later copies */
	WIRE_TOUCH_AT = 8,       /* TOUCH: the value at some time */
	WIRE_PIN_RELEASE = 1     /* PIN: release it */
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
	const char *group; /* "server", "requests", "answers", "time", "memory", "peers", "fabric" */
	const char *unit;  /* "", "bytes", "ns" */
	enum wire_stat_kind kind;
};

struct wire_bytes {
	const uint8_t *data;
	uint32_t len;
};

struct wire_dest {
	uint32_t region, count;
	uint64_t offset, stride, slice;
};

struct wire_frame {
	uint32_t session, mark;
	uint64_t counter; /* set by wire_seal, with the tag */
	uint8_t tag[KV_MAC_TAG];
	uint8_t link, shard;
	uint8_t records;
};

struct wire_request {
	uint8_t type, flags;
	uint32_t time_left_us;
	uint64_t id;
	struct wire_bytes key;
	struct wire_dest dest;
	union {
		struct {
			uint64_t offset, length, generation;
			uint32_t imm;
		} get;
		struct {
			uint64_t total, offset, length, checksum, stage;
			uint64_t born_ns; /* of a copy (WIRE_PUT_COPY) */
			uint32_t ttl_s;
			struct wire_bytes inline_data;
		} put;
		struct {
			uint32_t count;
			const uint8_t *digests; /* see wire_exists_digest */
		} exists;
		struct {
			uint64_t which; /* 0 without a flag */
		} drop;                 /* of DELETE */
		struct {
			uint32_t ttl_s;
			uint64_t young_ns; /* with WIRE_TOUCH_YOUNG or WIRE_TOUCH_AT */
		} touch;
		struct {
			uint64_t id;
		} cancel;
		struct {
			uint64_t cookie;
		} ping;
		struct {
			uint64_t from;
		} tombs;
		struct {
			uint32_t number;
		} session;
		struct {
			uint64_t nonce;
		} prove;
		struct {
			uint32_t count;
			const uint8_t *leases;
		} release; /* see wire_release_lease */
	};
};

struct wire_reply {
	uint8_t type, flags; /* type: without WIRE_REPLY */
	int32_t status;      /* enum wire_status */
	uint64_t id;
	uint32_t posted_ns, replied_ns; /* nanoseconds at the server, saturating */
	union {
		struct {
			uint64_t value_len, generation, checksum;
			uint32_t posted, lease_us;
			uint32_t
				before; /* with WIRE_GET_PACK: offset before its destination, at most WIRE_BEFORE_MAX */
			struct wire_bytes inline_data;
			uint64_t lease, at; /* and lease_us: with WIRE_GET_LEASED */
		} get;
		struct {
			uint64_t stage, generation;
		} put;
		struct {
			uint64_t clock_ns;
		} drop; /* of DELETE */
		struct {
			uint64_t left_ms, age_ns, checksum, clock_ns;
		} touch;
		struct {
			uint32_t count, prefix;
			const uint8_t *bitmap, *deleted; /* deleted: with WIRE_EXISTS_DELETED */
		} exists;
		struct {
			uint32_t count;
			const uint8_t *pairs;
		} stat; /* see wire_stat_pair */
		struct {
			uint64_t id;
			uint32_t posted, state;
		} cancel;
		struct {
			uint64_t cookie, turns, nonce;
		} ping;
		struct {
			uint64_t next;
			uint32_t count, known_ms;
			const uint8_t *tombs; /* see wire_tomb */
		} tombs;
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

/* wire_request_size, wire_reply_size -- the record's bytes, if its lengths are within limits. */
uint32_t wire_request_size(const struct wire_request *r);
uint32_t wire_reply_size(const struct wire_reply *r);

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

/* wire_tomb_put, wire_tomb -- packed tombstone i: deleted, or touched, that long ago (2^63 - 1 ns at most). */
void wire_tomb_put(uint8_t *tombs, uint32_t i, uint64_t id, uint64_t age_ns, bool touched);
void wire_tomb(const uint8_t *tombs, uint32_t i, uint64_t *out_id, uint64_t *out_age_ns, bool *out_touched);

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
 * and later calls fail as well. Lengths in *out are within limits and inside the input; all else is unchecked. */
int wire_request_next(struct wire_reader *r, struct wire_request *out);
int wire_reply_next(struct wire_reader *r, struct wire_reply *out);

/* wire_status_error -- the -KV_E* code (or 0) of a status; unknown: -KV_EPROTO. wire_error_status is the inverse. */
int wire_status_error(int32_t status);
int32_t wire_error_status(int error);

static inline uint32_t wire_imm(uint16_t generation, uint16_t slot)
{
	return (uint32_t)generation << 16 | slot;
}

/* ---- control messages ---- */

enum wire_ctrl {
	WIRE_CTRL_HELLO = 1,
	WIRE_CTRL_WELCOME = 2,
	WIRE_CTRL_REFUSE = 3,
	WIRE_CTRL_REGION = 4,
	WIRE_CTRL_REGION_OK = 5,
	WIRE_CTRL_REVOKE = 6,
	WIRE_CTRL_REVOKE_OK = 7,
	WIRE_CTRL_ADDRESS = 8,
	WIRE_CTRL_ADDRESS_OK = 9,
	WIRE_CTRL_HEARTBEAT = 10,
	WIRE_CTRL_GOODBYE = 11,
	WIRE_CTRL_GOODBYE_OK = 12,
	WIRE_CTRL_GOODBYE_DONE = 13,
	WIRE_CTRL_SESSION_BEGIN = 14,
	WIRE_CTRL_SESSION_CHALLENGE = 15,
	WIRE_CTRL_SESSION_OPEN = 16,
	WIRE_CTRL_SESSION_OK = 17,
	WIRE_CTRL_SESSION_REFUSE = 18,
	WIRE_CTRL_SESSION_CLOSE = 19,
	WIRE_CTRL_SESSION_CLOSE_OK = 20,
	WIRE_CTRL_ARENAS = 21,
	WIRE_CTRL_ARENA = 22,
	WIRE_CTRL_LANDINGS = 23,
	WIRE_CTRL_LANDING = 24,
	WIRE_CTRL_VIEW_ASK = 25,
	WIRE_CTRL_VIEW = 26,
	WIRE_CTRL_VIEW_NEWS = 27,
	WIRE_CTRL_DRAIN = 28,
	WIRE_CTRL_DRAIN_OK = 29,
	WIRE_CTRL_DRAIN_DONE = 30
};

enum wire_welcome {
	WIRE_WELCOME_PULL = 2,       /* ARENAS and leases (WIRE_GET_PULL) are allowed */
	WIRE_WELCOME_INLINE_PUT = 4, /* the server does not read client memory: PUTs carry their bytes */
	WIRE_WELCOME_SESSIONS = 8,   /* further sessions are allowed */
	WIRE_WELCOME_LANDING = 16,   /* LANDINGS and WIRE_PUT_LANDED are allowed */
	WIRE_WELCOME_VIEWS = 32,     /* VIEW_ASK is allowed */
	WIRE_WELCOME_DRAIN = 64,     /* DRAIN is allowed */
	WIRE_WELCOME_MEMBERS = 128   /* the server is of a cluster */
};

struct wire_blob_addr {
	uint8_t len;
	uint8_t data[KV_ADDR_MAX];
};

/* An attachment, as named by its WELCOME. */
struct wire_prior {
	uint32_t session; /* 0: none, token zero */
	uint8_t token[KV_TOKEN_LEN];
};

struct wire_hello {
	uint16_t version_min, version_max, loops, rails;
	uint32_t eager_bytes, mark, chunk_bytes;
	uint64_t incarnation, client_id;
	uint8_t host_id[16];
	struct wire_prior prior;
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], cluster[KV_NAME_MAX];
	struct wire_blob_addr addr[KV_RAILS_MAX];
};

struct wire_welcome_msg {
	uint16_t version, shards, rails, flags, loops;
	uint32_t session, chunk_bytes, credits, heartbeat_ms, eager_bytes;
	uint8_t token[KV_TOKEN_LEN]; /* secret, only on the control connection. Without TLS, keys and proofs derive from
					it */
	uint64_t incarnation, shard_seed, value_max, clock_ns;
	uint8_t host_id[16];
	char node_id[KV_NAME_MAX], cluster[KV_NAME_MAX];
	const uint8_t *addrs; /* shards x rails blobs; see wire_welcome_addr */
	uint32_t addrs_len;
};

struct wire_refuse {
	int32_t status;
	char text[512];
};

struct wire_region {
	uint32_t id, parts;
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

struct wire_heartbeat {
	uint64_t sequence, quiet_ms, clock_ns;
	uint16_t shards;
	uint64_t turns[KV_SHARDS_MAX];
};

struct wire_session_open {
	uint32_t id;
	uint64_t client_id;
	uint8_t nonce[WIRE_NONCE_LEN], proof[WIRE_PROOF_LEN];
	char identity[WIRE_IDENTITY_MAX];
};

struct wire_session_ok {
	uint32_t id, session, credits;
};

struct wire_session_refuse {
	uint32_t id;
	int32_t status;
	char text[512];
};

enum { WIRE_VIEW_DRAINING = 1 };

struct wire_view {
	uint64_t source, epoch;
	uint32_t count;
	bool draining;
	const uint8_t *members; /* packed; see wire_view_take */
	uint32_t members_len;
	bool packed; /* wire_view_pack made `members`: not checked again */
};

struct wire_view_news {
	uint64_t source, epoch;
	kv_u128 digest;
	bool draining; /* VIEW_NEWS */
};

struct wire_drain {
	uint64_t time_ms, bytes_s;
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
 * -KV_EINVAL (a limit, or not sorted). wire_view_take -- a copy of a decoded view, which the caller frees
 * (kv_view_fini). 0, or -KV_ENOMEM with *out zeroed. Only this function allocates. */
int wire_view_pack(const struct kv_view *view, uint8_t *buf, size_t cap);
int wire_view_take(const struct wire_view *w, struct kv_view *out);

/* wire_region_put, wire_region_key -- base and key of (rail, part) in the key table. */
void wire_region_put(uint8_t *keys, uint32_t parts, unsigned rail, uint32_t part, uint64_t base, uint64_t key);
void wire_region_key(const struct wire_region *r, unsigned rail, uint32_t part, uint64_t *out_base, uint64_t *out_key);

#endif
