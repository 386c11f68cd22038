/* SPDX-License-Identifier: Apache-2.0 */
/* view.h -- the view of a cluster: a numbered list of its members. Servers make it of what a source tells them and give
 * it to clients (wire/wire.h, VIEW). Plain data.
 *
 * Members are sorted by node id, each id once. Views are the same when their members are; the epoch tells which of two
 * that differ is newer. It can only be compared between views of one source: a revision of etcd and a time in
 * milliseconds have nothing to say about each other. */
#ifndef KVRAIL_BASE_VIEW_H
#define KVRAIL_BASE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/limits.h"

enum {
	KV_VIEW_MAX = 1024, /* members of a view */
	KV_WEIGHT_DEFAULT = 1,
	KV_WEIGHT_MAX = 1000,
	KV_MEMBER_ADDRESS = KV_WHERE_MAX /* bytes of all addresses of a member, with the final 0 */
};

/* joining: takes PUTs, and others are asked on its misses. draining: takes no PUTs, and is still asked. These are the
 * numbers on the wire. */
enum kv_member_state { KV_MEMBER_JOINING = 1, KV_MEMBER_UP = 2, KV_MEMBER_DRAINING = 3 };

struct kv_member {
	char node_id[KV_NAME_MAX];       /* keys are placed by it, and by nothing else */
	char address[KV_MEMBER_ADDRESS]; /* "host:port" of its control connections; several: kv_where_parse */
	char zone[KV_NAME_MAX];          /* "": unknown */
	uint64_t incarnation;            /* another one each time the server starts; 0: unknown */
	uint32_t weight;                 /* 1 to KV_WEIGHT_MAX */
	enum kv_member_state state;
};

/* A digest of a view: 128 bits of SHA-256. A member chooses fields of its own, so it can look for two views that
 * share a digest: with 64 bits that were the work of an hour, with 128 it is 2^64 hashes. */
__extension__ typedef unsigned __int128 kv_u128;

struct kv_view {
	uint64_t source; /* epochs with the same number can be compared; 0 is a source, too */
	uint64_t epoch;  /* 0: there is no view */
	struct kv_member *member;
	uint32_t count, room;
};

/* kv_member_state_name -- "joining", "up", "draining"; "?" for any other number. */
const char *kv_member_state_name(enum kv_member_state state);

/* kv_member_check -- whether this may be a member: its id (kv_node_id_check), its addresses (kv_where_parse), a zone of
 * printable characters, a weight and a state within their limits. 0, or -KV_EINVAL with *err. */
int kv_member_check(const struct kv_member *m, struct kv_error *err);

/* kv_view_add -- put a copy of m in its place. A zeroed view is empty. 0; -KV_EINVAL (kv_member_check); -KV_EEXIST, one
 * of that id is there; -KV_ELIMIT, the view has KV_VIEW_MAX; -KV_ENOMEM. An error leaves the view as it was. */
int kv_view_add(struct kv_view *v, const struct kv_member *m);

/* kv_view_find -- the member of that id, or NULL. Valid until the view changes. */
const struct kv_member *kv_view_find(const struct kv_view *v, const char *node_id);

/* kv_view_copy -- *out becomes a copy; what it held before is not freed. 0, or -KV_ENOMEM, and *out is zeroed.
 * kv_view_fini -- free the members; the view is empty and has no epoch then. */
int kv_view_copy(const struct kv_view *v, struct kv_view *out);
void kv_view_fini(struct kv_view *v);

/* kv_view_same -- whether the members are equal in every field. kv_view_digest -- a digest of all of that, the
 * same on every machine; 0 if the view is empty, or if OpenSSL has no memory. It takes 1 us a member. */
bool kv_view_same(const struct kv_view *a, const struct kv_view *b);
kv_u128 kv_view_digest(const struct kv_view *v);

#endif
