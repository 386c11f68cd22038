/* SPDX-License-Identifier: Apache-2.0 */
/* pins.h -- what a client's sessions have pinned, so that it can be pinned again on a new connection. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_PINS_H
#define KVRAIL_KVCLIENT_LOGICAL_PINS_H

#include "kvclient/core/client.h"

struct kvc_pin;

/* What pinning again needs of the room of calls. The client fills it once (client->pin_ops). */
struct kvc_pin_ops {
	/* Pin the key at the node for a session (NULL: the client's own), by the pool's timeout, again while the node's
	 * session stays the same. What the server said, or why it said nothing. Parks; the key stays valid. */
	int (*pin_await)(struct kvc_node *n, struct kvc_sub *sub, struct kvc_key key);
};

/* kvc_pin_session -- whether the node's session is the one with this number. */
static inline bool kvc_pin_session(const struct kvc_node *n, uint64_t attaches)
{
	return n->state == KVC_NODE_UP && n->attaches == attaches;
}

/* All of these on the client's loop; what does not end in _await does not park.
 *
 * kvc_pins_init -- before the first pin. kvc_pins_fini -- forget all; no coroutine of the client's uses one any more.
 */
void kvc_pins_init(struct kvc_client *c);
void kvc_pins_fini(struct kvc_client *c);

/*  * kvc_pin_begin -- a call is about to pin the key at its node, for a session (NULL: the client's own): from now on
 * every new connection pins it, too. 0 or -KV_ENOMEM. kvc_pin_end -- the call ended with rc; it uses *pin no more. */
int kvc_pin_begin(struct kvc_node *n, struct kvc_sub *sub, struct kvc_key key, struct kvc_pin **out);
void kvc_pin_end(struct kvc_node *n, struct kvc_pin *pin, int rc);

/* kvc_pin_drop_await -- a call is about to take it back: it is not made again any more, and no request that would is
 * out. 0, or -KV_ETIMEOUT: one is, and nothing has changed. */
int kvc_pin_drop_await(struct kvc_node *n, struct kvc_sub *sub, struct kvc_key key, uint64_t deadline_ns);

/* kvc_pins_deleted -- the client has deleted the value: all its pins went with it. */
void kvc_pins_deleted(struct kvc_client *c, struct kvc_key key);

/* kvc_pins_part_await -- the session is about to be closed: none of its pins is being made again when this returns 0;
 * they are forgotten. -KV_ETIMEOUT: one still is, and nothing is forgotten. */
int kvc_pins_part_await(struct kvc_sub *sub, uint64_t deadline_ns);

/* kvc_pins_start -- the node has a session: make the pins again that it does not have. What finds no coroutine now is
 * left to the next time. */
void kvc_pins_start(struct kvc_node *n);

#endif
