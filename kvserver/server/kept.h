/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h -- the memory of a server that outlives its process, and its index in a file: the part of the whole server
 * (kvserver/shard/kept.h has a shard's). The thread that makes and ends the server, unless a comment says otherwise. */
#ifndef KVRAIL_KVSERVER_SERVER_KEPT_H
#define KVRAIL_KVSERVER_SERVER_KEPT_H

#include "base/base.h"

struct keep_head;
struct keep_in;
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

/* kept_move -- the file is of a server with other worker threads or more memory, which was in these files: copy its
 * values to the shards (kept_move.c). 0, or a code with *err: none is copied. */
int kept_move(struct kvs_server *s, struct keep_in *file, const struct keep_head *head, const int *fd, uint64_t wall_ns,
	      struct kv_error *err);

/* kept_former_died -- whether the last server that had the memory did not end in order. kept_handed -- whether a
 * running server still has it, until kept_restore. */
bool kept_former_died(const struct kvs_server *s);
bool kept_handed(const struct kvs_server *s);

/* kept_begin -- the server is about to serve: the file is of no use any more, and removed. Control loop. */
void kept_begin(struct kvs_server *s);

#endif
