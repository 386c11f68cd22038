/* SPDX-License-Identifier: Apache-2.0 */
/* test_evict.c -- SIEVE against a model in an array: same victims, in the same order. */
#include "tests/check.h"

#include "kvserver/evict.h"

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
	evict_init(&evict, &evict_sieve);
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
			evict_insert(&evict, &it->node);
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

static void what_was_hit_survives_what_was_not(void **state)
{
	(void)state;
	evict_init(&evict, &evict_sieve);
	memset(items, 0, sizeof(items));
	for (unsigned i = 0; i < 4; i++)
		evict_insert(&evict, &items[i].node);
	evict_access(&evict, &items[0].node);
	assert_ptr_equal(evict_victim(&evict, may_go), &items[1].node);
}

static void nobody_may_go_ends(void **state)
{
	(void)state;
	evict_init(&evict, &evict_sieve);
	memset(items, 0, sizeof(items));
	assert_null(evict_victim(&evict, may_go));
	for (unsigned i = 0; i < 4; i++) {
		items[i].stuck = true;
		evict_insert(&evict, &items[i].node);
		evict_access(&evict, &items[i].node);
	}
	assert_null(evict_victim(&evict, may_go));
}

enum { MANY = 20000 };

/* Half of them may not go, as when clients have leases: one search steps over them, those after it do not. */
static void who_may_not_go_is_stepped_over_once(void **state)
{
	static struct item many[MANY];
	uint64_t most = 0;
	(void)state;
	evict_init(&evict, &evict_sieve);
	memset(many, 0, sizeof(many));
	for (unsigned i = 0; i < MANY; i++) {
		many[i].stuck = i < MANY / 2;
		evict_insert(&evict, &many[i].node);
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

/* All were hit: a search does not have to clear them all before it finds one. */
static void a_search_ends_soon_although_all_were_hit(void **state)
{
	static struct item many[MANY];
	(void)state;
	evict_init(&evict, &evict_sieve);
	memset(many, 0, sizeof(many));
	for (unsigned i = 0; i < MANY; i++) {
		evict_insert(&evict, &many[i].node);
		evict_access(&evict, &many[i].node);
	}
	looked = 0;
	assert_non_null(evict_victim(&evict, may_go));
	assert_in_range(looked, 1, 4097);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sieve_agrees_with_the_model),
		cmocka_unit_test(what_was_hit_survives_what_was_not),
		cmocka_unit_test(nobody_may_go_ends),
		cmocka_unit_test(who_may_not_go_is_stepped_over_once),
		cmocka_unit_test(a_search_ends_soon_although_all_were_hit),
	};
	return cmocka_run_group_tests_name("kvserver/evict", tests, NULL, NULL);
}
