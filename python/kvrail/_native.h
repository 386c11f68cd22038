/* SPDX-License-Identifier: Apache-2.0 */
/* _native.h -- what the files of the extension kvrail._native share: the client's object, its batches and regions.
 *
 * The GIL is the lock of everything here. A loop's thread of the library never enters Python; it touches a batch's
 * items and the callers' memory, and nothing else of ours. Calls that block run without the GIL, and are counted in
 * calls_out so that the pool is not freed under them. */
#ifndef KVRAIL_PYTHON_NATIVE_H
#define KVRAIL_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <kvrail/kvclient.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* One submission: from the submit to the completion that Python has taken. One piece of memory with its arrays. */
struct batch {
	struct batch *next, *prev; /* in client.out, client.done or client.spare */
	uint64_t id;
	int64_t code; /* of the completion */
	enum kvc_op op;
	uint32_t n, capacity;
	uint32_t num_views; /* exports that are held */
	bool held, over;    /* held: its views are being released by close; over: whoever holds it frees it */
	bool nameless;      /* there was no memory for its id: no drain reports it */
	bool memory_only;   /* EXISTS: a value on the tier alone counts as missing */
	struct kvc_item *items;
	Py_buffer *views; /* `views_room` of them; `own` of the batch's memory, or of their own */
	uint32_t views_room;
	Py_buffer *own_views;
	unsigned char (*slots)[KVC_KEY_MAX]; /* the keys: prefix and key, folded if they are longer */
	/* Of items that have spans or parts; in memory of their own. */
	struct kvc_span *spans;
	uint32_t num_spans, spans_room;
	struct kvc_layout *layouts;   /* n of them, or NULL */
	struct kvc_arrival *arrivals; /* n of them, with parts */
	uint64_t *part_ends;
	uint32_t num_parts;
	struct view_object **lent; /* GET without buffers: a view for each item; else NULL */
};

/* A registration. It lives until it is unregistered or the client is closed, even without its Python objects. */
struct region {
	struct region *next, **link;
	struct kvc_mem *mem;
	Py_buffer view;                /* view.obj NULL: the caller gave an address */
	struct region_object *objects; /* a list */
	void *base;
	uint64_t len_bytes;
	uint64_t uses; /* calls of register() without their unregister() */
	bool ending;   /* it is being unregistered */
};

enum { FOLLOWERS_MAX = 64 };

/* A follower of the servers' events; NULL: a free place. */
struct follower {
	struct kvc_events *events;
	unsigned uses; /* calls on it; changed with the GIL */
};

struct client_object {
	PyObject_HEAD struct kvc_pool *pool; /* NULL: closed, or never opened */
	struct kvc_queue *queue; /* NULL: never opened; it outlives the pool, so that the descriptor stays what it is */
	pid_t pid;               /* of the process that opened it */
	bool opening, closing, closed;
	pthread_t closer; /* while closing and not closed */
	struct batch *out, *done, **done_tail, *spare;
	unsigned num_spare;
	struct region *regions;
	struct client_object *live_next, **live_link;
	char *prefix;
	size_t prefix_len;
	uint32_t depth;
	pthread_mutex_t lock; /* calls_out and closed, for those who wait without the GIL */
	pthread_cond_t changed;
	unsigned calls_out;
	struct follower follower[FOLLOWERS_MAX];
};

struct region_object {
	PyObject_HEAD struct client_object *client;
	struct region *region;      /* NULL: unregistered, or the client is closed */
	struct region_object *next; /* of the same region */
};

/* kvrail_raise -- raise the class of kvrail._errors that a code has, with this sentence. Returns NULL. */
PyObject *kvrail_raise(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* kvrail_type_name -- the name of an object's type, for a sentence: a new reference, or NULL with an exception. */
PyObject *kvrail_type_name(PyObject *object);
/* kvrail_uint -- a Python int from 0 to UINT64_MAX. Returns -1 with an exception that begins with `what`.
 * kvrail_uint_in -- its sentence names another range, which the caller looks at. */
int kvrail_uint(PyObject *object, const char *what, uint64_t *out);
int kvrail_uint_in(PyObject *object, const char *what, const char *range, uint64_t *out);

/* seconds_of -- the seconds of a timeout; an int that is too large is infinite. Returns -1 with an exception.
 * seconds_ns -- seconds, 0 or more, in nanoseconds: at least one above 0, and at most 1e18, which is inf, too. */
int seconds_of(PyObject *timeout, double *out);
uint64_t seconds_ns(double seconds);
/* timeout_parse -- seconds above 0 of a call. Returns -1 with an exception. */
int timeout_parse(PyObject *timeout, uint64_t *out_ns);
/* ttl_parse -- whole seconds; 0: the server's default. Returns -1 with an exception. */
int ttl_parse(PyObject *ttl, uint32_t *out_s);
/* key_parse -- a key as the servers know it, with the client's prefix, in `slot`, which must live as long as *out.
 * Returns -1 with an exception. */
int key_parse(const struct client_object *self, PyObject *key, unsigned char slot[KVC_KEY_MAX], struct kvc_key *out);

/* places_parse -- the memory of each item, and the ends of its parts (NULL: none), both tuples. Exports are held in
 * the batch. Returns -1 with an exception. */
int places_parse(PyObject *buffers, bool writable, PyObject *parts, struct batch *b);
/* place_tensor -- a contiguous tensor as an export; name: its name in an exception. 1: the object is none; -1: with an
 * exception. */
int place_tensor(PyObject *object, const char *name, Py_buffer *view);

/* client_usable -- 0 if calls may be made; else -1 with kvrail.Closed. */
int client_usable(const struct client_object *self);
bool client_is_childs(const struct client_object *self);
/* client_enter, client_leave -- around a call that blocks, with the GIL held; between them the pool is there. */
void client_enter(struct client_object *self);
void client_leave(struct client_object *self);

/* client_close_wait -- while the client closes: wait until nothing touches callers' memory, and exports are released.
 * Not in a child of fork(), nor in code that the close itself runs. */
void client_close_wait(struct client_object *self);

/* batch_take -- a batch with room for n items, from those that are kept, or a new one. NULL with MemoryError. */
struct batch *batch_take(struct client_object *self, uint32_t n);
/* batch_give -- release its exports, and keep or free it. It may run Python code. */
void batch_give(struct client_object *self, struct batch *b);
/* batch_views_release -- release the exports. It may run Python code, also such that comes back here. */
void batch_views_release(struct batch *b);
/* batch_free -- free one without exports that is in no list. batches_free -- of a client that ends. */
void batch_free(struct batch *b);
void batches_free(struct client_object *self);

PyObject *client_submit_get(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *client_submit_view(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *client_submit_set(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *client_submit_exists(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *client_submit_delete(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
/* One key each: (key, timeout), touch (key, timeout, ttl). They block, and return a code, or what was asked for. */
PyObject *client_touch(PyObject *self, PyObject *args);
PyObject *client_ttl(PyObject *self, PyObject *args);
PyObject *client_pin(PyObject *self, PyObject *args);
PyObject *client_unpin(PyObject *self, PyObject *args);
PyObject *client_value_length(PyObject *self, PyObject *args);
/* (timeout) and (server, timeout). They block, and return a code, or what was asked for. */
PyObject *client_space_clear(PyObject *self, PyObject *timeout);
PyObject *client_namespaces(PyObject *self, PyObject *args);
PyObject *client_leases(PyObject *self, PyObject *args);
PyObject *client_drain_completions(PyObject *self, PyObject *unused);
PyObject *client_drain_results(PyObject *self, PyObject *unused);
PyObject *client_arrived(PyObject *self, PyObject *id);
PyObject *client_register(PyObject *self, PyObject *memory);
PyObject *client_counters(PyObject *self, PyObject *unused);
PyObject *client_info(PyObject *self, PyObject *unused);
PyObject *client_servers(PyObject *self, PyObject *args);

/* (new, since) -> number, (number, seconds) -> events, (number). They block. */
PyObject *client_events_open(PyObject *self, PyObject *args);
PyObject *client_events_next(PyObject *self, PyObject *args);
PyObject *client_events_close(PyObject *self, PyObject *args);

/* views_make -- a view for each item, to which the library lends the value. Returns -1 with an exception.
 * views_settle -- before a drain: copy values out of pieces. Returns -1 with MemoryError; call it again.
 * views_result -- the view of an item, or its code: a new reference.
 * views_forget -- the batch's references end. */
int views_make(struct batch *b);
int views_settle(struct client_object *self, struct batch *b);
PyObject *views_result(const struct batch *b, uint32_t i);
void views_forget(struct batch *b);

/* region_ended -- the client is closed: release the export and free the region. It may run Python code. */
void region_ended(struct region *r);

/* client_close_all -- close every client that is open; for atexit. */
PyObject *client_close_all(PyObject *module, PyObject *unused);

extern PyType_Spec client_spec, region_spec, view_spec;
extern PyTypeObject *region_type, *view_type;

#endif
