/* SPDX-License-Identifier: Apache-2.0 */
/* drain.c -- kv-client drain NODE. NODE is a name or address shown by `cluster`, or an entry of --server. It is
 * compared with all servers known to the pool, including the members of the view. */
#include "kvcli/drain.h"

#include "kvcli/file.h"
#include "kvcli/look.h"

struct draining {
	struct kvc_drain bounds;
	struct kvc_drained report;
	struct kvc_call call;
	int rc;
};

static bool is_called(const struct kvc_server_info *s, const char *name)
{
	const char *at = strchr(s->name, '=');
	return strcmp(name, s->name) == 0 || (at && strcmp(name, at + 1) == 0) ||
	       (s->member[0] && strcmp(name, s->member) == 0) || (s->node_id[0] && strcmp(name, s->node_id) == 0);
}

/* False: no server has that name. */
static bool server_find(struct cli *cli, const char *name, unsigned *out)
{
	struct kvc_server_info s;
	for (*out = 0; look_next(cli, out, &s);)
		if (is_called(&s, name))
			return (*out)--, true;
	return false;
}

static void drain_one(struct kvc_client *client, unsigned w, void *arg)
{
	struct draining *d = arg;
	(void)w;
	d->rc = kvc_drain_await(client, &d->bounds, &d->call);
}

static int failed(struct cli *cli, unsigned server, const char *name, int rc, struct kv_error *err)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	if (rc == -KV_ENOTSUP)
		kv_fail(err, rc,
			"drain: %.100s accepts no drain from clients: "
			"send it SIGTERM instead, or start it with --allow-drain",
			name);
	else if (rc == -KV_ETIMEOUT)
		kv_fail(err, rc, "drain: %.100s has not said goodbye in time; it may still be draining, see its log",
			name);
	else if (rc == -KV_ELEFT)
		kv_fail(err, rc, "drain: %.100s has said goodbye already", name);
	else if (kvc_server_info(cli->pool, 0, server, &s) == 0 && s.why[0])
		kv_fail(err, rc, "drain: %s; %.300s", kv_strerror(rc), s.why);
	else
		kv_fail(err, rc, "drain: %.100s: %s", name, kv_strerror(rc));
	return CLI_FAILED;
}

static void text_print(const char *name, const struct kvc_drained *r, const struct kv_drained *d)
{
	char text[KV_DRAINED_TEXT];
	printf("%s has said goodbye, and ends; ", name);
	if (r->known)
		puts(kv_drained_text(d, text, sizeof(text)));
	else
		puts("it did not report how many of its values other servers have, see its log");
}

/* An unknown number is null. */
static json_t *number(const struct kvc_drained *r, uint64_t n)
{
	return r->known ? json_integer((json_int_t)n) : json_null();
}

static int json_print(const char *name, const struct kvc_drained *r, const struct kv_drained *d, struct kv_error *err)
{
	json_t *left = json_object(), *all;
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++)
		if (d->left[i])
			json_object_set_new(left, kv_left_name(i), json_integer((json_int_t)d->left[i]));
	all = json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "node", name, "all", r->known && d->values == d->of,
			"values", number(r, d->values), "of", number(r, d->of), "bytes", number(r, d->bytes), "gone",
			number(r, d->gone), "left", left);
	return file_json(all, "drain", err);
}

/* Returns the exit status. */
static int report_print(const struct cli *cli, const char *name, const struct kvc_drained *r, struct kv_error *err)
{
	struct kv_drained d = {.values = r->values, .bytes = r->bytes, .of = r->of, .gone = r->gone};
	memcpy(d.left, r->left, sizeof(d.left));
	if (!cli->opt->json)
		text_print(name, r, &d);
	else if (json_print(name, r, &d, err) < 0)
		return CLI_FAILED;
	return r->known && d.values == d.of ? CLI_OK : CLI_PART;
}

int drain_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	const char *name = line->words.item[1];
	struct draining d = {.bounds = {.size = sizeof(d.bounds),
					.time_ns = cli->opt->drain_sec * 1000000000ull,
					.bytes_s = cli->opt->drain_mb << 20},
			     .call = {.size = sizeof(d.call), .timeout_ns = cli->opt->timeout_ns}};
	int rc;
	d.report.size = sizeof(d.report);
	d.bounds.drained = &d.report;
	if (!server_find(cli, name, &d.call.server)) {
		kv_fail(err, -KV_ENOTFOUND,
			"drain: no server has the name or address %.100s; kv-client cluster lists them", name);
		return CLI_NOT_FOUND;
	}
	rc = kvc_run(cli->pool, 1, drain_one, &d);
	rc = rc < 0 ? rc : d.rc;
	if (rc < 0)
		return failed(cli, d.call.server, name, rc, err);
	return report_print(cli, name, &d.report, err);
}
