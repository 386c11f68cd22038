/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h -- boot_key and boot_keys, for keys.c and proof.c. */
#ifndef KVRAIL_BOOTSTRAP_KEYS_H
#define KVRAIL_BOOTSTRAP_KEYS_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/secret.h"

struct boot_key {
	struct secret_psk psk;
};

struct boot_keys {
	struct secret_psk *psk;
	const struct secret_psk **sorted; /* by identity */
	size_t count, bytes;              /* size of the mapping */
};

/* keys_find -- by identity, or NULL. keys may be NULL. */
const struct secret_psk *keys_find(const struct boot_keys *keys, const char *identity);

#endif
