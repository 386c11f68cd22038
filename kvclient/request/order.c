/* SPDX-License-Identifier: Apache-2.0 */
/* order.c -- the order in a link's queue: the background last. Admission limits it, so the walk past it is short. After
 * KC_PASSED_MAX passes its first request counts as foreground. */
#include "kvclient/request/private.h"

#include "kvclient/request/admission.h"

static struct kc_req *req_of(const struct kv_list *node)
{
	return KV_LIST_ENTRY(node, struct kc_req, node);
}

struct kv_list *kc_queue_front_end(const struct kv_list *queue)
{
	struct kv_list *at = queue->prev;
	while (at != queue && req_of(at)->behind)
		at = at->prev;
	return at;
}

void kc_queue_in(struct kc_link *l, struct kv_list *queue, struct kc_req *r)
{
	struct kv_list *at;
	if (KV_LIKELY(kv_list_empty(queue) || r->behind || !req_of(queue->prev)->behind)) {
		kv_list_add_tail(queue, &r->node);
		return;
	}
	at = kc_queue_front_end(queue);
	if (++l->passed > KC_PASSED_MAX) {
		l->passed = 0;
		at = at->next;
		req_of(at)->behind = false;
	}
	kv_list_add_head(at, &r->node);
}

bool kc_queue_kept(const struct kv_list *queue, const struct kc_req *r)
{
	return !kv_list_empty(queue) && (r->behind || !req_of(queue->next)->behind);
}
