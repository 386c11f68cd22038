/* SPDX-License-Identifier: Apache-2.0 */
/* test_gate.c -- one computation in GATE_TURNS turns of a loop: the passes are counted, they are in order, sources have
 * equal shares, and no comer starves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include "bootstrap/gate.h"

enum { MANY = 200 };

static struct loop *loop;
static struct gate gate;
static struct {
	uint64_t turn;
	bool begun;
	unsigned who;
} log_[2 * MANY]; /* the comers let through, in order */
static unsigned passed, late, cancelled, running;

struct comer {
	unsigned who, rounds;
	struct gate_comer as;
	struct co *co;
};

static struct comer comer[MANY];

static void come(void *arg)
{
	struct comer *c = arg;
	c->co = co_self();
	for (unsigned i = 0; i < c->rounds; i++) {
		int rc = gate_pass_await(&gate, loop, &c->as);
		if (rc) {
			late += rc == -KV_ETIMEOUT;
			cancelled += rc == -KV_ECANCELED;
			break;
		}
		log_[passed].turn = loop_turns(loop);
		log_[passed].begun = c->as.begun;
		log_[passed].who = c->who;
		passed++;
	}
	running--;
}

static void spawn_from(uint64_t source, unsigned who, bool begun, unsigned rounds, uint64_t deadline_ns)
{
	comer[who] = (struct comer){
		.who = who, .rounds = rounds, .as = {.begun = begun, .source = source, .deadline_ns = deadline_ns}};
	running++;
	assert_int_equal(co_spawn(loop, come, &comer[who], "comer"), 0);
}

static void spawn(unsigned who, bool begun, unsigned rounds, uint64_t deadline_ns)
{
	spawn_from(1, who, begun, rounds, deadline_ns);
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
	passed = late = cancelled = running = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	loop_destroy(&loop);
	return 0;
}

static void handshakes_come_through_one_in_some_turns_in_their_order(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		spawn(i, false, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(passed, MANY);
	assert_int_equal(gate.passed, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(log_[i].who, i);
		assert_true(i == 0 || log_[i].turn >= log_[i - 1].turn + GATE_TURNS);
	}
	assert_false(gate.held);
}

/* A single comer that comes again at once is no faster than the turns. */
static void a_handshake_alone_comes_through_no_faster(void **state)
{
	(void)state;
	spawn(0, false, 50, KV_NEVER);
	turn_until_done();
	for (unsigned i = 1; i < 50; i++)
		assert_true(log_[i].turn >= log_[i - 1].turn + GATE_TURNS);
}

/* However many later steps wait, every second pass is a first step. */
static void steps_that_go_on_and_steps_that_begin_alternate(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		spawn(i, true, 10, KV_NEVER);
	for (unsigned i = 20; i < 40; i++)
		spawn(i, false, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(passed, 220);
	for (unsigned i = 2; i < 40; i++) /* the very first came alone */
		assert_true(log_[i].begun != log_[i - 1].begun);
	for (unsigned i = 45; i < 220; i++)
		assert_true(log_[i].begun);
}

static void a_handshake_that_waits_too_long_gives_up_and_the_others_go_on(void **state)
{
	(void)state;
	spawn(0, false, 1, KV_NEVER);
	spawn(1, false, 1, KV_NEVER);
	spawn(2, false, 1, KV_NEVER);
	spawn(3, false, 1, 1); /* its deadline has passed when it queues */
	spawn(4, false, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(passed, 4);
	assert_int_equal(late, 1);
	assert_int_equal(log_[passed - 1].who, 4);
	assert_false(gate.held);
	spawn(5, true, 1, KV_NEVER);
	turn_until_done();
	assert_int_equal(log_[passed - 1].who, 5);
}

/* A newcomer of an idle source does not wait behind hundreds of another source. */
static void sources_take_turns(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		spawn_from(7, i, false, 1, KV_NEVER);
	for (unsigned i = 0; i < 5 * GATE_TURNS; i++)
		loop_turn(loop, 1000000);
	assert_in_range(passed, 3, 6);
	unsigned before = passed;
	spawn_from(8, 150, false, 2, KV_NEVER);
	spawn_from(9, 151, false, 1, KV_NEVER);
	spawn_from(8, 152, false, 1, KV_NEVER);
	for (unsigned i = 0; i < 8 * GATE_TURNS; i++)
		loop_turn(loop, 1000000);
	unsigned of_8 = 0, of_9 = 0, of_7 = 0;
	for (unsigned i = before; i < passed; i++) {
		of_8 += log_[i].who == 150 || log_[i].who == 152;
		of_9 += log_[i].who == 151;
		of_7 += log_[i].who < 100;
	}
	assert_int_equal(of_9, 1);
	assert_in_range(of_8, 2, 3);
	assert_in_range(of_7, 2, 5);
	turn_until_done();
	assert_int_equal(passed, 104);
	/* Comers of one source pass in the order in which they came. */
	for (unsigned i = 0, last = 0; i < passed; i++)
		if (log_[i].who < 100) {
			assert_true(log_[i].who >= last);
			last = log_[i].who;
		}
}

/* Compared with a naive model: the lowest tag first, and among equal tags the first to come. */
static void random_sources_share_alike(void **state)
{
	uint64_t seed;
	struct kv_prng prng;
	unsigned n[4] = {0}, first[4] = {0};
	(void)state;
	assert_int_equal(kv_entropy_fill(&kv_entropy_kernel, &seed, sizeof(seed)), 0);
	print_message("seed %llu\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned source = (unsigned)kv_prng_below(&prng, 4);
		n[source]++;
		spawn_from(source + 100, i, false, 1, KV_NEVER);
	}
	turn_until_done();
	assert_int_equal(passed, MANY);
	/* While all four wait, each has a quarter. The first two had passed, or were about to, before the others
	 * queued. */
	unsigned least = KV_MIN(KV_MIN(n[0], n[1]), KV_MIN(n[2], n[3]));
	for (unsigned i = 0; i < 4 * (least - 1); i++)
		first[comer[log_[i].who].as.source - 100]++;
	for (unsigned i = 0; i < 4; i++)
		assert_in_range(first[i], least - 2, least + 1);
}

static void a_handshake_that_is_woken_goes_and_the_others_go_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		spawn(i, false, 1, KV_NEVER);
	loop_turn(loop, 1000000);
	co_wake(comer[3].co); /* it still waits, so the wake cancels it */
	turn_until_done();
	assert_int_equal(cancelled, 1);
	assert_int_equal(passed, 3);
	assert_false(gate.held);
}

static void addresses_are_sources(void **state)
{
	struct sockaddr_storage a = {0}, b = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&b;
	(void)state;
	in->sin_family = AF_INET;
	in6->sin6_family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET, "192.0.2.7", &in->sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.7", &in6->sin6_addr), 1);
	assert_true(kv_sockaddr_source(&a) == kv_sockaddr_source(&b));
	in->sin_port = 99;
	assert_true(kv_sockaddr_source(&a) == kv_sockaddr_source(&b));
	assert_int_equal(inet_pton(AF_INET, "192.0.2.8", &in->sin_addr), 1);
	assert_true(kv_sockaddr_source(&a) != kv_sockaddr_source(&b));
	assert_int_equal(inet_pton(AF_INET6, "2001:db8:0:1::5", &in6->sin6_addr), 1);
	uint64_t one = kv_sockaddr_source(&b);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8:0:1:9::6", &in6->sin6_addr), 1);
	assert_true(kv_sockaddr_source(&b) == one);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8:0:2::5", &in6->sin6_addr), 1);
	assert_true(kv_sockaddr_source(&b) != one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(handshakes_come_through_one_in_some_turns_in_their_order, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_handshake_alone_comes_through_no_faster, setup, teardown),
		cmocka_unit_test_setup_teardown(steps_that_go_on_and_steps_that_begin_alternate, setup, teardown),
		cmocka_unit_test_setup_teardown(sources_take_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(random_sources_share_alike, setup, teardown),
		cmocka_unit_test_setup_teardown(a_handshake_that_is_woken_goes_and_the_others_go_on, setup, teardown),
		cmocka_unit_test(addresses_are_sources),
		cmocka_unit_test_setup_teardown(a_handshake_that_waits_too_long_gives_up_and_the_others_go_on, setup,
						teardown),
	};
	return cmocka_run_group_tests_name("bootstrap/gate", tests, NULL, NULL);
}
