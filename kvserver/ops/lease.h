/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h -- leases: blocks that clients read by themselves, each kept for a time, or by a local client until its
 * socket closes. */
#ifndef KVRAIL_KVSERVER_OPS_LEASE_H
#define KVRAIL_KVSERVER_OPS_LEASE_H

#include "loop/loop.h"
#include "wire/wire.h"

struct block;
struct lease_holder;
struct link;
struct shard_attachment;
struct shard_local;
struct shard;

enum {
	LEASES_MAX = 1 << 18,         /* of a shard */
	LEASES_ATTACHMENT_MAX = 4096, /* twice the requests of one of our clients */
	LEASE_SHARE = 2,              /* maximum share of a shard's memory: a half, */
	LEASE_ATTACHMENT_SHARE = 4,   /* and of one client: a quarter, */
	LEASES_LOOKED_AT = 16,        /* of a client, the latest, for another lease of the block */
	LEASES_ATTACHMENT_MIN = 2,    /* but always this many leases: a large value is read two ranges at a time */
	LEASES_AT_ONCE = 1024         /* leases that end in one turn of the loop: expired, or of a closed socket */
};

#define LEASE_MIN_NS  10000000ull
#define LEASE_MAX_NS  60000000000ull
#define LEASE_NS      1000000000ull /* default */
#define LEASE_PART_NS 1000000ull    /* the server keeps a lease longer than announced, by this and a 64th */
#define LEASE_REST_NS 1000000000ull /* no new leases of small blocks, since leases were in the way of a PUT */

struct lease {
	struct kv_list node;         /* of the shard: active ones, the oldest first; or free ones */
	struct kv_list sibling;      /* of the holder */
	struct lease_holder *holder; /* NULL: it is free, or its attachment has ended */
	struct block *block;         /* a reference */
	uint64_t begun_ns, end_ns;   /* end: KV_NEVER for a local client */
	/* The client's other leases of this block: a ring, which counts once against the client's quarter. */
	struct kv_list same;
	bool counted; /* in holder->bytes */
	uint32_t generation;
};

struct leases {
	struct lease *lease;
	struct kv_list free;
	struct kv_list out, lasting;  /* those with a time; those of local clients */
	uint32_t made, count, locals; /* entries ever used; active now; of them, those of local clients */
	uint64_t time_ns;
	struct loop_timer timer;      /* for the oldest lease; armed while one is active */
	uint64_t rest_below, rest_ns; /* until then no new leases of blocks smaller than that; 0: no rest */
};

/* leases_init -- 0 or -KV_ENOMEM. leases_fini -- with none active. leases_age_ns -- how long the oldest one is out; 0:
 * none is. */
int leases_init(struct leases *l, uint64_t time_ns);
void leases_fini(struct leases *l);
uint64_t leases_age_ns(const struct leases *l, uint64_t now_ns);

/* leases_rest -- leases are in the way of a value of this size, which waits. leases_tick -- the rest may be over.
 * leases_most -- for a log line, the client on this host that holds most; "": there is none. */
void leases_rest(struct leases *l, uint64_t size, uint64_t now_ns);
void leases_tick(struct leases *l, uint64_t now_ns);
const char *leases_most(const struct shard *shard, char *text, size_t cap);

/* lease_give -- keep the block for an attachment. False: beyond the budget. *out_id names the lease in this attachment.
 * The block neither changes nor ends until the lease is released or expires, or the client says goodbye. */
bool lease_give(struct shard_attachment *s, struct block *b, uint64_t *out_id);

/* lease_give_local -- keep the block for a local client, without a time: until it is released, or its socket closes.
 * The rest as lease_give. */
bool lease_give_local(struct shard_local *l, struct block *b, uint64_t *out_id);

/* lease_release_local -- as lease_release, of a local client; false: it has no such lease. leases_end_local -- its
 * socket is closed: end at most `budget` of its leases. Returns how many. */
bool lease_release_local(struct shard_local *l, uint64_t id);
unsigned leases_end_local(struct shard_local *l, unsigned budget);

/* lease_release -- harmless (and counted) when the attachment has no such lease. */
void lease_release(struct shard_attachment *s, uint64_t id);

/* release_begin -- begin_fn of RELEASE. It begins no request and has no answer; sent twice it releases twice. */
void release_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* leases_drop -- end the leases of an attachment whose client says goodbye, and trusts no read any more. leases_leave
 * -- the attachment ends, and its client may not know: its leases expire. leases_clear -- end all leases of a shard:
 * nothing can be read any more. */
void leases_drop(struct shard_attachment *s);
void leases_leave(struct shard_attachment *s);
void leases_clear(struct shard *shard);

#endif
