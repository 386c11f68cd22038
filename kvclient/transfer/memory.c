/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- register the caller's memory with all clients' engines and at all servers.
 *
 * Each registration has an id that the pool never uses again.
 *
 * Registering: engines open the memory in turn, then all clients announce it at once. A silent server loses its
 * attachment, and gets the announcement in the next.
 *
 * Unregistering: all clients stop using the memory, or the call is refused and undone. Then servers get a REVOKE, and
 * the regions close after the answers, since on tcp a late operation on a closed region costs the connection. A silent
 * server loses its attachment; nothing is in flight, so closing is safe.
 *
 * A pool that seals values only notes registrations: plaintext must not be memory that servers can reach.
 *
 * One deadline holds for all, plus the time of pinning, which cannot be given up. */
#include "kvclient/transfer/memory.h"

#include <stdlib.h>

#include "host/host.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/regions.h"
#include "kvclient/core/block.h"
#include "kvclient/transfer/call.h"

#define REGION_AGAIN_NS 1000000ull

struct kvc_mem {
	struct kvc_mem *next; /* in pool->registered.all */
	uint8_t *base;
	uint64_t len_bytes;
	uint32_t id, slot;
};

/* One announcement or REVOKE to a server. */
struct word {
	struct kc_node *node;
	const struct kc_client_mem *own;
	uint64_t deadline_ns;
	int rc;
	unsigned *left; /* coroutines that have not returned */
	struct co *waiter;
};

struct mem_job {
	struct kvc_mem *mem;
	struct kvc_client *client;
	struct kc_client_mem *own;
	struct kv_error *err;
	uint64_t deadline_ns;
	unsigned made;      /* number of clients with the registration */
	atomic_bool failed; /* an announcement failed; *err has the cause */
	int rc;
};

/* ---- one client ---- */

static struct kc_client_mem *own_find(const struct kvc_client *c, uint32_t id)
{
	for (unsigned i = 0; i < c->mems.count; i++)
		if (c->mems.at[i]->id == id)
			return c->mems.at[i];
	return NULL;
}

static void own_insert(struct kvc_client *c, struct kc_client_mem *m)
{
	unsigned i = c->mems.count++;
	for (; i > 0 && c->mems.at[i - 1]->base > m->base; i--)
		c->mems.at[i] = c->mems.at[i - 1];
	c->mems.at[i] = m;
}

static void own_remove(struct kvc_client *c, struct kc_client_mem *m)
{
	unsigned i = 0;
	KV_ASSERT(m->closing && m->users == 0); /* rule 6 */
	while (c->mems.at[i] != m)
		i++;
	c->mems.count--;
	memmove(&c->mems.at[i], &c->mems.at[i + 1], (c->mems.count - i) * sizeof(c->mems.at[0]));
	free(m);
}

static void region_begin(void *arg)
{
	struct mem_job *j = arg;
	j->rc = te_region_begin(j->client->te, j->own->base, j->own->len_bytes,
				TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE, 0, &j->own->region, j->err);
}

static void region_step(void *arg)
{
	struct mem_job *j = arg;
	j->rc = te_region_step(j->own->region, j->err);
}

static void region_close(void *arg)
{
	struct mem_job *j = arg;
	j->rc = te_region_close_step(&j->own->region);
}

static void region_close_await(struct mem_job *j)
{
	do
		kc_main_await(j->client, region_close, j);
	while (j->rc == 1);
}

/* Open it in steps between turns of the loop: hundreds of GiB must not delay this client's calls. */
static int region_open_await(struct mem_job *j)
{
	kc_main_await(j->client, region_begin, j);
	if (j->rc < 0)
		return j->rc;
	do {
		if (j->client->closing) {
			region_close_await(j);
			return kv_fail(j->err, -KV_ECLOSED, "the pool is being closed");
		}
		kc_main_await(j->client, region_step, j);
	} while (j->rc == 1);
	return j->rc;
}

static void word_over(const struct word *w)
{
	if (--*w->left == 0 && w->waiter)
		co_wake(w->waiter);
}

static void revoke_await(void *arg)
{
	struct word *w = arg;
	if (kc_node_revoke_await(w->node, w->own->id, w->own->slot, w->deadline_ns) < 0)
		kc_node_redial(w->node, "it did not confirm that it forgets a region");
	word_over(w);
}

static void announce_await(void *arg)
{
	struct word *w = arg;
	w->rc = kc_node_region_await(w->node, w->own->region, w->own->id, w->own->slot, w->deadline_ns);
	if (w->rc == -KV_ETIMEOUT) {
		kc_node_redial(w->node, "it did not answer the announcement of a region");
		w->rc = 0;
	}
	word_over(w);
}

/* Send to all servers at once, so they share the time. Without a coroutine this one sends; a late server still has the
 * grace. Returns the first code of a server, *out_node. */
static int servers_await(struct kvc_client *c, const struct kc_client_mem *m, uint64_t deadline_ns,
			 void (*tell_await)(void *word), unsigned *out_node)
{
	unsigned n = c->num_nodes, left = n;
	struct word *all = calloc(n, sizeof(*all));
	int rc = 0;
	for (unsigned i = 0; i < n; i++) {
		struct word here, *w = all ? &all[i] : &here;
		*w = (struct word){.node = &c->node[i],
				   .own = m,
				   .deadline_ns = KV_MAX(deadline_ns, loop_now(c->loop) + c->pool->options.grace_ns),
				   .left = &left,
				   .waiter = all ? co_self() : NULL};
		if (all && co_spawn(c->loop, tell_await, w, "kvc region") == 0)
			continue;
		w->waiter = NULL;
		tell_await(w);
		if (w->rc < 0 && rc == 0) {
			rc = w->rc;
			*out_node = i;
		}
	}
	while (left > 0)
		co_park_await(KV_NEVER);
	for (unsigned i = 0; all && i < n && rc == 0; i++) {
		rc = all[i].rc;
		*out_node = i;
	}
	free(all);
	return rc;
}

/* The wait may exceed the deadline by the grace, if reads were fenced. */
static int own_close_await(struct kvc_client *c, struct kc_client_mem *m, uint64_t deadline_ns)
{
	struct mem_job j = {.client = c, .own = m};
	unsigned node;
	m->closing = true;
	(void)servers_await(c, m, deadline_ns, revoke_await, &node);
	region_close_await(&j);
	/* The engine has not reported all fenced reads yet. */
	deadline_ns = KV_MAX(deadline_ns, loop_now(c->loop) + c->pool->options.grace_ns);
	while (j.rc == -KV_EBUSY && loop_now(c->loop) < deadline_ns) {
		co_sleep_await(loop_now(c->loop) + REGION_AGAIN_NS);
		region_close_await(&j);
	}
	if (j.rc < 0)
		return j.rc;
	own_remove(c, m);
	return 0;
}

static int64_t client_open_await(struct kvc_client *c, void *arg)
{
	struct mem_job *given = arg;
	struct mem_job j = {.client = c, .err = given->err};
	uint64_t begun = loop_now(c->loop);
	int rc = kc_call_allowed(c);
	if (rc < 0)
		return kv_fail(j.err, rc, "the pool is being closed");
	kc_client_hold(c);
	j.own = calloc(1, sizeof(*j.own));
	if (!j.own) {
		rc = kv_fail(j.err, -KV_ENOMEM, "no memory for a registration");
		goto out;
	}
	j.own->base = given->mem->base;
	j.own->len_bytes = given->mem->len_bytes;
	j.own->id = given->mem->id;
	j.own->slot = given->mem->slot;
	rc = region_open_await(&j);
	if (rc < 0) {
		free(j.own);
		kv_fail_more(j.err, "client %u", c->index);
		goto out;
	}
	given->deadline_ns = kv_deadline(given->deadline_ns, loop_now(c->loop) - begun);
	own_insert(c, j.own);
	given->made++;
out:
	if (rc < 0) /* else the announcement is counted */
		kc_result_count(c, KVC_OP_REGISTER, rc);
	kc_client_unhold(c);
	return rc;
}

/* Announce it to the servers that are up; others get it before they are. Of several failing clients the first one sets
 * the error. */
static int64_t client_announce_await(struct kvc_client *c, void *arg)
{
	struct mem_job *job = arg;
	struct kc_client_mem *m = own_find(c, job->mem->id);
	struct kc_trace t;
	unsigned node = 0;
	int rc = m ? kc_call_begin(c, &t, KVC_OP_REGISTER, NULL) : -KV_ECLOSED;
	if (!m) /* the client has ended */
		return rc;
	if (rc == 0) {
		rc = servers_await(c, m, job->deadline_ns, announce_await, &node);
		rc = kc_call_end(c, &t, rc);
	}
	m->ready = rc == 0;
	m->closing = rc < 0; /* nodes announce it no more; register_undo removes it */
	if (rc < 0 && !atomic_exchange(&job->failed, true))
		kv_fail(job->err, rc, "client %u: server %s did not accept the announcement of %llu bytes: %s",
			c->index, c->pool->server[node].entry.text, (unsigned long long)m->len_bytes, kv_strerror(rc));
	return rc;
}

static int64_t client_quiesce(struct kvc_client *c, void *arg)
{
	const struct mem_job *job = arg;
	struct kc_client_mem *m = own_find(c, job->mem->id);
	if (m && m->users > 0)
		return -KV_EBUSY;
	if (m)
		m->closing = true;
	return 0;
}

static int64_t client_revive(struct kvc_client *c, void *arg)
{
	const struct mem_job *job = arg;
	struct kc_client_mem *m = own_find(c, job->mem->id);
	if (!m)
		return 0;
	m->closing = false;
	/* Servers attached since then do not have it. */
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (c->node[i].state == KC_NODE_UP && !kc_node_knows(&c->node[i], m))
			kc_node_redo(&c->node[i], "it does not know memory that stays registered");
	return 0;
}

static int64_t client_unregister_await(struct kvc_client *c, void *arg)
{
	const struct mem_job *job = arg;
	struct kc_client_mem *m = own_find(c, job->mem->id);
	struct kc_trace t;
	int rc = m ? kc_call_begin(c, &t, KVC_OP_REGISTER, NULL) : 0;
	if (!m || rc < 0)
		return rc;
	return kc_call_end(c, &t, own_close_await(c, m, job->deadline_ns));
}

/* ---- the pool ---- */

static uint32_t slot_free(const struct kvc_pool *pool)
{
	for (uint32_t slot = 1; slot <= KC_MEMS_MAX; slot++) {
		const struct kvc_mem *m = pool->registered.all;
		while (m && m->slot != slot)
			m = m->next;
		if (!m)
			return slot;
	}
	return 0;
}

static int mem_enter(struct kvc_pool *pool, struct kvc_mem *mem, struct kv_error *err)
{
	int rc = 0;
	pthread_mutex_lock(&pool->lock);
	for (const struct kvc_mem *m = pool->registered.all; m && rc == 0; m = m->next)
		if (mem->base < m->base + m->len_bytes && m->base < mem->base + mem->len_bytes)
			rc = kv_fail(err, -KV_EINVAL,
				     "[%p, +%llu) overlaps registered memory: [%p, +%llu); "
				     "unregister that first, or leave it out",
				     (void *)mem->base, (unsigned long long)mem->len_bytes, (void *)m->base,
				     (unsigned long long)m->len_bytes);
	mem->slot = slot_free(pool);
	if (rc == 0 && mem->slot == 0)
		rc = kv_fail(err, -KV_ELIMIT, "a pool has at most %d registrations; register fewer, larger areas",
			     (int)KC_MEMS_MAX);
	if (rc == 0) {
		mem->id = ++pool->registered.last_id;
		mem->next = pool->registered.all;
		pool->registered.all = mem;
	}
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

static void mem_leave(struct kvc_pool *pool, struct kvc_mem *mem)
{
	pthread_mutex_lock(&pool->lock);
	for (struct kvc_mem **at = &pool->registered.all; *at; at = &(*at)->next) {
		if (*at == mem) {
			*at = mem->next;
			break;
		}
	}
	pthread_mutex_unlock(&pool->lock);
	free(mem);
}

/* Run fn on the first `n` clients in turn, with the job's deadline for all. Returns the first failure; *out_ok: clients
 * that succeeded before it. */
static int on_clients(struct kvc_pool *pool, unsigned n, int64_t (*fn)(struct kvc_client *c, void *arg),
		      struct mem_job *job, unsigned *out_ok)
{
	int64_t result = 0;
	int rc = 0;
	*out_ok = 0;
	for (unsigned i = 0; i < n && rc == 0; i++) {
		/* A working loop must not seem stuck because other clients used up the time. */
		uint64_t deadline = KV_MAX(job->deadline_ns, kc_block_now(pool) + pool->options.grace_ns);
		rc = kc_block_run(pool->client[i], deadline, fn, job, &result);
		if (rc == 0)
			rc = (int)result;
		*out_ok += rc == 0;
	}
	return rc;
}

/* To undo without failing: waits for the loops, however long. Ignores fn's result: the client's end repairs it. */
static void on_clients_surely(struct kvc_pool *pool, unsigned n, int64_t (*fn)(struct kvc_client *c, void *arg),
			      struct mem_job *job)
{
	for (unsigned i = 0; i < n; i++)
		kc_block_run_surely(pool->client[i], fn, job);
}

static uint64_t mem_deadline(const struct kvc_pool *pool)
{
	return kv_deadline(kc_block_now(pool), pool->options.timeout_ns);
}

/* Check that the memory is mapped; make its pages, if it will be pinned on the loops. */
static int memory_prepare(const struct kvc_pool *pool, void *base, uint64_t len_bytes, struct kv_error *err)
{
	const struct te_info *engine = &pool->client[0]->info;
	char size[32];
	int rc = kv_memory_mapped(base, len_bytes, err);
	if (rc < 0 || !engine->pins_memory || pool->seal_keys)
		return rc;
	rc = kv_memory_populate(base, len_bytes, engine->near ? engine->numa_node : KV_NODE_ANY, NULL);
	if (rc == 0 || rc == -KV_ENOTSUP) /* then pinning makes the pages */
		return 0;
	return kv_fail(err, rc,
		       "the kernel has no pages for %s of memory that the NIC is to pin: free memory, or register less",
		       kv_size_format(len_bytes, size, sizeof(size)));
}

/* Undo a registration at all clients at once, with the grace for all servers, then in turn for those with full
 * queues. */
static void register_undo(struct kvc_pool *pool, struct mem_job *job)
{
	job->deadline_ns = kc_block_now(pool) + pool->options.grace_ns;
	if (kc_block_run_all(pool, job->made, KV_NEVER, client_unregister_await, job) < 0)
		on_clients_surely(pool, job->made, client_unregister_await, job);
}

static int register_all(struct kvc_pool *pool, void *base, uint64_t len_bytes, struct kvc_mem **out,
			struct kv_error *err)
{
	struct mem_job job = {.err = err, .deadline_ns = mem_deadline(pool)};
	unsigned ok;
	int rc;
	job.mem = calloc(1, sizeof(*job.mem));
	if (!job.mem)
		return kv_fail(err, -KV_ENOMEM, "no memory for a registration");
	job.mem->base = base;
	job.mem->len_bytes = len_bytes;
	rc = mem_enter(pool, job.mem, err);
	if (rc < 0) {
		free(job.mem);
		return rc;
	}
	if (pool->seal_keys) { /* no server may reach plaintext: calls copy */
		*out = job.mem;
		return 0;
	}
	if (err)
		err->text[0] = 0;
	rc = on_clients(pool, pool->num_clients, client_open_await, &job, &ok);
	if (rc < 0 && err && !err->text[0])
		kv_fail(err, rc, "the registration could not be started on client %u: %s", ok, kv_strerror(rc));
	if (rc == 0) {
		job.deadline_ns = KV_MAX(job.deadline_ns, kc_block_now(pool) + pool->options.grace_ns);
		rc = kc_block_run_all(pool, pool->num_clients, job.deadline_ns, client_announce_await, &job);
		if (rc < 0 && !atomic_load(&job.failed))
			kv_fail(err, rc, "cannot announce the memory to servers: %s", kv_strerror(rc));
	}
	if (rc < 0) {
		register_undo(pool, &job);
		mem_leave(pool, job.mem);
		return rc;
	}
	*out = job.mem;
	return 0;
}

int kvc_register(struct kvc_pool *pool, void *base, uint64_t len_bytes, struct kvc_mem **out, struct kv_error *err)
{
	int rc;
	if (!pool || !base || len_bytes == 0 || !out)
		return kv_fail(err, -KV_EINVAL,
			       "kvc_register needs a pool, memory of at least a byte, and a place for the handle");
	if ((uint64_t)(uintptr_t)base + len_bytes < len_bytes)
		return kv_fail(err, -KV_EINVAL, "[%p, +%llu) reaches beyond the end of the address space", base,
			       (unsigned long long)len_bytes);
	if (!kc_pool_alien(pool) && loop_current())
		return kv_fail(err, -KV_EINVAL,
			       "kvc_register blocks: call it from a thread of your own, not from a worker");
	if (kc_pool_enter(pool) < 0)
		return kv_fail(err, -KV_ECLOSED,
			       "the pool is being closed, or it is the parent's, and this is a child of fork()");
	rc = memory_prepare(pool, base, len_bytes, err);
	if (rc == 0)
		rc = register_all(pool, base, len_bytes, out, err);
	kc_pool_leave(pool);
	return rc;
}

/* Another pool's registration would match an id here, and be freed twice. */
static bool mem_is_ours(struct kvc_pool *pool, const struct kvc_mem *mem)
{
	const struct kvc_mem *m;
	pthread_mutex_lock(&pool->lock);
	for (m = pool->registered.all; m && m != mem; m = m->next)
		;
	pthread_mutex_unlock(&pool->lock);
	return m != NULL;
}

static int unregister_all(struct kvc_pool *pool, struct kvc_mem **mem)
{
	struct mem_job job = {.mem = *mem, .deadline_ns = mem_deadline(pool)};
	unsigned ok;
	int rc = pool->seal_keys ? 0 : on_clients(pool, pool->num_clients, client_quiesce, &job, &ok);
	if (rc < 0) {
		on_clients_surely(pool, ok, client_revive, &job);
		return rc;
	}
	job.deadline_ns = KV_MAX(job.deadline_ns, kc_block_now(pool) + pool->options.grace_ns);
	if (!pool->seal_keys)
		rc = kc_block_run_all(pool, pool->num_clients, job.deadline_ns, client_unregister_await, &job);
	if (rc < 0)
		return rc;
	mem_leave(pool, *mem);
	*mem = NULL;
	return 0;
}

int kvc_unregister(struct kvc_pool *pool, struct kvc_mem **mem)
{
	int rc;
	if (!pool || !mem || (!kc_pool_alien(pool) && loop_current()))
		return -KV_EINVAL;
	if (!*mem)
		return 0;
	rc = kc_pool_enter(pool);
	if (rc < 0)
		return rc;
	rc = mem_is_ours(pool, *mem) ? unregister_all(pool, mem) : -KV_EINVAL;
	kc_pool_leave(pool);
	return rc;
}

void kc_mems_free(struct kvc_pool *pool)
{
	while (pool->registered.all) {
		struct kvc_mem *m = pool->registered.all;
		pool->registered.all = m->next;
		free(m);
	}
}

static struct kc_client_mem *mem_with(struct kvc_client *c, const void *at)
{
	unsigned low = 0, high = c->mems.count;
	while (low < high) {
		unsigned mid = (low + high) / 2;
		if (c->mems.at[mid]->base <= (const uint8_t *)at)
			low = mid + 1;
		else
			high = mid;
	}
	if (low > 0) {
		struct kc_client_mem *m = c->mems.at[low - 1];
		if (m->ready && !m->closing && (uint64_t)((const uint8_t *)at - m->base) < m->len_bytes)
			return m;
	}
	return NULL;
}

static uint64_t mem_behind(const struct kc_client_mem *m, const void *at)
{
	return m->len_bytes - (uint64_t)((const uint8_t *)at - m->base);
}

struct kc_client_mem *kc_client_mem_at(struct kvc_client *c, const void *at, uint64_t len)
{
	struct kc_client_mem *m = mem_with(c, at);
	return m && len <= mem_behind(m, at) ? m : NULL;
}

/* Registrations may adjoin. */
bool kc_target_leaves(struct kvc_client *c, const struct kc_target *t, uint64_t len)
{
	const uint8_t *at = t->at, *end = at + kc_target_extent(t, len);
	const struct kc_client_mem *m = t->slice && !t->span ? mem_with(c, at) : NULL;
	if (!m)
		return false;
	do
		at = m->base + m->len_bytes;
	while (at < end && (m = mem_with(c, at)));
	return at < end;
}
