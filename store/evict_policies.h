/* SPDX-License-Identifier: Apache-2.0 */
/* evict_policies.h -- the eviction policies of a server. A new one is a file evict_NAME.c and a row here. */
#ifndef KVRAIL_STORE_EVICT_POLICIES_H
#define KVRAIL_STORE_EVICT_POLICIES_H

#include "store/evict.h"

/* The first is the default: docs/internals/decisions/002-clock2g.md. */
#define EVICT_POLICIES(ROW)                                                                                            \
	ROW(clock2g)                                                                                                   \
	ROW(clock)                                                                                                     \
	ROW(lru)                                                                                                       \
	ROW(s3fifo)                                                                                                    \
	ROW(sieve)

#define EVICT_POLICY_DECLARE(name) extern const struct evict_policy evict_##name;
EVICT_POLICIES(EVICT_POLICY_DECLARE)

/* evict_policies, evict_policy_names -- in the same order, up to NULL. */
extern const struct evict_policy *const evict_policies[];
extern const char *const evict_policy_names[];

/* EVICT_OPTION_ROW -- the row of a program's --eviction; int: index of the policy. */
#define EVICT_OPTION_ROW(...)                                                                                          \
	{.name = "eviction",                                                                                           \
	 .type = KV_OPT_CHOICE,                                                                                        \
	 .metavar = "POLICY",                                                                                          \
	 .def = "clock2g",                                                                                             \
	 .choices = evict_policy_names,                                                                                \
	 __VA_ARGS__}

#endif
