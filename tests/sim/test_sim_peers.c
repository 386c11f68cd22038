/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_peers.c -- servers that die, stop, fall silent and come back, seen by a client under virtual time: when it
 * notices, how it comes back, and what calls to another server feel of it.
 *
 * "At most one fence" is what a server may cost the calls to another one. A fence is told to the world up to 250 ms
 * late when there have been many (engine/fence.c), and then everybody connects anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/private.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/request/private.h"
#include "kvclient/request/requests.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/world.h"

#define FENCE (250 * MS + 50 * MS)

enum { VALUE = 200000, WORKERS = 24, INNOCENTS = 6 };

static struct world world;

/* ---- two servers ---- */

enum trouble { STOPPED, KILLED, POWERLESS, FABRIC_CUT, SLOW_SHARD, TROUBLES };

static const char *const trouble_name[TROUBLES] = {"stopped", "killed", "without power", "cut off the fabric",
						   "stopped in its shards"};

struct key {
	char text[32];
	struct kvc_key key;
};

static struct two {
	struct key key[2][4]; /* of each server */
	uint64_t stop_ns, timeout_ns;
	uint8_t *memory;
	bool reg;
	uint64_t calls, worst_ns, failed;
} two;

/* Keys that are on server `s`. */
static void keys_find(struct kvc_client *c)
{
	unsigned have[2] = {0};
	for (unsigned i = 0; have[0] < 4 || have[1] < 4; i++) {
		struct key k;
		unsigned s;
		k.key.len = (size_t)snprintf(k.text, sizeof(k.text), "key/%u", i);
		s = route_owner(c, (struct kvc_key){k.text, k.key.len})->index;
		if (have[s] == 4)
			continue;
		two.key[s][have[s]] = k;
		two.key[s][have[s]].key.data = two.key[s][have[s]].text;
		have[s]++;
	}
}

static void two_find(struct kvc_client *c, void *arg)
{
	(void)arg;
	keys_find(c);
}

static void two_begin(struct kvc_client *c, void *arg)
{
	uint8_t *value = calloc(1, VALUE);
	(void)arg;
	keys_find(c);
	for (unsigned s = 0; s < 2; s++)
		for (unsigned i = 0; i < 4; i++)
			if (kvc_put_await(c, two.key[s][i].key, value, VALUE, NULL) != 0)
				world_wrong(&world, "a value could not be stored");
	free(value);
}

/* Uses the server that is in trouble, as much as it can. */
static void guilty(struct kvc_client *c, void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	uint8_t *own = malloc(VALUE), *memory = two.reg && n % 4 == 0 ? two.memory + n * VALUE : own;
	while (world_now(&world) < two.stop_ns) {
		struct kvc_call call = {.size = sizeof(call), .timeout_ns = two.timeout_ns};
		if (n % 3)
			kvc_get_await(c, two.key[1][n % 4].key, memory, VALUE, &call);
		else
			kvc_touch_await(c, two.key[1][n % 4].key, &call);
		co_sleep_await(world_now(&world) + kv_prng_below(&world.prng, 20 * MS));
	}
	free(own);
}

/* Uses the other one, and must not suffer. */
static void innocent(struct kvc_client *c, void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	uint8_t *memory = malloc(VALUE);
	while (world_now(&world) < two.stop_ns) {
		uint64_t begun = world_now(&world), took;
		int64_t rc = n % 2 ? kvc_get_await(c, two.key[0][n % 4].key, memory, VALUE, NULL)
				   : kvc_put_await(c, two.key[0][n % 4].key, memory, VALUE, NULL);
		took = world_now(&world) - begun;
		two.calls++;
		two.failed += rc < 0 && rc != -KV_EEXIST;
		two.worst_ns = KV_MAX(two.worst_ns, took);
		memset(memory, 0, VALUE);
		co_sleep_await(world_now(&world) + kv_prng_below(&world.prng, 40 * MS));
	}
	free(memory);
}

static void trouble_begin(enum trouble t, bool on)
{
	const struct world_server *s = &world.server[1];
	switch (t) {
	case STOPPED:
		world_server_freeze(&world, 1, on);
		break;
	case KILLED:
	case POWERLESS:
		if (on)
			world_server_crash(&world, 1, t == POWERLESS);
		break;
	case FABRIC_CUT:
		world_unplug(&world, s->fab_first, s->fab_end, on);
		break;
	case SLOW_SHARD:
		sim_loop_freeze(s->loop[1], on);
		sim_loop_freeze(s->loop[2], on);
		break;
	case TROUBLES:
		break;
	}
}

static void two_servers(enum trouble t, bool reg, uint64_t timeout_ns, uint64_t buffer_bytes)
{
	struct world_options wo = {.seed = 50 + (uint64_t)t,
				   .servers = 2,
				   .clients = 1,
				   .buffer_bytes = buffer_bytes,
				   .timeout_ns = 5 * SECOND,
				   .fabric.wait_fd = true};
	struct kvc_mem *mem;
	memset(&two, 0, sizeof(two));
	two.reg = reg;
	two.timeout_ns = timeout_ns;
	two.memory = aligned_alloc(4096, kv_align_up((size_t)WORKERS * VALUE, 4096));
	world_open(&world, &wo);
	assert_int_equal(world_register(&world, 0, two.memory, kv_align_up((size_t)WORKERS * VALUE, 4096), &mem), 0);
	world_do(&world, 0, two_begin, NULL);
	two.stop_ns = world_now(&world) + 8 * SECOND;
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&world, 0, 0, guilty, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < INNOCENTS; i++)
		world_worker(&world, 0, 0, innocent, (void *)(uintptr_t)i);
	world_sleep(&world, 500 * MS);
	trouble_begin(t, true);
	world_sleep(&world, 6 * SECOND);
	trouble_begin(t, false);
	world_join(&world, 20 * SECOND);
	if (getenv("KVRAIL_SIM_STATS"))
		fprintf(stderr,
			"%-24s %s, deadlines of %4llu ms: %6llu calls to the other server, %llu failed, the longest "
			"took %.3f s; %llu fences\n",
			trouble_name[t], reg ? "registered memory" : "library memory   ",
			(unsigned long long)(timeout_ns / MS), (unsigned long long)two.calls,
			(unsigned long long)two.failed, (double)two.worst_ns / 1e9,
			(unsigned long long)world_counters(&world, 0).fences);
	assert_int_equal(two.failed, 0);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	free(two.memory);
	world_close(&world);
	if (two.worst_ns > FENCE && !getenv("KVRAIL_SIM_STATS"))
		fail_msg("a server that is %s delayed a call to another one by %.3f s", trouble_name[t],
			 (double)two.worst_ns / 1e9);
}

static void a_server_in_trouble_delays_calls_to_another_by_one_fence(void **state)
{
	(void)state;
	for (unsigned t = 0; t < TROUBLES; t++) {
		for (unsigned reg = 0; reg < 2; reg++) {
			/* Half of it under a sanitizer, and in `make check`. */
			if (world_seeds(20) < 20 && reg != t % 2)
				continue;
			two_servers((enum trouble)t, reg, 300 * MS, 4 << 20);
			if (!test_short())
				two_servers((enum trouble)t, reg, 10 * SECOND, 4 << 20);
		}
	}
}

/* A message each, at its own time, to a server whose endpoints take nothing. */
static void one_message(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 20 * SECOND};
	co_sleep_await(world_now(&world) + kv_prng_below(&world.prng, 1500 * MS));
	kvc_touch_await(c, two.key[1][(uintptr_t)arg % 4].key, &call);
}

static void messages_to_a_silent_server_leave_send_buffers_to_another(void **state)
{
	struct world_options wo = {.seed = 60, .servers = 2, .clients = 1};
	(void)state;
	memset(&two, 0, sizeof(two));
	world_open(&world, &wo);
	world_do(&world, 0, two_begin, NULL);
	trouble_begin(FABRIC_CUT, true);
	for (unsigned i = 0; i < 400; i++)
		world_worker(&world, 0, 0, one_message, (void *)(uintptr_t)i);
	world_sleep(&world, 1600 * MS);
	assert_in_range(kc_pool_client(world.pool[0].pool, 0)->requests->out.frames, KC_FRAMES / 2, KC_FRAMES / 2 + 1);
	two.stop_ns = world_now(&world) + 200 * MS;
	for (unsigned i = 0; i < INNOCENTS; i++)
		world_worker(&world, 0, 0, innocent, (void *)(uintptr_t)i);
	world_sleep(&world, 300 * MS);
	assert_int_equal(two.failed, 0);
	assert_in_range(two.calls, 20, 1000);
	assert_in_range(two.worst_ns, 0, 50 * MS);
	trouble_begin(FABRIC_CUT, false);
	world_join(&world, 30 * SECOND);
	world_close(&world);
}

/* ---- items of a batch ---- */

static struct kvc_item item[3];

static void items(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 1500 * MS, .flags = KVC_NO_VERIFY};
	(void)arg;
	for (unsigned i = 0; i < 3; i++)
		item[i] =
			(struct kvc_item){.key = two.key[i == 0][0].key, .data = two.memory + i * VALUE, .len = VALUE};
	kvc_get_batch_await(c, item, 3, &call);
}

/* A reply of server 1: its provider failed after some writes. It is sealed with the keys that client and server have:
 * the simulated control connection is plain, and they are made of its token. */
static void forge_failure(struct kvc_client *c, void *arg)
{
	const struct kc_attachment *s = c->node[1].attachment;
	struct wire_frame frame = {.session = s->number, .mark = 1};
	uint8_t secret[BOOT_FRAME_SECRET] = {0};
	struct kv_macs macs = {0};
	struct kv_seal seal;
	uint64_t seen;
	const struct kc_link *link = NULL;
	struct wire_reply r = {.type = WIRE_GET, .status = WIRE_FABRIC, .get.posted = 2};
	struct wire_writer w;
	uint8_t buf[KV_MSG_MAX];
	uint32_t len;
	(void)arg;
	for (uint32_t i = 0; i < s->num_links; i++)
		if (!kv_list_empty(&s->link[i].sent))
			link = &s->link[i];
	if (!link) {
		world_wrong(&world, "no request is out");
		return;
	}
	r.id = KV_LIST_ENTRY(link->sent.next, const struct kc_req, node)->id;
	frame.shard = (uint8_t)link->shard;
	frame.link = (uint8_t)link->index;
	memcpy(secret, s->token, KV_TOKEN_LEN);
	if (boot_frame_macs(secret, s->number, link->shard, true, &macs) != 0)
		world_wrong(&world, "no keys");
	kv_seal_init(&seal, &macs, link->index, &seen, 64);
	seal.next = link->seal.seen.top; /* the server has not come so far */
	wire_frame_begin(&w, buf, sizeof(buf), &frame);
	if (wire_reply_add(&w, &r) != 0)
		world_wrong(&world, "a reply does not encode");
	len = wire_frame_end(&w);
	if (wire_seal(&seal, buf, len) != 0)
		world_wrong(&world, "no seal");
	kv_macs_fini(&macs);
	kc_client_message(c, 0, buf, len);
}

static void items_begin(uint64_t seed)
{
	/* One credit: of two requests to a shard the second is not sent yet. */
	struct world_options wo = {.seed = seed, .servers = 2, .clients = 1, .credits = 1};
	memset(&two, 0, sizeof(two));
	two.memory = aligned_alloc(4096, kv_align_up((size_t)3 * VALUE, 4096));
	memset(two.memory, 0xEE, (size_t)3 * VALUE);
	world_open(&world, &wo);
	world_do(&world, 0, two_begin, NULL);
}

/* What is lost of one item is waited for at most as long as the grace, and the others have their time all the same. */
static void an_item_that_fails_leaves_the_others_their_time(void **state)
{
	(void)state;
	items_begin(70);
	trouble_begin(FABRIC_CUT, true);
	world_server_freeze(&world, 0, true);
	world_worker(&world, 0, 0, items, NULL);
	world_sleep(&world, 5 * MS);
	world_worker(&world, 0, 0, forge_failure, NULL);
	world_sleep(&world, 500 * MS);
	world_server_freeze(&world, 0, false);
	world_join(&world, 3 * SECOND);
	assert_int_equal(item[0].result, -KV_ETIMEOUT);
	assert_int_equal(item[1].result, VALUE);
	assert_int_equal(item[2].result, VALUE);
	world_server_crash(&world, 1, false);
	world_close(&world);
	free(two.memory);
}

/* As kvc_register does it, in the middle of a call. */
static void memory_add(struct kvc_client *c, void *arg)
{
	c->mems.at[c->mems.count++] = arg;
}

static void memory_remove(struct kvc_client *c, void *arg)
{
	(void)arg;
	c->mems.count--;
}

/* What a request was begun with is what its bytes are taken from. */
static void memory_may_be_registered_under_a_batch_that_reads_into_it(void **state)
{
	struct kc_client_mem mem = {.id = 77, .slot = 1, .ready = true};
	(void)state;
	items_begin(71);
	mem.base = two.memory;
	mem.len_bytes = 3 * VALUE;
	world_server_freeze(&world, 0, true);
	world_server_freeze(&world, 1, true);
	world_worker(&world, 0, 0, items, NULL);
	world_sleep(&world, 5 * MS);
	world_worker(&world, 0, 0, memory_add, &mem);
	world_sleep(&world, MS);
	world_server_freeze(&world, 0, false);
	world_server_freeze(&world, 1, false);
	world_join(&world, 3 * SECOND);
	world_do(&world, 0, memory_remove, NULL);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(item[i].result, VALUE);
		for (unsigned k = 0; k < VALUE; k++)
			assert_int_equal(((uint8_t *)item[i].data)[k], 0);
	}
	assert_int_equal(mem.users, 0);
	world_close(&world);
	free(two.memory);
}

/* ---- room ---- */

enum { BUFFER = 4 << 20, BIG = 2 << 20 };

/* What the caller holds himself as a borrowed piece is no reason to keep the guarantees of idle servers from him. */
static void big_beside_a_borrowed_piece(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = SECOND};
	struct kvc_key key = {"big", 3};
	struct kvc_borrowed borrowed;
	uint8_t *memory = calloc(1, BIG);
	int64_t rc;
	(void)arg;
	/* The first GET tells how long values are: the second asks for all of it at once. */
	if (kvc_put_await(c, key, memory, BIG, &call) != 0 || kvc_get_await(c, key, memory, BIG, &call) != BIG ||
	    kvc_borrow_await(c, BUFFER / 4, SECOND, &borrowed) != 0)
		world_wrong(&world, "a value or a borrowed piece is not to be had");
	rc = kvc_get_await(c, key, memory, BIG, &call);
	if (rc != BIG)
		world_wrong(&world, "GET of half of the buffer beside a borrowed piece: %lld", (long long)rc);
	kvc_borrowed_release(c, &borrowed);
	free(memory);
}

static void a_borrowed_piece_and_a_request_share_the_buffer_of_many_servers(void **state)
{
	struct world_options wo = {.seed = 73, .servers = 4, .clients = 1, .buffer_bytes = BUFFER};
	(void)state;
	world_open(&world, &wo);
	world_do(&world, 0, big_beside_a_borrowed_piece, NULL);
	world_close(&world);
}

/* ---- borrowed pieces beside servers that are busy ---- */

static struct {
	struct kvc_borrowed lent[2];
	bool over;
} beside;

static void lend(struct kvc_client *c, void *arg)
{
	(void)arg;
	if (kvc_borrow_await(c, BUFFER / 4, SECOND, &beside.lent[0]) != 0 ||
	    kvc_borrow_await(c, BUFFER / 8, SECOND, &beside.lent[1]) != 0)
		world_wrong(&world, "borrowed pieces are not to be had");
}

static void lent_give(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 2; i++)
		kvc_borrowed_release(c, &beside.lent[i]);
}

static void get_on(struct kvc_client *c, void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	uint8_t *own = malloc(VALUE);
	while (!beside.over)
		if (kvc_get_await(c, two.key[n % 2][n / 2 % 4].key, own, VALUE, NULL) != VALUE)
			world_wrong(&world, "GET failed");
	free(own);
}

static void one_more_borrowed(struct kvc_client *c, void *arg)
{
	struct kvc_borrowed borrowed;
	int rc = kvc_borrow_await(c, BUFFER / 8, SECOND, &borrowed);
	(void)arg;
	if (rc == 0)
		kvc_borrowed_release(c, &borrowed);
	else
		world_wrong(&world, "a borrowed piece beside busy servers: %s", kv_errname(rc));
	beside.over = true;
}

/* Borrowed pieces up to half of the buffer are had beside servers that take all they can: those that are lent do not
 * come back by themselves, so they are no reason to let a server have as much. */
static void a_piece_is_borrowed_beside_busy_servers(void **state)
{
	(void)state;
	for (unsigned seed = 77; seed < 77 + world_seeds(10); seed++) {
		struct world_options wo = {
			.seed = seed, .servers = 2, .clients = 1, .buffer_bytes = BUFFER, .fabric.delay_max_ns = MS};
		memset(&two, 0, sizeof(two));
		beside.over = false;
		world_open(&world, &wo);
		world_do(&world, 0, two_begin, NULL);
		world_do(&world, 0, lend, NULL);
		for (unsigned i = 0; i < WORKERS; i++)
			world_worker(&world, 0, 0, get_on, (void *)(uintptr_t)i);
		world_sleep(&world, 20 * MS);
		world_worker(&world, 0, 0, one_more_borrowed, NULL);
		world_join(&world, 5 * SECOND);
		world_do(&world, 0, lent_give, NULL);
		world_close(&world);
	}
}

static struct kvc_borrowed whole;

static void whole_take(struct kvc_client *c, void *arg)
{
	(void)arg;
	if (kvc_borrow_await(c, BUFFER, SECOND, &whole) != 0)
		world_wrong(&world, "the buffer is not to be had");
}

static void whole_give(struct kvc_client *c, void *arg)
{
	(void)arg;
	kvc_borrowed_release(c, &whole);
}

static void exists_on_both(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 10 * SECOND, .flags = KVC_DOWN_IS_MISS};
	struct kvc_key keys[] = {two.key[0][0].key, two.key[1][0].key, two.key[0][1].key};
	uint8_t found[3] = {7, 7, 7};
	unsigned prefix = 7;
	(void)arg;
	int rc = kvc_exists_await(c, keys, 3, found, &prefix, &call);
	if (rc != 0 || found[0] != 1 || found[1] != 0 || found[2] != 1 || prefix != 1)
		world_wrong(&world, "EXISTS: %s, %u %u %u, prefix %u", kv_errname(rc), found[0], found[1], found[2],
			    prefix);
}

static void keys_of_a_server_that_goes_down_during_exists_are_misses(void **state)
{
	struct world_options wo = {.seed = 74, .servers = 2, .clients = 1, .buffer_bytes = BUFFER};
	struct kvc_info info = {.size = sizeof(info)};
	(void)state;
	memset(&two, 0, sizeof(two));
	world_open(&world, &wo);
	world_do(&world, 0, two_begin, NULL);
	world_do(&world, 0, whole_take, NULL);
	world_worker(&world, 0, 0, exists_on_both, NULL);
	world_sleep(&world, 5 * MS);
	assert_int_equal(kvc_info(world.pool[0].pool, &info), 0);
	assert_int_equal(info.links, 2 * WORLD_SHARDS);
	world_server_crash(&world, 1, false);
	world_sleep(&world, 5 * MS);
	assert_int_equal(kvc_info(world.pool[0].pool, &info), 0);
	assert_int_equal(info.links, WORLD_SHARDS); /* of sessions that there are */
	world_worker(&world, 0, 0, whole_give, NULL);
	world_join(&world, 3 * SECOND);
	world_close(&world);
}

/* A batch over two servers, the first of which is stopped: items of several ranges, and the stopped one's first. */
static void batch_of_two(struct kvc_client *c, void *arg)
{
	enum { LEN = 3 << 20, N = 6 };
	bool put = arg != NULL;
	uint8_t *memory = calloc(N, LEN);
	struct kvc_item its[N];
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 1500 * MS};
	uint64_t begun = world_now(&world);
	int rc;
	for (unsigned i = 0; i < N; i++)
		its[i] = (struct kvc_item){
			.key = two.key[i % 2 ? 0 : 1][i / 2].key, .data = memory + i * LEN, .len = LEN};
	rc = put ? kvc_put_batch_await(c, its, N, &call) : kvc_get_batch_await(c, its, N, &call);
	if (rc != -KV_ETIMEOUT || world_now(&world) - begun > call.timeout_ns + WORLD_GRACE + MS)
		world_wrong(&world, "a batch over a stopped server ended with %s after %.3f s", kv_errname(rc),
			    (double)(world_now(&world) - begun) / 1e9);
	for (unsigned i = 0; i < N; i++) {
		int64_t want = i % 2 == 0 ? -KV_ETIMEOUT : put ? 0 : LEN;
		if (its[i].result != want)
			world_wrong(&world, "item %u of a %s batch: %lld, not %lld", i, put ? "PUT" : "GET",
				    (long long)its[i].result, (long long)want);
	}
	free(memory);
}

static void long_values(struct kvc_client *c, void *arg)
{
	uint8_t *value = calloc(1, 3 << 20);
	for (unsigned s = 0; s < 2; s++)
		for (unsigned i = 0; i < 4; i++)
			if (kvc_put_await(c, two.key[s][i].key, value, 3 << 20, NULL) != 0)
				world_wrong(&world, "a value could not be stored");
	free(value);
	(void)arg;
}

static void items_of_a_stopped_server_stand_in_nobodys_way(void **state)
{
	struct world_options wo = {.seed = 61, .servers = 2, .clients = 1, .buffer_bytes = 4 << 20};
	(void)state;
	memset(&two, 0, sizeof(two));
	world_open(&world, &wo);
	world_do(&world, 0, two_find, NULL);
	world_do(&world, 0, long_values, NULL);
	world_server_freeze(&world, 1, true);
	world_do(&world, 0, batch_of_two, NULL);
	world_server_freeze(&world, 1, false);
	world_sleep(&world, 5 * SECOND);
	world_server_freeze(&world, 1, true);
	world_do(&world, 0, batch_of_two, &two);
	world_server_freeze(&world, 1, false);
	world_close(&world);
}

/* ---- many servers ---- */

enum { MANY = 8, LONG = 1 << 20, STUCK = 5 /* the server that is stopped */ };

static struct many {
	char text[MANY][32];
	struct kvc_key key[MANY]; /* one on each server */
	uint8_t *memory;          /* LONG bytes for each */
	int64_t result[MANY + 2];
	int rc;
	unsigned out; /* calls that have not returned */
} many;

static void many_begin(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned i = 0, have = 0; have < MANY; i++) {
		char text[32];
		struct kvc_key key = {text, (size_t)snprintf(text, sizeof(text), "many/%u", i)};
		unsigned s = route_owner(c, key)->index;
		if (many.key[s].data)
			continue;
		memcpy(many.text[s], text, sizeof(text));
		many.key[s] = (struct kvc_key){many.text[s], key.len};
		memset(many.memory + s * LONG, (int)s + 1, LONG);
		if (kvc_put_await(c, many.key[s], many.memory + s * LONG, LONG, NULL) != 0)
			world_wrong(&world, "a value could not be stored");
		have++;
	}
	memset(many.memory, 0, (size_t)MANY * LONG);
}

static void many_open(const struct world_options *wo)
{
	memset(&many, 0, sizeof(many));
	many.memory = aligned_alloc(4096, (size_t)MANY * LONG);
	world_open(&world, wo);
	world_do(&world, 0, many_begin, NULL);
}

static void held_get(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 5 * SECOND};
	uint8_t *own = malloc(LONG);
	many.out++;
	kvc_get_await(c, many.key[STUCK], arg ? arg : own, LONG, &call);
	many.out--;
	free(own);
}

static void others_get(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = SECOND};
	(void)arg;
	for (unsigned s = 0; s < MANY; s++)
		if (s != STUCK)
			many.result[s] = kvc_get_await(c, many.key[s], many.memory + s * LONG, LONG, &call);
}

/* Many calls to a server that is stopped take all that it may have; each of the others has its part of the rest, and
 * ranges are planned to need no more: pieces of library memory, immediates of the caller's. */
static void stuck_calls_leave_others_enough(bool reg)
{
	struct world_options wo = {.seed = 62 + reg,
				   .servers = MANY,
				   .clients = 1,
				   .buffer_bytes = BUFFER,
				   .chunk_bytes = reg ? 4096 : 0,
				   .peer_timeout_ns = 60 * SECOND};
	struct kvc_mem *mem = NULL;
	many_open(&wo);
	assert_int_equal(kc_room_piece(kc_pool_client(world.pool[0].pool, 0)), BUFFER / 32);
	if (reg)
		assert_int_equal(world_register(&world, 0, many.memory, (size_t)MANY * LONG, &mem), 0);
	world_server_freeze(&world, STUCK, true);
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&world, 0, 0, held_get, reg ? many.memory + STUCK * LONG : NULL);
	world_sleep(&world, 100 * MS);
	world_worker(&world, 0, 0, others_get, NULL);
	world_sleep(&world, SECOND);
	assert_int_equal(many.out, WORKERS);
	for (unsigned s = 0; s < MANY; s++) {
		if (s == STUCK)
			continue;
		assert_int_equal(many.result[s], LONG);
		assert_int_equal(many.memory[s * LONG], s + 1);
		assert_int_equal(many.memory[s * LONG + LONG - 1], s + 1);
	}
	world_join(&world, 10 * SECOND);
	world_server_freeze(&world, STUCK, false);
	if (reg)
		assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	world_close(&world);
	free(many.memory);
}

static void calls_that_are_stuck_leave_the_other_servers_enough(void **state)
{
	(void)state;
	stuck_calls_leave_others_enough(false);
	stuck_calls_leave_others_enough(true);
}

/* Pieces are powers of two. */
static void ranges_are_planned_with_a_quarter_of_a_part(void **state)
{
	static const struct {
		unsigned servers;
		uint64_t buffer_bytes, piece_bytes;
	} row[] = {{1, 4 << 20, 2 << 20}, {2, 4 << 20, 1 << 20}, {3, 4 << 20, 512 << 10}, {7, 1 << 20, 32 << 10}};
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct world_options wo = {
			.seed = 64, .servers = row[i].servers, .clients = 1, .buffer_bytes = row[i].buffer_bytes};
		world_open(&world, &wo);
		assert_int_equal(kc_room_piece(kc_pool_client(world.pool[0].pool, 0)), row[i].piece_bytes);
		world_close(&world);
	}
}

/* A batch over all servers, a key twice, and one that is none. */
static void many_batch(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 20 * SECOND};
	struct kvc_item its[MANY + 2];
	uint8_t *twice = malloc((size_t)2 * LONG);
	uint32_t parts = c->batches.parts;
	if (arg)
		c->batches.parts = c->batches.parts_max;
	for (unsigned i = 0; i < MANY; i++)
		its[i] = (struct kvc_item){.key = many.key[i], .data = many.memory + i * LONG, .len = LONG};
	its[MANY] = (struct kvc_item){.key = many.key[3], .data = twice, .len = LONG};
	its[MANY + 1] = (struct kvc_item){.key = {"", 0}, .data = twice + LONG, .len = LONG};
	many.rc = kvc_get_batch_await(c, its, MANY + 2, &call);
	for (unsigned i = 0; i < MANY + 2; i++)
		many.result[i] = its[i].result;
	if (c->batches.parts != (arg ? c->batches.parts_max : parts))
		world_wrong(&world, "%u parts are left", c->batches.parts);
	if (arg)
		c->batches.parts = parts;
	if (its[MANY].result == LONG && (twice[0] != 4 || twice[LONG - 1] != 4))
		world_wrong(&world, "the second item of a key has other bytes");
	free(twice);
}

static void a_batch_gets_all_items_of_many_servers(void **state)
{
	struct world_options wo = {.seed = 65, .servers = MANY, .clients = 1, .buffer_bytes = 1 << 20};
	(void)state;
	many_open(&wo);
	/* With a coroutine for each server, and with none at all. */
	for (unsigned without = 0; without < 2; without++) {
		memset(many.memory, 0, (size_t)MANY * LONG);
		world_do(&world, 0, many_batch, without ? &many : NULL);
		assert_int_equal(many.rc, -KV_EINVAL);
		for (unsigned i = 0; i <= MANY; i++)
			assert_int_equal(many.result[i], LONG);
		assert_int_equal(many.result[MANY + 1], -KV_EINVAL);
		for (size_t i = 0; i < (size_t)MANY * LONG; i++)
			assert_int_equal(many.memory[i], i / LONG + 1);
		world_rest_check(&world);
	}
	world_close(&world);
	free(many.memory);
}

static bool pool_stopped(void *arg)
{
	return kc_pool_stopped(arg);
}

/* Parts are on the stack of the call: it outlives them, when the pool closes under it, too. */
static void a_batch_returns_after_all_its_parts(void **state)
{
	struct world_options wo = {
		.seed = 66, .servers = MANY, .clients = 1, .buffer_bytes = BUFFER, .peer_timeout_ns = 60 * SECOND};
	uint64_t begun;
	(void)state;
	many_open(&wo);
	for (unsigned s = 2; s < MANY; s++)
		world_server_freeze(&world, s, true);
	world_worker(&world, 0, 0, many_batch, NULL);
	world_sleep(&world, SECOND);
	begun = world_now(&world);
	assert_int_equal(kc_pool_client(world.pool[0].pool, 0)->batches.parts, MANY - 2);
	kc_pool_stop(world.pool[0].pool);
	world_join(&world, SECOND);
	assert_in_range(world_now(&world) - begun, 0, WORLD_GRACE + MS);
	for (unsigned s = 0; s < MANY; s++)
		assert_int_equal(many.result[s], s < 2 ? LONG : -KV_ECLOSED);
	for (unsigned s = 2; s < MANY; s++)
		world_server_freeze(&world, s, false);
	world_run(&world, pool_stopped, world.pool[0].pool, 2 * SECOND, "the pool did not close");
	kc_pool_free(&world.pool[0].pool);
	world_close(&world);
	free(many.memory);
}

/* ---- noticing ---- */

static struct kc_node *node_of(unsigned client, unsigned server)
{
	return &kc_pool_client(world.pool[0].pool, client)->node[server];
}

/* Virtual time until the node is in another state than `state`, in steps of a millisecond. */
static uint64_t state_lasts(const struct kc_node *n, enum kc_node_state state, uint64_t at_most_ns)
{
	uint64_t begun = world_now(&world);
	while (n->state == state && world_now(&world) - begun < at_most_ns)
		world_sleep(&world, MS);
	return world_now(&world) - begun;
}

static void ping_is_down(struct kvc_client *c, void *arg)
{
	uint64_t begun = world_now(&world);
	int rc = kvc_ping_await(c, NULL);
	(void)arg;
	if (rc != -KV_EPEERDOWN || world_now(&world) != begun)
		world_wrong(&world, "a call of a server that is down: %d after %.3f s", rc,
			    (double)(world_now(&world) - begun) / 1e9);
}

static void ping_is_up(struct kvc_client *c, void *arg)
{
	int rc = kvc_ping_await(c, NULL);
	(void)arg;
	if (rc != 0)
		world_wrong(&world, "a call of a server that is up again: %d", rc);
}

/* A server that is stopped is down `limit` after it was heard last: that was at most a heartbeat before it was stopped,
 * and the last one may still arrive. */
static void noticed_after(uint64_t seed, uint64_t peer_timeout_ns, uint32_t heartbeat_ms, uint64_t limit_ns)
{
	struct world_options wo = {
		.seed = seed, .clients = 1, .peer_timeout_ns = peer_timeout_ns, .heartbeat_ms = heartbeat_ms};
	uint64_t beat = (heartbeat_ms ? heartbeat_ms : 500) * MS, took;
	world_open(&world, &wo);
	world_sleep(&world, 3 * beat + kv_prng_below(&world.prng, 2 * beat));
	world_server_freeze(&world, 0, true);
	took = state_lasts(node_of(0, 0), KC_NODE_UP, 100 * SECOND);
	assert_in_range(took, limit_ns - beat - 2 * MS, limit_ns + 2 * MS);
	assert_int_equal(node_of(0, 0)->state, KC_NODE_DOWN);
	world_do(&world, 0, ping_is_down, NULL);
	world_server_freeze(&world, 0, false);
	world_sleep(&world, 3 * SECOND);
	world_do(&world, 0, ping_is_up, NULL);
	world_close(&world);
}

static void a_stopped_server_is_down_within_two_seconds(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= world_seeds(20); seed++)
		noticed_after(seed, 0, 0, 2 * SECOND);
}

static void the_limit_of_silence_is_an_option(void **state)
{
	(void)state;
	noticed_after(31, 600 * MS, 100, 600 * MS);
	noticed_after(32, 5 * SECOND, 0, 5 * SECOND);
	noticed_after(33, SECOND, 2000, 4 * SECOND); /* two heartbeats at least */
}

/* A client that was stopped itself finds the heartbeats that came meanwhile, and blames nobody. */
static void a_client_that_was_stopped_keeps_its_session(void **state)
{
	struct world_options wo = {.seed = 34, .clients = 1};
	(void)state;
	world_open(&world, &wo);
	world_sleep(&world, 3 * SECOND);
	sim_loop_freeze(world.pool[0].loop[0], true);
	world_sleep(&world, 30 * SECOND);
	sim_loop_freeze(world.pool[0].loop[0], false);
	world_sleep(&world, 5 * SECOND);
	assert_int_equal(node_of(0, 0)->state, KC_NODE_UP);
	assert_int_equal(world_counters(&world, 0).reattaches, 0);
	world_close(&world);
}

/* ---- a link that is silent while the control connection and the shard go on ---- */

static bool probed(const struct kc_node *n)
{
	for (uint32_t i = 0; n->attachment && i < n->attachment->num_links; i++)
		if (n->attachment->link[i].probe.req)
			return true;
	return false;
}

static void stuck_get(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 30 * SECOND};
	uint8_t *memory = malloc(1 << 20);
	int64_t rc = kvc_get_await(c, (struct kvc_key){"key", 3}, memory, 1 << 20, &call);
	if (rc != -KV_EPEERDOWN && rc != -KV_ENOTFOUND)
		world_wrong(&world, "a call over a silent link: %lld", (long long)rc);
	free(memory);
	(void)arg;
}

/* workers: so many that the room is used up and others wait for it; the PING goes out all the same. */
static void a_silent_link(unsigned workers)
{
	struct world_options wo = {
		.seed = 35 + workers, .clients = 1, .buffer_bytes = 4 << 20, .connect_timeout_ns = SECOND};
	const struct world_server *s = &world.server[0];
	const struct kc_node *n;
	uint64_t begun, asked = 0;
	world_open(&world, &wo);
	n = node_of(0, 0);
	world_sleep(&world, SECOND);
	world_unplug(&world, s->fab_first, s->fab_end, true);
	for (unsigned i = 0; i < workers; i++)
		world_worker(&world, 0, 0, stuck_get, NULL);
	begun = world_now(&world);
	while (n->state == KC_NODE_UP && world_now(&world) - begun < 60 * SECOND) {
		world_sleep(&world, MS);
		asked = asked || !probed(n) ? asked : world_now(&world) - begun;
	}
	/* Asked at the first beat after 2 s of silence, given up at the first one 2 s after that. */
	assert_in_range(asked, 2 * SECOND, 2500 * MS + 2 * MS);
	assert_in_range(world_now(&world) - begun, asked + 2 * SECOND - MS, asked + 2500 * MS + 2 * MS);
	/* The client connects anew, over new links, and those are silent, too. */
	assert_int_equal(n->state, KC_NODE_CONNECTING);
	world_join(&world, 5 * SECOND);
	world_do(&world, 0, ping_is_down, NULL);
	world_unplug(&world, s->fab_first, s->fab_end, false);
	world_sleep(&world, 3 * SECOND);
	world_do(&world, 0, ping_is_up, NULL);
	assert_int_equal(world_counters(&world, 0).reattaches, 1);
	assert_int_equal(world_counters(&world, 0).reconnects,
			 1); /* the first attempt was on the connection that was there */
	world_close(&world);
}

static void a_silent_link_is_asked_and_then_connected_anew(void **state)
{
	(void)state;
	a_silent_link(1);
	a_silent_link(40);
}

/* Its own loop got no processor for long, once before it asked after the link and once after that. What says that the
 * server is well lies in its sockets. */
static void a_client_that_stood_still_blames_nobody(void **state)
{
	struct world_options wo = {.seed = 62, .clients = 1};
	const struct world_server *s = &world.server[0];
	struct loop *loop;
	(void)state;
	for (unsigned asked = 0; asked < 2; asked++) {
		world_open(&world, &wo);
		loop = world.pool[0].loop[0];
		world_sleep(&world, SECOND);
		world_unplug(&world, s->fab_first, s->fab_end, true);
		world_worker(&world, 0, 0, stuck_get, NULL);
		world_sleep(&world, 5 * MS);
		while (asked && !probed(node_of(0, 0)))
			world_sleep(&world, MS);
		sim_loop_freeze(loop, true);
		world_sleep(&world, 20 * SECOND);
		sim_loop_freeze(loop, false);
		world_sleep(&world, 100 * MS);
		world_unplug(&world, s->fab_first, s->fab_end, false);
		world_join(&world, 5 * SECOND);
		assert_int_equal(world_counters(&world, 0).reattaches, 0);
		assert_int_equal(world_counters(&world, 0).reconnects, 0);
		world_close(&world);
	}
}

/* ---- a reply that the fabric loses ---- */

static void touch_nothing(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 10 * SECOND};
	uint64_t begun = world_now(&world);
	int rc = kvc_touch_await(c, (struct kvc_key){"nothing", 7}, &call);
	if (rc != -KV_ENOTFOUND)
		world_wrong(&world, "a call whose reply was lost ended with %s", kv_errname(rc));
	*(uint64_t *)arg = world_now(&world) - begun;
}

/* The server is told by its provider, and tells the client, which goes on in a new session long before the deadline. */
static void a_reply_that_fails_is_not_waited_for(void **state)
{
	struct world_options wo = {.seed = 61, .clients = 1};
	struct sim_fabric_stats stats;
	uint64_t took = 0;
	(void)state;
	world_open(&world, &wo);
	world_sleep(&world, SECOND);
	world_server_freeze(&world, 0, true);
	world_worker(&world, 0, 0, touch_nothing, &took);
	world_sleep(&world, 5 * MS);
	sim_fabric_options()->fail_ppm = 1000000;
	world_server_freeze(&world, 0, false);
	for (sim_fabric_stats(&stats); stats.failures == 0; sim_fabric_stats(&stats))
		world_sleep(&world, MS / 10);
	sim_fabric_options()->fail_ppm = 0;
	world_join(&world, 11 * SECOND);
	assert_in_range(took, 5 * MS, SECOND);
	assert_int_equal(world_counters(&world, 0).reattaches, 1);
	assert_int_equal(world_counters(&world, 0).reconnects, 0);
	world_close(&world);
}

/* ---- a session is made again ---- */

/* Until the client's node has so many sessions. It is never down: calls wait. */
static void made_again(const struct kc_node *n, uint64_t attaches)
{
	uint64_t until = world_now(&world) + SECOND;
	while (n->attaches < attaches && world_now(&world) < until) {
		assert_int_not_equal(n->state, KC_NODE_DOWN);
		world_sleep(&world, 10 * US);
	}
	assert_int_equal(n->attaches, attaches);
}

/* On the connection that is there, and within a few round trips. */
static void a_redo_keeps_the_connection(void **state)
{
	struct world_options wo = {.seed = 41, .clients = 1};
	struct kc_node *n;
	uint64_t begun;
	(void)state;
	world_open(&world, &wo);
	world_sleep(&world, SECOND);
	n = &world.pool[0].pool->client[0]->node[0];
	begun = world_now(&world);
	kc_node_redo(n, "the test wants it");
	made_again(n, 2);
	assert_true(world_now(&world) - begun < 10 * MS);
	world_do(&world, 0, ping_is_up, NULL);
	assert_int_equal(n->own->connects, 1);
	assert_int_equal(world_counters(&world, 0).reattaches, 1);
	assert_int_equal(world_counters(&world, 0).reconnects, 0);
	world_close(&world);
}

/* The connection breaks when HELLO is to be said again on it, while that or WELCOME is on its way, or while regions are
 * announced: another one is made. */
static void a_redo_whose_connection_breaks_dials(void **state)
{
	unsigned broken = 0;
	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		struct world_options wo = {.seed = 42 + i, .clients = 1};
		struct kc_node *n;
		world_open(&world, &wo);
		world_sleep(&world, SECOND);
		n = &world.pool[0].pool->client[0]->node[0];
		kc_node_redo(n, "the test wants it");
		world_sleep(&world, i * 20 * US);
		if (n->attaches == 1) {
			sim_port_kill(world.sim, world.server[0].port);
			made_again(n, 2); /* perhaps before it hears of it */
			broken += n->own->connects == 2;
			world_sleep(&world, SECOND);
			assert_int_equal(n->own->connects, 2);
			world_do(&world, 0, ping_is_up, NULL);
		}
		world_close(&world);
	}
	assert_true(broken >= 20);
}

/* A control connection that is the trouble itself is given up. */
static void a_redial_makes_another_connection(void **state)
{
	struct world_options wo = {.seed = 43, .clients = 1};
	struct kc_node *n;
	(void)state;
	world_open(&world, &wo);
	world_sleep(&world, SECOND);
	n = &world.pool[0].pool->client[0]->node[0];
	kc_node_redial(n, "the test wants it");
	made_again(n, 2);
	world_do(&world, 0, ping_is_up, NULL);
	assert_int_equal(n->own->connects, 2);
	assert_int_equal(world_counters(&world, 0).reconnects, 1);
	world_close(&world);
}

/* ---- coming back ---- */

/* ---- more workers than a server on this host needs ---- */

enum { CROWD = 200, CROWD_LEN = 64 << 10 };

static struct {
	uint8_t memory[CROWD][CROWD_LEN];
	unsigned got;
} crowd;

static void crowd_put(struct kvc_client *c, void *arg)
{
	(void)arg;
	memset(crowd.memory[0], 7, CROWD_LEN);
	if (kvc_put_await(c, (struct kvc_key){"crowd", 5}, crowd.memory[0], CROWD_LEN, NULL) != 0)
		world_wrong(&world, "a value could not be stored");
}

static void crowd_get(struct kvc_client *c, void *arg)
{
	unsigned i = (unsigned)((uint8_t(*)[CROWD_LEN])arg - crowd.memory);
	if (kvc_get_await(c, (struct kvc_key){"crowd", 5}, arg, CROWD_LEN, NULL) != CROWD_LEN)
		world_wrong(&world, "GET %u failed", i);
	crowd.got++;
}

/* It needs no piece, so it never queues behind a call that does. */
static void crowd_touch(struct kvc_client *c, void *arg)
{
	(void)arg;
	if (kvc_touch_await(c, (struct kvc_key){"crowd", 5}, NULL) != 0)
		world_wrong(&world, "TOUCH failed");
}

static void pieces_of_a_server_on_this_host_are_few_however_many_workers(void **state)
{
	struct world_options wo = {.seed = 71, .clients = 1, .fabric.delay_max_ns = MS};
	struct kvc_client *c;
	uint64_t max;
	(void)state;
	memset(&crowd, 0, sizeof(crowd));
	world_open(&world, &wo);
	c = kc_pool_client(world.pool[0].pool, 0);
	max = c->node[0].attachment->out_max;
	assert_int_equal(max, c->node[0].attachment->num_links * (uint64_t)KC_LINK_OUT);
	world_do(&world, 0, crowd_put, NULL);
	world_server_freeze(&world, 0, true);
	for (unsigned i = 0; i < CROWD; i++)
		world_worker(&world, 0, 0, crowd_get, crowd.memory[i]);
	world_sleep(&world, 10 * MS);
	assert_int_equal(c->node[0].share.bytes, max);
	assert_int_equal(c->requests->room.num_starving, CROWD - max / CROWD_LEN);
	assert_int_equal(c->node[0].share.waiting, c->requests->room.num_starving);
	world_worker(&world, 0, 0, crowd_touch, NULL);
	world_sleep(&world, MS);
	assert_int_equal(c->requests->room.num_starving, CROWD - max / CROWD_LEN);
	world_server_freeze(&world, 0, false);
	while (crowd.got < CROWD) {
		world_sleep(&world, MS / 2);
		assert_true(c->node[0].share.bytes <= max);
	}
	world_join(&world, SECOND);
	assert_int_equal(c->requests->room.num_starving + c->node[0].share.waiting, 0);
	for (unsigned i = 0; i < CROWD; i++)
		assert_true(crowd.memory[i][0] == 7 && crowd.memory[i][CROWD_LEN - 1] == 7);
	world_close(&world);
}

/* ---- a piece beyond the limit, beside calls that need none ---- */

enum { TOUCHERS = 8, WIDE = 4 << 20 };

static struct {
	uint8_t *memory;
	bool over;
} wide;

static void touch_on(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (!wide.over)
		if (kvc_touch_await(c, (struct kvc_key){"crowd", 5}, NULL) != 0)
			world_wrong(&world, "TOUCH failed");
}

static void wide_put(struct kvc_client *c, void *arg)
{
	(void)arg;
	crowd_put(c, NULL);
	if (kvc_put_await(c, (struct kvc_key){"wide", 4}, wide.memory, WIDE, NULL) != 0)
		world_wrong(&world, "a value could not be stored");
}

static void wide_get(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = SECOND};
	int64_t rc = kvc_get_await(c, (struct kvc_key){"wide", 4}, wide.memory, WIDE, &call);
	(void)arg;
	if (rc != WIDE)
		world_wrong(&world, "GET of more than the limit: %s", kv_errname((int)rc));
	wide.over = true;
}

/* There may be any number of requests without a piece: they keep a piece from no other request. */
static void a_large_piece_is_had_beside_calls_without_one(void **state)
{
	struct world_options wo = {.seed = 75, .clients = 1, .fabric.delay_max_ns = MS};
	struct kvc_client *c;
	(void)state;
	wide.memory = calloc(1, WIDE);
	wide.over = false;
	world_open(&world, &wo);
	c = kc_pool_client(world.pool[0].pool, 0);
	assert_true(c->node[0].attachment->out_max < WIDE && kc_room_piece(c) >= WIDE);
	world_do(&world, 0, wide_put, NULL);
	for (unsigned i = 0; i < TOUCHERS; i++)
		world_worker(&world, 0, 0, touch_on, NULL);
	world_sleep(&world, 10 * MS);
	world_worker(&world, 0, 0, wide_get, NULL);
	world_join(&world, 2 * SECOND);
	world_close(&world);
	free(wide.memory);
}

/* Of large ones a client has two of 4 MiB, or one. More would not fit into a cache. */
static void large_pieces_of_a_server_on_this_host_are_fewer(void **state)
{
	(void)state;
	for (unsigned clients = 1; clients <= 4; clients += 3) {
		struct world_options wo = {.seed = 77, .clients = clients, .fabric.delay_max_ns = MS};
		struct kvc_client *c;
		wide.memory = calloc(1, WIDE);
		world_open(&world, &wo);
		c = kc_pool_client(world.pool[0].pool, 0);
		world_do(&world, 0, wide_put, NULL);
		world_do(&world, 0, wide_get, NULL); /* its next requests are as large */
		world_server_freeze(&world, 0, true);
		for (unsigned i = 0; i < TOUCHERS; i++)
			world_worker(&world, 0, 0, wide_get, NULL);
		world_sleep(&world, 10 * MS);
		assert_int_equal(c->node[0].share.out, clients == 1 ? 2 : 1);
		assert_int_equal(c->node[0].share.out_bytes, (clients == 1 ? 2 : 1) * (uint64_t)WIDE);
		assert_int_equal(c->requests->room.num_starving, TOUCHERS - c->node[0].share.out);
		world_server_freeze(&world, 0, false);
		world_join(&world, 2 * SECOND);
		world_close(&world);
		free(wide.memory);
	}
}

static void given_up(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 20 * MS};
	if (kvc_get_await(c, (struct kvc_key){"crowd", 5}, arg, CROWD_LEN, &call) != -KV_ETIMEOUT)
		world_wrong(&world, "a stopped server answered");
}

static void wide_put_again(struct kvc_client *c, void *arg)
{
	(void)arg;
	if (kvc_put_await(c, (struct kvc_key){"wide2", 5}, wide.memory, WIDE, NULL) != 0)
		world_wrong(&world, "a value could not be stored");
}

/* Nor are those that were given up: they may never come. */
static void a_large_piece_is_had_beside_orphans(void **state)
{
	struct world_options wo = {.seed = 76, .clients = 1, .fabric.delay_max_ns = MS};
	struct kvc_client *c;
	(void)state;
	wide.memory = calloc(1, WIDE);
	world_open(&world, &wo);
	c = kc_pool_client(world.pool[0].pool, 0);
	world_do(&world, 0, wide_put, NULL);
	world_server_freeze(&world, 0, true);
	for (unsigned i = 0; i < TOUCHERS; i++)
		world_worker(&world, 0, 0, given_up, crowd.memory[i]);
	world_sleep(&world, 20 * MS + WORLD_GRACE + MS);
	assert_int_equal(c->requests->unsafe.orphan_bytes, TOUCHERS * CROWD_LEN);
	assert_int_equal(c->node[0].share.bytes, c->requests->unsafe.orphan_bytes);
	assert_int_equal(c->node[0].share.out + c->node[0].share.out_bytes, 0);
	world_worker(&world, 0, 0, wide_put_again, NULL);
	world_sleep(&world, 10 * MS);
	assert_int_equal(c->requests->room.num_starving, 0);
	assert_int_equal(c->node[0].share.out_bytes, WIDE);
	world_server_freeze(&world, 0, false);
	world_join(&world, 2 * SECOND);
	assert_int_equal(c->node[0].share.out + c->node[0].share.out_bytes, 0);
	world_close(&world);
	free(wide.memory);
}

/* The pauses between the attempts of each client to reach a server that refuses: within their bounds, and not those of
 * the others. */
static void pauses_grow_to_a_bound_and_are_nobody_elses(void **state)
{
	enum { TRIES = 9 };
	struct world_options wo = {.seed = 36, .clients = WORLD_CLIENTS};
	uint64_t at[WORLD_CLIENTS][TRIES] = {{0}};
	(void)state;
	world_open(&world, &wo);
	world_sleep(&world, SECOND);
	world_server_crash(&world, 0, false);
	for (unsigned ms = 0; ms < 10000; ms++) {
		world_sleep(&world, MS);
		for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
			unsigned tries = node_of(i, 0)->own->attempt.failures;
			if (tries >= 1 && tries <= TRIES && !at[i][tries - 1])
				at[i][tries - 1] = world_now(&world);
		}
	}
	for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
		for (unsigned k = 1; k < TRIES; k++) {
			uint64_t most = KV_MIN(50 * MS << (k - 1), 500 * MS);
			assert_in_range(at[i][k] - at[i][k - 1], most / 2 - 2 * MS, most + 2 * MS);
		}
		for (unsigned j = 0; j < i; j++)
			assert_true(at[i][TRIES - 1] - at[j][TRIES - 1] + 10 * MS > 20 * MS);
	}
	world_server_again(&world, 0);
	for (unsigned i = 0; i < WORLD_CLIENTS; i++)
		assert_in_range(state_lasts(node_of(i, 0), KC_NODE_DOWN, 10 * SECOND), 0, SECOND);
	world_do(&world, 0, ping_is_up, NULL);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_redo_keeps_the_connection),
		cmocka_unit_test(a_redo_whose_connection_breaks_dials),
		cmocka_unit_test(a_redial_makes_another_connection),
		cmocka_unit_test(pieces_of_a_server_on_this_host_are_few_however_many_workers),
		cmocka_unit_test(a_large_piece_is_had_beside_calls_without_one),
		cmocka_unit_test(a_large_piece_is_had_beside_orphans),
		cmocka_unit_test(large_pieces_of_a_server_on_this_host_are_fewer),
		cmocka_unit_test(a_server_in_trouble_delays_calls_to_another_by_one_fence),
		cmocka_unit_test(messages_to_a_silent_server_leave_send_buffers_to_another),
		cmocka_unit_test(items_of_a_stopped_server_stand_in_nobodys_way),
		cmocka_unit_test(calls_that_are_stuck_leave_the_other_servers_enough),
		cmocka_unit_test(ranges_are_planned_with_a_quarter_of_a_part),
		cmocka_unit_test(a_batch_gets_all_items_of_many_servers),
		cmocka_unit_test(a_batch_returns_after_all_its_parts),
		cmocka_unit_test(an_item_that_fails_leaves_the_others_their_time),
		cmocka_unit_test(memory_may_be_registered_under_a_batch_that_reads_into_it),
		cmocka_unit_test(a_piece_is_borrowed_beside_busy_servers),
		cmocka_unit_test(a_borrowed_piece_and_a_request_share_the_buffer_of_many_servers),
		cmocka_unit_test(keys_of_a_server_that_goes_down_during_exists_are_misses),
		cmocka_unit_test(a_stopped_server_is_down_within_two_seconds),
		cmocka_unit_test(the_limit_of_silence_is_an_option),
		cmocka_unit_test(a_client_that_was_stopped_keeps_its_session),
		cmocka_unit_test(a_silent_link_is_asked_and_then_connected_anew),
		cmocka_unit_test(a_client_that_stood_still_blames_nobody),
		cmocka_unit_test(a_reply_that_fails_is_not_waited_for),
		cmocka_unit_test(pauses_grow_to_a_bound_and_are_nobody_elses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
