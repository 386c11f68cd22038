/* SPDX-License-Identifier: Apache-2.0 */
/* _place.c -- where values lie: an address, a buffer, a tensor, or a list of these.
 *
 * All become spans: contiguous, or slices at one distance. A buffer with strides (numpy, memoryview) and a tensor of
 * torch are read in the order of their indices: runs of bytes that adjoin are joined, the last dimension that is left
 * gives the slices, each index of the others a span. Who cut the buffer has checked its bounds. One span is the item's
 * own place; several become a layout, once all items are parsed: until then the item has the number of its first span
 * in `data`, and how many there are in `slice`.
 *
 * torch is not imported: an object with data_ptr() is a tensor. It is held as an export is. */
#include "_native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS_MAX = 64 };

static const struct kvc_layout unmade; /* item.layout, until the layouts are made */

/* Which place it is, for a sentence: "buffers[3]" or "buffers[3][1]". No text is made before there is an error. */
struct where {
	Py_ssize_t item, place; /* place -1: the item has one */
	const char *name;       /* instead; or NULL */
};

enum { WHERE_TEXT = 64 };

static const char *where_text(const struct where *w, char room[WHERE_TEXT])
{
	if (w->name)
		return w->name;
	if (w->place < 0)
		snprintf(room, WHERE_TEXT, "buffers[%zd]", w->item);
	else
		snprintf(room, WHERE_TEXT, "buffers[%zd][%zd]", w->item, w->place);
	return room;
}

#define WHERE(w) where_text((w), (char[WHERE_TEXT]){0})

/* ---- spans ---- */

static int span_add(struct batch *b, void *data, uint64_t len, uint64_t slice, uint64_t stride)
{
	uint32_t room = b->spans_room ? 2 * b->spans_room : 64;
	struct kvc_span *bigger;
	if (b->num_spans == b->spans_room) {
		bigger = realloc(b->spans, room * sizeof(*bigger));
		if (!bigger) {
			PyErr_NoMemory();
			return -1;
		}
		b->spans = bigger;
		b->spans_room = room;
	}
	b->spans[b->num_spans++] = (struct kvc_span){.data = data, .len = len, .slice = slice, .stride = stride};
	return 0;
}

static bool is_tensor(PyObject *object)
{
	return PyObject_HasAttrString(object, "data_ptr") && PyObject_HasAttrString(object, "element_size");
}

/* An int of numpy is a buffer, and also a number. */
static bool is_memory(PyObject *object)
{
	return !PyLong_Check(object) && ((PyObject_CheckBuffer(object) && !PyIndex_Check(object)) || is_tensor(object));
}

/* (address, length) or (address, length, slice, stride). */
static int address_parse(PyObject *tuple, const struct where *where, struct batch *b)
{
	uint64_t value[4] = {0};
	Py_ssize_t n = PyTuple_Size(tuple);
	if (n > 0 && is_memory(PyTuple_GetItem(tuple, 0))) {
		PyErr_Format(PyExc_TypeError, "%s is a tuple, so (address, length): several places are a list",
			     WHERE(where));
		return -1;
	}
	if (n != 2 && n != 4) {
		PyErr_Format(PyExc_TypeError,
			     "%s has %zd numbers: it is (address, length) or (address, length, slice, stride)",
			     WHERE(where), n);
		return -1;
	}
	for (Py_ssize_t k = 0; k < n; k++) {
		if (kvrail_uint(PyTuple_GetItem(tuple, k), "a number of (address, length, slice, stride)", &value[k]) <
		    0)
			return -1;
	}
	if (value[0] == 0 || value[1] == 0) {
		PyErr_Format(PyExc_ValueError, "%s: the %s is 0", WHERE(where), value[0] == 0 ? "address" : "length");
		return -1;
	}
	if (value[2] > value[3]) {
		PyErr_Format(PyExc_ValueError, "%s: slices of %llu bytes do not fit a stride of %llu", WHERE(where),
			     (unsigned long long)value[2], (unsigned long long)value[3]);
		return -1;
	}
	return span_add(b, (void *)(uintptr_t)value[0], value[1], value[2], value[3]);
}

/* ---- dimensions ---- */

/* Memory as an array: `run` bytes that adjoin, at each index of the dimensions. */
struct shape {
	char *at;
	uint64_t run;
	int dims;
	Py_ssize_t count[DIMS_MAX], stride[DIMS_MAX]; /* bytes */
};

/* The next dimension, from the outermost on. */
static int shape_add(struct shape *s, Py_ssize_t count, Py_ssize_t stride, const struct where *where)
{
	if (count == 1)
		return 0;
	if (s->dims == DIMS_MAX) {
		PyErr_Format(PyExc_ValueError, "%s has more than %d dimensions", WHERE(where), DIMS_MAX);
		return -1;
	}
	s->count[s->dims] = count;
	s->stride[s->dims++] = stride;
	return 0;
}

/* Join neighbours. Returns -1 with an exception if bytes are named twice, or backwards. */
static int shape_join(struct shape *s, const struct where *where)
{
	int dims = 0;
	while (s->dims > 0 && s->stride[s->dims - 1] == (Py_ssize_t)s->run)
		s->run *= (uint64_t)s->count[--s->dims];
	for (int d = 0; d < s->dims; d++) {
		if (s->stride[d] < 0 || (d == s->dims - 1 && s->stride[d] < (Py_ssize_t)s->run)) {
			PyErr_Format(PyExc_ValueError,
				     "%s is reversed or repeated memory (a stride of %zd bytes): copy it first",
				     WHERE(where), s->stride[d]);
			return -1;
		}
		if (dims > 0 && s->stride[dims - 1] == s->stride[d] * s->count[d]) {
			s->count[dims - 1] *= s->count[d];
			s->stride[dims - 1] = s->stride[d];
			continue;
		}
		s->count[dims] = s->count[d];
		s->stride[dims++] = s->stride[d];
	}
	s->dims = dims;
	return 0;
}

static int shape_spans(struct shape *s, const struct where *where, struct batch *b)
{
	Py_ssize_t index[DIMS_MAX] = {0}, outer = 1;
	int last = s->dims - 1, d;
	if (shape_join(s, where) < 0)
		return -1;
	last = s->dims - 1;
	if (s->dims == 0)
		return span_add(b, s->at, s->run, 0, 0);
	for (d = 0; d < last && outer <= KVC_SPANS_MAX; d++)
		outer *= s->count[d];
	if (outer > KVC_SPANS_MAX) {
		PyErr_Format(PyExc_ValueError,
			     "%s lies in more than %d places with slices at one distance: copy it first", WHERE(where),
			     (int)KVC_SPANS_MAX);
		return -1;
	}
	for (; outer > 0; outer--) {
		char *at = s->at;
		for (d = 0; d < last; d++)
			at += index[d] * s->stride[d];
		if (span_add(b, at, s->run * (uint64_t)s->count[last], s->run, (uint64_t)s->stride[last]) < 0)
			return -1;
		for (d = last - 1; d >= 0 && ++index[d] == s->count[d]; d--)
			index[d] = 0;
	}
	return 0;
}

/* ---- buffers ---- */

/* Room for one more export. It may move the others: what they point to is not used any more. */
static Py_buffer *view_room(struct batch *b)
{
	uint32_t room = 2 * b->views_room;
	Py_buffer *bigger;
	if (b->num_views < b->views_room)
		return &b->views[b->num_views];
	bigger = malloc(room * sizeof(*bigger));
	if (!bigger) {
		PyErr_NoMemory();
		return NULL;
	}
	memcpy(bigger, b->views, b->num_views * sizeof(*bigger));
	free(b->own_views);
	b->own_views = b->views = bigger;
	b->views_room = room;
	return &b->views[b->num_views];
}

/* The exporter refused: its words, after the place and ours. */
static int export_refused(PyObject *object, const struct where *where, bool writable)
{
	PyObject *type, *value, *trace, *name;
	/* An exporter written in Python may be interrupted. */
	if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
		return -1;
	PyErr_Fetch(&type, &value, &trace);
	name = kvrail_type_name(object);
	if (name)
		PyErr_Format(PyExc_ValueError, "%s (%U) is not%s memory: %S", WHERE(where), name,
			     writable ? " writable" : "", value ? value : Py_None);
	Py_XDECREF(name);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(trace);
	return -1;
}

/* Whether a format (PEP 3118) has Python objects in it. The names of fields stand between colons. */
static bool format_has_objects(const char *format)
{
	bool name = false, found = false;
	for (; format && *format; format++) {
		name ^= *format == ':';
		found |= !name && *format == 'O';
	}
	return found;
}

/* numpy has no format for some types, its dates among others: those are taken without. */
static int export_get(PyObject *object, Py_buffer *view, bool writable)
{
	int flags = (writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) | PyBUF_STRIDES;
	if (PyObject_GetBuffer(object, view, flags | PyBUF_FORMAT) == 0)
		return 0;
	if (!PyErr_ExceptionMatches(PyExc_ValueError))
		return -1;
	PyErr_Clear();
	return PyObject_GetBuffer(object, view, flags);
}

/* An exporter may leave out strides, or the shape, of contiguous memory. */
static int view_spans(const Py_buffer *view, const struct where *where, struct batch *b)
{
	struct shape s;
	if (view->ndim == 0 || !view->shape || !view->strides ||
	    (view->ndim == 1 && view->strides[0] == view->itemsize))
		return span_add(b, view->buf, (uint64_t)view->len, 0, 0);
	s.at = view->buf;
	s.run = (uint64_t)view->itemsize;
	s.dims = 0;
	for (int d = 0; d < view->ndim; d++)
		if (shape_add(&s, view->shape[d], view->strides[d], where) < 0)
			return -1;
	return shape_spans(&s, where, b);
}

static int export_parse(PyObject *object, const struct where *where, bool writable, struct batch *b)
{
	Py_buffer *view = view_room(b);
	if (!view)
		return -1;
	if (export_get(object, view, writable) < 0)
		return export_refused(object, where, writable);
	b->num_views++;
	if (format_has_objects(view->format)) {
		PyErr_Format(PyExc_TypeError, "%s has Python objects in it, whose addresses are no value",
			     WHERE(where));
		return -1;
	}
	if (view->len == 0) {
		PyErr_Format(PyExc_ValueError, "%s is empty: a value has at least one byte", WHERE(where));
		return -1;
	}
	return view_spans(view, where, b);
}

/* ---- tensors ---- */

static int int_of(PyObject *number, Py_ssize_t *out)
{
	*out = number ? PyLong_AsSsize_t(number) : -1;
	Py_XDECREF(number);
	return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

/* device.type, which is "cpu". */
static int tensor_is_here(PyObject *tensor, const struct where *where)
{
	PyObject *device = PyObject_GetAttrString(tensor, "device");
	PyObject *type = device ? PyObject_GetAttrString(device, "type") : NULL;
	int here = type && PyUnicode_Check(type) && PyUnicode_CompareWithASCIIString(type, "cpu") == 0;
	if (device && type && !here)
		PyErr_Format(PyExc_ValueError, "%s is a tensor on %S: copy it to the CPU", WHERE(where), device);
	Py_XDECREF(device);
	Py_XDECREF(type);
	return here ? 0 : -1;
}

static int tensor_dims(PyObject *tensor, const struct where *where, struct shape *s)
{
	PyObject *shape = PyObject_GetAttrString(tensor, "shape"), *strides = NULL;
	Py_ssize_t n = shape ? PySequence_Size(shape) : -1, count, stride;
	int rc = -1;
	if (n >= 0)
		strides = PyObject_CallMethod(tensor, "stride", NULL);
	if (strides && PySequence_Size(strides) == n)
		rc = 0;
	else if (strides && !PyErr_Occurred())
		PyErr_Format(PyExc_TypeError, "%s has %zd dimensions and another number of strides", WHERE(where), n);
	for (Py_ssize_t d = 0; rc == 0 && d < n; d++) {
		rc = int_of(PySequence_GetItem(shape, d), &count);
		if (rc == 0)
			rc = int_of(PySequence_GetItem(strides, d), &stride);
		if (rc == 0 && count == 0) {
			PyErr_Format(PyExc_ValueError, "%s is empty: a value has at least one byte", WHERE(where));
			rc = -1;
		}
		if (rc == 0)
			rc = shape_add(s, count, stride * (Py_ssize_t)s->run, where);
	}
	Py_XDECREF(shape);
	Py_XDECREF(strides);
	return rc;
}

/* Bits that torch would change on the way: the memory is not the value. */
static int tensor_is_plain(PyObject *tensor, const struct where *where)
{
	static const char *const lazy[] = {"is_conj", "is_neg"};
	for (unsigned i = 0; i < 2; i++) {
		PyObject *yes = PyObject_CallMethod(tensor, lazy[i], NULL);
		int is = yes ? PyObject_IsTrue(yes) : -1;
		Py_XDECREF(yes);
		if (is < 0 && PyErr_ExceptionMatches(PyExc_AttributeError)) {
			PyErr_Clear();
			continue;
		}
		if (is > 0)
			PyErr_Format(PyExc_ValueError, "%s is not resolved (%s()): copy it first", WHERE(where),
				     lazy[i]);
		if (is != 0)
			return -1;
	}
	return 0;
}

static int tensor_look(PyObject *tensor, const struct where *where, struct shape *s)
{
	PyObject *address;
	Py_ssize_t itemsize;
	if (tensor_is_here(tensor, where) < 0 || tensor_is_plain(tensor, where) < 0 ||
	    int_of(PyObject_CallMethod(tensor, "element_size", NULL), &itemsize) < 0)
		return -1;
	s->run = (uint64_t)itemsize;
	if (tensor_dims(tensor, where, s) < 0)
		return -1;
	address = PyObject_CallMethod(tensor, "data_ptr", NULL);
	if (!address)
		return -1;
	s->at = PyLong_AsVoidPtr(address);
	Py_DECREF(address);
	if (s->at)
		return 0;
	if (!PyErr_Occurred())
		PyErr_Format(PyExc_ValueError, "%s is a tensor without memory", WHERE(where));
	return -1;
}

/* A sparse tensor has no strides or no address: torch then raises RuntimeError. */
static int tensor_shape(PyObject *tensor, const struct where *where, struct shape *s)
{
	int rc = tensor_look(tensor, where, s);
	return rc < 0 && PyErr_ExceptionMatches(PyExc_RuntimeError) ? export_refused(tensor, where, false) : rc;
}

static int tensor_parse(PyObject *tensor, const struct where *where, struct batch *b)
{
	struct shape s = {.dims = 0};
	Py_buffer *view = view_room(b);
	if (!view || tensor_shape(tensor, where, &s) < 0 ||
	    PyBuffer_FillInfo(view, tensor, s.at, 1, 0, PyBUF_SIMPLE) < 0)
		return -1;
	b->num_views++;
	return shape_spans(&s, where, b);
}

int place_tensor(PyObject *object, const char *name, Py_buffer *view)
{
	const struct where named = {.name = name}, *where = &named;
	struct shape s = {.dims = 0};
	if (!is_tensor(object))
		return 1;
	if (tensor_shape(object, where, &s) < 0 || shape_join(&s, where) < 0)
		return -1;
	if (s.dims == 0)
		return PyBuffer_FillInfo(view, object, s.at, (Py_ssize_t)s.run, 0, PyBUF_SIMPLE);
	PyErr_Format(PyExc_ValueError, "%s is not contiguous: register the whole storage, of which it is a part",
		     WHERE(where));
	return -1;
}

/* ---- items ---- */

static int place_parse(PyObject *object, const struct where *where, bool writable, struct batch *b)
{
	PyObject *type;
	if (PyTuple_Check(object))
		return address_parse(object, where, b);
	if (PyObject_CheckBuffer(object))
		return export_parse(object, where, writable, b);
	if (is_tensor(object))
		return tensor_parse(object, where, b);
	type = kvrail_type_name(object);
	if (type)
		PyErr_Format(PyExc_TypeError, "%s must be an object with the buffer interface, a tensor%s, not %U%s",
			     WHERE(where),
			     where->place < 0 ? ", (address, length), or a list of these" : " or (address, length)",
			     type, PyUnicode_Check(object) ? ": encode the text" : "");
	Py_XDECREF(type);
	return -1;
}

/* Code of an exporter may change the list. */
static int list_parse(PyObject *list, Py_ssize_t i, bool writable, struct batch *b)
{
	PyObject *places = PyList_AsTuple(list);
	int rc = places ? 0 : -1;
	if (places && PyTuple_Size(places) == 0) {
		PyErr_Format(PyExc_ValueError, "buffers[%zd] is an empty list: a value has at least one byte", i);
		rc = -1;
	}
	for (Py_ssize_t k = 0; rc == 0 && k < PyTuple_Size(places); k++) {
		const struct where where = {i, k, NULL};
		rc = place_parse(PyTuple_GetItem(places, k), &where, writable, b);
	}
	Py_XDECREF(places);
	return rc;
}

static int item_parse(PyObject *object, Py_ssize_t i, bool writable, struct batch *b)
{
	struct kvc_item *item = &b->items[i];
	uint32_t first = b->num_spans, count;
	const struct where where = {i, -1, NULL};
	int rc = PyList_Check(object) ? list_parse(object, i, writable, b) : place_parse(object, &where, writable, b);
	if (rc < 0)
		return -1;
	count = b->num_spans - first;
	if (count > KVC_SPANS_MAX) {
		PyErr_Format(PyExc_ValueError, "buffers[%zd] lies in %u places: a value may lie in %d", i, count,
			     (int)KVC_SPANS_MAX);
		return -1;
	}
	for (uint32_t k = first; k < b->num_spans; k++)
		item->len += b->spans[k].len;
	item->data = (void *)(uintptr_t)first;
	item->slice = count;
	item->layout = &unmade;
	if (count > 1)
		return 0;
	*item = (struct kvc_item){.key = item->key,
				  .data = b->spans[first].data,
				  .len = item->len,
				  .slice = b->spans[first].slice,
				  .stride = b->spans[first].stride};
	b->num_spans = first;
	return 0;
}

/* ---- parts ---- */

static int ends_parse(PyObject *parts, struct batch *b)
{
	Py_ssize_t n = PyTuple_Size(parts);
	uint64_t before = 0;
	if (n == 0 || n > KVC_PARTS_OF_ITEM_MAX) {
		PyErr_Format(PyExc_ValueError, "parts are the ends of 1 to %d parts, not of %zd",
			     (int)KVC_PARTS_OF_ITEM_MAX, n);
		return -1;
	}
	b->part_ends = malloc((size_t)n * sizeof(*b->part_ends));
	b->arrivals = calloc(b->n ? b->n : 1, sizeof(*b->arrivals));
	if (!b->part_ends || !b->arrivals) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t k = 0; k < n; k++, before = b->part_ends[k - 1]) {
		if (kvrail_uint(PyTuple_GetItem(parts, k), "the end of a part", &b->part_ends[k]) < 0)
			return -1;
		if (b->part_ends[k] <= before) {
			PyErr_Format(PyExc_ValueError, "parts[%zd] ends at byte %llu, not behind the one before it", k,
				     (unsigned long long)b->part_ends[k]);
			return -1;
		}
	}
	b->num_parts = (uint32_t)n;
	for (uint32_t i = 0; i < b->n; i++)
		if (b->items[i].len != before) {
			PyErr_Format(PyExc_ValueError, "buffers[%u] has %llu bytes, and its last part ends at %llu", i,
				     (unsigned long long)b->items[i].len, (unsigned long long)before);
			return -1;
		}
	return 0;
}

/* The spans stay where they are now. */
static int layouts_make(struct batch *b)
{
	b->layouts = calloc(b->n, sizeof(*b->layouts));
	if (!b->layouts) {
		PyErr_NoMemory();
		return -1;
	}
	for (uint32_t i = 0; i < b->n; i++) {
		struct kvc_item *item = &b->items[i];
		struct kvc_layout *l = &b->layouts[i];
		if (!item->layout && !b->num_parts)
			continue;
		*l = (struct kvc_layout){.size = sizeof(*l)};
		if (item->layout) {
			l->spans = b->spans + (uintptr_t)item->data;
			l->num_spans = (uint32_t)item->slice;
			item->data = NULL;
			item->slice = 0;
		}
		if (b->num_parts) {
			l->num_parts = b->num_parts;
			l->part_ends = b->part_ends;
			l->arrival = &b->arrivals[i];
		}
		item->layout = l;
	}
	return 0;
}

int places_parse(PyObject *buffers, bool writable, PyObject *parts, struct batch *b)
{
	for (Py_ssize_t i = 0; i < b->n; i++)
		if (item_parse(PyTuple_GetItem(buffers, i), i, writable, b) < 0)
			return -1;
	if (parts && ends_parse(parts, b) < 0)
		return -1;
	return b->n && (b->num_spans || parts) ? layouts_make(b) : 0;
}
