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

#include "kvclient/conn/node.h"
#include "kvclient/request/requests.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/transfer/call.h"

struct kc_node *fake_node(struct kvc_client *c, struct kvc_key key);
int fake_ready_await(struct kc_node *n, uint64_t deadline_ns, struct kc_attachment **out);
int fake_room_await(struct kc_node *n, const struct kc_need *need, uint64_t deadline_ns, bool wait,
		    struct kc_attachment **out_attachment, struct kc_req **out);
struct kc_link *fake_link(struct kc_attachment *a, unsigned shard);
void fake_submit(struct kc_link *l, struct kc_req *r, struct kc_wait *wait);
void fake_flush(struct kvc_client *c);
int fake_next_await(struct kvc_client *c, struct kc_window *out, uint64_t deadline_ns, struct kc_req **out_req);
void fake_release(struct kvc_client *c, struct kc_req *r);
bool fake_again_await(struct kvc_client *c, int64_t rc, uint64_t deadline_ns, unsigned *tries);

#define route_first          fake_node
#define kc_node_ready_await  fake_ready_await
#define kc_call_room_await   fake_room_await
#define kc_link_pick         fake_link
#define kc_req_submit        fake_submit
#define kc_link_flush        fake_flush
#define kc_window_next_await fake_next_await
#define kc_req_release       fake_release
#define kc_call_again_await  fake_again_await
#include "../../kvclient/call/exists.c"

enum { SERVERS_MAX = 1024, OUT_MAX = 160, LOOKUPS = 40, HANG_S = 60 };

static struct {
	struct kvc_pool pool;
	struct kvc_client client;
	struct kc_node node[SERVERS_MAX];
	struct kc_attachment attachment[SERVERS_MAX];
	struct kc_link link;
	struct kc_req req[OUT_MAX];
	uint8_t buffer[OUT_MAX][KC_PIECE_MIN];
	bool taken[OUT_MAX];
	struct kc_attachment *asked, *at[OUT_MAX]; /* the last one that a link was asked of, and those of requests */
	uint64_t seed[OUT_MAX];                    /* which that had when the request was submitted */
	unsigned submitted, flushed;
	bool restarts; /* the first server does, and did with this seed before */
	uint64_t seed_before;
	unsigned servers, tries, most; /* most: requests that there is room for */
	unsigned seed_after;           /* so many waits later the first server is another one; 0: it is not */
	char text[WINDOW][24];
	struct kvc_key key[WINDOW];
} w;

struct kc_node *fake_node(struct kvc_client *c, struct kvc_key key)
{
	return &c->node[kv_hash_key(key.data, key.len, 1) % w.servers];
}

int fake_ready_await(struct kc_node *n, uint64_t deadline_ns, struct kc_attachment **out)
{
	(void)deadline_ns;
	*out = n->attachment;
	return 0;
}

/* A lookup waits: only then the world changes. */
static void waits(void)
{
	if (w.seed_after && --w.seed_after == 0)
		w.attachment[0].shard_seed++;
}

int fake_room_await(struct kc_node *n, const struct kc_need *need, uint64_t deadline_ns, bool wait,
		    struct kc_attachment **out_attachment, struct kc_req **out)
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
	if (wait)
		waits();
	w.taken[i] = true;
	memset(&w.req[i], 0, sizeof(w.req[i]));
	w.req[i].mem.piece.offset = i * sizeof(w.buffer[0]);
	*out_attachment = n->attachment;
	*out = &w.req[i];
	return 0;
}

struct kc_link *fake_link(struct kc_attachment *a, unsigned shard)
{
	(void)shard;
	w.asked = a;
	return &w.link;
}

/* Whether this is the digest of a key with the seed that the server has now. */
static bool digest_is_of(const struct kc_attachment *a, uint64_t digest)
{
	for (unsigned i = 0; i < WINDOW; i++)
		if (kv_hash_key(w.key[i].data, w.key[i].len, a->shard_seed) == digest)
			return true;
	return false;
}

/* Every second digest is there. */
void fake_submit(struct kc_link *l, struct kc_req *r, struct kc_wait *wait)
{
	(void)l;
	(void)wait;
	assert_in_range(r->wire.exists.count, 1, WIRE_EXISTS_MAX);
	w.at[r - w.req] = w.asked;
	w.seed[r - w.req] = w.asked->shard_seed;
	w.submitted++;
	for (unsigned i = 0; w.restarts && i < r->wire.exists.count; i += 17)
		assert_true(digest_is_of(w.asked, wire_exists_digest(r->wire.exists.digests, i)));
	for (unsigned i = 0; i < r->wire.exists.count; i++)
		if (wire_exists_digest(r->wire.exists.digests, i) & 1)
			r->reply.exists.bitmap[i / 8] |= (uint8_t)(1u << i % 8);
}

/* What is out goes at once: so a flush may end an attachment, and nothing may be open. */
void fake_flush(struct kvc_client *c)
{
	unsigned out = 0;
	(void)c;
	for (unsigned i = 0; i < OUT_MAX; i++) {
		out += w.taken[i];
		if (w.taken[i])
			assert_true(w.req[i].wire.exists.count > 0);
	}
	assert_true(out > 0);
	w.flushed++;
}

/* A request to a server that is gone meanwhile is lost. */
int fake_next_await(struct kvc_client *c, struct kc_window *out, uint64_t deadline_ns, struct kc_req **out_req)
{
	const struct kc_req *r = *out_req = out->req[out->head];
	(void)c;
	(void)deadline_ns;
	out->head = (out->head + 1) % out->size;
	out->count--;
	for (unsigned i = 0; i < OUT_MAX; i++)
		if (w.taken[i])
			assert_true(w.req[i].wire.exists.count > 0); /* or it is open while the lookup waits */
	waits();
	return w.at[r - w.req]->shard_seed == w.seed[r - w.req] ? 0 : -KV_ERESET;
}

void fake_release(struct kvc_client *c, struct kc_req *r)
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
	w.pool.place.n = w.servers ? w.servers : 2; /* any number but one: then nobody is asked where a key is */
	w.client.placement = &w.pool.place;
	w.client.node = w.node;
	w.client.buffer.base = w.buffer[0];
	for (unsigned i = 0; i < servers; i++) {
		w.node[i].client = &w.client;
		w.node[i].index = i;
		w.node[i].state = KC_NODE_UP;
		w.node[i].attachment = &w.attachment[i];
		w.attachment[i].shards = shards;
		w.attachment[i].shard_seed = 77 + i;
	}
}

static int lookup_of(unsigned number, unsigned n, struct kvc_session *session)
{
	static struct lookup l;
	struct kvc_call call = {.size = sizeof(call), .session = session};
	struct kc_trace t = {0};
	int rc;
	for (unsigned i = 0; i < WINDOW; i++)
		w.key[i] = (struct kvc_key){w.text[i], (size_t)sprintf(w.text[i], "key-%u-%u", number, i)};
	memset(&l, 0xFF, sizeof(l));
	lookup_init(&l, &w.client, &call, KV_NEVER, &t);
	l.key = w.key;
	l.n = n;
	alarm(HANG_S); /* a lookup parks nowhere here: it ends, or it turns for ever */
	rc = lookup_await(&l);
	alarm(0);
	for (unsigned i = 0; i < n && rc == 0; i++) {
		const struct kc_attachment *a = fake_node(&w.client, w.key[i])->attachment;
		bool found = found_at(&l, i);
		bool before = w.restarts && a == w.attachment &&
			      found == (kv_hash_key(w.key[i].data, w.key[i].len, w.seed_before) & 1);
		if (!before && found != (kv_hash_key(w.key[i].data, w.key[i].len, a->shard_seed) & 1))
			fail_msg("lookup %u: key %u has the answer of another one", number, i);
	}
	for (unsigned i = 0; i < OUT_MAX; i++)
		assert_false(w.taken[i]);
	return rc;
}

static int lookup(unsigned number)
{
	return lookup_of(number, WINDOW, NULL);
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
		w.restarts = true;
		w.seed_before = w.attachment[0].shard_seed;
		assert_int_equal(lookup(i), 0);
	}
}

/* The server works on the first 500 while the others are packed. A record of a session leaves place for its name. */
static void a_thousand_keys_are_two_records(void **state)
{
	struct kvc_session *session = (struct kvc_session *)&w; /* nobody looks into it here */
	(void)state;
	for (unsigned several = 0; several < 2; several++) {
		world(1, 1, OUT_MAX);
		w.pool.place.n = 1 + several;
		assert_int_equal(lookup_of(7, 1000, NULL), 0);
		assert_int_equal(w.submitted, 2);
		assert_int_equal(w.flushed, 2);
	}
	world(1, 1, OUT_MAX);
	assert_int_equal(lookup_of(7, 1000, session), 0);
	assert_int_equal(w.submitted, 3);
	world(2, 1, OUT_MAX); /* a record of the other server is open when one is full */
	assert_int_equal(lookup_of(7, WINDOW, NULL), 0);
	assert_in_range(w.submitted, 2, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_servers_and_shards),
		cmocka_unit_test(a_server_that_comes_back_with_another_seed),
		cmocka_unit_test(a_thousand_keys_are_two_records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
