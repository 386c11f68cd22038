/* SPDX-License-Identifier: Apache-2.0 */
/* space.h -- names of namespaces. */
#ifndef KVRAIL_BASE_SPACE_H
#define KVRAIL_BASE_SPACE_H

#include <stdbool.h>
#include <stddef.h>

/* kv_space_check -- whether the bytes may name a namespace: at most KV_SPACE_MAX, valid UTF-8, no control characters.
 * No bytes name the default one. Thread: any. */
bool kv_space_check(const void *name, size_t len);

#endif
