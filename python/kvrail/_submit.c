/* SPDX-License-Identifier: Apache-2.0 */
/* _submit.c -- submits: keys and buffers of a call become the items of a batch, which the queue takes.
 *
 * All of it holds the GIL, and costs per key a copy of its bytes and one export of the buffer. Nothing is allocated per
 * key. Each list becomes a tuple, so that Python code that runs in between (an exporter may be written in Python)
 * cannot change it. Such code may also close the client: the batch is submitted only if the client is still open. */
#include "_native.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 1 << 20 };

struct arguments {
	PyObject *keys, *buffers, *timeout, *ttl, *background, *exact, *parts, *memory_only;
};

/* ---- arguments ---- */

static PyObject *tuple_of(PyObject *object, const char *what)
{
	if (PyTuple_CheckExact(object))
		return Py_NewRef(object);
	if (PyList_Check(object))
		return PyList_AsTuple(object);
	if (PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object) ||
	    !PySequence_Check(object)) {
		PyObject *type = kvrail_type_name(object);
		if (type)
			PyErr_Format(PyExc_TypeError, "%s must be a list or tuple, one entry for each key, not %U",
				     what, type);
		Py_XDECREF(type);
		return NULL;
	}
	return PySequence_Tuple(object);
}

static PyObject **argument_at(struct arguments *out, const char *const *names, unsigned i)
{
	const char *name = names[i];
	return name[0] == 'k'                     ? &out->keys
	       : name[0] == 'p'                   ? &out->parts
	       : name[0] == 'e'                   ? &out->exact
	       : name[0] == 'm'                   ? &out->memory_only
	       : name[0] == 'b' && name[1] == 'u' ? &out->buffers
	       : name[0] == 'b'                   ? &out->background
	       : name[1] == 'i'                   ? &out->timeout
						  : &out->ttl;
}

/* names: those of the call in order, NULL at the end; the first `needed` must be given. */
static int arguments_parse(const char *call, const char *const *names, unsigned needed, PyObject *const *args,
			   Py_ssize_t nargs, PyObject *kwnames, struct arguments *out)
{
	Py_ssize_t named = kwnames ? PyTuple_Size(kwnames) : 0;
	unsigned count = 0;
	while (names[count])
		count++;
	if (nargs > (Py_ssize_t)count) {
		PyErr_Format(PyExc_TypeError, "%s takes at most %u arguments, not %zd", call, count, nargs);
		return -1;
	}
	for (unsigned i = 0; i < nargs; i++)
		*argument_at(out, names, i) = args[i];
	for (Py_ssize_t k = 0; k < named; k++) {
		PyObject *name = PyTuple_GetItem(kwnames, k);
		unsigned i = 0;
		while (i < count && PyUnicode_CompareWithASCIIString(name, names[i]) != 0)
			i++;
		if (i == count || *argument_at(out, names, i)) {
			PyErr_Format(PyExc_TypeError, i == count ? "%s has no argument '%U'" : "%s got '%U' twice",
				     call, name);
			return -1;
		}
		*argument_at(out, names, i) = args[nargs + k];
	}
	for (unsigned i = 0; i < needed; i++) {
		if (!*argument_at(out, names, i)) {
			PyErr_Format(PyExc_TypeError, "%s needs '%s'", call, names[i]);
			return -1;
		}
	}
	return 0;
}

int seconds_of(PyObject *timeout, double *out)
{
	*out = PyFloat_AsDouble(timeout);
	if (*out != -1.0 || !PyErr_Occurred())
		return 0;
	if (PyErr_ExceptionMatches(PyExc_OverflowError)) { /* an int too large for a float */
		PyErr_Clear();
		*out = PyObject_RichCompareBool(timeout, Py_False, Py_GT) > 0 ? HUGE_VAL : -HUGE_VAL;
		return 0;
	}
	if (PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyObject *type;
		PyErr_Clear();
		type = kvrail_type_name(timeout);
		if (type)
			PyErr_Format(PyExc_TypeError, "timeout must be a number of seconds, not %U", type);
		Py_XDECREF(type);
	}
	return -1;
}

int timeout_parse(PyObject *timeout, uint64_t *out_ns)
{
	double s;
	if (seconds_of(timeout, &s) < 0)
		return -1;
	if (!(s > 0)) {
		PyErr_SetString(PyExc_ValueError, "timeout is in seconds, above 0; None means the client's");
		return -1;
	}
	*out_ns = seconds_ns(s);
	return 0;
}

uint64_t seconds_ns(double s)
{
	return s >= 1e9 ? (uint64_t)1000000000 * 1000000000 : s > 0 && s < 1e-9 ? 1 : (uint64_t)(s * 1e9);
}

static int flag_parse(PyObject *object, unsigned flag, struct kvc_call *call)
{
	int yes = object ? PyObject_IsTrue(object) : 0;
	if (yes > 0)
		call->flags |= flag;
	return yes < 0 ? -1 : 0;
}

int ttl_parse(PyObject *ttl, uint32_t *out_s)
{
	const char *what = "ttl (seconds)", *range = "from 0, the server's default, to 2^32 - 1";
	uint64_t value;
	if (kvrail_uint_in(ttl, what, range, &value) < 0)
		return -1;
	if (value > UINT32_MAX) {
		PyErr_Format(PyExc_ValueError, "%s must be %s, not %S", what, range, ttl);
		return -1;
	}
	*out_s = (uint32_t)value;
	return 0;
}

static int call_parse(const struct arguments *a, struct kvc_call *call)
{
	if (a->timeout && a->timeout != Py_None && timeout_parse(a->timeout, &call->timeout_ns) < 0)
		return -1;
	if (a->ttl && ttl_parse(a->ttl, &call->ttl_s) < 0)
		return -1;
	if (flag_parse(a->background, KVC_BACKGROUND, call) < 0 || flag_parse(a->exact, KVC_EXACT, call) < 0)
		return -1;
	return flag_parse(a->memory_only, KVC_MEMORY_ONLY, call);
}

/* ---- keys ---- */

/* The key of prefix and name, in `slot`. */
static int key_place(const struct client_object *self, const char *name, size_t len, unsigned char *slot,
		     struct kvc_key *out)
{
	size_t all = self->prefix_len + len;
	unsigned char *whole;
	int rc;
	if (all <= KVC_KEY_MAX) {
		if (self->prefix_len)
			memcpy(slot, self->prefix, self->prefix_len);
		memcpy(slot + self->prefix_len, name, len);
		out->data = slot;
		out->len = all;
		return 0;
	}
	if (self->prefix_len == 0)
		return kvc_key_fold(name, len, slot, out);
	whole = malloc(all);
	if (!whole)
		return -KV_ENOMEM;
	memcpy(whole, self->prefix, self->prefix_len);
	memcpy(whole + self->prefix_len, name, len);
	rc = kvc_key_fold(whole, all, slot, out);
	free(whole);
	return rc;
}

/* The bytes of a key. what: names it in an exception. */
static int key_bytes(PyObject *key, const char *what, const char **name, Py_ssize_t *len)
{
	PyObject *type;
	if (PyUnicode_Check(key)) {
		*name = PyUnicode_AsUTF8AndSize(key, len);
		if (!*name)
			return -1;
	} else if (PyBytes_Check(key)) {
		if (PyBytes_AsStringAndSize(key, (char **)name, len) < 0)
			return -1;
	} else {
		type = kvrail_type_name(key);
		if (type)
			PyErr_Format(PyExc_TypeError, "%s must be str or bytes, not %U", what, type);
		Py_XDECREF(type);
		return -1;
	}
	if (*len > 0)
		return 0;
	PyErr_Format(PyExc_ValueError, "%s is empty: a key has at least one byte", what);
	return -1;
}

int key_parse(const struct client_object *self, PyObject *key, unsigned char slot[KVC_KEY_MAX], struct kvc_key *out)
{
	const char *name;
	Py_ssize_t len;
	if (key_bytes(key, "the key", &name, &len) < 0)
		return -1;
	if (key_place(self, name, (size_t)len, slot, out) == 0)
		return 0;
	PyErr_NoMemory();
	return -1;
}

static int keys_parse(struct client_object *self, PyObject *keys, struct batch *b)
{
	for (Py_ssize_t i = 0; i < b->n; i++) {
		struct kvc_item *item = &b->items[i];
		PyObject *key = PyTuple_GetItem(keys, i);
		const char *name;
		char what[32];
		Py_ssize_t len;
		/* The common case makes no text. */
		if (!PyUnicode_Check(key) || !(name = PyUnicode_AsUTF8AndSize(key, &len)) || len == 0) {
			if (PyErr_Occurred())
				return -1;
			snprintf(what, sizeof(what), "keys[%zd]", i);
			if (key_bytes(key, what, &name, &len) < 0)
				return -1;
		}
		*item = (struct kvc_item){0};
		if (key_place(self, name, (size_t)len, b->slots[i], &item->key) < 0) {
			PyErr_NoMemory();
			return -1;
		}
	}
	return 0;
}

/* ---- submit ---- */

static void batch_out(struct client_object *self, struct batch *b)
{
	b->prev = NULL;
	b->next = self->out;
	if (b->next)
		b->next->prev = b;
	self->out = b;
}

static PyObject *batch_submit(struct client_object *self, enum kvc_op op, struct batch *b, const struct kvc_call *call)
{
	int64_t (*const submits[])(struct kvc_queue *, struct kvc_item *, unsigned, const struct kvc_call *,
				   uint64_t) = {
		[KVC_OP_GET] = kvc_submit_get,
		[KVC_OP_PUT] = kvc_submit_put,
		[KVC_OP_EXISTS] = kvc_submit_exists,
		[KVC_OP_DELETE] = kvc_submit_delete,
	};
	PyObject *id;
	int64_t rc;
	b->op = op;
	rc = submits[op](self->queue, b->items, b->n, call, (uint64_t)(uintptr_t)b);
	if (rc > 0) {
		b->id = (uint64_t)rc;
		batch_out(self, b);
		id = PyLong_FromLongLong(rc);
		if (!id) { /* the caller will not know the id: cancel it */
			b->nameless = true;
			kvc_cancel(self->queue, b->id);
		}
		return id;
	}
	batch_give(self, b);
	if (rc == -KV_EBUSY)
		return kvrail_raise((int)rc,
				    "the queue is full: take completions (drain), and submit again; a client's "
				    "`depth` is how many ids may be out (%u here), half of them in the background",
				    self->depth);
	return kvrail_raise((int)rc, "%s", kvc_strerror((int)rc));
}

/* A GET without buffers borrows its values. */
static int memory_parse(enum kvc_op op, PyObject *buffers, PyObject *parts, struct batch *b)
{
	if (buffers)
		return places_parse(buffers, op == KVC_OP_GET, parts, b);
	return op == KVC_OP_GET ? views_make(b) : 0;
}

static struct batch *batch_parse(struct client_object *self, enum kvc_op op, PyObject *keys, PyObject *buffers,
				 PyObject *parts)
{
	Py_ssize_t n = PyTuple_Size(keys);
	struct batch *b;
	if (n > ITEMS_MAX) {
		PyErr_Format(PyExc_ValueError, "a batch has at most %d keys, not %zd", ITEMS_MAX, n);
		return NULL;
	}
	if (buffers && PyTuple_Size(buffers) != n) {
		PyErr_Format(PyExc_ValueError, "there are %zd keys and %zd buffers", n, PyTuple_Size(buffers));
		return NULL;
	}
	b = batch_take(self, (uint32_t)n);
	if (!b)
		return NULL;
	if (keys_parse(self, keys, b) == 0 && memory_parse(op, buffers, parts, b) == 0 && client_usable(self) == 0)
		return b;
	batch_give(self, b);
	return NULL;
}

static PyObject *submit(PyObject *object, enum kvc_op op, const char *name, const char *const *names, unsigned needed,
			PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	struct client_object *self = (struct client_object *)object;
	struct kvc_call call = {.size = sizeof(call)};
	struct arguments a = {0};
	PyObject *keys, *buffers = NULL, *parts = NULL;
	struct batch *b = NULL;
	bool whole;
	if (client_usable(self) < 0 || arguments_parse(name, names, needed, args, nargs, kwnames, &a) < 0 ||
	    call_parse(&a, &call) < 0)
		return NULL;
	keys = tuple_of(a.keys, "keys");
	if (keys && a.buffers)
		buffers = tuple_of(a.buffers, "buffers");
	whole = !a.parts || a.parts == Py_None;
	if (keys && buffers && !whole)
		parts = PySequence_Tuple(a.parts);
	if (keys && (buffers || !a.buffers) && (parts || whole))
		b = batch_parse(self, op, keys, buffers, parts);
	Py_XDECREF(keys);
	Py_XDECREF(buffers);
	Py_XDECREF(parts);
	if (!b)
		return NULL;
	b->memory_only = op == KVC_OP_EXISTS && call.flags & KVC_MEMORY_ONLY;
	if (op == KVC_OP_EXISTS)
		call.flags &= ~(unsigned)KVC_MEMORY_ONLY; /* it is a flag of a GET */
	return batch_submit(self, op, b, &call);
}

PyObject *client_submit_get(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	static const char *const names[] = {"keys", "buffers", "timeout", "exact", "parts", "memory_only", NULL};
	return submit(self, KVC_OP_GET, "submit_batch_get()", names, 2, args, nargs, kwnames);
}

PyObject *client_submit_view(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	static const char *const names[] = {"keys", "timeout", NULL};
	return submit(self, KVC_OP_GET, "submit_batch_view()", names, 1, args, nargs, kwnames);
}

PyObject *client_submit_set(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	static const char *const names[] = {"keys", "buffers", "timeout", "ttl", "background", NULL};
	return submit(self, KVC_OP_PUT, "submit_batch_set()", names, 2, args, nargs, kwnames);
}

PyObject *client_submit_exists(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	static const char *const names[] = {"keys", "timeout", "memory_only", NULL};
	return submit(self, KVC_OP_EXISTS, "submit_batch_exists()", names, 1, args, nargs, kwnames);
}

PyObject *client_submit_delete(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	static const char *const names[] = {"keys", "timeout", NULL};
	return submit(self, KVC_OP_DELETE, "submit_batch_delete()", names, 1, args, nargs, kwnames);
}
