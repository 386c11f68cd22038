/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c -- the paths of --http-addr: /healthz, /readyz, /stat, /view; /metrics has a file of its own.
 *
 * /healthz fails when a loop has not answered for HEALTH_NS, and never because of load, a drain or a start, since an
 * orchestrator then kills the process. /readyz waits for the first view of --members, and fails when a drain says
 * goodbye, but not while it pushes values. */
#include "kvserver/http/pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/server/server.h"
#include "kvserver/member/membership.h"

#define HEALTH_NS 5000000000ull

static const char text_plain[] = "text/plain; charset=utf-8", json_type[] = "application/json";

static void page_take(struct page *out, unsigned status, const char *type, char *body)
{
	*out = (struct page){.status = status, .type = type, .body = body, .len = body ? strlen(body) : 0};
}

/* "" or the problem. */
static void trouble(const struct page_source *from, char *why, size_t cap)
{
	char loop[64] = "";
	uint64_t ns = from->server ? kvs_server_silence_ns(from->server, loop, sizeof(loop)) : 0;
	why[0] = '\0';
	if (ns > HEALTH_NS)
		snprintf(why, cap, "%s has not answered for %.1f s", loop, (double)ns / 1e9);
}

static void health_page(const struct page_source *from, bool ready, struct page *out)
{
	const struct membership_now *cluster = from->cluster;
	char why[sizeof(cluster->trouble) + 128], *body = NULL;
	const char *unready;
	trouble(from, why, sizeof(why));
	if (ready && !page_ready(from, &unready)) {
		bool source = cluster && !cluster->ready && cluster->trouble[0];
		snprintf(why, sizeof(why), "%s%s%s", unready, source ? ": " : "", source ? cluster->trouble : "");
	}
	if (asprintf(&body, "%s\n", why[0] ? why : "ok") < 0)
		body = NULL;
	page_take(out, why[0] ? 503 : 200, text_plain, body);
}

void page_source_serve(struct page_source *from, struct kvs_server *server)
{
	from->server = server;
	from->shards = server->opt.shards;
	for (unsigned i = 0; i < from->shards; i++)
		from->published[i] = server->shard[i]->counts.published;
	kvs_server_info(server, &from->info);
}

static void group_write(FILE *f, const struct page_source *s, const char *group)
{
	const char *between = "";
	fprintf(f, "\"%s\":{", group);
	for (uint32_t id = 1; id < WIRE_STAT_END; id++) {
		struct wire_stat_info info = wire_stat_info(id);
		bool rail = id >= WIRE_STAT_RAIL_BYTES && id <= WIRE_STAT_RAIL_ERRORS_LAST;
		if (!info.name || strcmp(info.group, group) != 0 || (rail && page_stat(s, id) == 0))
			continue; /* kv-client omits idle rails as well */
		fprintf(f, "%s\"%s\":%" PRIu64, between, info.name, page_stat(s, id));
		between = ",";
	}
	fputc('}', f);
}

static void stat_write(FILE *f, const struct page_source *from)
{
	static const char *const groups[] = {"server", "requests", "answers", "time",
					     "memory", "peers",    "fabric",  "tier"};
	char address[KV_HOST_MAX] = "";
	if (!from->server) {
		fputs("{\"servers\":[]}\n", f);
		return;
	}
	kvs_server_address(from->server, address, sizeof(address));
	fprintf(f, "{\"servers\":[{\"server\":\"%s\",\"counters\":{", address);
	for (unsigned g = 0; g < KV_COUNT(groups); g++) {
		fputs(g ? "," : "", f);
		group_write(f, from, groups[g]);
	}
	fputs("}}]}\n", f);
}

static void member_write(FILE *f, const struct kv_member *m)
{
	char id[6 * KV_NAME_MAX], zone[6 * KV_NAME_MAX];
	fprintf(f,
		"{\"node_id\":\"%s\",\"address\":\"%s\",\"incarnation\":\"%016" PRIx64
		"\",\"state\":\"%s\",\"weight\":%u,\"zone\":\"%s\"}",
		kv_json_text(m->node_id, id, sizeof(id)), m->address, m->incarnation, kv_member_state_name(m->state),
		m->weight, kv_json_text(m->zone, zone, sizeof(zone)));
}

/* silence_sec: -1 before the first answer. */
static void cluster_write(FILE *f, const struct membership_now *now)
{
	kv_u128 digest = kv_view_digest(&now->view);
	char why[6 * sizeof(now->trouble)];
	fprintf(f, "{\"epoch\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "%016" PRIx64 "\",\"members\":[", now->view.epoch,
		(uint64_t)(digest >> 64), (uint64_t)digest);
	for (unsigned i = 0; i < now->view.count; i++) {
		fputs(i ? "," : "", f);
		member_write(f, &now->view.member[i]);
	}
	fprintf(f,
		"],\"source\":{\"name\":\"%s\",\"state\":\"%s\",\"trouble\":\"%s\",\"silence_sec\":%.3f,"
		"\"doubted\":%u,\"saved\":%s}}\n",
		now->source, source_state_name(now->state), kv_json_text(now->trouble, why, sizeof(why)),
		now->silence_ns == KV_NEVER ? -1.0 : (double)now->silence_ns / 1e9, now->doubted,
		now->saved ? "true" : "false");
}

static void view_write(FILE *f, const struct page_source *from)
{
	char address[KV_HOST_MAX] = "", name[6 * KV_NAME_MAX];
	if (from->cluster) {
		cluster_write(f, from->cluster);
		return;
	}
	if (!from->server) {
		fputs("{\"members\":[]}\n", f);
		return;
	}
	kvs_server_address(from->server, address, sizeof(address));
	fprintf(f,
		"{\"members\":[{\"node_id\":\"%s\",\"address\":\"%s\",\"incarnation\":\"%016" PRIx64
		"\",\"state\":\"%s\"}]}\n",
		kv_json_text(from->server->node_id, name, sizeof(name)), address, from->server->incarnation,
		from->draining ? "draining" : "up");
}

static void written_page(const struct page_source *from, void (*write)(FILE *f, const struct page_source *from),
			 struct page *out)
{
	char *body = NULL;
	size_t len;
	FILE *f = open_memstream(&body, &len);
	if (f) {
		write(f, from);
		if (fclose(f) != 0) {
			free(body);
			body = NULL;
		}
	}
	page_take(out, 200, json_type, body);
}

/* Numbers may grow between the count and the page: some spare room, and a second try. */
static void metrics_page(const struct page_source *from, struct page *out)
{
	enum { MORE = 1024 };
	size_t cap = metrics_write(from, NULL, 0) + MORE, len;
	char *body;
	for (;;) {
		body = malloc(cap);
		len = body ? metrics_write(from, body, cap) : 0;
		if (!body || len < cap)
			break;
		free(body);
		cap = len + MORE;
	}
	*out = (struct page){
		.status = 200, .type = "text/plain; version=0.0.4; charset=utf-8", .body = body, .len = len};
}

void page_make(const struct page_source *from, const char *path, struct page *out)
{
	if (strcmp(path, "/metrics") == 0)
		metrics_page(from, out);
	else if (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0)
		health_page(from, path[1] == 'r', out);
	else if (strcmp(path, "/stat") == 0)
		written_page(from, stat_write, out);
	else if (strcmp(path, "/view") == 0)
		written_page(from, view_write, out);
	else
		page_take(out, 404, text_plain, strdup("the pages are /metrics, /healthz, /readyz, /stat and /view\n"));
}
