/* SPDX-License-Identifier: Apache-2.0 */
/* local_server.h -- servers on this host: their memory, mapped here, and leases of values in it. Private to kvclient/.
 *
 * A connection (struct kc_local) has a Unix socket to one server, and a channel, the arena and a landing area of each
 * shard. Its attachment and each lease hold it: a lease outlives attachment, client and pool, and the last holder frees
 * the connection, on any thread. An arena is mapped once per pool (struct kc_mapping).
 *
 * After its attachment has left, replies may still bring leases that nobody waits for. So the beats of all nodes, and
 * each release of one of its leases, read its channels (kc_home_drain, kc_lease_drop). */
#ifndef KVRAIL_KVCLIENT_CORE_LOCAL_SERVER_H
#define KVRAIL_KVCLIENT_CORE_LOCAL_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "kvclient/core/fork.h"
#include "local/local.h"

/* What the connections of a pool share. It outlives the pool. */
struct kc_home {
	pthread_mutex_t lock;
	unsigned refs;           /* under the lock: the pool, and each connection */
	struct kv_list mappings; /* under the lock */
	struct kv_list left;     /* under the lock: connections without their attachment */
	uint64_t files;          /* under the lock: descriptors of the connections */
	_Atomic uint64_t leases; /* held by callers */
};

/* One shard's arena, read-only. */
struct kc_mapping {
	struct kv_list node;
	uint64_t dev, ino, len_bytes; /* of its memfd */
	unsigned users;               /* under the lock */
	uint8_t *base;
};

struct kc_local_shard {
	struct local_channel *channel;
	struct kc_mapping *arena;
	uint8_t *landing; /* NULL: none */
	uint64_t landing_bytes;
};

struct kc_local {
	_Atomic uint32_t refs;
	_Atomic bool left;        /* without its attachment; never false again */
	_Atomic bool drained;     /* a thread reads its channels */
	struct kv_list left_node; /* home's; under its lock */
	struct kc_forked forked;  /* its descriptors change while fork() is held off */
	unsigned born;            /* kc_forks */
	struct kc_home *home;
	unsigned files; /* of home->files */
	int fd;         /* the Unix socket; -1: none yet */
	uint32_t shards;
	struct kc_local_shard shard[];
};

struct wire_reply;

/* A block of a shard's arena, read in place. */
struct kc_lease {
	struct kc_local *local; /* NULL: no lease */
	const uint8_t *at;
	uint64_t id;
	uint32_t shard;
};

/* kc_home_make -- for a pool: 0 or -KV_ENOMEM. kc_home_unref -- the pool or a connection needs it no more. Any
 * thread. */
int kc_home_make(struct kc_home **out);
void kc_home_unref(struct kc_home *home);

/* kc_local_make -- a connection without socket and shards, held by the caller. The descriptors of all connections of
 * the pool are files_max at most. 0, -KV_ELIMIT or -KV_ENOMEM. kc_local_unref -- the last one closes and unmaps all.
 * kc_local_fd -- it has this Unix socket from now on. Any thread. */
int kc_local_make(struct kc_home *home, unsigned shards, uint64_t files_max, struct kc_local **out);
void kc_local_fd(struct kc_local *l, int fd);
void kc_local_unref(struct kc_local *l);

/* kc_local_shard_take -- the next shard, as local_take_await received it: open its channel and map its memory. It
 * closes the descriptors. 0; -KV_EPROTO, -KV_ENOMEM with *err. */
int kc_local_shard_take(struct kc_local *l, unsigned shard, const uint8_t *proof, struct local_shard *received,
			struct kv_error *err);

/* kc_local_left -- the attachment uses the channels no more, and gives back its reference. kc_home_drain -- read the
 * channels of all connections that were left, and give back the leases there. Any thread. */
void kc_local_left(struct kc_local *l);
void kc_home_drain(struct kc_home *home);

/* kc_local_frame_drop, kc_local_reply_drop -- nobody waits for this frame, or reply, of a shard: give back its leases.
 * Any thread. */
void kc_local_frame_drop(struct kc_local *l, unsigned shard, const uint8_t *data, size_t len);
void kc_local_reply_drop(struct kc_local *l, unsigned shard, const struct wire_reply *p);

/* kc_lease_take -- hold [at, at + len) of a shard's arena. 0; -KV_EPROTO: outside. kc_lease_drop -- give it back, if
 * there is one, and zero *lease. Any thread. */
int kc_lease_take(struct kc_local *l, unsigned shard, uint64_t id, uint64_t at, uint64_t len, struct kc_lease *out);
void kc_lease_drop(struct kc_lease *lease);

#endif
