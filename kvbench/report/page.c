/* SPDX-License-Identifier: Apache-2.0 */
/* page.c -- the page: verdict, figures, charts, conditions, options. No script, no font, no link to anything outside. A
 * policy in the page forbids browsers to load any. All text of the document is escaped (chart_escape). */
#include "kvbench/report/page.h"

#include <math.h>
#include <stdlib.h>

#include "kvbench/report/chart.h"
#include "kvbench/report/figures.h"
#include "kvbench/report/page_tables.h"

static const char head[] =
	"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n<title>kv-bench</title>\n<style>\n"
	"*{box-sizing:border-box}body{margin:0 auto;max-width:1280px;padding:20px 16px 40px;"
	"font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;background:#f3f4f6;color:#1b1f24}"
	"h1{font-size:22px;margin:0}h2{font-size:17px;margin:28px 0 8px}p{margin:4px 0}.quiet{color:#57606a}"
	".verdict{margin:14px 0;padding:10px 14px;border-radius:6px;border-left:5px solid #1a7f37;background:#fff;"
	"overflow-wrap:anywhere}"
	".verdict.bad{border-color:#cf222e}.verdict.cut{border-color:#9a6700}.verdict ul{margin:4px "
	"0;padding-left:20px}"
	".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:14px}"
	".charts svg{width:100%;height:auto;display:block}"
	".wide{overflow-x:auto;background:#fff;border-radius:6px}table{border-collapse:collapse;width:100%}"
	"th,td{padding:6px 12px;text-align:right;border-bottom:1px solid #e3e6ea;white-space:nowrap}"
	"th:first-child,td:first-child{text-align:left}th{font-weight:600}"
	".wide th{white-space:normal}.quiet span{display:inline-block;max-width:100%;overflow-wrap:anywhere}"
	"dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:0 24px;margin:0;"
	"padding:8px 14px;background:#fff;border-radius:6px}"
	"dl div{display:flex;gap:12px;justify-content:space-between;padding:3px 0;border-bottom:1px solid #e3e6ea}"
	"dt{color:#57606a}dd{margin:0;text-align:right;overflow-wrap:anywhere}\n"
	"@media screen and (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}"
	".quiet,dt{color:#9da7b3}.verdict,.wide,dl{background:#161b22}th,td,dl div{border-color:#2d343d}"
	".verdict{border-color:#7ee787}.verdict.bad{border-color:#ff7b72}.verdict.cut{border-color:#d29922}}\n"
	"@media (max-width:600px){th,td{padding:6px 4px;font-size:13px}.less{display:none}"
	"td:first-child{white-space:normal}.names th{overflow-wrap:anywhere}}\n"
	"@media print{body{background:#fff;padding:0;font-size:11px}.charts{grid-template-columns:1fr 1fr}"
	"svg,table,.verdict,dl div{break-inside:avoid}h2{break-after:avoid}}\n";

static void para(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<p class=\"%s\">", class);
	chart_escape(out, text);
	fputs("</p>\n", out);
}

static void verdict(FILE *out, const json_t *doc)
{
	const json_t *v = json_object_get(doc, "verdict"), *problems = json_object_get(v, "problems"), *p;
	bool cut = json_is_true(json_object_get(doc, "interrupted")), ok = json_is_true(json_object_get(v, "ok"));
	size_t i;
	if (!v)
		return;
	fprintf(out, "<div class=\"verdict%s\">", json_array_size(problems) ? " bad" : cut ? " cut" : "");
	if (cut)
		fputs("<strong>Interrupted.</strong> These are figures of what was done until then, and not of the "
		      "whole run.",
		      out);
	else
		fputs(ok ? "<strong>All well.</strong> No error, no miss and no wrong value that the run should not "
			   "have."
			 : "<strong>Failed.</strong>",
		      out);
	if (json_array_size(problems)) {
		fputs("<ul>", out);
		json_array_foreach(problems, i, p)
		{
			fputs("<li>", out);
			chart_escape(out, json_string_value(p));
			fputs("</li>", out);
		}
		fputs("</ul>", out);
	}
	fputs("</div>\n", out);
}

/* A reader of figures wants to know it first. */
void page_shared(FILE *out, const json_t *doc)
{
	const json_t *c = json_object_get(doc, "conditions");
	double others = document_number(c, "others_cores"), cores = document_number(c, "cores");
	if (json_is_true(json_object_get(c, "shared_machine")) && isfinite(others) && isfinite(cores))
		fprintf(out,
			"<div class=\"verdict cut\"><strong>Shared machine.</strong> Other processes kept %.1f of %.0f "
			"cores busy meanwhile: these figures vary with it.</div>\n",
			others, cores);
}

/* class: "" or "less", which a narrow screen does not show. */
static void cell_of(FILE *out, const char *class, double value, enum chart_unit unit)
{
	char text[32];
	fprintf(out, "<td class=\"%s\">%s</td>", class,
		isfinite(value) ? chart_number(value, unit, text, sizeof(text)) : "");
}

static void cell(FILE *out, double value, enum chart_unit unit)
{
	cell_of(out, "", value, unit);
}

static void latency_cells(FILE *out, const json_t *latency)
{
	static const struct {
		const char *name, *class;
	} quantiles[] = {{"p50", ""}, {"p90", "less"}, {"p99", ""}, {"p999", "less"}, {"max", ""}};
	for (unsigned q = 0; q < KV_COUNT(quantiles); q++)
		cell_of(out, quantiles[q].class, document_number(latency, quantiles[q].name), CHART_TIME_NS);
}

/* Operations of a phase that did not succeed have no rate; what the others took from when they really began is beside
 * what they took from when they were due. */
static void table_more(FILE *out, const struct document_phase *phase)
{
	static const char *const kinds[][2] = {
		{"service_ns", "service"}, {"missed_ns", "missed"}, {"failed_ns", "failed"}};
	for (unsigned i = 0; i < KV_COUNT(kinds); i++) {
		const json_t *latency = json_object_get(phase->phase, kinds[i][0]);
		if (!latency)
			continue;
		fprintf(out, "<tr><td>%s, %s</td><td></td><td></td>", phase->name, kinds[i][1]);
		latency_cells(out, latency);
		fputs("<td class=\"less\"></td></tr>\n", out);
	}
}

/* What a latency is of, where it is not of an operation from its start to its end. */
static void table_notes(FILE *out, const json_t *doc)
{
	double batch = document_number(json_object_get(doc, "config"), "batch");
	if (document_at(doc, "phases", "read", "service_ns", NULL))
		para(out, "quiet",
		     "Latency of reads counts from when they were due; service: from when they really began.");
	if (batch > 1 && batch < 1e9)
		fprintf(out, "<p class=\"quiet\">A latency is of a batch of %.0f keys; operations are keys.</p>\n",
			batch);
	if (json_object_get(doc, "trace"))
		para(out, "quiet", "A latency is of all blocks found, or stored, for one request.");
}

static void table(FILE *out, const json_t *doc)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = document_phases(doc, phase);
	char rate[32];
	fputs("<h2>Figures</h2>\n<div class=\"wide\"><table><tr><th></th><th>ops/s</th><th>bytes/s</th><th>p50</th>"
	      "<th class=\"less\">p90</th><th>p99</th><th class=\"less\">p99.9</th><th>max</th>"
	      "<th class=\"less\">operations</th></tr>\n",
	      out);
	for (unsigned i = 0; i < n; i++) {
		const json_t *latency = json_object_get(phase[i].phase, "latency_ns");
		double bytes = document_number(phase[i].phase, "bytes_per_s");
		fprintf(out, "<tr><td>%s</td>", phase[i].name);
		cell(out, document_number(phase[i].phase, "ops_per_s"), CHART_COUNT);
		fprintf(out, "<td>%s</td>", isfinite(bytes) ? kv_rate_format(bytes, rate, sizeof(rate)) : "");
		latency_cells(out, latency);
		cell_of(out, "less", document_number(phase[i].phase, "ops"), CHART_COUNT);
		fputs("</tr>\n", out);
		table_more(out, &phase[i]);
	}
	fputs("</table></div>\n", out);
	table_notes(out, doc);
}

/* Of a combination: in any of its runs. */
static bool point_shared(const json_t *point)
{
	const json_t *runs = json_object_get(point, "runs"), *run;
	size_t i;
	json_array_foreach(runs, i, run)
	{
		if (json_is_true(json_object_get(run, "shared_machine")))
			return true;
	}
	return false;
}

/* A reader of figures wants to know it first. */
static void sweep_shared(FILE *out, const json_t *doc)
{
	const json_t *points = document_at(doc, "sweep", "points", NULL), *p;
	unsigned shared = 0, measured = 0;
	size_t i;
	json_array_foreach(points, i, p)
	{
		measured += json_array_size(json_object_get(p, "runs")) > 0;
		shared += point_shared(p);
	}
	if (shared > 0)
		fprintf(out,
			"<div class=\"verdict cut\"><strong>Shared machine.</strong> Other processes kept cores busy "
			"in "
			"%u of %u combinations: these figures vary with it.</div>\n",
			shared, measured);
}

/* As a command line has them. */
static void sweep_settings(FILE *out, const json_t *doc)
{
	const json_t *settings = document_at(doc, "sweep", "settings", NULL), *word;
	size_t i;
	if (json_array_size(settings) == 0)
		return;
	fputs("<p class=\"quiet\">Options of each run beside these:", out);
	json_array_foreach(settings, i, word)
	{
		if (json_is_string(word))
			page_command_word(out, json_string_value(word));
	}
	fputs("; all others have their defaults.</p>\n", out);
}

/* One row for each combination. */
static void table_of_sweep(FILE *out, const json_t *doc)
{
	const json_t *points = document_at(doc, "sweep", "points", NULL), *p;
	char text[32];
	size_t i;
	fputs("<h2>Figures</h2>\n<div class=\"wide\"><table><tr><th>value</th><th>clients</th><th>workers</th>"
	      "<th>ops/s</th><th class=\"less\">bytes/s</th><th class=\"less\">p50</th><th>p99</th>"
	      "<th class=\"less\">spread</th><th>state</th></tr>\n",
	      out);
	json_array_foreach(points, i, p)
	{
		double size = document_number(p, "value_size"), bytes = document_number(p, "bytes_per_s");
		double spread = document_number(document_at(p, "spread", "ops_per_s", NULL), "spread");
		fprintf(out, "<tr><td>%s</td>",
			size >= 1 && size < 1e18 ? kv_size_format((uint64_t)size, text, sizeof(text)) : "");
		cell(out, document_number(p, "num_clients"), CHART_COUNT);
		cell(out, document_number(p, "num_workers"), CHART_COUNT);
		cell(out, document_number(p, "ops_per_s"), CHART_COUNT);
		fprintf(out, "<td class=\"less\">%s</td>",
			isfinite(bytes) ? kv_rate_format(bytes, text, sizeof(text)) : "");
		cell_of(out, "less", document_number(p, "p50_ns"), CHART_TIME_NS);
		cell(out, document_number(p, "p99_ns"), CHART_TIME_NS);
		if (isfinite(spread))
			fprintf(out, "<td class=\"less\">%.3g %%</td><td>", 100 * spread);
		else
			fputs("<td class=\"less\"></td><td>", out);
		chart_escape(out, document_text(p, "state"));
		if (document_text(p, "reason")) {
			fputs(": ", out);
			chart_escape(out, document_text(p, "reason"));
		}
		fputs(point_shared(p) ? " *</td></tr>\n" : "</td></tr>\n", out);
	}
	fputs("</table></div>\n", out);
	para(out, "quiet",
	     "Figures of reads: medians of the runs, also of their percentiles. Spread: of operations per second, "
	     "largest "
	     "less smallest, as a part of the median. *: others kept processors of this machine busy meanwhile.");
}

/* What became of the hits of a trace. */
static void parts(FILE *out, const json_t *doc)
{
	static const char *const names[][2] = {{"before", "before the first event"},
					       {"five_minutes", "in the five minutes after it"},
					       {"later", "later"}};
	const json_t *trace = json_object_get(doc, "trace");
	double hits;
	if (!json_object_get(trace, "intervals"))
		return;
	fputs("<h2>Events</h2>\n<div class=\"wide\"><table><tr><th></th><th>requests</th><th>hit ratio</th><th "
	      "class=\"less\">p50 "
	      "of gets</th><th>p99 of gets</th><th>longest call</th></tr>\n",
	      out);
	for (unsigned i = 0; i < KV_COUNT(names); i++) {
		const json_t *part = json_object_get(trace, names[i][0]);
		fprintf(out, "<tr><td>%s</td>", names[i][1]);
		cell(out, document_number(part, "requests"), CHART_COUNT);
		hits = 100 * document_number(part, "hit_ratio");
		fprintf(out, isfinite(hits) ? "<td>%.2f %%</td>" : "<td></td>", hits);
		cell_of(out, "less", document_number(part, "get_p50_ns"), CHART_TIME_NS);
		cell(out, document_number(part, "get_p99_ns"), CHART_TIME_NS);
		cell(out, document_number(part, "longest_ns"), CHART_TIME_NS);
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void charts(FILE *out, const json_t *doc)
{
	struct kv_error err = {0};
	fprintf(out, "<h2>Charts</h2>\n<div class=\"charts\"%s>\n",
		document_is_sweep(doc) ? " style=\"max-width:680px\"" : ""); /* it has one */
	for (int f = 0; f < FIGURES; f++)
		(void)figure_write(out, doc, (enum figure)f, false, &err);
	fputs("</div>\n", out);
	if (document_is_sweep(doc))
		return;
	if (json_array_size(document_at(document_measured(doc), "series", "windows", NULL)) < 2)
		para(out, "quiet", "No chart over time: the phase was over within one window (--interval).");
	if (json_array_size(json_object_get(doc, "events")))
		para(out, "quiet", "Red lines are what --event did to a server.");
	if (document_at(doc, "keep_going", "outages", NULL))
		para(out, "quiet",
		     "Red bands are outages: from the first call that failed to the first that was served again.");
}

enum unit { BYTES, TIME, SECONDS, BYTE_RATE, RATE, SHARE, CORES };

static void in_unit(enum unit unit, double v, char *buf, size_t cap)
{
	switch (unit) {
	case BYTES:
		kv_size_format((uint64_t)v, buf, cap);
		break;
	case TIME:
		chart_number(v, CHART_TIME_NS, buf, cap);
		break;
	case SECONDS:
		chart_number(1e9 * v, CHART_TIME_NS, buf, cap);
		break;
	case BYTE_RATE:
		kv_rate_format(v, buf, cap);
		break;
	case RATE:
		kv_count_format((uint64_t)(v + 0.5), buf, cap);
		break;
	case SHARE:
		snprintf(buf, cap, "%.3g %%", 100 * v);
		break;
	case CORES:
		snprintf(buf, cap, "%.2f", v);
		break;
	}
}

/* A number whose name ends with its unit ("values_bytes") is written with it: returns the name's length without the
 * unit, or 0. Some names are nothing without it, and stay whole. */
static size_t in_units(const char *name, const json_t *value, char *buf, size_t cap)
{
	static const struct {
		const char *end;
		enum unit unit;
		bool whole;
	} units[] = {{"_bytes", BYTES, false}, {"_ns", TIME, false},    {"bytes_per_s", BYTE_RATE, true},
		     {"_per_s", RATE, true},   {"_s", SECONDS, false},  {"_share", SHARE, true},
		     {"_ratio", SHARE, true},  {"_error", SHARE, true}, {"_cores", CORES, true}};
	size_t len = strlen(name);
	double v = json_number_value(value);
	for (unsigned i = 0; json_is_number(value) && v >= 0 && v < 1e18 && i < KV_COUNT(units); i++) {
		size_t end = strlen(units[i].end);
		if (len < end || strcmp(name + len - end, units[i].end))
			continue;
		in_unit(units[i].unit, v, buf, cap);
		return units[i].whole ? len : len - end;
	}
	return 0;
}

/* Any scalar as text; NULL: it has no text of its own. */
static const char *scalar(const json_t *value, char *buf, size_t cap)
{
	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_integer(value))
		snprintf(buf, cap, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(buf, cap, "%.4g", json_real_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, cap, "%s", json_is_true(value) ? "yes" : "no");
	else
		return NULL;
	return buf;
}

static void pairs(FILE *out, const char *title, const json_t *object)
{
	const char *name, *text;
	json_t *value;
	size_t len;
	char buf[64];
	if (json_object_size(object) == 0)
		return;
	fprintf(out, "<h2>%s</h2>\n<dl>\n", title);
	json_object_foreach((json_t *)object, name, value)
	{
		len = in_units(name, value, buf, sizeof(buf));
		text = len ? buf : scalar(value, buf, sizeof(buf));
		if (!text || !*text)
			continue;
		fputs("<div><dt>", out);
		for (const char *c = name; *c && (!len || c < name + len); c++) {
			char letter[2] = {*c == '_' ? ' ' : *c, 0};
			chart_escape(out, letter);
		}
		fputs("</dt><dd>", out);
		chart_escape(out, text);
		fputs("</dd></div>\n", out);
	}
	fputs("</dl>\n", out);
}

/* What is computed is told from what was measured. */
static void model(FILE *out, const json_t *doc)
{
	const json_t *m = json_object_get(doc, "model");
	bool batch = document_number(json_object_get(doc, "config"), "batch") > 1;
	pairs(out, "Model", m);
	if (isfinite(document_number(m, "prefix_load_s")))
		para(out, "quiet",
		     batch ? "Prefix load is computed: a batch's median, then the rest at the rate of the reads. It is "
			     "of one rank."
			   : "Prefix load is computed: a GET's median, then the rest at the rate of the reads. It is "
			     "of "
			     "one rank.");
	if (json_is_null(json_object_get(m, "break_even_tokens")))
		para(out, "quiet", "Break-even: none, prefill is faster at every length.");
}

static void excluded(FILE *out, const json_t *doc)
{
	const json_t *list = document_at(doc, "conditions", "excluded", NULL), *text;
	size_t i;
	if (json_array_size(list) == 0)
		return;
	fputs("<p class=\"quiet\">In no figure: ", out);
	json_array_foreach(list, i, text)
	{
		fputs(i ? "; " : "", out);
		chart_escape(out, json_string_value(text));
	}
	fputs(".</p>\n", out);
}

void page_conditions(FILE *out, const json_t *doc)
{
	pairs(out, "Conditions", json_object_get(doc, "conditions"));
	excluded(out, doc);
}

static void title(FILE *out, const json_t *doc)
{
	const json_t *run = json_object_get(doc, "run"), *given = json_object_get(run, "options"), *word;
	size_t i;
	fputs("<h1>kv-bench</h1>\n<p class=\"quiet\">", out);
	chart_escape(out, document_text(run, "version"));
	fputs(", ", out);
	chart_escape(out, document_text(run, "time"));
	fputs(", on ", out);
	chart_escape(out, document_text(json_object_get(doc, "host"), "name"));
	fputs("</p>\n", out);
	page_command_begin(out, document_is_sweep(doc) ? "kv-bench sweep" : "kv-bench");
	json_array_foreach(given, i, word)
	{
		if (json_is_string(word)) /* the file may be anybody's */
			page_command_word(out, json_string_value(word));
	}
	fputs("</p>\n", out);
}

/* Lines are broken between words only: an option has hyphens. */
void page_command_begin(FILE *out, const char *program)
{
	fprintf(out, "<p class=\"quiet\">%s", program);
}

/* As a shell takes it: what is more than letters, digits and a few signs stands between single quotes. */
void page_command_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%";
	bool quote = !word[0] || word[strspn(word, plain)];
	fputs(quote ? " <span>&#39;" : " <span>", out);
	for (const char *c = word; *c; c++) {
		if (*c == '\'')
			fputs("&#39;\\&#39;&#39;", out);
		else
			chart_escape(out, (char[]){*c, 0});
	}
	fputs(quote ? "&#39;</span>" : "</span>", out);
}

void page_begin(FILE *out)
{
	fprintf(out, "%s%s</style></head><body>\n", head, chart_style);
}

char *page_html(const json_t *doc, size_t *len, struct kv_error *err)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);
	if (!out) {
		kv_fail(err, -KV_ENOMEM, "no memory for the page");
		return NULL;
	}
	page_begin(out);
	title(out, doc);
	verdict(out, doc);
	page_shared(out, doc);
	sweep_shared(out, doc);
	if (document_is_sweep(doc))
		table_of_sweep(out, doc);
	else
		table(out, doc);
	parts(out, doc);
	page_runs(out, doc);
	page_slo(out, doc);
	charts(out, doc);
	model(out, doc);
	pairs(out, "A prefix by one GET, layer by layer", document_at(doc, "model", "by_layer", NULL));
	pairs(out, "Rate", json_object_get(doc, "rate"));
	pairs(out, "GET beside bare writes", json_object_get(doc, "roofline"));
	pairs(out, "PUT beside bare writes", json_object_get(doc, "roofline_put"));
	pairs(out, "Trace", json_object_get(doc, "trace"));
	pairs(out, "Warm-up until steady", json_object_get(doc, "warmup"));
	pairs(out, "Kept going", json_object_get(doc, "keep_going"));
	page_conditions(out, doc);
	pairs(out, "Sweep", json_object_get(doc, "sweep"));
	sweep_settings(out, doc);
	pairs(out, "Fabric", json_object_get(doc, "provider"));
	pairs(out, "Host", json_object_get(doc, "host"));
	pairs(out, "Resources", json_object_get(doc, "resources"));
	pairs(out, "Options", json_object_get(doc, "config"));
	fputs("</body></html>\n", out);
	if (fclose(out) == 0)
		return text;
	free(text);
	kv_fail(err, -KV_ENOMEM, "no memory for the page");
	return NULL;
}
