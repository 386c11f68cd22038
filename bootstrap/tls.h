/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h -- TLS 1.3 as a byte stream. Private to bootstrap/; tls.c is the only file that knows OpenSSL. */
#ifndef KVRAIL_BOOTSTRAP_TLS_H
#define KVRAIL_BOOTSTRAP_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "bootstrap/secret.h"
#include "bootstrap/stream.h"

struct tls_context;
struct gate;

struct tls_settings {
	bool server;
	const struct secret_psk *psk;               /* or NULL: certificates; copied */
	const char *cert_file, *key_file, *ca_file; /* all three, unless psk; read at once */
	const char *crl_file;                       /* or NULL: nothing is looked up */
	bool crl_kept;           /* a changed one is read by somebody else, who makes a new context */
	const char *server_name; /* client with certificates: instead of that which is dialled; or NULL; copied */
	struct gate *gate;       /* server: for its computations; outlives the context */
	const struct kv_log *log;
};

/* tls_context_create -- Errors: -KV_EINVAL, -KV_EDENIED (mode of the key file), -KV_ENOMEM, -errno. Thread: any. */
int tls_context_create(const struct tls_settings *settings, struct tls_context **out, struct kv_error *err);

/* tls_context_release -- no stream is made from it any more; it goes with the last of those that were. Thread: the
 * streams' loop. NULL inside is accepted. tls_context_follow -- gate and log of a former one, before the first stream.
 */
void tls_context_release(struct tls_context **ctx);
void tls_context_follow(struct tls_context *ctx, const struct tls_context *former);

/* The other side: its address, for messages; and, for a client with certificates, the DNS name or address by which it
 * was dialled. Both the caller's, until the call returns. */
struct tls_peer {
	const char *address, *name;
	uint64_t source; /* of a client: whose share of the server's computing it takes (gate.h) */
};

/* tls_open_await -- handshake over a connected socket; 0 means that each side has accepted the other. The stream owns
 * fd when this returns 0; else the caller still does. Errors: -KV_EDENIED (TLS said no: the sentence says what to
 * check), -KV_ETIMEOUT, -KV_EPEERDOWN, -KV_EINVAL (no name to look for), -KV_ENOMEM. */
int tls_open_await(struct tls_context *ctx, struct loop *loop, int fd, const struct tls_peer *peer,
		   uint64_t deadline_ns, struct boot_stream **out, struct kv_error *err);

#endif
