/* SPDX-License-Identifier: Apache-2.0 */
/* kvserver.h -- a cache node for a program, a test or a simulation.
 *
 * A server is one control loop (accept, TLS, HELLO, heartbeats) and N shard loops (each an engine and a part of the
 * memory). It runs on threads of its own, or on loops made and turned by the caller, several in one thread if needed.
 *
 *   own threads:     create, start (blocks until it listens), port, stop (blocks until drained), destroy
 *   caller's loops:  create, start, turn the loops until the state is KVS_RUNNING;
 *                    stop, turn them until it is KVS_STOPPED; destroy, then loop_destroy
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
struct kvs_transport;
struct publish_at;

enum {
	KVS_CLIENTS_DEFAULT = 256,
	KVS_CLIENTS_MAX = 1 << 18,
	KVS_CREDITS_DEFAULT = 128,
	KVS_LANDING_DEFAULT = 128 << 20,
	KVS_HEARTBEAT_MS_DEFAULT = 500,
};

/* When the kernel makes the pages of the memory for values: the first PUT into a missing page waits for it. */
enum kvs_prefault {
	KVS_PREFAULT_BACKGROUND, /* from the start, in a thread with a quarter of a core */
	KVS_PREFAULT_START,      /* before it listens: the start takes longer */
	KVS_PREFAULT_OFF         /* as values arrive */
};

/* Bounds of a drain requested by a client; 0: the program's own options. */
struct kvs_drain {
	uint64_t time_ns, bytes_s; /* bytes_s: of values pushed to other servers */
};

/* Zero means the given default. Strings and objects must outlive the server. */
struct kvs_options {
	const char *listen_addr; /* "HOST:PORT"; port 0 picks one. "127.0.0.1:7411" */
	/* Public addresses of this machine (base/addr.h, kv_where_parse): the fabric uses the first one if listen_addr
	 * is 0.0.0.0 or [::]. NULL: the default route, or the interfaces, decide. */
	const char *advertise;
	/* Its name in clients' server lists, by which they place keys. Clients that use another name do not use it.
	 * NULL: any name. */
	const char *node_id;
	/* The name of its cluster, as node_id is made. Clients of another cluster are refused. NULL or "": none, and
	 * clients with a cluster are refused. */
	const char *cluster;
	const char *provider, *nic; /* see struct te_options */
	unsigned shards;            /* min(4, cores) */
	unsigned rails;             /* per shard; 0: as kvc_options.num_rails */
	uint64_t memory_bytes;
	unsigned max_clients;  /* attachments and further sessions: 256 */
	unsigned max_sessions; /* further sessions of one connection: half of max_clients */
	unsigned credits, heartbeat_ms;
	uint64_t value_max; /* maximum bytes of a value: KV_VALUE_MAX, or less if a shard is smaller */
	/* Values of all shards together: one per KiB of memory. Each takes about 0.6 KiB besides its bytes. */
	uint64_t values_max;
	uint64_t ttl_ns;      /* of values without one; 0: for ever */
	uint64_t slow_ns;     /* log requests that take this long here, a few per second; 0: none */
	uint64_t spin_ns;     /* own shard loops poll this long before they sleep, while that pays; 0: never */
	uint32_t chunk_bytes; /* of one RMA operation: KV_CHUNK_DEFAULT */
	int eviction;
	int prefault;                                                           /* enum kvs_prefault */
	const char *psk_file, *psk, *cert_file, *key_file, *ca_file, *crl_file; /* see bootstrap/bootstrap.h */
	const char *session_keys;
	/* A file of tenants (docs/reference/tenants.schema.json): the identities that may have sessions, and their
	 * rights. Needs keys or certificates. NULL: each client may do all. */
	const char *tenants;
	bool events; /* keep a log of stored and removed blocks, for clients that follow it */
	/* With events: publish them here as well, over this transport (events/publish.h). NULL: no. */
	const struct publish_at *events_at;
	const struct kvs_transport *events_transport;
	bool publish; /* keep copies of the counters for other threads: for kv-server --http-addr */
	/* The program will set views (kvs_server_view_set). Until the first one only kv-client and other servers are
	 * admitted: clients would place keys by their own lists. */
	bool members;
	bool insecure;   /* listen beyond loopback without keys */
	bool allow_pull; /* clients may read values by themselves: each admitted client can then read all the memory */
	/* As allow_pull, except where reading could crash a client. There allow_pull is refused, and this ignored. */
	bool pull_where_safe;
	/* A client asks for a drain (DRAIN): the program must soon call kvs_server_stop, and end. Returns the maximum
	 * time until then, not 0; further clients may ask. client: its address, for the log. Called on the control
	 * loop; must not block. NULL: no client may ask. */
	uint64_t (*on_drain)(void *arg, const struct kvs_drain *bounds, const char *client);
	void *on_drain_arg;
	/* This server is back after an absence: ask all other members of this view for keys deleted since then (of
	 * kv_clock_monotonic; maybe before its zero), and call kvs_server_recalled. Called on the control loop; must
	 * not block. 0, or a code: impossible. NULL: nobody asks, and earlier values are dropped. */
	int (*recall)(void *arg, const struct kv_view *view, int64_t since_ns);
	void *recall_arg;
	uint64_t lease_ns; /* how long a client may read a value: 1 s; 10 ms to 60 s */
	/* Memory besides memory_bytes for clients' writes of PUTs, where that is fastest: 128 MiB; pages are made with
	 * use. */
	uint64_t landing_bytes;
	bool landing_off;
	/* Clients on this host map the memory for values, and read it in place. arena_private: no other process may map
	 * it. local_off: no client is offered it. local_socket: the Unix socket over which they get it, a path or
	 * "@NAME"; NULL: an abstract name, which reaches this network namespace. */
	bool arena_private, local_off;
	const char *local_socket;
	/* The memory for values outlives this server, and kvs_server_keep writes its index to the file `keep`. kept:
	 * from kvs_kept_open with the same options. arena_file: files of this name and .0, .1, ... on tmpfs or
	 * hugetlbfs are the memory; NULL: memfds. */
	const char *keep, *arena_file;
	struct kvs_kept *kept;
	/* Files and partitions behind the memory: lists of "PATH[:SIZE]" with commas between them. Values that
	 * leave memory are written there, and come back when they are asked for. tier_admit: index into
	 * tier_admit_names. tier_rate, tier_day: bytes written at most per second and per day, to each of them; 0: no
	 * limit. tier_segment: bytes, 64 MiB. */
	struct kv_opt_strings tier;
	int tier_admit;
	uint64_t tier_rate, tier_day, tier_segment;
	/* Note each value beside the memory, so that after a crash the next server finds the values again, and verifies
	 * their checksums while it serves. */
	bool recover;
	int door; /* enum te_door of engine/engine.h; 0: a doorkeeper where possible */
	/* Do not place threads and memory near the NICs. Otherwise done with several NUMA nodes; the caller's threads
	 * are never bound. */
	bool numa_off;
	const struct kv_log *log;
	const struct kv_clock *clock;     /* monotonic */
	const struct kv_entropy *entropy; /* the kernel's */
	struct loop **loops;              /* NULL: own threads. Else 1 + shards loops: control first */
};

/* kvs_kept_open -- take possession of the memory and the file of kvs_options.keep and arena_file, for this process and
 * the servers that it makes, one after the other. -KV_EEXIST: another process has them; or a code with *err.
 * kvs_kept_close -- after the last server; NULL is accepted. */
struct kvs_kept;
int kvs_kept_open(const struct kvs_options *options, struct kvs_kept **out, struct kv_error *err);
void kvs_kept_close(struct kvs_kept **kept);

/* kvs_kept_step -- for tests: die here if KVRAIL_TEST_KILL_AT names this step. */
void kvs_kept_step(const char *name);

/* What a running server says of its memory to the process that takes its place. */
enum { KVS_HANDED_FDS = KV_SHARDS_MAX + 2 };
struct kvs_handed {
	uint64_t limit_bytes, digest_seed, generation, places;
	uint32_t shards, locks; /* descriptors: locks of them, then one per shard */
};

/* kvs_server_hand -- fill *out and the descriptors, which stay the server's. Returns their number. Thread: any, while
 * the server is not destroyed. kvs_kept_take -- kvs_kept_open of such memory; the descriptors are its own, also on
 * failure. The file is read when the server starts (kvs_server_start): by then the other one has written it.
 * -KV_EINVAL: the options have another geometry, or the message is impossible. */
unsigned kvs_server_hand(const struct kvs_server *server, struct kvs_handed *out, int fd[KVS_HANDED_FDS]);
int kvs_kept_take(const struct kvs_options *options, const struct kvs_handed *handed, const int *fd, unsigned count,
		  struct kvs_kept **out, struct kv_error *err);

enum kvs_state { KVS_CREATED, KVS_STARTING, KVS_RUNNING, KVS_STOPPING, KVS_STOPPED };

/* kvs_server_create -- check the options, read keys, map and register memory, open the engines. It does not listen yet.
 *
 * Blocks: for mapping, registering and opening. Thread: any.
 * Owner: options are copied, objects behind pointers are not. *out until kvs_server_destroy.
 * Errors, each with a sentence:
 *   -KV_EINVAL     an option, or a file of keys or certificates, is unusable; or it would listen beyond loopback
 *                  without keys (see insecure)
 *   -KV_EDENIED    other users may read or write a file of keys
 *   -KV_ENOTSUP    no such provider or NIC; a doorkeeper, or pull, is impossible here
 *   -KV_ELIMIT     a resource is short
 *   -KV_ENOMEM, -KV_EPROVIDER, -errno */
int kvs_server_create(const struct kvs_options *options, struct kvs_server **out, struct kv_error *err);

/* kvs_server_start -- attach the engines and listen. A server is started once.
 *
 * Own threads: blocks until it listens, or fails with *err. Caller's loops: returns 0 at once; see the state.
 * Errors: the server is KVS_STOPPED then; destroy it.
 *   -KV_EINVAL     it was started before (its state stays)
 *   any other code *err says why; without err some of them are -KV_EINVAL as well */
int kvs_server_start(struct kvs_server *server, struct kv_error *err);

/* kvs_server_stop -- stop accepting, say goodbye to clients, refuse new requests, finish those in flight for at most
 * drain_ns (50 ms at least), close the connections.
 *
 * Own threads: blocks until they have ended. Caller's loops: call it on the control loop's thread; it returns at once;
 * see the state. Harmless if the server never started or has stopped. */
void kvs_server_stop(struct kvs_server *server, uint64_t drain_ns);

/* kvs_server_keep -- write the index of the values, for the next server. With kvs_options.kept, after kvs_server_stop,
 * once. *out_values: in the memory. 0, or a code with *err: the next server starts empty. */
int kvs_server_keep(struct kvs_server *server, uint64_t *out_values, struct kv_error *err);

/* kvs_server_view_set -- announce this view of the cluster to clients from now on. Epoch 0 without members: no view,
 * and clients keep theirs.
 *
 * Thread: any, while the server is not destroyed. Owner: the view is copied. Does not wait. Errors: -KV_EINVAL (epoch 0
 * with members, a member breaks a limit, members are not sorted), -KV_ENOMEM; -KV_EBUSY: the control loop takes no more
 * work now; it takes this view with the next call. */
int kvs_server_view_set(struct kvs_server *server, const struct kv_view *view);

/* kvs_server_drains -- announce the drain to clients: they put nothing more here, but still ask, whatever the view
 * says. Thread: any, while the server is not destroyed. Does not wait. Errors: -KV_EBUSY, as above. */
int kvs_server_drains(struct kvs_server *server);

/* kvs_server_drained -- the result of the drain: clients that asked for it get it before the goodbye. Before
 * kvs_server_stop. Thread: any. */
void kvs_server_drained(struct kvs_server *server, const struct kv_drained *drained);

/* kvs_server_away -- the members' source has lost this server, as when a lease ends (away), or knows it again. Its
 * earlier values may have been deleted: they are hidden until that is known. A view without this server has the same
 * effect. Thread: any, while the server is not destroyed. -KV_EBUSY: not now, retry.
 *
 * kvs_server_recalled -- the other members report deletions of these keys, at times of kv_clock_monotonic, and
 * generations of namespaces. Arrays are from malloc, and the server's from now on. verdict NULL: not all of them
 * answered, or remember everything; again: that may change, ask again. Thread and code as above; the server keeps the
 * answer in any case, and kvs_server_recall_again makes the control loop check again. */
int kvs_server_away(struct kvs_server *server, bool away);
struct verdict;
struct kvs_space {
	char name[KV_SPACE_MAX + 1];
	uint64_t generation;
};
struct kvs_recalled {
	struct verdict *verdict;
	uint32_t count;
	bool again;
	struct kvs_space *space; /* those with a generation above 0 */
	uint32_t spaces;
	uint64_t floor; /* the highest generation that a namespace without a row may have */
};
int kvs_server_recalled(struct kvs_server *server, const struct kvs_recalled *recalled);
int kvs_server_recall_again(struct kvs_server *server);

/* kvs_server_reload -- let a thread of the server reread the files of keys, certificates and revocation lists.
 *
 * Returns at once; the log reports the result, which applies to later connections. If one file is unusable, all old
 * content stays. False: no such files, or the server does not run. Own threads only. */
bool kvs_server_reload(struct kvs_server *server);

/* kvs_server_alive -- ask each loop to answer, and return whether all have answered the last question; true the first
 * time. For a watchdog, every few seconds. Returns at once. Own threads only, between start and stop. */
bool kvs_server_alive(struct kvs_server *server);
/* kvs_server_stuck_loop -- after kvs_server_alive returned false: the first loop without an answer, as "worker thread
 * 3", in out, of cap bytes. The thread that calls kvs_server_alive. */
void kvs_server_stuck_loop(struct kvs_server *server, char *out, unsigned cap);

/* kvs_server_silence_ns -- ask each loop, and return for how long one of them has not answered; 0: all have, or it does
 * not run. *out_loop: its name, "the control loop" or "worker thread 3", of cap bytes. As kvs_server_alive, for one
 * other thread, every second, between create and destroy. */
uint64_t kvs_server_silence_ns(struct kvs_server *server, char *out_loop, unsigned cap);

/* kvs_server_rates_set -- set the default time to live, and the limit of slow requests (kvs_options.ttl_ns and
 * slow_ns). From create on. Thread: any. */
void kvs_server_rates_set(struct kvs_server *server, uint64_t ttl_ns, uint64_t slow_ns);

/* kvs_server_destroy -- free a server. Own threads: it is stopped first, without a drain, if need be. Caller's loops:
 * it must be KVS_STOPPED, or never started. *server becomes NULL; NULL is accepted. */
void kvs_server_destroy(struct kvs_server **server);

/* kvs_server_state -- *err, if not NULL, is overwritten: why it could not start, or code 0. Thread: any. */
enum kvs_state kvs_server_state(struct kvs_server *server, struct kv_error *err);

/* kvs_server_port -- the TCP port, once it runs; 0 before. Thread: any. */
uint16_t kvs_server_port(const struct kvs_server *server);
/* kvs_server_address -- write "127.0.0.1:7411" into buf, of cap bytes, and return buf. Once it runs. Thread: any. */
char *kvs_server_address(const struct kvs_server *server, char *buf, unsigned cap);

/* Properties of a server, for the "ready" line. Strings are the server's. */
struct kvs_info {
	const char *provider, *fabric, *libfabric;
	const char *device;     /* of the first rail: its domain, and its address where that is an IP address */
	const char *device_why; /* "by --advertise": the reason for that address; "": no IP address, or the provider
				   chose */
	const char *security;   /* "psk", "certificate", "none" */
	unsigned shards, rails;
	uint64_t memory_bytes;
	struct kv_pages pages;            /* of the memory for values */
	unsigned parts, register_threads; /* parts of all shards; most threads used by one shard */
	uint64_t register_ns;             /* duration of registering it, all shards together */
	char numa[280];                   /* the nodes of threads and memory, once it runs */
	bool pull;
	bool local;             /* clients on this host may map the memory for values */
	bool shared;            /* it is in shared memory */
	bool open_to_anyone;    /* other machines may connect without a key or a certificate */
	const char *no_door;    /* why the fabric ports have no doorkeeper; "": there is one */
	const char *congestion; /* congestion control of TCP connections accepted on loopback; "": the system's */
};
/* kvs_server_info -- fill *out. After kvs_server_create, on the thread that created the server. */
void kvs_server_info(const struct kvs_server *server, struct kvs_info *out);

#endif
