/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.h -- an attachment: everything that one WELCOME gives a client: a part on every shard
 * (shard/attachment.h), regions, further sessions. Control loop only. */
#ifndef KVRAIL_KVSERVER_CONN_ATTACHMENT_H
#define KVRAIL_KVSERVER_CONN_ATTACHMENT_H

#include "kvserver/conn/local_socket.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/session.h"

struct conn;

struct further_place {
	uint32_t next;       /* the next free place, while free; FURTHER_NONE: the last */
	uint16_t generation; /* of its number, 1..4095; 0: never used */
	bool used;
	struct tenant_places *places; /* while used: of its tenant; or NULL */
};

struct further {
	bool begun; /* the challenge was sent */
	uint32_t last_id;
	struct boot_challenge challenge;
	struct further_place *place;
	uint32_t places, cap, count, free, free_last; /* free: first in, first out */
};

struct attachment_call {
	struct call call;
	struct call aside; /* besides `call`, which may take long: stops the shard's part, or hurries its end */
	struct attachment *attachment;
	struct shard_attachment *on_shard; /* the shard's; NULL: none */
	struct kv_error error;
	struct te_address *addr; /* the shard's rails when it was opened; one array for all shards */
	uint64_t session_received;
	uint64_t generation, cleared_ns;
	struct wire_region landing; /* the content of a LANDING message, with arena_keys as its keys */
	uint8_t *arena_keys;
};

static inline struct attachment_call *attachment_call_of(struct call *call)
{
	return KV_CONTAINER(call, struct attachment_call, call);
}

struct attachment_regions {
	struct kv_list all; /* struct region */
	unsigned count;
	uint32_t keys;
};

/* Calls aside: beside those that the asker waits for. */
struct attachment_aside {
	struct co *asker; /* waits for them; NULL: none */
	unsigned pending;
};

struct attachment {
	struct kvs_server *server;
	struct conn *conn; /* outlives its attachments */
	bool ending;
	bool client_gone; /* it ends because the connection did */
	unsigned slot;
	uint32_t number;
	uint8_t token[KV_TOKEN_LEN];
	uint8_t frame_secret[BOOT_FRAME_SECRET]; /* until it is open on the shards */
	_Atomic bool anew;                       /* void: the client must begin another one */
	uint32_t mark;
	uint64_t client_id;
	unsigned rails;
	bool moved;                           /* the client had other addresses before */
	struct te_address addr[KV_RAILS_MAX]; /* the client's */
	struct attachment_regions regions;
	struct region *region;
	uint32_t region_id;
	uint32_t session_number;
	struct grant grant;
	uint64_t cleared_ns; /* see wire_welcome_msg, by the loop's clock */
	/* ... up to here */
	struct grant own; /* of its own session */
	struct co *asker; /* waits for the pending calls: the connection's reader, or the ending coroutine */
	unsigned pending;
	struct attachment_aside aside;
	struct kv_list watchers;       /* struct attachment_watch */
	struct attachment_call *call;  /* one per shard */
	struct te_address *shard_addr; /* target of their `addr` */
	struct further further;
	struct local_offer offer;
	struct tenant_places *places; /* of its tenant; or NULL */
};

/* A coroutine parked until an attachment is freed. */
struct attachment_watch {
	struct kv_list node;
	struct co *co;
};

/* attachment_create -- slot, number, token and keys; *boot is the connection's. 0; -KV_EFULL (no free slot),
 * -KV_EDENIED (grant_find), -KV_ENOMEM, or a code of entropy or TLS. */
int attachment_create(struct conn *conn, struct kvs_server *server, struct boot_conn *boot,
		      const struct wire_hello *hello, struct attachment **out, struct kv_error *err);

/* attachment_open_await -- insert the client's addresses on every shard. 0, or the first failure; attachment_end_await
 * follows in any case. */
int attachment_open_await(struct attachment *a, struct kv_error *err);

/* attachment_space_await -- a session was opened on all shards: bring its namespace to the highest generation of them,
 * and set a->grant.generation to it, and a->cleared_ns. */
void attachment_space_await(struct attachment *a);

/* attachment_cleared -- a->cleared_ns as clients see it. */
uint64_t attachment_cleared(const struct attachment *a);

/* attachment_all_await -- run this on every shard and wait for all. Returns 0 or the first failure, with its text in
 * *err (may be NULL). One at a time: for the connection's reader. */
int attachment_all_await(struct attachment *a, void (*run)(struct call *call), struct kv_error *err);

/* attachment_stop_await -- the client is gone, and the reader waits in attachment_all_await for transfers in flight:
 * stop the attachment on the shards, so that the wait ends. For the connection's beater. */
void attachment_stop_await(struct attachment *a);

/* attachment_end_await -- end it on the shards, wait until nothing is in flight there, and free it. Once. */
void attachment_end_await(struct attachment *a);

/* further_fini -- the attachment ends with its further sessions: lower the server's count. The shards drop them by
 * themselves. */
void further_fini(struct attachment *a);

/* attachment_find -- the attachment with this number and token, even an ending one; or NULL. */
struct attachment *attachment_find(const struct kvs_server *server, const struct wire_prior *prior);

/* attachment_meets -- whether this attachment may still write to a client with these addresses. */
bool attachment_meets(const struct attachment *a, const struct wire_hello *hello);

/* attachment_hurry -- a HELLO waits for this ending attachment: cut the client's old connections, where that harms no
 * others. Does not park. */
void attachment_hurry(struct attachment *a);

/* attachment_addresses -- store the client's addresses. attachment_region_add, attachment_region_forget -- a region
 * announced by the client, released by all shards. attachment_region_find -- or NULL. */
void attachment_addresses(struct attachment *a, const struct wire_blob_addr *addr, unsigned rails);
void attachment_region_add(struct attachment *a, struct region *r);
void attachment_region_forget(struct attachment *a, struct region *r);
struct region *attachment_region_find(const struct attachment *a, uint32_t id);

#endif
