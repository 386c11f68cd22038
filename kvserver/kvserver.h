/* SPDX-License-Identifier: Apache-2.0 */
/* kvserver.h -- a cache node that a program, a test or a simulation embeds: the public header of kvserver/.
 *
 * A server is one control loop (accept, TLS, hello, heartbeats) and N shard loops (each an engine and a part of the
 * memory). It runs on threads of its own, or on loops that the caller made and turns, several in one thread if it
 * likes.
 *
 *   own threads:     create, start (blocks until it listens), port, stop (blocks until drained), destroy
 *   caller's loops:  create, start, turn the loops until the state is KVS_RUNNING; stop, turn them until it is
 *                    KVS_STOPPED; destroy, then loop_destroy */
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
	KVS_HEARTBEAT_MS_DEFAULT = 500,
};

/* Zero means the default that is named. Strings and objects pointed to must live as long as the server. */
struct kvs_options {
	const char *listen_addr; /* "HOST:PORT"; port 0 picks one. "127.0.0.1:7411" */
	const char *node_id; /* its name in clients' lists of servers, which they place keys by: who calls it otherwise
			      * is told so. NULL: whatever they call it */
	const char *provider, *nic; /* see struct te_options */
	unsigned shards;            /* min(4, cores) */
	unsigned rails;             /* per shard; 0: as kvc_options.num_rails */
	uint64_t memory_bytes;      /* of all shards together: 1 GiB */
	unsigned max_clients;       /* sessions in all, further ones on their connections too: 256 */
	unsigned max_sessions;      /* further ones of one connection: half of max_clients */
	unsigned credits, heartbeat_ms;
	uint64_t value_max;  /* bytes of a value at most: KV_VALUE_MAX, or less if a shard is smaller */
	uint64_t values_max; /* values of all shards together, each with about 0.6 KiB beside its bytes: one per KiB of
				memory */
	uint64_t ttl_ns;     /* of values that name none; 0: for ever */
	uint64_t slow_ns;    /* requests that take so long in here are logged, a few per second; 0: none */
	uint64_t spin_ns; /* loops of our own poll so long before they sleep, while that pays; 0: they sleep at once */
	uint32_t chunk_bytes; /* of one RMA operation: KV_CHUNK_DEFAULT */
	unsigned eviction;    /* index into kv_opt_eviction_names */
	bool prefault;        /* touch all memory before it listens: slower to start, no first-touch cost later */
	const char *psk_file, *psk, *cert_file, *key_file, *ca_file, *crl_file; /* see bootstrap/bootstrap.h */
	const char *session_keys; /* file of lines "identity:hex": who besides the client of a connection may have
				     further sessions on it */
	bool insecure;            /* listen beyond loopback without keys */
	bool allow_bench;         /* answer BENCH requests */
	bool allow_pull; /* clients may read values by themselves: every client that is let in can then read all of the
			    memory */
	bool pull_where_safe; /* the same, except where reading could crash a client (allow_pull is refused there): then
				 as if not asked for */
	uint64_t lease_ns;    /* how long it is kept for them: 1 s; 10 ms to 60 s */
	int door; /* enum te_door of engine/engine.h: whether a doorkeeper must stand before the fabric ports; 0: where
		     there can be one */
	bool numa_off; /* do not place threads and memory near the NICs. Else it is done on machines with several nodes;
			  threads of the caller's are never bound */
	const struct kv_log *log;
	const struct kv_clock *clock;     /* monotonic */
	const struct kv_entropy *entropy; /* the kernel's */
	struct loop **loops;              /* NULL: own threads. Else 1 + shards loops: control first */
};

enum kvs_state { KVS_CREATED, KVS_STARTING, KVS_RUNNING, KVS_STOPPING, KVS_STOPPED };

/* kvs_server_create -- check the options, read keys, map memory, open the engines. Nothing is listened to yet. Thread:
 * any. Errors, each with a sentence: -KV_EINVAL, -KV_EDENIED (a key file; or an open door without --insecure),
 * -KV_ENOMEM, -KV_ELIMIT, -KV_ENOTSUP (provider), ... */
int kvs_server_create(const struct kvs_options *options, struct kvs_server **out, struct kv_error *err);

/* kvs_server_start -- attach the engines and listen. Own threads: blocks until it listens, or fails with *err. Caller's
 * loops: returns 0 at once, and the state tells. */
int kvs_server_start(struct kvs_server *server, struct kv_error *err);

/* kvs_server_stop -- accept nobody, refuse new requests, finish those in flight for at most drain_ns, close the
 * connections. Own threads: blocks until they have ended. Caller's loops: from the control loop's thread; the state
 * tells. Harmless when it never started or has stopped. */
void kvs_server_stop(struct kvs_server *server, uint64_t drain_ns);

/* kvs_server_reload -- read the files of keys, certificates and revocation lists again, on a thread of the server's:
 * returns at once, and the log tells what came of it. Connections from then on are judged by what was read; if one file
 * cannot be used, by what was in force. False: there are no such files, or the server does not run. The thread that
 * starts and stops the server. Own threads only. */
bool kvs_server_reload(struct kvs_server *server);

/* kvs_server_destroy -- stops it first if need be (own threads only). *server becomes NULL; NULL is accepted. */
void kvs_server_destroy(struct kvs_server **server);

/* kvs_server_state -- any thread. *err (may be NULL) is filled when it stopped because it could not start. */
enum kvs_state kvs_server_state(struct kvs_server *server, struct kv_error *err);

/* kvs_server_port -- the TCP port, once it runs; 0 before. Any thread. kvs_server_address -- "127.0.0.1:7411" into
 * buf; returns buf. */
uint16_t kvs_server_port(const struct kvs_server *server);
char *kvs_server_address(const struct kvs_server *server, char *buf, unsigned cap);

/* What it runs on, for the line that says "ready". */
struct kvs_info {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX], why[512];
	const char *security; /* "psk", "certificate", "none" */
	unsigned shards, rails;
	uint64_t memory_bytes, page_bytes; /* page_bytes: of the smallest pages */
	struct kv_pages pages;             /* that the memory for values consists of */
	unsigned parts, register_threads;  /* how it was registered, all shards together, ... */
	uint64_t register_ns;              /* and how long that took */
	char numa[280];                    /* what was placed where, once it runs */
	bool wait_fd, pull;
	char no_door[160];   /* why no doorkeeper stands before the fabric ports; "": one does */
	char congestion[32]; /* congestion control of TCP connections accepted on loopback; "": the system's default */
};
void kvs_server_info(const struct kvs_server *server, struct kvs_info *out);

#endif
