/* SPDX-License-Identifier: Apache-2.0 */
/* world.h -- the whole stack in one thread: kv-servers and client pools on loops of a simulated world, over a simulated
 * fabric and network.
 *
 * Nothing blocks and nothing waits for real time. Every wait is bounded in virtual time, and what is not there by then
 * fails the test with the seed that shows it. Test code in coroutines must not use cmocka's assertions (they jump out
 * of the stack): it says world_wrong, and world_run fails outside. */
#ifndef KVRAIL_TESTS_SIM_WORLD_H
#define KVRAIL_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "kvclient/kvclient.h"
#include "kvserver/kvserver.h"
#include "tests/short.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/pass_sim.h"
#include "tests/sim/ring_sim.h"
#include "wire/wire.h"

enum { WORLD_SHARDS = 2, WORLD_SERVERS = 1024, WORLD_POOLS = 2, WORLD_CLIENTS = 4, WORLD_LOOPS = 3 * 1024 + 16 };

#define US     1000ull
#define MS     1000000ull
#define SECOND 1000000000ull

#define WORLD_GRACE KV_GRACE_DEFAULT_NS /* the library's, which pools have unless the options say another */

/* Whether the fabric can fence one peer alone, as tcp behind a doorkeeper. */
enum world_fence { WORLD_FENCE_BY_SEED, WORLD_FENCE_ONE, WORLD_FENCE_ALL };

/* Which clients are on the servers' host: none; some, with servers that do not offer it; all. */
enum world_local { WORLD_REMOTE, WORLD_MIXED, WORLD_LOCAL };

struct world_options {
	uint64_t seed;
	enum world_fence fence;
	struct sim_fabric_options fabric;
	enum world_local local;
	struct sim_pass_options pass;  /* if any is */
	uint64_t memory_bytes;         /* of a server; 0: 128 MiB */
	uint64_t landing_bytes;        /* of a server; 0: its default */
	uint64_t value_max;            /* 0: the server's default */
	uint32_t chunk_bytes, credits; /* of a server; 0: its defaults */
	unsigned rails, server_rails;  /* of clients, of shards; 0: 1, as many as clients */
	unsigned servers;              /* 0: 1 */
	bool unnamed;                  /* servers have no node id, and clients' lists no names */
	unsigned listed;               /* of the servers, so many are in the lists of pools; 0: all */
	unsigned listed_from;          /* the first of these */
	bool seeds;                    /* lists have no names, though servers have node ids */
	unsigned servers_max;          /* of pools; 0: the library's default */
	unsigned pools, clients;       /* clients: of each pool, each on a loop of its own; 0: 1 and 2 */
	uint64_t buffer_bytes;         /* of a client; 0: 16 MiB */
	uint64_t timeout_ns;           /* 0: the library's default */
	uint64_t grace_ns;             /* 0: the default, WORLD_GRACE */
	uint64_t connect_timeout_ns, peer_timeout_ns;
	uint64_t settle_ns, repair_bytes_s;
	unsigned pool_flags;
	bool open_behind; /* pools are open before they have a server */
	void (*pin_lost)(void *arg, struct kvc_client *client, const void *key, size_t key_len,
			 struct kvc_session *session);
	bool late; /* servers are not opened by world_open; ports are as they will be: world_server_late */
	const char *host[WORLD_SERVERS]; /* by which clients dial it; NULL: its address */
	const char *cluster[4];          /* of the first servers; NULL: none */
	uint32_t heartbeat_ms;           /* of a server; 0: its default */
	unsigned max_clients;            /* of a server; 0: its default */
	uint64_t slow_ns;                /* of pools: see struct kvc_options */
	uint64_t (*on_drain)(void *arg, const struct kvs_drain *bounds, const char *client); /* of servers */
	unsigned pull_pools; /* so many read values by themselves, the others have them pushed; servers allow it if any
			      */
	uint64_t lease_ns;   /* 0: the server's default */
	const char *namespace_name; /* of pools; NULL: the default one */
	bool events;                /* servers keep a log for followers */
	bool recall;                /* servers ask the other members for deleted keys (recall.h) */
	const char *tier_folder;    /* servers are members with a tier, in files there (tier_sim.h); NULL: none */
	uint64_t tier_bytes;        /* of each */
	unsigned tier_fail_ppm;
};

struct world_server {
	struct kvs_server *server; /* NULL: closed */
	struct loop *loop[1 + WORLD_SHARDS];
	uint64_t fab_first, fab_end; /* the numbers of its endpoints */
	uint16_t port;
	unsigned as; /* which of the options' servers it is, or has replaced */
	bool crashed, frozen;
	char tier[128];
	int64_t recall_since_ns;
	uint64_t recall_until_ns;
};

struct world_pool {
	struct kvc_pool *pool; /* NULL: closed */
	struct loop *loop[WORLD_CLIENTS];
	uint64_t fab_first, fab_end;
	unsigned workers; /* that have not returned */
	bool crashed;     /* killed: nothing of it runs any more */
	bool stopped;     /* told to close: its calls end with -KV_ECLOSED */
};

struct world {
	struct world_options options;
	struct sim_world *sim;
	struct kv_prng prng; /* the test's own choices */
	struct loop *loops[WORLD_LOOPS];
	unsigned num_loops;
	struct world_server server[WORLD_SERVERS];
	struct world_pool pool[WORLD_POOLS];
	unsigned num_servers;
	unsigned workers;                 /* that have not returned; without those of crashed pools */
	uint64_t landings, late_landings; /* writes to clients: all, and those whose request was over (in quarantine) */
	char wrong[512];
};

/* world_local -- of worlds whose options name none. */
extern enum world_local world_local;

/* world_open -- servers run and pools are open, or the test has failed. world_close -- everything is stopped and freed,
 * nothing is left: no coroutine, endpoint, region or worker; no completion queue had more events than its depth.
 * Returns the hash of all that happened. */
void world_open(struct world *w, const struct world_options *options);
uint64_t world_close(struct world *w);

/* world_server_late -- the next server of a world whose servers come late. */
void world_server_late(struct world *w);

/* world_loop -- one more loop, for what a test does beside servers and pools. The world closes it. */
struct loop *world_loop(struct world *w, const char *name, unsigned coroutines_max);

/* world_pool_open -- one more pool. Returns its number. */
unsigned world_pool_open(struct world *w);

/* world_run -- until done(arg), within this virtual time, or the test has failed: `what` says what did not come. Fails
 * also when something was wrong. */
void world_run(struct world *w, bool (*done)(void *arg), void *arg, uint64_t within_ns, const char *what);
void world_sleep(struct world *w, uint64_t ns);
uint64_t world_now(const struct world *w);

/* world_wrong -- remember the first thing that is wrong. From anywhere. */
void world_wrong(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* world_worker -- run fn(client, arg) as a coroutine on a client of a pool. world_join -- until all have returned. */
void world_worker(struct world *w, unsigned pool, unsigned client, void (*fn)(struct kvc_client *client, void *arg),
		  void *arg);
void world_join(struct world *w, uint64_t within_ns);

/* world_do -- one worker, to its end. */
void world_do(struct world *w, unsigned pool, void (*fn)(struct kvc_client *client, void *arg), void *arg);

/* Between runs the library's blocking calls may be used, too (kvc_register, kvc_get, kvc_run ...): the world is turned
 * while they wait. world_register -- kvc_register, which says in the log why it failed. */
int world_register(struct world *w, unsigned pool, void *base, uint64_t len, struct kvc_mem **out);

/* world_leases -- those that local clients hold, at all servers that were not killed. */
unsigned world_leases(const struct world *w);

/* world_rest_check -- no call is in progress: the clients of all pools hold no request, immediate or piece of their
 * buffers. */
void world_rest_check(struct world *w);

/* ---- trouble ---- */

/* world_server_freeze -- none of its loops is turned until it is thawed; what its endpoints have to do goes on. */
void world_server_freeze(struct world *w, unsigned server, bool frozen);
/* world_server_crash -- its process is killed: endpoints are gone, connections are reset, the port refuses. With
 * power_loss nobody says so: nothing arrives or answers. */
void world_server_crash(struct world *w, unsigned server, bool power_loss);
/* world_server_again -- another server on the same port, as after a restart. Returns its number. */
unsigned world_server_again(struct world *w, unsigned server);
/* world_server_moved -- the same on another port. */
unsigned world_server_moved(struct world *w, unsigned server);
void world_pool_crash(struct world *w, unsigned pool);
/* world_pool_stop -- the pool is told to close, under its calls. */
void world_pool_stop(struct world *w, unsigned pool);

static inline bool world_pool_usable(const struct world *w, unsigned pool)
{
	return w->pool[pool].pool && !w->pool[pool].crashed && !w->pool[pool].stopped;
}
void world_unplug(struct world *w, uint64_t fab_first, uint64_t fab_end, bool unplugged);

/* world_mark -- landing.c, for world.c: the request that a write without immediate belongs to. */
struct fab_ctx;
bool world_mark(const struct fab_ctx *ctx, uint32_t *out_imm);

/* world_landing -- landing.c, for world.c: the check of each write to a client. */
void world_landing(void *arg, uint64_t id, const uint8_t *at, size_t len, const uint32_t *imm);

/* world_server_stat -- a counter of all servers, also of those that crashed. */
uint64_t world_server_stat(struct world *w, enum wire_stat stat);
/* world_said -- the last line logged that contains text, of those that are kept; NULL: none. */
const char *world_said(const char *text);

struct kvc_counters world_counters(struct world *w, unsigned pool);

/* world_seeds -- how many of n seeds to run: an eighth in `make check`, else all; a quarter under AddressSanitizer; one
 * under ThreadSanitizer, which costs most and finds nothing in one thread. world_storms -- of worlds that take seconds
 * each: one in `make check`. */
static inline unsigned world_seeds(unsigned n)
{
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
	return KV_MIN(n, 1u);
#elif __has_feature(address_sanitizer)
	return (n + 3) / 4;
#endif
#endif
#if defined(__SANITIZE_THREAD__)
	return KV_MIN(n, 1u);
#elif defined(__SANITIZE_ADDRESS__)
	return (n + 3) / 4;
#else
	return test_rounds(n, (n + 7) / 8);
#endif
}

static inline unsigned world_storms(unsigned n)
{
	return test_rounds(world_seeds(n), 1);
}

/* WORLD_LONG -- a test of seconds of processor time, which `make check` leaves to check-long. */
#define WORLD_LONG()                                                                                                   \
	do {                                                                                                           \
		if (test_short()) {                                                                                    \
			print_message("it takes seconds of processor time: make check-long\n");                        \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

#endif
