/* SPDX-License-Identifier: Apache-2.0 */
/* state.c -- conditions of two results, one by one. A condition that one result lacks differs: who does not know cannot
 * compare. */
#include "kvbench/report/state.h"

#include <math.h>
#include <stdlib.h>

struct asking {
	void (*say)(const char *sentence, void *arg);
	void *arg;
	unsigned count;
};

static char *text_of(const json_t *value)
{
	char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6) | JSON_COMPACT) : NULL;
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

/* near, mid, far: CPUs of one core or cluster, of one socket, of two. */
static const char *far_apart(const json_t *doc, const char *when)
{
	double ns = document_number(json_object_get(doc, "conditions"), when);
	if (!isfinite(ns))
		return "not known";
	return ns < 75 ? "near" : ns < 250 ? "mid" : "far";
}

static void distances(struct asking *q, const json_t *a, const json_t *b)
{
	static const char *const when[] = {"core_distance_before_ns", "core_distance_after_ns"};
	for (unsigned i = 0; i < KV_COUNT(when); i++) {
		char sentence[128];
		if (strcmp(far_apart(a, when[i]), far_apart(b, when[i])) == 0)
			continue;
		snprintf(sentence, sizeof(sentence), "distance of two cores %s the run: %s, then %s",
			 i ? "after" : "before", far_apart(a, when[i]), far_apart(b, when[i]));
		q->count++;
		q->say(sentence, q->arg);
	}
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

static void options(struct asking *q, const json_t *a, const json_t *b)
{
	json_t *of_a = json_object_get(a, "config"), *of_b = json_object_get(b, "config"), *value;
	const char *name;
	char what[96];
	json_object_foreach(of_a, name, value)
	{
		snprintf(what, sizeof(what), "option %s", name);
		if (!shows_only(name))
			same(q, what, value, json_object_get(of_b, name));
	}
	json_object_foreach(of_b, name, value)
	{
		snprintf(what, sizeof(what), "option %s", name);
		if (!shows_only(name) && !json_object_get(of_a, name))
			same(q, what, NULL, value);
	}
	if (json_array_size(json_object_get(of_a, "server")) != json_array_size(json_object_get(of_b, "server")))
		differ(q, "option server", json_object_get(of_a, "server"), json_object_get(of_b, "server"));
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
	distances(&q, a, b);
	options(&q, a, b);
	return q.count;
}
