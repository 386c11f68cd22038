/* SPDX-License-Identifier: Apache-2.0 */
/* server.h -- struct kvs_server: the parts of a server on the control loop. */
#ifndef KVRAIL_KVSERVER_SERVER_SERVER_H
#define KVRAIL_KVSERVER_SERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "bootstrap/bootstrap.h"
#include "kvserver/conn/doubt.h"
#include "kvserver/server/fabric_at.h"
#include "kvserver/server/key_reload.h"
#include "kvserver/server/liveness.h"
#include "kvserver/kvserver.h"
#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/shard.h"
#include "loop/loop.h"

enum {
	HANDSHAKES_MAX = KV_HANDSHAKES_MAX,
	HANDSHAKE_RATE = 2000, /* TLS handshakes begun per second, on average */
	HANDSHAKE_BURST = 256,
	HELLO_MAX = 16384,    /* maximum bytes of a stranger's first message; our client's has 3 KiB */
	LOGS_PER_SECOND = 10, /* log lines about refused clients */
	CONNS_MAX = 0xFFFF,   /* with an attachment: its number has 16 bits for the slot */
	BEATS_MAX = 1024,     /* heartbeats and other messages being sent at a time */
	CLUSTER_PLACES = 16,  /* for clients besides --max-clients: servers that push, and kv-client */
	CLOSING_SLOTS =
		64, /* slots besides those of open attachments: for ending attachments with operations in flight */
	QUIET_BEATS = 500,      /* heartbeats per second to all clients that do not ask */
	QUIET_MS_MAX = 10000,   /* ... but at least one to each in this time */
	USER_TIMEOUT_MS = 10000 /* a control connection with bytes unacknowledged for this time is broken */
};

#define HANDSHAKE_NS          5000000000ull /* from accept to hello */
#define HANDSHAKE_SILENCE_NS  100000000ull  /* with all places taken, a silent connection is cut after this time ... */
#define HANDSHAKE_PATIENCE_NS 500000000ull  /* ... and, when all of them talk, a slow one after this time */
#define ANEW_NS               1000000000ull /* how long a client told to begin anew may keep its connection */

struct attachment;

struct slot {
	uint16_t generation;           /* never 0 */
	struct attachment *attachment; /* NULL: free */
};

/* A call of the conductor to every shard. */
struct round {
	struct round_call {
		struct call call;
		struct round *round;
	} shard[KV_SHARDS_MAX];
	struct kvs_server *server;
	unsigned pending;
};

/* The limit of open files, and its division (files.c). */
struct client_limit {
	uint64_t limit, open, handshakes; /* open: descriptors, before the first client */
	uint64_t client;                  /* of the fabric, for each client */
	uint64_t wanted;                  /* the limit needed for --max-clients */
	_Atomic unsigned clients;         /* maximum clients with connections at a time; tests change it */
	unsigned more;                    /* ... besides these, for CLUSTER_PLACES */
};

/* The view of the cluster (view.c). */
struct views {
	struct kv_view now; /* announced to clients: control loop only, with the next four */
	uint8_t *packed;
	uint32_t packed_len;
	kv_u128 digest;      /* 0: none */
	bool draining;       /* as announced; the control loop's copy of `drains` */
	uint64_t number;     /* of changes so far */
	_Atomic bool drains; /* kvs_server_drains was called */
	struct kv_view next; /* under the server's lock, with its packed form: to be taken by the control loop */
	uint8_t *next_packed;
	uint32_t next_packed_len;
	kv_u128 next_digest;
	bool next_lacked; /* a view since the last one taken lacked this server */
};

/* views_announced -- the announcement: the view, and whether the server drains. */
static inline struct wire_view_news views_announced(const struct views *v)
{
	return (struct wire_view_news){v->now.source, v->now.epoch, v->digest, v->draining};
}

struct bucket {
	double tokens;
	uint64_t filled_ns;
};

struct kvs_server {
	struct kvs_options opt; /* defaults filled in */
	struct views views;
	struct doubts doubts;
	struct doubt_told doubt_told;
	struct doubt_said *recalled; /* under the lock: to be taken by the control loop ... */
	bool recall_over;            /* ... if this is true */
	char node_id[KV_NAME_MAX];   /* from the options; "": none */
	uint8_t host_id[16];
	uint64_t incarnation, shard_seed;
	struct boot_context *boot;
	struct boot_keys *session_keys; /* of further sessions; or NULL */
	struct key_reload *keeper;      /* rereads the files; or NULL */
	struct boot_identity identity;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	struct fabric_at fabric_at; /* set before the shards are made */
	struct loop *control;
	struct shard *shard[KV_SHARDS_MAX];
	struct loop *shard_loop[KV_SHARDS_MAX];
	/* control loop only */
	int listen_fd;
	struct kv_list conns, knocking; /* knocking: those without an attachment, the oldest first */
	unsigned handshakes;
	_Atomic unsigned open;           /* attachments, and further sessions; tests read it */
	_Atomic unsigned handshakes_max; /* tests change it */
	struct client_limit files;
	unsigned clients, clients_max; /* clients: admitted connections. clients_max: as many as the control loop has
					  coroutines for */
	bool accept_failing, accept_said;
	uint64_t accept_said_ns; /* last log line about failing accepts */
	struct bucket bucket;
	uint64_t logs_from_ns, logs_dropped;
	unsigned logs;
	struct slot *slots;
	unsigned slot_count, slot_next;
	struct co_queue handshake_free;
	struct co *conductor;
	bool accepting, stop_asked;
	_Atomic bool lost_told; /* a shard has marked an attachment, and the clients were not checked since: one check
				   finds all */
	uint64_t drain_ns;
	bool drained_known; /* under the lock, as: */
	struct kv_drained drained;
	struct round startup, drain, closing;
	struct liveness pulse, health; /* of kvs_server_alive, of kvs_server_silence_ns */
	struct kv_prefault *prefault;  /* makes pages in the background; or NULL */
	/* threads */
	pthread_t thread[KV_SHARDS_MAX + 1];
	unsigned threads;
	pthread_mutex_t lock; /* state, error, addr */
	pthread_cond_t changed;
	enum kvs_state state;
	struct kv_error error;
	_Atomic uint16_t port;
	_Atomic uint64_t control_stat[WIRE_STAT_END]; /* written by the control loop, read by shard 0 for STAT */
};

/* control_count, control_set, control_max -- the control loop's counters. */
static inline void control_set(struct kvs_server *s, enum wire_stat id, uint64_t value)
{
	atomic_store_explicit(&s->control_stat[id], value, memory_order_relaxed);
}

static inline void control_count(struct kvs_server *s, enum wire_stat id)
{
	control_set(s, id, atomic_load_explicit(&s->control_stat[id], memory_order_relaxed) + 1);
}

static inline void control_max(struct kvs_server *s, enum wire_stat id, uint64_t value)
{
	if (value > atomic_load_explicit(&s->control_stat[id], memory_order_relaxed))
		control_set(s, id, value);
}

/* handshakes_change -- a stranger's place is taken (1) or freed (-1): STAT shows the number. */
static inline void handshakes_change(struct kvs_server *s, int by)
{
	s->handshakes += (unsigned)by;
	control_set(s, WIRE_STAT_HANDSHAKES_NOW, s->handshakes);
}

/* server_changed -- wake the conductor (start_stop.c), which may wait for this change. */
static inline void server_changed(struct kvs_server *s)
{
	if (s->conductor)
		co_wake(s->conductor);
}

#endif
