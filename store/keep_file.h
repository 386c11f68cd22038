/* SPDX-License-Identifier: Apache-2.0 */
/* keep_file.h -- the file of a kept store: parts of bounded size, each with a checksum that also covers its place. */
#ifndef KVRAIL_STORE_KEEP_FILE_H
#define KVRAIL_STORE_KEEP_FILE_H

#include "base/base.h"

enum {
	KEEP_STAMP = 16,          /* bytes */
	KEEP_PART_BYTES = 1 << 20 /* of a part's entries, at most */
};

/* The order in a file: one KEEP_HEAD; for each shard KEEP_SHARD and its parts, none of them or several of each kind, up
 * to KEEP_SHARD_END; then one KEEP_END. */
enum keep_kind {
	KEEP_HEAD = 1,
	KEEP_SHARD,
	KEEP_SPACES,
	KEEP_BLOCKS,
	KEEP_TOMBS,
	KEEP_GHOSTS,
	KEEP_SHARD_END,
	KEEP_END,
};

/* The first part: the entry of KEEP_HEAD. All bytes are set; the machine's byte order. */
struct keep_head {
	uint8_t stamp[KEEP_STAMP]; /* random, for each file; the arenas have the same */
	uint64_t limit_bytes;      /* of a shard's arena */
	uint64_t digest_seed;
	uint64_t now_ns, wall_ns; /* the shards' clock and the time since 1970 when the file was made */
	uint32_t shards, zero;
};

struct keep_writer;
struct keep_reader;

/* keep_create -- begin a file beside path, readable by its owner alone. 0, or a code with *err. */
int keep_create(const char *path, const struct keep_head *head, struct keep_writer **out, struct kv_error *err);

/* keep_entry -- room for an entry, bytes of one kind, to be filled before the next call; NULL: an error, which
 * keep_commit returns. bytes: at most KEEP_PART_BYTES. */
void *keep_entry(struct keep_writer *w, enum keep_kind kind, size_t bytes);

/* keep_commit -- complete the file, sync it, and let it replace path. 0, or a code with *err: path is as before. *w
 * becomes NULL in both cases. keep_abandon -- remove the incomplete file; NULL is accepted. */
int keep_commit(struct keep_writer **w, struct kv_error *err);
void keep_abandon(struct keep_writer **w);

/* keep_open -- read the head of a file. 0; -KV_ENOTFOUND: no file; or a code with *err: unreadable, damaged, or of
 * another release. */
int keep_open(const char *path, struct keep_reader **out, struct keep_head *head, struct kv_error *err);
void keep_close(struct keep_reader **r); /* NULL is accepted */

/* A part as read: valid until the next keep_part. */
struct keep_part {
	enum keep_kind kind;
	uint32_t count; /* entries */
	size_t bytes;
	const uint8_t *data;
};

/* keep_part -- the next part, with the right checksum. 0, or a code with *err; every later call fails likewise. */
int keep_part(struct keep_reader *r, struct keep_part *out, struct kv_error *err);

/* keep_ended -- after the last shard: whether the file ends here, as it should. 0, or a code with *err. */
int keep_ended(struct keep_reader *r, struct kv_error *err);

/* keep_damaged -- for readers of parts: the content is impossible. Returns -KV_EINVAL with *err; later calls fail. */
int keep_damaged(struct keep_reader *r, const char *what, struct kv_error *err);

#endif
