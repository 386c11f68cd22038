/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c -- charts from a document. What the document lacks is not drawn, and why is said. */
#include "kvbench/report/figures.h"

#include <math.h>
#include <stdlib.h>

#include "kvbench/report/chart.h"

const char *const figure_names[FIGURES + 1] = {"percentiles", "histogram", "throughput", "latency",
					       "breakdown",   "scaling",   NULL};

enum { MARKS_MAX = 256, BINS = 60, HEAT_MAX = 12, HEAT_WIDE = 8, SEEN_MAX = 64 };

struct points {
	double *x, *y;
	size_t count;
};

static bool points_make(struct points *p, size_t cap)
{
	p->x = calloc(cap + 1, sizeof(double));
	p->y = calloc(cap + 1, sizeof(double));
	p->count = 0;
	return p->x && p->y;
}

static void points_free(struct points *p)
{
	free(p->x);
	free(p->y);
	memset(p, 0, sizeof(*p));
}

static void point(struct points *p, double x, double y)
{
	p->x[p->count] = x;
	p->y[p->count++] = y;
}

static int lacks(struct kv_error *err, const char *what)
{
	return kv_fail(err, -KV_ENOTFOUND, "%s", what);
}

static int no_memory(struct kv_error *err)
{
	return kv_fail(err, -KV_ENOMEM, "no memory for a chart");
}

static double item(const json_t *array, size_t i)
{
	const json_t *n = json_array_get(array, i);
	return json_is_number(n) ? json_number_value(n) : NAN;
}

/* ---- latency ---- */

static double total_of(const json_t *count)
{
	double total = 0;
	for (size_t i = 0; i < json_array_size(count); i++)
		total += KV_MAX(item(count, i), 0.0);
	return total;
}

/* The curve ends where one sample is left: beyond it nothing was measured. */
static bool percentile_points(const json_t *phase, struct points *p)
{
	const json_t *upper = document_at(phase, "histogram", "upper_ns", NULL);
	const json_t *count = document_at(phase, "histogram", "count", NULL);
	double total = total_of(count), below = 0;
	if (!points_make(p, 2 * json_array_size(upper)))
		return false;
	for (size_t i = 0; total > 0 && i < json_array_size(upper) && i < json_array_size(count); i++) {
		double n = KV_MAX(item(count, i), 0.0);
		point(p, below / total, item(upper, i));
		below += n;
		point(p, KV_MIN(below, total - 1) / total, item(upper, i));
	}
	return true;
}

static int percentiles(FILE *out, const json_t *doc, bool alone, struct kv_error *err)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	struct points p[DOCUMENT_PHASES_MAX] = {{0}};
	struct chart c = {.title = "Latency by percentile",
			  .x = {"operations at or below", CHART_NINES, CHART_SHARE, false},
			  .y = {"latency", CHART_LOG, CHART_TIME_NS, false}};
	unsigned n = document_phases(doc, phase);
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < n; i++) {
		if (!percentile_points(phase[i].phase, &p[i]))
			rc = no_memory(err);
		else if (p[i].count > 0 && c.num_lines < CHART_LINES_MAX) /* --mix and --mixed exclude each other */
			c.line[c.num_lines++] = (struct chart_line){
				.name = phase[i].name, .x = p[i].x, .y = p[i].y, .count = p[i].count};
	}
	if (rc == 0 && c.num_lines == 0)
		rc = lacks(err, "this result has no histogram: no operation succeeded, or an older kv-bench wrote it");
	if (rc == 0)
		chart_lines(out, &c, alone);
	for (unsigned i = 0; i < n; i++)
		points_free(&p[i]);
	return rc;
}

/* Buckets are finer than a picture: they are added up into bins of equal width on the logarithmic axis. */
static int histogram(FILE *out, const json_t *doc, bool alone, struct kv_error *err)
{
	const json_t *phase = document_measured(doc), *upper = document_at(phase, "histogram", "upper_ns", NULL);
	const json_t *count = document_at(phase, "histogram", "count", NULL);
	size_t n = KV_MIN(json_array_size(upper), json_array_size(count));
	double low, high, x[BINS], y[BINS];
	struct chart c = {.title = document_at(doc, "phases", "read", NULL) == phase ? "Latency of reads"
										     : "Latency of writes",
			  .x = {"latency", CHART_LOG, CHART_TIME_NS, false},
			  .y = {"operations", CHART_LINEAR, CHART_COUNT, true}};
	if (n == 0)
		return lacks(err,
			     "this result has no histogram: no operation succeeded, or an older kv-bench wrote it");
	low = log10(KV_MAX(item(upper, 0), 1.0)) - 0.02;
	high = log10(KV_MAX(item(upper, n - 1), 1.0)) + 0.001;
	for (unsigned i = 0; i < BINS; i++) {
		x[i] = pow(10, low + (high - low) * (i + 1) / BINS);
		y[i] = 0;
	}
	for (size_t i = 0; i < n; i++) {
		double at = (log10(KV_MAX(item(upper, i), 1.0)) - low) / (high - low) * BINS;
		if (at >= 0 && at < BINS)
			y[(unsigned)at] += KV_MAX(item(count, i), 0.0);
	}
	c.line[c.num_lines++] = (struct chart_line){.name = "operations", .x = x, .y = y, .count = BINS, .bars = true};
	chart_lines(out, &c, alone);
	return 0;
}

/* ---- over time ---- */

static unsigned marks_of(const json_t *doc, const json_t *phase, struct chart_mark mark[MARKS_MAX])
{
	const json_t *outages = document_at(doc, "keep_going", "outages", NULL), *o;
	double start = document_number(document_at(phase, "series", NULL), "start_unix_ns");
	unsigned n = 0;
	size_t i;
	json_array_foreach(outages, i, o)
	{
		double from = document_number(o, "from_unix_ns"), to = document_number(o, "to_unix_ns");
		if (n < MARKS_MAX && isfinite(from) && isfinite(to) && isfinite(start))
			mark[n++] = (struct chart_mark){(from - start) / 1e9, (to - start) / 1e9, NULL};
	}
	json_array_foreach(json_object_get(doc, "events"), i, o)
	{
		double at = document_number(o, "done_s");
		const char *label = document_text(o, "event");
		if (n < MARKS_MAX && isfinite(at))
			mark[n++] = (struct chart_mark){at, at, label ? label : "event"};
	}
	return n;
}

static bool any_known(const struct points *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (isfinite(p->y[i]))
			return true;
	return false;
}

enum { SERIES_MAX = 3 }; /* GET, PUT and EXISTS of a mix */

/* One kind of operation over time. */
struct kind {
	const char *rate, *p99; /* names of its lines */
	const json_t *phase;
	struct points ops, p50, late;
	bool sparse; /* a window had too few samples for a p99: its longest stands there */
};

/* The kinds of operations that one phase made at the same time. */
static unsigned kinds_of(const json_t *doc, struct kind kind[SERIES_MAX])
{
	const json_t *put = document_at(doc, "phases", "mix", "put", NULL), *measured = document_measured(doc);
	const json_t *exists = document_at(doc, "phases", "mix", "exists", NULL);
	bool reads = measured && measured == document_at(doc, "phases", "read", NULL);
	unsigned n = 0;
	kind[n++] = (struct kind){.rate = reads ? "GETs" : "PUTs", .p99 = "p99", .phase = measured};
	if (put && document_number(put, "ops") > 0)
		kind[n++] = (struct kind){.rate = "PUTs", .p99 = "PUT p99", .phase = put};
	if (exists && document_number(exists, "ops") > 0)
		kind[n++] = (struct kind){.rate = "EXISTS", .p99 = "EXISTS p99", .phase = exists};
	return n;
}

/* Of a last window that is short nobody can tell a rate; what took how long in it counts all the same. */
static bool kind_take(struct kind *k)
{
	const json_t *rows = document_at(k->phase, "series", "windows", NULL), *row;
	double window = document_number(document_at(k->phase, "series", NULL), "window_s");
	size_t i, n = json_array_size(rows);
	if (!points_make(&k->ops, n) || !points_make(&k->p50, n) || !points_make(&k->late, n))
		return false;
	json_array_foreach(rows, i, row)
	{
		double seconds = document_number(row, "seconds"), end = document_number(row, "end_s");
		double p99 = document_number(row, "p99_ns"), longest = document_number(row, "max_ns");
		if (seconds > window / 2)
			point(&k->ops, end, document_number(row, "ops") / seconds);
		if (seconds > window / 2 || isfinite(longest)) {
			point(&k->p50, end, document_number(row, "p50_ns"));
			point(&k->late, end, isfinite(p99) ? p99 : longest);
			k->sparse |= !isfinite(p99) && isfinite(longest);
		}
	}
	return true;
}

static void line(struct chart *c, const char *name, const struct points *p)
{
	if (c->num_lines < CHART_LINES_MAX && any_known(p))
		c->line[c->num_lines++] = (struct chart_line){name, p->x, p->y, p->count, false};
}

static void kinds_draw(struct chart *c, const struct kind *kind, unsigned n, bool latency)
{
	for (unsigned i = 0; i < n && !latency; i++)
		line(c, kind[i].rate, &kind[i].ops);
	if (latency)
		line(c, n > 1 ? "GET p50" : "p50", &kind[0].p50);
	for (unsigned i = 0; i < n && latency; i++)
		line(c, n > 1 || !kind[i].sparse ? kind[i].p99 : "p99 or longest", &kind[i].late);
	for (unsigned i = 0; i < n && latency && n > 1; i++)
		if (kind[i].sparse)
			c->title = "Latency over time (of few: the longest)";
}

static int over_time(FILE *out, const json_t *doc, bool latency, bool alone, struct kv_error *err)
{
	struct kind kind[SERIES_MAX];
	struct chart_mark mark[MARKS_MAX];
	struct chart c = {.title = latency ? "Latency over time" : "Throughput over time",
			  .x = {"since the phase began", CHART_LINEAR, CHART_SECONDS, true},
			  .y = {latency ? "latency" : "operations per second", latency ? CHART_LOG : CHART_LINEAR,
				latency ? CHART_TIME_NS : CHART_COUNT, !latency},
			  .mark = mark};
	unsigned n = kinds_of(doc, kind);
	int rc = 0;
	for (unsigned i = 0; i < n; i++)
		if (!kind_take(&kind[i]))
			rc = no_memory(err);
	if (rc == 0 && kind[0].ops.count < 2)
		rc = lacks(
			err,
			"the phase was over before a second window of the time series (--interval makes them shorter)");
	if (rc == 0) {
		c.num_marks = marks_of(doc, kind[0].phase, mark);
		kinds_draw(&c, kind, n, latency);
		chart_lines(out, &c, alone);
	}
	for (unsigned i = 0; i < n; i++) {
		points_free(&kind[i].ops);
		points_free(&kind[i].p50);
		points_free(&kind[i].late);
	}
	return rc;
}

/* ---- the phases of a GET ---- */

static int breakdown(FILE *out, const json_t *doc, bool alone, struct kv_error *err)
{
	json_t *parts = json_object_get(doc, "breakdown_ns"), *part;
	struct chart_bar bar[16];
	const char *name;
	unsigned n = 0;
	json_object_foreach(parts, name, part)
	{
		double mean = document_number(part, "mean");
		if (n == KV_COUNT(bar) || !isfinite(mean) || strcmp(name, "total") == 0)
			continue;
		snprintf(bar[n].label, sizeof(bar[n].label), "%s", name);
		bar[n++].value = KV_MAX(mean, 0.0);
	}
	if (n == 0)
		return lacks(err, "the run was without --breakdown");
	chart_bars(out, "Where the time of a GET goes (means)", bar, n, CHART_TIME_NS, alone);
	return 0;
}

/* ---- scaling ---- */

/* Numbers that are seen, rising. What finds no room is not drawn: no sweep of ours has so many. */
static void see(double *seen, unsigned *count, double v)
{
	unsigned i = 0;
	while (i < *count && seen[i] < v)
		i++;
	if (!isfinite(v) || *count == SEEN_MAX || (i < *count && seen[i] == v))
		return;
	memmove(&seen[i + 1], &seen[i], (*count - i) * sizeof(*seen));
	seen[i] = v;
	(*count)++;
}

/* So many as have room, the first and the last among them. Returns whether some were left out. */
static bool thin(double *seen, unsigned *count)
{
	if (*count <= HEAT_MAX)
		return false;
	for (unsigned i = 0; i < HEAT_MAX; i++)
		seen[i] = seen[(i * (*count - 1) + (HEAT_MAX - 1) / 2) / (HEAT_MAX - 1)];
	*count = HEAT_MAX;
	return true;
}

static int place(const double *seen, unsigned count, double v)
{
	for (unsigned i = 0; i < count; i++)
		if (seen[i] == v)
			return (int)i;
	return -1;
}

static void heat_names(const double *column, const double *row, const struct chart_heat *h,
		       char (*column_name)[CHART_LABEL_MAX], char (*row_name)[CHART_LABEL_MAX])
{
	for (unsigned c = 0; c < h->columns; c++)
		snprintf(column_name[c], CHART_LABEL_MAX, "%.0f", column[c]);
	for (unsigned r = 0; r < h->rows; r++)
		kv_size_format((uint64_t)KV_MIN(KV_MAX(row[r], 0.0), 1e18), row_name[r], CHART_LABEL_MAX);
}

/* More columns than a telephone shows apart become rows, where there is room. */
static void heat_turn(struct chart_heat *h, double turned[HEAT_MAX * HEAT_MAX])
{
	const struct chart_heat from = *h;
	for (unsigned r = 0; r < h->rows; r++)
		for (unsigned c = 0; c < h->columns; c++)
			turned[c * h->rows + r] = h->value[r * h->columns + c];
	h->x_label = from.y_label;
	h->y_label = from.x_label;
	h->column = from.row;
	h->row = from.column;
	h->columns = from.rows;
	h->rows = from.columns;
	h->value = turned;
}

/* A sweep's points: {num_workers, value_size, num_clients, ops_per_s}. Of several at one place the best counts. */
static int scaling(FILE *out, const json_t *doc, bool alone, struct kv_error *err)
{
	const json_t *points = document_at(doc, "sweep", "points", NULL), *p;
	double column[SEEN_MAX] = {0}, row[SEEN_MAX] = {0}, clients[SEEN_MAX] = {0}, value[HEAT_MAX * HEAT_MAX];
	double turned[HEAT_MAX * HEAT_MAX];
	char column_name[HEAT_MAX][CHART_LABEL_MAX], row_name[HEAT_MAX][CHART_LABEL_MAX];
	unsigned different = 0;
	bool some;
	struct chart_heat h = {.title = "Operations per second",
			       .x_label = "workers",
			       .y_label = "value",
			       .column = (const char(*)[CHART_LABEL_MAX])column_name,
			       .row = (const char(*)[CHART_LABEL_MAX])row_name,
			       .value = value};
	size_t i;
	json_array_foreach(points, i, p)
	{
		if (!isfinite(document_number(p, "ops_per_s")))
			continue;
		see(column, &h.columns, document_number(p, "num_workers"));
		see(row, &h.rows, document_number(p, "value_size"));
		see(clients, &different, document_number(p, "num_clients"));
	}
	if (h.columns * h.rows < 2)
		return lacks(err, document_is_sweep(doc)
					  ? "this sweep has measured less than two combinations of workers "
					    "and value size"
					  : "this result is of no sweep");
	some = thin(column, &h.columns);
	some |= thin(row, &h.rows);
	for (i = 0; i < HEAT_MAX * HEAT_MAX; i++)
		value[i] = NAN;
	json_array_foreach(points, i, p)
	{
		int c = place(column, h.columns, document_number(p, "num_workers"));
		int r = place(row, h.rows, document_number(p, "value_size"));
		double v = document_number(p, "ops_per_s");
		if (c >= 0 && r >= 0 && isfinite(v))
			value[(unsigned)r * h.columns + (unsigned)c] =
				fmax(value[(unsigned)r * h.columns + (unsigned)c], v);
	}
	if (some)
		h.title = "Operations per second (some columns and rows)";
	else if (different > 1)
		h.title = "Operations per second (best number of clients)";
	heat_names(column, row, &h, column_name, row_name);
	if (h.columns > HEAT_WIDE && h.rows <= HEAT_WIDE)
		heat_turn(&h, turned);
	chart_heat(out, &h, alone);
	return 0;
}

int figure_write(FILE *out, const json_t *doc, enum figure figure, bool alone, struct kv_error *err)
{
	switch (figure) {
	case FIGURE_PERCENTILES:
		return percentiles(out, doc, alone, err);
	case FIGURE_HISTOGRAM:
		return histogram(out, doc, alone, err);
	case FIGURE_THROUGHPUT:
		return over_time(out, doc, false, alone, err);
	case FIGURE_LATENCY:
		return over_time(out, doc, true, alone, err);
	case FIGURE_BREAKDOWN:
		return breakdown(out, doc, alone, err);
	case FIGURE_SCALING:
		return scaling(out, doc, alone, err);
	case FIGURES:
		break;
	}
	return lacks(err, "there is no such figure");
}
