/* SPDX-License-Identifier: Apache-2.0 */
/* test_stop.c -- a server that ends while clients are there. */
#include "tests/kvserver/control.h"

#include <pthread.h>

#include "kvserver/server/server.h"

static void stop_with_client_body(void)
{
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg m;
	struct boot_conn *c;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	c = greet(&m);
	server = shared;
	kvs_server_stop(own, 1000000000); /* blocks this thread: the server must not need us */
	expect(kvs_server_state(own, NULL) == KVS_STOPPED);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE);
	expect(next(c, &m) == -KV_EPEERDOWN); /* we did not go, so we were cut */
	boot_close(&c);
	kvs_server_destroy(&own);
}

static void a_server_with_a_client_stops(void **state)
{
	(void)state;
	in_coroutine(stop_with_client_body);
}

#define STOP_NS 60000000000ull /* of the drain: nothing here waits for it */

static void *stop_it(void *arg)
{
	kvs_server_stop(arg, STOP_NS);
	return NULL;
}

/* Also a HELLO that waits: the server does not end later for it. */
static void drain_while_it_waits_body(void)
{
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg welcome, m, h = hello_make(te);
	struct boot_conn *c;
	pthread_t stopper;
	uint64_t begun_ns;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	c = greet(&welcome);
	hold(welcome.welcome.session);
	prior_set(&h, &welcome);
	expect(boot_send_await(c, &h, soon()) == 0);
	sessions_become(1, 1);
	only_beats(c, 3);
	begun_ns = loop_now(loop);
	expect(pthread_create(&stopper, NULL, stop_it, own) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_CLOSING);
	expect(loop_now(loop) - begun_ns < STOP_NS / 2);
	release(welcome.welcome.session);
	server = shared;
	boot_close(&c);
	pthread_join(stopper, NULL);
	kvs_server_destroy(&own);
}

static void drain_body(void)
{
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg welcome, m;
	struct boot_conn *c;
	pthread_t stopper;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	c = greet(&welcome);
	server = shared;
	expect(pthread_create(&stopper, NULL, stop_it, own) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE);
	again(c, &welcome);
	expect(welcome.type == WIRE_CTRL_REFUSE && welcome.refuse.status == WIRE_CLOSING);
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	pthread_join(stopper, NULL); /* nobody is left to wait for */
	kvs_server_destroy(&own);
}

static void a_server_that_ends_refuses_hello_again(void **state)
{
	(void)state;
	in_coroutine(drain_body);
	in_coroutine(drain_while_it_waits_body);
}

static struct kvs_drain asked[2]; /* each written before `asks` counts it, read after that */
static _Atomic unsigned asks;

static uint64_t on_drain(void *arg, const struct kvs_drain *bounds, const char *client)
{
	expect(arg == &asks && strncmp(client, "127.0.0.1:", 10) == 0);
	expect(asks < KV_COUNT(asked));
	asked[asks] = *bounds;
	asks++;
	return 1500000000;
}

static void asked_body(void)
{
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg m, drain = {.type = WIRE_CTRL_DRAIN, .drain = {.time_ms = UINT64_MAX, .bytes_s = 7}};
	struct boot_conn *c;
	o.on_drain = on_drain;
	o.on_drain_arg = &asks;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	c = greet(&m);
	server = shared;
	expect(m.welcome.flags & WIRE_WELCOME_DRAIN);
	expect(boot_send_await(c, &drain, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_DRAIN_OK && m.drain.time_ms == 1501);
	expect(asks == 1 && asked[0].time_ns == 86400000000000ull && asked[0].bytes_s == 7); /* a day at most */
	drain.drain = (struct wire_drain){0};
	expect(boot_send_await(c, &drain, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_DRAIN_OK);
	expect(asks == 2 && asked[1].time_ns == 0 && asked[1].bytes_s == 0);
	expect(kvs_server_state(own, NULL) == KVS_RUNNING); /* the program ends it */
	boot_close(&c);
	kvs_server_destroy(&own);
}

static void *stop_own(void *own)
{
	kvs_server_stop(own, 2000000000);
	return NULL;
}

/* The client that has asked for the drain hears what came of it, before the goodbye; the other one does not. */
static void report_body(void)
{
	const struct kv_drained report = {.values = 3, .of = 5, .bytes = 9, .left = {[KV_LEFT_FULL] = 2}};
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg m, drain = {.type = WIRE_CTRL_DRAIN};
	struct boot_conn *c, *other;
	pthread_t stopper;
	o.on_drain = on_drain;
	o.on_drain_arg = &asks;
	asks = 0;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	server = own;
	other = greet(&m);
	c = greet(&m);
	server = shared;
	expect(boot_send_await(c, &drain, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_DRAIN_OK);
	kvs_server_drained(own, &report);
	expect(pthread_create(&stopper, NULL, stop_own, own) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_DRAIN_DONE);
	expect(memcmp(&m.drained, &report, sizeof(report)) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE);
	expect(next(other, &m) == 0 && m.type == WIRE_CTRL_GOODBYE);
	boot_close(&c);
	boot_close(&other);
	expect(pthread_join(stopper, NULL) == 0);
	kvs_server_destroy(&own);
}

static void a_client_that_asked_hears_what_came_of_the_drain(void **state)
{
	(void)state;
	in_coroutine(report_body);
}

static void a_client_asks_for_a_drain(void **state)
{
	(void)state;
	in_coroutine(asked_body);
}

static void not_allowed_body(void)
{
	struct wire_ctrl_msg m, drain = {.type = WIRE_CTRL_DRAIN};
	struct boot_conn *c = greet(&m);
	expect(!(m.welcome.flags & WIRE_WELCOME_DRAIN));
	expect(boot_send_await(c, &drain, soon()) == 0);
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	expect(kvs_server_state(server, NULL) == KVS_RUNNING);
}

static void a_client_that_may_not_ask_is_cut(void **state)
{
	(void)state;
	in_coroutine(not_allowed_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_with_a_client_stops),
		cmocka_unit_test(a_server_that_ends_refuses_hello_again),
		cmocka_unit_test(a_client_asks_for_a_drain),
		cmocka_unit_test(a_client_that_asked_hears_what_came_of_the_drain),
		cmocka_unit_test(a_client_that_may_not_ask_is_cut),
	};
	return cmocka_run_group_tests_name("kvserver/stop", tests, group_up, group_down);
}
