/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c -- where callbacks of the owner run: what has ended is told here, and what follows ordered writes is asked
 * for.
 *
 * Only where no list is being walked: te_poll, the fence's turn, te_close, and behind the handler of a message. */
#include "engine/inside.h"
#include "engine/msg.h"
#include "engine/notify.h"
#include "engine/rail.h"
#include "engine/xfer.h"

bool te_notify(struct te *te)
{
	bool any = false;
	if (KV_UNLIKELY(te->ended_due)) {
		te->ended_due = false;
		for (unsigned i = 0; i < te->nrails; i++)
			any |= rail_dispatch_ended(&te->rails[i]);
	}
	if (!kv_list_empty(&te->notify_xfers))
		any |= xfers_notify(te);
	if (!kv_list_empty(&te->notify_msgs))
		any |= msgs_notify(te);
	return any;
}

void te_follow(struct te *te)
{
	struct kv_list *n;
	te->handlers.follow(te->arg);
	/* Whoever did not send one has thought better of it. */
	while ((n = kv_list_pop(&te->following))) {
		struct link *l = KV_LIST_ENTRY(n, struct link, follow_node);
		if (l->follow)
			rail_op_put(l->rail, l->follow);
		l->follow = NULL;
	}
}

void te_order_begin(struct te *te)
{
	te->in_message = true;
}

void te_order_end(struct te *te)
{
	if (!kv_list_empty(&te->following))
		te_follow(te);
	te->in_message = false;
}
