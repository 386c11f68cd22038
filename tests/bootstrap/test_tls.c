/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls.c -- which clients are let in, which are not, and the sentence that each side gets. */
#include "rig.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "bootstrap/context.h"
#include "bootstrap/trust.h"
#include "tests/short.h"

static const struct boot_security plain;

/* The time of day that OpenSSL reads (time in 3.0, gettimeofday later): while it is set, hours forward at each look. */
static bool time_is_set;
static unsigned looks;

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	*out = (struct timeval){.tv_sec = now.tv_sec + (time_is_set ? 7200L * looks++ : 0),
				.tv_usec = now.tv_nsec / 1000};
	return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *out)
{
	struct timeval now;
	gettimeofday(&now, NULL);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

static void says(const struct kv_error *err, const char *part)
{
	if (!strstr(err->text, part))
		fail_msg("expected \"%s\" in: %s", part, err->text);
}

static void both_denied(struct rig *r, const char *client_says, const char *server_says)
{
	print_message("client: %s\nserver: %s\n", r->c_err.text, r->s_err.text);
	assert_int_equal(r->c_rc, -KV_EDENIED);
	assert_int_equal(r->s_rc, -KV_EDENIED);
	assert_int_equal(r->c_err.code, -KV_EDENIED);
	assert_int_equal(r->s_err.code, -KV_EDENIED);
	assert_null(r->c);
	assert_null(r->s);
	says(&r->c_err, client_says);
	says(&r->s_err, server_says);
	says(&r->c_err, "127.0.0.1:");
	says(&r->s_err, "127.0.0.1:");
}

static void open_denied(const struct boot_security *server, const struct boot_security *client, const char *client_says,
			const char *server_says)
{
	struct rig r;
	rig_init(&r, server, client);
	rig_open(&r);
	both_denied(&r, client_says, server_says);
	rig_fini(&r);
}

/* One heartbeat each way. */
static void ping(struct rig *r)
{
	struct wire_ctrl_msg m = rig_heartbeat(7), got;
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 5 * SECOND)), 0);
	assert_int_equal(boot_recv_await(r->s, &got, rig_in(r, 5 * SECOND)), 0);
	assert_int_equal(got.type, WIRE_CTRL_HEARTBEAT);
	assert_int_equal(got.heartbeat.sequence, 7);
	m = rig_heartbeat(8);
	assert_int_equal(boot_send_await(r->s, &m, rig_in(r, 5 * SECOND)), 0);
	assert_int_equal(boot_recv_await(r->c, &got, rig_in(r, 5 * SECOND)), 0);
	assert_int_equal(got.heartbeat.sequence, 8);
}

static void open_works(const struct boot_security *server, const struct boot_security *client, enum boot_mode mode)
{
	struct rig r;
	rig_init(&r, server, client);
	assert_int_equal(boot_context_mode(r.server), mode);
	assert_int_equal(boot_context_mode(r.client), mode);
	rig_open_ok(&r);
	assert_int_equal(strncmp(boot_peer_name(r.c), "127.0.0.1:", 10), 0);
	rig_spawn(&r, ping);
	rig_run(&r);
	rig_fini(&r);
}

static void two_without_tls_connect(void **state)
{
	(void)state;
	open_works(&plain, &plain, BOOT_PLAIN);
}

static void two_with_one_key_connect(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk();
	open_works(&s, &s, BOOT_PSK);
}

/* A key is no session that grows old. */
static void the_time_of_day_may_be_set_meanwhile(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk();
	looks = 0;
	time_is_set = true;
	open_works(&s, &s, BOOT_PSK);
	time_is_set = false;
	assert_true(looks > 1); /* else OpenSSL reads another clock, and this test sees nothing */
}

static void a_key_from_a_file_connects(void **state)
{
	(void)state;
	char text[256];
	snprintf(text, sizeof(text), "# the key of the bench\n\n  %s \r\n", rig_psk);
	struct boot_security server = {.psk_file = rig_file("good.psk", text, 0600)}, client = rig_security_psk();
	open_works(&server, &client, BOOT_PSK);
}

static void two_with_certificates_connect(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	open_works(&s, &c, BOOT_CERT);
}

static void any_name_of_a_certificate_connects(void **state)
{
	(void)state;
	static const char *const names[] = {"kv.example", "localhost", "127.0.0.1", "::1"};
	for (size_t i = 0; i < KV_COUNT(names); i++) {
		struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
		c.server_name = names[i];
		open_works(&s, &c, BOOT_CERT);
	}
}

static void another_key_of_the_same_identity_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk(), c = {.psk = "bench:ffeeddccbbaa99887766554433221100"};
	open_denied(&s, &c, "the pre-shared keys differ", "the pre-shared keys differ");
}

static void an_unknown_identity_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk(), c = {.psk = "stranger:00112233445566778899aabbccddeeff"};
	open_denied(&s, &c, "knows no PSK identity \"stranger\"", "PSK identity is \"stranger\", ours is \"bench\"");
}

static void the_begin_of_an_identity_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk(),
			     c = {.psk = "ben:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
	open_denied(&s, &c, "knows no PSK identity \"ben\"", "PSK identity is \"ben\"");
}

static void a_client_of_another_ca_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("foreign", "client");
	c.ca_file = rig_path("certs", "ca.pem");
	open_denied(&s, &c, "it refused our certificate", "was not issued by the CA in our CA file");
}

static void a_server_of_another_ca_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("foreign", "server"), c = rig_security_cert("certs", "client");
	open_denied(&s, &c, "was not issued by the CA in our CA file", "it refused our certificate");
}

static void a_certificate_with_another_name_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	c.server_name = "elsewhere.example";
	open_denied(&s, &c, "does not name \"elsewhere.example\"", "it refused our certificate");
}

static void a_certificate_with_another_address_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	c.server_name = "10.1.2.3";
	open_denied(&s, &c, "does not name \"10.1.2.3\"", "it refused our certificate");
}

/* A client's certificate must not pass as a server's. */
static void a_clients_certificate_serves_no_server(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "client"), c = rig_security_cert("certs", "client");
	open_denied(&s, &c, "extended key usage lacks serverAuth", "does not allow this side's role");
}

/* ... nor a server's as a client's. */
static void a_servers_certificate_serves_no_client(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "server");
	open_denied(&s, &c, "does not allow this side's role", "extended key usage lacks clientAuth");
}

/* A certificate without extended key usage passes as a client's, but not as a server's. */
static void a_certificate_without_a_role_is_a_clients_alone(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client"),
			     any = rig_security_cert("certs", "any");
	open_works(&s, &any, BOOT_CERT);
	open_denied(&any, &c, "CN=KVRail test any) is not made for its role: its extended key usage lacks serverAuth",
		    "does not allow this side's role");
}

static void a_certificate_that_must_not_sign_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client"),
			     nosign = rig_security_cert("certs", "nosign");
	open_denied(&s, &nosign, "does not allow this side's role", "its key usage lacks digitalSignature");
	open_denied(&nosign, &c, "its key usage lacks digitalSignature", "does not allow this side's role");
}

/* ---- the name that is dialled ---- */

static void dial(const char *who, const char *dialled, const char *server_name, const char *denied)
{
	struct boot_security s = rig_security_cert("certs", who), c = rig_security_cert("certs", "client");
	struct rig r;
	c.server_name = server_name;
	rig_init(&r, &s, &c);
	r.dialled = dialled;
	if (denied) {
		rig_open(&r);
		both_denied(&r, denied, "the name it looks for is not among the certificate's names");
	} else {
		rig_open_ok(&r);
	}
	rig_fini(&r);
}

static void the_name_that_is_dialled_must_be_in_the_certificate(void **state)
{
	(void)state;
	static const char *const good[] = {"localhost", "kv.example", "KV.Example", "kv.example.",
					   "127.0.0.1", "::1",        "0::0:1",     "::1%lo"};
	for (size_t i = 0; i < KV_COUNT(good); i++)
		dial("server", good[i], NULL, NULL);
	dial("server", "elsewhere.example", NULL, "does not name \"elsewhere.example\"");
	dial("server", "127.0.0.2", NULL, "does not name \"127.0.0.2\"");
	dial("server", "sub.kv.example", NULL, "does not name \"sub.kv.example\"");
	/* The configured name replaces the dialled one. */
	dial("server", "elsewhere.example", "kv.example", NULL);
	dial("server", "kv.example", "elsewhere.example", "does not name \"elsewhere.example\"");
	/* A name that only the common name has does not count. */
	dial("nameless", "localhost", NULL, "does not name \"localhost\"");
}

static void connect_nameless(struct rig *r)
{
	const struct boot_server server = {.addr = &r->addr, .addr_len = sizeof(struct sockaddr_in)};
	r->c_rc = boot_connect_await(r->client, &server, 5000, rig_in(r, 20 * SECOND), &r->c, &r->c_err);
}

static void without_a_name_nobody_is_believed(void **state)
{
	(void)state;
	struct boot_security c = rig_security_cert("certs", "client");
	struct rig r;
	rig_init(&r, NULL, &c);
	rig_spawn(&r, connect_nameless);
	rig_run(&r);
	assert_int_equal(r.c_rc, -KV_EINVAL);
	says(&r.c_err, "no name is given to look for in the server's certificate");
	rig_fini(&r);
}

/* ---- the proved identity ---- */

static void who(const struct boot_security *server, const struct boot_security *client, const char *at_server,
		const char *at_client)
{
	struct rig r;
	rig_init(&r, server, client);
	rig_open_ok(&r);
	assert_string_equal(boot_peer_who(r.s), at_server);
	assert_string_equal(boot_peer_who(r.c), at_client);
	rig_fini(&r);
}

static void each_side_says_who_the_other_is(void **state)
{
	(void)state;
	struct boot_security psk = rig_security_psk(), s = rig_security_cert("certs", "server"),
			     c = rig_security_cert("certs", "client");
	who(&plain, &plain, "no credential", "no credential");
	who(&psk, &psk, "PSK identity \"bench\"", "PSK identity \"bench\"");
	who(&s, &c, "certificate CN=KVRail test client",
	    "certificate CN=KVRail test server, DNS:localhost, "
	    "IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, DNS:kv.example");
}

#define HEX32 "00112233445566778899aabbccddeeff"

/* names: with a final 0 each; the literal adds the last one. */
static void names_are(const struct boot_security *server, const struct boot_security *client, const char *names,
		      size_t len)
{
	struct rig r;
	rig_init(&r, server, client);
	rig_open_ok(&r);
	assert_memory_equal(boot_peer_names(r.s), names, len);
	rig_fini(&r);
}

static void a_server_knows_the_names_of_a_client(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client"),
			     keys = {.psk_file = rig_file("many.psk", "acme#1:" HEX32 "\nacme#2:" HEX32 "\n", 0600)},
			     old = {.psk = "acme#1:" HEX32}, other = {.psk = "acme#3:" HEX32};
	names_are(&plain, &plain, "", 1);
	names_are(&s, &c, "CN=KVRail test client\0", sizeof("CN=KVRail test client\0"));
	names_are(&keys, &old, "acme\0", sizeof("acme\0"));
	names_are(&keys, &keys, "acme\0", sizeof("acme\0"));
	open_denied(&keys, &other, "the server knows no PSK identity \"acme#3\"", "\"acme#3\"");
}

/* ---- revocation lists ---- */

static void a_revoked_certificate_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client"),
			     revoked = rig_security_cert("certs", "revoked");
	open_works(&s, &revoked, BOOT_CERT); /* no list is checked */
	s.crl_file = c.crl_file = rig_path("certs", "crl.pem");
	open_works(&s, &c, BOOT_CERT);
	open_denied(&s, &revoked, "it refused our certificate, which is revoked",
		    "its certificate (CN=KVRail test revoked) is revoked by our CRL file");
}

/* A list of another issuer says nothing about the certificate. */
static void a_revocation_list_of_another_ca_lets_nobody_in(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	s.crl_file = rig_path("foreign", "crl.pem");
	open_denied(&s, &c, "it refused our certificate", "has no list of its issuer (CN=KVRail test CA");
	s.crl_file = NULL;
	c.crl_file = rig_path("foreign", "crl.pem");
	open_denied(&s, &c, "has no list of its issuer (CN=KVRail test CA", "it refused our certificate");
}

static void file_copy(const char *from, const char *to)
{
	char text[16384];
	FILE *f = fopen(from, "re");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	rig_file(to, text, 0600);
}

static void look_again(struct rig *r)
{
	co_sleep_await(rig_in(r, SECOND + 10 * MILLISECOND));
}

/* Whether the next client is let in. */
static void attempt(struct rig *r, const char *denied)
{
	r->c_err = r->s_err = (struct kv_error){0};
	rig_spawn(r, look_again);
	rig_run(r);
	rig_open(r);
	if (denied)
		both_denied(r, "it refused our certificate", denied);
	else if (r->c_rc || r->s_rc)
		fail_msg("client: %s; server: %s", r->c_err.text, r->s_err.text);
	boot_close(&r->c);
	boot_close(&r->s);
}

#define PSK_BEFORE "test-before:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define PSK_AFTER  "test-after:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void a_revocation_list_is_read_again(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client"),
			     revoked = rig_security_cert("certs", "revoked");
	struct rig r;
	file_copy(rig_path("foreign", "crl.pem"), "again.pem");
	s.crl_file = rig_path(".", "again.pem");
	rig_init(&r, &s, &c);
	attempt(&r, "has no list of its issuer");
	file_copy(rig_path("certs", "crl.pem"), "again.pem");
	attempt(&r, NULL);
	/* A file that is half written, or missing, changes nothing. */
	rig_file("again.pem", "-----BEGIN X509 CRL-----\nMIIB", 0600);
	attempt(&r, NULL);
	assert_int_equal(unlink(rig_path(".", "again.pem")), 0);
	attempt(&r, NULL);
	boot_context_destroy(&r.client);
	assert_int_equal(boot_context_create(&revoked, false, NULL, &r.client, NULL), 0);
	attempt(&r, "is revoked");
	rig_fini(&r);
}

/* A server adopts other keys: earlier connections stay, and later ones need the new key. */
static void keys_are_changed_under_connections(void **state)
{
	(void)state;
	const struct boot_security before = {.psk = PSK_BEFORE}, after = {.psk = PSK_AFTER};
	struct boot_context *fresh = NULL;
	struct boot_conn *c, *s;
	struct rig r;
	rig_init(&r, &before, &before);
	rig_open(&r);
	assert_int_equal(r.c_rc | r.s_rc, 0);
	assert_int_equal(boot_context_create(&after, true, NULL, &fresh, NULL), 0);
	boot_context_adopt(r.server, &fresh);
	assert_null(fresh);
	rig_spawn(&r, ping);
	rig_run(&r);
	c = r.c, s = r.s;
	r.c = r.s = NULL;
	rig_open(&r);
	both_denied(&r, "knows no PSK identity \"test-before\"", "ours is \"test-after\"");
	boot_context_destroy(&r.client);
	assert_int_equal(boot_context_create(&after, false, NULL, &r.client, NULL), 0);
	rig_open(&r);
	assert_int_equal(r.c_rc | r.s_rc, 0);
	rig_spawn(&r, ping);
	rig_run(&r);
	boot_close(&r.c);
	boot_close(&r.s);
	r.c = c, r.s = s;
	rig_spawn(&r, ping);
	rig_run(&r); /* its old context was kept for it */
	rig_fini(&r);
}

/* While keys are changed: a server has both, and a client shows the last of its own. */
static void each_key_of_a_servers_file_connects(void **state)
{
	(void)state;
	struct boot_security before = {.psk = PSK_BEFORE}, after = {.psk = PSK_AFTER}, strange = rig_security_psk();
	struct boot_security both = {.psk_file = rig_file("both.psk", PSK_BEFORE "\n" PSK_AFTER "\n", 0600)};
	open_works(&both, &before, BOOT_PSK);
	open_works(&both, &after, BOOT_PSK);
	open_works(&after, &both, BOOT_PSK);
	open_denied(&before, &both, "knows no PSK identity \"test-after\"", "ours is \"test-before\": use the same");
	open_denied(&both, &strange, "knows no PSK identity \"bench\"", "ours is \"test-after\" or another: use");
	who(&both, &before, "PSK identity \"test-before\"", "PSK identity \"test-before\"");
	who(&both, &after, "PSK identity \"test-after\"", "PSK identity \"test-after\"");
}

/* The sentences of verdicts that a test cannot cause in a handshake. */
static void each_verdict_of_a_revocation_list_has_its_sentence(void **state)
{
	(void)state;
	static const struct {
		int error;
		const char *text;
	} all[] = {
		{X509_V_ERR_CRL_HAS_EXPIRED, "the list of CN=the CA in our CRL file"},
		{X509_V_ERR_CRL_NOT_YET_VALID,
		 "has expired or is not valid yet: replace the file by the CA's present list"},
		{X509_V_ERR_UNABLE_TO_GET_CRL, "has no list of its issuer (CN=the CA): append that CA's list"},
		{X509_V_ERR_CRL_SIGNATURE_FAILURE, "cannot be used (CRL signature failure): fetch it again"},
		{X509_V_ERR_CERT_REVOKED, "its certificate's CA (CN=somebody) is revoked"},
	};
	rig_certs();
	SSL_CTX *ssl_ctx = SSL_CTX_new(TLS_server_method());
	struct trust_settings settings = {
		.server = true, .ca_file = rig_path("certs", "ca.pem"), .crl_file = rig_path("certs", "crl.pem")};
	struct trust *trust = NULL;
	assert_int_equal(trust_create(ssl_ctx, &settings, &trust, NULL), 0);
	for (size_t i = 0; i < KV_COUNT(all); i++) {
		struct trust_verdict v = {
			.error = all[i].error, .depth = 1, .name = "CN=somebody", .issuer = "CN=the CA"};
		struct kv_error err = {0};
		assert_int_equal(trust_explain(trust, &v, NULL, &err), -KV_EDENIED);
		says(&err, all[i].text);
		says(&err, "crl.pem");
	}
	trust_destroy(&trust);
	SSL_CTX_free(ssl_ctx);
}

static void a_client_with_a_key_at_a_server_with_certificates_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_psk();
	open_denied(&s, &c, "it uses certificates, and this side a pre-shared key", "it refused our certificate");
}

static void a_client_with_a_certificate_at_a_server_with_a_key_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk(), c = rig_security_cert("certs", "client");
	open_denied(&s, &c, "the server has no certificate to show", "the client brought no pre-shared key");
}

/* ---- one side without TLS ---- */

static void client_sends_then_reads(struct rig *r)
{
	struct wire_ctrl_msg m = rig_heartbeat(1);
	rig_connect_only(r);
	assert_int_equal(r->c_rc, 0);
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 5 * SECOND)), 0);
	r->c_rc = boot_recv_await(r->c, &m, rig_in(r, 20 * SECOND));
}

static void a_client_without_tls_at_a_server_with_it_is_denied(void **state)
{
	(void)state;
	struct boot_security s[] = {rig_security_psk(), rig_security_cert("certs", "server")};
	for (size_t i = 0; i < KV_COUNT(s); i++) {
		struct rig r;
		rig_init(&r, &s[i], &plain);
		rig_spawn(&r, rig_accept_only);
		rig_spawn(&r, client_sends_then_reads);
		rig_run(&r);
		print_message("client: %s\nserver: %s\n", boot_failure(r.c), r.s_err.text);
		assert_int_equal(r.s_rc, -KV_EDENIED);
		says(&r.s_err, "does not speak TLS 1.3");
		assert_int_equal(r.c_rc, -KV_EPROTO);
		assert_non_null(strstr(boot_failure(r.c), "the peer speaks TLS, and this side does not"));
		rig_fini(&r);
	}
}

static void server_reads_then_closes(struct rig *r)
{
	struct wire_ctrl_msg m;
	rig_accept_only(r);
	assert_int_equal(r->s_rc, 0);
	r->s_rc = boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND));
	kv_fail(&r->s_err, r->s_rc, "%s", boot_failure(r->s));
	boot_close(&r->s);
}

static void a_client_with_tls_at_a_server_without_it_is_denied(void **state)
{
	(void)state;
	struct boot_security c[] = {rig_security_psk(), rig_security_cert("certs", "client")};
	for (size_t i = 0; i < KV_COUNT(c); i++) {
		struct rig r;
		rig_init(&r, &plain, &c[i]);
		rig_spawn(&r, server_reads_then_closes);
		rig_spawn(&r, rig_connect_only);
		rig_run(&r);
		print_message("client: %s\nserver: %s\n", r.c_err.text, r.s_err.text);
		assert_int_equal(r.s_rc, -KV_EPROTO);
		says(&r.s_err, "the peer speaks TLS, and this side does not");
		assert_int_equal(r.c_rc, -KV_EPEERDOWN);
		says(&r.c_err, "does it run without TLS");
		rig_fini(&r);
	}
}

/* A server without TLS that answers instead of closing. */
static void server_answers_plainly(struct rig *r)
{
	struct wire_ctrl_msg m = rig_heartbeat(1);
	rig_accept_only(r);
	assert_int_equal(boot_send_await(r->s, &m, rig_in(r, 5 * SECOND)), 0);
}

static void a_client_with_tls_understands_no_plain_answer(void **state)
{
	(void)state;
	struct boot_security c = rig_security_psk();
	struct rig r;
	rig_init(&r, &plain, &c);
	rig_spawn(&r, server_answers_plainly);
	rig_spawn(&r, rig_connect_only);
	rig_run(&r);
	assert_int_equal(r.c_rc, -KV_EDENIED);
	says(&r.c_err, "does not speak TLS 1.3");
	rig_fini(&r);
}

/* ---- stalls ---- */

static void raw_client_silent(struct rig *r)
{
	uint8_t byte;
	int fd = rig_raw_connect(r);
	assert_int_equal(io_read_await(fd, &byte, 1, rig_in(r, 20 * SECOND)), 0); /* until the server gives up */
	io_close(r->loop, fd);
}

static void a_client_that_stalls_is_given_up(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk();
	struct rig r;
	rig_init(&r, &s, NULL);
	r.open_timeout_ns = 50 * MILLISECOND;
	rig_spawn(&r, rig_accept_only);
	rig_spawn(&r, raw_client_silent);
	rig_run(&r);
	assert_int_equal(r.s_rc, -KV_ETIMEOUT);
	says(&r.s_err, "was not finished by the deadline");
	rig_fini(&r);
}

static void raw_server_silent(struct rig *r)
{
	uint8_t buf[4096];
	int fd = rig_raw_accept(r);
	while (io_read_await(fd, buf, sizeof(buf), rig_in(r, 20 * SECOND)) > 0)
		continue;
	io_close(r->loop, fd);
}

static void a_server_that_stalls_is_given_up(void **state)
{
	(void)state;
	struct boot_security c = rig_security_psk();
	struct rig r;
	rig_init(&r, NULL, &c);
	r.open_timeout_ns = 50 * MILLISECOND;
	rig_spawn(&r, rig_connect_only);
	rig_spawn(&r, raw_server_silent);
	rig_run(&r);
	assert_int_equal(r.c_rc, -KV_ETIMEOUT);
	says(&r.c_err, "was not finished by the deadline");
	rig_fini(&r);
}

/* A client sends the first half of a ClientHello byte by byte and then stalls. It must not outlive the deadline either.
 */
static void raw_client_drips(struct rig *r)
{
	static const uint8_t hello[] = {0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3};
	int fd = rig_raw_connect(r);
	for (size_t i = 0;; i++) {
		uint8_t byte = i < sizeof(hello) ? hello[i] : 0x5a;
		if (i >= 100 || io_write_all_await(fd, &byte, 1, rig_in(r, SECOND)))
			break;
		co_sleep_await(rig_in(r, MILLISECOND));
	}
	uint8_t byte;
	io_read_await(fd, &byte, 1, rig_in(r, 20 * SECOND));
	io_close(r->loop, fd);
}

static void a_client_that_drips_bytes_does_not_outlive_the_deadline(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk();
	struct rig r;
	rig_init(&r, &s, NULL);
	r.open_timeout_ns = 300 * MILLISECOND;
	rig_spawn(&r, rig_accept_only);
	rig_spawn(&r, raw_client_drips);
	rig_run(&r);
	assert_int_equal(r.s_rc, -KV_ETIMEOUT);
	rig_fini(&r);
}

/* ---- every byte of the handshake on its own: a relay between client and server ---- */

struct relay {
	struct rig *r;
	int from, to;
	unsigned left;
};

static void relay_run(void *arg)
{
	struct relay *y = arg;
	uint8_t byte;
	while (io_read_await(y->from, &byte, 1, rig_in(y->r, 20 * SECOND)) == 1)
		if (io_write_all_await(y->to, &byte, 1, rig_in(y->r, 20 * SECOND)))
			break;
	io_shutdown(y->r->loop, y->from);
	io_shutdown(y->r->loop, y->to);
	y->r->running--;
}

struct relayed {
	struct rig r;
	int relay_listen, near, far;
	struct sockaddr_storage server_addr;
	struct relay up, down;
};

static void relayed_connect(struct rig *r)
{
	struct relayed *t = KV_CONTAINER(r, struct relayed, r);
	struct sockaddr_storage peer;
	assert_int_equal(io_accept_await(t->relay_listen, &t->near, &peer, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(io_connect_await(&t->server_addr, sizeof(struct sockaddr_in), &t->far, rig_in(r, 20 * SECOND)),
			 0);
	t->up = (struct relay){.r = r, .from = t->near, .to = t->far};
	t->down = (struct relay){.r = r, .from = t->far, .to = t->near};
	r->running += 2;
	assert_int_equal(co_spawn(r->loop, relay_run, &t->up, "up"), 0);
	assert_int_equal(co_spawn(r->loop, relay_run, &t->down, "down"), 0);
}

/* A message comes byte by byte, in TLS, to a reader whose deadline passes every half millisecond. */
enum { TABLE_PARTS = 1200 };

static void send_table(struct rig *r)
{
	struct wire_ctrl_msg m;
	uint8_t *keys = malloc(TABLE_PARTS * 16);
	memset(&m, 0, sizeof(m));
	m.type = WIRE_CTRL_REGION;
	m.region = (struct wire_region){
		.id = 9, .parts = TABLE_PARTS, .rails = 1, .len_bytes = TABLE_PARTS, .part_bytes = 1, .keys = keys};
	for (uint32_t i = 0; i < TABLE_PARTS; i++)
		wire_region_put(keys, TABLE_PARTS, 0, i, i, i * 7ull);
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), 0);
	free(keys);
}

static void relayed_recv(struct rig *r)
{
	struct wire_ctrl_msg m;
	unsigned timeouts = 0;
	int rc;
	while ((rc = boot_recv_await(r->s, &m, rig_in(r, MILLISECOND / 2))) == -KV_ETIMEOUT && timeouts < 100000)
		timeouts++;
	print_message("%u receives timed out\n", timeouts);
	assert_int_equal(rc, 0);
	assert_int_equal(m.region.parts, TABLE_PARTS);
	for (uint32_t i = 0; i < TABLE_PARTS; i++) {
		uint64_t base, key;
		wire_region_key(&m.region, 0, i, &base, &key);
		assert_int_equal(base, i);
		assert_int_equal(key, i * 7ull);
	}
	boot_shutdown(r->c);
}

static void relayed_talk(struct rig *r)
{
	rig_connect_only(r);
	assert_int_equal(r->c_rc, 0);
	ping(r);
	rig_spawn(r, relayed_recv);
	send_table(r);
}

static void a_message_that_comes_byte_by_byte_is_read_whole(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	struct relayed t;
	struct rig *r = &t.r;
	rig_init(r, &s, &c);
	t.server_addr = r->addr;
	((struct sockaddr_in *)&r->addr)->sin_port = 0;
	assert_int_equal(io_listen(r->loop, &r->addr, sizeof(struct sockaddr_in), &t.relay_listen, NULL), 0);
	rig_spawn(r, relayed_connect);
	rig_spawn(r, rig_accept_only);
	rig_spawn(r, relayed_talk);
	rig_run(r);
	assert_int_equal(r->s_rc, 0);
	io_close(r->loop, t.relay_listen);
	io_close(r->loop, t.near);
	io_close(r->loop, t.far);
	rig_fini(r);
}

/* ---- clients that are not ours: blocking OpenSSL on a thread ---- */

enum stranger { STRANGER_NO_CERT, STRANGER_TLS12, STRANGER_HTTP, STRANGER_KEY_UPDATES, STRANGER_ABRUPT };

struct stranger_job {
	enum stranger kind;
	struct sockaddr_storage addr;
	int wrote; /* key updates asked for */
};

static int connect_blocking(const struct sockaddr_storage *addr)
{
	struct timeval limit = {.tv_sec = 20};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)addr, sizeof(struct sockaddr_in)))
		print_error("stranger cannot connect\n");
	return fd;
}

static void stranger_key_updates(struct stranger_job *job, SSL *ssl)
{
	uint8_t ready;
	if (SSL_read(ssl, &ready, 1) != 1 || ready != 'K')
		return;
	static const uint8_t goodbye[] = {4, 0, 0, 0, 11, 0, 0, 0};
	for (int i = 0; i < 5000; i++)
		job->wrote += SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(ssl) == 1;
	SSL_write(ssl, goodbye, sizeof(goodbye));
	while (SSL_read(ssl, &ready, 1) > 0)
		continue;
}

static int stranger_psk(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len, SSL_SESSION **out)
{
	static const unsigned char cipher[] = {0x13, 0x01};
	unsigned char key[32];
	(void)md;
	for (int i = 0; i < 32; i++)
		key[i] = (unsigned char)(i % 16 * 0x11);
	*id = (const unsigned char *)"bench";
	*id_len = 5;
	*out = SSL_SESSION_new();
	return SSL_SESSION_set1_master_key(*out, key, sizeof(key)) &&
	       SSL_SESSION_set_cipher(*out, SSL_CIPHER_find(ssl, cipher)) &&
	       SSL_SESSION_set_protocol_version(*out, TLS1_3_VERSION);
}

static void *stranger_run(void *arg)
{
	struct stranger_job *job = arg;
	int fd = connect_blocking(&job->addr);
	char buf[256];
	if (job->kind == STRANGER_HTTP) {
		static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
		if (write(fd, get, sizeof(get) - 1) > 0)
			while (read(fd, buf, sizeof(buf)) > 0)
				continue;
		close(fd);
		return NULL;
	}
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	if (job->kind == STRANGER_TLS12)
		SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
	if (job->kind == STRANGER_KEY_UPDATES || job->kind == STRANGER_ABRUPT)
		SSL_CTX_set_psk_use_session_callback(ctx, stranger_psk);
	SSL *ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fd);
	if (SSL_connect(ssl) == 1 && job->kind == STRANGER_KEY_UPDATES)
		stranger_key_updates(job, ssl);
	else if (job->kind == STRANGER_NO_CERT)
		SSL_read(ssl, buf, sizeof(buf)); /* the alert */
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	ERR_clear_error();
	close(fd);
	return NULL;
}

static void stranger_meets(enum stranger kind, const struct boot_security *server, int rc, const char *text)
{
	struct stranger_job job = {.kind = kind};
	pthread_t thread;
	struct rig r;
	rig_init(&r, server, NULL);
	job.addr = r.addr;
	assert_int_equal(pthread_create(&thread, NULL, stranger_run, &job), 0);
	rig_spawn(&r, rig_accept_only);
	rig_run(&r);
	print_message("server: %s\n", r.s_err.text);
	assert_int_equal(r.s_rc, rc);
	says(&r.s_err, text);
	pthread_join(thread, NULL);
	rig_fini(&r);
}

static void a_client_without_a_certificate_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server");
	stranger_meets(STRANGER_NO_CERT, &s, -KV_EDENIED, "the client showed no certificate");
}

static void an_old_tls_is_denied(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server");
	stranger_meets(STRANGER_TLS12, &s, -KV_EDENIED, "TLS 1.3 is needed");
}

static void http_is_told_apart(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server");
	stranger_meets(STRANGER_HTTP, &s, -KV_EDENIED, "it speaks HTTP");
}

/* 5,000 key updates ask for an answer each. Answered or not, the connection goes on, and the bytes after them arrive.
 */
static void recv_goodbye(struct rig *r)
{
	struct wire_ctrl_msg m;
	rig_accept_only(r);
	assert_int_equal(r->s_rc, 0);
	assert_int_equal(boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(m.type, WIRE_CTRL_GOODBYE);
	boot_shutdown(r->s);
}

static void key_updates_disturb_nothing(void **state)
{
	(void)state;
	struct boot_security s = rig_security_psk();
	struct stranger_job job = {.kind = STRANGER_KEY_UPDATES};
	pthread_t thread;
	struct rig r;
	rig_init(&r, &s, NULL);
	job.addr = r.addr;
	assert_int_equal(pthread_create(&thread, NULL, stranger_run, &job), 0);
	rig_spawn(&r, recv_goodbye);
	rig_run(&r);
	pthread_join(thread, NULL);
	assert_int_equal(job.wrote, 5000);
	rig_fini(&r);
}

/* ---- many handshakes at once: one step per turn of the loop ---- */

enum { CROWD = 40 };

struct crowd {
	struct rig r;
	int fd[CROWD];
	uint64_t turn, passed; /* the observer's last values */
	unsigned waiting;
};

static void crowd_server(struct rig *r)
{
	struct boot_conn *c = NULL;
	struct kv_error err = {0};
	struct sockaddr_storage peer;
	int fd;
	assert_int_equal(io_accept_await(r->listen_fd, &fd, &peer, rig_in(r, 20 * SECOND)), 0);
	boot_accept_await(r->server, fd, &peer, 5000, rig_in(r, 20 * SECOND), &c, &err);
	r->s_rc |= err.code;
	boot_close(&c);
	KV_CONTAINER(r, struct crowd, r)->waiting--;
}

static void crowd_client(struct rig *r)
{
	const struct boot_server server = {
		.addr = &r->addr, .addr_len = sizeof(struct sockaddr_in), .name = "localhost"};
	struct boot_conn *c = NULL;
	struct kv_error err = {0};
	boot_connect_await(r->client, &server, 5000, rig_in(r, 20 * SECOND), &c, &err);
	r->c_rc |= err.code;
	boot_close(&c);
}

/* Runs in each turn, as a heartbeat would, and never finds more than one step computed since its last turn. */
static void crowd_observe(struct rig *r)
{
	struct crowd *t = KV_CONTAINER(r, struct crowd, r);
	const struct gate *gate = &r->server->gate;
	while (t->waiting) {
		t->turn = loop_turns(r->loop);
		t->passed = gate->passed;
		co_yield_await();
		assert_true(loop_turns(r->loop) - t->turn <= 1);
		assert_true(gate->passed - t->passed <= 1);
	}
}

static void a_turn_computes_one_step_of_all_handshakes(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	struct crowd t = {.waiting = CROWD};
	rig_init(&t.r, &s, &c);
	for (unsigned i = 0; i < CROWD; i++) {
		rig_spawn(&t.r, crowd_server);
		rig_spawn(&t.r, crowd_client);
	}
	rig_spawn(&t.r, crowd_observe);
	rig_run(&t.r);
	assert_int_equal(t.r.s_rc, 0);
	assert_int_equal(t.r.c_rc, 0);
	print_message("%llu steps of %u handshakes\n", (unsigned long long)t.r.server->gate.passed, CROWD);
	assert_in_range(t.r.server->gate.passed, 2 * CROWD, 4 * CROWD);
	rig_fini(&t.r);
}

/* A whole ClientHello of a client that closed its half of the connection before the server's turn came. Nothing is
 * signed for it, so it gets no answer. */
static uint8_t hello_bytes[8192];
static ssize_t hello_len;

static void hello_keep(struct rig *r)
{
	int fd = rig_raw_accept(r);
	hello_len = io_read_await(fd, hello_bytes, sizeof(hello_bytes), rig_in(r, SECOND));
	io_close(r->loop, fd);
}

static void hello_and_gone(struct rig *r)
{
	uint8_t answer[4096];
	int fd = rig_raw_connect(r);
	assert_int_equal(io_write_all_await(fd, hello_bytes, (size_t)hello_len, rig_in(r, SECOND)), 0);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	rig_spawn(r, rig_accept_only);
	assert_int_equal(io_read_await(fd, answer, sizeof(answer), rig_in(r, 20 * SECOND)), 0);
	io_close(r->loop, fd);
}

static void a_client_that_is_gone_is_not_computed_for(void **state)
{
	(void)state;
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	struct rig r;
	rig_init(&r, &s, &c);
	rig_spawn(&r, hello_keep);
	rig_spawn(&r, rig_connect_only);
	rig_run(&r);
	assert_true(hello_len > 100);
	rig_spawn(&r, hello_and_gone);
	rig_run(&r);
	assert_int_equal(r.s_rc, -KV_EPEERDOWN);
	says(&r.s_err, "the client closed the connection during the TLS handshake");
	rig_fini(&r);
}

/* ---- two loops on two threads ---- */

/* On the other thread no assert may fail: cmocka would jump. */
static void echo_until_closed(struct rig *r)
{
	struct wire_ctrl_msg m;
	rig_accept_only(r);
	while (r->s_rc == 0) {
		r->s_rc = boot_recv_await(r->s, &m, rig_in(r, 20 * SECOND));
		if (r->s_rc == 0)
			r->s_rc = boot_send_await(r->s, &m, rig_in(r, 20 * SECOND));
	}
}

static void *server_thread(void *arg)
{
	struct rig *r = arg;
	while (r->running)
		loop_turn(r->loop, 10 * MILLISECOND);
	rig_fini(r); /* a loop belongs to the thread of its first turn */
	return NULL;
}

static void ask_one(struct rig *r)
{
	struct wire_ctrl_msg m = rig_heartbeat(99), got;
	rig_connect_only(r);
	assert_int_equal(r->c_rc, 0);
	assert_int_equal(boot_send_await(r->c, &m, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(boot_recv_await(r->c, &got, rig_in(r, 20 * SECOND)), 0);
	assert_int_equal(got.heartbeat.sequence, 99);
	boot_close(&r->c);
}

static void two_loops_on_two_threads_connect(void **state)
{
	(void)state;
	struct boot_security psk = rig_security_psk();
	struct rig server, client;
	pthread_t thread;
	rig_init(&server, &psk, NULL);
	rig_init(&client, NULL, &psk);
	client.addr = server.addr;
	rig_spawn(&server, echo_until_closed);
	assert_int_equal(pthread_create(&thread, NULL, server_thread, &server), 0);
	rig_spawn(&client, ask_one);
	rig_run(&client);
	pthread_join(thread, NULL);
	assert_int_equal(server.s_rc, -KV_EPEERDOWN);
	rig_fini(&client);
}

/* ---- how much stack a handshake takes ---- */

enum { PAINT_BYTES = 56 << 10, PAINT_SKIP = 512 };

static void __attribute__((noinline)) stack_paint(volatile uint8_t *top)
{
	for (size_t i = PAINT_SKIP; i < PAINT_BYTES; i++)
		top[-(ptrdiff_t)i] = 0xA5;
}

static size_t __attribute__((noinline)) stack_used(const volatile uint8_t *top)
{
	size_t i = PAINT_BYTES - 1;
	while (i > PAINT_SKIP && top[-(ptrdiff_t)i] == 0xA5)
		i--;
	return i;
}

static size_t client_used, server_used;

static void connect_measured(struct rig *r)
{
	volatile uint8_t *top = __builtin_frame_address(0);
	stack_paint(top);
	rig_connect_only(r);
	client_used = stack_used(top);
}

static void accept_measured(struct rig *r)
{
	volatile uint8_t *top = __builtin_frame_address(0);
	stack_paint(top);
	rig_accept_only(r);
	server_used = stack_used(top);
}

static void measure(const struct boot_security *s, const struct boot_security *c, const char *what)
{
	struct rig r;
	rig_init(&r, s, c);
	rig_spawn(&r, accept_measured);
	rig_spawn(&r, connect_measured);
	rig_run(&r);
	assert_int_equal(r.c_rc, 0);
	assert_int_equal(r.s_rc, 0);
	print_message("stack of a handshake, %s: client %zu bytes, server %zu bytes\n", what, client_used, server_used);
	assert_true(client_used < 48 << 10);
	assert_true(server_used < 48 << 10);
	rig_fini(&r);
}

static void a_handshake_fits_its_stack(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	print_message("a sanitizer's frames say nothing about ours\n");
	skip();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	print_message("a sanitizer's frames say nothing about ours\n");
	skip();
#endif
#endif
	struct boot_security psk = rig_security_psk();
	measure(&psk, &psk, "PSK");
	struct boot_security s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	measure(&s, &c, "certificates (P-256)");
	if (test_short())
		return; /* keys of RSA take seconds to make */
	rig_certs_rsa();
	s = rig_security_cert("rsa", "server"), c = rig_security_cert("rsa", "client");
	measure(&s, &c, "certificates (RSA 3072)");
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
		cmocka_unit_test(a_handshake_fits_its_stack), /* first, so that OpenSSL does its work of once per
								 process on that stack */
		cmocka_unit_test(two_without_tls_connect),
		cmocka_unit_test(two_with_one_key_connect),
		cmocka_unit_test(the_time_of_day_may_be_set_meanwhile),
		cmocka_unit_test(a_key_from_a_file_connects),
		cmocka_unit_test(each_key_of_a_servers_file_connects),
		cmocka_unit_test(two_with_certificates_connect),
		cmocka_unit_test(any_name_of_a_certificate_connects),
		cmocka_unit_test(another_key_of_the_same_identity_is_denied),
		cmocka_unit_test(an_unknown_identity_is_denied),
		cmocka_unit_test(the_begin_of_an_identity_is_denied),
		cmocka_unit_test(a_client_of_another_ca_is_denied),
		cmocka_unit_test(a_server_of_another_ca_is_denied),
		cmocka_unit_test(a_certificate_with_another_name_is_denied),
		cmocka_unit_test(a_certificate_with_another_address_is_denied),
		cmocka_unit_test(a_clients_certificate_serves_no_server),
		cmocka_unit_test(a_servers_certificate_serves_no_client),
		cmocka_unit_test(a_certificate_without_a_role_is_a_clients_alone),
		cmocka_unit_test(a_certificate_that_must_not_sign_is_denied),
		cmocka_unit_test(the_name_that_is_dialled_must_be_in_the_certificate),
		cmocka_unit_test(without_a_name_nobody_is_believed),
		cmocka_unit_test(each_side_says_who_the_other_is),
		cmocka_unit_test(a_server_knows_the_names_of_a_client),
		cmocka_unit_test(a_revoked_certificate_is_denied),
		cmocka_unit_test(a_revocation_list_of_another_ca_lets_nobody_in),
		cmocka_unit_test(a_revocation_list_is_read_again),
		cmocka_unit_test(keys_are_changed_under_connections),
		cmocka_unit_test(each_verdict_of_a_revocation_list_has_its_sentence),
		cmocka_unit_test(a_turn_computes_one_step_of_all_handshakes),
		cmocka_unit_test(a_client_that_is_gone_is_not_computed_for),
		cmocka_unit_test(a_client_with_a_key_at_a_server_with_certificates_is_denied),
		cmocka_unit_test(a_client_with_a_certificate_at_a_server_with_a_key_is_denied),
		cmocka_unit_test(a_client_without_tls_at_a_server_with_it_is_denied),
		cmocka_unit_test(a_client_with_tls_at_a_server_without_it_is_denied),
		cmocka_unit_test(a_client_with_tls_understands_no_plain_answer),
		cmocka_unit_test(a_client_that_stalls_is_given_up),
		cmocka_unit_test(a_server_that_stalls_is_given_up),
		cmocka_unit_test(a_client_that_drips_bytes_does_not_outlive_the_deadline),
		cmocka_unit_test(a_message_that_comes_byte_by_byte_is_read_whole),
		cmocka_unit_test(a_client_without_a_certificate_is_denied),
		cmocka_unit_test(an_old_tls_is_denied),
		cmocka_unit_test(http_is_told_apart),
		cmocka_unit_test(key_updates_disturb_nothing),
		cmocka_unit_test(two_loops_on_two_threads_connect),
	};
	return cmocka_run_group_tests(tests, NULL, drop_scratch);
}
