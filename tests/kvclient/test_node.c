/* SPDX-License-Identifier: Apache-2.0 */
/* test_node.c -- what a client knows of one server: when calls wait, go on or fail, and what ends an attachment. (The
 * node's own coroutine, which connects and serves, runs in tests/sim and against real servers in test_outage.c.) */
#include "links.h"

#include <sys/mman.h>
#include <unistd.h>

#include "kvclient/request/admission.h"
#include "kvclient/request/life.h"

static void up_one(void)
{
	links_up(1, 1);
	links.link[0].up = true;
}

/* ---- calls that want to use it ---- */

static struct {
	uint64_t deadline_ns;
	int rc;
	struct kc_attachment *attachment;
} ready;

static void ready_await(void)
{
	ready.attachment = NULL;
	ready.rc = kc_node_ready_await(&links.node, ready.deadline_ns, &ready.attachment);
}

static void a_call_goes_on_waits_or_fails_by_the_nodes_state(void **state)
{
	static const struct {
		enum kc_node_state state;
		enum kc_goodbye goodbye;
		bool closing;
		int refusal, rc;
	} rows[] = {
		{KC_NODE_UP, KC_GOODBYE_NONE, false, 0, 0},
		{KC_NODE_UP, KC_GOODBYE_NONE, true, 0, -KV_ECLOSED},
		{KC_NODE_DOWN, KC_GOODBYE_NONE, false, 0, -KV_EPEERDOWN},
		{KC_NODE_DOWN, KC_GOODBYE_NONE, false, -KV_EDENIED, -KV_EDENIED}, /* it is there and does not take us */
		{KC_NODE_DOWN, KC_GOODBYE_HEARD, false, 0, -KV_ELEFT}, /* what it held went with it: a miss */
		{KC_NODE_DOWN, KC_GOODBYE_SAID, false, -KV_EFULL, -KV_ELEFT},
		{KC_NODE_CLOSED, KC_GOODBYE_NONE, false, 0, -KV_EPEERDOWN},
		{KC_NODE_CONNECTING, KC_GOODBYE_NONE, false, 0, -KV_ETIMEOUT},
		{KC_NODE_CONNECTING, KC_GOODBYE_HEARD, false, 0, -KV_ETIMEOUT},
	};
	(void)state;
	up_one();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		links.node.state = rows[i].state;
		links.node.goodbye = rows[i].goodbye;
		links.node.refusal = rows[i].refusal;
		links.client.closing = rows[i].closing;
		ready.deadline_ns = links.now_ns + 20 * MS;
		links_run(ready_await, NULL);
		if (ready.rc != rows[i].rc)
			fail_msg("row %u: %s", i, kv_errname(ready.rc));
		assert_ptr_equal(ready.attachment, rows[i].rc == 0 ? links.attachment : NULL);
	}
}

static void becomes_up(void)
{
	if (links.node.state == KC_NODE_CONNECTING)
		kc_node_set(&links.node, KC_NODE_UP);
}

static void becomes_down(void)
{
	if (links.node.state == KC_NODE_CONNECTING)
		kc_node_set(&links.node, KC_NODE_DOWN);
}

static void a_call_that_waits_goes_on_when_the_node_is_up(void **state)
{
	(void)state;
	up_one();
	links.node.state = KC_NODE_CONNECTING;
	ready.deadline_ns = KV_NEVER;
	links_run(ready_await, becomes_up);
	assert_int_equal(ready.rc, 0);
	assert_ptr_equal(ready.attachment, links.attachment);
}

static void a_call_that_waits_fails_when_the_attempt_has_failed(void **state)
{
	(void)state;
	up_one();
	links.node.state = KC_NODE_CONNECTING;
	ready.deadline_ns = KV_NEVER;
	links_run(ready_await, becomes_down);
	assert_int_equal(ready.rc, -KV_EPEERDOWN);
	assert_int_equal(atomic_load(&links.down), 1); /* the client is the last choice (call/spread.h) */
	kc_node_set(&links.node, KC_NODE_DOWN);
	assert_int_equal(atomic_load(&links.down), 1);
	kc_node_set(&links.node, KC_NODE_CONNECTING);
	assert_int_equal(atomic_load(&links.down), 0);
}

/* Alone, a call waits for its deadline; where another server may stand in, for the time of silence from the end of UP
 * on, however often the attempt is redone. */
static void a_call_waits_for_an_attempt_no_longer_than_for_a_silent_server(void **state)
{
	struct kc_node *n = &links.node;
	struct kc_node two[2];
	(void)state;
	up_one();
	ready.deadline_ns = links.now_ns + 900 * MS;
	links.pool.options.peer_timeout_ns = 100 * MS;
	n->own->pulse.beat_ns = 10 * MS;
	n->state = KC_NODE_UP;
	kc_node_set(n, KC_NODE_CONNECTING);
	links_run(ready_await, NULL);
	assert_int_equal(ready.rc, -KV_ETIMEOUT);
	assert_int_equal(n->state, KC_NODE_CONNECTING);
	two[1] = (struct kc_node){.client = &links.client, .index = 1, .state = KC_NODE_UP};
	links.client.node = two;
	links.client.num_nodes = 2;
	two[1].retired = true; /* it stands in for nobody */
	ready.deadline_ns = links.now_ns + 900 * MS;
	links_run(ready_await, NULL);
	assert_int_equal(ready.rc, -KV_ETIMEOUT);
	two[1].retired = false;
	n->state = KC_NODE_UP;
	kc_node_set(n, KC_NODE_CONNECTING);
	uint64_t began = links.now_ns;
	kc_node_set(n, KC_NODE_CONNECTING); /* a redo of the attempt gives it no more time */
	ready.deadline_ns = links.now_ns + 900 * MS;
	links_run(ready_await, NULL);
	assert_int_equal(ready.rc, -KV_EPEERDOWN);
	assert_int_equal(n->state, KC_NODE_DOWN);
	assert_in_range(links.now_ns - began, 100 * MS, 110 * MS);
	links.client.num_nodes = 1;
	links.client.node = n;
}

static void a_refusal_counts_as_down_only_while_it_lasts(void **state)
{
	static const struct {
		enum kc_node_state state;
		int refusal;
		int64_t rc;
		bool down;
	} rows[] = {
		{KC_NODE_UP, 0, -KV_EPEERDOWN, true},
		{KC_NODE_DOWN, 0, -KV_EPEERDOWN, true},
		{KC_NODE_DOWN, -KV_EFULL, -KV_EFULL, true},
		{KC_NODE_UP, -KV_EFULL, -KV_EFULL, false},
		{KC_NODE_DOWN, -KV_EFULL, -KV_EDENIED, false},
		{KC_NODE_DOWN, 0, 0, false},
		{KC_NODE_DOWN, 0, 65536, false},
		{KC_NODE_DOWN, 0, -KV_ETIMEOUT, false},
	};
	(void)state;
	up_one();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		links.node.state = rows[i].state;
		links.node.refusal = rows[i].refusal;
		if (kc_node_down(&links.node, rows[i].rc) != rows[i].down)
			fail_msg("row %u", i);
	}
}

/* ---- breaks that are ours ---- */

static void a_redo_makes_calls_wait_and_keeps_the_connection(void **state)
{
	(void)state;
	up_one();
	links.attachment->served = true;
	links.node.state = KC_NODE_UP;
	kc_node_redo(&links.node, "a test");
	assert_string_equal(links.node.redo, "a test");
	assert_int_equal(links.node.state, KC_NODE_CONNECTING);
	assert_false(links.node.control.spent);
}

/* The server answers in order: behind such an answer a HELLO would wait for the transfers that are the trouble. */
static void a_redo_dials_anew_where_an_answer_waits_for_transfers(void **state)
{
	static const struct {
		const char *why;
		unsigned revokes;
		bool parting, closing, redial;
	} rows[] = {{"nothing is owed", 0, false, false, false},
		    {"a REVOKE is not answered", 1, false, false, true},
		    {"the goodbye of a session is not answered", 0, true, false, true},
		    {"the client closes", 0, false, true, true}};
	struct kv_list goodbye;
	(void)state;
	up_one();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		links.node.control.spent = false;
		links.own.regions.revokes = rows[i].revokes;
		links.client.closing = rows[i].closing;
		kv_list_init(&goodbye);
		if (rows[i].parting)
			kv_list_add_tail(&links.node.sessions.parted, &goodbye);
		kc_node_redo(&links.node, "a test");
		if (links.node.control.spent != rows[i].redial)
			fail_msg("%s", rows[i].why);
		kv_list_del(&goodbye);
	}
}

static void a_redial_does_not_keep_the_connection(void **state)
{
	(void)state;
	up_one();
	links.node.state = KC_NODE_UP;
	kc_node_redial(&links.node, "a test");
	assert_string_equal(links.node.redo, "a test");
	assert_true(links.node.control.spent);
	kc_node_redo(&links.node, "another one"); /* that is not taken back */
	assert_true(links.node.control.spent);
}

/* While it connects, only PINGs are out: they end at once. What calls sent over an attachment that was up is ended
 * later, when their memory is safe. */
static void a_redo_ends_the_pings_of_an_attempt_alone(void **state)
{
	(void)state;
	for (unsigned served = 0; served < 2; served++) {
		struct kc_wait wait = {0};
		struct kc_req *r;
		up_one();
		links.node.state = KC_NODE_CONNECTING;
		links.attachment->served = served;
		assert_int_equal(kc_room_try(&links.client, &(struct kc_need){.urgent = true, .node = &links.node}, &r),
				 0);
		r->wire.type = WIRE_PING;
		kc_req_submit_first(&links.link[0], r, &wait);
		kc_node_redo(&links.node, "a test");
		assert_int_equal(wait.left, served);
		assert_int_equal(links.attachment->open, served);
		if (!served)
			assert_int_equal(r->status, -KV_ERESET);
		else
			links_answer(&links.link[0], 0);
		kc_req_release(&links.client, r);
		links_down(state);
	}
	up_one();
}

/* ---- the rest ---- */

static int said;

static void say(void)
{
	const struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	said = kc_node_send_await(&links.node, &m, KV_NEVER);
}

static void without_a_connection_nothing_is_said(void **state)
{
	(void)state;
	up_one();
	links_run(say, NULL);
	assert_int_equal(said, -KV_EPEERDOWN);
	assert_int_equal(links.node.control.senders, 0);
}

static void a_strangers_text_is_made_printable_and_cut(void **state)
{
	static const struct {
		const char *text, *printed;
	} rows[] = {{"", ""},
		    {"full", "full"},
		    {"a\033[2Jb\n", "a?[2Jb?"},
		    {"\x7f\xc3\xa4~ ", "???~ "},
		    {"longer than there is room", "longer tha"}};
	char out[11];
	(void)state;
	up_one();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		kc_printable(out, sizeof(out), rows[i].text);
		assert_string_equal(out, rows[i].printed);
	}
}

static void silence_is_never_less_than_two_heartbeats(void **state)
{
	(void)state;
	up_one();
	links.own.pulse.beat_ns = 300 * MS;
	links.pool.options.peer_timeout_ns = 100 * MS;
	assert_int_equal(kc_node_silence_ns(&links.node), 600 * MS);
	links.pool.options.peer_timeout_ns = 5000 * MS;
	assert_int_equal(kc_node_silence_ns(&links.node), 5000 * MS);
}

/* kv-client has room for all servers of a cluster, and speaks to a few. */
static void nodes_that_were_never_used_have_no_pages(void **state)
{
	enum { NODES = 1024 };
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from, to;
	unsigned char there[1 + NODES * sizeof(struct kc_node_own) / 4096];
	(void)state;
	links.pool.room = NODES;
	links.client.pool = &links.pool;
	assert_int_equal(kc_nodes_make(&links.client), 0);
	assert_ptr_equal(links.client.node[NODES - 1].own, &links.client.nodes.own[NODES - 1]);
	from = ((uintptr_t)links.client.nodes.own + page - 1) & ~(page - 1);
	to = (uintptr_t)&links.client.nodes.own[NODES] & ~(page - 1);
	assert_int_equal(mincore((void *)from, to - from, there), 0);
	for (size_t i = 0; i < (to - from) / page; i++)
		assert_int_equal(there[i] & 1, 0);
	kc_nodes_free(&links.client);
	links.client.pool = NULL;
}

#define TEST(name) cmocka_unit_test_teardown(name, links_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_call_goes_on_waits_or_fails_by_the_nodes_state),
		TEST(a_call_that_waits_goes_on_when_the_node_is_up),
		TEST(a_call_that_waits_fails_when_the_attempt_has_failed),
		TEST(a_call_waits_for_an_attempt_no_longer_than_for_a_silent_server),
		TEST(a_refusal_counts_as_down_only_while_it_lasts),
		TEST(a_redo_makes_calls_wait_and_keeps_the_connection),
		TEST(a_redo_dials_anew_where_an_answer_waits_for_transfers),
		TEST(a_redial_does_not_keep_the_connection),
		TEST(a_redo_ends_the_pings_of_an_attempt_alone),
		TEST(without_a_connection_nothing_is_said),
		TEST(a_strangers_text_is_made_printable_and_cut),
		TEST(silence_is_never_less_than_two_heartbeats),
		cmocka_unit_test(nodes_that_were_never_used_have_no_pages),
	};
	return cmocka_run_group_tests_name("kvclient/node", tests, NULL, NULL);
}
