/* SPDX-License-Identifier: Apache-2.0 */
/* sized.h -- public structs that begin with their size, between a program and a library of different age. Private to
 * kvclient/.
 *
 * The struct of an older program is shorter: what it lacks is zero, which means the default. The struct of a newer
 * program is longer: what this library does not know must be zero on the way in, and is made zero on the way out. */
#ifndef KVRAIL_KVCLIENT_CORE_SIZED_H
#define KVRAIL_KVCLIENT_CORE_SIZED_H

#include "base/base.h"

/* kvc_sized -- whether the struct begins with a size that is possible. NULL: no. */
bool kvc_sized(const void *given);

/* kvc_sized_take -- copy a struct that the caller filled into *to, which has `known` bytes and gets that size. given
 * NULL: all defaults. name: its type, for the text of *err (may be NULL). Returns 0; or -KV_EINVAL: fewer than `least`
 * bytes, an impossible size, or something set that this library does not know. *to is zeroed then. */
int kvc_sized_take(void *to, size_t known, const void *given, size_t least, const char *name, struct kv_error *err);

/* kvc_sized_give -- fill a struct of the caller's, whose size the caller has set (kvc_sized), from *from with `known`
 * bytes: as much as both know. Its size becomes that much, and the rest is zeroed. */
void kvc_sized_give(void *to, const void *from, size_t known);

#endif
