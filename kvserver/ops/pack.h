/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h -- packs: small values of the GETs of one frame, in one write. */
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
		16 << 10 /* larger values are written from their place: copying them costs more than an operation */
};

struct pack_entry {
	struct wire_request q;
	struct wire_reply reply;
	struct block *block; /* a reference */
	uint64_t length, now_ns;
	uint32_t before; /* bytes between its value and its destination behind it */
};

/* pack_alone_fn -- serve a GET alone that could not be packed (get_alone). */
typedef void pack_alone_fn(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
			   const struct wire_reply *reply, uint64_t now_ns);

struct packs {
	pack_alone_fn *alone;
	struct kv_area area;
	struct te_region *region;        /* closed with the engine */
	uint32_t index[PACKS_MAX], free; /* the free ones; the last of them is being filled */
	struct link *link;
	struct region_use *use;
	uint64_t end; /* end of the last destination in the region */
	uint32_t len; /* bytes so far */
	unsigned entries;
	struct pack_entry entry[PACK_ENTRIES];
};

/* packs_init -- with the engine ready; without ordered writes it takes no memory. alone: serves the GETs of a pack that
 * cannot be written. 0 or a code with *err. packs_fini -- the engine is closed. */
int packs_init(struct shard *s, pack_alone_fn *alone, struct kv_error *err);
void packs_fini(struct shard *s);

/* pack_add -- add the GET of a value to the pack; it is answered when the pack closes. False: not possible, serve it
 * otherwise. */
bool pack_add(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	      const struct wire_reply *reply, uint64_t now_ns);

/* pack_close -- write the pack, if any, and answer its GETs. */
void pack_close(struct shard *s);

#endif
