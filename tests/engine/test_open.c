/* SPDX-License-Identifier: Apache-2.0 */
/* test_open.c -- choosing a provider, what opening says and leaves alone. */
#include "tests/engine/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static const struct te_handlers none;

static struct te *open_or_fail(struct te_options *o)
{
	struct te *te = NULL;
	struct kv_error err = {0};
	if (te_open(o, &none, NULL, &te, &err))
		fail_msg("te_open: %s", err.text);
	return te;
}

static void loopback(struct te_options *o)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&o->local;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static void auto_says_what_it_chose_and_why(void **state)
{
	struct te_options o = {0};
	struct te_info info;
	(void)state;
	loopback(&o);
	struct te *te = open_or_fail(&o);
	te_info(te, &info);
	assert_true(strlen(info.provider) > 0 && strlen(info.libfabric) > 0);
	assert_non_null(strstr(info.why, info.provider));
	assert_non_null(strstr(info.why, "auto"));
	te_close(&te);
}

static void a_demanded_provider_is_that_one_or_an_error(void **state)
{
	struct te_options o = {.provider = "no-such-provider"};
	struct te *te = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(te_open(&o, &none, NULL, &te, &err), -KV_ENOTSUP);
	assert_null(te);
	assert_non_null(strstr(err.text, "no-such-provider"));
	assert_non_null(strstr(err.text, "tcp")); /* what there is */
}

static void a_demanded_nic_is_that_one_or_an_error(void **state)
{
	struct te_options o = {.provider = "tcp", .nic = "no-such-nic"};
	struct te *te = NULL;
	struct kv_error err = {0};
	struct te_info info;
	(void)state;
	assert_int_equal(te_open(&o, &none, NULL, &te, &err), -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "no-such-nic"));
	assert_non_null(strstr(err.text, "there are: "));
	assert_non_null(strstr(err.text, "lo (127.0.0.1)"));
	o.nic = "lo";
	te = open_or_fail(&o);
	te_info(te, &info);
	assert_string_equal(info.domain, "lo");
	te_close(&te);
}

static void a_list_of_nics_is_all_of_them_in_order(void **state)
{
	struct te_options o = {.provider = "tcp", .nic = "127.0.0.3,lo,127.0.0.2"};
	static const unsigned char last[] = {3, 1, 2};
	struct te_info info;
	struct te_plan plan;
	struct kv_error err = {0};
	(void)state;
	loopback(&o); /* of the addresses of lo, this one */
	struct te *te = open_or_fail(&o);
	te_info(te, &info);
	assert_int_equal(info.rails, 3);
	for (unsigned i = 0; i < 3; i++) {
		struct te_address a;
		struct sockaddr_in in;
		assert_int_equal(te_address(te, i, &a), 0);
		memcpy(&in, a.data, sizeof(in));
		assert_int_equal(in.sin_family, AF_INET);
		assert_int_equal(ntohl(in.sin_addr.s_addr), 0x7f000000 + last[i]);
	}
	te_close(&te);
	assert_int_equal(te_plan(&o, &plan, &err), 0);
	assert_int_equal(plan.rails, 3);
	assert_string_equal(plan.rail[0].address, "127.0.0.3");
	assert_string_equal(plan.rail[1].address, "127.0.0.1");
}

static void a_wrong_list_of_nics_is_explained(void **state)
{
	static const struct {
		const char *provider, *nic, *says;
		int rc;
	} cases[] = {
		{"tcp", "lo,no-such-nic", "no NIC no-such-nic for provider tcp; there are: ", -KV_ENOTSUP},
		{"auto", "lo,no-such-nic", "no NIC no-such-nic here; there are: ", -KV_ENOTSUP},
		{"tcp", "lo,,lo", "empty name", -KV_EINVAL},
		{"tcp", "lo,", "empty name", -KV_EINVAL},
		{"tcp", "", "empty name", -KV_EINVAL},
		{"tcp", "lo,127.0.0.1", "127.0.0.1 is twice in the list", -KV_EINVAL},
		{"tcp", "203.0.113.7", "no NIC 203.0.113.7", -KV_ENOTSUP}, /* TEST-NET-3 */
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(cases); i++) {
		struct te_options o = {.provider = cases[i].provider, .nic = cases[i].nic};
		struct te *te = NULL;
		struct kv_error err = {0};
		loopback(&o);
		int rc = te_open(&o, &none, NULL, &te, &err);
		if (rc != cases[i].rc)
			fail_msg("%s: %d: %s", cases[i].nic, rc, err.text);
		if (!strstr(err.text, cases[i].says))
			fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].says);
	}
}

static void exact_names_work_as_well(void **state)
{
	struct te_options o = {.provider = "tcp;ofi_rxm"};
	struct te_info info;
	(void)state;
	loopback(&o);
	struct te *te = open_or_fail(&o);
	te_info(te, &info);
	assert_string_equal(info.provider, "tcp;ofi_rxm");
	te_close(&te);
}

static void the_local_address_is_bound(void **state)
{
	struct te_options o = {.provider = "tcp"};
	struct te_address a;
	struct sockaddr_in in;
	(void)state;
	loopback(&o);
	struct te *te = open_or_fail(&o);
	assert_int_equal(te_address(te, 0, &a), 0);
	assert_true(a.len >= sizeof(in));
	memcpy(&in, a.data, sizeof(in));
	assert_int_equal(in.sin_family, AF_INET);
	assert_int_equal(in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_not_equal(in.sin_port, 0);
	te_close(&te);
}

static void a_foreign_local_address_is_refused(void **state)
{
	struct te_options o = {.provider = "tcp"};
	struct sockaddr_in *in = (struct sockaddr_in *)&o.local;
	struct te *te = NULL;
	struct kv_error err = {0};
	(void)state;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = inet_addr("203.0.113.7"); /* TEST-NET-3 */
	assert_true(te_open(&o, &none, NULL, &te, &err) < 0);
	assert_null(te);
	assert_true(strlen(err.text) > 0);
}

static void rails_have_a_limit(void **state)
{
	struct te_options o = {.provider = "tcp", .rails = KV_RAILS_MAX + 1};
	struct te *te = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(te_open(&o, &none, NULL, &te, &err), -KV_EINVAL);
	assert_null(te);
}

static void the_eager_limit_is_the_environments(void **state)
{
	struct te_options o = {.provider = "tcp"};
	struct te_info info;
	(void)state;
	loopback(&o);
	struct te *te = open_or_fail(&o);
	te_info(te, &info);
	/* What te_env_for_programs, which main() has called, leaves alone: libfabric's default. */
	assert_int_equal(info.eager_bytes,
			 getenv("FI_OFI_RXM_BUFFER_SIZE") ? atoi(getenv("FI_OFI_RXM_BUFFER_SIZE")) : 16384);
	assert_true(info.eager_bytes >= KV_MSG_MAX);
	te_close(&te);
}

static void too_few_files_are_named(void **state)
{
	struct te_options o = {.provider = "tcp"};
	struct te *te = NULL;
	struct kv_error err = {0};
	struct rlimit old, tight;
	(void)state;
	loopback(&o);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	tight.rlim_cur = 12;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	int rc = te_open(&o, &none, NULL, &te, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(rc, -KV_ELIMIT);
	assert_non_null(strstr(err.text, "ulimit -n"));
	te = open_or_fail(&o);
	te_close(&te);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void signal_handlers_are_left_alone(void **state)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM};
	struct sigaction mine = {.sa_handler = on_signal}, old[KV_COUNT(signals)], now;
	struct te_options o = {.provider = "tcp"};
	(void)state;
	loopback(&o);
	for (unsigned with = 0; with < 2; with++) {
		for (size_t i = 0; i < KV_COUNT(signals); i++)
			assert_int_equal(sigaction(signals[i], with ? &mine : NULL, &old[i]), 0);
		struct te *te = open_or_fail(&o);
		for (size_t i = 0; i < KV_COUNT(signals); i++) {
			assert_int_equal(sigaction(signals[i], NULL, &now), 0);
			assert_ptr_equal(now.sa_handler, with ? on_signal : old[i].sa_handler);
		}
		te_close(&te);
		for (size_t i = 0; with && i < KV_COUNT(signals); i++)
			assert_int_equal(sigaction(signals[i], &old[i], NULL), 0);
	}
}

static void psm_handlers_are_evicted(void **state)
{
	struct sigaction sa;
	(void)state;
	/* cmocka puts its own handler on SIGSEGV and friends for the test; SIGTERM and SIGINT are not its business, and
	 * main called te_env_for_programs. */
	assert_int_equal(sigaction(SIGTERM, NULL, &sa), 0);
	assert_true(sa.sa_handler == SIG_DFL);
	assert_int_equal(sigaction(SIGINT, NULL, &sa), 0);
	assert_true(sa.sa_handler == SIG_DFL);
}

static bool crashes_are_caught; /* before cmocka put its own handlers in */

static void a_sanitizer_keeps_its_handlers(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	assert_true(crashes_are_caught);
#else
	print_message("only under AddressSanitizer\n");
	skip();
#endif
}

static void what_the_user_set_is_kept(void **state)
{
	(void)state;
	assert_string_equal(getenv("FI_EFA_FORK_SAFE"), "user"); /* from main */
	assert_string_equal(getenv("IPATH_NO_BACKTRACE"), "1");
}

enum { OPENERS = 4 };

static void *opener(void *arg)
{
	struct te **out = arg;
	struct te_options o = {.provider = "tcp"};
	loopback(&o);
	return (void *)(intptr_t)te_open(&o, &none, NULL, out, NULL);
}

static void threads_may_open_at_once(void **state)
{
	pthread_t t[OPENERS];
	struct te *te[OPENERS] = {0};
	void *rc;
	(void)state;
	for (unsigned i = 0; i < OPENERS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, opener, &te[i]), 0);
	for (unsigned i = 0; i < OPENERS; i++) {
		assert_int_equal(pthread_join(t[i], &rc), 0);
		assert_int_equal((intptr_t)rc, 0);
		te_close(&te[i]);
	}
}

static void closing_nothing_is_harmless(void **state)
{
	struct te *te = NULL;
	(void)state;
	te_close(&te);
}

int main(void)
{
	setenv("FI_EFA_FORK_SAFE", "user", 1);
	test_env();
	struct sigaction sa;
	crashes_are_caught = sigaction(SIGSEGV, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL;
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(auto_says_what_it_chose_and_why),
		cmocka_unit_test(a_demanded_provider_is_that_one_or_an_error),
		cmocka_unit_test(a_demanded_nic_is_that_one_or_an_error),
		cmocka_unit_test(a_list_of_nics_is_all_of_them_in_order),
		cmocka_unit_test(a_wrong_list_of_nics_is_explained),
		cmocka_unit_test(exact_names_work_as_well),
		cmocka_unit_test(the_local_address_is_bound),
		cmocka_unit_test(a_foreign_local_address_is_refused),
		cmocka_unit_test(rails_have_a_limit),
		cmocka_unit_test(the_eager_limit_is_the_environments),
		cmocka_unit_test(too_few_files_are_named),
		cmocka_unit_test(signal_handlers_are_left_alone),
		cmocka_unit_test(psm_handlers_are_evicted),
		cmocka_unit_test(a_sanitizer_keeps_its_handlers),
		cmocka_unit_test(what_the_user_set_is_kept),
		cmocka_unit_test(threads_may_open_at_once),
		cmocka_unit_test(closing_nothing_is_harmless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
