/* SPDX-License-Identifier: Apache-2.0 */
/* test_tenant_limits.c -- a shard keeps the limits of a tenant: memory, pins, reading; and another table changes them.
 */
#include "kvserver/shard/tenants.h"
#include "rig.h"

enum { A = 1 << SESSION_INDEX_BITS, MIB = 1 << 20, WHOLE = WIRE_PUT_FIRST | WIRE_PUT_LAST };

static struct tenant_orders orders = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void table(const char *limits)
{
	char text[512];
	struct tenants *t;
	struct kv_error err;
	int len = snprintf(
		text, sizeof(text),
		"{\"tenants\": [{\"name\": \"t\", \"identities\": [\"i\"], \"namespaces\": {\"*\": \"rwdpc\"}%s}]}",
		limits);
	if (tenants_parse(text, (size_t)len, "text", &t, &err))
		fail_msg("%s", err.text);
	tenants_order(&orders, t);
	tenants_unref(&t);
}

static const struct wire_reply *ask(const struct wire_request *q)
{
	struct wire_frame frame = rig_frame();
	struct wire_request records[] = {{.type = WIRE_SESSION, .session.number = A}, *q};
	rig_send_records(&frame, records, 2);
	rig_until(rig_find(q->id));
	return rig_find(q->id);
}

static int32_t put(const char *key)
{
	struct wire_request q;
	rig_fill(rig_memory(0), MIB, 1);
	q = rig_put(key, MIB, 0, MIB, kv_hash_block(rig_memory(0), MIB), WHOLE);
	q.put.space = rig.attachment->sessions.at[0]->space->generation;
	return ask(&q)->status;
}

static int32_t status(enum wire_type type, const char *key)
{
	struct wire_request q = type == WIRE_GET ? rig_get(key, 0, MIB) : rig_request(type, key);
	return ask(&q)->status;
}

static const struct tenant *tenant(void)
{
	return tenant_find(&rig.shard->store, "t");
}

static int open_session(void **state)
{
	struct session *o;
	struct grant g = rig_grant;
	rig_open(state);
	rig.shard->opt.tenants = &orders;
	snprintf(g.tenant, sizeof(g.tenant), "t");
	snprintf(g.space, sizeof(g.space), "limits");
	table("");
	assert_int_equal(session_open(rig.attachment, A, &g, &o), 0);
	assert_ptr_equal(o->tenant, tenant());
	return 0;
}

static void take(const char *limits)
{
	uint64_t number = rig.shard->tenants_number;
	table(limits);
	rig_until(rig.shard->tenants_number > number); /* at a tick */
}

static void memory_has_a_cap_that_another_table_changes(void **state)
{
	char key[8];
	(void)state;
	take(", \"memory_cap\": \"3MiB\"");
	for (unsigned i = 0; i < 6; i++) {
		snprintf(key, sizeof(key), "m%u", i);
		assert_int_equal(put(key), WIRE_OK);
		assert_true(tenant()->bytes <= 3 * MIB);
	}
	assert_int_equal(tenant()->evicted, 3);
	take(", \"memory_cap\": \"1MiB\"");
	rig_until(tenant()->bytes <= MIB);
	take("");
	assert_int_equal(put("m7"), WIRE_OK);
	assert_int_equal(tenant()->bytes, 2 * MIB);
}

static void pins_have_a_limit(void **state)
{
	(void)state;
	take(", \"pins_cap\": \"1MiB\"");
	assert_int_equal(put("p1"), WIRE_OK);
	assert_int_equal(put("p2"), WIRE_OK);
	assert_int_equal(status(WIRE_PIN, "p1"), WIRE_OK);
	assert_int_equal(status(WIRE_PIN, "p2"), WIRE_BUSY);
	assert_int_equal(tenant()->pinned, MIB);
	assert_int_equal(status(WIRE_DELETE, "p1"), WIRE_OK);
	assert_int_equal(tenant()->pinned, 0);
	assert_int_equal(status(WIRE_PIN, "p2"), WIRE_OK);
}

/* The first value takes the clock an hour ahead. */
static void reading_has_a_rate(void **state)
{
	(void)state;
	take(", \"read_rate\": 300");
	assert_int_equal(put("r"), WIRE_OK);
	assert_int_equal(status(WIRE_GET, "r"), WIRE_OK);
	assert_int_equal(status(WIRE_GET, "r"), WIRE_BUSY);
	assert_int_equal(rig_stat(WIRE_STAT_OVER_QUOTA), 1);
	assert_int_equal(status(WIRE_PIN, "r"), WIRE_OK); /* what moves nothing goes on */
	assert_int_equal(tenant()->active, 0);
}

#define LIMITS_TEST(name) cmocka_unit_test_setup_teardown(name, open_session, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMITS_TEST(memory_has_a_cap_that_another_table_changes),
		LIMITS_TEST(pins_have_a_limit),
		LIMITS_TEST(reading_has_a_rate),
	};
	return cmocka_run_group_tests(tests, rig_up, rig_down);
}
