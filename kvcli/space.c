/* SPDX-License-Identifier: Apache-2.0 */
/* space.c -- kv-client clear and namespaces. The figures of a namespace are added up over the servers. */
#include "kvcli/space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvcli/file.h"
#include "kvcli/look.h"

enum { ROOM = 4096 }; /* namespaces of a server */

#define USED_NS 1000000000ull /* of a look before a clear */

static const char *shown(const char *name, char *buf, size_t cap)
{
	return name[0] ? kv_utf8_text(name, strlen(name), buf, cap) : "(default)";
}

/* ---- clear ---- */

/* Whether a person at the prompt means it: elsewhere `clear` wipes the screen. */
static bool meant(const char *name)
{
	char *answer = NULL;
	size_t cap = 0;
	bool yes;
	printf("Forget all values of namespace %s on all servers? Type yes: ", name);
	fflush(stdout);
	yes = getline(&answer, &cap, stdin) > 0 && strcmp(answer, "yes\n") == 0;
	free(answer);
	return yes;
}

/* Whether a server has values of the namespace, or a GET has named it; or cannot be asked. Opening the pool has made
 * the namespace, so its name is in each list. */
static bool used(struct cli *cli, const char *name)
{
	struct kvc_namespace *all = calloc(ROOM, sizeof(*all));
	struct kvc_server_info info;
	bool yes = !all;
	for (unsigned at = 0; !yes && look_next(cli, &at, &info);) {
		const struct kvc_call call = {.size = sizeof(call), .server = at - 1, .timeout_ns = USED_NS};
		int n = info.state == KVC_SERVER_UP ? kvc_namespaces(cli->pool, all, ROOM, &call) : -KV_EPEERDOWN;
		yes = n < 0;
		for (int i = 0; i < KV_MIN(n, (int)ROOM); i++)
			yes |= strcmp(all[i].name, name) == 0 && (all[i].blocks || all[i].tier_bytes || all[i].gets);
	}
	free(all);
	return yes;
}

int clear_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	static struct look looks[LOOK_MAX];
	char text[4 * KVC_NAMESPACE_MAX + 1], down[256] = "";
	const char *space = cli->opt->target.space ? cli->opt->target.space : "",
		   *name = shown(space, text, sizeof(text));
	uint64_t generation = 0;
	bool empty;
	unsigned n;
	int rc;
	if (line->prompt && isatty(STDIN_FILENO) && !meant(name)) {
		kv_fail(err, -KV_ECANCELED, "nothing was cleared");
		return CLI_FAILED;
	}
	empty = !used(cli, space);
	rc = kvc_namespace_clear(cli->pool, &generation, NULL);
	if (rc == 0) {
		printf("namespace %s is cleared: generation %" PRIu64 "%s\n", name, generation,
		       empty ? ", but it was empty, and no GET has asked for it: kv-client namespaces lists the others"
			     : "");
		return CLI_OK;
	}
	n = look_all(cli, looks);
	for (unsigned i = 0; i < n && !down[0]; i++)
		if (looks[i].known && looks[i].info.state != KVC_SERVER_UP)
			snprintf(down, sizeof(down), "; %.200s", look_why(&looks[i]));
	kv_fail(err, rc, "clear: %s: not every server has cleared the namespace; run it again when all answer%s",
		kv_strerror(rc), down);
	return CLI_FAILED;
}

/* ---- namespaces ---- */

struct spaces {
	struct kvc_namespace *all;
	size_t count;
};

static int by_name(const void *a, const void *b)
{
	const struct kvc_namespace *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* Both lists are sorted. */
static int spaces_add(struct spaces *s, const struct kvc_namespace *from, size_t n)
{
	struct kvc_namespace *more = realloc(s->all, (s->count + n) * sizeof(*more));
	size_t known = s->count;
	if (!more && n > 0)
		return -KV_ENOMEM;
	s->all = more ? more : s->all;
	for (size_t i = 0; i < n; i++) {
		struct kvc_namespace *to = known ? bsearch(&from[i], s->all, known, sizeof(*s->all), by_name) : NULL;
		if (!to) {
			s->all[s->count++] = from[i];
			continue;
		}
		to->generation = KV_MAX(to->generation, from[i].generation);
		to->blocks += from[i].blocks;
		to->bytes += from[i].bytes;
		to->gets += from[i].gets;
		to->hits += from[i].hits;
		to->tier_bytes += from[i].tier_bytes;
	}
	qsort(s->all, s->count, sizeof(*s->all), by_name);
	return 0;
}

static int spaces_of_one(struct cli *cli, const struct kvc_call *call, const struct kvc_server_info *server, void *arg)
{
	static struct kvc_namespace of_one[ROOM];
	int n = kvc_namespaces(cli->pool, of_one, ROOM, call);
	(void)server;
	return n > 0 ? spaces_add(arg, of_one, KV_MIN((size_t)n, (size_t)ROOM)) : n;
}

static void table_print(const struct spaces *s)
{
	char text[4 * KVC_NAMESPACE_MAX + 1], bytes[32], tier[32], hits[16];
	printf("%10s %10s %10s %10s %12s %6s  %s\n", "GENERATION", "VALUES", "MEM", "TIER", "GETS", "HIT%",
	       "NAMESPACE");
	for (size_t i = 0; i < s->count; i++) {
		const struct kvc_namespace *n = &s->all[i];
		printf("%10" PRIu64 " %10" PRIu64 " %10s %10s %12" PRIu64 " %6s  %s\n", n->generation, n->blocks,
		       kv_size_format(n->bytes, bytes, sizeof(bytes)),
		       kv_size_format(n->tier_bytes, tier, sizeof(tier)), n->gets, look_percent(n->hits, n->gets, hits),
		       shown(n->name, text, sizeof(text)));
	}
}

static int json_print(const struct spaces *s, struct kv_error *err)
{
	json_t *list = json_array(), *all = json_pack("{s:o}", "namespaces", list);
	for (size_t i = 0; i < s->count; i++) {
		const struct kvc_namespace *n = &s->all[i];
		json_array_append_new(list,
				      json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", n->name, "generation",
						(json_int_t)n->generation, "values", (json_int_t)n->blocks, "bytes",
						(json_int_t)n->bytes, "tier_bytes", (json_int_t)n->tier_bytes, "gets",
						(json_int_t)n->gets, "hits", (json_int_t)n->hits));
	}
	return file_json(all, "namespaces", err);
}

int namespaces_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct spaces s = {0};
	int silent = look_each(cli, "namespaces", spaces_of_one, &s, err), rc = KV_MIN(silent, 0);
	(void)line;
	if (rc == 0 && cli->opt->json)
		rc = json_print(&s, err);
	else if (rc == 0)
		table_print(&s);
	free(s.all);
	if (rc < 0)
		return CLI_FAILED;
	return silent ? CLI_NOT_FOUND : CLI_OK;
}
