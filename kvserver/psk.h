/* SPDX-License-Identifier: Apache-2.0 */
/* psk.h -- making a pre-shared key. */
#ifndef KVRAIL_KVSERVER_PSK_H
#define KVRAIL_KVSERVER_PSK_H

#include "base/base.h"

/* psk_make -- write a new key of 32 random bytes as a line "kvrail-XXXXXXXX:HEX" to path, readable by its owner alone.
 * The file must not exist: a key in use is never replaced. On failure there is no file. Blocks on the disk. Returns 0,
 * or -EEXIST, -errno with *err. */
int psk_make(const char *path, struct kv_error *err);

#endif
