/* SPDX-License-Identifier: Apache-2.0 */
/* kvclient.h -- KVRail's client: get and put KV-cache blocks on kv-servers. The public API (C, stable ABI, kvc_
 * prefix).
 *
 * A pool has a fixed number of clients. A client has one engine (its endpoints), one registered buffer and a connection
 * to each server, and lives on one loop thread of the pool. A block is a value that is stored under a key.
 *
 * Threads. A comment below names one of three:
 *   worker  a coroutine of kvc_run or kvc_spawn. It makes the calls that end in _await; only these park it, and other
 *           workers of its loop run meanwhile. Worker w uses client w % num_clients, on that client's loop.
 *   host    a thread that turns no loop. It makes the calls without _await; most of them block it.
 *   any     both.
 * A worker must not keep its thread: until it parks, every call of its loop stands still.
 * fork(): a pool is of the process that opened it. In a child every call that returns a code ends at once with
 * -KV_ECLOSED; kvc_pool_close sets *pool to NULL and kvc_view_release zeroes the view, and neither touches what the
 * parent shares. The parent is not disturbed. A child may open a pool of its own: over tcp at any time, with NICs as
 * far as libfabric's provider allows it (EFA: FI_EFA_FORK_SAFE=1 before the parent's first call), on shm never. A
 * worker that forks must leave its child by exec or _exit; in the child it must not return, nor wait for the library. A
 * child that runs long without exec keeps the parent's connections open when the parent closes them.
 *
 * Deadlines. A call returns by its deadline plus the grace, with success or exactly one code. The deadline is the
 * call's timeout_ns from now; 0 means the pool's. If the pool's is 0, too, it is 5 s, and 1 s more for every 100 MB
 * that the call may move (dst_len, len, or all items of a batch together). The deadline of a call that blocks counts
 * from its beginning, also while its loop is busy. The grace (kvc_options.grace_ns) is the time in which a server must
 * confirm that it has stopped. If it does not, and memory of the caller is in question, the call fences before it
 * returns. On tcp behind a doorkeeper the fence cuts that server alone. Elsewhere it rebuilds the endpoint: some ms, up
 * to 100 ms on tcp with large rxm buffers, and on EFA seconds where a host died. No deadline bounds two things. A
 * worker that keeps its thread holds up the calls of its loop that have begun. A provider that pins memory or opens an
 * endpoint takes the time that it takes, and on shm a killed peer may leave it spinning for ever
 * (docs/internals/providers.md). A call that takes no timeout says below what bounds it.
 *
 * Memory. What a call is given is the caller's. The library reads and writes it during the call only; nothing touches
 * it once the call has returned. Exceptions say so. Outputs (out_..., *out) are written on success only, unless the
 * comment says otherwise. GET verifies the XXH3-64 of the value unless told not to: no wrong byte is delivered as good.
 *
 * Errors. A code is negative; codes.h has the list. `err` may be NULL everywhere. The library never calls exit or
 * abort, sets no environment variable (kvc_program_setup does) and installs no signal handler (libfabric's shm provider
 * does: docs/internals/providers.md). A comment lists the codes that are particular to its call. Any call may also end
 * with one of these:
 *   -KV_EINVAL     at once, nothing done: NULL where something is needed, a length of 0, a key of more than 128 bytes,
 *                  a `size` field that is not set, a flag that no call knows, an _await call not made by a worker of
 *                  that client, a call that blocks made on a loop's thread
 *   -KV_ECLOSED    the pool is being closed (a call in progress ends by the grace), or this is a child of fork()
 *   -KV_ENOMEM     no memory in this process
 * A call that asks a server may also end with one of these, the server codes:
 *   -KV_ETIMEOUT   the deadline has passed
 *   -KV_EPEERDOWN  the server cannot be reached, or was lost during the call
 *   -KV_EDENIED    the server is there and refuses the key or certificate of this client
 *   -KV_EVERSION   the server is there, and its release, provider or eager size does not match
 *   -KV_EBUSY      the server was busy at eight retries within a quarter of a second
 *   -KV_EPROTO     the server sent nonsense
 *   -KV_EPROVIDER  the fabric provider failed up to the deadline
 * A call that blocks, and runs on a client's loop, may also end with one of these, the loop codes:
 *   -KV_EBUSY      the loop's queue is full: nothing was begun
 *   -KV_ETIMEOUT   the loop did not come to the call by its deadline, and never will
 *
 * Struct sizes. In a struct with a `size` field set it to sizeof and zero the rest: a zero field means its default. A
 * program may be older or newer than its library. If it is newer and sets something that the library does not know, the
 * call ends with -KV_EINVAL, and with a sentence where it takes a struct kv_error. In a struct that the library fills,
 * `size` says afterwards how much of it this library knows; the rest is zeroed. Fields called `reserved` must be zero
 * in what you fill (else -KV_EINVAL) and are zero in what the library fills. */
#ifndef KVRAIL_KVCLIENT_KVCLIENT_H
#define KVRAIL_KVCLIENT_KVCLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/codes.h" /* installed as <kvrail/codes.h>, beside this one */

#ifdef __cplusplus
extern "C" {
#endif

#define KVC_API __attribute__((visibility("default")))

struct kvc_pool;
struct kvc_client;
struct kvc_mem;
struct kvc_sub;

/* ---- the pool ---- */

enum kvc_flag {
	KVC_NO_VERIFY = 1, /* do not check checksums of GETs */
	/* Keys of a server that is down are -KV_ENOTFOUND, whatever the reason, instead of -KV_EPEERDOWN; not for PUT.
	 * Keys of a server that said goodbye before it ended always are, until it is back; a PUT there is -KV_ELEFT. */
	KVC_DOWN_IS_MISS = 2,
	KVC_NO_PREFLIGHT = 4, /* do not add up beforehand what all clients need: to see how many there can be */
	KVC_OPEN_WAIT = 8     /* kvc_pool_open waits until every client has a server, and fails if one has none */
};

/* Which side moves the bytes of a GET. Push: the server writes them. Pull: the client reads them out of the server's
 * memory, which the server must allow (kv-server --allow-pull); for NICs that can only read, and for servers short of
 * CPU. */
enum kvc_mode {
	/* Pull where the server allows it, the provider would emulate its writes and does not emulate our reads; else
	 * push. */
	KVC_MODE_AUTO,
	KVC_MODE_PUSH,
	/* A server that does not allow it counts as down; an opening that waits fails with -KV_ENOTSUP. The server
	 * pushes all the same where it has no room for another lease, and for a call whose leases ran out twice. */
	KVC_MODE_PULL
};

/* For machines with several NUMA nodes. AUTO: a client's buffer, and what its engine allocates, come from the node of
 * its NICs, and the pool's threads are bound to that node's CPUs, as far as the process may use them. The library never
 * binds a thread that is not its own. */
enum kvc_numa { KVC_NUMA_AUTO, KVC_NUMA_OFF };

/* The doorkeeper (docs/guide/security.md). Each client of a pool has a fabric port in this process. On providers tcp
 * and tcp-native the doorkeeper lets only servers connect there that the pool has authenticated, and checks what they
 * send before libfabric reads it. For that it replaces functions that libfabric imports (accept, recv, close and
 * others) in libfabric's import table, once per process; calls on sockets that are not the pool's are passed on. AUTO:
 * where that can be done, with a warning where not. REQUIRE: kvc_pool_open fails with -KV_ENOTSUP where not, also on
 * all other providers. OFF: nothing is replaced. */
enum kvc_door { KVC_DOOR_AUTO, KVC_DOOR_REQUIRE, KVC_DOOR_OFF };

/* Strings are copied by kvc_pool_open. What log, log_arg, pin_lost and pin_lost_arg point to must live as long as the
 * pool. After a field stands its default; where none is named, 0 and NULL mean "not used". */
struct kvc_options {
	size_t size;
	unsigned num_clients;  /* 4. Each costs an endpoint per rail, and its buffers; above 8 there is a warning */
	unsigned num_threads;  /* half of the cores, 1 to 4; 4 on shm, where clients copy. At most num_clients start */
	uint64_t buffer_bytes; /* per client: 64 MiB; 1 MiB to 64 GiB */
	/* "NAME=HOST:PORT" or "HOST:PORT" each; at least one. Keys are placed by these names alone, and an entry
	 * without a name is named by its HOST:PORT. So every client of the same servers must have the same list, in any
	 * order. A server with a node id (kv-server --node-id) must be called by it. A server that says another id, or
	 * that is in the list twice, is not used, and fails an opening that waits. */
	const char *const *servers;
	unsigned num_servers;
	const char *provider; /* "auto": efa, else verbs, else tcp */
	/* Only these NICs, in this order: names with commas between them, each a device ("mlx5_0", "eth0") or an IP
	 * address of this machine. A name that is not there is -KV_ENOTSUP; the sentence lists those that are. */
	const char *nic;
	/* NICs per client. 0: all of `nic`. Without `nic`: on EFA the client's share of the machine's, 8 at most; on
	 * everything else 1, because two NICs may be on two networks. */
	unsigned num_rails;
	/* Deadline of calls that name none, and of calls that take none; 0: 5 s, and 1 s more for every 100 MB. */
	uint64_t timeout_ns;
	uint64_t grace_ns; /* 50 ms; a minute at most */
	/* 5 s. Of one attempt to reach a server: looking up its name, trying all its addresses, and the first answers
	 * of its links. */
	uint64_t connect_timeout_ns;
	uint64_t spin_ns;        /* poll at most this long before sleeping, while that pays; 0: 50 us; 1: never */
	uint64_t base_client_id; /* 100. The server shows it, plus the client's index */
	unsigned flags;          /* enum kvc_flag */
	/* "identity:hex", in a file of one line or directly; `kv-server --make-psk FILE` makes one. */
	const char *psk_file, *psk;
	const char *cert_file, *key_file, *ca_file;          /* PEM; all three or none, and not beside a psk */
	int log_level;                                       /* 0 off, 1 error, 2 warn, 3 info, 4 debug */
	void (*log)(void *arg, int level, const char *line); /* thread: any; NULL: lines go to stderr */
	void *log_arg;
	/* 2 s. A server that is silent for so long is down. At least two of its heartbeats (kv-server --heartbeat-ms,
	 * 500). 20 ms to 1 hour. */
	uint64_t peer_timeout_ns;
	/* Calls that take so long are logged with where their time went (level warn, ten lines a second and client):
	 * docs/reference/counters.md. 0: none. */
	uint64_t slow_ns;
	/* kvc_pool_open calls it on its own thread while it waits, ten times a second and after each client. It says
	 * how many clients have their endpoints and buffers, and how many have a server. Return false to give up:
	 * -KV_ECANCELED. May be NULL. */
	bool (*opening)(void *arg, unsigned clients_open, unsigned clients_up);
	void *opening_arg;
	enum kvc_mode mode;
	enum kvc_numa numa;
	enum kvc_door door;
	/* With certificates. A server's must be made for servers (extended key usage serverAuth), and one of its
	 * subject alternative names must be the host of its entry in `servers` as it is written there, a DNS name or an
	 * IP address; or this name, if it is given, for every server. */
	const char *server_name;
	/* With certificates. PEM file of revocation lists, one of every CA in the servers' chains. It is read again
	 * when it changes; a list that has expired refuses every server. NULL: revocation is not checked. */
	const char *crl_file;
	/* A pin was lost with a connection and could not be made again. Either the value is gone (evicted, deleted, or
	 * the server was restarted), or there is no room for the pin, or no answer came within the pool's timeout. To
	 * keep the value, store and pin it anew. Runs on the client's loop: it must return at once and call nothing of
	 * the library. The key is valid until it returns. session: whose pin it was; NULL: the client's own. Without a
	 * callback the counter pins_lost and a line of the log tell of the loss. */
	void (*pin_lost)(void *arg, struct kvc_client *client, const void *key, size_t key_len,
			 struct kvc_sub *session);
	void *pin_lost_arg;
};

/* kvc_pool_open -- start loops, engines and buffers, and begin to connect every client to every server.
 *
 * It returns when all clients have their engines and buffers; servers may come later. With KVC_OPEN_WAIT it also waits
 * until every first attempt to connect has succeeded or failed. The first client that cannot be opened ends it, and the
 * others are closed again.
 * Blocks: for the provider's time; up to 1 s to look up the first server that can be reached, whose address decides
 * which interface the fabric takes; with KVC_OPEN_WAIT up to connect_timeout_ns more; up to 1 s to undo a failure.
 * Thread: host.
 * Owner: options are read during the call. *out is the caller's until kvc_pool_close.
 *
 * Servers that are down are tried in the background, at least twice a second. A call to a server that was not reached
 * yet waits for the first attempt, by its own deadline or connect_timeout_ns. Once that has failed, a call ends at once
 * with -KV_EPEERDOWN (KVC_DOWN_IS_MISS: a miss), -KV_EDENIED or -KV_EVERSION, until the server takes us. The log and
 * kvc_server_info have the whole sentence.
 *
 * Two effects on the process. Names are looked up by at most four threads, which may live for half a minute after the
 * pool was closed where name servers do not answer: the library must stay loaded until then. Descriptors 0 to 2 that
 * are closed are opened on /dev/null and stay so; else what the process writes to standard error would go to whichever
 * file gets the number next.
 *
 * Errors:
 *   -KV_EINVAL     an option, or a file of keys or certificates, cannot be used
 *   -KV_EDENIED    other users may read or write a file of keys
 *   -KV_ENOTSUP    no such provider or NIC; KVC_DOOR_REQUIRE or KVC_MODE_PULL cannot be had here
 *   -KV_ELIMIT     a resource is short; the sentence names the limit and how to lift it
 *   -KV_EPROVIDER  the provider failed
 *   -KV_ECANCELED  options->opening returned false
 * With KVC_OPEN_WAIT, where a server is not the one that the list says:
 *   -KV_EINVAL
 * With KVC_OPEN_WAIT, where some client has no server, the code of the first attempt that failed:
 *   -KV_EPEERDOWN, -KV_ETIMEOUT, -KV_EDENIED, -KV_EVERSION
 *   -KV_EFULL      the server admits no more clients
 *   -KV_ENOTSUP    KVC_MODE_PULL, which the server does not allow
 *   -KV_EPROTO     the server ended the connection, as it does where we showed no key */
KVC_API int kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err);

/* kvc_pool_close -- close the pool and free all of it.
 *
 * Calls in progress end with -KV_ECLOSED within the grace. Workers must return. Then the servers are told goodbye and
 * the threads end. A server that does not answer the goodbye within 1 s, or is only being connected to, is left
 * without.
 * Blocks: until the last worker and the last call have returned, and 1 s more at most. Thread: host; on a loop's thread
 * it does nothing.
 * Owner: *pool becomes NULL; NULL is accepted. Views, registrations and sessions go with the pool. */
KVC_API void kvc_pool_close(struct kvc_pool **pool);

/* kvc_run -- run workers fn(client, w, arg) for w = 0 .. num_workers - 1, until all have returned.
 *
 * All are started or none.
 * Blocks: until the last has returned; starting them is bounded by the pool's timeout. Thread: host.
 * Owner: arg is the caller's, and must live until kvc_run returns.
 * Errors: none was started.
 *   -KV_EBUSY      a loop has no room for so many coroutines, or its queue is full
 *   -KV_ETIMEOUT   a loop is stuck */
KVC_API int kvc_run(struct kvc_pool *pool, unsigned num_workers,
		    void (*fn)(struct kvc_client *client, unsigned w, void *arg), void *arg);

/* kvc_spawn -- start one more worker fn(client, w, arg), on the client of worker w.
 *
 * Blocks: until it is started, by the pool's timeout; not at all for a worker. Thread: host, or a worker of that
 * client's loop (of another loop: -KV_EINVAL).
 * Owner: arg is the caller's, and must live until fn returns.
 * Errors: fn never runs.
 *   -KV_EBUSY      the loop has no room for another coroutine, or its queue is full
 *   -KV_ETIMEOUT   the loop is stuck */
KVC_API int kvc_spawn(struct kvc_pool *pool, unsigned w, void (*fn)(struct kvc_client *client, unsigned w, void *arg),
		      void *arg);

/* kvc_num_clients -- as opened: options.num_clients, or its default; of NULL: 0. Thread: any; never blocks. */
KVC_API unsigned kvc_num_clients(const struct kvc_pool *pool);
/* kvc_client_pool -- the pool of a worker's client; of NULL: NULL. Thread: any; never blocks. */
KVC_API struct kvc_pool *kvc_client_pool(struct kvc_client *client);

/* ---- memory ---- */

/* kvc_register -- register [base, base + len_bytes) with every client and announce it to every server, as target and
 * source of transfers without copies.
 *
 * Any size, any address; all of it mapped, readable and writable. A pool has at most 256 registrations.
 * Blocks: until all servers that are up have answered, by the pool's timeout for all of them, plus the time that
 * pinning takes: with NICs 0.1 to 1 s for each GiB. (Threads that end before it returns make the pages first; the
 * clients work on meanwhile.) What was done is undone on failure, by the grace for all servers. Thread: host.
 * Owner: the memory stays the caller's, and must stay mapped until kvc_unregister returned 0.
 * Errors: also the loop codes.
 *   -KV_EINVAL     it overlaps another registration, is not mapped or is not writable: *err says where
 *   -KV_ELIMIT     too many registrations, or a limit of the machine or the NIC
 *   -KV_ENOMEM     no pages, or the NIC has no room
 *   -KV_EPROVIDER  the provider refuses the memory
 *   -KV_ETIMEOUT   a server did not answer */
KVC_API int kvc_register(struct kvc_pool *pool, void *base, uint64_t len_bytes, struct kvc_mem **out,
			 struct kv_error *err);

/* kvc_unregister -- undo kvc_register. First no client uses the memory any more, then the servers are told.
 *
 * Blocks: by the pool's timeout. A server that has not confirmed by then is connected anew, which is as safe. Thread:
 * host.
 * Owner: on 0 *mem becomes NULL and the memory may be unmapped. On failure both stay. *mem NULL: 0.
 * Errors:
 *   -KV_EBUSY      a call still uses it, or a loop's queue is full: call again
 *   -KV_ETIMEOUT   a loop is stuck: call again
 *   -KV_EINVAL     it is no registration of this pool */
KVC_API int kvc_unregister(struct kvc_pool *pool, struct kvc_mem **mem);

/* A view: a piece of a client's registered buffer that the caller has borrowed. */
struct kvc_view {
	void *data;
	uint64_t len;       /* bytes of value in it */
	uint64_t value_len; /* bytes of the whole value */
	uint64_t priv[5];   /* the library's */
};

/* kvc_view_acquire_await -- borrow len_bytes of the client's buffer, to fill and PUT without a copy.
 *
 * Parks: until the buffer has room, by the deadline (timeout_ns as in struct kvc_call). Thread: worker.
 * Owner: the bytes are the caller's until kvc_view_release. *out is zeroed on failure.
 * Errors:
 *   -KV_ETIMEOUT   no room came free
 *   -KV_ETOOBIG    more than the buffer */
KVC_API int kvc_view_acquire_await(struct kvc_client *client, uint64_t len_bytes, uint64_t timeout_ns,
				   struct kvc_view *out);

/* kvc_view_release -- give a view back to the client that lent it. The view is zeroed; a zeroed view is accepted.
 * Parks: no. Thread: that client's loop (a worker of it). */
KVC_API void kvc_view_release(struct kvc_client *client, struct kvc_view *view);

/* ---- calls ---- */

struct kvc_key {
	const void *data;
	size_t len; /* 1..128 bytes */
};

/* Where the time of a call went, in nanoseconds; docs/reference/counters.md says what each part is, and when it is
 * long. The parts add up to total_ns (post_ns is a part of server_ns). A call that needed several requests tells about
 * the one that took longest. The clock is the client's; the server's parts are durations that came with its reply. */
struct kvc_phases {
	size_t size;        /* set it before the call */
	uint64_t total_ns;  /* from the call to its return */
	uint64_t room_ns;   /* until it had a connection and room for its request */
	uint64_t queue_ns;  /* until its frame was handed to the engine */
	uint64_t server_ns; /* at the server, from the request's arrival until its reply was made */
	uint64_t post_ns;   /* at the server, until the last data operation was posted */
	uint64_t wire_ns;   /* handed to the engine -> reply taken, less server_ns: both ways, both engines */
	uint64_t data_ns;   /* reply taken -> the last data write arrived */
	uint64_t wake_ns;   /* the last request was done -> the call's coroutine ran again */
	uint64_t check_ns;  /* -> it returned: checksum, copies */
	uint64_t other_ns;  /* the rest: other requests of the call, pauses before it was tried again */
};

/* Options of one call; NULL means all defaults. A value of 1 GiB takes some 7 s over loopback TCP: a timeout that you
 * name must have room for it. */
struct kvc_call {
	size_t size;
	uint64_t timeout_ns; /* 0: the pool's */
	uint64_t offset;     /* GET: read from here; at the value's end: 0 bytes; beyond: -KV_EINVAL */
	/* GET: so many bytes from `offset`; 0: to the end. A part of a value is verified by a checksum that the server
	 * makes of that part. */
	uint64_t length;
	uint32_t ttl_s;  /* PUT, TOUCH: 0 means the server's default */
	unsigned flags;  /* KVC_NO_VERIFY, KVC_DOWN_IS_MISS, besides those of the pool; any other: -KV_EINVAL */
	uint32_t server; /* STAT, PING, RAW: index of the server */
	uint32_t shard;  /* STAT, PING: 0: all; n: shard n - 1 alone (-KV_EINVAL: it has not so many) */
	/* Any call. Written when the call returns, unless it did not begin (-KV_EINVAL, -KV_ECLOSED; for a call that
	 * blocks also when its loop did not come to it). NULL: not measured, and no clock is read for it. */
	struct kvc_phases *phases;
	/* The session that makes the call; NULL: the client's own. It must be of the same client (-KV_EINVAL); a call
	 * that blocks runs on its client. */
	struct kvc_sub *session;
};

/* kvc_get_await -- read the value of a key into dst.
 *
 * Parks: yes. Thread: worker.
 * Owner: dst is the caller's. The server writes into it directly if it lies in registered memory (kvc_register); other
 * memory is filled by a copy from the client's buffer. Values of up to 3 KiB come inside the reply.
 * Returns how many bytes are in dst: the length of the value, or of the part that was asked for. After a failure dst is
 * undefined.
 * Errors: also the server codes.
 *   -KV_ENOTFOUND  no such key; or its server ended with a goodbye; or is down, with KVC_DOWN_IS_MISS
 *   -KV_ETOOBIG    the value is longer than dst_len
 *   -KV_ECORRUPT   the checksum was wrong twice
 *   -KV_EINVAL     call->offset lies beyond the value */
KVC_API int64_t kvc_get_await(struct kvc_client *client, struct kvc_key key, void *dst, uint64_t dst_len,
			      const struct kvc_call *call);

/* kvc_get_view_await -- read the value of a key into the client's own buffer, without a copy.
 *
 * expect_len: a guess of the length; a wrong one costs a second round trip. 0: call->length, else the length of the
 * client's last value.
 * Parks: yes. Thread: worker.
 * Owner: the view is the caller's until kvc_view_release. *out is zeroed on failure.
 * Returns out->len.
 * Errors: as kvc_get_await, but
 *   -KV_ETOOBIG    the value is larger than half of the buffer
 *   -KV_EBUSY      also: its length changed from try to try */
KVC_API int64_t kvc_get_view_await(struct kvc_client *client, struct kvc_key key, uint64_t expect_len,
				   const struct kvc_call *call, struct kvc_view *out);

/* kvc_put_await -- store a value of 1 byte to 1 GiB. It becomes visible as a whole or not at all.
 *
 * Storing the same bytes again succeeds, counts as a use, and lets the value live until the later of both times.
 * Parks: yes. Thread: worker.
 * Owner: data is the caller's. The server reads it directly if it lies in registered memory or in a view of this
 * client; other memory is copied. Values of up to 3 KiB travel inside the request, and all values where
 * kvc_server_info.put_inline is set.
 * Errors: also the server codes.
 *   -KV_EEXIST     other bytes are stored under the key, and stay. Routine where blocks are computed anew, since their
 *                  last bits differ: take it as stored (counter put_conflicts, not errors)
 *   -KV_ENOMEM     also: the server cannot make room
 *   -KV_ETOOBIG    longer than 1 GiB, than kv-server --value-max, or than a shard
 *   -KV_ELEFT      the server ends, or has ended, and said so */
KVC_API int kvc_put_await(struct kvc_client *client, struct kvc_key key, const void *data, uint64_t len,
			  const struct kvc_call *call);

/* kvc_exists_await -- which of n keys exist.
 *
 * out_found[i] becomes 1 or 0, *out_prefix the number of keys from the start that exist. Either may be NULL.
 * Parks: yes. Thread: worker. On failure *out_prefix is untouched, and out_found may be written in part.
 * Errors: the server codes, when any server that is asked fails. Keys of a server that ended with a goodbye, or is
 * down, with KVC_DOWN_IS_MISS, do not exist. */
KVC_API int kvc_exists_await(struct kvc_client *client, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
			     unsigned *out_prefix, const struct kvc_call *call);

/* The calls about one key. Each parks. Thread: worker. The key is read during the call. They return 0 or a code.
 * Errors: also the server codes.
 *   -KV_ENOTFOUND  no such key; or its server ended with a goodbye; or is down, with KVC_DOWN_IS_MISS */

/* kvc_delete_await -- delete a value. A GET that is reading it goes on to its end. */
KVC_API int kvc_delete_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
/* kvc_touch_await -- let a value live for call->ttl_s from now (0: the server's default). It counts as a use. */
KVC_API int kvc_touch_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
/* kvc_ttl_await -- how long a value still has to live, in milliseconds; UINT64_MAX: it does not expire. It does not
 * count as a use. out_left_ms may be NULL. */
KVC_API int kvc_ttl_await(struct kvc_client *client, struct kvc_key key, uint64_t *out_left_ms,
			  const struct kvc_call *call);
/* kvc_pin_await -- keep a value from eviction, until it is unpinned or deleted, expires, or the pool (or call->session)
 * is closed.
 *
 * After a reconnect the client pins it again by itself, or tells of the loss (kvc_options.pin_lost). A second pin adds
 * nothing; one unpin takes it away.
 * Errors: also those above.
 *   -KV_EBUSY      also: over the server's budget. A session may pin a quarter of the memory of the shard that the key
 *                  is on, all sessions together half of it, less where stages and leases leave less */
KVC_API int kvc_pin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
/* kvc_unpin_await -- let a pinned value go. While its server is down it fails, and still the pin is not made again. */
KVC_API int kvc_unpin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);

/* kvc_ping_await -- ask every shard of call->server for an answer (call->shard: that one), one after the other.
 * Parks: yes. Thread: worker. 0 when all have answered.
 * Errors: also the server codes.
 *   -KV_EINVAL     there is no such server or shard */
KVC_API int kvc_ping_await(struct kvc_client *client, const struct kvc_call *call);

/* One item of a batch. */
struct kvc_item {
	struct kvc_key key;
	void *data;   /* destination of GET, source of PUT */
	uint64_t len; /* bytes of value that data takes (GET) or has (PUT); gaps between slices not counted */
	/* GET: deliver the value as slices of `slice` bytes that begin `stride` bytes apart, from data on: one block
	 * into many layers. slice 0, or len and more: contiguous; stride below slice: -KV_EINVAL for the item. Small
	 * items, and slices that are pulled, are copied into registered memory. PUT: both 0, its source is one piece
	 * (else -KV_EINVAL for the item). */
	uint64_t slice, stride;
	int64_t result;    /* GET: value length or a code; PUT: 0 or a code */
	uint64_t reserved; /* 0 */
};

/* kvc_get_batch_await, kvc_put_batch_await -- n items at once, each with its own result.
 *
 * Items of one server do not wait for those of another; the call waits for all. Partial results stay.
 * Parks: yes. Thread: worker.
 * Owner: items, their keys and their data are the caller's. Every result is written, also when the whole was refused or
 * given up before it began: then it is that code.
 * Returns 0 when every item succeeded, else the code of the first item that did not.
 * Errors: per item, as kvc_get_await and kvc_put_await. */
KVC_API int kvc_get_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n,
				const struct kvc_call *call);
KVC_API int kvc_put_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n,
				const struct kvc_call *call);

/* Server statistics, of all its shards together: counters and gauges are summed, of maxima it is the largest. Strings
 * are static. docs/reference/counters.md has a line about each. */
enum kvc_stat_kind {
	KVC_STAT_COUNTER, /* only rises while the server runs */
	KVC_STAT_GAUGE,   /* as of now */
	KVC_STAT_MAXIMUM  /* since the server was started */
};
struct kvc_stat_item {
	const char *name;
	uint64_t value;
	const char *group; /* "requests", "answers", "time", "memory", "peers", "fabric" */
	const char *unit;  /* "", "bytes", "ns" */
	enum kvc_stat_kind kind;
	uint32_t reserved_32;
	uint64_t reserved[2];
};

/* kvc_stat_await -- the statistics of call->server (call->shard: of one shard), at most max items.
 * Parks: yes. Thread: worker. Returns how many items were written.
 * Errors: also the server codes.
 *   -KV_EINVAL     there is no such server or shard */
KVC_API int kvc_stat_await(struct kvc_client *client, struct kvc_stat_item *out, unsigned max,
			   const struct kvc_call *call);

/* ---- further sessions ----
 * A session of a logical client, over the connections of a client. At every server it has its own token, credits, pins
 * and goodbye, and it has its turn on the client's links. So tens of thousands of sessions share a few endpoints. It
 * costs no endpoint, region or buffer, but some 300 bytes here. Its pins (kvc_pin_await with `session`) go with it.
 * After a reconnect it is opened again by itself; a call that needs it waits for that by its deadline. */

struct kvc_session_options {
	size_t size;
	/* "identity:hex": the logical client's own key, which the server knows from --session-keys. NULL: what the
	 * client showed when it connected is enough. */
	const char *psk;
	uint64_t client_id;  /* shown by the server; 0: the client's */
	uint64_t timeout_ns; /* 0: the pool's, as for calls */
};

/* kvc_session_open_await -- open a session at every server that is up; at the others it is opened when they are.
 *
 * It takes a round trip of the control connection. Many may be opened at once, from several coroutines.
 * Parks: until it is open at all servers that are up. Thread: worker.
 * Owner: options are read during the call; NULL: all defaults. *out is the caller's until kvc_session_close.
 * Errors: it is open nowhere then.
 *   -KV_EDENIED    a server refuses the key or identity. After the fifth refusal within a minute the server ends the
 *                  client's whole connection: every call on it, of whichever session, ends with -KV_EPEERDOWN or is
 *                  tried again on the next connection
 *   -KV_EFULL      kv-server --max-clients or --max-sessions is reached
 *   -KV_EINVAL     options->psk is not "identity:hex"
 *   -KV_ENOTSUP    the server is of an older release
 *   -KV_EPEERDOWN  no server is up
 *   -KV_EVERSION   no server is up, and the first of the list does not take this client (or -KV_EDENIED)
 *   -KV_ETIMEOUT   a server did not answer */
KVC_API int kvc_session_open_await(struct kvc_client *client, const struct kvc_session_options *options,
				   struct kvc_sub **out, struct kv_error *err);

/* kvc_session_close_await -- say goodbye to the servers and free the session. Its calls must have returned.
 *
 * Parks: until the servers have confirmed, by the timeout (0: the pool's). Thread: worker of its client.
 * Owner: *session becomes NULL, unless nothing was done; NULL is accepted. Sessions that are open when the pool is
 * closed go with it, and may not be used afterwards.
 * Errors:
 *   -KV_EBUSY      nothing done: a call with it is in progress, it is being closed already, or by the timeout its pins
 *                  are still being made again. (Meanwhile calls that begin with it end with -KV_EINVAL.)
 *   -KV_ETIMEOUT   it is closed here; the servers still have to confirm, or lose the connection */
KVC_API int kvc_session_close_await(struct kvc_client *client, struct kvc_sub **session, uint64_t timeout_ns);

/* kvc_session_open, kvc_session_close -- the same for other threads; the session is opened on the client of worker w.
 * While it is being closed, no call with the session may be in progress or begin.
 * Blocks: by the timeout. Thread: host.
 * Errors: also the loop codes; after these nothing was done. */
KVC_API int kvc_session_open(struct kvc_pool *pool, unsigned w, const struct kvc_session_options *options,
			     struct kvc_sub **out, struct kv_error *err);
KVC_API int kvc_session_close(struct kvc_pool *pool, struct kvc_sub **session, uint64_t timeout_ns);

struct kvc_session_info {
	size_t size;
	unsigned client;            /* the index of its client */
	bool open;                  /* at the server asked about */
	int status;                 /* why it is not open: the server's refusal; 0: it is still to be opened */
	uint32_t number;            /* the server's, within the client's connection */
	uint32_t credits;           /* requests that it may have unanswered at each shard */
	uint32_t credits_in_use;    /* at all shards together */
	uint32_t queued;            /* requests that wait for their turn */
	uint64_t requests, replies; /* at all servers, since it was opened */
};

/* kvc_session_info -- a session as it stands at server `server` (an index into options.servers).
 * Blocks: by the pool's timeout; not on the session's own loop. Thread: any but another loop's.
 * Errors: also the loop codes.
 *   -KV_EINVAL     there is no such server, or it is no session of this pool */
KVC_API int kvc_session_info(struct kvc_pool *pool, struct kvc_sub *session, unsigned server,
			     struct kvc_session_info *out);

/* ---- the same for other threads ----
 * Each is its _await namesake, for other threads. It runs on the next client of the pool in turn, or on that of
 * call->session.
 * Blocks: by the deadline and the grace. Thread: host.
 * Errors: as the namesake, and the loop codes. */

KVC_API int64_t kvc_get(struct kvc_pool *pool, struct kvc_key key, void *dst, uint64_t dst_len,
			const struct kvc_call *call);
KVC_API int kvc_put(struct kvc_pool *pool, struct kvc_key key, const void *data, uint64_t len,
		    const struct kvc_call *call);
KVC_API int kvc_exists(struct kvc_pool *pool, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
		       unsigned *out_prefix, const struct kvc_call *call);
KVC_API int kvc_delete(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call);
KVC_API int kvc_touch(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call);
KVC_API int kvc_ttl(struct kvc_pool *pool, struct kvc_key key, uint64_t *out_left_ms, const struct kvc_call *call);
KVC_API int kvc_ping(struct kvc_pool *pool, const struct kvc_call *call);
/* kvc_get_batch, kvc_put_batch -- a large batch is cut into parts of neighbouring items, one for each thread of the
 * pool and 16 at most, which work at the same time. Large: each part has at least 2 MiB, counting 16 KiB for each item
 * beside its bytes. A call with a session is one part.
 * Results, deadline and counters are as of one batch; the phases are those of the part that took longest. A part whose
 * loop does not come to it fails alone. */
KVC_API int kvc_get_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call);
KVC_API int kvc_put_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call);
KVC_API int kvc_stat(struct kvc_pool *pool, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call);

/* ---- what it runs on ---- */

struct kvc_info {
	size_t size;
	/* wait: "fd" or "poll", how loops wait for the fabric; why: the reason for this provider */
	char provider[64], fabric[64], domain[64], wait[16], libfabric[64], why[512];
	unsigned num_clients, os_threads, endpoints, links, rails, num_servers; /* rails: of one client */
	uint64_t buffer_bytes;                                                  /* all registered receive buffers */
	uint64_t message_bytes;                                                 /* all registered message buffers */
	uint32_t chunk_bytes, eager_bytes, tx_depth, cq_depth, credits;
	char security[16];   /* "psk", "certificate", "none" */
	char congestion[32]; /* congestion control of TCP connections accepted on loopback ("reno"); "": the system's */
	char mode[16];       /* how values of the servers that are up travel: "push", "pull", or "mixed" */
	char memory[160];    /* what the receive buffers consist of: "256 MiB in 2 MiB pages" */
	/* What was placed where: "clients 0-3 on node 0; 4 of 4 threads bound to CPUs there", "one node", "off". */
	char numa[200];
	uint64_t register_ns; /* that registering the buffers took, all clients together */
	char no_door[160];    /* why no doorkeeper stands before the clients' fabric ports; "": one does */
};

/* kvc_info -- fill *out, whose size is set before. Thread: any; never blocks. */
KVC_API int kvc_info(struct kvc_pool *pool, struct kvc_info *out);

/* What a call did, for the table of results. */
enum kvc_op {
	KVC_OP_GET, /* every item of a batch counts as one */
	KVC_OP_PUT, /* likewise */
	KVC_OP_EXISTS,
	KVC_OP_DELETE,
	KVC_OP_TOUCH, /* kvc_ttl_await, too */
	KVC_OP_PIN,   /* kvc_unpin_await, too */
	KVC_OP_PING,
	KVC_OP_STAT,
	KVC_OP_RAW,
	KVC_OP_VIEW, /* kvc_view_acquire_await */
	KVC_OP_REGISTER,
	KVC_OPS,
	KVC_OPS_MAX = 16
};
/* kvc_opname -- "GET"; "?" for no operation. Static. Thread: any. */
KVC_API const char *kvc_opname(enum kvc_op op);

/* Column i of the table: 0 counts successes, i the code -(1000 + i) (KV_ETIMEOUT is 1), the last one all other codes.
 */
enum { KVC_RESULT_OTHER = 31, KVC_RESULTS };
/* kvc_result_code -- the code of a column; 0 for the first and for the last one. Thread: any. */
KVC_API int kvc_result_code(unsigned column);

/* Counters of the whole pool since it was opened. Each is read by itself, so they are of slightly different moments.
 * docs/reference/counters.md has a line about each. */
struct kvc_counters {
	size_t size;
	/* errors: operations that failed, misses and put_conflicts excepted: the sum over `results`. timeouts: those of
	 * -KV_ETIMEOUT. */
	uint64_t gets, puts, exists, deletes, hits, misses, errors, timeouts, retries, corrupt, reconnects, fences;
	uint64_t bytes_in, bytes_out, stale_immediates, bad_frames, eagain, cancels, quarantined_bytes;
	uint64_t requests;   /* sent to servers: a call may need several */
	uint64_t replies;    /* that came for them */
	uint64_t room_waits; /* requests that waited for room: an entry, a piece of the buffer, immediates */
	uint64_t room_wait_ns, room_wait_max_ns; /* sum; the longest */
	uint64_t queue_ns, queue_max_ns;         /* of all requests: from having room to being sent (credits) */
	uint64_t orphans;                        /* requests given up before they were over */
	uint64_t lost_connections;               /* attachments that ended without a goodbye */
	uint64_t slow;                           /* calls that took slow_ns or longer */
	uint64_t results[KVC_OPS_MAX][KVC_RESULTS];
	uint64_t pulls;         /* ranges of values that were read out of servers' memory */
	uint64_t pulls_expired; /* pulls that were too late: their lease was over, and they were asked for again */
	uint64_t door_let_in;   /* connections to the clients' fabric ports that the doorkeeper let in, */
	uint64_t door_turned;   /* that it turned away, */
	uint64_t door_aliens;   /* and that it ended because of what they sent */
	uint64_t pins_again;    /* pins that were made again on a new connection */
	uint64_t pins_lost;     /* pins that could not be made again: see kvc_options.pin_lost */
	uint64_t put_conflicts; /* PUTs (and items of batches) that ended with -KV_EEXIST */
	/* Attachments made again, on the control connection that was there or on a new one; the latter count in
	 * `reconnects`, too. */
	uint64_t reattaches;
};

/* kvc_counters -- fill *out, whose size is set before. Thread: any; never blocks. */
KVC_API int kvc_counters(struct kvc_pool *pool, struct kvc_counters *out);

/* kvc_counters_items -- the same with names, groups, units and kinds, at most max of them. A counter is "gets"; a cell
 * of the table is "timeout" in the group "results of GET", left out if it is 0. Strings are static. Thread: any.
 * Returns how many items were written.
 * Errors:
 *   -KV_EINVAL     counters->size is not that of the library's struct */
KVC_API int kvc_counters_items(const struct kvc_counters *counters, struct kvc_stat_item *out, unsigned max);

/* One server as one client of the pool sees it. */
enum kvc_server_state { KVC_SERVER_CONNECTING, KVC_SERVER_UP, KVC_SERVER_DOWN, KVC_SERVER_CLOSED };

struct kvc_server_info {
	size_t size;
	char name[336];   /* as in the list of servers: "NAME=HOST:PORT" or "HOST:PORT" */
	char node_id[64]; /* what it says it is; empty: never reached, or it has none */
	enum kvc_server_state state;
	uint32_t session;         /* the server's number for the attachment */
	uint64_t incarnation;     /* changes when the server is restarted */
	uint32_t shards, links;   /* of the attachment; 0 while there is none */
	uint32_t credits_granted; /* of all links together */
	uint32_t credits_in_use;  /* requests, cancels and pings out */
	uint32_t queued;          /* requests that wait for a credit */
	uint32_t inflight;        /* requests sent and not over: without a reply, or with writes still to come */
	uint64_t heard_ns;        /* ago: when the control connection last brought something; UINT64_MAX: never */
	uint64_t ping_ns; /* the slowest link's answer to a PING over the fabric when the attachment was set up */
	/* connects: control connections made (TCP, TLS); attaches: attachments made on them. */
	uint64_t connects, attaches;
	uint64_t attempts_failed; /* since the last attachment */
	uint64_t fences;          /* that were made because of this server */
	char why[512];            /* what went wrong last; empty: nothing */
	uint32_t pull;            /* 1: its values are read by the client (enum kvc_mode) */
	uint32_t links_up;        /* of `links`: those that answer. The others carry nothing, and are asked again */
	/* 1: the bytes of a PUT travel inside its requests, at a fraction of GET's speed. With its provider it is not
	 * safe for the server to read our memory (docs/internals/providers.md). */
	uint32_t put_inline;
};

/* kvc_server_info -- server `server` (an index into options.servers) as client `client` sees it, all at one moment.
 * Blocks: until the client's loop has answered, by the pool's timeout; not on that loop. Thread: any but another
 * loop's.
 * Errors: also the loop codes.
 *   -KV_EINVAL     there is no such client or server */
KVC_API int kvc_server_info(struct kvc_pool *pool, unsigned client, unsigned server, struct kvc_server_info *out);

/* One rail (a NIC, as one endpoint) of one client. */
struct kvc_rail_info {
	size_t size;
	char device[64]; /* its libfabric domain, and its IP address on tcp */
	uint32_t depth;  /* operations that may be in flight, on the client's rail with the least */
	uint32_t inflight;
	uint64_t sends, receives, writes, reads,
		immediates; /* operations posted; messages and immediates that arrived */
	uint64_t bytes_written, bytes_read;
	uint64_t eagain;   /* times the provider took no more */
	uint64_t failed;   /* operations that completed with an error */
	uint64_t failures; /* times that the rail itself failed: it was rebuilt, or is out */
	uint64_t rebuild_failures;
	uint64_t peer_failures; /* operations that failed because of the other side, or of the way there */
	int32_t numa_node;      /* of the NIC; -1: unknown */
	bool out;               /* it takes no part for now: another rail stands for it, and it is tried again */
};

/* kvc_rail_info -- like kvc_server_info, of rail `rail` of a client (kvc_info.rails of them). */
KVC_API int kvc_rail_info(struct kvc_pool *pool, unsigned client, unsigned rail, struct kvc_rail_info *out);

/* kvc_version -- of the library: "0.1.0". Static. Thread: any. */
KVC_API const char *kvc_version(void);

/* kvc_strerror, kvc_errname, kvc_errkey -- of any code that a call returned: a fragment of a sentence, "KV_ETIMEOUT",
 * "timeout". Never NULL; valid until this thread's next call of the three. Thread: any. */
KVC_API const char *kvc_strerror(int code);
KVC_API const char *kvc_errname(int code);
KVC_API const char *kvc_errkey(int code);

/* kvc_program_setup -- set libfabric's environment to KVRail's documented defaults where the user has not.
 *
 * It saves memory and time (docs/internals/providers.md) and decides nothing: a process that does not call it, and
 * whose environment says nothing, reaches a default server all the same.
 * Thread: main() of a program, before it starts threads and before kvc_pool_open. A library must not call it. */
KVC_API void kvc_program_setup(void);

/* kvc_program_setup_many -- the same for programs that open hundreds of clients, a few operations each: the smallest
 * queues that this library works with. */
KVC_API void kvc_program_setup_many(void);

#ifdef __cplusplus
}
#endif
#endif
