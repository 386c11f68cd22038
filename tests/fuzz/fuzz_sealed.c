/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sealed.c -- the stored form of sealed values: bytes from a server open only if this client sealed them. The
 * first byte chooses the value's length; the rest are differences from its stored bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/seal/sealed.h"

enum { LEN_MOST = 600 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_sealed: %s\n", what);
	abort();
}

/* Made once; the keys are fixed. */
static struct kc_sealer *sealer(void)
{
	static struct kc_seal_keys keys = {.count = 1, .key = {{.id = 7, .secret = {1, 2, 3}}}, .space = "fuzz"};
	static struct kc_sealer *made;
	if (!made)
		must(kc_sealer_create(&keys, &made) == 0, "no sealer");
	return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t value[LEN_MOST], stored[LEN_MOST + KC_SEAL_EXTRA], got[LEN_MOST];
	struct kc_seal_value seal = {.key = {"key", 3}, .generation = 3}, open = seal;
	bool changed = false;
	struct kv_hasher h;
	uint64_t len;
	int rc;
	if (size == 0)
		return 0;
	len = 1 + data[0] * 2u;
	memset(value, data[0], sizeof(value));
	seal.len = open.len = len;
	must(kc_sealed_plain(kc_sealed_len(size)) == size, "lengths do not agree");
	kv_hasher_init(&h);
	must(kc_seal_await(sealer(), &seal, &(struct kc_target){.at = value}, sizeof(stored), stored, &h) ==
		     (int64_t)kc_sealed_len(len),
	     "not sealed");
	for (size_t i = 1; i < size && i <= len + KC_SEAL_EXTRA; i++) {
		changed |= data[i] != 0;
		stored[i - 1] ^= data[i];
	}
	memset(got, 0, sizeof(got));
	rc = kc_open_piece(sealer(), &open, stored, &(struct kc_target){.at = got}, 0, len);
	must(rc == (changed ? -KV_ECORRUPT : 0), "another result");
	must(changed || memcmp(got, value, len) == 0, "other bytes");
	return 0;
}
