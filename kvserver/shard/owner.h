/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h -- owners: the session that a request, a stage or a pin belongs to. It is a connection's own one, or a
 * further one on it (docs/reference/protocol.md 2.7). */
#ifndef KVRAIL_KVSERVER_SHARD_OWNER_H
#define KVRAIL_KVSERVER_SHARD_OWNER_H

#include "store/store.h"
#include "wire/wire.h"

enum {
	OWNER_INDEX_BITS = 20, /* of a number: its place; the bits above are a generation, never 0 */
	OWNERS_MAX = 1 << OWNER_INDEX_BITS,
	OWNER_CREDITS_SHARE = 4 /* a further session may have a quarter of a link's credits at a shard */
};

struct call;
struct session;

struct owner {
	struct session *session; /* of the connection */
	uint32_t number;         /* 0: the connection's own */
	uint32_t credits;        /* requests that it may have unanswered here */
	uint32_t active;         /* requests begun and not answered: credits that are taken */
	uint32_t requests;       /* ... and not freed */
	uint64_t received;
	struct pins pins;
	struct call *gone; /* set: it ends; finished when no request of it is left, which frees it */
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

/* owner_end -- take no more requests of it, stop those under way, and drop its stages and pins. When nothing of it is
 * in flight, it is freed and `gone` finished; call->status is 0 then. *out_received: the number of requests that it
 * sent here. If there is no such owner that is 0, and `gone` is finished at once. */
void owner_end(struct session *s, uint32_t number, struct call *gone, uint64_t *out_received);

/* owner_switch -- the owner of the records behind this SESSION record. NULL: there is none, which is counted. */
struct owner *owner_switch(struct session *s, const struct wire_request *q);

/* owner_settle -- a request of the owner was freed. May free the owner. */
void owner_settle(struct owner *o);

/* owners_drop -- the connection's session ends: the pins of all its owners go. owners_fini -- the session is freed, and
 * its owners are. */
void owners_drop(struct session *s);
void owners_fini(struct session *s);

#endif
