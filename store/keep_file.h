/* SPDX-License-Identifier: Apache-2.0 */
/* keep_file.h -- the file of a kept store: parts of bounded size, each with a checksum that also covers its place. */
#ifndef KVRAIL_STORE_KEEP_FILE_H
#define KVRAIL_STORE_KEEP_FILE_H

#include "base/base.h"

enum {
	KEEP_STAMP = 16,          /* bytes */
	KEEP_PART_BYTES = 1 << 20 /* of a part's entries, at most */
};

/* A file has one KEEP_HEAD first and one KEEP_END last. Between them are the parts of each shard: KEEP_SHARD, then none
 * or several of each kind, up to KEEP_SHARD_END. Parts of different shards alternate as their threads wrote them. */
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

struct keep_out;
struct keep_writer; /* the parts of one shard in it; each may have a thread of its own */

/* keep_create -- begin a file beside path, readable by its owner alone. 0, or a code with *err. */
int keep_create(const char *path, const struct keep_head *head, struct keep_out **out, struct kv_error *err);

/* keep_writer_open -- for a shard's parts; NULL: no memory, and keep_commit fails. keep_writer_close -- its parts are
 * complete; NULL is accepted. keep_entry -- room for an entry, bytes of one kind, to be filled before the next call;
 * NULL: an error, which keep_commit returns. w: or NULL. bytes: at most KEEP_PART_BYTES. */
struct keep_writer *keep_writer_open(struct keep_out *out, uint32_t shard);
void *keep_entry(struct keep_writer *w, enum keep_kind kind, size_t bytes);
void keep_writer_close(struct keep_writer **w);

/* keep_commit -- all writers are closed: complete the file, sync it, and let it replace path. 0, or a code with *err:
 * path is as before. *out becomes NULL in both cases. keep_abandon -- remove the incomplete file; NULL is accepted. */
int keep_commit(struct keep_out **out, struct kv_error *err);
void keep_abandon(struct keep_out **out);

struct keep_in;
struct keep_reader; /* the parts of one shard in it; each may have a thread of its own */

/* keep_open -- read the head of a file, and check that it has its end. 0; -KV_ENOTFOUND: no file; or a code with *err:
 * unreadable, of another user, damaged, or of another release. */
int keep_open(const char *path, struct keep_in **out, struct keep_head *head, struct kv_error *err);
void keep_close(struct keep_in **in); /* after its readers; NULL is accepted */

/* keep_bytes -- of the file: it has no more entries than fit. */
uint64_t keep_bytes(const struct keep_in *in);

/* keep_reader_open -- for a shard's parts. 0, or -KV_ENOMEM with *err. */
int keep_reader_open(struct keep_in *in, uint32_t shard, struct keep_reader **out, struct kv_error *err);
void keep_reader_close(struct keep_reader **r); /* NULL is accepted */
const struct keep_in *keep_file_of(const struct keep_reader *r);

/* A part as read: valid until the next keep_part. */
struct keep_part {
	enum keep_kind kind;
	size_t bytes;
	const uint8_t *data;
};

/* keep_part -- the shard's next part, with the right checksum. 0, or a code with *err; every later call fails likewise.
 */
int keep_part(struct keep_reader *r, struct keep_part *out, struct kv_error *err);

/* keep_damaged -- for readers of parts: the content is impossible. Returns -KV_EINVAL with *err; later calls fail. */
int keep_damaged(struct keep_reader *r, const char *what, struct kv_error *err);

#endif
