/* SPDX-License-Identifier: Apache-2.0 */
/* end.c -- how all requests of an attachment end at once.
 *
 * Safe: endpoints were rebuilt or shards cut; nothing touches our memory. Unsafe: the peer may still write, so pieces
 * enter quarantine; conn/serve.c fences first if a caller's memory is involved. Limbo: an old endpoint is still
 * closing. Pieces enter quarantine, and requests into callers' memory end after the closing (fence.c). */
#include "kvclient/request/admission.h"
#include "kvclient/request/attachment.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/lanes.h"
#include "kvclient/request/life.h"
#include "kvclient/request/pack.h"
#include "kvclient/request/private.h"
#include "kvclient/request/pull.h"
#include "kvclient/request/fence.h"

bool kc_attachment_unsafe(const struct kc_attachment *s, uint64_t *out_bytes, bool *out_caller)
{
	bool any = false;
	*out_bytes = 0;
	*out_caller = false;
	for (uint32_t i = 0; i < s->num_links; i++) {
		KV_LIST_EACH (n, &s->link[i].sent) {
			const struct kc_req *r = KV_LIST_ENTRY(n, struct kc_req, node);
			if (!kc_req_unsafe(r))
				continue;
			any = true;
			*out_bytes += r->state == KC_REQ_ORPHAN ? 0 : r->mem.piece.len_bytes;
			*out_caller |= r->mem.callers;
		}
	}
	return any;
}

enum fate { SAFE, UNSAFE, LIMBO };

/* Its call waits for the closing. The reference keeps the request's link. */
static void limbo_enter(struct kvc_client *c, struct kc_req *r)
{
	kc_req_advance(r, KC_REQ_LIMBO);
	r->link->attachment->refs++;
	kv_list_add_tail(&c->requests->unsafe.limbo, &r->node);
}

void kc_limbo_end(struct kvc_client *c, struct kc_req *r)
{
	struct kc_attachment *s = r->link->attachment;
	kc_req_end(c, r, -KV_ERESET);
	kc_attachment_unref(s);
}

static void req_fail(struct kvc_client *c, struct kc_req *r, int status, enum fate fate)
{
	bool limbo = fate == LIMBO && kc_req_unsafe(r) && r->mem.callers && r->state != KC_REQ_ORPHAN;
	if (r->state == KC_REQ_ORPHAN)
		c->requests->unsafe.orphan_bytes -= r->mem.piece.len_bytes;
	if (kc_req_unsafe(r) && fate != SAFE)
		kc_quarantine_take(c, r);
	kc_pull_leave(c, r);
	kc_push_leave(c, r);
	kc_pack_lost(r);
	r->id = r->cancel_id = 0;
	r->said = KC_SAID_REPLY;
	if (r->session)
		kc_lane_credit(r);
	if (limbo)
		limbo_enter(c, r);
	else
		kc_req_end(c, r, status);
}

static void lane_fail(struct kvc_client *c, struct kc_lane *lane, int status)
{
	while (!kv_list_empty(&lane->queue))
		kc_req_end(c, KV_LIST_ENTRY(lane->queue.next, struct kc_req, node), status);
	kv_list_del(&lane->turn);
}

static void lanes_fail(struct kc_attachment *s, int status)
{
	struct kvc_client *c = s->node->client;
	KV_LIST_EACH (e, &c->sessions) {
		struct kc_session_at *at = kc_session_part(KV_LIST_ENTRY(e, struct kvc_session, node), s->node->index);
		for (unsigned i = 0; at && at->lane && i < s->shards; i++)
			lane_fail(c, &at->lane[i], status);
	}
}

static void attachment_end(struct kc_attachment *s, int status, enum fate fate)
{
	struct kvc_client *c = s->node->client;
	struct kv_list *n;
	s->open = false;
	for (uint32_t i = 0; i < s->num_links; i++) {
		struct kc_link *l = &s->link[i];
		kv_list_del(&l->dirty_node);
		l->nonce = 0;
		l->prove_due = false;
		kc_release_end(l);
		while ((n = kv_list_pop(&l->cancels)))
			;
		while ((n = kv_list_pop(&l->parked)) || (n = kv_list_pop(&l->queue)))
			req_fail(c, KV_LIST_ENTRY(n, struct kc_req, node), status, SAFE);
		while ((n = kv_list_pop(&l->sent)))
			req_fail(c, KV_LIST_ENTRY(n, struct kc_req, node), status, fate);
		memset(l->map.entry, 0, ((size_t)l->map.mask + 1) * sizeof(*l->map.entry));
		l->map.used = 0;
	}
	lanes_fail(s, status);
	kc_client_quarantine_count(c);
	kc_room_feed(c);
}

void kc_attachment_fail(struct kc_attachment *s, int status, bool safe)
{
	attachment_end(s, status, safe ? SAFE : UNSAFE);
}

void kc_attachment_limbo(struct kc_attachment *s, int status)
{
	attachment_end(s, status, LIMBO);
}
