/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h -- values that were found at a former server are copied to the one in charge. Private to kvclient/. On the
 * client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_ROUTE_REPAIR_H
#define KVRAIL_KVCLIENT_ROUTE_REPAIR_H

#include "kvclient/core/client.h"

#define KVC_REPAIR_OWNER UINT16_MAX

/* A value that was found at another server than it should be at. */
struct kvc_repair {
	uint8_t key[KV_KEY_MAX], len;
	bool forgotten; /* the key was deleted */
	bool hot;       /* the copy is made because a server said that the value is hot (hot.c) */
	uint16_t node;  /* that has the value */
	uint16_t to;    /* that is to have it; KVC_REPAIR_OWNER: whichever is in charge of the key */
};

/* repair_ready -- values may be found elsewhere from now on: take the memory that their keys need to wait. Without
 * memory nothing is copied, nor where kvc_options.repair_bytes_s is 1.
 * repair_note -- the value of this key was found at n: have it copied in the background to `to`; NULL: to the
 * server in charge of the key. The key is copied. If too many wait already, the value is not.
 * repair_hot -- the same for a value that n says is hot. False: it is not copied. */
void repair_ready(struct kvc_client *c);
void repair_note(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n, const struct kvc_node *to);
bool repair_hot(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n, const struct kvc_node *to);

/* repair_waits -- whether a copy of the key's value waits or is under way. repair_room -- whether another one can be
 * noted. repair_wait_await -- wait until one has ended, or the deadline is over, or why not to wait any longer
 * (kvc_wait_queue_await). */
bool repair_waits(struct kvc_client *c, struct kvc_key key);
bool repair_room(const struct kvc_client *c);
int repair_wait_await(struct kvc_client *c, uint64_t deadline_ns);

/* repair_forget -- the key is about to be deleted or touched: no copy of it is begun any more. True: one is under
 * way. repair_forget_await -- the same, and one that is under way has ended, or the deadline is over. */
bool repair_forget(struct kvc_client *c, struct kvc_key key);
void repair_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* For the coroutine that copies, client->repair_main. repair_first -- the first value that waits, whose copy begins
 * now; NULL: none. Its place is its own until repair_done: its copy has ended. repair_end -- the coroutine ends;
 * returns how many values still waited, and are forgotten. */
const struct kvc_repair *repair_first(struct kvc_client *c);
void repair_done(struct kvc_client *c);
unsigned repair_end(struct kvc_client *c);

/* repair_fini -- the client has closed. */
void repair_fini(struct kvc_client *c);

#endif
