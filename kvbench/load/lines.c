/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c -- the bytes of a file, which zlib unpacks if they are gzip, cut into lines.
 *
 * Memory follows the longest line, up to a bound (unlike getline's). The first bytes decide the format; an unknown one
 * is refused with the command that converts it. A gzip file may have several members, and zeros behind the last one.
 * gzread ignores all other bytes there, also those of a damaged member: so inflate reads member by member. */
#include "kvbench/load/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

enum { RAW_BYTES = 64 << 10, TEXT_FIRST = 64 << 10, GZIP_BITS = 15 + 16 };

struct lines {
	FILE *in;
	const char *name;
	uint64_t number;
	bool begun;     /* the format is known */
	bool unpacking; /* the file is gzip, and inflate holds memory */
	bool within;    /* a member of the gzip file has begun and not ended */
	z_stream z;
	uint8_t *raw; /* RAW_BYTES */
	size_t raw_have, raw_at;
	bool raw_end;
	char *text; /* `room` bytes */
	size_t room, have, at;
	bool end; /* of the text */
};

static const struct {
	const char *bytes;
	size_t len;
	const char *why;
} others[] = {
	{"\x28\xb5\x2f\xfd", 4, "is compressed by zstd: unpack it with zstd -d"},
	{"\xfd\067zXZ", 5, "is compressed by xz: unpack it with xz -d"},
	{"BZh", 3, "is compressed by bzip2: unpack it with bzip2 -d"},
	{"PK\3\4", 4, "is a zip archive: unpack it with unzip"},
	{"PAR1", 4,
	 "is a Parquet file: convert it to JSON lines, as to_json(orient='records', lines=True) of pandas does"},
	{"\xff\xfe", 2, "is UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", 2, "is UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8"},
};

int lines_open_stream(int fd, const char *name, struct lines **out, struct kv_error *err)
{
	struct lines *l = calloc(1, sizeof(*l));
	if (l) {
		l->name = name;
		l->raw = malloc(RAW_BYTES);
		l->text = malloc(TEXT_FIRST);
		l->room = TEXT_FIRST;
		l->in = fdopen(fd, "r");
	}
	if (l && l->in && l->raw && l->text) {
		*out = l;
		return 0;
	}
	if (!l || !l->in)
		close(fd);
	lines_close(&l);
	return kv_fail(err, -KV_ENOMEM, "no memory to read trace %s", name);
}

static void unpacking_end(struct lines *l)
{
	if (l->unpacking)
		inflateEnd(&l->z);
	l->unpacking = false;
}

void lines_close(struct lines **lines)
{
	struct lines *l = *lines;
	if (!l)
		return;
	unpacking_end(l);
	if (l->in)
		fclose(l->in);
	free(l->raw);
	free(l->text);
	free(l);
	*lines = NULL;
}

int lines_rewind(struct lines *l, struct kv_error *err)
{
	if (fseek(l->in, 0, SEEK_SET) < 0)
		return kv_fail(err, -KV_EINVAL,
			       "trace %s is read twice and must be a regular file: write it to one first", l->name);
	unpacking_end(l);
	l->raw_have = l->raw_at = l->have = l->at = l->number = 0;
	l->raw_end = l->end = l->begun = l->within = false;
	return 0;
}

uint64_t lines_number(const struct lines *l)
{
	return l->number;
}

const char *lines_name(const struct lines *l)
{
	return l->name;
}

/* ---- bytes ---- */

static int raw_refill(struct lines *l, struct kv_error *err)
{
	if (l->raw_at < l->raw_have || l->raw_end)
		return 0;
	errno = 0;
	l->raw_at = 0;
	l->raw_have = fread(l->raw, 1, RAW_BYTES, l->in);
	if (ferror(l->in))
		return kv_fail(err, -EIO, "%s cannot be read after line %llu: %s", l->name,
			       (unsigned long long)l->number, kv_strerror(errno ? errno : EIO));
	l->raw_end = l->raw_have < RAW_BYTES;
	return 0;
}

static bool begins(const struct lines *l, const char *bytes, size_t len)
{
	return l->raw_have >= len && memcmp(l->raw, bytes, len) == 0;
}

static int format_find(struct lines *l, struct kv_error *err)
{
	l->begun = true;
	for (unsigned i = 0; i < KV_COUNT(others); i++)
		if (begins(l, others[i].bytes, others[i].len))
			return kv_fail(err, -KV_EINVAL, "%s %s", l->name, others[i].why);
	if (!begins(l, "\x1f\x8b", 2))
		return 0;
	l->z = (z_stream){0};
	if (inflateInit2(&l->z, GZIP_BITS) != Z_OK)
		return kv_fail(err, -KV_ENOMEM, "no memory to unpack %s", l->name);
	l->unpacking = l->within = true;
	return 0;
}

static int damaged(const struct lines *l, bool early, struct kv_error *err)
{
	return kv_fail(err, -KV_EINVAL, "the gzip data of %s %s after line %llu: fetch the file again", l->name,
		       early ? "ends early," : "are damaged", (unsigned long long)l->number);
}

/* Tapes and archivers fill a file with zeros up to its end. */
static int member_next(struct lines *l, struct kv_error *err)
{
	bool zeros = false;
	int rc = raw_refill(l, err);
	while (rc == 0 && l->raw_at < l->raw_have && l->raw[l->raw_at] == 0) {
		zeros = true;
		l->raw_at++;
		rc = raw_refill(l, err);
	}
	if (rc < 0 || l->raw_at == l->raw_have)
		return rc;
	if (zeros)
		return damaged(l, false, err);
	inflateReset(&l->z);
	l->within = true;
	return 0;
}

static int unpack(struct lines *l, char *to, size_t room, size_t *out_len, struct kv_error *err)
{
	size_t have = 0;
	while (have == 0) {
		int rc = l->within ? raw_refill(l, err) : member_next(l, err);
		if (rc < 0)
			return rc;
		if (!l->within)
			break;
		l->z.next_in = l->raw + l->raw_at;
		l->z.avail_in = (uInt)(l->raw_have - l->raw_at);
		l->z.next_out = (Bytef *)to;
		l->z.avail_out = (uInt)room;
		rc = inflate(&l->z, Z_NO_FLUSH);
		l->raw_at = l->raw_have - l->z.avail_in;
		have = room - l->z.avail_out;
		if (rc == Z_MEM_ERROR)
			return kv_fail(err, -KV_ENOMEM, "no memory to unpack %s", l->name);
		if (rc != Z_OK && rc != Z_STREAM_END)
			return damaged(l, rc == Z_BUF_ERROR, err);
		l->within = rc != Z_STREAM_END;
	}
	*out_len = have;
	return 0;
}

static int text_read(struct lines *l, char *to, size_t room, size_t *out_len, struct kv_error *err)
{
	int rc = raw_refill(l, err);
	if (rc == 0 && !l->begun)
		rc = format_find(l, err);
	if (rc < 0)
		return rc;
	if (l->unpacking)
		return unpack(l, to, room, out_len, err);
	*out_len = KV_MIN(room, l->raw_have - l->raw_at);
	memcpy(to, l->raw + l->raw_at, *out_len);
	l->raw_at += *out_len;
	return 0;
}

/* ---- lines ---- */

static int text_grow(struct lines *l, struct kv_error *err)
{
	size_t room = KV_MIN(2 * l->room, (size_t)LINE_MAX_BYTES + 1);
	char *bigger;
	if (l->have > LINE_MAX_BYTES)
		return kv_fail(err, -KV_ETOOBIG,
			       "%s line %llu is longer than %u bytes: this is not a trace of one request per line",
			       l->name, (unsigned long long)l->number + 1, (unsigned)LINE_MAX_BYTES);
	bigger = realloc(l->text, room);
	if (!bigger)
		return kv_fail(err, -KV_ENOMEM, "no memory for line %llu of %s", (unsigned long long)l->number + 1,
			       l->name);
	l->text = bigger;
	l->room = room;
	return 0;
}

static int refill(struct lines *l, struct kv_error *err)
{
	size_t got = 0;
	int rc = 0;
	memmove(l->text, l->text + l->at, l->have - l->at);
	l->have -= l->at;
	l->at = 0;
	if (l->have == l->room)
		rc = text_grow(l, err);
	if (rc == 0)
		rc = text_read(l, l->text + l->have, l->room - l->have, &got, err);
	l->have += got;
	l->end = rc == 0 && got == 0;
	return rc;
}

static void mark_skip(const struct lines *l, const char **text, size_t *len)
{
	if (l->number == 1 && *len >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0) {
		*text += 3;
		*len -= 3;
	}
}

int lines_next(struct lines *l, const char **out, size_t *out_len, struct kv_error *err)
{
	size_t seen = 0;
	for (;;) {
		char *from = l->text + l->at, *end = memchr(from + seen, '\n', l->have - l->at - seen);
		int rc;
		seen = l->have - l->at;
		if (!end && l->end && l->at < l->have)
			end = l->text + l->have; /* the last line needs no newline */
		if (end) {
			*out = from;
			*out_len = (size_t)(end - from);
			l->at = KV_MIN((size_t)(end - l->text) + 1, l->have);
			l->number++;
			mark_skip(l, out, out_len);
			return 1;
		}
		if (l->end)
			return 0;
		rc = refill(l, err);
		if (rc < 0)
			return rc;
	}
}
