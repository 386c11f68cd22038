/* SPDX-License-Identifier: Apache-2.0 */
/* test_fabric.c -- kv-bench fabric without a fabric: sizes, and what is shown of how many samples. */
#include <jansson.h>
#include <stdlib.h>

#include "kvbench/fabric/fabric.h"
#include "tests/kvbench/check.h"

static int parse(const char *sizes, struct fabric_options *o, struct kv_error *err)
{
	char *argv[] = {"kv-bench fabric", "--sizes", (char *)(uintptr_t)sizes, NULL};
	return fabric_options_parse(3, argv, o, err);
}

static void sizes_are_read_and_wrong_ones_named(void **state)
{
	struct fabric_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse("64KB,1,64MB", &o, &err), 0);
	assert_int_equal(o.num_sizes, 3);
	assert_int_equal(o.size[0], 65536);
	assert_int_equal(o.size_max, 64 << 20);
	assert_int_equal(parse("all", &o, &err), 0);
	assert_int_equal(o.num_sizes, 14);
	assert_int_equal(o.size_max, 64 << 20);
	for (const char **bad = (const char *[]){"", "0", "1,", ",", "65MB", "x", NULL}; *bad; bad++) {
		assert_int_equal(parse(*bad, &o, &err), -KV_EINVAL);
		check_contains(err.text, "is not a size from 1 byte to 64 MiB");
	}
	assert_int_equal(parse("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", &o, &err),
			 -KV_EINVAL);
	check_contains(err.text, "choose fewer");
}

static void row_fill(struct fabric_row *row, unsigned samples, uint64_t slow)
{
	*row = (struct fabric_row){.op = FABRIC_WRITE, .size = 64, .bytes_per_s = 1e9};
	kv_hist_init(&row->latency);
	for (unsigned i = 0; i < samples; i++)
		kv_hist_add(&row->latency, i % 50 ? 1000 : slow);
}

static char *text_of(void (*print)(const struct fabric_run *run, FILE *out), const struct fabric_run *run)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	if (print)
		print(run, out);
	else
		fabric_print_row(run->row, out);
	fclose(out);
	return text;
}

static void a_quantile_needs_its_samples(void **state)
{
	static struct fabric_row row;
	struct fabric_run run = {.row = &row, .num_rows = 1};
	char *text;
	json_t *j, *latency;
	(void)state;
	row_fill(&row, 999, 5000);
	text = text_of(NULL, &run);
	check_contains(text, "5.00 us       -       -     5.0");
	free(text);
	row_fill(&row, 50, 5000);
	text = text_of(NULL, &run);
	check_contains(text, "      -       -       -       -");
	free(text);
	row_fill(&row, 10000, 5000);
	j = fabric_json(&run);
	assert_non_null(j);
	latency = json_object_get(json_array_get(json_object_get(j, "rows"), 0), "latency_ns");
	assert_true(json_is_integer(json_object_get(latency, "p99.99")));
	assert_int_equal(json_array_size(json_object_get(latency, "histogram_from_ns")), 2);
	assert_true(json_is_false(json_object_get(j, "complete")));
	json_decref(j);
	row_fill(&row, 9999, 5000);
	j = fabric_json(&run);
	latency = json_object_get(json_array_get(json_object_get(j, "rows"), 0), "latency_ns");
	assert_true(json_is_null(json_object_get(latency, "p99.99")));
	json_decref(j);
}

static void the_verdict_follows_from_what_was_found(void **state)
{
	static struct fabric_row row;
	struct fabric_run run = {.row = &row, .num_rows = 1, .complete = true, .info = {.provider = "tcp;ofi_rxm"}};
	char *text;
	(void)state;
	row_fill(&row, 1000, 9000);
	assert_true(fabric_jitter(&run) > 8);
	run.rdma = (struct fabric_rdma){.devices = 1, .device = "mlx5_0"};
	text = text_of(fabric_print_end, &run);
	check_contains(text, "no RDMA: the kernel's network stack");
	check_contains(text, "mlx5_0 is here and not used");
	check_contains(text, "unsteady");
	free(text);
	run.info = (struct te_info){.provider = "verbs;ofi_rxm"};
	run.rdma = (struct fabric_rdma){.in_use = true, .devices = 1, .device = "mlx5_0"};
	row_fill(&row, 1000, 1000);
	text = text_of(fabric_print_end, &run);
	check_contains(text, "RDMA: the NIC moves the bytes");
	check_contains(text, "steady");
	free(text);
	run.rdma.software = true;
	run.complete = false;
	text = text_of(fabric_print_end, &run);
	check_contains(text, "RDMA in software");
	check_contains(text, "not all was measured");
	free(text);
	run.num_rows = 0;
	assert_true(fabric_jitter(&run) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read_and_wrong_ones_named),
		cmocka_unit_test(a_quantile_needs_its_samples),
		cmocka_unit_test(the_verdict_follows_from_what_was_found),
	};
	return cmocka_run_group_tests_name("kvbench/fabric", tests, NULL, NULL);
}
