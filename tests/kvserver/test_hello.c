/* SPDX-License-Identifier: Apache-2.0 */
/* test_hello.c -- HELLO and its answer: the first one, and those that name an attachment which the new one replaces. */
#include "tests/kvserver/control.h"

#include <pthread.h>

#include "kvserver/conn/conn.h"
#include "kvserver/server/server.h"
#include "tests/kvserver/deaf.h"

static void welcome_body(void)
{
	static const uint8_t zero[KV_TOKEN_LEN];
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	struct wire_blob_addr a, b;
	expect(m.type == WIRE_CTRL_WELCOME);
	expect(m.welcome.version == WIRE_VERSION && m.welcome.shards == SHARDS && m.welcome.rails == 1);
	expect(m.welcome.session != 0 && m.welcome.credits == KVS_CREDITS_DEFAULT && m.welcome.heartbeat_ms == 20);
	expect(m.welcome.value_max == 8 << 20);
	expect(memcmp(m.welcome.token, zero, sizeof(zero)) != 0);
	expect((m.welcome.flags & WIRE_WELCOME_PULL) == 0);
	expect(m.welcome.node_id[0] == 0); /* none was given */
	expect(wire_welcome_addr(&m.welcome, 0, 0, &a) == 0 && wire_welcome_addr(&m.welcome, SHARDS - 1, 0, &b) == 0);
	expect(a.len > 0 && (a.len != b.len || memcmp(a.data, b.data, a.len) != 0));
	leave(c);
}

static void a_client_is_welcomed_with_all_addresses(void **state)
{
	(void)state;
	in_coroutine(welcome_body);
}

static void mismatch_body(void)
{
	struct wire_ctrl_msg h = hello_make(te), m;
	struct boot_conn *c = dial(server, ctx);
	snprintf(h.hello.provider, sizeof(h.hello.provider), "efa");
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REFUSE);
	expect(m.refuse.status == WIRE_MISMATCH && strstr(m.refuse.text, "efa") &&
	       strstr(m.refuse.text, hello_make(te).hello.provider));
	boot_close(&c);
}

static void another_provider_is_refused_with_a_sentence(void **state)
{
	(void)state;
	in_coroutine(mismatch_body);
}

static void version_body(void)
{
	struct wire_ctrl_msg h = hello_make(te), m;
	struct boot_conn *c = dial(server, ctx);
	h.hello.version_min = h.hello.version_max = WIRE_VERSION + 7;
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_MISMATCH);
	boot_close(&c);
}

static void another_protocol_version_is_refused(void **state)
{
	(void)state;
	in_coroutine(version_body);
}

static void rude_body(void)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REVOKE, .region_ok = {.id = 1}};
	struct boot_conn *c = dial(server, ctx);
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
}

static void without_a_hello_the_connection_ends(void **state)
{
	(void)state;
	in_coroutine(rude_body);
}

/* ---- HELLO again (docs/reference/protocol.md 2.10) ---- */

static void again_body(void)
{
	uint64_t handshakes = control_stat(WIRE_STAT_HANDSHAKES);
	struct wire_ctrl_msg first, m;
	struct boot_conn *c = greet(&first);
	sessions_become(1, 0);
	m = first;
	for (unsigned i = 0; i < 3; i++) {
		struct wire_ctrl_msg before = m;
		expect(ask_region(c, 1, 4096) == WIRE_OK); /* the id is new in each attachment */
		expect(ask_region(c, 1, 4096) != WIRE_OK);
		again(c, &m);
		expect(m.type == WIRE_CTRL_WELCOME && m.welcome.session != before.welcome.session);
		expect(memcmp(m.welcome.token, before.welcome.token, KV_TOKEN_LEN) != 0);
		expect(m.welcome.incarnation == first.welcome.incarnation);
	}
	expect(atomic_load(&server->clients.open) == 1);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
	expect(control_stat(WIRE_STAT_HANDSHAKES) == handshakes + 1); /* one connection, four attachments */
}

static void hello_again_makes_another_attachment(void **state)
{
	(void)state;
	in_coroutine(again_body);
}

/* Messages are answered in the order in which they were sent, HELLO as well. */
static void order_body(void)
{
	struct wire_ctrl_msg h = hello_make(te), m, r = region(7, 4096),
			     revoke = {.type = WIRE_CTRL_REVOKE, .region_ok = {.id = 7}};
	struct boot_conn *c = greet(&m);
	uint32_t first = m.welcome.session, second;
	prior_set(&h, &m);
	expect(boot_send_await(c, &r, soon()) == 0 && boot_send_await(c, &revoke, soon()) == 0);
	expect(boot_send_await(c, &h, soon()) == 0 && boot_send_await(c, &r, soon()) == 0);
	expect(boot_send_await(c, &h, soon()) == 0 && boot_send_await(c, &r, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.status == WIRE_OK);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REVOKE_OK);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME && m.welcome.session != first);
	second = m.welcome.session;
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.status == WIRE_OK);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME && m.welcome.session != first &&
	       m.welcome.session != second);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.status == WIRE_OK);
	sessions_become(1, 0);
	leave(c);
	expect(open_becomes(0));
}

static void hellos_are_answered_in_order(void **state)
{
	(void)state;
	in_coroutine(order_body);
}

/* Requests with the number and keys of the old attachment are dropped, and its GETs are stopped. */
static void void_body(void)
{
	struct wire_ctrl_msg m, h;
	struct wire_request ping = {.type = WIRE_PING};
	struct boot_conn *c;
	uint64_t until, unknown;
	c = deaf_open();
	deaf_gets();
	h = hello_make(te); /* of another endpoint: nothing is waited for */
	prior_set(&h, &deaf_welcome);
	expect(boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	look();
	expect(seen.sessions == 2 && seen.ending == 1 && seen.requests > 0 && seen.clients == 1);
	expect(atomic_load(&server->clients.open) == 1);
	unknown = seen.unknown;
	deaf_send(&ping, 1); /* with number and keys of the old one */
	until = soon();
	for (look(); seen.unknown == unknown && loop_now(loop) < until; look())
		deaf_poll();
	expect(seen.unknown == unknown + 1);
	deaf_close();
	sessions_become(1, 0);
	leave(c);
	deaf_forget();
	expect(open_becomes(0));
}

static void requests_from_before_hello_are_void(void **state)
{
	(void)state;
	in_coroutine(void_body);
}

/* The writes that are under way go to the address that comes again: WELCOME is not before their end. (One more thing is
 * under way than can be cut.) */
static void same_address_body(void)
{
	struct wire_ctrl_msg m, h;
	struct boot_conn *c;
	c = deaf_open();
	deaf_gets();
	hold(deaf_welcome.welcome.session);
	h = deaf_hello;
	prior_set(&h, &deaf_welcome);
	expect(boot_send_await(c, &h, soon()) == 0);
	sessions_become(1, 1);
	only_beats(c, 10);
	sessions_become(1, 1);
	expect(atomic_load(&server->clients.open) == 1);
	deaf_close(); /* its connections are gone, and what was posted fails */
	only_beats(c, 5);
	release(deaf_welcome.welcome.session);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	look();
	expect(seen.requests == 0 && seen.sessions == 1 && seen.ending == 0);
	leave(c);
	deaf_forget();
}

static void welcome_waits_for_what_may_still_be_written_there(void **state)
{
	(void)state;
	in_coroutine(same_address_body);
}

/* The client does not end what is under way, and does not take it. */
static void hurry_body(void)
{
	struct wire_ctrl_msg m, h;
	struct boot_conn *c;
	uint64_t fences, fenced_ns;
	c = deaf_open();
	deaf_gets();
	fences = seen.fences;
	fenced_ns = seen.fenced_ns;
	h = deaf_hello;
	prior_set(&h, &deaf_welcome);
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	look();
	expect(seen.requests == 0 && seen.sessions == 1 && seen.ending == 0);
	expect(seen.fences > fences &&
	       seen.fenced_ns == fenced_ns); /* and not for the quarantine's budget, some seconds later */
	leave(c);
	deaf_close();
	deaf_forget();
}

static void transfers_that_a_returned_client_does_not_take_are_cut(void **state)
{
	struct te_info info;
	(void)state;
	te_info(te, &info);
	if (!info.peer_fence) {
		print_message("here a server cannot fence one peer alone, and waits for the provider\n");
		skip();
	}
	in_coroutine(hurry_body);
}

/* Named: waited for, on this connection and from another one, which takes the first one's place. Not named, or with
 * another token: not. */
static void named_body(void)
{
	struct wire_ctrl_msg held, m, h = hello_make(te);
	struct boot_conn *c = greet(&held), *d;
	hold(held.welcome.session);
	expect(boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME); /* not named */
	sessions_become(2, 1);
	prior_set(&h, &held);
	h.hello.prior.token[3] ^= 1;
	d = dial(server, ctx);
	expect(boot_send_await(d, &h, soon()) == 0 && next(d, &m) == 0 &&
	       m.type == WIRE_CTRL_WELCOME); /* no attachment has that token */
	expect(atomic_load(&server->clients.open) == 2);
	only_beats(c, 3); /* nor is its connection touched */
	leave(d);
	expect(open_becomes(1));
	h.hello.prior.token[3] ^= 1;
	d = dial(server, ctx);
	expect(boot_send_await(d, &h, soon()) == 0);
	expect(next(c, &m) == -KV_EPEERDOWN); /* its client is there now */
	boot_close(&c);
	only_beats(d, 10);
	sessions_become(1, 1);
	expect(atomic_load(&server->clients.open) == 1);
	release(held.welcome.session);
	expect(next(d, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	sessions_become(1, 0);
	leave(d);
	expect(open_becomes(0));
}

static void only_what_hello_names_is_waited_for(void **state)
{
	(void)state;
	in_coroutine(named_body);
}

/* A client that comes back by another connection is not one more. */
static void place_body(void)
{
	struct boot_conn *c[CLIENTS], *d;
	struct wire_ctrl_msg welcome[CLIENTS], m, h = hello_make(te);
	for (unsigned i = 0; i < CLIENTS; i++)
		c[i] = greet(&welcome[i]);
	hold(welcome[1].welcome.session);
	d = greet(&m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL);
	boot_close(&d);
	again(c[0], &welcome[0]);
	expect(welcome[0].type == WIRE_CTRL_WELCOME); /* nor is one that says HELLO again */
	prior_set(&h, &welcome[1]);
	h.hello.addr[0].data[3] ^= 1; /* another port: nothing is waited for */
	d = dial(server, ctx);
	expect(boot_send_await(d, &h, soon()) == 0 && next(d, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	expect(next(c[1], &m) == -KV_EPEERDOWN);
	expect(atomic_load(&server->clients.open) == CLIENTS);
	boot_close(&c[1]);
	c[1] = d;
	d = greet(&m);
	expect(m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL);
	boot_close(&d);
	sessions_become(CLIENTS + 1, 1);
	release(welcome[1].welcome.session);
	sessions_become(CLIENTS, 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		leave(c[i]);
	expect(open_becomes(0));
}

static void a_client_that_comes_back_is_not_one_more(void **state)
{
	(void)state;
	in_coroutine(place_body);
}

/* A client that says HELLO without end is answered, but only so often. A slow machine makes this longer, never shorter.
 */
static void rate_body(void)
{
	enum { MORE = 20 };
	struct wire_ctrl_msg m, h = hello_make(te);
	struct boot_conn *c = greet(&m);
	uint64_t begun_ns = loop_now(loop);
	for (unsigned i = 0; i < CONN_HELLOS_BURST + MORE; i++)
		expect(boot_send_await(c, &h, soon()) == 0);
	for (unsigned i = 0; i < CONN_HELLOS_BURST + MORE; i++)
		expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	expect(loop_now(loop) - begun_ns > (MORE - 2) * 1000000000ull / CONN_HELLOS_RATE);
	sessions_become(1, 0);
	leave(c);
}

static void hellos_of_a_connection_are_bounded_in_time(void **state)
{
	(void)state;
	in_coroutine(rate_body);
}

/* ADDRESS is answered with HELLO on the same connection, which goes on. Nothing that was to be told of the old
 * attachment is told of the new one. */
static void anew_body(void)
{
	struct wire_ctrl_msg m;
	struct wire_blob_addr before, after;
	struct boot_conn *c = greet(&m);
	struct wire_ctrl_msg welcome = m;
	uint64_t until;
	expect(wire_welcome_addr(&m.welcome, 0, 0, &before) == 0);
	endpoint_rebuild();
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_ADDRESS);
	again(c, &welcome);
	expect(welcome.type == WIRE_CTRL_WELCOME && wire_welcome_addr(&welcome.welcome, 0, 0, &after) == 0);
	expect(before.len != after.len || memcmp(before.data, after.data, after.len) != 0);
	until = loop_now(loop) + ANEW_NS + ANEW_NS / 2; /* by then one that had not come back would be cut */
	while (loop_now(loop) < until)
		only_beats(c, 1);
	leave(c);
	expect(open_becomes(0));
}

static void after_address_hello_again_keeps_the_connection(void **state)
{
	(void)state;
	in_coroutine(anew_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_is_welcomed_with_all_addresses),
		cmocka_unit_test(another_provider_is_refused_with_a_sentence),
		cmocka_unit_test(another_protocol_version_is_refused),
		cmocka_unit_test(without_a_hello_the_connection_ends),
		cmocka_unit_test(hello_again_makes_another_attachment),
		cmocka_unit_test(hellos_are_answered_in_order),
		cmocka_unit_test(requests_from_before_hello_are_void),
		cmocka_unit_test(welcome_waits_for_what_may_still_be_written_there),
		cmocka_unit_test(transfers_that_a_returned_client_does_not_take_are_cut),
		cmocka_unit_test(only_what_hello_names_is_waited_for),
		cmocka_unit_test(a_client_that_comes_back_is_not_one_more),
		cmocka_unit_test(hellos_of_a_connection_are_bounded_in_time),
		cmocka_unit_test(after_address_hello_again_keeps_the_connection),
	};
	return cmocka_run_group_tests_name("kvserver/hello", tests, group_up, group_down);
}
