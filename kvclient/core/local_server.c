/* SPDX-License-Identifier: Apache-2.0 */
/* local_server.c -- connections to servers on this host, their mappings, and leases.
 *
 * References are counted with atomics, since any thread may give back a lease. A mutex guards only the making and the
 * end of mappings. A child of fork() inherits the memory, but gives back nothing: the channel is its parent's. It
 * closes its copies of the descriptors before fork() returns, so a list of all connections of the process is held
 * across fork(). */
#include "kvclient/core/local_server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/wire.h"

enum {
	DRAIN_MAX = LOCAL_RING_BYTES / 64, /* a lying server can refill its ring without end */
	FILES_EACH = 2,                    /* the socket, and the engine's epoll descriptor */
	FILES_MOMENT = LOCAL_FDS - 1       /* of a shard until they are mapped; its bell stays */
};

/* ---- mappings ---- */

int kc_home_make(struct kc_home **out)
{
	struct kc_home *h = calloc(1, sizeof(*h));
	if (!h)
		return -KV_ENOMEM;
	pthread_mutex_init(&h->lock, NULL);
	kv_list_init(&h->mappings);
	kv_list_init(&h->left);
	h->refs = 1;
	*out = h;
	return 0;
}

/* Threads may join servers at the same time, so the descriptors count before they are open. */
static bool home_enter(struct kc_home *home, unsigned files, uint64_t files_max)
{
	bool fit;
	pthread_mutex_lock(&home->lock);
	fit = home->files + files + FILES_MOMENT <= files_max;
	if (fit) {
		home->files += files;
		home->refs++;
	}
	pthread_mutex_unlock(&home->lock);
	return fit;
}

static void home_leave(struct kc_home *home, unsigned files)
{
	bool last;
	pthread_mutex_lock(&home->lock);
	home->files -= files;
	last = --home->refs == 0;
	pthread_mutex_unlock(&home->lock);
	if (!last)
		return;
	KV_ASSERT(kv_list_empty(&home->mappings) && kv_list_empty(&home->left) && home->files == 0);
	pthread_mutex_destroy(&home->lock);
	free(home);
}

void kc_home_unref(struct kc_home *home)
{
	if (home)
		home_leave(home, 0);
}

static struct kc_mapping *mapping_find(struct kc_home *h, const struct stat *st, uint64_t len_bytes)
{
	KV_LIST_EACH (n, &h->mappings) {
		struct kc_mapping *m = KV_LIST_ENTRY(n, struct kc_mapping, node);
		if (m->ino == (uint64_t)st->st_ino && m->dev == (uint64_t)st->st_dev && m->len_bytes == len_bytes)
			return m;
	}
	return NULL;
}

static int mapping_make(int fd, const struct stat *st, uint64_t len_bytes, struct kc_mapping **out,
			struct kv_error *err)
{
	struct kc_mapping *m = calloc(1, sizeof(*m));
	void *base;
	int rc =
		m ? local_map(fd, len_bytes, false, &base, err) : kv_fail(err, -KV_ENOMEM, "no memory for its mapping");
	if (rc < 0) {
		free(m);
		return rc;
	}
	m->base = base;
	m->dev = (uint64_t)st->st_dev;
	m->ino = (uint64_t)st->st_ino;
	m->len_bytes = len_bytes;
	*out = m;
	return 0;
}

static int mapping_take(struct kc_home *h, int fd, uint64_t len_bytes, struct kc_mapping **out, struct kv_error *err)
{
	struct kc_mapping *m;
	struct stat st;
	int rc = 0;
	if (fstat(fd, &st) != 0)
		return kv_fail(err, -errno, "the memory's descriptor cannot be examined: %s", strerror(errno));
	pthread_mutex_lock(&h->lock);
	m = mapping_find(h, &st, len_bytes);
	if (!m) {
		rc = mapping_make(fd, &st, len_bytes, &m, err);
		if (rc == 0)
			kv_list_add_tail(&h->mappings, &m->node);
	}
	if (rc == 0)
		m->users++;
	pthread_mutex_unlock(&h->lock);
	if (rc == 0)
		*out = m;
	return rc;
}

static void mapping_give(struct kc_home *h, struct kc_mapping *m)
{
	bool last;
	if (!m)
		return;
	pthread_mutex_lock(&h->lock);
	last = --m->users == 0;
	if (last)
		kv_list_del(&m->node);
	pthread_mutex_unlock(&h->lock);
	if (!last)
		return;
	local_unmap(m->base, m->len_bytes);
	free(m);
}

/* ---- fork ---- */

static void local_forked(struct kc_forked *f)
{
	struct kc_local *l = KV_CONTAINER(f, struct kc_local, forked);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	for (unsigned i = 0; i < l->shards; i++)
		if (l->shard[i].channel)
			local_channel_forked(l->shard[i].channel);
}

/* ---- connections ---- */

int kc_local_make(struct kc_home *home, unsigned shards, uint64_t files_max, struct kc_local **out)
{
	struct kc_local *l = calloc(1, sizeof(*l) + shards * sizeof(l->shard[0]));
	if (!l)
		return -KV_ENOMEM;
	l->files = FILES_EACH + shards;
	if (!home_enter(home, l->files, files_max)) {
		free(l);
		return -KV_ELIMIT;
	}
	atomic_init(&l->refs, 1);
	l->born = atomic_load_explicit(&kc_forks, memory_order_relaxed);
	kv_list_init(&l->left_node);
	kv_list_init(&l->forked.node);
	l->forked.close = local_forked;
	l->home = home;
	l->fd = -1;
	l->shards = shards;
	*out = l;
	return 0;
}

void kc_local_fd(struct kc_local *l, int fd)
{
	kc_fork_hold();
	l->fd = fd;
	kc_fork_add(&l->forked);
	kc_fork_unhold();
}

static void local_free(struct kc_local *l)
{
	pthread_mutex_lock(&l->home->lock);
	kv_list_del(&l->left_node);
	pthread_mutex_unlock(&l->home->lock);
	for (unsigned i = 0; i < l->shards; i++) {
		mapping_give(l->home, l->shard[i].arena);
		local_unmap(l->shard[i].landing, l->shard[i].landing_bytes);
	}
	kc_fork_hold();
	kv_list_del(&l->forked.node);
	for (unsigned i = 0; i < l->shards; i++)
		local_channel_close(&l->shard[i].channel);
	/* Last: the server takes the end of the socket for the end of all leases. */
	if (l->fd >= 0)
		close(l->fd);
	kc_fork_unhold();
	home_leave(l->home, l->files);
	free(l);
}

void kc_local_unref(struct kc_local *l)
{
	if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1)
		local_free(l);
}

static int shard_map(struct kc_local *l, struct kc_local_shard *s, struct local_shard *received, struct kv_error *err)
{
	void *landing;
	int rc;
	kc_fork_hold();
	rc = local_channel_open(received, &s->channel, err);
	kc_fork_unhold();
	if (rc == 0)
		rc = mapping_take(l->home, received->fd[LOCAL_ARENA], received->arena_bytes, &s->arena, err);
	if (rc < 0 || received->landing_bytes == 0)
		return rc;
	rc = local_map(received->fd[LOCAL_LANDING], received->landing_bytes, true, &landing, err);
	if (rc < 0)
		return rc;
	s->landing = landing;
	s->landing_bytes = received->landing_bytes;
	return 0;
}

int kc_local_shard_take(struct kc_local *l, unsigned shard, const uint8_t *proof, struct local_shard *received,
			struct kv_error *err)
{
	int rc;
	if (!kv_equal_secret(received->proof, proof, sizeof(received->proof)))
		rc = kv_fail(err, -KV_EPROTO, "its Unix socket belongs to another process");
	else if (received->shard != shard || received->shards != l->shards)
		rc = kv_fail(err, -KV_EPROTO, "it passed shard %u of %u instead of shard %u of %u", received->shard,
			     received->shards, shard, l->shards);
	else
		rc = shard_map(l, &l->shard[shard], received, err);
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		if (received->fd[i] >= 0)
			close(received->fd[i]);
	return rc;
}

/* ---- after the attachment ---- */

void kc_local_reply_drop(struct kc_local *l, unsigned shard, const struct wire_reply *p)
{
	if (p->type == WIRE_GET && p->flags & WIRE_GET_LEASED)
		local_release(l->shard[shard].channel, p->get.lease);
}

void kc_local_frame_drop(struct kc_local *l, unsigned shard, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply reply;
	if (wire_frame_open(&reader, data, len, &frame) < 0)
		return;
	while (wire_reply_next(&reader, &reply) == 1)
		kc_local_reply_drop(l, shard, &reply);
}

/* A channel has one reader at a time. Frames that come behind it wait for the next one. */
static void drain(struct kc_local *l)
{
	uint8_t frame[KV_MSG_MAX];
	uint32_t len;
	if (atomic_exchange_explicit(&l->drained, true, memory_order_acquire))
		return;
	for (unsigned i = 0; i < l->shards; i++)
		for (unsigned n = 0; n < DRAIN_MAX && local_receive(l->shard[i].channel, frame, &len) == 1; n++)
			kc_local_frame_drop(l, i, frame, len);
	atomic_store_explicit(&l->drained, false, memory_order_release);
}

void kc_local_left(struct kc_local *l)
{
	pthread_mutex_lock(&l->home->lock);
	kv_list_add_tail(&l->home->left, &l->left_node);
	pthread_mutex_unlock(&l->home->lock);
	atomic_store_explicit(&l->left, true, memory_order_release);
	drain(l);
	kc_local_unref(l);
}

/* The lock keeps those in the list. */
void kc_home_drain(struct kc_home *home)
{
	pthread_mutex_lock(&home->lock);
	KV_LIST_EACH (n, &home->left) {
		struct kc_local *l = KV_LIST_ENTRY(n, struct kc_local, left_node);
		if (atomic_load_explicit(&l->left, memory_order_acquire))
			drain(l);
	}
	pthread_mutex_unlock(&home->lock);
}

/* ---- leases ---- */

int kc_lease_take(struct kc_local *l, unsigned shard, uint64_t id, uint64_t at, uint64_t len, struct kc_lease *out)
{
	const struct kc_mapping *m = l->shard[shard].arena;
	if (len > m->len_bytes || at > m->len_bytes - len)
		return -KV_EPROTO;
	atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
	*out = (struct kc_lease){.local = l, .at = m->base + at, .id = id, .shard = shard};
	return 0;
}

void kc_lease_drop(struct kc_lease *lease)
{
	struct kc_local *l = lease->local;
	if (!l)
		return;
	local_release(l->shard[lease->shard].channel, lease->id);
	*lease = (struct kc_lease){0};
	if (KV_UNLIKELY(atomic_load_explicit(&l->left, memory_order_acquire)))
		drain(l);
	kc_local_unref(l);
}
