/* SPDX-License-Identifier: Apache-2.0 */
/* keep_file.c -- see keep_file.h. The file is
 *
 *   magic, version, then parts:  u64 sum   u32 kind   u32 count   u64 bytes   entries
 *
 * The sum is of all that follows it in the part, seeded by the number of the part and the file's stamp: a part that is
 * cut, changed, repeated or moved, also from another file, is found. The head's own part has no stamp yet.
 *
 * Invariants: PATH.new is renamed over PATH after the sync, so PATH is complete or as before. The reader takes memory
 * for one part, whatever the file says. */
#include "store/keep_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x3150454b4c52564bull /* "KVRLKEP1" */

enum { VERSION = 1, PATH_CAP = 4096 };

struct file_head {
	uint64_t magic;
	uint32_t version, zero;
};

struct part_head {
	uint64_t sum;
	uint32_t kind, count;
	uint64_t bytes;
};

_Static_assert(sizeof(struct file_head) == 16 && sizeof(struct part_head) == 24, "no padding: all bytes are summed");
_Static_assert(sizeof(struct keep_head) == KEEP_STAMP + 4 * 8 + 8, "no padding");

enum { BUFFER = sizeof(struct part_head) + KEEP_PART_BYTES };

static uint64_t part_sum(const uint8_t *buffer, size_t bytes, uint64_t seed, uint64_t number)
{
	return kv_hash_key(buffer + sizeof(uint64_t), sizeof(struct part_head) - sizeof(uint64_t) + bytes,
			   seed + number);
}

static uint64_t seed_of(const struct keep_head *head)
{
	return kv_get64(head->stamp);
}

/* ---- write ---- */

struct keep_writer {
	int fd, status;
	uint64_t seed, number; /* number: of the part */
	size_t used;           /* bytes of the part's entries */
	enum keep_kind kind;
	uint32_t count;
	char path[PATH_CAP], fresh[PATH_CAP];
	_Alignas(8) uint8_t buffer[BUFFER]; /* entries are written in place */
};

static void bytes_write(struct keep_writer *w, const void *from, size_t len)
{
	const uint8_t *p = from;
	while (w->status == 0 && len > 0) {
		ssize_t n = write(w->fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			w->status = n < 0 ? -errno : -ENOSPC;
		else
			p += n, len -= (size_t)n;
	}
}

static void part_write(struct keep_writer *w)
{
	struct part_head head = {.kind = w->kind, .count = w->count, .bytes = w->used};
	if (w->count == 0)
		return;
	memcpy(w->buffer, &head, sizeof(head));
	head.sum = part_sum(w->buffer, w->used, w->seed, w->number++);
	memcpy(w->buffer, &head.sum, sizeof(head.sum));
	bytes_write(w, w->buffer, sizeof(head) + w->used);
	w->used = 0;
	w->count = 0;
}

void *keep_entry(struct keep_writer *w, enum keep_kind kind, size_t bytes)
{
	void *room;
	KV_ASSERT(bytes <= KEEP_PART_BYTES);
	if (kind != w->kind || w->used + bytes > KEEP_PART_BYTES)
		part_write(w);
	if (w->status)
		return NULL;
	w->kind = kind;
	room = w->buffer + sizeof(struct part_head) + w->used;
	w->used += bytes;
	w->count++;
	return room;
}

static int writer_open(struct keep_writer *w, const char *path)
{
	if (snprintf(w->path, PATH_CAP, "%s", path) >= PATH_CAP ||
	    snprintf(w->fresh, PATH_CAP, "%s.new", path) >= PATH_CAP)
		return -ENAMETOOLONG;
	/* Neither follow nor wait for a planted file. */
	w->fd = open(w->fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return w->fd < 0 ? -errno : 0;
}

int keep_create(const char *path, const struct keep_head *head, struct keep_writer **out, struct kv_error *err)
{
	const struct file_head file = {.magic = MAGIC, .version = VERSION};
	struct keep_writer *w = calloc(1, sizeof(*w));
	int rc = w ? writer_open(w, path) : -ENOMEM;
	void *entry;
	if (rc) {
		free(w);
		return kv_fail(err, rc, "cannot write %.200s.new: %s", path, kv_strerror(rc));
	}
	bytes_write(w, &file, sizeof(file));
	entry = keep_entry(w, KEEP_HEAD, sizeof(*head));
	if (entry)
		memcpy(entry, head, sizeof(*head));
	part_write(w);
	w->seed = seed_of(head);
	*out = w;
	return 0;
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

int keep_commit(struct keep_writer **writer, struct kv_error *err)
{
	struct keep_writer *w = *writer;
	char path[256];
	int rc;
	(void)keep_entry(w, KEEP_END, 0);
	part_write(w);
	rc = w->status;
	if (rc == 0 && fsync(w->fd) < 0)
		rc = -errno;
	if (rc == 0 && rename(w->fresh, w->path) < 0)
		rc = -errno;
	snprintf(path, sizeof(path), "%.200s", w->path);
	if (rc == 0)
		folder_sync(w->path);
	else
		w->status = rc;
	if (rc) {
		keep_abandon(writer);
		return kv_fail(err, rc, "cannot write %s: %s", path, kv_strerror(rc));
	}
	close(w->fd);
	free(w);
	*writer = NULL;
	return 0;
}

void keep_abandon(struct keep_writer **writer)
{
	struct keep_writer *w = *writer;
	if (!w)
		return;
	close(w->fd);
	unlink(w->fresh);
	free(w);
	*writer = NULL;
}

/* ---- read ---- */

struct keep_reader {
	int fd, status;
	uint64_t seed, number;
	char path[PATH_CAP];
	_Alignas(8) uint8_t buffer[BUFFER]; /* entries are read in place */
};

/* Why a reader can go on no more; the first reason stays. */
static int reader_fail(struct keep_reader *r, int rc, const char *why, struct kv_error *err)
{
	r->status = rc;
	return kv_fail(err, rc, "%.200s is not used: %s", r->path, why);
}

int keep_damaged(struct keep_reader *r, const char *what, struct kv_error *err)
{
	char why[128];
	snprintf(why, sizeof(why), "it is damaged (%s)", what);
	return reader_fail(r, -KV_EINVAL, why, err);
}

/* 0, -KV_EINVAL (the file is shorter), or -errno. */
static int bytes_read(struct keep_reader *r, void *to, size_t len)
{
	uint8_t *p = to;
	while (len > 0) {
		ssize_t n = read(r->fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -KV_EINVAL;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int read_fail(struct keep_reader *r, int rc, struct kv_error *err)
{
	return rc == -KV_EINVAL ? keep_damaged(r, "it is too short", err) : reader_fail(r, rc, kv_strerror(rc), err);
}

int keep_part(struct keep_reader *r, struct keep_part *out, struct kv_error *err)
{
	struct part_head head;
	int rc = r->status;
	if (rc)
		return kv_fail(err, rc, "%.200s is not used", r->path);
	rc = bytes_read(r, r->buffer, sizeof(head));
	memcpy(&head, r->buffer, sizeof(head));
	if (rc == 0 && head.bytes > KEEP_PART_BYTES)
		return keep_damaged(r, "a part is too long", err);
	if (rc == 0)
		rc = bytes_read(r, r->buffer + sizeof(head), head.bytes);
	if (rc)
		return read_fail(r, rc, err);
	if (head.sum != part_sum(r->buffer, head.bytes, r->seed, r->number++))
		return keep_damaged(r, "a checksum is wrong", err);
	*out = (struct keep_part){head.kind, head.count, head.bytes, r->buffer + sizeof(head)};
	return 0;
}

static int head_read(struct keep_reader *r, struct keep_head *head, struct kv_error *err)
{
	struct file_head file;
	struct keep_part part;
	int rc = bytes_read(r, &file, sizeof(file));
	if (rc)
		return read_fail(r, rc, err);
	if (file.magic != MAGIC)
		return reader_fail(r, -KV_EINVAL, "it is no index of a kv-server", err);
	if (file.version != VERSION || file.zero)
		return reader_fail(r, -KV_EVERSION, "another release wrote it", err);
	rc = keep_part(r, &part, err);
	if (rc)
		return rc;
	if (part.kind != KEEP_HEAD || part.bytes != sizeof(*head))
		return keep_damaged(r, "it has no head", err);
	memcpy(head, part.data, sizeof(*head));
	r->seed = seed_of(head);
	return 0;
}

int keep_open(const char *path, struct keep_reader **out, struct keep_head *head, struct kv_error *err)
{
	struct keep_reader *r = calloc(1, sizeof(*r));
	struct stat st;
	int rc = 0;
	if (!r)
		return kv_fail(err, -KV_ENOMEM, "no memory to read %.200s", path);
	snprintf(r->path, sizeof(r->path), "%s", path);
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0)
		rc = errno == ENOENT ? -KV_ENOTFOUND : reader_fail(r, -errno, kv_strerror(errno), err);
	else if (fstat(r->fd, &st) < 0 || !S_ISREG(st.st_mode))
		rc = reader_fail(r, -KV_EINVAL, "it is no regular file", err);
	else
		rc = head_read(r, head, err);
	if (rc)
		keep_close(&r);
	*out = r;
	return rc;
}

void keep_close(struct keep_reader **reader)
{
	struct keep_reader *r = *reader;
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r);
	*reader = NULL;
}

int keep_ended(struct keep_reader *r, struct kv_error *err)
{
	struct keep_part part;
	uint8_t more;
	int rc = keep_part(r, &part, err);
	if (rc)
		return rc;
	if (part.kind != KEEP_END || part.bytes)
		return keep_damaged(r, "it has more shards than its head says", err);
	return bytes_read(r, &more, 1) == -KV_EINVAL ? 0 : keep_damaged(r, "it has more than its end", err);
}
