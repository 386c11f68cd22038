/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h -- values that were found at a former server are copied to the one in charge. Private to kvclient/. On the
 * client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_ROUTE_REPAIR_H
#define KVRAIL_KVCLIENT_ROUTE_REPAIR_H

#include "kvclient/core/client.h"

/* repair_ready -- values may be found elsewhere from now on: take the memory that their keys need to wait. Without
 * memory nothing is copied, nor where kvc_options.repair_bytes_s is 1.
 * repair_note -- the value of this key was found at n: have it copied in the background to `to`; NULL: to the
 * server in charge of the key. The key is copied. If too many wait already, the value is not.
 * repair_hot -- the same for a value that n says is hot. False: it is not copied. */
void repair_ready(struct kvc_client *c);
void repair_note(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n, const struct kvc_node *to);
bool repair_hot(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n, const struct kvc_node *to);

/* repair_waits -- whether a copy of the key's value waits or is under way. When one has ended, `copied` is woken.
 */
bool repair_waits(struct kvc_client *c, struct kvc_key key);

/* repair_forget -- the key is about to be deleted or touched: no copy of it is begun any more. True: one is under
 * way. repair_forget_await -- the same, and one that is under way has ended, or the deadline is over. */
bool repair_forget(struct kvc_client *c, struct kvc_key key);
void repair_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* repair_at -- key i of the ring. The first one is being copied, if any is. */
static inline struct kvc_repair *repair_at(struct kvc_repairs *q, unsigned i)
{
	return &q->ring[(q->head + i) % KVC_REPAIRS];
}

/* repair_main_await -- the coroutine that copies (copy.c): until no key waits, or the client closes. It parks. */
void repair_main_await(void *client);

#endif
