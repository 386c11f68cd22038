/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c -- which NICs an engine takes, on machines that are made up. */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan.h"

enum { NICS_MAX = 32 };

struct machine {
	const char *provider;
	unsigned nics, nodes; /* nodes 0: sysfs knows none */
	bool shared, one_network;
};

static struct fab_device nic[NICS_MAX];

/* NICs in the order in which PCI shows them: here alternating between the nodes, which is the worst. */
static void make(const struct machine *m)
{
	memset(nic, 0, sizeof(nic));
	for (unsigned i = 0; i < m->nics; i++) {
		snprintf(nic[i].short_name, sizeof(nic[i].short_name), "%s", m->provider);
		snprintf(nic[i].domain, sizeof(nic[i].domain), "nic%u", i);
		nic[i].numa_node = m->nodes ? (int)(i % m->nodes) : -1;
		nic[i].shared = m->shared;
		nic[i].one_network = m->one_network;
	}
}

static void plan(const struct te_options *o, unsigned nics, struct te_plan *out)
{
	unsigned at[KV_RAILS_MAX], rails;
	struct kv_error err = {0};
	if (te_plan_devices(o, nic, nics, at, &rails, &err))
		fail_msg("%s", err.text);
	te_plan_fill(nic, nics, at, rails, out);
}

/* Every engine's NICs: how often each is used, whether an engine has one twice, and how many are far from the others.
 */
static void divide(unsigned nics, unsigned engines, unsigned rails, unsigned *used, unsigned *out_far)
{
	*out_far = 0;
	memset(used, 0, NICS_MAX * sizeof(*used));
	for (unsigned e = 0; e < engines; e++) {
		struct te_options o = {.rails = rails, .engine = e, .engines = engines};
		struct te_plan p;
		plan(&o, nics, &p);
		for (unsigned i = 0; i < p.rails; i++) {
			used[atoi(p.rail[i].name + 3)]++;
			*out_far += p.rail[i].numa_node != p.numa_node;
			for (unsigned k = 0; k < i; k++)
				assert_string_not_equal(p.rail[i].name, p.rail[k].name);
		}
	}
}

static void efa_nics_are_divided_evenly_and_near(void **state)
{
	static const struct {
		unsigned nics, nodes, engines, rails_each;
	} cases[] = {
		{4, 2, 4, 1},   {8, 2, 4, 2},   {16, 2, 4, 4}, {32, 2, 4, 8}, {32, 4, 4, 8}, {32, 2, 8, 4},
		{32, 2, 16, 2}, {32, 2, 32, 1}, {4, 0, 4, 1},  {16, 4, 2, 8}, {4, 4, 1, 4},
	};
	(void)state;
	for (unsigned c = 0; c < KV_COUNT(cases); c++) {
		struct machine m = {"efa", cases[c].nics, cases[c].nodes, false, true};
		unsigned used[NICS_MAX], far;
		make(&m);
		divide(m.nics, cases[c].engines, 0, used, &far);
		for (unsigned i = 0; i < m.nics; i++)
			assert_int_equal(used[i], 1);
		/* No engine has NICs of two nodes, unless its share is more than a node has. */
		unsigned share = m.nics / cases[c].engines, node = m.nics / KV_MAX(m.nodes, 1u);
		assert_int_equal(far, share <= node ? 0 : (share - node) * cases[c].engines);
	}
}

static void one_rail_each_is_spread_over_all_nodes(void **state)
{
	struct machine m = {"efa", 32, 2, false, true};
	unsigned used[NICS_MAX], far, per_node[2] = {0};
	(void)state;
	make(&m);
	divide(32, 4, 1, used, &far);
	for (unsigned i = 0; i < 32; i++) {
		assert_true(used[i] <= 1);
		per_node[i % 2] += used[i];
	}
	assert_int_equal(per_node[0], 2);
	assert_int_equal(per_node[1], 2);
}

static void an_engine_alone_takes_eight_of_one_node(void **state)
{
	struct machine m = {"efa", 32, 2, false, true};
	struct te_options o = {0};
	struct te_plan p;
	(void)state;
	make(&m);
	plan(&o, 32, &p);
	assert_int_equal(p.rails, 8);
	assert_int_equal(p.numa_node, 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(p.rail[i].numa_node, 0);
	o.rails = 32; /* unless it is told to take all */
	plan(&o, 32, &p);
	assert_int_equal(p.rails, 32);
}

static void more_engines_than_nics_share_them_evenly(void **state)
{
	struct machine m = {"verbs", 4, 2, false, false};
	unsigned used[NICS_MAX], far;
	(void)state;
	make(&m);
	divide(4, 16, 0, used, &far);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(used[i], 4);
	assert_int_equal(far, 0);
}

static void more_rails_than_the_share_go_on_behind_it(void **state)
{
	struct machine m = {"verbs", 4, 0, false, false};
	struct te_options o = {.rails = 3, .engine = 1, .engines = 2};
	struct te_plan p;
	(void)state;
	make(&m);
	plan(&o, 4, &p);
	assert_int_equal(p.rails, 3);
	assert_string_equal(p.rail[0].name, "nic2");
	assert_string_equal(p.rail[1].name, "nic3");
	assert_string_equal(p.rail[2].name, "nic0");
	assert_int_equal(p.numa_node, -1);
}

static void more_rails_than_nics_are_refused(void **state)
{
	struct machine m = {"verbs", 2, 0, false, false};
	struct te_options o = {.rails = 3};
	unsigned at[KV_RAILS_MAX], rails;
	struct kv_error err = {0};
	(void)state;
	make(&m);
	assert_int_equal(te_plan_devices(&o, nic, 2, at, &rails, &err), -KV_ELIMIT);
	assert_string_equal(err.text,
			    "3 rails were requested, and provider verbs has 2 devices here; request at most 2");
	/* What is left out is said, too, and how to have it all the same. */
	nic[1].link_down = true;
	o.rails = 2;
	assert_int_equal(te_plan_devices(&o, nic, 2, at, &rails, &err), -KV_ELIMIT);
	assert_string_equal(err.text, "2 rails were requested, and provider verbs has 1 device here (and 1 that is "
				      "down or slow, which only --nic takes); request at most 1");
	o.rails = KV_RAILS_MAX + 1;
	assert_int_equal(te_plan_devices(&o, nic, 2, at, &rails, &err), -KV_EINVAL);
}

/* Opening them says what is wrong, better than that they are not there. */
static void nics_that_are_all_down_are_taken(void **state)
{
	struct machine m = {"verbs", 2, 0, false, false};
	struct te_options o = {.rails = 2};
	struct te_plan p;
	(void)state;
	make(&m);
	nic[0].link_down = nic[1].link_down = true;
	plan(&o, 2, &p);
	assert_int_equal(p.rails, 2);
	assert_string_equal(p.rail[1].name, "nic1");
}

/* Two NICs of verbs may be on two networks: without being told, an engine has one. */
static void verbs_has_one_rail_unless_told(void **state)
{
	struct machine m = {"verbs", 8, 2, false, false};
	unsigned used[NICS_MAX], far;
	(void)state;
	make(&m);
	divide(8, 4, 0, used, &far);
	for (unsigned i = 0; i < 8; i++)
		assert_true(used[i] <= 1);
	divide(8, 4, 2, used, &far);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(used[i], 1);
	assert_int_equal(far, 0);
}

static void named_nics_keep_their_order(void **state)
{
	struct machine m = {"verbs", 4, 2, false, false};
	struct te_options o = {.nic = "nic0,nic1,nic2,nic3"};
	struct te_plan p;
	(void)state;
	make(&m);
	nic[1].link_bits_per_s = 400000000000;
	nic[2].link_bits_per_s = 25000000000; /* slow, and named all the same */
	plan(&o, 4, &p);
	assert_int_equal(p.rails, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(atoi(p.rail[i].name + 3), i);
	o.rails = 1, o.engine = 1, o.engines = 2;
	plan(&o, 4, &p);
	assert_string_equal(p.rail[0].name, "nic2");
}

static void slow_and_unplugged_nics_are_left_out(void **state)
{
	struct machine m = {"efa", 4, 0, false, true};
	struct te_options o = {0};
	struct te_plan p;
	(void)state;
	make(&m);
	for (unsigned i = 0; i < 4; i++)
		nic[i].link_bits_per_s = 400000000000;
	nic[0].link_bits_per_s = 25000000000; /* for management */
	nic[2].link_down = true;
	plan(&o, 4, &p);
	assert_int_equal(p.rails, 2);
	assert_string_equal(p.rail[0].name, "nic1");
	assert_string_equal(p.rail[1].name, "nic3");
	for (unsigned i = 0; i < 4; i++)
		nic[i].link_down = true;
	plan(&o, 4, &p); /* opening it says what is wrong */
	assert_true(p.rails >= 1);
}

/* The addresses of one network: nothing to divide, the first is the best. */
static void tcp_rails_are_on_the_first_device_unless_named(void **state)
{
	struct machine m = {"tcp", 3, 0, true, false};
	struct te_options o = {.rails = 3, .engine = 1, .engines = 4};
	struct te_plan p;
	(void)state;
	make(&m);
	plan(&o, 3, &p);
	assert_int_equal(p.rails, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_string_equal(p.rail[i].name, "nic0");
	o.rails = 0;
	plan(&o, 3, &p);
	assert_int_equal(p.rails, 1);
	o.nic = "nic0,nic1,nic2";
	plan(&o, 3, &p);
	assert_int_equal(p.rails, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(atoi(p.rail[i].name + 3), i);
	o.rails = 5;
	plan(&o, 3, &p);
	assert_string_equal(p.rail[3].name, "nic0");
}

static void any_machine_can_be_divided(void **state)
{
	(void)state;
	for (unsigned nics = 1; nics <= 32; nics++)
		for (unsigned nodes = 0; nodes <= 4; nodes++)
			for (unsigned engines = 1; engines <= 40; engines++) {
				struct machine m = {"efa", nics, nodes, false, true};
				unsigned used[NICS_MAX], far, least = ~0u, most = 0;
				make(&m);
				divide(nics, engines, 1, used, &far);
				for (unsigned i = 0; i < nics; i++) {
					least = KV_MIN(least, used[i]);
					most = KV_MAX(most, used[i]);
				}
				assert_true(most - least <= 1);
				assert_true(engines < nics || least >= 1);
			}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(efa_nics_are_divided_evenly_and_near),
		cmocka_unit_test(one_rail_each_is_spread_over_all_nodes),
		cmocka_unit_test(an_engine_alone_takes_eight_of_one_node),
		cmocka_unit_test(more_engines_than_nics_share_them_evenly),
		cmocka_unit_test(more_rails_than_the_share_go_on_behind_it),
		cmocka_unit_test(more_rails_than_nics_are_refused),
		cmocka_unit_test(nics_that_are_all_down_are_taken),
		cmocka_unit_test(verbs_has_one_rail_unless_told),
		cmocka_unit_test(named_nics_keep_their_order),
		cmocka_unit_test(slow_and_unplugged_nics_are_left_out),
		cmocka_unit_test(tcp_rails_are_on_the_first_device_unless_named),
		cmocka_unit_test(any_machine_can_be_divided),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
