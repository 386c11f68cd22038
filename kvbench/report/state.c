/* SPDX-License-Identifier: Apache-2.0 */
/* state.c -- conditions of two results, one by one. A condition that one result lacks differs: who does not know cannot
 * compare. Only options have a default.
 *
 * The distance of two cores is none of those: where virtual CPUs move it is another in every second run, and most pairs
 * would be refused though nothing differs. So it is told beside them, and the caller judges what it does not explain.
 * Names of hosts and kernels are told only: a container has another name each time, and a kernel may be what is
 * compared. Other machines differ in their processor. */
#include "kvbench/report/state.h"

#include <math.h>
#include <stdlib.h>

#include "kvbench/measure/conditions.h"
#include "kvbench/report/json.h"

#define STOLEN 0.02 /* of the processors' time */

struct asking {
	void (*say)(const char *sentence, void *arg);
	void *arg;
	unsigned count;
};

/* A file's words drive no terminal: what is no printable ASCII is escaped. */
static char *text_of(const json_t *value)
{
	char *text =
		value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6) | JSON_COMPACT | JSON_ENSURE_ASCII)
		      : NULL;
	return text;
}

static void differ(struct asking *q, const char *what, const json_t *a, const json_t *b)
{
	char sentence[512], *ta = text_of(a), *tb = text_of(b);
	snprintf(sentence, sizeof(sentence), "%s: %.160s, then %.160s", what, ta ? ta : "not known",
		 tb ? tb : "not known");
	free(ta);
	free(tb);
	q->count++;
	q->say(sentence, q->arg);
}

static void same(struct asking *q, const char *what, const json_t *a, const json_t *b)
{
	if ((a || b) && !(a && b && json_equal(a, b)))
		differ(q, what, a, b);
}

/* ---- the distance of two cores ---- */

/* The nearest and the farthest look at it; 0: nobody looked. */
struct span {
	double low, high;
};

static void span_add(struct span *s, const json_t *conditions)
{
	static const char *const when[] = {"core_distance_before_ns", "core_distance_after_ns"};
	for (unsigned i = 0; i < KV_COUNT(when); i++) {
		double ns = document_number(conditions, when[i]);
		if (!(ns > 0))
			continue;
		s->low = s->low > 0 ? KV_MIN(s->low, ns) : ns;
		s->high = KV_MAX(s->high, ns);
	}
}

/* Of a run: before and after it. Of a combination of a sweep: of all its runs. */
static struct span span_of(const json_t *result)
{
	struct span s = {0, 0};
	const json_t *runs = json_object_get(result, "runs"), *run;
	size_t i;
	span_add(&s, json_object_get(result, "conditions"));
	json_array_foreach(runs, i, run) span_add(&s, run);
	return s;
}

static const char *span_text(struct span s, char buf[64])
{
	if (!(s.low > 0))
		snprintf(buf, 64, "not known");
	else if (bench_distances_alike(s.low, s.high))
		snprintf(buf, 64, "%.0f ns (%s)", s.low, bench_distance_name(s.low));
	else
		snprintf(buf, 64, "%.0f to %.0f ns (%s to %s)", s.low, s.high, bench_distance_name(s.low),
			 bench_distance_name(s.high));
	return buf;
}

/* Whether it was never nearer than the other, as far as a measurement can tell. */
static bool never_nearer(struct span s, struct span other)
{
	return s.low >= other.high || bench_distances_alike(s.low, other.high);
}

/* Nobody looks while it measures: where the looks of a result differ, its CPUs moved at a moment that is not known, and
 * may have been near nearly all of the time, or far. So the farthest look of one is compared with the nearest of the
 * other, and two results whose CPUs moved are not the same because their looks are. */
enum state_distance state_distance(const json_t *a, const json_t *b, char *text, size_t cap)
{
	struct span x = span_of(a), y = span_of(b);
	char of_a[64], of_b[64];
	snprintf(text, cap, "%s, then %s", span_text(x, of_a), span_text(y, of_b));
	if (!(x.low > 0 && y.low > 0))
		return x.low == y.low ? STATE_SAME : STATE_OTHER;
	if (never_nearer(y, x))
		return never_nearer(x, y) ? STATE_SAME : STATE_FARTHER;
	return never_nearer(x, y) ? STATE_NEARER : STATE_OTHER;
}

/* A little is stolen on every virtual machine. */
static void stolen(struct asking *q, const json_t *a, const json_t *b)
{
	double x = document_number(a, "steal_share"), y = document_number(b, "steal_share");
	char sentence[128];
	if (!isfinite(x) || !isfinite(y) || (x >= STOLEN) == (y >= STOLEN))
		return; /* what only one of them knows is the machine's being shared, too, and is said there */
	snprintf(sentence, sizeof(sentence), "processors' time that the hypervisor stole: %.1f %%, then %.1f %%",
		 100 * x, 100 * y);
	q->count++;
	q->say(sentence, q->arg);
}

/* Options that change what is shown, and not what is measured. */
static bool shows_only(const char *name)
{
	static const char *const names[] = {"json",           "report",   "hdr",   "csv",       "raw",
					    "interval",       "progress", "quiet", "log_level", "slow_ms",
					    "base_client_id", "config",   "server"};
	for (unsigned i = 0; i < KV_COUNT(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* An option that a result does not have came after it was made: it had the default. */
static void option(struct asking *q, const char *name, const json_t *of_a, const json_t *of_b, const json_t *defaults)
{
	const json_t *a = json_object_get(of_a, name), *b = json_object_get(of_b, name);
	char what[96];
	snprintf(what, sizeof(what), "option %s", name);
	if (!a && of_a)
		a = json_object_get(defaults, name);
	if (!b && of_b)
		b = json_object_get(defaults, name);
	same(q, what, a, b);
}

static void options(struct asking *q, const json_t *a, const json_t *b)
{
	json_t *of_a = json_object_get(a, "config"), *of_b = json_object_get(b, "config"), *value;
	json_t *defaults = json_config_default();
	const char *name;
	json_object_foreach(of_a, name, value)
	{
		if (!shows_only(name))
			option(q, name, of_a, of_b, defaults);
	}
	json_object_foreach(of_b, name, value)
	{
		if (!shows_only(name) && !json_object_get(of_a, name))
			option(q, name, of_a, of_b, defaults);
	}
	json_decref(defaults);
	if (json_array_size(json_object_get(of_a, "server")) != json_array_size(json_object_get(of_b, "server")))
		differ(q, "option server", json_object_get(of_a, "server"), json_object_get(of_b, "server"));
}

unsigned state_settings_lone(const json_t *a, const json_t *b,
			     void (*lone)(const json_t *item, bool is_of_b, void *arg), void *arg)
{
	const json_t *const list[2] = {a, b};
	unsigned count = 0;
	for (unsigned k = 0; k < 2; k++) {
		json_t *item, *other;
		size_t i, j;
		json_array_foreach(list[k], i, item)
		{
			bool found = false;
			json_array_foreach(list[!k], j, other) found |= json_equal(item, other);
			if (found)
				continue;
			lone(item, k == 1, arg);
			count++;
		}
	}
	return count;
}

/* The options of all runs of a sweep; what varies is not among them. */
static void setting(const json_t *item, bool is_of_b, void *arg)
{
	differ(arg, "option", is_of_b ? NULL : item, is_of_b ? item : NULL);
}

unsigned state_differs(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg), void *arg)
{
	static const struct {
		const char *what, *group, *name;
	} rows[] = {
		{"provider", "provider", "name"},
		{"wait mode", "provider", "wait"},
		{"libfabric", "provider", "libfabric"},
		{"mode", "provider", "mode"},
		{"way of PUT", "provider", "put"},
		{"security", "provider", "security"},
		{"architecture", "host", "architecture"},
		{"processor", "host", "processor"},
		{"cores", "host", "cores"},
		{"NUMA nodes", "host", "numa_nodes"},
		{"congestion control", "host", "congestion_control"},
		{"congestion control of loopback", "provider", "loopback_congestion_control"},
		{"shared machine", "conditions", "shared_machine"},
		{"suspended, seconds", "conditions", "suspended_s"},
		{"driver", "run", "driver"},
	};
	struct asking q = {say, arg, 0};
	for (unsigned i = 0; i < KV_COUNT(rows); i++)
		same(&q, rows[i].what, document_at(a, rows[i].group, rows[i].name, NULL),
		     document_at(b, rows[i].group, rows[i].name, NULL));
	same(&q, "interrupted", json_object_get(a, "interrupted"), json_object_get(b, "interrupted"));
	if (document_is_sweep(a)) {
		state_settings_lone(document_at(a, "sweep", "settings", NULL),
				    document_at(b, "sweep", "settings", NULL), setting, &q);
		return q.count;
	}
	stolen(&q, json_object_get(a, "conditions"), json_object_get(b, "conditions"));
	options(&q, a, b);
	return q.count;
}

/* Both were shared, else they would not compare; how much others took may be what differs. */
static void both_shared(struct asking *q, const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, "conditions"), *y = json_object_get(b, "conditions");
	double of_a = document_number(x, "others_cores"), of_b = document_number(y, "others_cores");
	char sentence[160];
	if (!json_is_true(json_object_get(x, "shared_machine")) ||
	    !json_is_true(json_object_get(y, "shared_machine")) || !isfinite(of_a) || !isfinite(of_b))
		return;
	snprintf(sentence, sizeof(sentence),
		 "shared machine: others took %.2f cores, then %.2f: a difference may be theirs", of_a, of_b);
	q->say(sentence, q->arg);
}

void state_notes(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg), void *arg)
{
	struct asking q = {say, arg, 0};
	same(&q, "host", document_at(a, "host", "name", NULL), document_at(b, "host", "name", NULL));
	same(&q, "kernel", document_at(a, "host", "kernel", NULL), document_at(b, "host", "kernel", NULL));
	both_shared(&q, a, b);
}

/* Of the runs of a combination: the worst of what others took. */
static json_t *worst_of(const json_t *point)
{
	json_t *runs = json_object_get(point, "runs"), *run, *worst = json_deep_copy(json_array_get(runs, 0));
	size_t i;
	json_array_foreach(runs, i, run)
	{
		if (json_is_true(json_object_get(run, "shared_machine")))
			json_object_set_new(worst, "shared_machine", json_true());
		if (json_object_get(run, "suspended_s"))
			json_object_set(worst, "suspended_s", json_object_get(run, "suspended_s"));
		if (isfinite(document_number(run, "steal_share")) &&
		    !(document_number(run, "steal_share") <= document_number(worst, "steal_share")))
			json_object_set(worst, "steal_share", json_object_get(run, "steal_share"));
	}
	return worst;
}

unsigned state_of_points_differs(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg),
				 void *arg)
{
	struct asking q = {say, arg, 0};
	json_t *x = worst_of(a), *y = worst_of(b);
	same(&q, "shared machine", json_object_get(x, "shared_machine"), json_object_get(y, "shared_machine"));
	same(&q, "suspended, seconds", json_object_get(x, "suspended_s"), json_object_get(y, "suspended_s"));
	stolen(&q, x, y);
	json_decref(x);
	json_decref(y);
	return q.count;
}
