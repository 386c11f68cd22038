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
	bool undo;                 /* all parts are to be closed; then the region fails, or begins anew */
	int failed;                /* for undo: the code that the region fails with; 0: it begins anew */
	struct kv_error why;       /* for undo: the sentence to that code */
	bool doubted;              /* the next part was refused once already */
	unsigned threads;          /* that took part in registering it */
	uint64_t ns;               /* how long that took; until it is ready, when it began */
	bool ready;                /* in regions.ready, else in regions.pending */
};

struct te_regions {
	struct kv_list ready, pending; /* registered on every rail that is up; still being registered, or closed */
};

/* te_regions_init -- there are none. te_regions_free -- forget all of them: fab_close has closed their registrations.
 */
void te_regions_init(struct te_regions *r);
void te_regions_free(struct te_regions *r);

/* regions_complete -- register on a rail that is to come back the regions that the others have, until that time, one
 * part at least. 0: it has all; 1: it lacks some still; or a code with *err. */
int regions_complete(struct rail *r, uint64_t until, struct kv_error *err);

#endif
