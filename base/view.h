/* SPDX-License-Identifier: Apache-2.0 */
/* view.h -- the view of a cluster: a numbered list of members. Servers make it from a source and send it to clients
 * (wire/wire.h, VIEW). Plain data.
 *
 * Members are sorted by node id, each once. Views are the same when their members are; of two others the epoch tells
 * the newer one, if both have the same source. */
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
	KV_MEMBER_ADDRESS = KV_WHERE_MAX /* of all addresses of a member, with the final 0 */
};

/* joining: takes PUTs; its misses are retried elsewhere. draining: takes no PUTs, is still read. Numbers on the wire.
 */
enum kv_member_state { KV_MEMBER_JOINING = 1, KV_MEMBER_UP = 2, KV_MEMBER_DRAINING = 3 };

struct kv_member {
	char node_id[KV_NAME_MAX];       /* places keys, alone */
	char address[KV_MEMBER_ADDRESS]; /* "host:port" of control connections; several: kv_where_parse */
	char zone[KV_NAME_MAX];          /* "": unknown */
	uint64_t incarnation;            /* new at each start; 0: unknown */
	uint32_t weight;                 /* 1 to KV_WEIGHT_MAX */
	enum kv_member_state state;
};

/* A digest of a view: 128 bits of SHA-256. */
__extension__ typedef unsigned __int128 kv_u128;

struct kv_view {
	uint64_t source; /* epochs of one number compare; 0 is a source */
	uint64_t epoch;  /* 0: no view */
	struct kv_member *member;
	uint32_t count, room;
};

/* kv_member_state_name -- "joining", "up", "draining", or "?". */
const char *kv_member_state_name(enum kv_member_state state);

/* kv_member_check -- id (kv_node_id_check), addresses (kv_where_parse), printable zone, weight and state within limits.
 * 0, or -KV_EINVAL with *err. */
int kv_member_check(const struct kv_member *m, struct kv_error *err);

/* kv_view_add -- insert a copy of m; a zeroed view is empty. 0; -KV_EINVAL (kv_member_check); -KV_EEXIST (the id);
 * -KV_ELIMIT (KV_VIEW_MAX); -KV_ENOMEM. Errors change nothing. */
int kv_view_add(struct kv_view *v, const struct kv_member *m);

/* kv_view_find -- the member with that id, or NULL, until the view changes. */
const struct kv_member *kv_view_find(const struct kv_view *v, const char *node_id);

/* kv_view_copy -- *out becomes a copy, without freeing old members. 0, or -KV_ENOMEM with *out zeroed. kv_view_fini --
 * free the members; then the view is empty, without epoch. */
int kv_view_copy(const struct kv_view *v, struct kv_view *out);
void kv_view_fini(struct kv_view *v);

/* kv_view_same -- equal members in all fields. kv_view_digest -- their digest, the same on every machine; 0: an empty
 * view, or no memory in OpenSSL. 1 us a member. */
bool kv_view_same(const struct kv_view *a, const struct kv_view *b);
kv_u128 kv_view_digest(const struct kv_view *v);

#endif
