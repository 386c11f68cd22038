/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- a pool's counters as Prometheus text in the caller's buffer. Well-known names are set by hand; others
 * follow kv-server's rule: kvrail_client_NAME_total, without _total for gauges and maxima, ns as seconds. */
#include <stdio.h>
#include <string.h>

#include "kvclient/core/client.h"
#include "kvclient/kvclient.h"

enum { ITEMS_MAX = 512 };

static bool named(const struct kvc_stat_item *i)
{
	static const char *const names[] = {"hits", "misses", "bytes_in", "bytes_out"};
	for (unsigned n = 0; n < KV_COUNT(names); n++)
		if (strcmp(i->name, names[n]) == 0)
			return true;
	return strncmp(i->group, "results of ", 11) == 0;
}

static void results_write(struct kv_metrics *m, const struct kvc_counters *c)
{
	kv_metrics_family(m, "kvrail_client_calls_total", KV_METRIC_COUNTER,
			  "Calls that returned, by operation and code; an item of a batch counts as one.");
	for (unsigned op = 0; op < KVC_OPS; op++) {
		char name[32];
		unsigned n = 0;

		for (const char *p = kvc_opname((enum kvc_op)op); *p && n < sizeof(name) - 1; p++)
			name[n++] = (char)(*p | 0x20); /* to lower case */
		name[n] = '\0';
		for (unsigned i = 0; i < KVC_RESULTS; i++) {
			char labels[128] = "";
			bool always = i == 0 && (op == KVC_OP_GET || op == KVC_OP_PUT);

			if (c->results[op][i] == 0 && !always) /* GET and PUT: a rate needs its first value */
				continue;
			kv_metrics_label(labels, sizeof(labels), "op", name);
			kv_metrics_label(labels, sizeof(labels), "code", kc_result_name(i));
			kv_metrics_value(m, labels, c->results[op][i]);
		}
	}
}

static void other_write(struct kv_metrics *m, const struct kvc_stat_item *i)
{
	bool ns = strcmp(i->unit, "ns") == 0, counter = i->kind == KVC_STAT_COUNTER;
	int len = (int)strlen(i->name) - (ns ? 3 : 0); /* without "_ns" */
	char name[KV_METRIC_NAME_MAX], help[160];
	snprintf(name, sizeof(name), "kvrail_client_%.*s%s%s", len, i->name, ns ? "_seconds" : "",
		 counter ? "_total" : "");
	snprintf(help, sizeof(help), "%s%s of kvc_counters, group %s; see docs/reference/counters.md.", i->name,
		 i->kind == KVC_STAT_MAXIMUM ? " (since the start)" : "", i->group);
	kv_metrics_family(m, name, counter ? KV_METRIC_COUNTER : KV_METRIC_GAUGE, help);
	if (ns)
		kv_metrics_ns(m, "", i->value);
	else
		kv_metrics_value(m, "", i->value);
}

static void build_write(struct kv_metrics *m, const struct kvc_pool *pool)
{
	const struct te_info *info = &pool->client[0]->info;
	char labels[512] = "";
	kv_metrics_label(labels, sizeof(labels), "version", kvc_version());
	kv_metrics_label(labels, sizeof(labels), "libfabric", info->libfabric);
	kv_metrics_label(labels, sizeof(labels), "provider", info->provider);
	kv_metrics_label(labels, sizeof(labels), "fabric", info->fabric);
	kv_metrics_family(m, "kvrail_client_build_info", KV_METRIC_GAUGE, "1; the labels describe the program.");
	kv_metrics_value(m, labels, 1);
}

int64_t kvc_metrics_text(struct kvc_pool *pool, char *buf, size_t cap)
{
	struct kvc_counters c = {.size = sizeof(c)};
	struct kvc_stat_item item[ITEMS_MAX];
	struct kv_metrics m;
	int n = !pool || (!buf && cap) ? -KV_EINVAL : kvc_counters(pool, &c);
	if (n == 0)
		n = kvc_counters_items(&c, item, ITEMS_MAX);
	if (n < 0)
		return n;
	kv_metrics_begin(&m, buf, cap);
	build_write(&m, pool);
	results_write(&m, &c);
	kv_metrics_family(&m, "kvrail_client_get_blocks_total", KV_METRIC_COUNTER, "GETs of values, found or not.");
	kv_metrics_value(&m, "result=\"hit\"", c.hits);
	kv_metrics_value(&m, "result=\"miss\"", c.misses);
	kv_metrics_family(&m, "kvrail_client_bytes_total", KV_METRIC_COUNTER,
			  "Bytes of values: in by GET, out by PUT.");
	kv_metrics_value(&m, "direction=\"in\"", c.bytes_in);
	kv_metrics_value(&m, "direction=\"out\"", c.bytes_out);
	for (int i = 0; i < n; i++)
		if (!named(&item[i]))
			other_write(&m, &item[i]);
	return (int64_t)m.len;
}
