/* SPDX-License-Identifier: Apache-2.0 */
/* recall.h -- kvs_options.recall of a simulated server: what the other members remember of deleted keys. */
#ifndef KVRAIL_TESTS_SIM_RECALL_H
#define KVRAIL_TESTS_SIM_RECALL_H

#include "tests/sim/world.h"

/* recall_ask -- server: a struct world_server of members.world. */
int recall_ask(void *server, const struct kv_view *view, int64_t since_ns);

#endif
