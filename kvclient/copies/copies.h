/* SPDX-License-Identifier: Apache-2.0 */
/* copies.h -- copies that the client makes by itself: repairs, and values of pins that follow their keys. Private to
 * kvclient/. On the client's loop; only *_await parks. */
#ifndef KVRAIL_KVCLIENT_COPIES_COPIES_H
#define KVRAIL_KVCLIENT_COPIES_COPIES_H

#include "kvclient/request/trace.h"
#include "kvclient/core/client.h"
#include "kvclient/core/target.h"

/* kc_pins_move_main -- kc_hooks.pins_move_main: the coroutine that moves pins. */
void kc_pins_move_main(void *client);

/* kc_repair_main -- kc_hooks.repair_main: the coroutine that makes repairs (copy.c). */
void kc_repair_main(void *client);

/* kc_pin_bring_await -- have a value copied to node n, in charge of the key, from the second server (twice) or a
 * former one, as a part of call t. 0: try again; -KV_ENOTFOUND: none has it, or no copy; or a code of
 * kc_wait_queue_await. */
int kc_pin_bring_await(struct kc_node *n, struct kvc_key key, bool twice, uint64_t deadline_ns, struct kc_trace *t);

/* ---- second_put.c ---- */

struct kc_second_value {
	struct kvc_key key;
	const struct kc_target *from; /* as for kc_put_init; copied */
	uint64_t len, checksum;
	uint64_t born_ns; /* start of the call, or earlier */
	uint32_t ttl_s;
};

/* kc_second_put_await -- put the value at the key's second server in the background; on return its memory is the
 * caller's. Dropped and counted without room, or if that server is behind. Parks only to yield while it copies a large
 * value. */
void kc_second_put_await(struct kvc_client *c, const struct kc_second_value *v);

/* kc_second_forget -- before a DELETE: begin no waiting second copy of the key by this client. True: one waits or is
 * under way. kc_second_forget_await -- the same, and wait until none is, or the deadline. */
bool kc_second_forget(struct kvc_client *c, struct kvc_key key);
void kc_second_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* kc_second_landed_await -- before a TOUCH: wait until none of this client's second copies of the key is under way, or
 * the deadline. */
void kc_second_landed_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* kc_second_fini -- after the client closed, with no copy under way. */
void kc_second_fini(struct kvc_client *c);

#endif
