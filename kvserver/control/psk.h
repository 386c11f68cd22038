/* SPDX-License-Identifier: Apache-2.0 */
/* psk.h -- making a pre-shared key. */
#ifndef KVRAIL_KVSERVER_CONTROL_PSK_H
#define KVRAIL_KVSERVER_CONTROL_PSK_H

#include "base/base.h"

/* psk_make -- write a new key of 32 random bytes as the line "kvrail:HEX" to path, which its owner alone may read and
 * which must not exist yet: a key that others use already is never replaced. On failure there is no file. Blocks on the
 * disk. Returns 0, or -EEXIST, -errno with *err. */
int psk_make(const char *path, struct kv_error *err);

#endif
