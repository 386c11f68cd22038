/* SPDX-License-Identifier: Apache-2.0 */
/* test_opt.c -- one row per option gives the parse, the help and the dump. Every mistake gets one sentence. */
#include "tests/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORDS_MAX = 80 };

struct conf {
	bool verbose, quiet;
	uint32_t workers;
	uint64_t seed, chunk, timeout, floor;
	double rate, ratio;
	const char *server;
	struct kv_opt_strings peers, tags;
	int mode;
};

static const char *const modes[] = {"auto", "push", "pull", NULL};

static const struct kv_opt table[] = {
	{.name = "verbose",
	 .letter = 'v',
	 .type = KV_OPT_FLAG,
	 .offset = offsetof(struct conf, verbose),
	 .help = "say more",
	 .group = "General:"},
	{.name = "quiet",
	 .letter = 'q',
	 .type = KV_OPT_FLAG,
	 .offset = offsetof(struct conf, quiet),
	 .help = "say less"},
	{.name = "num-workers",
	 .alias = "threads",
	 .letter = 'n',
	 .type = KV_OPT_U32,
	 .offset = offsetof(struct conf, workers),
	 .metavar = "N",
	 .def = "32",
	 .help = "how many workers run",
	 .min = 1,
	 .max = 4096},
	{.name = "num-seed",
	 .type = KV_OPT_U64,
	 .offset = offsetof(struct conf, seed),
	 .metavar = "N",
	 .help = "the seed"},
	{.name = "chunk-size",
	 .letter = 'c',
	 .type = KV_OPT_SIZE,
	 .offset = offsetof(struct conf, chunk),
	 .metavar = "SIZE",
	 .def = "64KB",
	 .help = "bytes per operation",
	 .min = 4096,
	 .max = 1 << 30,
	 .group = "Transfer:"},
	{.name = "timeout",
	 .type = KV_OPT_DURATION,
	 .offset = offsetof(struct conf, timeout),
	 .def = "5s",
	 .help = "deadline of a call"},
	{.name = "floor",
	 .type = KV_OPT_U64,
	 .offset = offsetof(struct conf, floor),
	 .def = "7",
	 .help = "at least",
	 .min = 5},
	{.name = "rate", .type = KV_OPT_DOUBLE, .offset = offsetof(struct conf, rate), .help = "operations per second"},
	{.name = "ratio",
	 .type = KV_OPT_DOUBLE,
	 .offset = offsetof(struct conf, ratio),
	 .def = "0.5",
	 .help = "a share",
	 .max = 1},
	{.name = "server",
	 .letter = 's',
	 .type = KV_OPT_STRING,
	 .offset = offsetof(struct conf, server),
	 .metavar = "HOST:PORT",
	 .help = "where"},
	{.name = "peer", .type = KV_OPT_STRINGS, .offset = offsetof(struct conf, peers), .help = "may repeat"},
	{.name = "tag",
	 .type = KV_OPT_STRINGS,
	 .offset = offsetof(struct conf, tags),
	 .def = "none",
	 .help = "may repeat"},
	{.name = "mode",
	 .type = KV_OPT_CHOICE,
	 .offset = offsetof(struct conf, mode),
	 .def = "push",
	 .help = "who moves the bytes",
	 .choices = modes},
	{0},
};

static const struct kv_opt_program program = {.name = "kv-test",
					      .usage_args = "[KEY...]",
					      .about = "About this.",
					      .epilogue = "And this at the end.",
					      .args_max = 2};

static struct conf conf;
static struct kv_opt_strings args;
static struct kv_error err;

/* parse -- run a command line of words; NULL ends them. */
static int parse(const char *first, ...)
{
	char *argv[WORDS_MAX] = {(char *)(uintptr_t)"kv-test"};
	int argc = 1;
	va_list ap;
	va_start(ap, first);
	for (const char *word = first; word; word = va_arg(ap, const char *))
		argv[argc++] = (char *)(uintptr_t)word;
	va_end(ap);
	memset(&conf, 0xee, sizeof(conf));
	memset(&err, 0, sizeof(err));
	return kv_opt_parse(&program, table, argc, argv, &conf, &args, &err);
}

static void check_bad(int rc, const char *part)
{
	assert_int_equal(rc, -KV_EINVAL);
	assert_int_equal(err.code, -KV_EINVAL);
	check_contains(err.text, part);
	assert_null(strchr(err.text, '\n'));
}

static void defaults_come_from_the_table(void **state)
{
	(void)state;
	assert_int_equal(parse(NULL), 0);
	assert_false(conf.verbose);
	assert_int_equal(conf.workers, 32);
	assert_int_equal(conf.seed, 0);
	assert_int_equal(conf.chunk, 65536);
	assert_true(conf.timeout == 5000000000u);
	assert_true(conf.rate == 0 && conf.ratio == 0.5);
	assert_null(conf.server);
	assert_int_equal(conf.peers.count, 0);
	assert_int_equal(conf.tags.count, 1);
	assert_string_equal(conf.tags.item[0], "none");
	assert_int_equal(conf.mode, 1);
	assert_int_equal(args.count, 0);
}

static void every_type_is_set(void **state)
{
	(void)state;
	assert_int_equal(parse("-v", "-n8", "--num-seed=0xff", "-c", "1MiB", "--timeout", "250ms", "--rate=1.5e3",
			       "--ratio=1", "--server", "h:1", "--peer=a", "--peer", "b", "--mode=pull",
			       "--floor=99999999999", NULL),
			 0);
	assert_true(conf.verbose);
	assert_false(conf.quiet);
	assert_int_equal(conf.workers, 8);
	assert_int_equal(conf.seed, 255);
	assert_int_equal(conf.chunk, 1 << 20);
	assert_int_equal(conf.timeout, 250000000);
	assert_true(conf.rate == 1500 && conf.ratio == 1);
	assert_string_equal(conf.server, "h:1");
	assert_int_equal(conf.peers.count, 2);
	assert_string_equal(conf.peers.item[0], "a");
	assert_string_equal(conf.peers.item[1], "b");
	assert_int_equal(conf.mode, 2);
	assert_true(conf.floor == 99999999999u);
}

static void aliases_and_unique_prefixes_work(void **state)
{
	(void)state;
	assert_int_equal(parse("--threads=3", NULL), 0);
	assert_int_equal(conf.workers, 3);
	assert_int_equal(parse("--num-w=4", NULL), 0);
	assert_int_equal(conf.workers, 4);
}

static void letters_cluster(void **state)
{
	(void)state;
	assert_int_equal(parse("-vqn", "9", NULL), 0);
	assert_true(conf.verbose && conf.quiet);
	assert_int_equal(conf.workers, 9);
}

static void the_last_one_wins(void **state)
{
	(void)state;
	assert_int_equal(parse("-n1", "-n2", "--server=a", "--server=b", NULL), 0);
	assert_int_equal(conf.workers, 2);
	assert_string_equal(conf.server, "b");
}

static void the_users_items_replace_the_default_one(void **state)
{
	(void)state;
	assert_int_equal(parse("--tag=x", "--tag=none", NULL), 0);
	assert_int_equal(conf.tags.count, 2);
	assert_string_equal(conf.tags.item[0], "x");
}

static void positional_arguments_are_collected(void **state)
{
	(void)state;
	assert_int_equal(parse("one", "-v", "--", "-v", NULL), 0);
	assert_true(conf.verbose);
	assert_int_equal(args.count, 2);
	assert_string_equal(args.item[0], "one");
	assert_string_equal(args.item[1], "-v");
}

static void too_many_arguments_are_refused(void **state)
{
	(void)state;
	check_bad(parse("one", "two", "three", NULL), "one argument too many: 'three'; kv-test takes at most 2");
}

static void arguments_are_refused_where_none_belong(void **state)
{
	(void)state;
	const struct kv_opt_program none = {.name = "kv-none", .about = "x"};
	char *argv[] = {(char *)(uintptr_t)"kv-none", (char *)(uintptr_t)"stray", NULL};
	check_bad(kv_opt_parse(&none, table, 2, argv, &conf, NULL, &err), "unexpected argument 'stray'");
}

static void unknown_options_are_named(void **state)
{
	(void)state;
	check_bad(parse("--num-wrokers=3", NULL), "unknown option --num-wrokers; did you mean --num-workers?");
	assert_null(strstr(err.text, "--help")); /* the program says that */
	check_bad(parse("-x", NULL), "unknown option -x");
	assert_null(strstr(err.text, "--help"));
	check_bad(parse("-vxq", NULL), "unknown option -x");
	check_bad(parse("-vqx", NULL), "unknown option -x");
	check_bad(parse("key", "--what", "-v", NULL), "unknown option --what");
	check_bad(parse("--server", "--odd", "-x", NULL), "unknown option -x");
	check_bad(parse("-v", "--nope", "--server", "a", NULL), "unknown option --nope");
}

static void ambiguous_options_are_named(void **state)
{
	(void)state;
	check_bad(parse("--num=3", NULL), "option --num is ambiguous");
}

static void missing_and_surplus_values_are_named(void **state)
{
	(void)state;
	check_bad(parse("--server", NULL), "option --server needs a value");
	check_bad(parse("-v", "-n", NULL), "option -n needs a value");
	check_bad(parse("-vn", NULL), "option -n needs a value");
	check_bad(parse("--verbose=yes", NULL), "option --verbose takes no value");
}

static void bad_values_are_named_with_what_is_allowed(void **state)
{
	(void)state;
	check_bad(parse("-n", "many", NULL), "--num-workers: 'many' is not a whole number");
	check_bad(parse("--threads", "0", NULL), "--num-workers: 0 is out of range; allowed is 1 to 4096");
	check_bad(parse("-n", "-1", NULL), "--num-workers: '-1' is not a whole number");
	check_bad(parse("-n", "18446744073709551616", NULL),
		  "--num-workers: 18446744073709551616 is too large; at most");
	check_bad(parse("-c", "12x", NULL), "--chunk-size: '12x' is not a size");
	check_bad(parse("-c", "1", NULL), "--chunk-size: 1 is out of range; allowed is 4KiB to 1GiB");
	check_bad(parse("--timeout=soon", NULL), "--timeout: 'soon' is not a duration");
	check_bad(parse("--rate=fast", NULL), "--rate: 'fast' is not a number");
	check_bad(parse("--rate=nan", NULL), "is not a number");
	check_bad(parse("--rate=1e999", NULL), "is not a number");
	check_bad(parse("--ratio=1.01", NULL), "--ratio: 1.01 is out of range; allowed is 0 to 1");
	check_bad(parse("--ratio=-0.1", NULL), "out of range");
	check_bad(parse("--floor=4", NULL), "--floor: 4 is too small; it must be at least 5");
	check_bad(parse("--mode=psh", NULL), "--mode: 'psh' is not one of the choices: auto, push or pull");
	check_bad(parse("--num-seed=18446744073709551616", NULL), "--num-seed");
}

static void a_32_bit_number_without_a_range_has_one(void **state)
{
	(void)state;
	struct {
		uint32_t n, guard;
	} s = {0, 0x5a5a5a5a};
	const struct kv_opt rows[] = {{.name = "n", .type = KV_OPT_U32, .offset = 0}, {0}};
	assert_int_equal(kv_opt_set(rows, "n", "4294967295", &s, &err), 0);
	assert_int_equal(s.n, UINT32_MAX);
	check_bad(kv_opt_set(rows, "n", "4294967296", &s, &err), "0 to 4294967295");
	assert_int_equal(s.guard, 0x5a5a5a5a);
}

static void repeats_are_bounded(void **state)
{
	(void)state;
	kv_opt_defaults(table, &conf);
	for (int i = 0; i < KV_OPT_STRINGS_MAX; i++)
		assert_int_equal(kv_opt_set(table, "peer", "x", &conf, &err), 0);
	check_bad(kv_opt_set(table, "peer", "x", &conf, &err), "more than 64 times");
	assert_int_equal(conf.peers.count, KV_OPT_STRINGS_MAX);
}

static void a_refused_value_changes_nothing(void **state)
{
	(void)state;
	kv_opt_defaults(table, &conf);
	struct conf before = conf;
	assert_int_equal(kv_opt_set(table, "num-workers", "5000", &conf, NULL), -KV_EINVAL);
	assert_int_equal(kv_opt_set(table, "mode", "none", &conf, NULL), -KV_EINVAL);
	assert_int_equal(kv_opt_set(table, "verbose", "maybe", &conf, NULL), -KV_EINVAL);
	assert_int_equal(kv_opt_set(table, "server", NULL, &conf, NULL), -KV_EINVAL);
	assert_int_equal(kv_opt_set(table, "absent", "1", &conf, NULL), -KV_EINVAL);
	assert_memory_equal(&before, &conf, sizeof(conf));
}

static void set_takes_what_format_gives(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	static struct conf a, b;
	kv_opt_defaults(table, &a);
	kv_opt_defaults(table, &b);
	for (int round = 0; round < 2000; round++) {
		a.verbose = kv_prng_next(&p) & 1;
		a.workers = 1 + (uint32_t)kv_prng_below(&p, 4096);
		a.seed = kv_prng_next(&p) >> kv_prng_below(&p, 64);
		a.chunk = 4096 + (kv_prng_below(&p, 1 << 20) << kv_prng_below(&p, 10));
		a.timeout = kv_prng_next(&p) >> kv_prng_below(&p, 64);
		a.rate = (double)kv_prng_next(&p) / (double)(1 + kv_prng_below(&p, 1000));
		a.mode = (int)kv_prng_below(&p, 3);
		for (const struct kv_opt *row = table; row->name; row++) {
			char text[64];
			if (row->type == KV_OPT_STRING || row->type == KV_OPT_STRINGS)
				continue;
			kv_opt_format(row, &a, text, sizeof(text));
			if (kv_opt_set(table, row->name, text, &b, &err) != 0)
				fail_msg("%s = '%s': %s", row->name, text, err.text);
		}
		assert_true(a.verbose == b.verbose && a.workers == b.workers && a.seed == b.seed && a.chunk == b.chunk);
		assert_true(a.timeout == b.timeout && a.rate == b.rate && a.mode == b.mode);
	}
}

static void values_print_in_their_largest_exact_unit(void **state)
{
	(void)state;
	char buf[64];
	assert_int_equal(parse("-c", "1536K", "--timeout=1500us", "--peer=a", "--peer=b", NULL), 0);
	assert_string_equal(kv_opt_format(&table[4], &conf, buf, sizeof(buf)), "1536KiB");
	assert_string_equal(kv_opt_format(&table[5], &conf, buf, sizeof(buf)), "1500us");
	assert_string_equal(kv_opt_format(&table[10], &conf, buf, sizeof(buf)), "a,b");
	assert_string_equal(kv_opt_format(&table[9], &conf, buf, sizeof(buf)), "");
	assert_string_equal(kv_opt_format(&table[10], &conf, buf, 3), "a,");
}

static void the_dump_has_every_row(void **state)
{
	(void)state;
	char *text = NULL;
	size_t len = 0;
	assert_int_equal(parse("-v", "--peer=a", "--peer=b", "--server=h:1", NULL), 0);
	FILE *f = open_memstream(&text, &len);
	kv_opt_dump(table, &conf, f);
	fclose(f);
	assert_string_equal(text, "verbose = true\nquiet = false\nnum-workers = 32\nnum-seed = 0\nchunk-size = 64KiB\n"
				  "timeout = 5s\nfloor = 7\nrate = 0\nratio = 0.5\nserver = h:1\npeer = a\npeer = b\n"
				  "tag = none\nmode = push\n");
	free(text);
}

/* stdout_of -- capture the output of a command line of one word. Returns the result of kv_opt_parse. */
static int stdout_of(const char *word, char *buf, size_t cap)
{
	FILE *f = tmpfile();
	assert_non_null(f);
	fflush(stdout);
	int saved = dup(STDOUT_FILENO);
	dup2(fileno(f), STDOUT_FILENO);
	int rc = parse(word, "-x", NULL);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(f);
	size_t n = fread(buf, 1, cap - 1, f);
	buf[n] = '\0';
	fclose(f);
	return rc;
}

static void help_shows_headings_defaults_and_choices(void **state)
{
	(void)state;
	static char text[16384];
	assert_int_equal(stdout_of("--help", text, sizeof(text)), 1);
	check_contains(text, "Usage: kv-test [OPTION...] [KEY...]");
	check_contains(text, "About this.");
	check_contains(text, "\n General:\n");
	check_contains(text, "\n Transfer:\n");
	check_contains(text, "-n, --num-workers=N, --threads=N");
	check_contains(text, "(default: 32)");
	check_contains(text, "(default: 64KB)");
	check_contains(text, "auto, push or pull");
	check_contains(text, "--version");
	check_contains(text, "And this at the end.");
	assert_true(strstr(text, "General:") < strstr(text, "--verbose"));
	assert_true(strstr(text, "--verbose") < strstr(text, "Transfer:"));
	assert_true(strstr(text, "Transfer:") < strstr(text, "--chunk-size"));
	assert_int_equal(stdout_of("-h", text, sizeof(text)), 1);
	check_contains(text, "Usage:");
}

static void version_prints_name_and_number(void **state)
{
	(void)state;
	char text[256], name[32], end = 0;
	unsigned major, minor, patch;
	assert_int_equal(stdout_of("--version", text, sizeof(text)), 1);
	assert_int_equal(sscanf(text, "%31s %u.%u.%u%c", name, &major, &minor, &patch, &end), 5);
	assert_string_equal(name, "kv-test");
	assert_int_equal(end, '\n');
	assert_int_equal(stdout_of("-V", text, sizeof(text)), 1);
}

static void a_row_may_take_the_letter_of_help(void **state)
{
	(void)state;
	struct {
		const char *host;
	} s;
	const struct kv_opt rows[] = {{.name = "host", .letter = 'h', .type = KV_OPT_STRING, .offset = 0}, {0}};
	char *argv[] = {(char *)(uintptr_t)"kv-test", (char *)(uintptr_t)"-h", (char *)(uintptr_t)"node", NULL};
	assert_int_equal(kv_opt_parse(&program, rows, 3, argv, &s, &args, &err), 0);
	assert_string_equal(s.host, "node");
}

static void errors_may_go_nowhere(void **state)
{
	(void)state;
	char *argv[] = {(char *)(uintptr_t)"kv-test", (char *)(uintptr_t)"--bad", NULL};
	assert_int_equal(kv_opt_parse(&program, table, 2, argv, &conf, &args, NULL), -KV_EINVAL);
}

static void an_empty_command_line_is_the_defaults(void **state)
{
	(void)state;
	char *argv[] = {NULL};
	assert_int_equal(kv_opt_parse(&program, table, 0, argv, &conf, &args, &err), 0);
	assert_int_equal(conf.workers, 32);
}

struct counted {
	uint32_t ttl_s, slow_ms, spin_us;
	uint64_t memory_mb, wait_ns, size;
};

static const struct kv_opt counted_table[] = {
	{.name = "ttl",
	 .type = KV_OPT_U32,
	 .unit = KV_OPT_SECONDS,
	 .offset = offsetof(struct counted, ttl_s),
	 .max = 3600},
	{.name = "slow-ms", .type = KV_OPT_U32, .unit = KV_OPT_MS, .offset = offsetof(struct counted, slow_ms)},
	{.name = "spin-us", .type = KV_OPT_U32, .unit = KV_OPT_US, .offset = offsetof(struct counted, spin_us)},
	{.name = "memory-mb",
	 .type = KV_OPT_U64,
	 .unit = KV_OPT_MIB,
	 .offset = offsetof(struct counted, memory_mb),
	 .min = 1,
	 .max = 4096},
	{.name = "wait", .type = KV_OPT_DURATION, .offset = offsetof(struct counted, wait_ns)},
	{.name = "size", .type = KV_OPT_SIZE, .offset = offsetof(struct counted, size)},
	{.name = NULL},
};

/* Every time takes 90s and 1m, every size 64KB, whatever unit its number counts. */
static void times_and_sizes_parse_alike_in_every_option(void **state)
{
	(void)state;
	static const struct {
		const char *name, *text;
		uint64_t want;
	} rows[] = {
		{"ttl", "90", 90},
		{"ttl", "90s", 90},
		{"ttl", "1m", 60},
		{"ttl", "1.5m", 90},
		{"ttl", "2000ms", 2},
		{"slow-ms", "20", 20},
		{"slow-ms", "1m", 60000},
		{"slow-ms", "500ms", 500},
		{"slow-ms", "90s", 90000},
		{"spin-us", "50", 50},
		{"spin-us", "1ms", 1000},
		{"memory-mb", "64", 64},
		{"memory-mb", "2GiB", 2048},
		{"memory-mb", "1048576KB", 1024},
		{"wait", "1m", 60000000000u},
		{"wait", "90s", 90000000000u},
		{"size", "64KB", 65536},
	};
	static const char *const bad[][2] = {{"ttl", "500ms"},      {"ttl", "2h"},        {"ttl", "soon"},
					     {"slow-ms", "1us"},    {"slow-ms", "64KB"},  {"memory-mb", "64KB"},
					     {"memory-mb", "1m30"}, {"memory-mb", "8G"},  {"slow-ms", "-1"},
					     {"slow-ms", "50d"},    {"slow-ms", "1.5"},   {"slow-ms", "20 "},
					     {"spin-us", "1.0"},    {"memory-mb", "2.0"}, {"spin-us", "0.5"},
					     {"memory-mb", "1.5"},  {"ttl", ""}};
	struct counted c;
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		kv_opt_defaults(counted_table, &c);
		if (kv_opt_set(counted_table, rows[i].name, rows[i].text, &c, &err) != 0)
			fail_msg("--%s %s: %s", rows[i].name, rows[i].text, err.text);
		assert_true(c.ttl_s + c.slow_ms + c.spin_us + c.memory_mb + c.wait_ns + c.size == rows[i].want);
	}
	kv_opt_defaults(counted_table, &c);
	for (size_t i = 0; i < KV_COUNT(bad); i++)
		assert_int_equal(kv_opt_set(counted_table, bad[i][0], bad[i][1], &c, &err), -KV_EINVAL);
	assert_true(c.ttl_s + c.slow_ms + c.spin_us + c.memory_mb + c.wait_ns + c.size == 0);
	kv_opt_set(counted_table, "ttl", "500ms", &c, &err);
	assert_string_equal(err.text, "--ttl: '500ms' is not a whole number of seconds");
	kv_opt_set(counted_table, "slow-ms", "1.5", &c, &err); /* not 1.5 s, as a duration without a unit would be */
	assert_string_equal(err.text, "--slow-ms: '1.5' has no unit, and is not a whole number of milliseconds");
	kv_opt_set(counted_table, "memory-mb", "8G", &c, &err);
	assert_non_null(strstr(err.text, "1MiB to 4096MiB"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_come_from_the_table),
		cmocka_unit_test(every_type_is_set),
		cmocka_unit_test(aliases_and_unique_prefixes_work),
		cmocka_unit_test(letters_cluster),
		cmocka_unit_test(the_last_one_wins),
		cmocka_unit_test(the_users_items_replace_the_default_one),
		cmocka_unit_test(positional_arguments_are_collected),
		cmocka_unit_test(too_many_arguments_are_refused),
		cmocka_unit_test(arguments_are_refused_where_none_belong),
		cmocka_unit_test(unknown_options_are_named),
		cmocka_unit_test(ambiguous_options_are_named),
		cmocka_unit_test(missing_and_surplus_values_are_named),
		cmocka_unit_test(bad_values_are_named_with_what_is_allowed),
		cmocka_unit_test(a_32_bit_number_without_a_range_has_one),
		cmocka_unit_test(repeats_are_bounded),
		cmocka_unit_test(a_refused_value_changes_nothing),
		cmocka_unit_test(set_takes_what_format_gives),
		cmocka_unit_test(values_print_in_their_largest_exact_unit),
		cmocka_unit_test(the_dump_has_every_row),
		cmocka_unit_test(help_shows_headings_defaults_and_choices),
		cmocka_unit_test(version_prints_name_and_number),
		cmocka_unit_test(a_row_may_take_the_letter_of_help),
		cmocka_unit_test(errors_may_go_nowhere),
		cmocka_unit_test(an_empty_command_line_is_the_defaults),
		cmocka_unit_test(times_and_sizes_parse_alike_in_every_option),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
