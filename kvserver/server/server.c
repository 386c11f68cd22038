/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a server for its program: create, start, stop, destroy.
 *
 * settings.c checks the options, listen.c has address and keys, loops.c and shards.c make the parts, start_stop.c
 * starts and ends it, state.c reports the state. */
#include "kvserver/server/server.h"

#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"
#include "kvserver/conn/clients.h"
#include "kvserver/events/publish.h"
#include "kvserver/server/kept.h"
#include "kvserver/server/private.h"
#include "kvserver/conn/view.h"

enum {
	CONNS_MAX = 0xFFFF, /* with an attachment: its number has 16 bits for the slot */
	CLOSING_SLOTS = 64  /* besides those of open attachments: for ending attachments with operations in flight */
};

/* ---- create ---- */

static int secrets_make(struct kvs_server *s, struct kv_error *err)
{
	int rc = kv_entropy_fill(s->opt.entropy, &s->incarnation, sizeof(s->incarnation));
	if (rc == 0)
		rc = kv_entropy_fill(s->opt.entropy, &s->shard_seed, sizeof(s->shard_seed));
	kv_host_id(s->host_id);
	return rc ? kv_fail(err, rc, "no entropy for the server's incarnation: %s", kv_strerror(rc)) : 0;
}

/* Keys stay with their shards, so that the values on the tier are found. */
static int tier_prepare(struct kvs_server *s, struct kv_error *err)
{
	int rc = tier_files_open(&s->opt.tier, kept_handed(s), s->opt.log, &s->tier, err);
	if (rc == 0 && s->tier.key_seed)
		s->shard_seed = s->tier.key_seed;
	return rc;
}

static int slots_make(struct kvs_server *s, struct kv_error *err)
{
	s->clients.slots = KV_MIN(s->opt.max_clients + CLUSTER_PLACES + CLOSING_SLOTS, (unsigned)CONNS_MAX);
	s->clients.slot = calloc(s->clients.slots, sizeof(s->clients.slot[0]));
	return s->clients.slot ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for %u session slots", s->clients.slots);
}

static int server_make(struct kvs_server *s, struct kv_error *err)
{
	int rc = listen_prepare(s, err);
	if (rc == 0)
		rc = settings_fit(&s->opt, err);
	if (rc == 0)
		rc = secrets_make(s, err);
	if (rc == 0 && s->opt.events && events_make(&s->events, s->incarnation, s->opt.shards))
		rc = kv_fail(err, -KV_ENOMEM, "no memory for the log of events (--events)");
	if (rc == 0)
		rc = tier_prepare(s, err);
	if (rc == 0)
		rc = slots_make(s, err);
	if (rc == 0)
		rc = loops_make(s, err);
	if (rc == 0)
		rc = kept_prepare(s, err);
	if (rc == 0)
		rc = shards_make(s, err);
	if (rc == 0)
		kept_made(s);
	return rc;
}

int kvs_server_create(const struct kvs_options *options, struct kvs_server **out, struct kv_error *err)
{
	struct kvs_options opt = *options;
	struct kvs_server *s;
	int rc;
	settings_fill(&opt);
	/* First: it bounds the sizes of arrays. */
	rc = settings_check(&opt, err);
	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return kv_fail(err, -KV_ENOMEM, "no memory for a server");
	s->opt = opt;
	s->strangers.listen_fd = -1;
	kv_list_init(&s->clients.conns);
	s->clients.audits_max = AUDITS_PER_SECOND;
	kv_list_init(&s->strangers.knocking);
	s->strangers.max = handshakes_allowed();
	co_queue_init(&s->strangers.place_free);
	local_clients_init(s);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	pthread_mutex_init(&s->doubt_orders.lock, NULL);
	pthread_mutex_init(&s->tenant_orders.lock, NULL);
	places_init(&s->places);
	doubt_open(s);
	rc = server_make(s, err);
	if (rc)
		kvs_server_destroy(&s);
	else
		*out = s;
	return rc;
}

/* ---- start and stop ---- */

static void server_join(struct kvs_server *s)
{
	threads_join(s);
	key_reload_end(&s->keys.reload);
	kv_prefault_stop(&s->prefault);
}

int kvs_server_start(struct kvs_server *s, struct kv_error *err)
{
	bool handed = kept_handed(s);
	int rc;
	if (kvs_server_state(s, NULL) != KVS_CREATED)
		return kv_fail(err, -KV_EINVAL, "a server is started once");
	state_set(s, KVS_STARTING);
	rc = kept_restore(s, err);
	if (rc == 0 && handed) /* the running server has ended */
		rc = tier_files_lock(&s->tier, err);
	/* Other members may have deleted keys of the tier since. Kept memory knows better since when. */
	if (rc == 0 && s->opt.members && s->tier.key_seed) {
		doubt_former(s, s->tier.member, s->tier.members);
		doubt_restored(s, s->doubts.state == DOUBT_OVER ? KV_MAX(s->tier.silent_ns, s->tier.doubt_ns)
								: s->tier.doubt_ns);
	}
	if (rc == 0 && !s->opt.loops)
		rc = key_reload_start(s, &s->keys.reload, err);
	if (rc == 0)
		rc = loop_post(s->control, start_stop_begin, s);
	if (rc == 0 && !s->opt.loops)
		rc = threads_start(s, err);
	if (rc) {
		server_join(s);
		state_set(s, KVS_STOPPED);
		return rc == -KV_EBUSY ? kv_fail(err, rc, "the control loop's queue is full") : rc;
	}
	if (s->opt.loops)
		return 0;
	if (state_wait(s, KVS_RUNNING) == KVS_RUNNING) {
		shards_prefault(s);
		return 0;
	}
	kvs_server_state(s, err);
	server_join(s);
	return err ? err->code : -KV_EINVAL;
}

static void on_stop(void *arg)
{
	struct kvs_server *s = arg;
	s->life.stop_asked = true;
	server_changed(s);
}

void kvs_server_stop(struct kvs_server *s, uint64_t drain_ns)
{
	enum kvs_state state = kvs_server_state(s, NULL);
	if (state == KVS_STARTING || state == KVS_RUNNING) {
		state_set(s, KVS_STOPPING);
		s->life.drain_ns = drain_ns;
		if (s->opt.loops)
			on_stop(s);
		while (!s->opt.loops && loop_post(s->control, on_stop, s) != 0)
			usleep(1000);
	}
	if (!s->opt.loops && s->threads.count) {
		state_wait(s, KVS_STOPPED);
		server_join(s);
	}
}

bool kvs_server_reload(struct kvs_server *s)
{
	return key_reload_ask(s->keys.reload);
}

void kvs_server_rates_set(struct kvs_server *s, uint64_t ttl_ns, uint64_t slow_ns)
{
	for (unsigned i = 0; i < s->opt.shards; i++)
		shard_rates_set(s->shard[i], ttl_ns, slow_ns);
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
	publish_free(s);
	events_free(&s->events);
	loops_free(s);
	tier_files_close(&s->tier);
	boot_context_destroy(&s->keys.boot);
	boot_keys_destroy(&s->keys.of_sessions);
	tenants_unref(&s->keys.tenants);
	tenants_unref(&s->tenant_orders.table);
	pthread_mutex_destroy(&s->tenant_orders.lock);
	places_fini(&s->places);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	view_fini(s);
	if (s->doubt_orders.verdicts)
		shard_doubt_release(&s->doubt_orders, s->doubt_orders.verdicts);
	if (s->doubts.recalled)
		shard_doubt_release(&s->doubt_orders, s->doubts.recalled);
	pthread_mutex_destroy(&s->doubt_orders.lock);
	free(s->clients.slot);
	free(s);
	*server = NULL;
}
