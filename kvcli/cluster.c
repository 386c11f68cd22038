/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c -- kv-client cluster: a line for each member of the view, with the member's own figures. If servers have no
 * view, or none has a majority, the list of servers is shown instead; in the second case the exit status is 1. Servers
 * of the list outside the view are shown with the state "-": they have no share of the keys. */
#include "kvcli/cluster.h"

#include <inttypes.h>

#include "kvcli/file.h"
#include "kvcli/look.h"
#include "kvcli/table.h"

static const char *const state_names[] = {[KVC_MEMBER_NONE] = "-",
					  [KVC_MEMBER_JOINING] = "joining",
					  [KVC_MEMBER_UP] = "up",
					  [KVC_MEMBER_DRAINING] = "draining"};

/* A member's line. */
struct member_row {
	const struct look *look;
	char id[64], address[336];
	bool answers;
	const char *why;
};

static void row_make(const struct look *l, struct member_row *out)
{
	const struct kvc_server_info *s = &l->info;
	const char *at = strchr(s->name, '=');
	const char *id = s->member[0] ? s->member : s->node_id;
	*out = (struct member_row){.look = l, .answers = l->code >= 0};
	if (id[0] || !at)
		snprintf(out->id, sizeof(out->id), "%s", id[0] ? id : "-");
	else
		snprintf(out->id, sizeof(out->id), "%.*s", (int)(at - s->name), s->name);
	snprintf(out->address, sizeof(out->address), "%s", at ? at + 1 : s->name);
	if (!out->answers)
		out->why = s->why[0] ? s->why : kv_strerror(l->code);
}

static const char *uptime_text(uint64_t ns, char buf[32])
{
	uint64_t s = ns / 1000000000, m = s / 60, h = m / 60, d = h / 24;
	if (d)
		snprintf(buf, 32, "%" PRIu64 "d%" PRIu64 "h", d, h % 24);
	else if (h)
		snprintf(buf, 32, "%" PRIu64 "h%" PRIu64 "m", h, m % 60);
	else if (m)
		snprintf(buf, 32, "%" PRIu64 "m%" PRIu64 "s", m, s % 60);
	else
		snprintf(buf, 32, "%" PRIu64 "s", s);
	return buf;
}

static uint64_t incarnation_of(const struct kvc_server_info *s)
{
	return s->incarnation ? s->incarnation : s->member_incarnation;
}

/* ---- text ---- */

enum { MEMBER, ADDRESS, STATE, ZONE, WEIGHT, INCARNATION, VERSION, UPTIME, MEM, MEM_PART, LEASED, HITS, COLUMNS };

static const struct table_column columns[COLUMNS] = {
	[MEMBER] = {.title = "MEMBER", .cut = true, .keep = 16},
	[ADDRESS] = {.title = "ADDRESS", .cut = true, .keep = 22},
	[STATE] = {.title = "STATE", .width = 8, .cut = true, .keep = 8},
	[ZONE] = {.title = "ZONE", .cut = true, .keep = 10, .drop = 3},
	[WEIGHT] = {.title = "WEIGHT", .drop = 4},
	[INCARNATION] = {.title = "INCARNATION", .width = 16, .drop = 6},
	[VERSION] = {.title = "VERSION", .drop = 5},
	[UPTIME] = {.title = "UPTIME", .width = 7, .drop = 1},
	[MEM] = {.title = "MEM", .width = 7, .drop = 2},
	[MEM_PART] = {.title = "MEM%", .width = 5},
	[LEASED] = {.title = "LEASED", .width = 7, .drop = 7},
	[HITS] = {.title = "HIT%", .width = 5},
};

struct cells {
	char text[COLUMNS][32], note[512];
	const char *cell[COLUMNS];
};

static void answer_cells(const uint64_t *n, struct cells *out)
{
	char(*t)[32] = out->text;

	out->cell[VERSION] = kv_version_format(n[LOOK_VERSION], t[VERSION], sizeof(t[VERSION]));
	out->cell[UPTIME] = uptime_text(n[LOOK_UPTIME_NS], t[UPTIME]);
	out->cell[MEM] = look_brief((double)n[LOOK_USED], t[MEM]);
	out->cell[MEM_PART] = look_percent(n[LOOK_USED], n[LOOK_LIMIT], t[MEM_PART]);
	out->cell[LEASED] = look_brief((double)n[LOOK_LEASED], t[LEASED]);
	out->cell[HITS] = look_percent(n[LOOK_HITS], n[LOOK_HITS] + n[LOOK_MISSES], t[HITS]);
}

static void cells_make(const struct member_row *r, struct cells *out)
{
	const struct kvc_server_info *s = &r->look->info;
	*out = (struct cells){
		.cell = {r->id, r->address, state_names[s->member_state], s->zone[0] ? s->zone : "-", "-"}};
	if (s->member_state != KVC_MEMBER_NONE) {
		snprintf(out->text[WEIGHT], sizeof(out->text[WEIGHT]), "%" PRIu32, s->weight);
		out->cell[WEIGHT] = out->text[WEIGHT];
	}
	snprintf(out->text[INCARNATION], sizeof(out->text[INCARNATION]), "%016" PRIx64, incarnation_of(s));
	out->cell[INCARNATION] = incarnation_of(s) ? out->text[INCARNATION] : "-";
	if (r->answers)
		answer_cells(r->look->number, out);
	if (r->answers)
		snprintf(out->note, sizeof(out->note), "%s", s->local ? "same host" : "");
	else
		snprintf(out->note, sizeof(out->note), "does not answer: %s", r->why);
}

/* Whether the server at i is the first one that announces its view. */
static bool is_first(const struct look *looks, unsigned i)
{
	if (!looks[i].known || !looks[i].info.view_digest)
		return false;
	for (unsigned k = 0; k < i; k++)
		if (looks[k].known && looks[k].info.view_digest == looks[i].info.view_digest)
			return false;
	return true;
}

static unsigned views_count(const struct look *looks, unsigned n)
{
	unsigned views = 0;
	for (unsigned i = 0; i < n; i++)
		views += is_first(looks, i);
	return views;
}

static void views_print(unsigned in, const struct look *looks, unsigned n)
{
	char line[4096];
	struct member_row r;
	for (unsigned i = 0; i < n; i++) {
		int len = 0;

		if (!is_first(looks, i))
			continue;
		for (unsigned k = i; k < n && len < (int)sizeof(line) - 400; k++) {
			if (!looks[k].known || looks[k].info.view_digest != looks[i].info.view_digest)
				continue;
			row_make(&looks[k], &r);
			len += snprintf(line + len, sizeof(line) - (size_t)len, " %s", r.address);
		}
		kv_wrap_in(stdout, in, "  ", 0, "view %016" PRIx64 ", epoch %" PRIu64 ":%s", looks[i].info.view_digest,
			   looks[i].info.view_epoch, line);
	}
}

static void title_print(unsigned limit, const struct look *looks, unsigned n, uint64_t epoch, unsigned members)
{
	unsigned in = limit ? limit : KV_COLUMNS, views = members ? 0 : views_count(looks, n);
	if (members)
		kv_wrap_in(stdout, in, "", 0, "epoch %" PRIu64 ", %u member%s", epoch, members, kv_plural(members));
	else if (views)
		kv_wrap_in(stdout, in, "", 0,
			   "no view has a majority: the servers announce %u view%s "
			   "(compare their --members); showing the servers of the list",
			   views, kv_plural(views));
	else
		kv_wrap_in(stdout, in, "", 0,
			   "the servers have no view (kv-server --members): showing those of the list");
	if (views)
		views_print(in, looks, n);
}

static void table_print(const struct look *looks, unsigned n, uint64_t epoch, unsigned members)
{
	struct table t = {.column = columns, .columns = COLUMNS, .limit = kv_terminal_columns(stdout)};
	struct cells cells;
	struct member_row r;
	for (unsigned i = 0; i < n; i++) {
		row_make(&looks[i], &r);
		cells_make(&r, &cells);
		if (looks[i].known)
			table_measure(&t, cells.cell);
	}
	table_fit(&t);
	title_print(t.limit, looks, n, epoch, members);
	table_header(&t, stdout);
	for (unsigned i = 0; i < n; i++) {
		row_make(&looks[i], &r);
		cells_make(&r, &cells);
		if (looks[i].known)
			table_row(&t, stdout, cells.cell, cells.note[0] ? cells.note : NULL, true);
	}
}

/* ---- JSON ---- */

/* The member's own figures. */
static void answer_add(json_t *o, const uint64_t *n)
{
	uint64_t asked = n[LOOK_HITS] + n[LOOK_MISSES];
	char version[16];
	json_object_set_new(o, "version", json_string(kv_version_format(n[LOOK_VERSION], version, sizeof(version))));
	json_object_set_new(o, "uptime_sec", json_real((double)n[LOOK_UPTIME_NS] / 1e9));
	json_object_set_new(o, "memory_used_bytes", json_integer((json_int_t)n[LOOK_USED]));
	json_object_set_new(o, "memory_limit_bytes", json_integer((json_int_t)n[LOOK_LIMIT]));
	json_object_set_new(o, "leased_bytes", json_integer((json_int_t)n[LOOK_LEASED]));
	json_object_set_new(o, "lease_age_sec", json_real((double)n[LOOK_LEASE_AGE_NS] / 1e9));
	json_object_set_new(o, "hit_ratio", asked ? json_real((double)n[LOOK_HITS] / (double)asked) : json_null());
}

static json_t *row_object(const struct member_row *r)
{
	const struct kvc_server_info *s = &r->look->info;
	char text[32];
	json_t *o;
	snprintf(text, sizeof(text), "%016" PRIx64, incarnation_of(s));
	o = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:b}", "node_id", r->id, "address", r->address, "state",
		      state_names[s->member_state], "zone", s->zone, "weight", (json_int_t)s->weight, "incarnation",
		      text, "answers", r->answers);
	snprintf(text, sizeof(text), "%016" PRIx64, s->view_digest);
	json_object_set_new(o, "local", json_boolean(s->local));
	json_object_set_new(o, "view", s->view_digest ? json_string(text) : json_null());
	if (r->answers)
		answer_add(o, r->look->number);
	else
		json_object_set_new(o, "why", json_string(r->why));
	return o;
}

static int json_print(const struct look *looks, unsigned n, uint64_t epoch, struct kv_error *err)
{
	json_t *members = json_array(), *all = json_pack("{s:I, s:o}", "epoch", (json_int_t)epoch, "members", members);
	struct member_row r;
	for (unsigned i = 0; i < n; i++) {
		row_make(&looks[i], &r);
		if (looks[i].known)
			json_array_append_new(members, row_object(&r));
	}
	return file_json(all, "cluster", err);
}

/* ---- the command ---- */

int cluster_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	static struct look looks[LOOK_MAX];
	struct kvc_counters c = {.size = sizeof(c)};
	unsigned n = look_all(cli, looks), silent = 0;
	(void)line;
	kvc_counters(cli->pool, &c);
	for (unsigned i = 0; i < n; i++)
		silent += looks[i].known && looks[i].code < 0;
	if (!cli->opt->json)
		table_print(looks, n, c.view_epoch, (unsigned)c.members);
	else if (json_print(looks, n, c.view_epoch, err) < 0)
		return CLI_FAILED;
	return silent || (c.members == 0 && views_count(looks, n)) ? CLI_NOT_FOUND : CLI_OK;
}
