/* SPDX-License-Identifier: Apache-2.0 */
/* trust.h -- which certificates one side believes: CA file, revocation lists, names, key usages. Private to bootstrap/.
 * Thread: any to create it, then the loop of the side. */
#ifndef KVRAIL_BOOTSTRAP_TRUST_H
#define KVRAIL_BOOTSTRAP_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/types.h>

#include "base/base.h"

enum {
	TRUST_NAME = 160, /* characters of a name that is shown, with the final 0 */
	TRUST_HOST = 256  /* ... of a name that is looked for */
};

struct trust;

struct trust_settings {
	bool server;                    /* our role: the other side's certificate must be for the other role */
	const char *ca_file, *crl_file; /* PEM; crl_file may be NULL. Copied */
	const struct kv_log *log;
};

/* The verdict on a certificate, for the sentence. All zero: nothing was refused. */
struct trust_verdict {
	int error; /* X509_V_... */
	enum { TRUST_USAGE_FINE, TRUST_USAGE_ROLE, TRUST_USAGE_KEY } usage;
	int depth; /* of the certificate in its chain: 0 is the peer's own */
	char name[TRUST_NAME], issuer[TRUST_NAME];
};

/* trust_create -- read the CA file and the CRL file, and let ssl_ctx verify by them. Errors, each with a sentence:
 * -errno, -KV_EINVAL (not PEM; a list that has expired or is not valid yet), -KV_ENOMEM. trust_destroy -- call it after
 * the SSL_CTX is freed; *trust may be NULL. */
int trust_create(SSL_CTX *ssl_ctx, const struct trust_settings *settings, struct trust **out, struct kv_error *err);
void trust_destroy(struct trust **trust);

/* trust_log -- set the log. */
void trust_log(struct trust *trust, const struct kv_log *log);

/* trust_refresh -- call it before a handshake: if the CRL file has changed, read it and the CA file again. The file is
 * looked at once a second. A file that cannot be read leaves everything as it was, and gives a warning in the log. */
void trust_refresh(struct trust *trust, SSL_CTX *ssl_ctx, uint64_t now_ns);

/* trust_name -- write a host in the form that certificates have: without a zone (fe80::1%eth0) and without a final dot.
 */
void trust_name(const char *host, char out[TRUST_HOST]);

/* trust_expect -- on a client: set the name (DNS name or address) that the server's certificate must have among its
 * subject alternative names. Returns 0 or -KV_ENOMEM. */
int trust_expect(SSL *ssl, const char *name);

/* trust_judge -- the body of OpenSSL's verify callback. Returns 1 to go on, 0 to refuse; the first refusal is in
 * *verdict. */
int trust_judge(const struct trust *trust, int ok, X509_STORE_CTX *store, struct trust_verdict *verdict);

/* trust_explain -- write the sentence of a verdict; returns -KV_EDENIED. expected: the name that was looked for, or
 * NULL. */
int trust_explain(const struct trust *trust, const struct trust_verdict *verdict, const char *expected,
		  struct kv_error *err);

/* trust_describe -- write "CN=..., DNS:..., IP:..." of the peer's certificate, printable and cut at cap. Returns buf.
 */
/* trust_expiry -- the second since 1970 after which the peer's certificate, or one of those that vouch for it, is not
 * valid; INT64_MAX: there is none. */
int64_t trust_expiry(const SSL *ssl);
char *trust_describe(const SSL *ssl, char *buf, size_t cap);

/* trust_is_address -- whether the name is an IP address and not a DNS name. */
bool trust_is_address(const char *name);

#endif
