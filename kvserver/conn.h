/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h -- a client's control connection, for conn.c and further.c. */
#ifndef KVRAIL_KVSERVER_CONN_H
#define KVRAIL_KVSERVER_CONN_H

#include "kvserver/server.h"

/* A place for a further session. */
struct further_place {
	uint32_t next;       /* free place after this one, if it is free: FURTHER_NONE is the last */
	uint16_t generation; /* of its number, 1..4095; 0: never used */
	bool used;
};

/* The further sessions of a connection, as the control loop sees them. */
struct further {
	bool begun; /* the challenge was given */
	uint32_t last_id;
	unsigned failures; /* proofs that were wrong, since ... */
	uint64_t failed_ns;
	struct boot_challenge challenge;
	struct further_place *place;
	uint32_t places, cap, count, free, free_last; /* free: first in, first out */
};

struct conn_call {
	struct call call, stop;
	struct conn *conn;
	struct session *session; /* the shard's; NULL: none */
	struct kv_error error;
	struct te_address addr[KV_RAILS_MAX]; /* the shard's rails, as of opening the session */
	uint64_t owner_received; /* of a further session that was closed */
	uint8_t *arena_keys;     /* of the shard, while they are sent */
	_Atomic uint64_t received; /* requests. Written by the shard with each frame: not beside another shard's */
};

struct conn {
	struct kv_list node, knock; /* knock: of server.knocking, while it has no session */
	struct kvs_server *server;
	int fd; /* until the TLS handshake is over; then -1 */
	struct sockaddr_storage peer;
	uint64_t source; /* of many connections, perhaps */
	struct boot_conn *boot;
	struct co *reader;
	bool beating, closing, admitted; /* beating: a coroutine is there for it */
	bool serving;                    /* it is open: beats begin */
	bool talking; /* its first bytes have come */
	bool cut;     /* to make room for others */
	bool told;    /* that the server ends */
	_Atomic bool anew;
	uint64_t accepted_ns;
	int slot; /* -1: none */
	uint32_t number;
	uint8_t token[KV_TOKEN_LEN];
	uint8_t frame_secret[BOOT_FRAME_SECRET]; /* until its sessions are open on the shards */
	uint32_t mark;
	uint64_t client_id;
	unsigned rails;
	struct te_address addr[KV_RAILS_MAX]; /* the client's */
	struct kv_list regions;
	unsigned region_count;
	uint32_t region_keys;
	/* what the pending calls are about */
	struct region *region;
	uint32_t region_id;
	uint32_t owner_number;
	unsigned pending;
	unsigned stopping; /* calls of stop_await */
	struct co *beater; /* the coroutine, once it runs */
	struct loop_timer timer; /* the next beat, while not beating */
	uint64_t due_ns, beats;
	struct conn_call *call; /* one per shard, from admission on */
	struct further further;
};

/* conn_all_await -- have every shard run this and wait until all have finished. Returns 0 or the first failure, with its text in
 * *err (may be NULL). One at a time: for the connection's reader. */
int conn_all_await(struct conn *c, void (*run)(struct call *call), struct kv_error *err);
int conn_send_await(struct conn *c, const struct wire_ctrl_msg *m);
const char *conn_name(const struct conn *c, char *buf, size_t cap);

/* further_message_await -- one of the SESSION messages. 0, or why the connection ends. further_fini -- it has ended: on the
 * shards its sessions went with the connection's own. */
int further_message_await(struct conn *c, const struct wire_ctrl_msg *m);
void further_fini(struct conn *c);

#endif
