/* SPDX-License-Identifier: Apache-2.0 */
/* list.c -- sources without a service: a list on the command line, and a file of lines.
 *
 * A list never changes. Its epoch is the time of the start in ms. A file is checked once a second. It is believed if
 * two checks a second apart find it unchanged, or the first finds its change a second old; if its last line is
 * complete; and if every line can be read. Its epoch is the time of its last change in ms. A file system that does not
 * answer blocks this thread alone: membership_stop leaves it behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kvserver/member/source.h"

enum { FILE_BYTES_MAX = 4 << 20 };
#define LOOK_NS 1000000000ull

/* A change of these shows that a file has changed. */
struct mark {
	ino_t inode;
	off_t bytes;
	struct timespec changed;
};

struct source {
	struct source_setup setup;
	bool reported;     /* list: reported to the sink */
	struct mark seen;  /* file: at the last check */
	struct mark taken; /* file: whose outcome was reported */
	bool looked;       /* file */
};

static int source_alloc(const struct source_setup *setup, struct source **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -KV_ENOMEM;
	(*out)->setup = *setup;
	return 0;
}

static void source_free(struct source **s)
{
	free(*s);
	*s = NULL;
}

static int take(struct kv_view *list, const char *text, struct kv_error *err)
{
	const struct kv_member *other;
	struct kv_member m;
	int rc = member_parse(text, &m, err);
	if (rc)
		return rc;
	other = members_by_address(list, m.address);
	if (other && strcmp(other->node_id, m.node_id) != 0)
		return kv_fail(err, -KV_EINVAL,
			       "members %s and %s have an address in common: %s; give it to one of them",
			       other->node_id, m.node_id, m.address);
	rc = kv_view_add(list, &m);
	if (rc == -KV_EEXIST)
		return kv_fail(err, -KV_EINVAL, "member %s is listed twice: remove one", m.node_id);
	if (rc)
		return kv_fail(err, rc, "%s", rc == -KV_ELIMIT ? "more than 1024 members" : "no memory for members");
	return 0;
}

/* Text is modified. */
static int parts_read(char *text, const char *between, bool lines, struct kv_view *out, struct kv_error *err)
{
	char *part;
	int rc = 0;
	unsigned number = 0;
	while (rc == 0 && (part = strsep(&text, between)) != NULL) {
		char *end;
		number++;
		part += strspn(part, " \t\r");
		for (end = part + strlen(part); end > part && strchr(" \t\r", end[-1]); end--)
			end[-1] = '\0';
		if (lines && (!part[0] || part[0] == '#'))
			continue;
		rc = take(out, part, err);
		if (rc && lines)
			kv_fail_more(err, "line %u", number);
	}
	return rc;
}

/* ---- list ---- */

static int list_read(const struct source_setup *setup, struct kv_view *out, struct kv_error *err)
{
	char *text = strdup(setup->spec);
	int rc = text ? parts_read(text, ",", false, out, err) : kv_fail(err, -KV_ENOMEM, "no memory for --members");
	free(text);
	return rc;
}

static int list_check(const struct source_setup *setup, struct kv_error *err)
{
	struct kv_view list = {0};
	int rc = list_read(setup, &list, err);
	kv_view_fini(&list);
	return rc ? kv_fail_more(err, "--members list") : 0;
}

static uint64_t list_turn(struct source *s, uint64_t now_ns)
{
	struct kv_view list = {0};
	struct kv_error err = {0};
	if (s->reported) {
		s->setup.sink->alive(s->setup.sink->arg);
	} else if (list_read(&s->setup, &list, &err)) {
		s->setup.sink->trouble(s->setup.sink->arg, err.text);
	} else {
		s->reported = true;
		list.source = members_source(s->setup.cluster, "list", "");
		list.epoch = members_now_ms();
		s->setup.sink->members(s->setup.sink->arg, &list);
	}
	kv_view_fini(&list);
	return now_ns + LOOK_NS;
}

/* ---- file ---- */

static bool mark_same(const struct mark *a, const struct mark *b)
{
	return a->inode == b->inode && a->bytes == b->bytes && a->changed.tv_sec == b->changed.tv_sec &&
	       a->changed.tv_nsec == b->changed.tv_nsec;
}

static struct mark mark_of(const struct stat *st)
{
	return (struct mark){.inode = st->st_ino, .bytes = st->st_size, .changed = st->st_mtim};
}

/* A file from before 1970 has the lowest epoch; 0 means no view. */
static uint64_t epoch_of(const struct mark *m)
{
	if (m->changed.tv_sec < 1 || (uint64_t)m->changed.tv_sec > MEMBERS_EPOCH_MAX / 1000 - 1)
		return 1;
	return (uint64_t)m->changed.tv_sec * 1000 + (uint64_t)m->changed.tv_nsec / 1000000;
}

static int file_text(const char *path, struct mark *out_mark, char **out, struct kv_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	struct stat st;
	char *text = NULL;
	size_t len = 0;
	ssize_t n = 1;
	if (fd < 0 || fstat(fd, &st) != 0) {
		rc = kv_fail(err, -errno, "%s cannot be read: %s", path, kv_strerror(-errno));
		goto out;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX) {
		rc = kv_fail(err, -KV_EINVAL, "%s is not a file of lines, or is larger than 4 MiB", path);
		goto out;
	}
	text = malloc((size_t)st.st_size + 1);
	if (!text) {
		rc = kv_fail(err, -KV_ENOMEM, "no memory to read %s", path);
		goto out;
	}
	while (n > 0 && len < (size_t)st.st_size) {
		n = read(fd, text + len, (size_t)st.st_size - len);
		len += n > 0 ? (size_t)n : 0;
	}
	text[len] = '\0';
	if (n < 0)
		rc = kv_fail(err, -errno, "%s cannot be read: %s", path, kv_strerror(-errno));
	else if (len == 0 || text[len - 1] != '\n' || strlen(text) != len)
		rc = kv_fail(err, -KV_EINVAL, "%s %s", path,
			     len == 0 ? "is empty" : "does not end with a whole line, or has bytes that are not text");
	*out_mark = mark_of(&st);
out:
	if (fd >= 0)
		close(fd);
	if (rc) {
		free(text);
		text = NULL;
	}
	*out = text;
	return rc;
}

static void file_read(struct source *s)
{
	const struct source_sink *sink = s->setup.sink;
	struct kv_view list = {0};
	struct kv_error err = {0};
	struct mark mark = {0};
	char *text = NULL;
	int rc = file_text(s->setup.spec, &mark, &text, &err);
	if (rc == 0 && !mark_same(&mark, &s->seen)) {
		s->seen = mark; /* it is being written: retry in the next check */
		goto out;
	}
	if (rc == 0) {
		rc = parts_read(text, "\n", true, &list, &err);
		if (rc)
			kv_fail_more(&err, "%s", s->setup.spec);
	}
	if (rc) {
		sink->trouble(sink->arg, err.text);
		goto out;
	}
	s->taken = mark;
	list.source = members_source(s->setup.cluster, "file", "");
	list.epoch = epoch_of(&mark);
	sink->members(sink->arg, &list);
out:
	kv_view_fini(&list);
	free(text);
}

/* Whether its last change is LOOK_NS old, by the clock of this machine. */
static bool rests(const struct mark *m)
{
	return epoch_of(m) + LOOK_NS / 1000000 <= members_now_ms();
}

static uint64_t file_turn(struct source *s, uint64_t now_ns)
{
	const struct source_sink *sink = s->setup.sink;
	struct stat st;
	struct mark mark;
	struct kv_error err = {0};
	bool settled;
	if (stat(s->setup.spec, &st) != 0) {
		kv_fail(&err, -errno, "%s cannot be read: %s", s->setup.spec, kv_strerror(-errno));
		s->seen = s->taken = (struct mark){0};
		sink->trouble(sink->arg, err.text);
		return now_ns + LOOK_NS / s->setup.pace;
	}
	mark = mark_of(&st);
	settled = mark_same(&mark, &s->seen) || (!s->looked && rests(&mark));
	s->seen = mark;
	s->looked = true;
	if (settled && mark_same(&mark, &s->taken))
		sink->alive(sink->arg);
	else if (settled)
		file_read(s);
	return now_ns + LOOK_NS / s->setup.pace;
}

static int file_check(const struct source_setup *setup, struct kv_error *err)
{
	if (setup->spec[0] != '/')
		return kv_fail(
			err, -KV_EINVAL,
			"--members file:%.200s: give the whole path, from / on: a service has a folder of its own",
			setup->spec);
	return 0;
}

const struct source_class source_list = {
	.name = "list", .check = list_check, .open = source_alloc, .turn = list_turn, .close = source_free};
const struct source_class source_file = {
	.name = "file", .check = file_check, .open = source_alloc, .turn = file_turn, .close = source_free};
