/* SPDX-License-Identifier: Apache-2.0 */
/* disk.h -- the place of an NVMe tier: a file, or a block device. */
#ifndef KVRAIL_HOST_DISK_H
#define KVRAIL_HOST_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

enum { KV_DISK_PATH_MAX = 512 };

/* "PATH[:SIZE]" of --tier. */
struct kv_disk_spec {
	char path[KV_DISK_PATH_MAX];
	uint64_t bytes; /* 0: not given */
};

/* kv_disk_parse -- 0, or -KV_EINVAL with a sentence. */
int kv_disk_parse(const char *text, struct kv_disk_spec *out, struct kv_error *err);

struct kv_disk {
	bool device;     /* a block device; else a file that exists or can be made */
	uint64_t bytes;  /* of a device: all; of a file: its blocks and the free ones of its file system */
	char system[16]; /* of a file: "ext4", "xfs", "tmpfs", "overlay", "btrfs", or "another" */
};

/* kv_disk_look -- what is at this path of the machine; opens nothing. A missing file's folder must be there. 0, or a
 * code with a sentence. Thread: any. */
int kv_disk_look(const char *path, struct kv_disk *out, struct kv_error *err);

#endif
