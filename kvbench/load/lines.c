/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c -- the bytes of a file, which zlib unpacks if they are gzip, cut into lines.
 *
 * Memory follows the longest line, up to a bound (unlike getline's). The first bytes decide the format; an unknown one
 * is refused with the command that converts it. */
#include "kvbench/load/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

enum { RAW_BYTES = 64 << 10, TEXT_FIRST = 64 << 10 };

struct lines {
	gzFile in;
	const char *name;
	uint64_t number;
	bool begun; /* the format is known */
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
		l->text = malloc(TEXT_FIRST);
		l->room = TEXT_FIRST;
		l->in = gzdopen(fd, "r");
	}
	if (l && l->in && l->text) {
		gzbuffer(l->in, RAW_BYTES);
		*out = l;
		return 0;
	}
	if (!l || !l->in)
		close(fd);
	lines_close(&l);
	return kv_fail(err, -KV_ENOMEM, "no memory to read trace %s", name);
}

void lines_close(struct lines **lines)
{
	struct lines *l = *lines;
	if (!l)
		return;
	if (l->in)
		gzclose_r(l->in);
	free(l->text);
	free(l);
	*lines = NULL;
}

int lines_rewind(struct lines *l, struct kv_error *err)
{
	if (gzrewind(l->in) < 0)
		return kv_fail(err, -KV_EINVAL,
			       "trace %s is read twice and must be a regular file: write it to one first", l->name);
	l->have = l->at = l->number = 0;
	l->end = l->begun = false;
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

static int format_check(struct lines *l, const char *text, size_t len, struct kv_error *err)
{
	l->begun = true;
	for (unsigned i = 0; i < KV_COUNT(others); i++)
		if (len >= others[i].len && memcmp(text, others[i].bytes, others[i].len) == 0)
			return kv_fail(err, -KV_EINVAL, "%s %s", l->name, others[i].why);
	return 0;
}

/* zlib reports an end within a member behind the bytes before it. */
static int text_read(struct lines *l, char *to, size_t room, size_t *out_len, struct kv_error *err)
{
	int n, code = Z_OK;
	errno = 0;
	n = gzread(l->in, to, (unsigned)room);
	if (n <= 0)
		gzerror(l->in, &code);
	if (code == Z_ERRNO)
		return kv_fail(err, -EIO, "%s cannot be read after line %llu: %s", l->name,
			       (unsigned long long)l->number, kv_strerror(errno ? errno : EIO));
	if (code == Z_MEM_ERROR)
		return kv_fail(err, -KV_ENOMEM, "no memory to unpack %s", l->name);
	if (code != Z_OK)
		return kv_fail(err, -KV_EINVAL, "the gzip data of %s %s after line %llu: fetch the file again", l->name,
			       code == Z_BUF_ERROR ? "ends early," : "are damaged", (unsigned long long)l->number);
	*out_len = (size_t)n;
	return l->begun ? 0 : format_check(l, to, (size_t)n, err);
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
