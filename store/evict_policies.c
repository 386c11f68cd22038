/* SPDX-License-Identifier: Apache-2.0 */
/* evict_policies.c -- the tables of policies and of their names. */
#include "store/evict_policies.h"

#define POLICY(name) &evict_##name,
#define NAME(name)   #name,

const struct evict_policy *const evict_policies[] = {EVICT_POLICIES(POLICY) NULL};
const char *const evict_policy_names[] = {EVICT_POLICIES(NAME) NULL};
