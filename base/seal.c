/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c -- one end of a link: a key for each direction, a counter for each link, and a window of received counters.
 *
 * The nonce of the MAC is the link and the counter. It is used up when a message is tagged, even if the message is then
 * never sent. This is the deterministic construction of NIST SP 800-38D, 8.2.1, which sets no limit to the messages of
 * a key: the fixed field is the link, the invocation field the counter. The counter starts at 0 with fresh keys and has
 * 64 bits. Links have different fixed fields, so their counters may be equal: no two messages of a key have one nonce,
 * and a message of one link has a wrong tag on all others. Each direction has a key of its own. So a side never accepts
 * its own messages when they come back, and nonces of the two directions never meet under one key.
 *
 * A key that is ready for use takes 1.1 KiB of OpenSSL's memory. So all links of a session and shard share two keys,
 * which also stay in the processor's cache whichever link is used. Rejected: keys for each link (71 KiB for a client
 * with 32 links); the link in the tagged bytes with the counter alone as the nonce (the counters of two links meet);
 * one counter for all links (the window of each link would have gaps as wide as the others are busy).
 *
 * Only messages with a right tag move the window. Otherwise anybody could move it past the messages that are still to
 * come. Its width must exceed the number of messages that a sender can have in flight on a link, since they may arrive
 * in any order: at least 512 against 256 send buffers. */
#include "base/seal.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

enum { NONCE_COUNTER = 4 }; /* the bytes before it are the link */

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
