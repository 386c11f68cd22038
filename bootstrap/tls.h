/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h -- TLS 1.3 as a byte stream. Private to bootstrap/. Of this folder only tls.c, trust.c and hmac.c know OpenSSL.
 */
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
	const struct secret_psks *psks;             /* one at least; or NULL: certificates. Copied */
	const char *cert_file, *key_file, *ca_file; /* all three unless psks is set; read at once */
	const char *crl_file;                       /* or NULL: nothing is checked for revocation */
	bool crl_kept;           /* the loop does not read a changed list: another thread makes a new context */
	const char *server_name; /* client with certificates: looked for instead of the dialled name; or NULL. Copied */
	struct gate *gate;       /* server: the gate of its computations; outlives the context */
	const struct kv_log *log;
};

/* tls_context_create -- Errors: -KV_EINVAL, -KV_EDENIED (mode of the key file), -KV_ENOMEM, -errno. Thread: any. */
int tls_context_create(const struct tls_settings *settings, struct tls_context **out, struct kv_error *err);

/* tls_context_release -- end the owner's reference: no stream is made from the context any more, and the last of its
 * streams frees it. *ctx may be NULL. Thread: the streams' loop. tls_context_follow -- take over gate and log of the
 * former context, before the first stream. */
void tls_context_release(struct tls_context **ctx);
void tls_context_follow(struct tls_context *ctx, const struct tls_context *former);

/* The other side: its address, for messages, and, for a client with certificates, the DNS name or address that was
 * dialled. The caller keeps both until the call returns. */
struct tls_peer {
	const char *address, *name;
	uint64_t source; /* of a client: the share of the server's computing that it takes (gate.h) */
};

/* tls_open_await -- make the handshake over a connected socket. Returns 0 when each side has accepted the other; then
 * the stream owns fd. Otherwise the caller still does. Errors: -KV_EDENIED (TLS refused: the sentence tells what to
 * check), -KV_ETIMEOUT, -KV_EPEERDOWN, -KV_EINVAL (no name to look for), -KV_ENOMEM. */
int tls_open_await(struct tls_context *ctx, struct loop *loop, int fd, const struct tls_peer *peer,
		   uint64_t deadline_ns, struct boot_stream **out, struct kv_error *err);

#endif
