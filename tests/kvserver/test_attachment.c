/* SPDX-License-Identifier: Apache-2.0 */
/* test_attachment.c -- attachments whose client dies while something of them is under way, and how many may be ending.
 */
#include "tests/kvserver/control.h"

#include "kvserver/conn/conn.h"
#include "kvserver/server/server.h"
#include "tests/kvserver/deaf.h"

/* The reader of its control connection waits for the transfers, which never end: its session ends all the same. */
static void deaf_body(enum wire_ctrl type)
{
	struct wire_ctrl_msg m = {.type = type, .region_ok = {.id = 1}};
	struct boot_conn *c;
	uint64_t until;
	c = deaf_open();
	deaf_gets();
	expect(boot_send_await(c, &m, soon()) == 0);
	boot_close(&c);
	until = soon();
	for (look(); seen.ending == 0 && loop_now(loop) < until; look())
		co_sleep_await(loop_now(loop) + 10000000);
	expect(seen.ending == 1 && seen.requests > 0);
	deaf_close(); /* as the quarantine budget would in the end */
	until = soon();
	for (look(); seen.sessions > 0 && loop_now(loop) < until; look())
		co_sleep_await(loop_now(loop) + 10000000);
	expect(seen.sessions == 0 && seen.requests == 0);
	deaf_forget();
}

static void revoke_body(void)
{
	deaf_body(WIRE_CTRL_REVOKE);
}

static void goodbye_body(void)
{
	deaf_body(WIRE_CTRL_GOODBYE);
}

static void a_client_that_dies_after_revoke_or_goodbye_is_ended(void **state)
{
	(void)state;
	in_coroutine(revoke_body);
	in_coroutine(goodbye_body);
}

/* The connection's place is free at once, and what it has left behind ends by itself. */
static void dead_waiter_body(void)
{
	struct wire_ctrl_msg held, m, h = hello_make(te);
	struct boot_conn *c = greet(&held);
	hold(held.welcome.session);
	prior_set(&h, &held);
	expect(boot_send_await(c, &h, soon()) == 0);
	sessions_become(1, 1);
	boot_close(&c);
	expect(open_becomes(0));
	c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME);
	sessions_become(2, 1);
	release(held.welcome.session);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
}

static void a_client_that_dies_while_its_hello_waits_is_ended(void **state)
{
	(void)state;
	in_coroutine(dead_waiter_body);
}

/* A connection that says HELLO until it has had held[CONN_ENDING_MAX + 1], all of which are ending, and that waits. */
static struct boot_conn *greet_often(uint32_t *held)
{
	struct wire_ctrl_msg m, h = hello_make(te);
	struct boot_conn *c = greet(&m);
	for (unsigned i = 0; i <= CONN_ENDING_MAX; i++) {
		held[i] = m.welcome.session;
		hold(held[i]);
		expect(boot_send_await(c, &h, soon()) == 0);
		if (i < CONN_ENDING_MAX)
			expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	}
	sessions_become(CONN_ENDING_MAX + 1, CONN_ENDING_MAX + 1);
	return c;
}

/* So many attachments may be ending. The next HELLO is answered when one of them has ended; if this machine took longer
 * for that than the server waits, the client connects anew. */
static void bound_body(void)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_HEARTBEAT};
	uint32_t held[CONN_ENDING_MAX + 1];
	uint64_t began = loop_now(loop);
	struct boot_conn *c = greet_often(held);
	for (unsigned i = 0; i < 10 && m.type == WIRE_CTRL_HEARTBEAT; i++)
		expect(boot_recv_await(c, &m, soon()) == 0);
	release(held[2]);
	expect(atomic_load(&server->clients.open) == 1 || loop_now(loop) - began >= 1000000000);
	if (m.type == WIRE_CTRL_HEARTBEAT)
		expect(next(c, &m) == 0);
	if (m.type == WIRE_CTRL_REFUSE) {
		expect(loop_now(loop) - began >= 1000000000);
		boot_close(&c);
		c = greet(&m);
	}
	expect(m.type == WIRE_CTRL_WELCOME);
	sessions_become(CONN_ENDING_MAX + 1, CONN_ENDING_MAX);
	for (unsigned i = 0; i <= CONN_ENDING_MAX; i++)
		if (i != 2)
			release(held[i]);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
}

static void the_attachments_that_are_ending_are_bounded(void **state)
{
	(void)state;
	in_coroutine(bound_body);
}

/* None of them ends, as those whose bytes are on their way over a dark rail: the client does not wait for that. */
static void unending_body(void)
{
	struct wire_ctrl_msg m;
	uint32_t held[CONN_ENDING_MAX + 1];
	struct boot_conn *c = greet_often(held);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_BUSY);
	boot_close(&c);
	c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME);
	for (unsigned i = 0; i <= CONN_ENDING_MAX; i++)
		release(held[i]);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
}

static void a_client_whose_last_attachments_do_not_end_is_told_to_connect_anew(void **state)
{
	(void)state;
	in_coroutine(unending_body);
}

static void reset_body(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	struct wire_blob_addr before, after;
	expect(wire_welcome_addr(&m.welcome, 0, 0, &before) == 0);
	endpoint_rebuild();
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_ADDRESS);
	expect(next(c, &m) == -KV_EPEERDOWN); /* we do not go, so we are cut */
	boot_close(&c);
	c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME && wire_welcome_addr(&m.welcome, 0, 0, &after) == 0);
	expect(before.len != after.len || memcmp(before.data, after.data, after.len) != 0);
	leave(c);
}

static void after_a_reset_clients_come_back_for_new_addresses(void **state)
{
	(void)state;
	in_coroutine(reset_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_that_dies_after_revoke_or_goodbye_is_ended),
		cmocka_unit_test(a_client_that_dies_while_its_hello_waits_is_ended),
		cmocka_unit_test(the_attachments_that_are_ending_are_bounded),
		cmocka_unit_test(a_client_whose_last_attachments_do_not_end_is_told_to_connect_anew),
		cmocka_unit_test(after_a_reset_clients_come_back_for_new_addresses),
	};
	return cmocka_run_group_tests_name("kvserver/attachment", tests, group_up, group_down);
}
