/* SPDX-License-Identifier: Apache-2.0 */
/* region.h -- registered memory. Private to engine/. */
#ifndef KVRAIL_ENGINE_REGION_H
#define KVRAIL_ENGINE_REGION_H

#include "engine/rail.h"

struct te_region {
	struct te *te;
	struct kv_list node;
	uint8_t *base;
	uint64_t len, part_bytes;
	uint32_t parts, users;
	unsigned access; /* enum fab_access */
	bool virt;
	struct fab_mr **mrs;       /* [rail * parts + part] */
	uint32_t rail_at, part_at; /* until it is ready: the part that te_region_step registers next */
	size_t close_at;           /* in mrs: all before it are closed */
	bool undo;                 /* close all parts; then the region fails, or begins anew */
	int failed;                /* for undo: the code of the failure; 0: it begins anew */
	struct kv_error why;
	bool doubted; /* the next part was refused once already */
	unsigned threads;
	uint64_t ns; /* duration of registering; until it is ready, the start time */
	bool ready;  /* in regions.ready, else in regions.pending */
};

struct te_regions {
	struct kv_list ready, pending; /* registered on every rail in use; still being registered, or closed */
};

/* te_regions_init -- no regions. te_regions_free -- free all: fab_close has closed their registrations. */
void te_regions_init(struct te_regions *r);
void te_regions_free(struct te_regions *r);

/* regions_complete -- register on a returning rail the regions it lacks, until this time, one part at least. 0:
 * complete; 1: some are missing; or a code with *err. */
int regions_complete(struct rail *r, uint64_t until, struct kv_error *err);

#endif
