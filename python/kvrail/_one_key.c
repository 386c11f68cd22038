/* SPDX-License-Identifier: Apache-2.0 */
/* _one_key.c -- calls about one key that are not in the queue: touch, ttl, pin, unpin, and the length of a value.
 *
 * They block without the GIL, by their deadline and the grace, and return the library's code; Python raises the error.
 * Pins belong to a session: the pool's first client makes all of them, so that any thread can unpin. */
#include "_native.h"

#include <string.h>

struct one {
	struct kvc_key key;
	struct kvc_call call;
	int64_t result;
};

/* (key, timeout) or (key, timeout, ttl). */
static int one_parse(struct client_object *self, PyObject *args, bool with_ttl, unsigned char *slot, struct one *out)
{
	PyObject *key, *timeout = Py_None, *ttl = NULL;
	*out = (struct one){.call.size = sizeof(out->call)};
	if (!PyArg_ParseTuple(args, with_ttl ? "OOO" : "OO", &key, &timeout, &ttl) ||
	    (timeout != Py_None && timeout_parse(timeout, &out->call.timeout_ns) < 0) ||
	    (ttl && ttl_parse(ttl, &out->call.ttl_s) < 0) || key_parse(self, key, slot, &out->key) < 0)
		return -1;
	return client_usable(self); /* last: the arguments may run Python code, which may close the client */
}

PyObject *client_touch(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	unsigned char slot[KVC_KEY_MAX];
	struct one one;
	if (one_parse(self, args, true, slot, &one) < 0)
		return NULL;
	client_enter(self);
	Py_BEGIN_ALLOW_THREADS one.result = kvc_touch(self->pool, one.key, &one.call);
	Py_END_ALLOW_THREADS client_leave(self);
	return PyLong_FromLongLong(one.result);
}

PyObject *client_ttl(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	unsigned char slot[KVC_KEY_MAX];
	struct one one;
	uint64_t left_ms = 0;
	if (one_parse(self, args, false, slot, &one) < 0)
		return NULL;
	client_enter(self);
	Py_BEGIN_ALLOW_THREADS one.result = kvc_ttl(self->pool, one.key, &left_ms, &one.call);
	Py_END_ALLOW_THREADS client_leave(self);
	return one.result < 0 ? PyLong_FromLongLong(one.result) : PyLong_FromUnsignedLongLong(left_ms);
}

/* ---- on the first client of the pool ---- */

static void pin_await(struct kvc_client *client, unsigned w, void *arg)
{
	struct one *one = arg;
	(void)w;
	one->result = kvc_pin_await(client, one->key, &one->call);
}

static void unpin_await(struct kvc_client *client, unsigned w, void *arg)
{
	struct one *one = arg;
	(void)w;
	one->result = kvc_unpin_await(client, one->key, &one->call);
}

/* Room for one byte: a longer value is refused with its length, moves nothing and counts as no hit. */
static void length_await(struct kvc_client *client, unsigned w, void *arg)
{
	struct one *one = arg;
	uint64_t value_len = 0;
	char byte;
	(void)w;
	one->call.out_value_len = &value_len;
	one->result = kvc_get_await(client, one->key, &byte, 1, &one->call);
	if (one->result == -KV_ETOOBIG)
		one->result = (int64_t)value_len;
}

static PyObject *run(PyObject *object, PyObject *args, void (*fn)(struct kvc_client *, unsigned, void *))
{
	struct client_object *self = (struct client_object *)object;
	unsigned char slot[KVC_KEY_MAX];
	struct one one;
	int rc;
	if (one_parse(self, args, false, slot, &one) < 0)
		return NULL;
	client_enter(self);
	Py_BEGIN_ALLOW_THREADS rc = kvc_run(self->pool, 1, fn, &one);
	Py_END_ALLOW_THREADS client_leave(self);
	return PyLong_FromLongLong(rc < 0 ? rc : one.result);
}

PyObject *client_pin(PyObject *object, PyObject *args)
{
	return run(object, args, pin_await);
}

PyObject *client_unpin(PyObject *object, PyObject *args)
{
	return run(object, args, unpin_await);
}

PyObject *client_value_length(PyObject *object, PyObject *args)
{
	return run(object, args, length_await);
}
