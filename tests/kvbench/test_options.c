/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c -- the defaults that are promised, and the combinations that are refused. */
#include <math.h>

#include <stdlib.h>

#include "kvbench/setup/options.h"
#include "kvclient/kvclient.h"
#include "tests/kvbench/check.h"

enum { ARGS_MAX = 16 };

/* Parse kv-bench with these arguments, the last of which is NULL. */
static int parse(struct bench_options *o, struct kv_error *err, ...)
{
	char *argv[ARGS_MAX + 2] = {"kv-bench"};
	int argc = 1;
	va_list args;
	va_start(args, err);
	while (argc <= ARGS_MAX && (argv[argc] = va_arg(args, char *)))
		argc++;
	va_end(args);
	return bench_options_parse(argc, argv, o, err);
}

static void check_refused(const char *part, struct kv_error *err, int rc)
{
	assert_int_equal(rc, -KV_EINVAL);
	check_contains(err->text, part);
}

static void defaults_are_those_promised(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, NULL), 0);
	assert_int_equal(o.load.num_workers, 16);
	assert_int_equal(o.load.num_clients, 4);
	assert_int_equal(o.load.num_threads, 0);
	assert_int_equal(o.load.num_keys, 1000);
	assert_int_equal(o.load.value_size, 65536);
	assert_int_equal(o.pace.repeat_reads, 10);
	assert_int_equal(o.client.buffer_mb, 64);
	assert_int_equal(o.pace.warmup, 100);
	assert_int_equal(o.load.ttl, 300);
	assert_int_equal(o.out.log_level, KV_LOG_WARN);
	assert_int_equal(o.client.timeout_ns, 0);
	assert_string_equal(o.target.provider, "auto");
	assert_int_equal(o.target.servers.count, 0);
	assert_int_equal(o.pace.duration_ns, 0);
	assert_int_equal(o.replay.order, BENCH_ORDER_STRICT);
	assert_int_equal(o.load.batch, 0);
	assert_int_equal(o.roofline.depth, 1);
	assert_int_equal(o.target.mode, KVC_MODE_AUTO);
	assert_null(o.out.json);
	assert_false(o.load.verify || o.out.quiet || o.roofline.run || o.load.mixed || o.load.no_checksum ||
		     o.out.config);
}

static void sizes_are_binary(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--value-size", "1MB", NULL), 0);
	assert_int_equal(o.load.value_size, 1 << 20);
	assert_int_equal(parse(&o, &err, "--value-size", "4k", NULL), 0);
	assert_int_equal(o.load.value_size, 4096);
}

static void sizes_and_patterns_are_of_runs_without_a_trace(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--value-sizes", "4KB:3,64KB", "--keys-pattern", "zipf:0.99", NULL), 0);
	assert_int_equal(o.load.value_size, 65536);
	assert_int_equal(o.load.sizes.count, 2);
	assert_int_equal(o.load.pattern.kind, BENCH_KEYS_ZIPF);
	check_refused("drop one", &err, parse(&o, &err, "--value-sizes", "4KB", "--value-size", "4KB", NULL));
	check_refused("--buffer-mb", &err, parse(&o, &err, "--value-sizes", "4KB,50MB", NULL));
	check_refused("--value-size", &err, parse(&o, &err, "--value-sizes", "4KB,8KB", "--roofline", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--trace", "f", "--value-sizes", "4KB,8KB", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--trace", "f", "--keys-pattern", "uniform", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--trace", "f", "--num-keys", "10", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--trace", "f", "--repeat-reads", "3", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--trace", "f", "--warmup", "0", NULL));
	check_refused("zipf:THETA", &err, parse(&o, &err, "--keys-pattern", "zipf", NULL));
}

static void options_without_effect_are_refused(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	check_refused("--local off", &err, parse(&o, &err, "--local-socket", "/s", "--local", "off", NULL));
	check_refused("--ttl", &err, parse(&o, &err, "--server", "a:1", "--no-write", "--ttl", "60", NULL));
	check_refused("--no-checksum", &err, parse(&o, &err, "--seal-key-file", "/k", "--no-checksum", NULL));
	assert_int_equal(parse(&o, &err, "--server", "a:1", "--no-write", "--ttl", "300", NULL), 0); /* the default */
}

static void slices_are_of_whole_words(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--slices", "32", NULL), 0);
	assert_int_equal(o.load.batch, 1);
	assert_int_equal(parse(&o, &err, "--slices", "32", "--async", "--value-sizes", "4KB,64KB", NULL), 0);
	assert_int_equal(o.load.batch, 0);
	assert_int_equal(parse(&o, &err, "--slices", "4", "--batch", "7", "--mixed", NULL), 0);
	assert_int_equal(o.load.batch, 7);
	check_refused("multiples of 24 bytes", &err, parse(&o, &err, "--slices", "3", NULL));
	check_refused("multiples of 256 bytes", &err,
		      parse(&o, &err, "--slices", "32", "--value-sizes", "4KB,1000", NULL));
	check_refused("--slices", &err, parse(&o, &err, "--slices", "4", "--trace", "f", NULL));
	check_refused("--slices", &err, parse(&o, &err, "--slices", "4", "--rate", "9", NULL));
	assert_int_equal(parse(&o, &err, "--slices", "4", "--mix", "1:1:1", NULL), 0);
}

static void loads_that_exclude_each_other_are_refused(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--mix", "90:5:5", "--rate", "10", "--arrivals", "poisson", "--repeat-runs",
			       "3", "--warmup-steady", "5", NULL),
			 0);
	assert_int_equal(o.load.mix.total, 100);
	assert_int_equal(o.pace.arrivals, BENCH_POISSON);
	assert_int_equal(parse(&o, &err, "--slo", "p99.9=500us", "--arrivals", "poisson", "--mix", "1:1:0", NULL), 0);
	assert_true(o.pace.aim.quantile > 0.9989 && o.pace.aim.quantile < 0.9991);
	assert_int_equal(o.pace.aim.limit_ns, 500000);
	assert_int_equal(parse(&o, &err, "--mix", "1:1:0", "--background-puts", NULL), 0);
	check_refused("--background-puts", &err, parse(&o, &err, "--mix", "1:0:1", "--background-puts", NULL));
	check_refused("GET:PUT:EXISTS", &err, parse(&o, &err, "--mix", "0:1:0", NULL));
	check_refused("GET:PUT:EXISTS", &err, parse(&o, &err, "--mix", "1:1", NULL));
	check_refused("GET:PUT:EXISTS", &err, parse(&o, &err, "--mix", "1:1:1:1", NULL));
	check_refused("GET:PUT:EXISTS", &err, parse(&o, &err, "--mix", "1001:1:1", NULL));
	assert_int_equal(parse(&o, &err, "--mix", "1:1:0", "--batch", "4", NULL), 0);
	check_refused("--async", &err, parse(&o, &err, "--mix", "1:1:0", "--async", NULL));
	check_refused("--rate", &err, parse(&o, &err, "--mix", "1:1:0", "--batch", "4", "--rate", "9", NULL));
	assert_int_equal(parse(&o, &err, "--rate", "100", "--ramp", "5s", NULL), 0);
	assert_int_equal(o.pace.ramp_ns, 5000000000);
	check_refused("--rate", &err, parse(&o, &err, "--ramp", "5s", NULL));
	check_refused("--rate", &err, parse(&o, &err, "--ramp", "5s", "--slo", "p99=2ms", NULL));
	check_refused("--value-sizes", &err, parse(&o, &err, "--model", "llama-3-8b", "--value-sizes", "4KB", NULL));
	check_refused("--mixed", &err, parse(&o, &err, "--mix", "1:1:0", "--mixed", NULL));
	check_refused("--no-write", &err, parse(&o, &err, "--mix", "1:1:0", "--server", "a:1", "--no-write", NULL));
	check_refused("--rate", &err, parse(&o, &err, "--arrivals", "poisson", NULL));
	assert_int_equal(parse(&o, &err, "--arrivals", "trace:f.csv", "--ramp", "5s", "--mix", "1:1:0", NULL), 0);
	assert_int_equal(o.pace.arrivals, BENCH_RECORDED);
	assert_string_equal(o.pace.arrivals_file, "f.csv");
	assert_int_equal(parse(&o, &err, "--arrivals", "trace:f.csv", "--slo", "p99=2ms", NULL), 0);
	check_refused("neither uniform, nor poisson, nor trace:FILE", &err,
		      parse(&o, &err, "--arrivals", "trace:", NULL));
	check_refused("neither uniform", &err, parse(&o, &err, "--arrivals", "exponential", "--rate", "9", NULL));
	check_refused("--trace has its own times", &err,
		      parse(&o, &err, "--arrivals", "trace:f", "--trace", "t", NULL));
	check_refused("--batch", &err, parse(&o, &err, "--arrivals", "trace:f", "--batch", "4", NULL));
	check_refused("--async", &err, parse(&o, &err, "--arrivals", "trace:f", "--async", NULL));
	check_refused("--slices", &err, parse(&o, &err, "--arrivals", "trace:f", "--slices", "4", NULL));
	check_refused("p99=2ms", &err, parse(&o, &err, "--slo", "99=2ms", NULL));
	check_refused("p99=2ms", &err, parse(&o, &err, "--slo", "p99", NULL));
	check_refused("allowed is 0 to 9223372036854775807", &err,
		      parse(&o, &err, "--seed", "9223372036854775808", NULL)); /* JSON has no more */
	check_refused("p99=2ms", &err, parse(&o, &err, "--slo", "p100=2ms", NULL));
	check_refused("p99=2ms", &err, parse(&o, &err, "--slo", "p99=0", NULL));
	/* Any percentile that samples can resolve. */
	assert_int_equal(parse(&o, &err, "--slo", "p99.99999=1s", NULL), 0);
	assert_true(fabs(o.pace.aim.quantile - 0.9999999) < 1e-12);
	assert_int_equal(parse(&o, &err, "--slo", "p0.5=1s", NULL), 0);
	assert_true(fabs(o.pace.aim.quantile - 0.005) < 1e-12);
	check_refused("p99=2ms", &err, parse(&o, &err, "--slo", "p0=1s", NULL));
	check_refused("p99=2ms", &err, parse(&o, &err, "--slo", "p99.99999999=1s", NULL));
	assert_int_equal(parse(&o, &err, "--mix", "1:1:1", "--keep-going", "--server", "a:1", "--duration", "5", NULL),
			 0);
	check_refused("--json and --raw name one file", &err, parse(&o, &err, "--json", "a", "--raw", "a", NULL));
	check_refused("--raw needs the name of a file", &err, parse(&o, &err, "--raw", "-", NULL));
	check_refused("--rate", &err, parse(&o, &err, "--slo", "p99=2ms", "--rate", "5", NULL));
	check_refused("--repeat-runs", &err, parse(&o, &err, "--slo", "p99=2ms", "--repeat-runs", "2", NULL));
	check_refused("--batch", &err, parse(&o, &err, "--slo", "p99=2ms", "--batch", "2", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--repeat-runs", "2", "--trace", "f", NULL));
	check_refused("--warmup-steady", &err, parse(&o, &err, "--warmup-steady", "101", NULL));
	check_refused("--warmup", &err, parse(&o, &err, "--warmup-steady", "5", "--warmup", "7", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--warmup-steady", "5", "--trace", "f", NULL));
}

static void servers_repeat_under_both_names(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--server", "10.0.0.1:50051", "--server-addr", "http://10.0.0.2:50052", NULL),
			 0);
	assert_int_equal(o.target.servers.count, 2);
	assert_string_equal(o.target.servers.item[1], "http://10.0.0.2:50052");
}

static void a_bad_address_is_a_usage_error(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--server", "host:notaport", NULL), -KV_EINVAL);
}

static void an_unknown_option_is_a_usage_error(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--num-wrokers", "4", NULL), -KV_EINVAL);
}

static void a_bad_size_names_the_option(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	check_refused("value-size", &err, parse(&o, &err, "--value-size", "potato", NULL));
}

static void options_of_an_own_server_need_no_other_server(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	check_refused("--memory-mb", &err, parse(&o, &err, "--server", "a:1", "--memory-mb", "64", NULL));
	check_refused("--server-threads", &err, parse(&o, &err, "--server", "a:1", "--server-threads", "2", NULL));
	check_refused("--eviction", &err, parse(&o, &err, "--server", "a:1", "--eviction", "lru", NULL));
	check_refused("--psk-file", &err, parse(&o, &err, "--psk-file", "x", NULL));
}

static void copies_are_one_two_or_those_of_what_is_hot(void **state)
{
	static const char *const wrong[] = {"0", "3", "hott", ""};
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, NULL), 0);
	assert_int_equal(o.client.copies, BENCH_COPIES_ONE);
	assert_int_equal(parse(&o, &err, "--copies", "2", "--servers", "2", NULL), 0);
	assert_int_equal(o.client.copies, BENCH_COPIES_TWO);
	assert_int_equal(parse(&o, &err, "--copies", "hot", "--trace", "f", "--servers", "2", NULL), 0);
	assert_int_equal(o.client.copies, BENCH_COPIES_HOT);
	assert_int_equal(parse(&o, &err, "--copies", "hot", "--server", "a:1", NULL), 0); /* it may have members */
	check_refused("--copies 2 needs a second server", &err, parse(&o, &err, "--copies", "2", NULL));
	check_refused("--copies hot needs a second server", &err, parse(&o, &err, "--copies", "hot", NULL));
	check_refused("at the rate of --repair-mb", &err,
		      parse(&o, &err, "--copies", "hot", "--server", "a:1", "--repair-mb", "0", NULL));
	assert_int_equal(parse(&o, &err, "--copies", "2", "--server", "a:1", "--repair-mb", "0", NULL), 0);
	for (unsigned i = 0; i < KV_COUNT(wrong); i++)
		check_refused("1, 2 or hot", &err, parse(&o, &err, "--copies", wrong[i], "--servers", "2", NULL));
}

static void mixed_needs_both_phases(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--mixed", "--batch", "4", NULL), 0);
	assert_true(o.load.mixed);
	assert_int_equal(parse(&o, &err, "--mixed", "--roofline", NULL), 0);
	check_refused("--mixed", &err, parse(&o, &err, "--mixed", "--trace", "f", NULL));
	check_refused("--no-write", &err, parse(&o, &err, "--mixed", "--server", "a:1", "--no-write", NULL));
	check_refused("--keep-going", &err,
		      parse(&o, &err, "--mixed", "--keep-going", "--server", "a:1", "--duration", "5", NULL));
}

static void batch_is_for_plain_reads(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--batch", "16", NULL), 0);
	assert_int_equal(o.load.batch, 16);
	check_refused("--batch", &err, parse(&o, &err, "--batch", "2", "--roofline", NULL));
	check_refused("--mode", &err, parse(&o, &err, "--mode", "pull", "--roofline", NULL));
	check_refused("--batch", &err, parse(&o, &err, "--batch", "2", "--trace", "f", NULL));
	check_refused("--batch", &err,
		      parse(&o, &err, "--batch", "2", "--keep-going", "--server", "a:1", "--duration", "5", NULL));
	check_refused("--rate", &err, parse(&o, &err, "--batch", "2", "--rate", "10", NULL));
	check_refused("batch", &err, parse(&o, &err, "--batch", "1025", NULL));
}

static void the_breakdown_is_of_single_gets(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, NULL), 0);
	assert_false(o.out.breakdown);
	assert_int_equal(parse(&o, &err, "--breakdown", NULL), 0);
	assert_true(o.out.breakdown);
	check_refused("--batch", &err, parse(&o, &err, "--breakdown", "--batch", "2", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--breakdown", "--trace", "f", NULL));
}

static void async_is_for_plain_writes_and_reads(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, NULL), 0);
	assert_false(o.load.async);
	assert_int_equal(o.load.submitters, 2);
	assert_int_equal(parse(&o, &err, "--async", "--batch", "4", "--submitters", "0", "--verify", NULL), 0);
	assert_true(o.load.async);
	assert_int_equal(o.load.submitters, 0);
	assert_int_equal(parse(&o, &err, "--async", "--server", "a:1", "--no-write", "--duration", "5", NULL), 0);
	check_refused("--async", &err, parse(&o, &err, "--submitters", "4", NULL));
	check_refused("--trace", &err, parse(&o, &err, "--async", "--trace", "f", NULL));
	check_refused("--mixed", &err, parse(&o, &err, "--async", "--mixed", NULL));
	check_refused("--roofline", &err, parse(&o, &err, "--async", "--roofline", NULL));
	check_refused("--keep-going", &err,
		      parse(&o, &err, "--async", "--keep-going", "--server", "a:1", "--duration", "5", NULL));
	check_refused("--rate", &err, parse(&o, &err, "--async", "--rate", "10", NULL));
	check_refused("--breakdown", &err, parse(&o, &err, "--async", "--breakdown", NULL));
	check_refused("--num-workers 5", &err, parse(&o, &err, "--async", "--submitters", "5", "-w", "4", NULL));
	check_refused("submitters", &err, parse(&o, &err, "--async", "--submitters", "65", NULL));
	assert_int_equal(parse(&o, &err, "--async", "--submitters", "0", "--no-threads", NULL), 0);
	assert_true(o.load.no_threads);
	check_refused("--async --submitters 0", &err, parse(&o, &err, "--no-threads", NULL));
	check_refused("--async --submitters 0", &err, parse(&o, &err, "--async", "--no-threads", NULL));
	check_refused("--num-threads", &err,
		      parse(&o, &err, "--async", "--submitters", "0", "--no-threads", "--num-threads", "2", NULL));
}

static void no_write_needs_a_server_with_keys(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--server", "a:1", "--no-write", NULL), 0);
	assert_true(o.load.no_write);
	check_refused("--no-write", &err, parse(&o, &err, "--no-write", NULL));
	check_refused("--no-write", &err, parse(&o, &err, "--server", "a:1", "--trace", "f", "--no-write", NULL));
}

static void roofline_depth_needs_the_roofline(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(parse(&o, &err, "--roofline", "--roofline-depth", "64", NULL), 0);
	check_refused("--roofline", &err, parse(&o, &err, "--roofline-depth", "64", NULL));
	check_refused("roofline-depth", &err, parse(&o, &err, "--roofline", "--roofline-depth", "0", NULL));
	assert_int_equal(parse(&o, &err, "--server", "a:1", "--roofline-file", "f", NULL), 0);
	check_refused("--roofline-file", &err, parse(&o, &err, "--server", "a:1", "--roofline", NULL));
	check_refused("--roofline-file", &err, parse(&o, &err, "--roofline", "--roofline-file", "f", NULL));
}

static void certificates_belong_together(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	check_refused("--ca", &err, parse(&o, &err, "--server", "a:1", "--cert", "c", "--key", "k", NULL));
	check_refused(
		"--psk-file", &err,
		parse(&o, &err, "--server", "a:1", "--cert", "c", "--key", "k", "--ca", "a", "--psk-file", "p", NULL));
}

static void trace_options_need_a_trace_and_exclude_others(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	check_refused("--trace-speed", &err, parse(&o, &err, "--trace-speed", "2", NULL));
	check_refused("--trace-order", &err, parse(&o, &err, "--trace-order", "relaxed", NULL));
	check_refused("--rate", &err, parse(&o, &err, "--trace", "f", "--rate", "10", NULL));
	check_refused("--roofline", &err, parse(&o, &err, "--trace", "f", "--roofline", NULL));
	check_refused("--trace-speed", &err, parse(&o, &err, "--trace", "f", "--trace-speed", "-1", NULL));
	assert_int_equal(parse(&o, &err, "--trace", "f", "--trace-speed", "2.5", "--trace-order", "relaxed", NULL), 0);
	assert_int_equal(o.replay.order, BENCH_ORDER_RELAXED);
}

/* The names are in base, which does not know the enums. */
static void names_are_in_the_order_of_their_enums(void **state)
{
	static const struct {
		const char *option, *name;
		int value;
	} want[] = {
		{"--mode", "auto", KVC_MODE_AUTO},    {"--mode", "push", KVC_MODE_PUSH},
		{"--mode", "pull", KVC_MODE_PULL},    {"--numa", "auto", KVC_NUMA_AUTO},
		{"--numa", "off", KVC_NUMA_OFF},      {"--log-level", "off", KV_LOG_OFF},
		{"--log-level", "warn", KV_LOG_WARN}, {"--log-level", "debug", KV_LOG_DEBUG},
	};
	struct bench_options o;
	struct kv_error err;

	(void)state;
	for (unsigned i = 0; i < KV_COUNT(want); i++) {
		assert_int_equal(parse(&o, &err, want[i].option, want[i].name, NULL), 0);
		assert_int_equal(want[i].option[2] == 'm'   ? o.target.mode
				 : want[i].option[2] == 'n' ? o.target.numa
							    : o.out.log_level,
				 want[i].value);
	}
}

static void keep_going_needs_a_server_and_a_duration(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	check_refused("--server", &err, parse(&o, &err, "--keep-going", "--duration", "5", NULL));
	check_refused("--duration", &err, parse(&o, &err, "--keep-going", "--server", "a:1", NULL));
	check_refused("--trace", &err,
		      parse(&o, &err, "--keep-going", "--server", "a:1", "--duration", "5", "--trace", "f", NULL));
	check_refused("--roofline", &err,
		      parse(&o, &err, "--keep-going", "--server", "a:1", "--duration", "5", "--roofline", NULL));
	assert_int_equal(parse(&o, &err, "--keep-going", "--server", "a:1", "--duration", "5", NULL), 0);
	assert_true(o.load.keep_going);
}

static void a_value_must_fit_the_buffer(void **state)
{
	struct bench_options o;
	struct kv_error err;
	(void)state;
	check_refused("--buffer-mb 128", &err, parse(&o, &err, "--value-size", "50MB", NULL));
	assert_int_equal(parse(&o, &err, "--value-size", "50MB", "--buffer-mb", "128", NULL), 0);
	assert_int_equal(parse(&o, &err, "--value-size", "32MB", NULL), 0);
	check_refused("--buffer-mb 128", &err, parse(&o, &err, "--value-size", "33554433", NULL));
}

static void every_row_has_help_and_default_that_parse(void **state)
{
	struct bench_options o = {0};
	struct kv_error err;
	(void)state;
	kv_opt_defaults(bench_options_table, &o);
	for (const struct kv_opt *row = bench_options_table; row->name; row++) {
		assert_non_null(row->help);
		if (row->def)
			assert_int_equal(kv_opt_set(bench_options_table, row->name, row->def, &o, &err), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_promised),
		cmocka_unit_test(sizes_are_binary),
		cmocka_unit_test(sizes_and_patterns_are_of_runs_without_a_trace),
		cmocka_unit_test(options_without_effect_are_refused),
		cmocka_unit_test(slices_are_of_whole_words),
		cmocka_unit_test(loads_that_exclude_each_other_are_refused),
		cmocka_unit_test(servers_repeat_under_both_names),
		cmocka_unit_test(a_bad_address_is_a_usage_error),
		cmocka_unit_test(an_unknown_option_is_a_usage_error),
		cmocka_unit_test(a_bad_size_names_the_option),
		cmocka_unit_test(options_of_an_own_server_need_no_other_server),
		cmocka_unit_test(copies_are_one_two_or_those_of_what_is_hot),
		cmocka_unit_test(mixed_needs_both_phases),
		cmocka_unit_test(batch_is_for_plain_reads),
		cmocka_unit_test(the_breakdown_is_of_single_gets),
		cmocka_unit_test(async_is_for_plain_writes_and_reads),
		cmocka_unit_test(no_write_needs_a_server_with_keys),
		cmocka_unit_test(roofline_depth_needs_the_roofline),
		cmocka_unit_test(certificates_belong_together),
		cmocka_unit_test(trace_options_need_a_trace_and_exclude_others),
		cmocka_unit_test(names_are_in_the_order_of_their_enums),
		cmocka_unit_test(keep_going_needs_a_server_and_a_duration),
		cmocka_unit_test(a_value_must_fit_the_buffer),
		cmocka_unit_test(every_row_has_help_and_default_that_parse),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
