/* SPDX-License-Identifier: Apache-2.0 */
/* local_socket.h -- clients on this host: LOCAL_ASK, and the Unix socket over which they get the memory that they map.
 * Control loop only. */
#ifndef KVRAIL_KVSERVER_CONN_LOCAL_SOCKET_H
#define KVRAIL_KVSERVER_CONN_LOCAL_SOCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "local/local.h"

struct attachment;
struct conn;
struct co;
struct kvs_server;

enum {
	LOCAL_STRANGERS_MAX = 16, /* connections to the Unix socket that have not sent a nonce yet */
	LOCAL_FILES_SHARE = 4     /* a quarter of the free descriptors is for local clients, or what clients leave */
};

/* An attachment's nonce, until a socket brings it. */
struct local_offer {
	struct kv_list node; /* local_clients.offers */
	uint8_t nonce[LOCAL_NONCE_LEN], proof[LOCAL_NONCE_LEN];
	uint64_t until_ns;
	bool asked; /* LOCAL_ASK has come: it comes once in an attachment */
};

/* Of a server. */
struct local_clients {
	bool on;       /* clients are offered it; constant once the shards are made */
	int listen_fd; /* -1: it does not listen */
	char name[LOCAL_NAME_MAX];
	uint8_t boot_id[16];
	struct kv_list offers;
	struct kv_list strangers, clients;           /* struct local_conn; strangers: the oldest first */
	_Atomic unsigned stranger_count, count, max; /* tests read them, and lower max */
	struct co *co;                               /* accepts; NULL: none does */
};

/* local_clients_init -- prepare it. local_clients_plan -- the shards are made: whether there will be local clients, and
 * how many fit `files` descriptors. */
void local_clients_init(struct kvs_server *s);
void local_clients_plan(struct kvs_server *s, uint64_t files);

/* local_clients_listen -- listen, and accept in a coroutine of its own. 0, or a code with *err. Without local clients
 * it does nothing. */
int local_clients_listen(struct kvs_server *s, struct kv_error *err);

/* local_clients_quit_await -- stop listening. local_clients_end_await -- then close all sockets, and wait until the
 * shards have let go: after the shards are closed, so that nothing is stored over leased bytes. */
void local_clients_quit_await(struct kvs_server *s);
void local_clients_end_await(struct kvs_server *s);

/* local_answer_await -- answer LOCAL_ASK. 0; -KV_EPROTO: it was not offered, or has come before; or a code of
 * conn_send_await. */
int local_answer_await(struct conn *c, const uint8_t boot_id[16]);

/* local_withdraw -- the attachment ends, or a socket has brought the nonce: from now on it is worth nothing. */
static inline void local_withdraw(struct local_offer *o)
{
	kv_list_del(&o->node);
	explicit_bzero(o->nonce, sizeof(o->nonce));
	explicit_bzero(o->proof, sizeof(o->proof));
}

#endif
