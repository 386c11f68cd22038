/* SPDX-License-Identifier: Apache-2.0 */
/* test_evict.c -- every policy against a model in an array: same victims, in the same order; and what all of them keep
 * to. */
#include "tests/check.h"

#include "store/evict_policies.h"

enum { NODES = 64, STEPS = 100000 };

static struct evict evict;

struct item {
	struct evict_node node; /* first */
	bool in, stuck, parked;
};
static struct item items[NODES];
static uint64_t looked; /* at nodes, by searches */

static bool may_go(const struct evict_node *n)
{
	looked++;
	return !KV_CONTAINER(n, const struct item, node)->stuck;
}

/* The model: nodes oldest first, and the hand as an index of the next one to look at. */
static struct item *queue[NODES];
static bool visited[NODES];
static unsigned len, hand;

static void open_policy(const struct evict_policy *policy)
{
	evict_fini(&evict);
	assert_int_equal(evict_init(&evict, policy, 1 << 16), 0);
}

static void model_insert(struct item *it)
{
	queue[len] = it;
	visited[len++] = false;
}

static unsigned model_find(const struct item *it)
{
	unsigned i = 0;
	while (queue[i] != it)
		i++;
	return i;
}

static void model_remove(struct item *it)
{
	unsigned at = model_find(it);
	for (unsigned i = at; i + 1 < len; i++) {
		queue[i] = queue[i + 1];
		visited[i] = visited[i + 1];
	}
	len--;
	if (hand > at)
		hand--;
	if (hand == len)
		hand = 0;
}

static struct item *model_victim(void)
{
	while (len > 0) {
		struct item *it = queue[hand];
		if (it->stuck) {
			model_remove(it);
			it->parked = true;
			continue;
		}
		if (!visited[hand])
			return it;
		visited[hand] = false;
		if (++hand == len)
			hand = 0;
	}
	return NULL;
}

static void model_unstick(struct item *it)
{
	it->stuck = false;
	evict_unpark(&evict, &it->node);
	if (it->parked)
		model_insert(it);
	it->parked = false;
}

static void sieve_agrees_with_the_model(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	open_policy(&evict_sieve);
	memset(items, 0, sizeof(items));
	len = hand = 0;
	for (unsigned step = 0; step < STEPS; step++) {
		struct item *it = &items[kv_prng_below(&p, NODES)];
		unsigned what = (unsigned)kv_prng_below(&p, 10);
		if (what == 0) {
			struct evict_node *n = evict_victim(&evict, may_go);
			struct item *want = model_victim();
			assert_ptr_equal(n, want ? &want->node : NULL);
			if (want) {
				evict_remove(&evict, n);
				model_remove(want);
				want->in = false;
			}
		} else if (what == 1 && it->stuck) {
			model_unstick(it);
		} else if (what == 1) {
			it->stuck = true;
		} else if (!it->in) {
			evict_insert(&evict, &it->node, 0);
			model_insert(it);
			it->in = true;
		} else if (what == 2) {
			evict_remove(&evict, &it->node);
			if (!it->parked)
				model_remove(it);
			it->in = it->parked = false;
		} else {
			evict_access(&evict, &it->node);
			if (!it->parked)
				visited[model_find(it)] = true;
		}
		assert_int_equal(evict.count, len);
	}
}

static void blocks_that_were_hit_survive_those_that_were_not(void **state)
{
	(void)state;
	for (unsigned k = 0; evict_policies[k]; k++) {
		open_policy(evict_policies[k]);
		memset(items, 0, sizeof(items));
		for (unsigned i = 0; i < 4; i++)
			evict_insert(&evict, &items[i].node, i);
		evict_access(&evict, &items[0].node);
		assert_ptr_equal(evict_victim(&evict, may_go), &items[1].node);
	}
}

static void a_search_ends_where_no_block_may_go(void **state)
{
	(void)state;
	for (unsigned k = 0; evict_policies[k]; k++) {
		open_policy(evict_policies[k]);
		memset(items, 0, sizeof(items));
		assert_null(evict_victim(&evict, may_go));
		for (unsigned i = 0; i < 4; i++) {
			items[i].stuck = true;
			evict_insert(&evict, &items[i].node, i);
			evict_access(&evict, &items[i].node);
		}
		assert_null(evict_victim(&evict, may_go));
	}
}

enum { MANY = 20000 };

/* Half of them may not go, as when clients have leases: one search steps over them, those after it do not. */
static void stepped_over_once(const struct evict_policy *policy)
{
	static struct item many[MANY];
	uint64_t most = 0;
	open_policy(policy);
	memset(many, 0, sizeof(many));
	for (unsigned i = 0; i < MANY; i++) {
		many[i].stuck = i < MANY / 2;
		evict_insert(&evict, &many[i].node, i);
	}
	looked = 0;
	for (unsigned i = 0; i < MANY / 2; i++) {
		uint64_t before = looked;
		struct evict_node *n = evict_victim(&evict, may_go);
		assert_ptr_equal(n, &many[MANY / 2 + i].node);
		evict_remove(&evict, n);
		most = i ? KV_MAX(most, looked - before) : 0;
	}
	assert_int_equal(most, 1);
	assert_int_equal(looked, MANY);
	looked = 0;
	for (unsigned i = 0; i < 100; i++)
		assert_null(evict_victim(&evict, may_go));
	assert_int_equal(looked, 0);
	many[7].stuck = false;
	evict_unpark(&evict, &many[7].node);
	assert_ptr_equal(evict_victim(&evict, may_go), &many[7].node);
}

static void a_block_that_may_not_go_is_stepped_over_once(void **state)
{
	(void)state;
	for (unsigned k = 0; evict_policies[k]; k++)
		stepped_over_once(evict_policies[k]);
}

/* All were hit, as often as counts: a search does not have to clear them all before it finds one, nor do those after
 * it. */
static void a_search_ends_soon_although_all_were_hit(void **state)
{
	static struct item many[MANY];
	(void)state;
	for (unsigned k = 0; evict_policies[k]; k++) {
		open_policy(evict_policies[k]);
		memset(many, 0, sizeof(many));
		for (unsigned i = 0; i < 4 * MANY; i++) {
			if (i < MANY)
				evict_insert(&evict, &many[i].node, i);
			evict_access(&evict, &many[i % MANY].node);
		}
		for (unsigned i = 0; i < 10; i++) {
			struct evict_node *n;
			looked = 0;
			n = evict_victim(&evict, may_go);
			assert_non_null(n);
			evict_remove(&evict, n);
			assert_in_range(looked, 1, EVICT_SWEEP_MAX + 1);
		}
	}
}

/* Looking at those that go next changes nothing: they are named once each, those that go first first, without those
 * that were hit or may not go. */
static void looking_at_the_next_changes_nothing(void **state)
{
	(void)state;
	for (unsigned k = 0; evict_policies[k]; k++) {
		struct evict_node *seen[NODES];
		struct evict_peek peek;
		unsigned n = 0;
		open_policy(evict_policies[k]);
		memset(items, 0, sizeof(items));
		for (unsigned i = 0; i < NODES; i++) {
			evict_insert(&evict, &items[i].node, i);
			items[i].stuck = i % 5 == 2;
		}
		for (unsigned i = 0; i < NODES; i += 7)
			evict_access(&evict, &items[i].node);
		evict_peek_begin(&evict, &peek);
		while ((seen[n] = evict_peek_next(&evict, &peek, may_go)) != NULL) {
			assert_false(KV_CONTAINER(seen[n], struct item, node)->stuck || seen[n]->hits);
			assert_in_range(++n, 1, NODES - 1);
		}
		assert_int_equal(evict.count, NODES);
		assert_in_range(n, NODES / 2, NODES);
		for (unsigned i = 0; i < n / 4; i++) { /* s3fifo has victims from its main queue, too, later on */
			uint64_t oldest = evict_age(&evict, seen[0]);
			assert_int_equal(evict_worth(&evict, seen[i], oldest), oldest - evict_age(&evict, seen[i]));
			assert_ptr_equal(evict_victim(&evict, may_go), seen[i]);
			evict_remove(&evict, seen[i]);
		}
	}
}

/* However many were hit, so many are looked at. */
static void looking_at_the_next_ends_soon(void **state)
{
	static struct item many[MANY];
	struct evict_peek peek;
	(void)state;
	open_policy(&evict_clock2g);
	memset(many, 0, sizeof(many));
	for (unsigned i = 0; i < MANY; i++) {
		evict_insert(&evict, &many[i].node, i);
		if (i < MANY - 1)
			evict_access(&evict, &many[i].node);
	}
	evict_peek_begin(&evict, &peek);
	assert_null(evict_peek_next(&evict, &peek, may_go));
	assert_null(evict_peek_next(&evict, &peek, may_go));
}

/* ---- clock, lru, s3fifo: the rules once more, with a look at every node for each question ---- */

struct other {
	struct evict_node node; /* first */
	bool in, stuck, parked;
	unsigned queue, hits;
	uint64_t order, stamp, used; /* order: of being put into its queue */
};

static struct other others[NODES];
static uint64_t orders, now;

static bool other_may_go(const struct evict_node *n)
{
	return !KV_CONTAINER(n, const struct other, node)->stuck;
}

static void other_place(struct other *o, unsigned queue_)
{
	o->queue = queue_;
	o->order = ++orders;
}

static struct other *other_oldest(unsigned queue_)
{
	struct other *oldest = NULL;
	for (unsigned i = 0; i < NODES; i++)
		if (others[i].in && !others[i].parked && others[i].queue == queue_ &&
		    (!oldest || others[i].order < oldest->order))
			oldest = &others[i];
	return oldest;
}

static unsigned other_count(unsigned queue_)
{
	unsigned n = 0;
	for (unsigned i = 0; i < NODES; i++)
		n += others[i].in && !others[i].parked && others[i].queue == queue_;
	return n;
}

static void other_insert(const struct evict_policy *p, struct other *o, bool returned)
{
	o->stamp = o->used = ++now;
	o->hits = p != &evict_s3fifo && returned;
	other_place(o, p == &evict_s3fifo && returned);
}

static void other_access(const struct evict_policy *p, struct other *o)
{
	unsigned most = p == &evict_clock ? 1 : 3;
	if (p == &evict_lru)
		other_place(o, 0);
	o->used = now;
	o->hits = KV_MIN(o->hits + 1, most);
}

static struct other *other_next(const struct evict_policy *p)
{
	struct other *a = other_oldest(0), *b = other_oldest(1);
	if (!a || !b)
		return a ? a : b;
	if (p == &evict_s3fifo)
		return other_count(0) * 2 >= other_count(0) + other_count(1) ? a : b;
	return a->stamp <= b->stamp ? a : b;
}

static struct other *other_victim(const struct evict_policy *p)
{
	struct other *o;
	while ((o = other_next(p)) != NULL) {
		if (o->stuck) {
			o->parked = true;
			continue;
		}
		if (p == &evict_lru || o->hits == 0)
			return o;
		if (p == &evict_s3fifo)
			o->hits = o->queue ? o->hits - 1 : 0;
		else
			o->hits--;
		o->stamp = o->used > o->stamp ? o->used : now;
		other_place(o, 1);
	}
	return NULL;
}

static void other_step(const struct evict_policy *p, struct kv_prng *r)
{
	struct other *o = &others[kv_prng_below(r, NODES)];
	unsigned what = (unsigned)kv_prng_below(r, 10);
	if (what == 0) {
		struct evict_node *n = evict_victim(&evict, other_may_go);
		o = other_victim(p);
		assert_ptr_equal(n, o ? &o->node : NULL);
		if (o) {
			evict_remove(&evict, n);
			o->in = false;
		}
	} else if (what == 1 && o->stuck) {
		o->stuck = false;
		evict_unpark(&evict, &o->node);
		if (o->in && o->parked)
			other_insert(p, o, false);
		o->parked = false;
	} else if (what == 1) {
		o->stuck = true;
	} else if (!o->in) {
		bool returned = p->ghosts && kv_prng_below(r, 3) == 0;
		p->insert(&evict, &o->node, returned);
		other_insert(p, o, returned);
		o->in = true;
	} else if (what == 2) {
		evict_remove(&evict, &o->node);
		o->in = o->parked = false;
	} else {
		evict_access(&evict, &o->node);
		if (!o->parked)
			other_access(p, o);
	}
	assert_int_equal(evict.count, other_count(0) + other_count(1));
}

static void clock_lru_and_s3fifo_agree_with_the_model(void **state)
{
	static const struct evict_policy *const policies[] = {&evict_clock2g, &evict_clock, &evict_lru, &evict_s3fifo};
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned k = 0; k < KV_COUNT(policies); k++) {
		open_policy(policies[k]);
		memset(others, 0, sizeof(others));
		orders = now = 0;
		for (unsigned step = 0; step < STEPS; step++)
			other_step(policies[k], &p);
	}
}

/* The clock's time wraps after 2^30 inserts: a search still ends and finds everybody once. */
static void time_may_wrap(void **state)
{
	(void)state;
	open_policy(&evict_clock2g);
	memset(items, 0, sizeof(items));
	*evict.time = (1ull << EVICT_TIME_BITS) - NODES / 2;
	for (unsigned i = 0; i < NODES; i++) {
		evict_insert(&evict, &items[i].node, i);
		if (i % 3 == 0)
			evict_access(&evict, &items[i].node);
	}
	for (unsigned i = 0; i < NODES; i++) {
		struct evict_node *n = evict_victim(&evict, may_go);
		assert_non_null(n);
		if (i == 0)
			assert_ptr_equal(n, &items[1].node);
		evict_remove(&evict, n);
	}
	assert_null(evict_victim(&evict, may_go));
}

static int close_policy(void **state)
{
	(void)state;
	evict_fini(&evict);
	return 0;
}

enum { FULL = 100 };

static struct evict_node held[FULL];
static uint64_t held_id[FULL], fresh_ids;

static uint64_t fresh_id(void)
{
	fresh_ids++;
	return kv_hash_key(&fresh_ids, sizeof(fresh_ids), 1);
}

static bool all_may_go(const struct evict_node *n)
{
	(void)n;
	return true;
}

/* The store is full: the next victim makes room for this id. Returns the victim's. */
static uint64_t replace(uint64_t id)
{
	struct evict_node *n = evict_victim(&evict, all_may_go);
	uint64_t gone = held_id[n - held];
	evict_remember(&evict, n, gone);
	evict_remove(&evict, n);
	*n = (struct evict_node){.stamp = 0};
	held_id[n - held] = id;
	evict_insert(&evict, n, id);
	return gone;
}

/* 99 others are there when it comes back. */
static void returns_are_told_apart_by_how_much_more_memory_would_have_kept_them(void **state)
{
	const struct {
		unsigned later, returned, half, quarter; /* later: evictions since, its own included */
	} rows[] = {{2, 1, 1, 1},  {24, 1, 1, 1}, {25, 1, 1, 0}, {49, 1, 1, 0},
		    {50, 1, 0, 0}, {99, 1, 0, 0}, {100, 0, 0, 0}};
	(void)state;
	for (unsigned r = 0; r < KV_COUNT(rows); r++) {
		uint64_t first;
		open_policy(&evict_clock2g);
		for (unsigned i = 0; i < FULL; i++) {
			held[i] = (struct evict_node){.stamp = 0};
			held_id[i] = fresh_id();
			evict_insert(&evict, &held[i], held_id[i]);
		}
		first = replace(fresh_id());
		for (unsigned i = 2; i < rows[r].later; i++)
			replace(fresh_id());
		replace(first);
		assert_int_equal(evict.returned, rows[r].returned);
		assert_int_equal(evict.returned_half, rows[r].half);
		assert_int_equal(evict.returned_quarter, rows[r].quarter);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sieve_agrees_with_the_model),
		cmocka_unit_test(clock_lru_and_s3fifo_agree_with_the_model),
		cmocka_unit_test(time_may_wrap),
		cmocka_unit_test(blocks_that_were_hit_survive_those_that_were_not),
		cmocka_unit_test(a_search_ends_where_no_block_may_go),
		cmocka_unit_test(a_block_that_may_not_go_is_stepped_over_once),
		cmocka_unit_test(a_search_ends_soon_although_all_were_hit),
		cmocka_unit_test(looking_at_the_next_changes_nothing),
		cmocka_unit_test(looking_at_the_next_ends_soon),
		cmocka_unit_test(returns_are_told_apart_by_how_much_more_memory_would_have_kept_them),
	};
	return cmocka_run_group_tests_name("store/evict", tests, NULL, close_policy);
}
