/* SPDX-License-Identifier: Apache-2.0 */
/* test_raw.c -- records of operations on their way into a file: none is lost while there is room, and each that is, is
 * counted. */
#include "kvbench/measure/raw.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/kvbench/check.h"

enum { RINGS = 4, EACH = 200000 };

struct loop_thread {
	struct bench_raw *raw;
	unsigned ring;
	pthread_t thread;
};

static void *adds(void *arg)
{
	struct loop_thread *t = arg;
	for (uint64_t i = 0; i < EACH; i++) {
		struct bench_raw_op op = {.number = i, .worker = t->ring, .end_ns = UINT64_MAX / 2};
		bench_raw_add_slow(t->raw, t->ring, &op);
	}
	return NULL;
}

/* Rings are far smaller than what goes through them. Records of a ring keep their order. */
static void all_records_arrive_in_the_order_of_their_ring(void **state)
{
	struct loop_thread t[RINGS];
	struct bench_raw *raw = NULL;
	struct bench_raw_result result = {0};
	struct bench_raw_head head;
	struct bench_raw_op op;
	struct kv_error err;
	uint64_t next[RINGS] = {0};
	FILE *file = tmpfile();
	(void)state;
	assert_non_null(file);
	assert_int_equal(bench_raw_open(fileno(file), RINGS, 7, 4096, &raw, &err), 0);
	for (unsigned i = 0; i < RINGS; i++) {
		t[i] = (struct loop_thread){.raw = raw, .ring = i};
		assert_int_equal(pthread_create(&t[i].thread, NULL, adds, &t[i]), 0);
	}
	for (unsigned i = 0; i < RINGS; i++)
		pthread_join(t[i].thread, NULL);
	bench_raw_close(&raw, &result);
	assert_null(raw);
	assert_int_equal(result.code, 0);
	assert_int_equal(result.lost, 0);
	assert_int_equal(result.written, RINGS * EACH);
	assert_int_equal(result.bytes, 64 + 64ull * RINGS * EACH);
	rewind(file);
	assert_int_equal(fread(&head, sizeof(head), 1, file), 1);
	assert_memory_equal(head.magic, "kvbraw1\n", 8);
	assert_true(head.head_bytes == 64 && head.record_bytes == 64 && head.seed == 7 && head.value_size == 4096);
	while (fread(&op, sizeof(op), 1, file) == 1) {
		assert_in_range(op.worker, 0, RINGS - 1);
		assert_int_equal(op.number, next[op.worker]++);
	}
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(next[i], EACH);
	fclose(file);
}

static void *reads_all(void *arg)
{
	static char data[65536];
	uint64_t *bytes = arg;
	ssize_t n;
	while ((n = read((int)bytes[1], data, sizeof(data))) > 0)
		bytes[0] += (uint64_t)n;
	return NULL;
}

/* Nobody reads the pipe: its room, and that of the ring, is soon used up. Nobody waits, and what is lost is counted. */
static void a_reader_that_is_too_slow_costs_records_and_no_time(void **state)
{
	struct bench_raw *raw = NULL;
	struct bench_raw_result result = {0};
	struct kv_error err;
	pthread_t reader;
	uint64_t bytes[2];
	int fd[2];
	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(bench_raw_open(fd[1], 1, 1, 1, &raw, &err), 0);
	for (uint64_t i = 0; i < EACH; i++)
		bench_raw_add(raw, 0, &(struct bench_raw_op){.number = i});
	bytes[0] = 0;
	bytes[1] = (uint64_t)fd[0];
	assert_int_equal(pthread_create(&reader, NULL, reads_all, bytes), 0);
	bench_raw_close(&raw, &result);
	close(fd[1]);
	pthread_join(reader, NULL);
	close(fd[0]);
	assert_true(result.lost > EACH / 2);
	assert_int_equal(result.lost + result.written, EACH);
	assert_int_equal(bytes[0], 64 + 64 * result.written);
	assert_int_equal(result.bytes, bytes[0]);
}

static void a_disk_that_is_full_ends_no_run(void **state)
{
	struct bench_raw *raw = NULL;
	struct bench_raw_result result = {0};
	struct kv_error err;
	FILE *full = fopen("/dev/full", "we");
	(void)state;
	if (!full) {
		print_message("there is no /dev/full here\n");
		skip();
	}
	assert_true(bench_raw_open(fileno(full), 1, 1, 1, &raw, &err) < 0);
	check_contains(err.text, "--raw cannot be written");
	fclose(full);
	bench_raw_close(&raw, &result); /* there is none */
	assert_false(result.ran);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_records_arrive_in_the_order_of_their_ring),
		cmocka_unit_test(a_reader_that_is_too_slow_costs_records_and_no_time),
		cmocka_unit_test(a_disk_that_is_full_ends_no_run),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
