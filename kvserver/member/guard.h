/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h -- how much of a source's answer is believed. Plain data, no I/O: membership.c asks and pings. */
#ifndef KVRAIL_KVSERVER_MEMBER_GUARD_H
#define KVRAIL_KVSERVER_MEMBER_GUARD_H

#include "kvserver/member/member.h"

#define GUARD_WINDOW_NS 10000000000ull

/* view: in force. doubted: members not named by the source, which stay while they answer. gone: removed by the source
 * since window_ns. A zeroed guard has no members. */
struct guard {
	struct kv_view view, doubted, gone;
	uint64_t window_ns;
};

/* guard_hear -- the source names these members. If it names none, or if more than half of the members would be removed
 * within GUARD_WINDOW_NS, the unnamed ones are doubted and stay; a doubted member named again is doubted no longer.
 * Else unnamed members are removed, except the doubted. *out_doubts: how many are doubted newly. Returns 1 the view has
 * changed, 0 it has not, or -KV_ENOMEM (no change). */
int guard_hear(struct guard *g, const struct kv_view *named, uint64_t now_ns, unsigned *out_doubts);

/* guard_silent -- these did not answer a ping: remove the doubted among them. Returns how many. */
unsigned guard_silent(struct guard *g, const struct kv_view *silent);

void guard_fini(struct guard *g);

#endif
