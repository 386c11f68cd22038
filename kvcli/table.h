/* SPDX-License-Identifier: Apache-2.0 */
/* table.h -- a table of text that fits the columns of a terminal. */
#ifndef KVRAIL_KVCLI_TABLE_H
#define KVRAIL_KVCLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 12 };

struct table_column {
	const char *title;
	unsigned width; /* at least this wide */
	unsigned drop;  /* without room the column with the highest number is left out first; 0: it stays */
	bool cut;       /* left-aligned; its text may be cut, down to `keep` before a column is left out */
	unsigned keep;
};

/* A table: fill in the first three, measure all rows, fit, then print. */
struct table {
	const struct table_column *column;
	unsigned columns;
	unsigned limit;
	unsigned width[TABLE_COLUMNS_MAX];
	bool out[TABLE_COLUMNS_MAX]; /* left out */
};

/* table_measure -- account for a row: the texts of its cells, up to the first NULL. */
void table_measure(struct table *t, const char *const *cell);

/* table_fit -- choose columns and their widths. Once, after the last table_measure. */
void table_fit(struct table *t);

/* table_header -- print the titles. */
void table_header(const struct table *t, FILE *out);

/* table_row -- print a row. note: text behind its last cell, or NULL. No line is wider than the limit: the note is cut,
 * or, with `wrap`, continued on lines of its own. */
void table_row(const struct table *t, FILE *out, const char *const *cell, const char *note, bool wrap);

#endif
