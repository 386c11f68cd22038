/* SPDX-License-Identifier: Apache-2.0 */
/* _report.c -- counters, properties of a client, and states of its servers, as dicts. */
#include "_native.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ITEMS_MAX = 1024 };

static int put(PyObject *dict, const char *name, PyObject *value)
{
	int rc = value ? PyDict_SetItemString(dict, name, value) : -1;
	Py_XDECREF(value);
	return rc;
}

/* "gets"; a result of an operation is "GET.timeout". */
static int counter_put(PyObject *dict, const struct kvc_stat_item *item)
{
	static const char results[] = "results of ";
	char name[128];
	if (strncmp(item->group, results, sizeof(results) - 1) != 0)
		return put(dict, item->name, PyLong_FromUnsignedLongLong(item->value));
	snprintf(name, sizeof(name), "%s.%s", item->group + sizeof(results) - 1, item->name);
	return put(dict, name, PyLong_FromUnsignedLongLong(item->value));
}

PyObject *client_counters(PyObject *object, PyObject *unused)
{
	struct client_object *self = (struct client_object *)object;
	struct kvc_counters counters = {.size = sizeof(counters)};
	struct kvc_stat_item items[ITEMS_MAX];
	PyObject *dict;
	int rc;
	(void)unused;
	if (client_usable(self) < 0)
		return NULL;
	rc = kvc_counters(self->pool, &counters);
	if (rc == 0)
		rc = kvc_counters_items(&counters, items, ITEMS_MAX);
	if (rc < 0)
		return kvrail_raise(rc, "%s", kvc_strerror(rc));
	dict = PyDict_New();
	for (int i = 0; dict && i < rc; i++) {
		if (counter_put(dict, &items[i]) < 0)
			Py_CLEAR(dict);
	}
	return dict;
}

static PyObject *text(const char *utf8)
{
	return PyUnicode_DecodeUTF8(utf8, (Py_ssize_t)strlen(utf8), "replace");
}

PyObject *client_info(PyObject *object, PyObject *unused)
{
	struct client_object *self = (struct client_object *)object;
	struct kvc_info info = {.size = sizeof(info)};
	PyObject *dict;
	int rc;
	(void)unused;
	if (client_usable(self) < 0)
		return NULL;
	rc = kvc_info(self->pool, &info);
	if (rc < 0)
		return kvrail_raise(rc, "%s", kvc_strerror(rc));
	dict = PyDict_New();
	if (!dict)
		return NULL;
#define TEXT(field)   put(dict, #field, text(info.field))
#define NUMBER(field) put(dict, #field, PyLong_FromUnsignedLongLong(info.field))
	if (TEXT(provider) < 0 || TEXT(fabric) < 0 || TEXT(domain) < 0 || TEXT(wait) < 0 || TEXT(libfabric) < 0 ||
	    TEXT(why) < 0 || NUMBER(num_clients) < 0 || NUMBER(os_threads) < 0 || NUMBER(endpoints) < 0 ||
	    NUMBER(links) < 0 || NUMBER(rails) < 0 || NUMBER(num_servers) < 0 || NUMBER(buffer_bytes) < 0 ||
	    NUMBER(message_bytes) < 0 || NUMBER(chunk_bytes) < 0 || NUMBER(eager_bytes) < 0 || NUMBER(tx_depth) < 0 ||
	    NUMBER(cq_depth) < 0 || NUMBER(credits) < 0 || TEXT(security) < 0 || TEXT(congestion) < 0 ||
	    TEXT(mode) < 0 || TEXT(memory) < 0 || TEXT(numa) < 0 || NUMBER(register_ns) < 0 || TEXT(no_door) < 0 ||
	    put(dict, "version", text(kvc_version())) < 0)
		Py_CLEAR(dict);
#undef TEXT
#undef NUMBER
	return dict;
}

/* ---- servers ---- */

#define ANSWER_S 0.2 /* a loop answers in microseconds, on a busy machine in some ms */

struct standing {
	struct kvc_server_info worst; /* of the client with the worst state */
	unsigned up;                  /* clients for which it is up */
	unsigned local;               /* clients of those that map its memory */
};

struct servers {
	unsigned n, room, clients;
	struct standing *all;
};

static unsigned badness(enum kvc_server_state state)
{
	return state == KVC_SERVER_UP ? 0 : state == KVC_SERVER_CONNECTING ? 1 : state == KVC_SERVER_DOWN ? 2 : 3;
}

/* Server s, by all clients. -KV_ENOTFOUND: no server has this number now; -KV_EINVAL: nor a higher one. */
static int server_ask(struct kvc_pool *pool, unsigned clients, unsigned s, uint64_t wait_ns, struct standing *out)
{
	int known = -KV_EINVAL;
	out->up = out->local = 0;
	for (unsigned c = 0; c < clients; c++) {
		struct kvc_server_info info = {.size = sizeof(info)};
		int rc = kvc_server_info_within(pool, c, s, wait_ns, &info);
		if (rc == -KV_ENOTFOUND && known < 0)
			known = rc;
		if (rc == -KV_ENOTFOUND || rc == -KV_EINVAL)
			continue;
		if (rc < 0)
			return rc;
		out->up += info.state == KVC_SERVER_UP;
		out->local += info.state == KVC_SERVER_UP && info.local;
		if (known < 0 || badness(info.state) > badness(out->worst.state))
			out->worst = info;
		known = 0;
	}
	return known;
}

static int servers_room(struct servers *servers)
{
	unsigned room = servers->room ? 2 * servers->room : 16;
	struct standing *all;
	if (servers->n < servers->room)
		return 0;
	all = realloc(servers->all, room * sizeof(*all));
	if (!all)
		return -KV_ENOMEM;
	servers->all = all;
	servers->room = room;
	return 0;
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The configured servers, then the members of a view. After `seconds` it asks for no further server; each loop has that
 * time to answer, at least ANSWER_S. Without the GIL. */
static int servers_ask(struct kvc_pool *pool, double seconds, struct servers *servers)
{
	double end = now_s() + seconds;
	double wait = seconds > ANSWER_S ? seconds : ANSWER_S;
	uint64_t wait_ns = wait < 1e9 ? (uint64_t)(wait * 1e9) : UINT64_MAX;
	int rc = 0;
	for (unsigned s = 0; rc != -KV_EINVAL && (s == 0 || now_s() < end); s++) {
		rc = servers_room(servers);
		if (rc == 0)
			rc = server_ask(pool, servers->clients, s, wait_ns, &servers->all[servers->n]);
		servers->n += rc == 0;
		if (rc < 0 && rc != -KV_ENOTFOUND && rc != -KV_EINVAL)
			return rc;
	}
	return 0;
}

static PyObject *server_dict(const struct kvc_server_info *i, unsigned up, unsigned local)
{
	static const char *const states[] = {"connecting", "up", "down", "closed"};
	PyObject *dict = PyDict_New();
	if (dict && (put(dict, "name", text(i->name)) < 0 || put(dict, "node_id", text(i->node_id)) < 0 ||
		     put(dict, "state", text(states[i->state])) < 0 || put(dict, "why", text(i->why)) < 0 ||
		     put(dict, "clients_up", PyLong_FromUnsignedLong(up)) < 0 ||
		     put(dict, "clients_local", PyLong_FromUnsignedLong(local)) < 0 ||
		     put(dict, "attempts_failed", PyLong_FromUnsignedLongLong(i->attempts_failed)) < 0 ||
		     put(dict, "shards", PyLong_FromUnsignedLong(i->shards)) < 0))
		Py_CLEAR(dict);
	return dict;
}

static PyObject *servers_list(const struct servers *servers)
{
	PyObject *list = PyList_New(0);
	for (unsigned s = 0; list && s < servers->n; s++) {
		const struct standing *one = &servers->all[s];
		PyObject *dict = server_dict(&one->worst, one->up, one->local);
		if (!dict || PyList_Append(list, dict) < 0)
			Py_CLEAR(list);
		Py_XDECREF(dict);
	}
	return list;
}

PyObject *client_servers(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	struct kvc_info info = {.size = sizeof(info)};
	struct servers servers = {0};
	double seconds = HUGE_VAL;
	PyObject *list;
	int rc;
	if (!PyArg_ParseTuple(args, "|d:servers", &seconds))
		return NULL;
	if (!(seconds >= 0)) {
		PyErr_SetString(PyExc_ValueError, "seconds, in which servers are asked, must be 0 or more");
		return NULL;
	}
	if (client_usable(self) < 0)
		return NULL;
	client_enter(self);
	rc = kvc_info(self->pool, &info);
	if (rc == 0) {
		struct kvc_pool *pool = self->pool;
		servers.clients = info.num_clients;
		Py_BEGIN_ALLOW_THREADS rc = servers_ask(pool, seconds, &servers);
		Py_END_ALLOW_THREADS
	}
	client_leave(self);
	list = rc == 0 ? servers_list(&servers) : kvrail_raise(rc, "%s", kvc_strerror(rc));
	free(servers.all);
	return list;
}
