/* SPDX-License-Identifier: Apache-2.0 */
/* release.c -- RELEASE: return leases to servers, with the next frame to the shard, or after a millisecond in a frame
 * of its own, without a reply. A lease without room expires. */
#include "kvclient/request/release.h"

#include "kvclient/request/link.h"
#include "kvclient/request/private.h"

#define RELEASE_NS 1000000ull /* longest wait for a frame */

void kvc_release_add(struct kvc_link *l, uint64_t lease)
{
	struct kvc_client *c = kvc_link_client(l);
	if (!l->attachment->open || l->releases == KVC_RELEASES)
		return;
	wire_release_put(l->release, l->releases++, lease);
	if (l->releases == KVC_RELEASES) {
		l->release_due = true;
		kvc_link_dirty(l);
		return;
	}
	if (kv_list_empty(&l->release_node))
		kv_list_add_tail(&c->requests->out.releasing, &l->release_node);
	if (!loop_timer_armed(&c->requests->out.release_timer))
		loop_timer_arm(c->loop, &c->requests->out.release_timer, loop_turn_now(c->loop) + RELEASE_NS);
}

void kvc_release_fire(struct loop_timer *t)
{
	struct kvc_requests *all = KV_CONTAINER(t, struct kvc_requests, out.release_timer);
	struct kv_list *n;
	while ((n = kv_list_pop(&all->out.releasing))) {
		struct kvc_link *l = KV_LIST_ENTRY(n, struct kvc_link, release_node);
		l->release_due = true;
		kvc_link_dirty(l);
	}
}

void kvc_release_write(struct kvc_link *l, struct wire_writer *w)
{
	struct wire_request q = {
		.type = WIRE_RELEASE, .time_left_us = UINT32_MAX, .release = {l->releases, l->release}};
	if (l->releases > 0)
		(void)wire_request_add(w, &q); /* it fits: only a proof precedes it */
	kvc_release_end(l);
}

void kvc_release_end(struct kvc_link *l)
{
	kv_list_del(&l->release_node);
	l->releases = 0;
	l->release_due = false;
}
