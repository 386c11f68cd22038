/* SPDX-License-Identifier: Apache-2.0 */
/* local_client.h -- a client on the same host, on one shard: its channel, its landing area, and its leases. The shard's
 * thread. */
#ifndef KVRAIL_KVSERVER_SHARD_LOCAL_CLIENT_H
#define KVRAIL_KVSERVER_SHARD_LOCAL_CLIENT_H

#include "kvserver/shard/landing.h"
#include "kvserver/shard/shard.h"

struct call;
struct local_channel;
struct local_shard;

/* Memory that the client and this server alone map: the client writes the bytes of its PUTs there. */
struct local_landing {
	int fd;
	uint8_t *base;
	uint64_t bytes; /* 0: none */
	struct landing_turn turn;
};

/* Of the process that connected to the Unix socket, for people. */
struct local_who {
	uint32_t session, pid;           /* pid: 0: this process does not see it */
	char identity[KV_SPACE_MAX + 1]; /* the first bytes of it */
};

/* Drawn in local_client.c. */
struct shard_local {
	struct kv_list node; /* locals.all */
	struct shard *shard;
	struct shard_attachment *attachment;
	uint64_t client_id;
	uint64_t place;              /* in the list of holders: no two have the same, and none is 0 */
	const struct local_who *who; /* the connection's, until shard_local_close has finished; NULL: unknown */
	struct local_channel *channel;
	struct local_landing landing;
	int arena_fd; /* of kept memory, until it is passed; or -1 */
	struct lease_holder holder;
	bool garbled;       /* its ring of releases makes no sense: its leases end with its socket */
	bool more;          /* counted in locals.active */
	uint8_t parted;     /* ticks since the channel ended under its attachment */
	_Atomic bool spent; /* HOLDING, without leases: nothing comes of it any more. Read by the control loop */
	struct call *gone;  /* its socket is closed; finished when nothing is left */
};

/* shard_local_open -- make a channel and a landing area for the client of this attachment, which still uses the fabric.
 * *out until shard_local_close. 0; -KV_ECLOSED: the attachment, or the shard, ends; -KV_EEXIST: it has a channel;
 * -KV_ENOTSUP: the memory for values is private; -KV_ENOMEM, -KV_ELIMIT (descriptors), -errno, with *err. */
int shard_local_open(struct shard_attachment *s, struct shard_local **out, struct kv_error *err);

/* shard_local_begin -- the client reads its channel: send there from now on, and read the frames that wait there. 0;
 * -KV_ECLOSED: the attachment has ended, or has other addresses; or a code of te_peer_local, with *err. */
int shard_local_begin(struct shard_local *l, struct kv_error *err);

/* shard_local_fds -- the descriptors to pass to the client. They stay the shard's. shard_local_passed -- the client has
 * them: those that only it needs are closed. Thread: the control loop's, between open and close. */
void shard_local_fds(const struct shard_local *l, struct local_shard *out);
void shard_local_passed(struct shard_local *l);

/* shard_local_close -- the client's socket is closed. Its leases end in the next turns; an attachment that still uses
 * the channel ends at the second tick, unless its client says goodbye before. Before shard_local_begin the attachment
 * goes on. When nothing is left, *l is freed and
 * `gone` finished. */
void shard_local_close(struct shard_local *l, struct call *gone);

/* shard_local_leave -- the attachment ends, or has other addresses, and its requests are stopped: it does not use its
 * channel any more, nor its landing area, which is unmapped. The leases stay. */
void shard_local_leave(struct shard_attachment *s);

/* shard_locals_init -- none. shard_locals_turn -- take back released leases, and end those of closed sockets; returns
 * the number of things done. shard_locals_tick -- find channels that the engine gave up. shard_locals_quit -- before
 * the engine is closed: no attachment uses its channel any more. */
void shard_locals_init(struct shard *s);
int shard_locals_turn(struct shard *s);
void shard_locals_tick(struct shard *s);
void shard_locals_quit(struct shard *s);

/* shard_local_releases -- take back leases that this client has released, LOCALS_AT_ONCE at most; returns how many.
 * Also before each of its frames, so that a request finds released what its client released before. */
int shard_local_releases(struct shard_local *l);

#endif
