/* SPDX-License-Identifier: Apache-2.0 */
/* test_timer.c -- the timer heap against a stupid model (an array that is searched), and timers on a loop. */
#include <stdio.h>
#include <stdlib.h>

#include "loop/timer.h"
#include "tests/loop/harness.h"

enum { TIMERS = 200, STEPS = 200000 };

struct model_timer {
	struct loop_timer timer;
	bool armed;
	uint64_t when_ns, number;
};

static struct model_timer timers[TIMERS];
static struct timer_heap heap;
static struct kv_prng prng;
static uint64_t now, numbers, wrong, fired_total;

static void model_arm(struct model_timer *m, uint64_t when_ns)
{
	m->armed = true;
	m->when_ns = when_ns;
	m->number = ++numbers;
	timer_arm(&heap, &m->timer, when_ns);
}

static struct model_timer *model_first(void)
{
	struct model_timer *first = NULL;
	for (int i = 0; i < TIMERS; i++) {
		struct model_timer *m = &timers[i];
		if (m->armed && (!first || m->when_ns < first->when_ns ||
				 (m->when_ns == first->when_ns && m->number < first->number)))
			first = m;
	}
	return first;
}

static void model_fire(struct loop_timer *t)
{
	struct model_timer *m = KV_CONTAINER(t, struct model_timer, timer);
	wrong += m != model_first() || m->when_ns > now || loop_timer_armed(t);
	for (int i = 0; i < 4; i++)
		wrong += t->priv[i] != NULL;
	m->armed = false;
	fired_total++;
	if (kv_prng_below(&prng, 4) == 0) /* from inside: itself or another, cancel or arm, now or later */
		model_arm(m, now + kv_prng_below(&prng, 50));
	struct model_timer *other = &timers[kv_prng_below(&prng, TIMERS)];
	if (kv_prng_below(&prng, 8) == 0) {
		timer_cancel(&heap, &other->timer);
		other->armed = false;
	}
}

static void step(void)
{
	struct model_timer *m = &timers[kv_prng_below(&prng, TIMERS)];
	switch (kv_prng_below(&prng, 4)) {
	case 0:
		now += kv_prng_below(&prng, 20);
		timer_expire(&heap, now);
		break;
	case 1:
		timer_cancel(&heap, &m->timer);
		m->armed = false;
		break;
	default:
		model_arm(m, now + kv_prng_below(&prng, 1 + kv_prng_below(&prng, 1000)));
	}
	const struct model_timer *first = model_first();
	wrong += timer_next_ns(&heap) != (first ? first->when_ns : KV_NEVER);
	wrong += loop_timer_armed(&m->timer) != m->armed;
}

static void heap_agrees_with_the_model(void **state)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	(void)state;
	printf("KVRAIL_SEED=0x%llx\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	for (int i = 0; i < TIMERS; i++)
		timers[i].timer.fire = model_fire;
	for (int i = 0; i < STEPS; i++)
		step();
	assert_int_equal(wrong, 0);
	assert_true(fired_total > STEPS / 100);
}

static int order[4], ordered;
static struct loop *loop;

struct numbered {
	struct loop_timer timer;
	int number;
};

static void note(struct loop_timer *t)
{
	order[ordered++] = KV_CONTAINER(t, struct numbered, timer)->number;
}

static void equal_times_fire_in_arming_order(void **state)
{
	struct numbered t[4];
	(void)state;
	loop = harness_loop(NULL);
	ordered = 0;
	uint64_t when = loop_now(loop) + MS;
	for (int i = 0; i < 4; i++) {
		t[i] = (struct numbered){.timer = {.fire = note}, .number = i};
		loop_timer_arm(loop, &t[i].timer, when);
	}
	loop_timer_arm(loop, &t[0].timer, when); /* re-armed: now the last */
	loop_timer_cancel(loop, &t[2].timer);
	loop_timer_cancel(loop, &t[2].timer);
	while (loop_turn(loop, SECOND) == 0)
		continue;
	assert_int_equal(ordered, 3);
	assert_int_equal(order[0], 1);
	assert_int_equal(order[1], 3);
	assert_int_equal(order[2], 0);
	loop_destroy(&loop);
}

static int again;

static void rearm_for_the_past(struct loop_timer *t)
{
	again++;
	loop_timer_arm(loop, t, 0);
}

static void a_timer_always_due_starves_nobody(void **state)
{
	struct loop_timer greedy = {.fire = rearm_for_the_past};
	struct numbered modest = {.timer = {.fire = note}};
	(void)state;
	loop = harness_loop(NULL);
	ordered = again = 0;
	loop_timer_arm(loop, &greedy, 0);
	loop_timer_arm(loop, &modest.timer, loop_now(loop) + MS);
	for (int i = 0; i < 1000000 && ordered == 0; i++)
		loop_turn(loop, 0);
	assert_int_equal(ordered, 1);
	assert_true((uint64_t)again <= loop_turns(loop));
	loop_timer_cancel(loop, &greedy);
	loop_destroy(&loop);
}

static void nothing(struct loop_timer *t)
{
	(void)t;
}

static void a_hundred_thousand_siblings_need_no_recursion(void **state)
{
	enum { MANY = 100000 };
	struct loop_timer *many = calloc(MANY, sizeof(*many));
	struct timer_heap big = {0};
	(void)state;
	for (int i = 0; i < MANY; i++) {
		many[i].fire = nothing;
		timer_arm(&big, &many[i], 1 + (uint64_t)i);
	}
	assert_int_equal(timer_expire(&big, MANY), MANY);
	assert_null(big.root);
	free(many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap_agrees_with_the_model),
		cmocka_unit_test(equal_times_fire_in_arming_order),
		cmocka_unit_test(a_timer_always_due_starves_nobody),
		cmocka_unit_test(a_hundred_thousand_siblings_need_no_recursion),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
