/* SPDX-License-Identifier: Apache-2.0 */
/* test_liar_storm.c -- workers make any call at any time, of a server whose lies change every few milliseconds,
 * connections and sessions included. Every call ends in time, what a GET returns are the value's bytes, and when the
 * server is honest again it is used, and let go at once. */
#include "tests/check.h"

#include <pthread.h>
#include <unistd.h>

#include "server.h"
#include "victim.h"

enum { WORKERS = 10, STORM_MS = 1500, KEYS = 8 };

static uint8_t value[LIAR_VALUE];
static _Atomic bool over;
static _Atomic uint64_t calls, good, late, wrong;
static uint64_t seed;

static struct kvc_key some_key(struct kv_prng *p)
{
	static const char *const names[KEYS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	return (struct kvc_key){names[kv_prng_below(p, KEYS)], 1};
}

static void take(int64_t rc, uint64_t began, uint64_t timeout_ns)
{
	calls++;
	good += rc >= 0;
	late += kv_clock_now(&kv_clock_monotonic) - began > timeout_ns + KV_GRACE_DEFAULT_NS + VICTIM_LATE_NS;
}

static void get_one(struct kvc_client *client, struct kv_prng *p, const struct kvc_call *call, uint8_t *dst)
{
	struct kvc_borrowed borrowed;
	int64_t rc;
	memset(dst, 0xEE, VICTIM_CAP);
	if (kv_prng_below(p, 3) == 0) {
		rc = kvc_get_borrowed_await(client, some_key(p), 0, call, &borrowed);
		wrong += rc >= 0 && (rc != LIAR_VALUE || memcmp(borrowed.data, value, LIAR_VALUE) != 0);
		kvc_borrowed_release(client, &borrowed);
		return;
	}
	rc = kvc_get_await(client, some_key(p), dst, VICTIM_CAP, call);
	wrong += rc >= 0 && (rc != LIAR_VALUE || memcmp(dst, value, LIAR_VALUE) != 0);
}

static void batch(struct kvc_client *client, struct kv_prng *p, const struct kvc_call *call, uint8_t *dst)
{
	struct kvc_item item[4];
	for (unsigned i = 0; i < KV_COUNT(item); i++)
		item[i] = (struct kvc_item){.key = some_key(p), .data = dst, .len = i ? 0 : VICTIM_CAP};
	(void)kvc_get_batch_await(client, item, 1, call);
	wrong += item[0].result >= 0 && memcmp(dst, value, LIAR_VALUE) != 0;
	for (unsigned i = 0; i < KV_COUNT(item); i++)
		item[i] = (struct kvc_item){.key = some_key(p), .data = value, .len = 1 + kv_prng_below(p, 9000)};
	(void)kvc_put_batch_await(client, item, KV_COUNT(item), call);
}

static int one_call(struct kvc_client *client, struct kv_prng *p, const struct kvc_call *call, uint8_t *dst)
{
	struct kvc_key keys[KEYS];
	uint8_t found[KEYS];
	uint64_t left_ms;
	unsigned prefix;
	switch (kv_prng_below(p, 11)) {
	case 0:
		return kvc_pin_await(client, some_key(p), call);
	case 1:
		return kvc_unpin_await(client, some_key(p), call);
	case 2:
		return kvc_ttl_await(client, some_key(p), &left_ms, call);
	case 3:
		return kvc_touch_await(client, some_key(p), call);
	case 4:
		return kvc_delete_await(client, some_key(p), call);
	case 5:
		for (unsigned i = 0; i < KEYS; i++)
			keys[i] = some_key(p);
		return kvc_exists_await(client, keys, KEYS, found, &prefix, call);
	case 6:
		batch(client, p, call, dst);
		return 0;
	case 7:
		return kvc_put_await(client, some_key(p), value, 1 + kv_prng_below(p, 20000), call);
	default:
		get_one(client, p, call, dst);
		return 0;
	}
}

static void worker(struct kvc_client *client, unsigned w, void *arg)
{
	uint8_t *own = malloc(VICTIM_CAP);
	struct kvc_session *sub = NULL;
	struct kv_error err;
	struct kv_prng p;
	(void)arg;
	kv_prng_seed(&p, seed + w);
	while (own && !over) {
		uint64_t timeout_ns = kv_prng_below(&p, 3) ? 100000000 : 1 + kv_prng_below(&p, 20000000),
			 began = kv_clock_now(&kv_clock_monotonic);
		struct kvc_session_options o = {.size = sizeof(o), .timeout_ns = timeout_ns};
		struct kvc_call call = {.size = sizeof(call), .timeout_ns = timeout_ns, .session = sub};
		/* The registered memory is the first worker's. */
		int64_t rc = one_call(client, &p, &call, w == 0 ? victim.dst[1] : own);
		take(rc, began, timeout_ns);
		began = kv_clock_now(&kv_clock_monotonic);
		if (kv_prng_below(&p, 10) == 0 && !sub)
			take(kvc_session_open_await(client, &o, &sub, &err), began, timeout_ns);
		else if (kv_prng_below(&p, 10) == 0 && sub)
			take(kvc_session_close_await(client, &sub, timeout_ns), began, timeout_ns);
	}
	if (sub)
		(void)kvc_session_close_await(client, &sub, 100000000);
	free(own);
}

static void welcome_sessions(struct wire_ctrl_msg *m)
{
	m->welcome.flags |= WIRE_WELCOME_SESSIONS;
}

static void *lie_on(void *arg)
{
	struct kv_prng *p = arg;
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + STORM_MS * 1000000ull;
	while (kv_clock_now(&kv_clock_monotonic) < until) {
		atomic_store(&liar_lie, kv_prng_below(p, 3) ? (int)kv_prng_below(p, LIES) : LIE_NONE);
		atomic_store(&liar_failures, 2);
		usleep((useconds_t)kv_prng_below(p, 40000));
	}
	atomic_store(&liar_lie, LIE_NONE);
	over = true;
	return NULL;
}

static void any_lie_at_any_time_is_survived(void **state)
{
	struct kv_prng p = check_seed();
	pthread_t thread;
	(void)state;
	if (test_provider_is("shm")) {
		print_message("over shm the client may not close an endpoint, as a fence does, while the liar sends: "
			      "both are "
			      "in one process (docs/internals/providers.md)\n");
		skip();
	}
	seed = kv_prng_next(&p);
	test_fill(value, sizeof(value), LIAR_SEED);
	assert_int_equal(pthread_create(&thread, NULL, lie_on, &p), 0);
	assert_int_equal(kvc_run(victim.pool, WORKERS, worker, NULL), 0);
	pthread_join(thread, NULL);
	printf("#: %llu calls, %llu succeeded\n", (unsigned long long)calls, (unsigned long long)good);
	assert_int_equal(late, 0);
	assert_int_equal(wrong, 0);
	assert_true(good > 0);
	victim_recovers();
}

static int up(void **state)
{
	(void)state;
	kvc_program_setup();
	victim.timeout_ns = 500000000;
	victim.connect_timeout_ns = 2000000000;
	victim.wait_ns = 60000000000;
	atomic_store(&liar_welcome, welcome_sessions);
	victim_start(KVC_MODE_PUSH);
	return 0;
}

static int down(void **state)
{
	(void)state;
	victim_stop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_lie_at_any_time_is_survived),
	};
	return cmocka_run_group_tests_name("kvclient/liar_storm", tests, up, down);
}
