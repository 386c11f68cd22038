/* SPDX-License-Identifier: Apache-2.0 */
/* release.c -- RELEASE: return leases to servers, with the next frame to the shard, or after a millisecond in a frame
 * of its own, without a reply. A lease without room expires. */
#include "kvclient/request/link.h"
#include "kvclient/request/private.h"

#define RELEASE_NS 1000000ull /* longest wait for a frame */

void kc_release_add(struct kc_link *l, uint64_t lease)
{
	struct kvc_client *c = kc_link_client(l);
	if (KV_UNLIKELY(l->attachment->local != NULL)) {
		local_release(l->attachment->local->shard[l->shard].channel, lease);
		return;
	}
	if (!l->attachment->open || l->releases.count == KC_RELEASES)
		return;
	wire_release_put(l->releases.lease, l->releases.count++, lease);
	if (l->releases.count == KC_RELEASES) {
		l->releases.due = true;
		kc_link_dirty(l);
		return;
	}
	if (kv_list_empty(&l->releases.node))
		kv_list_add_tail(&c->requests->out.releasing, &l->releases.node);
	if (!loop_timer_armed(&c->requests->out.release_timer))
		loop_timer_arm(c->loop, &c->requests->out.release_timer, loop_turn_now(c->loop) + RELEASE_NS);
}

void kc_release_fire(struct loop_timer *t)
{
	struct kc_requests *all = KV_CONTAINER(t, struct kc_requests, out.release_timer);
	struct kv_list *n;
	while ((n = kv_list_pop(&all->out.releasing))) {
		struct kc_link *l = KV_LIST_ENTRY(n, struct kc_link, releases.node);
		l->releases.due = true;
		kc_link_dirty(l);
	}
}

void kc_release_write(struct kc_link *l, struct wire_writer *w)
{
	struct wire_request q = {
		.type = WIRE_RELEASE, .time_left_us = UINT32_MAX, .release = {l->releases.count, l->releases.lease}};
	if (l->releases.count > 0)
		(void)wire_request_add(w, &q); /* it fits: only a proof precedes it */
	kc_release_end(l);
}

void kc_release_end(struct kc_link *l)
{
	kv_list_del(&l->releases.node);
	l->releases.count = 0;
	l->releases.due = false;
}
