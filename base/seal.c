/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c -- a key for each direction, a counter out, a window in.
 *
 * The counter is the MAC's nonce, so that it is spent when a message is tagged, whatever becomes of the message. It starts at 0 with
 * fresh keys and has 64 bits. Both directions have keys of their own, so that nothing that one side sent is believed by it when
 * it comes back, and counters of the two never meet under one key.
 *
 * The window is moved only by messages whose tag is right: else anybody could move it past what is still to come. Its width must
 * be more than a sender can have under way on a link, since delivery is in any order: 4096 against 256 send buffers. */
#include "base/seal.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

int kv_seal_open(struct kv_seal *seal, const struct kv_seal_keys *keys)
{
	int rc = kv_mac_create(keys->out, &seal->out);

	if (rc == 0)
		rc = kv_mac_create(keys->in, &seal->in);
	if (rc) {
		kv_seal_close(seal);
		return rc;
	}
	seal->next = 0;
	kv_window_init(&seal->seen);
	return 0;
}

void kv_seal_close(struct kv_seal *seal)
{
	kv_mac_destroy(&seal->out);
	kv_mac_destroy(&seal->in);
}

static int tag_make(struct kv_mac *mac, uint64_t counter, const void *data, size_t len, uint8_t out[KV_MAC_TAG])
{
	uint8_t nonce[KV_MAC_NONCE] = {0};

	kv_put64(nonce, counter);
	return kv_mac_tag(mac, nonce, data, len, out);
}

int kv_seal_tag(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, uint8_t out[KV_MAC_TAG])
{
	return tag_make(seal->out, counter, data, len, out);
}

int kv_seal_take(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, const uint8_t tag[KV_MAC_TAG])
{
	uint8_t want[KV_MAC_TAG];

	if (tag_make(seal->in, counter, data, len, want) != 0 || !kv_equal_secret(want, tag, KV_MAC_TAG))
		return -KV_EDENIED;
	return kv_window_mark(&seal->seen, counter) == KV_WINDOW_NEW ? 0 : -KV_EEXIST;
}
