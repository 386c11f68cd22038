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
	struct look looks[LOOK_MAX];
	struct holder *at;
	size_t count;
	unsigned silent; /* servers without an answer */
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

/* 0 or -KV_ENOMEM; *err names a server that does not answer. */
static int holders_read(struct cli *cli, struct holders *out, struct kv_error *err)
{
	struct kvc_lease_holder *of_one = calloc(ROOM, sizeof(*of_one));
	unsigned n = look_all(cli, out->looks);
	int rc = of_one ? 0 : -KV_ENOMEM;
	for (unsigned i = 0; rc == 0 && i < n; i++) {
		const struct look *l = &out->looks[i];
		struct kvc_call call = {.size = sizeof(call), .server = i};
		int count = look_answers(l) ? kvc_leases(cli->pool, of_one, ROOM, &call) : 0;
		if (l->known && (!look_answers(l) || count < 0)) {
			out->silent++;
			kv_fail(err, l->code < 0 ? l->code : count, "leases: those of %u server%s are missing: %s",
				out->silent, kv_plural(out->silent), count < 0 ? kv_strerror(count) : look_why(l));
		}
		if (count > 0)
			rc = holders_add(out, &l->info, of_one, KV_MIN((size_t)count, (size_t)ROOM));
	}
	free(of_one);
	if (out->count)
		qsort(out->at, out->count, sizeof(out->at[0]), by_bytes);
	return rc;
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
	struct holders *h = calloc(1, sizeof(*h));
	int status = CLI_FAILED, rc = h ? holders_read(cli, h, err) : -KV_ENOMEM;
	(void)line;
	if (rc) {
		kv_fail(err, rc, "leases: %s", kv_strerror(rc));
	} else if (!cli->opt->json || json_print(h, err) == 0) {
		if (!cli->opt->json && h->count)
			table_print(h);
		else if (!cli->opt->json && !h->silent)
			printf("no client on the host of a server holds leases\n");
		status = h->silent ? CLI_NOT_FOUND : CLI_OK;
	}
	if (h)
		free(h->at);
	free(h);
	return status;
}
