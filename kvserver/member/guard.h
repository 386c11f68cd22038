/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h -- what of a source's answer is believed. Plain data, no I/O: membership.c asks and pings. */
#ifndef KVRAIL_KVSERVER_MEMBER_GUARD_H
#define KVRAIL_KVSERVER_MEMBER_GUARD_H

#include "kvserver/member/member.h"

#define GUARD_WINDOW_NS 10000000000ull

/* What is in force, who is doubted: members that the source does not name, and that stay while they answer; and who has
 * gone on the source's word since window_ns. A zeroed guard knows nobody. */
struct guard {
	struct kv_view view, doubted, gone;
	uint64_t window_ns;
};

/* guard_hear -- the source names these members. If it names none, or if more than half of the members would have gone
 * within GUARD_WINDOW_NS, those that it does not name are doubted and stay; a doubted member that it names again is
 * doubted no longer. Else whom it does not name goes, the doubted excepted. *out_doubts: how many are doubted newly.
 * Returns 1 the view has changed, 0 it has not, or -KV_ENOMEM (nothing is changed). */
int guard_hear(struct guard *g, const struct kv_view *named, uint64_t now_ns, unsigned *out_doubts);

/* guard_silent -- these did not answer a ping: the doubted among them go. Returns how many. */
unsigned guard_silent(struct guard *g, const struct kv_view *silent);

void guard_fini(struct guard *g);

#endif
