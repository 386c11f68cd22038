/* SPDX-License-Identifier: Apache-2.0 */
/* test_proof.c -- the proof that opens a further session: the values it is bound to, and the keys of many identities.
 */
#include "rig.h"

#include <stdio.h>

#define KEY_A "00112233445566778899aabbccddeeff"
#define KEY_B "ffeeddccbbaa99887766554433221100"

static const struct boot_challenge challenge = {.nonce = "nonce of the server, 32 bytes...",
						.token = "sixteen bytes !"};

static struct wire_session_open question(void)
{
	return (struct wire_session_open){.id = 7, .client_id = 99, .nonce = "nonce of the client, 32 bytes .."};
}

static struct boot_keys *keys_of(const char *text)
{
	struct boot_keys *keys = NULL;
	struct kv_error err = {0};
	if (boot_keys_load(rig_file("keys", text, 0600), &keys, &err))
		fail_msg("%s", err.text);
	return keys;
}

static struct boot_key *key_of(const char *text)
{
	struct boot_key *key = NULL;
	struct kv_error err = {0};
	if (boot_key_parse(text, &key, &err))
		fail_msg("%s", err.text);
	return key;
}

static void meet(struct rig *r, const struct boot_security *server, const struct boot_security *client)
{
	rig_init(r, server, client);
	rig_open_ok(r);
}

static void own_secret(const struct boot_security *server, const struct boot_security *client)
{
	struct wire_session_open open = question();
	struct rig r;
	meet(&r, server, client);
	assert_int_equal(boot_prove(r.c, &challenge, NULL, &open), 0);
	assert_string_equal(open.identity, "");
	assert_int_equal(boot_proof_check(r.s, &challenge, NULL, &open), 0);
	open.proof[31] ^= 1;
	assert_int_equal(boot_proof_check(r.s, &challenge, NULL, &open), -KV_EDENIED);
	rig_fini(&r);
}

static void the_connections_own_secret_is_enough_with_psk(void **state)
{
	struct boot_security psk = rig_security_psk();
	(void)state;
	own_secret(&psk, &psk);
}

static void the_connections_own_secret_is_enough_with_certificates(void **state)
{
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	(void)state;
	own_secret(&s, &c);
}

static void the_connections_own_secret_is_its_token_without_tls(void **state)
{
	const struct boot_security plain = {0};
	struct boot_challenge other = challenge;
	struct wire_session_open open = question();
	struct rig r;
	(void)state;
	own_secret(&plain, &plain);
	meet(&r, &plain, &plain);
	assert_int_equal(boot_prove(r.c, &challenge, NULL, &open), 0);
	other.token[0] ^= 1;
	assert_int_equal(boot_proof_check(r.s, &other, NULL, &open), -KV_EDENIED);
	rig_fini(&r);
}

/* Changing any input of a proof makes it wrong. */
static void every_part_counts(void **state)
{
	struct boot_security psk = rig_security_psk();
	struct boot_keys *keys = keys_of("team-a:" KEY_A "\nteam-b:" KEY_A "\n");
	struct boot_key *key = key_of("team-a:" KEY_A);
	struct boot_challenge other = challenge;
	struct wire_session_open open = question(), bad;
	struct rig r;
	(void)state;
	meet(&r, &psk, &psk);
	assert_int_equal(boot_prove(r.c, &challenge, key, &open), 0);
	assert_string_equal(open.identity, "team-a");
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &open), 0);
	bad = open;
	bad.id++;
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &bad), -KV_EDENIED);
	bad = open;
	bad.client_id++;
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &bad), -KV_EDENIED);
	bad = open;
	bad.nonce[31] ^= 1;
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &bad), -KV_EDENIED);
	bad = open;
	bad.proof[0] ^= 1;
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &bad), -KV_EDENIED);
	bad = open;
	bad.identity[5] = 'b'; /* this identity has the same key */
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &bad), -KV_EDENIED);
	other.nonce[31] ^= 1;
	assert_int_equal(boot_proof_check(r.s, &other, keys, &open), -KV_EDENIED);
	rig_fini(&r);
	boot_key_destroy(&key);
	boot_keys_destroy(&keys);
}

/* The same bytes on another connection of the same two ends: the exporter's value differs. */
static void a_response_is_worth_nothing_on_another_connection(void **state)
{
	struct boot_security psk = rig_security_psk();
	struct boot_keys *keys = keys_of("team-a:" KEY_A);
	struct boot_key *key = key_of("team-a:" KEY_A);
	struct wire_session_open named = question(), own = question();
	struct rig a, b;
	(void)state;
	meet(&a, &psk, &psk);
	meet(&b, &psk, &psk);
	assert_int_equal(boot_prove(a.c, &challenge, key, &named), 0);
	assert_int_equal(boot_prove(a.c, &challenge, NULL, &own), 0);
	assert_int_equal(boot_proof_check(a.s, &challenge, keys, &named), 0);
	assert_int_equal(boot_proof_check(a.s, &challenge, keys, &own), 0);
	assert_int_equal(boot_proof_check(b.s, &challenge, keys, &named), -KV_EDENIED);
	assert_int_equal(boot_proof_check(b.s, &challenge, keys, &own), -KV_EDENIED);
	rig_fini(&b);
	rig_fini(&a);
	boot_key_destroy(&key);
	boot_keys_destroy(&keys);
}

static void an_identity_needs_its_own_key(void **state)
{
	struct boot_security psk = rig_security_psk();
	struct boot_keys *keys = keys_of("team-a:" KEY_A "\nteam-b:" KEY_B);
	struct boot_key *wrong = key_of("team-a:" KEY_B), *unknown = key_of("team-c:" KEY_A);
	struct wire_session_open open = question();
	struct rig r;
	(void)state;
	meet(&r, &psk, &psk);
	assert_int_equal(boot_prove(r.c, &challenge, wrong, &open), 0);
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &open), -KV_EDENIED);
	assert_int_equal(boot_prove(r.c, &challenge, unknown, &open), 0);
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &open), -KV_EDENIED);
	assert_int_equal(boot_proof_check(r.s, &challenge, NULL, &open), -KV_EDENIED);
	rig_fini(&r);
	boot_key_destroy(&wrong);
	boot_key_destroy(&unknown);
	boot_keys_destroy(&keys);
}

/* An unknown identity is checked against a key of zeros, and a proof made with zeros must not pass. */
static void a_key_of_zeros_opens_nothing(void **state)
{
	struct boot_security psk = rig_security_psk();
	struct boot_keys *keys = keys_of("team-a:" KEY_A);
	struct boot_key *zeros = key_of("nobody:0000000000000000000000000000000000000000000000000000000000000000");
	struct wire_session_open open = question();
	struct rig r;
	(void)state;
	meet(&r, &psk, &psk);
	assert_int_equal(boot_prove(r.c, &challenge, zeros, &open), 0);
	assert_int_equal(boot_proof_check(r.s, &challenge, keys, &open), -KV_EDENIED);
	rig_fini(&r);
	boot_key_destroy(&zeros);
	boot_keys_destroy(&keys);
}

/* ---- files of keys ---- */

static void load_says(const char *text, unsigned mode, int code, const char *part)
{
	struct boot_keys *keys = NULL;
	struct kv_error err = {0};
	assert_int_equal(boot_keys_load(rig_file("keys", text, mode), &keys, &err), code);
	assert_null(keys);
	if (!strstr(err.text, part) || strstr(err.text, KEY_A))
		fail_msg("expected \"%s\", and no key, in: %s", part, err.text);
}

static void a_bad_key_is_named_as_the_sessions(void **state)
{
	struct boot_key *key = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(boot_key_parse("no colon", &key, &err), -KV_EINVAL);
	assert_null(key);
	assert_non_null(strstr(err.text, "the session's key, line 1: there is no ':'"));
}

static void a_file_of_keys_says_what_is_wrong_with_it(void **state)
{
	(void)state;
	load_says("# none\n\n", 0600, -KV_EINVAL, "holds no key");
	load_says("a:" KEY_A "\nb:12\n", 0600, -KV_EINVAL, "line 2: the key after the ':' is shorter");
	load_says("a:" KEY_A "\n" KEY_A "\n", 0600, -KV_EINVAL, "line 2: there is no ':'");
	load_says("a:" KEY_A "\nb:" KEY_A "\na:" KEY_B "\n", 0600, -KV_EINVAL, "two keys for identity a");
	load_says("a:" KEY_A "\n", 0644, -KV_EDENIED, "chmod 600");
}

static void thousands_of_identities_are_found(void **state)
{
	enum { N = 5000 };
	size_t cap = N * 64, len = 0;
	char *text = malloc(cap), name[64];
	struct boot_security psk = rig_security_psk();
	struct boot_keys *keys;
	struct rig r;
	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i < N; i++)
		len += (size_t)snprintf(text + len, cap - len, "tenant-%u:%032x\n", (i * 7919) % N, (i * 7919) % N + 1);
	keys = keys_of(text);
	meet(&r, &psk, &psk);
	for (unsigned i = 0; i < N; i += 499) {
		struct wire_session_open open = question();
		struct boot_key *key;
		snprintf(name, sizeof(name), "tenant-%u:%032x", i, i + 1);
		key = key_of(name);
		assert_int_equal(boot_prove(r.c, &challenge, key, &open), 0);
		assert_int_equal(boot_proof_check(r.s, &challenge, keys, &open), 0);
		boot_key_destroy(&key);
	}
	rig_fini(&r);
	boot_keys_destroy(&keys);
	free(text);
}

static int setup(void **state)
{
	(void)state;
	rig_certs();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_scratch_drop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_connections_own_secret_is_enough_with_psk),
		cmocka_unit_test(the_connections_own_secret_is_enough_with_certificates),
		cmocka_unit_test(the_connections_own_secret_is_its_token_without_tls),
		cmocka_unit_test(every_part_counts),
		cmocka_unit_test(a_response_is_worth_nothing_on_another_connection),
		cmocka_unit_test(an_identity_needs_its_own_key),
		cmocka_unit_test(a_key_of_zeros_opens_nothing),
		cmocka_unit_test(a_bad_key_is_named_as_the_sessions),
		cmocka_unit_test(a_file_of_keys_says_what_is_wrong_with_it),
		cmocka_unit_test(thousands_of_identities_are_found),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
