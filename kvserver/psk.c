/* SPDX-License-Identifier: Apache-2.0 */
/* psk.c -- kv-server --make-psk: make a key as `openssl rand -hex 32` and chmod do, but never readable by others.
 *
 * Its identity has a random part, because during a change of keys a server's file has two. The file is created with
 * O_EXCL and mode 0600, so neither a planted link nor an older key is overwritten. */
#include "kvserver/psk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IDENTITY "kvrail-"

enum { MARK_BYTES = 4, KEY_BYTES = 32, LINE_LEN = sizeof(IDENTITY) - 1 + 2 * MARK_BYTES + 1 + 2 * KEY_BYTES + 1 };

static char *hex_write(char *out, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++, out += 2)
		snprintf(out, 3, "%02x", bytes[i]);
	return out;
}

static int line_make(char line[LINE_LEN + 1], struct kv_error *err)
{
	uint8_t bytes[MARK_BYTES + KEY_BYTES];
	int rc = kv_entropy_fill(&kv_entropy_kernel, bytes, sizeof(bytes));
	char *at = line + sizeof(IDENTITY) - 1;
	if (rc)
		return kv_fail(err, rc, "no entropy for a key: %s", kv_strerror(rc));
	memcpy(line, IDENTITY, sizeof(IDENTITY) - 1);
	at = hex_write(at, bytes, MARK_BYTES);
	*at++ = ':';
	at = hex_write(at, bytes + MARK_BYTES, KEY_BYTES);
	memcpy(at, "\n", 2);
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

int psk_make(const char *path, struct kv_error *err)
{
	char line[LINE_LEN + 1];
	int rc = line_make(line, err), fd;
	ssize_t wrote;
	if (rc)
		return rc;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = kv_fail(err, -errno, "the key file %.200s cannot be made: %s%s", path, kv_strerror(-errno),
			     errno == EEXIST ? "; a key is never overwritten: name another file, or remove this one"
					     : "");
		goto out;
	}
	wrote = write(fd, line, LINE_LEN);
	if (wrote != LINE_LEN || fsync(fd) < 0)
		rc = kv_fail(err, wrote >= 0 && wrote < LINE_LEN ? -ENOSPC : -errno,
			     "the key file %.200s cannot be written: %s", path,
			     kv_strerror(wrote >= 0 && wrote < LINE_LEN ? -ENOSPC : -errno));
	if (close(fd) < 0 && rc == 0)
		rc = kv_fail(err, -errno, "the key file %.200s cannot be written: %s", path, kv_strerror(-errno));
	if (rc)
		unlink(path);
out:
	explicit_bzero(line, sizeof(line));
	return rc;
}
