/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c -- the log of a server's events: numbers, gaps, losses, waiters, and answers of bounded size. */
#include "tests/check.h"

#include <errno.h>

#include "kvserver/events/events.h"

enum { SHARDS = 2 };

#define EPOCH 0x1234u

static struct events log_of;
static uint8_t packed[WIRE_EVENTS_BYTES];

static void log_open(void)
{
	log_of = (struct events){0};
	assert_int_equal(events_make(&log_of, EPOCH, SHARDS), 0);
}

/* Event n of a shard has the key "n" in decimal, and n bytes. */
static void happen(unsigned shard, enum journal_what what, uint64_t n)
{
	char key[24];
	int len = snprintf(key, sizeof(key), "%llu", (unsigned long long)n);
	journal_put(log_of.journal[shard], what, JOURNAL_MEMORY, "", key, (size_t)len, n);
}

static void clear(unsigned shard, const char *space, uint64_t generation)
{
	journal_put(log_of.journal[shard], JOURNAL_CLEARED, JOURNAL_MEMORY, space, NULL, 0, generation);
}

static int ask(uint64_t epoch, uint64_t next, struct wire_events *out)
{
	return events_answer(&log_of, &(struct wire_events){.epoch = epoch, .next = next}, packed, out);
}

/* What was sent decodes on the other side. */
static void check_answer(const struct wire_events *v)
{
	static uint8_t bytes[WIRE_EVENTS_BYTES + 100];
	static struct wire_ctrl_msg m;
	const struct wire_ctrl_msg from = {.type = WIRE_CTRL_EVENTS, .events = *v};
	int len = wire_ctrl_encode(&from, bytes, sizeof(bytes));
	assert_true(len > 0);
	assert_int_equal(wire_ctrl_decode(bytes, (size_t)len, &m), 0);
	assert_int_equal(m.events.count, v->count);
}

static struct wire_event event_at(const struct wire_events *v, uint32_t index)
{
	struct wire_event e = {0};
	uint32_t at = 0;
	for (uint32_t i = 0; i <= index; i++)
		assert_int_equal(wire_event_take(v->events, v->events_len, &at, &e), 0);
	return e;
}

static void events_have_consecutive_numbers(void **state)
{
	struct wire_events v;
	(void)state;
	log_open();
	assert_int_equal(ask(EPOCH, 1, &v), 0);
	assert_int_equal(event_at(&v, 0).what, WIRE_EVENT_CLEARED); /* a process begins */
	assert_int_equal(ask(EPOCH, 2, &v), -EAGAIN);
	happen(0, JOURNAL_STORED, 7);
	happen(1, JOURNAL_STORED, 8);
	happen(0, JOURNAL_REMOVED, 7);
	assert_int_equal(ask(EPOCH, 2, &v), -EAGAIN); /* not taken yet */
	events_take(&log_of);
	assert_int_equal(ask(EPOCH, 2, &v), 0);
	check_answer(&v);
	assert_true(v.epoch == EPOCH && v.first == 2 && v.next == 5 && v.count == 3 && v.flags == 0);
	assert_int_equal(event_at(&v, 0).what, WIRE_EVENT_STORED);
	assert_int_equal(event_at(&v, 0).bytes, 7);
	assert_int_equal(event_at(&v, 1).what, WIRE_EVENT_REMOVED); /* those of one shard keep their order */
	assert_memory_equal(event_at(&v, 2).key, "8", 1);
	assert_int_equal(ask(EPOCH, 4, &v), 0);
	assert_true(v.first == 4 && v.count == 1);
	assert_int_equal(ask(EPOCH, 5, &v), -EAGAIN);
	events_free(&log_of);
}

static void an_ask_from_now_on_learns_the_number(void **state)
{
	struct wire_events v;
	(void)state;
	log_open();
	happen(0, JOURNAL_STORED, 1);
	events_take(&log_of);
	assert_int_equal(ask(0, 0, &v), 0);
	check_answer(&v);
	assert_true(v.epoch == EPOCH && v.next == 3 && v.count == 0 && v.flags == 0);
	events_free(&log_of);
}

static void assert_gap(uint64_t epoch, uint64_t next)
{
	struct wire_events v;
	assert_int_equal(ask(epoch, next, &v), 0);
	check_answer(&v);
	assert_int_equal(v.flags, WIRE_EVENTS_GAP);
	assert_true(v.epoch == EPOCH && v.next == log_of.next && v.count == 0);
}

static void numbers_that_the_log_lacks_are_a_gap(void **state)
{
	struct wire_events v;
	(void)state;
	log_open();
	for (uint64_t n = 1; n < EVENTS_LOG + 10; n++) {
		happen(n % SHARDS, JOURNAL_STORED, n);
		if (n % 1000 == 0)
			events_take(&log_of);
	}
	events_take(&log_of);
	assert_int_equal(log_of.next, EVENTS_LOG + 11);
	assert_gap(EPOCH, 1);
	assert_gap(EPOCH, 10);
	assert_int_equal(ask(EPOCH, 11, &v), 0);
	check_answer(&v);
	assert_true(v.first == 11 && v.flags == 0 && v.count > 1000);
	assert_gap(EPOCH, EVENTS_LOG + 12); /* the future of this epoch */
	assert_gap(EPOCH + 1, 11);          /* another process */
	assert_int_equal(ask(EPOCH, EVENTS_LOG + 11, &v), -EAGAIN);
	events_free(&log_of);
}

/* All answers together have each event once. */
static void answers_are_bounded_and_leave_nothing_out(void **state)
{
	const uint64_t all = 10000;
	struct wire_events v;
	uint64_t next = 2;
	(void)state;
	log_open();
	for (uint64_t n = 2; n <= all; n++)
		happen(0, JOURNAL_STORED, n);
	events_take(&log_of);
	while (next <= all) {
		assert_int_equal(ask(EPOCH, next, &v), 0);
		check_answer(&v);
		assert_true(v.first == next && v.count > 0 && v.events_len <= WIRE_EVENTS_BYTES);
		assert_int_equal(event_at(&v, 0).bytes, next);
		assert_int_equal(event_at(&v, v.count - 1).bytes, v.next - 1);
		next = v.next;
	}
	assert_int_equal(ask(EPOCH, next, &v), -EAGAIN);
	events_free(&log_of);
}

static void events_lost_by_a_shard_show_in_the_log(void **state)
{
	struct wire_events v;
	(void)state;
	log_open();
	for (uint64_t n = 0; n < JOURNAL_ENTRIES + 5; n++)
		happen(1, JOURNAL_STORED, n);
	events_take(&log_of);
	assert_int_equal(log_of.next, JOURNAL_ENTRIES + 3);
	assert_int_equal(ask(EPOCH, JOURNAL_ENTRIES + 2, &v), 0);
	check_answer(&v);
	assert_int_equal(event_at(&v, 0).what, WIRE_EVENT_LOST);
	events_take(&log_of);
	assert_int_equal(log_of.next, JOURNAL_ENTRIES + 3); /* once */
	events_free(&log_of);
}

/* All shards report a clear; the first report is for all. */
static void a_clear_is_reported_once_with_its_namespace(void **state)
{
	struct wire_events v;
	(void)state;
	log_open();
	clear(0, "a", 3);
	events_take(&log_of);
	clear(1, "a", 3);
	clear(1, "b", 3);
	clear(0, "a", 2);
	events_take(&log_of);
	assert_int_equal(log_of.next, 4);
	clear(1, "a", 4);
	events_take(&log_of);
	assert_int_equal(ask(EPOCH, 2, &v), 0);
	check_answer(&v);
	assert_int_equal(v.count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_event e = event_at(&v, i);
		assert_int_equal(e.what, WIRE_EVENT_CLEARED);
		assert_true(e.key_len == 0 && e.space_len == 1 && e.space[0] == "aba"[i] && e.bytes == 0);
	}
	events_free(&log_of);
}

static unsigned woken;

static void wake(struct events_waiter *w)
{
	(void)w;
	woken++;
}

static void waiters_are_called_once(void **state)
{
	struct events_waiter a = {.due = wake}, b = {.due = wake};
	(void)state;
	log_open();
	woken = 0;
	events_unwait(&a);
	events_wait(&log_of, &a);
	events_wait(&log_of, &a);
	events_wait(&log_of, &b);
	events_take(&log_of);
	assert_int_equal(woken, 0);
	events_unwait(&b);
	happen(0, JOURNAL_STORED, 1);
	events_take(&log_of);
	assert_int_equal(woken, 1);
	happen(0, JOURNAL_STORED, 2);
	events_take(&log_of);
	assert_int_equal(woken, 1);
	events_free(&log_of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_have_consecutive_numbers),
		cmocka_unit_test(an_ask_from_now_on_learns_the_number),
		cmocka_unit_test(numbers_that_the_log_lacks_are_a_gap),
		cmocka_unit_test(answers_are_bounded_and_leave_nothing_out),
		cmocka_unit_test(events_lost_by_a_shard_show_in_the_log),
		cmocka_unit_test(a_clear_is_reported_once_with_its_namespace),
		cmocka_unit_test(waiters_are_called_once),
	};
	return cmocka_run_group_tests_name("kvserver/events", tests, NULL, NULL);
}
