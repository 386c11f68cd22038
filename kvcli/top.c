/* SPDX-License-Identifier: Apache-2.0 */
/* top.c -- kv-client top: a line for each server, with what it did since the last look.
 *
 * Members that the view brings have a line, too. One that is down is a line with its state. Rates need two looks:
 * nothing is printed after the first one. A server that was restarted begins anew: counters that fell count as none. On
 * a terminal the table is drawn over itself; elsewhere its lines follow each other. */
#include "kvcli/top.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kvcli/interrupt.h"
#include "kvcli/look.h"

enum { NAME_WIDTH = 24, TABLE_WIDTH = 114 };

static uint64_t grown(const struct look *before, const struct look *now, enum look_number k)
{
	return now->number[k] > before->number[k] ? now->number[k] - before->number[k] : 0;
}

static const char *rate(const struct look *before, const struct look *now, enum look_number k, char buf[16])
{
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;

	return look_brief(seconds > 0 ? (double)grown(before, now, k) / seconds : 0, buf);
}

static void header_print(void)
{
	printf("%-*s %7s %6s %7s %8s %8s %7s %6s %7s %7s %7s %9s\n", NAME_WIDTH, "SERVER", "GET/s", "HIT%", "PUT/s",
	       "OUT B/s", "IN B/s", "MEM", "MEM%", "BLOCKS", "EVICT/s", "CLIENTS", "SERVE");
}

/* Two looks at one server: another one may have its place, and rates need two answers. */
static bool same(const struct look *before, const struct look *now)
{
	return before->known && before->code >= 0 && strcmp(before->info.name, now->info.name) == 0;
}

static void server_print(const struct look *before, const struct look *now)
{
	const char *name = now->info.name;
	uint64_t hits = grown(before, now, LOOK_HITS), replies = grown(before, now, LOOK_REPLIES);
	char t[9][16], serve[32] = "-";

	if (now->code < 0 || !same(before, now)) {
		printf("%-*.*s %s\n", NAME_WIDTH, NAME_WIDTH, name,
		       now->code < 0 ? kv_strerror(now->code) : "has come");
		return;
	}
	if (replies)
		kv_duration_format(grown(before, now, LOOK_SERVE_NS) / replies, serve, sizeof(serve));
	printf("%-*.*s %7s %6s %7s %8s %8s %7s %6s %7s %7s %7" PRIu64 " %9s\n", NAME_WIDTH, NAME_WIDTH, name,
	       rate(before, now, LOOK_GETS, t[0]), look_percent(hits, hits + grown(before, now, LOOK_MISSES), t[1]),
	       rate(before, now, LOOK_PUTS, t[2]), rate(before, now, LOOK_OUT, t[3]), rate(before, now, LOOK_IN, t[4]),
	       look_brief((double)now->number[LOOK_USED], t[5]),
	       look_percent(now->number[LOOK_USED], now->number[LOOK_LIMIT], t[6]),
	       look_brief((double)now->number[LOOK_BLOCKS], t[7]), rate(before, now, LOOK_EVICTIONS, t[8]),
	       now->number[LOOK_SESSIONS], serve);
}

/* Servers that the terminal has room for, beside the time, the header, how many more there are, and the cursor. A line
 * takes several where the terminal is narrower than the table. */
static unsigned lines_of(bool terminal)
{
	struct winsize size;
	unsigned rows, each;

	if (!terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
		return LOOK_MAX;
	each = (TABLE_WIDTH + size.ws_col - 1u) / size.ws_col;
	rows = size.ws_row > each + 3u ? size.ws_row - each - 3u : 0;
	return KV_MAX(rows / each, 1u);
}

static void table_print(bool terminal, unsigned n, const struct look *before, const struct look *now)
{
	unsigned lines = lines_of(terminal), left = 0;
	char stamp[KV_LOG_TIME_CAP];

	if (terminal)
		printf("\033[H\033[J");
	printf("%s\n", kv_log_time(stamp));
	header_print();
	for (unsigned i = 0; i < n; i++) {
		if (!now[i].known)
			continue;
		if (lines > 0)
			server_print(&before[i], &now[i]);
		left += lines == 0;
		lines -= lines > 0;
	}
	if (left)
		printf("(%u more)\n", left);
}

static void pause_until(uint64_t until_ns)
{
	uint64_t now_ns;

	while (!interrupted() && (now_ns = kv_clock_now(&kv_clock_monotonic)) < until_ns)
		poll(NULL, 0, (int)KV_MIN((until_ns - now_ns) / 1000000 + 1, (uint64_t)100));
}

int top_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	static struct look seen[2][LOOK_MAX];
	bool terminal = kv_terminal(stdout) && !cli->opt->once;
	int status = CLI_OK;

	(void)line;
	interrupt_catch(!cli->interactive);
	for (unsigned turn = 0; status == CLI_OK && !interrupted() && (turn < 2 || !cli->opt->once); turn++) {
		uint64_t until_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), cli->opt->interval_ns);
		struct look *now = seen[turn % 2];
		unsigned n;

		n = look_all(cli, now);
		if (turn > 0 && !interrupted())
			table_print(terminal, n, seen[1 - turn % 2], now);
		if (fflush(stdout) != 0 || ferror(stdout)) { /* the reader has gone, or the disk is full */
			kv_fail(err, -EIO, "standard output cannot be written");
			status = CLI_FAILED;
		} else if (turn == 0 || !cli->opt->once) {
			pause_until(until_ns);
		}
	}
	interrupt_release();
	return status;
}
