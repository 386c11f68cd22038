/* SPDX-License-Identifier: Apache-2.0 */
/* server.h -- struct kvs_server. Its parts belong to the rooms that declare them: server/ has the life, the address and
 * the keys; conn/ the strangers, the clients, the view and the doubts. */
#ifndef KVRAIL_KVSERVER_SERVER_SERVER_H
#define KVRAIL_KVSERVER_SERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "bootstrap/bootstrap.h"
#include "kvserver/conn/clients.h"
#include "kvserver/conn/doubt.h"
#include "kvserver/conn/local_socket.h"
#include "kvserver/conn/view.h"
#include "kvserver/events/events.h"
#include "kvserver/kvserver.h"
#include "kvserver/server/fabric_at.h"
#include "kvserver/server/key_reload.h"
#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/shard.h"
#include "kvserver/shard/tenants.h"
#include "kvserver/tenant/places.h"
#include "kvserver/tier/tier_file.h"
#include "loop/loop.h"

struct round {
	struct round_call {
		struct call call;
		struct round *round;
	} shard[KV_SHARDS_MAX];
	struct kvs_server *server;
	unsigned pending;
};

struct life {
	enum kvs_state state;  /* under the server's lock, with the next three */
	struct kv_error error; /* why it stopped */
	struct kv_drained drained;
	bool drained_known;
	struct co *co; /* control loop only, with the rest */
	bool stop_asked;
	uint64_t drain_ns;
	struct round startup, drain, closing;
};

/* Where the server is (listen.c). */
struct place_at {
	struct sockaddr_storage addr; /* under the server's lock once it runs */
	socklen_t addr_len;
	_Atomic uint16_t port;
	struct fabric_at fabric; /* set before the shards are made */
};

struct keys {
	struct boot_context *boot;
	struct boot_keys *of_sessions;
	struct tenants *tenants; /* NULL: each client may do all */
	struct key_reload *reload;
};

struct threads {
	pthread_t thread[KV_SHARDS_MAX + 1];
	unsigned count;
};

/* The questions to the loops. The asking thread sets a flag, the loop clears it. */
struct liveness {
	_Atomic bool asked[KV_SHARDS_MAX + 1];
	uint64_t asked_ns[KV_SHARDS_MAX + 1]; /* the asking thread's */
	unsigned owes;                        /* the first loop that owed an answer; likewise */
};

struct kvs_server {
	struct kvs_options opt;    /* defaults filled in */
	char node_id[KV_NAME_MAX]; /* from the options; "": none */
	uint8_t host_id[16];
	uint64_t incarnation, shard_seed;
	struct boot_identity identity;
	struct keys keys;
	struct place_at at;
	struct loop *control;
	struct shard *shard[KV_SHARDS_MAX];
	struct loop *shard_loop[KV_SHARDS_MAX];
	struct threads threads;
	struct strangers strangers;
	struct clients clients;
	struct local_clients locals;
	struct views views;
	struct doubts doubts;
	struct doubt_orders doubt_orders;
	struct tenant_orders tenant_orders;
	struct places places; /* of the tenants */
	struct events events;
	struct liveness alive, health; /* of kvs_server_alive, of kvs_server_silence_ns */
	struct tier_files tier;        /* without --tier: none */
	struct kv_prefault *prefault;  /* makes pages in the background; or NULL */
	pthread_mutex_t lock;          /* of the members that say so */
	pthread_cond_t changed;        /* life.state */
	struct life life;
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

/* server_changed -- wake the conductor (start_stop.c), which may wait for this change. */
static inline void server_changed(struct kvs_server *s)
{
	if (s->life.co)
		co_wake(s->life.co);
}

#endif
