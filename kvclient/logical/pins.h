/* SPDX-License-Identifier: Apache-2.0 */
/* pins.h -- a client's pins, made again in each new attachment. Private to kvclient/. On the client's loop; only _await
 * functions park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_PINS_H
#define KVRAIL_KVCLIENT_LOGICAL_PINS_H

#include "kvclient/core/client.h"

struct kc_pin;

/* kc_pins_init -- after kc_nodes_make: 0 or -KV_ENOMEM. kc_pins_fini -- forget all, if made; no coroutine of the client
 * uses a pin. kc_pins_any -- whether the client ever pinned. kc_pins_of -- whether the node has pins, or makes some. */
int kc_pins_init(struct kvc_client *c);
bool kc_pins_any(const struct kvc_client *c);
bool kc_pins_of(const struct kc_node *n);
void kc_pins_fini(struct kvc_client *c);

/* kc_pin_begin -- a call is about to pin the key at its node, for a session (NULL: the client's own): new attachments
 * pin it from now on. 0, and *out is the call's until kc_pin_end; or -KV_ENOMEM. */
int kc_pin_begin(struct kc_node *n, struct kvc_session *session, struct kvc_key key, struct kc_pin **out);
void kc_pin_end(struct kc_node *n, struct kc_pin *pin, int rc);

/* kc_pin_drop_await -- before unpinning. 1: one pin, at node *out, is forgotten; 0: none is left; -KV_ETIMEOUT: a
 * repeat of it is out, and nothing has changed. */
int kc_pin_drop_await(struct kvc_client *c, struct kvc_session *session, struct kvc_key key, uint64_t deadline_ns,
		      struct kc_node **out);

/* Names a pin without holding its address. */
struct kc_pin_name {
	struct kc_node *at;
	struct kvc_session *session;
	uint8_t len, key[KV_KEY_MAX];
};

/* kc_pins_follow -- a new view, or a server is up: move pins whose keys have another server, in the background.
 * kc_pins_moved -- that coroutine ends. kc_pins_beat -- retry the postponed ones when due. */
void kc_pins_follow(struct kvc_client *c);
void kc_pins_moved(struct kvc_client *c);
void kc_pins_beat(struct kvc_client *c);

/* kc_pin_next -- the next pin to check; false: none.
 * kc_pin_move_await -- move the pin to node `to`. 0; 1: it is no longer held; -EAGAIN: it is in use; or the PIN's
 * code: nothing has changed.
 * kc_pin_placed -- it is at its server. kc_pin_later -- check it again in a second; tried: count the attempt. False:
 * too many, or settle_ns is over. kc_pin_lose_await -- report it lost because of rc. kc_pins_told -- log recent
 * losses. */
bool kc_pin_next(struct kvc_client *c, struct kc_pin_name *out);
int kc_pin_move_await(struct kvc_client *c, const struct kc_pin_name *name, struct kc_node *to);
void kc_pin_placed(struct kvc_client *c, const struct kc_pin_name *name);
bool kc_pin_later(struct kvc_client *c, const struct kc_pin_name *name, bool tried);
void kc_pin_lose_await(struct kvc_client *c, const struct kc_pin_name *name, int rc);
void kc_pins_told(struct kvc_client *c);

struct kc_pin *kc_pin_held(struct kc_node *n, struct kvc_session *session, struct kvc_key key);

/* kc_pin_elsewhere -- a node outside the set with a pin of the key, so with its value, or NULL. */
struct kc_node *kc_pin_elsewhere(const struct kvc_client *c, struct kvc_key key, const struct kc_place_set *without);

/* kc_pins_deleted -- the value was deleted at this node: forget its pins there. */
void kc_pins_deleted(struct kc_node *n, struct kvc_key key);

/* kc_pins_leave -- the view no longer has the node (node.retired): its pins are lost. */
void kc_pins_leave(struct kc_node *n);

/* kc_pins_part_await -- before closing a session. 0: all its pins are forgotten; -KV_ETIMEOUT: one is busy, and none
 * is forgotten. */
int kc_pins_part_await(struct kvc_session *session, uint64_t deadline_ns);

/* kc_pins_start -- the node is up: pin again. Without a coroutine the next call tries again. */
void kc_pins_start(struct kc_node *n);

#endif
