/* SPDX-License-Identifier: Apache-2.0 */
/* test_poller.c -- pollers: those that can be waited for, those that cannot, and that an idle loop sleeps. Counts,
 * never durations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop/poller.h"
#include "tests/loop/harness.h"

static struct loop *loop;

struct probe {
	struct loop_poller poller;
	int polls, arms, found;
	bool refuse, active,
		blind;    /* arm says -EAGAIN; active() says so; poll() finds nothing, whatever the descriptor says */
	int delete_after; /* polls after which it deletes itself */
	struct probe *victim; /* and another */
};

static int probe_poll(struct loop_poller *p)
{
	struct probe *probe = KV_CONTAINER(p, struct probe, poller);
	uint64_t n = 0;
	probe->polls++;
	if (probe->delete_after && probe->polls == probe->delete_after) {
		if (probe->victim)
			loop_poller_del(loop, &probe->victim->poller);
		loop_poller_del(loop, p);
		memset(probe, 0, sizeof(*probe)); /* its memory is ours again */
		return 1;
	}
	if (probe->blind || p->wait_fd < 0 || read(p->wait_fd, &n, sizeof(n)) < 0)
		return 0;
	probe->found += (int)n;
	return (int)n;
}

static int probe_arm(struct loop_poller *p)
{
	struct probe *probe = KV_CONTAINER(p, struct probe, poller);
	probe->arms++;
	return probe->refuse ? -EAGAIN : 0;
}

static bool probe_active(struct loop_poller *p)
{
	return KV_CONTAINER(p, struct probe, poller)->active;
}

static struct probe with_fd(int fd)
{
	return (struct probe){.poller = {.poll = probe_poll, .arm = probe_arm, .wait_fd = fd}};
}

static struct probe without_fd(void)
{
	return (struct probe){.poller = {.poll = probe_poll, .active = probe_active, .wait_fd = -1}, .active = true};
}

static int set_up(void **state)
{
	(void)state;
	loop = harness_loop(NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	loop_destroy(&loop);
	return 0;
}

static struct loop_stats stats_now(void)
{
	struct loop_stats stats;
	loop_stats(loop, &stats);
	return stats;
}

static void ring_fd(int fd)
{
	uint64_t one = 1;
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

/* Turns as loop_run would, for this long. */
static void run_for(uint64_t ns)
{
	uint64_t end = loop_now(loop) + ns;
	for (uint64_t now = loop_now(loop); now < end; now = loop_now(loop))
		loop_turn(loop, end - now);
}

static void an_idle_loop_sleeps(void **state)
{
	(void)state;
	run_for(50 * MS);
	assert_in_range(loop_turns(loop), 1, 3);
}

static void an_idle_poller_with_a_descriptor_is_polled_every_ten_ms(void **state)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	struct probe probe = with_fd(fd);
	(void)state;
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	run_for(100 * MS);
	assert_in_range(loop_turns(loop), 1, 12); /* a sleep never ends early, so there cannot be more */
	assert_in_range(probe.polls, 2, 24);
	assert_true(probe.arms > 0);
	loop_poller_del(loop, &probe.poller);
	close(fd);
}

static void a_descriptor_that_becomes_readable_ends_the_sleep(void **state)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	struct probe probe = with_fd(fd);
	(void)state;
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	for (int i = 0; i < 100; i++) {
		loop_turn(loop, 0);
		uint64_t sleeps = stats_now().sleeps;
		ring_fd(fd); /* seen by the poll before the sleep ... */
		assert_int_equal(loop_turn(loop, SECOND), 1);
		assert_int_equal(stats_now().sleeps, sleeps);
	}
	assert_int_equal(probe.found, 100);
	loop_poller_del(loop, &probe.poller);
	close(fd);
}

static int alarm_fd;

static int ring_in_arm(struct loop_poller *p)
{
	/* ... or after it, when only the ring can notice. */
	struct probe *probe = KV_CONTAINER(p, struct probe, poller);
	probe->arms++;
	ring_fd(alarm_fd);
	return 0;
}

static void work_that_comes_between_poll_and_sleep_is_noticed(void **state)
{
	struct probe probe;
	(void)state;
	alarm_fd = eventfd(0, EFD_NONBLOCK);
	probe = with_fd(alarm_fd);
	probe.poller.arm = ring_in_arm;
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	for (int i = 1; i <= 100; i++) {
		assert_int_equal(loop_turn(loop, 3600 * SECOND), 1);
		assert_int_equal(probe.arms, i);
	}
	assert_int_equal(probe.found, 100);
	assert_int_equal(stats_now().sleeps, 100);
	loop_poller_del(loop, &probe.poller);
	close(alarm_fd);
}

static void arm_can_forbid_the_sleep(void **state)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	struct probe probe = with_fd(fd);
	(void)state;
	probe.refuse = true;
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	for (int i = 0; i < 10; i++)
		loop_turn(loop, SECOND);
	assert_int_equal(stats_now().sleeps, 0);
	assert_int_equal(probe.polls, 20);
	loop_poller_del(loop, &probe.poller);
	close(fd);
}

static void a_descriptor_that_lies_does_not_turn_the_loop_at_full_speed(void **state)
{
	int fd = eventfd(1, EFD_NONBLOCK);
	struct probe probe = with_fd(fd);
	(void)state;
	probe.blind = true;
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	run_for(100 * MS);
	assert_in_range(loop_turns(loop), 2, 8 + 6 + 100 + 10); /* false alarms, growing steps, then one per ms */
	probe.blind = false;
	run_for(5 * MS);
	assert_int_equal(probe.found, 1);
	loop_poller_del(loop, &probe.poller);
	close(fd);
}

static void an_active_poller_without_a_descriptor_is_polled_in_growing_steps(void **state)
{
	struct probe probe = without_fd();
	(void)state;
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	run_for(50 * MS);
	assert_in_range(loop_turns(loop), 2, 60);
	probe.active = false;
	uint64_t turns = loop_turns(loop);
	run_for(50 * MS);
	assert_in_range(loop_turns(loop) - turns, 1, 7);
	loop_poller_del(loop, &probe.poller);
}

static void only_active_pollers_are_spun_for(void **state)
{
	struct probe probe = without_fd();
	(void)state;
	loop_set_spin(loop, 3600 * SECOND);
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(loop_turn(loop, SECOND), 0);
	assert_int_equal(stats_now().spins, 100);
	assert_int_equal(stats_now().sleeps, 0);
	probe.active = false;
	assert_int_equal(loop_turn(loop, MS), 0);
	assert_int_equal(stats_now().spins, 100);
	assert_int_equal(stats_now().sleeps, 1);
	loop_poller_del(loop, &probe.poller);
}

static void a_new_descriptor_replaces_the_old(void **state)
{
	int old = eventfd(0, EFD_NONBLOCK), new = eventfd(0, EFD_NONBLOCK);
	struct probe probe = with_fd(old);
	(void)state;
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	loop_turn(loop, MS); /* a request on the old one is with the kernel now */
	probe.poller.wait_fd = new;
	assert_int_equal(loop_poller_refd(loop, &probe.poller), 0);
	close(old);
	loop_turn(loop, MS);
	ring_fd(new);
	assert_int_equal(loop_turn(loop, SECOND), 1);
	assert_int_equal(probe.found, 1);
	loop_poller_del(loop, &probe.poller);
	loop_poller_del(loop, &probe.poller); /* harmless */
	close(new);
}

static void pollers_may_delete_themselves_and_each_other(void **state)
{
	struct probe probes[4];
	int fd = eventfd(0, EFD_NONBLOCK);
	(void)state;
	for (int i = 0; i < 4; i++) {
		probes[i] = with_fd(fd);
		assert_int_equal(loop_poller_add(loop, &probes[i].poller), 0);
	}
	probes[1].delete_after = 3;
	probes[1].victim = &probes[2]; /* the next one in line */
	for (int i = 0; i < 6; i++)
		loop_turn(loop, 0);
	assert_int_equal(probes[0].polls, 6);
	assert_int_equal(probes[1].polls, 0); /* cleared */
	assert_int_equal(probes[2].polls, 2);
	assert_int_equal(probes[3].polls, 6);
	loop_poller_del(loop, &probes[0].poller);
	loop_poller_del(loop, &probes[3].poller);
	close(fd);
}

static void a_loop_can_end_with_its_pollers(void **state)
{
	static struct probe probe; /* outlives the loop */
	int fd = eventfd(0, EFD_NONBLOCK);
	(void)state;
	probe = with_fd(fd);
	assert_int_equal(loop_poller_add(loop, &probe.poller), 0);
	loop_turn(loop, MS);
	loop_destroy(&loop);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_idle_loop_sleeps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_idle_poller_with_a_descriptor_is_polled_every_ten_ms, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_descriptor_that_becomes_readable_ends_the_sleep, set_up, tear_down),
		cmocka_unit_test_setup_teardown(work_that_comes_between_poll_and_sleep_is_noticed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(arm_can_forbid_the_sleep, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_descriptor_that_lies_does_not_turn_the_loop_at_full_speed, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_active_poller_without_a_descriptor_is_polled_in_growing_steps,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_active_pollers_are_spun_for, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_new_descriptor_replaces_the_old, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pollers_may_delete_themselves_and_each_other, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_loop_can_end_with_its_pollers, set_up, tear_down),
	};
	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
