/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h -- copy values found at another server to the right one. Private to kvclient/. On the client's loop; only
 * *_await parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_REPAIR_H
#define KVRAIL_KVCLIENT_ROUTE_REPAIR_H

#include "kvclient/core/client.h"

#define KC_REPAIR_OWNER UINT16_MAX

struct kc_repair {
	uint8_t key[KV_KEY_MAX], len;
	bool forgotten; /* the key was deleted */
	bool hot;
	uint16_t node; /* source */
	uint16_t to;   /* target; KC_REPAIR_OWNER: the server in charge of the key */
};

/* repair_ready -- make the ring; without memory, or if kvc_options.repair_bytes_s is 1, nothing is copied. repair_note
 * -- the value of this key (copied here) is at n: copy it in the background to `to`; NULL: to the server in charge.
 * Dropped if the ring is full. repair_hot -- the same for a hot value. False: it is not copied. */
void repair_ready(struct kvc_client *c);
void repair_note(struct kvc_client *c, struct kvc_key key, const struct kc_node *n, const struct kc_node *to);
bool repair_hot(struct kvc_client *c, struct kvc_key key, const struct kc_node *n, const struct kc_node *to);

/* repair_waits -- whether a copy of the key waits or is under way. repair_room -- whether another can be noted.
 * repair_wait_await -- wait for the end of one, the deadline, or a code of kc_wait_queue_await. */
bool repair_waits(struct kvc_client *c, struct kvc_key key);
bool repair_room(const struct kvc_client *c);
int repair_wait_await(struct kvc_client *c, uint64_t deadline_ns);

/* repair_forget -- before a DELETE or TOUCH: begin no copy of the key. True: one is under way. repair_forget_await --
 * the same, and wait for that one, or the deadline. */
bool repair_forget(struct kvc_client *c, struct kvc_key key);
void repair_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* For the coroutine kc_hooks.repair_main. repair_first -- begin the first waiting copy; NULL: none. Its place is stable
 * until repair_done. repair_end -- the coroutine ends; returns the number of values dropped. */
const struct kc_repair *repair_first(struct kvc_client *c);
void repair_done(struct kvc_client *c);
unsigned repair_end(struct kvc_client *c);

/* repair_fini -- the client has closed. */
void repair_fini(struct kvc_client *c);

#endif
