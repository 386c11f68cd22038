/* SPDX-License-Identifier: Apache-2.0 */
/* test_admission.c -- admission among many servers of which some are stuck: what they take, and what that leaves to the
 * next. (How calls wait for it is shown in simulation: tests/sim/test_sim_peers.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvclient/request/admission.h"
#include "kvclient/request/private.h"
#include "kvclient/request/requests.h"

enum { SERVERS = 1000, IMMS = 4096 };

#define BUFFER (64ull << 20)

static struct {
	struct kvc_pool pool;
	struct kvc_client client;
	struct loop *loop;
	void *memory;
} t;

static int setup(void **state)
{
	struct kvc_client *c = &t.client;
	(void)state;
	t.client.num_nodes = SERVERS;
	c->pool = &t.pool;
	assert_int_equal(kc_requests_open(c), 0);
	c->requests->room.imm_limit = IMMS;
	c->node = calloc(SERVERS, sizeof(*c->node));
	assert_non_null(c->node);
	assert_non_null(t.memory = aligned_alloc(4096, BUFFER));
	assert_int_equal(loop_create(&(struct loop_options){0}, &t.loop, NULL), 0);
	c->loop = t.loop;
	assert_int_equal(kc_reqs_init(&c->reqs, KC_REQS), 0);
	assert_int_equal(kc_buffer_init(&c->buffer, t.memory, BUFFER), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kc_requests_close(&t.client);
	kc_buffer_fini(&t.client.buffer);
	kc_reqs_fini(&t.client.reqs);
	loop_destroy(&t.loop);
	free(t.client.node);
	free(t.memory);
	t.client = (struct kvc_client){0};
	return 0;
}

/* Requests to one server, none of which ever ends, until it gets no more. */
static unsigned take_all(unsigned server, uint64_t piece_bytes, uint32_t imms)
{
	struct kc_need need = {.piece_bytes = piece_bytes, .imms = imms, .node = &t.client.node[server]};
	struct kc_req *r;
	unsigned n = 0;
	while (kc_room_try(&t.client, &need, &r) == 0)
		n++;
	return n;
}

/* Of what is free to each server that becomes stuck, it leaves eight ninths and a request. */
static void stuck_servers_leave_some_free(void **state)
{
	struct kvc_client *c = &t.client;
	(void)state;
	t.client.num_nodes = 64;
	for (unsigned k = 0; k < 40; k++) {
		uint64_t bytes = c->buffer.free_bytes;
		uint32_t reqs = c->reqs.count - c->reqs.used,
			 imms = c->requests->room.imm_limit - c->requests->room.imm_used;
		assert_true(take_all(k, 16 << 10, 1) > 0);
		assert_true(c->buffer.free_bytes >= bytes / 9 * 8);
		assert_true(c->reqs.count - c->reqs.used >= reqs / 9 * 8);
		assert_true(c->requests->room.imm_limit - c->requests->room.imm_used >= imms / 9 * 8);
	}
	assert_true(take_all(63, 16 << 10, 1) > 0);
}

static void of_few_servers_the_last_has_its_part(void **state)
{
	struct kvc_client *c = &t.client;
	(void)state;
	for (unsigned n = 2; n <= 9; n++) {
		uint64_t least = BUFFER * 3 / 8 / n; /* about 1/e, and of that its part */
		t.client.num_nodes = n;
		for (unsigned k = 0; k + 1 < n; k++)
			take_all(k, 64 << 10, 1);
		take_all(n - 1, 64 << 10, 1);
		assert_true(c->node[n - 1].share.bytes + (64 << 10) > least);
		teardown(state);
		setup(state);
	}
}

static void one_server_may_have_half_of_two_and_a_ninth_of_many(void **state)
{
	struct kvc_client *c = &t.client;
	(void)state;
	t.client.num_nodes = 64;
	assert_int_equal(take_all(0, 64 << 10, 1), BUFFER / 9 / (64 << 10));
	assert_int_equal(c->requests->room.servers_bytes, c->node[0].share.bytes);
	t.client.num_nodes = 2;
	assert_int_equal(take_all(0, 64 << 10, 1), BUFFER / 2 / (64 << 10) - BUFFER / 9 / (64 << 10));
	assert_int_equal(c->requests->room.servers_bytes, BUFFER / 2);
}

/* What is planned for one request is never out of reach because of how many servers there are. */
static void a_request_as_planned_fits_beside_eleven_that_are_stuck(void **state)
{
	struct kvc_client *c = &t.client;
	struct kc_need need = {.node = &c->node[63]};
	struct kc_req *r;
	(void)state;
	t.client.num_nodes = 64;
	need.piece_bytes = kc_room_piece(c);
	need.imms = kc_room_imms(c);
	assert_int_equal(need.piece_bytes, BUFFER / 32);
	assert_int_equal(need.imms, IMMS / 32);
	for (unsigned i = 0; i < 11; i++)
		take_all(i, 64 << 10, 1);
	assert_int_equal(kc_room_try(c, &need, &r), 0);
}

/* However many there are: each that is stuck has as many pieces, immediates and entries as it can get. */
static void a_request_as_planned_fits_beside_an_eighth_that_is_stuck(void **state)
{
	struct kvc_client *c = &t.client;
	(void)state;
	for (unsigned n = 16; n <= SERVERS; n = n < 512 ? 2 * n : n + 488) {
		struct kc_need need = {.node = &c->node[n - 1]};
		struct kc_req *r;
		t.client.num_nodes = n;
		need.piece_bytes = kc_room_piece(c);
		need.imms = kc_room_imms(c);
		for (unsigned i = 0; i < n / 8; i++) {
			take_all(i, need.piece_bytes, need.imms); /* as planned, and then what is small */
			take_all(i, 4 << 10, 1);
		}
		assert_int_equal(kc_room_try(c, &need, &r), 0);
		teardown(state);
		setup(state);
	}
}

/* With one server nothing of it counts. */
static void a_server_alone_has_everything(void **state)
{
	(void)state;
	t.client.num_nodes = 1;
	assert_int_equal(take_all(0, 64 << 10, 1), BUFFER / (64 << 10));
	assert_int_equal(t.client.buffer.free_bytes, 0);
}

/* ---- the background ---- */

static void the_background_has_half_at_most(void **state)
{
	struct kvc_client *c = &t.client;
	struct kc_need need = {.node = &c->node[0], .background = true}, large = {.piece_bytes = BUFFER / 4 * 3};
	struct kc_req *r[KC_BACKGROUND_OUT], *one;
	(void)state;
	t.client.num_nodes = 1;
	large.node = need.node;
	large.background = true;
	for (unsigned i = 0; i < KC_BACKGROUND_OUT; i++)
		assert_int_equal(kc_room_try(c, &need, &r[i]), 0);
	assert_int_equal(kc_room_try(c, &need, &one), -KV_EBUSY);
	need.node = &c->node[1];
	assert_int_equal(kc_room_try(c, &need, &one), 0); /* another server's */
	kc_room_return(c, one);
	kc_reqs_give(&c->reqs, one);
	for (unsigned i = 0; i < KC_BACKGROUND_OUT; i++) {
		kc_room_return(c, r[i]);
		kc_reqs_give(&c->reqs, r[i]);
	}
	assert_int_equal(c->requests->room.background.reqs + c->node[0].share.background, 0);
	need.piece_bytes = BUFFER / 4;
	assert_int_equal(kc_room_try(c, &need, &r[0]), 0);
	assert_int_equal(kc_room_try(c, &need, &r[1]), 0);
	assert_int_equal(kc_room_try(c, &need, &one), -KV_EBUSY);
	need.background = false;
	assert_int_equal(kc_room_try(c, &need, &one), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct kc_req *end = i < 2 ? r[i] : one;
		kc_room_return(c, end);
		kc_reqs_give(&c->reqs, end);
	}
	assert_int_equal(c->requests->room.background.bytes, 0);
	large.piece_bytes = kc_buffer_largest(&c->buffer);
	assert_int_equal(kc_room_try(c, &large, &one), 0); /* a large one alone has what it needs */
	kc_room_return(c, one);
	kc_reqs_give(&c->reqs, one);
}

enum { BEHIND = 3, OTHERS = 40, WAITERS = BEHIND + OTHERS, HELD = 64 };

static struct {
	struct kc_req *held[HELD];
	char order[WAITERS];
	unsigned ended, late;
	uint64_t deadline_ns;
} line;

static void wait_in_line(void *arg)
{
	bool background = arg != NULL;
	struct kc_need need = {.imms = IMMS / HELD, .node = &t.client.node[0], .background = background};
	struct kc_req *r;
	int rc = kc_room_await(&t.client, &need, line.deadline_ns, &r);
	if (rc == -KV_ETIMEOUT) {
		line.late++;
		return;
	}
	line.order[line.ended++] = rc < 0 ? '!' : background ? 'b' : 'f'; /* it keeps what it got */
}

static void line_up(unsigned background, unsigned others)
{
	const struct kc_need need = {.imms = IMMS / HELD, .node = &t.client.node[0]};
	memset(&line, 0, sizeof(line));
	line.deadline_ns = KV_NEVER;
	t.client.num_nodes = 1;
	for (unsigned i = 0; i < HELD; i++)
		assert_int_equal(kc_room_try(&t.client, &need, &line.held[i]), 0);
	for (unsigned i = 0; i < background; i++)
		assert_int_equal(co_spawn(t.loop, wait_in_line, &line, "test"), 0);
	loop_turn(t.loop, 0);
	for (unsigned i = 0; i < others; i++)
		assert_int_equal(co_spawn(t.loop, wait_in_line, NULL, "test"), 0);
	loop_turn(t.loop, 0);
	assert_int_equal(line.ended, 0);
}

/* One place more. */
static void line_serve(unsigned i)
{
	kc_room_return(&t.client, line.held[i]);
	kc_reqs_give(&t.client.reqs, line.held[i]);
	kc_room_feed(&t.client);
	loop_turn(t.loop, 0);
}

static void the_background_is_last_and_does_not_starve(void **state)
{
	(void)state;
	line_up(BEHIND, OTHERS);
	for (unsigned i = 0; i < WAITERS; i++)
		line_serve(i);
	assert_int_equal(line.ended, WAITERS);
	for (unsigned i = 0; i < WAITERS; i++) {
		bool turn = i == KC_PASSED_MAX || i == 2 * KC_PASSED_MAX + 1 || i == WAITERS - 1;
		assert_int_equal(line.order[i], turn ? 'b' : 'f');
	}
	assert_int_equal(t.client.requests->room.num_starving, 0);
}

/* Several places at once, and what is given at once passes the background, too. */
static void what_need_not_wait_passes_the_background_as_often(void **state)
{
	const struct kc_need need = {.imms = IMMS / HELD, .node = &t.client.node[0]};
	struct kc_req *r;
	(void)state;
	line_up(1, 0);
	for (unsigned i = 0; i < KC_PASSED_MAX; i++) {
		kc_room_return(&t.client, line.held[i]);
		kc_reqs_give(&t.client.reqs, line.held[i]);
		assert_int_equal(kc_room_try(&t.client, &need, &r), 0);
		assert_int_equal(line.ended, 0);
	}
	kc_room_return(&t.client, line.held[KC_PASSED_MAX]);
	kc_reqs_give(&t.client.reqs, line.held[KC_PASSED_MAX]);
	assert_int_equal(kc_room_try(&t.client, &need, &r), -KV_EBUSY); /* it is the other one's turn */
	kc_room_feed(&t.client);
	loop_turn(t.loop, 0);
	assert_int_equal(line.ended, 1);
	assert_int_equal(line.order[0], 'b');
}

/* One that waits because the background has its part at its server. It never gets more. */
static void wait_for_another_server(void *arg)
{
	struct kc_need need = {.node = &t.client.node[1], .background = true};
	struct kc_req *r;
	*(int *)arg = kc_room_await(&t.client, &need, KV_NEVER, &r);
}

static void what_a_slow_server_holds_up_in_the_background_starves_no_other(void **state)
{
	const struct kc_need slow = {.node = &t.client.node[1], .background = true};
	struct kc_req *r;
	int held = 1;
	unsigned at = 0;
	(void)state;
	t.client.num_nodes = 1;
	for (unsigned i = 0; i < KC_BACKGROUND_OUT; i++)
		assert_int_equal(kc_room_try(&t.client, &slow, &r), 0);
	assert_int_equal(co_spawn(t.loop, wait_for_another_server, &held, "test"), 0);
	loop_turn(t.loop, 0);
	assert_false(kv_list_empty(&t.client.requests->room.behind));
	line_up(1, OTHERS);
	for (unsigned i = 0; i < OTHERS; i++)
		line_serve(i);
	while (at < line.ended && line.order[at] != 'b')
		at++;
	assert_int_equal(at, KC_PASSED_MAX);
	assert_int_equal(held, 1);
	line_serve(OTHERS);
	assert_int_equal(line.ended, OTHERS + 1);
	kc_room_close(&t.client);
	loop_turn(t.loop, 0);
	assert_int_equal(held, -KV_ECLOSED);
}

static void the_background_keeps_its_deadline_and_ends_with_the_client(void **state)
{
	(void)state;
	line_up(BEHIND, 1);
	kc_room_close(&t.client);
	loop_turn(t.loop, 0);
	assert_int_equal(line.ended, BEHIND + 1);
	assert_int_equal(line.order[BEHIND], '!');
	assert_int_equal(t.client.requests->room.num_starving, 0);
	memset(&line, 0, sizeof(line));
	line.deadline_ns = loop_now(t.loop) + 1;
	for (unsigned i = 0; i < BEHIND; i++)
		assert_int_equal(co_spawn(t.loop, wait_in_line, &line, "test"), 0);
	for (unsigned turns = 0; line.late < BEHIND && turns < 1000; turns++)
		loop_turn(t.loop, 1000000);
	assert_int_equal(line.late, BEHIND);
	assert_int_equal(t.client.requests->room.num_starving, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stuck_servers_leave_some_free, setup, teardown),
		cmocka_unit_test_setup_teardown(of_few_servers_the_last_has_its_part, setup, teardown),
		cmocka_unit_test_setup_teardown(one_server_may_have_half_of_two_and_a_ninth_of_many, setup, teardown),
		cmocka_unit_test_setup_teardown(a_request_as_planned_fits_beside_eleven_that_are_stuck, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_request_as_planned_fits_beside_an_eighth_that_is_stuck, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_server_alone_has_everything, setup, teardown),
		cmocka_unit_test_setup_teardown(the_background_has_half_at_most, setup, teardown),
		cmocka_unit_test_setup_teardown(the_background_is_last_and_does_not_starve, setup, teardown),
		cmocka_unit_test_setup_teardown(what_need_not_wait_passes_the_background_as_often, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_slow_server_holds_up_in_the_background_starves_no_other, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_background_keeps_its_deadline_and_ends_with_the_client, setup,
						teardown),
	};
	return cmocka_run_group_tests_name("kvclient/admission", tests, NULL, NULL);
}
