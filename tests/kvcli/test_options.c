/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c -- what kv-client can be told, and what it refuses before it connects. */
#include "kvcli/options.h"
#include "kvclient/kvclient.h"
#include "tests/check.h"

enum { ARGS_MAX = 16 };

static struct cli_options o;
static struct kv_opt_strings words;
static struct kv_error err;

/* Parse kv-client with these arguments, the last of which is NULL. */
static int parse(const char *first, ...)
{
	char *argv[ARGS_MAX + 3] = {"kv-client", (char *)(uintptr_t)first};
	int argc = first ? 2 : 1;
	va_list args;
	va_start(args, first);
	while (first && argc <= ARGS_MAX && (argv[argc] = va_arg(args, char *)))
		argc++;
	va_end(args);
	words.count = 0;
	err = (struct kv_error){0};
	return cli_options_parse(argc, argv, &o, &words, &err);
}

static void check_refused(const char *part, int rc)
{
	assert_int_equal(rc, -KV_EINVAL);
	check_contains(err.text, part);
}

static void options_without_effect_are_refused(void **state)
{
	(void)state;
	check_refused("--local off", parse("ping", "--local-socket", "/s", "--local", "off", NULL));
	check_refused("--once", parse("events", "--once", "--new", NULL));
	check_refused("--once", parse("events", "--once", "--since", "a=1:1", NULL));
	check_refused("--json", parse("stat", "--watch", "1s", "--json", NULL));
	assert_int_equal(parse("events", "--new", "--since", "a=1:1", NULL), 0);
}

static void defaults_are_those_documented(void **state)
{
	(void)state;
	assert_int_equal(parse("ping", NULL), 0);
	assert_int_equal(words.count, 1);
	assert_int_equal(o.target.servers.count, 1);
	assert_string_equal(o.target.servers.item[0], "127.0.0.1:7411");
	assert_string_equal(o.target.provider, "auto");
	assert_int_equal(o.target.mode, KVC_MODE_AUTO);
	assert_int_equal(o.target.numa, KVC_NUMA_AUTO);
	assert_int_equal(o.log_level, KV_LOG_ERROR);
	assert_false(kv_opt_security_given(&o.security));
}

static void numa_and_mode_take_their_words(void **state)
{
	(void)state;
	assert_int_equal(parse("--numa", "off", "--mode", "pull", "ping", NULL), 0);
	assert_int_equal(o.target.numa, KVC_NUMA_OFF);
	assert_int_equal(o.target.mode, KVC_MODE_PULL);
	check_refused("auto or off", parse("--numa", "1", "ping", NULL));
}

static void certificates_belong_together(void **state)
{
	(void)state;
	check_refused("--cert, --key and --ca", parse("--cert", "c", "ping", NULL));
	check_refused("--psk-file", parse("--cert", "c", "--key", "k", "--ca", "a", "--psk-file", "p", "ping", NULL));
	assert_int_equal(parse("--cert", "c", "--key", "k", "--ca", "a", "ping", NULL), 0);
	assert_string_equal(o.security.key, "k");
	assert_int_equal(
		parse("--cert", "c", "--key", "k", "--ca", "a", "--crl", "l", "--server-name", "n", "ping", NULL), 0);
	assert_string_equal(o.security.crl, "l");
	assert_string_equal(o.security.server_name, "n");
	check_refused("--crl concerns certificates", parse("--crl", "l", "ping", NULL));
	check_refused("--server-name concerns certificates",
		      parse("--server-name", "n", "--psk-file", "p", "ping", NULL));
}

static void a_bad_address_is_a_usage_error(void **state)
{
	(void)state;
	check_refused("1:2:3", parse("--server", "1:2:3", "ping", NULL));
	check_refused("port 0 is no server's", parse("--server", "a=127.0.0.1:0", "ping", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_without_effect_are_refused), cmocka_unit_test(defaults_are_those_documented),
		cmocka_unit_test(numa_and_mode_take_their_words),     cmocka_unit_test(certificates_belong_together),
		cmocka_unit_test(a_bad_address_is_a_usage_error),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
