/* SPDX-License-Identifier: Apache-2.0 */
/* copies.h -- copies that the client makes by itself: repairs, and values of pins that follow their keys. Private to
 * kvclient/. On the client's loop; only *_await parks. */
#ifndef KVRAIL_KVCLIENT_COPIES_COPIES_H
#define KVRAIL_KVCLIENT_COPIES_COPIES_H

#include "kvclient/request/trace.h"

/* kc_pins_move_main -- kc_hooks.pins_move_main: the coroutine that moves pins. */
void kc_pins_move_main(void *client);

/* kc_repair_main -- kc_hooks.repair_main: the coroutine that makes repairs (copy.c). */
void kc_repair_main(void *client);

/* kc_pin_bring_await -- have a value copied to node n, in charge of the key, from the second server (twice) or a
 * former one, as a part of call t. 0: try again; -KV_ENOTFOUND: none has it, or no copy; or a code of
 * kc_wait_queue_await. */
int kc_pin_bring_await(struct kc_node *n, struct kvc_key key, bool twice, uint64_t deadline_ns, struct kc_trace *t);

#endif
