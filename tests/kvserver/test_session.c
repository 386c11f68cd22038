/* SPDX-License-Identifier: Apache-2.0 */
/* test_session.c -- further sessions on one shard: whose a record is, what is a session's own, and how one ends. */
#include "rig.h"

enum { A = 1 << SESSION_INDEX_BITS, B = A | 1, MIB = 1 << 20 };

static int open_both(void **state)
{
	rig_open(state);
	assert_int_equal(rig_session_open(A), 0);
	assert_int_equal(rig_session_open(B), 0);
	return 0;
}

static int close_all(void **state)
{
	int rc = rig_close(state);
	assert_int_equal(rig.shard->attachments.sessions, 0);
	return rc;
}

static struct wire_request switch_to(uint32_t number)
{
	return (struct wire_request){.type = WIRE_SESSION, .session.number = number};
}

static void send_as(uint32_t number, const struct wire_request *q)
{
	struct wire_frame frame = rig_frame();
	struct wire_request records[] = {switch_to(number), *q};
	rig_send_records(&frame, records, 2);
}

static const struct wire_reply *ask_as(uint32_t number, const struct wire_request *q)
{
	send_as(number, q);
	rig_until(rig_find(q->id));
	return rig_find(q->id);
}

static uint64_t received;

static void run_gone(struct call *c)
{
	session_end(rig.attachment, A, c, &received);
}

static void end_a(void)
{
	rig_call_run(run_gone);
}

/* ---- whose a record is ---- */

static void a_frame_has_records_of_many_sessions(void **state)
{
	(void)state;
	struct wire_frame frame = rig_frame();
	struct wire_request own = rig_request(WIRE_PING, NULL), a = rig_request(WIRE_PING, NULL),
			    a2 = rig_request(WIRE_PING, NULL), b = rig_request(WIRE_PING, NULL),
			    again = rig_request(WIRE_PING, NULL);
	struct wire_request records[] = {own, switch_to(A), a, a2, switch_to(B), b, switch_to(0), again};
	rig_send_records(&frame, records, KV_COUNT(records));
	rig_until(rig.replies == 5);
	assert_int_equal(rig.attachment->sessions.at[0]->received, 2);
	assert_int_equal(rig.attachment->sessions.at[1]->received, 1);
	assert_int_equal(rig.attachment->own.received, 2);
	/* Replies share a frame too, under the connection's own number. */
	assert_int_equal(rig.reply[2].frame.session, rig.number);
	assert_int_equal(rig.reply[0].frame.records, 5);
}

static void a_wrong_number_drops_what_is_behind_it_alone(void **state)
{
	(void)state;
	struct wire_frame frame = rig_frame();
	struct wire_request dropped = rig_request(WIRE_PING, NULL), dropped2 = rig_request(WIRE_PING, NULL),
			    good = rig_request(WIRE_PING, NULL);
	struct wire_request records[] = {switch_to(B + 1), dropped, dropped2, switch_to(B), good};
	rig_send_records(&frame, records, KV_COUNT(records));
	rig_until(rig_find(good.id));
	rig_quiet();
	assert_null(rig_find(dropped.id));
	assert_null(rig_find(dropped2.id));
	assert_int_equal(rig_stat(WIRE_STAT_UNKNOWN_SESSION), 1);
}

static void a_number_that_is_not_open_is_counted_and_dropped(void **state)
{
	(void)state;
	const uint32_t numbers[] = {B + 1, A + (1u << SESSION_INDEX_BITS), 1, SESSIONS_MAX - 1, UINT32_MAX};
	for (unsigned i = 0; i < KV_COUNT(numbers); i++) {
		struct wire_request q = rig_request(WIRE_PING, NULL);
		send_as(numbers[i], &q);
	}
	rig_quiet();
	assert_int_equal(rig.replies, 0);
	assert_int_equal(rig_stat(WIRE_STAT_UNKNOWN_SESSION), KV_COUNT(numbers));
}

/* The next frame begins with the connection's own session again. */
static void a_switch_ends_with_its_frame(void **state)
{
	(void)state;
	struct wire_frame frame = rig_frame();
	struct wire_request bad = switch_to(UINT32_MAX), q = rig_request(WIRE_PING, NULL);
	rig_send_records(&frame, &bad, 1);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_int_equal(rig.attachment->own.received, 1);
}

/* Ids are the link's: a session cannot use one that another has used. */
static void ids_are_of_the_link_whoever_uses_them(void **state)
{
	(void)state;
	struct wire_request q = rig_request(WIRE_PING, NULL);
	assert_int_equal(ask_as(A, &q)->status, WIRE_OK);
	send_as(B, &q);
	rig_quiet();
	assert_int_equal(rig.replies, 1);
	assert_int_equal(rig_stat(WIRE_STAT_DUPLICATE_REQUESTS), 1);
}

/* ---- what is a session's own ---- */

static void a_session_has_a_share_of_the_credits(void **state)
{
	(void)state;
	struct wire_request q[4];
	rig_store("k", 8 * MIB, 1);
	assert_int_equal(session_credits(RIG_CREDITS), 2);
	struct wire_frame frame = rig_frame();
	struct wire_request records[5] = {switch_to(A)};
	for (unsigned i = 0; i < 4; i++) {
		q[i] = rig_get("k", 0, 8 * MIB);
		records[1 + i] = q[i];
	}
	rig_send_records(&frame, records, 5); /* together: two are begun before any has ended */
	rig_until(rig_find(q[0].id) && rig_find(q[1].id) && rig_find(q[2].id) && rig_find(q[3].id));
	assert_int_equal(rig_find(q[0].id)->status, WIRE_OK);
	assert_int_equal(rig_find(q[1].id)->status, WIRE_OK);
	assert_int_equal(rig_find(q[2].id)->status, WIRE_BUSY);
	assert_int_equal(rig_find(q[3].id)->status, WIRE_BUSY);
	assert_int_equal(rig_stat(WIRE_STAT_OVER_CREDIT), 2);
	/* The credits are back, and the other session was never kept out. */
	struct wire_request more = rig_get("k", 0, 4096), other = rig_get("k", 0, 4096);
	assert_int_equal(ask_as(A, &more)->status, WIRE_OK);
	assert_int_equal(ask_as(B, &other)->status, WIRE_OK);
}

static void a_stage_is_its_sessions(void **state)
{
	(void)state;
	struct wire_request first = rig_put("k", MIB, 0, 0, 77, WIRE_PUT_FIRST);
	uint64_t stage = ask_as(A, &first)->put.stage;
	struct wire_request range = rig_put("k", MIB, 0, 4096, 77, 0);
	assert_true(stage != 0);
	range.put.stage = stage;
	assert_int_equal(ask_as(B, &range)->status, WIRE_STALE);
	range.id = rig.next_id++;
	assert_int_equal(rig_ask(&range)->status, WIRE_STALE);
	range.id = rig.next_id++;
	assert_int_equal(ask_as(A, &range)->status, WIRE_OK);
}

static void a_pin_is_its_sessions(void **state)
{
	(void)state;
	rig_store("k", 4096, 1);
	struct wire_request pin = rig_request(WIRE_PIN, "k"), release = rig_request(WIRE_PIN, "k");
	release.flags = WIRE_PIN_RELEASE;
	assert_int_equal(ask_as(A, &pin)->status, WIRE_OK);
	assert_int_equal(ask_as(B, &release)->status, WIRE_OK); /* takes back its own, which it has not */
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), 4096);
	end_a();
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), 0);
}

static void a_request_is_cancelled_by_its_session_or_the_connections(void **state)
{
	(void)state;
	struct wire_request put = rig_put("k", 16 * MIB, 0, 16 * MIB, 5, WIRE_PUT_FIRST | WIRE_PUT_LAST);
	struct wire_request by_b = rig_request(WIRE_CANCEL, NULL), by_own = rig_request(WIRE_CANCEL, NULL);
	struct wire_frame frame = rig_frame();
	by_b.cancel.id = by_own.cancel.id = put.id;
	/* In one frame, so that the PUT is under way for both. */
	struct wire_request records[] = {switch_to(A), put, switch_to(B), by_b, switch_to(0), by_own};
	rig_send_records(&frame, records, KV_COUNT(records));
	rig_until(rig_find(put.id) && rig_find(by_b.id) && rig_find(by_own.id));
	if (rig.shard->info.reads_refused) {
		assert_int_equal(rig_find(put.id)->status, WIRE_NOTSUP); /* not under way at all */
		return;
	}
	assert_int_equal(rig_find(by_b.id)->status, WIRE_STALE);
	assert_int_equal(rig_find(by_b.id)->cancel.posted, UINT32_MAX);
	assert_int_equal(rig_find(by_own.id)->cancel.state, WIRE_CANCEL_STOPPED);
	assert_int_equal(rig_find(put.id)->status, WIRE_CANCELED);
}

/* ---- the end of one ---- */

static void a_session_that_ends_takes_its_own_along_and_no_more(void **state)
{
	(void)state;
	struct wire_request of_a = rig_put("a", MIB, 0, 0, 77, WIRE_PUT_FIRST),
			    of_b = rig_put("b", 2 * MIB, 0, 0, 78, WIRE_PUT_FIRST);
	assert_int_equal(ask_as(A, &of_a)->status, WIRE_OK);
	assert_int_equal(ask_as(B, &of_b)->status, WIRE_OK);
	end_a();
	assert_int_equal(received, 1);
	assert_int_equal(rig.shard->store.staged_bytes, 2 * MIB);
	assert_int_equal(rig.shard->attachments.sessions, 1);
	struct wire_request q = rig_request(WIRE_PING, NULL), late = rig_request(WIRE_PING, NULL);
	send_as(A, &late);
	assert_int_equal(ask_as(B, &q)->status, WIRE_OK);
	assert_null(rig_find(late.id));
	assert_int_equal(rig_stat(WIRE_STAT_UNKNOWN_SESSION), 1);
}

static void a_session_may_end_with_requests_in_flight(void **state)
{
	(void)state;
	rig_store("k", 8 * MIB, 1);
	struct wire_frame frame = rig_frame();
	struct wire_request a = rig_get("k", 0, 8 * MIB), a2 = rig_get("k", 0, 8 * MIB), b = rig_get("k", 0, 8 * MIB);
	a2.dest.offset = 8 * MIB;
	b.dest.offset = 16 * MIB;
	struct wire_request records[] = {switch_to(A), a, a2, switch_to(B), b};
	rig_send_records(&frame, records, KV_COUNT(records));
	rig_until(rig.shard->requests.used == 3);
	end_a();
	rig_until(rig_find(b.id) && rig_find(a.id) && rig_find(a2.id)); /* each has its reply */
	assert_int_equal(rig_find(b.id)->status, WIRE_OK);
	assert_int_equal(rig.shard->attachments.sessions, 1);
	rig_until(rig.shard->requests.used == 0);
}

static void a_session_that_is_not_there_ends_at_once(void **state)
{
	(void)state;
	end_a();
	end_a();
	assert_int_equal(received, 0);
	assert_int_equal(rig.shard->attachments.sessions, 1);
}

static void sessions_end_with_their_connection(void **state)
{
	(void)state;
	rig_store("k", 4096, 1);
	struct wire_request pin = rig_request(WIRE_PIN, "k"), put = rig_put("a", MIB, 0, 0, 77, WIRE_PUT_FIRST);
	assert_int_equal(ask_as(A, &pin)->status, WIRE_OK);
	assert_int_equal(ask_as(B, &put)->status, WIRE_OK);
	rig_attachment_end();
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), 0);
	assert_int_equal(rig.shard->store.staged_bytes, 0);
	assert_int_equal(rig.shard->attachments.sessions, 0);
}

static void a_place_of_a_session_is_taken_once(void **state)
{
	(void)state;
	assert_int_equal(rig_session_open(A), -KV_EEXIST);
	assert_int_equal(rig_session_open(A + (1u << SESSION_INDEX_BITS)), -KV_EEXIST);
	assert_int_equal(rig_session_open(A | 5000), 0); /* the table grows */
	assert_int_equal(rig.shard->attachments.sessions, 3);
	assert_int_equal(rig_stat(WIRE_STAT_FURTHER_SESSIONS), 3);
}

/* The cost of a session that asks for nothing. */
static void an_idle_session_of_a_shard_costs_little(void **state)
{
	(void)state;
	printf("# a further session: %zu bytes per shard and 8 in its table\n", sizeof(struct session));
	assert_true(sizeof(struct session) <= 96);
}

#define SESSION_TEST(f) cmocka_unit_test_setup_teardown(f, open_both, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(a_frame_has_records_of_many_sessions),
		SESSION_TEST(a_wrong_number_drops_what_is_behind_it_alone),
		SESSION_TEST(a_number_that_is_not_open_is_counted_and_dropped),
		SESSION_TEST(a_switch_ends_with_its_frame),
		SESSION_TEST(ids_are_of_the_link_whoever_uses_them),
		SESSION_TEST(a_session_has_a_share_of_the_credits),
		SESSION_TEST(a_stage_is_its_sessions),
		SESSION_TEST(a_pin_is_its_sessions),
		SESSION_TEST(a_request_is_cancelled_by_its_session_or_the_connections),
		SESSION_TEST(a_session_that_ends_takes_its_own_along_and_no_more),
		SESSION_TEST(a_session_may_end_with_requests_in_flight),
		SESSION_TEST(a_session_that_is_not_there_ends_at_once),
		SESSION_TEST(sessions_end_with_their_connection),
		SESSION_TEST(a_place_of_a_session_is_taken_once),
		SESSION_TEST(an_idle_session_of_a_shard_costs_little),
	};
	return cmocka_run_group_tests_name("kvserver/owner", tests, rig_up, rig_down);
}
