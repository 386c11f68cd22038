/* SPDX-License-Identifier: Apache-2.0 */
/* tier_file.c -- opens what --tier names, and keeps it from harm: another server's, or other data on a disk.
 *
 * A regular file gets all its room at the start, so that writes meet no full disk later. One descriptor per file holds
 * the lock (flock) as long as the server lives; shards have their own descriptors (tier_device.c). */
#include "kvserver/tier/tier_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
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
		return kv_fail(err, rc, "--tier %s: there is no such file; give a size to make one: %s:100G", f->path,
			       f->path);
	case -EACCES:
	case -EPERM:
		return kv_fail(err, rc, "--tier %s: this user may not write there; give it the rights", f->path);
	case -EROFS:
		return kv_fail(err, rc, "--tier %s: the file system is mounted read-only; remount it, or use another",
			       f->path);
	default:
		return kv_fail(err, rc, "--tier %s: %s", f->path, kv_strerror(rc));
	}
}

static uint64_t age_ns(const struct timespec *then)
{
	uint64_t now_ns = kv_wall_now(), then_ns = (uint64_t)then->tv_sec * 1000000000u + (uint64_t)then->tv_nsec;
	return now_ns - KV_MIN(now_ns, then_ns);
}

static int file_open(struct tier_file *f, struct kv_error *err)
{
	struct stat st;
	f->fd = open(f->path, O_RDWR | O_CLOEXEC | (f->bytes ? O_CREAT : 0), 0600);
	if (f->fd < 0)
		return open_failed(f, -errno, err);
	if (fstat(f->fd, &st) < 0)
		return open_failed(f, -errno, err);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return kv_fail(err, -KV_EINVAL, "--tier %s is neither a regular file nor a partition", f->path);
	f->disk = S_ISBLK(st.st_mode);
	f->silent_ns = f->disk ? UINT64_MAX / 2 : age_ns(&st.st_mtim);
	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return kv_fail(err, -KV_EBUSY, "--tier %s is used by another server; give each server its own",
			       f->path);
	return open_failed(f, -errno, err);
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

/* Reserve all of a regular file. */
static int file_reserve(struct tier_file *f, const struct kv_log *log, struct kv_error *err)
{
	struct stat st;
	int rc = fallocate(f->fd, 0, 0, (off_t)f->bytes) < 0 ? errno : 0;
	if (rc == EOPNOTSUPP) /* the file system cannot reserve: see below */
		rc = ftruncate(f->fd, (off_t)f->bytes) < 0 ? errno : 0;
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
	return f->disk ? 0 : file_reserve(f, log, err);
}

/* ---- contents ---- */

/* A disk with other contents is left alone. */
static int file_look(struct tier_file *f, uint64_t *out_seed, struct kv_error *err)
{
	static const uint8_t zeros[TIER_PAGE];
	uint8_t *page = aligned_alloc(TIER_PAGE, TIER_PAGE);
	struct tier_super super = {0};
	ssize_t n = page ? pread(f->fd, page, TIER_PAGE, 0) : -1;
	int rc = n == TIER_PAGE ? tier_super_check(page, &super) : -EIO;
	if (!page)
		return kv_fail(err, -KV_ENOMEM, "no memory to look at --tier %s", f->path);
	if (rc == -EIO)
		rc = kv_fail(err, rc, "--tier %s: its first bytes cannot be read: %s", f->path,
			     n < 0 ? kv_strerror(-errno) : "it ends there");
	else if (rc == -KV_EINVAL && memcmp(page, zeros, TIER_PAGE) != 0)
		rc = kv_fail(err, rc,
			     "--tier %s has other contents, which a tier would destroy; if they are of no use, remove "
			     "the file, or clear the start of the disk: dd if=/dev/zero of=%s bs=4096 count=1",
			     f->path, f->path);
	else
		rc = 0;
	if (!*out_seed)
		*out_seed = super.key_seed;
	free(page);
	return rc;
}

/* Whether reads past the page cache work. */
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

static int one_open(const char *spec, size_t len, const struct kv_log *log, struct tier_files *all,
		    struct kv_error *err)
{
	struct tier_file *f = &all->file[all->count];
	int rc;
	*f = (struct tier_file){.fd = -1};
	all->count++;
	rc = spec_parse(spec, len, f, err);
	if (rc == 0)
		rc = file_open(f, err);
	if (rc == 0)
		rc = file_size(f, log, err);
	if (rc == 0)
		rc = file_look(f, &all->key_seed, err);
	if (rc == 0)
		file_direct(f, log);
	return rc;
}

int tier_files_open(const char *list, const struct kv_log *log, struct tier_files *out, struct kv_error *err)
{
	int rc = 0;
	*out = (struct tier_files){.count = 0};
	for (const char *at = list, *comma = list; rc == 0 && comma; at = comma + 1) {
		comma = strchr(at, ',');
		rc = out->count < TIER_DEVICES_MAX
			     ? one_open(at, comma ? (size_t)(comma - at) : strlen(at), log, out, err)
			     : kv_fail(err, -KV_EINVAL, "--tier: at most %d of them", (int)TIER_DEVICES_MAX);
	}
	if (rc)
		tier_files_close(out);
	return rc;
}

uint64_t tier_files_silent_ns(const struct tier_files *files)
{
	uint64_t silent_ns = 0;
	for (unsigned i = 0; i < files->count; i++)
		silent_ns = KV_MAX(silent_ns, files->file[i].silent_ns);
	return silent_ns;
}

void tier_files_close(struct tier_files *files)
{
	for (unsigned i = 0; i < files->count; i++) {
		if (files->file[i].fd >= 0)
			close(files->file[i].fd);
		free(files->file[i].path);
	}
	files->count = 0;
}
