/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c -- pages of metrics: samples, histograms, labels, and a buffer that is too small. */
#include "tests/check.h"

#include <string.h>

static void samples_are_written(void **state)
{
	(void)state;
	char buf[1024], labels[64] = "";
	struct kv_metrics m;
	kv_metrics_begin(&m, buf, sizeof(buf));
	kv_metrics_family(&m, "a_total", KV_METRIC_COUNTER, "What.");
	kv_metrics_value(&m, "", UINT64_MAX);
	kv_metrics_label(labels, sizeof(labels), "x", "1");
	kv_metrics_label(labels, sizeof(labels), "y", "q\"\\\n\x80");
	kv_metrics_value(&m, labels, 7);
	kv_metrics_family(&m, "b_seconds", KV_METRIC_GAUGE, "When.");
	kv_metrics_ns(&m, "", 1500000000);
	kv_metrics_ns(&m, "", 1);
	kv_metrics_ns(&m, "", 0);
	assert_string_equal(buf,
			    "# HELP a_total What.\n# TYPE a_total counter\na_total 18446744073709551615\n"
			    "a_total{x=\"1\",y=\"q\\\"\\\\\\n?\"} 7\n"
			    "# HELP b_seconds When.\n# TYPE b_seconds gauge\nb_seconds 1.5\nb_seconds 0.000000001\n"
			    "b_seconds 0\n");
	assert_int_equal(m.len, strlen(buf));
}

static void a_label_that_does_not_fit_is_left_out(void **state)
{
	(void)state;
	for (size_t cap = 8; cap < 40; cap++) {
		char labels[40] = "a=\"b\"";
		kv_metrics_label(labels, cap, "name", "a long value \\ with more");
		assert_true(strlen(labels) < cap);
		assert_true(strlen(labels) == 5 || labels[strlen(labels) - 1] == '"');
	}
}

static void a_small_buffer_counts_on(void **state)
{
	(void)state;
	uint64_t counts[KV_METRIC_BUCKETS] = {3};
	struct kv_metrics m;
	char whole[4096], part[4096];
	for (size_t cap = 0; cap <= 1400; cap += 7) {
		kv_metrics_begin(&m, cap == 1400 ? whole : part, cap == 1400 ? sizeof(whole) : cap);
		kv_metrics_family(&m, "h_seconds", KV_METRIC_HISTOGRAM, "Times.");
		kv_metrics_histogram(&m, counts, 5);
		assert_int_equal(m.len > 500 && m.len < sizeof(whole), 1);
		if (cap && cap < 1400)
			assert_true(strlen(part) < cap);
	}
	assert_int_equal(m.len, strlen(whole));
}

static void buckets_hold_what_they_say(void **state)
{
	(void)state;
	assert_int_equal(kv_metrics_bucket(0), 0);
	assert_int_equal(kv_metrics_bucket(2048), 0);
	assert_int_equal(kv_metrics_bucket(2049), 1);
	assert_int_equal(kv_metrics_bucket(4096), 1);
	assert_int_equal(kv_metrics_bucket(1ull << 30), KV_METRIC_BUCKETS - 2);
	assert_int_equal(kv_metrics_bucket((1ull << 30) + 1), KV_METRIC_BUCKETS - 1);
	assert_int_equal(kv_metrics_bucket(UINT64_MAX), KV_METRIC_BUCKETS - 1);
	for (unsigned i = 0; i < KV_METRIC_BUCKETS - 1; i++) {
		assert_int_equal(kv_metrics_bucket(1ull << (KV_METRIC_FIRST + i)), i);
		assert_int_equal(kv_metrics_bucket((1ull << (KV_METRIC_FIRST + i)) + 1), i + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_written),
		cmocka_unit_test(a_label_that_does_not_fit_is_left_out),
		cmocka_unit_test(a_small_buffer_counts_on),
		cmocka_unit_test(buckets_hold_what_they_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
