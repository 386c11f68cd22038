/* SPDX-License-Identifier: Apache-2.0 */
/* test_prefault.c -- pages made in the background: all of them, without a change of their contents, and stoppable. */
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "host/memory.h"
#include "host/numa.h"
#include "host/prefault.h"

enum { MIB = 1 << 20, PAGE = 4096, NONE = 99 };

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static struct kv_prefault_state wait_for_end(const struct kv_prefault *p)
{
	struct kv_prefault_state s;
	for (kv_prefault_state(p, &s); !s.ended; kv_prefault_state(p, &s))
		nap();
	return s;
}

static uint64_t pages_there(const struct kv_area *area)
{
	size_t pages = area->len_bytes / PAGE;
	unsigned char *there = calloc(pages, 1);
	uint64_t n = 0;
	assert_non_null(there);
	assert_int_equal(mincore(area->base, area->len_bytes, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	free(there);
	return n;
}

static void every_page_of_every_area_is_made(void **state)
{
	struct kv_area area[3];
	struct kv_prefault_area what[3];
	struct kv_prefault *p = NULL;
	struct kv_prefault_state s;
	_Atomic uint64_t left = 7;
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(kv_area_map_lazy((8 + 8 * i) * MIB, &area[i], NULL), 0);
		what[i] = (struct kv_prefault_area){area[i].base, area[i].len_bytes, KV_NODE_ANY, NULL};
	}
	assert_int_equal(kv_prefault_start(what, 3, 100, &left, NULL, &p, NULL), 0);
	s = wait_for_end(p);
	assert_int_equal(left, 0);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.done_bytes, 48 * MIB);
	assert_int_equal(s.total_bytes, 48 * MIB);
	kv_prefault_stop(&p);
	assert_null(p);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pages_there(&area[i]), area[i].len_bytes / PAGE);
		kv_area_unmap(&area[i]);
	}
}

/* Bytes are written and read while their pages are made: nothing is lost. */
static void what_others_write_meanwhile_stays(void **state)
{
	struct kv_area area;
	struct kv_prefault_area what;
	struct kv_prefault *p = NULL;
	struct kv_prefault_state s;
	uint8_t *bytes;
	uint64_t round = 0;
	(void)state;
	assert_int_equal(kv_area_map_lazy(32 * MIB, &area, NULL), 0);
	bytes = area.base;
	what = (struct kv_prefault_area){area.base, area.len_bytes, KV_NODE_ANY, NULL};
	assert_int_equal(kv_prefault_start(&what, 1, 50, NULL, NULL, &p, NULL), 0);
	do {
		round++;
		for (uint64_t at = 0; at < area.len_bytes; at += 3 * PAGE)
			__atomic_fetch_add(bytes + at, 1, __ATOMIC_RELAXED);
		kv_prefault_state(p, &s);
	} while (!s.ended);
	for (uint64_t at = 0; at < area.len_bytes; at += 3 * PAGE)
		assert_int_equal(bytes[at], (uint8_t)round);
	kv_prefault_stop(&p);
	kv_area_unmap(&area);
}

static void it_stops_in_the_middle(void **state)
{
	struct kv_area area;
	struct kv_prefault_area what;
	struct kv_prefault *p = NULL;
	struct kv_prefault_state s;
	(void)state;
	assert_int_equal(kv_area_map_lazy(1024ull * MIB, &area, NULL), 0);
	what = (struct kv_prefault_area){area.base, area.len_bytes, KV_NODE_ANY, NULL};
	assert_int_equal(kv_prefault_start(&what, 1, 1, NULL, NULL, &p, NULL), 0);
	kv_prefault_state(p, &s);
	assert_false(s.ended);
	kv_prefault_stop(&p);
	assert_true(pages_there(&area) < area.len_bytes / PAGE);
	kv_area_unmap(&area);
	kv_prefault_stop(&p); /* harmless */
}

/* The priority of this process's thread of that name; NONE: there is none. */
static int nice_of(const char *name)
{
	int nice = NONE;
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	assert_non_null(d);
	while ((e = readdir(d))) {
		char path[300], comm[32] = "";
		FILE *f;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (f && fscanf(f, "%31s", comm) == 1 && strcmp(comm, name) == 0)
			nice = getpriority(PRIO_PROCESS, (id_t)atoi(e->d_name));
		if (f)
			fclose(f);
	}
	closedir(d);
	return nice;
}

/* It holds the lock of the address space while it works: who pushes it aside stands still himself. */
static void it_is_pushed_aside_no_more_than_others(void **state)
{
	struct kv_area area;
	struct kv_prefault_area what;
	struct kv_prefault *p = NULL;
	struct kv_prefault_state s;
	(void)state;
	assert_int_equal(kv_area_map_lazy(1024ull * MIB, &area, NULL), 0);
	what = (struct kv_prefault_area){area.base, area.len_bytes, KV_NODE_ANY, NULL};
	assert_int_equal(kv_prefault_start(&what, 1, 1, NULL, NULL, &p, NULL), 0);
	for (kv_prefault_state(p, &s); s.done_bytes == 0; kv_prefault_state(p, &s))
		nap(); /* it has a name, and whatever priority it gives itself, before it makes a page */
	assert_int_equal(nice_of("kv-prefault"), getpriority(PRIO_PROCESS, 0));
	kv_prefault_stop(&p);
	kv_area_unmap(&area);
}

static void memory_that_is_not_there_is_an_error_and_no_crash(void **state)
{
	struct kv_area area;
	struct kv_prefault_area what;
	struct kv_prefault *p = NULL;
	struct kv_prefault_state s;
	(void)state;
	assert_int_equal(kv_area_map_lazy(8 * MIB, &area, NULL), 0);
	assert_int_equal(munmap((uint8_t *)area.base + 4 * MIB, 2 * MIB), 0);
	what = (struct kv_prefault_area){area.base, area.len_bytes, KV_NODE_ANY, NULL};
	assert_int_equal(kv_prefault_start(&what, 1, 100, NULL, NULL, &p, NULL), 0);
	s = wait_for_end(p);
	assert_int_equal(s.status, -ENOMEM);
	assert_int_equal(s.done_bytes, 4 * MIB);
	kv_prefault_stop(&p);
	kv_area_unmap(&area);
}

static void pages_of_a_shared_area_are_huge_if_they_can_be(void **state)
{
	struct kv_area area;
	struct kv_prefault_area what;
	struct kv_prefault *p = NULL;
	struct kv_prefault_state s;
	(void)state;
	if (kv_area_map_shared(8 * MIB, KV_NODE_ANY, &area, NULL) < 0) {
		print_message("this machine has no shared memory\n");
		skip();
	}
	((uint8_t *)area.base)[5 * MIB] = 5;
	what = (struct kv_prefault_area){area.base, area.len_bytes, KV_NODE_ANY, &area};
	assert_int_equal(kv_prefault_start(&what, 1, 100, NULL, NULL, &p, NULL), 0);
	s = wait_for_end(p);
	assert_int_equal(s.status, 0);
	assert_int_equal(pages_there(&area), area.len_bytes / PAGE);
	assert_int_equal(((uint8_t *)area.base)[5 * MIB], 5);
	/* 4 stretches of 2 MiB. */
	assert_true(!area.ready || area.ready[0] == 15);
	kv_prefault_stop(&p);
	kv_area_unmap(&area);
}

static void numbers_out_of_range_are_refused(void **state)
{
	struct kv_prefault_area what = {0};
	struct kv_prefault *p = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(kv_prefault_start(&what, 0, 25, NULL, NULL, &p, &err), -KV_EINVAL);
	assert_int_equal(kv_prefault_start(&what, KV_PREFAULT_AREAS_MAX + 1, 25, NULL, NULL, &p, &err), -KV_EINVAL);
	assert_int_equal(kv_prefault_start(&what, 1, 0, NULL, NULL, &p, &err), -KV_EINVAL);
	assert_int_equal(kv_prefault_start(&what, 1, 101, NULL, NULL, &p, &err), -KV_EINVAL);
	check_contains(err.text, "101 %");
	assert_null(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_page_of_every_area_is_made),
		cmocka_unit_test(what_others_write_meanwhile_stays),
		cmocka_unit_test(it_stops_in_the_middle),
		cmocka_unit_test(it_is_pushed_aside_no_more_than_others),
		cmocka_unit_test(memory_that_is_not_there_is_an_error_and_no_crash),
		cmocka_unit_test(pages_of_a_shared_area_are_huge_if_they_can_be),
		cmocka_unit_test(numbers_out_of_range_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
