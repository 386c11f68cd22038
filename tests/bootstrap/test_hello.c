/* SPDX-License-Identifier: Apache-2.0 */
/* test_hello.c -- which sides may talk over the fabric, and the sentence for a refusal. */
#include "rig.h"

#include <stdio.h>

static struct boot_identity identity(const char *provider, const char *fabric, uint32_t eager)
{
	struct boot_identity id = {.eager_bytes = eager};
	snprintf(id.provider, sizeof(id.provider), "%s", provider);
	snprintf(id.fabric, sizeof(id.fabric), "%s", fabric);
	return id;
}

static void differs(struct boot_identity ours, struct boot_identity theirs, const char *sentence)
{
	struct kv_error err = {0};
	assert_int_equal(boot_hello_check(&ours, "this server", &theirs, "the client", &err), -KV_EVERSION);
	assert_int_equal(err.code, -KV_EVERSION);
	assert_string_equal(err.text, sentence);
	assert_int_equal(boot_hello_check(&ours, "this server", &theirs, "the client", NULL), -KV_EVERSION);
}

static void agrees(struct boot_identity ours, struct boot_identity theirs)
{
	struct kv_error err = {0};
	if (boot_hello_check(&ours, "this server", &theirs, "the client", &err))
		fail_msg("%s", err.text);
}

static void two_of_the_same_fabric_agree(void **state)
{
	(void)state;
	agrees(identity("efa", "efa", 0), identity("efa", "efa", 0));
	agrees(identity("efa", "efa-direct", 0), identity("efa", "efa-direct", 0));
	agrees(identity("tcp;ofi_rxm", "127.0.0.0/8", 16384), identity("tcp;ofi_rxm", "127.0.0.0/8", 16384));
}

static void another_subnet_is_no_difference(void **state)
{
	(void)state;
	agrees(identity("tcp;ofi_rxm", "10.0.0.0/24", 16384), identity("tcp;ofi_rxm", "10.0.1.0/24", 16384));
	agrees(identity("verbs;ofi_rxm", "IB-0xfe80000000000000", 16384),
	       identity("verbs;ofi_rxm", "IB-0xfe80000000000001", 16384));
}

static void other_providers_differ(void **state)
{
	(void)state;
	differs(identity("efa", "efa", 0), identity("tcp;ofi_rxm", "10.0.0.0/24", 16384),
		"the providers differ: \"efa\" on this server, \"tcp;ofi_rxm\" on the client: "
		"choose the same provider on both sides");
}

static void other_efa_fabrics_differ(void **state)
{
	(void)state;
	differs(identity("efa", "efa", 0), identity("efa", "efa-direct", 0),
		"the EFA fabrics differ: \"efa\" on this server, \"efa-direct\" on the client, "
		"and the two cannot talk to each other: choose the same fabric on both sides");
}

static void other_eager_sizes_of_rxm_name_the_variable(void **state)
{
	(void)state;
	differs(identity("verbs;ofi_rxm", "x", 16384), identity("verbs;ofi_rxm", "y", 4096),
		"the eager sizes differ: 16384 bytes on this server, 4096 bytes on the client, and provider "
		"verbs;ofi_rxm needs them equal:"
		" set the environment variable FI_OFI_RXM_BUFFER_SIZE to the same value on both sides");
}

static void other_eager_sizes_elsewhere_name_the_version(void **state)
{
	(void)state;
	differs(identity("shm", "shm", 4096), identity("shm", "shm", 0),
		"the eager sizes differ: 4096 bytes on this server, 0 bytes on the client: use the same libfabric "
		"version and the same FI_*"
		" environment variables for provider shm on both sides");
}

/* Names from the network: with control characters, and without a final 0. */
static void names_from_the_network_are_printed_harmlessly(void **state)
{
	(void)state;
	struct boot_identity theirs = identity("\x1b[31mefa\n", "efa", 0);
	differs(identity("efa", "efa", 0), theirs,
		"the providers differ: \"efa\" on this server, \"?[31mefa?\" on the client: "
		"choose the same provider on both sides");
	struct kv_error err;
	memset(&theirs, 'x', sizeof(theirs));
	struct boot_identity ours = theirs;
	ours.eager_bytes = 1;
	assert_int_equal(boot_hello_check(&ours, "us", &theirs, "them", &err), -KV_EVERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_of_the_same_fabric_agree),
		cmocka_unit_test(another_subnet_is_no_difference),
		cmocka_unit_test(other_providers_differ),
		cmocka_unit_test(other_efa_fabrics_differ),
		cmocka_unit_test(other_eager_sizes_of_rxm_name_the_variable),
		cmocka_unit_test(other_eager_sizes_elsewhere_name_the_version),
		cmocka_unit_test(names_from_the_network_are_printed_harmlessly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
