/* SPDX-License-Identifier: Apache-2.0 */
/* _events.c -- followers of the servers' events. Python holds the number of a follower; the client object has its
 * handle.
 *
 * A call takes a place in `uses` with the GIL held, so that no other thread closes the follower under it. All followers
 * end with the pool. */
#include "_native.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS_AT_ONCE = 256 };

#define SLICE_S 0.1 /* a close or a signal waits no longer */

/* "cleared" and others as kv-client prints them. */
static const char *const types[] = {"", "stored", "removed", "cleared", "gap", "synced", "away"};
static const char *const tiers[] = {"memory", "disk"};

static int position_parse(PyObject *item, struct kvc_position *out)
{
	const char *node;
	unsigned long long epoch, sequence;
	if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "sKK:since", &node, &epoch, &sequence))
		return -1;
	*out = (struct kvc_position){node, epoch, sequence};
	return 0;
}

/* since: a tuple of (node, epoch, sequence), which lives during the call. */
static int since_parse(PyObject *since, struct kvc_events_options *o)
{
	struct kvc_position *all;
	Py_ssize_t n = PyTuple_Size(since);
	if (n < 0)
		return -1;
	all = calloc((size_t)n + 1, sizeof(*all));
	if (!all) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		if (position_parse(PyTuple_GetItem(since, i), &all[i]) < 0) {
			free(all);
			return -1;
		}
	o->since = all;
	o->num_since = (unsigned)n;
	return 0;
}

static struct follower *free_place(struct client_object *self)
{
	for (unsigned i = 0; i < FOLLOWERS_MAX; i++)
		if (!self->follower[i].events && self->follower[i].uses == 0)
			return &self->follower[i];
	return NULL;
}

PyObject *client_events_open(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	struct kvc_events_options o = {.size = sizeof(o)};
	struct kv_error err = {0};
	struct follower *f;
	PyObject *since;
	int fresh, rc = 0;
	if (!PyArg_ParseTuple(args, "pO!:events_open", &fresh, &PyTuple_Type, &since) || since_parse(since, &o) < 0)
		return NULL;
	o.flags = fresh ? KVC_EVENTS_NEW : 0;
	f = client_usable(self) < 0 ? NULL : free_place(self);
	if (f) {
		f->uses++;
		client_enter(self);
		Py_BEGIN_ALLOW_THREADS rc = kvc_events_open(self->pool, &o, &f->events, &err);
		Py_END_ALLOW_THREADS client_leave(self);
		f->uses--;
	} else if (!PyErr_Occurred()) {
		kvrail_raise(-KV_EBUSY, "the client has %d followers: close one", FOLLOWERS_MAX);
	}
	free((void *)o.since);
	if (!f)
		return NULL;
	return rc < 0 ? kvrail_raise(rc, "%s", err.text) : PyLong_FromLong(f - self->follower);
}

/* The follower with this number, for one call. NULL with an exception. */
static struct follower *follower_use(struct client_object *self, long number)
{
	struct follower *f = number >= 0 && number < FOLLOWERS_MAX ? &self->follower[number] : NULL;
	if (client_usable(self) < 0)
		return NULL;
	if (!f || !f->events) {
		kvrail_raise(-KV_ECLOSED, "the follower is closed");
		return NULL;
	}
	if (f->uses > 0) {
		kvrail_raise(-KV_EBUSY, "another thread is in a call on the follower");
		return NULL;
	}
	f->uses++;
	return f;
}

static PyObject *event_tuple(const struct kvc_event *e)
{
	return Py_BuildValue("(ssKKy#KssI)", types[e->type], e->node, (unsigned long long)e->epoch,
			     (unsigned long long)e->sequence, e->key.len ? (const char *)e->key.data : "",
			     (Py_ssize_t)e->key.len, (unsigned long long)e->bytes, tiers[e->tier], e->name_space,
			     (unsigned)e->server);
}

static PyObject *events_list(const struct kvc_event *e, int n)
{
	PyObject *list = PyList_New(0);
	for (int i = 0; list && i < n; i++) {
		PyObject *one = event_tuple(&e[i]);
		if (!one || PyList_Append(list, one) < 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	return list;
}

/* Wait in slices, for a signal or the close of the client. Returns the number of events, or -1 with an exception. */
static int events_wait(struct client_object *self, struct follower *f, double seconds, struct kvc_event *out)
{
	int n = 0;
	do {
		double slice = seconds < SLICE_S ? seconds : SLICE_S;
		seconds -= slice;
		Py_BEGIN_ALLOW_THREADS n =
			kvc_events_next(f->events, out, EVENTS_AT_ONCE, slice > 0 ? seconds_ns(slice) : 0);
		Py_END_ALLOW_THREADS if (n == 0 && PyErr_CheckSignals() < 0) return -1;
		if (n == 0 && self->closing)
			n = -KV_ECLOSED;
	} while (n == 0 && seconds > 0);
	if (n < 0)
		kvrail_raise(n, "%s", kvc_strerror(n));
	return n < 0 ? -1 : n;
}

PyObject *client_events_next(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	struct kvc_event events[EVENTS_AT_ONCE];
	struct follower *f;
	PyObject *list;
	double seconds;
	long number;
	int n;
	if (!PyArg_ParseTuple(args, "ld:events_next", &number, &seconds))
		return NULL;
	if (!(seconds >= 0)) {
		PyErr_SetString(PyExc_ValueError, "the seconds to wait for events must be 0 or more");
		return NULL;
	}
	f = follower_use(self, number);
	if (!f)
		return NULL;
	client_enter(self);
	n = events_wait(self, f, seconds, events);
	list = n < 0 ? NULL : events_list(events, n);
	client_leave(self);
	f->uses--;
	return list;
}

PyObject *client_events_close(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	struct follower *f;
	long number;
	int rc;
	if (!PyArg_ParseTuple(args, "l:events_close", &number))
		return NULL;
	if (!self->pool || self->closing || client_is_childs(self))
		Py_RETURN_NONE; /* it ended with the pool */
	f = follower_use(self, number);
	if (!f)
		return NULL;
	client_enter(self);
	Py_BEGIN_ALLOW_THREADS rc = kvc_events_close(&f->events);
	Py_END_ALLOW_THREADS client_leave(self);
	f->uses--;
	if (rc < 0 && rc != -KV_ECLOSED)
		return kvrail_raise(rc, "%s", kvc_strerror(rc));
	Py_RETURN_NONE;
}
