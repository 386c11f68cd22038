/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c -- see kept.h.
 *
 * The memory of a shard is a file (--arena-file), a memfd that the service manager or another process had, or a new
 * memfd. The file of the index is usable if it describes this server's shards and each memory bears its stamp; else the
 * server starts empty and says why. Before memory is used anew, no client of a former server may read there: if one
 * does for longer than READERS_NS, the memory is left to it, and other memory takes its place.
 *
 * Order: locks, memory, file, a copy to another geometry (kept_move.c), restore; then the mark is cleared and the file
 * removed, right before clients are accepted. So a start that fails leaves all as it was, or with the new geometry. */
#include "kvserver/server/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"
#include "kvserver/server/private.h"
#include "kvserver/server/server.h"

#define READERS_NS 3000000000ull
#define SLACK      (1ull << 30) /* of the size of memory: it is whole pages */

enum { LOCKS = 2, PATH_CAP = 4096 };

struct kvs_kept {
	const char *keep, *arena_file; /* of kvs_options; arena_file: or NULL */
	int lock[LOCKS];               /* or -1 */
	unsigned shards;
	int fd[KV_SHARDS_MAX];           /* of the shards' memory; or -1 */
	int former[KV_SHARDS_MAX];       /* moves: of the memory that the file describes; or -1 */
	bool moves;                      /* until the values are copied */
	uint64_t dropped[KV_SHARDS_MAX]; /* values that were not */
	bool found;                      /* file and head */
	bool handed;                     /* a running server has the memory until this one starts */
	uint64_t digest_seed;            /* handed */
	uint64_t generation;             /* of this server */
	uint64_t places;                 /* of each table of records; 0: no --recover */
	bool died;                       /* the last server that had the memory */
	bool recover;
	struct keep_in *file;
	struct keep_head head;
	struct kept_options shard[KV_SHARDS_MAX];
};

static uint64_t limit_of(const struct kvs_server *s)
{
	return kv_align_down(s->opt.memory_bytes / s->opt.shards, ARENA_GRANULE);
}

static uint64_t places_of(const struct kvs_options *o)
{
	return o->recover ? records_places((o->values_max + o->shards - 1) / o->shards) : 0;
}

/* ---- possession ---- */

static void fd_drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void stored_name(char name[32], unsigned shard)
{
	snprintf(name, 32, "kvrail-arena-%u", shard);
}

static struct kvs_kept *kept_make(const struct kvs_options *o, struct kv_error *err)
{
	struct kvs_kept *k = calloc(1, sizeof(*k));
	if (!k) {
		kv_fail(err, -KV_ENOMEM, "no memory for the options of kept memory");
		return NULL;
	}
	k->keep = o->keep;
	k->arena_file = o->arena_file;
	k->lock[0] = k->lock[1] = -1;
	for (unsigned i = 0; i < KV_SHARDS_MAX; i++)
		k->fd[i] = k->former[i] = -1;
	return k;
}

/* What is no file now would be none at the end either, and the values would be lost then. */
static int keep_check(const struct kvs_kept *k, struct kv_error *err)
{
	struct stat st;
	if (stat(k->keep, &st) < 0 || S_ISREG(st.st_mode))
		return 0;
	return kv_fail(err, -KV_EINVAL, "%.200s is no regular file: give the path of a file", k->keep);
}

int kvs_kept_open(const struct kvs_options *o, struct kvs_kept **out, struct kv_error *err)
{
	struct kvs_kept *k = kept_make(o, err);
	char name[32];
	int rc;
	if (!k)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < KV_SHARDS_MAX; i++) {
		stored_name(name, i);
		k->fd[i] = kv_service_take(name);
	}
	rc = keep_check(k, err);
	if (rc == 0)
		rc = kv_kept_lock(k->keep, &k->lock[0], err);
	if (rc)
		kv_fail_more(err, "--keep");
	else if (k->arena_file && (rc = kv_kept_lock(k->arena_file, &k->lock[1], err)) != 0)
		kv_fail_more(err, "--arena-file");
	if (rc)
		kvs_kept_close(&k);
	*out = k;
	return rc;
}

static int arena_path(const struct kvs_kept *k, unsigned i, const char *more, char path[PATH_CAP], struct kv_error *err)
{
	if (snprintf(path, PATH_CAP, "%s.%u%s", k->arena_file, i, more) < PATH_CAP)
		return 0;
	return kv_fail(err, -KV_EINVAL, "--arena-file %.200s: the path is too long", k->arena_file);
}

static void mark_read(int fd, uint64_t limit, struct kept_mark *out)
{
	const uint8_t *at = (const uint8_t *)kept_mark_of(NULL, limit);
	if (fd < 0 || pread(fd, out, sizeof(*out), (off_t)(uintptr_t)at) != (ssize_t)sizeof(*out))
		*out = (struct kept_mark){0};
}

/* Whether this new file belongs to the index. */
static bool new_fits(const struct kvs_kept *k, const char *path)
{
	struct kept_mark m;
	int fd;
	if (kv_kept_find(path, &fd, NULL))
		return false;
	mark_read(fd, k->head.limit_bytes, &m);
	close(fd);
	return m.clean == 1 && memcmp(m.stamp, k->head.stamp, KEEP_STAMP) == 0;
}

/* The new files of the index take the names of the former ones, also those of a server that died in here. The new file
 * of shard 0 is the last one, and the sign that there is more to do. */
static void names_take(struct kvs_kept *k)
{
	char from[PATH_CAP], to[PATH_CAP];
	if (arena_path(k, 0, ".new", from, NULL) || !new_fits(k, from))
		return;
	for (unsigned i = KV_SHARDS_MAX; i-- > 0;) {
		if (arena_path(k, i, ".new", from, NULL) || arena_path(k, i, "", to, NULL))
			continue;
		if (i >= k->head.shards)
			(void)unlink(to);
		else if (new_fits(k, from) && rename(from, to) < 0)
			return; /* the next server tries again */
		if (i > 0 && i < k->head.shards)
			kvs_kept_step("renamed");
	}
}

static void news_remove(const struct kvs_kept *k)
{
	char path[PATH_CAP];
	for (unsigned i = 0; i < KV_SHARDS_MAX; i++)
		if (arena_path(k, i, ".new", path, NULL) == 0)
			(void)unlink(path);
}

static void moves_end(struct kvs_kept *k)
{
	for (unsigned i = 0; i < KV_SHARDS_MAX; i++)
		fd_drop(&k->former[i]);
	k->moves = false;
}

/* The copy has failed, or does not begin. */
static void moves_undo(struct kvs_kept *k)
{
	if (k->moves)
		news_remove(k);
	moves_end(k);
}

void kvs_kept_close(struct kvs_kept **kept)
{
	struct kvs_kept *k = *kept;
	if (!k)
		return;
	moves_undo(k);
	keep_close(&k->file);
	for (unsigned i = 0; i < KV_SHARDS_MAX; i++)
		fd_drop(&k->fd[i]);
	for (unsigned i = 0; i < LOCKS; i++)
		fd_drop(&k->lock[i]);
	free(k);
	*kept = NULL;
}

static int handed_check(const struct kvs_options *o, const struct kvs_handed *h, unsigned count, struct kv_error *err)
{
	char one[32], other[32];
	uint64_t limit = kv_align_down(o->memory_bytes / o->shards, ARENA_GRANULE);
	if (h->shards == 0 || h->shards > KV_SHARDS_MAX || h->locks > LOCKS || count != h->shards + h->locks)
		return kv_fail(err, -KV_EINVAL, "--handover: the running server's message is impossible");
	if (h->shards != o->shards || h->limit_bytes != limit)
		return kv_fail(
			err, -KV_EINVAL,
			"--handover: the running server has %u worker threads with %s each, and this one has %u with "
			"%s: give the same --worker-threads and --memory-mb, or restart the server",
			h->shards, kv_size_format(h->limit_bytes, one, sizeof(one)), o->shards,
			kv_size_format(limit, other, sizeof(other)));
	if (h->places != places_of(o))
		return kv_fail(
			err, -KV_EINVAL,
			"--handover: give the same --recover and --max-values as the running server, or restart it");
	return 0;
}

int kvs_kept_take(const struct kvs_options *options, const struct kvs_handed *h, const int *fd, unsigned count,
		  struct kvs_kept **out, struct kv_error *err)
{
	struct kvs_options o = *options;
	struct kvs_kept *k = kept_make(options, err);
	int rc = -KV_ENOMEM;
	settings_fill(&o);
	if (k)
		rc = handed_check(&o, h, count, err);
	if (rc) {
		for (unsigned i = 0; i < count; i++)
			close(fd[i]);
		free(k);
		return rc;
	}
	k->handed = true;
	k->digest_seed = h->digest_seed;
	k->generation = h->generation + 1;
	memcpy(k->lock, fd, h->locks * sizeof(int));
	memcpy(k->fd, fd + h->locks, h->shards * sizeof(int));
	*out = k;
	return 0;
}

unsigned kvs_server_hand(const struct kvs_server *s, struct kvs_handed *out, int fd[KVS_HANDED_FDS])
{
	const struct kvs_kept *k = s->opt.kept;
	unsigned n = 0;
	*out = (struct kvs_handed){.limit_bytes = limit_of(s),
				   .digest_seed = s->shard_seed,
				   .generation = k->generation,
				   .places = k->places,
				   .shards = k->shards};
	for (; n < LOCKS && k->lock[n] >= 0; n++)
		fd[n] = k->lock[n];
	out->locks = n;
	memcpy(fd + n, k->fd, k->shards * sizeof(int));
	return n + k->shards;
}

/* ---- start ---- */

static void empty_log(const struct kvs_server *s, enum kv_log_level level, const char *why)
{
	kv_event(s->opt.log, level, KV_EVENT("keep_empty", KV_FIELD("reason", why)), "--keep: no values are back: %s",
		 why);
}

static void unusable(struct kvs_server *s, const char *why)
{
	struct kvs_kept *k = s->opt.kept;
	keep_close(&k->file);
	k->found = false;
	moves_undo(k);
	empty_log(s, KV_LOG_WARN, why);
}

/* Open the file. */
static void file_find(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	struct kv_error err = {0};
	char why[256];
	int rc = keep_open(k->keep, &k->file, &k->head, &err);
	k->found = rc == 0;
	if (rc == -KV_ENOTFOUND) {
		snprintf(why, sizeof(why), "there is no file %.200s", k->keep);
		empty_log(s, KV_LOG_INFO, why);
	} else if (rc) {
		unusable(s, err.text);
	} else if (k->handed && k->head.digest_seed != k->digest_seed) {
		unusable(s, "the index is of another server");
	}
}

/* Whether the file describes a server like this one. Files become longer in place; otherwise the values move. */
static void geometry_check(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	char why[256], one[32], other[32];
	uint64_t was = k->head.limit_bytes, limit = limit_of(s);
	if (!k->found || (k->head.shards == k->shards && was == limit))
		return;
	if (was == 0 || was % ARENA_GRANULE || k->head.shards == 0 || k->head.shards > KV_SHARDS_MAX) {
		unusable(s, "the index is damaged (its head is impossible)");
		return;
	}
	snprintf(why, sizeof(why),
		 "they were in %s for each of %u worker threads, and this server has %s for each of %u (--memory-mb, "
		 "--worker-threads)",
		 kv_size_format(was, one, sizeof(one)), k->head.shards, kv_size_format(limit, other, sizeof(other)),
		 k->shards);
	if (!k->arena_file || k->handed) {
		unusable(s, why);
		return;
	}
	k->moves = k->head.shards != k->shards || was > limit;
}

/* Memory from the service manager or another process that has another size is of no use. */
static void fd_check(struct kvs_kept *k, unsigned i, uint64_t bytes)
{
	char name[32];
	struct stat st;
	if (k->fd[i] < 0 || (i < k->shards && fstat(k->fd[i], &st) == 0 && (uint64_t)st.st_size >= bytes &&
			     (uint64_t)st.st_size - bytes < SLACK))
		return;
	fd_drop(&k->fd[i]);
	stored_name(name, i);
	(void)kv_service_unstore(name);
}

static int file_memory(struct kvs_kept *k, unsigned i, uint64_t bytes, bool anew, struct kv_error *err)
{
	char path[PATH_CAP];
	bool fresh;
	int rc = arena_path(k, i, "", path, err);
	if (rc)
		return rc;
	fd_drop(&k->fd[i]);
	return kv_kept_open(path, bytes, anew, &k->fd[i], &fresh, err) ? kv_fail_more(err, "--arena-file") : 0;
}

/* Whether the file has all bytes that the index describes: values and mark. */
static int former_check(int fd, const char *path, uint64_t limit, struct kv_error *err)
{
	char is[32], was[32];
	struct stat st;
	uint64_t least = kept_bytes(limit, 0);
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size >= least)
		return 0; /* marks_check reads it */
	return kv_fail(err, -KV_EINVAL,
		       "%.200s has %s, and the index describes at least %s: it was shortened after its server ended; "
		       "leave files of --arena-file as they are",
		       path, kv_size_format((uint64_t)st.st_size, is, sizeof(is)),
		       kv_size_format(least, was, sizeof(was)));
}

/* The files that the index describes, of whatever size. */
static void former_find(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	int *fd = k->moves ? k->former : k->fd;
	for (unsigned i = 0; k->found && i < k->head.shards; i++) {
		char path[PATH_CAP];
		struct kv_error err = {0};
		fd_drop(&fd[i]);
		if (arena_path(k, i, "", path, &err) || kv_kept_find(path, &fd[i], &err) ||
		    former_check(fd[i], path, k->head.limit_bytes, &err))
			unusable(s, err.text);
	}
}

/* A server that died while values moved may have left new files. */
static void files_find(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	if (k->found)
		names_take(k);
	news_remove(k);
	former_find(s);
}

/* Only now that the marks are right. */
static int former_resize(struct kvs_kept *k, uint64_t bytes, struct kv_error *err)
{
	int rc = 0;
	for (unsigned i = 0; i < k->shards && rc == 0; i++)
		rc = kv_kept_resize(k->fd[i], k->arena_file, bytes, err);
	return rc ? kv_fail_more(err, "--arena-file") : 0;
}

/* Wait a little until no client of a former server reads there. */
static bool readers_left(int fd)
{
	const struct timespec again = {.tv_nsec = 20000000};
	uint64_t until_ns = kv_now() + READERS_NS;
	while (fd >= 0 && kv_kept_read(fd, UINT64_MAX)) {
		if (kv_now() >= until_ns)
			return true;
		nanosleep(&again, NULL);
	}
	return false;
}

static int memory_renew(struct kvs_server *s, unsigned i, uint64_t bytes, struct kv_error *err)
{
	struct kvs_kept *k = s->opt.kept;
	char name[32];
	if (!readers_left(k->fd[i]))
		return 0;
	k->recover = false;
	kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("keep_replaced", KV_NUMBER("shard", i)),
		 "--keep: shard %u: clients of a former server still read its memory; it is theirs until they end, and "
		 "this server takes other memory",
		 i);
	if (k->arena_file)
		return file_memory(k, i, bytes, true, err);
	fd_drop(&k->fd[i]);
	stored_name(name, i);
	(void)kv_service_unstore(name);
	return 0;
}

/* Whether the memory bears the stamp of the file; and the generation after its last one. */
static void marks_check(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	uint64_t limit = k->found ? k->head.limit_bytes : limit_of(s);
	unsigned count = k->found ? k->head.shards : k->shards;
	const int *fd = k->moves ? k->former : k->fd;
	k->recover = k->places > 0;
	k->died = false;
	for (unsigned i = 0; i < count; i++) {
		struct kept_mark m;
		mark_read(fd[i], limit, &m);
		k->recover &= kept_mark_fits(&m, limit_of(s), i, k->shards) && m.places == k->places &&
			      (i == 0 || m.digest_seed == k->digest_seed);
		k->digest_seed = k->recover ? m.digest_seed : k->digest_seed;
		k->died |= m.magic && m.clean != 1;
		k->generation = KV_MAX(k->generation, m.generation + 1);
		if (k->found && (m.clean != 1 || memcmp(m.stamp, k->head.stamp, KEEP_STAMP) != 0))
			unusable(s, "the memory is not as the index describes it: it is new, or its server did not end "
				    "in order");
	}
	k->recover &= !k->found;
}

static int memory_take(struct kvs_server *s, uint64_t bytes, struct kv_error *err)
{
	struct kvs_kept *k = s->opt.kept;
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < k->shards && k->arena_file; i++)
		rc = file_memory(k, i, bytes, false, err);
	if (rc == 0)
		marks_check(s);
	for (unsigned i = 0; rc == 0 && i < k->shards; i++)
		rc = memory_renew(s, i, bytes, err);
	return rc;
}

/* Files that values move to. */
static int fresh_make(struct kvs_kept *k, uint64_t bytes, struct kv_error *err)
{
	char path[PATH_CAP];
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < k->shards; i++) {
		fd_drop(&k->fd[i]);
		rc = arena_path(k, i, ".new", path, err);
		if (rc == 0)
			rc = kv_kept_make(path, bytes, &k->fd[i], err);
	}
	return rc ? kv_fail_more(err, "--arena-file") : 0;
}

static void moved_log(const struct kvs_server *s, uint64_t begun_ns)
{
	const struct kvs_kept *k = s->opt.kept;
	uint64_t took_ns = kv_now() - begun_ns, dropped = 0;
	char took[32];
	for (unsigned i = 0; i < k->shards; i++)
		dropped += k->dropped[i];
	kv_event(s->opt.log, KV_LOG_INFO,
		 KV_EVENT("keep_moved", KV_NUMBER("dropped", dropped), KV_NUMBER("us", took_ns / 1000)),
		 "--keep: the values are copied to this server's memory and worker threads, after %s; %llu have "
		 "expired or do not fit",
		 kv_duration_format(took_ns, took, sizeof(took)), (unsigned long long)dropped);
}

static int moved_open(struct kvs_kept *k, struct kv_error *err)
{
	int rc;
	kvs_kept_step("committed");
	keep_close(&k->file);
	rc = keep_open(k->keep, &k->file, &k->head, err);
	if (rc)
		return rc;
	names_take(k);
	moves_end(k);
	return 0;
}

/* The values of another geometry become those of this one. */
static void values_move(struct kvs_server *s, uint64_t bytes)
{
	struct kvs_kept *k = s->opt.kept;
	struct keep_clock clock = keep_clock_of(&k->head, loop_now(s->control), kv_wall_now());
	bool read[KV_SHARDS_MAX];
	struct kept_mark mark;
	struct kept_move m = {.file = k->file,
			      .head = &k->head,
			      .former = k->former,
			      .read = read,
			      .mark = &mark,
			      .fresh = k->fd,
			      .keep = k->keep,
			      .arena_file = k->arena_file,
			      .limit_bytes = limit_of(s),
			      .places = k->places,
			      .shards = k->shards,
			      .passed_ns = clock.passed_max};
	struct kv_error err = {0};
	uint64_t begun_ns = kv_now();
	int rc = fresh_make(k, bytes, &err);
	for (unsigned i = 0; i < k->head.shards && rc == 0; i++)
		read[i] = readers_left(k->former[i]);
	mark_read(k->former[0], k->head.limit_bytes, &mark);
	if (rc == 0)
		rc = kept_move(s, &m, k->dropped, &err);
	if (rc == 0)
		rc = moved_open(k, &err);
	if (rc == 0) {
		moved_log(s, begun_ns);
		return;
	}
	for (unsigned i = 0; i < k->shards; i++)
		fd_drop(&k->fd[i]);
	unusable(s, err.text);
}

static int memory_find(struct kvs_server *s, struct kv_error *err)
{
	struct kvs_kept *k = s->opt.kept;
	uint64_t bytes = kept_bytes(limit_of(s), k->places);
	for (unsigned i = 0; i < KV_SHARDS_MAX && !k->arena_file; i++)
		fd_check(k, i, bytes);
	k->generation = 1;
	file_find(s);
	geometry_check(s);
	if (k->arena_file)
		files_find(s);
	if (k->found)
		marks_check(s);
	if (k->moves)
		values_move(s, bytes);
	if (!k->found)
		return memory_take(s, bytes, err);
	return k->arena_file ? former_resize(k, bytes, err) : 0;
}

int kept_prepare(struct kvs_server *s, struct kv_error *err)
{
	struct kvs_kept *k = s->opt.kept;
	int rc = 0;
	if (!k)
		return 0;
	k->shards = s->opt.shards;
	k->places = places_of(&s->opt);
	if (!k->handed)
		rc = memory_find(s, err);
	for (unsigned i = 0; i < k->shards; i++)
		k->shard[i] = (struct kept_options){.fd = k->fd[i],
						    .generation = k->generation,
						    .places = k->places,
						    .former = k->found ? k->head.limit_bytes : 0};
	if (k->found || k->handed || k->recover)
		s->shard_seed = k->found ? k->head.digest_seed : k->digest_seed;
	return rc;
}

const struct kept_options *kept_of_shard(const struct kvs_server *s, unsigned shard)
{
	return s->opt.kept ? &s->opt.kept->shard[shard] : NULL;
}

/* A memfd ends with the last descriptor: the service manager may hold one. */
static void memfds_store(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	int rc = 1;
	for (unsigned i = 0; i < k->shards; i++) {
		char name[32];
		stored_name(name, i);
		if (k->fd[i] >= 0)
			continue; /* from there */
		k->fd[i] = dup(s->shard[i]->area.fd);
		rc = kv_service_store(name, s->shard[i]->area.fd);
	}
	if (rc == 1 && k->fd[0] >= 0 && !getenv("NOTIFY_SOCKET"))
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("keep_volatile"),
			 "--keep: without --arena-file, and without a service manager that keeps descriptors, the "
			 "values survive this process only if another server takes its place (--handover)");
}

void kept_made(struct kvs_server *s)
{
	if (s->opt.kept && !s->opt.kept->arena_file)
		memfds_store(s);
}

/* The running server has ended, or died: then its clients may still read the memory, and it is registered already. */
static int handed_find(struct kvs_server *s, struct kv_error *err)
{
	struct kvs_kept *k = s->opt.kept;
	file_find(s);
	geometry_check(s);
	marks_check(s);
	k->handed = false;
	for (unsigned i = 0; i < k->shards && !k->found; i++)
		if (readers_left(k->fd[i]))
			return kv_fail(
				err, -KV_EBUSY,
				"--handover: the running server died, and its clients still read its memory: start "
				"again, with other memory");
	return 0;
}

static void restored_log(const struct kvs_server *s, uint64_t begun_ns)
{
	uint64_t blocks = 0, dropped = 0, held = 0, took_ns = kv_now() - begun_ns;
	char took[32];
	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct keep_rest *rest = &s->shard[i]->kept.rest;
		blocks += rest->blocks;
		dropped += rest->dropped;
		held += rest->held_count;
	}
	kv_event(s->opt.log, KV_LOG_INFO,
		 KV_EVENT("keep_restored", KV_NUMBER("values", blocks), KV_NUMBER("dropped", dropped),
			  KV_NUMBER("held", held), KV_NUMBER("us", took_ns / 1000)),
		 "--keep: %llu values are back, after %s; %llu have expired or exceed --max-values",
		 (unsigned long long)blocks, kv_duration_format(took_ns, took, sizeof(took)),
		 (unsigned long long)dropped);
}

static void recover_all(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	uint64_t found = 0;
	for (unsigned i = 0; i < k->shards; i++) {
		if (shard_kept_recover(s->shard[i]))
			empty_log(s, KV_LOG_WARN, "no memory to recover the values");
		found += s->shard[i]->kept.recover.found;
	}
	kv_event(s->opt.log, KV_LOG_INFO, KV_EVENT("keep_recovers", KV_NUMBER("values", found)),
		 "--recover: the last server did not end in order: its %llu values come back as their checksums are "
		 "verified",
		 (unsigned long long)found);
	if (s->opt.members)
		doubt_restored(s, shard_kept_silent_ns(s->shard[0]));
}

struct shard_restore {
	struct kvs_kept *kept;
	struct shard *shard;
	uint64_t wall_ns;
	int rc;
	struct kv_error err;
};

static void *restore_run(void *item)
{
	struct shard_restore *r = item;
	r->rc = shard_kept_restore(r->shard, r->kept->file, &r->kept->head, r->wall_ns, &r->err);
	return NULL;
}

/* One whose part is unusable stays empty. */
static void restore_all(struct kvs_server *s, uint64_t wall_ns)
{
	struct shard_restore all[KV_SHARDS_MAX];
	for (unsigned i = 0; i < s->opt.shards; i++)
		all[i] = (struct shard_restore){.kept = s->opt.kept, .shard = s->shard[i], .wall_ns = wall_ns};
	works_run(restore_run, all, sizeof(all[0]), s->opt.shards);
	for (unsigned i = 0; i < s->opt.shards; i++) {
		s->shard[i]->kept.rest.dropped += s->opt.kept->dropped[i];
		if (all[i].rc)
			empty_log(s, KV_LOG_WARN, all[i].err.text);
	}
}

int kept_restore(struct kvs_server *s, struct kv_error *err)
{
	struct kvs_kept *k = s->opt.kept;
	uint64_t begun_ns = kv_now(), wall_ns = kv_wall_now();
	int rc = k && k->handed ? handed_find(s, err) : 0;
	if (rc || !k)
		return rc;
	for (unsigned i = 0; i < k->shards && !k->recover; i++)
		shard_kept_records(s->shard[i]);
	if (k->recover)
		recover_all(s);
	if (!k->found)
		return 0;
	restore_all(s, wall_ns);
	keep_close(&k->file);
	k->found = false;
	restored_log(s, begun_ns);
	/* Other members may have deleted keys since. */
	if (s->opt.members)
		doubt_restored(s, keep_clock_of(&k->head, loop_now(s->control), wall_ns).passed_max);
	return 0;
}

bool kept_former_died(const struct kvs_server *s)
{
	return s->opt.kept && s->opt.kept->died;
}

bool kept_handed(const struct kvs_server *s)
{
	return s->opt.kept && s->opt.kept->handed;
}

void kept_begin(struct kvs_server *s)
{
	struct kvs_kept *k = s->opt.kept;
	if (!k)
		return;
	for (unsigned i = 0; i < k->shards; i++)
		shard_kept_begin(s->shard[i], s->doubts.state != DOUBT_OVER);
	unlink(k->keep);
}

/* ---- end ---- */

static int head_make(const struct kvs_server *s, struct keep_head *out, struct kv_error *err)
{
	int rc = kv_entropy_fill(s->opt.entropy, out->stamp, sizeof(out->stamp));
	out->limit_bytes = limit_of(s);
	out->digest_seed = s->shard_seed;
	out->now_ns = kv_clock_now(s->opt.clock);
	out->wall_ns = kv_wall_now();
	out->shards = s->opt.shards;
	return rc ? kv_fail(err, rc, "no entropy for the index's stamp: %s", kv_strerror(rc)) : 0;
}

struct shard_save {
	struct keep_out *out;
	struct shard *shard;
};

static void *save_run(void *item)
{
	const struct shard_save *save = item;
	struct keep_writer *w = keep_writer_open(save->out, save->shard->opt.index);
	shard_kept_save(save->shard, w);
	keep_writer_close(&w);
	return NULL;
}

int kvs_server_keep(struct kvs_server *s, uint64_t *out_values, struct kv_error *err)
{
	struct shard_save all[KV_SHARDS_MAX];
	struct keep_head head = {0};
	struct keep_out *out = NULL;
	int rc = head_make(s, &head, err);
	if (rc == 0)
		rc = keep_create(s->opt.keep, &head, &out, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < s->opt.shards; i++)
		all[i] = (struct shard_save){.out = out, .shard = s->shard[i]};
	works_run(save_run, all, sizeof(all[0]), s->opt.shards);
	rc = keep_commit(&out, err);
	*out_values = 0;
	for (unsigned i = 0; rc == 0 && i < s->opt.shards; i++) {
		*out_values += index_count(&s->shard[i]->store.index);
		shard_kept_mark(s->shard[i], head.stamp);
	}
	return rc;
}
