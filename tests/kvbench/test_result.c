/* SPDX-License-Identifier: Apache-2.0 */
/* test_result.c -- results as data: reading them, percentiles, time series, charts and the page. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvbench/measure/conditions.h"
#include "kvbench/measure/progress.h"
#include "kvbench/measure/series.h"
#include "kvbench/report/chart.h"
#include "kvbench/report/document.h"
#include "kvbench/report/figures.h"
#include "kvbench/report/file.h"
#include "kvbench/report/page.h"
#include "kvbench/report/state.h"
#include "tests/kvbench/check.h"

#define ATTACK "</dd><script>alert('x')</script>\"&"

/* 1,000 reads: 900 of 1 ms, 90 of 2 ms, 9 of 4 ms, 1 of 8 ms; 4 windows; a host with a hostile name. */
static json_t *made(void)
{
	json_t *doc = json_pack(
		"{s:s, s:b, s:{s:b, s:[s]}, s:{s:s, s:i, s:[s]}, s:{s:s, s:[s, s]}, s:{s:s}, s:{s:s}, s:{s:s},"
		" s:{s:{s:i}, s:{s:i, s:f, s:f, s:{s:i, s:i, s:i, s:i}, s:{s:[i, i, i, i], s:[i, i, i, i]},"
		" s:{s:f, s:i, s:[]}}}, s:{s:{s:i}, s:{s:i}}, s:{s:[{s:i, s:i, s:i}, {s:i, s:i, s:i}]}}",
		"schema", "kvbench/1", "interrupted", 1, "verdict", "ok", 0, "problems", ATTACK, "conditions",
		"provider", ATTACK, "cores", 2, "excluded", ATTACK, "run", "version", "1", "options", "--json", ATTACK,
		"host", "name", ATTACK, "provider", "name", ATTACK, "config", ATTACK, ATTACK, "phases", "write", "ops",
		0, "read", "ops", 1000, "ops_per_s", 500.0, "bytes_per_s", 1e6, "latency_ns", "mean", 1124000, "p50",
		1000000, "p99", 2000000, "max", 8000000, "histogram", "upper_ns", 1000000, 2000000, 4000000, 8000000,
		"count", 900, 90, 9, 1, "series", "window_s", 0.5, "start_unix_ns", 0, "windows", "breakdown_ns",
		ATTACK, "mean", 5, "wire", "mean", 9, "sweep", "points", "num_workers", 1, "value_size", 4096,
		"ops_per_s", 10, "num_workers", 2, "value_size", 4096, "ops_per_s", 20);
	json_t *windows = document_at(doc, "phases", "read", "series", "windows", NULL);
	assert_non_null(doc);
	for (int i = 1; i <= 4; i++)
		json_array_append_new(windows, json_pack("{s:f, s:f, s:i, s:i, s:i, s:i, s:i}", "end_s", i * 0.5,
							 "seconds", 0.5, "ops", 250, "bytes", 1000, "p50_ns", 1000,
							 "p99_ns", 9000, "max_ns", 9500));
	return doc;
}

/* ---- reading ---- */

static void refused(const char *text, const char *why)
{
	struct check_file file = check_file_make(text);
	struct kv_error err = {0};
	json_t *doc = NULL;
	assert_true(document_load(file.path, &doc, &err) < 0);
	assert_null(doc);
	check_contains(err.text, why);
	check_contains(err.text, file.path);
	check_file_remove(&file);
}

static void what_is_no_result_is_refused_with_its_reason(void **state)
{
	struct kv_error err = {0};
	json_t *doc = NULL;
	(void)state;
	refused("", "it is empty");
	refused("{\"schema\": \"kvbench/1\", \"phases\": {", "it is cut off");
	refused("\n\nhello", "line 3 is no JSON");
	refused("{\"a\": 1}", "another program");
	refused("[1]", "another program");
	refused("{\"schema\": 7}", "another program");
	refused("{\"schema\": \"kvbench-capacity/1\"}", "its schema is kvbench-capacity/1");
	refused("{\"schema\": \"kvbench/1\"}", "no phases");
	refused("{\"schema\": \"\\u001b[31m\"}", "its schema is \\x1b[31m, and"); /* it drives no terminal */
	assert_true(document_load("/nonexistent/x.json", &doc, &err) < 0);
	check_contains(err.text, "cannot be read");
}

/* ---- percentiles ---- */

static void the_percentile_file_has_the_form_of_hdrhistogram(void **state)
{
	struct kv_error err = {0};
	json_t *doc = made();
	size_t len = 0;
	char *text = document_hgrm(doc, &len, &err), *line, *rest = NULL;
	double value, share, inverse, last_value = 0, last_share = -1;
	unsigned rows = 0;
	long count = 0, last_count = 0;
	(void)state;
	assert_non_null(text);
	assert_int_equal(strlen(text), len);
	assert_true(strstr(text, "       Value     Percentile TotalCount 1/(1-Percentile)\n\n") == text);
	check_contains(text, "#[Mean    =     1.124000, StdDeviation   =     ");
	check_contains(text, "#[Max     =     8.000000, Total count    =         1000]");
	check_contains(text, "SubBuckets     =          128]");
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		int n = sscanf(line, "%lf %lf %ld %lf", &value, &share, &count, &inverse);
		if (n < 3)
			continue;
		rows++;
		assert_true(value >= last_value && share >= last_share && count >= last_count);
		/* So many samples are at or below this value. */
		assert_true((double)count / 1000 >= share - 1e-9);
		if (n == 4)
			assert_true(fabs(inverse - 1 / (1 - share)) < 0.01 * inverse);
		last_value = value;
		last_share = share;
		last_count = count;
	}
	assert_true(rows > 10);
	assert_true(last_value == 8 && last_share == 1 && last_count == 1000);
	free(text);
	json_decref(doc);
}

/* More samples than a double tells apart: the steps end all the same. */
static void huge_counts_end(void **state)
{
	struct kv_error err = {0};
	json_t *doc = made();
	size_t len;
	char *text;
	(void)state;
	json_object_set_new(document_at(doc, "phases", "read", NULL), "histogram",
			    json_loads("{\"upper_ns\": [1, 2], \"count\": [9000000000000000000, 1]}", 0, NULL));
	text = document_hgrm(doc, &len, &err);
	assert_non_null(text);
	free(text);
	json_decref(doc);
}

static void without_a_histogram_there_is_no_percentile_file(void **state)
{
	static const char *const broken[] = {"{}", "{\"upper_ns\": [1], \"count\": []}",
					     "{\"upper_ns\": [2, 1], \"count\": [1, 1]}",
					     "{\"upper_ns\": [\"a\"], \"count\": [{}]}"};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(broken); i++) {
		struct kv_error err = {0};
		json_t *doc = made();
		size_t len;
		json_object_set_new(document_at(doc, "phases", "read", NULL), "histogram",
				    json_loads(broken[i], 0, NULL));
		assert_null(document_hgrm(doc, &len, &err));
		check_contains(err.text, "no histogram");
		json_decref(doc);
	}
}

static void the_time_series_has_a_line_for_each_window(void **state)
{
	struct kv_error err = {0};
	json_t *doc = made();
	size_t len = 0;
	char *text = document_csv(doc, &len, &err);
	(void)state;
	assert_non_null(text);
	assert_string_equal(text, "phase,end_s,seconds,ops,ops_per_s,bytes,p50_us,p99_us,max_us\n"
				  "read,0.5,0.5,250,500,1000,1,9,9.5\nread,1,0.5,250,500,1000,1,9,9.5\n"
				  "read,1.5,0.5,250,500,1000,1,9,9.5\nread,2,0.5,250,500,1000,1,9,9.5\n");
	free(text);
	json_decref(doc);
}

/* ---- charts ---- */

static void nothing_from_outside_becomes_markup(void **state)
{
	struct kv_error err = {0};
	json_t *doc = made();
	size_t len = 0;
	char *text = page_html(doc, &len, &err);
	(void)state;
	assert_non_null(text);
	assert_null(strstr(text, "<script"));
	assert_null(strstr(text, "</dd>\"")); /* the attack's own end of an element */
	assert_null(strstr(text, "http-equiv=\"refresh"));
	check_contains(text, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;");
	check_contains(text, "Interrupted.");
	/* It loads nothing: the only addresses are names of the SVG language. */
	for (const char *at = text; (at = strstr(at, "http")); at++)
		assert_true(strncmp(at, "http://www.w3.org/2000/svg", 26) == 0 || strncmp(at, "http-equiv", 10) == 0);
	assert_null(strstr(text, "url("));
	assert_null(strstr(text, "@import"));
	free(text);
	json_decref(doc);
}

static void conditions_have_no_more_digits_than_they_are_worth(void **state)
{
	struct kv_error err = {0};
	json_t *doc = made();
	size_t len = 0;
	char *text;
	(void)state;
	json_object_set_new(json_object_get(doc, "conditions"), "others_cores", json_real(0.049923));
	text = page_html(doc, &len, &err);
	assert_non_null(text);
	check_contains(text, "<dt>others cores</dt><dd>0.05</dd>");
	free(text);
	json_decref(doc);
}

/* What a run was asked for in detail is on its page: a model in tokens, runs, the rates that a search tried. */
static void the_page_has_what_was_asked_for(void **state)
{
	static const char *const wanted[] = {
		"<dt>tokens per s</dt><dd>6,781</dd>",
		"<dt>prefix load</dt><dd>4.87 s</dd>",
		"Break-even: none",
		"<dt>first layer</dt><dd>38.2 ms</dd>",
		"<h2>2 runs</h2>",
		"<td>p50 of reads</td>",
		"<h2>Highest rate with p99 within 2 ms: 110 per second</h2>",
		"<td>bytes/s</td><td class=\"\">940 MB/s</td><td class=\"less\">876 MB/s</td>",
		"<tr><td>get, service</td><td></td><td></td><td class=\"\">7 us</td>",
		"service: from when they really began",
		"A latency is of a batch of 8 keys; operations are keys.",
		"computed: a batch&#39;s median",
		"<h2>Warm-up until steady</h2>",
		"<td>above the limit</td>",
		"<td></td></tr>", /* of a file of a later kv-bench: an outcome without a name here */
		"<dt>get bytes per s</dt><dd>1.00 GB/s</dd>",
		"<dt>hit ratio</dt><dd>36.6 %</dd>"};
	struct kv_error err = {0};
	json_t *doc = made(), *more;
	size_t len = 0;
	char *text;
	(void)state;
	more = json_loads(
		"{\"model\": {\"tokens_per_s\": 6780.9, \"prefix_load_s\": 4.87, \"break_even_tokens\": null,"
		" \"by_layer\": {\"first_layer_s\": 0.0382}},"
		" \"config\": {\"batch\": 8}, \"warmup\": {\"steady\": true, \"windows\": 5},"
		" \"runs\": {\"count\": 2, \"bytes_per_s\": {\"median\": 940e6, \"min\": 876e6, \"max\": 1e9}, "
		"\"p50_ns\": {\"median\": 5, \"min\": 4, \"max\": 6, \"spread\": 0.4}},"
		" \"slo\": {\"quantile\": 0.99, \"limit_ns\": 2000000, \"rate_per_s\": 110.4, \"trials\": ["
		" {\"offered_per_s\": 221, \"latency_ns\": 9, \"why\": \"late\"}, {\"offered_per_s\": 110.4,"
		" \"why\": \"kept\"}, {\"offered_per_s\": 300, \"why\": \"<b>\"}, {\"why\": 3}, 7]},"
		" \"roofline\": {\"get_bytes_per_s\": 1e9}, \"trace\": {\"hit_ratio\": 0.366}}",
		0, NULL);
	assert_non_null(more);
	json_object_update(doc, more);
	json_object_del(doc, "sweep");
	json_object_set_new(document_at(doc, "phases", "read", NULL), "service_ns", json_pack("{s:i}", "p50", 7000));
	text = page_html(doc, &len, &err);
	assert_non_null(text);
	for (unsigned i = 0; i < KV_COUNT(wanted); i++)
		check_contains(text, wanted[i]);
	assert_true(strstr(text, "<td>kept</td>") < strstr(text, "<td>above the limit</td>"));
	free(text);
	json_decref(more);
	json_decref(doc);
}

/* Eleven columns are too many for a telephone: workers are the rows then. */
static void a_wide_heat_map_is_turned(void **state)
{
	(void)state;
	for (unsigned workers = 8; workers <= 11; workers += 3) {
		json_t *points = json_array(),
		       *doc = json_pack("{s:s, s:{s:o}}", "schema", "kvbench-sweep/1", "sweep", "points", points);
		struct kv_error err = {0};
		char *text = NULL;
		const char *x, *y;
		size_t len = 0;
		FILE *out = open_memstream(&text, &len);
		for (unsigned w = 1; w <= workers; w++)
			for (unsigned size = 1; size <= 2; size++)
				json_array_append_new(points, json_pack("{s:i, s:i, s:i, s:f}", "num_workers", w,
									"value_size", size << 12, "num_clients", 1,
									"ops_per_s", w * 1000.0 + size * 100));
		assert_int_equal(figure_write(out, doc, FIGURE_SCALING, true, &err), 0);
		fclose(out);
		y = strstr(text, ">workers</text>");
		x = strstr(text, ">value</text>");
		assert_true(x && y);
		assert_int_equal(y < x, workers > 8); /* the rows' label comes first */
		check_contains(text, ">4 KiB</text>");
		check_contains(text, ">5.2k</text>");
		/* The cell of 3 workers and 8 KiB is in the third column and second row, or the other way round. */
		assert_true(strstr(text, ">3.1k</text>") < strstr(text, ">3.2k</text>"));
		assert_int_equal(strstr(text, ">3.2k</text>") < strstr(text, ">4.1k</text>"), workers > 8);
		free(text);
		json_decref(doc);
	}
}

static void the_page_of_a_sweep_has_its_conditions(void **state)
{
	static const char *const wanted[] = {
		"<strong>Shared machine.</strong> Other processes kept cores busy in 1 of 2 combinations",
		"done *</td>",
		"done</td>",
		"skipped</td>",
		"*: others kept processors of this machine busy meanwhile.",
		"Options of each run beside these: <span>--num-keys=50</span>; all others have their defaults."};
	json_t *doc = json_loads(
		"{\"schema\": \"kvbench-sweep/1\", \"sweep\": {\"settings\": [\"--num-keys=50\"], \"points\": ["
		"{\"state\": \"done\", \"runs\": [{\"shared_machine\": false}, {\"shared_machine\": true}]},"
		"{\"state\": \"done\", \"runs\": [{\"shared_machine\": false}]}, {\"state\": \"skipped\"}, 3]}}",
		0, NULL);
	struct kv_error err = {0};
	size_t len = 0;
	char *text = page_html(doc, &len, &err);
	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i < KV_COUNT(wanted); i++)
		check_contains(text, wanted[i]);
	free(text);
	json_decref(doc);
}

/* A chart of one figure; the caller frees it. */
static char *drawn(const json_t *doc, enum figure figure)
{
	struct kv_error err = {0};
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	assert_int_equal(figure_write(out, doc, figure, true, &err), 0);
	fclose(out);
	return text;
}

/* The points of a line, of which each is a start of a piece, or goes on from the one before. */
static unsigned points_of(const char *svg, unsigned line)
{
	char class[16];
	const char *at, *end;
	unsigned n = 0;
	snprintf(class, sizeof(class), "\"kl s%u\"", line);
	at = strstr(svg, class);
	assert_non_null(at);
	at = strstr(at, " d=\"");
	end = strchr(at + 4, '"');
	for (at += 4; at < end; at++)
		n += *at == 'M' || *at == 'L';
	return n;
}

/* A server that stands still leaves windows without an operation, and others with a few that took long: both are in the
 * charts, and so is the last window, however short. */
static void windows_of_few_operations_are_drawn(void **state)
{
	json_t *doc = made(), *windows = document_at(doc, "phases", "read", "series", "windows", NULL);
	char *text;
	(void)state;
	text = drawn(doc, FIGURE_LATENCY);
	assert_int_equal(points_of(text, 1), 4);
	check_contains(text, ">p99</text>");
	check_contains(text, ">latency (log)</text>");
	free(text);
	json_array_append_new(windows,
			      json_pack("{s:f, s:f, s:i, s:i}", "end_s", 2.5, "seconds", 0.5, "ops", 0, "bytes", 0));
	json_array_append_new(windows, json_pack("{s:f, s:f, s:i, s:i, s:i, s:i}", "end_s", 3.0, "seconds", 0.5, "ops",
						 7, "bytes", 7, "p50_ns", 900000000, "max_ns", 1000000000));
	json_array_append_new(windows,
			      json_pack("{s:f, s:f, s:i, s:i}", "end_s", 3.5, "seconds", 0.5, "ops", 0, "bytes", 0));
	json_array_append_new(windows, json_pack("{s:f, s:f, s:i, s:i, s:i, s:i}", "end_s", 3.6, "seconds", 0.1, "ops",
						 1, "bytes", 7, "p50_ns", 1400000000, "max_ns", 1400000000));
	text = drawn(doc, FIGURE_LATENCY);
	assert_int_equal(points_of(text, 0), 6);
	assert_int_equal(points_of(text, 1), 6);
	check_contains(text, ">p99 or longest</text>");
	check_contains(text, "h0M"); /* a lone point is a dot */
	check_contains(text, "h0\"");
	check_contains(text, ">1 s</text>"); /* the axis reaches that far */
	free(text);
	text = drawn(doc, FIGURE_THROUGHPUT);
	assert_int_equal(points_of(text, 0), 7);
	free(text);
	json_decref(doc);
}

static void a_mix_has_a_line_for_each_kind(void **state)
{
	json_t *doc = made(), *read = document_at(doc, "phases", "read", NULL);
	char *text;
	(void)state;
	json_object_set_new(json_object_get(doc, "phases"), "mix",
			    json_pack("{s:o, s:o}", "put", json_deep_copy(read), "exists", json_deep_copy(read)));
	text = drawn(doc, FIGURE_THROUGHPUT);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(points_of(text, i), 4);
	check_contains(text, ">GETs</text>");
	check_contains(text, ">PUTs</text>");
	check_contains(text, ">EXISTS</text>");
	free(text);
	text = drawn(doc, FIGURE_LATENCY);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(points_of(text, i), 4);
	check_contains(text, ">GET p50</text>");
	check_contains(text, ">EXISTS p99</text>");
	free(text);
	json_decref(doc);
}

static void every_figure_is_drawn_or_says_what_is_lacking(void **state)
{
	json_t *full = made(), *bare = json_pack("{s:s, s:{}}", "schema", "kvbench/1", "phases");
	(void)state;
	for (int f = 0; f < FIGURES; f++) {
		struct kv_error err = {0};
		char *text = NULL;
		size_t len = 0;
		FILE *out = open_memstream(&text, &len);
		assert_int_equal(figure_write(out, full, (enum figure)f, true, &err), 0);
		fflush(out);
		assert_true(len > 200);
		assert_null(strstr(text, "nan"));
		assert_null(strstr(text, "inf"));
		assert_null(strstr(text, "<script"));
		rewind(out);
		assert_int_equal(figure_write(out, bare, (enum figure)f, true, &err), -KV_ENOTFOUND);
		assert_true(err.text[0] != 0);
		assert_int_equal(ftell(out), 0);
		fclose(out);
		free(text);
	}
	json_decref(full);
	json_decref(bare);
}

/* One sample, equal values, zeros, huge ones: the axes hold. */
static void odd_numbers_make_no_odd_picture(void **state)
{
	static const double odd[][3] = {{0, 0, 0},          {1, 1, 1},  {NAN, INFINITY, 1},
					{1e-300, 1e300, 1}, {-5, 0, 5}, {1e16, 1e16 + 2, 1e16}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(odd); i++)
		for (int scale = CHART_LINEAR; scale <= CHART_NINES; scale++) {
			const double x[3] = {0, 0.5, 0.9};
			struct chart c = {.title = "odd",
					  .x = {"x", CHART_LINEAR, CHART_COUNT, false},
					  .y = {"y", (enum chart_scale)scale, CHART_TIME_NS, i % 2 == 0},
					  .line = {{"a", x, odd[i], 3, false}, {"b", x, odd[i], 3, true}},
					  .num_lines = 2};
			char *text = NULL;
			size_t len = 0;
			FILE *out = open_memstream(&text, &len);
			chart_lines(out, &c, false);
			fclose(out);
			assert_null(strstr(text, "\"nan"));
			assert_null(strstr(text, "\"inf"));
			assert_null(strstr(text, "\"-inf"));
			free(text);
		}
}

static char *narrow_picture(double low, double high)
{
	const double x[2] = {0, 1}, y[2] = {low, high};
	struct chart c = {.title = "narrow",
			  .x = {"x", CHART_LINEAR, CHART_COUNT, false},
			  .y = {"y", CHART_LOG, CHART_TIME_NS, false},
			  .line = {{"a", x, y, 2, false}},
			  .num_lines = 1};
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	chart_lines(out, &c, false);
	fclose(out);
	return text;
}

/* Between 11 and 19 ms there is none of 1, 2 and 5. */
static void an_axis_of_less_than_a_decade_has_ticks(void **state)
{
	char *text = narrow_picture(11e6, 19e6);
	unsigned ticks = 0;
	(void)state;
	for (const char *at = text; (at = strstr(at, " ms<")); at++)
		ticks++;
	assert_in_range(ticks, 3, 8);
	free(text);
}

/* 170 us to 75 ms: two powers of ten, more than two decades. */
static void an_axis_of_some_decades_has_ticks_in_all_of_them(void **state)
{
	char *text = narrow_picture(170e3, 75e6);
	(void)state;
	check_contains(text, ">200 us<");
	check_contains(text, ">1 ms<");
	check_contains(text, ">5 ms<");
	check_contains(text, ">50 ms<");
	free(text);
}

/* ---- the same conditions ---- */

static char told[1024];

static void tell(const char *sentence, void *arg)
{
	(void)arg;
	snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s\n", sentence);
}

static unsigned differences(const json_t *a, const json_t *b)
{
	told[0] = 0;
	return state_differs(a, b, tell, NULL);
}

static void a_condition_that_differs_is_named(void **state)
{
	json_t *a = made(), *b = made();
	(void)state;
	assert_int_equal(differences(a, b), 0);
	json_object_set_new(json_object_get(b, "provider"), "wait", json_string("spin"));
	json_object_set_new(json_object_get(b, "conditions"), "shared_machine", json_true());
	json_object_set_new(json_object_get(b, "host"), "processor", json_string("another"));
	json_object_set_new(json_object_get(b, "config"), "num_workers", json_integer(3));
	json_object_set_new(json_object_get(b, "config"), "json", json_string("elsewhere"));
	assert_int_equal(differences(a, b), 4);
	check_contains(told, "wait mode: not known, then \"spin\"");
	check_contains(told, "processor: ");
	check_contains(told, "shared machine: not known, then true");
	check_contains(told, "option num_workers: 16, then 3");
	json_decref(a);
	json_decref(b);
}

static void what_keeps_nobody_from_comparing_is_a_note(void **state)
{
	json_t *a = made(), *b = made();
	(void)state;
	told[0] = 0;
	state_notes(a, b, tell, NULL);
	assert_string_equal(told, "");
	json_object_set_new(json_object_get(a, "host"), "name", json_string("ash"));
	json_object_set_new(json_object_get(b, "host"), "name", json_string("oak\x1b"));
	assert_int_equal(differences(a, b), 0);
	state_notes(a, b, tell, NULL);
	assert_string_equal(told, "host: \"ash\", then \"oak\\u001B\"\n");
	json_decref(a);
	json_decref(b);
}

/* before, after: ns; 0: nobody looked. */
static json_t *distance_made(double before, double after)
{
	json_t *conditions = json_object();
	if (before > 0)
		json_object_set_new(conditions, "core_distance_before_ns", json_real(before));
	if (after > 0)
		json_object_set_new(conditions, "core_distance_after_ns", json_real(after));
	return conditions;
}

static void distances_are_told_apart(void **state)
{
	static const struct {
		double a[2], b[2];
		enum state_distance is;
		const char *text;
	} row[] = {
		{{60, 60}, {58, 84}, STATE_SAME, "60 ns (near), then 58 ns (near)"},
		{{0, 0}, {0, 0}, STATE_SAME, "not known, then not known"},
		{{60, 60}, {60, 120}, STATE_FARTHER, "60 ns (near), then 60 to 120 ns (near to mid)"},
		{{60, 0}, {300, 0}, STATE_FARTHER, "60 ns (near), then 300 ns (far)"},
		{{60, 120}, {130, 300}, STATE_FARTHER, "60 to 120 ns (near to mid), then 130 to 300 ns (mid to far)"},
		{{130, 300}, {60, 60}, STATE_NEARER, "130 to 300 ns (mid to far), then 60 ns (near)"},
		{{60, 120}, {60, 60}, STATE_NEARER, "60 to 120 ns (near to mid), then 60 ns (near)"},
		{{60, 300}, {130, 130}, STATE_OTHER, "60 to 300 ns (near to far), then 130 ns (mid)"},
		{{130, 130}, {60, 300}, STATE_OTHER, "130 ns (mid), then 60 to 300 ns (near to far)"},
		{{0, 0}, {60, 60}, STATE_OTHER, "not known, then 60 ns (near)"},
		/* CPUs that moved: nobody knows when. */
		{{60, 300}, {310, 58}, STATE_OTHER, "60 to 300 ns (near to far), then 58 to 310 ns (near to far)"},
		{{60, 300}, {60, 300}, STATE_OTHER, "60 to 300 ns (near to far), then 60 to 300 ns (near to far)"},
		{{60, 130}, {60, 300}, STATE_OTHER, "60 to 130 ns (near to mid), then 60 to 300 ns (near to far)"},
		{{60, 300}, {310, 310}, STATE_FARTHER, "60 to 300 ns (near to far), then 310 ns (far)"},
		{{60, 300}, {58, 58}, STATE_NEARER, "60 to 300 ns (near to far), then 58 ns (near)"},
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(row); i++) {
		json_t *a = json_pack("{s:o}", "conditions", distance_made(row[i].a[0], row[i].a[1]));
		json_t *b = json_pack("{s:o}", "conditions", distance_made(row[i].b[0], row[i].b[1]));
		/* A combination of a sweep has those of all its runs. */
		json_t *x =
			json_pack("{s:[o, o]}", "runs", distance_made(row[i].a[0], 0), distance_made(0, row[i].a[1]));
		json_t *y =
			json_pack("{s:[o, o]}", "runs", distance_made(row[i].b[1], 0), distance_made(row[i].b[0], 0));
		char text[160];
		assert_int_equal(state_distance(a, b, text, sizeof(text)), row[i].is);
		assert_string_equal(text, row[i].text);
		assert_int_equal(state_distance(x, y, text, sizeof(text)), row[i].is);
		assert_string_equal(text, row[i].text);
		json_decref(a);
		json_decref(b);
		json_decref(x);
		json_decref(y);
	}
}

/* ---- sampling ---- */

struct adder {
	struct bench_tally *tally;
	atomic_bool over;
};

static void *add(void *arg)
{
	struct adder *a = arg;
	while (!atomic_load_explicit(&a->over, memory_order_relaxed)) {
		kv_hist_add(&a->tally->latency, 1000);
		bench_bump(&a->tally->ops, 1);
		bench_bump(&a->tally->bytes, 7);
	}
	return NULL;
}

static void windows_add_up_to_what_was_counted(void **state)
{
	static struct bench_tally tally[2];
	struct series_source source = {tally, sizeof(tally[0]), 2};
	struct bench_series series = {0};
	struct adder adder[2] = {{.tally = &tally[0]}, {.tally = &tally[1]}};
	struct series_sampler *sampler;
	struct bench_window live;
	pthread_t thread[2];
	uint64_t ops = 0, bytes = 0, samples = 0, length = 0;
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		bench_tally_init(&tally[i]);
	sampler = series_start(&source, 1000000, &series);
	assert_non_null(sampler);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, add, &adder[i]), 0);
	do {
		sched_yield();
	} while (!series_live(sampler, &live) || live.ops == 0);
	for (unsigned i = 0; i < 2; i++)
		atomic_store(&adder[i].over, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	series_stop(sampler);
	assert_true(series.count >= 2);
	for (unsigned i = 0; i < series.count; i++) {
		const struct bench_window *w = &series.row[i];
		ops += w->ops;
		bytes += w->bytes;
		samples += w->samples;
		length += w->length_ns;
		assert_true(w->samples == 0 || (w->p50_ns >= 1000 && w->p50_ns <= 1008));
	}
	assert_int_equal(ops, tally[0].ops + tally[1].ops);
	assert_int_equal(bytes, tally[0].bytes + tally[1].bytes);
	assert_int_equal(samples, tally[0].latency.count + tally[1].latency.count);
	assert_int_equal(length, series.row[series.count - 1].end_ns);
	bench_series_free(&series);
	assert_int_equal(series.count, 0);
}

static void a_phase_without_operations_has_windows_without_percentiles(void **state)
{
	static struct bench_tally tally;
	struct series_source source = {&tally, sizeof(tally), 1};
	struct bench_series series = {0};
	(void)state;
	bench_tally_init(&tally);
	series_stop(series_start(&source, 1000000000, &series));
	assert_int_equal(series.count, 1);
	assert_int_equal(series.row[0].samples, 0);
	bench_series_free(&series);
	series_stop(NULL);
	assert_false(series_live(NULL, NULL));
}

static void repeated_runs_make_one_series(void **state)
{
	static struct bench_tally tally;
	struct series_source source = {&tally, sizeof(tally), 1};
	struct bench_series all = {0}, more = {0};
	(void)state;
	bench_tally_init(&tally);
	for (unsigned i = 1; i <= 3; i++) {
		uint64_t end_ns = all.count ? all.row[all.count - 1].end_ns : 0;
		series_stop(series_start(&source, 1000000000, &more));
		bench_series_append(&all, &more);
		assert_int_equal(all.count, i);
		assert_int_equal(more.count, 0);
		assert_null(more.row);
		assert_int_equal(all.row[i - 1].end_ns, end_ns + all.row[i - 1].length_ns);
	}
	bench_series_free(&all);
}

static void the_live_line_fits(void **state)
{
	struct progress p = {.name = "warm-up",
			     .total = 1000000000,
			     .tty = true,
			     .has_window = true,
			     .window = {.length_ns = 1000000000,
					.ops = 99999999,
					.bytes = 999999999999,
					.samples = 1,
					.p50_ns = 99999999,
					.p99_ns = 999999999}};
	char text[128];
	(void)state;
	progress_text(&p, 400000000, 3600000000000ull, text, sizeof(text));
	assert_true(strlen(text) <= 79);
	check_contains(text, "p50 100 ms");
	p.window.p99_ns = 0; /* of too few */
	progress_text(&p, 400000000, 3600000000000ull, text, sizeof(text));
	check_contains(text, "p99 -");
	p.window.samples = 0;
	progress_text(&p, 400000000, 3600000000000ull, text, sizeof(text));
	assert_null(strstr(text, "p50"));
}

static void the_processors_times_are_read(void **state)
{
	uint64_t all, idle, steal;
	(void)state;
	assert_true(bench_stat_parse("cpu  10 1 5 100 4 2 3 7 50 60", &all, &idle, &steal));
	assert_int_equal(all, 132);
	assert_int_equal(idle, 104);
	assert_int_equal(steal, 7);
	assert_false(bench_stat_parse("cpu  10 1 5", &all, &idle, &steal));
	assert_false(bench_stat_parse("intr 1 2 3 4 5 6 7 8 9", &all, &idle, &steal));
	assert_true(bench_distance_ns() >= -1);
}

/* ---- files ---- */

static void a_file_has_its_name_when_it_is_whole(void **state)
{
	struct check_file file = check_file_make("old");
	struct kv_error err = {0};
	struct out_file f;
	struct stat st;
	(void)state;
	assert_int_equal(out_file_open(&f, file.path, "the page", &err), 0);
	assert_int_equal(stat(file.path, &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(out_file_write(&f, "longer", 6, &err), 0);
	assert_int_equal(stat(file.path, &st), 0);
	assert_int_equal(st.st_size, 6);
	assert_int_not_equal(stat(f.temporary[0] ? f.temporary : "/nonexistent", &st), 0);
	assert_int_equal(out_file_open(&f, "/nonexistent/x", "the page", &err), -ENOENT);
	check_contains(err.text, "the page /nonexistent/x cannot be written: No such file");
	out_file_discard(&f);
	assert_int_equal(out_file_open(&f, "/dev/full", "the page", &err), 0);
	assert_int_equal(out_file_write(&f, "x", 1, &err), -ENOSPC);
	check_contains(err.text, "No space left");
	check_file_remove(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_result_is_refused_with_its_reason),
		cmocka_unit_test(the_percentile_file_has_the_form_of_hdrhistogram),
		cmocka_unit_test(huge_counts_end),
		cmocka_unit_test(without_a_histogram_there_is_no_percentile_file),
		cmocka_unit_test(the_time_series_has_a_line_for_each_window),
		cmocka_unit_test(nothing_from_outside_becomes_markup),
		cmocka_unit_test(the_page_has_what_was_asked_for),
		cmocka_unit_test(conditions_have_no_more_digits_than_they_are_worth),
		cmocka_unit_test(a_wide_heat_map_is_turned),
		cmocka_unit_test(the_page_of_a_sweep_has_its_conditions),
		cmocka_unit_test(windows_of_few_operations_are_drawn),
		cmocka_unit_test(a_mix_has_a_line_for_each_kind),
		cmocka_unit_test(every_figure_is_drawn_or_says_what_is_lacking),
		cmocka_unit_test(odd_numbers_make_no_odd_picture),
		cmocka_unit_test(an_axis_of_less_than_a_decade_has_ticks),
		cmocka_unit_test(an_axis_of_some_decades_has_ticks_in_all_of_them),
		cmocka_unit_test(a_condition_that_differs_is_named),
		cmocka_unit_test(what_keeps_nobody_from_comparing_is_a_note),
		cmocka_unit_test(distances_are_told_apart),
		cmocka_unit_test(windows_add_up_to_what_was_counted),
		cmocka_unit_test(a_phase_without_operations_has_windows_without_percentiles),
		cmocka_unit_test(repeated_runs_make_one_series),
		cmocka_unit_test(the_live_line_fits),
		cmocka_unit_test(the_processors_times_are_read),
		cmocka_unit_test(a_file_has_its_name_when_it_is_whole),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
