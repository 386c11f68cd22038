/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c -- where callbacks of the owner run: reports of ended operations, and requests for the messages behind
 * ordered writes. They run only where no list is being walked: in te_poll, in the fence's turn, in te_close, and after
 * the handler of a message. */
#include "engine/inside.h"
#include "engine/msg.h"
#include "engine/notify.h"
#include "engine/rail.h"
#include "engine/xfer.h"

void notify_init(struct ended *ended, struct order *order)
{
	kv_list_init(&ended->xfers);
	kv_list_init(&ended->msgs);
	kv_list_init(&order->links);
}

bool te_notify(struct te *te)
{
	bool any = false;
	if (KV_UNLIKELY(te->ended.ops)) {
		te->ended.ops = false;
		for (unsigned i = 0; i < te->nrails; i++)
			any |= rail_dispatch_ended(&te->rails[i]);
	}
	if (!kv_list_empty(&te->ended.xfers))
		any |= xfers_notify(&te->ended.xfers);
	if (!kv_list_empty(&te->ended.msgs))
		any |= msgs_notify(te);
	return any;
}

void te_follow(struct te *te)
{
	struct kv_list *n;
	te->handlers.follow(te->arg);
	/* The owner sends no message behind the writes of the remaining links. */
	while ((n = kv_list_pop(&te->order.links))) {
		struct link *l = KV_LIST_ENTRY(n, struct link, follow_node);
		if (l->follow)
			rail_op_put(l->rail, l->follow);
		l->follow = NULL;
	}
}

void te_order_begin(struct te *te)
{
	te->order.open = true;
}

void te_order_end(struct te *te)
{
	if (!kv_list_empty(&te->order.links))
		te_follow(te);
	te->order.open = false;
}
