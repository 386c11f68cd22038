/* SPDX-License-Identifier: Apache-2.0 */
/* clients.h -- the connections of a server: strangers, which have no attachment yet, and clients. Control loop only. */
#ifndef KVRAIL_KVSERVER_CONN_CLIENTS_H
#define KVRAIL_KVSERVER_CONN_CLIENTS_H

#include <stdatomic.h>

#include "base/base.h"
#include "loop/loop.h"

struct attachment;
struct kvs_server;

enum {
	HANDSHAKES_MAX = KV_HANDSHAKES_MAX,
	HANDSHAKE_RATE = 2000, /* TLS handshakes begun per second, on average */
	HANDSHAKE_BURST = 256,
	CLUSTER_PLACES = 16,    /* for clients besides --max-clients: servers that push, and kv-client */
	USER_TIMEOUT_MS = 10000 /* a control connection with bytes unacknowledged for this time is broken */
};

#define HANDSHAKE_NS 5000000000ull /* from accept to hello */
#define ANEW_NS      1000000000ull /* how long a client told to begin anew may keep its connection */

/* A rate with bursts. bucket_take -- take one at now_ns; returns the time to wait for it. */
struct bucket {
	double tokens;
	uint64_t filled_ns;
};
uint64_t bucket_take(struct bucket *b, uint64_t now_ns, unsigned per_second, unsigned burst);

/* Connections without an attachment, each in a place (accept.c). */
struct strangers {
	int listen_fd;
	bool accepting;
	struct kv_list knocking; /* the oldest first */
	unsigned count;
	_Atomic unsigned max; /* tests change it */
	struct co_queue place_free;
	struct bucket bucket;
	bool failing, said; /* accepts fail; the log said so ... */
	uint64_t logged_ns; /* ... at this time */
};

/* strangers_change -- a place is taken (1) or freed (-1): STAT shows the number. */
void strangers_change(struct kvs_server *server, int by);

struct slot {
	uint16_t generation;           /* never 0 */
	struct attachment *attachment; /* NULL: free */
};

/* The limit of open files, and its division (server/client_limit.c). */
struct client_limit {
	uint64_t limit, open, handshakes; /* open: descriptors, before the first client */
	uint64_t client;
	uint64_t wanted;
	_Atomic unsigned clients; /* maximum clients with connections at a time; tests change it */
	unsigned more;            /* ... besides these, for CLUSTER_PLACES */
};

/* Lines of the log: about refusals; about sessions of tenants, so that a restart of a fleet leaves none out. */
enum { LOGS_PER_SECOND = 10, AUDITS_PER_SECOND = 500 };

struct clients {
	struct kv_list conns;  /* all, with the strangers */
	_Atomic unsigned open; /* attachments, and further sessions; tests read it */
	unsigned count, max;   /* admitted connections. max: as many as the control loop has coroutines for */
	struct client_limit limit;
	struct slot *slot;
	unsigned slots, slot_next, slots_taken;
	struct kv_rate lines, audits;
	_Atomic unsigned audits_max; /* lines about sessions in a second; tests change it */
	_Atomic bool lost_reported;  /* a shard has marked an attachment, and the clients were not checked since: one
				    check finds all */
};

/* log_allowed -- whether one more line about strangers may be logged: they cannot fill the log. */
bool log_allowed(struct kvs_server *server);

/* audit_allowed -- whether one more line about a session may be logged: clients that reconnect cannot fill the log. */
bool audit_allowed(struct kvs_server *server);

/* accept_await -- accept connections until the listening socket is shut down. Parks. */
void accept_await(struct kvs_server *server);

/* handshakes_allowed -- the maximum at a time, by the limit of open files. Any thread. */
unsigned handshakes_allowed(void);

#endif
