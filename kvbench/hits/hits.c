/* SPDX-License-Identifier: Apache-2.0 */
/* hits.c -- kv-bench hits: each policy at each size of memory and of the tier, a line as soon as it is known. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "kvbench/hits/hits.h"
#include "kvbench/load/bench.h"
#include "kvbench/report/json.h"
#include "kvbench/setup/command.h"
#include "kvbench/setup/signals.h"
#include "store/store.h"

#define COUNT(n) kv_count_format((n), (char[32]){0}, 32)

static const struct kv_opt_program hits_options_program = {
	.name = "kv-bench hits",
	.about = "Computes how often a trace finds its blocks in memory of some sizes, and on a tier behind it, by the "
		 "code of kv-server and without one. All blocks are equal; memory and tier are one each.",
	.epilogue = "prefix: references found after all those before them in their request. block: all found ones; "
		    "on tier: those of them that the tier had. writes: blocks written to the tier, per distinct block. "
		    "Belady's block ratio is the most that any policy can have; memory and tier are one to it.",
};

struct hits {
	struct hits_options opt;
	struct hits_plan plan;
	struct hits_trace trace;
	bool tiers; /* some row has one */
	FILE *out;
	json_t *rows;
};

static const char *policy_name(int policy)
{
	return policy == HITS_BELADY ? "belady" : evict_policy_names[policy];
}

static double ratio(const struct hits *h, uint64_t hits)
{
	return (double)hits / (double)h->trace.refs;
}

static double writes_per_block(const struct hits *h, const struct hits_result *r)
{
	return (double)r->writes / (double)h->trace.distinct;
}

static void print_head(const struct hits *h)
{
	struct hits_result all = hits_unlimited(&h->trace);
	char tokens[64] = "";
	if (h->trace.block_tokens)
		snprintf(tokens, sizeof(tokens), " of %u tokens", h->trace.block_tokens);
	kv_wrap(h->out, "trace   ", 0, "%s: %s requests, %s references to %s blocks%s", h->opt.trace,
		COUNT(h->trace.requests), COUNT(h->trace.refs), COUNT(h->trace.distinct), tokens);
	kv_wrap(h->out, "        ", 0, "with memory for everything: prefix %.4f, block %.4f", ratio(h, all.prefix),
		ratio(h, all.block));
	fprintf(h->out, "\n%12s %9s", "blocks", "of trace");
	if (h->tiers)
		fprintf(h->out, " %13s", "on the tier");
	fprintf(h->out, "  %-8s %8s %8s", "policy", "prefix", "block");
	fprintf(h->out, h->tiers ? " %8s %8s\n" : "\n", "on tier", "writes");
}

static void print_row(const struct hits *h, uint64_t capacity, uint64_t tier, int policy, const struct hits_result *r)
{
	fprintf(h->out, "%12s %7.1f %%", COUNT(capacity), 100.0 * (double)capacity / (double)h->trace.distinct);
	if (h->tiers)
		fprintf(h->out, " %13s", COUNT(tier));
	fprintf(h->out, "  %-8s %8.4f %8.4f", policy_name(policy), ratio(h, r->prefix), ratio(h, r->block));
	if (tier && policy != HITS_BELADY)
		fprintf(h->out, " %8.4f %8.3f", ratio(h, r->tier), writes_per_block(h, r));
	fputc('\n', h->out);
	fflush(h->out);
}

static int add_row(struct hits *h, uint64_t capacity, uint64_t tier, int policy, const struct hits_result *r)
{
	json_t *row = json_pack("{s:I, s:I, s:s, s:I, s:I, s:f, s:f}", "capacity_blocks", (json_int_t)capacity,
				"tier_blocks", (json_int_t)tier, "policy", policy_name(policy), "prefix_hits",
				(json_int_t)r->prefix, "block_hits", (json_int_t)r->block, "prefix_hit_ratio",
				ratio(h, r->prefix), "block_hit_ratio", ratio(h, r->block));
	if (tier && policy != HITS_BELADY)
		json_object_update_new(row, json_pack("{s:I, s:f, s:I, s:f}", "tier_hits", (json_int_t)r->tier,
						      "tier_hit_ratio", ratio(h, r->tier), "tier_writes",
						      (json_int_t)r->writes, "tier_writes_per_block",
						      writes_per_block(h, r)));
	return json_array_append_new(h->rows, row) < 0 ? -KV_ENOMEM : 0;
}

static int run_one(struct hits *h, uint64_t capacity, uint64_t tier, int policy)
{
	const struct hits_tier behind = {.blocks = tier, .admit = (enum tier_admit)h->opt.tier_admit};
	struct hits_result r = {0};
	int rc = policy == HITS_BELADY ? hits_belady(&h->trace, capacity + tier, &r)
				       : hits_run(&h->trace, (unsigned)policy, capacity, behind, &r);
	if (rc < 0)
		return rc;
	print_row(h, capacity, tier, policy, &r);
	return add_row(h, capacity, tier, policy, &r);
}

static int run_sizes(struct hits *h, uint64_t capacity, uint64_t tier, struct kv_error *err)
{
	for (unsigned k = 0; k < h->plan.policies && !bench_interrupted(); k++)
		if (run_one(h, capacity, tier, h->plan.policy[k]) < 0)
			return kv_fail(err, -KV_ENOMEM,
				       "no memory to simulate %s blocks: use a smaller --capacity or --tier",
				       COUNT(capacity + tier));
	return 0;
}

static int run_all(struct hits *h, struct kv_error *err)
{
	int rc = 0;
	print_head(h);
	for (unsigned i = 0; i < h->plan.capacities && rc == 0; i++)
		for (unsigned t = 0; t < h->plan.tiers && rc == 0; t++)
			rc = run_sizes(h, h->plan.capacity[i], h->plan.tier[t], err);
	if (rc < 0)
		return rc;
	if (bench_interrupted())
		fprintf(stderr, "kv-bench: interrupted by signal %d: these are the pairs computed until then\n",
			bench_interrupted());
	return 0;
}

static int write_json(struct hits *h, struct out_file *file, struct kv_error *err)
{
	struct hits_result all = hits_unlimited(&h->trace);
	json_t *object =
		json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:O}", "schema", "kvbench-hits/1",
			  "trace", h->opt.trace, "tier_admit", tier_admit_names[h->opt.tier_admit], "complete",
			  !bench_interrupted(), "requests", (json_int_t)h->trace.requests, "blocks",
			  (json_int_t)h->trace.refs, "distinct", (json_int_t)h->trace.distinct, "block_tokens",
			  (json_int_t)h->trace.block_tokens, "unlimited_prefix_hit_ratio", ratio(h, all.prefix),
			  "unlimited_block_hit_ratio", ratio(h, all.block), "runs", h->rows);
	int rc;
	rc = json_write(file, object, JSON_INDENT(1), err);
	json_decref(object);
	return rc;
}

static int prepare(struct hits *h, struct out_file *json, struct kv_error *err)
{
	struct hits_plan plan;
	int rc = h->opt.trace ? 0
			      : kv_fail(err, -KV_EINVAL,
					"--trace FILE is required: docs/guide/benchmarking.md lists public traces");
	if (rc == 0)
		rc = hits_plan_parse(&h->opt, 100, &plan, err); /* before a long file is read */
	if (rc == 0)
		rc = kv_opt_json_check(h->opt.json, err);
	if (rc == 0)
		rc = out_file_apart(h->opt.json, "the JSON report", h->opt.trace, "--trace", err);
	if (rc < 0)
		return BENCH_USAGE;
	if (h->opt.json && out_file_open(json, h->opt.json, "the JSON report", err) < 0)
		return BENCH_NO_START;
	if (hits_trace_read(h->opt.trace, &h->trace, err) < 0)
		return bench_interrupted() ? 128 + bench_interrupted() : BENCH_NO_START;
	if (hits_plan_parse(&h->opt, h->trace.distinct, &h->plan, err) < 0)
		return BENCH_USAGE;
	for (unsigned i = 0; i < h->plan.tiers; i++)
		h->tiers = h->tiers || h->plan.tier[i];
	return BENCH_OK;
}

static int finish(struct hits *h, struct out_file *json, struct kv_error *err)
{
	int rc = h->opt.json ? write_json(h, json, err) : 0;
	if (rc == 0 && !kv_written(h->out))
		rc = kv_fail(err, -EIO, "the report could not be written to %s",
			     h->out == stdout ? "standard output" : "standard error");
	if (rc < 0)
		fprintf(stderr, "kv-bench hits: %s\n", err->text);
	if (rc < 0)
		return BENCH_FAILED;
	return bench_interrupted() ? 128 + bench_interrupted() : BENCH_OK;
}

int hits_main(int argc, char **argv)
{
	struct hits h = {.out = stdout};
	struct out_file json = {.fd = -1};
	struct kv_error err = {0};
	int rc = kv_opt_parse(&hits_options_program, hits_options_table, argc, argv, &h.opt, NULL, &err);
	int status = command_over("kv-bench hits", rc, &err, hits_options_table, &h.opt, h.opt.config);
	if (status >= 0)
		return status;
	bench_signals_install();
	status = prepare(&h, &json, &err);
	if (status == BENCH_OK) {
		h.out = h.opt.json && strcmp(h.opt.json, "-") == 0 ? stderr : stdout;
		h.rows = json_array();
		if (!h.rows || run_all(&h, &err) < 0)
			status = BENCH_FAILED;
	}
	if (status == BENCH_OK)
		status = finish(&h, &json, &err);
	else
		fprintf(stderr, "kv-bench hits: %s%s\n", err.text, status == BENCH_USAGE ? " (try --help)" : "");
	out_file_discard(&json);
	json_decref(h.rows);
	hits_trace_free(&h.trace);
	return status;
}
