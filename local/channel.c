/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c -- rings of frames and of releases in memory that two processes write.
 *
 * A frame ring has one writer and one reader. A frame is a header and its bytes, in whole cache lines; the header is
 * the frame's length, and 0 where the next frame will be. The reader waits at the header itself. The writer stores 0
 * behind a frame, then its bytes, then its header; the reader clears the header, so nothing is read twice. `taken`
 * counts the bytes read.
 *
 * Sleep is Dekker's agreement, as in loop/post.c: the writer stores the header, then loads the reader's `awaits`; the
 * reader stores `awaits`, then loads the header. All four are seq_cst, so one sees the other's store. Whoever swaps
 * `awaits` to 0 rings. `taken` and a writer that awaits room agree likewise.
 *
 * The bell is a pair of sockets, which shows the end of the other side as well. An eventfd has one set of flags for all
 * processes: a client that cleared O_NONBLOCK could block the server's thread.
 *
 * The other side may store any value anywhere at any time: indexes are checked, headers read once, bytes copied. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/host.h"
#include "local/local.h"

enum {
	HEADER = 8,
	LINE = 64,
	APART = 128, /* two cache lines: the processor fetches them in pairs */
	PAGE = 4096,
	AWAITS_FRAMES = 1,
	AWAITS_ROOM = 2,
	WAKES_PER_LOOK = 32 /* at a bell that nobody should have rung */
};

enum side { SERVER, CLIENT, SIDES };

/* A side's words, which it alone stores, but for `awaits`. */
struct words {
	_Alignas(APART) _Atomic uint64_t taken;
	_Alignas(APART) _Atomic uint32_t awaits;
};

/* The memory of a channel. frames[side]: those that this side reads. A release is a lease + 1; 0: none. */
struct shared {
	struct words words[SIDES];
	_Alignas(PAGE) uint8_t frames[SIDES][LOCAL_RING_BYTES];
	_Alignas(PAGE) _Atomic uint64_t released[LOCAL_LEASES_MAX];
};

_Static_assert((LOCAL_RING_BYTES & (LOCAL_RING_BYTES - 1)) == 0 && LOCAL_RING_BYTES % PAGE == 0, "masks");
_Static_assert((LOCAL_LEASES_MAX & (LOCAL_LEASES_MAX - 1)) == 0, "masks");
_Static_assert(LOCAL_RING_BYTES >= 4 * (HEADER + KV_MSG_MAX + LINE), "a frame fits while another is read");
_Static_assert(sizeof(struct shared) % PAGE == 0, "whole pages");

struct local_channel {
	struct shared *mem;
	enum side side;
	int memory_fd;     /* of the server, until it is passed; else -1 */
	int bell[SIDES];   /* ours, and the peer's until it is passed; else -1 */
	int failed;        /* the code with which the channel ended; 0: it is in use */
	bool asleep;       /* between local_sleep and local_wake */
	uint32_t rung;     /* bells of the peer that we have not heard yet */
	uint32_t wakes;    /* since the last look */
	uint64_t released; /* server: releases taken */
	struct {
		_Alignas(APART) uint64_t put, taken; /* bytes; taken: as last seen */
		uint32_t wanted;                     /* bytes for the frame that did not fit; 0: none */
	} out;
	struct {
		_Alignas(APART) uint64_t taken; /* bytes */
		uint64_t announced;             /* taken, when a writer that awaits room was last roused */
	} in;
	_Alignas(APART) _Atomic uint64_t releases; /* client: made by any thread */
};

static enum side other(enum side side)
{
	return side == SERVER ? CLIENT : SERVER;
}

static int fail(struct local_channel *ch, int rc)
{
	if (!ch->failed)
		ch->failed = rc;
	return ch->failed;
}

/* ---- make, open, close ---- */

static int bells_make(struct local_channel *ch, struct kv_error *err)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ch->bell) == 0)
		return 0;
	ch->bell[SERVER] = ch->bell[CLIENT] = -1;
	if (errno == EMFILE || errno == ENFILE)
		return kv_fail(err, -KV_ELIMIT, "no descriptors for a channel: raise the limit of open files");
	return kv_fail(err, errno == ENOMEM ? -KV_ENOMEM : -errno, "cannot make the bells of a channel: %s",
		       kv_strerror(errno));
}

static struct local_channel *blank(enum side side, struct kv_error *err)
{
	struct local_channel *ch = aligned_alloc(APART, sizeof(*ch));
	if (!ch) {
		kv_fail(err, -KV_ENOMEM, "no memory for a channel");
		return NULL;
	}
	*ch = (struct local_channel){.side = side, .memory_fd = -1, .bell = {-1, -1}};
	return ch;
}

int local_channel_make(struct local_channel **out, struct kv_error *err)
{
	struct local_channel *ch = blank(SERVER, err);
	void *mem;
	int rc;
	if (!ch)
		return -KV_ENOMEM;
	rc = kv_memfd_make("kvrail-channel", sizeof(*ch->mem), &ch->memory_fd, err);
	if (rc == 0)
		rc = kv_memfd_map(ch->memory_fd, sizeof(*ch->mem), true, &mem, err);
	if (rc == 0) {
		ch->mem = mem;
		rc = bells_make(ch, err);
	}
	if (rc == 0)
		*out = ch;
	else
		local_channel_close(&ch);
	return rc;
}

void local_channel_fds(const struct local_channel *ch, struct local_shard *out)
{
	KV_ASSERT(ch->memory_fd >= 0 && ch->bell[CLIENT] >= 0);
	out->fd[LOCAL_CHANNEL] = ch->memory_fd;
	out->fd[LOCAL_BELL] = ch->bell[CLIENT];
}

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void local_channel_passed(struct local_channel *ch)
{
	fd_close(&ch->memory_fd);
	fd_close(&ch->bell[CLIENT]);
}

static bool is_bell(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

int local_channel_open(struct local_shard *s, struct local_channel **out, struct kv_error *err)
{
	struct local_channel *ch = blank(CLIENT, err);
	void *mem;
	int rc = ch ? 0 : -KV_ENOMEM;
	if (rc == 0 && !is_bell(s->fd[LOCAL_BELL]))
		rc = kv_fail(err, -KV_EPROTO, "the bell of a received channel is no Unix socket");
	if (rc == 0)
		rc = kv_memfd_check(s->fd[LOCAL_CHANNEL], sizeof(*ch->mem), err);
	if (rc == 0)
		rc = kv_memfd_map(s->fd[LOCAL_CHANNEL], sizeof(*ch->mem), true, &mem, err);
	fd_close(&s->fd[LOCAL_CHANNEL]);
	if (rc) {
		fd_close(&s->fd[LOCAL_BELL]);
		local_channel_close(&ch);
		return rc;
	}
	ch->mem = mem;
	ch->bell[CLIENT] = s->fd[LOCAL_BELL];
	s->fd[LOCAL_BELL] = -1;
	*out = ch;
	return 0;
}

void local_channel_forked(struct local_channel *ch)
{
	fd_close(&ch->memory_fd);
	fd_close(&ch->bell[SERVER]);
	fd_close(&ch->bell[CLIENT]);
}

void local_channel_close(struct local_channel **channel)
{
	struct local_channel *ch = *channel;
	*channel = NULL;
	if (!ch)
		return;
	if (ch->mem)
		munmap(ch->mem, sizeof(*ch->mem));
	local_channel_forked(ch);
	free(ch);
}

/* ---- the bell ---- */

/* A full socket is rung already. */
static void ring_bell(struct local_channel *ch)
{
	if (send(ch->bell[ch->side], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN && errno != EINTR)
		fail(ch, -KV_EPEERDOWN);
}

/* Ring if the other side awaits this. */
static void rouse(struct local_channel *ch, uint32_t reason)
{
	_Atomic uint32_t *awaits = &ch->mem->words[other(ch->side)].awaits;
	if (KV_UNLIKELY(atomic_load(awaits) & reason) && atomic_exchange(awaits, 0))
		ring_bell(ch);
}

static void hear(struct local_channel *ch)
{
	char bells[512];
	ssize_t n = recv(ch->bell[ch->side], bells, sizeof(bells), MSG_DONTWAIT);
	ch->wakes = 0;
	if (n > 0)
		ch->rung -= KV_MIN(ch->rung, (uint32_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		fail(ch, -KV_EPEERDOWN);
}

static _Atomic uint64_t *header_at(struct local_channel *ch, enum side reader, uint64_t at)
{
	return (_Atomic uint64_t *)(void *)(ch->mem->frames[reader] + at % LOCAL_RING_BYTES);
}

static bool room_there(struct local_channel *ch)
{
	uint64_t taken = atomic_load(&ch->mem->words[other(ch->side)].taken);
	return ch->out.wanted && taken != ch->out.taken;
}

static bool release_there(struct local_channel *ch)
{
	return ch->side == SERVER &&
	       atomic_load_explicit(&ch->mem->released[ch->released % LOCAL_LEASES_MAX], memory_order_relaxed) != 0;
}

int local_sleep(struct local_channel *ch)
{
	uint32_t awaits = AWAITS_FRAMES | (ch->out.wanted ? AWAITS_ROOM : 0);
	if (ch->failed)
		return -EAGAIN;
	ch->asleep = true;
	atomic_store(&ch->mem->words[ch->side].awaits, awaits);
	if (atomic_load(header_at(ch, ch->side, ch->in.taken)) == 0 && !room_there(ch) && !release_there(ch))
		return 0;
	local_wake(ch);
	return -EAGAIN;
}

void local_wake(struct local_channel *ch)
{
	if (ch->asleep && atomic_exchange(&ch->mem->words[ch->side].awaits, 0) == 0)
		ch->rung++;
	if (ch->asleep)
		ch->wakes++;
	ch->asleep = false;
	if (ch->rung || ch->wakes >= WAKES_PER_LOOK)
		hear(ch);
}

int local_wait_fd(const struct local_channel *ch)
{
	return ch->bell[ch->side];
}

/* ---- frames ---- */

static void bytes_put(uint8_t *ring, uint64_t at, const void *from, uint32_t len)
{
	uint32_t offset = at % LOCAL_RING_BYTES, first = KV_MIN(len, LOCAL_RING_BYTES - offset);
	memcpy(ring + offset, from, first);
	memcpy(ring, (const uint8_t *)from + first, len - first);
}

static void bytes_take(const uint8_t *ring, uint64_t at, void *to, uint32_t len)
{
	uint32_t offset = at % LOCAL_RING_BYTES, first = KV_MIN(len, LOCAL_RING_BYTES - offset);
	memcpy(to, ring + offset, first);
	memcpy((uint8_t *)to + first, ring, len - first);
}

/* Whether `need` bytes fit. 1, 0 or -KV_EPROTO. */
static int room(struct local_channel *ch, uint32_t need)
{
	if (LOCAL_RING_BYTES - (ch->out.put - ch->out.taken) >= need)
		return 1;
	uint64_t taken = atomic_load_explicit(&ch->mem->words[other(ch->side)].taken, memory_order_acquire);
	if (taken - ch->out.taken > ch->out.put - ch->out.taken || taken % LINE)
		return fail(ch, -KV_EPROTO);
	ch->out.taken = taken;
	return LOCAL_RING_BYTES - (ch->out.put - taken) >= need;
}

int local_send(struct local_channel *ch, const void *data, uint32_t len)
{
	enum side to = other(ch->side);
	uint32_t need = (uint32_t)kv_align_up(HEADER + len, LINE);
	int rc;
	KV_ASSERT_HOT(len > 0 && len <= KV_MSG_MAX);
	if (KV_UNLIKELY(ch->failed))
		return ch->failed;
	rc = room(ch, need + LINE); /* with the next header */
	if (KV_UNLIKELY(rc <= 0)) {
		ch->out.wanted = need;
		return rc < 0 ? rc : -KV_EBUSY;
	}
	ch->out.wanted = 0;
	atomic_store_explicit(header_at(ch, to, ch->out.put + need), 0, memory_order_relaxed);
	bytes_put(ch->mem->frames[to], ch->out.put + HEADER, data, len);
	atomic_store(header_at(ch, to, ch->out.put), len);
	ch->out.put += need;
	rouse(ch, AWAITS_FRAMES);
	return 0;
}

/* All is read: a writer that awaits room may go on. */
static int frames_end(struct local_channel *ch)
{
	if (ch->in.announced != ch->in.taken) {
		ch->in.announced = ch->in.taken;
		atomic_store(&ch->mem->words[ch->side].taken, ch->in.taken);
		rouse(ch, AWAITS_ROOM);
	}
	return ch->failed;
}

int local_receive(struct local_channel *ch, void *buf, uint32_t *out_len)
{
	_Atomic uint64_t *header = header_at(ch, ch->side, ch->in.taken);
	uint64_t len = atomic_load_explicit(header, memory_order_acquire);
	if (len == 0 || KV_UNLIKELY(ch->failed == -KV_EPROTO))
		return frames_end(ch);
	if (KV_UNLIKELY(len > KV_MSG_MAX))
		return fail(ch, -KV_EPROTO);
	bytes_take(ch->mem->frames[ch->side], ch->in.taken + HEADER, buf, (uint32_t)len);
	atomic_store_explicit(header, 0, memory_order_relaxed);
	ch->in.taken += kv_align_up(HEADER + len, LINE);
	atomic_store_explicit(&ch->mem->words[ch->side].taken, ch->in.taken, memory_order_release);
	*out_len = (uint32_t)len;
	return 1;
}

/* ---- releases ---- */

/* A thread takes a place, then fills it. The server waits for a place that is not filled yet. A place is empty when it
 * is taken again: a lease is out until the server has emptied its place. */
void local_release(struct local_channel *ch, uint64_t lease)
{
	uint64_t place = atomic_fetch_add_explicit(&ch->releases, 1, memory_order_relaxed);
	KV_ASSERT_HOT(ch->side == CLIENT && lease != UINT64_MAX);
	atomic_store_explicit(&ch->mem->released[place % LOCAL_LEASES_MAX], lease + 1, memory_order_release);
}

int local_released(struct local_channel *ch, uint64_t *out_lease)
{
	_Atomic uint64_t *place = &ch->mem->released[ch->released % LOCAL_LEASES_MAX];
	uint64_t release = atomic_load_explicit(place, memory_order_acquire);
	if (release == 0)
		return 0;
	atomic_store_explicit(place, 0, memory_order_relaxed);
	ch->released++;
	*out_lease = release - 1;
	return 1;
}
