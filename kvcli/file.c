/* SPDX-License-Identifier: Apache-2.0 */
/* file.c -- values from and to files. A get that fails half-way, or meets a full disk, leaves the old file as it was
 * (base/out_file.h). */
#include "kvcli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

int file_write(const char *path, const void *data, uint64_t len, struct kv_error *err)
{
	struct out_file f;
	int rc = out_file_open(&f, path ? path : "-", "the value", err);
	return rc < 0 ? rc : out_file_write(&f, data, len, err);
}

int file_json(json_t *document, const char *command, struct kv_error *err)
{
	int rc = document ? json_dumpf(document, stdout, JSON_INDENT(2)) : -1;
	json_decref(document);
	putchar('\n');
	if (rc == 0 || ferror(stdout))
		return 0;
	return kv_fail(err, -KV_ENOMEM, "%s: no memory for the JSON", command);
}
