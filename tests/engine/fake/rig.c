/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c -- one engine on the fake fabric. */
#include "tests/engine/fake/rig.h"

struct node n;
struct area area;
static struct te_key far_key = {.base = 5000, .key = 77};
struct area far = {.remote = {.len_bytes = LEN, .part_bytes = LEN, .parts = 1, .rails = 1, .keys = &far_key}};

void open_with(struct te_options o, uint32_t tx_depth, uint32_t cq_depth)
{
	fake_clear();
	fake.tx_depth = tx_depth;
	fake.cq_depth = cq_depth;
	fake_now_ns = 1000000000;
	o.clock = &fake_clock;
	o.chunk_bytes = o.chunk_bytes ? o.chunk_bytes : CHUNK;
	node_open(&n, "fake", &o);
	area_open(&area, &n, LEN, 0, 0);
}

void open_plain(void)
{
	open_with((struct te_options){0}, 64, 1024);
}

void open_rails(unsigned rails)
{
	machine.devices = rails;
	open_with((struct te_options){.rails = rails}, 64, 1024);
	machine.devices = 1;
}

void close_all(void)
{
	/* Not area_close: that would want all transfers to have ended. */
	node_close(&n);
	assert_int_equal(fake.opens, 0);
	free(area.remote.keys);
	free(area.base);
}

struct te_peer *peer(uint16_t handle)
{
	struct te_address a = {.len = 2};
	struct te_peer *p = NULL;
	kv_put16(a.data, handle);
	assert_int_equal(te_peer_open(n.te, &a, 1, &p, NULL), 0);
	return p;
}

void start(struct te_xfer *x, struct result *r, enum te_dir dir, struct te_peer *p, uint64_t len, int expect)
{
	xfer_init(x, r, dir, p, &area, 0, &far, 0, len);
	assert_int_equal(te_xfer_start(n.te, x), expect);
}

void turn(void)
{
	te_poll(n.te);
}

void rail_dies(unsigned rail)
{
	fake_event(rail, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
	turn();
}

unsigned registered(void)
{
	unsigned count = 0;
	for (unsigned r = 0; r < KV_RAILS_MAX && fake_fabs[r]; r++)
		KV_LIST_EACH (m, &fake_fabs[r]->mrs)
			count++;
	return count;
}
