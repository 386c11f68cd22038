/* SPDX-License-Identifier: Apache-2.0 */
/* trust.h -- the certificates that one side accepts: CA file, revocation lists, names, key usages. Private to
 * bootstrap/. Thread: any to create it, then the side's loop. */
#ifndef KVRAIL_BOOTSTRAP_TRUST_H
#define KVRAIL_BOOTSTRAP_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/types.h>

#include "base/base.h"

enum {
	TRUST_NAME = 160, /* characters shown of a name, with the final 0 */
	TRUST_HOST = 256  /* ... of an expected name */
};

struct trust;

struct trust_settings {
	bool server;                    /* our role */
	const char *ca_file, *crl_file; /* PEM; crl_file may be NULL. Copied */
	const struct kv_log *log;
};

/* A verdict, for the sentence. Zeroed: nothing was refused. */
struct trust_verdict {
	int error; /* X509_V_... */
	enum { TRUST_USAGE_FINE, TRUST_USAGE_ROLE, TRUST_USAGE_KEY } usage;
	int depth; /* in its chain; 0: the peer's own */
	char name[TRUST_NAME], issuer[TRUST_NAME];
};

/* trust_create -- read CA file and CRL file, and let ssl_ctx verify by them. Errors, with a sentence: -errno,
 * -KV_EINVAL (no PEM; a list outside its dates), -KV_ENOMEM. trust_destroy -- after the SSL_CTX is freed; *trust may be
 * NULL. */
int trust_create(SSL_CTX *ssl_ctx, const struct trust_settings *settings, struct trust **out, struct kv_error *err);
void trust_destroy(struct trust **trust);

void trust_log(struct trust *trust, const struct kv_log *log);

/* trust_refresh -- before a handshake: reread CA and CRL files if the CRL file has changed; it is checked once a
 * second. An unreadable file changes nothing and is logged. */
void trust_refresh(struct trust *trust, SSL_CTX *ssl_ctx, uint64_t now_ns);

/* trust_name -- a host as certificates have it: without zone (fe80::1%eth0) and final dot. */
void trust_name(const char *host, char out[TRUST_HOST]);

/* trust_expect -- on a client: require this DNS name or address among the server's subject alternative names. 0 or
 * -KV_ENOMEM. */
int trust_expect(SSL *ssl, const char *name);

/* trust_judge -- the body of OpenSSL's verify callback. 1: go on; 0: refuse. *verdict has the first refusal. */
int trust_judge(const struct trust *trust, int ok, X509_STORE_CTX *store, struct trust_verdict *verdict);

/* trust_explain -- the sentence of a verdict; returns -KV_EDENIED. expected: a name, or NULL. */
int trust_explain(const struct trust *trust, const struct trust_verdict *verdict, const char *expected,
		  struct kv_error *err);

/* trust_file_check -- whether a file can be read, of which OpenSSL would only say "system lib". 0 or -errno. */
int trust_file_check(const char *path, const char *what, struct kv_error *err);

/* trust_names -- the names of the peer's certificate, "CN=..." and "DNS:...", each ended by 0, and another 0. Those
 * that do not fit, or are not printable, are left out. */
void trust_names(const SSL *ssl, char *buf, size_t cap);
/* trust_describe -- "CN=..., DNS:..., IP:..." of the peer's certificate, printable, cut at cap. Returns buf. */
/* trust_expiry -- boot_peer_expiry. */
int64_t trust_expiry(const SSL *ssl);
char *trust_describe(const SSL *ssl, char *buf, size_t cap);

/* trust_is_address -- an IP address, not a DNS name. */
bool trust_is_address(const char *name);

#endif
