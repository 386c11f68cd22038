/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_deadlines.c -- every call of kvclient.h returns by its deadline and the grace, exactly, whatever has become
 * of the server.
 *
 * One worker per kind of call makes it again and again while a server is stopped, killed, without power, cut off, or
 * slow. Virtual time makes the bound exact: nothing takes time but waiting, so a call may return at deadline + grace
 * and not a nanosecond later. When the trouble is over, each kind of call succeeds again. Memory of a call that failed
 * is filled with a pattern, which must be there still when everything late has had time to arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "kvclient/conn/private.h"
#include "kvclient/core/client.h"
#include "kvclient/logical/private.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/transfer/put.h"
#include "tests/sim/world.h"

#define TIMEOUT (300 * MS)
#define GRACE   WORLD_GRACE

enum { VALUE = 100000, LARGE = 1500000, KEYS = 64, ITEMS = 40, ITEM = 5000, BUFFER = 2 << 20 };

static struct world world;

enum kind {
	GET_SMALL,
	GET,
	GET_LARGE,
	GET_REGISTERED,
	GET_LARGE_REGISTERED,
	GET_PART,
	GET_BORROWED,
	PUT_SMALL,
	PUT,
	PUT_LARGE,
	PUT_REGISTERED,
	PUT_LARGE_REGISTERED,
	PUT_BORROWED,
	EXISTS,
	DELETE,
	TOUCH,
	PIN,
	UNPIN,
	PING,
	STAT,
	BORROW,
	GET_BATCH,
	GET_BATCH_REGISTERED,
	PUT_BATCH,
	PUT_BATCH_REGISTERED,
	KINDS
};

static const char *const kind_name[KINDS] = {
	"get, small",
	"get",
	"get, large",
	"get, registered",
	"get, large, registered",
	"get, a part",
	"get into a borrowed piece",
	"put, small",
	"put",
	"put, large",
	"put, registered",
	"put, large, registered",
	"put of a borrowed piece",
	"exists",
	"delete",
	"touch",
	"pin",
	"unpin",
	"ping",
	"stat",
	"borrow",
	"get batch",
	"get batch, registered",
	"put batch",
	"put batch, registered",
};

struct caller {
	enum kind kind;
	unsigned number;
	uint8_t *registered;               /* LARGE bytes of memory that is registered with the pool */
	uint64_t calls, failed, latest_ns; /* the longest call */
	int64_t last;
	uint64_t begun_ns;
};

static struct {
	bool stop, emptied;
	uint64_t stop_ns;
	struct caller caller[KINDS];
	uint8_t *memory;
	struct kvc_mem *mem;
} test;

static struct kvc_key key_of(char *text, size_t cap, const char *what, unsigned i)
{
	return (struct kvc_key){text, (size_t)snprintf(text, cap, "%s/%u", what, i)};
}

static bool registered(enum kind k)
{
	return k == GET_REGISTERED || k == GET_LARGE_REGISTERED || k == GET_BATCH_REGISTERED;
}

/* ---- the calls ---- */

static int64_t borrowed_call(struct kvc_client *c, struct caller *k, const struct kvc_call *call)
{
	struct kvc_borrowed borrowed = {0};
	char text[32];
	int64_t rc;
	if (k->kind == GET_BORROWED) {
		rc = kvc_get_borrowed_await(c, key_of(text, sizeof(text), "value", 0), VALUE, call, &borrowed);
		kvc_borrowed_release(c, &borrowed);
		return rc == VALUE ? 0 : rc;
	}
	rc = kvc_borrow_await(c, k->kind == BORROW ? BUFFER / 2 : VALUE, call->timeout_ns, &borrowed);
	if (rc < 0 || k->kind == BORROW)
		goto out;
	k->begun_ns = world_now(&world); /* the second call has a time of its own */
	memset(borrowed.data, 1, VALUE);
	rc = kvc_put_await(c, key_of(text, sizeof(text), "same", VALUE), borrowed.data, VALUE, call);
out:
	kvc_borrowed_release(c, &borrowed);
	return rc;
}

static int64_t batch_call(struct kvc_client *c, struct caller *k, const struct kvc_call *call, uint8_t *memory)
{
	struct kvc_item item[ITEMS];
	char text[ITEMS][32];
	bool put = k->kind == PUT_BATCH || k->kind == PUT_BATCH_REGISTERED;
	int rc;
	for (unsigned i = 0; i < ITEMS; i++)
		item[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), "item", i),
					    .data = memory + i * ITEM,
					    .len = ITEM,
					    .result = 77};
	if (put)
		memset(memory, 1, ITEMS * ITEM);
	rc = put ? kvc_put_batch_await(c, item, ITEMS, call) : kvc_get_batch_await(c, item, ITEMS, call);
	for (unsigned i = 0; i < ITEMS; i++)
		if (item[i].result > 0 ? put || item[i].result != ITEM : item[i].result == 0 ? !put : rc == 0)
			world_wrong(&world, "%s: item %u has result %lld, the batch %d", kind_name[k->kind], i,
				    (long long)item[i].result, rc);
	return rc;
}

static int64_t exists_call(struct kvc_client *c, const struct kvc_call *call)
{
	struct kvc_key keys[KEYS];
	char text[KEYS][32];
	for (unsigned i = 0; i < KEYS; i++)
		keys[i] = key_of(text[i], sizeof(text[i]), "none", i);
	return kvc_exists_await(c, keys, KEYS, NULL, NULL, call);
}

static int64_t get_call(struct kvc_client *c, struct caller *k, struct kvc_call *call, uint8_t *memory)
{
	char text[32];
	bool large = k->kind == GET_LARGE || k->kind == GET_LARGE_REGISTERED;
	struct kvc_key key = key_of(text, sizeof(text), large ? "large" : k->kind == GET_SMALL ? "small" : "value", 0);
	uint64_t len = large ? LARGE : k->kind == GET_SMALL ? 1000 : VALUE;
	int64_t rc;
	if (k->kind == GET_PART) {
		call->offset = 1234;
		call->length = len = 50000;
	}
	rc = kvc_get_await(c, key, memory, len, call);
	return rc == (int64_t)len ? 0 : rc < 0 ? rc : -KV_EINTERNAL;
}

static int64_t put_call(struct kvc_client *c, struct caller *k, const struct kvc_call *call, uint8_t *memory)
{
	char text[48];
	uint64_t len = k->kind == PUT_SMALL                                      ? 1000
		       : k->kind == PUT_LARGE || k->kind == PUT_LARGE_REGISTERED ? LARGE
										 : VALUE;
	/* A new key each time, so that bytes do travel. */
	struct kvc_key key = key_of(text, sizeof(text), kind_name[k->kind], (unsigned)k->calls);
	int64_t rc;
	memset(memory, 1, len);
	rc = kvc_put_await(c, key, memory, len, call);
	return rc;
}

static int64_t call_make(struct kvc_client *c, struct caller *k, struct kvc_call *call, uint8_t *memory)
{
	char text[32];
	struct kvc_key key = key_of(text, sizeof(text), "value", 0), none = {"none", 4};
	switch (k->kind) {
	case GET_SMALL:
	case GET:
	case GET_LARGE:
	case GET_REGISTERED:
	case GET_LARGE_REGISTERED:
	case GET_PART:
		return get_call(c, k, call, memory);
	case PUT_SMALL:
	case PUT:
	case PUT_LARGE:
	case PUT_REGISTERED:
	case PUT_LARGE_REGISTERED:
		return put_call(c, k, call, memory);
	case GET_BORROWED:
	case PUT_BORROWED:
	case BORROW:
		return borrowed_call(c, k, call);
	case GET_BATCH:
	case GET_BATCH_REGISTERED:
	case PUT_BATCH:
	case PUT_BATCH_REGISTERED:
		return batch_call(c, k, call, memory);
	case EXISTS:
		return exists_call(c, call);
	case DELETE: {
		int rc = kvc_delete_await(c, none, call);
		return rc == -KV_ENOTFOUND ? 0 : rc;
	}
	case TOUCH:
		return kvc_touch_await(c, key, call);
	case PIN:
		return kvc_pin_await(c, key, call);
	case UNPIN: {
		int rc = kvc_unpin_await(c, key, call);
		return rc == -KV_ENOTFOUND ? 0 : rc; /* the pin ended with its session */
	}
	case PING:
		return kvc_ping_await(c, call);
	case STAT: {
		struct kvc_stat_item item[4];
		int rc = kvc_stat_await(c, item, 4, call);
		return rc == 4 ? 0 : rc;
	}
	case KINDS:
		break;
	}
	return -KV_EINTERNAL;
}

/* A server that was restarted is empty. */
static bool code_fits(int64_t rc)
{
	return rc == 0 || (rc == -KV_ENOTFOUND && test.emptied) || rc == -KV_ETIMEOUT || rc == -KV_EPEERDOWN ||
	       rc == -KV_EBUSY || rc == -KV_EPROVIDER || rc == -KV_ENOMEM;
}

static void call_check(struct caller *k, int64_t rc, uint64_t took_ns)
{
	k->calls++;
	k->failed += rc < 0;
	k->latest_ns = KV_MAX(k->latest_ns, took_ns);
	k->last = rc;
	if (took_ns > TIMEOUT + GRACE)
		world_wrong(&world, "%s returned %lld after %.6f s", kind_name[k->kind], (long long)rc,
			    (double)took_ns / 1e9);
	if (!code_fits(rc))
		world_wrong(&world, "%s returned %lld", kind_name[k->kind], (long long)rc);
}

/* What a PUT stored is taken away again, or the server would evict what the others read. */
static void clean_await(struct kvc_client *c, struct caller *k)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = TIMEOUT};
	char text[48];
	if (k->kind >= PUT_SMALL && k->kind <= PUT_LARGE_REGISTERED && k->last == 0)
		kvc_delete_await(c, key_of(text, sizeof(text), kind_name[k->kind], (unsigned)k->calls - 1), &call);
}

/* Between two calls of a worker: longer, and so fewer calls, under a sanitizer. */
static uint64_t pause_ns(void)
{
	return 50 * MS * 50 / world_seeds(50);
}

static void caller_main(struct kvc_client *c, void *arg)
{
	struct caller *k = arg;
	uint8_t *own = malloc(LARGE), *memory = k->registered ? k->registered : own;
	while (!test.stop && world_now(&world) < test.stop_ns) {
		struct kvc_call call = {.size = sizeof(call), .timeout_ns = TIMEOUT};
		int64_t rc;
		k->begun_ns = world_now(&world);
		rc = call_make(c, k, &call, memory);
		call_check(k, rc, world_now(&world) - k->begun_ns);
		clean_await(c, k);
		if (rc < 0)
			memset(memory, 0xAB, LARGE);
		co_sleep_await(world_now(&world) + kv_prng_below(&world.prng, pause_ns()));
		for (unsigned i = 0; i < LARGE && rc < 0; i += 997)
			if (memory[i] != 0xAB) {
				world_wrong(&world, "%s: memory was touched after the call had failed with %lld",
					    kind_name[k->kind], (long long)rc);
				break;
			}
	}
	free(own);
}

/* ---- the trouble ---- */

enum trouble { STOPPED, KILLED, POWERLESS, CUT_OFF, FABRIC_CUT, CONTROL_CUT, SHARD_STOPPED, SLOW, TROUBLES };

static const char *const trouble_name[TROUBLES] = {"stopped",
						   "killed",
						   "without power",
						   "cut off",
						   "cut off the fabric",
						   "cut off the control network",
						   "stopped in one shard",
						   "slow"};

static void trouble_begin(enum trouble t, bool on)
{
	const struct world_server *s = &world.server[0];
	switch (t) {
	case STOPPED:
		world_server_freeze(&world, 0, on);
		break;
	case KILLED:
	case POWERLESS:
		test.emptied = true;
		if (on)
			world_server_crash(&world, 0, t == POWERLESS);
		else
			world_server_again(&world, 0);
		break;
	case CUT_OFF:
	case CONTROL_CUT:
		sim_port_cut(world.sim, s->port, on);
		if (t == CONTROL_CUT)
			break;
		/* fallthrough */
	case FABRIC_CUT:
		world_unplug(&world, s->fab_first, s->fab_end, on);
		break;
	case SHARD_STOPPED:
		sim_loop_freeze(s->loop[1], on);
		break;
	case SLOW:
		sim_fabric_options()->delay_max_ns = on ? 400 * MS : 50 * US;
		break;
	case TROUBLES:
		break;
	}
}

static void values_put(struct kvc_client *c, void *arg)
{
	uint8_t *value = calloc(1, LARGE);
	char text[32];
	(void)arg;
	memset(value, 1, LARGE);
	if (kvc_put_await(c, key_of(text, sizeof(text), "small", 0), value, 1000, NULL) ||
	    kvc_put_await(c, key_of(text, sizeof(text), "value", 0), value, VALUE, NULL) ||
	    kvc_put_await(c, key_of(text, sizeof(text), "large", 0), value, LARGE, NULL))
		world_wrong(&world, "a value could not be stored");
	for (unsigned i = 0; i < ITEMS; i++)
		if (kvc_put_await(c, key_of(text, sizeof(text), "item", i), value, ITEM, NULL))
			world_wrong(&world, "a value could not be stored");
	free(value);
}

static void callers_start(uint64_t ns)
{
	test.stop = false;
	test.stop_ns = world_now(&world) + ns;
	for (unsigned i = 0; i < KINDS; i++)
		world_worker(&world, 0, i % world.options.clients, caller_main, &test.caller[i]);
}

static void callers_init(void)
{
	uint64_t len = 0;
	memset(&test, 0, sizeof(test));
	test.memory = aligned_alloc(4096, kv_align_up((size_t)KINDS * LARGE, 4096));
	assert_non_null(test.memory);
	memset(test.memory, 0, (size_t)KINDS * LARGE);
	assert_int_equal(world_register(&world, 0, test.memory, (uint64_t)KINDS * LARGE, &test.mem), 0);
	for (unsigned i = 0; i < KINDS; i++, len += LARGE)
		test.caller[i] = (struct caller){.kind = (enum kind)i,
						 .number = i,
						 .registered = registered((enum kind)i) || i == PUT_REGISTERED ||
									       i == PUT_LARGE_REGISTERED ||
									       i == PUT_BATCH_REGISTERED
								       ? test.memory + len
								       : NULL};
}

/* Everything works again: each kind of call succeeded when it was made last. */
static void callers_succeed(enum trouble t)
{
	for (unsigned i = 0; i < KINDS; i++)
		if (test.caller[i].last != 0)
			world_wrong(&world, "%s: %lld, 3 s after the server was no longer %s", kind_name[i],
				    (long long)test.caller[i].last, trouble_name[t]);
}

static void trouble_run(enum trouble t, uint64_t seed, unsigned wait_fd)
{
	struct world_options wo = {.seed = seed,
				   .clients = 2,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = 5 * SECOND,
				   .fabric.wait_fd = wait_fd};
	uint64_t failed = 0;
	world_open(&world, &wo);
	world_do(&world, 0, values_put, NULL);
	callers_init();
	callers_start(10 * SECOND);
	world_sleep(&world, SECOND + kv_prng_below(&world.prng, 50 * MS));
	trouble_begin(t, true);
	world_sleep(&world, 5 * SECOND);
	trouble_begin(t, false);
	world_join(&world, 20 * SECOND);
	world_sleep(&world, 3 * SECOND);
	world_do(&world, 0, values_put, NULL);
	callers_start(4 * pause_ns());
	world_join(&world, 20 * SECOND);
	callers_succeed(t);
	for (unsigned i = 0; i < KINDS; i++) {
		failed += test.caller[i].failed;
		if (getenv("KVRAIL_SIM_STATS"))
			fprintf(stderr, "%-28s %-22s %5llu calls, %5llu failed, the longest took %.6f s\n",
				trouble_name[t], kind_name[i], (unsigned long long)test.caller[i].calls,
				(unsigned long long)test.caller[i].failed, (double)test.caller[i].latest_ns / 1e9);
	}
	assert_int_equal(kvc_unregister(world.pool[0].pool, &test.mem), 0);
	free(test.memory);
	world_close(&world);
	if (t != CONTROL_CUT && t != SHARD_STOPPED)
		assert_true(failed >= KINDS / 2);
}

static void every_kind_of_call(void **state)
{
	enum trouble t = (enum trouble)(uintptr_t)*state;
	const char *given = getenv("KVRAIL_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 1 + (uint64_t)t;
	trouble_run(t, seed, seed % 2);
}

/* ---- calls that block a thread ---- */

static uint64_t took_since(uint64_t begun)
{
	return world_now(&world) - begun;
}

static void blocking_calls(struct kvc_pool *p, uint8_t *memory)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = TIMEOUT};
	struct kvc_key key = {"value/0", 7};
	struct kvc_item item = {.key = key, .data = memory, .len = VALUE};
	struct kvc_stat_item stat;
	for (unsigned i = 0; i < 9; i++) {
		uint64_t begun = world_now(&world);
		int64_t rc = i == 0   ? kvc_get(p, key, memory, VALUE, &call)
			     : i == 1 ? kvc_put(p, (struct kvc_key){"other", 5}, memory, VALUE, &call)
			     : i == 2 ? kvc_exists(p, &key, 1, NULL, NULL, &call)
			     : i == 3 ? kvc_delete(p, key, &call)
			     : i == 4 ? kvc_touch(p, key, &call)
			     : i == 5 ? kvc_ping(p, &call)
			     : i == 6 ? kvc_get_batch(p, &item, 1, &call)
			     : i == 7 ? kvc_put_batch(p, &item, 1, &call)
				      : kvc_stat(p, &stat, 1, &call);
		if (rc != -KV_ETIMEOUT && rc != -KV_EPEERDOWN)
			fail_msg("blocking call %u returned %lld", i, (long long)rc);
		assert_in_range(took_since(begun), 0, TIMEOUT + GRACE);
	}
}

static void blocking_calls_end_when_the_server_is_stopped(void **state)
{
	struct world_options wo = {.seed = 21, .clients = 2, .buffer_bytes = BUFFER, .peer_timeout_ns = 60 * SECOND};
	static uint8_t memory[VALUE];
	(void)state;
	world_open(&world, &wo);
	world_server_freeze(&world, 0, true);
	blocking_calls(world.pool[0].pool, memory);
	world_server_freeze(&world, 0, false);
	world_close(&world);
}

/* A worker keeps the loop's thread: what it has not begun by the deadline it never begins. */
static void blocking_calls_end_when_the_loop_is_stuck(void **state)
{
	struct world_options wo = {.seed = 22, .clients = 1, .buffer_bytes = BUFFER, .timeout_ns = TIMEOUT};
	static uint8_t memory[4096], value[VALUE];
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	sim_loop_freeze(world.pool[0].loop[0], true);
	blocking_calls(world.pool[0].pool, value);
	begun = world_now(&world);
	assert_int_equal(kvc_register(world.pool[0].pool, memory, sizeof(memory), &mem, &err), -KV_ETIMEOUT);
	assert_int_equal(took_since(begun), TIMEOUT);
	sim_loop_freeze(world.pool[0].loop[0], false);
	world_sleep(&world, SECOND);
	/* None of the PUTs was made later. */
	assert_int_equal(kvc_exists(world.pool[0].pool, &(struct kvc_key){"other", 5}, 1, memory, NULL, NULL), 0);
	assert_int_equal(memory[0], 0);
	assert_int_equal(world_counters(&world, 0).puts, 0);
	world_close(&world);
}

/* How a server or a rail is doing: by the pool's timeout, and by 5 s where that is longer. */
static void asking_a_stuck_loop_ends(void **state)
{
	static const uint64_t timeouts[] = {TIMEOUT, 3600 * SECOND, UINT64_MAX};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(timeouts); i++) {
		struct world_options wo = {
			.seed = 26 + i, .clients = 1, .buffer_bytes = BUFFER, .timeout_ns = timeouts[i]};
		struct kvc_server_info server = {.size = sizeof(server)};
		struct kvc_rail_info rail = {.size = sizeof(rail)};
		uint64_t begun, bound = KV_MIN(timeouts[i], 5 * SECOND);
		world_open(&world, &wo);
		sim_loop_freeze(world.pool[0].loop[0], true);
		begun = world_now(&world);
		assert_int_equal(kvc_server_info(world.pool[0].pool, 0, 0, &server), -KV_ETIMEOUT);
		assert_int_equal(took_since(begun), bound);
		assert_int_equal(kvc_rail_info(world.pool[0].pool, 0, 0, &rail), -KV_ETIMEOUT);
		assert_int_equal(took_since(begun), 2 * bound);
		begun = world_now(&world);
		assert_int_equal(kvc_server_info_within(world.pool[0].pool, 0, 0, 50 * MS, &server), -KV_ETIMEOUT);
		assert_int_equal(took_since(begun), 50 * MS);
		assert_int_equal(kvc_server_info_within(world.pool[0].pool, 0, 0, 60 * SECOND, &server), -KV_ETIMEOUT);
		assert_int_equal(took_since(begun), 50 * MS + bound);
		sim_loop_freeze(world.pool[0].loop[0], false);
		assert_int_equal(kvc_server_info(world.pool[0].pool, 0, 0, &server), 0);
		world_close(&world);
	}
}

static void loop_stick(void *arg)
{
	sim_loop_freeze(arg, true);
}

static void loop_unstick(void *arg)
{
	sim_loop_freeze(arg, false);
}

/* A call that its loop has begun is waited for, and what is wrong is said. */
static void a_loop_that_stands_still_is_named(void **state)
{
	struct world_options wo = {.seed = 24, .clients = 1, .buffer_bytes = BUFFER, .peer_timeout_ns = 60 * SECOND};
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = TIMEOUT};
	static uint8_t value[VALUE];
	uint64_t now;
	(void)state;
	world_open(&world, &wo);
	world_server_freeze(&world, 0, true);
	now = world_now(&world);
	sim_world_at(world.sim, now + 100 * MS, loop_stick, world.pool[0].loop[0]);
	sim_world_at(world.sim, now + 20 * SECOND, loop_unstick, world.pool[0].loop[0]);
	assert_int_equal(kvc_put(world.pool[0].pool, (struct kvc_key){"other", 5}, value, VALUE, &call), -KV_ETIMEOUT);
	assert_non_null(world_said("its loop has stood still for 5 s"));
	assert_in_range(took_since(now), 20 * SECOND, 20 * SECOND + GRACE);
	world_server_freeze(&world, 0, false);
	world_close(&world);
}

static struct {
	int pinned, rc;
	uint64_t took_ns;
} unpin;

static void pin_it(struct kvc_client *c, void *arg)
{
	(void)arg;
	unpin.pinned = kvc_put_await(c, (struct kvc_key){"p", 1}, "v", 1, NULL);
	if (unpin.pinned == 0)
		unpin.pinned = kvc_pin_await(c, (struct kvc_key){"p", 1}, NULL);
}

static void unpin_it(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 100 * MS};
	uint64_t begun = world_now(&world);
	(void)arg;
	unpin.rc = kvc_unpin_await(c, (struct kvc_key){"p", 1}, &call);
	unpin.took_ns = world_now(&world) - begun;
}

static bool pinning_again(void *arg)
{
	const struct kc_node *n = arg;
	return n->state == KC_NODE_UP && n->pins->pinners > 0;
}

/* UNPIN waits for the pin that is being made again, and then for its own answer: by one deadline. */
static void unpinning_has_one_deadline_while_pins_are_made_again(void **state)
{
	struct world_options wo = {.seed = 25,
				   .clients = 1,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = TIMEOUT,
				   .peer_timeout_ns = 60 * SECOND};
	struct kc_node *n;
	(void)state;
	world_open(&world, &wo);
	world_do(&world, 0, pin_it, NULL);
	assert_int_equal(unpin.pinned, 0);
	n = &world.pool[0].pool->client[0]->node[0];
	sim_port_kill(world.sim, world.server[0].port);
	world_sleep(&world, MS); /* or it would still be up */
	world_run(&world, pinning_again, n, SECOND, "pins are not made again");
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], true);
	world_do(&world, 0, unpin_it, NULL);
	assert_int_equal(unpin.rc, -KV_ETIMEOUT);
	assert_in_range(unpin.took_ns, 100 * MS, 100 * MS + GRACE);
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], false);
	world_sleep(&world, SECOND);
	world_do(&world, 0, unpin_it, NULL);
	assert_int_equal(unpin.rc, 0);
	assert_true(kv_list_empty(&n->pins->all));
	world_close(&world);
}

static struct {
	struct kvc_session *sub;
	int opened, closed, again, call;
} parting;

static void session_pin(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call)};
	(void)arg;
	parting.opened = kvc_session_open_await(c, NULL, &parting.sub, NULL);
	call.session = parting.sub;
	if (parting.opened == 0)
		parting.opened = kvc_put_await(c, (struct kvc_key){"p", 1}, "v", 1, NULL);
	if (parting.opened == 0)
		parting.opened = kvc_pin_await(c, (struct kvc_key){"p", 1}, &call);
}

static void session_close(struct kvc_client *c, void *arg)
{
	(void)arg;
	parting.closed = kvc_session_close_await(c, &parting.sub, 10 * SECOND);
}

/* A pin that this call made would outlive the session. */
static void session_use(struct kvc_client *c, void *arg)
{
	struct kvc_session *copy = parting.sub;
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 20 * SECOND, .session = copy};
	(void)arg;
	parting.call = copy ? kvc_pin_await(c, (struct kvc_key){"q", 1}, &call) : 0;
	parting.again = copy ? kvc_session_close_await(c, &copy, SECOND) : 0;
}

/* Closing waits for pins that are being made again; meanwhile no other call gets the session. */
static void a_session_that_is_being_closed_is_used_by_nobody(void **state)
{
	struct world_options wo = {.seed = 26, .clients = 1, .buffer_bytes = BUFFER, .peer_timeout_ns = 60 * SECOND};
	struct kc_node *n;
	(void)state;
	world_open(&world, &wo);
	world_do(&world, 0, session_pin, NULL);
	assert_int_equal(parting.opened, 0);
	n = &world.pool[0].pool->client[0]->node[0];
	sim_port_kill(world.sim, world.server[0].port);
	world_sleep(&world, MS);
	world_run(&world, pinning_again, n, SECOND, "pins are not made again");
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], true);
	world_worker(&world, 0, 0, session_close, NULL);
	world_sleep(&world, 10 * MS);
	world_worker(&world, 0, 0, session_use, NULL);
	world_sleep(&world, 10 * MS);
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], false);
	world_join(&world, 30 * SECOND);
	assert_int_equal(parting.call, -KV_EINVAL);
	assert_int_equal(parting.again, -KV_EBUSY);
	assert_int_equal(parting.closed, 0);
	assert_null(parting.sub);
	assert_true(kv_list_empty(&n->pins->all));
	world_close(&world);
}

static int deleted;

static void delete_it(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .flags = KVC_DOWN_IS_MISS};
	(void)arg;
	deleted = kvc_delete_await(c, (struct kvc_key){"p", 1}, &call);
}

/* Nothing was deleted at a server that is down: its pin is made again, or its loss is told. */
static void deleting_at_a_server_that_is_down_forgets_no_pin(void **state)
{
	struct world_options wo = {.seed = 27, .clients = 1, .buffer_bytes = BUFFER};
	(void)state;
	world_open(&world, &wo);
	world_do(&world, 0, pin_it, NULL);
	assert_int_equal(unpin.pinned, 0);
	world_server_crash(&world, 0, false);
	world_sleep(&world, SECOND);
	world_do(&world, 0, delete_it, NULL);
	assert_int_equal(deleted, -KV_ENOTFOUND);
	world_server_again(&world, 0);
	world_sleep(&world, 2 * SECOND);
	assert_int_equal(world_counters(&world, 0).pins_lost, 1);
	world_close(&world);
}

static void registering_and_unregistering_end_when_the_server_does_not_answer(void **state)
{
	struct world_options wo = {.seed = 23,
				   .clients = 2,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = TIMEOUT,
				   .peer_timeout_ns = 60 * SECOND};
	static uint8_t memory[8192];
	struct kvc_mem *mem = NULL, *other = NULL;
	struct kv_error err;
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	assert_int_equal(world_register(&world, 0, memory, 4096, &mem), 0);
	sim_loop_freeze(world.server[0].loop[0], true);
	begun = world_now(&world);
	assert_int_equal(kvc_register(world.pool[0].pool, memory + 4096, 4096, &other, &err), 0);
	assert_in_range(took_since(begun), TIMEOUT, TIMEOUT + GRACE);
	sim_loop_freeze(world.server[0].loop[0], false);
	world_sleep(&world, SECOND);
	sim_loop_freeze(world.server[0].loop[0], true);
	begun = world_now(&world);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	assert_null(mem);
	assert_in_range(took_since(begun), TIMEOUT, TIMEOUT + GRACE);
	sim_loop_freeze(world.server[0].loop[0], false);
	world_close(&world);
}

/* However many clients wait for however many servers, they wait at the same time. */
static void unregistering_has_one_deadline_for_all_clients_and_servers(void **state)
{
	struct world_options wo = {.seed = 24,
				   .clients = 4,
				   .servers = 4,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = TIMEOUT,
				   .peer_timeout_ns = 60 * SECOND};
	static uint8_t memory[4096];
	struct kvc_mem *mem = NULL;
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	assert_int_equal(world_register(&world, 0, memory, 4096, &mem), 0);
	for (unsigned s = 0; s < 3; s++)
		world_server_freeze(&world, s, true);
	begun = world_now(&world);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	assert_null(mem);
	assert_in_range(took_since(begun), TIMEOUT, TIMEOUT + GRACE);
	/* The server that did answer keeps its attachment. */
	for (unsigned c = 0; c < 4; c++)
		assert_int_equal(world.pool[0].pool->client[c]->node[3].state, KC_NODE_UP);
	for (unsigned s = 0; s < 3; s++)
		world_server_freeze(&world, s, false);
	world_close(&world);
}

static void servers_stick(void *arg)
{
	(void)arg;
	for (unsigned s = 0; s < 4; s++)
		world_server_freeze(&world, s, true);
}

/* One server that stands still keeps nobody from registering: it is told when it answers again. */
static void registering_shares_its_time_among_all_servers(void **state)
{
	struct world_options wo = {.seed = 29,
				   .clients = 4,
				   .servers = 4,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = TIMEOUT,
				   .peer_timeout_ns = 60 * SECOND};
	static uint8_t memory[4096];
	struct kvc_mem *mem = NULL;
	struct kv_error err = {0};
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	for (unsigned s = 0; s < 3; s++)
		world_server_freeze(&world, s, true);
	begun = world_now(&world);
	assert_int_equal(kvc_register(world.pool[0].pool, memory, sizeof(memory), &mem, &err), 0);
	assert_string_equal(err.text, "");
	assert_in_range(took_since(begun), TIMEOUT, TIMEOUT + GRACE);
	for (unsigned c = 0; c < 4; c++) {
		const struct kvc_client *client = world.pool[0].pool->client[c];
		assert_int_equal(client->node[3].state, KC_NODE_UP);
		assert_int_equal(client->node[3].own->regions.acked[client->mems.at[0]->slot], client->mems.at[0]->id);
	}
	for (unsigned s = 0; s < 3; s++)
		world_server_freeze(&world, s, false);
	world_sleep(&world, 5 * SECOND);
	for (unsigned c = 0; c < 4; c++) {
		const struct kvc_client *client = world.pool[0].pool->client[c];
		for (unsigned s = 0; s < 4; s++) {
			assert_int_equal(client->node[s].state, KC_NODE_UP);
			assert_int_equal(client->node[s].own->regions.acked[client->mems.at[0]->slot],
					 client->mems.at[0]->id);
		}
	}
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	world_close(&world);
}

/* What three clients have done when the fourth cannot is taken back at once. No server was told, so that all of them
 * stand still costs nothing. */
static void a_registration_that_failed_is_undone_by_one_deadline(void **state)
{
	struct world_options wo = {.seed = 28,
				   .clients = 4,
				   .servers = 4,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = TIMEOUT,
				   .peer_timeout_ns = 60 * SECOND};
	static uint8_t memory[4096];
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	begun = world_now(&world);
	sim_loop_freeze(world.pool[0].loop[3], true);
	sim_world_at(world.sim, begun + TIMEOUT / 2, servers_stick, NULL);
	assert_int_equal(kvc_register(world.pool[0].pool, memory, sizeof(memory), &mem, &err), -KV_ETIMEOUT);
	assert_non_null(strstr(err.text, "client 3"));
	assert_in_range(took_since(begun), TIMEOUT, TIMEOUT + GRACE + MS);
	assert_null(mem);
	for (unsigned c = 0; c < 4; c++)
		assert_int_equal(world.pool[0].pool->client[c]->mems.count, 0);
	sim_loop_freeze(world.pool[0].loop[3], false);
	for (unsigned s = 0; s < 4; s++)
		world_server_freeze(&world, s, false);
	world_sleep(&world, SECOND);
	assert_int_equal(world_register(&world, 0, memory, sizeof(memory), &mem), 0);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	world_close(&world);
}

/* One server refuses what one client announces. It is taken back from all clients, and from all servers, of which two
 * stand still by then: they share the grace. */
static void a_registration_that_is_refused_is_undone_everywhere(void **state)
{
	struct world_options wo = {.seed = 31,
				   .clients = 4,
				   .servers = 4,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = TIMEOUT,
				   .peer_timeout_ns = 60 * SECOND};
	static uint8_t memory[4096];
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	struct kvc_pool *p;
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	p = world.pool[0].pool;
	p->client[3]->node[2].own->regions.refused[1] = (struct kc_refused){p->registered.last_id + 1, WIRE_FULL};
	world_server_freeze(&world, 0, true);
	world_server_freeze(&world, 1, true);
	begun = world_now(&world);
	assert_int_equal(kvc_register(p, memory, sizeof(memory), &mem, &err), -KV_EFULL);
	assert_non_null(strstr(err.text, "client 3: server"));
	assert_in_range(took_since(begun), 0, TIMEOUT + 2 * GRACE + MS);
	assert_null(mem);
	for (unsigned c = 0; c < 4; c++) {
		assert_int_equal(p->client[c]->mems.count, 0);
		for (unsigned s = 2; s < 4; s++) {
			if (c == 3 && s == 2) /* it took the memory, but for our pretence: it is connected anew */
				continue;
			assert_int_equal(p->client[c]->node[s].state, KC_NODE_UP);
			assert_int_equal(p->client[c]->node[s].own->regions.acked[1], 0);
		}
	}
	world_server_freeze(&world, 0, false);
	world_server_freeze(&world, 1, false);
	world_sleep(&world, SECOND);
	assert_int_equal(world_register(&world, 0, memory, sizeof(memory), &mem), 0);
	assert_int_equal(kvc_unregister(p, &mem), 0);
	world_close(&world);
}

/* ---- closing ---- */

static bool stopped(void *arg)
{
	return kc_pool_stopped(arg);
}

static void pool_close_within(enum trouble t, uint64_t after_ns)
{
	struct world_options wo = {
		.seed = 31 + (uint64_t)t, .clients = 2, .buffer_bytes = BUFFER, .connect_timeout_ns = 30 * SECOND};
	char what[80];
	world_open(&world, &wo);
	trouble_begin(t, true);
	world_sleep(&world, after_ns);
	kc_pool_stop(world.pool[0].pool);
	snprintf(what, sizeof(what), "the pool of a server %s for %.1f s did not close", trouble_name[t],
		 (double)after_ns / 1e9);
	world_run(&world, stopped, world.pool[0].pool, SECOND + 2 * MS, what);
	kc_pool_free(&world.pool[0].pool);
	trouble_begin(t, false);
	world_close(&world);
}

static void closing_takes_a_second_at_most_whatever_the_server_does(void **state)
{
	(void)state;
	for (unsigned t = 0; t < TROUBLES; t++) {
		pool_close_within((enum trouble)t, MS);         /* nobody knows yet */
		pool_close_within((enum trouble)t, 6 * SECOND); /* a connection is being tried, for 30 s */
	}
}

static void sleeper(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 100 * SECOND};
	static uint8_t memory[VALUE];
	*(int64_t *)arg = kvc_get_await(c, (struct kvc_key){"value/0", 7}, memory, VALUE, &call);
}

static void late_reader(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = TIMEOUT};
	*(int64_t *)arg = kvc_get_await(c, (struct kvc_key){"value/0", 7}, test.memory, VALUE, &call);
}

/* Both stand still at the end of the call, or of the grace, and go on together: nobody is cut off for that. */
static void a_client_that_comes_late_leaves_the_server_its_grace(void **state)
{
	struct world_options wo = {.clients = 1, .buffer_bytes = BUFFER, .peer_timeout_ns = 60 * SECOND};
	static const uint64_t stops[] = {TIMEOUT / 2, TIMEOUT + GRACE / 2};
	static uint8_t memory[VALUE];
	(void)state;
	test.memory = memory;
	for (unsigned i = 0; i < 2 * KV_COUNT(stops); i++) {
		struct kvc_mem *mem = NULL;
		int64_t rc = 1;
		wo.seed = 43 + i;
		wo.fence = i % 2 ? WORLD_FENCE_ONE : WORLD_FENCE_ALL;
		world_open(&world, &wo);
		world_do(&world, 0, values_put, NULL);
		assert_int_equal(world_register(&world, 0, memory, VALUE, &mem), 0);
		world_server_freeze(&world, 0, true);
		world_worker(&world, 0, 0, late_reader, &rc);
		world_sleep(&world, stops[i / 2]);
		sim_loop_freeze(world.pool[0].loop[0], true);
		world_sleep(&world, TIMEOUT + 2 * GRACE);
		sim_loop_freeze(world.pool[0].loop[0], false);
		world_server_freeze(&world, 0, false);
		world_join(&world, SECOND);
		assert_true(rc == VALUE || rc == -KV_ETIMEOUT);
		assert_int_equal(world_counters(&world, 0).cancels, 1);
		assert_int_equal(world_counters(&world, 0).fences, 0);
		assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
		world_close(&world);
	}
}

/* As a PUT whose first range was refused: the others, which have pieces of the buffer, are under way. */
static void dropper(struct kvc_client *c, void *arg)
{
	static uint8_t value[VALUE];
	const struct kc_target from = {.at = value};
	const struct kvc_call call = {.size = sizeof(call)};
	struct kc_req *req[32];
	struct kc_window out = {.req = req, .size = 32, .one_value = true};
	struct kc_trace trace = {.begun_ns = world_now(&world)};
	struct kvc_put p;
	struct kc_req *r;
	uint64_t begun;
	(void)arg;
	if (kc_put_init(&p, c, (struct kvc_key){"new", 3}, &from, VALUE, &call, world_now(&world) + SECOND) < 0)
		world_wrong(&world, "the PUT cannot be planned");
	p.wait->trace = &trace;
	kc_put_single(&p);
	for (unsigned i = 0; i < 3; i++) {
		if (kc_put_issue_await(&p, i * (VALUE / 4), VALUE / 4, i, true, &r) < 0)
			world_wrong(&world, "a range cannot be sent");
		else
			kc_window_add(&out, r);
	}
	co_sleep_await(world_now(&world) + MS);
	begun = world_now(&world);
	kc_window_drop_await(c, &out);
	if (took_since(begun) > GRACE + MS)
		world_wrong(&world, "dropping a window took %.3f ms", (double)took_since(begun) / 1e6);
	kc_put_fini(&p);
}

static void dropped_requests_share_the_grace(void **state)
{
	struct world_options wo = {.seed = 44, .clients = 1, .buffer_bytes = BUFFER, .peer_timeout_ns = 60 * SECOND};
	(void)state;
	world_open(&world, &wo);
	world_do(&world, 0, values_put, NULL);
	world_server_freeze(&world, 0, true);
	world_do(&world, 0, dropper, NULL);
	assert_int_equal(world_counters(&world, 0).cancels, 3);
	assert_int_equal(world_counters(&world, 0).fences, 0);
	world_server_freeze(&world, 0, false);
	world_close(&world);
}

static void closing_ends_calls_within_the_grace(void **state)
{
	struct world_options wo = {.seed = 41, .clients = 1, .buffer_bytes = BUFFER, .peer_timeout_ns = 60 * SECOND};
	int64_t rc = 1;
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	world_do(&world, 0, values_put, NULL);
	world_server_freeze(&world, 0, true);
	world_worker(&world, 0, 0, sleeper, &rc);
	world_sleep(&world, SECOND);
	begun = world_now(&world);
	kc_pool_stop(world.pool[0].pool);
	world_join(&world, SECOND);
	assert_int_equal(rc, -KV_ECLOSED);
	assert_in_range(took_since(begun), 0, GRACE);
	world_server_freeze(&world, 0, false);
	world_run(&world, stopped, world.pool[0].pool, 2 * SECOND, "the pool did not close");
	kc_pool_free(&world.pool[0].pool);
	world_close(&world);
}

/* A GET into registered memory, which must not be touched when it has returned: not while the worker lives either. */
static void closing_reader(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 100 * SECOND};
	int64_t rc;
	kc_client_hold(c); /* as a worker of kvc_run does: the engine stays until it has returned */
	rc = kvc_get_await(c, (struct kvc_key){"value/0", 7}, test.memory, VALUE, &call);
	*(int64_t *)arg = rc;
	memset(test.memory, 0xAB, VALUE);
	co_sleep_await(world_now(&world) + 500 * MS);
	for (unsigned i = 0; i < VALUE; i++)
		if (test.memory[i] != 0xAB) {
			world_wrong(&world, "memory was touched after the call had failed with %lld", (long long)rc);
			break;
		}
	kc_client_unhold(c);
}

/* The connection to the server breaks while a client that closes gives its calls their grace. */
static void closing_fences_memory_of_callers_when_the_server_is_lost(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct world_options wo = {.seed = 80 + seed, .clients = 1, .buffer_bytes = BUFFER};
		int64_t rc = 1;
		world_open(&world, &wo);
		world_do(&world, 0, values_put, NULL);
		callers_init();
		sim_fabric_options()->delay_min_ns = 20 * MS;
		sim_fabric_options()->delay_max_ns = 40 * MS;
		world_worker(&world, 0, 0, closing_reader, &rc);
		world_sleep(&world, (20 + 10 * seed) * MS); /* it is somewhere on its way */
		kc_pool_stop(world.pool[0].pool);
		world_sleep(&world, MS);
		world_server_crash(&world, 0, false);
		world_join(&world, 2 * SECOND);
		if (rc != VALUE)
			assert_int_equal(rc, -KV_ECLOSED);
		world_run(&world, stopped, world.pool[0].pool, 2 * SECOND, "the pool did not close");
		kc_pool_free(&world.pool[0].pool);
		world_close(&world);
		free(test.memory);
	}
}

/* ---- the deadline of a call that names none ---- */

static void the_default_deadline_grows_with_the_bytes(void **state)
{
	struct world_options wo = {.seed = 42, .clients = 1, .buffer_bytes = BUFFER, .peer_timeout_ns = 600 * SECOND};
	uint8_t *memory = malloc(200000000);
	uint64_t begun;
	(void)state;
	assert_non_null(memory);
	world_open(&world, &wo);
	world_server_freeze(&world, 0, true);
	begun = world_now(&world);
	assert_int_equal(kvc_get(world.pool[0].pool, (struct kvc_key){"value/0", 7}, memory, 1000, NULL), -KV_ETIMEOUT);
	assert_in_range(took_since(begun), 5 * SECOND, 5 * SECOND + GRACE + 10000);
	begun = world_now(&world);
	assert_int_equal(kvc_get(world.pool[0].pool, (struct kvc_key){"value/0", 7}, memory, 200000000, NULL),
			 -KV_ETIMEOUT);
	assert_in_range(took_since(begun), 7 * SECOND, 7 * SECOND + GRACE);
	world_server_freeze(&world, 0, false);
	world_close(&world);
	/* One that the user named holds as it is. */
	wo.timeout_ns = SECOND;
	world_open(&world, &wo);
	world_server_freeze(&world, 0, true);
	begun = world_now(&world);
	assert_int_equal(kvc_get(world.pool[0].pool, (struct kvc_key){"value/0", 7}, memory, 200000000, NULL),
			 -KV_ETIMEOUT);
	assert_in_range(took_since(begun), SECOND, SECOND + GRACE);
	world_server_freeze(&world, 0, false);
	world_close(&world);
	free(memory);
}

static void say_wrong(void *arg)
{
	(void)arg;
	world_wrong(&world, "the test wants it");
}

/* In a child: a call that waits in the middle of it, by a time after which it would look again. */
static void something_is_wrong_under_a_blocking_call(void **state)
{
	struct world_options wo = {.seed = 36, .buffer_bytes = BUFFER, .timeout_ns = 30 * SECOND};
	static uint8_t memory[4096];
	struct kvc_mem *mem = NULL;
	(void)state;
	world_open(&world, &wo);
	assert_int_equal(world_register(&world, 0, memory, sizeof(memory), &mem), 0);
	sim_loop_freeze(world.server[0].loop[0], true);
	sim_world_at(world.sim, world_now(&world) + MS, say_wrong, NULL);
	(void)kvc_unregister(world.pool[0].pool, &mem);
}

/* The simulation's own: what it finds under a call that blocks fails the test, and does not turn the world for ever. */
static void what_is_wrong_under_a_blocking_call_is_told(void **state)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(something_is_wrong_under_a_blocking_call)};
	int status;
	pid_t pid;
	(void)state;
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int nowhere = open("/dev/null", O_WRONLY);
		alarm(20);
		cmocka_set_test_filter(NULL);
		dup2(nowhere, STDOUT_FILENO);
		dup2(nowhere, STDERR_FILENO);
		_exit(cmocka_run_group_tests(tests, NULL, NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

#define CALLS_END(name, trouble) {#name, every_kind_of_call, NULL, NULL, (void *)(uintptr_t)(trouble)}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CALLS_END(calls_of_a_stopped_server_end, STOPPED),
		CALLS_END(calls_of_a_killed_server_end, KILLED),
		CALLS_END(calls_of_a_server_without_power_end, POWERLESS),
		CALLS_END(calls_of_a_server_that_is_cut_off_end, CUT_OFF),
		CALLS_END(calls_end_when_the_fabric_is_cut, FABRIC_CUT),
		CALLS_END(calls_end_when_the_control_network_is_cut, CONTROL_CUT),
		CALLS_END(calls_of_a_stopped_shard_end, SHARD_STOPPED),
		CALLS_END(calls_of_a_slow_server_end, SLOW),
		cmocka_unit_test(blocking_calls_end_when_the_server_is_stopped),
		cmocka_unit_test(blocking_calls_end_when_the_loop_is_stuck),
		cmocka_unit_test(asking_a_stuck_loop_ends),
		cmocka_unit_test(a_loop_that_stands_still_is_named),
		cmocka_unit_test(unpinning_has_one_deadline_while_pins_are_made_again),
		cmocka_unit_test(a_session_that_is_being_closed_is_used_by_nobody),
		cmocka_unit_test(deleting_at_a_server_that_is_down_forgets_no_pin),
		cmocka_unit_test(registering_and_unregistering_end_when_the_server_does_not_answer),
		cmocka_unit_test(unregistering_has_one_deadline_for_all_clients_and_servers),
		cmocka_unit_test(registering_shares_its_time_among_all_servers),
		cmocka_unit_test(a_registration_that_failed_is_undone_by_one_deadline),
		cmocka_unit_test(a_registration_that_is_refused_is_undone_everywhere),
		cmocka_unit_test(closing_takes_a_second_at_most_whatever_the_server_does),
		cmocka_unit_test(a_client_that_comes_late_leaves_the_server_its_grace),
		cmocka_unit_test(dropped_requests_share_the_grace),
		cmocka_unit_test(closing_ends_calls_within_the_grace),
		cmocka_unit_test(closing_fences_memory_of_callers_when_the_server_is_lost),
		cmocka_unit_test(the_default_deadline_grows_with_the_bytes),
		cmocka_unit_test(what_is_wrong_under_a_blocking_call_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
