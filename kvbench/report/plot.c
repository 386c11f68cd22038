/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c -- kv-bench plot: a result's charts and files again, without a run. */
#include <stdlib.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/figures.h"
#include "kvbench/report/file.h"
#include "kvbench/report/page.h"
#include "kvbench/report/png.h"
#include "kvbench/report/verbs.h"

struct plot_options {
	const char *output;
	int figure; /* enum figure */
};

static const struct kv_opt plot_table[] = {
	{.name = "output",
	 .letter = 'o',
	 .type = KV_OPT_STRING,
	 .offset = offsetof(struct plot_options, output),
	 .metavar = "FILE",
	 .help = "What to write, by its end: .svg or .png (one chart), .html (the page), .hgrm or .csv."},
	{.name = "figure",
	 .type = KV_OPT_CHOICE,
	 .offset = offsetof(struct plot_options, figure),
	 .metavar = "NAME",
	 .def = "percentiles",
	 .choices = figure_names,
	 .help = "The chart of an .svg or .png. Without --figure it is scaling for a sweep; for others"},
	{.name = NULL},
};

static const struct kv_opt_program plot_program = {
	.name = "kv-bench plot",
	.usage_args = "RESULT.json",
	.about = "Draws the result of an earlier kv-bench --json, or of a sweep.",
	.epilogue = "Exit status: 0 written, 1 not written, 2 usage, or a result that cannot be read.",
	.args_max = 1,
};

static char *picture(const json_t *doc, enum figure figure, size_t *len, struct kv_error *err)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);
	int rc = out ? figure_write(out, doc, figure, true, err) : kv_fail(err, -KV_ENOMEM, "no memory for a chart");
	if (out && fclose(out) != 0 && rc == 0)
		rc = kv_fail(err, -KV_ENOMEM, "no memory for a chart");
	if (rc == 0)
		return text;
	free(text);
	return NULL;
}

static char *pixels(const json_t *doc, enum figure figure, size_t *len, struct kv_error *err)
{
	size_t svg_len = 0;
	char *svg = picture(doc, figure, &svg_len, err), *png = NULL;
	if (svg)
		png = png_from_svg(svg, svg_len, len, err);
	free(svg);
	return png;
}

enum kind { SVG, PNG, HTML, HGRM, CSV, KINDS };

static enum kind kind_of(const char *path)
{
	static const char *const ends[KINDS] = {".svg", ".png", ".html", ".hgrm", ".csv"};
	size_t len = strlen(path);
	int k = SVG;
	while (k < KINDS && (len <= strlen(ends[k]) || strcmp(path + len - strlen(ends[k]), ends[k])))
		k++;
	return (enum kind)k;
}

static char *made(const json_t *doc, enum kind kind, int figure, size_t *len, struct kv_error *err)
{
	switch (kind) {
	case SVG:
		return picture(doc, (enum figure)figure, len, err);
	case PNG:
		return pixels(doc, (enum figure)figure, len, err);
	case HTML:
		return page_html(doc, len, err);
	case HGRM:
		return document_hgrm(doc, len, err);
	case CSV:
		return document_csv(doc, len, err);
	case KINDS:
		break;
	}
	return NULL;
}

static int write_to(const char *path, const json_t *doc, enum kind kind, int figure, struct kv_error *err)
{
	struct out_file file;
	size_t len = 0;
	char *text;
	int rc = out_file_open(&file, path, "the file", err);
	if (rc < 0)
		return rc;
	text = made(doc, kind, figure, &len, err);
	rc = text ? out_file_write(&file, text, len, err) : -KV_EINVAL;
	out_file_discard(&file);
	free(text);
	return rc;
}

int plot_main(int argc, char **argv)
{
	struct plot_options o;
	struct kv_opt_strings args = {0};
	struct kv_error err = {0};
	json_t *doc = NULL;
	int rc;
	kv_opt_defaults(plot_table, &o);
	o.figure = FIGURES; /* none was chosen */
	rc = kv_opt_parse_over(&plot_program, plot_table, argc, argv, &o, &args, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc == 0 && args.count == 0)
		rc = kv_fail(&err, -KV_EINVAL, "which result? name a file of kv-bench --json");
	if (rc == 0 && !o.output)
		rc = kv_fail(&err, -KV_EINVAL, "--output FILE says what to write, such as result.svg");
	if (rc == 0 && kind_of(o.output) == KINDS)
		rc = kv_fail(&err, -KV_EINVAL, "--output %.300s ends with none of .svg, .png, .html, .hgrm and .csv",
			     o.output);
	if (rc == 0 && o.figure != FIGURES && kind_of(o.output) >= HTML)
		rc = kv_fail(&err, -KV_EINVAL,
			     "--figure chooses the chart of an .svg or .png; %.300s has no chart to choose", o.output);
	if (rc == 0)
		rc = out_file_apart(o.output, "what is drawn", args.item[0], "kv-bench plot", &err);
	if (rc < 0) {
		fprintf(stderr, "kv-bench plot: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (document_load_drawn(args.item[0], &doc, &err) < 0) {
		fprintf(stderr, "kv-bench plot: %s\n", err.text);
		return BENCH_USAGE;
	}
	if (document_is_sweep(doc) && (kind_of(o.output) == HGRM || kind_of(o.output) == CSV)) {
		fprintf(stderr, "kv-bench plot: a sweep has no percentiles and no time series of its own: draw it as "
				".svg, .png or "
				".html\n");
		json_decref(doc);
		return BENCH_FAILED;
	}
	if (o.figure == FIGURES)
		o.figure = document_is_sweep(doc) ? FIGURE_SCALING : FIGURE_PERCENTILES;
	rc = write_to(o.output, doc, kind_of(o.output), o.figure, &err);
	json_decref(doc);
	if (rc < 0)
		fprintf(stderr, "kv-bench plot: %s\n", err.text);
	return rc < 0 ? BENCH_FAILED : BENCH_OK;
}
