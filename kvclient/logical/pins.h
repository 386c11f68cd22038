/* SPDX-License-Identifier: Apache-2.0 */
/* pins.h -- what a client's sessions have pinned, so that it is pinned again in a new attachment. Private to kvclient/.
 * All of these on the client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_PINS_H
#define KVRAIL_KVCLIENT_LOGICAL_PINS_H

#include "kvclient/core/client.h"

struct kvc_pin;

/* What pinning again needs from the room of calls. The client fills it once (client->pin_ops). */
struct kvc_pin_ops {
	/* Pin the key at the node for a session (NULL: the client's own), by the pool's timeout. It is tried again
	 * while the node's attachment stays the same. 0 or a code. Parks; the key stays valid meanwhile. */
	int (*pin_await)(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);
};

/* kvc_pins_init -- before the first pin. kvc_pins_fini -- forget all; no coroutine of the client uses a pin any more.
 */
void kvc_pins_init(struct kvc_client *c);
void kvc_pins_fini(struct kvc_client *c);

/* kvc_pin_begin -- a call is about to pin the key at its node, for a session (NULL: the client's own). From now on
 * every new attachment pins it, too. 0, and *out is the call's until kvc_pin_end; or -KV_ENOMEM.
 * kvc_pin_end -- the call has ended with rc. */
int kvc_pin_begin(struct kvc_node *n, struct kvc_session *session, struct kvc_key key, struct kvc_pin **out);
void kvc_pin_end(struct kvc_node *n, struct kvc_pin *pin, int rc);

/* kvc_pin_drop_await -- a call is about to unpin the key. 1: one pin of it, at node *out, is not made again any more,
 * and no request that pins it again is out; 0: there is none, or no other one; -KV_ETIMEOUT: such a request is out, and
 * nothing has changed. */
int kvc_pin_drop_await(struct kvc_client *c, struct kvc_session *session, struct kvc_key key, uint64_t deadline_ns,
		       struct kvc_node **out);

/* kvc_pins_deleted -- the client has deleted the value at this node: forget all pins of it there. */
void kvc_pins_deleted(struct kvc_node *n, struct kvc_key key);

/* kvc_pins_leave -- the view has the node no more (node.retired): its pins are lost. */
void kvc_pins_leave(struct kvc_node *n);

/* kvc_pins_part_await -- the session is about to be closed. 0: none of its pins is being made again, and all are
 * forgotten; -KV_ETIMEOUT: one is being made again, and nothing is forgotten. */
int kvc_pins_part_await(struct kvc_session *session, uint64_t deadline_ns);

/* kvc_pins_start -- the node is up: pin again what is not pinned in the present attachment. If no coroutine can be had,
 * that is left to the next call of this. */
void kvc_pins_start(struct kvc_node *n);

#endif
