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
#include "kvserver/control/server.h"
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
	bool outdated;       /* b has a younger value, or knows that the key was deleted */
	unsigned given_back; /* blocks that the shard is to delete, too */
	unsigned batches;
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

int __wrap_kvc_copy_batch(struct kvc_pool *pool, struct kvc_item *items, const uint64_t *born_ns, unsigned n,
			  const struct kvc_call *call);
int __wrap_kvc_copy_batch(struct kvc_pool *pool, struct kvc_item *items, const uint64_t *born_ns, unsigned n,
			  const struct kvc_call *call)
{
	(void)pool;
	fake.timeout_ns = call->timeout_ns;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(born_ns[i], BORN);
		items[i].result = fake.outdated ? -KV_ENOTFOUND : 0;
	}
	fake.batches++;
	if (fake.on_batch)
		fake.on_batch();
	return 0;
}

/* ---- the server and its blocks ---- */

void __wrap_kvs_server_info(const struct kvs_server *server, struct kvs_info *out);
void __wrap_kvs_server_info(const struct kvs_server *server, struct kvs_info *out)
{
	(void)server;
	snprintf(out->provider, sizeof(out->provider), "tcp");
}

struct lot *__wrap_lot_new(struct shard *s);
struct lot *__wrap_lot_new(struct shard *s)
{
	struct lot *lot = calloc(1, sizeof(*lot));
	assert_non_null(lot);
	lot->shard = s;
	return lot;
}

int __wrap_lot_next_wait(struct lot *lot, uint64_t until_ns);
int __wrap_lot_next_wait(struct lot *lot, uint64_t until_ns)
{
	unsigned i = lot->shard == some_shard ? 0 : 1;
	fake.given_back += lot->count && lot->item[0].outdated && !lot->item[0].pushed;
	lot->count = 0;
	if (fake.stands_still[i]) {
		fake.now_ns = until_ns;
		free(lot); /* it is the loop's */
		return -KV_ETIMEOUT;
	}
	if (fake.lots[i] == 0) {
		lot->over = true;
		return 0;
	}
	fake.lots[i]--;
	lot->item[lot->count++] = (struct lot_item){.key = "k",
						    .key_len = 1,
						    .data = fake.large ? fake.large : value,
						    .len = fake.large ? LARGE : VALUE,
						    .born_ns = BORN};
	lot->item[0].checksum = kv_hash_block(lot->item[0].data, lot->item[0].len);
	return 0;
}

int __wrap_lot_end_wait(struct lot **lot, uint64_t until_ns);
int __wrap_lot_end_wait(struct lot **lot, uint64_t until_ns)
{
	(void)until_ns;
	free(*lot);
	*lot = NULL;
	return 0;
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

static int run(uint64_t for_ns, struct push_result *out, struct kv_error *err)
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
	struct push_result r;
	struct kv_error err;
	assert_int_equal(run(60 * SECOND, &r, &err), 0);
	assert_true(r.all);
	assert_false(r.alone);
	assert_int_equal(r.blocks, blocks);
	assert_int_equal(r.failed, 0);
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
	struct push_result r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.outdated = true;
	assert_int_equal(run(60 * SECOND, &r, &err), 0);
	assert_int_equal(r.blocks, 0);
	assert_int_equal(fake.given_back, 2);
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
	struct push_result r;
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
	struct push_result r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.server[1].up = false;
	assert_int_equal(run(60 * SECOND, &r, &err), -KV_EPEERDOWN);
	fake_begin();
	fake.on_batch = a_leaves;
	fake.server[1].state = KVC_MEMBER_DRAINING;
	assert_int_equal(run(60 * SECOND, &r, &err), -KV_EPEERDOWN);
	assert_int_equal(fake.batches, 0);
}

/* The first shard's loop stands still until the time is over: nobody has asked the second one for what it has. */
static void a_shard_that_was_not_asked_has_values_left(void **state)
{
	struct push_result r;
	struct kv_error err;
	(void)state;
	fake_begin();
	fake.stands_still[0] = true;
	assert_int_equal(run(4 * SECOND, &r, &err), 0);
	assert_false(r.all);
	assert_int_equal(r.blocks, 0);
}

/* It has as many clients as it takes. */
static void a_server_without_room_for_itself_hands_over_by_another(void **state)
{
	struct push_result r;
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
	};
	return cmocka_run_group_tests_name("kvserver/push", tests, NULL, NULL);
}
