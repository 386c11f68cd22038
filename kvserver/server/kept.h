/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h -- the memory of a server that outlives its process, and its index in a file: the part of the whole server
 * (kvserver/shard/kept.h has a shard's). The thread that makes and ends the server, unless a comment says otherwise. */
#ifndef KVRAIL_KVSERVER_SERVER_KEPT_H
#define KVRAIL_KVSERVER_SERVER_KEPT_H

#include "base/base.h"

struct keep_head;
struct keep_in;
struct kept_mark;
struct kept_options;
struct kvs_server;

/* kept_prepare -- before the shards are made: find the memory and the file, and set the seed that the file names. With
 * kvs_options.kept. 0, or a code with *err. kept_of_shard -- the options of a shard; NULL: nothing is kept. */
int kept_prepare(struct kvs_server *s, struct kv_error *err);
const struct kept_options *kept_of_shard(const struct kvs_server *s, unsigned shard);

/* kept_made -- the shards are made: remember their memory, also with the service manager. kept_restore -- before the
 * loops turn: fill the shards from the file; an unusable one is logged. 0; -KV_EBUSY with *err: the memory is in use.
 */
void kept_made(struct kvs_server *s);
int kept_restore(struct kvs_server *s, struct kv_error *err);

/* A move of values to other worker threads, or to less memory. */
struct kept_move {
	struct keep_in *file; /* of the former server */
	const struct keep_head *head;
	const int *former;            /* its memory */
	const bool *read;             /* clients of a former server read this one of it, so it stays */
	const struct kept_mark *mark; /* one of its marks */
	const int *fresh;             /* files of kv_kept_make for this server's memory */
	const char *keep, *arena_file;
	uint64_t limit_bytes, places; /* of each shard */
	unsigned shards;
	uint64_t passed_ns; /* since the former server ended: values whose time is over stay behind */
};

/* kept_move -- copy the values to the new files, which then have marks, and replace the index. The former files give
 * back their pages. 0, and the values that each shard left out; or a code with *err: nobody believes the former index
 * any more, or all is as before. */
int kept_move(struct kvs_server *s, const struct kept_move *m, uint64_t *out_dropped, struct kv_error *err);

/* kept_former_died -- whether the last server that had the memory did not end in order. kept_handed -- whether a
 * running server still has it, until kept_restore. */
bool kept_former_died(const struct kvs_server *s);
bool kept_handed(const struct kvs_server *s);

/* kept_begin -- the server is about to serve: the file is of no use any more, and removed. Control loop. */
void kept_begin(struct kvs_server *s);

#endif
