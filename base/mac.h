/* SPDX-License-Identifier: Apache-2.0 */
/* mac.h -- a message authentication code. */
#ifndef KVRAIL_BASE_MAC_H
#define KVRAIL_BASE_MAC_H

#include <stddef.h>
#include <stdint.h>

enum { KV_MAC_KEY = 16, KV_MAC_NONCE = 12, KV_MAC_TAG = 16 }; /* bytes */

struct kv_mac;

/* kv_mac_create -- returns 0 or -KV_ENOMEM. kv_mac_destroy -- wipes the key; accepts NULL. Thread: any. */
int kv_mac_create(const uint8_t key[KV_MAC_KEY], struct kv_mac **out);
void kv_mac_destroy(struct kv_mac **mac);

/* kv_mac_tag -- the tag of data. Never use a nonce twice under one key: two tags of one nonce allow forgeries. Verify
 * by computing again (kv_equal_secret). Allocates nothing. Thread: one at a time per mac. 0, or -KV_EINTERNAL (the
 * library; *out is undefined). */
int kv_mac_tag(struct kv_mac *mac, const uint8_t nonce[KV_MAC_NONCE], const void *data, size_t len,
	       uint8_t out[KV_MAC_TAG]);

#endif
