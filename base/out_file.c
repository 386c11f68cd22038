/* SPDX-License-Identifier: Apache-2.0 */
/* out_file.c -- files that appear whole or not at all.
 *
 * The file is created before the run, so that a wrong path or a full disk costs a second and not an hour, and gets its
 * name only when it is complete and on disk: a reader never finds a part. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM_BYTES (256l << 10)

static int failed(const struct out_file *f, int rc, struct kv_error *err)
{
	return kv_fail(err, rc, "%s %s cannot be written: %s", f->what, f->path, kv_strerror(rc));
}

/* Not every file system can reserve: only a refusal for want of room counts. */
static int reserve(struct out_file *f)
{
	if (fallocate(f->fd, FALLOC_FL_KEEP_SIZE, 0, ROOM_BYTES) == 0)
		return 0;
	return errno == ENOSPC || errno == EDQUOT ? -errno : 0;
}

/* The file beside it that gets its name at the end. mode: of the file that it replaces; 0: there is none. */
static int open_temporary(struct out_file *f, mode_t mode)
{
	int n = snprintf(f->temporary, sizeof(f->temporary), "%s.%d.tmp", f->path, (int)getpid());
	if (n >= 0 && (size_t)n < sizeof(f->temporary))
		f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	else
		errno = ENAMETOOLONG;
	if (f->fd < 0) {
		f->temporary[0] = 0;
		return -errno;
	}
	if (mode && fchmod(f->fd, mode & 07777) < 0)
		return -errno;
	return reserve(f);
}

/* Devices, pipes and terminals are written where they are: renaming over /dev/stdout would replace it. */
static int open_fd(struct out_file *f)
{
	char target[PATH_MAX];
	struct stat st;
	bool there = stat(f->path, &st) == 0;
	if (strcmp(f->path, "-") != 0 && (!there || S_ISREG(st.st_mode))) {
		if (there && realpath(f->path, target)) /* of a link */
			memcpy(f->path, target, sizeof(target));
		return open_temporary(f, there ? st.st_mode : 0);
	}
	f->fd = strcmp(f->path, "-") == 0 ? dup(STDOUT_FILENO) : open(f->path, O_WRONLY | O_CLOEXEC);
	return f->fd < 0 ? -errno : 0;
}

int out_file_open(struct out_file *f, const char *path, const char *what, struct kv_error *err)
{
	int rc;
	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->what = what;
	snprintf(f->path, sizeof(f->path), "%s", path);
	rc = open_fd(f);
	if (rc < 0) {
		failed(f, rc, err);
		out_file_discard(f);
	}
	return rc;
}

int out_file_apart(const char *path, const char *what, const char *input, const char *option, struct kv_error *err)
{
	struct stat a, b;
	if (!path || !input || stat(path, &a) < 0 || stat(input, &b) < 0)
		return 0;
	if (!S_ISREG(a.st_mode) || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return 0;
	return kv_fail(err, -KV_EINVAL, "%s would take the place of %.300s, which %s reads: name another file", what,
		       input, option);
}

void out_file_discard(struct out_file *f)
{
	if (f->fd >= 0 && f->what)
		close(f->fd);
	f->fd = -1;
	if (f->temporary[0])
		unlink(f->temporary);
	f->temporary[0] = 0;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE) /* as with | head: the reader has enough */
			return 0;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* On disk and named, or an error: a full disk may report its error only at fsync or close. The file gives back the room
 * reserved beyond its end. */
static int finish(struct out_file *f, uint64_t len)
{
	int rc = 0;
	if (f->temporary[0] && (ftruncate(f->fd, (off_t)len) < 0 || fsync(f->fd) < 0))
		rc = -errno;
	if (close(f->fd) < 0 && rc == 0)
		rc = -errno;
	f->fd = -1;
	if (rc == 0 && f->temporary[0] && rename(f->temporary, f->path) < 0)
		rc = -errno;
	if (rc == 0)
		f->temporary[0] = 0;
	return rc;
}

int out_file_written(struct out_file *f, uint64_t len, struct kv_error *err)
{
	int rc = finish(f, len);
	if (rc < 0)
		failed(f, rc, err);
	out_file_discard(f);
	return rc;
}

static int ended(struct out_file *f, int rc, uint64_t len, struct kv_error *err)
{
	if (rc == 0)
		return out_file_written(f, len, err);
	failed(f, rc, err);
	out_file_discard(f);
	return rc;
}

int out_file_write(struct out_file *f, const void *data, size_t len, struct kv_error *err)
{
	return ended(f, data ? write_all(f->fd, data, len) : -KV_ENOMEM, len, err);
}

int out_file_write_line(struct out_file *f, const char *text, struct kv_error *err)
{
	size_t len = text ? strlen(text) : 0;
	int rc = text ? write_all(f->fd, text, len) : -KV_ENOMEM;
	return ended(f, rc == 0 ? write_all(f->fd, "\n", 1) : rc, len + 1, err);
}
