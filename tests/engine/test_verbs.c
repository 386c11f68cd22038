/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs.c -- what only a machine with an RDMA device can show (tests/verbs): that the sizes chosen for it work, and that others are refused with the way out. */
#include "tests/engine/node.h"

#include "engine/budget.h"

static int open_verbs(struct kv_error *err)
{
	static const struct te_handlers none;
	const struct te_options o = {.provider = "verbs"};
	struct te *te = NULL;
	int rc = te_open(&o, &none, NULL, &te, err);
	te_close(&te);
	return rc;
}

static int here(void **state)
{
	struct te_rdma one[1];
	(void)state;
	if (te_rdma_list("", NULL, one, 1) > 0)
		return 0;
	print_message("no RDMA device is here\n");
	return 0;
}

static void skip_without_a_device(void)
{
	struct te_rdma one[1];
	if (te_rdma_list("", NULL, one, 1) == 0)
		skip();
}

static void the_sizes_that_programs_choose_work(void **state)
{
	struct kv_error err = {0};
	(void)state;
	skip_without_a_device();
	if (open_verbs(&err))
		fail_msg("%s", err.text);
}

static void a_queue_that_no_device_has_is_refused_with_the_number_that_fits(void **state)
{
	struct kv_error err = {0};
	char keep[32], *advice;
	(void)state;
	skip_without_a_device();
	snprintf(keep, sizeof(keep), "%s", getenv("FI_UNIVERSE_SIZE"));
	setenv("FI_UNIVERSE_SIZE", "4000000", 1);
	assert_int_equal(open_verbs(&err), -KV_ELIMIT);
	advice = strstr(err.text, "set FI_UNIVERSE_SIZE=");
	assert_non_null(advice);
	char *number = strchr(advice, '=') + 1;
	number[strspn(number, "0123456789")] = '\0';
	assert_true(atoi(number) >= atoi(keep));
	setenv("FI_UNIVERSE_SIZE", number, 1);
	assert_int_equal(open_verbs(&err), 0);
	setenv("FI_UNIVERSE_SIZE", keep, 1);
}

static void a_shared_receive_context_is_refused(void **state)
{
	struct kv_error err = {0};
	(void)state;
	skip_without_a_device();
	setenv("FI_OFI_RXM_USE_SRX", "1", 1);
	assert_int_equal(open_verbs(&err), -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "FI_OFI_RXM_USE_SRX"));
	setenv("FI_OFI_RXM_USE_SRX", "0", 1);
	assert_int_equal(open_verbs(&err), 0);
	unsetenv("FI_OFI_RXM_USE_SRX");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_sizes_that_programs_choose_work, here),
		cmocka_unit_test_setup(a_queue_that_no_device_has_is_refused_with_the_number_that_fits, here),
		cmocka_unit_test_setup(a_shared_receive_context_is_refused, here),
	};
	test_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
