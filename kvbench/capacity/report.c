/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- what kv-bench capacity prints and writes as JSON. A row is printed when its step is over, so that
 * a long run can be watched. */
#include <jansson.h>

#include "host/host.h"
#include "kvbench/capacity/capacity.h"
#include "kvbench/report/conditions.h"
#include "kvbench/setup/signals.h"
#include "kvclient/kvclient.h"

#define SIZE(n) kv_size_format((n), (char[32]){0}, 32)
#define TIME(n) kv_duration_format((n), (char[32]){0}, 32)

/* ---- text ---- */

void capacity_print_head(const struct capacity_options *options, FILE *out)
{
	struct kv_host h;
	char files[32] = "unlimited", locked[40] = "unlimited";
	kv_host_read("", &h);
	if (h.files_soft < KV_UNKNOWN)
		snprintf(files, sizeof(files), "%llu", (unsigned long long)h.files_soft);
	if (h.memlock_soft < KV_UNKNOWN)
		snprintf(locked, sizeof(locked), "%llu KiB", (unsigned long long)h.memlock_soft >> 10);
	fprintf(out, "kv-bench capacity   %s\n", KVRAIL_VERSION);
	kv_wrap(out, "host       ", 0, "%u core%s, %s memory, %s available; open files %s, locked memory %s; Linux %s",
		h.cpus, kv_plural(h.cpus), SIZE(h.memory_total), SIZE(kv_memory_available()), files, locked, h.kernel);
	if (options->server)
		fprintf(out, "server     %s\n", options->server);
	else
		fprintf(out, "server     started by kv-bench for each model, %u data thread%s, on this host\n",
			options->server_threads, kv_plural(options->server_threads));
}

void capacity_print_model(int model, const struct capacity_options *options, FILE *out)
{
	if (model == CAPACITY_ENDPOINTS)
		kv_wrap(out, "\nendpoints: ", 11,
			"%u for each client (endpoint, completion queue), smallest buffers, %llu MiB of receive "
			"buffer",
			options->rails, (unsigned long long)options->buffer_mb);
	else if (model == CAPACITY_VERBS)
		kv_wrap(out, "\nverbs: ", 7,
			"a queue pair, two completion queues and two memory regions for each client, without "
			"libfabric");
	else
		fprintf(out, "\npooled: all clients share %u engine%s\n", options->engines,
			kv_plural(options->engines));
	fprintf(out, "%7s %8s %5s %5s %5s %5s %4s %8s %8s %8s %7s\n", "clients", "verified", "EPs", "CQs", "MRs",
		"files", "thr.", "memory", "each", "server", "opening");
}

static double success(const struct capacity_step *s)
{
	return s->attempted ? 100.0 * s->connected / s->attempted : 0;
}

static uint64_t memory_grown(const struct capacity_step *s)
{
	return s->rss > s->rss_start ? s->rss - s->rss_start : 0;
}

void capacity_print_step(const struct capacity_step *s, FILE *out)
{
	uint64_t each = s->opened ? memory_grown(s) / s->opened : 0;
	fprintf(out, "%7u %8u %5u %5u %5u %5u %4u %8s %8s %8s %7s\n", s->attempted, s->verified,
		s->qps ? s->qps : s->endpoints, s->cqs, s->mrs, s->fds, s->threads, SIZE(memory_grown(s)), SIZE(each),
		s->server_rss ? SIZE(s->server_rss) : "-", s->open_ns ? TIME(s->open_ns) : "-");
	if (s->end)
		fprintf(out, "%7s %u connected (%.1f %%), ended by %s\n", "", s->connected, success(s),
			capacity_end_name(s->end));
	fflush(out);
}

/* Known once something was open. */
static const struct capacity_step *telling_step(const struct capacity_run *run)
{
	for (unsigned i = 0; i < run->num_steps; i++)
		if (run->step[i].provider[0])
			return &run->step[i];
	return &run->step[0];
}

void capacity_print_end(const struct capacity_run *run, FILE *out)
{
	const struct capacity_step *s = run->num_steps ? &run->step[run->last] : NULL, *t;
	if (!run->ran || !s) {
		kv_wrap(out, "", 11, "%s: did not run: %s", capacity_model_name(run->model), run->why_not);
		return;
	}
	t = telling_step(run);
	if (t->provider[0])
		fprintf(out, "%s: %s%s%s%s%s\n", capacity_model_name(run->model), t->provider, t->domain[0] ? ", " : "",
			t->domain, t->libfabric[0] ? ", libfabric " : "", t->libfabric);
	if (s->kernel_qps >= 0)
		kv_wrap(out, "           ", 0,
			"the kernel counted, of all processes: %lld queue pairs, %lld completion queues, %lld memory "
			"regions",
			(long long)s->kernel_qps, (long long)s->kernel_cqs, (long long)s->kernel_mrs);
	if (s->end == CAPACITY_COMPLETE) {
		fprintf(out, "%s: %s%u client%s worked; no limit was met\n", capacity_model_name(run->model),
			s->attempted == 1 ? "" : "all ", s->attempted, kv_plural(s->attempted));
	} else {
		fprintf(out, "%s: ended at %u client%s, %u open, %u connected, by: %s\n",
			capacity_model_name(run->model), s->attempted, kv_plural(s->attempted), s->opened, s->connected,
			capacity_end_name(s->end));
		kv_wrap(out, "           ", 0, "%s", s->text);
	}
}

/* The fabric is that of the first model that had one. */
static struct report_conditions conditions_of(const struct capacity_report *report)
{
	struct report_conditions c = {.machine = &report->conditions,
				      .no_histogram = true,
				      .excluded = {"of memory: what the process had at its start",
						   "of the time of opening: making values, starting processes"}};
	for (int m = 0; m < CAPACITY_MODELS && !c.provider; m++) {
		const struct capacity_step *t = telling_step(&report->run[m]);
		if (!t->provider[0])
			continue;
		c.provider = t->provider;
		c.wait = t->wait;
		c.libfabric = t->libfabric;
		c.loopback_congestion = t->congestion;
	}
	return c;
}

void capacity_print_conditions(const struct capacity_report *report, FILE *out)
{
	const struct report_conditions c = conditions_of(report);
	fputc('\n', out);
	conditions_print(&c, true, out);
}

/* ---- JSON ---- */

static json_t *count_or_null(int64_t n)
{
	return n < 0 ? json_null() : json_integer(n);
}

static json_t *step_object(const struct capacity_step *s)
{
	json_t *o = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "clients",
		(json_int_t)s->attempted, "opened", (json_int_t)s->opened, "connected", (json_int_t)s->connected,
		"verified", (json_int_t)s->verified, "wrong", (json_int_t)s->wrong, "success", success(s) / 100,
		"endpoints", (json_int_t)s->endpoints, "queue_pairs", (json_int_t)s->qps, "completion_queues",
		(json_int_t)s->cqs, "memory_regions", (json_int_t)s->mrs, "files", (json_int_t)s->fds, "threads",
		(json_int_t)s->threads, "memory_bytes", (json_int_t)memory_grown(s), "server_memory_bytes",
		(json_int_t)s->server_rss, "server_files", (json_int_t)s->server_fds, "opening_seconds",
		(double)s->open_ns / 1e9, "reading_seconds", (double)s->get_ns / 1e9);
	if (!o)
		return NULL;
	json_object_set_new(o, "kernel",
			    json_pack("{s:o, s:o, s:o}", "queue_pairs", count_or_null(s->kernel_qps),
				      "completion_queues", count_or_null(s->kernel_cqs), "memory_regions",
				      count_or_null(s->kernel_mrs)));
	json_object_set_new(o, "ended_by", s->end ? json_string(capacity_end_name(s->end)) : json_null());
	json_object_set_new(o, "first_error",
			    s->end ? json_pack("{s:s, s:s}", "code", kv_errkey(s->code), "text", s->text)
				   : json_null());
	return o;
}

static json_t *run_object(const struct capacity_run *run)
{
	const struct capacity_step *last = run->num_steps ? &run->step[run->last] : NULL;
	const struct capacity_step *t = telling_step(run);
	json_t *steps = json_array(), *o;
	uint32_t most = 0;
	for (unsigned i = 0; i < run->num_steps; i++) {
		json_array_append_new(steps, step_object(&run->step[i]));
		most = KV_MAX(most, run->step[i].verified);
	}
	o = json_pack("{s:b, s:o, s:I, s:s, s:s, s:s}", "ran", run->ran, "steps", steps, "most_verified",
		      (json_int_t)most, "provider", t->provider, "domain", t->domain, "libfabric", t->libfabric);
	if (o && !run->ran)
		json_object_set_new(o, "why_not", json_string(run->why_not));
	if (o && last)
		json_object_set_new(o, "ended_by", last->end ? json_string(capacity_end_name(last->end)) : json_null());
	return o;
}

static json_t *limit_json(uint64_t limit)
{
	return limit >= KV_UNKNOWN ? json_null() : json_integer((json_int_t)limit);
}

static json_t *host_object(void)
{
	struct kv_host h;
	kv_host_read("", &h);
	return json_pack("{s:I, s:o, s:o, s:o, s:s}", "cores", (json_int_t)h.cpus, "memory_bytes",
			 limit_json(h.memory_total), "open_files", limit_json(h.files_soft), "locked_memory_bytes",
			 limit_json(h.memlock_soft), "kernel", h.kernel);
}

char *capacity_json_text(const struct capacity_report *report)
{
	const struct report_conditions c = conditions_of(report);
	json_t *models = json_object(), *o;
	char *text;
	for (int m = 0; m < CAPACITY_MODELS; m++)
		if (report->opt->model == CAPACITY_MODELS || report->opt->model == m)
			json_object_set_new(models, capacity_model_name(m), run_object(&report->run[m]));
	o = json_pack("{s:s, s:s, s:b, s:o, s:o, s:o}", "schema", "kvbench-capacity/1", "version", KVRAIL_VERSION,
		      "interrupted", bench_interrupted() != 0, "conditions", conditions_json(&c), "host", host_object(),
		      "models", models);
	text = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(o);
	return text;
}
