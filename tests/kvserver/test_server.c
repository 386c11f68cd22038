/* SPDX-License-Identifier: Apache-2.0 */
/* test_server.c -- a whole server: what it refuses to be, its memory, its key, its loops, and what its shards lose. */
#include "tests/kvserver/control.h"

#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kvserver/server/server.h"

static void a_port_in_use_is_said(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	struct kvs_server *second;
	struct kv_error err = {0};
	char addr[KV_HOST_MAX];
	o.listen_addr = kvs_server_address(server, addr, sizeof(addr));
	assert_int_equal(kvs_server_create(&o, &second, &err), 0);
	assert_true(kvs_server_start(second, &err) < 0);
	assert_non_null(strstr(err.text, addr));
	assert_int_equal(kvs_server_state(second, NULL), KVS_STOPPED);
	kvs_server_destroy(&second);
}

static void check_refused(const struct kvs_options *o, int code, const char *part)
{
	struct kvs_server *s = NULL;
	struct kv_error err = {0};
	assert_int_equal(kvs_server_create(o, &s, &err), code);
	assert_null(s);
	if (!strstr(err.text, part))
		fail_msg("'%s' does not contain '%s'", err.text, part);
}

static void an_open_door_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.listen_addr = "0.0.0.0:0";
	check_refused(&o, -KV_EINVAL, "--insecure");
}

static void more_memory_than_there_is_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.memory_bytes = 1ull << 50;
	check_refused(&o, -KV_ENOMEM, "--memory-mb");
}

static void a_provider_that_is_not_there_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.provider = "nonesuch";
	check_refused(&o, -KV_ENOTSUP, "nonesuch");
}

static void too_little_memory_is_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.memory_bytes = 1 << 20;
	check_refused(&o, -KV_EINVAL, "1 MiB");
}

static void more_shards_than_a_server_may_have_are_refused(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	o.shards = 8 * KV_SHARDS_MAX; /* far beyond the server's array of them */
	check_refused(&o, -KV_EINVAL, "512 shards");
}

/* By the page tables: the counters of the process are inexact while several threads touch memory. */
static void prefaulted_memory_is_resident(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	struct kvs_server *s;
	static unsigned char there[(128 << 20) / 4096];
	o.prefault = KVS_PREFAULT_START;
	o.memory_bytes = 128 << 20;
	assert_int_equal(kvs_server_create(&o, &s, NULL), 0);
	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct kv_area *area = &s->shard[i]->area;
		assert_int_equal(mincore(area->base, area->len_bytes, there), 0);
		for (uint64_t page = 0; page < area->len_bytes / 4096; page++)
			assert_true(there[page] & 1);
	}
	kvs_server_destroy(&s);
}

/* While values are in doubt, the mark keeps its time: a server that dies then was silent for that long, and the next
 * one asks the others for all deletions since. */
static void a_mark_of_kept_memory_keeps_its_time_in_doubt(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	char keep[] = "/tmp/kvrail-keep.XXXXXX";
	struct kvs_server *s;
	const struct kept_mark *m;
	uint64_t then_ns, until_ns = kv_now() + 10000000000;
	int fd = mkstemp(keep);
	assert_true(fd >= 0);
	close(fd);
	unlink(keep);
	o.keep = keep;
	o.recover = true;
	assert_int_equal(kvs_kept_open(&o, &o.kept, NULL), 0);
	assert_int_equal(kvs_server_create(&o, &s, NULL), 0);
	assert_int_equal(kvs_server_start(s, NULL), 0);
	m = kept_mark_of(s->shard[0]->area.base, s->shard[0]->opt.memory_bytes);
	then_ns = __atomic_load_n(&m->now_ns, __ATOMIC_RELAXED);
	for (; __atomic_load_n(&m->now_ns, __ATOMIC_RELAXED) == then_ns; usleep(10000))
		assert_true(kv_now() < until_ns); /* it ticks */
	assert_int_equal(kvs_server_away(s, true), 0);
	usleep(300000);
	then_ns = __atomic_load_n(&m->now_ns, __ATOMIC_RELAXED);
	usleep(500000);
	assert_int_equal(__atomic_load_n(&m->now_ns, __ATOMIC_RELAXED), then_ns);
	kvs_server_destroy(&s);
	kvs_kept_close(&o.kept);
	unlink(keep);
}

static const char other_psk[] = "test:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static void psk_body(void)
{
	struct kvs_options o = server_options();
	struct boot_security with = {.psk = psk}, without = {.psk = other_psk};
	struct boot_context *right = NULL, *wrong = NULL, *plain = ctx;
	struct kvs_server *own = NULL, *shared = server;
	struct wire_ctrl_msg m;
	struct boot_conn *c;
	o.psk = psk;
	expect(kvs_server_create(&o, &own, NULL) == 0 && kvs_server_start(own, NULL) == 0);
	expect(boot_context_create(&with, false, &sink, &right, NULL) == 0 &&
	       boot_context_create(&without, false, &sink, &wrong, NULL) == 0);
	server = own;
	ctx = right;
	leave(greet(&m));
	expect(m.type == WIRE_CTRL_GOODBYE_OK || m.type == WIRE_CTRL_WELCOME);
	c = dial(own, wrong);
	expect(!c || next(c, &m) != 0);
	boot_close(&c);
	server = shared;
	ctx = plain;
	kvs_server_destroy(&own);
	boot_context_destroy(&right);
	boot_context_destroy(&wrong);
}

static void a_pre_shared_key_is_asked_for(void **state)
{
	(void)state;
	in_coroutine(psk_body);
}

/* ---- many sessions that are lost at once ---- */

static struct {
	struct kvs_server *server;
	sem_t reached, go;
} control;

static void control_hold(void *arg)
{
	(void)arg;
	sem_post(&control.reached);
	sem_wait(&control.go);
}

static void control_look(void *arg)
{
	(void)arg;
	sem_post(&control.reached);
}

/* However many sessions are lost while the control loop is busy, it has one thing to do, and its queue room for others;
 * and again for what is lost later. */
static void lost_sessions_are_looked_for_together(void **state)
{
	enum { LOST = 100000 }; /* more than any queue holds */
	struct kvs_options o = server_options();
	struct kv_error err = {0};
	struct shard *shard;
	(void)state;
	sem_init(&control.reached, 0, 0);
	sem_init(&control.go, 0, 0);
	assert_int_equal(kvs_server_create(&o, &control.server, &err), 0);
	assert_int_equal(kvs_server_start(control.server, &err), 0);
	shard = control.server->shard[0];
	for (unsigned round = 0; round < 2; round++) {
		unsigned refused = 0;
		assert_int_equal(loop_post(control.server->control, control_hold, NULL), 0);
		sem_wait(&control.reached);
		for (unsigned i = 0; i < LOST; i++)
			refused += shard->opt.reports.lost(shard->opt.reports.arg, shard) != 0;
		refused += loop_post(control.server->control, control_look, NULL) != 0;
		sem_post(&control.go);
		assert_int_equal(refused, 0);
		sem_wait(&control.reached); /* behind what the shard asked for */
		assert_false(atomic_load(&control.server->clients.lost_reported));
	}
	kvs_server_destroy(&control.server);
	sem_destroy(&control.reached);
	sem_destroy(&control.go);
}

/* ---- loops of the caller ---- */

static void turn_until(struct kvs_server *s, struct loop **loops, enum kvs_state want)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (kvs_server_state(s, NULL) != want) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		for (unsigned i = 0; i <= SHARDS; i++)
			loop_turn(loops[i], 0);
	}
}

static void a_server_lives_on_loops_of_the_caller(void **state)
{
	(void)state;
	struct loop_options lo = {.log = &sink};
	struct kvs_options o = server_options();
	struct loop *loops[1 + SHARDS];
	struct kvs_server *s;
	struct kv_error err;
	for (unsigned i = 0; i <= SHARDS; i++)
		assert_int_equal(loop_create(&lo, &loops[i], &err), 0);
	o.loops = loops;
	assert_int_equal(kvs_server_create(&o, &s, &err), 0);
	assert_int_equal(kvs_server_state(s, NULL), KVS_CREATED);
	assert_int_equal(kvs_server_start(s, &err), 0);
	turn_until(s, loops, KVS_RUNNING);
	assert_true(kvs_server_port(s) != 0);
	kvs_server_stop(s, 0);
	turn_until(s, loops, KVS_STOPPED);
	kvs_server_destroy(&s);
	for (unsigned i = 0; i <= SHARDS; i++)
		loop_destroy(&loops[i]);
}

static struct {
	sem_t begun, go_on;
} stuck;

static void stand_still(void *arg)
{
	(void)arg;
	sem_post(&stuck.begun);
	sem_wait(&stuck.go_on);
}

static void pulse_is_well(struct kvs_server *s)
{
	while (!kvs_server_alive(s))
		usleep(1000);
	while (!kvs_server_alive(s)) /* what the first one asked is answered */
		usleep(1000);
}

/* The control loop, and each shard's. */
static void a_loop_that_stands_still_is_noticed(void **state)
{
	(void)state;
	struct kvs_options o = server_options();
	struct kvs_server *own = NULL;
	assert_int_equal(kvs_server_create(&o, &own, NULL), 0);
	assert_int_equal(kvs_server_start(own, NULL), 0);
	assert_true(kvs_server_alive(own));
	for (unsigned i = 0; i <= SHARDS; i++) {
		sem_init(&stuck.begun, 0, 0);
		sem_init(&stuck.go_on, 0, 0);
		pulse_is_well(own);
		assert_int_equal(loop_post(i ? own->shard_loop[i - 1] : own->control, stand_still, NULL), 0);
		sem_wait(&stuck.begun);       /* it has answered all before */
		while (kvs_server_alive(own)) /* another loop may have to be waited for: this one does not answer */
			usleep(1000);
		for (unsigned k = 0; k < 3; k++)
			assert_false(kvs_server_alive(own));
		sem_post(&stuck.go_on);
		pulse_is_well(own);
	}
	kvs_server_destroy(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_in_use_is_said),
		cmocka_unit_test(a_loop_that_stands_still_is_noticed),
		cmocka_unit_test(an_open_door_is_refused),
		cmocka_unit_test(more_memory_than_there_is_is_refused),
		cmocka_unit_test(a_provider_that_is_not_there_is_refused),
		cmocka_unit_test(too_little_memory_is_refused),
		cmocka_unit_test(more_shards_than_a_server_may_have_are_refused),
		cmocka_unit_test(prefaulted_memory_is_resident),
		cmocka_unit_test(a_mark_of_kept_memory_keeps_its_time_in_doubt),
		cmocka_unit_test(a_pre_shared_key_is_asked_for),
		cmocka_unit_test(lost_sessions_are_looked_for_together),
		cmocka_unit_test(a_server_lives_on_loops_of_the_caller),
	};
	return cmocka_run_group_tests_name("kvserver/server", tests, group_up, group_down);
}
