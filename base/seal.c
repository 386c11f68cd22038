/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c -- one end of a link: a key per direction, a counter per link, a window of received counters
 * (docs/internals/decisions/007-frames-have-a-mac.md).
 *
 * The nonce is link and counter, used up by a tag even if the message is not sent (NIST SP 800-38D, 8.2.1), so a key's
 * messages never share a nonce. Links of a session and shard share two keys. Only a right tag moves the window, wider
 * than a sender's messages in flight: at least 512 for 256 send buffers. */
#include "base/seal.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

enum { NONCE_COUNTER = 4 }; /* behind the link */

_Static_assert(NONCE_COUNTER + 8 == KV_MAC_NONCE, "link and counter are the whole nonce");

int kv_macs_init(struct kv_macs *macs, const struct kv_seal_keys *keys)
{
	int rc = kv_mac_create(keys->out, &macs->out);
	if (rc == 0)
		rc = kv_mac_create(keys->in, &macs->in);
	if (rc)
		kv_macs_fini(macs);
	return rc;
}

void kv_macs_fini(struct kv_macs *macs)
{
	kv_mac_destroy(&macs->out);
	kv_mac_destroy(&macs->in);
}

void kv_seal_init(struct kv_seal *seal, const struct kv_macs *macs, uint32_t link, uint64_t *seen, uint32_t width)
{
	seal->out = macs->out;
	seal->in = macs->in;
	seal->next = 0;
	seal->link = link;
	kv_window_init(&seal->seen, seen, width);
}

void kv_seal_fini(struct kv_seal *seal)
{
	seal->out = seal->in = NULL;
}

static int tag_make(struct kv_mac *mac, uint32_t link, uint64_t counter, const void *data, size_t len,
		    uint8_t out[KV_MAC_TAG])
{
	uint8_t nonce[KV_MAC_NONCE];
	kv_put32(nonce, link);
	kv_put64(nonce + NONCE_COUNTER, counter);
	return kv_mac_tag(mac, nonce, data, len, out);
}

int kv_seal_tag(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, uint8_t out[KV_MAC_TAG])
{
	return tag_make(seal->out, seal->link, counter, data, len, out);
}

int kv_seal_take(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, const uint8_t tag[KV_MAC_TAG])
{
	uint8_t want[KV_MAC_TAG];
	if (tag_make(seal->in, seal->link, counter, data, len, want) != 0 || !kv_equal_secret(want, tag, KV_MAC_TAG))
		return -KV_EDENIED;
	return kv_window_mark(&seal->seen, counter) == KV_WINDOW_NEW ? 0 : -KV_EEXIST;
}
