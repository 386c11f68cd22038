/* SPDX-License-Identifier: Apache-2.0 */
/* members.h -- a simulated cluster whose members change: what its values are, and its views. */
#ifndef KVRAIL_TESTS_SIM_MEMBERS_H
#define KVRAIL_TESTS_SIM_MEMBERS_H

#include "tests/sim/world.h"

enum { MEMBERS_KEYS = 48, MEMBERS_LONG = 400000 };

extern struct members {
	struct world world;
	bool stop, closed;
	uint64_t epoch, calls, hits, misses;
	enum kv_member_state state[WORLD_SERVERS]; /* by number of the server; 0: no member */
	unsigned weight[WORLD_SERVERS];            /* the same; 0: 1 to 3, by number */
	/* The addresses that views have of a server; NULL: its own. "%u" stands for its port. */
	const char *where[WORLD_SERVERS];
	bool incarnations; /* views name them */
	uint64_t source;   /* another number for views of another source */
	uint64_t pause_ns; /* the longest pause of a churn_user between two calls; 0: 20 ms */
} members;

/* Key i of MEMBERS_KEYS, and its value, of MEMBERS_LONG bytes at most. */
struct kvc_key members_key_of(const uint32_t *i);
uint32_t members_len_of(uint32_t i);
void members_value_fill(uint8_t *at, uint32_t i);

/* members_get_check, members_put_check -- how a call ended: counted, and the world is wrong if it must not. */
void members_get_check(uint32_t i, const uint8_t *at, int64_t rc);
void members_put_check(int64_t rc);

/* Jobs for world_do: PUT all keys; GET all keys, which must be there; the same by batches and look-ups; DELETE all
 * keys, which may be missing; find none by GETs and a look-up. */
void members_put_all(struct kvc_client *c, void *arg);
void members_get_all(struct kvc_client *c, void *arg);
void members_find_all(struct kvc_client *c, void *arg);
void members_delete_all(struct kvc_client *c, void *arg);
void members_find_none(struct kvc_client *c, void *arg);

/* members_view -- the view of members.state; kv_view_fini. members_tell -- all servers that run have the view of
 * members.state; members_tell_one -- one has. members_change -- one state changes, with a new epoch. members_all_up --
 * the first n are members. members_settle -- 2 s pass. */
void members_view(struct kv_view *v, uint64_t epoch);
void members_tell(uint64_t epoch);
void members_tell_one(unsigned server, uint64_t epoch);
void members_change(unsigned server, enum kv_member_state state);
void members_all_up(unsigned n);
void members_settle(void);

/* members_holders_await -- a bit for each node of the client that has key i. left_ms: how long each has it still; NULL:
 * not asked. In a worker. */
unsigned members_holders_await(struct kvc_client *c, uint32_t i, uint64_t *left_ms);

/* members_owner_name -- the node id of the server that this client asks for key i. */
const char *members_owner_name(struct kvc_client *c, uint32_t i);

#endif
