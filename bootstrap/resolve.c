/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c -- look up names of servers without blocking a loop.
 *
 * getaddrinfo may block for half a minute and cannot be interrupted. So it runs on at most RESOLVE_THREADS threads,
 * which exist while names are queued. They refer only to the resolver: closing a pool does not wait for them, and the
 * last one frees it. The library cannot be unloaded, since a look-up may hang.
 *
 *   IDLE --a caller asks--> QUEUED --a thread takes it--> UNDER_WAY --> KNOWN, for a second, or FAILED, for a moment
 *       --> IDLE
 *
 * The caller gets "not yet" and asks again. All clients of a pool share one look-up. tests/sim/resolve_sim.c replaces
 * this file. */
#include "bootstrap/bootstrap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RESOLVE_THREADS = 4 };

#define KNOWN_NS  1000000000ull
#define FAILED_NS 200000000ull

enum name_state { NAME_IDLE, NAME_QUEUED, NAME_UNDER_WAY, NAME_KNOWN, NAME_FAILED };

struct name {
	struct kv_list node; /* in the queue */
	enum name_state state;
	struct kv_hostport hp;
	struct kv_addresses found;
	struct kv_error error;
	uint64_t until_ns; /* the result is valid until then */
};

struct boot_resolver {
	pthread_mutex_t lock; /* protects everything below */
	unsigned refs;        /* the owner's, and each thread's */
	unsigned threads;
	bool closed;
	struct kv_list queue;
	unsigned count;
	struct name name[];
};

int boot_resolver_create(unsigned n, struct boot_resolver **out)
{
	struct boot_resolver *r = calloc(1, sizeof(*r) + n * sizeof(r->name[0]));
	if (!r)
		return -KV_ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	kv_list_init(&r->queue);
	r->refs = 1;
	r->count = n;
	*out = r;
	return 0;
}

/* With the lock held; releases it. */
static void leave(struct boot_resolver *r)
{
	bool last = --r->refs == 0;
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void boot_resolver_destroy(struct boot_resolver **resolver)
{
	struct boot_resolver *r = *resolver;
	if (!r)
		return;
	*resolver = NULL;
	pthread_mutex_lock(&r->lock);
	r->closed = true;
	leave(r);
}

/* ---- the threads ---- */

/* With the lock held, which the look-up itself releases. */
static void look_up(struct boot_resolver *r, struct name *n)
{
	struct kv_hostport hp = n->hp;
	struct kv_addresses found = {0};
	struct kv_error err = {0};
	int rc;
	n->state = NAME_UNDER_WAY;
	pthread_mutex_unlock(&r->lock);
	rc = kv_hostport_look_up(&hp, &found, &err);
	pthread_mutex_lock(&r->lock);
	n->found = found;
	n->error = err;
	n->state = rc == 0 ? NAME_KNOWN : NAME_FAILED;
	n->until_ns = kv_clock_now(&kv_clock_monotonic) + (rc == 0 ? KNOWN_NS : FAILED_NS);
}

static void *thread_main(void *arg)
{
	struct boot_resolver *r = arg;
	pthread_mutex_lock(&r->lock);
	while (!r->closed && !kv_list_empty(&r->queue)) {
		struct name *n = KV_LIST_ENTRY(r->queue.next, struct name, node);
		kv_list_del(&n->node);
		look_up(r, n);
	}
	r->threads--;
	leave(r);
	return NULL;
}

/* Start one more thread if allowed; with the lock held. 0, or an errno if there is no thread at all. */
static int thread_start(struct boot_resolver *r)
{
	sigset_t before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;
	if (r->threads == RESOLVE_THREADS)
		return 0;
	kv_stay_loaded();
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	kv_signals_block(&before);
	rc = pthread_create(&thread, &attr, thread_main, r);
	kv_signals_restore(&before);
	pthread_attr_destroy(&attr);
	if (rc == 0) {
		pthread_setname_np(thread, "kvc-names");
		r->threads++;
		r->refs++;
	}
	return r->threads ? 0 : rc;
}

/* ---- asking ---- */

static int begin(struct boot_resolver *r, struct name *n, const struct kv_hostport *hp, struct kv_error *err)
{
	int rc;
	n->hp = *hp;
	n->state = NAME_QUEUED;
	kv_list_add_tail(&r->queue, &n->node);
	rc = thread_start(r);
	if (rc == 0)
		return 1;
	kv_list_del(&n->node);
	n->state = NAME_IDLE;
	return kv_fail(err, -KV_ELIMIT,
		       "a thread to look up %.100s cannot be started: %s; "
		       "look at ulimit -u and -v, and at the pids limit of a container",
		       hp->host, kv_strerror(-rc));
}

static int ask(struct boot_resolver *r, struct name *n, const struct kv_hostport *hp, struct kv_addresses *out,
	       struct kv_error *err)
{
	bool fresh = kv_clock_now(&kv_clock_monotonic) < n->until_ns && n->hp.port == hp->port &&
		     strcmp(n->hp.host, hp->host) == 0;
	if (n->state == NAME_QUEUED)
		n->hp = *hp;
	if (n->state == NAME_QUEUED || n->state == NAME_UNDER_WAY)
		return 1;
	if (n->state == NAME_KNOWN && fresh) {
		*out = n->found;
		return 0;
	}
	if (n->state == NAME_FAILED && fresh)
		return kv_fail(err, -KV_EPEERDOWN, "%s", n->error.text);
	return begin(r, n, hp, err);
}

int boot_resolve(struct boot_resolver *r, unsigned i, const struct kv_hostport *hp, struct kv_addresses *out,
		 struct kv_error *err)
{
	int rc;
	if (kv_hostport_numeric(hp, out))
		return 0;
	pthread_mutex_lock(&r->lock);
	rc = ask(r, &r->name[i], hp, out, err);
	pthread_mutex_unlock(&r->lock);
	return rc;
}
