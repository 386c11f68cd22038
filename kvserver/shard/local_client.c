/* SPDX-License-Identifier: Apache-2.0 */
/* local_client.c -- clients on the same host: the shard's end of their channels, and the life of their leases.
 *
 *   open --> PASSING --begin--> SERVING --the attachment ends--> HOLDING
 *               |                  |                                |
 *               +------------------+------the socket closes---------+--> CLOSING --nothing is left--> freed
 *
 * A local client has a Unix socket (conn/local_socket.c). The socket, not the attachment, holds the leases: they
 * outlive a reconnect, and the kernel closes the socket of a process that dies. PASSING: the client may fail to map it,
 * so the attachment uses the fabric, and goes on if the socket closes. SERVING: the attachment's frames travel in the
 * channel. HOLDING: the client gives leases back, and nothing else comes; the landing area is unmapped, since no
 * request can name it any more. CLOSING: the leases end, LOCALS_AT_ONCE in a turn, and the attachment leaves.
 *
 * The memory of the channel is the client's to scribble on: local/ bounds what it reads there, and each released number
 * is looked up among the leases of this client. */
#include "kvserver/shard/local_client.h"

#include <stdlib.h>
#include <unistd.h>

#include "kvserver/shard/attachment.h"
#include "kvserver/shard/loopcall.h"
#include "local/local.h"

enum { LOCALS_AT_ONCE = 1024, LOCAL_LANDING_MAX = 8 << 20 };

/* ---- the landing area ---- */

static void landing_fd_close(struct shard_local *l)
{
	if (l->landing.fd >= 0)
		close(l->landing.fd);
	l->landing.fd = -1;
}

/* Without room there is none, and PUTs come over the fabric. */
static int local_landing_open(struct shard_local *l, struct kv_error *err)
{
	struct shard_locals *all = &l->shard->locals;
	uint64_t used = landings_bytes(l->shard);
	uint64_t size = landing_size(all->landing_limit - KV_MIN(all->landing_limit, used), LOCAL_LANDING_MAX);
	void *base = NULL;
	int rc;
	l->landing.fd = -1;
	if (size == 0)
		return 0;
	rc = kv_memfd_make("kvrail-landing", size, &l->landing.fd, err);
	if (rc)
		return rc;
	rc = local_map(l->landing.fd, size, false, &base, err);
	if (rc) {
		landing_fd_close(l);
		return rc;
	}
	l->landing.base = base;
	l->landing.bytes = size;
	all->landing_bytes += size;
	return 0;
}

static void local_landing_close(struct shard_local *l)
{
	if (l->landing.bytes == 0)
		return;
	local_unmap(l->landing.base, l->landing.bytes);
	landing_fd_close(l);
	l->shard->locals.landing_bytes -= l->landing.bytes;
	l->landing.base = NULL;
	l->landing.bytes = 0;
}

/* ---- open ---- */

static void arena_fd_close(struct shard_local *l)
{
	if (l->arena_fd >= 0)
		close(l->arena_fd);
	l->arena_fd = -1;
}

static void local_free(struct shard_local *l)
{
	arena_fd_close(l);
	local_channel_close(&l->channel);
	local_landing_close(l);
	free(l);
}

/* Of kept memory each client gets a descriptor of its own: a later server knows by it whether the client still reads
 * there (host/kept.c). */
static int local_arena_open(struct shard_local *l, struct kv_error *err)
{
	const struct shard *s = l->shard;
	if (!s->area.kept)
		return 0;
	l->arena_fd = kv_kept_reader(&s->area, s->opt.kept->generation);
	return l->arena_fd < 0
		       ? kv_fail(err, l->arena_fd, "a descriptor of the kept memory: %s", kv_strerror(l->arena_fd))
		       : 0;
}

static int local_make(struct shard_local *l, struct kv_error *err)
{
	int rc = local_channel_make(&l->channel, err);
	if (rc == 0)
		rc = local_arena_open(l, err);
	if (rc)
		return rc;
	return local_landing_open(l, err);
}

int shard_local_open(struct shard_attachment *s, struct shard_local **out, struct kv_error *err)
{
	struct shard *shard = s->shard;
	struct shard_local *l;
	int rc;
	if (!shard->te || s->state != ATTACHMENT_OPEN)
		return kv_fail(err, -KV_ECLOSED, "the session ends");
	if (!shard->area.shared)
		return kv_fail(err, -KV_ENOTSUP, "the memory for values is private");
	if (s->local || s->passing)
		return kv_fail(err, -KV_EEXIST, "the session has a channel");
	l = calloc(1, sizeof(*l));
	if (!l)
		return kv_fail(err, -KV_ENOMEM, "no memory for a local client");
	l->shard = shard;
	l->attachment = s;
	l->client_id = s->client_id;
	l->landing.fd = -1;
	l->arena_fd = -1;
	kv_list_init(&l->holder.leases);
	rc = local_make(l, err);
	if (rc) {
		local_free(l);
		return rc;
	}
	s->passing = l;
	l->place = ++shard->locals.places;
	kv_list_add_tail(&shard->locals.all, &l->node);
	shard->locals.count++;
	*out = l;
	return 0;
}

void shard_local_fds(const struct shard_local *l, struct local_shard *out)
{
	*out = (struct local_shard){.shard = l->shard->opt.index,
				    .shards = KV_MAX(l->shard->opt.shards, 1u),
				    .arena_bytes = l->shard->area.len_bytes,
				    .landing_bytes = l->landing.bytes};
	local_channel_fds(l->channel, out);
	out->fd[LOCAL_ARENA] = l->arena_fd >= 0 ? l->arena_fd : l->shard->area.fd;
	out->fd[LOCAL_LANDING] = l->landing.bytes ? l->landing.fd : out->fd[LOCAL_CHANNEL];
}

void shard_local_passed(struct shard_local *l)
{
	local_channel_passed(l->channel);
	landing_fd_close(l);
	arena_fd_close(l);
}

int shard_local_begin(struct shard_local *l, struct kv_error *err)
{
	struct shard_attachment *s = l->attachment;
	int rc;
	if (!s || !l->shard->te)
		return kv_fail(err, -KV_ECLOSED, "the session ends");
	KV_ASSERT(s->passing == l && !s->local); /* rule 60 */
	rc = te_peer_local(s->peer, l->channel);
	if (rc)
		return kv_fail(err, rc, "the client's fabric peer takes no channel: %s", kv_strerror(rc));
	landing_leave(s); /* the area in shared memory takes its place */
	s->passing = NULL;
	s->local = l;
	return 0;
}

/* ---- the end ---- */

static void local_active(struct shard_local *l, bool more)
{
	if (l->more == more)
		return;
	l->more = more;
	l->shard->locals.active += more ? 1 : -1u;
}

static void local_spent(struct shard_local *l)
{
	if (!l->attachment && l->holder.count == 0)
		atomic_store_explicit(&l->spent, true, memory_order_relaxed);
}

static bool local_serves(const struct shard_local *l)
{
	return l->attachment && l->attachment->local == l;
}

static void local_detach(struct shard_local *l)
{
	struct shard_attachment *s = l->attachment;
	KV_ASSERT(s->local == l || s->passing == l); /* rule 60 */
	if (s->local == l)
		s->local = NULL;
	else
		s->passing = NULL;
	l->attachment = NULL;
	local_spent(l);
	if (l->gone)
		local_active(l, true);
}

void shard_local_leave(struct shard_attachment *s)
{
	if (s->passing)
		local_detach(s->passing);
	if (!s->local)
		return;
	if (s->shard->te)
		te_peer_local_end(s->peer);
	local_landing_close(s->local);
	local_detach(s->local);
}

void shard_local_close(struct shard_local *l, struct call *gone)
{
	l->gone = gone;
	local_active(l, true);
	if (l->attachment && !local_serves(l))
		local_detach(l); /* which goes on over the fabric */
	if (l->attachment && l->shard->te)
		te_peer_local_end(l->attachment->peer);
}

static int local_closing(struct shard_local *l)
{
	struct shard *s = l->shard;
	struct call *gone = l->gone;
	unsigned ended = s->opt.ops->local_end(l, LOCALS_AT_ONCE);
	if (l->holder.count > 0)
		return (int)ended;
	local_active(l, false);
	if (l->attachment) /* a request may wait for memory, with its bytes in the landing area */
		return (int)ended;
	KV_ASSERT(kv_list_empty(&l->holder.leases)); /* rule 57 */
	kv_list_del(&l->node);
	s->locals.count--;
	local_free(l);
	call_finish(gone, 0);
	return (int)ended + 1;
}

/* ---- a turn ---- */

/* A client could refill the ring without end, so the first wrong number is the last one read. */
static void local_garbled(struct shard_local *l)
{
	l->garbled = true;
	local_active(l, false);
	if (!l->attachment)
		return;
	if (l->shard->te)
		te_peer_local_end(l->attachment->peer);
	shard_attachment_lost(l->attachment, 0);
}

int shard_local_releases(struct shard_local *l)
{
	uint64_t lease;
	int n = 0, rc = 0;
	while (n < LOCALS_AT_ONCE && (rc = local_released(l->channel, &lease)) == 1) {
		n++;
		if (KV_LIKELY(l->shard->opt.ops->local_released(l, lease)))
			continue;
		local_garbled(l);
		return n;
	}
	local_active(l, rc == 1);
	if (n)
		local_spent(l);
	return n;
}

int shard_locals_turn(struct shard *s)
{
	int done = 0;
	KV_LIST_EACH_SAFE (n, &s->locals.all) {
		struct shard_local *l = KV_LIST_ENTRY(n, struct shard_local, node);
		if (KV_UNLIKELY(l->gone != NULL))
			done += local_closing(l);
		else if (KV_LIKELY(!l->garbled))
			done += shard_local_releases(l);
	}
	return done;
}

/* The engine ends the local use of a peer that it cut, or that scribbled on its ring or closed it; and its socket may
 * be closed. A client that leaves says goodbye on another connection, which may be slower: so at the second tick. */
void shard_locals_tick(struct shard *s)
{
	KV_LIST_EACH (n, &s->locals.all) {
		struct shard_local *l = KV_LIST_ENTRY(n, struct shard_local, node);
		if (local_serves(l) && s->te && !te_peer_is_local(l->attachment->peer) && l->parted++ > 0)
			shard_attachment_lost(l->attachment, 0);
	}
}

void shard_locals_init(struct shard *s)
{
	kv_list_init(&s->locals.all);
	s->locals.landing_limit = s->opt.landing_bytes;
}

void shard_locals_quit(struct shard *s)
{
	KV_LIST_EACH (n, &s->locals.all) {
		const struct shard_local *l = KV_LIST_ENTRY(n, struct shard_local, node);
		if (l->attachment)
			te_peer_local_end(l->attachment->peer);
	}
}
