/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c -- kv-client leases: the clients that read values in a server's memory, those that hold most of it first. */
#include "kvcli/lease.h"

#include <inttypes.h>
#include <stdlib.h>

#include "kvcli/file.h"
#include "kvcli/look.h"
#include "kvcli/table.h"

enum { ROOM = 4096 }; /* clients of a server that are listed */

/* A client at a server. */
struct holder {
	const struct kvc_server_info *server;
	struct kvc_lease_holder of;
};

struct holders {
	struct holder *at;
	size_t count;
};

static int by_bytes(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	if (x->of.bytes != y->of.bytes)
		return x->of.bytes > y->of.bytes ? -1 : 1;
	return x->of.age_ns > y->of.age_ns ? -1 : x->of.age_ns < y->of.age_ns;
}

static const char *name_of(const struct kvc_server_info *s)
{
	const char *id = s->member[0] ? s->member : s->node_id;
	return id[0] ? id : s->name;
}

static int holders_add(struct holders *h, const struct kvc_server_info *server, const struct kvc_lease_holder *from,
		       size_t n)
{
	struct holder *more = n ? realloc(h->at, (h->count + n) * sizeof(*more)) : h->at;
	if (n && !more)
		return -KV_ENOMEM;
	h->at = more;
	for (size_t i = 0; i < n; i++)
		h->at[h->count++] = (struct holder){server, from[i]};
	return 0;
}

static int holders_of_one(struct cli *cli, const struct kvc_call *call, const struct kvc_server_info *server, void *arg)
{
	static struct kvc_lease_holder of_one[ROOM];
	int n = kvc_leases(cli->pool, of_one, ROOM, call);
	return n > 0 ? holders_add(arg, server, of_one, KV_MIN((size_t)n, (size_t)ROOM)) : n;
}

/* ---- output ---- */

enum { SERVER, CLIENT, IDENTITY, PID, LEASES, BYTES, OLDEST, COLUMNS };

static const struct table_column columns[COLUMNS] = {
	[SERVER] = {.title = "SERVER", .cut = true, .keep = 16},
	[CLIENT] = {.title = "CLIENT", .width = 8},
	[IDENTITY] = {.title = "IDENTITY", .width = 8, .cut = true, .keep = 10, .drop = 1},
	[PID] = {.title = "PID", .width = 7},
	[LEASES] = {.title = "LEASES", .width = 7},
	[BYTES] = {.title = "LEASED", .width = 8},
	[OLDEST] = {.title = "OLDEST", .width = 8},
};

struct row {
	char identity[4 * sizeof(((struct kvc_lease_holder *)0)->identity)], text[COLUMNS][32];
	const char *cell[COLUMNS];
};

static void row_make(const struct holder *h, struct row *out)
{
	const struct kvc_lease_holder *o = &h->of;
	for (unsigned i = 0; i < COLUMNS; i++)
		out->cell[i] = out->text[i];
	out->cell[SERVER] = name_of(h->server);
	out->cell[IDENTITY] = kv_utf8_text(o->identity, strlen(o->identity), out->identity, sizeof(out->identity));
	if (!o->identity[0])
		out->cell[IDENTITY] = "-";
	snprintf(out->text[CLIENT], 32, "%" PRIu64, o->client_id);
	snprintf(out->text[PID], 32, "%" PRIu64, o->pid);
	if (o->pid == 0)
		out->cell[PID] = "-";
	snprintf(out->text[LEASES], 32, "%" PRIu64, o->leases);
	kv_size_format(o->bytes, out->text[BYTES], 32);
	snprintf(out->text[OLDEST], 32, "%.1f s", (double)o->age_ns / 1e9);
}

static void table_print(const struct holders *h)
{
	struct table t = {.column = columns, .columns = COLUMNS, .limit = kv_terminal_columns(stdout)};
	struct row row;
	for (size_t i = 0; i < h->count; i++) {
		row_make(&h->at[i], &row);
		table_measure(&t, row.cell);
	}
	table_fit(&t);
	table_header(&t, stdout);
	for (size_t i = 0; i < h->count; i++) {
		row_make(&h->at[i], &row);
		table_row(&t, stdout, row.cell, NULL, false);
	}
}

static int json_print(const struct holders *h, struct kv_error *err)
{
	json_t *list = json_array(), *all = json_pack("{s:o}", "leases", list);
	for (size_t i = 0; i < h->count; i++) {
		const struct kvc_lease_holder *o = &h->at[i].of;
		json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:f}", "server",
						      name_of(h->at[i].server), "client_id", (json_int_t)o->client_id,
						      "identity", o->identity, "session", (json_int_t)o->session, "pid",
						      (json_int_t)o->pid, "leases", (json_int_t)o->leases, "bytes",
						      (json_int_t)o->bytes, "age_sec", (double)o->age_ns / 1e9));
	}
	return file_json(all, "leases", err);
}

int leases_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	struct holders h = {0};
	int silent = look_each(cli, "leases", holders_of_one, &h, err), rc = KV_MIN(silent, 0);
	(void)line;
	if (h.count)
		qsort(h.at, h.count, sizeof(h.at[0]), by_bytes);
	if (rc == 0 && cli->opt->json)
		rc = json_print(&h, err);
	else if (rc == 0 && h.count)
		table_print(&h);
	else if (silent == 0)
		printf("no client on the host of a server holds leases\n");
	free(h.at);
	if (rc < 0)
		return CLI_FAILED;
	return silent ? CLI_NOT_FOUND : CLI_OK;
}
