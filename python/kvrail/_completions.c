/* SPDX-License-Identifier: Apache-2.0 */
/* _completions.c -- completions: finished batches become tuples.
 *
 * First all finished batches are reaped: they move from client.out to client.done, without any Python code. Then a
 * drain takes the chain of done, releases the exports, and makes the list. If there is no memory for it, the chain
 * returns to done for the next drain: no completion is lost. */
#include "_native.h"

#include <stdio.h>

enum { REAP_MAX = 64 };

static void out_remove(struct client_object *self, struct batch *b)
{
	if (b->prev)
		b->prev->next = b->next;
	else
		self->out = b->next;
	if (b->next)
		b->next->prev = b->prev;
	b->prev = b->next = NULL;
}

static void found_in_memory(struct batch *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (b->items[i].result == KVC_FOUND_TIER)
			b->items[i].result = KVC_FOUND_NOT;
}

/* Returns 0 or a code. */
static int reap_all(struct client_object *self)
{
	struct kvc_completion over[REAP_MAX];
	int n;
	do {
		n = kvc_reap(self->queue, over, REAP_MAX);
		for (int i = 0; i < n; i++) {
			struct batch *b = (struct batch *)(uintptr_t)over[i].tag;
			out_remove(self, b);
			b->code = over[i].result;
			if (b->memory_only)
				found_in_memory(b);
			*self->done_tail = b;
			self->done_tail = &b->next;
		}
	} while (n == REAP_MAX);
	return n < 0 ? n : 0;
}

/* The meaning of an item's result for a cache: done or loaded, missing, or failed. */
enum verdict { FAILED = -1, MISSING, THERE };

static enum verdict verdict_of(enum kvc_op op, const struct kvc_item *item)
{
	int64_t r = item->result;
	switch (op) {
	case KVC_OP_GET:
		if (r == -KV_ENOTFOUND || r == -KV_ETOOBIG || r == -KV_ETIER)
			return MISSING;
		return r < 0 ? FAILED : (uint64_t)r == item->len || item->len == 0 ? THERE : MISSING;
	case KVC_OP_PUT:
		return r == 0 || r == -KV_EEXIST ? THERE : FAILED;
	case KVC_OP_EXISTS:
		return r < 0 ? FAILED : r > 0 ? THERE : MISSING;
	default: /* a missing key counts as deleted */
		return r == 0 || r == -KV_ENOTFOUND ? THERE : FAILED;
	}
}

/* "KV_EPEERDOWN: the peer is ... (3 of 64 keys)" */
static PyObject *failure_text(const struct batch *b, uint32_t failed, int64_t first)
{
	char name[64], text[512];
	snprintf(name, sizeof(name), "%s", kvc_errname((int)first));
	snprintf(text, sizeof(text), "%s: %s (%u of %u keys)", name, kvc_strerror((int)first), failed, b->n);
	return PyUnicode_FromString(text);
}

/* (id, ok, text, per key), as the native_plugin contract of LMCache has it. */
static PyObject *completion_tuple(const struct batch *b)
{
	uint32_t there = 0, failed = 0;
	int64_t first = 0;
	PyObject *text, *keys;
	for (uint32_t i = 0; i < b->n; i++) {
		enum verdict v = verdict_of(b->op, &b->items[i]);
		there += v == THERE;
		failed += v == FAILED;
		if (v == FAILED && !first)
			first = b->items[i].result;
	}
	text = failed ? failure_text(b, failed, first) : PyUnicode_FromString("");
	if (!text)
		return NULL;
	if (there == b->n && (b->op == KVC_OP_GET || b->op == KVC_OP_PUT)) {
		keys = Py_NewRef(Py_None);
	} else {
		keys = PyList_New(b->n);
		for (uint32_t i = 0; keys && i < b->n; i++)
			PyList_SetItem(keys, i, PyBool_FromLong(verdict_of(b->op, &b->items[i]) == THERE));
	}
	if (!keys) {
		Py_DECREF(text);
		return NULL;
	}
	return Py_BuildValue("KNNN", (unsigned long long)b->id, PyBool_FromLong(failed == 0), text, keys);
}

/* (id, code, results) */
static PyObject *result_tuple(const struct batch *b)
{
	PyObject *results = PyList_New(b->n);
	if (!results)
		return NULL;
	for (uint32_t i = 0; i < b->n; i++) {
		PyObject *result = b->lent ? views_result(b, i) : PyLong_FromLongLong(b->items[i].result);
		if (!result) {
			Py_DECREF(results);
			return NULL;
		}
		PyList_SetItem(results, i, result);
	}
	return Py_BuildValue("KLN", (unsigned long long)b->id, (long long)b->code, results);
}

static PyObject *list_of(struct batch *chain, PyObject *(*tuple_of)(const struct batch *b))
{
	PyObject *list = PyList_New(0);
	for (struct batch *b = chain; list && b; b = b->next) {
		PyObject *tuple;
		if (b->nameless)
			continue;
		tuple = tuple_of(b);
		if (!tuple || PyList_Append(list, tuple) < 0)
			Py_CLEAR(list);
		Py_XDECREF(tuple);
	}
	return list;
}

static PyObject *drain(struct client_object *self, PyObject *(*tuple_of)(const struct batch *b))
{
	struct batch *chain, **end;
	PyObject *list = NULL;
	int rc;
	if (!self->queue)
		return kvrail_raise(-KV_ECLOSED, "the client was never opened: its __init__ was not called, or failed");
	if (client_is_childs(self))
		return kvrail_raise(-KV_ECLOSED,
				    "the client belongs to the process that forked this one: open another here");
	rc = reap_all(self);
	if (rc < 0)
		return kvrail_raise(rc, "%s", kvc_strerror(rc));
	chain = self->done;
	self->done = NULL;
	self->done_tail = &self->done;
	for (struct batch *b = chain; b; b = b->next)
		batch_views_release(b);
	for (struct batch *b = chain; b && rc == 0; b = b->next)
		rc = views_settle(self, b);
	if (rc == 0)
		list = list_of(chain, tuple_of);
	if (!list) {
		for (end = &chain; *end; end = &(*end)->next)
			;
		*end = self->done;
		if (!self->done)
			self->done_tail = end;
		self->done = chain;
		return NULL;
	}
	while (chain) {
		struct batch *b = chain;
		chain = b->next;
		batch_give(self, b);
	}
	return list;
}

PyObject *client_drain_completions(PyObject *self, PyObject *unused)
{
	(void)unused;
	return drain((struct client_object *)self, completion_tuple);
}

PyObject *client_drain_results(PyObject *self, PyObject *unused)
{
	(void)unused;
	return drain((struct client_object *)self, result_tuple);
}

/* ---- parts ---- */

static struct batch *batch_of(struct batch *first, uint64_t id)
{
	while (first && first->id != id)
		first = first->next;
	return first;
}

PyObject *client_arrived(PyObject *object, PyObject *number)
{
	struct client_object *self = (struct client_object *)object;
	struct batch *b;
	PyObject *counts;
	uint64_t id;
	if (kvrail_uint(number, "the id", &id) < 0)
		return NULL;
	if (client_is_childs(self))
		Py_RETURN_NONE;
	b = batch_of(self->out, id);
	if (!b)
		b = batch_of(self->done, id);
	if (!b || !b->arrivals)
		Py_RETURN_NONE;
	counts = PyList_New(b->n);
	for (uint32_t i = 0; counts && i < b->n; i++) {
		PyObject *count = PyLong_FromUnsignedLong(kvc_arrival_parts(&b->arrivals[i]));
		if (!count) {
			Py_DECREF(counts);
			return NULL;
		}
		PyList_SetItem(counts, i, count);
	}
	return counts;
}
