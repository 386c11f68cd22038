/* SPDX-License-Identifier: Apache-2.0 */
/* test_evict.c -- SIEVE against a model in an array: same victims, in the same order. */
#include "tests/check.h"

#include "kvserver/evict.h"

enum { NODES = 64, STEPS = 100000 };

static struct evict evict;

struct item {
	struct evict_node node; /* first */
	bool in, stuck;
};
static struct item items[NODES];

static bool may_go(const struct evict_node *n)
{
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
	for (unsigned steps = 0; steps < 2 * len; steps++) {
		if (!queue[hand]->stuck && !visited[hand])
			return queue[hand];
		if (!queue[hand]->stuck)
			visited[hand] = false;
		if (++hand == len)
			hand = 0;
	}
	return NULL;
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
		} else if (what == 1) {
			it->stuck = !it->stuck;
		} else if (!it->in) {
			evict_insert(&evict, &it->node);
			model_insert(it);
			it->in = true;
		} else if (what == 2) {
			evict_remove(&evict, &it->node);
			model_remove(it);
			it->in = false;
		} else {
			evict_access(&evict, &it->node);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sieve_agrees_with_the_model),
		cmocka_unit_test(what_was_hit_survives_what_was_not),
		cmocka_unit_test(nobody_may_go_ends),
	};
	return cmocka_run_group_tests_name("kvserver/evict", tests, NULL, NULL);
}
