/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h -- the keys of sealed values, from their file. Private to kvclient/. Thread: any; read only after the load. */
#ifndef KVRAIL_KVCLIENT_SEAL_KEYS_H
#define KVRAIL_KVCLIENT_SEAL_KEYS_H

#include "base/base.h"
#include "kvclient/seal/crypt.h"

enum { KC_SEAL_KEYS_MAX = 8 };

/* A key, extracted (HKDF); id: derived from it, and visible in each sealed piece. */
struct kc_seal_key {
	uint32_t id;
	uint8_t secret[CRYPT_KEY];
};

struct kc_seal_keys {
	struct kc_seal_key key[KC_SEAL_KEYS_MAX]; /* the first one seals; all open */
	unsigned count;
	bool named; /* names of keys are sealed with `names` */
	struct kc_seal_key names;
	char space[KV_SPACE_MAX + 1]; /* the namespace */
};

/* kc_seal_keys_load -- read the file: lines `NAME:HEX` with 32 bytes in hexadecimal digits, blank lines and comments
 * (#). The name is for people, except that `names` marks the key of sealed names. with_names: it is needed. 0 and *out;
 * -KV_EINVAL, -KV_EDENIED (others may read the file), -KV_ENOMEM or -errno, with a sentence. kc_seal_keys_destroy --
 * wipe and free them; accepts NULL. */
int kc_seal_keys_load(const char *path, const char *space, bool with_names, struct kc_seal_keys **out,
		      struct kv_error *err);
void kc_seal_keys_destroy(struct kc_seal_keys **keys);

#endif
