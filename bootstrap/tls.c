/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c -- TLS 1.3 over a socket of the loop.
 *
 * OpenSSL uses two memory BIOs and never blocks; this file moves bytes between BIOs and socket, and parks only there.
 * The error queue is per thread, so it is read before a park.
 *
 * Policy: TLS 1.3, TLS_AES_128_GCM_SHA256, and either a pre-shared key with ephemeral exchange, or certificates on both
 * sides (trust.c). No tickets, cache, early data. With a PSK nobody trusts certificates. `groups` and the server's key
 * bound a stranger's work; gate.c spreads a server's steps over turns.
 *
 * A TLS 1.3 client is done before the server has checked its certificate. So the server sends one byte (READY). No
 * close_notify: the protocol has its own end, and close must not park. tls_flush_await drains the outgoing BIO in
 * order; out_buf keeps unwritten bytes. A reader leaves flushing to a busy writer up to OUT_BUSY_MAX, so that a peer
 * cannot grow the BIO. */
#include "bootstrap/tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "bootstrap/gate.h"
#include "bootstrap/trust.h"
#include "loop/loop.h"

enum {
	TLS_IN = 2048,  /* bytes moved from socket to BIO at a time: a whole ClientHello, one step of computing */
	TLS_OUT = 1024, /* from BIO to socket; each connection has both buffers */
	TLS_WRITE_MAX = 16384,   /* plaintext for OpenSSL at a time: one record */
	OUT_BUSY_MAX = 64 << 10, /* bytes that may wait for a busy flusher */
	READY = 'K',
	NAME_SHOWN = 64,
	WHO_SHOWN = 256,
	PSK_LIFE_S = 1 << 30, /* far more than the time of day is ever changed by */
	NAMES_CAP = 256       /* of boot_peer_names */
};

#define ALERT_LINGER_NS 1000000000ull /* for an alert after a failure */

struct tls_context {
	SSL_CTX *ssl_ctx;
	struct secret_psks psks; /* none: certificates */
	struct trust *trust;     /* NULL with a pre-shared key */
	char *server_name;       /* NULL: the dialled name */
	bool server, crl_kept;
	unsigned refs;     /* the owner's, and each stream's */
	struct gate *gate; /* servers only */
	const struct kv_log *log;
};

struct tls_stream {
	struct boot_stream base;
	struct tls_context *ctx;
	struct loop *loop;
	SSL *ssl;
	BIO *in, *out; /* owned by ssl */
	int fd;
	bool flushing;
	bool answered;
	uint64_t source; /* whose share of the gate it uses */
	int write_error; /* first failed write, a stream's code */
	struct co_queue flushers;
	unsigned psk;             /* the server's key that the client used */
	char unknown[NAME_SHOWN]; /* an unknown PSK identity, printable */
	const char *expected;     /* a client's, while opening: the name to look for, or NULL */
	struct trust_verdict verdict;
	char who[WHO_SHOWN]; /* set when it is open, with ... */
	char names[NAMES_CAP];
	uint32_t out_off, out_len;
	uint8_t out_buf[TLS_OUT], in_buf[TLS_IN];
};

static struct tls_stream *tls_of(struct boot_stream *s)
{
	return KV_CONTAINER(s, struct tls_stream, base);
}

/* ---- pre-shared keys ---- */

/* To OpenSSL an external key is a session. Each handshake gets a new one, since OpenSSL writes to it. */
static SSL_SESSION *psk_session(const struct secret_psk *psk, SSL *ssl)
{
	static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = SSL_SESSION_new();
	if (session && cipher && SSL_SESSION_set1_master_key(session, psk->key, psk->key_len) &&
	    SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) &&
	    SSL_SESSION_set_timeout(session, PSK_LIFE_S)) /* else it expires if the clock is set by minutes meanwhile */
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int psk_use(SSL *ssl, const EVP_MD *md, const unsigned char **out_id, size_t *out_id_len,
		   SSL_SESSION **out_session)
{
	const struct tls_context *ctx = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	(void)md; /* the only cipher suite has the only hash */
	const struct secret_psk *own = secret_psks_own(&ctx->psks);
	*out_id = (const unsigned char *)own->identity;
	*out_id_len = strlen(own->identity);
	*out_session = psk_session(own, ssl);
	return *out_session != NULL;
}

static void unknown_note(struct tls_stream *t, const unsigned char *id, size_t len)
{
	size_t n = KV_MIN(len, sizeof(t->unknown) - 1);
	for (size_t i = 0; i < n; i++)
		t->unknown[i] = id[i] >= ' ' && id[i] <= '~' ? (char)id[i] : '?';
	t->unknown[n] = 0;
}

static int psk_find(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **out_session)
{
	const struct tls_context *ctx = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	struct tls_stream *t = SSL_get_app_data(ssl);
	*out_session = NULL;
	for (unsigned i = 0; i < ctx->psks.count; i++) {
		const struct secret_psk *psk = &ctx->psks.key[i];
		if (id_len != strlen(psk->identity) || memcmp(id, psk->identity, id_len) != 0)
			continue;
		t->psk = i;
		*out_session = psk_session(psk, ssl);
		return *out_session != NULL;
	}
	unknown_note(t, id, id_len);
	return 1; /* without a session the handshake fails for lack of a certificate */
}

/* ---- the context ---- */

static int openssl_fail(struct kv_error *err, int code, const char *what, const char *path)
{
	const char *reason = ERR_reason_error_string(ERR_peek_error()); /* the first is the cause */
	ERR_clear_error();
	return kv_fail(err, code, "%s %s: %s", what, path, reason ? reason : "OpenSSL gives no reason");
}

/* Else OpenSSL asks on the terminal for the passphrase of an encrypted key. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing;
	*(bool *)arg = true;
	return -1;
}

static int key_use(SSL_CTX *ssl_ctx, EVP_PKEY *key, const char *path, const char *cert_file, struct kv_error *err)
{
	if (X509_check_private_key(SSL_CTX_get0_certificate(ssl_ctx), key) != 1)
		return kv_fail(err, -KV_EINVAL,
			       "key file %s does not belong to certificate %s: give the key that was made for it", path,
			       cert_file);
	return SSL_CTX_use_PrivateKey(ssl_ctx, key) == 1 ? 0
							 : openssl_fail(err, -KV_EINVAL, "cannot use the key in", path);
}

static int key_parse(SSL_CTX *ssl_ctx, const struct secret_text *text, const char *path, const char *cert_file,
		     struct kv_error *err)
{
	bool encrypted = false;
	int rc;
	BIO *bio = BIO_new_mem_buf(text->data, (int)text->len);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &encrypted) : NULL;
	if (key)
		rc = key_use(ssl_ctx, key, path, cert_file, err);
	else if (encrypted)
		rc = kv_fail(err, -KV_EINVAL,
			     "key file %s is encrypted: write it without passphrase (`openssl pkey -in %s -out NEW`)",
			     path, path);
	else
		rc = kv_fail(err, -KV_EINVAL, "key file %s holds no private key in PEM format", path);
	ERR_clear_error();
	EVP_PKEY_free(key);
	BIO_free(bio);
	return rc;
}

static int key_load(SSL_CTX *ssl_ctx, const char *path, const char *cert_file, struct kv_error *err)
{
	struct secret_text text = {0};
	int rc = secret_file_read(path, "key file", &text, err);
	if (rc == 0)
		rc = key_parse(ssl_ctx, &text, path, cert_file, err);
	secret_text_fini(&text);
	return rc;
}

/* Only warn of our own expired certificate: the other side's clock decides. */
static void dates_warn(const struct kv_log *log, SSL_CTX *ssl_ctx, const char *path)
{
	X509 *cert = SSL_CTX_get0_certificate(ssl_ctx);
	if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		kv_event(log, KV_LOG_WARN, KV_EVENT("certificate_expired", KV_FIELD("file", path)),
			 "certificate %s has expired: other sides will refuse it", path);
	else if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		kv_event(log, KV_LOG_WARN, KV_EVENT("certificate_early", KV_FIELD("file", path)),
			 "certificate %s is not valid yet: is this machine's clock right?", path);
}

static int certificates_load(struct tls_context *ctx, const struct tls_settings *s, struct kv_error *err)
{
	const struct trust_settings trust = {
		.server = s->server, .ca_file = s->ca_file, .crl_file = s->crl_file, .log = s->log};
	int rc = trust_file_check(s->cert_file, "certificate file", err);
	if (rc)
		return rc;
	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(ctx->ssl_ctx, s->cert_file) != 1)
		return openssl_fail(err, -KV_EINVAL, "cannot read a PEM certificate from", s->cert_file);
	rc = trust_create(ctx->ssl_ctx, &trust, &ctx->trust, err);
	if (rc == 0)
		rc = key_load(ctx->ssl_ctx, s->key_file, s->cert_file, err);
	if (rc == 0)
		dates_warn(s->log, ctx->ssl_ctx, s->cert_file);
	return rc;
}

static int server_name_keep(struct tls_context *ctx, const char *name, struct kv_error *err)
{
	ctx->server_name = strdup(name);
	return ctx->server_name ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for the TLS settings");
}

static int verify(int ok, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct tls_stream *t = SSL_get_app_data(ssl);
	/* With a pre-shared key the trust store is empty: no certificate is accepted. */
	return t->ctx->trust ? trust_judge(t->ctx->trust, ok, store, &t->verdict) : ok;
}

/* OpenSSL has the first group from 3.5 on. */
static bool groups_set(SSL_CTX *ssl_ctx)
{
	static const char *const groups[] = {"X25519MLKEM768:X25519:P-256:P-384", "X25519:P-256:P-384"};
	for (size_t i = 0; i < KV_COUNT(groups); i++)
		if (SSL_CTX_set1_groups_list(ssl_ctx, groups[i]) == 1) {
			ERR_clear_error();
			return true;
		}
	return false;
}

static int policy_set(SSL_CTX *ssl_ctx)
{
	SSL_CTX_set_options(ssl_ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
					     SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ssl_ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ssl_ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_quiet_shutdown(ssl_ctx, 1);
	SSL_CTX_set_verify(ssl_ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
	return groups_set(ssl_ctx) && SSL_CTX_set_min_proto_version(ssl_ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ssl_ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_ciphersuites(ssl_ctx, "TLS_AES_128_GCM_SHA256") && SSL_CTX_set_num_tickets(ssl_ctx, 0);
}

static int credentials_set(struct tls_context *ctx, const struct tls_settings *s, struct kv_error *err)
{
	int rc = 0;
	if (s->psks) {
		ctx->psks = *s->psks;
		*s->psks = (struct secret_psks){0};
		SSL_CTX_set_psk_use_session_callback(ctx->ssl_ctx, s->server ? NULL : psk_use);
		SSL_CTX_set_psk_find_session_callback(ctx->ssl_ctx, s->server ? psk_find : NULL);
		/* A server that verifies certificates requires a session id context, also for our key's session. */
		if (s->server && SSL_CTX_set_session_id_context(ctx->ssl_ctx, (const unsigned char *)"kvrail", 6) != 1)
			return openssl_fail(err, -KV_ENOTSUP, "OpenSSL does not take", "a session id context");
		return 0;
	}
	rc = certificates_load(ctx, s, err);
	if (rc == 0 && s->server_name)
		rc = server_name_keep(ctx, s->server_name, err);
	return rc;
}

static void context_unref(struct tls_context *ctx)
{
	if (--ctx->refs > 0)
		return;
	SSL_CTX_free(ctx->ssl_ctx); /* also wipes the private key */
	trust_destroy(&ctx->trust);
	free(ctx->server_name);
	secret_psks_fini(&ctx->psks);
	free(ctx);
}

int tls_context_create(const struct tls_settings *settings, struct tls_context **out, struct kv_error *err)
{
	int rc;
	struct tls_context *ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return kv_fail(err, -KV_ENOMEM, "no memory for the TLS settings");
	ctx->server = settings->server;
	ctx->log = settings->log;
	ctx->gate = settings->gate;
	ctx->crl_kept = settings->crl_kept;
	ctx->refs = 1;
	ERR_clear_error();
	ctx->ssl_ctx = SSL_CTX_new(settings->server ? TLS_server_method() : TLS_client_method());
	if (!ctx->ssl_ctx || !policy_set(ctx->ssl_ctx)) {
		rc = openssl_fail(err, -KV_ENOTSUP, "OpenSSL cannot do", "TLS 1.3 with TLS_AES_128_GCM_SHA256");
		goto destroy;
	}
	if (!SSL_CTX_set_app_data(ctx->ssl_ctx, ctx)) {
		rc = openssl_fail(err, -KV_ENOMEM, "no memory for", "the TLS settings");
		goto destroy;
	}
	rc = credentials_set(ctx, settings, err);
	if (rc)
		goto destroy;
	*out = ctx;
	return 0;

destroy:
	context_unref(ctx);
	return rc;
}

void tls_context_release(struct tls_context **ctx)
{
	if (*ctx)
		context_unref(*ctx);
	*ctx = NULL;
}

void tls_context_follow(struct tls_context *ctx, const struct tls_context *former)
{
	ctx->gate = former->gate;
	ctx->log = former->log;
	if (ctx->trust)
		trust_log(ctx->trust, former->log);
}

/* ---- a failure in one sentence ---- */

/* A sentence's sides: PSK or certificates, client or server, or any. */
enum { SAYS_PSK = 1, SAYS_CERT = 2, SAYS_CLIENT = 4, SAYS_SERVER = 8, SAYS_ANY = 15 };

struct saying {
	int reason; /* of OpenSSL */
	int who;    /* one bit of each pair must match */
	const char *text;
};

#define KEYS_DIFFER "the pre-shared keys differ: make the hex digits after the identity the same on both sides"
#define NO_CERT     "the client showed no certificate: give it certificate, key and CA file"
#define OURS_REFUSED                                                                                                   \
	"it refused our certificate: the CA file of each side must hold the CA that issued the other side's "          \
	"certificate, and a CRL file a list of that CA; its log has the details. Or it has a pre-shared key and no "   \
	"certificates"

static const char not_tls[] =
	"it does not speak TLS 1.3: does it run without TLS (--insecure), or is it another program?";

static const struct saying sayings[] = {
	{SSL_R_WRONG_VERSION_NUMBER, SAYS_ANY, not_tls},
	{SSL_R_WRONG_SSL_VERSION, SAYS_ANY, not_tls},
	{SSL_R_HTTP_REQUEST, SAYS_ANY, "it speaks HTTP, and this port is the control port of a kv-server"},
	{SSL_R_HTTPS_PROXY_REQUEST, SAYS_ANY,
	 "it speaks to an HTTP proxy, and this port is the control port of a kv-server"},
	{SSL_R_BAD_RECORD_TYPE, SAYS_ANY, not_tls},
	{SSL_R_RECORD_LENGTH_MISMATCH, SAYS_ANY, not_tls},
	{SSL_R_RECORD_TOO_SMALL, SAYS_ANY, not_tls},
	{SSL_R_PACKET_LENGTH_TOO_LONG, SAYS_ANY, not_tls},
	{SSL_R_ENCRYPTED_LENGTH_TOO_LONG, SAYS_ANY, not_tls},
	{SSL_R_DATA_LENGTH_TOO_LONG, SAYS_ANY, not_tls},
	{SSL_R_UNSUPPORTED_PROTOCOL, SAYS_ANY, "it speaks an older TLS, and TLS 1.3 is needed"},
	{SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, SAYS_ANY, "it does not accept TLS 1.3, which is needed"},
	{SSL_R_BINDER_DOES_NOT_VERIFY, SAYS_ANY, KEYS_DIFFER},
	{SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, SAYS_PSK | SAYS_CLIENT, KEYS_DIFFER},
	{SSL_R_TLSV1_ALERT_DECRYPT_ERROR, SAYS_PSK | SAYS_CLIENT, KEYS_DIFFER},
	{SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, SAYS_PSK | SAYS_SERVER,
	 "the client brought no pre-shared key: give it the PSK of this server"},
	{SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, SAYS_CERT | SAYS_SERVER, NO_CERT},
	{SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, SAYS_CLIENT | SAYS_PSK | SAYS_CERT, NO_CERT},
	{SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, SAYS_CERT | SAYS_CLIENT,
	 "the server has no certificate to show: "
	 "does it use a pre-shared key instead? Give both sides the same kind of security"},
	{SSL_R_TLSV1_ALERT_UNKNOWN_CA, SAYS_CERT | SAYS_CLIENT | SAYS_SERVER, OURS_REFUSED},
	{SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, SAYS_CERT | SAYS_CLIENT | SAYS_SERVER,
	 "it refused our certificate: the name it looks for is not among the certificate's names, or the certificate "
	 "is not valid yet or malformed; its log has the details"},
	{SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, SAYS_CERT | SAYS_CLIENT | SAYS_SERVER,
	 "it refused our certificate: its key usage or extended key "
	 "usage does not allow this side's role; its log has the details"},
	{SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, SAYS_CERT | SAYS_CLIENT | SAYS_SERVER,
	 "it refused our certificate, which has expired, or its revocation list has: its log has the details"},
	{SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, SAYS_CERT | SAYS_CLIENT | SAYS_SERVER,
	 "it refused our certificate, which is revoked: ask its CA for a new one"},
	{SSL_R_TLSV1_ALERT_DECRYPT_ERROR, SAYS_CERT | SAYS_CLIENT | SAYS_SERVER, OURS_REFUSED},
	{SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, SAYS_CERT | SAYS_CLIENT | SAYS_SERVER, OURS_REFUSED},
};

static const char *saying_find(const struct tls_context *ctx, int reason)
{
	int kind = ctx->psks.count ? SAYS_PSK : SAYS_CERT, role = ctx->server ? SAYS_SERVER : SAYS_CLIENT;
	for (size_t i = 0; i < KV_COUNT(sayings); i++)
		if (sayings[i].reason == reason && (sayings[i].who & kind) && (sayings[i].who & role))
			return sayings[i].text;
	return NULL;
}

static int verify_explain(struct tls_stream *t)
{
	struct kv_error *f = &t->base.failure;
	if (!t->ctx->trust)
		return kv_fail(f, -KV_EDENIED,
			       "it uses certificates, and this side a pre-shared key: "
			       "give both sides the same kind of security");
	return trust_explain(t->ctx->trust, &t->verdict, t->expected, f);
}

/* OpenSSL sends no alert to a peer without TLS. A control client understands this one (conn.c). */
static void alert_add(struct tls_stream *t)
{
	static const uint8_t protocol_version[] = {0x15, 3, 3, 0, 2, 2, 70};
	if (t->ctx->server && BIO_ctrl_pending(t->out) == 0)
		(void)BIO_write(t->out, protocol_version, sizeof(protocol_version));
}

/* The first error of the TLS layer, else of any: layers have their own reason numbers. Empties the queue. */
static unsigned long error_take(void)
{
	unsigned long first = ERR_get_error(), e = first;
	while (e && ERR_GET_LIB(e) != ERR_LIB_SSL && ERR_GET_REASON(e) != ERR_R_MALLOC_FAILURE)
		e = ERR_get_error();
	ERR_clear_error();
	return e ? e : first;
}

static int tls_explain(struct tls_stream *t)
{
	struct kv_error *f = &t->base.failure;
	const struct tls_context *ctx = t->ctx;
	unsigned long e = error_take();
	int reason = ERR_GET_REASON(e);
	const char *text = saying_find(ctx, reason), *openssl = ERR_reason_error_string(e);
	ERR_clear_error();
	if (reason == ERR_R_MALLOC_FAILURE)
		return kv_fail(f, -KV_ENOMEM, "no memory for TLS");
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return verify_explain(t);
	if (t->unknown[0])
		return kv_fail(f, -KV_EDENIED,
			       "the client's PSK identity is \"%s\", ours is \"%s\"%s: use the same PSK on both sides",
			       t->unknown, secret_psks_own(&ctx->psks)->identity,
			       ctx->psks.count > 1 ? " or another" : "");
	if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE && ctx->psks.count && !ctx->server)
		return kv_fail(f, -KV_EDENIED,
			       "the server knows no PSK identity \"%s\": use the same PSK on both sides",
			       secret_psks_own(&ctx->psks)->identity);
	if (text == not_tls)
		alert_add(t);
	if (text)
		return kv_fail(f, -KV_EDENIED, "%s", text);
	return kv_fail(f, -KV_EDENIED, "TLS failed (%s)", openssl ? openssl : "OpenSSL gives no reason");
}

/* ---- between the BIOs and the socket ---- */

/* Returns the number of bytes, 0 (closed), or a stream's code. */
static ssize_t tls_fill_await(struct tls_stream *t, uint64_t deadline_ns)
{
	ssize_t n = io_read_await(t->fd, t->in_buf, sizeof(t->in_buf), deadline_ns);
	/* A server without TLS resets the connection, with our ClientHello unread: the same as a close. */
	if (n == -ECONNRESET && !SSL_is_init_finished(t->ssl))
		return 0;
	if (n < 0)
		return stream_lost(&t->base, (int)n);
	if (n > 0 && BIO_write(t->in, t->in_buf, (int)n) != n)
		return kv_fail(&t->base.failure, -KV_ENOMEM, "no memory for TLS");
	return n;
}

/* In the coroutine that has `flushing`, until the BIO is empty. */
static int tls_drain_await(struct tls_stream *t, uint64_t deadline_ns)
{
	for (;;) {
		if (t->out_off == t->out_len) {
			int n = BIO_read(t->out, t->out_buf, sizeof(t->out_buf));
			if (n <= 0)
				return 0;
			t->out_off = 0;
			t->out_len = (uint32_t)n;
		}
		ssize_t n = io_write_await(t->fd, t->out_buf + t->out_off, t->out_len - t->out_off, deadline_ns);
		if (n <= 0)
			return stream_lost(&t->base, n < 0 ? (int)n : -EIO);
		t->out_off += (uint32_t)n;
	}
}

static int tls_flush_await(struct tls_stream *t, uint64_t deadline_ns)
{
	while (t->flushing) {
		int rc = co_queue_wait_await(&t->flushers, deadline_ns);
		if (rc)
			return rc;
	}
	if (t->write_error)
		return t->write_error;
	t->flushing = true;
	int rc = tls_drain_await(t, deadline_ns);
	t->flushing = false;
	if (rc && rc != -KV_ETIMEOUT)
		t->write_error = rc;
	co_queue_wake_one(&t->flushers);
	return rc;
}

/* A reader's flush. A failed write does not stop reading: an earlier alert of the peer says more. */
static int tls_flush_read_await(struct tls_stream *t, uint64_t deadline_ns)
{
	size_t pending = BIO_ctrl_pending(t->out);
	if (t->flushing ? pending <= OUT_BUSY_MAX : pending == 0 && t->out_off == t->out_len)
		return 0;
	int rc = tls_flush_await(t, deadline_ns);
	return rc == -KV_ETIMEOUT ? rc : 0;
}

/* After a failure: let the alert leave. */
static void tls_linger_await(struct tls_stream *t, uint64_t deadline_ns)
{
	uint64_t soon = kv_deadline(loop_now(t->loop), ALERT_LINGER_NS);
	(void)tls_flush_await(t, KV_MIN(deadline_ns, soon));
}

/* ---- the stream ---- */

enum tls_step { STEP_HANDSHAKE, STEP_READ };

/* Whether the connection has ended, by the other side or by our server to make room: then compute nothing. A client
 * sends nothing between ClientHello and our answer, so one with a closed half has gone. */
static bool tls_gone(const struct tls_stream *t)
{
	struct pollfd p = {.fd = t->fd, .events = POLLRDHUP};
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Wait for a server's turn to compute. 1; 0: the client has gone; or a code. */
static int tls_turn_await(struct tls_stream *t, enum tls_step step, uint64_t deadline_ns)
{
	if (step != STEP_HANDSHAKE || !t->ctx->gate)
		return 1;
	const struct gate_comer comer = {.begun = t->answered, .source = t->source, .deadline_ns = deadline_ns};
	int rc;
	do
		rc = gate_pass_await(t->ctx->gate, t->loop, &comer);
	while (rc == -KV_ECANCELED && !tls_gone(t));
	if (rc == -KV_ECANCELED)
		return 0;
	/* Later steps are cheap, and the bytes may be the client's alert. */
	return rc ? rc : t->answered || !tls_gone(t);
}

/* Repeat an OpenSSL call, with input, until it is done. Returns 1 or the bytes read; 0 (closed); or a code. */
static ssize_t tls_step_await(struct tls_stream *t, enum tls_step step, void *buf, size_t len, uint64_t deadline_ns)
{
	for (;;) {
		size_t got = 1;
		int turn = tls_turn_await(t, step, deadline_ns);
		if (turn <= 0)
			return turn;
		ERR_clear_error();
		int ok = step == STEP_HANDSHAKE ? SSL_do_handshake(t->ssl) : SSL_read_ex(t->ssl, buf, len, &got);
		int error = ok == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, ok);
		t->answered |= BIO_ctrl_pending(t->out) > 0;
		if (error == SSL_ERROR_NONE && step == STEP_READ)
			return (ssize_t)got;
		if (error == SSL_ERROR_ZERO_RETURN)
			return 0;
		if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ) {
			int rc = tls_explain(t);
			tls_linger_await(t, deadline_ns);
			return rc;
		}
		int rc = tls_flush_read_await(t, deadline_ns);
		if (rc || error == SSL_ERROR_NONE)
			return rc ? rc : 1;
		ssize_t n = tls_fill_await(t, deadline_ns);
		if (n <= 0)
			return n;
	}
}

/* After opening, a TLS failure does not mean a refusal. */
static ssize_t tls_read_await(struct boot_stream *s, void *buf, size_t len, uint64_t deadline_ns)
{
	ssize_t n = tls_step_await(tls_of(s), STEP_READ, buf, len, deadline_ns);
	return n == -KV_EDENIED ? -KV_EPROTO : n;
}

static int tls_write_all_await(struct boot_stream *s, const void *buf, size_t len, uint64_t deadline_ns)
{
	struct tls_stream *t = tls_of(s);
	const uint8_t *at = buf;
	while (len) {
		size_t n = KV_MIN(len, (size_t)TLS_WRITE_MAX), wrote = 0;
		ERR_clear_error();
		/* The BIO takes all bytes, so only a half-sent post-handshake message of the peer can fail this. */
		if (SSL_write_ex(t->ssl, at, n, &wrote) != 1)
			return kv_fail(&s->failure, -KV_EPROTO, "TLS cannot send any more");
		int rc = tls_flush_await(t, deadline_ns);
		if (rc)
			return rc;
		at += wrote;
		len -= wrote;
	}
	return 0;
}

static int tls_export(struct boot_stream *s, const char *label, uint8_t *out, size_t len)
{
	int ok = SSL_export_keying_material(tls_of(s)->ssl, out, len, label, strlen(label), NULL, 0, 0);
	ERR_clear_error();
	return ok == 1 ? 0 : -KV_EPROTO;
}

static void tls_shutdown(struct boot_stream *s)
{
	io_shutdown(tls_of(s)->loop, tls_of(s)->fd);
}

static void tls_free(struct tls_stream *t)
{
	SSL_free(t->ssl); /* also frees both BIOs and wipes the keys */
	OPENSSL_cleanse(t->in_buf, sizeof(t->in_buf));
	context_unref(t->ctx);
	free(t);
}

static void tls_close(struct boot_stream *s)
{
	struct tls_stream *t = tls_of(s);
	io_close(t->loop, t->fd);
	tls_free(t);
}

static const struct boot_stream_ops tls_ops = {
	.read_await = tls_read_await,
	.write_all_await = tls_write_all_await,
	.export = tls_export,
	.shutdown = tls_shutdown,
	.close = tls_close,
};

/* ---- opening ---- */

static int tls_bios_make(struct tls_stream *t)
{
	t->ssl = SSL_new(t->ctx->ssl_ctx);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	if (!t->ssl || !in || !out || !SSL_set_app_data(t->ssl, t))
		goto free_bios;
	BIO_set_mem_eof_return(in, -1); /* empty is "later", not "the end" */
	BIO_set_mem_eof_return(out, -1);
	SSL_set_bio(t->ssl, in, out);
	t->in = in;
	t->out = out;
	return 0;

free_bios:
	BIO_free(in);
	BIO_free(out);
	return -KV_ENOMEM;
}

/* A client with certificates: set the name to request and to expect in the server's certificate. */
static int tls_name_set(struct tls_stream *t)
{
	char name[TRUST_HOST];
	if (!t->expected)
		return 0;
	trust_name(t->expected, name);
	int rc = trust_expect(t->ssl, name);
	if (rc == 0 && !trust_is_address(name) && SSL_set_tlsext_host_name(t->ssl, name) != 1)
		rc = -KV_ENOMEM;
	return rc;
}

static int tls_stream_make(struct tls_context *ctx, struct loop *loop, int fd, const struct tls_peer *peer,
			   struct tls_stream **out)
{
	struct tls_stream *t = calloc(1, sizeof(*t));
	if (!t)
		return -KV_ENOMEM;
	t->base.ops = &tls_ops;
	t->ctx = ctx;
	ctx->refs++;
	t->loop = loop;
	t->fd = fd;
	co_queue_init(&t->flushers);
	t->source = peer->source;
	t->expected = peer->name;
	int rc = tls_bios_make(t);
	if (rc == 0)
		rc = tls_name_set(t);
	if (rc)
		goto free_stream;
	if (ctx->server)
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	*out = t;
	return 0;

free_stream:
	ERR_clear_error();
	tls_free(t);
	return rc;
}

static int tls_closed(struct tls_stream *t)
{
	return kv_fail(&t->base.failure, -KV_EPEERDOWN,
		       t->ctx->server
			       ? "the client closed the connection during the TLS "
				 "handshake: its own error has the reason"
			       : "the server closed the connection during the TLS handshake: does it run without "
				 "TLS (--insecure), although this client has a key or certificate? Then give "
				 "one to both or to neither. Or it is ending or overloaded: the client tries "
				 "again. Its log has the reason");
}

/* Send or await the READY byte. */
static int tls_ready_await(struct tls_stream *t, uint64_t deadline_ns)
{
	uint8_t byte = READY;
	if (t->ctx->server)
		return tls_write_all_await(&t->base, &byte, 1, deadline_ns);
	ssize_t n = tls_step_await(t, STEP_READ, &byte, 1, deadline_ns);
	if (n <= 0)
		return n < 0 ? (int)n : tls_closed(t);
	return byte == READY ? 0 : kv_fail(&t->base.failure, -KV_EDENIED, "it speaks TLS but is not a kv-server");
}

static int tls_handshake_await(struct tls_stream *t, uint64_t deadline_ns)
{
	ssize_t n = t->ctx->server ? tls_fill_await(t, deadline_ns) : 1;
	if (n > 0)
		n = tls_step_await(t, STEP_HANDSHAKE, NULL, 0, deadline_ns);
	if (n <= 0)
		return n < 0 ? (int)n : tls_closed(t);
	if (t->ctx->psks.count && !SSL_session_reused(t->ssl))
		return kv_fail(&t->base.failure, -KV_EDENIED,
			       "it finished the TLS handshake without the pre-shared key");
	return tls_ready_await(t, deadline_ns);
}

static void tls_who_set(struct tls_stream *t)
{
	const struct secret_psks *psks = &t->ctx->psks;
	const char *identity;
	char name[WHO_SHOWN - 16];
	if (t->ctx->trust) {
		snprintf(t->who, sizeof(t->who), "certificate %s", trust_describe(t->ssl, name, sizeof(name)));
		trust_names(t->ssl, t->names, sizeof(t->names));
	} else {
		identity = t->ctx->server ? psks->key[t->psk].identity : secret_psks_own(psks)->identity;
		snprintf(t->who, sizeof(t->who), "PSK identity \"%s\"", identity);
		memcpy(t->names, identity, strcspn(identity, "#"));
	}
	t->base.who = t->who;
	t->base.names = t->names;
	t->base.expiry_s = t->ctx->trust ? trust_expiry(t->ssl) : 0;
}

static const char *tls_expected(const struct tls_context *ctx, const char *name)
{
	if (ctx->server || !ctx->trust)
		return NULL;
	return ctx->server_name ? ctx->server_name : name;
}

int tls_open_await(struct tls_context *ctx, struct loop *loop, int fd, const struct tls_peer *peer,
		   uint64_t deadline_ns, struct boot_stream **out, struct kv_error *err)
{
	struct tls_stream *t = NULL;
	struct tls_peer named = *peer;
	named.name = tls_expected(ctx, peer->name);
	if (ctx->trust && !ctx->server && !named.name)
		return kv_fail(err, -KV_EINVAL, "%s: no name is given to look for in the server's certificate",
			       peer->address);
	if (ctx->trust && !ctx->crl_kept)
		trust_refresh(ctx->trust, ctx->ssl_ctx, loop_now(loop));
	if (tls_stream_make(ctx, loop, fd, &named, &t))
		return kv_fail(err, -KV_ENOMEM, "%s: no memory for TLS", peer->address);
	int rc = tls_handshake_await(t, deadline_ns);
	t->expected = NULL; /* the caller's */
	if (rc == -KV_ETIMEOUT)
		kv_fail(err, rc,
			"%s: the TLS handshake was not finished by the deadline: "
			"does the peer speak TLS, and is it alive?",
			peer->address);
	else if (rc)
		kv_fail(err, rc, "%s: %s", peer->address, t->base.failure.text);
	if (rc) {
		tls_free(t);
		return rc;
	}
	tls_who_set(t);
	kv_debug(t->ctx->log, "%s: %s with %s, %s", peer->address, SSL_get_version(t->ssl), SSL_get_cipher_name(t->ssl),
		 t->who);
	*out = &t->base;
	return 0;
}
