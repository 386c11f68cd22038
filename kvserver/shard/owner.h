/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h -- owners: the session of a request, a stage or a pin. It is a connection's own one, or a further one on it
 * (docs/reference/protocol.md 2.7). */
#ifndef KVRAIL_KVSERVER_SHARD_OWNER_H
#define KVRAIL_KVSERVER_SHARD_OWNER_H

#include "store/store.h"
#include "wire/wire.h"

enum {
	OWNER_INDEX_BITS = 20, /* of a number: its place; the bits above are a generation, never 0 */
	OWNERS_MAX = 1 << OWNER_INDEX_BITS,
	OWNER_CREDITS_SHARE = 4 /* a further session may use a quarter of a link's credits at a shard */
};

struct call;
struct session;

struct owner {
	struct session *session; /* of the connection */
	uint32_t number;         /* 0: the connection's own */
	uint32_t credits;        /* limit of unanswered requests here */
	uint32_t active;         /* unanswered requests: used credits */
	uint32_t requests;       /* ... and not freed */
	uint64_t received;
	struct pins pins;
	struct call *gone; /* set: it ends; finished when no request is left, which frees it */
};

/* The further sessions of one connection on one shard, by the lower bits of their numbers. */
struct owners {
	struct owner **at;
	uint32_t cap, count;
};

static inline uint32_t owner_credits(uint32_t link_credits)
{
	return KV_MAX(link_credits / OWNER_CREDITS_SHARE, 1u);
}

/* owner_open -- 0; -KV_ENOMEM; -KV_EEXIST. */
int owner_open(struct session *s, uint32_t number);

/* owner_end -- take no more requests, stop those in flight, and drop its stages and pins. When nothing is in flight,
 * the owner is freed and `gone` finished with status 0. *out_received: the number of its requests here. An unknown
 * owner: *out_received is 0, and `gone` finishes at once. */
void owner_end(struct session *s, uint32_t number, struct call *gone, uint64_t *out_received);

/* owner_switch -- the owner of the records behind this SESSION record. NULL: unknown; counted. */
struct owner *owner_switch(struct session *s, const struct wire_request *q);

/* owner_settle -- a request of the owner was freed. May free the owner. */
void owner_settle(struct owner *o);

/* owners_drop -- the connection's session ends: drop the pins of all owners. owners_fini -- the session is freed, with
 * its owners. */
void owners_drop(struct session *s);
void owners_fini(struct session *s);

#endif
