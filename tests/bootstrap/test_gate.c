/* SPDX-License-Identifier: Apache-2.0 */
/* test_gate.c -- one computation per turn of a loop: counted, in order, and nobody starves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bootstrap/gate.h"

enum { MANY = 200 };

static struct loop *loop;
static struct gate gate;
static struct {
	uint64_t turn;
	bool begun;
	unsigned who;
} log_[2 * MANY]; /* who came through, in order */
static unsigned passed, late, running;

struct comer {
	unsigned who, rounds;
	bool begun;
	uint64_t deadline_ns;
};

static struct comer comer[MANY];

static void come(void *arg)
{
	const struct comer *c = arg;
	for (unsigned i = 0; i < c->rounds; i++) {
		if (gate_pass_await(&gate, loop, c->begun, c->deadline_ns) != 0) {
			late++;
			break;
		}
		log_[passed].turn = loop_turns(loop);
		log_[passed].begun = c->begun;
		log_[passed].who = c->who;
		passed++;
	}
	running--;
}

static void spawn(unsigned who, bool begun, unsigned rounds, uint64_t deadline_ns)
{
	comer[who] = (struct comer){.who = who, .rounds = rounds, .begun = begun, .deadline_ns = deadline_ns};
	running++;
	assert_int_equal(co_spawn(loop, come, &comer[who], "comer"), 0);
}

static void turn_until_done(void)
{
	for (unsigned i = 0; running > 0 && i < 100000; i++)
		loop_turn(loop, 1000000);
	assert_int_equal(running, 0);
}

static int setup(void **state)
{
	(void)state;
	struct loop_options options = {.name = "gate"};
	assert_int_equal(loop_create(&options, &loop, NULL), 0);
	gate_init(&gate);
	passed = late = running = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	loop_destroy(&loop);
	return 0;
}

static void one_comes_through_per_turn_in_the_order_of_coming(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		spawn(i, false, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(passed, MANY);
	assert_int_equal(gate.passed, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(log_[i].who, i);
		assert_true(i == 0 || log_[i].turn > log_[i - 1].turn);
	}
	assert_false(gate.held);
}

/* One that comes again at once is not faster than the turns. */
static void who_comes_alone_comes_through_once_per_turn(void **state)
{
	(void)state;
	spawn(0, false, 50, KV_NEVER);
	turn_until_done();
	for (unsigned i = 1; i < 50; i++)
		assert_true(log_[i].turn > log_[i - 1].turn);
}

/* However many go on, each second one is one that begins. */
static void those_that_go_on_and_those_that_begin_alternate(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		spawn(i, true, 10, KV_NEVER);
	for (unsigned i = 20; i < 40; i++)
		spawn(i, false, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(passed, 220);
	for (unsigned i = 2; i < 40; i++) /* the very first was alone */
		assert_true(log_[i].begun != log_[i - 1].begun);
	for (unsigned i = 45; i < 220; i++)
		assert_true(log_[i].begun);
}

static void who_waits_too_long_gives_up_and_the_others_go_on(void **state)
{
	(void)state;
	spawn(0, false, 1, KV_NEVER);
	spawn(1, false, 1, 1); /* a deadline that is over when it queues */
	spawn(2, false, 1, 1);
	spawn(3, false, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(passed + late, 4);
	assert_true(late >= 1);
	assert_int_equal(log_[passed - 1].who, 3);
	assert_false(gate.held);
	spawn(4, true, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(log_[passed - 1].who, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_comes_through_per_turn_in_the_order_of_coming, setup, teardown),
		cmocka_unit_test_setup_teardown(who_comes_alone_comes_through_once_per_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(those_that_go_on_and_those_that_begin_alternate, setup, teardown),
		cmocka_unit_test_setup_teardown(who_waits_too_long_gives_up_and_the_others_go_on, setup, teardown),
	};
	return cmocka_run_group_tests_name("bootstrap/gate", tests, NULL, NULL);
}
