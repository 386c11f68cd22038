/* SPDX-License-Identifier: Apache-2.0 */
/* test_health.c -- which links of an attachment work: what is waited for while it is set up, and which silence ends it.
 */
#include "links.h"

#include "kvclient/conn/private.h"
#include "kvclient/request/life.h"

#define SILENCE (1000 * MS)
#define BEAT    (100 * MS) /* links.own.pulse.beat_ns */

static struct kc_req request; /* that is out */

static void with_engine(unsigned shards, unsigned per_shard)
{
	links_up(shards, per_shard);
	links_engine();
	kv_list_init(&request.node);
}

/* ---- while it is set up ---- */

static unsigned answering; /* a bit for each link */

/* The server. The waiting coroutine looks once in a turn, as it would when a PING is over; it has no control connection
 * to look at instead. */
static void answers(void)
{
	for (unsigned i = 0; i < links.attachment->num_links; i++)
		if (answering >> i & 1 && links_ping(&links.link[i]))
			links_answer(&links.link[i], 0);
	if (links.attachment->setup.co)
		co_wake(links.attachment->setup.co);
}

static int setup_rc;

static void setup_await(void)
{
	setup_rc = kc_links_await(&links.node, links.now_ns + 2000 * MS);
}

static unsigned up(void)
{
	unsigned bits = 0;
	for (unsigned i = 0; i < links.attachment->num_links; i++)
		bits |= (unsigned)links.link[i].up << i;
	return bits;
}

/* Set it up with these links answering; how long that took. PINGs that are still out are taken back. */
static uint64_t set_up(unsigned bits)
{
	uint64_t begun_ns = links.now_ns;
	answering = bits;
	links_run(setup_await, answers);
	return links.now_ns - begun_ns;
}

static void pings_end(void)
{
	for (unsigned i = 0; i < links.attachment->num_links; i++) {
		struct kc_link *l = &links.link[i];
		if (links_ping(l))
			links_answer(l, -KV_ECLOSED);
		if (l->probe.req)
			kc_req_release(&links.client, l->probe.req);
		l->probe.req = NULL;
	}
	assert_int_equal(links.client.reqs.used, 0);
}

static void an_attachment_is_up_when_every_shard_has_answered(void **state)
{
	(void)state;
	with_engine(3, 1);
	set_up(7);
	assert_int_equal(setup_rc, 0);
	assert_int_equal(up(), 7);
	assert_int_equal(links.own.ping_ns, MS);
	assert_string_equal(links.logged, "");
	pings_end();
}

static void a_shard_that_does_not_answer_fails_it_by_the_deadline(void **state)
{
	(void)state;
	with_engine(3, 1);
	assert_in_range(set_up(5), 2000 * MS, 2100 * MS);
	assert_int_equal(setup_rc, -KV_ETIMEOUT);
	check_contains(links.node.error.text, "its shard 1 did not answer over the fabric");
	check_contains(links.node.error.text, "(link 0)");
	check_contains(links.node.error.text, "firewalls");
	pings_end();
}

static void of_several_links_to_a_shard_one_that_answers_is_enough(void **state)
{
	(void)state;
	with_engine(2, 2);
	assert_in_range(set_up(0xB), 500 * MS, 1000 * MS); /* the others had time to */
	assert_int_equal(setup_rc, 0);
	assert_int_equal(up(), 0xB);
	check_contains(links.logged, "1 of 4 links do not answer over the fabric (shard 1, link 0)");
	pings_end();
}

static void without_any_link_to_a_shard_it_fails(void **state)
{
	(void)state;
	with_engine(2, 2);
	set_up(0x3);
	assert_int_equal(setup_rc, -KV_ETIMEOUT);
	check_contains(links.node.error.text, "its shard 1 did not answer");
	pings_end();
}

static void links_that_were_out_before_are_not_waited_for_nor_told_of_again(void **state)
{
	(void)state;
	with_engine(1, 2);
	set_up(1);
	pings_end();
	links.link[0].up = false;
	links.logged[0] = 0;
	assert_in_range(set_up(1), 0, 100 * MS);
	assert_int_equal(setup_rc, 0);
	assert_string_equal(links.logged, "");
	pings_end();
}

static void a_redo_ends_setting_up(void **state)
{
	(void)state;
	with_engine(1, 2);
	links.node.redo = "a test";
	set_up(0);
	assert_int_equal(setup_rc, -KV_ERESET);
	pings_end();
}

/* ---- while it is up ---- */

/* A request that was sent so long ago by this link. */
static void out_since(struct kc_link *l, uint64_t ns)
{
	request = (struct kc_req){.link = l, .at.sent_ns = links.now_ns - ns};
	kv_list_add_tail(&l->sent, &request.node);
}

static int check(unsigned i)
{
	return kc_link_check(&links.node, &links.link[i], links.now_ns, SILENCE);
}

/* All links are up, and were heard so long ago; their shards turn. */
static void attached(unsigned shards, unsigned per_shard, uint64_t heard_ns)
{
	with_engine(shards, per_shard);
	for (unsigned i = 0; i < links.attachment->num_links; i++) {
		links.link[i].up = true;
		links.link[i].heard_ns = links.now_ns - heard_ns;
	}
	for (unsigned i = 0; i < shards; i++)
		links.attachment->shard_turns_ns[i] = links.now_ns;
}

static void a_link_is_asked_only_if_something_of_it_is_overdue(void **state)
{
	static const struct {
		const char *why;
		unsigned per_shard;
		uint64_t out_ns, heard_ns; /* 0: nothing is out */
		bool asked;
	} rows[] = {{"nothing is out", 1, 0, 5 * SILENCE, false},
		    {"it is out for a short time", 1, SILENCE - MS, 5 * SILENCE, false},
		    {"the link was heard meanwhile", 1, 5 * SILENCE, SILENCE - MS, false},
		    {"both are old", 1, SILENCE, SILENCE, true},
		    {"of several, a beat is enough", 2, BEAT, BEAT, true},
		    {"less than a beat is not", 2, BEAT - MS, BEAT, false}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		attached(1, rows[i].per_shard, rows[i].heard_ns);
		if (rows[i].out_ns)
			out_since(&links.link[0], rows[i].out_ns);
		assert_int_equal(check(0), 0);
		if ((links_ping(&links.link[0]) != NULL) != rows[i].asked)
			fail_msg("%s", rows[i].why);
		kv_list_del(&request.node);
		pings_end();
		if (i + 1 < KV_COUNT(rows))
			links_down(state);
	}
}

/* The bytes of a request may come by another link of its shard than the one that it was sent by. */
static void a_request_out_on_one_link_has_the_others_of_its_shard_asked_too(void **state)
{
	(void)state;
	attached(2, 2, SILENCE);
	out_since(&links.link[0], SILENCE);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(check(i), 0);
	assert_non_null(links_ping(&links.link[1]));
	assert_null(links_ping(&links.link[2]));
	assert_null(links_ping(&links.link[3]));
	kv_list_del(&request.node);
	pings_end();
}

static void an_answer_ends_the_question(void **state)
{
	(void)state;
	attached(1, 1, SILENCE);
	out_since(&links.link[0], SILENCE);
	assert_int_equal(check(0), 0);
	links_answer(&links.link[0], 0);
	assert_non_null(links.link[0].probe.req);
	assert_int_equal(check(0), 0);
	assert_null(links.link[0].probe.req);
	assert_true(links.link[0].up);
	kv_list_del(&request.node);
	pings_end();
}

/* Time alone does not tell: our own loop may have stood still, with the answer waiting in a socket. */
static void a_silent_link_ends_the_attachment_after_time_and_beats(void **state)
{
	(void)state;
	attached(1, 1, SILENCE);
	out_since(&links.link[0], SILENCE);
	assert_int_equal(check(0), 0); /* asked */
	links.now_ns += 10 * SILENCE;
	for (unsigned beats = 1; beats < SILENCE / BEAT - 1; beats++)
		assert_int_equal(check(0), 0);
	assert_int_equal(check(0), -KV_ERESET);
	check_contains(links.node.error.text, "the link to its shard 0 is silent");
	kv_list_del(&request.node);
	pings_end();
}

static void a_silent_link_ends_it_sooner_where_another_to_its_shard_answers(void **state)
{
	(void)state;
	attached(1, 2, SILENCE);
	out_since(&links.link[0], SILENCE);
	assert_int_equal(check(0), 0); /* asked */
	links.now_ns += 2 * BEAT;
	assert_int_equal(check(0), 0); /* the other one is as silent */
	links.link[1].heard_ns = links.now_ns;
	assert_int_equal(check(0), -KV_ERESET);
	check_contains(links.node.error.text, "link 0 to its shard 0 is silent while another one answers");
	assert_int_equal(links.own.links.out[0], 1); /* the next attachment begins without it, and says so */
	assert_true(links.own.links.news);
	kv_list_del(&request.node);
	pings_end();
}

static void a_shard_that_stands_still_is_down(void **state)
{
	(void)state;
	attached(1, 1, SILENCE);
	out_since(&links.link[0], SILENCE);
	links.attachment->shard_turns_ns[0] = links.now_ns - 2 * SILENCE - MS;
	links.attachment->shard_turns_same[0] = 1; /* one heartbeat alone may be an old one */
	assert_int_equal(check(0), 0);
	pings_end();
	links.attachment->shard_turns_same[0] = 2;
	assert_int_equal(check(0), -KV_EPEERDOWN);
	check_contains(links.node.error.text, "its shard 0 stands still");
	kv_list_del(&request.node);
	pings_end();
}

static void a_link_that_is_out_comes_back_when_it_answers(void **state)
{
	(void)state;
	attached(1, 2, 0);
	links.attachment->served = true;
	links.link[1].up = false;
	links.own.links.out[0] = 2;
	assert_int_equal(check(1), 0);
	links_answer(&links.link[1], 0);
	assert_int_equal(check(1), 0);
	assert_true(links.link[1].up);
	assert_int_equal(links.own.links.out[0], 0);
	check_contains(links.logged, "link 1 to its shard 0 answers again");
	pings_end();
}

static void a_link_that_stays_out_is_asked_less_and_less_often(void **state)
{
	static const uint64_t seconds[] = {1, 2, 4, 8, 16, 30, 30};
	struct kc_link *l;
	(void)state;
	attached(1, 2, 0);
	l = &links.link[1];
	l->up = false;
	for (unsigned i = 0; i < KV_COUNT(seconds); i++) {
		assert_int_equal(check(1), 0);
		links_answer(l, -KV_ERESET);
		assert_int_equal(check(1), 0); /* it failed: again in so many seconds */
		links.now_ns += seconds[i] * 1000 * MS - MS;
		assert_int_equal(check(1), 0);
		assert_null(links_ping(l));
		links.now_ns += MS;
	}
	assert_false(l->up);
	pings_end();
}

#define TEST(name) cmocka_unit_test_teardown(name, links_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_attachment_is_up_when_every_shard_has_answered),
		TEST(a_shard_that_does_not_answer_fails_it_by_the_deadline),
		TEST(of_several_links_to_a_shard_one_that_answers_is_enough),
		TEST(without_any_link_to_a_shard_it_fails),
		TEST(links_that_were_out_before_are_not_waited_for_nor_told_of_again),
		TEST(a_redo_ends_setting_up),
		TEST(a_link_is_asked_only_if_something_of_it_is_overdue),
		TEST(a_request_out_on_one_link_has_the_others_of_its_shard_asked_too),
		TEST(an_answer_ends_the_question),
		TEST(a_silent_link_ends_the_attachment_after_time_and_beats),
		TEST(a_silent_link_ends_it_sooner_where_another_to_its_shard_answers),
		TEST(a_shard_that_stands_still_is_down),
		TEST(a_link_that_is_out_comes_back_when_it_answers),
		TEST(a_link_that_stays_out_is_asked_less_and_less_often),
	};
	return cmocka_run_group_tests_name("kvclient/health", tests, NULL, NULL);
}
