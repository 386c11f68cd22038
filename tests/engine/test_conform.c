/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform.c -- what the engine promises, on every provider that is here: the same cases for each. */
#include "tests/engine/node.h"

struct pair {
	const char *provider;
	struct node a, b;
	struct te_peer *ab, *ba;
};

static void pair_open(struct pair *p, void **state, struct te_options *o)
{
	memset(p, 0, sizeof(*p));
	p->provider = *state;
	node_open(&p->a, p->provider, o);
	node_open(&p->b, p->provider, o);
	p->ab = node_peer(&p->a, &p->b);
	p->ba = node_peer(&p->b, &p->a);
}

static void pair_close(struct pair *p)
{
	node_close(&p->a);
	node_close(&p->b);
}

static void a_message_arrives(void **state)
{
	struct pair p;
	struct result r;
	uint8_t data[KV_MSG_MAX];
	pair_open(&p, state, NULL);
	fill(data, sizeof(data), 1);
	for (uint32_t len = 1; len <= KV_MSG_MAX; len = len < 2048 ? len * 2 : len + 1024) {
		uint64_t before = p.b.messages;
		te_msg_send(p.a.te, p.ab, 0, msg_for(&p.a, &r, data, len), KV_NEVER);
		WAIT(r.done && p.b.messages == before + 1);
		assert_int_equal(r.status, 0);
		assert_int_equal(p.b.last_len, len);
		assert_memory_equal(p.b.last, data, len);
	}
	pair_close(&p);
}

static void write_one(struct pair *p, struct area *src, struct area *dst, uint64_t src_off, uint64_t dst_off, uint64_t len)
{
	struct te_xfer x;
	struct result r;
	uint64_t before = p->b.imms;
	xfer_init(&x, &r, TE_WRITE, p->ab, src, src_off, dst, dst_off, len);
	x.imm = 0x12345;
	uint32_t chunks = te_xfer_chunks(p->a.te, &x);
	int rc = te_xfer_start(p->a.te, &x);
	assert_true(rc == 0 || rc == 1);
	WAIT(r.done && p->b.imms == before + chunks);
	assert_int_equal(r.status, 0);
	assert_int_equal(x.posted, chunks);
	assert_int_equal(x.completed, chunks);
	assert_int_equal(r.posting_done, rc == 0);
	assert_int_equal(p->b.last_imm, 0x12345);
	assert_memory_equal(dst->base + dst_off, src->base + src_off, len);
}

static void a_write_lands(void **state)
{
	struct pair p;
	struct area src, dst;
	pair_open(&p, state, NULL);
	area_open(&src, &p.a, 8 << 20, 0, 2);
	area_open(&dst, &p.b, 8 << 20, 0, 0);
	write_one(&p, &src, &dst, 100, 7, 5 << 20);
	area_close(&src);
	area_close(&dst);
	pair_close(&p);
}

static const struct {
	const char *name;
	void (*run)(void **state);
} cases[] = {
	{"a message of every size arrives", a_message_arrives},
	{"a write lands with its immediates", a_write_lands},
};

enum { PROVIDERS_MAX = 8 };

int main(void)
{
	static char names[PROVIDERS_MAX][KV_COUNT(cases)][128];
	static struct CMUnitTest tests[PROVIDERS_MAX * KV_COUNT(cases)];
	const char *list[PROVIDERS_MAX];
	test_env();
	unsigned n = providers(list, PROVIDERS_MAX), t = 0;
	for (unsigned i = 0; i < n; i++)
		for (unsigned c = 0; c < KV_COUNT(cases); c++, t++) {
			snprintf(names[i][c], sizeof(names[i][c]), "%s: %s", list[i], cases[c].name);
			tests[t] = (struct CMUnitTest){.name = names[i][c], .test_func = cases[c].run, .initial_state = (void *)(uintptr_t)list[i]};
		}
	return _cmocka_run_group_tests("conform", tests, t, NULL, NULL);
}
