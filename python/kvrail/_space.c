/* SPDX-License-Identifier: Apache-2.0 */
/* _space.c -- namespaces: clear the client's own one, list those of a server; and list who holds leases there. All
 * block without the GIL, by their deadline and the grace, and return the library's code; Python raises the error. */
#include "_native.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES_MAX = 4096 };  /* a server has room for so many */
enum { HOLDERS_MAX = 4096 }; /* further ones are not listed */

static int call_parse(struct client_object *self, PyObject *timeout, struct kvc_call *out)
{
	*out = (struct kvc_call){.size = sizeof(*out)};
	if (timeout != Py_None && timeout_parse(timeout, &out->timeout_ns) < 0)
		return -1;
	return client_usable(self); /* last: the arguments may run Python code, which may close the client */
}

PyObject *client_space_clear(PyObject *object, PyObject *timeout)
{
	struct client_object *self = (struct client_object *)object;
	struct kvc_call call;
	uint64_t generation = 0;
	int rc;
	if (call_parse(self, timeout, &call) < 0)
		return NULL;
	client_enter(self);
	Py_BEGIN_ALLOW_THREADS rc = kvc_namespace_clear(self->pool, &generation, &call);
	Py_END_ALLOW_THREADS client_leave(self);
	return rc < 0 ? PyLong_FromLong(rc) : PyLong_FromUnsignedLongLong(generation);
}

static PyObject *space_dict(const struct kvc_namespace *s)
{
	PyObject *name = PyUnicode_DecodeUTF8(s->name, (Py_ssize_t)strnlen(s->name, sizeof(s->name)), "replace");
	PyObject *dict;
	if (!name)
		return NULL;
	dict = Py_BuildValue("{sOsKsKsKsKsKsK}", "name", name, "generation", (unsigned long long)s->generation,
			     "blocks", (unsigned long long)s->blocks, "bytes", (unsigned long long)s->bytes, "gets",
			     (unsigned long long)s->gets, "hits", (unsigned long long)s->hits, "tier_bytes",
			     (unsigned long long)s->tier_bytes);
	Py_DECREF(name);
	return dict;
}

static PyObject *holder_dict(const struct kvc_lease_holder *h)
{
	PyObject *identity =
		PyUnicode_DecodeUTF8(h->identity, (Py_ssize_t)strnlen(h->identity, sizeof(h->identity)), "replace");
	PyObject *dict;
	if (!identity)
		return NULL;
	dict = Py_BuildValue("{sOsKsKsKsKsKsd}", "identity", identity, "client_id", (unsigned long long)h->client_id,
			     "session", (unsigned long long)h->session, "pid", (unsigned long long)h->pid, "leases",
			     (unsigned long long)h->leases, "bytes", (unsigned long long)h->bytes, "age",
			     (double)h->age_ns / 1e9);
	Py_DECREF(identity);
	return dict;
}

/* Takes the reference. The list, or NULL with an exception: it is gone then. */
static PyObject *list_add(PyObject *list, PyObject *dict)
{
	if (!dict || PyList_Append(list, dict) < 0)
		Py_CLEAR(list);
	Py_XDECREF(dict);
	return list;
}

static PyObject *spaces_list(const struct kvc_namespace *spaces, int n)
{
	PyObject *list = PyList_New(0);
	for (int i = 0; list && i < n; i++)
		list = list_add(list, space_dict(&spaces[i]));
	return list;
}

static PyObject *holders_list(const struct kvc_lease_holder *holders, int n)
{
	PyObject *list = PyList_New(0);
	for (int i = 0; list && i < n; i++)
		list = list_add(list, holder_dict(&holders[i]));
	return list;
}

PyObject *client_namespaces(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	PyObject *timeout = Py_None, *list;
	struct kvc_namespace *spaces;
	struct kvc_call call;
	unsigned server;
	int rc;
	if (!PyArg_ParseTuple(args, "IO:namespaces", &server, &timeout) || call_parse(self, timeout, &call) < 0)
		return NULL;
	spaces = calloc(SPACES_MAX, sizeof(*spaces));
	if (!spaces)
		return PyErr_NoMemory();
	call.server = server;
	client_enter(self);
	Py_BEGIN_ALLOW_THREADS rc = kvc_namespaces(self->pool, spaces, SPACES_MAX, &call);
	Py_END_ALLOW_THREADS client_leave(self);
	list = rc < 0 ? PyLong_FromLong(rc) : spaces_list(spaces, rc < SPACES_MAX ? rc : SPACES_MAX);
	free(spaces);
	return list;
}

PyObject *client_leases(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	PyObject *timeout = Py_None, *list;
	struct kvc_lease_holder *holders;
	struct kvc_call call;
	unsigned server;
	int rc;
	if (!PyArg_ParseTuple(args, "IO:leases", &server, &timeout) || call_parse(self, timeout, &call) < 0)
		return NULL;
	holders = calloc(HOLDERS_MAX, sizeof(*holders));
	if (!holders)
		return PyErr_NoMemory();
	call.server = server;
	client_enter(self);
	Py_BEGIN_ALLOW_THREADS rc = kvc_leases(self->pool, holders, HOLDERS_MAX, &call);
	Py_END_ALLOW_THREADS client_leave(self);
	list = rc < 0 ? PyLong_FromLong(rc) : holders_list(holders, rc < HOLDERS_MAX ? rc : HOLDERS_MAX);
	free(holders);
	return list;
}
