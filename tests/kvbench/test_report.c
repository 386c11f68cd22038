/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c -- counting, the JSON report's names and values, and the verdict on a run. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvbench/report/json.h"
#include "kvbench/fabric/roofline.h"
#include "kvbench/measure/lives.h"
#include "kvbench/measure/progress.h"
#include "kvbench/report/report.h"
#include "kvclient/kvclient.h"
#include "tests/kvbench/check.h"

struct fixture {
	struct bench_options opt;
	struct bench bench;
};

/* A made run: 10 writes, 100 reads of 1 ms, all well. */
static int set_up(void **state)
{
	static struct fixture
		fixture; /* the tallies in it are cache line aligned, which an allocation of cmocka is not */
	struct fixture *f = &fixture;
	struct bench_results *r = &f->bench.results;
	memset(f, 0, sizeof(*f));
	kv_opt_defaults(bench_options_table, &f->opt);
	f->bench.opt = &f->opt;
	f->bench.num_clients = 4;
	r->library.info = (struct kvc_info){.provider = "tcp;ofi_rxm",
					    .fabric = "net",
					    .domain = "lo",
					    .wait = "fd",
					    .libfabric = "1.17",
					    .os_threads = 4,
					    .endpoints = 4,
					    .links = 16,
					    .buffer_bytes = 256 << 20};
	r->memory.rss_peak = 12345678;
	bench_tally_init(&r->write.tally);
	bench_tally_init(&r->warmup.tally);
	bench_tally_init(&r->read.tally);
	r->write.ran = r->read.ran = true;
	r->write.elapsed_ns = r->read.elapsed_ns = 500000000;
	r->write.tally.ops = 10;
	r->read.tally.ops = r->read.tally.hits = 100;
	r->read.tally.bytes = 6553600;
	r->read.cpu_seconds = 0.25;
	for (unsigned i = 0; i < 100; i++)
		kv_hist_add(&r->read.tally.latency, 1000000 + i);
	*state = f;
	return 0;
}

static json_t *report_of(const struct bench *b)
{
	json_t *j = json_document(b);
	assert_non_null(j);
	return j;
}

/* The member at a path of names, or NULL: there is none, or it is null. */
static const json_t *at(const json_t *j, const char *const *name)
{
	while (j && *name)
		j = json_object_get(j, *name++);
	return json_is_null(j) ? NULL : j;
}
#define AT(j, ...) at(j, (const char *const[]){__VA_ARGS__, NULL})

/* That an object has these names, in any order, and no other. names: separated by blanks. */
static void check_names(const json_t *object, const char *names)
{
	char copy[2048], *save = NULL;
	size_t n = 0;
	assert_true(json_is_object(object));
	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save), n++)
		if (!json_object_get(object, name))
			fail_msg("'%s' is missing", name);
	assert_int_equal(json_object_size(object), n);
}

static void every_part_has_the_names_that_are_documented(void **state)
{
	struct fixture *f = *state;
	json_t *j = report_of(&f->bench), *phases = json_object_get(j, "phases"),
	       *read = json_object_get(phases, "read");
	check_names(j, "schema interrupted verdict conditions run host provider config resources phases verify");
	assert_string_equal(json_string_value(json_object_get(json_object_get(j, "run"), "driver")), "workers");
	check_names(json_object_get(j, "run"), "version time options driver interrupted");
	check_names(json_object_get(j, "host"),
		    "name kernel architecture processor cores numa_nodes congestion_control");
	assert_string_equal(json_string_value(json_object_get(j, "schema")), "kvbench/1");
	check_names(json_object_get(j, "provider"),
		    "name fabric domain wait libfabric loopback_congestion_control mode put doorkeeper security "
		    "chunk_bytes eager_bytes tx_depth cq_depth credits");
	check_names(
		json_object_get(j, "resources"),
		"os_threads endpoints links buffer_bytes values_bytes peak_rss_bytes buffer_pages numa register_ns");
	check_names(phases, "write read");
	check_names(json_object_get(phases, "write"),
		    "ops bytes seconds ops_per_s bytes_per_s hits misses "
		    "put_conflicts duplicates errors latency_ns cpu_seconds page_faults");
	check_names(read, "ops bytes seconds ops_per_s bytes_per_s hits misses put_conflicts duplicates errors "
			  "latency_ns cpu_seconds page_faults histogram");
	check_names(json_object_get(read, "latency_ns"), "min mean p50 p90 p95 p99 max"); /* of 100 reads */
	check_names(json_object_get(j, "verify"), "checked wrong");
	json_decref(j);
}

static void the_config_has_every_option_with_underscores(void **state)
{
	struct fixture *f = *state;
	json_t *j = report_of(&f->bench), *config = json_object_get(j, "config");
	check_names(
		config,
		"async submitters no_threads servers event server cluster provider nic door rails numa mode "
		"local local_socket namespace tier "
		"num_workers num_clients num_threads num_keys value_size value_sizes keys_pattern arrivals ramp mix "
		"repeat_runs slo warmup_steady slices repeat_reads duration rate warmup batch ttl seed verify "
		"keep_going no_write no_checksum breakdown mixed background_puts roofline roofline_depth roofline_file "
		"trace trace_speed trace_order buffer_mb memory_mb eviction model tp dtype block_tokens prefix_tokens "
		"prefill_rate server_threads timeout peer_timeout settle repair_mb copies slow_ms "
		"psk_file cert key ca crl server_name seal_key_file seal_names json report hdr csv raw interval "
		"progress quiet log_level config");
	assert_int_equal(json_integer_value(json_object_get(config, "num_workers")), 16);
	assert_int_equal(json_integer_value(json_object_get(config, "value_size")), 65536);
	assert_string_equal(json_string_value(json_object_get(config, "trace_order")), "strict");
	assert_true(json_real_value(json_object_get(config, "timeout")) == 0.0);
	assert_true(json_is_null(json_object_get(config, "trace")));
	assert_int_equal(json_array_size(json_object_get(config, "server")), 0);
	json_decref(j);
}

/* It was a number before it had a choice without one: results are compared with older ones. */
static void copies_are_a_number_or_hot(void **state)
{
	struct fixture *f = *state;
	json_t *j = report_of(&f->bench);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "config"), "copies")), 1);
	json_decref(j);
	f->opt.client.copies = BENCH_COPIES_TWO;
	j = report_of(&f->bench);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "config"), "copies")), 2);
	json_decref(j);
	f->opt.client.copies = BENCH_COPIES_HOT;
	j = report_of(&f->bench);
	assert_string_equal(json_string_value(json_object_get(json_object_get(j, "config"), "copies")), "hot");
	json_decref(j);
}

/* Two reports that differ must show in what: what was asked for, and what it came to. */
static void the_report_says_what_ran(void **state)
{
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	char *argv[] = {"kv-bench", "--num-keys", "7", NULL};
	json_t *j, *given, *rail;
	f->opt.out.argc = 3;
	f->opt.out.argv = argv;
	r->started_s = 1700000000;
	r->interrupted = 2;
	r->library.num_rails = 2;
	r->library.rail[0].bytes = 4096;
	r->library.rail[1].bytes = UINT64_MAX;
	j = report_of(&f->bench);
	given = json_object_get(json_object_get(j, "run"), "options");
	assert_int_equal(json_array_size(given), 2);
	assert_string_equal(json_string_value(json_array_get(given, 1)), "7");
	assert_string_equal(json_string_value(json_object_get(json_object_get(j, "run"), "time")),
			    "2023-11-14T22:13:20Z");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "run"), "interrupted")), 2);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "config"), "num_threads")),
			 4); /* not the 0 that was asked for */
	assert_true(json_integer_value(json_object_get(json_object_get(j, "host"), "cores")) > 0);
	rail = json_array_get(json_object_get(j, "rails"), 0);
	assert_int_equal(json_integer_value(json_object_get(rail, "bytes")), 4096);
	rail = json_array_get(json_object_get(j, "rails"), 1);
	assert_true(json_is_null(json_object_get(rail, "bytes")));
	json_decref(j);
}

static char *summary_of(struct bench *b)
{
	static char *text;
	static size_t len;
	b->out = open_memstream(&text, &len);
	report_summary(b);
	fclose(b->out);
	b->out = NULL;
	return text;
}

static void the_report_says_who_drove_it(void **state)
{
	struct fixture *f = *state;
	struct bench *b = &f->bench;
	char *text = NULL;
	size_t len;
	json_t *j;
	f->opt.load.async = true;
	f->opt.load.submitters = 3;
	j = report_of(b);
	assert_string_equal(json_string_value(json_object_get(json_object_get(j, "run"), "driver")), "queue");
	json_decref(j);
	for (unsigned submitters = 0; submitters < 2; submitters++) {
		f->opt.load.submitters = submitters;
		b->out = open_memstream(&text, &len);
		report_start(b);
		fclose(b->out);
		b->out = NULL;
		check_contains(text,
			       submitters ? "16 ids through a queue by 1 submitter on" : "16 ids through a queue on");
		free(text);
	}
}

/* The widest line of a text. */
static size_t widest(const char *text)
{
	size_t column = 0, most = 0;
	for (; *text; text++) {
		column = *text == '\n' ? 0 : column + 1;
		most = column > most ? column : most;
	}
	return most;
}

static void the_summary_fits_80_columns(void **state)
{
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	char *text;
	f->opt.pace.rate = 1e9;
	f->opt.load.verify = true;
	r->interrupted = 15;
	r->replay = (struct replay_result){.ran = true,
					   .complete = true,
					   .requests = 1000000000,
					   .blocks = 100000000000ull,
					   .block_hits = 1u << 31,
					   .lost = 1u << 30};
	r->roofline = r->roofline_put = (struct roofline_result){
		.ran = true, .op_bytes_per_s = 1e11, .bytes_per_s = 1e11, .efficiency = 1, .rounds = 100, .depth = 1};
	r->library.counters = (struct kvc_counters){.size = sizeof(r->library.counters),
						    .requests = 1ull << 40,
						    .queue_ns = 1ull << 60,
						    .timeouts = 1ull << 40,
						    .fences = 1ull << 40,
						    .slow = 1ull << 40};
	r->library.num_rails = 2;
	snprintf(r->library.rail[0].device, sizeof(r->library.rail[0].device), "rdmap79s0-rdm");
	r->library.rail[0].sends = r->library.rail[0].receives = r->library.rail[0].immediates = 999999999;
	r->library.rail[0].out = 4;
	r->keep_going.ran = true;
	for (unsigned i = 0; i < 2; i++) {
		struct phase_result *p = i ? &r->read : &r->write;
		p->elapsed_ns = 100000000000000ull;
		p->tally.ops = p->tally.hits = 1000000000000ull;
		p->tally.bytes = 1ull << 60;
		bench_errors_add(&p->tally.errors, -KV_EVERSION, 1000000000);
		kv_hist_add(&p->tally.latency, 99900);
		kv_hist_add(&p->tally.latency, 999900000);
	}
	text = summary_of(&f->bench);
	assert_in_range(widest(text), 70, 80);
	assert_non_null(strstr(text, "interrupted by signal 15"));
	free(text);
}

static void a_rate_says_offered_and_achieved(void **state)
{
	struct fixture *f = *state;
	char *text;
	f->opt.pace.rate = 1000;
	text = summary_of(&f->bench); /* 100 reads in half a second */
	assert_non_null(strstr(text, "offered 1,000 per second, achieved 200 (20 %): less than was offered"));
	free(text);
	f->opt.pace.rate = 200;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "offered 200 per second, achieved 200 (100 %)\n"));
	free(text);
	/* The JSON's offered_per_s is what was asked for: so is the text's. */
	f->opt.pace.rate = 1000;
	f->bench.results.read.planned_ns = 500000000;
	f->bench.results.read.tally.due = 100;
	f->opt.pace.arrivals = BENCH_POISSON;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "offered 1,000 per second (200 by chance), achieved 200 (100 %)\n"));
	free(text);
	f->opt.pace.ramp_ns = 1;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "offered 1,000 per second (200 with the ramp), achieved 200 (100 %)\n"));
	free(text);
	/* What never started was offered as well. */
	f->bench.results.read.tally.due = 400;
	f->bench.results.read.tally.never_started = 300;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "offered 1,000 per second (800 with the ramp), achieved 200 (25 %): less"));
	assert_non_null(strstr(text, "300 of the 400 operations due had not started"));
	free(text);
	f->opt.pace.arrivals = BENCH_UNIFORM;
	f->opt.pace.ramp_ns = 0;
	f->opt.pace.rate = 0.3;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "offered 0.3 per second, "));
	free(text);
}

/* An offered rate is none of loading, and a trace's latencies are of requests. */
static void a_prefix_is_of_a_closed_loop_alone(void **state)
{
	static const char no_prefix[] = "no time of a prefix is computed";
	struct fixture *f = *state;
	f->opt.model.name = "made";
	f->opt.model.layout = (struct model_layout){1, MODEL_BF16, 16};
	f->opt.model.prefill_rate = 8000;
	for (unsigned i = 0; i < 4; i++) {
		json_t *j;
		char *text;
		f->opt.pace.rate = i == 1 ? 100 : 0;
		f->opt.pace.aim.quantile = i == 2 ? 0.99 : 0;
		f->opt.replay.trace = i == 3 ? "t.jsonl" : NULL;
		text = summary_of(&f->bench);
		j = report_of(&f->bench);
		assert_non_null(strstr(text, "tokens per second of KV loaded"));
		assert_int_equal(strstr(text, "a prefix of 8,192 tokens: ") != NULL, i == 0);
		assert_int_equal(strstr(text, "break-even") != NULL, i == 0);
		assert_int_equal(strstr(text, no_prefix) != NULL, i != 0);
		assert_int_equal(AT(j, "model", "prefix_load_s") != NULL, i == 0);
		assert_int_equal(AT(j, "model", "break_even_tokens") != NULL, i == 0);
		json_decref(j);
		free(text);
	}
}

static void batches_are_told_where_their_latency_is(void **state)
{
	struct fixture *f = *state;
	char *text;
	f->opt.load.batch = 1; /* as --slices has it */
	text = summary_of(&f->bench);
	assert_null(strstr(text, "of a batch"));
	free(text);
	f->opt.load.batch = 8;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "(a latency is of a batch of 8 keys; ops are keys)"));
	free(text);
}

/* A phase of a GET may take no time at all: that is measured, too. */
static void a_phase_of_no_time_has_quantiles(void **state)
{
	static const struct kvc_phases phases = {.total_ns = 100, .wire_ns = 100};
	static struct bench_breakdown watched;
	struct fixture *f = *state;
	char *text;
	json_t *j;
	bench_breakdown_init(&watched);
	for (unsigned i = 0; i < 100; i++)
		bench_breakdown_add(&watched, &phases);
	f->bench.results.breakdown = &watched;
	j = report_of(&f->bench);
	check_names(AT(j, "breakdown_ns", "room"), "min mean p50 p90 p95 p99 max");
	json_decref(j);
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "room           0 ns      0 ns      0 ns"));
	free(text);
}

/* p99 of fewer than 100 samples would be their largest. */
static void a_quantile_without_samples_beyond_it_is_not_given(void **state)
{
	struct fixture *f = *state;
	struct kv_hist *h = &f->bench.results.read.tally.latency;
	struct bench_runs *runs = &f->bench.results.runs;
	json_t *j;
	char *text;
	kv_hist_init(h);
	for (unsigned i = 0; i < 99; i++)
		kv_hist_add(h, 1000000);
	runs->count = 2;
	runs->row[0].p50_ns = runs->row[1].p50_ns = runs->row[1].p99_ns = 1000000;
	text = summary_of(&f->bench);
	assert_non_null(
		strstr(text, "read    1.00 ms 1.00 ms 1.00 ms 1.00 ms 1.00 ms       -       - 1.00 ms       -\n"));
	assert_non_null(strstr(text, "read p50 "));
	assert_null(strstr(text, "read p99 "));
	free(text);
	j = report_of(&f->bench);
	check_names(AT(j, "phases", "read", "latency_ns"), "min mean p50 p90 p95 max");
	check_names(json_object_get(j, "runs"), "count ops_per_s bytes_per_s p50_ns");
	json_decref(j);
}

static void a_rate_of_a_moment_is_told(void **state)
{
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	char *text = summary_of(&f->bench);
	assert_null(strstr(text, "too short for"));
	free(text);
	r->write.elapsed_ns = 50000000; /* 1,000 keys */
	r->read.elapsed_ns = 99000000;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "too short for a rate: --num-keys 20000 would take a second\n"));
	assert_non_null(strstr(text, "too short for a rate: --repeat-reads 101 would take a second\n"));
	free(text);
	f->opt.pace.duration_ns = 90000000;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "too short for a reliable rate\n"));
	free(text);
}

/* Blocks that were computed anew differ in their last bits: routine, and no failure. */
static void put_conflicts_are_no_errors(void **state)
{
	struct fixture *f = *state;
	json_t *j;
	char *text;
	f->bench.results.write.tally.put_conflicts = 3;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "put conflicts 3: other bytes were there under the key, and stay\n"));
	assert_null(strstr(text, "error"));
	free(text);
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
	j = report_of(&f->bench);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(json_object_get(j, "phases"), "write"),
							    "put_conflicts")),
			 3);
	json_decref(j);
}

/* Both phases of a replay are the same seconds: one sum, once. */
static void a_trace_has_its_cpu_time_once(void **state)
{
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	char *text, *at;
	f->opt.replay.trace = "t";
	r->write.cpu_seconds = r->read.cpu_seconds = 12.34;
	text = summary_of(&f->bench);
	at = strstr(text, "12.34 s");
	assert_non_null(at);
	assert_null(strstr(at + 1, "12.34 s"));
	free(text);
}

/* 1497 s of waiting in a run of a second: a sum over requests, which reads like a failure. */
static void waits_are_means(void **state)
{
	struct fixture *f = *state;
	struct kvc_counters *c = &f->bench.results.library.counters;
	char *text;
	*c = (struct kvc_counters){
		.size = sizeof(*c), .requests = 1000000, .queue_ns = 1497000000000ull, .room_wait_ns = 5000000000ull};
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "a request waited 5.00 us for room and 1.50 ms for credits"));
	assert_null(strstr(text, "1497"));
	free(text);
}

static void copies_are_told_where_they_are_made(void **state)
{
	struct fixture *f = *state;
	char *text;
	f->bench.results.library.counters =
		(struct kvc_counters){.size = sizeof(struct kvc_counters), .copies = 12, .copy_bytes = 49152};
	text = summary_of(&f->bench);
	assert_null(strstr(text, "second copies"));
	free(text);
	f->opt.client.copies = BENCH_COPIES_HOT;
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "second copies (--copies hot): 12 made, 48 KiB; dropped 0\n"));
	free(text);
}

static void progress_has_rate_and_time_left(void **state)
{
	struct progress p = {.name = "warm-up", .total = 1000000000, .unit_bytes = 65536};
	char text[128];
	(void)state;
	progress_text(&p, 250000000, 10000000000ull, text, sizeof(text));
	assert_string_equal(text, "warm-up   25 %  250000000 ops  25000000 ops/s  1.64 TB/s  30 s left");
	p.tty = true;
	progress_text(&p, 250000000, 10000000000ull, text, sizeof(text));
	assert_string_equal(text, "warm-up  [=====               ]  25 %  25000000 ops/s  1.64 TB/s  30 s left");
	assert_true(strlen(text) < 80);
	p.tty = false;
	p.bare_ops = 125000000; /* misses move no bytes */
	progress_text(&p, 250000000, 10000000000ull, text, sizeof(text));
	assert_string_equal(text, "warm-up   25 %  250000000 ops  25000000 ops/s  819 GB/s  30 s left");
	p = (struct progress){.name = "memory", .total = 65536, .unit = "MiB"};
	progress_text(&p, 8192, 10000000000ull, text, sizeof(text));
	assert_string_equal(text, "memory    12 %  8192 MiB  819 MiB/s  70 s left");
	p = (struct progress){.name = "read", .total = UINT64_MAX, .duration_ns = 3600000000000ull};
	progress_text(&p, 0, 0, text, sizeof(text));
	assert_string_equal(text, "read       0 %  0 ops  0 ops/s");
}

static uint64_t half_done(void *arg)
{
	(void)arg;
	return 500;
}

/* What is drawn over must be one line: at a terminal of 40 columns it is cut. */
static void progress_fits_a_narrow_terminal(void **state)
{
	struct winsize size = {.ws_col = 40, .ws_row = 10};
	struct progress p = {.name = "warm-up", .total = 1000, .unit_bytes = 65536, .done = half_done};
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	char name[64], text[256] = "", *bar;
	size_t len = 0;
	(void)state;
	if (master < 0 || grantpt(master) || unlockpt(master) || ptsname_r(master, name, sizeof(name))) {
		print_message("no terminal can be made here\n");
		skip();
	}
	p.out = fopen(name, "r+");
	assert_non_null(p.out);
	assert_int_equal(ioctl(fileno(p.out), TIOCSWINSZ, &size), 0);
	progress_start(&p);
	while (len < sizeof(text) - 1 && (!(bar = strstr(text, "\r\033[K")) || !strstr(bar + 1, "\r\033[K"))) {
		ssize_t n = read(master, text + len, sizeof(text) - 1 - len);
		assert_true(n > 0);
		len += (size_t)n;
	}
	progress_stop(&p);
	bar += strlen("\r\033[K");
	assert_int_equal(strcspn(bar, "\r"), 39);
	assert_memory_equal(bar, "warm-up  [==========          ]  50 %  ", 39);
	fclose(p.out);
	close(master);
}

static void counters_appear_when_taken(void **state)
{
	struct fixture *f = *state;
	struct kvc_counters *c = &f->bench.results.library.counters;
	json_t *j, *counters;
	c->size = sizeof(*c);
	c->gets = 100;
	c->queue_max_ns = 5;
	c->results[KVC_OP_GET][0] = 98;
	c->results[KVC_OP_GET][KV_ETIMEOUT - 1000] = 2;
	j = report_of(&f->bench);
	counters = json_object_get(j, "counters");
	assert_int_equal(json_object_size(counters), 7); /* six groups, and results of GET alone */
	assert_int_equal(json_integer_value(json_object_get(json_object_get(counters, "calls"), "gets")), 100);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(counters, "waits"), "queue_max_ns")), 5);
	check_names(json_object_get(counters, "results of GET"), "ok timeout");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(counters, "results of GET"), "timeout")),
			 2);
	json_decref(j);
}

static void figures_are_those_of_the_run(void **state)
{
	struct fixture *f = *state;
	json_t *j, *read, *latency;
	bench_errors_add(&f->bench.results.read.tally.errors, -KV_ETIMEOUT, 3);
	j = report_of(&f->bench);
	read = json_object_get(json_object_get(j, "phases"), "read");
	latency = json_object_get(read, "latency_ns");
	assert_int_equal(json_integer_value(json_object_get(read, "ops")), 100);
	assert_true(json_real_value(json_object_get(read, "ops_per_s")) == 200.0);
	assert_true(json_real_value(json_object_get(read, "bytes_per_s")) == 13107200.0);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(read, "errors"), kv_errkey(-KV_ETIMEOUT))),
			 3);
	assert_int_equal(json_integer_value(json_object_get(latency, "min")), 1000000);
	assert_int_equal(json_integer_value(json_object_get(latency, "max")), 1000099);
	json_decref(j);
}

static void the_breakdown_appears_when_asked_for(void **state)
{
	static const struct kvc_phases phases = {.total_ns = 100,
						 .room_ns = 1,
						 .queue_ns = 9,
						 .server_ns = 30,
						 .post_ns = 25,
						 .wire_ns = 40,
						 .data_ns = 5,
						 .wake_ns = 4,
						 .check_ns = 10,
						 .other_ns = 1};
	static struct bench_breakdown watched[2];
	struct fixture *f = *state;
	uint64_t sum = 0;
	json_t *j, *b;
	bench_breakdown_init(&watched[0]);
	bench_breakdown_init(&watched[1]);
	bench_breakdown_add(&watched[1], &phases);
	bench_breakdown_merge(&watched[0], &watched[1]);
	f->bench.results.breakdown = watched;
	j = report_of(&f->bench);
	b = json_object_get(j, "breakdown_ns");
	check_names(b, "room queue post reply wire data wake check other total");
	check_names(json_object_get(b, "wire"), "min mean p50 max"); /* of one */
	assert_int_equal(json_integer_value(json_object_get(json_object_get(b, "post"), "max")), 25);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(b, "reply"), "max")), 5);
	for (unsigned i = 0; i < BENCH_PART_TOTAL; i++)
		sum += (uint64_t)json_integer_value(json_object_get(json_object_get(b, bench_part_name(i)), "max"));
	assert_int_equal(sum, 100);
	json_decref(j);
}

static void the_roofline_and_a_trace_appear_when_run(void **state)
{
	struct fixture *f = *state;
	json_t *j;
	f->bench.results.roofline =
		(struct roofline_result){.ran = true, .efficiency = 0.5, .bytes_per_s = 1e9, .p50_ns = 7};
	f->bench.results.replay = (struct replay_result){.ran = true, .requests = 3, .blocks = 10, .block_hits = 4};
	j = report_of(&f->bench);
	check_names(json_object_get(j, "roofline"),
		    "bytes_per_s get_bytes_per_s p50_ns depth efficiency efficiency_min efficiency_max");
	check_names(json_object_get(j, "trace"), "requests blocks block_hits hit_ratio");
	assert_true(json_real_value(json_object_get(json_object_get(j, "trace"), "hit_ratio")) == 0.4);
	assert_null(json_object_get(j, "roofline_put"));
	json_decref(j);
	f->bench.results.roofline_put = (struct roofline_result){.ran = true, .op_bytes_per_s = 7.5};
	j = report_of(&f->bench);
	check_names(json_object_get(j, "roofline_put"),
		    "bytes_per_s put_bytes_per_s p50_ns depth efficiency efficiency_min efficiency_max");
	assert_true(json_real_value(json_object_get(json_object_get(j, "roofline_put"), "put_bytes_per_s")) == 7.5);
	json_decref(j);
}

/* Both kinds apart, and together beside each alone. */
static void a_mixed_phase_appears_when_run(void **state)
{
	struct fixture *f = *state;
	struct mixed_result *m = &f->bench.results.mixed;
	json_t *j, *mixed;
	char *text;
	m->read = m->write = (struct phase_result){.ran = true, .elapsed_ns = 1000000000};
	m->read.tally.ops = m->read.tally.hits = 30;
	m->write.tally.ops = 20;
	m->of_alone = 0.875;
	j = report_of(&f->bench);
	mixed = json_object_get(json_object_get(j, "phases"), "mixed");
	check_names(mixed, "read write of_alone");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(mixed, "read"), "ops")), 30);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(mixed, "write"), "ops")), 20);
	assert_true(json_real_value(json_object_get(mixed, "of_alone")) == 0.875);
	json_decref(j);
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "together 0.875 of the mean"));
	free(text);
	assert_int_equal(report_verdict(&f->bench, stdout), 0);
	m->read.tally.misses = 1;
	bench_errors_add(&m->write.tally.errors, -KV_ETIMEOUT, 2);
	assert_int_equal(report_verdict(&f->bench, stdout), 2);
}

/* Rounds on this machine, or a report of kv-bench fabric. */
static void a_roofline_names_its_source(void **state)
{
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	char *text;
	r->roofline = (struct roofline_result){.ran = true, .op_bytes_per_s = 1e9, .bytes_per_s = 2e9, .rounds = 5};
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "; GET "));
	assert_null(strstr(text, "; PUT "));
	assert_non_null(strstr(text, "median of 5 alternating rounds"));
	free(text);
	assert_int_equal(report_verdict(&f->bench, stdout), 0);
	r->roofline_put = (struct roofline_result){.ran = true, .op_bytes_per_s = 5e8, .bytes_per_s = 1e9};
	f->opt.roofline.file = "fabric.json";
	text = summary_of(&f->bench);
	assert_non_null(strstr(text, "; PUT "));
	assert_non_null(strstr(text, "bare writes: fabric.json"));
	free(text);
}

/* One client of a run with --keep-going that met one outage. */
static void make_keep_going(struct fixture *f, struct bench_outages *watched)
{
	memset(watched, 0, sizeof(*watched));
	watched->count = 1;
	watched->row[0] = (struct bench_outage){.from_ns = 1000, .to_ns = 3000, .failed = 7};
	f->bench.results.keep_going = (struct keep_going_result){.ran = true,
								 .calls = 120,
								 .longest_ns = 5000,
								 .stored_again = 9,
								 .outages = 1,
								 .realtime_ns = 1000000000,
								 .num_clients = 1,
								 .outage = watched};
}

static void keep_going_appears_when_run(void **state)
{
	static struct bench_outages watched;
	struct fixture *f = *state;
	json_t *j, *k, *outage;
	make_keep_going(f, &watched);
	j = report_of(&f->bench);
	k = json_object_get(j, "keep_going");
	check_names(k, "calls overdue longest_ns stored_again outages_count outages_open outages");
	assert_int_equal(json_integer_value(json_object_get(k, "calls")), 120);
	assert_int_equal(json_array_size(json_object_get(k, "outages")), 1);
	outage = json_array_get(json_object_get(k, "outages"), 0);
	check_names(outage, "client from_unix_ns to_unix_ns failed");
	assert_int_equal(json_integer_value(json_object_get(outage, "from_unix_ns")), 1000001000);
	assert_int_equal(json_integer_value(json_object_get(outage, "to_unix_ns")), 1000003000);
	assert_int_equal(json_integer_value(json_object_get(outage, "failed")), 7);
	json_decref(j);
}

static void keep_going_fails_for_wrong_and_overdue_alone(void **state)
{
	static struct bench_outages watched;
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	make_keep_going(f, &watched);
	bench_errors_add(&r->read.tally.errors, -KV_EPEERDOWN, 5000);
	r->read.tally.misses = 300;
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
	r->keep_going.overdue = 1;
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	r->read.tally.wrong = 1;
	assert_int_equal(report_verdict(&f->bench, NULL), 2);
}

static void what_was_not_measured_is_absent(void **state)
{
	struct fixture *f = *state;
	json_t *j, *write;
	f->bench.results.write.elapsed_ns = 0;
	j = report_of(&f->bench);
	write = json_object_get(json_object_get(j, "phases"), "write");
	check_names(json_object_get(write, "latency_ns"), "");
	assert_null(json_object_get(write, "ops_per_s"));
	assert_null(json_object_get(write, "histogram"));
	assert_null(json_object_get(write, "server_cpu_seconds")); /* the server is not ours */
	assert_null(json_object_get(json_object_get(j, "conditions"), "steal_share"));
	assert_null(json_object_get(json_object_get(j, "conditions"), "shared_machine"));
	assert_null(json_object_get(json_object_get(j, "conditions"), "core_distance_before_ns"));
	json_decref(j);
}

/* ---- the verdict ---- */

static void a_good_run_has_no_problem(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
}

static void errors_misses_and_wrong_bytes_fail_a_run(void **state)
{
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	r->read.tally.misses = 1;
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	r->warmup.tally.misses = 1; /* each phase by itself: the report shows them so */
	assert_int_equal(report_verdict(&f->bench, NULL), 2);
	r->warmup.tally.misses = 0;
	r->read.tally.wrong = 1;
	assert_int_equal(report_verdict(&f->bench, NULL), 2);
	bench_errors_add(&r->write.tally.errors, -KV_ETIMEOUT, 1);
	assert_int_equal(report_verdict(&f->bench, NULL), 3);
	bench_errors_add(&r->warmup.tally.errors, -KV_ETIMEOUT, 1);
	assert_int_equal(report_verdict(&f->bench, NULL), 4);
}

/* There is no figure then, and 0 is none. */
static void reads_of_nothing_fail_a_run(void **state)
{
	struct fixture *f = *state;
	struct bench_results *r = &f->bench.results;
	r->read.tally.ops = 0;
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	r->mix_put.tally.ops = 1;
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
	r->mix_put.tally.ops = 0;
	r->interrupted = 2;
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
	r->interrupted = 0;
	bench_errors_add(&r->read.tally.errors, -KV_EPEERDOWN, 1); /* which has a line of its own */
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	r->read.tally.errors.num_codes = 0;
	f->opt.replay.trace = "file"; /* of which no block was found */
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
	f->opt.replay.trace = NULL;
}

/* What this run did not write had not been written as far as it knows. */
static void misses_of_a_run_that_wrote_nothing_say_so(void **state)
{
	struct fixture *f = *state;
	char *text = NULL;
	size_t len = 0;
	for (int no_write = 0; no_write < 2; no_write++) {
		FILE *to = open_memstream(&text, &len);
		f->opt.load.no_write = no_write;
		f->bench.results.read.tally.misses = 1;
		assert_int_equal(report_verdict(&f->bench, to), 1);
		fclose(to);
		assert_int_equal(strstr(text, "that had been written") != NULL, !no_write);
		assert_int_equal(strstr(text, "an earlier run with the same --seed") != NULL, no_write);
		free(text);
	}
}

/* Neither eviction nor --ttl is to blame for what went with a server. */
static void misses_after_a_server_ended_name_it(void **state)
{
	static const char *const words[] = {"it was evicted", "server a:1 shut down", "server a:1 was restarted"};
	struct fixture *f = *state;
	char *text = NULL;
	size_t len = 0;
	f->bench.results.read.tally.misses = 1;
	strcpy(f->bench.results.lives.server, "a:1");
	for (int life = BENCH_LIFE_SAME; life <= BENCH_LIFE_RESTARTED; life++) {
		FILE *to = open_memstream(&text, &len);
		f->bench.results.lives.changed = (enum bench_life)life;
		assert_int_equal(report_verdict(&f->bench, to), 1);
		fclose(to);
		for (int i = 0; i < 3; i++)
			assert_int_equal(strstr(text, words[i]) != NULL, i == life);
		free(text);
	}
}

static void a_server_has_ended_when_it_is_down_or_its_client_closed(void **state)
{
	static const enum bench_life alive[] = {[KVC_SERVER_CONNECTING] = BENCH_LIFE_SAME,
						[KVC_SERVER_UP] = BENCH_LIFE_SAME,
						[KVC_SERVER_DOWN] = BENCH_LIFE_ENDED,
						[KVC_SERVER_CLOSED] = BENCH_LIFE_ENDED};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(alive); i++) {
		struct kvc_server_info now = {.state = (enum kvc_server_state)i, .incarnation = 7};
		assert_int_equal(bench_life_of(7, &now), alive[i]);
		now.incarnation = 8;
		assert_int_equal(bench_life_of(7, &now), alive[i] ? BENCH_LIFE_ENDED : BENCH_LIFE_RESTARTED);
	}
}

static void expected_misses_do_not_fail_a_run(void **state)
{
	struct fixture *f = *state;
	f->bench.results.memory.misses_expected = true;
	f->bench.results.read.tally.misses = 50;
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
}

static void a_strict_replay_must_have_the_expected_hits(void **state)
{
	struct fixture *f = *state;
	struct replay_result *r = &f->bench.results.replay;
	f->opt.replay.trace = "file";
	f->bench.server = (struct server_child *)(void *)f; /* only that there is one is looked at */
	*r = (struct replay_result){.ran = true, .complete = true, .block_hits = 7, .expected_hits = 7};
	f->bench.results.read.tally.misses = 100; /* what a trace has of them is no failure */
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
	r->block_hits = 6;
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	/* Of values that lived shorter than the replay some are gone; none has come of itself. */
	f->bench.results.read.elapsed_ns = f->opt.load.ttl * 1000000000ull;
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
	r->block_hits = 8;
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	r->block_hits = 6;
	f->opt.load.ttl = 0;
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	f->opt.replay.order = BENCH_ORDER_RELAXED;
	assert_int_equal(report_verdict(&f->bench, NULL), 0);
}

static void a_whole_replay_is_compared_and_a_part_is_not(void **state)
{
	struct fixture *f = *state;
	struct replay_result *r = &f->bench.results.replay;
	f->opt.replay.trace = "file";
	for (int i = 0; i < 3; i++) { /* whole; whole and outlived; a part */
		char *text;
		*r = (struct replay_result){.ran = true, .complete = i < 2, .block_hits = 6, .expected_hits = 7};
		f->bench.results.read.elapsed_ns = i == 1 ? f->opt.load.ttl * 1000000000ull : 1000;
		text = summary_of(&f->bench);
		assert_int_equal(strstr(text, "in file order with memory for everything") != NULL, i < 2);
		assert_int_equal(strstr(text, "values lived for --ttl") != NULL, i == 1);
		assert_int_equal(strstr(text, "were replayed: hits are not compared") != NULL, i == 2);
		free(text);
	}
}

static void a_roofline_without_figure_fails_a_run(void **state)
{
	struct fixture *f = *state;
	char *text = NULL;
	size_t len = 0;
	FILE *out;
	f->bench.results.roofline = (struct roofline_result){.ran = true, .code = -KV_ENOTSUP};
	assert_int_equal(report_verdict(&f->bench, NULL), 1);
	/* Where the server is gone, nobody is asked how it was started. */
	f->bench.results.roofline = (struct roofline_result){.ran = true, .code = -KV_ETIMEOUT, .server_died = true};
	out = open_memstream(&text, &len);
	assert_int_equal(report_verdict(&f->bench, out), 1);
	fclose(out);
	assert_string_equal(text, "FAILED: the server died during the roofline\n");
	free(text);
}

/* ---- small ones ---- */

static void errors_are_counted_by_code_and_bounded(void **state)
{
	struct bench_errors e = {0};
	(void)state;
	for (int code = 1; code <= 100; code++)
		bench_errors_add(&e, -code, 2);
	bench_errors_add(&e, -1, 5);
	bench_errors_add(&e, -1, 0);
	assert_int_equal(e.num_codes, BENCH_ERROR_CODES);
	assert_int_equal(e.row[0].count, 7);
	assert_int_equal(bench_errors_total(&e), 205);
}

static void merging_adds_everything(void **state)
{
	static struct bench_tally a, b;
	(void)state;
	bench_tally_init(&a);
	bench_tally_init(&b);
	a.ops = 1, a.bytes = 2, a.hits = 3, a.misses = 4, a.checked = 5, a.wrong = 6;
	b = a;
	kv_hist_add(&a.latency, 10);
	kv_hist_add(&b.latency, 30);
	bench_errors_add(&b.errors, -KV_EBUSY, 1);
	bench_tally_merge(&a, &b);
	assert_true(a.ops == 2 && a.bytes == 4 && a.hits == 6 && a.misses == 8 && a.checked == 10 && a.wrong == 12);
	assert_int_equal(a.latency.count, 2);
	assert_int_equal(a.latency.max, 30);
	assert_int_equal(bench_errors_total(&a.errors), 1);
}

#define WITH_RUN(t) cmocka_unit_test_setup(t, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RUN(every_part_has_the_names_that_are_documented),
		WITH_RUN(the_config_has_every_option_with_underscores),
		WITH_RUN(copies_are_a_number_or_hot),
		WITH_RUN(copies_are_told_where_they_are_made),
		WITH_RUN(counters_appear_when_taken),
		WITH_RUN(the_report_says_what_ran),
		WITH_RUN(the_report_says_who_drove_it),
		WITH_RUN(the_summary_fits_80_columns),
		WITH_RUN(a_rate_says_offered_and_achieved),
		WITH_RUN(a_prefix_is_of_a_closed_loop_alone),
		WITH_RUN(batches_are_told_where_their_latency_is),
		WITH_RUN(a_phase_of_no_time_has_quantiles),
		WITH_RUN(a_quantile_without_samples_beyond_it_is_not_given),
		WITH_RUN(a_rate_of_a_moment_is_told),
		WITH_RUN(put_conflicts_are_no_errors),
		WITH_RUN(a_trace_has_its_cpu_time_once),
		WITH_RUN(waits_are_means),
		cmocka_unit_test(progress_fits_a_narrow_terminal),
		WITH_RUN(progress_has_rate_and_time_left),
		WITH_RUN(figures_are_those_of_the_run),
		WITH_RUN(the_breakdown_appears_when_asked_for),
		WITH_RUN(the_roofline_and_a_trace_appear_when_run),
		WITH_RUN(a_mixed_phase_appears_when_run),
		WITH_RUN(a_roofline_names_its_source),
		WITH_RUN(keep_going_appears_when_run),
		WITH_RUN(keep_going_fails_for_wrong_and_overdue_alone),
		WITH_RUN(what_was_not_measured_is_absent),
		WITH_RUN(a_good_run_has_no_problem),
		WITH_RUN(errors_misses_and_wrong_bytes_fail_a_run),
		WITH_RUN(reads_of_nothing_fail_a_run),
		WITH_RUN(misses_of_a_run_that_wrote_nothing_say_so),
		WITH_RUN(misses_after_a_server_ended_name_it),
		cmocka_unit_test(a_server_has_ended_when_it_is_down_or_its_client_closed),
		WITH_RUN(expected_misses_do_not_fail_a_run),
		WITH_RUN(a_strict_replay_must_have_the_expected_hits),
		WITH_RUN(a_whole_replay_is_compared_and_a_part_is_not),
		WITH_RUN(a_roofline_without_figure_fails_a_run),
		cmocka_unit_test(errors_are_counted_by_code_and_bounded),
		cmocka_unit_test(merging_adds_everything),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
