/* SPDX-License-Identifier: Apache-2.0 */
/* member.h -- what sources do with members and views (base/view.h) beside what base has for them. Plain data, no I/O.
 */
#ifndef KVRAIL_KVSERVER_MEMBER_MEMBER_H
#define KVRAIL_KVSERVER_MEMBER_MEMBER_H

#include "base/base.h"

/* Of a source (source.h). */
enum source_state { SOURCE_STARTING, SOURCE_OK, SOURCE_UNREACHABLE };

const char *source_state_name(enum source_state state);

/* member_state_parse -- false: there is no such state. */
bool member_state_parse(const char *name, enum kv_member_state *out);

/* member_parse -- read "NAME=HOST:PORT+HOST:PORT;weight=N;zone=Z;state=draining"; all but HOST:PORT may be left out. 0
 * or -KV_EINVAL with *err. */
int member_parse(const char *text, struct kv_member *out, struct kv_error *err);

/* members_put -- as kv_view_add, and a member of that id is replaced. */
int members_put(struct kv_view *view, const struct kv_member *m);
void members_remove(struct kv_view *view, const char *node_id);
/* members_by_address -- the first member that has one of these addresses, or NULL; valid until the view changes. */
const struct kv_member *members_by_address(const struct kv_view *view, const char *address);
/* members_copy -- *out becomes a copy, and what it held is freed. 0, or -KV_ENOMEM and *out is as it was. */
int members_copy(const struct kv_view *from, struct kv_view *out);
/* members_lost -- how many of `before` are not in `after`. */
unsigned members_lost(const struct kv_view *before, const struct kv_view *after);

/* members_source -- the number of a source (kv_view.source): epochs of sources with the same cluster, kind and name can
 * be compared. cluster: the name of --cluster, or NULL. */
uint64_t members_source(const char *cluster, const char *kind, const char *name);

/* No source comes near: times in ms, revisions of etcd and of Kubernetes. A higher one is refused or cut, so that there
 * is always a next one. */
#define MEMBERS_EPOCH_MAX (UINT64_MAX >> 1)

/* members_now_ms -- the time of day in ms, which is the epoch where a source has no number of its own. */
uint64_t members_now_ms(void);

#endif
