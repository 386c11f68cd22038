/* SPDX-License-Identifier: Apache-2.0 */
/* try_child.c -- the trial, from inside: open the engines of one process of the run, register their memory, and let two
 * of them exchange messages and a block.
 *
 * One thread turns both engines, so no other process or machine takes part. Each step is reported before the next
 * begins: if a provider ends the process, the last report shows where. Memory is registered as in the run, but at most
 * half of the free memory. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/host.h"
#include "kvdoctor/try.h"

enum { PINGS = 100, BLOCK_BYTES = 1 << 20, IMMEDIATE = 0x4b56 };

#define STEP_NS 10000000000ull

struct trial_side {
	struct te *te;
	struct kv_area area;
	struct te_region *region;
	unsigned messages, immediates;
	int status; /* of the transfer; 1: not done */
};

struct rig {
	struct try_args args;
	struct te_options options;
	unsigned count; /* of open sides */
	struct trial_side *side;
	struct trial trial;
	int report_fd;
	struct kv_error err;
};

static void report(const struct rig *r)
{
	probe_report(r->report_fd, &r->trial, sizeof(r->trial));
}

static uint64_t now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void on_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct trial_side *s = arg;
	(void)rail, (void)data, (void)len;
	s->messages++;
}

static void on_immediate(void *arg, unsigned rail, uint32_t imm)
{
	struct trial_side *s = arg;
	(void)rail;
	s->immediates += imm == IMMEDIATE;
}

static void on_reset(void *arg, int status)
{
	(void)arg, (void)status;
}

static const struct te_handlers handlers = {.message = on_message, .immediate = on_immediate, .reset = on_reset};

/* ---- opening ---- */

static int sides_open(struct rig *r)
{
	/* The exchange needs two. */
	unsigned wanted = KV_MAX(r->args.engines, 2u);
	uint64_t start = now();
	int rc = 0;
	r->side = calloc(wanted, sizeof(*r->side));
	if (!r->side)
		return kv_fail(&r->err, -KV_ENOMEM, "no memory");
	for (; r->count < wanted && rc == 0; r->count += rc == 0) {
		r->options.engine = r->count % r->args.engines;
		rc = te_open(&r->options, &handlers, &r->side[r->count], &r->side[r->count].te, &r->err);
		r->trial.opened = KV_MIN(r->count + (rc == 0), r->args.engines);
		r->trial.open_ns = now() - start;
		report(r);
	}
	return rc;
}

static int sides_register(struct rig *r)
{
	uint64_t share = kv_memory_available() / 2 / r->count,
		 bytes = KV_MAX(KV_MIN(r->args.region_bytes, share), (uint64_t)BLOCK_BYTES), start = now();
	int rc = 0;
	for (unsigned i = 0; i < r->count && rc == 0; i++) {
		struct trial_side *s = &r->side[i];
		rc = kv_area_map(bytes, &s->area, &r->err);
		if (rc == 0)
			rc = te_region_register(s->te, s->area.base, bytes, TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE,
						0, &s->region, &r->err);
	}
	r->trial.register_ns = now() - start;
	r->trial.registered_bytes = bytes;
	report(r);
	return rc;
}

/* ---- exchanging ---- */

static int turn_until(struct rig *r, const unsigned *count, unsigned wanted, const char *what)
{
	uint64_t end = now() + STEP_NS;
	while (*count < wanted) {
		int events = te_poll(r->side[0].te) + te_poll(r->side[1].te);
		if (events == 0)
			sched_yield();
		if (now() >= end)
			return kv_fail(&r->err, -KV_ETIMEOUT, "%s did not arrive within 10 s", what);
	}
	return 0;
}

static int peer_open(struct rig *r, unsigned from, unsigned to, struct te_peer **out)
{
	struct te_address address[KV_RAILS_MAX];
	struct te_info info;
	int rc = 0;
	te_info(r->side[to].te, &info);
	for (unsigned i = 0; i < info.rails && rc == 0; i++)
		rc = te_address(r->side[to].te, i, &address[i]);
	return rc ? kv_fail(&r->err, rc, "the endpoint's address: %s", kv_strerror(rc))
		  : te_peer_open(r->side[from].te, address, info.rails, out, &r->err);
}

static int message(struct rig *r, unsigned from, struct te_peer *peer, unsigned wanted)
{
	struct te_msg *m = te_msg_acquire(r->side[from].te);
	if (!m)
		return kv_fail(&r->err, -KV_EBUSY, "no message buffer is free");
	memset(m->data, 0x5a, 64);
	m->len = 64;
	m->sent = NULL;
	te_msg_send(r->side[from].te, peer, 0, m, now() + STEP_NS);
	return turn_until(r, &r->side[1 - from].messages, wanted, "a message");
}

static int pings(struct rig *r, struct te_peer *const peer[2])
{
	uint64_t start = 0;
	for (unsigned i = 0; i < PINGS; i++) {
		/* The first one makes the connection. */
		if (i == 1)
			start = now();
		int rc = message(r, 0, peer[0], i + 1);
		rc = rc ? rc : message(r, 1, peer[1], i + 1);
		if (rc)
			return rc;
	}
	r->trial.ping_ns = (now() - start) / (PINGS - 1);
	return 0;
}

static void on_done(struct te_xfer *x, int status)
{
	int *out = x->arg;
	*out = status;
}

static int block(struct rig *r, struct te_peer *peer)
{
	struct trial_side *a = &r->side[0], *b = &r->side[1];
	struct te_remote remote;
	struct te_xfer x = {.dir = TE_WRITE,
			    .peer = peer,
			    .link = TE_LINK_ANY,
			    .local = a->region,
			    .remote = &remote,
			    .at = {.slice = BLOCK_BYTES, .stride = BLOCK_BYTES, .count = 1},
			    .with_imm = true,
			    .imm = IMMEDIATE,
			    .deadline_ns = now() + STEP_NS,
			    .done = on_done,
			    .arg = &a->status};
	te_region_announce(b->region, &remote, NULL);
	remote.keys = calloc((size_t)remote.rails * remote.parts, sizeof(*remote.keys));
	if (!remote.keys)
		return kv_fail(&r->err, -KV_ENOMEM, "no memory");
	te_region_announce(b->region, &remote, remote.keys);
	for (unsigned i = 0; i < BLOCK_BYTES; i++)
		((uint8_t *)a->area.base)[i] = (uint8_t)(i * 31 + i / 251 + 1);
	memset(b->area.base, 0, BLOCK_BYTES);
	unsigned chunks = te_xfer_chunks(a->te, &x);
	a->status = 1;
	int rc = te_xfer_start(a->te, &x);
	if (rc < 0)
		rc = kv_fail(&r->err, rc, "a write: %s", kv_strerror(rc));
	else
		rc = turn_until(r, &b->immediates, chunks, "a block of 1 MiB");
	for (uint64_t end = now() + STEP_NS; rc == 0 && a->status == 1 && now() < end;)
		te_poll(a->te), te_poll(b->te);
	if (rc == 0 && a->status != 0)
		rc = kv_fail(&r->err, a->status == 1 ? -KV_ETIMEOUT : a->status, "a write did not complete: %s",
			     a->status == 1 ? "it takes longer than 10 s" : kv_strerror(a->status));
	if (rc == 0 && memcmp(a->area.base, b->area.base, BLOCK_BYTES) != 0)
		rc = kv_fail(&r->err, -KV_ECORRUPT, "a block of 1 MiB arrived with wrong bytes");
	if (rc == 0) {
		r->trial.bytes = BLOCK_BYTES;
		r->trial.moved = true;
	}
	/* The transfer lies on this stack: the engine must forget it before this function returns. */
	if (rc)
		te_close(&a->te);
	free(remote.keys);
	return rc;
}

static int speak(struct rig *r)
{
	struct te_peer *peer[2] = {NULL, NULL};
	struct te_info info;
	te_info(r->side[0].te, &info);
	snprintf(r->trial.no_door, sizeof(r->trial.no_door), "%.159s", info.no_door);
	r->trial.looked = true;
	r->trial.wait_fd = info.wait_fd;
	r->trial.write_emulated = info.write_emulated;
	r->trial.read_emulated = info.read_emulated;
	report(r);
	int rc = peer_open(r, 0, 1, &peer[0]);
	rc = rc ? rc : peer_open(r, 1, 0, &peer[1]);
	rc = rc ? rc : pings(r, peer);
	return rc ? rc : block(r, peer[0]);
}

/* ---- the child's main ---- */

/* The exit status is 0, or errno. */
static int memory_read(const char *address)
{
	char copy[sizeof(TRY_MEMORY)];
	struct iovec local = {copy, sizeof(copy)}, remote = {NULL, sizeof(copy)};
	if (sscanf(address, "%p", &remote.iov_base) != 1)
		return EINVAL;
	return process_vm_readv(getppid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof(copy) ? 0 : errno;
}

static void files_limit(uint64_t soft)
{
	struct rlimit rl;
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && soft > rl.rlim_cur && soft <= rl.rlim_max) {
		rl.rlim_cur = soft;
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static bool fd_parse(const char *text, int *out)
{
	uint64_t n;
	bool ok = kv_u64_parse(text, &n) == 0 && n <= INT32_MAX;
	*out = ok ? (int)n : -1;
	return ok;
}

int try_child(int argc, char **argv)
{
	static const struct kv_log log = {.level = KV_LOG_ERROR, .write = kv_log_stderr};
	struct rig r = {.count = 0};
	int input;
	if (argc == 1)
		return memory_read(argv[0]);
	if (argc != 2 || !fd_parse(argv[0], &r.report_fd) || !fd_parse(argv[1], &input) ||
	    probe_take(input, &r.args, sizeof(r.args)) != sizeof(r.args)) {
		fprintf(stderr, "kv-doctor: %s is for kv-doctor itself\n", TRY_CHILD);
		return 2;
	}
	r.options = (struct te_options){.provider = r.args.provider,
					.nic = r.args.nic[0] ? r.args.nic : NULL,
					.local = r.args.local,
					.rails = r.args.rails,
					.engines = r.args.engines,
					.messages = r.args.messages,
					.receives = r.args.receives,
					.log = &log};
	files_limit(r.args.files_soft);
	te_env_for_programs();
	int rc = sides_open(&r);
	rc = rc ? rc : sides_register(&r);
	rc = rc ? rc : speak(&r);
	if (rc)
		snprintf(r.trial.error, sizeof(r.trial.error), "%.399s", r.err.text);
	report(&r);
	for (unsigned i = 0; i < r.count; i++) {
		te_close(&r.side[i].te);
		kv_area_unmap(&r.side[i].area);
	}
	free(r.side);
	r.trial.done = true;
	report(&r);
	return rc ? 1 : 0;
}
