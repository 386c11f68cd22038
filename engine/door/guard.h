/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h -- the check of a peer's bytes on a connection of libfabric's tcp providers, which trust them. No I/O, no
 * allocation. Private to engine/fabric/ and engine/door/. */
#ifndef KVRAIL_ENGINE_DOOR_GUARD_H
#define KVRAIL_ENGINE_DOOR_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

enum guard_format {
	GUARD_RXM, /* tcp;ofi_rxm */
	GUARD_XNET /* the tcp provider's own endpoints: net of 1.17, tcp from 1.18 */
};

struct guard_rules {
	enum guard_format format;
	bool reads;           /* reads are safe with this libfabric: peers may answer ours */
	bool readable;        /* ... and may read: some memory was registered for that */
	uint32_t eager_bytes; /* rxm: the value that a connect request must have */
};

enum {
	GUARD_REQUEST_MAX = 56,
	GUARD_UNIT_MAX = KV_MSG_MAX + 80, /* bytes of a unit judged as a whole: a message with its headers */
	GUARD_READS_MAX = 4096,           /* a peer's reads in flight on one connection */
	GUARD_ASKED_MAX = 2048            /* ... and ours */
};

/* Some read requests, and an upper bound of the unsent bytes of our answers. */
struct guard_reads {
	uint32_t count;
	uint64_t owed;
};

/* One connection. The caller's from guard_init; needs no end. */
struct door_guard {
	const struct guard_rules *rules;
	uint64_t skip;   /* following payload bytes, not judged */
	uint64_t passed; /* payload bytes walked over */
	bool begun;      /* the connection is set up: data follows */
	bool indexed;    /* `index` is known */
	uint32_t index;  /* rxm: our name for this connection, repeated in every message of the peer */
	uint64_t *asked; /* ring of GUARD_ASKED_MAX lengths of our reads, from asked_at; the caller's. NULL: no reads */
	uint32_t asked_at, num_asked;
	struct guard_reads old, fresh; /* read requests of the peer: fresh ones came after the old ones */
};

/* guard_request -- judge the bytes in an accepted socket. 1: a whole connect request and nothing else, with the peer's
 * claimed port. 0: incomplete. -1: refused, *why is the reason. */
int guard_request(const struct guard_rules *rules, const uint8_t *data, size_t n, uint16_t *out_port, const char **why);
size_t guard_request_bytes(enum guard_format format);

/* guard_init -- for a connection with a judged connect request (accepted), or one that we make. */
void guard_init(struct door_guard *g, const struct guard_rules *rules, bool accepted);

/* guard_setup_sent -- read our own set-up bytes: the index that the peer must repeat, and our port. */
void guard_setup_sent(struct door_guard *g, const uint8_t *data, size_t n, uint16_t *out_port);

/* guard_walk -- judge the next n bytes, from the beginning of a unit or inside a payload. Returns how many may be
 * passed on; the rest begin an incomplete unit. -1: *why is the reason. */
ssize_t guard_walk(struct door_guard *g, const uint8_t *data, size_t n, const char **why);

/* guard_need -- the length of the unit that begins here, as far as n bytes show: read that many, then ask again. 0: no
 * valid unit. */
size_t guard_need(const struct door_guard *g, const uint8_t *data, size_t n);

/* guard_may_ask -- whether there is room for one more read of ours. guard_ask -- a read of this many bytes was posted.
 */
bool guard_may_ask(const struct door_guard *g);
void guard_ask(struct door_guard *g, uint64_t bytes);

/* guard_answered -- n bytes were sent to the peer. */
void guard_answered(struct door_guard *g, uint64_t n);

#endif
