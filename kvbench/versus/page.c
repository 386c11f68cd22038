/* SPDX-License-Identifier: Apache-2.0 */
/* page.c -- the comparison as one HTML page: ratios, figures, rounds. */
#include <stdlib.h>
#include <time.h>

#include "kvbench/report/chart.h"
#include "kvbench/report/page.h"
#include "kvbench/setup/signals.h"
#include "kvbench/versus/versus.h"

static void text_cell(FILE *out, const char *text)
{
	fputs("<td>", out);
	chart_escape(out, text);
	fputs("</td>", out);
}

static void figure_rows(FILE *out, const struct versus *v, enum versus_figure f)
{
	char text[64];
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		struct versus_measure m = versus_median(v, t, f);
		struct versus_spread s = t ? versus_ratio(v, t, f) : (struct versus_spread){0};
		struct versus_spread cpu = t ? versus_cpu_ratio(v, t, f) : (struct versus_spread){0};
		if (m.ops_per_s <= 0)
			continue;
		fputs("<tr>", out);
		snprintf(text, sizeof(text), "%s, %s", versus_figure_names[f], v->opt.target[t].label);
		text_cell(out, text);
		text_cell(out, chart_number(m.ops_per_s, CHART_COUNT, text, sizeof(text)));
		fprintf(out, "<td class=\"less\">%s</td>", kv_rate_format(m.bytes_per_s, text, sizeof(text)));
		fprintf(out, "<td class=\"less\">%s</td>", chart_number(m.p50_ns, CHART_TIME_NS, text, sizeof(text)));
		text_cell(out, m.p99_ns > 0 ? chart_number(m.p99_ns, CHART_TIME_NS, text, sizeof(text)) : "");
		fprintf(out, "<td>%s</td>", cpu.count ? versus_spread_text(cpu, text, sizeof(text)) : "");
		fprintf(out, "<td class=\"less\">%s</td>", s.count ? versus_spread_text(s, text, sizeof(text)) : "");
		fputs("</tr>\n", out);
	}
}

static void bars(FILE *out, const struct versus *v, enum versus_figure f)
{
	struct chart_bar bar[VERSUS_TARGETS_MAX];
	char title[64];
	unsigned n = 0;
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		struct versus_measure m = versus_median(v, t, f);
		if (m.ops_per_s <= 0)
			continue;
		snprintf(bar[n].label, sizeof(bar[n].label), "%s", v->opt.target[t].label);
		bar[n++].value = m.ops_per_s;
	}
	snprintf(title, sizeof(title), "%s, operations per second", versus_figure_names[f]);
	if (n > 0)
		chart_bars(out, title, bar, n, CHART_COUNT, false);
}

static void round_cell(FILE *out, const struct versus_run *run)
{
	const struct versus_measure *get = &run->figure[VERSUS_GET], *put = &run->figure[VERSUS_PUT];
	char rate[32], text[96] = "";
	int n = 0;
	text_cell(out, run->ran ? chart_number(get->ops_per_s, CHART_COUNT, rate, sizeof(rate)) : "");
	if (run->ran && versus_cores(get) > 0)
		n = snprintf(text, sizeof(text), "%.2f", versus_cores(get));
	if (run->ran && put->faults >= 0)
		snprintf(text + n, sizeof(text) - (size_t)n, ", %.1f", put->faults);
	fprintf(out, "<td class=\"less\">%s</td>", text);
}

static void rounds(FILE *out, const struct versus *v)
{
	fputs("<h2>Rounds</h2>\n<div class=\"wide names\"><table><tr><th>GETs per second</th>", out);
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		fputs("<th>", out);
		chart_escape(out, v->opt.target[t].label);
		fputs("</th><th class=\"less\">cores, faults/PUT</th>", out);
	}
	fputs("<th class=\"less\">CPUs</th></tr>\n", out);
	for (unsigned i = 0; i < v->rounds; i++) {
		const struct versus_round *r = &v->round[i];
		fprintf(out, "<tr><td>round %u%s%s</td>", i + 1,
			r->counts ? "" : ", does not count: ", r->counts ? "" : versus_why_name(r->why));
		for (unsigned t = 0; t < v->opt.num_targets; t++)
			round_cell(out, &r->run[t]);
		fprintf(out, "<td class=\"less\">%s</td>", versus_round_state(r));
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void targets(FILE *out, const struct versus *v)
{
	char text[768];
	fputs("<h2>Targets</h2>\n", out);
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		if (!v->round[0].run[t].ran)
			continue;
		fputs("<p class=\"quiet\"><span>", out);
		chart_escape(out, versus_target_text(v, t, text, sizeof(text)));
		fputs("</span></p>\n", out);
	}
}

static void heading(FILE *out, const struct versus *v)
{
	bool good = true;
	char text[768], day[32] = "";
	time_t started = v->started_s;
	struct tm tm;
	if (gmtime_r(&started, &tm))
		strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%SZ", &tm);
	fprintf(out, "<h1>kv-bench versus</h1>\n<p class=\"quiet\">%s, %s</p>\n", KVRAIL_VERSION, day);
	page_command_begin(out, "kv-bench versus");
	for (int i = 1; i < v->argc; i++)
		page_command_word(out, v->argv[i]);
	fputs("</p>\n<p class=\"quiet\">", out);
	chart_escape(out, versus_load_text(&v->opt, text, sizeof(text)));
	fputs(".</p>\n", out);
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		if (!v->failed[t][0])
			continue;
		good = false;
		fputs("<div class=\"verdict bad\"><strong>", out);
		chart_escape(out, v->opt.target[t].label);
		fputs(" failed.</strong> ", out);
		chart_escape(out, v->failed[t]);
		fputs("</div>\n", out);
	}
	if (v->unsteady)
		fputs("<div class=\"verdict cut\"><strong>Weak.</strong> In no round was the machine the same "
		      "throughout: these are medians over all rounds.</div>\n",
		      out);
	if (bench_interrupted())
		fputs("<div class=\"verdict cut\"><strong>Interrupted.</strong> These are the rounds until "
		      "then.</div>\n",
		      out);
	if (good && !bench_interrupted())
		fputs("<div class=\"verdict\"><strong>All well.</strong> No target failed, and no value was wrong or "
		      "missing.</div>\n",
		      out);
}

char *versus_page(const struct versus *v, size_t *len, struct kv_error *err)
{
	char *text = NULL;
	json_t *doc = versus_document(v);
	FILE *out = doc ? open_memstream(&text, len) : NULL;
	if (!out) {
		json_decref(doc);
		kv_fail(err, -KV_ENOMEM, "no memory for the page");
		return NULL;
	}
	page_begin(out);
	heading(out, v);
	page_shared(out, doc);
	fputs("<h2>Medians</h2>\n<div class=\"wide\"><table><tr><th></th><th>ops/s</th>"
	      "<th class=\"less\">bytes/s</th><th class=\"less\">p50</th><th>p99</th><th>first / this one, by CPU "
	      "time</th>"
	      "<th class=\"less\">by the clock</th></tr>\n",
	      out);
	for (int f = 0; f < VERSUS_FIGURES; f++)
		figure_rows(out, v, (enum versus_figure)f);
	fputs("</table></div>\n<h2>Charts</h2>\n<div class=\"charts\">\n", out);
	for (int f = 0; f < VERSUS_FIGURES; f++)
		bars(out, v, (enum versus_figure)f);
	fputs("</div>\n", out);
	rounds(out, v);
	targets(out, v);
	page_conditions(out, doc);
	json_decref(doc);
	fputs("</body></html>\n", out);
	if (fclose(out) == 0)
		return text;
	free(text);
	kv_fail(err, -KV_ENOMEM, "no memory for the page");
	return NULL;
}
