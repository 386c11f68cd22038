/* SPDX-License-Identifier: Apache-2.0 */
/* json.c -- the JSON report.
 *
 * The names in it are fixed: scripts compare runs by them. A figure without a measurement is absent, and never 0. */
#include "kvbench/report/json.h"
#include "host/host.h"
#include "kvbench/report/conditions.h"
#include "kvbench/report/model.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>

#include "kvbench/report/lab.h"
#include "kvbench/report/report.h"

enum { COUNTERS_MAX = 512 };

/* ---- the object ---- */

static json_t *choice_value(const char *name)
{
	char *end;
	long number = strtol(name, &end, 10);
	return *name && !*end ? json_integer(number) : json_string(name);
}

/* Durations are seconds, sizes bytes, choices their names, or numbers. */
static json_t *option_value(const struct kv_opt *row, const struct bench_options *o)
{
	const void *at = (const char *)o + row->offset;
	switch (row->type) {
	case KV_OPT_FLAG:
		return json_boolean(*(const bool *)at);
	case KV_OPT_U32:
		return json_integer(*(const uint32_t *)at);
	case KV_OPT_U64:
	case KV_OPT_SIZE:
		return json_integer((json_int_t) * (const uint64_t *)at);
	case KV_OPT_DURATION:
		return json_real((double)*(const uint64_t *)at / 1e9);
	case KV_OPT_DOUBLE:
		return json_real(*(const double *)at);
	case KV_OPT_STRING:
		return *(const char *const *)at ? json_string(*(const char *const *)at) : json_null();
	case KV_OPT_STRINGS:
		return lab_strings(((const struct kv_opt_strings *)at)->item,
				   ((const struct kv_opt_strings *)at)->count);
	case KV_OPT_CHOICE:
		return choice_value(row->choices[*(const int *)at]);
	}
	return json_null();
}

/* The options as the run had them, where one left the choice to the program. */
static struct bench_options effective(const struct bench *b)
{
	struct bench_options o = *b->opt;
	o.load.num_threads = b->results.library.info.os_threads;
	if (b->server) {
		o.server.memory_mb = b->results.memory.mb;
		o.server.server_threads = b->results.memory.server_threads;
	}
	return o;
}

static json_t *config_of(const struct bench_options *o)
{
	json_t *object = json_object();
	for (const struct kv_opt *row = bench_options_table; row->name; row++) {
		char name[64];
		snprintf(name, sizeof(name), "%s", row->name);
		for (char *c = name; *c; c++)
			if (*c == '-')
				*c = '_';
		json_object_set_new(object, name, option_value(row, o));
	}
	return object;
}

static json_t *config_object(const struct bench *b)
{
	const struct bench_options whole = effective(b);
	return config_of(&whole);
}

json_t *json_config_default(void)
{
	struct bench_options o = {0};
	kv_opt_defaults(bench_options_table, &o);
	return config_of(&o);
}

static const char *const put_ways[] = {[KVC_PUT_READ] = "read", [KVC_PUT_INLINE] = "inline", [KVC_PUT_LAND] = "land"};

static json_t *provider_object(const struct bench_results *r)
{
	const struct kvc_info *i = &r->library.info;
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name",
			 i->provider, "fabric", i->fabric, "domain", i->domain, "wait", i->wait, "libfabric",
			 i->libfabric, "doorkeeper", !i->no_door[0], "loopback_congestion_control", i->congestion,
			 "mode", i->mode, "put", put_ways[r->library.put_way], "security", i->security, "chunk_bytes",
			 (json_int_t)i->chunk_bytes, "eager_bytes", (json_int_t)i->eager_bytes, "tx_depth",
			 (json_int_t)i->tx_depth, "cq_depth", (json_int_t)i->cq_depth, "credits",
			 (json_int_t)i->credits);
}

/* Whether two reports compare depends on these. */
static json_t *run_object(const struct bench *b)
{
	char time[32] = "";
	time_t started = b->results.started_s;
	struct tm tm;
	if (gmtime_r(&started, &tm))
		strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_pack(
		"{s:s, s:s, s:o, s:s, s:o}", "version", KVRAIL_VERSION, "time", time, "options",
		lab_strings((const char *const *)b->opt->out.argv + 1, (unsigned)KV_MAX(b->opt->out.argc, 1) - 1),
		"driver", b->opt->load.async ? "queue" : "workers", "interrupted",
		b->results.interrupted ? json_integer(b->results.interrupted) : json_null());
}

static json_t *host_object(void)
{
	struct utsname u = {0};
	char congestion[64] = "", processor[128];
	kv_file_line(congestion, sizeof(congestion), "/proc/sys/net/ipv4/tcp_congestion_control");
	uname(&u);
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s}", "name", u.nodename, "kernel", u.release, "architecture",
			 u.machine, "processor", kv_cpu_name("", processor, sizeof(processor)), "cores",
			 (json_int_t)kv_cpus_available(), "numa_nodes", (json_int_t)kv_numa_nodes(""),
			 "congestion_control", congestion);
}

static json_t *rails_array(const struct bench_results *r)
{
	json_t *rails = json_array();
	for (unsigned i = 0; i < r->library.num_rails; i++) {
		const struct bench_rail *l = &r->library.rail[i];
		json_array_append_new(
			rails, json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:I, s:I}", "device", l->device, "sends",
					 (json_int_t)l->sends, "receives", (json_int_t)l->receives, "immediates",
					 (json_int_t)l->immediates, "bytes",
					 l->bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)l->bytes),
					 "errors", (json_int_t)l->errors, "failures", (json_int_t)l->failures, "out",
					 (json_int_t)l->out));
	}
	return rails;
}

static json_t *resources_object(const struct bench_results *r)
{
	json_t *o =
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I}", "os_threads",
			  (json_int_t)r->library.info.os_threads, "endpoints", (json_int_t)r->library.info.endpoints,
			  "links", (json_int_t)r->library.info.links, "buffer_bytes",
			  (json_int_t)r->library.info.buffer_bytes, "values_bytes", (json_int_t)r->memory.values_bytes,
			  "peak_rss_bytes", (json_int_t)r->memory.rss_peak, "buffer_pages", r->library.info.memory,
			  "numa", r->library.info.numa, "register_ns", (json_int_t)r->library.info.register_ns);
	if (r->memory.server_rss_peak)
		json_object_set_new(o, "server_peak_rss_bytes", json_integer((json_int_t)r->memory.server_rss_peak));
	return o;
}

static void ns_add(json_t *object, const char *name, uint64_t ns)
{
	if (ns)
		json_object_set_new(object, name, json_integer((json_int_t)ns));
}

static json_t *latency_object(const struct kv_hist *h)
{
	static const struct {
		const char *name;
		double q;
	} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}};
	json_t *object = json_object();

	if (h->count == 0)
		return object;
	json_object_set_new(object, "min", json_integer((json_int_t)h->min));
	json_object_set_new(object, "mean", json_integer((json_int_t)(kv_hist_mean(h) + 0.5)));
	for (unsigned i = 0; i < KV_COUNT(quantiles); i++)
		if (kv_hist_reaches(h, quantiles[i].q))
			json_object_set_new(object, quantiles[i].name,
					    json_integer((json_int_t)kv_hist_quantile(h, quantiles[i].q)));
	json_object_set_new(object, "max", json_integer((json_int_t)h->max));
	return object;
}

static json_t *breakdown_object(const struct bench_breakdown *b)
{
	json_t *object = json_object();
	for (unsigned i = 0; i < BENCH_PARTS; i++)
		json_object_set_new(object, bench_part_name(i), latency_object(&b->part[i]));
	return object;
}

static json_t *errors_object(const struct bench_errors *e)
{
	json_t *object = json_object();
	for (unsigned i = 0; i < e->num_codes; i++)
		json_object_set_new(object, kv_errkey(e->row[i].code), json_integer((json_int_t)e->row[i].count));
	return object;
}

/* Bucket i holds count[i] samples, none above upper_ns[i] and all above the bucket before. */
static json_t *histogram_object(const struct kv_hist *h)
{
	json_t *upper = json_array(), *count = json_array();
	for (unsigned i = 0; i < KV_HIST_BUCKETS; i++)
		if (h->bucket[i]) {
			json_array_append_new(upper, json_integer((json_int_t)KV_MIN(kv_hist_edge(i), h->max)));
			json_array_append_new(count, json_integer((json_int_t)h->bucket[i]));
		}
	return json_pack("{s:f, s:o, s:o}", "error", 1.0 / (1 << KV_HIST_SUB_BITS), "upper_ns", upper, "count", count);
}

static json_t *series_object(const struct bench_series *s)
{
	json_t *rows = json_array();
	for (unsigned i = 0; i < s->count; i++) {
		const struct bench_window *w = &s->row[i];
		double seconds = (double)w->length_ns / 1e9;
		json_t *row = json_pack("{s:f, s:f, s:I, s:I}", "end_s", (double)w->end_ns / 1e9, "seconds", seconds,
					"ops", (json_int_t)w->ops, "bytes", (json_int_t)w->bytes);
		ns_add(row, "p50_ns", w->samples > 0 ? w->p50_ns : 0);
		ns_add(row, "p99_ns", w->samples > 0 ? w->p99_ns : 0);
		ns_add(row, "max_ns", w->samples > 0 ? w->max_ns : 0);
		json_array_append_new(rows, row);
	}
	return json_pack("{s:f, s:I, s:I, s:o}", "window_s", (double)s->window_ns / 1e9, "start_unix_ns",
			 (json_int_t)s->start_unix_ns, "left_out", (json_int_t)s->left_out, "windows", rows);
}

static json_t *phase_object(const struct bench *b, const struct phase_result *p)
{
	double seconds = (double)p->elapsed_ns / 1e9;
	const struct bench_tally *t = &p->tally;
	json_t *object = json_pack("{s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:o, s:o, s:f}", "ops", (json_int_t)t->ops,
				   "bytes", (json_int_t)t->bytes, "seconds", seconds, "hits", (json_int_t)t->hits,
				   "misses", (json_int_t)t->misses, "put_conflicts", (json_int_t)t->put_conflicts,
				   "duplicates", (json_int_t)p->duplicates, "errors", errors_object(&t->errors),
				   "latency_ns", latency_object(&t->latency), "cpu_seconds", p->cpu_seconds);
	if (seconds > 0) {
		json_object_set_new(object, "ops_per_s", json_real((double)t->ops / seconds));
		json_object_set_new(object, "bytes_per_s", json_real((double)t->bytes / seconds));
	}
	if (b->server)
		json_object_set_new(object, "server_cpu_seconds", json_real(p->server_cpu_seconds));
	if (p->ran && p->faults >= 0)
		json_object_set_new(object, "page_faults", json_integer((json_int_t)p->faults));
	if (p->ran && b->server && p->server_faults >= 0)
		json_object_set_new(object, "server_page_faults", json_integer((json_int_t)p->server_faults));
	if (t->stored_again > 0)
		json_object_set_new(object, "stored_again", json_integer((json_int_t)t->stored_again));
	if (t->due > 0) {
		json_object_set_new(object, "due", json_integer((json_int_t)t->due));
		json_object_set_new(object, "never_started", json_integer((json_int_t)t->never_started));
	}
	if (t->latency.count > 0)
		json_object_set_new(object, "histogram", histogram_object(&t->latency));
	if (t->missed.count > 0)
		json_object_set_new(object, "missed_ns", latency_object(&t->missed));
	if (t->failed.count > 0)
		json_object_set_new(object, "failed_ns", latency_object(&t->failed));
	if (p->series.window_ns)
		json_object_set_new(object, "series", series_object(&p->series));
	return object;
}

static json_t *roofline_object(const struct roofline_result *r, const char *op)
{
	if (r->code < 0)
		return json_pack("{s:n, s:n, s:n, s:n, s:n, s:n, s:n}", "bytes_per_s", op, "p50_ns", "depth",
				 "efficiency", "efficiency_min", "efficiency_max");
	return json_pack("{s:f, s:f, s:I, s:I, s:f, s:f, s:f}", "bytes_per_s", r->bytes_per_s, op, r->op_bytes_per_s,
			 "p50_ns", (json_int_t)r->p50_ns, "depth", (json_int_t)r->depth, "efficiency", r->efficiency,
			 "efficiency_min", r->efficiency_min, "efficiency_max", r->efficiency_max);
}

/* Everything that the library counted. */
static json_t *counters_object(const struct kvc_counters *c)
{
	struct kvc_stat_item item[COUNTERS_MAX];
	json_t *all = json_object();
	int n = kvc_counters_items(c, item, COUNTERS_MAX);
	for (int i = 0; i < n; i++) {
		json_t *group = json_object_get(all, item[i].group);
		if (!group) {
			group = json_object();
			json_object_set_new(all, item[i].group, group);
		}
		json_object_set_new(group, item[i].name, json_integer((json_int_t)item[i].value));
	}
	return all;
}

static json_t *tier_object(const struct bench_results *r)
{
	json_t *all = json_object();
	for (unsigned i = 0; i < r->library.num_tier; i++)
		json_object_set_new(all, r->library.tier[i].name, json_integer((json_int_t)r->library.tier[i].value));
	return all;
}

/* Outages have times of the day: a test that breaks servers compares them with its own. */
static json_t *outages_array(const struct keep_going_result *k)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < k->num_clients; i++)
		for (unsigned j = 0; j < KV_MIN(k->outage[i].count, (uint64_t)BENCH_OUTAGES_MAX); j++) {
			const struct bench_outage *o = &k->outage[i].row[j];
			json_array_append_new(array, json_pack("{s:I, s:I, s:I, s:I}", "client", (json_int_t)i,
							       "from_unix_ns", (json_int_t)o->from_ns + k->realtime_ns,
							       "to_unix_ns", (json_int_t)o->to_ns + k->realtime_ns,
							       "failed", (json_int_t)o->failed));
		}
	return array;
}

static json_t *keep_going_object(const struct keep_going_result *k)
{
	json_int_t open = 0;
	for (unsigned i = 0; i < k->num_clients; i++)
		open += k->outage[i].open;
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "calls", (json_int_t)k->calls, "overdue",
			 (json_int_t)k->overdue, "longest_ns", (json_int_t)k->longest_ns, "stored_again",
			 (json_int_t)k->stored_again, "outages_count", (json_int_t)k->outages, "outages_open", open,
			 "outages", outages_array(k));
}

static json_t *trace_object(const struct replay_result *r, bool in_time)
{
	json_t *object = json_pack("{s:I, s:I, s:I, s:f}", "requests", (json_int_t)r->requests, "blocks",
				   (json_int_t)r->blocks, "block_hits", (json_int_t)r->block_hits, "hit_ratio",
				   r->blocks ? (double)r->block_hits / (double)r->blocks : 0.0);
	if (in_time)
		json_object_set_new(object, "latest_start_ns", json_integer((json_int_t)r->late_max_ns));
	if (in_time)
		json_object_set_new(object, "never_started", json_integer((json_int_t)r->never_started));
	return object;
}

static json_t *part_object(const struct replay_part *p)
{
	json_t *o = json_pack("{s:I, s:I, s:I}", "requests", (json_int_t)p->requests, "blocks", (json_int_t)p->blocks,
			      "block_hits", (json_int_t)p->hits);
	if (p->blocks)
		json_object_set_new(o, "hit_ratio", json_real((double)p->hits / (double)p->blocks));
	ns_add(o, "get_p50_ns", kv_hist_reached(&p->read, 0.5));
	ns_add(o, "get_p99_ns", kv_hist_reached(&p->read, 0.99));
	ns_add(o, "longest_ns", p->longest_ns);
	return o;
}

static json_t *events_array(const struct bench *b)
{
	json_t *array = json_array();
	char what[32];
	for (unsigned i = 0; i < b->opt->server.events.count; i++) {
		json_t *o = json_pack("{s:s, s:f}", "event",
				      bench_event_text(&b->opt->server.events.row[i], what, sizeof(what)), "at_s",
				      (double)b->opt->server.events.row[i].at_ns / 1e9);
		if (i < b->results.events.done)
			json_object_set_new(o, "done_s", json_real((double)b->results.events.done_ns[i] / 1e9));
		json_array_append_new(array, o);
	}
	return array;
}

static void parts_add(json_t *trace, const struct replay_result *r)
{
	static const char *const names[REPLAY_PARTS] = {"before", "five_minutes", "later"};
	json_t *intervals = json_array();
	for (unsigned i = 0; i < REPLAY_PARTS; i++)
		json_object_set_new(trace, names[i], part_object(&r->part[i]));
	for (unsigned i = 0; i < r->intervals; i++) {
		json_t *o = part_object(&r->interval[i]);
		json_object_set_new(o, "end_s", json_real((double)(i + 1) * (double)REPLAY_INTERVAL_NS / 1e9));
		json_array_append_new(intervals, o);
	}
	json_object_set_new(trace, "intervals", intervals);
}

static json_t *runs_object(const struct bench_runs *runs)
{
	json_t *object = json_pack("{s:I}", "count", (json_int_t)runs->count);
	for (unsigned f = 0; f < BENCH_RUN_FIGURES; f++) {
		json_t *each = json_array();
		struct bench_spread s;
		if (!bench_runs_spread(runs, (enum bench_run_figure)f, &s)) {
			json_decref(each);
			continue;
		}
		for (unsigned i = 0; i < runs->count; i++)
			json_array_append_new(each, json_real(bench_runs_figure(runs, i, (enum bench_run_figure)f)));
		json_object_set_new(object, bench_runs_name((enum bench_run_figure)f),
				    json_pack("{s:f, s:f, s:f, s:f, s:o}", "median", s.median, "min", s.min, "max",
					      s.max, "spread", s.spread, "each", each));
	}
	return object;
}

/* With poisson or recorded arrivals, or a ramp, the rate of the schedule differs from --rate. */
static json_t *rate_object(const struct bench *b)
{
	const struct phase_result *read = &b->results.read;
	uint64_t due = bench_measured_due(&b->results);
	json_t *object = json_pack("{s:f, s:f, s:I, s:I}", "offered_per_s", b->opt->pace.rate, "achieved_per_s",
				   (double)bench_measured_ops(&b->results) * 1e9 / (double)read->elapsed_ns, "due",
				   (json_int_t)due, "never_started", (json_int_t)bench_never_started(&b->results));
	if (read->planned_ns && (b->opt->pace.ramp_ns || b->opt->pace.arrivals != BENCH_UNIFORM))
		json_object_set_new(object, "planned_per_s", json_real((double)due * 1e9 / (double)read->planned_ns));
	return object;
}

static json_t *slo_object(const struct bench *b)
{
	const struct bench_slo_search *s = &b->results.slo.search;
	const struct bench_slo_trial *best = bench_slo_best(s);
	json_t *trials = json_array();
	for (unsigned i = 0; i < s->trials; i++) {
		const struct bench_slo_trial *t = &s->row[i];
		json_array_append_new(trials,
				      json_pack("{s:f, s:f, s:I, s:I, s:I, s:s}", "offered_per_s", t->rate,
						"achieved_per_s", t->achieved, "latency_ns", (json_int_t)t->latency_ns,
						"service_ns", (json_int_t)t->service_ns, "ops", (json_int_t)t->ops,
						"why", bench_slo_why_name(t->why)));
	}
	return json_pack("{s:f, s:I, s:o, s:o}", "quantile", b->opt->pace.aim.quantile, "limit_ns",
			 (json_int_t)b->opt->pace.aim.limit_ns, "rate_per_s",
			 best ? json_real(best->rate) : json_null(), "trials", trials);
}

static void load_objects(json_t *object, const struct bench *b)
{
	const struct bench_results *r = &b->results;
	json_t *phases = json_object_get(object, "phases");
	if (b->opt->load.mix.total && r->read.ran)
		json_object_set_new(phases, "mix",
				    json_pack("{s:o, s:o}", "put", phase_object(b, &r->mix_put), "exists",
					      phase_object(b, &r->mix_exists)));
	if (r->read.tally.service.count)
		json_object_set_new(json_object_get(phases, "read"), "service_ns",
				    latency_object(&r->read.tally.service));
	if (r->runs.count > 1)
		json_object_set_new(object, "runs", runs_object(&r->runs));
	if (r->steady.windows)
		json_object_set_new(object, "warmup",
				    json_pack("{s:b, s:I, s:f, s:f, s:f}", "steady", r->is_steady, "windows",
					      (json_int_t)r->steady.windows, "spread", r->steady.spread, "within",
					      r->steady.within, "seconds", (double)r->warmup.elapsed_ns / 1e9));
	if (r->slo.search.trials)
		json_object_set_new(object, "slo", slo_object(b));
}

/* ---- the conditions, and the verdict ---- */

static json_t *conditions_object(const struct bench *b)
{
	struct report_conditions c;
	char text[96];
	report_conditions_of(b, text, &c);
	return conditions_json(&c);
}

static json_t *verdict_object(const struct bench *b)
{
	json_t *list = json_array();
	char *text = NULL, *line, *rest = NULL;
	size_t len = 0;
	FILE *memory = open_memstream(&text, &len);
	unsigned problems = report_verdict(b, memory);
	if (memory && fclose(memory) == 0)
		for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
			json_array_append_new(list, json_string(strncmp(line, "FAILED: ", 8) ? line : line + 8));
	free(text);
	return json_pack("{s:b, s:o}", "ok", problems == 0 && !b->results.interrupted, "problems", list);
}

json_t *json_document(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	json_t *object =
		json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:{s:I, s:I}}", "schema",
			  "kvbench/1", "interrupted", r->interrupted != 0, "verdict", verdict_object(b), "conditions",
			  conditions_object(b), "run", run_object(b), "host", host_object(), "provider",
			  provider_object(r), "config", config_object(b), "resources", resources_object(r), "phases",
			  "write", phase_object(b, &r->write), "read", phase_object(b, &r->read), "verify", "checked",
			  (json_int_t)r->read.tally.checked, "wrong", (json_int_t)r->read.tally.wrong);
	if (r->library.counters.size)
		json_object_set_new(object, "counters", counters_object(&r->library.counters));
	if (r->library.num_tier)
		json_object_set_new(object, "tier", tier_object(r));
	if (r->library.num_rails)
		json_object_set_new(object, "rails", rails_array(r));
	if (r->breakdown)
		json_object_set_new(object, "breakdown_ns", breakdown_object(r->breakdown));
	if (r->keep_going.ran)
		json_object_set_new(object, "keep_going", keep_going_object(&r->keep_going));
	if (b->opt->pace.rate > 0 && r->read.elapsed_ns)
		json_object_set_new(object, "rate", rate_object(b));
	load_objects(object, b);
	if (r->mixed.read.ran)
		json_object_set_new(json_object_get(object, "phases"), "mixed",
				    json_pack("{s:o, s:o, s:f}", "read", phase_object(b, &r->mixed.read), "write",
					      phase_object(b, &r->mixed.write), "of_alone", r->mixed.of_alone));
	if (r->roofline.ran)
		json_object_set_new(object, "roofline", roofline_object(&r->roofline, "get_bytes_per_s"));
	if (r->roofline_put.ran)
		json_object_set_new(object, "roofline_put", roofline_object(&r->roofline_put, "put_bytes_per_s"));
	if (r->replay.ran)
		json_object_set_new(object, "trace", trace_object(&r->replay, b->opt->replay.speed > 0));
	if (r->replay.part)
		parts_add(json_object_get(object, "trace"), &r->replay);
	if (b->opt->server.events.count)
		json_object_set_new(object, "events", events_array(b));
	if (b->opt->model.name)
		json_object_set_new(object, "model", json_model(b));
	return object;
}

int json_write(struct out_file *file, const json_t *doc, size_t flags, struct kv_error *err)
{
	char *text = doc ? json_dumps(doc, flags) : NULL;
	int rc = out_file_write_line(file, text, err);
	free(text);
	return rc;
}
