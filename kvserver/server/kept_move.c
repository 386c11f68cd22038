/* SPDX-License-Identifier: Apache-2.0 */
/* kept_move.c -- values of a kept server with other worker threads, or more memory, are copied to files for this one,
 * with an index of their own. After that they are like the values of a server with this one's options, also if the
 * start fails later.
 *
 * The former memory is mapped for reading, and its stores are restored; then a thread for each new shard copies the
 * values whose keys are its (store/move.c), part by part, by address. The former files give back each part at once, and
 * the new ones get pages as they need them, so both together take little more than the larger ones. Invariant: before
 * the first page is given back, the former marks say "unclean", so nobody believes the former index any more. Memory
 * that clients of a former server read stays whole.
 *
 * All stores run on the clock of the former index, which the new one has as well: no time passes here. */
#include "kvserver/server/kept.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host.h"
#include "kvserver/server/private.h"
#include "kvserver/server/server.h"

#define PART_MIN (4ull << 20) /* bytes of former memory that are copied before they are given back */

enum { PART_SHARE = 256 }; /* of all former memory */

/* A shard of then. */
struct former {
	const struct kept_move *m;
	struct keep_clock clock;
	unsigned shard;
	int rc;
	void *base;
	uint64_t bytes;   /* mapped */
	uint64_t largest; /* of its values */
	struct keep_rest rest;
	struct kv_error err;
};

/* A shard of this server, and what its thread works on. */
struct fresh {
	const struct kept_move *m;
	struct mover *mover;
	struct kv_area area;
	struct store store;
	bool there; /* area and store */
	struct move_to to;
	uint64_t page, given; /* it has pages up to there */
	const struct arena_block *at[KV_SHARDS_MAX];
	uint64_t end; /* of the present part */
	struct keep_out *out;
	int rc;
	struct kv_error err;
};

struct mover {
	struct former former[KV_SHARDS_MAX];
	struct move_from from[KV_SHARDS_MAX];
	struct fresh fresh[KV_SHARDS_MAX];
};

void kvs_kept_step(const char *name)
{
	const char *at = getenv("KVRAIL_TEST_KILL_AT");
	if (at && strcmp(at, name) == 0)
		kill(getpid(), SIGKILL);
}

/* ---- the former stores ---- */

static int former_map(struct former *f)
{
	struct stat st;
	int fd = f->m->former[f->shard];
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < f->m->head->limit_bytes)
		return kv_fail(&f->err, -KV_EINVAL, "the former memory is shorter than the index says");
	f->bytes = (uint64_t)st.st_size;
	return kv_memfd_map(fd, f->bytes, false, &f->base, &f->err);
}

static int former_restore(struct former *f, struct store *store)
{
	struct keep_reader *r;
	int rc = keep_reader_open(f->m->file, f->shard, &r, &f->err);
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
	const struct keep_head *head = f->m->head;
	const struct store_options o = {.base = f->base,
					.limit_bytes = head->limit_bytes,
					.digest_seed = head->digest_seed,
					.generation = 1,
					.now_ns = f->clock.now_ns,
					.policy = &evict_clock, /* one bit says whether a value was hit */
					.blocks_max = head->limit_bytes / ARENA_GRANULE};
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
	for (uint64_t i = 0; i < from->count; i++)
		f->largest = KV_MAX(f->largest, from->order[i]->mem->size);
}

static void former_close(struct former *f, struct move_from *from)
{
	if (!f->base)
		return;
	move_from_end(from);
	store_fini(&from->store);
	munmap(f->base, f->bytes);
	f->base = NULL;
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

static int formers_open(struct mover *x, const struct kept_move *m, struct kv_error *err)
{
	const struct keep_head *head = m->head;
	struct open_work work[KV_SHARDS_MAX];
	for (unsigned i = 0; i < head->shards; i++) {
		x->former[i] = (struct former){
			.m = m, .clock = {.now_ns = head->now_ns, .saved_ns = head->now_ns}, .shard = i};
		work[i] = (struct open_work){&x->former[i], &x->from[i]};
	}
	works_run(open_run, work, sizeof(work[0]), head->shards);
	for (unsigned i = 0; i < head->shards; i++)
		if (x->former[i].rc) {
			*err = x->former[i].err;
			return x->former[i].rc;
		}
	return 0;
}

/* ---- the new stores ---- */

static bool room_give(void *arg, uint64_t end)
{
	struct fresh *f = arg;
	uint64_t until = kv_align_up(end, f->page);
	if (until <= f->given)
		return true;
	if (kv_kept_give(f->m->fresh[f->to.shard], f->m->arena_file, f->given, until, &f->err))
		return false;
	kv_area_ready(&f->area, f->given, until - f->given);
	f->given = until;
	return true;
}

static int fresh_store(struct kvs_server *s, struct fresh *f, unsigned i)
{
	const struct kept_move *m = f->m;
	struct store_options o = {.base = f->area.base,
				  .limit_bytes = m->limit_bytes,
				  .digest_seed = m->head->digest_seed,
				  .now_ns = m->head->now_ns,
				  .policy = evict_policies[s->opt.eviction],
				  .blocks_max = (s->opt.values_max + m->shards - 1) / m->shards};
	int rc = kv_entropy_fill(s->opt.entropy, &o.seed, sizeof(o.seed));
	if (rc == 0)
		rc = kv_entropy_fill(s->opt.entropy, &o.generation, sizeof(o.generation));
	o.generation = (o.generation >> 24 << 24 & INT64_MAX) + 1;
	if (rc == 0)
		rc = store_init(&f->store, &o);
	if (rc)
		return kv_fail(&f->err, rc, "no index for the values to be copied: %s", kv_strerror(rc));
	f->to = (struct move_to){.store = &f->store,
				 .shard = i,
				 .shards = m->shards,
				 .now_ns = m->head->now_ns,
				 .passed_ns = m->passed_ns,
				 .room = room_give,
				 .arg = f};
	return 0;
}

static int fresh_open(struct kvs_server *s, struct fresh *f, unsigned i)
{
	int fd = dup(f->m->fresh[i]), rc;
	if (fd < 0)
		return kv_fail(&f->err, -KV_ELIMIT, "no descriptor for kept memory: raise the limit of open files");
	rc = kv_area_adopt_bare(fd, kept_bytes(f->m->limit_bytes, 0), &f->area, &f->err);
	if (rc) {
		close(fd);
		return rc;
	}
	rc = fresh_store(s, f, i);
	if (rc)
		kv_area_unmap(&f->area);
	f->there = rc == 0;
	return rc;
}

static void fresh_close(struct fresh *f)
{
	if (!f->there)
		return;
	move_end(&f->to);
	store_fini(&f->store);
	kv_area_unmap(&f->area);
	f->there = false;
}

static void *plan_run(void *item)
{
	struct fresh *f = item;
	if (move_plan(&f->to, f->mover->from, f->m->head->shards))
		f->rc = kv_fail(&f->err, -KV_ENOMEM, "no memory for the order of eviction");
	return NULL;
}

static int fresh_all(struct kvs_server *s, struct mover *x, const struct kept_move *m, struct kv_error *err)
{
	struct fresh *f = x->fresh;
	for (unsigned i = 0; i < m->shards; i++) {
		f[i] = (struct fresh){.m = m, .mover = x, .page = kv_kept_page(m->fresh[i])};
		f[i].rc = fresh_open(s, &f[i], i);
		if (f[i].rc) {
			*err = f[i].err;
			return f[i].rc;
		}
	}
	works_run(plan_run, f, sizeof(f[0]), m->shards);
	for (unsigned i = 0; i < m->shards; i++)
		if (f[i].rc) {
			*err = f[i].err;
			return f[i].rc;
		}
	return 0;
}

/* ---- copies ---- */

static uint64_t part_bytes(const struct kept_move *m)
{
	unsigned shards = m->head->shards;
	uint64_t all = KV_MAX(PART_MIN, m->head->limit_bytes / PART_SHARE * shards);
	return kv_align_up((all + shards - 1) / shards, kv_kept_page(m->former[0]));
}

/* Of the first part, which has to be copied before any memory comes back. Its last value may reach beyond it. */
static uint64_t slack_bytes(const struct mover *x, const struct kept_move *m)
{
	uint64_t page = x->fresh[0].page, slack = page * m->shards;
	for (unsigned i = 0; i < m->head->shards; i++)
		slack += part_bytes(m) + kv_align_up(x->former[i].largest, page);
	return slack;
}

static void less_release(const struct kept_move *m, uint64_t less)
{
	for (unsigned i = 0; i < m->shards; i++)
		kv_kept_release(m->fresh[i], 0, less);
}

/* There are pages for the first part, which may use the first `less` bytes of each file. */
static int slack_check(const struct mover *x, const struct kept_move *m, uint64_t less, struct kv_error *err)
{
	uint64_t slack = slack_bytes(x, m);
	int rc = 0;
	less_release(m, less); /* one page was made by kv_area_adopt_bare */
	for (unsigned i = 0; i < m->shards && rc == 0; i++) {
		uint64_t bytes = KV_MIN(slack, less);
		rc = kv_kept_give(m->fresh[i], m->arena_file, 0, bytes, err);
		slack -= bytes;
	}
	less_release(m, less);
	return rc;
}

/* Pages that the former files will not give back. Without them nothing is copied. */
static int pages_begin(struct mover *x, const struct kept_move *m, struct kv_error *err)
{
	uint64_t back = 0, size = x->fresh[0].area.len_bytes, less;
	int rc = 0;
	for (unsigned i = 0; i < m->head->shards; i++)
		back += m->read[i] ? 0 : kv_kept_bytes(m->former[i]);
	less = kv_align_down(KV_MIN(back / m->shards, size), x->fresh[0].page);
	for (unsigned i = 0; i < m->shards && rc == 0; i++)
		rc = kv_kept_give(m->fresh[i], m->arena_file, less, size, err);
	if (rc == 0)
		rc = slack_check(x, m, less, err);
	if (rc == 0)
		kvs_kept_step("reserved");
	return rc ? kv_fail_more(err, "worker threads or memory have changed, and there is no room for a copy") : 0;
}

/* The former index is not believed from now on. */
static int marks_void(const struct kept_move *m, struct kv_error *err)
{
	const uint64_t unclean = 0;
	const uint8_t *at = (const uint8_t *)&kept_mark_of(NULL, m->head->limit_bytes)->clean;
	for (unsigned i = 0; i < m->head->shards; i++)
		if (pwrite(m->former[i], &unclean, sizeof(unclean), (off_t)(uintptr_t)at) != sizeof(unclean))
			return kv_fail(err, -errno, "the former memory cannot be written: %s", kv_strerror(errno));
	return 0;
}

static void *part_run(void *item)
{
	struct fresh *f = item;
	for (unsigned i = 0; i < f->m->head->shards; i++)
		move_part(&f->to, &f->mover->from[i], &f->at[i], f->end);
	return NULL;
}

static void *finish_run(void *item)
{
	move_finish(&((struct fresh *)item)->to);
	return NULL;
}

static void release(const struct kept_move *m, uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < m->head->shards; i++)
		if (!m->read[i])
			kv_kept_release(m->former[i], from, to);
}

static void copy(struct mover *x, const struct kept_move *m)
{
	uint64_t limit = m->head->limit_bytes, part = part_bytes(m);
	for (unsigned i = 0; i < m->shards; i++)
		for (unsigned k = 0; k < m->head->shards; k++)
			x->fresh[i].at[k] = x->from[k].store.arena.first;
	release(m, kept_bytes(limit, 0), UINT64_MAX >> 1); /* its records for a crash */
	for (uint64_t at = 0; at < limit; at += part) {
		for (unsigned i = 0; i < m->shards; i++)
			x->fresh[i].end = at + part;
		works_run(part_run, x->fresh, sizeof(x->fresh[0]), m->shards);
		release(m, at, at + part);
		kvs_kept_step("copied");
	}
	release(m, 0, UINT64_MAX >> 1);
	works_run(finish_run, x->fresh, sizeof(x->fresh[0]), m->shards);
}

/* ---- the index ---- */

static void *save_run(void *item)
{
	struct fresh *f = item;
	struct keep_writer *w = keep_writer_open(f->out, f->to.shard);
	keep_store(w, &f->store, f->m->head->now_ns);
	keep_writer_close(&w);
	return NULL;
}

static void marks_make(struct mover *x, const struct kept_move *m, const struct keep_head *head)
{
	for (unsigned i = 0; i < m->shards; i++) {
		struct kept_mark *mark = kept_mark_of(x->fresh[i].area.base, m->limit_bytes);
		*mark = *m->mark;
		mark->limit_bytes = m->limit_bytes;
		mark->shard = i;
		mark->shards = m->shards;
		mark->places = m->places;
		mark->clean = 1;
		memcpy(mark->stamp, head->stamp, sizeof(mark->stamp));
	}
}

/* All pages of the new files, and their index. */
static int finish(struct kvs_server *s, struct mover *x, const struct kept_move *m, struct keep_head *head,
		  struct kv_error *err)
{
	struct keep_out *out = NULL;
	int rc = kv_entropy_fill(s->opt.entropy, head->stamp, sizeof(head->stamp));
	if (rc)
		return kv_fail(err, rc, "no entropy for the index's stamp: %s", kv_strerror(rc));
	for (unsigned i = 0; i < m->shards && rc == 0; i++)
		rc = kv_kept_give(m->fresh[i], m->arena_file, 0, x->fresh[i].area.len_bytes, err);
	if (rc == 0)
		rc = keep_create(m->keep, head, &out, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < m->shards; i++)
		x->fresh[i].out = out;
	works_run(save_run, x->fresh, sizeof(x->fresh[0]), m->shards);
	marks_make(x, m, head);
	kvs_kept_step("saved");
	return keep_commit(&out, err);
}

static int move(struct kvs_server *s, struct mover *x, const struct kept_move *m, struct keep_head *head,
		struct kv_error *err)
{
	int rc = formers_open(x, m, err);
	if (rc == 0)
		rc = fresh_all(s, x, m, err);
	if (rc == 0)
		rc = pages_begin(x, m, err);
	if (rc == 0)
		rc = marks_void(m, err);
	if (rc)
		return rc;
	copy(x, m);
	rc = finish(s, x, m, head, err);
	return rc ? kv_fail_more(err, "the values were being copied, and are lost") : 0;
}

int kept_move(struct kvs_server *s, const struct kept_move *m, uint64_t *out_dropped, struct kv_error *err)
{
	struct keep_head head = *m->head;
	struct mover *x = calloc(1, sizeof(*x));
	int rc;
	if (!x)
		return kv_fail(err, -KV_ENOMEM, "no memory to move them");
	head.limit_bytes = m->limit_bytes;
	head.shards = m->shards;
	rc = move(s, x, m, &head, err);
	for (unsigned i = 0; i < m->shards && rc == 0; i++)
		out_dropped[i] = x->fresh[i].to.dropped;
	for (unsigned i = 0; i < m->shards; i++)
		fresh_close(&x->fresh[i]);
	for (unsigned i = 0; i < m->head->shards; i++)
		former_close(&x->former[i], &x->from[i]);
	free(x);
	return rc;
}
