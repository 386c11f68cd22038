/* SPDX-License-Identifier: Apache-2.0 */
/* member.h -- a member of the cluster, and a list of members: sorted by id, each id once. Plain data, no I/O. */
#ifndef KVRAIL_KVSERVER_MEMBER_MEMBER_H
#define KVRAIL_KVSERVER_MEMBER_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

enum { MEMBERS_MAX = 4096, MEMBER_WEIGHT_MAX = 1000, MEMBER_WEIGHT_DEFAULT = 1 };

/* joining: takes PUTs, others are asked on its misses. draining: takes no PUTs, is still asked. */
enum member_state { MEMBER_JOINING, MEMBER_UP, MEMBER_DRAINING };

struct member {
	char id[KV_NAME_MAX];           /* keys are placed by it */
	char address[KV_HOST_MAX + 16]; /* "host:port", of control connections */
	char zone[KV_NAME_MAX];         /* "": unknown */
	uint64_t incarnation;           /* another one each time the server starts; 0: unknown */
	uint32_t weight;
	enum member_state state;
};

struct members {
	struct member *item;
	unsigned count, room;
};

/* Of a source (source.h). */
enum source_state { SOURCE_STARTING, SOURCE_OK, SOURCE_UNREACHABLE };

const char *source_state_name(enum source_state state);
const char *member_state_name(enum member_state state);
/* member_state_parse -- false: there is no such state. */
bool member_state_parse(const char *name, enum member_state *out);

/* member_parse -- read "NAME=HOST:PORT;weight=N;zone=Z;state=draining"; all but HOST:PORT may be left out. 0 or
 * -KV_EINVAL with *err. */
int member_parse(const char *text, struct member *out, struct kv_error *err);

/* members_add -- a copy of m into its place. 0; -KV_EEXIST one of that id is there; -KV_ELIMIT; -KV_ENOMEM. */
int members_add(struct members *list, const struct member *m);
/* members_put -- the same, and one of that id is replaced. */
int members_put(struct members *list, const struct member *m);
void members_remove(struct members *list, const char *id);
/* members_find -- the member of that id, or NULL; valid until the list changes. */
struct member *members_find(const struct members *list, const char *id);
/* members_by_address -- the first member with that address, or NULL. */
struct member *members_by_address(const struct members *list, const char *address);
/* members_copy -- 0 or -KV_ENOMEM; then *out is as it was. */
int members_copy(const struct members *from, struct members *out);
bool members_equal(const struct members *a, const struct members *b);
/* members_lost -- how many of `before` are not in `after`. */
unsigned members_lost(const struct members *before, const struct members *after);
void members_fini(struct members *list);

#endif
