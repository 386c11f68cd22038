/* SPDX-License-Identifier: Apache-2.0 */
/* key.h -- keys for people. */
#ifndef KVRAIL_BASE_KEY_H
#define KVRAIL_BASE_KEY_H

#include <stddef.h>
#include <stdint.h>

enum {
	KV_KEY_SHOWN = 48,                  /* bytes shown */
	KV_KEY_TEXT = 2 * KV_KEY_SHOWN + 24 /* room for its text */
};

/* kv_key_text -- "'block-17'" if the shown bytes are printable, else "0x00ff12". Longer keys end in ".. (128 bytes)".
 * data: at least min(len, KV_KEY_SHOWN) bytes. Returns buf. */
char *kv_key_text(const void *data, size_t len, char buf[KV_KEY_TEXT]);

#endif
