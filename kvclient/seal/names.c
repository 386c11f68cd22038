/* SPDX-License-Identifier: Apache-2.0 */
/* names.c -- names of keys. All rooms below the calls know names only, so placement, pins and copies agree. */
#include "kvclient/seal/names.h"

#include <stdlib.h>

#include "loop/loop.h"

enum { STEP_NAMES = 128 }; /* at a time: about 0.1 ms */

int kc_name_make(const struct kvc_client *c, struct kvc_key *key, uint8_t room[KC_SEAL_NAME])
{
	int rc;
	if (!kc_seal_names(c->sealer) || !kc_key_valid(*key))
		return 0;
	rc = kc_seal_name(c->sealer, *key, room);
	*key = (struct kvc_key){room, KC_SEAL_NAME};
	return rc;
}

int kc_names_await(const struct kvc_client *c, const struct kvc_key *first, size_t stride, unsigned n,
		   struct kvc_key **out)
{
	struct kvc_key *key = malloc(KV_MAX(n, 1u) * (sizeof(*key) + KC_SEAL_NAME));
	uint8_t *room = (uint8_t *)(key + n);
	int rc = key ? 0 : -KV_ENOMEM;
	for (unsigned i = 0; i < n && rc == 0; i++) {
		key[i] = *(const struct kvc_key *)(const void *)((const uint8_t *)first + i * stride);
		rc = kc_name_make(c, &key[i], room + (size_t)i * KC_SEAL_NAME);
		if ((i + 1) % STEP_NAMES == 0)
			co_yield_await();
	}
	if (rc < 0)
		free(key);
	else
		*out = key;
	return rc;
}
