/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c -- see kept.h.
 *
 *   mapped --restore--> filled --begin--> serving --save, mark--> clean
 *             (or not: empty)
 *
 * Invariant: memory is marked clean only while no server uses it, and its values are as the file with that stamp says.
 * So a crash at any point, a file of another time, and memory of another server leave an empty store. */
#include "kvserver/shard/kept.h"

#include <unistd.h>

#include "kvserver/shard/private.h"
#include "kvserver/shard/shard.h"

#define MARK_MAGIC 0x314b52414d4c564bull /* "KVLMARK1" */

enum { MARK_ALIGN = 4096 };

uint64_t kept_bytes(uint64_t limit_bytes)
{
	return kv_align_up(limit_bytes, MARK_ALIGN) + MARK_ALIGN;
}

struct kept_mark *kept_mark_of(void *base, uint64_t limit_bytes)
{
	return (struct kept_mark *)(void *)((uint8_t *)base + kv_align_up(limit_bytes, MARK_ALIGN));
}

static struct kept_mark *mark_of(const struct shard *s)
{
	return kept_mark_of(s->area.base, s->opt.memory_bytes);
}

int shard_kept_map(struct shard *s, struct kv_error *err)
{
	uint64_t bytes = kept_bytes(s->opt.memory_bytes);
	int fd = s->opt.kept->fd, rc;
	if (fd < 0)
		return kv_area_map_kept(bytes, s->place.node, &s->area, err);
	fd = dup(fd);
	if (fd < 0)
		return kv_fail(err, -KV_ELIMIT, "no descriptor for kept memory: raise the limit of open files");
	rc = kv_area_adopt(fd, bytes, s->place.node, &s->area, err);
	if (rc)
		close(fd);
	return rc;
}

static int mark_check(const struct shard *s, const struct keep_head *head, struct kv_error *err)
{
	const struct kept_mark *m = mark_of(s);
	if (m->magic == MARK_MAGIC && m->clean == 1 && memcmp(m->stamp, head->stamp, KEEP_STAMP) == 0 &&
	    m->limit_bytes == s->opt.memory_bytes && m->shard == s->opt.index && m->shards == s->opt.shards)
		return 0;
	return kv_fail(err, -KV_EINVAL, m->magic ? "the memory is not as the index describes it: the server did not "
						   "end in order, or the index is from another time"
						 : "the memory is new");
}

int shard_kept_restore(struct shard *s, struct keep_reader *r, const struct keep_head *head, uint64_t wall_ns,
		       struct kv_error *err)
{
	struct keep_clock clock = keep_clock_of(head, loop_now(s->loop), wall_ns);
	struct kv_error again;
	int rc = mark_check(s, head, err);
	if (rc)
		return rc;
	rc = keep_restore(r, &clock, &s->store, &s->kept.rest, err);
	if (rc == 0)
		return 0;
	shard_kept_end(s);
	pins_drop_all(&s->store);
	store_fini(&s->store);
	if (shard_store(s, &again))
		*err = again; /* without an index there is no shard: its caller ends it */
	return rc;
}

void shard_kept_begin(struct shard *s)
{
	struct kept_mark *m = mark_of(s);
	m->clean = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*m = (struct kept_mark){.magic = MARK_MAGIC,
				.limit_bytes = s->opt.memory_bytes,
				.generation = s->opt.kept->generation,
				.shard = s->opt.index,
				.shards = s->opt.shards};
}

void shard_kept_save(struct shard *s, struct keep_writer *w)
{
	KV_ASSERT(!s->te);
	s->opt.ops->clear(s);
	keep_store(w, &s->store, loop_now(s->loop));
}

void shard_kept_mark(struct shard *s, const uint8_t stamp[KEEP_STAMP])
{
	struct kept_mark *m = mark_of(s);
	memcpy(m->stamp, stamp, KEEP_STAMP);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	m->clean = 1;
}

void shard_kept_tick(struct shard *s, uint64_t now_ns)
{
	struct keep_rest *rest = &s->kept.rest;
	keep_rest_tick(&s->store, rest, now_ns);
	if (rest->held_count && !kv_kept_read(s->area.fd, s->opt.kept->generation))
		keep_rest_held_end(&s->store, rest);
}

void shard_kept_end(struct shard *s)
{
	keep_rest_end(&s->store, &s->kept.rest);
	s->kept.rest = (struct keep_rest){0};
}
