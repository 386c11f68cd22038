/* SPDX-License-Identifier: Apache-2.0 */
/* members.c -- keys and values of a simulated cluster, and the source that tells its servers their views. */
#include "tests/sim/members.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/call/keyed.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/call.h"
#include "kvserver/server/server.h"

struct members members;

struct kvc_key members_key_of(const uint32_t *i)
{
	return (struct kvc_key){i, sizeof(*i)};
}

uint32_t members_len_of(uint32_t i)
{
	static const uint32_t len[] = {100, 3000, 60000, MEMBERS_LONG};
	return len[i % 4];
}

void members_value_fill(uint8_t *at, uint32_t i)
{
	memset(at, (int)(i * 7 + 1), members_len_of(i));
}

static bool value_right(const uint8_t *at, uint32_t i, int64_t len)
{
	return len == members_len_of(i) && at[0] == (uint8_t)(i * 7 + 1) && memcmp(at, at + 1, (size_t)len - 1) == 0;
}

void members_get_check(uint32_t i, const uint8_t *at, int64_t rc)
{
	if (rc == -KV_ECLOSED && members.stop)
		return;
	members.hits += rc > 0;
	members.misses += rc == -KV_ENOTFOUND;
	if (rc < 0 && rc != -KV_ENOTFOUND)
		world_wrong(&members.world, "view: a GET returned %s", kv_errname((int)rc));
	else if (rc >= 0 && !value_right(at, i, rc))
		world_wrong(&members.world, "view: a GET returned wrong bytes");
}

void members_put_check(int64_t rc)
{
	if (rc != 0 && !(rc == -KV_ECLOSED && members.stop))
		world_wrong(&members.world, "view: a PUT returned %s", kv_errname((int)rc));
}

void members_put_all(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(MEMBERS_LONG);
	(void)arg;
	for (uint32_t i = 0; i < MEMBERS_KEYS; i++) {
		members_value_fill(at, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), NULL));
	}
	free(at);
}

void members_get_all(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(MEMBERS_LONG);
	(void)arg;
	for (uint32_t i = 0; i < MEMBERS_KEYS; i++) {
		int64_t rc = kvc_get_await(c, members_key_of(&i), at, MEMBERS_LONG, NULL);
		members_get_check(i, at, rc);
		if (rc == -KV_ENOTFOUND)
			world_wrong(&members.world, "view: a value that was put is not there");
	}
	free(at);
}

/* The same by batches and look-ups. */
void members_find_all(struct kvc_client *c, void *arg)
{
	struct kvc_item item[MEMBERS_KEYS] = {0};
	struct kvc_key keys[MEMBERS_KEYS];
	uint32_t key[MEMBERS_KEYS];
	unsigned prefix = 0;
	int rc;
	(void)arg;
	for (uint32_t i = 0; i < MEMBERS_KEYS; i++) {
		key[i] = i;
		keys[i] = members_key_of(&key[i]);
		item[i] = (struct kvc_item){.key = keys[i], .data = malloc(MEMBERS_LONG), .len = MEMBERS_LONG};
	}
	rc = kvc_exists_await(c, keys, MEMBERS_KEYS, NULL, &prefix, NULL);
	if (rc != 0 || prefix != MEMBERS_KEYS)
		world_wrong(&members.world, "view: a look-up returned %s and a prefix of %u", kv_errname(rc), prefix);
	kvc_get_batch_await(c, item, MEMBERS_KEYS, NULL);
	for (uint32_t i = 0; i < MEMBERS_KEYS; i++) {
		members_get_check(i, item[i].data, item[i].result);
		if (item[i].result == -KV_ENOTFOUND)
			world_wrong(&members.world, "view: a value that was put is not in a batch");
		free(item[i].data);
	}
}

void members_find_none(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG), found[MEMBERS_KEYS];
	struct kvc_key keys[MEMBERS_KEYS];
	uint32_t key[MEMBERS_KEYS];
	(void)arg;
	for (uint32_t i = 0; i < MEMBERS_KEYS; i++) {
		key[i] = i;
		keys[i] = members_key_of(&key[i]);
		if (kvc_get_await(c, keys[i], to, MEMBERS_LONG, NULL) >= 0)
			world_wrong(&members.world, "deletes: key %u is found", i);
	}
	if (kvc_exists_await(c, keys, MEMBERS_KEYS, found, NULL, NULL) != 0 || memchr(found, 1, MEMBERS_KEYS))
		world_wrong(&members.world, "deletes: a look-up finds a key");
	free(to);
}

void members_delete_all(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < MEMBERS_KEYS; i++) {
		int rc = kvc_delete_await(c, members_key_of(&i), NULL);
		if (rc != 0 && rc != -KV_ENOTFOUND)
			world_wrong(&members.world, "a DELETE returned %s", kv_errname(rc));
	}
}

/* ---- telling ---- */

static void where_make(unsigned server, char out[KV_WHERE_MAX])
{
	const char *text = members.where[server] ? members.where[server] : "127.0.0.1:%u", *port = strstr(text, "%u");
	if (port)
		snprintf(out, KV_WHERE_MAX, "%.*s%u%s", (int)(port - text), text, members.world.server[server].port,
			 port + 2);
	else
		snprintf(out, KV_WHERE_MAX, "%s", text);
}

void members_view(struct kv_view *v, uint64_t epoch)
{
	*v = (struct kv_view){.source = 1 + members.source, .epoch = epoch};
	for (unsigned i = 0; i < members.world.num_servers; i++) {
		struct kv_member m = {.weight = members.weight[i] ? members.weight[i] : 1 + i % 3,
				      .state = members.state[i]};
		if (!members.state[i])
			continue;
		snprintf(m.node_id, sizeof(m.node_id), "node-%u", members.world.server[i].as);
		where_make(i, m.address);
		if (members.incarnations && members.world.server[i].server)
			m.incarnation = members.world.server[i].server->incarnation;
		if (kv_view_add(v, &m) < 0)
			world_wrong(&members.world, "view: the test makes a wrong view");
	}
}

void members_tell_one(unsigned server, uint64_t epoch)
{
	struct kv_view v;
	members_view(&v, epoch);
	assert_int_equal(kvs_server_view_set(members.world.server[server].server, &v), 0);
	kv_view_fini(&v);
}

void members_tell(uint64_t epoch)
{
	struct kv_view v;
	members_view(&v, epoch);
	for (unsigned i = 0; i < members.world.num_servers; i++)
		if (members.world.server[i].server && !members.world.server[i].crashed &&
		    kvs_server_state(members.world.server[i].server, NULL) == KVS_RUNNING)
			assert_int_equal(kvs_server_view_set(members.world.server[i].server, &v), 0);
	kv_view_fini(&v);
}

void members_change(unsigned server, enum kv_member_state state)
{
	members.state[server] = state;
	members_tell(++members.epoch);
}

void members_settle(void)
{
	world_sleep(&members.world, 2 * SECOND);
}

const char *members_owner_name(struct kvc_client *c, uint32_t i)
{
	return route_first(c, members_key_of(&i))->member_id;
}

void members_all_up(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		members.state[i] = KV_MEMBER_UP;
	members_tell(++members.epoch);
	members_settle();
}

unsigned members_holders_await(struct kvc_client *c, uint32_t i, uint64_t *left_ms)
{
	unsigned at = 0;
	for (unsigned k = 0; k < c->num_nodes; k++) {
		struct kc_trace t;
		uint64_t left = 0;
		if (c->node[k].state != KC_NODE_UP)
			continue;
		kc_trace_begin(&t, c, KVC_OP_TOUCH, NULL, NULL);
		if (kc_left_await(&c->node[k], members_key_of(&i), world_now(&members.world) + 5 * SECOND, &left, &t) ==
		    0)
			at |= 1u << k;
		kc_trace_end(&t, c, 0);
		if (left_ms)
			left_ms[k] = left;
	}
	return at;
}
