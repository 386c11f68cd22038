/* SPDX-License-Identifier: Apache-2.0 */
/* text.c -- what kv-bench scale prints and writes as JSON. */
#include <jansson.h>

#include "host/host.h"
#include "kvbench/report/conditions.h"
#include "kvbench/scale/scale.h"
#include "kvclient/kvclient.h"

#define SIZE(n) kv_size_format((n), (char[32]){0}, 32)
#define TIME(n) kv_duration_format((n), (char[32]){0}, 32)

uint64_t scale_bytes(const struct scale_step *s)
{
	uint64_t grown = s->rss > s->rss_start ? s->rss - s->rss_start : 0;
	return s->connected ? grown / s->connected : 0;
}

uint64_t scale_bytes_each(const struct scale_step *s)
{
	uint64_t grown = s->rss_base && s->rss > s->rss_base ? s->rss - s->rss_base : 0;
	return s->connected ? grown / s->connected : 0;
}

double scale_success(const struct scale_step *s)
{
	return s->clients ? (double)s->succeeded / s->clients : 0;
}

static double rate(const struct scale_step *s)
{
	return s->talk_ns ? (double)s->messages * 1e9 / (double)s->talk_ns : 0;
}

void scale_print_head(const struct scale_options *o, FILE *out)
{
	struct kv_host h;
	kv_host_read("", &h);
	fprintf(out, "kv-bench scale   %s\n", KVRAIL_VERSION);
	kv_wrap(out, "host       ", 0, "%u core%s, %s memory, %s available, Linux %s", h.cpus, kv_plural(h.cpus),
		SIZE(h.memory_total), SIZE(kv_memory_available()), h.kernel);
	kv_wrap(out, "load       ", 0, "%u message%s of %s from each client, think time %s; one server for all steps",
		o->messages, kv_plural(o->messages), SIZE(o->message_bytes), o->think_ns ? TIME(o->think_ns) : "none");
	kv_wrap(out, "sessions   ", 0,
		"all logical clients share %u engine%s and %u event loop%s, up to 64 messages under way at a time on "
		"each "
		"engine",
		o->engines, kv_plural(o->engines), o->num_threads, kv_plural(o->num_threads));
	if (!o->no_tls)
		kv_wrap(out, "tls        ", 0,
			"a TCP connection with TLS 1.3 for each client, to a process that answers with messages of "
			"this size; "
			"%u thread%s, each with one message under way at a time",
			o->num_threads, kv_plural(o->num_threads));
	fprintf(out, "\n%-8s %7s %8s %9s %9s %7s %8s %8s %6s\n", "", "clients", "success", "connect", "msg/s", "p99",
		"memory", "each", "thr.");
	fflush(out);
}

void scale_print_step(const struct scale_step *s, FILE *out)
{
	char success[16], count[32];
	snprintf(success, sizeof(success), s->succeeded == s->clients ? "100 %%" : "%.2f %%",
		 KV_MIN(100 * scale_success(s), 99.99));
	fprintf(out, "%-8s %7u %8s %9s %9s %7s %8s %8s %6u\n", scale_kind_name((enum scale_kind)s->kind), s->clients,
		success, s->connect_ns ? TIME(s->connect_ns) : "-",
		kv_count_format((uint64_t)(rate(s) + 0.5), count, sizeof(count)), s->p99_ns ? TIME(s->p99_ns) : "-",
		SIZE(s->rss > s->rss_start ? s->rss - s->rss_start : 0), s->connected ? SIZE(scale_bytes(s)) : "-",
		s->threads);
	if (s->ended)
		kv_wrap(out, "                 ", 0, "stopped with %u of %u connected: %s", s->connected, s->clients,
			s->text);
	fflush(out);
}

static void end_of(const struct scale_run *run, enum scale_kind kind, FILE *out)
{
	const struct scale_step *most = NULL;
	for (unsigned i = 0; i < run->count; i++) {
		const struct scale_step *s = &run->step[i];
		if (s->kind == (int)kind && !s->ended && s->succeeded == s->clients)
			most = s;
	}
	if (!most) {
		fprintf(out, "%s: no step was complete\n", scale_kind_name(kind));
		return;
	}
	kv_wrap(out, kind == SCALE_SESSIONS ? "sessions: " : "tls: ", 11,
		"%u client%s all succeeded, %s each with everything, %s each beyond what one alone needs",
		most->clients, kv_plural(most->clients), SIZE(scale_bytes(most)), SIZE(scale_bytes_each(most)));
}

/* The fabric is that of the first step that had one. */
static struct report_conditions conditions_of(const struct scale_run *run)
{
	struct report_conditions c = {.machine = &run->conditions,
				      .excluded = {"of latencies: opening sessions and connections, which connect has",
						   "of memory: what the process had at its start"}};
	for (unsigned i = 0; i < run->count && !c.provider; i++)
		if (run->step[i].provider[0]) {
			c.provider = run->step[i].provider;
			c.wait = run->step[i].wait;
			c.libfabric = run->step[i].libfabric;
			c.loopback_congestion = run->step[i].congestion;
		}
	return c;
}

void scale_print_end(const struct scale_run *run, FILE *out)
{
	const struct report_conditions c = conditions_of(run);
	end_of(run, SCALE_SESSIONS, out);
	if (!run->opt->no_tls)
		end_of(run, SCALE_TLS, out);
	kv_wrap(out, "           ", 0,
		"connect: until all were; memory: this process beyond its start; each: memory by clients.");
	conditions_print(&c, true, out);
	fflush(out);
}

/* What was not measured is absent. */
static void add_ns(json_t *o, const char *name, uint64_t ns)
{
	if (ns)
		json_object_set_new(o, name, json_integer((json_int_t)ns));
}

static json_t *step_object(const struct scale_step *s)
{
	json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "kind",
			      scale_kind_name((enum scale_kind)s->kind), "clients", (json_int_t)s->clients, "connected",
			      (json_int_t)s->connected, "succeeded", (json_int_t)s->succeeded, "success",
			      scale_success(s), "messages", (json_int_t)s->messages, "failed", (json_int_t)s->failed,
			      "wrong", (json_int_t)s->wrong, "memory_bytes",
			      (json_int_t)(s->rss > s->rss_start ? s->rss - s->rss_start : 0), "threads",
			      (json_int_t)s->threads, "files", (json_int_t)s->files, "server_memory_bytes",
			      (json_int_t)s->server_rss, "complete", !s->ended);
	if (!o)
		return NULL;
	if (s->talk_ns)
		json_object_set_new(o, "messages_per_s", json_real(rate(s)));
	if (s->connected) {
		json_object_set_new(o, "bytes_per_client", json_integer((json_int_t)scale_bytes(s)));
		json_object_set_new(o, "bytes_per_further_client", json_integer((json_int_t)scale_bytes_each(s)));
	}
	add_ns(o, "connect_ns", s->connect_ns);
	add_ns(o, "connect_p50_ns", s->connect_p50_ns);
	add_ns(o, "connect_p99_ns", s->connect_p99_ns);
	add_ns(o, "p50_ns", s->p50_ns);
	add_ns(o, "p99_ns", s->p99_ns);
	if (s->provider[0])
		json_object_set_new(o, "provider", json_string(s->provider));
	if (s->libfabric[0])
		json_object_set_new(o, "libfabric", json_string(s->libfabric));
	if (s->ended)
		json_object_set_new(o, "stopped", json_string(s->text));
	return o;
}

char *scale_json_text(const struct scale_run *run)
{
	const struct scale_options *opt = run->opt;
	const struct report_conditions c = conditions_of(run);
	struct kv_host h;
	json_t *steps = json_array(), *o;
	char *text;
	kv_host_read("", &h);
	for (unsigned i = 0; i < run->count; i++)
		json_array_append_new(steps, step_object(&run->step[i]));
	o = json_pack("{s:s, s:s, s:b, s:{s:I, s:s}, s:{s:I, s:I, s:f, s:I, s:I}, s:o, s:o}", "schema",
		      "kvbench-scale/1", "version", KVRAIL_VERSION, "interrupted", run->interrupted != 0, "host",
		      "cores", (json_int_t)h.cpus, "kernel", h.kernel, "load", "message_bytes",
		      (json_int_t)opt->message_bytes, "messages", (json_int_t)opt->messages, "think_seconds",
		      (double)opt->think_ns / 1e9, "engines", (json_int_t)opt->engines, "event_loops",
		      (json_int_t)opt->num_threads, "conditions", conditions_json(&c), "steps", steps);
	text = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(o);
	return text;
}
