/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c -- parse pre-shared keys, and read files with secrets.
 *
 * The format is GnuTLS's psktool's: "identity:hex", split at the last colon. No error text repeats a part of a line
 * that may be its key. A secret file is opened, then checked by fstat: a regular file whose mode excludes group and
 * others. Each buffer that held a secret is wiped. */
#include "bootstrap/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_KEY                                                                                                         \
	"%s holds no key: one line identity:hex is needed (`kv-server --make-psk FILE` makes one; "                    \
	"hex: `openssl rand -hex 32`)"

void secret_wipe(void *p, size_t n)
{
	if (p)
		explicit_bzero(p, n);
}

void *secret_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_DONTDUMP); /* else core dumps contain it */
	return p;
}

void secret_pages_free(void *p, size_t used, size_t bytes)
{
	if (!p)
		return;
	secret_wipe(p, KV_MIN(used, bytes));
	munmap(p, bytes);
}

/* ---- "identity:hex" ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static size_t line_trim(const char **line, size_t len)
{
	while (len && is_space(**line)) {
		++*line;
		len--;
	}
	while (len && is_space((*line)[len - 1]))
		len--;
	return len;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* NULL, or the sentence that refuses the identity. */
static const char *identity_parse(const char *text, size_t len, struct secret_psk *out)
{
	if (len == 0)
		return "the identity before the ':' is missing";
	if (len > SECRET_IDENTITY_MAX)
		return "the identity before the ':' is longer than 128 characters";
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return "the identity before the ':' must be printable ASCII without spaces";
	memcpy(out->identity, text, len);
	out->identity[len] = 0;
	return NULL;
}

static const char *key_parse(const char *text, size_t len, struct secret_psk *out)
{
	for (size_t i = 0; i < len; i++)
		if (hex_digit(text[i]) < 0)
			return "the key after the ':' must be hexadecimal digits only";
	if (len % 2)
		return "the key after the ':' has an odd number of hexadecimal digits";
	if (len < 2 * SECRET_KEY_MIN)
		return "the key after the ':' is shorter than 16 bytes (32 hexadecimal digits); make one with `openssl "
		       "rand -hex 32`";
	if (len > 2 * SECRET_KEY_MAX)
		return "the key after the ':' is longer than 64 bytes (128 hexadecimal digits)";
	for (size_t i = 0; i < len / 2; i++)
		out->key[i] = (uint8_t)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
	out->key_len = len / 2;
	return NULL;
}

static const char *line_parse(const char *line, size_t len, struct secret_psk *out)
{
	const char *colon = memrchr(line, ':', len);
	const char *why;
	if (!colon)
		return "there is no ':' between identity and key (the form is identity:hex)";
	why = identity_parse(line, (size_t)(colon - line), out);
	return why ? why : key_parse(colon + 1, len - (size_t)(colon + 1 - line), out);
}

int secret_psk_next(struct secret_reader *r, struct secret_psk *out, struct kv_error *err)
{
	while (r->at < r->end) {
		const char *line = r->at, *newline = memchr(r->at, '\n', (size_t)(r->end - r->at)), *why;
		size_t n = (size_t)((newline ? newline : r->end) - r->at);
		r->at = newline ? newline + 1 : r->end;
		r->number++;
		n = line_trim(&line, n);
		if (n == 0 || *line == '#')
			continue;
		why = line_parse(line, n, out);
		if (why)
			return kv_fail(err, -KV_EINVAL, "%s, line %u: %s", r->source, r->number, why);
		return 1;
	}
	return 0;
}

/* Two lines without a line end between them would be one key, whose identity, with the first key in it, appears in
 * logs. */
static bool has_key(const char *identity)
{
	for (const char *at = strchr(identity, ':'); at; at = strchr(at + 1, ':'))
		if (strspn(at + 1, "0123456789abcdefABCDEF") >= (size_t)2 * SECRET_KEY_MIN)
			return true;
	return false;
}

static int psk_next(struct secret_reader *r, struct secret_psk *out, struct kv_error *err)
{
	int rc = secret_psk_next(r, out, err);
	if (rc == 1 && has_key(out->identity)) {
		secret_wipe(out, sizeof(*out));
		rc = kv_fail(err, -KV_EINVAL, "%s, line %u: two keys are in one line; end the first with a line feed",
			     r->source, r->number);
	}
	return rc;
}

int secret_psk_parse(const char *text, size_t len, const char *source, struct secret_psk *out, struct kv_error *err)
{
	struct secret_reader r = {.at = text, .end = text + len, .source = source};
	struct secret_psk psk = {.key_len = 0}, second = {.key_len = 0};
	int rc = psk_next(&r, &psk, err);
	if (rc == 0) {
		rc = kv_fail(err, -KV_EINVAL, NO_KEY, source);
		goto out;
	}
	if (rc == 1)
		rc = psk_next(&r, &second, err);
	/* A second line counts even with an invalid key. */
	if (rc != 0 && psk.key_len)
		rc = kv_fail(err, -KV_EINVAL, "%s, line %u: there is a second key; give one line identity:hex", source,
			     r.number);
	else if (rc == 0)
		*out = psk;
out:
	secret_wipe(&second, sizeof(second));
	secret_wipe(&psk, sizeof(psk));
	return rc;
}

static const struct secret_psk *psks_find(const struct secret_psks *keys, const char *identity)
{
	for (unsigned i = 0; i < keys->count; i++)
		if (strcmp(keys->key[i].identity, identity) == 0)
			return &keys->key[i];
	return NULL;
}

static int psks_add(struct secret_psks *keys, const struct secret_psk *psk, const struct secret_reader *r,
		    struct kv_error *err)
{
	if (psks_find(keys, psk->identity))
		return kv_fail(err, -KV_EINVAL,
			       "%s, line %u: a second key for the identity %s; each key needs "
			       "its own identity (`kv-server --make-psk` makes one)",
			       r->source, r->number, psk->identity);
	if (keys->count == keys->bytes / sizeof(*psk))
		return kv_fail(err, -KV_EINVAL, "%s, line %u: there are more than %d keys", r->source, r->number,
			       SECRET_PSKS_MAX);
	keys->key[keys->count++] = *psk;
	return 0;
}

static int psks_alloc(struct secret_psks *keys, size_t len, struct kv_error *err)
{
	size_t lines = KV_MIN(len / (2 + 2 * SECRET_KEY_MIN) + 1, (size_t)SECRET_PSKS_MAX);
	*keys = (struct secret_psks){.bytes = lines * sizeof(struct secret_psk)};
	keys->key = secret_pages(keys->bytes);
	return keys->key ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for %zu keys", lines);
}

void secret_psks_fini(struct secret_psks *keys)
{
	secret_pages_free(keys->key, keys->count * sizeof(struct secret_psk), keys->bytes);
	*keys = (struct secret_psks){0};
}

int secret_psks_parse(const char *text, size_t len, const char *source, struct secret_psks *out, struct kv_error *err)
{
	struct secret_reader r = {.at = text, .end = text + len, .source = source};
	struct secret_psks keys;
	struct secret_psk psk;
	int rc = psks_alloc(&keys, len, err);
	if (rc)
		return rc;
	while ((rc = psk_next(&r, &psk, err)) == 1) {
		rc = psks_add(&keys, &psk, &r, err);
		if (rc)
			break;
	}
	if (rc == 0 && keys.count == 0)
		rc = kv_fail(err, -KV_EINVAL, NO_KEY, source);
	if (rc == 0)
		*out = keys;
	else
		secret_psks_fini(&keys);
	secret_wipe(&psk, sizeof(psk));
	return rc;
}

/* ---- files ---- */

static int mode_check(const struct stat *st, const char *path, const char *what, off_t max, struct kv_error *err)
{
	if (!S_ISREG(st->st_mode))
		return kv_fail(err, -KV_EINVAL, "%s %s is not a regular file: give the path of one", what, path);
	if (st->st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH))
		return kv_fail(err, -KV_EDENIED,
			       "%s %s may be read or written by other users (mode %03o): run `chmod 600 %s`", what,
			       path, (unsigned)(st->st_mode & 0777), path);
	if (st->st_size > max)
		return kv_fail(err, -KV_EINVAL, "%s %s is longer than %lld KiB: it is not a key%s", what, path,
			       (long long)max >> 10, max > SECRET_FILE_MAX ? " file" : "");
	return 0;
}

/* Read to the end, or cap bytes. Returns the number or -errno. */
static ssize_t read_whole(int fd, char *buf, size_t cap)
{
	size_t have = 0;
	while (have < cap) {
		ssize_t n = read(fd, buf + have, cap - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* The file may grow meanwhile. More bytes than fstat reported are an error. */
static int text_read(int fd, size_t size, const char *path, const char *what, struct secret_text *out,
		     struct kv_error *err)
{
	char *data = malloc(size + 1);
	if (!data)
		return kv_fail(err, -KV_ENOMEM, "no memory to read the %s %s", what, path);
	ssize_t n = read_whole(fd, data, size + 1);
	if (n < 0 || (size_t)n > size) {
		secret_wipe(data, size + 1);
		free(data);
		return n < 0 ? kv_fail(err, (int)n, "cannot read the %s %s: %s", what, path, kv_strerror((int)n))
			     : kv_fail(err, -KV_EINVAL, "%s %s changed while it was read: try again", what, path);
	}
	data[n] = 0;
	*out = (struct secret_text){.data = data, .len = (size_t)n};
	return 0;
}

static int file_read(const char *path, const char *what, off_t max, struct secret_text *out, struct kv_error *err)
{
	struct stat st;
	int rc;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		rc = -errno;
		return kv_fail(err, rc, "cannot open the %s %s: %s; give its path, and let this user read it", what,
			       path, kv_strerror(rc));
	}
	if (fstat(fd, &st)) {
		rc = -errno;
		kv_fail(err, rc, "cannot look at the %s %s: %s", what, path, kv_strerror(rc));
		goto close_fd;
	}
	rc = mode_check(&st, path, what, max, err);
	if (rc == 0)
		rc = text_read(fd, (size_t)st.st_size, path, what, out, err);
close_fd:
	close(fd);
	return rc;
}

int secret_file_read(const char *path, const char *what, struct secret_text *out, struct kv_error *err)
{
	return file_read(path, what, SECRET_FILE_MAX, out, err);
}

int secret_keys_read(const char *path, const char *what, struct secret_text *out, struct kv_error *err)
{
	return file_read(path, what, SECRET_KEYS_FILE_MAX, out, err);
}

int secret_psks_load(const char *path, struct secret_psks *out, struct kv_error *err)
{
	struct secret_text text = {0};
	int rc = file_read(path, "PSK file", SECRET_PSKS_FILE_MAX, &text, err);
	if (rc == 0)
		rc = secret_psks_parse(text.data, text.len, path, out, err);
	secret_text_fini(&text);
	return rc;
}

void secret_text_fini(struct secret_text *text)
{
	secret_wipe(text->data, text->len);
	free(text->data);
	*text = (struct secret_text){0};
}
