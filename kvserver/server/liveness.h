/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.h -- whether the loops of a server turn. */
#ifndef KVRAIL_KVSERVER_SERVER_LIVENESS_H
#define KVRAIL_KVSERVER_SERVER_LIVENESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/base.h"

/* The questions to the loops. The asking thread sets a flag, the loop clears it. */
struct liveness {
	_Atomic bool asked[KV_SHARDS_MAX + 1]; /* of the control loop, then of the shards */
	uint64_t asked_ns[KV_SHARDS_MAX + 1];  /* the asking thread's */
	unsigned owes;                         /* the first loop that owed an answer; likewise */
};

#endif
