/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h -- the pool as plain data: settings, servers, loops, clients, and what clients report to it. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_POOL_H
#define KVRAIL_KVCLIENT_CORE_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/base.h"
#include "host/host.h"
#include "kvclient/core/fork.h"
#include "kvclient/core/notes.h"
#include "kvclient/core/told.h"
#include "kvclient/kvclient.h"

struct boot_resolver;
struct loop;

enum { KVC_CLIENTS_MAX = 4096, KVC_SERVERS_MAX = KVC_PLACE_MAX, KVC_THREADS_MAX = 256 };

/* The cluster that a server names (naming.h). */
struct kvc_named {
	char cluster[KV_NAME_MAX]; /* under the pool's lock; "": none */
	_Atomic uint64_t until_ns; /* it counts until then */
};

struct kvc_server {
	struct kv_server_entry entry; /* of the user's list: the name that keys are placed by, and the host that the
					 server's certificate must name */
	unsigned users; /* clients that have a node for it. Under the pool's lock; at 0 the place is free, and entry is
			   written by whoever takes it */
	struct kvc_told told;
	struct kvc_named named;
};

/* What opening and closing wait for. The thread of any loop reports; the opening thread, or the host that turns the
 * loops, looks. */
struct kvc_progress {
	unsigned started;      /* clients that are open, have failed to open, or were not tried any more */
	unsigned opened;       /* clients that are open */
	unsigned up;           /* clients that have a server */
	unsigned attempted;    /* first connections whose outcome is known */
	unsigned closed;       /* clients that are closed */
	unsigned posts;        /* to clients from others of the pool, which the loops have yet to come to */
	int status;            /* the first failure of a client, which ends the opening */
	struct kv_error error; /* of that failure */
	int list_status; /* the first failure that showed the list of servers to be wrong: the code of an opening in
			    which a client has no server */
	struct kv_error list_error;
};

/* How a client's first connections went; under the pool's lock. Two reasons are kept, since one server that is gone
 * must not hide why another does not take us. */
struct kvc_attempts {
	unsigned up, failed;
	struct kv_error first; /* that failed */
	struct kv_error other; /* the first that failed for another reason; code 0: none */
};

/* What a thread of ours is bound to. That thread alone touches it. */
struct kvc_bound {
	bool bound, mixed; /* mixed: its clients' NICs are on several nodes, so it is free again */
	int node;
	int result; /* of kv_numa_bind_thread */
	struct kv_cpus before;
};

struct kvc_pool {
	unsigned born;              /* kvc_forks when it was opened */
	struct kvc_options options; /* with defaults filled in; strings point to copies */
	struct kv_log log;
	struct kv_log_style log_style; /* of lines to stderr */
	const struct kv_clock *clock;  /* NULL: monotonic */
	struct kvc_server *server;     /* `room` of them; the first num_servers are the user's list, and stay */
	unsigned num_servers, room;
	uint64_t *taken;             /* under lock: hashes of the members' entries, by place; 0: the place is free */
	struct kvc_place place;      /* of keys on the servers */
	struct kvc_notes_home notes; /* of the placements of clients */
	struct boot_resolver *resolver;
	struct sockaddr_storage local; /* our address towards the first server whose name could be looked up */
	struct loop **loop;
	pthread_t *thread;
	unsigned num_loops;
	struct kvc_bound *bound; /* of each loop, where the threads are ours */
	bool own_loops;
	bool turned;     /* KVC_NO_THREADS: whoever waits turns the loop (drive.h) */
	bool time_grows; /* the user named no timeout: the default one grows with the size of a call */
	struct kvc_client **client;
	unsigned num_clients;
	char *strings[16]; /* copies to free */
	unsigned num_strings;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct kvc_progress progress; /* under lock */
	uint32_t next_region;         /* under lock */
	struct kvc_mem *mems;         /* under lock: all registrations */
	struct kv_list queues;        /* under lock: struct kvc_queue, those that are open */
	_Atomic unsigned next_client; /* where the next call looks for a client first */
	_Atomic uint32_t *load;       /* of each client: keys of blocking calls; large batches are not in it */
	_Atomic uint32_t *down;       /* of each client: servers that are down for it; its loop writes it */
	_Atomic uint64_t view_told, view_doubt_told; /* of digests: what the log was told of the cluster */
	_Atomic bool views_differ;                   /* the log was told that servers announce different views */
	struct kv_view view;                         /* under lock: the last that a client has told the others */
	kv_u128 view_digest;                         /* under lock: of it */
	char cluster[KV_NAME_MAX];                   /* under lock: its name, once it is known (naming.h) */
	uint64_t naming_from_ns;                     /* under lock: when a server first named one */
	_Atomic uint32_t naming_number;              /* how often it has changed */
	_Atomic bool closing;
	_Atomic unsigned callers; /* threads inside blocking calls: the loops stay until they have left */
};

static inline const struct kv_log *kvc_pool_log(const struct kvc_pool *p)
{
	return &p->log;
}

/* kvc_pool_alien -- whether the pool is of the process that this one was forked from: nothing of it may be touched
 * then. Any thread. */
static inline bool kvc_pool_alien(const struct kvc_pool *p)
{
	return kvc_fork_alien(p->born);
}

/* kvc_pool_enter -- a thread begins a blocking call: 0, or -KV_ECLOSED. kvc_pool_leave -- the thread ends it: its last
 * touch of the pool. */
int kvc_pool_enter(struct kvc_pool *p);
void kvc_pool_leave(struct kvc_pool *p);

/* kvc_pool_tell_* -- reports to opening and closing. Any thread. kvc_pool_tell_attempt -- a client's first attempt to
 * attach to a server is decided; it is counted in *of. */
void kvc_pool_tell_started(struct kvc_pool *p, int status, const struct kv_error *err);
void kvc_pool_tell_attempt(struct kvc_pool *p, struct kvc_attempts *of, int status, const struct kv_error *err);
void kvc_pool_tell_closed(struct kvc_pool *p);
/* kvc_pool_tell_heard -- a client has come to a post of another: its last touch of the pool. kvc_pool_over -- all
 * clients are closed, and no loop will touch the pool. Under the lock. */
void kvc_pool_tell_heard(struct kvc_pool *p);
static inline bool kvc_pool_over(const struct kvc_pool *p)
{
	return p->progress.closed == p->num_clients && p->progress.posts == 0;
}

/* kvc_pool_server_take -- a place of the table for a member of a view: the one that another client has taken for it, or
 * a free one. Returns its index, or -KV_EFULL. kvc_pool_server_moved -- the view has these addresses for the member at
 * place i; the user's list stays as it is. kvc_pool_server_give -- this client needs it no more. Any thread. */
int kvc_pool_server_take(struct kvc_pool *p, const struct kv_server_entry *entry);
void kvc_pool_server_moved(struct kvc_pool *p, unsigned i, const char *where);
void kvc_pool_server_give(struct kvc_pool *p, unsigned i);

/* kvc_pool_time -- how long a call that moves up to `bytes` may take: its own timeout, else the pool's, else the
 * default, which grows with the size of the call. Any thread. */
enum { KVC_BYTE_NS = 10 }; /* 1 s for every 100 MB */
static inline uint64_t kvc_pool_time(const struct kvc_pool *pool, const struct kvc_call *call, uint64_t bytes)
{
	uint64_t ns = pool->options.timeout_ns;
	if (call->timeout_ns)
		return call->timeout_ns;
	if (pool->time_grows)
		ns += KV_MIN(bytes, (uint64_t)1 << 50) * KVC_BYTE_NS;
	return ns;
}

#endif
