/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_slow.c -- the log of slow calls under virtual time, where every hop takes 1 ms (a message makes two, a
 * read two in all) and nothing else takes any: the phases are exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kvclient/conn/node.h"
#include "kvclient/pool/hosted.h"
#include "tests/sim/world.h"

static struct world world;

static void open_world(uint64_t slow_ns)
{
	world_open(&world, &(struct world_options){.seed = 1,
						   .clients = 1,
						   .fabric = {.delay_min_ns = MS, .delay_max_ns = MS, .wait_fd = true},
						   .slow_ns = slow_ns});
}

/* What the line says after the name of the server, whose port and shard are the kernel's and the hash's business. */
static void assert_said(const char *begin, const char *end)
{
	const char *line = world_said(begin), *tail = line ? strstr(line, " key ") : NULL;
	if (!line || !tail || strncmp(tail, end, strlen(end)) != 0)
		fail_msg("the line is:\n%s\nand not:\n%s ...%s", line ? line : "(none)", begin, end);
}

static uint8_t data[64 << 10];

struct one {
	uint64_t len;
	bool get;
	unsigned times;
	const char *key;
};

static void calls(struct kvc_client *client, void *arg)
{
	const struct one *o = arg;
	struct kvc_key key = {o->key, strlen(o->key)};
	for (unsigned i = 0; i < o->times; i++) {
		int64_t rc = o->get ? kvc_get_await(client, key, data, o->len, NULL)
				    : kvc_put_await(client, key, data, o->len, NULL);
		if (rc < 0 && rc != -KV_ENOTFOUND)
			world_wrong(&world, "%s", kvc_errname((int)rc));
	}
}

static void phases_are_exact(void **state)
{
	(void)state;
	memset(data, 1, sizeof(data));
	open_world(1);
	world_do(&world, 0, calls, &(struct one){.len = 100, .times = 1, .key = "small"});
	assert_said("slow PUT client 0 ", " key 'small' 100 bytes: 4.000 ms = room 0.000 + queue 0.000 + server 0.000 "
					  "(post 0.000) + wire 4.000 + "
					  "data 0.000 + wake 0.000 + check 0.000 + other 0.000; 1 request; OK");
	/* The server reads the value: there and back while it serves. */
	world_do(&world, 0, calls, &(struct one){.len = sizeof(data), .times = 1, .key = "large"});
	assert_said("slow PUT client 0 ", " key 'large' 65536 bytes: 6.000 ms = room 0.000 + queue 0.000 + server "
					  "2.000 (post 0.000) + wire 4.000 + "
					  "data 0.000 + wake 0.000 + check 0.000 + other 0.000; 1 request; OK");
	world_do(&world, 0, calls, &(struct one){.len = sizeof(data), .get = true, .times = 1, .key = "none"});
	assert_said("slow GET client 0 ",
		    " key 'none' 65536 bytes: 4.000 ms = room 0.000 + queue 0.000 + server 0.000 (post 0.000) "
		    "+ wire 4.000 + data 0.000 + wake 0.000 + check 0.000 + other 0.000; 1 request; KV_ENOTFOUND");
	assert_int_equal(world_counters(&world, 0).slow, 3);
	world_close(&world);
}

static struct kvc_phases told = {.size = sizeof(told)};

static void a_get_that_asks(struct kvc_client *client, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .phases = &told};
	struct kvc_borrowed borrowed;
	(void)arg;
	if (kvc_get_borrowed_await(client, (struct kvc_key){"large", 5}, sizeof(data), &call, &borrowed) !=
	    sizeof(data))
		world_wrong(&world, "no value");
	kvc_borrowed_release(client, &borrowed);
	/* An older struct ends before the field. */
	call.size = offsetof(struct kvc_call, phases);
	call.phases = (struct kvc_phases *)1;
	if (kvc_exists_await(client, &(struct kvc_key){"large", 5}, 1, NULL, NULL, &call) < 0)
		world_wrong(&world, "an older struct kvc_call is refused");
}

/* Without slow_ns, and nothing is logged. */
static void a_caller_is_told(void **state)
{
	(void)state;
	open_world(0);
	world_do(&world, 0, calls, &(struct one){.len = sizeof(data), .times = 1, .key = "large"});
	world_do(&world, 0, a_get_that_asks, NULL);
	/* The reply overtakes the data, whose immediate takes a hop more. */
	assert_int_equal(told.total_ns, 5 * MS);
	assert_int_equal(told.wire_ns, 4 * MS);
	assert_int_equal(told.data_ns, MS);
	assert_int_equal(told.room_ns + told.queue_ns + told.server_ns + told.wake_ns + told.check_ns + told.other_ns,
			 0);
	assert_int_equal(world_counters(&world, 0).slow, 0);
	world_close(&world);
}

static void what_is_not_slow_is_not_logged(void **state)
{
	(void)state;
	open_world(4 * MS + 1);
	world_do(&world, 0, calls, &(struct one){.len = 100, .times = 5, .key = "a"});
	assert_null(world_said("slow PUT"));
	assert_int_equal(world_counters(&world, 0).slow, 0);
	world_close(&world);
}

static void ten_lines_a_second_and_the_number_of_the_rest(void **state)
{
	struct one o = {.len = 100, .get = true, .times = 25, .key = "none"};
	(void)state;
	open_world(1);
	world_do(&world, 0, calls, &o);
	assert_int_equal(world_counters(&world, 0).slow, 25);
	assert_null(world_said("more were slow"));
	world_sleep(&world, SECOND);
	o.times = 1;
	world_do(&world, 0, calls, &o);
	assert_non_null(world_said("KV_ENOTFOUND (15 more were slow, not shown)"));
	world_close(&world);
}

static bool thaw_due(void *arg)
{
	return world_now(&world) >= *(const uint64_t *)arg;
}

/* The server's processor is taken away for 20 ms, right when the call begins. */
static void a_server_that_does_not_run_is_time_on_the_wire(void **state)
{
	uint64_t begun, until;
	char end[256];
	double ms;
	(void)state;
	open_world(10 * MS);
	begun = world_now(&world);
	until = begun + 20 * MS;
	world_server_freeze(&world, 0, true);
	world_worker(&world, 0, 0, calls, &(struct one){.len = 100, .times = 1, .key = "frozen"});
	world_run(&world, thaw_due, &until, SECOND, "20 ms");
	world_server_freeze(&world, 0, false);
	ms = (double)(world_now(&world) - begun) / 1e6 + 2; /* the request is there; the reply has its way to go */
	world_join(&world, SECOND);
	snprintf(
		end, sizeof(end),
		" key 'frozen' 100 bytes: %.3f ms = room 0.000 + queue 0.000 + server 0.000 (post 0.000) + wire %.3f + "
		"data 0.000 + wake 0.000 + check 0.000 + other 0.000; 1 request; OK",
		ms, ms);
	assert_said("slow PUT client 0 ", end);
	world_close(&world);
}

static void pin(struct kvc_client *client, void *arg)
{
	struct kvc_key key = {"pinned", 6};
	(void)arg;
	if (kvc_put_await(client, key, data, 100, NULL) < 0 || kvc_pin_await(client, key, NULL) < 0)
		world_wrong(&world, "a value could not be pinned");
}

static bool pinned_again(void *arg)
{
	(void)arg;
	return world_counters(&world, 0).pins_again == 1;
}

/* No call waits for it. */
static void what_the_client_does_by_itself_is_no_slow_call(void **state)
{
	(void)state;
	open_world(1);
	world_do(&world, 0, pin, NULL);
	assert_int_equal(world_counters(&world, 0).slow, 2);
	kc_node_redo(&world.pool[0].pool->client[0]->node[0], "the test wants it");
	world_run(&world, pinned_again, NULL, SECOND, "the pin");
	assert_int_equal(world_counters(&world, 0).slow, 2);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_are_exact),
		cmocka_unit_test(a_caller_is_told),
		cmocka_unit_test(what_is_not_slow_is_not_logged),
		cmocka_unit_test(ten_lines_a_second_and_the_number_of_the_rest),
		cmocka_unit_test(a_server_that_does_not_run_is_time_on_the_wire),
		cmocka_unit_test(what_the_client_does_by_itself_is_no_slow_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
