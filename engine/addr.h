/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h -- the peers' addresses on one rail. Private to engine/. */
#ifndef KVRAIL_ENGINE_ADDR_H
#define KVRAIL_ENGINE_ADDR_H

#include "engine/engine.h"

struct op;
struct rail;

enum { TE_ADDR_BUCKETS = 256 };

struct addrs {
	struct kv_list bucket[TE_ADDR_BUCKETS];
	uint32_t count;
	uint64_t heal_at; /* when to check whether a peer needs a broken connection; 0: none broke */
};

/* A peer's address on one rail. Shared by peers with the same address; links and operations in flight reference it. */
struct addr {
	struct kv_list node; /* in its bucket, while its handle is valid */
	struct rail *rail;
	uint64_t handle;
	uint32_t refs, generation;
	bool broke; /* an operation to it failed with its connection, and none has succeeded since */
	bool lost;  /* ... and the provider will not make another connection */
	bool used;  /* a link to it was in use: a peer has proved to be there */
	bool cut;   /* fenced: the next addr_get readmits it */
	uint8_t len, blob[KV_ADDR_MAX];
};

/* addr_get -- find or insert an address on this rail, with a reference for the caller. Returns 0; -KV_EPROTO (not an
 * address of this provider), -KV_ELIMIT (peers_max), -EAGAIN (peers_max, but a rebuild follows soon), -KV_ENOMEM or
 * -KV_EPROVIDER. addr_put -- return a reference; with the last one the address is removed, where that is safe. */
int addr_get(struct rail *r, const struct te_address *a, struct addr **out);
void addr_put(struct addr *a);

/* addr_broken -- an operation to op->addr failed with its connection; certain: it was not merely flushed. Returns
 * whether the address is lost now; then call addr_lost. any_well: a peer has working connections. addrs_heal --
 * addrs.heal_at has passed. The last two may set the rail to RAIL_BROKE. */
bool addr_broken(const struct op *op, bool certain);
void addr_lost(struct rail *r, bool any_well);
void addrs_heal(struct rail *r);

/* addrs_void -- the address vector is closed, and all handles are void. Referenced entries stay. */
void addrs_void(struct rail *r);

#endif
