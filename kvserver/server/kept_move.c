/* SPDX-License-Identifier: Apache-2.0 */
/* kept_move.c -- values of a kept server with other worker threads, or more memory, are copied to the shards of this
 * one.
 *
 * Its memory is mapped for reading, and its stores are restored beside the new ones; then a thread for each new shard
 * copies the values whose keys are its (store/move.c). */
#include "kvserver/server/kept.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "host/host.h"
#include "kvserver/server/private.h"
#include "kvserver/server/server.h"

/* A shard of then. */
struct former {
	struct keep_in *file;
	const struct keep_head *head;
	struct keep_clock clock;
	unsigned shard;
	int fd, rc;
	void *base;
	uint64_t bytes; /* mapped */
	struct keep_rest rest;
	struct kv_error err;
};

struct move {
	struct former former[KV_SHARDS_MAX];
	struct move_from from[KV_SHARDS_MAX];
};

static int former_map(struct former *f)
{
	struct stat st;
	if (fstat(f->fd, &st) < 0 || (uint64_t)st.st_size < f->head->limit_bytes)
		return kv_fail(&f->err, -KV_EINVAL, "the former memory is shorter than the index says");
	f->bytes = (uint64_t)st.st_size;
	return kv_memfd_map(f->fd, f->bytes, false, &f->base, &f->err);
}

static int former_restore(struct former *f, struct store *store)
{
	struct keep_reader *r;
	int rc = keep_reader_open(f->file, f->shard, &r, &f->err);
	if (rc)
		return rc;
	rc = keep_restore(r, &f->clock, store, &f->rest, &f->err);
	keep_reader_close(&r);
	keep_rest_end(store, &f->rest);
	pins_drop_all(store);
	return rc;
}

/* The store of then, with its order. One that cannot be restored has no values. */
static void former_open(struct former *f, struct move_from *from)
{
	const struct store_options o = {.base = f->base,
					.limit_bytes = f->head->limit_bytes,
					.digest_seed = f->head->digest_seed,
					.generation = 1,
					.now_ns = f->clock.now_ns,
					.policy = &evict_clock, /* one bit says whether a value was hit */
					.blocks_max = f->head->limit_bytes / ARENA_GRANULE};
	f->rc = store_init(&from->store, &o);
	if (f->rc) {
		kv_fail(&f->err, f->rc, "no memory for the former index");
		munmap(f->base, f->bytes);
		f->base = NULL;
		return;
	}
	f->rc = former_restore(f, &from->store);
	if (f->rc == 0 && move_begin(from))
		f->rc = kv_fail(&f->err, -KV_ENOMEM, "no memory for the former order of eviction");
}

static void former_close(struct former *f, struct move_from *from)
{
	if (!f->base)
		return;
	move_end(from);
	store_fini(&from->store);
	munmap(f->base, f->bytes);
}

struct open_work {
	struct former *former;
	struct move_from *from;
};

static void *open_run(void *item)
{
	const struct open_work *w = item;
	w->former->rc = former_map(w->former);
	if (w->former->rc == 0)
		former_open(w->former, w->from);
	return NULL;
}

struct move_work {
	struct move_to to;
	const struct move_from *from;
	unsigned count;
};

static void *move_run(void *item)
{
	struct move_work *w = item;
	move_values(&w->to, w->from, w->count);
	return NULL;
}

static void values_move(struct kvs_server *s, const struct move_from *from, unsigned count)
{
	struct move_work all[KV_SHARDS_MAX];
	for (unsigned i = 0; i < s->opt.shards; i++)
		all[i] = (struct move_work){.to = {.store = &s->shard[i]->store,
						   .area = &s->shard[i]->area,
						   .shard = i,
						   .shards = s->opt.shards,
						   .now_ns = loop_now(s->shard[i]->loop)},
					    .from = from,
					    .count = count};
	works_run(move_run, all, sizeof(all[0]), s->opt.shards);
	for (unsigned i = 0; i < s->opt.shards; i++) {
		s->shard[i]->kept.rest.blocks = all[i].to.moved;
		s->shard[i]->kept.rest.dropped = all[i].to.dropped;
	}
}

int kept_move(struct kvs_server *s, struct keep_in *file, const struct keep_head *head, const int *fd, uint64_t wall_ns,
	      struct kv_error *err)
{
	struct open_work work[KV_SHARDS_MAX];
	struct move *m = calloc(1, sizeof(*m));
	int rc = 0;
	if (!m)
		return kv_fail(err, -KV_ENOMEM, "no memory to move them");
	for (unsigned i = 0; i < head->shards; i++) {
		m->former[i] = (struct former){.file = file,
					       .head = head,
					       .clock = keep_clock_of(head, loop_now(s->control), wall_ns),
					       .shard = i,
					       .fd = fd[i]};
		work[i] = (struct open_work){&m->former[i], &m->from[i]};
	}
	works_run(open_run, work, sizeof(work[0]), head->shards);
	for (unsigned i = 0; i < head->shards && rc == 0; i++) {
		rc = m->former[i].rc;
		if (rc)
			*err = m->former[i].err;
	}
	if (rc == 0)
		values_move(s, m->from, head->shards);
	for (unsigned i = 0; i < head->shards; i++)
		former_close(&m->former[i], &m->from[i]);
	free(m);
	return rc;
}
