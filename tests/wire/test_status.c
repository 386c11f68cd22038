/* SPDX-License-Identifier: Apache-2.0 */
/* test_status.c -- statuses map to errors and back, and every counter has a name of its own. */
#include <errno.h>

#include "samples.h"

static void every_status_comes_back(void **state)
{
	(void)state;
	for (int32_t status = 0; status < WIRE_STATUS_MAX; status++) {
		int error = wire_status_error(status);
		assert_true(status == WIRE_OK ? error == 0 : error <= -KV_ETIMEOUT);
		assert_int_equal(wire_error_status(error), status);
	}
}

static void statuses_mean_what_wire_h_says(void **state)
{
	(void)state;
	assert_int_equal(wire_status_error(WIRE_NOTFOUND), -KV_ENOTFOUND);
	assert_int_equal(wire_status_error(WIRE_EXISTS_OTHER), -KV_EEXIST);
	assert_int_equal(wire_status_error(WIRE_STALE), -KV_ESTALE);
	assert_int_equal(wire_status_error(WIRE_MISMATCH), -KV_EVERSION);
	assert_int_equal(wire_status_error(WIRE_FABRIC), -KV_EPROVIDER);
	assert_int_equal(wire_status_error(WIRE_CLOSING), -KV_ELEFT);
}

static void unknown_statuses_are_an_error_of_the_protocol(void **state)
{
	(void)state;
	assert_int_equal(wire_status_error(WIRE_STATUS_MAX), -KV_EPROTO);
	assert_int_equal(wire_status_error(-1), -KV_EPROTO);
	assert_int_equal(wire_status_error(INT32_MAX), -KV_EPROTO);
	assert_int_equal(wire_status_error(INT32_MIN), -KV_EPROTO);
}

static void every_error_has_a_status_and_only_0_is_ok(void **state)
{
	(void)state;
	for (int error = -2000; error < 0; error++) {
		int32_t status = wire_error_status(error);
		assert_true(status > WIRE_OK && status < WIRE_STATUS_MAX);
	}
	assert_int_equal(wire_error_status(0), WIRE_OK);
	assert_int_equal(wire_error_status(-ENOMEM), WIRE_NOMEM);
	assert_int_equal(wire_error_status(-EIO), WIRE_FABRIC);
	assert_int_equal(wire_error_status(-KV_ERESET), WIRE_BUSY);
	assert_int_equal(wire_error_status(-KV_ECLOSED), WIRE_CLOSING);
}

static void every_counter_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < WIRE_STAT_END; i++) {
		struct wire_stat_info info = wire_stat_info(i);
		if (i >= WIRE_STAT_STATUS + WIRE_STATUS_MAX && i <= WIRE_STAT_STATUS_LAST) {
			assert_null(wire_stat_name(i)); /* kept free for statuses to come */
			continue;
		}
		assert_non_null(info.name);
		assert_non_null(info.group);
		assert_non_null(info.unit);
		for (uint32_t k = 1; k < i; k++)
			assert_true(!wire_stat_name(k) || strcmp(info.name, wire_stat_name(k)) != 0);
	}
	for (uint32_t status = 0; status < WIRE_STATUS_MAX; status++)
		assert_string_equal(wire_stat_info(WIRE_STAT_STATUS + status).group, "answers");
	assert_string_equal(wire_stat_name(WIRE_STAT_STATUS + WIRE_NOTFOUND), "answered_not_found");
	assert_int_equal(wire_stat_info(WIRE_STAT_SERVE_MAX_NS).kind, WIRE_STAT_MAXIMUM);
	assert_int_equal(wire_stat_info(WIRE_STAT_INFLIGHT).kind, WIRE_STAT_GAUGE);
	assert_int_equal(wire_stat_info(WIRE_STAT_GETS).kind, WIRE_STAT_COUNTER);
	assert_string_equal(wire_stat_name(WIRE_STAT_HITS), "hits");
	assert_string_equal(wire_stat_name(WIRE_STAT_PINNED_BYTES), "pinned_bytes");
	assert_null(wire_stat_name(0));
	assert_null(wire_stat_name(WIRE_STAT_END));
	assert_null(wire_stat_name(UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_status_comes_back),
		cmocka_unit_test(statuses_mean_what_wire_h_says),
		cmocka_unit_test(unknown_statuses_are_an_error_of_the_protocol),
		cmocka_unit_test(every_error_has_a_status_and_only_0_is_ok),
		cmocka_unit_test(every_counter_has_a_name_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
