/* SPDX-License-Identifier: Apache-2.0 */
/* kvserver.h -- a cache node that a program, a test or a simulation embeds: the public header of kvserver/.
 *
 * A server is one control loop (accept, TLS, HELLO, heartbeats) and N shard loops (each an engine and a part of the
 * memory). It runs on threads of its own, or on loops that the caller made and turns, several in one thread if it
 * likes.
 *
 *   own threads:     create, start (blocks until it listens), port, stop (blocks until drained), destroy
 *   caller's loops:  create, start, turn the loops until the state is KVS_RUNNING; stop, turn them until it is
 *                    KVS_STOPPED; destroy, then loop_destroy
 *
 * One thread creates, starts, reloads, stops and destroys a server, unless a comment says otherwise. Nothing here
 * parks. */
#ifndef KVRAIL_KVSERVER_KVSERVER_H
#define KVRAIL_KVSERVER_KVSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "host/host.h"

struct loop;
struct kvs_server;

enum {
	KVS_CLIENTS_DEFAULT = 256,
	KVS_CLIENTS_MAX = 1 << 18,
	KVS_CREDITS_DEFAULT = 128,
	KVS_LANDING_DEFAULT = 128 << 20,
	KVS_HEARTBEAT_MS_DEFAULT = 500,
};

/* Zero means the default that is named. Strings and objects pointed to must live as long as the server. */
/* When the kernel makes the pages of the memory for values: the first PUT into a page that is not there waits for it.
 */
enum kvs_prefault {
	KVS_PREFAULT_BACKGROUND, /* from the start on, in a thread that takes a quarter of a core */
	KVS_PREFAULT_START,      /* before it listens: the start takes longer */
	KVS_PREFAULT_OFF         /* as values come */
};

/* How a drain that a client asked for is bounded; 0: as the program's own options say. */
struct kvs_drain {
	uint64_t time_ns, bytes_s; /* bytes_s: of values that are put to other servers */
};

struct kvs_options {
	const char *listen_addr; /* "HOST:PORT"; port 0 picks one. "127.0.0.1:7411" */
	/* Addresses of this machine under which others reach it (base/addr.h, kv_where_parse): the fabric uses the
	 * first of them where listen_addr is 0.0.0.0 or [::]. NULL: the default route, or the interfaces, decide. */
	const char *advertise;
	/* Its name in clients' lists of servers, by which they place keys. A client that calls it otherwise does not
	 * use it. NULL: any name will do. */
	const char *node_id;
	/* The name of its cluster, as node_id is made. A client that wants another cluster is refused. NULL or "":
	 * none, and a client that wants one is refused. */
	const char *cluster;
	const char *provider, *nic; /* see struct te_options */
	unsigned shards;            /* min(4, cores) */
	unsigned rails;             /* per shard; 0: as kvc_options.num_rails */
	uint64_t memory_bytes;      /* of all shards together: 1 GiB */
	unsigned max_clients;       /* attachments, and further sessions on their connections: 256 */
	unsigned max_sessions;      /* further sessions of one connection: half of max_clients */
	unsigned credits, heartbeat_ms;
	uint64_t value_max; /* bytes of a value at most: KV_VALUE_MAX, or less if a shard is smaller */
	/* Values of all shards together: one per KiB of memory. Each takes about 0.6 KiB beside its bytes. */
	uint64_t values_max;
	uint64_t ttl_ns;      /* of values that name none; 0: for ever */
	uint64_t slow_ns;     /* log requests that take so long in here, a few per second; 0: none */
	uint64_t spin_ns;     /* own shard loops poll so long before they sleep, while that pays; 0: never */
	uint32_t chunk_bytes; /* of one RMA operation: KV_CHUNK_DEFAULT */
	unsigned eviction;    /* index into kv_opt_eviction_names */
	int prefault;         /* enum kvs_prefault */
	const char *psk_file, *psk, *cert_file, *key_file, *ca_file, *crl_file; /* see bootstrap/bootstrap.h */
	/* File of lines "identity:hex": the logical clients, besides the client of a connection, that may have further
	 * sessions on it. */
	const char *session_keys;
	bool publish; /* keep copies of the counters that other threads read: for kv-server --http-addr */
	/* The program will tell it views (kvs_server_view_set). Until the first one it lets in nobody but kv-client and
	 * other servers: clients would place keys by lists of their own. */
	bool members;
	bool insecure;    /* listen beyond loopback without keys */
	bool allow_bench; /* answer BENCH requests */
	bool allow_pull;  /* clients may read values by themselves: each admitted client can then read all the memory */
	/* As allow_pull, except where reading could crash a client. There allow_pull is refused, and this is ignored.
	 */
	bool pull_where_safe;
	/* A client asks for a drain (DRAIN): the program shall soon call kvs_server_stop, and end. Returns the time
	 * until the end at the latest, not 0; further clients may ask meanwhile. client: its address, for the log.
	 * Called on the control loop, and must not block. NULL: no client may ask. */
	uint64_t (*on_drain)(void *arg, const struct kvs_drain *bounds, const char *client);
	void *on_drain_arg;
	/* This server was out of the cluster for a while and is back: ask all other members of this view which keys
	 * were deleted since then (of kv_clock_monotonic), and call kvs_server_recalled. Called on the control loop,
	 * and must not block. 0, or a code: it cannot be done. NULL: nobody asks, and values from before are dropped.
	 */
	int (*recall)(void *arg, const struct kv_view *view, uint64_t since_ns);
	void *recall_arg;
	uint64_t lease_ns; /* how long a value is kept for a client to read: 1 s; 10 ms to 60 s */
	/* Memory beside memory_bytes that clients write their PUTs to where that is the fastest way: 128 MiB, of which
	 * pages are made as they are used. */
	uint64_t landing_bytes;
	bool landing_off;
	int door; /* enum te_door of engine/engine.h; 0: a doorkeeper where there can be one */
	/* Do not place threads and memory near the NICs. Else that is done on machines with several NUMA nodes; the
	 * server never binds the caller's threads. */
	bool numa_off;
	const struct kv_log *log;
	const struct kv_clock *clock;     /* monotonic */
	const struct kv_entropy *entropy; /* the kernel's */
	struct loop **loops;              /* NULL: own threads. Else 1 + shards loops: control first */
};

enum kvs_state { KVS_CREATED, KVS_STARTING, KVS_RUNNING, KVS_STOPPING, KVS_STOPPED };

/* kvs_server_create -- check the options, read keys, map and register memory, open the engines. It does not listen yet.
 *
 * Blocks: as long as mapping, registering and opening take. Thread: any.
 * Owner: options are copied, what they point to is not. *out until kvs_server_destroy.
 * Errors, each with a sentence:
 *   -KV_EINVAL     an option, or a file of keys or certificates, cannot be used; or it would listen beyond loopback
 *                  without keys (see insecure)
 *   -KV_EDENIED    other users may read or write a file of keys
 *   -KV_ENOTSUP    no such provider or NIC; a doorkeeper, or pull, cannot be had here
 *   -KV_ELIMIT     a resource is short
 *   -KV_ENOMEM, -KV_EPROVIDER, -errno */
int kvs_server_create(const struct kvs_options *options, struct kvs_server **out, struct kv_error *err);

/* kvs_server_start -- attach the engines and listen. A server is started once.
 *
 * Own threads: blocks until it listens, or fails with *err. Caller's loops: returns 0 at once, and the state tells.
 * Errors: the server is KVS_STOPPED then; destroy it.
 *   -KV_EINVAL     it was started before (its state stays)
 *   any other code *err says why; without err some of them are -KV_EINVAL, too */
int kvs_server_start(struct kvs_server *server, struct kv_error *err);

/* kvs_server_stop -- stop accepting, tell clients goodbye, refuse new requests, finish those in flight for at most
 * drain_ns (50 ms at least), close the connections.
 *
 * Own threads: blocks until they have ended. Caller's loops: call it on the control loop's thread; it returns at once,
 * and the state tells. Harmless when the server never started or has stopped. */
void kvs_server_stop(struct kvs_server *server, uint64_t drain_ns);

/* kvs_server_view_set -- the server tells its clients this view of the cluster from now on. Whoever knows the members
 * calls it: a source, a test. Epoch 0 without members: there is none; then clients keep what they have.
 *
 * Thread: any, while the server is not destroyed. Owner: the view is copied. It does not wait.
 * Errors: -KV_EINVAL (epoch 0 with members, a member breaks a limit, members are not sorted), -KV_ENOMEM; -KV_EBUSY:
 * the control loop takes no more work at the moment; it takes this view with the next call. */
int kvs_server_view_set(struct kvs_server *server, const struct kv_view *view);

/* kvs_server_drains -- the server tells its clients that it drains: they put nothing more to it, and still ask it. What
 * the view says of it does not matter then. Thread: any, while the server is not destroyed. It does not wait.
 * Errors: -KV_EBUSY, as above: they are told with the next call. */
int kvs_server_drains(struct kvs_server *server);

/* kvs_server_drained -- what came of the drain: clients that asked for it hear that before the goodbye. Before
 * kvs_server_stop. Thread: any. */
void kvs_server_drained(struct kvs_server *server, const struct kv_drained *drained);

/* kvs_server_away -- the source of the members has lost this server, as when a lease ends (away), or knows it again.
 * Its values from before may have been deleted meanwhile: they are hidden until that is known. A view without this
 * server says the same by itself. Thread: any, while the server is not destroyed. -KV_EBUSY: not now, try again.
 *
 * kvs_server_recalled -- the other members said of these keys that they were deleted, at times of kv_clock_monotonic.
 * verdict: from malloc, and the server's from now on. NULL: not all of them have answered, or remember all of it.
 * Thread and code as above; the server has them in any case, and kvs_server_recall_again has the control loop look once
 * more. */
int kvs_server_away(struct kvs_server *server, bool away);
struct verdict;
int kvs_server_recalled(struct kvs_server *server, struct verdict *verdict, uint32_t count);
int kvs_server_recall_again(struct kvs_server *server);

/* kvs_server_reload -- have a thread of the server read the files of keys, certificates and revocation lists again.
 *
 * It returns at once; the log tells what came of it. What was read decides about connections from then on. If one file
 * cannot be used, what was in force stays in force. False: there are no such files, or the server does not run. Own
 * threads only. */
bool kvs_server_reload(struct kvs_server *server);

/* kvs_server_pulse -- ask each loop of the server to answer, and say whether all have answered what they were asked
 * before; true the first time. For a watchdog, which calls it every few seconds. It returns at once. Own threads only,
 * between start and stop. */
bool kvs_server_pulse(struct kvs_server *server);
/* kvs_server_pulse_owes -- after kvs_server_pulse was false: the first loop that had not answered, as "worker thread
 * 3", in out, of cap bytes. The thread that calls kvs_server_pulse. */
void kvs_server_pulse_owes(struct kvs_server *server, char *out, unsigned cap);

/* kvs_server_silence_ns -- ask each loop, and tell for how long one of them has not answered; 0: all have, or it does
 * not run. *out_loop: which, "the control loop" or "worker thread 3", of cap bytes. As kvs_server_pulse, for one other
 * thread that calls it every second, between create and destroy. */
uint64_t kvs_server_silence_ns(struct kvs_server *server, char *out_loop, unsigned cap);

/* kvs_server_rates_set -- another time to live of values that name none, and another limit of slow requests
 * (kvs_options.ttl_ns and slow_ns), from now on. From create on. Thread: any. */
void kvs_server_rates_set(struct kvs_server *server, uint64_t ttl_ns, uint64_t slow_ns);

/* kvs_server_destroy -- free a server. Own threads: it is stopped first, without a drain, if need be. Caller's loops:
 * it must be KVS_STOPPED, or never started. *server becomes NULL; NULL is accepted. */
void kvs_server_destroy(struct kvs_server **server);

/* kvs_server_state -- *err, if not NULL, is overwritten: with why it could not start, else with code 0. Thread: any. */
enum kvs_state kvs_server_state(struct kvs_server *server, struct kv_error *err);

/* kvs_server_port -- the TCP port, once it runs; 0 before. Thread: any. */
uint16_t kvs_server_port(const struct kvs_server *server);
/* kvs_server_address -- write "127.0.0.1:7411" into buf, of cap bytes, and return buf. Once it runs. Thread: any. */
char *kvs_server_address(const struct kvs_server *server, char *buf, unsigned cap);

/* What a server runs on, for the line that says "ready". */
struct kvs_info {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX], libfabric[KV_NAME_MAX], why[512];
	char device[KV_NAME_MAX]; /* of the first rail: its domain, and its address where that is an IP address */
	const char
		*device_why;  /* "by --advertise": how that address was chosen; "": it is none, or the provider chose */
	const char *security; /* "psk", "certificate", "none" */
	unsigned shards, rails;
	uint64_t memory_bytes, page_bytes; /* page_bytes: of the smallest pages */
	struct kv_pages pages;             /* that the memory for values consists of */
	unsigned parts, register_threads;  /* parts of all shards; the most threads that one shard used */
	uint64_t register_ns;              /* that registering it took, all shards together */
	char numa[280];                    /* on which nodes threads and memory are, once it runs */
	bool wait_fd, pull;
	bool open_to_anyone; /* other machines may connect, and no client shows a key or a certificate */
	char no_door[160];   /* why no doorkeeper stands before the fabric ports; "": one does */
	char congestion[32]; /* congestion control of TCP connections accepted on loopback; "": the system's */
};
/* kvs_server_info -- fill *out. From kvs_server_create on, on the thread that created the server. */
void kvs_server_info(const struct kvs_server *server, struct kvs_info *out);

#endif
