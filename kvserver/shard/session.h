/* SPDX-License-Identifier: Apache-2.0 */
/* session.h -- the session of a request, a stage or a pin: a connection's own one, or a further one on it
 * (docs/reference/protocol.md 2.7). */
#ifndef KVRAIL_KVSERVER_SHARD_SESSION_H
#define KVRAIL_KVSERVER_SHARD_SESSION_H

#include "store/store.h"
#include "wire/wire.h"

enum {
	SESSION_INDEX_BITS = 20, /* of a number: its place; the bits above are a generation, never 0 */
	SESSIONS_MAX = 1 << SESSION_INDEX_BITS,
	SESSION_CREDITS_SHARE = 4 /* a further session may use a quarter of a link's credits at a shard */
};

struct call;
struct shard_attachment;
struct space;

struct grant {
	char space[KV_SPACE_MAX + 1];
	char tenant[KV_SPACE_MAX + 1]; /* "": without --tenants */
	uint64_t generation;
	uint8_t rights; /* enum tenant_right; 0: for this session the namespace does not exist */
	bool reads_all; /* it may read each namespace, and ask about all of the server */
};

struct session {
	struct shard_attachment *attachment; /* of the connection */
	uint32_t number;                     /* 0: the connection's own */
	uint32_t credits;
	uint32_t active;   /* unanswered requests: used credits */
	uint32_t requests; /* ... and not freed */
	uint64_t received;
	struct pins pins;
	struct space *space;   /* of its keys */
	uint32_t allowed;      /* bit per type of request */
	bool sees_all;         /* grant.reads_all */
	bool limited;          /* not all is allowed: session_check */
	struct tenant *tenant; /* NULL: without --tenants */
	struct call *gone;     /* set: it ends; finished when no request is left, which frees it */
};

/* The further sessions of one connection on one shard, by the lower bits of their numbers. */
struct sessions {
	struct session **at;
	uint32_t cap, count;
};

static inline uint32_t session_credits(uint32_t link_credits)
{
	return KV_MAX(link_credits / SESSION_CREDITS_SHARE, 1u);
}

/* session_open -- with these rights. 0; -KV_ENOMEM; -KV_EEXIST; -KV_EDENIED (its tenant has left the table); -KV_EFULL
 * (no room for another namespace). */
int session_open(struct shard_attachment *s, uint32_t number, const struct grant *grant, struct session **out);

/* session_space_read -- the generation of its namespace, and when this shard learned of it, or 0. */
void session_space_read(const struct session *o, uint64_t *out_generation, uint64_t *out_cleared_ns);

/* session_space_begin -- set the namespace and the rights of a new session. session_space_end -- it ends. */
int session_space_begin(struct session *o, const struct grant *grant);

/* session_allows -- whether requests of this type are allowed. session_check -- the status of a request that a limited
 * session may not make, or not now; WIRE_OK: it may. */
static inline bool session_allows(const struct session *o, uint8_t type)
{
	return o->allowed >> type & 1;
}

/* session_may_raise -- whether a session may take its namespace to this generation. A tenant's own ones rise by clears;
 * with the highest number at once it would void the numbers of all: forgotten namespaces leave theirs as the floor. */
#define SESSION_RAISE_MAX (1ull << 32)
static inline bool session_may_raise(const struct session *o, uint64_t generation)
{
	return !o->tenant || o->sees_all || generation <= o->space->generation ||
	       generation - o->space->generation <= SESSION_RAISE_MAX;
}

int32_t session_check(struct session *o, const struct wire_request *q, uint64_t now_ns);
void session_space_end(struct session *o);

/* session_end -- take no more requests, stop those in flight, and drop its stages and pins. When nothing is in flight,
 * the session is freed and `gone` finished with status 0. *out_received: the number of its requests here. An unknown
 * session: *out_received is 0, and `gone` finishes at once. */
void session_end(struct shard_attachment *s, uint32_t number, struct call *gone, uint64_t *out_received);

/* session_switch -- the session of the records behind this SESSION record. NULL: unknown; counted. */
struct session *session_switch(struct shard_attachment *s, const struct wire_request *q);

/* session_request_freed -- a request of the session was freed. May free the session. */
void session_request_freed(struct session *o);

/* sessions_drop -- the connection's attachment ends: drop the pins of all sessions. sessions_fini -- the attachment is
 * freed, with its sessions. */
void sessions_drop(struct shard_attachment *s);
void sessions_fini(struct shard_attachment *s);

#endif
