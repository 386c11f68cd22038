/* SPDX-License-Identifier: Apache-2.0 */
/* _client.c -- the client's object: a pool and one queue, opened and closed together.
 *
 * Close, in this order: no call begins; blocking calls return; the pool is closed, which ends every id, and nothing
 * uses callers' memory; all exports are released. The queue lives as long as the object: ids can be drained after
 * close, and a thread may still poll the descriptor. A second close waits for the first one, except the finalizer of a
 * buffer, which the close itself runs.
 *
 * The end of an open object closes it, with a ResourceWarning. In a child of fork() the library ends all calls with
 * -KV_ECLOSED and leaves the parent's memory alone; only the child's own copies of exports are released there. */
#include "_native.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the library takes; the tests compare. */
enum { CLIENTS_MOST = 4096, THREADS_MOST = 256, RAILS_MOST = 32, DEPTH_MOST = 65536 };

static struct client_object *live;

bool client_is_childs(const struct client_object *self)
{
	return self->pid != getpid();
}

int client_usable(const struct client_object *self)
{
	const char *why = !self->queue ? "the client was never opened: its __init__ was not called, or failed"
				       : "the client is closed";
	if (self->pool && !self->closing)
		return 0; /* that of a parent is refused by the library */
	kvrail_raise(-KV_ECLOSED, "%s", why);
	return -1;
}

void client_enter(struct client_object *self)
{
	pthread_mutex_lock(&self->lock);
	self->calls_out++;
	pthread_mutex_unlock(&self->lock);
}

void client_leave(struct client_object *self)
{
	pthread_mutex_lock(&self->lock);
	self->calls_out--;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->lock);
}

/* ---- open ---- */

/* The keywords of a call. Paths and names are kept as bytes objects until the pool is open. */
struct opening {
	struct kvc_options options;
	struct kvc_queue_options queue;
	PyObject *held; /* a list: keeps strings alive */
	const char **servers;
	PyObject *prefix;
};

static int hold(struct opening *o, PyObject *bytes, const char **out)
{
	int rc;
	if (!bytes)
		return -1;
	*out = PyBytes_AsString(bytes);
	rc = *out ? PyList_Append(o->held, bytes) : -1;
	Py_DECREF(bytes);
	if (rc == 0 && strlen(*out) != (size_t)PyBytes_Size(bytes)) {
		PyErr_SetString(PyExc_ValueError, "a text with a zero byte");
		rc = -1;
	}
	return rc;
}

/* None, str, or for files anything with a path. */
static int take_text(struct opening *o, PyObject *object, const char *what, bool file, const char **out)
{
	PyObject *bytes = NULL;
	if (!object || object == Py_None)
		return 0;
	if (file) {
		if (!PyUnicode_FSConverter(object, &bytes))
			return -1;
	} else if (PyUnicode_Check(object)) {
		bytes = PyUnicode_AsUTF8String(object);
	} else {
		PyObject *type = kvrail_type_name(object);
		if (type)
			PyErr_Format(PyExc_TypeError, "%s must be a str, not %U", what, type);
		Py_XDECREF(type);
	}
	return hold(o, bytes, out);
}

static int take_server(struct opening *o, PyObject *entry, Py_ssize_t i)
{
	PyObject *bare = NULL;
	int rc = -1;
	if (!PyUnicode_Check(entry)) {
		PyErr_Format(PyExc_TypeError, "servers[%zd] must be a str, 'HOST:PORT' or 'NAME=HOST:PORT', not %R", i,
			     entry);
		return -1;
	}
	bare = PyObject_CallMethod(entry, "strip", NULL);
	if (bare && PyUnicode_GetLength(bare) == 0)
		PyErr_Format(PyExc_ValueError, "servers[%zd] is empty: it is 'HOST:PORT' or 'NAME=HOST:PORT'", i);
	else if (bare)
		rc = take_text(o, bare, "a server", false, &o->servers[i]);
	Py_XDECREF(bare);
	return rc;
}

static int take_servers(struct opening *o, PyObject *servers)
{
	PyObject *comma = PyUnicode_FromString(","), *list = NULL;
	Py_ssize_t n = 0;
	int rc = -1;
	if (comma && PyUnicode_Check(servers))
		list = PyUnicode_Split(servers, comma, -1);
	else if (comma && PySequence_Check(servers) && !PyBytes_Check(servers))
		list = PySequence_List(servers);
	else if (comma)
		PyErr_Format(PyExc_TypeError, "servers is 'HOST:PORT,HOST:PORT' or a list of them, not %R", servers);
	Py_XDECREF(comma);
	if (!list)
		return -1;
	n = PyList_Size(list);
	if (n == 0) {
		PyErr_SetString(PyExc_ValueError, "servers is empty: at least one 'HOST:PORT'");
		goto out;
	}
	o->servers = calloc((size_t)n, sizeof(*o->servers));
	if (!o->servers) {
		PyErr_NoMemory();
		goto out;
	}
	rc = 0;
	for (Py_ssize_t i = 0; i < n && rc == 0; i++)
		rc = take_server(o, PyList_GetItem(list, i), i);
	o->options.servers = o->servers;
	o->options.num_servers = (unsigned)n;
out:
	Py_DECREF(list);
	return rc;
}

static int take_prefix(struct opening *o, PyObject *prefix)
{
	if (!prefix || prefix == Py_None)
		return 0;
	if (PyUnicode_Check(prefix)) {
		o->prefix = PyUnicode_AsUTF8String(prefix);
	} else if (PyBytes_Check(prefix)) {
		o->prefix = Py_NewRef(prefix);
	} else {
		PyErr_SetString(PyExc_TypeError, "prefix must be str or bytes");
	}
	return o->prefix ? 0 : -1;
}

/* most: the largest number that the library's type can hold; the library checks its own limit. */
static int take_count(PyObject *object, const char *what, unsigned most, unsigned *out)
{
	uint64_t value;
	char range[32];
	if (!object)
		return 0;
	snprintf(range, sizeof(range), "from 0 to %u", most);
	if (kvrail_uint_in(object, what, range, &value) < 0)
		return -1;
	if (value > UINT_MAX) {
		kvrail_raise(-KV_EINVAL, "%s must be %s, not %llu", what, range, (unsigned long long)value);
		return -1;
	}
	*out = (unsigned)value;
	return 0;
}

static int take_copies(PyObject *object, unsigned *flags)
{
	const char *range = "1, 2 or 'hot'";
	bool text = object && PyUnicode_Check(object), number = !object || PyIndex_Check(object);
	bool hot = text && PyUnicode_CompareWithASCIIString(object, "hot") == 0;
	uint64_t copies = 1;
	if (object && number && kvrail_uint_in(object, "copies", range, &copies) < 0)
		return -1;
	if (!hot && !(number && copies >= 1 && copies <= 2)) {
		PyErr_Format(number || text ? PyExc_ValueError : PyExc_TypeError, "copies must be %s, not %R", range,
			     object);
		return -1;
	}
	*flags |= hot ? KVC_HOT_COPIES : copies == 2 ? KVC_TWO_COPIES : 0u;
	return 0;
}

static int take_local(PyObject *object, enum kvc_local *out)
{
	bool text = object && PyUnicode_Check(object);
	if (!object || (text && PyUnicode_CompareWithASCIIString(object, "auto") == 0))
		return 0;
	if (text && PyUnicode_CompareWithASCIIString(object, "off") == 0) {
		*out = KVC_LOCAL_OFF;
		return 0;
	}
	PyErr_Format(text ? PyExc_ValueError : PyExc_TypeError, "local must be 'auto' or 'off', not %R", object);
	return -1;
}

/* None and 0: the library's default. */
static int take_timeout(PyObject *object, uint64_t *out_ns)
{
	double s = 0;
	if (!object || object == Py_None)
		return 0;
	if (seconds_of(object, &s) < 0)
		return -1;
	if (!(s >= 0)) {
		PyErr_SetString(PyExc_ValueError, "timeout is in seconds, above 0; 0 means the library's default");
		return -1;
	}
	*out_ns = seconds_ns(s);
	return 0;
}

static int take_level(PyObject *object, int *out)
{
	const char *range = "from 0, none, to 4, debug";
	uint64_t level = 2;
	if (object && kvrail_uint_in(object, "log_level", range, &level) < 0)
		return -1;
	if (level > 4) {
		PyErr_Format(PyExc_ValueError, "log_level must be %s, not %S", range, object);
		return -1;
	}
	*out = (int)level;
	return 0;
}

static int opening_parse(struct opening *o, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"servers",     "num_clients",   "num_threads",  "provider", "nic",
				"num_rails",   "buffer_bytes",  "timeout",      "depth",    "psk",
				"psk_file",    "cert_file",     "key_file",     "ca_file",  "crl_file",
				"server_name", "prefix",        "down_is_miss", "verify",   "wait",
				"log_level",   "copies",        "cluster",      "local",    "local_socket",
				"namespace",   "seal_key_file", "seal_names",   NULL};
	PyObject *servers, *clients = NULL, *threads = NULL, *rails = NULL, *depth = NULL, *provider = NULL,
			   *nic = NULL, *psk = NULL, *psk_file = NULL, *cert = NULL, *key = NULL, *ca = NULL,
			   *crl = NULL, *server_name = NULL, *prefix = NULL, *buffer = NULL, *copies = NULL,
			   *timeout = NULL, *level = NULL, *cluster = NULL, *local = NULL, *local_socket = NULL,
			   *space = NULL, *seal = NULL;
	int down_is_miss = 0, verify = 1, wait = 0, seal_names = 0;
	struct kvc_options *p = &o->options;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOOOOOOOOOOOOOOpppOOOOOOOp:Client", names, &servers,
					 &clients, &threads, &provider, &nic, &rails, &buffer, &timeout, &depth, &psk,
					 &psk_file, &cert, &key, &ca, &crl, &server_name, &prefix, &down_is_miss,
					 &verify, &wait, &level, &copies, &cluster, &local, &local_socket, &space,
					 &seal, &seal_names))
		return -1;
	p->size = sizeof(*p);
	o->queue.size = sizeof(o->queue);
	o->queue.flags = KVC_QUEUE_PARTS;
	p->flags = (down_is_miss ? KVC_DOWN_IS_MISS : 0u) | (verify ? 0u : KVC_NO_VERIFY) |
		   (wait ? KVC_OPEN_WAIT : 0u) | (seal_names ? KVC_SEAL_NAMES : 0u);
	if (take_timeout(timeout, &p->timeout_ns) < 0 || take_level(level, &p->log_level) < 0 ||
	    (buffer && kvrail_uint(buffer, "buffer_bytes", &p->buffer_bytes) < 0) ||
	    take_count(clients, "num_clients", CLIENTS_MOST, &p->num_clients) < 0 ||
	    take_count(threads, "num_threads", THREADS_MOST, &p->num_threads) < 0 ||
	    take_count(rails, "num_rails", RAILS_MOST, &p->num_rails) < 0 ||
	    take_count(depth, "depth", DEPTH_MOST, &o->queue.depth) < 0 || take_copies(copies, &p->flags) < 0 ||
	    take_local(local, &p->local) < 0)
		return -1;
	return take_servers(o, servers) < 0 || take_text(o, provider, "provider", false, &p->provider) < 0 ||
			       take_text(o, nic, "nic", false, &p->nic) < 0 ||
			       take_text(o, psk, "psk", false, &p->psk) < 0 ||
			       take_text(o, psk_file, "psk_file", true, &p->psk_file) < 0 ||
			       take_text(o, cert, "cert_file", true, &p->cert_file) < 0 ||
			       take_text(o, key, "key_file", true, &p->key_file) < 0 ||
			       take_text(o, ca, "ca_file", true, &p->ca_file) < 0 ||
			       take_text(o, crl, "crl_file", true, &p->crl_file) < 0 ||
			       take_text(o, server_name, "server_name", false, &p->server_name) < 0 ||
			       take_text(o, cluster, "cluster", false, &p->cluster) < 0 ||
			       take_text(o, local_socket, "local_socket", true, &p->local_socket) < 0 ||
			       take_text(o, space, "namespace", false, &p->namespace_name) < 0 ||
			       take_text(o, seal, "seal_key_file", true, &p->seal_key_file) < 0 ||
			       take_prefix(o, prefix) < 0
		       ? -1
		       : 0;
}

static int prefix_copy(struct client_object *self, PyObject *prefix)
{
	Py_ssize_t len = prefix ? PyBytes_Size(prefix) : 0;
	free(self->prefix);
	self->prefix = NULL;
	self->prefix_len = 0;
	if (len == 0)
		return 0;
	self->prefix = malloc((size_t)len);
	if (!self->prefix) {
		PyErr_NoMemory();
		return -1;
	}
	memcpy(self->prefix, PyBytes_AsString(prefix), (size_t)len);
	self->prefix_len = (size_t)len;
	return 0;
}

static void live_link(struct client_object *self)
{
	self->live_next = live;
	self->live_link = &live;
	if (live)
		live->live_link = &self->live_next;
	live = self;
}

static void live_unlink(struct client_object *self)
{
	if (!self->live_link)
		return;
	*self->live_link = self->live_next;
	if (self->live_next)
		self->live_next->live_link = self->live_link;
	self->live_link = NULL;
}

/* kvc_pool_open asks ten times a second whether to go on: not if a signal's handler has raised, as that of Ctrl-C. The
 * exception stays with the thread. */
static bool still_wanted(void *arg, unsigned clients_open, unsigned clients_up)
{
	PyThreadState **thread = arg;
	bool wanted;
	(void)clients_open, (void)clients_up;
	PyEval_RestoreThread(*thread);
	wanted = PyErr_CheckSignals() == 0;
	*thread = PyEval_SaveThread();
	return wanted;
}

static int pool_open(struct client_object *self, struct opening *o)
{
	struct kvc_pool *pool = NULL;
	struct kvc_queue *queue = NULL;
	struct kv_error err = {.code = 0};
	PyThreadState *thread = PyEval_SaveThread();
	bool interrupted;
	int rc;
	o->options.opening = still_wanted;
	o->options.opening_arg = &thread;
	rc = kvc_pool_open(&o->options, &pool, &err);
	if (rc == 0)
		rc = kvc_queue_open(pool, &o->queue, &queue, &err);
	PyEval_RestoreThread(thread);
	interrupted = PyErr_Occurred();
	if (rc < 0 || interrupted) {
		Py_BEGIN_ALLOW_THREADS kvc_pool_close(&pool);
		Py_END_ALLOW_THREADS kvc_queue_close(&queue);
		if (!interrupted)
			kvrail_raise(rc, "%s", err.code ? err.text : kvc_strerror(rc));
		return -1;
	}
	self->pool = pool;
	self->queue = queue;
	self->pid = getpid();
	self->depth = o->queue.depth ? o->queue.depth : 1024;
	live_link(self);
	return 0;
}

static int client_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct client_object *self = (struct client_object *)object;
	struct opening o = {.held = NULL};
	int rc = -1;
	if (self->opening || self->queue) {
		PyErr_SetString(PyExc_RuntimeError, "this client was opened before: make another one");
		return -1;
	}
	self->opening = true;
	o.held = PyList_New(0);
	if (o.held && opening_parse(&o, args, kwargs) == 0 && prefix_copy(self, o.prefix) == 0)
		rc = pool_open(self, &o);
	self->opening = false;
	free(o.servers);
	Py_XDECREF(o.prefix);
	Py_XDECREF(o.held);
	return rc;
}

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct client_object *self = (struct client_object *)PyType_GenericAlloc(type, 0);
	(void)args, (void)kwargs;
	if (!self)
		return NULL;
	self->done_tail = &self->done;
	self->pid = getpid();
	pthread_mutex_init(&self->lock, NULL);
	pthread_cond_init(&self->changed, NULL);
	return (PyObject *)self;
}

/* ---- close ---- */

/* Release the exports of undrained batches; the batches stay. Releasing may run Python code, which may drain. */
static void exports_release(struct client_object *self)
{
	struct batch *b;
	for (;;) {
		for (b = self->out; b && b->num_views == 0; b = b->next)
			;
		if (!b)
			break;
		b->held = true;
		batch_views_release(b);
		b->held = false;
		if (b->over)
			batch_free(b);
	}
	while (self->regions)
		region_ended(self->regions);
}

static void pool_close(struct client_object *self)
{
	Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&self->lock);
	while (self->calls_out > 0)
		pthread_cond_wait(&self->changed, &self->lock);
	pthread_mutex_unlock(&self->lock);
	kvc_pool_close(&self->pool);
	Py_END_ALLOW_THREADS
}

void client_close_wait(struct client_object *self)
{
	if (client_is_childs(self) || pthread_equal(self->closer, pthread_self()))
		return;
	Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&self->lock);
	while (!self->closed)
		pthread_cond_wait(&self->changed, &self->lock);
	pthread_mutex_unlock(&self->lock);
	Py_END_ALLOW_THREADS
}

static void close_now(struct client_object *self)
{
	if (!self->queue || client_is_childs(self)) {
		self->closing = true;
	} else if (self->closing) {
		client_close_wait(self);
	} else {
		self->closer = pthread_self();
		self->closing = true;
		pool_close(self);
		exports_release(self);
		pthread_mutex_lock(&self->lock);
		self->closed = true;
		pthread_cond_broadcast(&self->changed);
		pthread_mutex_unlock(&self->lock);
	}
}

static PyObject *client_close(PyObject *object, PyObject *unused)
{
	struct client_object *self = (struct client_object *)object;
	(void)unused;
	if (self->queue)
		close_now(self);
	Py_RETURN_NONE;
}

PyObject *client_close_all(PyObject *module, PyObject *unused)
{
	PyObject *all = PyList_New(0);
	(void)module, (void)unused;
	for (struct client_object *c = live; all && c; c = c->live_next) {
		if (PyList_Append(all, (PyObject *)c) < 0)
			Py_CLEAR(all);
	}
	if (!all)
		return NULL;
	for (Py_ssize_t i = 0; i < PyList_Size(all); i++)
		close_now((struct client_object *)PyList_GetItem(all, i));
	Py_DECREF(all);
	Py_RETURN_NONE;
}

/* The end of an open object. The warning does not name it, because it may be half destroyed. */
static void close_forgotten(struct client_object *self)
{
	PyObject *type, *value, *trace;
	if (!self->queue || self->closing || client_is_childs(self))
		return;
	PyErr_Fetch(&type, &value, &trace);
	if (PyErr_WarnEx(PyExc_ResourceWarning, "a kvrail client was not closed: call close(), or use `with`", 1) < 0)
		PyErr_WriteUnraisable(NULL);
	close_now(self);
	PyErr_Restore(type, value, trace);
}

static void client_finalize(PyObject *object)
{
	close_forgotten((struct client_object *)object);
}

static int client_traverse(PyObject *object, visitproc visit, void *arg)
{
	struct client_object *self = (struct client_object *)object;
	for (struct batch *b = self->out; b; b = b->next) {
		for (uint32_t i = 0; i < b->num_views; i++)
			Py_VISIT(b->views[i].obj);
	}
	for (struct region *r = self->regions; r; r = r->next)
		Py_VISIT(r->view.obj);
	Py_VISIT(Py_TYPE(object));
	return 0;
}

/* The finalizer has released everything that could be part of a circle. */
static int client_clear(PyObject *object)
{
	close_forgotten((struct client_object *)object);
	return 0;
}

static void client_dealloc(PyObject *object)
{
	struct client_object *self = (struct client_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	PyObject_GC_UnTrack(object);
	live_unlink(self);
	close_forgotten(self);
	kvc_queue_close(&self->queue);
	batches_free(self);
	while (self->regions)
		region_ended(self->regions);
	free(self->prefix);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->lock);
	release(object);
	Py_DECREF(type);
}

/* ---- small calls ---- */

static PyObject *client_event_fd(PyObject *object, PyObject *unused)
{
	struct client_object *self = (struct client_object *)object;
	int fd;
	(void)unused;
	if (!self->queue)
		return client_usable(self) < 0 ? NULL : Py_NewRef(Py_None);
	fd = kvc_queue_fd(self->queue);
	return fd < 0 ? kvrail_raise(fd, "%s", kvc_strerror(fd)) : PyLong_FromLong(fd);
}

static PyObject *client_cancel(PyObject *object, PyObject *id)
{
	struct client_object *self = (struct client_object *)object;
	uint64_t number;
	int rc;
	if (kvrail_uint(id, "an id", &number) < 0)
		return NULL;
	if (self->closing && !client_is_childs(self))
		Py_RETURN_FALSE; /* all is over, or about to be */
	if (client_usable(self) < 0)
		return NULL;
	rc = kvc_cancel(self->queue, number);
	if (rc == 0 || rc == -KV_ENOTFOUND)
		return PyBool_FromLong(rc == 0);
	return kvrail_raise(rc, rc == -KV_EBUSY ? "the queue of a loop is full: cancel again" : "%s", kvc_strerror(rc));
}

static PyObject *client_call_bound(PyObject *object, PyObject *args)
{
	struct client_object *self = (struct client_object *)object;
	PyObject *timeout = Py_None, *length = NULL;
	uint64_t ns, timeout_ns = 0, nbytes = 0;
	if (!PyArg_ParseTuple(args, "|OO:call_bound", &timeout, &length) ||
	    (timeout != Py_None && timeout_parse(timeout, &timeout_ns) < 0) ||
	    (length && kvrail_uint(length, "nbytes", &nbytes) < 0) ||
	    client_usable(self) < 0) /* last: the arguments may run Python code, which may close the client */
		return NULL;
	ns = kvc_call_bound_ns(self->pool, timeout_ns, nbytes);
	return PyFloat_FromDouble((double)ns * 1e-9);
}

static PyObject *client_closed(PyObject *object, void *closure)
{
	struct client_object *self = (struct client_object *)object;
	(void)closure;
	return PyBool_FromLong(!self->pool || self->closing || client_is_childs(self));
}

static PyObject *client_enter_with(PyObject *self, PyObject *unused)
{
	(void)unused;
	return Py_NewRef(self);
}

static PyObject *client_exit_with(PyObject *self, PyObject *args)
{
	(void)args;
	return client_close(self, NULL);
}

#define FAST METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
	{"event_fd", client_event_fd, METH_NOARGS,
	 "event_fd() -> int: readable while completions wait. "
	 "Only a drain reads it. It stays the client's after close()."},
	{"submit_batch_get", (PyCFunction)(void (*)(void))client_submit_get, FAST,
	 "submit_batch_get(keys, buffers, timeout=None, exact=False, parts=None) -> id: "
	 "read values into writable buffers. exact: a value of another length than its buffer is a miss."},
	{"submit_batch_view", (PyCFunction)(void (*)(void))client_submit_view, FAST,
	 "submit_batch_view(keys, timeout=None) -> id: borrow values; drain_results() has a View for each."},
	{"submit_batch_set", (PyCFunction)(void (*)(void))client_submit_set, FAST,
	 "submit_batch_set(keys, buffers, timeout=None, ttl=0, background=False) -> id: store values. ttl in seconds; "
	 "background: other calls of this client overtake it."},
	{"submit_batch_exists", (PyCFunction)(void (*)(void))client_submit_exists, FAST,
	 "submit_batch_exists(keys, timeout=None, memory_only=False) -> id."},
	{"submit_batch_delete", (PyCFunction)(void (*)(void))client_submit_delete, FAST,
	 "submit_batch_delete(keys, timeout=None) -> id."},
	{"touch", client_touch, METH_VARARGS,
	 "touch(key, timeout, ttl) -> code: give a value a new time to live. Blocks."},
	{"ttl", client_ttl, METH_VARARGS, "ttl(key, timeout) -> ms, 2^64 - 1 for never, or a code. Blocks."},
	{"pin", client_pin, METH_VARARGS, "pin(key, timeout) -> code. Blocks."},
	{"unpin", client_unpin, METH_VARARGS, "unpin(key, timeout) -> code. Blocks."},
	{"value_length", client_value_length, METH_VARARGS, "value_length(key, timeout) -> bytes, or a code. Blocks."},
	{"drain_completions", client_drain_completions, METH_NOARGS,
	 "drain_completions() -> list of (id, ok, error text, bools per key or None): finished ids; "
	 "LMCache's contract."},
	{"drain_results", client_drain_results, METH_NOARGS,
	 "drain_results() -> list of (id, code, results) of finished ids. A result is the length or a View (GET), "
	 "0 for a miss, 1 for memory or 2 for the tier alone (EXISTS), else 0; or a negative code."},
	{"arrived", client_arrived, METH_O,
	 "arrived(id) -> list: of each key, how many parts are there; None: the id has no parts, or is drained."},
	{"cancel", client_cancel, METH_O, "cancel(id) -> bool: give an id up; False if it is over or unknown."},
	{"call_bound", client_call_bound, METH_VARARGS,
	 "call_bound(timeout=None, nbytes=0) -> float: the longest time in seconds that a call may take."},
	{"register", client_register, METH_O,
	 "register(buffer or (address, length)) -> Region: calls into this memory need no copy."},
	{"clear", client_space_clear, METH_O, "clear(timeout) -> the new generation, or a code. Blocks."},
	{"namespaces", client_namespaces, METH_VARARGS,
	 "namespaces(server, timeout) -> list of dicts, or a code. Blocks."},
	{"leases", client_leases, METH_VARARGS, "leases(server, timeout) -> list of dicts, or a code. Blocks."},
	{"counters", client_counters, METH_NOARGS, "counters() -> dict of counters since the client was opened."},
	{"info", client_info, METH_NOARGS, "info() -> dict: provider, NICs and other properties of the client."},
	{"servers", client_servers, METH_VARARGS,
	 "servers(seconds=inf) -> list of dicts: the state of each server asked within this time, and the reason."},
	{"events_open", client_events_open, METH_VARARGS,
	 "events_open(new, since) -> number: follow the servers' events. since: a tuple of (node, epoch, sequence). "
	 "Blocks."},
	{"events_next", client_events_next, METH_VARARGS,
	 "events_next(number, seconds) -> list of events, empty if none came within this time. Blocks."},
	{"events_close", client_events_close, METH_VARARGS, "events_close(number): end a follower."},
	{"close", client_close, METH_NOARGS,
	 "close(): end all calls and release all buffers; remaining completions can be drained afterwards."},
	{"__enter__", client_enter_with, METH_NOARGS, NULL},
	{"__exit__", client_exit_with, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
	{"closed", client_closed, NULL, "True once close() began, and in a child of fork().", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "A pool of connections to kv-servers and one queue of completions. See kvrail/_native.pyi."},
	{Py_tp_new, (void *)client_new},
	{Py_tp_init, (void *)client_init},
	{Py_tp_dealloc, (void *)client_dealloc},
	{Py_tp_finalize, (void *)client_finalize},
	{Py_tp_traverse, (void *)client_traverse},
	{Py_tp_clear, (void *)client_clear},
	{Py_tp_methods, methods},
	{Py_tp_getset, attributes},
	{0, NULL},
};

PyType_Spec client_spec = {
	.name = "kvrail._native.Client",
	.basicsize = sizeof(struct client_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = slots,
};
