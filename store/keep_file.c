/* SPDX-License-Identifier: Apache-2.0 */
/* keep_file.c -- see keep_file.h. The file is
 *
 *   magic, version, then parts:  u64 sum   u32 kind   u32 shard   u64 bytes   entries
 *
 * The sum is of all that follows it in the part, seeded by the shard, the number of the part among the shard's, and the
 * file's stamp: a part that is cut, changed, repeated or moved, also from another file, is found. KEEP_END has the
 * number of parts.
 *
 * Threads write and read the parts of different shards at once: a writer reserves the place of a part, a reader passes
 * the parts of others by their heads. Invariants: PATH.new is renamed over PATH after the sync, so PATH is complete or
 * as before. A reader takes memory for one part, whatever the file says. */
#include "store/keep_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x3150454b4c52564bull /* "KVRLKEP1" */
#define WHOLE UINT32_MAX            /* instead of a shard: of the parts of the whole file */

enum { VERSION = 2, PATH_CAP = 4096 };

struct file_head {
	uint64_t magic;
	uint32_t version, zero;
};

struct part_head {
	uint64_t sum;
	uint32_t kind, shard;
	uint64_t bytes;
};

_Static_assert(sizeof(struct file_head) == 16 && sizeof(struct part_head) == 24, "no padding: all bytes are summed");
_Static_assert(sizeof(struct keep_head) == KEEP_STAMP + 4 * 8 + 8, "no padding");

/* Entries are written and read in place. */
struct part {
	struct part_head head;
	_Alignas(8) uint8_t entries[KEEP_PART_BYTES];
};

/* A part of the whole file. */
struct small_part {
	struct part_head head;
	_Alignas(8) uint8_t entries[sizeof(struct keep_head)];
};

static uint64_t part_sum(const struct part_head *head, uint64_t seed, uint64_t number)
{
	return kv_hash_key((const uint8_t *)head + sizeof(head->sum), sizeof(*head) - sizeof(head->sum) + head->bytes,
			   seed + number + ((uint64_t)head->shard << 32));
}

static uint64_t seed_of(const struct keep_head *head)
{
	return kv_get64(head->stamp);
}

/* ---- write ---- */

struct keep_out {
	int fd;
	_Atomic int status; /* the first error */
	uint64_t seed;
	_Atomic uint64_t end, parts; /* the place of the next part; parts so far */
	char path[PATH_CAP], fresh[PATH_CAP];
};

struct keep_writer {
	struct keep_out *out;
	uint64_t number; /* of the part */
	struct part part;
};

static void out_fail(struct keep_out *o, int rc)
{
	int none = 0;
	atomic_compare_exchange_strong(&o->status, &none, rc);
}

static void bytes_write(struct keep_out *o, const void *from, size_t len)
{
	const uint8_t *p = from;
	uint64_t at = atomic_fetch_add(&o->end, len);
	while (atomic_load(&o->status) == 0 && len > 0) {
		ssize_t n = pwrite(o->fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			out_fail(o, n < 0 ? -errno : -ENOSPC);
		else
			p += n, at += (uint64_t)n, len -= (size_t)n;
	}
}

static void part_write(struct keep_out *o, struct part_head *head, uint64_t seed, uint64_t number)
{
	head->sum = part_sum(head, seed, number);
	atomic_fetch_add(&o->parts, 1);
	bytes_write(o, head, sizeof(*head) + head->bytes);
}

static int out_open(struct keep_out *o, const char *path)
{
	if (snprintf(o->path, PATH_CAP, "%s", path) >= PATH_CAP ||
	    snprintf(o->fresh, PATH_CAP, "%s.new", path) >= PATH_CAP)
		return -ENAMETOOLONG;
	/* A file that is there may be another user's, who would read and change the index. */
	if (unlink(o->fresh) < 0 && errno != ENOENT)
		return -errno;
	o->fd = open(o->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return o->fd < 0 ? -errno : 0;
}

int keep_create(const char *path, const struct keep_head *head, struct keep_out **out, struct kv_error *err)
{
	const struct file_head file = {.magic = MAGIC, .version = VERSION};
	struct small_part first = {.head = {.kind = KEEP_HEAD, .shard = WHOLE, .bytes = sizeof(*head)}};
	struct keep_out *o = calloc(1, sizeof(*o));
	int rc = o ? out_open(o, path) : -ENOMEM;
	if (rc) {
		free(o);
		return kv_fail(err, rc, "cannot write %.200s.new: %s", path, kv_strerror(rc));
	}
	bytes_write(o, &file, sizeof(file));
	memcpy(first.entries, head, sizeof(*head));
	part_write(o, &first.head, 0, 0);
	o->seed = seed_of(head);
	*out = o;
	return 0;
}

struct keep_writer *keep_writer_open(struct keep_out *o, uint32_t shard)
{
	struct keep_writer *w = calloc(1, sizeof(*w));
	if (!w) {
		out_fail(o, -ENOMEM);
		return NULL;
	}
	w->out = o;
	w->part.head.shard = shard;
	return w;
}

static void writer_flush(struct keep_writer *w)
{
	if (w->part.head.kind)
		part_write(w->out, &w->part.head, w->out->seed, w->number++);
	w->part.head.kind = 0;
	w->part.head.bytes = 0;
}

void *keep_entry(struct keep_writer *w, enum keep_kind kind, size_t bytes)
{
	void *room;
	KV_ASSERT(bytes <= KEEP_PART_BYTES);
	if (!w)
		return NULL;
	if (kind != w->part.head.kind || w->part.head.bytes + bytes > KEEP_PART_BYTES)
		writer_flush(w);
	if (atomic_load(&w->out->status))
		return NULL;
	w->part.head.kind = kind;
	room = w->part.entries + w->part.head.bytes;
	w->part.head.bytes += bytes;
	return room;
}

void keep_writer_close(struct keep_writer **writer)
{
	struct keep_writer *w = *writer;
	if (!w)
		return;
	(void)keep_entry(w, KEEP_SHARD_END, 0);
	writer_flush(w);
	free(w);
	*writer = NULL;
}

/* The name of a renamed file reaches the disk with its folder. Without it a crash leaves the former file. */
static void folder_sync(const char *path)
{
	char folder[PATH_CAP];
	const char *slash = strrchr(path, '/');
	int fd;
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)KV_MAX(slash - path, (ptrdiff_t)1) : 1,
		 slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}

static int out_finish(struct keep_out *o)
{
	struct small_part last = {.head = {.kind = KEEP_END, .shard = WHOLE, .bytes = sizeof(uint64_t)}};
	uint64_t parts = atomic_load(&o->parts);
	memcpy(last.entries, &parts, sizeof(parts));
	part_write(o, &last.head, o->seed, 1);
	if (atomic_load(&o->status))
		return atomic_load(&o->status);
	if (fsync(o->fd) < 0 || rename(o->fresh, o->path) < 0)
		return -errno;
	folder_sync(o->path);
	return 0;
}

int keep_commit(struct keep_out **out, struct kv_error *err)
{
	struct keep_out *o = *out;
	int rc = out_finish(o);
	if (rc) {
		kv_fail(err, rc, "cannot write %.200s: %s", o->path, kv_strerror(rc));
		keep_abandon(out);
		return rc;
	}
	close(o->fd);
	free(o);
	*out = NULL;
	return 0;
}

void keep_abandon(struct keep_out **out)
{
	struct keep_out *o = *out;
	if (!o)
		return;
	close(o->fd);
	unlink(o->fresh);
	free(o);
	*out = NULL;
}

/* ---- read ---- */

struct keep_in {
	int fd;
	uint64_t seed, bytes;
	char path[PATH_CAP];
};

struct keep_reader {
	const struct keep_in *in;
	int status;
	uint32_t shard;
	uint64_t at, number;
	struct part part;
};

static int in_fail(const struct keep_in *in, int rc, const char *why, struct kv_error *err)
{
	return kv_fail(err, rc, "%.200s is not used: %s", in->path, why);
}

static int damaged(const struct keep_in *in, const char *what, struct kv_error *err)
{
	char why[128];
	snprintf(why, sizeof(why), "it is damaged (%s)", what);
	return in_fail(in, -KV_EINVAL, why, err);
}

int keep_damaged(struct keep_reader *r, const char *what, struct kv_error *err)
{
	r->status = -KV_EINVAL;
	return damaged(r->in, what, err);
}

static int bytes_read(const struct keep_in *in, uint64_t at, void *to, size_t len, struct kv_error *err)
{
	uint8_t *p = to;
	while (len > 0) {
		ssize_t n = pread(in->fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return in_fail(in, -errno, kv_strerror(errno), err);
		if (n == 0)
			return damaged(in, "it is too short", err);
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int part_head(const struct keep_in *in, uint64_t *at, struct part_head *head, struct kv_error *err)
{
	int rc = bytes_read(in, *at, head, sizeof(*head), err);
	if (rc)
		return rc;
	if (head->bytes > KEEP_PART_BYTES)
		return damaged(in, "a part is too long", err);
	*at += sizeof(*head) + head->bytes;
	return 0;
}

static int part_body(const struct keep_in *in, uint64_t end, struct part_head *head, uint64_t seed, uint64_t number,
		     struct kv_error *err)
{
	int rc = bytes_read(in, end - head->bytes, head + 1, head->bytes, err);
	if (rc)
		return rc;
	return head->sum == part_sum(head, seed, number) ? 0 : damaged(in, "a checksum is wrong", err);
}

static int whole_part(const struct keep_in *in, uint64_t *at, enum keep_kind kind, size_t bytes, uint64_t number,
		      struct small_part *out, struct kv_error *err)
{
	int rc = part_head(in, at, &out->head, err);
	if (rc)
		return rc;
	if (out->head.kind != kind || out->head.shard != WHOLE || out->head.bytes != bytes)
		return damaged(in, kind == KEEP_HEAD ? "it has no head" : "it has no end", err);
	return part_body(in, *at, &out->head, in->seed, number, err);
}

static int end_check(const struct keep_in *in, uint64_t at, uint32_t shards, struct kv_error *err)
{
	struct part_head head = {.shard = 0};
	struct small_part last;
	uint64_t parts = 1, next = at;
	int rc = 0;
	while (rc == 0 && (rc = part_head(in, &next, &head, err)) == 0 && head.shard < shards) {
		parts++;
		at = next;
	}
	if (rc == 0)
		rc = whole_part(in, &at, KEEP_END, sizeof(parts), 1, &last, err);
	if (rc)
		return rc;
	return kv_get64(last.entries) == parts && at == in->bytes ? 0 : damaged(in, "it has more than its end", err);
}

static int head_read(struct keep_in *in, struct keep_head *head, struct kv_error *err)
{
	struct file_head file;
	struct small_part first;
	uint64_t at = sizeof(file);
	int rc = bytes_read(in, 0, &file, sizeof(file), err);
	if (rc)
		return rc;
	if (file.magic != MAGIC)
		return in_fail(in, -KV_EINVAL, "it is no index of a kv-server", err);
	if (file.version != VERSION || file.zero)
		return in_fail(in, -KV_EVERSION, "another release wrote it", err);
	rc = whole_part(in, &at, KEEP_HEAD, sizeof(*head), 0, &first, err);
	if (rc)
		return rc;
	memcpy(head, first.entries, sizeof(*head));
	in->seed = seed_of(head);
	return end_check(in, at, head->shards, err);
}

int keep_open(const char *path, struct keep_in **out, struct keep_head *head, struct kv_error *err)
{
	struct keep_in *in = calloc(1, sizeof(*in));
	struct stat st = {.st_size = 0};
	int rc = 0;
	if (!in)
		return kv_fail(err, -KV_ENOMEM, "no memory to read %.200s", path);
	snprintf(in->path, sizeof(in->path), "%s", path);
	in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (in->fd < 0)
		rc = errno == ENOENT ? -KV_ENOTFOUND : in_fail(in, -errno, kv_strerror(errno), err);
	else if (fstat(in->fd, &st) < 0 || !S_ISREG(st.st_mode))
		rc = in_fail(in, -KV_EINVAL, "it is no regular file", err);
	else if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		rc = in_fail(in, -KV_EDENIED, "another user owns it or may write to it", err);
	in->bytes = (uint64_t)st.st_size;
	if (rc == 0)
		rc = head_read(in, head, err);
	if (rc)
		keep_close(&in);
	*out = in;
	return rc;
}

void keep_close(struct keep_in **file)
{
	struct keep_in *in = *file;
	if (!in)
		return;
	if (in->fd >= 0)
		close(in->fd);
	free(in);
	*file = NULL;
}

uint64_t keep_bytes(const struct keep_in *in)
{
	return in->bytes;
}

int keep_reader_open(struct keep_in *in, uint32_t shard, struct keep_reader **out, struct kv_error *err)
{
	struct keep_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return in_fail(in, -KV_ENOMEM, "no memory to read it", err);
	r->in = in;
	r->shard = shard;
	r->at = sizeof(struct file_head);
	*out = r;
	return 0;
}

void keep_reader_close(struct keep_reader **r)
{
	free(*r);
	*r = NULL;
}

const struct keep_in *keep_file_of(const struct keep_reader *r)
{
	return r->in;
}

int keep_part(struct keep_reader *r, struct keep_part *out, struct kv_error *err)
{
	struct part_head *head = &r->part.head;
	int rc = r->status;
	if (rc)
		return in_fail(r->in, rc, "it is damaged", err);
	do {
		rc = part_head(r->in, &r->at, head, err);
		if (rc == 0 && head->kind == KEEP_END)
			rc = damaged(r->in, "a shard has no end", err);
	} while (rc == 0 && head->shard != r->shard);
	if (rc == 0)
		rc = part_body(r->in, r->at, head, r->in->seed, r->number++, err);
	r->status = rc;
	if (rc == 0)
		*out = (struct keep_part){head->kind, head->bytes, r->part.entries};
	return rc;
}
