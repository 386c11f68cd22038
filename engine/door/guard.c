/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c -- the walk over a peer's bytes, unit by unit.
 *
 * A unit is the answer to a connect request, a whole message, or the header of a write, a read or an answer. It is
 * judged when it is complete, because half a message costs libfabric 1.17 a posted receive for good. Payload behind the
 * header of a write passes as it arrives.
 *
 * A peer may send only the units that KVRail causes: eager messages up to KV_MSG_MAX without immediate, and writes and
 * reads of one piece. The layouts are libfabric's, equal in 1.17 to 2.6; an unknown version is refused. Answers to our
 * reads must come in order, each as long as its read. The provider checks keys, addresses and lengths of memory itself,
 * except for sums that wrap. */
#include "engine/door/guard.h"

#include <string.h>

/* The header of all messages that set up a connection, and of rxm's messages (struct ofi_ctrl_hdr). */
enum {
	CTRL_VERSION = 0,
	CTRL_TYPE = 1,
	CTRL_SEG_SIZE = 2, /* in network order when a connection is set up */
	CTRL_SEG_NO = 4,
	CTRL_CONN_ID = 8,
	CTRL_MSG_ID = 16,
	CTRL_CONN_DATA = 24, /* 1 in the sender's byte order */
	CTRL_LEN = 32
};
enum { SETUP_VERSION = 3, SETUP_REQUEST = 0, SETUP_RESPONSE = 1, SETUP_REFUSAL = 6 };

/* rxm's part of a connect request and its answer (union rxm_cm_data). */
enum {
	RXM_SETUP_VERSION = 0,
	RXM_SETUP_ENDIAN = 1,
	RXM_SETUP_CTRL = 2,
	RXM_SETUP_OP = 3,
	RXM_SETUP_PORT = 4,
	RXM_SETUP_FLOW = 6, /* 0 to 2 */
	RXM_SETUP_PADDING = 7,
	RXM_SETUP_EAGER = 8,
	RXM_SETUP_INDEX = 16,
	RXM_REQUEST_LEN = 24,
	RXM_RESPONSE_LEN = 16
};
enum { RXM_SETUP_V = 1, RXM_BIG_ENDIAN = 1, RXM_LITTLE_ENDIAN = 2, RXM_CTRL_V = 4, RXM_OP_V = 3 };

/* The tcp provider's own (struct xnet_rdm_cm). */
enum { XNET_SETUP_FEATURES = 1, XNET_SETUP_PORT = 2, XNET_SETUP_LEN = 8 };

/* The header of everything else (struct tcpx_base_hdr, xnet_base_hdr). */
enum {
	BASE_VERSION = 0,
	BASE_OP = 1,
	BASE_FLAGS = 2,
	BASE_OP_DATA = 4,
	BASE_PIECES = 5,
	BASE_HEADER = 6,
	BASE_SIZE = 8,
	BASE_LEN = 16,
	PIECE_BYTES = 8, /* in a piece: address, length, key */
	PIECE_LEN = 24,
	IMMEDIATE_LEN = 8
};
enum { BASE_V = 3, OP_MESSAGE = 0, OP_READ = 2, OP_ANSWER = 3, OP_WRITE = 4, FLAG_IMMEDIATE = 1 };

/* rxm's header of a message: struct ofi_ctrl_hdr, then struct ofi_op_hdr. */
enum { PKT_VERSION = 32, PKT_OP = 34, PKT_FLAGS = 36, PKT_SIZE = 40, PKT_LEN = 64 };
enum { PKT_V = 2, PKT_EAGER = 0, PKT_MESSAGE = 0 };

_Static_assert(GUARD_REQUEST_MAX == CTRL_LEN + RXM_REQUEST_LEN, "the longer of the two requests");
_Static_assert(GUARD_UNIT_MAX == BASE_LEN + PKT_LEN + KV_MSG_MAX, "the longest unit is a message");

/* Libfabric's headers are in the sender's byte order, proved to be ours by the connect request. */
static uint16_t own16(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t own32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t own64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static uint16_t net16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t own_endian(void)
{
	const uint8_t one[2] = {1, 0};
	return own16(one) == 1 ? RXM_LITTLE_ENDIAN : RXM_BIG_ENDIAN;
}

static int wrong(const char **why, const char *text)
{
	*why = text;
	return -1;
}

/* ---- setting up ---- */

size_t guard_request_bytes(enum guard_format format)
{
	return CTRL_LEN + (format == GUARD_RXM ? RXM_REQUEST_LEN : XNET_SETUP_LEN);
}

static int rxm_request(const struct guard_rules *rules, const uint8_t *p, uint16_t *out_port, const char **why)
{
	if (p[RXM_SETUP_VERSION] != RXM_SETUP_V || p[RXM_SETUP_CTRL] != RXM_CTRL_V || p[RXM_SETUP_OP] != RXM_OP_V)
		return wrong(why, "its connect request has an unknown version of rxm");
	if (p[RXM_SETUP_ENDIAN] != own_endian())
		return wrong(why, "its byte order differs from ours");
	if (own32(p + RXM_SETUP_EAGER) != rules->eager_bytes)
		return wrong(why, "its eager limit (FI_OFI_RXM_BUFFER_SIZE) differs from ours");
	if (p[RXM_SETUP_FLOW] > 2 || p[RXM_SETUP_PADDING])
		return wrong(why, "an unused field of its connect request is not empty");
	*out_port = own16(p + RXM_SETUP_PORT);
	return 1;
}

int guard_request(const struct guard_rules *rules, const uint8_t *data, size_t n, uint16_t *out_port, const char **why)
{
	size_t len = guard_request_bytes(rules->format);
	if (n > 0 && data[CTRL_VERSION] != SETUP_VERSION)
		return wrong(why, "it does not use libfabric's protocol, or uses an unknown version");
	if (n > 1 && data[CTRL_TYPE] != SETUP_REQUEST)
		return wrong(why, "its first message is not a connect request");
	if (n > len)
		return wrong(why, "it sent more than a connect request before it was accepted");
	if (n < len)
		return 0;
	if (net16(data + CTRL_SEG_SIZE) != len - CTRL_LEN)
		return wrong(why, "its connect request has a wrong length");
	if (own64(data + CTRL_CONN_DATA) != 1)
		return wrong(why, "its byte order differs from ours");
	/* One refused feature is libfabric 2.2's "do not connect to me", which the provider would keep for that peer
	 * forever. */
	if (own32(data + CTRL_SEG_NO) || own64(data + CTRL_CONN_ID) || own64(data + CTRL_MSG_ID) ||
	    (rules->format == GUARD_XNET && data[CTRL_LEN + XNET_SETUP_FEATURES]))
		return wrong(why, "an unused field of its connect request is not empty");
	if (rules->format == GUARD_RXM)
		return rxm_request(rules, data + CTRL_LEN, out_port, why);
	*out_port = net16(data + CTRL_LEN + XNET_SETUP_PORT);
	return 1;
}

void guard_init(struct door_guard *g, const struct guard_rules *rules, bool accepted)
{
	memset(g, 0, sizeof(*g));
	g->rules = rules;
	if (accepted) {
		g->begun = true;
		g->skip = guard_request_bytes(rules->format); /* judged, and not read yet */
	}
}

void guard_setup_sent(struct door_guard *g, const uint8_t *data, size_t n, uint16_t *out_port)
{
	const uint8_t *p = data + CTRL_LEN;
	*out_port = 0;
	if (n < CTRL_LEN || data[CTRL_VERSION] != SETUP_VERSION)
		return;
	if (g->rules->format == GUARD_RXM) {
		bool request = data[CTRL_TYPE] == SETUP_REQUEST && n == CTRL_LEN + RXM_REQUEST_LEN;
		if (request)
			*out_port = own16(p + RXM_SETUP_PORT);
		if (!request && (data[CTRL_TYPE] != SETUP_RESPONSE || n < CTRL_LEN + 8))
			return;
		g->index = own32(p + (request ? RXM_SETUP_INDEX : 0));
		g->indexed = true;
	} else if (data[CTRL_TYPE] == SETUP_REQUEST && n == CTRL_LEN + XNET_SETUP_LEN) {
		*out_port = net16(p + XNET_SETUP_PORT);
	}
}

static size_t response_len(const uint8_t *p)
{
	return CTRL_LEN + net16(p + CTRL_SEG_SIZE);
}

static int response_judge(const struct door_guard *g, const uint8_t *p, const char **why)
{
	size_t len = g->rules->format == GUARD_RXM ? RXM_RESPONSE_LEN : XNET_SETUP_LEN;
	if (p[CTRL_VERSION] != SETUP_VERSION)
		return wrong(why, "its answer to our connect request has an unknown version");
	if (p[CTRL_TYPE] == SETUP_REFUSAL)
		return response_len(p) <= CTRL_LEN + RXM_REQUEST_LEN ? 0 : wrong(why, "its refusal is too long");
	if (p[CTRL_TYPE] != SETUP_RESPONSE || response_len(p) != CTRL_LEN + len)
		return wrong(why, "its answer to our connect request is invalid");
	return own64(p + CTRL_CONN_DATA) == 1 ? 0 : wrong(why, "its byte order differs from ours");
}

/* ---- data ---- */

/* A message of the provider, before rxm's header. */
static int message_judge(const struct door_guard *g, const uint8_t *p, const char **why)
{
	uint64_t size = own64(p + BASE_SIZE);
	const uint8_t *q = p + BASE_LEN;
	/* The pieces are leftovers of an earlier write in the sender's header: the provider does not read them. */
	if (p[BASE_HEADER] != BASE_LEN || own16(p + BASE_FLAGS) || p[BASE_OP_DATA])
		return wrong(why,
			     "a message of a kind that we never send (an acknowledgement, tagged, with an immediate)");
	if (g->rules->format != GUARD_RXM)
		return 0;
	if (q[CTRL_VERSION] != RXM_CTRL_V || q[PKT_VERSION] != PKT_V)
		return wrong(why, "a message with an unknown version of rxm");
	if (q[CTRL_TYPE] != PKT_EAGER)
		return wrong(why,
			     "a message of rxm that we never send (rendezvous, segment, atomic, credit, read done)");
	if (q[PKT_OP] != PKT_MESSAGE || own32(q + PKT_FLAGS))
		return wrong(why, "an operation of rxm that we never make (tagged, or with an immediate)");
	if (own64(q + PKT_SIZE) != size - BASE_LEN - PKT_LEN)
		return wrong(why, "a message whose two sizes differ");
	if (!g->indexed || own64(q + CTRL_CONN_ID) != g->index)
		return wrong(why, "a message that names another connection");
	return 0;
}

static size_t pieces_at(const uint8_t *p)
{
	return own16(p + BASE_FLAGS) & FLAG_IMMEDIATE ? BASE_LEN + IMMEDIATE_LEN : BASE_LEN;
}

/* The provider compares address plus length with the end of a region, and the sum may wrap: one key would open all
 * memory. */
static int piece_judge(const uint8_t *piece, const char **why)
{
	return (own64(piece) | own64(piece + PIECE_BYTES)) >> 62 ? wrong(why, "a range of memory that wraps") : 0;
}

static int write_judge(struct door_guard *g, const uint8_t *p, const char **why)
{
	uint64_t payload = own64(p + BASE_SIZE) - p[BASE_HEADER];
	if (own64(p + pieces_at(p) + PIECE_BYTES) != payload)
		return wrong(why, "a write whose two sizes differ");
	if (piece_judge(p + pieces_at(p), why))
		return -1;
	if (g->rules->format == GUARD_RXM && own16(p + BASE_FLAGS) && payload)
		return wrong(why, "a write with both bytes and an immediate");
	g->skip = payload;
	return 0;
}

/* Answers come in the order of the requests. When all old ones are answered, the newer ones become the old ones. */
static void reads_age(struct door_guard *g)
{
	if (g->old.owed)
		return;
	g->old = g->fresh;
	g->fresh = (struct guard_reads){0};
}

/* A peer that asks faster than it takes the answers makes the provider hold all of them. A busy but honest peer
 * differs: its old reads are answered while it asks. So this sum is at most twice the bytes that it has in flight. */
static int read_judge(struct door_guard *g, const uint8_t *p, const char **why)
{
	if (!g->rules->reads || !g->rules->readable)
		return wrong(why, "a read, although no memory is readable");
	if (own64(p + BASE_SIZE) != p[BASE_HEADER])
		return wrong(why, "a read with bytes");
	if (piece_judge(p + BASE_LEN, why))
		return -1;
	reads_age(g);
	if (g->old.count + ++g->fresh.count > GUARD_READS_MAX)
		return wrong(why, "more reads than it accepts answers for");
	g->fresh.owed += BASE_LEN + KV_MIN(own64(p + BASE_LEN + PIECE_BYTES), (uint64_t)1 << 40);
	return 0;
}

void guard_answered(struct door_guard *g, uint64_t n)
{
	uint64_t old = KV_MIN(n, g->old.owed);
	g->old.owed -= old;
	reads_age(g);
	g->old.owed -= KV_MIN(n - old, g->old.owed);
}

bool guard_may_ask(const struct door_guard *g)
{
	return g->asked && g->num_asked < GUARD_ASKED_MAX;
}

void guard_ask(struct door_guard *g, uint64_t bytes)
{
	if (guard_may_ask(g))
		g->asked[(g->asked_at + g->num_asked++) % GUARD_ASKED_MAX] = bytes;
}

static int answer_judge(struct door_guard *g, const uint8_t *p, const char **why)
{
	uint64_t bytes = own64(p + BASE_SIZE) - BASE_LEN;
	if (g->num_asked == 0)
		return wrong(why, "an answer without a read");
	if (g->asked[g->asked_at] != bytes)
		return wrong(why, "an answer with a wrong length");
	g->asked_at = (g->asked_at + 1) % GUARD_ASKED_MAX;
	g->num_asked--;
	g->skip = bytes;
	return 0;
}

static uint64_t message_max(const struct guard_rules *rules)
{
	return rules->format == GUARD_RXM ? KV_MIN((uint32_t)KV_MSG_MAX, rules->eager_bytes) : KV_MSG_MAX;
}

/* The length of the unit that the first 16 bytes begin; 0: not allowed, *why. */
static size_t base_len(const struct door_guard *g, const uint8_t *p, const char **why)
{
	uint64_t size = own64(p + BASE_SIZE);
	uint16_t flags = own16(p + BASE_FLAGS);
	size_t header = p[BASE_HEADER], least = BASE_LEN + (g->rules->format == GUARD_RXM ? PKT_LEN : 0);
	*why = "an unknown version of libfabric's protocol";
	if (p[BASE_VERSION] != BASE_V)
		return 0;
	*why = "sizes that do not add up";
	if (size < header)
		return 0;
	switch (p[BASE_OP]) {
	case OP_MESSAGE:
		*why = "a message that is too short or too long";
		return size > least && size <= least + message_max(g->rules) ? (size_t)size : 0;
	case OP_READ:
	case OP_WRITE:
		*why = "a write or read of a kind that we never make";
		return p[BASE_OP_DATA] == 0 && p[BASE_PIECES] == 1 &&
				       flags <= (p[BASE_OP] == OP_WRITE ? FLAG_IMMEDIATE : 0) &&
				       header == pieces_at(p) + PIECE_LEN
			       ? header
			       : 0;
	case OP_ANSWER:
		*why = "an answer without a read";
		return g->rules->reads && header == BASE_LEN && flags == 0 && p[BASE_OP_DATA] == 0 ? header : 0;
	default:
		*why = "an operation that we never make";
		return 0;
	}
}

size_t guard_need(const struct door_guard *g, const uint8_t *data, size_t n)
{
	const char *why;
	if (!g->begun)
		return n < CTRL_LEN ? CTRL_LEN : KV_MIN(response_len(data), (size_t)GUARD_UNIT_MAX);
	return n < BASE_LEN ? BASE_LEN : base_len(g, data, &why);
}

static int data_judge(struct door_guard *g, const uint8_t *p, const char **why)
{
	switch (p[BASE_OP]) {
	case OP_MESSAGE:
		return message_judge(g, p, why);
	case OP_WRITE:
		return write_judge(g, p, why);
	case OP_READ:
		return read_judge(g, p, why);
	default:
		return answer_judge(g, p, why);
	}
}

/* The unit at p, of which n bytes have arrived. Its length; 0: incomplete; -1: *why. */
static ssize_t unit_judge(struct door_guard *g, const uint8_t *p, size_t n, const char **why)
{
	size_t len;
	if (!g->begun) {
		if (n < CTRL_LEN)
			return 0;
		if (response_judge(g, p, why))
			return -1;
		len = response_len(p);
		if (n < len)
			return 0;
		g->begun = true;
		return (ssize_t)len;
	}
	if (n < BASE_LEN)
		return 0;
	len = base_len(g, p, why);
	if (len == 0)
		return -1;
	if (n < len)
		return 0;
	return data_judge(g, p, why) ? -1 : (ssize_t)len;
}

ssize_t guard_walk(struct door_guard *g, const uint8_t *data, size_t n, const char **why)
{
	size_t at = 0;
	while (at < n) {
		if (g->skip) {
			size_t step = (size_t)KV_MIN(g->skip, (uint64_t)(n - at));
			g->skip -= step;
			g->passed += step;
			at += step;
			continue;
		}
		ssize_t len = unit_judge(g, data + at, n - at, why);
		if (len < 0)
			return -1;
		if (len == 0)
			break;
		at += (size_t)len;
	}
	*why = NULL;
	return (ssize_t)at;
}
