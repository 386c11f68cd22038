/* SPDX-License-Identifier: Apache-2.0 */
/* command.c -- the commands of kv-client.
 *
 * get does not know a value's length in advance. A value up to half of the client's buffer is borrowed in one call. For
 * a longer one, a call with room for one byte is refused with the length, and counts as no hit; an ordinary get then
 * fills memory of that size, in ranges of one generation. If a longer value has replaced it by then, get retries. */
#include "kvcli/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvcli/cluster.h"
#include "kvcli/drain.h"
#include "kvcli/events.h"
#include "kvcli/file.h"
#include "kvcli/interrupt.h"
#include "kvcli/lease.h"
#include "kvcli/space.h"
#include "kvcli/stat.h"
#include "kvcli/tenant.h"
#include "kvcli/top.h"

enum { GET_TRIES = 8 };

static struct kvc_key key_of(const char *text)
{
	return (struct kvc_key){text, strlen(text)};
}

/* The code of a call does not show which of several servers failed, so the sentence names all servers out of reach. */
static int failed(struct cli *cli, struct kv_error *err, const char *command, int64_t code)
{
	char down[256] = "";
	for (unsigned i = 0; i < cli->opt->target.servers.count; i++) {
		struct kvc_server_info s = {.size = sizeof(s)};
		size_t at = strlen(down);
		if (kvc_server_info(cli->pool, 0, i, &s) < 0 || s.state == KVC_SERVER_UP)
			continue;
		snprintf(down + at, sizeof(down) - at, "; %.180s", s.why[0] ? s.why : s.name);
	}
	kv_fail(err, (int)code, "%s: %s%s", command, kv_strerror((int)code), down);
	return CLI_FAILED;
}

/* A typed key for a message: nothing in it can drive a terminal. */
enum { KEY_TEXT = 4 * KV_KEY_MAX + 1 };
static const char *typed(const char *key, char buf[KEY_TEXT])
{
	return kv_utf8_text(key, strlen(key), buf, KEY_TEXT);
}

/* A line about a key. Programs get its bytes; terminals get a form that cannot drive them. */
static void key_print(unsigned found, const char *key)
{
	printf("%u ", found);
	if (isatty(STDOUT_FILENO))
		kv_utf8_print(stdout, key, strlen(key), false);
	else
		fputs(key, stdout);
	putchar('\n');
}

static int missing(const struct cli_line *line, struct kv_error *err)
{
	char text[KEY_TEXT];
	kv_fail(err, -KV_ENOTFOUND, "%s: there is no key '%s'", line->words.item[0], typed(line->words.item[1], text));
	return CLI_NOT_FOUND;
}

/* ---- get ---- */

struct getting {
	struct kvc_key key;
	void *data;
	int64_t len; /* or a code */
};

static void data_keep(struct getting *g, const void *from)
{
	g->data = malloc((size_t)KV_MAX(g->len, 1));
	if (g->data)
		memcpy(g->data, from, (size_t)g->len);
	else
		g->len = -KV_ENOMEM;
}

/* Runs on the client's loop. Gets the whole value if it can be borrowed, else only its length (data stays NULL), unless
 * it is one byte. */
static void get_small(struct kvc_client *client, unsigned w, void *arg)
{
	uint64_t value_len = 0;
	uint8_t byte;
	struct kvc_call ask = {.size = sizeof(ask), .out_value_len = &value_len};
	struct getting *g = arg;
	struct kvc_borrowed borrowed = {0};
	(void)w;
	g->len = kvc_get_borrowed_await(client, g->key, 0, NULL, &borrowed);
	if (g->len >= 0) {
		data_keep(g, borrowed.data);
		kvc_borrowed_release(client, &borrowed);
	} else if (g->len == -KV_ETOOBIG || g->len == -KV_ENOTSUP) { /* it is sealed */
		g->len = kvc_get_await(client, g->key, &byte, 1, &ask);
		if (g->len >= 0)
			data_keep(g, &byte);
		else if (g->len == -KV_ETOOBIG)
			g->len = (int64_t)value_len;
	}
}

static void get_large(struct cli *cli, struct getting *g)
{
	g->data = malloc((size_t)KV_MAX(g->len, 1));
	g->len = g->data ? kvc_get(cli->pool, g->key, g->data, (uint64_t)g->len, NULL) : -KV_ENOMEM;
	if (g->len < 0) {
		free(g->data);
		g->data = NULL;
	}
}

static void get_value(struct cli *cli, struct getting *g)
{
	for (unsigned tries = 0; tries < GET_TRIES; tries++) {
		int rc = kvc_run(cli->pool, 1, get_small, g);
		if (rc < 0)
			g->len = rc;
		if (g->len >= 0 && !g->data)
			get_large(cli, g);
		if (g->len != -KV_ETOOBIG)
			return;
	}
}

/* Only people get a newline, and no bytes that drive their terminal: files and pipes get the value's bytes alone,
 * except that values of several commands are on lines of their own. */
static int value_write(struct cli *cli, const struct getting *g, struct kv_error *err)
{
	bool terminal = !cli->opt->output && isatty(STDOUT_FILENO);
	int rc = 0;
	fflush(stdout);
	if (terminal)
		kv_utf8_print(stdout, g->data, (size_t)g->len, true);
	else
		rc = file_write(cli->opt->output, g->data, (uint64_t)g->len, err);
	if (terminal)
		putchar('\n');
	else if (rc == 0 && !cli->opt->output && cli->interactive)
		rc = file_write(NULL, "\n", 1, err);
	return rc;
}

static int run_get(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct getting g = {.key = key_of(line->words.item[1])};
	int rc;
	get_value(cli, &g);
	if (g.len == -KV_ENOTFOUND)
		return missing(line, err);
	if (g.len < 0)
		return failed(cli, err, "get", g.len);
	rc = value_write(cli, &g, err);
	free(g.data);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}

/* ---- put ---- */

static int run_put(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = cli->opt->ttl};
	const char *value = line->words.count > 2 ? line->words.item[2] : NULL;
	const char *path = cli->opt->file ? cli->opt->file : strcmp(value, "-") == 0 ? "-" : NULL;
	const void *data = value;
	void *owned = NULL;
	uint64_t len = value ? strlen(value) : 0;
	int rc;
	if (path) {
		if (file_read(path, &owned, &len, err) < 0)
			return CLI_FAILED;
		data = owned;
	}
	rc = kvc_put(cli->pool, key_of(line->words.item[1]), data, len, &call);
	free(owned);
	if (rc == -KV_EEXIST) {
		char text[KEY_TEXT];
		kv_fail(err, rc,
			"put: key '%s' exists with other bytes and keeps them; delete it first, or use another key",
			typed(line->words.item[1], text));
		return CLI_FAILED;
	}
	return rc < 0 ? failed(cli, err, "put", rc) : CLI_OK;
}

/* ---- the others ---- */

static int run_delete(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	int rc = kvc_delete(cli->pool, key_of(line->words.item[1]), NULL);
	if (rc == -KV_ENOTFOUND)
		return missing(line, err);
	return rc < 0 ? failed(cli, err, "delete", rc) : CLI_OK;
}

static int run_exists(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct kvc_key keys[KV_OPT_STRINGS_MAX] = {0};
	uint8_t found[KV_OPT_STRINGS_MAX] = {0};
	unsigned n = line->words.count - 1, prefix = 0, all = 0;
	int rc;
	for (unsigned i = 0; i < n; i++)
		keys[i] = key_of(line->words.item[i + 1]);
	rc = kvc_exists(cli->pool, keys, n, found, &prefix, NULL);
	if (rc < 0)
		return failed(cli, err, "exists", rc);
	for (unsigned i = 0; i < n; i++) {
		key_print(found[i], line->words.item[i + 1]);
		all += found[i] > 0;
	}
	if (n > 1)
		printf("%u of %u exist, prefix %u\n", all, n, prefix);
	return all == n ? CLI_OK : CLI_NOT_FOUND;
}

static int run_ping(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	(void)line;
	for (unsigned s = 0; s < cli->opt->target.servers.count; s++) {
		struct kvc_call call = {.size = sizeof(call), .server = s};
		uint64_t start_ns = kv_clock_now(&kv_clock_monotonic);
		char took[32];
		int rc = kvc_ping(cli->pool, &call);
		if (rc < 0)
			return failed(cli, err, "ping", rc);
		printf("%s: every shard answered in %s\n", cli->opt->target.servers.item[s],
		       kv_duration_format(kv_clock_now(&kv_clock_monotonic) - start_ns, took, sizeof(took)));
	}
	return CLI_OK;
}

static int run_touch(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = cli->opt->ttl};
	unsigned there = 0;
	for (unsigned i = 1; i < line->words.count; i++) {
		int rc = kvc_touch(cli->pool, key_of(line->words.item[i]), &call);
		if (rc < 0 && rc != -KV_ENOTFOUND)
			return failed(cli, err, "touch", rc);
		there += rc == 0;
		key_print(rc == 0, line->words.item[i]);
	}
	return there == line->words.count - 1 ? CLI_OK : CLI_NOT_FOUND;
}

/* The time to live of a TOUCH, in whole seconds. 0 would mean the server's default, so it is refused. */
static int ttl_parse(const char *text, uint32_t *out_s, struct kv_error *err)
{
	uint64_t ns;
	if (kv_duration_parse(text, &ns) < 0 || ns == 0 || ns % 1000000000 != 0 || ns / 1000000000 > UINT32_MAX)
		return kv_fail(err, -KV_EINVAL,
			       "'%.100s' is not a time to live in whole seconds, such as 90s, 1m or 2h", text);
	*out_s = (uint32_t)(ns / 1000000000);
	return 0;
}

static int run_ttl(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct kvc_call call = {.size = sizeof(call)};
	uint64_t left_ms;
	int rc;
	if (line->words.count == 2) {
		rc = kvc_ttl(cli->pool, key_of(line->words.item[1]), &left_ms, &call);
		if (rc == 0 && left_ms == UINT64_MAX)
			puts("never");
		else if (rc == 0)
			printf("%.3f s\n", (double)left_ms / 1000);
		goto out;
	}
	if (ttl_parse(line->words.item[2], &call.ttl_s, err) < 0)
		return CLI_USAGE;
	rc = kvc_touch(cli->pool, key_of(line->words.item[1]), &call);
out:
	if (rc == -KV_ENOTFOUND)
		return missing(line, err);
	return rc < 0 ? failed(cli, err, "ttl", rc) : CLI_OK;
}

/* ---- pins: they belong to the client's session, which ends with this program ---- */

struct pinning {
	struct kvc_key key;
	bool release;
	int rc;
};

static void pin_one(struct kvc_client *client, unsigned w, void *arg)
{
	struct pinning *p = arg;
	(void)w;
	p->rc = p->release ? kvc_unpin_await(client, p->key, NULL) : kvc_pin_await(client, p->key, NULL);
}

static int pin_refused(const char *key, struct kv_error *err)
{
	char text[KEY_TEXT];
	kv_fail(err, -KV_EBUSY,
		"pin: '%s' cannot be pinned: one session may pin a quarter of its shard's memory, "
		"all sessions together half; unpin other keys, or give the server more memory (--memory-mb)",
		typed(key, text));
	return CLI_FAILED;
}

/* Returns the exit status. *out_held grows by the keys that the server has pinned or unpinned. */
static int pin_all(struct cli *cli, const struct cli_line *line, bool release, unsigned *out_held, struct kv_error *err)
{
	for (unsigned i = 1; i < line->words.count; i++) {
		struct pinning p = {.key = key_of(line->words.item[i]), .release = release};
		int rc = kvc_run(cli->pool, 1, pin_one, &p);
		rc = rc < 0 ? rc : p.rc;
		if (rc == -KV_EBUSY && !release)
			return pin_refused(line->words.item[i], err);
		if (rc < 0 && rc != -KV_ENOTFOUND)
			return failed(cli, err, line->words.item[0], rc);
		*out_held += rc == 0;
		key_print(rc == 0, line->words.item[i]);
	}
	fflush(stdout);
	return *out_held == line->words.count - 1 ? CLI_OK : CLI_NOT_FOUND;
}

static int run_pin(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	unsigned held = 0;
	int status = pin_all(cli, line, false, &held, err);
	if (cli->interactive || held == 0 || status == CLI_FAILED)
		return status;
	interrupt_catch(!cli->interactive);
	fprintf(stderr, "the keys stay pinned while this program runs; Ctrl-C ends it\n");
	interrupt_wait(KV_NEVER);
	interrupt_release(cli->interactive, false);
	return status;
}

static int run_unpin(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	unsigned held = 0;
	return pin_all(cli, line, true, &held, err);
}

static int run_make_seal_key(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	(void)cli;
	if (kv_key_file_make(line->words.item[1], "seal-", "names", err) < 0)
		return CLI_FAILED;
	printf("%s has new keys: copy it to all clients, and give it to them as --seal-key-file\n",
	       line->words.item[1]);
	return CLI_OK;
}

static int run_help(struct cli *cli, const struct cli_line *line, struct kv_error *err);

/* ---- the table ---- */

enum {
	OF_FILE = 1,
	OF_OUTPUT = 2,
	OF_TTL = 4,
	OF_STAT = 8,
	PROMPT_ONLY = 16,
	OF_TOP = 32,
	OF_JSON = 64,
	OF_DRAIN = 128,
	OF_ONCE = 256,
	OF_EVENTS = 512
}; /* options of a command */

static const struct command {
	const char *name;
	unsigned args_min, args_max;
	bool keys; /* the arguments (of put and ttl: the first) are keys */
	unsigned options;
	const char *usage;
	int (*run)(struct cli *cli, const struct cli_line *line, struct kv_error *err);
	const char *more;
} commands[] = {
	{"get", 1, 1, true, OF_OUTPUT, "get KEY [-o FILE]", run_get,
	 "Writes the value to standard output, or to FILE, which appears "
	 "only when it is complete. Exit status 1: there is no such key."},
	{"put", 1, 2, true, OF_FILE | OF_TTL, "put KEY VALUE, put KEY -f FILE, or put KEY -", run_put,
	 "Stores a value; - is standard input. --ttl TIME limits its life. "
	 "A key that exists with other bytes keeps them: exit status 3."},
	{"delete", 1, 1, true, 0, "delete KEY", run_delete, "Removes a key. Exit status 1: there is no such key."},
	{"exists", 1, KV_OPT_STRINGS_MAX - 1, true, 0, "exists KEY...", run_exists,
	 "Prints a line for each key, 1 or 0 (2: on the server's tier alone), and for several keys "
	 "how many exist from the start. Exit status 0: all exist."},
	{"touch", 1, KV_OPT_STRINGS_MAX - 1, true, OF_TTL, "touch KEY...", run_touch,
	 "Counts as a use of each key, and gives it a new time to live from now: --ttl TIME, else the server's "
	 "default. Prints a line for each, 1 or 0."},
	{"ttl", 1, 2, true, 0, "ttl KEY [TIME]", run_ttl,
	 "Prints a value's remaining time to live, or never; this does not count as a use. "
	 "With TIME it sets a new time to live from now, as in ttl KEY 1m; "
	 "this counts as a use, like touch. Exit status 1: there is no such key."},
	{"pin", 1, KV_OPT_STRINGS_MAX - 1, true, 0, "pin KEY...", run_pin,
	 "Keeps values from eviction, not from expiry or delete. Pins belong to the session: at the prompt they last "
	 "until unpin or exit, on the command line until Ctrl-C. One session may pin a quarter of the memory of a "
	 "server's shard, all sessions together half of it."},
	{"unpin", 1, KV_OPT_STRINGS_MAX - 1, true, PROMPT_ONLY, "unpin KEY...", run_unpin,
	 "Unpins values. At the prompt only."},
	{"stat", 0, 0, false, OF_STAT | OF_JSON, "stat [--shards] [--all] [--json], or stat --watch TIME", stat_run,
	 "Prints the servers' counters. --shards adds those of each shard, and --all those of this client. "
	 "--json prints one JSON object. --watch TIME prints the changes every TIME, "
	 "until Ctrl-C. docs/reference/counters.md explains every name."},
	{"top", 0, 0, false, OF_TOP | OF_ONCE, "top [--interval TIME] [--once]", top_run,
	 "Prints a line for each server, members of the view included: GETs a second and how many of 100 hit, PUTs, "
	 "bytes out and in, memory, values, evictions, clients, and the mean time from a request's arrival to its "
	 "reply. Every --interval (1s) until Ctrl-C; with --once only once."},
	{"cluster", 0, 0, false, OF_JSON, "cluster [--json]", cluster_run,
	 "Prints the members of the cluster's view: node id, address, state, zone, weight, incarnation; and for each "
	 "whether it answers, its version, its uptime, memory in use, and how many of 100 GETs hit. If no view has a "
	 "majority, it lists the views that servers announce. --json prints one JSON object. Exit status 1: some "
	 "member does not answer, or no view has a majority."},
	{"tenants", 0, 0, false, OF_TOP | OF_JSON, "tenants [--interval TIME] [--json]", tenants_run,
	 "Prints what each tenant (kv-server --tenants) has of its limits on all servers, added up: memory, its share "
	 "and its cap; tier; pins; requests in flight; sessions; bytes read a second, over --interval (1s); evictions. "
	 "- is no limit. An identity that may read all namespaces sees all tenants, others see their own. --json "
	 "prints one JSON object. Exit status 1: some server does not answer, or there are no tenants."},
	{"leases", 0, 0, false, OF_JSON, "leases [--json]", leases_run,
	 "Prints the clients that hold leases. A server on their host cannot evict that memory. For each: the server, "
	 "the client's id, identity and process (- is unknown, as in another container), its leases, their bytes, and "
	 "the age of the oldest. The largest comes first. --json prints one JSON object. Exit status 1: some server "
	 "does not answer."},
	{"namespaces", 0, 0, false, OF_JSON, "namespaces [--json]", namespaces_run,
	 "Prints the namespaces of all servers, added up: the generation, which each clear advances, values, memory, "
	 "bytes on the tier, GETs, and how many of 100 GETs hit. Values that were cleared count until their memory is "
	 "free, within seconds. --json prints one JSON object. Exit status 1: some server does not answer."},
	{"clear", 0, 0, false, 0, "clear, or --namespace NAME clear", clear_run,
	 "Forgets all values of the namespace that --namespace names, or of the default one, on all servers: they are "
	 "misses from now on, for all clients. Every server must confirm: exit status 3 if one does not, then run it "
	 "again. It says so if the namespace was empty and no GET has asked for it: its name may be mistyped. At the "
	 "prompt it asks first."},
	{"drain", 1, 1, false, OF_DRAIN | OF_JSON, "drain NODE [--drain-sec TIME] [--drain-mb SIZE] [--json]",
	 drain_run,
	 "Drains the server with the name or address NODE: it pushes its values to the others of its view, the hottest "
	 "first, finishes its requests, says goodbye to its clients, and ends. Returns at the goodbye, and prints how "
	 "many of its values other servers have, and why not all. --json prints one JSON object. The server must run "
	 "with --allow-drain. Exit status 1: there is no such server; 4: other servers do not have all of its values."},
	{"events", 0, 0, false, OF_EVENTS | OF_ONCE | OF_JSON,
	 "events [--since NODE=EPOCH:SEQUENCE]... [--new] [--once] [--json]", events_run,
	 "Prints what the servers store and remove, a line for each event: node, epoch and sequence, type, tier, "
	 "bytes, key. First come cleared, all that a server stores with sequence 0, and synced; with --new only what "
	 "happens from now on. --since goes on behind an event. --once ends when every server is synced, else Ctrl-C "
	 "does. --json prints one JSON object a line. The servers must run with --events."},
	{"ping", 0, 0, false, 0, "ping", run_ping,
	 "Asks every shard of every server over the fabric, and prints the time until all have answered."},
	{"make-seal-key", 1, 1, false, 0, "make-seal-key FILE", run_make_seal_key,
	 "Writes new keys for --seal-key-file to FILE, readable by its owner only. FILE must not exist. This needs no "
	 "server. Copy FILE to all clients: without it nothing can read the values."},
	{"help", 0, 1, false, 0, "help [COMMAND]", run_help, "Lists the commands, or explains one of them."},
};

static const struct command *find_command(const char *name)
{
	for (unsigned i = 0; i < KV_COUNT(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

const char *command_name(unsigned i)
{
	return i < KV_COUNT(commands) ? commands[i].name : NULL;
}

static int usage(struct kv_error *err, const char *fmt, const char *text) __attribute__((format(printf, 2, 0)));
static int usage(struct kv_error *err, const char *fmt, const char *text)
{
	kv_fail(err, -KV_EINVAL, fmt, text);
	return CLI_USAGE;
}

/* On the command line main adds "(try --help)". */
static int no_command(const struct cli_line *line, const char *word, struct kv_error *err)
{
	struct kv_nearest n = kv_nearest_begin(word, strlen(word));
	char hint[KV_NEAREST_TEXT];
	for (unsigned i = 0; i < KV_COUNT(commands); i++)
		kv_nearest_try(&n, commands[i].name);
	kv_fail(err, -KV_EINVAL, "there is no command '%.100s'%s%s", word, kv_nearest_hint(&n, "", hint),
		line->prompt && !n.best ? "; help lists the commands" : "");
	return CLI_USAGE;
}

static int run_help(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	const struct command *c = line->words.count > 1 ? find_command(line->words.item[1]) : NULL;
	(void)cli;
	if (line->words.count > 1 && strcmp(line->words.item[1], "exit") == 0) {
		puts("exit\n  Ends the program and its pins. Ctrl-D and Ctrl-C do the same, even in the middle of a "
		     "line.");
		return CLI_OK;
	}
	if (line->words.count > 1 && !c) {
		return no_command(line, line->words.item[1], err);
	}
	if (!c) {
		command_help(stdout);
		return CLI_OK;
	}
	printf("%s\n", c->usage);
	kv_wrap(stdout, "  ", 0, "%s", c->more);
	return CLI_OK;
}

void command_help(FILE *out)
{
	for (unsigned i = 0; i < KV_COUNT(commands); i++)
		fprintf(out, "  %s\n", commands[i].usage);
	fprintf(out, "  exit\n");
}

static int check_keys(const struct cli_line *line, struct kv_error *err)
{
	const char *name = line->words.item[0];
	unsigned last = strcmp(name, "put") == 0 || strcmp(name, "ttl") == 0 ? 2 : line->words.count;
	for (unsigned i = 1; i < last; i++) {
		size_t len = strlen(line->words.item[i]);
		if (len < 1 || len > KV_KEY_MAX) {
			kv_fail(err, -KV_EINVAL, "a key has 1 to %d bytes; this one has %zu", KV_KEY_MAX, len);
			return CLI_USAGE;
		}
	}
	return CLI_OK;
}

unsigned command_given(const struct cli_options *o)
{
	return (o->file ? OF_FILE : 0) | (o->output ? OF_OUTPUT : 0) | (o->ttl ? OF_TTL : 0) |
	       (o->all || o->shards || o->watch_ns ? OF_STAT : 0) | (o->json ? OF_JSON : 0) |
	       (o->drain_sec || o->drain_mb ? OF_DRAIN : 0) | (o->once ? OF_ONCE : 0) |
	       (o->fresh || o->since.count ? OF_EVENTS : 0) | (o->interval_ns != TOP_INTERVAL_NS ? OF_TOP : 0);
}

int command_check(const struct cli_line *line, struct kv_error *err)
{
	const struct command *c = find_command(line->words.item[0]);
	unsigned args = line->words.count - 1;
	uint32_t seconds;
	bool put;
	if (!c)
		return no_command(line, line->words.item[0], err);
	put = c->run == run_put;
	if (args < c->args_min || args > c->args_max || (line->given & ~c->options))
		return usage(err, "usage: %s", c->usage);
	if (c->options & PROMPT_ONLY && !line->prompt)
		return usage(err, "%s is for the prompt: a pin ends with the program that made it", c->name);
	if (put && (args == 2) == ((line->given & OF_FILE) != 0))
		return usage(err, "put needs exactly one value: %s", c->usage);
	if (put && args == 2 && !line->words.item[2][0])
		return usage(err, "the value is empty: a value has at least one byte (%s)", c->usage);
	if (c->run == run_ttl && args == 2 && ttl_parse(line->words.item[2], &seconds, err) < 0)
		return CLI_USAGE;
	return c->keys ? check_keys(line, err) : CLI_OK;
}

bool command_offline(const struct cli_line *line)
{
	const struct command *c = find_command(line->words.item[0]);
	return c->run == run_help || c->run == run_make_seal_key;
}

int command_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	return find_command(line->words.item[0])->run(cli, line, err);
}
