/* SPDX-License-Identifier: Apache-2.0 */
/* saved.c -- see saved.h. DIR/view is
 *
 *   0 u64 magic   8 u64 checksum of the rest   16 u64 time in ms   24 u64 origin   32 a VIEW message (wire.h)
 *
 * VIEW's decoder checks each member, so a file is no more powerful than a peer. DIR/view.new is renamed over it after
 * the sync: a crash leaves the former view or the new one. A disk may block for long, and membership.c must renew
 * leases, so a thread writes the file. Thread and caller hold a reference each. */
#include "kvserver/member/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/wire.h"

enum { HEAD = 32, PATH_CAP = 4096 };

#define MAGIC 0x314b5645495652ull /* "RVIEVK1" */

uint64_t saved_origin(const char *members, const char *cluster)
{
	return kv_hash_key(cluster, strlen(cluster), kv_hash_key(members, strlen(members), WIRE_VERSION));
}

static bool path_make(char path[PATH_CAP], const char *dir, const char *name)
{
	return snprintf(path, PATH_CAP, "%s/%s", dir, name) < PATH_CAP;
}

/* ---- read ---- */

static int view_decode(const uint8_t *bytes, size_t len, uint64_t origin, struct kv_view *out, uint64_t *out_saved_ms,
		       const char **why)
{
	struct wire_ctrl_msg m;
	if (len < HEAD || kv_get64(bytes) != MAGIC || kv_get64(bytes + 8) != kv_hash_key(bytes + 16, len - 16, 0)) {
		*why = "it is damaged, or not a saved view";
		return -KV_EINVAL;
	}
	*out_saved_ms = kv_get64(bytes + 16);
	if (kv_get64(bytes + 24) != origin) {
		*why = "it belongs to another --members or --cluster, or to another release";
		return -KV_EINVAL;
	}
	if (wire_ctrl_decode(bytes + HEAD, len - HEAD, &m) || m.type != WIRE_CTRL_VIEW || m.view.epoch == 0 ||
	    m.view.count == 0) {
		*why = "it has no members that can be read";
		return -KV_EINVAL;
	}
	if (m.view.epoch > MEMBERS_EPOCH_MAX) {
		*why = "no view has such an epoch";
		return -KV_EINVAL;
	}
	*why = "no memory";
	return wire_view_take(&m.view, out);
}

/* The bytes of the file, malloc'ed. */
static int file_bytes(const char *path, uint8_t **out, size_t *out_len)
{
	const size_t cap = HEAD + KV_CTRL_MAX + 1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	uint8_t *bytes = fd < 0 ? NULL : malloc(cap);
	size_t len = 0;
	ssize_t n = 1;
	if (fd < 0)
		return errno == ENOENT ? -KV_ENOTFOUND : -errno;
	while (bytes && n > 0 && len < cap) {
		n = read(fd, bytes + len, cap - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (!bytes || n < 0)
		rc = bytes ? -errno : -KV_ENOMEM;
	close(fd);
	if (rc) {
		free(bytes);
		return rc;
	}
	*out = bytes;
	*out_len = len;
	return 0;
}

int saved_read(const char *dir, uint64_t origin, uint64_t now_ms, struct kv_view *out, uint64_t *out_age_ms,
	       struct kv_error *err)
{
	char path[PATH_CAP];
	const char *why = NULL;
	uint64_t saved_ms = 0;
	uint8_t *bytes = NULL;
	size_t len = 0;
	int rc = path_make(path, dir, "view") ? file_bytes(path, &bytes, &len) : -ENAMETOOLONG;
	if (rc == -KV_ENOTFOUND)
		return rc;
	if (rc == 0)
		rc = view_decode(bytes, len, origin, out, &saved_ms, &why);
	free(bytes);
	if (rc)
		return kv_fail(err, rc, "%s is not used: %s", path, why ? why : kv_strerror(rc));
	*out_age_ms = now_ms > saved_ms ? now_ms - saved_ms : 0;
	if (*out_age_ms <= SAVED_AGE_MAX_MS)
		return 0;
	kv_view_fini(out);
	return kv_fail(err, -KV_EINVAL, "%s is not used: it was saved %llu hours ago, and is valid for %llu", path,
		       (unsigned long long)(*out_age_ms / 3600000), SAVED_AGE_MAX_MS / 3600000);
}

/* ---- write ---- */

static int view_encode(const struct kv_view *v, uint64_t origin, uint64_t now_ms, uint8_t **out, size_t *out_len)
{
	size_t cap = v->count * (size_t)WIRE_MEMBER_BYTES + 64;
	uint8_t *bytes = malloc(HEAD + cap), *members = malloc(cap);
	int len = bytes && members ? wire_view_pack(v, members, cap) : -KV_ENOMEM;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_VIEW};
	if (len >= 0) {
		m.view = (struct wire_view){.source = v->source,
					    .epoch = v->epoch,
					    .count = v->count,
					    .members = members,
					    .members_len = (uint32_t)len,
					    .packed = true};
		len = wire_ctrl_encode(&m, bytes + HEAD, cap);
	}
	free(members);
	if (len < 0) {
		free(bytes);
		return len;
	}
	*out = bytes;
	*out_len = HEAD + (size_t)len;
	kv_put64(bytes, MAGIC);
	kv_put64(bytes + 16, now_ms);
	kv_put64(bytes + 24, origin);
	kv_put64(bytes + 8, kv_hash_key(bytes + 16, *out_len - 16, 0));
	return 0;
}

static int file_write(const char *path, const uint8_t *bytes, size_t len)
{
	/* Neither follow nor wait for a planted file: a FIFO would block the thread for ever. */
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600), rc = 0;
	ssize_t wrote = 0;
	struct stat st;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -ENXIO;
	else
		wrote = write(fd, bytes, len);
	if (rc == 0 && wrote != (ssize_t)len)
		rc = wrote < 0 ? -errno : -ENOSPC;
	else if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

int saved_write(const char *dir, uint64_t origin, uint64_t now_ms, const struct kv_view *view, struct kv_error *err)
{
	char path[PATH_CAP], fresh[PATH_CAP];
	uint8_t *bytes = NULL;
	size_t len = 0;
	int rc = path_make(path, dir, "view") && path_make(fresh, dir, "view.new") ? 0 : -ENAMETOOLONG;
	if (rc == 0)
		rc = view_encode(view, origin, now_ms, &bytes, &len);
	if (rc == 0)
		rc = file_write(fresh, bytes, len);
	if (rc == 0 && rename(fresh, path) < 0)
		rc = -errno;
	free(bytes);
	return rc ? kv_fail(err, rc, "the view cannot be saved in %s: %s", dir, kv_strerror(rc)) : 0;
}

/* ---- on a thread ---- */

struct saving {
	char dir[PATH_CAP];
	uint64_t origin;
	struct kv_view view; /* with rc and error: the thread's until `done` */
	int rc;
	struct kv_error error;
	pthread_mutex_t lock; /* done, refs */
	bool done;
	unsigned refs;
};

static void unref(struct saving *s)
{
	bool last;
	pthread_mutex_lock(&s->lock);
	last = --s->refs == 0;
	pthread_mutex_unlock(&s->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&s->lock);
	kv_view_fini(&s->view);
	free(s);
}

static void *saving_run(void *arg)
{
	struct saving *s = arg;
	pthread_setname_np(pthread_self(), "kv-save");
	s->rc = saved_write(s->dir, s->origin, members_now_ms(), &s->view, &s->error);
	pthread_mutex_lock(&s->lock);
	s->done = true;
	pthread_mutex_unlock(&s->lock);
	unref(s);
	return NULL;
}

int saving_start(const char *dir, uint64_t origin, const struct kv_view *view, struct saving **out)
{
	struct saving *s = calloc(1, sizeof(*s));
	pthread_t thread;
	int rc;
	if (!s)
		return -KV_ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->refs = 1;
	s->origin = origin;
	snprintf(s->dir, sizeof(s->dir), "%s", dir);
	rc = members_copy(view, &s->view);
	if (rc == 0) {
		s->refs = 2;
		rc = -pthread_create(&thread, NULL, saving_run, s);
		if (rc)
			s->refs = 1; /* no thread has the other one */
	}
	if (rc) {
		unref(s);
		return rc;
	}
	pthread_detach(thread);
	*out = s;
	return 0;
}

bool saving_take(struct saving **saving, int *out_rc, struct kv_error *err)
{
	struct saving *s = *saving;
	bool done;
	pthread_mutex_lock(&s->lock);
	done = s->done;
	pthread_mutex_unlock(&s->lock);
	if (!done)
		return false;
	*out_rc = s->rc;
	*err = s->error;
	saving_drop(saving);
	return true;
}

void saving_drop(struct saving **s)
{
	if (*s)
		unref(*s);
	*s = NULL;
}
