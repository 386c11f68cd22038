/* SPDX-License-Identifier: Apache-2.0 */
/* top.c -- kv-client top: a line for each server, with its activity since the last look, or its state while it is down.
 *
 * Members from the view have a line as well. Rates need two looks: nothing is printed after the first one. A restarted
 * server begins anew: counters that fell count as 0. On a terminal the table is drawn over itself, in its columns, and
 * q ends it; elsewhere its lines follow each other. */
#include "kvcli/top.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kvcli/interrupt.h"
#include "kvcli/look.h"
#include "kvcli/table.h"
#include "kvcli/keyboard.h"

enum { NAME, GETS, HITS, PUTS, OUT, IN, MEM, MEM_PART, BLOCKS, EVICT, CLIENTS, SERVE, COLUMNS };

static const struct table_column columns[COLUMNS] = {
	[NAME] = {.title = "SERVER", .width = 15, .cut = true, .keep = 24},
	[GETS] = {.title = "GET/s", .width = 5},
	[HITS] = {.title = "HIT%", .width = 5},
	[PUTS] = {.title = "PUT/s", .width = 5, .drop = 1},
	[OUT] = {.title = "OUT B/s", .width = 7, .drop = 2},
	[IN] = {.title = "IN B/s", .width = 6, .drop = 3},
	[MEM] = {.title = "MEM", .width = 5, .drop = 6},
	[MEM_PART] = {.title = "MEM%", .width = 5},
	[BLOCKS] = {.title = "BLOCKS", .width = 6, .drop = 7},
	[EVICT] = {.title = "EVICT/s", .width = 7, .drop = 5},
	[CLIENTS] = {.title = "CLIENTS", .width = 7, .drop = 4},
	[SERVE] = {.title = "SERVE", .width = 7},
};

/* A server's line. */
struct server_row {
	char text[COLUMNS][32];
	const char *cell[COLUMNS];
	const char *note; /* instead of numbers */
};

static uint64_t grown(const struct look *before, const struct look *now, enum look_number k)
{
	return now->number[k] > before->number[k] ? now->number[k] - before->number[k] : 0;
}

static const char *rate(const struct look *before, const struct look *now, enum look_number k, char buf[16])
{
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
	return look_brief(seconds > 0 ? (double)grown(before, now, k) / seconds : 0, buf);
}

/* Two looks at one server: the number may be another server's by now, and rates need two answers. */
static bool same(const struct look *before, const struct look *now)
{
	return before->known && before->code >= 0 && strcmp(before->info.name, now->info.name) == 0;
}

static void numbers_make(const struct look *before, const struct look *now, struct server_row *out)
{
	uint64_t hits = grown(before, now, LOOK_HITS), replies = grown(before, now, LOOK_REPLIES);
	char(*t)[32] = out->text;

	for (unsigned i = GETS; i < COLUMNS; i++)
		out->cell[i] = t[i];
	rate(before, now, LOOK_GETS, t[GETS]);
	out->cell[HITS] = look_percent(hits, hits + grown(before, now, LOOK_MISSES), t[HITS]);
	rate(before, now, LOOK_PUTS, t[PUTS]);
	rate(before, now, LOOK_OUT, t[OUT]);
	rate(before, now, LOOK_IN, t[IN]);
	look_brief((double)now->number[LOOK_USED], t[MEM]);
	out->cell[MEM_PART] = look_percent(now->number[LOOK_USED], now->number[LOOK_LIMIT], t[MEM_PART]);
	look_brief((double)now->number[LOOK_BLOCKS], t[BLOCKS]);
	rate(before, now, LOOK_EVICTIONS, t[EVICT]);
	snprintf(t[CLIENTS], sizeof(t[CLIENTS]), "%" PRIu64, now->number[LOOK_SESSIONS]);
	if (replies)
		kv_duration_format(grown(before, now, LOOK_SERVE_NS) / replies, t[SERVE], sizeof(t[SERVE]));
	else
		out->cell[SERVE] = "-";
}

static void row_make(const struct look *before, const struct look *now, struct server_row *out)
{
	*out = (struct server_row){.cell = {now->info.name}};
	if (now->code < 0)
		out->note = kv_strerror(now->code);
	else if (!same(before, now))
		out->note = "has come";
	else
		numbers_make(before, now, out);
}

/* Servers that fit the terminal, next to the time, the header, the count of the others, and the cursor. */
static unsigned lines_of(bool terminal)
{
	struct winsize size;
	if (!terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
		return LOOK_MAX;
	return size.ws_row > 5 ? size.ws_row - 4u : 1;
}

static void time_print(unsigned limit)
{
	char stamp[KV_LOG_TIME_CAP];
	kv_log_time(stamp);
	if (limit)
		kv_utf8_clip(stamp, limit);
	printf("%s\n", stamp);
}

static void table_print(bool terminal, unsigned n, const struct look *before, const struct look *now)
{
	struct table t = {.column = columns, .columns = COLUMNS, .limit = kv_terminal_columns(stdout)};
	unsigned lines = lines_of(terminal), left = 0;
	struct server_row row;
	for (unsigned i = 0; i < n; i++) {
		row_make(&before[i], &now[i], &row);
		if (now[i].known)
			table_measure(&t, row.cell);
	}
	table_fit(&t);
	if (terminal)
		printf("\033[H\033[J");
	time_print(t.limit);
	table_header(&t, stdout);
	for (unsigned i = 0; i < n; i++) {
		if (!now[i].known)
			continue;
		row_make(&before[i], &now[i], &row);
		if (lines > 0)
			table_row(&t, stdout, row.cell, row.note, false);
		left += lines == 0;
		lines -= lines > 0;
	}
	if (left)
		printf("(%u more)\n", left);
}

/* Returns whether there is another one; *status is CLI_FAILED when nothing can be printed. */
static bool turn_end(bool once, unsigned turn, uint64_t until_ns, int *status, struct kv_error *err)
{
	if (!kv_written(stdout)) {
		kv_fail(err, -EIO, "standard output cannot be written");
		*status = CLI_FAILED;
		return false;
	}
	if (ferror(stdout) || (once && turn > 0)) /* no reader */
		return false;
	return !keyboard_wait(until_ns) && !interrupted();
}

int top_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	static struct look seen[2][LOOK_MAX];
	bool once = cli->opt->once, terminal = kv_terminal(stdout) && !once, more = true;
	int status = CLI_OK;
	(void)line;
	interrupt_catch(true);
	if (!once)
		keyboard_begin();
	for (unsigned turn = 0; more; turn++) {
		uint64_t until_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), cli->opt->interval_ns);
		struct look *now = seen[turn % 2];
		unsigned n = look_all(cli, now);

		if (turn > 0 && !interrupted())
			table_print(terminal, n, seen[1 - turn % 2], now);
		more = turn_end(once, turn, until_ns, &status, err);
	}
	keyboard_end();
	interrupt_release(cli->interactive, cli->interactive);
	return status;
}
