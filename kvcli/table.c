/* SPDX-License-Identifier: Apache-2.0 */
/* table.c -- the choice of columns that fit a terminal.
 *
 * If not all fit, first the long texts are cut, then columns are left out in the order of their numbers, then texts are
 * cut further. A row is built as one text and clipped: a wider one would break a table that is drawn over itself. */
#include "kvcli/table.h"

#include "base/base.h"

enum { LINE_CAP = 2048, CUT_MIN = 8, NOTE_INDENT = 4 };

static unsigned least_of(const struct table_column *c)
{
	return KV_MAX(c->width, (unsigned)strlen(c->title));
}

void table_measure(struct table *t, const char *const *cell)
{
	for (unsigned i = 0; i < t->columns && cell[i]; i++)
		t->width[i] = KV_MAX(t->width[i], kv_utf8_columns(cell[i]));
}

static unsigned excess(const struct table *t)
{
	unsigned wide = 0;
	for (unsigned i = 0; i < t->columns; i++)
		wide += t->out[i] ? 0 : t->width[i] + 1;
	return t->limit && wide > t->limit + 1 ? wide - t->limit - 1 : 0;
}

/* Cut the widest text, a column at a time, but not below `keep`, or below CUT_MIN. */
static void cut(struct table *t, bool keep)
{
	unsigned more;
	for (more = excess(t); more > 0; more--) {
		const struct table_column *c = t->column;
		int widest = -1;
		for (unsigned i = 0; i < t->columns; i++)
			if (c[i].cut && !t->out[i] && t->width[i] > (keep ? c[i].keep : (unsigned)CUT_MIN) &&
			    (widest < 0 || t->width[i] > t->width[widest]))
				widest = (int)i;
		if (widest < 0)
			return;
		t->width[widest]--;
	}
}

/* False: no column may be left out. */
static bool drop(struct table *t)
{
	unsigned at = 0, highest = 0;
	for (unsigned i = 0; i < t->columns; i++)
		if (!t->out[i] && t->column[i].drop > highest) {
			highest = t->column[i].drop;
			at = i;
		}
	t->out[at] |= highest > 0;
	return highest > 0;
}

void table_fit(struct table *t)
{
	unsigned full[TABLE_COLUMNS_MAX];
	for (unsigned i = 0; i < t->columns; i++)
		full[i] = t->width[i] = KV_MAX(t->width[i], least_of(&t->column[i]));
	/* Each time from the full widths: after leaving out a column, the others may have room again. */
	for (bool more = true; more && (cut(t, true), excess(t)); more = drop(t))
		memcpy(t->width, full, sizeof(full));
	cut(t, false);
}

static void line_print(const struct table *t, FILE *out, char *line)
{
	size_t len = strlen(line);
	while (len > 0 && line[len - 1] == ' ')
		line[--len] = 0;
	if (t->limit)
		kv_utf8_clip(line, t->limit);
	fprintf(out, "%s\n", line);
}

static void cell_add(const struct table *t, unsigned i, const char *text, char *line)
{
	char cell[LINE_CAP];
	size_t at = strlen(line);
	unsigned pad;
	snprintf(cell, sizeof(cell), "%s", text);
	kv_utf8_clip(cell, t->width[i]);
	pad = t->width[i] - kv_utf8_columns(cell);
	snprintf(line + at, LINE_CAP - at, "%s%*s%s%*s", at ? " " : "", t->column[i].cut ? 0 : (int)pad, "", cell,
		 t->column[i].cut ? (int)pad : 0, "");
}

void table_header(const struct table *t, FILE *out)
{
	char line[LINE_CAP] = "";
	for (unsigned i = 0; i < t->columns; i++)
		if (!t->out[i])
			cell_add(t, i, t->column[i].title, line);
	line_print(t, out, line);
}

void table_row(const struct table *t, FILE *out, const char *const *cell, const char *note, bool wrap)
{
	char line[LINE_CAP] = "";
	size_t at;
	bool apart;
	for (unsigned i = 0; i < t->columns && cell[i]; i++)
		if (!t->out[i])
			cell_add(t, i, cell[i], line);
	at = strlen(line);
	apart = note && wrap && t->limit && kv_utf8_columns(line) + 1 + kv_utf8_columns(note) > t->limit;
	if (note && !apart)
		snprintf(line + at, LINE_CAP - at, " %s", note);
	line_print(t, out, line);
	if (apart)
		kv_wrap_in(out, t->limit, t->limit > 4 * NOTE_INDENT ? "    " : "", 0, "%s", note);
}
