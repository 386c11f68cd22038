/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c -- from stamps to phases: they say where the time went, and add up to all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kvclient/request/trace.h"

static uint64_t sum(const struct kvc_phases *p)
{
	return p->room_ns + p->queue_ns + p->server_ns + p->wire_ns + p->data_ns + p->wake_ns + p->check_ns +
	       p->other_ns;
}

static struct kvc_phases phases(const struct kc_trace *t, uint64_t now_ns)
{
	struct kvc_phases p;
	kc_trace_phases(t, now_ns, &p);
	assert_int_equal(p.total_ns, now_ns - t->called_ns);
	assert_int_equal(sum(&p), p.total_ns);
	assert_true(p.post_ns <= p.server_ns);
	return p;
}

static struct kc_req done_request(void)
{
	return (struct kc_req){.state = KC_REQ_DONE,
			       .at = {.asked_ns = 1000,
				      .made_ns = 1100,
				      .sent_ns = 1300,
				      .replied_ns = 2300,
				      .done_ns = 2700,
				      .server_posted_ns = 250,
				      .server_replied_ns = 400,
				      .shard = 3},
			       .wire = {.type = WIRE_GET, .get.length = 4096, .key = {(const uint8_t *)"key", 3}}};
}

static void every_phase_of_a_request_is_told(void **state)
{
	struct kc_trace t = {.on = true, .called_ns = 1000};
	struct kc_req r = done_request();
	struct kvc_phases p;
	(void)state;
	kc_trace_note(&t, &r, 9999);
	p = phases(&t, 3000);
	assert_int_equal(p.room_ns, 100);
	assert_int_equal(p.queue_ns, 200);
	assert_int_equal(p.server_ns, 400);
	assert_int_equal(p.post_ns, 250);
	assert_int_equal(p.wire_ns, 600);
	assert_int_equal(p.data_ns, 400);
	assert_int_equal(p.wake_ns, 300);
	assert_int_equal(p.other_ns, 0);
	assert_int_equal(t.requests, 1);
	assert_int_equal(t.worst.bytes, 4096);
	assert_int_equal(t.worst.shard, 3);
	assert_int_equal(t.key_len, 3);
	assert_memory_equal(t.key, "key", 3);
}

/* The turn in which the call was made began before the call, and what woke it takes part of the time after the data. */
static void what_was_before_the_call_is_not_its_own(void **state)
{
	struct kc_trace t = {.on = true, .called_ns = 1250};
	struct kc_req r = done_request();
	struct kvc_phases p;
	(void)state;
	kc_trace_note(&t, &r, 9999);
	t.woke_ns = 2760;
	p = phases(&t, 3000);
	assert_int_equal(p.room_ns, 0);
	assert_int_equal(p.queue_ns, 50);
	assert_int_equal(p.data_ns, 400);
	assert_int_equal(p.wake_ns, 60);
	assert_int_equal(p.check_ns, 240);
	assert_int_equal(p.other_ns, 0);
}

static void the_longest_of_several_is_shown(void **state)
{
	struct kc_trace t = {.on = true, .called_ns = 0};
	struct kc_req longest = done_request(), brief = done_request(), last = done_request();
	struct kvc_phases p;
	(void)state;
	brief.at =
		(struct kc_stamps){.asked_ns = 100, .made_ns = 100, .sent_ns = 100, .replied_ns = 900, .done_ns = 900};
	last.at = (struct kc_stamps){
		.asked_ns = 2700, .made_ns = 2700, .sent_ns = 2700, .replied_ns = 4000, .done_ns = 4000};
	kc_trace_note(&t, &brief, 0);
	kc_trace_note(&t, &longest, 0);
	kc_trace_note(&t, &last, 0);
	p = phases(&t, 4100);
	assert_int_equal(t.requests, 3);
	assert_int_equal(t.worst.done_ns, 2700);
	assert_int_equal(p.wake_ns, 100);
	assert_int_equal(p.other_ns, 4100 - 100 - 1700);
}

static void what_did_not_happen_is_no_phase(void **state)
{
	struct kc_trace none = {.on = true, .called_ns = 500}, unsent = none, unanswered = none;
	struct kc_req r = done_request();
	struct kvc_phases p;
	(void)state;
	p = phases(&none, 700);
	assert_int_equal(p.room_ns, 200);

	r.at.sent_ns = r.at.replied_ns = 0;
	r.at.asked_ns = 500;
	kc_trace_note(&unsent, &r, 0);
	p = phases(&unsent, 2700);
	assert_int_equal(p.room_ns, 600);
	assert_int_equal(p.queue_ns, 1600);
	assert_int_equal(p.wire_ns, 0);

	/* Given up while it is out: released before it is over. */
	r = done_request();
	r.state = KC_REQ_SENT;
	r.at.replied_ns = r.at.done_ns = 0;
	r.at.server_replied_ns = r.at.server_posted_ns = 0;
	kc_trace_note(&unanswered, &r, 5300);
	p = phases(&unanswered, 5400);
	assert_int_equal(p.wire_ns, 4000);
	assert_int_equal(p.server_ns, 0);
	assert_int_equal(p.wake_ns, 100);
	assert_int_equal(p.other_ns, 500);
}

/* What a server says is not believed beyond what we have seen. */
static void a_server_cannot_have_spent_more_than_we_waited(void **state)
{
	struct kc_trace t = {.on = true, .called_ns = 1000};
	struct kc_req r = done_request();
	struct kvc_phases p;
	(void)state;
	r.at.server_replied_ns = UINT32_MAX;
	r.at.server_posted_ns = UINT32_MAX;
	kc_trace_note(&t, &r, 0);
	p = phases(&t, 3000);
	assert_int_equal(p.server_ns, 1000);
	assert_int_equal(p.post_ns, 1000);
	assert_int_equal(p.wire_ns, 0);
}

static void a_long_key_is_kept_as_far_as_it_is_shown(void **state)
{
	struct kc_trace t = {.on = true};
	uint8_t key[128];
	(void)state;
	memset(key, 7, sizeof(key));
	kc_trace_key(&t, key, sizeof(key));
	assert_int_equal(t.key_len, 128);
	assert_memory_equal(t.key, key, KV_KEY_SHOWN);
	t = (struct kc_trace){.on = false};
	kc_trace_key(&t, key, sizeof(key));
	assert_int_equal(t.key_len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_phase_of_a_request_is_told),
		cmocka_unit_test(what_was_before_the_call_is_not_its_own),
		cmocka_unit_test(the_longest_of_several_is_shown),
		cmocka_unit_test(what_did_not_happen_is_no_phase),
		cmocka_unit_test(a_server_cannot_have_spent_more_than_we_waited),
		cmocka_unit_test(a_long_key_is_kept_as_far_as_it_is_shown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
