/* SPDX-License-Identifier: Apache-2.0 */
/* region.h -- a client's announced memory regions: made and freed on the control loop, read by every shard, never
 * changed. */
#ifndef KVRAIL_KVSERVER_SHARD_REGION_H
#define KVRAIL_KVSERVER_SHARD_REGION_H

#include "engine/engine.h"
#include "wire/wire.h"

enum {
	REGIONS_MAX = 512, /* of one attachment */
	REGION_BUCKETS = 32,
	REGION_KEYS_MAX = 128 * 1024 /* (rail, part) keys of one attachment: 2 MiB */
};

struct call;

struct region {
	uint32_t id;
	struct te_remote remote; /* keys follow the struct */
	struct kv_list node;     /* of the client, on the control loop */
	uint32_t keys;
	struct te_key key[];
};

/* region_create -- from a REGION message of a client with `rails` rails. 0, -KV_EINVAL (contradictory numbers) or
 * -KV_ENOMEM. */
int region_create(const struct wire_region *w, unsigned rails, struct region **out);

/* A region in an attachment, and its use by requests of one shard. */
struct region_use {
	const struct region *region;
	uint32_t refs;        /* requests with transfers to or from it */
	struct call *revoked; /* set: no new request may use it; finished when refs is 0 */
	struct kv_list node;
};

struct regions {
	struct kv_list bucket[REGION_BUCKETS];
	uint32_t count;
};

/* regions_init -- none. regions_fini -- the attachment is freed: forget them, and finish the calls waiting for one. */
void regions_init(struct regions *r);
void regions_fini(struct regions *r);

/* regions_add -- 0, -KV_EEXIST, -KV_ELIMIT or -KV_ENOMEM. The region stays the control loop's. regions_revoke -- finish
 * `revoked` when nothing uses the region; at once if it is unknown. */
int regions_add(struct regions *r, const struct region *region);
void regions_revoke(struct regions *r, uint32_t id, struct call *revoked);

/* regions_usable -- the region of this destination, if it is known and not revoked, and the slices lie inside without
 * overflow; else NULL. Use beyond this call needs a reference. */
struct region_use *regions_usable(const struct regions *r, const struct wire_dest *d);

/* region_use_free -- of a revoked, unused region: finish the waiting call. */
void region_use_free(struct region_use *u);

/* region_use_keep -- take a reference. region_use_release -- drop it; the last one frees a revoked region. */
static inline struct region_use *region_use_keep(struct region_use *u)
{
	u->refs++;
	return u;
}
static inline void region_use_release(struct region_use *u)
{
	if (--u->refs == 0 && KV_UNLIKELY(u->revoked != NULL))
		region_use_free(u);
}

/* region_announce -- a region of this server, for a client: *out, and its keys as the message has them, to be freed. 0
 * or -KV_ENOMEM. */
int region_announce(const struct te_region *region, struct te_remote *out, uint8_t **out_keys);

#endif
