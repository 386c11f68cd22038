/* SPDX-License-Identifier: Apache-2.0 */
/* key_file.c -- make keys as `openssl rand -hex 32` and chmod do, but never readable by others.
 *
 * A key's name has a random part, because during a change of keys a file has two. The file is created with O_EXCL and
 * mode 0600, so neither a planted link nor an older key is overwritten. */
#include "base/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"

enum { MARK_BYTES = 4, KEY_BYTES = 32, TEXT_BYTES = 512 };

_Static_assert(2 * (KV_KEY_PREFIX_MAX + 2 * MARK_BYTES + 2 * KEY_BYTES + 3) < TEXT_BYTES, "two lines fit");

static size_t hex_write(char *out, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return 2 * n;
}

static int line_add(char text[TEXT_BYTES], size_t *len, const char *name, bool marked, struct kv_error *err)
{
	uint8_t bytes[MARK_BYTES + KEY_BYTES];
	int rc = kv_entropy_fill(&kv_entropy_kernel, bytes, sizeof(bytes));
	if (rc)
		return kv_fail(err, rc, "no entropy for a key: %s", kv_strerror(rc));
	*len += (size_t)snprintf(text + *len, KV_KEY_PREFIX_MAX + 1, "%s", name);
	if (marked)
		*len += hex_write(text + *len, bytes, MARK_BYTES);
	text[(*len)++] = ':';
	*len += hex_write(text + *len, bytes + MARK_BYTES, KEY_BYTES);
	text[(*len)++] = '\n';
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

static int text_write(const char *path, const char *text, size_t len, struct kv_error *err)
{
	int rc = 0, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t wrote;
	if (fd < 0)
		return kv_fail(err, -errno, "the key file %.200s cannot be made: %s%s", path, kv_strerror(-errno),
			       errno == EEXIST ? "; a key is never overwritten: name another file, or remove this one"
					       : "");
	wrote = write(fd, text, len);
	if (wrote != (ssize_t)len || fsync(fd) < 0)
		rc = kv_fail(err, wrote >= 0 && wrote < (ssize_t)len ? -ENOSPC : -errno,
			     "the key file %.200s cannot be written: %s; free some room, or give another path", path,
			     kv_strerror(wrote >= 0 && wrote < (ssize_t)len ? -ENOSPC : -errno));
	if (close(fd) < 0 && rc == 0)
		rc = kv_fail(err, -errno,
			     "the key file %.200s cannot be written: %s; free some room, or give another path", path,
			     kv_strerror(-errno));
	if (rc)
		unlink(path);
	return rc;
}

int kv_key_file_make(const char *path, const char *prefix, const char *second, struct kv_error *err)
{
	char text[TEXT_BYTES];
	size_t len = 0;
	int rc = line_add(text, &len, prefix, true, err);
	if (rc == 0 && second)
		rc = line_add(text, &len, second, false, err);
	if (rc == 0)
		rc = text_write(path, text, len, err);
	explicit_bzero(text, sizeof(text));
	return rc;
}
