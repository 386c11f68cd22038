/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- data private to kvclient/logical/ (and tests). */
#ifndef KVRAIL_KVCLIENT_LOGICAL_PRIVATE_H
#define KVRAIL_KVCLIENT_LOGICAL_PRIVATE_H

#include "kvclient/core/client.h"

struct kc_node_pins {
	struct kv_list all;   /* those to be made again come first */
	unsigned pinners;     /* coroutines that make them again */
	uint64_t again, lost; /* since the last log line */
	int lost_rc;
};

/* Of a client: all pins, by key. */
struct kc_pins {
	struct kv_list *bucket;  /* NULL: none ever */
	struct co_queue changed; /* woken when a pin is no longer busy */
	/* Each pin is in one: rest, todo (for the moving coroutine), or late (todo from late_ns on). */
	struct kv_list rest, todo, late;
	uint64_t late_ns;
	bool moving;
	struct kc_node_pins of[]; /* of each node */
};

#endif
