/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c -- see disk.h. */
#include "host/disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "host/proc_files.h"

int kv_disk_parse(const char *text, struct kv_disk_spec *out, struct kv_error *err)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	*out = (struct kv_disk_spec){0};
	if (colon && (kv_size_parse(colon + 1, &out->bytes) < 0 || out->bytes == 0))
		return kv_fail(err, -KV_EINVAL, "'%s': '%s' is no size: use PATH or PATH:SIZE, such as /mnt/tier:500GB",
			       text, colon + 1);
	if (len == 0 || len >= sizeof(out->path))
		return kv_fail(err, -KV_EINVAL, "'%.60s': a path of 1 to %zu bytes is needed", text,
			       sizeof(out->path) - 1);
	memcpy(out->path, text, len);
	return 0;
}

static const char *system_name(long magic)
{
	static const struct {
		long magic;
		const char *name;
	} systems[] = {{0xEF53, "ext4"},
		       {0x58465342, "xfs"},
		       {0x01021994, "tmpfs"},
		       {0x794c7630, "overlay"},
		       {0x9123683E, "btrfs"}};
	for (unsigned i = 0; i < KV_COUNT(systems); i++)
		if (systems[i].magic == magic)
			return systems[i].name;
	return "another";
}

/* The kernel counts sectors of 512 bytes on every device. */
static int device_look(const char *path, dev_t number, struct kv_disk *out, struct kv_error *err)
{
	char line[32];
	uint64_t sectors;
	out->device = true;
	if (!kv_file_line(line, sizeof(line), "/sys/dev/block/%u:%u/size", major(number), minor(number)) ||
	    kv_u64_parse(line, &sectors) < 0)
		return kv_fail(err, -KV_ENOTSUP, "the size of %s is unknown: /sys/dev/block/%u:%u/size has no number",
			       path, major(number), minor(number));
	out->bytes = sectors * 512;
	return 0;
}

int kv_disk_look(const char *path, struct kv_disk *out, struct kv_error *err)
{
	char folder[KV_DISK_PATH_MAX];
	const char *at = path;
	struct stat st;
	struct statfs fs;
	bool there = stat(path, &st) == 0;
	*out = (struct kv_disk){0};
	if (!there && errno != ENOENT)
		return kv_fail(err, -errno, "%s: %s", path, kv_strerror(errno));
	if (there && S_ISBLK(st.st_mode))
		return device_look(path, st.st_rdev, out, err);
	if (there && !S_ISREG(st.st_mode))
		return kv_fail(err, -KV_EINVAL,
			       "%s is neither a file nor a block device: name a file in it, or a partition", path);
	if (!there) {
		char *slash;
		snprintf(folder, sizeof(folder), "%s", path);
		slash = strrchr(folder, '/');
		if (slash)
			slash[slash == folder] = '\0';
		at = slash ? folder : ".";
	}
	if (statfs(at, &fs) != 0)
		return kv_fail(err, -errno, "%s: %s: make the folder first", at, kv_strerror(errno));
	snprintf(out->system, sizeof(out->system), "%s", system_name((long)fs.f_type));
	out->bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize + (there ? (uint64_t)st.st_blocks * 512 : 0);
	return 0;
}
