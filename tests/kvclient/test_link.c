/* SPDX-License-Identifier: Apache-2.0 */
/* test_link.c -- which link a request takes, its credits, and when it has something to send. */
#include "links.h"

#include "kvclient/request/admission.h"
#include "kvclient/request/private.h"

static struct kc_req request;

/* A request that waits on a link. */
static void queue(struct kc_link *l, enum wire_type type)
{
	request = (struct kc_req){.link = l, .wire = {.type = (uint8_t)type}};
	kv_list_add_tail(&l->queue, &request.node);
}

static void up(unsigned links_up_mask)
{
	for (unsigned i = 0; i < links.attachment->num_links; i++)
		links.link[i].up = links_up_mask >> i & 1;
}

static void requests_go_round_the_links_that_are_up(void **state)
{
	static const unsigned order[] = {0, 1, 3};
	(void)state;
	links_up(2, 4);
	up(0xFB); /* of the first shard, link 2 is out */
	for (unsigned i = 0; i < 4 * KV_COUNT(order); i++)
		assert_ptr_equal(kc_link_pick(links.attachment, 0), &links.link[order[i % KV_COUNT(order)]]);
	for (unsigned i = 0; i < 12; i++)
		assert_in_range(kc_link_pick(links.attachment, 1) - links.link, 4, 7);
}

static void with_no_link_up_the_first_of_the_shard_is_taken(void **state)
{
	(void)state;
	links_up(2, 2);
	assert_ptr_equal(kc_link_pick(links.attachment, 1), &links.link[2]);
	assert_ptr_equal(kc_link_keep(links.attachment, 1, 1), &links.link[2]);
}

static void the_only_link_of_a_shard_is_taken(void **state)
{
	(void)state;
	links_up(2, 1);
	assert_ptr_equal(kc_link_pick(links.attachment, 1), &links.link[1]);
	assert_ptr_equal(kc_link_keep(links.attachment, 1, 77), &links.link[1]);
}

/* All requests of a part of a batch go over one link, so that their frames are full. */
static void a_turn_keeps_its_link(void **state)
{
	(void)state;
	links_up(1, 4);
	up(0xB); /* link 2 is out */
	for (uint32_t turn = 0; turn < 8; turn++) {
		const struct kc_link *l = &links.link[turn % 4 == 2 ? 3 : turn % 4];
		for (unsigned i = 0; i < 3; i++)
			assert_ptr_equal(kc_link_keep(links.attachment, 0, turn), l);
	}
}

static void a_credit_comes_back_and_no_more_than_were_granted(void **state)
{
	struct kc_link *l;
	(void)state;
	links_up(1, 1);
	l = &links.link[0];
	l->credits = LINK_CREDITS - 1;
	kc_link_credit(l);
	kc_link_credit(l);
	assert_int_equal(l->credits, LINK_CREDITS);
	assert_true(kv_list_empty(&links.client.requests->out.dirty)); /* it has nothing to send */
}

/* A link whose requests are all stuck can still cancel them, and be asked whether it works. */
static void the_last_credits_are_for_cancel_and_ping(void **state)
{
	static const struct {
		enum wire_type type;
		uint32_t credits;
		bool goes;
	} rows[] = {{WIRE_GET, LINK_RESERVE + 1, true},
		    {WIRE_GET, LINK_RESERVE, false},
		    {WIRE_GET, 0, false},
		    {WIRE_PUT, LINK_RESERVE, false},
		    {WIRE_PING, LINK_RESERVE, true},
		    {WIRE_PING, 1, true},
		    {WIRE_PING, 0, false}};
	struct kc_link *l;
	(void)state;
	links_up(1, 1);
	l = &links.link[0];
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		l->credits = rows[i].credits;
		queue(l, rows[i].type);
		assert_ptr_equal(kc_link_head(l), rows[i].goes ? &request : NULL);
		assert_int_equal(kc_link_has_work(l), rows[i].goes);
		kv_list_del(&request.node);
	}
	l->credits = 1;
	kv_list_add_tail(&l->cancels, &request.cancel_node);
	assert_true(kc_link_has_work(l));
	l->credits = 0;
	assert_false(kc_link_has_work(l));
	kv_list_del(&request.cancel_node);
}

static void a_request_that_waits_for_a_credit_goes_when_it_comes(void **state)
{
	struct kc_link *l;
	(void)state;
	links_up(1, 1);
	l = &links.link[0];
	l->credits = LINK_RESERVE;
	queue(l, WIRE_GET);
	assert_null(kc_link_head(l));
	kc_link_credit(l);
	assert_ptr_equal(kc_link_head(l), &request);
	assert_ptr_equal(links.client.requests->out.dirty.next, &l->dirty_node);
	kv_list_del(&request.node);
}

/* Until the server says that it has the nonce, it goes with every frame (docs/internals/ownership.md, 9). */
static void a_nonce_is_sent_at_once_and_kept_until_the_server_has_it(void **state)
{
	struct kc_link *l;
	(void)state;
	links_up(1, 1);
	l = &links.link[0];
	kc_link_nonce(l, 4711);
	assert_int_equal(l->nonce, 4711);
	assert_true(l->prove_due && kc_link_has_work(l));
	assert_ptr_equal(links.client.requests->out.dirty.next, &l->dirty_node);
	kc_link_nonce(l, 0);
	assert_int_equal(l->nonce, 0);
	assert_false(l->prove_due || kc_link_has_work(l));
}

static void leases_to_be_given_back_are_work(void **state)
{
	(void)state;
	links_up(1, 1);
	links.link[0].releases.due = true;
	links.link[0].credits = 0; /* they need none */
	assert_true(kc_link_has_work(&links.link[0]));
}

static void a_link_with_work_is_listed_once(void **state)
{
	unsigned listed = 0;
	(void)state;
	links_up(1, 1);
	for (unsigned i = 0; i < 3; i++)
		kc_link_dirty(&links.link[0]);
	KV_LIST_EACH (n, &links.client.requests->out.dirty)
		listed++;
	assert_int_equal(listed, 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, links_down)

/* Requests that are put into a queue, by their numbers: those below BEHIND are in the background. */
static void the_queue_of_a_link_has_the_background_last(void **state)
{
	enum { BEHIND = 3, ALL = BEHIND + KC_PASSED_MAX + 2 };
	static struct kc_req r[ALL];
	unsigned order[ALL], n = 0;
	struct kc_link *l;
	(void)state;
	links_up(1, 1);
	l = links.link;
	memset(r, 0, sizeof(r));
	for (unsigned i = 0; i < ALL; i++) {
		r[i].behind = i < BEHIND;
		assert_false(i == 0 && kc_queue_kept(&l->queue, &r[i]));
		assert_int_equal(kc_queue_kept(&l->queue, &r[i]), i > 0 && i != BEHIND);
		kc_queue_in(l, &l->queue, &r[i]);
	}
	KV_LIST_EACH (node, &l->queue)
		order[n++] = (unsigned)(KV_LIST_ENTRY(node, struct kc_req, node) - r);
	assert_int_equal(n, ALL);
	for (unsigned i = 0; i < KC_PASSED_MAX; i++)
		assert_int_equal(order[i], BEHIND + i);
	assert_int_equal(order[KC_PASSED_MAX], 0); /* it was passed often enough */
	assert_int_equal(order[KC_PASSED_MAX + 1], BEHIND + KC_PASSED_MAX);
	assert_int_equal(order[KC_PASSED_MAX + 2], BEHIND + KC_PASSED_MAX + 1);
	assert_int_equal(order[ALL - 2], 1);
	assert_int_equal(order[ALL - 1], 2);
}

/* Two PUTs without a place in the landing area, one of the background, and two that came since. */
static void what_was_parked_comes_back_to_its_place(void **state)
{
	static struct kc_req parked[2], queued[2];
	const struct kc_req *const want[] = {&parked[0], &queued[0], &parked[1], &queued[1]};
	unsigned n = 0;
	struct kc_link *l;
	(void)state;
	links_up(1, 1);
	l = links.link;
	memset(parked, 0, sizeof(parked));
	memset(queued, 0, sizeof(queued));
	parked[1].behind = queued[1].behind = true;
	kc_queue_in(l, &l->parked, &parked[1]);
	kc_queue_in(l, &l->parked, &parked[0]);
	kc_queue_in(l, &l->queue, &queued[1]);
	kc_queue_in(l, &l->queue, &queued[0]);
	kc_link_look(l);
	assert_true(kv_list_empty(&l->parked));
	KV_LIST_EACH (node, &l->queue)
		assert_ptr_equal(KV_LIST_ENTRY(node, struct kc_req, node), want[n++]);
	assert_int_equal(n, KV_COUNT(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_go_round_the_links_that_are_up),
		TEST(with_no_link_up_the_first_of_the_shard_is_taken),
		TEST(the_only_link_of_a_shard_is_taken),
		TEST(a_turn_keeps_its_link),
		TEST(a_credit_comes_back_and_no_more_than_were_granted),
		TEST(the_last_credits_are_for_cancel_and_ping),
		TEST(a_request_that_waits_for_a_credit_goes_when_it_comes),
		TEST(a_nonce_is_sent_at_once_and_kept_until_the_server_has_it),
		TEST(leases_to_be_given_back_are_work),
		TEST(a_link_with_work_is_listed_once),
		TEST(the_queue_of_a_link_has_the_background_last),
		TEST(what_was_parked_comes_back_to_its_place),
	};
	return cmocka_run_group_tests_name("kvclient/link", tests, NULL, NULL);
}
