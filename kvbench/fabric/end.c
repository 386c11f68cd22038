/* SPDX-License-Identifier: Apache-2.0 */
/* end.c -- open, exchange addresses, count completions.
 *
 * Callbacks only count: both ends act in their own loops. The first operation that fails breaks the end, and the run
 * with it. tcp listens on loopback, or behind the doorkeeper at the address of --nic or of the socket. */
#include "kvbench/fabric/end.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { POLL_MS = 50, ALIGN = 64, AREA_MIN = 4 << 20 };

static void broke(struct end *e, int code)
{
	if (e->broken == 0)
		e->broken = code;
}

static void on_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct end *e = arg;
	(void)rail;
	e->messages++;
	e->last_len = KV_MIN(len, sizeof(e->last));
	memcpy(e->last, data, e->last_len);
}

static void on_immediate(void *arg, unsigned rail, uint32_t imm)
{
	struct end *e = arg;
	(void)rail;
	(void)imm;
	e->imms++;
}

static void on_reset(void *arg, int status)
{
	broke(arg, status < 0 ? status : -KV_ERESET);
}

static void on_sent(struct te_msg *msg, int status)
{
	if (status < 0)
		broke(msg->arg, status);
}

static void on_done(struct te_xfer *x, int status)
{
	struct end_op *op = x->arg;
	op->ended++;
	op->end->completed++;
	if (status < 0)
		broke(op->end, status);
}

/* A burst whose immediate could not be sent: the next burst's immediate stands for both. */
static void on_follow(void *arg)
{
	(void)arg;
}

int end_receive(int fd, void *data, size_t len, uint64_t wait_ns, int (*interrupted)(void))
{
	uint64_t began = kv_clock_now(&kv_clock_monotonic);
	for (size_t have = 0; have < len;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;
		if (interrupted())
			return -KV_ECANCELED;
		if (kv_clock_now(&kv_clock_monotonic) - began > wait_ns)
			return -KV_ETIMEOUT;
		if (poll(&p, 1, POLL_MS) <= 0)
			continue;
		n = recv(fd, (char *)data + have, len - have, 0);
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return -KV_EPEERDOWN;
		have += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int end_tell(int fd, const void *data, size_t len)
{
	return send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -KV_EPEERDOWN;
}

bool end_gone(const struct end *e)
{
	struct pollfd p = {.fd = e->fd, .events = POLLIN};
	return poll(&p, 1, 0) > 0;
}

/* Providers with ports that anybody can reach. verbs has IP addresses as well, but none on loopback. */
static bool over_sockets(const char *provider)
{
	return strncmp(provider, "tcp", 3) == 0 || strncmp(provider, "net", 3) == 0 ||
	       strncmp(provider, "sockets", 7) == 0;
}

/* On loopback if the other process is on this machine; else, and with --nic, behind the doorkeeper. */
static void listen_safely(const struct end *e, struct te_options *to)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&to->local;
	struct sockaddr_storage own = {0};
	socklen_t len = sizeof(own);
	if (to->nic) {
		to->door = TE_DOOR_REQUIRE;
		return;
	}
	if (getsockname(e->fd, (struct sockaddr *)&own, &len) == 0 && own.ss_family != AF_UNIX) {
		((struct sockaddr_in *)&own)->sin_port = 0; /* an IPv6 address has its port there as well */
		to->local = own;
		to->door = kv_sockaddr_is_loopback(&own) ? TE_DOOR_AUTO : TE_DOOR_REQUIRE;
		return;
	}
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static int engine_open(struct end *e, const struct fabric_options *o, struct kv_error *err)
{
	static const struct te_handlers handlers = {
		.message = on_message, .immediate = on_immediate, .follow = on_follow, .reset = on_reset};
	struct te_options to = {.provider = o->provider,
				.nic = o->nic,
				.rails = 1,
				.chunk_bytes = (uint32_t)KV_MAX(o->size_max, (uint64_t)KV_CHUNK_DEFAULT),
				.log = &e->log};
	struct te_plan plan;
	int rc = te_plan(&to, &plan, err);
	if (rc < 0)
		return rc;
	if (over_sockets(plan.provider))
		listen_safely(e, &to);
	rc = te_open(&to, &handlers, e, &e->te, err);
	if (rc == 0)
		te_info(e->te, &e->info);
	return rc;
}

static int memory_open(struct end *e, const struct fabric_options *o, struct kv_error *err)
{
	uint64_t len = 2 * KV_MAX(KV_MAX(o->size_max, o->span), (uint64_t)AREA_MIN);
	struct te_region_info info;
	int rc;
	e->op = calloc(FABRIC_DEPTH_MAX + END_BURSTS, sizeof(*e->op));
	if (!e->op)
		return kv_fail(err, -KV_ENOMEM, "no memory for the operations");
	rc = kv_area_map(len, &e->area, err);
	if (rc < 0)
		return rc;
	memset(e->area.base, 1, e->area.len_bytes);
	rc = te_region_register(e->te, e->area.base, e->area.len_bytes, TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE,
				e->area.len_bytes, &e->region, err);
	if (rc < 0)
		return rc;
	te_region_info(e->region, &info);
	return info.parts == 1 ? 0
			       : kv_fail(err, -KV_ELIMIT,
					 "the provider has no room for %llu MiB in one piece: "
					 "use smaller --sizes or a smaller --span",
					 (unsigned long long)e->area.len_bytes >> 20);
}

static int hellos(struct end *e, int (*interrupted)(void), struct kv_error *err)
{
	struct end_hello mine = {.len = e->area.len_bytes, .chunk = e->info.chunk_bytes};
	struct te_remote own;
	struct te_key key;
	int rc;
	te_region_announce(e->region, &own, &key);
	mine.base = key.base;
	mine.key = key.key;
	mine.virt = own.virt;
	rc = te_address(e->te, 0, &mine.address);
	if (rc == 0)
		rc = end_tell(e->fd, &mine, sizeof(mine));
	if (rc == 0)
		rc = end_receive(e->fd, &e->theirs, sizeof(e->theirs), END_WAIT_NS, interrupted);
	if (rc < 0)
		return kv_fail(err, rc, "the two processes could not exchange their addresses: %s", kv_strerror(rc));
	if (e->theirs.len != mine.len || e->theirs.chunk == 0 || e->theirs.address.len > KV_ADDR_MAX)
		return kv_fail(err, -KV_EPROTO, "the other process is no kv-bench fabric of this version");
	e->key = (struct te_key){.base = e->theirs.base, .key = e->theirs.key};
	e->remote = (struct te_remote){.len_bytes = e->theirs.len,
				       .part_bytes = e->theirs.len,
				       .parts = 1,
				       .rails = 1,
				       .virt = e->theirs.virt,
				       .keys = &e->key};
	return te_peer_open(e->te, &e->theirs.address, 1, &e->peer, err);
}

int end_open(struct end *e, const struct fabric_options *o, int fd, int (*interrupted)(void), struct kv_error *err)
{
	int rc;
	*e = (struct end){.fd = fd, .log = {.level = (enum kv_log_level)o->log_level, .write = kv_log_stderr}};
	rc = engine_open(e, o, err);
	if (rc == 0)
		rc = memory_open(e, o, err);
	return rc == 0 ? hellos(e, interrupted, err) : rc;
}

void end_close(struct end *e)
{
	te_close(&e->te); /* with its peer and region */
	kv_area_unmap(&e->area);
	free(e->op);
	e->op = NULL;
}

int end_send(struct end *e, const void *data, uint32_t len)
{
	struct te_msg *m = te_msg_acquire(e->te);
	if (!m)
		return -EAGAIN;
	memcpy(m->data, data, len);
	m->len = len;
	m->sent = on_sent;
	m->arg = e;
	te_msg_send(e->te, e->peer, 0, m, KV_NEVER);
	return 0;
}

static uint64_t place(const struct end *e, uint64_t size, uint64_t number)
{
	uint64_t step = kv_align_up(KV_MAX(size, (uint64_t)1), ALIGN);
	return number % KV_MAX(end_half(e) / step, (uint64_t)1) * step;
}

static struct te_xfer xfer_of(struct end *e, struct end_op *op, enum te_dir dir, uint64_t size, uint64_t number)
{
	uint64_t at = place(e, size, number), ours = dir == TE_READ ? end_half(e) : 0,
		 theirs = dir == TE_WRITE ? end_half(e) : 0;
	return (struct te_xfer){.dir = dir,
				.peer = e->peer,
				.link = TE_LINK_ANY,
				.local = e->region,
				.local_offset = ours + at,
				.remote = &e->remote,
				.at = {.offset = theirs + at, .stride = size, .slice = size, .count = 1},
				.deadline_ns = KV_NEVER,
				.done = on_done,
				.arg = op};
}

static int begin(struct end *e, struct end_op *op)
{
	int rc;
	op->end = e;
	rc = te_xfer_start(e->te, &op->xfer);
	op->begun += rc >= 0;
	e->begun += rc >= 0;
	return KV_MIN(rc, 0);
}

int end_xfer(struct end *e, struct end_op *op, enum te_dir dir, uint64_t size, uint64_t number)
{
	op->xfer = xfer_of(e, op, dir, size, number);
	op->xfer.with_imm = dir == TE_WRITE;
	return begin(e, op);
}

int end_write_quiet(struct end *e, struct end_op *op, uint64_t size, uint64_t number)
{
	op->xfer = xfer_of(e, op, TE_WRITE, size, number);
	op->xfer.link = 0;
	op->xfer.ordered = true;
	return begin(e, op);
}

int end_notice(struct end *e, struct end_op *op)
{
	op->xfer = xfer_of(e, op, TE_WRITE, 0, 0);
	op->xfer.at = (struct te_slices){.count = 1};
	op->xfer.link = 0;
	op->xfer.ordered = op->xfer.with_imm = true;
	return begin(e, op);
}
