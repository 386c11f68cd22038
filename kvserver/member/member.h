/* SPDX-License-Identifier: Apache-2.0 */
/* member.h -- the sources' functions on members and views, besides those of base/view.h. Plain data, no I/O. */
#ifndef KVRAIL_KVSERVER_MEMBER_MEMBER_H
#define KVRAIL_KVSERVER_MEMBER_MEMBER_H

#include "base/base.h"

/* Of a source (source.h). */
enum source_state { SOURCE_STARTING, SOURCE_OK, SOURCE_UNREACHABLE };

const char *source_state_name(enum source_state state);

/* member_state_parse -- false: no such state. */
bool member_state_parse(const char *name, enum kv_member_state *out);

/* member_parse -- read "NAME=HOST:PORT+HOST:PORT;weight=N;zone=Z;state=draining"; all but HOST:PORT is optional. 0 or
 * -KV_EINVAL with *err. */
int member_parse(const char *text, struct kv_member *out, struct kv_error *err);

/* members_put -- as kv_view_add, but replaces a member with that id. */
int members_put(struct kv_view *view, const struct kv_member *m);
void members_remove(struct kv_view *view, const char *node_id);
/* members_by_address -- the first member with one of these addresses, or NULL; valid until the view changes. */
const struct kv_member *members_by_address(const struct kv_view *view, const char *address);
/* members_copy -- *out becomes a copy; its former content is freed. 0, or -KV_ENOMEM with *out unchanged. */
int members_copy(const struct kv_view *from, struct kv_view *out);
/* members_lost -- the number of members of `before` missing in `after`. */
unsigned members_lost(const struct kv_view *before, const struct kv_view *after);

/* members_source -- the number of a source (kv_view.source): epochs of sources with equal cluster, kind and name are
 * comparable. cluster: of --cluster, or NULL. */
uint64_t members_source(const char *cluster, const char *kind, const char *name);

/* No source reaches it: times in ms, revisions of etcd and Kubernetes. Higher ones are refused or cut, so that there is
 * always a next one. */
#define MEMBERS_EPOCH_MAX (UINT64_MAX >> 1)

/* members_now_ms -- the time of day in ms: the epoch of sources without a number of their own. */
uint64_t members_now_ms(void);

#endif
