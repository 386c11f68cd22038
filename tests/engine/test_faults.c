/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.c -- the engine above a fabric that does what the test says: -EAGAIN, failures, stray events, dead
 * endpoints, rebuilds that fail.
 *
 * This file implements engine/fabric.h itself, so the linker takes nothing from libfab.a. Nothing completes unless the
 * test says so; time stands still unless the test moves it. */
#include "tests/engine/node.h"

#include <errno.h>

#include "engine/fabric.h"
#include "tests/check.h"
#include "host/host.h"

/* ---- the fabric that does what it is told ---- */

enum { POSTS_MAX = 4096, HANDLES = 512, EVENTS_MAX = 256, ENDPOINT_ERROR = 268 /* FI_EOVERRUN */ };

enum kind { RECV, SEND, WRITE, READ };

struct post {
	enum kind kind;
	uint64_t to, addr, key;
	size_t len;
	struct fab_ctx *ctx;
	uint32_t imm;
	bool has_imm, over;
	unsigned rail;
};

struct fab {
	bool open;
	unsigned rail, old; /* old: given up and not closed */
	struct kv_list mrs;
};
struct fab_mr {
	struct kv_list node;
	uint64_t key, len;
	uint8_t *base;
};

static struct {
	struct post posts[POSTS_MAX]; /* everything ever posted, receives apart */
	unsigned count, tries, recvs_posted, recvs_eagain, recvs_tries;
	struct fab_ctx *recvs[64];
	bool eagain[HANDLES];              /* per handle */
	bool known[KV_RAILS_MAX][HANDLES]; /* addresses that a rail has */
	int fail_next;                     /* code of the next send, write or read */
	bool half_next;                    /* of the next write the provider takes the first half only */
	struct fab_event events[EVENTS_MAX];
	unsigned event_rail[EVENTS_MAX];
	unsigned nevents;
	unsigned rebuilds, rebuild_failures, mrs, inserts, removes, opens;
	unsigned shuts, rebuilds_of[KV_RAILS_MAX], fails_of[KV_RAILS_MAX]; /* by rail */
	bool mr_fails_of[KV_RAILS_MAX];
	uint64_t mr_room_of[KV_RAILS_MAX]; /* bytes that a rail has left for regions; 0: no end */
	uint64_t mr_takes_ns, close_takes_ns;
	bool busy[KV_RAILS_MAX];
	uint64_t mr_max; /* larger registrations fail */
	int cut_fails;   /* what fab_cut says */
	bool cut[HANDLES];
	unsigned cuts;
	struct fab_caps caps;
	uint32_t tx_depth, cq_depth;
	bool closed;                  /* what was given up is closed, ... */
	bool closed_of[KV_RAILS_MAX]; /* ... by rail */
	unsigned retires;
} fake;

static struct fab *open_fabs[KV_RAILS_MAX]; /* those that are open, by rail */
static uint64_t now_ns;
static bool fake_imm_only; /* these survive the clearing of fake */
static bool fake_ordered;
static bool fake_slow; /* endpoints take long to close */
static unsigned fake_devices = 1;
static int fake_node = -1;

int fab_devices(const struct fab_query *q, struct fab_device *out, unsigned max, unsigned *out_count, char *why,
		struct kv_error *err)
{
	(void)q, (void)err, (void)max;
	for (unsigned i = 0; i < fake_devices; i++) {
		memset(&out[i], 0, sizeof(*out));
		out[i].numa_node = fake_node;
		snprintf(out[i].short_name, sizeof(out[i].short_name), "fake");
		snprintf(out[i].domain, sizeof(out[i].domain), "fake%u", i);
	}
	snprintf(why, 512, "a fake");
	*out_count = fake_devices;
	return 0;
}

void fab_devices_free(struct fab_device *d, unsigned n)
{
	(void)d, (void)n;
}

void fab_fork(bool hold)
{
	(void)hold; /* it has nothing that guards a process */
}

int fab_open(const struct fab_device *d, const struct fab_options *o, struct fab **out, struct kv_error *err)
{
	(void)d, (void)o, (void)err;
	*out = calloc(1, sizeof(**out));
	(*out)->open = true;
	(*out)->rail = fake.opens;
	kv_list_init(&(*out)->mrs);
	open_fabs[fake.opens] = *out;
	fake.opens++;
	fake.caps = (struct fab_caps){.tx_depth = fake.tx_depth,
				      .cq_depth = fake.cq_depth,
				      .rx_depth = 16,
				      .msg_max = KV_MSG_MAX,
				      .rma_max = 1 << 30,
				      .ordered = fake_ordered,
				      .close_slow = fake_slow,
				      .push_imm_only = fake_imm_only};
	return 0;
}

void fab_close(struct fab **fab)
{
	if (*fab)
		fake.opens--;
	while (*fab && !kv_list_empty(&(*fab)->mrs)) {
		struct fab_mr *mr = KV_LIST_ENTRY((*fab)->mrs.next, struct fab_mr, node);
		fab_mr_close(&mr);
	}
	if (*fab)
		open_fabs[(*fab)->rail] = NULL;
	free(*fab);
	*fab = NULL;
}

static void fake_close(struct fab *fab)
{
	unsigned left = 0;
	fab->open = false;
	memset(fake.known[fab->rail], 0, sizeof(fake.known[0]));
	fake.recvs_posted = 0;
	for (unsigned i = 0; i < fake.nevents; i++)
		if (fake.event_rail[i] != fab->rail) {
			fake.events[left] = fake.events[i];
			fake.event_rail[left++] = fake.event_rail[i];
		}
	fake.nevents = left;
	for (unsigned i = 0; i < fake.count; i++)
		if (fake.posts[i].rail == fab->rail)
			fake.posts[i].over = true;
}

static void fake_give_up(struct fab *fab)
{
	fab->old += fake.caps.close_slow && fab->open;
	fake_close(fab);
}

void fab_shut(struct fab *fab)
{
	fake.shuts++;
	fake_give_up(fab);
}

void fab_posted(struct fab *fab, uint32_t operations)
{
	(void)fab, (void)operations;
}

void fab_retire(struct fab *fab)
{
	fake.retires += fab->old > 0;
}

bool fab_retiring(struct fab *fab)
{
	if (fake.closed || fake.closed_of[fab->rail])
		fab->old = 0;
	return fab->old > 0;
}

int fab_rebuild(struct fab *fab, struct kv_error *err)
{
	fake.rebuilds++;
	fake.rebuilds_of[fab->rail]++;
	fake_give_up(fab);
	if (fab->old > 1)
		return kv_fail(err, -KV_EBUSY, "told to wait");
	if (fake.fails_of[fab->rail]) {
		fake.fails_of[fab->rail]--;
		return kv_fail(err, -KV_ELIMIT, "told to fail");
	}
	if (fake.rebuild_failures) {
		fake.rebuild_failures--;
		return kv_fail(err, -KV_ELIMIT, "told to fail");
	}
	fab->open = true;
	return 0;
}

const struct fab_caps *fab_caps(const struct fab *fab)
{
	(void)fab;
	return &fake.caps;
}

int fab_name(struct fab *fab, void *out, size_t *len)
{
	if (!fab->open)
		return -KV_EPROVIDER;
	memset(out, 7, 8);
	((uint8_t *)out)[7] = (uint8_t)fab->rail;
	*len = 8;
	return 0;
}

int fab_mr_reg(struct fab *fab, void *base, uint64_t len, unsigned access, struct fab_mr **out, struct kv_error *err)
{
	(void)access;
	if (fake.mr_fails_of[fab->rail])
		return kv_fail(err, -KV_EPROVIDER, "told to fail");
	if ((fake.mr_max && len > fake.mr_max) || (fake.mr_room_of[fab->rail] && len > fake.mr_room_of[fab->rail]))
		return kv_fail(err, -KV_ENOMEM, "told to have no room");
	/* A rail is one thread's at a time, whichever that is. */
	if (__atomic_exchange_n(&fake.busy[fab->rail], true, __ATOMIC_ACQUIRE))
		abort();
	*out = calloc(1, sizeof(**out));
	(*out)->key = __atomic_add_fetch(&fake.mrs, 1, __ATOMIC_RELAXED);
	(*out)->base = base;
	(*out)->len = len;
	if (fake.mr_room_of[fab->rail])
		fake.mr_room_of[fab->rail] -= len;
	if (fake.mr_takes_ns)
		now_ns += fake.mr_takes_ns;
	__atomic_store_n(&fake.busy[fab->rail], false, __ATOMIC_RELEASE);
	kv_list_add_tail(&fab->mrs, &(*out)->node);
	return 0;
}

void fab_mr_close(struct fab_mr **mr)
{
	if (*mr) {
		kv_list_del(&(*mr)->node);
		now_ns += fake.close_takes_ns;
	}
	free(*mr);
	*mr = NULL;
}

void fab_mr_remote(const struct fab_mr *mr, uint64_t *base, uint64_t *key)
{
	*base = mr->key << 40;
	*key = mr->key;
}

int fab_av_insert(struct fab *fab, const void *blob, size_t len, uint64_t *out)
{
	(void)len;
	fake.inserts++;
	*out = kv_get16(blob) % HANDLES;
	assert_true(fab->open && !fake.known[fab->rail][*out]);
	fake.known[fab->rail][*out] = true;
	return 0;
}

void fab_av_remove(struct fab *fab, uint64_t handle, bool used)
{
	(void)used;
	fake.removes++;
	assert_true(fake.known[fab->rail][handle]);
	fake.known[fab->rail][handle] = false;
}

int fab_cut(struct fab *fab, const void *blob, size_t len)
{
	(void)len;
	assert_true(fab->open && fake.caps.peer_fence);
	fake.cuts++;
	fake.cut[kv_get16(blob) % HANDLES] = fake.cut_fails == 0;
	return fake.cut_fails;
}

void fab_uncut(struct fab *fab, const void *blob, size_t len)
{
	(void)fab, (void)len;
	assert_true(fake.cut[kv_get16(blob) % HANDLES]);
	fake.cut[kv_get16(blob) % HANDLES] = false;
}

int fab_recv(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, struct fab_ctx *ctx)
{
	(void)buf, (void)len, (void)mr;
	if (!fab->open)
		return -KV_EPROVIDER;
	fake.recvs_tries++;
	if (fake.recvs_eagain) {
		fake.recvs_eagain--;
		return -EAGAIN;
	}
	fake.recvs[fake.recvs_posted++ % KV_COUNT(fake.recvs)] = ctx;
	return 0;
}

static int post(struct fab *fab, struct post p)
{
	fake.tries++;
	if (!fab->open)
		return -KV_EPROVIDER;
	assert_true(fake.known[fab->rail][p.to]);
	if (fake.eagain[p.to])
		return -EAGAIN;
	if (fake.fail_next) {
		int rc = fake.fail_next;
		fake.fail_next = 0;
		return rc;
	}
	if (fake.count == POSTS_MAX) { /* forget what is over */
		unsigned n = 0;
		for (unsigned i = 0; i < POSTS_MAX; i++)
			if (!fake.posts[i].over)
				fake.posts[n++] = fake.posts[i];
		assert_true(n < POSTS_MAX);
		fake.count = n;
	}
	p.rail = fab->rail;
	fake.posts[fake.count++] = p;
	return 0;
}

int fab_send(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, struct fab_ctx *ctx)
{
	(void)buf, (void)mr;
	return post(fab, (struct post){.kind = SEND, .to = to, .len = len, .ctx = ctx});
}

int fab_write(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr, uint64_t key,
	      const uint32_t *imm, bool delivery, struct fab_ctx *ctx)
{
	bool half = fake.half_next;
	(void)buf, (void)mr, (void)delivery;
	fake.half_next = false;
	int rc = post(fab, (struct post){.kind = WRITE,
					 .to = to,
					 .len = len,
					 .ctx = ctx,
					 .addr = addr,
					 .key = key,
					 .has_imm = imm,
					 .imm = imm ? *imm : 0});
	return rc == 0 && half ? FAB_HALF : rc;
}

int fab_read(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, uint64_t from, uint64_t addr, uint64_t key,
	     struct fab_ctx *ctx)
{
	(void)buf, (void)mr;
	return post(fab, (struct post){.kind = READ, .to = from, .len = len, .ctx = ctx, .addr = addr, .key = key});
}

int fab_poll(struct fab *fab, struct fab_event *out, int n)
{
	if (!fab->open)
		return 0;
	unsigned left = 0;
	int taken = 0;
	for (unsigned i = 0; i < fake.nevents; i++) {
		if (fake.event_rail[i] == fab->rail && taken < n) {
			out[taken++] = fake.events[i];
			continue;
		}
		fake.events[left] = fake.events[i];
		fake.event_rail[left++] = fake.event_rail[i];
	}
	fake.nevents = left;
	return taken;
}

int fab_wait_fd(const struct fab *fab)
{
	(void)fab;
	return -1;
}

int fab_arm(struct fab *fab)
{
	(void)fab;
	return -EAGAIN;
}

enum fab_error_class fab_error_class(int status)
{
	switch (-status) {
	case ENOTCONN:
	case ECANCELED:
		return FAB_ERR_PEER;
	case ENDPOINT_ERROR:
	case KV_EPROVIDER:
		return FAB_ERR_ENDPOINT;
	default:
		return FAB_ERR_OP;
	}
}

void fab_door_counts(const struct fab *fab, struct fab_door_counts *out)
{
	(void)fab;
	*out = (struct fab_door_counts){0};
}

const char *fab_last_error(const struct fab *fab)
{
	(void)fab;
	return "told to";
}

static void event_of(unsigned rail, struct fab_event ev)
{
	assert_true(fake.nevents < EVENTS_MAX);
	fake.event_rail[fake.nevents] = rail;
	fake.events[fake.nevents++] = ev;
}

static void event(struct fab_event ev)
{
	event_of(0, ev);
}

static void complete(unsigned i, int status)
{
	assert_false(fake.posts[i].over);
	fake.posts[i].over = true;
	event_of(fake.posts[i].rail, (struct fab_event){.type = status ? FAB_EV_FAIL : FAB_EV_DONE,
							.ctx = fake.posts[i].ctx,
							.status = status});
}

static unsigned outstanding(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < fake.count; i++)
		n += !fake.posts[i].over;
	return n;
}

/* ---- the fixture: one engine, a standing clock, a local region and a remote one that is only numbers ---- */

static uint64_t clock_now(const struct kv_clock *clock)
{
	(void)clock;
	return now_ns;
}

static const struct kv_clock standing = {.now_ns = clock_now};

enum { CHUNK = 1000, LEN = 1 << 20 };

static struct node n;
static struct area area;
static struct te_key far_key = {.base = 5000, .key = 77};
static struct area far = {.remote = {.len_bytes = LEN, .part_bytes = LEN, .parts = 1, .rails = 1, .keys = &far_key}};

static void open_with(struct te_options o, uint32_t tx_depth, uint32_t cq_depth)
{
	memset(&fake, 0, sizeof(fake));
	fake.tx_depth = tx_depth;
	fake.cq_depth = cq_depth;
	now_ns = 1000000000;
	o.clock = &standing;
	o.chunk_bytes = o.chunk_bytes ? o.chunk_bytes : CHUNK;
	node_open(&n, "fake", &o);
	area_open(&area, &n, LEN, 0, 0);
}

static void open_plain(void)
{
	open_with((struct te_options){0}, 64, 1024);
}

static void close_all(void)
{
	/* Not area_close: transfers may be under way, and te_close ends them. */
	node_close(&n);
	assert_int_equal(fake.opens, 0);
	free(area.remote.keys);
	free(area.base);
}

static struct te_peer *peer(uint16_t handle)
{
	struct te_address a = {.len = 2};
	struct te_peer *p = NULL;
	kv_put16(a.data, handle);
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, NULL), 0);
	return p;
}

static void start(struct te_xfer *x, struct result *r, enum te_dir dir, struct te_peer *p, uint64_t len, int expect)
{
	xfer_init(x, r, dir, p, &area, 0, &far, 0, len);
	assert_int_equal(te_xfer_start(n.te, x), expect);
}

static void poll(void)
{
	te_poll(n.te);
}

/* ---- scheduling ---- */

static void a_stalled_peer_delays_no_other(void **state)
{
	struct te_xfer x, y;
	struct result rx, ry;
	(void)state;
	open_plain();
	struct te_peer *bad = peer(1), *good = peer(2);
	fake.eagain[1] = true;
	start(&x, &rx, TE_WRITE, bad, 3 * CHUNK, 0);
	start(&y, &ry, TE_WRITE, good, 3 * CHUNK, 1);
	assert_int_equal(fake.count, 3);
	for (unsigned i = 0; i < 3; i++)
		complete(i, 0);
	poll();
	assert_int_equal(ry.done, 1);
	assert_int_equal(ry.status, 0);
	assert_int_equal(rx.done, 0);
	fake.eagain[1] = false;
	poll();
	assert_int_equal(fake.count, 6);
	assert_int_equal(rx.posting_done, 1);
	assert_int_equal(rx.posted_when_told, 3);
	close_all();
}

static void a_stalled_peer_is_tried_once_per_poll(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	struct te_peer *bad = peer(1);
	fake.eagain[1] = true;
	start(&x, &r, TE_WRITE, bad, 30 * CHUNK, 0);
	for (unsigned i = 0; i < 10; i++) {
		unsigned before = fake.tries;
		poll();
		assert_int_equal(fake.tries, before + 1);
	}
	close_all();
}

static void many_stalled_peers_cost_a_bounded_poll(void **state)
{
	enum { PEERS = 300 };
	static struct result r[PEERS];
	uint8_t data[8] = {0};
	(void)state;
	open_with((struct te_options){.messages = PEERS}, 64, 1024);
	for (unsigned i = 0; i < PEERS; i++) {
		fake.eagain[i + 1] = true;
		te_msg_send(n.te, peer((uint16_t)(i + 1)), 0, msg_for(&n, &r[i], data, 8), KV_NEVER);
	}
	unsigned before = fake.tries;
	poll();
	assert_true(fake.tries - before <= 64);
	memset(fake.eagain, 0, sizeof(fake.eagain));
	for (unsigned i = 0; i < 10; i++) /* and every one gets its turn */
		poll();
	for (unsigned i = 0; i < fake.count; i++)
		complete(i, 0);
	for (unsigned i = 0; i < 400 && te_busy(n.te); i++) {
		poll();
		for (unsigned j = 0; j < fake.count; j++)
			if (!fake.posts[j].over)
				complete(j, 0);
	}
	for (unsigned i = 0; i < PEERS; i++)
		assert_int_equal(r[i].done, 1);
	close_all();
}

static void queued_things_expire(void **state)
{
	struct te_xfer x, y;
	struct result rx, ry, rm;
	uint8_t data[8] = {0};
	(void)state;
	open_with((struct te_options){.link_ops = 1, .link_bytes = 1}, 64, 1024);
	struct te_peer *p = peer(1), *hung = peer(2);
	fake.eagain[1] = true;
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, data, 8), now_ns + 5000000);
	xfer_init(&x, &rx, TE_WRITE, p, &area, 0, &far, 0, 2 * CHUNK);
	x.deadline_ns = now_ns + 10000000;
	assert_int_equal(te_xfer_start(n.te, &x), 0);
	xfer_init(&y, &ry, TE_WRITE, hung, &area, 0, &far, 0,
		  2 * CHUNK); /* posted, never completing: its window stays full */
	y.deadline_ns = now_ns + 10000000;
	assert_int_equal(te_xfer_start(n.te, &y), 0);
	assert_int_equal(y.posted, 1);
	now_ns += 4999999;
	poll();
	assert_int_equal(rm.done, 0);
	now_ns += 1;
	poll();
	assert_int_equal(rm.done, 1);
	assert_int_equal(rm.status, -KV_ETIMEOUT);
	assert_int_equal(rx.done, 0);
	now_ns += 5000000;
	poll();
	assert_int_equal(rx.done, 1);
	assert_int_equal(rx.status, -KV_ETIMEOUT);
	assert_int_equal(rx.posting_done, 1);
	assert_int_equal(ry.posting_done, 1); /* posted is final, */
	assert_int_equal(ry.posted_when_told, 1);
	assert_int_equal(ry.done, 0); /* but one chunk is still out */
	complete(0, 0);
	poll();
	assert_int_equal(ry.done, 1);
	assert_int_equal(ry.status, -KV_ETIMEOUT);
	close_all();
}

static void peers_share_credits_evenly(void **state)
{
	struct te_xfer x[2];
	struct result r[2];
	unsigned to[3] = {0};
	(void)state;
	open_with((struct te_options){.link_ops = 1000}, 16, 1024); /* 14 credits for transfers */
	struct te_peer *one = peer(1), *two = peer(2);
	start(&x[0], &r[0], TE_WRITE, one, 400 * CHUNK, 0);
	start(&x[1], &r[1], TE_WRITE, two, 400 * CHUNK, 0);
	for (unsigned i = 0; i < 500; i++) {
		complete(i, 0);
		poll();
	}
	for (unsigned i = 100; i < 500; i++)
		to[fake.posts[i].to]++;
	assert_int_equal(to[1], 200);
	assert_int_equal(to[2], 200);
	close_all();
}

static void transfers_of_one_peer_take_turns(void **state)
{
	struct te_xfer huge, small;
	struct result rh, rs;
	(void)state;
	open_with((struct te_options){.link_ops = 2, .link_bytes = 1}, 64, 1024);
	struct te_peer *p = peer(1);
	start(&huge, &rh, TE_WRITE, p, 100 * CHUNK, 0);
	start(&small, &rs, TE_WRITE, p, 2 * CHUNK, 0);
	for (unsigned i = 0; !rs.done && i < 10; i++) {
		complete(i, 0);
		poll();
	}
	assert_int_equal(rs.done, 1);
	assert_true(huge.posted < 8);
	close_all();
}

static void in_flight_never_exceeds_the_credits(void **state)
{
	enum { COUNT = 64 };
	static struct te_xfer x[COUNT];
	static struct result r[COUNT], rm[8];
	uint8_t data[8] = {0};
	(void)state;
	open_with((struct te_options){.link_ops = 1000}, 64, 32); /* cq depth / 2 = 16; an eighth of it for messages */
	struct te_peer *p = peer(1), *other = peer(2);
	for (unsigned i = 0; i < COUNT; i++)
		start(&x[i], &r[i], i % 2 ? TE_WRITE : TE_READ, p, CHUNK, i < 14);
	assert_int_equal(outstanding(), 14);
	te_msg_send(n.te, p, 0, msg_for(&n, &rm[0], data, 8), KV_NEVER);
	te_msg_send(n.te, other, 0, msg_for(&n, &rm[1], data, 8), KV_NEVER);
	assert_int_equal(outstanding(), 16); /* messages use the reserve, at once */
	te_msg_send(n.te, other, 0, msg_for(&n, &rm[2], data, 8), KV_NEVER);
	poll();
	assert_int_equal(outstanding(), 16);
	complete(0, 0);
	poll();
	assert_int_equal(outstanding(), 16);
	assert_int_equal(fake.posts[fake.count - 1].kind, SEND); /* and go first */
	for (unsigned i = 1; i < fake.count; i++) {
		complete(i, 0);
		poll();
		assert_true(outstanding() <= 16);
	}
	assert_false(te_busy(n.te));
	close_all();
}

/* What peers may send at once fits beside what is ours: of any rail, and after a rebuild. */
static void room_for_immediates_follows_the_queues(void **state)
{
	static const struct {
		uint32_t tx, cq, receives, room;
		bool take;
	} rows[] = {{64, 1024, 16, 512, false}, {32, 64, 16, 16, false}, {64, 2048, 16, 1024, false},
		    {64, 160, 16, 80, false},   {64, 64, 16, 16, false}, {8, 16, 16, 4, false},
		    {64, 1024, 16, 8, true},    {8, 16, 16, 2, true},    {64, 1024, 16, 512, false}};
	struct te_info info;
	(void)state;
	open_plain();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		fake.caps.tx_depth = rows[i].tx;
		fake.caps.cq_depth = rows[i].cq;
		fake.caps.imm_takes_receive = rows[i].take;
		now_ns += 10000000000;
		event((struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
		poll();
		te_info(n.te, &info);
		assert_int_equal(info.imm_room, rows[i].room);
		assert_int_equal(info.cq_depth, rows[i].cq);
		assert_int_equal(info.tx_depth, KV_MIN(KV_MIN(rows[i].tx, rows[i].cq / 2), 64u));
	}
	close_all();
}

/* A rebuild may have to do with less device memory. */
static void in_flight_never_exceeds_the_depth_of_a_rebuilt_endpoint(void **state)
{
	struct te_address a = {.len = 2, .data = {1}};
	struct te_xfer x;
	struct result r;
	(void)state;
	open_with((struct te_options){.link_ops = 64}, 64, 1024);
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, 60 * CHUNK, 0);
	assert_int_equal(outstanding(), 56); /* an eighth is for messages */
	fake.caps.tx_depth = 32;
	fake.caps.cq_depth = 16;
	event((struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	poll();
	assert_int_equal(r.done, 1);
	assert_int_equal(te_peer_readdress(p, &a, 1, NULL), 0);
	start(&x, &r, TE_WRITE, p, 60 * CHUNK, 0);
	assert_int_equal(outstanding(), 7);
	fake.caps.tx_depth = 64;
	fake.caps.cq_depth = 1024;
	event((struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	poll();
	assert_int_equal(te_peer_readdress(p, &a, 1, NULL), 0);
	start(&x, &r, TE_WRITE, p, 60 * CHUNK, 0);
	assert_int_equal(outstanding(), 56);
	close_all();
}

static void a_link_keeps_its_window(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_with((struct te_options){.link_ops = 4, .link_bytes = 10 * CHUNK}, 64, 1024);
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, 100 * CHUNK, 0);
	assert_int_equal(outstanding(), 10); /* small chunks: by bytes */
	complete(0, 0);
	poll();
	assert_int_equal(outstanding(), 10);
	close_all();
	open_with((struct te_options){.link_ops = 4, .link_bytes = 10, .chunk_bytes = 64 << 10}, 64, 1024);
	start(&x, &r, TE_WRITE, peer(1), LEN, 0);
	assert_int_equal(outstanding(), 4); /* large chunks: by operations */
	close_all();
}

static void peers_that_take_nothing_leave_credits_to_others(void **state)
{
	static struct te_xfer x[12];
	static struct result r[12];
	(void)state;
	open_with((struct te_options){.link_ops = 2, .link_bytes = 1 << 30}, 64, 1024);
	for (unsigned i = 0; i < 12; i++)
		start(&x[i], &r[i], TE_WRITE, peer(1 + i), 100 * CHUNK, 0);
	poll();
	assert_int_equal(x[0].posted, 32); /* half of 64 */
	for (unsigned i = 1; i < 12; i++)
		assert_int_equal(x[i].posted, 2); /* always allowed */
	for (unsigned i = 0; i < 200; i++) {      /* one that takes what comes goes on, alone to the end */
		for (unsigned j = 0; j < fake.count; j++)
			if (fake.posts[j].to == 12 && !fake.posts[j].over)
				complete(j, 0);
		poll();
	}
	assert_int_equal(r[11].done, 1);
	assert_int_equal(r[0].done + r[1].done + r[10].done, 0);
	close_all();
}

static void messages_that_a_peer_does_not_take_leave_credits_to_others(void **state)
{
	static struct result rm[6][60];
	struct te_peer *p[6];
	uint8_t data[8] = {0};
	unsigned at;
	(void)state;
	open_with((struct te_options){.messages = 512}, 64, 1024);
	for (unsigned i = 0; i < 6; i++)
		p[i] = peer((uint16_t)(1 + i));
	memset(rm, 0, sizeof(rm));
	for (unsigned i = 0; i < 6; i++)
		for (unsigned j = 0; j < 60; j++)
			te_msg_send(n.te, p[i], 0, msg_for(&n, &rm[i][j], data, 8), KV_NEVER);
	poll();
	assert_int_equal(outstanding(), 32 + 5 * 2); /* half of 64 by the first, and two that are always allowed */
	/* One that takes what comes gets all of its messages; so the others' do not stand in front of them. */
	for (at = 0; at < fake.count; at++)
		if (fake.posts[at].to == 6) {
			complete(at, 0);
			poll();
		}
	for (unsigned j = 0; j < 60; j++)
		assert_int_equal(rm[5][j].done, 1);
	assert_int_equal(outstanding(), 32 + 4 * 2);
	/* And so does the first when it takes them again. */
	for (at = 0; at < fake.count; at++)
		if (fake.posts[at].to == 1 && !fake.posts[at].over) {
			complete(at, 0);
			poll();
		}
	assert_int_equal(rm[0][59].done, 1);
	close_all();
}

/* Eight peers that take nothing hold all credits that transfers may have, and the next transfer waits at the head of
 * the line. */
static void transfers_without_credit(void)
{
	static struct te_xfer x[8];
	static struct result r[8];
	open_with((struct te_options){.link_bytes = 1 << 30}, 64, 1024);
	for (unsigned i = 0; i < 8; i++)
		start(&x[i], &r[i], TE_WRITE, peer((uint16_t)(1 + i)), 100 * CHUNK, 0);
	poll();
	assert_int_equal(outstanding(), 56); /* an eighth of 64 is for messages */
}

/* Messages have credits of their own. */
static void messages_do_not_wait_behind_a_transfer_without_credit(void **state)
{
	static struct result rm[6];
	struct te_peer *healthy;
	uint8_t data[8] = {0};
	(void)state;
	transfers_without_credit();
	memset(rm, 0, sizeof(rm));
	healthy = peer(20);
	for (unsigned j = 0; j < 6; j++)
		te_msg_send(n.te, healthy, 0, msg_for(&n, &rm[j], data, 8), KV_NEVER);
	poll();
	for (unsigned at = 0; at < fake.count; at++)
		if (fake.posts[at].to == 20) {
			complete(at, 0);
			poll();
		}
	for (unsigned j = 0; j < 6; j++)
		assert_int_equal(rm[j].done, 1);
	assert_int_equal(outstanding(), 56);
	close_all();
}

/* The same when they were refused by the provider for a while. */
static void messages_of_a_stalled_link_do_not_wait_behind_a_transfer_without_credit(void **state)
{
	static struct result rm[2];
	struct te_peer *healthy;
	uint8_t data[8] = {0};
	(void)state;
	transfers_without_credit();
	memset(rm, 0, sizeof(rm));
	healthy = peer(20);
	fake.eagain[20] = true;
	for (unsigned j = 0; j < 2; j++)
		te_msg_send(n.te, healthy, 0, msg_for(&n, &rm[j], data, 8), KV_NEVER);
	poll();
	assert_int_equal(outstanding(), 56);
	fake.eagain[20] = false;
	poll();
	poll();
	assert_int_equal(outstanding(), 58);
	close_all();
}

/* ---- failures ---- */

static void an_operation_that_cannot_be_posted_fails_alone(void **state)
{
	struct te_xfer x, y;
	struct result rx, ry, rm;
	uint8_t data[8] = {0};
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	fake.fail_next = -EINVAL;
	start(&x, &rx, TE_WRITE, p, 3 * CHUNK, 0);
	assert_int_equal(rx.done, 0); /* never inside the call */
	fake.fail_next = -EMSGSIZE;
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, data, 8), KV_NEVER);
	assert_int_equal(rm.done, 0);
	start(&y, &ry, TE_WRITE, p, 3 * CHUNK, 1);
	poll();
	assert_int_equal(rx.done, 1);
	assert_int_equal(rx.status, -KV_EPROVIDER);
	assert_int_equal(rx.posting_done, 1);
	assert_int_equal(x.posted, 0);
	assert_int_equal(rm.status, -KV_EPROVIDER);
	assert_int_equal(outstanding(), 3);
	close_all();
}

static void a_refused_post_is_tried_again(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	fake.fail_next = -ENOTCONN;
	start(&x, &r, TE_WRITE, p, CHUNK, 0);
	poll();
	assert_int_equal(outstanding(), 1);
	assert_int_equal(x.posted, 1);
	close_all();
}

static void failures_are_judged(void **state)
{
	static const struct {
		int said, means;
		bool reset;
	} cases[] = {{-ECANCELED, -KV_EPEERDOWN, false},
		     {-ENOTCONN, -KV_EPEERDOWN, false},
		     {-EINVAL, -EINVAL, false},
		     {-ENDPOINT_ERROR, -KV_ERESET, true}};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(cases); i++) {
		struct te_xfer x;
		struct result r;
		open_with((struct te_options){.link_ops = 2, .link_bytes = 1}, 64, 1024);
		start(&x, &r, TE_WRITE, peer(1), 10 * CHUNK, 0);
		assert_int_equal(outstanding(), 2);
		complete(1, cases[i].said);
		poll();
		assert_int_equal(r.posting_done, 1); /* nothing more is posted: it could only be wasted */
		assert_int_equal(fake.count, 2);
		if (!cases[i].reset) {
			assert_int_equal(r.done, 0);
			complete(0, 0);
			poll();
		}
		assert_int_equal(r.done, 1);
		assert_int_equal(r.status, cases[i].means);
		assert_int_equal(x.posted, 2);
		assert_int_equal(n.resets, cases[i].reset);
		close_all();
	}
}

static void a_write_meets_a_broken_connection(void)
{
	static struct te_xfer x;
	static struct result r;
	start(&x, &r, TE_WRITE, peer(1), CHUNK, 1);
	complete(0, -ENOTCONN);
	poll();
	assert_int_equal(r.status, -KV_EPEERDOWN);
}

static void a_connection_that_stays_broken_costs_the_endpoint(void **state)
{
	(void)state;
	open_plain();
	fake.caps.breaks_stay = true;
	a_write_meets_a_broken_connection();
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(n.resets, 1);
	close_all();
}

/* Flushed: perhaps the peer ended the connection in good order, and the next posting makes another. */
static void operations_flushed_twice_say_that_a_connection_stays_broken(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	fake.caps.breaks_stay = true;
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, 3 * CHUNK, 1);
	for (unsigned i = 0; i < 3; i++)
		complete(i, -ECANCELED);
	poll();
	assert_int_equal(r.status, -KV_EPEERDOWN);
	assert_int_equal(fake.rebuilds, 0);
	start(&x, &r, TE_WRITE, p, CHUNK, 1); /* it does make another */
	complete(3, 0);
	poll();
	start(&x, &r, TE_WRITE, p, CHUNK, 1);
	complete(4, -ECANCELED);
	poll();
	assert_int_equal(fake.rebuilds, 0);
	start(&x, &r, TE_WRITE, p, CHUNK, 1); /* it does not */
	complete(5, -ECANCELED);
	poll();
	assert_int_equal(fake.rebuilds, 1);
	close_all();
}

static void a_server_leaves_broken_connections_to_its_clients(void **state)
{
	(void)state;
	open_with((struct te_options){.peers_heal = true, .chunk_bytes = CHUNK}, 64, 1024);
	fake.caps.breaks_stay = true;
	a_write_meets_a_broken_connection();
	assert_int_equal(fake.rebuilds, 0);
	close_all();
}

/* A server that died costs the others nothing, unless somebody goes on with its address. */
static void a_lost_connection_costs_the_endpoint_when_it_is_wanted(void **state)
{
	enum { CLOSED, OPENED_AGAIN, KEPT, WORKS_AGAIN, CASES };
	(void)state;
	for (unsigned what = 0; what < CASES; what++) {
		struct te_xfer x, y;
		struct result rx, ry;
		open_plain();
		fake.caps.breaks_stay = true;
		struct te_peer *p = peer(1), *other = peer(2);
		start(&x, &rx, TE_WRITE, p, CHUNK, 1);
		complete(0, -ENOTCONN);
		poll();
		assert_int_equal(rx.status, -KV_EPEERDOWN);
		assert_int_equal(fake.rebuilds, 0);
		start(&y, &ry, TE_WRITE, other, CHUNK, 1);
		complete(1, 0);
		poll();
		assert_int_equal(ry.status, 0);
		if (what == CLOSED || what == OPENED_AGAIN)
			te_peer_close(&p);
		if (what == OPENED_AGAIN)
			(void)peer(1);
		if (what == WORKS_AGAIN) {
			start(&x, &rx, TE_WRITE, p, CHUNK, 1);
			complete(2, 0);
			poll();
		}
		now_ns += 999999999;
		poll();
		assert_int_equal(fake.rebuilds, what == OPENED_AGAIN);
		assert_int_equal(n.resets, what == OPENED_AGAIN);
		now_ns += 1;
		poll();
		assert_int_equal(fake.rebuilds, what == OPENED_AGAIN || what == KEPT);
		now_ns += 10000000000;
		poll();
		assert_int_equal(fake.rebuilds, what == OPENED_AGAIN || what == KEPT);
		close_all();
	}
}

/* All of them: the NIC's cable was out. And of a full queue the lost ones make room. */
static void lost_connections_cost_the_endpoint_at_once_when_all_are(void **state)
{
	struct te_address a = {.len = 2, .data = {3}};
	struct te_peer *p[2], *more;
	struct te_xfer x;
	struct result r;
	(void)state;
	for (unsigned full = 0; full < 2; full++) {
		open_plain();
		fake.caps.breaks_stay = true;
		fake.caps.peers_max = 2;
		for (unsigned i = 0; i < 2; i++)
			p[i] = peer((uint16_t)(1 + i));
		for (unsigned i = 0; i < 2 - full; i++) {
			start(&x, &r, TE_WRITE, p[i], CHUNK, 1);
			complete(i, -ENOTCONN);
			poll();
			assert_int_equal(fake.rebuilds, i);
		}
		if (full) {
			te_peer_close(&p[0]);
			assert_int_equal(te_peer_open(n.te, &a, 1, &more, NULL), -EAGAIN);
			poll();
			assert_int_equal(fake.rebuilds, 1);
			assert_int_equal(te_peer_open(n.te, &a, 1, &more, NULL), 0);
		}
		assert_int_equal(n.resets, 1);
		close_all();
	}
}

static void where_connections_heal_by_themselves_nothing_is_rebuilt(void **state)
{
	(void)state;
	open_plain();
	a_write_meets_a_broken_connection();
	assert_int_equal(fake.rebuilds, 0);
	close_all();
}

static void more_peers_than_the_queues_are_made_for_are_refused(void **state)
{
	struct te_address a = {.len = 2};
	struct te_peer *p = NULL, *last;
	struct kv_error err = {0};
	(void)state;
	open_plain();
	fake.caps.peers_max = 2;
	(void)peer(1);
	last = peer(2);
	(void)peer(2); /* the same address: no other peer */
	kv_put16(a.data, 3);
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "FI_UNIVERSE_SIZE=4"));
	assert_int_equal(fake.inserts, 2);
	te_peer_fence(last, NULL); /* all addresses are void then */
	poll();
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, &err), 0);
	close_all();
}

static void stray_events_are_counted_and_not_believed(void **state)
{
	struct te_xfer x;
	struct result r;
	struct te_stats s;
	struct fab_ctx foreign;
	(void)state;
	open_plain();
	start(&x, &r, TE_WRITE, peer(1), CHUNK, 1);
	struct fab_ctx *ctx = fake.posts[0].ctx;
	complete(0, 0);
	event((struct fab_event){.type = FAB_EV_DONE, .ctx = ctx}); /* twice */
	event((struct fab_event){.type = FAB_EV_FAIL, .ctx = ctx, .status = -EIO});
	event((struct fab_event){.type = FAB_EV_DONE, .ctx = NULL});
	event((struct fab_event){.type = FAB_EV_FAIL, .ctx = NULL, .status = -EIO});
	event((struct fab_event){.type = FAB_EV_DONE, .ctx = &foreign});
	event((struct fab_event){.type = FAB_EV_RECV, .ctx = ctx, .len = 10}); /* not a receive */
	event((struct fab_event){.type = FAB_EV_DONE, .ctx = fake.recvs[0]});  /* not a send */
	event((struct fab_event){.type = FAB_EV_RECV, .ctx = fake.recvs[0], .len = KV_MSG_MAX + 1});
	poll();
	te_stats(n.te, &s);
	assert_int_equal(s.stray_events, 8);
	assert_int_equal(r.done, 1);
	assert_int_equal(n.messages, 0);
	assert_int_equal(s.inflight, 0);
	assert_int_equal(fake.recvs_posted, 17); /* the one that was too long is posted again */
	close_all();
}

static void receives_that_get_eagain_are_posted_later(void **state)
{
	(void)state;
	open_plain();
	assert_int_equal(fake.recvs_posted, 16);
	fake.recvs_eagain = 2;
	for (unsigned i = 0; i < 3; i++)
		event((struct fab_event){.type = FAB_EV_RECV, .ctx = fake.recvs[i], .len = 10});
	poll();
	assert_int_equal(n.messages, 3);
	assert_int_equal(fake.recvs_posted, 17);
	poll();
	assert_int_equal(fake.recvs_posted, 19);
	close_all();
}

/* A rebuild may have to do with a smaller receive queue: what it has no room for is not tried with each poll. */
static void receives_never_exceed_the_depth_of_a_rebuilt_endpoint(void **state)
{
	(void)state;
	open_plain();
	assert_int_equal(fake.recvs_posted, 16);
	for (unsigned i = 0; i < 2; i++) {
		fake.caps.rx_depth = i ? 16 : 4;
		fake.recvs_tries = 0;
		now_ns += 10000000000;
		event((struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
		poll();
		poll();
		assert_int_equal(fake.recvs_posted, i ? 16 : 4);
		assert_int_equal(fake.recvs_tries, i ? 16 : 4);
	}
	/* So does a smaller completion queue: 8 operations, 4 receives, and 4 are left for immediates. */
	fake.caps.cq_depth = 16;
	now_ns += 10000000000;
	event((struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	poll();
	assert_int_equal(fake.recvs_posted, 4);
	fake.caps.cq_depth = 1024;
	/* And where the provider takes fewer than it said, one is tried in a poll. */
	fake.recvs_eagain = 1000;
	event((struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	poll();
	fake.recvs_tries = 0;
	poll();
	assert_int_equal(fake.recvs_tries, 1);
	fake.recvs_eagain = 0;
	poll();
	assert_int_equal(fake.recvs_posted, 16);
	close_all();
}

static void an_immediate_that_used_a_receive_gives_it_back(void **state)
{
	(void)state;
	open_plain();
	event((struct fab_event){.type = FAB_EV_IMM, .imm = 5, .ctx = fake.recvs[3]});
	event((struct fab_event){.type = FAB_EV_IMM, .imm = 6});
	poll();
	assert_int_equal(n.imms, 2);
	assert_int_equal(n.last_imm, 6);
	assert_int_equal(fake.recvs_posted, 17);
	close_all();
}

static void receives_that_fail_for_ever_mean_a_rebuild(void **state)
{
	(void)state;
	open_plain();
	for (unsigned i = 0; i < 40 && !fake.rebuilds; i++) {
		event((struct fab_event){.type = FAB_EV_FAIL,
					 .ctx = fake.recvs[(fake.recvs_posted - 1) % KV_COUNT(fake.recvs)],
					 .status = -ECANCELED});
		poll();
	}
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(n.resets, 1);
	close_all();
}

/* ---- endpoints that die ---- */

static void a_dead_endpoint_is_rebuilt_and_told(void **state)
{
	struct te_xfer x, queued;
	struct result r, rq, rm;
	uint8_t data[8] = {0};
	struct te_address again = {.len = 2, .data = {9}};
	(void)state;
	open_with((struct te_options){.link_ops = 1, .link_bytes = 1}, 64, 1024);
	struct te_peer *p = peer(1);
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, data, 8), KV_NEVER);
	start(&x, &r, TE_WRITE, p, 3 * CHUNK, 0);
	start(&queued, &rq, TE_WRITE, p, CHUNK, 0);
	event((struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	poll();
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(fake.recvs_posted, 16);
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(r.status, -KV_ERESET);
	assert_int_equal(rm.status, -KV_ERESET);
	assert_int_equal(r.done + rm.done, 2);
	assert_int_equal(rq.done, 0);
	assert_int_equal(te_xfer_start(n.te, &x), -KV_EPEERDOWN);
	unsigned before = fake.count;
	poll();
	assert_int_equal(fake.count, before); /* nothing goes to a void peer */
	assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	poll();
	assert_int_equal(fake.count, before + 1);
	assert_int_equal(fake.posts[before].to, 9);
	complete(before, 0);
	poll();
	assert_int_equal(rq.status, 0);
	assert_int_equal(rq.done, 1);
	close_all();
}

static void a_rebuild_that_fails_is_retried_with_back_off(void **state)
{
	struct te_address a;
	struct te_peer *q;
	struct kv_error err;
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	fake.rebuild_failures = 3;
	assert_int_equal(te_peer_fence(p, &err), -KV_ELIMIT);
	assert_string_equal(err.text, "told to fail");
	poll();
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, -KV_ELIMIT);
	assert_int_equal(te_address(n.te, 0, &a), -KV_EPROVIDER);
	a = (struct te_address){.len = 2};
	assert_int_equal(te_peer_open(n.te, &a, 1, &q, &err), -KV_EPROVIDER);
	assert_int_equal(te_peer_fence(p, &err), -KV_ELIMIT); /* closed is as safe as rebuilt */
	assert_int_equal(fake.rebuilds, 1);
	uint64_t steps[] = {100000000, 200000000, 400000000};
	for (unsigned i = 0; i < 3; i++) {
		now_ns += steps[i] - 1;
		poll();
		assert_int_equal(fake.rebuilds, i + 1);
		now_ns += 1;
		poll();
		assert_int_equal(fake.rebuilds, i + 2);
		assert_int_equal(n.resets, i + 2);
	}
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	struct te_stats s;
	te_stats(n.te, &s);
	assert_int_equal(s.rebuild_failures, 3);
	close_all();
}

/* ---- the fence of one peer alone ---- */

static void a_cut_ends_what_one_peer_has_and_nobody_elses(void **state)
{
	struct te_address a = {.len = 2};
	struct te_xfer x, late, other;
	struct result rx, rl, ro, rm;
	struct te_stats s;
	(void)state;
	kv_put16(a.data, 1);
	open_with((struct te_options){.link_ops = 2, .link_bytes = 1}, 64, 1024);
	fake.caps.peer_fence = true;
	struct te_peer *p = peer(1), *good = peer(2);
	start(&other, &ro, TE_WRITE, good, CHUNK, 1);
	start(&x, &rx, TE_WRITE, p, 5 * CHUNK, 0);
	fake.eagain[1] = true;
	te_msg_send(n.te, p, 0, msg_for(&n, &rm, "x", 1), KV_NEVER);
	assert_int_equal(te_peer_fence(p, NULL), 0);
	assert_false(te_reset_due(n.te));
	assert_true(fake.cut[1]);
	assert_int_equal(rx.done + rm.done, 0); /* no callback in here */
	poll();
	assert_int_equal(rm.status, -KV_ERESET); /* it was queued */
	assert_int_equal(rm.done, 1);
	assert_int_equal(rx.done, 0); /* two chunks are the provider's still */
	assert_int_equal(fake.rebuilds + n.resets, 0);
	start(&late, &rl, TE_WRITE, p, 1, -KV_EPEERDOWN);
	assert_int_equal(te_peer_fence(p, NULL), 0); /* once more: nothing is left to cut */
	assert_int_equal(fake.cuts, 1);
	complete(1, -ENOTCONN);
	complete(2, -ENOTCONN);
	complete(0, 0);
	poll();
	assert_int_equal(rx.done, 1);
	assert_int_equal(rx.status, -KV_ERESET);
	assert_int_equal(ro.status, 0);
	assert_int_equal(ro.done, 1);
	fake.eagain[1] = fake.cut[1] = false;
	assert_int_equal(te_peer_readdress(p, &a, 1, NULL), 0);
	start(&late, &rl, TE_WRITE, p, CHUNK, 1);
	te_stats(n.te, &s);
	assert_int_equal(s.cuts, 1);
	assert_int_equal(s.fences, 1);
	close_all();
}

/* While the provider still has an operation to it the address is the same one, and is let in by name. */
static void an_address_that_was_cut_is_let_in_by_whoever_gets_it(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	for (unsigned held = 0; held < 2; held++) {
		open_plain();
		fake.caps.peer_fence = true;
		struct te_peer *p = peer(1), *again;
		if (held)
			start(&x, &r, TE_WRITE, p, CHUNK, 1);
		assert_int_equal(te_peer_fence(p, NULL), 0);
		te_peer_close(&p);
		assert_int_equal(fake.removes, !held);
		assert_true(fake.cut[1]);
		again = peer(1);
		assert_int_equal(fake.inserts, held ? 1 : 2); /* inserting lets it in, too; this fabric does not */
		assert_int_equal(fake.cut[1], !held);
		te_peer_close(&again);
		close_all();
	}
}

static void what_no_cut_can_find_is_rebuilt(void **state)
{
	enum { SHARED, STRAYED, STUCK, NONE, WAYS };
	struct te_address other = {.len = 2};
	(void)state;
	kv_put16(other.data, 7);
	for (unsigned way = 0; way < WAYS; way++) {
		open_plain();
		struct te_peer *p = peer(1), *twin = way == SHARED ? peer(1) : NULL;
		fake.caps.peer_fence = way != NONE;
		if (way == STRAYED)
			assert_int_equal(te_peer_readdress(p, &other, 1, NULL), 0);
		if (way == STUCK)
			fake.cut_fails = -EBUSY;
		assert_int_equal(te_peer_fence(p, NULL), 0);
		assert_true(te_reset_due(n.te));
		assert_int_equal(fake.rebuilds, 1);
		assert_int_equal(fake.cuts, way == STUCK);
		poll();
		assert_int_equal(n.resets, 1);
		/* Its new addresses are all that it has had since: it can be cut. */
		assert_int_equal(te_peer_readdress(p, &other, 1, NULL), 0);
		fake.cut_fails = 0;
		fake.caps.peer_fence = true;
		assert_int_equal(te_peer_fence(p, NULL), 0);
		assert_int_equal(fake.rebuilds, 1);
		assert_true(fake.cut[7]);
		te_peer_close(&twin);
		close_all();
	}
}

static void fences_are_rate_limited_by_telling_late(void **state)
{
	struct te_address a;
	(void)state;
	open_plain();
	struct te_peer *p = peer(1);
	struct te_address again = {.len = 2, .data = {9}};
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(te_peer_fence(p, NULL), 0);
		poll();
		assert_int_equal(n.resets, i + 1);
		assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	}
	assert_int_equal(te_peer_fence(p, NULL), 0);
	assert_int_equal(fake.rebuilds, 5); /* safe at once */
	poll();
	assert_int_equal(n.resets, 4); /* told later */
	assert_int_equal(te_address(n.te, 0, &a), -KV_EBUSY);
	assert_int_equal(te_peer_fence(p, NULL), 0);
	assert_int_equal(fake.rebuilds, 5); /* nobody can have reached the new endpoint */
	now_ns += 250000000;
	poll();
	assert_int_equal(n.resets, 5);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	close_all();
}

/* ---- endpoints that take long to close ---- */

static void open_slow(void)
{
	fake_slow = true;
	open_plain();
	fake_slow = false;
}

static void an_endpoint_that_closes_slowly_holds_what_it_has(void **state)
{
	struct te_xfer old, next;
	struct result r_old, r_next;
	struct fab_ctx *recvs[KV_COUNT(fake.recvs)];
	uint32_t receives;
	(void)state;
	open_slow();
	struct te_peer *dead = peer(1), *other;
	start(&old, &r_old, TE_WRITE, dead, CHUNK, 1);
	receives = fake.recvs_posted;
	memcpy(recvs, fake.recvs, sizeof(recvs));
	assert_int_equal(te_peer_fence(dead, NULL), 1);
	assert_true(te_fencing(n.te));
	assert_int_equal(fake.retires, 1);
	poll();
	/* The next one is there, with receives of its own, and told; what was posted has not ended, and memory stays
	 * registered. */
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(n.fenced, 0);
	assert_int_equal(r_old.done, 0);
	assert_int_equal(te_region_close(&area.region), -KV_EBUSY);
	assert_int_equal(fake.recvs_posted, receives);
	for (unsigned i = 0; i < receives; i++)
		for (unsigned j = 0; j < receives; j++)
			assert_ptr_not_equal(fake.recvs[i], recvs[j]);
	te_peer_close(&dead);
	other = peer(2);
	start(&next, &r_next, TE_WRITE, other, CHUNK, 1);
	assert_ptr_not_equal(fake.posts[1].ctx, fake.posts[0].ctx);
	complete(1, 0);
	poll();
	assert_int_equal(r_next.done, 1);
	assert_int_equal(r_next.status, 0);
	assert_int_equal(r_old.done, 0);
	fake.closed = true;
	poll();
	assert_int_equal(r_old.done, 1);
	assert_int_equal(r_old.status, -KV_ERESET);
	assert_int_equal(n.fenced, 1);
	assert_int_equal(n.resets, 1);
	assert_false(te_fencing(n.te));
	poll();
	assert_int_equal(n.fenced, 1);
	te_peer_close(&other);
	close_all();
}

/* The next endpoint begins with all of its credits, and what was in limbo gives none back a second time. */
static void limbo_takes_no_credits(void **state)
{
	enum { OPS = 64 };
	static struct te_xfer x[2 * OPS], y[2 * OPS];
	static struct result rx[2 * OPS], ry[2 * OPS];
	struct te_stats s;
	(void)state;
	fake_slow = true;
	open_with((struct te_options){.link_ops = 4 * OPS}, OPS, 1024);
	fake_slow = false;
	struct te_peer *p = peer(1);
	unsigned most;
	for (unsigned i = 0; i < 2 * OPS; i++) {
		xfer_init(&x[i], &rx[i], TE_WRITE, p, &area, 0, &far, 0, 8);
		te_xfer_start(n.te, &x[i]);
	}
	most = fake.count;
	assert_in_range(most, OPS / 2, OPS);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	te_peer_close(&p);
	poll();
	te_stats(n.te, &s);
	assert_int_equal(s.inflight, 0);
	p = peer(2);
	for (unsigned round = 0; round < 2; round++) {
		unsigned before = fake.count;
		for (unsigned i = 0; i < 2 * OPS; i++) {
			xfer_init(&y[i], &ry[i], TE_WRITE, p, &area, 0, &far, 0, 8);
			te_xfer_start(n.te, &y[i]);
		}
		assert_int_equal(fake.count - before, most);
		while (te_busy(n.te) && outstanding() > 0) {
			for (unsigned i = before; i < fake.count; i++)
				if (!fake.posts[i].over)
					complete(i, 0);
			poll();
		}
		fake.closed = true; /* in the first round: what was in limbo ends */
		poll();
		te_stats(n.te, &s);
		assert_int_equal(s.inflight, 0);
	}
	for (unsigned i = 0; i < 2 * OPS; i++)
		assert_int_equal(rx[i].done, 1);
	te_peer_close(&p);
	close_all();
}

/* At most two endpoints of a rail: one that is fenced while another is being closed is not replaced before both are. */
static void a_rail_that_is_fenced_twice_waits(void **state)
{
	struct te_address a, again = {.len = 2, .data = {9}};
	struct te_xfer x, y;
	struct result rx, ry;
	(void)state;
	open_slow();
	struct te_peer *p = peer(1);
	start(&x, &rx, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	poll();
	assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	start(&y, &ry, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	assert_int_equal(te_peer_fence(p, NULL), 1); /* nothing is open */
	poll();
	assert_int_equal(fake.rebuilds, 1);
	assert_int_equal(fake.shuts, 1);
	assert_int_equal(n.reset_status, -KV_EBUSY);
	assert_int_equal(te_address(n.te, 0, &a), -KV_EBUSY);
	now_ns += 60000000000;
	poll();
	assert_int_equal(fake.rebuilds, 1); /* no time makes room */
	assert_int_equal(rx.done + ry.done, 0);
	fake.closed = true;
	poll();
	assert_int_equal(rx.done, 1);
	assert_int_equal(ry.done, 1);
	assert_int_equal(n.fenced, 1);
	assert_int_equal(fake.rebuilds, 2);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	close_all();
}

/* All that was given up is closed, and the rail is not tried again yet, since there were many fences: its addresses are
 * not known yet, and will be. */
static void a_rail_that_waited_is_busy_until_it_is_tried_again(void **state)
{
	enum { BURST = 4 };
	static struct te_xfer x[BURST + 1];
	static struct result r[BURST + 1];
	struct te_address a, again = {.len = 2, .data = {9}};
	struct te_peer *other = NULL;
	(void)state;
	open_slow();
	struct te_peer *p = peer(1);
	for (unsigned i = 0; i < BURST + 1; i++) {
		fake.closed = false;
		if (i > 0)
			assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
		start(&x[i], &r[i], TE_WRITE, p, CHUNK, 1);
		assert_int_equal(te_peer_fence(p, NULL), 1);
		fake.closed = i != BURST - 1; /* by the last fence two are given up */
		poll();
		assert_int_equal(r[i].done, i != BURST - 1);
		assert_int_equal(te_fencing(n.te), i == BURST - 1);
	}
	assert_int_equal(te_address(n.te, 0, &a), -KV_EBUSY);
	assert_int_equal(te_peer_open(n.te, &again, 1, &other, NULL), -KV_EBUSY);
	now_ns += 250000000;
	poll();
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 0, &a), 0);
	close_all();
}

/* One rail is done with the first fence when the second comes. If it went on alone, and was fenced a third time, what
 * is in limbo because of the first would have to wait for that, too. */
static void what_is_in_limbo_waits_for_two_fences_at_most(void **state)
{
	struct te_address a, again = {.len = 2, .data = {9}};
	struct te_xfer x;
	struct result r;
	(void)state;
	fake_slow = true;
	fake_devices = 2;
	open_with((struct te_options){.rails = 2}, 64, 1024);
	fake_devices = 1;
	fake_slow = false;
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	assert_int_equal(fake.rebuilds, 2);
	poll();
	fake.closed_of[1] = true;
	poll();
	fake.closed_of[1] = false;
	assert_int_equal(te_peer_readdress(p, &again, 1, NULL), 0);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	poll();
	assert_int_equal(fake.rebuilds, 2);
	assert_int_equal(te_address(n.te, 1, &a), -KV_EBUSY);
	assert_int_equal(r.done, 0);
	fake.closed = true;
	poll();
	assert_int_equal(r.done, 1);
	assert_int_equal(fake.rebuilds, 4);
	assert_int_equal(n.reset_status, 0);
	assert_int_equal(te_address(n.te, 1, &a), 0);
	close_all();
}

static void an_engine_closes_while_it_fences(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_slow();
	struct te_peer *p = peer(1);
	start(&x, &r, TE_WRITE, p, CHUNK, 1);
	assert_int_equal(te_peer_fence(p, NULL), 1);
	close_all();
	assert_int_equal(r.done, 1);
	assert_int_equal(r.status, -KV_ECLOSED);
}

/* ---- several rails ---- */

static void open_rails(unsigned rails)
{
	fake_devices = rails;
	open_with((struct te_options){.rails = rails}, 64, 1024);
	fake_devices = 1;
}

static unsigned registered(void)
{
	unsigned count = 0;
	for (unsigned r = 0; r < KV_RAILS_MAX && open_fabs[r]; r++)
		KV_LIST_EACH (m, &open_fabs[r]->mrs)
			count++;
	return count;
}

static void rail_dies(unsigned rail)
{
	event_of(rail, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	poll();
}

static unsigned address_of(unsigned rail)
{
	struct te_address a;
	assert_int_equal(te_address(n.te, rail, &a), 0);
	return a.data[7];
}

/* Open a peer of as many rails and say on which of ours an operation of each link goes. */
static void links_go_over(const unsigned *want, unsigned count)
{
	struct te_address a[4] = {
		{.len = 2, .data = {1}}, {.len = 2, .data = {2}}, {.len = 2, .data = {3}}, {.len = 2, .data = {4}}};
	static const uint8_t data[8];
	struct te_peer *p;
	assert_int_equal(te_peer_open(n.te, a, count, &p, NULL), 0);
	assert_int_equal(te_peer_links(p), count);
	for (unsigned i = 0; i < count; i++) {
		struct result r = {0};
		unsigned before = fake.count;
		te_msg_send(n.te, p, i, msg_for(&n, &r, data, 8), KV_NEVER);
		assert_int_equal(fake.count, before + 1);
		assert_int_equal(fake.posts[before].rail, want[i]);
		complete(before, 0);
		poll();
		assert_int_equal(r.done, 1);
	}
	te_peer_close(&p);
}

static void a_rail_that_cannot_be_rebuilt_is_out_and_another_stands_for_it(void **state)
{
	struct te_remote remote;
	struct te_key keys[3];
	struct te_stats s;
	(void)state;
	open_rails(3);
	fake.fails_of[1] = 2;
	rail_dies(1);
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, 0); /* the engine works */
	assert_true(te_rail_up(n.te, 0) && !te_rail_up(n.te, 1) && te_rail_up(n.te, 2));
	te_rail_stats(n.te, 1, &s);
	assert_int_equal(s.rail_failures, 1);
	assert_int_equal(s.rebuild_failures, 1);
	assert_int_equal(address_of(0), 0);
	assert_int_equal(address_of(1), 2);
	assert_int_equal(address_of(2), 2);
	te_region_announce(area.region, &remote, keys);
	assert_int_equal(remote.rails, 3);
	assert_int_equal(keys[1].key, keys[2].key);
	assert_int_not_equal(keys[0].key, keys[2].key);
	links_go_over((const unsigned[]){0, 2, 2}, 3);
	/* Tried again without disturbing anybody until it works; then it has its place back. */
	now_ns += 100000000;
	poll();
	assert_int_equal(fake.rebuilds_of[1], 2);
	assert_int_equal(n.resets, 1);
	now_ns += 200000000;
	poll();
	assert_int_equal(fake.rebuilds_of[1], 3);
	assert_int_equal(n.resets, 2);
	assert_int_equal(n.reset_status, 0);
	assert_true(te_rail_up(n.te, 1));
	te_region_announce(area.region, &remote, keys);
	assert_int_not_equal(keys[1].key, keys[2].key);
	links_go_over((const unsigned[]){0, 1, 2}, 3);
	close_all();
}

static void a_rail_that_fails_again_soon_stays_out_for_longer_each_time(void **state)
{
	(void)state;
	open_rails(2);
	rail_dies(1); /* the first time it is rebuilt at once */
	assert_true(te_rail_up(n.te, 1));
	assert_int_equal(fake.shuts, 0);
	for (uint64_t out_ns = 1000000000; out_ns <= 60000000000;
	     out_ns = out_ns == 60000000000 ? out_ns + 1 : KV_MIN(2 * out_ns, 60000000000ull)) {
		now_ns += 5000000000;
		rail_dies(1);
		assert_false(te_rail_up(n.te, 1));
		unsigned rebuilds = fake.rebuilds_of[1];
		now_ns += out_ns - 1;
		poll();
		assert_int_equal(fake.rebuilds_of[1], rebuilds);
		assert_false(te_rail_up(n.te, 1));
		now_ns += 1;
		poll();
		assert_int_equal(fake.rebuilds_of[1], rebuilds + 1);
		assert_true(te_rail_up(n.te, 1));
	}
	now_ns += 20000000000; /* a failure later on is one like the first */
	rail_dies(1);
	assert_true(te_rail_up(n.te, 1));
	assert_int_equal(n.reset_status, 0);
	close_all();
}

/* The same peer, given its addresses again: its links go by the rails that are up by then. */
static void a_peer_that_is_readdressed_goes_by_the_rails_that_are_up(void **state)
{
	struct te_address a[2] = {{.len = 2, .data = {1}}, {.len = 2, .data = {2}}};
	static const uint8_t data[8];
	struct te_peer *p;
	(void)state;
	open_rails(2);
	assert_int_equal(te_peer_open(n.te, a, 2, &p, NULL), 0);
	fake.fails_of[1] = 1;
	for (unsigned i = 0; i < 2; i++) {
		struct result r = {0};
		unsigned before = fake.count;
		if (i == 0)
			rail_dies(1);
		now_ns += i * 300000000;
		poll(); /* it is out, and then back */
		assert_int_equal(te_rail_up(n.te, 1), i);
		assert_int_equal(te_peer_readdress(p, a, 2, NULL), 0);
		te_msg_send(n.te, p, 1, msg_for(&n, &r, data, 8), KV_NEVER);
		assert_int_equal(fake.count, before + 1);
		assert_int_equal(fake.posts[before].rail, i);
		complete(before, 0);
		poll();
		assert_int_equal(r.status, 0);
	}
	close_all();
}

/* Peers break connections, and a NIC that works is not left out for that. */
static void connections_that_break_are_no_failures_of_a_rail(void **state)
{
	struct te_address a[2] = {{.len = 2, .data = {1}}, {.len = 2, .data = {2}}};
	struct te_stats s;
	(void)state;
	open_rails(2);
	fake.caps.breaks_stay = true;
	for (unsigned i = 0; i < 5; i++) {
		static const uint8_t data[8];
		struct result r = {0};
		struct te_peer *p;
		unsigned before = fake.count;
		assert_int_equal(te_peer_open(n.te, a, 2, &p, NULL), 0);
		te_msg_send(n.te, p, 1, msg_for(&n, &r, data, 8), KV_NEVER);
		assert_int_equal(fake.posts[before].rail, 1);
		complete(before, -ENOTCONN);
		poll();
		assert_int_equal(fake.rebuilds_of[1], i + 1);
		assert_true(te_rail_up(n.te, 1));
		te_peer_close(&p);
		now_ns += 300000000;
		poll();
		assert_int_equal(n.resets, i + 1);
	}
	te_rail_stats(n.te, 1, &s);
	assert_int_equal(s.rail_failures, 0);
	close_all();
}

static void the_last_rail_is_never_left_out(void **state)
{
	(void)state;
	open_rails(2);
	fake.fails_of[0] = 1000;
	rail_dies(0);
	assert_false(te_rail_up(n.te, 0));
	for (unsigned i = 0; i < 5; i++) {
		now_ns += 1000000;
		while (n.resets < i + 1)
			now_ns += 250000000, poll(); /* fences are told late after a burst */
		rail_dies(1);
		now_ns += 250000000;
		poll();
		assert_true(te_rail_up(n.te, 1));
		assert_int_equal(n.reset_status, 0);
	}
	assert_int_equal(fake.shuts, 0);
	close_all();
}

static void an_engine_without_rails_is_down_until_the_first_is_back(void **state)
{
	struct te_address a = {.len = 2, .data = {1}};
	struct te_peer *p = NULL;
	(void)state;
	open_rails(2);
	fake.fails_of[0] = 1;
	fake.fails_of[1] = 2;
	rail_dies(0); /* both are rebuilt */
	assert_int_equal(n.resets, 1);
	assert_int_equal(n.reset_status, -KV_ELIMIT);
	assert_int_equal(te_address(n.te, 0, &a), -KV_EPROVIDER);
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, NULL), -KV_EPROVIDER);
	now_ns += 100000000;
	poll();
	assert_int_equal(n.reset_status, 0);
	assert_true(te_rail_up(n.te, 0) && !te_rail_up(n.te, 1));
	links_go_over((const unsigned[]){0, 0}, 2);
	now_ns += 200000000;
	poll();
	assert_true(te_rail_up(n.te, 1));
	links_go_over((const unsigned[]){0, 1}, 2);
	close_all();
}

static void memory_registered_meanwhile_is_there_when_the_rail_is_back(void **state)
{
	struct te_region *region;
	struct te_remote remote;
	struct te_key keys[2];
	static uint8_t bytes[4096];
	(void)state;
	open_rails(2);
	fake.fails_of[1] = 1;
	fake.mr_fails_of[1] = true; /* nothing works on it */
	rail_dies(1);
	assert_int_equal(te_region_register(n.te, bytes, sizeof(bytes), TE_LOCAL | TE_REMOTE_WRITE, 0, &region, NULL),
			 0);
	te_region_announce(region, &remote, keys);
	assert_int_equal(keys[0].key, keys[1].key);
	now_ns += 100000000;
	poll(); /* it cannot register, and is not opened */
	assert_false(te_rail_up(n.te, 1));
	assert_int_equal(n.resets, 1);
	assert_int_equal(fake.rebuilds_of[1], 1);
	fake.mr_fails_of[1] = false;
	now_ns += 200000000;
	poll();
	assert_true(te_rail_up(n.te, 1));
	te_region_announce(region, &remote, keys);
	assert_int_not_equal(keys[0].key, keys[1].key);
	assert_int_equal(te_region_close(&region), 0);
	close_all();
}

/* Hundreds of GiB of it: calls go on while it is registered, and nobody hears of the rail before it has all. */
static void a_rail_that_comes_back_registers_some_parts_in_each_turn(void **state)
{
	enum { PARTS = 9 };
	struct te_region *region, *second, *gone;
	struct te_remote remote;
	struct te_key keys[2 * PARTS];
	static uint8_t bytes[PARTS * 4096], more[3 * 4096];
	(void)state;
	open_rails(2);
	fake.fails_of[1] = 1;
	fake.mr_fails_of[1] = true;
	rail_dies(1);
	assert_int_equal(te_region_register(n.te, bytes, sizeof(bytes), TE_LOCAL, 4096, &region, NULL), 0);
	assert_int_equal(te_region_register(n.te, more, sizeof(more), TE_LOCAL, 4096, &gone, NULL), 0);
	assert_int_equal(te_region_begin(n.te, more, sizeof(more), TE_LOCAL, 4096, &second, NULL), 0);
	fake.mr_fails_of[1] = false;
	fake.mr_takes_ns = 1000000; /* two of them in a turn */
	now_ns += 100000000;
	for (unsigned i = 0; i < 5; i++) {
		unsigned before = fake.mrs;
		poll();
		assert_int_equal(fake.mrs - before, 2);
		assert_false(te_rail_up(n.te, 1));
		assert_int_equal(n.resets, 1);
		assert_int_equal(fake.rebuilds_of[1], 1);
		if (i > 0)
			continue;
		/* One goes meanwhile, and one comes that has nothing on that rail: 8 parts are left. */
		assert_int_equal(te_region_close_step(&gone), 0);
		fake.mr_fails_of[1] = true;
		assert_int_equal(te_region_step(second, NULL), 1);
		assert_int_equal(te_region_step(second, NULL), 0);
		fake.mr_fails_of[1] = false;
	}
	poll();
	assert_true(te_rail_up(n.te, 1));
	assert_int_equal(n.resets, 2);
	te_region_announce(region, &remote, keys);
	for (unsigned i = 0; i < 2 * PARTS; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(keys[i].key, keys[k].key);
	te_region_announce(second, &remote, keys);
	for (unsigned i = 0; i < 3; i++)
		assert_int_not_equal(keys[i].key, keys[3 + i].key);
	close_all();
}

/* Its device has failed, and the engine is about to hear of it, or has heard and waits with the rebuild. */
static void memory_is_registered_although_a_rail_fails_meanwhile(void **state)
{
	static uint8_t bytes[4096];
	(void)state;
	for (unsigned known = 0; known < 2; known++)
		for (unsigned stays = 0; stays < 2; stays++) {
			struct te_region *region;
			unsigned steps = 1;
			open_rails(2);
			fake.mr_fails_of[1] = true;
			assert_int_equal(te_region_begin(n.te, bytes, sizeof(bytes), TE_LOCAL, 0, &region, NULL), 0);
			if (known) { /* fences are rate-limited: it is rebuilt later */
				for (unsigned i = 0; i < 5; i++) {
					struct te_peer *p = peer(1);
					assert_int_equal(te_peer_fence(p, NULL), 0);
					te_peer_close(&p);
				}
				poll();
			}
			event_of(1, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
			if (known)
				poll();
			fake.fails_of[1] = stays;
			assert_int_equal(te_region_step(region, NULL), 1);
			for (int rc = 1; rc == 1 && steps < 1000; steps++) {
				now_ns += 1000000;
				poll();
				if (fake.rebuilds_of[1] > (known ? 5u : 0u))
					fake.mr_fails_of[1] = stays;
				rc = te_region_step(region, NULL);
				assert_true(rc >= 0);
			}
			assert_in_range(steps, 2, 999);
			assert_int_equal(te_rail_up(n.te, 1), !stays);
			assert_int_equal(te_region_close(&region), 0);
			close_all();
		}
}

/* Memory that is no good on a rail that is well: one more turn, and then it is said. */
static void a_refusal_of_a_rail_that_is_well_is_believed_at_the_second_time(void **state)
{
	static uint8_t bytes[4096];
	struct te_region *region;
	struct kv_error err = {0};
	(void)state;
	open_rails(2);
	unsigned before = fake.mrs;
	fake.mr_fails_of[1] = true;
	assert_int_equal(te_region_begin(n.te, bytes, sizeof(bytes), TE_LOCAL, 0, &region, &err), 0);
	assert_int_equal(te_region_step(region, &err), 1);
	poll();
	assert_int_equal(te_region_step(region, &err), -KV_EPROVIDER);
	assert_string_equal(err.text, "told to fail");
	assert_int_equal(fake.mrs - before, 1);
	/* While nothing works yet there is nothing to wait for. */
	assert_int_equal(te_region_register(n.te, bytes, sizeof(bytes), TE_LOCAL, 0, &region, &err), -KV_EPROVIDER);
	close_all();
}

/* Unpinning takes time as pinning does. */
static void a_region_is_closed_between_turns(void **state)
{
	enum { BYTES = 10 << 20 };
	uint8_t *memory = malloc(BYTES);
	struct te_region *region;
	unsigned steps = 1;
	(void)state;
	open_rails(2);
	unsigned before = registered();
	assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	fake.mr_takes_ns = 1000000;
	fake.close_takes_ns = 1000000;
	while (te_region_close_step(&region) == 1) {
		assert_int_equal(registered(), before + 20 - 2 * steps);
		steps++;
		poll();
	}
	assert_null(region);
	assert_int_equal(steps, 10);
	assert_int_equal(registered(), before);
	/* One that is no good is undone in steps, too: rail 0 took 10 parts, rail 1 takes none of that size. */
	fake.mr_takes_ns = 0;
	fake.mr_room_of[1] = 512 << 10;
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	assert_int_equal(te_region_step(region, NULL), 1);
	assert_int_equal(registered(), before + 8);
	assert_int_equal(te_region_step(region, NULL), 1);
	assert_int_equal(registered(), before + 6);
	close_all(); /* in the middle of it */
	free(memory);
}

/* ---- regions, at random ---- */

enum { AREAS = 3, AREA_PARTS = 6, PART = 1 << 20, AREA_BYTES = AREA_PARTS * PART };

static struct {
	struct te_region *region;
	bool ready, closing;
	uint8_t *base;
} some[AREAS];

/* What of a region is registered on a rail: nothing twice. */
static uint64_t registered_of(unsigned rail, const uint8_t *base)
{
	uint64_t bytes = 0;
	KV_LIST_EACH (i, &open_fabs[rail]->mrs) {
		const struct fab_mr *a = KV_LIST_ENTRY(i, const struct fab_mr, node);
		if (a->base < base || a->base >= base + AREA_BYTES)
			continue;
		bytes += a->len;
		KV_LIST_EACH (k, &open_fabs[rail]->mrs)
			assert_true(k == i || KV_LIST_ENTRY(k, const struct fab_mr, node)->base != a->base);
	}
	return bytes;
}

/* What is gone is registered nowhere; what is ready is on every rail that is up, whole. */
static void some_check(unsigned rails)
{
	for (unsigned a = 0; a < AREAS; a++)
		for (unsigned r = 0; r < rails; r++) {
			uint64_t bytes = registered_of(r, some[a].base);
			assert_true(some[a].region || bytes == 0);
			assert_true(!some[a].ready || some[a].closing || !te_rail_up(n.te, r) || bytes == AREA_BYTES);
		}
}

/* Whether it may take as long as it likes. */
static bool some_act(struct kv_prng *p, unsigned a)
{
	bool at_once = kv_prng_below(p, 8) == 0;
	int rc = 0;
	if (!some[a].region) {
		some[a].ready = some[a].closing = false;
		assert_int_equal(te_region_begin(n.te, some[a].base, AREA_BYTES, TE_LOCAL, PART << kv_prng_below(p, 3),
						 &some[a].region, NULL),
				 0);
	} else if (some[a].closing || kv_prng_below(p, some[a].ready ? 8 : 30) == 0) {
		some[a].closing = true;
		rc = at_once ? te_region_close(&some[a].region) : te_region_close_step(&some[a].region);
		assert_true(rc == 0 ? !some[a].region : rc == 1 && some[a].region);
		return at_once;
	} else if (!some[a].ready) {
		rc = te_region_step(some[a].region, NULL);
		some[a].ready = rc == 0;
		if (rc < 0)
			some[a].region = NULL;
	}
	return false;
}

static void regions_come_and_go_while_rails_do(void **state)
{
	enum { ROUNDS = 40, TURNS = 300, RAILS = 3 };
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned a = 0; a < AREAS; a++)
		some[a].base = malloc(AREA_BYTES);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned rails = 1 + (unsigned)kv_prng_below(&p, RAILS), own;
		open_rails(rails);
		own = registered();
		fake.close_takes_ns = fake.mr_takes_ns = 1000000;
		for (unsigned turn = 0; turn < TURNS; turn++) {
			unsigned r = (unsigned)kv_prng_below(&p, rails);
			uint64_t before;
			now_ns += kv_prng_below(&p, 10) ? 1000000 : kv_prng_below(&p, 2000000000);
			switch (kv_prng_below(&p, 12)) {
			case 0:
				event_of(r, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
				fake.fails_of[r] = (unsigned)kv_prng_below(&p, 3);
				break;
			case 1:
				fake.mr_fails_of[r] = !fake.mr_fails_of[r];
				break;
			case 2:
				fake.mr_max = kv_prng_below(&p, 3) ? 0 : PART;
				break;
			default:
				break;
			}
			before = now_ns;
			poll();
			some_check(rails);
			/* Two parts in 2 ms, and one on each other rail that comes back. */
			assert_in_range(now_ns - before, 0, 1000000 * (1 + rails));
			before = now_ns;
			bool at_once = some_act(&p, (unsigned)kv_prng_below(&p, AREAS));
			some_check(rails);
			assert_true(at_once || now_ns - before <= 2000000);
		}
		for (unsigned a = 0; a < AREAS && round % 2; a++)
			te_region_close(&some[a].region);
		if (round % 2)
			assert_int_equal(registered(), own);
		memset(fake.mr_fails_of, 0, sizeof(fake.mr_fails_of));
		close_all(); /* in the middle of it, or after it */
		for (unsigned a = 0; a < AREAS; a++)
			some[a].region = NULL;
		for (unsigned a = 0; a < AREAS; a++)
			some[a].ready = false;
	}
	for (unsigned a = 0; a < AREAS; a++)
		free(some[a].base);
}

/* ---- messages behind ordered writes ---- */

static struct {
	struct te_peer *peer, *other;
	struct te_xfer x, y;
	struct result rx, ry, rm;
	void (*between)(void);
	int followed;
} behind;

static void write_behind(struct node *node, const uint8_t *data, size_t len)
{
	(void)data, (void)len;
	xfer_init(&behind.x, &behind.rx, TE_WRITE, behind.peer, &area, 0, &far, 0, 100);
	behind.x.link = 0;
	behind.x.ordered = true;
	behind.x.with_imm = false;
	assert_int_equal(te_xfer_start(node->te, &behind.x), 1);
	behind.between();
}

static void follow_behind(struct node *node)
{
	static const uint8_t data[8];
	struct te_msg *m = msg_for(node, &behind.rm, data, 8);
	behind.followed = te_msg_follow(node->te, behind.peer, 0, m);
	if (behind.followed)
		te_msg_release(node->te, m);
}

static void other_write(bool imm)
{
	xfer_init(&behind.y, &behind.ry, TE_WRITE, behind.other, &area, 0, &far, 0, 100);
	behind.y.with_imm = imm;
	(void)te_xfer_start(n.te, &behind.y);
}

static void nothing_between(void)
{
}

static void posted_between(void)
{
	other_write(true);
}

static void refused_between(void)
{
	fake.eagain[2] = true;
	other_write(false);
}

static void half_refused_between(void)
{
	fake.half_next = true;
	other_write(true);
}

static void readdressed_between(void)
{
	struct te_address a = {.len = 2, .data = {3}};
	assert_int_equal(te_peer_readdress(behind.peer, &a, 1, NULL), 0);
}

static void fenced_between(void)
{
	struct te_address a = {.len = 2, .data = {1}};
	assert_int_equal(te_peer_fence(behind.other, NULL), 0);
	assert_int_equal(te_peer_readdress(behind.peer, &a, 1, NULL), 0);
}

/* Nothing but the stamp says whether the message is still on the connection of the bytes. */
static void a_message_follows_only_on_the_connection_of_its_bytes(void **state)
{
	static const struct {
		void (*between)(void);
		int expect;
	} cases[] = {{nothing_between, 0},
		     {posted_between, 0},
		     {refused_between, -KV_EBUSY},
		     {half_refused_between, -KV_EBUSY},
		     {readdressed_between, -KV_EBUSY},
		     {fenced_between, -KV_EBUSY}};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(cases); i++) {
		fake_ordered = true;
		open_plain();
		fake_ordered = false;
		memset(&behind, 0, sizeof(behind));
		behind.peer = peer(1);
		behind.other = peer(2);
		behind.between = cases[i].between;
		behind.followed = 1;
		n.on_message = write_behind;
		n.on_follow = follow_behind;
		event((struct fab_event){.type = FAB_EV_RECV, .ctx = fake.recvs[0], .len = 8});
		poll();
		if (behind.followed != cases[i].expect)
			fail_msg("case %zu: te_msg_follow said %d", i, behind.followed);
		close_all();
		assert_int_equal(behind.rx.done, 1);
		assert_int_equal(behind.y.posted,
				 cases[i].between == posted_between || cases[i].between == half_refused_between);
		assert_int_equal(behind.rm.done, cases[i].expect == 0);
	}
}

/* ---- transfers ---- */

static void contiguous_bytes_grow_in_order(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	start(&x, &r, TE_READ, peer(1), 5 * CHUNK + 1, 1);
	unsigned order[] = {1, 3, 0, 5, 4, 2};
	uint64_t expect[] = {0, 0, 2 * CHUNK, 2 * CHUNK, 2 * CHUNK, 5 * CHUNK + 1};
	int told[] = {0, 0, 1, 1, 1, 2};
	for (unsigned i = 0; i < 6; i++) {
		complete(order[i], 0);
		poll();
		assert_int_equal(x.contiguous, expect[i]);
		assert_int_equal(r.progress, told[i]);
	}
	assert_int_equal(r.done, 1);
	close_all();
}

static void a_read_waits_for_its_first_chunk(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_with((struct te_options){.link_ops = 1000}, 512, 2048);
	start(&x, &r, TE_READ, peer(1), 100 * CHUNK, 0);
	assert_int_equal(x.posted, 64);
	for (unsigned i = 1; i < 64; i++)
		complete(i, 0);
	poll();
	assert_int_equal(x.posted, 64);
	complete(0, 0);
	poll();
	assert_int_equal(x.posted, 100);
	assert_int_equal(x.contiguous, 64 * CHUNK);
	for (unsigned i = 64; i < 100; i++)
		complete(i, 0);
	poll();
	poll();
	assert_int_equal(r.done, 1);
	assert_int_equal(r.status, 0);
	assert_int_equal(x.contiguous, 100 * CHUNK);
	close_all();
}

static void chunks_carry_address_key_and_immediate(void **state)
{
	struct te_key keys[] = {{1000, 11}, {2000, 22}, {3000, 33}};
	struct te_remote parts = {.len_bytes = 300, .part_bytes = 100, .parts = 3, .rails = 1, .keys = keys};
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	xfer_init(&x, &r, TE_WRITE, peer(1), &area, 0, &far, 0, 0);
	x.remote = &parts;
	x.at = (struct te_slices){.offset = 90, .slice = 20, .stride = 50, .count = 3};
	x.imm = 0xfeed1234;
	assert_int_equal(te_xfer_chunks(n.te, &x), 5);
	assert_int_equal(te_xfer_start(n.te, &x), 1);
	static const struct {
		uint64_t addr, key, len;
	} expect[] = {{1090, 11, 10}, {2000, 22, 10}, {2040, 22, 20}, {2090, 22, 10}, {3000, 33, 10}};
	assert_int_equal(fake.count, KV_COUNT(expect));
	for (unsigned i = 0; i < fake.count; i++) {
		assert_int_equal(fake.posts[i].addr, expect[i].addr);
		assert_int_equal(fake.posts[i].key, expect[i].key);
		assert_int_equal(fake.posts[i].len, expect[i].len);
		assert_true(fake.posts[i].has_imm);
		assert_int_equal(fake.posts[i].imm, 0xfeed1234);
	}
	close_all();
}

static void shm_pushes_only_with_an_immediate(void **state)
{
	struct te_xfer x, y;
	struct result r, ry;
	(void)state;
	for (unsigned only = 0; only < 2; only++) {
		fake_imm_only = only;
		open_plain();
		xfer_init(&x, &r, TE_WRITE, peer(1), &area, 0, &far, 0, 10);
		x.with_imm = false;
		assert_int_equal(te_xfer_start(n.te, &x), only ? -KV_ENOTSUP : 1);
		assert_int_equal(fake.count, only ? 0 : 1);
		xfer_init(&y, &ry, TE_WRITE, peer(1), &area, 0, &far, 0, 10);
		assert_int_equal(te_xfer_start(n.te, &y), 1);
		fake_imm_only = false;
		close_all();
	}
}

static void a_region_is_registered_in_smaller_parts_when_there_is_no_room(void **state)
{
	struct te_region *region;
	struct te_remote remote;
	uint64_t len = 10 << 20;
	(void)state;
	open_plain();
	void *memory = aligned_alloc(4096, len);
	fake.mr_max = 3 << 20;
	assert_int_equal(te_region_register(n.te, memory, len, TE_LOCAL, 0, &region, NULL), 0);
	te_region_announce(region, &remote, NULL);
	assert_int_equal(remote.part_bytes, 3 << 20);
	assert_int_equal(remote.parts, 4);
	assert_int_equal(te_region_close(&region), 0);
	fake.mr_max = 1000;
	struct kv_error err;
	assert_int_equal(te_region_register(n.te, memory, len, TE_LOCAL, 0, &region, &err), -KV_ENOMEM);
	free(memory);
	close_all();
}

/* Every part of a region on every rail, as the provider got it. */
static void region_check(const struct te_region *region, uint8_t *base, uint64_t len, uint64_t part)
{
	struct te_region_info info;
	struct te_remote remote;
	te_region_info(region, &info);
	assert_int_equal(info.part_bytes, part);
	assert_int_equal(info.parts, (len - 1) / part + 1);
	struct te_key *keys = calloc((size_t)info.rails * info.parts, sizeof(*keys));
	te_region_announce(region, &remote, keys);
	for (unsigned r = 0; r < info.rails; r++) {
		struct kv_list *at = NULL;
		KV_LIST_EACH (node, &open_fabs[r]->mrs)
			if (KV_LIST_ENTRY(node, struct fab_mr, node)->key == keys[r * info.parts].key)
				at = node;
		/* A rail's parts were registered in order. */
		for (uint64_t p = 0; p < info.parts; p++, at = at->next) {
			const struct fab_mr *mr = KV_LIST_ENTRY(at, struct fab_mr, node);
			assert_int_equal(mr->key, keys[r * info.parts + p].key);
			assert_ptr_equal(mr->base, base + p * part);
			assert_int_equal(mr->len, KV_MIN(part, len - p * part));
		}
	}
	free(keys);
}

/* Four rails by four threads; fab_mr_reg aborts if two of them met on one rail. */
static void rails_that_pin_are_registered_at_once(void **state)
{
	enum { BYTES = (9 << 20) + 4321 };
	struct te_region *region;
	struct te_region_info info;
	(void)state;
	open_rails(4);
	unsigned before = registered();
	fake.caps.pins_memory = true;
	uint8_t *memory = malloc(BYTES + 1);
	assert_int_equal(te_region_register(n.te, memory + 1, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	region_check(region, memory + 1, BYTES, 1 << 20);
	te_region_info(region, &info);
	assert_int_equal(info.rails, 4);
	assert_int_equal(info.threads, 4);
	assert_int_equal(te_region_close(&region), 0);
	assert_int_equal(registered(), before);
	/* One rail takes smaller parts alone: all have them. */
	fake.mr_room_of[2] = 16 << 20;
	fake.mr_max = 5 << 20;
	assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 8 << 20, &region, NULL), 0);
	region_check(region, memory, BYTES, 4 << 20);
	assert_int_equal(te_region_close(&region), 0);
	free(memory);
	close_all();
}

static void a_rail_that_is_full_is_not_tried_with_smaller_parts(void **state)
{
	enum { BYTES = 8 << 20 };
	struct te_region *region;
	struct kv_error err = {0};
	uint8_t *memory = malloc(BYTES);
	(void)state;
	for (int pins = 0; pins < 2; pins++) {
		open_rails(2);
		unsigned before = registered(), calls = fake.mrs;
		fake.caps.pins_memory = pins;
		fake.mr_room_of[1] = 5 << 20;
		assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 2 << 20, &region, &err), -KV_ENOMEM);
		assert_non_null(strstr(err.text, "rail 1 took 2 of 4 parts of 2 MiB"));
		assert_non_null(strstr(err.text, "smaller parts would not help"));
		assert_int_equal(registered(), before);
		assert_true(fake.mrs - calls <= 6);
		close_all();
	}
	free(memory);
}

static void a_region_is_registered_between_turns(void **state)
{
	enum { BYTES = 10 << 20 };
	struct te_region *region, *given_up;
	unsigned steps = 1;
	uint8_t *memory = malloc(BYTES);
	(void)state;
	open_rails(2);
	unsigned before = registered();
	fake.mr_takes_ns = 1000000; /* two of them are a step */
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	while (te_region_step(region, NULL) == 1) {
		poll();
		steps++;
	}
	assert_int_equal(steps, 10);
	assert_int_equal(te_region_step(region, NULL), 0);
	region_check(region, memory, BYTES, 1 << 20);
	struct te_region_info info;
	te_region_info(region, &info);
	assert_int_equal(info.ns, 20000000);
	/* One that is given up in the middle leaves nothing; one that nobody gives up goes with the engine. */
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &given_up, NULL), 0);
	assert_int_equal(te_region_step(given_up, NULL), 1);
	assert_int_equal(registered(), before + 22);
	assert_int_equal(te_region_close(&given_up), 0);
	assert_int_equal(registered(), before + 20);
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &given_up, NULL), 0);
	assert_int_equal(te_region_step(given_up, NULL), 1);
	close_all();
	free(memory);
}

/* The rail fails while the region is begun and is back before it is finished: it is not left out. */
/* It may be out because its device has no memory: nobody else is to fail for that, or to have smaller parts. */
static void a_rail_that_is_out_and_full_keeps_nobody_from_registering(void **state)
{
	enum { BYTES = 4 << 20 };
	struct te_region *region;
	struct te_region_info info;
	uint8_t *memory = malloc(BYTES);
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_rails(2);
		fake.fails_of[1] = 1;
		rail_dies(1);
		fake.mr_room_of[1] = i ? 5 << 19 : 1; /* for two parts, and for none */
		assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
		assert_int_equal(te_region_step(region, NULL), 0);
		te_region_info(region, &info);
		assert_int_equal(info.part_bytes, 1 << 20);
		fake.mr_room_of[1] = 0;
		now_ns += 200000000;
		poll();
		assert_true(te_rail_up(n.te, 1));
		region_check(region, memory, BYTES, 1 << 20);
		close_all();
	}
	free(memory);
}

static void a_rail_that_comes_back_meanwhile_is_registered(void **state)
{
	enum { BYTES = 4 << 20 };
	struct te_region *region;
	uint8_t *memory = malloc(BYTES);
	(void)state;
	open_rails(2);
	fake.mr_takes_ns = 2000000;
	fake.fails_of[0] = 1;
	rail_dies(0);
	fake.mr_fails_of[0] = true;
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	assert_int_equal(te_region_step(region, NULL), 1);
	fake.mr_fails_of[0] = false;
	now_ns += 200000000;
	poll();
	assert_true(te_rail_up(n.te, 0));
	while (te_region_step(region, NULL) == 1)
		;
	region_check(region, memory, BYTES, 1 << 20);
	close_all();
	free(memory);
}

/* Numbers alone: nothing touches this memory. */
static void memory_of_any_size_has_parts_that_can_be_announced(void **state)
{
	uint8_t *memory = (uint8_t *)0x100000000123;
	struct te_region *region;
	struct kv_error err = {0};
	(void)state;
	open_rails(2);
	assert_int_equal(te_region_register(n.te, memory, (uint64_t)300 << 30, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, (uint64_t)300 << 30, (uint64_t)1 << 30);
	assert_int_equal(te_region_close(&region), 0);
	assert_int_equal(te_region_register(n.te, memory, ((uint64_t)20 << 40) + 1, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, ((uint64_t)20 << 40) + 1, (uint64_t)4 << 30);
	assert_int_equal(te_region_close(&region), 0);
	assert_int_equal(te_region_register(n.te, memory, (uint64_t)300 << 30, TE_LOCAL, 1 << 20, &region, &err),
			 -KV_ELIMIT);
	assert_non_null(
		strstr(err.text, "300 GiB in parts of 1 MiB on 2 rails are more parts than peers can be told of"));
	/* Halving ends before there are too many, too. */
	fake.mr_max = 4 << 20;
	assert_int_equal(te_region_register(n.te, memory, (uint64_t)300 << 30, TE_LOCAL, 0, &region, &err), -KV_ENOMEM);
	assert_int_equal(te_region_register(n.te, memory, 1, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, 1, 1);
	close_all();
}

/* On a machine with one node it is nowhere in particular; tests/verbs/memory.sh runs this on one with two. */
static void messages_are_on_the_node_of_the_nics(void **state)
{
	struct te_info info;
	bool nodes = kv_numa_nodes("") > 1;
	(void)state;
	for (int near = 0; near < 2; near++) {
		fake_node = 1;
		open_with((struct te_options){.near = near}, 64, 1024);
		fake_node = -1;
		te_info(n.te, &info);
		assert_int_equal(info.numa_node, 1);
		assert_int_equal(info.near, near && nodes);
		struct te_msg *m = te_msg_acquire(n.te);
		memset(m->data, 1, KV_MSG_MAX);
		if (info.near && info.node_error == 0)
			assert_int_equal(kv_numa_share(m->data, KV_MSG_MAX, 1), 100);
		te_msg_release(n.te, m);
		close_all();
	}
}

static void parts_are_as_large_as_the_engine_says(void **state)
{
	enum { BYTES = 1000000 };
	struct te_region *region;
	(void)state;
	open_with((struct te_options){.part_bytes = 4099}, 64, 1024);
	uint8_t *memory = malloc(BYTES);
	assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, BYTES, 4099);
	close_all();
	free(memory);
}

static void addresses_are_inserted_once_and_removed_last(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	struct te_peer *one = peer(1), *two = peer(1);
	assert_int_equal(fake.inserts, 1);
	start(&x, &r, TE_WRITE, two, CHUNK, 1);
	te_peer_close(&one);
	te_peer_close(&two);
	assert_int_equal(fake.removes, 0); /* an operation is still on its way there */
	complete(0, 0);
	poll();
	assert_int_equal(r.done, 1);
	assert_int_equal(fake.removes, 1);
	close_all();
}

static unsigned open_at_done;

static void note_open(struct te_xfer *x, int status)
{
	struct result *r = x->arg;
	open_at_done = fake.opens;
	r->done++;
	r->status = status;
}

static void endpoints_close_before_anybody_is_told(void **state)
{
	struct te_xfer x;
	struct result r;
	(void)state;
	open_plain();
	xfer_init(&x, &r, TE_WRITE, peer(1), &area, 0, &far, 0, CHUNK);
	x.done = note_open;
	assert_int_equal(te_xfer_start(n.te, &x), 1);
	open_at_done = 99;
	close_all();
	assert_int_equal(open_at_done, 0);
	assert_int_equal(r.status, -KV_ECLOSED);
}

/* ---- everything at random ---- */

enum { SLOTS = 40, PEERS = 5, STEPS = 60000 };

static struct {
	struct te_xfer x[SLOTS];
	struct result r[SLOTS];
	bool live[SLOTS];
	struct te_peer *peers[PEERS];
	struct kv_prng prng;
	uint64_t started, sent;
	struct result msgs[SLOTS];
	bool msg_live[SLOTS];
} all;

static uint64_t below(uint64_t bound)
{
	return kv_prng_below(&all.prng, bound);
}

static void random_start(unsigned i)
{
	struct te_peer *p = all.peers[below(PEERS)];
	if (all.live[i] || !p)
		return;
	xfer_init(&all.x[i], &all.r[i], below(2) ? TE_WRITE : TE_READ, p, &area, 0, &far, 0, below(12) * CHUNK / 2);
	all.x[i].with_imm = all.x[i].dir == TE_WRITE && below(2);
	all.x[i].link = below(2) ? TE_LINK_ANY : 0;
	all.x[i].deadline_ns = below(4) ? KV_NEVER : now_ns + below(3000000);
	int rc = te_xfer_start(n.te, &all.x[i]);
	assert_true(rc == 0 || rc == 1 || rc == -KV_EPEERDOWN);
	assert_int_equal(all.r[i].done, 0);
	all.live[i] = rc >= 0;
	all.started += rc >= 0;
}

static void random_send(unsigned i)
{
	uint8_t data[8] = {0};
	struct te_peer *p = all.peers[below(PEERS)];
	if (all.msg_live[i] || !p)
		return;
	struct te_msg *m = msg_for(&n, &all.msgs[i], data, 8);
	if (!m)
		return;
	te_msg_send(n.te, p, 0, m, below(4) ? KV_NEVER : now_ns + below(3000000));
	all.msg_live[i] = true;
	all.sent++;
}

static void random_complete(void)
{
	if (fake.count == 0)
		return;
	unsigned i = (unsigned)below(fake.count);
	if (!fake.posts[i].over && fake.nevents < EVENTS_MAX - 1)
		complete(i, below(20) ? 0 : (int[]){-ECANCELED, -EINVAL, -ENOTCONN}[below(3)]);
}

static void random_peer(unsigned i)
{
	struct te_address a = {.len = 2, .data = {(uint8_t)(1 + below(20))}};
	if (!all.peers[i])
		te_peer_open(n.te, &a, 1, &all.peers[i], NULL);
	else if (below(2))
		te_peer_readdress(all.peers[i], &a, 1, NULL);
	else
		te_peer_close(&all.peers[i]);
}

static void random_trouble(void)
{
	static const int codes[] = {-EINVAL, -ENOTCONN, -EAGAIN};
	switch (below(6)) {
	case 0:
		fake.fail_next = codes[below(KV_COUNT(codes))];
		break;
	case 1:
	case 2:
		fake.eagain[1 + below(20)] ^= 1;
		break;
	case 3:
		if (fake.nevents < EVENTS_MAX - 1 && below(10) == 0)
			event((struct fab_event){.type = FAB_EV_DEAD});
		break;
	case 4:
		fake.recvs_eagain = (unsigned)below(3);
		break;
	default:
		if (all.peers[0] && below(10) == 0) {
			fake.rebuild_failures = below(3) ? 0 : 1;
			te_peer_fence(all.peers[0], NULL);
		}
	}
}

/* What must hold at every moment. */
static void check_all(void)
{
	struct te_stats s;
	te_stats(n.te, &s);
	assert_true(outstanding() <= s.inflight);
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct te_xfer *x = &all.x[i];
		if (!all.live[i])
			continue;
		assert_true(all.r[i].done <= 1 && all.r[i].posting_done <= 1);
		assert_true(x->completed <= x->posted && x->posted <= te_xfer_chunks(n.te, x));
		if (!all.r[i].done)
			continue;
		assert_int_equal(all.r[i].status == 0, x->completed == te_xfer_chunks(n.te, x));
		if (all.r[i].posting_done)
			assert_int_equal(all.r[i].posted_when_told, x->posted);
		all.live[i] = false;
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (all.msg_live[i] && all.msgs[i].done)
			all.msg_live[i] = false;
}

/* breaks_stay: a connection that broke is kept by the provider, and there are only so many of them. slow: endpoints
 * take long to close. */
static void everything_at_random(bool breaks_stay, bool slow)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	printf("# KVRAIL_SEED=%llu\n", (unsigned long long)seed);
	memset(&all, 0, sizeof(all));
	kv_prng_seed(&all.prng, seed);
	fake_slow = slow;
	open_with((struct te_options){.link_ops = 2, .link_bytes = 3 * CHUNK, .messages = 16}, 24, 200);
	fake_slow = false;
	fake.caps.breaks_stay = breaks_stay;
	fake.caps.peers_max = breaks_stay ? 6 : 0;
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)below(SLOTS);
		switch (below(12)) {
		case 0:
		case 1:
		case 2:
			random_start(i);
			break;
		case 3:
			random_send(i);
			break;
		case 4:
			if (all.live[i] && below(3) == 0)
				te_xfer_cancel(n.te, &all.x[i]);
			break;
		case 5:
			if (below(8) == 0)
				random_peer((unsigned)below(PEERS));
			break;
		case 6:
			if (below(8) == 0)
				random_trouble();
			break;
		case 7:
			now_ns += below(2000000);
			if (slow)
				fake.closed = below(50) == 0;
			break;
		case 8:
		case 9:
			random_complete();
			break;
		default:
			poll();
			check_all();
		}
	}
	assert_true(all.started > 1000 && all.sent > 100);
	node_close(&n);
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_int_equal(all.live[i] ? all.r[i].done : 1, 1);
		assert_int_equal(all.msg_live[i] ? all.msgs[i].done : 1, 1);
	}
	free(area.remote.keys);
	free(area.base);
}

#define CASE(fn) cmocka_unit_test_setup(fn, node_forget_all)

static void everything_ends_once_whatever_happens(void **state)
{
	(void)state;
	everything_at_random(false, false);
}

static void everything_ends_once_where_connections_stay_broken(void **state)
{
	(void)state;
	everything_at_random(true, false);
}

static void everything_ends_once_where_endpoints_close_slowly(void **state)
{
	(void)state;
	everything_at_random(false, true);
	assert_true(n.fenced > 3);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(a_stalled_peer_delays_no_other),
		CASE(a_stalled_peer_is_tried_once_per_poll),
		CASE(many_stalled_peers_cost_a_bounded_poll),
		CASE(queued_things_expire),
		CASE(peers_share_credits_evenly),
		CASE(transfers_of_one_peer_take_turns),
		CASE(in_flight_never_exceeds_the_credits),
		CASE(room_for_immediates_follows_the_queues),
		CASE(in_flight_never_exceeds_the_depth_of_a_rebuilt_endpoint),
		CASE(a_link_keeps_its_window),
		CASE(peers_that_take_nothing_leave_credits_to_others),
		CASE(messages_that_a_peer_does_not_take_leave_credits_to_others),
		CASE(messages_do_not_wait_behind_a_transfer_without_credit),
		CASE(messages_of_a_stalled_link_do_not_wait_behind_a_transfer_without_credit),
		CASE(an_operation_that_cannot_be_posted_fails_alone),
		CASE(a_refused_post_is_tried_again),
		CASE(failures_are_judged),
		CASE(a_connection_that_stays_broken_costs_the_endpoint),
		CASE(operations_flushed_twice_say_that_a_connection_stays_broken),
		CASE(a_server_leaves_broken_connections_to_its_clients),
		CASE(a_lost_connection_costs_the_endpoint_when_it_is_wanted),
		CASE(lost_connections_cost_the_endpoint_at_once_when_all_are),
		CASE(where_connections_heal_by_themselves_nothing_is_rebuilt),
		CASE(more_peers_than_the_queues_are_made_for_are_refused),
		CASE(stray_events_are_counted_and_not_believed),
		CASE(receives_that_get_eagain_are_posted_later),
		CASE(receives_never_exceed_the_depth_of_a_rebuilt_endpoint),
		CASE(an_immediate_that_used_a_receive_gives_it_back),
		CASE(receives_that_fail_for_ever_mean_a_rebuild),
		CASE(a_dead_endpoint_is_rebuilt_and_told),
		CASE(a_rebuild_that_fails_is_retried_with_back_off),
		CASE(a_cut_ends_what_one_peer_has_and_nobody_elses),
		CASE(an_address_that_was_cut_is_let_in_by_whoever_gets_it),
		CASE(what_no_cut_can_find_is_rebuilt),
		CASE(fences_are_rate_limited_by_telling_late),
		CASE(an_endpoint_that_closes_slowly_holds_what_it_has),
		CASE(limbo_takes_no_credits),
		CASE(a_rail_that_is_fenced_twice_waits),
		CASE(a_rail_that_waited_is_busy_until_it_is_tried_again),
		CASE(what_is_in_limbo_waits_for_two_fences_at_most),
		CASE(an_engine_closes_while_it_fences),
		CASE(a_rail_that_cannot_be_rebuilt_is_out_and_another_stands_for_it),
		CASE(a_rail_that_fails_again_soon_stays_out_for_longer_each_time),
		CASE(a_peer_that_is_readdressed_goes_by_the_rails_that_are_up),
		CASE(connections_that_break_are_no_failures_of_a_rail),
		CASE(the_last_rail_is_never_left_out),
		CASE(an_engine_without_rails_is_down_until_the_first_is_back),
		CASE(memory_registered_meanwhile_is_there_when_the_rail_is_back),
		CASE(a_rail_that_comes_back_registers_some_parts_in_each_turn),
		CASE(memory_is_registered_although_a_rail_fails_meanwhile),
		CASE(a_refusal_of_a_rail_that_is_well_is_believed_at_the_second_time),
		CASE(a_region_is_closed_between_turns),
		CASE(regions_come_and_go_while_rails_do),
		CASE(a_message_follows_only_on_the_connection_of_its_bytes),
		CASE(contiguous_bytes_grow_in_order),
		CASE(a_read_waits_for_its_first_chunk),
		CASE(chunks_carry_address_key_and_immediate),
		CASE(shm_pushes_only_with_an_immediate),
		CASE(a_region_is_registered_in_smaller_parts_when_there_is_no_room),
		CASE(rails_that_pin_are_registered_at_once),
		CASE(a_rail_that_is_full_is_not_tried_with_smaller_parts),
		CASE(a_region_is_registered_between_turns),
		CASE(a_rail_that_is_out_and_full_keeps_nobody_from_registering),
		CASE(a_rail_that_comes_back_meanwhile_is_registered),
		CASE(memory_of_any_size_has_parts_that_can_be_announced),
		CASE(parts_are_as_large_as_the_engine_says),
		CASE(messages_are_on_the_node_of_the_nics),
		CASE(addresses_are_inserted_once_and_removed_last),
		CASE(endpoints_close_before_anybody_is_told),
		CASE(everything_ends_once_whatever_happens),
		CASE(everything_ends_once_where_connections_stay_broken),
		CASE(everything_ends_once_where_endpoints_close_slowly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
