/* SPDX-License-Identifier: Apache-2.0 */
/* start_stop.c -- the coroutine that starts a server, waits for the request to stop, and ends it, across all loops.
 *
 * It starts the shards and listens. The end has these steps, each of bounded time:
 *
 *   1. the server stops listening;
 *   2. clients get GOODBYE; shards refuse new work and finish requests in flight; idle clients say goodbye and leave,
 *      until the drain's deadline;
 *   3. the remaining connections are cut, and their attachments end;
 *   4. the engines are closed, which ends operations still in the provider;
 *   5. the last connections end, and the sockets of local clients close.
 *
 * A failed start uses the same way out. */
#include "kvserver/server/private.h"

#include <errno.h>

#include "kvserver/conn/clients.h"
#include "kvserver/conn/conn.h"
#include "kvserver/events/publish.h"
#include "kvserver/server/kept.h"
#include "kvserver/server/server.h"

#define DRAIN_MIN_NS  50000000ull
#define PORT_WAIT_NS  5000000000ull
#define PORT_AGAIN_NS 20000000ull
#define CUT_NS        2000000000ull /* for cut connections to end */

/* ---- rounds: calls to every shard ---- */

static void round_answered(struct call *call)
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

/* 0, the first failure, or -KV_ETIMEOUT (the round continues). */
static int round_await(struct kvs_server *s, struct round *round, void (*run)(struct call *call), uint64_t deadline_ns)
{
	round->server = s;
	round->pending = s->opt.shards;
	for (unsigned i = 0; i < s->opt.shards; i++) {
		struct round_call *rc = &round->shard[i];
		rc->round = round;
		rc->call = (struct call){.shard = s->shard[i], .run = run, .done = round_answered};
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
	shard_closed(call->shard, call);
}

/* ---- start and end ---- */

static void accept_run(void *arg)
{
	struct kvs_server *s = arg;
	accept_await(s);
	s->strangers.accepting = false;
	server_changed(s);
}

static int begin_await(struct kvs_server *s, struct kv_error *err)
{
	struct sockaddr_storage addr = s->at.addr;
	uint64_t until_ns = loop_now(s->control) + PORT_WAIT_NS;
	int rc = round_await(s, &s->life.startup, run_start, KV_NEVER);
	if (rc)
		return kv_fail(err, rc, "attaching the engines to their loops: %s", kv_strerror(rc));
	do /* the kernel may still be closing the ports of a killed server */
		rc = io_listen(s->control, &addr, s->at.addr_len, &s->strangers.listen_fd, err);
	while (rc == -EADDRINUSE && kept_former_died(s) && loop_now(s->control) < until_ns &&
	       (co_sleep_await(loop_now(s->control) + PORT_AGAIN_NS), true));
	if (rc)
		return rc;
	rc = local_clients_listen(s, err);
	if (rc)
		return rc;
	kept_begin(s);
	if (events_on(&s->events))
		events_start(&s->events, s->control);
	rc = publish_start(s, err);
	if (rc)
		return rc;
	s->strangers.accepting = true;
	rc = co_spawn(s->control, accept_run, s, "accept");
	if (rc) {
		s->strangers.accepting = false;
		return kv_fail(err, rc, "cannot start accepting: %s", kv_strerror(rc));
	}
	pthread_mutex_lock(&s->lock);
	s->at.addr = addr;
	pthread_mutex_unlock(&s->lock);
	atomic_store(&s->at.port, address_port(&addr));
	return 0;
}

static bool conns_gone_await(struct kvs_server *s, uint64_t deadline_ns)
{
	while (!kv_list_empty(&s->clients.conns))
		if (co_park_await(deadline_ns))
			return false;
	return true;
}

static bool clients_gone_await(struct kvs_server *s, uint64_t deadline_ns)
{
	while (s->clients.count > 0)
		if (co_park_await(deadline_ns))
			return false;
	return true;
}

static void end_await(struct kvs_server *s)
{
	uint64_t deadline_ns;
	s->life.stop_asked = true;
	doubt_close(s);
	co_queue_wake_all(&s->strangers.place_free);
	if (s->strangers.listen_fd >= 0)
		io_shutdown(s->control, s->strangers.listen_fd);
	while (s->strangers.accepting)
		co_park_await(KV_NEVER);
	if (s->strangers.listen_fd >= 0)
		io_close(s->control, s->strangers.listen_fd);
	s->strangers.listen_fd = -1;
	local_clients_quit_await(s);
	deadline_ns = kv_deadline(loop_now(s->control), KV_MAX(s->life.drain_ns, DRAIN_MIN_NS));
	conns_goodbye(s);
	if (round_await(s, &s->life.drain, run_drain, deadline_ns))
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("drain_requests_cut"),
			 "requests were still in flight at the end of the drain; they are aborted");
	if (!clients_gone_await(s, deadline_ns))
		kv_event(s->opt.log, KV_LOG_INFO, KV_EVENT("drain_clients_cut", KV_NUMBER("clients", s->clients.count)),
			 "%u %s not left by the end of the drain; %s connections are cut", s->clients.count,
			 s->clients.count == 1 ? "client has" : "clients have",
			 s->clients.count == 1 ? "its" : "their");
	conns_cut(s);
	conns_gone_await(s, loop_now(s->control) + CUT_NS);
	publish_stop_await(s);
	round_await(s, &s->life.closing, run_close, KV_NEVER);
	while (!conns_gone_await(s, loop_now(s->control) + CUT_NS))
		conns_cut(s);
	local_clients_end_await(s);
	events_stop(&s->events);
	round_over_await(&s->life.drain, KV_NEVER); /* no attachment is left, so an unfinished round ends now */
}

static void start_stop_run(void *arg)
{
	struct kvs_server *s = arg;
	struct kv_error err = {0};
	int rc;
	s->life.co = co_self();
	rc = begin_await(s, &err);
	if (rc == 0)
		state_set(s, KVS_RUNNING);
	while (rc == 0 && !s->life.stop_asked)
		co_park_await(KV_NEVER);
	if (rc)
		state_fail(s, &err);
	end_await(s);
	s->life.co = NULL;
	state_set(s, KVS_STOPPED);
}

void start_stop_begin(void *server)
{
	struct kvs_server *s = server;
	struct kv_error err = {0};
	int rc = co_spawn(s->control, start_stop_run, s, "conductor");
	if (rc == 0)
		return;
	kv_fail(&err, rc, "cannot start the server's first coroutine: %s", kv_strerror(rc));
	state_fail(s, &err);
	state_set(s, KVS_STOPPED);
}
