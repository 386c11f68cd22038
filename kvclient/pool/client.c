/* SPDX-License-Identifier: Apache-2.0 */
/* client.c -- opens and closes one client: an engine on a loop, its receive buffer, its nodes. Closing: calls end, at
 * the latest after the grace, and workers return; the nodes say goodbye; the flusher stops; the engine closes, and
 * nothing can touch our memory any more; the buffer is unmapped. */
#include "kvclient/pool/private.h"

#include <errno.h>
#include <stdlib.h>

#include "host/host.h"
#include "kvclient/call/events.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/deletes_owed.h"
#include "kvclient/conn/serve.h"
#include "kvclient/copies/copies.h"
#include "kvclient/core/waits.h"
#include "kvclient/logical/node_sessions.h"
#include "kvclient/logical/pins.h"
#include "kvclient/logical/sessions.h"
#include "kvclient/request/admission.h"
#include "kvclient/request/fence.h"
#include "kvclient/request/link.h"
#include "kvclient/request/pack.h"
#include "kvclient/request/pull.h"
#include "kvclient/request/requests.h"
#include "kvclient/route/hot.h"
#include "kvclient/route/repair.h"
#include "kvclient/route/view.h"
#include "kvclient/transfer/ask.h"

#define CLOSE_AGAIN_NS 1000000ull

/* ---- opening ---- */

/* Number the clients of one loop consecutively: neighbours get NICs near each other (te_options.engine). */
static unsigned engine_number(const struct kvc_client *c)
{
	unsigned loops = c->pool->num_loops, clients = c->pool->options.num_clients, before = 0;
	for (unsigned l = 0; l < c->index % loops; l++)
		before += (clients - l + loops - 1) / loops;
	return before + c->index / loops;
}

struct te_options kc_engine_options(const struct kvc_pool *p)
{
	return (struct te_options){.provider = p->options.provider,
				   .nic = p->options.nic,
				   .local = p->local,
				   .rails = p->options.num_rails,
				   .engines = p->options.num_clients,
				   .messages = KC_FRAMES,
				   .near = p->options.numa == KVC_NUMA_AUTO,
				   .door = (enum te_door)p->options.door,
				   .clock = p->clock,
				   .log = &p->log};
}

static int engine_open(struct kvc_client *c, struct kv_error *err)
{
	static const struct te_handlers handlers = {.message = kc_client_message,
						    .local = kc_client_local,
						    .immediate = kc_client_immediate,
						    .room = kc_client_room,
						    .follow = kc_client_follow,
						    .reset = kc_fence_reset,
						    .fenced = kc_fence_over};
	struct te_options o = kc_engine_options(c->pool);
	o.engine = engine_number(c);
	int rc = te_open(&o, &handlers, c, &c->te, err);
	if (rc < 0)
		return kv_fail_more(err, "client %u", c->index);
	te_info(c->te, &c->info);
	rc = kc_pull_check(c, err);
	if (rc < 0) {
		te_close(&c->te);
		return kv_fail_more(err, "client %u", c->index);
	}
	kc_requests_engine(c);
	return 0;
}

/* Bind the loop's thread to the NUMA node of the client's NICs. If two clients of a loop have NICs on different nodes,
 * unbind it. */
static int thread_bind(struct kvc_client *c, int node)
{
	struct kc_bound *b;
	if (!c->pool->own_loops || c->pool->turned)
		return KV_THREAD_FREE;
	b = &c->pool->bound[c->index % c->pool->num_loops];
	if (!b->bound) {
		b->bound = true;
		b->node = node;
		b->result = kv_numa_bind_thread("", node, &b->before);
	} else if (b->node != node && !b->mixed) {
		b->mixed = true;
		if (b->result > 0)
			(void)kv_thread_set_cpus(&b->before);
		b->result = 0;
	}
	return b->result;
}

static void place(struct kvc_client *c)
{
	c->place = (struct kv_numa_place){.node = c->info.near ? c->info.numa_node : KV_NODE_ANY,
					  .thread = KV_THREAD_FREE,
					  .memory_error = c->info.node_error};
	if (c->place.node != KV_NODE_ANY)
		c->place.thread = thread_bind(c, c->place.node);
}

static int buffer_open(struct kvc_client *c, struct kv_error *err)
{
	uint64_t len = c->pool->options.buffer_bytes;
	struct te_region_info region;
	int rc = kv_area_map_on(len, c->place.node, &c->area, err);
	if (rc < 0)
		return kv_fail_more(err, "client %u, receive buffer", c->index);
	if (c->area.node_error)
		c->place.memory_error = c->area.node_error;
	/* Register whole pages: for fork(), rdma-core marks registered memory, and part of a huge page cannot be
	 * marked. */
	rc = te_region_register(c->te, c->area.base, c->area.len_bytes, TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE, 0,
				&c->region, err);
	if (rc < 0) {
		kv_fail_more(err, "client %u, receive buffer", c->index);
		goto err_area;
	}
	te_region_info(c->region, &region);
	c->register_ns = region.ns;
	rc = kc_buffer_init(&c->buffer, c->area.base, len);
	if (rc < 0) {
		kv_fail(err, rc, "client %u: no memory for the bookkeeping of its receive buffer", c->index);
		goto err_region;
	}
	return 0;

err_region:
	te_region_close(&c->region);
err_area:
	kv_area_unmap(&c->area);
	return rc;
}

/* ---- functions that the rooms below call ---- */

static void node_up(struct kc_node *n)
{
	kc_cluster_node_up(n);
	kc_sessions_start(n);
	kc_pins_start(n);
	kc_pins_follow(n->client);
}

static void node_beat(struct kc_node *n)
{
	kc_pins_start(n);
	kc_pins_beat(n->client);
	kc_cluster_look(n->client);
}

static const struct kc_hooks hooks = {.node_up = node_up,
				      .node_beat = node_beat,
				      .attachment_gone = kc_sessions_reset,
				      .node_ended = kc_cluster_node_ended,
				      .session_message = kc_sessions_message,
				      .view_came = kc_cluster_take,
				      .view_announced = kc_cluster_announced,
				      .view_asked = kc_cluster_asks,
				      .view_awaited = kc_cluster_waits,
				      .events_came = kc_events_came,
				      .node_redo = kc_node_redo,
				      .pin_await = kc_pin_again_await,
				      .unpin_await = kc_pin_release_await,
				      .pins_move_main = kc_pins_move_main,
				      .repair_main = kc_repair_main};

static int tables_open(struct kvc_client *c, struct kv_error *err)
{
	int rc = kc_reqs_init(&c->reqs, KC_REQS);
	rc = rc < 0 ? rc : kc_cluster_init(c);
	rc = rc < 0 ? rc : kc_owed_init(c);
	rc = rc < 0 ? rc : kc_requests_open(c);
	rc = rc < 0 ? rc : kc_nodes_make(c);
	rc = rc < 0 ? rc : kc_pins_init(c);
	if (rc < 0)
		return kv_fail(err, -KV_ENOMEM, "client %u: no memory for its tables", c->index);
	c->num_nodes = c->pool->num_servers;
	c->placement = &c->pool->place;
	kv_list_init(&c->sessions);
	kc_waits_init(c);
	return 0;
}

static int coroutines_start(struct kvc_client *c, struct kv_error *err)
{
	int rc;
	if (route_hot_ready(c) < 0)
		return kv_fail(err, -KV_ENOMEM, "client %u: no memory for its hot keys", c->index);
	rc = kc_requests_start(c);
	if (rc < 0)
		return kv_fail(err, rc, "client %u: starting its coroutines: %s", c->index, kv_strerror(rc));
	for (unsigned i = 0; i < c->num_nodes; i++) {
		rc = kc_node_start(&c->node[i]);
		if (rc < 0)
			return kv_fail(err, rc, "client %u: starting its coroutines: %s", c->index, kv_strerror(rc));
	}
	return 0;
}

/* A key or certificate file cannot be read; rc is -errno, and *err names the file. */
static int file_failed(int rc, struct kv_error *err)
{
	bool files = rc == -EMFILE || rc == -ENFILE;
	if (files)
		kv_fail_more(err, "raise the limit of open files (ulimit -n)");
	if (err)
		err->code = files ? -KV_ELIMIT : -KV_EINVAL;
	return files ? -KV_ELIMIT : -KV_EINVAL;
}

static int security_open(struct kvc_client *c, struct kv_error *err)
{
	const struct kvc_options *o = &c->pool->options;
	struct boot_security s = {.psk_file = o->psk_file,
				  .psk = o->psk,
				  .cert_file = o->cert_file,
				  .key_file = o->key_file,
				  .ca_file = o->ca_file,
				  .crl_file = o->crl_file,
				  .server_name = o->server_name};
	int rc = boot_context_create(&s, false, &c->pool->log, &c->boot, err);
	if (rc == 0)
		c->mode = boot_context_mode(c->boot);
	return rc > -KV_ETIMEOUT && rc < 0 ? file_failed(rc, err) : rc;
}

int kc_client_open(struct kvc_client *c, struct kv_error *err)
{
	int rc = tables_open(c, err);
	c->hooks = &hooks;
	if (rc < 0)
		goto err_tables;
	rc = security_open(c, err);
	if (rc < 0)
		goto err_tables;
	rc = engine_open(c, err);
	if (rc < 0)
		goto err_boot;
	place(c);
	rc = buffer_open(c, err);
	if (rc < 0)
		goto err_engine;
	rc = kc_packs_open(c, err);
	if (rc < 0)
		goto err_buffer;
	rc = te_attach(c->te, c->loop);
	if (rc < 0) {
		kv_fail(err, rc, "client %u: attaching its engine to the loop: %s", c->index, kv_strerror(rc));
		goto err_packs;
	}
	c->opened = true;
	/* From here on the caller closes the client to undo a failure: there are coroutines. */
	return coroutines_start(c, err);

err_packs:
	kc_packs_close(c);
err_buffer:
	kc_buffer_fini(&c->buffer);
	te_region_close(&c->region);
err_engine:
	te_close(&c->te);
	kv_area_unmap(&c->area);
err_boot:
	boot_context_destroy(&c->boot);
err_tables:
	kc_reqs_fini(&c->reqs);
	kc_cluster_fini(c);
	kc_owed_fini(c);
	kc_requests_close(c);
	kc_pins_fini(c);
	kc_nodes_free(c);
	return rc;
}

/* ---- closing ---- */

static void engine_close(void *arg)
{
	struct kvc_client *c = arg;
	kc_zombies_close(c);
	te_detach(c->te);
	te_close(&c->te);
}

static void calls_wake(struct kvc_client *c)
{
	for (uint32_t i = 0; i < c->reqs.count; i++)
		if (c->reqs.entry[i].wait && c->reqs.entry[i].wait->co)
			co_wake(c->reqs.entry[i].wait->co);
	kc_room_close(c);
	kc_waits_close(c);
}

static void nodes_part_await(struct kvc_client *c)
{
	uint64_t deadline = loop_now(c->loop) + KC_PART_NS;
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (kc_node_running(&c->node[i]))
			kc_node_part_await(&c->node[i], deadline);
	while (c->life.coroutines > 1 && co_park_await(deadline) == 0)
		;
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (kc_node_running(&c->node[i]))
			kc_node_redo(&c->node[i], "it did not answer our goodbye");
	while (c->life.coroutines > 1)
		co_park_await(KV_NEVER);
}

static void closer(void *arg)
{
	struct kvc_client *c = arg;
	c->life.closer = co_self();
	calls_wake(c);
	while (c->calls > 0)
		co_park_await(KV_NEVER);
	nodes_part_await(c);
	kc_requests_stop(c);
	while (c->life.coroutines > 0)
		co_park_await(KV_NEVER);
	kc_requests_quiet(c);
	kc_main_await(c, engine_close, c);
	kc_requests_close(c);
	kc_pins_fini(c);
	kc_sessions_free(c);
	kc_cluster_fini(c);
	repair_fini(c);
	kc_second_fini(c);
	route_hot_fini(c);
	kc_owed_fini(c);
	kc_events_fini(c);
	while (c->mems.count > 0)
		free(c->mems.at[--c->mems.count]);
	kc_buffer_fini(&c->buffer);
	kv_area_unmap(&c->area);
	boot_context_destroy(&c->boot);
	kc_reqs_fini(&c->reqs);
	kc_nodes_free(c);
	c->opened = false;
	kc_pool_tell_closed(c->pool);
}

/* Closing cannot fail: retry until a coroutine can be had. */
static void closer_start(struct loop_timer *t)
{
	struct kvc_client *c = KV_CONTAINER(t, struct kvc_client, life.close_again);
	if (co_spawn(c->loop, closer, c, "kvc close") < 0)
		loop_timer_arm(c->loop, t, loop_now(c->loop) + CLOSE_AGAIN_NS);
}

void kc_client_close(struct kvc_client *c)
{
	c->closing = true;
	c->life.close_again = (struct loop_timer){.fire = closer_start};
	if (c->opened)
		closer_start(&c->life.close_again);
	else
		kc_pool_tell_closed(c->pool);
}
