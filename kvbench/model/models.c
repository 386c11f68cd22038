/* SPDX-License-Identifier: Apache-2.0 */
/* models.c -- kv-bench models: the table of models, with the bytes that their KV caches take. */
#include <stdbool.h>

#include "kvbench/model/model.h"

#define AT(member) .offset = offsetof(struct models_options, member)
#define SIZE(n)    kv_size_format((n), (char[32]){0}, 32)
#define COUNT(n)   kv_count_format((n), (char[32]){0}, 32)

enum { USAGE = 2 };

const struct kv_opt models_options_table[] = {
	KV_ROW_TEXT("model", AT(model), "NAME", NULL,
		    "This one alone: a name of the table, or the path of a config.json."),
	MODEL_TP_ROW(AT(layout.tp)),
	MODEL_DTYPE_ROW(AT(layout.dtype)),
	MODEL_BLOCK_ROW(AT(layout.block_tokens)),
	KV_OPT_CONFIG_ROW(AT(config)),
	{.name = NULL},
};

static const struct kv_opt_program models_options_program = {
	.name = "kv-bench models",
	.about = "Lists models for kv-bench --model, and the size of their KV caches on one rank.",
	.epilogue = "Dimensions are those of config.json in the named repository on huggingface.co.",
};

static void print_row(const struct model *m, const struct model_layout *l)
{
	struct model_bytes b;
	char heads[32], slices[32];
	if (m->kv_lora_rank)
		snprintf(heads, sizeof(heads), "MLA %u+%u", m->kv_lora_rank, m->rope_dim);
	else
		snprintf(heads, sizeof(heads), "%u x %u", m->kv_heads, m->head_dim);
	printf("%-16s %6u %10s", m->name, m->layers, heads);
	if (model_measure(m, l, &b, NULL) < 0) {
		printf(" %9s %9s %9s %9s\n  %s; tp %u does not divide its heads\n", "-", "-", "-", "-", m->source,
		       l->tp);
		return;
	}
	snprintf(slices, sizeof(slices), "%u x %u", m->layers, b.slices_per_layer);
	printf(" %9s %9s %9s %9s\n", COUNT(b.token), SIZE(b.block), slices, SIZE(b.slice));
	printf("  %s", m->source);
	if (m->sliding_layers)
		printf("; %u layers look back %u tokens", m->sliding_layers, m->window);
	putchar('\n');
}

static int print_all(const struct models_options *o, struct kv_error *err)
{
	struct model one;
	struct model_bytes b;
	int rc = o->model ? model_find(o->model, &one, err) : 0;
	if (rc == 0 && o->model)
		rc = model_measure(&one, &o->layout, &b, err);
	if (rc < 0)
		return rc;
	printf("%s, tp %u, blocks of %s tokens; bytes are of one rank\n\n", model_dtype_names[o->layout.dtype],
	       o->layout.tp, COUNT(o->layout.block_tokens));
	printf("%-16s %6s %10s %9s %9s %9s %9s\n", "model", "layers", "KV heads", "B/token", "block", "slices",
	       "slice");
	if (o->model)
		print_row(&one, &o->layout);
	for (const struct model *m = model_table; !o->model && m->name[0]; m++)
		print_row(m, &o->layout);
	return 0;
}

int model_main(int argc, char **argv)
{
	struct models_options o;
	struct kv_error err = {0};
	int rc = kv_opt_parse(&models_options_program, models_options_table, argc, argv, &o, NULL, &err);
	if (rc > 0)
		return 0;
	if (rc == 0 && o.config) {
		kv_opt_dump(models_options_table, &o, stdout);
		return 0;
	}
	if (rc == 0)
		rc = print_all(&o, &err);
	if (rc < 0) {
		fprintf(stderr, "kv-bench models: %s (try --help)\n", err.text);
		return USAGE;
	}
	if (!kv_written(stdout)) {
		fprintf(stderr, "kv-bench: the table could not be written to standard output\n");
		return 1;
	}
	return 0;
}
