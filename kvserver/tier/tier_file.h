/* SPDX-License-Identifier: Apache-2.0 */
/* tier_file.h -- the files and partitions of --tier: opened, locked and sized once for all shards. */
#ifndef KVRAIL_KVSERVER_TIER_TIER_FILE_H
#define KVRAIL_KVSERVER_TIER_TIER_FILE_H

#include "base/base.h"
#include "store/store.h"

struct loop;

/* One of --tier. */
struct tier_file {
	char *path;
	uint64_t bytes;
	int fd; /* its lock */
	bool disk;
	bool buffered; /* the file system refuses O_DIRECT */
	bool later;    /* another server has it still */
};

struct tier_files {
	struct tier_file file[TIER_DEVICES_MAX];
	unsigned count;
	uint64_t key_seed; /* of the server that wrote the first one; 0: it is new */
	/* Of the newest record of service: how long ago that server was seen alive (UINT64_MAX / 2: unknown), and the
	 * names of its cluster's members (tier_member_name). */
	uint64_t silent_ns, served_us;
	uint64_t doubt_ns; /* since the last server began to wait for verdicts, if it still did at its end; else 0 */
	uint64_t *member;
	uint32_t members;
};

/* tier_files_open -- lists: "PATH[:SIZE]" each, with commas between them; without any there are no files. Creates and
 * reserves files of a SIZE, takes whole partitions. Blocks. later: another server has them still; nothing is written
 * before tier_files_lock. 0, or a code with *err, one sentence: -KV_EINVAL (not to be understood, no SIZE, too small,
 * or no file and no partition; or it has other contents), -KV_EBUSY (another server uses it, or it is mounted),
 * -KV_ELIMIT (not enough room), -errno. tier_files_lock -- 0 or a code, likewise: from now on they are ours.
 * tier_files_close -- also after a failure. */
int tier_files_open(const struct kv_opt_strings *lists, bool later, const struct kv_log *log, struct tier_files *out,
		    struct kv_error *err);
int tier_files_lock(struct tier_files *files, struct kv_error *err);
void tier_files_close(struct tier_files *files);

/* tier_device_open -- a shard's part of a file: the shard-th of `shards` equal parts. Transfers run on the loop.
 * tier_device_close -- no transfer is in flight. NULL is accepted. */
int tier_device_open(const struct tier_file *file, unsigned shard, unsigned shards, struct loop *loop,
		     struct tier_device **out, struct kv_error *err);
void tier_device_close(struct tier_device **device);

#endif
