/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h -- small values of one frame of requests, written as one (pack.c). Private to kvserver/. */
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
	PACKS_MAX = 64,        /* of one shard, being filled or written */
	PACK_BYTES = 64 << 10, /* of one */
	PACK_ENTRIES = 16,
	PACK_VALUE_MAX =
		16 << 10 /* larger values are written from where they are: to copy them costs more than an operation */
};

/* A GET whose value was put into the pack. */
struct pack_entry {
	struct wire_request q;
	struct wire_reply reply;
	struct block *block; /* a reference is ours */
	uint64_t length, now_ns;
};

/* pack_alone_fn -- serve a GET by itself, which could not be written with others (get_alone). */
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

/* packs_init -- when the engine is there; no memory is taken where nothing is packed. alone: what becomes of GETs
 * whose pack cannot be written. 0 or a code with *err.
 * packs_fini -- when it is closed. */
int packs_init(struct shard *s, pack_alone_fn *alone, struct kv_error *err);
void packs_fini(struct shard *s);

/* pack_add -- put the GET of a value into the pack; it is answered when that is closed. False: not possible, it is
 * to be served otherwise. */
bool pack_add(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	      const struct wire_reply *reply, uint64_t now_ns);

/* pack_close -- write what was put together, if there is anything, and answer. */
void pack_close(struct shard *s);

#endif
