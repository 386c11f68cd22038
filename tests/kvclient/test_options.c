/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c -- every refusal of kvc_pool_open that needs no server: its code and its sentence; and the defaults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/host.h"
#include "kvclient/pool/private.h"
#include "tests/provider.h"

static const char *const one[] = {"127.0.0.1:1"};

static struct kvc_options good(void)
{
	return (struct kvc_options){
		.size = sizeof(struct kvc_options), .servers = one, .num_servers = 1, .flags = KVC_OPEN_WAIT};
}

static void zero_means_the_default(void **state)
{
	struct kvc_options o = good(), f;
	(void)state;
	assert_int_equal(kc_options_fill(&o, &f, NULL), 0);
	assert_int_equal(f.num_clients, 4);
	assert_in_range(f.num_threads, 1, 4);
	assert_true(f.num_threads == 1 || f.num_threads == 4 || f.num_threads == kv_cpus_available() / 2);
	assert_int_equal(f.num_rails, 0); /* the engine decides */
	assert_int_equal(f.buffer_bytes, 64 << 20);
	assert_int_equal(f.timeout_ns, 5000000000ull);
	assert_int_equal(f.grace_ns, 200000000ull);
	assert_int_equal(f.connect_timeout_ns, 5000000000ull);
	assert_int_equal(f.base_client_id, 100);
}

static void shm_has_four_threads_since_the_client_copies(void **state)
{
	struct kvc_options o = good(), f;
	(void)state;
	o.provider = "shm";
	assert_int_equal(kc_options_fill(&o, &f, NULL), 0);
	assert_int_equal(f.num_threads, 4);
	o.num_threads = 1;
	assert_int_equal(kc_options_fill(&o, &f, NULL), 0);
	assert_int_equal(f.num_threads, 1);
}

static void options_of_an_older_header_are_completed(void **state)
{
	struct kvc_options o = good(), f;
	(void)state;
	o.size = offsetof(struct kvc_options, psk_file);
	o.psk = "not looked at";
	o.psk_file = "neither";
	assert_int_equal(kc_options_fill(&o, &f, NULL), 0);
	assert_null(f.psk);
	assert_int_equal(f.size, sizeof(f));
}

static void refused(const struct kvc_options *o, const char *words)
{
	struct kv_error err = {0};
	struct kvc_options f;
	assert_int_equal(kc_options_fill(o, &f, &err), -KV_EINVAL);
	assert_int_equal(err.code, -KV_EINVAL);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void bad_options_are_refused_with_a_sentence(void **state)
{
	char long_name[109] = "";
	static const char *const twice[] = {"127.0.0.1:1", "127.0.0.1:1"}, *const null[] = {NULL},
				 *const names[] = {"a=127.0.0.1:1", "a=127.0.0.1:2"},
				 *const same[] = {"a=Host:1", "b=http://host:1/"}, *const bad[] = {"host:port"},
				 *const nowhere[] = {":7411"}, *const no_host[] = {"a="}, *const nothing[] = {""};
	struct kvc_options o = {0};
	(void)state;
	refused(NULL, "no options");
	refused(&o, "size");
	o = good(), o.num_servers = 0;
	refused(&o, "no server");
	o = good(), o.servers = twice, o.num_servers = 2;
	refused(&o, "twice");
	o = good(), o.servers = names, o.num_servers = 2;
	refused(&o, "its own name");
	o = good(), o.servers = same, o.num_servers = 2;
	refused(&o, "a=Host:1 and b=host:1");
	o = good(), o.servers = null;
	refused(&o, "NULL");
	o = good(), o.servers = bad;
	refused(&o, "host:port");
	o = good(), o.servers = nowhere;
	refused(&o, "':7411' names no host; a server is HOST:PORT or NAME=HOST:PORT");
	o = good(), o.servers = no_host;
	refused(&o, "'a=' names no host");
	o = good(), o.servers = nothing;
	refused(&o, "'' names no host");
	o = good(), o.num_clients = 5000;
	refused(&o, "num_clients");
	o = good(), o.num_threads = 1000;
	refused(&o, "num_threads");
	o = good(), o.num_rails = 33;
	refused(&o, "num_rails");
	o = good(), o.buffer_bytes = 4096;
	refused(&o, "1 MiB");
	o = good(), o.grace_ns = UINT64_MAX;
	refused(&o, "a minute");
	o = good(), o.flags = 0x100000;
	refused(&o, "flags");
	o = good(), o.flags = KVC_SEAL_NAMES;
	refused(&o, "seal_key_file");
	o = good(), o.psk_file = "/key", o.seal_key_file = "/key";
	refused(&o, "make another file");
	o = good(), o.flags = KVC_EXACT;
	refused(&o, "KVC_EXACT is a flag of a call");
	o = good(), o.flags = KVC_BACKGROUND;
	refused(&o, "KVC_BACKGROUND is a flag of a call");
	o = good(), o.peer_timeout_ns = 1;
	refused(&o, "peer_timeout_ns");
	o = good(), o.numa = (enum kvc_numa)2;
	refused(&o, "numa is 2");
	o = good(), o.mode = (enum kvc_mode)3;
	refused(&o, "mode is 3");
	o = good(), o.door = (enum kvc_door)3;
	refused(&o, "door is 3");
	o = good(), o.local = (enum kvc_local)2;
	refused(&o, "local is 2");
	o = good(), o.local_socket = memset(long_name, 'x', sizeof(long_name) - 1);
	refused(&o, "local_socket has 108 bytes");
	o = good(), o.psk = "a:00", o.psk_file = "f";
	refused(&o, "twice");
	o = good(), o.cert_file = "c";
	refused(&o, "all three");
	o = good(), o.psk = "a:00", o.cert_file = o.key_file = o.ca_file = "c";
	refused(&o, "one of them");
	o = good(), o.server_name = "kv.example";
	refused(&o, "server_name is given without certificates");
	o = good(), o.psk = "a:00", o.crl_file = "c";
	refused(&o, "crl_file is given without certificates");
}

static void opening_needs_a_place_for_the_pool(void **state)
{
	struct kvc_options o = good();
	struct kv_error err;
	(void)state;
	assert_int_equal(kvc_pool_open(&o, NULL, &err), -KV_EINVAL);
}

static void a_file_that_is_not_there_is_invalid_and_named(void **state)
{
	struct kvc_options o = good();
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	o.num_clients = o.num_threads = 1;
	o.buffer_bytes = 1 << 20;
	o.provider = test_provider();
	for (unsigned i = 0; i < 2; i++) {
		o.psk_file = i == 0 ? "/nonexistent/key" : NULL;
		o.cert_file = o.key_file = o.ca_file = i == 0 ? NULL : "/nonexistent/key";
		assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EINVAL);
		assert_int_equal(err.code, -KV_EINVAL);
		assert_null(pool);
		if (!strstr(err.text, "/nonexistent/key: No such file"))
			fail_msg("\"%s\" does not name the file and what is wrong with it", err.text);
	}
}

static void a_server_that_does_not_answer_is_peer_down_and_named(void **state)
{
	struct kvc_options o = good();
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	o.num_clients = o.num_threads = 1;
	o.buffer_bytes = 1 << 20;
	o.provider = test_provider();
	o.connect_timeout_ns = 2000000000ull;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EPEERDOWN);
	assert_null(pool);
	if (!strstr(err.text, "127.0.0.1:1"))
		fail_msg("\"%s\" does not name the server", err.text);
}

static void a_provider_that_is_not_there_is_refused(void **state)
{
	struct kvc_options o = good();
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	o.provider = "nosuch";
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_ENOTSUP);
	assert_null(pool);
	if (!strstr(err.text, "nosuch"))
		fail_msg("\"%s\" does not name the provider", err.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_means_the_default),
		cmocka_unit_test(shm_has_four_threads_since_the_client_copies),
		cmocka_unit_test(options_of_an_older_header_are_completed),
		cmocka_unit_test(bad_options_are_refused_with_a_sentence),
		cmocka_unit_test(opening_needs_a_place_for_the_pool),
		cmocka_unit_test(a_file_that_is_not_there_is_invalid_and_named),
		cmocka_unit_test(a_server_that_does_not_answer_is_peer_down_and_named),
		cmocka_unit_test(a_provider_that_is_not_there_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
