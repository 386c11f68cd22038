/* SPDX-License-Identifier: Apache-2.0 */
/* command.c -- the commands of kv-client.
 *
 * A value's length is not known before it is read. A value that fits half of the client's buffer comes as a view in one
 * call; for a longer one a call for its first byte tells the length, then memory of that size is filled by an ordinary
 * get, which reads it in ranges of one generation. If the value was replaced by a longer one in between, that is tried
 * again. */
#include "kvcli/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvcli/file.h"
#include "kvcli/stat.h"

enum { GET_TRIES = 8 };

static struct kvc_key key_of(const char *text)
{
	return (struct kvc_key){text, strlen(text)};
}

static int failed(struct kv_error *err, const char *command, int64_t code)
{
	kv_fail(err, (int)code, "%s: %s", command, kv_strerror((int)code));
	return CLI_FAILED;
}

/* ---- get ---- */

struct getting {
	struct kvc_key key;
	void *data;
	int64_t len; /* or a code */
};

/* Runs on the client's loop: the whole value if a view can hold it, else its length alone (data stays NULL). */
static void get_small(struct kvc_client *client, unsigned w, void *arg)
{
	struct kvc_call first = {.size = sizeof(first), .length = 1};
	struct getting *g = arg;
	struct kvc_view view = {0};

	(void)w;
	g->len = kvc_get_view_await(client, g->key, 0, NULL, &view);
	if (g->len >= 0) {
		g->data = malloc((size_t)KV_MAX(g->len, 1));
		if (g->data)
			memcpy(g->data, view.data, (size_t)g->len);
		else
			g->len = -KV_ENOMEM;
		kvc_view_release(client, &view);
	} else if (g->len == -KV_ETOOBIG) {
		g->len = kvc_get_view_await(client, g->key, 1, &first, &view);
		if (g->len >= 0)
			g->len = (int64_t)view.value_len;
		kvc_view_release(client, &view);
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

static int run_get(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct getting g = {.key = key_of(line->words.item[1])};
	int rc;

	get_value(cli, &g);
	if (g.len == -KV_ENOTFOUND)
		return CLI_NOT_FOUND;
	if (g.len < 0)
		return failed(err, "get", g.len);
	fflush(stdout);
	rc = file_write(line->output, g.data, (uint64_t)g.len, err);
	free(g.data);
	/* For eyes only: a value in a file or pipe is its bytes and nothing else. */
	if (rc == 0 && !line->output && (cli->interactive || isatty(STDOUT_FILENO)))
		rc = file_write(NULL, "\n", 1, err);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}

/* ---- put ---- */

static int run_put(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = cli->opt->ttl};
	const char *value = line->words.count > 2 ? line->words.item[2] : NULL;
	const char *path = line->file ? line->file : strcmp(value, "-") == 0 ? "-" : NULL;
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
	return rc < 0 ? failed(err, "put", rc) : CLI_OK;
}

/* ---- the others ---- */

static int run_delete(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	int rc = kvc_delete(cli->pool, key_of(line->words.item[1]), NULL);

	if (rc == -KV_ENOTFOUND)
		return CLI_NOT_FOUND;
	return rc < 0 ? failed(err, "delete", rc) : CLI_OK;
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
		return failed(err, "exists", rc);
	for (unsigned i = 0; i < n; i++) {
		printf("%u %s\n", found[i], line->words.item[i + 1]);
		all += found[i];
	}
	if (n > 1)
		printf("%u of %u exist, prefix %u\n", all, n, prefix);
	return all == n ? CLI_OK : CLI_NOT_FOUND;
}

static int run_ping(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	(void)line;
	for (unsigned s = 0; s < cli->opt->servers.count; s++) {
		struct kvc_call call = {.size = sizeof(call), .server = s};
		uint64_t start_ns = kv_clock_now(&kv_clock_monotonic);
		char took[32];
		int rc = kvc_ping(cli->pool, &call);
		if (rc < 0)
			return failed(err, "ping", rc);
		printf("%s: every shard answered in %s\n", cli->opt->servers.item[s],
		       kv_duration_format(kv_clock_now(&kv_clock_monotonic) - start_ns, took, sizeof(took)));
	}
	return CLI_OK;
}

static int run_help(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	(void)cli;
	(void)line;
	(void)err;
	command_help(stdout);
	return CLI_OK;
}

/* ---- the table ---- */

static const struct command {
	const char *name;
	unsigned args_min, args_max;
	bool keys; /* the arguments (of put: the first) are keys */
	const char *usage;
	int (*run)(struct cli *cli, const struct cli_line *line, struct kv_error *err);
} commands[] = {
	{"get", 1, 1, true, "get KEY [-o FILE]", run_get},
	{"put", 1, 2, true, "put KEY VALUE, put KEY -f FILE, or put KEY -", run_put},
	{"delete", 1, 1, true, "delete KEY", run_delete},
	{"exists", 1, KV_OPT_STRINGS_MAX - 1, true, "exists KEY...", run_exists},
	{"stat", 0, 0, false, "stat [--shards] [--all] [--json]", stat_run},
	{"ping", 0, 0, false, "ping", run_ping},
	{"help", 0, 0, false, "help", run_help},
};

static const struct command *find_command(const char *name)
{
	for (unsigned i = 0; i < KV_COUNT(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

void command_help(FILE *out)
{
	for (unsigned i = 0; i < KV_COUNT(commands); i++)
		fprintf(out, "  %s\n", commands[i].usage);
	fprintf(out, "  exit\n");
}

static int usage(struct kv_error *err, const char *fmt, const char *text) __attribute__((format(printf, 2, 0)));
static int usage(struct kv_error *err, const char *fmt, const char *text)
{
	kv_fail(err, -KV_EINVAL, fmt, text);
	return CLI_USAGE;
}

static int check_keys(const struct cli_line *line, struct kv_error *err)
{
	unsigned last = strcmp(line->words.item[0], "put") == 0 ? 2 : line->words.count;

	for (unsigned i = 1; i < last; i++) {
		size_t len = strlen(line->words.item[i]);
		if (len < 1 || len > KV_KEY_MAX) {
			kv_fail(err, -KV_EINVAL, "a key has 1 to %d bytes, this one has %zu", KV_KEY_MAX, len);
			return CLI_USAGE;
		}
	}
	return CLI_OK;
}

int command_check(const struct cli_line *line, struct kv_error *err)
{
	const struct command *c = find_command(line->words.item[0]);
	unsigned args = line->words.count - 1;
	bool put;

	if (!c)
		return usage(err, "there is no command '%.100s': get, put, delete, exists, stat, ping",
			     line->words.item[0]);
	put = c->run == run_put;
	if (args < c->args_min || args > c->args_max || (line->file && !put) || (line->output && c->run != run_get))
		return usage(err, "usage: %s", c->usage);
	if (put && (args == 2) == (line->file != NULL))
		return usage(err, "put needs exactly one value: %s", c->usage);
	if (put && args == 2 && !line->words.item[2][0])
		return usage(err, "the value is empty: a value has at least one byte (%s)", c->usage);
	return c->keys ? check_keys(line, err) : CLI_OK;
}

int command_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	return find_command(line->words.item[0])->run(cli, line, err);
}
