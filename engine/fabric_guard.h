/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_guard.h -- what a peer may send on a connection of libfabric's tcp providers. Bytes only: no I/O, no
 * allocation. Private to engine/fabric*.
 *
 * The providers trust what they read. A guard stands between the socket and the provider (fabric_door_conn.c), walks
 * over the same bytes, and lets through only what a KVRail peer causes: messages of our size, writes and reads of one
 * piece, and the two messages that set a connection up. Everything else ends the connection before the provider has
 * seen it.
 */
#ifndef KVRAIL_ENGINE_FABRIC_GUARD_H
#define KVRAIL_ENGINE_FABRIC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

enum guard_format {
	GUARD_RXM, /* tcp;ofi_rxm */
	GUARD_XNET /* the tcp provider's own endpoints: net of 1.17, tcp from 1.18 on */
};

/* The same for all connections of an endpoint. */
struct guard_rules {
	enum guard_format format;
	bool reads;           /* reads are safe with this libfabric: peers may answer ours */
	bool readable;        /* ... and may read: some memory was registered for that */
	uint32_t eager_bytes; /* rxm: what a connect request must name */
};

enum {
	GUARD_REQUEST_MAX = 56,           /* bytes of a connect request */
	GUARD_UNIT_MAX = KV_MSG_MAX + 80, /* bytes of a unit that is judged as a whole: a message with its headers */
	GUARD_READS_MAX = 4096,           /* reads that a peer may have under way on one connection */
	GUARD_ASKED_MAX = 2048            /* ... and we */
};

/* Some read requests, and the bytes that our answers to them still have to send, at most. */
struct guard_reads {
	uint32_t count;
	uint64_t owed;
};

/* One connection. From guard_init on the caller's; nothing in it needs an end. */
struct guard {
	const struct guard_rules *rules;
	uint64_t skip;   /* bytes of payload that come next: they are not judged */
	uint64_t passed; /* bytes of payload that guard_walk has walked over */
	bool begun;      /* the connection is set up: data follows */
	bool indexed;    /* `index` is known */
	uint32_t index;  /* rxm: our name for this connection, which every message of the peer repeats */
	uint64_t *asked; /* GUARD_ASKED_MAX lengths of reads of ours, in a ring from asked_at on; the caller's. NULL:
			    none can be made */
	uint32_t asked_at, num_asked;
	struct guard_reads old, fresh; /* read requests of the peer: fresh are those behind the old ones */
};

/* guard_request -- judge the bytes that lie in a socket that was accepted. 1: a whole connect request and nothing else,
 * with the port that the peer claims to listen on. 0: it may become one. -1: it never will, *why says what is wrong. */
int guard_request(const struct guard_rules *rules, const uint8_t *data, size_t n, uint16_t *out_port, const char **why);
size_t guard_request_bytes(enum guard_format format);

/* guard_init -- of a connection whose connect request was judged (accepted), or that we make. */
void guard_init(struct guard *g, const struct guard_rules *rules, bool accepted);

/* guard_sent -- what we sent, while the connection is set up: it holds the index that the peer is to repeat, and our
 * own port. */
void guard_setup_sent(struct guard *g, const uint8_t *data, size_t n, uint16_t *out_port);

/* guard_walk -- the next n bytes that came, from the beginning of a unit or inside of a payload. Returns how many of
 * them may be handed on; those behind them begin a unit that is not whole yet, fewer than GUARD_UNIT_MAX; *why is NULL.
 * -1: *why says what is wrong. */
ssize_t guard_walk(struct guard *g, const uint8_t *data, size_t n, const char **why);

/* guard_need -- how long the unit is that begins here, as far as n bytes of it tell: read so many, then ask again. At
 * most GUARD_UNIT_MAX; 0: it is no unit (guard_walk says why). */
size_t guard_need(const struct guard *g, const uint8_t *data, size_t n);

/* guard_may_ask -- whether there is room for one more read of ours. guard_ask -- it was posted, and will be answered
 * with so many bytes. */
bool guard_may_ask(const struct guard *g);
void guard_ask(struct guard *g, uint64_t bytes);

/* guard_answered -- n bytes were sent to the peer. */
void guard_answered(struct guard *g, uint64_t n);

#endif
