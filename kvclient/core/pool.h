/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h -- the pool as plain data: settings, servers, loops, clients, progress. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_POOL_H
#define KVRAIL_KVCLIENT_CORE_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/base.h"
#include "host/host.h"
#include "kvclient/core/fork.h"
#include "kvclient/core/notes.h"
#include "kvclient/core/troubles.h"
#include "kvclient/kvclient.h"

struct boot_resolver;
struct kc_home;
struct kc_seal_keys;
struct loop;

enum { KC_CLIENTS_MAX = 4096, KC_SERVERS_MAX = KC_PLACE_MAX, KC_THREADS_MAX = 256 };

/* A server's named cluster (cluster_name.h). */
struct kc_named {
	char cluster[KV_NAME_MAX]; /* under the pool's lock; "": none */
	_Atomic uint64_t until_ns; /* end of its vote */
};

struct kc_server {
	struct kv_server_entry entry; /* its name places keys; its host must match the certificate */
	unsigned users; /* clients with a node for it, under the pool's lock; 0: free, the next taker writes `entry` */
	struct kc_troubles troubles;
	struct kc_named named;
	_Atomic int local_told; /* the last report of conn/local_attach.c; 0: none */
	/* After a failure to share memory with this incarnation of the server, no client asks it again before this. */
	_Atomic uint64_t local_again_ns, local_failed;
	_Atomic uint64_t generation, cleared_by_ns; /* of the pool's namespace (cleared.h) */
};

/* Loops report; the opening thread, or the host that turns the loops, reads. */
struct kc_progress {
	unsigned started; /* clients open, failed, or no longer tried */
	unsigned opened;
	unsigned up;        /* clients with a server */
	unsigned attempted; /* first attempts decided */
	unsigned closed;
	unsigned posts;
	int status; /* first failure of a client; ends the opening */
	struct kv_error error;
	int list_status; /* first failure due to the list itself: the opening's code if a client has no server */
	struct kv_error list_error;
};

/* A client's first attempts, under the pool's lock. Two reasons, since a dead server must not hide a refusal. */
struct kc_attempts {
	unsigned up, failed;
	struct kv_error first;
	struct kv_error other; /* for another reason; code 0: none */
};

/* Binding of one of our threads, which alone touches it. */
struct kc_bound {
	bool bound, mixed; /* mixed: unbound, its clients' NICs are on several nodes */
	int node;
	int result;
	struct kv_cpus before;
};

/* Copies of the options' strings, for their end. */
struct kc_texts {
	char *at[17];
	unsigned count;
};

/* Registered memory. Under lock. */
struct kc_registered {
	struct kvc_mem *all;
	uint32_t last_id;
};

/* Which client gets the next blocking call. */
struct kc_loads {
	_Atomic unsigned next;
	_Atomic uint32_t *keys; /* per client: of blocking calls, except large batches */
	_Atomic uint32_t *down; /* per client: its DOWN servers; its loop writes */
};

/* The part of views that clients share (route/view.c). */
struct kc_pool_views {
	struct kv_view posted;                 /* under lock: last one posted between clients */
	kv_u128 posted_digest;                 /* under lock */
	_Atomic uint64_t logged, doubt_logged; /* digests */
	_Atomic bool differ;
};

struct kc_pool_cleared {
	_Atomic bool any;    /* a server's namespace has a generation above 0 */
	_Atomic uint64_t to; /* by this pool */
};

/* The cluster's name (cluster_name.h). */
struct kc_naming {
	char cluster[KV_NAME_MAX]; /* under lock */
	uint64_t from_ns;          /* under lock: since the first name */
	_Atomic uint32_t number;   /* changes of the name */
};

struct kvc_pool {
	unsigned born;              /* kc_forks at open */
	struct kvc_options options; /* with defaults; strings are copies */
	struct kv_log log;
	struct kv_log_style log_style;
	const struct kv_clock *clock; /* NULL: monotonic */
	struct kc_server *server;     /* first the user's list, num_servers of `room` */
	unsigned num_servers, room;
	uint64_t *taken; /* under lock: hashes of the members' entries; 0: free */
	struct kc_place place;
	struct kc_notes_home notes;
	struct kc_home *home; /* core/local_server.h */
	uint64_t files;       /* descriptors of this process with all clients open, before they connect; 0: unknown */
	struct kc_seal_keys *seal_keys; /* seal/keys.h; NULL: values are not sealed */
	struct boot_resolver *resolver;
	struct sockaddr_storage local; /* our address towards the first resolved server */
	struct loop **loop;
	pthread_t *thread;
	unsigned num_loops;
	struct kc_bound *bound; /* per loop of ours */
	bool own_loops;
	bool turned;     /* KVC_NO_THREADS: waiting threads turn the loop (kc_drive) */
	bool time_grows; /* by a call's size, as no timeout was given */
	struct kvc_client **client;
	unsigned num_clients;
	struct kc_texts texts;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct kc_progress progress; /* under lock */
	struct kc_registered registered;
	struct kv_list queues; /* under lock: open struct kvc_queue */
	struct kc_loads loads;
	struct kc_pool_views views;
	struct kc_pool_cleared cleared;
	struct kc_naming naming;
	_Atomic bool closing;
	_Atomic unsigned callers; /* in blocking calls: the loops stay until 0 */
};

static inline const struct kv_log *kc_pool_log(const struct kvc_pool *p)
{
	return &p->log;
}

/* kc_pool_alien -- whether it is a parent process's, and must not be touched. Any thread. */
static inline bool kc_pool_alien(const struct kvc_pool *p)
{
	return kc_fork_alien(p->born);
}

/* kc_pool_enter -- begin a blocking call: 0 or -KV_ECLOSED. kc_pool_leave -- the thread's last access to the pool. */
int kc_pool_enter(struct kvc_pool *p);
void kc_pool_leave(struct kvc_pool *p);

/* kc_pool_tell_* -- report progress. Any thread. kc_pool_tell_attempt -- of a client's first attempt at a server,
 * counted in *of. */
void kc_pool_tell_started(struct kvc_pool *p, int status, const struct kv_error *err);
void kc_pool_tell_attempt(struct kvc_pool *p, struct kc_attempts *of, int status, const struct kv_error *err);
void kc_pool_tell_closed(struct kvc_pool *p);
/* kc_pool_tell_heard -- a client took a post: its last access to the pool. kc_pool_over -- no loop touches the pool
 * any more. Under the lock. */
void kc_pool_tell_heard(struct kvc_pool *p);
static inline bool kc_pool_over(const struct kvc_pool *p)
{
	return p->progress.closed == p->num_clients && p->progress.posts == 0;
}

/* kc_pool_server_take -- a view member's place, shared by all clients. Its index, or -KV_EFULL. kc_pool_server_moved
 * -- new addresses of place i; the user's list stays. kc_pool_server_give -- the client no longer needs it. Any
 * thread. */
int kc_pool_server_take(struct kvc_pool *p, const struct kv_server_entry *entry);
void kc_pool_server_moved(struct kvc_pool *p, unsigned i, const char *where);
void kc_pool_server_give(struct kvc_pool *p, unsigned i);

/* kc_pool_time -- timeout of a call of up to `bytes`: the call's, the pool's, or the growing default. Any thread. */
enum { KC_BYTE_NS = 10 }; /* 1 s for every 100 MB */
static inline uint64_t kc_pool_time(const struct kvc_pool *pool, const struct kvc_call *call, uint64_t bytes)
{
	uint64_t ns = pool->options.timeout_ns;
	if (call->timeout_ns)
		return call->timeout_ns;
	if (pool->time_grows)
		ns += KV_MIN(bytes, (uint64_t)1 << 50) * KC_BYTE_NS;
	return ns;
}

#endif
