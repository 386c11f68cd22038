/* SPDX-License-Identifier: Apache-2.0 */
/* pin_move.h -- pins follow their keys to other servers. Private to kvclient/. On the client's loop; one parks only if
 * its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_CALL_PIN_MOVE_H
#define KVRAIL_KVCLIENT_CALL_PIN_MOVE_H

#include "kvclient/request/trace.h"

/* kvc_pins_follow -- another view is in force, or a server is up: look at all pins, and move those whose keys have
 * another server, in the background. kvc_pins_beat -- likewise those that could not be moved before, when it is time.
 */
void kvc_pins_follow(struct kvc_client *c);
void kvc_pins_beat(struct kvc_client *c);

/* kvc_pin_bring_await -- node n, in charge of the key, has no value to be pinned: have it copied there from the second
 * server (twice) or from a former one, as a part of call t. 0: try again; -KV_ENOTFOUND: none has it, or it was not
 * copied; or why not to wait (kvc_wait_queue_await). */
int kvc_pin_bring_await(struct kvc_node *n, struct kvc_key key, bool twice, uint64_t deadline_ns, struct kvc_trace *t);

#endif
