/* SPDX-License-Identifier: Apache-2.0 */
/* kube.c -- members by the EndpointSlices of a Kubernetes service: k8s:NAMESPACE/SERVICE[:PORT]. PORT is a name or a
 * number; default: the service's port named kvrail, or its only one.
 *
 * List, then watch from the list's resource version. List again after a 410, after SILENCE_NS without a bookmark, and
 * after anything unexpected. A service's slices are kept apart; each answer is their union. A list takes effect as a
 * whole.
 *
 * An endpoint is a member under its pod's name. terminating: draining; else ready: up; else no member. A pod that ends
 * stays a member until its endpoint is removed: it may still push values. A pod in two slices is one member with the
 * addresses of both. Of two pods with one name the working one counts, else the one with the higher incarnation (the
 * hash of its uid). The epoch is the highest resource version of the slices. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/member/source.h"
#include "kvserver/member/text.h"
#include "kvserver/member/web.h"

enum { SLICES_MAX = 256, TOKEN_MAX = 8192, URL_MAX = 1024, PART_MAX = 254, WATCH_S = 300, PAUSE_ROUNDS_MAX = 5 };

#define SECOND_NS  1000000000ull
#define LIMIT_NS   (10 * SECOND_NS)
#define SILENCE_NS (120 * SECOND_NS)
#define PAUSE_NS   (SECOND_NS / 2)
#define ACCOUNT    "/var/run/secrets/kubernetes.io/serviceaccount/"

struct slice {
	char name[PART_MAX];
	uint64_t version;
	struct kv_view members;
};

struct source {
	struct source_setup setup;
	char space[PART_MAX], service[PART_MAX], port[64]; /* port "": by rule */
	struct web_call *call, *watch;
	struct slice *slice;
	unsigned slices, failed;
	char version[64]; /* to watch from; "": list */
	uint64_t retry_ns, epoch;
	struct kv_view reported; /* the last union */
};

/* ---- the option ---- */

static bool part_take(const char *text, size_t len, char *out, size_t cap)
{
	if (len == 0 || len >= cap)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '.')
			return false;
	snprintf(out, cap, "%.*s", (int)len, text);
	return true;
}

static int spec_parse(struct source *s, struct kv_error *err)
{
	const char *spec = s->setup.spec, *slash = strchr(spec, '/'), *colon = slash ? strchr(slash, ':') : NULL;
	const char *end = colon ? colon : spec + strlen(spec);
	if (slash && part_take(spec, (size_t)(slash - spec), s->space, sizeof(s->space)) &&
	    part_take(slash + 1, (size_t)(end - slash - 1), s->service, sizeof(s->service)) &&
	    (!colon || part_take(colon + 1, strlen(colon + 1), s->port, sizeof(s->port))))
		return 0;
	return kv_fail(err, -KV_EINVAL,
		       "--members k8s:%.200s: give k8s:NAMESPACE/SERVICE, or k8s:NAMESPACE/SERVICE:PORT", spec);
}

static int kube_check(const struct source_setup *setup, struct kv_error *err)
{
	struct source *s = calloc(1, sizeof(*s));
	int rc = -KV_ENOMEM;
	if (s) {
		s->setup = *setup;
		rc = spec_parse(s, err);
	}
	free(s);
	if (rc == 0 && (!getenv("KUBERNETES_SERVICE_HOST") || !getenv("KUBERNETES_SERVICE_PORT")))
		return kv_fail(err, -KV_EINVAL,
			       "--members k8s:... needs KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, as in "
			       "every pod: they are not set here; outside of a cluster use another source");
	return rc;
}

static int kube_open(const struct source_setup *setup, struct source **out)
{
	struct source *s = calloc(1, sizeof(*s));
	if (!s)
		return -KV_ENOMEM;
	s->slice = calloc(SLICES_MAX, sizeof(*s->slice));
	if (!s->slice) {
		free(s);
		return -KV_ENOMEM;
	}
	s->setup = *setup;
	spec_parse(s, NULL);
	*out = s;
	return 0;
}

static void slices_clear(struct slice *slice, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		kv_view_fini(&slice[i].members);
}

static void kube_close(struct source **source)
{
	struct source *s = *source;
	web_cancel(&s->call);
	web_cancel(&s->watch);
	slices_clear(s->slice, s->slices);
	kv_view_fini(&s->reported);
	free(s->slice);
	free(s);
	*source = NULL;
}

/* ---- slices ---- */

static bool port_is(const struct source *s, const json_t *port)
{
	const char *name = text_string(port, "name"), *wanted = s->port[0] ? s->port : "kvrail";
	char number[8];
	snprintf(number, sizeof(number), "%u", (unsigned)text_u64(port, "port"));
	return strcmp(name, wanted) == 0 || strcmp(number, wanted) == 0;
}

/* 0: none. */
static unsigned port_of(const struct source *s, const json_t *slice)
{
	const json_t *ports = json_object_get(slice, "ports"), *port;
	size_t i;
	json_array_foreach(ports, i, port)
	{
		if (port_is(s, port))
			return (unsigned)text_u64(port, "port");
	}
	return !s->port[0] && json_array_size(ports) == 1 ? (unsigned)text_u64(json_array_get(ports, 0), "port") : 0;
}

/* False: it serves nobody. Conditions missing or null: ready and serving count as true. known: it was a member. */
static bool state_of(const json_t *endpoint, bool known, enum kv_member_state *out)
{
	const json_t *c = json_object_get(endpoint, "conditions");
	const json_t *ready = json_object_get(c, "ready"), *serving = json_object_get(c, "serving");
	if (json_is_true(json_object_get(c, "terminating"))) {
		*out = KV_MEMBER_DRAINING;
		return known || !json_is_false(serving);
	}
	*out = KV_MEMBER_UP;
	return !json_is_false(ready);
}

static bool endpoint_read(const struct source *s, const json_t *endpoint, unsigned port, struct kv_member *out)
{
	const json_t *target = json_object_get(endpoint, "targetRef");
	const char *address = json_string_value(json_array_get(json_object_get(endpoint, "addresses"), 0));
	const char *id = strcmp(text_string(target, "kind"), "Pod") == 0 ? text_string(target, "name")
									 : text_string(endpoint, "hostname");
	struct kv_member m = {.weight = KV_WEIGHT_DEFAULT};
	struct kv_hostport hp = {.port = (uint16_t)port};
	if (!address || strlen(address) >= sizeof(hp.host))
		return false;
	snprintf(hp.host, sizeof(hp.host), "%s", address);
	kv_hostport_format(&hp, m.address, sizeof(m.address));
	m.incarnation = members_source(NULL, "uid", text_string(target, "uid"));
	snprintf(m.node_id, sizeof(m.node_id), "%.*s", KV_NAME_MAX - 1,
		 id[0] && strlen(id) < sizeof(m.node_id) ? id : m.address);
	snprintf(m.zone, sizeof(m.zone), "%.63s", text_string(endpoint, "zone"));
	if (!state_of(endpoint, kv_view_find(&s->reported, m.node_id) != NULL, &m.state))
		return false;
	*out = m;
	return kv_member_check(&m, NULL) == 0;
}

/* The better of two pods with one name: the same on all servers. */
static bool better(const struct kv_member *a, const struct kv_member *b)
{
	return a->state != b->state ? a->state == KV_MEMBER_UP : a->incarnation > b->incarnation;
}

static void merge(struct kv_member *m, const struct kv_member *other)
{
	struct kv_hostport at;
	char one[KV_WHERE_MAX];
	for (unsigned i = 0; kv_where_at(other->address, i, &at); i++)
		(void)kv_where_add(m->address, kv_hostport_format(&at, one, sizeof(one)));
	kv_where_sort(m->address);
	if (other->state == KV_MEMBER_UP)
		m->state = KV_MEMBER_UP;
	if (strcmp(m->zone, other->zone) < 0)
		memcpy(m->zone, other->zone, sizeof(m->zone));
}

static int best_put(struct kv_view *list, const struct kv_member *m)
{
	const struct kv_member *there = kv_view_find(list, m->node_id);
	struct kv_member both = *m;
	if (there && there->incarnation == m->incarnation)
		merge(&both, there);
	else if (there && !better(m, there))
		return 0;
	return members_put(list, &both);
}

static int slice_read(const struct source *s, const json_t *object, struct slice *out)
{
	const json_t *meta = json_object_get(object, "metadata"), *endpoint;
	unsigned port = port_of(s, object);
	struct kv_member m;
	size_t i;
	int rc = 0;
	*out = (struct slice){.version = text_u64(meta, "resourceVersion")};
	snprintf(out->name, sizeof(out->name), "%.*s", PART_MAX - 1, text_string(meta, "name"));
	json_array_foreach(json_object_get(object, "endpoints"), i, endpoint)
	{
		if (rc == 0 && port && port <= UINT16_MAX && endpoint_read(s, endpoint, port, &m))
			rc = best_put(&out->members, &m);
	}
	if (json_array_size(json_object_get(object, "endpoints")) && !port)
		kv_debug(s->setup.log, "--members k8s: slice %s has no port %s, or several", out->name,
			 s->port[0] ? s->port : "kvrail");
	if (rc)
		kv_view_fini(&out->members);
	return rc;
}

static struct slice *slice_find(struct source *s, const char *name)
{
	for (unsigned i = 0; i < s->slices; i++)
		if (strcmp(s->slice[i].name, name) == 0)
			return &s->slice[i];
	return NULL;
}

/* The union of all slices. */
static void members_report(struct source *s)
{
	const struct source_sink *sink = s->setup.sink;
	struct kv_view all = {0};
	uint64_t epoch = 0;
	int rc = 0;
	for (unsigned i = 0; i < s->slices; i++) {
		epoch = KV_MAX(epoch, s->slice[i].version);
		for (unsigned k = 0; k < s->slice[i].members.count && rc == 0; k++)
			rc = best_put(&all, &s->slice[i].members.member[k]);
	}
	for (unsigned i = 0; i < all.count; i++)
		all.member[i].incarnation = 0;
	s->epoch = KV_MAX(s->epoch, epoch);
	all.source = members_source(s->setup.cluster, "k8s", s->setup.spec);
	all.epoch = s->epoch;
	if (rc)
		sink->trouble(sink->arg, "too many endpoints, or no memory");
	else
		sink->members(sink->arg, &all);
	if (rc) {
		kv_view_fini(&all);
		return;
	}
	kv_view_fini(&s->reported);
	s->reported = all;
}

/* ---- answers ---- */

static void list_again(struct source *s, const char *why)
{
	if (why)
		kv_debug(s->setup.log, "--members k8s: %s: listing the slices again", why);
	web_cancel(&s->watch);
	s->version[0] = '\0';
}

static void pause_take(struct source *s)
{
	s->retry_ns = kv_now() + (PAUSE_NS << KV_MIN(s->failed, (unsigned)PAUSE_ROUNDS_MAX)) / s->setup.pace;
	s->failed++;
}

static void fail(struct source *s, const char *why)
{
	char text[1024];
	snprintf(text, sizeof(text), "%s/%s: %.300s", s->space, s->service, why);
	list_again(s, NULL);
	pause_take(s);
	s->setup.sink->trouble(s->setup.sink->arg, text);
}

static void status_fail(struct source *s, long status, const json_t *body)
{
	char why[400];
	snprintf(why, sizeof(why), "the API server answers %ld: %.250s%s", status, text_string(body, "message"),
		 status == 403 ? " (the pod's service account needs the rights get, list and watch of endpointslices)"
			       : "");
	fail(s, why);
}

static bool list_read(struct source *s, const json_t *list)
{
	const json_t *items = json_object_get(list, "items"), *item;
	struct slice *fresh = calloc(SLICES_MAX, sizeof(*fresh));
	unsigned n = 0;
	size_t i;
	int rc = fresh && json_is_array(items) && json_array_size(items) <= SLICES_MAX ? 0 : -KV_EINVAL;
	if (rc == 0) {
		json_array_foreach(items, i, item)
		{
			if (rc == 0)
				rc = slice_read(s, item, &fresh[n]);
			n += rc == 0;
		}
	}
	if (rc) {
		slices_clear(fresh, n);
		free(fresh);
		return false;
	}
	slices_clear(s->slice, s->slices);
	free(s->slice);
	s->slice = fresh;
	s->slices = n;
	return true;
}

static void on_list(void *arg, const struct web_answer *a)
{
	struct source *s = arg;
	json_t *body = a->error ? NULL : text_json(a->body, a->len);
	const char *version = text_string(json_object_get(body, "metadata"), "resourceVersion");
	s->call = NULL;
	if (a->error) {
		fail(s, a->error);
	} else if (a->status != 200) {
		status_fail(s, a->status, body);
	} else if (!version[0] || strlen(version) >= sizeof(s->version) || !list_read(s, body)) {
		fail(s, "the list of EndpointSlices cannot be read");
	} else {
		s->retry_ns = 0;
		if (text_u64(json_object_get(body, "metadata"), "resourceVersion") < s->epoch)
			s->epoch = 0; /* the control plane was restored */
		snprintf(s->version, sizeof(s->version), "%s", version);
		members_report(s);
	}
	json_decref(body);
}

static bool slice_take(struct source *s, const char *type, const json_t *object)
{
	struct slice fresh, *there;
	if (slice_read(s, object, &fresh))
		return false;
	there = slice_find(s, fresh.name);
	if (strcmp(type, "DELETED") == 0) {
		kv_view_fini(&fresh.members);
		s->epoch = KV_MAX(s->epoch, fresh.version);
		if (!there)
			return true;
		kv_view_fini(&there->members);
		*there = s->slice[--s->slices];
		return true;
	}
	if (!there && s->slices == SLICES_MAX) {
		kv_view_fini(&fresh.members);
		return false;
	}
	if (!there)
		there = &s->slice[s->slices++];
	else
		kv_view_fini(&there->members);
	*there = fresh;
	return true;
}

static void on_watch_line(void *arg, const char *line, size_t len)
{
	struct source *s = arg;
	json_t *event = text_json(line, len);
	const json_t *object = json_object_get(event, "object");
	const char *type = text_string(event, "type");
	const char *version = text_string(json_object_get(object, "metadata"), "resourceVersion");
	if (strcmp(type, "ERROR") == 0 || !version[0] || strlen(version) >= sizeof(s->version)) {
		list_again(s,
			   text_u64(object, "code") == 410 ? "the version is too old (410)" : "the watch has an error");
		pause_take(s);
		goto out;
	}
	s->failed = 0;
	snprintf(s->version, sizeof(s->version), "%s", version);
	if (strcmp(type, "BOOKMARK") == 0)
		s->setup.sink->alive(s->setup.sink->arg);
	else if (!slice_take(s, type, object))
		list_again(s, "a slice cannot be read");
	else
		members_report(s);
out:
	json_decref(event);
}

static void on_watch_done(void *arg, const struct web_answer *a)
{
	struct source *s = arg;
	json_t *body = a->error ? NULL : text_json(a->body, a->len);
	s->watch = NULL;
	if (a->error || a->status == 410) {
		list_again(s, a->error ? a->error : "the version is too old (410)");
		pause_take(s);
	} else if (a->status != 200) {
		status_fail(s, a->status, body);
	} else { /* normal end; pause in case it ended at once */
		s->failed = 0;
		s->retry_ns = KV_MAX(s->retry_ns, kv_now() + PAUSE_NS / s->setup.pace);
	}
	json_decref(body);
}

/* ---- calls ---- */

static struct web_call *call(struct source *s, bool watch)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
	const char *file = s->setup.token_file ? s->setup.token_file : ACCOUNT "token";
	bool v6 = host && strchr(host, ':');
	char url[URL_MAX], more[192] = "", token[TOKEN_MAX], header[TOKEN_MAX + 32];
	struct kv_error err = {0};
	struct web_call *made;
	struct web_request r = {.url = url,
				.header = {header},
				.ca = s->setup.ca_file ? s->setup.ca_file : ACCOUNT "ca.crt",
				.limit_ns = LIMIT_NS / s->setup.pace,
				.on_done = watch ? on_watch_done : on_list,
				.on_line = watch ? on_watch_line : NULL,
				.silence_ns = SILENCE_NS / s->setup.pace,
				.arg = s};
	if (text_file_line(file, token, sizeof(token), &err)) {
		fail(s, err.text);
		return NULL;
	}
	if (watch)
		snprintf(more, sizeof(more), "&watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
			 WATCH_S, s->version);
	snprintf(url, sizeof(url),
		 "https://%s%.100s%s:%.8s/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector="
		 "kubernetes.io%%2Fservice-name%%3D%s%s",
		 v6 ? "[" : "", host ? host : "", v6 ? "]" : "", port ? port : "", s->space, s->service, more);
	snprintf(header, sizeof(header), "Authorization: Bearer %s", token);
	made = web_send(s->setup.web, &r);
	explicit_bzero(token, sizeof(token));
	explicit_bzero(header, sizeof(header));
	if (!made)
		fail(s, "no memory for a call");
	return made;
}

static uint64_t kube_turn(struct source *s, uint64_t now)
{
	if (now < s->retry_ns)
		return s->retry_ns;
	if (!s->version[0] && !s->call)
		s->call = call(s, false);
	else if (s->version[0] && !s->watch)
		s->watch = call(s, true);
	return KV_MAX(s->retry_ns, now + SECOND_NS);
}

const struct source_class source_kube = {.name = "k8s",
					 .check = kube_check,
					 .open = kube_open,
					 .turn = kube_turn,
					 .close = kube_close,
					 .asks_http = true};
