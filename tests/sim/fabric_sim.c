/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_sim.c -- implements engine/fabric/fabric.h over a simulated world.
 *
 * An operation is a `struct flight`: it belongs to the fabric from posting until its last step has run, and counts its
 * scheduled steps. It names endpoints by {id, epoch}, never by pointer, and looks them up at each step: a rebuilt,
 * closed or crashed endpoint is simply not found, so that nothing reaches it and no event of it is delivered. That is
 * the whole fence. The fence is one of memory, not of the wire: a flight that has left lands at its target even when
 * its sender is gone by then, because packets do.
 *
 * A cut (fab_cut) is such a fence of one address: every flight between the two is marked, with the side that cut it,
 * and touches that side's memory no more. What the cutter had posted fails soon, also when the other side is unplugged.
 * An endpoint that posts to a peer which has cut it is mostly told to try again, and sometimes fails, until the address
 * is inserted again.
 *
 * Source bytes are copied when a flight departs (a read: when each piece is at the target), not when it is posted: a
 * caller that reuses a buffer before the completion sends garbage, and a test sees it. A write lands in pieces at
 * different times; key and bounds are checked with the first piece only, as tcp checks its header: a region closed
 * under a write is written to all the same. Immediate and completion follow the last piece, in either order; a write
 * that need not say when it was delivered may complete before any byte of it has landed.
 *
 * What an operation was given is the fabric's until its event: source bytes (and the destination of a read, until it
 * lands) are hashed when it is posted and must be the same when they are used and when it completes; a read's memory
 * may be no other operation's; no context is posted twice; no region is closed under an operation. So memory that is
 * given out again too early is seen although nothing has gone wrong yet. */
#include "tests/sim/fabric_sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/budget.h"
#include "engine/fabric/fabric.h"
#include "tests/sim/ring_sim.h"

enum { SIM_PIECES = 2, SIM_NAME_LEN = 24, SIM_FABS_MAX = 4096, SIM_OLD_MAX = 2 };

#define SIM_NAME_MAGIC   0x6b7672732d73696dull
#define SIM_UNPLUGGED_NS 1000000ull /* so often does a flight look whether it may go on */

/* What is noted in the world's trace. */
enum { NOTE_POST = 100, NOTE_EVENT, NOTE_REBUILD, NOTE_CUT };

struct fab_mr {
	struct kv_list node;
	struct fab *fab;
	uint8_t *base;
	uint64_t len, key;
	unsigned access;
};

struct sim_recv {
	struct kv_list node;
	void *buf;
	size_t len;
	struct fab_ctx *ctx;
};

struct sim_event {
	struct kv_list node;
	struct fab_event ev;
};

struct fab {
	struct kv_list node;
	uint64_t id, epoch;
	uint64_t old[SIM_OLD_MAX]; /* epochs that are given up and not closed: memory, and no events */
	unsigned olds;
	bool opened;          /* there is an endpoint: it may have failed, but was not given up */
	uint64_t close_ns;    /* when they will be; 0: fab_retire was not called yet */
	struct kv_list limbo; /* their receives */
	bool dead;            /* crashed: for ever */
	bool broken;          /* failed, or its rebuild did: until the next rebuild that succeeds */
	bool unplugged;
	unsigned rebuild_fails;
	bool stranded, homeless;            /* its address is gone; and there is no other one */
	uint32_t next_tx, next_rx, next_cq; /* depths from the next rebuild on; 0: as they are */
	int fd;                             /* readable while there are events; -1 */
	struct kv_list cuts;                /* struct sim_cut: addresses that nothing is taken from */
	struct kv_list mrs, recvs, events;
	struct kv_list arrivals; /* messages that came before a receive was posted */
	uint32_t num_events;
	uint32_t posted; /* operations without an event yet */
	uint32_t eagain_burst;
	uint64_t wrote_stamp; /* under which it last wrote */
	uint64_t stamp;       /* of its connections: what was posted under one is on one connection to each peer */
	struct fab_caps caps;
};

/* Whose end of a flight: an endpoint as it was when the flight began. */
struct sim_end {
	uint64_t id, epoch;
};

struct sim_cut {
	struct kv_list node;
	struct sim_end end;
};

enum { CUT_BY_FROM = 1, CUT_BY_TO = 2 };

enum flight_kind { FLIGHT_SEND, FLIGHT_WRITE, FLIGHT_READ };

struct flight {
	struct kv_list node;
	enum flight_kind kind;
	struct sim_end from, to; /* initiator, target */
	uint64_t stamp, order;   /* the initiator's, and when it was posted */
	uint8_t *local;          /* the initiator's memory */
	uint8_t *memory;         /* the target's, from the first piece on */
	size_t len;
	uint64_t addr, key;
	bool has_imm, delivery;
	bool marked; /* imm is only known to us */
	bool doomed; /* it is going to fail half way */
	bool failed;
	bool early;   /* completed before it landed */
	bool ended;   /* its event was made: memory and context are its owner's again */
	unsigned cut; /* by whom */
	uint64_t sum; /* of the local bytes when it was posted */
	const struct fab_mr *mr;
	uint32_t imm;
	struct fab_ctx *ctx;
	uint8_t *bytes; /* in flight */
	unsigned steps; /* scheduled and not run */
	unsigned pieces;
};

static struct {
	struct sim_world *world;
	struct sim_fabric_options options;
	struct sim_fabric_stats stats;
	struct sim_fabric_watch watch;
	struct kv_list fabs, flights;
	struct fab *by_id[SIM_FABS_MAX]; /* NULL: closed */
	uint64_t last_id, last_order;
	unsigned mr_fails; /* 0: none; 1: the next */
} sim;

void sim_fabric_init(struct sim_world *world, const struct sim_fabric_options *options)
{
	memset(&sim, 0, sizeof(sim));
	sim.world = world;
	if (options)
		sim.options = *options;
	if (sim.options.delay_max_ns == 0) {
		sim.options.delay_min_ns = 1000;
		sim.options.delay_max_ns = 50000;
	}
	sim.options.tx_depth = sim.options.tx_depth ? sim.options.tx_depth : 64;
	sim.options.rx_depth = sim.options.rx_depth ? sim.options.rx_depth : 256;
	sim.options.cq_depth = sim.options.cq_depth ? sim.options.cq_depth : 1024;
	sim.options.devices = sim.options.devices ? sim.options.devices : 4;
	kv_list_init(&sim.fabs);
	kv_list_init(&sim.flights);
}

static void flight_free(struct flight *f)
{
	kv_list_del(&f->node);
	free(f->bytes);
	free(f);
}

unsigned sim_fabric_fini(void)
{
	unsigned left = 0;
	KV_LIST_EACH (n, &sim.fabs) {
		struct fab *fab = KV_LIST_ENTRY(n, struct fab, node);
		left++;
		KV_LIST_EACH (m, &fab->mrs)
			left++;
	}
	while (!kv_list_empty(&sim.flights))
		flight_free(KV_LIST_ENTRY(sim.flights.next, struct flight, node));
	sim.world = NULL;
	return left;
}

void sim_fabric_stats(struct sim_fabric_stats *out)
{
	*out = sim.stats;
}

struct sim_fabric_options *sim_fabric_options(void)
{
	return &sim.options;
}

void sim_fabric_watch(const struct sim_fabric_watch *watch)
{
	sim.watch = *watch;
}

static void wrong(const char *text)
{
	if (sim.watch.wrong)
		sim.watch.wrong(sim.watch.arg, text);
}

static void *must(void *memory)
{
	if (!memory) {
		fprintf(stderr, "sim: no memory\n");
		abort();
	}
	return memory;
}

static uint64_t random_delay(void)
{
	uint64_t span = sim.options.delay_max_ns - sim.options.delay_min_ns + 1;
	return sim.options.delay_min_ns + kv_prng_below(sim_world_prng(sim.world), span);
}

static bool chance(unsigned n, unsigned of)
{
	return n > 0 && kv_prng_below(sim_world_prng(sim.world), of) < n;
}

static void after(uint64_t delay_ns, void (*fn)(void *), void *arg)
{
	sim_world_at(sim.world, sim_world_now(sim.world) + delay_ns, fn, arg);
}

/* ---- endpoints ---- */

static struct fab *fab_by_id(uint64_t id)
{
	return id < SIM_FABS_MAX ? sim.by_id[id] : NULL;
}

static struct fab *fab_find(struct sim_end end)
{
	struct fab *fab = fab_by_id(end.id);
	return fab && fab->epoch == end.epoch && !fab->dead && !fab->broken ? fab : NULL;
}

static bool given_up(const struct fab *fab, uint64_t epoch)
{
	for (unsigned i = 0; i < fab->olds; i++)
		if (fab->old[i] == epoch)
			return true;
	return false;
}

/* Also an endpoint that is given up and not closed: its memory is written to. */
static struct fab *fab_find_memory(struct sim_end end)
{
	struct fab *fab = fab_by_id(end.id);
	return fab && !fab->dead && given_up(fab, end.epoch) ? fab : fab_find(end);
}

static void event_add(struct fab *fab, struct fab_event ev)
{
	struct sim_event *e = must(calloc(1, sizeof(*e)));
	e->ev = ev;
	kv_list_add_tail(&fab->events, &e->node);
	if (++fab->num_events > fab->caps.cq_depth)
		sim.stats.overruns++;
	if (fab->fd >= 0)
		sim_flag_set(sim.world, fab->fd, true);
	sim_world_note(sim.world, NOTE_EVENT, fab->id << 40 | (uint64_t)ev.type << 32 | ev.imm);
}

static void recvs_drop(struct kv_list *recvs)
{
	struct kv_list *n;
	while ((n = kv_list_pop(recvs)))
		free(KV_LIST_ENTRY(n, struct sim_recv, node));
}

static bool same_end(struct sim_end a, struct sim_end b)
{
	return a.id == b.id && a.epoch == b.epoch;
}

static struct sim_cut *cut_find(const struct fab *fab, struct sim_end end)
{
	KV_LIST_EACH (n, &fab->cuts) {
		struct sim_cut *cut = KV_LIST_ENTRY(n, struct sim_cut, node);
		if (same_end(cut->end, end))
			return cut;
	}
	return NULL;
}

static void cut_end(struct sim_cut *cut)
{
	if (!cut)
		return;
	kv_list_del(&cut->node);
	free(cut);
}

/* Drop what the endpoint holds. Everything that is under way no longer finds it. */
static void endpoint_reset(struct fab *fab)
{
	struct kv_list *n;
	while (!kv_list_empty(&fab->cuts))
		cut_end(KV_LIST_ENTRY(fab->cuts.next, struct sim_cut, node));
	recvs_drop(&fab->recvs);
	while ((n = kv_list_pop(&fab->events)))
		free(KV_LIST_ENTRY(n, struct sim_event, node));
	while (!kv_list_empty(&fab->arrivals))
		flight_free(KV_LIST_ENTRY(fab->arrivals.next, struct flight, node));
	fab->num_events = 0;
	fab->posted = 0;
	fab->eagain_burst = 0;
	fab->epoch++;
	if (fab->fd >= 0)
		sim_flag_set(sim.world, fab->fd, false);
}

uint64_t sim_fabric_last(void)
{
	return sim.last_id;
}

uint64_t sim_fabric_id(const struct fab *fab)
{
	return fab->id;
}

void sim_fabric_crash(uint64_t id)
{
	struct fab *fab = fab_by_id(id);
	if (fab)
		fab->dead = true;
}

void sim_fabric_break(uint64_t id)
{
	struct fab *fab = fab_by_id(id);
	if (!fab || fab->dead || fab->broken)
		return;
	endpoint_reset(fab);
	fab->broken = true;
	event_add(fab, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
}

void sim_fabric_unplug(uint64_t id, bool unplugged)
{
	struct fab *fab = fab_by_id(id);
	if (fab)
		fab->unplugged = unplugged;
}

void sim_fabric_strand(uint64_t id, bool homeless)
{
	struct fab *fab = fab_by_id(id);
	if (!fab)
		return;
	fab->stranded = true;
	fab->homeless = homeless;
}

void sim_fabric_home(uint64_t id)
{
	struct fab *fab = fab_by_id(id);
	if (fab)
		fab->homeless = false;
}

void sim_fabric_rebuild_fails(uint64_t id, unsigned times)
{
	struct fab *fab = fab_by_id(id);
	if (fab)
		fab->rebuild_fails = times;
}

void sim_fabric_depths(uint64_t id, uint32_t tx, uint32_t rx, uint32_t cq)
{
	struct fab *fab = fab_by_id(id);
	if (!fab)
		return;
	fab->next_tx = tx;
	fab->next_rx = rx;
	fab->next_cq = cq;
}

void sim_fabric_mr_fails(unsigned after)
{
	sim.mr_fails = after + 1;
}

/* ---- devices, open, close ---- */

int fab_devices(const struct fab_query *query, struct fab_device *out, unsigned max, unsigned *out_count, char *out_why,
		struct kv_error *err)
{
	if (query->provider && strcmp(query->provider, "auto") != 0 && strcmp(query->provider, "sim") != 0)
		return kv_fail(err, -KV_ENOTSUP, "provider %s is not here; there is only: sim", query->provider);
	unsigned n = KV_MIN(max, sim.options.devices);
	for (unsigned i = 0; i < n; i++) {
		memset(&out[i], 0, sizeof(out[i]));
		snprintf(out[i].provider, sizeof(out[i].provider), "sim");
		snprintf(out[i].short_name, sizeof(out[i].short_name), "sim");
		snprintf(out[i].fabric, sizeof(out[i].fabric), "simulated");
		snprintf(out[i].domain, sizeof(out[i].domain), "sim%u", i);
		out[i].tx_depth = sim.options.tx_depth;
		out[i].rx_depth = sim.options.rx_depth;
		out[i].msg_max = KV_MSG_MAX;
		out[i].rma_max = UINT32_MAX;
		out[i].numa_node = -1;
	}
	*out_count = n;
	if (out_why)
		snprintf(out_why, 512, "sim: this is a simulation");
	return 0;
}

void fab_need(const struct fab_device *device, const struct fab_options *options, unsigned peers, struct kv_need *out)
{
	(void)device, (void)options, (void)peers;
	*out = (struct kv_need){.endpoints = 1};
}

void fab_limits(const struct fab_device *device, struct kv_device_limits *out)
{
	kv_device_limits_unknown(out);
	memcpy(out->device, device->domain, sizeof(out->device));
}

static void caps_fill(struct fab_caps *c, const struct fab_device *device, const struct fab_options *options)
{
	snprintf(c->provider, sizeof(c->provider), "sim");
	snprintf(c->fabric, sizeof(c->fabric), "simulated");
	snprintf(c->domain, sizeof(c->domain), "%s", device->domain);
	snprintf(c->libfabric, sizeof(c->libfabric), "simulated");
	c->virt_addr = sim.options.virt;
	c->prov_key = true;
	c->wait_fd = sim.options.wait_fd && options->want_wait_fd;
	c->tx_depth = options->tx_depth ? KV_MIN(options->tx_depth, sim.options.tx_depth) : sim.options.tx_depth;
	c->rx_depth = sim.options.rx_depth;
	c->cq_depth = sim.options.cq_depth;
	c->msg_max = KV_MSG_MAX;
	c->rma_max = UINT32_MAX;
	c->ordered = sim.options.ordered;
	c->close_max_ns = sim.options.peer_fence ? 0 : sim.options.close_max_ns;
	c->peer_fence = sim.options.peer_fence;
}

int fab_open(const struct fab_device *device, const struct fab_options *options, struct fab **out, struct kv_error *err)
{
	struct fab *fab = sim.last_id + 1 < SIM_FABS_MAX ? calloc(1, sizeof(*fab)) : NULL;
	if (!fab)
		return kv_fail(err, -KV_ENOMEM, "no memory for a simulated endpoint");
	fab->id = ++sim.last_id;
	fab->epoch = 1;
	fab->stamp = 1;
	kv_list_init(&fab->cuts);
	kv_list_init(&fab->mrs);
	kv_list_init(&fab->recvs);
	kv_list_init(&fab->limbo);
	kv_list_init(&fab->events);
	kv_list_init(&fab->arrivals);
	caps_fill(&fab->caps, device, options);
	fab->fd = fab->caps.wait_fd ? sim_flag_open(sim.world) : -1;
	fab->opened = true;
	kv_list_add_tail(&sim.fabs, &fab->node);
	sim.by_id[fab->id] = fab;
	*out = fab;
	return 0;
}

void fab_close(struct fab **fab)
{
	if (!*fab)
		return;
	endpoint_reset(*fab);
	(*fab)->olds = 0; /* waited for */
	recvs_drop(&(*fab)->limbo);
	kv_list_del(&(*fab)->node);
	while (!kv_list_empty(&(*fab)->mrs)) {
		struct fab_mr *mr = KV_LIST_ENTRY((*fab)->mrs.next, struct fab_mr, node);
		fab_mr_close(&mr);
	}
	if ((*fab)->fd >= 0)
		sim_flag_close(sim.world, (*fab)->fd);
	sim.by_id[(*fab)->id] = NULL;
	free(*fab);
	*fab = NULL;
}

/* Close the endpoint, or give it up where closing takes its time: then memory that it knows is written to until it is
 * closed. */
static void endpoint_give_up(struct fab *fab)
{
	bool slow = fab->caps.close_max_ns && fab->opened;
	fab->opened = false;
	if (slow && fab->olds == SIM_OLD_MAX)
		wrong("a third endpoint of a rail was given up");
	if (slow && fab->olds < SIM_OLD_MAX) {
		kv_list_splice_tail(&fab->limbo, &fab->recvs);
		fab->old[fab->olds++] = fab->epoch;
		fab->close_ns = 0;
	}
	endpoint_reset(fab);
}

void fab_retire(struct fab *fab)
{
	if (fab->olds && fab->close_ns == 0)
		fab->close_ns =
			sim_world_now(sim.world) + kv_prng_below(sim_world_prng(sim.world), sim.options.close_max_ns);
}

bool fab_retiring(struct fab *fab)
{
	if (fab->olds && fab->close_ns && sim_world_now(sim.world) >= fab->close_ns) {
		sim.stats.slow_closes += fab->olds;
		fab->olds = 0;
		recvs_drop(&fab->limbo);
	}
	return fab->olds > 0;
}

/* As a real one, a rebuilt queue has another descriptor. A crashed endpoint is rebuilt in vain. */
int fab_rebuild(struct fab *fab, struct kv_error *err)
{
	endpoint_give_up(fab);
	if (fab->olds > 1) {
		fab->broken = true;
		return kv_fail(err, -KV_EBUSY, "two simulated endpoints are not closed yet");
	}
	sim.stats.rebuilds++;
	sim_world_note(sim.world, NOTE_REBUILD, fab->id);
	fab->stranded = fab->homeless;
	fab->broken = fab->rebuild_fails > 0 || fab->homeless;
	if (fab->next_cq && !fab->broken) {
		fab->caps.tx_depth = fab->next_tx;
		fab->caps.rx_depth = fab->next_rx;
		fab->caps.cq_depth = fab->next_cq;
		fab->next_cq = 0;
	}
	if (fab->fd >= 0) {
		sim_flag_close(sim.world, fab->fd);
		fab->fd = sim_flag_open(sim.world);
	}
	fab->opened = !fab->broken;
	if (!fab->broken)
		return 0;
	fab->rebuild_fails -= fab->rebuild_fails > 0;
	return kv_fail(err, -KV_EPROVIDER, "the simulated endpoint %llu refuses to be rebuilt",
		       (unsigned long long)fab->id);
}

void fab_local_set(struct fab *fab, const struct sockaddr_storage *local)
{
	(void)fab, (void)local;
}

bool fab_address_gone(const struct fab *fab)
{
	return fab->stranded;
}

void fab_shut(struct fab *fab)
{
	endpoint_give_up(fab);
	fab->broken = true;
}

const struct fab_caps *fab_caps(const struct fab *fab)
{
	return &fab->caps;
}

int fab_name(struct fab *fab, void *out, size_t *inout_len)
{
	uint8_t *p = out;
	if (*inout_len < SIM_NAME_LEN)
		return -KV_ETOOBIG;
	kv_put64(p, SIM_NAME_MAGIC);
	kv_put64(p + 8, fab->id);
	kv_put64(p + 16, fab->epoch);
	*inout_len = SIM_NAME_LEN;
	return 0;
}

/* ---- what an operation was given ---- */

/* Whether context and local memory are still the fabric's. */
static bool outstanding(const struct flight *f)
{
	return !f->ended && fab_find_memory(f->from);
}

static void local_check(const struct flight *f)
{
	if (f->len && !(f->cut & CUT_BY_FROM) && kv_hash_block(f->local, f->len) != f->sum)
		wrong(f->kind == FLIGHT_READ    ? "memory that a read was posted for was changed before it landed"
		      : f->kind == FLIGHT_WRITE ? "the bytes of a write were changed before it completed"
						: "the bytes of a message were changed before it was sent");
}

static bool overlap(const struct flight *a, const struct flight *b)
{
	return a->local < b->local + b->len && b->local < a->local + a->len;
}

static void posting_check(const struct flight *f)
{
	KV_LIST_EACH (n, &sim.flights) {
		const struct flight *other = KV_LIST_ENTRY(n, const struct flight, node);
		if (!outstanding(other))
			continue;
		if (f->ctx == other->ctx && f->from.id == other->from.id)
			wrong("a context was posted that is still in use");
		if ((f->kind == FLIGHT_READ || other->kind == FLIGHT_READ) && !(other->cut & CUT_BY_FROM) &&
		    overlap(f, other))
			wrong("memory that a read will land in was given to another operation");
	}
}

/* ---- regions and addresses ---- */

int fab_mr_reg(struct fab *fab, void *base, uint64_t len, unsigned access, struct fab_mr **out, struct kv_error *err)
{
	/* What a rail that is out refuses is made up for later. */
	if (sim.mr_fails && !fab->broken && --sim.mr_fails == 0) {
		/* A client that gets no landing area is a client all the same. */
		*(access == FAB_REMOTE_WRITE ? &sim.stats.landing_failures : &sim.stats.mr_failures) += 1;
		return kv_fail(err, -KV_ENOMEM, "registering %llu bytes fails in this simulation",
			       (unsigned long long)len);
	}
	struct fab_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return kv_fail(err, -KV_ENOMEM, "no memory for a simulated region");
	mr->fab = fab;
	mr->base = base;
	mr->len = len;
	mr->access = access;
	mr->key = kv_prng_next(sim_world_prng(sim.world));
	kv_list_add_tail(&fab->mrs, &mr->node);
	*out = mr;
	return 0;
}

void fab_mr_close(struct fab_mr **mr)
{
	if (!*mr)
		return;
	KV_LIST_EACH (n, &sim.flights) {
		const struct flight *f = KV_LIST_ENTRY(n, const struct flight, node);
		if (f->mr == *mr && outstanding(f))
			wrong("a region was closed under an operation that uses it");
	}
	kv_list_del(&(*mr)->node);
	free(*mr);
	*mr = NULL;
}

void fab_mr_remote(const struct fab_mr *mr, uint64_t *out_base, uint64_t *out_key)
{
	*out_base = mr->fab->caps.virt_addr ? (uint64_t)(uintptr_t)mr->base : 0;
	*out_key = mr->key;
}

static struct sim_end blob_end(const void *blob)
{
	return (struct sim_end){.id = kv_get64((const uint8_t *)blob + 8),
				.epoch = kv_get64((const uint8_t *)blob + 16)};
}

/* A handle carries the peer's id and epoch: an old address leads nowhere, like a stale EFA queue pair. */
int fab_av_insert(struct fab *fab, const void *blob, size_t len, uint64_t *out_handle)
{
	if (len != SIM_NAME_LEN || kv_get64(blob) != SIM_NAME_MAGIC)
		return -KV_EPROTO;
	fab_uncut(fab, blob, len);
	*out_handle = kv_get64((const uint8_t *)blob + 8) << 32 | (uint32_t)kv_get64((const uint8_t *)blob + 16);
	return 0;
}

void fab_av_remove(struct fab *fab, uint64_t handle, bool used)
{
	(void)used;
	(void)fab;
	(void)handle;
}

void fab_broken(struct fab *fab, uint64_t handle)
{
	(void)fab;
	(void)handle;
}

unsigned te_rdma_list(const char *root, const char *domain, struct te_rdma *out, unsigned max)
{
	(void)root, (void)domain, (void)out, (void)max;
	return 0;
}

/* ---- flights ---- */

/* The memory a flight names at its target, or NULL: key, bounds and permission are checked as hardware does. */
static uint8_t *target_memory(struct fab *target, const struct flight *f, unsigned access)
{
	KV_LIST_EACH (n, &target->mrs) {
		struct fab_mr *mr = KV_LIST_ENTRY(n, struct fab_mr, node);
		uint64_t base = target->caps.virt_addr ? (uint64_t)(uintptr_t)mr->base : 0;
		if (mr->key != f->key || !(mr->access & access) || f->addr < base)
			continue;
		uint64_t off = f->addr - base;
		if (off <= mr->len && f->len <= mr->len - off)
			return mr->base + off;
	}
	sim.stats.bad_keys++;
	return NULL;
}

static void complete(struct flight *f, int status)
{
	struct fab *from = fab_find(f->from);
	if (!from || f->ended)
		return;
	if (f->kind != FLIGHT_READ)
		local_check(f);
	f->ended = true;
	from->posted--;
	sim.stats.failures += status != 0;
	event_add(from,
		  (struct fab_event){.type = status ? FAB_EV_FAIL : FAB_EV_DONE, .ctx = f->ctx, .status = status});
}

static void step_end(struct flight *f)
{
	if (--f->steps == 0)
		flight_free(f);
}

static void schedule(struct flight *f, void (*step)(void *))
{
	f->steps++;
	after(random_delay(), step, f);
}

static bool unplugged(struct sim_end end)
{
	const struct fab *fab = fab_find(end);
	return fab && (fab->unplugged || fab->stranded);
}

/* A step that needs the wire waits for it. */
static bool held(struct flight *f, void (*step)(void *))
{
	if (!unplugged(f->from) && !unplugged(f->to))
		return false;
	after(SIM_UNPLUGGED_NS, step, f);
	return true;
}

static void step_done(void *arg)
{
	struct flight *f = arg;
	if (held(f, step_done))
		return;
	complete(f, f->failed ? -ECONNABORTED : 0);
	step_end(f);
}

static void step_imm(void *arg)
{
	struct flight *f = arg;
	struct fab *to = fab_find(f->to);
	if (to && !(f->cut & CUT_BY_TO)) {
		sim.stats.immediates++;
		event_add(to, (struct fab_event){.type = FAB_EV_IMM, .imm = f->imm});
	}
	step_end(f);
}

static void piece_bounds(const struct flight *f, size_t *off, size_t *len)
{
	size_t part = f->len / SIM_PIECES;
	*off = f->pieces * part;
	*len = f->pieces == SIM_PIECES - 1 ? f->len - *off : part;
}

/* Where the next piece is at the target; NULL: nowhere any more. */
static uint8_t *piece_memory(struct flight *f, unsigned access)
{
	struct fab *to = fab_find_memory(f->to);
	if (!to || f->failed || f->cut & CUT_BY_TO || (f->doomed && f->pieces > 0))
		return NULL;
	if (f->pieces == 0)
		f->memory = target_memory(to, f, access);
	return f->memory;
}

/* Whether b is on the connection that a was posted to, behind it. */
static bool behind(const struct flight *a, const struct flight *b)
{
	return sim.options.ordered && a->from.id == b->from.id && a->from.epoch == b->from.epoch &&
	       a->to.id == b->to.id && a->to.epoch == b->to.epoch && a->stamp == b->stamp && a->order < b->order;
}

/* What is ahead of a message on its connection. */
static bool waits(const struct flight *f)
{
	KV_LIST_EACH (n, &sim.flights) {
		const struct flight *w = KV_LIST_ENTRY(n, const struct flight, node);
		if (w->kind == FLIGHT_WRITE && behind(w, f) && w->pieces < SIM_PIECES && !w->failed)
			return true;
	}
	return false;
}

/* A write that failed took its connection along. */
static void doom_behind(const struct flight *w)
{
	KV_LIST_EACH (n, &sim.flights) {
		struct flight *f = KV_LIST_ENTRY(n, struct flight, node);
		if (f->kind == FLIGHT_SEND && behind(w, f))
			f->doomed = true;
	}
}

static void step_land(void *arg)
{
	struct flight *f = arg;
	size_t off, len;
	if (held(f, step_land))
		return;
	uint8_t *memory = piece_memory(f, FAB_REMOTE_WRITE);
	piece_bounds(f, &off, &len);
	if (memory && sim.watch.landing)
		sim.watch.landing(sim.watch.arg, f->to.id, memory + off, len, f->has_imm || f->marked ? &f->imm : NULL);
	if (!memory) {
		f->failed = true;
		doom_behind(f);
	} else if (len > 0) {
		memcpy(memory + off, f->bytes + off, len);
	}
	sim.stats.late += memory && !fab_find(f->from);
	if (++f->pieces == SIM_PIECES) {
		sim.stats.dropped += f->failed;
		if (!f->failed && f->has_imm)
			schedule(f, step_imm);
		if (!f->early)
			schedule(f, step_done);
	}
	step_end(f);
}

static void deliver(struct fab *to, struct flight *f, struct sim_recv *r)
{
	size_t len = KV_MIN(f->len, r->len);
	memcpy(r->buf, f->bytes, len);
	event_add(to, (struct fab_event){.type = FAB_EV_RECV, .ctx = r->ctx, .len = len});
	free(r);
}

static void step_arrive(void *arg)
{
	struct flight *f = arg;
	if (held(f, step_arrive))
		return;
	if (!f->doomed && !(f->cut & CUT_BY_TO) && fab_find(f->to) && waits(f)) {
		after(random_delay(), step_arrive, f);
		return;
	}
	struct fab *to = f->doomed || f->cut & CUT_BY_TO ? NULL : fab_find(f->to),
		   *was = f->doomed || f->cut & CUT_BY_TO || to ? NULL : fab_find_memory(f->to);
	struct kv_list *r = to ? kv_list_pop(&to->recvs) : NULL, *old = was ? kv_list_pop(&was->limbo) : NULL;
	if (old) { /* of an endpoint that is given up: bytes, and no event */
		struct sim_recv *recv = KV_LIST_ENTRY(old, struct sim_recv, node);
		memcpy(recv->buf, f->bytes, KV_MIN(f->len, recv->len));
		free(recv);
	}
	if (!to) {
		sim.stats.dropped++;
	} else if (r) {
		deliver(to, f, KV_LIST_ENTRY(r, struct sim_recv, node));
	} else {
		/* Unexpected: it waits at the target. The list takes the flight over. */
		kv_list_del(&f->node);
		kv_list_add_tail(&to->arrivals, &f->node);
		return;
	}
	step_end(f);
}

static void step_read_back(void *arg)
{
	struct flight *f = arg;
	if (held(f, step_read_back))
		return;
	if (fab_find_memory(f->from))
		local_check(f);
	if (fab_find_memory(f->from) && !f->failed && !(f->cut & CUT_BY_FROM) && f->len)
		memcpy(f->local, f->bytes, f->len);
	complete(f, f->failed ? -ECONNABORTED : 0);
	step_end(f);
}

static void step_read_at_target(void *arg)
{
	struct flight *f = arg;
	size_t off, len;
	if (held(f, step_read_at_target))
		return;
	uint8_t *memory = piece_memory(f, FAB_REMOTE_READ);
	piece_bounds(f, &off, &len);
	if (!memory)
		f->failed = true;
	else if (len > 0)
		memcpy(f->bytes + off, memory + off, len);
	if (++f->pieces == SIM_PIECES)
		schedule(f, step_read_back);
	step_end(f);
}

/* A message arrives once more, by itself. */
static void duplicate(const struct flight *f)
{
	struct flight *twin = must(malloc(sizeof(*twin)));
	*twin = *f;
	twin->bytes = must(malloc(f->len ? f->len : 1));
	memcpy(twin->bytes, f->bytes, f->len);
	twin->steps = 0;
	twin->ended = true;
	kv_list_add_tail(&sim.flights, &twin->node);
	sim.stats.duplicates++;
	schedule(twin, step_arrive);
}

/* The source is read here, after posting: it must still be what it was. */
static void step_depart(void *arg)
{
	struct flight *f = arg;
	if (held(f, step_depart))
		return;
	if (!fab_find_memory(f->from) || f->cut & CUT_BY_FROM) {
		doom_behind(f);
		step_end(f);
		return;
	}
	local_check(f);
	if (f->len)
		memcpy(f->bytes, f->local, f->len);
	if (f->kind == FLIGHT_SEND) {
		if (chance(sim.options.dup_ppm, 1000000))
			duplicate(f);
		complete(f, f->doomed ? -ECONNABORTED : 0);
		schedule(f, step_arrive);
	} else {
		unsigned times = chance(sim.options.slow_percent, 100) ? 10 : 1;
		for (unsigned i = 0; i < SIM_PIECES; i++) {
			f->steps++;
			after(random_delay() * times, step_land, f);
		}
		f->early = !f->delivery && !f->doomed && chance(1, 2);
		if (f->early)
			schedule(f, step_done);
	}
	step_end(f);
}

static bool refuse(struct fab *fab)
{
	if (fab->eagain_burst == 0 && chance(sim.options.eagain_percent, 100))
		fab->eagain_burst = 1 + (uint32_t)kv_prng_below(sim_world_prng(sim.world), 8);
	if (fab->eagain_burst == 0 && fab->posted < fab->caps.tx_depth)
		return false;
	fab->stamp++;
	if (fab->eagain_burst == 0)
		return true;
	fab->eagain_burst--;
	sim.stats.eagain++;
	return true;
}

/* Behind a write nothing is refused until the next poll. A real fabric has no reason to, with the room that users
 * leave it; but nobody promises that, and where operations fail at all it happens now and then. */
static bool refuse_next(struct fab *fab)
{
	if (!sim.options.ordered || fab->wrote_stamp != fab->stamp)
		return refuse(fab);
	if (sim.options.fail_ppm == 0 || !chance(1, 10))
		return false;
	fab->stamp++;
	sim.stats.eagain++;
	return true;
}

static int flight_start(struct fab *fab, const struct flight *like, uint64_t to, void (*first)(void *), unsigned steps)
{
	const struct sim_end self = {.id = fab->id, .epoch = fab->epoch},
			     target = {.id = to >> 32, .epoch = (uint32_t)to};
	const struct fab *there = fab_find(target);
	bool cut = there && cut_find(there, self);
	if (fab->dead)
		return 0; /* into the void */
	if (fab->broken)
		return -KV_EPROVIDER;
	if (fab->stranded)
		return -EADDRNOTAVAIL;
	if (refuse_next(fab) || cut_find(fab, target))
		return -EAGAIN;
	if (cut && !chance(1, 4)) {
		fab->stamp++;
		return -EAGAIN;
	}
	if (like->kind == FLIGHT_WRITE)
		fab->wrote_stamp = fab->stamp;
	struct flight *f = must(malloc(sizeof(*f)));
	*f = *like;
	f->bytes = must(malloc(like->len ? like->len : 1));
	f->from = self;
	f->to = target;
	f->cut = cut ? CUT_BY_TO : 0;
	f->stamp = fab->stamp;
	f->order = ++sim.last_order;
	f->doomed = chance(sim.options.fail_ppm, 1000000);
	f->sum = f->len ? kv_hash_block(f->local, f->len) : 0;
	if (sim.watch.wrong)
		posting_check(f);
	kv_list_add_tail(&sim.flights, &f->node);
	fab->posted++;
	sim_world_note(sim.world, NOTE_POST, fab->id << 48 | (uint64_t)f->kind << 44 | f->len);
	for (unsigned i = 0; i < steps; i++)
		schedule(f, first);
	return 0;
}

static void step_cut(void *arg)
{
	struct flight *f = arg;
	complete(f, -ECONNABORTED);
	step_end(f);
}

static void flight_cut(struct flight *f, struct sim_end by, struct sim_end other)
{
	if (same_end(f->to, by) && same_end(f->from, other))
		f->cut |= CUT_BY_TO;
	if (!same_end(f->from, by) || !same_end(f->to, other) || f->cut & CUT_BY_FROM)
		return;
	f->cut |= CUT_BY_FROM;
	f->early = true; /* its end is this: */
	if (!f->ended && f->steps > 0)
		schedule(f, step_cut);
}

int fab_cut(struct fab *fab, const void *blob, size_t len)
{
	const struct sim_end self = {.id = fab->id, .epoch = fab->epoch}, other = blob_end(blob);
	struct sim_cut *cut;
	(void)len;
	if (!fab->caps.peer_fence || fab->broken)
		return -KV_ENOTSUP;
	if (cut_find(fab, other))
		return 0;
	cut = must(calloc(1, sizeof(*cut)));
	cut->end = other;
	kv_list_add_tail(&fab->cuts, &cut->node);
	sim.stats.cuts++;
	sim_world_note(sim.world, NOTE_CUT, fab->id << 32 | other.id);
	KV_LIST_EACH (n, &sim.flights)
		flight_cut(KV_LIST_ENTRY(n, struct flight, node), self, other);
	return 0;
}

void fab_uncut(struct fab *fab, const void *blob, size_t len)
{
	(void)len;
	cut_end(cut_find(fab, blob_end(blob)));
}

int fab_recv(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, struct fab_ctx *ctx)
{
	(void)mr;
	if (fab->dead)
		return 0;
	if (fab->broken)
		return -KV_EPROVIDER;
	KV_LIST_EACH (n, &fab->limbo)
		if (KV_LIST_ENTRY(n, const struct sim_recv, node)->buf == buf)
			wrong("a receive was posted that an endpoint, given up and not closed, may still write to");
	struct sim_recv *r = must(calloc(1, sizeof(*r)));
	*r = (struct sim_recv){.buf = buf, .len = len, .ctx = ctx};
	if (kv_list_empty(&fab->arrivals)) {
		kv_list_add_tail(&fab->recvs, &r->node);
		return 0;
	}
	struct flight *f = KV_LIST_ENTRY(fab->arrivals.next, struct flight, node);
	deliver(fab, f, r);
	flight_free(f);
	return 0;
}

int fab_send(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, struct fab_ctx *ctx)
{
	sim.stats.messages++;
	struct flight f = {.kind = FLIGHT_SEND, .mr = mr, .local = (uint8_t *)(uintptr_t)buf, .len = len, .ctx = ctx};
	return len > KV_MSG_MAX ? -EMSGSIZE : flight_start(fab, &f, to, step_depart, 1);
}

int fab_write(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr, uint64_t key,
	      const uint32_t *imm, unsigned how, struct fab_ctx *ctx)
{
	sim.stats.writes++;
	struct flight f = {.kind = FLIGHT_WRITE,
			   .mr = mr,
			   .local = (uint8_t *)(uintptr_t)buf,
			   .len = len,
			   .addr = addr,
			   .key = key,
			   .has_imm = imm != NULL,
			   .imm = imm ? *imm : 0,
			   .delivery = how & FAB_DELIVERED,
			   .ctx = ctx};
	f.marked = !imm && sim.watch.mark && sim.watch.mark(ctx, &f.imm);
	return flight_start(fab, &f, to, step_depart, 1);
}

int fab_read(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, uint64_t from, uint64_t addr, uint64_t key,
	     struct fab_ctx *ctx)
{
	sim.stats.reads++;
	struct flight f = {
		.kind = FLIGHT_READ, .mr = mr, .local = buf, .len = len, .addr = addr, .key = key, .ctx = ctx};
	return flight_start(fab, &f, from, step_read_at_target, SIM_PIECES);
}

/* ---- events ---- */

int fab_poll(struct fab *fab, struct fab_event *out, int n)
{
	int got = 0;
	fab->stamp++;
	while (got < n && !fab->dead) {
		struct kv_list *node = kv_list_pop(&fab->events);
		if (!node)
			break;
		struct sim_event *e = KV_LIST_ENTRY(node, struct sim_event, node);
		out[got++] = e->ev;
		fab->num_events--;
		free(e);
	}
	if (fab->fd >= 0)
		sim_flag_set(sim.world, fab->fd, fab->num_events > 0 && !fab->dead);
	return got;
}

int fab_wait_fd(const struct fab *fab)
{
	return fab->fd;
}

int fab_arm(struct fab *fab)
{
	return fab->dead || kv_list_empty(&fab->events) ? 0 : -EAGAIN;
}

const char *fab_last_error(const struct fab *fab)
{
	(void)fab;
	return "simulated";
}
