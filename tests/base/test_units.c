/* SPDX-License-Identifier: Apache-2.0 */
/* test_units.c -- the sizes and durations that people write, and the texts that are refused. */
#include "tests/check.h"

struct good {
	const char *text;
	uint64_t value;
};

static void sizes_parse(void **state)
{
	(void)state;
	const struct good rows[] = {
		{"0", 0},
		{"4096", 4096},
		{"17B", 17},
		{"17 B", 17},
		{"64KB", 65536},
		{"64KiB", 65536},
		{"64k", 65536},
		{"64 KiB", 65536},
		{"64kb", 65536},
		{"1MiB", 1 << 20},
		{"2G", 2ull << 30},
		{"1.5M", 3 << 19},
		{"0.5k", 512},
		{"1.0T", 1ull << 40},
		{"15E", 15ull << 60},
		{"1P", 1ull << 50},
		{"18446744073709551615", UINT64_MAX},
		{"007", 7},
		{"0.1K", 102},
		{"1.00000000000000000000000000001G", 1u << 30},
	};
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		uint64_t v = 1234567;
		if (kv_size_parse(rows[i].text, &v) != 0 || v != rows[i].value)
			fail_msg("'%s' gives %llu", rows[i].text, (unsigned long long)v);
	}
}

static void no_size_is_no_size(void **state)
{
	(void)state;
	const char *const rows[] = {"",
				    " ",
				    "-1",
				    "+1",
				    " 1",
				    "1 ",
				    "1  K",
				    "K",
				    "1.5",
				    "1.5B",
				    ".5K",
				    "5.",
				    "5.K",
				    "1e3",
				    "0x10",
				    "1KK",
				    "1Kb/s",
				    "1iB",
				    "64KBi",
				    "1 000",
				    "16E",
				    "18446744073709551616",
				    "99999999999999999999G",
				    "1,5M",
				    "nan",
				    "\xff",
				    "1Z"};
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		uint64_t v = 77;
		if (kv_size_parse(rows[i], &v) != -KV_EINVAL || v != 77)
			fail_msg("'%s' gives %llu", rows[i], (unsigned long long)v);
	}
	uint64_t v = 77;
	assert_int_equal(kv_size_parse(NULL, &v), -KV_EINVAL);
}

static void durations_parse(void **state)
{
	(void)state;
	const struct good rows[] = {
		{"0", 0},
		{"5", 5000000000u},
		{"5s", 5000000000u},
		{"5 s", 5000000000u},
		{"250ms", 250000000},
		{"10us", 10000},
		{"10\xc2\xb5s", 10000},
		{"2m", 120000000000u},
		{"2min", 120000000000u},
		{"1h", 3600000000000u},
		{"7ns", 7},
		{"1.5s", 1500000000},
		{"0.0000000014", 1},
		{"0.0000000015", 2},
		{"18446744073709551615ns", UINT64_MAX},
	};
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		uint64_t v = 1234567;
		if (kv_duration_parse(rows[i].text, &v) != 0 || v != rows[i].value)
			fail_msg("'%s' gives %llu", rows[i].text, (unsigned long long)v);
	}
}

static void no_duration_is_no_duration(void **state)
{
	(void)state;
	const char *const rows[] = {"",    "s",  "-5s",   "5S",           "5 ",           "5 sec x",
				    "1.s", "5d", "1h30m", "18446744074s", "99999999999h", "inf"};
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		uint64_t v = 77;
		if (kv_duration_parse(rows[i], &v) != -KV_EINVAL || v != 77)
			fail_msg("'%s' gives %llu", rows[i], (unsigned long long)v);
	}
}

static void whole_numbers_parse(void **state)
{
	(void)state;
	const struct good rows[] = {{"0", 0},
				    {"42", 42},
				    {"010", 10},
				    {"0x1f", 31},
				    {"0XFFFFFFFFFFFFFFFF", UINT64_MAX},
				    {"0x0000000000000000000001", 1},
				    {"18446744073709551615", UINT64_MAX}};
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		uint64_t v = 1234567;
		if (kv_u64_parse(rows[i].text, &v) != 0 || v != rows[i].value)
			fail_msg("'%s' gives %llu", rows[i].text, (unsigned long long)v);
	}
	const char *const bad[] = {
		"",  "0x", "x", "-1", "+1", " 1", "1 ", "1.0", "0x1g", "18446744073709551616", "0x10000000000000000",
		"1k"};
	for (size_t i = 0; i < KV_COUNT(bad); i++) {
		uint64_t v = 77;
		if (kv_u64_parse(bad[i], &v) != -KV_EINVAL || v != 77)
			fail_msg("'%s' gives %llu", bad[i], (unsigned long long)v);
	}
}

static void sizes_print(void **state)
{
	(void)state;
	char buf[16];
	assert_string_equal(kv_size_format(0, buf, sizeof(buf)), "0 B");
	assert_string_equal(kv_size_format(17, buf, sizeof(buf)), "17 B");
	assert_string_equal(kv_size_format(1023, buf, sizeof(buf)), "1023 B");
	assert_string_equal(kv_size_format(65536, buf, sizeof(buf)), "64 KiB");
	assert_string_equal(kv_size_format(3 << 19, buf, sizeof(buf)), "1.5 MiB");
	assert_string_equal(kv_size_format(1000 << 10, buf, sizeof(buf)), "1000 KiB");
	assert_string_equal(kv_size_format((1 << 20) - 1, buf, sizeof(buf)), "1 MiB");
	assert_string_equal(kv_size_format(10 << 10, buf, sizeof(buf)), "10 KiB");
	assert_string_equal(kv_size_format(100 << 10, buf, sizeof(buf)), "100 KiB");
	assert_string_equal(kv_size_format(UINT64_MAX, buf, sizeof(buf)), "16 EiB");
}

static void durations_print(void **state)
{
	(void)state;
	char buf[16];
	assert_string_equal(kv_duration_format(0, buf, sizeof(buf)), "0 ns");
	assert_string_equal(kv_duration_format(999, buf, sizeof(buf)), "999 ns");
	assert_string_equal(kv_duration_format(45600, buf, sizeof(buf)), "45.6 us");
	assert_string_equal(kv_duration_format(1230000, buf, sizeof(buf)), "1.23 ms");
	assert_string_equal(kv_duration_format(999999, buf, sizeof(buf)), "1.00 ms");
	assert_string_equal(kv_duration_format(9999, buf, sizeof(buf)), "10.0 us");
	assert_string_equal(kv_duration_format(12300000000u, buf, sizeof(buf)), "12.3 s");
	assert_string_equal(kv_duration_format(UINT64_MAX, buf, sizeof(buf)), "18446744074 s");
}

static void rates_print(void **state)
{
	(void)state;
	char buf[16];
	assert_string_equal(kv_rate_format(0, buf, sizeof(buf)), "0 B/s");
	assert_string_equal(kv_rate_format(1.23e9, buf, sizeof(buf)), "1.23 GB/s");
	assert_string_equal(kv_rate_format(400e9 / 8, buf, sizeof(buf)), "50.0 GB/s");
	assert_string_equal(kv_rate_format(-1, buf, sizeof(buf)), "n/a");
	assert_string_equal(kv_rate_format(0.0 / 0.0, buf, sizeof(buf)), "n/a");
	assert_string_equal(kv_rate_format(1e30, buf, sizeof(buf)), "n/a");
}

static void printed_sizes_parse_again(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	for (int i = 0; i < 20000; i++) {
		uint64_t v = kv_prng_next(&p) >> kv_prng_below(&p, 64), back;
		char buf[16], again[16];
		if (v >> 63)
			continue; /* "16 EiB" is one more than a size can be */
		kv_size_format(v, buf, sizeof(buf));
		assert_int_equal(kv_size_parse(buf, &back), 0);
		assert_string_equal(kv_size_format(back, again, sizeof(again)), buf);
	}
}

static void output_is_cut_at_the_buffer(void **state)
{
	(void)state;
	char buf[8] = "#######";
	kv_duration_format(45600, buf, 4);
	assert_string_equal(buf, "45.");
	assert_string_equal(buf + 4, "###");
}

static void counts_have_commas_and_nouns_a_plural(void **state)
{
	static const struct {
		uint64_t n;
		const char *text, *s;
	} rows[] = {{0, "0", "s"},
		    {1, "1", ""},
		    {2, "2", "s"},
		    {999, "999", "s"},
		    {1000, "1,000", "s"},
		    {1048560, "1,048,560", "s"},
		    {UINT64_MAX, "18,446,744,073,709,551,615", "s"}};
	char buf[28];
	(void)state;
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		assert_string_equal(kv_count_format(rows[i].n, buf, sizeof(buf)), rows[i].text);
		assert_string_equal(kv_plural(rows[i].n), rows[i].s);
	}
	char text[64];
	assert_string_equal(kv_count_of(1, "client", text, sizeof(text)), "1 client");
	assert_string_equal(kv_count_of(1234, "client", text, sizeof(text)), "1,234 clients");
}

static void versions_are_numbers(void **state)
{
	(void)state;
	char buf[16];
	const struct good rows[] = {{"0.1.0", 1000}, {"2.3.4", 2003004}, {"12.34.567", 12034567}};
	const char *const bad[] = {"", "1", "1.2", "1.2.3.4", "1.2.3-rc", "a.b.c"};
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		assert_int_equal(kv_version_number(rows[i].text), rows[i].value);
		assert_string_equal(kv_version_format(rows[i].value, buf, sizeof(buf)), rows[i].text);
	}
	for (size_t i = 0; i < KV_COUNT(bad); i++)
		assert_int_equal(kv_version_number(bad[i]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_parse),
		cmocka_unit_test(no_size_is_no_size),
		cmocka_unit_test(durations_parse),
		cmocka_unit_test(no_duration_is_no_duration),
		cmocka_unit_test(whole_numbers_parse),
		cmocka_unit_test(sizes_print),
		cmocka_unit_test(durations_print),
		cmocka_unit_test(rates_print),
		cmocka_unit_test(printed_sizes_parse_again),
		cmocka_unit_test(output_is_cut_at_the_buffer),
		cmocka_unit_test(counts_have_commas_and_nouns_a_plural),
		cmocka_unit_test(versions_are_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
