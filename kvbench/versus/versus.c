/* SPDX-License-Identifier: Apache-2.0 */
/* versus.c -- the plan of kv-bench versus: the targets, and the options of their runs. */
#include "kvbench/versus/versus.h"

#include <stdlib.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/lab.h"
#include "kvbench/setup/args.h"
#include "kvbench/setup/command.h"
#include "kvbench/setup/signals.h"

/* The options of a run that all targets have alike. */
static json_t *load_options(const struct versus_options *o)
{
	static struct args a;
	memset(&a, 0, sizeof(a));
	args_add(&a, "--num-workers=%u", o->num_workers);
	args_add(&a, "--num-keys=%llu", (unsigned long long)o->num_keys);
	args_add(&a, "--value-size=%llu", (unsigned long long)o->value_size);
	args_add(&a, "--duration=%lluns", (unsigned long long)o->duration_ns);
	args_add(&a, "--warmup=%llu", (unsigned long long)o->warmup);
	if (o->keys_pattern)
		args_add(&a, "--keys-pattern=%s", o->keys_pattern);
	if (o->rate > 0)
		args_add(&a, "--rate=%.17g", o->rate);
	if (o->arrivals == BENCH_POISSON)
		args_put(&a, "--arrivals=poisson");
	if (o->batch)
		args_add(&a, "--batch=%u", o->batch);
	if (o->mixed)
		args_put(&a, "--mixed");
	if (o->verify)
		args_put(&a, "--verify");
	if (o->no_checksum)
		args_put(&a, "--no-checksum");
	return lab_strings(a.arg, a.count);
}

static json_t *targets(const struct versus_options *o)
{
	static const char *const kinds[] = {[VERSUS_KVRAIL] = "kvrail",
					    [VERSUS_REDIS] = "redis",
					    [VERSUS_MEMCACHED] = "memcached",
					    [VERSUS_PROGRAM] = "program"};
	json_t *list = json_array();
	for (unsigned i = 0; i < o->num_targets; i++) {
		const struct versus_target *t = &o->target[i];
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "kind", kinds[t->kind], "name", t->name,
						      "label", t->label, "address", t->address));
	}
	return list;
}

static const char *checked(const struct versus_options *o)
{
	if (o->verify)
		return "every byte";
	return o->no_checksum ? "length" : "checksum";
}

static json_t *plan_of(const struct versus_options *o)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:I, s:s, s:s, "
			 "s:s?, s:s?, s:s?}",
			 "targets", targets(o), "load", load_options(o), "own", lab_strings(o->own.item, o->own.count),
			 "rounds", (json_int_t)o->rounds, "num_workers", (json_int_t)o->num_workers, "num_clients",
			 (json_int_t)o->num_clients, "num_keys", (json_int_t)o->num_keys, "value_size",
			 (json_int_t)o->value_size, "batch", (json_int_t)o->batch, "warmup", (json_int_t)o->warmup,
			 "duration_s", (double)o->duration_ns / 1e9, "rate", o->rate, "mixed", (int)o->mixed, "seed",
			 (json_int_t)o->seed, "arrivals", o->arrivals == BENCH_POISSON ? "poisson" : "uniform",
			 "checked", checked(o), "keys_pattern", o->keys_pattern, "json", o->json, "report", o->report);
}

int versus_main(int argc, char **argv)
{
	static struct versus_options o;
	struct kv_error err = {0};
	int rc = versus_options_parse(argc, argv, &o, &err);
	int over = command_over("kv-bench versus", rc, &err, versus_options_table, &o, o.config);
	return over >= 0 ? over : lab_run("versus", plan_of(&o), argc, argv);
}

int versus_drive_main(int argc, char **argv)
{
	static struct versus_options o;
	struct kv_error err = {0};
	if (versus_options_parse(argc, argv, &o, &err) != 0 || o.num_targets != 1 ||
	    o.target[0].kind == VERSUS_KVRAIL) {
		fprintf(stderr, "kv-bench: %s\n",
			err.text[0] ? err.text : "kv-bench-drive loads one target other than KVRail");
		return BENCH_USAGE;
	}
	bench_signals_install();
	return versus_drive(&o, getenv("KVBENCH_CONGESTION"));
}
