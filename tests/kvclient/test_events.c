/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c -- followers at real servers: the set of keys that they build is the one that EXISTS sees, after
 * eviction, deletion, expiry, an absence and a restart; a gap is never silent. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/kvclient/calls.h"

enum { KEYS = 2000, BATCH = 100 };

static uint8_t memory_of_16k[16384];

#define FULL_NS  30000000000ull /* for what takes milliseconds */
#define QUIET_NS 300000000ull
#define LIVES_NS 3000000000ull /* longer than the values of churn() with a time to live */

static const char *const with_events[] = {"--events", "on", "--memory-mb", "8", "--worker-threads", "2", NULL};

/* What a follower has made of its events: which of the keys of this program exist, at which server. */
struct set {
	bool has[2][KEYS + 1]; /* the last one: any other key */
	unsigned cleared[2], synced[2], gaps, away, events;
	struct kvc_position last;
	char node[64];
};

static struct kvc_key nth(unsigned n, char buf[24])
{
	return (struct kvc_key){buf, (size_t)snprintf(buf, 24, "events/%u", n)};
}

static unsigned number_of(struct kvc_key key)
{
	char text[24] = "";
	unsigned n;
	assert_true(key.len < sizeof(text));
	memcpy(text, key.data, key.len);
	if (strncmp(text, "slow/", 5) == 0)
		return KEYS; /* of a_slow_follower_gets_another_snapshot */
	assert_int_equal(sscanf(text, "events/%u", &n), 1);
	assert_true(n < KEYS);
	return n;
}

static void apply(struct set *s, const struct kvc_event *e)
{
	assert_true(e->server < 2);
	s->events++;
	switch (e->type) {
	case KVC_EVENT_STORED:
	case KVC_EVENT_REMOVED:
		s->has[e->server][number_of(e->key)] = e->type == KVC_EVENT_STORED;
		break;
	case KVC_EVENT_CLEARED:
		memset(s->has[e->server], 0, sizeof(s->has[0]));
		s->cleared[e->server]++;
		break;
	case KVC_EVENT_SYNCED:
		s->synced[e->server]++;
		break;
	case KVC_EVENT_GAP:
		s->gaps++;
		break;
	default:
		assert_int_equal(e->type, KVC_EVENT_AWAY);
		s->away++;
	}
	if (e->sequence) {
		snprintf(s->node, sizeof(s->node), "%s", e->node);
		s->last = (struct kvc_position){s->node, e->epoch, e->sequence};
	}
}

/* Read what is there within this time. Returns how many events came. */
static unsigned take(struct kvc_events *events, struct set *s, uint64_t timeout_ns)
{
	struct kvc_event batch[BATCH];
	int n = kvc_events_next(events, batch, BATCH, timeout_ns);
	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		apply(s, &batch[i]);
	return (unsigned)n;
}

static void take_all(struct kvc_events *events, struct set *s)
{
	while (take(events, s, QUIET_NS) > 0)
		continue;
}

/* The keys that EXISTS sees at one server: of a pool with that server alone. */
static bool agrees(struct kvc_pool *pool, const struct set *s, unsigned server)
{
	struct kvc_key key[KEYS];
	uint8_t found[KEYS];
	static char text[KEYS][24];
	unsigned wrong = 0;
	for (unsigned n = 0; n < KEYS; n++)
		key[n] = nth(n, text[n]);
	assert_int_equal(kvc_exists(pool, key, KEYS, found, NULL, NULL), 0);
	for (unsigned n = 0; n < KEYS; n++)
		wrong += found[n] != s->has[server][n];
	return wrong == 0;
}

/* Expired values are removed within some seconds. */
static void expect_agreement(struct kvc_pool *pool, struct kvc_events *events, struct set *s)
{
	uint64_t end = now_ns() + FULL_NS;
	do
		take_all(events, s);
	while (!agrees(pool, s, 0) && now_ns() < end);
	assert_true(agrees(pool, s, 0));
}

static struct kvc_events *follow(struct kvc_pool *pool, unsigned flags, const struct kvc_position *since)
{
	const struct kvc_events_options o = {
		.size = sizeof(o), .flags = flags, .since = since, .num_since = since ? 1 : 0};
	struct kvc_events *events = NULL;
	struct kv_error err;
	if (kvc_events_open(pool, &o, &events, &err))
		fail_msg("%s", err.text);
	return events;
}

static void wait_synced(struct kvc_events *events, struct set *s, unsigned server, unsigned times)
{
	uint64_t end = now_ns() + FULL_NS;
	while (s->synced[server] < times && now_ns() < end)
		take(events, s, QUIET_NS);
	assert_int_equal(s->synced[server], times);
}

/* Eviction is certain: 8 MiB hold 500 of these values. */
static void churn(struct kvc_pool *pool, struct kv_prng *prng, unsigned steps)
{
	char text[24];
	for (unsigned i = 0; i < steps; i++) {
		struct kvc_call call = {.size = sizeof(call)};
		struct kvc_key key = nth((unsigned)kv_prng_below(prng, KEYS), text);
		int rc = 0;
		if (kv_prng_below(prng, 5) == 0) {
			rc = kvc_delete(pool, key, NULL);
		} else {
			call.ttl_s = kv_prng_below(prng, 10) == 0;
			rc = kvc_put(pool, key, memory_of_16k, 1 + kv_prng_below(prng, sizeof(memory_of_16k)), &call);
		}
		assert_true(rc == 0 || rc == -KV_ENOTFOUND || rc == -KV_EEXIST);
	}
}

static int events_up(void **state)
{
	(void)state;
	if (test_server_binary()) {
		test_server_start_with(&test_first, "first", with_events);
		test_server_start_with(&test_second, "second", with_events);
	}
	return 0;
}

static int events_down(void **state)
{
	(void)state;
	if (test_first.pid)
		test_server_kill(&test_first);
	if (test_second.pid)
		test_server_kill(&test_second);
	return 0;
}

static void the_events_are_what_exists(void **state)
{
	struct kv_prng prng = check_seed();
	struct set set = {0};
	struct kvc_pool *pool;
	struct kvc_events *events;
	(void)state;
	need_server();
	pool = test_pool(one, 1, 2);
	events = follow(pool, 0, NULL);
	wait_synced(events, &set, 0, 1);
	for (unsigned round = 0; round < 5; round++) {
		churn(pool, &prng, 1000);
		expect_agreement(pool, events, &set);
	}
	assert_true(test_stat(pool, "evictions") > 100);
	assert_true(set.cleared[0] == 1 && set.gaps == 0 && set.away == 0);
	assert_int_equal(kvc_events_close(&events), 0);
	assert_null(events);
	kvc_pool_close(&pool);
}

static void a_late_follower_gets_a_snapshot(void **state)
{
	struct kv_prng prng = check_seed();
	struct set set = {0};
	struct kvc_pool *pool;
	struct kvc_events *events;
	(void)state;
	need_server();
	pool = test_pool(one, 1, 1);
	churn(pool, &prng, 1000);
	events = follow(pool, 0, NULL);
	churn(pool, &prng, 100);
	expect_agreement(pool, events, &set);
	assert_true(set.cleared[0] == 1 && set.synced[0] == 1);
	kvc_pool_close(&pool); /* with the follower */
}

/* The log has gone past a follower that does not read. Small values by the thousand: each puts one out. */
static void a_slow_follower_gets_another_snapshot(void **state)
{
	enum { ITEMS = 1000, ROUNDS = 300 };
	static struct kvc_item item[ITEMS];
	static char text[ITEMS][24];
	struct set set = {0};
	struct kvc_pool *pool;
	struct kvc_events *events;
	(void)state;
	need_server();
	pool = test_pool(one, 1, 1);
	events = follow(pool, 0, NULL);
	wait_synced(events, &set, 0, 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < ITEMS; i++) {
			int len = snprintf(text[i], sizeof(text[i]), "slow/%u/%u", round, i);
			item[i] = (struct kvc_item){.key = {text[i], (size_t)len}, .data = text[i], .len = 8};
		}
		assert_int_equal(kvc_put_batch(pool, item, ITEMS, NULL), 0);
	}
	for (unsigned i = 0; i < KEYS; i++) /* nothing but keys of this program is left */
		(void)kvc_put(pool, nth(i, text[0]), memory_of_16k, sizeof(memory_of_16k), NULL);
	expect_agreement(pool, events, &set);
	assert_int_equal(set.cleared[0], 2);
	kvc_pool_close(&pool);
}

/* Who was away goes on where it was. */
static void a_follower_goes_on_behind_its_position(void **state)
{
	struct kv_prng prng = check_seed();
	struct set set = {0};
	struct kvc_pool *pool;
	struct kvc_events *events;
	(void)state;
	need_server();
	pool = test_pool(one, 1, 1);
	events = follow(pool, 0, NULL);
	expect_agreement(pool, events, &set);
	assert_int_equal(kvc_events_close(&events), 0);
	churn(pool, &prng, 500);
	assert_string_equal(set.last.node, "first");
	events = follow(pool, 0, &set.last);
	expect_agreement(pool, events, &set);
	assert_true(set.cleared[0] == 1 && set.synced[0] == 1);
	assert_int_equal(kvc_events_close(&events), 0);
	kvc_pool_close(&pool);
}

static void a_position_of_another_process_is_a_gap(void **state)
{
	struct kvc_position since = {"first", 12345, 7};
	struct set set = {0};
	struct kvc_pool *pool;
	struct kvc_events *events;
	char text[24];
	(void)state;
	need_server();
	pool = test_pool(one, 1, 1);
	events = follow(pool, KVC_EVENTS_NEW, &since);
	while (set.gaps == 0)
		take(events, &set, FULL_NS);
	assert_int_equal(set.events, 1);
	assert_true(set.last.epoch != 12345 && set.cleared[0] == 0);
	assert_int_equal(kvc_events_close(&events), 0);
	events = follow(pool, 0, &since);
	expect_agreement(pool, events, &set);
	assert_true(set.gaps == 1 && set.cleared[0] == 1 && set.synced[0] == 1);
	while (take(events, &set, LIVES_NS) > 0)
		continue; /* values of earlier tests expire */
	assert_int_equal(kvc_events_close(&events), 0);
	/* Only what happens from now on. */
	memset(&set, 0, sizeof(set));
	events = follow(pool, KVC_EVENTS_NEW, NULL);
	take_all(events, &set);
	assert_int_equal(set.events, 0);
	(void)kvc_delete(pool, nth(1, text), NULL);
	assert_int_equal(kvc_put(pool, nth(1, text), "x", 1, NULL), 0);
	while (!set.has[0][1])
		take(events, &set, FULL_NS);
	assert_in_range(set.events, 1, 2);
	kvc_pool_close(&pool);
}

static void a_restarted_server_begins_anew(void **state)
{
	struct kv_prng prng = check_seed();
	struct set set = {0};
	struct kvc_pool *pool;
	struct kvc_events *events;
	uint64_t epoch;
	(void)state;
	need_server();
	pool = test_pool(one, 1, 1);
	events = follow(pool, 0, NULL);
	churn(pool, &prng, 100);
	expect_agreement(pool, events, &set);
	epoch = set.last.epoch;
	test_server_kill(&test_first);
	while (set.away == 0)
		take(events, &set, FULL_NS);
	test_server_start_with(&test_first, "first", with_events);
	wait_synced(events, &set, 0, 2);
	assert_int_not_equal(set.last.epoch, epoch);
	assert_int_equal(set.cleared[0], 2);
	assert_int_equal(set.away, 1);
	churn(pool, &prng, 100);
	expect_agreement(pool, events, &set);
	kvc_pool_close(&pool);
}

static void all_servers_are_followed(void **state)
{
	struct kv_prng prng = check_seed();
	struct set set = {0};
	struct kvc_pool *pool, *of_first, *of_second;
	uint64_t end;
	struct kvc_events *events;
	(void)state;
	need_server();
	pool = test_pool(two, 2, 2);
	of_first = test_pool(one, 1, 1);
	of_second = test_pool(two + 1, 1, 1);
	events = follow(pool, 0, NULL);
	churn(pool, &prng, 2000);
	expect_agreement(of_first, events, &set);
	end = now_ns() + FULL_NS;
	while (!agrees(of_second, &set, 1) && now_ns() < end)
		take_all(events, &set);
	assert_true(agrees(of_second, &set, 1));
	assert_true(set.cleared[0] == 1 && set.cleared[1] == 1 && set.synced[0] == 1 && set.synced[1] == 1);
	assert_int_equal(kvc_events_close(&events), 0);
	kvc_pool_close(&pool);
	kvc_pool_close(&of_first);
	kvc_pool_close(&of_second);
}

static void a_server_without_events_says_so(void **state)
{
	struct test_server mute = {0};
	const struct test_server *const servers[] = {&mute};
	struct kvc_event e;
	struct kvc_events *events;
	struct kvc_pool *pool;
	(void)state;
	need_server();
	test_server_start(&mute, "mute");
	pool = test_pool(servers, 1, 1);
	events = follow(pool, 0, NULL);
	assert_int_equal(kvc_events_next(events, &e, 1, FULL_NS), 1);
	assert_true(e.type == KVC_EVENT_GAP && e.sequence == 0);
	assert_string_equal(e.node, "mute");
	assert_int_equal(kvc_events_next(events, &e, 1, QUIET_NS), 0);
	kvc_pool_close(&pool);
	test_server_kill(&mute);
}

static void misuse_gets_a_code(void **state)
{
	struct kvc_events_options o = {.size = sizeof(o), .flags = 8};
	struct kvc_position since = {0};
	struct kvc_events *events = NULL, *second = NULL;
	struct kvc_event e;
	struct kvc_pool *pool;
	struct kv_error err;
	(void)state;
	need_server();
	pool = test_pool(one, 1, 2);
	assert_int_equal(kvc_events_open(NULL, NULL, &events, &err), -KV_EINVAL);
	assert_int_equal(kvc_events_open(pool, NULL, NULL, &err), -KV_EINVAL);
	assert_int_equal(kvc_events_open(pool, &o, &events, &err), -KV_EINVAL);
	check_contains(err.text, "flags");
	o = (struct kvc_events_options){.size = sizeof(o), .num_since = 1, .since = &since};
	assert_int_equal(kvc_events_open(pool, &o, &events, &err), -KV_EINVAL);
	check_contains(err.text, "position 0");
	assert_int_equal(kvc_events_open(pool, NULL, &events, &err), 0);
	assert_int_equal(kvc_events_open(pool, NULL, &second, &err), 0); /* on the second client */
	assert_int_equal(kvc_events_close(&second), 0);
	assert_int_equal(kvc_events_open(pool, NULL, &second, &err), 0);
	{
		struct kvc_events *third;
		assert_int_equal(kvc_events_open(pool, NULL, &third, &err), -KV_EBUSY);
		check_contains(err.text, "follower");
	}
	assert_int_equal(kvc_events_next(NULL, &e, 1, 0), -KV_EINVAL);
	assert_int_equal(kvc_events_next(events, NULL, 1, 0), -KV_EINVAL);
	assert_int_equal(kvc_events_next(events, &e, 0, 0), -KV_EINVAL);
	assert_int_equal(kvc_events_next_await(events, &e, 1, 0), -KV_EINVAL); /* no worker */
	assert_int_equal(kvc_events_close(&events), 0);
	assert_int_equal(kvc_events_close(&events), 0);
	assert_int_equal(kvc_events_close(NULL), -KV_EINVAL);
	kvc_pool_close(&pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_events_are_what_exists),
		cmocka_unit_test(a_late_follower_gets_a_snapshot),
		cmocka_unit_test(a_slow_follower_gets_another_snapshot),
		cmocka_unit_test(a_follower_goes_on_behind_its_position),
		cmocka_unit_test(a_position_of_another_process_is_a_gap),
		cmocka_unit_test(all_servers_are_followed),
		cmocka_unit_test(a_server_without_events_says_so),
		cmocka_unit_test(misuse_gets_a_code),
		cmocka_unit_test(a_restarted_server_begins_anew),
	};
	return cmocka_run_group_tests_name("kvclient/events", tests, events_up, events_down);
}
