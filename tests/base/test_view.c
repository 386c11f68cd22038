/* SPDX-License-Identifier: Apache-2.0 */
/* test_view.c -- the digest of a view: every field is in it, and one that forges views does not find two alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/view.h"

static void put(struct kv_view *v, const char *id, const char *address, unsigned zone_len, uint64_t incarnation)
{
	struct kv_member m = {.weight = 1, .state = KV_MEMBER_UP, .incarnation = incarnation};
	snprintf(m.node_id, sizeof(m.node_id), "%s", id);
	snprintf(m.address, sizeof(m.address), "%s", address);
	memset(m.zone, 'z', zone_len);
	assert_int_equal(kv_view_add(v, &m), 0);
}

static void three_put(struct kv_view *v)
{
	put(v, "a", "10.0.0.1:7411", 0, 0);
	put(v, "b", "10.0.0.2:7411", 0, 0);
	put(v, "c", "10.0.0.3:7411", 0, 0);
}

static void every_field_is_in_the_digest(void **state)
{
	struct kv_view v = {.epoch = 1};
	kv_u128 digest;
	(void)state;
	assert_true(kv_view_digest(&v) == 0);
	three_put(&v);
	digest = kv_view_digest(&v);
	assert_true(digest != 0 && (uint64_t)digest != 0 && (uint64_t)(digest >> 64) != 0);
	for (unsigned field = 0; field < 6; field++) {
		struct kv_member was = v.member[1], *m = &v.member[1];
		m->weight += field == 0;
		m->state = field == 1 ? KV_MEMBER_DRAINING : m->state;
		m->incarnation ^= field == 2;
		m->node_id[1] = field == 3 ? 'x' : '\0';
		m->address[0] = field == 4 ? '2' : '1';
		m->zone[0] = field == 5 ? 'z' : '\0';
		assert_true(kv_view_digest(&v) != digest);
		*m = was;
	}
	v.count--;
	assert_true(kv_view_digest(&v) != digest);
	v.count++;
	v.epoch++;
	assert_true(kv_view_digest(&v) == digest);
	kv_view_fini(&v);
}

/* With XXH3 both views had the digest f18d65f042ac1da8: four incarnations set it to any number, without a search. */
static void a_view_with_chosen_incarnations_has_another_digest(void **state)
{
	struct kv_view honest = {.epoch = 1}, forged = {.epoch = 1};
	(void)state;
	three_put(&honest);
	put(&forged, "a", "10.0.0.9:1", 34, 0x18ce1b43396cfeb8);
	put(&forged, "b", "10.0.0.9:2", 42, 0x1cad21f7c4095497);
	put(&forged, "c", "10.0.0.9:3", 34, 0x7afdad5ea4a44072);
	put(&forged, "d", "10.0.0.9:4", 34, 0x78e5c0cc9f22ff90);
	put(&forged, "e", "10.0.0.3:7411", 47, 0);
	forged.member[4].weight = KV_WEIGHT_MAX;
	assert_true((uint64_t)kv_view_digest(&honest) != (uint64_t)kv_view_digest(&forged));
	assert_true(kv_view_digest(&honest) != kv_view_digest(&forged));
	kv_view_fini(&honest);
	kv_view_fini(&forged);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_is_in_the_digest),
		cmocka_unit_test(a_view_with_chosen_incarnations_has_another_digest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
