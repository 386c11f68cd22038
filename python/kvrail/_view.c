/* SPDX-License-Identifier: Apache-2.0 */
/* _view.c -- views: read-only buffers with the values of borrowed GETs.
 *
 * In place: the bytes are the server's, and the view holds their lease. It ends with release() or the object, but not
 * before the last export. It needs no client: the pool may be closed, and the server dead.
 * Else the view has a copy of its own. The library lends a piece of the client's buffer, which every drain copies and
 * gives back, because the piece ends with the pool, and others wait for it.
 *
 * A batch makes its views when it is submitted: the library writes to them, and a drain that fails for lack of memory
 * loses none. In a child of fork() a view in place belongs to the parent: it exports nothing, and gives back nothing.
 */
#include "_native.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_WITHOUT_GIL = 65536 };

struct view_object {
	PyObject_HEAD struct kvc_borrowed lent; /* a lease, a piece until it is drained, or nothing */
	struct kvc_layout layout;               /* of its item */
	PyObject *copy;                         /* bytes; NULL: in place */
	uint64_t nbytes;
	Py_ssize_t exports;
	pid_t pid; /* of the process that made it */
	bool in_place, released;
};

PyTypeObject *view_type;

static bool is_parents(const struct view_object *self)
{
	return self->in_place && self->pid != getpid();
}

/* Called again at each step towards the end: gives back what nobody uses. */
static void view_end(struct view_object *self)
{
	if (!self->released || self->exports > 0)
		return;
	if (self->in_place && !is_parents(self))
		kvc_borrowed_release(NULL, &self->lent);
	self->lent = (struct kvc_borrowed){0};
	Py_CLEAR(self->copy);
}

/* ---- of a batch ---- */

static struct view_object *view_make(void)
{
	struct view_object *view = (struct view_object *)PyType_GenericAlloc(view_type, 0);
	if (view)
		view->pid = getpid();
	return view;
}

int views_make(struct batch *b)
{
	b->lent = calloc((size_t)b->n + 1, sizeof(*b->lent));
	if (!b->lent) {
		PyErr_NoMemory();
		return -1;
	}
	for (uint32_t i = 0; i < b->n; i++) {
		struct view_object *view = view_make();
		if (!view)
			return -1;
		view->layout = (struct kvc_layout){.size = sizeof(view->layout), .borrowed = &view->lent};
		b->items[i].layout = &view->layout;
		b->lent[i] = view;
	}
	return 0;
}

/* No view was handed out: what was lent and not drained ends here. A piece ended with its pool. */
void views_forget(struct batch *b)
{
	struct view_object **lent = b->lent;
	b->lent = NULL;
	for (uint32_t i = 0; lent && i < b->n && lent[i]; i++) {
		lent[i]->in_place |= lent[i]->pid == getpid() && lent[i]->lent.in_place;
		Py_DECREF((PyObject *)lent[i]);
	}
	free(lent);
}

static void bytes_copy(void *dst, const void *src, size_t len)
{
	PyThreadState *thread = len >= COPY_WITHOUT_GIL ? PyEval_SaveThread() : NULL;
	memcpy(dst, src, len);
	if (thread)
		PyEval_RestoreThread(thread);
}

/* The value lies in a piece, and the pool is there until client_leave. */
static int piece_copy(struct view_object *view)
{
	PyObject *copy = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)view->lent.len);
	if (!copy)
		return -1;
	bytes_copy(PyBytes_AsString(copy), view->lent.data, view->lent.len);
	Py_BEGIN_ALLOW_THREADS kvc_borrowed_release(NULL, &view->lent);
	Py_END_ALLOW_THREADS view->copy = copy;
	return 0;
}

static int view_settle(struct client_object *self, struct view_object *view)
{
	int rc = 0;
	if (view->in_place || !view->lent.data)
		return 0;
	view->nbytes = view->lent.len;
	view->in_place = view->lent.in_place;
	if (view->in_place)
		return 0;
	if (self->closing || !self->pool) {
		view->lent = (struct kvc_borrowed){0};
		return 0;
	}
	client_enter(self);
	rc = piece_copy(view);
	client_leave(self);
	return rc;
}

int views_settle(struct client_object *self, struct batch *b)
{
	for (uint32_t i = 0; b->lent && i < b->n; i++) {
		if (view_settle(self, b->lent[i]) < 0)
			return -1;
	}
	return 0;
}

PyObject *views_result(const struct batch *b, uint32_t i)
{
	struct view_object *view = b->lent[i];
	int64_t result = b->items[i].result;
	if (result >= 0 && (view->in_place || view->copy))
		return Py_NewRef((PyObject *)view);
	return PyLong_FromLongLong(result < 0 ? result : -KV_ECLOSED);
}

/* ---- the object ---- */

/* View(bytes): of a value that was read otherwise. */
static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct view_object *view;
	PyObject *bytes;
	(void)type;
	if (kwargs && PyDict_Size(kwargs) > 0) {
		PyErr_SetString(PyExc_TypeError, "View() takes no keywords");
		return NULL;
	}
	if (!PyArg_ParseTuple(args, "S:View", &bytes))
		return NULL;
	view = view_make();
	if (!view)
		return NULL;
	view->copy = Py_NewRef(bytes);
	view->nbytes = (uint64_t)PyBytes_Size(bytes);
	return (PyObject *)view;
}

static void view_dealloc(PyObject *object)
{
	struct view_object *self = (struct view_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	self->released = true;
	view_end(self);
	release(object);
	Py_DECREF(type);
}

static int view_usable(const struct view_object *self)
{
	if (self->released) {
		PyErr_SetString(PyExc_ValueError, "the view was released");
		return -1;
	}
	if (!is_parents(self))
		return 0;
	kvrail_raise(-KV_ECLOSED, "the value is lent to the process that forked this one: open a client here, or copy "
				  "the value before the fork");
	return -1;
}

static int view_export(PyObject *object, Py_buffer *out, int flags)
{
	struct view_object *self = (struct view_object *)object;
	void *data;
	out->obj = NULL;
	if (view_usable(self) < 0)
		return -1;
	data = self->in_place ? self->lent.data : PyBytes_AsString(self->copy);
	if (PyBuffer_FillInfo(out, object, data, (Py_ssize_t)self->nbytes, 1, flags) < 0)
		return -1;
	self->exports++;
	return 0;
}

static void view_export_ended(PyObject *object, Py_buffer *unused)
{
	struct view_object *self = (struct view_object *)object;
	(void)unused;
	self->exports--;
	view_end(self);
}

static PyObject *view_release(PyObject *object, PyObject *unused)
{
	struct view_object *self = (struct view_object *)object;
	(void)unused;
	self->released = true;
	view_end(self);
	Py_RETURN_NONE;
}

static PyObject *view_enter(PyObject *object, PyObject *unused)
{
	(void)unused;
	return view_usable((struct view_object *)object) < 0 ? NULL : Py_NewRef(object);
}

static PyObject *view_exit(PyObject *object, PyObject *args)
{
	(void)args;
	return view_release(object, NULL);
}

static Py_ssize_t view_length(PyObject *object)
{
	return (Py_ssize_t)((struct view_object *)object)->nbytes;
}

static PyObject *view_at(PyObject *object, PyObject *index)
{
	PyObject *memory = PyMemoryView_FromObject(object), *item;
	if (!memory)
		return NULL;
	item = PyObject_GetItem(memory, index);
	Py_DECREF(memory);
	return item;
}

static PyObject *view_nbytes(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(((struct view_object *)object)->nbytes);
}

static PyObject *view_in_place(PyObject *object, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((struct view_object *)object)->in_place);
}

static PyObject *view_released(PyObject *object, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((struct view_object *)object)->released);
}

static PyMethodDef methods[] = {
	{"release", view_release, METH_NOARGS,
	 "release(): export no more. The bytes are given back now, or with the last export."},
	{"__enter__", view_enter, METH_NOARGS, NULL},
	{"__exit__", view_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
	{"in_place", view_in_place, NULL, "Whether the bytes lie in the server's memory; else they are a copy.", NULL},
	{"nbytes", view_nbytes, NULL, "The length of the value.", NULL},
	{"released", view_released, NULL, "True once it was released.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "A value to read, from Client.view(): a read-only buffer. See kvrail/_native.pyi."},
	{Py_tp_new, (void *)view_new},
	{Py_tp_dealloc, (void *)view_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_getset, attributes},
	{Py_bf_getbuffer, (void *)view_export},
	{Py_bf_releasebuffer, (void *)view_export_ended},
	{Py_mp_length, (void *)view_length},
	{Py_mp_subscript, (void *)view_at},
	{0, NULL},
};

/* It refers to no object that could refer to it, so the collector need not know it. */
PyType_Spec view_spec = {
	.name = "kvrail._native.View",
	.basicsize = sizeof(struct view_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
