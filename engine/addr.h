/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h -- a rail's addresses of peers: from address to the provider's handle, with references. Private to engine/. */
#ifndef KVRAIL_ENGINE_ADDR_H
#define KVRAIL_ENGINE_ADDR_H

#include "engine/engine.h"

struct op;
struct rail;

enum { TE_ADDR_BUCKETS = 256 };

/* The addresses of peers that a rail knows. */
struct addrs {
	struct kv_list bucket[TE_ADDR_BUCKETS];
	uint32_t count;   /* in the provider's address vector */
	uint64_t heal_at; /* when to look whether a peer needs a connection that broke; 0: no connection did */
};

/* An address of a peer on one rail. Shared by peers with the same address, referenced by links and by operations in
 * flight. */
struct addr {
	struct kv_list node; /* in its bucket, while its handle is good */
	struct rail *rail;
	uint64_t handle;
	uint32_t refs, generation;
	bool broke; /* an operation to it failed with its connection, and none has succeeded since */
	bool lost;  /* ... and the provider will not make another */
	bool used;  /* a link to it was in use: a peer has proved to be there */
	bool cut;   /* fenced: the next addr_get lets it in again */
	uint8_t len, blob[KV_ADDR_MAX];
};

/* addr_get -- the entry of an address on this rail, which is inserted if it is new. Adds a reference, the caller's. 0;
 * or -KV_EPROTO (no address of this provider), -KV_ELIMIT (peers_max), -EAGAIN (the same, and an endpoint is rebuilt
 * soon), -KV_ENOMEM, -KV_EPROVIDER. addr_put -- gives a reference back; with the last one the address is removed, where
 * that is safe. */
int addr_get(struct rail *r, const struct te_address *a, struct addr **out);
void addr_put(struct addr *a);

/* addr_broken -- an operation to op->addr failed with its connection; certain: it was not merely flushed. addrs_heal --
 * addrs.heal_at has come. After both the rail may be RAIL_BROKE: its endpoint is to be rebuilt. */
void addr_broken(const struct op *op, bool certain);
void addrs_heal(struct rail *r);

/* addrs_void -- the address vector is gone: no handle is good any more. Entries that are referred to live on. */
void addrs_void(struct rail *r);

#endif
