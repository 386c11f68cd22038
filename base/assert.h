/* SPDX-License-Identifier: Apache-2.0 */
/* assert.h -- rules of our own code that are checked in place. */
#ifndef KVRAIL_BASE_ASSERT_H
#define KVRAIL_BASE_ASSERT_H

#include "base/bytes.h"

/* kv_rule_broken -- called with each broken rule; NULL: rules are not checked. Builds without NDEBUG begin with a
 * function that prints the rule and aborts; the simulation sets its own in every build. Set it before other threads
 * start. */
extern void (*kv_rule_broken)(const char *rule, const char *file, int line);

/* KV_ASSERT -- a rule of docs/internals/ownership.md, or a caller's duty. No side effects, and no data of a peer.
 * KV_ASSERT_HOT -- on the path of each GET and PUT: builds with NDEBUG have nothing of it. */
#define KV_ASSERT(rule)                                                                                                \
	do {                                                                                                           \
		if (KV_UNLIKELY(kv_rule_broken != NULL) && !(rule))                                                    \
			kv_rule_broken(#rule, __FILE__, __LINE__);                                                     \
	} while (0)

#ifdef NDEBUG
#define KV_ASSERT_HOT(rule) ((void)sizeof(!(rule)))
#else
#define KV_ASSERT_HOT(rule) KV_ASSERT(rule)
#endif

#endif
