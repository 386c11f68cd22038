/* SPDX-License-Identifier: Apache-2.0 */
/* pins.h -- a client's pins, made again in each new attachment. Private to kvclient/. On the client's loop; only _await
 * functions park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_PINS_H
#define KVRAIL_KVCLIENT_LOGICAL_PINS_H

#include "kvclient/core/client.h"

struct kvc_pin;

/* Set once (client->pin_ops). */
struct kvc_pin_ops {
	/* Pin the key at the node for a session (NULL: the client's own), by the pool's timeout; retries within the
	 * attachment. The key stays valid. */
	int (*pin_await)(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);
	void (*unpin_await)(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);
	/* The coroutine that moves pins (copies/pin_move.c). */
	void (*move_main)(void *client);
};

/* kvc_pins_fini -- forget all; no coroutine of the client uses a pin. */
void kvc_pins_init(struct kvc_client *c);
void kvc_pins_fini(struct kvc_client *c);

/* kvc_pin_begin -- a call is about to pin the key at its node, for a session (NULL: the client's own): new attachments
 * pin it from now on. 0, and *out is the call's until kvc_pin_end; or -KV_ENOMEM. */
int kvc_pin_begin(struct kvc_node *n, struct kvc_session *session, struct kvc_key key, struct kvc_pin **out);
void kvc_pin_end(struct kvc_node *n, struct kvc_pin *pin, int rc);

/* kvc_pin_drop_await -- before unpinning. 1: one pin, at node *out, is forgotten; 0: none is left; -KV_ETIMEOUT: a
 * repeat of it is out, and nothing has changed. */
int kvc_pin_drop_await(struct kvc_client *c, struct kvc_session *session, struct kvc_key key, uint64_t deadline_ns,
		       struct kvc_node **out);

/* Names a pin without holding its address. */
struct kvc_pin_name {
	struct kvc_node *at;
	struct kvc_session *session;
	uint8_t len, key[KV_KEY_MAX];
};

/* kvc_pins_follow -- a new view, or a server is up: move pins whose keys have another server, in the background.
 * kvc_pins_beat -- retry the postponed ones when due. */
void kvc_pins_follow(struct kvc_client *c);
void kvc_pins_beat(struct kvc_client *c);

/* kvc_pin_next -- the next pin to check; false: none.
 * kvc_pin_move_await -- move the pin to node `to`. 0; 1: it is no longer held; -EAGAIN: it is in use; or the PIN's
 * code: nothing has changed.
 * kvc_pin_placed -- it is at its server. kvc_pin_later -- check it again in a second; tried: count the attempt. False:
 * too many, or settle_ns is over. kvc_pin_lose_await -- report it lost because of rc. kvc_pins_told -- log recent
 * losses. */
bool kvc_pin_next(struct kvc_client *c, struct kvc_pin_name *out);
int kvc_pin_move_await(struct kvc_client *c, const struct kvc_pin_name *name, struct kvc_node *to);
void kvc_pin_placed(struct kvc_client *c, const struct kvc_pin_name *name);
bool kvc_pin_later(struct kvc_client *c, const struct kvc_pin_name *name, bool tried);
void kvc_pin_lose_await(struct kvc_client *c, const struct kvc_pin_name *name, int rc);
void kvc_pins_told(struct kvc_client *c);

struct kvc_pin *kvc_pin_held(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);

/* kvc_pin_elsewhere -- a node outside the set with a pin of the key, so with its value, or NULL. */
struct kvc_node *kvc_pin_elsewhere(const struct kvc_client *c, struct kvc_key key, const struct kvc_place_set *without);

/* kvc_pins_deleted -- the value was deleted at this node: forget its pins there. */
void kvc_pins_deleted(struct kvc_node *n, struct kvc_key key);

/* kvc_pins_leave -- the view no longer has the node (node.retired): its pins are lost. */
void kvc_pins_leave(struct kvc_node *n);

/* kvc_pins_part_await -- before closing a session. 0: all its pins are forgotten; -KV_ETIMEOUT: one is busy, and none
 * is forgotten. */
int kvc_pins_part_await(struct kvc_session *session, uint64_t deadline_ns);

/* kvc_pins_start -- the node is up: pin again. Without a coroutine the next call tries again. */
void kvc_pins_start(struct kvc_node *n);

#endif
