/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c -- engine/fabric/fabric.h by plain arrays. What was posted is kept in `fake` until the test completes it. */
#include "tests/engine/fake/fake.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/check.h"

struct fake fake;
struct fake_machine machine = {.devices = 1, .node = -1};
struct fab *fake_fabs[KV_RAILS_MAX];
uint64_t fake_now_ns;

static uint64_t clock_now(const struct kv_clock *clock)
{
	(void)clock;
	return fake_now_ns;
}

const struct kv_clock fake_clock = {.now_ns = clock_now};

void fake_clear(void)
{
	memset(&fake, 0, sizeof(fake));
}

int fab_devices(const struct fab_query *q, struct fab_device *out, unsigned max, unsigned *out_count, char *why,
		struct kv_error *err)
{
	(void)q, (void)err, (void)max;
	for (unsigned i = 0; i < machine.devices; i++) {
		memset(&out[i], 0, sizeof(*out));
		out[i].numa_node = machine.node;
		snprintf(out[i].short_name, sizeof(out[i].short_name), "fake");
		snprintf(out[i].domain, sizeof(out[i].domain), "fake%u", i);
	}
	snprintf(why, 512, "a fake");
	*out_count = machine.devices;
	return 0;
}

int fab_open(const struct fab_device *d, const struct fab_options *o, struct fab **out, struct kv_error *err)
{
	(void)d, (void)o, (void)err;
	*out = calloc(1, sizeof(**out));
	(*out)->open = true;
	(*out)->rail = fake.opens;
	kv_list_init(&(*out)->mrs);
	fake_fabs[fake.opens] = *out;
	fake.opens++;
	fake.caps = (struct fab_caps){.tx_depth = fake.tx_depth,
				      .cq_depth = fake.cq_depth,
				      .rx_depth = 16,
				      .msg_max = KV_MSG_MAX,
				      .rma_max = 1 << 30,
				      .ordered = machine.ordered,
				      .close_max_ns = machine.slow ? 1000000000 : 0,
				      .push_imm_only = machine.imm_only};
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
		fake_fabs[(*fab)->rail] = NULL;
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
	fab->old += fake.caps.close_max_ns && fab->open;
	fake_close(fab);
}

void fab_shut(struct fab *fab)
{
	fake.shuts++;
	fake_give_up(fab);
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

void fab_local_set(struct fab *fab, const struct sockaddr_storage *local)
{
	(void)fab, (void)local;
}

bool fab_address_gone(const struct fab *fab)
{
	(void)fab;
	return false;
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
		fake_now_ns += fake.mr_takes_ns;
	__atomic_store_n(&fake.busy[fab->rail], false, __ATOMIC_RELEASE);
	kv_list_add_tail(&fab->mrs, &(*out)->node);
	return 0;
}

void fab_mr_close(struct fab_mr **mr)
{
	if (*mr) {
		kv_list_del(&(*mr)->node);
		fake_now_ns += fake.close_takes_ns;
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
	*out = kv_get16(blob) % FAKE_HANDLES;
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

void fab_broken(struct fab *fab, uint64_t handle)
{
	assert_true(fab->open && fake.known[fab->rail][handle]);
	fake.broken++;
}

int fab_cut(struct fab *fab, const void *blob, size_t len)
{
	(void)len;
	assert_true(fab->open && fake.caps.peer_fence);
	fake.cuts++;
	fake.cut[kv_get16(blob) % FAKE_HANDLES] = fake.cut_fails == 0;
	return fake.cut_fails;
}

void fab_uncut(struct fab *fab, const void *blob, size_t len)
{
	(void)fab, (void)len;
	assert_true(fake.cut[kv_get16(blob) % FAKE_HANDLES]);
	fake.cut[kv_get16(blob) % FAKE_HANDLES] = false;
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

static int post(struct fab *fab, struct fake_post p)
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
	if (fake.count == FAKE_POSTS_MAX) { /* forget what is over */
		unsigned n = 0;
		for (unsigned i = 0; i < FAKE_POSTS_MAX; i++)
			if (!fake.posts[i].over)
				fake.posts[n++] = fake.posts[i];
		assert_true(n < FAKE_POSTS_MAX);
		fake.count = n;
	}
	p.rail = fab->rail;
	fake.posts[fake.count++] = p;
	return 0;
}

int fab_send(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, struct fab_ctx *ctx)
{
	(void)buf, (void)mr;
	return post(fab, (struct fake_post){.kind = FAKE_SEND, .to = to, .len = len, .ctx = ctx});
}

int fab_write(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr, uint64_t key,
	      const uint32_t *imm, unsigned how, struct fab_ctx *ctx)
{
	bool half = fake.half_next;
	(void)buf, (void)mr;
	fake.half_next = false;
	int rc = post(fab, (struct fake_post){.kind = FAKE_WRITE,
					      .to = to,
					      .len = len,
					      .ctx = ctx,
					      .addr = addr,
					      .key = key,
					      .has_imm = imm,
					      .how = how,
					      .imm = imm ? *imm : 0});
	return rc == 0 && half ? FAB_HALF : rc;
}

int fab_read(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, uint64_t from, uint64_t addr, uint64_t key,
	     struct fab_ctx *ctx)
{
	(void)buf, (void)mr;
	return post(fab, (struct fake_post){
				 .kind = FAKE_READ, .to = from, .len = len, .ctx = ctx, .addr = addr, .key = key});
}

int fab_poll(struct fab *fab, struct fab_event *out, int n)
{
	if (!fab->open)
		return 0;
	fake.polls++;
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

const char *fab_last_error(const struct fab *fab)
{
	(void)fab;
	return "told to";
}

void fake_event(unsigned rail, struct fab_event ev)
{
	assert_true(fake.nevents < FAKE_EVENTS_MAX);
	fake.event_rail[fake.nevents] = rail;
	fake.events[fake.nevents++] = ev;
}

void fake_complete(unsigned i, int status)
{
	assert_false(fake.posts[i].over);
	fake.posts[i].over = true;
	fake_event(fake.posts[i].rail, (struct fab_event){.type = status ? FAB_EV_FAIL : FAB_EV_DONE,
							  .ctx = fake.posts[i].ctx,
							  .status = status});
}

unsigned fake_outstanding(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < fake.count; i++)
		n += !fake.posts[i].over;
	return n;
}
