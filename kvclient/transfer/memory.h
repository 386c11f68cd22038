/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h -- find and free registrations of the caller's memory. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_TRANSFER_MEMORY_H
#define KVRAIL_KVCLIENT_TRANSFER_MEMORY_H

#include "kvclient/core/client.h"

/* kc_target_leaves -- whether the slices of a target begin in registered memory and end in unregistered memory. */
bool kc_target_leaves(struct kvc_client *c, const struct kc_target *t, uint64_t len);

/* kc_client_mem_at -- the registration with all of [at, at + len), or NULL. On the client's loop. Valid until the
 * caller parks, or while its `users` is raised. Does not park. */
struct kc_client_mem *kc_client_mem_at(struct kvc_client *c, const void *at, uint64_t len);

/* kc_mems_free -- forget all registrations. Any thread, when the clients are closed. */
void kc_mems_free(struct kvc_pool *p);

#endif
