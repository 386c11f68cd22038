/* SPDX-License-Identifier: Apache-2.0 */
/* copies.h -- copies of values that the client makes by itself: to where they should be, and for pins that follow their
 * keys to other servers. Private to kvclient/. On the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_COPIES_COPIES_H
#define KVRAIL_KVCLIENT_COPIES_COPIES_H

#include "kvclient/request/trace.h"

/* kvc_pins_move_main -- struct kvc_pin_ops.move_main: the coroutine that moves pins, until none is to be looked at. */
void kvc_pins_move_main(void *client);

/* kvc_repair_main -- client->repair_main: the coroutine that copies what waits in route/repair.c (copy.c). */
void kvc_repair_main(void *client);

/* kvc_pin_bring_await -- node n, in charge of the key, has no value to be pinned: have it copied there from the second
 * server (twice) or from a former one, as a part of call t. 0: try again; -KV_ENOTFOUND: none has it, or it was not
 * copied; or why not to wait (kvc_wait_queue_await). */
int kvc_pin_bring_await(struct kvc_node *n, struct kvc_key key, bool twice, uint64_t deadline_ns, struct kvc_trace *t);

#endif
