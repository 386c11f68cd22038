/* SPDX-License-Identifier: Apache-2.0 */
/* workers.c -- workers: the caller's coroutines on the clients' loops. kvc_run starts all or none: each is made first
 * and waits at a gate. When all exist the gates open and they run; after a failure they return instead. */
#include <stdlib.h>

#include "kvclient/core/block.h"

struct workers_run;

struct run_worker {
	struct workers_run *run;
	struct kvc_client *client;
	unsigned w;
};

/* The workers of one client. */
struct run_part {
	struct workers_run *run;
	struct kvc_client *client;
	struct co_queue gate;
	struct co *starter; /* waits for the last worker */
	unsigned alive;
	bool open, go;
};

struct workers_run {
	void (*fn)(struct kvc_client *client, unsigned w, void *arg);
	void *arg;
	unsigned num_workers;
	struct run_worker *worker;
	struct run_part *part;
};

static void worker_main(void *arg)
{
	struct run_worker *k = arg;
	struct run_part *part = &k->run->part[k->client->index];
	while (!part->open)
		co_queue_wait_await(&part->gate, KV_NEVER);
	if (part->go)
		k->run->fn(k->client, k->w, k->run->arg);
	kc_client_unhold(k->client);
	if (--part->alive == 0 && part->starter)
		co_wake(part->starter);
}

/* Make this client's workers; they wait at the gate. */
static int64_t part_make(struct kvc_client *c, void *arg)
{
	struct workers_run *run = arg;
	struct run_part *part = &run->part[c->index];
	co_queue_init(&part->gate);
	if (c->closing)
		return -KV_ECLOSED;
	for (unsigned w = c->index; w < run->num_workers; w += c->pool->num_clients) {
		struct run_worker *k = &run->worker[w];
		int rc;
		*k = (struct run_worker){run, c, w};
		rc = co_spawn(c->loop, worker_main, k, "kvc worker");
		if (rc < 0)
			return rc;
		kc_client_hold(c);
		part->alive++;
	}
	return 0;
}

static void part_open(void *arg)
{
	struct run_part *part = arg;
	part->open = true;
	co_queue_wake_all(&part->gate);
}

static int64_t part_wait_await(struct kvc_client *c, void *arg)
{
	struct run_part *part = &((struct workers_run *)arg)->part[c->index];
	part->starter = co_self();
	while (part->alive > 0)
		co_park_await(KV_NEVER);
	return 0;
}

int kvc_run(struct kvc_pool *pool, unsigned num_workers, void (*fn)(struct kvc_client *client, unsigned w, void *arg),
	    void *arg)
{
	struct workers_run run = {.fn = fn, .arg = arg, .num_workers = num_workers};
	unsigned clients, made = 0;
	uint64_t deadline;
	int64_t result = 0;
	int rc = -KV_ENOMEM;
	if (pool && kc_pool_alien(pool))
		return -KV_ECLOSED;
	if (!pool || !fn || loop_current())
		return -KV_EINVAL;
	if (num_workers == 0)
		return 0;
	if (kc_pool_enter(pool) < 0)
		return -KV_ECLOSED;
	deadline = kv_deadline(kc_block_now(pool), pool->options.timeout_ns);
	clients = KV_MIN(num_workers, pool->num_clients);
	run.worker = calloc(num_workers, sizeof(*run.worker));
	run.part = calloc(clients, sizeof(*run.part));
	if (!run.worker || !run.part)
		goto out;
	for (rc = 0; made < clients && rc == 0; made++) {
		run.part[made].run = &run;
		run.part[made].client = pool->client[made];
		rc = kc_block_run(pool->client[made], deadline, part_make, &run, &result);
		if (rc < 0)
			break; /* none was made here */
		rc = (int)result;
	}
	for (unsigned i = 0; i < made; i++)
		run.part[i].go = rc == 0;
	for (unsigned i = 0; i < made; i++)
		kc_post_surely(pool, pool->client[i]->loop, part_open, &run.part[i]);
	for (unsigned i = 0; i < made; i++)
		kc_block_run_surely(pool->client[i], part_wait_await, &run);
out:
	free(run.worker);
	free(run.part);
	kc_pool_leave(pool);
	return rc;
}

/* ---- one more worker ---- */

struct spawned {
	struct kvc_client *client;
	unsigned w;
	void (*fn)(struct kvc_client *client, unsigned w, void *arg);
	void *arg;
};

static void spawned_main(void *arg)
{
	struct spawned s = *(struct spawned *)arg;
	free(arg);
	s.fn(s.client, s.w, s.arg);
	kc_client_unhold(s.client);
}

static int64_t spawned_make(struct kvc_client *c, void *arg)
{
	int rc = c->closing ? -KV_ECLOSED : co_spawn(c->loop, spawned_main, arg, "kvc worker");
	if (rc == 0)
		kc_client_hold(c);
	return rc;
}

int kvc_spawn(struct kvc_pool *pool, unsigned w, void (*fn)(struct kvc_client *client, unsigned w, void *arg),
	      void *arg)
{
	struct kvc_client *c;
	struct spawned *s;
	int rc;
	if (!pool || !fn)
		return -KV_EINVAL;
	s = malloc(sizeof(*s));
	if (!s)
		return -KV_ENOMEM;
	c = pool->client[w % pool->num_clients];
	*s = (struct spawned){c, w, fn, arg};
	if (!kc_pool_alien(pool) && !atomic_load(&pool->closing) && loop_current() == c->loop)
		rc = (int)spawned_make(c, s);
	else
		rc = (int)kc_block_call(c, pool->options.timeout_ns, spawned_make, s, NULL);
	if (rc < 0)
		free(s);
	return rc;
}
