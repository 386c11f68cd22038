/* SPDX-License-Identifier: Apache-2.0 */
/* test_lookup.c -- the table of records of an EXISTS, with more servers and shards than records may be open, and a
 * server that comes back with another seed while the lookup is made. exists.c is a part of this program, and what it
 * asks of the client is answered here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvclient/call/call.h"
#include "kvclient/conn/node.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"

struct kvc_node *fake_node(struct kvc_client *c, struct kvc_key key);
int fake_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_attachment **out);
int fake_room_await(struct kvc_node *n, const struct kvc_need *need, uint64_t deadline_ns, bool wait,
		    struct kvc_attachment **out_attachment, struct kvc_req **out);
struct kvc_link *fake_link(struct kvc_attachment *a, unsigned shard);
void fake_submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait);
int fake_done_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns);
void fake_release(struct kvc_client *c, struct kvc_req *r);
bool fake_again_await(struct kvc_client *c, int64_t rc, uint64_t deadline_ns, unsigned *tries);

#define kvc_call_node        fake_node
#define kvc_node_ready_await fake_ready_await
#define kvc_call_room_await  fake_room_await
#define kvc_link_pick        fake_link
#define kvc_req_submit       fake_submit
#define kvc_call_done_await  fake_done_await
#define kvc_req_release      fake_release
#define kvc_call_again_await fake_again_await
#include "../../kvclient/call/exists.c"

enum { SERVERS_MAX = 1024, OUT_MAX = 160, LOOKUPS = 40, HANG_S = 60 };

static struct {
	struct kvc_pool pool;
	struct kvc_client client;
	struct kvc_node node[SERVERS_MAX];
	struct kvc_attachment attachment[SERVERS_MAX];
	struct kvc_link link;
	struct kvc_req req[OUT_MAX];
	uint8_t buffer[OUT_MAX][KVC_PIECE_MIN];
	bool taken[OUT_MAX];
	unsigned servers, tries, most; /* most: requests that there is room for */
	unsigned seed_after;           /* so many rooms later the first server is another one; 0: it is not */
	char text[WINDOW][24];
	struct kvc_key key[WINDOW];
} w;

struct kvc_node *fake_node(struct kvc_client *c, struct kvc_key key)
{
	return &c->node[kv_hash_key(key.data, key.len, 1) % w.servers];
}

int fake_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_attachment **out)
{
	(void)deadline_ns;
	*out = n->attachment;
	return 0;
}

int fake_room_await(struct kvc_node *n, const struct kvc_need *need, uint64_t deadline_ns, bool wait,
		    struct kvc_attachment **out_attachment, struct kvc_req **out)
{
	unsigned i = 0;
	(void)need;
	(void)deadline_ns;
	while (i < w.most && w.taken[i])
		i++;
	if (i == w.most) {
		assert_false(wait);
		return -KV_EBUSY;
	}
	if (w.seed_after && --w.seed_after == 0)
		w.attachment[0].shard_seed++;
	w.taken[i] = true;
	memset(&w.req[i], 0, sizeof(w.req[i]));
	w.req[i].mem.piece.offset = i * sizeof(w.buffer[0]);
	*out_attachment = n->attachment;
	*out = &w.req[i];
	return 0;
}

struct kvc_link *fake_link(struct kvc_attachment *a, unsigned shard)
{
	(void)a;
	(void)shard;
	return &w.link;
}

/* Every second digest is there. */
void fake_submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait)
{
	(void)l;
	(void)wait;
	assert_in_range(r->wire.exists.count, 1, WIRE_EXISTS_MAX);
	for (unsigned i = 0; i < r->wire.exists.count; i++)
		if (wire_exists_digest(r->wire.exists.digests, i) & 1)
			r->reply.exists.bitmap[i / 8] |= (uint8_t)(1u << i % 8);
}

int fake_done_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns)
{
	(void)c;
	(void)deadline_ns;
	assert_true(r->wire.exists.count > 0); /* or it was never sent */
	return 0;
}

void fake_release(struct kvc_client *c, struct kvc_req *r)
{
	(void)c;
	w.taken[r - w.req] = false;
}

bool fake_again_await(struct kvc_client *c, int64_t rc, uint64_t deadline_ns, unsigned *tries)
{
	(void)c;
	(void)deadline_ns;
	(void)tries;
	w.tries++;
	return rc == -KV_ERESET;
}

static void world(unsigned servers, unsigned shards, unsigned most)
{
	memset(&w, 0, sizeof(w));
	w.servers = servers;
	w.most = most;
	w.client.pool = &w.pool;
	w.client.node = w.node;
	w.client.buffer.base = w.buffer[0];
	for (unsigned i = 0; i < servers; i++) {
		w.node[i].client = &w.client;
		w.node[i].index = i;
		w.node[i].attachment = &w.attachment[i];
		w.attachment[i].shards = shards;
		w.attachment[i].shard_seed = 77 + i;
	}
}

static int lookup(unsigned number)
{
	static struct lookup l;
	struct kvc_call call = {.size = sizeof(call)};
	struct kvc_trace t = {0};
	int rc;
	for (unsigned i = 0; i < WINDOW; i++)
		w.key[i] = (struct kvc_key){w.text[i], (size_t)sprintf(w.text[i], "key-%u-%u", number, i)};
	memset(&l, 0xFF, sizeof(l));
	lookup_init(&l, &w.client, &call, KV_NEVER, &t);
	l.key = w.key;
	l.n = WINDOW;
	alarm(HANG_S); /* a lookup parks nowhere here: it ends, or it turns for ever */
	rc = lookup_await(&l);
	alarm(0);
	for (unsigned i = 0; i < WINDOW && rc == 0; i++) {
		const struct kvc_attachment *a = fake_node(&w.client, w.key[i])->attachment;
		if (found_at(&l, i) != (kv_hash_key(w.key[i].data, w.key[i].len, a->shard_seed) & 1))
			fail_msg("lookup %u: key %u has the answer of another one", number, i);
	}
	for (unsigned i = 0; i < OUT_MAX; i++)
		assert_false(w.taken[i]);
	return rc;
}

static void any_number_of_servers_and_shards(void **state)
{
	static const unsigned groups[][2] = {{1, 1},   {1, 64},  {2, 64},    {4, 64},  {16, 16},
					     {64, 16}, {64, 64}, {1024, 64}, {1024, 1}};
	(void)state;
	for (unsigned g = 0; g < KV_COUNT(groups); g++) {
		for (unsigned i = 0; i < LOOKUPS; i++) {
			world(groups[g][0], groups[g][1], i % 3 ? OUT_MAX : 1 + i);
			assert_int_equal(lookup(i), 0);
		}
	}
}

/* Digests of the old seed would say of each key that it is not there. */
static void a_server_that_comes_back_with_another_seed(void **state)
{
	(void)state;
	for (unsigned i = 1; i < LOOKUPS; i++) {
		world(i % 5 + 1, 8, 1 + i % 7);
		w.seed_after = 1 + i % 4;
		assert_int_equal(lookup(i), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_servers_and_shards),
		cmocka_unit_test(a_server_that_comes_back_with_another_seed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
