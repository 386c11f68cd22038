/* SPDX-License-Identifier: Apache-2.0 */
/* test_push.c -- to whom a server that goes hands over, and what it says of it.
 *
 * The pool, the blocks and the time are the test's own (the linker's --wrap, tests/suites.mk): time passes in sleeps
 * alone, and the view changes between two batches. */
#include "tests/check.h"

#include <string.h>
#include <time.h>

#include "kvclient/copy.h"
#include "kvclient/kvclient.h"
#include "kvserver/server/server.h"
#include "kvserver/push/lot.h"
#include "kvserver/push/push.h"

enum { SERVERS = 4, SHARDS = 2, VALUE = 100, LARGE = 100000000, BORN = 12345 };

#define SECOND 1000000000ull
#define MS     1000000ull

struct fake_server {
	const char *name;   /* NULL: it has left */
	const char *member; /* "": the view does not name it */
	bool up;
	enum kvc_member_state state;
};

static struct {
	uint64_t now_ns, epoch, attaches;
	struct fake_server server[SERVERS]; /* the first one is in the pool's list */
	unsigned lots[SHARDS];              /* with a block each, still to come */
	bool stands_still[SHARDS];
	int64_t result;      /* of each item; 0: it is put */
	int64_t result_old;  /* ... of those of the older half */
	bool old;            /* the blocks are of that */
	bool damaged;        /* their bytes are not those of their checksum */
	bool deleted;        /* a DELETE came here while the block was under way */
	unsigned given_back; /* blocks that the shard is to delete, too */
	unsigned batches, deletes;
	unsigned tries, refused; /* to open the pool; of the first ones so many are refused */
	uint8_t *large;          /* the block's bytes, if it is to be a large one */
	uint64_t timeout_ns;     /* of the last batch */
	void (*on_batch)(void);
	unsigned up_for; /* looks, for which the first server does not drain in the pool's eyes */
} fake;

static uint8_t value[VALUE];
static struct shard *const some_shard = (void *)&fake;

/* ---- time ---- */

static uint64_t fake_now(const struct kv_clock *clock)
{
	(void)clock;
	return fake.now_ns;
}

const struct kv_clock __wrap_kv_clock_monotonic = {.now_ns = fake_now};

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *at, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *at, struct timespec *left)
{
	(void)left;
	assert_int_equal(clock, CLOCK_MONOTONIC);
	assert_int_equal(flags, TIMER_ABSTIME);
	fake.now_ns = KV_MAX(fake.now_ns, (uint64_t)at->tv_sec * SECOND + (uint64_t)at->tv_nsec);
	return 0;
}

/* ---- the pool ---- */

int __wrap_kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err);
int __wrap_kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err)
{
	assert_int_equal(options->num_servers, 1);
	assert_string_equal(options->servers[0], fake.tries++ == 0 ? "a=h:1" : "b=h:2");
	assert_int_equal(options->servers_max, KV_VIEW_MAX);       /* whoever comes has room */
	assert_true(options->base_client_id == KV_CLUSTER_CLIENT); /* and a full server has a place for it */
	if (fake.tries <= fake.refused)
		return kv_fail(err, -KV_ELIMIT, "refusal %u", fake.tries);
	*out = (void *)&fake;
	return 0;
}

void __wrap_kvc_pool_close(struct kvc_pool **pool);
void __wrap_kvc_pool_close(struct kvc_pool **pool)
{
	*pool = NULL;
}

int __wrap_kvc_counters(struct kvc_pool *pool, struct kvc_counters *out);
int __wrap_kvc_counters(struct kvc_pool *pool, struct kvc_counters *out)
{
	(void)pool;
	out->view_epoch = fake.epoch;
	return 0;
}

int __wrap_kvc_server_info(struct kvc_pool *pool, unsigned client, unsigned server, struct kvc_server_info *out);
int __wrap_kvc_server_info(struct kvc_pool *pool, unsigned client, unsigned server, struct kvc_server_info *out)
{
	const struct fake_server *s;
	(void)pool;
	assert_int_equal(client, 0);
	if (server >= SERVERS)
		return -KV_EINVAL;
	s = &fake.server[server];
	if (!s->name)
		return -KV_ENOTFOUND;
	if (server == 0 && fake.up_for && --fake.up_for == 0)
		fake.server[0].state = KVC_MEMBER_DRAINING;
	out->state = s->up ? KVC_SERVER_UP : KVC_SERVER_DOWN;
	out->member_state = s->member[0] ? s->state : KVC_MEMBER_NONE;
	out->weight = s->member[0] ? 1 : 0;
	out->attaches = fake.attaches;
	snprintf(out->name, sizeof(out->name), "%s", s->name);
	snprintf(out->member, sizeof(out->member), "%s", s->member);
	return 0;
}

int __wrap_kc_copy_batch(struct kvc_pool *pool, struct kvc_item *items, const uint64_t *born_ns, unsigned n, bool spare,
			 const struct kvc_call *call);
int __wrap_kc_copy_batch(struct kvc_pool *pool, struct kvc_item *items, const uint64_t *born_ns, unsigned n, bool spare,
			 const struct kvc_call *call)
{
	(void)pool;
	assert_int_equal(spare, fake.old);
	fake.timeout_ns = call->timeout_ns;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(born_ns[i], BORN);
		items[i].result = items[i].len == 0 ? -KV_EINVAL : fake.old ? fake.result_old : fake.result;
	}
	fake.batches++;
	if (fake.on_batch)
		fake.on_batch();
	return 0;
}

int __wrap_kc_delete_at(struct kvc_pool *pool, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call);
int __wrap_kc_delete_at(struct kvc_pool *pool, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call)
{
	(void)pool;
	(void)call;
	assert_memory_equal(key.data, "k", key.len);
	assert_int_equal(time_ns, BORN + 1);
	fake.deletes++;
	return 0;
}

/* ---- the server and its blocks ---- */

void __wrap_kvs_server_info(const struct kvs_server *server, struct kvs_info *out);
void __wrap_kvs_server_info(const struct kvs_server *server, struct kvs_info *out)
{
	(void)server;
	*out = (struct kvs_info){.provider = "tcp"};
}

struct lot *__wrap_lot_new(struct shard *s);
struct lot *__wrap_lot_new(struct shard *s)
{
	struct lot *lot = calloc(1, sizeof(*lot));
	assert_non_null(lot);
	lot->shard = s;
	return lot;
}

/* As the loop does it: what was settled is left no more, and the rest is told of again in the next round. */
static void settle(struct lot *lot, unsigned *lots)
{
	lot->deleted_count = 0;
	for (unsigned i = 0; i < lot->count; i++) {
		enum lot_fate fate = lot->item[i].fate;
		fake.given_back += fate == LOT_OUTDATED;
		lot->gone += fate == LOT_OUTDATED;
		*lots += fate == LOT_UNTRIED || fate >= LOT_FULL ? 1u << 16 : 0;
		if (fate == LOT_PUSHED && fake.deleted)
			lot->deleted[lot->deleted_count++] =
				(struct lot_deleted){.key = "k", .key_len = 1, .time_ns = BORN + 1};
	}
	lot->count = 0;
}

static void lot_fill(struct lot *lot, unsigned *lots)
{
	struct lot_item *it = &lot->item[0];
	if ((*lots & 0xffff) == 0) {
		lot->over = *lots == 0;
		lot->round++;
		*lots >>= 16;
	}
	if (lot->over)
		return;
	lot->count = 1;
	--*lots;
	*it = (struct lot_item){.key = "k",
				.key_len = 1,
				.old = fake.old,
				.data = fake.large ? fake.large : value,
				.len = fake.large ? LARGE : VALUE,
				.born_ns = BORN};
	it->checksum = kv_hash_block(it->data, it->len) + fake.damaged;
}

static int lot_turn(struct lot *lot, uint64_t until_ns, bool end)
{
	unsigned i = lot->shard == some_shard ? 0 : 1, *lots = &fake.lots[i];
	settle(lot, lots);
	if (fake.stands_still[i]) {
		fake.now_ns = until_ns;
		free(lot); /* it is the loop's */
		return -KV_ETIMEOUT;
	}
	if (!end)
		lot_fill(lot, lots);
	lot->left = (*lots & 0xffff) + (*lots >> 16) + lot->count;
	return 0;
}

int __wrap_lot_next_wait(struct lot *lot, uint64_t until_ns);
int __wrap_lot_next_wait(struct lot *lot, uint64_t until_ns)
{
	return lot_turn(lot, until_ns, false);
}

int __wrap_lot_end_wait(struct lot *lot, uint64_t until_ns);
int __wrap_lot_end_wait(struct lot *lot, uint64_t until_ns)
{
	return lot_turn(lot, until_ns, true);
}

void __wrap_lot_free(struct lot *lot);
void __wrap_lot_free(struct lot *lot)
{
	free(lot);
}

/* ---- runs ---- */

/* Servers "a", which drains, and "b"; one block for each shard. */
static void fake_begin(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.now_ns = SECOND;
	fake.epoch = 1;
	fake.server[0] = (struct fake_server){"a=h:1", "a", true, KVC_MEMBER_DRAINING};
	fake.server[1] = (struct fake_server){"b=h:2", "b", true, KVC_MEMBER_UP};
	for (unsigned i = 0; i < SHARDS; i++)
		fake.lots[i] = 1;
}

static int run(uint64_t for_ns, struct kv_drained *out, struct kv_error *err)
{
	static struct kvs_server server;
	struct kv_member member[] = {{.node_id = "a", .address = "h:1"}, {.node_id = "b", .address = "h:2"}};
	const struct kv_view view = {.epoch = 1, .member = member, .count = 2, .room = 2};
	const struct push_options o = {.server = &server,
				       .self = &member[0],
				       .view = &view,
				       .bytes_s = 1 << 30,
				       .until_ns = fake.now_ns + for_ns};
	server.shard[0] = some_shard;
	server.shard[1] = (void *)&server;
	return push_run(&o, out, err);
}

static void assert_all_pushed(unsigned blocks)
{
	struct kv_drained r;
	struct kv_error err;
	assert_int_equal(run(60 * SECOND, &r, &err), 0);
	assert_int_equal(r.values, blocks);
	assert_int_equal(r.of, blocks);
	assert_int_equal(r.bytes, (uint64_t)blocks * (fake.large ? LARGE : VALUE));
}

static void b_is_replaced(void)
{
	if (fake.batches > 1)
		return;
	fake.epoch++;
	fake.server[1] = (struct fake_server){"b=h:2", "", false, KVC_MEMBER_NONE};
	fake.server[3] = (struct fake_server){"c=h:3", "c", true, KVC_MEMBER_JOINING};
}

/* The last of the members that were there at first goes while values are put, and another one comes. */
static void members_that_come_later_get_their_share(void **state)
{
	(void)state;
	fake_begin();
	fake.on_batch = b_is_replaced;
	assert_all_pushed(2);
}

/* A block that was deleted at its new server while it was on the way, or replaced there, goes here as well. */
static void what_others_know_better_is_not_pushed(void **state)
{
	struct kv_drained r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.lots[0] = 40;
	fake.result = -KV_ENOTFOUND;
	assert_int_equal(run(60 * SECOND, &r, &err), 0);
	assert_int_equal(r.values, 0);
	assert_int_equal(r.of, 0);
	assert_int_equal(r.gone, 41);
	assert_int_equal(fake.given_back, 41);
}

static void b_was_away(void)
{
	fake.attaches += fake.batches < 3;
}

/* The only other one is down and up again before anybody looks: the library has put values to this server meanwhile. */
static void what_is_put_while_nobody_is_there_is_put_again(void **state)
{
	(void)state;
	fake_begin();
	fake.on_batch = b_was_away;
	assert_all_pushed(2);
	assert_int_equal(fake.batches, 4); /* the first block three times */
}

static void a_leaves(void)
{
	fake.epoch++;
	fake.server[0] = (struct fake_server){"a=h:1", "", true, KVC_MEMBER_NONE};
}

/* A source that takes a server out as soon as it drains, such as slices of Kubernetes. */
static void a_server_that_is_no_member_any_more_hands_over(void **state)
{
	(void)state;
	fake_begin();
	fake.on_batch = a_leaves;
	assert_all_pushed(2);
}

/* The pool has attached to this server anew, and another view; it does not know of the drain for a moment, and when it
 * does the epoch stays. */
static void a_is_up_again(void)
{
	if (fake.batches > 1)
		return;
	fake.server[0].state = KVC_MEMBER_UP;
	fake.up_for = 3;
	fake.epoch++;
}

static void what_is_put_while_the_drain_is_not_known_is_put_again(void **state)
{
	(void)state;
	fake_begin();
	fake.on_batch = a_is_up_again;
	assert_all_pushed(2);
	assert_int_equal(fake.batches, 3); /* what went to "a" itself was put again */
}

static void a_view_that_stays_without_the_drain_is_an_error(void **state)
{
	struct kv_drained r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.server[0].state = KVC_MEMBER_UP;
	assert_int_equal(run(60 * SECOND, &r, &err), -KV_ETIMEOUT);
	check_contains(err.text, "view of this server");
	fake_begin();
	fake.epoch = 0; /* none at all */
	assert_int_equal(run(60 * SECOND, &r, &err), -KV_ETIMEOUT);
	assert_int_equal(fake.batches, 0);
}

static void nobody_takes_what_is_left(void **state)
{
	struct kv_drained r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.server[1].up = false;
	assert_int_equal(run(60 * SECOND, &r, &err), -KV_EPEERDOWN);
	assert_int_equal(r.of, 2);
	assert_int_equal(r.left[KV_LEFT_UNREACHABLE], 2);
	fake_begin();
	fake.on_batch = a_leaves;
	fake.server[1].state = KVC_MEMBER_DRAINING;
	assert_int_equal(run(60 * SECOND, &r, &err), -KV_EPEERDOWN);
	assert_int_equal(fake.batches, 0);
}

/* The first shard's loop stands still until the time is over: nobody has asked the second one for what it has. */
static void a_shard_that_was_not_asked_has_values_left(void **state)
{
	struct kv_drained r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.stands_still[0] = true;
	assert_int_equal(run(4 * SECOND, &r, &err), 0);
	assert_int_equal(r.values, 0);
	assert_int_equal(r.of, 2);
	assert_int_equal(r.left[KV_LEFT_STUCK], 1);
	assert_int_equal(r.left[KV_LEFT_TIME], 1);
}

/* Put all the lots that there are, and expect that so many are left, for this reason alone. */
static void assert_left(uint64_t for_ns, unsigned put, enum kv_left why, unsigned left)
{
	struct kv_drained r;
	struct kv_error err;
	assert_int_equal(run(for_ns, &r, &err), 0);
	assert_int_equal(r.values, put);
	assert_int_equal(r.left[why], left);
	assert_int_equal(r.of, put + left);
	assert_true(kv_drained_valid(&r));
}

static void one_second(void)
{
	fake.now_ns += SECOND;
}

static void what_the_time_is_not_enough_for_is_counted(void **state)
{
	(void)state;
	fake_begin();
	fake.lots[0] = 7;
	fake.on_batch = one_second;
	assert_left(4 * SECOND, 4, KV_LEFT_TIME, 4);
}

static void each_value_that_fails_has_its_reason(void **state)
{
	(void)state;
	fake_begin();
	fake.result = -KV_ENOMEM;
	assert_left(60 * SECOND, 0, KV_LEFT_FULL, 2);
	fake_begin();
	fake.result = -KV_ETOOBIG;
	assert_left(60 * SECOND, 0, KV_LEFT_TOO_BIG, 2);
	assert_int_equal(fake.batches, 2); /* once each */
	fake_begin();
	fake.result = -KV_ECANCELED;
	assert_left(60 * SECOND, 0, KV_LEFT_REFUSED, 2);
	fake_begin();
	fake.damaged = true;
	assert_left(60 * SECOND, 0, KV_LEFT_DAMAGED, 2);
	fake_begin();
	fake.result = -KV_EPEERDOWN;
	fake.lots[0] = 9;
	assert_left(60 * SECOND, 0, KV_LEFT_UNREACHABLE, 10);
	assert_int_equal(fake.batches, 3);
}

/* The others have no room: that ends it before the rest is sent in vain. */
static void full_servers_end_it_soon(void **state)
{
	(void)state;
	fake_begin();
	fake.old = true;
	fake.result_old = -KV_ENOMEM;
	fake.lots[0] = 1000;
	fake.lots[1] = 0;
	assert_left(3600 * SECOND, 0, KV_LEFT_FULL, 1000);
	assert_int_equal(fake.batches, 64);
}

static void there_is_room_again(void)
{
	if (fake.batches == 40)
		fake.result = 0;
}

/* A value that failed is tried again, when all others were. */
static void what_failed_is_tried_again(void **state)
{
	(void)state;
	fake_begin();
	fake.lots[0] = 50;
	fake.lots[1] = 0;
	fake.result = -KV_ENOMEM;
	fake.on_batch = there_is_room_again;
	assert_all_pushed(50);
	assert_int_equal(fake.batches, 90);
}

/* A client that does not know of the drain has deleted the key here alone. */
static void a_delete_beside_the_push_is_repeated_at_the_others(void **state)
{
	(void)state;
	fake_begin();
	fake.deleted = true;
	assert_all_pushed(2);
	assert_int_equal(fake.deletes, 2);
}

static void without_a_push_the_values_are_counted(void **state)
{
	static struct kvs_server server;
	struct kv_drained r;
	(void)state;
	fake_begin();
	fake.lots[0] = 5;
	server.shard[0] = some_shard;
	server.shard[1] = (void *)&server;
	push_none(&server, KV_LEFT_ALONE, &r);
	assert_int_equal(r.of, 6);
	assert_int_equal(r.left[KV_LEFT_ALONE], 6);
	assert_int_equal(fake.tries, 0);
}

/* It has as many clients as it takes. */
static void a_server_without_room_for_itself_hands_over_by_another(void **state)
{
	struct kv_drained r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.refused = 1;
	assert_all_pushed(2);
	assert_int_equal(fake.tries, 2);
	fake_begin();
	fake.refused = 2;
	assert_int_equal(run(60 * SECOND, &r, &err), -KV_ELIMIT);
	assert_string_equal(err.text, "refusal 1");
	assert_int_equal(fake.tries, 2);
}

/* A value of a gigabyte takes ten seconds on a slow network, and none of them is lost for that. */
static void a_large_value_has_more_time(void **state)
{
	uint64_t small_ns;
	(void)state;
	fake_begin();
	assert_all_pushed(2);
	small_ns = fake.timeout_ns;
	fake_begin();
	fake.large = calloc(1, LARGE);
	assert_non_null(fake.large);
	fake.lots[1] = 0;
	assert_all_pushed(1);
	assert_in_range(fake.timeout_ns, small_ns + SECOND - MS, small_ns + SECOND);
	free(fake.large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_that_come_later_get_their_share),
		cmocka_unit_test(what_others_know_better_is_not_pushed),
		cmocka_unit_test(what_is_put_while_nobody_is_there_is_put_again),
		cmocka_unit_test(a_server_that_is_no_member_any_more_hands_over),
		cmocka_unit_test(what_is_put_while_the_drain_is_not_known_is_put_again),
		cmocka_unit_test(a_view_that_stays_without_the_drain_is_an_error),
		cmocka_unit_test(nobody_takes_what_is_left),
		cmocka_unit_test(a_shard_that_was_not_asked_has_values_left),
		cmocka_unit_test(a_server_without_room_for_itself_hands_over_by_another),
		cmocka_unit_test(a_large_value_has_more_time),
		cmocka_unit_test(what_the_time_is_not_enough_for_is_counted),
		cmocka_unit_test(each_value_that_fails_has_its_reason),
		cmocka_unit_test(full_servers_end_it_soon),
		cmocka_unit_test(what_failed_is_tried_again),
		cmocka_unit_test(a_delete_beside_the_push_is_repeated_at_the_others),
		cmocka_unit_test(without_a_push_the_values_are_counted),
	};
	return cmocka_run_group_tests_name("kvserver/push", tests, NULL, NULL);
}
