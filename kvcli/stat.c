/* SPDX-License-Identifier: Apache-2.0 */
/* stat.c -- statistics, as text for people (groups with a name and a number per line) and as JSON for programs. Both
 * are printed from the same lists, so a new counter of the library shows up in both. */
#include "kvcli/stat.h"

#include <errno.h>
#include <inttypes.h>

#include "kvcli/file.h"
#include "kvcli/interrupt.h"

enum { ITEMS_MAX = 512 };

static const char *const state_names[] = {[KVC_SERVER_CONNECTING] = "connecting",
					  [KVC_SERVER_UP] = "up",
					  [KVC_SERVER_DOWN] = "down",
					  [KVC_SERVER_CLOSED] = "closed"};

/* ---- text ---- */

static void print_value(const char *name, uint64_t value, const char *unit)
{
	char text[32] = "";
	if (strcmp(unit, "bytes") == 0 && value >= 1024)
		kv_size_format(value, text, sizeof(text));
	else if (strcmp(unit, "ns") == 0 && value > 0)
		kv_duration_format(value, text, sizeof(text));
	else if (strcmp(name, "version") == 0)
		kv_version_format(value, text, sizeof(text));
	printf("%-28s %" PRIu64 "%s%s%s%s%s\n", name, value, unit[0] ? " " : "", unit, text[0] ? " (" : "", text,
	       text[0] ? ")" : "");
}

static void print_group(const struct kvc_stat_item *item, int n, const char *group)
{
	bool any = false;
	for (int i = 0; i < n; i++) {
		if (strcmp(item[i].group, group) != 0)
			continue;
		if (!any)
			printf("%s:\n", group);
		any = true;
		print_value(item[i].name, item[i].value, item[i].unit);
	}
}

/* The most useful groups come first, and groups unknown to this program last. */
static void print_items(const struct kvc_stat_item *item, int n)
{
	static const char *const order[] = {"server", "requests", "answers",     "calls", "time",
					    "waits",  "memory",   "connections", "peers", "fabric"};
	for (unsigned g = 0; g < KV_COUNT(order); g++)
		print_group(item, n, order[g]);
	for (int i = 0; i < n; i++) {
		bool known = false;
		for (unsigned g = 0; g < KV_COUNT(order) && !known; g++)
			known = strcmp(item[i].group, order[g]) == 0;
		for (int k = 0; k < i && !known; k++)
			known = strcmp(item[i].group, item[k].group) == 0;
		if (!known)
			print_group(item, n, item[i].group);
	}
}

/* ---- JSON ---- */

static json_t *items_object(const struct kvc_stat_item *item, int n)
{
	json_t *all = json_object();
	for (int i = 0; i < n; i++) {
		json_t *group = json_object_get(all, item[i].group);
		if (!group) {
			group = json_object();
			json_object_set_new(all, item[i].group, group);
		}
		json_object_set_new(group, item[i].name, json_integer((json_int_t)item[i].value));
	}
	return all;
}

/* ---- the servers ---- */

static int ask(struct cli *cli, unsigned server, unsigned shard, struct kvc_stat_item *item, struct kv_error *err)
{
	struct kvc_call call = {.size = sizeof(call), .server = server, .shard = shard};
	int n = kvc_stat(cli->pool, item, ITEMS_MAX, &call);
	if (n < 0)
		kv_fail(err, n, "stat of %s: %s", cli->opt->target.servers.item[server], kv_strerror(n));
	return n;
}

static unsigned shards_of(struct cli *cli, unsigned server)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	return cli->opt->shards && kvc_server_info(cli->pool, 0, server, &s) == 0 ? s.shards : 0;
}

static int server_text(struct cli *cli, unsigned server, struct kv_error *err)
{
	struct kvc_stat_item item[ITEMS_MAX];
	int n = ask(cli, server, 0, item, err);
	if (n < 0)
		return n;
	if (cli->opt->target.servers.count > 1 || cli->opt->shards || cli->opt->all)
		printf("[%s]\n", cli->opt->target.servers.item[server]);
	print_items(item, n);
	for (unsigned shard = 1; shard <= shards_of(cli, server); shard++) {
		n = ask(cli, server, shard, item, err);
		if (n < 0)
			return n;
		printf("[%s shard %u]\n", cli->opt->target.servers.item[server], shard - 1);
		print_items(item, n);
	}
	return 0;
}

static int server_json(struct cli *cli, unsigned server, json_t *servers, struct kv_error *err)
{
	struct kvc_stat_item item[ITEMS_MAX];
	int n = ask(cli, server, 0, item, err);
	json_t *object = json_pack("{s:s}", "server", cli->opt->target.servers.item[server]), *shards = json_array();
	json_array_append_new(servers, object);
	if (n < 0)
		json_object_set_new(object, "error", json_string(kvc_errkey(n)));
	else
		json_object_set_new(object, "counters", items_object(item, n));
	for (unsigned shard = 1; n >= 0 && shard <= shards_of(cli, server); shard++) {
		n = ask(cli, server, shard, item, err);
		if (n >= 0)
			json_array_append_new(shards, items_object(item, n));
	}
	if (cli->opt->shards)
		json_object_set(object, "shards", shards);
	json_decref(shards);
	return KV_MIN(n, 0);
}

/* ---- this client ---- */

static const char *heard_text(uint64_t ns, char *buf, size_t cap)
{
	char ago[32];
	if (ns == UINT64_MAX)
		snprintf(buf, cap, "never heard");
	else
		snprintf(buf, cap, "heard %s ago", kv_duration_format(ns, ago, sizeof(ago)));
	return buf;
}

static const char *numa_text(int node, char *buf, size_t cap)
{
	if (node < 0)
		buf[0] = '\0';
	else
		snprintf(buf, cap, ", NUMA node %d", node);
	return buf;
}

static void client_text(struct cli *cli)
{
	struct kvc_counters c = {.size = sizeof(c)};
	struct kvc_stat_item item[ITEMS_MAX];
	struct kvc_server_info s = {.size = sizeof(s)};
	struct kvc_rail_info r = {.size = sizeof(r)};
	struct kvc_info info = {.size = sizeof(info)};
	char ping[32], heard[48], numa[32], avoided[32];
	printf("[this client]\n");
	kvc_rail_info(cli->pool, 0, 0, &r); /* brings the engine's counters up to date */
	if (kvc_counters(cli->pool, &c) == 0)
		print_items(item, kvc_counters_items(&c, item, ITEMS_MAX));
	for (unsigned i = 0; i < cli->opt->target.servers.count && kvc_server_info(cli->pool, 0, i, &s) == 0; i++)
		kv_wrap(stdout, "", 2,
			"server %s: %s, node id %s, attachment %u, %u shard%s, %u of %u links up, "
			"credits %u of %u in use, %u queued, %u in flight, ping %s, %s, connected %" PRIu64
			", attached %" PRIu64 ", fenced %" PRIu64 " times%s%s%s%s",
			s.name, state_names[s.state], s.node_id[0] ? s.node_id : "not set", s.session, s.shards,
			s.shards == 1 ? "" : "s", s.links_up, s.links, s.credits_in_use, s.credits_granted, s.queued,
			s.inflight, kv_duration_format(s.ping_ns, ping, sizeof(ping)),
			heard_text(s.heard_ns, heard, sizeof(heard)), s.connects, s.attaches, s.fences,
			s.avoided_ns ? ", avoided for " : "",
			s.avoided_ns ? kv_duration_format(s.avoided_ns, avoided, sizeof(avoided)) : "",
			s.why[0] ? ", last trouble: " : "", s.why);
	kvc_info(cli->pool, &info);
	for (unsigned i = 0; i < info.rails && kvc_rail_info(cli->pool, 0, i, &r) == 0; i++)
		kv_wrap(stdout, "", 2,
			"rail %u: %s (%s%s), %s, %u of %u operations in flight, %" PRIu64 " sends, %" PRIu64
			" receives, %" PRIu64 " immediates, %" PRIu64 " EAGAIN, %" PRIu64 " failed (%" PRIu64
			" by the network or the peer), %" PRIu64 " failures of the rail",
			i, r.device, info.provider, numa_text(r.numa_node, numa, sizeof(numa)), r.out ? "OUT" : "up",
			r.inflight, r.depth, r.sends, r.receives, r.immediates, r.eagain, r.failed + r.peer_failures,
			r.peer_failures, r.failures);
}

static const char *const put_ways[] = {[KVC_PUT_READ] = "read", [KVC_PUT_INLINE] = "inline", [KVC_PUT_LAND] = "land"};

static json_t *server_state_object(const struct kvc_server_info *s)
{
	return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			 "s:b, s:b, s:s, s:I, s:s}",
			 "name", s->name, "links_up", (json_int_t)s->links_up, "node_id", s->node_id, "state",
			 state_names[s->state], "session", (json_int_t)s->session, "incarnation",
			 (json_int_t)s->incarnation, "shards", (json_int_t)s->shards, "links", (json_int_t)s->links,
			 "credits_granted", (json_int_t)s->credits_granted, "credits_in_use",
			 (json_int_t)s->credits_in_use, "queued", (json_int_t)s->queued, "inflight",
			 (json_int_t)s->inflight, "heard_ns", (json_int_t)KV_MIN(s->heard_ns, (uint64_t)INT64_MAX),
			 "ping_ns", (json_int_t)s->ping_ns, "connects", (json_int_t)s->connects, "attaches",
			 (json_int_t)s->attaches, "attempts_failed", (json_int_t)s->attempts_failed, "fences",
			 (json_int_t)s->fences, "pull", (int)s->pull, "local", (int)s->local, "put",
			 put_ways[s->put_way], "avoided_ns", (json_int_t)s->avoided_ns, "why", s->why);
}

static json_t *rail_object(const struct kvc_rail_info *r)
{
	return json_pack("{s:s, s:b, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "device", r->device, "up", !r->out, "numa_node", (int)r->numa_node, "failures",
			 (json_int_t)r->failures, "rebuild_failures", (json_int_t)r->rebuild_failures, "peer_failures",
			 (json_int_t)r->peer_failures, "depth", (json_int_t)r->depth, "inflight",
			 (json_int_t)r->inflight, "sends", (json_int_t)r->sends, "receives", (json_int_t)r->receives,
			 "writes", (json_int_t)r->writes, "reads", (json_int_t)r->reads, "immediates",
			 (json_int_t)r->immediates, "bytes_written", (json_int_t)r->bytes_written, "bytes_read",
			 (json_int_t)r->bytes_read, "eagain", (json_int_t)r->eagain, "failed", (json_int_t)r->failed);
}

static json_t *client_object(struct cli *cli)
{
	json_t *servers = json_array(), *rails = json_array();
	struct kvc_counters c = {.size = sizeof(c)};
	struct kvc_stat_item item[ITEMS_MAX];
	struct kvc_server_info s = {.size = sizeof(s)};
	struct kvc_rail_info r = {.size = sizeof(r)};
	struct kvc_info info = {.size = sizeof(info)};
	int n = 0;
	kvc_rail_info(cli->pool, 0, 0, &r);
	if (kvc_counters(cli->pool, &c) == 0)
		n = kvc_counters_items(&c, item, ITEMS_MAX);
	for (unsigned i = 0; i < cli->opt->target.servers.count && kvc_server_info(cli->pool, 0, i, &s) == 0; i++)
		json_array_append_new(servers, server_state_object(&s));
	kvc_info(cli->pool, &info);
	for (unsigned i = 0; i < info.rails && kvc_rail_info(cli->pool, 0, i, &r) == 0; i++)
		json_array_append_new(rails, rail_object(&r));
	return json_pack("{s:o, s:o, s:o}", "counters", items_object(item, n), "servers", servers, "rails", rails);
}

/* ---- the command ---- */

static int print_text(struct cli *cli, struct kv_error *err)
{
	int worst = 0;
	for (unsigned i = 0; i < cli->opt->target.servers.count; i++)
		worst = KV_MIN(worst, server_text(cli, i, err));
	if (cli->opt->all)
		client_text(cli);
	return worst;
}

static int print_json(struct cli *cli, struct kv_error *err)
{
	json_t *servers = json_array(), *all = json_object();
	int worst = 0;
	for (unsigned i = 0; i < cli->opt->target.servers.count; i++)
		worst = KV_MIN(worst, server_json(cli, i, servers, err));
	json_object_set_new(all, "servers", servers);
	if (cli->opt->all)
		json_object_set_new(all, "client", client_object(cli));
	return KV_MIN(worst, file_json(all, "stat", err));
}

/* ---- repeated looks ---- */

struct seen {
	struct kvc_stat_item item[ITEMS_MAX];
	int count;
};

/* Print the items that changed since the last look, and return how many. A counter shows its change per second. A
 * gauge, or a counter of a restarted server, shows its former value. */
static unsigned changes_print(const struct seen *before, const struct seen *now, double seconds)
{
	unsigned n = 0;
	for (int i = 0; i < now->count; i++) {
		const struct kvc_stat_item *a = &before->item[i], *b = &now->item[i];
		double rate = ((double)b->value - (double)a->value) / seconds;
		if (i >= before->count || a->value == b->value)
			continue;
		if (b->kind == KVC_STAT_COUNTER && rate > 0)
			printf("  %-28s %20" PRIu64 "  %+14.1f/s\n", b->name, b->value, rate);
		else
			printf("  %-28s %20" PRIu64 "  was %" PRIu64 "\n", b->name, b->value, a->value);
		n++;
	}
	return n;
}

/* The first look only keeps the values for the next one. 1: standard output has no reader. */
static int look(struct cli *cli, unsigned turn, double seconds, struct kv_error *err)
{
	static struct seen seen[KV_OPT_STRINGS_MAX][2];
	char stamp[KV_LOG_TIME_CAP];
	for (unsigned i = 0; i < cli->opt->target.servers.count; i++) {
		struct seen *now = &seen[i][turn % 2], *before = &seen[i][1 - turn % 2];
		now->count = ask(cli, i, 0, now->item, err);
		if (now->count < 0)
			return now->count;
		printf("%s %s%s\n", kv_log_time(stamp), cli->opt->target.servers.item[i],
		       turn ? "" : ": changes from now on");
		if (turn && changes_print(before, now, seconds) == 0)
			printf("  nothing changed\n");
	}
	if (!kv_written(stdout))
		return kv_fail(err, -EIO, "standard output cannot be written");
	return ferror(stdout) ? 1 : 0; /* no reader */
}

static int watch(struct cli *cli, struct kv_error *err)
{
	uint64_t looked_ns = kv_clock_now(&kv_clock_monotonic);
	int rc = 0;
	interrupt_catch(!cli->interactive);
	for (unsigned turn = 0; rc == 0 && !interrupted(); turn++) {
		uint64_t now_ns = kv_clock_now(&kv_clock_monotonic), until = kv_deadline(now_ns, cli->opt->watch_ns);
		rc = look(cli, turn, (double)(now_ns - looked_ns) / 1e9, err);
		looked_ns = now_ns;
		if (rc == 0)
			interrupt_wait(until);
	}
	interrupt_release(cli->interactive, false);
	return rc;
}

int stat_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	(void)line;
	if (cli->opt->watch_ns)
		return watch(cli, err) < 0 ? CLI_FAILED : CLI_OK;
	return (cli->opt->json ? print_json(cli, err) : print_text(cli, err)) < 0 ? CLI_FAILED : CLI_OK;
}
