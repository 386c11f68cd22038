/* SPDX-License-Identifier: Apache-2.0 */
/* secure.c -- see secure.h. The key is in a static, since OpenSSL's callback for keys gets the connection alone. No
 * tickets: nobody resumes. */
#include "kvbench/steps/secure.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

struct secure_context {
	SSL_CTX *ssl;
	bool server;
};

struct secure {
	SSL *ssl;
};

static unsigned char key[32];
static const char identity[] = "kvbench-scale";

static unsigned give_key(unsigned char *out, unsigned max)
{
	memcpy(out, key, KV_MIN(sizeof(key), (size_t)max));
	return sizeof(key) <= max ? sizeof(key) : 0;
}

static unsigned of_client(SSL *ssl, const char *hint, char *who, unsigned who_max, unsigned char *out, unsigned max)
{
	(void)ssl;
	(void)hint;
	snprintf(who, who_max, "%s", identity);
	return give_key(out, max);
}

static unsigned of_server(SSL *ssl, const char *who, unsigned char *out, unsigned max)
{
	(void)ssl;
	return strcmp(who, identity) == 0 ? give_key(out, max) : 0;
}

int secure_key_make(void)
{
	return kv_entropy_fill(&kv_entropy_kernel, key, sizeof(key));
}

int secure_context_create(bool server, struct secure_context **out, struct kv_error *err)
{
	struct secure_context *c = calloc(1, sizeof(*c));
	if (c)
		c->ssl = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	if (!c || !c->ssl || !SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(c->ssl, "TLS_AES_128_GCM_SHA256")) {
		secure_context_destroy(&c);
		return kv_fail(err, -KV_ENOMEM, "OpenSSL makes no context for TLS 1.3");
	}
	c->server = server;
	SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_num_tickets(c->ssl, 0);
	SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(c->ssl, SSL_VERIFY_NONE, NULL); /* the key is the proof, of both sides */
	if (server)
		SSL_CTX_set_psk_server_callback(c->ssl, of_server);
	else
		SSL_CTX_set_psk_client_callback(c->ssl, of_client);
	*out = c;
	return 0;
}

void secure_context_destroy(struct secure_context **ctx)
{
	if (!*ctx)
		return;
	SSL_CTX_free((*ctx)->ssl);
	free(*ctx);
	*ctx = NULL;
}

/* errno is that of the socket, where OpenSSL has no error of its own. */
static int failed(SSL *ssl, int rc, int otherwise)
{
	int why = SSL_get_error(ssl, rc), error = errno;
	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ||
	    (why == SSL_ERROR_SYSCALL && (error == EAGAIN || error == EINTR)))
		return -KV_ETIMEOUT;
	return otherwise;
}

int secure_open(struct secure_context *ctx, int fd, struct secure **out)
{
	struct secure *s = calloc(1, sizeof(*s));
	int rc = -KV_ENOMEM, done;
	if (s)
		s->ssl = SSL_new(ctx->ssl);
	if (s && s->ssl && SSL_set_fd(s->ssl, fd)) {
		errno = 0;
		done = ctx->server ? SSL_accept(s->ssl) : SSL_connect(s->ssl);
		rc = done == 1 ? 0 : failed(s->ssl, done, -KV_EDENIED);
	}
	/* Without this a server that never asked for the key would do as well. */
	if (rc == 0 && !SSL_session_reused(s->ssl))
		rc = -KV_EDENIED;
	if (rc < 0)
		secure_close(&s);
	else
		*out = s;
	return rc;
}

void secure_close(struct secure **s)
{
	if (!*s)
		return;
	SSL_free((*s)->ssl);
	free(*s);
	*s = NULL;
}

int secure_read(struct secure *s, void *buf, size_t len)
{
	for (size_t have = 0; have < len;) {
		int n;
		errno = 0;
		n = SSL_read(s->ssl, (char *)buf + have, (int)(len - have));
		if (n <= 0)
			return failed(s->ssl, n, -KV_EPEERDOWN);
		have += (size_t)n;
	}
	return 0;
}

int secure_write(struct secure *s, const void *buf, size_t len)
{
	for (size_t done = 0; done < len;) {
		int n;
		errno = 0;
		n = SSL_write(s->ssl, (const char *)buf + done, (int)(len - done));
		if (n <= 0)
			return failed(s->ssl, n, -KV_EPEERDOWN);
		done += (size_t)n;
	}
	return 0;
}
