/* SPDX-License-Identifier: Apache-2.0 */
/* ids.h -- the distinct block ids of a trace, numbered from 0 in the order in which they came. */
#ifndef KVRAIL_KVBENCH_LOAD_IDS_H
#define KVRAIL_KVBENCH_LOAD_IDS_H

#include "base/base.h"

struct trace_ids { /* {0}: none */
	struct trace_id {
		uint64_t id;
		uint32_t number; /* + 1; 0: empty */
	} *slot;
	uint64_t mask, count;
};

/* trace_ids_have -- whether this id is there. trace_ids_number -- its number; a new id is added. 0 or -KV_ENOMEM. */
bool trace_ids_have(const struct trace_ids *ids, uint64_t id);
int trace_ids_number(struct trace_ids *ids, uint64_t id, uint32_t *out);
void trace_ids_free(struct trace_ids *ids);

/* trace_room -- grow an array of `used` items of this size until `more` have room. 0 or -KV_ENOMEM. */
int trace_room(void **array, size_t size, uint64_t used, uint64_t more, uint64_t *cap);

#endif
