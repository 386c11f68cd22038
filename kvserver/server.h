/* SPDX-License-Identifier: Apache-2.0 */
/* server.h -- the parts of a server as the control loop sees them. Private to kvserver/. */
#ifndef KVRAIL_KVSERVER_SERVER_H
#define KVRAIL_KVSERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "bootstrap/bootstrap.h"
#include "kvserver/kvserver.h"
#include "kvserver/shard.h"
#include "loop/loop.h"

enum {
	HANDSHAKES_MAX = 64,   /* connections that have not said hello yet */
	HANDSHAKE_RATE = 1000, /* connections accepted per second, on average */
	HANDSHAKE_BURST = 256,
	CLOSING_SLOTS = 64,     /* sessions that end but have something in flight, beside those that are open */
	USER_TIMEOUT_MS = 10000 /* a control connection whose bytes are not acknowledged for so long is broken */
};

#define HANDSHAKE_NS          5000000000ull /* from accept to hello */
#define HANDSHAKE_PATIENCE_NS 1000000000ull /* when all places are taken, one that took so long is cut */

struct slot {
	uint16_t generation; /* never 0 */
	bool used;
};

/* One piece of work that every shard is given, by the conductor. */
struct round {
	struct round_call {
		struct call call;
		struct round *round;
	} shard[KV_SHARDS_MAX];
	struct kvs_server *server;
	unsigned pending;
};

struct kvs_server {
	struct kvs_options opt; /* defaults filled in */
	char node_id[KV_NAME_MAX];
	uint8_t host_id[16];
	uint64_t incarnation, shard_seed;
	struct boot_context *boot;
	struct boot_identity identity;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	struct loop *control;
	struct shard *shard[KV_SHARDS_MAX];
	struct loop *shard_loop[KV_SHARDS_MAX];
	/* control loop only */
	int listen_fd;
	struct kv_list conns;
	unsigned handshakes, open;
	struct slot *slots;
	unsigned slot_count, slot_next;
	struct co_queue handshake_free;
	struct co *conductor;
	bool accepting, stop_asked;
	uint64_t drain_ns;
	struct round startup, drain, closing;
	/* threads */
	pthread_t thread[KV_SHARDS_MAX + 1];
	unsigned threads;
	pthread_mutex_t lock; /* state, error, addr */
	pthread_cond_t changed;
	enum kvs_state state;
	struct kv_error error;
	_Atomic uint16_t port;
};

/* accept.c */

/* accept_await -- the accept loop, until the listening socket is shut down. */
void accept_await(struct kvs_server *server);

/* conn.c */

/* conn_spawn -- serve an accepted socket in a coroutine of its own; the socket is the connection's from now on, also on
 * failure. */
int conn_spawn(struct kvs_server *server, int fd, const struct sockaddr_storage *peer);

/* conns_cut -- break every connection: each ends by itself. only_handshake: just the oldest one that has not said
 * hello, if it is old enough. */
void conns_cut(struct kvs_server *server);
void conns_cut_oldest_handshake(struct kvs_server *server);

/* server.c: the conductor is told that something it may wait for has changed. */
void server_changed(struct kvs_server *server);

#endif
