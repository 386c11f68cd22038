/* SPDX-License-Identifier: Apache-2.0 */
/* client.c -- one client: an engine on a loop, its receive buffer, its nodes; and how its memory is made safe.
 *
 * Who may touch memory: while a request is out, the peer may read or write the memory that the request names. Three
 * things end that: all writes counted, the engine's fence, or the end of the engine. A piece of the buffer may wait for
 * them in quarantine (at most a quarter of the buffer), memory of a caller may not: its call fences.
 *
 * Where the engine can fence one peer alone (te_info.peer_fence: tcp behind a doorkeeper), a fence is one of a session:
 * the shards of that server are cut, its requests end as safe and are made again, its node attaches again, and nobody
 * else notices. Such a fence costs no one else anything, so a session that ends with memory in question is always
 * fenced: there is no quarantine and there are no zombies. What comes after the cut is kept out until the next WELCOME,
 * by which the server says that nothing of the prior attachment is left (node.c).
 *
 * What was lost for good (a server that crashed, a write that failed) would make the buffer smaller for ever: nothing
 * counts it in. So at the beats of a session it is looked at, and a fence is made for it alone: soon while no call is
 * in progress, which then costs nobody anything, and after half a minute or more in any case. (Rejected: letting it be
 * used again after some time. No time is long enough to prove that a write has landed or never will.)
 *
 * Any other fence rebuilds the endpoints under everybody, so it is followed by a reset: every request of every node
 * ends with -KV_ERESET (small.c makes it anew), the quarantine is empty, and every node begins a new session with our
 * new addresses, on the control connection that it has.
 *
 * Where an endpoint takes long to close (EFA, while a host is dead), the next one is in use before, and nothing above
 * holds until the old one is closed: pieces that it knows wait in limbo, and so do the calls whose own memory it knows,
 * past their deadline if need be. All others go on.
 *
 * Closing goes down in phases: calls end (after the grace at most) and workers return, nodes say goodbye (for
 * KVC_PART_NS at most), the flusher stops, the engine is closed (endpoints first: that is what makes the rest safe),
 * the buffer is unmapped.
 *
 * Calls into the provider that may need much stack (open, fence, close) run outside of coroutines. */
#include <stdlib.h>

#include "kvclient/pool/client.h"
#include "host/host.h"
#include "kvclient/pool/placement.h"

#define CLOSE_AGAIN_NS  1000000ull
#define RECLAIM_IDLE_NS 3000000000ull
#define RECLAIM_BUSY_NS 30000000000ull

/* ---- the thread's own stack ---- */

struct main_call {
	struct loop_timer timer;
	void (*fn)(void *arg);
	void *arg;
	struct co *co;
	bool done;
};

static void main_fire(struct loop_timer *t)
{
	struct main_call *m = KV_CONTAINER(t, struct main_call, timer);
	m->fn(m->arg);
	m->done = true;
	co_wake(m->co);
}

void kvc_main_await(struct kvc_client *c, void (*fn)(void *arg), void *arg)
{
	struct main_call m = {.timer.fire = main_fire, .fn = fn, .arg = arg, .co = co_self()};
	loop_timer_arm(c->loop, &m.timer, loop_turn_now(c->loop));
	while (!m.done)
		co_park_await(KV_NEVER);
}

/* ---- safety of memory ---- */

bool kvc_client_quarantine_full(const struct kvc_client *c, uint64_t more_bytes)
{
	return c->buffer.quarantined_bytes + c->orphan_bytes + more_bytes > c->buffer.len_bytes / 4;
}

void kvc_client_quarantine_count(struct kvc_client *c)
{
	kvc_set(&c->count.quarantined_bytes, c->buffer.quarantined_bytes + c->buffer.limbo_bytes + c->orphan_bytes);
}

static void zombies_close(struct kvc_client *c)
{
	while (c->num_zombies > 0)
		te_peer_close(&c->zombie[--c->num_zombies]);
}

/* Without so many no GET can be planned: one chunk, and one before and after it that are not whole. The smallest queues
 * that endpoints are opened with have room for them. */
#define IMMS_LEAST 4u

/* Immediates that all servers together may have on their way: what the completion queue of any rail has room for. */
static uint32_t imm_limit(const struct te_info *info)
{
	return KV_MAX(info->imm_room, IMMS_LEAST);
}

void kvc_client_reset(struct kvc_client *c)
{
	bool limbo = te_fencing(c->te);
	for (unsigned i = 0; i < c->pool->num_servers; i++) {
		struct kvc_node *n = &c->node[i];
		if (n->session && limbo)
			kvc_session_limbo(n->session, -KV_ERESET);
		else if (n->session)
			kvc_session_fail(n->session, -KV_ERESET, true);
		kvc_node_redo(n, "our endpoints were rebuilt");
	}
	if (limbo)
		kvc_buffer_limbo(&c->buffer);
	else
		kvc_buffer_amnesty(&c->buffer);
	zombies_close(c);
	kvc_client_quarantine_count(c);
	kvc_room_feed(c);
}

/* The endpoints that were given up are closed: what was in limbo because of them is safe. */
static void engine_fenced(void *arg)
{
	struct kvc_client *c = arg;
	struct kv_list *n;
	while ((n = kv_list_pop(&c->limbo)))
		kvc_req_limbo_end(c, KV_LIST_ENTRY(n, struct kvc_req, node));
	kvc_buffer_limbo_end(&c->buffer);
	kvc_client_quarantine_count(c);
	kvc_room_feed(c);
	c->fences_over++;
	co_queue_wake_all(&c->fence_over);
}

void kvc_client_fenced_await(struct kvc_client *c)
{
	uint64_t before = c->fences_over;
	/* The next fence, of somebody else's, may have begun when we are woken. */
	while (te_fencing(c->te) && c->fences_over == before)
		co_queue_wait_await(&c->fence_over, KV_NEVER);
}

struct fence {
	struct kvc_client *client;
	struct kvc_session *session;
	unsigned shard;
};

/* One is enough where all are fenced. */
static int shards_fence(const struct fence *f, struct kv_error *err)
{
	struct kvc_session *s = f->session;
	int rc = te_peer_fence(s->peer[f->shard], err);
	for (unsigned i = 0; i < s->shards && rc == 0 && f->client->info.peer_fence && !te_reset_due(f->client->te);
	     i++)
		if (s->peer[i])
			rc = te_peer_fence(s->peer[i], err);
	return rc;
}

static void fence_run(void *arg)
{
	struct fence *f = arg;
	struct kvc_client *c = f->client;
	struct kv_error err = {0};
	int rc;
	/* Another coroutine may have fenced or closed the session while this one waited for the stack. */
	if (!f->session->open || !f->session->peer[f->shard])
		return;
	kvc_add(&c->count.fences, 1);
	f->session->node->fences++;
	rc = shards_fence(f, &err);
	if (rc == 0 && c->info.peer_fence && !te_reset_due(c->te)) {
		kvc_session_fail(f->session, -KV_ERESET, true);
		kvc_node_redo(f->session->node, "requests that were given up had to be fenced");
		return;
	}
	if (rc < 0)
		kv_warn(kvc_client_log(c), "client %u: fencing %s: %s", c->index,
			c->pool->server[f->session->node->index].entry.text, err.text);
	else
		c->fenced = true;
	kvc_client_reset(c);
}

void kvc_client_fence_await(struct kvc_client *c, struct kvc_session *s, unsigned shard)
{
	struct fence f = {c, s, shard};
	s->refs++;
	kvc_main_await(c, fence_run, &f);
	kvc_session_unref(s);
}

/* The node of a request that was given up, if its session is in use: else its connection is being made anew already. */
static struct kvc_node *orphan_node(const struct kvc_req *r)
{
	struct kvc_node *n = r->link->session->node;
	return n->state == KVC_NODE_UP && n->session == r->link->session ? n : NULL;
}

/* The session to fence because requests given up before before_ns, or the quarantine, hold memory that a peer may still
 * touch: any, where a fence is one of all. If none does, sessions with old ones are connected anew: a reply that is so
 * late was lost. Every beat of every session asks, so the walk ends at the first that is not old. */
static struct kvc_session *reclaim_unsafe(struct kvc_client *c, uint64_t before_ns, struct kvc_session *any)
{
	if (c->buffer.quarantined_bytes > 0 && c->quarantine_ns < before_ns)
		return any;
	KV_LIST_EACH (i, &c->orphans) {
		const struct kvc_req *r = KV_LIST_ENTRY(i, const struct kvc_req, orphan_node);
		if (r->orphan_ns >= before_ns)
			break;
		if (orphan_node(r) && kvc_req_unsafe(r))
			return c->info.peer_fence ? r->link->session : any;
	}
	KV_LIST_EACH (i, &c->orphans) {
		const struct kvc_req *r = KV_LIST_ENTRY(i, const struct kvc_req, orphan_node);
		if (r->orphan_ns >= before_ns)
			break;
		if (orphan_node(r))
			kvc_node_redo(orphan_node(r), "requests were never answered");
	}
	return NULL;
}

void kvc_client_reclaim_await(struct kvc_client *c, struct kvc_session *s)
{
	uint64_t now = loop_turn_now(c->loop), limit = c->calls > 0 ? RECLAIM_BUSY_NS : RECLAIM_IDLE_NS;
	/* At random, so that all clients of a server that was lost do not come back to the others at once. */
	limit += kv_prng_below(loop_prng(c->loop), limit);
	if (c->closing || now < limit)
		return;
	s = reclaim_unsafe(c, now - limit, s);
	if (!s || !s->open)
		return;
	kv_info(kvc_client_log(c),
		"client %u: %llu bytes of its buffer may still be written by requests that were lost; fencing to use "
		"them again",
		c->index, (unsigned long long)(c->buffer.quarantined_bytes + c->orphan_bytes));
	kvc_client_fence_await(c, s, 0);
}

static void engine_reset(void *arg, int status)
{
	struct kvc_client *c = arg;
	bool ours = c->fenced;
	struct te_info info;
	c->fenced = false;
	/* New endpoints may have smaller queues, or larger ones again. */
	te_info(c->te, &info);
	c->info.peer_fence = info.peer_fence;
	kvc_room_limit(c, imm_limit(&info));
	/* After a fence of ours everything was reset at once; no session was made since, because peers are opened only
	 * with addresses that are told after this call. (Also if an endpoint failed in between: nodes ask for our
	 * addresses when they have a connection, turns later.) */
	if (ours && status == 0)
		return;
	if (status < 0)
		kv_warn(kvc_client_log(c), "client %u: rebuilding its endpoints failed (%s); it is tried again",
			c->index, kv_strerror(status));
	kvc_client_reset(c);
}

/* ---- registered memory ---- */

struct kvc_client_mem *kvc_client_mem_at(struct kvc_client *c, const void *at, uint64_t len)
{
	unsigned low = 0, high = c->num_mems;
	while (low < high) {
		unsigned mid = (low + high) / 2;
		if (c->mem[mid]->base <= (const uint8_t *)at)
			low = mid + 1;
		else
			high = mid;
	}
	if (low > 0) {
		struct kvc_client_mem *m = c->mem[low - 1];
		uint64_t offset = (uint64_t)((const uint8_t *)at - m->base);
		if (m->ready && !m->closing && offset < m->len_bytes && len <= m->len_bytes - offset)
			return m;
	}
	return NULL;
}

/* ---- opening ---- */

static void flusher(void *arg)
{
	struct kvc_client *c = arg;
	c->flusher = co_self();
	while (!c->flusher_stop) {
		kvc_link_flush(c);
		co_park_await(KV_NEVER);
	}
	c->flusher = NULL;
	c->coroutines--;
	if (c->closer)
		co_wake(c->closer);
}

/* Clients of one loop beside each other: they take NICs that lie near each other (te_options.engine). */
static unsigned engine_number(const struct kvc_client *c)
{
	unsigned loops = c->pool->num_loops, clients = c->pool->options.num_clients, before = 0;
	for (unsigned l = 0; l < c->index % loops; l++)
		before += (clients - l + loops - 1) / loops;
	return before + c->index / loops;
}

struct te_options kvc_engine_options(const struct kvc_pool *p)
{
	return (struct te_options){.provider = p->options.provider,
				   .nic = p->options.nic,
				   .local = p->local,
				   .rails = p->options.num_rails,
				   .engines = p->options.num_clients,
				   .messages = KVC_FRAMES,
				   .near = p->options.numa == KVC_NUMA_AUTO,
				   .door = (enum te_door)p->options.door,
				   .clock = p->clock,
				   .log = &p->log};
}

static int engine_open(struct kvc_client *c, struct kv_error *err)
{
	static const struct te_handlers handlers = {.message = kvc_client_message,
						    .immediate = kvc_client_immediate,
						    .room = kvc_client_room,
						    .reset = engine_reset,
						    .fenced = engine_fenced};
	struct te_options o = kvc_engine_options(c->pool);
	o.engine = engine_number(c);
	int rc = te_open(&o, &handlers, c, &c->te, err);
	if (rc < 0)
		return kv_fail_more(err, "client %u", c->index);
	te_info(c->te, &c->info);
	rc = kvc_pull_check(c, err);
	if (rc < 0) {
		te_close(&c->te);
		return kv_fail_more(err, "client %u", c->index);
	}
	c->imm_limit = imm_limit(&c->info);
	return 0;
}

/* The thread of the loop goes to the node of the client's NICs. If two clients of a loop have NICs on different ones,
 * it is let go again: it would be near to one and kept away from the other. */
static int thread_bind(struct kvc_client *c, int node)
{
	struct kvc_bound *b;
	if (!c->pool->own_loops)
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

/* Where thread and memory of this client are to be: before anything large is touched. */
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
	/* Whole pages, whatever they are: where fork() needs it, rdma-core marks what is registered, and a part of a
	 * huge page cannot be marked. */
	rc = te_region_register(c->te, c->area.base, c->area.len_bytes, TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE, 0,
				&c->region, err);
	if (rc < 0) {
		kv_fail_more(err, "client %u, receive buffer", c->index);
		goto err_area;
	}
	te_region_info(c->region, &region);
	c->register_ns = region.ns;
	rc = kvc_buffer_init(&c->buffer, c->area.base, len);
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

static int tables_open(struct kvc_client *c, struct kv_error *err)
{
	unsigned n = c->pool->num_servers;
	int rc = kvc_reqs_init(&c->reqs, KVC_REQS);
	c->node = calloc(n, sizeof(*c->node));
	if (rc < 0 || !c->node)
		return kv_fail(err, -KV_ENOMEM, "client %u: no memory for its tables", c->index);
	kv_list_init(&c->starving);
	kv_list_init(&c->orphans);
	kv_list_init(&c->limbo);
	co_queue_init(&c->fence_over);
	kv_list_init(&c->dirty);
	kv_list_init(&c->releasing);
	c->release_timer.fire = kvc_release_fire;
	kv_list_init(&c->subs);
	kvc_pins_init(c);
	return 0;
}

static int coroutines_start(struct kvc_client *c, struct kv_error *err)
{
	int rc;
	/* All nodes first: a failure is undone by closing, which looks at each. */
	for (unsigned i = 0; i < c->pool->num_servers; i++)
		kvc_node_init(&c->node[i], c, i);
	rc = co_spawn(c->loop, flusher, c, "kvc flush");
	if (rc < 0)
		return kv_fail(err, rc, "client %u: starting its coroutines: %s", c->index, kv_strerror(rc));
	c->coroutines++;
	for (unsigned i = 0; i < c->pool->num_servers; i++) {
		rc = kvc_node_start(&c->node[i]);
		if (rc < 0)
			return kv_fail(err, rc, "client %u: starting its coroutines: %s", c->index, kv_strerror(rc));
	}
	return 0;
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
	return rc;
}

int kvc_client_open(struct kvc_client *c, struct kv_error *err)
{
	int rc = tables_open(c, err);
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
	rc = te_attach(c->te, c->loop);
	if (rc < 0) {
		kv_fail(err, rc, "client %u: attaching its engine to the loop: %s", c->index, kv_strerror(rc));
		goto err_buffer;
	}
	c->opened = true;
	/* From here on there are coroutines: a failure is undone by closing. */
	return coroutines_start(c, err);

err_buffer:
	kvc_buffer_fini(&c->buffer);
	te_region_close(&c->region);
err_engine:
	te_close(&c->te);
	kv_area_unmap(&c->area);
err_boot:
	boot_context_destroy(&c->boot);
err_tables:
	kvc_reqs_fini(&c->reqs);
	free(c->node);
	c->node = NULL;
	return rc;
}

/* ---- closing ---- */

void kvc_client_hold(struct kvc_client *c)
{
	c->calls++;
}

void kvc_client_unhold(struct kvc_client *c)
{
	if (--c->calls == 0 && c->closer)
		co_wake(c->closer);
}

static void engine_close(void *arg)
{
	struct kvc_client *c = arg;
	zombies_close(c);
	te_detach(c->te);
	te_close(&c->te);
}

/* Wake everybody who waits for a request: they see that the client is closing. */
static void calls_wake(struct kvc_client *c)
{
	for (uint32_t i = 0; i < c->reqs.count; i++)
		if (c->reqs.entry[i].wait && c->reqs.entry[i].wait->co)
			co_wake(c->reqs.entry[i].wait->co);
	kvc_room_close(c);
	for (unsigned i = 0; i < c->pool->num_servers; i++)
		co_queue_wake_all(&c->node[i].changed);
	KV_LIST_EACH (n, &c->subs)
		co_queue_wake_all(&KV_LIST_ENTRY(n, struct kvc_sub, node)->changed);
}

/* All servers have the same time for their goodbyes; who has not answered then is left without. */
static void nodes_part_await(struct kvc_client *c)
{
	uint64_t deadline = loop_now(c->loop) + KVC_PART_NS;
	for (unsigned i = 0; i < c->pool->num_servers; i++)
		if (c->node[i].running)
			kvc_node_part_await(&c->node[i], deadline);
	while (c->coroutines > 1 && co_park_await(deadline) == 0)
		;
	for (unsigned i = 0; i < c->pool->num_servers; i++)
		if (c->node[i].running)
			kvc_node_redo(&c->node[i], "it did not answer our goodbye");
	while (c->coroutines > 1)
		co_park_await(KV_NEVER);
}

static void closer(void *arg)
{
	struct kvc_client *c = arg;
	c->closer = co_self();
	calls_wake(c);
	while (c->calls > 0)
		co_park_await(KV_NEVER);
	nodes_part_await(c);
	c->flusher_stop = true;
	if (c->flusher)
		co_wake(c->flusher);
	while (c->coroutines > 0)
		co_park_await(KV_NEVER);
	loop_timer_cancel(c->loop, &c->release_timer);
	kvc_main_await(c, engine_close, c);
	kvc_pulls_fini(c);
	kvc_pins_fini(c);
	kvc_subs_free(c);
	while (c->num_mems > 0)
		free(c->mem[--c->num_mems]);
	kvc_buffer_fini(&c->buffer);
	kv_area_unmap(&c->area);
	boot_context_destroy(&c->boot);
	kvc_reqs_fini(&c->reqs);
	free(c->node);
	c->opened = false;
	kvc_pool_tell_closed(c->pool);
}

/* Closing cannot fail: what it takes is tried for until it is there. Workers that return make room, if it was too many
 * of them. */
static void closer_start(struct loop_timer *t)
{
	struct kvc_client *c = KV_CONTAINER(t, struct kvc_client, close_again);
	if (co_spawn(c->loop, closer, c, "kvc close") < 0)
		loop_timer_arm(c->loop, t, loop_now(c->loop) + CLOSE_AGAIN_NS);
}

void kvc_client_close(struct kvc_client *c)
{
	c->closing_ns = loop_now(c->loop);
	c->closing = true;
	c->close_again = (struct loop_timer){.fire = closer_start};
	if (c->opened)
		closer_start(&c->close_again);
	else
		kvc_pool_tell_closed(c->pool);
}
