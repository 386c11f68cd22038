/* SPDX-License-Identifier: Apache-2.0 */
/* conditions.c -- the fabric, the machine, the error of a quantile, and the work that no figure contains. Members
 * without a measurement are left out. */
#include "kvbench/report/conditions.h"

#include "base/base.h"
#include "host/host.h"

#define CONGESTION "/proc/sys/net/ipv4/tcp_congestion_control"

static bool known(const char *text)
{
	return text && text[0];
}

/* ---- text ---- */

static void print_fabric(const struct report_conditions *c, FILE *out)
{
	bool loopback = known(c->loopback_congestion);
	if (known(c->provider))
		kv_wrap(out, "fabric      ", 0, "%s%s%s%s%s%s%s%s", c->provider, known(c->wait) ? ", wait " : "",
			known(c->wait) ? c->wait : "", known(c->libfabric) ? ", libfabric " : "",
			known(c->libfabric) ? c->libfabric : "", loopback ? ", congestion control " : "",
			loopback ? c->loopback_congestion : "", loopback ? " (loopback)" : "");
}

static void print_machine(const struct bench_conditions *m, FILE *out)
{
	unsigned cores = kv_cpus_available();
	if (m->measured)
		kv_wrap(out, "conditions  ", 0,
			"%u core%s; stolen %.1f %% of the processors' time; other processes took %.2f %s%s", cores,
			kv_plural(cores), 100 * m->steal_share, m->others_cores,
			m->others_cores == 1 ? "core" : "cores",
			m->others_cores >= BENCH_SHARED_CORES ? ": this machine is shared, and figures vary with it"
							      : "");
	else
		kv_wrap(out, "conditions  ", 0, "%u core%s; too short to measure other processes", cores,
			kv_plural(cores));
	if (m->distance_before_ns > 0 && m->distance_after_ns > 0)
		kv_wrap(out, "            ", 0,
			"a round trip of a cache line between two cores: %.0f ns before the run, %.0f ns after",
			m->distance_before_ns, m->distance_after_ns);
	if (m->suspended_s > 0)
		kv_wrap(out, "            ", 0,
			"this machine was suspended for %.1f s during the run: no figure "
			"contains that time, and operations in flight may have failed",
			m->suspended_s);
}

static void print_excluded(const struct report_conditions *c, FILE *out)
{
	char text[REPORT_EXCLUDED_MAX * 160] = "";
	for (unsigned i = 0; i < REPORT_EXCLUDED_MAX && c->excluded[i]; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "; " : "", c->excluded[i]);
	if (text[0])
		kv_wrap(out, "left out    ", 0, "%s", text);
}

void conditions_print(const struct report_conditions *c, bool fabric, FILE *out)
{
	if (fabric)
		print_fabric(c, out);
	print_machine(c->machine, out);
	if (!c->no_histogram)
		kv_wrap(out, "            ", 0, "a quantile is at most %.1f %% above the true one, never below",
			100.0 / (1 << KV_HIST_SUB_BITS));
	print_excluded(c, out);
}

/* ---- JSON ---- */

static void add_text(json_t *object, const char *name, const char *text)
{
	if (known(text))
		json_object_set_new(object, name, json_string(text));
}

static void add_machine(json_t *object, const struct bench_conditions *m)
{
	if (m->measured) {
		json_object_set_new(object, "steal_share", json_real(m->steal_share));
		json_object_set_new(object, "others_cores", json_real(m->others_cores));
		json_object_set_new(object, "shared_machine", json_boolean(m->others_cores >= BENCH_SHARED_CORES));
	}
	if (m->distance_before_ns > 0)
		json_object_set_new(object, "core_distance_before_ns", json_real(m->distance_before_ns));
	if (m->distance_after_ns > 0)
		json_object_set_new(object, "core_distance_after_ns", json_real(m->distance_after_ns));
	if (m->suspended_s > 0)
		json_object_set_new(object, "suspended_s", json_real(m->suspended_s));
}

json_t *conditions_json(const struct report_conditions *c)
{
	json_t *object = json_object(), *excluded = json_array();
	char congestion[64];
	add_text(object, "provider", c->provider);
	add_text(object, "wait", c->wait);
	add_text(object, "libfabric", c->libfabric);
	json_object_set_new(object, "cores", json_integer((json_int_t)kv_cpus_available()));
	add_machine(object, c->machine);
	if (kv_file_line(congestion, sizeof(congestion), CONGESTION))
		add_text(object, "congestion_control", congestion);
	add_text(object, "loopback_congestion_control", c->loopback_congestion);
	if (!c->no_histogram)
		json_object_set_new(object, "histogram_error", json_real(1.0 / (1 << KV_HIST_SUB_BITS)));
	for (unsigned i = 0; i < REPORT_EXCLUDED_MAX && c->excluded[i]; i++)
		json_array_append_new(excluded, json_string(c->excluded[i]));
	json_object_set_new(object, "excluded", excluded);
	return object;
}
