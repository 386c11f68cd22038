/* SPDX-License-Identifier: Apache-2.0 */
/* gone.h -- members that have left the cluster, with what they knew of deletions. Pure; one thread. */
#ifndef KVRAIL_KVSERVER_CONN_GONE_H
#define KVRAIL_KVSERVER_CONN_GONE_H

#include "base/base.h"
#include "store/store.h"

/* Names are those of tier_member_name. */
struct gone_row {
	uint64_t name, left_ns;
};

struct gone {
	struct gone_row row[KV_VIEW_MAX];
	uint64_t member[KV_VIEW_MAX]; /* of the last view, without this server */
	uint32_t rows, members;
	uint64_t lost_ns; /* the last of those who will not come back left then; 0: none */
};

/* gone_former -- the members that a former process of this server knew, itself among them. Until the first view lacks
 * them nobody knows when they left: KV_NEVER. gone_view -- another view. gone_forget -- who left long ago will not come
 * back. gone_last_ns -- when the last one left that may come back; 0: none. gone_names -- all names for the next
 * process; returns how many, at most 2 * KV_VIEW_MAX. */
void gone_former(struct gone *g, const uint64_t *names, uint32_t count, const char *self);
void gone_view(struct gone *g, const struct kv_view *view, const char *self, uint64_t now_ns);
void gone_forget(struct gone *g, uint64_t now_ns);
uint64_t gone_last_ns(const struct gone *g);
uint32_t gone_names(const struct gone *g, uint64_t *out);

#endif
