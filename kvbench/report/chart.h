/* SPDX-License-Identifier: Apache-2.0 */
/* chart.h -- charts as SVG: lines, steps, bars and a heat map. They know numbers and labels, and nothing of kv-bench.
 */
#ifndef KVRAIL_KVBENCH_REPORT_CHART_H
#define KVRAIL_KVBENCH_REPORT_CHART_H

#include "base/base.h"

enum chart_scale { CHART_LINEAR, CHART_LOG, CHART_NINES /* 0 %, 90 %, 99 %, ...: from shares of 0 to below 1 */ };
enum chart_unit { CHART_COUNT, CHART_TIME_NS, CHART_SECONDS, CHART_SHARE };

enum { CHART_LINES_MAX = 4, CHART_LABEL_MAX = 48 };

struct chart_axis {
	const char *label;
	enum chart_scale scale;
	enum chart_unit unit;
	bool from_zero; /* of CHART_LINEAR: 0 is on the axis */
};

struct chart_line {
	const char *name;
	const double *x, *y; /* a point with NAN is left out, and the line broken there */
	size_t count;
	bool bars; /* columns down to the axis, each from the x before to its own */
};

/* Something that happened from one x to another; with a label: at the x `from`. */
struct chart_mark {
	double from, to;
	const char *label; /* or NULL */
};

struct chart {
	const char *title;
	struct chart_axis x, y;
	struct chart_line line[CHART_LINES_MAX];
	unsigned num_lines;
	const struct chart_mark *mark;
	unsigned num_marks;
};

/* One bar of a list, or one cell of a heat map. */
struct chart_bar {
	char label[CHART_LABEL_MAX];
	double value;
};

struct chart_heat {
	const char *title, *x_label, *y_label;
	unsigned columns, rows;
	const char (*column)[CHART_LABEL_MAX], (*row)[CHART_LABEL_MAX];
	const double *value; /* rows * columns; NAN: not measured */
};

/* The rules that charts need, for a page's <style>: light, dark, and print. */
extern const char chart_style[];

/* chart_escape -- text for HTML and SVG, in elements and in quotes. Control characters become blanks. */
void chart_escape(FILE *out, const char *text);

/* Each writes one <svg>. alone: a file of its own, with the rules in it. Labels may come from anywhere. */
void chart_lines(FILE *out, const struct chart *chart, bool alone);
void chart_bars(FILE *out, const char *title, const struct chart_bar *bar, unsigned count, enum chart_unit unit,
		bool alone);
/* Shades are by the logarithm: rows of values of other sizes differ by decades. */
void chart_heat(FILE *out, const struct chart_heat *heat, bool alone);

/* chart_number -- a number as the charts write it: "81.7k", "377 us", "12 s", "99.9 %". Returns buf. */
char *chart_number(double value, enum chart_unit unit, char *buf, size_t cap);

#endif
