/* SPDX-License-Identifier: Apache-2.0 */
/* try_child.c -- the trial from inside: open the engines of one process of the run, register their memory, and let two
 * of them exchange messages and a block.
 *
 * One thread turns both engines, so no other process or machine takes part. Each step reports on stdout when it is
 * done, before the next one begins: if a provider ends the process, the last report shows where. Memory is registered
 * as in the run, but at most half of what is free. */
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "kvdoctor/try.h"

enum { PINGS = 100, BLOCK_BYTES = 1 << 20, IMMEDIATE = 0x4b56 };

#define STEP_NS 10000000000ull

struct side {
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
	struct side *side;
	struct kv_error err;
};

static void tell(const char *name, uint64_t value)
{
	printf("%s %llu\n", name, (unsigned long long)value);
	fflush(stdout);
}

static uint64_t now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void on_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct side *s = arg;
	(void)rail, (void)data, (void)len;
	s->messages++;
}

static void on_immediate(void *arg, unsigned rail, uint32_t imm)
{
	struct side *s = arg;
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
	unsigned wanted = (unsigned)KV_MAX(r->args.engines, (uint64_t)2);
	uint64_t start = now();
	int rc = 0;
	r->side = calloc(wanted, sizeof(*r->side));
	if (!r->side)
		return kv_fail(&r->err, -KV_ENOMEM, "no memory");
	r->options.engines = (unsigned)r->args.engines;
	for (; r->count < wanted && rc == 0; r->count += rc == 0) {
		r->options.engine = r->count % (unsigned)r->args.engines;
		rc = te_open(&r->options, &handlers, &r->side[r->count], &r->side[r->count].te, &r->err);
		if (rc == 0)
			tell("opened", KV_MIN(r->count + 1, (unsigned)r->args.engines));
	}
	tell("open_ns", now() - start);
	return rc;
}

static int sides_register(struct rig *r)
{
	uint64_t room = kv_memory_available() / 2 / r->count,
		 bytes = KV_MAX(KV_MIN(r->args.region_bytes, room), (uint64_t)BLOCK_BYTES), start = now();
	int rc = 0;
	for (unsigned i = 0; i < r->count && rc == 0; i++) {
		struct side *s = &r->side[i];
		rc = kv_area_map(bytes, &s->area, &r->err);
		if (rc == 0)
			rc = te_region_register(s->te, s->area.base, bytes, TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE,
						0, &s->region, &r->err);
	}
	tell("register_ns", now() - start);
	tell("registered_bytes", bytes);
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
	tell("ping_ns", (now() - start) / (PINGS - 1));
	return 0;
}

static void on_done(struct te_xfer *x, int status)
{
	int *out = x->arg;
	*out = status;
}

static int block(struct rig *r, struct te_peer *peer)
{
	struct side *a = &r->side[0], *b = &r->side[1];
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
		tell("bytes", BLOCK_BYTES);
		tell("moved", 1);
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
	if (info.no_door[0])
		printf("no_door %s\n", info.no_door);
	tell("wait_fd", info.wait_fd);
	tell("write_emulated", info.write_emulated);
	tell("read_emulated", info.read_emulated);
	int rc = peer_open(r, 0, 1, &peer[0]);
	rc = rc ? rc : peer_open(r, 1, 0, &peer[1]);
	rc = rc ? rc : pings(r, peer);
	return rc ? rc : block(r, peer[0]);
}

/* ---- the child's main ---- */

static int args_parse(char **argv, struct try_args *a)
{
	const char *const text[] = {argv[2], argv[3], argv[4], argv[5], argv[6]};
	uint64_t *const to[] = {&a->rails, &a->engines, &a->region_bytes, &a->messages, &a->receives};
	a->provider = argv[0];
	a->nic = argv[1][0] ? argv[1] : NULL;
	a->local = argv[7];
	for (unsigned i = 0; i < KV_COUNT(to); i++)
		if (kv_u64_parse(text[i], to[i]))
			return -KV_EINVAL;
	return a->engines >= 1 && a->engines <= KV_OPT_CLIENTS_MAX && a->rails <= KV_RAILS_MAX ? 0 : -KV_EINVAL;
}

static int local_parse(const char *text, struct sockaddr_storage *out)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list;
	if (!text[0])
		return 0;
	if (getaddrinfo(text, NULL, &hints, &list))
		return -KV_EINVAL;
	memcpy(out, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

int try_child(int argc, char **argv)
{
	static const struct kv_log log = {.level = KV_LOG_ERROR, .write = kv_log_stderr};
	struct rig r = {.count = 0};
	if (argc != TRY_ARGS || args_parse(argv, &r.args) || local_parse(argv[7], &r.options.local)) {
		fprintf(stderr, "kv-doctor: %s is for kv-doctor itself\n", TRY_CHILD);
		return 2;
	}
	r.options.provider = r.args.provider;
	r.options.nic = r.args.nic;
	r.options.rails = (unsigned)r.args.rails;
	r.options.messages = (uint32_t)r.args.messages;
	r.options.receives = (uint32_t)r.args.receives;
	r.options.log = &log;
	te_env_for_programs();
	int rc = sides_open(&r);
	rc = rc ? rc : sides_register(&r);
	rc = rc ? rc : speak(&r);
	if (rc)
		printf("error %s\n", r.err.text);
	for (unsigned i = 0; i < r.count; i++) {
		te_close(&r.side[i].te);
		kv_area_unmap(&r.side[i].area);
	}
	free(r.side);
	tell("done", 1);
	return rc ? 1 : 0;
}
