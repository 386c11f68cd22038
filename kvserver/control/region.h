/* SPDX-License-Identifier: Apache-2.0 */
/* region.h -- the memory regions that a client announced: made and freed on the control loop, read by every shard,
 * never changed. */
#ifndef KVRAIL_KVSERVER_CONTROL_REGION_H
#define KVRAIL_KVSERVER_CONTROL_REGION_H

#include "engine/engine.h"
#include "wire/wire.h"

enum {
	REGIONS_MAX = 512, /* of one session */
	REGION_BUCKETS = 32,
	REGION_KEYS_MAX = 128 * 1024 /* (rail, part) keys of one session in all: 2 MiB */
};

struct region {
	uint32_t id;
	struct te_remote remote; /* keys lie behind the struct */
	struct kv_list node;     /* of the client, on the control loop */
	uint32_t keys;
	struct te_key key[];
};

/* region_create -- from a REGION message of a client with `rails` rails. 0, -KV_EINVAL (numbers that do not fit
 * together) or -KV_ENOMEM. */
int region_create(const struct wire_region *w, unsigned rails, struct region **out);

/* One shard's view of a region in a session: who uses it. */
struct region_use {
	const struct region *region;
	uint32_t refs;        /* requests with transfers to or from it */
	struct call *revoked; /* set: no new request may use it; finished when refs is 0 */
	struct kv_list node;  /* of a bucket of the session */
};

/* region_holds -- whether the slices lie inside, without overflow. */
bool region_holds(const struct region *r, const struct wire_dest *d);

#endif
