/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_door.h -- the doorkeeper: which connections reach an endpoint of libfabric's tcp providers. Private to
 * engine/fabric*.
 *
 * A door belongs to one endpoint at a time and is used by its engine's thread; the provider may accept and receive on
 * another (native tcp with a wait object), which is why what they share is locked. */
#ifndef KVRAIL_ENGINE_FABRIC_DOOR_H
#define KVRAIL_ENGINE_FABRIC_DOOR_H

#include <sys/socket.h>

#include "base/base.h"
#include "engine/fabric_guard.h"

struct door;

/* Why a connection was turned away or ended. */
enum door_reason {
	DOOR_STRANGER, /* no peer of ours has an endpoint at its address */
	DOOR_CLAIM,    /* its connect request is none, or claims what no peer announced */
	DOOR_TWICE,    /* the endpoint that it claims is connected already */
	DOOR_SILENT,   /* no whole connect request came in time */
	DOOR_FULL,     /* too many connections wait, or no descriptor is to spare */
	DOOR_ALIEN,    /* let in, then sent what no peer of ours sends */
	DOOR_REASONS
};

struct door_counts {
	uint64_t let_in, turned[DOOR_REASONS];
};

/* door_fork -- hold the lock of all doors around a fork(). */
void door_fork(bool hold);

/* door_create -- 0, or why there can be none: -KV_ENOTSUP, -KV_EDENIED, -KV_ENOMEM with *why (static). The first one of
 * a process replaces libfabric's imports. Thread: any. */
int door_create(enum guard_format format, bool reads, uint32_t eager_bytes, const struct kv_log *log, struct door **out,
		const char **why);

/* door_listen -- the endpoint's listening socket, before the endpoint is polled for the first time: from now on only
 * endpoints that are allowed get in. 0 or -KV_ENOMEM. */
int door_listen(struct door *d, int fd, const struct sockaddr *name, socklen_t len);

/* door_shut -- the endpoint is closed next, and all addresses are void: no connection gets in until door_listen. */
void door_shut(struct door *d);

/* door_release -- the endpoint is closed for good. *door becomes NULL; NULL is accepted. Its memory stays until
 * libfabric has closed its connections. */
void door_release(struct door **door);

/* door_allow, door_forbid -- a peer's endpoint (AF_INET, AF_INET6; another address is ignored). Counted. When no peer
 * allows an endpoint any more its connection is ended after some seconds, so that a peer that comes back soon keeps it;
 * at once where it never proved to be that peer's (used). 0 or -KV_ENOMEM. */
int door_allow(struct door *d, const void *addr, size_t len);
void door_forbid(struct door *d, const void *addr, size_t len, bool used);

/* door_cut -- the fence of one endpoint: none of its connections hands another byte to the provider, and none is let in
 * or made until door_allow or door_mend (of an endpoint that is still allowed). Returns how many of its connections the
 * provider has not been told the end of: poll it, and call this again. *out_loose: some bytes that one of them handed
 * on before may not be in memory yet. With 0, and also with *out_loose false after a poll, none can arrive any more. */
unsigned door_cut(struct door *d, const void *addr, size_t len, bool *out_loose);
void door_mend(struct door *d, const void *addr, size_t len);

/* door_readable -- memory was registered for reads by peers. */
void door_readable(struct door *d);

/* door_may_read -- whether a read from a peer's endpoint may be posted now; if not, later. door_reads -- it was: of so
 * many bytes. Between the two nothing is polled. */
bool door_may_read(struct door *d, const void *addr, size_t len);
void door_reads(struct door *d, const void *addr, size_t len, uint64_t bytes);

/* door_more -- what the endpoint sends from now on until `more` is false has more behind it: the kernel may keep the
 * end of it until that is sent (at most 200 ms, should it never be). */
void door_more(struct door *d, bool more);

/* door_signals_begin, door_signals_end -- this thread opens the endpoint or its completion queue: pairs of sockets that
 * libfabric makes meanwhile are signals of the queue. */
void door_signals_begin(struct door *d);
void door_signals_end(void);

/* door_rest -- from now on until door_poll, signals of the queues go to their descriptors: call it, then fi_trywait,
 * and if that lets the thread sleep, door_rested. Between a door_poll and the next door_rest a descriptor tells
 * nothing. */
void door_rest(struct door *d);
void door_rested(struct door *d);

/* door_poll -- with each poll of the endpoint: look at the connections that wait. Costs two loads when none does. */
void door_poll(struct door *d);

void door_counts(const struct door *d, struct door_counts *out);

#endif
