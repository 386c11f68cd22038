/* SPDX-License-Identifier: Apache-2.0 */
/* top.c -- kv-client top: a line for each server, with what it did since the last look.
 *
 * It reads the statistics that stat reads, each server with a deadline of its own, so that one that is down is a line
 * with its state and holds up the others for a second at most. Rates need two looks: nothing is printed after the first
 * one. A server that was restarted begins anew: counters that fell count as none. On a terminal the table is drawn over
 * itself; elsewhere its lines follow each other. */
#include "kvcli/top.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kvcli/interrupt.h"

enum { ITEMS_MAX = 512, NAME_WIDTH = 24 };

#define ASK_NS 1000000000ull

enum number { GETS, HITS, MISSES, PUTS, OUT, IN, EVICTIONS, REPLIES, SERVE_NS, USED, LIMIT, BLOCKS, SESSIONS, NUMBERS };

static const char *const names[NUMBERS] = {
	[GETS] = "gets",         [HITS] = "hits",        [MISSES] = "misses",       [PUTS] = "puts",
	[OUT] = "bytes_read",    [IN] = "bytes_written", [EVICTIONS] = "evictions", [REPLIES] = "replies",
	[SERVE_NS] = "serve_ns", [USED] = "bytes_used",  [LIMIT] = "bytes_limit",   [BLOCKS] = "blocks",
	[SESSIONS] = "sessions"};

struct sight {
	int code; /* of kvc_stat: negative, nothing was seen */
	uint64_t at_ns, number[NUMBERS];
};

static void look(struct cli *cli, unsigned server, struct sight *out)
{
	static struct kvc_stat_item item[ITEMS_MAX];
	struct kvc_call call = {.size = sizeof(call), .server = server, .timeout_ns = ASK_NS};
	int n = kvc_stat(cli->pool, item, ITEMS_MAX, &call);

	*out = (struct sight){.code = n, .at_ns = kv_clock_now(&kv_clock_monotonic)};
	for (int i = 0; i < n; i++)
		for (unsigned k = 0; k < NUMBERS; k++)
			if (strcmp(item[i].name, names[k]) == 0)
				out->number[k] = item[i].value;
}

static uint64_t grown(const struct sight *before, const struct sight *now, enum number k)
{
	return now->number[k] > before->number[k] ? now->number[k] - before->number[k] : 0;
}

/* A number for a column of seven: 12.3k. */
static const char *brief(double v, char buf[16])
{
	static const char units[] = " kMGTP";
	unsigned u = 0;

	for (; v >= 999.5 && units[u + 1]; u++)
		v /= 1000;
	if (u == 0)
		snprintf(buf, 16, "%.0f", v);
	else
		snprintf(buf, 16, v < 99.95 ? "%.1f%c" : "%.0f%c", v, units[u]);
	return buf;
}

static const char *rate(const struct sight *before, const struct sight *now, enum number k, char buf[16])
{
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;

	return brief(seconds > 0 ? (double)grown(before, now, k) / seconds : 0, buf);
}

/* part of whole, in percent; "-": of nothing. */
static const char *percent(uint64_t part, uint64_t whole, char buf[16])
{
	if (whole == 0)
		return "-";
	snprintf(buf, 16, "%.1f", 100.0 * (double)part / (double)whole);
	return buf;
}

static void header_print(void)
{
	printf("%-*s %7s %6s %7s %8s %8s %7s %6s %7s %7s %7s %9s\n", NAME_WIDTH, "SERVER", "GET/s", "HIT%", "PUT/s",
	       "OUT B/s", "IN B/s", "MEM", "MEM%", "BLOCKS", "EVICT/s", "CLIENTS", "SERVE");
}

static void server_print(struct cli *cli, unsigned server, const struct sight *before, const struct sight *now)
{
	const char *name = cli->opt->servers.item[server];
	uint64_t hits = grown(before, now, HITS), replies = grown(before, now, REPLIES);
	char t[9][16], serve[32] = "-";

	if (now->code < 0 || before->code < 0) {
		printf("%-*.*s %s\n", NAME_WIDTH, NAME_WIDTH, name, now->code < 0 ? kv_strerror(now->code) : "is back");
		return;
	}
	if (replies)
		kv_duration_format(grown(before, now, SERVE_NS) / replies, serve, sizeof(serve));
	printf("%-*.*s %7s %6s %7s %8s %8s %7s %6s %7s %7s %7" PRIu64 " %9s\n", NAME_WIDTH, NAME_WIDTH, name,
	       rate(before, now, GETS, t[0]), percent(hits, hits + grown(before, now, MISSES), t[1]),
	       rate(before, now, PUTS, t[2]), rate(before, now, OUT, t[3]), rate(before, now, IN, t[4]),
	       brief((double)now->number[USED], t[5]), percent(now->number[USED], now->number[LIMIT], t[6]),
	       brief((double)now->number[BLOCKS], t[7]), rate(before, now, EVICTIONS, t[8]), now->number[SESSIONS],
	       serve);
}

/* As many servers as the terminal has lines for. */
static unsigned shown(const struct cli *cli, bool terminal)
{
	struct winsize size;

	if (!terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 4)
		return cli->opt->servers.count;
	return KV_MIN(cli->opt->servers.count, size.ws_row - 3u);
}

static void table_print(struct cli *cli, bool terminal, const struct sight *before, const struct sight *now)
{
	unsigned n = shown(cli, terminal);
	char stamp[KV_LOG_TIME_CAP];

	if (terminal)
		printf("\033[H\033[J");
	printf("%s\n", kv_log_time(stamp));
	header_print();
	for (unsigned i = 0; i < n; i++)
		server_print(cli, i, &before[i], &now[i]);
	if (n < cli->opt->servers.count)
		printf("(%u more)\n", cli->opt->servers.count - n);
}

static void pause_until(uint64_t until_ns)
{
	uint64_t now_ns;

	while (!interrupted() && (now_ns = kv_clock_now(&kv_clock_monotonic)) < until_ns)
		poll(NULL, 0, (int)KV_MIN((until_ns - now_ns) / 1000000 + 1, (uint64_t)100));
}

int top_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	static struct sight seen[2][KV_OPT_STRINGS_MAX];
	bool terminal = isatty(STDOUT_FILENO) && !cli->opt->once;
	int status = CLI_OK;

	(void)line;
	interrupt_catch(!cli->interactive);
	for (unsigned turn = 0; status == CLI_OK && !interrupted() && (turn < 2 || !cli->opt->once); turn++) {
		uint64_t until_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), cli->opt->interval_ns);
		struct sight *now = seen[turn % 2];

		for (unsigned i = 0; i < cli->opt->servers.count && !interrupted(); i++)
			look(cli, i, &now[i]);
		if (turn > 0 && !interrupted())
			table_print(cli, terminal, seen[1 - turn % 2], now);
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
