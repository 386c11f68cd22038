/* SPDX-License-Identifier: Apache-2.0 */
/* sized.h -- public structs that begin with their size. Private to kvclient/. Missing fields of an older program are
 * zero, the default. Unknown fields of a newer one must be zero. */
#ifndef KVRAIL_KVCLIENT_CORE_SIZED_H
#define KVRAIL_KVCLIENT_CORE_SIZED_H

#include "base/base.h"

/* kc_sized -- whether its size is plausible. NULL: no. */
bool kc_sized(const void *given);

/* kc_sized_take -- copy the caller's struct (NULL: defaults) into *to of `known` bytes. name: its type, for *err. 0;
 * or -KV_EINVAL, and *to is zeroed: fewer than `least` bytes, an impossible size, or unknown fields set. */
int kc_sized_take(void *to, size_t known, const void *given, size_t least, const char *name, struct kv_error *err);

/* kc_sized_give -- fill the caller's struct of set size from *from. Its size becomes the part known to both; the rest
 * is zeroed. */
void kc_sized_give(void *to, const void *from, size_t known);

#endif
