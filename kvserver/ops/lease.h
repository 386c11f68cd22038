/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h -- leases: blocks that clients read by themselves, each kept for a time. */
#ifndef KVRAIL_KVSERVER_OPS_LEASE_H
#define KVRAIL_KVSERVER_OPS_LEASE_H

#include "loop/loop.h"
#include "wire/wire.h"

struct block;
struct link;
struct shard_attachment;
struct shard;

enum {
	LEASES_MAX = 65536,           /* of a shard */
	LEASES_ATTACHMENT_MAX = 4096, /* twice the requests of one of our clients */
	LEASE_SHARE = 2,              /* maximum share of a shard's memory: a half, */
	LEASE_ATTACHMENT_SHARE = 4,   /* and of one attachment: a quarter, */
	LEASES_ATTACHMENT_MIN = 2,    /* but always this many leases: a large value is read two ranges at a time */
	LEASES_AT_ONCE = 1024         /* expired leases that end in one turn of the loop */
};

#define LEASE_MIN_NS  10000000ull
#define LEASE_MAX_NS  60000000000ull
#define LEASE_NS      1000000000ull /* default */
#define LEASE_PART_NS 1000000ull    /* the server keeps a lease longer than announced, by this and a 64th */

struct lease {
	struct kv_list node;                 /* of the shard: active ones, the oldest first; or free ones */
	struct kv_list sibling;              /* of the attachment */
	struct shard_attachment *attachment; /* NULL: it is free, or its attachment has ended */
	struct block *block;                 /* a reference */
	uint64_t end_ns;
	uint32_t generation;
};

struct leases {
	struct lease *lease; /* NULL: clients may not read */
	struct kv_list free, out;
	uint32_t made, count;    /* entries ever used; active now */
	uint64_t time_ns;        /* the announced time of a lease */
	struct loop_timer timer; /* for the oldest lease; armed while one is active */
};

/* leases_init -- 0 or -KV_ENOMEM. leases_fini -- with none active. */
int leases_init(struct leases *l, uint64_t time_ns);
void leases_fini(struct leases *l);

/* lease_give -- keep the block for an attachment. False: beyond the budget. *out_id names the lease in this attachment.
 * The block neither changes nor ends until the lease is released or expires, or the client says goodbye. */
bool lease_give(struct shard_attachment *s, struct block *b, uint64_t *out_id);

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
