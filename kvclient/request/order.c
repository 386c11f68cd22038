/* SPDX-License-Identifier: Apache-2.0 */
/* order.c -- the order in a link's queue: the background last. Admission limits it, so the walk past it is short. After
 * KVC_PASSED_MAX passes its first request counts as foreground. */
#include "kvclient/request/order.h"

#include "kvclient/request/admission.h"

static struct kvc_req *req_of(const struct kv_list *node)
{
	return KV_LIST_ENTRY(node, struct kvc_req, node);
}

struct kv_list *kvc_queue_front_end(const struct kv_list *queue)
{
	struct kv_list *at = queue->prev;
	while (at != queue && req_of(at)->behind)
		at = at->prev;
	return at;
}

void kvc_queue_in(struct kvc_link *l, struct kv_list *queue, struct kvc_req *r)
{
	struct kv_list *at;
	if (KV_LIKELY(kv_list_empty(queue) || r->behind || !req_of(queue->prev)->behind)) {
		kv_list_add_tail(queue, &r->node);
		return;
	}
	at = kvc_queue_front_end(queue);
	if (++l->passed > KVC_PASSED_MAX) {
		l->passed = 0;
		at = at->next;
		req_of(at)->behind = false;
	}
	kv_list_add_head(at, &r->node);
}

bool kvc_queue_kept(const struct kv_list *queue, const struct kvc_req *r)
{
	return !kv_list_empty(queue) && (r->behind || !req_of(queue->next)->behind);
}
