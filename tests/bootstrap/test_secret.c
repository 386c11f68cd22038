/* SPDX-License-Identifier: Apache-2.0 */
/* test_secret.c -- texts and files of keys, and the sentences of boot_context_create about bad ones. */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/secret.h"

#define HEX32 "00112233445566778899aabbCCDDEEFF"

static int parse(const char *text, struct secret_psk *out, struct kv_error *err)
{
	return secret_psk_parse(text, strlen(text), "the text", out, err);
}

static void good_key_texts_are_read(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"id:" HEX32,
		"id:" HEX32 "\n",
		"# comment: with a colon\n\n   \t\n  id:" HEX32 " \t\r\n#end",
		"\r\nid:" HEX32 "\r\n\r\n",
	};
	for (size_t i = 0; i < KV_COUNT(texts); i++) {
		struct secret_psk psk;
		struct kv_error err = {0};
		if (parse(texts[i], &psk, &err))
			fail_msg("text %zu: %s", i, err.text);
		assert_string_equal(psk.identity, "id");
		assert_int_equal(psk.key_len, 16);
		for (unsigned b = 0; b < 16; b++)
			assert_int_equal(psk.key[b], b * 0x11);
	}
}

static void an_identity_may_have_colons(void **state)
{
	(void)state;
	struct secret_psk psk;
	assert_int_equal(parse("rack:7:node:" HEX32, &psk, NULL), 0);
	assert_string_equal(psk.identity, "rack:7:node");
}

static void the_longest_identity_and_key_fit(void **state)
{
	(void)state;
	char text[512] = {0};
	struct secret_psk psk;
	memset(text, 'i', SECRET_IDENTITY_MAX);
	text[SECRET_IDENTITY_MAX] = ':';
	memset(text + SECRET_IDENTITY_MAX + 1, 'f', 2 * SECRET_KEY_MAX);
	assert_int_equal(parse(text, &psk, NULL), 0);
	assert_int_equal(strlen(psk.identity), SECRET_IDENTITY_MAX);
	assert_int_equal(psk.key_len, SECRET_KEY_MAX);
	for (unsigned b = 0; b < SECRET_KEY_MAX; b++)
		assert_int_equal(psk.key[b], 0xff);
}

static void bad_key_texts_say_what_is_wrong(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "the text holds no key"},
		{"\n# only\n", "the text holds no key"},
		{HEX32, "the text, line 1: there is no ':'"},
		{":" HEX32, "line 1: the identity before the ':' is missing"},
		{"a b:" HEX32, "line 1: the identity before the ':' must be printable ASCII"},
		{"\xc3\xa9:" HEX32, "line 1: the identity before the ':' must be printable ASCII"},
		{"#\n\nid:" HEX32 "0", "line 3: the key after the ':' has an odd number"},
		{"id:0011223344556677", "line 1: the key after the ':' is shorter than 16 bytes"},
		{"id:", "line 1: the key after the ':' is shorter than 16 bytes"},
		{"id:0x" HEX32, "line 1: the key after the ':' must be hexadecimal digits only"},
		{"id: " HEX32, "line 1: the key after the ':' must be hexadecimal digits only"},
		{"id:" HEX32 HEX32 HEX32 HEX32 "00", "line 1: the key after the ':' is longer than 64 bytes"},
		{"id:" HEX32 "\nid2:" HEX32, "line 2: there is a second key"},
		{"#\nid:" HEX32 "id2:" HEX32, "line 2: two keys are in one line; end the first with a line feed"},
	};
	for (size_t i = 0; i < KV_COUNT(bad); i++) {
		struct secret_psk psk;
		struct kv_error err = {0};
		memset(&psk, 0x77, sizeof(psk));
		assert_int_equal(parse(bad[i].text, &psk, &err), -KV_EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("text %zu: expected \"%s\" in: %s", i, bad[i].says, err.text);
		for (size_t b = 0; b < sizeof(psk); b++)
			assert_int_equal(((uint8_t *)&psk)[b], 0x77); /* untouched */
	}
}

static int parse_psks(const char *text, struct secret_psks *out, struct kv_error *err)
{
	return secret_psks_parse(text, strlen(text), "the file", out, err);
}

static void a_file_has_several_keys(void **state)
{
	(void)state;
	struct secret_psks keys;
	assert_int_equal(parse_psks("# old\nold:" HEX32 "\n# new\nnew:" HEX32 HEX32 "\n", &keys, NULL), 0);
	assert_int_equal(keys.count, 2);
	assert_string_equal(keys.key[0].identity, "old");
	assert_int_equal(keys.key[0].key_len, 16);
	assert_string_equal(keys.key[1].identity, "new");
	assert_int_equal(keys.key[1].key_len, 32);
	secret_psks_fini(&keys);
}

static void bad_files_of_keys_say_what_is_wrong(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"#\n", "the file holds no key"},
		{"a:" HEX32 "\nb:00", "line 2: the key after the ':' is shorter"},
		{"a:" HEX32 "b:" HEX32 "\n", "line 1: two keys are in one line"},
		{"a:" HEX32 "\n\na:" HEX32 "\n", "line 3: a second key for the identity a"},
	};
	for (size_t i = 0; i < KV_COUNT(bad); i++) {
		struct secret_psks keys = {.count = 77};
		struct kv_error err = {0};
		assert_int_equal(parse_psks(bad[i].text, &keys, &err), -KV_EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("text %zu: expected \"%s\" in: %s", i, bad[i].says, err.text);
		assert_null(strstr(err.text, HEX32));
		assert_int_equal(keys.count, 77); /* untouched */
	}
}

static void a_file_has_a_thousand_keys_and_not_more_than_it_may(void **state)
{
	enum { LINE = 48 };
	char *text = malloc((SECRET_PSKS_MAX + 1) * LINE + 1);
	struct secret_psks keys;
	struct kv_error err;
	size_t len = 0;
	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i <= SECRET_PSKS_MAX; i++) {
		if (i == SECRET_PSKS_MAX) {
			assert_int_equal(parse_psks(text, &keys, &err), 0);
			assert_int_equal(keys.count, SECRET_PSKS_MAX);
			assert_string_equal(secret_psks_own(&keys)->identity, "k4095#1");
			secret_psks_fini(&keys);
		}
		len += (size_t)snprintf(text + len, LINE, "k%u#1:%s\n", i, HEX32);
	}
	assert_int_equal(parse_psks(text, &keys, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "line 4097: there are more than 4096 keys"));
	free(text);
}

static void an_identity_that_is_too_long_is_refused(void **state)
{
	(void)state;
	char text[512];
	struct secret_psk psk;
	struct kv_error err;
	memset(text, 'i', sizeof(text));
	snprintf(text + SECRET_IDENTITY_MAX + 1, 64, ":%s", HEX32);
	assert_int_equal(parse(text, &psk, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "longer than 128 characters"));
}

/* No error repeats text that may be a key. */
static void no_error_repeats_what_may_be_a_key(void **state)
{
	(void)state;
	static const char *const bad[] = {"deadbeefdeadbeefdeadbeefdeadbeef", "id:deadbeefdeadbeef",
					  "id:deadbeefdeadbeefdeadbeefdeadbeefx",
					  "de ad:deadbeefdeadbeefdeadbeefdeadbeef",
					  "id:deadbeefdeadbeefdeadbeefdeadbeef\nid:deadbeefdeadbeefdeadbeefdeadbeef"};
	for (size_t i = 0; i < KV_COUNT(bad); i++) {
		struct secret_psk psk;
		struct kv_error err;
		assert_int_equal(parse(bad[i], &psk, &err), -KV_EINVAL);
		assert_null(strstr(err.text, "dead"));
	}
}

static void zero_bytes_are_refused(void **state)
{
	(void)state;
	static const char text[] = "id:" HEX32 "\0" HEX32;
	struct secret_psk psk;
	assert_int_equal(secret_psk_parse(text, sizeof(text) - 1, "x", &psk, NULL), -KV_EINVAL);
	assert_int_equal(secret_psk_parse(text, 0, "x", &psk, NULL), -KV_EINVAL);
}

/* ---- files ---- */

static void create_says(const struct boot_security *s, bool server, int rc, const char *text, const char *text2)
{
	struct boot_context *ctx = NULL;
	struct kv_error err = {0};
	int got = boot_context_create(s, server, NULL, &ctx, &err);
	print_message("%s\n", err.text);
	assert_int_equal(got, rc);
	assert_int_equal(err.code, rc);
	assert_null(ctx);
	if (!strstr(err.text, text) || !strstr(err.text, text2))
		fail_msg("expected \"%s\" and \"%s\" in: %s", text, text2, err.text);
}

static void a_key_file_that_others_may_use_is_refused(void **state)
{
	(void)state;
	static const unsigned bad[] = {0640, 0604, 0620, 0602, 0644, 0777}, good[] = {0600, 0400, 0700};
	for (size_t i = 0; i < KV_COUNT(bad); i++) {
		struct boot_security s = {.psk_file = rig_file("mode.psk", "id:" HEX32 "\n", bad[i])};
		char command[512];
		snprintf(command, sizeof(command), "chmod 600 %s", s.psk_file);
		create_says(&s, true, -KV_EDENIED, command, "PSK file");
	}
	for (size_t i = 0; i < KV_COUNT(good); i++) {
		struct secret_psks psks;
		assert_int_equal(secret_psks_load(rig_file("mode.psk", "id:" HEX32 "\n", good[i]), &psks, NULL), 0);
		secret_psks_fini(&psks);
	}
}

static void a_private_key_that_others_may_use_is_refused(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server");
	assert_int_equal(chmod(s.key_file, 0640), 0);
	create_says(&s, true, -KV_EDENIED, "chmod 600", s.key_file);
	assert_int_equal(chmod(s.key_file, 0600), 0);
}

static void a_bad_key_file_names_itself_and_the_line(void **state)
{
	(void)state;
	struct boot_security s = {.psk_file = rig_file("bad.psk", "# one\n# two\nnonsense\n", 0600)};
	create_says(&s, false, -KV_EINVAL, s.psk_file, "line 3: there is no ':'");
	s.psk_file = rig_file("empty.psk", "", 0600);
	create_says(&s, false, -KV_EINVAL, s.psk_file, "holds no key");
	s.psk_file = rig_path(".", "none.psk");
	create_says(&s, false, -ENOENT, s.psk_file, "cannot open the PSK file");
	s.psk_file = rig_scratch();
	create_says(&s, false, -KV_EINVAL, s.psk_file, "not a regular file");
	assert_int_equal(mkfifo(rig_path(".", "pipe"), 0600), 0);
	s.psk_file = rig_path(".", "pipe"); /* must not wait for a writer */
	create_says(&s, false, -KV_EINVAL, s.psk_file, "not a regular file");
}

static void a_key_file_that_is_too_long_is_refused(void **state)
{
	(void)state;
	char *text = malloc(SECRET_PSKS_FILE_MAX + 2);
	memset(text, '\n', SECRET_PSKS_FILE_MAX + 1);
	memcpy(text, "id:" HEX32, 35);
	text[SECRET_PSKS_FILE_MAX + 1] = 0;
	struct boot_security s = {.psk_file = rig_file("long.psk", text, 0600)};
	create_says(&s, false, -KV_EINVAL, s.psk_file, "longer than 1024 KiB");
	text[SECRET_PSKS_FILE_MAX] = 0;
	struct secret_psks psks;
	assert_int_equal(secret_psks_load(rig_file("long.psk", text, 0600), &psks, NULL), 0);
	secret_psks_fini(&psks);
	free(text);
}

/* ---- settings that contradict each other, files that hold no certificate ---- */

static void settings_that_contradict_each_other_are_refused(void **state)
{
	(void)state;
	struct boot_security cert = rig_security_cert("certs", "client"), s = cert;
	s.psk = "id:" HEX32;
	create_says(&s, false, -KV_EINVAL, "psk", "choose one");
	s = (struct boot_security){.psk = "id:" HEX32, .psk_file = "somewhere"};
	create_says(&s, false, -KV_EINVAL, "both as text and as file somewhere", "give one");
	s = cert, s.cert_file = NULL;
	create_says(&s, false, -KV_EINVAL, "the certificate file is missing", "");
	s = cert, s.key_file = NULL;
	create_says(&s, false, -KV_EINVAL, "the key file is missing", "");
	s = cert, s.ca_file = NULL;
	create_says(&s, false, -KV_EINVAL, "the CA file is missing", "");
	s = cert, s.server_name = "";
	create_says(&s, false, -KV_EINVAL, "the server name to check is empty", "");
	s = cert, s.server_name = "kv.example";
	create_says(&s, true, -KV_EINVAL, "only a client that uses certificates can check it", "");
	s = (struct boot_security){.psk = "id:" HEX32, .server_name = "kv.example"};
	create_says(&s, false, -KV_EINVAL, "only a client that uses certificates can check it", "");
	s = (struct boot_security){.psk = "id:" HEX32, .crl_file = "crl.pem"};
	create_says(&s, false, -KV_EINVAL, "a CRL file is given, but no certificates", "");
	s = (struct boot_security){.psk = "nonsense"};
	create_says(&s, false, -KV_EINVAL, "the PSK text, line 1", "no ':'");
}

static void certificate_files_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	const struct boot_security good = rig_security_cert("certs", "server"),
				   foreign = rig_security_cert("foreign", "server");
	struct boot_security s = good;
	s.cert_file = rig_path("certs", "none.pem");
	create_says(&s, true, -ENOENT, s.cert_file, "cannot open the certificate file");
	s = good, s.ca_file = rig_path("certs", "none.pem");
	create_says(&s, true, -ENOENT, s.ca_file, "cannot open the CA file");
	s = good, s.cert_file = rig_file("text.pem", "not a certificate", 0644);
	create_says(&s, true, -KV_EINVAL, s.cert_file, "cannot read a PEM certificate from");
	s = good, s.ca_file = rig_file("ca.pem", "", 0644);
	create_says(&s, true, -KV_EINVAL, s.ca_file, "cannot read a PEM CA certificate from");
	s = good, s.key_file = rig_file("text.key", "not a key", 0600);
	create_says(&s, true, -KV_EINVAL, s.key_file, "holds no private key");
	s = good, s.key_file = foreign.key_file;
	create_says(&s, true, -KV_EINVAL, s.key_file, "does not belong to certificate");
	s = good, s.key_file = rig_path("certs", "none.key");
	create_says(&s, true, -ENOENT, s.key_file, "cannot open the key file");
}

/* A list that cannot be used is reported at the start, and not by refusing every client. */
static void a_revocation_list_that_cannot_be_used_is_refused_at_the_start(void **state)
{
	(void)state;
	const struct boot_security good = rig_security_cert("certs", "server");
	struct boot_security s = good;
	s.crl_file = rig_path("certs", "none.pem");
	create_says(&s, true, -ENOENT, s.crl_file, "cannot open the CRL file");
	s.crl_file = rig_scratch();
	create_says(&s, true, -KV_EINVAL, s.crl_file, "is not a regular file of at most 16 MiB");
	s.crl_file = rig_file("empty.pem", "", 0644);
	create_says(&s, true, -KV_EINVAL, s.crl_file, "cannot read a PEM revocation list (X509 CRL) from");
	s.crl_file = good.ca_file;
	create_says(&s, true, -KV_EINVAL, s.crl_file, "cannot read a PEM revocation list (X509 CRL) from");
	s.crl_file = rig_file("half.pem", "-----BEGIN X509 CRL-----\nMIIB", 0644);
	create_says(&s, true, -KV_EINVAL, s.crl_file, "cannot read a PEM revocation list (X509 CRL) from");
	s.crl_file = rig_path("certs", "old-crl.pem");
	create_says(&s, true, -KV_EINVAL, s.crl_file, "has expired: fetch the CA's present one");
	s.crl_file = rig_path("certs", "early-crl.pem");
	create_says(&s, true, -KV_EINVAL, s.crl_file, "is not valid yet: is this machine's clock right?");
}

/* An encrypted key must be refused with a sentence; OpenSSL must not ask for the passphrase on the terminal. */
static void an_encrypted_key_is_refused_without_asking(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server");
	char command[1024];
	snprintf(command, sizeof(command), "openssl pkey -in %s -aes128 -passout pass:x -out %s/locked.key", s.key_file,
		 rig_scratch());
	assert_int_equal(system(command), 0);
	s.key_file = rig_path(".", "locked.key");
	create_says(&s, true, -KV_EINVAL, s.key_file, "is encrypted");
}

static int drop_scratch(void **state)
{
	(void)state;
	rig_scratch_drop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_key_texts_are_read),
		cmocka_unit_test(an_identity_may_have_colons),
		cmocka_unit_test(the_longest_identity_and_key_fit),
		cmocka_unit_test(bad_key_texts_say_what_is_wrong),
		cmocka_unit_test(a_file_has_several_keys),
		cmocka_unit_test(bad_files_of_keys_say_what_is_wrong),
		cmocka_unit_test(a_file_has_a_thousand_keys_and_not_more_than_it_may),
		cmocka_unit_test(an_identity_that_is_too_long_is_refused),
		cmocka_unit_test(no_error_repeats_what_may_be_a_key),
		cmocka_unit_test(zero_bytes_are_refused),
		cmocka_unit_test(a_key_file_that_others_may_use_is_refused),
		cmocka_unit_test(a_private_key_that_others_may_use_is_refused),
		cmocka_unit_test(a_bad_key_file_names_itself_and_the_line),
		cmocka_unit_test(a_key_file_that_is_too_long_is_refused),
		cmocka_unit_test(settings_that_contradict_each_other_are_refused),
		cmocka_unit_test(certificate_files_that_do_not_fit_are_refused),
		cmocka_unit_test(a_revocation_list_that_cannot_be_used_is_refused_at_the_start),
		cmocka_unit_test(an_encrypted_key_is_refused_without_asking),
	};
	return cmocka_run_group_tests(tests, NULL, drop_scratch);
}
