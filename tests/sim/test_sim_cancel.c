/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_cancel.c -- wherever a call waits, it ends in time: after kvc_cancel, when its queue is closed, when its
 * pool is closed, and at its deadline.
 *
 * For each place where calls wait (docs/internals/reliability.md lists them) the world is brought into the state in
 * which a call waits there, and that it does so is checked. Virtual time makes the bound exact. A call with a request
 * that names memory ends within the grace. Any other call ends within the turn of the loop that hears of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/conn/node.h"
#include "kvclient/copies/private.h"
#include "kvclient/logical/private.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/queue/queue.h"
#include "kvclient/request/private.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/private.h"
#include "kvclient/route/repair.h"
#include "kvclient/route/second.h"
#include "kvclient/transfer/call.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"
#include "tests/sim/world.h"

#define GRACE   WORLD_GRACE
#define TIMEOUT (100 * MS) /* of a call that ends at its deadline */
#define BEGIN   (20 * MS)  /* from the start of a call until it is ended */
#define LATE    (100 * US) /* of a loop's turns */
#define LONG    (100 * SECOND)

enum { VALUE = 100000, LARGE = 1500000, BUFFER = 2 << 20 };

static struct world world;

/* Where the call waits. */
enum place {
	ANSWER,     /* for the answer to its request, from a server that stands still */
	ROOM,       /* for room that calls to another server have */
	CONNECTING, /* for a server that is being connected to */
	PAUSE,      /* before it tries again at a busy server */
	SESSION,    /* for its session to be opened */
	SECOND_PUT, /* DELETE: for a second copy of the same client that is under way */
	REPAIR,     /* DELETE: for a repair of the same client that is under way */
	PLACES
};

static const char *const place_name[PLACES] = {"answer", "room", "connecting", "pause", "session", "second", "repair"};

/* How it ends. */
enum end { CANCEL, QUEUE_CLOSE, POOL_CLOSE, DEADLINE, ENDS };

static const char *const end_name[ENDS] = {"cancel", "queue close", "pool close", "deadline"};

static struct {
	struct kvc_queue *queue;
	struct kvc_session *session;
	struct kvc_mem *mem;
	uint8_t *memory; /* LARGE bytes that are registered */
	uint8_t bytes[LARGE];
	char key[32], copy[32]; /* of server 0: a value that is there, and none */
	struct kvc_item item;
	struct kvc_completion over;
	int code; /* of a call that is a worker's */
	uint64_t over_ns;
} test;

static struct kvc_client *client(void)
{
	return world.pool[0].pool->client[0];
}

static struct kc_node *node(unsigned i)
{
	return &client()->node[i];
}

static struct kvc_key key_of(const char *text)
{
	return (struct kvc_key){text, strlen(text)};
}

/* ---- the world ---- */

static void key_find(struct kvc_client *c, const char *what, char text[32])
{
	unsigned i = 0;
	do
		snprintf(text, 32, "%s/%u", what, i++);
	while (route_first(c, key_of(text))->index != 0);
}

static void value_put(struct kvc_client *c, void *arg)
{
	(void)arg;
	memset(test.bytes, 1, LARGE);
	key_find(c, "value", test.key);
	key_find(c, "copy", test.copy);
	if (kvc_put_await(c, key_of(test.key), test.bytes, LARGE, NULL) < 0)
		world_wrong(&world, "a value could not be stored");
}

static void session_open(struct kvc_client *c, void *arg)
{
	(void)arg;
	if (kvc_session_open_await(c, NULL, &test.session, NULL) < 0)
		world_wrong(&world, "a session could not be opened");
}

static uint64_t drain_heard(void *arg, const struct kvs_drain *bounds, const char *from)
{
	(void)arg;
	(void)bounds;
	(void)from;
	return LONG;
}

static void open_world(uint64_t seed)
{
	struct world_options wo = {.seed = seed,
				   .servers = 2,
				   .clients = 1,
				   .buffer_bytes = BUFFER,
				   .timeout_ns = LONG,
				   .peer_timeout_ns = 600 * SECOND,
				   .on_drain = drain_heard,
				   .fence = seed % 2 ? WORLD_FENCE_ONE : WORLD_FENCE_ALL};
	memset(&test, 0, sizeof(test));
	world_open(&world, &wo);
	test.memory = aligned_alloc(4096, kv_align_up(LARGE, 4096));
	assert_non_null(test.memory);
	assert_int_equal(world_register(&world, 0, test.memory, kv_align_down(LARGE, 4096), &test.mem), 0);
	world_do(&world, 0, value_put, NULL);
	world_do(&world, 0, session_open, NULL);
	assert_int_equal(kvc_queue_open(world.pool[0].pool, NULL, &test.queue, NULL), 0);
}

static bool pool_stopped(void *arg)
{
	return kc_pool_stopped(arg);
}

static void busy(bool on)
{
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		world.server[0].server->shard[i]->opt.credits = on ? 0 : 64;
}

static void close_world(void)
{
	struct kvc_pool *p = world.pool[0].pool;
	busy(false);
	for (unsigned s = 0; s < 2; s++)
		world_server_freeze(&world, s, false);
	world_join(&world, LONG);
	if (test.queue)
		assert_int_equal(kvc_queue_close(&test.queue), 0);
	if (world.pool[0].stopped) {
		world_run(&world, pool_stopped, p, 5 * SECOND, "the pool did not close");
		kc_pool_free(&world.pool[0].pool);
	} else {
		world_sleep(&world, 5 * SECOND);
		world_rest_check(&world);
		assert_int_equal(kvc_session_close(p, &test.session, 0), 0);
		assert_int_equal(kvc_unregister(p, &test.mem), 0);
	}
	world_close(&world);
	free(test.memory);
}

/* ---- how a call comes to wait ---- */

static void reader(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 10 * SECOND};
	uint8_t *to = malloc(LARGE);
	(void)arg;
	(void)kvc_get_await(c, key_of(test.key), to, LARGE, &call);
	free(to);
}

static void copy_put(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .flags = KVC_TWO_COPIES};
	(void)arg;
	if (kvc_put_await(c, key_of(test.copy), test.bytes, VALUE, &call) < 0)
		world_wrong(&world, "a value could not be put");
}

static void copy_note(struct kvc_client *c, void *arg)
{
	(void)arg;
	repair_ready(c);
	repair_note(c, key_of(test.copy), node(0), node(1));
}

static bool session_wanted(void *arg)
{
	const struct kc_node *n = arg;
	return n->state == KC_NODE_UP && !kc_session_is_open(test.session, n->index);
}

static void session_lose(void)
{
	sim_port_kill(world.sim, world.server[0].port);
	world_sleep(&world, MS);
	world_run(&world, session_wanted, node(0), 5 * SECOND, "the session stays open");
	sim_loop_freeze(world.server[0].loop[0], true);
}

static void place_prepare(enum place place)
{
	switch (place) {
	case ANSWER:
		world_server_freeze(&world, 0, true);
		break;
	case ROOM:
		world_server_freeze(&world, 0, true);
		for (unsigned i = 0; i < 64; i++)
			world_worker(&world, 0, 0, reader, NULL);
		world_sleep(&world, 10 * MS);
		break;
	case CONNECTING:
		world_server_freeze(&world, 0, true);
		kc_node_redo(node(0), "the test wants it");
		break;
	case PAUSE:
		busy(true);
		break;
	case SESSION:
		session_lose();
		break;
	case SECOND_PUT:
		world_server_freeze(&world, 1, true);
		world_do(&world, 0, copy_put, NULL);
		break;
	case REPAIR:
		world_do(&world, 0, copy_put, NULL);
		world_sleep(&world, SECOND);
		world_server_freeze(&world, 1, true);
		world_do(&world, 0, copy_note, NULL);
		world_sleep(&world, 10 * MS);
		break;
	case PLACES:
		break;
	}
}

static bool answer_awaited(void)
{
	for (uint32_t i = 0; i < client()->reqs.count; i++)
		if (client()->reqs.entry[i].wait)
			return true;
	return false;
}

/* A call waits there. */
static bool waits(enum place place)
{
	struct kvc_client *c = client();
	switch (place) {
	case ANSWER:
		return answer_awaited();
	case ROOM:
		return c->requests->room.num_starving > 62; /* the readers that do not fit, and ours */
	case CONNECTING:
		return !co_queue_empty(&node(0)->changed);
	case PAUSE:
		return !co_queue_empty(&c->waits.time);
	case SESSION:
		return !co_queue_empty(&test.session->changed);
	case SECOND_PUT:
		return !co_queue_empty(&c->seconds->over);
	case REPAIR:
		return !co_queue_empty(&c->repairs->copied);
	case PLACES:
		break;
	}
	return false;
}

/* ---- the calls of a queue ---- */

enum op { GET, GET_REGISTERED, PUT, PUT_REGISTERED, EXISTS, DELETE, OPS };

static const char *const op_name[OPS] = {"get", "get, registered", "put", "put, registered", "exists", "delete"};

/* A DELETE needs no piece of the buffer, and a registered one neither. */
static bool op_fits(enum op op, enum place place)
{
	if (place == SECOND_PUT || place == REPAIR)
		return op == DELETE;
	return place != ROOM || op == GET || op == EXISTS;
}

static int64_t op_submit(enum op op, enum place place, uint64_t timeout_ns)
{
	struct kvc_call call = {.size = sizeof(call),
				.timeout_ns = timeout_ns,
				.flags = place == SECOND_PUT ? KVC_TWO_COPIES : 0,
				.session = place == SESSION ? test.session : NULL};
	bool registered = op == GET_REGISTERED || op == PUT_REGISTERED;
	test.item = (struct kvc_item){.key = key_of(op == GET || op == GET_REGISTERED ? test.key : test.copy),
				      .data = registered ? test.memory : test.bytes,
				      .len = kv_align_down(LARGE, 4096)};
	switch (op) {
	case GET:
	case GET_REGISTERED:
		test.item.len = LARGE;
		test.item.data = registered ? test.memory : test.bytes;
		return kvc_submit_get(test.queue, &test.item, 1, &call, 0);
	case PUT:
	case PUT_REGISTERED:
		return kvc_submit_put(test.queue, &test.item, 1, &call, 0);
	case EXISTS:
		return kvc_submit_exists(test.queue, &test.item, 1, &call, 0);
	default:
		return kvc_submit_delete(test.queue, &test.item, 1, &call, 0);
	}
}

static bool reaped(void *arg)
{
	(void)arg;
	return kvc_reap(test.queue, &test.over, 1) == 1;
}

/* Returns how long the call goes on. */
static uint64_t op_end(enum end end, int64_t id)
{
	uint64_t begun = world_now(&world);
	switch (end) {
	case CANCEL:
		assert_int_equal(kvc_cancel(test.queue, (uint64_t)id), 0);
		break;
	case QUEUE_CLOSE:
		assert_int_equal(kvc_queue_close(&test.queue), 1);
		return world_now(&world) - begun;
	case POOL_CLOSE:
		world_pool_stop(&world, 0);
		break;
	case DEADLINE:
		begun += TIMEOUT - BEGIN;
		break;
	case ENDS:
		break;
	}
	world_run(&world, reaped, NULL, 10 * SECOND, "an id has no completion");
	return world_now(&world) - begun;
}

static bool code_right(enum end end, enum place place, int64_t rc)
{
	switch (end) {
	case CANCEL:
	case QUEUE_CLOSE:
		return rc == -KV_ECANCELED;
	case POOL_CLOSE:
		return rc == -KV_ECLOSED || (place == PAUSE && rc == -KV_EBUSY);
	default:
		return rc == -KV_ETIMEOUT || (place == PAUSE && rc == -KV_EBUSY);
	}
}

static void op_ends(enum op op, enum place place, enum end end, uint64_t seed)
{
	uint64_t took, bound = place == ANSWER ? GRACE : 0;
	int64_t id;
	open_world(seed);
	place_prepare(place);
	id = op_submit(op, place, end == DEADLINE ? TIMEOUT : LONG);
	assert_true(id > 0);
	world_sleep(&world, BEGIN);
	if (!waits(place))
		fail_msg("%s: the call does not wait for: %s", op_name[op], place_name[place]);
	took = op_end(end, id);
	if (took > bound + LATE)
		fail_msg("%s that waits for: %s took %.3f ms to end by %s", op_name[op], place_name[place],
			 (double)took / 1e6, end_name[end]);
	if (!code_right(end, place, test.item.result))
		fail_msg("%s that waits for: %s ended by %s with %s", op_name[op], place_name[place], end_name[end],
			 kv_errname((int)test.item.result));
	close_world();
}

static void calls_of_a_queue_end(void **state)
{
	enum place place = (enum place)(uintptr_t)*state;
	for (unsigned op = 0; op < OPS; op++)
		for (unsigned end = 0; end < ENDS && op_fits((enum op)op, place); end++)
			op_ends((enum op)op, place, (enum end)end, 1 + op + end);
}

/* ---- the calls that no queue has ---- */

static void timed(int rc)
{
	test.code = rc;
	test.over_ns = world_now(&world);
}

static void drain_await(struct kvc_client *c, void *arg)
{
	timed(kvc_drain_await(c, NULL,
			      &(struct kvc_call){.size = sizeof(struct kvc_call), .timeout_ns = *(uint64_t *)arg}));
}

static void unpin_await(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = *(uint64_t *)arg};
	timed(kvc_unpin_await(c, key_of(test.key), &call));
}

static void session_close_await(struct kvc_client *c, void *arg)
{
	timed(kvc_session_close_await(c, &test.session, *(uint64_t *)arg));
}

static void pin_make(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .session = arg};
	if (kvc_pin_await(c, key_of(test.key), &call) < 0)
		world_wrong(&world, "a value could not be pinned");
}

static bool pinning_again(void *arg)
{
	const struct kc_node *n = arg;
	return n->state == KC_NODE_UP && n->pins->pinners > 0;
}

static void pins_lose(struct kvc_session *session)
{
	world_do(&world, 0, pin_make, session);
	sim_port_kill(world.sim, world.server[0].port);
	world_sleep(&world, MS);
	world_run(&world, pinning_again, node(0), 5 * SECOND, "pins are not made again");
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], true);
}

static void control_freeze(void)
{
	sim_loop_freeze(world.server[0].loop[0], true);
}

static void nothing(void)
{
}

static void pin_lose(void)
{
	pins_lose(NULL);
}

static void session_pin_lose(void)
{
	pins_lose(test.session);
}

/* Each: how it comes to wait, and the call. `late`: the code at the deadline. */
static const struct other {
	const char *name;
	void (*prepare)(void);
	void (*call_await)(struct kvc_client *c, void *arg);
	int late, closed;
} others[] = {
	{"drain, the answer", control_freeze, drain_await, -KV_ETIMEOUT, -KV_ECLOSED},
	{"drain, the goodbye", nothing, drain_await, -KV_ETIMEOUT, -KV_ECLOSED},
	{"unpin, behind a pin that is made again", pin_lose, unpin_await, -KV_ETIMEOUT, -KV_ECLOSED},
	{"closing a session, the answer", control_freeze, session_close_await, -KV_ETIMEOUT, 0},
	{"closing a session, behind a pin that is made again", session_pin_lose, session_close_await, -KV_EBUSY,
	 -KV_ECLOSED},
};

static void other_ends(const struct other *o, bool close, uint64_t seed)
{
	uint64_t timeout_ns = close ? LONG : TIMEOUT, end_ns;
	open_world(seed);
	o->prepare();
	end_ns = world_now(&world) + (close ? BEGIN : TIMEOUT);
	world_worker(&world, 0, 0, o->call_await, &timeout_ns);
	world_sleep(&world, BEGIN);
	if (kv_list_empty(&client()->waits.all))
		fail_msg("%s: the call does not wait", o->name);
	if (close)
		world_pool_stop(&world, 0);
	world_join(&world, 5 * SECOND);
	if (test.over_ns > end_ns + LATE)
		fail_msg("%s: it took %.3f ms to end", o->name, (double)(test.over_ns - end_ns) / 1e6);
	if (test.code != (close ? o->closed : o->late))
		fail_msg("%s: it ended with %s", o->name, kv_errname(test.code));
	close_world();
}

static void calls_of_workers_end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(others); i++)
		for (unsigned close = 0; close < 2; close++)
			other_ends(&others[i], close, 50 + i);
}

/* ---- ids that are cancelled while others take their places ---- */

/* A thread in kvc_cancel finds that the id is being made. Before it goes on, the id ends, and its place is another's,
 * which is cancelled, too. The first thread then asks the loop to stop what has ended: nobody but the second is
 * stopped. */
static void a_late_cancel_leaves_that_of_the_next_id(void **state)
{
	struct kvc_queue_options o = {.size = sizeof(o), .depth = 1};
	struct kc_queue_part *part;
	int64_t first, second;
	(void)state;
	open_world(60);
	assert_int_equal(kvc_queue_close(&test.queue), 0);
	assert_int_equal(kvc_queue_open(world.pool[0].pool, &o, &test.queue, NULL), 0);
	part = &test.queue->entry[0].part[0];
	first = op_submit(EXISTS, ANSWER, LONG);
	world_run(&world, reaped, NULL, SECOND, "EXISTS does not end");
	world_server_freeze(&world, 0, true);
	second = op_submit(EXISTS, ANSWER, LONG);
	assert_true(second > first);
	world_sleep(&world, BEGIN);
	assert_int_equal(kvc_cancel(test.queue, (uint64_t)second), 0);
	assert_int_equal(kc_lane_stop(part, (uint64_t)first), 0);
	world_run(&world, reaped, NULL, SECOND, "a cancel was lost");
	assert_int_equal(test.item.result, -KV_ECANCELED);
	/* One that comes late stops no other. */
	world_server_freeze(&world, 0, false);
	second = op_submit(EXISTS, ANSWER, LONG);
	assert_true(second > first);
	assert_int_equal(kc_lane_stop(part, (uint64_t)first), 0);
	world_run(&world, reaped, NULL, SECOND, "EXISTS does not end");
	assert_true(test.item.result >= 0);
	close_world();
}

#define QUEUE_CALLS(name, place) {#name, calls_of_a_queue_end, NULL, NULL, (void *)(uintptr_t)(place)}

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUEUE_CALLS(a_call_that_waits_for_an_answer_ends, ANSWER),
		QUEUE_CALLS(a_call_that_waits_for_room_ends, ROOM),
		QUEUE_CALLS(a_call_that_waits_for_a_connection_ends, CONNECTING),
		QUEUE_CALLS(a_call_that_pauses_ends, PAUSE),
		QUEUE_CALLS(a_call_that_waits_for_its_session_ends, SESSION),
		QUEUE_CALLS(a_delete_that_waits_for_a_second_copy_ends, SECOND_PUT),
		QUEUE_CALLS(a_delete_that_waits_for_a_repair_ends, REPAIR),
		cmocka_unit_test(calls_of_workers_end),
		cmocka_unit_test(a_late_cancel_leaves_that_of_the_next_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
