/* SPDX-License-Identifier: Apache-2.0 */
/* tier_file.c -- opens what --tier names, and keeps it from harm: another server's, or other data on a disk.
 *
 * Contents are looked at before anything is changed. A regular file gets all its room at the start, so that writes meet
 * no full disk later. One descriptor per file holds the lock as long as the server lives: flock, and O_EXCL of a disk,
 * which a mounted one refuses, and a second device node of the same disk. Shards have their own descriptors
 * (tier_device.c). */
#include "kvserver/tier/tier_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- PATH[:SIZE] ---- */

static int spec_parse(const char *spec, size_t len, struct tier_file *f, struct kv_error *err)
{
	char *colon;
	f->path = strdup(spec);
	if (!f->path)
		return kv_fail(err, -KV_ENOMEM, "no memory for --tier");
	f->path[len] = 0;
	colon = strrchr(f->path, ':');
	if (colon && kv_size_parse(colon + 1, &f->bytes) == 0 && f->bytes > 0)
		*colon = 0;
	else if (colon && isdigit((unsigned char)colon[1]) && access(f->path, F_OK) != 0)
		return kv_fail(err, -KV_EINVAL, "--tier %s: '%s' is no size such as 100G", f->path, colon + 1);
	if (f->path[0])
		return 0;
	return kv_fail(err, -KV_EINVAL, "--tier: '%s' has a part without a path; give PATH[:SIZE],...", spec);
}

/* ---- open and lock ---- */

static int open_failed(const struct tier_file *f, int rc, struct kv_error *err)
{
	switch (rc) {
	case -ENOENT:
		return f->bytes ? kv_fail(err, rc, "--tier %s: its folder does not exist; make it first", f->path)
				: kv_fail(err, rc, "--tier %s: there is no such file; give a size to make one: %s:100G",
					  f->path, f->path);
	case -EISDIR:
		return kv_fail(err, rc, "--tier %s is a folder; give a file in it: %s/tier:100G", f->path, f->path);
	case -EACCES:
	case -EPERM:
		return kv_fail(err, rc, "--tier %s: this user may not write there; give it the rights", f->path);
	case -EROFS:
		return kv_fail(err, rc,
			       "--tier %s: the file system is mounted read-only; remount it, use another, or give "
			       "the unit of systemd ReadWritePaths=",
			       f->path);
	case -EBUSY:
		return kv_fail(err, -KV_EBUSY,
			       "--tier %s is in use: it is mounted, a part of another disk, or used by another server",
			       f->path);
	default:
		return kv_fail(err, rc, "--tier %s: %s", f->path, kv_strerror(rc));
	}
}

static int file_lock(const struct tier_file *f, struct kv_error *err)
{
	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return kv_fail(err, -KV_EBUSY,
			       "--tier %s is used by another server, or is listed twice; give each its own", f->path);
	return open_failed(f, -errno, err);
}

static int file_open(struct tier_file *f, bool later, struct kv_error *err)
{
	struct stat st;
	bool disk = stat(f->path, &st) == 0 && S_ISBLK(st.st_mode);
	int how = disk ? (later ? 0 : O_EXCL) : (f->bytes ? O_CREAT : 0);
	f->fd = open(f->path, O_RDWR | O_CLOEXEC | how, 0600);
	if (f->fd < 0)
		return open_failed(f, -errno, err);
	if (fstat(f->fd, &st) < 0)
		return open_failed(f, -errno, err);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return kv_fail(err, -KV_EINVAL, "--tier %s is neither a regular file nor a partition", f->path);
	f->disk = S_ISBLK(st.st_mode);
	return later ? 0 : file_lock(f, err);
}

/* ---- contents ---- */

static ssize_t front_read(int fd, uint8_t *to, size_t len)
{
	size_t got = 0;
	while (got < len) {
		ssize_t n = pread(fd, to + got, len - got, (off_t)got);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static bool blank(const uint8_t *bytes, size_t len)
{
	return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

/* Whether a tier may have these first bytes. Many file systems and disks of a RAID have a first page of zeros. */
static bool front_ours(const uint8_t *front, size_t len, struct tier_super *out)
{
	int rc = len >= TIER_PAGE ? tier_super_check(front, out) : -KV_EINVAL;
	return rc != -KV_EINVAL || blank(front, len) ||
	       (blank(front, TIER_PAGE) && len >= 2 * TIER_PAGE && tier_table_begins(front + TIER_PAGE));
}

/* The record of service in the first shard's range. Of several files the newest one counts. */
static void service_look(const struct tier_file *f, const struct tier_super *super, struct tier_files *all)
{
	enum { BYTES = 2 * TIER_SERVICE_PAGES * TIER_PAGE };
	uint8_t *pages = malloc(BYTES);
	struct tier_service s;
	uint64_t *names;
	if (pages && pread(f->fd, pages, BYTES, TIER_SERVICE_PAGE * TIER_PAGE) == BYTES &&
	    tier_service_get(pages, super->id[0], &s) == 0 && s.served_us > all->served_us &&
	    (names = calloc(s.members + 1, sizeof(*names))) != NULL) {
		memcpy(names, tier_service_names(pages, &s), s.members * sizeof(*names));
		free(all->member);
		all->member = names;
		all->members = s.members;
		all->served_us = s.served_us;
		all->silent_ns = tier_service_age_ns(&s, kv_now(), kv_wall_now() / 1000);
	}
	free(pages);
}

/* The last server ended in doubt: as if it was silent since then. */
static void doubt_look(const uint8_t *front, const struct tier_super *super, struct tier_files *all)
{
	struct tier_table t;
	uint64_t now_ns = kv_wall_now();
	if (tier_table_newest(front, super->id[0], &t) && t.doubt_s)
		all->doubt_ns = KV_MAX(all->doubt_ns, now_ns - KV_MIN(now_ns, t.doubt_s * 1000000000ull));
}

/* A file or disk with other contents is left alone. */
static int file_look(const struct tier_file *f, struct tier_files *all, bool *out_blank, struct kv_error *err)
{
	uint8_t *front = malloc(TIER_FRONT_BYTES);
	ssize_t n = front ? front_read(f->fd, front, TIER_FRONT_BYTES) : 0;
	struct tier_super super = {0};
	int rc = 0;
	if (!front)
		return kv_fail(err, -KV_ENOMEM, "no memory to look at --tier %s", f->path);
	if (n < 0)
		rc = kv_fail(err, (int)n, "--tier %s: its first bytes cannot be read: %s", f->path,
			     kv_strerror((int)n));
	else if (!front_ours(front, (size_t)n, &super))
		rc = kv_fail(err, -KV_EINVAL,
			     "--tier %s has other contents, which a tier would destroy; if they are of no use, remove "
			     "the file, or clear the start of the disk: dd if=/dev/zero of=%s bs=1M count=1",
			     f->path, f->path);
	else if (n == TIER_FRONT_BYTES)
		doubt_look(front, &super, all);
	*out_blank = rc == 0 && blank(front, (size_t)n);
	if (!all->key_seed)
		all->key_seed = super.key_seed;
	if (super.key_seed)
		service_look(f, &super, all);
	free(front);
	return rc;
}

/* ---- room ---- */

static int no_room(const struct tier_file *f, struct kv_error *err)
{
	struct statvfs fs;
	char want[32], left[32];
	uint64_t bytes = fstatvfs(f->fd, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : 0;
	return kv_fail(err, -KV_ELIMIT,
		       "--tier %s: the file system has no room for %s, only %s more; give a smaller size", f->path,
		       kv_size_format(f->bytes, want, sizeof(want)), kv_size_format(bytes, left, sizeof(left)));
}

static int file_reserve(const struct tier_file *f, off_t end, const struct kv_log *log, struct kv_error *err)
{
	struct stat st;
	int rc = fallocate(f->fd, 0, 0, (off_t)f->bytes) < 0 ? errno : 0;
	if (rc == EOPNOTSUPP) /* the file system cannot reserve: see below */
		rc = ftruncate(f->fd, (off_t)f->bytes) < 0 ? errno : 0;
	if (rc && ftruncate(f->fd, end) < 0) /* a part may be reserved, and the disk full */
		rc = errno;
	if (rc == ENOSPC || rc == EDQUOT || rc == EFBIG)
		return no_room(f, err);
	if (rc)
		return kv_fail(err, -rc, "--tier %s: reserving its room: %s", f->path, kv_strerror(-rc));
	if (fstat(f->fd, &st) == 0 && (uint64_t)st.st_blocks * 512 < f->bytes)
		kv_event(log, KV_LOG_WARN,
			 KV_EVENT("tier_room_unsure", KV_FIELD("path", f->path),
				  KV_NUMBER("bytes", (uint64_t)st.st_blocks * 512)),
			 "--tier %s: the file system has reserved less than the file's size; when it is full, the tier "
			 "stops",
			 f->path);
	return 0;
}

static int file_size(struct tier_file *f, const struct kv_log *log, struct kv_error *err)
{
	off_t end = lseek(f->fd, 0, SEEK_END);
	char want[32], has[32];
	if (end < 0)
		return open_failed(f, -errno, err);
	if (f->disk && f->bytes > (uint64_t)end)
		return kv_fail(err, -KV_ELIMIT, "--tier %s has %s, less than the %s asked for", f->path,
			       kv_size_format((uint64_t)end, has, sizeof(has)),
			       kv_size_format(f->bytes, want, sizeof(want)));
	if (!f->bytes)
		f->bytes = (uint64_t)end;
	if (!f->bytes)
		return kv_fail(err, -KV_EINVAL, "--tier %s is empty; give a size: %s:100G", f->path, f->path);
	f->bytes = kv_align_down(f->bytes, TIER_PAGE);
	return f->disk ? 0 : file_reserve(f, end, log, err);
}

/* A new disk: let it know that it is empty, if it has a use for that. Later, segments are written over as a whole. */
static void disk_clear(const struct tier_file *f)
{
	uint64_t range[2] = {0, f->bytes};
	(void)ioctl(f->fd, BLKDISCARD, range);
}

static void file_direct(struct tier_file *f, const struct kv_log *log)
{
	uint8_t *page = aligned_alloc(TIER_PAGE, TIER_PAGE);
	int flags = fcntl(f->fd, F_GETFL);
	f->buffered = !page || flags < 0 || fcntl(f->fd, F_SETFL, flags | O_DIRECT) < 0 ||
		      pread(f->fd, page, TIER_PAGE, 0) != TIER_PAGE;
	free(page);
	if (f->buffered)
		kv_event(log, KV_LOG_WARN, KV_EVENT("tier_buffered", KV_FIELD("path", f->path)),
			 "--tier %s: the file system refuses direct I/O (O_DIRECT), so values pass the kernel's page "
			 "cache, which takes memory and time; a partition, ext4 or xfs does better",
			 f->path);
}

static int one_open(const char *spec, size_t len, bool later, const struct kv_log *log, struct tier_files *all,
		    struct kv_error *err)
{
	struct tier_file *f = &all->file[all->count];
	bool blank_front = false;
	int rc;
	*f = (struct tier_file){.fd = -1, .later = later};
	all->count++;
	rc = spec_parse(spec, len, f, err);
	if (rc == 0)
		rc = file_open(f, later, err);
	if (rc == 0)
		rc = file_look(f, all, &blank_front, err);
	if (rc == 0)
		rc = file_size(f, log, err);
	if (rc == 0 && f->disk && blank_front && !later)
		disk_clear(f);
	if (rc == 0)
		file_direct(f, log);
	return rc;
}

static int list_open(const char *list, bool later, const struct kv_log *log, struct tier_files *out,
		     struct kv_error *err)
{
	int rc = 0;
	for (const char *at = list, *comma = list; rc == 0 && comma; at = comma + 1) {
		comma = strchr(at, ',');
		rc = out->count < TIER_DEVICES_MAX
			     ? one_open(at, comma ? (size_t)(comma - at) : strlen(at), later, log, out, err)
			     : kv_fail(err, -KV_EINVAL, "--tier: at most %d of them", (int)TIER_DEVICES_MAX);
	}
	return rc;
}

int tier_files_open(const struct kv_opt_strings *lists, bool later, const struct kv_log *log, struct tier_files *out,
		    struct kv_error *err)
{
	int rc = 0;
	*out = (struct tier_files){.silent_ns = UINT64_MAX / 2};
	for (unsigned i = 0; rc == 0 && i < lists->count; i++)
		rc = list_open(lists->item[i], later, log, out, err);
	if (rc)
		tier_files_close(out);
	return rc;
}

int tier_files_lock(struct tier_files *files, struct kv_error *err)
{
	int rc = 0;
	for (unsigned i = 0; i < files->count && rc == 0; i++) {
		struct tier_file *f = &files->file[i];
		int fd = f->disk ? open(f->path, O_RDWR | O_CLOEXEC | O_EXCL) : f->fd;
		if (fd < 0)
			return open_failed(f, -errno, err);
		if (f->disk)
			close(f->fd);
		f->fd = fd;
		rc = file_lock(f, err);
	}
	return rc;
}

void tier_files_close(struct tier_files *files)
{
	for (unsigned i = 0; i < files->count; i++) {
		if (files->file[i].fd >= 0)
			close(files->file[i].fd);
		free(files->file[i].path);
	}
	files->count = 0;
	free(files->member);
	files->member = NULL;
}
