/* SPDX-License-Identifier: Apache-2.0 */
/* test_follow.c -- questions for events on a control connection, message by message: good ones, odd ones, and one that
 * waits while its client leaves. */
#include "tests/kvserver/control.h"

static int up(void **state)
{
	struct kvs_options o = server_options();
	(void)state;
	o.events = true;
	talk_up(&o);
	return 0;
}

static void ask(struct boot_conn *c, const struct wire_events *v, struct wire_ctrl_msg *out)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_EVENTS_ASK, .events = *v};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, out) == 0);
	expect(out->type == WIRE_CTRL_EVENTS);
}

static void questions(void)
{
	struct wire_ctrl_msg m, late;
	struct boot_conn *c = greet(&m);
	uint64_t epoch = m.welcome.incarnation;
	expect(m.welcome.flags & WIRE_WELCOME_EVENTS);
	ask(c, &(struct wire_events){.epoch = epoch, .next = 1}, &m); /* CLEARED: the process begins */
	expect(m.events.epoch == epoch && m.events.first == 1 && m.events.next == 2 && m.events.count == 1);
	ask(c, &(struct wire_events){0}, &m);
	expect(m.events.epoch == epoch && m.events.next == 2 && m.events.count == 0);
	ask(c, &(struct wire_events){.epoch = epoch + 1, .next = 2}, &m);
	expect(m.events.flags == WIRE_EVENTS_GAP);
	for (unsigned shard = 0; shard < SHARDS; shard++) {
		ask(c, &(struct wire_events){.flags = WIRE_EVENTS_SNAPSHOT, .shard = shard, .at = UINT32_MAX}, &m);
		expect(m.events.flags == WIRE_EVENTS_SNAPSHOT && m.events.count == 0);
		expect(shard + 1 < SHARDS ? m.events.shard == shard + 1 && m.events.at == UINT32_MAX
					  : m.events.at == 0);
	}
	/* One that waits is replaced by the next one: there is one answer. */
	late = (struct wire_ctrl_msg){.type = WIRE_CTRL_EVENTS_ASK, .events = {.epoch = epoch, .next = 2}};
	expect(boot_send_await(c, &late, soon()) == 0);
	ask(c, &(struct wire_events){.epoch = epoch, .next = 1}, &m);
	expect(m.events.count == 1);
	only_beats(c, 3);
	expect(boot_send_await(c, &late, soon()) == 0);
	leave(c); /* with a question that waits */
}

static void questions_are_answered(void **state)
{
	(void)state;
	in_coroutine(questions);
}

static void ends(const struct wire_events *v)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	struct wire_ctrl_msg bad = {.type = WIRE_CTRL_EVENTS_ASK, .events = *v};
	expect(boot_send_await(c, &bad, soon()) == 0);
	expect(next(c, &m) < 0);
	boot_close(&c);
}

static void odd(void)
{
	ends(&(struct wire_events){.flags = WIRE_EVENTS_SNAPSHOT, .shard = SHARDS, .at = UINT32_MAX});
	expect(becomes(WIRE_STAT_BAD_CONTROL, 1));
}

static void a_shard_that_is_not_there_ends_the_connection(void **state)
{
	(void)state;
	in_coroutine(odd);
}

static void anew(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	struct wire_ctrl_msg late = {.type = WIRE_CTRL_EVENTS_ASK,
				     .events = {.epoch = m.welcome.incarnation, .next = 2}};
	expect(boot_send_await(c, &late, soon()) == 0);
	again(c, &m);
	expect(m.type == WIRE_CTRL_WELCOME);
	ask(c, &(struct wire_events){0}, &m);
	leave(c);
}

static void a_question_ends_with_its_attachment(void **state)
{
	(void)state;
	in_coroutine(anew);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions_are_answered),
		cmocka_unit_test(a_shard_that_is_not_there_ends_the_connection),
		cmocka_unit_test(a_question_ends_with_its_attachment),
	};
	return cmocka_run_group_tests_name("kvserver/follow", tests, up, group_down);
}
