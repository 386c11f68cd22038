/* SPDX-License-Identifier: Apache-2.0 */
/* kvclient.h -- KVRail's client: get and put KV-cache blocks on kv-servers. The public API (C, stable ABI, kvc_
 * prefix).
 *
 * A pool holds a fixed number of clients; a client owns one TransferEngine (its endpoints) and one registered buffer,
 * and lives on one loop thread of the pool. Workers are coroutines; worker w uses client w % num_clients and runs on
 * that client's loop. Two ways in, over one core:
 *   - calls ending in _await, from a worker coroutine (kvc_run, kvc_spawn), on that worker's client;
 *   - calls without it, from any other thread: they block the thread. On a loop thread they return -KV_EINVAL.
 *
 * What holds for every call: it returns by its deadline plus the grace, with success or exactly one code, and after it
 * returned nothing touches the caller's memory. The deadline is the call's timeout_ns from now; 0 means the pool's
 * timeout_ns; and if that is 0, too, 5 s and 1 s more for every 100 MB that the call moves at most (dst_len, len, or
 * all items of a batch together). The grace (50 ms) is the time in which a server must answer that it has stopped. If
 * it does not, and memory of the caller is in question, the call fences before it returns: on tcp behind a doorkeeper
 * it cuts that server alone, else it rebuilds the endpoint (some ms, up to 100 ms on tcp with large rxm buffers). The
 * deadline of a call that blocks a thread counts from its beginning, also while its loop is busy. Two things no
 * deadline can cut short: a worker that does not give its thread back to the loop holds up all calls of its loop that
 * have begun, and a provider that pins memory or opens an endpoint takes the time that it takes (on shm a peer that is
 * killed may leave the provider spinning for ever: docs/internals/providers.md). Calls that take no timeout say below
 * what bounds them. A wrong byte is never delivered as good: GET verifies the block's XXH3-64 unless told not to.
 * Besides the codes each call lists, any may end with -KV_ENOMEM, -KV_EPROTO (the server sent nonsense) or
 * -KV_EPROVIDER (the fabric provider failed up to the deadline); -KV_EINVAL (NULL where something is needed, a length
 * of 0, a size field that is none, a flag that no call knows, an _await call that is not made by a worker of that
 * client, a call that blocks made by a worker) or -KV_ECLOSED (the pool is being closed), both at once and with nothing
 * done. What is written on success only is untouched then; `err` may be NULL everywhere. The library never calls exit,
 * abort or setenv and installs no signal handler (the shm provider of libfabric does: docs/internals/providers.md).
 *
 * fork(): a pool is of the process that opened it. In a child every call that returns a code ends at once with
 * -KV_ECLOSED; kvc_pool_close sets *pool to NULL and kvc_view_release zeroes the view, and neither touches anything
 * that the parent shares. The parent is not disturbed. A child may open a pool of its own, over tcp at any time; with
 * NICs as far as libfabric's provider allows it (EFA: FI_EFA_FORK_SAFE=1 before the parent's first call), and never on
 * shm. A worker that forks must leave its child by exec or _exit: it must not return there, or wait for anything of the
 * library's. A child that goes on for long without exec keeps the parent's connections open when the parent closes
 * them.
 *
 * Structs with a `size` field: set it to sizeof, zero the rest; a zero field means its default. A program may be older
 * or newer than the library that it runs with. If it is newer, and sets something that the library does not know, that
 * is -KV_EINVAL, with a sentence where the call takes a struct kv_error. Of a struct that the library fills, `size`
 * says afterwards how much of it this library knows; the rest is zeroed. Fields called `reserved` are for later: yours
 * to zero in what you fill (else -KV_EINVAL), zero in what the library fills. */
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
	KVC_NO_VERIFY = 1,    /* do not check checksums of GETs */
	KVC_DOWN_IS_MISS = 2, /* keys of a server that is down are -KV_ENOTFOUND, whatever the reason, instead of
				 -KV_EPEERDOWN. (Those of a server that said goodbye before it ended always are, until
				 it is back; a PUT there is -KV_ELEFT.) */
	KVC_NO_PREFLIGHT = 4, /* do not add up beforehand what all clients need: to see how many there can be */
	KVC_OPEN_WAIT = 8     /* kvc_pool_open waits until every client has a server, and fails if one has none */
};

/* Who moves the bytes of a GET. Push: the server writes them. Pull: the client reads them out of the server's memory,
 * which has to allow it (kv-server --allow-pull); for NICs that can only read, and for servers short of CPU. */
enum kvc_mode {
	KVC_MODE_AUTO, /* pull where the server allows it, its writes would be emulated by the provider and reads are
			  not; else push */
	KVC_MODE_PUSH,
	KVC_MODE_PULL /* a server that does not allow it is an error: -KV_ENOTSUP, as if it was down. (A value is pushed
			 all the same where the server has no room for another lease, and to a call whose leases ran out
			 twice.) */
};

/* On machines with several NUMA nodes: a client's buffer, and what its engine allocates, come from the node of its
 * NICs, and threads of the library are bound to that node's CPUs, as far as the process may use them. A thread that
 * turns loops by itself is never bound. */
enum kvc_numa { KVC_NUMA_AUTO, KVC_NUMA_OFF };

/* The doorkeeper (docs/guide/security.md). Each client of a pool has a fabric port in this process. On providers tcp
 * and tcp-native it is kept: only servers that the pool has authenticated may connect to it, and what they send is
 * checked before libfabric reads it. For that, functions that libfabric imports (accept, recv, close and others) are
 * replaced in its import table, once per process; calls on sockets that are not the pool's are passed on. AUTO: where
 * that can be done, and a warning where not. REQUIRE: kvc_pool_open fails with -KV_ENOTSUP where not, also on all other
 * providers. OFF: nothing is replaced. */
enum kvc_door { KVC_DOOR_AUTO, KVC_DOOR_REQUIRE, KVC_DOOR_OFF };

struct kvc_options {
	size_t size;
	unsigned num_clients; /* 4. Each costs an endpoint per rail and its buffers: more than 8 is warned about */
	unsigned num_threads; /* half of the cores, 1 to 4, and 4 on shm, where clients copy; loops without a client are
				 not started */
	uint64_t buffer_bytes; /* per client: 64 MiB */
	/* "NAME=HOST:PORT" or "HOST:PORT" each; at least one. Keys are placed by these names alone, an entry without a
	   name standing for itself with its port: every client of the same servers must have the same list, in any
	   order. A server with a node id (kv-server --node-id) must be called by it: one that says another, and one
	   that is in the list twice, is not used, and fails an opening that waits. */
	const char *const *servers;
	unsigned num_servers;
	const char *provider; /* "auto": efa, else verbs, else tcp */
	const char *nic;     /* only these NICs, in this order: names with commas between them, each a device ("mlx5_0",
				"eth0") or an IP address of this machine. A name that is not there is -KV_ENOTSUP with
				the list of those that are */
	unsigned num_rails;  /* NICs per client. 0: all of `nic`; without it the client's share of the machine's on EFA
				(8 at  most), 1 on everything else, where two NICs may be on two networks */
	uint64_t timeout_ns; /* deadline of calls that name none; 0: 5 s, and 1 s more for every 100 MB of a call. Also
				of kvc_register, kvc_unregister and kvc_spawn */
	uint64_t grace_ns;   /* 50 ms; a minute at most */
	uint64_t connect_timeout_ns; /* 5 s: an attempt to reach a server, with looking up its name, all its addresses,
					and the first answers of its links */
	uint64_t spin_ns;        /* busy-poll at most this long before sleeping, while that pays; 0: 50 us; 1: never */
	uint64_t base_client_id; /* shown by the server: 100 */
	unsigned flags;          /* enum kvc_flag */
	const char *psk_file,
		*psk; /* "identity:hex", in a file (of one line) or directly; kv-server --make-psk FILE makes one */
	const char *cert_file, *key_file, *ca_file;
	int log_level;                                       /* 0 off, 1 error, 2 warn, 3 info, 4 debug */
	void (*log)(void *arg, int level, const char *line); /* any thread; NULL: stderr */
	void *log_arg;
	uint64_t peer_timeout_ns; /* a server that says nothing for so long is down: 2 s. Two of its heartbeats
				     (kv-server --heartbeat-ms, 500) at least */
	uint64_t slow_ns; /* calls that take so long are logged (level warn, ten lines a second and client) with where
			     their time went: docs/reference/counters.md. 0: none */
	/* While kvc_pool_open waits: called on its thread, ten times a second and after each client, with how many
	   clients have their endpoints and buffers, and how many have a server. False: give up, -KV_ECANCELED. NULL:
	   nobody looks. */
	bool (*opening)(void *arg, unsigned clients_open, unsigned clients_up);
	void *opening_arg;
	enum kvc_mode mode; /* KVC_MODE_AUTO */
	enum kvc_numa numa; /* KVC_NUMA_AUTO */
	enum kvc_door door; /* KVC_DOOR_AUTO */
	/* With certificates: a server's must be made for servers (extended key usage serverAuth) and name, among its
	   subject alternative names, the host of its entry in `servers` as it is written there, a DNS name or an IP
	   address; or, if it is given, this name, whichever server it is. */
	const char *server_name;
	/* With certificates: PEM file of revocation lists, one of every CA in the servers' chains. Read again when it
	   changes; a list that has expired refuses every server. NULL: revocation is not looked at. */
	const char *crl_file;
	/* A pin was lost with a connection and could not be made again: the value has gone (evicted in between,
	   deleted, a server that was restarted), there is no room for the pin, or no answer within the pool's timeout.
	   Who needs the value stores and pins it anew. On the client's loop: it must return at once and call nothing of
	   the library. The key is valid until it returns; session: whose pin it was, NULL: the client's own. Without a
	   callback the counter pins_lost and a line of the log tell that there was a loss. */
	void (*pin_lost)(void *arg, struct kvc_client *client, const void *key, size_t key_len,
			 struct kvc_sub *session);
	void *pin_lost_arg;
};

/* kvc_pool_open -- start loops, engines and buffers, and begin to connect every client to every server. It returns when
 * all clients have their engines and buffers: servers may come later. What can never get better fails it: options, keys
 * and certificates, the provider, resources (-KV_ELIMIT with a sentence that names the limit); the first client that
 * cannot be opened ends it, and the others are closed again. It blocks for the provider's time, and up to 1 s while the
 * name of the first server of the list that there is a way to is being looked up (it decides which interface the fabric
 * takes). Names are looked up by threads of their own, four at most, which may live on for half a minute after the pool
 * was closed where name servers do not answer: the library must stay loaded until then. Of descriptors 0 to 2, those
 * that are closed are given to /dev/null first, and stay so: else what anybody writes to standard error would go to
 * whatever has the number next. A call to a server that was not reached yet waits for the first attempt, by its own
 * deadline (-KV_ETIMEOUT) or connect_timeout_ns; when that has failed it ends at once with -KV_EPEERDOWN
 * (KVC_DOWN_IS_MISS: a miss) until the server is there, which is tried in the background, at least twice a second. If
 * the server is there and will not take us, the code says that instead: -KV_EDENIED (key, certificate) or -KV_EVERSION.
 * The whole sentence is in the log and in kvc_server_info. With KVC_OPEN_WAIT it waits until the first attempts are
 * decided, up to connect_timeout_ns more, and up to 1 s to undo what was done when it fails. If a client has no server:
 * that server's code (-KV_EPEERDOWN, -KV_ETIMEOUT, -KV_EDENIED, -KV_EPROTO: it ended the connection, as it does where
 * we showed no key, -KV_EVERSION, -KV_EFULL). If a server is not the one that the list says: -KV_EINVAL. With several
 * servers, those that are down are tried again in the background. Thread: any but a loop's. */
KVC_API int kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err);

/* kvc_pool_close -- calls in progress end with -KV_ECLOSED within the grace, workers must return; says goodbye to the
 * servers, stops threads, frees all. Returns 1 s after the last worker has returned, at the latest: a server that does
 * not answer the goodbye by then, or to which a connection is being tried, is left without it. *pool becomes NULL; NULL
 * is accepted. Views and registrations go with the pool: a host's own coroutines and threads have given theirs back
 * before. Thread: any but a loop's. */
KVC_API void kvc_pool_close(struct kvc_pool **pool);

/* kvc_run -- run num_workers coroutines fn(client, w, arg) and block until all have returned. Thread: any but a loop's.
 * Errors: -KV_ENOMEM, -KV_EBUSY, -KV_ETIMEOUT (a loop is stuck): nothing was started. */
KVC_API int kvc_run(struct kvc_pool *pool, unsigned num_workers,
		    void (*fn)(struct kvc_client *client, unsigned w, void *arg), void *arg);

/* kvc_spawn -- start one more coroutine on a worker's client's loop, from any thread that is no loop's, or from a
 * worker of that client (from one of another loop: -KV_EINVAL). arg must live until fn returns. 0 or -KV_EBUSY,
 * -KV_ENOMEM, -KV_ETIMEOUT (the loop is stuck): fn never runs. */
KVC_API int kvc_spawn(struct kvc_pool *pool, unsigned w, void (*fn)(struct kvc_client *client, unsigned w, void *arg),
		      void *arg);

/* kvc_num_clients -- as opened: options.num_clients, or its default. kvc_client_pool -- the pool of a worker's client.
 * Thread: any. Of NULL: 0 and NULL. */
KVC_API unsigned kvc_num_clients(const struct kvc_pool *pool);
KVC_API struct kvc_pool *kvc_client_pool(struct kvc_client *client);

/* ---- memory ---- */

/* kvc_register -- make [base, base + len_bytes) a target and source of transfers without copies, on every client and
 * server. Of any size, at any address; all of it mapped, readable and writable. The memory must stay mapped until
 * kvc_unregister returned. Any thread but a loop's. Blocks until all servers that are up have answered, by the pool's
 * timeout for all of them and the time that pinning the memory takes (with NICs 0.1 to 1 s for each GiB; its pages are
 * made first, by some threads that have ended when it returns; the clients work on meanwhile); what was done is undone
 * on failure, by the grace for all of them. Errors: -KV_ENOMEM, -KV_ELIMIT, -KV_EINVAL (overlaps another registration,
 * is not mapped or not writable: *err says where), -KV_ETIMEOUT. */
KVC_API int kvc_register(struct kvc_pool *pool, void *base, uint64_t len_bytes, struct kvc_mem **out,
			 struct kv_error *err);
/* kvc_unregister -- servers are told first, calls that use it must have returned (-KV_EBUSY otherwise, nothing done).
 * *mem becomes NULL. Blocks by the pool's timeout; a server that has not confirmed by then loses its session (it is
 * connected anew), which is as safe. *mem NULL: 0. Thread: any but a loop's. -KV_ETIMEOUT: a loop is stuck; call it
 * again. -KV_EINVAL: it is no registration of this pool. -KV_ECLOSED. */
KVC_API int kvc_unregister(struct kvc_pool *pool, struct kvc_mem **mem);

/* A piece of a client's registered buffer, lent to the caller. */
struct kvc_view {
	void *data;
	uint64_t len;       /* bytes of value in it */
	uint64_t value_len; /* bytes of the whole value */
	uint64_t priv[5];   /* the library's */
};

/* kvc_view_acquire_await -- len_bytes of the client's buffer, to fill and PUT without a copy. Waits until the buffer
 * has room, by the deadline (timeout_ns as in struct kvc_call). Errors: -KV_ETIMEOUT, -KV_ETOOBIG (more than the
 * buffer). kvc_view_release -- give back, to the client that lent it, on its loop's thread (a worker of it); the view
 * is zeroed. Harmless on a zeroed view. */
KVC_API int kvc_view_acquire_await(struct kvc_client *client, uint64_t len_bytes, uint64_t timeout_ns,
				   struct kvc_view *out);
KVC_API void kvc_view_release(struct kvc_client *client, struct kvc_view *view);

/* ---- calls ---- */

struct kvc_key {
	const void *data;
	size_t len; /* 1..128 bytes */
};

/* Where the time of a call went, in nanoseconds; what each part is, and when it is long: docs/reference/counters.md.
 * They add up to total_ns (post_ns is a part of server_ns). A call that needed several requests tells about the one
 * that took longest. The clock is the client's; the server's parts are durations that came with its reply. */
struct kvc_phases {
	size_t size;        /* set it before the call */
	uint64_t total_ns;  /* from the call to its return */
	uint64_t room_ns;   /* until it had a connection and room for its request */
	uint64_t queue_ns;  /* until its frame was handed to the engine */
	uint64_t server_ns; /* arrived there -> its reply made; post_ns: until the last data operation was posted */
	uint64_t post_ns;
	uint64_t wire_ns;  /* handed to the engine -> reply taken, less server_ns: both ways, and what waited in both
			      engines */
	uint64_t data_ns;  /* reply taken -> the last data write arrived */
	uint64_t wake_ns;  /* the last request was done -> the call's coroutine ran again */
	uint64_t check_ns; /* -> it returned: checksum, copies */
	uint64_t other_ns; /* the rest: other requests of the call, pauses before it was tried again */
};

/* Options of one call; NULL means all defaults. (A value of 1 GiB takes some 7 s over loopback TCP: a timeout that you
 * name must have room for it.) */
struct kvc_call {
	size_t size;
	uint64_t timeout_ns; /* 0: the pool's, see timeout_ns there */
	uint64_t offset;     /* GET: read from here (at the value's end: 0 bytes; beyond: -KV_EINVAL) ... */
	uint64_t length;     /* GET: ... so many bytes; 0: to the end. A part of a value is verified by a checksum the
				server makes of that part */
	uint32_t ttl_s;      /* PUT, TOUCH: 0 means the server's default */
	unsigned flags;      /* KVC_NO_VERIFY, KVC_DOWN_IS_MISS, besides those of the pool; any other: -KV_EINVAL */
	uint32_t server;     /* STAT, PING: index of the server */
	uint32_t shard;      /* STAT, PING: 0: all; n: shard n - 1 alone (-KV_EINVAL: it has not so many) */
	struct kvc_phases *phases; /* any call: the caller's; written when the call returns, unless it did not begin
				      (-KV_EINVAL, -KV_ECLOSED; of a call that blocks also when its loop did not come to
				      it). NULL: nobody wants to know, and no clock is read for it */
	struct kvc_sub *session; /* whose call it is; NULL: the client's own session. It must be one of the same client
				    (-KV_EINVAL); calls that block a thread run on its client */
};

/* kvc_get_await -- read a value into dst. Returns its length in bytes (which is written to dst), or -KV_ENOTFOUND,
 * -KV_ETOOBIG (longer than dst_len; dst untouched or partly written), -KV_ECORRUPT (dst undefined), -KV_ETIMEOUT,
 * -KV_EPEERDOWN, -KV_EBUSY, -KV_EINVAL, -KV_ECLOSED. dst in registered memory (kvc_register) is written by the server
 * directly; other memory is filled by a copy from the client's buffer. */
KVC_API int64_t kvc_get_await(struct kvc_client *client, struct kvc_key key, void *dst, uint64_t dst_len,
			      const struct kvc_call *call);

/* kvc_get_view_await -- the same into the client's own buffer, lent until kvc_view_release. expect_len: a guess of the
 * length (a wrong one costs a second round trip); 0: none. Values larger than half the buffer: -KV_ETOOBIG. Returns the
 * length or a negative code. */
KVC_API int64_t kvc_get_view_await(struct kvc_client *client, struct kvc_key key, uint64_t expect_len,
				   const struct kvc_call *call, struct kvc_view *out);

/* kvc_put_await -- store a value of 1 byte to 1 GiB; data in registered memory or in a view of this client is read by
 * the server directly, other memory is copied. The value becomes visible whole or not at all. Storing the same bytes
 * again succeeds, is a use, and lets the value live until the later of both times; other bytes under a committed key:
 * -KV_EEXIST, and the first ones stay. Where blocks are computed anew that is routine, since their last bits differ:
 * take it as stored (counter put_conflicts, not errors). -KV_ENOMEM: the server cannot make room. -KV_ELEFT: it ends,
 * or has ended, and said so. */
KVC_API int kvc_put_await(struct kvc_client *client, struct kvc_key key, const void *data, uint64_t len,
			  const struct kvc_call *call);

/* kvc_exists_await -- for n keys at once: out_found[i] = 1 or 0 (may be NULL), *out_prefix = how many from the start
 * exist (may be NULL). Returns 0 or a code. */
KVC_API int kvc_exists_await(struct kvc_client *client, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
			     unsigned *out_prefix, const struct kvc_call *call);

/* The small ones: 0, or a code as of GET (-KV_ENOTFOUND: no such key). kvc_delete_await -- who still reads the value
 * reads it to its end. kvc_touch_await -- call->ttl_s from now. kvc_ttl_await -- how long the value still has to live,
 * in milliseconds (UINT64_MAX: it does not expire); that is no use of it. kvc_pin_await -- no eviction until it is
 * unpinned or deleted, expires, or the pool (or call->session) is closed; after a reconnect it is made again by itself,
 * or its loss is told (kvc_options.pin_lost). A second pin adds nothing, one unpin takes it away; -KV_EBUSY: over the
 * server's budget, after some tries in a quarter of a second: a session may pin a quarter of the memory of the shard
 * that the key is on, all sessions together half of it, less where stages and leases leave less. kvc_unpin_await --
 * while the server is down it fails, and the pin is not made again all the same. kvc_ping_await -- 0 when every shard
 * of call->server (call->shard: that one) has answered. */
KVC_API int kvc_delete_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
KVC_API int kvc_touch_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
KVC_API int kvc_ttl_await(struct kvc_client *client, struct kvc_key key, uint64_t *out_left_ms,
			  const struct kvc_call *call);
KVC_API int kvc_pin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
KVC_API int kvc_unpin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
KVC_API int kvc_ping_await(struct kvc_client *client, const struct kvc_call *call);

/* One item of a batch. */
struct kvc_item {
	struct kvc_key key;
	void *data;             /* destination of GET, source of PUT */
	uint64_t len;           /* bytes of value that data takes (GET) or has (PUT); gaps between slices not counted */
	uint64_t slice, stride; /* GET: the value as slices of `slice` bytes, `stride` apart, from data (one block into
				   many layers); 0: contiguous. Registered memory is written directly, other memory by a
				   copy. PUT: both 0, its source is one piece (else -KV_EINVAL for the item) */
	int64_t result;         /* GET: value length or a code; PUT: 0 or a code */
	uint64_t reserved;      /* 0 */
};

/* kvc_get_batch_await, kvc_put_batch_await -- n items at once, each with its own result. Returns 0 when every item
 * succeeded, else the first item's code; partial results stay. Every item has a result, also when the whole was
 * refused, or given up before it began: then it is that code. Items of one server do not wait for those of another; the
 * call waits for all of them. */
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
/* kvc_stat_await -- up to max items. Returns the count or a code. */
KVC_API int kvc_stat_await(struct kvc_client *client, struct kvc_stat_item *out, unsigned max,
			   const struct kvc_call *call);

/* kvc_raw_await -- the roofline: have a shard (w % shards) of call->server write `ops` times `len` bytes of its
 * resident blocks, picked by `seed`, into view slices with the endpoints, regions, chunk size, depth and immediates of
 * GET and nothing else. -KV_ENOTSUP unless the server runs with --allow-bench; -KV_ENOTFOUND: no blocks of that length,
 * or so few among shorter ones that 64 picks in a row found none. */
KVC_API int kvc_raw_await(struct kvc_client *client, unsigned w, struct kvc_view *view, uint64_t len, uint64_t ops,
			  unsigned depth, uint64_t seed, const struct kvc_call *call);

/* ---- further sessions ----
 * A session of a logical client, on the connections that a client has: its own token, credits, pins and goodbye at
 * every server of the pool, and its turn on the client's links, so that tens of thousands of them share a few
 * endpoints. It costs no endpoint, region or buffer: some 300 bytes here. Pins are the session's (kvc_pin_await with
 * `session`) and go with it. After a reconnect a session is opened again by itself; a call that needs it waits for that
 * by its deadline. */

struct kvc_session_options {
	size_t size;
	const char *psk;    /* "identity:hex": the logical client's own key, which the server knows from --session-keys;
			       NULL: what the client showed when it connected is enough */
	uint64_t client_id; /* shown by the server; 0: the client's */
	uint64_t timeout_ns; /* 0: the pool's, as for calls */
};

/* kvc_session_open_await -- open one at every server that is up; at the others it is opened when they are. Returns 0
 * once it is open at all that are up; or why it is not, with *err: -KV_EDENIED (key or identity; after the fifth within
 * a minute the server ends the client's whole connection, and every call on it, of whichever session, ends with
 * -KV_EPEERDOWN or is tried again on the next one), -KV_EFULL (kv-server --max-clients,
 * --max-sessions), -KV_ENOTSUP (an older server), -KV_EPEERDOWN (none is up; or why the first does not take us),
 * -KV_ETIMEOUT, -KV_ENOMEM, -KV_EINVAL, -KV_ECLOSED: it is open nowhere then. One takes a round trip of the control
 * connection; many may be asked for at once, from several coroutines. options may be NULL. */
KVC_API int kvc_session_open_await(struct kvc_client *client, const struct kvc_session_options *options,
				   struct kvc_sub **out, struct kv_error *err);

/* kvc_session_close_await -- its calls must have returned (-KV_EBUSY otherwise, nothing done; also if by the timeout
 * its pins are still being made again, or if it is being closed already). Calls that begin with it meanwhile are
 * -KV_EINVAL. *session becomes NULL, NULL is accepted. Waits until the servers have confirmed, by the timeout (0: the
 * pool's): -KV_ETIMEOUT: they will, or lose the connection. Sessions that are open when the pool is closed go with it,
 * and may not be used afterwards. */
KVC_API int kvc_session_close_await(struct kvc_client *client, struct kvc_sub **session, uint64_t timeout_ns);

/* kvc_session_open, kvc_session_close -- the same from any other thread; w: on the client of worker w. No call with the
 * session may be in progress or begin while it is closed. */
KVC_API int kvc_session_open(struct kvc_pool *pool, unsigned w, const struct kvc_session_options *options,
			     struct kvc_sub **out, struct kv_error *err);
KVC_API int kvc_session_close(struct kvc_pool *pool, struct kvc_sub **session, uint64_t timeout_ns);

struct kvc_session_info {
	size_t size;
	unsigned client;            /* the index of its client */
	bool open;                  /* at the server asked about */
	int status;                 /* why not: the server's refusal; 0: it is still to be opened */
	uint32_t number;            /* the server's, within the client's connection */
	uint32_t credits;           /* requests that it may have unanswered at each shard */
	uint32_t credits_in_use;    /* at all shards together */
	uint32_t queued;            /* requests that wait for their turn */
	uint64_t requests, replies; /* at all servers, since it was opened */
};

/* kvc_session_info -- as server `server` knows it. Thread: any but another loop's. Blocks by the pool's timeout at
 * most. -KV_EINVAL, -KV_ECLOSED, -KV_ETIMEOUT, -KV_EBUSY, -KV_ENOMEM. */
KVC_API int kvc_session_info(struct kvc_pool *pool, struct kvc_sub *session, unsigned server,
			     struct kvc_session_info *out);

/* ---- the same from any other thread ----
 * Besides: -KV_EBUSY when the loop's queue is full, -KV_ETIMEOUT also when the loop did not come to the call by its
 * deadline (then it never will). */

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
/* A batch of MiBs is cut into parts of neighbouring items, one for each thread of the pool, which work at the same
 * time; a call with a session is one part. Results, deadline and counters are as of one batch; the phases are those of
 * the part that took longest. A part whose loop does not come to it fails alone. */
KVC_API int kvc_get_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call);
KVC_API int kvc_put_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call);
KVC_API int kvc_stat(struct kvc_pool *pool, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call);

/* ---- what it runs on ---- */

struct kvc_info {
	size_t size;
	char provider[64], fabric[64], domain[64], wait[16], libfabric[64], why[512];
	unsigned num_clients, os_threads, endpoints, links, rails, num_servers;
	uint64_t buffer_bytes;  /* all registered receive buffers */
	uint64_t message_bytes; /* all registered message buffers */
	uint32_t chunk_bytes, eager_bytes, tx_depth, cq_depth, credits;
	char security[16];   /* "psk", "certificate", "none" */
	char congestion[32]; /* congestion control that TCP connections accepted on loopback are given ("reno"); "": the
				system's default */
	char mode[16];       /* how the values of the servers that are up travel: "push", "pull", or "mixed" */
	char memory[160];    /* what the receive buffers consist of: "256 MiB in 2 MiB pages" */
	char numa[200];      /* what was placed where: "clients 0-3 on node 0; 4 of 4 threads bound to CPUs there", "one
				node", "off" */
	uint64_t register_ns; /* that registering the buffers took, all clients together */
	char no_door[160];    /* why no doorkeeper stands before the clients' fabric ports; "": one does */
};
/* kvc_info -- fills *out, whose size is set before. Thread: any; never blocks. 0 or -KV_EINVAL. */
KVC_API int kvc_info(struct kvc_pool *pool, struct kvc_info *out);

/* What a call did, for the table of results. */
enum kvc_op {
	KVC_OP_GET, /* every item of a batch counts as one */
	KVC_OP_PUT, /* likewise */
	KVC_OP_EXISTS,
	KVC_OP_DELETE,
	KVC_OP_TOUCH,
	KVC_OP_PIN,
	KVC_OP_PING,
	KVC_OP_STAT,
	KVC_OP_RAW,
	KVC_OP_VIEW, /* kvc_view_acquire_await */
	KVC_OP_REGISTER,
	KVC_OPS,
	KVC_OPS_MAX = 16
};
KVC_API const char *kvc_opname(enum kvc_op op); /* "GET" */

/* Column i of the table: 0 counts successes, i the code -(1000 + i) (KV_ETIMEOUT is 1), the last one all other codes.
 * kvc_result_code -- the code of a column; 0 for the last one too. */
enum { KVC_RESULT_OTHER = 31, KVC_RESULTS };
KVC_API int kvc_result_code(unsigned column);

/* Counters of the whole pool since it was opened; each is read by itself, so they are of slightly different moments.
 * docs/reference/counters.md has a line about each. kvc_counters -- fills *out, whose size is set before. Any thread;
 * never blocks. 0 or -KV_EINVAL. */
struct kvc_counters {
	size_t size;
	/* errors: operations that failed, misses and put_conflicts excepted: the sum over `results`. timeouts: those of
	 * -KV_ETIMEOUT */
	uint64_t gets, puts, exists, deletes, hits, misses, errors, timeouts, retries, corrupt, reconnects, fences;
	uint64_t bytes_in, bytes_out, stale_immediates, bad_frames, eagain, cancels, quarantined_bytes;
	uint64_t requests;   /* sent to servers: a call may need several */
	uint64_t replies;    /* that came for them */
	uint64_t room_waits; /* requests that waited for room: an entry, a piece of the buffer, immediates */
	uint64_t room_wait_ns, room_wait_max_ns; /* sum; the longest */
	uint64_t queue_ns, queue_max_ns;         /* of all requests: from having room to being sent (credits) */
	uint64_t orphans;                        /* requests given up before they were over */
	uint64_t lost_connections;               /* sessions that ended without a goodbye */
	uint64_t slow;                           /* calls that took slow_ns or longer */
	uint64_t results[KVC_OPS_MAX][KVC_RESULTS];
	uint64_t pulls;         /* ranges of values that were read out of servers' memory */
	uint64_t pulls_expired; /* ... too late: their lease was over, and they were asked for again */
	uint64_t door_let_in;   /* connections to the clients' fabric ports: let in, ... */
	uint64_t door_turned;   /* turned away by the doorkeeper, */
	uint64_t door_aliens;   /* and ended because of what they sent */
	uint64_t pins_again;    /* pins that were made again on a new connection */
	uint64_t pins_lost;     /* ... that could not be: see kvc_options.pin_lost */
	uint64_t put_conflicts; /* PUTs (and items of batches) that ended with -KV_EEXIST */
	uint64_t reattaches;    /* sessions made again: on the control connection that was there, or on one made again,
				   which counts in `reconnects`, too */
};
KVC_API int kvc_counters(struct kvc_pool *pool, struct kvc_counters *out);

/* kvc_counters_items -- the same with names, groups, units and kinds, at most max of them: "gets", and for the table
 * "timeout" in the group "results of GET"; cells that are 0 are left out. Strings are static. Returns the count, or
 * -KV_EINVAL (not this header's struct). */
KVC_API int kvc_counters_items(const struct kvc_counters *counters, struct kvc_stat_item *out, unsigned max);

/* One server as one client of the pool sees it. */
enum kvc_server_state { KVC_SERVER_CONNECTING, KVC_SERVER_UP, KVC_SERVER_DOWN, KVC_SERVER_CLOSED };

struct kvc_server_info {
	size_t size;
	char name[336];   /* as in the list of servers: "NAME=HOST:PORT" or "HOST:PORT" */
	char node_id[64]; /* what it says it is; empty: never reached, or it has none */
	enum kvc_server_state state;
	uint32_t session;         /* the server's number for this client */
	uint64_t incarnation;     /* changes when the server is restarted */
	uint32_t shards, links;   /* of the session; 0 while there is none */
	uint32_t credits_granted; /* of all links together */
	uint32_t credits_in_use;  /* requests, cancels and pings out */
	uint32_t queued;          /* requests that wait for a credit */
	uint32_t inflight;        /* requests sent and not over: without a reply, or with writes still to come */
	uint64_t heard_ns;        /* ago: when the control connection last brought something; UINT64_MAX: never */
	uint64_t ping_ns;         /* the slowest link's answer to a PING over the fabric when the session was set up */
	uint64_t connects,
		attaches;         /* control connections that were made (TCP, TLS); sessions that were made on them */
	uint64_t attempts_failed; /* since the last session */
	uint64_t fences;          /* that were made because of this server */
	char why[512];            /* what went wrong last; empty: nothing */
	uint32_t pull;            /* 1: its values are read by the client (enum kvc_mode) */
	uint32_t links_up;        /* of `links`: those that answer. The others carry nothing, and are asked again */
	uint32_t put_inline;      /* 1: a PUT's bytes travel inside its requests, at a fraction of GET's speed: with its
				   * provider it is not safe for the server to read our memory
				   * (docs/internals/providers.md)
				   */
};

/* kvc_server_info -- server `server` (an index into options.servers) as client `client` sees it, all at one moment:
 * asked of the client's loop, for the pool's timeout at most. Thread: any but another loop's; on the client's own loop
 * it does not park. Errors: -KV_EINVAL (no such client or server), -KV_ECLOSED, -KV_ETIMEOUT (the loop is stuck),
 * -KV_EBUSY, -KV_ENOMEM. */
KVC_API int kvc_server_info(struct kvc_pool *pool, unsigned client, unsigned server, struct kvc_server_info *out);

/* One rail (a NIC, as one endpoint) of one client. */
struct kvc_rail_info {
	size_t size;
	char device[64]; /* its libfabric domain, and its IP address on tcp */
	uint32_t depth;  /* operations that may be in flight */
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
/* kvc_rail_info -- like kvc_server_info, of rail `rail` of a client (kvc_info has their number). */
KVC_API int kvc_rail_info(struct kvc_pool *pool, unsigned client, unsigned rail, struct kvc_rail_info *out);

KVC_API const char *kvc_version(void); /* of the library: "0.1.0" */

/* kvc_strerror, kvc_errname, kvc_errkey -- of any code that a call returned: a fragment of a sentence, "KV_ETIMEOUT",
 * "timeout". Valid until this thread's next call. */
KVC_API const char *kvc_strerror(int code);
KVC_API const char *kvc_errname(int code);
KVC_API const char *kvc_errkey(int code);

/* kvc_program_setup -- for main() of programs only, before kvc_pool_open: sets libfabric's environment to KVRail's
 * documented defaults where the user has not. It saves memory and time (docs/internals/providers.md) and decides
 * nothing: a process that does not call it, and whose environment says nothing, reaches a default server all the same.
 */
KVC_API void kvc_program_setup(void);

/* kvc_program_setup_many -- the same for programs that open hundreds of clients, a few operations each: the smallest
 * queues that this library works with. */
KVC_API void kvc_program_setup_many(void);

#ifdef __cplusplus
}
#endif
#endif
