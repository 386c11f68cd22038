/* SPDX-License-Identifier: Apache-2.0 */
/* pass_sim.c -- see pass_sim.h.
 *
 * A descriptor on its way is a number in a parcel; the bytes that travel name the parcel. The record of what was passed
 * stays until the world ends, with a second hold on the bell: a process that is killed in this world still has its
 * descriptors, and only so can the other side see that the kernel closed them.
 *
 * Channels are the real ones, but in this world no time goes by while code runs. So each frame that was read from a
 * ring waits here as long as a message of the fabric: else two that talk without a pause would stop the world. The
 * linker sends calls of local_receive and local_channel_close here (tests/suites.mk). */
#include "tests/sim/pass_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local/local.h"
#include "loop/loop.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/ring_sim.h"

enum { MAGIC = 0x10ca1, SLOW_MAX_NS = 1000000000, READY = 'R' };

struct parcel {
	struct kv_list node;
	uint32_t id;
	bool taken;
	struct loop *from, *to; /* to: NULL until it is taken */
	int fd[LOCAL_FDS];      /* -1: taken */
	int bell;
};

/* A frame between the ring and its reader. */
struct frame {
	struct kv_list node;
	struct local_channel *channel;
	uint64_t due_ns;
	uint32_t len;
	uint8_t data[KV_MSG_MAX];
};

/* What travels. */
struct letter {
	uint32_t magic, parcel;
	struct local_shard shard;
};

static struct {
	struct sim_world *world; /* NULL: processes of this world cannot meet */
	struct sim_pass_options options;
	struct sim_pass_stats stats;
	struct kv_list parcels, frames;
	uint32_t last;
} pass;

void sim_pass_init(struct sim_world *world, const struct sim_pass_options *options)
{
	memset(&pass, 0, sizeof(pass));
	pass.world = world;
	pass.options = *options;
	kv_list_init(&pass.parcels);
	kv_list_init(&pass.frames);
}

struct sim_pass_options *sim_pass_options(void)
{
	return &pass.options;
}

void sim_pass_stats(struct sim_pass_stats *out)
{
	*out = pass.stats;
}

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void parcel_free(struct parcel *p)
{
	kv_list_del(&p->node);
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		fd_close(&p->fd[i]);
	fd_close(&p->bell);
	free(p);
}

void sim_pass_fini(void)
{
	if (!pass.world)
		return;
	while (!kv_list_empty(&pass.parcels))
		parcel_free(KV_LIST_ENTRY(pass.parcels.next, struct parcel, node));
	for (struct kv_list *n; (n = kv_list_pop(&pass.frames));)
		free(KV_LIST_ENTRY(n, struct frame, node));
	pass.world = NULL;
}

void sim_pass_crash(const struct loop *loop)
{
	if (!pass.world)
		return;
	sim_local_kill(pass.world, loop);
	KV_LIST_EACH_SAFE (n, &pass.parcels) {
		struct parcel *p = KV_LIST_ENTRY(n, struct parcel, node);
		if (p->from != loop && p->to != loop)
			continue;
		shutdown(p->bell, SHUT_RDWR);
		parcel_free(p);
	}
}

static bool chance(unsigned percent)
{
	return percent > 0 && kv_prng_below(sim_world_prng(pass.world), 100) < percent;
}

/* A process that does not run for a while. */
static void slow_await(void)
{
	if (chance(pass.options.slow_percent))
		co_sleep_await(loop_now(loop_current()) + kv_prng_below(sim_world_prng(pass.world), SLOW_MAX_NS));
}

/* ---- frames ---- */

int __real_local_receive(struct local_channel *ch, void *buf, uint32_t *out_len);
int __wrap_local_receive(struct local_channel *ch, void *buf, uint32_t *out_len);
void __real_local_channel_close(struct local_channel **ch);
void __wrap_local_channel_close(struct local_channel **ch);

static struct frame *frame_of(const struct local_channel *ch)
{
	KV_LIST_EACH (n, &pass.frames) {
		struct frame *f = KV_LIST_ENTRY(n, struct frame, node);
		if (f->channel == ch)
			return f;
	}
	return NULL;
}

static void nothing(void *arg)
{
	(void)arg; /* all loops are turned after an event */
}

static int frame_begin(struct local_channel *ch, void *buf, uint32_t *out_len)
{
	uint64_t now = sim_world_now(pass.world), most = sim_fabric_options()->delay_max_ns;
	int rc = __real_local_receive(ch, buf, out_len);
	struct frame *f = rc == 1 ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		return rc;
	*f = (struct frame){.channel = ch, .len = *out_len};
	f->due_ns = now + 1 + kv_prng_below(sim_world_prng(pass.world), most);
	memcpy(f->data, buf, f->len);
	kv_list_add_tail(&pass.frames, &f->node);
	sim_world_at(pass.world, f->due_ns, nothing, NULL);
	return 0;
}

int __wrap_local_receive(struct local_channel *ch, void *buf, uint32_t *out_len)
{
	struct frame *f = pass.world ? frame_of(ch) : NULL;
	if (!pass.world)
		return __real_local_receive(ch, buf, out_len);
	if (!f)
		return frame_begin(ch, buf, out_len);
	if (sim_world_now(pass.world) < f->due_ns)
		return 0;
	memcpy(buf, f->data, f->len);
	*out_len = f->len;
	kv_list_del(&f->node);
	free(f);
	return 1;
}

void __wrap_local_channel_close(struct local_channel **ch)
{
	struct frame *f = pass.world ? frame_of(*ch) : NULL;
	if (f) {
		kv_list_del(&f->node);
		free(f);
	}
	__real_local_channel_close(ch);
}

/* ---- the server ---- */

int local_listen(const char *name, int *out_fd, char *out_name, struct kv_error *err)
{
	uint16_t port;
	(void)name;
	if (!pass.world)
		return kv_fail(err, -KV_ENOTSUP, "no two processes of this simulated world are on one host");
	int rc = sim_local_listen(pass.world, out_fd, &port);
	if (rc)
		return kv_fail(err, rc, "sim: %s", kv_strerror(rc));
	snprintf(out_name, LOCAL_NAME_MAX, "@sim-%u", port);
	return 0;
}

void local_unlisten(int *fd, const char *name)
{
	(void)name;
	close(*fd);
	*fd = -1;
}

int local_accept_await(int listen_fd, int *out_fd, uint64_t deadline_ns)
{
	return io_accept_await(listen_fd, out_fd, NULL, deadline_ns);
}

/* 0; -ECONNRESET: the stream ended before. */
static int read_all_await(int fd, void *buf, size_t len, uint64_t deadline_ns)
{
	for (size_t have = 0; have < len;) {
		ssize_t n = io_read_await(fd, (uint8_t *)buf + have, len - have, deadline_ns);
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		have += (size_t)n;
	}
	return 0;
}

uint32_t local_peer_pid(int fd)
{
	(void)fd;
	return 0;
}

int local_nonce_await(int fd, uint8_t nonce[LOCAL_NONCE_LEN], uint64_t deadline_ns)
{
	return read_all_await(fd, nonce, LOCAL_NONCE_LEN, deadline_ns);
}

static int parcel_make(const struct local_shard *s, struct parcel **out)
{
	struct parcel *p = calloc(1, sizeof(*p));
	bool all = true;
	if (!p)
		return -KV_ENOMEM;
	p->id = ++pass.last;
	p->from = loop_current();
	for (unsigned i = 0; i < LOCAL_FDS; i++) {
		p->fd[i] = fcntl(s->fd[i], F_DUPFD_CLOEXEC, 0);
		all &= p->fd[i] >= 0;
	}
	p->bell = fcntl(s->fd[LOCAL_FDS - 1], F_DUPFD_CLOEXEC, 0);
	kv_list_add_tail(&pass.parcels, &p->node);
	if (all && p->bell >= 0) {
		*out = p;
		return 0;
	}
	parcel_free(p);
	return -KV_ELIMIT;
}

int local_give_await(int fd, const struct local_shard *s, uint64_t deadline_ns)
{
	struct parcel *p;
	int rc = parcel_make(s, &p);
	if (rc)
		return rc;
	struct letter letter = {.magic = MAGIC, .parcel = p->id, .shard = *s};
	slow_await();
	if (chance(pass.options.break_percent)) {
		pass.stats.broken++;
		io_shutdown(loop_current(), fd);
		return -EPIPE;
	}
	pass.stats.given++;
	return io_write_all_await(fd, &letter, sizeof(letter), deadline_ns);
}

int local_ready_await(int fd, uint64_t deadline_ns)
{
	char byte;
	int rc = read_all_await(fd, &byte, 1, deadline_ns);
	if (rc)
		return rc;
	return byte == READY ? 0 : -KV_EPROTO;
}

/* ---- the client ---- */

int local_connect_await(const char *name, const uint8_t nonce[LOCAL_NONCE_LEN], int *out_fd, uint64_t deadline_ns)
{
	struct sockaddr_storage to = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&to;
	unsigned port;
	int fd;
	if (!pass.world || sscanf(name, "@sim-%u", &port) != 1)
		return -ENOENT;
	pass.stats.connects++;
	slow_await();
	if (chance(pass.options.refuse_percent) ||
	    (pass.options.remote && pass.options.remote(pass.options.arg, loop_current()))) {
		pass.stats.refused++;
		return -ECONNREFUSED;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int rc = io_connect_await(&to, sizeof(*in), &fd, deadline_ns);
	if (rc)
		return rc;
	rc = io_write_all_await(fd, nonce, LOCAL_NONCE_LEN, deadline_ns);
	if (rc)
		close(fd);
	else
		*out_fd = fd;
	return rc;
}

static struct parcel *parcel_find(uint32_t id)
{
	KV_LIST_EACH (n, &pass.parcels) {
		struct parcel *p = KV_LIST_ENTRY(n, struct parcel, node);
		if (p->id == id && !p->to)
			return p;
	}
	return NULL;
}

int local_take_await(int fd, struct local_shard *out, uint64_t deadline_ns)
{
	struct letter letter;
	slow_await();
	int rc = read_all_await(fd, &letter, sizeof(letter), deadline_ns);
	if (rc)
		return rc;
	struct parcel *p = parcel_find(letter.parcel);
	if (letter.magic != MAGIC)
		return -KV_EPROTO;
	if (!p)
		return -ECONNRESET; /* its giver was killed */
	*out = letter.shard;
	memcpy(out->fd, p->fd, sizeof(out->fd));
	memset(p->fd, -1, sizeof(p->fd));
	p->to = loop_current();
	pass.stats.taken++;
	return 0;
}

int local_ready_send_await(int fd, uint64_t deadline_ns)
{
	const char byte = READY;
	slow_await();
	return io_write_all_await(fd, &byte, 1, deadline_ns);
}

int local_end_await(int fd, uint64_t deadline_ns)
{
	char dropped[64];
	ssize_t n;
	do
		n = io_read_await(fd, dropped, sizeof(dropped), deadline_ns);
	while (n > 0);
	return n == -ECONNRESET ? 0 : (int)n;
}
