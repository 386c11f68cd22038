/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- the page /metrics: the shards' published counters, summed over shards, except for NICs.
 *
 * Statistics with a well-known name are rows of `families`. Every other one of wire/stat.def follows a rule, so that
 * none is forgotten: kvrail_NAME_total for a counter, kvrail_NAME for a gauge or a maximum, ns as seconds. */
#include <stdio.h>
#include <string.h>

#include "kvserver/server/server.h"
#include "kvserver/http/pages.h"
#include "kvserver/member/membership.h"

enum { LABELS_MAX = 1024 };

static const struct family {
	const char *name, *help;
	enum kv_metric_type type;
	struct {
		const char *labels;
		enum wire_stat id;
	} value[2]; /* id 0: none */
} families[] = {
	{"kvrail_bytes_total",
	 "Bytes of values: out to clients, in and stored.",
	 KV_METRIC_COUNTER,
	 {{"direction=\"out\"", WIRE_STAT_BYTES_READ}, {"direction=\"in\"", WIRE_STAT_BYTES_WRITTEN}}},
	{"kvrail_blocks", "Values stored.", KV_METRIC_GAUGE, {{"tier=\"memory\"", WIRE_STAT_BLOCKS}}},
	{"kvrail_evicted_total",
	 "Values dropped: for room, or their time was over.",
	 KV_METRIC_COUNTER,
	 {{"reason=\"room\"", WIRE_STAT_EVICTIONS}, {"reason=\"ttl\"", WIRE_STAT_EXPIRED}}},
};

static bool special(uint32_t id)
{
	switch (id) {
	case WIRE_STAT_HITS:
	case WIRE_STAT_MISSES:
	case WIRE_STAT_TIER_SERVED:
	case WIRE_STAT_BYTES_USED:
	case WIRE_STAT_BYTES_LIMIT:
	case WIRE_STAT_REPLIES:
	case WIRE_STAT_POST_NS:
	case WIRE_STAT_SERVE_NS:
	case WIRE_STAT_VERSION: /* a label of kvrail_build_info */
	case WIRE_STAT_RAIL_BYTES ... WIRE_STAT_RAIL_BYTES_LAST:
	case WIRE_STAT_RAIL_ERRORS ... WIRE_STAT_RAIL_ERRORS_LAST:
	case WIRE_STAT_STATUS ... WIRE_STAT_STATUS_LAST:
		return true;
	default:
		return false;
	}
}

static bool named(uint32_t id)
{
	for (unsigned i = 0; i < KV_COUNT(families); i++)
		if (families[i].value[0].id == id || families[i].value[1].id == id)
			return true;
	return special(id);
}

/* ---- numbers ---- */

static uint64_t get(const _Atomic uint64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

#define SUM(source, member)                                                                                            \
	({                                                                                                             \
		uint64_t sum_ = 0;                                                                                     \
		for (unsigned s_ = 0; s_ < (source)->shards; s_++)                                                     \
			sum_ += get(&(source)->published[s_]->member);                                                 \
		sum_;                                                                                                  \
	})

uint64_t page_stat(const struct page_source *s, uint32_t id)
{
	uint64_t most = 0;
	if (wire_stat_info(id).kind != WIRE_STAT_MAXIMUM)
		return SUM(s, stat[id]);
	for (unsigned i = 0; i < s->shards; i++)
		most = KV_MAX(most, get(&s->published[i]->stat[id]));
	return most;
}

/* ---- families ---- */

/* A family of one value. */
static void one_write(struct kv_metrics *m, const char *name, enum kv_metric_type type, const char *help,
		      uint64_t value)
{
	kv_metrics_family(m, name, type, help);
	kv_metrics_value(m, "", value);
}

static void build_write(struct kv_metrics *m, const struct page_source *from)
{
	char labels[LABELS_MAX] = "";
	const char *unready;
	kv_metrics_label(labels, sizeof(labels), "version", KVRAIL_VERSION);
	if (from->server) {
		kv_metrics_label(labels, sizeof(labels), "libfabric", from->info.libfabric);
		kv_metrics_label(labels, sizeof(labels), "provider", from->info.provider);
		kv_metrics_label(labels, sizeof(labels), "fabric", from->info.fabric);
		kv_metrics_label(labels, sizeof(labels), "node_id", from->server->node_id);
		kv_metrics_label(labels, sizeof(labels), "cluster", from->server->opt.cluster);
		kv_metrics_label(labels, sizeof(labels), "security", from->info.security);
	}
	kv_metrics_family(m, "kvrail_build_info", KV_METRIC_GAUGE, "1; the labels describe the program.");
	kv_metrics_value(m, labels, 1);
	one_write(m, "kvrail_ready", KV_METRIC_GAUGE, "1 while /readyz answers 200, else 0: starting or draining.",
		  page_ready(from, &unready));
	if (from->server) {
		one_write(m, "kvrail_open_to_anyone", KV_METRIC_GAUGE,
			  "1: other machines may connect, and clients show neither a key nor a certificate.",
			  from->info.open_to_anyone);
	}
	one_write(m, "kvrail_http_requests_total", KV_METRIC_COUNTER, "Requests answered on this port before.",
		  from->requests);
	one_write(m, "kvrail_http_cut_total", KV_METRIC_COUNTER,
		  "Connections to this port cut because they were slow, or the oldest of too many.", from->cut);
	one_write(m, "kvrail_http_wakeups_total", KV_METRIC_COUNTER,
		  "Times that the thread of this port woke: for connections, and twice a second.", from->wakeups);
}

/* Of each pair of operation and answer that occurred; of GET and PUT always OK, so that a rate has a beginning. */
static void requests_write(struct kv_metrics *m, const struct page_source *s)
{
	static const char *const ops[] = {
		[WIRE_GET] = "get",         [WIRE_PUT] = "put",      [WIRE_EXISTS] = "exists", [WIRE_DELETE] = "delete",
		[WIRE_TOUCH] = "touch",     [WIRE_PIN] = "pin",      [WIRE_STAT] = "stat",     [WIRE_CANCEL] = "cancel",
		[WIRE_PING] = "ping",       [WIRE_TOMBS] = "tombs",  [WIRE_CLEAR] = "clear",   [WIRE_SPACES] = "spaces",
		[WIRE_TENANTS] = "tenants", [WIRE_LEASES] = "leases"};
	char labels[LABELS_MAX];
	kv_metrics_family(m, "kvrail_requests_total", KV_METRIC_COUNTER, "Requests answered, by operation and code.");
	for (unsigned op = WIRE_GET; op < KV_COUNT(ops); op++)
		for (unsigned status = 0; status < WIRE_STATUS_MAX; status++) {
			uint64_t n = SUM(s, answered[op][status]);
			bool always = status == WIRE_OK && (op == WIRE_GET || op == WIRE_PUT);
			if (n == 0 && !always)
				continue;
			labels[0] = '\0';
			kv_metrics_label(labels, sizeof(labels), "op", ops[op]);
			kv_metrics_label(labels, sizeof(labels), "code",
					 status ? kv_errkey(wire_status_error((int32_t)status)) : "ok");
			kv_metrics_value(m, labels, n);
		}
}

static void families_write(struct kv_metrics *m, const struct page_source *s)
{
	for (const struct family *f = families; f < families + KV_COUNT(families); f++) {
		kv_metrics_family(m, f->name, f->type, f->help);
		for (unsigned i = 0; i < KV_COUNT(f->value) && f->value[i].id; i++)
			kv_metrics_value(m, f->value[i].labels, page_stat(s, f->value[i].id));
	}
}

static void blocks_write(struct kv_metrics *m, const struct page_source *s)
{
	uint64_t used = page_stat(s, WIRE_STAT_BYTES_USED), limit = page_stat(s, WIRE_STAT_BYTES_LIMIT);
	uint64_t hits = page_stat(s, WIRE_STAT_HITS), served = KV_MIN(page_stat(s, WIRE_STAT_TIER_SERVED), hits);
	kv_metrics_family(
		m, "kvrail_get_blocks_total", KV_METRIC_COUNTER,
		"GETs of values and ranges, found or not, by where the value was. A miss has the tier memory.");
	kv_metrics_value(m, "result=\"hit\",tier=\"memory\"", hits - served);
	kv_metrics_value(m, "result=\"hit\",tier=\"tier\"", served);
	kv_metrics_value(m, "result=\"miss\",tier=\"memory\"", page_stat(s, WIRE_STAT_MISSES));
	kv_metrics_family(m, "kvrail_prefix_blocks_total", KV_METRIC_COUNTER,
			  "Keys in EXISTS requests, and of them those present without a gap from the first one on.");
	kv_metrics_value(m, "result=\"asked\"", SUM(s, asked));
	kv_metrics_value(m, "result=\"present\"", SUM(s, present));
	kv_metrics_family(m, "kvrail_memory_bytes", KV_METRIC_GAUGE,
			  "Memory for values; the states add up to all of it.");
	kv_metrics_value(m, "state=\"used\"", used);
	kv_metrics_value(m, "state=\"free\"", limit > used ? limit - used : 0);
}

static void times_write(struct kv_metrics *m, const struct page_source *s)
{
	uint64_t post[KV_METRIC_BUCKETS], serve[KV_METRIC_BUCKETS];
	for (unsigned i = 0; i < KV_METRIC_BUCKETS; i++) {
		post[i] = SUM(s, post[i]);
		serve[i] = SUM(s, serve[i]);
	}
	kv_metrics_family(m, "kvrail_post_seconds", KV_METRIC_HISTOGRAM,
			  "From the turn that took a request to its last data posted.");
	kv_metrics_histogram(m, post, page_stat(s, WIRE_STAT_POST_NS));
	kv_metrics_family(m, "kvrail_serve_seconds", KV_METRIC_HISTOGRAM,
			  "From the turn that took a request to its reply made.");
	kv_metrics_histogram(m, serve, page_stat(s, WIRE_STAT_SERVE_NS));
}

static void rail_family_write(struct kv_metrics *m, const struct page_source *s, const char *name,
			      enum kv_metric_type type, const char *help, size_t offset)
{
	kv_metrics_family(m, name, type, help);
	for (unsigned i = 0; i < s->shards; i++)
		for (unsigned r = 0; r < s->published[i]->rails; r++) {
			const struct published_rail *rail = &s->published[i]->rail[r];
			char labels[LABELS_MAX] = "", number[16];
			snprintf(number, sizeof(number), "%u", i);
			kv_metrics_label(labels, sizeof(labels), "shard", number);
			snprintf(number, sizeof(number), "%u", r);
			kv_metrics_label(labels, sizeof(labels), "rail", number);
			kv_metrics_label(labels, sizeof(labels), "nic", rail->nic);
			kv_metrics_value(m, labels, get((const _Atomic uint64_t *)((const char *)rail + offset)));
		}
}

static void rails_write(struct kv_metrics *m, const struct page_source *s)
{
	rail_family_write(m, s, "kvrail_rail_up", KV_METRIC_GAUGE, "1 while a worker thread uses the NIC, else 0.",
			  offsetof(struct published_rail, up));
	rail_family_write(m, s, "kvrail_rail_bytes_total", KV_METRIC_COUNTER, "Bytes written to and read from clients.",
			  offsetof(struct published_rail, bytes));
	rail_family_write(m, s, "kvrail_rail_errors_total", KV_METRIC_COUNTER, "Operations that failed.",
			  offsetof(struct published_rail, errors));
}

static void device_family_write(struct kv_metrics *m, const struct page_source *s, const char *name,
				enum kv_metric_type type, const char *help, size_t offset)
{
	bool ns = strstr(name, "_seconds") != NULL, begun = false;
	for (unsigned i = 0; i < s->shards; i++)
		for (unsigned k = 0; k < TIER_DEVICES_MAX; k++) {
			const struct published_device *d = &s->published[i]->device[k];
			const char *path = atomic_load_explicit(&d->path, memory_order_acquire);
			uint64_t value = get((const _Atomic uint64_t *)((const char *)d + offset));
			char labels[LABELS_MAX] = "", number[16];
			if (!path || value == UINT64_MAX)
				continue;
			if (!begun)
				kv_metrics_family(m, name, type, help);
			begun = true;
			snprintf(number, sizeof(number), "%u", i);
			kv_metrics_label(labels, sizeof(labels), "shard", number);
			kv_metrics_label(labels, sizeof(labels), "device", path);
			if (ns)
				kv_metrics_ns(m, labels, value);
			else
				kv_metrics_value(m, labels, value);
		}
}

/* The devices of the tier. A budget without a limit is left out, and a family without a value. */
static void devices_write(struct kv_metrics *m, const struct page_source *s)
{
	static const struct {
		const char *name, *help;
		enum kv_metric_type type;
		size_t offset;
	} rows[] = {
#define DEVICE(member, metric, type, value, help)                                                                      \
	{"kvrail_tier_device_" metric, help, KV_METRIC_##type, offsetof(struct published_device, member)},
		PUBLISHED_DEVICE(DEVICE)
#undef DEVICE
	};
	for (unsigned i = 0; i < KV_COUNT(rows); i++)
		device_family_write(m, s, rows[i].name, rows[i].type, rows[i].help, rows[i].offset);
}

/* The sum over shards of the first namespaces or tenants, by name. Returns how many. */
static unsigned rows_sum(const struct page_source *s, enum published_kind kind,
			 struct published_row sum[PUBLISHED_ROWS])
{
	struct published_row of[PUBLISHED_ROWS];
	unsigned count = 0;
	for (unsigned i = 0; i < s->shards; i++) {
		unsigned n = published_rows(&s->published[i]->table[kind], of);
		for (unsigned k = 0; k < n; k++) {
			unsigned at = 0;
			while (at < count && strcmp(sum[at].name, of[k].name) != 0)
				at++;
			if (at == PUBLISHED_ROWS)
				continue;
			if (at == count) {
				sum[count++] = of[k];
				continue;
			}
			for (unsigned j = 0; j < PUBLISHED_NUMBERS; j++)
				sum[at].number[j] += of[k].number[j];
		}
	}
	return count;
}

/* A number of each row. */
static void row_family_write(struct kv_metrics *m, const char *label, const struct published_row *sum, unsigned n,
			     unsigned number, uint64_t *all)
{
	for (unsigned i = 0; i < n; i++) {
		char labels[LABELS_MAX] = "";
		kv_metrics_value(m, kv_metrics_label(labels, sizeof(labels), label, sum[i].name),
				 sum[i].number[number]);
		*all -= KV_MIN(*all, sum[i].number[number]);
	}
}

static void spaces_write(struct kv_metrics *m, const struct page_source *s)
{
	static const struct {
		const char *name, *help;
		enum kv_metric_type type;
		enum wire_stat all;
	} rows[] = {
		{"kvrail_namespace_blocks",
		 "Values stored, by namespace; those of earlier generations until they are freed.", KV_METRIC_GAUGE,
		 WIRE_STAT_BLOCKS},
		{"kvrail_namespace_bytes", "Memory of these values. The rest includes values that are not stored yet.",
		 KV_METRIC_GAUGE, WIRE_STAT_BYTES_USED},
		{"kvrail_namespace_gets_total", "GETs of values, by namespace.", KV_METRIC_COUNTER, WIRE_STAT_GETS},
		{"kvrail_namespace_hits_total", "GETs that found the value, by namespace.", KV_METRIC_COUNTER,
		 WIRE_STAT_HITS},
	};
	struct published_row sum[PUBLISHED_ROWS];
	unsigned n = rows_sum(s, PUBLISHED_SPACES, sum);
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		uint64_t all = page_stat(s, rows[i].all);
		kv_metrics_family(m, rows[i].name, rows[i].type, rows[i].help);
		row_family_write(m, "namespace", sum, n, i, &all);
		kv_metrics_value(m, "namespace=\"other\",rest=\"true\"", all);
	}
}

static void place_family_write(struct kv_metrics *m, const char *name, enum kv_metric_type type, const char *help,
			       const struct place_row *row, unsigned n, size_t offset)
{
	kv_metrics_family(m, name, type, help);
	for (unsigned i = 0; i <= n; i++) { /* the last one is the rest */
		char labels[LABELS_MAX] = "tenant=\"other\",rest=\"true\"";
		uint64_t value;
		memcpy(&value, (const char *)&row[i] + offset, sizeof(value));
		if (i < n) {
			labels[0] = 0;
			kv_metrics_label(labels, sizeof(labels), "tenant", row[i].name);
		}
		kv_metrics_value(m, labels, value);
	}
}

/* The control loop counts sessions: not a shard. */
static void sessions_write(struct kv_metrics *m, struct kvs_server *server)
{
	struct place_row row[PUBLISHED_ROWS + 1], rest;
	unsigned n = places_read(&server->places, row, PUBLISHED_ROWS, &rest);
	row[n] = rest;
	place_family_write(m, "kvrail_tenant_sessions", KV_METRIC_GAUGE, "Open sessions of a tenant.", row, n,
			   offsetof(struct place_row, sessions));
	place_family_write(m, "kvrail_tenant_sessions_refused_total", KV_METRIC_COUNTER,
			   "Sessions of a tenant that were refused: beyond its sessions_max, or kept for others.", row,
			   n, offsetof(struct place_row, refused));
}

static void tenants_write(struct kv_metrics *m, const struct page_source *s)
{
	static const struct {
		const char *name, *help;
		enum kv_metric_type type;
		enum wire_stat all; /* WIRE_STAT_NONE: the rest is not known */
	} rows[] = {
		{"kvrail_tenant_bytes", "Memory charged to a tenant, with values that are not stored yet.",
		 KV_METRIC_GAUGE, WIRE_STAT_BYTES_USED},
		{"kvrail_tenant_evictions_total", "Values of a tenant that were evicted.", KV_METRIC_COUNTER,
		 WIRE_STAT_EVICTIONS},
		{"kvrail_tenant_refused_total", "Requests and values of a tenant that were refused for a limit of it.",
		 KV_METRIC_COUNTER, WIRE_STAT_NONE},
		{"kvrail_tenant_requests", "Requests of a tenant in flight.", KV_METRIC_GAUGE, WIRE_STAT_ACTIVE},
		{"kvrail_tenant_read_bytes_total", "Bytes of values that a tenant's sessions read.", KV_METRIC_COUNTER,
		 WIRE_STAT_BYTES_READ},
		{"kvrail_tenant_pinned_bytes", "Memory that a tenant's sessions pin, each pin by itself.",
		 KV_METRIC_GAUGE, WIRE_STAT_NONE},
		{"kvrail_tenant_tier_bytes", "Values of a tenant on the tier.", KV_METRIC_GAUGE, WIRE_STAT_NONE},
	};
	struct published_row sum[PUBLISHED_ROWS];
	unsigned n = rows_sum(s, PUBLISHED_TENANTS, sum);
	for (unsigned i = 0; i < KV_COUNT(rows) && n > 0; i++) {
		uint64_t all = rows[i].all ? page_stat(s, rows[i].all) : 0;
		kv_metrics_family(m, rows[i].name, rows[i].type, rows[i].help);
		row_family_write(m, "tenant", sum, n, i, &all);
		if (rows[i].all)
			kv_metrics_value(m, "tenant=\"other\",rest=\"true\"", all);
	}
	if (n > 0 && s->server)
		sessions_write(m, s->server);
}

/* A statistic by rule. */
static void other_write(struct kv_metrics *m, const struct page_source *s, uint32_t id)
{
	struct wire_stat_info info = wire_stat_info(id);
	bool ns = strcmp(info.unit, "ns") == 0, counter = info.kind == WIRE_STAT_COUNTER;
	int len = (int)strlen(info.name) - (ns ? 3 : 0); /* without "_ns" */
	char name[KV_METRIC_NAME_MAX], help[160];
	snprintf(name, sizeof(name), "kvrail_%.*s%s%s", len, info.name, ns ? "_seconds" : "", counter ? "_total" : "");
	snprintf(help, sizeof(help), "%s%s of kv-client stat, group %s; see docs/reference/counters.md.", info.name,
		 info.kind == WIRE_STAT_MAXIMUM ? " (since the start)" : "", info.group);
	kv_metrics_family(m, name, counter ? KV_METRIC_COUNTER : KV_METRIC_GAUGE, help);
	if (ns)
		kv_metrics_ns(m, "", page_stat(s, id));
	else
		kv_metrics_value(m, "", page_stat(s, id));
}

/* A source that never answered has no time of silence. */
static void cluster_write(struct kv_metrics *m, const struct membership_now *now)
{
	static const enum source_state states[] = {SOURCE_STARTING, SOURCE_OK, SOURCE_UNREACHABLE};
	char labels[LABELS_MAX];
	one_write(m, "kvrail_view_epoch", KV_METRIC_GAUGE, "Epoch of this server's view; 0: it has none.",
		  now->view.epoch);
	one_write(m, "kvrail_view_saved", KV_METRIC_GAUGE,
		  "1: the view is that of --state-dir, and --members has not answered since the start.", now->saved);
	kv_metrics_family(m, "kvrail_members", KV_METRIC_GAUGE, "Members of this server's view, by state.");
	for (enum kv_member_state s = KV_MEMBER_JOINING; s <= KV_MEMBER_DRAINING; s++) {
		uint64_t n = 0;
		for (unsigned i = 0; i < now->view.count; i++)
			n += now->view.member[i].state == s;
		labels[0] = '\0';
		kv_metrics_value(m, kv_metrics_label(labels, sizeof(labels), "state", kv_member_state_name(s)), n);
	}
	one_write(m, "kvrail_members_doubted", KV_METRIC_GAUGE,
		  "Members that --members no longer names, kept because they answer.", now->doubted);
	kv_metrics_family(m, "kvrail_members_source", KV_METRIC_GAUGE, "1 for the present state of --members, else 0.");
	for (unsigned i = 0; i < KV_COUNT(states); i++) {
		labels[0] = '\0';
		kv_metrics_label(labels, sizeof(labels), "source", now->source);
		kv_metrics_label(labels, sizeof(labels), "state", source_state_name(states[i]));
		kv_metrics_value(m, labels, now->state == states[i]);
	}
	if (now->silence_ns != KV_NEVER) {
		kv_metrics_family(m, "kvrail_members_silence_seconds", KV_METRIC_GAUGE,
				  "Time since --members last answered.");
		kv_metrics_ns(m, "", now->silence_ns);
	}
	one_write(m, "kvrail_view_changes_total", KV_METRIC_COUNTER, "Changes of the view.", now->changes);
	one_write(m, "kvrail_members_restarts_total", KV_METRIC_COUNTER,
		  "Times that --members began anew or counted backwards: wiped, restored, a clock.", now->restarts);
	one_write(m, "kvrail_view_refused_total", KV_METRIC_COUNTER, "Refused losses of more than half of the members.",
		  now->refused);
}

size_t metrics_write(const struct page_source *from, char *buf, size_t cap)
{
	struct kv_metrics m;
	kv_metrics_begin(&m, buf, cap);
	build_write(&m, from);
	if (from->cluster)
		cluster_write(&m, from->cluster);
	if (!from->server)
		return m.len;
	requests_write(&m, from);
	families_write(&m, from);
	blocks_write(&m, from);
	times_write(&m, from);
	rails_write(&m, from);
	if (from->shards && atomic_load_explicit(&from->published[0]->device[0].path, memory_order_acquire))
		devices_write(&m, from);
	spaces_write(&m, from);
	tenants_write(&m, from);
	for (uint32_t id = 1; id < WIRE_STAT_END; id++)
		if (wire_stat_name(id) && !named(id))
			other_write(&m, from, id);
	return m.len;
}
