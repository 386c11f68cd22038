/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.c -- kv-client tenants: what each tenant has of its limits, added up over the servers. Rates need two looks,
 * --interval apart. */
#include "kvcli/tenant.h"

#include <inttypes.h>
#include <stdlib.h>

#include "kvcli/file.h"
#include "kvcli/interrupt.h"
#include "kvcli/look.h"
#include "kvcli/table.h"

enum { ROOM = 512 }; /* tenants of a server, with those that were removed */

struct tenants {
	struct kvc_tenant of[ROOM]; /* the sum over the servers, by name */
	unsigned count;
	int silent; /* servers without an answer, or -KV_ENOMEM */
	uint64_t at_ns;
};

/* ---- the sum ---- */

static int by_name(const void *a, const void *b)
{
	const struct kvc_tenant *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static const struct kvc_tenant *tenant_find(const struct tenants *t, const char *name)
{
	for (unsigned i = 0; i < t->count; i++)
		if (strcmp(t->of[i].name, name) == 0)
			return &t->of[i];
	return NULL;
}

/* The limits are each server's own. */
static const struct number {
	const char *name;
	size_t offset;
	bool limit; /* UINT64_MAX: none */
} numbers[] = {
#define NUMBER(field) {#field, offsetof(struct kvc_tenant, field), false}
#define LIMIT(field)  {#field, offsetof(struct kvc_tenant, field), true}
	NUMBER(memory_bytes), LIMIT(memory_share), LIMIT(memory_cap),  NUMBER(tier_bytes),  LIMIT(tier_cap),
	NUMBER(pinned_bytes), LIMIT(pins_cap),     NUMBER(requests),   LIMIT(requests_max), NUMBER(read_bytes),
	LIMIT(read_rate),     NUMBER(sessions),    NUMBER(namespaces), NUMBER(evictions),   NUMBER(refused),
#undef NUMBER
#undef LIMIT
};

static uint64_t *number_of(const struct kvc_tenant *t, const struct number *n)
{
	return (uint64_t *)(uintptr_t)((const char *)t + n->offset);
}

static void tenants_add(struct tenants *to, const struct kvc_tenant *from, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct kvc_tenant *sum = (struct kvc_tenant *)(uintptr_t)tenant_find(to, from[i].name);
		if (!sum && to->count == ROOM)
			continue;
		if (!sum) {
			to->of[to->count++] = from[i];
			continue;
		}
		sum->listed |= from[i].listed;
		for (unsigned k = 0; k < KV_COUNT(numbers); k++) {
			uint64_t *all = number_of(sum, &numbers[k]), more = *number_of(&from[i], &numbers[k]);
			*all = *all > UINT64_MAX - more ? UINT64_MAX : *all + more;
		}
	}
	qsort(to->of, to->count, sizeof(to->of[0]), by_name);
}

static int tenants_of_one(struct cli *cli, const struct kvc_call *call, const struct kvc_server_info *server, void *arg)
{
	static struct kvc_tenant of_one[ROOM];
	int n = kvc_tenants(cli->pool, of_one, ROOM, call);
	(void)server;
	if (n > 0)
		tenants_add(arg, of_one, KV_MIN((unsigned)n, (unsigned)ROOM));
	return n;
}

static void tenants_read(struct cli *cli, struct tenants *out, struct kv_error *err)
{
	*out = (struct tenants){.at_ns = kv_clock_now(&kv_clock_monotonic)};
	out->silent = look_each(cli, "tenants", tenants_of_one, out, err);
}

/* ---- output ---- */

/* Bytes a second that the tenant has read between the looks; a restarted server begins anew. */
static uint64_t read_s(const struct tenants *before, const struct tenants *now, const struct kvc_tenant *t)
{
	const struct kvc_tenant *was = tenant_find(before, t->name);
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
	if (!was || t->read_bytes <= was->read_bytes || seconds <= 0)
		return 0;
	return (uint64_t)((double)(t->read_bytes - was->read_bytes) / seconds);
}

enum { NAME, MEM, SHARE, CAP, TIER, TIER_CAP, PINS, PINS_CAP, REQUESTS, SESSIONS, READ, EVICTIONS, COLUMNS };

static const struct table_column columns[COLUMNS] = {
	[NAME] = {.title = "TENANT", .width = 10, .cut = true, .keep = 16},
	[MEM] = {.title = "MEM", .width = 8},
	[SHARE] = {.title = "SHARE", .width = 8, .drop = 1},
	[CAP] = {.title = "CAP", .width = 8},
	[TIER] = {.title = "TIER", .width = 8, .drop = 4},
	[TIER_CAP] = {.title = "CAP", .width = 8, .drop = 5},
	[PINS] = {.title = "PINS", .width = 8, .drop = 6},
	[PINS_CAP] = {.title = "CAP", .width = 8, .drop = 7},
	[REQUESTS] = {.title = "REQUESTS", .width = 8, .drop = 2},
	[SESSIONS] = {.title = "SESSIONS", .width = 8},
	[READ] = {.title = "READ/s", .width = 8},
	[EVICTIONS] = {.title = "EVICTIONS", .width = 9, .drop = 3},
};

/* A tenant's line. */
struct row {
	char name[4 * KVC_NAMESPACE_MAX + 1], text[COLUMNS][32];
	const char *cell[COLUMNS];
};

static void row_make(const struct tenants *before, const struct tenants *now, unsigned i, struct row *out)
{
	const struct kvc_tenant *t = &now->of[i];
	const uint64_t bytes[COLUMNS] = {
		[MEM] = t->memory_bytes,  [SHARE] = t->memory_share,      [CAP] = t->memory_cap,
		[TIER] = t->tier_bytes,   [TIER_CAP] = t->tier_cap,       [PINS] = t->pinned_bytes,
		[PINS_CAP] = t->pins_cap, [READ] = read_s(before, now, t)};
	for (unsigned k = MEM; k < COLUMNS; k++)
		out->cell[k] = bytes[k] == UINT64_MAX ? "-" : kv_size_format(bytes[k], out->text[k], 32);
	out->cell[NAME] = kv_utf8_text(t->name, strlen(t->name), out->name, sizeof(out->name));
	snprintf(out->text[REQUESTS], 32, "%" PRIu64, t->requests);
	snprintf(out->text[SESSIONS], 32, "%" PRIu64, t->sessions);
	snprintf(out->text[EVICTIONS], 32, "%" PRIu64, t->evictions);
}

static void table_print(const struct tenants *before, const struct tenants *now)
{
	struct table t = {.column = columns, .columns = COLUMNS, .limit = kv_terminal_columns(stdout)};
	struct row row;
	for (unsigned i = 0; i < now->count; i++) {
		row_make(before, now, i, &row);
		table_measure(&t, row.cell);
	}
	table_fit(&t);
	table_header(&t, stdout);
	for (unsigned i = 0; i < now->count; i++) {
		row_make(before, now, i, &row);
		table_row(&t, stdout, row.cell, now->of[i].listed ? NULL : "removed", false);
	}
}

static int json_print(const struct tenants *before, const struct tenants *now, struct kv_error *err)
{
	json_t *list = json_array(), *all = json_pack("{s:o}", "tenants", list);
	for (unsigned i = 0; i < now->count; i++) {
		const struct kvc_tenant *t = &now->of[i];
		json_t *o = json_pack("{s:s, s:b, s:I}", "name", t->name, "listed", (int)(t->listed != 0),
				      "read_bytes_s", (json_int_t)read_s(before, now, t));
		for (unsigned k = 0; k < KV_COUNT(numbers); k++) {
			uint64_t value = *number_of(t, &numbers[k]);
			json_object_set_new(o, numbers[k].name,
					    numbers[k].limit && value == UINT64_MAX ? json_null()
										    : json_integer((json_int_t)value));
		}
		json_array_append_new(list, o);
	}
	return file_json(all, "tenants", err);
}

static int print(struct cli *cli, const struct tenants *before, const struct tenants *now, struct kv_error *err)
{
	if (now->silent < 0 || (cli->opt->json && json_print(before, now, err) < 0))
		return CLI_FAILED;
	if (now->count == 0 && now->silent == 0)
		kv_fail(err, -KV_ENOTFOUND, "tenants: the servers have none (kv-server --tenants)");
	else if (!cli->opt->json)
		table_print(before, now);
	return now->count == 0 || now->silent ? CLI_NOT_FOUND : CLI_OK;
}

int tenants_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	static struct tenants seen[2];
	int status;
	(void)line;
	interrupt_catch(!cli->interactive);
	tenants_read(cli, &seen[0], err);
	if (seen[0].count > 0)
		interrupt_wait(kv_deadline(seen[0].at_ns, cli->opt->interval_ns));
	tenants_read(cli, &seen[1], err);
	status = print(cli, &seen[0], &seen[1], err);
	interrupt_release(cli->interactive, false);
	return status;
}
