/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c -- opens and closes pools: options, servers, loops, threads, clients. Opening: the calling thread does
 * everything that may block. Then each client opens on its loop's thread, one per turn; after a slow one the loop
 * pauses as long, for the handshakes of earlier clients. The first failure ends the opening, and everything is closed
 * as by kvc_pool_close. With KVC_OPEN_WAIT every first attempt is awaited, and every client must have a server.
 * Closing: clients first, while their loops turn; then loops and threads. With KVC_NO_THREADS waiting threads turn the
 * one loop (kc_drive), and so does the host by kvc_poll. The mutex guards progress and registrations; no call on the
 * data path takes it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "kvclient/core/block.h"
#include "kvclient/core/fork.h"
#include "kvclient/pool/private.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/queue/queue.h"
#include "kvclient/seal/sealed.h"
#include "kvclient/transfer/memory.h"

enum { CLIENTS_WARN = 8, OPENING_LOOK_NS = 100000000 };
#define OPENING_LONG_NS 50000000ull
#define OPENING_REST_NS 1000000000ull
#define LOOK_UP_NS      1000000000ull
#define POLL_TURN_NS    10000000ull

/* Most time a loop polls before it sleeps; below, it learns how long polling pays (loop/spin.c). Where no event wakes a
 * loop (shm, older EFA) it polls all of this time: a blind sleep takes 50 us, and on shm its wake-up may preempt a loop
 * that holds a provider's spin lock. */
#define SPIN_DEFAULT_NS 50000ull

static void callers_wait(struct kvc_pool *p)
{
	while (atomic_load(&p->callers) > 0)
		kc_drive_nap(p);
}

/* ---- building ---- */

static void log_write(void *arg, enum kv_log_level level, const char *line)
{
	const struct kvc_pool *p = arg;
	p->options.log(p->options.log_arg, (int)level, line);
}

static void log_init(struct kvc_pool *p)
{
	p->log.level = (enum kv_log_level)KV_MAX(p->options.log_level, 0);
	p->log.write = p->options.log ? log_write : kv_log_stderr;
	p->log.event = p->options.log ? NULL : kv_log_stderr_event;
	p->log.arg = p->options.log ? (void *)p : &p->log_style;
	kv_log_style_from(&p->log_style, "libkvrail");
}

/* Copy a string of the caller's. */
static int string_keep(struct kvc_pool *p, const char **s)
{
	if (!*s)
		return 0;
	*s = p->texts.at[p->texts.count] = strdup(*s);
	return p->texts.at[p->texts.count++] ? 0 : -KV_ENOMEM;
}

static int strings_keep(struct kvc_pool *p)
{
	struct kvc_options *o = &p->options;
	const char **all[] = {&o->provider,     &o->nic,      &o->psk_file,     &o->psk,
			      &o->cert_file,    &o->key_file, &o->ca_file,      &o->crl_file,
			      &o->server_name,  &o->cluster,  &o->local_socket, &o->namespace_name,
			      &o->seal_key_file};
	int rc = 0;
	for (unsigned i = 0; i < KV_COUNT(all) && rc == 0; i++)
		rc = string_keep(p, all[i]);
	return rc;
}

static void strings_free(struct kvc_pool *p)
{
	while (p->texts.count > 0) {
		char *s = p->texts.at[--p->texts.count];
		/* It may be the key. */
		if (s)
			explicit_bzero(s, strlen(s));
		free(s);
	}
}

static int servers_keep(struct kvc_pool *p, struct kv_error *err)
{
	p->num_servers = p->options.num_servers;
	p->room = p->options.servers_max;
	p->server = calloc(p->room, sizeof(*p->server));
	p->taken = calloc(p->room, sizeof(*p->taken));
	if (!p->server || !p->taken)
		return kv_fail(err, -KV_ENOMEM, "no memory for the list of servers");
	if (kc_place_init(&p->place, p->num_servers) < 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for the placement of keys on %u servers", p->num_servers);
	for (unsigned i = 0; i < p->num_servers; i++) {
		struct kc_server *s = &p->server[i];
		int rc = kv_server_entry_parse(p->options.servers[i], &s->entry, err);
		if (rc < 0)
			return rc;
		p->place.seed[i] = kc_place_seed(s->entry.id);
		s->users = 1; /* the list's own */
	}
	p->options.servers = NULL;
	(void)kc_notes_share(&p->place, &p->notes); /* clients carry the notes over */
	if (boot_resolver_create(p->room * KV_WHERE_ADDRESSES, &p->resolver) < 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for the list of servers");
	return 0;
}

/* Our address towards one address of a listed server. 0; 1: its name is being looked up; or an error. */
static int local_towards(struct kvc_pool *p, unsigned i, unsigned k)
{
	struct kv_hostport at;
	struct kv_addresses a;
	int rc = kv_where_at(p->server[i].entry.where, k, &at) ? 0 : -KV_EPEERDOWN;
	if (rc == 0)
		rc = boot_resolve(p->resolver, i * KV_WHERE_ADDRESSES + k, &at, &a, NULL);
	return rc == 0 && !kv_sockaddr_route(&a.addr[0], a.len[0], &p->local) ? -KV_EPEERDOWN : rc;
}

/* Our address towards the first listed server with a route. 0; 1: an earlier name is being looked up (`last`: skip
 * those); -KV_EPEERDOWN: no route. */
static int local_look(struct kvc_pool *p, bool last)
{
	bool pending = false;
	for (unsigned i = 0; i < p->num_servers * KV_WHERE_ADDRESSES && (last || !pending); i++) {
		int rc = local_towards(p, i / KV_WHERE_ADDRESSES, i % KV_WHERE_ADDRESSES);
		if (rc == 0)
			return 0;
		pending |= rc == 1;
	}
	return pending ? 1 : -KV_EPEERDOWN;
}

/* Without a descriptor no route or name can be found: report that instead. */
static int files_check(struct kv_error *err)
{
	int fd = eventfd(0, EFD_CLOEXEC), rc = fd < 0 ? errno : 0;
	struct rlimit limit = {0};
	if (fd >= 0)
		close(fd);
	if (rc == ENFILE)
		return kv_fail(err, -KV_ELIMIT,
			       "opening a pool: the machine has no more files; raise the sysctl fs.file-max");
	if (rc != EMFILE)
		return 0;
	getrlimit(RLIMIT_NOFILE, &limit);
	return kv_fail(err, -KV_ELIMIT,
		       "opening a pool: this process has all of its %llu files open; raise the limit (ulimit -n, "
		       "LimitNOFILE), or close some",
		       (unsigned long long)limit.rlim_cur);
}

/* The fabric should use the interface of the control connections. Silent name servers must not delay a pool for long:
 * without an address (family 0) the provider takes any interface. */
static void local_find(struct kvc_pool *p, uint64_t wait_ns)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + wait_ns;
	int rc;
	while ((rc = local_look(p, false)) == 1 && kv_clock_now(&kv_clock_monotonic) < until)
		nanosleep(&pause, NULL);
	if (rc == 1)
		rc = local_look(p, true);
	if (rc != 0)
		kv_warn(&p->log,
			"there is no route to any server yet (%s): the fabric uses any interface "
			"of this machine; name one with --nic (kvc_options.nic)",
			rc == 1 ? "names are still being looked up"
				: "names cannot be looked up, or the machine has no route");
}

static int clients_build(struct kvc_pool *p, struct kv_error *err)
{
	p->client = calloc(p->options.num_clients, sizeof(*p->client));
	p->loads.keys = calloc(p->options.num_clients, sizeof(*p->loads.keys));
	p->loads.down = calloc(p->options.num_clients, sizeof(*p->loads.down));
	if (!p->client || !p->loads.keys || !p->loads.down)
		return kv_fail(err, -KV_ENOMEM, "no memory for %u clients", p->options.num_clients);
	for (unsigned i = 0; i < p->options.num_clients; i++) {
		/* Each is written by another thread. */
		p->client[i] = aligned_alloc(KV_LINES, kv_align_up(sizeof(*p->client[i]), KV_LINES));
		if (!p->client[i])
			return kv_fail(err, -KV_ENOMEM, "no memory for %u clients", p->options.num_clients);
		memset(p->client[i], 0, sizeof(*p->client[i]));
		p->client[i]->pool = p;
		p->client[i]->index = i;
		p->num_clients++;
		if (p->seal_keys && kc_sealer_create(p->seal_keys, &p->client[i]->sealer) < 0)
			return kv_fail(err, -KV_ENOMEM, "no memory to seal the values of %u clients",
				       p->options.num_clients);
	}
	if (p->num_clients > CLIENTS_WARN)
		kv_warn(&p->log,
			"%u clients: each has endpoints and %llu MiB of "
			"registered memory of its own; 4 serve hundreds of workers",
			p->num_clients, (unsigned long long)(p->options.buffer_bytes >> 20));
	return 0;
}

static void pool_destroy(struct kvc_pool **pool)
{
	struct kvc_pool *p = *pool;
	kc_queues_leave(p);
	kc_mems_free(p);
	for (unsigned i = 0; i < p->num_loops && p->own_loops; i++)
		loop_destroy(&p->loop[i]);
	for (unsigned i = 0; i < p->num_clients; i++) {
		kc_sealer_destroy(&p->client[i]->sealer);
		free(p->client[i]);
	}
	kc_seal_keys_destroy(&p->seal_keys);
	free(p->client);
	free(p->loads.keys);
	free(p->loads.down);
	free(p->loop);
	free(p->thread);
	free(p->bound);
	boot_resolver_destroy(&p->resolver);
	free(p->server);
	free(p->taken);
	kc_place_fini(&p->place);
	kv_view_fini(&p->views.posted);
	strings_free(p);
	pthread_cond_destroy(&p->changed);
	kc_notes_home_fini(&p->notes);
	kc_home_unref(p->home);
	pthread_mutex_destroy(&p->lock);
	free(p);
	*pool = NULL;
}

static void changed_init(pthread_cond_t *changed)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(changed, &attr);
	pthread_condattr_destroy(&attr);
}

/* Everything but loops and threads. */
static int pool_create(const struct kvc_options *given, uint64_t look_up_ns, struct kvc_pool **out,
		       struct kv_error *err)
{
	struct kvc_pool *p;
	int rc = kv_stdio_reserve(err); /* before any other descriptor */
	if (rc < 0)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p || kc_fork_watch() < 0 || kc_home_make(&p->home) < 0) {
		free(p);
		return kv_fail(err, -KV_ENOMEM, "no memory for a pool");
	}
	p->born = atomic_load_explicit(&kc_forks, memory_order_relaxed);
	pthread_mutex_init(&p->lock, NULL);
	kc_notes_home_init(&p->notes);
	changed_init(&p->changed);
	kv_list_init(&p->queues);
	p->registered.last_id = KC_REGION_BUFFER;
	rc = kc_options_fill(given, &p->options, err);
	if (rc < 0)
		goto err_pool;
	p->time_grows = given->timeout_ns == 0;
	log_init(p);
	rc = strings_keep(p);
	if (rc < 0) {
		kv_fail(err, rc, "no memory for the options");
		goto err_pool;
	}
	rc = servers_keep(p, err);
	if (rc == 0)
		rc = files_check(err);
	if (rc < 0)
		goto err_pool;
	if (p->options.seal_key_file)
		rc = kc_seal_keys_load(p->options.seal_key_file, p->options.namespace_name,
				       p->options.flags & KVC_SEAL_NAMES, &p->seal_keys, err);
	if (rc < 0)
		goto err_pool;
	local_find(p, look_up_ns);
	rc = clients_build(p, err);
	if (rc < 0)
		goto err_pool;
	*out = p;
	return 0;

err_pool:
	pool_destroy(&p);
	return rc;
}

/* ---- opening ---- */

static int opening_failed(struct kvc_pool *p)
{
	int rc;
	pthread_mutex_lock(&p->lock);
	rc = p->progress.status;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static void client_open(void *arg);

static uint64_t rest_after(uint64_t took_ns)
{
	return took_ns < OPENING_LONG_NS ? 0 : KV_MIN(took_ns, OPENING_REST_NS);
}

static void open_next(struct loop_timer *t)
{
	client_open(KV_CONTAINER(t, struct kvc_client, life.open_next));
}

/* Open this client, and later the next one of its loop. */
static void client_open(void *arg)
{
	struct kvc_client *c = arg;
	struct kvc_pool *p = c->pool;
	struct kv_error err = {0};
	unsigned next = c->index + p->num_loops;
	uint64_t began = loop_now(c->loop), now;
	int rc = opening_failed(p);
	if (rc == 0)
		rc = kc_client_open(c, &err);
	now = loop_now(c->loop);
	/* Before the report: after the last one the pool may be closed. */
	if (next < p->num_clients) {
		p->client[next]->life.open_next = (struct loop_timer){.fire = open_next};
		loop_timer_arm(c->loop, &p->client[next]->life.open_next, now + rest_after(now - began));
	}
	kc_pool_tell_started(p, rc, &err);
}

/* If a loop is full, all its clients count as failed, so there is one way to end an opening. */
static void clients_open(struct kvc_pool *p)
{
	unsigned per_loop = (p->num_clients + p->num_loops - 1) / p->num_loops;
	for (unsigned i = 0; i < p->num_clients; i++) {
		p->client[i]->loop = p->loop[i % p->num_loops];
		p->client[i]->batches.parts_max = KC_PARTS_MAX / per_loop;
	}
	for (unsigned i = 0; i < p->num_loops && i < p->num_clients; i++) {
		struct kv_error err = {0};
		int rc = loop_post(p->client[i]->loop, client_open, p->client[i]);
		for (unsigned k = i; rc < 0 && k < p->num_clients; k += p->num_loops)
			kc_pool_tell_started(p, kv_fail(&err, rc, "the queue of the loop of client %u is full", k),
					     &err);
	}
}

static int unserved(const struct kc_progress *g, const struct kc_attempts *a, struct kv_error *err)
{
	unsigned more = a->failed - (a->other.code ? 2 : 1);
	char text[48] = "";
	if (g->list_status < 0) {
		if (err)
			*err = g->list_error;
		return g->list_status;
	}
	if (more > 0)
		snprintf(text, sizeof(text), " (and %u more server%s)", more, more == 1 ? " fails" : "s fail");
	return kv_fail(err, a->first.code, "%s%s%s%s", a->first.text, a->other.code ? "; " : "", a->other.text, text);
}

/* Under the lock. */
static int status_look(struct kvc_pool *p, struct kv_error *err)
{
	struct kc_progress *g = &p->progress;
	int rc = 0;
	if (g->status < 0) {
		/* All clients must have reported before they are closed. */
		rc = g->started < p->num_clients ? 1 : g->status;
		if (rc < 0 && err)
			*err = g->error;
	} else if (!(p->options.flags & KVC_OPEN_WAIT)) {
		rc = g->started < p->num_clients ? 1 : 0;
	} else if (g->attempted < p->num_clients * p->num_servers) {
		rc = 1;
	} else {
		for (unsigned i = 0; i < p->num_clients && rc == 0; i++)
			if (p->client[i]->attempts.up == 0)
				rc = unserved(g, &p->client[i]->attempts, err);
	}
	return rc;
}

int kc_pool_status(struct kvc_pool *p, struct kv_error *err)
{
	int rc;
	pthread_mutex_lock(&p->lock);
	rc = status_look(p, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static void *thread_main(void *arg)
{
	loop_run(arg);
	return NULL;
}

static int loops_create(struct kvc_pool *p, struct kv_error *err)
{
	unsigned n = KV_MIN(p->options.num_threads, p->num_clients);
	p->own_loops = true;
	p->turned = p->options.flags & KVC_NO_THREADS;
	p->loop = calloc(n, sizeof(struct loop *));
	p->thread = calloc(n, sizeof(*p->thread));
	p->bound = calloc(n, sizeof(*p->bound));
	if (!p->loop || !p->thread || !p->bound)
		return kv_fail(err, -KV_ENOMEM, "no memory for %u loops", n);
	for (unsigned i = 0; i < n; i++) {
		char name[16];
		struct loop_options o = {.name = name,
					 .log = &p->log,
					 .clock = p->clock,
					 .host_turned = p->turned,
					 .spin_ns = p->options.spin_ns ? p->options.spin_ns : SPIN_DEFAULT_NS};
		int rc;
		snprintf(name, sizeof(name), "kvc-%u", i);
		rc = loop_create(&o, &p->loop[i], err);
		if (rc < 0)
			return rc;
		p->num_loops++;
	}
	return 0;
}

static void threads_stop(struct kvc_pool *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		loop_stop(p->loop[i]);
	for (unsigned i = 0; i < n; i++)
		pthread_join(p->thread[i], NULL);
}

static int threads_start(struct kvc_pool *p, struct kv_error *err)
{
	for (unsigned i = 0; i < p->num_loops && !p->turned; i++) {
		sigset_t before;
		int rc;
		kv_signals_block(&before);
		rc = pthread_create(&p->thread[i], NULL, thread_main, p->loop[i]);
		kv_signals_restore(&before);
		if (rc != 0) {
			threads_stop(p, i);
			return kv_fail(err, -KV_ELIMIT,
				       "thread %u of %u cannot be started: %s; look at ulimit -u and -v, and at the "
				       "pids limit of a container",
				       i + 1, p->num_loops, strerror(rc));
		}
	}
	return 0;
}

/* Under the lock. Nonzero: `until` has passed. Without threads it may return early. */
static int report_wait(struct kvc_pool *p, const struct timespec *until)
{
	struct timespec now;
	if (p->turned) {
		pthread_mutex_unlock(&p->lock);
		kc_drive_nap(p);
		pthread_mutex_lock(&p->lock);
		clock_gettime(CLOCK_MONOTONIC, &now);
		return until &&
		       (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec));
	}
	return until ? pthread_cond_timedwait(&p->changed, &p->lock, until) : pthread_cond_wait(&p->changed, &p->lock);
}

/* Wait until `look` returns other than 1. Reports always come: every client and first attempt has a deadline. */
static int progress_wait(struct kvc_pool *p, int (*look)(struct kvc_pool *p, struct kv_error *err),
			 struct kv_error *err)
{
	int rc;
	pthread_mutex_lock(&p->lock);
	while ((rc = look(p, err)) == 1)
		report_wait(p, NULL);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* Show the caller the progress, and let it give up once. Under the lock, released during the callback. */
static void opening_show(struct kvc_pool *p)
{
	const struct kc_progress seen = p->progress;
	bool go_on;
	if (seen.status < 0)
		return;
	pthread_mutex_unlock(&p->lock);
	go_on = p->options.opening(p->options.opening_arg, seen.opened, seen.up);
	pthread_mutex_lock(&p->lock);
	if (!go_on && p->progress.status == 0)
		p->progress.status = kv_fail(&p->progress.error, -KV_ECANCELED,
					     "the caller stopped the opening of the pool, with %u of %u clients open",
					     p->progress.opened, p->num_clients);
}

/* As progress_wait, for opening. */
static int opening_wait(struct kvc_pool *p, struct kv_error *err)
{
	int rc;
	if (!p->options.opening)
		return progress_wait(p, status_look, err);
	pthread_mutex_lock(&p->lock);
	while ((rc = status_look(p, err)) == 1) {
		struct timespec until;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += OPENING_LOOK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		unsigned started = p->progress.started;
		while (status_look(p, NULL) == 1 && p->progress.started == started && report_wait(p, &until) == 0)
			;
		opening_show(p);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static int stopped_look(struct kvc_pool *p, struct kv_error *err)
{
	(void)err;
	return kc_pool_over(p) ? 0 : 1;
}

static void pool_shut(struct kvc_pool *p)
{
	kc_pool_stop(p);
	progress_wait(p, stopped_look, NULL);
	callers_wait(p);
	if (!p->turned)
		threads_stop(p, p->num_loops);
}

static void opened_log(struct kvc_pool *p)
{
	struct kvc_info i = {.size = sizeof(i)};
	if (kvc_info(p, &i) == 0)
		kv_event(&p->log, KV_LOG_INFO,
			 KV_EVENT("pool_open", KV_NUMBER("clients", i.num_clients), KV_NUMBER("threads", i.os_threads),
				  KV_NUMBER("servers", i.num_servers), KV_FIELD("provider", i.provider),
				  KV_NUMBER("endpoints", i.endpoints), KV_NUMBER("links", i.links),
				  KV_FIELD("security", i.security)),
			 "clients %u, threads %u, servers %u: "
			 "%s, %u endpoints, %u links, buffers %s, security %s, NUMA: %s",
			 i.num_clients, i.os_threads, i.num_servers, i.provider, i.endpoints, i.links, i.memory,
			 i.security, i.numa);
}

/* Report a resource too short for all clients before the first endpoint is opened. The number of shards is unknown:
 * assume one per server. */
static int preflight(struct kvc_pool *p, struct kv_error *err)
{
	enum { LOOP_FILES = 2 };
	struct te_options o = kc_engine_options(p);
	struct te_load load = {.engines = p->num_clients,
			       .region_bytes = p->options.buffer_bytes,
			       .peers = p->num_servers,
			       .threads = p->turned ? 0 : p->num_loops,
			       .files = (uint64_t)p->num_clients * p->num_servers + p->num_loops * LOOP_FILES};
	return te_preflight(&o, &load, &p->files, err);
}

int kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err)
{
	struct kvc_pool *p = NULL;
	int rc;
	if (!out || loop_current())
		return kv_fail(err, -KV_EINVAL,
			       "kvc_pool_open needs a place for the pool and a thread of your own, not a worker");
	rc = pool_create(options, LOOK_UP_NS, &p, err);
	if (rc < 0)
		return rc;
	rc = loops_create(p, err);
	if (rc < 0)
		goto err_pool;
	rc = p->options.flags & KVC_NO_PREFLIGHT ? 0 : preflight(p, err);
	if (rc < 0)
		goto err_pool;
	rc = threads_start(p, err);
	if (rc < 0)
		goto err_pool;
	clients_open(p);
	rc = opening_wait(p, err);
	if (rc < 0) {
		pool_shut(p);
		goto err_pool;
	}
	opened_log(p);
	*out = p;
	return 0;

err_pool:
	pool_destroy(&p);
	return rc;
}

int kc_pool_start(const struct kvc_options *options, struct loop **loops, unsigned num_loops,
		  const struct kv_clock *clock, struct kvc_pool **out, struct kv_error *err)
{
	struct kvc_pool *p = NULL;
	int rc;
	if (!out || !loops || num_loops == 0)
		return kv_fail(err, -KV_EINVAL, "kc_pool_start needs loops and a place for the pool");
	rc = pool_create(options, 0, &p, err);
	if (rc < 0)
		return rc;
	p->clock = clock;
	p->loop = calloc(num_loops, sizeof(struct loop *));
	if (!p->loop) {
		rc = kv_fail(err, -KV_ENOMEM, "no memory for %u loops", num_loops);
		goto err_pool;
	}
	memcpy(p->loop, loops, num_loops * sizeof(struct loop *));
	p->num_loops = num_loops;
	clients_open(p);
	*out = p;
	return 0;

err_pool:
	pool_destroy(&p);
	return rc;
}

/* ---- a host's turns ---- */

int kvc_poll(struct kvc_pool *pool, uint64_t max_wait_ns)
{
	uint64_t until, now;
	int rc;
	if (!pool || (!kc_pool_alien(pool) && (!pool->turned || loop_current())))
		return -KV_EINVAL;
	rc = kc_pool_enter(pool);
	if (rc < 0)
		return rc;
	now = loop_now(pool->loop[0]);
	until = kv_deadline(now, max_wait_ns);
	/* Short turns: another thread may close the pool, and a spin ends a turn early. */
	do {
		rc = loop_turn(pool->loop[0], until > now ? KV_MIN(until - now, POLL_TURN_NS) : 0);
		now = loop_now(pool->loop[0]);
	} while (rc == 0 && now < until && !atomic_load(&pool->closing));
	if (atomic_load(&pool->closing))
		rc = -KV_ECLOSED; /* the pool may be freed after kc_pool_leave: the host must not call again */
	kc_pool_leave(pool);
	return rc;
}

/* ---- closing ---- */

static void client_close(void *arg)
{
	kc_client_close(arg);
}

void kc_pool_stop(struct kvc_pool *p)
{
	if (atomic_exchange(&p->closing, true))
		return;
	kc_queues_stop(p);
	for (unsigned i = 0; i < p->num_clients; i++)
		kc_post_surely(p, p->client[i]->loop, client_close, p->client[i]);
}

bool kc_pool_stopped(struct kvc_pool *p)
{
	bool stopped;
	pthread_mutex_lock(&p->lock);
	stopped = kc_pool_over(p);
	pthread_mutex_unlock(&p->lock);
	return stopped;
}

void kc_pool_free(struct kvc_pool **pool)
{
	if (pool && *pool)
		pool_destroy(pool);
}

void kvc_pool_close(struct kvc_pool **pool)
{
	if (pool && *pool && kc_pool_alien(*pool))
		*pool = NULL; /* the parent's: see core/fork.c */
	if (!pool || !*pool || loop_current())
		return;
	pool_shut(*pool);
	pool_destroy(pool);
}

/* ---- access ---- */

unsigned kvc_num_clients(const struct kvc_pool *pool)
{
	return pool ? pool->num_clients : 0;
}

struct kvc_pool *kvc_client_pool(struct kvc_client *client)
{
	return client ? client->pool : NULL;
}

struct kvc_client *kc_pool_client(struct kvc_pool *pool, unsigned w)
{
	return pool->client[w % pool->num_clients];
}

struct loop *kc_pool_client_loop(struct kvc_pool *pool, unsigned w)
{
	return kc_pool_client(pool, w)->loop;
}

const char *kvc_version(void)
{
	return KVRAIL_VERSION;
}

void kvc_program_setup(void)
{
	te_env_for_programs();
}

void kvc_program_setup_many(void)
{
	te_env_for_many_endpoints();
	te_env_for_programs();
}
