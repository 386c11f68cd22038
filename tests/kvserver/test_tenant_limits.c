/* SPDX-License-Identifier: Apache-2.0 */
/* test_tenant_limits.c -- a shard keeps the limits of a tenant: memory, pins, reading; and another table changes them.
 */
#include "kvserver/ops/work.h"
#include "kvserver/shard/tenants.h"
#include "rig.h"

enum { A = 1 << SESSION_INDEX_BITS, KIB = 1 << 10, MIB = 1 << 20, WHOLE = WIRE_PUT_FIRST | WIRE_PUT_LAST };

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
	assert_int_equal(tenant()->kept[KEPT_PINS], MIB);
	assert_int_equal(status(WIRE_DELETE, "p1"), WIRE_OK);
	assert_int_equal(tenant()->kept[KEPT_PINS], 0);
	assert_int_equal(status(WIRE_PIN, "p2"), WIRE_OK);
}

/* A tiny value counts as its part of the number of values. */
static void tiny_values_are_charged_their_part(void **state)
{
	enum { FIT = 8, MORE = 5 };
	uint64_t part = rig.shard->store.charge_min, before = tenant()->evicted;
	char key[16], limits[64];
	(void)state;
	assert_true(part > 64);
	snprintf(limits, sizeof(limits), ", \"memory_cap\": %llu", (unsigned long long)(FIT * part));
	take(limits);
	for (unsigned i = 0; i < FIT + MORE; i++) {
		struct wire_request q;
		snprintf(key, sizeof(key), "t%u", i);
		q = rig_put(key, 1, 0, 1, kv_hash_block("x", 1), WHOLE);
		q.put.inline_data = (struct wire_bytes){(const uint8_t *)"x", 1};
		q.put.space = rig.attachment->sessions.at[0]->space->generation;
		assert_int_equal(ask(&q)->status, WIRE_OK);
		assert_int_equal(tenant()->bytes, KV_MIN(i + 1, (unsigned)FIT) * part);
	}
	assert_int_equal(tenant()->evicted - before, MORE);
}

/* Sessions in namespaces without end: those of another tenant find a place. */
static void namespaces_are_divided(void **state)
{
	struct grant g = {.rights = TENANT_RIGHTS, .tenant = "t"}, other = {.rights = TENANT_RIGHTS, .tenant = "u"};
	struct session *o;
	unsigned n = 1;
	int rc;
	(void)state;
	take("}, {\"name\": \"u\", \"identities\": [\"j\"], \"namespaces\": {\"u*\": \"rw\"}");
	do {
		snprintf(g.space, sizeof(g.space), "s%u", n);
		rc = session_open(rig.attachment, A + n, &g, &o);
	} while (rc == 0 && ++n < SPACES_MAX);
	assert_int_equal(rc, -KV_EFULL);
	assert_int_equal(tenant()->spaces, SPACES_MAX / rig.shard->store.tenancy.count);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(other.space, sizeof(other.space), "u%u", i);
		assert_int_equal(session_open(rig.attachment, A + n + i, &other, &o), 0);
	}
}

/* A PUT that begins a value and never ends it. */
static int32_t begin(const char *key, uint64_t total)
{
	struct wire_request q;
	rig_fill(rig_memory(0), KIB, 1);
	q = rig_put(key, total, 0, KIB, 0, WIRE_PUT_FIRST);
	q.put.space = rig.attachment->sessions.at[0]->space->generation;
	return ask(&q)->status;
}

/* Values that are begun and never ended leave what others need for theirs. */
static void stages_leave_the_shares_of_others(void **state)
{
	uint64_t memory = rig.shard->store.arena.limit, part = memory / 8;
	char limits[256];
	(void)state;
	snprintf(
		limits, sizeof(limits),
		"}, {\"name\": \"u\", \"identities\": [\"j\"], \"namespaces\": {\"u\": \"rw\"}, \"memory_share\": %llu",
		(unsigned long long)memory);
	assert_int_equal(begin("s1", 3 * part), WIRE_OK);
	assert_int_equal(tenant()->kept[KEPT_STAGES], 3 * part);
	take(limits);
	assert_int_equal(begin("s2", part / 2), WIRE_BUSY);
	assert_int_equal(tenant()->kept[KEPT_STAGES], 3 * part);
	take("");
	assert_int_equal(begin("s2", part / 2), WIRE_OK);
	rig_attachment_end();
	assert_int_equal(tenant()->kept[KEPT_ALL], 0);
}

/* The first value takes the clock an hour ahead. */
static void reading_has_a_rate(void **state)
{
	struct wire_request q;
	(void)state;
	take(", \"read_rate\": 300");
	assert_int_equal(put("r"), WIRE_OK);
	q = rig_get("r", 0, 4096);
	q.get.length = 0;
	assert_int_equal(ask(&q)->status, WIRE_TOOBIG); /* moved nothing, and costs nothing */
	assert_int_equal(status(WIRE_GET, "r"), WIRE_OK);
	assert_int_equal(status(WIRE_GET, "r"), WIRE_BUSY);
	assert_int_equal(rig_stat(WIRE_STAT_OVER_QUOTA), 1);
	assert_int_equal(tenant()->active, 0);
	take(", \"read_rate\": \"1GiB\""); /* the debt was one of the former rate */
	assert_int_equal(status(WIRE_GET, "r"), WIRE_OK);
	assert_int_equal(status(WIRE_PIN, "r"), WIRE_OK); /* what moves nothing goes on */
	assert_int_equal(tenant()->active, 0);
}

static void slab_empty(struct slab *s, void **taken)
{
	void *object;
	while ((object = slab_get(s)) != NULL) {
		*(void **)object = *taken;
		*taken = object;
	}
}

static void slab_refill(struct slab *s, void *taken)
{
	while (taken) {
		void *next = *(void **)taken;
		slab_put(s, taken);
		taken = next;
	}
}

/* A GET without a place for its request, or for its checksum, moves nothing. */
static void a_get_without_a_place_costs_nothing(void **state)
{
	struct slab *slabs[] = {&rig.shard->requests, &rig.shard->work->hashers, &rig.shard->work->hashers};
	static const uint32_t flags[] = {0, WIRE_GET_CHECK, WIRE_GET_SUM_RANGE};
	uint64_t before = tenant()->read_bytes;
	(void)state;
	take(", \"read_rate\": 300");
	assert_int_equal(put("s"), WIRE_OK);
	for (unsigned i = 0; i < KV_COUNT(slabs); i++) {
		struct wire_request q = rig_get("s", 0, MIB);
		void *taken = NULL;
		q.flags = flags[i];
		q.get.length = MIB / 2;
		slab_empty(slabs[i], &taken);
		assert_int_equal(ask(&q)->status, WIRE_BUSY);
		slab_refill(slabs[i], taken);
		assert_int_equal(tenant()->read_bytes, before);
	}
	assert_int_equal(rig_stat(WIRE_STAT_OVER_QUOTA), 0); /* the clock did not run ahead */
	assert_int_equal(status(WIRE_GET, "s"), WIRE_OK);
	assert_int_equal(tenant()->read_bytes, before + MIB);
	take("");
}

/* A GET pays once, whichever way its bytes take. */
static void each_get_pays_once(void **state)
{
	static const uint32_t flags[] = {0, WIRE_GET_CHECK, WIRE_GET_SUM_RANGE, WIRE_GET_INLINE, WIRE_GET_PACK};
	uint64_t paid = tenant()->read_bytes;
	(void)state;
	assert_int_equal(put("o"), WIRE_OK);
	for (unsigned i = 0; i < KV_COUNT(flags); i++) {
		struct wire_request q = rig_get("o", 0, MIB);
		q.flags = flags[i];
		q.get.length = flags[i] & (WIRE_GET_INLINE | WIRE_GET_PACK) ? KIB : MIB / 2;
		assert_int_equal(ask(&q)->status, WIRE_OK);
		paid += q.get.length;
		assert_int_equal(tenant()->read_bytes, paid);
	}
}

/* The highest number would be the floor of everybody's namespaces once this one is forgotten. */
static void a_generation_rises_by_clears(void **state)
{
	struct session *o = rig.attachment->sessions.at[0];
	struct wire_request q = rig_request(WIRE_CLEAR, NULL);
	uint64_t before = o->space->generation;
	(void)state;
	o->sees_all = false;
	q.clear.generation = UINT64_MAX;
	assert_int_equal(ask(&q)->status, WIRE_INVALID);
	q = rig_request(WIRE_CLEAR, NULL);
	q.flags = WIRE_CLEAR_RAISE;
	q.clear.generation = before + SESSION_RAISE_MAX + 1;
	assert_int_equal(ask(&q)->status, WIRE_INVALID);
	rig_fill(rig_memory(0), MIB, 1);
	q = rig_put("g", MIB, 0, MIB, kv_hash_block(rig_memory(0), MIB), WHOLE);
	q.put.space = UINT64_MAX;
	assert_int_equal(ask(&q)->status, WIRE_OK); /* as without the right to clear */
	assert_int_equal(o->space->generation, before);
	q = rig_request(WIRE_CLEAR, NULL);
	q.clear.generation = before + 1;
	assert_int_equal(ask(&q)->status, WIRE_OK);
	assert_int_equal(o->space->generation, before + 1);
}

/* What TENANTS lists: a session's own tenant. */
static void a_tenant_sees_its_figures(void **state)
{
	struct wire_request q = rig_request(WIRE_TENANTS, NULL);
	struct session *o = rig.attachment->sessions.at[0];
	const struct wire_reply *r;
	struct wire_row t;
	uint64_t before = tenant()->read_bytes; /* the tenant is that of the other tests */
	(void)state;
	take(", \"memory_cap\": \"3MiB\", \"memory_share\": \"2MiB\", \"pins_cap\": \"1MiB\", \"read_rate\": \"1GiB\"");
	assert_int_equal(put("f1"), WIRE_OK);
	assert_int_equal(status(WIRE_PIN, "f1"), WIRE_OK);
	assert_int_equal(status(WIRE_GET, "f1"), WIRE_OK);
	for (unsigned all = 0; all < 2; all++) {
		o->sees_all = all;
		q.id = rig_request(WIRE_PING, NULL).id;
		r = ask(&q);
		assert_int_equal(r->status, WIRE_OK);
		assert_int_equal(r->rows.count, 1);
		assert_true(r->rows.next == 0);
		wire_row(r->rows.at, 0, r->type, &t);
		assert_string_equal(t.name, "t");
		assert_true(t.flags & WIRE_ROW_LISTED);
		assert_int_equal(t.number[WIRE_TENANT_USED], MIB);
		assert_int_equal(t.number[WIRE_TENANT_CAP], 3 * MIB);
		assert_int_equal(t.number[WIRE_TENANT_SHARE], 2 * MIB);
		assert_int_equal(t.number[WIRE_TENANT_PINNED], MIB);
		assert_int_equal(t.number[WIRE_TENANT_PINS_CAP], MIB);
		assert_int_equal(t.number[WIRE_TENANT_READ] - before, MIB);
		assert_int_equal(t.number[WIRE_TENANT_READ_RATE], 1 << 30);
		assert_int_equal(t.number[WIRE_TENANT_ACTIVE], 0);
		assert_int_equal(t.number[WIRE_TENANT_SESSIONS], 1);
		assert_true(t.number[WIRE_TENANT_REQUESTS_MAX] == UINT64_MAX &&
			    t.number[WIRE_TENANT_TIER_CAP] == UINT64_MAX);
	}
	/* A session of nobody sees no tenant. */
	rig.attachment->own.sees_all = false;
	q.id = rig_request(WIRE_PING, NULL).id;
	rig_send(&q);
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_OK);
	assert_int_equal(rig_find(q.id)->rows.count, 0);
}

/* Requests beyond the limit are refused at once; those that end make room. */
static void requests_have_a_limit(void **state)
{
	enum { MANY = 6 };
	struct wire_request q[MANY + 1] = {{.type = WIRE_SESSION, .session.number = A}};
	struct wire_frame frame = rig_frame();
	unsigned busy = 0, ok = 0;
	uint64_t before;
	(void)state;
	rig.attachment->sessions.at[0]->credits = RIG_CREDITS;
	take(", \"requests_max\": 2");
	before = tenant()->denied;
	assert_int_equal(put("q"), WIRE_OK);
	for (unsigned i = 1; i <= MANY; i++) {
		q[i] = rig_get("q", 0, MIB);
		q[i].flags = WIRE_GET_CHECK; /* over several turns */
	}
	rig_send_records(&frame, q, MANY + 1);
	for (unsigned i = 1; i <= MANY; i++) {
		rig_until(rig_find(q[i].id));
		busy += rig_find(q[i].id)->status == WIRE_BUSY;
		ok += rig_find(q[i].id)->status == WIRE_OK;
	}
	assert_int_equal(ok, 2);
	assert_int_equal(busy, MANY - 2);
	assert_int_equal(tenant()->denied - before, MANY - 2);
	rig_until(tenant()->active == 0);
	assert_int_equal(status(WIRE_GET, "q"), WIRE_OK);
}

#define LIMITS_TEST(name) cmocka_unit_test_setup_teardown(name, open_session, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMITS_TEST(memory_has_a_cap_that_another_table_changes),
		LIMITS_TEST(pins_have_a_limit),
		LIMITS_TEST(stages_leave_the_shares_of_others),
		LIMITS_TEST(reading_has_a_rate),
		LIMITS_TEST(a_get_without_a_place_costs_nothing),
		LIMITS_TEST(each_get_pays_once),
		LIMITS_TEST(a_generation_rises_by_clears),
		LIMITS_TEST(a_tenant_sees_its_figures),
		LIMITS_TEST(requests_have_a_limit),
		LIMITS_TEST(tiny_values_are_charged_their_part),
		LIMITS_TEST(namespaces_are_divided),
	};
	return cmocka_run_group_tests(tests, rig_up, rig_down);
}
