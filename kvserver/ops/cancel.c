/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c -- CANCEL: after its answer the server makes no more data writes for that request; `posted` is their number.
 *
 * UNSEEN: the id is marked seen, so a late request is dropped. STOPPED: it was in flight; its own reply (CANCELED) is
 * sent as well, and if a PUT has reads in flight, both replies wait for their end. DONE: it was answered before; its
 * number of writes is remembered while there is room (answers.c). Any other id below the window gets the largest
 * number: the client must treat its destination as unsafe.
 *
 * A GET of the same frame may be in a pack (pack.c), neither answered nor in flight, so the pack is closed first. */
#include "kvserver/ops/private.h"

#include "kvserver/ops/pack.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"

static struct request *find_active(const struct link *l, uint64_t id)
{
	KV_LIST_EACH (n, &l->attachment->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		if (r->link == l && r->id == id && r->state != REQUEST_ANSWERED)
			return r;
	}
	return NULL;
}

void cancel_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	uint64_t id = q->cancel.id;
	enum kv_window_verdict verdict = kv_window_mark(&l->window, id);
	struct wire_reply reply = {.type = WIRE_CANCEL, .id = q->id, .cancel = {.id = id, .state = WIRE_CANCEL_DONE}};
	struct request *r;
	(void)now_ns;
	shard_count(l->attachment->shard, WIRE_STAT_CANCELS);
	pack_close(l->attachment->shard);
	if (verdict == KV_WINDOW_NEW) {
		link_answered(l, id, 0);
		reply.cancel.state = WIRE_CANCEL_UNSEEN;
	} else if ((r = find_active(l, id)) == NULL) {
		if (answers_look(&l->attachment->answers, &l->answers, l->index, id, &reply.cancel.posted)) {
			reply.status = WIRE_STALE;
			reply.cancel.posted = UINT32_MAX;
		}
	} else if (l->session->number && r->session != l->session) {
		reply.status = WIRE_STALE;
		reply.cancel.posted = UINT32_MAX;
	} else if (r->has_cancel) {
		reply.status = WIRE_BUSY;
		reply.cancel.posted = UINT32_MAX;
		reply.cancel.state = WIRE_CANCEL_STOPPED;
	} else {
		r->has_cancel = true; /* its own reply comes first */
		r->cancel_id = q->id;
		r->ops->cancel(r);
		return;
	}
	reply_put(l, &reply, NULL);
}
