/* SPDX-License-Identifier: Apache-2.0 */
/* help.c -- kv-bench --help in one screen, and kv-bench help TOPIC.
 *
 * A topic is a group of the option table; its text comes from the rows, as that of --help of every other program does.
 * `all` is the whole table, of which manual, reference and completion are made. tests/integration/help.sh finds a group
 * without a topic. */
#include "kvbench/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvbench/load/bench.h"

static const struct {
	const char *name, *group, *about;
} topics[] = {
	{"where", "Where to", "servers, provider, NIC, rails, mode"},
	{"load", "Load", "workers, keys, sizes, patterns, rates, mixes, checks"},
	{"trace", "Trace replay", "requests of a trace, their times and order"},
	{"model", "A model's KV cache", "values as blocks of a model, figures in tokens"},
	{"resources", "Resources", "buffers, servers of its own, events, deadlines"},
	{"security", "Security", "keys and certificates"},
	{"output", "Output", "JSON, page, percentiles, time series, progress"},
};

int help_wanted(int argc, char **argv)
{
	return argc > 1 && (strcmp(argv[1], "help") == 0 ||
			    (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)));
}

static void overview(const struct help_command *commands)
{
	printf("Usage: kv-bench [OPTION...] | COMMAND [OPTION...] | help [TOPIC]\n"
	       "Measures KVRail: writes keys, reads them back, reports throughput and latency.\n"
	       "Options by topic (kv-bench help TOPIC; all: every option):\n");
	for (unsigned i = 0; i < KV_COUNT(topics); i++)
		printf("  %-10s %s\n", topics[i].name, topics[i].about);
	printf("Commands (kv-bench COMMAND --help):\n");
	for (const struct help_command *c = commands; c->name; c++)
		printf("  %-10s %s\n", c->name, c->about);
	printf("Examples:\n"
	       "  kv-bench --num-workers 32 --num-clients 4 --value-size 1MB\n"
	       "  kv-bench --trace t.jsonl --servers 4 --event 'kill 2 at 30m' --report o.html\n"
	       "  kv-bench versus --targets kvrail,redis://127.0.0.1:6379\n");
}

static int unknown(const char *topic, const struct help_command *commands)
{
	struct kv_nearest n = kv_nearest_begin(topic, strlen(topic));
	char hint[KV_NEAREST_TEXT];
	for (unsigned i = 0; i < KV_COUNT(topics); i++)
		kv_nearest_try(&n, topics[i].name);
	for (const struct help_command *c = commands; c->name; c++)
		kv_nearest_try(&n, c->name);
	fprintf(stderr, "kv-bench: there is no topic '%.100s'%s use one of", topic,
		n.best ? kv_nearest_hint(&n, "", hint) : ":");
	for (unsigned i = 0; i < KV_COUNT(topics); i++)
		fprintf(stderr, " %s,", topics[i].name);
	fprintf(stderr, " all, or a command (");
	for (const struct help_command *c = commands; c->name; c++)
		fprintf(stderr, "%s%s", c > commands ? ", " : "", c->name);
	fprintf(stderr, ")\n");
	return BENCH_USAGE;
}

/* Print --help of these rows. */
static int rows_print(const struct kv_opt_program *program, const struct kv_opt *table)
{
	static struct bench_options scratch;
	char *argv[] = {(char[]){"kv-bench"}, (char[]){"--help"}, NULL};
	struct kv_error err = {0};
	return kv_opt_parse(program, table, 2, argv, &scratch, NULL, &err) > 0 ? BENCH_OK : BENCH_FAILED;
}

static int group_print(const char *group)
{
	const struct kv_opt_program program = {.name = "kv-bench"};
	struct kv_opt *rows;
	unsigned n = 0, all = 0;
	bool in = false;
	int status;
	while (bench_options_table[all].name)
		all++;
	rows = calloc(all + 1, sizeof(*rows));
	if (!rows) {
		fprintf(stderr, "kv-bench: no memory for the text\n");
		return BENCH_FAILED;
	}
	for (unsigned i = 0; i < all; i++) {
		const struct kv_opt *row = &bench_options_table[i];
		if (row->group)
			in = strcmp(row->group, group) == 0;
		if (in)
			rows[n++] = *row;
	}
	status = rows_print(&program, rows);
	free(rows);
	return status;
}

static int finished(int status)
{
	if (kv_written(stdout))
		return status;
	fprintf(stderr, "kv-bench: the text could not be written to standard output\n");
	return BENCH_FAILED;
}

int help_main(int argc, char **argv, const struct help_command *commands)
{
	const char *topic = argc > 2 ? argv[2] : NULL;
	if (argc > 3) {
		fprintf(stderr, "kv-bench: help accepts one topic; '%.100s' is a second\n", argv[3]);
		return BENCH_USAGE;
	}
	if (!topic) {
		overview(commands);
		return finished(BENCH_OK);
	}
	if (strcmp(topic, "all") == 0)
		return finished(rows_print(&bench_options_program, bench_options_table));
	for (unsigned i = 0; i < KV_COUNT(topics); i++)
		if (strcmp(topics[i].name, topic) == 0)
			return finished(group_print(topics[i].group));
	return unknown(topic, commands);
}
