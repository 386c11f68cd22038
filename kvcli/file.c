/* SPDX-License-Identifier: Apache-2.0 */
/* file.c -- values from and to files.
 *
 * Invariant: a get that fails half-way, or meets a full disk, leaves the old file as it was. */
#include "kvcli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *path, const char *what, struct kv_error *err)
{
	int code = -errno;
	return kv_fail(err, code, "%s cannot be %s: %s", path, what, kv_strerror(code));
}

/* Read to the end into memory that doubles, since a pipe's length is unknown. */
static int read_all(int fd, const char *path, uint8_t **data, uint64_t *len, struct kv_error *err)
{
	uint64_t cap = 0;
	for (;;) {
		ssize_t n;
		if (*len == cap) {
			uint8_t *bigger = realloc(*data, cap = cap ? cap * 2 : 65536);
			if (!bigger)
				return kv_fail(err, -KV_ENOMEM, "no memory for the %llu bytes read from %s so far",
					       (unsigned long long)*len, path);
			*data = bigger;
		}
		n = read(fd, *data + *len, cap - *len);
		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(path, "read", err);
		*len += (uint64_t)n;
		if (*len > KV_VALUE_MAX)
			return kv_fail(err, -KV_ETOOBIG, "%s is longer than a value may be (1 GiB)", path);
	}
}

int file_read(const char *path, void **out, uint64_t *out_len, struct kv_error *err)
{
	bool in = strcmp(path, "-") == 0;
	const char *name = in ? "standard input" : path;
	int fd = in ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), rc;
	uint8_t *data = NULL;
	uint64_t len = 0;
	if (fd < 0)
		return failed(name, "opened", err);
	rc = read_all(fd, name, &data, &len, err);
	if (!in)
		close(fd);
	if (rc == 0 && len == 0)
		rc = kv_fail(err, -KV_EINVAL, "%s is empty: a value has at least one byte", name);
	if (rc < 0) {
		free(data);
		return rc;
	}
	*out = data;
	*out_len = len;
	return 0;
}

static int write_all(int fd, const char *path, const uint8_t *data, uint64_t len, struct kv_error *err)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE) /* as with | head: the reader has enough */
			return 0;
		if (n < 0)
			return failed(path, "written", err);
		data += n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int write_directly(const char *path, const void *data, uint64_t len, struct kv_error *err)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), rc;
	if (fd < 0)
		return failed(path, "opened", err);
	rc = write_all(fd, path, data, len, err);
	if (close(fd) < 0 && rc == 0)
		rc = failed(path, "written", err);
	return rc;
}

/* mode: of the replaced file; 0: none. */
static int write_renamed(const char *path, mode_t mode, const void *data, uint64_t len, struct kv_error *err)
{
	char temporary[PATH_MAX];
	int n = snprintf(temporary, sizeof(temporary), "%s.%d.tmp", path, (int)getpid()), fd, rc;
	if (n < 0 || (size_t)n >= sizeof(temporary))
		return kv_fail(err, -ENAMETOOLONG, "%.100s... cannot be written: the name is too long", path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return failed(path, "created", err);
	rc = mode && fchmod(fd, mode & 07777) < 0 ? failed(path, "given its mode", err)
						  : write_all(fd, path, data, len, err);
	if (rc == 0 && fsync(fd) < 0)
		rc = failed(path, "written", err);
	if (close(fd) < 0 && rc == 0)
		rc = failed(path, "written", err);
	if (rc == 0 && rename(temporary, path) < 0)
		rc = failed(path, "written", err);
	if (rc < 0)
		unlink(temporary);
	return rc;
}

int file_write(const char *path, const void *data, uint64_t len, struct kv_error *err)
{
	char target[PATH_MAX];
	struct stat st;
	bool there;
	if (!path)
		return write_all(STDOUT_FILENO, "standard output", data, len, err);
	there = stat(path, &st) == 0;
	if (there && !S_ISREG(st.st_mode))
		return write_directly(path, data, len, err);
	/* A link stays a link: its target is replaced. */
	if (there && realpath(path, target))
		path = target;
	return write_renamed(path, there ? st.st_mode : 0, data, len, err);
}
