/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a server's life: create, start, serve, drain, stop.
 *
 * One coroutine on the control loop, the conductor, does everything that takes several loops: it starts the shards,
 * listens, waits for the word to stop, and then ends things in order, each step bounded:
 *   1. stop listening;
 *   2. clients are told goodbye; shards refuse new work and finish what is in flight, and clients that
 * have nothing in flight say goodbye and leave, until the drain deadline;  3. what connections are left are cut, their
 * sessions end;
 *   4. the engines are closed, which ends whatever a provider still held;  5. the last connections are gone.
 * Start failures take the same way out. So there is one shutdown, and it is exercised every time.
 *
 * With threads of its own, start and stop block on `changed`; with the caller's loops nothing blocks and the state
 * tells. `lock` covers state, error and addr only; no loop ever waits for it but for the length of a copy. */
#include "kvserver/control/server.h"

#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"
#include "kvserver/control/accept.h"
#include "kvserver/control/conn.h"
#include "kvserver/control/files.h"
#include "kvserver/control/sockaddr.h"
#include "kvserver/ops/lease.h"
#include "kvserver/ops/ops.h"
#include "kvserver/shard/owner.h"

#define DRAIN_MIN_NS 50000000ull   /* even when told not to wait: for answers that are on their way */
#define CUT_NS       2000000000ull /* for connections to go once they are cut */

static void state_set(struct kvs_server *s, enum kvs_state state)
{
	pthread_mutex_lock(&s->lock);
	if (state > s->state)
		s->state = state;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

enum kvs_state kvs_server_state(struct kvs_server *s, struct kv_error *err)
{
	enum kvs_state state;

	pthread_mutex_lock(&s->lock);
	state = s->state;
	if (err)
		*err = s->error;
	pthread_mutex_unlock(&s->lock);
	return state;
}

/* ---- calls of the conductor ---- */

static void answered(struct call *call)
{
	struct round *round = KV_CONTAINER(call, struct round_call, call)->round;

	round->pending--;
	server_changed(round->server);
}

static bool round_over_await(const struct round *round, uint64_t deadline_ns)
{
	while (round->pending)
		if (co_park_await(deadline_ns))
			return false;
	return true;
}

/* Have every shard run this; wait for all until the deadline. 0, the first failure, or -KV_ETIMEOUT (then the round
 * goes on). */
static int round_await(struct kvs_server *s, struct round *round, void (*run)(struct call *call), uint64_t deadline_ns)
{
	round->server = s;
	round->pending = s->opt.shards;
	for (unsigned i = 0; i < s->opt.shards; i++) {
		struct round_call *rc = &round->shard[i];
		rc->round = round;
		rc->call = (struct call){.shard = s->shard[i], .run = run, .done = answered};
		while (call_make(&rc->call, s->control) != 0)
			co_sleep_await(loop_now(s->control) + 1000000);
	}
	if (!round_over_await(round, deadline_ns))
		return -KV_ETIMEOUT;
	for (unsigned i = 0; i < s->opt.shards; i++)
		if (round->shard[i].call.status)
			return round->shard[i].call.status;
	return 0;
}

static void run_start(struct call *call)
{
	call_finish(call, shard_start(call->shard));
}

static void run_drain(struct call *call)
{
	shard_drain(call->shard, call);
}

static void run_close(struct call *call)
{
	shard_close(call->shard);
	call_finish(call, 0);
}

/* ---- the conductor ---- */

static void accept_run(void *arg)
{
	struct kvs_server *s = arg;

	accept_await(s);
	s->accepting = false;
	server_changed(s);
}

static int begin_await(struct kvs_server *s, struct kv_error *err)
{
	struct sockaddr_storage addr = s->addr;
	int rc = round_await(s, &s->startup, run_start, KV_NEVER);

	if (rc)
		return kv_fail(err, rc, "attaching the engines to their loops: %s", kv_strerror(rc));
	rc = io_listen(s->control, &addr, s->addr_len, &s->listen_fd, err);
	if (rc)
		return rc;
	s->accepting = true;
	rc = co_spawn(s->control, accept_run, s, "accept");
	if (rc) {
		s->accepting = false;
		return kv_fail(err, rc, "cannot start accepting: %s", kv_strerror(rc));
	}
	pthread_mutex_lock(&s->lock);
	s->addr = addr;
	pthread_mutex_unlock(&s->lock);
	atomic_store(&s->port, address_port(&addr));
	return 0;
}

static bool conns_gone_await(struct kvs_server *s, uint64_t deadline_ns)
{
	while (!kv_list_empty(&s->conns))
		if (co_park_await(deadline_ns))
			return false;
	return true;
}

/* Each says goodbye when nothing of it is under way here. */
static bool clients_gone_await(struct kvs_server *s, uint64_t deadline_ns)
{
	while (s->clients > 0)
		if (co_park_await(deadline_ns))
			return false;
	return true;
}

static void end_await(struct kvs_server *s)
{
	uint64_t deadline_ns;

	s->stop_asked = true;
	co_queue_wake_all(&s->handshake_free);
	if (s->listen_fd >= 0)
		io_shutdown(s->control, s->listen_fd);
	while (s->accepting)
		co_park_await(KV_NEVER);
	if (s->listen_fd >= 0)
		io_close(s->control, s->listen_fd);
	s->listen_fd = -1;
	deadline_ns = kv_deadline(loop_now(s->control), KV_MAX(s->drain_ns, DRAIN_MIN_NS));
	conns_goodbye(s);
	if (round_await(s, &s->drain, run_drain, deadline_ns))
		kv_warn(s->opt.log, "requests were still in flight at the end of the drain; they are broken off");
	if (!clients_gone_await(s, deadline_ns))
		kv_info(s->opt.log, "%u clients have not left by the end of the drain; their connections are cut",
			s->clients);
	conns_cut(s);
	conns_gone_await(s, loop_now(s->control) + CUT_NS);
	round_await(s, &s->closing, run_close, KV_NEVER);
	while (!conns_gone_await(s, loop_now(s->control) + CUT_NS))
		conns_cut(s);
	round_over_await(&s->drain, KV_NEVER); /* no session is left: it ends now if it had not */
}

static void conduct(void *arg)
{
	struct kvs_server *s = arg;
	struct kv_error err = {0};
	int rc;

	s->conductor = co_self();
	rc = begin_await(s, &err);
	if (rc == 0)
		state_set(s, KVS_RUNNING);
	while (rc == 0 && !s->stop_asked)
		co_park_await(KV_NEVER);
	if (rc) {
		pthread_mutex_lock(&s->lock);
		s->error = err;
		pthread_mutex_unlock(&s->lock);
	}
	end_await(s);
	s->conductor = NULL;
	state_set(s, KVS_STOPPED);
}

/* ---- resets ---- */

static void on_reset(void *arg)
{
	conns_anew(arg, true);
}

static void on_lost(void *arg)
{
	struct kvs_server *s = arg;

	atomic_store(&s->lost_told, false); /* first: whoever is marked from now on says so again */
	conns_anew(s, false);
}

/* A network that goes away loses thousands of sessions at once, and each look is at all connections. */
static int shard_lost_session(void *arg, struct shard *shard)
{
	struct kvs_server *s = arg;
	int rc;

	(void)shard;
	if (atomic_exchange(&s->lost_told, true))
		return 0;
	rc = loop_post(s->control, on_lost, s);
	if (rc)
		atomic_store(&s->lost_told, false);
	return rc;
}

/* A full queue means that the control loop has much to do; the engine's peers are void, and the shard says so again on
 * its tick. */
static int shard_was_reset(void *arg, struct shard *shard)
{
	struct kvs_server *s = arg;

	(void)shard;
	return loop_post(s->control, on_reset, s);
}

/* ---- start and stop ---- */

static void *thread_run(void *arg)
{
	loop_run(arg);
	return NULL;
}

static int threads_start(struct kvs_server *s, struct kv_error *err)
{
	for (unsigned i = 0; i <= s->opt.shards; i++) {
		int rc = pthread_create(&s->thread[i], NULL, thread_run, i == 0 ? s->control : s->shard_loop[i - 1]);
		if (rc)
			return kv_fail(err, -rc,
				       "starting thread %u of %u: %s; look at ulimit -u and -v, and at the pids limit "
				       "of a container",
				       i + 1, s->opt.shards + 1, kv_strerror(-rc));
		s->threads++;
	}
	return 0;
}

static void threads_join(struct kvs_server *s)
{
	for (unsigned i = 0; i < s->threads; i++)
		loop_stop(i == 0 ? s->control : s->shard_loop[i - 1]);
	for (unsigned i = 0; i < s->threads; i++)
		pthread_join(s->thread[i], NULL);
	s->threads = 0;
	keeper_end(&s->keeper);
}

/* Block until the state is at least this. */
static enum kvs_state state_wait(struct kvs_server *s, enum kvs_state least)
{
	enum kvs_state state;

	pthread_mutex_lock(&s->lock);
	while (s->state < least)
		pthread_cond_wait(&s->changed, &s->lock);
	state = s->state;
	pthread_mutex_unlock(&s->lock);
	return state;
}

static void begin(void *arg)
{
	struct kvs_server *s = arg;
	int rc = co_spawn(s->control, conduct, s, "conductor");

	if (rc == 0)
		return;
	pthread_mutex_lock(&s->lock);
	kv_fail(&s->error, rc, "cannot start the server's first coroutine: %s", kv_strerror(rc));
	pthread_mutex_unlock(&s->lock);
	state_set(s, KVS_STOPPED);
}

int kvs_server_start(struct kvs_server *s, struct kv_error *err)
{
	int rc = 0;

	if (kvs_server_state(s, NULL) != KVS_CREATED)
		return kv_fail(err, -KV_EINVAL, "a server is started once");
	state_set(s, KVS_STARTING);
	rc = s->opt.loops ? 0 : keeper_start(s, &s->keeper, err);
	if (rc == 0)
		rc = loop_post(s->control, begin, s);
	if (rc == 0 && !s->opt.loops)
		rc = threads_start(s, err);
	if (rc) {
		threads_join(s);
		state_set(s, KVS_STOPPED);
		return rc == -KV_EBUSY ? kv_fail(err, rc, "the control loop takes no more work") : rc;
	}
	if (s->opt.loops || state_wait(s, KVS_RUNNING) == KVS_RUNNING)
		return 0;
	kvs_server_state(s, err);
	threads_join(s);
	return err ? err->code : -KV_EINVAL;
}

static void on_stop(void *arg)
{
	struct kvs_server *s = arg;

	s->stop_asked = true;
	server_changed(s);
}

void kvs_server_stop(struct kvs_server *s, uint64_t drain_ns)
{
	enum kvs_state state = kvs_server_state(s, NULL);

	if (state == KVS_STARTING || state == KVS_RUNNING) {
		state_set(s, KVS_STOPPING);
		s->drain_ns = drain_ns;
		if (s->opt.loops)
			on_stop(s);
		while (!s->opt.loops && loop_post(s->control, on_stop, s) != 0)
			usleep(1000);
	}
	if (!s->opt.loops && s->threads) {
		state_wait(s, KVS_STOPPED);
		threads_join(s);
	}
}

bool kvs_server_reload(struct kvs_server *s)
{
	return keeper_ask(s->keeper);
}

void kvs_server_destroy(struct kvs_server **server)
{
	struct kvs_server *s = *server;

	if (!s)
		return;
	if (!s->opt.loops)
		kvs_server_stop(s, 0);
	for (unsigned i = 0; i < s->opt.shards; i++)
		shard_destroy(&s->shard[i]);
	for (unsigned i = 0; !s->opt.loops && i < s->opt.shards; i++)
		loop_destroy(&s->shard_loop[i]);
	if (!s->opt.loops)
		loop_destroy(&s->control);
	boot_context_destroy(&s->boot);
	boot_keys_destroy(&s->session_keys);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s->slots);
	free(s);
	*server = NULL;
}

/* ---- create ---- */

static void defaults(struct kvs_options *o)
{
	if (!o->listen_addr)
		o->listen_addr = KV_SERVER_DEFAULT;
	if (!o->shards)
		o->shards = KV_MIN(4u, kv_cpus_available());
	if (!o->memory_bytes)
		o->memory_bytes = 1ull << 30;
	if (!o->max_clients)
		o->max_clients = KVS_CLIENTS_DEFAULT;
	if (!o->max_sessions)
		o->max_sessions = KV_MAX(o->max_clients / 2, 1u);
	if (!o->credits)
		o->credits = KVS_CREDITS_DEFAULT;
	if (!o->heartbeat_ms)
		o->heartbeat_ms = KVS_HEARTBEAT_MS_DEFAULT;
	if (!o->value_max)
		o->value_max = KV_VALUE_MAX;
	if (!o->lease_ns)
		o->lease_ns = LEASE_NS;
	if (!o->clock)
		o->clock = &kv_clock_monotonic;
	if (!o->entropy)
		o->entropy = &kv_entropy_kernel;
}

static int numbers_check(const struct kvs_options *o, struct kv_error *err)
{
	unsigned policies = 0;

	while (kv_opt_eviction_names[policies])
		policies++;
	if (o->shards > KV_SHARDS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u shards; there are at most %d", o->shards, KV_SHARDS_MAX);
	if (o->rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u rails; there are at most %d", o->rails, KV_RAILS_MAX);
	if (o->max_clients > KVS_CLIENTS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u clients; one server admits at most %d", o->max_clients,
			       KVS_CLIENTS_MAX);
	if (o->lease_ns < LEASE_MIN_NS || o->lease_ns > LEASE_MAX_NS)
		return kv_fail(err, -KV_EINVAL, "a lease of %llu us; it is 10 ms to 60 s",
			       (unsigned long long)(o->lease_ns / 1000));
	if (o->max_sessions > OWNERS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u further sessions; one connection has at most %d", o->max_sessions,
			       OWNERS_MAX);
	if (o->eviction >= policies)
		return kv_fail(err, -KV_EINVAL, "there is no eviction policy number %u", o->eviction);
	return 0;
}

static int memory_check(const struct kvs_options *o, struct kv_error *err)
{
	char want[32];

	if (o->memory_bytes / o->shards < 1 << 20)
		return kv_fail(err, -KV_EINVAL,
			       "%s for %u shards: a shard needs 1 MiB at least; give more memory (--memory-mb) or "
			       "fewer shards (--worker-threads)",
			       kv_size_format(o->memory_bytes, want, sizeof(want)), o->shards);
	return kv_memory_fits(o->memory_bytes, "values", "--memory-mb", err);
}

static int door_check(const struct kvs_server *s, struct kv_error *err)
{
	if (s->opt.insecure || boot_context_mode(s->boot) != BOOT_PLAIN || kv_sockaddr_is_loopback(&s->addr))
		return 0;
	return kv_fail(err, -KV_EINVAL,
		       "%s can be reached from other machines, and neither a pre-shared key nor certificates are set: "
		       "anybody there could read and write. Give --psk-file or "
		       "--cert, --key and --ca; or listen on 127.0.0.1; or say --insecure if the network is trusted",
		       s->opt.listen_addr);
}

static int server_open_door(struct kvs_server *s, struct kv_error *err)
{
	const struct kvs_options *o = &s->opt;
	const struct boot_security security = {.psk_file = o->psk_file,
					       .psk = o->psk,
					       .cert_file = o->cert_file,
					       .key_file = o->key_file,
					       .ca_file = o->ca_file,
					       .crl_file = o->crl_file,
					       .crl_kept = !o->loops};
	struct kv_hostport hp;
	int rc = o->node_id ? kv_node_id_check(o->node_id, err) : 0;

	snprintf(s->node_id, sizeof(s->node_id), "%s", o->node_id ? o->node_id : "");
	if (rc == 0)
		rc = kv_hostport_parse(o->listen_addr, &hp, err);
	if (rc == 0)
		rc = kv_hostport_resolve(&hp, &s->addr, &s->addr_len, err);
	if (rc == 0)
		rc = boot_context_create(&security, true, o->log, &s->boot, err);
	if (rc == 0 && o->session_keys)
		rc = boot_keys_load(o->session_keys, &s->session_keys, err);
	if (rc == 0)
		rc = door_check(s, err);
	return rc;
}

static int secrets_make(struct kvs_server *s, struct kv_error *err)
{
	int rc = kv_entropy_fill(s->opt.entropy, &s->incarnation, sizeof(s->incarnation));

	if (rc == 0)
		rc = kv_entropy_fill(s->opt.entropy, &s->shard_seed, sizeof(s->shard_seed));
	kv_host_id(s->host_id);
	return rc ? kv_fail(err, rc, "no entropy for the server's incarnation: %s", kv_strerror(rc)) : 0;
}

static int slots_make(struct kvs_server *s, struct kv_error *err)
{
	/* Of connections: there are never more than numbers have bits for. */
	s->slot_count = KV_MIN(s->opt.max_clients + CLOSING_SLOTS, (unsigned)CONNS_MAX);
	s->slots = calloc(s->slot_count, sizeof(s->slots[0]));
	return s->slots ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for %u session slots", s->slot_count);
}

/* One for each connection with a session, one for each without, those that send, and the server's own. */
static unsigned control_coroutines(const struct kvs_server *s)
{
	return s->slot_count + HANDSHAKES_MAX + BEATS_MAX;
}

static int loops_make(struct kvs_server *s, struct kv_error *err)
{
	struct loop_options options = {.name = "kv-control",
				       .log = s->opt.log,
				       .clock = s->opt.clock,
				       .entropy = s->opt.entropy,
				       .coroutines_max = control_coroutines(s)};
	char name[16];
	int rc = 0;

	if (s->opt.loops) {
		s->control = s->opt.loops[0];
		memcpy(s->shard_loop, s->opt.loops + 1, s->opt.shards * sizeof(s->shard_loop[0]));
		return 0;
	}
	rc = loop_create(&options, &s->control, err);
	options.spin_ns = s->opt.spin_ns;
	options.coroutines_max = 0;
	options.name = name;
	for (unsigned i = 0; rc == 0 && i < s->opt.shards; i++) {
		snprintf(name, sizeof(name), "kv-shard-%u", i % KV_SHARDS_MAX);
		rc = loop_create(&options, &s->shard_loop[i], err);
	}
	return rc;
}

/* The source address of the fabric is the one that is listened on, unless that is any. */
static struct sockaddr_storage fabric_source(const struct kvs_server *s)
{
	struct sockaddr_storage a = s->addr;

	address_set_port(&a, 0);
	if (address_is_any(&a))
		a.ss_family = 0;
	return a;
}

static struct te_options engine_options(struct kvs_server *s)
{
	const struct kvs_options *o = &s->opt;

	return (struct te_options){.peers_heal = true,
				   .provider = o->provider,
				   .nic = o->nic,
				   .local = fabric_source(s),
				   .rails = o->rails,
				   .engines = o->shards,
				   .chunk_bytes = o->chunk_bytes,
				   .messages = 512,
				   .receives = 512,
				   .near = !o->numa_off,
				   .door = (enum te_door)o->door,
				   .log = o->log};
}

/* Whether all shards will fit, said before the first of them is opened. Clients come later: one is the least. */
static int preflight(struct kvs_server *s, struct kv_error *err)
{
	enum { LOOP_FILES = 2, OWN_FILES = 8 };
	const struct kvs_options *o = &s->opt;
	struct te_options engine = engine_options(s);
	struct te_load load = {.engines = o->shards,
			       .region_bytes = o->memory_bytes / o->shards,
			       .peers = 1,
			       .threads = o->shards + 1, /* and the control loop's */
			       .files = (o->shards + 1) * LOOP_FILES + OWN_FILES};

	/* Loops of the caller's are a simulation's or a test's, where this machine's limits mean nothing. */
	return o->loops ? 0 : te_preflight(&engine, &load, err);
}

static int shards_make(struct kvs_server *s, struct kv_error *err)
{
	const struct kvs_options *o = &s->opt;
	struct shard_options options = {
		.memory_bytes = kv_align_down(o->memory_bytes / o->shards, ARENA_GRANULE),
		.sessions_max = s->slot_count,
		.credits = o->credits,
		.ttl_ns = o->ttl_ns,
		.allow_bench = o->allow_bench,
		.allow_pull = o->allow_pull,
		.pull_where_safe = o->pull_where_safe,
		.lease_ns = o->lease_ns,
		.slow_ns = o->slow_ns,
		.prefault = o->prefault,
		.own_thread = !o->loops,
		.ops = &kvs_ops,
		.policy = evict_policies[o->eviction],
		.log = o->log,
		.engine = engine_options(s),
		.reset = shard_was_reset,
		.lost = shard_lost_session,
		.arg = s,
	};
	int rc = 0;

	options.values_max = (o->values_max + o->shards - 1) / o->shards;
	s->opt.value_max = options.value_max = KV_MIN(o->value_max, options.memory_bytes);
	for (unsigned i = 0; rc == 0 && i < o->shards; i++) {
		options.index = i;
		options.shards = s->opt.shards;
		options.control = i == 0 ? s->control_stat : NULL;
		options.loop = s->shard_loop[i];
		options.engine.engine = i;
		rc = shard_create(&options, o->entropy, o->clock, &s->shard[i], err);
		if (rc)
			kv_fail_more(err,
				     rc == -EADDRNOTAVAIL ? "--listen-addr %s is no address of this machine (`ip addr` "
							    "lists them); shard %u of %u"
							  : "on %s: shard %u of %u",
				     o->listen_addr, i, o->shards);
	}
	if (rc == 0)
		s->opt.allow_pull = s->shard[0]->opt.allow_pull; /* one provider, one answer */
	return rc;
}

static void identity_make(struct kvs_server *s)
{
	const struct te_info *info = &s->shard[0]->info;

	memcpy(s->identity.provider, info->provider, sizeof(s->identity.provider));
	memcpy(s->identity.fabric, info->fabric, sizeof(s->identity.fabric));
	s->identity.eager_bytes = info->eager_bytes;
}

static int files_make(struct kvs_server *s, struct kv_error *err)
{
	const struct te_options engine = engine_options(s);

	return files_plan(s, &engine, err);
}

/* What coroutines there are, less those of strangers and of sending. Address space may have been short. */
static void clients_fit(struct kvs_server *s)
{
	struct loop_stats stats;
	unsigned others = HANDSHAKES_MAX + BEATS_MAX, all;

	loop_stats(s->control, &stats);
	all = (unsigned)stats.coroutines_max;
	s->clients_max = all > 2 * others ? all - others : KV_MAX(all / 2, 1u);
	s->handshakes_max = KV_MIN(s->handshakes_max, KV_MAX(all / 4, 1u));
}

static int server_make(struct kvs_server *s, struct kv_error *err)
{
	int rc = numbers_check(&s->opt, err);

	if (rc == 0)
		rc = server_open_door(s, err);
	if (rc == 0)
		rc = memory_check(&s->opt, err);
	if (rc == 0)
		rc = secrets_make(s, err);
	if (rc == 0)
		rc = slots_make(s, err);
	if (rc == 0)
		rc = loops_make(s, err);
	if (rc == 0)
		clients_fit(s);
	if (rc == 0)
		rc = preflight(s, err);
	if (rc == 0)
		rc = shards_make(s, err);
	if (rc == 0)
		identity_make(s);
	if (rc == 0)
		rc = files_make(s, err);
	return rc;
}

int kvs_server_create(const struct kvs_options *options, struct kvs_server **out, struct kv_error *err)
{
	struct kvs_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return kv_fail(err, -KV_ENOMEM, "no memory for a server");
	s->opt = *options;
	defaults(&s->opt);
	s->listen_fd = -1;
	kv_list_init(&s->conns);
	kv_list_init(&s->knocking);
	s->handshakes_max = handshakes_allowed();
	co_queue_init(&s->handshake_free);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	rc = server_make(s, err);
	if (rc)
		kvs_server_destroy(&s);
	else
		*out = s;
	return rc;
}

/* ---- small things ---- */

uint16_t kvs_server_port(const struct kvs_server *s)
{
	return atomic_load(&s->port);
}

char *kvs_server_address(const struct kvs_server *s, char *buf, unsigned cap)
{
	struct sockaddr_storage a = s->addr;

	address_set_port(&a, kvs_server_port(s));
	return kv_sockaddr_format(&a, buf, cap);
}

/* A node that had too few pages: how much is where it was asked for, of what was touched. */
static void share_info(const struct kvs_server *s, struct kvs_info *out)
{
	size_t at = strlen(out->numa);
	int least = 100;

	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct shard *shard = s->shard[i];
		int share = shard->place.node == KV_NODE_ANY
				    ? -1
				    : kv_numa_share(shard->area.base, shard->area.len_bytes, shard->place.node);
		if (share >= 0)
			least = KV_MIN(least, share);
	}
	if (least < 100)
		snprintf(out->numa + at, sizeof(out->numa) - at,
			 "; of a shard only %d %% of the memory: the node has no more pages", least);
}

/* What the memory of all shards is, and what became of placing it. */
static void memory_info(const struct kvs_server *s, struct kvs_info *out)
{
	struct kv_numa_place place[KV_SHARDS_MAX];

	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct shard *shard = s->shard[i];
		struct te_region_info region = {0};
		place[i] = shard->place;
		if (shard->area.page_bytes < out->page_bytes)
			out->page_bytes = shard->area.page_bytes;
		kv_pages_add(&out->pages, &shard->area.pages);
		if (shard->region)
			te_region_info(shard->region, &region);
		out->parts += region.parts;
		out->register_ns += region.ns;
		out->register_threads = KV_MAX(out->register_threads, region.threads);
	}
	kv_numa_describe(place, s->opt.shards, "shard", s->opt.numa_off, out->numa, sizeof(out->numa));
	share_info(s, out);
}

void kvs_server_info(const struct kvs_server *s, struct kvs_info *out)
{
	static const char *const security[] = {[BOOT_PLAIN] = "none", [BOOT_PSK] = "psk", [BOOT_CERT] = "certificate"};
	const struct te_info *info = &s->shard[0]->info;

	*out = (struct kvs_info){
		.security = security[boot_context_mode(s->boot)],
		.shards = s->opt.shards,
		.rails = info->rails,
		.memory_bytes = s->shard[0]->store.arena.limit * s->opt.shards,
		.page_bytes = s->shard[0]->area.page_bytes,
		.wait_fd = info->wait_fd,
		.pull = s->opt.allow_pull,
	};
	memory_info(s, out);
	memcpy(out->provider, info->provider, sizeof(out->provider));
	memcpy(out->fabric, info->fabric, sizeof(out->fabric));
	memcpy(out->domain, info->domain, sizeof(out->domain));
	memcpy(out->why, info->why, sizeof(out->why));
	memcpy(out->congestion, info->congestion, sizeof(out->congestion));
	memcpy(out->no_door, info->no_door, sizeof(out->no_door));
}
