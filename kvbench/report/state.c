/* SPDX-License-Identifier: Apache-2.0 */
/* state.c -- conditions of two results, one by one. A condition that one result lacks differs: who does not know cannot
 * compare. Only options have a default. */
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

static const char *far_apart(char text[32], double ns)
{
	if (!isfinite(ns))
		return "not known";
	snprintf(text, 32, "%.0f ns (%s)", ns, bench_distance_name(ns));
	return text;
}

static void distances(struct asking *q, const json_t *a, const json_t *b)
{
	static const char *const when[] = {"core_distance_before_ns", "core_distance_after_ns"};
	for (unsigned i = 0; i < KV_COUNT(when); i++) {
		double x = document_number(a, when[i]), y = document_number(b, when[i]);
		char sentence[128], tx[32], ty[32];
		if (isfinite(x) && isfinite(y) ? bench_distances_alike(x, y) : isfinite(x) == isfinite(y))
			continue;
		snprintf(sentence, sizeof(sentence), "distance of two cores %s the run: %s, then %s",
			 i ? "after" : "before", far_apart(tx, x), far_apart(ty, y));
		q->count++;
		q->say(sentence, q->arg);
	}
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
	static const char *const names[] = {"json",     "report",         "hdr",    "csv",
					    "interval", "progress",       "quiet",  "log_level",
					    "slow_ms",  "base_client_id", "config", "server"};
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
		{"cores", "host", "cores"},
		{"congestion control", "host", "congestion_control"},
		{"congestion control of loopback", "provider", "loopback_congestion_control"},
		{"shared machine", "conditions", "shared_machine"},
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
	distances(&q, json_object_get(a, "conditions"), json_object_get(b, "conditions"));
	stolen(&q, json_object_get(a, "conditions"), json_object_get(b, "conditions"));
	options(&q, a, b);
	return q.count;
}

/* Of the runs of a combination: the first's distances, the worst of what others took. */
static json_t *worst_of(const json_t *point)
{
	json_t *runs = json_object_get(point, "runs"), *run, *worst = json_deep_copy(json_array_get(runs, 0));
	size_t i;
	json_array_foreach(runs, i, run)
	{
		if (json_is_true(json_object_get(run, "shared_machine")))
			json_object_set_new(worst, "shared_machine", json_true());
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
	distances(&q, x, y);
	stolen(&q, x, y);
	json_decref(x);
	json_decref(y);
	return q.count;
}
