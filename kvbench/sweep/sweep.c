/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- the plan of kv-bench sweep: which combinations there are, and with which options each is run. */
#include "kvbench/sweep/sweep.h"

#include "kvbench/report/lab.h"
#include "kvbench/setup/command.h"

static const char *const axis_names[SWEEP_AXES] = {"value_size", "num_clients", "num_workers"};

static const char *skipped(const struct sweep_options *o, const uint64_t at[SWEEP_AXES], struct kv_error *why)
{
	static struct args args;
	static struct bench_options parsed;
	if (at[SWEEP_CLIENTS] > at[SWEEP_WORKERS])
		return "more clients than workers: some would have no worker";
	memset(&args, 0, sizeof(args));
	args_put(&args, "kv-bench");
	sweep_settings(o, false, &args);
	args_add(&args, "--num-workers=%llu", (unsigned long long)at[SWEEP_WORKERS]);
	args_add(&args, "--num-clients=%llu", (unsigned long long)at[SWEEP_CLIENTS]);
	if (at[SWEEP_SIZE])
		args_add(&args, "--value-size=%llu", (unsigned long long)at[SWEEP_SIZE]);
	if (args_check(&args, why) == 0 &&
	    bench_options_parse((int)args.count, (char **)(uintptr_t)args.arg, &parsed, why) >= 0)
		return NULL;
	return why->text;
}

static json_t *cell(const struct sweep_options *o, const uint64_t at[SWEEP_AXES])
{
	struct kv_error why = {0};
	const char *reason = skipped(o, at, &why);
	json_t *c = json_object();
	for (unsigned i = 0; i < SWEEP_AXES; i++)
		if (at[i])
			json_object_set_new(c, axis_names[i], json_integer((json_int_t)at[i]));
	if (reason)
		json_object_set_new(c, "skipped", json_string(reason));
	return c;
}

static json_t *cells(const struct sweep_options *o, struct kv_error *err)
{
	const struct bench_list *a = o->axis;
	json_t *all = json_array(), *c;
	unsigned left = 0;
	for (unsigned v = 0; v < a[SWEEP_SIZE].count; v++)
		for (unsigned n = 0; n < a[SWEEP_CLIENTS].count; n++)
			for (unsigned w = 0; w < a[SWEEP_WORKERS].count; w++) {
				c = cell(o, (const uint64_t[]){a[SWEEP_SIZE].value[v], a[SWEEP_CLIENTS].value[n],
							       a[SWEEP_WORKERS].value[w]});
				left += !json_object_get(c, "skipped");
				json_array_append_new(all, c);
			}
	if (left > 0)
		return all;
	kv_fail(err, -KV_EINVAL, "no combination remains to run: %s",
		json_string_value(json_object_get(json_array_get(all, 0), "skipped")));
	json_decref(all);
	return NULL;
}

/* The options that all runs have. */
static json_t *settings(const struct sweep_options *o, bool identity, struct kv_error *err)
{
	static struct args args;
	json_t *list = json_array();
	memset(&args, 0, sizeof(args));
	sweep_settings(o, identity, &args);
	for (unsigned i = 0; i < args.count; i++)
		if (json_array_append_new(list, json_string(args.arg[i])) < 0)
			kv_fail(err, -KV_EINVAL, "the option %.200s is not text in UTF-8", args.arg[i]);
	if (!err->text[0])
		(void)args_check(&args, err);
	return list;
}

static json_t *axes(const struct sweep_options *o)
{
	json_t *all = json_object();
	for (unsigned i = 0; i < SWEEP_AXES; i++) {
		json_t *list = json_array();
		for (unsigned k = 0; k < o->axis[i].count; k++)
			if (o->axis[i].value[k])
				json_array_append_new(list, json_integer((json_int_t)o->axis[i].value[k]));
		json_object_set_new(all, axis_names[i], list);
	}
	return all;
}

json_t *sweep_plan(const struct sweep_options *o, struct kv_error *err)
{
	const struct bench_options *b = &o->bench;
	json_t *identity = settings(o, true, err), *args = settings(o, false, err), *plan;
	json_t *all = err->text[0] ? NULL : cells(o, err);
	if (!all) {
		json_decref(identity);
		json_decref(args);
		return NULL;
	}
	plan = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:f, s:I, s:i, s:b, s:b, s:s?, s:s?, s:s?}", "settings",
			 identity, "args", args, "cells", all, "axes", axes(o), "servers",
			 lab_strings(b->target.servers.item, b->target.servers.count), "order_seed",
			 (json_int_t)o->order_seed, "repeat_runs", (json_int_t)b->pace.repeat_runs, "timeout_s",
			 (double)o->cell_timeout_ns / 1e9, "seed", (json_int_t)b->load.seed, "batch",
			 (int)b->load.batch, "quiet", (int)b->out.quiet, "log_through",
			 (int)(b->out.log_level > KV_LOG_ERROR), "json", b->out.json, "report", b->out.report, "resume",
			 o->resume);
	if (!plan)
		kv_fail(err, -KV_ENOMEM, "no memory for the plan, or an option is not text in UTF-8");
	return plan;
}

int sweep_main(int argc, char **argv)
{
	static struct sweep_options o; /* too large for a stack */
	struct kv_error err = {0};
	json_t *plan = NULL;
	int over, rc = sweep_options_parse(argc, argv, &o, &err);
	if (rc == 0 && !o.bench.out.config) {
		plan = sweep_plan(&o, &err);
		rc = plan ? 0 : -KV_EINVAL;
	}
	over = command_over("kv-bench sweep", rc, &err, sweep_options_table(), &o, o.bench.out.config);
	return over >= 0 ? over : lab_run("sweep", plan, argc, argv);
}
