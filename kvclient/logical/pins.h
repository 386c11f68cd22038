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
	/* Take the pin back there, if it answers. */
	void (*unpin_await)(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);
	/* The coroutine that moves pins (copies/pin_move.c): until none is to be looked at. */
	void (*move_main)(void *client);
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

/* What names a pin while others may forget it. */
struct kvc_pin_name {
	struct kvc_node *at;
	struct kvc_session *session;
	uint8_t len, key[KV_KEY_MAX];
};

/* kvc_pins_follow -- another view is in force, or a server is up: look at all pins, and move those whose keys have
 * another server, in the background. kvc_pins_beat -- likewise those that could not be moved before, when it is time.
 */
void kvc_pins_follow(struct kvc_client *c);
void kvc_pins_beat(struct kvc_client *c);

/* kvc_pin_next -- the next pin to be looked at; false: none.
 * kvc_pin_move_await -- pin the value at node `to` in place of where it is pinned, and take it back there. 0; 1: it is
 * pinned there no more, or was forgotten meanwhile; -EAGAIN: a call or the next attachment is about to pin it; or
 * the code of the PIN: nothing has changed.
 * kvc_pin_placed -- it is at the right server. kvc_pin_later -- it could not be moved because of rc: look at it again
 * in a second. tried: this counts. False: it was tried often enough, or for settle_ns. kvc_pin_lose_await -- its owner
 * is told that it is lost, because of rc. kvc_pins_told -- the log is told of what was lost since the last time. */
bool kvc_pin_next(struct kvc_client *c, struct kvc_pin_name *out);
int kvc_pin_move_await(struct kvc_client *c, const struct kvc_pin_name *name, struct kvc_node *to);
void kvc_pin_placed(struct kvc_client *c, const struct kvc_pin_name *name);
bool kvc_pin_later(struct kvc_client *c, const struct kvc_pin_name *name, bool tried);
void kvc_pin_lose_await(struct kvc_client *c, const struct kvc_pin_name *name, int rc);
void kvc_pins_told(struct kvc_client *c);

/* kvc_pin_held -- the pin that the session holds at this node; NULL: none. */
struct kvc_pin *kvc_pin_held(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);

/* kvc_pin_elsewhere -- a node that is not in the set at which some session holds a pin of the key; NULL: there is none.
 * The value is there, whatever the view says. */
struct kvc_node *kvc_pin_elsewhere(const struct kvc_client *c, struct kvc_key key, const struct kvc_place_set *without);

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
