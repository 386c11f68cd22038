/* SPDX-License-Identifier: Apache-2.0 */
/* page_tables.c -- what several runs came to, and the rates that a search tried. A file may be anybody's: numbers that
 * are not there leave their cell empty, and rows are bounded. */
#include "kvbench/report/page_tables.h"

#include <math.h>
#include <string.h>

#include "kvbench/measure/slo.h"
#include "kvbench/report/chart.h"

static void cell(FILE *out, const char *class, double value, enum chart_unit unit)
{
	char text[32];
	fprintf(out, "<td class=\"%s\">%s</td>", class,
		isfinite(value) ? chart_number(value, unit, text, sizeof(text)) : "");
}

void page_runs(FILE *out, const json_t *doc)
{
	static const struct {
		const char *member, *name;
		enum chart_unit unit;
	} figures[] = {{"ops_per_s", "ops/s", CHART_COUNT},
		       {"bytes_per_s", "bytes/s", CHART_COUNT},
		       {"p50_ns", "p50 of reads", CHART_TIME_NS},
		       {"p99_ns", "p99 of reads", CHART_TIME_NS}};
	static const char *const numbers[][2] = {{"median", ""}, {"min", "less"}, {"max", "less"}};
	const json_t *runs = json_object_get(doc, "runs");
	char rate[32];
	double count = document_number(runs, "count"), spread;
	if (!(count > 1))
		return;
	fprintf(out,
		"<h2>%.0f runs</h2>\n<div class=\"wide\"><table><tr><th></th><th>median</th><th class=\"less\">min</th>"
		"<th class=\"less\">max</th><th>spread</th></tr>\n",
		count);
	for (unsigned i = 0; i < KV_COUNT(figures); i++) {
		const json_t *f = json_object_get(runs, figures[i].member);
		if (!f)
			continue;
		spread = 100 * document_number(f, "spread");
		fprintf(out, "<tr><td>%s</td>", figures[i].name);
		for (unsigned n = 0; n < KV_COUNT(numbers); n++) {
			double value = document_number(f, numbers[n][0]);
			if (strcmp(figures[i].member, "bytes_per_s") == 0)
				fprintf(out, "<td class=\"%s\">%s</td>", numbers[n][1],
					isfinite(value) ? kv_rate_format(value, rate, sizeof(rate)) : "");
			else
				cell(out, numbers[n][1], value, figures[i].unit);
		}
		fprintf(out, isfinite(spread) ? "<td>%.3g %%</td></tr>\n" : "<td></td></tr>\n", spread);
	}
	fputs("</table></div>\n<p class=\"quiet\">Spread: largest less smallest, as a part of the median.</p>\n", out);
}

/* Of the trials with a rate above this one, the lowest. NULL: there is none. */
static const json_t *next_trial(const json_t *trials, double above)
{
	const json_t *next = NULL, *t;
	size_t i;
	json_array_foreach(trials, i, t)
	{
		double rate = document_number(t, "offered_per_s");
		if (rate > above && !(next && document_number(next, "offered_per_s") <= rate))
			next = t;
	}
	return next;
}

static const char *outcome(const char *name)
{
	for (int why = 0; name && why < BENCH_SLO_WHYS; why++)
		if (strcmp(bench_slo_why_name((enum bench_slo_why)why), name) == 0)
			return bench_slo_why_text((enum bench_slo_why)why);
	return "";
}

void page_slo(FILE *out, const json_t *doc)
{
	const json_t *slo = json_object_get(doc, "slo"), *trials = json_object_get(slo, "trials"), *t;
	double best = document_number(slo, "rate_per_s"), above = 0;
	char text[32];
	unsigned rows = 0;
	if (json_array_size(trials) == 0)
		return;
	fprintf(out, "<h2>Highest rate with p%.10g within %s: ", 100 * document_number(slo, "quantile"),
		chart_number(document_number(slo, "limit_ns"), CHART_TIME_NS, text, sizeof(text)));
	fprintf(out, "%s%s</h2>\n",
		isfinite(best) ? kv_count_format((uint64_t)KV_MIN(KV_MAX(best, 0.0), 1e18), text, sizeof(text))
			       : "none that was tried",
		isfinite(best) ? " per second" : "");
	fputs("<div class=\"wide\"><table><tr><th>offered/s</th><th>achieved/s</th><th>latency</th>"
	      "<th class=\"less\">service</th><th class=\"less\">ops</th><th></th></tr>\n",
	      out);
	for (; rows < BENCH_SLO_TRIALS && (t = next_trial(trials, above)); rows++) {
		above = document_number(t, "offered_per_s");
		fputs("<tr>", out);
		cell(out, "", above, CHART_COUNT);
		cell(out, "", document_number(t, "achieved_per_s"), CHART_COUNT);
		cell(out, "", document_number(t, "latency_ns"), CHART_TIME_NS);
		cell(out, "less", document_number(t, "service_ns"), CHART_TIME_NS);
		cell(out, "less", document_number(t, "ops"), CHART_COUNT);
		fprintf(out, "<td>%s</td></tr>\n", outcome(document_text(t, "why")));
	}
	fputs("</table></div>\n", out);
}
