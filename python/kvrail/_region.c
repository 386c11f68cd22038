/* SPDX-License-Identifier: Apache-2.0 */
/* _region.c -- registered memory: a registration and the export that keeps its memory in place.
 *
 * The registration belongs to the client: it ends by unregister() or with the client, not with its Python object, so
 * the caller need not keep the object. The export is held until then. */
#include "_native.h"

#include <stdlib.h>

static void region_link(struct client_object *c, struct region *r)
{
	r->next = c->regions;
	r->link = &c->regions;
	if (r->next)
		r->next->link = &r->next;
	c->regions = r;
}

static void region_unlink(struct region *r)
{
	if (!r->link)
		return;
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	r->link = NULL;
	r->next = NULL;
}

static void object_link(struct region_object *object, struct region *r)
{
	object->region = r;
	object->next = r->objects;
	r->objects = object;
}

static void object_unlink(struct region_object *object)
{
	struct region_object **at = &object->region->objects;
	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
	object->region = NULL;
	object->next = NULL;
}

void region_ended(struct region *r)
{
	Py_buffer view = r->view;
	region_unlink(r);
	while (r->objects)
		object_unlink(r->objects);
	free(r);
	if (view.obj)
		PyBuffer_Release(&view);
}

/* ---- register ---- */

/* The exporter refused: its words, after ours. */
static int memory_refused(PyObject *memory)
{
	PyObject *type, *value, *trace, *name;
	/* An exporter written in Python may be interrupted. */
	if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
		return -1;
	PyErr_Fetch(&type, &value, &trace);
	name = kvrail_type_name(memory);
	if (name)
		PyErr_Format(PyExc_ValueError, "register() takes C-contiguous, writable memory, and this %U is not: %S",
			     name, value ? value : Py_None);
	Py_XDECREF(name);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(trace);
	return -1;
}

static int memory_parse(PyObject *memory, struct region *r, void **base)
{
	uint64_t address, len;
	if (PyTuple_Check(memory)) {
		if (PyTuple_Size(memory) != 2) {
			PyErr_SetString(PyExc_TypeError, "register() takes a buffer or (address, length)");
			return -1;
		}
		if (kvrail_uint(PyTuple_GetItem(memory, 0), "the address", &address) < 0 ||
		    kvrail_uint(PyTuple_GetItem(memory, 1), "the length", &len) < 0)
			return -1;
		*base = (void *)(uintptr_t)address;
		r->len_bytes = len;
	} else {
		int tensor =
			PyObject_CheckBuffer(memory) ? 1 : place_tensor(memory, "register(): the tensor", &r->view);
		if (tensor < 0)
			return -1;
		if (tensor > 0 && !PyObject_CheckBuffer(memory)) {
			PyObject *type = kvrail_type_name(memory);
			if (type)
				PyErr_Format(PyExc_TypeError,
					     "register() takes a buffer, a tensor or (address, length), not %U", type);
			Py_XDECREF(type);
			return -1;
		}
		if (tensor > 0 && PyObject_GetBuffer(memory, &r->view, PyBUF_WRITABLE) < 0)
			return memory_refused(memory);
		*base = r->view.buf;
		r->len_bytes = (uint64_t)r->view.len;
	}
	if (*base && r->len_bytes)
		return 0;
	PyErr_SetString(PyExc_ValueError, "register() needs memory of at least one byte");
	return -1;
}

/* The registration of this very memory, or NULL. */
static struct region *region_find(const struct client_object *c, const void *base, uint64_t len_bytes)
{
	struct region *r = c->regions;
	while (r && (r->ending || r->base != base || r->len_bytes != len_bytes))
		r = r->next;
	return r;
}

/* Registered again: one registration, which ends with the last unregister(). r has an export that may be the only one.
 */
static void region_share(struct region *shared, struct region *r, struct region_object *object)
{
	shared->uses++;
	object_link(object, shared);
	if (!shared->view.obj) {
		shared->view = r->view;
		r->view.obj = NULL;
	}
}

/* Registers r, or finds it registered. Returns 0 or a code with *err. *out: whose region it is now. */
static int region_make(struct client_object *self, struct region *r, struct region **out, struct kv_error *err)
{
	struct region *shared = region_find(self, r->base, r->len_bytes);
	int rc = 0;
	if (!shared) {
		Py_BEGIN_ALLOW_THREADS rc = kvc_register(self->pool, r->base, r->len_bytes, &r->mem, err);
		Py_END_ALLOW_THREADS
	}
	if (rc == -KV_EINVAL) /* another thread may have been faster */
		shared = region_find(self, r->base, r->len_bytes);
	*out = shared ? shared : r;
	return shared ? 0 : rc;
}

PyObject *client_register(PyObject *object, PyObject *memory)
{
	struct client_object *self = (struct client_object *)object;
	struct region *r, *made = NULL;
	struct region_object *region;
	struct kv_error err = {.code = 0};
	int rc;
	if (client_usable(self) < 0)
		return NULL;
	region = (struct region_object *)PyType_GenericAlloc(region_type, 0);
	if (!region)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r) {
		Py_DECREF(region);
		return PyErr_NoMemory();
	}
	if (memory_parse(memory, r, &r->base) < 0 || client_usable(self) < 0)
		goto err_memory;
	client_enter(self);
	rc = region_make(self, r, &made, &err);
	if (rc == 0)
		region->client = (struct client_object *)Py_NewRef(object);
	if (rc == 0 && made == r) {
		r->uses = 1;
		object_link(region, r);
		region_link(self, r);
	} else if (rc == 0) {
		region_share(made, r, region);
	}
	client_leave(self); /* close continues now, and ends the region */
	if (rc == 0 && made != r) {
		if (r->view.obj)
			PyBuffer_Release(&r->view);
		free(r);
	}
	if (rc == 0)
		return (PyObject *)region;
	kvrail_raise(rc, "%s", err.code ? err.text : kvc_strerror(rc));

err_memory:
	if (r->view.obj)
		PyBuffer_Release(&r->view);
	free(r);
	Py_DECREF(region);
	return NULL;
}

/* ---- the object ---- */

static PyObject *region_unregister(PyObject *object, PyObject *unused)
{
	struct region_object *self = (struct region_object *)object;
	struct client_object *client = self->client;
	struct region *r = self->region;
	int rc;
	(void)unused;
	if (!r)
		Py_RETURN_NONE;
	if (client->closing) { /* it ends with the client: until then the memory may be written to */
		client_close_wait(client);
		Py_RETURN_NONE;
	}
	if (client_usable(client) < 0)
		return NULL;
	if (r->ending)
		return kvrail_raise(-KV_EBUSY, "another thread is unregistering this memory");
	if (r->uses > 1) { /* it was registered again, and stays */
		r->uses--;
		object_unlink(self);
		Py_RETURN_NONE;
	}
	r->ending = true;
	client_enter(client);
	Py_BEGIN_ALLOW_THREADS rc = kvc_unregister(client->pool, &r->mem);
	Py_END_ALLOW_THREADS r->ending = false;
	if (rc == 0) {
		while (r->objects)
			object_unlink(r->objects);
		region_unlink(r);
	}
	client_leave(client);
	if (rc < 0)
		return kvrail_raise(rc, "the memory stays registered, and must stay mapped: %s", kvc_strerror(rc));
	region_ended(r);
	Py_RETURN_NONE;
}

static PyObject *region_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	return Py_NewRef(self);
}

static PyObject *region_exit(PyObject *self, PyObject *args)
{
	(void)args;
	return region_unregister(self, NULL);
}

static PyObject *region_registered(PyObject *object, void *closure)
{
	struct region_object *self = (struct region_object *)object;
	(void)closure;
	return PyBool_FromLong(self->region != NULL);
}

static PyObject *region_nbytes(PyObject *object, void *closure)
{
	struct region_object *self = (struct region_object *)object;
	(void)closure;
	return PyLong_FromUnsignedLongLong(self->region ? self->region->len_bytes : 0);
}

static void region_dealloc(PyObject *object)
{
	struct region_object *self = (struct region_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	PyObject_GC_UnTrack(object);
	if (self->region)
		object_unlink(self); /* the registration stays, until the client is closed */
	Py_XDECREF((PyObject *)self->client);
	PyObject_GC_Del(object);
	Py_DECREF(type);
}

/* A circle through here contains a subclass of Client; clearing its dict breaks the circle. */
static int region_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT((PyObject *)((struct region_object *)object)->client);
	Py_VISIT(Py_TYPE(object));
	return 0;
}

static PyMethodDef methods[] = {
	{"unregister", region_unregister, METH_NOARGS,
	 "unregister(): end the registration. If it raises, the memory is still registered."},
	{"__enter__", region_enter, METH_NOARGS, NULL},
	{"__exit__", region_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
	{"registered", region_registered, NULL, "False once it was unregistered, or the client closed.", NULL},
	{"nbytes", region_nbytes, NULL, "Registered bytes; 0 after the end.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Registered memory, from Client.register()."},
	{Py_tp_dealloc, (void *)region_dealloc},
	{Py_tp_traverse, (void *)region_traverse},
	{Py_tp_methods, methods},
	{Py_tp_getset, attributes},
	{0, NULL},
};

PyType_Spec region_spec = {
	.name = "kvrail._native.Region",
	.basicsize = sizeof(struct region_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
