/* SPDX-License-Identifier: Apache-2.0 */
/* door.h -- the doorkeeper: decides which connections reach an endpoint of libfabric's tcp providers. Private to
 * engine/fabric/.
 *
 * A door belongs to one endpoint at a time and is used by its engine's thread. The provider may accept and receive on
 * another (native tcp with a wait object), so their shared data is locked. */
#ifndef KVRAIL_ENGINE_DOOR_DOOR_H
#define KVRAIL_ENGINE_DOOR_DOOR_H

#include <sys/socket.h>

#include "base/base.h"
#include "engine/door/guard.h"

struct door;

enum door_reason {
	DOOR_STRANGER, /* no peer of ours has an endpoint at its address */
	DOOR_CLAIM,    /* its connect request is invalid, or claims an unannounced endpoint */
	DOOR_TWICE,    /* the claimed endpoint is connected already */
	DOOR_SILENT,   /* no whole connect request came in time */
	DOOR_FULL,     /* too many connections wait, or no descriptor is free */
	DOOR_ALIEN,    /* admitted, then sent bytes that no peer of ours sends */
	DOOR_REASONS
};

struct door_counts {
	uint64_t let_in, turned[DOOR_REASONS];
};

/* door_fork -- hold the lock of all doors around a fork(). */
void door_fork(bool hold);

/* door_create -- 0, or why it is impossible: -KV_ENOTSUP, -KV_EDENIED, -KV_ENOMEM with *why (static). The first one of
 * a process replaces libfabric's imports. Thread: any. */
int door_create(enum guard_format format, bool reads, uint32_t eager_bytes, const struct kv_log *log, struct door **out,
		const char **why);

/* door_listen -- the endpoint's listening socket, before its first poll: from now on only allowed endpoints are
 * admitted. 0 or -KV_ENOMEM. */
int door_listen(struct door *d, int fd, const struct sockaddr *name, socklen_t len);

/* door_shut -- the endpoint closes next, and all addresses are void: no connection is admitted until door_listen. */
void door_shut(struct door *d);

/* door_release -- the endpoint is closed for good. *door becomes NULL; NULL is accepted. Its memory stays until
 * libfabric has closed its connections. */
void door_release(struct door **door);

/* door_allow, door_forbid -- a peer's endpoint (AF_INET, AF_INET6; others are ignored). Counted. After the last
 * door_forbid its connection ends: at once if it never proved to be that peer's (used), else after some seconds. 0 or
 * -KV_ENOMEM. */
int door_allow(struct door *d, const void *addr, size_t len);
void door_forbid(struct door *d, const void *addr, size_t len, bool used);

/* door_cut -- the fence of one endpoint: its connections pass no more bytes to the provider, and none is admitted or
 * made until door_allow or door_mend. Returns how many the provider has not seen end: poll it, and call this again.
 * *out_loose: bytes passed on earlier may not be in memory yet. With 0, and *out_loose false, none can arrive. */
unsigned door_cut(struct door *d, const void *addr, size_t len, bool *out_loose);
void door_mend(struct door *d, const void *addr, size_t len);

void door_readable(struct door *d);

/* door_may_read -- whether a read from a peer's endpoint may be posted now. door_reads -- one of this many bytes was
 * posted. No poll in between. */
bool door_may_read(struct door *d, const void *addr, size_t len);
void door_reads(struct door *d, const void *addr, size_t len, uint64_t bytes);

/* door_more -- until `more` is false, the endpoint has more bytes to send: the kernel may delay the end of earlier ones
 * until then (at most 200 ms). */
void door_more(struct door *d, bool more);

/* door_signals_begin, door_signals_end -- this thread opens the endpoint or its completion queue in between: socket
 * pairs that libfabric makes are signals of the queue. */
void door_signals_begin(struct door *d);
void door_signals_end(void);

/* door_rest -- until door_poll, signals of the queues reach their descriptors: call it, then fi_trywait, and if that
 * allows sleep, door_rested. */
void door_rest(struct door *d);
void door_rested(struct door *d);

/* door_poll -- with each poll of the endpoint: check the waiting connections. Costs two loads without any. */
void door_poll(struct door *d);

void door_counts(const struct door *d, struct door_counts *out);

#endif
