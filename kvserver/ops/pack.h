/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h -- packs: small values of the GETs of one frame, written as one. */
#ifndef KVRAIL_KVSERVER_OPS_PACK_H
#define KVRAIL_KVSERVER_OPS_PACK_H

#include "engine/engine.h"
#include "host/host.h"
#include "wire/wire.h"

struct block;
struct link;
struct region_use;
struct shard;

enum {
	PACKS_MAX = 64,        /* packs of one shard, being filled or written */
	PACK_BYTES = 64 << 10, /* of one */
	PACK_ENTRIES = 16,
	PACK_VALUE_MAX =
		16 << 10 /* larger values are written from where they are: copying them costs more than an operation */
};

/* A GET whose value was put into the pack. */
struct pack_entry {
	struct wire_request q;
	struct wire_reply reply;
	struct block *block; /* a reference is ours */
	uint64_t length, now_ns;
	uint32_t before; /* bytes before its destination that its value lies at */
};

/* pack_alone_fn -- serve by itself a GET that could not be written with others (get_alone). */
typedef void pack_alone_fn(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
			   const struct wire_reply *reply, uint64_t now_ns);

/* Of one shard: buffers, and the pack that is being put together. */
struct packs {
	pack_alone_fn *alone;
	struct kv_area area;
	struct te_region *region;        /* goes with the engine */
	uint32_t index[PACKS_MAX], free; /* those that are free; the last of them is being filled */
	struct link *link;               /* whose pack it is; NULL: there is none */
	struct region_use *use;
	uint64_t end; /* where the last destination ends, in the region */
	uint32_t len; /* bytes so far */
	unsigned entries;
	struct pack_entry entry[PACK_ENTRIES];
};

/* packs_init -- the engine is there; without ordered writes it takes no memory. alone: serves the GETs of a pack that
 * cannot be written. 0 or a code with *err. packs_fini -- the engine is closed. */
int packs_init(struct shard *s, pack_alone_fn *alone, struct kv_error *err);
void packs_fini(struct shard *s);

/* pack_add -- put the GET of a value into the pack; it is answered when the pack is closed. False: not possible, serve
 * it otherwise. */
bool pack_add(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	      const struct wire_reply *reply, uint64_t now_ns);

/* pack_close -- write the pack, if there is one, and answer its GETs. */
void pack_close(struct shard *s);

#endif
