/* SPDX-License-Identifier: Apache-2.0 */
/* chart.c -- SVG made by hand: a few hundred lines instead of a library that a page would have to load.
 *
 * A chart is 440 units wide, so that its text of 13 units is readable on a telephone and not huge on a screen, where
 * three stand side by side. Colours are classes: a page and a file have the same rules, and need no variables, which
 * converters to PNG do not know. */
#include "kvbench/report/chart.h"

#include <math.h>
#include <string.h>

enum {
	WIDTH = 440,
	HEIGHT = 280,
	LEFT = 66,
	RIGHT = 16,
	TOP = 56,
	BOTTOM = 46,
	TICKS_MAX = 12,
	BAR_HEIGHT = 24,
	LETTER_WIDE = 9, /* a name may be all m */
	LABEL_LETTERS = 24
};

#define LETTER 7.5 /* width of one, about */

const char chart_style[] =
	"svg text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
	".kb{fill:#ffffff}.kt{fill:#1b1f24}.km{fill:#57606a}svg .kh{font-weight:600;font-size:14px}"
	".kg{stroke:#e3e6ea;stroke-width:1}.kl{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
	".s0{stroke:#0b62c4}.s1{stroke:#bc4c00}.s2{stroke:#1a7f37}.s3{stroke:#8250df}"
	".f0{fill:#0b62c4}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}.kx{fill:#cf222e;fill-opacity:.16}"
	".ke{stroke:#cf222e;stroke-width:1.5;stroke-dasharray:4 3}.kw{fill:#cf222e}"
	"@media screen and (prefers-color-scheme:dark){"
	".kb{fill:#161b22}.kt{fill:#e6edf3}.km{fill:#9da7b3}.kg{stroke:#2d343d}"
	".s0{stroke:#6cb6ff}.s1{stroke:#ffa657}.s2{stroke:#7ee787}.s3{stroke:#d2a8ff}"
	".f0{fill:#6cb6ff}.f1{fill:#ffa657}.f2{fill:#7ee787}.f3{fill:#d2a8ff}.kx{fill:#ff7b72;fill-opacity:.25}.ke{"
	"stroke:#ff7b72}"
	".kw{fill:#ff7b72}}";

void chart_escape(FILE *out, const char *text)
{
	for (const char *c = text ? text : ""; *c; c++) {
		if (*c == '&')
			fputs("&amp;", out);
		else if (*c == '<')
			fputs("&lt;", out);
		else if (*c == '>')
			fputs("&gt;", out);
		else if (*c == '"')
			fputs("&quot;", out);
		else if (*c == '\'')
			fputs("&#39;", out);
		else
			fputc((unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c, out);
	}
}

/* narrow: at most three characters and a letter. */
static void number_count(double v, bool narrow, char *buf, size_t cap)
{
	static const char *const suffix[] = {"", "k", "M", "G", "T"};
	unsigned i = 0;
	for (; fabs(v) >= 999.5 && i + 1 < KV_COUNT(suffix); i++)
		v /= 1000;
	if (narrow)
		snprintf(buf, cap, "%.*f%s", fabs(v) < 9.95 && i > 0, v, suffix[i]);
	else
		snprintf(buf, cap, "%.3g%s", v, suffix[i]);
}

char *chart_number(double v, enum chart_unit unit, char *buf, size_t cap)
{
	static const char *const times[] = {"ns", "us", "ms", "s"};
	unsigned i = 0;
	switch (unit) {
	case CHART_TIME_NS:
		for (; fabs(v) >= 999.5 && i + 1 < KV_COUNT(times); i++)
			v /= 1000;
		snprintf(buf, cap, "%.3g %s", v, times[i]);
		break;
	case CHART_SECONDS:
		snprintf(buf, cap, "%.4g s", v);
		break;
	case CHART_SHARE:
		snprintf(buf, cap, "%.7g %%", 100 * v);
		break;
	case CHART_COUNT:
		number_count(v, false, buf, cap);
		break;
	}
	return buf;
}

/* ---- axes ---- */

struct range {
	const struct chart_axis *axis;
	double low, high; /* as placed: logarithms for the two others */
	double from, to;  /* in the picture */
	unsigned ticks;
	double tick[TICKS_MAX]; /* values */
};

static double placed(const struct chart_axis *a, double v)
{
	if (a->scale == CHART_LOG)
		return v > 0 ? log10(v) : NAN;
	if (a->scale == CHART_NINES)
		return v < 1 ? -log10(1 - v) : NAN;
	return v;
}

static double at(const struct range *r, double v)
{
	return r->from + (placed(r->axis, v) - r->low) / (r->high - r->low) * (r->to - r->from);
}

static void tick(struct range *r, double v)
{
	double p = placed(r->axis, v), slack = 1e-9 * (r->high - r->low);
	if (r->ticks < TICKS_MAX && p >= r->low - slack && p <= r->high + slack)
		r->tick[r->ticks++] = v;
}

/* Ticks at even steps between two values. */
static void ticks_even(struct range *r, double low, double high)
{
	double v, raw = (high - low) / 4, ten = pow(10, floor(log10(raw))), step = raw / ten;
	step = ten * (step <= 1 ? 1 : step <= 2 ? 2 : step <= 5 ? 5 : 10);
	v = ceil(low / step) * step;
	/* Counted, since a step may be lost in rounding. */
	for (unsigned i = 0; i < TICKS_MAX && v <= high + step * 1e-9; i++, v += step)
		tick(r, fabs(v) < step * 1e-9 ? 0 : v);
}

static void ticks_decades(struct range *r, unsigned parts, double step)
{
	static const double part[] = {1, 2, 5};
	r->ticks = 0;
	for (double k = floor(r->low); k <= r->high; k += step)
		for (unsigned i = 0; i < parts; i++)
			tick(r, part[i] * pow(10, k));
}

/* Two ticks say little of a scale: where fewer than three powers of ten fit, there are 2 and 5 as well; where those are
 * fewer, too, ticks are at even steps. */
static void ticks_log(struct range *r)
{
	double decades = r->high - r->low;
	ticks_decades(r, decades < 2.5 ? 3 : 1, decades > 8 ? 2 : 1);
	if (r->ticks < 3)
		ticks_decades(r, 3, 1);
	if (r->ticks >= 3)
		return;
	r->ticks = 0;
	ticks_even(r, pow(10, r->low), pow(10, r->high));
}

static void range_fit(struct range *r, const struct chart *c, bool is_x)
{
	r->axis = is_x ? &c->x : &c->y;
	r->low = INFINITY;
	r->high = -INFINITY;
	for (unsigned l = 0; l < c->num_lines; l++)
		for (size_t i = 0; i < c->line[l].count; i++) {
			double p = placed(r->axis, is_x ? c->line[l].x[i] : c->line[l].y[i]);
			if (isfinite(p)) {
				r->low = KV_MIN(r->low, p);
				r->high = KV_MAX(r->high, p);
			}
		}
	if (!(r->low <= r->high))
		r->low = 0, r->high = 1;
	if (r->axis->from_zero || r->axis->scale == CHART_NINES)
		r->low = 0;
	if (r->axis->from_zero && !is_x)
		r->high *= 1.05;
	if (r->high - r->low < 1e-9 * KV_MAX(fabs(r->high), 1.0))
		r->low -= r->axis->scale == CHART_LOG ? 0.2 : 0, r->high += r->axis->scale == CHART_LINEAR ? 1 : 0.2;
	r->from = is_x ? LEFT : HEIGHT - BOTTOM;
	r->to = is_x ? WIDTH - RIGHT : TOP;
	if (r->axis->scale == CHART_LINEAR)
		ticks_even(r, r->low, r->high);
	else if (r->axis->scale == CHART_LOG)
		ticks_log(r);
	else
		for (double k = 0; k <= r->high && r->ticks < TICKS_MAX; k++)
			tick(r, 1 - pow(10, -k));
}

/* ---- pictures ---- */

static void words(FILE *out, double x, double y, const char *class, const char *anchor, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class, anchor);
	chart_escape(out, text);
	fputs("</text>\n", out);
}

static void begin(FILE *out, const char *title, double height, bool alone)
{
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\"%s role=\"img\" aria-label=\"",
		WIDTH, height, alone ? " width=\"880\"" : "");
	chart_escape(out, title);
	fputs("\">\n", out);
	if (alone)
		fprintf(out, "<style>%s</style>\n", chart_style);
	fprintf(out, "<rect class=\"kb\" width=\"%d\" height=\"%.0f\" rx=\"6\"/>\n", WIDTH, height);
	words(out, 14, 22, "kt kh", "start", title);
}

/* An axis that is not even says so. */
static const char *label_of(const struct chart_axis *a, char *buf, size_t cap)
{
	static const char *const scale[] = {
		[CHART_LINEAR] = "", [CHART_LOG] = " (log)", [CHART_NINES] = " (log of the rest)"};
	snprintf(buf, cap, "%s%s", a->label, scale[a->scale]);
	return buf;
}

static void axes(FILE *out, const struct range *x, const struct range *y)
{
	char text[CHART_LABEL_MAX + 32];
	double last = -100;
	for (unsigned i = 0; i < y->ticks; i++) {
		double py = at(y, y->tick[i]);
		fprintf(out, "<path class=\"kg\" d=\"M%d %.1fH%d\"/>\n", LEFT, py, WIDTH - RIGHT);
		words(out, LEFT - 6, py + 4, "km", "end", chart_number(y->tick[i], y->axis->unit, text, sizeof(text)));
	}
	for (unsigned i = 0; i < x->ticks; i++) {
		double px = at(x, x->tick[i]), half;
		chart_number(x->tick[i], x->axis->unit, text, sizeof(text));
		half = 3.8 * (double)strlen(text);
		fprintf(out, "<path class=\"kg\" d=\"M%.1f %dV%d\"/>\n", px, TOP, HEIGHT - BOTTOM);
		if (px - half < last + 6 || px + half > WIDTH - 2)
			continue;
		words(out, px, HEIGHT - BOTTOM + 17, "km", "middle", text);
		last = px + half;
	}
	words(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 9, "km", "middle", label_of(x->axis, text, sizeof(text)));
	words(out, 14, 42, "km", "start", label_of(y->axis, text, sizeof(text)));
}

static bool drawn(const struct chart_line *l, size_t i, const struct range *x, const struct range *y)
{
	return i < l->count && isfinite(at(x, l->x[i])) && isfinite(at(y, l->y[i]));
}

/* A point between two that are left out is a dot. */
static void draw_line(FILE *out, const struct chart_line *l, unsigned n, const struct range *x, const struct range *y)
{
	bool pen = false;
	fprintf(out, "<path class=\"kl s%u\" d=\"", n);
	for (size_t i = 0; i < l->count; i++) {
		if (!drawn(l, i, x, y)) {
			pen = false;
			continue;
		}
		fprintf(out, "%c%.1f %.1f%s", pen ? 'L' : 'M', at(x, l->x[i]), at(y, l->y[i]),
			pen || drawn(l, i + 1, x, y) ? "" : "h0");
		pen = true;
	}
	fputs("\"/>\n", out);
}

static void draw_bars(FILE *out, const struct chart_line *l, unsigned n, const struct range *x, const struct range *y)
{
	double before = NAN;
	for (size_t i = 0; i < l->count; i++) {
		double px = at(x, l->x[i]), py = at(y, l->y[i]), left;
		if (!isfinite(px) || !isfinite(py))
			continue;
		left = isfinite(before) ? KV_MIN(before, px - 1.5) : px - 3;
		fprintf(out, "<rect class=\"f%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", n, left,
			py, px - left, KV_MAX(y->from - py, 0.5));
		before = px;
	}
}

static void legend(FILE *out, const struct chart *c)
{
	double right = WIDTH - RIGHT;
	for (unsigned i = c->num_lines; i-- > 0 && c->num_lines > 1;) {
		words(out, right, 42, "kt", "end", c->line[i].name);
		right -= 7 * (double)strlen(c->line[i].name) + 18;
		fprintf(out, "<rect class=\"f%u\" x=\"%.1f\" y=\"32\" width=\"10\" height=\"10\" rx=\"2\"/>\n", i,
			right);
		right -= 12;
	}
}

/* A label that would cover the one before is left out; its line stays. */
static void draw_marks(FILE *out, const struct chart *c, const struct range *x)
{
	double free_from = -INFINITY;
	for (unsigned i = 0; i < c->num_marks; i++) {
		const struct chart_mark *m = &c->mark[i];
		double from = KV_MAX(at(x, m->from), x->from), to = KV_MIN(at(x, m->to), x->to);
		double wide = m->label ? LETTER * (double)strlen(m->label) : 0;
		bool left = from + wide > WIDTH - 2;
		if (!m->label && to >= from)
			fprintf(out, "<rect class=\"kx\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", from,
				TOP, KV_MAX(to - from, 2.0), HEIGHT - BOTTOM - TOP);
		if (!m->label || from > x->to)
			continue;
		fprintf(out, "<path class=\"ke\" d=\"M%.1f %dV%d\"/>\n", from, TOP, HEIGHT - BOTTOM);
		if ((left ? from - wide : from) < free_from)
			continue;
		words(out, left ? from - 4 : from + 4, TOP + 11, "kw", left ? "end" : "start", m->label);
		free_from = left ? from : from + wide;
	}
}

void chart_lines(FILE *out, const struct chart *c, bool alone)
{
	struct range x = {0}, y = {0};
	range_fit(&x, c, true);
	range_fit(&y, c, false);
	begin(out, c->title, HEIGHT, alone);
	axes(out, &x, &y);
	draw_marks(out, c, &x);
	for (unsigned i = 0; i < c->num_lines; i++)
		(c->line[i].bars ? draw_bars : draw_line)(out, &c->line[i], i, &x, &y);
	legend(out, c);
	fputs("</svg>\n", out);
}

void chart_bars(FILE *out, const char *title, const struct chart_bar *bar, unsigned count, enum chart_unit unit,
		bool alone)
{
	double most = 0, left = 86, wide;
	char text[32];
	for (unsigned i = 0; i < count; i++) {
		most = KV_MAX(most, bar[i].value);
		left = KV_MAX(left, 16 + LETTER_WIDE * (double)KV_MIN(strlen(bar[i].label), (size_t)LABEL_LETTERS));
	}
	wide = WIDTH - left - 74;
	begin(out, title, 40 + BAR_HEIGHT * (double)count + 8, alone);
	for (unsigned i = 0; i < count; i++) {
		double y = 40 + BAR_HEIGHT * (double)i,
		       w = bar[i].value > 0 ? KV_MAX(wide * bar[i].value / most, 1.0) : 0;
		words(out, left - 8, y + 15, "kt", "end", bar[i].label);
		fprintf(out, "<rect class=\"f0\" x=\"%.0f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n", left,
			y + 2, w, BAR_HEIGHT - 6);
		words(out, left + w + 6, y + 15, "km", "start", chart_number(bar[i].value, unit, text, sizeof(text)));
	}
	fputs("</svg>\n", out);
}

void chart_heat(FILE *out, const struct chart_heat *h, bool alone)
{
	const double left = 76, top = 72, row_height = 30, wide = (WIDTH - left - RIGHT) / KV_MAX(h->columns, 1u);
	double least = INFINITY, most = -INFINITY;
	char text[32];
	for (unsigned i = 0; i < h->rows * h->columns; i++)
		if (isfinite(h->value[i]) && h->value[i] > 0) {
			least = KV_MIN(least, log(h->value[i]));
			most = KV_MAX(most, log(h->value[i]));
		}
	begin(out, h->title, top + row_height * h->rows + 14, alone);
	words(out, 14, 42, "km", "start", h->y_label);
	words(out, WIDTH - RIGHT, 42, "km", "end", h->x_label);
	for (unsigned c = 0; c < h->columns; c++)
		words(out, left + wide * (c + 0.5), top - 8, "km", "middle", h->column[c]);
	for (unsigned r = 0; r < h->rows; r++) {
		double y = top + row_height * r;
		words(out, left - 8, y + 19, "kt", "end", h->row[r]);
		for (unsigned c = 0; c < h->columns; c++) {
			double v = h->value[r * h->columns + c];
			double shade = v > 0 && most > least ? (log(v) - least) / (most - least) : v > 0;
			if (!isfinite(v))
				continue;
			fprintf(out,
				"<rect class=\"f0\" fill-opacity=\"%.2f\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
				"height=\"%.1f\" "
				"rx=\"2\"/>\n",
				0.06 + 0.44 * shade, left + wide * c + 1, y + 1, wide - 2, row_height - 2);
			number_count(v, wide < 48, text, sizeof(text));
			words(out, left + wide * (c + 0.5), y + 19, "kt", "middle", text);
		}
	}
	fputs("</svg>\n", out);
}
