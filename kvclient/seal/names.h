/* SPDX-License-Identifier: Apache-2.0 */
/* names.h -- keys of calls become the names under which sealed values are stored (KVC_SEAL_NAMES). Private to
 * kvclient/. On the client's loop; only *_await parks. */
#ifndef KVRAIL_KVCLIENT_SEAL_NAMES_H
#define KVRAIL_KVCLIENT_SEAL_NAMES_H

#include "kvclient/core/client.h"
#include "kvclient/seal/sealed.h"

/* kc_name_take -- replace *key by its name, made at `room`, if the client seals names; an invalid key stays. 0 or
 * -KV_ENOMEM. */
int kc_name_make(const struct kvc_client *c, struct kvc_key *key, uint8_t room[KC_SEAL_NAME]); /* for kc_name_take */
static inline int kc_name_take(const struct kvc_client *c, struct kvc_key *key, uint8_t room[KC_SEAL_NAME])
{
	return KV_UNLIKELY(c->sealer != NULL) ? kc_name_make(c, key, room) : 0;
}

/* kc_names -- whether the client seals names. kc_names_await -- those of n keys, `stride` bytes apart, in steps: *out
 * is the caller's to free. 0 or -KV_ENOMEM. */
static inline bool kc_names(const struct kvc_client *c)
{
	return KV_UNLIKELY(c->sealer != NULL) && kc_seal_names(c->sealer);
}
int kc_names_await(const struct kvc_client *c, const struct kvc_key *first, size_t stride, unsigned n,
		   struct kvc_key **out);

#endif
