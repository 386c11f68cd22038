/* SPDX-License-Identifier: Apache-2.0 */
/* look.c -- the figures of all servers, from the statistics of stat. Each server has a worker of its own, so a dead
 * server delays the others by a second at most. */
#include "kvcli/look.h"

#include <stdlib.h>

enum { ITEMS_MAX = 512 };

#define ASK_NS 1000000000ull

static const char *const names[LOOK_NUMBERS] = {[LOOK_GETS] = "gets",
						[LOOK_HITS] = "hits",
						[LOOK_MISSES] = "misses",
						[LOOK_PUTS] = "puts",
						[LOOK_OUT] = "bytes_read",
						[LOOK_IN] = "bytes_written",
						[LOOK_EVICTIONS] = "evictions",
						[LOOK_REPLIES] = "replies",
						[LOOK_SERVE_NS] = "serve_ns",
						[LOOK_USED] = "bytes_used",
						[LOOK_LIMIT] = "bytes_limit",
						[LOOK_BLOCKS] = "blocks",
						[LOOK_SESSIONS] = "sessions",
						[LOOK_VERSION] = "version",
						[LOOK_UPTIME_NS] = "uptime_ns",
						[LOOK_LEASED] = "leased_bytes",
						[LOOK_LEASE_AGE_NS] = "lease_age_ns"};

static void numbers_take(struct look *l, const struct kvc_stat_item *item, int n)
{
	for (int i = 0; i < n; i++)
		for (unsigned k = 0; k < LOOK_NUMBERS; k++)
			if (strcmp(item[i].name, names[k]) == 0)
				l->number[k] = item[i].value;
}

static void look_await(struct kvc_client *client, unsigned server, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .server = server, .timeout_ns = ASK_NS};
	struct kvc_stat_item *item = calloc(ITEMS_MAX, sizeof(*item));
	struct look *l = (struct look *)arg + server;
	if (l->known) {
		l->code = item ? kvc_stat_await(client, item, ITEMS_MAX, &call) : -KV_ENOMEM;
		numbers_take(l, item, l->code);
	}
	l->at_ns = kv_clock_now(&kv_clock_monotonic);
	free(item);
}

static unsigned places(struct cli *cli, struct look *out)
{
	for (unsigned i = 0; i < LOOK_MAX; i++) {
		struct kvc_server_info s = {.size = sizeof(s)};
		int rc = kvc_server_info(cli->pool, 0, i, &s);
		if (rc < 0 && rc != -KV_ENOTFOUND)
			return i;
		out[i] = (struct look){.known = rc == 0, .info = s};
	}
	return LOOK_MAX;
}

/* A server of the list that the view has under another address is that member, and has one line. */
static void twice_drop(struct cli *cli, struct look *looks, unsigned n)
{
	for (unsigned i = 0; i < KV_MIN(n, cli->opt->target.servers.count); i++)
		for (unsigned k = i + 1; k < n && looks[i].known && looks[i].info.member[0]; k++)
			if (looks[k].known && strcmp(looks[i].info.member, looks[k].info.member) == 0)
				looks[i].known = false;
}

unsigned look_all(struct cli *cli, struct look *out)
{
	unsigned n = places(cli, out);
	int rc = n ? kvc_run(cli->pool, n, look_await, out) : 0;
	for (unsigned i = 0; i < n; i++) {
		if (rc < 0)
			out[i].code = rc;
		if (out[i].known) /* the first attempt to connect may have ended by now */
			kvc_server_info(cli->pool, 0, i, &out[i].info);
	}
	twice_drop(cli, out, n);
	return n;
}

bool look_next(struct cli *cli, unsigned *at, struct kvc_server_info *out)
{
	int rc = -KV_ENOTFOUND;
	while (rc == -KV_ENOTFOUND && *at < LOOK_MAX) {
		*out = (struct kvc_server_info){.size = sizeof(*out)};
		rc = kvc_server_info(cli->pool, 0, (*at)++, out);
	}
	return rc == 0;
}

static int silent_fail(const struct look *l, int rc, const char *what, int silent, struct kv_error *err)
{
	bool known = !look_answers(l) && l->info.why[0];
	return kv_fail(err, rc, "%s: those of %d server%s are missing: %s%s%s", what, silent,
		       kv_plural((unsigned)silent), known ? l->info.why : l->info.name, known ? "" : ": ",
		       known ? "" : kv_strerror(rc));
}

int look_each(struct cli *cli, const char *what, look_ask ask, void *arg, struct kv_error *err)
{
	static struct look looks[LOOK_MAX];
	unsigned n = look_all(cli, looks);
	int silent = 0;
	for (unsigned i = 0; i < n; i++) {
		const struct kvc_call call = {.size = sizeof(call), .server = i};
		const struct look *l = &looks[i];
		int rc = look_answers(l) ? ask(cli, &call, &l->info, arg) : l->code;
		if (rc == -KV_ENOMEM)
			return kv_fail(err, rc, "%s: %s", what, kv_strerror(rc));
		if (l->known && rc < 0)
			silent_fail(l, rc, what, ++silent, err);
	}
	return silent;
}

bool look_answers(const struct look *l)
{
	return l->known && (l->code >= 0 || l->code == -KV_EDENIED);
}

const char *look_why(const struct look *l)
{
	return l->info.why[0] ? l->info.why : l->info.name;
}

const char *look_percent(uint64_t part, uint64_t whole, char buf[16])
{
	if (whole == 0)
		return "-";
	snprintf(buf, 16, "%.1f", 100.0 * (double)part / (double)whole);
	return buf;
}

const char *look_brief(double v, char buf[16])
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
