/* SPDX-License-Identifier: Apache-2.0 */
/* recall.c -- after an absence from the cluster, ask the other members for keys deleted since, as a client of theirs.
 *
 * It opens a pool to all other members, by the view's names and addresses, and reads the namespaces of each of their
 * shards (store/space.h), and all tombstones (store/tombs.h), 200 in an answer. Their times are converted to this
 * machine's clock, rounded up. If a member does not answer in time or has left, or knows of one that left, the question
 * is asked again. If one does not remember all deletions of the absence (it was restarted without a tier, or its ring
 * is full), the server drops its values. */
#include "kvserver/push/recall.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvclient/copy.h"
#include "kvserver/push/peers.h"
#include "kvserver/server/server.h"
#include "store/store.h"

enum { SPACES_AT_ONCE = 1 << 16 };

#define WITHIN_NS    8000000000ull /* kvserver/conn/doubt.c waits a little longer */
#define CALL_NS      1000000000ull
#define POLL_NS      20000000ull
#define BUFFER_BYTES (4ull << 20)

struct recall {
	struct kvs_server *server;
	const char *server_name;
	pthread_mutex_t lock; /* of the next two */
	bool started, running;
	pthread_t thread;
	_Atomic bool stop;
	struct kv_view view;
	int64_t since_ns;        /* of the absence */
	struct kvs_recalled got; /* the thread's */
	uint32_t room, spaces_room;
};

static void log_line(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line; /* doubt.c logs the important parts */
}

/* ---- the pool ---- */

/* "NAME=HOST:PORT" of all others. Returns their number, or -KV_ENOMEM. */
static int names_make(const struct recall *r, char ***out)
{
	enum { ROOM = KV_NAME_MAX + KV_MEMBER_ADDRESS };
	unsigned n = 0;
	char **names = calloc(r->view.count + 1, sizeof(*names) + ROOM), *text;
	if (!names)
		return -KV_ENOMEM;
	text = (char *)(names + r->view.count + 1);
	for (uint32_t i = 0; i < r->view.count; i++) {
		const struct kv_member *m = &r->view.member[i];
		if (strcmp(m->node_id, r->server->node_id) == 0)
			continue;
		names[n] = text + (size_t)n * ROOM;
		snprintf(names[n++], ROOM, "%s=%s", m->node_id, m->address);
	}
	*out = names;
	return (int)n;
}

static int pool_open(const struct recall *r, char **names, unsigned n, struct kvc_pool **out)
{
	struct kv_error err;
	struct kvc_options ko = {.size = sizeof(ko),
				 .buffer_bytes = BUFFER_BYTES,
				 .servers = (const char *const *)names,
				 .num_servers = n,
				 .timeout_ns = CALL_NS,
				 .log_level = (int)KV_LOG_ERROR,
				 .log = log_line};
	return peers_open(r->server, r->server_name, &ko, out, &err);
}

/* ---- the answers ---- */

static int verdicts_add(struct recall *r, const struct kc_tomb *tomb, unsigned n)
{
	struct kvs_recalled *g = &r->got;
	if (g->count + n > r->room) {
		uint32_t room = KV_MIN(KV_MAX(r->room * 2, 4096u), (unsigned)DOUBT_VERDICTS_MAX);
		struct verdict *more = g->count + n > room ? NULL : realloc(g->verdict, room * sizeof(*more));
		if (!more)
			return -KV_ENOMEM;
		g->verdict = more;
		r->room = room;
	}
	for (unsigned i = 0; i < n; i++)
		g->verdict[g->count++] = verdict_of(tomb[i].id, tomb[i].time_ns, tomb[i].touched);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct kvs_space *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* One row for each name. */
static void spaces_fold(struct kvs_recalled *g)
{
	uint32_t n = 0;
	if (g->spaces == 0)
		return;
	qsort(g->space, g->spaces, sizeof(*g->space), by_name);
	for (uint32_t i = 1; i < g->spaces; i++) {
		if (strcmp(g->space[i].name, g->space[n].name) != 0)
			g->space[++n] = g->space[i];
		else
			g->space[n].generation = KV_MAX(g->space[n].generation, g->space[i].generation);
	}
	g->spaces = n + 1;
}

/* Without room for another row, its generation is that of all namespaces without one. */
static void space_add(struct recall *r, const struct wire_row *from)
{
	uint64_t generation = from->number[WIRE_SPACE_GENERATION];
	struct kvs_recalled *g = &r->got;
	struct kvs_space *to;
	if (generation == 0)
		return;
	if (g->spaces == SPACES_AT_ONCE)
		spaces_fold(g);
	if (g->spaces == r->spaces_room) {
		uint32_t room = KV_MIN(KV_MAX(r->spaces_room * 2, 64u), (uint32_t)SPACES_AT_ONCE);
		to = room == r->spaces_room ? NULL : realloc(g->space, room * sizeof(*to));
		if (!to) {
			g->floor = KV_MAX(g->floor, generation);
			return;
		}
		g->space = to;
		r->spaces_room = room;
	}
	to = &g->space[g->spaces++];
	memset(to, 0, sizeof(*to));
	memcpy(to->name, from->name, sizeof(from->name));
	to->generation = generation;
}

static bool over(const struct recall *r, uint64_t until_ns)
{
	return atomic_load(&r->stop) || kv_now() >= until_ns;
}

static int spaces_read(struct recall *r, struct kvc_pool *pool, const struct kvc_call *call, uint64_t until_ns)
{
	struct kc_rows page = {.next = 0};
	int rc;
	do {
		rc = kc_spaces(pool, page.next, &page, call);
		if (rc < 0)
			return rc == -KV_EINVAL && call->shard > 1 ? 1 : rc;
		for (unsigned i = 0; i < page.count; i++)
			space_add(r, &page.row[i]);
		r->got.floor = KV_MAX(r->got.floor, page.floor);
	} while (page.next && !over(r, until_ns));
	return page.next ? -KV_ETIMEOUT : 0;
}

/* 0; 1: no such shard; -KV_ESTALE: it does not remember so much, and will not; or a code. */
static int shard_read(struct recall *r, struct kvc_pool *pool, const struct kvc_call *call, uint64_t until_ns)
{
	struct kc_tombs page = {.next = 0};
	int rc;
	do {
		rc = kc_tombs(pool, page.next, &page, call);
		if (rc == -KV_EINVAL && call->shard > 1)
			return 1;
		if (rc == 0 && page.since_ns > r->since_ns)
			return page.later ? -EAGAIN : -KV_ESTALE;
		if (rc == 0)
			rc = verdicts_add(r, page.tomb, page.count);
		if (rc < 0)
			return rc;
	} while (page.next && !over(r, until_ns));
	return page.next ? -KV_ETIMEOUT : 0;
}

static int server_wait(const struct recall *r, struct kvc_pool *pool, unsigned i, uint64_t until_ns)
{
	const struct timespec poll = {.tv_nsec = POLL_NS};
	struct kvc_server_info info;
	for (; !over(r, until_ns); nanosleep(&poll, NULL)) {
		info = (struct kvc_server_info){.size = sizeof(info)};
		if (kvc_server_info(pool, 0, i, &info) == -KV_ENOTFOUND)
			return -KV_ENOTFOUND;
		if (info.state == KVC_SERVER_UP)
			return 0;
	}
	return -KV_ETIMEOUT;
}

static int server_read(struct recall *r, struct kvc_pool *pool, unsigned i, uint64_t until_ns)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = CALL_NS, .server = i};
	int rc = server_wait(r, pool, i, until_ns);
	for (call.shard = 1; rc == 0 && call.shard <= KV_SHARDS_MAX; call.shard++)
		rc = spaces_read(r, pool, &call, until_ns);
	rc = KV_MIN(rc, 0);
	for (call.shard = 1; rc == 0 && call.shard <= KV_SHARDS_MAX; call.shard++)
		rc = shard_read(r, pool, &call, until_ns);
	return rc < 0 ? rc : 0;
}

static int all_read(struct recall *r)
{
	uint64_t until_ns = kv_now() + WITHIN_NS;
	struct kvc_pool *pool = NULL;
	char **names = NULL;
	int n = names_make(r, &names), rc = n < 0 ? n : 0;
	if (n > 0)
		rc = pool_open(r, names, (unsigned)n, &pool);
	for (int i = 0; pool && i < n; i++) {
		int one = server_read(r, pool, (unsigned)i, until_ns);
		rc = rc == -KV_ESTALE || one == 0 ? rc : one;
	}
	kvc_pool_close(&pool);
	free(names);
	return rc;
}

/* ---- the thread ---- */

static void *run(void *arg)
{
	const struct timespec again = {.tv_nsec = POLL_NS};
	struct recall *r = arg;
	struct kvs_recalled *g = &r->got;
	int rc = all_read(r);
	spaces_fold(g);
	if (rc == 0 && !g->verdict)
		rc = (g->verdict = calloc(1, sizeof(*g->verdict))) ? 0 : -KV_ENOMEM;
	if (rc < 0) {
		free(g->verdict);
		g->verdict = NULL;
		g->count = 0;
		g->again = rc != -KV_ESTALE && rc != -KV_ENOMEM;
	}
	rc = kvs_server_recalled(r->server, g);
	while (rc == -KV_EBUSY && !atomic_load(&r->stop)) {
		nanosleep(&again, NULL);
		rc = kvs_server_recall_again(r->server);
	}
	pthread_mutex_lock(&r->lock);
	r->running = false;
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

int recall_ask(void *recall, const struct kv_view *view, int64_t since_ns)
{
	struct recall *r = recall;
	int rc = -KV_EBUSY;
	pthread_mutex_lock(&r->lock);
	if (r->running)
		goto out;
	if (r->started)
		pthread_join(r->thread, NULL);
	r->started = false;
	kv_view_fini(&r->view);
	r->got = (struct kvs_recalled){0};
	r->room = r->spaces_room = 0;
	r->since_ns = since_ns;
	rc = kv_view_copy(view, &r->view);
	if (rc == 0)
		rc = -pthread_create(&r->thread, NULL, run, r);
	r->started = r->running = rc == 0;
out:
	pthread_mutex_unlock(&r->lock);
	return rc;
}

struct recall *recall_create(struct kvs_server *server, const char *server_name)
{
	struct recall *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->server = server;
	r->server_name = server_name;
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

void recall_destroy(struct recall **recall)
{
	struct recall *r = *recall;
	*recall = NULL;
	if (!r)
		return;
	atomic_store(&r->stop, true);
	if (r->started)
		pthread_join(r->thread, NULL);
	kv_view_fini(&r->view);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
