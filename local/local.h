/* SPDX-License-Identifier: Apache-2.0 */
/* local.h -- client and server on one host: memory that both map, and the Unix socket over which it is passed.
 *
 * For each client engine that proved its key over the control connection, the server makes one channel per shard and
 * passes it, with the shard's arena and a landing area, over a Unix socket (pass.c). The client maps the arena
 * read-only and reads values in place. Frames travel in the channel's two rings; leases are given back in a third one.
 *
 * The two sides do not trust each other. Each copies bytes out of the shared pages before it looks at them, and
 * bounds every index. A side that scribbles harms only this channel: the other one gets -KV_EPROTO and stops using it.
 * No lock is shared, so a killed process blocks nobody. The kernel closes the socket of a process that dies. */
#ifndef KVRAIL_LOCAL_LOCAL_H
#define KVRAIL_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

enum {
	LOCAL_NAME_MAX = 108,         /* of a Unix socket with its final 0, as sun_path */
	LOCAL_NONCE_LEN = 16,         /* of the number that joins a Unix socket to its attachment */
	LOCAL_RING_BYTES = 128 << 10, /* of frames in each direction */
	LOCAL_LEASES_MAX = 16384      /* that a client may hold of one shard: the ring of releases never overflows */
};

/* ---- channel.c: frames and releases in shared memory ---- */

struct local_channel;

/* The descriptors of one shard, in the order in which they are passed. */
enum local_fd { LOCAL_ARENA, LOCAL_LANDING, LOCAL_CHANNEL, LOCAL_BELL, LOCAL_FDS };

struct local_shard {
	uint32_t shard, shards;
	uint64_t arena_bytes, landing_bytes; /* landing_bytes 0: none, and its descriptor is the channel's once more */
	int fd[LOCAL_FDS];                   /* the bell is a socket */
	uint8_t proof[LOCAL_NONCE_LEN];      /* as in LOCAL, which the taker compares */
};

/* local_channel_make -- the server's side: make the memory, sealed against other sizes, and the bells.
 * Owner: *out until local_channel_close. Thread: any. Errors: -KV_ENOMEM, -KV_ELIMIT (no descriptor), -KV_ENOTSUP
 * (no such memory on this machine), -errno. */
int local_channel_make(struct local_channel **out, struct kv_error *err);
/* local_channel_fds -- fill in the channel's two descriptors of *out. They stay the channel's. local_channel_passed --
 * the client has them: close these two here. Only then does the death of the client end the channel. */
void local_channel_fds(const struct local_channel *ch, struct local_shard *out);
void local_channel_passed(struct local_channel *ch);
/* local_channel_open -- the client's side: map a received channel. Takes its two descriptors out of *s (they become
 * -1), also after a failure. 0; -KV_EPROTO: not a sealed memfd of the right size, or no socket; -KV_ENOMEM. */
int local_channel_open(struct local_shard *s, struct local_channel **out, struct kv_error *err);
/* local_channel_close -- unmap it and close its descriptors. *ch becomes NULL; NULL is accepted. */
void local_channel_close(struct local_channel **ch);

/* local_channel_forked -- in a child of fork(), as its handler: close its copy of the bell, so that it does not keep
 * the channel from ending. The channel is its parent's: nothing more may be done with it. */
void local_channel_forked(struct local_channel *ch);

/* local_send -- put a frame of 1 to KV_MSG_MAX bytes into our ring, and ring the peer's bell if it sleeps. 0;
 * -KV_EBUSY: full, until the peer has read (local_sleep notices); -KV_EPROTO: the peer's index is impossible;
 * -KV_EPEERDOWN: the peer has closed the channel. Thread: one at a time, as for all functions of a channel but
 * local_release. */
int local_send(struct local_channel *ch, const void *data, uint32_t len);
/* local_receive -- copy the next frame out of the peer's ring into buf[KV_MSG_MAX]. 1 with *out_len; 0: none;
 * -KV_EPROTO: from now on always; -KV_EPEERDOWN: the peer has closed the channel, and there are no more frames. */
int local_receive(struct local_channel *ch, void *buf, uint32_t *out_len);

/* local_release -- the client gives a lease back: any number but UINT64_MAX. It rings no bell: a sleeping server finds
 * it when it wakes, after 10 ms at most. Thread: any, also while others send; at most LOCAL_LEASES_MAX leases are out,
 * so there is room. */
void local_release(struct local_channel *ch, uint64_t lease);
/* local_released -- the server takes the next one. 1 with *out_lease, or 0: none. The number is the client's word:
 * check it. A hostile client can refill the ring without end: stop at the first wrong one. */
int local_released(struct local_channel *ch, uint64_t *out_lease);

/* local_sleep -- before this side's loop sleeps: from now on the peer rings our bell for a frame, or for room after
 * -KV_EBUSY. 0; -EAGAIN: there is a frame, a release, room or a failure to find already. local_wake -- after it: the
 * peer need not ring, and the bell is quiet again. Both are harmless in any order. local_wait_fd -- our bell, readable
 * once it rang or the peer has closed the channel. */
int local_sleep(struct local_channel *ch);
void local_wake(struct local_channel *ch);
int local_wait_fd(const struct local_channel *ch);

/* ---- map.c: memory of the other side ---- */

/* local_map -- map len_bytes of a received memfd: the arena read-only, the landing area writable. It is refused unless
 * its size is sealed, because a shorter file would raise SIGBUS. The descriptor stays the caller's and may be closed.
 * 0, -KV_EPROTO, -KV_ENOMEM. local_unmap -- undo it; NULL is accepted. */
int local_map(int fd, uint64_t len_bytes, bool writable, void **out, struct kv_error *err);
void local_unmap(void *base, uint64_t len_bytes);

/* ---- pass.c: the Unix socket. On a loop; only *_await parks. tests/sim has a second implementation ---- */

/* local_listen -- listen on a Unix socket. name NULL: an abstract name of our choice; "@NAME": that abstract name; else
 * a path: a socket there without a listener is replaced, and every user may connect, because the nonce decides.
 * out_name[LOCAL_NAME_MAX]: the name for clients. 0, -KV_EINVAL (too long), -EADDRINUSE (another server listens there),
 * -errno. local_unlisten -- close it, and remove the path. */
int local_listen(const char *name, int *out_fd, char *out_name, struct kv_error *err);
void local_unlisten(int *fd, const char *name);

/* local_accept_await -- take the next connection. 0, or a code of io_accept_await. */
int local_accept_await(int listen_fd, int *out_fd, uint64_t deadline_ns);
/* local_peer_pid -- the process that connected, by its number here; 0: it has none here, as in another container. */
uint32_t local_peer_pid(int fd);
/* local_nonce_await -- receive the client's nonce on it. 0, -KV_EPROTO, or a code of io_read_await. */
int local_nonce_await(int fd, uint8_t nonce[LOCAL_NONCE_LEN], uint64_t deadline_ns);
/* local_give_await -- pass one shard. The descriptors stay the caller's. 0, or a code of io_write_await. */
int local_give_await(int fd, const struct local_shard *s, uint64_t deadline_ns);
/* local_ready_await -- after the last shard: wait for the client's word that it reads its channels now. 0; -ECONNRESET:
 * the client closed the socket instead, and uses the fabric; -KV_EPROTO: another byte; or a code of io_read_await. */
int local_ready_await(int fd, uint64_t deadline_ns);

/* local_connect_await -- connect to a server's name and send the nonce. 0; -KV_EINVAL: no name; -errno: of connect,
 * such as -ENOENT or -ECONNREFUSED where another container's socket is not mounted. */
int local_connect_await(const char *name, const uint8_t nonce[LOCAL_NONCE_LEN], int *out_fd, uint64_t deadline_ns);
/* local_take_await -- receive the next shard. The descriptors are the caller's, close-on-exec. 0; -KV_ELIMIT: this
 * process may not open so many; -ECONNRESET: the server closed the socket; -KV_EPROTO: something else. Their
 * descriptors are closed. Or a code of io_read_await. */
int local_take_await(int fd, struct local_shard *out, uint64_t deadline_ns);
/* local_ready_send_await -- after the last shard: everything is mapped, and the engine reads the channels. The server
 * sends nothing into a channel before this. A client that cannot map it all closes the socket instead. 0, or a code of
 * io_write_await. */
int local_ready_send_await(int fd, uint64_t deadline_ns);

/* local_end_await -- park until the other side has closed its end, which the kernel does for a process that dies.
 * Bytes that arrive are dropped. 0, or a code of io_read_await. */
int local_end_await(int fd, uint64_t deadline_ns);

#endif
